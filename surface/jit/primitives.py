"""Python's own functions as staged programs have them: without a way to anything that is not a value of the program."""

from __future__ import annotations

import contextlib
import enum

import plugrad
from plugrad import Tensor
from plugrad.jit.errors import Error
from plugrad.jit.futures import Future
from plugrad.jit.numbers import MATH, whole
from plugrad.jit.objects import METHOD
from plugrad.jit.types import accepted, classes_in

__all__ = ["PRIMITIVES"]


def formatted(text, *values):
    """Return a text in which each `{}` is replaced by a value; nothing else in braces is looked at."""
    parts = text.split("{}")
    if len(parts) - 1 != len(values):
        raise RuntimeError(f"format() has {len(parts) - 1} places for {len(values)} values")
    return parts[0] + "".join(str(value) + part for value, part in zip(values, parts[1:]))


def percent(text, values):
    """Return a text in which %s, %d and their like are replaced."""
    return text % (tuple(values) if isinstance(values, (tuple, list)) else (values,))


def power(a, b):
    """Return a number to the power of another, a float as in TorchScript."""
    return a**b if isinstance(a, complex) or isinstance(b, complex) else MATH["pow"](a, b)


def raised(kind, message):
    """Raise the error of a program's `raise`."""
    raise Error(f"The following operation failed in the staged program: {kind}: {message}")


def failed(message):
    """Raise the error of an assertion that does not hold."""
    raised("AssertionError", "" if message is None else message)


def is_instance(value, *names):
    """Whether a value is of one of the types, by their names."""
    return any(map(lambda name: _is(value, name), names))


def _is(value, name):
    kinds = {"Tensor": Tensor, "int": int, "float": float, "bool": bool, "str": str, "complex": complex, "List": list,
             "Dict": dict, "Tuple": tuple, "None": type(None)}  # fmt: skip
    fits = isinstance(value, kinds[name])
    return fits and not (name == "int" and isinstance(value, bool))


def mode(name, *values):
    """Return a context manager of plugrad's, by its name."""
    if name == "record_function":
        return plugrad.profiler.record_function(*values)
    if name in ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "autocast"):
        return getattr(plugrad, name)(*values)
    raise LookupError(name)


@contextlib.contextmanager
def entered(instance):
    """Enter and leave an object of the program's, which does not see errors, and swallows none."""
    kept = getattr(instance, METHOD + "__enter__")()
    try:
        yield kept
    finally:
        getattr(instance, METHOD + "__exit__")(None, None, None)


def member(value, what):
    """Return the name or value of a member of an Enum."""
    if not isinstance(value, enum.Enum):
        raise TypeError(f"a {type(value).__name__} is no member of an Enum")
    return value.name if what == "name" else value.value


def forwarded(module, *args, **kwargs):
    """Call a module of the program: its lists and objects stay those that they are, which calls from outside copy."""
    program = module._staged
    run = program.functions.get("forward")
    if run is None:  # a layer
        return module(*args, **kwargs)
    wanted = run.__code__.co_argcount - 1 - len(run.__defaults__ or ())
    if not module._has_hooks and "forward" not in program.python and len(args) + len(kwargs) >= wanted:
        return run(module, *args, **kwargs)
    result, returns = module(*args, **kwargs), program.signatures["forward"].returns
    return accepted(result, returns) if classes_in(returns) else result


def called(module, name, *args, **kwargs):
    """Call a method of a script module that is not `forward`."""
    return module._staged.functions[name](module, *args, **kwargs)


def unused(name):
    """Raise the error of a method that was marked as unused."""
    raise Error(f"{name} was marked with @torch.jit.unused, and the program called it")


def waited(future):
    """Return the result of a future."""
    return future.wait()


_OF_PYTHON = (
    len, int, float, bool, str, complex, min, max, abs, sum, round, sorted, print, list, dict, tuple, range, enumerate,
    zip, all, any, ord, chr, divmod, reversed, hex, oct, bin, slice,
)  # fmt: skip
PRIMITIVES = {
    **{one.__name__: one for one in _OF_PYTHON}, "abs": whole(abs), "sum": whole(sum),
    "forward": forwarded, "format": formatted, "percent": percent, "pow": power, "raise": raised, "assert": failed,
    "isinstance": is_instance, "mode": mode, "call": called, "unused": unused, "wait": waited, "future": Future,
    "device": plugrad.device, "entered": entered, "member": member,
}  # fmt: skip
