"""Compiled programs: what they write, what changes between calls, errors, and the walk backward."""

from __future__ import annotations

import random
import threading
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import agree, compiled, loudly, programs  # noqa: F401  a fixture

F = nn.functional


def test_what_is_closed_over_may_change_in_place_or_be_replaced():
    weight, scale = torch.ones(3), [2.0]

    def function(x):
        return x * weight * scale[0]

    call, x = compiled(function), torch.arange(3.0)
    assert torch.equal(call(x), x * 2)
    weight += 1
    assert torch.equal(call(x), x * 4)
    scale[0] = 3.0
    assert torch.equal(call(x), x * 6)
    weight.data = torch.full((3,), 5.0)
    assert torch.equal(call(x), x * 15)
    weight = torch.zeros(3)
    assert torch.equal(call(x), x * 0)


def test_modules_whose_parameters_are_replaced_frozen_or_hooked():
    model = nn.Linear(2, 2)
    call, x = compiled(model), torch.randn(3, 2)
    call(x).sum().backward()
    model.weight = nn.Parameter(torch.zeros(2, 2))
    model.bias.requires_grad_(False)
    y = call(x)
    assert torch.equal(y, model.bias.expand(3, 2))
    y.sum().backward()
    assert torch.equal(model.weight.grad, x.sum(0).expand(2, 2))
    seen = []
    model.register_forward_hook(lambda module, args, result: seen.append(result))
    with pytest.warns(UserWarning, match="hooks"):
        call(x)
    call(x)
    assert len(seen) == 2
    model = nn.Linear(2, 2)
    call = compiled(model)
    call(x)
    model.weight.register_hook(lambda g: seen.append("weight"))
    with pytest.warns(UserWarning, match="hooks"):
        call(x).sum().backward()
    assert seen[2:] == ["weight"]


def test_arguments_and_buffers_are_written():
    total = torch.zeros(3)

    def function(x):
        y = x[1:]
        y.mul_(2)
        total.add_(x.sum(0))
        return x.clone()

    call = compiled(function)
    for number in range(3):
        x = torch.full((2, 3), float(number + 1))
        version = x._version
        y = call(x)
        assert torch.equal(x, torch.tensor([[1.0], [2.0]]).expand(2, 3) * (number + 1)) and torch.equal(x, y)
        assert x._version > version
    assert torch.equal(total, torch.full((3,), 18.0))


def test_a_step_leaves_no_gradient_that_the_program_let_go_of():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    call = compiled(step)
    for _ in range(2):
        call(torch.ones(1, 2))
        assert model.weight.grad is None and model.bias.grad is None


def test_results_that_are_parts_have_the_strides_that_they_have_op_by_op():
    def parts(x):
        y = x * 2
        return y[:, 0], (y + 1)[:, 1:], (y - 1).t()[1:], y.sum(0)[:1].expand(3)

    x = torch.randn(3, 4)
    call = compiled(parts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = [*zip(call(x), parts(x), strict=True)]
    makes = (lambda x: (x * 2)[:, 0], lambda x: (x + 1)[:, 1:], lambda x: x.exp().t()[1:], lambda x: x.sum().expand(3))
    for make in makes:
        pairs.append((compiled(make)(x), make(x)))
    for one, other in pairs:
        assert one.stride() == other.stride() and torch.equal(one, other)
    with pytest.raises(RuntimeError, match="single memory location"):  # as op by op
        pairs[-1][0].mul_(2)


def test_writes_through_data_count_for_no_version_and_others_as_often_as_they_are():
    weight = torch.ones(3)

    def behind(x):
        weight.data.mul_(2)
        x.data.add_(1)
        return x * weight

    def before(x):
        weight.mul_(2)
        weight[1:].add_(1)
        x.add_(1)
        return x * weight

    for function, counts in (behind, (0, 0)), (before, (2, 1)):
        call = compiled(function)
        for _ in range(2):
            x, version = torch.ones(3), weight._version
            call(x)
            assert (weight._version - version, x._version) == counts


def test_numbers_whose_results_nobody_reads_are_drawn_all_the_same():
    def function(x):
        torch.bernoulli(x.sigmoid())  # it looks at values before it draws
        return x * 2

    call, x = compiled(function), torch.ones(3)
    for make in (call, call, function):
        torch.manual_seed(1)
        make(x)
        state = torch.rand(1)
        torch.manual_seed(1)
        function(x)
        assert torch.equal(torch.rand(1), state)


def test_results_that_are_leaves_or_retain_gradients_or_have_attributes_are_not_captured():
    def leaf(x):
        return torch.zeros(2).requires_grad_(), x * 2

    def retaining(x):
        y = x * 2
        y.retain_grad()
        return y

    def named(x):
        y = x * 2
        y.name_of_it = "y"
        return y

    def hooked(x):
        x.register_hook(lambda g: g * 3)
        return x * 2

    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="leaf"):
        assert compiled(leaf)(x)[0].is_leaf
    with pytest.warns(UserWarning, match="retains"):
        y = compiled(retaining)(x)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1]
    with pytest.warns(UserWarning, match="attributes"):
        assert compiled(named)(x).name_of_it == "y"
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="attribute"):
        compiled(hooked)(x).sum().backward()
    assert x.grad.tolist() == [6, 6]  # a capture that fails has registered nothing


def test_a_walk_that_fails_for_one_result_serves_the_others():
    weight = torch.ones(2, 2, requires_grad=True)

    def function(x):
        y = x * 2
        z = y @ weight
        y.detach().add_(1)
        return x * 3, z

    x = torch.ones(2, 2, requires_grad=True)
    with pytest.warns(UserWarning, match="walk backward"):
        one, other = compiled(function)(x)
    one.sum().backward()
    assert x.grad.tolist() == [[3, 3], [3, 3]]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        other.sum().backward()


def test_a_second_derivative_repeats_no_effect_and_nothing_that_has_changed():
    bias, factor = torch.zeros(2), [1.0]

    def function(x):
        return (x * factor[0] + bias).tanh()

    call, x = compiled(function), torch.ones(2, requires_grad=True)

    def differentiated(change):
        y = call(x)
        change()
        return torch.autograd.grad(y.sum(), x, create_graph=True)[0]

    assert differentiated(lambda: None).requires_grad
    for change in (
        lambda: bias.add_(1), lambda: factor.__setitem__(0, 2.0), lambda: setattr(bias, "data", torch.ones(2)),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="has changed since"):
            differentiated(change)
    assert torch.equal(differentiated(lambda: None), torch.autograd.grad(function(x).sum(), x)[0])

    def stepping(x):
        x.sum().backward(retain_graph=True)
        return x * 2

    call = compiled(stepping)
    y = call(x)
    x.grad = None
    with pytest.raises(RuntimeError, match="can't be differentiated twice"):
        torch.autograd.grad(y.sum(), x, create_graph=True)
    assert x.grad is None


def test_arguments_that_share_memory_are_not_confused():
    def function(x, y):
        x.add_(1)
        return x * y

    call = compiled(function)
    a, b = torch.ones(3), torch.ones(3)
    assert torch.equal(call(a, b), torch.full((3,), 2.0))
    assert torch.equal(call(a, a), torch.full((3,), 9.0))
    with pytest.warns(UserWarning, match="is a view"):
        assert torch.equal(call(a[:2], a[1:]), torch.tensor([16.0, 12.0]))


def test_gradients_of_one_argument_that_is_given_twice():
    call = compiled(lambda x, y: x * y)
    a, b = torch.tensor([2.0], requires_grad=True), torch.tensor([3.0], requires_grad=True)
    call(a, a).backward()
    assert a.grad == 4
    call(a, b).backward()
    assert a.grad == 7 and b.grad == 2


def test_side_effects_are_refused_and_happen_once():
    calls, state = [], {"n": 0}

    def noting(x):
        calls.append(1)
        state["n"] += 1
        return x + 1

    call = compiled(noting)
    with pytest.warns(UserWarning, match=r"changes Python objects \(('n'|the items of a list)\)"):
        call(torch.ones(2))
    call(torch.ones(2))
    assert len(calls) == state["n"] == 2

    def printing(x):
        print("seen")
        return x + 1

    with pytest.warns(UserWarning, match="prints"):
        compiled(printing)(torch.ones(2))
    with pytest.warns(UserWarning, match="generator"):
        compiled(lambda x: x * random.random())(torch.ones(2))
    with pytest.warns(UserWarning, match="generator"):
        compiled(lambda x: x * numpy.random.rand())(torch.ones(2))
    batches = iter([torch.ones(2), torch.zeros(2)])
    with pytest.warns(UserWarning, match="iterator"):
        call = compiled(lambda: next(batches) + 1)
        assert torch.equal(call(), torch.full((2,), 2.0))
    assert torch.equal(call(), torch.ones(2))


def test_decisions_by_values_run_op_by_op_or_are_errors():
    def function(x):
        return x * 2 if float(x.sum()) > 0 else x * 3

    call = compiled(function)
    with pytest.warns(UserWarning, match="Python number.*|.*values are looked at"):
        assert torch.equal(call(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(call(-torch.ones(2)), torch.full((2,), -3.0))
    with pytest.raises(RuntimeError, match="looked at|Python number"):
        compiled(function, fullgraph=True)(torch.ones(2))
    for shaped in (lambda x: x[x > 0], torch.nonzero, torch.unique, lambda x: torch.masked_select(x, x > 0)):
        with pytest.raises(RuntimeError):
            compiled(shaped, fullgraph=True)(torch.randn(4))


def test_errors_are_those_of_the_program():
    weight = torch.zeros(2, 3)

    def function(x, index):
        weight.add_(1)
        return F.embedding(index, weight) @ x

    call = compiled(function)
    call(torch.ones(3), torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        call(torch.ones(3), torch.tensor([0, 7]))
    assert torch.equal(weight, torch.full((2, 3), 2.0))
    assert torch.equal(call(torch.ones(3), torch.tensor([1])), torch.tensor([9.0]))
    with pytest.raises(RuntimeError):
        call(torch.ones(4), torch.tensor([0, 1]))
    assert torch.equal(weight, torch.full((2, 3), 4.0))


def test_the_walk_backward_is_that_of_eager():
    w = torch.tensor([2.0, 3.0], requires_grad=True)
    call, x = compiled(lambda x: (x * w).exp()), torch.tensor([0.1, 0.2], requires_grad=True)
    y = call(x)
    y.sum().backward(retain_graph=True)
    first = x.grad.clone()
    y.sum().backward()
    assert torch.equal(x.grad, 2 * first)
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    y = call(x)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    y = call(x)
    with torch.no_grad():
        y.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    (g,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    (expected,) = torch.autograd.grad((x * w).exp().sum(), x, create_graph=True)
    agree(torch.autograd.grad(g.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0], "second order")
    double = torch.randn(3, dtype=torch.float64, requires_grad=True)
    other = compiled(lambda x: torch.tanh(x) * x.sin())
    assert torch.autograd.gradcheck(other, double) and torch.autograd.gradgradcheck(other, double)


def test_calls_whose_backward_comes_later_do_not_share_memory():
    call = compiled(lambda x: (x * 2).exp().sin())
    xs = [torch.full((4,), float(n), requires_grad=True) for n in range(5)]
    ys = [call(x) for x in xs]
    kept = [y.detach().clone() for y in ys]
    for x, y, before in zip(xs, ys, kept):
        assert torch.equal(y, before)
        y.sum().backward()
        expected = torch.autograd.grad((x * 2).exp().sin().sum(), x)[0]
        agree(x.grad, expected, "gradient")
    assert len(programs(call)) == 1


def test_several_results_of_which_some_are_used():
    def function(x, y):
        return {"sum": x + y, "parts": [x * y, x.detach() * 2], "same": x, "word": "w"}

    call = compiled(function)
    x, y = torch.ones(2, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
    result = call(x, y)
    assert result["same"] is x and result["word"] == "w" and not result["parts"][1].requires_grad
    result["parts"][0].sum().backward()
    assert torch.equal(x.grad, y.detach()) and torch.equal(y.grad, x.detach())
    result = call(x, y)
    (result["sum"] * 2 + result["parts"][0]).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 8.0))


def test_modes_and_layouts_have_programs_of_their_own():
    w = torch.randn(3, 3, requires_grad=True)
    call, x = compiled(lambda x: torch.relu(x @ w)), torch.randn(3, 3)
    for given in (x, x.t(), x[:, ::2].t().contiguous(), x.flip(0)[1:], x.double()[:, :3].float(), x[::2]):
        for _ in range(2):
            given = given if given.shape[1] == 3 else given.t()
            agree(call(given), torch.relu(given @ w), "layout")
            with torch.no_grad():
                y = call(given)
                assert not y.requires_grad
                agree(y, torch.relu(given @ w), "layout")
    with torch.inference_mode():
        assert call(x).is_inference()


def test_more_signatures_than_eight_run_op_by_op():
    call, x = compiled(lambda x, n: x + n), torch.ones(3)
    for n in range(1, 9):
        call(x, n)
    with pytest.warns(UserWarning, match="8 programs"):
        assert call(x, 9).tolist() == [10.0] * 3
    assert len(programs(call)) == 8 and call(x, 3).tolist() == [4.0] * 3
    torch.compiler.reset()
    assert programs(call) == []
    assert call(x, 9).tolist() == [10.0] * 3 and len(programs(call)) == 1


def test_gradients_accumulate_over_calls_and_start_from_what_is_there():
    model = nn.Linear(2, 1)

    def micro(x):
        loss = model(x).sum()
        loss.backward()
        return loss.detach()

    call, x = compiled(micro), torch.randn(4, 2)
    for number in range(1, 5):
        call(x)
        agree(model.weight.grad, number * x.sum(0)[None], f"call {number}")
    model.zero_grad()
    call(x)
    agree(model.weight.grad, x.sum(0)[None], "after zero_grad")


def test_threads_and_calls_within_calls():
    inner = compiled(lambda x: x * 2)
    call = compiled(lambda x: inner(x).exp() + 1)
    x = torch.randn(50)
    expected = (x * 2).exp() + 1
    agree(call(x), expected, "nested")
    failures = []

    def work(seed):
        for n in range(50):
            given = torch.full((50,), float(seed * 100 + n) / 500, requires_grad=True)
            y = call(given)
            y.sum().backward()
            if not torch.allclose(y, (given * 2).exp() + 1) or not torch.allclose(given.grad, 2 * (given * 2).exp()):
                failures.append((seed, n))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not failures


CONTAINERS = {
    "a list of an argument's": (lambda x, items: items.append(x) or x * len(items), "the items of a list"),
    "a dict of an argument's": (lambda x, items: items.__setitem__(0, x * 2) or x * 2, "changes Python objects"),
    "an argument": (lambda x, items: items, "a result is a list"),
    "what is held": (lambda x, items: ([*items], HELD, x * 2), "a result is a list"),
}
HELD = [1.0]


@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_are_written_and_returned_as_they_are(name):
    function, message = CONTAINERS[name]
    call, results = compiled(function), []
    with pytest.warns(UserWarning, match=message):
        for one in (function, call, call):
            given = [torch.ones(2)]
            result = one(torch.ones(2), given)
            mine = [part is given or part is HELD for part in (result if isinstance(result, tuple) else (result,))]
            results.append((mine, len(given), given[0].tolist()))
    assert results[0] == results[1] == results[2]


def test_attributes_of_a_result_that_is_a_dict():
    class Outputs(dict):
        pass

    def function(x):
        result = Outputs(x=x * 2)
        result.hidden = x * 3
        return result

    with pytest.warns(UserWarning, match="attributes"):
        assert torch.equal(compiled(function)(torch.ones(2)).hidden, torch.full((2,), 3.0))


@pytest.mark.parametrize("make", [random.Random, numpy.random.default_rng, numpy.random.RandomState])
def test_a_programs_own_generators_are_drawn_from_once(make):
    one, other = make(0), make(0)
    call = compiled(lambda x: x * float(one.random() if hasattr(one, "random") else one.random_sample()))
    with pytest.warns(UserWarning, match="draws numbers"):
        drawn = [call(torch.ones((), dtype=torch.float64)).item() for _ in range(3)]
    assert drawn == [other.random() if hasattr(other, "random") else other.random_sample() for _ in range(3)]


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x * x._version, lambda x: x * (1 if x.is_leaf else 2), lambda x: x * (2 if x.grad_fn is None else 1),
        lambda x: x * (1 if x._base is None else 2), lambda x: x * x.storage_offset(),
    ],
)  # fmt: skip
def test_programs_that_ask_what_no_guard_watches_are_not_captured(look):
    x = torch.ones(4)
    leaf, call = torch.ones(2, requires_grad=True), compiled(look)
    with pytest.warns(UserWarning, match="may change"):
        for one in (leaf, leaf * 1, x[2:], x[1:3], x[:2].add_(1)):
            assert torch.equal(call(one), look(one))


def test_caches_that_the_first_call_fills():
    known = {}

    def function(x):
        if x.shape not in known:
            known[x.shape] = torch.arange(x.shape[0]) * 2.0
        return x + known[x.shape]

    call = compiled(function)
    for size in (3, 3, 4, 3, 4):
        x = torch.randn(size)
        assert torch.equal(call(x), function(x))
    assert programs(call) and len(known) == 2
