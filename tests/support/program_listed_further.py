"""Where PyTorch's gradients, hooks of several tensors, and forward derivatives are not what they say."""

from __future__ import annotations

import re

from support.program_kinds import HISTORY, after, goes, kind, lenient, matches, strict
from support.program_listed_wider import BALANCED
from support.program_runs import difference


@kind
def scattered_by_strides(program, found, oracle, subject, watch):
    """PyTorch hands the gradient of what as_strided_scatter() writes on to what was overwritten, not to the rest.

    Numerical differences say so, too. The difference goes when slice_scatter() writes there.
    """
    written = r"T\.as_strided_scatter\((.*), \(1,\), \(1,\)\)"
    instead = [re.sub(written, r"T.slice_scatter(\1, 0, 0, 1)", statement) for statement in program]
    return goes(program, instead, oracle, subject, watch)


_SEVERAL = r"T\.autograd\.graph\.register_multi_grad_hook\(\[(v\d+)\], (?!.*mode='any').*"


@kind
def hooks_of_several_and_leaves(program, found, oracle, subject, watch):
    """PyTorch has no hooks of several tensors in grad() by a leaf of these.

    The difference goes when the leaf has a hook of its own.
    """
    words = "A leaf node was passed to _will_engine_execute_node"
    with after(program, oracle) as run:  # where both raise an error, only what the hook saw differs
        if not lenient(found, words) and not (found.kind == "log" and words in run.message):
            return False
    instead = [re.sub(_SEVERAL, r"\1.register_hook(lambda g: None)", statement) for statement in program]
    left = difference(instead, oracle, subject, watch)
    return instead != program and (left is None or left.kind == "log")


@kind
def hooks_of_several_and_roots(program, found, oracle, subject, watch):
    """PyTorch does not count the tensor that a walk starts from, so that it never calls a hook of several tensors.

    The difference goes when the walk starts from its product with one.
    """
    if found.kind != "log" or not matches(_SEVERAL, program):
        return False
    started = [re.sub(r"(v\d+)\.backward\(", r"(\1 * 1).backward(", statement) for statement in program]
    started = [re.sub(r"(T\.autograd\.grad\((?:.*get_gradient_edge\()?)(v\d+)", r"\1\2 * 1", one) for one in started]
    return goes(program, started, oracle, subject, watch)


@kind
def gradients_from_inputs(program, found, oracle, subject, watch):
    """The gradient of polar() is computed from its inputs, so that it does not lead to the result, as PyTorch's does.

    The difference goes when it is made of sine and cosine.
    """
    made = rf"T\.polar\((v\d+(?:\.abs\(\))?|[^,]*{BALANCED}), (v\d+)\)"
    parts = r"T.complex(\1 * \2.cos(), \1 * \2.sin())"
    instead = [re.sub(made, parts, statement) for statement in program]
    unused = strict(found, "appears to not have been used in the graph")
    return unused and goes(program, instead, oracle, subject, watch)


@kind
def forward_derivatives_of_gradients(program, found, oracle, subject, watch):
    """PyTorch has no forward derivative of the gradients of some activations.

    The difference goes when these are made of other ops.
    """
    if not lenient(found, "Trying to use forward AD with aten::silu_backward"):
        return False
    instead = [re.sub(r"T\.nn\.functional\.silu\((v\d+)\)", r"(\1 * \1.sigmoid())", one) for one in program]
    return goes(program, instead, oracle, subject, watch)


@kind
def tangents_of_wholes(program, found, oracle, subject, watch):
    """The tangent of a part that is the whole is a view of the tangent; in PyTorch it is the tangent itself.

    The difference goes when a view of another kind is taken.
    """
    whole = r"\(a\)\[\.\.\.(, :1|, -1:|, 0:)?\]"
    if not found.kind.startswith("grad") or not matches(whole, program) or not matches("dual_level", program):
        return False
    return goes(program, [re.sub(whole, "a.view_as(a)", one) for one in program], oracle, subject, watch)


@kind
def powers_in_place(program, found, oracle, subject, watch):
    """PyTorch makes the powers of vander() in place, and refuses to differentiate their gradient; nobody else wrote.

    The difference goes when they are powers.
    """
    if not lenient(found, "which is output 0 of AsStrided") or matches(r"(?<!requires_grad)_\(|\] [-+*]?= ", program):
        return False
    instead = [re.sub(r"T\.vander\((v\d+)\)", r"\1[:, None] ** T.arange(len(\1)).flip(0)", one) for one in program]
    return goes(program, instead, oracle, subject, watch)


@kind
def quotients_of_products(program, found, oracle, subject, watch):
    """PyTorch divides a product by its elements, and loses all digits of its second derivative by one next to zero.

    The difference goes when the elements are multiplied one by one.
    """
    if not found.kind.endswith("values") or not matches(r"\.prod\(\)", program):
        return False
    mapped = [re.sub(r"lambda a: (.*)\.prod\(\)\)", r"lambda a: multiplied(\1))", statement) for statement in program]
    instead = [re.sub(r"(v\d+)\.prod\(\)", r"multiplied(\1)", statement) for statement in mapped]
    return goes(program, instead, oracle, subject, watch)


@kind
def running_sums_forward(program, found, oracle, subject, watch):
    """PyTorch's forward derivative of logcumsumexp says that it requires grad where it depends on nothing.

    The difference goes when it is the logarithm of running sums.
    """
    if not found.kind.endswith("requires_grad") or not found.expected or not matches("dual_level", program):
        return False
    summed = r"(?<!T)\.logcumsumexp\((-?\d)\)"
    return goes(program, [re.sub(summed, r".exp().cumsum(\1).log()", one) for one in program], oracle, subject, watch)


@kind
def products_forward(program, found, oracle, subject, watch):
    """PyTorch's forward derivative of a product leads to the factor that has a tangent, with a gradient of zeros.

    Hooks see the zeros, and may return others. The difference goes when the tangent itself is multiplied.
    """
    if not (found.kind == "log" or found.kind.endswith("values")) or not matches("register_", program):
        return False
    product = r"F\.unpack_dual\((.*\.sum\(\)) \* (v\d+)\)\[1\]"
    multiplied = [re.sub(product, r"(F.unpack_dual(\1)[1] * \2)", one) for one in program]
    return goes(program, multiplied, oracle, subject, watch)


@kind
def gradients_of_hooks(program, found, oracle, subject, watch):
    """What a hook returns of a gradient becomes the gradient of two leaves in PyTorch, one of which the other changes.

    The difference goes when the hook returns a copy.
    """
    if found.kind != "grad.values":
        return False
    returned = r"(register_hook\(lambda g: )(g\.(?:expand_as|view_as|reshape_as)\(v\d+\))\)$"
    return goes(program, [re.sub(returned, r"\1\2.clone())", one) for one in program], oracle, subject, watch)


@kind
def halves(program, found, oracle, subject, watch):
    """PyTorch's CPU has no kernel of some ops for half precision; here all floats are taken.

    The difference goes in single precision.
    """
    if not lenient(found, "not implemented for 'BFloat16'", "not implemented for 'Half'"):
        return False
    narrow = r"T\.b?float16|(?<=\.)(half|bfloat16)(?=\(\))"
    single = [re.sub(narrow, lambda one: "float" if one[1] else "T.float32", statement) for statement in program]
    return goes(program, single, oracle, subject, watch)


@kind
def edges_of_subclasses(program, found, oracle, subject, watch):
    """PyTorch gives an edge of a view without history of a subclass, to a node of that call alone; of others none.

    The difference goes without the subclass.
    """
    if not strict(found, "no gradient is computed for a view that was made") or "get_gradient_edge" not in program[-1]:
        return False
    return goes(program, [re.sub(r"\.as_subclass\(\w+\)", "", one) for one in program], oracle, subject, watch)


@kind
def resized_views(program, found, oracle, subject, watch):
    """An out= that gets another shape keeps its history, which has the old one; a view of PyTorch's gets a new one.

    The difference goes when it is no view.
    """
    resized = re.findall(r"out=(v\d+)", "\n".join(program))
    if not strict(found, "that is the shape that a tensor had when it was recorded") or not resized:
        return False
    made = rf"(?s)(.*?\b(?:{'|'.join(resized)}) = )(.*)"
    return goes(program, [re.sub(made, r"\1(\2).clone()", one) for one in program], oracle, subject, watch)


@kind
def hooks_of_what_accumulates_no_more(program, found, oracle, subject, watch):
    """PyTorch calls the hooks after accumulation of a leaf that requires no gradient any more, which gets none.

    The difference goes when the leaf goes on requiring one.
    """
    seen = found.kind == "log" or lenient(found, "'NoneType' object has no attribute")
    if not seen or not matches("register_post_accumulate_grad_hook", program):
        return False
    ended = r"v\d+\.(requires_grad(_\(False\)| = False)|detach_\(\))$"
    return goes(program, [re.sub(ended, "pass", statement) for statement in program], oracle, subject, watch)


@kind
def places_overwritten(program, found, oracle, subject, watch):
    """Places that a program overwrites by .data, which no one notices, may lie outside: no gradient arrives there.

    PyTorch raises an error then. The difference goes when they are not written.
    """
    if not lenient(found, "is out of bounds for dimension"):
        return False
    left = [re.sub(r"\.data\.(add|mul|sub|div)_\(.*\)$", ".data", statement) for statement in program]
    return goes(program, left, oracle, subject, watch)


@kind
def transposed_where_nothing_is_recorded(program, found, oracle, subject, watch):
    """What is transposed in place where nothing is recorded keeps in PyTorch a node that does not know of it.

    The difference goes when it is recorded.
    """
    if found.kind not in HISTORY or not matches(r"\.(t|transpose|swapaxes|swapdims)_\(", program):
        return False
    recorded = [re.sub(r"T\.set_grad_enabled\(False\)|T\.no_grad\(\)", "T.enable_grad()", one) for one in program]
    return goes(program, recorded, oracle, subject, watch)


@kind
def gradients_by_resized(program, found, oracle, subject, watch):
    """The gradient by what got another shape as an out= has that shape; PyTorch's has the old one.

    The difference goes when it has that shape from the beginning.
    """
    written = re.search(r"(T\.\w+\((?:(?!T\.\w+\().)*), out=(v\d+)\)", "\n".join(program))
    if written is None or not matches(rf"autograd\.grad\(.*\b{written[2]}\b", program):
        return False
    place = next((n for n, one in enumerate(program) if one.startswith(f"{written[2]} = ")), len(program))
    instead = [*program[:place], f"{written[2]} = {written[1]}).clone()", *program[place + 1 :]]
    with after(instead[: place + 1], oracle) as run:
        made = not run.message
    return made and goes(program, instead, oracle, subject, watch)


@kind
def medians_of_expanded(program, found, oracle, subject, watch):
    """PyTorch's median of memory that is expanded reads beyond it.

    The difference goes when it is contiguous.
    """
    if not found.kind.endswith("values") or not matches(r"median\(", program):
        return False
    dense = [re.sub(r"(v\d+)(\.(nan)?median\()", r"\1.contiguous()\2", statement) for statement in program]
    return goes(program, dense, oracle, subject, watch)
