"""The tables of PyTorch's module paths, without "torch." in front."""

from __future__ import annotations

# Other names of modules.
ALIASES = {
    "nn.modules.container": "nn.container", "nn.modules.lazy": "nn.lazy", "nn.modules.module": "nn.module",
    **{name: f"torch_modules.{name}" for name in (
        "accelerator", "distributed", "futures", "hub", "multiprocessing", "profiler",
        "quasirandom", "torch_version", "types", "version",
    )},
    **{f"nn.parallel.{name}": "nn.parallel" for name in ("distributed", "scatter_gather", "comm")},
    "_custom_ops": "library", "distributed.rpc": "torch_modules.rpc", "nn.attention": "torch_modules.attention",
    "nn.common_types": "torch_modules.utils", "onnx.symbolic_helper": "torch_modules.onnx_symbolic",
    "jit.annotations": "torch_modules.jit_annotations", "jit.frontend": "jit.errors",
    **{f"jit.{name}": "jit" for name in ("_script", "_trace", "_serialization", "_freeze", "_async")},
    **{f"export.{name}": "export" for name in ("exported_program", "dynamic_shapes")},
    "export.graph_signature": "export.signature",
    "nn.attention.bias": "torch_modules.attention_bias",
    "nn.attention.flex_attention": "torch_modules.flex_attention",
    "signal.windows.windows": "signal.windows",
    "profiler.itt": "torch_modules.itt", "profiler.profiler": "torch_modules.profiler",
    "autograd.profiler": "torch_modules.profiler", "autograd.profiler_util": "torch_modules.profiler_events",
    "__config__": "torch_modules.config", "__future__": "torch_modules.future",
    "_jit_internal": "jit", "_six": "torch_modules.utils", "_utils": "torch_modules.utils",
    "nn._reduction": "torch_modules.reduction", "nn.modules.utils": "torch_modules.utils",
    "utils.tensorboard": "torch_modules.tensorboard", "utils._foreach_utils": "torch_modules.optimizer_helpers",
    "utils.model_zoo": "torch_modules.hub", "_dynamo": "torch_modules.dynamo",
    "optim._functional": "torch_modules.optimizers",
    "_dynamo.config": "torch_modules.dynamo_config",
    **{f"_dynamo.{name}": "torch_modules.dynamo" for name in ("decorators", "eval_frame", "exc", "utils")},
}  # fmt: skip

_LAYERS = {
    "activation": "Threshold|R?ReLU6?|(Leaky|P)ReLU|[CS]?ELU|GLU|GELU|SiLU|Mish|(Hard|Soft|Tanh)shrink|"
    "Soft(plus|sign|min)|Hard(tanh|swish|sigmoid)|(Log)?Sigmoid|Tanh|(Log)?Softmax(2d)?|MultiheadAttention",
    "adaptive": "AdaptiveLogSoftmaxWithLoss",
    "batchnorm": r"(Lazy|Sync)?BatchNorm(\dd)?",
    "channelshuffle": "ChannelShuffle",
    "conv": r"(Lazy)?Conv(Transpose)?\dd",
    "distance": "PairwiseDistance|CosineSimilarity",
    "dropout": r".*Dropout(\dd)?",
    "flatten": "(Unf|F)latten",
    "fold": "Fold|Unfold",
    "instancenorm": r"(Lazy)?InstanceNorm\dd",
    "linear": "Bilinear|Identity|(Lazy)?Linear",
    "loss": "(?!Adaptive).*Loss(2d)?",
    "normalization": "LocalResponseNorm|CrossMapLRN2d|(Layer|Group|RMS)Norm",
    "padding": r".*Pad\dd",
    "pixelshuffle": "Pixel(Uns|S)huffle",
    "pooling": r".*(Pool|Unpool)\dd",
    "rnn": "(RNN|LSTM|GRU)(Base|Cell|CellBase)?",
    "sparse": "Embedding(Bag)?",
    "transformer": "Transformer.*",
    "upsampling": "Upsampl.*",
}
# Views: (the namespace whose names they show, a pattern of names).
VIEWS = {
    "nn.modules": ("nn", "[A-Z].*"),
    **{f"nn.modules.{name}": ("nn", pattern) for name, pattern in _LAYERS.items()},
    "autograd.anomaly_mode": ("autograd", "(set_)?detect_anomaly"),
    "autograd.gradcheck": ("testing", "grad(grad)?check|GradcheckError|get_.*_jacobian.*"),
    "functional": (
        "", r"atleast_\dd|broadcast_(shapes|tensors)|cartesian_prod|block_diag|cdist|chain_matmul|einsum|i?stft|lu|"
        "norm|meshgrid|(pca|svd)_lowrank|split|tensordot|unique(_consecutive)?|unravel_index",
    ),
    "_tensor": ("", "Tensor"),
    **{f"_higher_order_ops{name}": ("torch_modules.control_flow", "[a-z].*") for name in (
        "", ".associative_scan", ".cond", ".map", ".scan", ".while_loop",
    )},
    **{f"nn.parallel.{name}": ("nn.parallel", "[A-Za-z].*") for name in (
        "data_parallel", "parallel_apply", "replicate",
    )},
    "cuda.random": ("cuda", ".*(seed|rng_state).*"),
    "utils.dlpack": ("", "(from|to)_dlpack"),
    "utils.hooks": ("graph.hooks", "RemovableHandle"),
}  # fmt: skip

# Names of top-level `torch` that stand in `plugrad.native`.
NATIVE = frozenset(
    (
        "DisableTorchFunction DisableTorchFunctionSubclass Event FatalError GradScaler StorageBase Stream "
        "_chunk_cat _log_softmax_backward_data _native_batch_norm_legit _segment_reduce _softmax_backward_data "
        "_unsafe_masked_index _unsafe_masked_index_put_accumulate "
        "alpha_dropout_ batch_norm binary_cross_entropy_with_logits compiled_with_cxx11_abi conv_tbc "
        "cosine_embedding_loss ctc_loss dropout_ hinge_embedding_loss margin_ranking_loss triplet_margin_loss "
        "embedding_renorm_ feature_alpha_dropout_ feature_dropout_ frobenius_norm from_file "
        "get_deterministic_debug_mode get_device_module get_num_interop_threads gru gru_cell has_lapack has_mkl "
        "has_openmp has_spectral instance_norm is_deterministic_algorithms_warn_only_enabled is_distributed "
        "is_vulkan_available kl_div legacy_contiguous_format lobpcg lstm lstm_cell nuclear_norm pca_lowrank "
        "poisson_nll_loss rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell segment_reduce set_anomaly_enabled "
        "set_deterministic_debug_mode set_flush_denormal set_num_interop_threads slice_copy svd_lowrank "
        "thread_safe_generator to_dlpack"
    ).split()
)

# Names that libraries import, most of them private, by where they are here.
PRIVATE = {
    "cond": "plugrad.torch_modules.control_flow.cond", "while_loop": "plugrad.torch_modules.control_flow.while_loop",
    "torch": "plugrad", "_VF": "plugrad", "_grouped_mm": "plugrad.nn.functional.grouped_mm",
    "Future": "plugrad.futures.Future",
    "jit._script_if_tracing": "plugrad.jit.script_if_tracing",
    "autograd.SavedTensor": "plugrad.autograd.graph.saved.SavedTensor",
    "autograd._profiler_enabled": "plugrad.torch_modules.profiler._profiler_enabled",
    "_shape_as_tensor": "plugrad.native._shape_as_tensor",
    **{name: f"plugrad.sparse.{name}" for name in (
        "_sparse_broadcast_to", "_validate_sparse_compressed_tensor_args", "_validate_sparse_coo_tensor_args",
    )},
    **{f"_{name}": f"plugrad.native.checks._{name}" for name in (
        "assert", "assert_async", "check", "check_index", "check_is_size", "check_not_implemented", "check_tensor_all",
        "check_tensor_all_with", "check_type", "check_value", "check_with",
    )},
    "nn.module._EXTRA_STATE_KEY_SUFFIX": "plugrad.nn.state._EXTRA_STATE_KEY_SUFFIX",
    "nn.init._calculate_correct_fan": "plugrad.plugins.inits._fans.fan",
    "nn.init._calculate_fan_in_and_fan_out": "plugrad.plugins.inits._fans.fans",
    **{f"nn.functional.{name}": f"plugrad.torch_modules.functional_helpers.{name}" for name in (
        "_canonical_mask", "_get_softmax_dim", "_in_projection", "_in_projection_packed", "_no_grad_embedding_renorm_",
        "_none_or_dtype", "_verify_batch_size", "_verify_spatial_size",
    )},
    "nn.functional._mha_shape_check": "plugrad.plugins.ops.multi_head_attention.check_shapes",
    "nn.functional._Reduction": "plugrad.torch_modules.reduction",
    "nn.functional.grad": "plugrad.nn.grad",
    **{f"nn.functional._{name}": f"plugrad.nn.functional.{name}" for name in (
        "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", "max_pool1d", "max_pool2d", "max_pool3d",
        "threshold",
    )},
    **{f"optim.optimizer.{name}": f"plugrad.torch_modules.optimizer_helpers.{name}" for name in (
        "ParamsT", "_capturable_doc", "_default_to_fused_or_foreach", "_device_dtype_check_for_fused",
        "_differentiable_doc", "_disable_dynamo_if_unsupported", "_dispatch_sqrt", "_foreach_doc",
        "_foreach_supported_types", "_fused_doc", "_get_capturable_supported_devices",
        "_get_foreach_kernels_supported_devices", "_get_fused_kernels_supported_devices", "_get_scalar_dtype",
        "_get_value", "_maximize_doc", "_params_doc", "_stack_if_compiling", "_to_scalar",
        "_use_grad_for_differentiable", "_view_as_real", "_group_tensors_by_device_and_dtype", "_has_foreach_support",
    )},
    "optim.optimizer._RequiredParameter": "plugrad.optim.optimizer._Required",
    "optim.optimizer._global_optimizer_pre_hooks": "plugrad.optim.hooks._global_step_pre_hooks",
    "optim.optimizer._global_optimizer_post_hooks": "plugrad.optim.hooks._global_step_post_hooks",
    **{f"nn.init._no_grad_{name}": f"plugrad.nn.init.{name}" for name in (
        "fill_", "normal_", "trunc_normal_", "uniform_", "zero_",
    )},
}  # fmt: skip

# What `import *` leaves out of a namespace's public names.
NO_EXPORTS = {
    "": "annotations|dtypes",  # and all modules
    "nn": "annotations|registry|lazy_names|namespace_module|module",
    "optim": "annotations|registry|lazy_names|optimizer|batching|hooks",
    "optim.lr_scheduler": "annotations|warnings|Tensor|Optimizer|held_back|lazy_names",
}
