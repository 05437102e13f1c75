"""`plugrad.autograd.graph`: nodes of the recorded graph, and hooks on what they save."""

from __future__ import annotations

from plugrad.autograd import Node, saved_tensors_hooks

__all__ = ["Node", "save_on_cpu", "saved_tensors_hooks"]


class save_on_cpu(saved_tensors_hooks):
    """Keep tensors that are saved for backward in host memory.

    >>> import plugrad as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> with torch.autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward()
    >>> x.grad
    tensor(6.)
    """

    def __init__(self, pin_memory=False):
        super().__init__(lambda t: (t.device, t.cpu()), lambda packed: packed[1].to(packed[0]))
