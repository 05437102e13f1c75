"""Objects of a program's own classes in functions that are scripted, with arguments: CASES.

`torch` is PyTorch or plugrad: the file is imported under both, see test_staged_programs.
"""

# ruff: noqa: F841, UP006, UP035, UP045

import dataclasses
from typing import Any, Dict, List, Optional, Tuple

import torch


@torch.jit.script
class Pair:
    def __init__(self, a: int, b: torch.Tensor):
        self.a = a
        self.b = b
        self.log: List[int] = []

    def add(self, other: "Pair") -> "Pair":
        return Pair(self.a + other.a, self.b + other.b)

    def __add__(self, other: "Pair"):
        return self.add(other)

    def __neg__(self) -> "Pair":
        return Pair(-self.a, -self.b)

    def __len__(self) -> int:
        return self.a

    def __getitem__(self, i: int):
        return self.b[i]

    def __setitem__(self, i: int, value: float):
        self.b[i] = value

    def __eq__(self, other: "Pair") -> bool:
        return self.a == other.a

    def __lt__(self, other: "Pair") -> bool:
        return self.a < other.a

    def __contains__(self, i: int) -> bool:
        return i == self.a

    def __str__(self) -> str:
        return "Pair of " + str(self.a)

    def __call__(self, x: int) -> int:
        return self.a * x

    @property
    def twice(self) -> int:
        return self.a * 2

    @twice.setter
    def twice(self, v: int):
        self.a = v // 2

    @staticmethod
    def zeros(n: int):
        return Pair(n, torch.zeros(n))

    def bump(self, by: int = 1):
        self.log.append(self.a)
        self.a += by


class Plain:
    def __init__(self, a: int):
        self.a = a
        self.parts: Dict[str, Tuple[int, float]] = {}

    def put(self, name: str, x: float):
        self.parts[name] = (self.a, x)
        return self


class Outer:
    def __init__(self, n: int):
        self.inner = Plain(n)
        self.all: List[Plain] = [self.inner]
        self.maybe = torch.jit.annotate(Optional[Plain], None)

    def grow(self, n: int) -> int:
        self.all.append(Plain(n))
        self.maybe = self.all[-1]
        self.inner.a += 1
        return len(self.all)


class NoInit:
    def m(self) -> int:
        return 3


class SetLater:
    def __init__(self, a: int):
        if a > 0:
            self.x = 1


class Unwritten:
    def __init__(self, a: int):
        self.a = a

    def m(self):
        return [lambda: self.a]


@torch.jit.script
@dataclasses.dataclass
class Point:
    x: int
    y: float = 2.0

    def total(self):
        return self.x + self.y


def objects_and_operators(n: int):
    p = Pair(n, torch.ones(3))
    q = p + Pair(2, torch.ones(3))
    q[1] = 5.0
    r = -q
    return len(q), q[0], q == p, p < q, 5 in q, q.twice, q.b, r.b, str(r), q(3), p is q, p is p


def object_from_outside(p: Pair):
    p.a += 1
    p.log.append(7)
    p.b = p.b * 2
    return p.a, p.b, p.log


def object_of_any_type(p: Any):
    if isinstance(p, Pair):
        return p.a
    return -1


def objects_in_containers(n: int):
    many = [Pair(i, torch.ones(1)) for i in range(n)]
    named: Dict[str, Pair] = {}
    for i, x in enumerate(many):
        named[str(i)] = x
    named["0"].a = 50
    one: Optional[Pair] = None
    if n > 1:
        one = many[1]
    s = 0
    if one is not None:
        s = one.a
    many[0].bump()
    many.sort()
    return [x.a for x in many], s, many[-1].log, named["1"].a


def objects_are_shared(n: int):
    p = Pair.zeros(n)
    q = p
    q.twice = 18
    q.bump(by=3)
    p += Pair(1, torch.ones(n))
    p.a, rest = 5, p.a
    return p.a, q.a, rest, q.log, p is not q


def objects_of_objects(n: int):
    o = Outer(n)
    sizes = o.grow(4), o.grow(5)
    seen = 0
    if o.maybe is not None:
        seen = -1
    m = o.maybe
    if m is not None:
        seen = m.put("x", 2.5).a
    return sizes, o.inner.a, o.all[0].a, seen, o.all[2].parts


def objects_decide(n: int):
    p = Plain(n)
    while p.a < 10:
        p.a *= 2
        if p.a == 8:
            p = Plain(100)
    return p.a


def object_by_name_of_argument(n: int):
    return Plain(a=n).put(x=1.0, name="k").parts


def dataclass_of_two(n: int):
    d = Point(n)
    e = Point(y=3.0, x=n)
    return d.total(), d == e, d == Point(n), d.y, e.x


def new_attribute(n: int):
    p = Plain(n)
    p.zz = 3
    return p.a


def no_such_attribute(n: int):
    return Plain(n).zz


def no_such_method(n: int):
    return Plain(n).zz(3)


def attribute_of_another_type(n: int):
    p = Plain(n)
    p.a = "x"
    return p.a


def argument_of_a_class_of_another_type(n: int):
    return Pair(n, 3).a


def object_as_a_condition(n: int):
    if Plain(n):
        return 1
    return 0


def no_operator(n: int):
    return Plain(n) + Plain(n)


def not_equal_without_a_method(n: int):
    return Plain(n) != Plain(n)


def class_without_init(n: int):
    return NoInit().m()


def attribute_set_in_a_branch(n: int):
    return SetLater(n).x


def method_that_is_refused(n: int):
    return Unwritten(n).a


def two_classes(n: int):
    p = Plain(n)
    if n > 1:
        p = Outer(n)
    return n


x22 = torch.ones(2, 2)
CASES = [
    (objects_and_operators, (3,)),
    (object_from_outside, (Pair(3, x22),)),
    (object_from_outside, (3,)),
    (object_of_any_type, (Pair(3, x22),)),
    (object_of_any_type, ("a",)),
    (objects_in_containers, (4,)),
    (objects_are_shared, (2,)),
    (objects_of_objects, (2,)),
    (objects_decide, (1,)),
    (objects_decide, (3,)),
    (object_by_name_of_argument, (3,)),
    (dataclass_of_two, (3,)),
    (new_attribute, (3,)),
    (no_such_attribute, (3,)),
    (no_such_method, (3,)),
    (attribute_of_another_type, (3,)),
    (argument_of_a_class_of_another_type, (3,)),
    (object_as_a_condition, (3,)),
    (no_operator, (3,)),
    (not_equal_without_a_method, (3,)),
    (class_without_init, (3,)),
    (attribute_set_in_a_branch, (3,)),
    (method_that_is_refused, (3,)),
    (two_classes, (3,)),
]
