"""In which order steps need least memory, and what is computed again instead of being kept.

Of two neighbours that may change places that one is first which leaves more memory to the other. A buffer that is live
where most memory is, and is used again long after, needs no memory in between if one loop makes it again from what is
there anyway. That is worth it where the time goes into products of matrices.
"""

from __future__ import annotations

import math

from plugrad.compiler.graph import Buffer, Step, Value, changed, plainly
from plugrad.plugins.compilers._native_forms import elements

SMALL = 1 << 16  # bytes
COST = 9  # of an element, at most
RATE, SHARE = 8, 0.1  # multiplications in the time of an element of cost 1; how much of all their time may be added
PRODUCTS = frozenset("matmul dot mm bmm linear product product_2d product_batch".split())
PASSES = 8
GAIN = 0.97  # of the memory there was, at most, or nothing is done


def lighten(graph) -> set:
    """Order a graph's steps, and put steps into it that compute again what would have to be kept; return these."""
    graph.steps = [step for part in graph.parts for step in _ordered(graph, part)]
    steps, parts = graph.steps, graph.parts
    budget = SHARE * sum(map(_multiplications, steps)) / RATE
    copies: set = set()
    first_peak, number = None, 1 + max((buffer.index for buffer in graph.buffers), default=0)
    while True:
        spans = {b: span for b, span in graph.uses().items() if b.kind in ("temporary", "fresh")}
        peak, size = _peak(spans, graph.steps)
        first_peak = size if first_peak is None else first_peak
        best = _best(graph, spans, peak, budget)
        if best is None:
            break
        cost, buffer, again = best
        budget -= cost
        step = _insert(graph, buffer, again, number)
        copies.update([step, *(step.inner or ())])
        number += 1
    if size > GAIN * first_peak:
        graph.steps, graph.parts = steps, parts
    return copies


def _ordered(graph, part) -> list:
    """Return the steps of a part in an order that needs less memory."""
    spans = {b: list(span) for b, span in graph.uses().items() if b.kind in ("temporary", "fresh") and not b.kept}
    steps = graph.steps[part.start : part.stop]
    users = [_users(step) for step in steps]
    for _ in range(PASSES):
        moved = False
        for at in range(len(steps) - 1):
            one, other = users[at], users[at + 1]
            if one is None or other is None or one[1] & (other[0] | other[1]) or one[0] & other[1]:
                continue
            here, there = ((uses[0] | uses[1]) & spans.keys() for uses in (one, other))
            index = part.start + at
            new = [sum(_size(b) for b in used if spans[b][0] == index + n) for n, used in enumerate((here, there))]
            left = sum(_size(b) for b in here - there if spans[b][1] == index)
            left_by_other = sum(_size(b) for b in there - here if spans[b][1] == index + 1)
            if max(new[1], new[1] - left_by_other + new[0]) >= max(new[0], new[0] - left + new[1]):
                continue
            for buffer in here ^ there:  # what both use begins and ends with the pair
                to = index + (buffer in here)
                spans[buffer] = [to if end in (index, index + 1) else end for end in spans[buffer]]
            steps[at], steps[at + 1], users[at], users[at + 1] = steps[at + 1], steps[at], other, one
            moved = True
        if not moved:
            break
    return steps


def _size(buffer) -> int:
    """Return how much memory a buffer takes; of sizes that vary counts the one at hand."""
    return plainly(buffer.nbytes)


def _users(step):
    """Return the buffers that a step reads and those that it writes; None for what must stay where it is."""
    if step.kind == "python" or step.effect:
        return None
    return {value.buffer for value in step.reads()}, {value.buffer for value in step.values()}


def _multiplications(step) -> int:
    """Return how many there are in a product of matrices."""
    inner = step.inner[-1] if step.inner else step
    if inner.name not in PRODUCTS or not inner.args or not isinstance(inner.args[0], Value):
        return 0
    targets = [value for value in step.values() if value is not None]
    return math.prod(plainly((*targets[0].shape, inner.args[0].shape[-1]))) if targets and inner.args[0].shape else 0


def _peak(spans, steps) -> tuple:
    """Return (the step at which most memory is live, how much)."""
    changes, ends = [0] * (len(steps) + 2), {}
    for buffer, (first, last) in spans.items():
        changes[first] += _size(buffer)
        changes[min(last, len(steps)) + 1] -= _size(buffer)
        ends.setdefault(last, set()).add(_size(buffer))
    live = most = at = 0
    for index, change in enumerate(changes[:-1]):
        live += change
        shared = 0
        if index in ends and index < len(steps) and _cost(steps[index]) is not None:
            size = _size(steps[index].values()[0].buffer)  # a loop may write to the memory of what it reads last
            shared = size if size in ends[index] else 0
        if live - shared > most:
            most, at = live - shared, index
    return at, most


def _best(graph, spans, peak, budget):
    """Return (cost, buffer, the step before which it is made again) of the largest buffer that may be, or None."""
    uses: dict = {}
    writers: dict = {}
    for index, step in enumerate(graph.steps):
        for value in step.reads():
            uses.setdefault(value.buffer, []).append(index)
        for value in step.values():
            uses.setdefault(value.buffer, []).append(index)
            writers.setdefault(value.buffer, set()).add(index)
        if step.kind == "python":
            writers.setdefault(None, set()).add(index)
    best = None
    for buffer, (first, last) in spans.items():
        if not first < peak < last or _size(buffer) < SMALL or buffer.kept or writers[buffer] != {first}:
            continue
        again = min(index for index in uses[buffer] if index >= peak)
        cost = _cost(graph.steps[first])
        if again == peak or peak in uses[buffer] or cost is None or cost > budget:
            continue
        stays = all(
            _stays(graph, value.buffer, first, again, uses, writers)
            for value in graph.steps[first].reads() if value.buffer is not buffer
        )  # fmt: skip
        if stays and (best is None or _size(buffer) > _size(best[1])):
            best = cost, buffer, again
    return best


def _cost(step):
    """Return what it costs to make the result of a step again, if a cheap function alone makes all of it; else None."""
    if step.inner is not None and len(step.inner) != 1 or len(step.values()) != 1 or not step.results:
        return None
    forms = elements(step.inner[0] if step.inner else step)
    (value,) = step.values()
    if forms is None or len(forms) != 1 or not value.is_whole or not step.reads():
        return None
    return forms[0].cost * math.prod(plainly(value.shape)) if forms[0].cost <= COST else None


def _stays(graph, buffer, first, again, uses, writers) -> bool:
    """Whether a buffer that a step reads is still there, as it was, when another step runs."""
    if buffer.kind in ("constant", "temporary", "fresh"):
        there = buffer.kind == "constant" or max(uses[buffer]) >= again
    else:  # others may write it between the parts of the program
        there = buffer.kind in ("given", "bound") and any(first in part and again in part for part in graph.parts)
        there = there and not any(first <= index < again for index in writers.get(None, ()))
    return there and not any(first < index < again for index in writers.get(buffer, ()))


def _insert(graph, buffer, again, number) -> Step:
    """Make a buffer again, as another one, before a step; those from there on take that. Return the step."""
    twin = Buffer.__new__(Buffer)
    for name in Buffer.__slots__:
        setattr(twin, name, getattr(buffer, name))
    twin.index, twin.itself = number, None

    def other(item):
        if isinstance(item, Value) and item.buffer is buffer:
            return Value(twin, item.shape, item.strides, item.offset, item.dtype)
        return item

    def renamed(step):
        if not any(value.buffer is buffer for value in (*step.reads(), *step.values())):
            return step
        args, kwargs = changed(other, step.args), changed(other, step.kwargs)
        results, writes = changed(other, step.results), changed(other, step.writes)
        new = Step(step.kind, step.name, step.function, args, kwargs, results, writes, step.effect, step.several)
        new.op, new.inner = step.op, None if step.inner is None else [renamed(one) for one in step.inner]
        return new

    if buffer.itself is not None:
        twin.itself = other(buffer.itself)
    maker = next(step for step in graph.steps if any(value.buffer is buffer for value in step.values()))
    repeated, later = renamed(maker), [renamed(step) for step in graph.steps[again:]]
    graph.steps = [*graph.steps[:again], repeated, *later]
    ends = [part.stop + (part.stop > again) for part in graph.parts]
    graph.parts = [range(a, b) for a, b in zip((0, *ends[:-1]), ends)]
    return repeated
