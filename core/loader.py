"""From entry points to the registry: discovery, loading, and quarantine of what fails.

Two kinds of entry points are read, once, as static metadata. The group `plugrad` names plugin modules that are loaded
with plugrad itself (ours are). A group `plugrad.KIND` (ops, losses, layers, optimizers, ...) promises one name; the
module behind it is imported when that name is first used. A plugin is loaded whole or not at all; the failure of a
guest is kept with its traceback and never reaches `import plugrad`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
import sys
import time
import traceback
import types
import warnings

from plugrad import registry

GROUP = "plugrad"
HOME = {**registry._CLASS_HOME, "ops": "", "kernels": "kernels", "backends": "backends", "cli": "cli"}


class PluginLoadError(ImportError):
    """A name was used whose plugin failed to load; the cause is chained."""


class Plugin:
    """One plugin module of one distribution: what it promised, whether it is loaded, what went wrong."""

    __slots__ = (
        "distribution", "version", "name", "value", "kinds", "promised", "builtin", "status", "stage", "error",
        "traceback", "seconds", "brought", "shadowed", "module",
    )  # fmt: skip

    def __init__(self, distribution, version, name, value, builtin):
        self.distribution, self.version, self.name, self.value, self.builtin = distribution, version, name, value, builtin
        self.kinds, self.promised, self.brought, self.shadowed = set(), [], [], []
        self.status, self.stage, self.error, self.traceback, self.seconds = "not loaded", None, None, None, 0.0
        self.module = None

    @property
    def id(self) -> str:
        """`distribution:name`, unique."""
        return f"{self.distribution}:{self.name}"

    @property
    def namespace(self) -> str:
        """Where the plugin's ops are always found: `plugrad.ops.NAMESPACE`."""
        return re.sub(r"\W", "_", self.distribution.removeprefix("plugrad-").removeprefix("plugrad_"))

    def __repr__(self):
        return f"<Plugin {self.id} {self.version} ({self.status})>"


plugins: dict[str, Plugin] = {}
_by_value: dict[tuple, Plugin] = {}
_manager = None


def normalise(name: str) -> str:
    """Return a distribution's name in the form in which equal names are equal (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def discover() -> None:
    """Read the entry points of all installed distributions; imports nothing."""
    allowed = os.environ.get("PLUGRAD_PLUGINS")
    allowed = None if allowed is None else {normalise(part) for part in allowed.split(",") if part.strip()}
    seen: set = set()
    found = []
    for distribution in importlib.metadata.distributions():
        points = [p for p in distribution.entry_points if p.group == GROUP or p.group.startswith(GROUP + ".")]
        if not points:
            continue
        name = normalise(distribution.metadata["Name"])
        if name in seen:  # a stale or second copy: the first on sys.path is the one that imports
            continue
        seen.add(name)
        found.append((name, distribution.version, points))
    for name, version, points in sorted(found, key=lambda item: (item[0] != "plugrad", item[0])):
        if name != "plugrad" and allowed is not None and name not in allowed:
            continue
        for point in sorted(points, key=lambda p: (p.group, p.name)):
            _note(name, version, point)


def _note(distribution, version, point) -> None:
    builtin = distribution == "plugrad"
    key = (distribution, point.value)
    plugin = _by_value.get(key)
    if plugin is None:
        plugin = _by_value[key] = Plugin(distribution, version, point.name, point.value, builtin)
        if plugin.id in plugins:
            plugin.name = f"{point.group.removeprefix('plugrad.')}.{point.name}"
        plugins[plugin.id] = plugin
    if point.group == GROUP:
        plugin.kinds.add("plugin")
        return
    kind = point.group.removeprefix(GROUP + ".")
    plugin.kinds.add(kind)
    plugin.promised.append((kind, point.name))
    if kind == "backends":
        registry.backends.setdefault(point.name, registry.Entry("backends", point.name, None, plugin))
    elif kind == "ops":
        namespaced = f"ops.{plugin.namespace}.{point.name}"
        for dotted in (point.name, f"Tensor.{point.name}", namespaced, f"nn.functional.{point.name}"):
            registry.claims.setdefault(dotted, []).append(plugin)
        from plugrad.tensor import install_inplace, install_method

        install_method(point.name)
        install_inplace(point.name)
    elif kind in HOME:
        registry.claims.setdefault(f"{HOME[kind]}.{point.name}", []).append(plugin)


def load_eager() -> None:
    """Load the plugins of the group `plugrad`: ours, which must not fail, then those of guests, which may."""
    for plugin in list(plugins.values()):
        if "plugin" not in plugin.kinds:
            continue
        if plugin.builtin:
            load(plugin)
            continue
        try:
            load(plugin)
        except PluginLoadError:
            if os.environ.get("PLUGRAD_STRICT") == "1":
                raise
    failed = [plugin for plugin in plugins.values() if plugin.error is not None]
    if failed:
        first = failed[0]
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        warnings.warn(
            f"plugrad: plugin {first.id} {first.version} failed at {first.stage}: {first.error!r}{more}; "
            "see `plugrad plugins --verbose`",
            stacklevel=3,
        )


def load(plugin: Plugin) -> None:
    """Import a plugin, call its hooks, and commit what they return: all of it or nothing."""
    with registry.lock:
        if plugin.status == "loaded":
            return
        if plugin.status == "failed":
            raise PluginLoadError(f"plugin {plugin.id} {plugin.version} failed at {plugin.stage}") from plugin.error
        if plugin.status == "loading":
            raise PluginLoadError(f"plugin {plugin.id} uses a name of its own while it is being loaded")
        plugin.status, started = "loading", time.perf_counter()
        try:
            plugin.stage = "import"
            module_name, _, attribute = plugin.value.partition(":")
            module = importlib.import_module(module_name)
            for part in attribute.split(".") if attribute else ():
                module = getattr(module, part)
            plugin.module = module
            plugin.stage = "API check"
            _check_api(plugin, module)
            plugin.stage = "hooks"
            records = _call_hooks(plugin, module)
            plugin.stage = "registration"
            _check_promises(plugin, records)
            registry.commit(plugin, records)
        except (Exception, SystemExit) as error:
            plugin.status, plugin.error, plugin.traceback = "failed", error, traceback.format_exc()
            if plugin.builtin:
                raise
            raise PluginLoadError(
                f"plugin {plugin.id} {plugin.version} failed at {plugin.stage}: {type(error).__name__}: {error}"
            ) from error
        finally:
            plugin.seconds = time.perf_counter() - started
        plugin.status, plugin.stage = "loaded", None


def _check_api(plugin, module) -> None:
    from plugrad.hookspecs import PLUGRAD_API

    wanted = getattr(module, "plugrad_api", None)
    if wanted is None:
        return
    low, high = wanted
    if not low <= PLUGRAD_API <= high:
        raise ImportError(
            f"it was written for plugin API {low} to {high}, this plugrad has {PLUGRAD_API}: install a version of "
            f"{plugin.distribution} for this plugrad"
        )


def _call_hooks(plugin, module) -> dict:
    """Register the module with pluggy and return {kind: [records]} of this plugin's hooks alone."""
    global _manager
    import pluggy

    from plugrad import hookspecs

    if _manager is None:
        _manager = pluggy.PluginManager("plugrad")
        _manager.add_hookspecs(hookspecs)
    _manager.register(module, name=plugin.id)
    records: dict = {}
    for caller in _manager.get_hookcallers(module) or ():
        kind = caller.name.removeprefix("plugrad_")
        if not caller.has_spec():
            _manager.unregister(module)
            known = [name for name in vars(hookspecs) if name.startswith("plugrad_")]
            raise TypeError(f"unknown hook {caller.name!r}{registry.suggestion(caller.name, known)}")
        if kind == "cli":
            continue  # called by the CLI, with its application
        for implementation in caller.get_hookimpls():
            if implementation.plugin is module:
                records.setdefault(kind, []).extend(implementation.function() or ())
    return records


def _check_promises(plugin, records) -> None:
    """Hold the names that the manifest promises against the records that came."""
    for kind, name in plugin.promised:
        if kind in ("kernels", "cli"):
            continue
        names = [getattr(item, "name", None) or getattr(item, "__name__", "") for item in records.get(kind, ())]
        if name not in names:
            raise TypeError(
                f"its entry point promises {name!r} in plugrad.{kind}, but it brings "
                f"{', '.join(map(repr, names)) or 'nothing of that kind'}"
            )


def cli_hooks():
    """Return pluggy's caller of `plugrad_cli` for the loaded plugins, or None."""
    return None if _manager is None else _manager.hook.plugrad_cli


class LazyModule(types.ModuleType):
    """A module whose further names are looked up in the registry: `plugrad.special`, `plugrad.linalg`..."""

    def __init__(self, home: str, doc: str):
        super().__init__(f"plugrad.{home}", doc)
        self.__dict__["_home"] = home

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = registry.resolve(f"{self._home}.{name}")
        self.__dict__[name] = found
        return found

    def __dir__(self):
        return sorted({*super().__dir__(), *registry.names_in(self._home)})


def namespace_module(home: str, doc: str) -> LazyModule:
    """Return the module of a public namespace, importable as `plugrad.HOME`."""
    module = sys.modules[f"plugrad.{home}"] = LazyModule(home, doc)
    return module
