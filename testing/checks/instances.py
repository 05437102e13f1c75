"""Checks that an option is the instance's own: another instance with another value of it changes nothing."""

from __future__ import annotations

import inspect

from plugrad.testing.calls import Skip, same_bits

MISSING = object()


def others(cls, given, least=0):
    """Yield (name, value, Sample arguments by name) for numbers and bools among a constructor's options.

    `given` is a Sample of the constructor's arguments, which begin at its parameter number `least`.
    """
    parameters = list(inspect.signature(cls).parameters.values())[least:]
    said = {**dict(zip([p.name for p in parameters], given.args, strict=False)), **given.kwargs}
    for place, parameter in enumerate(parameters):
        value = said.get(parameter.name, parameter.default)
        if isinstance(value, (bool, int, float)) and value is not parameter.empty and place >= len(given.args):
            changed = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else 0.75 * value
            yield parameter.name, changed or 0.25, {**given.kwargs, parameter.name: changed or 0.25}


def assert_own(cls, given, label, construct, outcome, least=0):
    """Assert that each option is read from the instance that was given it, neither from another nor from the class.

    Args:
        construct: makes an instance of keyword arguments in the place of those of `given`.
        outcome: returns tensors, all that comes of an instance.
    """
    done = 0
    for name, value, kwargs in others(cls, given, least):
        try:
            construct(kwargs)
        except Exception:  # options may exclude each other, or have other bounds
            continue
        plain = outcome(construct(given.kwargs))
        mine, other = construct(given.kwargs), construct(kwargs)
        try:
            changed = outcome(other)
        except Exception:  # what it is given does not suit these options
            changed = None
        where = f"{label}, argument {name!r}={value!r}"
        assert all(map(same_bits, outcome(mine), plain)), (
            f"{where} of one instance changes what another one does: keep options in `self`, not in the class or module"
        )
        if changed is not None and len(changed) == len(plain) and all(map(same_bits, changed, plain)):
            held = _of_class(cls, other, name)
            assert held is MISSING or held == value, (
                f"{where} changes nothing, and {cls.__name__}.{name} is {held!r}: the class's own is used in its place"
            )
        done += 1
    if not done:
        raise Skip("its constructor has no numbers and bools that can be chosen")


def _of_class(cls, instance, name):
    """Return what an attribute is where the class alone has it, as a plain value."""
    value = inspect.getattr_static(cls, name, MISSING)
    return value if isinstance(value, (bool, int, float)) and name not in vars(instance) else MISSING
