"""Which checks an op has: all that its family and its record call for."""

from __future__ import annotations

from . import documents, edges, fresh, op_gradients, op_layouts, op_values, parity, probes, variations

ELEMENTWISE = ("unary", "binary", "elementwise")
NO_SAMPLES = ("factory",)  # families whose ops take no tensors: nothing to derive


def checks(op) -> dict:
    """Return the checks of an op by name."""
    chosen = {"docstring": documents.docstring, "schema": documents.schema}
    if documents.has_example(op):
        chosen["example"] = documents.example
    if op.error_function is not None:
        chosen["error samples"] = op_values.error_samples
    if op.family in NO_SAMPLES:
        return chosen
    chosen["samples"] = op_values.has_samples
    if op.ref is not None:
        chosen["value"] = op_values.value
    chosen["inputs unchanged"] = op_values.inputs_unchanged
    chosen["strides"] = op_layouts.strides
    chosen["aliasing"] = op_layouts.aliasing
    chosen["meta device"] = op_layouts.meta
    chosen["determinism"] = op_values.deterministic
    chosen["earlier calls"] = fresh.earlier_calls
    chosen["threads"] = op_values.threads
    chosen["saved tensors"] = op_gradients.saved_tensors
    if op.differentiable:
        chosen |= {
            "gradient": op_gradients.gradient,
            "second gradient": op_gradients.second_gradient,
            "third gradient": op_gradients.third_gradient,
            "formula modes": op_gradients.formula_modes,
            "forward mode": op_gradients.forward_mode,
            "batched": op_gradients.batched,
            "nan": edges.nan,
        }
    chosen["precision"] = variations.precision
    chosen["whole numbers"] = variations.whole_numbers
    chosen["empty inputs"] = edges.empty
    if op.family in variations.DERIVED and op.differentiable and op.complex and op.names:
        chosen["complex gradient"] = variations.complex_gradient
    if variations.has_options(op):
        chosen["options"] = variations.options
    if "cpu" in op.kernels:
        chosen["general kernel"] = variations.general_kernel
    if op.inplace:
        chosen["in-place"] = op_values.inplace
    if op.family in ELEMENTWISE and "dim" not in op.parameters:
        chosen |= {"shapes": probes.shapes, "promotion": probes.promotion, "large inputs": variations.large}
        if op.family == "binary":
            chosen["numbers"] = variations.python_numbers
        if op.promote == "same":
            chosen["bytes"] = variations.bytes_
        if op.differentiable and op.names:
            chosen["special points"] = variations.special_points
    if op.family == "reduction":
        chosen["promotion"] = probes.reduced_dtypes
        if "dim" in op.parameters:
            chosen["slices"] = probes.slices
    if op.family == "reduction" or "shapes" in chosen:
        chosen["extreme values"] = probes.extremes
    return chosen | parity.of_op(op)
