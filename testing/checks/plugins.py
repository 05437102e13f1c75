"""The check of a plugin as a whole: that it loads, and that each name which it promises can be used."""

from __future__ import annotations

from plugrad import registry
from plugrad.registry import third_parties
from plugrad.registry.third_parties.commands import commands_of


def checks(plugin) -> dict:
    """Return the checks of a third-party plugin by name."""
    has_commands = any(kind == "cli" for kind, _ in plugin.promised) or _hooks_of(plugin)
    return {"loading": loads, **({"commands": brings_commands} if has_commands and plugin.error is None else {})}


def _hooks_of(plugin) -> list:
    return [hook for owner, hook in third_parties.cli_hooks() if owner is plugin]


def brings_commands(plugin, device):
    """The hook `plugrad_cli` returns functions and typer applications, with a command for each promised name."""
    hooks = _hooks_of(plugin)
    promised = {dotted.removeprefix("cli.") for kind, dotted in plugin.promised if kind == "cli"}
    assert hooks, f"its entry points promise the command {' and '.join(sorted(promised))}, but it has no plugrad_cli"
    brought: dict = {}
    for hook in hooks:
        for name, command in commands_of(hook).items():
            assert name not in brought, f"plugrad_cli returns two commands named {name!r}"
            brought[name] = command
    missing = sorted(promised - {*brought})
    assert not missing, (
        f"its entry points promise the command {' and '.join(missing)}, but plugrad_cli returns "
        f"{', '.join(sorted(brought)) or 'none'}"
    )
    untold = sorted(name for name, command in brought.items() if not (command.help or "").strip())
    assert not untold, f"the command {' and '.join(untold)} has no docstring, which `plugrad --help` shows"


def loads(plugin, device):
    """The plugin loads, and brings all that its entry points promise."""
    if plugin.error is not None:
        raise AssertionError(f"{registry.describe_failure(plugin)}\n{plugin.traceback}") from plugin.error
    assert plugin.status == "loaded", f"it is {plugin.status}"
    for dotted, entry in plugin.brought.items():
        if entry.kind in ("kernels", "backends") or dotted in registry.claims:
            continue
        if registry.public.get(dotted) is entry:
            assert registry.resolve(dotted) is entry.target(dotted), f"plugrad.{dotted} is not what the plugin brought"
