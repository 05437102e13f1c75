"""Discrete Fourier transforms: three linear ops, and the public functions of `fft` made of them.

J. W. Cooley, J. W. Tukey, "An algorithm for the machine calculation of complex Fourier series", Math. Comp. 19, 1965.
The gradient of a linear map is its adjoint, and the adjoint of each of the three ops is one of them again.
"""

from __future__ import annotations

from math import prod

import plugrad
from plugrad.extend import Op, axes, collect, composite, factory, hookimpl, op

from ._checks import dtype_word

_COMPLEX = {"float32": "complex64", "float64": "complex128"}
_REAL = {"complex64": "float32", "complex128": "float64"}


def _scaled(result, scale, dtype):
    result = result.astype(dtype, copy=False)
    return result if scale == 1 else result * result.dtype.type(scale)


@op(at=())
def fft_c2c(xp, input, dims, scale, forward):
    """Sum of input[j] exp(-+ 2 pi i j k / n) along each of `dims`, times `scale`; minus when `forward`."""
    dtype = _COMPLEX.get(str(input.dtype), input.dtype)
    if not dims:
        return _scaled(input.astype(dtype), scale, dtype)
    transform = xp.fft.fftn if forward else xp.fft.ifftn
    return _scaled(transform(input, axes=dims, norm="backward" if forward else "forward"), scale, dtype)


@fft_c2c.meta
def fft_c2c_meta(input, dims, scale, forward):
    return input.shape, _COMPLEX.get(str(input.dtype), input.dtype)


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


@op(at=())
def fft_r2c(xp, input, dims, scale, double=False):
    """Transform of a real array, of which the last of `dims` keeps the first n // 2 + 1 coefficients.

    With `double` those that have a conjugate twin count twice.
    """
    result = _scaled(xp.fft.rfftn(input, axes=dims), scale, _COMPLEX[str(input.dtype)])
    if double:
        result[_twin(dims, input.shape[dims[-1]])] *= 2
    return result


def _half(shape, dims):
    return tuple(n // 2 + 1 if i == dims[-1] else n for i, n in enumerate(shape))


@fft_r2c.meta
def fft_r2c_meta(input, dims, scale, double=False):
    return _half(input.shape, dims), _COMPLEX[str(input.dtype)]


@fft_r2c.vjp
def fft_r2c_vjp(F, g, input_shape, dims, scale, double):
    return F.fft_c2r(g, dims, scale, input_shape[dims[-1]], double)


@fft_r2c.samples
def fft_r2c_samples(make):
    yield make.args(make(3, 4), (0, 1), 0.5)
    yield make.args(make(3, 4), (1, 0), 1.0, True)


@op(at=())
def fft_c2r(xp, input, dims, scale, n, double=True):
    """Real transform back from the first n // 2 + 1 coefficients along the last of `dims`.

    Unless `double` they do not stand for their conjugate twins: the result is the real part of their sum alone.
    """
    if not double:
        input = xp.array(input)
        input[_twin(dims, n)] /= 2
    sizes = [n if d == dims[-1] else input.shape[d] for d in dims]
    return _scaled(xp.fft.irfftn(input, sizes, dims, norm="forward"), scale, _REAL.get(str(input.dtype), input.dtype))


@fft_c2r.meta
def fft_c2r_meta(input, dims, scale, n, double=True):
    shape = tuple(n if i == dims[-1] else size for i, size in enumerate(input.shape))
    return shape, _REAL.get(str(input.dtype), input.dtype)


@fft_c2r.vjp
def fft_c2r_vjp(F, g, dims, scale, double):
    return F.fft_r2c(g, dims, scale, double)


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
        raise RuntimeError(
            f"{name} expects a real input tensor, but got {dtype_word(input.dtype.name)}; write input.real or use fft"
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
    kind = name.removesuffix("2").removesuffix("n")
    forward = kind in ("fft", "rfft", "hfft")
    to_real, from_real = kind in ("irfft", "hfft"), kind in ("rfft", "ihfft")
    if (to_real or from_real) and not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    sizes = [input.shape[d] if n in (None, -1) else n for d, n in zip(dims, sizes)]
    given = list(sizes)
    if to_real:
        last = sizes[-1] if given_last else 2 * (sizes[-1] - 1) if False else sizes[-1]
    return input
