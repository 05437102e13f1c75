"""`torch._dynamo.config`: settings of PyTorch's compiler, which are kept as they are set and have no effect here."""

from __future__ import annotations

from plugrad.extend.blocks import changed_items

__all__ = ["patch"]

accumulated_cache_size_limit = accumulated_recompile_limit = 256
allow_unspec_int_on_nn_module = assume_static_by_default = automatic_dynamic_shapes = True
cache_size_limit = recompile_limit = 8
capture_dynamic_output_shape_ops = capture_scalar_outputs = compiled_autograd = error_on_recompile = False
dynamic_shapes = fail_on_recompile_limit_hit = force_parameter_static_shapes = guard_nn_modules = True
inline_inbuilt_nn_modules = optimize_ddp = skip_fsdp_guards = True
suppress_errors = verbose = False


class patch(changed_items):
    """Set settings in a block, or in a function that it decorates.

    >>> import plugrad as torch
    >>> with torch._dynamo.config.patch(suppress_errors=True):
    ...     torch._dynamo.config.suppress_errors
    True
    >>> torch._dynamo.config.suppress_errors
    False
    """

    def __init__(self, arg1=None, arg2=None, **kwargs):
        changes = {arg1: arg2} if isinstance(arg1, str) else {**(arg1 or {}), **kwargs}
        unknown = [name for name in changes if name not in globals()]
        if unknown:
            raise AttributeError(f"torch._dynamo.config.{unknown[0]} does not exist; set it before it is patched")
        super().__init__(globals(), changes)
