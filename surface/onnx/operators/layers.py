"""Products, convolution, pooling, normalization, interpolation and losses."""

from __future__ import annotations

import plugrad
from plugrad.nn import functional as F
from plugrad.onnx.declaring import operator


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
    return F.batch_norm(
        x, mean, variance, weight, bias, module.training, momentum, node.attributes.get("epsilon", 1e-5)
    )


@operator("LayerNormalization")
def layer_normalization(module, node, x, weight, bias=None):
    axis = node.attributes.get("axis", -1) % x.dim()
    return F.layer_norm(
        x, tuple(x.shape[axis:]), weight.expand(x.shape[axis:]), bias, node.attributes.get("epsilon", 1e-5)
    )


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
        name = {("asymmetric", "floor"): "nearest", ("half_pixel", "round_prefer_ceil"): "nearest-exact"}.get(
            (how, near)
        )
    else:
        name = {
            ("linear", 1): "linear",
            ("linear", 2): "bilinear",
            ("linear", 3): "trilinear",
            ("cubic", 2): "bicubic",
        }.get((mode, x.dim() - 2))
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
    return F.cross_entropy(
        x, target, weight, ignore_index=has.get("ignore_index", -100), reduction=has.get("reduction", "mean")
    )


@operator("NegativeLogLikelihoodLoss")
def nll(module, node, x, target, weight=None):
    has = node.attributes
    return F.nll_loss(
        x, target, weight, ignore_index=has.get("ignore_index", -100), reduction=has.get("reduction", "mean")
    )
