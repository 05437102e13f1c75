"""Whole steps of training and generation, and single kernels, against PyTorch with the bars that they are to hold.

    python benchmarks/workloads.py [--threads 1] [--device cuda] [--graph] [--rounds 9] [--only LSTM]
        [--busy] [--json FILE]

Measured as `kernels.py` does: both libraries in turn, the median of the rounds' ratios. With `--busy` plugrad alone is
measured, by the clock, quiet and beside a program that takes one of the processors all the time; the bar is then 3.
With `--graph` both libraries capture each step as a CUDA graph, and what is measured are its launches: the work of the
device, without the host's. What can't be captured is named with the reason.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from kernels import (
    ADAM,
    attention,
    block,
    compare,
    descent,
    keep,
    op_step,
    own_function,
    parser_of,
    prepared,
    training,
)

BUSY = "import os\nos.sched_setaffinity(0, {PLACE}) if hasattr(os, 'sched_setaffinity') else None\nwhile True: pass"


def model_step(T, model, loss, optimizer, *batch):
    """Return a step of training: gradients of the loss of the model's output, and the optimizer's step."""
    (*inputs, target), descend = batch, optimizer(model.parameters())

    def step():
        descend.zero_grad()
        loss(model(*inputs), target).backward()
        descend.step()

    return step


def perceptron(T, batch, optimizer="SGD"):
    """Return a step of a network for digits without convolutions."""
    nn = T.nn
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
    make = {"SGD": lambda p: T.optim.SGD(p, 0.01), "Adam": lambda p: T.optim.Adam(p, **ADAM)}[optimizer]
    return model_step(T, model, nn.functional.cross_entropy, make, T.randn(batch, 784), T.randint(0, 10, (batch,)))


def digits(T, batch=64):
    """Return a step of the tutorial's convolutional network."""
    nn = T.nn
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip
    images, labels = T.randn(batch, 1, 28, 28), T.randint(0, 10, (batch,))
    return model_step(T, model, nn.functional.cross_entropy, lambda p: T.optim.SGD(p, 0.01), images, labels)


def language_model(T, layers=2, size=128, words=65):
    """Return a small transformer that reads from left to right, as a function of tokens."""
    nn = T.nn
    layer = nn.TransformerEncoderLayer(size, 4, 4 * size, dropout=0.0, batch_first=True)
    parts = nn.ModuleList([nn.Embedding(words, size), nn.TransformerEncoder(layer, layers), nn.Linear(size, words)])

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = parts

        def forward(self, tokens):
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            return parts[2](parts[1](parts[0](tokens), mask=mask, is_causal=True))

    return Model()


def language_training(T):
    """Return a step of its training with AdamW."""
    tokens, target = T.randint(0, 65, (16, 64)), T.randint(0, 65, (16, 64))
    model = language_model(T)
    loss = lambda y, t: T.nn.functional.cross_entropy(y.flatten(0, 1), t.flatten())  # noqa: E731
    return model_step(T, model, loss, lambda p: T.optim.AdamW(p, **ADAM), tokens, target)


def generation(T, count=16):
    """Return what generates tokens, one after the other, each from all before."""
    model, start = language_model(T).eval(), T.randint(0, 65, (1, 16))

    def step():
        tokens = start
        with T.no_grad():
            for _ in range(count):
                tokens = T.cat([tokens, model(tokens)[:, -1].argmax(-1, keepdim=True)], 1)

    return step


def own_linear(T, batch, inputs, outputs):
    """Return the gradients' step of a linear layer as a Function, as the tutorials write it."""

    class Linear(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias):
            ctx.save_for_backward(x, weight)
            y = x.mm(weight.t())
            y += bias.unsqueeze(0).expand_as(y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, weight = ctx.saved_tensors
            return g.mm(weight), g.t().mm(x), g.sum(0)

    leaves = [T.randn(*shape, requires_grad=True) for shape in ((batch, inputs), (outputs, inputs), (outputs,))]
    g = T.ones(batch, outputs)

    def step():
        for leaf in leaves:
            leaf.grad = None
        Linear.apply(*leaves).backward(g)

    return step


def call(name, *shapes, **options):
    """Return the builder of the gradients' step of a function in `nn.functional` of random tensors."""

    def build(T):
        leaves = [T.randn(*shape, requires_grad=True) for shape in shapes]
        function = getattr(T.nn.functional, name)
        g = T.ones_like(function(*leaves, **options).detach())

        def step():
            for leaf in leaves:
                leaf.grad = None
            function(*leaves, **options).backward(g)

        return step

    return build


def layer(name, *sizes):
    """Return the builder of the gradients' step of a recurrent layer."""
    return lambda T: training(T, getattr(T.nn, name)(*sizes, batch_first=True), T.randn(16, 30, sizes[0]))


WORKLOADS = {
    "MLP, batch of 1": (0.45, lambda T: perceptron(T, 1)),
    "MLP, 64": (0.60, lambda T: perceptron(T, 64)),
    "MLP, 64, Adam": (0.60, lambda T: perceptron(T, 64, "Adam")),
    "MLP, 1024": (0.90, lambda T: perceptron(T, 1024)),
    "Function, linear 3 x 4": (1.1, lambda T: own_linear(T, 3, 4, 5)),
    "Function, linear 64 x 784": (0.9, lambda T: own_linear(T, 64, 784, 256)),
    "Function, relu of 100,000": (1.0, lambda T: own_function(T, 100_000)),
    "digits CNN, training, 64": (1.05, digits),
    "residual block 32 x 16 x 16, 16": (1.05, lambda T: training(T, block(T, 32, 1), T.randn(16, 32, 16, 16))),
    "depthwise block 32 x 16 x 16, 16": (0.6, lambda T: training(T, block(T, 32, 32), T.randn(16, 32, 16, 16))),
    "transformer, training, 16 x 64": (0.95, language_training),
    "transformer, generation": (1.0, generation),
    "encoder layer 128, 8 x 64": (0.85, lambda T: training(
        T, T.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True), T.randn(8, 64, 128)
    )),
    "causal attention 4 x 4 x 64 x 32": (1.0, attention),
    "LSTM 32-64, 16 x 30": (1.0, layer("LSTM", 32, 64)),
    "GRU 32-64, 16 x 30": (0.9, layer("GRU", 32, 64)),
    "RNN 32-64, 16 x 30": (0.9, layer("RNN", 32, 64)),
    "convolution, 3 x 3 by 2, 32 to 64": (1.0, call("conv2d", (8, 32, 32, 32), (64, 32, 3, 3), stride=2, padding=1)),
    "convolution, 7 x 7 by 2, 3 to 32": (1.0, call("conv2d", (4, 3, 64, 64), (32, 3, 7, 7), stride=2, padding=3)),
    "convolution, 4 groups of 16": (1.0, call("conv2d", (8, 64, 16, 16), (64, 16, 3, 3), groups=4, padding=1)),
    "convolution, dilated": (1.0, call("conv2d", (8, 32, 24, 24), (32, 32, 3, 3), dilation=2, padding=2)),
    "convolution of signals": (1.0, call("conv1d", (16, 32, 128), (64, 32, 5), padding=2)),
    "convolution of volumes": (1.0, call("conv3d", (2, 8, 16, 16, 16), (16, 8, 3, 3, 3), padding=1)),
    "convolution, transposed by 2": (
        1.0, call("conv_transpose2d", (8, 32, 16, 16), (32, 16, 4, 4), stride=2, padding=1)
    ),
    "max pooling 2 x 2": (1.0, call("max_pool2d", (16, 32, 28, 28), kernel_size=2)),
    "average pooling 3 x 3 by 2": (1.0, call("avg_pool2d", (16, 32, 28, 28), kernel_size=3, stride=2, padding=1)),
    "average pooling to 1": (1.0, call("adaptive_avg_pool2d", (16, 64, 14, 14), output_size=1)),
    "Adam, 20 x 10,000": (0.35, lambda T: descent(T, "Adam")),
    "Adam, PyTorch's fused": (0.95, lambda T: descent(T, "Adam", **({"fused": True} if T.__name__ == "torch" else {}))),
    "SGD with momentum": (0.35, lambda T: descent(T, "SGD", lr=1e-3, momentum=0.9)),
}  # fmt: skip
for code, bar in (
    ("F.gelu(x)", 1.0), ("x.relu()", 1.0), ("F.softmax(x, -1)", 1.0), ("F.layer_norm(x, (100,))", 1.0),
    ("F.cross_entropy(x, t)", 1.0), ("x.gather(1, along)", 1.0), ("y.scatter_add(1, along, x)", 1.0),
    ("x.cumsum(1)", 0.5), ("F.embedding(at, x)", 0.5),
):  # fmt: skip
    for n in (100_000, 10_000_000):
        WORKLOADS[f"{code}, {n:,} with backward"] = bar, lambda T, code=code, n=n: op_step(T, code, n, True)


def beside_another(build, T, rounds) -> tuple:
    """Return (median time beside a program that takes a processor over the quiet one, busy time, quiet time)."""
    step = build(T)

    def timed():
        step()
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        return (time.perf_counter() - start) / repeats

    repeats = 3
    repeats = max(1, int(0.05 / timed()))
    times = []
    for _ in range(rounds):
        quiet = timed()
        other = subprocess.Popen([sys.executable, "-c", BUSY.replace("PLACE", str(max(os.sched_getaffinity(0))))])
        try:
            time.sleep(0.1)  # until it runs
            times.append((timed(), quiet))
        finally:
            other.kill()
            other.wait()
    busy, quiet = (statistics.median(column) for column in zip(*times, strict=True))
    return busy / quiet, busy, quiet


def main():
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--busy", action="store_true", help="beside a program that takes a processor, without PyTorch")
    parser.add_argument("--graph", action="store_true", help="launches of CUDA graphs of the steps")
    options = parser.parse_args()
    if options.graph:
        ADAM["capturable"] = True
    plugrad, torch, timing = prepared(options.threads, options.device)
    rows, above = {}, 0
    print(f"| workload | plugrad ms | {'quiet' if options.busy else 'PyTorch'} ms | ratio | bar |")
    print("|---|---|---|---|---|")
    for name, (bar, build) in WORKLOADS.items():
        if options.only not in name or (options.busy and "fused" in name):
            continue
        plugrad.manual_seed(0), torch.manual_seed(0)
        if options.busy:
            bar, (ratio, ours, theirs) = 3.0, beside_another(build, plugrad, options.rounds)
        else:
            try:
                ratio, ours, theirs = compare(build, (plugrad, torch), options.rounds, *timing, options.graph)
            except RuntimeError as error:
                if not options.graph:
                    raise
                print(f"| {name} | not captured: {error} | | | |", flush=True)
                continue
        rows[name] = ratio, ours, theirs, bar
        above += ratio > bar
        times = f"{ours * 1e3:.3g} | {theirs * 1e3:.3g} | {ratio:.2f} | {bar}{' (above)' if ratio > bar else ''}"
        print(f"| {name} | {times} |", flush=True)
    print(f"\n{len(rows)} workloads, {above} above their bar")
    keep(rows, options.json)


if __name__ == "__main__":
    main()
