"""Distributions against PyTorch's: draws, densities, moments, gradients, divergences, transforms, errors."""

# ruff: noqa: B023 (functions of loop variables are called at once)
from __future__ import annotations

import itertools

import numpy
import pytest

import plugrad

CORE = numpy.random.default_rng(0)


def real(*shape):
    return CORE.normal(size=shape)


def positive(*shape):
    return CORE.gamma(2.0, size=shape) + 0.2


def share(*shape):
    return CORE.uniform(0.05, 0.95, size=shape)


def factor(n, *batch):
    return numpy.linalg.cholesky(covariance(n, *batch))


def covariance(n, *batch):
    root = CORE.normal(size=(*batch, n, n))
    return root @ numpy.swapaxes(root, -1, -2) + n * numpy.eye(n)


LOC_SCALE = dict(loc=real, scale=positive)
PARAMETERS = {  # of one distribution, by what makes each in a batch's shape
    **{name: [LOC_SCALE] for name in ("Normal", "Laplace", "Cauchy", "Gumbel", "LogNormal")},
    **{name: [dict(scale=positive)] for name in ("HalfNormal", "HalfCauchy")},
    "Uniform": [dict(low=real, high=lambda *s: real(*s) + 6)], "Exponential": [dict(rate=positive)],
    "Gamma": [dict(concentration=positive, rate=positive), dict(concentration=share, rate=positive)],
    "Chi2": [dict(df=positive)], "InverseGamma": [dict(concentration=lambda *s: positive(*s) + 2, rate=positive)],
    **{name: [dict(concentration1=positive, concentration0=positive)] for name in ("Beta", "Kumaraswamy")},
    "StudentT": [dict(df=positive, **LOC_SCALE)], "FisherSnedecor": [dict(df1=positive, df2=positive)],
    "Pareto": [dict(scale=positive, alpha=positive)], "Weibull": [dict(scale=positive, concentration=positive)],
    "VonMises": [dict(loc=real, concentration=positive)],
    **{n: [dict(probs=share), dict(logits=real)] for n in ("Bernoulli", "Geometric", "ContinuousBernoulli")},
    "Binomial": [dict(total_count=7, probs=share), dict(total_count=40, logits=real)],
    "NegativeBinomial": [dict(total_count=positive, probs=share), dict(total_count=3, logits=real)],
    "Poisson": [dict(rate=lambda *s: 5 * positive(*s))],
    **{
        name: [dict(probs=lambda *s: positive(*s, 4)), dict(logits=lambda *s: real(*s, 4))]
        for name in ("Categorical", "OneHotCategorical", "OneHotCategoricalStraightThrough")
    },
    "Multinomial": [dict(total_count=6, probs=lambda *s: positive(*s, 4))],
    "Dirichlet": [dict(concentration=lambda *s: positive(*s, 4)), dict(concentration=lambda *s: share(*s, 4))],
    "RelaxedBernoulli": [dict(temperature=lambda *s: numpy.array(0.7), logits=real)],
    "RelaxedOneHotCategorical": [dict(temperature=lambda *s: numpy.array(0.7), probs=lambda *s: positive(*s, 4))],
    "LogisticNormal": [dict(loc=lambda *s: real(*s, 3), scale=lambda *s: positive(*s, 3))],
    "MultivariateNormal": [
        dict(loc=lambda *s: real(*s, 3), covariance_matrix=lambda *s: covariance(3)),
        dict(loc=lambda *s: real(3), precision_matrix=lambda *s: covariance(3, *s)),
        dict(loc=lambda *s: real(*s, 3), scale_tril=lambda *s: factor(3, *s)),
    ],
    "LowRankMultivariateNormal": [
        dict(
            loc=lambda *s: real(*s, 4), cov_factor=lambda *s: real(4, 2), cov_diag=lambda *s: positive(*s, 4)
        )
    ],
    "LKJCholesky": [dict(dim=3, concentration=positive)],
    "Wishart": [dict(df=lambda *s: positive(*s) + 5, covariance_matrix=lambda *s: covariance(3, *s))],
}  # fmt: skip
# PyTorch's implicit gradients are approximations of three digits; its Wishart draws everything twice.
ROUGH = {"Gamma", "Chi2", "Beta", "Dirichlet", "StudentT", "FisherSnedecor", "InverseGamma"}
CASES = [(name, i) for name, several in PARAMETERS.items() for i in range(len(several))]


def given(name, index, batch):
    """Arguments as plain values: the same for both libraries."""
    made = PARAMETERS[name][index]
    return {key: make if isinstance(make, int) else make(*batch).tolist() for key, make in made.items()}


def build(library, name, arguments, grad=False):
    tensors = {
        key: value if isinstance(value, int) else library.tensor(value, dtype=library.float64, requires_grad=grad)
        for key, value in arguments.items()
    }
    leaves = [value for value in tensors.values() if not isinstance(value, int)]
    return getattr(library.distributions, name)(**tensors), leaves


def outcome(library, read):
    """What is read, as arrays; the error's type where it is not there."""
    library.manual_seed(3)
    try:
        several = read(library)
    except (NotImplementedError, ValueError) as error:
        return type(error)
    several = several if isinstance(several, (list, tuple)) else [several]
    return [one if one is None or isinstance(one, str) else numpy.array(one.detach().tolist()) for one in several]


def same(torch, read, tolerance=1e-6):
    ours, theirs = outcome(plugrad, read), outcome(torch, read)
    if isinstance(ours, type) or isinstance(theirs, type):
        assert ours is theirs
        return
    for one, other in zip(ours, theirs, strict=True):
        if one is None or isinstance(one, str) or other is None:
            assert one == other
        else:
            assert one.shape == other.shape
            numpy.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.filterwarnings("ignore:Singular sample")
@pytest.mark.parametrize("batch", [(), (2, 3)], ids=str)
@pytest.mark.parametrize(("name", "index"), CASES)
def test_values(torch, name, index, batch):
    arguments = given(name, index, batch)
    values = build(torch, name, arguments)[0].sample((3,)).tolist()

    def value(library):
        return library.tensor(values, dtype=library.float64)

    def make(library):
        return build(library, name, arguments)[0]

    if name != "Wishart":
        same(torch, lambda lib: [make(lib).sample((2, 5)), lib.rand(1)])
        same(torch, lambda lib: [make(lib).rsample((4,)), lib.rand(1)])
    for read in ("mean", "mode", "variance", "stddev"):
        same(torch, lambda lib: getattr(make(lib), read))
    for read in ("entropy", "enumerate_support"):
        same(torch, lambda lib: getattr(make(lib), read)())
    same(torch, lambda lib: make(lib).log_prob(value(lib)))
    same(torch, lambda lib: make(lib).cdf(value(lib)))
    same(torch, lambda lib: make(lib).icdf(lib.full(batch, 0.3, dtype=lib.float64)))
    same(torch, lambda lib: [repr(make(lib)), repr(make(lib).support), repr(make(lib).arg_constraints)])
    same(torch, lambda lib: make(lib).expand((2, *batch)).log_prob(value(lib)[0]))


@pytest.mark.parametrize(("name", "index"), [case for case in CASES if case[0] not in ("Wishart", "VonMises")])
def test_gradients(torch, name, index):
    arguments = given(name, index, (2,))
    values = build(torch, name, arguments)[0].sample((3,)).tolist()

    def of_log_prob(library):
        distribution, leaves = build(library, name, arguments, True)
        value = library.tensor(values, dtype=library.float64, requires_grad=True)
        return library.autograd.grad(distribution.log_prob(value).sum(), [*leaves, value], allow_unused=True)

    def of_draws(library):
        distribution, leaves = build(library, name, arguments, True)
        drawn = distribution.rsample((5,))
        weights = library.arange(drawn.numel(), dtype=library.float64).reshape(drawn.shape).cos()
        return library.autograd.grad((drawn * weights).sum(), leaves, allow_unused=True)

    def of_entropy(library):
        distribution, leaves = build(library, name, arguments, True)
        return library.autograd.grad(distribution.entropy().sum(), leaves, allow_unused=True)

    same(torch, of_log_prob)
    same(torch, of_draws, 2e-3 if name in ROUGH else 1e-6)
    same(torch, of_entropy)


def test_divergences_of_all_pairs(torch):
    arguments = {name: given(name, 0, (2,)) for name in PARAMETERS}
    every = {lib: {name: build(lib, name, arguments[name])[0] for name in PARAMETERS} for lib in (torch, plugrad)}
    for p, q in itertools.product(PARAMETERS, PARAMETERS):
        same(torch, lambda lib: lib.distributions.kl_divergence(every[lib][p], every[lib][q]))


WRONG = {
    "scale": lambda d, t: d.Normal(0.0, -1.0), "nan": lambda d, t: d.Normal(float("nan"), 1.0),
    "text": lambda d, t: d.Normal("0", 1.0), "probs": lambda d, t: d.Bernoulli(1.5),
    "both": lambda d, t: d.Bernoulli(probs=0.5, logits=0.0), "neither": lambda d, t: d.Categorical(),
    "0-d": lambda d, t: d.Categorical(t.tensor(1.0)), "order": lambda d, t: d.Uniform(1.0, 0.0),
    "support": lambda d, t: d.Exponential(1.0).log_prob(t.tensor(-1.0)),
    "number": lambda d, t: d.Normal(0.0, 1.0).log_prob(0.5),
    "shape": lambda d, t: d.Normal(t.zeros(3), 1.0).log_prob(t.zeros(2)),
    "event": lambda d, t: d.Dirichlet(t.ones(3)).log_prob(t.ones(2) / 2),
    "matrices": lambda d, t: d.MultivariateNormal(t.zeros(2), t.eye(2), t.eye(2)),
    "not definite": lambda d, t: d.MultivariateNormal(t.zeros(2), -t.eye(2)),
    "independent": lambda d, t: d.Independent(d.Normal(0.0, 1.0), 1), "geometric": lambda d, t: d.Geometric(0.0),
    "transforms": lambda d, t: d.TransformedDistribution(d.Normal(0.0, 1.0), "exp"),
    "mixture": lambda d, t: d.MixtureSameFamily(d.Categorical(t.ones(3)), d.Normal(t.zeros(2), 1.0)),
    "total": lambda d, t: d.Multinomial(t.tensor(3), t.ones(2)), "lkj": lambda d, t: d.LKJCholesky(1),
    "mean": lambda d, t: d.TransformedDistribution(d.Normal(0.0, 1.0), d.ExpTransform()).mean,
    "kl": lambda d, t: d.kl_divergence(d.Gumbel(0.0, 1.0), d.StudentT(3.0)),
    "default": lambda d, t: d.Distribution.set_default_validate_args("yes"),
    "constraint": lambda d, t: d.biject_to(d.constraints.one_hot), "cache": lambda d, t: d.ExpTransform(cache_size=2),
    "reshape": lambda d, t: d.ReshapeTransform((2, 3), (4,)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_raise_pytorchs_errors(torch, name):
    def error(library):
        with pytest.raises(Exception) as caught:
            WRONG[name](library.distributions, library)
        return type(caught.value).__name__

    assert error(plugrad) == error(torch)


def test_a_subclass_with_a_constructor_of_its_own_has_to_expand_itself():
    class Wide(plugrad.distributions.Normal):
        def __init__(self, loc):
            super().__init__(loc, 3.0)

    with pytest.raises(NotImplementedError, match="custom .expand"):
        Wide(plugrad.zeros(2)).expand((3, 2))


TRANSFORMS = {
    "ExpTransform": [()], "SigmoidTransform": [()], "TanhTransform": [()], "SoftplusTransform": [()],
    "AbsTransform": [()], "PowerTransform": [(2.5,)], "AffineTransform": [(0.5, -2.0), (1.0, 3.0, 1)],
    "SoftmaxTransform": [()], "StickBreakingTransform": [()], "CorrCholeskyTransform": [()],
    "LowerCholeskyTransform": [()], "PositiveDefiniteTransform": [()], "ReshapeTransform": [((6,), (2, 3))],
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(torch, name):
    matrices = name in ("LowerCholeskyTransform", "PositiveDefiniteTransform")
    values = (numpy.abs(real(2, 3, 3)) if matrices else numpy.abs(real(2, 6)) + 0.1).tolist()
    for arguments in TRANSFORMS[name]:

        def read(library):
            transform = getattr(library.distributions, name)(*arguments)
            x = library.tensor(values, dtype=library.float64, requires_grad=True)
            y = transform(x)
            results = [y, transform.inv(y), str(tuple(transform.forward_shape(x.shape))), repr(transform)]
            if transform.bijective:
                results.append(transform.log_abs_det_jacobian(x, y))
            results += [str(transform.bijective), repr(transform.domain), repr(transform.codomain)]
            return [*results, *library.autograd.grad(y.sin().sum(), x)]

        same(torch, read)


def test_chains_of_transforms(torch):
    def read(library):
        d = library.distributions
        x = library.tensor([[0.3, -0.2, 0.7]], dtype=library.float64)
        chain = d.ComposeTransform([d.AffineTransform(0.1, 2.0), d.StickBreakingTransform()])
        parts = d.CatTransform([d.ExpTransform(), d.TanhTransform()], dim=-1, lengths=[1, 2])
        rows = d.StackTransform([d.ExpTransform(), d.identity_transform, d.TanhTransform()], dim=-1)
        whole = d.IndependentTransform(d.ExpTransform(), 1)
        results = []
        for one in (chain, parts, rows, whole, chain.inv.inv):
            y = one(x)
            results += [y, one.inv(y), one.log_abs_det_jacobian(x, y), repr(one.domain), repr(one.codomain)]
        cached = d.ExpTransform(cache_size=1)
        kept = cached.inv(cached(x)) is x
        return [*results, str(kept), str(chain == chain.inv.inv), repr(chain)]

    same(torch, read)


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_to_constraints(torch, registry):
    values = real(3, 3).tolist()

    def read(library):
        c, results = library.distributions.constraints, []
        regions = [c.real, c.positive, c.greater_than(2.0), c.less_than(-1.0), c.interval(-1.0, 3.0), c.unit_interval,
                   c.simplex, c.corr_cholesky, c.independent(c.positive, 1), c.cat([c.positive, c.real], -1, [1, 2]),
                   c.stack([c.real, c.positive, c.real], -1)]  # fmt: skip
        for region in regions:
            transform = getattr(library.distributions, registry)(region)
            y = transform(library.tensor(values, dtype=library.float64))
            results += [y, region.check(y), transform.inv(y), repr(region)]
        return results

    same(torch, read)


def test_pytorchs_paths_of_modules():
    from plugrad.distributions import constraint_registry, normal, transformed_distribution
    from plugrad.distributions.kl import kl_divergence
    from plugrad.distributions.multivariate_normal import MultivariateNormal

    assert normal.Normal is plugrad.distributions.Normal
    assert transformed_distribution.TransformedDistribution is plugrad.distributions.TransformedDistribution
    assert MultivariateNormal is plugrad.distributions.MultivariateNormal
    assert constraint_registry.biject_to is plugrad.distributions.biject_to
    assert kl_divergence is plugrad.distributions.kl_divergence


def test_every_name_is_there(torch):
    assert set(plugrad.distributions.__all__) == set(torch.distributions.__all__)
    assert all([hasattr(plugrad.distributions, name) for name in torch.distributions.__all__])
