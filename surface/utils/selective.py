"""Checkpoints that keep the results of some ops, and compute the others again."""

from __future__ import annotations

import enum
from collections import defaultdict, deque

from plugrad import Tensor, nest
from plugrad.overrides import TorchDispatchMode

__all__ = ["CheckpointPolicy", "SAC_IGNORED_OPS", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]

SAC_IGNORED_OPS: set = {Tensor.detach}  # ops that a policy is not asked about


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's result: kept, here or on the host, or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_OFFLOADED = (CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)
_KEPT = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, *_OFFLOADED)


class SelectiveCheckpointContext:
    """What a policy is told beside the call: the op's result, as `op_output`."""

    def __init__(self, *, is_recompute, op_output=None):
        self.is_recompute, self.op_output = is_recompute, op_output


def _key(func):
    """Return what stands for an op: its record, under whichever name it is called."""
    return getattr(func, "__op__", func)


class _Keeps(TorchDispatchMode):
    """Keeps, while the function runs, the results that the policy wants kept."""

    def __init__(self, policy, kept):
        self.policy, self.kept = policy, kept

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in SAC_IGNORED_OPS:
            return result
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        policy = self.policy(context, func, *args, **kwargs)
        if isinstance(policy, bool):
            policy = CheckpointPolicy.MUST_SAVE if policy else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(policy, CheckpointPolicy):
            raise RuntimeError(f"a checkpoint policy must return a CheckpointPolicy or a bool, not {policy!r}")
        entry = None
        if policy in _KEPT:
            away = policy in _OFFLOADED
            entry = nest.change(lambda leaf: _Kept(leaf, away) if isinstance(leaf, Tensor) else leaf, result)
        self.kept[_key(func)].append(entry)
        return result


class _Kept:
    """One tensor, its version and its device."""

    def __init__(self, tensor, away):
        self.tensor, self.version, self.device = tensor.detach(), tensor._version, tensor.device
        if away:
            self.tensor = self.tensor.cpu()

    def value(self, allow_mutation):
        if not allow_mutation and self.tensor.device is self.device and self.tensor._version != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated: write out of place, or pass "
                "allow_cache_entry_mutation=True"
            )
        return self.tensor.to(self.device)


class _Uses(TorchDispatchMode):
    """Hands out, while the function runs again, what was kept."""

    def __init__(self, kept, allow_mutation):
        self.kept, self.allow_mutation = kept, allow_mutation

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in SAC_IGNORED_OPS:
            return func(*args, **(kwargs or {}))
        calls = self.kept[_key(func)]
        if not calls:
            raise RuntimeError(
                f"{getattr(func, '__name__', func)} was called more often in the recomputation than in the "
                "checkpointed forward: the function must do the same both times"
            )
        entry = calls.popleft()
        if entry is None:
            return func(*args, **(kwargs or {}))
        return nest.change(lambda leaf: leaf.value(self.allow_mutation) if isinstance(leaf, _Kept) else leaf, entry)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """Return the pair of contexts of a checkpoint that keeps the results of some ops.

    Args:
        policy_fn_or_list: a list of ops whose results are kept; or `f(context, op, *args, **kwargs)`, which returns
            a CheckpointPolicy for each call. Ops are public functions, such as `torch.mm`.
        allow_cache_entry_mutation: whether results that were written in place since may be used.

    Raises TypeError for anything else.

    >>> import functools
    >>> import plugrad as torch
    >>> from plugrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> keep = functools.partial(create_selective_checkpoint_contexts, [torch.mm])
    >>> checkpoint(lambda x: x.mm(x).exp(), x, use_reentrant=False, context_fn=keep).sum().backward()
    >>> x.grad
    tensor([[29.5562, 29.5562],
            [29.5562, 29.5562]])
    """
    policy = policy_fn_or_list
    if isinstance(policy, list):
        for op in policy:
            if not callable(op):
                raise TypeError(f"policy_fn_or_list must be a function or a list of ops, {op!r} in it is no op")
        wanted = {_key(op) for op in policy}

        def policy(context, op, *args, **kwargs):
            return CheckpointPolicy.MUST_SAVE if _key(op) in wanted else CheckpointPolicy.PREFER_RECOMPUTE

    elif not callable(policy):
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    kept: dict = defaultdict(deque)
    return _Keeps(policy, kept), _Uses(kept, allow_cache_entry_mutation)
