"""Programs that replace what objects have: `self.cache = x`, `self.count += 1`.

Such a program is captured as a function that takes what it reads there as arguments, and returns what is there when it
ends. So it has guards as arguments have, and what it leaves is put there at the end of each call.
"""

from __future__ import annotations

from plugrad.compiler.places import MISSING
from plugrad.regions import mode

COUNTED = type("Counted", (), {})()  # the argument for a number to which the program only adds
NOTHING = type("Nothing", (), {})()  # what a capture finds where the program does not read


class Changing:
    """A function that takes what is at places as its first arguments, and returns what is there when it ends, too.

    `added` are the numbers of the places at which it only adds to a whole number; `places` are those of a function that
    is such a one itself, too. It is so while it is captured, and else replaces what is there itself.
    """

    def __init__(self, function, places, uses):
        self.function = self.__wrapped__ = function
        self.places, self.own = [*places_of(function), *places], places
        self.read = [place for place in places if uses.is_read(place)]
        self.counted = {place for place in places if uses.is_counted(place)}

    def arguments(self) -> tuple:
        """Return what the program takes for what is at places now."""
        contents = [(place, place.get()) for place in self.read]
        return tuple([COUNTED if type(one) is int and place in self.counted else one for place, one in contents])

    def __call__(self, *given, **kwargs):
        taken, args = given[: len(self.read)], given[len(self.read) :]
        if not mode.compiling:
            return (self.function(*args, **kwargs),)
        before = {place: place.get() for place in self.own}
        try:
            there = {**dict.fromkeys(self.own, NOTHING), **dict(zip(self.read, taken))}
            there = {place: before[place] if content is COUNTED else content for place, content in there.items()}
            for place, content in there.items():
                place.put(content)
            results = self.function(*args, **kwargs)
            return results, *[_told(place.get(), there[place], place in self.counted) for place in self.own]
        finally:
            for place, content in before.items():
                place.put(content)


def places_of(function) -> list:
    """Return the places of which a function takes what is there, if it is a `Changing`."""
    return function.places if isinstance(function, Changing) else []


def _told(content, before, is_counted) -> tuple:
    """Return what became of what was at a place, as a result of the program."""
    if content is before:
        return ("left",)
    if is_counted and type(content) is type(before) is int:
        return "added", content - before
    return ("deleted",) if content is MISSING else ("replaced", content)


class Replacing:
    """What calls a program that replaces something: `programs` are those of a `Changing`."""

    def __init__(self, changing, programs):
        self.changing, self.programs = changing, programs

    def call(self, args, kwargs):
        """Call the program, and put what it leaves where that belongs."""
        results, *left = self.programs.call((*self.changing.arguments(), *args), kwargs)
        for place, (what, *content) in zip(self.changing.own, left):
            if what != "left":
                place.put(MISSING if what == "deleted" else place.get() + content[0] if what == "added" else content[0])
        return results
