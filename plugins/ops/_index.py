"""Arithmetic of indices, shared by the ops that read and write through them."""

from __future__ import annotations

import warnings

from plugrad.extend import broadcast_shapes, is_differentiable, is_integer, refuse_outside

from ._checks import BOOL_OR_SIGNED
from ._in_order_on_cuda import add_at

ENDS = {int, type(None)}  # of most slices; a tensor there stands for a number


def is_plain(index):
    """Whether an index consists, at a glance, of ints, slices forward, None and Ellipsis only."""
    for item in index if index.__class__ is tuple else (index,):
        cls = item.__class__
        if cls is slice:
            if not (item.start.__class__ in ENDS and item.stop.__class__ in ENDS):
                return False
            if item.step is not None and (item.step.__class__ is not int or item.step <= 0):
                return False
        elif cls is not int and item is not None and item is not Ellipsis:
            return False
    return index is not None and index is not Ellipsis


def as_array(xp, item):
    """An index array of int64 or bool."""
    if not hasattr(item, "dtype"):
        try:
            item = xp.asarray(list(item) if isinstance(item, range) else item)
        except ValueError as error:
            if len({hasattr(type(one), "__len__") for one in item}) > 1:
                raise TypeError("a list of indices must be of ints, or of equal rows of them: not of both") from error
            raise ValueError("a list of indices must be of equal rows, and not nested too deeply") from error
        if item.dtype.kind == "O":
            for one in item.flat:
                if not isinstance(one, (int, float, complex)):
                    raise RuntimeError(f"Could not infer dtype of {type(one).__name__}")
        if item.dtype.kind == "f" and item.size == 0:
            item = item.astype("int64")
    if item.dtype == "uint8":
        warnings.warn(
            "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.",
            UserWarning,
            stacklevel=2,
        )
        item = item.astype(bool)
    if item.dtype.kind not in BOOL_OR_SIGNED:
        is_data = item.dtype.kind in "uifc"
        raise (IndexError if is_data else TypeError)("tensors used as indices must be long, int, byte or bool tensors")
    return xp.asarray(item)


def indexed_shape(shape, index):
    """The shape of `x[index]` for a tidy index with tensors of integers, from shapes alone.

    Raises NotImplementedError for masks: how much they select depends on their values.
    """
    used = sum(item is not None and item is not Ellipsis for item in index)
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    sizes, arrays, places, dim = [], [], [], 0
    for item in index:
        if item is None:
            sizes.append(1)
        elif item is Ellipsis:
            skip, used = len(shape) - used, len(shape)  # a second Ellipsis is empty
            sizes += shape[dim : dim + skip]
            dim += skip
        elif item.__class__ is slice:
            sizes.append(len(range(*item.indices(shape[dim]))))
            dim += 1
        elif item.__class__ is int:
            dim += 1
        elif hasattr(item, "dtype") and is_integer(item.dtype):
            arrays.append(tuple(item.shape))
            places.append(len(sizes))
            dim += 1
        else:
            raise NotImplementedError("indexing with a mask has no result shape on meta: it depends on values")
    sizes += shape[dim:]
    place = places[0] if len(set(places)) == 1 else 0  # dimensions of tensors that are apart come first
    return (*sizes[:place], *broadcast_shapes(*arrays), *sizes[place:])


def check_expands(have, want) -> None:
    """Raise RuntimeError when what has the shape `have` can't be expanded to what it is written to, of shape `want`."""
    while len(have) > len(want) and have[0] == 1:
        have = have[1:]
    for n in range(1, max(len(have), len(want)) + 1):
        if n > len(want) or (n <= len(have) and have[-n] not in (1, want[-n])):
            size = want[-n] if n <= len(want) else 1
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({have[-n]}) at non-singleton "
                f"dimension {max(len(want) - n, 0)}.  Target sizes: {list(want)}.  Tensor sizes: {list(have)}"
            )


def two_steps(xp, shape, index):
    """Split a tidy index in `(basic, arrays)` so that `x[basic][arrays]` is PyTorch's `x[index]`.

    The ints go into the first, so that they do not move the dimensions of the arrays as they would in NumPy.
    """
    items = [
        i if i is None or i is Ellipsis or i.__class__ in (int, slice) or isinstance(i, bool) else as_array(xp, i)
        for i in index
    ]
    used = sum(
        0
        if i is None or i is Ellipsis or isinstance(i, bool)
        else i.ndim
        if hasattr(i, "dtype") and i.dtype.kind == "b"
        else 1
        for i in items
    )
    if used > len(shape):
        raise IndexError(f"too many indices for tensor of dimension {len(shape)}")
    basic, arrays, dim, full = [], [], 0, slice(None)
    for position, item in enumerate(items):
        if item is Ellipsis:
            skip = len(shape) - used
            used = len(shape)  # a second Ellipsis is empty
            basic += [full] * skip
            arrays += [full] * skip
            dim += skip
        elif isinstance(item, bool) or (hasattr(item, "dtype") and item.ndim == 0):
            basic.append(None)
            arrays.append(xp.asarray(item).reshape(1).astype(bool))
        elif hasattr(item, "dtype"):
            width = item.ndim if item.dtype.kind == "b" else 1
            if item.dtype.kind == "b" and item.shape != shape[dim : dim + width]:
                raise IndexError(
                    f"The shape of the mask {list(item.shape)} at index {position} does not match the shape "
                    f"of the indexed tensor {list(shape)} at index {dim}"
                )
            basic += [full] * width
            arrays.append(item)
            dim += width
        else:
            basic.append(item)
            if item.__class__ is not int:
                arrays.append(full)
            dim += item is not None
    while arrays and arrays[-1] is full:
        arrays.pop()
    return (*basic, Ellipsis), tuple(arrays)


def reworded(error, shape, by_tensors=False):
    """NumPy's IndexError or OverflowError in PyTorch's words, which are others where an index is a tensor."""
    text = str(error)
    if "too many indices" in text:
        if not shape:
            return IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
                "C++ to convert a 0-dim tensor to a number"
            )
        return IndexError(f"too many indices for tensor of dimension {len(shape)}")
    if isinstance(error, OverflowError) or text.startswith("only integers"):  # all others were refused before
        return ValueError("Overflow when unpacking long long: an index does not fit in 64 bits")
    if by_tensors and text.endswith("with size 0"):
        text = "index is out of bounds for dimension with size 0"
    return IndexError(
        text.replace("axis", "dimension").replace(
            "shape mismatch: indexing arrays could not be broadcast together with shapes",
            "shape mismatch: indexing tensors could not be broadcast together with shapes",
        )
    )


def combine_at(xp, function, flat, places, values):
    """`function.at(flat, places, values)` for a 1-d array, with arrays of any dtype on any array module.

    CuPy adds float, int32 and unsigned numbers only, and has no `multiply.at`. Elsewhere integers are added as unsigned
    ones, which is the same, complex numbers by parts, and all else is combined in rounds of distinct places.
    """
    if flat.dtype.itemsize < 4 and flat.dtype.kind in "fV" and function in (xp.add, xp.multiply):
        wide = flat.astype("float32")  # rounded once, not after every element
        combine_at(xp, function, wide, places, values.astype("float32"))
        flat[...] = wide
    elif xp.__name__ == "numpy":
        function.at(flat, places, values)
    elif function is xp.add and is_differentiable(flat.dtype) and flat.dtype.name != "bfloat16":
        values = values.astype(flat.dtype)
        for part in ("real", "imag") if flat.dtype.kind == "c" else ("real",):
            add_at(xp, getattr(flat, part), places, getattr(values, part))
    elif function is xp.add and flat.dtype.name == "int64":
        xp.add.at(flat.view("uint64"), places, values.astype("int64").view("uint64"))
    elif places.size:
        order = xp.argsort(places, kind="stable")
        ordered = places[order]
        turn = xp.arange(places.size) - xp.searchsorted(ordered, ordered)
        for now in range(int(turn.max()) + 1):
            chosen = order[turn == now]
            flat[places[chosen]] = function(flat[places[chosen]], values[chosen])


def add_slices(xp, target, index, values):
    """Add `values[:, i]` to `target[:, index[i]]`, a C-contiguous 3-d array; an index may occur more than once.

    One flat index is several times as fast as an index of slices (NumPy 2: 1.2 ns against 6.4 ns an element).
    """
    before, n, after = target.shape
    places = index
    if before != 1:
        places = xp.arange(before)[:, None] * n + places
    if after != 1:
        places = places[..., None] * after + xp.arange(after)
    combine_at(xp, xp.add, target.reshape(-1), places.ravel(), values.reshape(-1))


def check_range(xp, index, size, error=RuntimeError, dim=0, prefix="", low=0):
    """Refuse index arrays with entries outside [low, size)."""
    refuse_outside(xp, index, low, size, range_error(size, error, dim, prefix))


def range_error(size, error=RuntimeError, dim=0, prefix=""):
    """Return what makes the error for an index that is out of range."""

    def outside(worst):
        if not size and error is IndexError:
            return error(f"{prefix}index is out of bounds for dimension with size 0")
        return error(f"{prefix}index {worst} is out of bounds for dimension {dim} with size {size}")

    return outside


def check_arrays(xp, shape, arrays):
    """Refuse what an index of arrays would reach outside of `shape`, as NumPy does: elsewhere it wraps, or worse."""
    if xp.__name__ == "numpy":
        return
    dim = 0
    for item in arrays:
        kind = item.dtype.kind if hasattr(item, "dtype") else ""
        if kind == "i":
            check_range(xp, item, shape[dim], IndexError, dim, low=-shape[dim])
        dim += item.ndim if kind == "b" else 1


def check_index_dtype(op, index, dtypes=("int32", "int64")):
    """Refuse index arrays of another dtype."""
    if index.dtype.char != "l" and index.dtype.name not in dtypes:
        raise RuntimeError(
            f"{op}(): Expected dtype {'/'.join(dtypes)} for index, but got {index.dtype}; convert it with .long()"
        )


def index_array(xp, index):
    """An index as int64, which NumPy and CuPy take without another conversion."""
    return index if index.dtype.char == "l" else index.astype("int64")
