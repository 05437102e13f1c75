"""Rules that ops declare for forward derivatives and for batches: used, checked, shown, and transposed."""

import itertools

import pytest

import plugrad
from plugrad import registry
from plugrad.catalog import details
from plugrad.extend import op, register, unary, unregister
from plugrad.testing.op_checks import gradients

SEEN = []


@unary(at=())
def cubed(xp, input):
    """Cube of each element."""
    return input**3


@cubed.jvp
def cubed_jvp(F, tangent, input):
    SEEN.append("jvp")
    return 3 * tangent * input * input


@op(at=())
def scaled_product(xp, a, b, scale=2.0):
    """Product of two vectors, scaled."""
    return a * b * scale


@scaled_product.jvp("a", "b")
def scaled_product_jvp(F, a_tangent, b_tangent, a, b, scale):
    parts = [None if t is None else t * x * scale for t, x in ((a_tangent, b), (b_tangent, a))]
    return parts[1] if parts[0] is None else parts[0] if parts[1] is None else parts[0] + parts[1]


@scaled_product.vmap
def scaled_product_vmap(F, info, in_dims, a, b, scale):
    SEEN.append(("vmap", info.batch_size, in_dims))
    if in_dims[0] is None:
        return NotImplemented
    b = b if in_dims[1] is None else F.movedim(b, in_dims[1], 0)
    return F.movedim(a, in_dims[0], 0) * b * scale, 0


@scaled_product.samples
def scaled_product_samples(make):
    yield make(3), make(3)


@unary(at=())
def opaque(xp, input):
    """The double, whose jvp nobody can transpose."""
    return 2 * input


@opaque.jvp
def opaque_jvp(F, tangent):
    return plugrad.from_numpy(2 * tangent.detach().numpy())


@pytest.fixture(autouse=True)
def registered():
    records = (cubed, scaled_product, opaque)
    for record in records:
        register(record)
    SEEN.clear()
    yield
    for record in records:
        unregister(record)


def point(*values):
    return plugrad.tensor(values, dtype=plugrad.float64, requires_grad=True)


def test_a_declared_jvp_is_used_by_all_forward_derivatives():
    x = plugrad.tensor([1.0, 2.0])
    assert plugrad.func.jvp(cubed.function, (x,), (x,))[1].tolist() == [3, 24]
    assert plugrad.func.jacfwd(cubed.function)(x).diagonal().tolist() == [3, 12]
    with plugrad.autograd.forward_ad.dual_level():
        dual = plugrad.autograd.forward_ad.make_dual(x, x)
        assert plugrad.autograd.forward_ad.unpack_dual(cubed(dual)).tangent.tolist() == [3, 24]
    assert SEEN == ["jvp"] * 4


def test_a_jvp_alone_is_transposed_for_backward():
    autograd, x, b = plugrad.autograd, point(1.0, 2.0), point(3.0, -4.0)
    assert autograd.grad(cubed(x).sum(), x)[0].tolist() == [3, 12]
    assert autograd.gradcheck(cubed.function, (x,), check_forward_ad=True)
    assert autograd.gradgradcheck(cubed.function, (x,))
    assert autograd.gradcheck(scaled_product.function, (x, b), check_forward_ad=True)
    assert autograd.gradcheck(scaled_product.function, (x, b.detach()))
    assert autograd.gradgradcheck(scaled_product.function, (x, b))


def test_what_can_not_be_transposed_is_refused():
    with pytest.raises(RuntimeError, match="jvp and no vjp, and the jvp can't be transposed.*declare @opaque.vjp"):
        opaque(point(1.0)).sum().backward()


@pytest.mark.parametrize(
    ("names", "function", "message"),
    [
        (("other",), lambda F, t: t, "no parameter 'other'"),
        ((), lambda F, t: t, "names no input"),
        (("input",), lambda F: 1, "must take .F, tangent of input, .*, it takes .F"),
        (("input",), lambda F, t, what: t, "asks for 'what'"),
    ],
)
def test_wrong_declarations(names, function, message):
    @unary(at=(), vjp=None)
    def some(xp, input):
        return input

    with pytest.raises(TypeError, match=message):
        some.jvp(*names)(function)


def test_a_declared_vmap_is_used_and_may_decline():
    a, b = plugrad.arange(6.0).reshape(3, 2), plugrad.tensor([1.0, 2.0, 3.0])
    function = scaled_product.function
    assert plugrad.func.vmap(function, in_dims=(1, None))(a, b).tolist() == [[0, 8, 24], [2, 12, 30]]
    assert SEEN == [("vmap", 2, (1, None, None))]
    assert plugrad.func.vmap(function, in_dims=(1, None), out_dims=1)(a, b).tolist() == [[0, 2], [8, 12], [24, 30]]
    assert plugrad.func.vmap(function, in_dims=(None, 1))(b, a).tolist() == [[0, 8, 24], [2, 12, 30]]


def test_rules_are_checked():
    gradients.batched(scaled_product, plugrad.device("cpu"))
    right = scaled_product.batched

    def halved(*args):
        result, dim = right(*args)
        return 0.5 * result, dim

    def of_first_dims(F, info, in_dims, a, b, scale):
        return 2 * a * b, 0

    try:
        for wrong in halved, of_first_dims:
            scaled_product.batched = wrong
            with pytest.raises(AssertionError, match="own rule for batches"):
                gradients.batched(scaled_product, plugrad.device("cpu"))
    finally:
        scaled_product.batched = right


def test_what_ops_show_says():
    lines = details.text(scaled_product)
    assert "  tangents forward (jvp): declared: scaled_product_jvp for a and b" in lines
    assert "  batches (vmap): declared: scaled_product_vmap" in lines
    said = {name: details.describe(registry.op(name)) for name in ("exp", "transpose", "svd", "matmul", "softmax")}
    assert [said[name]["jvp"] for name in said] == ["elementwise", "linear", "composite", "declared", "derived"]
    assert [said[name]["vmap"] for name in said] == ["whole", "loop", "loop", "declared", "loop"]


SHAPES = [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4))]


@pytest.mark.parametrize(("one", "other"), SHAPES)
@pytest.mark.parametrize("in_dims", [(0, 0), (-1, None), (None, 1), (1, 0)])
def test_batches_of_products_are_those_of_slices(one, other, in_dims):
    counter = itertools.count()

    def batch(shape, dim):
        parts = [plugrad.sin(plugrad.arange(float(_size(shape))) + next(counter)).reshape(shape) for _ in range(2)]
        return (parts, plugrad.stack(parts, dim)) if dim is not None else ([parts[0]] * 2, parts[0])

    (ones, a), (others, b) = batch(one, in_dims[0]), batch(other, in_dims[1])
    expected = plugrad.stack([plugrad.matmul(*pair) for pair in zip(ones, others)])
    assert plugrad.allclose(plugrad.func.vmap(plugrad.matmul, in_dims=in_dims)(a, b), expected)


def _size(shape):
    size = 1
    for one in shape:
        size *= one
    return size
