"""Data that are not plain numbers in lists: the array of them, or what is wrong, in PyTorch's types and words."""

from __future__ import annotations

import operator
import warnings

import numpy

import plugrad
from plugrad import Tensor, dtypes, promote_types
from plugrad.backends import warn_once

OVERFLOW = "Overflow when unpacking long long: an integer does not fit in int64"
_ROWS = (list, tuple, range, numpy.ndarray)
_MOST = 1 << 32  # elements of a sequence, each of which is an object of Python's


def array_of(data, dtype=None):
    """Return data with tensors, arrays, NumPy's numbers or sequences of any type in it as an array.

    Its dtype is that to which all elements promote, unless `dtype` is given. What is no number raises TypeError or
    RuntimeError, rows of different lengths ValueError.

    >>> array_of([1, numpy.float64(2)])
    array([1., 2.])
    """
    storage = _storage(data, dtype)
    if storage is not None:
        return storage
    if hasattr(data, "__array__") and not isinstance(data, (int, float, complex)):
        return numpy.array(data)
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], numpy.ndarray):
        warn_once(
            "list of arrays",
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider converting the list to "
            "a single numpy.ndarray with numpy.array() before converting to a tensor.",
            stacklevel=4,
        )
    kinds: set = set()
    plain = _plain(data, kinds, (), _number_for(dtype))
    try:
        array = numpy.array(plain)
    except (OverflowError, ValueError):
        raise refused(plain, dtype) from None
    if kinds <= {bool, int} and array.dtype.kind == "f" and array.size:  # NumPy's answer to more than 63 bits
        array = numpy.array(plain, dtype=object)
    if array.dtype.kind in "USMmV" or array.dtype == object and not _all_numbers(array):
        raise refused(plain, dtype)
    if dtype is not None:
        return _of_dtype(array, dtype)
    if kinds <= {bool, int} and array.dtype.kind not in "bi" and _beyond_int64(array):
        raise ValueError(OVERFLOW)
    return array.astype(_promoted(kinds, array))


def copy_of(tensor, dtype, device):
    """Return a copy of a tensor without history, as `torch.tensor` makes of one; with a warning."""
    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
        UserWarning,
        stacklevel=3,
    )
    result = tensor.detach().to(device if device is not None else tensor.device, dtype or tensor.dtype)
    return result.clone() if result._raw is tensor._raw else result


def made_by_modes(function, data, options):
    """Return what the function modes that are on make of a call that makes a tensor of data."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    return plugrad.overrides.ask_classes(function, (data,), given)


def _of_dtype(array, dtype):
    if array.dtype != object and array.dtype != numpy.uint64:
        return array
    if not dtypes.is_integral(dtype.numpy) or dtype is dtypes.bool:
        return array.astype(bool if dtype is dtypes.bool else complex if dtype.is_complex else float)
    if dtype is not dtypes.uint64 and _beyond_int64(array):
        raise ValueError(OVERFLOW)
    if array.dtype == object and not all(0 <= item < 1 << 64 for item in array.flat):
        raise OverflowError("int too big to convert: an integer does not fit in uint64")
    return array.astype(numpy.uint64)


def _all_numbers(array) -> bool:
    return all(isinstance(item, (int, float, complex)) for item in array.flat)


def _beyond_int64(array) -> bool:
    whole = [item for item in array.flat if isinstance(item, (int, numpy.unsignedinteger))]
    return any(not -(1 << 63) <= int(item) < 1 << 63 for item in whole)


def _promoted(kinds, array):
    """The NumPy dtype to which the types of the elements promote."""
    default = dtypes.get_default_dtype()
    own = {bool: dtypes.bool, int: dtypes.int64, float: default, complex: default.to_complex()}
    result = None
    for kind in kinds:
        dtype = own.get(kind, kind)
        result = dtype if result is None else promote_types(result, dtype)
    return (default if result is None else result).numpy


def _storage(data, dtype):
    """The elements of a storage, else None."""
    if not hasattr(data, "untyped") or isinstance(data, Tensor):
        return None
    of = getattr(data, "dtype", None)
    if of is None:
        wanted = (dtype or dtypes.int64).numpy
        content = numpy.array(data.tolist(), numpy.uint8)
        return content[: data.nbytes() // wanted.itemsize * wanted.itemsize].view(wanted)
    if dtype is not None and dtype is not of:
        raise RuntimeError(
            f"Expected a Storage of type {dtype._label} or an UntypedStorage, but got {of._label}; write "
            f"torch.tensor(storage).to({dtype})"
        )
    return data._tensor()._raw.copy()


def _number_for(dtype):
    """Return the function that makes elements of a dtype of what only says how: Decimals, Fractions and the like."""
    if dtype is None:
        return None
    if dtype.is_complex:
        return complex
    return float if dtype.is_floating_point else operator.index


def _plain(item, kinds, above, number=None):
    """Nested lists of numbers; the types of the numbers, or dtypes, are put into `kinds`.

    What is none becomes one by `number`, where it can.
    """
    if isinstance(item, Tensor):
        kinds.add(item.dtype)
        if number is operator.index or number is None and dtypes.is_integral(item.dtype.numpy):
            whole = operator.index(item)
            return bool(whole) if item.dtype is dtypes.bool else whole
        if item.numel() != 1:
            raise ValueError(
                "only one element tensors can be converted to Python scalars; write torch.stack([...]) to join tensors"
            )
        return item.item()
    if isinstance(item, (numpy.ndarray, numpy.generic)) and item.dtype.kind in "biufcVMm":
        kinds.add(dtypes.from_numpy(item.dtype))
        return item.tolist()
    if isinstance(item, (bool, int, float, complex)):
        kinds.add(next(kind for kind in (bool, int, float, complex) if isinstance(item, kind)))
        return item
    if any(item is outer for outer in above):
        raise TypeError("new(): self-referential lists are incompatible")
    if not _is_sequence(item):
        return number(item) if number is not None and _says(item, number) else item
    if len(above) == 128:  # PyTorch's limit
        raise ValueError(f"too many dimensions '{type(item).__name__}': the data is nested too deeply")
    return [_plain(part, kinds, (*above, item), number) for part in _parts(item)]


def _says(item, number) -> bool:
    """Whether an object says which number it is, to the function that asks."""
    ways = {complex: ("__complex__", "__float__", "__index__"), float: ("__float__", "__index__")}
    named = ways.get(number, ("__index__",))
    return not isinstance(item, (str, bytes, numpy.generic)) and any(hasattr(type(item), way) for way in named)


def _is_sequence(item) -> bool:
    if isinstance(item, (str, bytes, dict)):
        return False
    return isinstance(item, _ROWS) or hasattr(type(item), "__len__") and hasattr(type(item), "__getitem__")


def _parts(item):
    if isinstance(item, (list, tuple)):
        return item
    try:
        if len(item) > _MOST:
            raise MemoryError
        return [item[i] for i in range(len(item))]
    except (MemoryError, OverflowError):  # or a length that is no length
        told = "its length is that of more elements than memory holds"
        raise RuntimeError(f"not enough memory for the data: of the '{type(item).__name__}', {told}") from None
    except Exception as error:
        raise ValueError(f"could not determine the shape of object type '{type(item).__name__}'") from error


def converted(array, dtype, data):
    """Return an array as a real dtype: what an integer type does not hold is refused, unless it comes from an array."""
    given = isinstance(data, (numpy.ndarray, numpy.generic))
    if dtypes.is_complex(array.dtype) and dtype is not dtypes.bool:
        if not given:
            whole = "'complex' object cannot be interpreted as an integer"
            raise TypeError(f"{'must be real number, not complex' if dtype.is_floating_point else whole}; write z.real")
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=4)
        array = array.real
    integral = dtypes.is_integral(dtype.numpy) and dtype is not dtypes.bool
    if integral and not isinstance(data, numpy.ndarray) and array.size and not _held(array, numpy.iinfo(dtype.numpy)):
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    with numpy.errstate(all="ignore"):
        return array.astype(dtype.numpy)


def _held(array, limits) -> bool:
    """Whether all numbers lie in an integer type; an unsigned one takes integers below zero from its end."""
    low, high = array.min(), array.max()
    if array.dtype.kind == "f":  # NaN does not
        return bool(low >= limits.min and high <= limits.max)
    return int(low) >= (limits.min or -limits.max) and int(high) <= limits.max


def refused(data, dtype) -> Exception:
    """Return the error for data of other things than numbers, or of rows of different lengths.

    >>> refused([[1, 2], [3]], None)
    ValueError('expected sequence of length 2 at dim 1 (got 1): all rows must have the same length')
    """
    first = data
    while _is_row(first) and len(first):
        first = first[0]
    if isinstance(first, str) and first and first is not data:  # taken for a sequence of letters
        return ValueError("too many dimensions 'str': a tensor holds numbers; write float(text) or int(text)")
    for item in _leaves(data):
        if not isinstance(item, (int, float, complex, numpy.generic, numpy.ndarray)):
            return _no_number(type(item).__name__, dtype)
    return _ragged(data)


def _is_row(item) -> bool:
    return isinstance(item, (list, tuple)) or isinstance(item, numpy.ndarray) and item.ndim > 0


def _leaves(data):
    for item in data if _is_row(data) else ():
        yield from _leaves(item)
    if not _is_row(data):
        yield data


def _no_number(kind, dtype) -> Exception:
    if kind in ("str", "bytes") and dtype is None:
        return TypeError(f"new(): invalid data type '{kind}': a tensor holds numbers")
    if dtype is not None:
        return TypeError(f"must be real number, not {kind}")
    return RuntimeError(f"Could not infer dtype of {kind}: a tensor is made of numbers, and of sequences of them")


def _ragged(data) -> Exception:
    level, depth = [data], 0
    while level:
        lengths = {len(item) if _is_row(item) else None for item in level}
        if len(lengths) > 1 and None in lengths:
            return TypeError(
                f"not a sequence: numbers and sequences are mixed at dim {depth}: write rows of the same kind"
            )
        if len(lengths) > 1:
            low, high = min(lengths), max(lengths)
            return ValueError(
                f"expected sequence of length {high} at dim {depth} (got {low}): all rows must have the same length"
            )
        level, depth = [item for row in level if _is_row(row) for item in row], depth + 1
    return ValueError(f"too many dimensions: the data has {depth - 1}")


def warn_of_read_only(kind, name) -> None:
    """Warn, once in a process, that a tensor shares memory that may not be written."""
    warn_once(
        f"read-only {kind}",
        f"The given {kind} is not writable, and PyTorch does not support non-writable tensors. This means writing to "
        f"this tensor will result in undefined behavior. Copy the {name} to protect its data, or make it writable, "
        "before converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
        stacklevel=4,
    )
