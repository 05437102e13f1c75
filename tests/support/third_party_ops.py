"""Ops as third parties declare them, good and bad: the call trusts nothing that they say or return."""

from __future__ import annotations

import numpy

from plugrad.extend import Op, binary, collect, composite, elementwise, factory, op, reduction, unary, view


@unary()
def cube(xp, input):
    """The third power."""
    return input**3


@cube.vjp
def cube_vjp(F, g, input):
    return 3 * g * input * input


@unary()
def scaled_exp(xp, input, scale=1.0, *, shift=0.0):
    """exp(scale * x) + shift."""
    return xp.exp(scale * input) + shift


@scaled_exp.vjp
def scaled_exp_vjp(F, g, y, scale, shift):
    return g * (y - shift) * scale


@scaled_exp.samples
def scaled_exp_samples(make):
    yield make(3, 4)
    yield make(3, 4), 0.5
    yield make(3), True
    yield make.args(make(2, 3), shift=1)


@unary(name="widened", promote="same")
def widened(xp, input):
    """In float64, whatever comes."""
    return input.astype("float64") + 1


@widened.vjp
def widened_vjp(F, g):
    return g


@unary(promote="bool")
def is_large(xp, input, limit=1.0):
    """Whether elements are above a limit."""
    return input > limit


@unary()
def to_scalar(xp, input):
    """A number, and no array."""
    return float(input.sum())


@unary()
def to_list(xp, input):
    """A list of numbers."""
    return input.tolist()


@unary()
def to_nothing(xp, input):
    """Nothing."""


@unary()
def to_text(xp, input):
    """A string."""
    return "text"


@unary()
def to_pair(xp, input):
    """Two arrays, though declared as one."""
    return input + 1, input - 1


@unary()
def raising(xp, input):
    """Not computed."""
    raise ValueError("no value today")


@unary()
def unimplemented(xp, input):
    """Not computed."""
    raise NotImplementedError("not here")


@unary()
def summed_gradient(xp, input):
    """Its gradient has no shape."""
    return input + 0


@summed_gradient.vjp
def summed_gradient_vjp(F, g):
    return F.sum(g)


@unary()
def doubled_gradient(xp, input):
    """Its gradient has a dimension too many."""
    return input + 0


@doubled_gradient.vjp
def doubled_gradient_vjp(F, g):
    return F.stack([g, g, g])


@unary()
def raising_gradient(xp, input):
    """Its gradient is an error."""
    return input + 0


@raising_gradient.vjp
def raising_gradient_vjp(F, g):
    raise ValueError("no gradient today")


@binary()
def weighed(xp, input, other, *, weight=2):
    """x + weight * y."""
    return input + weight * other


@weighed.vjp
def weighed_vjp(F, g):
    return g


@weighed.vjp("other")
def weighed_vjp_other(F, g, weight):
    return g * weight


@binary(numbers="both")
def product(xp, input, other):
    """x * y, by one call of the array library."""
    return xp.multiply(input, other)


@product.vjp("input", "other")
def product_vjp(F, g, input, other, needs):
    return (g * other if needs[0] else None), (g * input if needs[1] else None)


@binary(numbers="none", promote="float")
def distance(xp, input, other):
    """|x - y| of tensors alone."""
    return xp.abs(input - other)


@distance.vjp
def distance_vjp(F, g, input, other):
    return g * F.sign(input - other)


@binary()
def flat_pair(xp, input, other):
    """A result of another shape than its operands."""
    return (input * other).reshape(-1)


@flat_pair.vjp
def flat_pair_vjp(F, g, other, input_shape):
    return F.reshape(g, input_shape)


@elementwise(tensors=("input", "low", "high"))
def inside(xp, input, low=None, high=None, sharp=True):
    """Clamped to bounds that may be missing."""
    raised = input if low is None else xp.maximum(input, low)
    return raised + 0 if high is None else xp.minimum(raised, high)


@inside.vjp
def inside_vjp(F, g, input, y):
    return F.where(input == y, g, 0 * g)


@inside.vjp("low")
def inside_vjp_low(F, g, input, y):
    return F.where(input == y, 0 * g, g)


@inside.samples
def inside_samples(make):
    yield make(3, 4), make(3, 4) - 1, make(4)
    yield make(3, 4)
    yield make(3, 4), None, 0.5
    yield make(3, 4), 0, 1, False


@reduction()
def energy(xp, input, dim=None, keepdim=False):
    """Sum of squares."""
    return xp.sum(input * input, axis=dim, keepdims=keepdim)


@energy.vjp
def energy_vjp(F, g, input, dim, keepdim):
    if dim is not None and not keepdim:
        g = F.unsqueeze(g, dim)
    return 2 * g * input


@reduction(returns="least most")
def extent(xp, input, dim, keepdim=False):
    """Minimum and maximum."""
    return xp.min(input, axis=dim, keepdims=keepdim), xp.max(input, axis=dim, keepdims=keepdim)


@view()
def backwards(xp, input, dim=0):
    """The elements in the opposite order."""
    return input[(slice(None),) * dim + (slice(None, None, -1),)]


@backwards.vjp
def backwards_vjp(F, g, dim):
    return F.flip(g, (dim,))


@backwards.samples
def backwards_samples(make):
    yield make(3, 4)
    yield make(3, 4), 1


@view()
def no_view(xp, input):
    """Declared a view, and a copy."""
    return input.copy()


@no_view.vjp
def no_view_vjp(F, g):
    return g


@no_view.samples
def no_view_samples(make):
    yield make(3, 4)


@view(variadic="sizes")
def laid_out(xp, input, sizes):
    """Another shape."""
    return input.reshape(sizes)


@laid_out.vjp
def laid_out_vjp(F, g, input_shape):
    return F.reshape(g, input_shape)


@laid_out.samples
def laid_out_samples(make):
    yield make(3, 4), (4, 3)
    yield make(3, 4), 12
    yield make(3, 4), 2, 6
    yield make.args(make(3, 4), sizes=(6, 2))


@op()
def affine(xp, input, matrix, bias=None, scale=1.0, *, power=1):
    """(scale * x @ m + b) ** power."""
    product = scale * (input @ matrix)
    return product**power if bias is None else (product + bias) ** power


@affine.vjp("input", "matrix")
def affine_vjp(F, g, input, matrix, scale):
    return scale * F.matmul(g, F.transpose(matrix, -1, -2)), scale * F.matmul(F.transpose(input, -1, -2), g)


@affine.samples
def affine_samples(make):
    yield make(3, 4), make(4, 2)
    yield make(3, 4), make(4, 2), make(2)
    yield make.args(make(3, 4), make(4, 2), None, 2, power=2)


@op(returns="half rest")
def halves(xp, input, at=1):
    """Two parts, the second as whole numbers."""
    return input[:at] * 1, input[at:].astype("int64")


@halves.vjp
def halves_vjp(F, g, input_shape):
    return F.cat([g[0], F.zeros((input_shape[0] - len(g[0]), *input_shape[1:]), dtype=g[0].dtype)])


@halves.samples
def halves_samples(make):
    yield make(3, 4)
    yield make(3, 4), 2


@op(sequence=True)
def joined(xp, tensors, gap=0.0):
    """Sum of a list of tensors."""
    return sum(tensors) + gap


@joined.vjp
def joined_vjp(F, g, tensors):
    return [g for _ in tensors]


@joined.samples
def joined_samples(make):
    yield ([make(3, 4), make(3, 4)],)
    yield [make(3, 4), make(3, 4), make(3, 4)], 1.5


@op()
def listed(xp, input):
    """A list of arrays."""
    return [input + 1, input + 2]


@listed.samples
def listed_samples(make):
    yield make(3)


@op()
def text_of(xp, input, text="a"):
    """Its option decides what comes back."""
    return {"a": input + 1, "b": 3.0, "c": numpy.float32(2), "d": (input, input * 2), "e": None, "f": [1.0]}[text]


@text_of.vjp
def text_of_vjp(F, g):
    return g


@text_of.samples
def text_of_samples(make):
    yield make(3)
    yield make(3), "b"
    yield make(3), "c"
    yield make(3), "d"
    yield make(3), "e"
    yield make(3), "f"


@composite()
def smooth(F, input, other, *, rate=0.5):
    """input + rate * (other - input)."""
    return input + rate * (other - input)


@smooth.samples
def smooth_samples(make):
    yield make(3, 4), make(3, 4)
    yield make(3, 4), make(4)
    yield make.args(make(3, 4), 2.0, rate=0.25)


@factory()
def ramp(xp, size, start=0.0, *, dtype):
    """Numbers that count up."""
    return numpy.asarray(start + numpy.arange(numpy.prod(size)).reshape(size), dtype)


@ramp.samples
def ramp_samples(make):
    yield ((2, 3),)
    yield (2, 3), 1.5


OPS = collect(Op, globals())
