"""Stubs: what is registered, third parties' names too, as type checkers read it.

A tree of `.pyi` files in the layout of PEP 561. Names, parameters and their kinds come from the records and signatures,
types of results from calls with the samples.
"""

from __future__ import annotations

import pathlib
import types

import plugrad
from plugrad import registry
from plugrad.testing.stubs.classes import class_lines
from plugrad.testing.stubs.functions import function_lines, text_of
from plugrad.testing.stubs.results import name_of_tuple
from plugrad.torch_modules import exports, imported

__all__ = ["MODULES", "tree", "write"]

MODULES = (
    "", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "optim", "optim.lr_scheduler", "optim.swa_utils",
    "autograd", "autograd.graph", "autograd.forward_ad", "autograd.functional", "linalg", "special", "fft", "masked",
    "signal.windows", "utils", "utils.data", "utils.checkpoint", "func", "random", "cuda", "compiler", "serialization",
    "overrides", "backends", "distributions", "amp", "sparse", "testing", "extend", "registry",
)  # fmt: skip
HEAD = """\
# Written by `plugrad stubs`.
# mypy: disable-error-code="override"
import builtins as _b
import typing as _t

import plugrad as _p
import plugrad.return_types as _r

"""


def write(folder, *, own=False) -> list[str]:
    """Write the stubs as a folder of the package and return their paths; see `tree`."""
    texts = tree(own=own)
    for path, text in texts.items():
        file = pathlib.Path(folder) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return list(texts)


def tree(*, own=False) -> dict[str, str]:
    """Return {path: text} of the stubs of all public modules; only plugrad's own names with `own`."""
    for plugin in [one for one in registry.plugins.values() if not own and one.status == "not loaded"]:
        registry.load_or_warn(plugin)  # one that fails has no names afterwards
    modules = {name: _module(name) for name in MODULES}
    modules = {name: module for name, module in modules.items() if module is not None}
    names = {name: _names(name, module, own) for name, module in modules.items()}
    homes: dict = {}  # class -> the first public place that it has
    for home, values in names.items():
        for name, value in values.items():
            if isinstance(value, type) and value.__module__.startswith("plugrad") and value.__name__ == name:
                homes.setdefault(value, f"plugrad.{home}.{name}" if home else f"plugrad.{name}")
    places = {f"plugrad.{home}" for home in names}
    texts = {_path(home): HEAD + _text(home, values, homes, places) for home, values in names.items()}
    for home in names:  # the packages that have no names of their own, as `signal`
        parent = home.rpartition(".")[0]
        if parent and parent not in names:
            children = [other.rpartition(".")[2] for other in names if other.rpartition(".")[0] == parent]
            texts[_path(parent)] = "".join(f"from plugrad.{parent} import {one} as {one}\n" for one in sorted(children))
    return {**texts, _path("return_types"): _tuples(own)}


def _module(name):
    """Return a public module; None if nothing that is installed has it."""
    place = plugrad
    for part in filter(None, name.split(".")):
        try:
            place = getattr(place, part)
        except AttributeError:
            try:
                return imported(f"plugrad.{name}")
            except ModuleNotFoundError:
                return None
    return place


def _path(home) -> str:
    return "/".join([*filter(None, home.split(".")), "__init__.pyi"])


def _names(home, module, own) -> dict:
    """Return the public names of a module that can be had here, and what they are."""
    values = {}
    for name in sorted({*dir(module), *exports(module), *registry.names_in(home)}):
        if not name.isidentifier() or name.startswith("_") or name == "annotations":
            continue
        try:
            entry = registry.public.get(f"{home}.{name}" if home else name)
            if not own or entry is None or entry.provider.builtin:
                values[name] = getattr(module, name)
        except (AttributeError, NotImplementedError, ImportError):  # several bring it, or its plugin does not load
            continue
    return values


def _text(home, values, homes, modules) -> str:
    lines = []
    for name, value in values.items():
        here = f"plugrad.{home}.{name}" if home else f"plugrad.{name}"
        if isinstance(value, types.ModuleType):
            if here in modules:
                lines.append(f"from {here.rpartition('.')[0]} import {name} as {name}")
        elif isinstance(value, type) and homes.get(value) == here:
            lines += class_lines(value, homes)
        elif isinstance(value, type) and value in homes:
            lines.append(_import(homes[value], name))
        elif callable(value) and not isinstance(value, type):
            lines += function_lines(name, value)
        else:
            lines.append(f"{name}: {text_of(type(value), homes)}")
    return "\n".join(lines) + "\n"


def _import(place, name) -> str:
    home, _, last = place.rpartition(".")
    return f"from {home} import {last} as {name}"


def _tuples(own) -> str:
    """Return the stub of `plugrad.return_types`: the named tuples of ops with several results."""
    lines = ["import typing as _t", "", "import plugrad as _p", ""]
    known = {}
    for op in registry.ops.values():
        name = name_of_tuple(op.returns) if not own or op.provider.builtin else None
        if name is not None:
            known.setdefault(name, op.returns._fields)
    for name, fields in sorted(known.items()):
        lines += [f"class {name}(_t.NamedTuple):", *[f"    {field}: _p.Tensor" for field in fields], ""]
    return "\n".join(lines)
