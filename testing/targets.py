"""What a target means: the subjects to check, each with its kind, public name, value and plugin."""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import sys
import traceback

from plugrad import errors, extend, registry
from plugrad.extend.session import kind_of

ORDER = (
    "ops", "kernels", "losses", "layers", "optimizers", "schedulers", "inits", "init_policies", "distributions",
    "backends", "compilers", "formats", "trackers", "hooks",
)  # fmt: skip


class Subject:
    """One thing to check."""

    __slots__ = ("kind", "name", "value", "provider")

    def __init__(self, kind, name, value, provider=None):
        self.kind, self.name, self.value, self.provider = kind, name, value, provider


def subjects_of(target) -> list:
    """Return the subjects of a target; LookupError when there is no such thing."""
    if isinstance(target, (list, tuple)):
        several = [subject for one in target for subject in subjects_of(one)]
        return list({(subject.kind, subject.name): subject for subject in several}.values())
    if not isinstance(target, (str, os.PathLike, type(None))):
        return [subject_of(target)]
    if target is None:
        return _of_plugins([plugin for plugin in registry.plugins.values() if not plugin.builtin])
    target = os.fspath(target)
    if target.endswith(".py"):
        return _of_plugins([load_file(target)])
    known = list(registry.plugins.values())
    for named in (
        [plugin for plugin in known if plugin.id == target],
        [plugin for plugin in known if plugin.distribution == registry.normalise(target)],
    ):
        if named and all(plugin.status == "blocked" for plugin in named):
            raise LookupError(f"{target} is installed, but blocked: nothing of it may be loaded")
        if named:
            return _of_plugins(named)
    return [_by_name(target)]


def _of_plugins(plugins) -> list:
    """Return everything that plugins bring, and a subject for each third-party plugin: whether it loads."""
    subjects: dict = {}
    for plugin in plugins:
        if plugin.status == "blocked":
            continue
        try:
            registry.load(plugin)
        except registry.PluginLoadError:
            subjects[id(plugin)] = Subject("plugins", plugin.id, plugin, plugin)
            continue
        if not plugin.builtin:
            subjects[id(plugin)] = Subject("plugins", plugin.id, plugin, plugin)
        for dotted, entry in plugin.brought.items():
            if entry.kind in ORDER and id(entry.value) not in subjects:
                subjects[id(entry.value)] = _of_entry(dotted, entry)
        for op in registry.ops.values():  # also those without a public name, which serve others
            if op.provider is plugin and id(op) not in subjects:
                subjects[id(op)] = Subject("ops", op.qualname, op, plugin)
    return sorted(subjects.values(), key=lambda subject: (_rank(subject.kind), subject.name))


def _rank(kind) -> int:
    return -1 if kind == "plugins" else ORDER.index(kind)


def _of_entry(dotted, entry) -> Subject:
    name = entry.value.qualname if entry.kind == "ops" else dotted
    return Subject(entry.kind, name, entry.value, entry.provider)


def _by_name(name) -> Subject:
    """Return the subject behind an op's name, a public name, or a class's bare name."""
    name = name.removeprefix("plugrad.").removeprefix("torch.")
    try:
        op = registry.op(name)
        return Subject("ops", op.qualname, op, op.provider)
    except registry.AmbiguousNameError as error:
        raise LookupError(str(error)) from None
    except AttributeError:
        op = None
    entries = _entries()
    exact = [entry for dotted, entry in entries if dotted == name]
    near = exact or [entry for dotted, entry in entries if dotted.rpartition(".")[2] == name]
    values = {id(entry.value): entry for entry in near}
    if len(values) == 1:
        entry = next(iter(values.values()))
        return _of_entry(next(dotted for dotted, one in entries if one.value is entry.value), entry)
    if values:
        places = [dotted for dotted, one in entries if one in near]
        raise LookupError(f"{name!r} may be {' or '.join(places)}: write that")
    promised = registry.find(name) if "." in name else None
    if promised is not None:
        return _of_entry(name, promised)
    hint = "; a package has to be installed first" if "-" in name else errors.suggestion(name, _known_names())
    raise LookupError(f"there is nothing named {name!r} to check{hint}")


def _entries() -> list:
    """Return (dotted name, entry) of all that loaded plugins brought, ops left out; loads those that promise more."""
    for plugin in registry.plugins.values():
        if plugin.status == "not loaded":
            registry.load_or_warn(plugin)
    return [
        (dotted, entry)
        for plugin in registry.plugins.values()
        for dotted, entry in plugin.brought.items()
        if entry.kind != "ops"
    ]


def _known_names() -> set:
    dotted = {*registry.public, *registry.claims, *(name for name, _ in _entries())}
    bare = {name.rpartition(".")[2] for name in dotted}
    return {*dotted, *bare, *registry.plugins, *(plugin.distribution for plugin in registry.plugins.values())}


def subject_of(record) -> Subject:
    """Return a record or class itself as a subject, with the plugin that brought it if there is one."""
    for plugin in registry.plugins.values():
        for dotted, entry in plugin.brought.items():
            if entry.value is record:
                return _of_entry(dotted, entry)
    kind = _kind_of(record)
    name = record.qualname if kind == "ops" else getattr(record, "name", None) or getattr(record, "__name__", "?")
    return Subject(kind, name, record, getattr(record, "provider", None))


def _kind_of(record) -> str:
    """Return the kind of an unregistered record; TypeError when it is none."""
    if isinstance(record, type) and getattr(getattr(record, "op", None), "loss_module", None) is record:
        return "losses"
    if callable(record) and getattr(record, "__name__", "").endswith("_"):
        return "inits"
    return kind_of(record)


# ---------------------------------------------------------------------------------------------------- files


def load_file(path) -> registry.Plugin:
    """Run a Python file and register the records that it defines, for as long as this process lives.

    The file is a plugin module like any other: its hooks are called. One without hooks is searched for records, and one
    that calls `plugrad.extend.register` itself is done with that.

    Raises LookupError when there is no such file, or nothing in it.
    """
    file = pathlib.Path(path).resolve()
    if not file.is_file():
        raise LookupError(f"there is no file {str(path)!r}")
    known = registry.plugins.get(f"{file.name}:{file.stem}")
    if known is not None:
        return known
    own = registry.plugins.get("session:main")
    before = len(own.brought) if own is not None else 0
    name, folder = file.stem, file.parent
    while (folder / "__init__.py").is_file():  # in a package, for its relative imports
        name, folder = f"{folder.name}.{name}", folder.parent
    plugin = registry.Plugin(file.name, "(a file)", file.stem, name, False)
    plugin.kinds.add("plugin")
    spec = importlib.util.spec_from_file_location(name, file)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a finding, as with an installed plugin
        registry.plugins[plugin.id] = plugin
        plugin.stage = "import"
        plugin.fail(error, traceback.format_exc())
        return plugin
    finally:
        sys.path.remove(str(folder))
    own = registry.plugins.get("session:main")
    if own is not None and len(own.brought) > before:  # it registered its records itself
        return own
    registry.plugins[plugin.id] = plugin
    if not any(hasattr(value, "plugrad_impl") for value in vars(module).values()):
        _give_hooks(module, path)
    return plugin


def _give_hooks(module, path) -> None:
    """Let a module without hooks hand over the records that it defines."""
    kinds = [kind for kind in registry.KINDS.values() if kind.base and kind.name != "losses"]  # those come with ops
    records = {kind.name: extend.collect(kind.base, vars(module)) for kind in kinds}
    if not any(records.values()):
        del registry.plugins[f"{pathlib.Path(path).name}:{pathlib.Path(path).stem}"]
        raise LookupError(f"{path} defines no op, layer, optimizer, schedule or backend")
    for kind, items in records.items():
        if items:
            hook = functools.partial(list, items)
            setattr(module, f"plugrad_{kind}", extend.hookimpl(hook, specname=f"plugrad_{kind}"))
