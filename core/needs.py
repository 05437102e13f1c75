"""The ops that the core itself calls, and what for: whatever plugins are installed must bring them."""

from __future__ import annotations

from plugrad import registry

NEEDED = {
    "empty": "Tensor(2, 3), and parameters without data",
    "empty_like": "Module.to_empty",
}


def op(name: str):
    """Return the record of an op that the core needs; RuntimeError if no plugin brings it."""
    try:
        return registry.op(name)
    except registry.AmbiguousNameError:
        raise
    except AttributeError as error:
        raise RuntimeError(
            f"plugrad itself needs the op {name!r} for {NEEDED[name]}, and no plugin brings it: {error}"
        ) from error
