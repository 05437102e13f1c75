"""What captures with one size each tell, by which the program for all sizes is made and compared."""

from __future__ import annotations

import numpy

from plugrad.compiler.graph import Value
from plugrad.compiler.sizes import Dim, Real


class Log:
    """What a capture with one size was told, and its steps as `forms_of` has them.

    `expanded` are the calls of kernels that came down to calls in C, `whole` those that are not to, by number.
    """

    def __init__(self, size, whole=frozenset()):
        self.size, self.all, self.forms = size, [], None
        self.whole, self.expanded = whole, set()

    def told(self, ints, given=()):
        self.all.append(ints)
        return ints


def forms_of(captured, size=None) -> list:
    """Return what a program is as plain values, by which captures are compared: steps, and where results are."""

    def form(item):
        if isinstance(item, Value):
            buffer, sizes = item.buffer, (item.shape, item.strides, item.offset)
            content = buffer.owner.tobytes() if buffer.kind == "constant" else None
            return "value", buffer.index, buffer.kind, item.dtype.str, form(sizes), content
        if type(item) in (Dim, Real):
            item = item.at(size)
        if isinstance(item, tuple) or type(item) is list:
            return type(item), *map(form, item)
        if type(item) is dict:
            return dict, *[(key, form(one)) for key, one in item.items()]
        if type(item) is slice:
            return slice, form(item.start), form(item.stop), form(item.step)
        if item is None or isinstance(item, (int, float, complex, str, numpy.generic, numpy.dtype)):
            return type(item), repr(item)
        if isinstance(item, numpy.ndarray):
            return item.dtype.str, item.shape, item.tobytes()
        return type(item)

    def form_of_step(step):
        parts = step.args, step.kwargs, step.results, step.writes
        inner = [form_of_step(one) for one in step.inner or ()]
        return step.kind, step.name, step.effect, step.several, form(parts), inner

    finals = [None if not isinstance(s.final, Value) else form(s.final) for s in captured.sources]
    ends = captured.ends, [form(entry[1]) for entry in captured.results], captured.gradients, captured.root_grads
    return [*map(form_of_step, captured.recorder.steps), form(ends), finals, str(captured.structure)]
