"""Ops that a device's backend can't run: an error that says so, or the CPU where that is allowed, and counted."""

import json
import types

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.backends import cpu_fallback
from plugrad.extend import Backend, op, reduction, scipy_of, unary, view
from plugrad.extend import rng as rng_of
from support.distribution_builder import ROOT, build, output, run
from support.fake_backend import Fake, FakeArray
from support.installing import installed


class Poor(Fake):
    """The fake device under another name; its kernels below lack this and that."""

    name = "poor"

    class _Array(FakeArray):
        pass

    array_type = _Array

    def from_numpy(self, array, index):
        return numpy.array(array, copy=True).view(self._Array)

    def scipy(self, name):
        return types.ModuleType("poor_special") if name == "special" else Backend.scipy(self, name)


class PoorModule:
    """An array module with hardly anything in it."""

    float32, int64, asarray = numpy.float32, numpy.int64, staticmethod(lambda a: numpy.asarray(a).view(Poor._Array))
    ndarray = Poor._Array

    def __getattr__(self, name):
        raise AttributeError(f"the poor module has no {name}")


Poor.xp = PoorModule()


@unary(once=True)
def poorly(xp, input):
    """The cube, by a function that the poor device lacks."""
    return xp.power(input, 3)


@poorly.vjp
def poorly_vjp(F, g, input):
    return F.poorly_grad(g, input)


@op(at=(), vjp=None)
def poorly_grad(xp, g, input):
    """What the formula of poorly needs."""
    return 3 * xp.multiply(g, xp.square(input))


@op
def pair(xp, input, others, *, factor=2):
    """Several results of a list of tensors."""
    if xp is not numpy:
        raise NotImplementedError("no lists here")
    return factor * input, [*others][0] + 1


@pair.vjp
def pair_vjp(F, g, factor):
    return factor * g[0]


@op(vjp=None)
def drawn(xp, input, generator=None):
    """Random numbers."""
    return rng_of(xp, generator).nothing_of_that_name(input.shape) if xp is not numpy else input


@view
def seen(xp, input):
    """A view."""
    return xp.flip(input, 0)


@seen.vjp
def seen_vjp(F, g):
    return F.seen(g)


@unary(vjp=None)
def faulty(xp, input):
    """A mistake of the kernel's own, on every device."""
    return input.no_such_attribute


@reduction(vjp=None)
def worst(xp, input, dim=None, keepdim=False):
    """The least element."""
    return xp.amin(input, dim, keepdims=keepdim)


@unary(vjp=None)
def erf_of_scipy(xp, input):
    """A function of SciPy's."""
    return scipy_of(xp, "special").erf(input)


@op(vjp=None)
def factored(xp, input):
    """A function of a part of SciPy for which the device has nothing."""
    return scipy_of(xp, "linalg").expm(input)


@pytest.fixture(scope="module", autouse=True)
def poor():
    ops = [poorly, poorly_grad, pair, drawn, seen, faulty, worst, erf_of_scipy, factored]
    with installed("plugrad-poor", backends=[Poor], ops=ops):
        yield


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """No rule and no count from another test."""
    monkeypatch.setattr(cpu_fallback, "_rules", [])
    monkeypatch.setattr(cpu_fallback, "_counts", {})


def there(*values, **options):
    return torch.tensor(list(values), device="poor", **options)


def test_it_is_off_and_the_error_says_how_to_allow_it():
    with pytest.raises(NotImplementedError) as caught:
        torch.poorly(there(1.0))
    assert type(caught.value) is torch.backends.MissingKernelError
    assert "op 'poor.poorly' can't run on device 'poor': AttributeError: the poor module has no" in str(caught.value)
    for part in ("plugrad.backends.fallback('poorly')", "PLUGRAD_FALLBACK=poorly", 'fallback = ["poorly"]'):
        assert part in str(caught.value)
    assert isinstance(caught.value.__cause__, AttributeError)
    with pytest.raises(NotImplementedError, match="no lists here.*plugrad.backends.fallback"):
        torch.pair(there(1.0), [there(1.0)])
    assert torch.backends.fallbacks() == {}


def test_allowed_it_computes_counts_and_warns_once():
    x = there(1.0, 2.0, requires_grad=True)
    with torch.backends.fallback("poorly"):
        with pytest.warns(torch.backends.FallbackWarning) as warned:
            for _ in range(3):
                y = torch.poorly(x)
        assert len(warned) == 1 and "op 'poor.poorly' can't run on 'poor'" in str(warned[0].message)
        assert y.device.type == "poor" and y.tolist() == [1, 8]
        with pytest.warns(torch.backends.FallbackWarning, match="poorly_grad"):
            y.backward(there(1.0, 1.0))  # what serves its gradient is meant, too
        assert x.grad.device.type == "poor" and x.grad.tolist() == [3, 12]
    assert torch.backends.fallbacks() == {("poor.poorly", "poor"): 3, ("poor.poorly_grad", "poor"): 1}
    with pytest.raises(torch.backends.MissingKernelError):
        torch.poorly(x)


def test_what_the_device_lacks_of_scipy():
    x = torch.zeros(2, 2)
    for call, why in (
        (torch.erf_of_scipy, "module 'poor_special' has no attribute 'erf'"),
        (torch.factored, "backend 'poor' has nothing in place of scipy.linalg"),
    ):
        with pytest.raises(torch.backends.MissingKernelError, match=why):
            call(x.to("poor"))
        with torch.backends.fallback(), pytest.warns(torch.backends.FallbackWarning):
            assert torch.equal(call(x.to("poor")).cpu(), call(x))


def test_lists_keywords_and_several_results():
    with torch.backends.fallback("pair"), pytest.warns(torch.backends.FallbackWarning):
        one, two = torch.pair(there(1.0), [there(5.0), there(6.0)], factor=4)
    assert (one.item(), two.item()) == (4, 6) and one.device.type == two.device.type == "poor"


def test_reductions_fall_back_with_their_dimensions():
    with torch.backends.fallback(), pytest.warns(torch.backends.FallbackWarning):
        assert torch.worst(there([3.0, 1.0], [0.0, 2.0]), dim=-1).tolist() == [1, 0]


def test_what_can_not_fall_back_is_refused():
    with torch.backends.fallback():
        with pytest.raises(torch.backends.MissingKernelError, match="nor on the CPU instead: its result has to share"):
            torch.seen(there(1.0, 2.0))
        generator = torch.Generator("poor")
        with pytest.raises(NotImplementedError, match="draws from a generator of the device"):
            raise_missing(generator)
        with pytest.raises(AttributeError, match="no_such_attribute"):
            torch.faulty(there(1.0))
    assert torch.backends.fallbacks() == {}


def raise_missing(generator):
    ttype = there(1.0)._type
    cpu_fallback.compute(drawn, ttype, [there(1.0)._raw, generator], NotImplementedError("no draws"))


class Refusing:
    def __mul__(self, other):
        raise NotImplementedError("no lists for you")


def test_errors_of_the_cpu_are_left_alone():
    with pytest.raises(AttributeError, match="no_such_attribute"):
        torch.faulty(torch.ones(1))
    with pytest.raises(NotImplementedError, match="^no lists for you$"):
        registry.op("pair").compute(torch.ones(1)._type, [None, None, Refusing()])
    assert torch.backends.fallbacks() == {}


@pytest.mark.filterwarnings("ignore::plugrad.backends.cpu_fallback.FallbackWarning")
def test_the_last_rule_decides():
    def runs():
        try:
            torch.poorly(there(2.0))
        except torch.backends.MissingKernelError:
            return False
        return True

    everywhere = torch.backends.fallback()
    assert runs()
    with torch.backends.no_fallback():
        assert not runs()
        with torch.backends.fallback("poor.poorly"):
            assert runs()
        assert not runs()
    with torch.backends.no_fallback("conv2d"):
        assert runs()
    everywhere.end()
    assert not runs() and not runs()
    with pytest.raises(TypeError, match="write names of ops"):
        torch.backends.fallback(torch.poorly)


@pytest.mark.filterwarnings("ignore::plugrad.backends.cpu_fallback.FallbackWarning")
def test_the_second_derivative_and_composites():
    x = there(2.0, requires_grad=True)
    with torch.backends.fallback():
        (g,) = torch.autograd.grad(torch.poorly(x), x, there(1.0), create_graph=True)
        assert g.tolist() == [12] and g.device.type == "poor"
        loss = torch.nn.functional.smooth_l1_loss(x.detach(), there(0.0), reduction="none")
        assert loss.tolist() == [1.5] and loss.device.type == "poor"
    assert {device for _, device in torch.backends.fallbacks()} == {"poor"}


PLUGIN = """
import numpy
from plugrad.extend import Backend, Op, collect, hookimpl, unary

class Array(numpy.ndarray):
    pass

class Poor(Backend):
    name, array_type, xp = "poor", Array, numpy

    def from_numpy(self, array, index):
        return array.copy().view(Array)

    def to_numpy(self, array):
        return array.view(numpy.ndarray)

@unary()
def cubed(xp, input):
    return input ** 3

@cubed.vjp
def cubed_vjp(F, g, input):
    return 3 * g * input * input

@cubed.kernel("poor")
def cubed_poor(xp, input):
    raise NotImplementedError("not written yet")

@hookimpl
def plugrad_ops():
    return collect(Op, globals())

@hookimpl
def plugrad_backends():
    return [Poor]
"""
USE = """
import json, warnings, plugrad
warnings.simplefilter("ignore")
x = plugrad.ones(2, device="poor", requires_grad=True)
try:
    plugrad.cubed(x).sum().backward()
    print(json.dumps(x.grad.tolist()))
except NotImplementedError as error:
    print(json.dumps(str(error)))
"""


def test_the_environment_and_files_allow_it(tmp_path):
    folder = build(tmp_path / "site", "plugrad-poor", {"plugrad": {"poor": "plugin_poor"}}, plugin_poor=PLUGIN)

    def outcome(**options):
        return json.loads(output(USE, folder, cwd=tmp_path, **options))

    assert "op 'poor.cubed' can't run on device 'poor': NotImplementedError: not written yet" in outcome()
    for value in ("cubed", "conv2d, poor.cubed", "all", "1"):
        assert outcome(PLUGRAD_FALLBACK=value) == [3, 3]
    assert "can't run" in outcome(PLUGRAD_FALLBACK="conv2d")
    for text, allowed in (("true", True), ('["cubed"]', True), ('["sin"]', False), ("false", False)):
        (tmp_path / "pyproject.toml").write_text(f"[tool.plugrad]\nfallback = {text}\n")
        assert (outcome() == [3, 3]) is allowed
        assert (outcome(PLUGRAD_FALLBACK="0") == [3, 3]) is False
    loud = USE.replace('simplefilter("ignore")', 'simplefilter("default")')
    done = run(loud, folder, cwd=ROOT, PLUGRAD_FALLBACK="all")
    (line,) = done.stderr.splitlines()
    assert "FallbackWarning: plugrad: op 'poor.cubed' can't run on 'poor'" in line


def test_a_formula_can_not_tell_a_parameter_y_from_the_output():
    @op()
    def product(xp, x, y):
        """The product."""
        return x * y

    with pytest.raises(TypeError, match="'y', which is the output, and its parameter 'y'"):
        product.vjp("x", "y")(lambda F, g, x, y: (g * y, g * x))


def test_a_kernel_of_one_device_is_neither_passed_over_nor_in_the_way_of_the_others(fake):
    """The general kernel is no more than an array function, which plain calls on other devices are."""
    ran = []

    @unary(promote="same")
    def opposite(xp, input):
        return xp.negative(input)

    @opposite.kernel("fake")
    def on_the_fake(xp, input):
        ran.append(input.dtype)
        return xp.negative(input)

    for dtype in (torch.float32, torch.int64):
        x = torch.ones(2, dtype=dtype)
        assert opposite(x).tolist() == [-1, -1] and not ran and opposite.plan.direct == "negative"
        assert opposite(x.to(fake)).tolist() == [-1, -1] and ran
        ran.clear()
        assert opposite.in_place(x.to(fake)).tolist() == [-1, -1] and ran
        ran.clear()
