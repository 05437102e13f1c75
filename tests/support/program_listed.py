"""Where plugrad differs from PyTorch on purpose, or PyTorch promises nothing: memory, views, hooks, errors.

`program_listed_saved` has what concerns saved values, `program_listed_rounding` where rounding decides.
"""

from __future__ import annotations

import re
import textwrap
import warnings

import numpy as np

from support import program_listed_rounding, program_listed_saved, program_listed_wider  # noqa: F401  their kinds
from support.program_kinds import (
    EITHER_FIRST,
    HISTORY,
    VIEW_REFUSED,
    after,
    goes,
    kind,
    lenient,
    listed,
    matches,
    strict,
)
from support.program_runs import SEEN_OF_VARIABLES, Run, difference, held, values_of

# ---------------------------------------------------------------------------------------------------- memory


WRITTEN = "more than one element of the written-to tensor"
OPERAND = r"([a-z]_\(| [-+*/]= )(v\d+)(?=$|\)|, )"


@kind
def overlap(program, found, oracle, subject, watch):
    """PyTorch refuses to write by an op that reads the same memory; here the op has read all before it writes."""
    copied = re.match(r"(?s)(.*)(v\d+)\[\.\.\.\] = (v\d+)$", program[-1])
    if found.kind == "values" and copied:  # not by copies, which write in an order that is not said
        apart = [*program[:-1], f"{copied[1]}{copied[2]}[...] = {copied[3]}.clone()"]
        return difference(apart, oracle, subject, watch) is None
    if found.kind == "values" and re.search(OPERAND, program[-1]):
        apart = re.sub(r", (v\d+)(?=\)|, )", r", \1.clone()", re.sub(OPERAND, r"\1\2.clone()", program[-1]))
        left = difference([*program[:-1], apart], oracle, subject, watch)
        return left is None or left.kind in HISTORY  # views after writes, see below
    refused = lenient(found, "refer to a single memory location")
    dense = [re.sub(r"pickle\.dumps\((.*)\)\)$", r"pickle.dumps((\1).contiguous()))", one) for one in program]
    if lenient(found, WRITTEN) and goes(program, dense, oracle, subject, watch):
        return True
    copies = matches(r"T\.func\.|deepcopy\(|dual_level", program)  # which are not expanded here
    return refused or copies and lenient(found, WRITTEN)


@kind
def expanded(program, found, oracle, subject, watch):
    """Expanded memory is written by fills only; PyTorch allows more, whose results depend on the order of writing."""
    return strict(found, "more than one element of the written-to tensor")


@kind
def conjugates(program, found, oracle, subject, watch):
    """The conjugate of a complex tensor is a copy that follows it: it has its own order, and can't be written.

    So its real and imaginary parts can be seen, which PyTorch refuses.
    """
    made = matches(r"complex|\.c(float|double)\(|\dj\b|T\.fft\.", program)
    conjugated = made and matches(r"\.(conj|adjoint)\(", program)
    refused = strict(found, "the conjugate of a complex tensor can't be written")
    seen = lenient(found, "view_as_real doesn't work on unresolved conjugated tensors", "that has negative bit set")
    return refused or seen or conjugated and found.kind == "strides"


@kind
def detached_bases(program, found, oracle, subject, watch):
    """A view that was written follows its base when that is detached in place; in PyTorch it keeps its history."""
    if not matches(r"detach_\(|requires_grad_\(False|requires_grad = False", program):
        return False
    if found.kind not in HISTORY:
        written = matches(r"_\(|\] [-+*/]?= ", program)
        return strict(found, "does not require grad", "doesn't require gradient") and written
    with after(program, subject) as run:
        tensor = run.tensors().get(found.name)
        return tensor is not None and (tensor._is_view() or tensor.is_conj())


@kind
def own_memory(program, found, oracle, subject, watch):
    """Gradients that grad() and transforms return have memory of their own; in PyTorch they may share it.

    The difference goes when they are copied.
    """
    if not matches(r"autograd\.grad\(|T\.func\.|autograd\.functional\.", program):
        return False
    copied = [re.sub(r"(T\.autograd\.grad\(.*\))", r"apart(\1)", statement) for statement in program]
    derived = r"(v\d+ = )(T\.(?:autograd\.functional|func)\..*)$"
    copied = [re.sub(derived, r"\1apart([\2])[0]", statement) for statement in copied]
    after = difference(copied, oracle, subject, watch)
    if after is None:
        return True
    other = (after.message, after.kind, after.name) != (found.message, found.kind, found.name)
    meant = overlap, augmented_views, layouts, program_listed_wider.classes_of_derivatives
    meant += (program_listed_saved.resized_out,)
    return other and any(one(copied, after, oracle, subject, watch) for one in meant)


def in_rows(*runs) -> None:
    """Lay out in rows what is no view."""
    for tensor in [tensor for run in runs for tensor in run.tensors().values()]:
        if tensor.grad_fn is None and not tensor._is_view() and not tensor.is_sparse:
            tensor.data = tensor.data.contiguous()


@kind
def layouts(program, found, oracle, subject, watch):
    """In which order the results of an op lie in memory is said of few ops.

    The difference goes when what as_strided looks at is contiguous, and what a factor is reshaped to is copied.
    """
    viewed = "view size is not compatible"
    reordered = r"autograd|T\.fft\.|\.(T|mT|mH|H)\b|\.(t|transpose|permute|movedim|swapaxes|swapdims|adjoint)\("
    if (lenient(found, viewed) or strict(found, viewed)) and matches(reordered, program):
        for other in (".reshape(", ".clone(memory_format=T.contiguous_format).view("):  # of which writes see nothing
            if difference([*program[:-1], program[-1].replace(".view(", other)], oracle, subject, watch) is None:
                return True
    if lenient(found, viewed) and matches(r"T\.load\(", program):  # of what was a part of something
        return True
    looked = found.kind in ("strides", "grad_fn") or lenient(found, viewed) or strict(found, viewed)
    orders = r"dual_level|channels_last|T\.func\.|autograd\.functional\.|linalg\.|T\.fft\.|\.contiguous\("
    if looked and matches(orders, program):
        return True
    unrecorded = r"(no_grad|enabled\(False|inference).*\n? *v\d+ = v\d+\.contiguous\("
    if found.kind in HISTORY and matches(unrecorded, program):  # it returns what is contiguous as it is, else a copy
        copied = [re.sub(r"\.contiguous\(", ".clone(", statement) for statement in program]
        return difference(copied, oracle, subject, watch) is None
    if matches(r"linalg\.|T\.fft\.|T\.func\.|autograd\.|channels_last|dual_level|distributions\..*log_prob", program):
        maybe_views = r"(\.(flatten|ravel|reshape|contiguous|nn\.Flatten\(\d*\))\((?:[^()]|\([^()]*\))*\))"
        copied = [re.sub(maybe_views, r"\1.clone()", statement) for statement in program]
        if copied != program and difference(copied, oracle, subject, watch) is None:
            return True
    drawn = r"(?:rand\w*_like|[Dd]ropout\w*(?:\([\d.]+\))?|bernoulli|normal|rrelu)\(v\d+"  # in the order of memory
    drawn = rf"({drawn}|v\d+(?:\.detach\(\))?(?=\.clone\(\)\.\w+_\())"
    copied = [re.sub(drawn, r"\1.contiguous()", statement) for statement in program]
    if copied != program and difference(copied, oracle, subject, watch) is None:
        return True
    given = r"(checkpoint\(lambda a: .*dropout.*, )(v\d+)(?=, )"
    copied = [re.sub(given, r"\1\2.contiguous()", statement) for statement in program]
    if copied != program and difference(copied, oracle, subject, watch) is None:
        return True
    if matches("checkpoint.*dropout", program) and difference(program, oracle, subject, watch, between=in_rows) is None:
        return True
    if not matches(r"\.as_strided\(", program):
        return False
    contiguous = [statement.replace(".as_strided(", ".contiguous().clone().as_strided(") for statement in program]
    return difference(contiguous, oracle, subject, watch) is None


@kind
def halves_of_complex(program, found, oracle, subject, watch):
    """NumPy has no complex32: complex64 stands for it."""
    narrow = found.kind == "dtype" and "complex32" in str(found.expected) and "complex64" in str(found.actual)
    return narrow or lenient(found, "not implemented for 'ComplexHalf'")


@kind
def running_statistics(program, found, oracle, subject, watch):
    """PyTorch does not notice that batch normalization writes the running statistics that a node saved."""
    written = matches(r"running_(mean|var)", program) and matches("BatchNorm|InstanceNorm", program)
    return strict(found, "modified by an inplace operation") and written


@kind
def partly_written(program, found, oracle, subject, watch):
    """What an op of PyTorch's, or a walk backward, has written when it raises an error is not said.

    An op that raises an error has written nothing here: what follows is the same without it.
    """
    seen = found.kind in ("values", "grad", "grad.values", "grad.requires_grad", "log")
    if not found.raised or not seen and not strict(found, "modified by an inplace operation"):
        return False
    with after([], subject) as run:
        raising = [statement for statement in program if run.step(statement) is not None]
    if any(re.search(r"backward\(|autograd\.grad\(", statement) for statement in raising):
        without = ["pass" if statement in raising else statement for statement in program]
        return found.kind != "log" or difference(without, oracle, subject, watch) is None
    quiet = [f"try:\n{textwrap.indent(one, '    ')}\nexcept Exception:\n    pass" for one in program]
    without = ["pass" if statement in raising else statement for statement in program]
    return bool(raising) and difference(quiet, subject, subject, watch, instead=without) is None


_AUGMENTED, _NAMES = re.compile(r"\.data ([-+*/])= (.*)"), {"-": "sub_", "+": "add_", "*": "mul_", "/": "div_"}


@kind
def replaced_data(program, found, oracle, subject, watch):
    """What PyTorch saved follows `.data`, replaced or written; here a node may keep the values that it saved."""
    seen = found.kind in ("values", "grad.values")
    if seen and matches(r"\.data$|\.data\.", program):
        called = [_AUGMENTED.sub(lambda m: f".data.{_NAMES[m[1]]}({m[2]})", statement) for statement in program]
        apart = [re.sub(r"\.data\b(?! = )", ".data.clone()", statement) for statement in called]
        if difference(apart, oracle, subject, watch) is None:
            return True
    kinds = (*HISTORY, "log", "grad", "inference")
    seen = seen or strict(found, "modified by an inplace operation") or found.kind in kinds
    return seen and matches(r"\.data = ", program)


# ---------------------------------------------------------------------------------------------------- views, hooks


@kind
def views_after_writes(program, found, oracle, subject, watch):
    """PyTorch refuses to use some views after writes that autograd does not record; here nothing is wrong with them."""
    refused = any(isinstance(seen, str) and seen == "RuntimeError" for seen in (found.expected, found.actual))
    if lenient(found, "not have been used in the graph"):  # in PyTorch the write has made a new history
        return matches(r"(no_grad|inference_mode)\(\):(\n +.*)*\n +v\d+(\[.*\] = |\.\w+_\()", program)
    return refused and (found.kind in SEEN_OF_VARIABLES or lenient(found, *VIEW_REFUSED))


@kind
def kept_retaining(program, found, oracle, subject, watch):
    """A tensor that was detached in place retains no gradient; in PyTorch it still says that it does."""
    return found.kind == "retains_grad" and matches(r"detach_\(", program)


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
    """PyTorch forgets the hooks of views, and that they retain gradients, when their memory is written.

    The difference goes when they are copies.
    """
    unrecorded = r"no_grad|inference|enabled\(False|logical_|\.data|detach\(\)\."
    retained = found.kind == "grad" or found.kind.startswith("grad.")
    seen = found.kind == "log" or retained and any(_is_view(found.name, program, one) for one in (oracle, subject))
    written = matches(unrecorded, program) or matches(r"[a-z]_\(|\] [*+-]?= |AddOne|Dirty", program)
    seen = seen or found.kind in ("values", "retains_grad") or lenient(found, "not have been used")
    seen = seen or strict(found, "has changed the size of value")  # says the hook that is there still
    if not seen or not matches("retain_grad|register_|inputs=", program) or not written:
        return False
    asked = r"(v\d+)\.(?:grad_fn\.)?(?:register_|retain_grad)|\[(?:(v\d+), )?(v\d+)\](?:, lambda|\)$)"
    asked = re.findall(asked, "\n".join(program), re.MULTILINE)
    with after(program, oracle) as run:
        views = {name for name, t in run.tensors().items() if t._is_view() or t._base is not None}
    made = rf"(?s)^((?:[^\n]*\n +)*?(?:{'|'.join({*sum(asked, ())} & views)}) = )(.*)$"
    copied = [re.sub(made, r"\1(\2).clone()", statement) for statement in program]
    left = None if copied == program else difference(copied, oracle, subject, watch)
    return copied != program and (left is None or listed(copied, left, oracle, subject, watch) is not None)


@kind
def edges_of_views(program, found, oracle, subject, watch):
    """After a write that is not recorded nothing leads to a view of PyTorch's any more; here it keeps its edge.

    The difference goes when the gradient of a leaf is asked for instead.
    """
    last = re.sub(r"(get_gradient_edge\(v\d+\), )(v\d+),", r"\1[\2],", program[-1])
    asked = re.search(r"(?:autograd\.grad\(|inputs=).*?\[(?:v\d+, )?(v\d+)\]", last)
    leaf = re.match(r"(v\d+) = ", program[0])
    nothing = found.kind in ("values", *HISTORY) and "materialize_grads" in program[-1]
    if nothing:
        with after(program, oracle) as run:
            nothing = not np.any(values_of(run.tensors()[found.name]))
    if not asked or not leaf or not nothing and not strict(found, "modified by an inplace operation"):
        return False
    if nothing:
        return any(_is_view(name, program[:-1], oracle) for name in re.findall(r"v\d+", asked[0].rpartition("[")[2]))
    other = last.replace(f"{asked[1]}]", f"{leaf[1]}]")
    viewed = _is_view(asked[1], program[:-1], oracle) and _is_view(asked[1], program[:-1], subject)
    return viewed and difference([*program[:-1], other], oracle, subject, watch) is None


@kind
def hooks_of_none(program, found, oracle, subject, watch):
    """PyTorch calls the hooks of an output without gradient, with None, if another output of the op has one.

    The difference goes when these are outputs of ops of their own.
    """
    if found.kind in ("log", "grad.values") and matches(r"(var|std)_mean|T\.func\.|block_diag", program):
        return matches("register_", program)  # they are made of other ops there
    if found.kind == "log":
        called = isinstance(found.expected, list | tuple) and "None, None" in str(found.expected)
    else:
        called = found.kind == "error" and "NoneType" in found.message
    apart = [re.sub(r"Lazy\.apply\((v\d+), (v\d+)\)", r"(\1 * 2, \2 * 3)", statement) for statement in program]
    apart = [re.sub(r"Dirty\.apply\((v\d+), (v\d+)\)", r"(\1.mul_(2), \2 * 3)", statement) for statement in apart]
    apart = [re.sub(SEVERAL, r"\1[one * 1 for one in \2]", statement) for statement in apart]
    left = difference(apart, oracle, subject, watch) if called and apart != program else found
    return left is None or left is not found and listed(apart, left, oracle, subject, watch) is not None


SEVERAL = r"(?s)^((?:.*\n +)?\(?v\d+, \*?v\d+(?:, _)?\)? = )(?!T\.autograd)(.*)$"  # a statement with several results


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
def transposed_in_place(program, found, oracle, subject, watch):
    """PyTorch forgets what was transposed in place of a view with a function of its own, when its base is written.

    Its node is one of another shape, so that its gradient can't be asked for.
    """
    if not matches(r"\.(t|transpose|swapaxes|swapdims|squeeze|unsqueeze)_\(", program):
        return False
    if lenient(found, "invalid gradient at index"):
        return any(_of_other_shape(t) for t in _tensors_after(program[:-1], oracle))
    return found.kind in ("grad_fn", "strides") and any(_of_other_shape(t) for t in _tensors_after(program, oracle))


def _tensors_after(program, library) -> list:
    with after(program, library) as run:
        return [t for t in run.tensors().values() if held(t) and t.grad_fn is not None]


def _of_other_shape(tensor) -> bool:
    """Whether the node of a tensor of PyTorch's is one of a tensor of another shape."""
    return tuple(tensor.grad_fn._input_metadata[tensor.output_nr].shape) != tuple(tensor.shape)


@kind
def detached_in_place(program, found, oracle, subject, watch):
    """What was saved of a tensor that was detached in place is there still; PyTorch refuses to use it."""
    return lenient(found, "Trying to use a saved tensor that has been detached in-place")


@kind
def integers(program, found, oracle, subject, watch):
    """Integers have no history; PyTorch says that those do that were written from floats, and fails in backward."""
    if found.kind not in HISTORY:
        return lenient(found, "Autograd not support dtype")
    with after(program, subject) as run:
        written = run.tensors()[found.name]
        return not (written.is_floating_point() or written.is_complex())


@kind
def formulas_not_reached(program, found, oracle, subject, watch):
    """PyTorch walks to an op without a gradient formula although no gradient arrives there; here nothing is asked.

    The difference goes when what has no formula is detached.
    """
    if re.search(r"derivative for aten::\w+ is not", found.message) and lenient(found, ""):
        with after(program[:-1], oracle) as run:  # of what is asked for itself nothing further is
            asked = [run.tensors().get(name) for name in re.findall(r"v\d+", program[-1])]
        if any(type(getattr(t, "grad_fn", None)).__name__ == "NotImplemented" for t in asked):
            return matches(r"inputs=|autograd\.grad\(", program[-1:])
    if not lenient(found, "the derivative for '"):
        return False
    apart = [re.sub(r"^(v\d+ = )(.*(?:zeta|\.unique\().*)$", r"\1(\2).detach()", statement) for statement in program]
    return apart != program and difference(apart, oracle, subject, watch) is None


@kind
def formulas_behind_views(program, found, oracle, subject, watch):
    """PyTorch does not ask for the gradient of a view without history, so not that it has no formula either.

    No gradient goes on from such a view. The difference goes when what has no formula is detached.
    """
    if found.kind != "error" or found.expected is not None or "derivative for 'unique'" not in found.message:
        return False
    apart = [re.sub(r"(v\d+\.unique\(\))", r"\1.detach().requires_grad_()", statement) for statement in program]
    return apart != program and difference(apart, oracle, subject, watch) is None


@kind
def several_targets(program, found, oracle, subject, watch):
    """PyTorch leaves hooks out of the gradient of a tensor that leads to another one that was asked for.

    The difference goes when they are asked for one by one.
    """
    both = r" = T\.autograd\.grad\((.*), \[(v\d+), (v\d+)\](.*)\)$"
    first, second = [rf"*T.autograd.grad(\1, [\{n}]\4, retain_graph=True)" for n in (2, 3)]
    free = [one.replace(", retain_graph=True", "") if re.search(both, one) else one for one in program]
    apart = [re.sub(both, f" = {first}, {second}", statement) for statement in free]
    hooked = matches("register_", program) and apart != program
    return hooked and difference(apart, oracle, subject, watch) is None


@kind
def other_outputs(program, found, oracle, subject, watch):
    """PyTorch walks to an op if any of its outputs is asked for.

    The difference goes when these are outputs of ops of their own.
    """
    apart = [re.sub(SEVERAL, r"\1[one * 1 for one in \2]", statement) for statement in program]
    asked = apart != program and matches(r"autograd\.grad\(|inputs=", program)
    return asked and difference(apart, oracle, subject, watch) is None


# ---------------------------------------------------------------------------------------------------- errors


@kind
def other_error_first(program, found, oracle, subject, watch):
    """Of two errors that a statement has, another one is reported."""
    if found.kind != "error" or found.expected is None or found.actual is None:
        return False
    known = any(words in found.message for words in EITHER_FIRST)
    known = known or {found.expected, found.actual} == {"RuntimeError", "CheckpointError"}  # one is of the other's kind
    return known or (found.expected, found.actual) == ("RuntimeError", "NotImplementedError")  # one of its kind


@kind
def fails_inside(program, found, oracle, subject, watch):
    """PyTorch fails inside."""
    unallocated = found.kind.endswith("values") and isinstance(found.expected, str)
    if found.kind == "grad" and isinstance(found.expected, dict):
        unallocated = isinstance(found.expected["values"], str)
    inside = "INTERNAL ASSERT", "unallocated storage", "error message be improved", "ZeroTensors are immutable"
    inside += ("Batching rule not implemented", "Cannot access storage of SparseTensorImpl",
               "doesn't correspond to a device")
    inside += ("returned an invalid gradient at index",) * matches(r"\.scatter\(", program)  # of other sizes
    inside += ("Tensor must have a last dimension with stride 1",)  # of an empty one
    inside += ("view size is not compatible",) * bool(re.search(r"(kron|take_along_dim)\(", program[-1]))
    inside += ("doesn't match the broadcast shape",) * matches(r"logsumexp\((\(\)|\[\])", program[-1:])
    inside += ("Negation, the `-` operator, on a bool tensor",) * matches("atan2", program)  # in atan2's derivative
    return unallocated or lenient(found, *inside)


@kind
def empty_tensors(program, found, oracle, subject, watch):
    """PyTorch checks neither dimensions nor dtypes of empty tensors."""
    unchecked = "Dimension out of range", "not implemented for 'Complex", "not implemented for 'complex"
    unchecked += ("to have the same dtype",)
    written = strict(found, "modified by an inplace operation") and matches(r"zeros\(\(0", program)
    return written or strict(found, *unchecked, "running_mean should contain")


@kind
def casts_of_one(program, found, oracle, subject, watch):
    """One element that is written by an index is cast."""
    return lenient(found, "Index put requires the source and destination dtypes match", "converted to type double")


@kind
def scalars_of_vmap(program, found, oracle, subject, watch):
    """PyTorch's vmap knows no dimension of the scalars that a function maps; outside of it a scalar has the one.

    The difference goes where they are left as they are, which flipping comes to.
    """
    mapped = r"\.(flip|roll)\((\d, )?-?\d\)"
    if not lenient(found, "Dimension out of range") or not matches(r"vmap|hessian|jac", program[-1:]):
        return False
    left = [*program[:-1], re.sub(mapped, ".clone()", program[-1])]
    return goes(program, left, oracle, subject, watch)


@kind
def copies_of_subclasses(program, found, oracle, subject, watch):
    """PyTorch copies deeply only such subclasses whose new_empty() makes one of them; here all."""
    return lenient(found, "The default implementation of __deepcopy__()")
