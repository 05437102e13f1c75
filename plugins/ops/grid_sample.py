"""Images read at points of a grid, and the grids of affine maps.

M. Jaderberg et al., "Spatial transformer networks", arXiv:1506.02025.
"""

from __future__ import annotations

import itertools
import warnings
from functools import lru_cache
from math import prod

import plugrad
from plugrad.extend import Op, collect, composite, hookimpl, native, op

from . import _in_order_on_cuda as ordered
from ._checks import refuse

_MODES, _PADDINGS = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")


@op(at=())
def take_points(xp, input, index):
    """Elements at the same places in all channels.

    `input` is (N, C, P), `index` (N, Q); gives (N, C, Q).
    """
    return xp.take_along_axis(input, index[:, None, :], 2)


@take_points.meta
def take_points_meta(input, index):
    return (*input.shape[:2], index.shape[1]), input.dtype


@take_points.vjp
def take_points_vjp(F, g, input_shape, index):
    return F.add_points(g, index, input_shape[2])


@take_points.samples
def take_points_samples(make):
    yield make.args(make(2, 3, 5), make.ints(2, 4, low=0, high=5))


@op(at=())
def add_points(xp, input, index, count):
    """Zeros with `input` added at places `index`: adjoint of `take_points`.

    `input` is (N, C, Q), `index` (N, Q); gives (N, C, count).
    """
    refuse("c", "add_points", input)
    n, c = input.shape[:2]
    rows = xp.arange(n * c).reshape(n, c, 1) * count
    places, size = (rows + index[:, None, :]).ravel(), n * c * count
    if xp.__name__ == "numpy":
        total = xp.bincount(places, input.ravel(), size)
    elif input.dtype.kind == "c":
        raise TypeError(f"{input.dtype} can't be cast to float64")
    else:  # CuPy looks at the indices first, and waits for that
        total = xp.zeros(size)
        ordered.add_at(xp, total, places, input.ravel().astype("float64", copy=False))
    return total.reshape(n, c, count).astype(input.dtype)


@add_points.meta
def add_points_meta(input, index, count):
    return (*input.shape[:2], count), input.dtype


@add_points.vjp
def add_points_vjp(F, g, index):
    return F.take_points(g, index)


@add_points.samples
def add_points_samples(make):
    yield make.args(make(2, 3, 4), make.ints(2, 4, low=0, high=5), 5)


def _place(F, x):
    """`x`, with -1, which is outside of the image, for NaN."""
    return F.where(x == x, x, -1)


def _clipped(F, x, high):
    """`x` restricted to [0, high]; no gradient at and outside the ends."""
    return F.where((x > 0) & (x < high), x, F.clamp(_place(F, x.detach()), 0, high))


def _reflected(F, x, low, span):
    """`x` reflected at `low` and `low + span` until it lies between them."""
    if span == 0:
        return F.zeros_like(x)
    away = F.where(x < low, low - x, x - low)
    odd = F.remainder(F.floor(away.detach() / span), 2) == 1
    rest = F.fmod(away, span)
    return F.where(odd, span - rest, rest) + low


def _padded(F, x, size, padding, align_corners):
    """Positions along an axis, those outside the image brought into it in the way of `padding`."""
    if padding == "zeros":
        return x
    if padding == "reflection":
        x = _reflected(F, x, 0.0, size - 1.0) if align_corners else _reflected(F, x, -0.5, float(size))
    return _clipped(F, x, size - 1)


def _keys(F, t):
    """Weights of the four neighbours, R. Keys' cubic convolution (IEEE ASSP 29(6), 1981) with a = -3/4."""
    a = -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(t + 1), near(t), near(1 - t), far(2 - t)


def _taps(F, x, size, mode, padding, align_corners):
    """The neighbours along an axis that a point is made of: pairs of positions, whole numbers, and weights."""
    if mode == "bicubic":
        low = _place(F, F.floor(x.detach()))
        weights = _keys(F, x - low)
        return [(_padded(F, low + k, size, padding, align_corners), w) for k, w in zip((-1, 0, 1, 2), weights)]
    x = _padded(F, x, size, padding, align_corners)
    if mode == "nearest":
        place = F.round(x)
        return [(_place(F, place.detach()), place - place.detach() + 1)]  # a one whose gradient is zero, not absent
    low = _place(F, F.floor(x.detach()))
    return [(low, low + 1 - x), (low + 1, x - low)]


# ---------------------------------------------------------------- images, bilinear


def _neighbours(F, grid, size, border, corners):
    """Along one axis: the element below each point, the weights of it and the next, and how the position changes."""
    slope = (size - 1) / 2 if corners else size / 2
    x = (grid + 1) * slope if corners else ((grid + 1) * size - 1) / 2
    within = (x > 0) & (x < size - 1) if border else x == x
    if border:
        x = F.where(within, x, F.where(x > 0, F.zeros_like(x) + (size - 1.0), F.zeros_like(x)))
    low = F.floor(F.where(x == x, x, F.zeros_like(x) - 1.0))  # NaN is outside
    return low, (low + 1.0 - x, x - low), F.where(within, F.zeros_like(x) + slope, F.zeros_like(x))


def _corners(F, whole, grid, sizes, border, corners):
    """For each of the four neighbours of points (N, P): place, whether inside, [weight, its derivatives by x and y].

    Places are computed by `whole` numbers, since float32 does not count the elements of a large image.
    """
    (height, width), zero = sizes, F.zeros_like(grid[..., 0])
    left, parts_x, slope_x = _neighbours(F, grid[..., 0], width, border, corners)
    top, parts_y, slope_y = _neighbours(F, grid[..., 1], height, border, corners)
    for down, right in itertools.product((0, 1), (0, 1)):
        row, column = top + float(down), left + float(right)
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = whole(F.where(inside, row, zero)) * width + whole(F.where(inside, column, zero))
        along_x, along_y = slope_x * parts_y[down], slope_y * parts_x[right]
        terms = parts_x[right] * parts_y[down], along_x if right else -along_x, along_y if down else -along_y
        yield place, inside, [F.where(inside, term, zero) for term in terms]


@op(at=(), node="GridSampler2DBackward0")
def sample_images(xp, input, grid, border, corners):
    """Images read at points of a grid, between elements bilinearly.

    Of images (N, C, H, W) and points (N, H', W', 2). What lies outside is zero, or with `border` the nearest element.
    `corners`: the ends of the grid are the middles of the outermost elements. NaN gives NaN, with `border` the first
    element along that axis.
    """
    (n, channels, *sizes), points = input.shape, grid.shape[1:3]
    flat, total = input.reshape(n, channels, prod(sizes)), 0

    def whole(array):
        return array.astype("int64")

    for place, inside, terms in _corners(xp, whole, grid.reshape(n, prod(points), 2), sizes, border, corners):
        values = xp.take_along_axis(flat, place[:, None, :], 2)
        total = total + xp.where(inside[:, None, :], values, 0) * terms[0][:, None, :]
    return total.reshape(n, channels, *points)


@sample_images.meta
def sample_images_meta(input, grid, border, corners):
    return (*input.shape[:2], *grid.shape[1:3]), input.dtype


@sample_images.vjp("input", "grid")
def sample_images_vjp(F, g, input, grid, border, corners, needs):
    n, channels, *sizes = input.shape
    points = prod(grid.shape[1:3])
    g, flat = F.reshape(g, (n, channels, points)), F.reshape(input, (n, channels, prod(sizes)))
    of_input, of_x, of_y = 0, 0, 0

    def whole(array):
        return F.to_copy(array, _INT64)

    for place, inside, terms in _corners(F, whole, F.reshape(grid, (n, points, 2)), sizes, border, corners):
        if needs[0]:
            of_input = of_input + F.add_points(g * F.unsqueeze(terms[0], 1), place, prod(sizes))
        if needs[1]:
            product = g * F.take_points(flat, place)
            along = F.sum(F.where(F.unsqueeze(inside, 1), product, F.zeros_like(product)), 1)
            of_x, of_y = of_x + along * terms[1], of_y + along * terms[2]
    of_grid = F.reshape(F.stack([of_x, of_y], -1), grid.shape) if needs[1] else None
    return F.reshape(of_input, input.shape) if needs[0] else None, of_grid


_INT64 = plugrad.int64.numpy


@sample_images.kernel("cpu")
@native("sample_images", otherwise=sample_images)
def sample_images_in_c(call, xp, input, grid, border, corners):
    result = xp.empty((*input.shape[:2], *grid.shape[1:3]), input.dtype)
    done = call(xp.ascontiguousarray(input), xp.ascontiguousarray(grid), result, border, corners)
    return result if done is None else done


@sample_images.vjp_kernel("cpu", "input", "grid")
@native("sample_images_grad")
def sample_images_grad_in_c(call, xp, g, input, grid, border, corners, needs):
    grads = xp.empty(input.shape, input.dtype), xp.empty(grid.shape, grid.dtype)
    done = call(*[xp.ascontiguousarray(x) for x in (g, input, grid)], *grads, border, corners)
    return [grad if need else None for grad, need in zip(grads, needs)] if done is None else done


@sample_images.samples
def sample_images_samples(make):
    for border, corners in ((False, False), (True, True)):
        yield make(2, 3, 4, 5), make(2, 3, 2, 2, low=-1.3, high=1.3), border, corners


# ---------------------------------------------------------------- all modes


def _sample(F, input, grid, mode, padding, align_corners):
    if mode == "bilinear" and padding != "reflection" and input.ndim == 4 and input.dtype in _SERVED:
        return F.sample_images(input, grid, padding == "border", align_corners)
    n, channels, *sizes = input.shape
    axes, points = len(sizes), tuple(grid.shape[1:-1])
    grid = F.reshape(grid, (n, prod(points), axes))
    along = []
    for i, size in enumerate(sizes):
        x = grid[..., axes - 1 - i]  # the grid names the last axis first
        x = (x + 1) * ((size - 1) / 2) if align_corners else ((x + 1) * size - 1) / 2
        along.append(_taps(F, x, size, mode, padding, align_corners))
    flat, total = F.reshape(input, (n, channels, prod(sizes))), 0
    for taps in itertools.product(*along):
        place, inside, weight = 0, True, 1
        for (where, part), size in zip(taps, sizes):
            inside = inside & (where >= 0) & (where < size)
            place = place * size + F.clamp(where, 0, size - 1).to(plugrad.int64)
            weight = weight * part
        weight = F.where(inside, weight, F.zeros_like(grid[..., 0]))
        total = total + F.take_points(flat, place) * F.unsqueeze(weight, 1)
    return F.reshape(total, (n, channels, *points))


_SERVED = (plugrad.float32, plugrad.float64)


@lru_cache(maxsize=1024)
def _check_shapes(images, grid):
    ndim = len(images)
    if ndim not in (4, 5) or len(grid) != ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(images)} and grid with sizes {list(grid)}"
        )
    if images[0] != grid[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(images)} and grid with sizes {list(grid)}"
        )
    if grid[-1] != ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid)}"
        )
    if 0 in images[2:]:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but got {list(images)}"
        )


def _check(input, grid, mode):
    _check_shapes(input.shape, grid.shape)
    if input.dtype is grid.dtype and input.dtype in _SERVED and mode == "bilinear":
        return
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input.dtype} and grid has "
            f"{grid.dtype}"
        )
    if not input.is_floating_point():
        raise NotImplementedError(f"\"grid_sampler\" not implemented for '{input.dtype}': convert it with .float()")
    if mode == "bicubic" and input.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


def _align(align_corners):
    if align_corners is None:
        warnings.warn(
            "grid_sample and affine_grid take align_corners to be False when it is not given; give it", stacklevel=4
        )
    return bool(align_corners)


_AUTOCAST = {"cpu": "float32", "cuda": "promote"}


@composite(
    fresh=True, at=("nn.functional.grid_sample",), kinds={"mode": "str", "padding_mode": "str"}, autocast=_AUTOCAST
)
def grid_sample(F, input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Read images at the points of a grid.

    Args:
        input: images (N, C, H, W) or volumes (N, C, D, H, W).
        grid: points (N, H', W', 2) or (N, D', H', W', 3), of which the first coordinate goes along W; -1 and 1 are
            the two ends of the image. NaN gives NaN, and where no weights depend on it is outside of the image.
        mode: "bilinear", "nearest", or for images "bicubic".
        padding_mode: what lies outside: "zeros", "border" (the nearest element) or "reflection".
        align_corners: the ends are the middles of the outermost elements, not their outer edges (default).

    Gives (N, C, H', W') or (N, C, D', H', W'). Raises `ValueError` for other modes, `RuntimeError` for shapes that do
    not fit.

    >>> import plugrad as torch
    >>> image = torch.tensor([[[[1., 2.], [3., 4.]]]])
    >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.5000]]]])
    """
    if mode not in _MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _PADDINGS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    _check(input, grid, mode)
    return _sample(F, input, grid, mode, padding_mode, _align(align_corners))


@grid_sample.samples
def grid_sample_samples(make):
    for mode in _MODES:
        yield make.args(make(2, 3, 4, 5), make(2, 3, 2, 2, low=-0.9, high=0.9), mode, align_corners=False)
    yield make.args(make(1, 2, 3, 4, 2), make(1, 2, 2, 2, 3, low=-0.9, high=0.9), align_corners=True)
    yield make.args(make(2, 1, 4, 5), make(2, 3, 2, 2), padding_mode="reflection", align_corners=False)
    yield make.args(make(2, 1, 4, 5), make(2, 3, 2, 2), padding_mode="border", align_corners=False)


@grid_sample.errors
def grid_sample_errors(make):
    yield ValueError, "expected mode to be", make.args(make(1, 1, 2, 2), make(1, 1, 1, 2), "cubic")
    yield RuntimeError, "same batch size", make.args(make(1, 1, 2, 2), make(2, 1, 1, 2), align_corners=False)


_NUMBERS = {"interpolation_mode": "int", "padding_mode": "int"}


def _numbered(name):
    """Declare the form of `grid_sample` that takes its modes as numbers."""

    def sampler(F, input, grid, interpolation_mode, padding_mode, align_corners):
        _check(input, grid, _MODES[interpolation_mode])
        return _sample(F, input, grid, _MODES[interpolation_mode], _PADDINGS[padding_mode], align_corners)

    shape = "1, 1, 2, 2, 2" if name.endswith("3d") else "1, 1, 2, 2"
    centre = shape.replace("2", "1")[:-1] + ("3" if name.endswith("3d") else "2")
    sampler.__doc__ = f"""`nn.functional.grid_sample`, its modes given by their numbers.

    `interpolation_mode` is 0 bilinear, 1 nearest, 2 bicubic; `padding_mode` is 0 zeros, 1 border, 2 reflection.

    >>> import plugrad as torch
    >>> torch.{name}(torch.ones({shape}), torch.zeros({centre}), 0, 0, False).item()
    1.0
    """
    record = composite(fresh=True, name=name, at=(name,), autocast=_AUTOCAST, kinds=_NUMBERS)(sampler)

    @record.samples
    def sampler_samples(make):
        shape = (1, 2, 3, 4, 3) if name.endswith("3d") else (1, 2, 3, 4)
        yield make.args(make(*shape), make(*(1,) * (len(shape) - 1), len(shape) - 2, low=-0.9, high=0.9), 0, 0, False)

    return record


grid_sampler, grid_sampler_2d, grid_sampler_3d = map(_numbered, ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"))


@composite(fresh=True, at=("affine_grid_generator",))
def affine_grid_generator(F, theta, size, align_corners):
    """`nn.functional.affine_grid`, without its checks.

    >>> import plugrad as torch
    >>> torch.affine_grid_generator(torch.eye(2, 3)[None], (1, 1, 1, 1), True)
    tensor([[[[0., 0.]]]])
    """
    n, sizes = size[0] if len(size) else 0, size[2:]
    if len(sizes) not in (2, 3):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs: (N, C, H, W) for one")
    parts = []
    for i, count in enumerate(sizes):
        steps = F.to(plugrad.arange(count, device=theta.device), theta.dtype)
        if align_corners:
            places = steps * (2 / max(count - 1, 1)) - int(count > 1)
        else:
            places = (2 * steps + (1 - count)) / count
        shape = tuple(count if j == i else 1 for j in range(len(sizes)))
        parts.insert(0, F.expand(F.reshape(places, shape), tuple(sizes)))
    base = F.reshape(F.stack([*parts, F.ones_like(parts[0])], -1), (1, prod(sizes), len(sizes) + 1))
    return F.reshape(F.matmul(base, F.transpose(theta, 1, 2)), (n, *sizes, len(sizes)))


@composite(fresh=True, at=("nn.functional.affine_grid",))
def affine_grid(F, theta, size, align_corners=None):
    """The grid for `grid_sample` whose points are affine maps of a regular one.

    `theta` (N, 2, 3) holds matrices for images of `size` (N, C, H, W), or (N, 3, 4) for volumes (N, C, D, H, W).
    Raises `ValueError` for other shapes, `NotImplementedError` for other numbers of dimensions.

    >>> import plugrad as torch
    >>> torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    align_corners = _align(align_corners)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    rows = len(size) - 2
    if tuple(theta.shape[1:]) != (rows, rows + 1):
        raise ValueError(
            f"Expected a batch of {rows}D affine matrices of shape Nx{rows}x{rows + 1} for size {size}. "
            f"Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return F.affine_grid_generator(theta, tuple(size), align_corners)


@affine_grid_generator.samples
@affine_grid.samples
def affine_grid_samples(make):
    yield make.args(make(2, 2, 3), (2, 1, 3, 4), False)
    yield make.args(make(1, 3, 4), (1, 1, 2, 3, 2), True)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
