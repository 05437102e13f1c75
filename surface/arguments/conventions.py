"""The kind of a parameter that its op does not declare: from an annotation, from its default, or from its name."""

from __future__ import annotations

from plugrad.arguments.kinds import kind

# PyTorch's conventional names, which mean the same kind in all of its functions.
_NAMED = {
    "bool": """
        add_zero_attn adjoint align_corners align_to_window as_tuple ceil_mode center copy descending enable_gqa
        hermitian is_causal keepdim left non_blocking onesided pin_memory requires_grad return_complex stable train
        transposed unbiased unpack_data unpack_pivots upper use_separate_proj_weight""",
    "int": """
        axis blank C chunks col decimals diagonal dim0 dim1 dim2 dimension divisor_override downscale_factor
        edge_order embed_dim_to_check end_dim group groups high hop_length HxW ignore_index ind k length low m
        minlength N n n_fft num_classes num_groups num_heads num_samples offset padding_idx r row split_size start_dim
        step steps storage_offset upscale_factor win_length window_length""",
    "ints": "dims normalized_shape pad physical_layout shape size sizes split_sizes",
    "int|ints": """
        destination dilation kernel_size output_padding output_size padding s shifts source split_size_or_sections
        stride""",
    "float": """
        atol d delta dropout_p eps label_smoothing margin max_norm momentum nan neginf norm_type p posinf rcond rtol
        scale""",
    "number": "alpha base beta fill_value ord value",
    "real": "correction dx lambd lower max max_val maxnorm min min_val negative_slope std threshold",
    "str": """
        approximate driver equation indexing interpolation norm pad_mode reduce rounding_mode side UPLO""",
    "dtype": "dtype",
    "device": "device",
    "layout": "layout",
    "memory_format": "memory_format",
    "generator": "generator",
    "tensor": """
        A anchor angle append attn_mask aweights B batch1 batch2 bias bias_k bias_v boundaries condition elements
        fweights grid imag in_proj_bias in_proj_weight index indices input input1 input2 input_mask k_proj_weight key
        key_padding_mask L linear_bias linear_weight log_probs LU LU_data LU_pivots mask mat mat1 mat2 negative
        offsets other other_mask out out_proj_bias out_proj_weight per_sample_weights pivots pos_weight positive
        prepend prob q_proj_weight query real running_mean running_var sorted_sequence sorter src static_k static_v
        target targets tau tensor tensor1 tensor2 the_template theta v_proj_weight values var vec vec1 vec2 weight
        weights window x x1 x2 y""",
    "tensors": "matrices operands tensors",
    "floats": "range",
    "tensor|float": "q",
    "tensor|ints": "input_lengths target_lengths",
    "tensor|int": "repeats",
}  # fmt: skip
NAMES = {name: declaration for declaration, names in _NAMED.items() for name in names.split()}
_ANNOTATIONS = {"int": "int", "float": "float", "bool": "bool", "str": "str", "Tensor": "tensor"}


def declaration(op, name) -> str | None:
    """Return the kind of a parameter of an op, as a declaration; None if nothing is known of it."""
    given = op.kinds.get(name)
    if given is not None:
        return None if given == "any" else given
    if name == "reduce" and "size_average" in op.parameters:  # a loss's flag of old, for which anything is taken
        return None
    if op.broadcasts and name in op.tensors:  # of others promotion refuses what is neither tensor nor number
        if op.arity == 1:
            return "tensor"  # the only one; another parameter may be given as a tensor, too
        if op.arity or op.role(name) == "operand":
            return None
    required = name not in op.defaults
    default = op.defaults.get(name)
    optional = "?" if default is None and not required or name == "dtype" else ""
    annotation = op.kernels["*"].__annotations__.get(name)
    if annotation is not None:
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        return _ANNOTATIONS[text] + optional if text in _ANNOTATIONS else None
    if type(default) is bool:
        return "bool?" if name in ("requires_grad", "pin_memory") else "bool"
    if name == "dim":
        several = op.reduces or not required and not isinstance(default, int)
        return ("int|ints" if several else "int") + optional
    if not op.trusted:  # who else's names follow PyTorch's conventions is not known
        return "dtype" + optional if name == "dtype" else None
    if name == op.variadic:
        return NAMES.get(name) if NAMES.get(name) in ("ints", "tensors") else None
    if name == op.parameters[0] and op.runs_on != "nothing" and NAMES.get(name, "tensor").startswith("tensor"):
        return "tensors" if op.sequence or name in ("tensors", "matrices") else "tensor"
    known = NAMES.get(name)
    if known is not None and not optional and not required and not kind(known).fits(default):
        return "number" if isinstance(default, (int, float)) else None  # the name means something else here
    return known and known + optional
