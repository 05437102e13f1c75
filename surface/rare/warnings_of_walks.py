"""What a program is warned of that asks for gradients where there are none, or keeps whole graphs alive."""

from __future__ import annotations

import warnings

from plugrad.backends import warn_once


def warn_of_grad() -> None:
    """Warn that `.grad` of a tensor that is no leaf was read."""
    warnings.warn(
        "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
        "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
        "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
        "you access the leaf Tensor instead.",
        stacklevel=3,
    )


def warn_of_cycle() -> None:
    """Warn, once, that a gradient with history and its leaf keep each other alive."""
    warn_once(
        "cycle of backward",
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
        "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If "
        "you have to use this function, make sure to reset the .grad fields of your parameters to None after use to "
        "break the cycle and avoid the leak.",
        stacklevel=4,
    )
