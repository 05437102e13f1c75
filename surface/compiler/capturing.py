"""Capturing a program: it runs once on arrays that note what NumPy is asked to do."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading

import numpy

from plugrad import (
    Generator,
    Tensor,
    autograd,
    get_default_dtype,
    is_grad_enabled,
    nest,
    registry,
)
from plugrad import random as random_numbers
from plugrad.backends import cpu_fallback
from plugrad.compiler.arrays import Array, Capturing, Place, Recorder
from plugrad.compiler.calls import Calls
from plugrad.compiler.changing import places_of
from plugrad.compiler.drawing import Drawn, Draws
from plugrad.compiler.expanding import expanded
from plugrad.compiler.graph import Graph, Value, changed, plain
from plugrad.compiler.lending import Lending
from plugrad.compiler.logs import Log, forms_of
from plugrad.compiler.places import Uses, replaced
from plugrad.compiler.results import own_memory, reach, results_of
from plugrad.compiler.silence import printing_nothing
from plugrad.compiler.sizes import CaptureError, ChangeError, Scope
from plugrad.compiler.stepping import Steps
from plugrad.compiler.world import PLAIN, Given, World
from plugrad.dispatch.formulas import array_ops, forget_ops
from plugrad.dispatch.op import Op
from plugrad.extend import OpHook, rng, watching_random
from plugrad.graph.modes import LEAF
from plugrad.graph.nodes import Outputs
from plugrad.regions import region
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.random import _default as generators
from plugrad.tensor.tensor import make
from plugrad.tensor.views import View

_here = threading.local()
_backends: list = []  # the one of captures, once there was a capture
_at_work: list = []  # the recorder of the capture that goes on
capturing = threading.RLock()  # one at a time


def _before_fork() -> None:
    """Wait for the capture of another thread, whose tensors would stay others in the child for good."""
    _here.waited = capturing.acquire(timeout=10)  # it may itself wait for the thread that forks


def _behind_fork() -> None:
    if getattr(_here, "waited", False):  # else this module was imported while the thread forked
        capturing.release()


def _in_child() -> None:
    _behind_fork()
    if not getattr(_here, "waited", False):
        capturing._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_behind_fork, after_in_child=_in_child)


def current() -> Recorder:
    """Return the recorder of the capture in this thread."""
    recorder = getattr(_here, "recorder", None)
    if recorder is None:
        for one in _at_work:  # whose program has begun a thread: what that does is not noted
            raise one.refusal("another thread uses a tensor of the program")
        raise CaptureError("an array of a capture is used after it")
    return recorder


@contextlib.contextmanager
def _backend():
    """Let there be the backend of captures, which nobody else sees; ops get the kernels that they have on it."""
    if not _backends:
        _backends.append(Capturing(current))
    (backend,) = _backends
    if _add_kernels(dict.values(registry.ops)):  # of the ops that are loaded
        forget_ops()
    registry.backends[backend.name] = backend
    try:
        yield Place(backend.name)
    finally:
        registry.backends.pop(backend.name, None)
        generators.pop(backend.name, None)


def _add_kernels(records) -> bool:
    """Give ops their kernels in a capture; return whether any lacked one."""
    new = False
    for op in list(records):
        if op.runs_on != "tensors" and "capture" not in op.kernels:
            op.kernels["capture"], new = _kernel(op), True
        for formula in op.formulas:
            if "cpu" in formula.kernels and "capture" not in formula.kernels:
                formula.kernels["capture"] = _formula_kernel(op, formula)
    return new


@cpu_fallback.before_formulas.append
def _ready(op, name) -> None:
    """Let an op that a formula loads in a capture be ready for it."""
    if name == Capturing.name:
        _add_kernels((op,))


def _kernel(op):
    """Return an op's kernel in a capture: the general one, on arrays that note; or one that is noted as a whole.

    The latter are kernels for the CPU, and what looks at values or draws random numbers.
    """

    def kernel(xp, *args, **kwargs):
        recorder = current()
        own = op.kernels.get("cpu")
        given = any(isinstance(a, Generator) for a in (*args, *kwargs.values()))
        if own is None and not given:
            mark, first, recorder.drew = len(recorder.steps), len(recorder.buffers), False
            try:
                return op.kernels["*"](xp, *args, **kwargs)
            except (CaptureError, TypeError, AttributeError, NotImplementedError) as error:
                takes = []
                changed(lambda item: takes.append(type(item) is Array), (args, kwargs))
                if getattr(error, "final", False) and any(takes) and not _says_shape(op, args, kwargs):
                    raise
                if any(value.buffer.index < first for step in recorder.steps[mark:] for value in step.writes):
                    raise
                del recorder.steps[mark:]
        drew = recorder.drew or given
        recorder.drew = False
        if not _has_rule(op, args, kwargs):
            recorder.failure = None
            raise recorder.refusal("the size of a result depends on values: no shape rule (@op.meta) says it doesn't")
        recorder.failure = None
        own = own or op.kernels["*"]
        function = functools.partial(getattr(own, "direct", own), numpy)
        parts = None if drew else expanded(recorder, own, xp, args, kwargs)
        if parts is not None:
            return recorder.whole(function, args, kwargs, op.name, *parts)
        return recorder.call(function, args, kwargs, op.name, "kernel", "random" if drew else None)

    return kernel


def _has_rule(op, args, kwargs) -> bool:
    """Whether a rule of the op says the shape of its result, rather than that values do."""
    return type(op).shape_rule is not Op.shape_rule or op.runs_on == "nothing" or _says_shape(op, args, kwargs)


def _says_shape(op, args, kwargs) -> bool:
    """Whether an op says itself (@op.meta) which shape its result has, whatever the values in its kernel decide."""
    try:
        return op.meta_function is not None and op.meta_function(*args, **kwargs) is not None
    except NotImplementedError:
        return False


def _formula_kernel(op, formula):
    def kernel(xp, g, *values):
        if isinstance(g, Outputs):
            return NotImplemented
        own = formula.kernels["cpu"]

        def function(g, *values):
            result = own(numpy, g, *values)
            return formula.function(array_ops(numpy.float32()), g, *values) if result is NotImplemented else result

        recorder = current()
        parts = expanded(recorder, own, xp, (g, *values), {})
        if parts is not None:
            return recorder.whole(function, (g, *values), {}, f"{op.name}.vjp", *parts)
        return recorder.call(function, (g, *values), {}, f"{op.name}.vjp", "kernel")

    return kernel


class _Watch(OpHook):
    """Tells the recorder which op runs, and refuses tensors that nobody knows."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def before(self, call):
        recorder = self.recorder
        _add_kernels((call.op,))  # formulas have not asked for it yet
        if call.depth == 0:
            recorder.op = call.name
        for leaf in nest.leaves((call.args, call.kwargs)):
            if isinstance(leaf, Tensor) and type(leaf._raw) is not Array:
                raise recorder.refusal(f"a tensor on {leaf.device} takes part that is neither an argument nor known")


class Source:
    """A tensor that a program reads or writes: argument number `place`, or `tensor`, which the program holds.

    `value` is where its elements are in the capture, `grad` where those of its gradient are if it had one.
    """

    __slots__ = (
        "place", "tensor", "value", "grad", "state", "shared", "final", "written", "writes", "leads", "type", "strides",
        "attributes",
    )  # fmt: skip

    def __init__(self, place, tensor):
        self.place, self.tensor, self.grad, self.final = place, tensor, None, None
        self.written, self.writes = False, 0  # writes: those that count for versions
        self.state = (tensor._raw, tensor._type, tensor._edge, tensor._view, getattr(tensor, "_grad", None))
        self.shared = type(tensor._view) is View
        self.leads, self.attributes = tensor._edge is not None, dict(tensor.__dict__)
        self.type, self.strides = tensor._type, tensor._raw.strides  # those of size 1 may have any

    def swap(self, recorder, place, lending):
        """Let the tensor have an array of the capture."""
        tensor, array = self.tensor, self.state[0]
        kind = "bound" if self.place is None else "argument"
        raw = recorder.array(plain(array), kind)
        raw.value.buffer.dense = array.flags.c_contiguous
        self.value = raw.value
        edge, grad = None if self.state[2] is None else LEAF, self.state[4]
        lending.lend(tensor, _raw=raw, _type=place.tensor_type(array.dtype), _view=None, _edge=edge, _grad=grad)
        if grad is not None:
            self.grad = Source("grad", grad)
            self.grad.swap(recorder, place, lending)

    def put_back(self):
        """Let an argument have the attributes that it had, not the hooks that the program registered."""
        if self.place is not None and self.tensor.__dict__.keys() != self.attributes.keys():
            self.tensor.__dict__.clear()
            self.tensor.__dict__.update(self.attributes)
        if self.grad is not None:
            self.grad.put_back()


class Captured:
    """A program that was captured: its graph, where its inputs are, and what its results and effects are.

    `sizes` is None, or a `sizes.Scope` for a program of many sizes, or a `sizes.Log`, for which the rest is not needed.
    """

    def __init__(self, function, args, kwargs, grad_mode, sizes=None):
        self.recorder, self.loaded, self.sizes = Recorder(sizes), dict.__len__(registry.ops), sizes
        self.function, self.grad_mode = function, grad_mode
        self.containers = Given((args, kwargs))
        others = [a for a in nest.leaves((args, kwargs)) if not isinstance(a, Tensor)]
        self.world = World([function, *others, *self.containers.with_attributes], places_of(function))
        self.arguments = _distinct(leaf for leaf in nest.leaves((args, kwargs)) if isinstance(leaf, Tensor))
        known, held = ({id(t) for t in tensors} for tensors in (self.arguments, self.world.tensors))
        self.twins = [t if id(t) in held else None for t in self.arguments]  # which the program may tell from others
        held = [t for t in _distinct(self.world.tensors) if id(t) not in known and is_plain(t)]
        for tensor in self.arguments:
            if not is_plain(tensor):
                raise CaptureError(f"an argument is a {type(tensor).__name__} on {tensor.device}")
        self.sources = [Source(i, t) for i, t in enumerate(self.arguments)] + [Source(None, t) for t in held]
        for source in self.sources:
            if source.tensor.__dict__.get("_hooks") or source.tensor.__dict__.get("_post_accumulate_grad_hooks"):
                raise CaptureError("a tensor has hooks")
        with _backend() as place:
            self._run(place, args, kwargs)
        if type(sizes) is Log:
            sizes.forms = forms_of(self)
        else:
            self._finish()

    def _run(self, place, args, kwargs):
        recorder, states = self.recorder, [(g, g.get_state()) for g in self._generators()]
        draws, calls = Draws(self.world.drawing), Calls(self.world, recorder, _is_of_a_capture)
        modes, lending = (is_grad_enabled(), get_default_dtype(), rng(numpy), *self._seeded()), Lending()
        _here.recorder = recorder
        _at_work.append(recorder)
        try:
            for source in self.sources:
                source.swap(recorder, place, lending)
            with region(compiling=True), place, _Watch(recorder), printing_nothing(recorder):
                with watching_random(recorder.drawn.append), Steps(self, self.world.optimizers, recorder):
                    with calls:
                        outputs = self.function(*args, **kwargs)
                recorder.op = None
                if recorder.failure is not None:
                    raise recorder.failure
                now = is_grad_enabled(), get_default_dtype(), generators["cpu"].source, *self._seeded()
                if any(one is not other for one, other in zip(modes, now)):
                    raise recorder.refusal("the program sets a mode or a seed")
                known = [*modes, *[one.source for one in dict.values(generators)]]
                if not {id(one.source) for one in recorder.drawn} <= set(map(id, known)):
                    raise recorder.refusal("random numbers come from a generator that the program makes")
                self._differentiate(outputs)
                self._note_effects()
        except Exception as error:
            raise recorder.failure or error from None
        finally:
            _here.recorder = None
            _at_work.remove(recorder)
            lending.take_back()
            for source in self.sources:
                source.put_back()
            alone = threading.active_count() == 1
            for generator, state in states:
                if alone or any(one.source is generator.source for one in recorder.drawn):  # else another thread drew
                    generator.set_state(state)
            differs = [one.changed() for one in (self.world, self.containers) if not one.holds()]
            differs += ["options of an optimizer"] * self.world.changed_options()
            differs += calls.undo(differs)
            places = replaced(self.world) if len(differs) == 1 and self.containers.holds() else []
            drawn = draws.differ()
            if drawn and (alone or sys.exc_info()[0] is not None):
                draws.undo()
            self.world.restore()
            self.containers.restore()
        self.world.settle()
        if type(self.sizes) is Scope:
            self._compare()
        if differs:
            what = f"the program changes Python objects ({differs[0]})"
            error = ChangeError(f"{what}, which a captured program would not do again")
            error.places, error.uses = places, Uses(self.world) if places else None
            raise error
        if drawn:
            raise Drawn(draws)

    def _seeded(self) -> list:
        """Return where the numbers of generators that the program holds come from: that is new with each seed."""
        return [generator.source for generator in self.world.generators]

    def _compare(self):
        """Hold the program against those that were captured with one size each."""
        scope = self.sizes
        for size, log in scope.logs.items():
            if len(log.all) != scope.at or log.forms != forms_of(self, size):
                raise scope.refusal()

    def _generators(self):
        return [random_numbers.default_generator, *self.world.generators]

    def _differentiate(self, outputs):
        """Note results, and the walk backward from those that require a gradient."""
        recorder, by_id = self.recorder, {id(s.tensor): s for s in self.sources}
        self.structure, self.results, roots = results_of(self, outputs, by_id)
        self.ends = [len(recorder.steps)]
        self.wanted, self.gradients, self.root_grads, self.reach, self.spent = [], [], [], None, None
        for source in self.sources:  # before the walk, which is no part of the program
            source.final = getattr(source.tensor, "_grad", None)
        if not roots:
            return
        leaves = [s for s in self.sources if s.tensor._edge is LEAF]
        if not leaves:
            raise recorder.refusal("a result requires a gradient that leads to nothing the program was given")
        self.wanted = leaves
        ones = [self._gradient_of(r) for r in roots]
        try:
            grads = autograd.grad(roots, [s.tensor for s in leaves], ones, allow_unused=True)
        except Exception as error:
            if isinstance(error, CaptureError) or recorder.failure is not None:
                raise
            if dict.__len__(registry.ops) != self.loaded:  # formulas took ops that were not ready for a capture
                raise
            if len(roots) > 1 or self.sizes is not None:  # of some results there may be gradients, or for other sizes
                raise recorder.refusal(f"there is no walk backward from its results: {error}") from None
            self.spent = error  # who asks for gradients gets it
            del recorder.steps[self.ends[0] :]
            return
        self.root_grads = [g._raw.value for g in ones]
        led_to = [pair for pair in zip(leaves, grads) if pair[1] is not None]  # the others have no part in the results
        if led_to:
            self.wanted, grads = zip(*led_to)
        self.reach = reach(roots, [s.tensor for s in self.wanted])
        self.gradients = [None if g is None else g._raw.value for g in grads]
        self.ends.append(len(recorder.steps))

    def _gradient_of(self, root):
        """Return the tensor that stands for the gradient of a result, of its shape for all sizes."""
        self.recorder.given = (root._raw,)
        return make(self.recorder.array(numpy.ones_like(root._raw.example), "argument"), root._type.plain)

    def _note_effects(self):
        """Note which sources were written, and what became of gradients."""
        recorder = self.recorder
        touched = {value.buffer for step in self.recorder.steps for value in step.writes}
        read = {value.buffer for step in self.recorder.steps for value in step.reads()}
        self.touches_grads = False
        stepped = {id(p) for step in recorder.steps if step.kind == "python" for p in step.function.params}
        for source in self.sources:
            source.written, source.writes = source.value.buffer in touched, source.tensor._version
            if source.tensor._raw.value.key != source.value.key:
                raise recorder.refusal("a tensor that the program was given gets other memory or another shape")
            if source.tensor._edge is not (LEAF if source.leads else None):
                raise recorder.refusal("a tensor that the program was given requires a gradient from now on, or none")
            if source.place is not None and source.tensor.__dict__:
                raise recorder.refusal("a tensor that the program was given gets an attribute")
            initial = source.grad.tensor if source.grad is not None else None
            if source.final is initial and id(source.tensor) in stepped:  # the step leaves its own
                if initial is not None:
                    raise recorder.refusal("an optimizer's parameter gets a gradient back from before the call")
                self.touches_grads = True
            elif source.final is initial:
                source.final = "same"
                if initial is not None:
                    source.grad.written = source.grad.value.buffer in touched
                    self.touches_grads |= source.grad.written or source.grad.value.buffer in read
            else:
                source.final = None if source.final is None else source.final._raw.value
                self.touches_grads = True
        written = [s for s in self.sources if s.written]
        for source in written:
            if source.shared:
                raise self.recorder.refusal("a tensor that the program was given is a view, and is written")
            for other in self.sources:
                if other is not source and numpy.may_share_memory(source.state[0], other.state[0]):
                    raise self.recorder.refusal("two tensors share memory that is written")

    def _finish(self):
        recorder = self.recorder
        kept = own_memory(self.results)
        kept += [value for value in self.gradients if value is not None]
        kept += [s.final for s in self.sources if isinstance(s.final, Value)]
        for value in kept:
            value.buffer.kept = True
        self.graph = Graph(recorder.steps, recorder.buffers, self.ends, self.sizes)
        self.graph.simplify()
        calls = [step.function for step in self.graph.steps if step.kind == "python"]
        for call in calls:
            call.settle(self.graph.steps, self.sources if call is calls[-1] else ())
        used = {v.buffer for step in self.graph.steps for v in (*step.reads(), *step.values())}
        used |= {v.buffer for v in kept}
        self.used = used
        self.graph.buffers = [b for b in recorder.buffers if b in used]
        for buffer in recorder.buffers:
            buffer.holder = buffer.original = None
            if buffer.kind not in ("constant", "initial"):
                buffer.owner = None
        self.recorder = None
        if self.sizes is not None:
            self.sizes.close()
        for source in self.sources:
            source.state = None
            if source.place is not None:
                source.tensor = None


def capture(function, args, kwargs, grad_mode, sizes=lambda: None) -> Captured:
    """Return a captured program. What a capture loads is there from its beginning the second time.

    `sizes()` is what `Captured` takes. Who drew numbers while other threads ran, the second time tells.
    """
    first = None
    while True:
        loaded = dict.__len__(registry.ops)
        try:
            return Captured(function, args, kwargs, grad_mode, sizes())
        except Drawn as error:
            if first is not None or threading.active_count() == 1:
                (first or error).draws.undo()
                raise
            first = error
        except Exception:
            if dict.__len__(registry.ops) == loaded:
                raise


def _distinct(tensors) -> list:
    return list({id(t): t for t in tensors}.values())


def is_plain(tensor) -> bool:
    """Whether a tensor is of the CPU, and has nothing rare about it."""
    lay_out(tensor)
    ttype = tensor._type
    return ttype.device.type == "cpu" and ttype.plain is ttype and type(tensor._raw) is numpy.ndarray


def _is_of_a_capture(item) -> bool:
    """Whether something leads to a tensor that a capture has made."""
    if isinstance(item, PLAIN):
        return False
    try:
        return any(type(tensor._raw) is Array for tensor in World([item], whole=True).tensors)
    except CaptureError:
        return True
