"""What a Module uses and does not know: tensors and modules in its plain lists, tuples, dicts and attributes."""

from __future__ import annotations

import copy

import plugrad
from plugrad.testing.tensors import differentiable, gradients_of_sum, is_float, wide_dtype

TABLES = ("_parameters", "_buffers", "_modules")  # where a Module keeps what it knows


def unregistered(module) -> list:
    """Return pairs (path, tensor) of the leaves that require grad which a Module holds and does not know.

    >>> import plugrad as torch
    >>> class Stack(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layers = [torch.nn.Linear(2, 2, bias=False)]
    >>> [path for path, _ in unregistered(Stack())]
    ['layers[0].weight']
    """
    held = [(path, value) for path, value in _held(module) if isinstance(value, plugrad.Tensor)]
    return [(path, t) for path, t in held if t.requires_grad and t.is_leaf and is_float(t)]


def used(module, inputs) -> list:
    """Return those of `unregistered` that a call uses: not an earlier input that the Module keeps."""
    held = unregistered(module)
    if not held:
        return []
    with plugrad.enable_grad():
        outputs = differentiable(module(*inputs))
    grads = gradients_of_sum(outputs, [t for _, t in held]) if outputs else [None] * len(held)
    return [pair for pair, g in zip(held, grads, strict=True) if g is not None]


def widened(module, copies=None):
    """Return a copy of a Module in float64, and of all that it holds.

    `copies` are the copies of tensors that there are already, by the `id` of the original.
    """
    wide = copy.deepcopy(module, dict(copies or {})).double()
    for _, value in _held(wide):
        if isinstance(value, plugrad.nn.Module):
            value.double()
        elif value.requires_grad and value.is_leaf and is_float(value):
            value.data = value.data.to(wide_dtype(value.dtype))
    return wide


def named_parameters(module):
    """Yield what `Module.named_parameters` yields, which would also warn of what is told here."""
    return module._named_members(lambda part: part._parameters.items())


def _held(module) -> list:
    """Return pairs (path, tensor or Module), each once, of all that a Module holds unregistered."""
    seen = {id(known) for known in (*dict(named_parameters(module)).values(), *module.buffers())}
    registered = {id(known) for known in module.modules()}
    held: list = []

    def look(value, path):
        if id(value) in seen or not isinstance(value, (plugrad.Tensor, plugrad.nn.Module, dict, list, tuple)):
            return
        seen.add(id(value))
        if isinstance(value, plugrad.nn.Module):
            held.extend([(path, value)] if id(value) not in registered else [])
            own = {name: item for name, item in vars(value).items() if name not in TABLES}
            for name, item in {**own, **value._parameters, **value._modules}.items():
                look(item, f"{path}.{name}" if path else name)
        elif isinstance(value, dict):
            for key, item in value.items():
                look(item, f"{path}[{key!r}]")
        elif isinstance(value, plugrad.Tensor):
            held.append((path, value))
        else:
            for number, item in enumerate(value):
                look(item, f"{path}[{number}]")

    look(module, "")
    return held
