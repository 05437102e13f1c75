"""Hooks that watch values: the first NaN, and a printed trace of calls."""

from __future__ import annotations

import sys

import plugrad
from plugrad.extend import OpHook, collect, hookimpl


def _floats(value) -> list:
    items = value if isinstance(value, (list, tuple)) else (value,)
    return [t for t in items if isinstance(t, plugrad.Tensor) and (t.is_floating_point() or t.is_complex())]


class nan_finder(OpHook):
    """Raises at the first op that makes a NaN, in its result or its gradient.

    A NaN that the inputs hold already is not its making. With `inf=True` infinities count as well. Raises
    FloatingPointError naming the op and where the NaN is.

    >>> import plugrad as torch
    >>> with torch.op_hooks.nan_finder():
    ...     torch.log(torch.tensor([1.0, -1.0]))
    Traceback (most recent call last):
    FloatingPointError: log produced nan at element (1,) of its result, from finite inputs
    """

    def __init__(self, *ops, inf=False):
        super().__init__(*ops)
        self.inf = inf

    def _bad(self, tensor):
        return ~tensor.isfinite() if self.inf else tensor.isnan()

    def _check(self, name, what, results, inputs):
        for tensor in results:
            bad = self._bad(tensor.detach())
            if bad.any() and not any(self._bad(given.detach()).any() for given in inputs):
                where = tuple(bad.nonzero()[0].tolist())
                value = tensor.detach()[where].item()
                told = f"{name} produced {value} at element {where} of its {what}, from finite inputs"
                raise FloatingPointError(told)

    def after(self, call):
        if call.op.runs_on != "nothing":
            given = [t for value in (*call.args, *call.kwargs.values()) for t in _floats(value)]
            in_place = call.name.endswith("_")  # its input is overwritten by now
            self._check(call.name, "result", _floats(call.result), given[1:] if in_place else given)

    def after_backward(self, node, grad_inputs, grad_outputs):
        self._check(node.name(), "gradient", _floats(grad_inputs), _floats(grad_outputs))


class call_printer(OpHook):
    """Prints every call: the op, its tensors, and what came out.

    Of tensors shapes and dtypes are shown; inner calls are indented. `file` is where to; standard output by default.

    >>> import plugrad as torch
    >>> with torch.op_hooks.call_printer():
    ...     y = torch.nn.functional.softplus(torch.ones(2, 3)).sum(1)
    ones((2, 3)) -> float32[2, 3]
    softplus(float32[2, 3]) -> float32[2, 3]
    sum(float32[2, 3], 1) -> float32[2]
    """

    def __init__(self, *ops, file=None):
        super().__init__(*ops)
        self.file = file

    def after(self, call):
        given = [_shown(value) for value in call.args] + [f"{name}={_shown(v)}" for name, v in call.kwargs.items()]
        line = f"{'  ' * call.depth}{call.name}({', '.join(given)}) -> {_shown(call.result)}"
        print(line, file=self.file or sys.stdout)

    def before_backward(self, node, grad_outputs):
        print(f"backward of {node.name()}({', '.join(map(_shown, grad_outputs))})", file=self.file or sys.stdout)


def _shown(value) -> str:
    if isinstance(value, plugrad.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(_shown, value))})"
    return repr(value)


@hookimpl
def plugrad_hooks():
    return collect(OpHook, globals())
