"""Python source generated from op records: public functions, and the `pull` methods of nodes.

Why generate: the call path is what plugrad sells. A generated function has the op's real signature (so Python itself
binds arguments, at C speed, and writes the error for a wrong one), reads its constants as globals, and contains only
what this op needs. Each is made at the first use of the op, so importing costs nothing. `plugrad ops show NAME
--source` prints them, and tracebacks show their lines.
"""

from __future__ import annotations

import linecache
import re
import types

from plugrad.graph import modes
from plugrad.graph.modes import LEAF, mode, tick


def compile_function(source: str, name: str, label: str, namespace: dict):
    """Compile one function from source that tracebacks can show, and return it."""
    filename = f"<plugrad {label}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]


def named_tuple(name: str, fields):
    """Return a tuple class with PyTorch's repr, `torch.return_types.max(values=..., indices=...)`."""
    from collections import namedtuple

    fields = fields.split() if isinstance(fields, str) else list(fields)
    base = namedtuple(name, fields)

    def __repr__(self):
        inner = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{inner})"

    cls = type(name, (base,), {"__slots__": (), "__repr__": __repr__, "__module__": "plugrad.return_types"})
    from plugrad import return_types

    setattr(return_types, name, cls)
    return cls


# ---------------------------------------------------------------------------------------------------- signatures


def signature_source(op, documented=False) -> str:
    """Return the parameter list of the public function; as documented it leaves NumPy's names out."""
    parts = []
    for name in op.positional:
        if name == op.variadic:
            parts.append(f"*{name}")
        else:
            parts.append(f"{name}={_default(op, name)}" if name in op.defaults else name)
    names = numpy_names(op)
    if names and "dim" in op.positional and "dim" not in op.defaults and not documented:
        parts[op.positional.index("dim")] = "dim=MISSING"
    keyword = [f"{name}={_default(op, name)}" if name in op.defaults else name for name in op.keyword_only]
    if op.has_out:
        keyword.append("out=None")
    if not documented:
        keyword += [f"{theirs}=MISSING" for theirs in names]
    if op.variadic:
        keyword.append("**keywords")
    if keyword and not op.variadic:
        parts.append("*")
    return ", ".join(parts + keyword)


def numpy_names(op) -> dict:
    """Return NumPy's names of parameters that a call may use instead of PyTorch's: {"axis": "dim", ...}."""
    if op.variadic or "dim" not in op.index or "axis" in op.index:
        return {}
    after = op.positional[op.positional.index("dim") + 1 :] if "dim" in op.positional else ()
    if "dim" in op.positional and "dim" not in op.defaults and any(name not in op.defaults for name in after):
        return {}
    return {theirs: ours for theirs, ours in (("axis", "dim"), ("keepdims", "keepdim")) if ours in op.index}


def prelude(op) -> str:
    """Return the lines that settle the arguments: packed parameters, and NumPy's names for `dim` and `keepdim`."""
    lines = variadic_lines(op) if op.variadic else []
    for theirs, ours in numpy_names(op).items():
        lines += [f"    if {theirs} is not MISSING:", f"        {ours} = {theirs}"]
        if ours == "dim" and "dim" not in op.defaults and "dim" in op.positional:
            message = f"{op.name}() missing 1 required positional argument: 'dim'"
            lines += ["    if dim is MISSING:", f"        raise TypeError({message!r})"]
    return "".join(line + "\n" for line in lines)


def _default(op, name) -> str:
    value = op.defaults[name]
    return (
        repr(value) if value is None or isinstance(value, (bool, int, str, float)) and value == value else f"_d_{name}"
    )


def base_namespace(op) -> dict:
    """Return the globals that every generated function of an op may use."""
    from plugrad.dispatch import call, interception
    from plugrad.dispatch import op as op_module
    from plugrad.tensor.tensor import Tensor, write_out

    namespace = {
        "__name__": op.module,
        "op": op,
        "apply": call.apply,
        "finish_many": call.finish_many,
        "wrapped": call.wrapped,
        "composite": interception.composite,
        "named": call.named,
        "MISSING": op_module.MISSING,
        "modes": modes,
        "mode": mode,
        "LEAF": LEAF,
        "tick": tick,
        "new": object.__new__,
        "Tensor": Tensor,
        "write_out": write_out,
        "F": op_module.F,
    }
    for name in op.defaults:
        namespace[f"_d_{name}"] = op.defaults[name]
    return namespace


def public_function(op):
    """Return the public function of an op: the fast road where its family has one, else the general road."""
    source = op.fast_source()
    namespace = base_namespace(op)
    if source is None:
        source = general_source(op)
    else:
        namespace.update(op.fast_namespace())
    return finish(op, source, namespace)


def finish(op, source: str, namespace: dict):
    """Compile a public function and give it the op's name, documentation and defaults."""
    if not op.trusted:
        source = re.sub(r"\b(_?t)\.wrap\(", r"wrapped(op, \1, ", source)
    function = compile_function(source, op.name, f"op {op.qualname}", namespace)
    function.__doc__ = op.doc
    function.__module__ = op.module
    public = next((name for name in op.names if not name.startswith("Tensor.")), None)
    if op.module.startswith("plugrad.") and public is not None:
        # Where it is public, not where it was declared: so it reads well in help(), and can be pickled.
        home, _, function.__name__ = f"plugrad.{public}".rpartition(".")
        function.__module__, function.__qualname__ = home, function.__name__
    else:  # its module holds the record under the kernel's name: so pickle finds the function
        function.__qualname__ = f"{op.kernels['*'].__name__}.function"
    function.__op__ = op
    return function


def binder(op):
    """Return a function with the op's signature that returns its arguments as one tuple."""
    lines = [f"def bind_{op.name}({signature_source(op)}):\n{prelude(op)}"]
    lines.append(f"    return {values_source(op)}")
    return compile_function(
        "\n".join(lines) + "\n", f"bind_{op.name}", f"arguments of {op.qualname}", base_namespace(op)
    )


def values_source(op) -> str:
    """Return the tuple display of all arguments, in the order of `op.parameters`."""
    return "(" + "".join(f"{name}, " for name in op.parameters) + ")"


def general_source(op) -> str:
    """Return the source of a public function that takes the general road."""
    lines = [f"def {op.name}({signature_source(op)}):\n{prelude(op)}"]
    out = ", out" if op.has_out else ""
    if op.family == "composite":
        keywords = "".join(f", {name}={name}" for name in op.keyword_only)
        call = f"kernel(F, {', '.join(op.positional)}{keywords})"
        lines.append(f"    if modes.watched:\n        return composite(op, {values_source(op)}{out})")
        if op.has_out:
            lines.append(f"    result = {call}\n    return result if out is None else write_out(op, result, out)")
        else:
            lines.append(f"    return {call}")
    else:
        lines.append(f"    return apply(op, {values_source(op)}{out})")
    return "\n".join(lines) + "\n"


def variadic_lines(op) -> list[str]:
    """Return the lines that let `f(x, 1, 2)`, `f(x, (1, 2))` and `f(x, dims=(1, 2))` mean the same."""
    name = op.variadic
    default = f"_d_{name}" if name in op.defaults else "()"
    return [
        "    if keywords:",
        f"        if list(keywords) != [{name!r}] or {name}:",
        f'            raise TypeError(f"{op.name}() got an unexpected keyword argument {{next(iter(keywords))!r}}")',
        f"        {name} = keywords[{name!r}]",
        f"    elif len({name}) == 1 and not isinstance({name}[0], int) and {name}[0].__class__ is not Tensor:",
        f"        {name} = {name}[0]",
        f"    elif not {name}:",
        f"        {name} = {default}",
    ]


# ---------------------------------------------------------------------------------------------------- nodes


_PASSES_ON = (lambda F, g: g).__code__.co_code  # a formula that hands its gradient on is no call


def _same(F, value):
    return value


def real_formula(function):
    """Return a formula in which `conj` does nothing: for nodes whose tensors are known to be real."""
    from plugrad.dispatch.families import conj

    replaced = {name: _same for name, value in function.__globals__.items() if value is conj}
    if not replaced or not set(replaced) & set(function.__code__.co_names):
        return function
    return types.FunctionType(function.__code__, {**function.__globals__, **replaced}, function.__name__)


def node_class(op, mask: int, sequences: tuple, multiple: bool, name: str | None, real: bool, base):
    """Return the Node class of an op for one set of inputs that require grad.

    `sequences` names the inputs that are lists of tensors, `multiple` says that the op returned several outputs.
    """
    from plugrad.dispatch import call

    inputs = op.inputs
    wanted = tuple(name for bit, name in enumerate(inputs) if mask >> bit & 1)
    formulas = [formula for formula in op.formulas if any(name in wanted for name in formula.inputs)]
    saves = tuple(dict.fromkeys(name for formula in formulas for name in formula.wants))
    # Views and reductions take no tensors but their first; of other ops any argument without a default may be one.
    arrays = {"y", *inputs}
    if op.family not in ("view", "reduction"):
        arrays |= {name for name in op.positional if name not in op.defaults}
    releases = any(name in arrays for name in saves)
    namespace: dict = {"op": op}
    lines = ["def pull(self, F, g, saved, retain):"]
    if multiple:
        lines.append("    g = self.materialize(g, F)")
    if saves:
        lines.append(f"    {''.join(_safe(name) + ', ' for name in saves)}= saved")
    for number, formula in enumerate(formulas):
        if formula.function.__code__.co_code == _PASSES_ON and len(formula.inputs) == 1:
            lines.append(f"    g_{formula.inputs[0]} = g")
            continue
        namespace[f"formula{number}"] = real_formula(formula.function) if real else formula.function
        arguments = ", ".join(["F", "g", *(_safe(name) for name in formula.wants)])
        if formula.needs:
            namespace[f"needs{number}"] = tuple(name in wanted for name in formula.inputs)
            arguments += f", needs=needs{number}"
        targets = ", ".join("g_" + name for name in formula.inputs)
        lines.append(f"    {targets} = formula{number}({arguments})")
    if releases:
        lines += ["    if not retain:", "        self.saved = None"]
    lines.append(f"    return {''.join(f'*g_{n}, ' if n in sequences else f'g_{n}, ' for n in wanted)}")
    source = "\n".join(lines) + "\n"
    pull = compile_function(source, "pull", f"gradient of {op.qualname} for {', '.join(wanted)}", namespace)
    attributes = {
        "__slots__": ("outputs",) if multiple else (),
        "__module__": "plugrad.autograd",
        "op": op,
        "pull": pull,
        "source": source,
        "saves": saves,
        "scales": op.broadcasts and any(f.function.__code__.co_code != _PASSES_ON for f in formulas),
        "pure": op.trusted,
        "savers": tuple(call.saver(op, name) for name in saves),
        "wanted": wanted,
        "positions": () if sequences else tuple(inputs.index(name) for name in wanted),
        "inputs": len(inputs),
    }
    if multiple:
        attributes["materialize"] = _materialize
    return type(name or op.node_name, (base,), attributes)


def _safe(name: str) -> str:
    """Names of saved values may not hide the parameters of `pull`."""
    return f"{name}_" if name in ("self", "F", "g", "saved") else name


def _materialize(self, g, F=None):
    """Return the gradients of all outputs: zeros for float outputs that got none, None for integer outputs."""
    from plugrad.dispatch import op as op_module
    from plugrad.tensor.tensor import make

    grads = []
    for i, (shape, kind) in enumerate(self.outputs):
        grad = g.grads.get(i)
        if grad is None and (kind.dtype.is_floating_point or kind.dtype.is_complex):
            grad = kind.zeros(shape)
            if F is op_module.F:
                grad = make(grad, kind)
        grads.append(grad)
    return tuple(grads)


# ---------------------------------------------------------------------------------------------------- fast roads

_OUTPUT = """\
    if type(y) is not t.array_type:
        y = t.wrap(y)
    r = new(Tensor)
    r._data = y
    r._type = {result}
    r._view = None
"""

_RECORD = """\
    n = new(node{mask})
    n.edges = ({edges},)
    n.saved = {saved}
    n.fit = {fit}
    n.rare = None
    n.seq = tick()
    r._edge = n
    return r
"""

_INFIX = {"add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "divide": "/"}


class _Probe:
    """Stands for an array module, to see whether a kernel is no more than one call of one of its functions."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *args: self.calls.append((name, args)) or self.calls


def direct_name(op, arity: int):
    """Return NAME if the kernel, with default options, is just `xp.NAME(*operands)`; else None."""
    probe, operands = _Probe(), tuple(object() for _ in range(arity))
    options = {name: op.defaults[name] for name in op.parameters[arity:] if name in op.defaults}
    try:
        result = op.kernels["*"](probe, *operands, **options)
    except Exception:  # it looks at its operands, so it is more than one call
        return None
    if result is probe.calls and len(probe.calls) == 1 and probe.calls[0][1] == operands and len(op.kernels) == 1:
        return probe.calls[0][0]
    return None


def _call_source(op, arity: int, constant: bool) -> str:
    """Return the expression that runs the kernel on the local arrays a and b."""
    arrays = ("a", "b")[:arity]
    name = direct_name(op, arity) if constant or len(op.parameters) == arity else None
    if name in _INFIX:
        return f"a {_INFIX[name]} b"
    if name is not None:
        return f"t.xp.{name}({', '.join(arrays)})"
    positional = "".join(f", {name}" for name in op.positional[arity:])
    keywords = "".join(f", {name}={name}" for name in op.keyword_only)
    return f"kernel(t.xp, {', '.join(arrays)}{positional}{keywords})"


def _saved_source(node, arrays: dict, op) -> str:
    """Return the tuple display of what a node class saves, from local names; '' if the fast road can't."""
    parts = []
    for name in node.saves:
        if name == "y" or name in arrays or name in op.index:
            parts.append(arrays.get(name, name) if name != "y" else "y")
        elif name.endswith("_shape"):
            array = arrays.get(name.removesuffix("_shape"), name.removesuffix("_shape"))
            parts.append(f"getattr({array}, 'shape', ())")
        else:
            return ""
    return "(" + "".join(part + ", " for part in parts) + ")"


def _indent(text: str, by: int) -> str:
    return "".join(" " * by + line if line.strip() else line for line in text.splitlines(True))


def unary_source(op) -> str | None:
    """Return the fast road of an elementwise op of one tensor."""
    first = op.parameters[0]
    result = "t" if op.promote != "bool" else "bool_type[t]"
    general = f"apply(op, {values_source(op)}, out)"
    source = f"""\
def {op.name}({signature_source(op)}):
{prelude(op)}    y = None
    try:
        t = {first}._type
        kernel = fast[t]
        if kernel is not None and not modes.special and out is None:
            if {first}._view is not None:
                {first}._refresh()
            a = {first}._data
            y = {_call_source(op, 1, False)}
    except Exception:
        y = None
    if y is None:
        return {general}
""" + _OUTPUT.format(result=result)
    if not op.formulas or op.promote == "bool":
        return source + "    r._edge = None\n    return r\n"
    saved = _saved_source(op.node(1), {first: "a"}, op)
    if not saved:
        return None
    source += f"""\
    e = {first}._edge
    if e is None or modes.paused and not mode.grad:
        r._edge = None
        return r
    if e is LEAF:
        e = {first}
"""
    fit = "None" if op.trusted else "((a.shape, a.dtype),)"
    return source + _RECORD.format(mask=1, edges="e", saved=saved, fit=fit)


def single_source(op) -> str | None:
    """Return the fast road of a view op or reduction: one tensor, and plain arguments.

    Arguments that are tensors too, or lists, or a dtype, go the general road, as do results of other kinds.
    """
    first, rest = op.parameters[0], op.parameters[1:]
    if op.variadic and op.variadic != rest[-1]:
        return None
    general = f"apply(op, {values_source(op)}{', out' if op.has_out else ''})"
    conditions = [
        f"type({name}) in PLAIN" if name != op.variadic else f"not isinstance({name}, Tensor)" for name in rest
    ]
    prepare, dim = "", ""
    if op.family == "reduction":
        conditions = [f"({c} or type({n}) is tuple)" if n == "dim" else c for n, c in zip(rest, conditions)]
        conditions += ["dtype is None"] * ("dtype" in rest) + ["out is None"] * op.has_out
        if "dim" in rest:
            conditions.append("(dim is None or a.ndim)")
            prepare = "            where = dim\n            if where is not None:\n"
            prepare += "                where = axes(where, a.ndim)\n"
            dim = "where"
    elif op.family == "view":
        conditions = [
            c.replace(f"type({n}) in PLAIN", f"type({n}) in PLAIN_OR_TUPLE") for n, c in zip(rest, conditions)
        ]
    arguments = [dim if n == "dim" and dim else n for n in op.positional[1:]]
    arguments += [f"{n}={dim if n == 'dim' and dim else n}" for n in op.keyword_only]
    variadic = prelude(op)
    test = " and ".join(["kernel is not None", "not modes.special", *conditions])
    many = "[a, " + "".join(f"{dim if n == 'dim' and dim else n}, " for n in rest) + "]"
    source = f"""\
def {op.name}({signature_source(op)}):
{variadic}    y = None
    try:
        t = {first}._type
        kernel = fast[t]
        a = {first}._data
        if {test}:
            if {first}._view is not None:
                {first}._refresh()
{prepare}            y = kernel({", ".join(["t.xp", "a", *arguments])})
    except Exception:
        y = None
    if y is None:
        return {general}
    if type(y) is not t.array_type:
        if type(y) is tuple:
            return finish_many(op, {values_source(op)}, {many}, t, y, {first}._edge is not None)
        y = t.wrap(y)
    d = y.dtype
    r = new(Tensor)
    r._data = y
    r._type = t if d is t.np else t.device.tensor_type(d)
"""
    if op.family == "view":
        mark = f"mark_view({first}, op, ({''.join(n + ', ' for n in rest)}))"
        source += f"    r._view = {mark} if y.base is a or is_view_of(y, a, t.backend) else None\n"
    else:
        source += "    r._view = None\n"
    if not op.formulas:
        return source + "    r._edge = None\n    return r\n"
    saved = _saved_source(op.node(1), {first: "a"}, op)
    if not saved or op.inputs != (first,):
        return None
    node = "node1" if op.name_node is None else f"op.node(1, (), False, op.name_node({', '.join(op.parameters)}))"
    source += f"""\
    e = {first}._edge
    if e is None or modes.paused and not mode.grad or d.kind not in "fcV":
        r._edge = None
        return r
    if e is LEAF:
        e = {first}
"""
    fit = "None if d is t.np else ((a.shape, t.np),)" if op.trusted else "((a.shape, t.np),)"
    return source + _RECORD.format(mask=1, edges="e", saved=saved, fit=fit).replace("new(node1)", f"new({node})")


def binary_source(op, name=None, swapped=False, operator=False) -> str | None:
    """Return the fast road of an elementwise op of two tensors, or a tensor and a Python number.

    As a function or operator the number is on the right; as a reflected operator (`swapped`) it is on the left.
    """
    first, second = op.parameters[:2]
    nodes = {mask: op.node(mask, real=True) for mask in (1, 2, 3)} if op.formulas and len(op.inputs) == 2 else {}
    if op.formulas and not nodes and op.promote != "bool":
        return None
    saved = {mask: _saved_source(node, {first: "a", second: "b"}, op) for mask, node in nodes.items()}
    if not all(saved.values()):
        return None
    result = "t" if op.promote != "bool" else "bool_type[t]"
    constants = ""
    if operator:
        head, tail, general = f"{first}, {second}", "", f"general({first}, {second})"
        if swapped:
            head = f"{second}, {first}"
        constants = "".join(f"    {name} = {_default(op, name)}\n" for name in op.parameters[2:])
    else:
        head, general = f"{first}, {second}", f"named(op, {values_source(op)}, out)"
        tail = "".join(", " + part for part in signature_source(op).split(", ")[2:])
    out = "" if operator else " and out is None"
    # `held` is certainly a tensor in the common case, `free` a tensor or a number.
    held, free = (second, first) if swapped else (first, second)
    (x, ex), (z, ez) = (("b", "f"), ("a", "e")) if swapped else (("a", "e"), ("b", "f"))
    # A kernel that is one function of the array module takes a number as a 0-d array, others see the number itself.
    one_call = direct_name(op, 2) is not None and (operator or len(op.parameters) == 2)
    number = f"{z} = {free}"
    numbers = "c is float or c is int" if operator or op.numbers != "none" else "False"
    if one_call:
        number = f"{z} = t.constants.get({free})\n                if {z} is None:\n"
        number += f"                    {z} = t.constant({free})"
    source = f"""\
def {name or op.name}({head}{tail}):
{constants}    y = None
    try:
        t = {held}._type
        kernel = fast[t]
        c = type({free})
        s = {numbers}
        if kernel is not None and not modes.special{out} and (s or {free}._type is t):
            if s:
                {number}
                {ez} = None
            else:
                if {free}._view is not None:
                    {free}._refresh()
                {z} = {free}._data
                {ez} = {free}._edge
            if {held}._view is not None:
                {held}._refresh()
            {x} = {held}._data
            {ex} = {held}._edge
            y = {_call_source(op, 2, operator)}
    except Exception:
        y = None
    if y is None:
        return {general}
""" + _OUTPUT.format(result=result)
    if not nodes or op.promote == "bool":
        return source + "    r._edge = None\n    return r\n"

    def record(mask):
        shapes = {1: "(a.shape, t.np), ", 2: "(b.shape, t.np), ", 3: "(a.shape, t.np), (b.shape, t.np)"}[mask]
        fit = f"None if s or a.shape == b.shape else ({shapes})" if op.trusted else f"({shapes})"
        if not op.trusted:
            fit = fit.replace("a.shape", "getattr(a, 'shape', ())").replace("b.shape", "getattr(b, 'shape', ())")
        edges = {1: "e", 2: "f", 3: "e, f"}[mask]
        return _RECORD.format(mask=mask, edges=edges, saved=saved[mask], fit=fit)

    return (
        source
        + f"""\
    if e is None:
        if f is None or modes.paused and not mode.grad:
            r._edge = None
            return r
        if f is LEAF:
            f = {second}
{_indent(record(2), 4)}\
    if modes.paused and not mode.grad:
        r._edge = None
        return r
    if e is LEAF:
        e = {first}
    if f is None:
{_indent(record(1), 4)}\
    if f is LEAF:
        f = {second}
{record(3)}"""
    )
