"""Nobody else sees the memory of a `.grad`: no other gradient, saved tensor, hook or array of the user's."""

from __future__ import annotations

import itertools
import sys
import threading

import numpy
import pytest

import plugrad as torch
from plugrad.autograd import accumulate
from plugrad.autograd import leaves as leaves_of_walks


def param(*shape):
    return torch.ones(*shape, requires_grad=True)


def assert_apart(*tensors):
    """No two of the tensors share memory, and each can be written."""
    for one, other in itertools.combinations(tensors, 2):
        assert not numpy.shares_memory(one.detach().numpy(), other.detach().numpy())
    for tensor in tensors:
        assert tensor._raw.flags.writeable and 0 not in tensor._raw.strides


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *tensors):
        return sum(t.detach() for t in tensors)

    @staticmethod
    def backward(ctx, g):
        return (g,) * len(ctx.needs_input_grad)


# What makes one tensor of two leaves of shape (3,) such that gradients are handed on as they are, or as views.
PASSING = {
    "add": lambda a, b: a + b,
    "twice": lambda a, b: a + b + a,
    "views": lambda a, b: a.view(3, 1)[:, 0] + b[...],
    "reversed": lambda a, b: a.flip(0) + b.unsqueeze(0).squeeze(0),
    "cat": lambda a, b: torch.cat([a, b])[:3] + torch.stack([a, b])[0],
    "split": lambda a, b: sum(torch.cat([a, b]).split(3)),
    "expand": lambda a, b: (a.expand(2, 3) + b.expand(2, 3)).sum(0),
    "function": lambda a, b: Identity.apply(a, b),
    "matrix": lambda a, b: (a.view(1, 3).t() + b.view(3, 1)).view(3),
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("name", PASSING)
def test_gradients_of_two_leaves_and_the_one_passed_in(name, safe, create):
    a, b, g = param(3), param(3), torch.ones(3)
    with torch.autograd.zero_safe(safe):
        PASSING[name](a, b).backward(g, create_graph=create)
    assert_apart(a.grad, b.grad, g)


@pytest.mark.parametrize("safe", [False, True])
@pytest.mark.parametrize("name", PASSING)
def test_gradients_that_grad_returns(name, safe):
    a, b, g = param(3), param(3), torch.ones(3)
    y = PASSING[name](a, b)
    with torch.autograd.zero_safe(safe):
        assert_apart(g, *torch.autograd.grad(y, [a, b, y, a], g, retain_graph=True))


@pytest.mark.parametrize("name", PASSING)
def test_gradients_of_chosen_inputs_that_are_leaves_or_not(name):
    a, b, g = param(3), param(3), torch.ones(3)
    hidden = a + 0.0
    PASSING[name](hidden, b).backward(g, inputs=[hidden, b])
    assert a.grad is None
    assert_apart(hidden.grad, b.grad, g)


@pytest.mark.parametrize("create", [False, True])
def test_retained_gradients(create):
    a, g = param(3), torch.ones(3)
    chain = [a]
    for _ in range(3):
        chain.append(chain[-1] + 0.0)
        chain[-1].retain_grad()
    chain[-1].backward(g, create_graph=create)
    assert_apart(g, *(t.grad for t in chain))


def test_the_gradient_of_a_view_of_a_leaf():
    a, g = param(2, 3), torch.ones(3, 2)
    a.t().backward(g)
    assert_apart(a.grad, g)
    b = param(1)
    b.expand(4).sum().backward()
    assert b.grad.tolist() == [4.0]
    c = param(3)
    c.sum().backward()  # the gradient is a broadcast view of one number
    c.grad.mul_(2)
    assert c.grad.tolist() == [2.0] * 3


def test_saved_tensors_are_not_gradients():
    w, x = param(3), torch.ones(3)
    (w * x).sum().backward(retain_graph=True)
    assert_apart(w.grad, x)

    class HandsOutWhatItSaved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            factor = torch.full((3,), 2.0)
            ctx.save_for_backward(factor)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0]

    a = param(3)
    y = HandsOutWhatItSaved.apply(a).sum()
    for _ in range(3):
        y.backward(retain_graph=True)
    assert a.grad.tolist() == [6.0] * 3


def test_the_same_graph_again_and_again():
    a, b = param(3), param(3)
    y = (a * b + a).sum()
    grads = []
    for times in range(1, 4):
        y.backward(retain_graph=True)
        grads += [a.grad, b.grad]
        assert a.grad.tolist() == [2.0 * times] * 3 and b.grad.tolist() == [1.0 * times] * 3
    assert all(grad is a.grad for grad in grads[::2])  # accumulated in place
    assert_apart(a.grad, b.grad)


def test_gradients_that_hooks_keep():
    a, b, kept = param(3), param(3), []
    hidden = a + 0.0
    a.register_hook(lambda g: kept.append(g))
    hidden.register_hook(lambda g: kept.append(g))
    hidden.grad_fn.register_hook(lambda inputs, outputs: kept.extend([inputs[0], *outputs]))
    (accumulator,) = [f for f, _ in hidden.grad_fn.next_functions if f is not None]
    accumulator.register_hook(lambda inputs, outputs: kept.extend(outputs))
    accumulator.register_prehook(lambda outputs: kept.extend(outputs))
    (hidden + b).backward(torch.ones(3))
    values = [g.tolist() for g in kept]
    assert len(values) >= 6
    for leaf in (a, b):
        leaf.grad.mul_(5)
    (hidden + b).sum().backward()
    assert [g.tolist() for g in kept[: len(values)]] == values
    assert a.grad.tolist() == [6.0] * 3


def test_a_gradient_that_a_hook_returns_stays_its_own():
    a, mine = param(3), torch.full((3,), 7.0)
    a.register_hook(lambda g: mine)
    (a * 2).sum().backward()
    (a * 2).sum().backward()
    assert a.grad.tolist() == [14.0] * 3 and mine.tolist() == [7.0] * 3


def test_sums_under_way_are_not_written_once_seen():
    a, seen = param(3), []
    hidden = a * 1.0
    hidden.register_hook(lambda g: seen.append(g))
    total = hidden + 0.0
    for _ in range(4):
        total = total + hidden
    total.backward(torch.ones(3))
    assert seen[0].tolist() == [5.0] * 3
    a.grad.zero_()
    assert seen[0].tolist() == [5.0] * 3


def test_a_gradient_that_was_saved_since_is_stale_after_the_next_backward():
    a, w = param(3), param(3)
    (a * 2).sum().backward()
    y = (a.grad * w).sum()
    (a * 2).sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_views_of_a_gradient_see_what_is_added():
    a = param(3)
    (a * 2).sum().backward()
    first, array = a.grad[0], a.grad.numpy()
    (a * 2).sum().backward()
    assert first.item() == 4.0 and array.tolist() == [4.0] * 3


def test_scalars():
    a, b, g = (torch.tensor(1.0, requires_grad=True) for _ in range(3))
    (a + b).backward(g.detach())
    before = a.grad
    (a + b).backward(g.detach())
    assert a.grad is before and a.grad.item() == 2.0
    assert_apart(a.grad, b.grad, g)


def test_leaves_filled_from_several_threads():
    leaves = [param(50) for _ in range(4)]
    g = torch.ones(50)

    def work(own):
        for _ in range(100):
            (own + leaves[0].detach()).backward(g)

    threads = [threading.Thread(target=work, args=(leaf,)) for leaf in leaves]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(leaf.grad.tolist() == [100.0] * 50 for leaf in leaves)
    assert_apart(g, *(leaf.grad for leaf in leaves))


# ---------------------------------------------------------------------------------------------------- the decision


def test_own_takes_what_nobody_holds_and_copies_the_rest():
    array = numpy.ones(3)
    assert accumulate.own([array]) is not array
    assert accumulate.own([array[...]]).base is None
    address = array.__array_interface__["data"][0]
    arrays = [array]
    del array
    taken = accumulate.own(arrays)
    assert arrays == [] and taken.__array_interface__["data"][0] == address


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="other interpreters need not count references")
def test_references_tell_here():
    assert accumulate._UNSHARED > 0 and accumulate._UNSHARED_DATA > accumulate._UNSHARED


@pytest.mark.parametrize("count", [lambda array: 1, lambda array: 2, lambda array: sys.maxsize])
def test_where_references_do_not_tell_everything_is_copied(monkeypatch, count):
    monkeypatch.setattr(accumulate, "_count", count)
    assert accumulate._measure() == (0, 0)
    unshared, of_data = accumulate._measure()
    monkeypatch.setattr(accumulate, "_UNSHARED", unshared)
    monkeypatch.setattr(accumulate, "_UNSHARED_DATA", of_data)
    a, b, g = param(3), param(3), torch.ones(3)
    for _ in range(2):
        (a + b + a * b).backward(g)
    assert a.grad.tolist() == b.grad.tolist() == [4.0] * 3
    assert_apart(a.grad, b.grad, g)


@pytest.mark.parametrize("how", ["backward", "beside copies", "zero_safe", "grad", "hooks", "inputs"])
def test_a_new_array_is_not_copied(monkeypatch, how):
    """The way from a formula to `.grad` holds no reference too many: else gradients of weights would be copied."""
    if how == "beside copies":  # that stand for views
        monkeypatch.setattr(accumulate, "copies", {0: None})
    results, own, first = [], accumulate.own, accumulate.accumulate_first

    def watched(arrays):
        address = address_of(arrays[-1])
        result = own(arrays)
        results.append(address_of(result) == address)
        return result

    def watched_first(leaves):
        given = [(leaf, address_of(g)) for g, leaf in zip(leaves[::2], leaves[1::2])]
        first(leaves)
        results.extend([address_of(leaf.grad._raw) == address for leaf, address in given[len(leaves) // 2 :]])

    def address_of(array):
        return array.__array_interface__["data"][0]

    monkeypatch.setattr(accumulate, "own", watched)
    monkeypatch.setattr(leaves_of_walks, "accumulate_first", watched_first)
    x, w, bias = torch.ones(20, 30), param(30, 40), param(40)
    if how == "hooks":
        w.register_post_accumulate_grad_hook(lambda p: None)
    y = ((x @ w) * 2 + bias).tanh().sum() + (w * w).sum()
    if how == "grad":
        torch.autograd.grad(y, [w, bias])
    else:
        with torch.autograd.zero_safe(how == "zero_safe"):
            y.backward(inputs=[w, bias] if how == "inputs" else None)
    assert results == [True, True]
