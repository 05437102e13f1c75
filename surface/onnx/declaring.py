"""What is declared by name: how ops are written in ONNX, and how ONNX's operators are run."""

from __future__ import annotations

_FORMS: dict = {}


def form(*names: str):
    """Return a decorator that declares how ops, of anybody, are written in ONNX.

    The function takes a graph, `plugrad.onnx.Graph`, and the arguments of the op in the order of its parameters, with
    values in the place of tensors; it adds nodes by `g.op` and returns their results. A form of a composite stands for
    all that it calls. What it can't write it refuses by NotImplementedError.

    >>> import plugrad as torch
    >>> @torch.onnx.form("nextafter")
    ... def nextafter_form(g, input, other):
    ...     return g.op("Nextafter", input, other, domain="my.operators")
    """

    def declare(function):
        _FORMS.update(dict.fromkeys(names, function))
        return function

    return declare


def form_of(op):
    """Return the form of an op, or None."""
    return _FORMS.get(op.qualname) or op.onnx_form


OPERATORS: dict = {}


def operator(*kinds: str):
    """Return a decorator that declares how operators of ONNX are run.

    The function `f(module, node, *inputs)` returns a result or several: `module` is the model, `node.attributes` has
    what the file says of the node, and an input that is left out is None.

    >>> import plugrad as torch
    >>> @torch.onnx.operator("Nextafter")
    ... def nextafter(module, node, x, y):
    ...     return torch.nextafter(x, y)
    """

    def declare(function):
        OPERATORS.update(dict.fromkeys(kinds, function))
        return function

    return declare
