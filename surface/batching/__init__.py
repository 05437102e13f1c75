"""How `Optimizer.update` is run over the parameters of a group.

An elementwise update makes a dozen passes over its arrays. So a large parameter is worked through in blocks
that stay in the processor's cache, and small ones are joined: their state lies side by side in one flat
array, and their values and gradients are copied to another, which is cheaper than a round of calls for each.
"""

from __future__ import annotations

from itertools import chain
from operator import attrgetter, is_, itemgetter, methodcaller

import numpy

import plugrad
from plugrad import Tensor
from plugrad.backends import following
from plugrad.extend import from_raw
from plugrad.graph.modes import watched
from plugrad.graph.versions import touch
from plugrad.registry.namespaces import lazy_names

BLOCK = 1 << 17  # elements updated at once; more would fall out of the cache between two passes
SMALL = 1 << 13  # up to here, copying a parameter is cheaper than a round of calls of its own
_raw_of, _type_of, _grad_of = map(attrgetter, ("_raw", "_type", "_grad"))
_PLAIN = frozenset({Tensor, plugrad.nn.Parameter})
captures: set = set()  # what captures work at the moment: an object of a backend, whose `here()` is true in that thread
# What few steps need is imported for them.
_later, _ = lazy_names(globals(), None, {
    "optim.batching.on_device": "check_capture check_state prepared_on_device", "subclasses": "WrapperArray",
})  # fmt: skip
__getattr__ = _later


def stepper(optimizer):
    """Return the function that takes a step of an optimizer, with all groups."""
    return plugrad.optim.differentiable.step if optimizer.defaults.get("differentiable") else step


def step(optimizer):
    """Update the parameters of all groups that have gradients.

    All that needs memory is made first, for all groups; then comes what writes. An error before that changes nothing,
    and what was made for parameters whose turn did not come is forgotten: their first step is still to come. An error
    in an update itself may leave a step half taken, which a note to the error says.
    """
    rounds, new, scratch = [], [], optimizer._scratch
    if captures and capturing(optimizer):
        _later("check_capture")(optimizer)
        optimizer._scratch = {}  # its own, since steps later may exchange what they work in for something larger
    try:
        for group in optimizer.param_groups:
            if following.started():
                rounds += following.prepared(prepared, optimizer, group, new)
            else:
                rounds += prepared(optimizer, group, new)
        for one in rounds:
            one.take()
    except BaseException as error:
        begun = any([one.begun for one in rounds])
        written = {id(p) for one in rounds if one.begun for p in one.params()}
        for p, name in new:
            if id(p) not in written:
                optimizer.state[p].pop(name, None)
        for p in [p for p, own in optimizer.state.items() if not own]:
            del optimizer.state[p]
        if begun:
            done = sum([one.done for one in rounds])
            error.add_note(
                f"This step of {type(optimizer).__name__} was broken off: {done} of "
                f"{sum([len(one.params()) for one in rounds])} parameters were updated, others may be in part. "
                "Load a checkpoint before you go on."
            )
        raise
    finally:
        optimizer._scratch = scratch


def capturing(optimizer) -> bool:
    """Whether the step of an optimizer becomes a part of a CUDA graph."""
    on_device = any([p.is_cuda for p in optimizer.param_groups[0]["params"][:1]])
    return on_device and any([one.here() for one in tuple(captures)])


def prepared(optimizer, group, new) -> list:
    """Return the rounds of updates of a group; `new` is told of state that is made for them: (parameter, name)."""
    if "dispatching classes" in watched:
        wrappers = [p for p in group["params"] if isinstance(p._raw, _later("WrapperArray"))]
        if wrappers:
            rest = [p for p in group["params"] if not isinstance(p._raw, _later("WrapperArray"))]
            turn = plugrad.optim.differentiable.OnTensors(optimizer, group | {"params": [*dict.fromkeys(wrappers)]})
            return [*prepared(optimizer, group | {"params": rest}, new), turn]
    if group.get("capturable"):
        check_capturable(group)
        rounds = _later("prepared_on_device")(optimizer, group, new)
        if rounds is not None:
            return rounds
    options = optimizer._plain(group)
    slots = slots_of(optimizer, options)
    names, scalars = [], []
    for name, initial in slots.items():
        (names if callable(initial) else scalars).append(name)
    params, states = dict.fromkeys(group["params"]), optimizer.state
    batch = alike([*params], states, names, scalars)
    if batch is not None:
        return [_Run(optimizer, options, names, scalars, *batch)]
    batches, batch, last = {}, None, None  # parameters that agree in dtype, device and the scalars of their state
    for p in params:
        grad = p.grad
        if grad is None:
            continue
        is_sparse = grad.is_sparse
        if is_sparse:
            check_sparse(optimizer)
        arrays, counters, key, fresh = [p._raw], [], [is_sparse, p._type], False
        if slots:
            state = states[p]
            for name, initial in slots.items():
                value = state.get(name)
                if not isinstance(value, Tensor):
                    if value is None:
                        fresh = True
                        new.append((p, name))
                    value = state[name] = optimizer._make_slot(p, initial, value)
                if callable(initial):
                    arrays.append(value._raw)
                else:
                    counters.append(value._raw)
                    key.append(value._raw.item())
        key.append(fresh)
        if key != last:
            batch, last = batches.setdefault(tuple(key), ([], [], [], [])), key
        for column, one in zip(batch, (p, grad._raw, arrays, counters)):
            column.append(one)
    return [
        _Run(optimizer, options, names, scalars, key, given, grads, [*map(list, zip(*rows))], [*zip(*counted)])
        for key, (given, grads, rows, counted) in batches.items()
    ]


def alike(params, states, names, scalars):
    """Return the only batch of parameters that agree in all; None where they may not, or where state is missing.

    As a rule they do: no loop of Python goes over them.
    """
    try:
        grads = [*map(_grad_of, params)]
        types, classes = {*map(_type_of, params), *map(_type_of, grads)}, {*map(type, params), *map(type, grads)}
        if len(types) != 1 or not classes <= _PLAIN:
            return None
        arrays, counters, values = [[*map(_raw_of, params)]], [], []
        held = [*map(states.get, params)] if names or scalars else ()
        for name in names:
            arrays.append([*map(_raw_of, map(itemgetter(name), held))])
        for name in scalars:
            counters.append([*map(_raw_of, map(itemgetter(name), held))])
            (value,) = {*map(methodcaller("item"), counters[-1])}
            values.append(value)
    except (AttributeError, KeyError, TypeError, ValueError):  # no gradient, no state yet, or different numbers
        return None
    return (False, *types, *values, False), params, [*map(_raw_of, grads)], arrays, counters


def slots_of(optimizer, options) -> dict:
    """Return what state a parameter has; TypeError unless that is a dict of numbers, and functions that make arrays."""
    slots = optimizer.slots(options)
    known = isinstance(slots, dict)
    if known and (not slots or all([callable(one) or isinstance(one, (int, float)) for one in slots.values()])):
        return slots
    raise TypeError(
        f"{type(optimizer).__name__}.slots() returned {slots!r}: it must return a dict from names to numbers, for a "
        "scalar, or functions such as self.zeros, for an array"
    )


def no_result(optimizer, given) -> TypeError:
    """Return the error for an `update` that returned what it should have written."""
    return TypeError(
        f"{type(optimizer).__name__}.update() returned a {type(given).__name__}, which nobody uses: it must write the "
        "new values into p, as in p -= group['lr'] * g, and return nothing"
    )


def check_capturable(group) -> None:
    """Raise AssertionError for a parameter with a gradient on a device whose work cannot be captured in a graph.

    A fused step is not asked, as in PyTorch.
    """
    if group.get("fused"):
        return
    for p in group["params"]:
        if p.grad is not None and p.device.type in ("cpu", "meta"):
            raise AssertionError(
                "If capturable=True, params and state_steps must be on supported devices, such as 'cuda', but a "
                f"parameter is on {p.device.type!r}; leave capturable out"
            )


def check_sparse(optimizer) -> None:
    """Raise RuntimeError if an optimizer does not take sparse gradients."""
    if not hasattr(optimizer, "update_rows"):
        raise RuntimeError(
            f"{type(optimizer).__name__} does not support sparse gradients, please consider SparseAdam instead, or "
            "SGD or Adagrad"
        )


def flattened(arrays):
    """Return flat views of arrays that lie in memory in one and the same order, whichever; else None."""
    if not arrays[0].flags.c_contiguous:
        strides = arrays[0].strides
        order = sorted(range(len(strides)), key=lambda dim: -strides[dim])
        arrays = [a.transpose(order) for a in arrays]
    return [a.reshape(-1) for a in arrays] if all([a.flags.c_contiguous for a in arrays]) else None


class _Round:
    """Updates of parameters that go together. `begun`: it may have written; `done`: how many are finished."""

    begun, done, names, kernel = False, 0, (), None

    def on(self, backend):
        """Take the kernel that the optimizer has on a backend for its `update`, if any."""
        form, kernel = self.optimizer.kernels.get(backend.name, (None, None))
        self.xp, self.kernel = backend.xp, kernel if form is type(self.optimizer).update else None

    def update(self, g, arrays):
        if self.kernel is None or self.updated(self.kernel, g, arrays) is NotImplemented:
            given = self.updated(self.optimizer.update, g, arrays)
            if given is not None and given is not arrays[0]:
                raise no_result(self.optimizer, given)
            self.keep(arrays)

    def keep(self, arrays):
        """Take over state that an update bound to new arrays, instead of writing into those that it was given."""
        for name, array in zip(self.names, arrays[1:]):
            if self.state[name] is not array:
                array[...] = self.state[name]

    def updated(self, function, g, arrays):
        xp, options, state = self.xp, self.options, self.state
        if options.get("maximize") and not getattr(function, "signed", False):
            g = xp.negative(g, self.optimizer.scratch(xp, g, "negated"))
        if len(arrays) > 1:
            state.update(zip(self.names, arrays[1:], strict=True))
        return function(xp, arrays[0], g, state, options)

    @property
    def takes_lists(self):
        """Whether one call of the kernel updates several parameters."""
        kernel = self.kernel
        return getattr(kernel, "lists", False) and (kernel.signed or not self.options.get("maximize"))

    def sparse(self, job):
        """Update a parameter whose gradient is sparse."""
        p, g, arrays = job
        sign = -1 if self.options.get("maximize") else 1
        g = g.coalesced()
        self.state.update(zip(self.names, arrays[1:], strict=True))
        self.optimizer.update_rows(p._type.xp, arrays[0], tuple(g.indices), sign * g.values, self.state, self.options)
        self.keep(arrays)

    def flat(self, g, arrays):
        """Update flat arrays, on NumPy block by block."""
        size = g.size
        if size <= BLOCK or self.xp is not numpy:
            return self.update(g, arrays)
        if self.kernel is not None and self.updated(self.kernel, g, arrays) is not NotImplemented:
            return
        block = -(-size // -(-size // BLOCK))  # blocks of equal size, so that none is a short remainder
        for start in range(0, size, block):
            part = slice(start, start + block)
            self.update(g[part], [a[part] for a in arrays])

    def alone(self, job):
        _, g, arrays = job
        if g.dtype.kind == "c":  # an elementwise update takes the parts of complex numbers as real ones
            g, *arrays = [a[..., None].view(a.real.dtype) for a in (g, *arrays)]
        flats = flattened([g, *arrays])
        if flats is None:  # there are no flat views: update in the shapes that the arrays have
            self.update(g, arrays)
        else:
            self.flat(flats[0], flats[1:])


class _Run(_Round):
    """Parameters that agree in kind and in the scalars of their state.

    `arrays` are those of all parameters, then each kind of their state, raw; a job is a parameter, its gradient and its
    own of these. `units` holds functions, no bound methods: in a cycle of references the gradients would outlive
    `zero_grad`, and those that follow need new memory.
    """

    def __init__(self, optimizer, options, names, scalars, key, given, gradients, arrays, counters):
        is_sparse, ttype, *values, fresh = key
        self.optimizer, self.options, self.names, self.scalars = optimizer, options, names, scalars
        self.given, self.gradients, self.arrays, self.counters = given, gradients, arrays, counters
        self.state = dict(zip(scalars, values))
        self.state["fresh"] = fresh
        self.on(ttype.backend)
        if optimizer.elementwise and not is_sparse and self.takes_lists and gradients[0].dtype.kind != "c":
            self.units = [(_Run.listed, len(given), None)]
            return
        jobs = self.jobs()
        if is_sparse or not optimizer.elementwise:
            update = _Run.sparse if is_sparse else _Run.whole
        elif len(jobs) > 1 and gradients[0].dtype.kind != "c":
            self.units = self.together(jobs)
            return
        else:
            update = _Run.alone
        self.units = [(update, 1, job) for job in jobs]

    def params(self):
        return self.given

    def jobs(self) -> list:
        return [*zip(self.given, self.gradients, map(list, zip(*self.arrays)))]

    def take(self):
        self.optimizer.advance(self.state, self.options)
        self.begun = True
        values = [self.state[name] for name in self.scalars] if self.scalars else ()
        touch(*self.given)  # first: a step that is broken off has written
        for update, size, unit in self.units:
            update(self, unit)
            self.done += size
        if values:
            self.count(values)

    def count(self, values) -> None:
        """Write the scalars to the state of all parameters."""
        moved = [name for name, value in zip(self.scalars, values) if self.state[name] is not value]
        if moved:
            raise RuntimeError(
                f"{type(self.optimizer).__name__}.update() assigned state[{moved[0]!r}], which several parameters "
                "share: what moves scalars on is advance(state, group)"
            )
        for counters, value in zip(self.counters, values):
            for counter in counters:
                counter.fill(value)

    def listed(self, _):
        """Update parameters by a call of a kernel that takes lists, and what it does not serve in another way."""
        left = self.updated(self.kernel, self.gradients, self.arrays)
        if left is NotImplemented:
            for update, _, unit in self.together(self.jobs()):
                update(self, unit)
        elif left:
            jobs = self.jobs()
            for place in left:
                self.alone(jobs[place])

    def whole(self, job):
        self.update(job[1], job[2])

    def together(self, jobs) -> list:
        """Return (function, number of parameters, what it takes) of updates: small parameters are joined.

        Not in a graph, where calls cost nothing, and what they are joined in would be made anew at each launch.
        """
        limit = SMALL if self.xp is numpy else -1 if capturing(self.optimizer) else BLOCK
        units, small, total = [], [], 0
        for job in jobs:
            size = job[1].size
            if size > limit:
                units.append((_Run.alone, 1, job))
                continue
            if total + size > BLOCK:
                units.append(self.join(small))
                small, total = [], 0
            small.append(job)
            total += size
        if small:
            units.append(self.join(small))
        return units

    def join(self, jobs) -> tuple:
        if len(jobs) == 1:
            return _Run.alone, 1, jobs[0]
        cache, place = self.optimizer._joined, id(jobs[0][0])
        joined = cache.get(place)
        if joined is None or not joined.fits(jobs):
            joined = _Joined(self, jobs)
            cache[place] = joined
        return _Run.joined, len(jobs), (joined, jobs)

    def joined(self, unit):
        joined, jobs = unit
        concatenate = self.xp.concatenate
        concatenate([a.reshape(-1) for a in joined.params] if joined.strided else joined.views, out=joined.flats[0])
        concatenate([g if g.ndim == 1 else g.reshape(-1) for _, g, _ in jobs], out=joined.gradient)
        self.flat(joined.gradient, joined.flats)
        for data, part in joined.pairs:
            data[...] = part


class _Joined:
    """Several parameters as one: flat arrays for gradients, values and each kind of state.

    The state of the parameters becomes views of the flat arrays. `arrays` remembers for which arrays all this
    was made, since any of them may be exchanged between two steps.
    """

    __slots__ = ("arrays", "flats", "gradient", "pairs", "params", "strided", "views")

    def __init__(self, run, jobs):
        xp, state = run.xp, run.optimizer.state
        params = self.params = [arrays[0] for _, _, arrays in jobs]
        self.strided = not all([data.flags.c_contiguous for data in params])
        self.views = [data.reshape(-1) for data in params]
        size = sum([data.size for data in params])
        self.gradient = xp.empty(size, params[0].dtype)
        self.flats = [xp.empty(size, a.dtype) for a in jobs[0][2]]
        self.arrays, self.pairs, start = [], [], 0
        for p, _, (data, *own) in jobs:
            end = start + data.size
            self.pairs.append((data, self.flats[0][start:end].reshape(data.shape)))
            self.arrays.append(data)
            for name, old, flat in zip(run.names, own, self.flats[1:], strict=True):
                part = flat[start:end].reshape(data.shape)
                part[...] = old
                state[p][name] = from_raw(part)
                self.arrays.append(part)
            start = end

    def fits(self, jobs):
        arrays = self.arrays
        if len(arrays) != len(jobs) * len(jobs[0][2]):
            return False
        return all(map(is_, arrays, chain.from_iterable([arrays for _, _, arrays in jobs])))
