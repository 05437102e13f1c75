"""ONNX's operators, run by plugrad's ops. Each is `f(module, node, *inputs)`; an input left out is None."""

from __future__ import annotations

import math

import plugrad
from plugrad.nn import functional as F
from plugrad.onnx.reading import TYPES

OPERATORS: dict = {}


def operator(*kinds: str):
    """Return a decorator that declares how operators are run: `f(module, node, *inputs)` returns a result or several.

    `node.attributes` has what the node says; an input left out is None.
    """

    def declare(function):
        OPERATORS.update(dict.fromkeys(kinds, function))
        return function

    return declare


def _plain(table, take):
    for entry in table.split():
        kind, _, name = entry.partition("=")
        OPERATORS[kind] = take(getattr(plugrad, name or kind.lower(), None) or getattr(F, name or kind.lower()))


_plain(
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu Round Sigmoid Sign Sin Sinh "
    "Sqrt Tan Tanh Identity=clone Not=logical_not BitwiseNot=bitwise_not IsNaN=isnan IsInf=isinf Mish=mish "
    "HardSwish=hardswish Softplus=softplus Softsign=softsign",
    lambda function: lambda module, node, x: function(x),
)
_plain(
    "Add Sub Mul Pow And=logical_and Or=logical_or Xor=logical_xor BitwiseAnd=bitwise_and BitwiseOr=bitwise_or "
    "BitwiseXor=bitwise_xor Equal=eq Greater=gt GreaterOrEqual=ge Less=lt LessOrEqual=le MatMul=matmul",
    lambda function: lambda module, node, x, y: function(x, y),
)


@operator("Identity")
def identity(module, node, x):
    return x


@operator("Div")
def div(module, node, x, y):
    return x / y if x.is_floating_point() else plugrad.div(x, y, rounding_mode="trunc")


@operator("Mod")
def mod(module, node, x, y):
    return plugrad.fmod(x, y) if node.attributes.get("fmod") else plugrad.remainder(x, y)


def _folded(function):
    def run(module, node, first, *others):
        for other in others:
            first = function(first, other)
        return first

    return run


OPERATORS.update(Max=_folded(plugrad.maximum), Min=_folded(plugrad.minimum), Sum=_folded(plugrad.add))


@operator("Where")
def where(module, node, condition, x, y):
    return plugrad.where(condition, x, y)


@operator("Clip")
def clip(module, node, x, low=None, high=None):
    low = node.attributes.get("min") if low is None else low
    high = node.attributes.get("max") if high is None else high
    return x if low is None and high is None else plugrad.clamp(x, low, high)


@operator("Cast")
def cast(module, node, x):
    dtype = TYPES.get(node.attributes["to"])
    if dtype is None:
        raise NotImplementedError(f"Cast to ONNX's type {node.attributes['to']}, which plugrad has no dtype for")
    return x.to(dtype)


@operator("Constant")
def constant(module, node):
    for key in ("value", "value_float", "value_int", "value_floats", "value_ints"):
        if key in node.attributes:
            value = node.attributes[key]
            kind = plugrad.float32 if "float" in key else plugrad.int64
            return value if key == "value" else plugrad.tensor(value, dtype=kind)
    raise NotImplementedError(f"a Constant with {', '.join(node.attributes) or 'nothing'} in it is not read")


@operator("ConstantOfShape")
def constant_of_shape(module, node, shape):
    value = node.attributes.get("value")
    value = plugrad.zeros(1) if value is None else value
    return value.reshape(()).expand(shape.tolist())


# ------------------------------------------------------------------------------------------------ activations


@operator("Elu")
def elu(module, node, x):
    return F.elu(x, node.attributes.get("alpha", 1.0))


@operator("Selu")
def selu(module, node, x):
    alpha, gamma = node.attributes.get("alpha", 1.67326319217681884765625), node.attributes.get("gamma", 1.05070102214813232)
    return gamma * F.elu(x, alpha)


@operator("Celu")
def celu(module, node, x):
    return F.celu(x, node.attributes.get("alpha", 1.0))


@operator("LeakyRelu")
def leaky_relu(module, node, x):
    return F.leaky_relu(x, node.attributes.get("alpha", 0.01))


@operator("PRelu")
def prelu(module, node, x, slope):
    return plugrad.where(x > 0, x, x * slope)


@operator("HardSigmoid")
def hard_sigmoid(module, node, x):
    return plugrad.clamp(node.attributes.get("alpha", 0.2) * x + node.attributes.get("beta", 0.5), 0, 1)


@operator("Gelu")
def gelu(module, node, x):
    return F.gelu(x, approximate=node.attributes.get("approximate", "none"))


@operator("Shrink")
def shrink(module, node, x):
    limit, bias = node.attributes.get("lambd", 0.5), node.attributes.get("bias", 0.0)
    return plugrad.where(x < -limit, x + bias, plugrad.where(x > limit, x - bias, plugrad.zeros_like(x)))


@operator("Softmax")
def softmax(module, node, x):
    return plugrad.softmax(x, node.attributes.get("axis", -1))


@operator("LogSoftmax")
def log_softmax(module, node, x):
    return plugrad.log_softmax(x, node.attributes.get("axis", -1))


@operator("Dropout")
def dropout(module, node, x, ratio=None, training=None):
    return F.dropout(x, 0.5 if ratio is None else float(ratio), module.training), plugrad.ones_like(x, dtype=plugrad.bool)


# ------------------------------------------------------------------------------------------------ shapes


@operator("Shape")
def shape(module, node, x):
    return plugrad.tensor(list(x.shape)[node.attributes.get("start", 0) : node.attributes.get("end")], dtype=plugrad.int64)


@operator("Size")
def size(module, node, x):
    return plugrad.tensor(x.numel())


@operator("Reshape")
def reshape(module, node, x, target):
    sizes = target.tolist()
    if not node.attributes.get("allowzero"):
        sizes = [x.shape[i] if one == 0 else one for i, one in enumerate(sizes)]
    return x.reshape(sizes)


@operator("Flatten")
def flatten(module, node, x):
    axis = node.attributes.get("axis", 1)
    return x.reshape(math.prod(x.shape[:axis]), -1)


@operator("Transpose")
def transpose(module, node, x):
    return x.permute(node.attributes.get("perm") or list(range(x.dim()))[::-1])


def _listed(node, axes):
    """Return axes, which stand among the inputs, or in old files among the attributes; None for none."""
    return node.attributes.get("axes") if axes is None else axes.tolist()


@operator("Unsqueeze")
def unsqueeze(module, node, x, axes=None):
    axes = _listed(node, axes)
    for axis in sorted(one % (x.dim() + len(axes)) for one in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Squeeze")
def squeeze(module, node, x, axes=None):
    axes = _listed(node, axes)
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


@operator("Expand")
def expand(module, node, x, target):
    return x.expand(plugrad.broadcast_shapes(x.shape, tuple(target.tolist())))


@operator("Tile")
def tile(module, node, x, repeats):
    return x.repeat(repeats.tolist())


@operator("Concat")
def concat(module, node, *parts):
    return plugrad.cat(parts, node.attributes["axis"])


@operator("Split")
def split(module, node, x, sizes=None):
    axis = node.attributes.get("axis", 0)
    if sizes is not None or "split" in node.attributes:
        return plugrad.split(x, node.attributes["split"] if sizes is None else sizes.tolist(), axis)
    return plugrad.split(x, -(-x.shape[axis] // len(node.outputs)), axis)


@operator("Slice")
def slice_(module, node, x, starts, stops, axes=None, steps=None):
    starts, stops = starts.tolist(), stops.tolist()
    axes = list(range(len(starts))) if axes is None else axes.tolist()
    for start, stop, axis, step in zip(starts, stops, axes, [1] * len(starts) if steps is None else steps.tolist()):
        places = range(*slice(start, stop, step).indices(x.shape[axis]))
        if step > 0:
            x = x[(slice(None),) * (axis % x.dim()) + (slice(places.start, max(places.stop, places.start), step),)]
        else:
            x = plugrad.index_select(x, axis, plugrad.tensor(list(places), dtype=plugrad.int64, device=x.device))
    return x


@operator("Gather")
def gather(module, node, x, places):
    axis = node.attributes.get("axis", 0) % x.dim()
    places = plugrad.where(places < 0, places + x.shape[axis], places)
    if axis == 0 and x.is_floating_point() and x.dim() == 2:
        return F.embedding(places, x)
    return x[(slice(None),) * axis + (places,)]


@operator("GatherElements")
def gather_elements(module, node, x, places):
    axis = node.attributes.get("axis", 0)
    return plugrad.gather(x, axis, plugrad.where(places < 0, places + x.shape[axis], places))


@operator("GatherND")
def gather_nd(module, node, x, places):
    if node.attributes.get("batch_dims"):
        raise NotImplementedError("GatherND with batch_dims is not there")
    return x[places.unbind(-1)]


@operator("ScatterElements")
def scatter_elements(module, node, x, places, updates):
    axis, how = node.attributes.get("axis", 0), node.attributes.get("reduction", "none")
    places = plugrad.where(places < 0, places + x.shape[axis], places)
    if how == "none":
        return plugrad.scatter(x, axis, places, updates)
    return plugrad.scatter_reduce(x, axis, places, updates, {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how])


@operator("NonZero")
def non_zero(module, node, x):
    return plugrad.nonzero(x).t()


@operator("Pad")
def pad(module, node, x, pads=None, value=None, axes=None):
    pads = node.attributes.get("pads") if pads is None else pads.tolist()
    axes = list(range(x.dim())) if axes is None else axes.tolist()
    each = {axis % x.dim(): (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    flat = [one for axis in reversed(range(x.dim())) for one in each.get(axis, (0, 0))]
    while flat[-2:] == [0, 0]:
        flat = flat[:-2]
    mode = {"edge": "replicate", "wrap": "circular"}.get(node.attributes.get("mode", "constant"), node.attributes.get("mode"))
    if not flat:
        return x
    if mode in (None, "constant"):
        return F.pad(x, flat, value=0 if value is None else value.item())
    return F.pad(x, flat, mode)


@operator("Trilu")
def trilu(module, node, x, k=None):
    return (plugrad.triu if node.attributes.get("upper", 1) else plugrad.tril)(x, 0 if k is None else int(k))


@operator("Range")
def range_(module, node, start, stop, step):
    return plugrad.arange(start.item(), stop.item(), step.item(), dtype=start.dtype)


@operator("OneHot")
def one_hot(module, node, places, depth, values):
    depth, axis = int(depth), node.attributes.get("axis", -1)
    hit = plugrad.where(places < 0, places + depth, places).unsqueeze(-1) == plugrad.arange(depth)
    return plugrad.where(hit, values[1], values[0]).movedim(-1, axis)


# ------------------------------------------------------------------------------------------------ reductions


def _reduction(function):
    def run(module, node, x, axes=None):
        axes = _listed(node, axes)
        if not axes and node.attributes.get("noop_with_empty_axes"):
            return x
        keep = bool(node.attributes.get("keepdims", 1))
        return function(x, tuple(axes) if axes else tuple(range(x.dim())), keep)

    return run


def _product(x, axes, keep):
    for axis in sorted((one % x.dim() for one in axes), reverse=True):
        x = plugrad.prod(x, axis, keepdim=keep)
    return x


OPERATORS.update(
    ReduceSum=_reduction(lambda x, axes, keep: plugrad.sum(x, axes, keep, dtype=x.dtype)),
    ReduceMean=_reduction(plugrad.mean), ReduceMax=_reduction(plugrad.amax), ReduceMin=_reduction(plugrad.amin),
    ReduceProd=_reduction(_product), ReduceLogSumExp=_reduction(plugrad.logsumexp),
    ReduceL1=_reduction(lambda x, axes, keep: plugrad.linalg.vector_norm(x, 1, axes, keep)),
    ReduceL2=_reduction(lambda x, axes, keep: plugrad.linalg.vector_norm(x, 2, axes, keep)),
    ReduceSumSquare=_reduction(lambda x, axes, keep: plugrad.sum(x * x, axes, keep)),
    ReduceLogSum=_reduction(lambda x, axes, keep: plugrad.log(plugrad.sum(x, axes, keep))),
)  # fmt: skip


def _place(function):
    def run(module, node, x):
        axis, keep = node.attributes.get("axis", 0), bool(node.attributes.get("keepdims", 1))
        return function(x, axis, keep)

    return run


OPERATORS.update(ArgMax=_place(plugrad.argmax), ArgMin=_place(plugrad.argmin))


@operator("CumSum")
def cumsum(module, node, x, axis):
    if node.attributes.get("reverse") or node.attributes.get("exclusive"):
        raise NotImplementedError("CumSum in reverse or exclusive is not there")
    return plugrad.cumsum(x, int(axis), dtype=x.dtype)


@operator("TopK")
def topk(module, node, x, k):
    axis, largest = node.attributes.get("axis", -1), bool(node.attributes.get("largest", 1))
    return tuple(plugrad.topk(x, int(k), axis, largest, bool(node.attributes.get("sorted", 1))))


# ------------------------------------------------------------------------------------------------ products and layers


@operator("Gemm")
def gemm(module, node, a, b, c=None):
    has = node.attributes
    product = (a.t() if has.get("transA") else a) @ (b.t() if has.get("transB") else b)
    alpha, beta = has.get("alpha", 1.0), has.get("beta", 1.0)
    product = product if alpha == 1 else alpha * product
    return product if c is None else product + (c if beta == 1 else beta * c)


@operator("Einsum")
def einsum(module, node, *operands):
    return plugrad.einsum(node.attributes["equation"], *operands)


def _geometry(node, n, x, kernel, dilation, stride):
    """Return x padded as a node says, and the padding that is the same on both sides and so left to the layer."""
    pads, auto = node.attributes.get("pads", [0] * 2 * n), node.attributes.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        pads = [0] * 2 * n
        for i in range(n):
            size = x.shape[2 + i]
            total = max((-(-size // stride[i]) - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1 - size, 0)
            low = total // 2 if auto == "SAME_UPPER" else total - total // 2
            pads[i], pads[n + i] = low, total - low
    return x, pads


def _padded(x, pads, n, value=0.0):
    flat = [one for i in reversed(range(n)) for one in (pads[i], pads[n + i])]
    return F.pad(x, flat, value=value) if any(flat) else x


@operator("Conv")
def conv(module, node, x, weight, bias=None):
    n, has = x.dim() - 2, node.attributes
    stride, dilation = has.get("strides", [1] * n), has.get("dilations", [1] * n)
    x, pads = _geometry(node, n, x, weight.shape[2:], dilation, stride)
    layer = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    if pads[:n] == pads[n:]:
        return layer(x, weight, bias, stride, pads[:n], dilation, has.get("group", 1))
    return layer(_padded(x, pads, n), weight, bias, stride, 0, dilation, has.get("group", 1))


@operator("ConvTranspose")
def conv_transpose(module, node, x, weight, bias=None):
    n, has = x.dim() - 2, node.attributes
    pads = has.get("pads", [0] * 2 * n)
    if pads[:n] != pads[n:] or has.get("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in has:
        raise NotImplementedError("ConvTranspose with padding that differs between the sides, or output_shape")
    layer = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    return layer(x, weight, bias, has.get("strides", [1] * n), pads[:n], has.get("output_padding", [0] * n),
                 has.get("group", 1), has.get("dilations", [1] * n))  # fmt: skip


def _pooling(module, node, x, functions, options):
    n, has = x.dim() - 2, node.attributes
    kernel = has["kernel_shape"]
    stride, dilation = has.get("strides", [1] * n), has.get("dilations", [1] * n)
    _, pads = _geometry(node, n, x, kernel, dilation, stride)
    if pads[:n] != pads[n:]:
        raise NotImplementedError(f"{node.kind} with padding that differs between the sides")
    return functions[n - 1](x, kernel, stride, pads[:n], ceil_mode=bool(has.get("ceil_mode")), **options)


@operator("MaxPool")
def max_pool(module, node, x):
    if len(node.outputs) > 1:
        raise NotImplementedError("MaxPool with indices is not there")
    options = {"dilation": node.attributes.get("dilations", [1] * (x.dim() - 2))}
    return _pooling(module, node, x, (F.max_pool1d, F.max_pool2d, F.max_pool3d), options)


@operator("AveragePool")
def average_pool(module, node, x):
    options = {"count_include_pad": bool(node.attributes.get("count_include_pad"))}
    return _pooling(module, node, x, (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d), options)


@operator("GlobalAveragePool")
def global_average_pool(module, node, x):
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(module, node, x):
    return x.amax(tuple(range(2, x.dim())), keepdim=True)


@operator("BatchNormalization")
def batch_normalization(module, node, x, weight, bias, mean, variance):
    momentum = 1 - node.attributes.get("momentum", 0.9)
    return F.batch_norm(x, mean, variance, weight, bias, module.training, momentum, node.attributes.get("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_normalization(module, node, x, weight, bias=None):
    axis = node.attributes.get("axis", -1) % x.dim()
    return F.layer_norm(x, tuple(x.shape[axis:]), weight.expand(x.shape[axis:]), bias, node.attributes.get("epsilon", 1e-5))


@operator("InstanceNormalization")
def instance_normalization(module, node, x, weight, bias):
    return F.instance_norm(x, weight=weight, bias=bias, eps=node.attributes.get("epsilon", 1e-5))


@operator("GroupNormalization")
def group_normalization(module, node, x, weight, bias):
    if module.opset < 21:
        raise NotImplementedError("GroupNormalization before opset 21, whose weights are of groups")
    return F.group_norm(x, node.attributes["num_groups"], weight, bias, node.attributes.get("epsilon", 1e-5))


@operator("Resize")
def resize(module, node, x, roi=None, scales=None, sizes=None):
    has = node.attributes
    mode, how = has.get("mode", "nearest"), has.get("coordinate_transformation_mode", "half_pixel")
    options: dict = {}
    if mode == "nearest":
        near = has.get("nearest_mode", "round_prefer_floor")
        name = {("asymmetric", "floor"): "nearest", ("half_pixel", "round_prefer_ceil"): "nearest-exact"}.get((how, near))
    else:
        name = {("linear", 1): "linear", ("linear", 2): "bilinear", ("linear", 3): "trilinear", ("cubic", 2): "bicubic"}.get(
            (mode, x.dim() - 2)
        )
        name = name if how in ("align_corners", "half_pixel", "pytorch_half_pixel") else None
        options = {"align_corners": how == "align_corners"}
        if has.get("antialias"):
            options["antialias"] = True
    if name is None or has.get("axes"):
        raise NotImplementedError(f"Resize by {mode!r} with {how!r} is not there")
    if sizes is not None and sizes.numel():
        return F.interpolate(x, size=sizes.tolist()[2:], mode=name, **options)
    return F.interpolate(x, scale_factor=[float(one) for one in scales.tolist()[2:]], mode=name, **options)


@operator("GridSample")
def grid_sample(module, node, x, grid):
    has = node.attributes
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(has.get("mode", "linear"), has.get("mode", "bilinear"))
    return F.grid_sample(x, grid, mode, has.get("padding_mode", "zeros"), bool(has.get("align_corners", 0)))


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(module, node, x, target, weight=None):
    has = node.attributes
    return F.cross_entropy(x, target, weight, ignore_index=has.get("ignore_index", -100), reduction=has.get("reduction", "mean"))


@operator("NegativeLogLikelihoodLoss")
def nll(module, node, x, target, weight=None):
    has = node.attributes
    return F.nll_loss(x, target, weight, ignore_index=has.get("ignore_index", -100), reduction=has.get("reduction", "mean"))


# ------------------------------------------------------------------------------------------------ recurrent


def _plain_recurrence(node):
    has = node.attributes
    if any(has.get(key) for key in ("activations", "clip", "input_forget", "layout", "activation_alpha")):
        raise NotImplementedError(f"{node.kind} with activations, clip, input_forget or layout of its own")


def _directions(node, x, initial, run):
    """Run one or two directions; return the outputs (steps, directions, batch, size) and the last states."""
    which = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[node.attributes.get("direction", "forward")]
    outputs, states = [], []
    for place, backward in enumerate(which):
        steps = (x.flip(0) if backward else x).unbind(0)
        state, rows = [one[place] for one in initial], []
        for step in steps:
            state = run(place, step, state)
            rows.append(state[0])
        row = plugrad.stack(rows)
        outputs.append(row.flip(0) if backward else row)
        states.append(state)
    return (plugrad.stack(outputs, 1), *[plugrad.stack(one) for one in zip(*states)])


def _start(given, x, weight, hidden):
    return plugrad.zeros(weight.shape[0], x.shape[1], hidden, dtype=x.dtype, device=x.device) if given is None else given


@operator("LSTM")
def lstm(module, node, x, weight, inner, bias=None, lengths=None, hidden=None, cell=None, peepholes=None):
    _plain_recurrence(node)
    if lengths is not None or peepholes is not None:
        raise NotImplementedError("LSTM with lengths of sequences or peepholes")
    n = node.attributes["hidden_size"]

    def run(place, step, state):
        sums = step @ weight[place].t() + state[0] @ inner[place].t()
        sums = sums if bias is None else sums + bias[place, : 4 * n] + bias[place, 4 * n :]
        i, o, f, c = sums.split(n, -1)
        after = plugrad.sigmoid(f) * state[1] + plugrad.sigmoid(i) * plugrad.tanh(c)
        return [plugrad.sigmoid(o) * plugrad.tanh(after), after]

    return _directions(node, x, [_start(hidden, x, weight, n), _start(cell, x, weight, n)], run)


@operator("GRU")
def gru(module, node, x, weight, inner, bias=None, lengths=None, hidden=None):
    _plain_recurrence(node)
    if lengths is not None:
        raise NotImplementedError("GRU with lengths of sequences")
    n, after_product = node.attributes["hidden_size"], node.attributes.get("linear_before_reset", 0)

    def run(place, step, state):
        own = step @ weight[place].t() + (0 if bias is None else bias[place, : 3 * n])
        shift = plugrad.zeros(3 * n, dtype=x.dtype, device=x.device) if bias is None else bias[place, 3 * n :]
        before = state[0] @ inner[place, : 2 * n].t() + shift[: 2 * n]
        z, r = plugrad.sigmoid(own[:, : 2 * n] + before).split(n, -1)
        if after_product:
            new = plugrad.tanh(own[:, 2 * n :] + r * (state[0] @ inner[place, 2 * n :].t() + shift[2 * n :]))
        else:
            new = plugrad.tanh(own[:, 2 * n :] + (r * state[0]) @ inner[place, 2 * n :].t() + shift[2 * n :])
        return [(1 - z) * new + z * state[0]]

    return _directions(node, x, [_start(hidden, x, weight, n)], run)


@operator("RNN")
def rnn(module, node, x, weight, inner, bias=None, lengths=None, hidden=None):
    names = node.attributes.get("activations") or ["Tanh"]
    if lengths is not None or {one.lower() for one in names} - {"tanh", "relu"} or node.attributes.get("layout"):
        raise NotImplementedError("RNN with lengths of sequences, a layout, or other activations than Tanh and Relu")
    n = node.attributes["hidden_size"]

    def run(place, step, state):
        sums = step @ weight[place].t() + state[0] @ inner[place].t()
        sums = sums if bias is None else sums + bias[place, :n] + bias[place, n:]
        return [plugrad.relu(sums) if names[place % len(names)].lower() == "relu" else plugrad.tanh(sums)]

    return _directions(node, x, [_start(hidden, x, weight, n)], run)
