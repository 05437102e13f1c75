"""Steps that a CUDA graph can hold: with `capturable=True` the number of steps is kept, and counted on, on the device.

Then `advance` computes with arrays that have an element for each parameter of a group, in double precision, and
`update` gets a parameter's own elements, arrays without dimensions, where otherwise there are numbers.
"""

from __future__ import annotations

from plugrad import Tensor
from plugrad.extend import from_raw
from plugrad.optim import batching


def check_capture(optimizer) -> None:
    """Raise RuntimeError for a step that does not become right by being launched again."""
    for group in optimizer.param_groups:
        slots = optimizer.slots(_options(group))
        counts = any([not callable(initial) for initial in slots.values()])
        if counts and not group.get("capturable"):
            raise _not_capturable(optimizer)
        if counts and getattr(optimizer, "_looks_at_values", False):
            raise NotImplementedError(
                f"a CUDA graph can't hold a step of {type(optimizer).__name__}, which looks at values"
            )
        for p in group["params"]:
            if p.grad is not None and not slots.keys() <= optimizer.state.get(p, {}).keys():
                raise _first_step(optimizer)


def check_state(optimizer, params) -> None:
    """Raise RuntimeError where parameters have no state yet, or count steps in it on the CPU."""
    for p in params:
        state = optimizer.state.get(p)
        if not state:
            raise _first_step(optimizer)
        if any([not isinstance(value, Tensor) or value.device != p.device for value in state.values()]):
            raise _not_capturable(optimizer)


def _not_capturable(optimizer):
    return RuntimeError(
        f"Attempting CUDA graph capture of step() for an instance of {type(optimizer).__name__} but param_groups' "
        "capturable is False."
    )


def _first_step(optimizer):
    return RuntimeError(
        f"a CUDA graph can't hold the first step of {type(optimizer).__name__} for a parameter, which makes its state: "
        "take one before the capture"
    )


def _options(group) -> dict:
    """Return the options of a group: tensors as numbers or, on a device, as arrays."""

    def plain(option):
        if isinstance(option, tuple):
            return tuple(map(plain, option))
        if not isinstance(option, Tensor):
            return option
        return option.item() if option.device.type == "cpu" else option.detach()._raw.reshape(())

    return {name: value if name == "params" else plain(value) for name, value in group.items()}


def prepared_on_device(optimizer, group, new) -> list | None:
    """Return the rounds of updates of a group, None for one whose steps are counted on the CPU."""
    options = _options(group)
    slots = optimizer.slots(options)
    params = [p for p in dict.fromkeys(group["params"]) if p.grad is not None]
    if getattr(optimizer, "_looks_at_values", False) or all(map(callable, slots.values())) or not params:
        return None
    jobs, counters = [], []
    for p in params:
        if p.grad.is_sparse:
            batching.check_sparse(optimizer)
        state, arrays, row = optimizer.state[p], [p._raw], []
        for name, initial in slots.items():
            value = state.get(name)
            if value is None:
                new.append((p, name))
            if callable(initial):
                value = value if isinstance(value, Tensor) else optimizer._make_slot(p, initial)
                arrays.append(value._raw)
            else:
                value = _counter(p, initial if value is None else value)
                row.append(value._raw)
            state[name] = value
        jobs.append((p, p.grad._raw, arrays))
        counters.append(row)
    return [_OnDevice(optimizer, options, slots, jobs, counters)]


def _counter(p, value):
    """Return a scalar of the state as a tensor on the device of a parameter."""
    if isinstance(value, Tensor) and value.device == p.device:
        return value
    number = value.item() if isinstance(value, Tensor) else value
    return from_raw(p._type.xp.full((), number, "float32"))


class _OnDevice(batching._Round):
    """The parameters of a group whose counters are on the device."""

    def __init__(self, optimizer, options, slots, jobs, counters):
        self.optimizer, self.options, self.jobs = optimizer, options, jobs
        self.names = [name for name, initial in slots.items() if callable(initial)]
        self.scalars = [name for name, initial in slots.items() if not callable(initial)]
        self.on(jobs[0][0]._type.backend)
        self.counters = [self._joined(index, column) for index, column in enumerate(zip(*counters))]

    def params(self):
        return [p for p, _, _ in self.jobs]

    def _joined(self, index, counters):
        """Return one array of which the counters of all parameters are elements, or become so."""
        cache, key = self.optimizer._joined, (self.scalars[index], id(self.jobs[0][0]))
        whole, parts = cache.get(key, (None, ()))
        if len(parts) != len(counters) or any([one is not other for one, other in zip(parts, counters)]):
            whole = self.xp.stack(counters)
            parts = [whole[place] for place in range(len(counters))]
            for (p, _, _), part in zip(self.jobs, parts):
                self.optimizer.state[p][self.scalars[index]] = from_raw(part)
            cache[key] = whole, parts
        return whole

    def take(self):
        for p, _, _ in self.jobs:
            batching.touch(p)
        state = {name: whole.astype("float64") for name, whole in zip(self.scalars, self.counters)}
        self.optimizer.advance(state, self.options)
        self.begun = True
        for name, whole in zip(self.scalars, self.counters):
            whole[...] = state[name]
        places = range(len(self.jobs))
        if self.optimizer.elementwise and self.takes_lists:
            places = self._together(state)
            self.done = len(self.jobs) - len(places)
        for place in places:
            self._one(state, place)
            self.done += 1

    def _together(self, state):
        """Update parameters by a call of a kernel that takes lists; return the places of what it did not serve."""
        _, gradients, arrays = zip(*self.jobs)
        listed = {name: list(one) for name, one in state.items() if hasattr(one, "dtype")}
        self.state = {**state, **listed, "fresh": False}
        left = self.updated(self.kernel, list(gradients), list(map(list, zip(*arrays))))
        return range(len(self.jobs)) if left is NotImplemented else left

    def _one(self, state, place):
        self.state = {name: value[place] if hasattr(value, "dtype") else value for name, value in state.items()}
        self.state["fresh"] = False
        job = self.jobs[place]
        self.alone(job) if self.optimizer.elementwise else self.update(job[1], job[2])
