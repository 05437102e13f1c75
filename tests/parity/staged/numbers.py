"""Arithmetic that leaves the numbers of C: CASES."""

# ruff: noqa: UP006, UP035

import math
from typing import Dict, List

import torch  # noqa: F401


def wraps(a: int, b: int):
    return a + b, a - b, a * b, -a, a * 4 + b, a << 2, abs(a), a // 3, a % 7


def generator_of_numbers(seed: int):
    numbers: List[int] = []
    for _ in range(4):
        seed = seed * 6364136223846793005 + 1442695040888963407
        numbers.append(seed % 100)
    seed += seed
    return numbers, seed, math.factorial(21)


def in_place(a: List[int], d: Dict[str, int]):
    a[len(a) - 1] *= 4
    a[0] -= 5
    d["n"] += d["n"]
    return a, d


def in_comprehensions(a: List[int]):
    return [i * 4 + 1 for i in range(len(a) + 1)], [v + v for v in a], {v: v * 2 for v in a}


def told(values: List[float]):
    return [12345.0 if math.isnan(value) else value for value in values]


def divided(a: float, b: float, m: int, n: int):
    return told([a / b, -a / b, b / b, a // b, a % b, m / n, n / n, a // 0.1, a / n])


def powers(a: float, n: int):
    return told([a**0.5, 10.0 ** (400.0 * -a), float(n**3), math.pow(a, 0.5)])


def functions_of_math(zero: float, large: float):
    ends = [math.log(zero), math.log(-large), math.sqrt(-large), math.exp(large), math.log10(zero), math.log1p(-1.0)]
    others = [math.sinh(-large), math.acosh(zero), math.atanh(1.0), math.fmod(large, zero), math.sin(math.inf)]
    return told(ends), told(others), told([math.gamma(zero), math.gamma(-1.0), math.gamma(large), math.lgamma(zero)])


def before_others(a: int, b: int):
    c = (a * b + a) * b - 7 * a
    c += a * a * b - c * 2
    return c, (a * a - b) // 3, (a * b) % 10, a * b > 0, [1, 2, 3][(a * a) % 3], (a * 3 + 1) << 1, float(a * b)


def counted(n: int, big: int):
    i, total, down, product, other, again = 0, 0, 0, 1, 0, 0
    while i < n:
        i += 1
        down = down - 2
        again += 255
        total = (total * 31 + i * big) % 1000003
        product *= i * 77
        other = other + i
    for k in range(n):
        product -= k * big
        i += k * (k + big)
    for k in range(big, big + 3):
        other += k * 2
    wide = [i * big for i in range(3)]
    return i, down, total, product, other, again, wide


def set_to_what_is_large(big: int):
    i = 0
    for k in range(3):
        i += 1
        if k == 1:
            i = big
        i = i + 200
    return i, i + 1


LARGE = 1 << 62
CASES = [
    (before_others, (LARGE - 5, 12345)),
    (before_others, (-3 << 40, 5 << 30)),
    (counted, (9, (1 << 63) - 5)),
    (counted, (50, -LARGE)),
    (set_to_what_is_large, ((1 << 63) - 300,)),
    (wraps, (LARGE, LARGE)),
    (wraps, (-2 * LARGE, 3)),
    (wraps, (7, -2)),
    (generator_of_numbers, (11,)),
    (in_place, ([1, LARGE], {"n": LARGE})),
    (in_comprehensions, ([LARGE, 3],)),
    (divided, (1.0, 0.0, 3, 0)),
    (divided, (-7.5, 2.0, -3, 2)),
    (powers, (-8.0, 3)),
    (functions_of_math, (0.0, 1000.0)),
]
