"""What factories are seldom asked for: other layouts than strided, sizes that are wrong, progressions into `out=`."""

from __future__ import annotations

import warnings

from plugrad import Tensor, strided
from plugrad.tensor.layouts import factories


def factory_of_layout(layout, op, out):
    """Return what makes a tensor of another layout than strided in the place of a factory op.

    Raises TypeError for what is no layout, RuntimeError where `out` has another one, NotImplementedError for an op
    that makes strided tensors only.
    """
    if op.name.startswith("signal_"):
        raise ValueError(f"{op.names[0]} makes strided tensors only, got layout={layout}")
    if not isinstance(layout, type(strided)):
        raise TypeError(f"{op.name}(): argument 'layout' must be torch.layout, not {type(layout).__name__}")
    if out is not None and layout is not out.layout:
        raise RuntimeError(f"layout {layout} does not match layout of out parameter ({out.layout})")
    if op.name in factories:
        return factories[op.name]
    raise NotImplementedError(
        f"{op.name} makes strided tensors only, got layout={layout}; write x.to_sparse() after it"
    )


def check_size(op, raw) -> None:
    """Raise RuntimeError for a negative size; put the size into the raw arguments as a tuple of ints."""
    position = op.index["size"]
    size = raw[position]
    size = (size,) if isinstance(size, int) else size
    for n in size:
        if not isinstance(n, Tensor) and n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(size)}")
    raw[position] = tuple(n if type(n) is not bool and isinstance(n, int) else int(n) for n in size)


def laid_as(op, numbers, out):
    """Return the numbers in the shape of `out` where they fill it just as it lies; warn where `out` gets another size.

    Of `linspace` and `logspace`, whose number is given, nothing is said, nor of `range`.
    """
    if numbers.numel() == out.numel():
        return numbers.reshape(out.shape)
    if ("step" in op.parameters or "d" in op.parameters) and "range" not in op.names and out.numel():
        warnings.warn(
            f"The number of elements in the out tensor of shape {list(out.shape)} is {out.numel()} which does not "
            f"match the computed number of elements {numbers.numel()}. Note that this may occur as a result of "
            f"rounding error. The out tensor will be resized to a tensor of shape ({numbers.numel()},).",
            stacklevel=5,
        )
    return numbers
