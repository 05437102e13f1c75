"""Convolutions and their gradients by kernels in CUDA C++."""

from __future__ import annotations

import functools
import pathlib
from math import prod

import numpy

import plugrad
from plugrad.extend import is_channels_last, load_inline

from . import _cudnn

PLAN = numpy.dtype([
    *[(name, "i4", 3) for name in ("image", "small", "kernel", "stride", "low", "dilation")],
    *[(name, "i4") for name in ("batch", "groups", "inner", "outer", "taps", "parts")],
    ("x_n", "i8"), ("x_c", "i8"), ("x_at", "i8", 3), ("y_n", "i8"), ("y_c", "i8"), ("y_at", "i8", 3),
])  # fmt: skip
_plainly = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("convolution.cu"), per="block",
    types="floating",
)  # fmt: skip
_load = functools.partial(_plainly, struct=PLAN.itemsize)
FLOAT32 = numpy.dtype("float32")
TILES = (64, 32, 16)  # rows of a tile: not more than needed, for few channels


def _in_tiles(name, **options):
    return {rows: _load(name=name, flags=(f"-DPG_ROWS={rows}",), **options) for rows in TILES}


forward = _in_tiles("convolve", arrays=4, numbers=1)
back = _in_tiles("convolve_back", arrays=4, numbers=1)
weight_grad = _in_tiles("convolve_weight", arrays=4, wide=(3,))
join = _plainly(name="convolve_join", arrays=2, numbers=1, wide=(1,))
sums = _plainly(name="channel_totals", arrays=3, numbers=5, wide=(2,))
columns = _load(name="columns", arrays=2, numbers=4)
columns_back = _load(name="columns_back", arrays=3, numbers=3)
depthwise = _load(name="depthwise", arrays=4, numbers=1)
depthwise_back = _load(name="depthwise_back", arrays=4, numbers=1)
depthwise_weight = _load(name="depthwise_weight", arrays=4, wide=(3,))

COLUMNS, DEPTH, THREADS, TAPS = 64, 16, 256, 9
BUSY = 264  # blocks that keep a large card busy
LEAST = 8 * DEPTH  # of a sum's terms in one of its parts
LONG = 32  # steps of a tile, one after the other, for which products by cuBLAS are faster
WORKSPACE = 256 << 20  # bytes for what is laid out for these


def _up(value, step):
    return -(-value // step)


def _steps(shape, channels_last):
    """Return how far in memory images, channels, and the elements along three axes are apart."""
    sizes = (shape[0], *shape[2:], shape[1]) if channels_last else tuple(shape)
    steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if channels_last:
        steps = [steps[0], steps[-1], *steps[1:-1]]
    return steps[0], steps[1], [0] * (5 - len(shape)) + steps[2:]


class Plan:
    """What kernels are told of a convolution from images of a shape to results of another, and their grids."""

    __slots__ = (
        "struct", "rows", "forward", "back", "weight", "parts", "is_depthwise", "scratch", "deep", "windows",
        "elements", "is_plain", "batch", "groups", "inner", "outer", "x_last", "y_last", "long",
    )  # fmt: skip

    def __init__(self, geometry, large, small, kernel, x_last, y_last):
        g, n, groups = geometry, len(kernel), geometry.groups
        inner, outer, taps = large[1] // groups, small[1] // groups, prod(kernel)
        struct = numpy.zeros((), PLAN)
        for name, values, other in (
            ("image", large[2:], 1), ("small", small[2:], 1), ("kernel", kernel, 1), ("stride", g.stride, 1),
            ("low", g.padding, 0), ("dilation", g.dilation, 1),
        ):  # fmt: skip
            struct[name] = [other] * (3 - n) + list(values)
        for name, shape, last in (("x", large, x_last), ("y", small, y_last)):
            for part, value in zip(("_n", "_c", "_at"), _steps(shape, last)):
                struct[name + part] = value
        windows, elements = small[0] * prod(small[2:]), large[0] * prod(large[2:])
        self.is_depthwise = inner == 1
        self.batch, self.groups, self.inner, self.outer, self.x_last, self.y_last = (
            large[0], groups, inner, outer, x_last, y_last
        )  # fmt: skip
        self.deep, self.windows, self.elements = inner * taps, prod(small[2:]), prod(large[2:])
        self.is_plain = taps == max(g.stride) == 1 and not any(g.padding) and large[2:] == small[2:]
        self.long = {}
        if self.is_depthwise:
            self.rows, tiles = None, (_up(taps, TAPS), groups * outer)
            self.parts = max(1, min(4 * BUSY // prod(tiles), windows // (8 * THREADS)))
            self.forward, self.back = _up(windows * groups * outer, THREADS), _up(elements * groups, THREADS)
            self.weight = *tiles, self.parts
        else:
            self.rows = {side: _rows(count) for side, count in (("outer", outer), ("inner", inner))}
            self.forward = _up(windows, COLUMNS), groups * _up(outer, self.rows["outer"])
            self.back = _up(elements, COLUMNS), groups * _up(inner, self.rows["inner"])
            tiles = _up(inner * taps, COLUMNS), groups * _up(outer, self.rows["outer"])
            self.parts = max(1, min(BUSY // prod(tiles), windows // LEAST))
            self.weight = *tiles, self.parts
            for side, blocks, terms in (
                ("forward", self.forward, self.deep), ("back", self.back, outer * taps),
                ("weight", self.weight, _up(windows, self.parts)),
            ):  # fmt: skip
                self.long[side] = _up(terms, DEPTH) * _up(prod(blocks), BUSY) > LONG
        self.scratch = self.parts, groups * outer, inner, *kernel
        for name, value in {
            "batch": large[0], "groups": groups, "inner": inner, "outer": outer, "taps": taps, "parts": self.parts
        }.items():  # fmt: skip
            struct[name] = value
        self.struct = struct.tobytes()


def _rows(count):
    return next(rows for rows in TILES if rows == TILES[-1] or count > rows // 2)


_plan = functools.lru_cache(maxsize=4096)(Plan)


@functools.lru_cache(maxsize=4096)
def _prepared(geometry, input, weight, in_last, last):
    """Return the plan for two shapes, the shape of the result, the kernel and its grid; None for no elements."""
    channels = weight[1] * geometry.groups if geometry.transposed else weight[0]
    shape = input[0], channels, *geometry.result_size(input[2:], weight[2:])
    if 0 in (*shape, *input, *weight):
        return None
    if geometry.transposed:
        plan = _plan(geometry, shape, input, weight[2:], last, in_last)
        kernel = depthwise_back if plan.is_depthwise else back[plan.rows["inner"]]
        return plan, shape, kernel, plan.back, plan.long.get("back")
    plan = _plan(geometry, input, shape, weight[2:], in_last, last)
    kernel = depthwise if plan.is_depthwise else forward[plan.rows["outer"]]
    return plan, shape, kernel, plan.forward, plan.long.get("forward")


def _channels_last(array):
    return not array._c_contiguous and is_channels_last(array.shape, array.strides)


def _laid_out(xp, array, channels_last):
    """Return an array in C order, whose channels are its last dimension or where they were."""
    if channels_last:
        array = array.transpose((0, *range(2, array.ndim), 1))
    return array if array._c_contiguous else xp.ascontiguousarray(array)


def _empty(xp, shape, dtype, channels_last):
    """Return a new array in C order, and it as images."""
    if not channels_last:
        array = xp.ndarray(shape, dtype)
        return array, array
    array = xp.ndarray((shape[0], *shape[2:], shape[1]), dtype)
    return array, array.transpose((0, array.ndim - 1, *range(1, array.ndim - 1)))


def choices():
    """Return what `plugrad why` says of the kernels, first choice first."""
    return [
        "small ones, and those with one channel in a group: kernels in CUDA C++, nothing is laid out",
        f"large ones: cuDNN: {_cudnn.state()}",
        "large ones else: products by cuBLAS, of columns that a kernel in CUDA C++ lays out",
    ]


def _images(array, channels_last):
    """Return an array in C order as images again."""
    return array.transpose((0, array.ndim - 1, *range(1, array.ndim - 1))) if channels_last else array


def _by_cudnn(xp, kind, geometry, first, second, out):
    """Whether cuDNN has set `out`; arrays are as `_cudnn.convolve` wants them. Filters lie in memory as images do."""
    if _cudnn.switches() is None:
        return False
    if kind != "wgrad" and _channels_last(first):
        second = _images(_laid_out(xp, second, True), True)
    return _cudnn.convolve(xp, kind, geometry, (first, second), out)


def _chunks(xp, plan, itemsize):
    """Return how many images' columns fit in the workspace; 0 where those of one do not."""
    each = plan.groups * plan.deep * plan.windows * itemsize
    return plan.batch if plan.is_plain else min(plan.batch, WORKSPACE // max(1, each))


def _is_short():
    return plugrad.backends.cudnn.allow_tf32


def _matrices(array, of, at, group):
    """Return one group's matrices of images [at, ...), rows of channels or, where these are innermost, of elements."""
    plan, channels, length, last = of
    first = at * plan.groups * channels * length
    if last:
        return array, first + group * channels, plan.groups * channels, True, plan.groups * channels * length
    return array, first + group * channels * length, length, False, plan.groups * channels * length


def _by_products(xp, plan, x, weight, y, bias):
    """Set `y` to the convolution of `x`; False where that can't be done."""
    chunk, done = _chunks(xp, plan, x.itemsize), True
    if not chunk:
        return False
    rows = plan.groups * plan.deep
    for at in range(0, plan.batch, chunk):
        count = min(chunk, plan.batch - at)
        if plan.is_plain:
            parts = x, at, (plan, plan.inner, plan.windows, plan.x_last)
        else:
            laid = xp.empty((count, rows, plan.windows), x.dtype)
            threads = count * plan.groups * plan.inner * plan.windows
            numbers = at, count, rows * plan.windows, plan.windows
            columns(x, laid, plan.struct, *numbers, blocks=_up(threads, THREADS))
            parts = laid, 0, (plan, plan.deep, plan.windows, False)
        for group in range(plan.groups):
            right = _matrices(parts[0], parts[2], parts[1], group)
            left = weight, group * plan.outer * plan.deep, plan.deep, False, 0
            out = _matrices(y, (plan, plan.outer, plan.windows, plan.y_last), at, group)
            if plan.y_last:  # the product's transposed is in memory
                left, right = (*right[:3], not right[3], right[4]), (*left[:3], True, 0)
                sizes = plan.windows, plan.outer, plan.deep, count
            else:
                sizes = plan.outer, plan.windows, plan.deep, count
            done = done and xp.products_in_place(sizes, left, right, out, short=_is_short())
    if done and bias is not None:
        y += bias if plan.y_last else bias.reshape(-1, *(1,) * (y.ndim - 2))
    return done


def _back_by_products(xp, plan, y, weight, x, bias):
    """Set `x` to the adjoint of the convolution of `y`; False where that can't be done."""
    chunk, done = _chunks(xp, plan, x.itemsize), True
    if not chunk or plan.is_plain and plan.x_last:
        return False
    rows = plan.groups * plan.deep
    for at in range(0, plan.batch, chunk):
        count = min(chunk, plan.batch - at)
        laid, first = (x, at) if plan.is_plain else (xp.empty((count, rows, plan.windows), x.dtype), 0)
        for group in range(plan.groups):
            left = weight, group * plan.outer * plan.deep, plan.deep, True, 0
            right = _matrices(y, (plan, plan.outer, plan.windows, plan.y_last), at, group)
            out = _matrices(laid, (plan, plan.deep, plan.windows, False), first, group)
            sizes = plan.deep, plan.windows, plan.outer, count
            done = done and xp.products_in_place(sizes, left, right, out, short=_is_short())
        if not plan.is_plain:
            threads, given = count * plan.groups * plan.inner * plan.elements, bias is not None
            part = weight if bias is None else bias
            columns_back(laid, x, part, plan.struct, at, count, given, blocks=_up(threads, THREADS))
    if done and plan.is_plain and bias is not None:
        x += bias.reshape(-1, *(1,) * (x.ndim - 2))
    return done


def _weight_by_products(xp, plan, y, x, out):
    """Set `out` to the correlation of `y` with `x`; False where that can't be done."""
    chunk, done = _chunks(xp, plan, x.itemsize), True
    if not chunk or chunk < plan.batch and x.itemsize == 2:  # sums of half precision are not to be rounded on the way
        return False
    rows = plan.groups * plan.deep
    for at in range(0, plan.batch, chunk):
        count = min(chunk, plan.batch - at)
        row = count * plan.windows
        laid = xp.empty((rows, row), x.dtype)
        threads = count * plan.groups * plan.inner * plan.windows
        columns(x, laid, plan.struct, at, count, plan.windows, row, blocks=_up(threads, THREADS))
        part = y[at : at + count]
        if not plan.y_last:
            part = xp.ascontiguousarray(part.reshape(count, -1, plan.windows).swapaxes(0, 1))
        for group in range(plan.groups):
            if plan.y_last:
                left = part, group * plan.outer, plan.groups * plan.outer, True, 0
            else:
                left = part, group * plan.outer * row, row, False, 0
            right = laid, group * plan.deep * row, row, True, 0
            to = out, group * plan.outer * plan.deep, plan.deep, False, 0
            sizes = plan.outer, plan.deep, row, 1
            done = done and xp.products_in_place(sizes, left, right, to, more=at > 0, short=_is_short())
    return done


def convolve(xp, input, weight, bias, geometry):
    """Return the convolution, plain or transposed; NotImplemented for no elements and for other types."""
    in_last, transposed = _channels_last(input), geometry.transposed
    last = in_last or _channels_last(weight)
    prepared = _prepared(geometry, input.shape, weight.shape, in_last, last)
    if prepared is None or weight.dtype != input.dtype or bias is not None and bias.dtype != input.dtype:
        return NotImplemented
    plan, shape, kernel, blocks, is_long = prepared
    out, result = _empty(xp, shape, input.dtype, last)
    input, weight = _laid_out(xp, input, in_last), _laid_out(xp, weight, False)
    if bias is not None:
        bias = _laid_out(xp, bias, False)
    if is_long:
        kind = "dgrad" if transposed else "fprop"
        if _by_cudnn(xp, kind, geometry, _images(input, in_last), weight, result):
            if bias is not None:
                result += bias.reshape(-1, *(1,) * (result.ndim - 2))
            return result
        if (_back_by_products if transposed else _by_products)(xp, plan, input, weight, out, bias):
            return result
    given = bias is not None
    done = kernel(input, weight, out, bias if given else weight, plan.struct, given, blocks=blocks)
    return result if done is None else done


def _joined(xp, shape, dtype):
    """Return memory for sums in parts."""
    return xp.ndarray(shape, FLOAT32 if dtype.itemsize == 2 else dtype)


def convolve_weight(xp, small, large, kernel, geometry):
    """Return the gradient of a convolution in its weight; NotImplemented for other types."""
    x_last, y_last = _channels_last(large), _channels_last(small)
    plan = _plan(geometry, large.shape, small.shape, kernel, x_last, y_last)
    x, y = _laid_out(xp, large, x_last), _laid_out(xp, small, y_last)
    out = xp.ndarray(plan.scratch[1:], large.dtype)
    if plan.long.get("weight"):
        if _by_cudnn(xp, "wgrad", geometry, _images(x, x_last), _images(y, y_last), out):
            return out
        if _weight_by_products(xp, plan, y, x, out):
            return out
    joined = _joined(xp, plan.scratch if plan.parts > 1 else (1,), large.dtype)
    kernel = depthwise_weight if plan.is_depthwise else weight_grad[plan.rows["outer"]]
    done = kernel(y, x, out, joined, plan.struct, blocks=plan.weight)
    if plan.parts > 1:
        done = done or join(out, joined, plan.parts, blocks=_up(out.size, THREADS))
    return out if done is None else done


def channel_sum(xp, input):
    """Return the sum of (N, C, *S) over all dimensions but the second; NotImplemented for other types."""
    last = _channels_last(input)
    n, c, _ = _steps(input.shape, last)
    length = prod(input.shape[2:])
    out = xp.ndarray(input.shape[1:2], input.dtype)
    numbers = input.shape[0], n, c, length, input.shape[1] if last else 1
    channels = input.shape[1]
    parts = max(1, min(2 * BUSY // channels, input.size // (channels * 8 * THREADS)))
    joined = _joined(xp, (parts, channels), input.dtype)
    done = sums(_laid_out(xp, input, last), out, joined, *numbers, blocks=(channels, parts))
    if parts > 1:
        done = done or join(out, joined, parts, blocks=_up(channels, THREADS))
    return out if done is None else done
