"""Checks of distributions: what is drawn against what is said of it, densities against distribution functions.

Numbers drawn are compared within six standard errors: with seeds that are fixed, a right distribution never fails.
"""

from __future__ import annotations

import inspect
import math

import plugrad
from plugrad.distributions import kl_divergence, transform_to
from plugrad.testing.calls import Skip, agree
from plugrad.testing.checks import documents
from plugrad.testing.checks.guesses import declared
from plugrad.testing.samples import Maker, as_sample

DRAWS = 2000
ERRORS = 6.0


def checks(cls) -> dict:
    """Return the checks of a distribution class by name."""
    chosen = documents.checks(cls) | CHECKS
    return chosen if cls.has_rsample else {name: one for name, one in chosen.items() if name != "gradients of draws"}


def built(cls, grad=False) -> list:
    """Return distributions to check: of the arguments that `cls.samples(make)` yields, or its constraints allow.

    With `grad` as pairs (distribution, its tensors that require grad).
    """
    source = declared(cls) if "samples" in vars(cls) else None  # a subclass may take other arguments
    samples = [_guessed(cls)] if source is None else [as_sample(given) for given in source(Maker(cls.__name__))]
    pairs = []
    for sample in samples:
        sample = sample.map(lambda tensor: tensor.detach().requires_grad_(grad and tensor.is_floating_point()))
        pairs.append((cls(*sample.args, **sample.kwargs), [one for one in sample.tensors() if one.requires_grad]))
    return pairs if grad else [one for one, _ in pairs]


def _guessed(cls):
    """Arguments in the class's constraints: numbers, or vectors of three, in a batch of two."""
    regions = getattr(cls, "arg_constraints", {})
    regions = regions if isinstance(regions, dict) else {}
    parameters = list(inspect.signature(cls).parameters.values())
    names = [one.name for one in parameters if one.default is one.empty]
    names = names or [one.name for one in parameters if one.name in regions][:1]
    make = Maker(cls.__name__)
    arguments = {}
    for name in names:
        try:
            region = regions[name]
            shape = (2, *(3,) * region.event_dim)
            arguments[name] = transform_to(region)(make(*shape, requires_grad=False))
        except (KeyError, NotImplementedError):
            raise Skip(
                f"no arguments are known for {name!r}: declare a static method samples(make) that yields the "
                "constructor's arguments"
            ) from None
    return make.args(**arguments)


def _draws(one, count=DRAWS):
    plugrad.manual_seed(0)
    return one.sample((count,))


def _known(read):
    """What a property or method gives; Skip if it is not there."""
    try:
        return read()
    except NotImplementedError as reason:
        raise Skip(str(reason) or "it is not there") from None


def _one_number(one) -> None:
    if len(one.event_shape):
        raise Skip("its samples are no single numbers")


def samples(cls, device):
    """It can be constructed, draws in the right shape and in its support, and equal numbers for equal seeds."""
    for one in built(cls):
        plugrad.manual_seed(0)
        drawn, again = one.sample((3, 2)), _draws(one, 6).reshape((3, 2, *one.batch_shape, *one.event_shape))
        wanted = (3, 2, *one.batch_shape, *one.event_shape)
        assert tuple(drawn.shape) == wanted, f"sample((3, 2)) has the shape {tuple(drawn.shape)}, {wanted} is right"
        assert not drawn.requires_grad, "sample() returns a tensor that requires grad: draw under no_grad()"
        assert bool(one.support.check(drawn).all()), f"it draws what its support {one.support!r} does not have"
        assert drawn.numel() == again.numel()
        plugrad.manual_seed(0)
        assert plugrad.equal(one.sample((3, 2)), drawn), "equal seeds give other samples: draw by plugrad's functions"


def log_prob(cls, device):
    """`log_prob` gives one finite number for each draw."""
    for one in built(cls):
        value = one.log_prob(_draws(one, 20))
        wanted = (20, *one.batch_shape)
        assert tuple(value.shape) == wanted, f"log_prob has the shape {tuple(value.shape)}, {wanted} is right"
        assert bool(value.isfinite().all()), "log_prob of what it draws itself is not finite"


def _near(measured, wanted, spread, what):
    """Fail unless means over draws are near what they should be, where both are finite."""
    error = ERRORS * (spread / math.sqrt(DRAWS)) + 1e-5 * (1 + wanted.abs())
    known = wanted.isfinite() & error.isfinite()
    far = known & ((measured - wanted).abs() > error)
    if bool(far.any()):
        at = int(far.reshape(-1).to(plugrad.int64).argmax())
        numbers = [f"{float(one.expand(far.shape).reshape(-1)[at]):.6g}" for one in (measured, wanted)]
        raise AssertionError(f"{what}: {DRAWS} draws give {numbers[0]}, not {numbers[1]}")


def moments(cls, device):
    """Mean and variance of draws are those that `mean` and `variance` tell."""
    for one in built(cls):
        mean, variance = _known(lambda: one.mean), _known(lambda: one.variance)  # noqa: B023
        drawn = _draws(one).to(mean.dtype)
        if not bool(variance.isfinite().all()) or type(one).__name__ == "VonMises":
            raise Skip("its variance is not finite, or not that of numbers on a line")
        _near(drawn.mean(0), mean, variance.sqrt(), "the mean")
        squares = (drawn - mean) ** 2
        _near(squares.mean(0), variance, squares.std(0), "the variance")


def entropy(cls, device):
    """`entropy` is the mean of -log_prob over draws."""
    for one in built(cls):
        told = _known(one.entropy)
        terms = -one.log_prob(_draws(one))
        _near(terms.mean(0), told, terms.std(0), "the entropy")


def distribution_function(cls, device):
    """`cdf` is that of the draws, rises, and its slope is the density."""
    for one in built(cls):
        _one_number(one)
        drawn = _draws(one)
        told = _known(lambda: one.cdf(drawn))  # noqa: B023
        if one.support.is_discrete:
            raise Skip("it has steps")
        order, steps = told.sort(0).values, (plugrad.arange(DRAWS) + 0.5) / DRAWS
        far = (order - steps.reshape(-1, *(1,) * len(one.batch_shape))).abs().max()
        assert float(far) < 2.5 / math.sqrt(DRAWS), f"cdf differs by {float(far):.3g} from the frequency of the draws"
        at = drawn[:20].double().requires_grad_()
        cumulated = one.cdf(at)
        if not cumulated.requires_grad:
            raise Skip("cdf has no gradient")
        (slope,) = plugrad.autograd.grad(cumulated.sum(), at)
        agree(
            [one.log_prob(at).exp().detach()],
            [slope],
            "the slope of cdf against exp(log_prob)",
            rtol=1e-3,
            atol=1e-3,
            check_dtype=False,
        )


def inverse(cls, device):
    """`icdf` is the inverse of `cdf`."""
    for one in built(cls):
        _one_number(one)
        shares = plugrad.linspace(0.02, 0.98, 25).reshape(-1, *(1,) * len(one.batch_shape))
        values = _known(lambda: one.icdf(shares))  # noqa: B023
        back = _known(lambda: one.cdf(values))  # noqa: B023
        agree(
            [back], [shares.expand(back.shape).to(back.dtype)], "cdf(icdf(u))", rtol=1e-3, atol=1e-3, check_dtype=False
        )


def total(cls, device):
    """The probabilities add up to 1; of numbers on a line, to the share of draws between two quantiles."""
    for one in built(cls):
        if one.has_enumerate_support:
            mass = one.log_prob(one.enumerate_support()).exp().sum(0)
            agree(
                [mass],
                [plugrad.ones_like(mass)],
                "the sum of all probabilities",
                rtol=1e-4,
                atol=1e-4,
                check_dtype=False,
            )
            continue
        _one_number(one)
        drawn = _draws(one).double()
        if one.support.is_discrete:
            counts = plugrad.arange(float(drawn.max()) + 1).reshape(-1, *(1,) * len(one.batch_shape))
            mass = one.log_prob(counts.expand(-1, *one.batch_shape)).exp().sum(0)
            assert float((mass - 1).abs().max()) < 0.02, f"the probabilities add up to {mass.tolist()}"
            continue
        low, high = drawn.quantile(0.05, 0), drawn.quantile(0.95, 0)
        part = plugrad.linspace(0, 1, 4001, dtype=plugrad.float64).reshape(-1, *(1,) * len(one.batch_shape))
        density = one.log_prob(low + part * (high - low)).exp()
        mass = plugrad.trapezoid(density, dim=0).double() * (high - low) / 4000
        far = float((mass - 0.9).abs().max())
        assert far < ERRORS * math.sqrt(0.09 / DRAWS), (
            f"the density between the quantiles of 90 % holds {mass.tolist()}"
        )


def gradients_of_draws(cls, device):
    """Gradients reach the parameters through `rsample`, and on the average are those of the mean."""
    for one, leaves in built(cls, grad=True):
        if not leaves:
            raise Skip("it has no parameter that requires grad")
        plugrad.manual_seed(0)
        drawn = one.rsample((DRAWS,))
        assert drawn.requires_grad, "rsample() has no gradient: set has_rsample = False, or draw so that it has"
        given = plugrad.autograd.grad(drawn.sum(), leaves, allow_unused=True, retain_graph=True)
        assert any([g is not None for g in given]), "rsample() has no gradient for any of its parameters"
        mean, variance = _known(lambda: one.mean), _known(lambda: one.variance)  # noqa: B023
        if not (mean.requires_grad and bool(variance.isfinite().all())):
            raise Skip("its mean has no gradient, or its variance is not finite")
        wanted = plugrad.autograd.grad(mean.sum(), leaves, allow_unused=True)
        for place, (got, want) in enumerate(zip(given, wanted)):
            if got is None or want is None:
                continue
            spread = 30 * (1 + want.abs())  # of single gradients; a wrong formula is far off all the same
            _near(got / DRAWS, want, spread / ERRORS, f"the mean gradient of draws for tensor {place}")


def expand(cls, device):
    """`expand` gives the same distribution in a larger batch, and leaves the first as it was."""
    for one in built(cls):
        value, shape = _draws(one, 1)[0], one.batch_shape
        larger = one.expand((2, *shape))
        assert tuple(larger.batch_shape) == (2, *shape), f"expand((2, ...)) has the batch {tuple(larger.batch_shape)}"
        assert type(larger) is type(one), f"expand() returns {type(larger).__name__}"
        agree(
            [larger.log_prob(value)],
            [one.log_prob(value).expand((2, *shape))],
            "log_prob after expand()",
            rtol=1e-6,
            atol=1e-6,
        )
        assert tuple(one.batch_shape) == tuple(shape)


def divergence(cls, device):
    """The divergence of a distribution from itself is 0, where there is a rule for it."""
    for one in built(cls):
        told = _known(lambda: kl_divergence(one, one))  # noqa: B023
        assert float(told.abs().max()) < 1e-4, f"KL(p || p) is {told.tolist()}, it must be 0"


def shown(cls, device):
    """`repr` begins with the class's name."""
    for one in built(cls):
        assert repr(one).startswith(cls.__name__), f"repr is {one!r}"


CHECKS = {
    "samples": samples, "log_prob": log_prob, "moments": moments, "entropy": entropy,
    "distribution function": distribution_function, "inverse": inverse, "total": total,
    "gradients of draws": gradients_of_draws, "expand": expand, "divergence": divergence, "repr": shown,
}  # fmt: skip
