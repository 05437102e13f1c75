"""Ops that take and put elements by indices, in ONNX."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.onnx.builder import Output
from plugrad.onnx.declaring import form
from plugrad.onnx.tracing import Size


@form("select")
def select_form(g, input, dim, index):
    return g.op("Gather", input, g.ints(index), axis=dim % input.rank)


@form("narrow")
def narrow_form(g, input, dim, start, length):
    stop = start + length
    last = isinstance(start, int) and start < 0 and isinstance(stop, int) and stop == 0
    return g.slice(input, dim % input.rank, start, None if last else stop)


@form("basic_index")
def basic_index_form(g, input, index):
    if input.last is not None and index == -1:
        return g.op("Identity", input.last)
    result, _ = _basic(g, input, index if isinstance(index, tuple) else (index,))
    return result


def _basic(g, input, index):
    """Return a value indexed by ints, slices, None and an ellipsis, and for each axis left where others begin."""
    index = _spelled(index, input.rank)
    axis, places, squeezed, added = 0, [], [], []
    starts, stops, axes, steps = [], [], [], []
    for one in index:
        if one is None:
            added.append(len(places))
            places.append(None)
            continue
        if isinstance(one, slice):
            step = 1 if one.step is None else one.step
            if (one.start, one.stop, step) != (None, None, 1):
                starts.append(0 if one.start is None else one.start)
                stops.append(2**63 - 1 if one.stop is None else one.stop)
                axes.append(axis)
                steps.append(step)
            places.append(axis)
        elif isinstance(one, (int, Size)):
            squeezed.append((axis, one))
        else:
            places.append(axis)
        axis += 1
    if axes:
        input = g.op("Slice", input, starts, stops, axes, steps)
    for axis, one in reversed(squeezed):
        input = g.op("Gather", input, g.ints(one), axis=axis)
    if added:
        input = g.op("Unsqueeze", input, added)
    return input, places


def _spelled(index, rank) -> list:
    """Return an index with an entry for each axis, and None for those that are added."""
    taken = sum(
        0
        if one is None or one is Ellipsis
        else one.rank
        if isinstance(one, Output) and one.dtype is plugrad.bool
        else 1
        for one in index
    )
    parts, open_ended = [], True
    for one in index:
        if one is Ellipsis:
            parts += [slice(None)] * (rank - taken)
            open_ended = False
        else:
            parts.append(one)
    return parts + [slice(None)] * (rank - taken) * open_ended


@form("index_by")
def index_by_form(g, input, index):
    return advanced_index_form(g, input, (index,))


@form("advanced_index")
def advanced_index_form(g, input, index):
    """Basic parts first; then one array of integers by Gather, several in neighbouring places by GatherND."""
    index = [_array(g, one) for one in (index if isinstance(index, tuple) else (index,))]
    spelled = _spelled(index, input.rank)
    masks = [i for i, one in enumerate(spelled) if isinstance(one, Output) and one.dtype is plugrad.bool]
    arrays = [i for i, one in enumerate(spelled) if isinstance(one, Output)]
    if masks:
        if len(arrays) > 1 or masks != [0] or any(one != slice(None) for one in spelled[1:]):
            raise NotImplementedError("a mask can be exported where it is the first and only index: write x[mask]")
        places = g.permute(g.op("NonZero", spelled[0], dtype=plugrad.int64), [1, 0])
        return g.op("GatherND", input, places, dtype=input.dtype)
    if any(isinstance(one, (int, Size)) for one in spelled):
        raise NotImplementedError("a number beside arrays in an index can't be exported: index twice, x[:, 0][rows]")
    shape = input.shape
    input, _ = _basic(g, input, [slice(None) if isinstance(one, Output) else one for one in spelled])
    if len(arrays) == 1:
        return g.op("Gather", input, spelled[arrays[0]], axis=arrays[0])
    if arrays != list(range(arrays[0], arrays[-1] + 1)):
        raise NotImplementedError("arrays in an index can be exported where no slice stands between them")
    first, count = arrays[0], len(arrays)
    chosen = [spelled[i] for i in arrays]
    joint = numpy.broadcast_shapes(*[g.fixed(one.shape, "the shape of an index") for one in chosen])
    rows = [g.op("Unsqueeze", g.op("Expand", g.cast(one, plugrad.int64), list(joint)), [-1]) for one in chosen]
    places = g.op("Concat", *rows, axis=-1)
    if first:  # GatherND takes leading axes
        order = [*arrays, *range(first), *range(first + count, len(shape))]
        input = g.permute(input, order)
    result = g.op("GatherND", input, places, dtype=input.dtype)
    if not first:
        return result
    k, rank = len(joint), len(joint) + len(shape) - count
    order = [*range(k, k + first), *range(k), *range(k + first, rank)]
    return g.permute(result, order)


def _array(g, one):
    """Return lists of numbers among the parts of an index as constants."""
    if isinstance(one, (list, tuple)):
        if any(isinstance(item, (Output, Size, list, tuple)) for item in one):
            raise NotImplementedError("nested lists in an index can't be exported: write torch.tensor([...])")
        return g.constant(numpy.asarray(one), plugrad.bool if one and isinstance(one[0], bool) else plugrad.int64)
    if isinstance(one, bool):
        raise NotImplementedError("a bool in an index can't be exported")
    return one


@form("index_select")
def index_select_form(g, input, dim, index):
    return g.op("Gather", input, index, axis=dim)


@form("embedding")
def embedding_form(g, weight, indices, *_, **__):
    return g.op("Gather", weight, indices, axis=0)


@form("gather")
def gather_form(g, input, dim, index, **_):
    return g.op("GatherElements", input, index, axis=dim)


@form("take")
def take_form(g, input, index):
    return g.op("Gather", g.reshape(input, [-1]), index, axis=0)


@form("scatter")
def scatter_form(g, input, dim, index, src=None, *, value=None, reduce=None):
    names = {None: "none", "add": "add", "multiply": "mul"}
    if src is None or not isinstance(src, Output):
        number = g.cast(value if src is None else src, input.dtype)
        src = g.op("Expand", number, list(index.shape))
    return _scattered(g, input, dim, index, g.cast(src, input.dtype), names[reduce])


@form("scatter_add")
def scatter_add_form(g, input, dim, index, src):
    return _scattered(g, input, dim, index, src, "add")


def _scattered(g, input, dim, index, src, how):
    """Scatter elements; what has no dimension stands for one element."""
    array, index, src = [one if len(one.shape) else g.reshape(one, [1]) for one in (input, index, src)]
    result = g.op("ScatterElements", array, index, _cut(g, src, index), axis=dim, reduction=how)
    return result if len(input.shape) else g.reshape(result, [])


def _cut(g, src, index):
    """Return the part of src that an index of perhaps smaller shape reads."""
    if src.shape == index.shape:
        return src
    return g.op("Slice", src, [0] * index.rank, list(index.shape), list(range(index.rank)))


@form("masked_select")
def masked_select_form(g, input, mask):
    shape = list(plugrad.broadcast_shapes(*[g.fixed(one.shape, "a shape here") for one in (input, mask)]))
    input, mask = g.op("Expand", input, shape), g.op("Expand", mask, shape)
    return g.op("GatherND", input, g.permute(g.op("NonZero", mask, dtype=plugrad.int64), [1, 0]), dtype=input.dtype)


@form("nonzero_rows")
def nonzero_form(g, input):
    if not input.rank:
        raise NotImplementedError("of a single number it can't be exported")
    return g.permute(g.op("NonZero", input, dtype=plugrad.int64), [1, 0])
