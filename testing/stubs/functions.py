"""Functions as type checkers read them: parameters of declared kinds, results as calls gave them."""

from __future__ import annotations

import inspect
import re

from plugrad import registry
from plugrad.arguments import declaration
from plugrad.testing.stubs.results import overloads_of, result_of

ANY = "_t.Any"
KINDS = {
    "tensor": "_p.Tensor", "tensors": "_t.Sequence[_p.Tensor]", "indices": "_t.Sequence[_p.Tensor]",
    "number": "_b.complex | _p.Tensor", "float": "_b.float", "floats": "_t.Sequence[_b.float]", "int": "_b.int",
    "real": "_b.float | _p.Tensor", "place": "_p.Tensor | _b.int",
    "ints": "_t.Sequence[_b.int]", "some_ints": "_t.Sequence[_b.int | None]", "bool": "_b.bool", "str": "_b.str",
    "dtype": "_p.dtype | _b.type[_t.Any]", "device": "_p.device | _b.str | _b.int", "layout": "_p.layout",
    "memory_format": "_p.memory_format", "generator": "_p.Generator",
}  # fmt: skip
OPERAND = "_p.Tensor | _b.complex"
_BUILTIN = ("int", "float", "bool", "str", "bytes", "complex", "list", "dict", "tuple", "set", "type", "object", "slice")
_PLAIN = {name: f"_b.{name}" for name in _BUILTIN} | {"None": "None", "Tensor": "_p.Tensor"}
_FILLED = {"list": f"[{ANY}]", "dict": f"[{ANY}, {ANY}]", "tuple": f"[{ANY}, ...]", "set": f"[{ANY}]", "type": f"[{ANY}]"}
_RESULTS = {  # of functions and methods of the core, which have no samples
    "_p.Tensor": "tensor as_tensor from_numpy asarray from_dlpack frombuffer detach detach_ requires_grad_ as_subclass",
    "None": "backward retain_grad seed_all save set_default_dtype set_default_device set_printoptions set_grad_enabled",
    "_p.Generator": "manual_seed", "_b.int": "initial_seed seed get_num_threads",
    "_p.dtype": "get_default_dtype promote_types result_type",
}  # fmt: skip
_KNOWN = {name: result for result, names in _RESULTS.items() for name in names.split()}


def text_of(cls, homes=None) -> str:
    """Return how a class is written: a builtin one, or one with a public place; else Any."""
    if cls.__module__ == "builtins" and cls.__name__ in _BUILTIN:
        return f"_b.{cls.__name__}{_FILLED.get(cls.__name__, '')}"
    place = (homes or {}).get(cls)
    return ANY if place is None else f"_p{place.removeprefix('plugrad')}"


def written(annotation) -> str:
    """Return an annotation as a stub has it; Any where it needs names that are not public."""
    if annotation is inspect.Parameter.empty:
        return ANY
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    names = set(re.findall(r"[A-Za-z_][\w.]*", text))
    if not text or not names <= _PLAIN.keys() or re.search(r"[^\w\s\[\],|.]", text):
        return ANY
    full = re.sub(r"[A-Za-z_]\w*", lambda match: _PLAIN[match[0]], text)
    return re.sub(r"_b\.(list|dict|tuple|set|type)\b(?!\[)", lambda match: match[0] + _FILLED[match[1]], full)


def kind_of(op, name) -> str:
    """Return the type of an op's parameter."""
    if name not in op.parameters:
        return "_p.Tensor | None" if name == "out" and not op.returns_several else ANY
    declared = declaration(op, name)
    if declared is None:
        lead = name == op.parameters[0]
        if lead and op.sequence:
            return KINDS["tensors"]
        return ANY if not op.broadcasts else KINDS["tensor"] if lead and len(op.tensors) == 1 else OPERAND
    kinds = [KINDS[one] for one in declared.removesuffix("?").removesuffix("...").split("|")]
    return " | ".join([*kinds, *(["None"] if declared.endswith("?") else [])])


def parameters(function, kind, *, method=None, required=None, gone=(), named=None) -> str:
    """Return the parameters of a function as a stub has them; any at all if it shows none.

    Args:
        function: the function.
        kind: function of an `inspect.Parameter` that returns its type.
        method: "self" or "cls" where the first parameter is that.
        required: a parameter that has no default here.
        gone: parameters that are left out.
        named: how the positional arguments that are any number are called where they are one keyword argument.
    """
    try:
        every = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        every = [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]
    parts = [method] if method else []
    if method and every and every[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        every = every[1:]
    before = None
    for one in every:
        if one.name in gone:
            continue
        if before is one.POSITIONAL_ONLY and one.kind is not before:
            parts.append("/")
        if one.kind is one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            parts.append("*")
        before = one.kind
        if named and before is one.VAR_POSITIONAL:
            parts += ["*", f"{named}: {kind(one.replace(name=named, kind=one.KEYWORD_ONLY))}"]
            continue
        mark = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(before, "")
        default = "" if one.default is one.empty or mark or one.name == required else " = ..."
        parts.append(f"{mark}{one.name}: {kind(one)}{default}")
    return ", ".join([*parts, *(["/"] if before is inspect.Parameter.POSITIONAL_ONLY else [])])


def record_of(value):
    """Return the op record that stands behind a public function, or None."""
    record = getattr(value, "__op__", None)
    return registry.ops.get(record.qualname) if record is not None else None


def function_lines(name, value, *, method=None, indent="") -> list[str]:
    """Return the lines of a function in a stub: several overloads where an argument decides on the result."""
    op = record_of(value)
    if op is None:
        result = _KNOWN.get(name) or written(getattr(value, "__annotations__", {}).get("return", inspect._empty))
        inner = parameters(value, lambda one: written(one.annotation), method=method)
        return [f"{indent}def {name}({inner}) -> {result}: ..."]

    def kind(one):
        if one.kind is not one.VAR_POSITIONAL or not op.variadic:
            return kind_of(op, one.name)
        each = KINDS["int" if "ints" in (declaration(op, op.variadic) or "") else "tensor"]
        whole = kind_of(op, one.name)
        return each if one.name == "_more" else whole if whole == ANY else f"{each} | {whole}"

    def line(result, **options):
        if op.variadic and "tensors" in (declaration(op, op.variadic) or ""):  # as many results as there are tensors
            result = re.sub(r"^_b\.tuple\[_p\.Tensor(, _p\.Tensor)*\]$", "_b.tuple[_p.Tensor, ...]", result)
        return f"{indent}def {name}({parameters(value, kind, method=method, **options)}) -> {result}: ..."

    in_place = name.endswith("_") and not name.endswith("__")
    results = [] if in_place else overloads_of(op)
    lines = [
        line(result, required=given, gone=(*gone, "keywords"), named=named)
        for given, gone, result in results or [(None, (), "_p.Tensor" if in_place else result_of(op))]
        for named in _ways(op, value)
    ]
    return [text for one in lines for text in (f"{indent}@_t.overload", one)] if len(lines) > 1 else lines


def _ways(op, function) -> list:
    """Return how positional arguments of any number can be given: so (None), or as one keyword argument of a name."""
    declared = declaration(op, op.variadic) if op.variadic else None
    if declared is None or "keywords" not in inspect.signature(function).parameters:
        return [None]
    return [None, op.variadic, *(["dtype"] if "dtype" in declared else [])]
