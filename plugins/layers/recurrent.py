"""Recurrent layers over whole sequences: RNN, LSTM, GRU; several layers, both directions, packed batches."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Module, hookimpl
from plugrad.nn import functional as F

from ._cells import GATES, RUNS, blocks_of, check_tensor, given_state, share_of_input, walk
from ._common import parameter, within


class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    Args:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
        input_size, hidden_size: sizes of the input's and the state's vectors.
        num_layers: layers, each of which takes the output of the one before.
        bias: whether there are any.
        batch_first: input and output are (batch, sequence, size) rather than (sequence, batch, size).
        dropout: probability of dropout between the layers.
        bidirectional: add layers that read backwards; outputs are joined.
        proj_size: size to which an LSTM's output is projected; 0 does not.

    Raises ValueError and TypeError for sizes that can't be. Parameters start uniform on +-1 / sqrt(hidden_size).
    """

    @classmethod
    def samples(cls, make):
        mode = ("GRU",) if cls is RNNBase else ()
        yield (*mode, 4, 3), make(5, 2, 4)
        yield make.args(*mode, 4, 3, num_layers=2, batch_first=True, bidirectional=True), make(2, 3, 4)

    def __init__(
        self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0,
        bidirectional=False,
        proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        _check_sizes(mode, input_size, hidden_size, num_layers, dropout, proj_size, bias=bias, batch_first=batch_first)
        if dropout > 0 and num_layers == 1:
            import warnings

            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
                "num_layers "
                f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=3,
            )
        for option, value in (("batch_first", batch_first), ("bidirectional", bidirectional)):
            if not isinstance(value, bool):
                raise TypeError(f"{mode}: {option} must be bool, not {type(value).__name__}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._weight_names = []
        gates, output = GATES[mode] * hidden_size, proj_size or hidden_size
        for layer in range(num_layers):
            size = output * (1 + bidirectional) if layer else input_size
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                shapes = {"weight_ih": (gates, size), "weight_hh": (gates, output)}
                if bias:
                    shapes.update(bias_ih=(gates,), bias_hh=(gates,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    setattr(self, f"{name}_l{layer}{suffix}", parameter(*shape, device=device, dtype=dtype))
                self._weight_names.append([f"{name}_l{layer}{suffix}" for name in shapes])
        self.reset_parameters()

    def reset_parameters(self):
        """Give all parameters new random values."""
        for weight in self.parameters():
            within(weight, 1 / math.sqrt(self.hidden_size))

    @property
    def all_weights(self) -> list:
        """The parameters: a list for each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._weight_names]

    @property
    def _flat_weights(self) -> list:  # which copies of PyTorch's own layers read
        return [weight for weights in self.all_weights for weight in weights]

    @property
    def _flat_weights_names(self) -> list:
        return [name for names in self._weight_names for name in names]

    def flatten_parameters(self) -> None:
        """Do nothing: no library here wants the parameters in one piece of memory."""

    def extra_repr(self):
        parts = [f"{self.input_size}, {self.hidden_size}"]
        for name, plain in (
            ("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0.0),
            ("bidirectional", False),
        ):  # fmt: skip
            if getattr(self, name) != plain:
                parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)

    # The state is a tuple of tensors (layers * directions, batch, size) inside, for an RNN of one.

    @property
    def _state_sizes(self) -> tuple:
        """Sizes of the vectors of the state."""
        return (self.hidden_size,)

    def _state(self, hx, batched, batch, like) -> tuple:
        """Return the given first state, or zeros, as a tuple of tensors with a batch dimension."""
        rows = self.num_layers * (1 + self.bidirectional)
        shapes = [(rows, batch, size) for size in self._state_sizes]
        if hx is None:
            return tuple(plugrad.zeros(shape, dtype=like.dtype, device=like.device) for shape in shapes)
        given = given_state(hx, len(shapes))
        wanted = 3 if batched else 2
        if any(part.ndim != wanted for part in given):
            names = ("hx",) if len(given) == 1 else ("hx", "cx")
            expected = "batched 3-D" if batched else "unbatched 2-D"
            got = ", ".join(f"{part.ndim}-D" for part in given)
            got = f"({got}) tensors" if len(given) > 1 else f"{got} tensor"
            raise RuntimeError(f"For {expected} input, {' and '.join(names)} should also be {wanted}-D but got {got}")
        parts = tuple(part if batched else part[:, None] for part in given)
        for number, (part, shape) in enumerate(zip(parts, shapes)):
            if tuple(part.shape) != shape:
                name = "hidden" if len(parts) == 1 else f"hidden[{number}]"
                raise RuntimeError(f"Expected {name} size {shape}, got {list(part.shape)}")
        return parts

    def _check_input(self, input, packed):
        name = type(self).__name__
        check_tensor(input)
        if not packed and input.ndim not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.ndim}D instead")
        weight = getattr(self, self._weight_names[0][0])
        if input.dtype is not weight.dtype and not plugrad.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). Convert input: "
                f"input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )

    def forward(self, input, hx=None):
        packed = isinstance(input, plugrad.nn.utils.rnn.PackedSequence)
        if packed:
            data, sizes, order, back = input
            self._check_input(data, True)
            sizes = sizes.tolist()
            state = self._state(hx, True, sizes[0], data)
            if order is not None and hx is not None:
                state = tuple(part.index_select(1, order) for part in state)
            result, state = self._run(data, sizes, state)
            if back is not None:
                state = tuple(part.index_select(1, back) for part in state)
            return type(input)(result, input.batch_sizes, order, back), self._shown(state)
        self._check_input(input, False)
        batched = input.ndim == 3
        if not batched:
            input = input[:, None]
        elif self.batch_first:
            input = input.transpose(0, 1)
        length, batch = input.shape[:2]
        if not length:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        result, state = self._run(input, None, self._state(hx, batched, batch, input))
        if not batched:
            return result.squeeze(1), self._shown(tuple(part.squeeze(1) for part in state))
        return (result.transpose(0, 1) if self.batch_first else result), self._shown(state)

    def _shown(self, state):
        return state[0] if len(state) == 1 else state

    def _run(self, data, sizes, state):
        """Return the last layer's output and the last states; `sizes` are those of the steps' batches if packed."""
        run, last, directions = RUNS[self.mode], [], 1 + self.bidirectional
        states = list(zip(*(part.unbind(0) for part in state)))
        for layer in range(self.num_layers):
            sides = []
            for direction in range(directions):
                number = layer * directions + direction
                weight, hidden_weight, *rest = (getattr(self, name) for name in self._weight_names[number])
                projection = rest.pop() if self.proj_size else None
                bias, hidden_bias = rest or (None, None)
                share = share_of_input(self.mode, data, weight, bias, hidden_bias)
                blocks = [share] if sizes is None else blocks_of(share, sizes)
                weights = (hidden_weight.T, hidden_bias, projection)
                outputs, final = walk(run, blocks, states[number], weights, direction == 1)
                sides.append(outputs[0] if sizes is None else plugrad.cat([part.flatten(0, 1) for part in outputs]))
                last.append(final)
            data = sides[0] if directions == 1 else plugrad.cat(sides, -1)
            if self.dropout and layer < self.num_layers - 1:
                data = F.dropout(data, self.dropout, self.training)
        return data, tuple(plugrad.stack(parts) for parts in zip(*last))


def _check_sizes(mode, input_size, hidden_size, num_layers, dropout, proj_size, **flags) -> None:
    if mode not in GATES:
        raise ValueError(f"Unrecognized RNN mode: {mode}; it is one of {', '.join(GATES)}")
    if isinstance(dropout, bool) or not isinstance(dropout, (int, float)) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed; it is "
            f"{dropout if isinstance(dropout, (int, float)) else type(dropout).__name__}"
        )
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int) or isinstance(size, bool):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero, it is {size}")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError(f"proj_size has to be smaller than hidden_size: {proj_size} and {hidden_size}")


class RNN(RNNBase):
    """Elman's recurrent network: h' = tanh(W x + U h + b), over sequences.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: see RNNBase.
        nonlinearity: 'tanh' or 'relu'.

    Called as `layer(input, hx=None)` with an input (sequence, batch, input_size), also without a batch or packed, and a
    first state (layers * directions, batch, hidden_size), zeros when None. Returns (output, last state).

    >>> import plugrad as torch
    >>> output, state = torch.nn.RNN(10, 20, 2)(torch.ones(5, 3, 10))
    >>> output.shape, state.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
        bidirectional=False, proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        if proj_size:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.nonlinearity = nonlinearity
        super().__init__(
            f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, bias, batch_first, dropout,
            bidirectional,
            0, device, dtype,
        )  # fmt: skip


class LSTM(RNNBase):
    """Long short-term memory over sequences.

    The arguments are those of RNNBase without `mode`. Called as `layer(input, (h, c)=None)`; h is (layers * directions,
    batch, proj_size or hidden_size), c (layers * directions, batch, hidden_size). Returns (output, (h, c)). The rows of
    the weights are those of the input, forget, cell and output gates. S. Hochreiter, J. Schmidhuber, 1997; projection:
    H. Sak, A. Senior, F. Beaufays, arXiv:1402.1128.

    >>> import plugrad as torch
    >>> output, (h, c) = torch.nn.LSTM(10, 20, bidirectional=True)(torch.ones(5, 3, 10))
    >>> output.shape, h.shape
    (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
        proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__(
            "LSTM",
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            proj_size,
            device,
            dtype,
        )

    @property
    def _state_sizes(self):
        return (self.proj_size or self.hidden_size, self.hidden_size)


class GRU(RNNBase):
    """Gated recurrent units over sequences.

    The arguments are those of RNNBase without `mode` and `proj_size`. Called and returning like RNN. The rows of the
    weights are those of the reset, update and new gates. K. Cho et al., arXiv:1406.1078.

    >>> import plugrad as torch
    >>> output, state = torch.nn.GRU(10, 20, batch_first=True)(torch.ones(3, 5, 10))
    >>> output.shape, state.shape
    (torch.Size([3, 5, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(
        self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
        proj_size=0, device=None, dtype=None,
    ):  # fmt: skip
        if proj_size:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )


@hookimpl
def plugrad_layers():
    return [RNNBase, RNN, LSTM, GRU]
