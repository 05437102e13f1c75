"""The modes of a thread, and the regions of a program where they are others: blocks of `with no_grad()` and the like.

An exception from outside, as Ctrl-C raises it, may come between any two bytecodes of Python code: inside of an
`__exit__`, too, before that has put anything back. So a region ends without Python code. Its flag is a `BytesIO`: that
is closed by a C function which takes what a `with` block hands it, and may be closed twice: by the `with` block, or,
where that never came to it, when the block lets go of the function. What is past is taken off the thread's stack by
whoever next asks for a mode.
"""

from __future__ import annotations

import threading
from functools import partial
from io import BytesIO
from operator import attrgetter
from weakref import ref

# Not empty while in any thread something holds that few calls have to know; the fast paths ask for no more than that.
paused: set = set()  # nothing is recorded
special: set = set()  # anything rare is on (anomaly mode, saved-tensor hooks, op hooks)
elsewhere: set = set()  # new tensors may have to be made elsewhere than on the CPU
watched: set = set()  # a function mode or a hook on ops is on, or a tensor of an overriding class exists

_flags: dict[str, tuple] = {}  # mode -> the sets above that have to know where it is on
_is_closed = attrgetter("closed")
_always = partial(bool, True)


class Changes(dict):
    """Modes by name, as regions begin with them again and again; `flags` are the sets that have to know."""

    __slots__ = ("flags",)

    def __init__(self, modes):
        super().__init__(modes)
        self.flags = [flag for name, value in modes.items() if value for flag in _flags[name]]


class _State:
    """Some modes, as they are in one region; `ended()` says whether the program has left it."""

    __slots__ = ("modes", "flags", "ended", "guard", "__weakref__")

    def __init__(self, modes, ended, guard=None):
        self.modes, self.flags, self.ended, self.guard = modes, modes.flags, ended, guard
        for flag in modes.flags:  # the fast paths have to know, as long as this state exists
            flag.add(ref(self, flag.discard))

    def set(self, name, value) -> None:
        """Set one mode."""
        self.flags = [*self.flags, *_flags[name]]
        for flag in _flags[name]:
            flag.add(ref(self, flag.discard))
        self.modes = {**self.modes, name: value}  # which other regions may share
        for flag in _flags[name]:
            if not any([on for other, on in self.modes.items() if any([flag is one for one in _flags[other]])]):
                flag.discard(ref(self))


_NOTHING = (None, None, None, None)  # whose region is about to begin: the context, its flag, its guard, those before


class _Thread:
    """Where one thread is: its states, and what stands between a `with` block's question and its entry."""

    __slots__ = ("stack", "prepared", "by_hand")

    def __init__(self):
        self.stack = (_State(Changes({}), bool),)  # outermost first
        self.prepared = _NOTHING
        self.by_hand = ()

    def states(self) -> tuple:
        """Return the states that this thread is in, outermost first; those it has left are dropped."""
        stack = self.stack
        while stack[-1].ended():
            past = stack[-1]
            for flag in past.flags:  # where no frame is left, a weak reference's callback fails unseen: this raises
                flag.discard(ref(past))
            self.stack = stack = stack[:-1]
            if "pausing" in past.modes:
                mode.records = _ask if len(stack) > 1 or stack[0].modes.get("pausing") else _always
        return stack

    def get(self, name):
        for state in self.states()[::-1]:
            if name in state.modes and not state.ended():
                return state.modes[name]
        return _defaults[name]

    def all(self) -> dict:
        """Return all modes that were ever changed here, by name."""
        return {name: value for state in self.states() if not state.ended() for name, value in state.modes.items()}

    def set(self, name, value) -> None:
        stack = self.states()
        for state in stack[::-1]:
            if (name in state.modes or state is stack[0]) and not state.ended():
                break
        if name == "pausing":
            mode.records = _ask
        state.set(name, value)
        if name == "pausing" and not value and len(stack) == 1:
            mode.records = _always

    def enter(self, context, modes: dict) -> None:
        """Begin the region of a context manager, in which some modes are others."""
        owner, flag, guard, before = self.prepared
        while flag is not None and (flag.closed or owner is not context and owner is not type(context)):
            owner, flag, guard, before = before
        if flag is not None:
            self.prepared = before
        if owner is not context:  # `__enter__` was called by hand, or by an ExitStack
            flag = flag or BytesIO()
            self.by_hand = (*[held for held in self.by_hand if not held[1].closed], (context, flag, guard))
        self.begin(flag, modes, guard)

    def begin(self, flag: BytesIO, modes: dict, guard=None) -> None:
        """Begin a region that ends when its flag is closed: inside of `with BytesIO() as flag`."""
        stack = self.stack
        if stack[-1].ended():
            stack = self.states()
        ended = partial(_is_closed, flag)
        self.stack = (*stack, _State(modes if modes.__class__ is Changes else Changes(modes), ended, guard))
        if "pausing" in modes:
            mode.records = ended if modes["pausing"] and mode.records is _always else _ask


class Modes(threading.local):
    """The modes of the thread that asks: attributes, which `declare` declares."""

    def __init__(self):
        self.thread = _Thread()
        self.records = _always  # a C function wherever possible: the fast paths call it while anything is paused

    @property
    def grad(self) -> bool:
        """Whether this thread records ops."""
        return not paused or not self.thread.get("pausing")

    @grad.setter
    def grad(self, value: bool):
        self.thread.set("pausing", not value)


def _ask() -> bool:
    return mode.grad


_defaults: dict = {}


def declare(name: str, default=False, *flags: set) -> None:
    """Make `name` a mode. While it is true, each of `flags` is not empty."""
    _defaults[name] = default
    _flags[name] = flags
    setattr(Modes, name, property(lambda self: self.thread.get(name), lambda self, value: self.thread.set(name, value)))


class Exit:
    """The `__exit__` of a region, for which a `with` block asks before it enters."""

    def __get__(self, context, owner=None):
        thread, flag = mode.thread, BytesIO()
        leave = flag.__exit__
        if thread.by_hand:  # else, as a rule, an ordinary block
            if any([held is context for held, *_ in thread.by_hand]):
                return partial(_leave, context)
            # Asked of the class: by who is about to enter, as an ExitStack is, or by who leaves what it entered before.
            if context is None and any([isinstance(one, owner) and not at.closed for one, at, _ in thread.by_hand]):
                leave = partial(_leave)
        before = thread.prepared  # not nothing where a signal's handler or a `__del__` came before a block's entry
        while before[1] is not None and before[1].closed:
            before = before[3]
        thread.prepared = (owner if context is None else context, flag, ref(leave, flag.__exit__), before)
        return leave


def _leave(context, *exception) -> None:
    """End the region that a context manager began last in this thread, where it was entered by hand."""
    thread = mode.thread
    for place in range(len(thread.by_hand))[::-1]:
        if thread.by_hand[place][0] is context:
            thread.by_hand[place][1].close()
            thread.by_hand = thread.by_hand[:place] + thread.by_hand[place + 1 :]
            return


class Region:
    """Base of context managers that change modes of a thread: `changes` says which."""

    __slots__ = ()

    def changes(self) -> dict:
        raise NotImplementedError(f"{type(self).__name__} must define changes()")

    def __enter__(self):
        mode.thread.enter(self, self.changes())

    __exit__ = Exit()


class region(Region):
    """A region in which the given modes are others."""

    __slots__ = ("_changes",)

    def __init__(self, **changes):
        self._changes = changes

    def __enter__(self):
        mode.thread.enter(self, self._changes)


mode = Modes()
declare("pausing", False, paused)
