"""Operators that rearrange, index and make tensors."""

from __future__ import annotations

import math

import plugrad
from plugrad.nn import functional as F
from plugrad.onnx.declaring import operator


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


@operator("Shape")
def shape(module, node, x):
    return plugrad.tensor(
        list(x.shape)[node.attributes.get("start", 0) : node.attributes.get("end")], dtype=plugrad.int64
    )


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


def listed(node, axes):
    """Return axes, which stand among the inputs, or in old files among the attributes; None for none."""
    return node.attributes.get("axes") if axes is None else axes.tolist()


@operator("Unsqueeze")
def unsqueeze(module, node, x, axes=None):
    axes = listed(node, axes)
    for axis in sorted(one % (x.dim() + len(axes)) for one in axes):
        x = x.unsqueeze(axis)
    return x


@operator("Squeeze")
def squeeze(module, node, x, axes=None):
    axes = listed(node, axes)
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
    return plugrad.scatter_reduce(
        x, axis, places, updates, {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how]
    )


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
    mode = {"edge": "replicate", "wrap": "circular"}.get(
        node.attributes.get("mode", "constant"), node.attributes.get("mode")
    )
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
