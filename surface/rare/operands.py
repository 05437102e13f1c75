"""Numbers beside tensors of half precision, and tuples of tensors that results are written to."""

from __future__ import annotations

from functools import lru_cache

import numpy

from plugrad import Tensor, can_cast, device, float32, get_default_dtype, is_grad_enabled

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


@lru_cache(maxsize=1024)
def _function_of_halves(op, functions):
    """Return the array function that the op's kernel is no more than, if it computes halves in single; else None."""
    name = (op.plan.operator(False) if op.arity == 2 else op.plan).direct
    return getattr(functions, name) if name in getattr(functions, "halves", ()) else None


def takes_halves(op, ttype, raw, half) -> bool:
    """Whether `in_halves` computes a call: arrays stay as they are, but for single numbers that are not rounded."""
    if ttype.dtype is not half or _function_of_halves(op, ttype.functions) is None:
        return False
    if any([value is not op.defaults[name] for name, value in zip(op.parameters[op.arity :], raw[op.arity :])]):
        return False
    others = [at for at in range(op.arity) if getattr(raw[at], "dtype", ttype.np) != ttype.np]
    if others and ttype.xp is not numpy:
        return False
    for position in others:
        raw[position] = raw[position].astype("float32")
    return True


def in_halves(op, ttype, raw):
    """Return what an elementwise op makes of raw arguments, of which some may be halves for its array function."""
    function, operands = _function_of_halves(op, ttype.functions), raw[: op.arity or 0]
    if function is None or ttype.np not in [getattr(operand, "dtype", None) for operand in operands]:
        return op.run_kernel(ttype, raw)
    single = ttype.to(float32)
    for position, operand in enumerate(operands):
        if not hasattr(operand, "dtype") and ttype.xp is numpy:
            operands[position] = numpy.asarray(single.constants.get(operand) or single.constant(operand), "float32")
    return function(*operands)


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


def type_without_tensors(op, values):
    """Return the tensor type to go on with when no argument is a tensor; a TypeError if one should be."""
    if getattr(op, "numbers", None) == "any" or values and type(values[0]) in (list, tuple) and not values[0]:
        return device("cpu").tensor_type(get_default_dtype().numpy)  # the kernel says what is wrong with it
    raise TypeError(
        f"{op.name}(): argument '{op.parameters[0]}' (position 1) must be Tensor, not {type(values[0]).__name__}; "
        "write torch.as_tensor(...)"
    )


def check_elements(op, ttype, requires) -> None:
    """Raise NotImplementedError for an op that does not take such elements, or whose gradient may not."""
    if not ttype.dtype.is_complex:
        if not op.eight_bits:
            raise NotImplementedError(
                f"\"{op.name}\" not implemented for '{ttype.dtype._label}': nothing is computed with floats of eight "
                "bits; convert them first, as in x.to(torch.float32)"
            )
    elif op.complex is False:
        raise NotImplementedError(f"\"{op.name}\" not implemented for '{ttype.dtype._label}': it is not defined there")
    elif op.complex is None and requires and op.formulas and is_grad_enabled():
        raise NotImplementedError(
            f"op {op.qualname!r} does not say whether its gradient is right for complex numbers, where most formulas "
            "need `conj`: write complex=True in its decorator if it is, complex=False if they are not for it"
        )


def device_mismatch(op, one, other) -> RuntimeError:
    """Return the error for operands on two devices."""
    return RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{one} and {other}! (in {op.name}); move one with .to('{one}')"
    )


def of_two_devices(op, values, raw, i, ttype):
    """Two devices meet: a 0-d CPU tensor may join elementwise ops on another one; everything else is an error."""
    value = values[i]
    if op.broadcasts and value._type.backend.name == "cpu" and value._raw.ndim == 0:
        raw[i] = ttype.device.put(value._raw)
        return ttype
    first = next(j for j, v in enumerate(values) if getattr(v, "_type", None) is not None)
    if op.broadcasts and ttype.backend.name == "cpu" and values[first]._raw.ndim == 0:
        raw[first] = value._type.device.put(values[first]._raw)
        return value._type
    raise device_mismatch(op, ttype.device, value._type.device)


def refuse_mixture(op, values) -> None:
    """Raise TypeError where numbers meet tensors that do not stand for one, in an op that takes either all alike."""
    given = [values[place] for place in op.operands[1:] if values[place] is not None]
    tensors = [one for one in given if isinstance(one, Tensor)]
    if 0 < len(tensors) < len(given) and any([one.ndim or one.requires_grad for one in tensors]):
        raise TypeError(
            f"{op.name}() received an invalid combination of arguments: {' and '.join(op.tensors[1:])} are all numbers "
            "or all tensors; write torch.tensor(...) around the number"
        )


def refuse_whole(op) -> None:
    """Raise PyTorch's TypeError for keepdim where no dim is given."""
    rule = "keepdim comes with a dim: write dim=None for all dimensions, or leave both out"
    raise TypeError(f"{op.name}() received an invalid combination of arguments: {rule}")


def check_outs(op, result, out) -> None:
    """Raise what PyTorch raises if a tuple given as `out=` does not suit the results: their number, and indices."""
    if len(out) != len(result):
        raise TypeError(f"{op.name}(): argument 'out' must be a tuple of {len(result)} Tensors, not of {len(out)}")
    for one, other in zip(result, out):
        whole = not (one.dtype.is_floating_point or one.dtype.is_complex)
        if isinstance(other, Tensor) and one is not result[0] and whole and other.dtype is not one.dtype:
            what = f"Expected out tensor to have dtype {one.dtype}, but got {other.dtype} instead"
            raise RuntimeError(f"{op.name}(): {what}")


_COMPUTED_IN_OUT = frozenset("sum prod mean nansum cumsum cumprod".split())


def in_dtype_of(op, values, out) -> tuple:
    """Return the arguments of a call, with the dtype of `out=` as its `dtype=` where PyTorch computes in that."""
    if op.trusted and op.name in _COMPUTED_IN_OUT and isinstance(out, Tensor):
        place = op.index["dtype"]
        if values[place] is None and (op.name != "mean" or out.dtype.is_floating_point or out.dtype.is_complex):
            return (*values[:place], out.dtype, *values[place + 1 :])
    return values


# Ops, by public name or their own, whose `out=` must have the dtype of the result; those of all others may have a
# wider one.
_EXACT_OUTS = frozenset(
    """
    abs addbmm addmm addmv alias_copy amax amin aminmax argmax argmin as_strided_copy baddbmm bitwise_not bmm
    bucketize ceil chain_matmul complex conj_physical cross cummax cummin cumprod cumsum detach_copy diag
    diagonal_copy dot expand_copy fft.ifft fft.ihfft float_power floor frac frexp gather hardshrink hash_tensor
    heaviside histc histogram index_add index_copy index_reduce index_select inner inverse isin isneginf isposinf
    kthvalue linalg.cross linalg.det linalg.eigvalsh linalg.inv linalg.inv_ex linalg.ldl_factor linalg.ldl_factor_ex
    linalg.ldl_solve linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matmul linalg.matrix_norm
    linalg.matrix_power linalg.multi_dot linalg.norm linalg.qr linalg.slogdet linalg.solve linalg.solve_ex
    linalg.solve_triangular linalg.svd linalg.svdvals linalg.vecdot linalg.vector_norm log_softmax logcumsumexp
    lu_solve lu_unpack masked_select matmul matrix_power max mean median min mm mode msort multinomial mv nan_to_num
    nanmedian nanquantile nansum narrow_copy native_batch_norm neg nn.functional.gelu nn.functional.logsigmoid
    nn.functional.softplus nn.functional.softshrink nonzero_static norm ormqr permute_copy polar prod qr quantile
    renorm round scatter scatter_add scatter_reduce searchsorted select_copy sgn sign signbit slice_scatter slogdet
    softmax sort special.round split_with_sizes_copy squeeze_copy sum t_copy take take_along_dim tensordot topk
    transpose_copy triangular_solve tril triu trunc unbind_copy unfold_copy unsqueeze_copy vdot view_as_complex_copy
    view_as_real_copy view_copy where
    """.split()
)


# Those of which this depends on the arguments.
_EXACT_WHERE = {
    "abs": lambda out, input: not (input.is_complex() and (out is input.dtype or out.is_floating_point)),
    "clamp": lambda out, input, *bounds: not any(isinstance(bound, Tensor) for bound in bounds),
    "clamp_min": lambda out, input, bound: not isinstance(bound, Tensor),
    "clamp_max": lambda out, input, bound: not isinstance(bound, Tensor),
    "lerp": lambda out, input, end, weight: isinstance(weight, Tensor) and weight.ndim > 0,
}


def check_out_dtype(op, dtype, out, values=()) -> None:
    """Raise what PyTorch raises if a tensor of the dtype `out` can't take the result of an op, which has a `dtype`."""
    where = _EXACT_WHERE.get(op.name)
    if op.trusted and op.name in ("all", "any"):
        if out._label != "Byte":  # which stood for bool once
            raise RuntimeError(f"{op.name} only supports bool tensor for result, got: {out._label}")
    elif op.trusted and (where(out, *values) if where else not _EXACT_OUTS.isdisjoint((op.name, *op.names))):
        raise RuntimeError(f"Found dtype {out._label} but expected {dtype._label}: out= of {op.name}() has no other")
    if op.trusted and op.names and op.names[0].startswith("fft.") and dtype.is_complex is not out.is_complex:
        kind = "complex" if dtype.is_complex else "floating point"
        raise RuntimeError(f"{op.name} expects a {kind} output tensor, but got {out._label}")
    if op.trusted and op.names and op.names[0].startswith("linalg.") and not can_cast(dtype, out):
        what = "eigenvalues" if op.name.startswith("linalg_eig") else "result"
        raise RuntimeError(
            f"{op.names[0]}: Expected {what} to be safely castable from {dtype._label} dtype, but got {what} with "
            f"dtype {out._label}"
        )
    check_cast(dtype, out, TypeError if op.trusted and op.name in _JOINING else RuntimeError)


def check_cast(dtype, out, error=RuntimeError, hint="") -> None:
    """Raise an error if results of a dtype are not written to tensors of the dtype `out`."""
    if not can_cast(dtype, out):
        raise error(f"result type {dtype._label} can't be cast to the desired output type {out._label}{hint}")


_JOINING = frozenset("cat concat concatenate stack hstack vstack dstack column_stack".split())


def integer_scalar(value, compute, wraps):
    """Return a Python number as one that the integer dtype can hold: wrapped around, as PyTorch does, or refused."""
    if compute.kind not in "iu":
        return value
    bits = compute.itemsize * 8
    wrapped = int(value) & ((1 << bits) - 1)
    wrapped -= (1 << bits) if compute.kind == "i" and wrapped >> (bits - 1) else 0
    if not wraps and wrapped != value and not (value < 0 < value + (1 << bits) and compute.kind == "u"):
        raise RuntimeError(f"value cannot be converted to type {compute} without overflow: it is {value}")
    return wrapped
