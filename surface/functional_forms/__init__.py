"""The function of every layer: where nn.functional has none under the layer's name, it is derived from the class.

`nn.functional.lstm`, of `nn.LSTM`, or `nn.functional.gated_block` of a third party's `GatedBlock`.
"""

from __future__ import annotations

import functools
import inspect
import re

import plugrad
from plugrad import Tensor, nn, registry
from plugrad.nn.utils._calls import functional_call

__all__ = ["functional_form", "named"]


def function_name(cls) -> str:
    """Return what the function of a layer is called: its class's name in snake case.

    >>> import plugrad as torch
    >>> from plugrad.nn.forms import function_name
    >>> [function_name(cls) for cls in (torch.nn.LSTMCell, torch.nn.LeakyReLU, torch.nn.ZeroPad2d)]
    ['lstm_cell', 'leaky_relu', 'zero_pad2d']
    """
    name = re.sub("(?:P|R|Re|Si|C|S|G|E)+LU", lambda unit: unit.group().capitalize(), cls.__name__)
    return re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def named(name: str):
    """Return the derived function of a name in nn.functional; None when no layer is called so."""
    if not name.islower():
        return None
    canonical = name.replace("_", "")
    for candidate in registry.names_in("nn"):
        if candidate.lower() == canonical and candidate[0].isupper():
            cls = getattr(nn, candidate, None)
            lazy = hasattr(cls, "cls_to_become")  # it has no sizes for tensors to fit: the ordinary one has
            if isinstance(cls, type) and issubclass(cls, nn.Module) and not lazy and function_name(cls) == name:
                return functional_form(cls)
    return None


@functools.lru_cache(maxsize=512)
def functional_form(cls):
    """Return a layer's class as a function that makes no module.

    Args:
        cls: a Module class.

    The function takes what the layer is called with, and by keyword: the constructor's options; ``state``, a dict of
    the layer's parameters and buffers by dotted name (or each as a keyword of its own where its name has no dot);
    and ``training``, True as in a new module. It gives the very bits that the module gives, with the gradients of the
    tensors that it got; running statistics are updated in them. No random number is drawn for parameters.

    The function raises TypeError for tensors or options that are missing or unknown.

    >>> import plugrad as torch
    >>> layer = torch.nn.GRUCell(3, 2)
    >>> x, h = torch.ones(1, 3), torch.zeros(1, 2)
    >>> state = dict(layer.named_parameters())
    >>> y = torch.nn.functional.gru_cell(x, h, input_size=3, hidden_size=2, state=state)
    >>> torch.equal(y, layer(x, h))
    True
    """
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)):
        raise TypeError(f"functional_form() takes a Module class, not {cls!r}")
    name = function_name(cls)
    constructor = inspect.signature(cls).parameters
    forward = dict(list(inspect.signature(cls.forward).parameters.items())[1:])
    free = any(p.kind is p.VAR_KEYWORD for p in constructor.values())

    def function(*inputs, state=None, training=True, **keywords):
        options, tensors, called = {}, dict(state or {}), {}
        for key, value in keywords.items():
            if key in forward and key not in constructor:
                called[key] = value
            elif isinstance(value, Tensor) and _is_state(constructor.get(key)):
                tensors[key] = value
            elif key in constructor or free:
                options[key] = value
            else:
                tensors[key] = value
        module = _construct(name, cls, options).train(training)
        _check(name, module, tensors)
        return functional_call(module, tensors, inputs, called)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "plugrad.nn.functional"
    summary = (inspect.getdoc(cls) or "").partition("\n")[0]
    function.__doc__ = (
        f"{summary}\n\nThe function of `{cls.__name__}`, derived from it: its options, and `state`, a dict of its "
        "tensors, are keywords;\nsee `plugrad.nn.forms.functional_form`.\n"
    )
    function.__signature__ = _signature(constructor, forward)
    return function


def _is_state(option) -> bool:
    """Whether a tensor by the name of an option is one of the state: the option is a flag, or there is none."""
    return option is None or isinstance(option.default, bool)


def _construct(name, cls, options):
    """Return a module, whose parameters are to be replaced, without drawing random numbers."""
    numbers = plugrad.get_rng_state()
    try:
        return cls(**options)
    except TypeError as error:
        raise TypeError(f"{name}(): {error}; the options are those of {cls.__name__}, by keyword") from error
    finally:
        plugrad.set_rng_state(numbers)


def _check(name, module, tensors) -> None:
    """Raise TypeError unless all tensors that the module learns or saves are given, and no others."""
    known = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    needed = [key for key in module.state_dict() if isinstance(known.get(key), Tensor)]
    missing = [key for key in needed if key not in tensors]
    if missing:
        raise TypeError(
            f"{name}() misses the tensors {', '.join(missing)}: give them as `state={{name: tensor}}`, such as "
            "dict(module.named_parameters()) with dict(module.named_buffers())"
        )
    unknown = [key for key in tensors if key not in known]
    if unknown:
        raise TypeError(
            f"{name}() got an unexpected keyword argument {unknown[0]!r}; it is neither an option of "
            f"{type(module).__name__} nor one of its tensors ({', '.join(known) or 'it has none'})"
        )


def _signature(constructor, forward) -> inspect.Signature:
    kind = inspect.Parameter
    inputs = [p for p in forward.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    inputs = [p.replace(kind=kind.POSITIONAL_ONLY) if p.kind is p.POSITIONAL_OR_KEYWORD else p for p in inputs]
    taken = {p.name for p in inputs}
    options = [p.replace(kind=kind.KEYWORD_ONLY) for p in constructor.values() if p.kind not in (2, 4)]
    options = [p for p in options if p.name not in taken]
    more = [kind("state", kind.KEYWORD_ONLY, default=None), kind("training", kind.KEYWORD_ONLY, default=True)]
    more = [p for p in more if p.name not in {option.name for option in options} | taken]
    return inspect.Signature([*inputs, *options, *more, kind("tensors", kind.VAR_KEYWORD)])
