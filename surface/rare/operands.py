"""Numbers beside tensors of half precision, and tuples of tensors that results are written to."""

from __future__ import annotations

from functools import lru_cache

import numpy

from plugrad import Tensor, can_cast

_LARGEST = {"float16": 65504.0, "bfloat16": 2.0**128 - 2.0**120}


def narrow(op, raw, half) -> None:
    """Round operands of an elementwise op to half precision, as PyTorch does before it computes in single.

    Numbers that the op declares as `exact` stay as they are. Raises RuntimeError for those of its `fits` that are
    larger than any element can be.
    """
    for position in dict.fromkeys(op.promoted + op.fits):
        value, exact = raw[position], op.parameters[position] in op.exact
        if hasattr(value, "dtype") and position in op.promoted:
            if value.dtype != half.numpy and (value.ndim or not exact):
                raw[position] = value.astype(half.numpy)
            continue
        value = value.item() if hasattr(value, "item") and not value.ndim else value
        if not isinstance(value, (int, float)) or value.__class__ is bool:
            continue
        if position in op.fits and _LARGEST[half.name] < abs(value) < float("inf"):
            raise RuntimeError(f"value cannot be converted to type {half.name} without overflow: it is {value}")
        if not exact:
            rounded = _rounded(float(value), half.numpy.type)
            raw[position] = value if rounded == value else rounded


@lru_cache(maxsize=1024)  # 0.0 and -0.0, which are one key, are not rounded
def _rounded(value, kind):
    with numpy.errstate(over="ignore"):
        return float(kind(value))


def beside_array(op, operands, place) -> tuple:
    """Return operands of which one of two is an array: both as tensors of the type that NumPy promotes theirs to."""
    array, other = operands[place], operands[1 - place]
    joint = numpy.result_type(array, other.dtype.numpy) if other.dtype.numpy.kind != "V" else array.dtype
    if op.promote == "float":  # integers are divided in float64, say
        joint = numpy.divide.resolve_dtypes((joint, joint, None))[-1]
    tensor = Tensor._from_raw(array.astype(joint))
    both = (tensor, other.to(tensor.dtype))
    return (*(both[::-1] if place else both), *operands[2:])


def device_mismatch(op, one, other) -> RuntimeError:
    """Return the error for operands on two devices."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}! (in {op.name}); move one with .to('{one}')"
    )


def of_two_devices(op, values, raw, i, ttype):
    """Two devices meet: a 0-d CPU tensor may join elementwise ops on another one; everything else is an error."""
    value = values[i]
    if op.broadcasts and value._type.device.type == "cpu" and value._data.ndim == 0:
        raw[i] = ttype.device.put(value._data)
        return ttype
    first = next(j for j, v in enumerate(values) if getattr(v, "_type", None) is not None)
    if op.broadcasts and ttype.device.type == "cpu" and values[first]._data.ndim == 0:
        raw[first] = value._type.device.put(values[first]._data)
        return value._type
    raise device_mismatch(op, ttype.device, value._type.device)


def check_outs(op, result, out) -> None:
    """Raise what PyTorch raises if a tuple given as `out=` does not suit the results: their number, and indices."""
    if len(out) != len(result):
        raise TypeError(f"{op.name}(): argument 'out' must be a tuple of {len(result)} Tensors, not of {len(out)}")
    for one, other in zip(result, out):
        whole = not (one.dtype.is_floating_point or one.dtype.is_complex)
        if isinstance(other, Tensor) and one is not result[0] and whole and other.dtype is not one.dtype:
            what = f"Expected out tensor to have dtype {one.dtype}, but got {other.dtype} instead"
            raise RuntimeError(f"{op.name}(): {what}")


# Ops, by public name, whose `out=` must have the dtype of the result; those of all others may have a wider one.
_EXACT_OUTS = frozenset(
    "abs addbmm addmm addmv alias_copy amax amin argmax argmin baddbmm bitwise_not bmm bucketize ceil "
    "chain_matmul conj_physical cross detach_copy diag diagonal_copy dot float_power floor frac gather hardshrink "
    "hash_tensor heaviside histc index_add index_copy index_select inner inverse isin isneginf isposinf lerp "
    "linalg.cross linalg.det linalg.eigvalsh linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power "
    "linalg.multi_dot linalg.norm linalg.solve linalg.svdvals linalg.vecdot linalg.vector_norm log_softmax "
    "logcumsumexp masked_select matmul matrix_power mm msort multinomial mv nan_to_num nanquantile neg norm round "
    "scatter scatter_add searchsorted select_copy sgn sign signbit slice_scatter softmax special.round squeeze_copy "
    "t_copy take take_along_dim tensordot transpose_copy tril triu trunc unsqueeze_copy vdot view_as_real_copy "
    "where".split()
)


def check_out_dtype(op, dtype, out) -> None:
    """Raise RuntimeError if a tensor of the dtype `out` can't take the result of an op, which has another `dtype`."""
    if op.trusted and op.name in ("all", "any"):
        if out._label != "Byte":  # which stood for bool once
            raise RuntimeError(f"{op.name} only supports bool tensor for result, got: {out._label}")
    elif op.trusted and not _EXACT_OUTS.isdisjoint(op.names):
        raise RuntimeError(f"Found dtype {out._label} but expected {dtype._label}: out= of {op.name}() has no other")
    if not can_cast(dtype, out):
        raise RuntimeError(f"result type {dtype._label} can't be cast to the desired output type {out._label}")
