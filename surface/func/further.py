"""What torch.func has beside transforms: functionalize, rearrange, debug_unwrap, batch norms without statistics."""

from __future__ import annotations

import functools
import re

import plugrad
from plugrad import Tensor
from plugrad.autograd.forward_ad import unwrapped
from plugrad.nn import modules

__all__ = ["debug_unwrap", "functionalize", "rearrange", "replace_all_batch_norm_modules_"]


def functionalize(func, *, remove="mutations"):
    """Return a function that computes what `func` does.

    PyTorch's has no op in it that writes in place, which matters to those who trace it; its results and what it writes
    to its arguments are the same. Nothing traces it here, so it runs as it is.

    Args:
        func: takes and returns tensors.
        remove: "mutations" or "mutations_and_views".

    Raises RuntimeError for another `remove`.

    >>> import plugrad as torch
    >>> torch.func.functionalize(lambda x: x.clone().add_(1))(torch.zeros(2))
    tensor([1., 1.])
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            "functionalize(f, remove='mutations'): received invalid argument for input 'remove': it is 'mutations' or "
            f"'mutations_and_views', not {remove!r}"
        )

    @functools.wraps(func)
    def same(*args, **kwargs):
        return func(*args, **kwargs)

    return same


def replace_all_batch_norm_modules_(root):
    """Have all batch norms of a module use the batch's statistics only; return it.

    >>> import plugrad as torch
    >>> net = torch.func.replace_all_batch_norm_modules_(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    >>> net[0].running_mean is None
    True
    """
    kinds = (modules.BatchNorm1d, modules.BatchNorm2d, modules.BatchNorm3d, modules.SyncBatchNorm)
    for module in root.modules():
        if isinstance(module, kinds) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor, *, recurse=True):
    """Return a tensor without the tangents that transforms gave it, to look at it.

    Args:
        tensor: seen inside of a function that is being transformed.
        recurse: False takes away the tangents of the innermost transform only.

    Raises RuntimeError for what is no tensor.
    """
    if not isinstance(tensor, Tensor):
        raise RuntimeError(f"debug_unwrap(): expected a Tensor, got {type(tensor).__name__}")
    return unwrapped(tensor, recurse)


# ---------------------------------------------------------------------------------------------------- rearrange

_TOKENS = re.compile(r"\.\.\.|[A-Za-z_]\w*|\d+|[()]")


def _parsed(side: str, pattern: str) -> list:
    """Return one side of a pattern as a list of groups of names; "..." is a group of its own."""
    if _TOKENS.sub("", side).strip():
        raise ValueError(f"rearrange(): {pattern!r} has characters that mean nothing there")
    groups, inner = [], None
    for token in _TOKENS.findall(side):
        if token == "(":
            if inner is not None:
                raise ValueError(f"rearrange(): parentheses in parentheses in {pattern!r}")
            inner = []
        elif token == ")":
            if inner is None:
                raise ValueError(f"rearrange(): unbalanced parentheses in {pattern!r}")
            groups.append(inner)
            inner = None
        elif token.isdigit() and token != "1":
            raise ValueError(f"rearrange(): of numbers only 1 may stand in {pattern!r}")
        elif inner is not None:
            inner += [] if token == "1" else [token]
        else:
            groups.append([] if token == "1" else [token])
    if inner is not None:
        raise ValueError(f"rearrange(): unbalanced parentheses in {pattern!r}")
    return groups


def _sizes(groups, shape, known, pattern) -> dict:
    """Return the size of every name on the left, of the shape and the sizes that are known."""
    sizes = dict(known)
    for group, size in zip(groups, shape):
        unknown = [name for name in group if name not in sizes]
        rest = 1
        for name in group:
            rest *= sizes.get(name, 1)
        if len(unknown) > 1:
            raise ValueError(f"rearrange(): the sizes of {unknown} in {pattern!r} can't be told: give all but one")
        if (size % rest if unknown and rest else size != rest) or unknown and not rest:
            raise ValueError(f"rearrange(): a dimension of size {size} can't be split as {pattern!r} says")
        sizes.update({name: size // rest for name in unknown})
    return sizes


def rearrange(tensor, pattern: str, **axes_lengths: int):
    """Return a tensor with its dimensions moved, joined and split as a pattern says.

    Args:
        tensor: one, or a list of tensors of one shape, which are stacked first.
        pattern: names of dimensions on both sides of an arrow; those in parentheses are one dimension, `...` stands
            for any others, 1 or () for one of size 1.
        axes_lengths: sizes of names that the shape does not tell.

    Raises ValueError if the pattern does not fit.

    >>> import plugrad as torch
    >>> torch.func.rearrange(torch.arange(6).view(2, 3), "a (b c) -> c (a b)", c=3)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    if isinstance(tensor, (list, tuple)):
        tensor = plugrad.stack(tuple(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange(): {pattern!r} must have one arrow: 'a b -> b a'")
    left, right = (_parsed(side, pattern) for side in sides)
    more = tensor.ndim - sum(group != ["..."] for group in left)
    if more < 0 or more and ["..."] not in left:
        raise ValueError(f"rearrange(): {pattern!r} does not fit a tensor of {tensor.ndim} dimensions")
    others = [f"...{number}" for number in range(max(more, 0))]
    left = [one for group in left for one in ([[name] for name in others] if group == ["..."] else [group])]
    right = [[one for name in group for one in (others if name == "..." else [name])] if group != ["..."] else group
             for group in right]  # fmt: skip
    right = [one for group in right for one in ([[name] for name in others] if group == ["..."] else [group])]
    before, after = ([name for group in side for name in group] for side in (left, right))
    if sorted(before) != sorted(after) or len(set(before)) < len(before):
        raise ValueError(f"rearrange(): both sides of {pattern!r} must have the same names, each once")
    for name in axes_lengths:
        if name not in before:
            raise ValueError(f"rearrange(): {name!r} is not in {pattern!r}")
    sizes = _sizes(left, tensor.shape, axes_lengths, pattern)
    split = tensor.reshape([sizes[name] for name in before])
    moved = split.permute([before.index(name) for name in after])
    shape = []
    for group in right:
        size = 1
        for name in group:
            size *= sizes[name]
        shape.append(size)
    return moved.reshape(shape)

