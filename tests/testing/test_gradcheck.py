"""The gradient checker: does it pass what is right, and catch what is not?"""

import numpy
import pytest

import plugrad as torch
from plugrad.testing import assert_close, check, gradcheck, gradgradcheck
from plugrad.testing.gradients.checker import GradcheckError, gradient_function
from plugrad.testing.gradients.unregistered import unregistered
from support.formulas import custom


def point(*shape, seed=0, dtype=torch.float64, low=0.3, high=2.3):
    values = numpy.random.default_rng(seed).uniform(low, high, shape)
    return torch.from_numpy(numpy.asarray(values)).to(dtype).requires_grad_()


def exactly(*values):
    return torch.from_numpy(numpy.array(values)).requires_grad_()


def one_wrong(position, factor):
    """The gradient of sin, with one element multiplied."""

    def formula(g, x):
        factors = numpy.ones(x.numel())
        factors[position] = factor
        return g * x.cos() * torch.from_numpy(factors).reshape(x.shape)

    return custom(torch.sin, formula)


RIGHT = {
    "sin": torch.sin,
    "exp": torch.exp,
    "log": torch.log,
    "tanh": torch.tanh,
    "softmax": lambda x: torch.softmax(x, -1),
    "sum of squares": lambda x: (x * x).sum(),
    "matmul": lambda x: x @ x.T,
    "two outputs": lambda x: (x.sin(), x.exp().sum()),
}

WRONG = {
    "off by 0.05 %": custom(torch.sin, lambda g, x: g * x.cos() * 1.0005),
    "zero for 1e-6 x^2": custom(lambda x: 1e-6 * x * x, lambda g, x: 0 * g),
    "dropped term": custom(lambda x: x * x + 0.1 * x.sin(), lambda g, x: 2 * g * x),
    "sign": custom(torch.sin, lambda g, x: -g * x.cos()),
    "one element": one_wrong(5, 1.0005),
    "transposed": custom(lambda x: x * x.T, lambda g, x: g * x.T),
    "wrong axis": custom(lambda x: x.sum(0) * 1.0, lambda g, x: g.reshape(3, 1).expand(3, 3)),
    "ignores grad_output": custom(torch.sin, lambda g, x: x.cos()),
    "squares grad_output": custom(torch.sin, lambda g, x: g * g * x.cos()),
    "nan": custom(torch.sin, lambda g, x: g * x.cos() * float("nan")),
    "detached": lambda x: x * x.detach(),
    "all detached": lambda x: x.detach() * x.detach(),
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name, fast):
    for seed in range(13):
        verdict = check(RIGHT[name], (point(3, 3, seed=seed),), fast_mode=fast, seed=seed)
        assert verdict.status == "PASS", verdict


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_right_gradients_of_low_precision_pass(name, dtype):
    for seed in range(5):
        verdict = check(RIGHT[name], (point(3, 3, seed=seed, dtype=dtype),))
        assert verdict.status == "PASS", verdict


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_fail(name, fast):
    for seed in range(3):
        verdict = check(WRONG[name], (point(3, 3, seed=seed),), fast_mode=fast, seed=seed)
        assert verdict.status == "FAIL" and not verdict, verdict


def test_wrong_float32_gradient_fails():
    assert check(WRONG["off by 0.05 %"], (point(3, 3, dtype=torch.float32),)).status == "FAIL"


@pytest.mark.parametrize("fast", [False, True])
def test_one_wrong_element_of_many_is_found(fast):
    x = point(20000, seed=3)
    verdict = check(lambda x: one_wrong(777, 1.01)(x).sum(), (x,), fast_mode=fast)
    assert (verdict.status, verdict.element) == ("FAIL", (777,))
    assert verdict.analytic == pytest.approx(1.01 * verdict.numeric)
    verdict = check(one_wrong(777, 1.01), (x,), fast_mode=fast)
    assert (verdict.status, verdict.element) == ("FAIL", (777,))
    assert check(lambda x: x.sin().sum(), (x,), fast_mode=fast).status == "PASS"


@pytest.mark.parametrize(
    "function, x",
    [(torch.relu, (0.0, 1.0)), (torch.abs, (0.0,)), (torch.floor, (1.0, 0.3)), (torch.sqrt, (0.0, 2.0))],
)
def test_kinks_are_told_from_errors(function, x):
    verdict = check(function, (exactly(*x),))
    assert verdict.status == "NONDIFFERENTIABLE" and verdict.element == (0,)
    assert gradcheck(function, (exactly(*x),))


def test_gradient_at_a_kink_must_be_a_subgradient():
    verdict = check(custom(torch.abs, lambda g, x: 3 * g), (exactly(0.0),))
    assert verdict.status == "FAIL" and verdict.numeric == pytest.approx((-1.0, 1.0))


def test_kinks_nearby_do_no_harm():
    assert check(torch.relu, (exactly(1e-3, -1e-4, 1e-6),)).status == "PASS"


@pytest.mark.parametrize(
    "function, x",
    [
        (torch.log, (1e-5, 1e-8, 3.0)),
        (torch.acos, (0.99, -0.99999, 0.0)),
        (torch.exp, (50.0, -50.0, 600.0)),
        (torch.sin, (800.0, -5e4)),
        (torch.sigmoid, (800.0, -800.0, 20.0, 25.0, 36.0)),
    ],
)
def test_edges_of_domains_and_large_numbers(function, x):
    assert check(function, (exactly(*x),)).status == "PASS"


def test_random_functions_are_inconclusive():
    generator = numpy.random.default_rng(0)
    verdict = check(lambda x: x * generator.uniform(), (point(3),))
    assert verdict.status == "INCONCLUSIVE" and "seed" in verdict.message
    with pytest.raises(GradcheckError, match="different results"):
        gradcheck(lambda x: x * generator.uniform(), (point(3),))


def test_shapes_and_layouts():
    for x in (point(), point(0, 3), point(3, 4).detach().t().requires_grad_()):
        assert check(torch.sin, (x,)).status == "PASS"
    overlapping = point(5).detach().unfold(0, 3, 1).requires_grad_()
    assert check(torch.sin, (overlapping,)).status == "PASS"
    x = point(3)
    assert check(lambda a, b: a * b, (x, x)).status == "PASS"
    assert check(lambda x, i: x[i], (point(5), torch.tensor([1, 1, 2]))).status == "PASS"


def test_expanded_inputs_are_refused_as_in_pytorch():
    leaf, base = point(3, 1).detach().expand(3, 4).requires_grad_(), point(3, 1)
    for x in (leaf, base.expand(3, 4)):
        for judge in (check, gradcheck, gradgradcheck):
            with pytest.raises(RuntimeError, match=r"input 1 has a dimension with stride 0.*\.contiguous\(\)"):
                judge(torch.mul, (point(3, 4), x))
        assert gradcheck(torch.mul, (point(3, 4), x.contiguous()))
    assert check(torch.mul, (point(3, 4), leaf.detach())).status == "PASS"  # one that is not looked at


def test_inputs_are_left_as_they_were():
    x = point(4)
    before = x.detach().clone()
    check(torch.sin, (x,))
    check(WRONG["sign"], (x,))
    assert_close(x.detach(), before, rtol=0, atol=0)
    assert x.grad is None


def test_complex():
    random = numpy.random.default_rng(1)
    z = torch.from_numpy(random.normal(size=(3, 2)) + 1j * random.normal(size=(3, 2))).requires_grad_()
    for function in (torch.sin, torch.abs, lambda z: z * z.conj()):
        assert check(function, (z,)).status == "PASS"
    verdict = check(custom(torch.sin, lambda g, z: g * z.cos()), (z,))
    assert verdict.status == "FAIL" and "part of element" in verdict.message


class Scaled(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, 1.5, -0.7]))
        self.function = function

    def forward(self, x):
        return x * self.function(self.weight)


def test_modules_are_checked_with_their_parameters():
    x = point(3, dtype=torch.float32)
    assert check(Scaled(torch.sin), (x,)).status == "PASS"
    verdict = check(Scaled(WRONG["sign"]), (x,))
    assert verdict.status == "FAIL" and verdict.input == "weight"


class Holding(torch.nn.Module):
    """Holds a parameter where a Module does not look for it, and its input, too."""

    def __init__(self, function, hold, find):
        super().__init__()
        weight = torch.nn.Parameter(torch.tensor([0.5, 1.5, -0.7]))
        self.held, self.find, self.function = hold(weight), find, function

    def forward(self, x):
        self.seen = x
        return x * self.function(self.find(self.held))


HELD = {
    "held[0]": (lambda weight: [weight], lambda held: held[0]),
    "held['a'][1]": (lambda weight: {"a": (None, weight)}, lambda held: held["a"][1]),
    "held": (lambda weight: weight.detach().requires_grad_(), lambda held: held),
    "held[0].inner[0].weight": (lambda weight: [_nested()], lambda held: held[0].inner[0].weight),
}


def _nested():
    outer = torch.nn.Module()
    outer.inner = [torch.nn.LayerNorm(3)]
    return outer


@pytest.mark.parametrize("path", HELD)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_parameters_that_a_module_does_not_know_are_checked(path, dtype):
    x = point(3, dtype=dtype)
    right, wrong = (Holding(function, *HELD[path]) for function in (torch.sin, WRONG["off by 0.05 %"]))
    for _ in range(2):  # in the second call the module holds the first one's input
        assert check(right, (x,)).status == "PASS"
        verdict = check(wrong, (x,))
        assert verdict.status == "FAIL" and verdict.input == path
    assert gradgradcheck(right, (x,)) and not gradgradcheck(wrong, (x,), raise_exception=False)
    with pytest.raises(GradcheckError, match="forward mode does not reach the parameter .* is not registered"):
        gradcheck(right, (x,), check_forward_ad=True)
    assert dict(unregistered(right))[path].dtype is torch.float32  # the module is left as it was


def test_closures():
    module = Scaled(WRONG["sign"])
    verdict = check(lambda *_: module(torch.ones(3)), tuple(module.parameters()))
    assert verdict.status == "INCONCLUSIVE" and "closure" in verdict.message
    module.double()
    assert check(lambda *_: module(torch.ones(3)), tuple(module.parameters())).status == "FAIL"


def test_gradcheck_is_called_as_in_pytorch():
    x = point(3)
    assert gradcheck(torch.sin, x) is True
    assert gradcheck(WRONG["sign"], point(3, 3), raise_exception=False) is False
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(WRONG["sign"], (point(3, 3),))
    assert gradcheck(WRONG["off by 0.05 %"], (point(3, 3),), rtol=1e-2)  # a tolerance that is given is kept
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        gradcheck(torch.sin, (torch.ones(3),))
    with pytest.raises(AssertionError, match="requires check_backward_ad to be True"):
        gradcheck(torch.sin, x, check_batched_grad=True, check_backward_ad=False, check_forward_ad=True)
    with pytest.raises(AssertionError, match="at least one of"):
        gradcheck(torch.sin, x, check_backward_ad=False)


def test_second_order():
    for fast in (False, True):
        assert gradgradcheck(lambda x: torch.softmax(x, -1) * x, (point(3, 3),), fast_mode=fast)
    assert gradgradcheck(Scaled(torch.sin), (point(3),))
    wrong = custom(torch.exp, lambda g, x: g * x.exp().detach())  # first order right, second silently zero
    assert gradcheck(wrong, (point(3),))
    with pytest.raises(GradcheckError, match="nothing arrives"):
        gradgradcheck(wrong, (point(3),))
    assert check(*gradient_function(torch.sin, point(3), torch.ones(3, dtype=torch.float64))).status == "PASS"


def test_gradients_at_kinks_are_checked_beside_them():
    """A kink in one element hides nothing that is wrong with the others, and several kinks at once blame nobody."""
    x = exactly(0.0, 0.7, -0.4, 0.0)
    for fast in (False, True):
        assert check(torch.relu, (x,), fast_mode=fast).status == "NONDIFFERENTIABLE"
        wrong = custom(torch.relu, lambda g, x: g * (x > 0) * 1.0005)
        assert check(wrong, (x,), fast_mode=fast).status == "FAIL"
    ties = torch.from_numpy(numpy.round(numpy.random.default_rng(0).uniform(-1, 1, (6, 20)), 1)).requires_grad_()
    for function in (lambda x: x.max(0).values, lambda x: x.sort(1).values, lambda x: x.amax(1) - x.amin(0).sum()):
        for fast in (False, True):
            assert check(function, (ties,), fast_mode=fast).status == "NONDIFFERENTIABLE"


def test_jumps_are_told_from_noise():
    assert check(lambda x: x.sign() + x, (exactly(0.0, 1.0),)).status == "NONDIFFERENTIABLE"
    noisy = check(lambda x: x + 1e-3 * (1e14 * x).sin().detach(), (exactly(0.3),))
    assert noisy.status != "PASS" and noisy.status != "NONDIFFERENTIABLE"


def test_rounding_is_not_blamed():
    """What cancels inside backward leaves rounding where the gradient is all but zero; errors still show."""
    x = exactly(*[[0.1 * i * j for i in range(1, 4)] for j in range(1, 4)])
    cancels = custom(lambda x: (x - x.mean(0)).sum(0), lambda g, x: (1e3 * g + x - x - 1e3 * g).expand(3, 3) + 0 * x)
    assert check(cancels, (x,)).status != "FAIL"
    assert check(custom(lambda x: 1e-9 * x.sin(), lambda g, x: 1.0005e-9 * g * x.cos()), (x,)).status == "FAIL"


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_low_precision_formulas_are_judged_in_float64(dtype):
    x = point(3, 3, dtype=dtype)
    assert check(WRONG["off by 0.05 %"], (x,)).status == "FAIL"
    only_low = custom(torch.sin, lambda g, x: g * x.cos() * (1.0 if x.dtype == torch.float64 else 1.2))
    verdict = check(only_low, (x,))
    assert verdict.status == "FAIL" and "in float64 at the same point" in verdict.message
    cancelling = custom(torch.tanh, lambda g, x: g * (1 - x.tanh() * x.tanh()))
    assert check(cancelling, (point(20, dtype=dtype, low=2.0, high=4.0),)).status == "PASS"


def test_gradients_must_not_depend_on_memory_layout():
    formula = lambda g, x: g * x.cos() * (1.0 if x.is_contiguous() else 1.01)  # noqa: E731
    for x in (point(4), point(3, 4), point(3, 4, dtype=torch.float32)):
        verdict = check(custom(torch.sin, formula), (x,))
        assert verdict.status == "FAIL" and "not contiguous" in verdict.message

    z = torch.from_numpy(numpy.array([1.0 + 2.0j, -0.5j, 0.3 + 0j])).requires_grad_()
    conjugated = custom(lambda z: (z * z).sum(), lambda g, z: 2 * g * z.conj() * (1.0 if z.is_contiguous() else 1.01))
    assert check(conjugated, (z,)).status == "FAIL"

    def insists(x):
        return x.view(-1) * 2

    assert check(insists, (point(3, 4),)).status == "PASS"


def test_batched_gradients():
    assert gradcheck(lambda x: (x @ x.T, x.softmax(0)), (point(3, 3),), check_batched_grad=True)
    merging = custom(torch.sin, lambda g, x: (g.view(-1) * x.cos().view(-1)).view(3, 3))
    assert gradcheck(merging, (point(3, 3),))
    with pytest.raises(GradcheckError, match="While computing batched gradients, got"):
        gradcheck(merging, (point(3, 3),), check_batched_grad=True)
    assert gradgradcheck(torch.tanh, (point(3),), check_batched_grad=True)


def test_forward_mode():
    for fast in (False, True):
        options = {"check_forward_ad": True, "check_batched_forward_grad": True, "fast_mode": fast}
        assert gradcheck(lambda x: (x @ x.T, x.softmax(0)), (point(3, 3),), **options)
        assert gradcheck(Scaled(torch.sin), (point(3),), **options)
        assert gradcheck(torch.sin, (point(3),), check_backward_ad=False, check_forward_ad=True, fast_mode=fast)
        assert gradgradcheck(torch.tanh, (point(3),), check_fwd_over_rev=True, fast_mode=fast)
    z = torch.from_numpy(numpy.array([0.3 + 1.0j, -0.7 + 0.2j])).requires_grad_()
    assert gradcheck(lambda z: z * z.conj() * z.sin(), (z,), check_forward_ad=True)
    blind = custom(torch.sin, lambda g, x: g.detach() * x.cos())  # right backward; forward mode goes through it
    assert gradcheck(blind, (point(3),))
    with pytest.raises(GradcheckError, match="in forward mode"):
        gradcheck(blind, (point(3),), check_forward_ad=True)


class PushesOnly(torch.autograd.Function):
    """Twice its input, with a rule for forward mode, which `times` makes wrong, and none for backward."""

    @staticmethod
    def forward(ctx, x, times):
        ctx.times = times
        return x * 2

    @staticmethod
    def jvp(ctx, tangent, _):
        return tangent * ctx.times


@pytest.mark.parametrize("fast", [False, True])
def test_forward_mode_alone_needs_no_backward(fast):
    options = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": fast}
    assert gradcheck(PushesOnly.apply, (point(3), 2), check_batched_forward_grad=True, **options)
    assert gradcheck(PushesOnly.apply, (point(30), 2), **options)
    with pytest.raises(GradcheckError, match="in forward mode"):
        gradcheck(PushesOnly.apply, (point(3), 3), **options)
    with pytest.raises(NotImplementedError, match="backward"):
        gradcheck(PushesOnly.apply, (point(3), 2))


def test_the_other_options_of_pytorch():
    x = point(3)
    assert gradcheck(torch.sin, (x,), masked=True)  # dense inputs have no mask: as in PyTorch nothing changes
    random = numpy.random.default_rng(0)
    shaky = custom(torch.sin, lambda g, x: g * x.cos() * (1 + 1e-9 * random.uniform()))
    with pytest.raises(GradcheckError, match="not reentrant"):
        gradcheck(shaky, (x,))
    assert gradcheck(shaky, (x,), nondet_tol=1e-6)
    assert gradcheck(torch.sin, (point(3, dtype=torch.float32),), check_grad_dtypes=True)


def test_random_functions_with_a_seed_and_indices():
    def dropped(x):
        torch.manual_seed(7)
        return torch.nn.functional.dropout(x, 0.4) * torch.rand_like(x)

    generator = torch.Generator()

    def sampled(x):
        return x * torch.rand(x.shape, generator=generator.manual_seed(3), dtype=x.dtype)

    for function in (dropped, sampled):
        for dtype in (torch.float64, torch.float32):
            verdict = check(function, (point(6, dtype=dtype),))
            assert verdict.status in ("PASS", "INCONCLUSIVE"), verdict
        assert check(function, (point(6),)).status == "PASS"
        assert check(lambda x, f=function: f(x) * x.detach(), (point(6),)).status == "FAIL"
    index = torch.tensor([[0, 2], [1, 1]])
    for function in (
        lambda x, i: torch.gather(x, 1, i),
        lambda x, i: torch.nn.functional.embedding(i, x),
        lambda x, i: x.index_add(0, i[1], x[:2]),
        lambda x, i: x * i.sum() + (i > 0).sum(),
    ):
        assert check(function, (point(3, 3), index)).status == "PASS"
        assert check(lambda x, i, f=function: f(x, i) * x.sum().detach(), (point(3, 3), index)).status == "FAIL"


def test_results_that_are_not_unique():
    """Eigenvectors have an arbitrary phase, singular vectors an arbitrary sign; the rest is checked."""
    random = numpy.random.default_rng(4)
    z = torch.from_numpy(random.normal(size=(3, 3)) + 1j * random.normal(size=(3, 3))).requires_grad_()
    x = point(3, 4, low=-1, high=1)

    def vectors(z):
        values, columns = torch.linalg.eigh(z + z.mH)
        return values, columns.abs()

    def projector(x):
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
        return s, u[:, :1] @ vh[:1]

    assert check(vectors, (z,)).status == "PASS"
    assert check(projector, (x,)).status == "PASS"
    assert check(lambda x: (x @ x.T).det() + torch.linalg.qr(x)[1].abs().sum(), (x,)).status == "PASS"
    assert check(lambda z: vectors(z)[1] * z.abs().sum().detach(), (z,)).status == "FAIL"


def test_undefined_gradients_of_outputs():
    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, one, other):
            return one * 2 + other * 3  # fails on None

    with pytest.raises(TypeError):
        gradcheck(Two.apply, (point(3),))
    assert gradcheck(Two.apply, (point(3),), check_undefined_grad=False)

    class Forgetful(Two):
        @staticmethod
        def backward(ctx, one, other):
            if one is None or other is None:
                return torch.zeros(3, dtype=torch.float64)
            return one * 2 + other * 3

    with pytest.raises(GradcheckError, match="when only output 0 has a gradient"):
        gradcheck(Forgetful.apply, (point(3),))
    assert gradcheck(Forgetful.apply, (point(3),), check_undefined_grad=False, fast_mode=True)


@pytest.mark.parametrize("result", [3.0, None, "text"])
def test_a_function_without_tensors_is_no_pass(result):
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(TypeError, match="func must return a tensor"):
        torch.autograd.gradcheck(lambda a: result, (x,))


def test_a_function_may_ask_for_gradients_itself():
    x = torch.tensor([0.5, 1.5, 2.0], dtype=torch.float64, requires_grad=True)

    def slope(x):
        return torch.autograd.grad((x**3).sum(), x, create_graph=True)[0]

    assert torch.autograd.gradcheck(slope, (x,)) and torch.autograd.gradgradcheck(slope, (x * 1,))


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("changed", "what"), [(lambda x: torch.cat([x, x]), "shape"), (lambda x: x.to(torch.float32), "dtype")]
)
def test_results_that_change_form_are_refused(changed, what, fast):
    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    with pytest.raises(AssertionError, match=f"the same {what}"):
        torch.autograd.gradcheck(lambda x: changed(x) if bool((x >= 1).all()) else x, (x,), fast_mode=fast)
    assert torch.autograd.gradcheck(changed, (x,), fast_mode=fast, atol=1e-2, eps=1e-2)
    assert x.item() == 1


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("held", [3, None, torch.nn.Linear(3, 5)])
def test_what_a_functions_attributes_are_called_means_nothing(held, order):
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.repeated = self.wanted = self.kept = held

        def forward(self, x):
            return x.sin()

    class Called:
        repeated = wanted = kept = held

        def __call__(self, x):
            return x.sin()

    judge = torch.autograd.gradcheck if order == 1 else torch.autograd.gradgradcheck
    for function in Held(), Called():
        assert judge(function, (point(3),))
