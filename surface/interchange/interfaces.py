"""`__array_interface__` and `__cuda_array_interface__`: memory described for readers that have no DLPack.

What NumPy makes of the former holds an array of plugrad's, by which writes to tensors that backward needs are noticed,
as with `tensor.numpy()`.
"""

from __future__ import annotations

from plugrad import Tensor, device, strided


@property
def __array_interface__(self):
    """Describe the tensor's memory on the CPU: https://numpy.org/doc/stable/reference/arrays.interface.html.

    Raises AttributeError for tensors whose memory it can't describe, which readers then ask for `__array__`: on other
    devices, sparse, bfloat16, not contiguous, requiring grad, or of subclasses with an `__array__` of their own.
    """
    if type(self).__array__ is not Tensor.__array__:
        raise AttributeError(f"{type(self).__name__} has its own __array__, which says what its elements are")
    _strided(self, "__array_interface__", "cpu", "tensor.cpu()")
    try:
        array = self.numpy()
    except (TypeError, RuntimeError) as error:  # of a type that NumPy has not, or requiring grad
        raise AttributeError(f"Can't get __array_interface__: {error}") from None
    if not array.flags.c_contiguous:
        raise AttributeError("Can't get __array_interface__ of a tensor that is not contiguous; use contiguous()")
    return {"shape": array.shape, "typestr": array.dtype.str, "version": 3, "data": array}


@property
def __cuda_array_interface__(self):
    """Describe the tensor's memory on CUDA: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html.

    Raises AttributeError for tensors elsewhere, and sparse ones; RuntimeError for those that require grad.
    """
    _strided(self, "__cuda_array_interface__", "cuda", "tensor.cuda() to copy tensor to device memory")
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    return self._raw.__cuda_array_interface__


def _strided(tensor, what, kind, instead):
    """Raise AttributeError for a tensor that is sparse, or not on a kind of device."""
    if tensor.device.type != device(kind).type:
        raise AttributeError(
            f"Can't get {what} on non-{kind.upper()} tensor type: {tensor.type()} If {kind.upper()} data is required "
            f"use {instead}."
        )
    if tensor.layout is not strided:
        raise AttributeError(f"Can't get {what} on sparse type: {tensor.type()} Use Tensor.to_dense() first.")
