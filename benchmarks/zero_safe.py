"""What `autograd.zero_safe` costs: forward and backward with it, next to the same without, in one process.

    python benchmarks/zero_safe.py [--rounds 60] [--only chain]

Blocks of steps with and without the mode run in turn; a row shows the least time of each, by the clock of the process,
and how much more the mode takes. In the cases under "repaired" every step meets 0 * inf, so the mode has work to do;
the row says so if it changed nothing there.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy

import plugrad as torch
from plugrad import autograd

F = torch.nn.functional
CASES, REPAIRED = {}, {}


def case(name, table=CASES):
    """Enter under a name a function that returns (step, leaf): the step to time, and a leaf that it fills."""

    def enter(function):
        table[name] = function
        return function

    return enter


def training(model, loss, *inputs):
    """Return a step that zeroes gradients, computes the loss and walks backward."""
    parameters = list(model.parameters())

    def step():
        for parameter in parameters:
            parameter.grad = None
        loss(model(*inputs)).backward()

    return step, parameters[0]


def function(build, *shape, low=0.5, grad=None):
    """Return a step that walks backward from `build(x)`, for x of a shape, uniform between `low` and 2."""
    x = (torch.rand(*shape) * (2 - low) + low).requires_grad_()

    def step():
        x.grad = None
        build(x).sum().backward()

    return step, x


@case("documents' MLP, batch of 64")
def perceptron():
    model = torch.nn.Sequential(torch.nn.Linear(1000, 100), torch.nn.Tanh(), torch.nn.Linear(100, 10))
    y = torch.randint(0, 10, (64,))
    return training(model, lambda out: F.cross_entropy(out, y), torch.randn(64, 1000))


@case("the same, batch of 1")
def one_row():
    model = torch.nn.Sequential(torch.nn.Linear(1000, 100), torch.nn.Tanh(), torch.nn.Linear(100, 10))
    y = torch.randint(0, 10, (1,))
    return training(model, lambda out: F.cross_entropy(out, y), torch.randn(1, 1000))


@case("digits CNN, batch of 16")
def digits():
    n = torch.nn
    layers = n.Conv2d(1, 16, 3, padding=1), n.ReLU(), n.MaxPool2d(2), n.Conv2d(16, 32, 3, padding=1)
    model = n.Sequential(*layers, n.ReLU(), n.MaxPool2d(2), n.Flatten(), n.Linear(128, 10))
    y = torch.randint(0, 10, (16,))
    return training(model, lambda out: F.cross_entropy(out, y), torch.randn(16, 1, 8, 8))


class _Attention(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        return x + self.out(F.softmax(scores, -1) @ v)


@case("attention block, 8 x 32 x 64")
def attention():
    return training(_Attention(64), lambda out: (out * out).mean(), torch.randn(8, 32, 64))


@case("attention block, 1 x 4 x 8")
def tiny_attention():
    return training(_Attention(8), lambda out: (out * out).mean(), torch.randn(1, 4, 8))


def _chain(x, length=200):
    y = x
    for _ in range(length // 4):
        y = ((y * x.detach()) + 0.5).tanh() - 0.25
    return y


@case("chain of 200 ops on 4 numbers")
def chain():
    return function(_chain, 4)


def _twice(x):
    y = x
    for _ in range(100):
        y = y * y.sin()
    return y


@case("200 ops on 4 numbers, values used twice")
def twice():
    return function(_twice, 4)


@case("200 ops on 1000 numbers, values used twice")
def twice_longer():
    return function(_twice, 1000)


def _squares(x):
    y = x
    for _ in range(200):
        y = y * y
    return y


@case("200 products of a value with itself")
def squares():
    return function(_squares, 4)


@case("100 parameters of 4 numbers")
def parameters():
    values = [torch.ones(4, requires_grad=True) for _ in range(100)]

    def step():
        y = 1.0
        for value in values:
            value.grad = None
            y = value * y
        y.sum().backward()

    return step, values[0]


@case("gradients accumulate, 100 parameters")
def accumulating():
    values = [torch.ones(4, requires_grad=True) for _ in range(100)]

    def step():
        y = 1.0
        for value in values:
            y = value * y
        y.sum().backward()

    return step, values[0]


@case("20 elementwise ops on 1e6 numbers")
def big():
    return function(lambda x: _chain(x, 20), 1_000_000)


@case("the same, values used twice")
def big_twice():
    def build(x):
        for _ in range(10):
            x = x * x.sin()
        return x

    return function(build, 1_000_000)


@case("autograd.grad, chain of 200 ops")
def by_grad():
    x = torch.rand(4, requires_grad=True)
    return lambda: autograd.grad(_chain(x).sum(), x), x


def _second(build, *shape):
    x = torch.rand(*shape, requires_grad=True)

    def step():
        x.grad = None
        (g,) = autograd.grad(build(x).sum(), x, create_graph=True)
        (g * g).sum().backward()

    return step, x


@case("second order, chain of 40 ops")
def second():
    return _second(lambda x: _chain(x, 40), 4)


@case("second order, 1e5 numbers")
def second_big():
    return _second(lambda x: _chain(x, 20), 100_000)


@case("values used twice, hooks on 10 of 200")
def hooked():
    def build(x):
        for number in range(100):
            x = x * x.sin()
            if number % 10 == 0:
                x.register_hook(lambda g: None)
        return x

    return function(build, 4)


@case("values used twice, 10 custom Functions")
def custom():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def build(x):
        for number in range(100):
            x = x * x.sin()
            if number % 10 == 0:
                x = Double.apply(x)
        return x

    return function(build, 4)


@case("log in where, nothing at 0")
def ordinary_log():
    return function(lambda x: torch.where(x > 0.9, x.log(), 0.0), 64, 100)


def _with_zeros(build, *shape):
    step, x = function(build, *shape)
    with torch.no_grad():
        x.view(-1)[::7] = 0.0
    return step, x


for _shape in ((4,), (64, 100), (1000, 1000)):
    for _name, _build in {
        "log in where": lambda x: torch.where(x > 0, x.log(), 0.0),
        "quotient in where": lambda x: torch.where(x != 0, 1 / x, 0.0),
        "root in where": lambda x: torch.where(x > 0, x.sqrt(), 0.0),
        "masked_fill": lambda x: x.log().masked_fill(x <= 0, 0.0),
    }.items():
        _label = f"{_name}, {' x '.join(map(str, _shape))}"
        REPAIRED[_label] = lambda build=_build, shape=_shape: _with_zeros(build, *shape)


@case("norm of rows at zero, 64 x 100", REPAIRED)
def norms():
    step, x = function(lambda x: (x * x).sum(1).sqrt(), 64, 100)
    with torch.no_grad():
        x[3] = 0.0
    return step, x


@case("MLP with a logarithm of 0 in its loss", REPAIRED)
def log_in_loss():
    model = torch.nn.Sequential(torch.nn.Linear(1000, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))

    def loss(out):
        kept = out * (out > 0)
        return torch.where(kept > 0, kept.log(), 0.0).mean()

    return training(model, loss, torch.randn(64, 1000))


@case("MLP with a norm of 0 in its loss", REPAIRED)
def norm_in_loss():
    model = torch.nn.Sequential(torch.nn.Linear(1000, 100), torch.nn.Tanh(), torch.nn.Linear(100, 10))
    x = torch.randn(64, 1000)
    x[1] = x[0]

    def loss(out):
        apart = out[0::2] - out[1::2]
        return (apart * apart).sum(1).sqrt().mean()

    return training(model, loss, x)


@case("MLP, targets that are missing", REPAIRED)
def missing_targets():
    model = torch.nn.Sequential(torch.nn.Linear(1000, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    y = torch.randn(64, 10)
    y[::5, 3] = float("nan")
    there = ~torch.isnan(y)
    return training(model, lambda out: torch.square(out - y)[there].mean(), torch.randn(64, 1000))


def measure(step, rounds):
    """Return seconds per step without and with the mode: the least of the rounds, in blocks that take turns."""
    start = time.perf_counter()
    step()
    step()
    repeats = max(1, int(0.01 / (time.perf_counter() - start) * 2))
    times = [[], []]
    for number in range(rounds):
        for on in (number % 2, 1 - number % 2):
            autograd.set_zero_safe(bool(on))
            start = time.process_time()
            for _ in range(repeats):
                step()
            times[on].append((time.process_time() - start) / repeats)
    autograd.set_zero_safe(False)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    for title, table in (("ordinary", CASES), ("repaired", REPAIRED)):
        print(f"{title:44}{'off us':>10}{'on us':>10}{'least':>9}{'median':>9}")
        for name, build in table.items():
            if options.only not in name:
                continue
            torch.manual_seed(0)
            numpy.random.seed(0)
            step, leaf = build()
            off, on = measure(step, options.rounds)
            least, median = min(on) / min(off) - 1, statistics.median(on) / statistics.median(off) - 1
            note = ""
            if table is REPAIRED:
                step()
                note = "" if leaf.grad.isnan().any() else "   no NaN to repair"
            times = f"{min(off) * 1e6:10.1f}{min(on) * 1e6:10.1f}"
            print(f"  {name:42}{times}{least:+9.1%}{median:+9.1%}{note}", flush=True)


if __name__ == "__main__":
    main()
