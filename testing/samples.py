"""Sample inputs of ops: what an op's author yields, and what its family implies.

An op's samples function gets `make`, a factory of seeded random tensors, and yields for each sample a tensor
(the one argument), a tuple (the positional arguments) or ``make.args(...)`` (keyword arguments as well)::

    @huber.samples
    def huber_samples(make):
        yield make(3, 4), make(4)
        yield make.args(make(5), make(5), delta=0.5)
"""

from __future__ import annotations

import zlib

import numpy

import plugrad
from plugrad.testing.tensors import is_float_dtype, map_tensors, tensors_in

MARGIN = 0.05  # random floats keep this far from whole and half numbers, where most kinks and jumps are


class Sample:
    """The arguments of one call; `through(function, *args, **kwargs)` may make it."""

    __slots__ = ("args", "kwargs", "through")

    def __init__(self, args=(), kwargs=None, through=None):
        self.args, self.kwargs, self.through = tuple(args), dict(kwargs or {}), through

    def call(self, function):
        """Return what `function` gives for the sample."""
        if self.through is not None:
            return self.through(function, *self.args, **self.kwargs)
        return function(*self.args, **self.kwargs)

    def tensors(self) -> list:
        """Return the tensors among the arguments, from left to right."""
        return tensors_in((self.args, self.kwargs))

    def map(self, change) -> Sample:
        """Return the sample with ``change(tensor)`` in place of each tensor."""
        return Sample(map_tensors(self.args, change), map_tensors(self.kwargs, change), self.through)

    def detached(self) -> Sample:
        """Return the sample with tensors that are recorded nowhere."""
        return self.map(lambda t: t.detach())

    def copied(self) -> Sample:
        """Return the sample with copies of its tensors, leaves of their own."""
        return self.map(lambda t: t.detach().clone().requires_grad_(t.requires_grad))

    def __repr__(self):
        shown = [_shown(value) for value in self.args]
        return f"Sample({', '.join(shown + [f'{name}={_shown(value)}' for name, value in self.kwargs.items()])})"


def _shown(value) -> str:
    if isinstance(value, plugrad.Tensor):
        return f"{str(value.dtype).rsplit('.', 1)[-1]}{list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


class Maker:
    """The `make` of samples functions: random tensors, the same ones for the same name.

    Args:
        name: what to seed by, usually that of the op.
        dtype, device: of the tensors; float64 on the CPU by default.
        seed: another one gives other values.

    >>> make = Maker("doc")
    >>> make(2, 3).shape, make.ints(4, low=0, high=3).dtype, make.bool(2).dtype
    (torch.Size([2, 3]), torch.int64, torch.bool)
    """

    __slots__ = ("random", "dtype", "device")

    def __init__(self, name="", dtype=None, device="cpu", *, seed=0):
        named = zlib.crc32(name.encode())
        self.random = numpy.random.default_rng((named, seed) if seed else named)
        self.dtype, self.device = dtype or plugrad.float64, device

    def __call__(self, *shape, low=None, high=None, dtype=None, requires_grad=True, noncontiguous=False):
        """Return a tensor of random values in [low, high], by default [-2, 2] (integers [-5, 5]).

        Floats stay `MARGIN` away from multiples of a half where the interval has room for that.
        `requires_grad` only concerns dtypes that can; a `noncontiguous` tensor is a transposed or strided
        view.
        """
        dtype = getattr(plugrad, dtype) if isinstance(dtype, str) else dtype or self.dtype
        floating = is_float_dtype(dtype)
        shape = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        drawn = (*shape[:-1], 2 * shape[-1]) if noncontiguous and shape else shape
        if dtype is plugrad.bool:
            values = self.random.random(drawn) < 0.5
        elif not floating:
            least = 0 if not dtype.is_signed else -5
            values = self.random.integers(least if low is None else low, 6 if high is None else high, drawn)
        else:
            values = self._floats(drawn, low, high)
            if dtype.is_complex:
                values = values + 1j * self._floats(drawn, low, high)
        tensor = plugrad.from_numpy(numpy.array(values)).to(dtype).to(self.device)
        if noncontiguous and shape:
            tensor = tensor[..., ::2]
        return tensor.requires_grad_() if requires_grad and floating else tensor

    def _floats(self, shape, low, high):
        low, high = -2.0 if low is None else float(low), 2.0 if high is None else float(high)
        values = self.random.uniform(low, high, shape)
        if high - low < 2:
            return values
        nearest = numpy.round(2 * values) / 2
        side = numpy.where(values >= nearest, 1.0, -1.0)
        moved = numpy.where(numpy.abs(values - nearest) < MARGIN, nearest + side * MARGIN, values)
        return numpy.where((moved < low) | (moved > high), values, moved)

    def ints(self, *shape, low=0, high=3):
        """Return an int64 tensor of random whole numbers from `low` to below `high`."""
        return self(*shape, low=low, high=high, dtype=plugrad.int64)

    def bool(self, *shape):
        """Return a random bool tensor."""
        return self(*shape, dtype=plugrad.bool)

    @staticmethod
    def args(*args, **kwargs) -> Sample:
        """Return a sample with keyword arguments."""
        return Sample(args, kwargs)

    @staticmethod
    def through(wrap, *args, **kwargs) -> Sample:
        """Return a sample that calls the op as ``wrap(function, *args, **kwargs)``.

        For ops with gradients along some directions only: `wrap` may make a matrix symmetric, or leave out what is
        arbitrary in a result.
        """
        return Sample(args, kwargs, wrap)

    @staticmethod
    def on_copy(*args, **kwargs) -> Sample:
        """Return a sample for an op that writes into its first argument: it is called on a clone of that."""
        return Sample(args, kwargs, _on_copy)


def _on_copy(function, input, *args, **kwargs):
    return function(input.clone(), *args, **kwargs)


def as_sample(value) -> Sample:
    """Return what a samples function yielded as a Sample."""
    if isinstance(value, Sample):
        return value
    return Sample(value if isinstance(value, tuple) and not hasattr(value, "_fields") else (value,))


def samples_of(op, dtype=None, device="cpu", *, seed=0) -> list:
    """Return the samples of an op: its own, or those of its family, or none.

    Args:
        op: the op record.
        dtype: of the tensors that samples functions make without saying; float64 by default.
        device: of all tensors; the CPU by default, where a samples function may say another.
        seed: of the random values; each gives samples of the same shapes with other values.
    """
    make = Maker(op.name, dtype, device, seed=seed)
    source = op.sample_function or FAMILIES.get(op.family)
    if source is None or (op.sample_function is None and _asks_more(op)):
        return []
    values = source(make) if op.sample_function else source(make, op)
    return [on_device(as_sample(value), device) for value in values]


def on_device(sample, device) -> Sample:
    """Return a sample whose tensors on the CPU, such as an index that is written down, are on a device."""
    if plugrad.device(device).type == "cpu":
        return sample
    moved: dict = {}

    def move(tensor):
        if tensor.device.type != "cpu":
            return tensor
        if id(tensor) not in moved:
            moved[id(tensor)] = tensor.detach().to(device).requires_grad_(tensor.requires_grad)
        return moved[id(tensor)]

    return sample.map(move)


def _asks_more(op) -> bool:
    """Whether an op has parameters without default of which its family knows nothing."""
    known = (*getattr(op, "tensors", op.parameters[:1]), *op.defaults, "dim")
    return any(name not in known for name in op.parameters)


def inside(op):
    """Return keyword arguments of `make` that keep a tensor inside an op's domain."""
    if op.promote == "int":
        return {"dtype": plugrad.int64, "low": 0, "high": 9}
    if op.domain is None:
        return {}
    low, high = op.domain
    if low is not None and high is not None:
        inset = 0.05 * (high - low)
        return {"low": low + inset, "high": high - inset}
    return {"low": low + 0.1, "high": low + 3.0} if low is not None else {"low": high - 3.0, "high": high - 0.1}


def _unary(make, op):
    bounds = inside(op)
    yield make(3, 4, **bounds)
    yield make(**bounds)
    yield make(2, 3, noncontiguous=True, **bounds)


def _binary(make, op):
    bounds = inside(op)
    yield make(3, 4, **bounds), make(3, 4, **bounds)
    yield make(3, 4, **bounds), make(4, **bounds)
    yield make(3, 1, **bounds), make(**bounds)


def _elementwise(make, op):
    bounds, count = inside(op), len(getattr(op, "tensors", ())) or 1
    yield tuple(make(3, 4, **bounds) for _ in range(count))
    yield tuple(make(*((3, 4), (4,), (3, 1))[i % 3], **bounds) for i in range(count))


def _reduction(make, op):
    bounds = inside(op)
    options = [name for name in ("dim", "keepdim") if name in op.parameters]
    required = "dim" in op.parameters and "dim" not in op.defaults
    if not required:
        yield make(3, 4, **bounds)
        yield make(**bounds)
    if "dim" in options:
        yield make.args(make(3, 4, **bounds), dim=1)
        if "keepdim" in options:
            yield make.args(make(2, 3, 4, **bounds), dim=-2, keepdim=True)


FAMILIES = {"unary": _unary, "binary": _binary, "elementwise": _elementwise, "reduction": _reduction}
