"""Options that can't be met are refused and not dropped, and NaN in a matrix reaches all that is computed from it."""

from __future__ import annotations

import math
import random

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")
BOTH = (torch, plugrad)

CAPTURABLE = ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop", "RMSprop", "Adadelta"]
LIKE = ["ones_like", "rand_like", "randn_like"]


@pytest.mark.parametrize("more", [{}, {"foreach": True}, {"differentiable": True}])
@pytest.mark.parametrize("name", CAPTURABLE)
def test_nothing_on_the_cpu_can_be_captured(name, more):
    for library in BOTH:
        p = library.tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(library.optim, name)([p], capturable=True, **more)
        optimizer.step()  # nothing has a gradient: nothing is asked
        p.grad = library.ones(2)
        with pytest.raises(AssertionError, match="If capturable=True, params"):
            optimizer.step()
        assert p.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_a_fused_step_is_not_asked_whether_it_can_be_captured(name):
    results = []
    for library in BOTH:
        p = library.tensor([1.0, 2.0], requires_grad=True)
        p.grad = library.ones(2)
        getattr(library.optim, name)([p], capturable=True, fused=True).step()
        results.append(p.detach().numpy())
    numpy.testing.assert_allclose(*results, rtol=1e-6)


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_a_layout_is_met_or_refused_and_never_dropped(layout):
    x, layout = plugrad.ones(2, 2), getattr(plugrad, layout)
    met = [
        plugrad.zeros_like(x, layout=layout),
        plugrad.empty_like(x, layout=layout),
        x.new_zeros((2, 2), layout=layout),
        x.new_empty((2, 2), layout=layout),
    ]
    assert [(one.layout, one.shape) for one in met] == [(layout, (2, 2))] * 4
    calls = [lambda name=name: getattr(plugrad, name)(x, layout=layout) for name in LIKE]
    calls += [
        lambda: plugrad.full_like(x, 2.0, layout=layout),
        lambda: plugrad.randint_like(x, 5, layout=layout),
        lambda: plugrad.randint(5, (2,), layout=layout),
        lambda: plugrad.normal(0.0, 1.0, (2,), layout=layout),
        lambda: x.new_ones((2, 2), layout=layout),
        lambda: x.new_full((2,), 1.0, layout=layout),
        lambda: x.new_empty_strided((2,), (1,), layout=layout),
    ]
    for call in calls:
        with pytest.raises(NotImplementedError, match="strided tensors only"):
            call()
    assert plugrad.zeros_like(x, layout=plugrad.strided).shape == x.shape


@pytest.mark.parametrize("mode", [None, 0, 1, True, "euclid", [1]])
def test_the_mode_of_distances_is_one_of_three_words(mode):
    for library in BOTH:
        x = library.ones(2, 2)
        with pytest.raises(ValueError, match="not a valid value for compute_mode"):
            library.cdist(x, x, compute_mode=mode)


@pytest.mark.parametrize("value", [1.0, 1j])
def test_the_operator_of_bits_refuses_numbers_that_have_none(value):
    for library in BOTH:
        with pytest.raises(TypeError, match="only implemented on integer and Boolean"):
            ~library.tensor([value])
        with pytest.raises(NotImplementedError):
            library.bitwise_not(library.tensor([value]))


def matrices():
    draw = random.Random(3)
    for case in range(60):
        n = draw.choice([2, 3, 5])
        a = numpy.array([[draw.gauss(0, 1) for _ in range(n)] for _ in range(n)])
        a = [a, numpy.triu(a), numpy.diag(numpy.diag(a))][case % 3]
        a[draw.randrange(n), draw.randrange(n)] = math.nan
        yield a


@pytest.mark.parametrize("name", ["inv", "det", "inv_ex", "solve"])
def test_nan_spreads_through_elimination_as_in_pytorch(name):
    for a in matrices():
        more = [numpy.ones((len(a), 1))] if name == "solve" else []
        expected, actual = (getattr(lib.linalg, name)(*map(lib.tensor, [a, *more])) for lib in BOTH)
        pairs = zip(expected, actual, strict=True) if isinstance(expected, tuple) else [(expected, actual)]
        for right, result in pairs:
            numpy.testing.assert_allclose(result.numpy(), right.numpy(), rtol=1e-9, atol=1e-12, err_msg=str(a))


def test_factors_do_not_lose_a_nan():
    """Which of two rows goes up, one with NaN or one with a number, is each library's own choice."""
    for a in matrices():
        for library in BOTH:
            factors = library.linalg.lu_factor(library.tensor(a)).LU
            assert math.isnan(factors[-1, -1].item()), a


def test_a_nan_spoils_no_other_matrix_of_the_batch():
    a = plugrad.tensor([[[2.0, 0.0], [0.0, 4.0]], [[math.nan, 1.0], [2.0, 3.0]]])
    assert plugrad.linalg.inv(a)[0].tolist() == [[0.5, 0.0], [0.0, 0.25]]
    assert plugrad.linalg.solve(a, plugrad.ones(2, 1))[0].tolist() == [[0.5], [0.25]]
    assert bool(plugrad.linalg.inv(a)[1].isnan().all())
