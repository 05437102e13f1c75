"""Classes of a program's own, Enums and `with` statements in functions that are scripted, with arguments: CASES.

`torch` is PyTorch or plugrad: the file is imported under both, see test_staged_programs.
"""

# ruff: noqa: F811, F841, UP006, UP035, UP045

import dataclasses
from enum import Enum, IntEnum
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

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


class Scope:
    def __init__(self, n: int):
        self.n = n
        self.left = 0

    def __enter__(self):
        self.n += 1
        return self.n

    def __exit__(self, kind: Any, value: Any, trace: Any):
        self.left += 1


class NoInit:
    def m(self) -> int:
        return 3


class SetLater:
    def __init__(self, a: int):
        if a > 0:
            self.x = 1


class HalfScope:
    def __init__(self):
        self.a = 1

    def __enter__(self):
        self.a = 2


class ShortExit:
    def __init__(self):
        self.a = 1

    def __enter__(self):
        self.a = 2

    def __exit__(self):
        self.a = 3


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


class Color(Enum):
    RED = 1
    GREEN = 2


class Word(Enum):
    A = "a"
    B = "b"


class Half(Enum):
    A = 0.5


class Number(IntEnum):
    ONE = 1
    TWO = 2


class Mixed(Enum):
    A = 1
    B = "b"


class Pairs(Enum):
    A = (1, 2)


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


def colors(c: Color):
    return c == Color.RED, c != Color.RED, c.name, c.value, isinstance(c, Color)


def color_itself(c: Color):
    d = Color.RED if c == Color.GREEN else Color.GREEN
    return d.value, c.value


def all_colors(n: int):
    names: List[str] = []
    for c in Color:
        names.append(c.name)
    return names, [c.value for c in Color]


def color_of_any_type(c: Any):
    if isinstance(c, Color):
        return c.value
    return 0


def optional_color(c: Optional[Color] = None):
    if c is not None:
        return c.value
    return 0


def color_by_default(c: Color = Color.GREEN, w: Word = Word.B):
    return c.value, w.value


def lists_of_colors(many: List[Color]):
    d: Dict[str, Color] = {}
    for x in many:
        d[x.name] = x
    return [k + str(v.value) for k, v in d.items()]


def words(w: Word):
    return w.value + "x" + w.name


def halves(h: Half):
    return h.value * 3


def numbers(n: Number):
    return n.value + 1


def number_as_a_number(n: Number):
    return n + 1


def number_beside_a_number(n: Number):
    return n == 1


def mixed(m: Mixed):
    return m.value


def pairs(m: Pairs):
    return m.value


def two_enums(c: Color):
    return c == Word.A


def calls_an_enum(n: int):
    return Color(n)


def asks_an_enum(n: str):
    return Color[n]


def color_less_than(c: Color):
    return c < Color.RED


def sets_a_value(c: Color):
    c.value = 3
    return c


def no_such_color(n: int):
    return Color.BLUE


def scopes(n: int):
    s = Scope(n)
    with s as k:
        k += 1
    with s:
        if n > 3:
            return s.n, s.left
    for i in range(3):
        with s:
            if i == 1:
                break
    return k, s.left + s.n


def two_scopes(n: int):
    a, b = Scope(n), Scope(10)
    with a, b as y:
        z = y + a.n
    return z, a.left, b.left


def scope_of_no_object(n: int):
    with 3:
        return n


def scope_without_exit(n: int):
    with HalfScope():
        return n


def scope_with_a_short_exit(n: int):
    with ShortExit():
        return n


def raises_in_a_scope(n: int):
    s = Scope(n)
    with s:
        if n > 1:
            raise ValueError("no")
    return s.left


def without_gradients(x):
    y = x * x
    with torch.no_grad():
        z = y * 2
    return y, z


def recorded(x):
    with torch.autograd.profiler.record_function("a part"):
        y = x * 2
    with torch.profiler.record_function("another") as it:
        y = y + 1
    return y


def cast_in_part(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.mm(x, x)
    with torch.amp.autocast("cpu", enabled=False):
        z = torch.mm(x, x)
    with torch.cpu.amp.autocast():
        w = torch.mm(x, x)
    return y, z, w


class Named(NamedTuple):
    a: torch.Tensor
    b: int = 3
    c: Optional[int] = None


def named_by_default(x):
    p = Named(a=x)
    return p.b, p.c is None, Named(x, 4, c=5).b


def named_without_a_value(x):
    return Named(b=3)


@torch.jit._overload
def doubled(x: int, n: int) -> int: ...


@torch.jit._overload
def doubled(x: str, n: int) -> str: ...


def doubled(x, n=2):
    return x + x


def overloaded(x: int, s: str):
    return doubled(x, 1) + doubled(x + 1, 2), doubled(s, 1)


def no_such_overload(x: float):
    return doubled(x, 1)


def powers(a: int, b: float):
    return pow(a, 2), pow(b, a), a**2


def one_of_two(x: Union[int, str], y: Union[float, List[int], None] = None):
    n = 0
    if isinstance(y, float):
        n = 1
    if isinstance(x, int):
        return x + 1 + n
    return len(x) + n


def takes_containers(x: List[int], y: Dict[str, int], z: Tuple[int, str]):
    return len(x) + len(y) + z[0]


def lambda_in_a_call(x):
    return list(map(lambda y: y, [1]))


x22 = torch.ones(2, 2)
CASES = [
    (named_by_default, (x22,)),
    (named_without_a_value, (x22,)),
    (overloaded, (3, "a")),
    (no_such_overload, (1.5,)),
    (powers, (3, 1.5)),
    (takes_containers, ([1], {"a": 1}, (1, "a"))),
    (takes_containers, ("ab", {"a": 1}, (1, "a"))),
    (takes_containers, (5, {"a": 1}, (1, "a"))),
    (takes_containers, ([1], [1], (1, "a"))),
    (takes_containers, ([1], {"a": 1}, [1, "a"])),
    (takes_containers, ([1], {"a": 1}, (1,))),
    (one_of_two, (3,)),
    (one_of_two, ("abc", 1.5)),
    (one_of_two, ("abc", [1])),
    (one_of_two, (1.5,)),
    (one_of_two, ([1],)),
    (one_of_two, (1, "a")),
    (one_of_two, (None,)),
    (lambda_in_a_call, (x22,)),
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
    (colors, (Color.GREEN,)),
    (colors, (1,)),
    (colors, (Word.A,)),
    (color_itself, (Color.GREEN,)),
    (all_colors, (1,)),
    (color_of_any_type, (Color.GREEN,)),
    (optional_color, (Color.GREEN,)),
    (optional_color, ()),
    (color_by_default, ()),
    (color_by_default, (Color.RED, Word.A)),
    (lists_of_colors, ([Color.RED, Color.GREEN, Color.RED],)),
    (words, (Word.B,)),
    (halves, (Half.A,)),
    (numbers, (Number.TWO,)),
    (number_as_a_number, (Number.TWO,)),
    (number_beside_a_number, (Number.TWO,)),
    (mixed, (Mixed.A,)),
    (pairs, (Pairs.A,)),
    (two_enums, (Color.RED,)),
    (calls_an_enum, (1,)),
    (asks_an_enum, ("RED",)),
    (color_less_than, (Color.RED,)),
    (sets_a_value, (Color.RED,)),
    (no_such_color, (1,)),
    (scopes, (2,)),
    (scopes, (5,)),
    (two_scopes, (2,)),
    (scope_of_no_object, (2,)),
    (scope_without_exit, (2,)),
    (scope_with_a_short_exit, (2,)),
    (raises_in_a_scope, (1,)),
    (raises_in_a_scope, (2,)),
    (without_gradients, (x22.clone().requires_grad_(),)),
    (recorded, (x22,)),
    (cast_in_part, (x22,)),
]
