"""Calls of Python's functions in a capture that matter: of those that ask for what is not watched, or fill a cache.

What `functools.lru_cache` keeps stays in a capture, as it stays for the program. What a capture itself puts in there
must be what the program would: no tensors of the capture's, and no results of calls that did more than return them.
"""

from __future__ import annotations

import functools
import gc
import sys

from plugrad import Tensor, nest
from plugrad.compiler.sizes import ChangeError

CACHED = type(functools.lru_cache(abs))
MANY = 16  # entries of a cache without a limit that are watched


class Kept:
    """What a function of `functools.lru_cache` keeps now: `keys`, `results`, and `entries` as (table, key, content)."""

    def __init__(self, cached):
        referents, own = gc.get_referents(cached), vars(cached)  # links as key, result...; then the table of links
        end = max(n for n, one in enumerate(referents) if type(one) is dict and one is not own)
        table = referents[end]
        self.keys = [*table]
        bounded = cached.cache_parameters()["maxsize"] is not None
        of_keys = set(map(id, self.keys)) if bounded else ()
        self.results = [one for one in (referents[:end] if bounded else table.values()) if id(one) not in of_keys]
        # Where all are dropped the last one is, too; without a limit a result may be equal to that before.
        self.entries = [(table, key, table[key]) for key in self.keys[-1 if bounded else -MANY :]]

    def tensors(self) -> list:
        """Return the tensors by which results are found."""
        return [leaf for leaf in nest.leaves(self.keys) if isinstance(leaf, Tensor)]


class Calls:
    """In its block calls are watched of the functions that a `World` says, which are not to be made in a capture."""

    def __init__(self, world, recorder, is_foreign):
        self.suspects, self.recorder = world.suspects, recorder
        self.world, self.is_foreign = world, is_foreign  # is_foreign(item): whether it leads to a tensor of the capture
        self.cached = {one.__wrapped__.__code__ for one in world.caches if hasattr(one.__wrapped__, "__code__")}
        self.before = [(one, one.cache_info().misses, set(map(id, Kept(one).results))) for one in world.caches]

    def __enter__(self):
        self.watches = bool(self.suspects or self.cached) and sys.getprofile() is None
        if self.watches:
            sys.setprofile(self.look)
        elif self.suspects and sys.getprofile() is not None:  # which call it is can't be seen
            raise self.recorder.refusal(next(iter(self.suspects.values())))

    def __exit__(self, *error):
        if self.watches:
            sys.setprofile(None)

    def look(self, frame, event, result):
        """Refuse a call; as the function of a profiler it may raise errors."""
        if event == "call" and frame.f_code in self.suspects:
            raise self.recorder.refusal(self.suspects[frame.f_code])
        if event == "return" and frame.f_code in self.cached and (self.is_foreign(result) or not self.world.holds()):
            raise ChangeError(f"the program changes Python objects (what {frame.f_code.co_name} keeps)")

    def undo(self, differs) -> list:
        """Empty caches that were filled with tensors, or while the program changed; return what those are, in words."""
        emptied = []
        for cached, misses, before in self.before:
            if cached.cache_info().misses == misses:
                continue
            changed = differs and not (self.watches and hasattr(cached.__wrapped__, "__code__"))
            if changed or any(self.is_foreign(one) for one in Kept(cached).results if id(one) not in before):
                cached.cache_clear()
                emptied.append(f"what {getattr(cached, '__name__', 'a function')} keeps")
        return emptied
