"""What the methods of custom Functions return: what is wrong is refused, by PyTorch's type of error."""

from __future__ import annotations

import collections
import warnings

import numpy
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

Pair = collections.namedtuple("Pair", "one other")
PLAIN = {
    "None": lambda T, t: None, "a number": lambda T, t: 1, "a bool": lambda T, t: True, "a text": lambda T, t: "a",
    "a dict": lambda T, t: {"a": t}, "an array": lambda T, t: numpy.ones(2, numpy.float32), "(t,)": lambda T, t: (t,),
    "[]": lambda T, t: [], "()": lambda T, t: (), "[t]": lambda T, t: [t], "[t, t]": lambda T, t: [t, t * 2],
    "(t, 1)": lambda T, t: (t, 1), "(1, t)": lambda T, t: (1, t), "((t,), t)": lambda T, t: ((t,), t * 3),
    "a generator": lambda T, t: (one for one in [t]), "(None,)": lambda T, t: (None,), "[None]": lambda T, t: [None],
    "(t, None)": lambda T, t: (t, None), "(None, t)": lambda T, t: (None, t), "a pair": lambda T, t: Pair(t, t * 2),
    "a size": lambda T, t: T.Size([2]), "integers": lambda T, t: t.long(), "a dtype": lambda T, t: T.float32,
    "(t, integers)": lambda T, t: (t, t.long()), "(t, [t])": lambda T, t: (t, [t * 5]), "t": lambda T, t: t,
}  # fmt: skip
OF_WALKS = PLAIN | {
    "longer": lambda T, t: T.ones(3), "shorter": lambda T, t: T.ones(1), "one number": lambda T, t: T.ones(()),
    "higher": lambda T, t: T.ones(3, 2), "upright": lambda T, t: T.ones(2, 1), "float64": lambda T, t: t.double(),
    "complex": lambda T, t: t.to(T.complex64), "bools": lambda T, t: t.bool(), "[t, None]": lambda T, t: [t, None],
    "elsewhere": lambda T, t: T.ones(2, device="meta"), "(t, None, None)": lambda T, t: (t, None, None),
}  # fmt: skip
PLACES = {
    "(x, 0)": lambda x: (x, 0), "(x, None)": lambda x: (x, None), "x": lambda x: x, "None": lambda x: None,
    "(x, 5)": lambda x: (x, 5), "(x, 0, 0)": lambda x: (x, 0, 0), "[x, 0]": lambda x: [x, 0],
    "(x, -1)": lambda x: (x, -1),
    "((x,), 0)": lambda x: ((x,), 0), "(x, (0,))": lambda x: (x, (0,)), "(x, 'a')": lambda x: (x, "a"),
    "(x, 0.0)": lambda x: (x, 0.0), "(1, 0)": lambda x: (1, 0), "((x, x), (0, None))": lambda x: ((x, x), (0, None)),
}  # fmt: skip


def function(T, forward=lambda T, t: t * 2, backward=None, **further):
    """Return a Function whose methods return what these functions say."""
    methods = {"backward": staticmethod(lambda ctx, *g: backward(T, g[0]) if backward else g[0])}
    if "setup_context" in further:
        methods["forward"] = staticmethod(lambda x, *more: forward(T, x))
    else:
        methods["forward"] = staticmethod(lambda ctx, x, *more: forward(T, x))
    return type("F", (T.autograd.Function,), methods | {name: staticmethod(one) for name, one in further.items()})


def shown(T, value, history=True):
    """Return what is to be seen of a result."""
    if isinstance(value, T.Tensor):
        seen = tuple(value.shape), str(value.dtype)
        return (*seen, value.requires_grad, type(value.grad_fn).__name__) if history else seen
    if isinstance(value, (tuple, list)):
        return type(value).__name__, [shown(T, one, history and type(value) is tuple) for one in value]
    return type(value).__name__


def agree(call):
    """Compare what a call shows with both libraries, or the types of its errors."""
    outcomes = []
    for T in (torch, plugrad):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outcomes.append(shown(T, call(T)))
        except Exception as error:
            outcomes.append(type(error).__name__)
    assert outcomes[1] == outcomes[0]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("returned", PLAIN)
def test_forward_and_setup_context(returned, requires_grad):
    def leaf(T):
        return T.ones(2, requires_grad=requires_grad)

    value = PLAIN[returned]
    agree(lambda T: function(T, value).apply(leaf(T)))
    agree(lambda T: function(T, lambda T, t: value(T, t * 2)).apply(leaf(T)))
    agree(lambda T: function(T, value, setup_context=lambda ctx, given, output: None).apply(leaf(T)))
    agree(lambda T: function(T, setup_context=lambda ctx, given, output: value(T, output)).apply(leaf(T)))


@pytest.mark.parametrize("more", [(), (3,)])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("returned", OF_WALKS)
def test_backward(returned, create_graph, more):
    def gradient(T):
        x = T.ones(2, requires_grad=True)
        y = function(T, backward=OF_WALKS[returned]).apply(x, *more)
        return T.autograd.grad(y.sum(), x, create_graph=create_graph, allow_unused=True)[0]

    agree(gradient)


@pytest.mark.parametrize("returned", OF_WALKS)
def test_jvp(returned):
    def tangents(T, forward):
        with T.autograd.forward_ad.dual_level():
            x = T.autograd.forward_ad.make_dual(T.ones(2), T.ones(2))
            y = function(T, forward, jvp=lambda ctx, t: OF_WALKS[returned](T, t)).apply(x)
            return tuple([T.autograd.forward_ad.unpack_dual(one).tangent for one in (y if type(y) is tuple else (y,))])

    # None for an output that could change fails by an internal assertion there; here it says that it does not.
    if returned not in ("None", "(None,)"):
        agree(lambda T: tangents(T, lambda T, t: t * 2))
    if returned not in ("(t, None)", "(None, t)"):
        agree(lambda T: tangents(T, lambda T, t: (t * 2, t * 3)))


@pytest.mark.parametrize("returned", PLACES)
def test_vmap(returned):
    def mapped(T):
        rule = {"vmap": lambda info, dims, x: PLACES[returned](x * 1)}
        return T.vmap(function(T, setup_context=lambda *_: None, **rule).apply)(T.ones(3, 2))

    agree(mapped)


@pytest.mark.parametrize("name", ["save_for_backward", "save_for_forward", "mark_dirty", "mark_non_differentiable"])
@pytest.mark.parametrize("kept", [1, "a", [1], None, numpy.ones(2)], ids=str)
def test_what_a_context_is_given(name, kept):
    def call(T):
        def setup_context(ctx, given, output):
            getattr(ctx, name)(kept)

        return function(T, setup_context=setup_context).apply(T.ones(2, requires_grad=True))

    agree(call)


def test_a_list_that_forward_returns_is_a_list_whose_tensors_have_history():
    x = plugrad.ones(2, requires_grad=True)
    results = function(plugrad, lambda T, t: [t * 2, t * 3], lambda T, g: g).apply(x)
    assert type(results) is list and all(one.requires_grad for one in results)
