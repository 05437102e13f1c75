"""Grad modes and the other modes of a thread: recording, inference, anomaly detection, saved-tensor hooks."""

from __future__ import annotations

import itertools
import threading

from plugrad.devices.device import on_default_device
from plugrad.registry.events import guarded_settings

tick = itertools.count(1).__next__

# Raised above zero while anything rare is on (anomaly mode, saved-tensor hooks, op hooks): the one truth test of the
# fast path of every op.
special = 0
_special_lock = threading.Lock()


def count_special(step: int) -> None:
    """Tell the fast paths that one more (+1) or one fewer (-1) rare mode is on."""
    global special
    with _special_lock:
        special += step


# Raised above zero while new tensors may have to be made elsewhere than on the CPU: `with device(...)`,
# `set_default_device`.
elsewhere = 0


def count_elsewhere(step: int) -> None:
    """Tell the factories that one more (+1) or one fewer (-1) default device is set."""
    global elsewhere
    with _special_lock:
        elsewhere += step


on_default_device.append(count_elsewhere)

# Raised above zero while a function mode or a hook on ops is on, and for good once a tensor of an overriding class
# exists: what calls that have no fast path, or would hide the op from a hook, ask.
watched = 0
installed_hooks: tuple = ()  # hooks on ops that act in every thread


def count_watched(step: int) -> None:
    """Tell all paths that one more (+1) or one fewer (-1) mode or hook wants to see calls."""
    global watched
    with _special_lock:
        watched += step
    count_special(step)
    count_elsewhere(step)


class _Leaf:
    """Marks, as a tensor's edge, a tensor that requires grad and was not made by an op."""

    def __repr__(self):
        return "LEAF"


LEAF = _Leaf()


# Above zero while any thread records nothing: the fast paths ask for their own thread's mode only then.
paused = 0


class _Mode(threading.local):
    _grad = True
    inference = False
    anomaly = False
    check_nan = True
    walk = None  # walks backward in place of the plain walks: f(roots, retain, on_tensors, targets) -> captured
    saved_hooks: tuple = ()
    function_modes: tuple = ()
    dispatch_modes: tuple = ()
    op_hooks: tuple = ()
    depth = 0  # of the call that hooks see
    in_hook = False
    no_override = False  # whether the overrides of classes are not asked

    @property
    def grad(self) -> bool:
        """Whether this thread records ops."""
        return self._grad

    @grad.setter
    def grad(self, value: bool):
        global paused
        if value is not self._grad:
            self._grad = value
            with _special_lock:
                paused += -1 if value else 1


mode = _Mode()


def _set_grad(value) -> None:
    mode.grad = value


guarded_settings.append(("the grad mode", lambda: mode.grad, _set_grad))


# ---------------------------------------------------------------------------------------------------- grad modes


class ModeContext:
    """A context manager, usable as a decorator, that sets the grad mode."""

    __slots__ = ("_previous",)
    _value = True

    def __new__(cls, mode=None, **options):
        # A function is decorated: it is written as `@no_grad`, without parentheses.
        return cls()(mode) if callable(mode) else object.__new__(cls)

    def __init__(self):
        self._previous = []

    def __enter__(self):
        self._previous.append(mode.grad)
        mode.grad = self._value

    def __exit__(self, *exc):
        mode.grad = self._previous.pop()

    def __call__(self, function):
        import functools
        import inspect

        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args, **kwargs):
                # The mode is set only while the generator runs, never between two of its values.
                with self.clone():
                    source = function(*args, **kwargs)
                    value = next(source, ModeContext)
                while value is not ModeContext:
                    sent = yield value
                    with self.clone():
                        try:
                            value = source.send(sent)
                        except StopIteration:
                            return

            return generator

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapper

    def clone(self):
        """Return a fresh context of the same kind."""
        return type(self)()


class no_grad(ModeContext):
    """Record nothing inside; a context manager or a decorator.

    >>> import plugrad as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    __slots__ = ()
    _value = False


class enable_grad(ModeContext):
    """Record again inside of `no_grad`; a context manager or a decorator."""

    __slots__ = ()
    _value = True


class set_grad_enabled(ModeContext):
    """Switch recording on or off, at once and, as a context manager, until the block ends."""

    __slots__ = ("_value",)

    def __init__(self, mode):
        self._value = bool(mode)
        self._previous = [globals()["mode"].grad]
        globals()["mode"].grad = self._value

    def __enter__(self):
        mode.grad = self._value

    def __call__(self, function):
        mode.grad = self._previous.pop()  # as a decorator it acts on the calls, not here
        return super().__call__(function)

    def clone(self):
        return set_grad_enabled(self._value)


def _count_inference(on: bool) -> None:
    """Send ops and factories to the general path while the mode is on, where their results are marked."""
    count_special(+1 if on else -1)
    count_elsewhere(+1 if on else -1)


class inference_mode(ModeContext):
    """Record nothing inside, and mark the results so that they can't enter a graph later."""

    __slots__ = ("_on",)

    def __init__(self, mode=True):
        self._on, self._previous = bool(mode), []

    def __enter__(self):
        self._previous.append((mode.grad, mode.inference))
        if self._on is not mode.inference:
            _count_inference(self._on)
        if self._on:
            mode.grad = False
        elif mode.inference:
            mode.grad = True
        mode.inference = self._on

    def __exit__(self, *exc):
        was = mode.inference
        mode.grad, mode.inference = self._previous.pop()
        if was is not mode.inference:
            _count_inference(mode.inference)

    def clone(self):
        return inference_mode(self._on)


def is_grad_enabled() -> bool:
    """Whether ops on tensors that require grad are being recorded."""
    return mode.grad


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` is on."""
    return mode.inference


class detect_anomaly:
    """Record the forward stack of every op, show it when its backward fails, and stop at NaN gradients."""

    def __init__(self, check_nan=True):
        self._wanted = (True, bool(check_nan))

    def __enter__(self):
        self._previous = mode.anomaly, mode.check_nan
        mode.anomaly, mode.check_nan = self._wanted
        count_special(+1)

    def __exit__(self, *exc):
        mode.anomaly, mode.check_nan = self._previous
        count_special(-1)


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off, at once and, as a context manager, until the block ends."""

    def __init__(self, mode, check_nan=True):
        super().__init__(check_nan)
        self._wanted = (bool(mode), bool(check_nan))
        super().__enter__()

    def __enter__(self):
        return None


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return mode.anomaly


class saved_tensors_hooks:
    """Pass every tensor that is saved for backward through `pack_hook`, and back through `unpack_hook`."""

    def __init__(self, pack_hook, unpack_hook):
        self._hooks = pack_hook, unpack_hook

    def __enter__(self):
        mode.saved_hooks = (*mode.saved_hooks, self._hooks)
        count_special(+1)

    def __exit__(self, *exc):
        mode.saved_hooks = mode.saved_hooks[:-1]
        count_special(-1)
