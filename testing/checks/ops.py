"""Which checks an op has: all that its family and its record call for."""

from __future__ import annotations

from plugrad.onnx import form_of
from plugrad.testing.checks import documents, kernels
from plugrad.testing.op_checks import (
    earlier_calls,
    edges,
    elementwise,
    gradients,
    memory,
    natives,
    onnx_forms,
    option_values,
    points,
    ranks,
    sizes,
    values,
    variations,
)


def checks(op) -> dict:
    """Return the checks of an op by name."""
    chosen = {"docstring": documents.docstring, "schema": documents.schema}
    if documents.has_example(op):
        chosen["example"] = documents.example
    if op.error_function is not None:
        chosen["error samples"] = values.error_samples
    if op.runs_on == "nothing":  # it takes no tensors
        return chosen
    chosen["samples"] = values.has_samples
    if op.ref is not None:
        chosen["value"] = values.value
    chosen["inputs unchanged"] = values.inputs_unchanged
    chosen["strides"] = memory.strides
    chosen["aliasing"] = memory.aliasing
    chosen["meta device"] = memory.meta
    chosen["determinism"] = values.deterministic
    chosen["earlier calls"] = earlier_calls.earlier_calls
    chosen["threads"] = values.threads
    chosen["saved tensors"] = gradients.saved_tensors
    if op.differentiable:
        chosen |= {
            "gradient": gradients.gradient,
            "second gradient": gradients.second_gradient,
            "third gradient": gradients.third_gradient,
            "formula modes": gradients.formula_modes,
            "forward mode": gradients.forward_mode,
            "batched": gradients.batched,
            "nan": edges.nan,
        }
        if len(op.parameters) > 1 and not op.reduces:
            chosen["single inputs"] = gradients.single_inputs
    if op.once:
        for name in ("second gradient", "third gradient", "forward mode"):
            chosen.pop(name, None)
        chosen["once"] = gradients.once
    chosen["precision"] = variations.precision
    chosen["whole numbers"] = variations.whole_numbers
    chosen["empty inputs"] = edges.empty
    if op.names:  # others get what their users have checked
        chosen["half floats"] = points.halves
    if op.differentiable:
        chosen["equal inputs"] = points.equal_inputs
    if (op.broadcasts or op.reduces or not op.trusted) and op.differentiable and op.complex and op.names:
        chosen["complex gradient"] = variations.complex_gradient
    if option_values.has_options(op):
        chosen["options"] = variations.options
    if not op.broadcasts and op.names:
        chosen["ranks"] = ranks.ranks
    if op.sequence and op.differentiable:
        chosen["lists"] = variations.lists
    if "cpu" in op.kernels:
        chosen["general kernel"] = variations.general_kernel
    if natives.has_native(op):
        chosen["kernels in C"] = natives.native
    if op.inplace:
        chosen["in-place"] = values.inplace
    if op.broadcasts and "dim" not in op.parameters:
        chosen |= _of_elementwise(op)
    if op.reduces:
        chosen["promotion"] = elementwise.reduced_dtypes
        if "dim" in op.parameters:
            chosen["slices"] = elementwise.slices
            chosen["large numbers"] = points.large_numbers
        if op.differentiable and op.names and op.domain is None:
            chosen["special points"] = points.zero_among
    if op.reduces or "shapes" in chosen:
        chosen["extreme values"] = elementwise.extremes
    if form_of(op) is not None:
        chosen["onnx"] = onnx_forms.form
    if not op.trusted:  # plugrad's own kernels have tests of their own, of more sizes
        chosen["numbers of threads"] = sizes.numbers_of_threads
        if op.reduces or "shapes" in chosen:
            chosen["numbers of elements"] = sizes.rows if op.reduces else sizes.elements
    return chosen | kernels.of_op(op)


def _of_elementwise(op) -> dict:
    chosen = {"shapes": elementwise.shapes, "promotion": elementwise.promotion, "large inputs": variations.large}
    if op.arity == 2:
        chosen["numbers"] = variations.python_numbers
    if op.promote == "same":
        chosen["bytes"] = variations.bytes_
    chosen["large numbers"] = points.large_numbers
    if op.differentiable and op.names:
        chosen |= {"special points": variations.special_points, "dense gradient": points.dense_gradient}
    return chosen
