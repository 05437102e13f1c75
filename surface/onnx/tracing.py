"""What a program does, as a list of calls in which sizes that vary are known as such.

The program is run on the example inputs, then for each axis that may vary on inputs that are longer there, and once
more with all of them longer. An integer that follows is a `Size`, a linear function of the axes' sizes. A program
that takes another way, or a number that follows in no such manner, is refused: in the file it would be a constant.
"""

from __future__ import annotations

import sys

import plugrad
from plugrad import Tensor, nest
from plugrad.compiler import Tracer, Value
from plugrad.nn import Module


class Size:
    """An integer that depends on the inputs' sizes.

    It is `const + sum(factor * size of axis)`; `factors` None means that nothing is known.

    `value` is what it was for the example. Without factors it depends on them in another way.
    """

    __slots__ = ("value", "const", "factors")

    def __init__(self, value, const, factors):
        self.value, self.const, self.factors = value, const, factors

    def __add__(self, other):
        if not isinstance(other, int) or self.factors is None:
            return NotImplemented
        return Size(self.value + other, self.const + other, self.factors)

    __radd__ = __add__

    def __sub__(self, other):
        return self + -other if isinstance(other, int) else NotImplemented

    def __mul__(self, other):
        if not isinstance(other, int) or self.factors is None:
            return NotImplemented
        return Size(self.value * other, self.const * other, {k: v * other for k, v in self.factors.items()})

    __rmul__ = __mul__

    def __repr__(self):
        terms = [f"{factor} * {name}" if factor != 1 else name for name, factor in (self.factors or {"?": 1}).items()]
        return " + ".join([*terms, *[str(self.const)] * bool(self.const)])


class Call:
    """A call of an op: record, arguments in the order of its parameters, results, and where it was made."""

    __slots__ = ("op", "name", "values", "results", "where", "written")

    def __init__(self, op, name, values, results, where, written=None):
        self.op, self.name, self.values, self.results, self.where, self.written = (
            op, name, values, results, where, written,
        )  # fmt: skip


class Recorder(Tracer):
    """Notes calls with the lines that made them, and keeps what was made of nothing as it was made."""

    def __init__(self, inputs, whole):
        super().__init__(inputs, whole)
        self.places, self.written, self.snapshots = [], [], {}

    def noted(self, call, traced):
        """Note where a call was made, and what it wrote into."""
        self.places.append(_place())
        into = next((one for one in call.args if one is call.result), None) if call.name[-1:] == "_" else None
        self.written.append(into if into is not None else call.kwargs.get("out"))
        if call.op.runs_on == "nothing":
            self.snapshots[len(self.calls) - 1] = call.result.clone()


def _place() -> str:
    """Return the innermost line outside of plugrad, and the Module in which a call was made."""
    frame, module = sys._getframe(2), ""
    while frame is not None:
        code = frame.f_code
        owner = frame.f_locals.get("self") if code.co_name == "forward" and not module else None
        if isinstance(owner, Module):
            module = f" in {type(owner).__name__}"
        if frame.f_globals.get("__name__", "").partition(".")[0] != "plugrad" and code.co_filename[:1] != "<":
            return f"{module} at {code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return module


class Run:
    """One run of a program: its inputs, calls and results."""

    def __init__(self, program, args, kwargs, whole):
        self.inputs = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        recorder = Recorder(self.inputs, whole)
        with recorder, plugrad.no_grad():
            result = program(*args, **kwargs)
        self.values, self.snapshots = recorder.values, recorder.snapshots
        self.outputs = [leaf for leaf in nest.leaves(result) if isinstance(leaf, Tensor)]
        self.others = [leaf for leaf in nest.leaves(result) if leaf is not None and not isinstance(leaf, Tensor)]
        self.calls = []
        for traced, where, written in zip(recorder.calls, recorder.places, recorder.written):
            op, given = traced.op, traced.kwargs
            needed = dict.fromkeys([name for name in op.keyword_only if name not in op.defaults])  # dtypes of factories
            values = op.bind(*traced.args, **(needed | {name: given[name] for name in given if name in op.index}))
            self.calls.append(Call(traced.op, traced.name, values, traced.results, where, written))


def vary(example, axes: dict, longer: dict):
    """Return an input like the example, longer along axes: {axis: how much}. What is added repeats what is there."""
    for axis, name in axes.items():
        size = example.shape[axis]
        order = plugrad.arange(max(size, 2) + longer.get(name, 0), device=example.device) % max(size, 1)
        example = plugrad.index_select(example, axis, order)
    return example


def follow(program, args, kwargs, axes: list, whole):
    """Run a program on its example and on longer inputs; return the first run, with `Size`s, and {name: its size}.

    `axes` has {axis: name} for each input tensor.
    """
    names: dict = {}

    def run(longer):
        numbers = iter(range(len(axes)))

        def changed(leaf):
            return vary(leaf, axes[next(numbers)], longer) if isinstance(leaf, Tensor) else leaf

        return Run(program, *nest.change(changed, (args, kwargs)), whole)

    first = run({})
    for given, one in zip(first.inputs, axes):
        for axis, name in one.items():
            if names.setdefault(name, given.shape[axis]) != given.shape[axis]:
                raise ValueError(
                    f"the axis {name!r} has size {names[name]} in one input and {given.shape[axis]} in another: axes "
                    "of one name are always of one size; give them different names"
                )
    if names:
        others = [run({name: 1}) for name in names]
        _merge(first, others, run(dict.fromkeys(names, 3)), names)
    return first, names


def _merge(first, others, last, names):
    """Put a Size in the place of each integer of the first run that is another one in others."""
    for other in (*others, last):
        ways = [[call.name for call in one.calls] for one in (first, other)]
        if ways[0] != ways[1]:
            at = next((i for i, (a, b) in enumerate(zip(*ways)) if a != b), min(map(len, ways)))
            call = (first if at < len(first.calls) else other).calls[at : at + 1]
            where = f"{call[0].name!r} is called{call[0].where}" if call else "it is done"
            raise NotImplementedError(
                "the program takes another way for other sizes, which can't be exported: where one input is longer, "
                f"the calls differ from number {at + 1} on ({where}). Loops over an axis, and `if` on sizes or "
                "values, need that axis to be fixed: leave it out of dynamic_axes"
            )
    for number, call in enumerate(first.calls):
        rows = [run.calls[number] for run in (*others, last)]
        call.values = tuple(
            [_merged(one, [row.values[i] for row in rows], names, call) for i, one in enumerate(call.values)]
        )
        for i, result in enumerate(call.results):
            result.shape = _shape(result, [row.results[i] for row in rows], names)
    for number, value in enumerate(first.inputs):
        traced = first.values[id(value)]
        traced.shape = _shape(traced, [run.values[id(run.inputs[number])] for run in (*others, last)], names)


def _shape(value, others, names):
    return tuple(
        [_number(size, [one.tensor.shape[i] for one in others], names) for i, size in enumerate(value.tensor.shape)]
    )


def _number(value, others, names):
    """Return an integer, or the Size that it is."""
    if all(one == value for one in others):
        return value
    factors = {name: one - value for name, one in zip(names, others) if one != value}
    if others[-1] != value + 3 * sum(factors.values()):
        return Size(value, 0, None)
    return Size(value, value - sum(factor * names[name] for name, factor in factors.items()), factors)


def _merged(value, others, names, call):
    if isinstance(value, Value):
        if value.origin == "constant":
            for one in others:
                same = isinstance(one, Value) and (one.tensor is value.tensor or _equal(one.tensor, value.tensor))
                if not same:
                    raise NotImplementedError(
                        f"{call.name!r}{call.where} takes a tensor that the program makes anew from sizes or values; "
                        "in the file it would be a constant: make it by ops, such as torch.arange, or leave the "
                        "axis out of dynamic_axes"
                    )
        return value
    if type(value) is int:
        return _number(value, others, names)
    if isinstance(value, (list, tuple)):
        if any(len(one) != len(value) for one in others):
            raise NotImplementedError(f"{call.name!r}{call.where} takes {len(value)} items, and others for other sizes")
        parts = [_merged(one, [other[i] for other in others], names, call) for i, one in enumerate(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, slice):
        ends = [(one.start, one.stop, one.step) for one in (value, *others)]
        return slice(*_merged(ends[0], ends[1:], names, call))
    if any(one != value and not (one != one and value != value) for one in others):
        raise NotImplementedError(
            f"{call.name!r}{call.where} takes {value!r}, and {others[-1]!r} for other sizes, which can't be exported: "
            "compute it with tensors, or leave the axis out of dynamic_axes"
        )
    return value


def _equal(one, other) -> bool:
    return one.shape == other.shape and one.dtype is other.dtype and plugrad.equal(one, other)
