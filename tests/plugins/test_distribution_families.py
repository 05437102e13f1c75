"""Our distributions pass the checks of `plugrad check`, and a third party's are found like ours."""

from __future__ import annotations

import math

import pytest

import plugrad
from plugrad import distributions, registry
from plugrad.distributions import Distribution, constraints, kl_divergence, register_kl
from plugrad.extend import register, unregister
from plugrad.testing import conformance
from support.distribution_builder import build, output


@pytest.mark.parametrize("name", registry.names_in("distributions"))
def test_checks(name):
    reasons = [case.run() for case in conformance.checks_of(f"distributions.{name}")]
    assert reasons.count(None) >= 6, reasons  # docstring, signature, samples, log_prob, expand, repr at least


class Triangular(Distribution):
    """The triangular distribution on [0, 2 * peak].

    >>> import plugrad
    """

    arg_constraints = {"peak": constraints.positive}
    has_rsample = True

    def __init__(self, peak, validate_args=None):
        self.peak = plugrad.as_tensor(peak)
        super().__init__(self.peak.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(0.0, 2 * self.peak)

    mean = property(lambda self: self.peak)
    variance = property(lambda self: self.peak**2 / 6)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return (plugrad.rand(shape) + plugrad.rand(shape)) * self.peak

    def log_prob(self, value):
        return (1 - (value / self.peak - 1).abs()).log() - self.peak.log()

    def entropy(self):
        return 0.5 + self.peak.log()

    def expand(self, batch_shape, _instance=None):
        return type(self)(self.peak.expand(batch_shape))


class Wrong(Triangular):
    """A triangular distribution whose variance and entropy are wrong, and whose density is."""

    arg_constraints = Triangular.arg_constraints
    variance = property(lambda self: self.peak**2 / 3)

    def log_prob(self, value):
        return super().log_prob(value) + 0.3

    def entropy(self):
        return 0.9 + self.peak.log()

    def expand(self, batch_shape, _instance=None):
        return Triangular(self.peak.expand(batch_shape))


def failures(cls) -> set:
    failed = set()
    for case in conformance.checks_of(cls):
        try:
            case.run()
        except AssertionError:
            failed.add(case.name)
    return failed


def test_a_right_one_passes():
    assert not failures(Triangular)


def test_what_is_wrong_is_seen():
    assert failures(Wrong) >= {"moments", "entropy", "total", "expand"}


def test_a_program_registers_its_own():
    @register_kl(Triangular, Triangular)
    def triangles(p, q):
        return (q.peak / p.peak).log()

    register(Triangular)
    try:
        assert distributions.Triangular is Triangular
        assert "Triangular" in dir(distributions)
        assert float(kl_divergence(Triangular(1.0), Triangular(2.0))) == pytest.approx(math.log(2))
    finally:
        unregister(Triangular)
    with pytest.raises(AttributeError, match="Triangular"):
        distributions.Triangular  # noqa: B018


STRANGER = """
import plugrad
from plugrad.distributions import Distribution, Normal, constraints, register_kl
from plugrad.extend import collect, hookimpl

class Point(Distribution):
    arg_constraints = {"at": constraints.real}
    support = constraints.real

    def __init__(self, at, validate_args=None):
        self.at = plugrad.as_tensor(at)
        super().__init__(self.at.shape, validate_args=validate_args)

    def sample(self, sample_shape=()):
        return self.at.expand(self._extended_shape(sample_shape))

@register_kl(Point, Normal)
def from_point(p, q):
    return -q.log_prob(p.at)

@hookimpl
def plugrad_distributions():
    return collect(Distribution, globals())
"""


def test_a_third_partys_is_promised_and_loaded_at_its_first_use(tmp_path):
    build(tmp_path, "plugrad-point", {"plugrad.distributions": {"Point": "point_stranger"}}, point_stranger=STRANGER)
    program = """
import sys, plugrad as torch
assert "plugrad.distributions" not in sys.modules
assert "Point" in dir(torch.distributions) and "point_stranger" not in sys.modules
point = torch.distributions.Point(0.0)
print(point, point.sample((2,)).shape, torch.distributions.kl_divergence(point, torch.distributions.Normal(0.0, 1.0)))
"""
    assert output(program, tmp_path) == "Point(at: 0.0) torch.Size([2]) tensor(0.9189)\n"


def test_only_classes_of_distributions_are_taken():
    with pytest.raises(TypeError, match="Distribution"):
        register(distributions=[plugrad.nn.Linear])


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 1.0, 3.7, 20.0])
def test_implicit_gradients_against_differences(alpha):
    """Of what gammainc tells at both sides of a shape, at fixed samples."""
    special = pytest.importorskip("scipy.special")
    at = plugrad.tensor([0.2, 0.7, 0.99, 1.01, 1.6], dtype=plugrad.float64) * alpha
    step = 1e-4 * alpha
    shapes = plugrad.full_like(at, alpha)
    told = plugrad._standard_gamma_grad(shapes, at).numpy()
    x = at.numpy()
    rise = (special.gammainc(alpha + step, x) - special.gammainc(alpha - step, x)) / (2 * step)
    density = plugrad.distributions.Gamma(shapes, 1.0).log_prob(at).exp().numpy()
    assert told == pytest.approx(-rise / density, rel=1e-5)


SCIPY = {
    "Beta": ("beta", (2.0, 3.0), lambda a, b: dict(a=a, b=b)),
    "Gamma": ("gamma", (2.0, 3.0), lambda a, b: dict(a=a, scale=1 / b)),
    "StudentT": ("t", (3.0, 0.5, 2.0), lambda df, loc, scale: dict(df=df, loc=loc, scale=scale)),
    "Weibull": ("weibull_min", (2.0, 3.0), lambda scale, c: dict(c=c, scale=scale)),
    "Gumbel": ("gumbel_r", (0.5, 2.0), lambda loc, scale: dict(loc=loc, scale=scale)),
    "Pareto": ("pareto", (2.0, 5.0), lambda scale, b: dict(b=b, scale=scale)),
    "FisherSnedecor": ("f", (4.0, 9.0), lambda a, b: dict(dfn=a, dfd=b)),
    "VonMises": ("vonmises", (0.5, 3.0), lambda loc, kappa: dict(loc=loc, kappa=kappa)),
    "GeneralizedPareto": ("genpareto", (0.5, 2.0, 0.2), lambda loc, scale, c: dict(c=c, loc=loc, scale=scale)),
}  # fmt: skip


@pytest.mark.parametrize("name", SCIPY)
def test_densities_against_scipy(name):
    stats = pytest.importorskip("scipy.stats")
    theirs, arguments, names = SCIPY[name]
    ours = getattr(distributions, name)(*[plugrad.tensor(one, dtype=plugrad.float64) for one in arguments])
    plugrad.manual_seed(1)
    drawn = ours.sample((50,))
    other = getattr(stats, theirs)(**names(*arguments))
    assert ours.log_prob(drawn).numpy() == pytest.approx(other.logpdf(drawn.numpy()), rel=1e-9, abs=1e-12)
    if name != "VonMises":
        assert float(ours.mean) == pytest.approx(other.mean())
        assert float(ours.variance) == pytest.approx(other.var())
    assert stats.kstest(drawn.numpy(), other.cdf).pvalue > 1e-3


def test_an_entropy_is_no_bregman_divergence_without_the_mean_of_the_carrier_measure():
    concentration = plugrad.tensor([0.5, 1.5])
    for distribution in (distributions.Beta(concentration, concentration), distributions.Dirichlet(concentration)):
        with pytest.raises(NotImplementedError):
            distributions.ExponentialFamily.entropy(distribution)
    gamma = distributions.Gamma(concentration, concentration)
    assert plugrad.allclose(distributions.ExponentialFamily.entropy(gamma), gamma.entropy())
