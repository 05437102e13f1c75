"""Recurrent cells: one step, for those who write the loop themselves."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Module, collect, hookimpl

from ._cells import STEPS, check_tensor, given_state, share_of_input
from ._common import parameter, within


class RNNCellBase(Module):
    """What the cells share.

    Args:
        input_size, hidden_size: sizes of the input's and the state's vectors.
        bias: whether there are any.
        num_chunks: gates.
    """

    def __init__(self, input_size, hidden_size, bias, num_chunks, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = parameter(rows, input_size, device=device, dtype=dtype)
        self.weight_hh = parameter(rows, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, parameter(rows, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Give all parameters new values, uniform on +-1 / sqrt(hidden_size)."""
        for weight in self.parameters():
            within(weight, 1 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0)

    def extra_repr(self):
        text = f"{self.input_size}, {self.hidden_size}" + (f", bias={self.bias}" if self.bias is not True else "")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def _step(self, mode, input, given, count):
        """Return the next state, a tuple of `count` tensors in the number of dimensions of the input."""
        name = type(self).__name__
        check_tensor(input)
        if input.ndim not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.ndim}D instead")
        if given is None:
            shape = (*input.shape[:-1], self.hidden_size)
            state = (plugrad.zeros(shape, dtype=input.dtype, device=input.device),) * count
        elif count == 2 and isinstance(given, (tuple, list)) and len(given) != 2:
            raise RuntimeError(f"lstm_cell expects two hidden states: a tuple (h, c), not one of {len(given)}")
        else:
            state = given_state(given, count)
        for number, part in enumerate(state):
            if part.ndim not in (1, 2):
                which = "hidden" if count == 1 else f"hx[{number}]"
                raise ValueError(f"{name}: Expected {which} to be 1D or 2D, got {part.ndim}D instead")
        single = input.ndim == 1
        if single:
            input, state = input[None], tuple(part[None] if part.ndim == 1 else part for part in state)
        if input.shape[1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {self.input_size}")
        for number, part in enumerate(state):
            if part.shape[0] != input.shape[0]:
                raise RuntimeError(
                    f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size {part.shape[0]}"
                )
            if part.shape[1] != self.hidden_size:
                raise RuntimeError(
                    f"hidden{number} has inconsistent hidden_size: got {part.shape[1]}, expected {self.hidden_size}"
                )
        share = share_of_input(mode, input, self.weight_ih, self.bias_ih, self.bias_hh)
        state = STEPS[mode](share, state, self.weight_hh.T, self.bias_hh, None)
        return tuple(part.squeeze(0) for part in state) if single else state


class RNNCell(RNNCellBase):
    """One step of an RNN: h' = tanh(W x + U h + b).

    Args:
        input_size, hidden_size, bias: see RNNCellBase.
        nonlinearity: 'tanh' or 'relu'.

    Called as `cell(input, hx=None)` with (batch, size) or (size,) tensors. Raises ValueError for others and
    RuntimeError for other sizes.

    >>> import plugrad as torch
    >>> torch.nn.RNNCell(10, 20)(torch.ones(3, 10)).shape
    torch.Size([3, 20])
    """

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        mode = f"RNN_{self.nonlinearity.upper()}"
        return self._step(mode, input, hx, 1)[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Called as `cell(input, (h, c)=None)`; returns (h, c). See LSTM and RNNCell.

    >>> import plugrad as torch
    >>> h, c = torch.nn.LSTMCell(10, 20)(torch.ones(3, 10))
    >>> h.shape
    torch.Size([3, 20])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input, hx=None):
        return self._step("LSTM", input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Called as `cell(input, hx=None)`. See GRU and RNNCell.

    >>> import plugrad as torch
    >>> torch.nn.GRUCell(10, 20)(torch.ones(10)).shape
    torch.Size([20])
    """

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input, hx=None):
        return self._step("GRU", input, hx, 1)[0]


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
