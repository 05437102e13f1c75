"""Programs that were captured: which one serves a call, and the memory of each."""

from __future__ import annotations

import collections
import ctypes
import inspect
import sys
import threading
import time
import warnings
import weakref
from contextlib import suppress
from operator import is_

import numpy

from plugrad import Tensor, get_default_dtype, is_grad_enabled, nest
from plugrad.compiler.capturing import Captured, capture, capturing, is_plain
from plugrad.compiler.changing import Changing, Replacing
from plugrad.compiler.direct import direct_of, parts_of
from plugrad.compiler.graph import at, plainly, varies
from plugrad.compiler.guards import Guard, modes_act, signature_of
from plugrad.compiler.marks import altered
from plugrad.compiler.runs import written_back, written_run
from plugrad.compiler.sizes import CaptureError, ChangeError
from plugrad.compiler.varying import captured_for_all, varying_size
from plugrad.graph.modes import elsewhere, levels, mode, paused, special, watched

SIGNATURES = 8  # for more of them than this, of one size, a program is not captured again
TRIES = 16  # as often programs for many sizes are captured for calls of one structure
KEPT = 32  # programs; beyond them the one is forgotten that was not called for longest
REMEMBERED = 256  # sizes that ran op by op
busy: list = []  # who is captured now
everyone: weakref.WeakSet = weakref.WeakSet()


def _wait() -> None:
    """Wait while another thread captures: its tensors are others meanwhile."""
    with capturing:
        pass


def _apart(function, args, kwargs):
    """Call the program's function, op by op: whoever captures meanwhile does not wait for it, which could wait, too."""
    return function(*args, **kwargs)


def _let_out() -> None:
    """Wait for the other threads' calls that began before this capture: they have looked at tensors already.

    So calls need no lock. Those that begin later wait.
    """
    own = threading.get_ident()
    while any(_is_inside(frame) for thread, frame in sys._current_frames().items() if thread != own):
        time.sleep(1e-4)


def _is_inside(frame) -> bool:
    outside = False
    while frame is not None:
        if frame.f_code is Programs.call.__code__ and not outside:
            return True
        outside = frame.f_code in _OUTSIDE or outside and frame.f_code is not Programs.call.__code__
        frame = frame.f_back
    return False


class Programs:
    """A function as an array compiler runs it: see `plugrad.compiler.on_arrays`."""

    def __init__(self, function, lower, name, fullgraph=False, dynamic=True):
        self.function, self.lower, self.name, self.fullgraph, self.dynamic = function, lower, name, fullgraph, dynamic
        self.reset()
        everyone.add(self)

    def __reduce__(self):
        return Programs, (self.function, self.lower, self.name, self.fullgraph, self.dynamic)

    def reset(self):
        """Forget all programs."""
        self.known: list[Program] = []
        self.refused = self.replacing = None  # replacing: what calls a program that replaces what objects have
        self.captures, self.seen = 0, {}  # how often calls with some sizes ran op by op
        self.tries: dict = {}  # how often a program for many sizes was tried, by the structure of calls

    def __call__(self, *args, **kwargs):
        return self.call(args, kwargs)

    def call(self, args, kwargs):
        """Call the program that serves such arguments, captured if there is none."""
        if special or watched or elsewhere or levels or altered or busy:
            if altered and (mode.uncompiled or mode.stance == "force_eager") or modes_act():
                return _apart(self.function, args, kwargs)
            while busy:
                _wait()
        grad, dtype = not paused or mode.records(), get_default_dtype()
        for program in self.known:
            guard = program.guard
            if guard.grad_mode is not grad or guard.dtype is not dtype or guard.same is None:
                continue
            direct = program.direct
            if direct is not None:
                results = direct.serve(args, kwargs)
                if results is None:
                    continue
                if results is not False:
                    if program is not self.known[0]:
                        self._put_first(program)
                    return results if direct.node is None else direct.node(results, args, kwargs, direct)
            size = guard.same(args, kwargs)
            if size:
                tensors = args if guard.is_plain else guard.tensors_in(args, kwargs)
                if not guard.written or not guard.overlap(tensors):
                    if program is self.known[0]:
                        return program.run(tensors, args, kwargs, size)
                    self._put_first(program)
                    return program.served(tensors, args, kwargs, size)
        if self.replacing is not None:
            return self.replacing.call(args, kwargs)
        if not kwargs and all([type(one) is Tensor for one in args]) and len({*map(id, args)}) == len(args):
            tensors = args
        else:
            tensors = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
            tensors = list({id(t): t for t in tensors}.values())
        for program in self.known:
            size = program.guard.serves(tensors, args, kwargs, grad)
            if size:
                self._put_first(program)
                return program.served(tensors, args, kwargs, size)
        if self.refused is not None or not all(map(is_plain, tensors)) or mode.stance == "eager_on_recompile":
            return _apart(self.function, args, kwargs)
        if mode.stance == "fail_on_recompile":
            raise RuntimeError("a compiled function got a new signature while the stance is fail_on_recompile")
        signature = signature_of(tensors, args, kwargs, grad)
        if self.captures >= SIGNATURES and not self._is_due(signature):
            return _apart(self.function, args, kwargs)
        try:
            program, size = self._captured_alone(args, kwargs, signature)
            while busy:
                _wait()
        except Exception as error:
            changes = isinstance(error, ChangeError)
            if self.fullgraph and not changes:
                raise
            # An error of the program's own comes again; if none does, it was the capture's.
            result = _apart(self.function, args, kwargs)
            error = self._still_changes(args, kwargs) if changes else error
            if isinstance(error, ChangeError) and error.places:
                changing = Changing(self.function, error.places, error.uses)
                programs = Programs(changing, self.lower, self.name, self.fullgraph, self.dynamic)
                self.replacing = Replacing(changing, programs)
            elif error is not None:
                if self.fullgraph:
                    raise error
                self.refused = error
                self._warn(error)
            return result
        return program.served(tensors, args, kwargs, size)

    def _still_changes(self, args, kwargs):
        """Return why a program can't be captured that changed objects when it ran first; None if it filled caches."""
        tensors = [leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        tensors = list({id(t): t for t in tensors}.values())
        try:
            self._captured_alone(args, kwargs, signature_of(tensors, args, kwargs, is_grad_enabled()))
        except Exception as error:
            return error
        return None

    def _captured_alone(self, args, kwargs, signature):
        with capturing:
            busy.append(self)
            try:
                _let_out()
                return self._captured(args, kwargs, signature)
            finally:
                busy.pop()

    def _put_first(self, program) -> None:
        """Ask a program first from now on; those that are asked last have no memory."""
        self.known = [program, *[one for one in self.known if one is not program]]
        for other in self.known[SIGNATURES:]:
            other.forget_memory()

    def _is_due(self, signature) -> bool:
        """Whether a call is captured whose sizes are new: the more were, the more often they must have come."""
        known = [program.signature for program in self.known]
        if signature in known or not any(structure == signature[0] for structure, _ in known):
            return True  # something else is new
        count = self.seen.pop(signature, 0)
        if count >= self.captures // SIGNATURES:
            return True
        self.seen[signature] = count + 1
        if len(self.seen) > REMEMBERED:
            del self.seen[next(iter(self.seen))]
        return False

    def _kinds(self) -> int:
        """Return how many programs there are, where those count once that differ in sizes alone."""
        counts = collections.Counter(program.signature for program in self.known)
        most: dict = {}
        for (structure, _), count in counts.items():
            most[structure] = max(count, most.get(structure, 0))
        return sum(most.values())

    def _captured(self, args, kwargs, signature):
        if self._kinds() >= SIGNATURES:
            raise CaptureError(f"there are {SIGNATURES} programs for it already")
        for other in self.known:  # what calls go on like is the new program: others get their memory again when asked
            other.forget_memory()
        self.captures += 1
        served = self._for_many_sizes(args, kwargs, signature)
        if served is not None:
            return served
        program = Program(capture(self.function, args, kwargs, is_grad_enabled()), self.lower, args, kwargs)
        program.signature = signature
        self.known = [program, *self.known[: KEPT - 1]]
        return program, True

    def _for_many_sizes(self, args, kwargs, signature):
        """Return (program, size) of one for all sizes, if the call differs in one from a program that is known."""
        structure, sizes = signature
        alike = [p for p in self.known if p.signature[0] == structure and varying_size(sizes, p.signature[1])]
        tries = self.tries.get(structure, 0)
        if not alike or tries >= TRIES or not self.dynamic or not getattr(self.lower, "any_size", False):
            return None
        other, served = alike[0].signature, alike[0].scope is not None
        self.tries[structure] = tries + 1
        try:
            captures = captured_for_all(self.function, args, kwargs, is_grad_enabled(), sizes, other[1], served)
            new = [Program(captured, self.lower, args, kwargs) for captured in captures]
        except Exception:  # then there is one for each size
            self.tries[structure] = TRIES
            return None
        if not new:
            return None
        for program, its in zip(new, (signature, other)):
            program.signature = its
        others = [one for one in self.known if one.signature[0] != structure or not any(p.replaces(one) for p in new)]
        self.known = [*new, *others][:KEPT]
        size = new[0].guard.size_of([shape for shape, _ in sizes])
        return (new[0], size) if size else None

    def _warn(self, error):
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        place = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        reason = error if isinstance(error, CaptureError) else f"{type(error).__name__}: {error}"
        warnings.warn(f"the compiler {self.name!r} runs a program op by op{place}: {reason}", stacklevel=3)


_OUTSIDE = {_wait.__code__, _apart.__code__, Programs._captured_alone.__code__}  # where a call waits, or may


def described(programs) -> str:
    """Return as text what was captured, or why a program runs op by op."""
    lines = [f"{len(programs.known)} programs by the compiler {programs.name!r}"]
    if programs.refused is not None:
        lines.append(f"further calls run op by op: {programs.refused}")
    for number, program in enumerate(programs.known):
        kinds: dict = {}
        for buffer in program.graph.buffers:
            count, size = kinds.get(buffer.kind, (0, 0))
            kinds[buffer.kind] = count + 1, size + plainly(buffer.nbytes)
        memory = ", ".join(f"{kind} {count} ({size} bytes)" for kind, (count, size) in sorted(kinds.items()))
        lines += [
            f"program {number}: {len(program.graph.steps)} steps in {len(program.graph.parts)} parts, "
            f"{program.size} bytes planned",
            f"buffers: {memory}",
            str(program.graph),
            getattr(program.make, "source", ""),
            *getattr(program.make, "remarks", list)(),
        ]
    if programs.replacing is not None:
        lines += ["what it replaces is an argument and a result of:", described(programs.replacing.programs)]
    return "\n".join(lines)


class Program:
    """One captured program, for calls on which its guards hold."""

    def __init__(self, captured: Captured, lower, args, kwargs):
        self.captured, self.graph, self.signature = captured, captured.graph, None
        self.function, self.world = captured.function, captured.world
        self.make = lower(self.graph)  # which may put other steps in the place of these
        self.scope = captured.sizes
        self._plan(None if self.scope is None else self.scope.hint)
        sources = captured.sources
        self.given = [s for s in sources if s.place is not None]
        self.held = [s for s in sources if s.place is None and self._matters(s)]
        self.tensors = [s.tensor for s in self.held]
        self.guard = Guard(captured, self.given, self.held, args, kwargs)
        self.arguments = [(s.place, s.value) for s in self.given if s.value.buffer in captured.used]
        self.touches_grads, self.written = captured.touches_grads, self.guard.written
        self.bound: list | None = None  # the arrays of what is held, to which instances are bound
        self.free: list = []
        self.lent: list = []
        self.old_grads = [
            (s.grad.value, n)
            for n, s in enumerate((*self.given, *self.held))
            if s.grad is not None and s.grad.value.buffer in captured.used
        ]
        self.dropped_grads = [  # the program lets go of them: new ones need their memory
            n
            for n, s in enumerate((*self.given, *self.held))
            if s.grad is not None and s.final != "same" and s.grad.value.buffer not in captured.used
        ]
        self.read_late = self._read_late()
        calls = [step.function for step in self.graph.steps if step.kind == "python"]
        self.taken = {g.buffer for call in calls for g, own in zip(call.grads, call.own) if own}  # tensors have them
        self.random = any(step.effect for step in self.graph.steps)
        self.is_quiet = all(step.kind == "native" for step in self.graph.steps)  # no step of NumPy can warn
        self.has_effects = bool(self.written or self.old_grads or self.touches_grads)
        self.run, self.back = written_run(self), written_back(self)
        self.in_c, self.direct = parts_of(self), None  # direct: what does whole calls in C
        if self.scope is not None:
            self.scope.known = {}  # what kept sizes shall not keep all of them

    size = property(lambda self: self.plan[2], doc="How many bytes are planned.")

    def _matters(self, source) -> bool:
        used = self.captured.used
        return source.value.buffer in used or source.final != "same" or source.grad is not None or source.leads

    def _read_late(self) -> set:
        """Return the buffers that the walk backward reads: nobody may write them in between."""
        if len(self.graph.parts) < 2:
            return set()
        return {v.buffer for i in self.graph.parts[1] for v in self.graph.steps[i].reads()}

    def served(self, tensors, args, kwargs, size):
        """Return the results of a call for which the guard was asked in Python, or that was not asked first."""
        if not self.binds():
            return _apart(self.function, args, kwargs)
        results = self.run(tensors, args, kwargs, size)
        if self.in_c is not None and self.direct is None:
            self.direct = direct_of(self)
        return results

    def replaces(self, other) -> bool:
        """Whether it serves all calls of the same structure that another one serves."""
        if other.scope is None:
            return bool(self.guard.size_of([shape for shape, _ in other.signature[1]]))
        its, places = other.scope, [one[:2] for one in other.guard.tells]
        return places == [one[:2] for one in self.guard.tells] and all(map(self.scope.serves, its.sizes[its.allowed]))

    # ---- memory

    def _plan(self, size):
        """Plan memory for sizes up to one: what buffers need grows with it, so smaller ones have room.

        `plan` is (that size, places, bytes), one object, since other threads may plan, too.
        """
        for buffer in self.graph.buffers:
            if varies(buffer.nbytes) and (numpy.diff(buffer.nbytes.values) < 0).any():
                raise CaptureError("a larger size needs less memory")
        self.plan = size, *self.graph.layout(size)

    def resized(self, instance, size):
        """Return an instance for calls of another size."""
        while size > instance.capacity:
            if size > self.plan[0]:
                self._plan(size)
                self.free.clear()
            instance = _Instance(self)
        instance.resize(size)
        return instance

    def binds(self) -> bool:
        """Bind memory to the arrays that held tensors have now; say whether they are of the kind that was captured."""
        now = [t._raw for t in self.tensors]
        if self.bound is None or not all(map(is_, now, self.bound)):
            for array, source in zip(now, self.held):
                value = source.value
                if (array.shape, array.strides, array.dtype) != (value.shape, value.strides, value.dtype):
                    return False
            self.bound, self.free, self.lent, self.direct = now, [], [], None
            self.guard.settle(now)
        return True

    def forget_memory(self) -> None:
        """Let go of what no call uses now."""
        self.free.clear()
        self.direct = None

    def instance(self, bound=None):
        """Return memory and callables that nobody uses now, for arrays that tensors had if they have others now."""
        if bound is not None and bound is not self.bound:
            return _Instance(self, bound)
        lent = self.lent
        for pair in tuple(lent):
            if pair[0]() is None:
                with suppress(ValueError):  # another thread was faster
                    lent.remove(pair)
                    return pair[1]
        return _Instance(self)

    def give_back(self, instance) -> None:
        """Take back memory that a call had, unless tensors have other arrays now, or calls in C have their own."""
        instance.code.clear()
        if instance.keep is self.bound and self.direct is None:
            self.free.append(instance)


class _Instance:
    """Memory for one run: the arena, views of it, and the parts bound to them."""

    def __init__(self, program, bound=None):
        graph, self.keep = program.graph, program.bound if bound is None else bound
        self.capacity, places, total = program.plan
        arena = numpy.empty(total + 64, "uint8")
        start = -arena.__array_interface__["data"][0] % 64
        self.arena = arena[start:]
        self.size = None
        memory = {b: self.arena[begin : begin + at(b.nbytes, self.capacity)] for b, begin in places.items()}
        self.initial = []
        for buffer in graph.buffers:
            if buffer.kind == "constant":
                memory[buffer] = _bytes(buffer.owner)
            elif buffer.kind == "initial":
                self.initial.append((memory[buffer], _bytes(buffer.owner)))
        for source, array in zip(program.held, self.keep):
            memory[source.value.buffer] = _bytes(array)
        self.memory = memory
        self.code = program.make(memory)
        self.parts = self.code.parts
        self.arrays: dict = {}

    def resize(self, size) -> None:
        """Be for calls of another size."""
        self.size, self.arrays = size, {}
        self.code.resize(size)

    def retained(self):
        """Return a function that makes memory what it is now, after a part of the program that is to run again."""
        arena, more = self.arena.copy(), getattr(self.code, "retained", lambda: None)()

        def put_back():
            self.arena[...] = arena
            if more is not None:
                more()

        return put_back

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
            array = self.arrays[value.key] = value.on(self.memory[value.buffer], self.size)
        return array

    def out(self, value, taken):
        """Return an array for a result that nobody else has: what is new goes out once, all else is copied."""
        if value.buffer.kind == "fresh" and value.is_whole and value.buffer not in taken:
            taken.add(value.buffer)
            return self.code.fetch(value)
        return self.copied(value)

    def copied(self, value):
        """Return a copy of what a value is, with the strides that it has: it may be a part of something larger."""
        array = self.code.fetch(value) if value.buffer.kind == "fresh" else self.on(value)
        copy = array.copy("K")
        if copy.strides == array.strides or not array.size:
            return copy
        memory = _bytes(array)
        start = array.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        return numpy.ndarray(array.shape, array.dtype, memory.copy(), start, array.strides)


def _bytes(array) -> numpy.ndarray:
    """Return the memory of an array as bytes, from its first one to its last."""
    if not array.size:
        return numpy.empty(0, "uint8")
    low, high = numpy.lib.array_utils.byte_bounds(array)
    memory = (ctypes.c_char * (high - low)).from_address(low)
    memory.keep = array
    return numpy.frombuffer(memory, "uint8")
