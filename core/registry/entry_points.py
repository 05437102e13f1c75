"""What is installed: plugins, by the entry points of their distributions. Nothing is imported here.

Two kinds of entry points are read, once, as static metadata. The group `plugrad` names plugin modules that are loaded
with plugrad itself (ours are). A group `plugrad.KIND` (ops, losses, layers, optimizers, ...) promises one name; the
module behind it is imported when that name is first used.
"""

from __future__ import annotations

import importlib
import os
import re
import warnings

from plugrad.errors import describe, suggestion, warn
from plugrad.interrupts import process_lock
from plugrad.registry import distributions, events, preferences
from plugrad.registry.kinds import HOMES, PLACES, is_name, no_place
from plugrad.registry.preferences import normalise
from plugrad.registry.store import Table, backends, claims, ops, plugins, public

GROUP = "plugrad"


class Plugin:
    """A distribution's plugin module: its promises, whether it is loaded, its failure.

    `status` is "not loaded", "loading", "loaded", "failed" or "blocked"; `reason` says why it is blocked, and `hidden`
    why single names of it are. `brought` has what it registered, by dotted name.
    """

    __slots__ = (
        "distribution", "version", "name", "value", "kinds", "promised", "claimed", "builtin", "status", "stage",
        "error", "traceback", "seconds", "brought", "module", "reason", "hidden", "lock", "indexed",
    )  # fmt: skip

    def __init__(self, distribution, version, name, value, builtin):
        self.distribution, self.version, self.name, self.value = distribution, version, name, value
        self.builtin, self.indexed = builtin, False  # indexed: of ours, and what it brings is known beforehand
        self.kinds, self.promised, self.claimed, self.brought, self.hidden = set(), [], [], Table(), {}
        self.status, self.stage, self.error, self.traceback, self.seconds = "not loaded", None, None, None, 0.0
        self.module = self.reason = None
        self.lock = process_lock(self._loads_nowhere)

    @property
    def id(self) -> str:
        """`distribution:name`, unique."""
        return f"{self.distribution}:{self.name}"

    @property
    def namespace(self) -> str:
        """Where the plugin's ops are always found: `plugrad.ops.NAMESPACE`."""
        short = self.distribution.removeprefix("plugrad-")
        taken = short != self.distribution and short in _distributions
        return re.sub(r"\W", "_", self.distribution if taken else short)

    @property
    def lazy(self) -> bool:
        """Whether it is loaded when a promised name is used, rather than with plugrad."""
        return "plugin" not in self.kinds or self.indexed

    def _loads_nowhere(self) -> None:
        if self.status == "loading":
            self.status = "not loaded"

    def fail(self, error, trace=None, stage=None) -> None:
        """Note that it failed, at its present stage or the given one."""
        self.status, self.error, self.traceback = "failed", error, trace or describe(error)
        self.stage = stage or self.stage

    def __repr__(self):
        return f"<Plugin {self.id} {self.version} ({self.status})>"


twice: dict[str, str] = {}  # distribution that is installed several times -> which copy counts
_by_value: dict[tuple, Plugin] = {}
_owners: dict[str, Plugin] = {}  # entry point's value -> the plugin that has it
_distributions: set[str] = set()


def describe_failure(plugin) -> str:
    """Return one line that says which plugin failed, where, and with what."""
    return f"plugin {plugin.id} {plugin.version} failed at {plugin.stage}: {describe(plugin.error)}"


def owner_of(module: str) -> Plugin | None:
    """Return a plugin of the distribution that a module is of, going by packages; None if there is no telling."""
    while module:
        inside = [one for one in plugins.values() if f"{one.value.replace(':', '.')}.".startswith(f"{module}.")]
        if inside:
            return inside[0] if len({one.distribution for one in inside}) == 1 else None
        module = module.rpartition(".")[0]
    return None


class Installed:
    """An installed distribution with plugins: name, version, entry points as (group, name, value), its metadata."""

    __slots__ = ("name", "version", "points", "distribution")

    def __init__(self, name, version, points, distribution):
        self.name, self.version, self.points, self.distribution = name, version, points, distribution

    @property
    def folder(self) -> str:
        """Where it is installed."""
        return os.path.dirname(getattr(self.distribution, "path", None) or str(getattr(self.distribution, "_path", "")))

    @property
    def release(self) -> list:
        """The numbers of its version, in the order of age."""
        return [int(number) for number in re.findall(r"\d+", self.version)]


def installed() -> list[Installed]:
    """Return the installed distributions that have entry points for plugrad: plugrad first, then by name."""
    copies: dict = {}
    for distribution in _distributions_on_path():
        points = _points(distribution)
        if not points:
            continue
        # An .egg-info folder is what a build left in a source tree, and may be stale.
        metadata = text_of(distribution, "METADATA")
        header = "\n" + (metadata or text_of(distribution, "PKG-INFO") or "").partition("\n\n")[0]
        name = normalise(field_of(header, "Name"))
        one = Installed(name, field_of(header, "Version") or "unknown", points, distribution)
        copies.setdefault(name, ([], []))[metadata is None].append(one)
    copies.pop("", None)
    return [_taken(*copies[name]) for name in sorted(copies, key=lambda name: (name != "plugrad", name))]


def _taken(installed, built) -> Installed:
    """Return the copy of a distribution that counts: of those in the first folder on sys.path the newest."""
    one = (installed or built)[0]
    if len(installed) > 1:
        one = max([copy for copy in installed if copy.folder == one.folder], key=lambda copy: copy.release)
    others = [f"{copy.version} in {copy.folder}" for copy in installed if copy is not one]
    if others:
        twice[one.name] = f"{one.version} in {one.folder} counts, {' and '.join(others)} not"
    return one


def _distributions_on_path():
    try:
        yield from distributions.on_path()
    except Exception as error:  # of somebody's own finder
        warn(f"not all installed distributions could be listed: {describe(error)}")


def text_of(distribution, file) -> str | None:
    """Return a metadata file as text, with marks in place of bytes that are not UTF-8; None if there is none."""
    try:
        return distribution.read_text(file)
    except UnicodeDecodeError:  # of importlib.metadata's
        return (distribution._path / file).read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def field_of(header, name) -> str:
    """Return the first word of a field in the header of metadata; "" if it is not there."""
    words = header.partition(f"\n{name}:")[2].partition("\n")[0].split()
    return words[0] if words else ""


def _points(distribution) -> list[tuple]:
    """Return plugrad's entry points of a distribution as (group, name, value).

    The few lines are read here because `importlib.metadata` parses every distribution's file whole, and lets one
    malformed line of anybody's stop everybody.
    """
    text = text_of(distribution, "entry_points.txt") or ""
    if f"[{GROUP}" not in text:
        return []
    points, group, ours = [], "", False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            group = line.strip("[]").strip()
            head, _, kind = group.replace("-", ".").replace("_", ".").partition(".")
            ours = group == GROUP or group.startswith(f"{GROUP}.") or (head == GROUP and kind in HOMES)
        elif ours and "=" in line and line[0] not in "#=":
            name, _, value = line.partition("=")
            points.append((group, name.strip(), value.partition("[")[0].strip()))
    return points


def discover() -> None:
    """Note the plugins of all installed distributions, and claim the names that they promise.

    Raises ImportError if plugrad's own metadata are not there.
    """
    everything = installed()
    _distributions.update(one.name for one in everything)
    if "plugrad" not in _distributions:
        raise ImportError(
            "plugrad is there but not installed: the metadata that list its ops are missing. Install it with `pip "
            "install plugrad`, in a source tree `pip install -e .`; tools that bundle programs have to copy its "
            "metadata (PyInstaller: --copy-metadata plugrad --collect-submodules plugrad)"
        )
    for one in everything:
        for point in sorted(one.points):
            _note(one, *point)
    packages = {re.match(r"[^.:]*", plugin.value)[0] for plugin in plugins.values() if not plugin.builtin}
    if packages:  # their kernels compute with infinities on purpose, too
        others = sorted(re.escape(name) for name in packages if not name.startswith("plugrad_"))
        pattern = rf"(?:{'|'.join(['plugrad', 'plugrad_.*', *others])})(?:[.]|$)"
        warnings.filterwarnings("ignore", category=RuntimeWarning, module=pattern)


def _note(one, group, name, value) -> None:
    """Enter one entry point: make its plugin known, and claim the names it promises."""
    kind = "plugin" if group == GROUP else group.removeprefix(f"{GROUP}.")
    if kind == "index" and one.name == "plugrad":
        return _take_index(importlib.import_module(value).BRINGS)
    plugin = _by_value.get((one.name, value)) or _add(one, kind, name, value)
    plugin.kinds.add(kind)
    if kind != "plugin":
        plugin.promised.append((kind, name))
    if kind not in HOMES and kind != "plugin":
        known = [f"{GROUP}.{known}" for known in HOMES]
        error = TypeError(f"there is no entry point group {group!r}{suggestion(group, known)}")
        plugin.fail(error, stage="discovery")
    wrong = _wrong_name(kind, name)
    if wrong and plugin.status != "blocked":
        plugin.fail(TypeError(f"its entry point {name!r} of {group} {wrong}"), stage="discovery")
    if plugin.status == "blocked" or wrong:
        return
    owner = _owners[value]
    for dotted in promised_names(plugin, kind, name):
        reason = preferences.keeps_out_name(plugin, dotted, name)
        if reason is not None:
            plugin.hidden[dotted] = reason
        elif dotted not in plugin.claimed and (owner is plugin or owner not in claims.get(dotted, ())):
            plugin.claimed.append(dotted)
            claims.setdefault(dotted, []).append(plugin)
            if kind == "backends":
                backends.setdefault(name, None)
            events.publish(events.on_promise, dotted)


def _take_index(brings) -> None:
    """Note what plugins of ours bring, {module: (ops, public names[, names with in-place forms])}, and load none."""
    for value, parts in brings.items():
        plugin, (records, names, *written) = _by_value.get(("plugrad", value)), map(str.split, parts)
        if plugin is not None:
            plugin.indexed = True
            for table, promised in ((ops, records), (public, names)):
                table.promised.update(dict.fromkeys(promised, plugin))
                table.order.update(dict.fromkeys(promised))
            events.publish(events.on_public_names, names)
            for inplace in written:
                events.publish(events.on_written, inplace)


def _wrong_name(kind, name) -> str | None:
    """Return what is wrong with the name of an entry point, as the end of a sentence."""
    parts = name.split(".") if kind in ("ops", "kernels") else [name]
    if kind not in ("plugin", "cli") and not all(map(is_name, parts)):
        return "is not a Python name"
    if kind == "ops" and name.rpartition(".")[0] not in PLACES:
        return f"can't be: {no_place(name)}"
    return None


def _add(one, kind, name, value) -> Plugin:
    """Make the plugin of a distribution's module known, blocked or failed as the case may be."""
    builtin = one.name == "plugrad" and value.startswith("plugrad.plugins.")
    if builtin:
        name = value.removeprefix("plugrad.plugins.").replace(".", "-")
    plugin = _by_value[one.name, value] = Plugin(one.name, one.version, name, value, builtin)
    number = 1
    while plugin.id in plugins:  # another group, or another line, has an entry point of that name
        plugin.name = f"{kind}.{name}" + (f".{number}" if number > 1 else "")
        number += 1
    plugins[plugin.id] = plugin
    if not builtin:
        plugin.reason = preferences.keeps_out(plugin)
    if plugin.reason is not None:
        plugin.status = "blocked"
    elif _owners.setdefault(value, plugin) is not plugin:
        owner = _owners[value]
        loser = (plugin if owner.builtin else owner).distribution
        error = ImportError(
            f"its module {value!r} is also that of {owner.id}: two distributions install one file, and only one "
            f"of them can be there; uninstall one, or keep one out with PLUGRAD_BLOCK={loser}"
        )
        plugin.fail(error, stage="discovery")
    return plugin


def promised_names(plugin, kind, name) -> tuple:
    """Return the dotted public names that an entry point of a kind promises."""
    if kind == "ops" and "." in name:
        return name, f"ops.{plugin.namespace}.{name.rpartition('.')[2]}"
    if kind == "ops":
        return name, f"Tensor.{name}", f"nn.functional.{name}", f"ops.{plugin.namespace}.{name}"
    return (f"{HOMES[kind]}.{name}",) if kind in HOMES else ()
