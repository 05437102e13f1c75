"""Where plugrad differs from PyTorch on purpose, or PyTorch promises nothing: what random programs may show.

Each function says of a shrunk program and the difference that it shows whether it is of one kind; the first line of its
docstring is the reason why that kind is meant. Where the reason can be tested, the function runs the program again.
"""

from __future__ import annotations

import re
import warnings

from support.program_runs import SEEN_OF_VARIABLES, Run, difference

KINDS: list = []
VIEW_REFUSED = "its base or another view of its base has been modified inplace"
FREED = "backward through the graph a second time"
EITHER_FIRST = ("setStorage", "too many indices", "out of bounds", "Dimension specified as 0")


def listed(program: list[str], found, oracle, subject, watch=True) -> str | None:
    """Return why a difference that a shrunk program shows is meant, None if it is not."""
    for function in KINDS:
        if function(program, found, oracle, subject, watch):
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


# ---------------------------------------------------------------------------------------------------- memory


@kind
def overlap(program, found, oracle, subject, watch):
    """PyTorch refuses to write by an op that reads the same memory; here the op has read all before it writes."""
    return lenient(found, "refer to a single memory location")


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
    return difference(copied, oracle, subject, watch) is None


@kind
def layouts(program, found, oracle, subject, watch):
    """In which order the results of an op lie in memory is said of few ops.

    The difference goes when what as_strided looks at is contiguous.
    """
    if not matches(r"\.as_strided\(", program):
        return False
    contiguous = [statement.replace(".as_strided(", ".contiguous().as_strided(") for statement in program]
    return difference(contiguous, oracle, subject, watch) is None


@kind
def partly_written(program, found, oracle, subject, watch):
    """What an op has written when it raises an error is not said."""
    return found.raised and found.kind in ("values", "grad.values")


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
    if strict(found, "modified by an inplace operation") and matches(r"\.data\b|copy\.copy|= -?[\d.]+ / v", program):
        return True  # PyTorch misses writes by what was made of `.data`, and saves the reciprocal of a divisor
    if not lenient(found, "modified by an inplace operation"):
        return False
    if matches("inplace=True", program):
        return True  # which activations save their result
    with oracle.autograd.graph.allow_mutation_on_saved_tensors():
        return difference(program, oracle, subject, watch) is None


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
    """Which tensors of inference mode would have to be saved is not said."""
    return lenient(found, "Inference tensors cannot be saved for backward")


@kind
def depends_on_nothing(program, found, oracle, subject, watch):
    """How formulas are written decides whether a gradient that depends on nothing requires grad.

    The gradient of what requires grad in one of the two only is zero everywhere.
    """
    if not matches("create_graph=True", program):
        return False
    attribute, statements = "", program
    if found.kind.endswith("requires_grad"):
        name, library = found.name, oracle if found.expected else subject
        attribute = ".grad" if found.kind.startswith("grad.") else ""
    elif strict(found, "does not require grad") or lenient(found, "does not require grad"):
        name, library = re.search(r"v\d+", program[-1]).group(), oracle if found.expected is None else subject
        statements = program[:-1]
    else:
        return False
    with warnings.catch_warnings(), Run(library) as run:
        warnings.simplefilter("ignore")
        for statement in statements:
            run.step(statement)
        leaves = [t for t in run.tensors().values() if t.is_leaf and t.requires_grad]
        try:
            value = eval(f"{name}{attribute}", run.names)
            grads = library.autograd.grad(value.sum(), leaves, allow_unused=True)
        except (RuntimeError, NameError):  # it can't be differentiated, or is not there
            return False
        return all(g is None or not g.any() for g in grads)


@kind
def inference_copies(program, found, oracle, subject, watch):
    """Whether an op that returns its input or a copy of it makes an inference tensor depends on which it does."""
    return found.kind == "inference" and matches(r"\.(ravel|contiguous|reshape|flatten|view)\(", program)


@kind
def resized_out(program, found, oracle, subject, watch):
    """An out= of another shape gets memory of its own; PyTorch writes to that which others may see."""
    return found.kind in ("values", "grad.values") and matches("out=", program)


@kind
def once(program, found, oracle, subject, watch):
    """What is differentiable once has gradients that require grad, so that to differentiate them is refused."""
    return found.kind.endswith("requires_grad") and matches(r"Once\.apply", program)


@kind
def reentrant_checkpoints(program, found, oracle, subject, watch):
    """PyTorch refuses reentrant checkpoints in grad() and with inputs=; here they work."""
    return lenient(found, "is incompatible with .grad() or passing an `inputs`")


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
    return late and (found.kind in ("requires_grad", "is_leaf", "grad_fn") or strict(found, "does not require grad"))


@kind
def detached_views(program, found, oracle, subject, watch):
    """Whether einsum and others return a view, which can't be detached in place, is not said."""
    return lenient(found, "Can't detach views in-place")


@kind
def lost_hooks(program, found, oracle, subject, watch):
    """PyTorch forgets the hooks of views when their memory is written unrecorded."""
    unrecorded = r"no_grad|inference|enabled\(False|logical_|\.data|detach\(\)\."
    written = matches(unrecorded, program) or found.kind == "log" and matches(r"[a-z]_\(|\] [*+-]?= ", program)
    return matches("retain_grad|register_|inputs=", program) and written


@kind
def hooks_of_none(program, found, oracle, subject, watch):
    """PyTorch calls the hooks of an output without gradient, with None, if another output of the op has one."""
    if found.kind == "log":
        return isinstance(found.expected, list | tuple) and "None, None" in str(found.expected)
    return found.kind == "error" and "NoneType" in found.message


@kind
def several_targets(program, found, oracle, subject, watch):
    """PyTorch leaves hooks out of the gradient of a tensor that leads to another one that was asked for."""
    return matches("register_", program) and matches(r"autograd\.grad\(.*\[v\d+, v\d+\]", program)


@kind
def other_outputs(program, found, oracle, subject, watch):
    """PyTorch walks to an op if any of its outputs is asked for."""
    several = matches(r"^v\d+, \*?v\d+ = (?!T\.autograd)|\)\[0\]$", program)
    return found.kind in ("log", "grad.values") and several and matches(r"autograd\.grad\(|inputs=", program)


# ---------------------------------------------------------------------------------------------------- errors


@kind
def other_error_first(program, found, oracle, subject, watch):
    """Of two errors that a statement has, another one is reported."""
    if found.kind != "error" or found.expected is None or found.actual is None:
        return False
    known = any(words in found.message for words in EITHER_FIRST)
    return known or "NotImplementedError" in (found.expected, found.actual) or matches("complex", program)


@kind
def fails_inside(program, found, oracle, subject, watch):
    """PyTorch fails inside."""
    unallocated = found.kind.endswith("values") and isinstance(found.expected, str)
    return unallocated or lenient(found, "INTERNAL ASSERT", "unallocated storage")


@kind
def empty_tensors(program, found, oracle, subject, watch):
    """PyTorch checks neither dimensions nor dtypes of empty tensors."""
    return strict(found, "Dimension out of range", "not implemented for 'Complex", "not implemented for 'complex")


@kind
def casts_of_one(program, found, oracle, subject, watch):
    """One element that is written by an index is cast."""
    return lenient(found, "Index put requires the source and destination dtypes match")
