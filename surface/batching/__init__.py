"""How `Optimizer.update` is run over the parameters of a group.

An elementwise update makes a dozen passes over its arrays. So a large parameter is worked through in blocks
that stay in the processor's cache, and small ones are joined: their state lies side by side in one flat
array, and their values and gradients are copied to another, which is cheaper than a round of calls for each.
"""

from __future__ import annotations

from itertools import chain
from operator import is_

import numpy

import plugrad
from plugrad import Tensor
from plugrad.extend import from_raw
from plugrad.graph.versions import touch

BLOCK = 1 << 17  # elements updated at once; more would fall out of the cache between two passes
FEW = 6  # parameters without state, up to here, are not joined
SMALL = 1 << 13  # up to here, copying a parameter is cheaper than a round of calls of its own


def stepper(optimizer):
    """Return the function that updates a group of an optimizer."""
    return plugrad.optim.differentiable.step_group if optimizer.defaults.get("differentiable") else step_group


def step_group(optimizer, group):
    """Update the parameters of one group that have gradients."""
    options = optimizer._plain(group)
    if options.get("capturable"):
        check_capturable(group)
    slots = [(name, initial, callable(initial)) for name, initial in optimizer.slots(options).items()]
    if not slots and len(group["params"]) <= FEW and not optimizer._complex:
        return step_few(optimizer, dict.fromkeys(group["params"]), options)
    states = optimizer.state
    batches = {}  # parameters that agree in dtype, device and the scalars of their state
    for p in dict.fromkeys(group["params"]):
        grad = p.grad
        if grad is None:
            continue
        if grad.is_sparse:
            check_sparse(optimizer)
        data = p._data
        arrays, counters, fresh = [data], [], False
        key = [grad.is_sparse, p._type]
        if slots:
            state = states[p]
            for name, initial, is_array in slots:
                value = state.get(name)
                if not isinstance(value, Tensor):
                    fresh = fresh or value is None
                    value = state[name] = optimizer._make_slot(p, initial, value)
                if is_array:
                    arrays.append(value._data)
                else:
                    counters.append(value._data)
                    key.append(value._data.item())
        key.append(fresh)
        batch = batches.setdefault(tuple(key), ([], []))
        batch[0].append((p, grad._data, arrays))
        batch[1].append(counters)
    scalars = [name for name, _, is_array in slots if not is_array]
    names = [name for name, _, is_array in slots if is_array]
    for (is_sparse, _, *values, fresh), (jobs, counters) in batches.items():
        state = dict(zip(scalars, values, strict=True))
        state["fresh"] = fresh
        optimizer.advance(state, options)
        for index, name in enumerate(scalars):
            value = state[name]
            for row in counters:
                row[index].fill(value)
        run = _Run(optimizer, names, state, options)
        (run.sparse if is_sparse else run.run)(jobs)


def step_few(optimizer, params, options):
    """Update a few parameters without state, one after the other: less work than finding out which belong together."""
    state = {"fresh": False}
    optimizer.advance(state, options)
    run = _Run(optimizer, (), state, options)
    for p in params:
        grad = p.grad
        if grad is not None:
            touch(p)
            data = p._data
            run.xp = p._type.xp
            if grad.is_sparse:
                check_sparse(optimizer)
                run.sparse([(p, grad._data, (data,))])
            elif data.size <= BLOCK or not optimizer.elementwise:
                run.update(grad._data, (data,))
            else:
                run.alone((p, grad._data, (data,)))


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


class _Run:
    """One round of updates; a job is a parameter, its gradient and `[values, *state]`, raw arrays."""

    __slots__ = ("names", "optimizer", "options", "state", "xp")

    def __init__(self, optimizer, names, state, options):
        self.optimizer, self.names, self.state, self.options = optimizer, names, state, options

    def run(self, jobs):
        self.xp = jobs[0][0]._type.xp
        for job in jobs:  # first: a step that is broken off has written
            touch(job[0])
        if not self.optimizer.elementwise:
            for _, g, arrays in jobs:
                self.update(g, arrays)
        elif len(jobs) == 1:
            self.alone(jobs[0])
        elif jobs[0][1].dtype.kind == "c":
            for job in jobs:
                self.alone(job)
        else:
            self.together(jobs)

    def update(self, g, arrays):
        xp, optimizer, options, state = self.xp, self.optimizer, self.options, self.state
        if options.get("maximize"):
            g = xp.negative(g, optimizer.scratch(xp, g, "negated"))
        if len(arrays) > 1:
            state.update(zip(self.names, arrays[1:], strict=True))
        optimizer.update(xp, arrays[0], g, state, options)

    def sparse(self, jobs):
        """Update parameters whose gradients are sparse."""
        sign = -1 if self.options.get("maximize") else 1
        for p, g, arrays in jobs:
            touch(p)
            g = g.coalesced()
            self.state.update(zip(self.names, arrays[1:], strict=True))
            self.optimizer.update_rows(
                p._type.xp, arrays[0], tuple(g.indices), sign * g.values, self.state, self.options
            )

    def flat(self, g, arrays):
        """Update flat arrays, on NumPy block by block."""
        size = g.size
        if size <= BLOCK or self.xp is not numpy:
            return self.update(g, arrays)
        block = -(-size // -(-size // BLOCK))  # blocks of equal size, so that none is a short remainder
        for start in range(0, size, block):
            part = slice(start, start + block)
            self.update(g[part], [a[part] for a in arrays])

    def alone(self, job):
        _, g, arrays = job
        if g.dtype.kind == "c":  # an elementwise update takes the parts of complex numbers as real ones
            g, *arrays = [a[..., None].view(a.real.dtype) for a in (g, *arrays)]
        flats = []
        for a in arrays:
            if not a.flags.c_contiguous:  # there is no flat view: update in the shapes that the arrays have
                return self.update(g, arrays)
            flats.append(a.reshape(-1))
        self.flat(g.reshape(-1), flats)

    def together(self, jobs):
        limit = SMALL if self.xp is numpy else BLOCK
        small, total = [], 0
        for job in jobs:
            size = job[1].size
            if size > limit:
                self.alone(job)
                continue
            if total + size > BLOCK:
                self.joined(small)
                small, total = [], 0
            small.append(job)
            total += size
        if len(small) == 1:
            self.alone(small[0])
        elif small:
            self.joined(small)

    def joined(self, jobs):
        cache, place = self.optimizer._joined, id(jobs[0][0])
        joined = cache.get(place)
        if joined is None or not joined.fits(jobs):
            joined = cache[place] = _Joined(self, jobs)
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
