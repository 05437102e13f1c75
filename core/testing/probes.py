"""The checks of elementwise ops and reductions that need inputs of their own: shapes, extreme values,
dtypes."""

from __future__ import annotations

import numpy

import plugrad

from .calls import Skip, agree, call
from .samples import Maker, Sample, inside, samples_of
from .structure import is_float, tensors_in

SHAPES = ((), (0,), (2, 0, 3), (1,), (1, 1), (5,))
PAIRS = (((3, 4), (4,)), ((3, 1), (1, 4)), ((3, 4), ()), ((), (2,)), ((0, 3), (1,)), ((2, 1, 3), (4, 1)))
EXTREMES = (0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, -1e300, 1.7e308, numpy.inf, -numpy.inf, numpy.nan)
DTYPES = ("bool", "uint8", "int16", "int64", "float16", "float32", "float64", "complex64")


def _operands(op):
    """Return how many tensors an elementwise op takes, and the sample whose other arguments it is run
    with."""
    for sample in samples_of(op):
        count = 0
        while count < len(sample.args) and isinstance(sample.args[count], plugrad.Tensor):
            count += 1
        if (
            count
            and all(is_float(t) for t in sample.args[:count])
            and not tensors_in((sample.args[count:], sample.kwargs))
        ):
            return count, sample
    raise Skip("no sample is made of float tensors alone")


def _with(sample, count, tensors):
    return Sample((*tensors, *sample.args[count:]), sample.kwargs)


def shapes(op, device):
    """0-d, empty, size-1 and broadcast inputs: each element of the result is the op on those elements."""
    if getattr(op, "broadcasts", True) is False:
        raise Skip("the op does not broadcast")
    count, sample = _operands(op)
    make = Maker(op.name + " shapes", device=device)
    for shape in SHAPES if count == 1 else (*PAIRS, *((s, s) for s in SHAPES)):
        given = (shape,) if count == 1 else tuple(shape[i % 2] for i in range(count))
        tensors = [make(*one, **inside(op)) for one in given]
        expected = numpy.broadcast_shapes(*given)
        result = call(op, _with(sample, count, tensors))
        label = f"inputs of shapes {', '.join(map(str, given))}"
        assert tuple(result.shape) == expected, (
            f"{label}: the result has shape {tuple(result.shape)}, not {expected}"
        )
        if 0 in expected:
            continue
        spread = [numpy.broadcast_to(t.detach().cpu().numpy(), expected) for t in tensors]
        for index in numpy.ndindex(expected):
            single = [plugrad.from_numpy(numpy.array(array[index])).to(device) for array in spread]
            alone = call(op, _with(sample, count, single))
            agree(
                result.detach()[index],
                alone.detach(),
                f"{label}, element {index} against the 0-d call",
                rtol=1e-9,
            )
        if result.requires_grad:
            grads = plugrad.autograd.grad(
                result.sum() if is_float(result) else result, tensors, allow_unused=True
            )
            for number, (g, t) in enumerate(zip(grads, tensors, strict=True)):
                assert g is None or g.shape == t.shape, (
                    f"{label}: the gradient of input {number} has shape {tuple(g.shape)}"
                )


def extremes(op, device):
    """Zeros, infinities, nan, smallest and largest numbers neither raise nor warn."""
    count, sample = _operands(op)
    for dtype in (plugrad.float64, plugrad.float32):
        with numpy.errstate(all="ignore"):
            values = numpy.array(EXTREMES).astype("float32" if dtype is plugrad.float32 else "float64")
        columns = [numpy.roll(values, 2 * i) for i in range(count)]
        tensors = [plugrad.from_numpy(v.copy()).to(device).requires_grad_() for v in columns]
        if op.family == "reduction":
            tensors = [t.detach().reshape(-1, 1).expand(-1, 3).clone().requires_grad_() for t in tensors]
        result = call(op, _with(sample, count, tensors))
        outputs = [y for y in tensors_in(result) if is_float(y) and y.requires_grad]
        if outputs:
            plugrad.autograd.grad(
                outputs, tensors, [plugrad.ones_like(y) for y in outputs], allow_unused=True
            )


def promotion(op, device):
    """The dtype of the result is the one that `plugrad.result_type` and the op's `promote` say."""
    count, sample = _operands(op)
    make = Maker(op.name + " dtypes", device=device)
    for given in _dtype_choices(count):
        tensors = [make(3, dtype=dtype, requires_grad=False, **_bounds(op, dtype)) for dtype in given]
        _check_dtype(op, _with(sample, count, tensors), tensors, ", ".join(map(str, given)))
    if count == 2:
        for dtype in map(_dtype, ("int64", "float32", "float64")):
            first = make(3, dtype=dtype, requires_grad=False, **_bounds(op, dtype))
            second = make(dtype=plugrad.float64, requires_grad=False, **inside(op))
            _check_dtype(
                op, _with(sample, count, [first, second]), [first, second], f"{dtype}, 0-d torch.float64"
            )


def _dtype(name):
    return getattr(plugrad, name)


def _dtype_choices(count):
    if count == 1:
        return [(_dtype(name),) for name in DTYPES]
    pairs = [(_dtype(one), _dtype(other)) for one in DTYPES for other in DTYPES]
    return [tuple(pair[i % 2] for i in range(count)) for pair in pairs]


def _bounds(op, dtype):
    """Return an interval of numbers that any op takes: inside the domain for floats, small and positive
    else."""
    return (
        inside(op) if is_float_dtype(dtype) else {"low": 0, "high": 1} if op.domain else {"low": 1, "high": 3}
    )


def is_float_dtype(dtype) -> bool:
    """Whether a dtype is one of floats or complex numbers."""
    return dtype.is_floating_point or dtype.is_complex


def _promoted_numbers(op, sample):
    """Return the Python numbers of a sample that take part in promotion."""
    named = {**dict(zip(op.parameters, sample.args, strict=False)), **sample.kwargs}
    chosen = [named.get(op.parameters[i]) for i in getattr(op, "promoted", ())]
    return [number for number in chosen if isinstance(number, (int, float, complex))]


def _check_dtype(op, sample, tensors, label):
    common = tensors[0].dtype
    if len(tensors) > 1:
        common = plugrad.result_type(tensors[0], tensors[1])
    for number in _promoted_numbers(op, sample):
        common = plugrad.result_type(plugrad.ones(1, dtype=common), number)
    try:
        result = call(op, sample)
    except (NotImplementedError, RuntimeError, TypeError) as error:
        plain = common in (plugrad.float32, plugrad.float64)
        if plain and op.promote != "int" and all(is_float_dtype(t.dtype) for t in tensors):
            raise AssertionError(f"dtypes {label}: {type(error).__name__}: {error}") from error
        return  # an op may refuse bools, integers, half precision or complex numbers
    expected = {"bool": plugrad.bool}.get(op.promote, common)
    if op.promote == "float" and not is_float_dtype(common):
        expected = plugrad.get_default_dtype()
    real = common.is_complex and result.dtype is common.to_real()  # abs, angle, real: told by the kernel
    assert result.dtype is expected or real, (
        f"dtypes {label}: the result is {result.dtype}, expected is {expected}"
    )
