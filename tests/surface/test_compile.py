"""Programs that compilers of arrays run, against the same programs op by op: values, gradients, effects, errors."""

from __future__ import annotations

import copy
import random
import sys
import threading
import types
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import nn, registry
from plugrad.compiler import explain, on_arrays
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import tensors_in

F = nn.functional
UNDEFINED = {"empty", "empty_permuted", "empty_strided", "empty_like", "new_empty", "new_empty_strided"}


@pytest.fixture(autouse=True)
def loudly():
    """What runs op by op without the test's asking for it is an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the compiler")
        yield


def compiled(model, **options):
    return torch.compile(model, backend="numpy", **options)


def programs(model):
    return model._compiled.arrays.known


def outcome(function, sample):
    """Return results, gradients and inputs after the call; or the error."""
    torch.manual_seed(7)
    sample = sample.copied()
    try:
        outputs = tensors_in(sample.call(function))
    except Exception as error:
        return [], [f"{type(error).__name__}: {error}"], []
    inputs, roots = [t for t in sample.tensors() if t.requires_grad], [y for y in outputs if y.requires_grad]
    grads = []
    if inputs and roots:
        ones = [torch.ones_like(y) * 0.5 for y in roots]
        try:
            grads = torch.autograd.grad(roots, inputs, ones, allow_unused=True)
        except Exception as error:
            grads = [f"{type(error).__name__}: {error}"]
    return outputs, grads, sample.tensors()


def agree(one, other, label):
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        assert one == other, label
        return
    assert one.dtype is other.dtype and one.shape == other.shape, label
    torch.testing.assert_close(one.detach(), other.detach(), rtol=2e-4, atol=1e-5, equal_nan=True, msg=label)


def test_all_ops_agree_with_themselves_on_other_inputs():
    captured = 0
    for name, op in sorted(registry.ops.items()):
        if not op.provider.builtin or op.name in UNDEFINED:
            continue
        pairs = list(zip(samples_of(op, torch.float32), samples_of(op, torch.float32, seed=1)))
        for sample, other in pairs[:3]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")

                def run(*args, op=op, **kwargs):
                    return op.function(*args, **kwargs)

                call = compiled(run)
                for number, one in enumerate((sample, sample, other)):
                    expected, actual = outcome(run, one), outcome(call, one)
                    for what, ones, others in zip(("result", "gradient", "input"), actual, expected):
                        label = f"{name}, {one}, call {number}, {what}: {ones} {others}"
                        assert len(ones) == len(others), label
                        for a, b in zip(ones, others):
                            agree(a, b, label)
            captured += call._compiled.arrays is not None and bool(programs(call))
    assert captured > 700


class Convolutional(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3)
        self.out = nn.Linear(4 * 9, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        return self.out(self.drop(x.flatten(1)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.out = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.out.weight = self.words.weight
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)

    def forward(self, x):
        mask = torch.triu(torch.full((x.shape[1], x.shape[1]), float("-inf")), diagonal=1)
        return self.out(self.layer(self.words(x), src_mask=mask))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(3, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        return self.out(self.lstm(x)[0][:, -1])


def perceptron():
    return nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5), nn.Linear(5, 3))


MODELS = {
    "perceptron": (perceptron, lambda: (torch.randn(6, 4), torch.randint(0, 3, (6,)))),
    "convolutional": (Convolutional, lambda: (torch.randn(6, 1, 8, 8), torch.randint(0, 3, (6,)))),
    "tied": (Tied, lambda: (torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (2, 5)))),
    "recurrent": (Recurrent, lambda: (torch.randn(4, 6, 3), torch.randint(0, 3, (4,)))),
}


def loss_of(model, x, t):
    y = model(x)
    return F.cross_entropy(y.reshape(-1, y.shape[-1]), t.reshape(-1))


def state_of(model, optimizer=None):
    state = [*model.state_dict().values(), *[p.grad for p in model.parameters()]]
    if optimizer is not None:
        state += [v for own in optimizer.state.values() for v in own.values() if isinstance(v, torch.Tensor)]
    return state


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["module", "step"])
@pytest.mark.parametrize("optimizer", ["SGD", "AdamW", "RMSprop"])
def test_training_agrees(name, way, optimizer):
    make, batch = MODELS[name]
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    ours = getattr(torch.optim, optimizer)(twin.parameters(), lr=0.01)
    theirs = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01)
    module = compiled(twin) if way == "module" else twin

    def step(model, optimizer, x, t):
        optimizer.zero_grad()
        loss = loss_of(model, x, t)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    def mine(x, t):
        return step(module, ours, x, t)

    run = compiled(mine) if way == "step" else mine
    for number in range(6):
        training = number not in (2, 3)
        model.train(training), module.train(training), twin.train(training)
        if number == 4:
            for group in (*ours.param_groups, *theirs.param_groups):
                group["lr"] = 0.05
            with torch.no_grad():
                for p, q in zip(model.parameters(), twin.parameters()):
                    p.mul_(0.5), q.mul_(0.5)
        x, t = batch()
        torch.manual_seed(number)
        expected = step(model, theirs, x, t)
        torch.manual_seed(number)
        actual = run(x, t)
        agree(actual, expected, f"loss {number}")
        for a, b in zip(state_of(twin, ours), state_of(model, theirs), strict=True):
            agree(a, b, f"state after {number}")
        assert torch.equal(torch.rand(2), torch.rand(2)) is False
    assert 1 <= len(programs(run if way == "step" else module)) <= 4


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
    with pytest.warns(UserWarning, match="changes Python objects"):
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
    call = compiled(lambda x: x + 1)
    for n in range(1, 9):
        call(torch.ones(n))
    with pytest.warns(UserWarning, match="8 programs"):
        assert call(torch.ones(9)).shape == (9,)
    assert len(programs(call)) == 8 and call(torch.ones(3)).shape == (3,)
    torch.compiler.reset()
    assert programs(call) == []
    assert call(torch.ones(9)).shape == (9,) and len(programs(call)) == 1


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


def test_modes_seeds_and_flags_that_a_program_sets_are_refused():
    w = torch.ones(2, requires_grad=True)

    def seeding(x):
        torch.manual_seed(3)
        return x + torch.rand(2)

    def freezing(x):
        w.requires_grad_(False)
        return x * w

    def recording(x):
        x.mul_(w)
        return x.sum()

    def generating(x):
        return (x * n for n in range(3))

    def noting(x):
        x.note = 1
        return x * 2

    for function in (seeding, freezing, recording, generating, noting):
        with pytest.raises(RuntimeError):
            compiled(function, fullgraph=True)(torch.ones(2))
    assert w.requires_grad
    with pytest.warns(UserWarning, match="op by op"):
        x = torch.ones(2)
        compiled(recording)(x).backward()
    assert torch.equal(w.grad, torch.ones(2)) and x.requires_grad
    call = compiled(lambda: torch.zeros(2) + 0.5)
    assert call().dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert call().dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_random_numbers_are_those_of_the_programs():
    def function(x):
        return F.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(3)

    call, x = compiled(function), torch.ones(3)
    for number in range(3):
        torch.manual_seed(number)
        expected, after = function(x), torch.rand(1)
        torch.manual_seed(number)
        assert torch.equal(call(x), expected) and torch.equal(torch.rand(1), after)
    assert len(programs(call)) == 1


def test_copies_of_a_compiled_module_are_compiled_on_their_own():
    call, x = compiled(nn.Linear(2, 2)), torch.ones(1, 2)
    before = call(x)
    other = copy.deepcopy(call)
    with torch.no_grad():
        other._orig_mod.weight.zero_()
        other._orig_mod.bias.zero_()
    assert torch.equal(other(x), torch.zeros(1, 2)) and torch.equal(call(x), before)


def test_classes_that_override_ops_somewhere_do_not_keep_others_from_being_compiled():
    class Loud(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs)

    calls = []
    loud = torch.ones(2).as_subclass(Loud) * 2
    assert type(loud) is Loud
    call = compiled(lambda x: x * 2)
    call(torch.ones(2))
    assert len(programs(call)) == 1
    before = len(calls)
    assert type(call(loud)) is Loud and len(calls) > before
    with torch.autocast("cpu"):
        w = torch.ones(2, 2)
        product = compiled(lambda x: x @ w)
        assert product(torch.ones(2, 2)).dtype is torch.bfloat16
    assert product(torch.ones(2, 2)).dtype is torch.float32


def test_tensors_that_are_not_plain_run_op_by_op_without_an_end():
    call = compiled(lambda x: x * 2)
    assert call(torch.ones(2, device="meta")).device.type == "meta"
    assert torch.equal(call(torch.ones(2)), torch.full((2,), 2.0)) and len(programs(call)) == 1
    value, tangent = torch.func.jvp(call, (torch.ones(2),), (torch.ones(2),))
    assert torch.equal(tangent, torch.full((2,), 2.0))
    assert torch.equal(torch.vmap(call)(torch.ones(3, 2)), torch.full((3, 2), 2.0))


def test_constants_that_a_program_writes_are_new_at_each_call():
    def function(x):
        y = torch.tensor([1.0, 2.0, 3.0])
        y[0] = x.sum()
        y += 1
        z = torch.zeros(3)
        z[1:] = y[:2]
        return y * z

    call = compiled(function)
    for n in range(3):
        assert torch.equal(call(torch.full((2,), float(n))), function(torch.full((2,), float(n))))
    assert len(programs(call)) == 1


def test_memory_of_a_call_whose_tensors_got_other_arrays_is_not_used_again():
    w, q = torch.ones(2), torch.ones(2, requires_grad=True)
    call, x = compiled(lambda x: x * w * q), torch.ones(2)
    y = call(x)
    w.data = torch.full((2,), 3.0)
    call(x)
    y.sum().backward()
    assert torch.equal(call(x), torch.full((2,), 3.0)) and torch.equal(call(x), torch.full((2,), 3.0))


def test_generators_that_are_given_draw_at_each_call():
    g = torch.Generator().manual_seed(1)
    call = compiled(lambda x: x + torch.rand(3, generator=g))
    first, second = call(torch.zeros(3)), call(torch.zeros(3))
    g.manual_seed(1)
    assert torch.equal(first, torch.rand(3, generator=g)) and torch.equal(second, torch.rand(3, generator=g))


def test_gradients_that_are_there_or_not_or_shared():
    p, q = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

    def add(x):
        loss = ((p + q) * x).sum()
        loss.backward()
        return loss.detach()

    call, x = compiled(add), torch.ones(2)
    call(x)
    q.grad = None
    call(x)
    assert p.grad.tolist() == [2, 2] and q.grad.tolist() == [1, 1]
    p.grad = None
    call(x)
    assert p.grad.tolist() == [1, 1] and q.grad.tolist() == [2, 2]
    p.grad.zero_()
    assert q.grad.tolist() == [2, 2]
    r = torch.zeros(2, requires_grad=True)
    optimizer = torch.optim.SGD([p, q], lr=0.1)

    def step(x):
        optimizer.zero_grad()
        r.grad = None
        ((p + q + r) * x).sum().backward()
        optimizer.step()

    call = compiled(step)
    for _ in range(3):
        call(x)
        r.grad.zero_()
        assert p.grad.tolist() == q.grad.tolist() == [1, 1]
    agree(p, torch.full((2,), 0.7), "three steps")
    optimizer.add_param_group({"params": [r]})
    call(x)
    agree(r, torch.full((2,), -0.1), "of another group")
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    call = compiled(lambda x: (step(x), schedule.step()))
    with pytest.warns(UserWarning, match="changes Python objects"):
        call(x)
    call(x)
    agree(torch.tensor(optimizer.param_groups[0]["lr"]), torch.tensor(0.001), "two steps of the schedule")


class Slots:
    __slots__ = ("factor",)


def test_numbers_in_modules_and_slots_are_watched(monkeypatch):
    options, inner, slots = types.ModuleType("options_x"), types.ModuleType("options_x.inner"), Slots()
    options.inner, inner.factor, slots.factor = inner, 2.0, 3.0
    monkeypatch.setitem(sys.modules, "options_x", options)

    def outside(x):
        return x * options.inner.factor * slots.factor

    def inside(x):
        import options_x

        return x * options_x.inner.factor

    one, other, x = compiled(outside), compiled(inside), torch.ones(2)
    assert one(x)[0] == 6 and other(x)[0] == 2
    inner.factor, slots.factor = 5.0, 4.0
    assert one(x)[0] == 20 and other(x)[0] == 5


def test_explain_shows_steps_memory_and_source():
    call = compiled(lambda x: torch.tanh(x * 2 + 1))
    call(torch.ones(3))
    text = explain(call)
    assert "tanh" in text and "def part0" in text and "planned" in text
    constant = compiled(lambda x: x + torch.arange(3) * 2)
    constant(torch.ones(3))
    assert len(programs(constant)[0].graph.steps) == 1, explain(constant)  # the rest is folded


class Interpreted:
    """A third party's compiler: it goes over the steps in a loop."""

    def __init__(self, graph, memory):
        self.graph, self.memory, self.moving = graph, memory, {}
        self.parts = [lambda part=part: self.run(part) for part in graph.parts]

    def give(self, value, array):
        self.moving[value.buffer] = array

    def fetch(self, value):
        return self.array(value)

    def clear(self):
        self.moving.clear()

    def array(self, item):
        from plugrad.compiler.graph import Value

        if not isinstance(item, Value):
            return item
        moving = self.moving.get(item.buffer)
        return item.on(self.memory[item.buffer] if moving is None else moving)

    def run(self, part):
        from plugrad.compiler.graph import changed

        for index in part:
            step = self.graph.steps[index]
            result = step.function(*changed(self.array, step.args), **changed(self.array, step.kwargs))
            for value, one in zip(step.results, result if step.several else (result,)):
                if value is not None and value.buffer.kind == "fresh":
                    self.moving[value.buffer] = numpy.array(one, order="C")
                elif value is not None:
                    self.array(value)[...] = one


def interpreted(graph, example_inputs):
    return on_arrays(graph, lambda arrays: lambda memory: Interpreted(arrays, memory), "interpreted")


def test_a_third_partys_compiler_of_arrays():
    torch.manual_seed(0)
    model = Convolutional()
    twin = copy.deepcopy(model)
    call = torch.compile(twin, backend=interpreted)
    for number in range(3):
        x, t = MODELS["convolutional"][1]()
        results = []
        for one in (model, call):
            torch.manual_seed(number)
            one.zero_grad()
            loss = loss_of(one, x, t)
            loss.backward()
            results.append(loss.detach())
        agree(*results, "loss")
        for a, b in zip(state_of(twin), state_of(model), strict=True):
            agree(a, b, "state")
    assert len(call._compiled.arrays.known) >= 1
