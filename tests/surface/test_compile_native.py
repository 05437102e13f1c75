"""The compiler "native": random programs of arrays, whole steps of training, and what it says of itself."""

from __future__ import annotations

import copy
import os
import random
import subprocess
import sys
import tracemalloc

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, nn
from plugrad.kernels import building
from plugrad.plugins.compilers import _native_lifetimes, _native_recompute
from support import random_trained_programs
from support.compiled_programs import Convolutional, agree, loss_of, state_of
from support.random_array_programs import program_of

F = nn.functional
needs_c = pytest.mark.skipif(kernels.why_none() is not None, reason="there are no kernels in C")


def compiled(model, **options):
    return torch.compile(model, backend="native", fullgraph=True, **options)


def same_bits(one, other):
    """Whether arrays are the same, whatever NaN."""
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and numpy.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    )


@needs_c
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_bits_of_numpy(seed):
    run, arguments = program_of(random.Random(seed))
    expected = run(*[a.clone() for a in arguments])
    call = compiled(run)
    for _ in range(2):
        given = [a.clone() for a in arguments]
        actual = call(*given)
        assert len(actual) == len(expected)
        for number, (one, other) in enumerate(zip(actual, expected)):
            label = f"seed {seed}, result {number}:\n{torch.compiler.explain(call)}"
            assert same_bits(one.numpy(), other.numpy()), f"{label}\n{one}\n{other}"


@needs_c
@pytest.mark.parametrize("keepdim", [False, True])
def test_results_that_are_parts_of_what_a_kernel_wrote(keepdim):
    """Such a result is made beside the call in C, not where the call is done over in Python."""
    x = torch.tensor([[1.0, 1, 0, 1], [2, 0, 0, 2]])
    for run in (lambda x: (x * 1).kthvalue(2, keepdim=keepdim), lambda x: (x + 1).kthvalue(2, 0, keepdim)[1]):
        call = compiled(run)
        assert all(str(call(x)) == str(run(x)) for _ in range(3))


@pytest.mark.parametrize(
    "run",
    [
        lambda x: torch.ones(()).expand(1, 3).sum(0) + x,
        lambda x: torch.ones(()).expand(4, 3).sum(0) * x,
        lambda x: torch.tensor(2.0).expand(4, 3).amax(0) * x,
        lambda x: torch.ones(3, 1).expand(3, 5).softmax(1).sum(1) + x,
        lambda x: torch.ones(2, 1, 3).expand(2, 4, 3).prod(1).sum(0) + x,
        lambda x: (x[:, None] + 0).expand(3, 4).sum(0, keepdim=True).sum() + x,
    ],
)
def test_kernels_get_arrays_in_which_one_element_stands_for_many(run):
    call, x = compiled(run), torch.tensor([1.0, 2.0, 3.0])
    assert torch.equal(call(x), run(x)) and torch.equal(call(x + 1), run(x + 1))


def test_gradients_of_a_parameter_that_is_used_twice():
    x, bias = torch.tensor([[1.0, -2.0]]), nn.Parameter(torch.tensor([1.0, 2.0]))
    (found,) = compiled(lambda x: torch.autograd.grad(((x + bias) + (x + bias)).sum(), [bias]))(x)
    assert found.tolist() == [2.0, 2.0]


def test_random_programs_are_loops_in_c():
    run, arguments = program_of(random.Random(3))
    if kernels.why_none() is None:
        call = compiled(run)
        call(*arguments)
        assert "static void" in torch.compiler.explain(call)


def training(model, optimizer, batch, run=None):
    """Return the function that takes a step of training."""

    def step(x, t):
        optimizer.zero_grad()
        loss = loss_of(model, x, t)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss.detach()

    return step


class Language(nn.Module):
    """A small GPT."""

    def __init__(self, words=11, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(8, width)
        self.first, self.second, self.last = nn.LayerNorm(width), nn.LayerNorm(width), nn.Linear(width, words)
        self.out = nn.Linear(width, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)  # a key's bias has no gradient but errors of rounding
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        b, t, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
        return self.last(x + self.down(F.gelu(self.up(self.second(x)), approximate="tanh")))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1, activation="gelu", bias=False)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.layer(x))


MODELS = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(20, 33), nn.ReLU(), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 3)),
        lambda n: (torch.randn(n, 20), torch.randint(0, 3, (n,))),
    ),
    "convolutional": (Convolutional, lambda n: (torch.randn(n, 1, 8, 8), torch.randint(0, 3, (n,)))),
    "encoder": (Encoder, lambda n: (torch.randn(n, 5, 8), torch.randint(0, 3, (n, 5)))),
    "language": (Language, lambda n: (torch.randint(0, 11, (n, 6)), torch.randint(0, 11, (n, 6)))),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "AdamW"])
def test_steps_of_training_agree_for_several_sizes_of_batches(name, optimizer):
    make, batch = MODELS[name]
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)
    options = {"momentum": 0.9} if optimizer == "SGD" else {"weight_decay": 0.1}
    ours = getattr(torch.optim, optimizer)(twin.parameters(), lr=0.01, **options)
    theirs = getattr(torch.optim, optimizer)(model.parameters(), lr=0.01, **options)
    mine, other = compiled(training(twin, ours, batch)), training(model, theirs, batch)
    for number in range(9):
        given = batch((7, 3, 16)[number % 3])
        model.train(number != 4), twin.train(number != 4)
        torch.manual_seed(number)
        expected = other(*given)
        torch.manual_seed(number)
        agree(mine(*given), expected, f"loss {number}")
        for a, b in zip(state_of(twin, ours), state_of(model, theirs), strict=True):
            agree(a, b, f"state after {number}")
    # One for all sizes or one for each; one before there are gradients; one in the other mode.
    assert len(mine._compiled.arrays.known) <= 5


SOURCE = """
import plugrad as torch
call = lambda x, y: ((x * y).exp(), x + y, (x - y).tanh().sum(0), torch.cat([x, y]) * 2)
call = torch.compile(call, backend="native")
call(torch.ones(3, 4), torch.ones(3, 4))
print(torch.compiler.explain(call))
"""


@needs_c
def test_the_source_is_the_same_in_each_process():
    # It is what the cache knows a library by; the order of a set of strings is another one in each process.
    told = [
        subprocess.run(
            [sys.executable, "-c", SOURCE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]
    assert "/* C */" in told[0] and told[0] == told[1] == told[2]


@needs_c
def test_small_products_and_sums_are_calls_in_c():
    model = nn.Linear(3, 2)
    call, x = compiled(model), torch.randn(4, 3, requires_grad=True)
    call(x).square().sum().backward()
    (program,) = call._compiled.arrays.known
    assert program.graph.steps and all(step.kind == "native" for step in program.graph.steps)
    for dims in (None, 0, 1, 2, -1, (0, 1), (1, 2), (0, 2), (-1, -2), (0, 1, 2)):
        for dtype in (torch.float32, torch.float64, torch.int32):
            x = torch.randn(2, 3, 5).to(dtype)
            run = compiled(lambda x, dims=dims: ((x + x).sum(dims), (x.transpose(0, 1) * 1).sum(dims, keepdim=True)))
            for one, other in zip(run(x), run._compiled.graph(x)):
                torch.testing.assert_close(one, other)
    assert run(torch.randn(0, 3, 5))[0] == 0


@needs_c
def test_layers_on_rows_in_any_order_and_joined_arrays_are_in_c():
    linear = nn.Linear(8, 6)

    def run(x, y):
        x = linear(x.transpose(0, 1)) + linear(x).transpose(0, 1)
        joined = torch.cat([x, y, x[:, :1]], 1) @ linear.weight
        return torch.stack([joined, joined * 2], -2), torch.cat([y, y])

    call, x, y = compiled(run), torch.randn(5, 4, 8, requires_grad=True), torch.randn(4, 3, 6, requires_grad=True)
    for _ in range(2):
        ours, theirs = call(x, y), run(x, y)
        for one, other in zip(ours, theirs):
            torch.testing.assert_close(one, other)
        grads = [torch.autograd.grad(sum(z.square().sum() for z in each), (x, y)) for each in (ours, theirs)]
        for one, other in zip(*grads):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    (program,) = call._compiled.arrays.known
    names = {step.name for step in program.graph.steps if step.kind not in ("native", "array")}
    assert not names & {"linear", "matmul", "cat", "stack"}


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 512), nn.Linear(512, 64)

    def forward(self, x):
        for _ in range(2):
            x = x + self.down(F.gelu(self.up(x)))
        return x


@needs_c
@pytest.mark.parametrize("whole", [True, False])
def test_cheap_functions_are_computed_again_for_the_walk_backward(monkeypatch, whole):
    x, sizes, found = torch.randn(256, 64), [], []
    for share in (0.0, 0.1):
        monkeypatch.setattr(_native_recompute, "SHARE", share)
        torch.manual_seed(0)
        model = Wide()

        def step(x, model=model):
            model(x).square().sum().backward()

        call = compiled(step if whole else model)
        for _ in range(2):
            model.zero_grad()
            call(x) if whole else call(x).square().sum().backward()
        program = call._compiled.arrays.known[0]
        sizes.append(program.size)
        found.append([p.grad for p in model.parameters()])
        count = sum(step.name.count("gelu_erf") - step.name.count("gelu_erf_grad") for step in program.graph.steps)
        count += sum(step.name == "gelu" for step in program.graph.steps)
        assert count == 2 if share == 0 else count > 2
    assert sizes[1] < 0.95 * sizes[0]
    for one, other in zip(*found):
        assert torch.equal(one, other)


@needs_c
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "module, settings",
    [(_native_recompute, {"SMALL": 0, "SHARE": 100.0, "GAIN": 2.0}),
     (_native_lifetimes, {"LARGE": 1, "TRIES": 999, "GAIN": 99.0})],
)  # fmt: skip
def test_random_trained_programs_agree_whatever_is_kept_and_planned(monkeypatch, module, settings, seed):
    for name, most in settings.items():
        monkeypatch.setattr(module, name, most)
    run = random_trained_programs.program_of(seed)
    torch.manual_seed(seed)
    call, inputs = compiled(run), [torch.randn(12, 12, requires_grad=True) for _ in "xw"]
    for _ in range(2):
        found = []
        for each in (run, call):
            outputs = each(*inputs)
            loss = sum(y.square().sum() for y in outputs) + inputs[1].sum()  # which not every program uses
            again = torch.autograd.grad(loss, inputs, retain_graph=True)
            found.append([*outputs, *again, *torch.autograd.grad(loss, inputs)])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-4)


@needs_c
def test_a_step_needs_no_more_memory_than_op_by_op():
    sizes = {}
    for name in ("eager", "native"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
        x, t = torch.randn(1024, 1000), torch.randint(0, 10, (1024,))
        run = torch.compile(model, backend=name)
        for number in range(3):
            model.zero_grad()
            if number == 2:
                tracemalloc.start()  # what the program keeps is planned anew
                run = torch.compile(model, backend=name)
                F.cross_entropy(run(x), t).backward()
                model.zero_grad()
                tracemalloc.reset_peak()
            F.cross_entropy(run(x), t).backward()
        sizes[name] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert sizes["native"] <= sizes["eager"], sizes


@needs_c
def test_what_others_may_write_is_not_computed_from_again():
    w = torch.randn(512, 512)
    call, x = compiled(lambda x, w: F.gelu(x) @ w), torch.randn(512, 512)
    w.requires_grad_()
    y = call(x, w)
    expected = F.gelu(x).T @ torch.ones(512, 512)
    x.zero_()  # gelu's result was saved, not x
    y.sum().backward()
    torch.testing.assert_close(w.grad, expected, rtol=1e-3, atol=1e-3)


@needs_c
def test_loops_write_to_the_memory_of_what_they_read_last():
    def run(x, w):
        y = x @ w
        z = (y * 2 + 1).relu()  # to the memory of y
        u = z @ w
        v = u.relu()  # a kernel by itself, to that of u
        p = v @ w
        return (p.tanh() * v) @ w

    call, x, w = compiled(run), torch.randn(300, 300), torch.randn(300, 300) / 17
    torch.testing.assert_close(call(x, w), run(x, w), rtol=1e-4, atol=1e-4)
    (program,) = call._compiled.arrays.known
    assert len(program.graph.shares) == 3 and program.size < 2.1 * x.nbytes
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    for _ in range(2):
        for one, function in ((a, call), (b, run)):
            (one.grad,) = torch.autograd.grad(function(one, w).sum(), one)
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    y = call(a, w)
    y.sum().backward(retain_graph=True), y.sum().backward()
    torch.testing.assert_close(a.grad, 3 * b.grad, rtol=1e-4, atol=1e-4)


@needs_c
def test_other_sizes_need_no_compiler(monkeypatch, tmp_path):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))

    def run(x, y):
        return (x * y + 1).relu().sum(1) * 2 - y.amax()

    call = compiled(run)
    call(torch.randn(5, 7), torch.randn(7))
    kept = len(list((tmp_path / "kernels").iterdir()))
    monkeypatch.setattr(building, "_compile", lambda *args: pytest.fail("it is compiled again"))
    for n, m in ((2, 3), (64, 100), (3, 1000)):
        x, y = torch.randn(n, m), torch.randn(m)
        agree(call(x, y), run(x, y), f"{n} x {m}")
    assert len(list((tmp_path / "kernels").iterdir())) == kept


def test_without_a_compiler_numpy_computes_and_explain_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))
    monkeypatch.setattr(
        building,
        "_compiler",
        lambda: (_ for _ in ()).throw(kernels.CompilationError("there is no C compiler: install one")),
    )
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    call, x = compiled(model), torch.randn(3, 4, requires_grad=True)
    agree(call(x), model(x), "result")
    call(x).sum().backward()
    mine, x.grad = x.grad, None
    model(x).sum().backward()
    agree(mine, x.grad, "gradient")
    text = torch.compiler.explain(call)
    assert "calls of NumPy alone: " in text
    assert kernels.why_none() is not None or "there is no C compiler" in text


def test_what_the_c_compiler_refuses_is_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "false")
    building._compiler.cache_clear()
    try:
        call = compiled(lambda x: x * 2 + 1)
        assert call(torch.ones(2)).tolist() == [3.0, 3.0]
        assert "calls of NumPy alone" in torch.compiler.explain(call)
        assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    finally:
        building._compiler.cache_clear()


@needs_c
def test_results_do_not_depend_on_the_number_of_threads():
    def run(x, y):
        return ((x * y).exp() - y.sigmoid()).tanh(), (x + y).sum(0), x.square().mean()

    x, y, call = torch.randn(700, 300), torch.randn(300), compiled(run)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append([one.numpy().tobytes() for one in call(x, y)])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_gradients_pass_gradcheck():
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)

    def run(x, w):
        y = torch.tanh(x @ w) * torch.sigmoid(x.sum(1, keepdim=True))
        return F.softmax(y, 1).log() + F.gelu(y) - torch.where(y > 0, y, y.exp())

    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(compiled(run), (x, weight))


def test_labels_out_of_range_raise_what_they_raise_uncompiled():
    call, x = compiled(F.cross_entropy), torch.randn(4, 3)
    agree(call(x, torch.tensor([0, 1, 2, 0])), F.cross_entropy(x, torch.tensor([0, 1, 2, 0])), "loss")
    assert "not served in C" not in torch.compiler.explain(call)
    with pytest.raises(IndexError):
        call(x, torch.tensor([0, 1, 7, 0]))
    agree(call(x, torch.tensor([0, 1, 2, 1])), F.cross_entropy(x, torch.tensor([0, 1, 2, 1])), "loss after the error")
    if kernels.why_none() is None:
        assert "not served in C, but by NumPy (1 x): " in torch.compiler.explain(call)


@pytest.mark.parametrize("make", [nn.GELU, nn.SiLU, nn.Sigmoid, nn.Softplus, nn.ELU, nn.LeakyReLU, nn.Tanh, nn.ReLU6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_special_values_come_out_as_uncompiled(make, dtype):
    tiny = torch.finfo(dtype).tiny
    x = torch.tensor(
        [0.0, -0.0, tiny, -tiny / 4, 1e-3, -1, 3, -20, 88, -88, 800, -800, float("inf"), -float("inf"), float("nan")]
    )
    x = x.to(dtype).requires_grad_()
    call, module = compiled(make()), make()
    for function in (lambda x: x, lambda x: x * 2 + 1):
        one, other = call(function(x)), module(function(x))
        torch.testing.assert_close(one, other, rtol=3e-7, atol=0, equal_nan=True)
        (a,) = torch.autograd.grad(one.sum(), x)
        (b,) = torch.autograd.grad(other.sum(), x)
        torch.testing.assert_close(a, b, rtol=1e-6, atol=0, equal_nan=True)


def test_planned_memory_is_no_more_than_that_of_an_uncompiled_step():
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = training(model, optimizer, None)
    call = compiled(step)
    x, t = torch.randn(512, 64), torch.randint(0, 3, (512,))
    step(x, t), step(x, t)
    tracemalloc.start()
    try:
        step(x, t)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    call(x, t)
    (program,) = call._compiled.arrays.known
    assert program.size <= peak * 1.05


@needs_c
def test_the_command_lists_and_empties_the_cache(monkeypatch, tmp_path):
    from typer.testing import CliRunner

    from plugrad.cli.cache import app

    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))
    assert "nothing is kept" in CliRunner().invoke(app, ["list"]).output
    compiled(lambda x: x * 3 + 1)(torch.ones(2))
    told = CliRunner().invoke(app, ["list"]).output
    assert "compiled-" in told and "1 file" in told and str(tmp_path) in told.replace("\n", "")
    assert "deleted 1 file" in CliRunner().invoke(app, ["empty"]).output
    assert not os.listdir(tmp_path / "kernels")


WITHOUT_THE_EXTENSION = """
import plugrad as torch
from plugrad.compiler import capturing
nn, F = torch.nn, torch.nn.functional
begun, begin = [], capturing.Captured.__init__
capturing.Captured.__init__ = lambda *args: begin(*args, *begun.append(0) or ())
x, ids = torch.linspace(-2, 2, 12).reshape(3, 4).requires_grad_(), torch.tensor([1, 0, 1])
for function, given in (
    (F.gelu, x), (nn.LayerNorm(4), x), (nn.BatchNorm1d(4), x), (lambda x: F.cross_entropy(x, ids), x),
    (nn.Embedding(3, 2), ids), (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), x),
):
    call, results = torch.compile(function, fullgraph=True), []
    for run in call, function:
        leaves = [x, *getattr(function, "parameters", list)()]
        results += [torch.autograd.grad(run(given).square().sum(), leaves, allow_unused=True)]
    torch.testing.assert_close(*results)
    assert 'calls of NumPy alone' in torch.compiler.explain(call)
assert len(begun) == 6  # once each, though captures load ops that formulas take
"""


def test_without_the_extension_everything_is_captured():
    program = WITHOUT_THE_EXTENSION
    environment = {**os.environ, "PLUGRAD_NATIVE": "0"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
