"""What a setting is: how it is read, told from another, and put back."""

from __future__ import annotations

from operator import is_

PLAIN = (bool, bytes, dict, float, int, list, str, tuple, type(None))


class Setting:
    """One setting: what it is called, functions to read and to write it.

    `random` says that it is a generator's state, `own` that plugrad draws from it.
    """

    __slots__ = ("label", "own", "random", "read", "write")

    def __init__(self, label, read, write, random=False, own=False):
        self.label, self.read, self.write, self.random, self.own = label, read, write, random, own

    def same(self, before, now) -> bool:
        """Whether nothing changed."""
        return same(before, now)

    def changes(self, before, now) -> list[str]:
        """Return in words what changed."""
        return [self.label]


class Chain(Setting):
    """A list that Python asks from its front; libraries may add to its end, which takes nothing from anybody."""

    __slots__ = ()

    def __init__(self, label, entries):
        super().__init__(label, lambda: self._others(entries), lambda before: self._restore(entries, before))

    def same(self, before, now):
        return len(now) >= len(before) and all(one is other for one, other in zip(before, now))

    @staticmethod
    def _others(entries):
        """Return the entries but for those of plugrad's that watch what is imported, in any thread."""
        return [one for one in entries if not type(one).__module__.startswith("plugrad.")]

    def _restore(self, entries, before):
        others = self._others(entries)
        last = max((i for i, one in enumerate(others) if any(one is known for known in before)), default=-1)
        own = [one for one in entries if not any(one is other for other in others)]
        entries[:] = own + before + others[last + 1 :]


class Table(Setting):
    """A setting that is a dict, whose changes are told by key."""

    __slots__ = ()

    def changes(self, before, now):
        changed = [key for key in {*before, *now} if key not in before or not same(before[key], now.get(key))]
        return [f"{self.label} ({', '.join(sorted(map(str, changed)))})"]


def same(before, now) -> bool:
    """Whether a setting has its value: the same object, or an equal one of Python's own kinds."""
    return before is now or (type(before) is type(now) and isinstance(before, PLAIN) and bool(before == now))


def identical(before: dict, now: dict) -> bool:
    """Whether two dicts have the same names in the same order, and for each the same object; nothing is compared."""
    return len(before) == len(now) and all(map(is_, before.values(), now.values())) and [*before] == [*now]
