"""What normalizations are made of: bringing dimensions to mean 0 and variance 1, and scaling by known statistics."""

from __future__ import annotations

from math import nan, prod

from plugrad.extend import Op, collect, elementwise, hookimpl, is_half, op

from .shape import sum_to_shape


@op(at=())
def standardize(xp, input, dims, eps):
    """Bring the elements along `dims` to mean 0 and variance 1.

    Gives (result, mean, variance).

    The variance is the biased one, to which `eps` is added. Mean and variance keep `dims` as size 1, and have
    at least float32 precision.
    """
    dtype = input.dtype
    if is_half(input.dtype):
        input = input.astype("float32")
    count = prod(input.shape[d] for d in dims)
    mean = input.sum(dims, keepdims=True) / count
    centered = input - mean
    variance = xp.square(centered).sum(dims, keepdims=True) / count
    centered *= 1 / xp.sqrt(variance + eps)
    result = centered if centered.dtype == dtype else centered.astype(dtype)
    precise = input.dtype  # statistics of no elements, or NumPy scalars, keep it
    return result, xp.asarray(mean, precise), xp.asarray(variance, precise)


@standardize.meta
def standardize_meta(input, dims, eps):
    shape = tuple(1 if i in dims else n for i, n in enumerate(input.shape))
    dtype = "float32" if is_half(input.dtype) else input.dtype
    return [(input.shape, input.dtype), (shape, dtype), (shape, dtype)]


@standardize.vjp
def standardize_vjp(F, g, y, input_shape, dims, eps):
    (g, g_mean, g_variance), (result, _, variance) = g, y
    count = prod(input_shape[d] for d in dims)
    scale = (variance + eps) ** -0.5
    # With respect to mean and variance everything is small: only the last line works on whole arrays.
    shift = (F.sum(g, dims, True) - g_mean / scale) / count
    along = (F.sum(g * result, dims, True) - 2 * g_variance / scale**2) / count
    return (g - shift - result * along) * scale


@standardize.samples
def standardize_samples(make):
    yield make(3, 4), (1,), 1e-5


@elementwise(tensors=("input", "weight", "bias"), at=(), inplace=False, node="NativeLayerNormBackward0")
def scale_shift(xp, input, weight, bias):
    """input * weight + bias, where `bias` may be None."""
    result = input * weight
    if bias is None:
        return result
    if getattr(result, "shape", ()) != input.shape:
        return result + bias
    result += bias
    return result


@scale_shift.vjp("input")
def scale_shift_vjp_input(F, g, weight):
    return g * weight


@scale_shift.vjp("weight")
def scale_shift_vjp_weight(F, g, input):
    return g * input


@scale_shift.vjp("bias")
def scale_shift_vjp_bias(F, g):
    return g


@scale_shift.samples
def scale_shift_samples(make):
    yield make.args(make(3, 4), make(4), make(4))
    yield make.args(make(2, 3, 4), make(3, 1), make(3, 1))


@op(at=(), node="NativeLayerNormBackward0")
def normalize_affine(xp, input, weight, bias, dims, shape, eps):
    """`standardize`, then `scale_shift` by weight and bias: three arrays as well.

    Weight and bias are None or laid out in `shape`.

    In one op, so that of the size of the input only the input itself is kept for backward.
    """
    dtype = "float32" if is_half(input.dtype) else input.dtype
    values = input if input.dtype == dtype else input.astype(dtype)
    count = prod([input.shape[d] for d in dims]) or nan
    mean = values.sum(dims, None, None, True)
    mean /= count
    result = values - mean
    variance = xp.square(result).sum(dims, None, None, True)
    variance /= count
    root = variance + eps
    result *= xp.reciprocal(xp.sqrt(root, root), root)
    if weight is not None:
        result *= weight if weight.shape == shape else weight.reshape(shape)
    if bias is not None:
        result += bias if bias.shape == shape else bias.reshape(shape)
    return (result if dtype is input.dtype else result.astype(input.dtype)), mean, variance


@normalize_affine.meta
def normalize_affine_meta(input, weight, bias, dims, shape, eps):
    return standardize_meta(input, dims, eps)


@normalize_affine.vjp("input", "weight", "bias")
def normalize_affine_vjp(F, g, y, input, weight, dims, shape, eps, weight_shape, bias_shape, needs):
    (g, g_mean, g_variance), (_, mean, variance) = g, y
    centered, scale = input - mean, F.rsqrt(variance + eps)
    scaled = g * scale
    grads = [None, None, None]
    if needs[2]:
        grads[2] = F.reshape(sum_to_shape(F, g, shape), bias_shape)
    if needs[1]:
        grads[1] = F.reshape(sum_to_shape(F, scaled * centered, shape), weight_shape)
    if needs[0]:
        if weight is not None:
            scaled = scaled * (weight if weight_shape == shape else F.reshape(weight, shape))
        count = prod([input.shape[d] for d in dims])
        # With respect to mean and variance everything is small: only the last line works on whole arrays.
        shift = (F.sum(scaled, dims, True) - g_mean) / count
        along = (F.sum(scaled * centered, dims, True) * scale * scale - g_variance * 2) / count
        grads[0] = scaled - shift - centered * along
    return grads


@normalize_affine.samples
def normalize_affine_samples(make):
    yield make.args(make(3, 4), make(4), make(4), (1,), (4,), 1e-5)
    yield make.args(make(2, 3, 4), make(3), None, (0, 2), (1, 3, 1), 1e-5)


@op(at=(), node="NativeBatchNormBackward0", like="input")
def normalize_by(xp, input, weight, bias, mean, variance, shape, eps):
    """Shift and scale by known statistics, weight and bias.

    All but `input` are laid out in `shape`; weight and bias may be None.
    """
    dtype, scale = input.dtype, variance + eps
    xp.reciprocal(xp.sqrt(scale, scale), scale)
    if weight is not None:
        scale *= weight
    shift = mean * scale
    result = input * scale.reshape(shape)
    shift = xp.negative(shift, shift) if bias is None else xp.subtract(bias, shift, shift)
    result += shift.reshape(shape)
    return result if result.dtype is dtype else result.astype(dtype)


@normalize_by.vjp("input", "weight", "bias")
def normalize_by_vjp(F, g, input, weight, mean, variance, shape, eps, weight_shape, bias_shape, needs):
    scale = F.rsqrt(variance + eps)
    grads = [None, None, None]
    if needs[0]:
        grads[0] = g * F.reshape(scale if weight is None else scale * weight, shape)
    if needs[1]:
        unit = (input - F.reshape(mean, shape)) * F.reshape(scale, shape)
        grads[1] = F.reshape(sum_to_shape(F, g * unit, shape), weight_shape)
    if needs[2]:
        grads[2] = F.reshape(sum_to_shape(F, g, shape), bias_shape)
    return grads


@normalize_by.samples
def normalize_by_samples(make):
    statistics = make(3, requires_grad=False), make(3, low=0.5, high=2, requires_grad=False)
    yield make.args(make(2, 3, 4), make(3), make(3), *statistics, (1, 3, 1), 1e-5)
    yield make.args(make(2, 3), None, None, *statistics, (1, 3), 1e-5)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
