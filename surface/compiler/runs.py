"""What a captured program does when it is called: memory, steps, results and effects, and the node of a walk backward.

How it is called is written as source once: most programs have no effects, and one result.
"""

from __future__ import annotations

import weakref
from contextlib import suppress
from operator import is_

import numpy

from plugrad import Tensor, autograd, enable_grad, get_default_dtype, nest
from plugrad.compiler.changing import places_of
from plugrad.compiler.graph import Value, at, dims_in
from plugrad.compiler.results import part, spread
from plugrad.graph.modes import LEAF, tick
from plugrad.graph.nodes import Node, Outputs, OutputSlot
from plugrad.graph.saved import FREED
from plugrad.graph.versions import touch, written_since
from plugrad.tensor.tensor import make


def quiet():
    """Let infinities and NaN come without warnings."""
    return numpy.errstate(all="ignore")


class _Source:
    """Lines of a function, and the objects that they name."""

    def __init__(self, program):
        self.program, self.lines, self.taken = program, [], set(program.taken)
        self.space = {
            "program": program, "captured": program.captured, "make": make, "quiet": quiet, "OutputSlot": OutputSlot,
            "Node": CompiledFunctionBackward, "with_effects": with_effects, "rebuild": nest.rebuild, "LEAF": LEAF,
            "new": object.__new__, "Tensor": Tensor, "tick": tick, "ref": weakref.ref, "array_of": _array_of, "at": at,
            "part": part, "spread": spread,
        }  # fmt: skip

    def name(self, item) -> str:
        """Return the name of an object."""
        self.space[f"o{len(self.space)}"] = item
        return f"o{len(self.space) - 1}"

    def plain(self, item) -> str:
        """Return what is a result that is no tensor: sizes in it are those of the call."""
        return f"at({self.name(item)}, size)" if dims_in(item) else self.name(item)

    def source(self, source) -> str:
        """Return the name of a tensor that is an argument or held."""
        return self.name(source.tensor) if source.place is None else f"tensors[{source.place}]"

    def part(self, number) -> None:
        """Let a part of the program be called."""
        self.lines.append(f"{'' if self.program.is_quiet else 'with quiet(): '}instance.parts[{number}]()")

    def out(self, value) -> str:
        """Return what makes the array of a result: what is new goes out once, all else is copied."""
        own = value.buffer.kind == "fresh" and value.is_whole and value.buffer not in self.taken
        self.taken.add(value.buffer)
        return f"{'code.fetch' if own else 'instance.copied'}({self.name(value)})"

    def function(self, head):
        """Return the function."""
        source = f"def {head}:\n" + "".join(f"    {line}\n" for line in self.lines)
        exec(compile(source, "<call of a compiled program>", "exec"), self.space)
        return self.space[head.partition("(")[0]]


def written_run(program):
    """Return `run(tensors, args, kwargs)`, which gives the results of a call that the program serves."""
    captured, source = program.captured, _Source(program)
    lines, name = source.lines, source.name
    lines += ["free = program.free", "try:", "    instance = free.pop()"]
    lines += ["except IndexError:", "    instance = program.instance()"]  # another thread may have taken the last one
    if program.scope is not None:
        lines.append("if instance.size != size: instance = program.resized(instance, size)")
    if _is_direct(program):
        return _direct_run(source)
    lines.append("code = instance.code")
    for place, value in program.arguments:
        call = "code.give" if value.buffer.kind == "given" else "instance.take"
        lines.append(f"{call}({name(value)}, tensors[{place}]._raw)")
    if any(buffer.kind == "initial" for buffer in program.graph.buffers):
        lines += ["for array, owner in instance.initial:", "    array[...] = owner"]
    if program.has_effects:
        lines += ["taken = set(program.taken)", "with_effects(program, instance, tensors, taken)"]
    else:
        source.part(0)
    has_node = bool(captured.wanted) or captured.spent is not None
    if has_node:
        _add_node(source)
    several, results, saved = len(captured.root_grads) > 1, [], []
    for entry in captured.results:
        kind, item = entry[:2]
        if kind in ("again", "part"):
            results.append(None)  # which the line that returns them makes of the others
            continue
        if kind != "tensor":
            results.append(source.plain(item) if kind == "plain" else source.source(item))
            continue
        edge = ""
        if has_node and entry[3] >= 0:
            edge = f", OutputSlot(node, {entry[3]})" if several else ", node"
        out = f"instance.out({name(item)}, taken)" if program.has_effects else source.out(item)
        maker = "spread" if not edge and 0 in item.strides else "make"
        lines.append(f"r{len(results)} = {maker}({out}, {name(entry[2])}{edge})")
        if item.buffer in program.read_late:
            saved.append(f"r{len(results)}._raw, ")
        results.append(f"r{len(results)}{'.item()' * entry[4]}")
    if not has_node or captured.spent is not None:
        lines.append("program.give_back(instance)")
    elif saved:
        lines.append(f"node.saved += ({''.join(saved)})")
    for number, (kind, item, *rest) in enumerate(captured.results):
        if kind == "part":
            lines.append(f"p{number} = part({results[rest[1]]}, {name(item)}, {name(rest[0])}, size)")
            results[number] = f"p{number}"
    results = [results[entry[1]] if entry[0] == "again" else one for entry, one in zip(captured.results, results)]
    lines.append(_returned(captured.structure, results))
    return source.function("run(tensors, args, kwargs, size)")


def is_function(program) -> bool:
    """Whether a program is nothing but a function of arrays: all that it is given and returns is as it is."""
    captured = program.captured
    if program.has_effects or captured.spent is not None:
        return False
    if any(entry[0] in ("again", "part") for entry in captured.results):
        return False
    if any(value.buffer.kind != "given" for _, value in program.arguments):
        return False
    values = [entry[1] for entry in captured.results if entry[0] == "tensor"]
    own = all(v.is_whole and v.buffer.kind == "fresh" and v.buffer not in program.taken for v in values)
    initial = any(buffer.kind == "initial" for buffer in program.graph.buffers)
    return own and not initial and len({v.buffer for v in values}) == len(values) > 0


def _is_direct(program) -> bool:
    """Whether a program is a function of arrays without a node, and its compiler makes such a one."""
    direct = getattr(program.make, "direct", None)
    if direct is None or program.captured.wanted or not is_function(program):
        return False
    values = [entry[1] for entry in program.captured.results if entry[0] == "tensor"]
    return direct([value.buffer for _, value in program.arguments], values)


def _direct_run(source):
    """Return `run` of a program that is nothing but a function of arrays."""
    program, results, arrays, tensors = source.program, [], [], []
    for entry in program.captured.results:
        if entry[0] == "tensor":  # as `make` has it, without the time of a call
            arrays.append(f"a{len(arrays)}")
            if entry[4]:
                results.append(f"{arrays[-1]}.item()")
                continue
            results.append(f"r{len(arrays)}")
            slots = ", ".join([f"{results[-1]}.{slot}" for slot in ("_raw", "_type", "_edge", "_view")])
            parts = f"{arrays[-1]}, {source.name(entry[2])}, None, None"
            tensors += [f"{results[-1]} = new(Tensor)", f"{slots} = {parts}"]
        else:
            results.append(source.plain(entry[1]) if entry[0] == "plain" else source.source(entry[1]))
    given = ", ".join(f"tensors[{place}]._raw" for place, _ in program.arguments)
    call = f"{', '.join(arrays)} = instance.code.direct({given})"
    source.lines.append(call if program.is_quiet else f"with quiet(): {call}")
    source.lines += ["if instance.keep is program.bound:", "    free.append(instance)", *tensors]
    source.lines.append(_returned(program.captured.structure, results))
    return source.function("run(tensors, args, kwargs, size)")


def _returned(structure, results) -> str:
    """Return the line that returns results in their structure."""
    text = _in_tuples(structure, iter(results))
    return f"return {text or f'rebuild(captured.structure, iter(({_listed(results)})))'}"


def _in_tuples(structure, results):
    """Return as source a structure of nothing but tuples with results in it; None for another one."""
    if type(structure) is int:
        return next(results)
    parts = [_in_tuples(one, results) for one in structure] if type(structure) is tuple else [None]
    return None if None in parts else f"({_listed(parts)})"


def _listed(parts) -> str:
    return "".join(f"{one}, " for one in parts)


def _add_node(source, lends=True):
    """Add lines that make the node of a call; `lends`: it keeps memory of the program's."""
    program, captured = source.program, source.program.captured
    targets = [source.source(one) for one in captured.wanted]
    edges = "".join(f"{one} if {one}._edge is LEAF else {one}._edge, " for one in targets)
    source.lines += [
        f"node, targets = Node(), ({''.join(one + ', ' for one in targets)})",
        f"node.edges = ({edges})",
        "node.fit = node.rare = None",
        *(["lent = ref(node), instance"] if lends else ()),
        f"node.seq, node.work = tick(), (program, instance, targets, args, kwargs, {'lent' if lends else None})",
    ]
    if captured.spent is not None:
        source.lines.append("node.saved = None")
        return
    saved = "".join(f"{source.source(s)}._raw, " for s in _read_late(program))
    source.lines.append(f"node.saved = ({saved})")
    if lends:
        source.lines.append("program.lent.append(lent)")


def _read_late(program) -> list:
    """Return the sources whose own memory the walk backward reads."""
    read = [s for s in (*program.given, *program.held) if s.value.buffer in program.read_late]
    return [s for s in read if s.value.buffer.kind != "argument"]


def late_of(program) -> list:
    """Return the values whose arrays the node of a call saves, of a program whose results are all tensors."""
    results = [entry[1] for entry in program.captured.results]
    return [s.value for s in _read_late(program)] + [one for one in results if one.buffer in program.read_late]


def written_node(program):
    """Return `node(results, args, kwargs, instance)`, which gives the results of a call in C their node."""
    source, results, saved = _Source(program), program.captured.results, []
    several, roots = type(program.captured.structure) is tuple, program.captured.root_grads
    one = len(roots) == 1
    places = "".join(f"args[{place}], " for place in program.guard.flat)
    source.lines.append(f"tensors = {'args' if program.guard.is_plain else f'({places})'}")
    _add_node(source, lends=False)
    is_used = one and roots[0].buffer in program.captured.used and program.captured.reach is None
    if is_used and None not in program.captured.gradients:
        source.space["Node"] = DirectBackward
    for number, (_, value, _, root, _) in enumerate(results):
        name = f"results[{number}]" if several else "results"
        if root >= 0:
            source.lines.append(f"{name}._edge = {'node' if one else f'OutputSlot(node, {root})'}")
        if value.buffer in program.read_late:
            saved.append(f"{name}._raw, ")
    if saved:
        source.lines.append(f"node.saved += ({''.join(saved)})")
    source.lines.append("return results")
    return source.function("node(results, args, kwargs, instance)")


def written_back_of_arrays(program):
    """Return `back(run, grads, saved)`, which gives a call's gradients by one call of C; None where it serves not."""
    source, captured, numbers = _Source(program), program.captured, iter(range(len(program.captured.gradients)))
    given = [
        f"array_of(grads.get({number}), {source.name(value)}, None)"
        for number, value in enumerate(captured.root_grads)
        if value.buffer in captured.used
    ]
    source.lines.append(f"new = run({_listed(given)}*saved)")
    news = ["None" if value is None else f"new[{next(numbers)}]" for value in captured.gradients]
    source.lines.append(f"return None if new is None else [{', '.join(news)}]")
    return source.function("back(run, grads, saved)")


def written_back(program):
    """Return `back(instance, grads)`, which gives the gradients of a call whose results have these, by number."""
    if len(program.graph.parts) < 2:
        return None
    source = _Source(program)
    source.taken = set()
    source.lines.append("code = instance.code")
    for number, value in enumerate(program.captured.root_grads):
        if value.buffer in program.captured.used:
            call, name = "code.give" if value.buffer.kind == "given" else "instance.take", source.name(value)
            source.lines.append(f"{call}({name}, array_of(grads.get({number}), {name}, instance.size))")
    source.part(1)
    outs = ["None" if value is None else source.out(value) for value in program.captured.gradients]
    source.lines.append(f"return [{', '.join(outs)}]")
    return source.function("back(instance, grads)")


def _array_of(grad, value, size):
    """Return a gradient as a program takes it; None is zeros. RuntimeError where it is not like its result."""
    shape = value.shape if size is None else at(value.shape, size)
    if grad is None:
        return numpy.zeros(shape, value.dtype)
    if grad.shape != shape or grad.dtype != value.dtype:  # what a hook on the node may have made of it
        raise RuntimeError(
            f"Function {CompiledFunctionBackward.__name__} got an invalid gradient of shape {list(grad.shape)} and "
            f"{grad.dtype} for a result of shape {list(shape)} and {value.dtype}: hooks on it must return such ones"
        )
    return numpy.asarray(grad, order="C")


def with_effects(program, instance, tensors, taken):
    """Carry out the first part of a program that writes tensors or leaves gradients."""
    everybody = (*tensors, *program.tensors)
    with quiet():
        for value, number in program.old_grads:
            instance.take(value, everybody[number]._grad._raw)
        for number in program.dropped_grads:
            everybody[number]._grad = None
        try:
            instance.parts[0]()
        finally:
            _write_back(program, instance, tensors)
        if program.touches_grads:
            _leave_gradients(program, instance, everybody, taken)


def _write_back(program, instance, tensors):
    """Let everybody know what was written; arguments were written in a copy."""
    for source in program.written:
        tensor = source.tensor if source.place is None else tensors[source.place]
        for _ in range(source.writes):  # none through `.data`
            touch(tensor)
        if source.place is not None:
            tensor._raw[...] = instance.on(source.value)


def _leave_gradients(program, instance, everybody, taken):
    for source, tensor in zip((*program.given, *program.held), everybody):
        if source.final is None:
            tensor._grad = None
        elif isinstance(source.final, Value):
            tensor._grad = make(instance.out(source.final, taken), tensor._type.plain)
        elif source.grad is not None and source.grad.written:
            touch(tensor._grad)
            tensor._grad._raw[...] = instance.on(source.grad.value)


_ONCE = "can't be differentiated twice: call the function that was compiled itself"


def _is_as_at(seq, program, instance, args, kwargs) -> bool:
    """Whether all that the call with a node of that number read is what it was then: the call can be repeated."""
    if get_default_dtype() is not program.guard.dtype or not program.world.holds():
        return False
    held = [t._raw for t in program.tensors]
    given = [leaf._raw for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    bound = instance.keep is not None and all(map(is_, held, instance.keep))
    return bound and not any(written_since(array, seq) for array in (*held, *given))


class CompiledFunctionBackward(Node):
    """A call of a compiled program; its walk backward was captured with it."""

    __slots__ = ("work",)
    pure = False
    asks = True  # of what was saved: where nothing is left, it says so itself

    @property
    def outputs(self):
        """(shape, tensor type) of each result that may get a gradient."""
        if self.work is None:
            raise RuntimeError(FREED)
        program, instance = self.work[:2]
        types = {entry[3]: entry[2] for entry in program.captured.results if entry[0] == "tensor"}
        shapes = [value.shape for value in program.captured.root_grads]
        shapes = shapes if instance.size is None else at(shapes, instance.size)
        return [(tuple(shape), types[number]) for number, shape in enumerate(shapes)]

    def tensors(self):
        return ()

    def missing(self):
        return Outputs({})

    def pull(self, F, g, saved, retain):
        if self.work is None:
            raise RuntimeError(FREED)
        program, instance, *_, lent = self.work
        error = program.captured.spent
        if error is not None:
            raise type(error)(*error.args)
        grads = g.grads if isinstance(g, Outputs) else {0: g}
        if F._recorded:
            return self._again(grads)
        put_back = instance.retained() if retain and lent is not None else None
        gradients = instance.back(grads, saved) if lent is None else program.back(instance, grads)
        reach = program.captured.reach
        if reach is not None and len(grads) < len(reach):  # of results that get none nothing gets zeros
            reached = frozenset().union(*[reach[number] for number in grads])
            gradients = [one if number in reached else None for number, one in enumerate(gradients)]
        if put_back is not None:
            put_back()
        if retain:
            return gradients
        self.saved = self.work = None
        if lent is not None:
            with suppress(ValueError):  # other threads change it, too
                program.lent.remove(lent)
            program.give_back(instance)
        return gradients

    def _again(self, grads):
        """Return gradients that are recorded: the program runs again, op by op."""
        program, instance, targets, args, kwargs, _ = self.work
        if program.random or program.has_effects or places_of(program.function):
            raise RuntimeError(f"a compiled program that draws numbers or writes {_ONCE}")
        if not _is_as_at(self.seq, program, instance, args, kwargs):
            raise RuntimeError(f"a compiled program of which something that it read has changed since {_ONCE}")
        with enable_grad():
            outputs = [t for t in nest.leaves(program.function(*args, **kwargs)) if isinstance(t, Tensor)]
            roots = [t for t in outputs if t.requires_grad and not any(t is one for one in targets)]
            pairs = [(root, grads[number]) for number, root in enumerate(roots) if number in grads]
            return autograd.grad(
                [root for root, _ in pairs], targets, [g for _, g in pairs], create_graph=True, allow_unused=True
            )


class DirectBackward(CompiledFunctionBackward):
    """A call of a program with one result that got a gradient, whose walk backward is one call of C."""

    __slots__ = ()

    def pull(self, F, g, saved, retain):
        if self.work is not None and not F._recorded:
            gradients = self.work[1].run_back(g, *saved)
            if gradients is not None:
                if not retain:
                    self.saved = self.work = None
                return gradients
        return super().pull(F, g, saved, retain)


DirectBackward.__name__ = CompiledFunctionBackward.__name__  # a program need not know that there are two
