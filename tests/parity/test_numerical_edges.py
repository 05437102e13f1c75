"""Edge values in all float dtypes: zeros of both signs, infinities, NaN, subnormal and huge numbers, as in PyTorch.

Values, and gradients of unary and binary ops. Where the two differ plugrad is exact, or a reason is listed.
"""

from __future__ import annotations

import math

import numpy
import pytest

pytest.importorskip("torch")

import torch

import plugrad
from plugrad import kernels, registry
from support import twins

OPS = {name: dotted for name, dotted in twins.public_ops().items() if registry.ops[name].family in ("unary", "binary")}
STRAIGHT = ["relu", "leaky_relu", "hardtanh", "relu6", "hardsigmoid", "hardswish", "hardshrink", "softshrink"]
ACTIVATIONS = ["celu", "elu", "gelu", "hardsigmoid", "leaky_relu", "mish", "selu", "silu", "softplus", "softsign"]
OPS |= {f"functional {name}": f"nn.functional.{name}" for name in ACTIVATIONS}
DTYPES = ["float16", "bfloat16", "float32", "float64"]

EXACT = {
    "PyTorch's approximation has fewer digits": """airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma erfcx
        log_ndtr logaddexp2 ndtr i0e erf functional_mish functional_hardsigmoid tanh
        igammac""",
    "PyTorch's gradient overflows, underflows or divides by zero on the way": """acosh asinh atan2 log10 logaddexp
        sinc i1 i1e""",
    "PyTorch's vectorised function overflows at the last number, or gives NaN for infinity": """fmod remainder ldexp
        gelu functional_gelu""",
    "PyTorch's recurrences run for ever, or end at once, at degrees of NaN and of thousands": """chebyshev_polynomial_t
        chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he
        laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
        shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w""",
    "the tangent in PyTorch's gradient has no digits beside a pole": "lgamma",
    "the slope at NaN depends on the dtype in PyTorch": "softshrink",
    "the gradient at -0.0 depends on the dtype in PyTorch": "logit",
    **{  # by kernels in C, or without them
        True: {"PyTorch's exponential overflows at -100, where sigmoid is subnormal": "sigmoid functional_silu"},
        False: {
            "PyTorch's sigmoid has fewer digits": "logsigmoid functional_softplus",
            "the derivative is a quotient, whose divisor overflows a little early": "softplus",
        },
    }[kernels.level() is not None],
    "where SciPy is exact PyTorch has NaN": "zeta",
    "of NaN and another argument PyTorch's result is a number": "igamma",
    "of zeros of both signs NumPy gives the second, PyTorch the first": "fmax fmin",
    "bfloat16 becomes float32 on the way, in which NaN has another sign": "copysign",
    "PyTorch's function of half precision gives the first of two zeros": "nextafter",
}
LISTED = {name.replace("functional_", "functional ") for names in EXACT.values() for name in names.split()}


def edges(dtype) -> numpy.ndarray:
    limits = torch.finfo(getattr(torch, dtype))
    tiny, eps, most = limits.tiny, limits.eps, limits.max
    positive = [0.0, math.inf, tiny, tiny / 4, most, 1, 1 + eps, 1 - eps / 2, 0.5, 1.5, 2, 3, 10.0, 88.0, 100.0, 1e4]
    return numpy.array([*positive, *[-value for value in positive], math.nan, 1e-3, 0.25, 2.5])


def outcome(library, dotted, arrays, dtype) -> list:
    """Return the value of an op and its gradients, as float64 arrays, None for what there is not."""
    leaves = [library.tensor(a, dtype=getattr(library, dtype)).requires_grad_() for a in arrays]
    result = twins.lookup(library, dotted)(*leaves)
    result = result[0] if isinstance(result, (tuple, list)) else result
    found = [result]
    if result.requires_grad:
        try:
            found += library.autograd.grad(result, leaves, library.ones_like(result), allow_unused=True)
        except (RuntimeError, NotImplementedError):
            pass  # no formula for one of them
    return [None if t is None else twins.values_of(t.double() if t.is_floating_point() else t) for t in found]


def agree(ours, theirs, dtype, ulps) -> numpy.ndarray:
    """Return where two arrays are the same number, up to some units in the last place, zeros with their sign."""
    limits = torch.finfo(getattr(torch, dtype))
    near = numpy.abs(ours - theirs) <= ulps * limits.eps * numpy.maximum(numpy.abs(ours), numpy.abs(theirs))
    near |= numpy.abs(ours - theirs) <= 4 * limits.eps * limits.tiny
    same = (ours == theirs) | (numpy.isnan(ours) & numpy.isnan(theirs)) | (near & numpy.isfinite(ours - theirs))
    return same & ~((ours == 0) & (theirs == 0) & (numpy.signbit(ours) != numpy.signbit(theirs)))


def differences(name, dtype) -> list:
    values = edges(dtype)
    binary = not name.startswith("functional ") and registry.ops[name].family == "binary"
    arrays = [grid.ravel() for grid in numpy.meshgrid(values, values, indexing="ij")] if binary else [values]
    try:
        theirs = outcome(torch, OPS[name], arrays, dtype)
    except (RuntimeError, NotImplementedError, TypeError):  # not for this dtype, or not for these arguments
        return []
    ours, found = outcome(plugrad, OPS[name], arrays, dtype), []
    for number, (mine, other) in enumerate(zip(ours, theirs)):
        if mine is None and other is None:
            continue
        mine = numpy.zeros_like(other) if mine is None else mine
        other = numpy.zeros_like(mine) if other is None else other
        same = mine == other if mine.dtype.kind != "f" else agree(mine, other, dtype, 64 if number == 0 else 512)
        for i in numpy.flatnonzero(~same.ravel())[:3]:
            found.append((number, [float(a[i]) for a in arrays], float(mine.ravel()[i]), float(other.ravel()[i])))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_values_and_gradients_at_edges(name):
    found = {dtype: differences(name, dtype) for dtype in DTYPES}
    found = {dtype: places for dtype, places in found.items() if places}
    assert bool(found) == (name in LISTED), found


def test_lists_name_ops():
    assert set(OPS) >= LISTED


# ---------------------------------------------------------------------------------------------------- one by one


def both(function) -> tuple:
    return function(plugrad), function(torch)


CASES = {
    "running sums of float32": lambda T: T.cumsum(T.full((100_000,), 1e-4), 0)[[9, 999, 99_999]],
    "running sums that cancel": lambda T: T.cumsum(T.tensor([1e8, 1e-4, -1e8, 1e-4]), 0),
    "running products of float32": lambda T: T.cumprod(T.full((1000,), 1.001), 0)[[9, 999]],
    "slopes of hardswish": lambda T: slopes(T, T.nn.functional.hardswish, [-3.0, -1.5, -1.5 - 2**-22, 0.0, 3.0]),
    "slopes at NaN": lambda T: T.stack([slopes(T, getattr(T.nn.functional, one), [math.nan, 0.0]) for one in STRAIGHT]),
    "silu of zeros": lambda T: T.nn.functional.silu(T.tensor([-0.0, 0.0] * 20)),
    "linspace from minus infinity": lambda T: T.linspace(-math.inf, 1, 5),
    "linspace to infinity": lambda T: T.linspace(1, math.inf, 4),
    "inverse transform of NaN": lambda T: T.view_as_real(T.fft.ifftn(T.tensor([[1.0, math.nan], [2, 3]]))),
    "inverse transform of infinity": lambda T: T.view_as_real(T.fft.ifft2(T.tensor([[1.0, math.inf], [2, 3]]))),
    "elu with alpha of minus infinity": lambda T: T.nn.functional.elu(T.tensor([0.0, -0.0, 1, -1]), -math.inf),
    "alpha of a number": lambda T: T.sub(T.ones(2), -1, alpha=-2),
    "alpha of a number, complex": lambda T: T.view_as_real(T.add(T.ones(2, dtype=T.complex64), 0, alpha=2)),
    "alpha of a number, unsigned": lambda T: T.add(T.ones(2, dtype=T.uint8), -1, alpha=2),
    "addcmul with a fraction": lambda T: T.addcmul(*[T.tensor([n], dtype=T.uint8) for n in (100, 4, 4)], value=1.5),
    "the power 1/2, one for all": lambda T: T.tensor([-0.0, -math.inf, 4]) ** T.tensor([[0.5], [-0.5], [2]]),
    "the power 1/2 of a tensor": lambda T: T.tensor([-0.0, -math.inf, 4], dtype=T.float64) ** T.tensor(0.5),
    "the power 1/2 of float16": lambda T: T.tensor([-0.0, -math.inf, 4], dtype=T.float16) ** 0.5,
    "remainders of zero": lambda T: T.tensor([0.0, -0.0, 4, -4, 3]) % T.tensor([-2.0]),
    "convolution of no channels": lambda T: T.nn.functional.conv2d(
        T.ones(2, 0, 4, 4), T.ones(2, 0, 3, 3), T.tensor([7.2, 1.0])
    ),
    "softmax of bfloat16": lambda T: gradient(T, lambda x: T.softmax(x, 1)),
    "log_softmax of bfloat16": lambda T: gradient(T, lambda x: T.log_softmax(x, 0)),
    "rms_norm of bfloat16": lambda T: T.nn.functional.rms_norm(T.linspace(-1, 2, 9).to(T.bfloat16) / 64, (9,)).float(),
    "addbmm_ of what is broadcast": lambda T: T.ones(3).addbmm_(T.ones(4, 2, 5), T.ones(4, 5, 3)),
    "embedding_bag's maxima among equals": lambda T: bag(T),
}  # fmt: skip


def slopes(library, function, points):
    x = library.tensor(points, requires_grad=True)
    function(x).sum().backward()
    return x.grad


def gradient(library, function):
    x = library.linspace(-2, 3, 12).reshape(3, 4).to(library.bfloat16).requires_grad_()
    (function(x) * library.linspace(1, 2, 12).reshape(3, 4).to(library.bfloat16)).sum().backward()
    return x.grad.float()


def bag(library):
    table = library.tensor([[1.0, 5], [3, 2], [3, 5]]).requires_grad_()
    library.nn.functional.embedding_bag(library.tensor([[0, 1, 2, 1]]), table, mode="max").sum().backward()
    return table.grad


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_cases(name):
    ours, theirs = both(CASES[name])
    assert str(ours.dtype) == str(theirs.dtype) and ours.shape == theirs.shape
    numpy.testing.assert_array_equal(twins.values_of(ours), twins.values_of(theirs), strict=True)
    if ours.is_floating_point():
        assert ours.signbit().tolist() == theirs.signbit().tolist()


NAN_GRADIENTS = """
x.max() | x.min() | x.median() | x.nanmedian() | T.maximum(x, y) | T.minimum(x, y) | T.maximum(x, x.clone())
x.max(1)[0]
x.median(1)[0] | x.clamp(-0.5, 0.5) | x.clamp(x.detach() - 1, y) | T.where(x > 0, x, y) | x.relu()
T.gradient(x, dim=1)[0]
T.gradient(x, spacing=2.0, edge_order=2, dim=0)[0] | x.index_fill(1, T.tensor([2, 0]), y.sum())
x.masked_fill(x > 0, y.sum())
F.cross_entropy(x, T.tensor([0, -100, 2]), reduction='none') | F.nll_loss(x, T.tensor([0, -100, 2]), reduction='none')
F.cross_entropy(x, T.tensor([0, -100, 2]), label_smoothing=0.5, reduction='none') | F.max_pool1d(x, 2) | x.topk(2)[0]
F.hardtanh(x) | F.leaky_relu(x)
F.threshold(x, 0, 1)
F.softshrink(x) | F.hardshrink(x) | x.fmax(y) | x.sort(1)[0] | x.gather(1, T.tensor([[0], [3], [2]])) | x.cummax(1)[0]
"""
NAN_TEXTS = [text.strip() for text in NAN_GRADIENTS.replace("\n", " | ").split(" | ") if text.strip()]


def grads_of_nan(library, text, place):
    values = [[-0.25, 0.5, 0.5, -1.5], [2.0, 2.0, -0.75, 0.0], [1.0, -2.0, 0.75, 2.0]]
    x = library.tensor(values, dtype=library.float64, requires_grad=True)
    y = (x.detach() * 0.5 + 0.25).requires_grad_()
    result = eval(text, {"T": library, "F": library.nn.functional, "x": x, "y": y})
    weights = library.ones_like(result).flatten()
    weights[place % result.numel()] = math.nan
    grads = library.autograd.grad(result, (x, y), weights.reshape(result.shape), allow_unused=True)
    return [numpy.zeros(()) if g is None else numpy.array(g.tolist()) for g in grads]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", NAN_TEXTS)
def test_a_gradient_that_is_no_number_goes_to_its_place_alone(text):
    for place in (0, 1, 5):
        for ours, theirs in zip(grads_of_nan(plugrad, text, place), grads_of_nan(torch, text, place)):
            numpy.testing.assert_allclose(ours, theirs, rtol=1e-12)


INFINITE = [
    [complex(-math.inf, 0), 1 + 1j], [complex(-math.inf, -math.inf), 1 + 1j], [1 + 1j, complex(math.inf, math.inf)],
    [complex(math.inf, 1), complex(math.inf, 1)], [complex(math.inf, 1), complex(-math.inf, 1), 1 + 1j],
    [complex(math.nan, 0), 1], [complex(0, math.nan), 1], [complex(0, math.inf), 1],
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("values", INFINITE, ids=str)
def test_running_sums_of_complex_infinities(values):
    ours, theirs = both(lambda T: T.view_as_real(T.logcumsumexp(T.tensor(values, dtype=T.complex128), 0)))
    numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
def test_next_numbers(dtype):
    most = torch.finfo(getattr(torch, dtype)).max
    ours, theirs = both(
        lambda T: T.nextafter(
            T.tensor([most, -most, math.inf, 0.0, most, 1], dtype=getattr(T, dtype)),
            T.tensor([math.inf, -math.inf, 0, 1, 0, math.inf], dtype=getattr(T, dtype)),
        ).tolist()
    )
    assert ours == theirs


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("method", ["max", "min"])
def test_extremes_are_the_elements_at_their_indices(method, dim):
    def signs(T):
        x = T.tensor([0.0, -0.0, math.nan, 1.0, -1.0]).repeat(3, 4, 7).reshape(3, 4, 35).transpose(0, 1)[:, :, ::2]
        values, places = getattr(x, method)(dim)
        assert T.equal(values.signbit(), x.gather(dim, places.unsqueeze(dim)).squeeze(dim).signbit())
        return values

    numpy.testing.assert_array_equal(*[values.numpy() for values in both(signs)])


@pytest.mark.parametrize("library", [plugrad, torch])
def test_division_that_is_rounded_down_has_no_gradient(library):
    x = library.tensor([3.0, -4.0], requires_grad=True)
    for quotient in (x // 2, 7 // x, library.floor_divide(x, x)):
        with pytest.raises(RuntimeError, match="derivative for aten::floor_divide is not implemented"):
            (quotient + x).sum().backward()
    library.div(x, 2, rounding_mode="floor").sum().backward()
    assert x.grad.tolist() == [0, 0]


DECOMPOSED = {
    "svd": lambda T, A: T.linalg.svd(A, full_matrices=False).S,
    "svdvals": lambda T, A: T.linalg.svdvals(A),
    "largest singular value": lambda T, A: T.linalg.norm(A, 2),
    "nuclear norm": lambda T, A: T.linalg.norm(A, "nuc"),
    "cond": lambda T, A: T.linalg.cond(A),
    "matrix_rank": lambda T, A: T.linalg.matrix_rank(A),
}


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan")])
@pytest.mark.parametrize("name", DECOMPOSED)
def test_decompositions_of_what_is_not_finite_come_to_an_end(name, value):
    """LAPACK's singular values of a matrix with an infinity may not; NaN is refused where PyTorch refuses it."""
    for batch in (False, True):
        results = []
        for library in (plugrad, torch):
            A = library.tensor([[1.0, 2.0, 0.0], [2.0, value, 1.0], [0.0, 1.0, 3.0]], dtype=library.float64)
            A = library.stack([library.eye(3, dtype=library.float64), A]) if batch else A
            try:
                results.append(DECOMPOSED[name](library, A).numpy())
            except RuntimeError as error:
                results.append(str(error)[:40])
        if isinstance(results[1], str):
            assert results[0] == results[1]
        else:
            numpy.testing.assert_allclose(*results, rtol=1e-9)


def test_the_gradient_of_a_determinant_of_what_is_infinite_is_nan():
    A = plugrad.tensor([[1.0, 2.0], [float("inf"), 3.0]], requires_grad=True)
    plugrad.linalg.det(A).backward()
    assert A.grad.isnan().all() and plugrad.linalg.pinv(A.detach()).isnan().all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("values", [[1e-7, 0.0], [6e-8, 6e-8], [1e-3, 2e-3], [3e4, 3e4], [0.0, 0.0], [math.inf, 1.0]])
def test_gradients_of_norms_of_tiny_and_large_numbers(dtype, values):
    """In half precision one over a tiny norm is infinite, though the gradient is not."""
    for order in (2, 1, 3, 0.5, float("inf"), -1):
        grads = []
        for library in (plugrad, torch):
            x = library.tensor(values, dtype=getattr(library, dtype), requires_grad=True)
            library.linalg.vector_norm(x, order).backward()
            grads.append(x.grad.double().numpy())
        if numpy.isfinite(grads[1]).all() or not numpy.isfinite(grads[0]).all():  # PyTorch's powers may overflow
            numpy.testing.assert_allclose(*grads, rtol=2e-2, err_msg=f"order {order}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("dim", [0, 1])
def test_slices_that_renorm_leaves_have_their_gradients(dim, dtype):
    """Also those without a length, whose inverse overflows in half precision."""
    values = [[0.0, 2.0, -0.25], [0.0, 3.0, 1.0], [0.0, 0.5, 2.0]]
    theirs, ours = (library.tensor(values, dtype=getattr(library, dtype)) for library in (torch, plugrad))
    for x in (theirs, ours):
        x.requires_grad_()
        (x.renorm(2, dim, 1.0) * x.detach().new_tensor([1.0, 2.0, 3.0])).sum().backward()
    tolerance = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    numpy.testing.assert_allclose(ours.grad.double(), theirs.grad.double(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["unique", "unique_consecutive", "kthvalue", "cummax", "cummin", "index_select"])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3), (3,)])
def test_empty_slices_and_booleans(name, shape):
    """What has no elements to compare is refused, and what is empty keeps its dtype."""
    for dtype in ("bool", "float32"):
        for dim in range(-len(shape), len(shape)):
            answers = []
            for library in (torch, plugrad):
                x = library.zeros(shape, dtype=getattr(library, dtype))
                arguments = {"dim": dim, **({"k": 1} if name == "kthvalue" else {})}
                arguments |= {"return_inverse": True} if "unique" in name else {}
                arguments |= {"index": library.tensor([5])} if name == "index_select" else {}
                try:
                    answers.append([(str(one.dtype), one.tolist()) for one in getattr(library, name)(x, **arguments)])
                except Exception as error:
                    answers.append(type(error).__name__)
            assert answers[0] == answers[1], (dtype, dim)


@pytest.mark.parametrize("affine", [True, False])
def test_equal_gradients_have_none_left_behind_a_normalization(affine):
    """Their mean is taken off before anything is rounded: what passes is zero, and not a part of a last digit."""
    for count in (1, 2, 4):
        g = plugrad.full((3, count), 2896.3)
        parts = (plugrad.full((count,), 1.1), plugrad.zeros(count)) if affine else (None, None)
        x = plugrad.arange(3.0 * count).reshape(3, count).requires_grad_()
        (grad,) = plugrad.autograd.grad(plugrad.nn.functional.layer_norm(x, (count,), *parts), x, g)
        spread = plugrad.nn.functional.layer_norm(x, (count,)).abs().amax() if count > 1 else 0.0
        assert (grad.abs() <= 1e-3 * float(spread)).all()
