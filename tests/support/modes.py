"""What modes a thread is in, of all that are declared."""

from plugrad import regions
from plugrad.graph import modes


def modes_on() -> dict:
    """Return the modes of this thread that are not as they are at first, by name."""
    return {name: value for name, value in modes.mode.thread.all().items() if value != regions._defaults[name]}


def flags() -> dict:
    """Return which flags are up that the fast paths ask for; that of overriding classes stays up for good."""
    sets = {name: getattr(modes, name) for name in ("paused", "special", "elsewhere", "watched")}
    return {name: bool(flag - {"overriding classes"}) for name, flag in sets.items()}
