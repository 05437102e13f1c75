"""The checks of elementwise ops and reductions that need inputs of their own: shapes, dtypes, extreme values."""

from __future__ import annotations

from contextlib import suppress

import numpy

import plugrad
from plugrad.testing.calls import Skip, agree, call
from plugrad.testing.op_checks.references import reference
from plugrad.testing.samples import Maker, Sample, inside, samples_of
from plugrad.testing.tensors import (
    differentiable,
    gradients_of_sum,
    is_float,
    is_float_dtype,
    map_tensors,
    tensors_in,
    to_numpy,
)

SHAPES = ((), (0,), (2, 0, 3), (1,), (1, 1), (5,), (1, 3), (1, 2, 1, 2, 2))
PAIRS = (((3, 4), (4,)), ((3, 1), (1, 4)), ((3, 4), ()), ((), (2,)), ((0, 3), (1,)), ((2, 1, 3), (4, 1)))
EXTREMES = (0.0, -0.0, 1.0, -1.0, 1e-12, -1e-12, 5e-324, 1e-300, -1e300, 1.7e308, numpy.inf, -numpy.inf, numpy.nan)
LARGE = 70_000  # elements: more than any block or index of 16 bits
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64")


def operands(op):
    """Return how many tensors an elementwise op takes, and the sample whose other arguments it is run with."""
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


def with_tensors(sample, count, tensors):
    """Return a sample with other tensors in the places of the first `count` arguments."""
    return Sample((*tensors, *sample.args[count:]), sample.kwargs)


def large_sample(op, device, seed=0) -> Sample:
    """Return a sample of an elementwise op with many elements."""
    count, sample = operands(op)
    make = Maker(op.name + " large", device=device, seed=seed)
    low, high = (0.1, 0.9) if op.domain is None else op.domain
    low, high = (high - 1 if low is None else low), (low + 1 if high is None else high)
    return with_tensors(sample, count, [make(LARGE, low=low, high=high).detach() for _ in range(count)])


def shapes(op, device):
    """0-d, empty, size-1 and broadcast inputs: results and gradients are those of each element alone."""
    if getattr(op, "broadcasts", True) is False:
        raise Skip("the op does not broadcast")
    count, sample = operands(op)
    make = Maker(op.name + " shapes", device=device)
    for shape in SHAPES if count == 1 else (*PAIRS, *((s, s) for s in SHAPES)):
        given = (shape,) if count == 1 else tuple(shape[i % 2] for i in range(count))
        tensors = [make(*one, **inside(op)) for one in given]
        expected = numpy.broadcast_shapes(*given)
        result = call(op, with_tensors(sample, count, tensors))
        label = f"inputs of shapes {', '.join(map(str, given))}"
        assert tuple(result.shape) == expected, f"{label}: the result has shape {tuple(result.shape)}, not {expected}"
        if 0 in expected:
            continue
        grads = _slopes(result, tensors)
        for number, (g, t) in enumerate(zip(grads, tensors, strict=True)):
            assert g is None or g.shape == t.shape, (
                f"{label}: the gradient of input {number} has shape {tuple(g.shape)}"
            )
        spread = [numpy.broadcast_to(t.numpy(force=True), expected) for t in tensors]
        for index in numpy.ndindex(expected):
            single = [plugrad.from_numpy(numpy.array(array[index])).to(device).requires_grad_() for array in spread]
            alone = call(op, with_tensors(sample, count, single))
            where = f"{label}, element {index} against the 0-d call"
            agree(result.detach()[index], alone.detach(), where, rtol=1e-9)
            if len(set(given)) > 1 or None in grads:  # what broadcasts has the gradients of several elements
                continue
            for number, (g, other) in enumerate(zip(grads, _slopes(alone, single), strict=True)):
                agree(g[index], other, f"{where}, gradient of input {number}", rtol=1e-9)


def _slopes(result, tensors) -> list:
    """Return the gradients of a result's elements, None where there is none."""
    if not result.requires_grad or not result.is_floating_point():
        return [None] * len(tensors)
    return list(plugrad.autograd.grad(result.sum(), tensors, allow_unused=True))


def slices(op, device):
    """A reduction along a dimension is that of each row alone: in the middle, of size 1, and of a 0-d tensor."""
    make = Maker(op.name + " slices", device=device)
    x = make(2, 3, 4, **inside(op)).detach()
    options = other_options(op)
    whole = tensors_in(op.function(x, dim=1, **options))
    rows = [[tensors_in(op.function(x[i, :, k], dim=0, **options)) for k in range(4)] for i in range(2)]
    for number, result in enumerate(whole):
        assert tuple(result.shape) in ((2, 4), (2, 3, 4)), (
            f"result {number} of shape (2, 3, 4) along argument 'dim'=1 has shape {tuple(result.shape)}"
        )
        alone = plugrad.stack([plugrad.stack([row[number] for row in part]) for part in rows])
        result = result.movedim(1, 2) if result.ndim == 3 else result  # cumulative: the dimension is still there
        agree(result, alone, f"shape (2, 3, 4), argument 'dim'=1, result {number} against each row alone", rtol=1e-9)
    _several_at_once(op, x, options)
    for dim in (0, 1, -1) if "keepdim" in op.parameters else ():
        pairs = [tensors_in(op.function(x, dim=dim, keepdim=kept, **options)) for kept in (True, False)]
        for kept, plain in zip(*pairs, strict=True):
            agree(kept, plain.unsqueeze(dim), f"argument 'keepdim'=True, 'dim'={dim}, against False", rtol=1e-9)
    for shape in ((1,), (1, 1), ()):
        x = make(*shape, **inside(op)).detach()
        try:
            single = tensors_in(op.function(x, dim=-1, **options))
        except UserWarning:  # reported, as for the deviation of a single number
            continue
        flat = tensors_in(op.function(x.reshape(1), dim=0, **options))
        for one, other in zip(single, flat, strict=True):
            agree(one.reshape(other.shape), other, f"shape {shape}, argument 'dim'=-1, against shape (1,)")


def _several_at_once(op, x, options):
    """Assert that a reduction along two dimensions, where it takes them, is that of all their elements in a row."""
    for dims in ((0, 1), (-1, 0)):
        try:
            both = tensors_in(op.function(x, dim=dims, **options))
        except (TypeError, ValueError, RuntimeError, NotImplementedError):  # it takes one at a time
            return
        row = x.movedim(dims, (0, 1)).flatten(0, 1)
        for one, other in zip(both, tensors_in(op.function(row, dim=0, **options)), strict=True):
            if one.shape == other.shape:
                agree(one, other, f"argument 'dim'={dims} against all these elements in one dimension", rtol=1e-9)


def reduced_dtypes(op, device):
    """The dtype of a reduction's result is the one that its `promote` says."""
    make = Maker(op.name + " dtypes", device=device)
    options = other_options(op)
    if "dim" in op.parameters and "dim" not in op.defaults:
        options["dim"] = 1
    for dtype in map(_dtype, DTYPES):
        x = make(2, 3, dtype=dtype, requires_grad=False, **_bounds(op, dtype))
        try:
            result = tensors_in(op.function(x, **options))[0]
        except (NotImplementedError, RuntimeError, TypeError) as error:
            if dtype in (plugrad.float32, plugrad.float64):
                raise AssertionError(f"dtype {dtype}: {type(error).__name__}: {error}") from error
            continue  # an op may refuse bools, integers, half precision or complex numbers
        counted = {"int64": plugrad.int64, "float": plugrad.get_default_dtype()}.get(op.promote)
        expected = {"bool": plugrad.bool, "index": plugrad.int64, "bits": plugrad.uint64}.get(op.promote, dtype)
        if counted is not None and not is_float_dtype(dtype):
            expected = counted
        real = dtype.is_complex and result.dtype is dtype.to_real()  # norms: told by the kernel
        byte = op.promote == "bool" and result.dtype is dtype is plugrad.uint8  # as in PyTorch
        right = result.dtype is expected or real or byte
        advice = "; promote='float' has others computed in floats" * result.dtype.is_floating_point
        advice += "; promote='int64' says that bools and integers are counted" * (result.dtype is plugrad.int64)
        assert right, f"dtype {dtype}: the result is {result.dtype}, expected is {expected}{advice}"


def other_options(op) -> dict:
    """Return the arguments of a reduction besides the tensor, `dim` and `keepdim`, from a sample of a float tensor."""
    for sample in samples_of(op):
        named = {**dict(zip(op.parameters, sample.args, strict=False)), **sample.kwargs}
        first = named.pop(op.parameters[0], None)
        if isinstance(first, plugrad.Tensor) and is_float(first) and not tensors_in(named):
            return {name: value for name, value in named.items() if name not in ("dim", "keepdim")}
    raise Skip("no sample is made of one float tensor")


def extremes(op, device):
    """Zeros, infinities, nan, smallest and largest numbers neither raise nor warn, and agree with the reference."""
    count, sample = operands(op)
    for dtype in (plugrad.float64, plugrad.float32):
        with numpy.errstate(all="ignore"):
            values = numpy.array(EXTREMES).astype("float32" if dtype is plugrad.float32 else "float64")
        tensors = _columns(op, values, count, device)
        try:
            result = call(op, with_tensors(sample, count, tensors))
        except (RuntimeError, ValueError):
            if op.domain is None:
                raise
            tensors = _columns(op, numpy.clip(values, *op.domain), count, device)  # it refuses what is outside
            result = call(op, with_tensors(sample, count, tensors))
        if not op.reduces and dtype is plugrad.float64:
            _against_reference(op, with_tensors(sample, count, tensors), result)
        outputs = differentiable(result)
        if outputs:
            gradients_of_sum(outputs, tensors)


def _columns(op, values, count, device):
    """Return tensors for so many operands, in which values meet others; for a reduction each three times in a row."""
    columns = [numpy.roll(values, 2 * i) for i in range(count)]
    if op.reduces:
        columns = [numpy.repeat(column[:, None], 3, 1) for column in columns]
    return [plugrad.from_numpy(column.copy()).to(device).requires_grad_() for column in columns]


def _against_reference(op, sample, result):
    """Compare a result with the reference where that is finite; it may say otherwise what happens at infinity."""
    if op.ref is None:
        return
    try:
        function = reference(op.ref)
    except Skip:
        return
    given = Sample(map_tensors(sample.args, to_numpy), map_tensors(sample.kwargs, to_numpy))
    with numpy.errstate(all="ignore"):
        expected, actual = numpy.asarray(given.call(function)), to_numpy(result)
    columns = [array for array in given.args if isinstance(array, numpy.ndarray)]
    plain = numpy.isfinite(expected)
    for array in columns:  # subnormal numbers are nothing to many libraries
        plain = plain & ((array == 0) | (numpy.abs(array) > 1e-305) | numpy.isnan(array))
    # Nothing is asked of numbers so small: a Bessel function of 1e300 has no phase in double precision.
    wrong = plain & ~numpy.isclose(actual, expected, rtol=1e-7, atol=1e-100)
    if wrong.any():  # it may be the reference whose digits cancel
        more = numpy.nan
        with suppress(TypeError, ValueError), numpy.errstate(all="ignore"):
            precise = Sample(map_tensors(sample.args, _in_more_digits), map_tensors(sample.kwargs, _in_more_digits))
            more = numpy.asarray(precise.call(function))
        wrong &= ~numpy.isclose(actual, more, rtol=1e-7, atol=1e-100)
    if wrong.any():
        place = int(wrong.argmax())
        inputs = ", ".join(f"{array[place]:g}" for array in columns)
        value, right = actual[place], expected[place]
        raise AssertionError(f"at {inputs}: the value is {value:.9g}, the reference gives {right:.9g}")


def _in_more_digits(tensor):
    array = to_numpy(tensor)
    return array.astype(numpy.longdouble) if array.dtype.kind == "f" else array


def promotion(op, device):
    """The dtype of the result is the one that `plugrad.result_type` and the op's `promote` say."""
    count, sample = operands(op)
    make = Maker(op.name + " dtypes", device=device)
    for given in _dtype_choices(count):
        tensors = [make(3, dtype=dtype, requires_grad=False, **_bounds(op, dtype)) for dtype in given]
        _check_dtype(op, with_tensors(sample, count, tensors), tensors, ", ".join(map(str, given)))
    if count == 2:
        for dtype in map(_dtype, ("int64", "float32", "float64")):
            first = make(3, dtype=dtype, requires_grad=False, **_bounds(op, dtype))
            second = make(dtype=plugrad.float64, requires_grad=False, **inside(op))
            _check_dtype(
                op, with_tensors(sample, count, [first, second]), [first, second], f"{dtype}, 0-d torch.float64"
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
    return inside(op) if is_float_dtype(dtype) else {"low": 0, "high": 1} if op.domain else {"low": 1, "high": 3}


def _promoted_numbers(op, sample):
    """Return the Python numbers of a sample that take part in promotion."""
    named = {**dict(zip(op.parameters, sample.args, strict=False)), **sample.kwargs}
    chosen = [named.get(op.parameters[i]) for i in getattr(op, "promoted", ())]
    return [number for number in chosen if isinstance(number, (int, float, complex))]


def _must_not_meet(op, tensors):
    """Whether the op says that it refuses tensors of these dtypes, by `meet=`."""
    if getattr(op, "meet", None) is None:
        return False
    try:
        op.meet(*[(tensor.dtype, "dim" if tensor.ndim else "zero") for tensor in tensors])
    except RuntimeError:
        return True
    return False


def _check_dtype(op, sample, tensors, label):
    common = tensors[0].dtype
    if len(tensors) > 1:
        common = plugrad.result_type(tensors[0], tensors[1])
    for number in _promoted_numbers(op, sample):
        common = plugrad.result_type(plugrad.ones(1, dtype=common), number)
    try:
        result = call(op, sample)
    except (NotImplementedError, RuntimeError, TypeError) as error:
        plain = common in (plugrad.float32, plugrad.float64) and not _must_not_meet(op, tensors)
        if plain and op.promote != "int" and all(is_float_dtype(t.dtype) for t in tensors):
            raise AssertionError(f"dtypes {label}: {type(error).__name__}: {error}") from error
        return  # an op may refuse bools, integers, half precision or complex numbers
    expected = {"bool": plugrad.bool}.get(op.promote, common)
    if op.promote == "float" and not is_float_dtype(common):
        expected = plugrad.get_default_dtype()
    real = common.is_complex and result.dtype is common.to_real()  # abs, angle, real: told by the kernel
    assert result.dtype is expected or real, f"dtypes {label}: the result is {result.dtype}, expected is {expected}"
