"""Enums in functions that are scripted, with arguments: CASES.

`torch` is PyTorch or plugrad: the file is imported under both, see test_staged_programs.
"""

# ruff: noqa: UP006, UP035, UP045

from enum import Enum, IntEnum
from typing import Any, Dict, List, Optional


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


CASES = [
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
]
