"""The Mersenne Twister of 32 bits, seeded as PyTorch seeds its CPU generator, with PyTorch's layout of the state.

M. Matsumoto, T. Nishimura, "Mersenne Twister", ACM TOMACS 8 (1998). The bits are NumPy's; what is added is the second
number of a pair of normal ones, which waits for the next call that draws them one by one.
"""

from __future__ import annotations

import ctypes
import functools
import os
import weakref

import numpy

WORDS = 624
_locks = weakref.WeakValueDictionary()  # of all bit generators, by their ids
# The bytes that torch.get_rng_state() returns.
LAYOUT = numpy.dtype(
    [
        ("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", WORDS),
        ("unused", "<f8"), ("spare", "<f8"), ("rho", "<f8"), ("has_spare", "<i4"), ("gap", "<i4"), ("single", "<f4"),
        ("has_single", "u1"), ("end", "u1", 3),
    ]
)  # fmt: skip


def _is_seeded(words) -> bool:
    """Whether nothing was drawn yet: the words still follow from each other as the seeding has them."""
    first, second = int(words[0]), int(words[1])
    return second == (1812433253 * (first ^ first >> 30) + 1) & 0xFFFFFFFF


def _free_locks() -> None:
    """In a child that was forked while another thread drew: nobody else would ever free that generator."""
    for lock in _locks.values():
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_locks)


_Words = ctypes.c_uint32 * (WORDS + 1)
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_bits_of = _pointer(("PyCapsule_GetPointer", ctypes.pythonapi))


def _memory(bits) -> numpy.ndarray:
    """Return the words of NumPy's generator, and how many of them are used, in its own memory: for kernels in C."""
    place = ctypes.c_void_p.from_address(_bits_of(bits.capsule, b"BitGenerator"))  # of bitgen_t, whose first is `state`
    return numpy.frombuffer(_Words.from_address(place.value), numpy.uint32)


@functools.cache
def _is_laid_out_as_known() -> bool:
    """Whether this NumPy's generator keeps its state as it did when the kernels were written."""
    bits = numpy.random.MT19937(0)
    bits.random_raw(3)
    memory, state = _memory(bits), bits.state["state"]
    return numpy.array_equal(memory[:WORDS], state["key"]) and int(memory[WORDS]) == state["pos"] < WORDS


class _Unspread(numpy.random.bit_generator.ISeedSequence):
    """What NumPy's generator is made with before it is seeded as PyTorch's: to spread a seed takes 50 times as long."""

    def generate_state(self, n_words, dtype=None):
        return [0] * n_words


_unspread = _Unspread()


class MersenneTwister(numpy.random.MT19937):
    """NumPy's bit generator with a `spare` normal number, which is a part of its state.

    PyTorch keeps that number, the second of a Box-Muller pair, as it is: it is scaled only when it is taken.
    """

    spare: float | None = None

    def __init__(self, seed: int):
        super().__init__(_unspread)
        self._legacy_seeding(seed & 0xFFFFFFFF)
        _locks[id(self.lock)] = self.lock

    @functools.cached_property  # ctypes takes longer than all the rest, and most of those that are seeded never draw
    def memory(self) -> numpy.ndarray | None:
        """What kernels in C draw from; None where that is laid out in another way than known."""
        return _memory(self) if _is_laid_out_as_known() else None

    @property
    def state(self):
        """Everything that decides what comes next, in plain values that can be compared."""
        with self.lock:  # other threads draw from it
            state, spare = numpy.random.MT19937.state.__get__(self), self.spare
        engine = state["state"]
        return {**state, "state": {"key": engine["key"].tobytes(), "pos": engine["pos"]}, "spare": spare}

    @state.setter
    def state(self, state):
        state = dict(state)
        spare, engine = state.pop("spare"), state["state"]
        key = numpy.frombuffer(engine["key"], numpy.uint32)
        with self.lock:
            numpy.random.MT19937.state.__set__(self, {**state, "state": {"key": key, "pos": engine["pos"]}})
            self.spare = spare


class Source(numpy.random.Generator):
    """NumPy's generator over those bits; draws as PyTorch makes them are in `plugins/ops/_draws.py`."""

    def __init__(self, seed: int):
        super().__init__(MersenneTwister(seed))

    def to_bytes(self, seed: int) -> numpy.ndarray:
        """Return the state, and the seed that it began with, as uint8 in PyTorch's layout."""
        state = self.bit_generator.state
        engine, record = state["state"], numpy.zeros((), LAYOUT)
        position, words = engine["pos"], numpy.frombuffer(engine["key"], numpy.uint32)
        record["seed"], record["seeded"] = seed % 2**64, 1
        record["left"], record["words"] = WORDS + 1 - position, words
        record["next"] = 0 if position == WORDS and _is_seeded(words) else position
        if state["spare"] is not None:
            record["spare"], record["has_spare"] = state["spare"], 1
        return numpy.frombuffer(record.tobytes(), numpy.uint8).copy()

    @classmethod
    def from_bytes(cls, state: numpy.ndarray) -> tuple[Source, int]:
        """Return the generator, and the seed, of a state; ValueError if it is none."""
        if state.size != LAYOUT.itemsize:
            raise ValueError(f"RNG state is wrong size: it has {state.size} bytes, not {LAYOUT.itemsize}")
        record = numpy.frombuffer(state.tobytes(), LAYOUT)[0]
        left, after, words = int(record["left"]), int(record["next"]), record["words"]
        fresh = left == 1 and after == 0  # seeded, and nothing drawn yet
        if record["seeded"] != 1 or not 1 <= left <= WORDS or not (fresh or left + after == WORDS + 1):
            raise ValueError("Invalid mt19937 state")
        if (words >> 32).any() or record["has_spare"] not in (0, 1) or record["has_single"] not in (0, 1):
            raise ValueError("Invalid mt19937 state")
        source, seed = cls(0), int(record["seed"])
        key = words.astype(numpy.uint32).tobytes()
        source.bit_generator.state = {
            "bit_generator": "MersenneTwister", "state": {"key": key, "pos": WORDS if fresh else after},
            "spare": float(record["spare"]) if record["has_spare"] else None,
        }  # fmt: skip
        return source, seed
