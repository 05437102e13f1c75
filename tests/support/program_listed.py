"""Where plugrad differs from PyTorch on purpose, or PyTorch promises nothing: what random programs may show.

Each function says of a shrunk program and the difference that it shows whether it is of one kind; the first line of its
docstring is the reason why that kind is meant. Where the reason can be tested, the function runs the program again.
"""

from __future__ import annotations

import contextlib
import re
import warnings

import numpy as np

from support.program_runs import SEEN_OF_VARIABLES, Run, difference, held, names_nodes, values_of

KINDS: list = []
VIEW_REFUSED = "its base or another view of its base has been modified inplace"
HISTORY = ("requires_grad", "is_leaf", "grad_fn")  # the kinds of difference that tell of a tensor's history
FREED = "backward through the graph a second time"
EITHER_FIRST = ("setStorage", "too many indices", "out of bounds", "Dimension specified as 0", "single memory location",
                "more than 1 value per channel", "function that returns multiple views")


def listed(program: list[str], found, oracle, subject, watch=True) -> str | None:
    """Return why a difference that a shrunk program shows is meant, None if it is not."""
    for function in KINDS:
        try:
            meant = function(program, found, oracle, subject, watch)
        except (RuntimeError, LookupError, TypeError, AttributeError):  # what it looks at is not there
            continue
        if meant:
            return function.__doc__.partition("\n")[0]
    return None


def kind(function):
    """Enter a kind of difference."""
    KINDS.append(function)
    return function


def lenient(found, *words) -> bool:
    """Whether only PyTorch raised an error, and one that says so."""
    return found.kind == "error" and found.actual is None and any(word in found.message for word in words)


def strict(found, *words) -> bool:
    """Whether only plugrad raised an error, and one that says so."""
    return found.kind == "error" and found.expected is None and any(word in found.message for word in words)


def matches(pattern: str, program) -> bool:
    """Whether a statement of the program has the pattern."""
    return any(re.search(pattern, statement) for statement in program)


@contextlib.contextmanager
def after(program, library):
    """Give the Run of a program that a library has carried out."""
    with warnings.catch_warnings(), Run(library) as run:
        warnings.simplefilter("ignore")
        for statement in program:
            run.step(statement)
        yield run


# ---------------------------------------------------------------------------------------------------- memory


WRITTEN = "more than one element of the written-to tensor"
OPERAND = r"([a-z]_\(| [-+*/]= )(v\d+)(?=$|\)|, )"


@kind
def overlap(program, found, oracle, subject, watch):
    """PyTorch refuses to write by an op that reads the same memory; here the op has read all before it writes."""
    if found.kind == "values" and re.search(OPERAND, program[-1]):
        apart = re.sub(OPERAND, r"\1\2.clone()", program[-1])
        return difference([*program[:-1], apart], oracle, subject, watch) is None
    refused = lenient(found, "refer to a single memory location")
    return refused or lenient(found, WRITTEN) and matches(r"T\.func\.", program)


@kind
def expanded(program, found, oracle, subject, watch):
    """Expanded memory is written by fills only; PyTorch allows more, whose results depend on the order of writing."""
    return strict(found, "more than one element of the written-to tensor")


@kind
def conjugates(program, found, oracle, subject, watch):
    """The conjugate of a complex tensor is a copy, not a view."""
    return matches("complex", program) and matches(r"\.(conj|adjoint)\(", program)


@kind
def own_memory(program, found, oracle, subject, watch):
    """Gradients that grad() returns have memory of their own; in PyTorch they may share it.

    The difference goes when they are copied.
    """
    if not matches(r"autograd\.grad\(", program):
        return False
    copied = [re.sub(r"(T\.autograd\.grad\(.*\))", r"apart(\1)", statement) for statement in program]
    after = difference(copied, oracle, subject, watch)
    return after is None or after.message != found.message and overlap(copied, after, oracle, subject, watch)


@kind
def layouts(program, found, oracle, subject, watch):
    """In which order the results of an op lie in memory is said of few ops.

    The difference goes when what as_strided looks at is contiguous, and what a factor is reshaped to is copied.
    """
    viewed = "view size is not compatible"
    if (lenient(found, viewed) or strict(found, viewed)) and matches("autograd", program):
        copied = [*program[:-1], program[-1].replace(".view(", ".reshape(")]
        return difference(copied, oracle, subject, watch) is None
    looked = found.kind in ("strides", "grad_fn") or lenient(found, viewed)
    if looked and matches(r"T\.func\.|autograd\.functional\.|linalg\.|\.contiguous\(", program):
        return True
    if matches(r"linalg\.", program):
        copied = [re.sub(r"(\.(flatten|ravel|reshape)\([^()]*\))", r"\1.clone()", statement) for statement in program]
        return copied != program and difference(copied, oracle, subject, watch) is None
    if not matches(r"\.as_strided\(", program):
        return False
    contiguous = [statement.replace(".as_strided(", ".contiguous().as_strided(") for statement in program]
    return difference(contiguous, oracle, subject, watch) is None


@kind
def partly_written(program, found, oracle, subject, watch):
    """What an op has written when it raises an error is not said."""
    seen = found.kind in ("values", "grad.values") or strict(found, "modified by an inplace operation")
    return found.raised and seen


@kind
def replaced_data(program, found, oracle, subject, watch):
    """What PyTorch saved follows `.data`, replaced or written; here a node may keep the values that it saved."""
    seen = matches(r"\.data$|\.data\.", program) and found.kind in ("values", "grad.values")
    return seen or matches(r"\.data = ", program)


# ---------------------------------------------------------------------------------------------------- what is saved


@kind
def unneeded(program, found, oracle, subject, watch):
    """What was overwritten is not needed here.

    The difference goes when PyTorch keeps a copy of it: so what is computed here is right.
    """
    words = "modified by an inplace operation"
    if found.kind != "error" or found.expected is None or words not in found.message:
        return False
    if lenient(found, words) and matches(r"inplace=True|T\.func\.", program):
        return True  # which activations save their result; the test below is none for transforms
    with oracle.autograd.graph.allow_mutation_on_saved_tensors():
        return difference(program, oracle, subject, watch) is None


@kind
def missed(program, found, oracle, subject, watch):
    """PyTorch does not notice writes by what was made of `.data`, copied, or returned by a transform."""
    written = matches(r"\.data\b|copy\.copy|T\.func\.", program)
    return written and strict(found, "modified by an inplace operation")


@kind
def saved_instead(program, found, oracle, subject, watch):
    """Some ops keep an argument where PyTorch keeps what it made of it: writes to it are refused.

    They are listed in `tests/parity/test_saved_values.py`, but for the divisor of a number.
    """
    kept = r"-?[\d.]+ / v|cross_entropy\(|l1_loss\(|kron\(|tensordot\(|instance_norm\(| @ |nn\.Linear\("
    return matches(kept, program) and strict(found, "modified by an inplace operation")


@kind
def intermediates(program, found, oracle, subject, watch):
    """The second derivative of a Function that saved an intermediate is whole; PyTorch leaves a part of it out."""
    return matches(r"Intermediate\.apply", program) and matches("create_graph=True", program)


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
    return difference([_retaining(statement) for statement in program], oracle, subject, watch) is None


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
    if not matches(r"create_graph=True|T\.func\.|autograd\.functional", program):
        return False
    attribute, statements = "", program
    if found.kind.endswith("requires_grad"):
        names, library = [found.name], oracle if found.expected else subject
        attribute = ".grad" if found.kind.startswith("grad.") else ""
    elif strict(found, "not require grad", "doesn't require") or lenient(found, "not require grad", "doesn't require"):
        names, library = re.findall(r"v\d+", program[-1]), oracle if found.expected is None else subject
        statements = program[:-1]
    else:
        return False
    with after(statements, library) as run:
        leaves = [t for t in run.tensors().values() if held(t) and t.is_leaf and t.requires_grad]
        return any(_depends_on_nothing(f"{name}{attribute}", leaves, run) for name in names)


def _depends_on_nothing(expression, leaves, run) -> bool:
    """Whether the value of an expression requires grad, and its gradient by every leaf is zero."""
    try:
        value = eval(expression, run.names)
        grads = run.T.autograd.grad(value.sum(), leaves, retain_graph=True, allow_unused=True)
    except (RuntimeError, NameError, AttributeError):  # it can't be differentiated, or is not there
        return False
    return not value.is_leaf and all(g is None or not g.any() for g in grads)


@kind
def inference_copies(program, found, oracle, subject, watch):
    """Whether an op that returns its input or a copy of it makes an inference tensor depends on which it does."""
    return found.kind == "inference" and matches(r"\.(ravel|contiguous|reshape|flatten|view|func\.\w+)\(", program)


@kind
def resized_out(program, found, oracle, subject, watch):
    """An out= of another shape gets memory of its own; PyTorch writes to that which others may see."""
    seen = found.kind in ("values", "grad.values") or lenient(found, "more than one element of the written-to tensor")
    return seen and matches("out=", program)


@kind
def once(program, found, oracle, subject, watch):
    """What is differentiable once has gradients that require grad, so that to differentiate them is refused."""
    return found.kind.endswith("requires_grad") and matches(r"Once\.apply", program)


@kind
def reentrant_checkpoints(program, found, oracle, subject, watch):
    """PyTorch refuses reentrant checkpoints in grad(), with inputs= and where an input no longer requires grad."""
    refused = lenient(found, "incompatible with .grad() or passing an `inputs`", "this checkpoint() is not necessary")
    return refused or found.raised and found.kind == "grad" and matches("use_reentrant=True", program)


@kind
def checkpoints_of_another_graph(program, found, oracle, subject, watch):
    """A checkpoint that saves more when it runs again is refused; PyTorch takes the first, which may be others."""
    return strict(found, "A different number of tensors was saved during the original forward")


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
    return lenient(found, "derivative for aten::") and matches(r"Lazy\.apply", program)


@kind
def results_of_one_transform(program, found, oracle, subject, watch):
    """The results of one transform may be parts of one graph; in PyTorch they are copies."""
    several = matches(r"v\d+, v\d+ = T\.func\.(grad_and_value|jvp|vjp)\(", program)
    return several and lenient(found, "appears to not have been used in the graph")


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
def running_extremes_of_nothing(program, found, oracle, subject, watch):
    """The gradient of cummax and cummin of nothing is in PyTorch the input itself, which requires grad."""
    if not matches(r"cumm(ax|in)\(", program):
        return False
    name = found.name if found.name != "the statement" else re.findall(r"v\d+", program[-1])[0]
    with after(program[:-1] if found.kind == "error" else program, subject) as run:
        empty = not run.tensors()[name].numel()
    return empty and (found.kind in HISTORY or lenient(found, "a leaf Variable that requires grad"))


@kind
def running_sums_of_no_bools(program, found, oracle, subject, watch):
    """PyTorch refuses to write running sums into bools, unless there are none or only one."""
    return strict(found, "can't be cast to the desired output type Bool") and matches(r"cum(sum|prod)_\(", program)


@kind
def hooks_of_composed_nodes(program, found, oracle, subject, watch):
    """What the node of an op that consists of others gets and gives depends on which of them is the last."""
    hooked = [re.search(r"(v\d+)\.grad_fn\.register_", statement) for statement in program]
    names = {match[1] for match in hooked if match}
    composed = [statement for statement in program if not names_nodes(statement)]
    return found.kind == "log" and any(re.search(rf"\b{name}\b.* = ", one) for name in names for one in composed)


@kind
def views_of_layers(program, found, oracle, subject, watch):
    """Whether what a layer returns is a view is not said; a view that was made under no_grad() is not written."""
    return lenient(found, "A view was created in no_grad mode") and matches(r"nn\.(Linear|Sequential)\(", program)


@kind
def cut_off(program, found, oracle, subject, watch):
    """Numbers that rounding makes a little less than an integer are cut off to the one before."""
    cast = re.search(r"= (v\d+)\.(long|int|to)\(", program[-1])
    if found.kind != "values" or cast is None:
        return False
    with after(program[:-1], oracle) as run:
        values = values_of(run.tensors()[cast[1]])
    apart = np.asarray(found.expected) != np.asarray(found.actual)
    return np.allclose(values[apart], np.round(values[apart]), rtol=1e-9)


@kind
def nearly_equal(program, found, oracle, subject, watch):
    """Which of several elements that differ by rounding is the largest is not said."""
    taken = re.search(r"= (?:Largest\.apply\((v\d+)\)|(v\d+)\.(?:arg)?(?:max|min|sort|topk)\()", program[-1])
    if found.kind != "values" or taken is None or np.asarray(found.expected).dtype.kind != "i":
        return False
    with after(program[:-1], oracle) as run:
        values = values_of(run.tensors()[taken[1] or taken[2]]).ravel()
    return np.allclose(values[found.expected], values[found.actual], rtol=1e-9)


@kind
def views_of_jacobians(program, found, oracle, subject, watch):
    """What a transform returns may be written; in PyTorch it is one of several views of one tensor."""
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
    return matches(r"inference_mode\(\):\n +m\d+ = ", program)


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


# ---------------------------------------------------------------------------------------------------- views, hooks


@kind
def views_after_writes(program, found, oracle, subject, watch):
    """PyTorch refuses to use some views after writes that autograd does not record; here nothing is wrong with them."""
    refused = any(isinstance(seen, str) and seen == "RuntimeError" for seen in (found.expected, found.actual))
    return refused and (found.kind in SEEN_OF_VARIABLES or lenient(found, VIEW_REFUSED))


@kind
def kept_retaining(program, found, oracle, subject, watch):
    """Whether a tensor whose shape is changed in place still retains its gradient is not said."""
    return found.kind == "retains_grad" and matches(r"(t|transpose|swapaxes|unsqueeze|squeeze|detach)_\(", program)


@kind
def late_leaves(program, found, oracle, subject, watch):
    """A view that was made before its base required grad does not follow it."""
    late = matches(r"requires_grad_\(\)|requires_grad = True$", program)
    refused = strict(found, "does not require grad", "doesn't require gradient")
    return late and (found.kind in HISTORY or refused)


@kind
def listed_tensors(program, found, oracle, subject, watch):
    """Functions track tensors in lists, which PyTorch does not look into.

    The difference goes when those are detached.
    """
    if not matches(r"Listed\.apply", program):
        return False
    apart = [re.sub(r"\[(v\d+), (v\d+)\], v", r"[\1.detach(), \2.detach()], v", statement) for statement in program]
    return found.kind in HISTORY or difference(apart, oracle, subject, watch) is None


@kind
def augmented_views(program, found, oracle, subject, watch):
    """PyTorch refuses `view[...] += x` where the view had no history before; here it is as that of any other part."""
    return lenient(found, "a leaf Variable that requires grad is being") and matches(r"\] [-+*/]= ", program)


@kind
def detached_views(program, found, oracle, subject, watch):
    """Whether einsum and others return a view, which can't be detached in place, is not said."""
    return lenient(found, "Can't detach views in-place") or strict(found, "Can't detach views in-place")


def _is_view(name, program, library) -> bool:
    """Whether a variable of a program is a view, and no leaf."""
    with after(program, library) as run:
        tensor = run.tensors().get(name)
        return tensor is not None and held(tensor) and tensor._is_view() and not tensor.is_leaf


@kind
def lost_hooks(program, found, oracle, subject, watch):
    """PyTorch forgets the hooks of views, and that they retain gradients, when their memory is written."""
    unrecorded = r"no_grad|inference|enabled\(False|logical_|\.data|detach\(\)\."
    retained = found.kind == "grad" or found.kind.startswith("grad.")
    seen = found.kind == "log" or retained and any(_is_view(found.name, program, one) for one in (oracle, subject))
    written = matches(unrecorded, program) or seen and matches(r"[a-z]_\(|\] [*+-]?= |AddOne|Dirty", program)
    return matches("retain_grad|register_|inputs=", program) and written


@kind
def hooks_of_none(program, found, oracle, subject, watch):
    """PyTorch calls the hooks of an output without gradient, with None, if another output of the op has one."""
    if found.kind in ("log", "grad.values") and matches(r"(var|std)_mean|T\.func\.|block_diag", program):
        return matches("register_", program)  # they are made of other ops there
    if found.kind == "log":
        return isinstance(found.expected, list | tuple) and "None, None" in str(found.expected)
    return found.kind == "error" and "NoneType" in found.message


@kind
def hooks_before_writes(program, found, oracle, subject, watch):
    """A hook of a view gets the gradient of the value from before writes, as PyTorch documents; there it is dropped.

    The difference goes when views have no hooks.
    """
    if found.kind not in ("grad.values", "values", "log"):
        return False
    with warnings.catch_warnings(), Run(oracle) as run:
        warnings.simplefilter("ignore")
        kept = []
        for statement in program:
            hooked = re.match(r"(?s).*?h\d+ = (v\d+)\.(grad_fn\.)?register_", statement)
            if not hooked or not run.names[hooked[1]]._is_view():
                kept.append(statement)
            run.step(statement)
    return len(kept) < len(program) and difference(kept, oracle, subject, watch) is None


@kind
def detached_in_place(program, found, oracle, subject, watch):
    """What was saved of a tensor that was detached in place is there still; PyTorch refuses to use it."""
    return lenient(found, "Trying to use a saved tensor that has been detached in-place")


@kind
def integers(program, found, oracle, subject, watch):
    """Integers have no history; PyTorch says that those do that were written from floats, and fails in backward."""
    if found.kind not in HISTORY:
        return False
    with after(program, subject) as run:
        return not (run.names[found.name].is_floating_point() or run.names[found.name].is_complex())


@kind
def several_targets(program, found, oracle, subject, watch):
    """PyTorch leaves hooks out of the gradient of a tensor that leads to another one that was asked for."""
    return matches("register_", program) and matches(r"autograd\.grad\(.*\[v\d+, v\d+\]", program)


@kind
def other_outputs(program, found, oracle, subject, watch):
    """PyTorch walks to an op if any of its outputs is asked for."""
    several = matches(r"(^|\n +)v\d+, \*?v\d+(, _)? = (?!T\.autograd)|\)\[0\]$", program)
    return found.kind in ("log", "grad", "grad.values") and several and matches(r"autograd\.grad\(|inputs=", program)


# ---------------------------------------------------------------------------------------------------- errors


@kind
def other_error_first(program, found, oracle, subject, watch):
    """Of two errors that a statement has, another one is reported."""
    if found.kind != "error" or found.expected is None or found.actual is None:
        return False
    known = any(words in found.message for words in EITHER_FIRST)
    known = known or {found.expected, found.actual} == {"RuntimeError", "CheckpointError"}  # one is of the other's kind
    return known or "NotImplementedError" in (found.expected, found.actual) or matches("complex", program)


@kind
def fails_inside(program, found, oracle, subject, watch):
    """PyTorch fails inside."""
    unallocated = found.kind.endswith("values") and isinstance(found.expected, str)
    inside = "INTERNAL ASSERT", "unallocated storage", "error message be improved", "ZeroTensors are immutable"
    inside += ("Tensor must have a last dimension with stride 1",)  # of an empty one
    inside += ("view size is not compatible",) * bool(re.search(r"(kron|take_along_dim)\(", program[-1]))
    inside += ("Negation, the `-` operator, on a bool tensor",) * matches("atan2", program)  # in atan2's derivative
    return unallocated or lenient(found, *inside)


@kind
def empty_tensors(program, found, oracle, subject, watch):
    """PyTorch checks neither dimensions nor dtypes of empty tensors."""
    unchecked = "Dimension out of range", "not implemented for 'Complex", "not implemented for 'complex"
    written = strict(found, "modified by an inplace operation") and matches(r"zeros\(\(0", program)
    return written or strict(found, *unchecked, "running_mean should contain")


@kind
def casts_of_one(program, found, oracle, subject, watch):
    """One element that is written by an index is cast."""
    return lenient(found, "Index put requires the source and destination dtypes match", "converted to type double")
