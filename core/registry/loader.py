"""From entry points to the registry: loading plugins, and quarantine of what fails.

A plugin of the group `plugrad` is loaded with plugrad itself, any other when a name that it promises is first used. It
is loaded whole or not at all; the failure of a third party's is kept with its traceback and never reaches
`import plugrad`.
"""

from __future__ import annotations

import importlib
import os
import time
import traceback
import types

from plugrad.errors import PluginLoadError, stack_is_deep, warn
from plugrad.interrupts import held_back
from plugrad.registry import contract, events, hookspecs, registration
from plugrad.registry.entry_points import Plugin, describe_failure, discover
from plugrad.registry.store import lock, plugins

__all__ = [
    "Plugin", "PluginLoadError", "discover", "load", "load_deferred", "load_eager", "load_or_warn", "plugins",
]  # fmt: skip

_deferred: list[Plugin] = []
_manager = None


def strict() -> bool:
    """Whether the failure of a third party's plugin is to end the program."""
    setting = os.environ.get("PLUGRAD_STRICT", "").strip().lower()
    if setting not in ("", "0", "1", "false", "true", "no", "yes", "off", "on"):
        warn(f"PLUGRAD_STRICT must be 1 or 0, not {setting!r}; it is taken for 1")
    return setting not in ("", "0", "false", "no", "off")


def _load_ours(plugin) -> None:
    try:
        load(plugin)
    except ModuleNotFoundError as error:
        if error.name != plugin.value:
            raise
        raise ImportError(
            f"plugrad's metadata list the module {plugin.value}, which is not there: they are of another version than "
            "the files. Install plugrad again (in a source tree: `pip install -e .`)"
        ) from error


def load_ours() -> None:
    """Load those of our plugins that no name has been asked of yet; but for backends, which may need drivers."""
    for plugin in plugins.values():
        if plugin.builtin and plugin.status == "not loaded" and "backends" not in plugin.kinds:
            _load_ours(plugin)


def load_eager() -> None:
    """Load the plugins of the group `plugrad`: ours, which must not fail, then those of third parties, which may."""
    failed = [plugin for plugin in plugins.values() if plugin.status == "failed"]  # by what their metadata say
    if failed and strict():
        raise PluginLoadError(describe_failure(failed[0])) from failed[0].error
    for plugin in list(plugins.values()):
        if plugin.lazy or plugin.status != "not loaded":
            continue
        if plugin.builtin:
            _load_ours(plugin)
        elif _room().comparing():
            continue
        elif _room().is_importing(plugin):  # the program imports that package itself, and it imports plugrad
            _deferred.append(plugin)
        else:
            try:
                load(plugin)
            except PluginLoadError:
                if strict():
                    raise
                failed.append(plugin)
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        warn(f"{describe_failure(failed[0])}{more}; see `plugrad plugins --verbose`")


def load_deferred() -> bool:
    """Load the plugins that were being imported when plugrad was; return whether there were any."""
    ready = [plugin for plugin in _deferred if not _room().is_importing(plugin)]
    _deferred[:] = [plugin for plugin in _deferred if plugin not in ready]  # another thread may have been faster
    for plugin in ready:
        load_or_warn(plugin)
    return bool(ready)


def load_or_warn(plugin) -> None:
    """Load a plugin unasked: its failure is a warning, an error by PLUGRAD_STRICT=1."""
    try:
        load(plugin)
    except PluginLoadError as error:
        if strict():
            raise
        warn(str(error))


def load(plugin: Plugin) -> None:
    """Import a plugin, call its hooks, and commit all that they return, or nothing.

    Raises PluginLoadError, again at every further call, when a third party's fails; the errors of ours pass through.
    """
    if plugin.status == "loaded":
        return
    # Asked before the lock is taken: another thread may hold that, and wait for the module that this one imports.
    if plugin.status != "failed" and not plugin.builtin and _room().is_importing(plugin):
        raise PluginLoadError(f"plugin {plugin.id} uses a name of its own while it is being imported")
    with plugin.lock:
        if plugin.status == "loaded":
            return
        if plugin.status == "failed":
            raise PluginLoadError(describe_failure(plugin)) from plugin.error
        if plugin.status == "blocked":
            raise PluginLoadError(f"plugin {plugin.id} is not loaded: {plugin.reason}")
        if plugin.status == "loading":
            raise PluginLoadError(f"plugin {plugin.id} uses a name of its own while it is being imported")
        plugin.status, started = "loading", time.perf_counter()
        try:
            messages = _commit(plugin, _gather(plugin)) if plugin.builtin else _room().load(plugin, _gather, _commit)
        except BaseException as error:
            if plugin.status == "loaded":  # what was held back came when all was done
                raise
            if _manager is not None and _manager.has_plugin(plugin.id):
                _manager.unregister(name=plugin.id)
            if isinstance(error, KeyboardInterrupt) or (isinstance(error, RecursionError) and stack_is_deep()):
                raise
            plugin.fail(error, traceback.format_exc())
            if plugin.builtin:
                raise
            raise PluginLoadError(describe_failure(plugin)) from error
        finally:  # where even the handler was broken off, it may load another time
            plugin.status = "not loaded" if plugin.status == "loading" else plugin.status
            plugin.seconds = time.perf_counter() - started
    for message in messages:
        warn(message)


def _room():
    """Return what is only needed where there are plugins of third parties."""
    from plugrad.registry import third_parties

    return third_parties


def _gather(plugin, negotiate=None, prepare=None) -> dict:
    """Import the plugin's module and return what its hooks give.

    For a third party's, `negotiate(plugin)` returns the version of the contract, and `prepare(plugin, hooks, version)`
    comes before the hooks are called.
    """
    plugin.stage = "import"
    module_name, _, attribute = plugin.value.partition(":")
    module = importlib.import_module(module_name)
    for part in attribute.split(".") if attribute else ():
        module = getattr(module, part)
    plugin.module = module
    plugin.stage = "API check"
    version = contract.CURRENT if negotiate is None else negotiate(plugin)
    plugin.stage = "hooks"
    hooks = _Hooks(module)
    if prepare is not None:
        prepare(plugin, vars(hooks), version)
    return contract.adapt_records(_call_hooks(plugin, hooks), version)


def _commit(plugin, given) -> list[str]:
    plugin.stage = "registration"
    with held_back():
        messages = registration.commit(plugin, given)
        plugin.status, plugin.stage = "loaded", None
    return messages


class _Hooks:
    """The hook implementations of a plugin and nothing else: pluggy inspects every attribute of what it registers."""

    def __init__(self, module):
        members = vars(module) if isinstance(module, types.ModuleType) else {n: getattr(module, n) for n in dir(module)}
        for name, value in members.items():
            # Only what can be called is asked: a module of ours would look for a similar name to suggest.
            if callable(value) and hasattr(value, "plugrad_impl"):
                self.__dict__[name] = value

    def __dir__(self):
        return list(self.__dict__)


def hook_name(attribute: str, function) -> str:
    """Return the name in the contract of the hook that is an attribute of a plugin's module."""
    return function.plugrad_impl.get("specname") or attribute


def _call_hooks(plugin, hooks) -> dict:
    """Register the hooks with pluggy and return {kind: [records]} of this plugin's hooks alone."""
    global _manager
    import pluggy

    with lock:  # else what another thread registers at once, in another manager, would be lost to the CLI
        if _manager is None:
            manager = pluggy.PluginManager("plugrad")
            manager.add_hookspecs(hookspecs)
            _manager = manager
    if _manager.has_plugin(plugin.id):  # by another thread of the process that was forked
        _manager.unregister(name=plugin.id)
    _manager.register(hooks, name=plugin.id)
    given: dict = {}
    for attribute, function in vars(hooks).items():
        name = hook_name(attribute, function)
        if name != "plugrad_cli":  # that one the CLI calls
            given.setdefault(name.removeprefix("plugrad_"), []).extend(returned(name, function()))
    return given


def returned(hook: str, records):
    """Return what a hook returned if it is a list or another iterable of records; else raise TypeError."""
    if isinstance(records, (str, dict, type)) or not hasattr(type(records), "__iter__"):
        forgotten = "its `return` is missing" if records is None else "write `return [...]`"
        raise TypeError(f"the hook {hook} must return a list, it returned {records!r}: {forgotten}")
    return records


events.on_needed.append(lambda plugin, quiet: (load_or_warn if quiet else load)(plugin))
events.on_unknown.append(load_deferred)
events.on_missing.append(lambda name: "" if all([p.builtin for p in plugins.values()]) else _room().hint(name))
