"""Where plugrad differs from PyTorch on purpose: sparse gradients, subclasses, forward mode, transforms."""

from __future__ import annotations

import re

import numpy as np

from support.program_kinds import HISTORY, after, goes, kind, lenient, listed, matches, strict
from support.program_runs import difference, values_of

BALANCED = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"


@kind
def functions_in_transforms(program, found, oracle, subject, watch):
    """Functions are differentiated forward and mapped by their backward; PyTorch wants a rule of their own for that.

    The difference goes when an op stands in their place.
    """
    words = "does not have vmap support", "must implement the jvp function", "NYI: Functionalize rule"
    if found.kind != "error" or not any(one in found.message for one in words):
        return False
    ops = [statement.replace("Square.apply(", "T.square(") for statement in program]
    return goes(program, ops, oracle, subject, watch)


@kind
def kernels_for_sparse(program, found, oracle, subject, watch):
    """PyTorch has no kernel for a gradient that is sparse; here it is made dense where one is needed.

    The difference goes when gradients are dense from the start.
    """
    if not lenient(found, ""):
        return False
    dense = [statement.replace(", sparse=True", "") for statement in program]
    if dense == program:
        return False
    left = difference(dense, oracle, subject, watch)
    return left is None or left.kind == "strides" or listed(dense, left, oracle, subject, watch) is not None


@kind
def gradients_of_zeros(program, found, oracle, subject, watch):
    """The gradient of to_sparse() is that of the elements it stores; PyTorch's sums with dense ones hand on all.

    The difference goes when the sum is with the dense form.
    """
    dense = [re.sub(r" \+ (v\d+)\b(?!\.)", r" + \1.to_dense()", statement) for statement in program]
    added = found.kind == "grad.values" and matches(r"\.to_sparse\(", program) and dense != program
    return added and difference(dense, oracle, subject, watch) is None


@kind
def products_of_sparse(program, found, oracle, subject, watch):
    """PyTorch multiplies sparse gradients wrongly by what they are broadcast with.

    What PyTorch has with dense gradients is what is here.
    """
    dense = [statement.replace(", sparse=True", "") for statement in program]
    if not found.kind.endswith("values") or dense == program:
        return False
    left = difference(program, oracle, subject, watch, instead=dense)
    return left is None or left.kind.endswith(("layout", "class", "strides"))


@kind
def layouts_of_gradients(program, found, oracle, subject, watch):
    """The gradient of what is not looked up itself is dense; PyTorch's ops hand sparse ones on where they can.

    Their values are the same, or differ for a reason of their own, also where all are dense.
    """
    if not found.kind.endswith("layout") or "sparse" not in found.expected:
        return False
    dense = [statement.replace("sparse=True", "sparse=False") for statement in program]
    left = difference(dense, oracle, subject, watch)
    if left is not None and listed(dense, left, oracle, subject, watch) is not None:
        return True
    with after(program, oracle) as one, after(program, subject) as other:
        pairs = [(run.tensors()[found.name], run) for run in (one, other)]
        grads = [t.grad if found.kind.startswith("grad.") else t for t, _ in pairs]
        return np.allclose(*map(values_of, grads))


@kind
def classes_of_derivatives(program, found, oracle, subject, watch):
    """Gradients and .data are plain tensors, transforms keep subclasses; PyTorch asks the class, and takes it off.

    The difference goes when the tensors are of no subclass.
    """
    handed_on = r"autograd\.grad\(.*get_gradient_edge\(.*_like\("  # which asks no class: an edge is no tensor
    derived = rf"{handed_on}|autograd\.f|T\.func\.|T\.vmap\(|dual_level|\.apply\(|\.data\b"
    if not found.kind.endswith("class") or not matches(derived, program):
        return False
    if found.expected == "Parameter" and matches(r"linearize\(", program[-1:]):  # what a trace found to be constant
        return True
    plain = [re.sub(r"\.as_subclass\(\w+\)", "[...]", statement) for statement in program]
    left = difference(plain, oracle, subject, watch)
    return left is None or left.kind != found.kind


@kind
def asked_twice(program, found, oracle, subject, watch):
    """Where no operand's class takes the other's, PyTorch has Python ask for the reflected operator, too.

    Then both raise the same error.
    """
    if found.kind != "log" or not found.raised or not matches(r"= v\d+ \S+ v\d+$", program[-1:]):
        return False
    with after(program[:-1], oracle) as one, after(program[:-1], subject) as other:
        error = one.step(program[-1])
        classes = {type(one.names[name]) for name in re.findall(r"v\d+", program[-1])[1:]}
        return len(classes) == 2 and oracle.Tensor not in classes and error == other.step(program[-1]) == "TypeError"


@kind
def views_of_subclasses(program, found, oracle, subject, watch):
    """PyTorch makes views of what an op or Function returns to a class, and refuses to write to some of these.

    Those that it makes under no_grad() have no history, and get no gradient. The difference goes when the tensors are
    of no subclass.
    """
    words = "is a view and is being modified inplace", "A view was created in no_grad mode"
    if not lenient(found, *words) and found.kind not in (*HISTORY, "grad"):
        return False
    plain = [re.sub(r"\.as_subclass\(\w+\)", "[...]", statement) for statement in program]
    return goes(program, plain, oracle, subject, watch)


@kind
def running_logarithms_forward(program, found, oracle, subject, watch):
    """The derivative of PyTorch's gradient of logcumsumexp is NaN where that is negative; here it is not.

    All other values are the same. Differentiated forward, it overwrites what it saved, and is another number than
    differences of the function itself say: the difference goes without it.
    """
    noticed = lenient(found, "returned nan values")  # by detect_anomaly()
    if (noticed or lenient(found, "modified by an inplace operation")) and matches(r"logcumsumexp\(0\)", program):
        written = [statement.replace(".logcumsumexp(0)", ".exp().cumsum(0).log()") for statement in program]
        written = [statement.replace("T.nn.functional.layer_norm(", "normed(") for statement in written]  # see below
        return difference(written, oracle, subject, watch) is None
    if not found.kind.endswith("values") or not matches(r"logcumsumexp\(", program):
        return False
    expected, actual = np.asarray(found.expected), np.asarray(found.actual)
    if _lost(expected, actual):
        return True
    written = [re.sub(r"\.logcumsumexp\((-?\d)\)", r".exp().cumsum(\1).log()", statement) for statement in program]
    forward = matches(r"dual_level|T\.func\.(jvp|linearize|jacfwd|hessian)|functional\.jvp", program)
    return forward and difference(written, oracle, subject, watch) is None


def _lost(expected, actual) -> bool:
    """Whether some of the expected values are NaN where there are numbers here, and all others are the same."""
    lost = np.isnan(expected) & np.isfinite(actual)
    return bool(lost.any()) and np.allclose(np.where(lost, 0, actual), np.where(lost, 0, expected), equal_nan=True)


@kind
def running_products_forward(program, found, oracle, subject, watch):
    """The gradient of PyTorch's forward derivative of cumprod is NaN at zeros, where two walks backward have numbers.

    All other values are the same.
    """
    forward = r"dual_level|T\.func\.|functional\.(jvp|hvp|jacobian|hessian)\("
    if not found.kind.endswith("values") or not matches(r"cumprod_?\(", program) or not matches(forward, program):
        return False
    return _lost(np.asarray(found.expected), np.asarray(found.actual))


@kind
def nan_taken_for_nothing(program, found, oracle, subject, watch):
    """PyTorch's gradient of logcumsumexp is zero where it is given NaN; here NaN stays NaN.

    The difference goes when logcumsumexp is written in ops.
    """
    if not found.kind.endswith("values") or not matches(r"\.logcumsumexp\(", program):
        return False
    written = [re.sub(r"\.logcumsumexp\((-?\d)\)", r".exp().cumsum(\1).log()", statement) for statement in program]
    return np.isnan(found.actual).any() and difference(written, oracle, subject, watch) is None


@kind
def numbers_in_transforms(program, found, oracle, subject, watch):
    """In a transform PyTorch takes a number for a tensor of double precision: so a derivative has another dtype.

    Its result itself has not. The difference goes when the number is a tensor.
    """
    if not found.kind.endswith("dtype") or not matches(r"T\.func\.|T\.vmap\(|autograd\.functional\.", program):
        return False
    tensors = [re.sub(r"( [-+*/] )(-?\d+\.\d+)", r"\1T.tensor(\2)", statement) for statement in program]
    return tensors != program and difference(tensors, oracle, subject, watch) is None


@kind
def called_for_inputs(program, found, oracle, subject, watch):
    """backward(inputs=) calls the node of an input itself, which of an op of several steps is another one.

    The difference goes without inputs=.
    """
    if not strict(found, "modified by an inplace operation"):
        return False
    every = [re.sub(r", inputs=\[[^]]*\]", "", statement) for statement in program]
    return every != program and difference(every, oracle, subject, watch) is None


@kind
def gradients_that_are_not_there(program, found, oracle, subject, watch):
    """That unique() has no derivative is said where one is asked for; PyTorch calls its node for inputs=, and first."""
    missing = found.kind == "error" and found.expected == "NotImplementedError" and "_unique2" in found.message
    return missing and (found.actual == "RuntimeError" or matches(r"autograd\.grad\(|inputs=", program[-1:]))


@kind
def powers_of_zero(program, found, oracle, subject, watch):
    """Complex zero to the power of zero is one, as of real numbers; PyTorch has NaN where the exponent is a tensor.

    All other values are the same.
    """
    powers = r"\.(float_)?pow_?\(|\*\* v"
    one = np.isnan(found.expected) & (np.asarray(found.actual) == 1) if found.kind.endswith("values") else np.zeros(1)
    return bool(one.any()) and matches(powers, program) and _lost(np.asarray(found.expected), np.asarray(found.actual))


@kind
def views_of_inference_tensors_forward(program, found, oracle, subject, watch):
    """PyTorch loses the tangents of views of inference tensors.

    The difference goes where there are none.
    """
    normal = [statement.replace("T.inference_mode()", "T.no_grad()") for statement in program]
    return normal != program and matches("dual_level", program) and difference(normal, oracle, subject, watch) is None


@kind
def inference_of_transforms(program, found, oracle, subject, watch):
    """Whether what nested transforms return in inference mode are inference tensors is not said."""
    if not matches(r"inference_mode\(\):(\n +.*)*T\.func\.\w+\(.*T\.func\.", program):
        return False
    return found.kind == "inference" or strict(found, "inference tensor outside InferenceMode")


@kind
def slopes_of_angles(program, found, oracle, subject, watch):
    """The slopes of atan2 at the origin are zero; PyTorch's are zero backward, and NaN forward."""
    forward = matches(r"atan2\(", program) and matches(r"T\.func\.|dual_level|functional\.", program)
    if not forward or not found.kind.endswith("values") or not isinstance(found.expected, np.ndarray):
        return False
    return np.isnan(found.expected).any() and not np.isnan(found.actual).any()


@kind
def widened_derivatives(program, found, oracle, subject, watch):
    """PyTorch widens some derivatives of single numbers to float64; here they have the dtype of what they are by."""
    by = re.search(r"T\.func\.\w+\(.*\)\((v\d+)\)$", program[-1])
    if by is None or (found.kind, found.expected) != ("dtype", "torch.float64"):
        return False
    with after(program[:-1], oracle) as run:
        return found.actual == str(run.tensors()[by[1]].dtype)


@kind
def linearized_at_constants(program, found, oracle, subject, watch):
    """What linearize() is given depends on what it was made of; in PyTorch the place is a constant.

    The difference goes when the place is detached.
    """
    linearized = r"(T\.func\.linearize\(.*, )(v\d+)(\)\[1\])"
    if not matches(linearized, program):
        return False
    constant = [re.sub(linearized, r"\1\2.detach()\3", statement) for statement in program]
    left = difference(constant, oracle, subject, watch)
    if left is None or left.kind == "grad.requires_grad":  # with create_graph=True
        return True
    return left.kind == "requires_grad" and "create_graph=True" in constant[left.position]


@kind
def failing_linearize(program, found, oracle, subject, watch):
    """PyTorch traces what linearize() is given, and fails where it can't."""
    words = "Multiple dispatch failed for 'torch._ops", "is being used in an in-place operation", "iteration over a 0-d"
    return lenient(found, *words) and matches(r"T\.func\.linearize\(", program[-1:])


@kind
def derivatives_of_norms_forward(program, found, oracle, subject, watch):
    """The gradient of PyTorch's forward derivative of layer_norm takes mean and variance for constants.

    The difference goes when layer_norm is written in ops.
    """
    if not found.kind.endswith("values") or not matches(r"dual_level|T\.func\.|functional\.jvp", program):
        return False
    written = [statement.replace("T.nn.functional.layer_norm(", "normed(") for statement in program]
    return goes(program, written, oracle, subject, watch)


@kind
def complex_derivatives(program, found, oracle, subject, watch):
    """PyTorch does not say that the derivative of nan_to_num() is one of complex numbers, too; in place it takes it."""
    return lenient(found, "nan_to_num does not support automatic differentiation for outputs with complex dtype")


@kind
def slopes_noted_too_early(program, found, oracle, subject, watch):
    """PyTorch saves the random slopes of rrelu() before it draws them: hooks on saved tensors get memory as it was."""
    return found.kind.endswith("values") and matches("saved_tensors_hooks", program) and matches(r"rrelu\(", program)


@kind
def deviations_of_none(program, found, oracle, subject, watch):
    """The slope of a deviation, norm or angle of zero is zero, as in PyTorch's backward; where it goes on it has NaN.

    All other values are the same.
    """
    derived = r"create_graph=True|dual_level|T\.func\.|autograd\.functional"
    sloped = matches(r"\b(std|std_mean|norm|dist|atan2)\(", program) and matches(derived, program)
    if not found.kind.endswith("values") or not sloped:
        return False
    lost = np.isnan(found.expected) & (found.actual == 0)
    kept = np.where(lost, 0, found.expected), np.where(lost, 0, found.actual)
    if lost.any() and np.allclose(*kept, equal_nan=True):
        return True
    variances = [re.sub(r"\.std\(", ".var(", statement) for statement in program]  # without that slope nothing differs
    lost = variances != program and _lost(found.expected, found.actual)
    return lost and difference(variances, oracle, subject, watch) is None


@kind
def batches_in_hooks(program, found, oracle, subject, watch):
    """Hooks get each gradient of a batch by itself; in PyTorch a batch, whose numbers they can't see."""
    hooked = matches("register_", program) and matches("is_grads_batched=True", program)
    return hooked and (found.kind == "log" or lenient(found, "Cannot access data pointer"))


@kind
def tangents_that_are_saved(program, found, oracle, subject, watch):
    """How a tangent is computed decides whether it is saved for the way back, and may not be written.

    The difference goes when a copy of it is given.
    """
    copied = [re.sub(r"(F\.make_dual\(.+, v\d+)\)", r"\1.clone())", statement) for statement in program]
    return strict(found, "modified by an inplace operation") and goes(program, copied, oracle, subject, watch)


@kind
def overwritten_forward(program, found, oracle, subject, watch):
    """Some of PyTorch's forward derivatives overwrite what they saved; the program writes nothing itself."""
    written = matches(r"[a-z](?<!requires_grad)_\(|\] [-+*/]?= | [-+*/]= |out=|inplace|AddOne|Dirty", program)
    return lenient(found, "modified by an inplace operation") and matches("dual_level", program) and not written


@kind
def medians_in_vmap(program, found, oracle, subject, watch):
    """The gradient of a median goes to all elements that are equal to it; in PyTorch's vmap to one.

    The difference goes when the slices are taken one by one.
    """
    mapped = r"T\.func\.vmap\((\(lambda .*\.median\(\).*?\))(?:, randomness='same')?\)\((v\d+)\)"
    apart = [re.sub(mapped, r"T.stack([(\1)(one) for one in \2])", statement) for statement in program]
    return found.kind == "grad.values" and apart != program and difference(apart, oracle, subject, watch) is None


@kind
def ties_with_what_is_left_out(program, found, oracle, subject, watch):
    """PyTorch has what scatter_reduce(include_self=False) leaves out share the gradient of an extreme.

    The difference goes when what is left out is none of them.
    """
    reduced = r"(v\d+)(\.scatter_reduce\(.*'a(?:max|min)', include_self=False\))"
    if not found.kind.endswith("values") or not matches(reduced, program):
        return False
    apart = [re.sub(reduced, r"(\1 * float('nan'))\2", statement) for statement in program]
    return difference(apart, oracle, subject, watch) is None


@kind
def softmax_into_out(program, found, oracle, subject, watch):
    """softmax(out=) refuses what requires grad, as all ops do; in PyTorch its result says that it has a history.

    That can't be differentiated: its node is one that raises an error.
    """
    refused = strict(found, "functions with out=... arguments don't support")
    if not refused or not matches(r"softmax\(.*out=", program[-1:]):
        return False
    with after(program, oracle) as run:
        nodes = [type(t.grad_fn).__name__ for t in run.tensors().values() if t.grad_fn is not None]
    return "NotImplemented" in nodes


@kind
def variances_over_no_dimension(program, found, oracle, subject, watch):
    """dim=() is all dimensions, also for the gradient of a variance; PyTorch's divides by the count of one element.

    The difference goes when dim is None.
    """
    over = r"(\.(?:var|std)\(|T\.(?:std|var)_mean\(v\d+, )(?:\(\)|\[\])"
    if not found.kind.endswith("values") or not matches(over, program):
        return False
    whole = [re.sub(over, r"\1None", statement) for statement in program]
    return difference(whole, oracle, subject, watch) is None


@kind
def medians_of_expanded(program, found, oracle, subject, watch):
    """PyTorch's nanmedian along a dimension of expanded memory returns numbers that nobody wrote.

    The difference goes when it is written out.
    """
    dense = [re.sub(r"(v\d+)(\.nanmedian\(-?\d)", r"\1.contiguous()\2", statement) for statement in program]
    return found.kind.endswith("values") and goes(program, dense, oracle, subject, watch)
