"""Extra state that a file could not hold, or only as a pickle that `load` refuses, is named when a state is made."""

from __future__ import annotations

import pickle
import warnings

from plugrad.serialization.safe_globals import trusted_names
from plugrad.serialization.writing import Writer, class_name, path_of

__all__ = ["save"]


def save(module, destination, key: str) -> None:
    """Enter a module's extra state, with a warning for each thing in it that is neither data nor trusted.

    It is no error: the state may stay in memory, or be loaded with `weights_only=False`.
    """
    state = destination[key] = module.get_extra_state()
    writer = Writer(pickle, 4)
    try:
        writer.tree(state)
    except (ValueError, RecursionError) as error:
        _warn(f"can't be saved: {error}", key)
        return
    trusted = trusted_names()
    for each in writer.objects:
        name = class_name(type(each))
        if trusted.get(name) is not type(each):
            place = path_of(each, state)
            _warn(
                f"is of type {name}, which is no data: save() pickles it if it can be pickled, and load() refuses it "
                f"unless its class is trusted (torch.serialization.add_safe_globals([{type(each).__name__}])) or "
                "weights_only=False; give tensors, numbers, text and containers of them",
                f"{key}.{place}" if place else key,
            )


def _warn(message, key) -> None:
    warnings.warn(f"the extra state at {key!r} {message}", UserWarning, stacklevel=2)
