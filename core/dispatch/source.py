"""Python source that is generated: how it is compiled, and the signatures by which Python itself binds arguments.

Why generate: the call path is what plugrad is about. A generated function has the op's real signature (so Python binds
arguments at C speed, and writes the error for a wrong one), reads its constants as globals, and contains only what this
op needs. Each is made at the first use of the op, so importing costs nothing, and tracebacks show their lines.
"""

from __future__ import annotations

import enum
import linecache


class _Missing(enum.Enum):  # whose one member stays itself in copies and in files
    """Default of a parameter to which None may be given; signatures show it."""

    MISSING = "<not given>"
    __repr__ = lambda self: self.value  # noqa: E731


MISSING = _Missing.MISSING


def compile_function(source: str, name: str, label: str, names: dict):
    """Compile one function from source that tracebacks can show, and return it."""
    filename = f"<plugrad {label}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    defined: dict = {}  # not among the names: an op may be called as a builtin that its own source uses
    exec(compile(source, filename, "exec"), names, defined)
    return defined[name]


# ---------------------------------------------------------------------------------------------------- signatures


def signature_source(op, documented=False, takes_out=None, older=False) -> str:
    """Return the parameter list of the public function; as documented it leaves NumPy's names out."""
    packed = op.variadic is not None and not joins(op)
    parts = [f"*{name}" if packed and name == op.variadic else parameter_source(op, name) for name in op.positional]
    names = numpy_names(op)
    if names and "dim" in op.positional and ("dim" not in op.defaults or op.keeps_given) and not documented:
        parts[op.positional.index("dim")] = "dim=MISSING"
    if op.keeps_given and not documented:
        parts[op.positional.index("keepdim")] = "keepdim=MISSING"
    keyword = [parameter_source(op, name) for name in op.keyword_only]
    if op.has_out if takes_out is None else takes_out:
        keyword.append("out=None")
    if not documented:
        keyword += [f"{theirs}=MISSING" for theirs in names]
    if packed:
        keyword.append("**keywords")
    elif keyword or op.variadic:
        parts.append("*_more" if older or op.variadic else "*")
    return ", ".join(parts + keyword)


def parameter_source(op, name) -> str:
    """Return a parameter with its default, as the signature shows it."""
    return f"{name}={default_source(op, name)}" if name in op.defaults else name


def default_source(op, name) -> str:
    """Return the expression for a parameter's default: itself, or the global that holds it."""
    value = op.defaults[name]
    plain = value is None or type(value) in (bool, int, str) or type(value) is float and value - value == 0
    return repr(value) if plain else f"_d_{name}"


def numpy_names(op) -> dict:
    """Return NumPy's names of parameters that a call may use instead of PyTorch's: {"axis": "dim", ...}."""
    if op.variadic and not joins(op) or "dim" not in op.index or "axis" in op.index:
        return {}
    after = op.positional[op.positional.index("dim") + 1 :] if "dim" in op.positional else ()
    if "dim" in op.positional and "dim" not in op.defaults and any(name not in op.defaults for name in after):
        return {}
    return {theirs: ours for theirs, ours in (("axis", "dim"), ("keepdims", "keepdim")) if ours in op.index}


def settle_source(op) -> str:
    """Return the lines that settle the arguments: packed parameters, and NumPy's names for `dim` and `keepdim`."""
    lines = variadic_lines(op) if op.variadic else []
    for theirs, ours in numpy_names(op).items():
        default = "MISSING" if ours not in op.defaults or op.keeps_given else default_source(op, ours)
        lines += [f"    if {theirs} is not MISSING:", f"        if {ours} != {default}:"]  # one argument by two names
        lines += [f'            raise TypeError("{op.name}() takes {ours} or {theirs}, not both")']
        lines += [f"        {ours} = {theirs}"]
        if ours == "dim" and "dim" not in op.defaults and "dim" in op.positional:
            absent = f'''raise TypeError("{op.name}() missing 1 required positional argument: 'dim'")'''
            lines += ["    if dim is MISSING:", f"        {absent}"]
    return "".join(line + "\n" for line in lines)


def whole_source(op) -> list:
    """Return the lines that settle dim and keepdim where it counts that they were left out."""
    whole = ["    if dim is MISSING:", "        dim = None if keepdim is MISSING else _refuse_whole(_op)"]
    return [*whole, "    keepdim = False if keepdim is MISSING else keepdim"] if op.keeps_given else []


def joins(op) -> bool:
    """Whether one int means something itself, so that only further ones make a tuple: `x.squeeze(0, 1)`."""
    return op.variadic in op.known_kinds and "int or" in op.known_kinds[op.variadic].words


def variadic_lines(op) -> list[str]:
    """Return the lines that let `f(x, 1, 2)`, `f(x, (1, 2))` and `f(x, dims=(1, 2))` mean the same."""
    name = op.variadic
    kind = op.known_kinds.get(name)
    if joins(op):
        return ["    if _more:", f"        {name} = ({name}, *_more)"]
    absent = f"        {name} = " + (f"_d_{name}" if name in op.defaults else "()")
    if kind is not None and kind.plain and name not in op.defaults:
        absent = f'        raise TypeError("{op.name}() missing 1 required positional argument: {name!r}")'
    names = [[name], ["dtype"]] if kind is not None and "dtype" in kind.words else [[name]]  # `x.view(dtype=...)`
    return [
        "    if keywords:",
        f"        if list(keywords) not in {names} or {name}:",
        f'            raise TypeError(f"{op.name}() got an unexpected keyword argument {{next(iter(keywords))!r}}")',
        f"        ({name},) = keywords.values()",
        f"    elif len({name}) == 1 and not hasattr({name}[0].__class__, '__index__'):",
        f"        {name} = {name}[0]",
        f"    elif not {name}:",
        absent,
    ]


def values_source(op) -> str:
    """Return the tuple display of all arguments, in the order of `op.parameters`."""
    return "(" + "".join(f"{name}, " for name in op.parameters) + ")"
