"""`torch.cond`, `torch.while_loop` and the scans: control flow as functions, which Python here simply carries out."""

from __future__ import annotations

import plugrad
from plugrad import absent, nest

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]

__path__ = []  # in PyTorch each is in a module of its name
__getattr__ = absent.attributes("_higher_order_ops")


def cond(pred, true_fn, false_fn, operands=()):
    """Return `true_fn(*operands)` if `pred`, a number or a tensor of one element, is true, else `false_fn(*operands)`.

    >>> import plugrad as torch
    >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(1),))
    tensor([0.])
    """
    if not isinstance(pred, (bool, int, float, plugrad.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, plugrad.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of tensors, but got {operands}.")
    return (true_fn if bool(pred) else false_fn)(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    """Return the values to which `values = body_fn(*values)` comes while `cond_fn(*values)` is true.

    >>> import plugrad as torch
    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, 2 * x), (torch.tensor(0), torch.ones(1)))
    (tensor(3), tensor([8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or list, got {type(carried_inputs)}")
    values = tuple(carried_inputs)
    while bool(cond_fn(*values)):
        new = body_fn(*values)
        if not isinstance(new, tuple) or len(new) != len(values):
            raise RuntimeError(f"body_fn should return a tuple of {len(values)} values, as it takes, but got {new!r}")
        values = new
    return values


def _slices(xs, dim, reverse):
    """Return the nests that `xs` has along a dimension, in the order in which they are taken."""
    parts = [leaf.unbind(dim) for leaf in nest.leaves(xs)]
    if not parts or len({len(part) for part in parts}) > 1:
        raise RuntimeError("All xs leaves must have the same size in the dimension that is scanned, and there is none")
    slices = [nest.rebuild(xs, iter(items)) for items in zip(*parts)]
    return slices[::-1] if reverse else slices


def _stacked(results, dim, reverse):
    results = results[::-1] if reverse else results
    columns = zip(*(nest.leaves(result) for result in results))
    return nest.rebuild(results[0], iter([plugrad.stack(column, dim) for column in columns]))


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """Return the last carry and the stacked results of `carry, y = combine_fn(carry, x)` for the slices of `xs`.

    Args:
        combine_fn: takes a carry and a slice.
        init: the first carry; a tensor, or a nest of them.
        xs: a tensor, or a nest of them that have the same size in `dim`.
        dim: the dimension of which slices are taken, and along which results are stacked.
        reverse: whether the last slice is the first to be taken.

    >>> import plugrad as torch
    >>> torch._higher_order_ops.scan(lambda c, x: (c + x, c * x), torch.tensor(0.0), torch.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([0., 2., 9.]))
    """
    carry, results = init, []
    for item in _slices(xs, dim, reverse):
        carry, result = combine_fn(carry, item)
        results.append(result)
    return carry, _stacked(results, dim, reverse)


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Return, for each slice of `xs`, what `combine_fn` makes of all slices up to it.

    Args:
        combine_fn: an associative function of two slices.
        xs: a tensor, or a nest of them that have the same size in `dim`.
        dim: the dimension of which slices are taken, and along which results are stacked.
        reverse: whether to begin with the last slice.
        combine_mode: "pointwise" or "generic"; the function is called slice by slice in both.

    >>> import plugrad as torch
    >>> torch._higher_order_ops.associative_scan(torch.mul, torch.tensor([1.0, 2.0, 3.0, 4.0]), 0)
    tensor([ 1.,  2.,  6., 24.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    slices = _slices(xs, dim, reverse)
    results = slices[:1]
    for item in slices[1:]:
        results.append(combine_fn(results[-1], item))
    return _stacked(results, dim, reverse)


def map(f, xs, *args):
    """Return the stacked results of `f(x, *args)` for the slices `x` of `xs` along its first dimension."""
    return _stacked([f(item, *args) for item in _slices(xs, 0, False)], 0, False)
