"""Which functions classes and modes may take over: what the records, and the functions themselves, say of it."""

from __future__ import annotations

import inspect
import types

import plugrad
import plugrad.native
from plugrad import Tensor
from plugrad.overrides import asked

_ASKING = Tensor.detach, Tensor.backward, plugrad.autograd.grad, plugrad.autograd.backward  # by themselves, in the core
_NAMESPACES = ("", "functional", "nn.functional", "nn.init", "Tensor", "linalg", "fft", "special")


def asks(function) -> bool:
    """Whether a function asks the classes of its arguments, as ops that take tensors do, and their other forms."""
    op = getattr(function, "__op__", None)
    if op is not None:
        return op.runs_on != "nothing"
    code = getattr(function, "__code__", None)
    if any([function is getattr(Tensor, name, None) for name in (*asked.METHODS, *asked.FROM_ROOMS)]):
        return True
    generated = code is not None and code.co_filename.startswith(("<plugrad in-place ", "<plugrad operator "))
    if generated or getattr(function, "__asks__", False) or function in _ASKING:
        return True
    return hasattr(function, "__wrapped__") and asks(function.__wrapped__)


def _functions(place):
    """Yield the public functions of a namespace, and of Tensor its operators too."""
    namespace = plugrad
    for name in filter(None, place.split(".")):
        namespace = getattr(namespace, name)
    for name in (*dir(namespace), *(plugrad.native.__all__ if namespace is plugrad else ())):
        if name.startswith("_") and not (namespace is Tensor and name.startswith("__")):
            continue
        value = getattr(namespace, name)
        if isinstance(value, types.FunctionType) and not getattr(value, "_is_absent", False):
            yield namespace, value


def get_overridable_functions() -> dict:
    """Return the functions that `__torch_function__` is asked about, in lists.

    The keys are the modules and the class that have them. A property is there as what reads it, `Tensor.shape.__get__`.

    >>> import plugrad as torch
    >>> listed = torch.overrides.get_overridable_functions()
    >>> torch.add in listed[torch], torch.zeros in listed[torch], torch.Tensor.__setitem__ in listed[torch.Tensor]
    (True, False, True)
    """
    asking: dict = {}
    for place in _NAMESPACES:
        for namespace, function in _functions(place):
            if asks(function):
                asking.setdefault(namespace, {})[function] = None
    properties = [getattr(Tensor, name) for name in asked.PROPERTIES]
    asking[Tensor].update((one.__get__, None) for one in properties if isinstance(one, property))
    return {namespace: [*functions] for namespace, functions in asking.items()}


def get_ignored_functions() -> set:
    """Return the public functions that `__torch_function__` is not asked about.

    Function modes are: `zeros` takes no tensors, so that no class can be asked about it, but a mode is.

    >>> import plugrad as torch
    >>> torch.zeros in torch.overrides.get_ignored_functions()
    True
    """
    return {function for place in _NAMESPACES for _, function in _functions(place) if not asks(function)}


def get_testing_overrides() -> dict:
    """Return for each overridable function one of the same signature that returns -1.

    >>> import inspect
    >>> import plugrad as torch
    >>> stand_in = torch.overrides.get_testing_overrides()[torch.mm]
    >>> stand_in(torch.ones(1, 1), torch.ones(1, 1)), [*inspect.signature(stand_in).parameters][:2]
    (-1, ['input', 'mat2'])
    """
    listed = get_overridable_functions().values()
    return {function: _stand_in(function) for functions in listed for function in functions}


def _stand_in(function):
    signature = inspect.signature(function)

    def stand_in(*args, **kwargs):
        signature.bind(*args, **kwargs)
        return -1

    stand_in.__signature__, stand_in.__name__ = signature, function.__name__
    return stand_in


def resolve_name(f) -> str:
    """Return the name of a function as a user would write it.

    >>> import plugrad as torch
    >>> torch.overrides.resolve_name(torch.nn.functional.relu)
    'plugrad.nn.functional.relu'
    """
    op = getattr(f, "__op__", None)
    if op is not None:  # a third-party function is not public where its module is
        return f"plugrad.{op.names[0] if op.names else f'ops.{op.qualname}'}"
    if f.__name__ in ("__get__", "__set__", "__delete__"):
        names = [name for name in asked.PROPERTIES if getattr(Tensor, name) is f.__self__]
        return f"plugrad.Tensor.{names[0] if names else f.__self__.fget.__name__}.{f.__name__}"
    if f.__name__.startswith("__") or getattr(Tensor, f.__name__, None) is f:
        return f"plugrad.Tensor.{f.__name__}"
    if getattr(plugrad.autograd, f.__name__, None) is f:
        return f"plugrad.autograd.{f.__name__}"
    return f"plugrad.{f.__name__}" if getattr(plugrad, f.__name__, None) is f else f"{f.__module__}.{f.__name__}"
