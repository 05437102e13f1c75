"""Functions of top-level `torch` that PyTorch's own layers call, with the order of arguments that they have there.

Programs write those of `torch.nn.functional` or `torch.nn`; exported and generated code has these. Beside them are what
a build of PyTorch tells of itself, and a few functions that are no ops.
"""

from __future__ import annotations

import functools

import plugrad
from plugrad import Tensor, contiguous_format, nn
from plugrad._C import DisableTorchFunction, DisableTorchFunctionSubclass
from plugrad.amp import GradScaler
from plugrad.arguments import checked
from plugrad.backends import is_deterministic_algorithms_warn_only_enabled
from plugrad.cuda import Event, Stream
from plugrad.native.aten import (  # noqa: F401 -- torch.ops.aten asks for inner_op
    _chunk_cat,
    _log_softmax_backward_data,
    _native_batch_norm_legit,
    _softmax_backward_data,
    _unsafe_masked_index,
    _unsafe_masked_index_put_accumulate,
    inner_op,
)
from plugrad.native.losses import (
    binary_cross_entropy_with_logits,
    cosine_embedding_loss,
    ctc_loss,
    hinge_embedding_loss,
    kl_div,
    margin_ranking_loss,
    poisson_nll_loss,
    triplet_margin_loss,
)
from plugrad.native.lowrank import lobpcg, pca_lowrank, svd_lowrank
from plugrad.nn import functional as F
from plugrad.overrides import overridable
from plugrad.random import thread_safe_generator
from plugrad.storage import UntypedStorage as StorageBase

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "Event", "FatalError", "GradScaler", "StorageBase",
    "Stream", "_chunk_cat", "_log_softmax_backward_data", "_native_batch_norm_legit", "_segment_reduce",
    "_softmax_backward_data", "_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "alpha_dropout_",
    "batch_norm", "binary_cross_entropy_with_logits", "compiled_with_cxx11_abi", "conv_tbc", "cosine_embedding_loss",
    "ctc_loss", "dropout_", "embedding_renorm_", "feature_alpha_dropout_", "feature_dropout_", "frobenius_norm",
    "from_file", "get_deterministic_debug_mode", "get_device_module", "get_num_interop_threads", "gru", "gru_cell",
    "has_lapack", "has_mkl", "has_openmp", "has_spectral", "hinge_embedding_loss", "instance_norm",
    "is_deterministic_algorithms_warn_only_enabled", "is_distributed", "is_vulkan_available", "kl_div",
    "legacy_contiguous_format", "lobpcg", "lstm", "lstm_cell", "margin_ranking_loss", "nuclear_norm", "pca_lowrank",
    "poisson_nll_loss", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", "segment_reduce",
    "set_anomaly_enabled", "set_deterministic_debug_mode", "set_flush_denormal", "set_num_interop_threads",
    "slice_copy", "svd_lowrank", "thread_safe_generator", "to_dlpack", "triplet_margin_loss",
]  # fmt: skip

has_lapack = has_spectral = True
has_mkl = has_openmp = False
legacy_contiguous_format = contiguous_format


class FatalError(Exception):
    """What PyTorch raises for errors that end a program; never raised here."""


# ---------------------------------------------------------------------------------------------------- norms


@overridable
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled=False):
    """Normalize over the batch; see `torch.nn.functional.batch_norm`."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@overridable
def instance_norm(
    input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=False
):  # fmt: skip
    """Normalize each channel of each item; see `torch.nn.functional.instance_norm`."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@overridable
def nuclear_norm(input, dim=(-2, -1), keepdim=False, *, out=None):
    """Sum of the singular values of matrices; see `torch.linalg.matrix_norm`."""
    if isinstance(dim, bool):
        dim, keepdim = (-2, -1), dim
    return plugrad.linalg.matrix_norm(input, "nuc", dim, keepdim, out=out)


@overridable
def frobenius_norm(input, dim, keepdim=False, *, out=None):
    """Root of the sum of squares over dimensions."""
    dims = [dim] if isinstance(dim, int) else list(dim)
    return plugrad.linalg.vector_norm(input, 2, dims or None, keepdim, out=out)


def conv_tbc(input, weight, bias, pad=0):
    """Convolve (time, batch, channel) with (width, channels in, channels out)."""
    if input.ndim != 3 or weight.ndim != 3 or bias.ndim != 1:
        raise RuntimeError("conv_tbc: input and weight must have 3 dims: time, batch, channel; the bias 1 dim")
    result = F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return result.permute(2, 0, 1)


# ---------------------------------------------------------------------------------------------------- recurrent layers


def _gates(gates, input, hx, w_ih, w_hh, b_ih, b_hh):
    """Return what input and state contribute to the gates of a cell, after a look at their sizes."""
    hidden = hx.shape[-1]
    if input.shape[-1] != w_ih.shape[-1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {w_ih.shape[-1]}")
    if input.shape[0] != hx.shape[0]:
        raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden0 batch size {hx.shape[0]}")
    for name, weight in (("weight_ih", w_ih), ("weight_hh", w_hh)):
        if weight.shape[0] != gates * hidden:
            raise RuntimeError(
                f"{name} first dim must be {gates} * hidden_size = {gates * hidden}, but got {weight.shape[0]}"
            )
    return F.linear(input, w_ih, b_ih), F.linear(hx, w_hh, b_hh)


@overridable
def rnn_tanh_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a recurrent layer with tanh."""
    return sum(_gates(1, input, hx, w_ih, w_hh, b_ih, b_hh)).tanh()


@overridable
def rnn_relu_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a recurrent layer with relu."""
    return sum(_gates(1, input, hx, w_ih, w_hh, b_ih, b_hh)).relu()


@overridable
def gru_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of a GRU."""
    of_input, of_state = _gates(3, input, hx, w_ih, w_hh, b_ih, b_hh)
    (r, z, n), (hr, hz, hn) = of_input.chunk(3, -1), of_state.chunk(3, -1)
    reset, update = (r + hr).sigmoid(), (z + hz).sigmoid()
    new = (n + reset * hn).tanh()
    return new + update * (hx - new)


@overridable
def lstm_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    """One step of an LSTM; `hx` and the result are (hidden state, cell state)."""
    hidden, cell = hx
    i, f, g, o = sum(_gates(4, input, hidden, w_ih, w_hh, b_ih, b_hh)).chunk(4, -1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def _recurrent(cls, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first, **options):
    state = hx[0] if isinstance(hx, (tuple, list)) else hx
    width = params[0].shape[1]
    layer = cls(
        width, params[1].shape[1], num_layers, bias=has_biases, batch_first=batch_first, dropout=dropout,
        bidirectional=bidirectional, device="meta", dtype=state.dtype, **options,
    ).train(train)  # fmt: skip
    named = dict(zip([name for name, _ in layer.named_parameters()], params))
    given = tuple(hx) if isinstance(hx, (tuple, list)) else hx
    output, state = plugrad.func.functional_call(layer, named, (input, given))
    return output, *(state if isinstance(state, tuple) else (state,))


@overridable
def lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Run an LSTM with given parameters; return (output, hidden states, cell states)."""
    return _recurrent(
        nn.LSTM, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )  # fmt: skip


@overridable
def gru(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Run a GRU with given parameters; return (output, hidden states)."""
    return _recurrent(nn.GRU, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@overridable
def rnn_tanh(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Run a recurrent layer with tanh; return (output, hidden states)."""
    return _recurrent(nn.RNN, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)


@overridable
def rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Run a recurrent layer with relu; return (output, hidden states)."""
    return _recurrent(
        nn.RNN, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        nonlinearity="relu",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- written in place


def _in_place(name):
    def function(input, p, train):
        return input.copy_(getattr(plugrad, name)(input, p, train))

    function.__name__ = function.__qualname__ = f"{name}_"
    function.__doc__ = f"In-place version of `{name}`."
    return function


dropout_, alpha_dropout_ = _in_place("dropout"), _in_place("alpha_dropout")
feature_dropout_, feature_alpha_dropout_ = _in_place("feature_dropout"), _in_place("feature_alpha_dropout")


@overridable
def embedding_renorm_(input, indices, max_norm, norm_type):
    """Scale the rows of given indices whose norm is greater down to it, in place."""
    with plugrad.no_grad():
        rows = indices.unique()
        norms = plugrad.linalg.vector_norm(input[rows], norm_type, 1, keepdim=True)
        input[rows] = plugrad.where(norms > max_norm, input[rows] * (max_norm / (norms + 1e-7)), input[rows])
    return input


# ---------------------------------------------------------------------------------------------------- others


@overridable
def slice_copy(input, dim=0, start=None, end=None, step=1):
    """Return a copy of every `step`-th slice from `start` to `end` along a dimension."""
    index = [slice(None)] * input.ndim
    index[dim] = slice(start, end, step)
    return input[tuple(index)].clone(memory_format=contiguous_format)


@overridable
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    """Reduce consecutive parts of a dimension: "sum", "mean", "prod", "max" or "min".

    The parts are given by their `lengths`, or by `offsets`, the places where they begin and the last one ends.

    >>> import plugrad as torch
    >>> torch.segment_reduce(torch.arange(4.0), "sum", lengths=torch.tensor([1, 3]))
    tensor([0., 6.])
    """
    names = {"sum": ("sum", 0.0), "mean": ("mean", float("nan")), "prod": ("prod", 1.0),
             "max": ("amax", -float("inf")), "min": ("amin", float("inf"))}  # fmt: skip
    names |= {"amax": names["max"], "amin": names["min"]}
    if reduce not in names:
        raise RuntimeError(f"unsupported reduction given! {reduce!r}: write one of {', '.join(names)}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None:
        if offsets is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
        lengths = offsets.diff()
    axis = axis + data.ndim if -data.ndim <= axis < 0 else axis
    if axis < 0 or lengths.ndim != axis + 1 or lengths.shape[:axis] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce(): lengths {tuple(lengths.shape)} must be those of axis {axis} of data "
            f"{tuple(data.shape)}: one dimension more than the ones in front of it"
        )
    if not unsafe and lengths.numel():
        if (lengths < 0).any():
            raise RuntimeError("lengths contains negative value!")
        if (lengths.sum(-1) != data.shape[axis]).any():
            raise RuntimeError("Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1)")
    method, empty = names[reduce]
    empty = empty if initial is None else initial
    counts, rows = lengths.reshape(-1, lengths.shape[-1]).tolist(), data.flatten(0, axis - 1) if axis > 1 else data
    rows = rows if axis else data[None]
    reduced = [
        _reduced(part, method, empty, initial)
        for row, sizes in zip(rows, counts, strict=True)
        for part in row[: sum(sizes)].split(sizes)
    ]
    shape = (*lengths.shape, *data.shape[axis + 1 :])
    return plugrad.stack(reduced).reshape(shape) if reduced else data.new_empty(shape)


_segment_reduce = segment_reduce


def _reduced(part, method, empty, initial):
    if not len(part):
        return part.sum(0) + empty  # recorded, although no gradient will come
    result = _over(part, method)
    if initial is None:
        return result
    if method == "mean":
        return result + initial / len(part)
    if method in ("amax", "amin"):  # whose limits take no gradient from NaN
        limited = result.clamp_min(initial) if method == "amax" else result.clamp_max(initial)
        return plugrad.where(result.isnan(), result, limited)
    return result + initial if method == "sum" else result * initial


def _over(part, method):
    """Reduce the first dimension; beside NaN the gradients go, as PyTorch's of segments do, to what made the result."""
    nan = part.isnan()
    if method not in ("prod", "amax", "amin") or not nan.any():
        return getattr(part, method)(0)
    if method == "prod":
        return functools.reduce(plugrad.mul, part.unbind(0))
    without = getattr(part.masked_fill(nan.any(0), 0), method)(0)
    return plugrad.where(nan.any(0), part.masked_fill(~nan, 0).sum(0) / nan.sum(0), without)


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=False):
    """Return a tensor over a file's elements; with `shared` writes go there."""
    dtype = dtype or plugrad.get_default_dtype()
    storage = StorageBase.from_file(filename, bool(shared), size * dtype.itemsize)
    return plugrad.storage.tensor_over(storage, dtype)


def _shape_as_tensor(input):
    return plugrad.tensor(list(input.shape))


@checked(tensor="tensor")
def to_dlpack(tensor):
    """Return a capsule of DLPack's with the memory of a tensor."""
    return tensor.detach().__dlpack__()


def get_device_module(device=None):
    """Return the module of a type of device: `torch.cuda` or `torch.cpu`."""
    name = plugrad.device("cpu" if device is None else device).type
    module = getattr(plugrad, name, None)
    if module is None:
        raise RuntimeError(f"Invalid device string: {name!r} has no module")
    return module


@overridable
def is_distributed(input: Tensor) -> bool:
    """Always False: a tensor is in one process."""
    return False


def is_vulkan_available() -> bool:
    """Always False: there is no such backend."""
    return False


def compiled_with_cxx11_abi() -> bool:
    """Return True, as builds of PyTorch do today; nothing of plugrad is compiled."""
    return True


def get_num_interop_threads() -> int:
    """Return 1: calls run one after another."""
    return 1


def set_num_interop_threads(n: int) -> None:
    """Accept a positive number of calls beside each other; RuntimeError otherwise."""
    if not isinstance(n, int) or n <= 0:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, not {n!r}")


def set_flush_denormal(mode: bool) -> bool:
    """Return False: NumPy keeps denormal numbers."""
    return False


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Turn anomaly mode on or off; see `torch.autograd.set_detect_anomaly`."""
    plugrad.autograd.set_detect_anomaly(enabled, check_nan)


def set_deterministic_debug_mode(debug_mode) -> None:
    """Note what ops that can't be deterministic should do; there are none.

    0 or "default" is nothing, 1 or "warn" a warning, 2 or "error" an error.
    """
    names = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in names:
            raise RuntimeError(f"invalid value of debug_mode, expected one of {', '.join(names)}, got {debug_mode}")
        debug_mode = names[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}")
    plugrad.use_deterministic_algorithms(debug_mode > 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Return what `set_deterministic_debug_mode` set: 0, 1 or 2."""
    return plugrad.are_deterministic_algorithms_enabled() * (2 - is_deterministic_algorithms_warn_only_enabled())
