"""`torch._C._functorch`: what libraries ask of tensors in transforms, which are plain ones here."""

from plugrad import absent

__getattr__ = absent.attributes("_C._functorch")


def is_batchedtensor(tensor) -> bool:
    """Return False: functions that `vmap` maps see plain tensors."""
    return False


is_gradtrackingtensor = is_functionaltensor = is_batchedtensor


def get_unwrapped(tensor):
    """Return the tensor itself: nothing is wrapped around it."""
    return tensor


def maybe_get_level(tensor) -> int:
    """Return -1: no level of a transform is in a tensor."""
    return -1


def _add_batch_dim(tensor, dim, level):
    raise NotImplementedError("plugrad has no torch._C._functorch._add_batch_dim: write torch.func.vmap")


def _remove_batch_dim(tensor, level, size, dim):
    raise NotImplementedError("plugrad has no torch._C._functorch._remove_batch_dim: write torch.func.vmap")
