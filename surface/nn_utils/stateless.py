"""The older home of `plugrad.func.functional_call`."""

from __future__ import annotations

import warnings

from plugrad.nn.utils import _calls

__all__ = ["functional_call"]
_functional_call = _calls.functional_call  # the name in programs that were written before there was a public one


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Do what `plugrad.func.functional_call` does, and warn.

    Args:
        module: the module; it is as before afterwards.
        parameters_and_buffers: tensors by dotted name.
        args: the input, or a tuple of inputs.
        kwargs: keyword arguments of the call.
        tie_weights: a parameter that has several names is replaced under all of them.
        strict: demand exactly the names that the module has.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0. "
        "Please use `torch.func.functional_call` instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return _calls.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
