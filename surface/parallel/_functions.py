"""The steps between devices that libraries call by name: copies, sums, parts and joins of tensors, all differentiable.

>>> import plugrad as torch
>>> from plugrad.nn.parallel._functions import Broadcast, ReduceAddCoalesced
>>> copies = Broadcast.apply(["cpu", "cpu"], torch.ones(1), torch.zeros(1))
>>> ReduceAddCoalesced.apply("cpu", 2, *copies)
(tensor([2.]), tensor([0.]))
"""

from __future__ import annotations

from plugrad import split
from plugrad.nn import parallel

__all__ = ["Broadcast", "Gather", "ReduceAddCoalesced", "Scatter"]


class Broadcast:
    """Copies of tensors on several devices; its gradients are added up where the tensors are."""

    @staticmethod
    def apply(target_gpus, *inputs):
        """Return the copies as one tuple: those of the first device, then those of the next."""
        return tuple([tensor.to(device) for device in map(parallel._device, target_gpus) for tensor in inputs])


class ReduceAddCoalesced:
    """Sums of tensors of several devices on one of them."""

    @staticmethod
    def apply(destination, num_inputs, *grads):
        """Return `num_inputs` sums; `grads` are so many tensors of the first device, then those of the next."""
        device = parallel._device(destination)
        return tuple([sum(one.to(device) for one in grads[i::num_inputs]) for i in range(num_inputs)])


class Gather:
    """Tensors of several devices, joined on one."""

    @staticmethod
    def apply(target_device, dim, *inputs):
        """Return the tensors as one; those without dimensions count as having one."""
        return parallel.gather(inputs, target_device, dim)


class Scatter:
    """Parts of a tensor on several devices."""

    @staticmethod
    def apply(target_gpus, chunk_sizes, dim, input):
        """Return the parts, of the given sizes along `dim`; equal ones where these are None."""
        if chunk_sizes is None:
            return parallel.scatter(input, target_gpus, dim)
        parts = split(input, list(chunk_sizes), dim)
        return tuple([part.to(parallel._device(device)) for device, part in zip(target_gpus, parts)])
