"""Covariances and histograms."""

from __future__ import annotations

import math
import operator

from plugrad.extend import Op, collect, composite, hookimpl, op

from ._checks import underived


@composite(kinds={"correction": "int"})
def cov(F, input, *, correction=1, fweights=None, aweights=None):
    """Covariance matrix of variables: the rows of `input`, observed in its columns.

    Args:
        input: matrix (variables, observations), or a vector of observations of one variable.
        correction: taken off the number of observations that the sums are divided by.
        fweights: how often each observation was made, integers.
        aweights: how much each observation counts, floats.

    >>> import plugrad as torch
    >>> torch.cov(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    if "bool" in str(input.dtype):
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if input.ndim == 2 else F.reshape(input, (1, -1) if input.numel() else (1, 0))
    n = rows.shape[1]
    weights = _weights(F, fweights, aweights, n)
    if weights is None:
        total, freedom = n, n - correction
        mean = F.sum(rows, 1, True) / total if n else F.sum(rows, 1, True) * float("nan")
    else:
        total = F.sum(weights)
        if n and not bool(total != 0):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = F.sum(rows * weights, 1, True) / total
        freedom = total - correction
        if aweights is not None and correction:
            scale = aweights if fweights is None else weights * aweights
            freedom = total - correction * F.sum(weights * aweights if fweights is None else scale) / total
    away = rows - mean
    weighted = away if weights is None else away * weights
    result = F.matmul(weighted, F.transpose(F.conjugated(away), 0, 1))
    freedom = max(freedom, 0) if isinstance(freedom, (int, float)) else F.clamp(freedom, 0)
    result = result / freedom if not isinstance(freedom, (int, float)) or freedom else result * float("inf")
    return F.squeeze(result)


@cov.samples
def cov_samples(make):
    yield make(3, 5)
    yield make(5)


def _weights(F, fweights, aweights, n):
    """Check the weights of observations; return their product, or None."""
    for name, weights, floats in (("fweights", fweights, False), ("aweights", aweights, True)):
        if weights is None:
            continue
        if weights.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.ndim} dimensions"
            )
        if weights.is_floating_point() != floats or weights.is_complex() or "bool" in str(weights.dtype):
            raise RuntimeError(
                f"cov(): expected {name} to have {'floating point' if floats else 'integral'} dtype but "
                f"got {name} with {weights.dtype} dtype"
            )
        if weights.numel() != n:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in the input "
                f"but got {weights.numel()} != {n}"
            )
        if n and not weights.is_meta and bool(F.any(weights < 0)):
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None:
        return aweights
    return fweights if aweights is None else fweights * aweights


@composite()
def corrcoef(F, input):
    """Pearson correlation coefficients of the rows of `input`.

    Rows are variables, columns observations.

    >>> import plugrad as torch
    >>> torch.corrcoef(torch.tensor([[0., 1., 2.], [2., 1., 0.]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {input.ndim} dimensions"
        )
    covariance = F.cov(input)
    if covariance.ndim == 0:
        return covariance / covariance
    deviation = F.sqrt(F.diagonal(covariance))
    deviation = F.real(deviation) if covariance.is_complex() else deviation
    result = covariance / F.unsqueeze(deviation, 1) / deviation
    if covariance.is_complex():
        return F.complex(F.clamp(F.real(result), -1, 1), F.clamp(F.imag(result), -1, 1))
    return F.clamp(result, -1, 1)


corrcoef.samples(cov_samples)


# ---------------------------------------------------------------- histograms


def _edges(xp, input, bins, range, dimension=0):
    """Edges of equal bins over `range`, or over what the data spans."""
    if range is not None:
        low, high = map(float, range)
    else:
        low, high = (float(input.min()), float(input.max())) if input.size else (0.0, 1.0)
    for bound in (low, high):
        if bound - bound != 0:
            raise RuntimeError(f"torch.histogramdd: dimension {dimension}'s range [{low:g}, {high:g}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {dimension}"
        )
    if low == high:
        low, high = low - 0.5, high + 0.5
    return xp.linspace(low, high, bins + 1, dtype=input.dtype)


def _check_bins(input, bins, dimension) -> None:
    """Raise RuntimeError for bins of a dimension, a number or edges, that there can't be."""
    where = f"in the bins tensor for dimension {dimension}"
    if hasattr(bins, "dtype"):
        if bins.dtype != input.dtype:
            raise RuntimeError(
                "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype "
                f"{input.dtype} and bins for dimension {dimension} with dtype {bins.dtype}"
            )
        if bins.ndim != 1:
            raise RuntimeError(
                f"torch.histogramdd: bins tensor should have one dimension, but got {bins.ndim} dimensions {where}"
            )
        if not len(bins):
            raise RuntimeError(f"torch.histogramdd: bins tensor should have at least 1 element, but got 0 {where}")
    count = len(bins) - 1 if hasattr(bins, "dtype") else bins
    if count <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {count} for dimension {dimension}")


def _counts(xp, points, edges, weight, density):
    """Weighted numbers of points in each box of a grid; the last box of each row includes its upper edge."""
    shape = [len(e) - 1 for e in edges]
    place, inside = xp.zeros(len(points), "int64"), xp.ones(len(points), bool)
    for column, own in zip(points.T, edges):
        index = xp.searchsorted(own, column, side="right") - 1
        index = xp.where(column == own[-1], len(own) - 2, index)
        inside = inside & (column >= own[0]) & (column <= own[-1])
        place = place * (len(own) - 1) + xp.clip(index, 0, len(own) - 2)
    cells = 1
    for n in shape:
        cells *= n
    kept = None if weight is None else weight.reshape(-1)[inside]
    counts = xp.bincount(place[inside], weights=kept, minlength=cells).reshape(shape).astype(points.dtype)
    if density:
        counts = counts / counts.sum()
        for axis, own in enumerate(edges):
            counts = counts / xp.diff(own).reshape((-1,) + (1,) * (len(edges) - 1 - axis))
    return counts


def _check_histogram(input, weight, range, shape) -> None:
    """Raise what PyTorch raises for arguments of a histogram of points of the shape `shape`."""
    if input.dtype not in ("float32", "float64"):
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{input.dtype}': write input.float()")
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the "
            f"same dtype, but got input({input.dtype}), and weight({weight.dtype})"
        )
    if weight is not None and weight.shape != shape[:-1]:
        raise RuntimeError(
            "torch.histogramdd: if weight tensor is provided it should have the same shape as the input "
            f"tensor excluding its innermost dimension, but got input with shape {list(shape)} "
            f"and weight with shape {list(weight.shape)}"
        )
    if range is not None and len(range) != 2 * shape[-1]:
        raise RuntimeError(
            f"torch.histogramdd: for a {shape[-1]}-dimensional histogram range should have {2 * shape[-1]} elements, "
            f"but got {len(range)}"
        )


@op(returns="hist bin_edges", kinds={"bins": "tensor|int"}, node="NotImplemented")
def histogram(xp, input, bins=100, *, range=None, weight=None, density=False):
    """Numbers of elements in bins: a named tuple (hist, bin_edges).

    Args:
        input: float tensor; its elements are counted.
        bins: number of equal bins, or a 1-d tensor of their edges. A bin excludes its upper edge, the last doesn't.
        range: lowest and highest edge; by default those of the data.
        weight: what each element counts, of the shape of `input`.
        density: divide by the total and by the widths of the bins.

    >>> import plugrad as torch
    >>> torch.histogram(torch.tensor([1., 2., 2., 4.]), 3).hist
    tensor([1., 2., 1.])
    """
    _check_histogram(input, weight, range, (*input.shape, 1))
    flat = input.reshape(-1)
    if getattr(bins, "ndim", 1) == 0 and hasattr(bins, "__index__") and "int" in str(bins.dtype):
        bins = operator.index(bins)
    if hasattr(bins, "dtype") and range is not None:
        raise TypeError("histogram() received an invalid combination of arguments: edges of bins beside range=")
    _check_bins(input, bins, 0)
    edges = bins + 0 if hasattr(bins, "dtype") else _edges(xp, flat, bins, range)
    return _counts(xp, flat[:, None], [edges], weight, density), edges


histogram.vjp("input", "weight")(underived("histogram"))


@histogram.meta
def histogram_meta(input, bins=100, *, range=None, weight=None, density=False):
    n = bins.shape[0] if hasattr(bins, "dtype") else bins + 1
    return [((n - 1,), input.dtype), ((n,), input.dtype)]


@histogram.samples
def histogram_samples(make):
    yield make(20, requires_grad=False), 4
    yield make.args(make(20, requires_grad=False), 3, range=(-1.0, 1.0), density=True)


@op(at=(), vjp=None)
def histogram_grid(xp, input, bins, *, range=None, weight=None, density=False):
    """Numbers of points in the boxes of a grid, then the edges of each dimension."""
    _check_histogram(input, weight, range, input.shape)
    n = input.shape[-1]
    points = input.reshape(math.prod(input.shape[:-1]), n)
    bins = [bins] * n if isinstance(bins, int) else list(bins)
    if len(bins) != n:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input: "
            f"expected {n} numbers of bins or sequences of edges, but got {len(bins)}"
        )
    edges = []
    for d, (own, column) in enumerate(zip(bins, points.T)):
        _check_bins(input, own, d)
        own_range = None if range is None else range[2 * d : 2 * d + 2]
        edges.append(own + 0 if hasattr(own, "dtype") else _edges(xp, column, own, own_range, d))
    if not n:
        return (xp.asarray(math.nan if density else 0.0, dtype=input.dtype),)
    return (_counts(xp, points, edges, weight, density), *edges)


@histogram_grid.meta
def histogram_grid_meta(input, bins, *, range=None, weight=None, density=False):
    bins = [bins] * input.shape[-1] if isinstance(bins, int) else bins
    sizes = [own.shape[0] if hasattr(own, "dtype") else own + 1 for own in bins]
    return [(tuple(n - 1 for n in sizes), input.dtype), *(((n,), input.dtype) for n in sizes)]


@composite(at=("histogramdd",), returns="hist bin_edges")
def histogramdd(F, input, bins, *, range=None, weight=None, density=False):
    """Numbers of points in the boxes of a grid: a named tuple (hist, bin_edges).

    Args:
        input: float tensor (*, d): points of d coordinates.
        bins: number of bins, of all dimensions or one for each; or a sequence of d tensors of edges.
        range: lowest and highest edge of the first dimension, of the second...
        weight, density: as for `histogram`.

    >>> import plugrad as torch
    >>> torch.histogramdd(torch.tensor([[0., 1.], [1., 0.]]), [2, 2]).hist
    tensor([[0., 1.],
            [1., 0.]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {input.ndim}")
    if not isinstance(bins, (tuple, list)):
        bins = operator.index(bins)
    elif not any([getattr(own, "ndim", 0) or getattr(own, "is_floating_point", bool)() for own in bins]):
        bins = [operator.index(own) for own in bins]
    hist, *edges = F.histogram_grid(input, bins, range=range, weight=weight, density=density)
    if not isinstance(bins, int):
        edges = [own if hasattr(own, "dtype") else computed for own, computed in zip(bins, edges)]
    return histogramdd.returns(hist, tuple(edges))


@histogram_grid.samples
@histogramdd.samples
def histogramdd_samples(make):
    yield make(20, 2, requires_grad=False), [3, 2]


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
