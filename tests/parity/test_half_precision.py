"""bfloat16 and float16 are computed in float32 and rounded once, where PyTorch's kernels on the CPU do so."""

from __future__ import annotations

import random

import numpy
import pytest

import plugrad as torch

F = torch.nn.functional


def ulps(result, exact):
    """Return the largest error of a result, in units of its dtype at the size of each exact element."""
    unit = torch.finfo(result.dtype).eps * exact.abs().clamp(min=torch.finfo(result.dtype).tiny)
    return float(((result.double() - exact).abs() / unit).max())


CALLS = {
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 7, 16), (2, 9, 16), (2, 9, 16)]),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 7, 16)] * 3),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.7, alpha=1.3), [(5, 6), (5, 40), (40, 6)]),
    "matmul": (torch.matmul, [(5, 40), (40, 6)]),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 8, 6, 6), (4, 8, 3, 3)]),
    "sum": (lambda x: x.sum(0), [(400, 6)]),
    "mean": (lambda x: x.mean(0), [(400, 6)]),
    "softmax": (lambda x: x.softmax(-1), [(5, 100)]),
    "norm": (lambda x: x.norm(dim=0), [(400, 6)]),
    "mse": (F.mse_loss, [(30, 30), (30, 30)]),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_rounded_once(name, dtype):
    function, shapes = CALLS[name]
    random = torch.Generator().manual_seed(5)
    given = [torch.rand(shape, generator=random).add_(0.1).to(dtype) for shape in shapes]
    result, exact = function(*given), function(*(x.double() for x in given))
    assert result.dtype is dtype and ulps(result, exact) <= 0.51


PLACES = torch.arange(900) % 3
SUMMED = {
    "x + w": lambda x, w: x + w,
    "expanded": lambda x, w: w.expand(900, 6),
    "linear": lambda x, w: F.linear(x, torch.eye(6, dtype=x.dtype), w),
    "addmm": lambda x, w: torch.addmm(w, x, torch.eye(6, dtype=x.dtype)),
    "where": lambda x, w: torch.where(x > 0, w, x),
    "repeat": lambda x, w: w.repeat(900, 1),
    "rows": lambda x, w: w[PLACES],
    "index_select": lambda x, w: w.index_select(0, PLACES),
    "gather": lambda x, w: w.gather(0, PLACES[:, None].expand(-1, 6)),
    "embedding": lambda x, w: F.embedding(PLACES, w),
}
ADDED = {
    "index_add": lambda x, w: w.index_add(0, PLACES, x),
    "index_put": lambda x, w: w.index_put((PLACES,), x, accumulate=True),
    "scatter_add": lambda x, w: w.scatter_add(0, PLACES[:, None].expand(-1, 6), x),
    "scatter_reduce": lambda x, w: w.scatter_reduce(0, PLACES[:, None].expand(-1, 6), x, "sum"),
    "sparse": lambda x, w: torch.sparse_coo_tensor(PLACES[None], x, (3, 6)).to_dense(),
}


def one_of_many(name, dtype):
    """What a function of a small tensor and a large one adds up to: the gradient of the small one, or the result."""
    given = torch.Generator().manual_seed(5)
    x = torch.rand(900, 6, generator=given).add_(0.1).to(dtype)
    w = torch.ones((6,) if name in [*SUMMED][:6] else (3, 6))
    results = []
    for kind in (dtype, torch.float64):
        big, small = x.to(kind), w.to(kind).requires_grad_(name in SUMMED)
        if name in ADDED:
            results.append(ADDED[name](big, small))
        else:
            SUMMED[name](big, small).backward(big)
            results.append(small.grad)
    return results


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", [*SUMMED, *ADDED])
def test_what_adds_up_is_rounded_once(name, dtype):
    result, exact = one_of_many(name, dtype)
    assert result.dtype is dtype and ulps(result, exact) <= 0.51


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_trained_in_half_precision(kind, dtype):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(6, 5, 2).to(dtype)
    single = getattr(torch.nn, kind)(6, 5, 2)
    single.load_state_dict({name: value.float() for name, value in layer.state_dict().items()})
    x = torch.randn(4, 3, 6).to(dtype)
    for model, given in ((layer, x), (single, x.float())):
        model(given)[0].float().square().sum().backward()
    for p, q in zip(layer.parameters(), single.parameters()):
        assert p.grad.dtype is dtype
        assert float((p.grad.float() - q.grad).abs().max() / q.grad.abs().max()) < 4 * torch.finfo(dtype).eps


WITH_NUMBERS = {
    "x + n": 0, "x - n": 0, "n - x": 0, "x * n": 0, "x / n": 0, "x // n": 0, "x % n": 0, "T.fmod(x, n)": 0,
    "x == n": 0, "x != n": 0, "x < n": 0, "x <= n": 0, "x > n": 0, "x >= n": 0, "x.clamp(min=n)": 0,
    "T.add(x, x, alpha=n)": 0, "T.lerp(x, x * 2, n)": 0,
    "F.hardshrink(x, abs(n))": 0, "F.softshrink(x, abs(n))": 0, "F.threshold(x, n, n)": 0,
    "F.hardtanh(x, -abs(n), abs(n))": 0, "F.leaky_relu(x, n)": 0, "T.where(x > 0, x, n)": 0, "x + T.tensor(n)": 0,
    "x - T.tensor(n)": 0, "x * T.tensor(n)": 0, "x / T.tensor(n)": 0, "x == T.tensor(n)": 0, "x + T.tensor([2049])": 0,
    "x.clone().sub_(n)": 0, "(x.abs() + 0.5) ** n": 1, "abs(n) ** x": 1, "(x.abs() + 0.5) ** T.tensor(n)": 1,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("text", WITH_NUMBERS)
def test_numbers_are_rounded_before_where_pytorch_rounds_them(text, dtype):
    """What is compared, added or divided by is a number of the tensor's dtype; what multiplies is not rounded."""
    oracle, chance = pytest.importorskip("torch"), random.Random(3)
    for _ in range(8):
        n = round(chance.gauss(0, 3), 2) or 1.0
        values = [n] * 4 + [round(chance.gauss(0, 2), 3) for _ in range(28)]
        results = []
        for library in (torch, oracle):
            x = library.tensor(values).to(getattr(library, dtype))
            results.append(eval(text, {"T": library, "F": library.nn.functional, "x": x, "n": n}).float())
        ours, theirs = results[0], torch.from_numpy(results[1].numpy())
        apart = WITH_NUMBERS[text] * torch.finfo(getattr(torch, dtype)).eps  # of powers, the last bit
        torch.testing.assert_close(ours, theirs, rtol=apart, atol=0, equal_nan=True)


ELEMENTS = ("x + y", "x - y", "x * y", "x / y", "-x", "x * 2.7", "0.1 - x", "x / 3.3", "x.relu()")
SHAPES = [
    ((1500,), (1500,)), ((30, 50), (50,)), ((3, 2500), (2500,)), ((2500,), (3, 1)), ((5, 4, 300), (4, 1)),
    ((40, 1), (40, 100)), ((), (70,)), ((1,), (70,)), ((70,), ()), ((), ()), ((0, 3), (3,)), ((1, 1, 7), (4, 7)),
]  # fmt: skip


def with_rare_values(library, shape, dtype, seed):
    chance = random.Random(seed)
    rare = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 6e-8, 1e-39, 65504.0, 3e38]
    count = max(1, library.empty(shape).numel())
    values = [chance.choice(rare) if chance.random() < 0.05 else chance.gauss(0, 3) for _ in range(count)]
    return library.tensor(values).to(dtype)[: library.empty(shape).numel()].reshape(shape)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_arithmetic_is_pytorchs_bit_by_bit(shapes, dtype):
    """In whatever way operands meet: the C function has whole rows, pieces of rows and single numbers."""
    oracle = pytest.importorskip("torch")
    results = []
    for library in (torch, oracle):
        x, y = [with_rare_values(library, shape, getattr(library, dtype), seed) for seed, shape in enumerate(shapes)]
        named = [{"x": x, "y": y}, {"x": x.mT.contiguous().mT if x.ndim > 1 else x, "y": y}]
        results.append([eval(text, given) for text in ELEMENTS for given in named[: 1 + x.ndim]])
        x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
        (x * y - x + 0.5 * (y - x)).sum().backward()
        results[-1] += [x.grad, y.grad] if x.shape == y.shape else []
    for ours, theirs in zip(*results, strict=True):
        assert str(ours.dtype) == str(theirs.dtype) and ours.shape == theirs.shape
        ours, theirs = ours.float().numpy(), theirs.float().numpy()
        numpy.testing.assert_array_equal(ours, theirs)
        assert not (numpy.signbit(ours) != numpy.signbit(theirs))[~numpy.isnan(ours)].any()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of PyTorch's own rules for tangents
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_tangents_batches_and_overriding_classes_are_seen_beside_the_fast_path(dtype):
    results = []
    for library in (torch, pytest.importorskip("torch")):
        seen = []

        class Watched(library.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None, seen=seen):
                seen.append(function.__name__)
                return super().__torch_function__(function, types, args, kwargs or {})

        x, y = library.tensor([[1.5, 2.25, -3.0], [0.1, 7.0, 2.0]]).to(getattr(library, dtype))
        watched = x.as_subclass(Watched)
        found = [*library.func.jvp(lambda a, y=y: -(a * a - y) / y + a, (x,), (y,))]
        found += [library.func.vmap(lambda a, b: a * b - a)(x, y), watched * y + watched]
        results.append([seen[:2], [(one.tolist(), str(one.dtype)) for one in found]])
    assert results[0] == results[1]
