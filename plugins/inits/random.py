"""Initialisers that draw: uniform, normal, by fans (Xavier, Kaiming), truncated, orthogonal, sparse."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import hookimpl, overridable

from ._fans import calculate_gain, fan, fans, without_elements


@overridable
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fill a tensor with numbers from the uniform distribution on [a, b); return it.

    >>> import plugrad as torch
    >>> bool((torch.nn.init.uniform_(torch.empty(9), 2.0, 3.0) >= 2).all())
    True
    """
    with plugrad.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@overridable
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fill a tensor with normally distributed numbers; return it.

    >>> import plugrad as torch
    >>> torch.nn.init.normal_(torch.empty(2, 3)).shape
    torch.Size([2, 3])
    """
    with plugrad.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fill a tensor from the normal distribution restricted to [a, b]; return it.

    By rejection, from the normal distribution where [a, b] has much of it, else from the uniform one: L. Devroye,
    "Non-Uniform Random Variate Generation", 1986, section II.3. Warns when the interval is far from the mean.

    >>> import plugrad as torch
    >>> bool((torch.nn.init.trunc_normal_(torch.empty(99)).abs() <= 2).all())
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        import warnings

        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be "
            "incorrect.",
            stacklevel=2,
        )
    low, high = (0.5 * (1 + math.erf((bound - mean) / (std * math.sqrt(2)))) for bound in (a, b))
    if tensor.is_meta:
        return tensor
    with plugrad.no_grad():
        if high - low > 0.3:
            return _from_normals(tensor, mean, std, a, b, generator)
        return _from_uniforms(tensor, mean, std, a, b, generator)


def _from_normals(tensor, mean, std, a, b, generator):
    """Draw until all of them lie within the bounds, which are first rounded to the tensor's dtype."""
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    drawn = tensor.normal_(mean, std, generator=generator)
    while bool((outside := (drawn < low) | (drawn > high)).any()):
        more = plugrad.empty_like(drawn).normal_(mean, std, generator=generator)
        drawn = plugrad.where(outside, more, drawn)
    return tensor if drawn is tensor else tensor.copy_(drawn)


def _from_uniforms(tensor, mean, std, a, b, generator):
    """Draw from the interval, and keep what lies below the density's curve."""

    def draw():
        drawn = plugrad.empty_like(tensor).uniform_(a, b, generator=generator)
        height = ((drawn - mean) / std).pow_(2).mul_(-0.5).sub_(peak)
        return drawn, plugrad.empty_like(tensor).uniform_(generator=generator).log_() > height

    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    result, pending = draw()
    while bool(pending.any()):
        drawn, above = draw()
        result, pending = plugrad.where(pending, drawn, result), pending & above
    return tensor.copy_(result)


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fill a weight uniformly on +-gain * sqrt(6 / (fan_in + fan_out)); return it.

    X. Glorot, Y. Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010. Raises
    ValueError for tensors of less than two dimensions.

    >>> import plugrad as torch
    >>> bool((torch.nn.init.xavier_uniform_(torch.empty(2, 4)).abs() <= 1).all())
    True
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fill a weight normally, as deviating as in xavier_uniform_; return it.

    The deviation is gain * sqrt(2 / (fan_in + fan_out)).

    >>> import plugrad as torch
    >>> torch.nn.init.xavier_normal_(torch.empty(3, 5)).shape
    torch.Size([3, 5])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


@overridable
def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fill a weight uniformly on +-gain * sqrt(3 / fan); return it.

    Args:
        tensor: the weight, (out, in, *kernel).
        a: the negative slope of the rectifier that follows, with 'leaky_relu'.
        mode: 'fan_in' keeps the variance forward, 'fan_out' backward.
        nonlinearity: what follows; see calculate_gain.

    K. He, X. Zhang, S. Ren, J. Sun, "Delving deep into rectifiers", arXiv:1502.01852. Raises ValueError for tensors of
    less than two dimensions and for unknown modes.

    >>> import plugrad as torch
    >>> bool((torch.nn.init.kaiming_uniform_(torch.empty(2, 6)).abs() <= 1).all())
    True
    """
    if without_elements(tensor):
        return tensor
    bound = calculate_gain(nonlinearity, a) * math.sqrt(3.0 / fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fill a weight normally with deviation gain / sqrt(fan); return it.

    The arguments and the source are those of kaiming_uniform_.

    >>> import plugrad as torch
    >>> torch.nn.init.kaiming_normal_(torch.empty(3, 5), nonlinearity="relu").shape
    torch.Size([3, 5])
    """
    if without_elements(tensor):
        return tensor
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(fan(tensor, mode)), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Make a matrix orthogonal, times `gain`; return it.

    Its rows are orthonormal, or its columns if they are fewer. Dimensions after the first count as one. By the
    QR decomposition of a normal matrix, signs fixed so that the result is uniformly distributed: F. Mezzadri,
    arXiv:math-ph/0609050; A. Saxe et al., arXiv:1312.6120. Raises ValueError for tensors of less than two dimensions.

    >>> import plugrad as torch
    >>> q = torch.nn.init.orthogonal_(torch.empty(2, 3, dtype=torch.float64))
    >>> torch.allclose(q @ q.T, torch.eye(2, dtype=torch.float64))
    True
    """
    if tensor.ndim < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, this one has {tensor.ndim}")
    if 0 in tensor.shape:
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    with plugrad.no_grad():
        flat = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        q, r = plugrad.linalg.qr(flat.T if rows < columns else flat)
        q = q * plugrad.diagonal(r).sign()
        return tensor.copy_((q.T if rows < columns else q).reshape(tensor.shape)).mul_(gain)


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fill a matrix normally with `sparsity` of each column zero; return it.

    J. Martens, "Deep learning via Hessian-free optimization", 2010. Raises ValueError unless there are two dimensions.

    >>> import plugrad as torch
    >>> (torch.nn.init.sparse_(torch.empty(4, 2), 0.5) == 0).sum(0)
    tensor([2, 2])
    """
    if tensor.ndim != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, this one has {tensor.ndim}")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with plugrad.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[plugrad.randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


@hookimpl
def plugrad_inits():
    return [
        uniform_, normal_, trunc_normal_, xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_,
        orthogonal_, sparse_, calculate_gain,
    ]  # fmt: skip
