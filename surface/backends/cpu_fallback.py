"""Computing on the CPU what a device's backend can't do: never unasked, always counted.

It concerns ops whose kernel does not exist on a device: it raises NotImplementedError, or uses a name that the device's
array module lacks. Without permission that is an error which says how to give it. With permission the arguments are
copied to the CPU and the results back; one warning is given for each op and device, and `fallbacks()` has the counts.
"""

from __future__ import annotations

import types

import numpy

from plugrad import Generator, device, nest, registry
from plugrad.errors import describe, warn
from plugrad.extend.scipy_modules import has_scipy_module
from plugrad.registry import preferences

_rules: list = []  # of `fallback` and `no_fallback`; the last one that concerns an op decides
_counts: dict[tuple[str, str], int] = {}


class MissingKernelError(NotImplementedError):
    """An op can't run on a device, and may or can not fall back to the CPU."""


class FallbackWarning(UserWarning):
    """An op runs on the CPU instead of its tensors' device, as the user allowed."""


class _Rule:
    """Permission or prohibition, in force at once, and as a context manager until the block ends."""

    allow = True

    def __init__(self, *names):
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"write names of ops, such as 'conv2d', not {name!r}")
        self.names = frozenset(names)
        _rules.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()

    def end(self) -> None:
        """Take the rule back."""
        if self in _rules:
            _rules.remove(self)

    def __repr__(self):
        return f"<{type(self).__name__} for {', '.join(sorted(self.names)) or 'all ops'}>"


class fallback(_Rule):
    """Allow ops, those named or all, to fall back to the CPU in the whole process.

    As a context manager it ends with the block, else with `end()`.

    >>> import plugrad as torch
    >>> with torch.backends.fallback("conv2d", "max_pool2d"):
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """


class no_fallback(_Rule):
    """Forbid ops, those named or all, to fall back to the CPU, whatever allows it."""

    allow = False


def fallbacks() -> dict[tuple[str, str], int]:
    """Return how often ops fell back to the CPU so far: {(op, device): count}.

    >>> import plugrad as torch
    >>> torch.backends.fallbacks()
    {}
    """
    return dict(_counts)


def _names(op, in_formula=False) -> set[str]:
    """Return the names under which an op may be allowed or forbidden.

    In a gradient formula, or without a public name, it goes by the names of the ops that it serves, too.
    """
    names = {op.name, op.qualname, *op.names}
    if in_formula or not op.names:
        for user in registry.ops.values():
            if any(op.name in formula.function.__code__.co_names for formula in user.formulas):
                names |= {user.name, user.qualname, *user.names}
    return names


def allowed(op, in_formula=False) -> tuple[bool, str]:
    """Return whether an op may fall back, and who says so."""
    names = _names(op, in_formula)
    for rule in reversed(_rules):
        if not rule.names or not rule.names.isdisjoint(names):
            return rule.allow, f"plugrad.backends.{type(rule).__name__}"
    value, source = preferences.setting("fallback")
    if value is None:
        return False, "it is off unless you allow it"
    return value is True or (value is not False and not names.isdisjoint(value)), str(source)


before_formulas: list = []  # f(op, name of a backend): formulas are about to call an op there for the first time


def applies(error, ttype) -> bool:
    """Whether an error means that a device's kernel does not exist."""
    if ttype.backend.name == "cpu" or ttype.symbolic or isinstance(error, MissingKernelError):
        return False
    return isinstance(error, NotImplementedError) or _is_part_of(getattr(error, "obj", None), ttype.xp)


def _is_part_of(holder, xp) -> bool:
    """Whether the object that lacks an attribute is the array module, a module in it, or its SciPy."""
    if holder is None or holder is xp or has_scipy_module(xp, holder):
        return holder is not None
    if isinstance(xp, types.ModuleType):
        root = xp.__name__.partition(".")[0]
        return isinstance(holder, types.ModuleType) and holder.__name__.partition(".")[0] == root
    return type(holder) is type(xp)


def compute(op, ttype, raw, error):
    """Do on the CPU what a kernel could not do; MissingKernelError unless that is allowed."""
    host = device("cpu").tensor_type(ttype.np)
    index = ttype.device.index
    return _instead(op, ttype, raw, index, error, False, lambda arguments: op.run_kernel(host, arguments))


def guard(op, ops, host):
    """Return an op on raw arrays of a device, as formulas call it; when it fails `host()` is the same op on the CPU."""
    ttype = device(ops._name).tensor_type(numpy.dtype("float32"))
    for function in before_formulas:
        function(op, ops._name)
    function = op.raw(ops)

    def guarded(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except (NotImplementedError, AttributeError) as error:
            if not applies(error, ttype):
                raise
            on_host = host()
            index = next((ttype.backend.owns_index(a) for a in args if isinstance(a, ttype.array_type)), None)

            def run(given):
                return on_host(*given[0], **given[1])

            return _instead(op, ttype, (args, kwargs), index, error, True, run)

    return guarded


def _instead(op, ttype, arguments, index, error, in_formula, run):
    """Run on copies of the arguments in host memory, and return the results on the device."""
    place, backend = ttype.device.type, ttype.backend
    permitted, _ = allowed(op, in_formula)
    if not permitted:
        if _refused_there_too(error, arguments, ttype, run):
            raise error
        raise MissingKernelError(
            f"op {op.qualname!r} can't run on device {place!r}: {describe(error)}. It does not fall back to the CPU "
            f"unless you allow it: with plugrad.backends.fallback({op.name!r}), with PLUGRAD_FALLBACK={op.name}, or "
            f'with fallback = ["{op.name}"] under [tool.plugrad] in pyproject.toml'
        ) from error
    why = None
    if op.is_view and not in_formula:
        why = "its result has to share the memory of its input"
    elif any(isinstance(value, Generator) for value in arguments):
        why = "it draws from a generator of the device"
    if why is not None:
        raise MissingKernelError(f"op {op.qualname!r} can't run on {place!r}, nor on the CPU instead: {why}") from error
    count = _counts[op.qualname, place] = _counts.get((op.qualname, place), 0) + 1
    if count == 1:
        warn(
            f"op {op.qualname!r} can't run on {place!r} ({describe(error)}): it runs on the CPU, with copies there and "
            "back; plugrad.backends.fallbacks() counts how often",
            FallbackWarning,
        )
    result = run(_mapped(arguments, ttype.array_type, backend.to_numpy))
    return _mapped(result, (numpy.ndarray, numpy.generic), lambda a: backend.from_numpy(numpy.asarray(a), index or 0))


def _refused_there_too(error, arguments, ttype, run) -> bool:
    """Whether the CPU refuses such arguments with the same words: it is the op that does not take their types."""
    try:
        run(_mapped(arguments, ttype.array_type, lambda a: numpy.ones((1,) * a.ndim, a.dtype)))
    except Exception as other:
        return type(other) is type(error) and str(other) == str(error)
    return False


def _mapped(value, cls, function):
    """Apply a function to the arrays of a class in a value, or in its tuples, lists and dicts."""
    return nest.change(lambda leaf: function(leaf) if isinstance(leaf, cls) else leaf, value)
