"""Several devices of one type in one program: each op is computed on the device of its tensors, as in PyTorch.

An array module computes on a current device, and refuses arrays of another one, or makes new ones in the wrong place.
While a program uses one device, and has made that the current one, nobody looks. From the moment that it uses another,
a hook on all ops makes the device of their tensors the current one while they run; walks backward and steps of
optimizers do the same, node by node and round by round. This costs each call what a hook costs.
"""

from __future__ import annotations

import contextlib
import functools

from plugrad import Tensor, device, get_default_device
from plugrad.extend import OpHook, from_raw
from plugrad.graph.modes import other_walks

_used: set = set()  # devices that have a number, of types of which there are several


def opened(place) -> None:
    """Note that a program uses a device; begin to follow if it is not the current one."""
    _used.add(place)
    moved(place.type)


def moved(type) -> None:
    """Begin to follow if a device that is not the current one of its type is in use."""
    if started() or not any([place.type == type for place in tuple(_used)]):
        return
    current = device(type).backend.current_device()
    if any([place.type == type and place.index != current for place in tuple(_used)]):
        _hook.install()
        other_walks.add(_hook)


def started() -> bool:
    """Whether ops follow the devices of their tensors."""
    return _hook in other_walks


def stop() -> None:
    """Follow no longer, until another device is used: for tests."""
    _hook.remove()
    other_walks.discard(_hook)
    while _used:  # so that the next use is the first one
        place = _used.pop()
        place._backend = None
        place._types.clear()


def on(place):
    """Return a context in which a device is the current one of its type."""
    if place is None or place.index is None or place.backend.on is None:
        return contextlib.nullcontext()
    if place.backend.current_device() == place.index:
        return contextlib.nullcontext()
    return place.backend.on(place.index)


def place_of(value):
    """Return the device, of those that have numbers, of the first tensor or array in a value; None without one."""
    if isinstance(value, Tensor):
        place = value._type.device
        return None if place.index is None else place
    value = getattr(value, "grads", value)  # of several outputs of one op
    if isinstance(value, (list, tuple, dict)):
        places = map(place_of, value.values() if isinstance(value, dict) else value)
        return next((place for place in places if place is not None), None)
    if not hasattr(value, "dtype") or not hasattr(value, "device"):
        return None
    place = from_raw(value).device
    return None if place.index is None else place


def copied(tensor, array):
    """Return a copy of the array of a tensor, on its device."""
    if hasattr(array, "alike"):  # a wrapper's, which has nothing to copy
        return array.alike()
    with on(tensor.device):
        return array.copy() if tensor._type.symbolic else array.copy(order="K")


def slot(p, initial):
    """Return the array of an optimizer's state that `initial(xp, array)` makes for a parameter, on its device."""
    with on(p._type.device):
        return initial(p._type.xp, p._raw)


class _Following(OpHook):
    def around(self, call, run):
        args, kwargs = call.args, call.kwargs
        place = args[0]._type.device if args and isinstance(args[0], Tensor) else None  # mostly this is all
        if kwargs and kwargs.get("device") is not None:
            place = device(kwargs["device"])
        elif place is None or place.index is None:
            place = place_of([args, kwargs]) or get_default_device()
        if place.index is None or place.backend.current_device() == place.index:
            return run()
        with on(place):
            return run()


_hook = _Following()


@functools.cache
def walk(kind):
    """Return a kind of walk backward that makes the device of each node's gradients the current one."""

    class FollowingWalk(kind):
        plain = False

        def run(self, roots, uses=None):
            with contextlib.ExitStack() as self.current:
                self.use([g for _, g in roots])
                super().run(roots, uses)
                captured = getattr(self, "captured", {})
                for edge, g in captured.items():  # so that nobody has to copy them later, elsewhere
                    self.use(g)
                    captured[edge] = g.clone() if isinstance(g, Tensor) else None if g is None else g.copy()

        def use(self, grads):
            place = place_of(grads)
            if place is not None and place.backend.current_device() != place.index:
                self.current.close()  # which brings the device back that was the current one before the walk
                self.current.enter_context(on(place))

        def pull_hooked(self, node, g):
            self.use(g)
            return super().pull_hooked(node, g)

        def pull(self, node, g):
            self.use(g)
            grads = super().pull(node, g)
            self.use(grads)
            return grads

        def finish(self, leaves):
            while leaves:
                one = leaves[:2]
                del leaves[:2]
                self.use(one)
                super().finish(one)

    return FollowingWalk


class _Round:
    """A round of updates of an optimizer, of parameters of one device."""

    def __init__(self, place, round):
        self.place, self.round = place, round

    def __getattr__(self, name):
        return getattr(self.round, name)

    def take(self):
        with on(self.place):
            self.round.take()


def prepared(prepare, optimizer, group, new) -> list:
    """Return the rounds that `prepare(optimizer, group, new)` makes of a group's parameters, device by device."""
    rounds, devices = [], {}
    for p in group["params"]:
        devices.setdefault(p._type.device, []).append(p)
    for place, params in devices.items():
        with on(place):
            rounds += [_Round(place, one) for one in prepare(optimizer, {**group, "params": params}, new)]
    return rounds
