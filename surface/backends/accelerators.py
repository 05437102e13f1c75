"""Which device a device given as a number means."""

from __future__ import annotations

from plugrad import device, registry
from plugrad.registry import preferences

_accelerator: str | None = None


def accelerator() -> str:
    """Return the device type that a number, as in `device(0)`, means.

    That is the one which `plugrad.backends.set_accelerator`, PLUGRAD_ACCELERATOR or `accelerator` in pyproject.toml
    names, else "cuda" where it can run, else the only other one that can. RuntimeError if there is none, or several.
    """
    chosen = _accelerator or preferences.setting("accelerator")[0]
    if chosen is not None:
        return device(chosen).type
    first = ["cuda"] if "cuda" in registry.backends else []
    others = [name for name in sorted(registry.backends) if name not in ("cpu", "cuda")]
    reasons = {}
    for names in first, others:
        reasons.update({name: registry.reason(name) for name in names})
        able = [name for name in names if reasons[name] is None and not registry.backend(name).symbolic]
        if len(able) > 1:
            raise RuntimeError(
                f"there are several accelerators here, {' and '.join(able)}: write device='{able[0]}:0', or choose one "
                f"with plugrad.backends.set_accelerator({able[0]!r})"
            )
        if able:
            return able[0]
    told = "".join(f"; {name}: {reason}" for name, reason in reasons.items() if reason)
    raise RuntimeError(f"there is no accelerator here, use device='cpu'{told}")


def set_accelerator(name: str | None) -> None:
    """Say which device type a number means; None leaves it to the rule again."""
    global _accelerator
    _accelerator = None if name is None else device(name).type
