"""Ops that overwrite a tensor: fill_, zero_, copy_, and the random uniform_, normal_, exponential_..."""

from __future__ import annotations

import math
from functools import partial

import numpy

from plugrad.extend import Op, collect, composite, hookimpl, op, rng

from ._checks import BOOL_OR_COMPLEX, COMPLEX, check_probabilities, converted, element, fitted, refuse
from ._draws import (
    CAUCHY,
    EXPONENTIAL,
    GEOMETRIC,
    QUIET,
    UNIFORM,
    any_integer_array,
    check_bounds,
    check_range,
    coin_draws,
    doubles,
    drawn_by_c,
    exponential_array,
    highest,
    in_memory_order,
    integer_array,
    is_plain,
    normal_array,
    refuse_integers,
    rounded,
    tosses,
    uniform_array,
)
from ._memory_formats import copy_to, is_long
from .random import check_deviation


@op(at=(), like="input")
def bernoulli_like(xp, input, p=0.5, *, generator=None):
    """Zeros and ones in the shape of `input`, each one with probability `p`."""
    refuse(COMPLEX, "bernoulli_scalar_cpu_", input)
    if hasattr(p, "dtype"):
        refuse_integers("bernoulli_tensor_cpu_p_", p.dtype)
        check_probabilities(xp, p)
        draw = partial(coin_draws, xp, generator=generator, dtype=p.dtype)
        return (in_memory_order(input, draw) < p).astype(input.dtype)
    return in_memory_order(input, lambda shape: tosses(xp, shape, p, generator, input.dtype))


@composite(name="bernoulli_in_place", at=("Tensor.bernoulli_",), kinds={"p": "tensor|float"})
def bernoulli_(F, input, p=0.5, *, generator=None):
    """Fill with zeros and ones, each one with probability `p` (a number or a tensor).

    >>> import plugrad as torch
    >>> torch.zeros(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    return input.copy_(F.bernoulli_like(input, p, generator=generator))


@op(at=(), inplace=True, like="input", kinds={"from_": "float", "to": "float"})
def uniform(xp, input, from_=0.0, to=1.0, *, generator=None):
    """Fill with uniform random numbers of [from_, to).

    >>> import plugrad as torch
    >>> float(torch.zeros(9).uniform_(2, 3).min()) >= 2
    True
    """
    if not (0 <= from_ <= to <= 1):
        check_bounds(input.dtype, from_, to)
    return in_memory_order(input, lambda shape: uniform_array(xp, shape, input.dtype, generator, from_, to))


@uniform.writer
def uniform_write(xp, out, from_=0.0, to=1.0, generator=None):
    if not (0 <= from_ <= to <= 1):
        check_bounds(out.dtype, from_, to)
    return out if drawn_by_c(xp, out, generator, UNIFORM, from_, to) else NotImplemented


@op(at=(), like="input")
def normal_like(xp, input, mean=0.0, std=1.0, *, generator=None):
    """Normal random numbers in the shape of `input`."""
    check_deviation(xp, std)
    dense = input.flags.c_contiguous
    return in_memory_order(input, lambda shape: normal_array(xp, shape, input.dtype, generator, mean, std, dense))


@bernoulli_like.samples
@uniform.samples
@normal_like.samples
def filled_samples(make):
    yield make(2, 3)


@composite(name="normal_in_place", at=("Tensor.normal_",), kinds={"mean": "float", "std": "float"})
def normal_(F, input, mean=0.0, std=1.0, *, generator=None):
    """Fill with normal random numbers.

    >>> import plugrad as torch
    >>> torch.zeros(2).normal_(3.0, 0.0)
    tensor([3., 3.])
    """
    return input.copy_(F.normal_like(input, mean, std, generator=generator))


@bernoulli_.samples
@normal_.samples
def written_samples(make):
    yield make.on_copy(make(2, 3, requires_grad=False))


def _refuse_complex(name, input):
    """Refuse complex numbers for a distribution of real ones."""
    if input.dtype.kind == "c":
        raise RuntimeError(f"{name} distribution is a continuous probability distribution of real numbers; write .real")


@op(at=(), inplace=True, like="input", kinds={"mean": "float", "std": "float"})
def log_normal(xp, input, mean=1.0, std=2.0, *, generator=None):
    """Fill with exponentials of normal random numbers.

    >>> import plugrad as torch
    >>> bool((torch.zeros(9).log_normal_() > 0).all())
    True
    """
    refuse(COMPLEX, "log_normal_cpu", input)
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    refuse_integers("log_normal_cpu", input.dtype)
    draw = partial(normal_array, xp, dtype="float64", generator=generator, mean=mean, std=std, dense=False)
    with QUIET():
        return rounded(xp, xp.exp(in_memory_order(input, draw)), input.dtype)


@log_normal.writer
def log_normal_write(xp, out, mean=1.0, std=2.0, generator=None):
    if std <= 0 or not is_plain(xp, out):
        return NotImplemented
    drawn = normal_array(xp, (out.size,), "float64", generator, mean, std, dense=False)
    with QUIET():
        out.reshape(-1)[...] = xp.exp(drawn, drawn)
    return out


@op(at=(), inplace=True, like="input", kinds={"lambd": "float"})
def exponential(xp, input, lambd=1.0, *, generator=None):
    """Fill with exponential random numbers of rate `lambd`.

    Their density is lambd exp(-lambd x).

    >>> import plugrad as torch
    >>> bool((torch.zeros(9).exponential_() >= 0).all())
    True
    """
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if input.dtype.kind != "f" and input.dtype.name != "bfloat16":
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {input.dtype}"
        )
    return in_memory_order(input, lambda shape: exponential_array(xp, shape, input.dtype, generator, lambd))


@exponential.writer
def exponential_write(xp, out, lambd=1.0, generator=None):
    drawn = lambd > 0.001 and drawn_by_c(xp, out, generator, EXPONENTIAL, -1.0 / lambd)
    return out if drawn else NotImplemented


log_normal.samples(filled_samples)
exponential.samples(filled_samples)


@op(at=(), inplace=True, like="input", kinds={"median": "float", "sigma": "float"})
def cauchy(xp, input, median=0.0, sigma=1.0, *, generator=None):
    """Fill with Cauchy random numbers around `median` with scale `sigma`.

    >>> import plugrad as torch
    >>> torch.zeros(2, 3).cauchy_().shape
    torch.Size([2, 3])
    """
    _refuse_complex("Cauchy", input)
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    refuse_integers("cauchy", input.dtype)
    drawn = in_memory_order(input, partial(doubles, xp, rng(xp, generator)))
    least = 2.0**-52  # so that the tangent is finite
    with QUIET():
        return rounded(xp, median + sigma * xp.tan(xp.pi * (xp.clip(drawn, least, 1 - least) - 0.5)), input.dtype)


@cauchy.writer
def cauchy_write(xp, out, median=0.0, sigma=1.0, generator=None):
    drawn = sigma > 0 and drawn_by_c(xp, out, generator, CAUCHY, median, sigma)
    return out if drawn else NotImplemented


@op(at=(), inplace=True, like="input", kinds={"p": "float"})
def geometric(xp, input, p, *, generator=None):
    """Fill with the number of trials up to the first success of probability `p`.

    >>> import plugrad as torch
    >>> bool((torch.zeros(9).geometric_(0.5) >= 1).all())
    True
    """
    refuse(COMPLEX, "geometric_cpu", input)
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    if input.dtype.kind == "b":
        raise NotImplementedError("\"geometric_cpu\" not implemented for 'Bool'; give integers or floats")
    drawn = in_memory_order(input, partial(doubles, xp, rng(xp, generator)))
    with QUIET():
        return xp.ceil(xp.log(drawn) / math.log1p(-p)).astype(input.dtype)


@geometric.writer
def geometric_write(xp, out, p, generator=None):
    drawn = 0 < p < 1 and drawn_by_c(xp, out, generator, GEOMETRIC, math.log1p(-p))
    return out if drawn else NotImplemented


_UNTIL = ...  # no `to` was given: then the first number, if there is one, is `to`


@op(at=(), inplace=True, like="input", kinds={"from_": "int?"})
def random(xp, input, from_=None, to=_UNTIL, *, generator=None):
    """Fill with random integers of [from_, to).

    One number is `to`, none means the dtype's range, and None for `to` its end. For floats that range ends where
    neighbouring integers can no longer be told apart.

    >>> import plugrad as torch
    >>> torch.zeros(2).random_(1)
    tensor([0., 0.])
    """
    if not isinstance(to, (int, type(None), type(_UNTIL))):
        raise TypeError(f"random_(): argument 'to' (position 2) must be int, not {type(to).__name__}; write int(...)")
    if from_ is None and (to is None or to is _UNTIL):
        limit = highest(input.dtype) + 1
        return in_memory_order(input, lambda shape: any_integer_array(xp, shape, input.dtype, generator, limit))
    refuse(COMPLEX, "random_kernel_cpu", input)
    if from_ is None or to is _UNTIL:
        from_, to = 0, from_ if to is _UNTIL else to
    to = highest(input.dtype) + 1 if to is None else to
    check_range(input.dtype, from_, to)
    return in_memory_order(input, lambda shape: integer_array(xp, from_, to, shape, input.dtype, generator))


@bernoulli_like.vjp
@uniform.vjp
@normal_like.vjp
@log_normal.vjp
@exponential.vjp
@cauchy.vjp
@geometric.vjp
@random.vjp
def filled_vjp(F, g):
    """What was there before does not matter."""
    return F.zeros_like(g)


cauchy.samples(filled_samples)
random.samples(filled_samples)


@geometric.samples
def geometric_samples(make):
    yield make(2, 3), 0.25


@op(
    at=("fill",), inplace=True, like="input", kinds={"value": "tensor|number"}, eight_bits=True,
    node={"FillBackward1": "isinstance(value, Tensor)"},
)  # fmt: skip
def fill(xp, input, value):
    """A copy of `input` in which every element is `value` (a number or a 0-d tensor).

    >>> import plugrad as torch
    >>> torch.fill(torch.tensor([1, 2]), 5)
    tensor([5, 5])
    """
    if getattr(value, "ndim", 0):
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    out = xp.empty_like(input)
    out[...] = _filling(out, value)
    return out


def _filling(out, value):
    """Return what fills an array: a single element of half precision may become infinite, as in PyTorch."""
    return element(out.dtype, value, out.dtype.itemsize == 2 and out.size == 1)


def _once(out, value=0):
    """Return an array with each element of an expanded array once, which may be written, unlike what is expanded.

    But not by a tensor: ValueError.
    """
    if getattr(out.flags, "writeable", True):
        return out
    if hasattr(value, "ndim"):
        raise ValueError("expanded")
    part = out[tuple([slice(None) if step else slice(1) for step in out.strides])]
    part.flags.writeable = True
    return part


@fill.writer
def fill_write(xp, out, value):
    if getattr(value, "ndim", 0):
        return NotImplemented
    _once(out, value)[...] = _filling(out, value)
    return out


@fill.vjp("input")
def fill_vjp_input(F, g):
    return F.zeros_like(g)


@fill.vjp("value")
def fill_vjp_value(F, g):
    return F.sum(g)


@fill.samples
def fill_samples(make):
    yield make.args(make(2, 3), 2.5)
    yield make.args(make(2, 3), make())


@op(at=(), inplace=True, like="input", eight_bits=True)
def zero(xp, input):
    """Zeros in place of every element.

    >>> import plugrad as torch
    >>> torch.tensor([1, 2]).zero_()
    tensor([0, 0])
    """
    return xp.zeros_like(input)


@zero.writer
def zero_write(xp, out):
    _once(out).fill(0 if out.itemsize > 1 else fitted(out.dtype, 0))  # one type of 8 bits has no zero


@zero.vjp
def zero_vjp(F, g):
    return F.zeros_like(g)


@zero.samples
def zero_samples(make):
    yield make(2, 3)


@composite(name="zero_in_place", at=("zero_",))
def zero_function(F, input):
    """Set every element to zero.

    >>> import plugrad as torch
    >>> torch.zero_(torch.tensor([1, 2]))
    tensor([0, 0])
    """
    return input.zero_()


zero_function.samples(written_samples)


@composite(name="fill_in_place", at=("fill_",), kinds={"value": "tensor|number"})
def fill_function(F, input, value):
    """Set every element to `value`, a number or a 0-d tensor.

    >>> import plugrad as torch
    >>> torch.fill_(torch.tensor([1, 2]), 5)
    tensor([5, 5])
    """
    return input.fill_(value)


@fill_function.samples
def filled_with_samples(make):
    yield make.on_copy(make(2, 3, requires_grad=False), 2.5)


def _array_of_number(xp, value):
    """Return a number as an array, which is converted to any dtype: integers wrap around, fractions are cut off."""
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise OverflowError("int too big to convert: copy_(): argument 'src' has more than 64 bits; write a float")
    return xp.asarray(value)


@op(at=(), inplace=True, like="input", kinds={"src": "tensor|number", "non_blocking": "bool"}, eight_bits=True)
def copy(xp, input, src, non_blocking=False):
    """The values of `src`, broadcast and cast to the shape and dtype of `input`.

    >>> import plugrad as torch
    >>> torch.zeros(2, 2).copy_(torch.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    out = xp.empty_like(input)
    src = src if hasattr(src, "dtype") else _array_of_number(xp, src)
    if src.dtype.kind == "c" and input.dtype.kind not in BOOL_OR_COMPLEX:
        src = src.real
    try:
        if src.ndim > input.ndim:  # NumPy drops leading ones
            raise ValueError
        out[...] = converted(xp, src, out.dtype) if out.itemsize == 1 else src
    except ValueError:
        raise RuntimeError(
            f"The size of tensor a {list(input.shape)} must match the size of tensor b "
            f"{list(src.shape)}: the source of copy_ must be broadcastable to the target"
        ) from None
    return out


copy.gathers = {"src": "any"}


@copy.writer
def copy_write(xp, out, src, non_blocking=False):
    if src.__class__ is float and out.dtype.kind == "f":
        out[...] = src
        return out
    if not 0 <= getattr(src, "ndim", -1) <= out.ndim:  # another number is made an array first
        return NotImplemented
    if is_long(out) and src.__class__ is numpy.ndarray and src.shape == out.shape and src.dtype is out.dtype:
        if out.flags.writeable and not numpy.may_share_memory(out, src):
            copy_to(out, src)
            return out
    try:
        out[...] = converted(xp, src, out.dtype) if out.itemsize == 1 else src
    except ValueError:  # shapes that do not broadcast
        return NotImplemented
    return out


@copy.vjp("input")
def copy_vjp_input(F, g):
    return F.zeros_like(g)


@copy.vjp("src")
def copy_vjp_src(F, g, src_shape):
    return F.sum_to_size(g, src_shape)


@copy.samples
def copy_samples(make):
    yield make.args(make(2, 3), make(2, 3))
    yield make.args(make(2, 3), make(3))


@composite(at=("Tensor.fill_diagonal_",), name="fill_diagonal_", kinds={"fill_value": "number"})
def fill_diagonal_(F, input, fill_value, wrap=False):
    """Write `fill_value` to the diagonal; return the tensor.

    `wrap` goes on below a matrix of more rows than columns, after a row without one. Raises `RuntimeError` for fewer
    than two dimensions, and for more of different sizes.

    >>> import plugrad as torch
    >>> torch.zeros(2, 2).fill_diagonal_(3)
    tensor([[3., 0.],
            [0., 3.]])
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1: fill_diagonal_() needs a matrix, or more dimensions")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(f"all dimensions of input must be of equal length, got {list(shape)}")
    if wrap and len(shape) == 2 and shape[1]:
        places = range(0, shape[0] * shape[1], shape[1] + 1)
        index = tuple([place // shape[1] for place in places]), tuple([place % shape[1] for place in places])
    else:
        index = (tuple(range(min(shape))),) * len(shape)
    if index[0]:
        filling = input.new_full((2,), fill_value)[0]  # alone in half precision it might be infinite
        input[tuple([list(places) for places in index])] = filling
    return input


@fill_diagonal_.samples
def fill_diagonal_samples(make):
    yield make.on_copy(make(3, 3, requires_grad=False), 2.0)
    yield make.on_copy(make(5, 2, requires_grad=False), 2.0, True)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
