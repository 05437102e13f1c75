"""Fast roads for ops of any number of tensors, for ops of a list of tensors, and for factories.

The generated functions serve plain calls: tensors of one device, real dtypes, no rare mode. Whatever else comes, or
goes wrong, is left to the general road (`call.apply`, `creation.create`), which explains it.
"""

from __future__ import annotations

import numpy

from plugrad.devices import dtypes
from plugrad.devices.device import device
from plugrad.dispatch import call, codegen
from plugrad.dispatch.factories import create
from plugrad.dispatch.op import PLAIN
from plugrad.graph import modes
from plugrad.graph.modes import LEAF, tick
from plugrad.tensor.tensor import Tensor

_new = object.__new__


class General(Exception):
    """Sends a call to the general road."""


def plain(value, kind):
    """Return as kernels want it an argument that is no plain number; General where that takes more than a look."""
    if isinstance(value, Tensor):
        if value._type.home is not kind.home:
            raise General
        return value._data
    if isinstance(value, (tuple, list)):
        if not PLAIN.issuperset(map(type, value)) and any([isinstance(item, Tensor) for item in value]):
            raise General
        return value
    if isinstance(value, dtypes.dtype):
        return value.numpy
    if isinstance(value, numpy.generic):
        raise General
    return value


def narrow(value, np) -> bool:
    """Whether an argument that a formula uses leaves gradients of the dtype `np` in that dtype."""
    dtype = getattr(value, "dtype", np)
    return dtype is np or dtype.kind in "iub"


class Recorders(dict):
    """For every set of inputs that require grad (a mask) the function that makes the node of a call.

    That of a call with several outputs is found under the negative mask.
    """

    __slots__ = ("op",)

    def __init__(self, op):
        self.op = op

    def __missing__(self, mask):
        found = self[mask] = _recorder(self.op, mask)
        return found


def _recorder(op, mask):
    """Generate what makes the node of a call on real tensors, whose output has the dtype of the leading one.

    It is given the output, the tensor type, the inputs, and all arguments as the kernel got them.
    """
    several, mask = mask < 0, abs(mask)
    inputs = [name for bit, name in enumerate(op.inputs) if mask >> bit & 1]
    if op.sequence:
        return None if several else _sequence_recorder(op, inputs[0])
    node = op.node(mask, (), several, real=not several)
    edges = "".join(f"{name} if {name}._edge is LEAF else {name}._edge, " for name in inputs)
    fit = "".join(f"({name}_.shape, {name}._type.np), " for name in inputs)
    if op.trusted and not several:
        same = [f"{name}._type is _t" for name in inputs]
        same += [f"{name}_.shape == _y.shape" for name in inputs] if op.broadcasts else []
        others = [name for name in node.saves if name in op.index and name not in op.inputs]
        same += [f"(type({name}_) in PLAIN or narrow({name}_, _t.np))" for name in others]
        fit = f"None if {' and '.join(same)} else ({fit})"
    else:
        fit = f"({fit})"
    return _compile_recorder(op, node, f"({edges})", fit, inputs, several)


def _sequence_recorder(op, name):
    """The same for an op of a list of tensors, all of one type."""
    node = op.node(1, (name,), real=True)
    fit = "None" if op.trusted else f"[(x._data.shape, _t.np) if x._edge is not None else None for x in {name}]"
    edges = f"tuple([x if x._edge is LEAF else x._edge for x in {name}])"
    return _compile_recorder(op, node, edges, fit, [name])


def _compile_recorder(op, node, edges, fit, inputs, several=False):
    raw = ", ".join(f"{name}_" for name in op.parameters)
    head, unpack = f"_y, _t, {', '.join(op.inputs)}, {raw}", ""
    if several:  # all arguments, and all as the kernel got them, in two sequences
        head, unpack = "_y, _t, values, raw", f"    {', '.join(op.parameters)}, = values\n    {raw}, = raw\n"
    source = f"""\
def record({head}):
{unpack}    n = new(node)
    n.edges = {edges}
    n.saved = ({''.join(_saved(op, name) + ', ' for name in node.saves)})
    n.fit = {fit}
    n.rare = None
    n.seq = tick()
    return n
"""
    namespace = {"new": _new, "node": node, "LEAF": LEAF, "tick": tick, "PLAIN": PLAIN, "narrow": narrow}
    return codegen.compile_function(source, "record", f"node of {op.qualname} for {', '.join(inputs)}", namespace)


def _saved(op, name) -> str:
    """Return the expression for what a formula calls `name`."""
    if name == "y":
        return "_y"
    if name in op.index:
        return f"{name}_"
    base, _, what = name.rpartition("_")
    if op.sequence and base == op.parameters[0]:
        return f"[x.{what} for x in {base}{'_' * (what == 'shape')}]"
    return f"getattr({base}_, 'shape', ())" if what == "shape" else f"getattr({base}, 'dtype', None)"


def _take(op, name, lead) -> str:
    """Return the lines that unwrap one argument."""
    if name == lead and op.sequence:
        return f"""\
            if type({name}) is not list and type({name}) is not tuple:
                raise General
            _m, {name}_ = 0, []
            for _x in {name}:
                if _x._type is not _t:
                    raise General
                if _x._view is not None:
                    _x._refresh()
                if _x._edge is not None:
                    _m = 1
                {name}_.append(_x._data)
"""
    if name == lead:
        return f"""\
            if {name}._view is not None:
                {name}._refresh()
            {name}_ = {name}._data
"""
    promoted = op.broadcasts and op.index[name] in op.promoted
    same = "is not _t" if promoted else ".home is not _t.home"
    number = f"({name} is not None and type({name}) is not float and type({name}) is not int)" if promoted else ""
    if promoted or name in op.inputs:
        lines = f"""\
            {name}_ = {name}
            if {number or f'type({name}) not in PLAIN'}:
                if {name}._type{' ' if promoted else ''}{same}:
                    raise General
                if {name}._view is not None:
                    {name}._refresh()
                {name}_ = {name}._data
"""
        return lines
    return f"            {name}_ = {name} if type({name}) in PLAIN else plain({name}, _t)\n"


def tensors_source(op) -> str | None:
    """Return the fast road of an op whose leading argument is a tensor; others may be tensors or plain values."""
    if op.name_node is not None or op.sequence and op.inputs != op.parameters[:1]:
        return None
    lead = op.parameters[op.promoted[0]] if op.broadcasts else op.parameters[0]
    order = [lead, *(name for name in op.parameters if name != lead)]
    arguments = [f"{name}_" for name in op.positional] + [f"{name}={name}_" for name in op.keyword_only]
    bits = [
        f"({name}._edge is not None)" if name == lead else f"({name}_ is not {name} and {name}._edge is not None)"
        for name in op.inputs
    ]
    mask = "_m" if op.sequence else " | ".join(f"{bit} << {i}" if i else bit for i, bit in enumerate(bits)) or "0"
    raw = ", ".join(f"{name}_" for name in op.parameters)
    source = f"""\
def {op.name}({codegen.signature_source(op)}):
{codegen.prelude(op)}    _y = None
    try:
        _t = {lead}{'[0]' * op.sequence}._type
        _kernel = fast[_t]
        if _kernel is not None and not modes.special{' and out is None' if op.has_out else ''}:
{''.join(_take(op, name, lead) for name in order)}\
            _y = _kernel({', '.join(['_t.xp', *arguments])})
    except Exception:
        _y = None
    if _y is None:
        return apply(op, {codegen.values_source(op)}{', out' if op.has_out else ''})
    if type(_y) is not _t.array_type:
        if type(_y) is tuple:
            _m = {mask}
            return finish_many(op, {codegen.values_source(op)}, [{raw}], _t, _y, _m, None, _m and recorders[-_m])
        _y = _t.wrap(_y)
    _r = new(Tensor)
    _r._data = _y
    _r._type = _t if _y.dtype is _t.np else _t.device.tensor_type(_y.dtype)
    _r._view = None
"""
    if not op.formulas:
        return source + "    _r._edge = None\n    return _r\n"
    return source + f"""\
    _m = {mask}
    if not _m or modes.paused and not _mode.grad or _y.dtype.kind not in "fcV":
        _r._edge = None
    elif _y.dtype is _t.np:
        _r._edge = recorders[_m](_y, _t, {', '.join(op.inputs)}, {raw})
    else:
        _r._edge = record(op, {codegen.values_source(op)}, [{raw}], _y)
    return _r
"""


def tensors_namespace(op) -> dict:
    """Return the globals of what `tensors_source` generates."""
    return {
        "fast": op.fast, "PLAIN": PLAIN, "plain": plain, "General": General, "recorders": Recorders(op),
        "record": call.record, "_mode": modes.mode,
    }  # fmt: skip


# ---------------------------------------------------------------------------------------------------- factories


def factory_function(op):
    """Return the public function of a factory op: a fast road for plain arguments on the CPU, else `create`."""
    positional = [_parameter(op, n) for n in op.positional]
    keywords = [_parameter(op, n) for n in op.keyword_only if n != "dtype"]
    keywords += ["dtype=None", "device=None", "requires_grad=False", "out=None", "layout=None", "pin_memory=False"]
    if op.variadic:
        keywords.append("**keywords")
    else:
        positional.append("*")
    settle = "\n".join(codegen.variadic_lines(op)) + "\n" if op.variadic else ""
    plain_ones = [f"type({n}) in PLAIN" for n in op.parameters if n not in ("size", "dtype")]
    test = " and ".join(["out is None", "(device is cpu or device is None and not modes.elsewhere)", *plain_ones])
    arguments = "".join(f", {n}" for n in op.positional) + "".join(
        f", {n}={'_d' if n == 'dtype' else n}" for n in op.keyword_only
    )
    default = "dtypes._default.numpy" if op.promote == "float" else "None"
    source = f"""\
def {op.name}({', '.join(positional + keywords)}):
{settle}    _y = None
    if {test}:
        try:
            _d = {default} if dtype is None else dtype.numpy
            _y = kernel(xp{arguments})
            if type(_y) is not array_type:
                _y = xp.asarray(_y)
            _t = types[_y.dtype]
            if _d is not None and _y.dtype is not _d:
                _y = None
        except Exception:
            _y = None
    if _y is None:
        return create(op, {codegen.values_source(op)}, dtype, device, requires_grad, out)
    _r = new(Tensor)
    _r._data = _y
    _r._type = _t
    _r._view = _r._edge = None
    return _r.requires_grad_() if requires_grad else _r
"""
    cpu = device("cpu")
    if "generator" in op.parameters:  # a dtype not met before would send the call to `create`, which draws once more
        for kind in dtypes._from_numpy:
            cpu.tensor_type(kind)
    namespace = codegen.base_namespace(op)
    namespace.update(
        create=create, cpu=cpu, types=cpu._types, dtypes=dtypes, kernel=op.kernel_for("cpu"), PLAIN=PLAIN,
        xp=cpu.backend.xp, array_type=cpu.backend.array_type,
    )  # fmt: skip
    return codegen.finish(op, source, namespace)


def _parameter(op, name) -> str:
    """Return a parameter as the signature shows it."""
    if name == op.variadic:
        return f"*{name}"
    return f"{name}={codegen._default(op, name)}" if name in op.defaults else name
