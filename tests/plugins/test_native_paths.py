"""Kernels in C of connectionist temporal classification against those of NumPy: paths, and where there is none."""

import itertools

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, registry

pytestmark = pytest.mark.skipif(kernels.why_none() is not None, reason="there are no kernels in C")
LEVELS = kernels.levels() if kernels.why_none() is None else []
SIZES = (1, 1, 2, 0), (1, 2, 3, 1), (5, 2, 3, 2), (12, 4, 6, 5), (50, 3, 30, 20), (40, 2, 300, 18)  # T, N, C, S


def drawn(times, samples, classes, most, dtype, seed):
    random = numpy.random.default_rng(seed)
    scores = random.normal(size=(times, samples, classes)) * 3
    scores -= numpy.log(numpy.exp(scores).sum(-1, keepdims=True))
    targets = random.integers(1, max(2, min(classes, 4)), (samples, most))  # few labels, of which many are repeated
    lengths = random.integers(0, most + 1, samples)
    ends = [random.integers(min(times, 2 * n), times + 1) for n in lengths]
    return scores.astype(dtype), targets, tuple(map(int, ends)), tuple(map(int, lengths)), 0


def both(level, name, *args):
    kernel, call = registry.ops[name].kernels, kernels.module().kernels(level)[1]
    with numpy.errstate(all="ignore"):
        return kernel["cpu"].adapter(call[name], numpy, *args), kernel["*"](numpy, *args)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients(sizes, dtype, level):
    served = 0
    for seed in range(12):
        given = drawn(*sizes, dtype, seed)
        ours, theirs = both(level, "ctc", *given)
        limits = {"rtol": 2e-5, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-11, "atol": 1e-11}
        numpy.testing.assert_allclose(ours, theirs, **limits)
        g = numpy.random.default_rng(seed).normal(size=sizes[1]).astype(dtype)
        ours, theirs = both(level, "ctc_grad", g, *given)
        if ours is NotImplemented:  # a sample has no path at all
            assert numpy.isnan(theirs).any()
            continue
        served += 1
        numpy.testing.assert_allclose(ours, theirs, **{one: 20 * limit for one, limit in limits.items()})
    assert served


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_not_served(level):
    scores, targets, ends, lengths, blank = drawn(5, 2, 3, 2, "float32", 0)
    call, values = kernels.module().kernels(level)[1]["ctc"], numpy.empty(2, "float32")

    def served(scores=scores, targets=targets, lengths=(ends, lengths), blank=blank):
        return call(scores, targets, numpy.array(lengths, "int64"), values, blank) is None

    assert served()
    assert not served(blank=3) and not served(blank=-1)
    assert not served(lengths=((6, 5), (1, 1))) and not served(lengths=((5, 5), (3, 1)))
    assert not served(lengths=((5, -1), (1, 1))) and not served(lengths=((5,), (1,)))
    assert not served(targets=numpy.array([[1, 3], [1, 1]]), lengths=((5, 5), (2, 2)))
    assert not served(targets=targets.astype("int32"))
    for wrong in (numpy.nan, numpy.inf):
        other = scores.copy()
        other[1, 1, 1] = wrong
        assert not served(other)


def test_impossible_samples_are_infinite_and_may_be_zero():
    scores = torch.randn(2, 2, 4).log_softmax(-1).requires_grad_()
    targets, lengths = torch.tensor([[1, 1, 2], [3, 0, 0]]), ((2, 2), (3, 1))
    for zero in (False, True):
        loss = torch.nn.functional.ctc_loss(scores, targets, *lengths, reduction="none", zero_infinity=zero)
        assert loss.tolist()[0] == (0.0 if zero else float("inf")) and 0 < loss.tolist()[1] < 20
        (g,) = torch.autograd.grad(loss.sum(), scores)
        assert torch.isfinite(g[:, 1]).all() and (g[:, 0] == 0).all().item() is zero
    weighed = numpy.array([0.0, 1.0], "float32")
    given = scores.detach().numpy(), targets.numpy(), *lengths, 0
    for one in both(LEVELS[-1], "ctc_grad", weighed, *given):
        assert (one[:, 0] == 0).all() and numpy.isfinite(one).all()


def test_results_do_not_depend_on_the_number_of_threads():
    given = drawn(60, 9, 40, 20, "float32", 3)
    g, before = numpy.ones(9, "float32"), kernels.module().get_num_threads()
    try:
        results = []
        for threads in (1, 2, 5):
            kernels.module().set_num_threads(threads)
            values, grads = both(LEVELS[-1], "ctc", *given)[0], both(LEVELS[-1], "ctc_grad", g, *given)[0]
            results.append((values.tobytes(), grads if grads is NotImplemented else grads.tobytes()))
    finally:
        kernels.module().set_num_threads(before)
    assert all(one == other for one, other in itertools.pairwise(results))
