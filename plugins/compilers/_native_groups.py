"""Which elements become one loop: a `Group` holds elements that run over equally many elements in the same order.

What an element of a group writes, others of the group read from a register; a buffer that only one group uses is no
memory.
"""

from __future__ import annotations

import math

from plugrad.compiler.graph import Value

MOST = 96  # what the elements of a group may cost together: a C compiler gives up on longer loops
LOOK_BACK = 48  # steps that an element may move over to join a group
ALONE = 4096  # elements; loops over fewer are put together even if they share nothing
FEW = 8  # arrays; loops over no more of them, too: what comes next often needs both


class Access:
    """How a loop goes over a value: `dims` are (size, stride) in row-major order, merged where they are one."""

    __slots__ = ("value", "dims", "key")

    def __init__(self, value: Value, shape):
        lead = len(shape) - len(value.shape)
        dims: list = []
        for d, n in enumerate(shape):
            k = d - lead
            stride = value.strides[k] if k >= 0 and value.shape[k] == n else 0
            if n == 1:
                continue
            if dims and dims[-1][1] == n * stride:
                dims[-1] = (dims[-1][0] * n, stride)
            else:
                dims.append((n, stride))
        self.value, self.dims = value, dims
        self.key = value.buffer.index, value.offset, value.dtype.str, tuple(dims)

    def cut(self, sizes) -> list:
        """Return the strides for dimensions of these sizes, of which its own are products."""
        strides, left, rest = [], list(self.dims), None
        for n in reversed(sizes):
            if rest is None or rest[0] == 1:
                rest = list(left.pop()) if left else [1, 0]
            strides.append(rest[1])
            rest = [rest[0] // n, rest[1] * n]
        return strides[::-1]


def cuts_of(dims) -> set:
    """Return the products of the last sizes, which say where dimensions end."""
    product, cuts = 1, set()
    for n, _ in reversed(dims):
        product *= n
        cuts.add(product)
    return cuts


def is_chain(cuts) -> bool:
    """Whether each divides the next."""
    ordered = sorted(cuts)
    return all(b % a == 0 for a, b in zip(ordered, ordered[1:]))


class Group:
    """Elements in the order in which a loop computes them. `accesses` are those of values, by key."""

    def __init__(self, size):
        self.size, self.elements, self.accesses, self.cuts, self.cost = size, [], {}, {size}, 0
        self.reads, self.writes = set(), {}  # buffers; of those written, the key by which
        self.keys: dict = {}  # buffer -> keys of its accesses

    def fits(self, read, target) -> bool:
        """Whether an element with these accesses can be the last of the group."""
        cuts = self.cuts.union(*[cuts_of(access.dims) for access in (*read, target)])
        if not is_chain(cuts) or len(cuts) > 6 or self.cost > MOST:
            return False
        for access in read:
            known = self.writes.get(access.value.buffer)
            if known is not None and known != access.key:
                return False
            if access.value.buffer is target.value.buffer and access.key != target.key:
                return False
        known = self.keys.get(target.value.buffer, ())
        return all(key == target.key for key in known)

    def add(self, element, read, target) -> None:
        """Add an element that fits."""
        for access in (*read, target):
            self.accesses.setdefault(access.key, access)
            self.keys.setdefault(access.value.buffer, set()).add(access.key)
            self.cuts |= cuts_of(access.dims)
        self.reads.update([access.value.buffer for access in read])
        self.writes[target.value.buffer] = target.key
        self.cost += element.cost
        self.elements.append((element, [a.key for a in read], target.key))

    def shares(self, read, target) -> bool:
        """Whether it uses a buffer of those."""
        return any(access.value.buffer in self.keys for access in (*read, target))

    def sizes(self) -> list:
        """Return the sizes of the loop's dimensions."""
        ordered = [1, *sorted(self.cuts - {1})]
        return [b // a for a, b in zip(ordered, ordered[1:])][::-1]


class Unit:
    """A step or a group as it is ordered: which buffers it reads and writes. Nothing passes what is `fixed`."""

    def __init__(self, item, reads, writes, fixed=False, origin=None):
        self.item, self.reads, self.writes, self.fixed, self.origin = item, reads, writes, fixed, origin
        self.group = item if isinstance(item, Group) else None
        self.alone = None  # of a group: (the call of a kernel in C that its only element is, where it comes from)

    def blocks(self, reads, writes) -> bool:
        """Whether what reads and writes these buffers may not come before it."""
        if self.fixed:
            return True
        return not (self.writes.isdisjoint(reads) and self.writes.isdisjoint(writes) and self.reads.isdisjoint(writes))


def grouped(steps, elements, late=()) -> list:
    """Return the units of a part, in order. `elements(step)` is a list of elements, or None for what is called.

    What is `late` joins no group that is there before it.
    """
    units: list[Unit] = []
    for step, origin in steps:
        forms = elements(step)
        if forms is None:
            given = step.reads() if origin is None else (*step.reads(), *origin.reads())  # it may run instead
            reads, writes = {v.buffer for v in given}, {v.buffer for v in step.values()}
            units.append(Unit(step, reads, writes, step.kind == "python" or bool(step.effect), origin))
            continue
        for element in forms:
            _place(units, element, (step, origin) if step.kind == "native" else None, 0 if step in late else LOOK_BACK)
    for unit in units:
        if unit.alone is not None and len(unit.item.elements) == 1:
            unit.item, unit.origin = unit.alone
    return units


def _place(units, element, alone, far):
    """Put an element into the last group that takes it, or one of its own, which is `alone` if nothing joins it.

    It moves over as many units as `far` says at most.
    """
    read = [Access(one, element.shape) for one in element.operands if isinstance(one, Value)]
    target = Access(element.target, element.target.shape)
    reads, writes = {a.value.buffer for a in read}, {target.value.buffer}
    size = math.prod(element.shape)
    for unit in units[: -far - 1 : -1]:
        group = unit.item
        if isinstance(group, Group) and group.size == size and group.fits(read, target):
            if size <= ALONE or len(group.accesses) <= FEW or group.shares(read, target):
                break
        if unit.blocks(reads, writes):
            unit = None
            break
    else:
        unit = None
    if unit is None:
        unit = Unit(Group(size), set(), set())
        unit.alone = alone
        units.append(unit)
    unit.item.add(element, read, target)
    unit.reads |= reads
    unit.writes |= writes
