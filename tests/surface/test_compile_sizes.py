"""Programs for all sizes: what a second size brings, what later ones cost, and that none gets another's results."""

from __future__ import annotations

import copy
import math
import threading
from typing import NamedTuple

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, nn
from plugrad.compiler import sizes
from plugrad.extend import op, register
from support.compiled_programs import Convolutional, agree, compiled, loss_of, loudly, programs, state_of  # noqa: F401

F = nn.functional
SIZES = (40, 24, 32, 25, 40, 9, 7, 3, 2, 50, 81, 82, 1, 0, 40)


def agrees(call, function, *given):
    one, other = call(*given), function(*given)
    for a, b in zip(one, other) if isinstance(one, tuple) else [(one, other)]:
        agree(a, b, f"{[list(x.shape) for x in given]}")


FUNCTIONS = {
    "arithmetic": lambda x: (x * 2 + x.exp(), x - 1),
    "mean": lambda x: x.mean(),
    "mean over the size": lambda x: x.mean(0),
    "variance": lambda x: x.sum() / max(x.shape[0] - 1, 1),
    "view": lambda x: x.view(x.shape[0] * 2, 2).softmax(-1),
    "flatten": lambda x: x.reshape(-1).cumsum(0),
    "transpose": lambda x: x.T.contiguous() + 1,
    "covariance": lambda x: x.T @ x / x.shape[0],
    "all pairs": lambda x: (x @ x.T).relu(),
    "slices": lambda x: (x[1:] - x[:-1]).sum() if x.shape[0] > 1 else x.sum(),
    "last": lambda x: x[-1] * 2 if x.shape[0] else x.sum(0),
    "joined": lambda x: torch.cat([x, x * 2])[1:] if x.shape[0] else x * 1,
    "stacked": lambda x: torch.stack([x, x + 1], 1).flatten(),
    "numbers": lambda x: x + torch.arange(x.shape[0])[:, None],
    "filled": lambda x: x * torch.zeros(x.shape[0], 1) + torch.ones_like(x),
    "sorted": lambda x: x.sort(0).values * 2,
    "expanded": lambda x: x[:, None].expand(x.shape[0], 3, 4) * 2,
    "normalized": lambda x: F.layer_norm(x, (4,)),
    "first half": lambda x: (x[: x.shape[0] // 2] * 2, x.sum(0)),
    "second half": lambda x: x[x.shape[0] // 2 :].exp(),
    "every other": lambda x: (x[::2] + 1, x[1::3, None] * 2),
    "last few": lambda x: x[-3:] * 2 + x[:3],
    "inner": lambda x: x[2:-2, 1:].tanh(),
    "deviation": lambda x: (x.std(), x.var(0, correction=0)) if x.shape[0] > 1 else x.sum(),
    "evenly spaced": lambda x: x * torch.linspace(0, 1, x.shape[0])[:, None],
    "split in two": lambda x: x.split(x.shape[0] - 1)[0] * 2 if x.shape[0] > 1 else x.sum(),
    "root": lambda x: x * x.shape[0] ** -0.5 if x.shape[0] else x.sum(),
    "rounded": lambda x: x[: math.ceil(x.shape[0] / 3)] * math.floor(x.shape[0] * 0.7),
    "enlarged": lambda x: F.interpolate(x.T[None], scale_factor=2, mode="linear") if x.shape[0] else x.sum(),
    "halves by halves": lambda x: x[::2] @ x[: x.shape[0] // 2].T,
    "rows in pairs": lambda x: x.view(x.shape[0] // 2, 2, 4).mean(1) if x.shape[0] % 2 == 0 else x * 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    function = FUNCTIONS[name]
    call = compiled(function)
    for size in SIZES:
        agrees(call, function, torch.randn(size, 4))
    if name != "rows in pairs":  # every other size is decided differently
        assert len(programs(call)) < len({*SIZES}) - 3  # 0, 1 and sizes that are decided differently have their own


def _log(x):
    return x * math.log(x.shape[0])


def _root(x):
    return x / x.shape[0] ** 0.5


def _digits(x):
    return x * len(str(x.shape[0]))


def _bits(x):
    return x * x.shape[0].bit_length()


def _rows(x):
    total = x[0]
    for row in range(x.shape[0]):
        if row > 20:
            break
        total = total + x[row]
    return total


def _formatted(x):
    return x * {"24": 2.0, "17": 3.0}.get(f"{x.shape[0]}", 1.0)


LOOKS = {
    "equal": lambda x: x * 2 if x.shape[0] == 17 else x * 3,
    "not equal": lambda x: x * 2 if x.shape[0] != 17 else x * 3,
    "between": lambda x: x * 2 if 10 < x.size(0) < 20 else x * 3,
    "rest": lambda x: x * 2 if x.shape[0] % 10 == 7 else x * 3,
    "quotient": lambda x: x * (x.shape[0] // 10),
    "of all elements": lambda x: x * 2 if x.numel() == 4 * 17 else x * 3,
    "of a slice": lambda x: x[:17] * 2,
    "every other": lambda x: x[::2] * 2,
    "least": lambda x: x * min(x.shape[0], 17),
    "in a tuple": lambda x: x * 2 if tuple(x.shape) in ((17, 4), (19, 4)) else x * 3,
    "in a dict": lambda x: x * {(17, 4): 2.0}.get(tuple(x.shape), 3.0),
    "true": lambda x: x * 2 if x.shape[0] - 17 else x * 3,
    "length": lambda x: x * 2 if len(x) == 17 else x * 3,
    "as a float": lambda x: x * (float(x.shape[0]) ** 2),
    "as an array": lambda x: x * float(numpy.log10(x.shape[0]) // 1),
    "divisor": lambda x: x * math.gcd(x.shape[0], 12),
    "power of two": lambda x: x * 2 if x.shape[0] & (x.shape[0] - 1) == 0 else x * 3,
    "logarithm": _log, "root": _root, "digits": _digits, "bits": _bits, "rows": _rows, "formatted": _formatted,
    "part": lambda x: [x * 2, x * 3][x.shape[0] > 16],
    "chunks": lambda x: x.chunk(3)[0] * 2,
    "more than there are": lambda x: x[:, None].repeat(1, 2, 1)[: 2 * x.shape[0] - 10] * 1,
    "columns of eye": lambda x: torch.eye(x.shape[0], 17) * x[:, :1],
    "largest": lambda x: x.topk(min(5, x.shape[0]), 0).values,
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_programs_that_look_at_the_size(name):
    call = compiled(LOOKS[name])
    for size in (40, 24, *range(5, 45), 100, 16, 32, 64):
        agrees(call, LOOKS[name], torch.randn(size, 4))


MODELS = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Dropout(0.2), nn.Linear(9, 3)), lambda n: torch.randn(n, 6)
    ),
    "normalized": (
        lambda: nn.Sequential(nn.Linear(6, 9), nn.BatchNorm1d(9), nn.Tanh(), nn.LayerNorm(9), nn.Linear(9, 3)),
        lambda n: torch.randn(n, 6),
    ),
    "convolutional": (Convolutional, lambda n: torch.randn(n, 1, 8, 8)),
    "recurrent": (lambda: nn.Sequential(Last(), nn.Linear(5, 3)), lambda n: torch.randn(n, 4, 6)),
    "encoder": (
        lambda: nn.Sequential(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True), nn.Flatten(), nn.Linear(40, 3)
        ),
        lambda n: torch.randn(n, 5, 8),
    ),
}  # fmt: skip


class Last(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.LSTM(6, 5, batch_first=True)

    def forward(self, x):
        return self.inner(x)[0][:, -1]


@pytest.mark.parametrize("whole", [True, False], ids=["step", "module"])
@pytest.mark.parametrize("name", MODELS)
def test_steps_of_training_whose_batches_have_many_sizes(name, whole):
    make, inputs = MODELS[name]
    torch.manual_seed(0)
    model = make()
    twin = copy.deepcopy(model)

    def step_of(model, run):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

        def step(x, t):
            optimizer.zero_grad()
            loss = loss_of(run, x, t)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    expected = step_of(model, model)
    call = compiled(twin) if not whole else None
    step = step_of(twin, call) if not whole else compiled(step_of(twin, twin))
    for number, size in enumerate((12, 12, 5, 12, 8, 9, 10, 11, 12, 7, 6, 5, 13, 14, 20, 12, 5)):
        x, t = inputs(size), torch.randint(0, 3, (size,))
        torch.manual_seed(number)
        one = expected(x, t)
        torch.manual_seed(number)
        agree(step(x, t), one, f"loss {number}")
        for a, b in zip(state_of(twin), state_of(model), strict=True):
            agree(a, b, f"state after {number}")
    known = programs(step if whole else call)
    assert len(known) <= 6 and any(program.scope is not None for program in known)


def test_further_sizes_are_not_captured():
    model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 40))
    call = compiled(model)
    call(torch.randn(64, 6)), call(torch.randn(100, 6))
    arrays = call._compiled.arrays
    before, seen = arrays.captures, {*programs(call)}
    for size in range(64, 101):
        agrees(call, model, torch.randn(size, 6))
    assert arrays.captures == before and {*programs(call)} == seen
    assert "n" in str(programs(call)[0].graph)


def test_calls_of_several_sizes_go_backward_later():
    model = nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3))
    call = compiled(model)
    for size in (8, 4, 6):
        call(torch.randn(size, 6)).sum().backward()
    given = [torch.randn(size, 6, requires_grad=True) for size in (5, 8, 30, 4, 8)]
    results = [call(x) for x in given]
    for x, y in [*zip(given, results)][::-1]:
        y.square().sum().backward(retain_graph=True)
        y.square().sum().backward()
        one = x.detach().requires_grad_()
        model(one).square().sum().backward()
        agree(x.grad, one.grad * 2, "gradient")


GRADIENTS = {
    "root": lambda x: x * x.shape[0] ** -0.5,
    "deviation": lambda x: x.std((0, 2, 3)),
    "recurrent": lambda x: RECURRENT(x[:, 0])[0],
    "unfolded": lambda x: F.unfold(x, 3),
    "pooled": lambda x: F.max_pool2d(x, 2),
    "by steps": lambda x: F.conv2d(x, KERNEL, stride=2, padding=1),
    "enlarged": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
}
KERNEL, RECURRENT = torch.randn(2, 3, 3, 3), nn.LSTM(6, 3)


@pytest.mark.parametrize("name", GRADIENTS)
def test_arguments_that_are_views_and_have_gradients(name):
    call, whole = compiled(GRADIENTS[name]), torch.randn(9, 3, 6, 6, requires_grad=True)
    for size in (4, 5, 7, 9, 4, 6):
        x, gradients = whole.detach()[:size].requires_grad_(), []
        for function in (call, GRADIENTS[name]):
            x.grad = torch.ones_like(x)
            function(x).square().sum().backward()
            gradients.append(x.grad)
        agree(*gradients, f"gradient of {size}")
    known = programs(call)
    assert len(known) == 1 and known[0].scope is not None


def test_a_label_that_is_none_is_told_for_all_sizes():
    def function(x, t):
        return F.cross_entropy(x * 2, t)

    call = compiled(function)
    for size in (8, 4, 6, 7):
        agrees(call, function, torch.randn(size, 3), torch.randint(0, 3, (size,)))
    with pytest.raises(IndexError):
        call(torch.randn(5, 3), torch.tensor([0, 1, 7, 1, 0]))
    agrees(call, function, torch.randn(5, 3), torch.randint(0, 3, (5,)))


def test_results_that_are_sizes():
    def function(x):
        return x * 2, x.shape, x.shape[0] * 2, {"part": slice(0, x.shape[0]), "share": 1 / x.shape[0]}

    call = compiled(function)
    for size in (8, 4, 6, 7, 5):
        (_, *mine), (_, *theirs) = call(torch.ones(size, 3)), function(torch.ones(size, 3))
        assert mine == theirs and repr(mine) == repr(theirs) and type(mine[1]) is int
    assert programs(call)[0].scope is not None
    assert repr(call(torch.ones(7, 3))[1]) == "torch.Size([7, 3])"


def test_two_arguments_must_have_the_size():
    def function(x, y):
        return x + y

    call = compiled(function)
    for size in (8, 4, 6):
        agrees(call, function, torch.randn(size, 3), torch.randn(size, 3))
    for one, other in ((6, 1), (1, 6), (1, 1)):
        agrees(call, function, torch.randn(one, 3), torch.randn(other, 3))
    with pytest.raises(RuntimeError, match="size"):
        call(torch.randn(6, 3), torch.randn(5, 3))
    agrees(call, function, torch.randn(3, 6).T, torch.randn(6, 3))


def test_without_programs_for_many_sizes():
    call = compiled(lambda x: x * 2, dynamic=False)
    for size in (8, 4, 6):
        agrees(call, lambda x: x * 2, torch.randn(size, 3))
    assert len(programs(call)) == 3 and not any(program.scope for program in programs(call))


def test_another_dimension_and_two_of_them():
    def function(x):
        return (x.softmax(1) * x.shape[1]).sum(0), x.mean(1)

    call = compiled(function)
    for size in (8, 4, 6, 7, 12):
        agrees(call, function, torch.randn(3, size))
    captures = call._compiled.arrays.captures
    for one, other in ((4, 5), (6, 6), (3, 9)):
        agrees(call, function, torch.randn(one, other))
    assert captures <= 3


def test_a_closed_over_tensor_of_that_size():
    weight = torch.randn(8, 3)
    function = lambda x: x * weight  # noqa: E731
    call = compiled(function)
    agrees(call, function, torch.randn(8, 3))
    agrees(call, function, torch.randn(1, 3))
    with pytest.raises(RuntimeError):
        call(torch.randn(4, 3))
    agrees(call, function, torch.randn(8, 3))


def test_random_numbers_are_those_of_the_size():
    function = lambda x: F.dropout(x, 0.5) + torch.rand(x.shape[0], 3)  # noqa: E731
    call = compiled(function)
    for size in (8, 4, 6, 7, 12):
        x = torch.randn(size, 3)
        torch.manual_seed(size)
        one = call(x)
        torch.manual_seed(size)
        agree(one, function(x), "numbers")


def test_threads_with_different_sizes():
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))
    call, wrong = compiled(model), []
    call(torch.randn(16, 6)), call(torch.randn(9, 6))

    def work(x, expected):
        for _ in range(50):
            if not torch.allclose(call(x), expected, rtol=1e-4, atol=1e-5):
                wrong.append(len(x))

    given = [torch.randn(size, 6) for size in (9, 11, 16, 33)]
    given = [(x, model(x)) for x in given]
    threads = [threading.Thread(target=work, args=pair) for pair in given]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
    assert not wrong


def scope(high=20, hint=5):
    made = sizes.Scope(high, hint, {})
    return made, made.of(made.sizes.copy())


def test_numbers_that_follow_from_a_size():
    _, n = scope()
    forms = (
        lambda n: n * 3 + 1, lambda n: (n * n - 1) // 2, lambda n: n % 4, lambda n: -n, lambda n: 3 - n,
        lambda n: 1 / n, lambda n: n / 4, lambda n: n * 2.5, lambda n: abs(n - 3), lambda n: n**2,
        lambda n: divmod(n, 3)[0],
    )  # fmt: skip
    for form in forms:
        assert [form(n).at(size) for size in (3, 9, 20)] == [form(size) for size in (3, 9, 20)]
    made, n = scope()
    assert n * 2 is n + n and n - n == 0 and type(n - n) is int and repr(n * 2 - 1) == "2n-1"
    assert n < 8 and made.serves(7) and not made.serves(8)
    assert n != 3 and not made.serves(3) and made.ends() == (4, 7)
    with pytest.raises(sizes.CaptureError):
        int(n)


@pytest.mark.skipif(kernels.why_none() is not None, reason="the extension is not there")
def test_tapes_take_as_many_sizes_as_they_have():
    module, square = kernels.module(), kernels.function("square")
    x, y = numpy.arange(6.0, dtype="float32"), numpy.zeros(6, "float32")
    number = numpy.dtype("float32").num
    run = module.tape([(square, ((0, 0, (6,), (4,), number, 3), (1, 0, (6,), (4,), number, 3)), ())], [x, y], ())
    assert run(0) == 1 and y.tolist() == [0, 1, 4, 9, 16, 25]
    y[:] = 0
    ints = lambda *given: numpy.array(given, "int64")  # noqa: E731
    module.resize_tape(run, ints(2, 4, 2, 4), ints(8, 4), numpy.array([], float))
    assert run(0) == 1 and y.tolist() == [0, 4, 9, 0, 0, 0]
    for wrong in (
        (ints(2, 4), ints(0, 0), numpy.array([], float)), (ints(2, 4, 2, 4), ints(0), numpy.array([], float)),
        (ints(2, 4, 2, 4), ints(0, 0), numpy.zeros(1)), (ints(2, 4, 2, 4).astype("int32"), ints(0, 0), numpy.zeros(0)),
        ([2, 4, 2, 4], ints(0, 0), numpy.zeros(0)),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            module.resize_tape(run, *wrong)
    with pytest.raises(TypeError):
        module.resize_tape(square, ints(), ints(), numpy.zeros(0))


@pytest.mark.parametrize("layer", [nn.AdaptiveAvgPool1d(2), nn.AdaptiveMaxPool1d(1), nn.MaxPool1d(2), nn.AvgPool1d(2)])
def test_kernels_that_take_objects_with_sizes(layer):
    call = compiled(layer)
    for size in (4, 6, 8, 5, 7, 9, 4, 3):
        agrees(call, layer, torch.randn(2, 3, size))
    assert "Adaptive" in type(layer).__name__ or len(programs(call)) <= 2


class Window(NamedTuple):
    size: int
    name: str


def test_arguments_that_are_tuples_with_names():
    @op(at=("windowed",), vjp=None)
    def windowed(xp, input, window):
        """Look at a value, so that the kernel is called as a whole."""
        return input * (window.size if xp.any(input > 0) and window.name == "n" else 0)

    windowed.meta(lambda input, window: (input.shape, input.dtype))
    register(windowed)
    function = lambda x: torch.windowed(x, Window(x.shape[0], "n"))  # noqa: E731
    call = compiled(function)
    for size in (4, 6, 8, 5, 7):
        agrees(call, function, torch.ones(size))
    assert programs(call)[0].scope is not None
