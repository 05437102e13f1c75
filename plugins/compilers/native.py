"""The compiler that makes loops in C of what is computed element by element, and one call of all that is in C."""

from __future__ import annotations

import functools
import itertools

import numpy as np

from plugrad import kernels
from plugrad.compiler import on_arrays
from plugrad.compiler.graph import Step, Value, at, plainly, varies
from plugrad.extend import hookimpl
from plugrad.plugins.compilers import _native_text as text
from plugrad.plugins.compilers._native_calls import CALLS, is_dense
from plugrad.plugins.compilers._native_forms import IN_PLACE, elements
from plugrad.plugins.compilers._native_groups import Group, grouped
from plugrad.plugins.compilers._native_lifetimes import released
from plugrad.plugins.compilers._native_recompute import lighten
from plugrad.plugins.compilers.straight_line import MOVING, Bound, Line


def native(graph, example_inputs):
    """Run the program as loops in C and calls of kernels in C, captured once.

    Without a C compiler it runs as "numpy" has it.

    >>> import plugrad as torch
    >>> double = torch.compile(lambda x: x + x, backend="native")
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return on_arrays(graph, lower, "native")


def lower(graph):
    """Return what makes the program on memory; see `plugrad.compiler.on_arrays`."""
    why = kernels.why_none()
    if why is None:
        steps, parts = graph.steps, graph.parts
        kinds = [(buffer, buffer.kind) for buffer in graph.buffers]
        try:
            return Native(graph)
        except kernels.CompilationError as error:
            why = str(error).splitlines()[0]
        graph.steps, graph.parts, graph.shares = steps, parts, {}
        for buffer, kind in kinds:
            buffer.kind = kind
        graph.buffers = [buffer for buffer, _ in kinds]
    line = Line(graph)
    line.source = f"# calls of NumPy alone: {why}\n{line.source}"
    return line


lower.any_size = True


class Native(Line):
    """A graph as source, in which runs of calls in C are one."""

    def __init__(self, graph):
        self.tapes, self.origins, self.lists = [], {}, None
        self.alone: list = []  # for each part the tape that does all of it, or None
        self.unserved: dict = {}  # name of what stands in for a call in C -> [its step, how often it did]
        _rewrite(graph, self)
        self.shares = graph.shares
        super().__init__(graph)
        texts = dict.fromkeys(one.source.replace("NAME", "loop") for one in self.groups)
        self.source += "".join(f"\n/* C */\n{one}" for one in texts)
        self.groups = self.origins = self.shares = self.released = None  # as long as the program lives they would

    def __call__(self, memory):
        return OnTapes(self, memory)

    def quick(self, step):
        """Leave small arithmetic to groups: memory is planned for it."""
        return False

    def part(self, graph, part):
        """Add the lines of a part: runs of calls in C become a tape each, which ends where memory comes and goes."""
        run, first = [], len(self.tapes)
        self.born.update([buffer for buffer in self.released if buffer in self.whole])  # in the part before
        self.last.update({buffer: last for buffer, (_, last) in self.released.items()})
        ends = {end for first, last in self.released.values() for end in (first - 1, last)}
        for index in part:
            step = graph.steps[index]
            self._make_ready(step)
            if step.kind == "native":
                run.append(step)
                if index + 1 in part and graph.steps[index + 1].kind == "native" and index not in ends:
                    continue
                self.tape(run)
                run = []
            else:
                self.step(step)
            self.let_go(index)
        is_one = len(self.tapes) == first + 1 and all(graph.steps[index].kind == "native" for index in part)
        self.alone.append(first if is_one else None)

    def plan_of_runner(self, number, given, results):
        """Return how a part is one call of C of arrays for `given`, values, that returns `results`; None if it is not.

        That is (tape, models of what it is given, which of all stand at the tape's moving places, models of results).
        """
        if self.alone[number] is None or any(one.key != getattr(one.buffer.itself, "key", None) for one in results):
            return None
        _, buffers, moving = self.tapes[self.alone[number]]
        places = {one.buffer: n for n, one in enumerate(given)} | {one.buffer: ~n for n, one in enumerate(results)}
        taken, most = tuple([places.get(buffers[slot]) for slot in moving]), kernels.module().ARRAYS
        if None in taken or not {~n for n in range(len(results))} <= set(taken) or max(len(given), len(results)) > most:
            return None
        models = [None if one.buffer.kind not in MOVING else _model(one.shape, one.dtype) for one in given]
        return self.alone[number], tuple(models), taken, tuple([_model(one.shape, one.dtype) for one in results])

    def tape(self, run):
        """Add the line that carries out calls in C."""
        number, slots, moving, calls, again = len(self.tapes), {}, {}, [], []
        for step in run:
            arrays = [one for one in (*step.args, *step.results) if isinstance(one, Value)]
            for value in arrays:
                slots.setdefault(value.buffer, len(slots))
                if value.buffer.kind in MOVING and value.buffer not in moving:
                    if value.buffer.kind == "given":
                        self.whole[value.buffer] = f"given{value.buffer.index}"
                    moving[value.buffer] = self.whole[value.buffer]
            numbers = tuple([one if varies(one) else float(one) for one in step.args if not isinstance(one, Value)])
            calls.append((step.function, tuple([_described(v, slots) for v in arrays]), numbers))
            if step in self.origins:
                again.append((len(calls), self.origins[step]))
        self.tapes.append((calls, list(slots), tuple([slots[buffer] for buffer in moving])))
        names = "".join(f", {name}" for name in moving.values())
        if not again:
            self.lines.append(f"tape{number}(0{names})")
            return
        self.lines += [f"done = tape{number}(0{names})", f"while done != {len(calls)}:"]
        self.lines.append(f"    done = tape{number}(again({number}, done){names})")
        for after, origin in again:
            name = f"again{number}_{after - 1}"
            self.functions.append((name, self._stored(origin), after))
            self.unserved[name] = [repr(origin), 0]

    def remarks(self) -> list:
        """Return lines that name calls in C which served not: what does so at every call makes a program slow."""
        often = [(step, times) for step, times in self.unserved.values() if times]
        return [f"not served in C, but by NumPy ({times} x): {step}" for step, times in often]

    def numbers(self) -> list:
        """Return for each tape its sizes, offsets and numbers, as they are for each size."""
        if self.lists is None:
            self.lists = []
            for calls, _, _ in self.tapes:
                arrays = [array for _, its, _ in calls for array in its]
                sizes = [n for array in arrays for n in (*array[2], *array[3])]
                offsets, numbers = [array[1] for array in arrays], [number for *_, its in calls for number in its]
                self.lists.append((_Row(sizes, "int64"), _Row(offsets, "int64"), _Row(numbers, float)))
        return self.lists

    def _make_ready(self, step):
        """Add the lines that make arrays for what a step writes in C, or reads that a loop made in another's memory."""
        written = step.values() if step.kind == "native" else ()
        for value in (*written, *[one for one in step.reads() if one.buffer in self.released]):
            if value.buffer.kind == "fresh" and value.buffer not in self.born:
                self._make(value.buffer)

    def _make(self, buffer):
        """Add the line that makes an array for a buffer that is new at each call."""
        whole = buffer.itself
        name = self.array(whole, True)
        shape, dtype, owner = self.word(whole.shape), self.word(whole.dtype), self.shares.get(buffer)
        if owner is None and not varies(whole.shape):
            self.objects.setdefault("fresh", kernels.module().fresh)
            self.lines.append(f"{name} = fresh({self.word(_model(whole.shape, whole.dtype))})")
        elif owner is None:
            self.objects.setdefault("empty", np.empty)
            self.lines.append(f"{name} = empty({shape}, {dtype})")
        else:
            if owner not in self.born:
                self._make(owner)
            self.lines.append(f"{name} = ndarray({shape}, {dtype}, {self.whole[owner]})")
        self.born.add(buffer)

    def _stored(self, step) -> list:
        """Return the lines that carry out a step by the kernel in Python, into the memory that there is."""
        lines, known = self.lines, self.known
        self.lines, self.known = [], set()
        label = f"f{len(self.objects)}"
        self.objects[label] = step.function
        given = [self.word(one) for one in step.args] + [f"{k}={self.word(v)}" for k, v in step.kwargs.items()]
        self.lines.append(f"results = {label}({', '.join(given)})")
        results = [f"results[{i}]" for i in range(len(step.results))] if step.several else ["results"]
        for value, result in zip(step.results, results):
            if value is not None:
                self.lines.append(f"store({self.array(value)}, {result})")
        written, self.lines, self.known = self.lines, lines, known
        return written


def _model(shape, dtype):
    """Return an array of these sizes without memory of its own."""
    return np.broadcast_to(np.empty((), dtype), shape)


def _described(value, slots) -> tuple:
    """Return an array as a tape takes it: (slot, offset, shape, strides, number of its type, flags)."""
    kind = np.dtype("int64").num if value.dtype == np.dtype("int64") else value.dtype.num  # "q" and "l" may both be it
    return slots[value.buffer], value.offset, value.shape, value.strides, kind, 3 if is_dense(value) else 2


class _Row:
    """Numbers of which some vary with the size."""

    def __init__(self, numbers, dtype):
        self.numbers = np.array(plainly(numbers), dtype)
        self.places = [place for place, one in enumerate(numbers) if varies(one)]
        self.scope = numbers[self.places[0]].scope if self.places else None
        self.values = np.array([numbers[place].values for place in self.places], dtype)

    def at(self, size):
        """Return them as they are for a size."""
        numbers = self.numbers.copy()
        if self.places:
            numbers[self.places] = self.values[:, size - self.scope.low]
        return numbers


class OnTapes(Bound):
    """A program that is bound to memory, with tapes for its calls in C."""

    def __init__(self, line, memory):
        super().__init__(line, memory)
        for number, (calls, buffers, moving) in enumerate(line.tapes):
            arrays = [None if buffer.kind in MOVING else memory[buffer] for buffer in buffers]
            calls = calls if line.scope is None else [(f, *at(rest, line.scope.hint)) for f, *rest in calls]
            self.space[f"tape{number}"] = kernels.module().tape(calls, arrays, moving)
        self.space["again"], self.space["again_with"] = self.again, self.again_with

    def runner(self, number, given, results):
        """Return a function in C of arrays for `given` that does a part and returns new ones; None if there is none."""
        plan = self.line.plan_of_runner(number, given, results)
        return plan and kernels.module().runner(self.space[f"tape{plan[0]}"], *plan[1:])

    def resize(self, size):
        """Have the sizes that vary be such, on tapes too."""
        super().resize(size)
        for number, lists in enumerate(self.line.numbers()):
            kernels.module().resize_tape(self.space[f"tape{number}"], *[one.at(size) for one in lists])

    def retained(self):
        """Return a function that brings back what a part lets go of."""
        return functools.partial(self.space.update, {name: self.space[name] for name in self.line.moving})

    def again(self, tape, done):
        """Do the step over whose call in C served not; return how many calls of the tape are done with then."""
        name = f"again{tape}_{done}"
        self.line.unserved[name][1] += 1
        if name not in self.space:  # it is hardly ever needed
            exec(compile(self.line.texts[name], "<compiled by 'native'>", "exec"), self.space)
        if self.size is not None:
            self.bind(self.line.varying(False))
        return self.space[name]()

    def again_with(self, arrays, tape, done):
        """Do so for `direct`, whose arrays are in no other place."""
        self.space.update(arrays)
        try:
            return self.again(tape, done)
        finally:
            self.clear()


# ---------------------------------------------------------------- from steps to calls in C


def _rewrite(graph, line) -> None:
    """Put calls in C in the place of a graph's steps."""
    late = lighten(graph)
    number = itertools.count(1 + max((v.buffer.index for step in graph.steps for v in _all(step)), default=0)).__next__
    units = [grouped(_expanded([graph.steps[i] for i in part], number), elements, late) for part in graph.parts]
    kept = _kept(graph, units)
    shared = _shared(graph, [unit for part in units for unit in part], kept)
    texts = {
        id(u.item): text.Text(u.item, kept, shared.get(id(u), {}))
        for part in units
        for u in part
        if isinstance(u.item, Group)
    }
    line.groups = [one for one in texts.values() if one.arrays]
    functions = iter(text.build([one.source for one in line.groups]))
    steps, ends = [], []
    for part in units:
        for unit in part:
            if not isinstance(unit.item, Group):
                steps.append(unit.item)
                if unit.item.kind == "native" and unit.origin is not None:
                    line.origins[unit.item] = unit.origin
                    unit.item.reads().extend(unit.origin.reads())
                continue
            one = texts[id(unit.item)]
            if one.arrays:
                steps.append(_call(one, next(functions), unit))
        ends.append(len(steps))
    graph.steps = steps
    graph.parts = [range(a, b) for a, b in zip((0, *ends[:-1]), ends)]
    _place(graph, line)


def _call(one, function, unit) -> Step:
    """Return the step that calls a group's loop."""
    values = [Value(v.buffer, shape, strides, v.offset, v.dtype) for v, shape, strides in one.arrays]
    written = unit.writes | {one.group.accesses[key].value.buffer for key in one.reused.values()}
    writes = tuple([v for v in values if v.buffer in written])
    names = [element.name for element, _, _ in one.group.elements]
    names = "+".join(names if len(names) < 12 else [*names[:10], f"{len(names) - 10} more"])
    return Step("native", names, function, (*values, *one.numbers), {}, (), writes, None)


def _place(graph, line) -> None:
    """Find out which buffers are planned: what C fills need not be new at each call, unless it is handed out."""
    first: dict = {}  # buffer -> the step that uses it first
    by_python: set = set()
    for step in graph.steps:
        for value in (*step.reads(), *step.values()):
            first.setdefault(value.buffer, step)
        if step.kind != "native":
            by_python.update([value.buffer for value in step.results if value is not None])
    for buffer, step in first.items():
        if buffer.kind in ("temporary", "fresh") and buffer not in by_python:
            handed_out = buffer.kept and buffer.itself is not None and step.kind == "native"
            buffer.kind = "fresh" if handed_out else "temporary"
    known = set(graph.buffers)
    graph.buffers = [*graph.buffers, *[buffer for buffer in first if buffer not in known]]
    line.released = released(graph)


def _expanded(steps, number):
    """Yield (step, the step that is carried out where the call in C serves not) for all steps.

    `number` gives the numbers of new buffers.
    """
    for step in steps:
        if step.inner is not None and elements(step) is None and _is_one_call(step.inner):
            yield from ((one, step if one.kind == "native" else None) for one in step.inner)
        else:
            make = CALLS.get(step.name) if step.inner is None else None
            calls = make(step, number) if make is not None else None
            if calls is None:
                yield step, None
            else:
                yield from [(one, None) for one in calls[:-1]]
                yield calls[-1], step


def _all(step) -> list:
    """Return the values of a step and of its inner ones."""
    return [*step.reads(), *step.values(), *[value for one in step.inner or () for value in _all(one)]]


def _is_one_call(inner) -> bool:
    """Whether what can be declined comes last, and once: then the whole step can be done over."""
    calls = [number for number, one in enumerate(inner) if elements(one) is None]
    if not calls:
        return True
    return calls == [len(inner) - 1] and inner[-1].kind == "native"


def _shared(graph, units, kept) -> dict:
    """Let what a loop writes have the memory of what it reads last; return for each unit {key written: key read}.

    `graph.shares` gets the buffers that have another one's memory.
    """
    first, last, called = {}, {}, set()
    for number, unit in enumerate(units):
        again = () if unit.origin is None else [v.buffer for v in (*unit.origin.reads(), *unit.origin.values())]
        for buffer in (*unit.reads, *unit.writes, *again):
            first.setdefault(buffer, number)
            last[buffer] = number
        if not isinstance(unit.item, Group) and unit.item.kind != "native":
            called.update([value.buffer for value in unit.item.results if value is not None])

    def planned(buffer):
        return buffer in kept and buffer.kind in ("temporary", "fresh") and not buffer.kept and buffer not in called

    shared: dict = {}
    for number, unit in enumerate(units):
        group = unit.group
        if group is None or unit.item is not group and unit.item.name not in IN_PLACE:
            continue
        ends = [
            (key, one) for key, one in group.accesses.items()
            if one.value.buffer not in unit.writes and last[one.value.buffer] == number and one.value.is_whole
            and planned(one.value.buffer) and len(group.keys[one.value.buffer]) == 1
        ]  # fmt: skip
        for buffer, key in group.writes.items():
            one = group.accesses[key]
            if first[buffer] != number or not planned(buffer) or not one.value.is_whole:
                continue
            for end in ends:
                if end[1].dims == one.dims and end[1].value.dtype == one.value.dtype:
                    ends.remove(end)
                    shared.setdefault(id(unit), {})[key] = end[0]
                    graph.shares[buffer] = end[1].value.buffer
                    break
    return shared


def _kept(graph, units) -> set:
    """Return the buffers that are memory: all but those that one group alone uses."""
    users: dict = {}
    for part in units:
        for unit in part:
            for buffer in unit.reads | unit.writes:
                users.setdefault(buffer, set()).add(id(unit))
    return {
        buffer
        for buffer, by in users.items()
        if buffer.kept or len(by) > 1 or buffer.kind not in ("temporary", "fresh")
    }


@hookimpl
def plugrad_compilers():
    return [native]
