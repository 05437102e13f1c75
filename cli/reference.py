"""The reference of what a plugin's author may write: a page made of signatures and docstrings.

`python -m plugrad.cli.reference > docs/reference.md` writes it anew.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

from plugrad import extend, registry
from plugrad.cli import reference_words as words
from plugrad.compiler import Graph, TracedCall, Value
from plugrad.registry import contract, hookspecs
from plugrad.registry.namespaces import LazyMethod
from plugrad.testing import samples

HEAD = """\
# Reference: what a plugin module may define, and `plugrad.extend`

Written by `python -m plugrad.cli.reference` from the signatures and docstrings that the code has; a test compares.
[The guide for authors](authors.md) shows all of it at work.
"""
TRACED = """\
A compiler is a function `NAME(graph, example_inputs)`. `example_inputs` are the tensors of the first call, in the order
in which they stand in its arguments, those in keywords, lists and dicts included: PyTorch's convention. A program that
takes anything else than tensors one by one is traced by the arguments themselves, which the graph holds while the
compiler runs: `graph.trace(*graph.example_args, **graph.example_kwargs)`. What the compiler returns is called with
arguments of that structure.
"""
WHOLE = ("Module", "Parameter", "Generator", "Kernel", "Op")  # whose methods are PyTorch's, or described elsewhere
APPEARS = {
    "cli": "`plugrad NAME`", "compilers": '`compile(backend="NAME")`', "backends": '`device="NAME"`', "kernels": "",
}  # fmt: skip


def page() -> str:
    """Return the page, as Markdown."""
    parts = [HEAD, *_module(), *_families(), *_declarations(), *_samples(), *_classes(), *_compilers(), *_names()]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _module():
    yield "## A plugin module\n\nHooks take no arguments, are marked with `@hookimpl`, and return lists.\n"
    rows = []
    for name, hook in vars(hookspecs).items():
        kind = name.removeprefix("plugrad_")
        if name != kind and callable(hook):
            rows.append((f"`{name}`", inspect.getdoc(hook), f"`plugrad.{kind}`", _home(kind)))
    yield _table(("function", "what it does", "entry points", "public in"), rows)
    yield (
        f"`plugrad_api = ({contract.OLDEST}, {contract.CURRENT})` in the module says with which versions of this "
        f"contract it works: at present there are {contract.OLDEST} to {contract.CURRENT}."
    )
    yield f"### Docstrings\n\n{words.DOCUMENTATION}"


def _home(kind) -> str:
    return APPEARS[kind] if kind in APPEARS else f"`{f'plugrad.{registry.HOMES[kind]}'.rstrip('.')}`"


def options(family: str) -> dict:
    """Return the options of a family's decorator, {name: default}, as its constructor has them."""
    known: dict = {}
    for base in type(getattr(extend, family)(lambda xp, input, other: input)).__mro__[-2::-1]:
        parameters = inspect.signature(base.__init__).parameters.values() if "__init__" in vars(base) else ()
        known.update((one.name, one.default) for one in parameters if one.kind is one.KEYWORD_ONLY)
    return known


def _families():
    yield "## Ops: families and their options\n"
    common = options("op")
    rows = []
    for name, follows in words.FAMILIES.items():
        own = {key: value for key, value in options(name).items() if key not in common or common[key] is not value}
        shown = ", ".join(f"`{key}={_shown(value)}`" for key, value in own.items())
        rows.append((f"`@{name}`", inspect.getdoc(getattr(extend, name)), follows, shown))
    yield _table(("decorator", "kernel", "follows from it", "options and defaults of its own"), rows)
    everything = {key: value for name in words.FAMILIES for key, value in reversed(options(name).items())}
    rows = [(f"`{key}={_shown(common.get(key, everything[key]))}`", words.OPTIONS[key]) for key in sorted(everything)]
    yield _table(("option and default", "meaning"), rows)


def _shown(value) -> str:
    return "..." if value is extend.Op.__init__.__kwdefaults__["vjp"] else repr(value).replace("'", '"')


def _declarations():
    yield "## Ops: declarations beside the kernel\n"
    for name in ("vjp", "kernel", "meta", "writer", "samples", "errors", "onnx"):
        yield from _described(f"@NAME.{name}", getattr(extend.Op, name), 3)
    yield "### What a formula asks for\n\nA gradient formula takes `F`, `g`, and by name what it needs:\n"
    yield _table(("parameter", "what comes"), [(f"`{name}`", text) for name, text in words.FORMULAS.items()])
    yield "\n".join(f"- *{title}.* {text}" for title, text in words.MEANINGS.items())


def _samples():
    yield "## Samples: `make`\n\nThe function under `@NAME.samples` gets it, and so does `samples` of a class.\n"
    yield from _described("make", samples.Maker.__call__, 3)
    for name in ("ints", "bool", "args", "through", "on_copy"):
        yield from _described(f"make.{name}", getattr(samples.Maker, name), 3)


def _classes():
    yield "## Attributes that checks look at\n"
    rows = [(of, f"`{name}`", text) for (of, name), text in words.CLASSES.items()]
    yield _table(("of", "attribute", "meaning"), rows)


def _compilers():
    yield f"## Compilers\n\n{TRACED}"
    for cls in (Graph, TracedCall, Value):
        yield from _class(cls.__name__, cls)


def _names():
    yield "## Names of `plugrad.extend`\n"
    for name in sorted(extend.__all__, key=str.lower):
        value = getattr(extend, name)
        if name in words.FAMILIES:
            continue
        if inspect.isclass(value):
            yield from _class(name, value, name not in WHOLE)
        elif callable(value) and name not in ("F", "hookimpl"):
            yield from _described(name, value, 3)
    yield "### `F`\n\nThe ops by name, as formulas and composites get them, for use outside of these.\n"
    yield "### `hookimpl`\n\nMarks the functions of a plugin module that plugrad calls: `@hookimpl`.\n"
    yield f"### `PLUGRAD_API`\n\nThe newest version of the contract: {extend.PLUGRAD_API}.\n"
    told = "The default of a parameter that may be left out, but not given as None: `def f(F, input, dim=LEFT_OUT)`."
    yield f"### `LEFT_OUT`\n\n{told}\n"


def _class(name, cls, members=True):
    yield from _described(name, cls, 3)
    if not members:
        return
    listed = [f"- `{attribute}`: {' '.join(text.split())}\n" for attribute, text in _attributes(cls)]
    yield from ["".join(listed)] if listed else ()
    for member in [name for name, value in vars(cls).items() if isinstance(value, LazyMethod)]:
        getattr(cls, member)  # puts the function into the class
    for member, value in vars(cls).items():
        function = inspect.unwrap(getattr(value, "__func__", getattr(value, "fget", value)))
        if not member.startswith("_") and inspect.isfunction(function):
            yield from _described(f"{cls.__name__}.{member}", value if isinstance(value, property) else function, 4)


def _attributes(cls):
    """Yield (name, docstring) of the attributes in a class's body that have a string behind them."""
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0].body
    for line, text in zip(body, body[1:]):
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield target.id, text.value.value


def _described(name, value, level):
    """Yield the heading and the docstring of a function, class or property."""
    plain = isinstance(value, property) or (name.startswith("@") and name != "@NAME.vjp")
    signature = "" if plain else _signature(value)
    yield f"{'#' * level} `{name}{signature}`\n"
    yield _markdown(inspect.getdoc(value) or "")


def _signature(value) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [one for one in signature.parameters.values() if one.name not in ("self", "cls")]
    plain = [one.replace(annotation=one.empty) for one in parameters]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<(?:class ')?([\w.]+)[^>]*>", r"\1", text)  # what a default's repr looks like


def _markdown(doc: str) -> str:
    """Return a docstring as Markdown: its arguments as a list, its examples as blocks."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", doc):
        if paragraph.startswith(">>>"):
            parts.append(f"```pycon\n{paragraph}\n```")
        elif paragraph.startswith("Args:"):
            lines = textwrap.dedent(paragraph.partition("\n")[2])
            items = re.split(r"\n(?=\S)", lines)
            parts.append("\n".join(f"- {' '.join(item.split())}" for item in items))
        else:
            parts.append(paragraph)
    return "\n\n".join(parts) + "\n"


def _table(headings, rows) -> str:
    cells = [headings, ["---"] * len(headings), *rows]
    joined = [" | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) for row in cells]
    return "\n".join(f"| {line} |".replace("| --- ", "|---").replace("---|---", "---|---") for line in joined) + "\n"


if __name__ == "__main__":
    print(page(), end="")
