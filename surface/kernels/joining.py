"""A function in C, and how a call of an op becomes a call of it."""

from __future__ import annotations

import functools
import inspect

import plugrad
from plugrad.devices.dtypes import float32, is_half
from plugrad.dispatch.source import compile_function
from plugrad.kernels.loading import function, module


def native_function(name, otherwise, over=False):
    """Return a function of plugrad in C; what that does not serve `otherwise` does.

    It takes arrays and numbers. Where there is no extension this is `otherwise` itself. With `over` the result is
    written over the first array, which only functions do that compute each element for itself.

    >>> import numpy
    >>> from plugrad.kernels import native_function
    >>> native_function("add", numpy.add)(numpy.ones(2), numpy.ones(2))
    array([2., 2.])
    """
    call = function(name)
    if call is None:
        return otherwise
    return (module().over if over else module().joined)(call, otherwise, 0) or otherwise


def is_native(function) -> bool:
    """Whether a function is one in C, as `native_function` gives it.

    It takes arrays and numbers.
    """
    return type(getattr(function, "__self__", None)).__name__ == "PyCapsule"


def native(
    name, otherwise=None, plain=False, lists=False, signed=False, halves=False, widens=False, integers=False
):  # fmt: skip
    """Make a kernel of a function in C and of one in Python that calls it.

    `name` is that of one of plugrad's own C functions, or what `load_inline` returned, or None for one that is not to
    be had. What is decorated gets the C function first, then what a kernel or a formula's kernel gets. It returns the
    result, or NotImplemented for calls that the C function does not serve: those go to the kernel that the op
    `otherwise` has, or for a formula to the formula. Where there is no extension the result is None, which
    `@op.kernel` and `@op.vjp_kernel` take for no kernel.

    `plain`: what is decorated does no more than to hand on its arguments, arrays and numbers; so calls of the op are
    calls of the C function.

    `lists`: what is decorated may get lists in the place of arrays, and returns what the C function does: the
    places of those calls, one with each list's first array and so on, that it did not serve. So a step of an optimizer
    is one call, whose parts may go to several threads.

    `halves`: the function takes half precision as it is, where others are given float32; what it does not serve
    `otherwise` gets in float32.

    `widens`: half precision is computed in float32 by the same function, where others leave it to `otherwise`; the
    result, or the first of several, is rounded.

    `integers`: the kernel of a binary op takes them as they are, and a number beside them as an array of their type,
    which the result has, too; so such calls take the fast path.

    `signed`: an optimizer's kernel looks at `maximize` itself; others get gradients that are negated.
    """

    def join(adapter):
        call = function(name) if isinstance(name, str) else name
        if call is None:
            return None
        if otherwise is None:
            kernel = functools.partial(adapter, call)
            functools.update_wrapper(kernel, adapter)
        else:
            other = otherwise.kernels.get("cpu") if is_native(call) else None
            other = other or otherwise.kernels["*"]
            if halves or widens:
                other = in_single(other) if halves else _widened(functools.partial(adapter, call), other)
            kernel = _with_fallback(adapter, call, other)
        kernel.native, kernel.call, kernel.adapter = name if isinstance(name, str) else adapter.__name__, call, adapter
        kernel.lists, kernel.signed, kernel.halves, kernel.integers = lists, signed, halves, integers
        if plain:
            kernel.direct = module().joined(call, kernel.otherwise, 1)
        over = module().over(call, None, int(plain)) if is_native(call) else None
        if over is not None:
            kernel.over = over if plain else functools.partial(adapter, over)
        return kernel

    return join


def in_single(kernel):
    """Return a kernel of elements that computes half precision in float32.

    Its result is rounded once. Of its first two operands one is an array, by whose type it knows half precision.

    >>> import numpy
    >>> from plugrad.kernels import in_single
    >>> in_single(lambda xp, input: input + 1 - input)(numpy, numpy.array([2048.0], "float16"))
    array([1.], dtype=float16)
    """

    def widened(xp, input, *rest, **options):
        dtype = (input if hasattr(input, "dtype") else rest[0]).dtype
        if not is_half(dtype):
            return kernel(xp, input, *rest, **options)
        wide = [one.astype("float32") if getattr(one, "dtype", None) == dtype else one for one in (input, *rest)]
        return kernel(xp, *wide, **options).astype(dtype)

    return widened


def _widened(adapter, other):
    """Return what calls `adapter` in float32 for half precision on the CPU, and `other` for all else."""

    def in_single(xp, input, *rest, **options):
        dtype, result = input.dtype, NotImplemented
        if is_half(dtype):
            cast = plugrad.device("cpu").backend.cast
            wide = [cast(one, float32.numpy) if getattr(one, "dtype", None) == dtype else one for one in (input, *rest)]
            result = adapter(xp, *wide, **options)
        if result is NotImplemented:
            return other(xp, input, *rest, **options)
        return (cast(result[0], dtype), *result[1:]) if isinstance(result, tuple) else cast(result, dtype)

    return in_single


class _Written(str):
    """A name that stands for a default in the text of a signature."""

    __repr__ = str.__str__


def _with_fallback(adapter, call, other):
    """Return the kernel, with the parameters of `adapter` but `call`: written out, since to pack them takes longer."""
    taken, names = list(inspect.signature(adapter).parameters.values())[1:], {}
    written, given = [], []
    for one in taken:
        if one.default is not one.empty:
            names[f"_default_{one.name}"], default = one.default, _Written(f"_default_{one.name}")
        else:
            default = one.empty
        written.append(one.replace(default=default, annotation=one.empty))
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**", one.KEYWORD_ONLY: f"{one.name}="}.get(one.kind, "")
        given.append(mark + one.name)
    text = (
        f"def kernel{inspect.Signature(written)}:\n    result = _adapter(_call, {', '.join(given)})\n"
        f"    return _other({', '.join(given)}) if result is NotImplemented else result\n"
    )
    names |= {"_adapter": adapter, "_call": call, "_other": other}  # underscored, as no parameter is
    label = f"kernel {adapter.__module__}.{adapter.__qualname__}"
    kernel = functools.wraps(adapter)(compile_function(text, "kernel", label, names))
    kernel.__signature__ = inspect.Signature(taken)
    kernel.otherwise = other
    return kernel
