"""Nodes of declared ops: generated classes that say what is saved, and how gradients are pulled."""

from __future__ import annotations

import types

import numpy

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.dispatch import formulas as rules
from plugrad.dispatch.formulas import PLAIN, F, conj, output_number
from plugrad.dispatch.source import compile_function
from plugrad.graph import rare
from plugrad.graph.modes import NOWHERE, tick
from plugrad.graph.nodes import Node, slot_of
from plugrad.graph.saved import FREED, flagged
from plugrad.tensor.tensor import Tensor, ensure_tensor, from_raw, make

_PASSES_ON = (lambda F, g: g).__code__.co_code  # a formula that hands its gradient on is not a call
_HOLDS_NO_TENSOR = ("plain", "shape", "dim", "absent")  # roles of arguments in a plan


def _real_formula(function):
    """Return a formula in which `conj` does nothing: for nodes whose tensors are known to be real."""
    replaced = {name: lambda F, value: value for name, value in function.__globals__.items() if value is conj}
    if not replaced or not set(replaced) & set(function.__code__.co_names):
        return function
    return types.FunctionType(function.__code__, {**function.__globals__, **replaced}, function.__name__)


def node_class(op, mask: int, sequences: tuple, multiple: bool, name: str | None, real: bool):
    """Return the Node class of an op for one set of inputs that require grad.

    `sequences` names the inputs that are lists of tensors, `multiple` says that the op returned several outputs.
    """
    inputs = op.inputs
    wanted = tuple(name for bit, name in enumerate(inputs) if mask >> bit & 1)
    formulas = [formula for formula in op.formulas if any(name in wanted for name in formula.inputs)]
    for used in {name for formula in formulas for name in formula.function.__code__.co_names}:
        registry.ops.get(used)  # which loads it if it is an op: backward as Python ends could not
    saves = tuple(dict.fromkeys(name for formula in formulas for name in formula.wants))
    source, names, frees = _pull_source(op, wanted, formulas, saves, sequences, multiple, real)
    label = f"gradient of {op.qualname} for {', '.join(wanted)}"
    attributes = {
        "__slots__": ("outputs", "slots") if multiple else (),
        "__module__": "plugrad.autograd",
        "op": op,
        "pull": compile_function(source, "pull", label, names),
        "source": source,
        "saves": saves,
        "scales": op.broadcasts and any(f.function.__code__.co_code != _PASSES_ON for f in formulas),
        "pure": op.trusted,
        "savers": tuple(_saver(op, name) for name in saves),
        "wanted": wanted,
        "frees": frees,
        "narrowed": None if sequences else lambda mask: op.node(mask, sequences, multiple, name, real),
        "positions": () if sequences else tuple(inputs.index(name) for name in wanted),
        "inputs": len(inputs),
    }
    if multiple:
        attributes["materialize"] = _materialize
        attributes["restores"] = any(output_number(name) is not None and name not in op.index for name in saves)
    return type(name or op.node_name, (OpNode,), attributes)


def _pull_source(op, wanted, formulas, saves, sequences, multiple, real) -> tuple:
    """Return the source of a node's `pull`, its globals, and whether it frees what was saved."""
    arrays = {*op.inputs, *(name for name in saves if name not in op.index and output_number(name) is not None)}
    given = {name for name, kind in op.known_kinds.items() if kind.plain}  # numbers, sizes, flags
    arrays |= {a.name for a in op.plan.arguments if a.role not in _HOLDS_NO_TENSOR and a.name not in op.defaults}
    arrays -= given - {*op.inputs}
    names: dict = {"op": op}
    lines = ["def pull(self, F, g, saved, retain):"]
    if op.once:
        names["first_order"] = rules.first_order
        lines.append("    if F._recorded:\n        return first_order(self, g, saved, retain)")
    if multiple:
        lines.append("    g = self.materialize(g, F)")
    if not op.trusted:
        names["scope"] = op.scope
        lines.append("    F = F._within[scope]")
    if saves:  # under names that hide none of what `pull` uses
        lines.append(f"    {''.join(f'{name}_, ' for name in saves)}= saved")
    for number, formula in enumerate(formulas):
        if formula.function.__code__.co_code == _PASSES_ON and len(formula.inputs) == 1 and not sequences:
            lines.append(f"    g_{formula.inputs[0]} = g")
            continue
        function = _real_formula(formula.function) if real else formula.function
        names[f"formula{number}"], names[f"kernels{number}"] = function, formula.kernels
        names[f"needs{number}"] = tuple(name in wanted for name in formula.inputs)
        asked = [f"{name}_" if name != "needs" else f"needs{number}" for name in formula.asks]
        arguments = ", ".join(["g", *asked])
        targets = ", ".join("g_" + name for name in formula.inputs)
        counted = not op.trusted and (len(formula.inputs) > 1 or formula.inputs[0] in sequences)
        result = "g__" if counted or formula.kernels and len(formula.inputs) > 1 else targets
        if formula.kernels:  # on raw arrays of a backend
            lines.append(f"    kernel = kernels{number}.get(F._name)")
            lines.append(f"    {result} = NotImplemented if kernel is None else kernel(F._xp, {arguments})")
            lines.append(f"    if {result} is NotImplemented:")
        lines.append(f"    {'    ' * bool(formula.kernels)}{result} = formula{number}(F, {arguments})")
        if counted:
            names[f"inputs{number}"], names["wrong_count"] = formula.inputs, rules.wrong_count
            count = f" or len(g__) != {len(formula.inputs)}" if len(formula.inputs) > 1 else ""
            lines.append(f"    if g__.__class__ not in (tuple, list){count}:")
            lines.append(f"        raise wrong_count(op, inputs{number}, g__)")
        if result != targets:
            lines.append(f"    {targets} = g__")
    frees = any(name in arrays for name in saves)
    if frees:
        lines += ["    if not retain:", "        self.saved = None"]
    lines.append(f"    return ({''.join(f'*g_{n}, ' if n in sequences else f'g_{n}, ' for n in wanted)})")
    return "\n".join(lines) + "\n", names, frees


def _saver(op, name):
    """Return where what a formula calls `name` is: (position of an argument, None or a function); -1 is the output."""
    position = op.index.get(name, output_number(name))
    if name in op.index or position == -1:
        return position, None
    if position is not None:
        return -1, lambda outputs, _: outputs[position]
    base, _, what = name.rpartition("_")
    return op.index[base], _shape_of if what == "shape" else _dtype_of


def _shape_of(raw, value):
    return [item.shape for item in raw] if isinstance(raw, (list, tuple)) else getattr(raw, "shape", ())


def _dtype_of(raw, value):
    return [item.dtype for item in value] if isinstance(value, (list, tuple)) else getattr(value, "dtype", None)


def _materialize(self, g, ops=None):
    """Return the gradients of all outputs: zeros for float outputs that got none, None for integer outputs."""
    gradients = []
    for i, (shape, ttype) in enumerate(self.outputs):
        gradient = g.grads.get(i)
        if gradient is None and ttype.is_differentiable:
            gradient = make(ttype.zeros(shape), ttype) if ops is F else ttype.zeros(shape)
        gradients.append(gradient)
    return tuple(gradients)


class OpNode(Node):
    """Node of a declared op; the generated subclasses say what is saved and how gradients are pulled."""

    __slots__ = ()
    saves: tuple = ()
    wanted: tuple = ()  # names of the inputs whose gradients are pulled

    def pull_some(self, F, g, saved, retain, needed) -> list:
        """Return the gradients of those edges that are needed, None for the others."""
        cls = type(self).narrowed(sum([1 << place for place, is_needed in zip(self.positions, needed) if is_needed]))
        saved = dict(zip(self.saves, saved))
        grads = iter(cls.pull(self, F, g, [saved[name] for name in cls.saves], True))
        if self.frees and not retain:
            self.saved = None
        return [next(grads) if is_needed else None for is_needed in needed]

    def tensors(self):
        """Return what was saved as Tensors that are connected to the graph again, for a recorded backward."""
        values = self.values()
        if values is None:
            raise RuntimeError(FREED)
        tensors = [self._connected(name, value) for name, value in zip(self.saves, values)]
        return tensors if self.rare is None or self.rare.tangents is None else rare.lift_saved(self, tensors)

    def _connected(self, name, value):
        if name in self.wanted:
            return self._connect_input(name, value)
        number = output_number(name)
        if number is None or name in self.op.index:
            return rare.flagged_since(self, _plain_tensor(value)) if flagged else _plain_tensor(value)
        if number >= 0:
            return _connect_slot(self, value, number)
        if isinstance(value, tuple):
            return tuple([_connect_slot(self, item, i) for i, item in enumerate(value)])
        return _with_edge(value, self)

    def _connect_input(self, name, value):
        position = self.wanted.index(name)
        if isinstance(value, (list, tuple)):
            return [self._connect(i, item) for i, item in enumerate(value)] if position == 0 else None
        if len(self.edges) != len(self.wanted):  # a sequence comes first: count from the end
            position -= len(self.wanted) - len(self.edges)
        return self._connect(position, value)

    def _connect(self, position, value):
        edge = self.edges[position]
        if edge is None or value.__class__ in PLAIN:
            return rare.flagged_since(self, _plain_tensor(value)) if flagged else _plain_tensor(value)
        return connect(edge, value, self.fit[position] if self.fit is not None else None)


class PassNode(Node):
    """Hands its gradient on; `fit` casts it. Connects a cast or swapped saved array to the graph again."""

    __slots__ = ()

    def tensors(self):
        return ()

    def pull(self, F, g, saved, retain):
        return (g,)


def connect(edge, array, fit_to=None):
    """Return a Tensor with the saved raw `array` whose history is `edge`."""
    if isinstance(edge, Tensor) and edge._raw is array:
        return edge if edge._view is not NOWHERE else rare.shown_by(edge)
    if isinstance(edge, Tensor) or (fit_to is not None and fit_to[1] != array.dtype):
        node = PassNode()
        node.edges, node.saved, node.fit, node.rare, node.seq = (edge,), (), None, None, tick()
        if fit_to is not None:
            node.fit = ((array.shape, fit_to[1]),)
        edge = node
    return _with_edge(array, edge)


def _with_edge(array, edge):
    tensor = from_raw(array)
    tensor._edge = edge
    return tensor


def _connect_slot(node, value, number):
    """Return one saved output of several."""
    return _with_edge(value, slot_of(node, number) if dtypes.is_differentiable(value.dtype) else None)


def _plain_tensor(value):
    if value.__class__ in PLAIN or isinstance(value, (numpy.dtype, dtypes.dtype)):
        return value
    if value.__class__ is tuple or value.__class__ is list:
        return type(value)(_plain_tensor(item) for item in value)
    return ensure_tensor(value) if hasattr(value, "dtype") and hasattr(value, "shape") else value
