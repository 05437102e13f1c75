"""Discrete Fourier transforms: three linear ops, and the public functions of `fft` made of them.

J. W. Cooley, J. W. Tukey, "An algorithm for the machine calculation of complex Fourier series", Math. Comp. 19, 1965.
The gradient of a linear map is its adjoint, and the adjoint of each of the three ops is one of them again.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy

import plugrad
from plugrad.extend import Op, axes, collect, composite, factory, hookimpl, is_integral, native, op, write_out

from ._checks import as_int, dtype_word, ints, refuse

_COMPLEX = {"f": "complex64", "d": "complex128"}  # by the character of the dtype
_REAL = {"F": "float32", "D": "float64"}


def _scaled(xp, result, scale, dtype):
    result = result.astype(dtype, copy=False)
    if scale == 1:
        return result
    if result.dtype.kind != "c" or not result.size:
        return result * result.dtype.type(scale)
    scaled = xp.empty_like(result)
    scaled.real, scaled.imag = result.real * scale, result.imag * scale  # infinity times 0j is NaN
    return scaled


# ---------------------------------------------------------------------------------------------------- in C

_FORWARD_IN_C, _BACKWARD_IN_C, _FROM_REAL, _TO_REAL = range(4)
_LONGEST = {"f": 4096, "d": 2048}  # beyond, what is worked on does not stay near the processor: NumPy is quicker


@lru_cache(maxsize=128)
def _tables(length, real, char):
    """Return (factors, roots of unity) as the C function takes them; None for lengths that it does not serve."""
    n = length // 2 if real and length % 2 == 0 else length
    factors, rest = [], n
    for radix in (4, 2, 3, 5, 7):
        while rest > 1 and rest % radix == 0:
            factors.append(radix)
            rest //= radix
    if rest != 1 or n > _LONGEST[char]:
        return None
    angles = [numpy.arange(n + 1) / numpy.longdouble(length)] if n != length else []
    for radix in factors:
        products = numpy.multiply.outer(numpy.arange(n // radix), numpy.arange(1, radix))
        angles.append(products.ravel() / numpy.longdouble(n))
        n //= radix
    turns = numpy.concatenate([*angles, [0]]) * (-8 * numpy.arctan(numpy.longdouble(1)))
    return (*factors, 0), numpy.stack([numpy.cos(turns), numpy.sin(turns)], 1).astype(char)


def _in_c(call, kind, input, dim, length, scale, wanted, result):
    """Return the transform of one dimension, which gets `wanted` numbers; NotImplemented if C does not serve it."""
    char = input.dtype.char.lower()
    tables = _tables(length, kind >= _FROM_REAL, char) if char in _LONGEST and length > 0 else None
    if tables is None or not input.flags.c_contiguous:
        return NotImplemented
    shape = input.shape
    output = numpy.empty((*shape[:dim], wanted, *shape[dim + 1 :]), result or input.dtype)
    served = call(tables[1], input, output, kind, length, prod(shape[dim + 1 :]), scale, *tables[0])
    return output if served is None else NotImplemented


def _complex_in_c(call, input, dims, scale, forward):
    kind, dtype = _FORWARD_IN_C if forward else _BACKWARD_IN_C, _COMPLEX.get(input.dtype.char)
    for dim in dims:
        if input is not NotImplemented:
            size = input.shape[dim]
            input = _in_c(call, kind, input, dim, size, scale if dim == dims[-1] else 1.0, size, dtype)
    return input


def _node(input, dims, scale, forward):
    """Return the name of the node: PyTorch sends real numbers through another function where there is one dimension."""
    return f"Fft{'C' if input.is_complex() or len(dims) != 1 else 'R'}2CBackward0"


@op(at=(), any_order=True, node=_node)
def fft_c2c(xp, input, dims, scale, forward):
    """Sum of input[j] exp(-+ 2 pi i j k / n) along each of `dims`, times `scale`.

    The sign is minus when `forward`.
    """
    dtype = _COMPLEX.get(input.dtype.char, input.dtype)
    if not dims:
        return _scaled(xp, input.astype(dtype), scale, dtype)
    norm = "backward" if forward else "forward"
    if len(dims) == 1:  # the functions of several dimensions take their time to find that out
        result = (xp.fft.fft if forward else xp.fft.ifft)(input, axis=dims[0], norm=norm)
    else:
        result = (xp.fft.fftn if forward else xp.fft.ifftn)(input, axes=dims, norm=norm)
    return _scaled(xp, result, scale, dtype)


@fft_c2c.kernel("cpu")
@native("transform", otherwise=fft_c2c)
def fft_c2c_in_c(call, xp, input, dims, scale, forward):
    return _complex_in_c(call, input, dims, scale, forward) if dims else NotImplemented


@fft_c2c.meta
def fft_c2c_meta(input, dims, scale, forward):
    return input.shape, _COMPLEX.get(input.dtype.char, input.dtype)


@fft_c2c.vjp
def fft_c2c_vjp(F, g, dims, scale, forward):
    return F.fft_c2c(g, dims, scale, not forward)


@fft_c2c.samples
def fft_c2c_samples(make):
    yield make.args(make(3, 4, dtype="complex128"), (0,), 0.5, True)
    yield make.args(make(3, 4, dtype="complex128"), (1, 0), 1.0, False)
    yield make.args(make(5), (0,), 1.0, True)


def _twin(dims, n):
    """Index of the coefficients, along the last of `dims`, that stand for their conjugate twins too."""
    return (slice(None),) * dims[-1] + (slice(1, (n + 1) // 2),)


@op(at=(), any_order=True, node="FftR2CBackward0")
def fft_r2c(xp, input, dims, scale, double=False):
    """Transform of a real array, cut to its first n // 2 + 1 coefficients.

    It is cut along the last of `dims`. With `double` those that have a conjugate twin count twice.
    """
    refuse("c", "fft_r2c", input)
    result = xp.fft.rfft(input, axis=dims[0]) if len(dims) == 1 else xp.fft.rfftn(input, axes=dims)
    result = _scaled(xp, result, scale, _COMPLEX[input.dtype.char])
    if double:
        result[_twin(dims, input.shape[dims[-1]])] *= 2
    return result


def _half(shape, dims):
    return tuple(n // 2 + 1 if i == dims[-1] else n for i, n in enumerate(shape))


@fft_r2c.kernel("cpu")
@native("transform", otherwise=fft_r2c)
def fft_r2c_in_c(call, xp, input, dims, scale, double=False):
    if input.dtype.char not in _COMPLEX:
        return NotImplemented
    n = input.shape[dims[-1]]
    result = _in_c(call, _FROM_REAL, input, dims[-1], n, scale, n // 2 + 1, _COMPLEX[input.dtype.char])
    if len(dims) > 1 and result is not NotImplemented:
        result = _complex_in_c(call, result, dims[:-1], 1.0, True)
    if double and result is not NotImplemented:
        result[_twin(dims, n)] *= 2
    return result


@fft_r2c.meta
def fft_r2c_meta(input, dims, scale, double=False):
    return _half(input.shape, dims), _COMPLEX[input.dtype.char]


@fft_r2c.vjp
def fft_r2c_vjp(F, g, input_shape, dims, scale, double):
    return F.fft_c2r(g, dims, scale, input_shape[dims[-1]], double)


@fft_r2c.samples
def fft_r2c_samples(make):
    yield make.args(make(3, 4), (0, 1), 0.5)
    yield make.args(make(3, 4), (1, 0), 1.0, True)


@op(at=(), any_order=True, node="FftC2RBackward0")
def fft_c2r(xp, input, dims, scale, n, double=True):
    """Real transform back from the first n // 2 + 1 coefficients.

    These are given along the last of `dims`. Unless `double` they do not stand for their conjugate twins: the result
    is the real part of their sum alone.
    """
    if not double:
        input = xp.array(input)
        input[_twin(dims, n)] /= 2
    sizes = [n if d == dims[-1] else input.shape[d] for d in dims]
    result = xp.fft.irfftn(input, sizes, dims, norm="forward")
    return _scaled(xp, result, scale, _REAL.get(input.dtype.char, input.dtype))


@fft_c2r.kernel("cpu")
@native("transform", otherwise=fft_c2r)
def fft_c2r_in_c(call, xp, input, dims, scale, n, double=True):
    char = input.dtype.char
    if char not in _REAL or input.shape[dims[-1]] != n // 2 + 1:
        return NotImplemented
    if not double:
        input = input.copy()
        input[_twin(dims, n)] /= 2
    input = _complex_in_c(call, input, dims[:-1], 1.0, False)
    return input if input is NotImplemented else _in_c(call, _TO_REAL, input, dims[-1], n, scale, n, _REAL[char])


@fft_c2r.meta
def fft_c2r_meta(input, dims, scale, n, double=True):
    shape = tuple(n if i == dims[-1] else size for i, size in enumerate(input.shape))
    return shape, _REAL.get(input.dtype.char, input.dtype)


@fft_c2r.vjp
def fft_c2r_vjp(F, g, dims, scale, double, input_dtype):
    grad = F.fft_r2c(g, dims, scale, double)
    return grad if input_dtype.is_complex else F.real(grad)


@fft_c2r.samples
def fft_c2r_samples(make):
    yield make.args(make(3, 3, dtype="complex128"), (0, 1), 0.5, 4)
    yield make.args(make(3, 3, dtype="complex128"), (1,), 1.0, 5, False)


# ---------------------------------------------------------------------------------------------------- public functions


def _scale(norm, sizes, forward):
    """What the sums are multiplied by, under one of the three conventions."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"; it is "backward", "forward" or "ortho"')
    count = prod(sizes)
    if norm == "ortho":
        return count**-0.5
    return 1 / count if (norm == "forward") == forward else 1.0


def _prepare(name, input):
    """The input in a floating point dtype, real where the function asks for that."""
    if name.startswith(("rfft", "ihfft")) and input.is_complex():
        kind = "real" if name in ("rfft", "ihfft") else "real-valued"
        name = name if kind == "real" else f"{name[:-1]}n"  # as PyTorch names it
        raise RuntimeError(
            f"{name} expects a {kind} input tensor, but got {dtype_word(input.dtype.name)}; write input.real or use fft"
        )
    if not (input.is_floating_point() or input.is_complex()):
        return input.to(plugrad.get_default_dtype())
    if input.dtype.itemsize == 2:
        raise RuntimeError(f"Unsupported dtype {dtype_word(input.dtype.name)}: convert the input with .float()")
    return input


def _resize(F, input, dims, sizes):
    """Cut or pad with zeros, at the ends of `dims`, to `sizes`."""
    if all(input.shape[d] == n for d, n in zip(dims, sizes)):
        return input
    wanted = dict(zip(dims, sizes))
    input = input[tuple(slice(wanted.get(d, n)) for d, n in enumerate(input.shape))]
    missing = [wanted.get(d, n) - n for d, n in enumerate(input.shape)]
    if not any(missing):
        return input
    return F.constant_pad_nd(input, tuple(m for n in reversed(missing) for m in (0, n)))


def _transform(F, name, input, sizes, dims, norm, out):
    """One of the public functions, along non-negative `dims`; a size that is None stays as it is."""
    input = _prepare(name, input)
    transform = name.rstrip("2n")
    forward, to_real, from_real = transform in _FORWARD, transform in ("irfft", "hfft"), transform in ("rfft", "ihfft")
    if (to_real or from_real) and not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    shape = input.shape
    full = [shape[d] if n is None else ints((n,))[0] for d, n in zip(dims, sizes)]
    if to_real and sizes[-1] is None:
        full[-1] = 2 * (full[-1] - 1)
    for n in full:
        if n < 1:
            raise RuntimeError(f"Invalid number of data points ({n}) specified; there must be at least one")
    scale = _scale(norm, full, forward)
    if to_real:
        input = _resize(F, input, dims, [*full[:-1], full[-1] // 2 + 1])
        result = F.fft_c2r(F.conjugated(input) if forward else input, dims, scale, full[-1])
    else:
        if any(sizes):
            input = _resize(F, input, dims, full)
        result = F.fft_r2c(input, dims, scale) if from_real else F.fft_c2c(input, dims, scale, forward)
        if from_real and not forward:
            result = F.conjugated(result)
    if out is None:
        return result
    return write_out(next(record for record in _transforms if record.name == name), result, out)


_FORWARD = ("fft", "rfft", "hfft")


def _one_axis(input, dim):
    if not input.ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return (axes(dim, input.ndim),)


def _many_axes(input, s, dim):
    """Sizes and dimensions of the functions of several dimensions, from their arguments `s` and `dim`."""
    sizes = s if s is None else ints(s) if isinstance(s, (tuple, list)) else (s,)
    if dim is None:
        count = input.ndim if sizes is None else len(sizes)
        if count > input.ndim:
            raise RuntimeError(f"Got shape with {count} values but input tensor only has {input.ndim} dimensions.")
        dims = tuple(range(input.ndim - count, input.ndim))
    else:
        dims = ints(dim) if isinstance(dim, (tuple, list)) else (dim,)
        if sizes is not None and len(sizes) != len(dims):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        dims = tuple([_one_axis(input, d)[0] for d in dims])
        if len(set(dims)) != len(dims):
            raise RuntimeError("FFT dims must be unique")
    return [None if n == -1 else n for n in sizes or (None,) * len(dims)], dims


_TITLES = {
    "fft": "Discrete Fourier transform",
    "ifft": "Inverse of the discrete Fourier transform",
    "rfft": "First half of the Fourier transform of a real signal",
    "irfft": "Real signal whose first half of the transform is given",
    "hfft": "Real transform of a Hermitian signal, given as a half",
    "ihfft": "First half of the inverse transform of a real signal",
}
_WHERE = {"": "", "2": ", in two dimensions", "n": ", in some dimensions"}
_DOC = """{title}.

    Args:
        input: {what} of any shape; integers become floats.
        {size}
        {dim}
        norm: "backward" (default: inverse transforms are divided by the number of points), "forward" (only the others
            are), or "ortho" (all are divided by its root).

    Raises `RuntimeError` for a size below 1, another `norm`, half precision{real}.

    >>> import plugrad as torch
    >>> torch.fft.{name}(torch.ones({given})).shape
    torch.Size([{result}])
    """
_SIZE = {
    "": "n: number of points, to which the input is cut or padded with zeros; by default as many as there are.",
    "2": "s: numbers of points, to which the input is cut or padded with zeros; -1 or by default as many as there are.",
}
_DIM = {
    "": "dim: along which.",
    "2": "dim: the two dimensions; the last of them is the one of which there may be a half.",
    "n": "dim: the dimensions, by default all or the last len(s); of the last there may be a half.",
}


def _document(transform, suffix):
    from_half, to_half = transform in ("irfft", "hfft"), transform in ("rfft", "ihfft")
    stored = "first half" if from_half else "real tensor" if to_half else "tensor"
    given, result = 3 if stored == "first half" else 4, 3 if stored == "real tensor" else 4
    more = "4, " if suffix else ""
    return _DOC.format(
        title=_TITLES[transform] + _WHERE[suffix], what=stored, size=_SIZE[suffix and "2"], dim=_DIM[suffix],
        real=" or complex input" if stored == "real tensor" else "", name=transform + suffix,
        given=f"{more}{given}", result=f"{more}{result}",
    )  # fmt: skip


def _declare(transform):
    """The records of one transform, along one dimension, two, and any number."""

    def one(F, input, n=None, dim=-1, norm=None, *, out=None):
        return _transform(F, transform, input, (n,), _one_axis(input, dim), norm, out)

    def two(F, input, s=None, dim=(-2, -1), norm=None, *, out=None):
        return _transform(F, f"{transform}2", input, *_many_axes(input, s, dim), norm, out)

    def many(F, input, s=None, dim=None, norm=None, *, out=None):
        return _transform(F, f"{transform}n", input, *_many_axes(input, s, dim), norm, out)

    for suffix, function in (("", one), ("2", two), ("n", many)):
        name = transform + suffix
        function.__doc__ = _document(transform, suffix)
        policy = None if transform.endswith("hfft") and suffix else "float32"
        record = composite(name=name, at=(f"fft.{name}",), autocast={"cpu": policy})(function)
        record.samples(_samples(transform, suffix))
        yield record


def _samples(transform, suffix):
    def samples(make):
        dtype = "complex128" if transform in ("irfft", "hfft") else "float64"
        yield make.args(make(3, 4, dtype=dtype))
        yield make.args(make(3, 4, dtype=dtype), (5, 3) if suffix else 5, norm="ortho")

    return samples


_transforms = [record for transform in _TITLES for record in _declare(transform)]


# ---------------------------------------------------------------------------------------------------- order of the bins


def _shifted(F, input, dim, sign):
    dims = tuple(range(input.ndim)) if dim is None else (as_int(dim),) if hasattr(dim, "__index__") else ints(dim)
    if not dims:
        return F.clone(input)
    dims = [axes(d, input.ndim) for d in dims]
    return F.roll(input, tuple(sign * (input.shape[d] // 2) for d in dims), tuple(dims))


@composite(at=("fft.fftshift",))
def fftshift(F, input, dim=None):
    """Move the zero frequency to the middle of the dimensions `dim` (default: all).

    >>> import plugrad as torch
    >>> torch.fft.fftshift(torch.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted(F, input, dim, 1)


@fftshift.samples
def fftshift_samples(make):
    yield make(5, 4)
    yield make.args(make(5, 4), 0)


@composite(at=("fft.ifftshift",))
def ifftshift(F, input, dim=None):
    """Undo `fftshift`: move the zero frequency from the middle to the start.

    >>> import plugrad as torch
    >>> torch.fft.ifftshift(torch.tensor([-1, 0, 1]))
    tensor([ 0,  1, -1])
    """
    return _shifted(F, input, dim, -1)


ifftshift.samples(fftshift_samples)


def _frequencies(function, name, n, d, dtype):
    dtype = numpy.dtype(dtype)
    if is_integral(dtype):
        raise RuntimeError(f"{name} requires a floating point or complex dtype, not {dtype}")
    if not n:  # NumPy divides by it
        return numpy.full(0 if name == "fftfreq" else 1, numpy.nan, dtype)
    return (function(int(n)) / d).astype(dtype)


@factory(at=("fft.fftfreq",), promote="float")
def fftfreq(xp, n, d=1.0, *, dtype):
    """Frequency of each of the `n` coefficients of `fft`, for samples `d` apart.

    >>> import plugrad as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    return _frequencies(xp.fft.fftfreq, "fftfreq", n, d, dtype)


@factory(at=("fft.rfftfreq",), promote="float")
def rfftfreq(xp, n, d=1.0, *, dtype):
    """Frequencies of the n // 2 + 1 coefficients of `rfft`, for samples `d` apart.

    >>> import plugrad as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies(xp.fft.rfftfreq, "rfftfreq", n, d, dtype)


@fftfreq.samples
@rfftfreq.samples
def frequency_samples(make):
    yield make.args(5)
    yield make.args(6, 0.5)


@hookimpl
def plugrad_ops():
    return [*collect(Op, globals()), *_transforms]
