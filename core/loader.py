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

from plugrad import api, registry

GROUP = "plugrad"
HOME = {**registry._CLASS_HOME, "ops": "", "kernels": "kernels", "backends": "backends", "cli": "cli"}


class PluginLoadError(ImportError):
    """A name was used whose plugin failed to load; the cause is chained."""


class PluginWarning(UserWarning):
    """A guest's plugin failed, and plugrad goes on without it."""


class Plugin:
    """One plugin module of one distribution: what it promised, whether it is loaded, what went wrong.

    `status` is "not loaded", "loading", "loaded", "failed" or "blocked"; `brought` has what it registered by dotted
    name, `shadowed` the names among them that plugrad's own have.
    """

    __slots__ = (
        "distribution", "version", "name", "value", "kinds", "promised", "claimed", "builtin", "status", "stage",
        "error", "traceback", "seconds", "brought", "shadowed", "module",
    )  # fmt: skip

    def __init__(self, distribution, version, name, value, builtin):
        self.distribution, self.version, self.name, self.value = distribution, version, name, value
        self.builtin = builtin
        self.kinds, self.promised, self.claimed, self.brought, self.shadowed = set(), [], [], {}, []
        self.status, self.stage, self.error, self.traceback, self.seconds = "not loaded", None, None, None, 0.0
        self.module = None

    @property
    def id(self) -> str:
        """`distribution:name`, unique."""
        return f"{self.distribution}:{self.name}"

    @property
    def namespace(self) -> str:
        """Where the plugin's ops are always found: `plugrad.ops.NAMESPACE`."""
        return re.sub(r"\W", "_", self.distribution.removeprefix("plugrad-"))

    @property
    def lazy(self) -> bool:
        """Whether it is loaded when a name that it promises is used, rather than with plugrad."""
        return "plugin" not in self.kinds

    def __repr__(self):
        return f"<Plugin {self.id} {self.version} ({self.status})>"


plugins: dict[str, Plugin] = {}
_by_value: dict[tuple, Plugin] = {}
_deferred: list[Plugin] = []
_manager = None


def normalise(name: str) -> str:
    """Return a distribution's name in the form in which equal names are equal (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


# ---------------------------------------------------------------------------------------------------- discovery


def discover() -> None:
    """Read the entry points of all installed distributions; imports nothing."""
    allowed = os.environ.get("PLUGRAD_PLUGINS")
    allowed = None if allowed is None else {normalise(part) for part in allowed.split(",") if part.strip()}
    found: dict = {}
    for distribution in importlib.metadata.distributions():
        points = _points(distribution)
        if not points:
            continue
        # Of two copies the first on sys.path is the one that imports, but an .egg-info folder is what a build left
        # in a source tree, and may be stale.
        metadata = distribution.read_text("METADATA")
        stale = metadata is None
        metadata = metadata or distribution.read_text("PKG-INFO") or ""
        described = dict(re.findall(r"^(Name|Version):\s*(\S+)", metadata, re.M))
        name = normalise(described.get("Name", ""))
        if name and (name not in found or (found[name][0] and not stale)):
            found[name] = (stale, described.get("Version", "unknown"), points)
    for name in sorted(found, key=lambda name: (name != "plugrad", name)):
        _, version, points = found[name]
        blocked = name != "plugrad" and allowed is not None and name not in allowed
        for point in sorted(points):
            _note(name, version, point, blocked)


def _points(distribution) -> list[tuple]:
    """Return plugrad's entry points of a distribution as (group, name, value); what can't be read has none.

    The few lines are read here because `importlib.metadata` parses every distribution's file whole, and lets one
    malformed line of anybody's stop everybody.
    """
    try:
        text = distribution.read_text("entry_points.txt") or ""
    except (OSError, ValueError):
        return []
    if f"[{GROUP}" not in text:
        return []
    points, group = [], ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]")
        elif "=" in line and not line.startswith("#") and (group == GROUP or group.startswith(f"{GROUP}.")):
            name, _, value = line.partition("=")
            points.append((group, name.strip(), value.partition("[")[0].strip()))
    return points


def _note(distribution, version, point, blocked) -> None:
    """Enter one entry point: make its plugin known, and claim the names it promises."""
    group, name, value = point
    kind = "plugin" if group == GROUP else group.removeprefix(f"{GROUP}.")
    plugin = _by_value.get((distribution, value))
    if plugin is None:
        plugin = _by_value[distribution, value] = Plugin(distribution, version, name, value, distribution == "plugrad")
        if plugin.id in plugins:
            plugin.name = f"{kind}.{name}"
        plugins[plugin.id] = plugin
    plugin.kinds.add(kind)
    if kind != "plugin":
        plugin.promised.append((kind, name))
    if blocked:
        plugin.status = "blocked"
        return
    for dotted in promised_names(plugin, kind, name):
        plugin.claimed.append(dotted)
        registry.claims.setdefault(dotted, []).append(plugin)
    if kind == "ops":
        from plugrad.tensor import install_inplace, install_method

        install_method(name)
        install_inplace(name)
    elif kind == "backends":
        _note_backend(plugin, name)


def promised_names(plugin, kind, name) -> tuple:
    """Return the dotted public names that an entry point of a kind promises."""
    if kind == "ops":
        return name, f"Tensor.{name}", f"nn.functional.{name}", f"ops.{plugin.namespace}.{name}"
    return (f"{HOME[kind]}.{name}",) if kind in HOME and kind != "backends" else ()


def _note_backend(plugin, name) -> None:
    known = registry.backends.setdefault(name, registry.Entry("backends", name, None, plugin)).provider
    if known.builtin and known is not plugin:
        plugin.shadowed.append(f"backends.{name}")
    elif known is not plugin:
        registry.claims.setdefault(f"backends.{name}", []).append(plugin)


# ---------------------------------------------------------------------------------------------------- loading


def load_eager() -> None:
    """Load the plugins of the group `plugrad`: ours, which must not fail, then those of guests, which may."""
    failed = []
    for plugin in list(plugins.values()):
        if plugin.lazy or plugin.status == "blocked":
            continue
        if plugin.builtin:
            load(plugin)
        elif _being_imported(plugin):  # the program imports the guest itself, and that imports plugrad
            _deferred.append(plugin)
        else:
            try:
                load(plugin)
            except PluginLoadError:
                if os.environ.get("PLUGRAD_STRICT") == "1":
                    raise
                failed.append(plugin)
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        warn(f"{describe_failure(failed[0])}{more}; see `plugrad plugins --verbose`")


def load_deferred() -> bool:
    """Load the plugins that were being imported when plugrad was; return whether there were any."""
    ready = [plugin for plugin in _deferred if not _being_imported(plugin)]
    for plugin in ready:
        _deferred.remove(plugin)
        load_or_warn(plugin)
    return bool(ready)


def load_or_warn(plugin) -> None:
    """Load a plugin that nobody asked for by name: its failure is a warning, or an error under PLUGRAD_STRICT=1."""
    try:
        load(plugin)
    except PluginLoadError as error:
        if os.environ.get("PLUGRAD_STRICT") == "1":
            raise
        warn(str(error))


def warn(message: str) -> None:
    """Give a warning of one line, without the line of source that Python would add."""
    warnings.warn_explicit(f"plugrad: {message}", PluginWarning, "<plugrad>", 0)


def describe_failure(plugin) -> str:
    """Return one line that says which plugin failed, where, and with what."""
    return f"plugin {plugin.id} {plugin.version} failed at {plugin.stage}: {describe(plugin.error)}"


def describe(error) -> str:
    """Return an exception as one line; also one whose own text can't be made."""
    return " ".join(traceback.format_exception_only(error)[-1].split())


def _being_imported(plugin) -> bool:
    module = sys.modules.get(plugin.value.partition(":")[0])
    return getattr(getattr(module, "__spec__", None), "_initializing", False)


def load(plugin: Plugin) -> None:
    """Import a plugin, call its hooks, and commit what they return: all of it or nothing.

    Raises PluginLoadError, again at every further call, when a guest fails; the errors of ours pass through.
    """
    with registry.lock:
        if plugin.status == "loaded":
            return
        if plugin.status == "failed":
            raise PluginLoadError(describe_failure(plugin)) from plugin.error
        if plugin.status == "loading" or _being_imported(plugin):
            raise PluginLoadError(f"plugin {plugin.id} uses a name of its own while it is being imported")
        plugin.status, started = "loading", time.perf_counter()
        try:
            _run_stages(plugin)
        except BaseException as error:
            if _manager is not None and _manager.has_plugin(plugin.id):
                _manager.unregister(name=plugin.id)
            if isinstance(error, KeyboardInterrupt):
                plugin.status = "not loaded"
                raise
            plugin.status, plugin.error, plugin.traceback = "failed", error, traceback.format_exc()
            if plugin.builtin:
                raise
            raise PluginLoadError(describe_failure(plugin)) from error
        finally:
            plugin.seconds = time.perf_counter() - started
        plugin.status, plugin.stage = "loaded", None


def _run_stages(plugin) -> None:
    plugin.stage = "import"
    module_name, _, attribute = plugin.value.partition(":")
    module = importlib.import_module(module_name)
    for part in attribute.split(".") if attribute else ():
        module = getattr(module, part)
    plugin.module = module
    plugin.stage = "API check"
    wanted = api.CURRENT if plugin.builtin else getattr(module, "plugrad_api", None)
    version = api.negotiate(wanted, plugin.distribution)
    plugin.stage = "hooks"
    records = _call_hooks(plugin, _Hooks(module, version))
    plugin.stage = "registration"
    records = api.adapt_records(records, version)
    _check_promises(plugin, records)
    registry.commit(plugin, records)


class _Hooks:
    """The hook implementations of a plugin and nothing else: pluggy inspects every attribute of what it registers."""

    def __init__(self, module, version):
        members = vars(module) if isinstance(module, types.ModuleType) else {n: getattr(module, n) for n in dir(module)}
        for name, value in members.items():
            if hasattr(value, "plugrad_impl"):
                self.__dict__[name] = api.adapt_hook(value.plugrad_impl.get("specname") or name, value, version)

    def __dir__(self):
        return list(self.__dict__)


def _call_hooks(plugin, hooks) -> dict:
    """Register the hooks with pluggy and return {kind: [records]} of this plugin's hooks alone."""
    global _manager
    import pluggy

    from plugrad import hookspecs

    if _manager is None:
        _manager = pluggy.PluginManager("plugrad")
        _manager.add_hookspecs(hookspecs)
    _manager.register(hooks, name=plugin.id)
    records: dict = {}
    for attribute, function in vars(hooks).items():
        name = function.plugrad_impl.get("specname") or attribute
        if not getattr(_manager.hook, name).has_spec():
            known = [known for known in vars(hookspecs) if known.startswith("plugrad_")]
            raise TypeError(f"unknown hook {name!r}{registry.suggestion(name, known)}")
        if name != "plugrad_cli":  # that one the CLI calls
            records.setdefault(name.removeprefix("plugrad_"), []).extend(function() or ())
    return records


def _check_promises(plugin, records) -> None:
    """Hold the names that the manifest promises against the records that came.

    What a lazily loaded plugin brings beyond its manifest would appear only once something else of it was used, so
    that is an error, too. An op without public names is nobody else's business.
    """
    for kind in {*records, *(kind for kind, _ in plugin.promised)} - {"kernels", "cli"}:
        promised = [name for promised_kind, name in plugin.promised if promised_kind == kind]
        items = [item for item in records.get(kind, ()) if getattr(item, "names", True)]
        brought = [getattr(item, "name", None) or getattr(item, "__name__", "") for item in items]
        for name in promised:
            if name not in brought:
                raise TypeError(
                    f"its entry point promises {name!r} in {GROUP}.{kind}, but it brings "
                    f"{', '.join(map(repr, brought)) or 'nothing of that kind'}"
                )
        for name in brought:
            if plugin.lazy and name not in promised:
                raise TypeError(
                    f"it brings {name!r}, which no entry point promises: add `{name} = \"{plugin.value}\"` to "
                    f'[project.entry-points."{GROUP}.{kind}"] of {plugin.distribution}'
                )


def cli_hooks(command: str | None = None) -> list:
    """Return pairs (plugin, its `plugrad_cli` hook): of the loaded plugins, and of those that promise `command`.

    None means any command.
    """
    promises = [f"cli.{command}"] if command else [dotted for dotted in registry.claims if dotted.startswith("cli.")]
    for dotted in promises:
        for plugin in registry.claims.pop(dotted, ()):
            load_or_warn(plugin)
    hooks = [] if _manager is None else _manager.hook.plugrad_cli.get_hookimpls()
    return [(plugins[hook.plugin_name], hook.function) for hook in hooks]


class LazyModule(types.ModuleType):
    """A module whose further names are looked up in the registry: `plugrad.special`, `plugrad.linalg`..."""

    def __init__(self, home: str, doc: str):
        super().__init__(f"plugrad.{home}", doc)
        self.__dict__["_home"] = home

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        dotted = f"{self._home}.{name}"
        if self._home == "ops" and registry.names_in(dotted):
            return namespace_module(dotted, f"Ops of the namespace {name!r}.")
        found = self.__dict__[name] = registry.resolve(dotted)
        return found

    def __dir__(self):
        return sorted({*super().__dir__(), *registry.names_in(self._home)})


def namespace_module(home: str, doc: str) -> LazyModule:
    """Return the module of a public namespace, importable as `plugrad.HOME`."""
    module = sys.modules.get(f"plugrad.{home}")
    if module is None:
        module = sys.modules[f"plugrad.{home}"] = LazyModule(home, doc)
    return module
