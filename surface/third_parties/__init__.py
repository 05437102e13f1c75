"""How a third party's plugin is loaded: contained, and checked before anything of it is entered."""

from __future__ import annotations

import os
import sys

from plugrad.process_state import Contained, is_whole
from plugrad.registry import loader
from plugrad.registry.claims import choose
from plugrad.registry.loader import hook_name
from plugrad.registry.store import claims, loading, plugins
from plugrad.registry.third_parties.checks import check_hooks, check_promises
from plugrad.registry.third_parties.versions import adapted, negotiate

__all__ = ["cli_hooks", "comparing", "hint", "is_importing", "load", "negotiate", "prepare"]


def load(plugin, gather, commit) -> list[str]:
    """Load a plugin by the two stages of the loader, and return what to warn of."""
    with loading():
        with Contained():
            given = gather(plugin, negotiate, prepare)
        plugin.stage = "registration"
        check_promises(plugin, given)
        return commit(plugin, given)


def comparing() -> bool:
    """Whether this process is `plugrad plugins lock` or `verify`, which must not run what they look at."""
    words = sys.orig_argv[1:]
    script = os.path.basename(words[0]).partition(".")[0] if words else ""
    called = words[:2] == ["-m", "plugrad.cli"] or script == "plugrad"
    return called and any(words[i : i + 2] in (["plugins", "lock"], ["plugins", "verify"]) for i in (1, 2))


def is_importing(plugin) -> bool:
    """Whether the plugin's module, or a package that it is in, is being imported further up in this thread."""
    name = plugin.value.partition(":")[0]
    while name:
        module = sys.modules.get(name)
        if not is_whole(module):
            frame = sys._getframe(1)
            while frame is not None:
                if frame.f_globals is vars(module):
                    return True
                frame = frame.f_back
        name = name.rpartition(".")[0]
    return False


def prepare(plugin, hooks: dict, version: int) -> None:
    """Bring hooks, by the name of the attribute that they are, to the current version, and check them."""
    for attribute, function in hooks.items():
        hooks[attribute] = adapted(hook_name(attribute, function), function, version)
    check_hooks(plugin, [(hook_name(attribute, function), function) for attribute, function in hooks.items()])


def hint(name) -> str:
    """Return what an unknown name may have to do with: plugins that are blocked or failed."""
    for plugin in plugins.values():
        named = name == plugin.namespace or any(name == promised.rpartition(".")[2] for _, promised in plugin.promised)
        reason = plugin.reason if named else None
        hidden = [why for dotted, why in plugin.hidden.items() if name in (dotted, dotted.rpartition(".")[2])]
        if reason or hidden:
            return f" ({plugin.id} brings it, but {reason or hidden[0]})"
    failed = [plugin.id for plugin in plugins.values() if plugin.error is not None]
    more = f" and {len(failed) - 3} more" if len(failed) > 3 else ""
    return f" (these plugins failed to load: {', '.join(failed[:3])}{more}; see `plugrad plugins`)" if failed else ""


def cli_hooks(command: str | None = None) -> list:
    """Return pairs (plugin, its `plugrad_cli` hook): of the loaded plugins, and of the one that promises `command`.

    Raises AmbiguousNameError when several promise it and none is preferred.
    """
    if f"cli.{command}" in claims:
        plugin, _ = choose(f"cli.{command}")
        del claims[f"cli.{command}"]
        loader.load_or_warn(plugin)
    hooks = [] if loader._manager is None else loader._manager.hook.plugrad_cli.get_hookimpls()
    return [(plugins[hook.plugin_name], hook.function) for hook in hooks]
