"""All about one op: facts as a dict and as text, and the source code behind it."""

from __future__ import annotations

import inspect
import linecache
import os

from plugrad.autograd.forward_ad import way
from plugrad.catalog.rows import op_row
from plugrad.onnx import form_of


def describe(op) -> dict:
    """Return the facts about an op."""
    formulas = [
        {"inputs": list(formula.inputs), "function": formula.function.__name__, "uses": list(formula.wants)}
        for formula in op.formulas
    ]
    return {
        **op_row(op),
        "doc": inspect.cleandoc(op.doc),
        "kernels": {backend: _place(kernel) for backend, kernel in op.kernels.items()},
        "formulas": formulas,
        "inplace": op.inplace,
        "promote": op.promote,
        "reference": op.ref if isinstance(op.ref, (str, type(None))) else repr(op.ref),
        "node": op.node_name if op.formulas else None,
        "jvp": way(op),
        "vmap": _of_batches(op),
        "onnx": _form(op),
    }


_WAYS = {
    "declared": "declared: {}",
    "linear": "derived: the op is linear",
    "elementwise": "derived from the gradient formulas, elementwise",
    "derived": "derived from the gradient formulas, by two reverse passes",
    "composite": "those of the ops that it is made of",
    "none": "none",
}
_BATCHES = {
    "declared": "declared: {}",
    "whole": "derived: the op itself runs on the whole batch",
    "loop": "derived: a loop over the slices",
}


def _form(op) -> str:
    """Return the name of the op's ONNX form, "parts" for a composite without one, or "none"."""
    form = form_of(op)
    return getattr(form, "__name__", repr(form)) if form else "parts" if op.runs_on == "tensors" else "none"


def _name(rule) -> str:
    """Return the name of a rule's function, or what stands for it."""
    return getattr(rule, "name", rule.function.__name__)


def _of_batches(op) -> str:
    """Return how `vmap` of the op itself goes: by a declared rule, on the whole batch, or in a loop."""
    if op.batched is not None:
        return "declared"
    return "whole" if op.reduces or op.broadcasts and "dim" not in op.index else "loop"


def _place(function) -> str:
    function = inspect.unwrap(function)  # how a kernel in C is called, where it is one
    code = function.__code__
    return f"{function.__module__}:{code.co_firstlineno} ({os.path.basename(code.co_filename)})"


def text(op) -> list[str]:
    """Return the facts about an op as lines to read."""
    facts = describe(op)
    lines = [facts["signature"], f"  {facts['family']} op, from {facts['provider']}"]
    lines.append(f"  public as {', '.join(facts['public']) or 'nothing: it serves other ops'}")
    orders = {0: "none", 1: "first order", 2: "any order"}[facts["orders"]]
    orders += ", by once=True" * op.once
    lines.append(f"  derivatives: {orders}" + (f", node {facts['node']}" if facts["node"] else ""))
    if facts["inplace"]:
        lines.append(f"  in place: Tensor.{op.name}_")
    if facts["promote"]:
        lines.append(f"  dtype of the result: {facts['promote']}")
    if facts["autocast"]:
        lines.append(f"  autocast: {', '.join(f'{word} on {device}' for device, word in facts['autocast'].items())}")
    if facts["reference"]:
        lines.append(f"  reference: {facts['reference']}")
    for backend, place in facts["kernels"].items():
        lines.append(f"  kernel for {'any backend' if backend == '*' else backend}: {place}")
    for formula in facts["formulas"]:
        uses = f", uses {', '.join(formula['uses'])}" if formula["uses"] else ""
        lines.append(f"  gradient of {', '.join(formula['inputs'])}: {formula['function']}{uses}")
    rules = ", ".join(f"{_name(rule)} for {' and '.join(rule.inputs)}" for rule in op.jvps)
    lines.append(f"  tangents forward (jvp): {_WAYS[facts['jvp']].format(rules)}")
    lines.append(f"  batches (vmap): {_BATCHES[facts['vmap']].format(getattr(op.batched, '__name__', ''))}")
    form = {"parts": "those of the ops that it is made of", "none": "none"}.get(facts["onnx"], f"form {facts['onnx']}")
    lines.append(f"  ONNX: {form}")
    return [*lines, "", *facts["doc"].splitlines()]


def sources(op) -> list[tuple[str, str]]:
    """Return (title, source) of the op's kernels and formulas, and of the code generated from its record."""
    plan = "\n".join(f"{step:9} {what}" for step, what in steps(op.plan))
    parts = [("how a call goes", plan)]
    parts += [(f"kernel for {'any backend' if name == '*' else name}", _source(f)) for name, f in op.kernels.items()]
    for formula in op.formulas:
        parts.append((f"gradient of {', '.join(formula.inputs)}", _source(formula.function)))
    parts.append(("generated: the public function", _source(op.function)))
    if op.formulas:
        node = op.node((1 << len(op.inputs)) - 1)
        parts.append((f"generated: {op.node_name} for {', '.join(node.wanted)}", node.source))
    return parts


def steps(plan):
    """Yield pairs (step, what is done) of a plan, for readers."""
    op = plan.op
    yield "bind", f"{plan.name}({', '.join(op.parameters)}{', out=None' if plan.out else ''})"
    if plan.level == "tensors":
        yield "run", "the kernel, on tensors: whatever it calls is recorded"
        return
    for argument in plan.arguments:
        yield "unwrap", f"{argument.name}: {argument.meaning}"
    for name, value in plan.constants.items():
        yield "unwrap", f"{name}: always {value!r}"
    if op.promote is not None:
        yield "promote", op.promote
    special = ", ".join(sorted(backend for backend in op.kernels if backend != "*"))
    yield "run", f"xp.{plan.direct}" if plan.direct else f"the kernel{f', another on {special}' * bool(special)}"
    types = {"lead": "the type of the call", "bool": "bool", "kernel": "the type of what the kernel returned"}
    yield "wrap", types[plan.result]
    if plan.view:
        yield "view", f"of {plan.arguments[0].name}, where the memory allows it"
    for formula in op.formulas:
        yield "save", f"{', '.join(formula.wants) or 'nothing'}, for the gradient of {', '.join(formula.inputs)}"
    if op.formulas:
        how = f"{'summed over broadcast dimensions, ' * op.broadcasts}cast to the input's dtype"
        yield "fit", f"{how}{', where they differ' * op.trusted}"
        yield "record", f"{op.node_name if op.name_node is None else 'named after the arguments'}"
    if op.inplace:
        yield "in place", f"{op.name}_"


def _source(function) -> str:
    """Return the source of a function, generated ones included: those are in `linecache`."""
    code = function.__code__
    if code.co_filename.startswith("<"):
        return "".join(linecache.getlines(code.co_filename))
    return inspect.getsource(function)
