"""`with` statements, named tuples, overloads and unions in functions that are scripted, with arguments: CASES.

`torch` is PyTorch or plugrad: the file is imported under both, see test_staged_programs.
"""

# ruff: noqa: F811, F841, UP006, UP035, UP045

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch


class Scope:
    def __init__(self, n: int):
        self.n = n
        self.left = 0

    def __enter__(self):
        self.n += 1
        return self.n

    def __exit__(self, kind: Any, value: Any, trace: Any):
        self.left += 1


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


def what_is_left(x: Union[int, None, List[int]], y: Union[int, List[float], str] = 1):
    z = 1.0
    if isinstance(y, (int, str)):
        z = 2.0
    else:
        z = sum(y)
    if isinstance(x, int):
        return z + x
    if x is not None:
        return z + sum(x)
    return z


def takes_containers(x: List[int], y: Dict[str, int], z: Tuple[int, str]):
    return len(x) + len(y) + z[0]


def lambda_in_a_call(x):
    return list(map(lambda y: y, [1]))


x22 = torch.ones(2, 2)
def starred(t: Tuple[int, float, str, int], pairs: List[Tuple[int, int, int]]):
    first, *rest, last = t
    *some, one, two, three = t
    total = 0
    for a, *others in pairs:
        total += a * others[1]
    four, (five, *six), seven = 1, t, some
    return first, rest, last, some, one, three, total, six, seven


def starred_list(xs: List[int]):
    a, *b = xs
    return a, b


def starred_tensor(x):
    a, *b = x
    return a, b


def starred_too_few(t: Tuple[int]):
    a, b, *c = t
    return a, b, c


CASES = [
    (starred, ((1, 2.0, "x", 4), [(1, 2, 3), (4, 5, 6)])),
    (starred_list, ([1, 2],)),
    (starred_tensor, (torch.ones(2),)),
    (starred_too_few, ((1,),)),
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
    (what_is_left, (3,)),
    (what_is_left, ([1, 2], [1.5])),
    (what_is_left, (None, "a")),
    (lambda_in_a_call, (x22,)),
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
