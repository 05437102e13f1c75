"""The fast path and the general path agree: in bits, memory, history, saved values, gradients and errors.

Every op with all of its samples is called twice, on fresh and equal inputs: as programs call it, and with everything
sent to the general path. All that can be seen of the two calls is compared, see `support.call_snapshots`.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
import warnings
from collections import Counter
from dataclasses import dataclass

import pytest

import plugrad
from plugrad import registry
from plugrad.autograd import nan_guard
from plugrad.dispatch import factories, interpreter
from plugrad.graph import modes
from plugrad.testing import Sample, samples_of
from plugrad.testing.samples import Maker
from plugrad.testing.tensors import is_float, tensors_in
from support import call_variations, third_party_ops
from support.call_snapshots import Snapshot, differences
from support.call_variations import WRITTEN

# ---------------------------------------------------------------------------------------------------- the two paths

GENERAL = {interpreter.apply.__code__, factories.create.__code__}  # what carries out a call on the general path


@contextlib.contextmanager
def general_path():
    """Send every call inside to the general path."""
    modes.special.add("test")
    modes.elsewhere.add("test")
    try:
        yield
    finally:
        modes.elsewhere.discard("test")
        modes.special.discard("test")


# ---------------------------------------------------------------------------------------------------- observing


def observe(variation, context) -> dict:
    """Carry out a call; return all that can be seen of it."""
    plugrad.manual_seed(0)
    function, args, kwargs, leaves = variation.make()
    seen = Snapshot()
    for number, leaf in enumerate(leaves):
        seen.value(f"leaf {number}", leaf)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's
        with context(), variation.context():
            after, failure = _called(function, args, kwargs)
            if failure is None:
                _backward(after, after.result, leaves, variation.second)
    seen.facts["error"] = failure
    seen.facts.update({f"after: {place}": fact for place, fact in after.facts.items()})
    seen.facts["warnings"] = [(one.category.__name__, str(one.message)) for one in raised]
    return seen.facts


def _called(function, args, kwargs) -> tuple:
    """Make a call; return a snapshot of its inputs and results, and its error if it raised one."""
    seen, failure = Snapshot(), None
    try:
        seen.result = function(*args, **kwargs)
    except Exception as error:
        failure = type(error).__name__, str(error)
    seen.value("input", (args, kwargs))
    seen.value("result", seen.result)
    seen.graph()
    return seen, failure


def entered_of(variation, context) -> Counter:
    """Carry out a call under a profiler; return how often it took the general path, by op."""
    entered: Counter = Counter()

    def profile(frame, event, argument):
        if event == "call" and frame.f_code in GENERAL:
            entered[frame.f_locals["op"].qualname] += 1

    plugrad.manual_seed(0)
    function, args, kwargs, _ = variation.make()
    with warnings.catch_warnings(), context(), variation.context(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        sys.setprofile(profile)
        try:
            function(*args, **kwargs)
        finally:
            sys.setprofile(None)
    return entered


def _cotangents(results) -> list:
    """Return fresh tensors like these, with the same random values for the same shapes and dtypes."""
    drawn = _drawn(tuple((tuple(y.shape), y.dtype) for y in results))
    return [plugrad.from_numpy(values.copy()).to(y.dtype) for values, y in zip(drawn, results, strict=True)]


@functools.cache
def _drawn(kinds) -> list:
    make = Maker("cotangents")
    wide = [plugrad.complex128 if dtype.is_complex else plugrad.float64 for _, dtype in kinds]
    drawn = [make(*shape, dtype=dtype, requires_grad=False) for shape, dtype in kinds]
    return [tensor.to(dtype).numpy() for tensor, dtype in zip(drawn, wide, strict=True)]


def _backward(seen, result, leaves, second):
    """Note the gradients of a call's results, with fixed random gradients coming in."""
    results = [y for y in tensors_in(result) if y.requires_grad and is_float(y) and not y.is_leaf]
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    if not results or not wanted:
        return
    try:
        if second:
            pulls = [pull.requires_grad_() for pull in _cotangents(results)]
            grads = plugrad.autograd.grad(results, wanted, pulls, create_graph=True, allow_unused=True)
            seen.value("gradient", grads)
            results = [g for g in grads if g is not None and g.requires_grad]
            wanted += pulls
        plugrad.autograd.backward(results, _cotangents(results))
        seen.released()
    except Exception as error:
        seen.facts["error in backward"] = (type(error).__name__, str(error))
    for number, leaf in enumerate(wanted):
        seen.value(f"grad {number}", leaf.grad)


# ---------------------------------------------------------------------------------------------------- what is known

ALL = ".*"


@dataclass
class Known:
    """A known difference: its reason, the variations and the places it shows in, and ops in which it must occur.

    Other ops are excused, too, if it may be met `anywhere`.
    """

    reason: str
    label: str
    place: str
    ops: list
    anywhere: bool = False

    def covers(self, op: str, label: str, place: str) -> bool:
        """Whether a difference is this one."""
        named = self.anywhere or op in self.ops
        return named and bool(re.search(self.label, label)) and bool(re.fullmatch(self.place, place))


KNOWN = [
    Known(
        "the fast path does not bring up to date a view that has no gradient, since it needs only its data",
        "views of a written base", "after: order of nodes", ["affine"],
    ),
    Known(
        "the fast path asks other arguments than inputs whether they make the gradient complex",
        r"argument 1 is \(1\+2j\)", r"after: grad \d+\.(dtype|strides|type|bits)", ["bce_logits", "mse"],
    ),
    Known(
        "an op for complex numbers is given real ones: the fast path leaves its gradient complex",
        "first in float32", r"after: grad \d+\.(dtype|strides|type|bits)", ["angle_of_complex"],
    ),
    Known(
        "the fast path trusts our formulas to give gradients of the right shape; these calls should be refused",
        "0-d|empty|argument 2 is None", r"after: (grad|order|error|node).*",
        ["contract", "strided_sum", "strided_read", "put_in_zeros", "diagonal_in_zeros"],
    ),
]  # fmt: skip


# ---------------------------------------------------------------------------------------------------- tests

UNSET = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
OPS = [name for name, op in registry.ops.items() if op.provider.builtin]


def compare(name, variations) -> dict:
    """Return what differs between the paths: the variation's label -> place -> (fast, general)."""
    apart = {}
    for variation in variations:
        fast, general = observe(variation, contextlib.nullcontext), observe(variation, general_path)
        unequal = differences(fast, general)
        if name in UNSET:
            unequal = {place: pair for place, pair in unequal.items() if not place.endswith(".bits")}
        if unequal:
            apart[variation.label] = unequal
    return apart


def settle(name, apart):
    """Assert that what differs is known, and that what is known of the op does differ."""
    met, news = set(), {}
    for label, unequal in apart.items():
        for place, pair in unequal.items():
            known = next((i for i, one in enumerate(KNOWN) if one.covers(name, label, place)), None)
            if known is None:
                news.setdefault(label, {})[place] = pair
            else:
                met.add(known)
    assert not news, report(news)
    stale = [one.reason for i, one in enumerate(KNOWN) if name in one.ops and i not in met]
    assert not stale, f"does not differ any more, remove from KNOWN: {stale}"


@pytest.fixture(scope="module", autouse=True)
def nothing_is_learned():
    """Walks of `zero_safe`, in whichever test before, learn of which nodes' gradients they have to look at."""
    for cls in nan_guard._suspects:
        cls.pure = True
    nan_guard._suspects.clear()


@pytest.mark.parametrize("name", OPS)
def test_op(name):
    settle(name, compare(name, call_variations.of_op(registry.ops[name])))


@pytest.mark.parametrize("label", WRITTEN)
def test_written_call(label):
    settle(label, compare(label, call_variations.of_call(label, *WRITTEN[label])))


@pytest.mark.parametrize("op", third_party_ops.OPS, ids=lambda op: op.name)
def test_op_of_a_third_party(op):
    settle(op.name, compare(op.name, call_variations.of_op(op)))


@contextlib.contextmanager
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


WARNING = {
    "x / 0": lambda x: x / 0,
    "0 / x": lambda x: 0 / (x - x),
    "x.log()": lambda x: (x - x).log(),
    "x.exp()": lambda x: (x * 1e6).exp(),
    "x ** y": lambda x: (x - x) ** -1.0,
    "x.sum(0)": lambda x: (x * 1e38).sum(0),
    "x.prod()": lambda x: (x * 1e38).prod(),
    "x @ x": lambda x: (x * 1e38) @ (x * 1e38),
    "x.exp_()": lambda x: (x * 60).exp_(),
    "x /= 0": lambda x: (x * 1).div_(0),
}


@pytest.mark.parametrize("label", WARNING)
def test_warnings_of_numpy_as_errors(label):
    """Where a program makes all warnings errors, what overflows is computed all the same, in place once."""
    make = Maker("warnings", plugrad.float32)
    given = call_variations.Prepared(Sample((make(3, 3, low=0.5, high=2.0),)))

    def called(graded):
        def inputs():
            fresh, leaves = given.fresh(graded)
            return WARNING[label], fresh.args, {}, leaves

        return call_variations.Variation(f"{label}, {len(graded)} require grad", inputs, _warnings_are_errors)

    calls = [called(given.graded), called(frozenset())]
    assert [observe(one, contextlib.nullcontext)["error"] for one in calls] == [None, None]
    settle(label, compare(label, calls))


FLOORS = {"unary": 0.97, "binary": 0.85, "elementwise": 0.9, "reduction": 0.9, "view": 0.95, "op": 0.9, "factory": 0.9}


@pytest.mark.parametrize("family", FLOORS)
def test_the_fast_path_is_taken(family):
    """Of all samples of a family most take the fast path, so that there are two paths to compare."""
    calls, slow = 0, Counter()
    for name in OPS:
        op = registry.ops[name]
        for sample in samples_of(op, plugrad.float32) if op.family == family else ():
            calls += 1
            slow[name] += name in entered_of(call_variations.as_given(op, sample), contextlib.nullcontext)
    share = 1 - slow.total() / calls
    assert share >= FLOORS[family], f"{share:.1%} of {calls} calls; the others: {+slow}"


def test_general_path_is_general():
    """What `general_path` says is true of ops, in-place forms, item assignment and factories."""
    calls = {
        "mul": lambda: plugrad.ones(2) * 2,
        "exp": lambda: plugrad.ones(2).exp_(),
        "basic_index": lambda: plugrad.ones(2).__setitem__(0, 2.0),
        "zeros": lambda: plugrad.zeros(2),
    }
    for name, call_it in calls.items():
        variation = call_variations.Variation(name, lambda call_it=call_it: (call_it, (), {}, []))
        assert entered_of(variation, general_path)[name] >= 1  # twice, if a class that overrides ops exists
        assert entered_of(variation, contextlib.nullcontext)[name] == 0


@pytest.mark.skipif(plugrad.kernels.level() is None, reason="halves are computed in C alone")
@pytest.mark.parametrize("dtype", [plugrad.float16, plugrad.bfloat16])
def test_halves_take_the_fast_path_with_numbers_that_they_hold(dtype):
    x = plugrad.ones(2, dtype=dtype)
    calls = [
        ("mul", lambda: x * 2, 0), ("mul", lambda: x * 0.1, 1), ("sub", lambda: 1 - x, 0), ("add", lambda: x + 1e6, 1),
        ("add", lambda: x + -0.0, 1), ("div", lambda: x / 0.5, 0), ("exp", x.exp, 0), ("relu", x.relu, 0),
    ]  # fmt: skip
    for name, call_it, general in calls:
        variation = call_variations.Variation(name, lambda call_it=call_it: (call_it, (), {}, []))
        assert min(1, entered_of(variation, contextlib.nullcontext)[name]) == general, name
        assert call_it().dtype is dtype


def report(apart) -> str:
    """Return the differences as text."""
    lines = []
    for label, unequal in apart.items():
        lines.append(f"{label}:")
        for place, (one, other) in unequal.items():
            lines.append(f"    {place}: fast {_short(one)}, general {_short(other)}")
    return "\n".join(lines)


def _short(fact) -> str:
    text = repr(fact)
    return text if len(text) < 400 else text[:400] + "..."
