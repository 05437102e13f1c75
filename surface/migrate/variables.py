"""`Variable`, `volatile`, `.data[0]`, and names whose meaning moved."""

from __future__ import annotations

import ast

from plugrad.migrate.source import dotted, last

_STATES = ("weight", "bias", "grad", "param", "p", "buffer")  # whose `.data[0]` is a row of numbers
_INITS = (
    "uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal sparse"
).split()
_MEAN = {"True": '"mean"', "False": '"sum"'}
_VOLATILE = (
    "volatile=True is gone: put what was computed from that Variable into a block `with torch.no_grad():`, or it is "
    "recorded wherever a parameter takes part"
)


def variable_edits(source):
    """Yield the edits of all older forms but those of Functions."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and last(node.func) == "Variable" and (node.args or node.keywords):
            yield from _variable(source, node)
        elif isinstance(node, ast.Call):
            yield from _call(source, node)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from _item(source, node)
        elif isinstance(node, ast.ImportFrom):
            yield from _import(source, node)


def _variable(source, node):
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    given = dict(zip(("data", "requires_grad", "volatile"), node.args)) | options
    data = given.get("data")
    if data is None or None in options or any(isinstance(argument, ast.Starred) for argument in node.args):
        source.note(node, "a Variable of unpacked arguments: write the tensor itself, and requires_grad_() if asked")
        return
    text = source.operand(data)
    volatile, wanted = (given.get(name) for name in ("volatile", "requires_grad"))
    if _is_true(volatile):
        source.note(node, _VOLATILE)
    if wanted is None or _is_false(wanted) or _is_true(volatile):
        yield source.replace(node, f"{text}.detach()" if _is_true(volatile) else text)
    else:
        fresh = text if isinstance(data, ast.Call) else f"{text}.detach()"
        yield source.replace(node, f"{fresh}.requires_grad_({'' if _is_true(wanted) else source.of(wanted)})")


def _is_true(node) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_false(node) -> bool:
    return isinstance(node, ast.Constant) and node.value in (False, None)


def _item(source, node):
    """Rewrite `loss.data[0]`, the number of a tensor with one element, which has no dimensions today."""
    value = node.value
    if not (isinstance(value, ast.Attribute) and value.attr == "data"):
        return
    if not (isinstance(node.slice, ast.Constant) and node.slice.value == 0 and type(node.slice.value) is int):
        return
    parent = source.parents.get(node)
    further = isinstance(parent, (ast.Attribute, ast.Subscript)) and parent.value is node
    if further or last(value.value).rpartition("_")[2] in _STATES:
        source.note(node, f"{source.of(node)} is left: it is a row, or write .item() where the tensor has one element")
        return
    yield source.replace(node, f"{source.operand(value.value)}.item()")


def _call(source, node):
    name = dotted(node.func)
    own = name.rpartition(".")[2]
    if own in _INITS and (name.startswith("init.") or ".init." in name):
        yield source.replace(node.func, f"{source.of(node.func)}_")
    elif own == "clip_grad_norm" and name != own:
        yield source.replace(node.func, f"{source.of(node.func)}_")
    options = {keyword.arg: keyword for keyword in node.keywords}
    values = {name: _constant(options[name].value) for name in ("size_average", "reduce") if name in options}
    if values and "reduction" not in options and None not in values.values():
        meaning = '"none"' if values.get("reduce") == "False" else _MEAN[values.get("size_average", "True")]
        first, *others = [options[name] for name in values]
        yield source.replace(first, f"reduction={meaning}")
        for other in others:
            start, end = source.span(other)
            before = source.text[:start].rstrip()
            yield len(before) - before.endswith(","), end, ""


def _constant(node) -> str | None:
    return str(node.value) if isinstance(node, ast.Constant) and type(node.value) is bool else None


def _import(source, node):
    """Take `Variable` out of an import that nothing uses any more."""
    names = [alias.name for alias in node.names]
    uses = [one for one in ast.walk(source.tree) if isinstance(one, ast.Name) and one.id == "Variable"]
    if "Variable" not in names or uses or any(alias.name == "Variable" and alias.asname for alias in node.names):
        return
    if not (node.module or "").endswith(("autograd", "autograd.variable")):
        return
    start, end = source.span(node)
    rest = [source.of(alias) for alias in node.names if alias.name != "Variable"]
    if rest:
        yield start, end, f"from {'.' * node.level}{node.module} import {', '.join(rest)}"
    elif source.text[:start].rpartition("\n")[2].strip() == "" and source.text[end : end + 1] in ("\n", ""):
        body = getattr(source.parents.get(node), "body", ())
        yield start, end + (len(body) > 1), "" if len(body) > 1 else "pass"
