"""What is asked of a third party's plugin: hooks that can be called, and the records that its manifest promises."""

from __future__ import annotations

import difflib
import inspect
import types

from plugrad.errors import suggestion
from plugrad.registry import KINDS, hookspecs
from plugrad.registry.entry_points import GROUP

_HOOK_NAMES = [known for known, value in vars(hookspecs).items() if known.startswith("plugrad_") and callable(value)]
_AGAIN = "; if its manifest says so by now, install it again: entry points are read from what was installed"


def check_hooks(plugin, named) -> None:
    """Raise TypeError for hooks that can't be called, and functions that look like one and would never be called.

    `named` are pairs of a hook's name in the contract and the function.
    """
    module = plugin.module
    for name, value in vars(module).items() if isinstance(module, types.ModuleType) else ():
        own = isinstance(value, types.FunctionType) and value.__module__ == module.__name__
        if own and name.startswith("plugrad_") and not hasattr(value, "plugrad_impl"):
            for hook in difflib.get_close_matches(name, _HOOK_NAMES, 1, 0.9):
                raise TypeError(f"{name} looks like the hook {hook} but is not marked: write @hookimpl above it")
    if not named:
        raise TypeError(f"{plugin.value!r} has no hooks: mark functions such as plugrad_ops with @hookimpl")
    for name, function in named:
        if name not in _HOOK_NAMES:
            raise TypeError(f"unknown hook {name!r}{suggestion(name, _HOOK_NAMES)}")
        try:
            inspect.signature(function).bind()
        except TypeError as error:
            raise TypeError(f"the hook {name} is called without arguments: {error}") from None


def check_promises(plugin, given) -> None:
    """Check the records that came, each by itself and against the names that the manifest promises.

    What a lazily loaded plugin brings beyond its manifest would appear only once something else of it was used, so
    that is an error, too. An op without public names concerns only the plugin itself, and so does a kernel for an op of
    the plugin's own.
    """
    for kind, items in given.items():
        for item in items:
            KINDS[kind].check(item)
    if not plugin.lazy and not plugin.promised:
        return
    for kind in {*given, *(kind for kind, _ in plugin.promised)} - {"cli"}:
        promised = [name for promised_kind, name in plugin.promised if promised_kind == kind]
        items = [item for item in given.get(kind, ()) if getattr(item, "names", True)]
        if kind == "kernels":
            own = {item.name for item in given.get("ops", ()) if hasattr(item, "name")}
            brought = [item.op_name for item in items if hasattr(item, "op_name") and item.op_name not in own]
        elif kind == "ops":
            brought = [name for item in items for name in _names_to_promise(item, promised)]
        else:
            brought = [getattr(item, "name", None) or getattr(item, "__name__", "") for item in items]
        others = [item.name for item in items if kind == "ops" and hasattr(item, "name")]
        for name in promised:
            if name not in brought and name not in others:
                raise TypeError(
                    f"its entry point promises {name!r} in {GROUP}.{kind}, but it brings "
                    f"{', '.join(map(repr, brought)) or 'nothing of that kind'}{_advice(name, given.get(kind, ()))}"
                )
        for name in brought:
            if plugin.lazy and name not in promised:
                raise TypeError(
                    f'it brings {name!r}, which no entry point promises: add `{_key(name)} = "{plugin.value}"` to '
                    f'[project.entry-points."{GROUP}.{kind}"] of {plugin.distribution}'
                    + _AGAIN
                )


def _key(name: str) -> str:
    return f'"{name}"' if "." in name else name  # in TOML a bare dotted key is a table in a table


def _advice(name, items) -> str:
    """Return what to do about a name that is promised and does not come, as the end of a sentence."""
    public = {getattr(item, "name", None): bool(getattr(item, "names", True)) for item in items}
    if public.get(name) is False:
        return f"; {name!r} has no public name, at=(): take the entry point out"
    hint = name.rstrip("_")
    return f" (in-place forms come with their ops: promise {hint!r})" if public.get(hint) else _AGAIN


def _names_to_promise(op, promised) -> list[str]:
    """Return the names of the entry points that an op needs: others than of plain places in full.

    Of a plain place ("", Tensor, nn.functional) the last part is enough, which stands for all three of them.
    """
    names = getattr(op, "names", None)
    if names is None:
        return [getattr(op, "__name__", repr(op))]
    plain = ("", "Tensor", "nn.functional")
    parts = [(dotted, *dotted.rpartition(".")[::2]) for dotted in names]
    short = [last if home in plain and dotted not in promised else dotted for dotted, home, last in parts]
    return list(dict.fromkeys(short))
