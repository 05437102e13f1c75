"""Captures: what is refused, random numbers, memory, what is watched, and compilers of others."""

from __future__ import annotations

import copy
import dataclasses
import gc
import sys
import threading
import types
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad import nn, registry
from plugrad.compiler import explain, on_arrays
from plugrad.tensor.random import _default as generators
from support.compiled_programs import Convolutional, agree, compiled, loss_of, loudly, programs, state_of  # noqa: F401  a fixture

F = nn.functional


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


def test_views_of_no_elements():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    call = compiled(lambda x: (layer(x, x, x)[0], x[:, 1:].mT.exp(), x.chunk(2, -1)[1].sum(1)))
    got = call(torch.ones(0, 3, 4))
    got[0].sum().backward()
    assert [y.shape for y in got] == [(0, 3, 4), (0, 4, 2), (0, 2)] and not layer.in_proj_weight.grad.any()


def test_powers():
    function = lambda x: [x**n for n in (-2, -1, -0.5, 0, 0.5, 1, 2, 3, 3.0, 4, 2.5)] + [2**x, x**x]  # noqa: E731
    x = torch.linspace(0.5, 2, 6, requires_grad=True)
    call = compiled(function, fullgraph=True)
    for one, other in zip(call(x), function(x), strict=True):
        agree(one, other, "result")
    agree(*[torch.autograd.grad(sum(run(x)).sum(), x)[0] for run in (call, function)], "gradient")


SCALED = {
    "add": lambda p, q: p.add(q, alpha=0.1),
    "sub": lambda p, q: torch.sub(p, q, alpha=2),
    "add_": lambda p, q: p.mul(0.9).add_(q, alpha=1 - 0.9),
    "add_ to an argument": lambda p, q: p.mul_(0.9).sub_(q, alpha=0.5) * 1,
    "add from the other side": lambda p, q: torch.add(2.0, q, alpha=p.ndim),
    "lerp": lambda p, q: p.lerp(q, p),
    "lerp_": lambda p, q: p.clone().lerp_(q, 0.25),
    "addcmul": lambda p, q: p.addcmul(q, q, value=-0.1),
    "addcdiv": lambda p, q: p.addcdiv(q, p.exp(), value=0.1),
}


FRACTIONS = [(name, dtype) for name in SCALED for dtype in (torch.float32, torch.float64, torch.bfloat16)]


@pytest.mark.parametrize("name, dtype", [*FRACTIONS, ("sub", torch.int64), ("add from the other side", torch.int64)])
def test_sums_of_arrays_one_of_which_is_scaled(name, dtype):
    function, p, q = SCALED[name], torch.arange(12.0).reshape(3, 4).to(dtype), torch.ones(3, 4, dtype=dtype)
    one, other = p.clone(), p.clone()
    agree(compiled(function, fullgraph=True)(one, q), function(other, q), name)
    agree(one, other, name)


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


def test_generators_that_a_program_makes_or_seeds():
    own = torch.Generator()

    def makes(x):
        return x + torch.rand(2, generator=torch.Generator().manual_seed(3))

    def seeds(x):
        own.manual_seed(3)
        return x + torch.rand(2, generator=own)

    def goes_back(x):
        state = own.get_state()
        y = x + torch.rand(2, generator=own)
        own.set_state(state)
        return y

    for function in (makes, seeds, goes_back):
        own.manual_seed(1)
        expected, x = function(torch.ones(2)), torch.ones(2)
        own.manual_seed(1)
        with pytest.warns(UserWarning, match="op by op"):
            call = compiled(function)
            assert torch.equal(call(x), expected) and torch.equal(call(x), expected)


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
        x, t = torch.randn(6, 1, 8, 8), torch.randint(0, 3, (6,))
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


def test_the_device_of_captures_has_no_generator_after_them():
    call = compiled(lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(2))
    call(torch.ones(2)), call(torch.ones(2))
    with torch.random.fork_rng():
        torch.rand(1)
    assert "capture" not in {torch.device(place).type for place in generators}


def test_a_capture_leaves_the_calls_of_the_cpu_as_direct_as_they_were():
    x = torch.ones(3)
    add, sub = (registry.op(name) for name in ("add", "sub"))
    before = add.plan.operator(False).direct, sub.plan.operator(False).direct
    program = torch.compile(lambda x: (x + x) - 3 * x, backend="numpy", fullgraph=True)
    assert program(x).tolist() == [-1.0] * 3
    assert before == (add.plan.operator(False).direct, sub.plan.operator(False).direct) == ("add", "subtract")
    assert add.fast[x._type] is not None


def test_functions_of_arrays_alone_keep_no_array():
    def function(x, y, flag=True):
        z = x[1:] * 2 + y.t()[:2].sum()
        return (z.tanh(), x, [z.cumsum(0), flag]), {"product": x @ y}

    call, x, y = compiled(function), torch.randn(4, 3), torch.randn(3, 4)
    product, seen = x @ y, []
    for _ in range(3):
        (first, same, (sums, flag)), results = call(x, y)
        assert same is x and flag is True and torch.allclose(results["product"], product)
        torch.testing.assert_close(first, function(x, y)[0][0])
        torch.testing.assert_close(sums, function(x, y)[0][2][0])
        seen.append((first, sums, results["product"]))
    (program,) = programs(call)
    assert len({each.data_ptr() for results in seen for each in results}) == 9
    refs = [weakref.ref(each._raw) for results in seen for each in results]
    del first, sums, results, seen
    gc.collect()
    assert not any(ref() is not None for ref in refs) and len(program.free) == 1


def test_several_threads_call_functions_of_arrays():
    call = compiled(lambda x: ((x * 2 + 1) @ x).tanh() + x)
    xs = [torch.randn(20, 20) for _ in range(4)]
    expected, wrong = [call(x) for x in xs], []

    def run(x, y):
        wrong.extend([1 for _ in range(200) if not torch.equal(call(x), y)])

    threads = [threading.Thread(target=run, args=pair) for pair in zip(xs, expected)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not wrong


@pytest.mark.parametrize("mask", [None, torch.triu(torch.full((5, 5), float("-inf")), diagonal=1)])
@pytest.mark.parametrize("brought", [False, True])
def test_attention_is_by_the_same_op_as_uncaptured(mask, brought, monkeypatch):
    """Whether there is a kernel for all of it at once is asked of the device that the program runs on."""
    op = next(op for op in registry.ops.values() if op.name == "attend")
    if brought:
        monkeypatch.setitem(op.kernels, "cpu", lambda xp, *args: op.kernels["*"](xp, *args))
        monkeypatch.delitem(op.kernels, "capture", raising=False)  # noted as a whole from here on
        op.changed()
    query = torch.randn(2, 2, 5, 4, requires_grad=True)

    def attention(query):
        return F.scaled_dot_product_attention(query, query, query, mask)

    call = compiled(attention)
    for _ in range(2):
        ones, others = attention(query), call(query)
        assert ("Flash" in ones.grad_fn.name()) is brought
        assert torch.equal(ones, others)
        agree(*(torch.autograd.grad(y.square().sum(), query)[0] for y in (others, ones)), "gradient")
    assert ("attend" in explain(call)) is brought
    monkeypatch.undo()
    op.changed()


@dataclasses.dataclass
class Output:
    logits: object
    inner: object = None
    both: object = dataclasses.field(init=False)

    def __post_init__(self):
        self.both = [self.logits, 2]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    total: object
    note: str = "none"


def test_results_that_are_objects_of_dataclasses_are_new_at_each_call():
    layer, kept = nn.Linear(2, 2), Frozen(torch.ones(1))

    def function(x):
        y = layer(x)
        return Output(y, (Frozen(y.sum()), {"kept": kept, "type": Frozen})), x.shape[0]

    call = compiled(function, fullgraph=True)
    for size in (2, 3, 4, 5):
        x = torch.randn(size, 2)
        (one, shape), (other, _) = function(x), call(x)
        (frozen, others), again = other.inner, call(x)[0]
        agree(other.logits, one.logits, "in a field")
        agree(frozen.total, one.inner[0].total, "in a frozen one")
        assert other.both[0] is other.logits and other.both[1] == 2 and shape == size
        assert frozen.note == "none" and others["kept"] is kept and others["type"] is Frozen
        assert again is not other and again.both is not other.both and type(again) is Output
        layer.zero_grad(), frozen.total.backward()
        agree(layer.weight.grad, x.sum(0).expand(2, 2), "the gradient")
    assert len(programs(call)) < 4


def _itself(x):
    made = Output(x * 2)
    made.inner = made
    return made


@pytest.mark.parametrize("function", [_itself, lambda x: [Output(x * 2)] * 2])
def test_objects_that_are_in_the_results_twice_stay_one(function):
    with pytest.warns(UserWarning, match="an object of Output is in the results twice"):
        results = compiled(function)(torch.ones(2))
    assert results.inner is results if isinstance(results, Output) else results[0] is results[1]


def test_results_of_other_classes_are_named():
    with pytest.warns(UserWarning, match="of the class SimpleNamespace.* return tensors"):
        compiled(lambda x: types.SimpleNamespace(y=x * 2))(torch.ones(2))


def test_a_result_leads_to_what_it_is_computed_of_alone():
    function = lambda x, y: (x * 2 + y.detach()).sin()  # noqa: E731
    x, y = (torch.ones(2, requires_grad=True) for _ in "xy")
    result = compiled(function)(x, y)
    assert [edge.variable for edge, _ in result.grad_fn.next_functions] == [x]
    result.sum().backward()
    agree(x.grad, torch.autograd.grad(function(x, y).sum(), x)[0], "gradient")
    assert y.grad is None


def test_what_only_the_other_results_lead_to_gets_no_gradient():
    x, y, z = (torch.full((2,), float(n), requires_grad=True) for n in (1, 2, 3))
    call, both = compiled(lambda x, y, z: (x * y, y.exp() + z)), torch.full((2,), 2.0)
    call(x, y, z)[0].sum().backward()
    assert z.grad is None and torch.equal(x.grad, both) and torch.equal(y.grad, torch.ones(2))
    with pytest.raises(RuntimeError, match="used"):
        torch.autograd.grad(call(x, y, z)[1].sum(), x)
    first, second = call(x, y, z)
    assert torch.equal(torch.autograd.grad((first + second).sum(), [x, z], retain_graph=True)[0], both)
    assert torch.autograd.grad(second.sum(), [x, z], create_graph=True, allow_unused=True)[0] is None
