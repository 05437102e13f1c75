"""Checks of how a subject is documented: its docstring, the examples in it, and its signature."""

from __future__ import annotations

import doctest
import inspect
import re

from plugrad import registry
from plugrad.testing.calls import Skip

COLUMNS = 80
STYLE = {  # what PyTorch calls a parameter that other libraries call otherwise
    "axis": "dim", "keepdims": "keepdim", "epsilon": "eps", "learning_rate": "lr", "seed": "generator",
}  # fmt: skip
MUTABLE = (list, dict, set, bytearray)


def text_of(value) -> str:
    """Return the docstring of an op, or of a class or function itself: not one that it inherits."""
    doc = value.doc if hasattr(value, "doc") and hasattr(value, "kernels") else value.__doc__
    return inspect.cleandoc(doc or "")


def docstring(value, device):
    """The docstring is there, and its first line fits 80 columns."""
    first = text_of(value).splitlines()[:1]
    assert first, "there is no docstring"
    assert len(first[0]) <= COLUMNS, (
        f"the first line of the docstring has {len(first[0])} columns, {COLUMNS} is the limit"
    )


def has_example(value) -> bool:
    """Whether a docstring has examples for doctest."""
    return ">>>" in text_of(value)


def example(value, device):
    """The examples in the docstring run and print what they show."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    examples = doctest.DocTestParser().get_doctest(text_of(value), {}, "the docstring", None, 0)
    report: list = []
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(examples, out=report.append)
    assert not report, "an example of the docstring fails:\n" + "".join(report).strip()


def checks(value) -> dict:
    """Return the checks that every class and function has."""
    chosen = {"docstring": docstring, "example": example, "signature": signature}
    return chosen if has_example(value) else {name: chosen[name] for name in ("docstring", "signature")}


def signature(value, device):
    """The parameters have PyTorch's names, and no default is an object that calls would share."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        raise Skip("it has no signature to inspect") from None
    _check_parameters({p.name: p.default for p in parameters})


def _check_parameters(defaults: dict):
    for name, default in defaults.items():
        usual = STYLE.get(name)
        assert usual is None or usual in defaults, f"argument {name!r}: PyTorch's name for it is {usual!r}"
        assert re.fullmatch(r"_*[A-Za-z0-9][A-Za-z0-9_]*", name), f"argument {name!r} is not a name for a parameter"
        assert not isinstance(default, MUTABLE), (
            f"argument {name!r}: the default {default!r} is one object for all calls; write None or a tuple"
        )
        assert not hasattr(default, "__array__"), f"argument {name!r}: an array as default is one object for all calls"


def schema(op, device):
    """Parameters have PyTorch's names, defaults are values, and every public name leads to the op."""
    if op.names:
        _check_parameters({name: op.defaults.get(name) for name in op.parameters})
    after = False
    for name in op.positional:
        assert name in op.defaults or not after, f"argument {name!r} has no default behind one that has"
        after = name in op.defaults
    for dotted in op.names:
        assert all(part.isidentifier() for part in dotted.split(".")), f"{dotted!r} is not a name"
    if op.provider is not None:
        _check_names(op)


def _check_names(op):
    for dotted in op.names:
        entry = op.provider.brought.get(dotted)
        assert entry is not None and entry.value is op, f"the name {dotted!r} is not registered for it"
        taken = registry.public.get(dotted)
        own = taken is not None and taken is not entry and taken.provider is not None and taken.provider.builtin
        assert not own or op.override, (
            f"plugrad.{dotted} is plugrad's own and stays so: choose another name, or declare override=True"
        )
        if dotted in registry.claims or registry.public.get(dotted) is not entry:
            continue  # another plugin has or claims the name: which one it is, the user says
        function = registry.resolve(dotted)
        assert function in (op.function, op.called.function), f"plugrad.{dotted} is not the function of this op"
