"""`plugrad.autograd.graph`: nodes of the recorded graph, edges between them, and hooks on what nodes save."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.autograd import Node
from plugrad.autograd.graph.edges import GradientEdge, get_gradient_edge
from plugrad.autograd.graph.multi_grad import register_multi_grad_hook
from plugrad.autograd.graph.mutation import allow_mutation_on_saved_tensors
from plugrad.autograd.graph.saved import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from plugrad.graph import versions

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "region_activation_memory_budget", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks", "set_override_stale_capture_stream", "set_warn_on_accumulate_grad_stream_mismatch",
]  # fmt: skip


def increment_version(tensor) -> None:
    """Note that a tensor, or each of several, was written unseen.

    That is for memory that code writes which plugrad can't see. A backward that needs what the tensor held before then
    raises. Inference tensors, which have no version, are left alone. Raises RuntimeError for what is no tensor.

    >>> import plugrad as torch
    >>> x = torch.ones(2)
    >>> torch.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    try:
        tensors = (tensor,) if isinstance(tensor, Tensor) else tuple(tensor)
    except TypeError:
        tensors = (tensor,)
    for one in tensors:
        if not isinstance(one, Tensor):
            raise RuntimeError(f"increment_version expect a Iterable[Tensor] as input, got {type(one).__name__}")
        if not one.is_inference():
            versions.touch(one)


def region_activation_memory_budget(budget):
    """Raise: it is for graphs that torch.compile partitions; nothing does that here.

    TypeError for what is no number, ValueError outside of [0, 1], RuntimeError otherwise.
    """
    name = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0.0 <= budget <= 1.0:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{name} can only be used inside a torch.compile region; it has no effect in eager mode. Write "
        "torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False) to keep less"
    )


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accept a setting for CUDA streams: a walk uses one, so none can mismatch.

    Raises TypeError for what is no bool.
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool, not {type(enabled).__name__}")


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accept a setting for captures; a walk uses the current stream, and no other.

    Raises TypeError for what is no bool.
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool, not {type(enabled).__name__}")
