"""How many inputs and outputs a weight connects, and the gain of the nonlinearity after it."""

from __future__ import annotations

import math
import warnings

# Factors that keep the variance of what passes through: LeCun's for tanh, He's for the rectifiers, 3/4 for SELU.
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}
_LINEAR = {"linear", "sigmoid", *(f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3))}


def calculate_gain(nonlinearity, param=None):
    """Return the factor by which weights before a nonlinearity should be larger.

    Args:
        nonlinearity: 'linear', 'sigmoid', 'conv1d' and so on (1), 'tanh' (5/3), 'relu' (sqrt 2), 'leaky_relu',
            'selu' (3/4).
        param: the negative slope of 'leaky_relu', 0.01 when None: the gain is sqrt(2 / (1 + slope**2)).

    Raises ValueError for another name or a slope that is not a number.

    >>> import plugrad as torch
    >>> torch.nn.init.calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if not isinstance(nonlinearity, str):
        raise ValueError(f"Unsupported nonlinearity {nonlinearity!r}: it must be a string, such as 'relu'")
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted({*_LINEAR, *_GAINS, "leaky_relu"}))
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}; known are {known}")
    return _GAINS[nonlinearity]


def fans(tensor) -> tuple[int, int]:
    """Return (inputs per output, outputs per input) of a weight (out, in, *kernel)."""
    if not hasattr(tensor, "ndim"):
        raise AttributeError(f"an initialiser fills a tensor, not {type(tensor).__name__}: write layer.weight")
    if tensor.ndim < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions: this one has shape "
            f"{list(tensor.shape)}; use uniform_ or normal_"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def fan(tensor, mode: str) -> int:
    """Return the fan that a `mode` argument names."""
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans(tensor)[mode == "fan_out"]


def without_elements(tensor) -> bool:
    """Whether there is nothing to fill: then a warning is in place."""
    if 0 not in tensor.shape:
        return False
    warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
    return True
