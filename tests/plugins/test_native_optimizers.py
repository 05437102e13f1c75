"""Kernels of optimizers: what `update` does, under every option that they serve, and declined under the others."""

import numpy
import pytest

import plugrad as torch
from plugrad import kernels
from plugrad.extend import Optimizer
from plugrad.testing.checks import optimizers as checks

in_c = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
SERVED = [
    ("Adam", {"weight_decay": 0.1, "eps": 1e-3}),
    ("Adam", {"maximize": True, "betas": (0.5, 0.6)}),
    ("AdamW", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
    ("RMSprop", {"alpha": 0.7, "weight_decay": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "weight_decay": 0.1}),
]


def with_options(name, options):
    return type(name, (getattr(torch.optim, name),), {"samples": staticmethod(lambda make: [make.args(**options)])})


@in_c
@pytest.mark.parametrize("name, options", SERVED)
def test_options_that_are_served(name, options):
    checks.kernels(with_options(name, options), "cpu")


@in_c
@pytest.mark.parametrize(
    "name, options", [("Adam", {"amsgrad": True}), ("RMSprop", {"centered": True}), ("RMSprop", {"momentum": 0.5})]
)
def test_options_that_are_declined_are_told(name, options):
    with pytest.raises(AssertionError, match="served no step"):
        checks.kernels(with_options(name, options), "cpu")


class Halving(Optimizer):
    elementwise = True

    def __init__(self, params, lr=0.5):
        super().__init__(params, {"lr": lr})

    def update(self, xp, p, g, state, group):
        p -= group["lr"] * g


def test_a_kernel_that_does_another_thing_is_found():
    class Wrong(Halving):
        pass

    @Wrong.kernel("cpu")
    def wrong(xp, p, g, state, group):
        p -= 1.001 * group["lr"] * g

    assert "kernels" not in checks.checks(Halving)
    with pytest.raises(AssertionError, match="kernel wrong against update"):
        checks.checks(Wrong)["kernels"](Wrong, "cpu")


def test_a_class_with_another_update_does_without_its_base_s_kernel():
    class Served(Halving):
        pass

    @Served.kernel("cpu")
    def never(xp, p, g, state, group):
        raise AssertionError("this is not the update of the class")

    class Other(Served):
        def update(self, xp, p, g, state, group):
            p -= 0.25 * g

    p = torch.ones(3, requires_grad=True)
    p.grad = torch.ones(3)
    Other([p]).step()
    assert p.tolist() == [0.75] * 3 and Halving.kernels == {}


@pytest.mark.parametrize("size", [5, 1 << 18])
def test_what_a_kernel_declines_is_updated_once(size):
    class Declined(Halving):
        pass

    calls = []

    @Declined.kernel("cpu")
    def declined(xp, p, g, state, group):
        calls.append(p.size)
        return NotImplemented

    p = torch.ones(size, requires_grad=True)
    p.grad = torch.ones(size)
    Declined([p], lr=0.5).step()
    assert calls and (p == 0.5).all()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1), (3, 1, 0, 2)])
def test_arrays_in_any_order_of_memory_are_flat_if_it_is_the_same(order):
    given = numpy.arange(120.0, dtype="f").reshape(2, 3, 4, 5)
    inverse = numpy.argsort(order)

    def laid_out(x):
        return torch.tensor(x.transpose(order).copy()).permute(*inverse).detach()

    p, q = laid_out(given).requires_grad_(), torch.tensor(given, requires_grad=True)
    assert p.stride() == tuple(s // 4 for s in given.transpose(order).copy().transpose(inverse).strides)
    for t in (p, q):
        optimizer = torch.optim.Adam([t], lr=0.1)
        for _ in range(3):
            t.grad = laid_out(given / 100) if t is p else torch.tensor(given / 100)
            optimizer.step()
    assert (p == q).all()


@in_c
def test_parameters_shared_out_among_threads_are_updated_as_one_after_the_other():
    """Small and large ones, empty ones, one that the kernel declines, and two in the same memory."""

    def stepped(kernels):
        kind = type("Descent", (torch.optim.SGD,), {"kernels": kernels})
        torch.manual_seed(0)
        own = [torch.randn(n) for n in (5000, 3, 0, 70_000, 9000, 1, 12_345, 8000)]
        both = torch.randn(20_000)
        data = [*own, torch.randn(90, 90).t(), torch.randn(7000).bfloat16(), both[:15_000], both[5000:]]
        parameters = [one.detach().requires_grad_() for one in data]
        descent = kind(parameters, lr=0.1, momentum=0.9)
        for p in parameters:
            p.grad = torch.randn_like(p)
        for _ in range(3):
            descent.step()
        return [p.detach() for p in parameters]

    for ours, plain in zip(stepped(torch.optim.SGD.kernels), stepped({}), strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-6, atol=1e-6)
