"""The check of a plugin as a whole: that it loads, and that each name which it promises can be used."""

from __future__ import annotations

from plugrad import registry


def checks(plugin) -> dict:
    """Return the checks of a third-party plugin by name."""
    return {"loading": loads}


def loads(plugin, device):
    """The plugin loads, and brings all that its entry points promise."""
    if plugin.error is not None:
        raise AssertionError(f"{registry.describe_failure(plugin)}\n{plugin.traceback}") from plugin.error
    assert plugin.status == "loaded", f"it is {plugin.status}"
    for dotted, entry in plugin.brought.items():
        if entry.kind in ("kernels", "backends") or dotted in registry.claims:
            continue
        if registry.public.get(dotted) is entry:
            assert registry.resolve(dotted) is entry.target, f"plugrad.{dotted} is not what the plugin brought"
