"""What a captured program does when it is called: memory, steps, results and effects, and the node of a walk backward.

How it is called is written as source once: most programs have no effects, and one result.
"""

from __future__ import annotations

import contextlib
import weakref

import numpy

from plugrad import Tensor, autograd, enable_grad, nest
from plugrad.compiler.graph import Value
from plugrad.graph.modes import LEAF, tick
from plugrad.graph.nodes import Node, Outputs, OutputSlot
from plugrad.graph.saved import FREED
from plugrad.graph.versions import touch
from plugrad.tensor.tensor import make


def quiet():
    """Let infinities and NaN come without warnings."""
    return numpy.errstate(all="ignore")


def written_run(program):
    """Return `run(tensors, args, kwargs)`, which gives the results of a call that the program serves."""
    captured, lines = program.captured, []
    space = {
        "program": program, "captured": captured, "make": make, "quiet": quiet, "OutputSlot": OutputSlot,
        "node_of": node_of, "with_effects": with_effects, "rebuild": nest.rebuild,
    }  # fmt: skip

    def name(item) -> str:
        space[f"o{len(space)}"] = item
        return f"o{len(space) - 1}"

    lines += [
        "free = program.free",
        "instance = free.pop() if free else program.instance()",
        "code = instance.code",
    ]
    for place, value in program.arguments:
        call = "code.give" if value.buffer.kind == "given" else "instance.take"
        lines.append(f"{call}({name(value)}, tensors[{place}]._data)")
    if any(buffer.kind == "initial" for buffer in program.graph.buffers):
        lines += ["for array, owner in instance.initial:", "    array[...] = owner"]
    if program.has_effects:
        lines += ["taken = set(program.taken)", "with_effects(program, instance, tensors, taken)"]
    elif program.is_quiet:
        lines.append("instance.parts[0]()")
    else:
        lines += ["with quiet():", "    instance.parts[0]()"]
    has_node = bool(captured.wanted) or captured.spent is not None
    if has_node:
        lines.append("node = node_of(program, instance, tensors, args, kwargs)")
    several, results, saved, taken = len(captured.root_grads) > 1, [], [], set(program.taken)
    for entry in captured.results:
        kind, item = entry[:2]
        if kind == "plain":
            results.append(name(item))
        elif kind == "source":
            results.append(name(item.tensor) if item.place is None else f"tensors[{item.place}]")
        else:
            edge = ""
            if has_node and entry[3] >= 0:
                edge = f", OutputSlot(node, {entry[3]})" if several else ", node"
            own = item.buffer.kind == "fresh" and item.is_whole and item.buffer not in taken
            taken.add(item.buffer)
            out = f"code.fetch({name(item)})" if own else f"instance.copied({name(item)})"
            if program.has_effects:
                out = f"instance.out({name(item)}, taken)"
            lines.append(f"r{len(results)} = make({out}, {name(entry[2])}{edge})")
            if item.buffer in program.read_late:
                saved.append(f"r{len(results)}._data, ")
            results.append(f"r{len(results)}")
    if not has_node or captured.spent is not None:
        lines.append("program.give_back(instance)")
    elif saved:
        lines.append(f"node.saved += ({''.join(saved)})")
    if type(captured.structure) is int:
        lines.append(f"return {results[0]}")
    elif type(captured.structure) is tuple and all(type(one) is int for one in captured.structure):
        lines.append(f"return ({''.join(one + ', ' for one in results)})")
    else:
        lines.append(f"return rebuild(captured.structure, iter(({''.join(one + ', ' for one in results)})))")
    source = "def run(tensors, args, kwargs):\n" + "".join(f"    {line}\n" for line in lines)
    exec(compile(source, "<call of a compiled program>", "exec"), space)
    return space["run"]


def with_effects(program, instance, tensors, taken):
    """Carry out the first part of a program that writes tensors or leaves gradients."""
    everybody = (*tensors, *program.tensors)
    with quiet():
        for value, number in program.old_grads:
            instance.take(value, everybody[number]._grad._data)
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
        touch(tensor)
        if source.place is not None:
            tensor._data[...] = instance.on(source.value)


def _leave_gradients(program, instance, everybody, taken):
    for source, tensor in zip((*program.given, *program.held), everybody):
        if source.final is None:
            tensor._grad = None
        elif isinstance(source.final, Value):
            tensor._grad = make(instance.out(source.final, taken), tensor._type.plain)
        elif source.grad is not None and source.grad.written:
            touch(tensor._grad)
            tensor._grad._data[...] = instance.on(source.grad.value)


def node_of(program, instance, tensors, args, kwargs):
    captured = program.captured
    node = CompiledFunctionBackward()
    targets = [s.tensor if s.place is None else tensors[s.place] for s in captured.wanted]
    node.edges = tuple([t if t._edge is LEAF else t._edge for t in targets])
    node.saved = None if captured.spent is not None else tuple([t._data for t in program.saved(tensors)])
    node.fit = node.rare = None
    node.seq = tick()
    node.work = (program, instance, targets, args, kwargs)
    if captured.spent is None:
        program.lent.append((weakref.ref(node), instance))
    return node


class CompiledFunctionBackward(Node):
    """A call of a compiled program; its walk backward was captured with it."""

    __slots__ = ("work",)
    pure = False
    asks = True  # of what was saved: where nothing is left, it says so itself

    def tensors(self):
        return ()

    def missing(self):
        return Outputs({})

    def pull(self, F, g, saved, retain):
        if self.work is None:
            raise RuntimeError(FREED)
        program, instance, targets, args, kwargs = self.work
        error = program.captured.spent
        if error is not None:
            raise type(error)(*error.args)
        grads = g.grads if isinstance(g, Outputs) else {0: g}
        if F._recorded:
            return self._again(grads)
        before = instance.arena.copy() if retain else None
        for number, value in enumerate(program.captured.root_grads):
            if value.buffer in instance.used:
                array = grads.get(number)
                instance.take(value, numpy.zeros(value.shape, value.dtype) if array is None else numpy.asarray(array))
        with contextlib.nullcontext() if program.is_quiet else quiet():
            instance.parts[1]()
        taken: set = set()
        gradients = [None if value is None else instance.out(value, taken) for value in program.captured.gradients]
        if retain:
            instance.arena[...] = before
        else:
            self.saved = self.work = None
            program.lent = [pair for pair in program.lent if pair[1] is not instance]
            program.give_back(instance)
        return gradients

    def _again(self, grads):
        """Return gradients that are recorded: the program runs again, op by op."""
        program, _, targets, args, kwargs = self.work
        if program.random or program.written:
            raise RuntimeError("a compiled program that draws numbers or writes can't be differentiated twice")
        with enable_grad():
            outputs = [t for t in nest.leaves(program.function(*args, **kwargs)) if isinstance(t, Tensor)]
            roots = [t for t in outputs if t.requires_grad and not any(t is one for one in targets)]
            pairs = [(root, grads[number]) for number, root in enumerate(roots) if number in grads]
            return autograd.grad(
                [root for root, _ in pairs], targets, [g for _, g in pairs], create_graph=True, allow_unused=True
            )
