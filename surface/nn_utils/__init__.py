"""`plugrad.nn.utils`: weights computed from others, pruning, clipping of gradients, padded sequences, and more."""

from __future__ import annotations

from plugrad.nn.utils import parametrizations, parametrize, rnn, stateless
from plugrad.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from plugrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from plugrad.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from plugrad.nn.utils.init import skip_init
from plugrad.nn.utils.loss_options import LinearCrossEntropyOptions
from plugrad.nn.utils.memory_format import convert_conv2d_weight_memory_format, convert_conv3d_weight_memory_format
from plugrad.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from plugrad.nn.utils.weight_norm import remove_weight_norm, weight_norm
from plugrad.registry.namespaces import lazy_names

__all__ = [
    "LinearCrossEntropyOptions", "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format", "factory_kwargs", "fuse_conv_bn_eval",
    "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "parameters_to_vector",
    "parametrizations", "parametrize", "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init",
    "spectral_norm", "stateless", "vector_to_parameters", "weight_norm",
]  # fmt: skip


def factory_kwargs(kwargs) -> dict:
    """Return the options for `empty` among the keyword arguments of a constructor.

    Args:
        kwargs: ``device``, ``dtype`` and ``memory_format``, or the same in a dict ``factory_kwargs``; None for none.

    Raises TypeError for any other, and for one that is given twice.

    >>> import plugrad as torch
    >>> torch.nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": torch.float64}})
    {'dtype': torch.float64, 'device': 'cpu'}
    """
    plain = dict(kwargs or {})
    options = dict(plain.pop("factory_kwargs", {}))
    unknown = plain.keys() - {"device", "dtype", "memory_format"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}: device, dtype, memory_format or factory_kwargs are expected")
    twice = plain.keys() & options.keys()
    if twice:
        raise TypeError(f"{min(twice)} specified twice, in **kwargs and in factory_kwargs")
    return options | plain

__getattr__, __dir__ = lazy_names(globals(), None, {"nn.utils.prune": ""})
