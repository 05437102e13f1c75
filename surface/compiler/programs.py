"""Programs that were captured, as they are called: guards, memory, results, and their node in the recorded graph."""

from __future__ import annotations

import contextlib
import ctypes
import warnings
import weakref
from operator import is_

import numpy

from plugrad import Tensor, autograd, enable_grad, get_default_device, get_default_dtype, is_grad_enabled, nest
from plugrad.compiler.capturing import Captured, capture, capturing, is_plain
from plugrad.compiler.graph import CaptureError, Value
from plugrad.graph import modes
from plugrad.graph.modes import LEAF, elsewhere, levels, mode, special, tick, watched
from plugrad.graph.nodes import Node, Outputs, OutputSlot
from plugrad.graph.saved import FREED
from plugrad.graph.versions import touch
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.tensor import make

SIGNATURES = 8  # for more of them than this a program is not captured again
busy: list = []  # who is captured now
everyone: weakref.WeakSet = weakref.WeakSet()


class Programs:
    """A function as an array compiler runs it: see `plugrad.compiler.on_arrays`."""

    def __init__(self, function, lower, name, fullgraph=False):
        self.function, self.lower, self.name, self.fullgraph = function, lower, name, fullgraph
        self.reset()
        everyone.add(self)

    def __reduce__(self):
        return Programs, (self.function, self.lower, self.name, self.fullgraph)

    def reset(self):
        """Forget all programs."""
        self.known: list[Program] = []
        self.refused = None

    def __call__(self, *args, **kwargs):
        if (special or watched or elsewhere or levels) and _modes_act():
            return self.function(*args, **kwargs)
        if busy:  # another thread captures: its tensors are others meanwhile
            with capturing:
                pass
        if not kwargs and all([type(one) is Tensor for one in args]):
            tensors = args  # if no two are one: then `args` says what their structure is
            if len(args) > 1 and len({*map(id, args)}) < len(args):
                tensors = list({id(t): t for t in args}.values())
        else:
            tensors = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            tensors = list({id(t): t for t in tensors}.values())
        for program in self.known:
            if program.serves(tensors, args, kwargs):
                if program is not self.known[0]:
                    self.known = [program, *[one for one in self.known if one is not program]]
                return program.run(tensors, args, kwargs)
        if self.refused is not None or not all(map(is_plain, tensors)) or mode.stance == "eager_on_recompile":
            return self.function(*args, **kwargs)
        if mode.stance == "fail_on_recompile":
            raise RuntimeError("a compiled function got a new signature while the stance is fail_on_recompile")
        try:
            with capturing:
                busy.append(self)
                try:
                    program = self._captured(args, kwargs)
                finally:
                    busy.pop()
        except Exception as error:
            if self.fullgraph:
                raise
            # An error of the program's own comes again; if none does, it was the capture's.
            result = self.function(*args, **kwargs)
            self.refused = error
            self._warn(error)
            return result
        return program.run(tensors, args, kwargs)

    def _captured(self, args, kwargs):
        if len(self.known) >= SIGNATURES:
            raise CaptureError(f"there are {SIGNATURES} programs for it already")
        program = Program(capture(self.function, args, kwargs, is_grad_enabled()), self.lower, (args, kwargs))
        self.known.append(program)
        return program

    def _warn(self, error):
        code = getattr(self.function, "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        reason = error if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        warnings.warn(f"the compiler {self.name!r} runs a program op by op{place}: {reason}", stacklevel=3)


def _modes_act() -> bool:
    """Whether modes or hooks of this thread see or change calls, or change where tensors are made."""
    one = mode.function_modes or mode.dispatch_modes or mode.op_hooks or modes.installed_hooks or mode.saved_hooks
    other = mode.inference or mode.anomaly or mode.autocast or levels
    return bool(one or other) or get_default_device().type != "cpu"


def shape_of(args, kwargs):
    """Return the structure of arguments, which tensors are one, and everything that is no tensor."""
    if not kwargs and all([type(a) is Tensor for a in args]) and len({*map(id, args)}) == len(args):
        return len(args)
    known: dict = {}

    def key_of(item):
        if isinstance(item, Tensor):
            return "tensor", known.setdefault(id(item), len(known))
        if isinstance(item, (float, complex)):
            return type(item), repr(item)
        if isinstance(item, (list, tuple)):
            return type(item), *map(key_of, item)
        if isinstance(item, dict):
            return type(item), *[(key, key_of(value)) for key, value in item.items()]
        try:
            hash(item)
        except TypeError:
            return type(item), id(item)
        return type(item), item

    return key_of(args), key_of(kwargs)


def described(programs) -> str:
    """Return as text what was captured, or why a program runs op by op."""
    lines = [f"{len(programs.known)} programs by the compiler {programs.name!r}"]
    if programs.refused is not None:
        lines.append(f"further calls run op by op: {programs.refused}")
    for number, program in enumerate(programs.known):
        kinds: dict = {}
        for buffer in program.graph.buffers:
            count, size = kinds.get(buffer.kind, (0, 0))
            kinds[buffer.kind] = count + 1, size + buffer.nbytes
        memory = ", ".join(f"{kind} {count} ({size} bytes)" for kind, (count, size) in sorted(kinds.items()))
        lines += [
            f"program {number}: {len(program.graph.steps)} steps in {len(program.graph.parts)} parts, "
            f"{program.size} bytes planned",
            f"buffers: {memory}",
            str(program.graph),
            getattr(program.make, "source", ""),
        ]
    return "\n".join(lines)


class Program:
    """One captured program, for calls on which its guards hold."""

    def __init__(self, captured: Captured, lower, form):
        self.captured, self.graph = captured, captured.graph
        captured.form = self.form = shape_of(*form)
        self.function, self.world = captured.function, captured.world
        self.make = lower(self.graph)  # which may put other steps in the place of these
        self.places, self.size = self.graph.layout()
        sources = captured.sources
        self.given = [s for s in sources if s.place is not None]
        self.held = [s for s in sources if s.place is None and self._matters(s)]
        self.tensors = [s.tensor for s in self.held]
        self.types = [(s.value.shape, s.value.strides, s.value.dtype, s.leads) for s in self.given]
        self.edges = [s.leads for s in self.held]
        self.arguments = [(s.place, s.value) for s in self.given if s.value.buffer in captured.used]
        self.dtype = get_default_dtype()
        self.grad_mode, self.touches_grads = captured.grad_mode, captured.touches_grads
        self.had_grads = [s.grad is not None for s in (*self.given, *self.held)]
        self.written = [s for s in (*self.given, *self.held) if s.written]
        self.bound: list = []
        self.free: list = []
        self.lent: list = []
        self.old_grads = [
            (s.grad.value, n)
            for n, s in enumerate((*self.given, *self.held))
            if s.grad is not None and s.grad.value.buffer in captured.used
        ]
        self.read_late = self._read_late()
        self.late = [n for n, s in enumerate((*self.given, *self.held)) if s.value.buffer in self.read_late]
        calls = [step.function for step in self.graph.steps if step.kind == "python"]
        self.taken = {g.buffer for call in calls for g, own in zip(call.grads, call.own) if own}  # tensors have them
        self.random = any(step.effect for step in self.graph.steps)
        self.quiet = _quiet if any(step.kind != "native" for step in self.graph.steps) else contextlib.nullcontext
        self.has_effects = bool(self.written or self.old_grads or self.touches_grads)

    def _matters(self, source) -> bool:
        used = self.captured.used
        return source.value.buffer in used or source.final != "same" or source.grad is not None or source.leads

    def _read_late(self) -> set:
        """Return the buffers that the walk backward reads: nobody may write them in between."""
        if len(self.graph.parts) < 2:
            return set()
        return {v.buffer for i in self.graph.parts[1] for v in self.graph.steps[i].reads()}

    def saved(self, tensors) -> list:
        """Return the tensors whose memory the walk backward reads."""
        everybody = (*tensors, *self.tensors)
        return [everybody[n] for n in self.late if (*self.given, *self.held)[n].value.buffer.kind != "argument"]

    def run(self, tensors, args, kwargs):
        """Return the results of a call for which it `serves`."""
        return _run(self, tensors, args, kwargs)

    # ---- guards

    def serves(self, tensors, args, kwargs) -> bool:
        """Whether the program does for these arguments what the function would do."""
        if not (self._same_plain(args, kwargs) if tensors is not args else self.form == len(args)):
            return False
        if len(tensors) != len(self.given) or is_grad_enabled() is not self.grad_mode:
            return False
        if get_default_dtype() is not self.dtype:
            return False
        for tensor, (shape, strides, dtype, leads) in zip(tensors, self.types):
            if tensor._type.plain is not tensor._type:
                lay_out(tensor)
            data = tensor._data
            if type(data) is not numpy.ndarray or data.shape != shape or data.strides != strides or data.dtype != dtype:
                return False
            if tensor._view is not None:
                tensor._refresh()
            if (tensor._edge is not None) is not leads or tensor.__dict__:
                return False
        if self.tensors and any([(t._edge is not None) is not leads for t, leads in zip(self.tensors, self.edges)]):
            return False
        if not self.tensors and not self.touches_grads and not self.written:
            return self.world.holds()
        if self.touches_grads:
            have = [getattr(t, "_grad", None) is not None for t in (*tensors, *self.tensors)]
            if have != self.had_grads:
                return False
        if not self.world.holds():
            return False
        return not self.written or not self._overlap(tensors)

    def _same_plain(self, args, kwargs) -> bool:
        """Whether arguments that are no tensors are the same, and tensors stand where they stood."""
        return shape_of(args, kwargs) == self.captured.form

    def _overlap(self, tensors) -> bool:
        arrays = [t._data for t in (*tensors, *self.tensors)]
        ours = [tensors[s.place] if s.place is not None else s.tensor for s in self.written]
        return any(
            one._data is not other and numpy.may_share_memory(one._data, other) for one in ours for other in arrays
        )

    # ---- memory

    def instance(self):
        """Return memory and callables that nobody uses now."""
        if not self.tensors and self.free:
            return self.free.pop()
        now = [t._data for t in self.tensors]
        if len(now) != len(self.bound) or not all(map(is_, now, self.bound)):
            for array, source in zip(now, self.held):
                value = source.value
                if (array.shape, array.strides, array.dtype) != (value.shape, value.strides, value.dtype):
                    return None
            self.bound, self.free, self.lent = now, [], []
        if self.free:
            return self.free.pop()
        for index, (node, instance) in enumerate(self.lent):
            if node() is None:
                del self.lent[index]
                return instance
        return _Instance(self)

    def give_back(self, instance) -> None:
        """Take back memory that a call had; what is bound to arrays that tensors have no more is dropped."""
        instance.code.clear()
        if instance.keep is self.bound:
            self.free.append(instance)


class _Instance:
    """Memory for one run: the arena, views of it, and the parts bound to them."""

    def __init__(self, program):
        graph, captured = program.graph, program.captured
        arena = numpy.empty(program.size + 64, "uint8")
        start = -arena.__array_interface__["data"][0] % 64
        self.arena = arena[start:]
        memory = {buffer: self.arena[at : at + buffer.nbytes] for buffer, at in program.places.items()}
        self.initial = []
        for buffer in graph.buffers:
            if buffer.kind == "constant":
                memory[buffer] = _bytes(buffer.owner)
            elif buffer.kind == "initial":
                self.initial.append((memory[buffer], _bytes(buffer.owner)))
        for source, array in zip(program.held, program.bound):
            memory[source.value.buffer] = _bytes(array)
        self.memory, self.keep = memory, program.bound
        self.code = program.make(memory)
        self.parts = self.code.parts
        self.arrays: dict = {}
        self.used = captured.used

    def take(self, value, array) -> None:
        """Let the program have an array for an argument."""
        buffer = value.buffer
        if buffer.kind == "given":
            self.code.give(value, array if array.flags.c_contiguous else numpy.ascontiguousarray(array))
        elif buffer in self.memory:
            self.on(value)[...] = array

    def on(self, value):
        """Return the array of a value whose memory is planned or known."""
        array = self.arrays.get(value.key)
        if array is None:
            array = self.arrays[value.key] = value.on(self.memory[value.buffer])
        return array

    def out(self, value, taken):
        """Return an array for a result that nobody else has: what is new goes out once, all else is copied."""
        if value.buffer.kind == "fresh":
            array = self.code.fetch(value)
            if value.is_whole and value.buffer not in taken:
                taken.add(value.buffer)
                return array
            return array.copy("K")
        return self.on(value).copy("K")


def _bytes(array) -> numpy.ndarray:
    """Return the memory of an array as bytes, from its first one to its last."""
    if not array.size:
        return numpy.empty(0, "uint8")
    low, high = numpy.lib.array_utils.byte_bounds(array)
    memory = (ctypes.c_char * (high - low)).from_address(low)
    memory.keep = array
    return numpy.frombuffer(memory, "uint8")


def _run(program, tensors, args, kwargs):
    captured = program.captured
    instance = program.instance()
    if instance is None:
        return captured.function(*args, **kwargs)
    taken = set(program.taken) if program.taken else set()
    for place, value in program.arguments:
        array = tensors[place]._data
        if value.buffer.kind == "given" and array.flags.c_contiguous:
            instance.code.give(value, array)
        else:
            instance.take(value, array)
    for array, owner in instance.initial:
        array[...] = owner
    if program.has_effects:
        _with_effects(program, instance, tensors, taken)
    else:
        with program.quiet():
            instance.parts[0]()
    results, node = [], None
    if captured.wanted or captured.spent is not None:
        node = _node(program, instance, tensors, args, kwargs)
    several = len(captured.root_grads) > 1
    saved = []
    for entry in captured.results:
        if entry[0] == "plain":
            results.append(entry[1])
        elif entry[0] == "source":
            source = entry[1]
            results.append(source.tensor if source.place is None else tensors[source.place])
        else:
            tensor = make(instance.out(entry[1], taken), entry[2])
            if entry[1].buffer in program.read_late:
                saved.append(tensor._data)
            if node is not None and entry[3] >= 0:
                tensor._edge = OutputSlot(node, entry[3]) if several else node
            results.append(tensor)
    if node is None or captured.spent is not None:
        program.give_back(instance)
    else:
        node.saved += tuple(saved)
    if type(captured.structure) is int:
        return results[0]
    return nest.rebuild(captured.structure, iter(results))


def _quiet():
    return numpy.errstate(all="ignore")


def _with_effects(program, instance, tensors, taken):
    """Carry out the first part of a program that writes tensors or leaves gradients."""
    everybody = (*tensors, *program.tensors)
    with _quiet():
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


def _node(program, instance, tensors, args, kwargs):
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
        with program.quiet():
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

