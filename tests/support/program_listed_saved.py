"""Where plugrad differs from PyTorch on purpose: what ops save, when it is computed again, what transforms return."""

from __future__ import annotations

import re

import numpy as np

from support.program_kinds import FREED, HISTORY, VIEW_REFUSED, after, goes, kind, lenient, listed, matches, strict
from support.program_runs import difference, held, names_nodes, values_of

# ---------------------------------------------------------------------------------------------------- what is saved


@kind
def unneeded(program, found, oracle, subject, watch):
    """What was overwritten is not needed here.

    The difference goes when PyTorch keeps a copy of it: so what is computed here is right.
    """
    words = "modified by an inplace operation"
    if found.kind != "error" or found.expected is None or words not in found.message:
        return False
    if lenient(found, words) and matches(r"inplace=True|T\.func\.|rrelu\(", program):
        return True  # which activations save their result; the test below is none for transforms, and slopes drawn late
    hooks = "T.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)"  # where no copies are kept
    program = [one.replace("T.inference_mode()", "T.no_grad()").replace(hooks, "T.enable_grad()") for one in program]
    graph = oracle.autograd.graph
    copies = graph.allow_mutation_on_saved_tensors(), graph.saved_tensors_hooks(oracle.clone, lambda copy: copy)
    return any(_differs_little(program, oracle, subject, watch, copying) for copying in copies)


def _differs_little(program, oracle, subject, watch, copying) -> bool:
    """Whether what differs where PyTorch keeps copies is meant; the first way misses writes to a part by a view."""
    with copying:
        left = difference(program, oracle, subject, watch)
    if left is None or left.kind == "error":
        return left is None
    seen = [one for one in (left.expected, left.actual) if isinstance(one, str)]
    return "RuntimeError" in seen or listed(program, left, oracle, subject, watch) is not None  # a view after writes


@kind
def missed(program, found, oracle, subject, watch):
    """PyTorch does not notice writes by NumPy, by what was made of `.data`, copied, or returned by a transform."""
    written = matches(r"\.data\b|copy\.copy|T\.func\.|from_numpy|from_dlpack", program)
    return written and strict(found, "modified by an inplace operation", *VIEW_REFUSED)


@kind
def saved_instead(program, found, oracle, subject, watch):
    """Some ops keep an argument or result where PyTorch keeps what it made of it: writes to it are refused.

    They are listed in `tests/parity/test_saved_values.py`, but for the divisor of a number, and the outputs of RNN and
    GRU, which PyTorch copies together from those of the steps.
    """
    kept = "cross_entropy|l1_loss|kron|tensordot|einsum|(group|instance)_norm|svdvals|ndtr|polar|vander"
    kept = rf"-?[\d.]+ / v| @ |nn\.(Linear|RNN|GRU)\(|({kept})\("
    return matches(kept, program) and strict(found, "modified by an inplace operation")


@kind
def intermediates(program, found, oracle, subject, watch):
    """The second derivative of a Function that saved an intermediate is whole; PyTorch leaves a part of it out."""
    derived = found.kind.endswith(("values", "requires_grad", "log")) or found.kind in ("grad", "type", *HISTORY)
    seen = derived or found.kind == "error" and None in (found.expected, found.actual)
    return seen and matches(r"Intermediate\.apply", program) and matches("create_graph=True", program)


@kind
def kept_on_cpu(program, found, oracle, subject, watch):
    """PyTorch's save_on_cpu() keeps tensors of the CPU as they are, and does not notice when they are written.

    The difference goes without it.
    """
    if not matches(r"save_on_cpu\(\)", program):
        return False
    without = [statement.replace("T.autograd.graph.save_on_cpu()", "T.enable_grad()") for statement in program]
    left = difference(without, oracle, subject, watch)
    return left is None or lenient(left, "modified by an inplace operation")  # PyTorch then notices


@kind
def freed(program, found, oracle, subject, watch):
    """Which ops have saved something that a backward frees is not said.

    The difference goes when graphs are retained.
    """
    if not (lenient(found, FREED) or strict(found, FREED)):
        return False
    retained = [_retaining(one.replace("use_reentrant=True", "use_reentrant=False")) for one in program]
    left = difference(retained, oracle, subject, watch)
    return left is None or left.kind != "error" and listed(retained, left, oracle, subject, watch) is not None


def _retaining(statement: str) -> str:
    if "retain_graph" in statement or not re.search(r"backward\(|autograd\.grad\(", statement):
        return statement
    return re.sub(r"\)$", "retain_graph=True)" if statement.endswith("()") else ", retain_graph=True)", statement)


@kind
def not_saved(program, found, oracle, subject, watch):
    """Which tensors of inference mode would have to be saved is not said, nor that transforms record these."""
    words = "Inference tensors cannot be saved for backward", "requires_grad=True on inference tensor outside"
    return lenient(found, *words) or strict(found, *words) and matches(r"T\.func\.|functional\.|Listed", program)


@kind
def depends_on_nothing(program, found, oracle, subject, watch):
    """How formulas are written decides whether a gradient that depends on nothing requires grad.

    The gradient of what requires grad in one of the two only is zero everywhere.
    """
    if not matches(r"create_graph=True|T\.func\.|autograd\.functional|F\.dual_level", program):
        return False
    attribute, statements, words = "", program, ("not require grad", "doesn't require", "requires_grad=False")
    words += "all tensors must require grad", "'NoneType' object has no attribute 'register_"  # of a grad_fn
    if found.kind == "is_leaf" and program[-1] == f"{found.name}.requires_grad_()":  # which was one that it had not
        first = difference(program[:-1], oracle, subject)
        return first is not None and depends_on_nothing(program[:-1], first, oracle, subject, True)
    if strict(found, "appears to not have been used"):  # in PyTorch by a product with a tangent of zeros
        asked = re.findall(r"v\d+", program[-1].partition(" = ")[0])
        with after(program, oracle) as run:
            gradient = run.tensors()[asked[int(re.search(r"at index (\d+)", found.message)[1])]]
            return gradient._is_zerotensor() or not values_of(gradient).any()
    if lenient(found, "invalid combination of arguments"):  # a scalar that requires grad is no number
        first = difference(program[:-1], oracle, subject)
        return first is not None and depends_on_nothing(program[: first.position + 1], first, oracle, subject, True)
    if found.kind == "error" and found.actual == "TypeError" and not watch:  # None was used
        first = difference(program, oracle, subject)
        return first.kind == "type" and depends_on_nothing(program[: first.position + 1], first, oracle, subject, True)
    if found.kind == "grad":
        return found.actual is None and not np.any(found.expected["values"])
    if found.kind == "type" and found.actual == "NoneType":  # what grad(..., allow_unused=True) returned
        with after(program, oracle) as run:
            gradient = run.tensors()[found.name]
            return gradient._is_zerotensor() or not values_of(gradient).any()
    if found.kind == "log" and found.name == "length of log":  # with the same gradients, so those that it saw are zero
        return len(found.actual) < len(found.expected) and matches("dual_level", program)
    if found.kind.endswith("requires_grad"):
        names, library = [found.name], oracle if found.expected else subject
        attribute = ".grad" if found.kind.startswith("grad.") else ""
    elif found.kind == "error" and found.expected == "NotImplementedError" and found.actual == "RuntimeError":
        # The walk comes to what has no formula.
        names, library, statements = _first_unlike(program[:-1], oracle, subject), oracle, program[:-1]
    elif strict(found, *words) or lenient(found, *words, *_REQUIRING):
        names = _first_unlike(program[:-1], oracle, subject) or re.findall(r"v\d+", program[-1])
        library = oracle if found.expected is None or lenient(found, *_REQUIRING) else subject
        statements, asked = program[:-1], re.search(r"(v\d+), = T\.autograd\.grad\(", program[-1])
        if asked and found.expected is None:  # by what has no name
            with after(program, oracle) as run:
                g = run.names.get(asked[1])
                if g is None or not g.any():
                    return True
    else:
        return False
    with after(statements, library) as run:
        leaves = [t for t in run.tensors().values() if held(t) and t.is_leaf and t.requires_grad]
        return any(_depends_on_nothing(f"{name}{attribute}", leaves, run) for name in names)


# What PyTorch says to what is done with a tensor that requires grad.
_REQUIRING = (
    "graph leaves) support the deepcopy", "change requires_grad flags", "function that returns multiple views",
    "This input cannot have requires_grad True", "out=... arguments don't support automatic differentiation",
)  # fmt: skip


def _first_unlike(program, oracle, subject) -> list:
    """The first variable, or gradient of one, that requires grad in one of the two libraries only, in a list."""
    with after(program, oracle) as one, after(program, subject) as other:
        ours = other.tensors()
        both = [(name, t, ours[name]) for name, t in one.tensors().items() if name in ours]
        both += [(f"{name}.grad", t.grad, our.grad) for name, t, our in both if t.is_leaf and t.grad is not None]
    return [name for name, t, our in both if our is not None and t.requires_grad != our.requires_grad][:1]


def _depends_on_nothing(expression, leaves, run) -> bool:
    """Whether the value of an expression requires grad, and its gradient by every leaf is zero.

    Or that by every step on the way from the leaves, where one of these has no derivative.
    """
    steps = [t for t in run.tensors().values() if held(t) and t.requires_grad and not t.is_leaf]
    fails = False  # whether the walk of PyTorch fails further on, see `fails_inside`
    for sources in (leaves, steps, *[[step] for step in steps]):
        try:
            value = eval(expression, run.names)
            sources = [t for t in sources if t is not value]
            ones = run.T.ones_like(value)
            grads = run.T.autograd.grad(value, sources, ones, retain_graph=True, allow_unused=True) if sources else ()
        except (RuntimeError, NameError, AttributeError) as error:  # it can't be differentiated, or is not there
            if re.search("unallocated storage|ZeroTensors are immutable", str(error)):  # PyTorch's gradient of nothing
                return True
            fails = fails or "returned an invalid gradient at index" in str(error)
            continue
        return not value.is_leaf and all(g is None or _is_nothing(g) for g in grads)
    return fails and all(g is None or _is_nothing(g) for g in value.grad_fn(ones))


def _is_nothing(g) -> bool:
    """Whether a gradient is zero but for rounding."""
    if not g.any():
        return True
    values = values_of(g)
    return np.isfinite(values).all() and not np.any(np.abs(values) > (1e-6 if g.element_size() < 8 else 1e-14))


INFERRED = r"from_dlpack|T\.load\(|\.(ravel|contiguous|reshape|flatten|view|func\.\w+)\(|through_file|pickle|sparse"
INFERRED += r"|copy\.copy"


@kind
def inference_copies(program, found, oracle, subject, watch):
    """Whether an op that returns its input or a copy of it makes an inference tensor depends on which it does.

    What is loaded, copied by `copy` or sparse is none, nor what shares the memory of a tensor that is none.
    """
    return found.kind == "inference" and matches(INFERRED, program)


@kind
def resized_out(program, found, oracle, subject, watch):
    """An out= of another shape gets memory of its own; PyTorch writes to that which others may see."""
    seen = found.kind in ("values", "grad.values", "grad.shape")
    seen = seen or lenient(found, "more than one element of the written-to tensor", "invalid gradient at index")
    return seen and matches("out=", program)


@kind
def once(program, found, oracle, subject, watch):
    """What is differentiable once has gradients that require grad, so that to differentiate them is refused."""
    seen = found.kind.endswith("requires_grad") or strict(found, "differentiate twice a function that was marked")
    return seen and matches(r"Once\.apply", program)


@kind
def reentrant_checkpoints(program, found, oracle, subject, watch):
    """PyTorch refuses reentrant checkpoints in grad(), with inputs= and where an input no longer requires grad.

    They free the graph of what the function closes over; the difference goes when PyTorch's are not reentrant.
    """
    if lenient(found, FREED) and matches("use_reentrant=True", program):
        other = [one.replace("use_reentrant=True", "use_reentrant=False") for one in program]
        return difference(program, oracle, subject, watch, instead=other) is None
    refused = lenient(found, "incompatible with .grad() or passing an `inputs`", "this checkpoint() is not necessary")
    return refused or found.raised and found.kind == "grad" and matches("use_reentrant=True", program)


@kind
def checkpoints_of_another_graph(program, found, oracle, subject, watch):
    """A checkpoint that saves more when it runs again is refused; PyTorch takes the first, which may be others."""
    return strict(found, "A different number of tensors was saved during the original forward")


@kind
def overwritten_checkpoints(program, found, oracle, subject, watch):
    """A checkpoint whose argument was overwritten is refused; PyTorch computes it again from what is there now."""
    return strict(found, "an argument of checkpoint(), which can't be computed again")


@kind
def unneeded_checkpoints(program, found, oracle, subject, watch):
    """Checkpoints whose gradient nobody needs do not run again; PyTorch runs them, and may find them changed.

    The difference goes without checkpoints.
    """
    words = "A different number of tensors was saved", FREED
    if not (lenient(found, words[0]) or strict(found, FREED)) or not matches(r"checkpoint\(", program):
        return False
    called = [statement.replace("T.utils.checkpoint.checkpoint(", "called(") for statement in program]
    return difference([_retaining(statement) for statement in called], oracle, subject, watch) is None


@kind
def no_gradient_arrives(program, found, oracle, subject, watch):
    """An op without derivative is no error where no gradient arrives at it; PyTorch goes on to it with None."""
    freed = found.kind == "error" and found.expected == "RuntimeError" and FREED in found.message
    return matches(r"Lazy\.apply", program) and (freed or lenient(found, "derivative for aten::"))


@kind
def results_of_one_transform(program, found, oracle, subject, watch):
    """The results of one transform may be parts of one graph; in PyTorch they are copies."""
    several = matches(r"v\d+, v\d+ = T\.func\.(grad_and_value|jvp|vjp)\(", program)
    zeros = found.kind == "values" and matches("materialize_grads=True", program[-1:]) and not np.any(found.expected)
    return several and (zeros or lenient(found, "appears to not have been used in the graph"))


@kind
def saved_outputs(program, found, oracle, subject, watch):
    """What was saved of one of several outputs leads to the op, but no gradient is captured for the output there."""
    several = matches(r"v\d+, v\d+ = Context\.apply\(", program) and matches("create_graph=True", program)
    return several and (found.kind == "type" and found.actual == "NoneType" or strict(found, "to not have been used"))


@kind
def products_with_zeros(program, found, oracle, subject, watch):
    """PyTorch divides by the factors of a product inside of transforms, which is NaN where one is zero; here it is not.

    All other values are the same.
    """
    if not found.kind.endswith("values") or not matches(r"T\.func\.(hessian|jac|jvp|vmap).*prod\(", program):
        return False
    expected, actual = found.expected, found.actual
    lost = np.isnan(expected) & np.isfinite(actual)
    return bool(lost.any()) and np.allclose(np.where(lost, 0, actual), np.where(lost, 0, expected), equal_nan=True)


@kind
def poles(program, found, oracle, subject, watch):
    """The slope of digamma is infinite at its poles; PyTorch has a huge number there, since it rounds pi.

    All other values are the same.
    """
    if not found.kind.endswith("values") or not matches(r"digamma\(|polygamma\(", program):
        return False
    expected, actual = np.abs(found.expected), np.abs(found.actual)
    lost = np.isinf(actual) & (expected > 1e6)
    return bool(lost.any()) and np.allclose(np.where(lost, 0, actual), np.where(lost, 0, expected), equal_nan=True)


@kind
def distances_of_none(program, found, oracle, subject, watch):
    """The second derivative of a distance of zero is NaN in PyTorch; here it is zero, as the first one is.

    All other values are the same.
    """
    if not found.kind.endswith("values") or not matches("create_graph=True", program):
        return False
    call = r"\b(?:T\.linalg\.|T\.|v\d+\.)(?:dist|(?:vector_)?norm)\((?:[^()]|\([^()]*\))*\)"
    with after(program, oracle) as run:
        zero = any(not eval(source, run.names).all() for source in re.findall(call, "\n".join(program)))
    lost = np.isnan(found.expected) & (found.actual == 0)
    kept = np.where(lost, 0, found.expected), np.where(lost, 0, found.actual)
    return bool(zero and lost.any()) and np.allclose(*kept, equal_nan=True)


@kind
def running_extremes_of_nothing(program, found, oracle, subject, watch):
    """The gradient of cummax and cummin of nothing is in PyTorch the input itself, which requires grad."""
    if not matches(r"cumm(ax|in)\(", program):
        return False
    name = found.name if found.name != "the statement" else re.findall(r"v\d+", program[-1])[0]
    with after(program[:-1] if found.kind == "error" else program, subject) as run:
        empty = not run.tensors()[name].numel()
    refused = lenient(found, "a leaf Variable that requires grad") or strict(found, "does not require grad")
    return empty and (found.kind in HISTORY or refused)


@kind
def running_sums_of_no_bools(program, found, oracle, subject, watch):
    """PyTorch refuses to write running sums into bools, unless there are none or only one."""
    if found.kind == "error" and (found.expected, found.actual) == ("NotImplementedError", "RuntimeError"):
        return "not implemented for 'Bool'" in found.message and matches(r"cum(sum|prod)_\(", program[-1:])
    return strict(found, "can't be cast to the desired output type Bool") and matches(r"cum(sum|prod)_\(", program)


@kind
def hooks_of_composed_nodes(program, found, oracle, subject, watch):
    """What the node of an op that consists of others gets and gives depends on which of them is the last."""
    hooked = [re.search(r"(v\d+)\.grad_fn\.register_", statement) for statement in program]
    names = {match[1] for match in hooked if match}
    with after(program, oracle) as run:
        nodes = {t.grad_fn for name, t in run.tensors().items() if name in names and held(t)}
        names |= {name for name, t in run.tensors().items() if held(t) and t.grad_fn in nodes}
    # An index that is several steps, a write to a part.
    steps = r"\[(?:\[[^]]*\]|[^][])*(None| [<>=!]+ |\d, .*\[)[^]]*\]|\] = "
    composed = [one for one in program if not names_nodes(one) or re.search(steps, one)]
    seen = found.kind == "log" or lenient(found, "doesn't have storage")  # of a sparse gradient, which the hook lists
    return seen and any(re.search(rf"\b{name}\b.* = ", one) for name in names for one in composed)


@kind
def views_of_layers(program, found, oracle, subject, watch):
    """Whether layers and einsum return a view is not said; a view that was made under no_grad() is not written.

    Views of it require grad as long as the tensor that it is a view of, which nobody has: that difference goes when it
    is a copy.
    """
    if matches(r"max_pool1d\(", program) and found.kind == "values" and matches("materialize_grads=True", program[-1:]):
        return not np.any(found.expected)  # a view that was written in another place is no part of the graph
    composed = r"nn\.(Linear|Sequential)\(|T\.(einsum|tensordot|inner|chain_matmul|linalg\.multi_dot)\("
    if found.kind == "requires_grad" and matches(composed, program):
        copied = [re.sub(rf"(v\d+ = )(.*(?:{composed}).*)", r"\1(\2).clone()", statement) for statement in program]
        return difference(copied, oracle, subject, watch) is None
    return lenient(found, "A view was created in no_grad mode") and matches(composed, program)



@kind
def views_of_jacobians(program, found, oracle, subject, watch):
    """What a transform returns may be written; in PyTorch it is one of several views of one tensor."""
    if found.kind == "values" and matches(r"v\d+ = T\.func\.(hessian|jac)", program):  # not in row-major order there
        return matches(r"(flatten|reshape|ravel|contiguous)\(.*_\(", program[-1:])
    if lenient(found, "A view was created in inference mode"):
        copied = [re.sub(r"(v\d+ = )(T\.func\..*)$", r"\1(\2).clone()", statement) for statement in program]
        return goes(program, copied, oracle, subject, watch)
    return lenient(found, "function that returns multiple views") and matches(r"T\.func\.|functional\.", program)


@kind
def transforms_with_hooks(program, found, oracle, subject, watch):
    """PyTorch does not support saved-tensor hooks around transforms."""
    return lenient(found, "don't yet support saved tensor hooks")


@kind
def packed_leaves(program, found, oracle, subject, watch):
    """A leaf that was saved by a Function and packed by hooks comes back as a tensor that leads to it."""
    packed = matches(r"saved_tensors_hooks|save_on_cpu", program) and matches("Inside", program)
    return packed and strict(found, "to not have been used in the graph")


@kind
def dirty_views(program, found, oracle, subject, watch):
    """PyTorch refuses a Function of several outputs that writes to a view; here its gradient is right."""
    return lenient(found, "If your Function modifies inplace an input that is a view of another Tensor")


@kind
def inference_leaves(program, found, oracle, subject, watch):
    """Outside of inference mode PyTorch records some ops on parameters that were made there; here all are."""
    words = "does not require grad", "Inference tensors cannot be saved", "change requires_grad flags of leaf variables"
    words += ("out=... arguments don't support automatic differentiation",)
    refused = lenient(found, *words) or strict(found, *words)
    if found.kind not in ("requires_grad", "is_leaf", "grad_fn", "grad", "grad.values") and not refused:
        return False
    with after(program[:-1] if found.kind == "error" else program, oracle) as run:
        return any(t.is_inference() and t.requires_grad for t in run.tensors().values())


@kind
def views_of_integers(program, found, oracle, subject, watch):
    """PyTorch asks how a view of integers was made if what is written there requires grad; they have no history."""
    written = re.search(r"(v\d+)[.\[][^=]*(?:= |\)$)", program[-1])
    if written is None or not lenient(found, "A view was created in no_grad mode"):
        return False
    with after(program[:-1], subject) as run:
        return not run.tensors()[written[1]].is_floating_point()


@kind
def unrecorded_views(program, found, oracle, subject, watch):
    """A view made under no_grad() has no history; in PyTorch it gets one when it is written there."""
    if found.kind not in HISTORY:
        return False
    with after(program, subject) as run:
        tensor = run.tensors().get(found.name)
        if tensor is None or not tensor._is_view():
            return False
        return not held(tensor) or not tensor.requires_grad and tensor._base.requires_grad



@kind
def times_one(program, found, oracle, subject, watch):
    """PyTorch adds one times a complex number: where that is infinite, NaN comes of it."""
    if not found.kind.endswith("values") or not np.iscomplexobj(found.expected) or not np.iscomplexobj(found.actual):
        return False
    differs = ~np.isclose(found.expected, found.actual, equal_nan=True)
    return np.isinf(found.actual[differs]).all() and np.isnan(found.expected[differs]).all()


@kind
def converted_in_inference_mode(program, found, oracle, subject, watch):
    """PyTorch puts new parameters in place of those that are converted in inference mode; here they stay the same."""
    converted = r"inference_mode\(\):(\n +.*)*\n +m\d+\.(double|float|half|to|bfloat16)\("
    return found.kind == "inference" and matches(converted, program)


@kind
def nothing_arrives(program, found, oracle, subject, watch):
    """PyTorch asks what has no derivative for one, also where no gradient arrives; here what is needed is asked."""
    return lenient(found, "the derivative for '") and matches(r"(Lazy|Two)\.apply\(|allow_unused", program)


@kind
def values_beside_gradients(program, found, oracle, subject, watch):
    """The value that a transform returns beside a gradient is a step on the way to it; in PyTorch it stands alone."""
    if not matches(r"T\.func\.(grad_and_value|vjp|jvp|linearize)\(", program):
        return False
    seen = found.kind in HISTORY or lenient(found, "not have been used in the graph")
    return seen and matches(r"autograd\.grad\(", program[-1:])
