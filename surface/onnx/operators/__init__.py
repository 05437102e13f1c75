"""ONNX's operators, run by plugrad's ops. Each is `f(module, node, *inputs)`; an input left out is None."""

from __future__ import annotations

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


from plugrad.onnx.operators import elementwise, layers, recurrent, reductions, shapes  # noqa: E402, F401
