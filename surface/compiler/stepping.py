"""Calls of `optimizer.step()` in programs that are captured: each is a step of the program, which calls it."""

from __future__ import annotations

import functools
import threading

from plugrad.compiler.graph import Step, Value
from plugrad.extend.blocks import Restoring
from plugrad.optim.optimizer import register_optimizer_step_pre_hook
from plugrad.tensor.tensor import make


class _OptimizerStep:
    """What a captured program does where it calls `optimizer.step()`: that, with the gradients it has there."""

    def __init__(self, step, params, grads):
        self.step, self.params, self.grads = step, params, grads

    def settle(self, steps, sources):
        """Find out which gradients are memory that nobody else has, and which are left to the tensors as they are."""
        fresh = [g is not None and g.is_whole and g.buffer.kind == "fresh" for g in self.grads]
        seen: set = set()
        self.own = [mine and not (g.buffer in seen or seen.add(g.buffer)) for g, mine in zip(self.grads, fresh)]
        index = next(i for i, step in enumerate(steps) if step.function is self)
        later = {value.buffer for step in steps[index + 1 :] for value in step.writes}
        by_id = {id(s.tensor): s for s in sources if s.place is None}
        for p, g in zip(self.params, self.grads):
            final = by_id[id(p)].final if id(p) in by_id else None
            if isinstance(final, Value) and g is not None and final.key == g.key and g.buffer not in later:
                by_id[id(p)].final = "left"

    def __call__(self, *grads):
        for p, g, own in zip(self.params, grads, self.own):
            p._grad = None if g is None else make(g if own else g.copy("K"), p._type.plain)
        self.step()


class _State(dict):
    """What a program finds in the place of an optimizer's state, which a step that is only noted does not change."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def refuse(self, *args, **kwargs):
        raise self.recorder.refusal("the program looks at the state of an optimizer")

    __getitem__ = __setitem__ = __delitem__ = __contains__ = __iter__ = __len__ = __eq__ = refuse
    get = keys = values = items = pop = setdefault = update = clear = copy = __bool__ = __reduce_ex__ = refuse
    __hash__ = None


class Steps(Restoring):
    """In its block `optimizer.step()` is noted as a step of the program, and not carried out."""

    def __init__(self, captured, optimizers, recorder):
        self.captured, self.optimizers, self.recorder = captured, optimizers, recorder
        self.thread = threading.get_ident()

    def begin(self):
        self.before = [(o, o.__dict__.get("step")) for o in self.optimizers]
        self.states = [(o, o.__dict__["state"]) for o in self.optimizers if "state" in o.__dict__]
        for optimizer, _ in self.states:
            optimizer.__dict__["state"] = _State(self.recorder)
        for optimizer, own in self.before:
            stand_in = functools.partial(self.note, optimizer, own)
            optimizer.__dict__["step"] = stand_in
            if optimizer.__dict__.get("_scheduled_step", self) is own:  # what schedules compare it with
                optimizer.__dict__["_scheduled_step"] = stand_in
        self.handle = register_optimizer_step_pre_hook(self.refuse)

    def end(self):
        self.handle.remove()
        for optimizer, state in self.states:
            optimizer.__dict__["state"] = state
        for optimizer, own in self.before:
            if optimizer.__dict__.get("_scheduled_step") is optimizer.__dict__["step"]:
                optimizer.__dict__["_scheduled_step"] = own
            if own is None:
                optimizer.__dict__.pop("step", None)
            else:
                optimizer.__dict__["step"] = own

    def refuse(self, optimizer, args, kwargs):
        if not self.is_here():
            return
        name = type(optimizer).__name__
        raise self.recorder.refusal(f"{name}.step() of an optimizer that is out of the program's reach")

    def is_here(self) -> bool:
        """Whether this is the thread of the capture: others make steps as ever."""
        return threading.get_ident() == self.thread

    def note(self, optimizer, own, closure=None):
        if not self.is_here():
            return (own or functools.partial(type(optimizer).step, optimizer))(closure)
        recorder = self.recorder
        if closure is not None:
            raise recorder.refusal("optimizer.step() is called with a closure")
        by_id = {id(s.tensor): s for s in self.captured.sources}
        params = list(dict.fromkeys(p for group in optimizer.param_groups for p in group["params"]))
        if any(id(p) not in by_id or by_id[id(p)].place is not None for p in params):
            raise recorder.refusal("an optimizer has a parameter that is an argument, or none that the program reaches")
        grads = []
        for p in params:
            source, grad = by_id[id(p)], p.grad
            if source.grad is not None and grad is source.grad.tensor:
                raise recorder.refusal("an optimizer uses gradients from before the call: call zero_grad() first")
            grads.append(None if grad is None else grad._raw.value)
        step = own or functools.partial(type(optimizer).step, optimizer)
        function = _OptimizerStep(step, params, grads)
        recorder.note(Step("python", "optimizer.step", function, tuple(grads), {}, (), (), "python"))
