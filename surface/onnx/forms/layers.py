"""Convolution, pooling, normalization, recurrent steps and interpolation in ONNX."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.onnx.builder import Output
from plugrad.onnx.declaring import form
from plugrad.onnx.tracing import Size


@form("convolve")
def convolve_form(g, input, weight, bias, geometry):
    options = dict(strides=list(geometry.stride), dilations=list(geometry.dilation), group=geometry.groups,
                   pads=[*geometry.padding] * 2)  # fmt: skip
    if not geometry.transposed:
        return g.op("Conv", input, weight, bias, **options)
    return g.op("ConvTranspose", input, weight, bias, output_padding=list(geometry.output_padding), **options)


def _per_axis(value, n) -> list:
    value = [value] if isinstance(value, int) else list(value)
    return value * n if len(value) == 1 else value


def _pooled(g, kind, n, input, kernel, stride, padding, ceil_mode, **options):
    """Add a pooling node; of an input without a batch that of a batch of one."""
    kernel = _per_axis(kernel, n)
    stride = kernel if stride is None or stride == () else _per_axis(stride, n)
    single = input.rank == n + 1
    batch = g.op("Unsqueeze", input, [0]) if single else input
    result = g.op(kind, batch, kernel_shape=kernel, strides=stride, pads=_per_axis(padding, n) * 2,
                  ceil_mode=int(ceil_mode), **options)  # fmt: skip
    return g.op("Squeeze", result, [0]) if single else result


def _pooling(n):
    @form(f"max_pool{n}d")
    def max_pool_form(g, input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        if return_indices:
            raise NotImplementedError("return_indices counts elements in another way in ONNX: leave it out")
        return _pooled(
            g, "MaxPool", n, input, kernel_size, stride, padding, ceil_mode, dilations=_per_axis(dilation, n)
        )

    @form(f"avg_pool{n}d")
    def avg_pool_form(
        g, input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
    ):
        if divisor_override is not None:
            raise NotImplementedError("divisor_override has no counterpart: multiply the result")
        return _pooled(
            g,
            "AveragePool",
            n,
            input,
            kernel_size,
            stride,
            padding,
            ceil_mode,
            count_include_pad=int(count_include_pad),
        )

    @form(f"adaptive_avg_pool{n}d")
    def adaptive_form(g, input, output_size):
        return _adaptive(g, n, input, output_size, "ReduceMean", "AveragePool")

    @form(f"adaptive_max_pool{n}d")
    def adaptive_max_form(g, input, output_size, return_indices=False):
        if return_indices:
            raise NotImplementedError("return_indices counts elements in another way in ONNX: leave it out")
        return _adaptive(g, n, input, output_size, "ReduceMax", "MaxPool")


def _adaptive(g, n, input, output_size, whole, parts):
    sizes = list(g.results[0].shape[-n:])
    if sizes == [1] * n:
        return g.op(whole, input, list(range(input.rank - n, input.rank)), keepdims=1)
    lengths = g.fixed(input.shape[-n:], "the size of an image that is pooled to another size than 1")
    if any(isinstance(one, Size) for one in sizes) or any(a % b for a, b in zip(lengths, sizes)):
        raise NotImplementedError(f"windows of different sizes can't be exported: {list(lengths)} to {sizes}")
    kernel = [a // b for a, b in zip(lengths, sizes)]
    return _pooled(g, parts, n, input, kernel, None, 0, False)


for _n in (1, 2, 3):
    _pooling(_n)


@form("normalize_by")
def normalize_by_form(g, input, weight, bias, mean, variance, shape, eps):
    channels = mean.shape[0]
    weight = weight if weight is not None else g.constant(numpy.ones(channels), mean.dtype)
    bias = bias if bias is not None else g.constant(numpy.zeros(channels), mean.dtype)
    return g.op("BatchNormalization", input, weight, bias, mean, variance, epsilon=float(eps))


@form("normalize_affine")
def normalize_affine_form(g, input, weight, bias, dims, shape, eps, layout=None):
    """LayerNormalization where the last dimensions are brought to mean 0, else what it is made of."""
    rank = len(layout) if layout is not None else input.rank
    last = list(dims) == list(range(rank - len(dims), rank)) and layout is None
    if last and tuple(shape) == tuple(input.shape[rank - len(dims) :]):
        weight = weight if weight is not None else g.constant(numpy.ones(tuple(g.fixed(shape, "a shape"))), input.dtype)
        mean, scale = None, None
        result = g.op("LayerNormalization", input, weight, bias, axis=-len(dims), epsilon=float(eps))
        return result, mean, scale
    values = input if layout is None else g.reshape(input, layout)
    mean = g.op("ReduceMean", values, list(dims), keepdims=1)
    apart = g.op("Sub", values, mean)
    variance = g.op("ReduceMean", g.op("Mul", apart, apart), list(dims), keepdims=1)
    result = g.op("Div", apart, g.op("Sqrt", g.op("Add", variance, float(eps))))
    for kind, one in (("Mul", weight), ("Add", bias)):
        if one is not None:
            result = g.op(kind, result, g.reshape(one, shape))
    return (result if layout is None else g.reshape(result, input.shape)), mean, variance


@form("normalize_rows")
def normalize_rows_form(g, input, weight, bias, shape, eps):
    return normalize_affine_form(g, input, weight, bias, range(input.rank - len(shape), input.rank), shape, eps)[0]


@form("_running_average")
def running_average_form(g, input, latest, scale, momentum):
    moved = g.op("Mul", g.reshape(latest, input.shape), momentum * scale)
    return g.op("Add", g.op("Mul", input, 1 - momentum), moved)


# ------------------------------------------------------------------------------------------------ recurrent


@form("lstm_sequence")
def lstm_sequence_form(g, gates, hidden, cell, weight):
    """ONNX's LSTM on the shares of the gates as they are: the weight of the input is the identity."""
    if gates.rank != 3:
        raise NotImplementedError("a step of an LSTM without a batch can't be exported: write x[None]")
    n = cell.shape[-1]
    order = numpy.concatenate([numpy.arange(n) + k * n for k in (0, 3, 1, 2)])  # ONNX has input, output, forget, cell
    identity = g.constant(numpy.eye(4 * n)[order][None], gates.dtype)
    inner = g.op("Unsqueeze", g.op("Gather", g.permute(weight, [1, 0]), g.constant(order, plugrad.int64)), [0])
    outputs, _, last = g.op(
        "LSTM", gates, identity, inner, None, None, g.op("Unsqueeze", hidden, [0]), g.op("Unsqueeze", cell, [0]),
        hidden_size=n, outputs=3,
    )  # fmt: skip
    return g.op("Squeeze", outputs, [1]), last if gates.shape[0] == 1 else Output("", last=g.op("Squeeze", last, [0]))


@form("gru_sequence")
def gru_sequence_form(g, gates, hidden, weight, bias):
    """ONNX's GRU on the shares of the gates as they are; it has the update gate first."""
    n = hidden.shape[-1]
    order = numpy.concatenate([numpy.arange(n) + k * n for k in (1, 0, 2)])
    places = g.constant(order, plugrad.int64)
    identity = g.constant(numpy.eye(3 * n)[order][None], gates.dtype)
    inner = g.op("Unsqueeze", g.op("Gather", g.permute(weight, [1, 0]), places), [0])
    if bias is not None:
        of_input = g.constant(numpy.zeros(3 * n), gates.dtype)
        bias = g.op("Unsqueeze", g.op("Concat", of_input, g.op("Gather", bias, places), axis=0), [0])
    outputs = g.op(
        "GRU", gates, identity, inner, bias, None, g.op("Unsqueeze", hidden, [0]),
        hidden_size=n, linear_before_reset=1,
    )  # fmt: skip
    return g.op("Squeeze", outputs, [1])


@form("rnn_sequence")
def rnn_sequence_form(g, sums, hidden, weight, relu):
    n = hidden.shape[-1]
    identity, inner = g.constant(numpy.eye(n)[None], sums.dtype), g.op("Unsqueeze", g.permute(weight, [1, 0]), [0])
    first = g.op("Unsqueeze", hidden, [0])
    options = {"hidden_size": n, "activations": ["Relu" if relu else "Tanh"]}
    return g.op("Squeeze", g.op("RNN", sums, identity, inner, None, None, first, **options), [1])


# ------------------------------------------------------------------------------------------------ images


@form("interpolate", "upsample")
def interpolate_form(
    g, input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
    antialias=False,
):  # fmt: skip
    if mode == "area":
        raise NotImplementedError("mode='area' can't be exported: write adaptive_avg_pool2d")
    options = {"mode": {"nearest": "nearest", "nearest-exact": "nearest", "bicubic": "cubic"}.get(mode, "linear")}
    if mode.startswith("nearest"):
        exact = mode == "nearest-exact"
        options["coordinate_transformation_mode"] = "half_pixel" if exact else "asymmetric"
        options["nearest_mode"] = "round_prefer_ceil" if exact else "floor"
    else:
        options["coordinate_transformation_mode"] = "align_corners" if align_corners else "pytorch_half_pixel"
        options["cubic_coeff_a"] = (-0.5 if antialias else -0.75) if mode == "bicubic" else None
        options["antialias"] = int(antialias) if antialias else None
    if scale_factor is None or recompute_scale_factor:
        return g.op("Resize", input, None, None, list(g.results[0].shape), **options)
    n = input.rank - 2
    factors = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * n
    return g.op("Resize", input, None, numpy.asarray([1, 1, *factors], numpy.float32), **options)


@form("grid_sample")
def grid_sample_form(g, input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    names = {"bilinear": "linear", "bicubic": "cubic"} if g.opset >= 20 else {}
    if input.rank != 4 and g.opset < 20:
        raise NotImplementedError("of volumes it needs opset_version=20 or greater")
    return g.op("GridSample", input, grid, mode=names.get(mode, mode), padding_mode=padding_mode,
                align_corners=int(bool(align_corners)))  # fmt: skip
