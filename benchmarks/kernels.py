"""Single ops, with and without backward, and steps of models: plugrad's time over PyTorch's, in alternation.

    python benchmarks/kernels.py [--wide | --in-place] [--threads 1] [--device cuda] [--rounds 9] [--only softmax]
        [--json FILE]

A cell runs the same code on both libraries in turn and shows the median of the rounds' ratios: below 1 plugrad is
faster. With one thread the processor's time of that thread is taken, which other programs disturb little; with more the
clock's, and the threads of one library can be in the way of the other's, in spite of a pause. On another device it is
the clock's once the device has done all that was asked of it, and the sizes are larger. At the end: the geometric mean,
and how many cells are slower than PyTorch by more than 5 % and by half.

With CUPY_ON_CPU=idle in the environment no card is needed: `cuda` is the tests' stand-in for one, whose launches do
nothing, so that what is measured is the time of plugrad's host on CUDA, beside PyTorch's CPU on SIZES_OF_HOSTS.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import statistics
import sys
import time

SIZES = (1_000, 100_000)
SIZES_ON_DEVICES = (100_000, 10_000_000)
SIZES_OF_HOSTS = (1_000,)
IDLE = "CUPY_ON_CPU" in os.environ
OF_VALUES = "x[m]", "x.unique", "x.nonzero", "t.bincount", "p.multinomial"  # whose size no idle device tells

# x, y: (n / 100, 100); row: (100,); m: a mask like x; at: rows; along: indices like x; t: a label for each row;
# p: x in (0, 1); images: (n / 512, 8, 8, 8); whole: integers like x.
OPS = """
F.softmax(x, -1) | F.log_softmax(x, -1) | F.layer_norm(x, (100,)) | F.gelu(x) | F.silu(x) | x.sigmoid()
x.tanh() | x.relu() | F.leaky_relu(x) | F.elu(x) | F.softplus(x) | x.exp() | x ** 2 | x * y | x + row
x.clamp(-1, 1) | T.where(m, x, y) | x.masked_fill(m, 0.5) | x[m] | F.dropout(x, 0.5) | x.sum(0) | x.sum(1)
x.mean() | x.var(1) | x.amax(1) | x.norm(dim=1) | x.logsumexp(1) | x.cumsum(1) | x.sort(1)[0] | x.topk(5, 1)[0]
x.gather(1, along) | y.scatter_add(1, along, x) | x.index_select(0, at) | y.index_add(0, at, x) | x[at]
F.embedding(at, x) | F.cross_entropy(x, t) | F.mse_loss(x, y)
F.binary_cross_entropy_with_logits(x, y.sigmoid()) | T.cat([x, y]) | x.t().contiguous() | x @ row
"""
# What is less often the time of a program.
WIDE = """
x % 0.3 | T.fmod(x, y) | x // 0.3 | whole % 7 | whole + 3 | x.long() | x.half() | x.half() * 2 | x.bfloat16() * 2
x.prod(1) | x.cumprod(1) | x.cummax(1)[0] | x.logcumsumexp(1) | x.max() | x.argmax(1) | x.std() | x.median(1)[0]
x.unique() | p.log() | p.log1p() | x.sin() | x.erf() | p.rsqrt() | p ** 2.5 | T.atan2(x, y) | x.round() | x.isnan()
T.allclose(x, x) | F.hardswish(x) | F.mish(x) | F.selu(x) | F.relu6(x) | F.hardtanh(x) | F.logsigmoid(x) | F.glu(x)
F.prelu(x, row.abs()) | T.lerp(x, y, 0.3) | T.addcmul(x, x, y) | F.smooth_l1_loss(x, y) | F.huber_loss(x, y)
F.kl_div(x, p) | F.nll_loss(x, t) | F.cosine_similarity(x, y) | F.normalize(x) | T.cdist(x, y) | F.softmax(x, 0)
F.log_softmax(images, 1) | x.sum(0) | x.tril() | x.flip(1) | x.roll(3, 0) | x.repeat(2, 2) | x.repeat_interleave(3, 0)
x.nonzero() | x.t().reshape(-1) | F.one_hot(t, 100) | t.bincount() | T.randperm(len(x)) | T.bernoulli(p)
p.multinomial(5) | T.fft.rfft(x) | F.group_norm(images, 4) | F.instance_norm(images) | F.pad(images, (1, 1, 1, 1))
F.pad(images, (1, 1, 1, 1), mode="reflect") | F.interpolate(images, scale_factor=2)
F.interpolate(images, scale_factor=2, mode="bilinear") | F.pixel_shuffle(images, 2)
F.grid_sample(images, images[:, :2].movedim(1, -1), align_corners=False) | F.unfold(images, 3)
F.adaptive_avg_pool2d(images, 2) | T.bmm(images[:, 0], images[:, 1]) | T.einsum("nchw,nchv->ncwv", images, images)
F.batch_norm(x, None, None, training=True) | F.batch_norm(images, None, None, training=True)
F.batch_norm(x, row, row.square() + 1, row, row) | F.group_norm(x, 2) | T.logaddexp(x, y) | x.max(1)[0] | x.diag()
"""
# What user-written optimizers and initializations are made of: forms that write, where nothing is recorded.
IN_PLACE = """
x.add_(y) | x.add_(y, alpha=0.1) | x.sub_(0.1) | x.mul_(0.99) | x.mul_(y) | x.div_(y) | x.addcmul_(y, y, value=1e-3)
x.addcdiv_(y, p, value=1e-3) | x.lerp_(y, 0.1) | x.lerp_(y, p) | x.clamp_(-1, 1) | x.clamp_(min=0) | x.clamp_(max=1)
x.masked_fill_(m, 0.5) | x.copy_(y) | x.zero_() | x.fill_(0.5) | x.neg_() | x.abs_() | x.sign_() | p.sqrt_()
p.rsqrt_() | p.reciprocal_() | x.exp_() | p.log_() | x.relu_() | x.sigmoid_() | x.tanh_() | x.sin_() | x.round_()
x.floor_() | x.frac_() | x.pow_(2) | x.square_() | x.gt_(y) | x.nan_to_num_() | x.remainder_(0.3) | x.uniform_()
x.normal_() | x.bernoulli_(0.5) | x.index_add_(0, at, y) | x.index_fill_(0, at, 0.5) | x.scatter_add_(1, along, y)
x.cumsum_(1) | x.tril_() | F.relu(x, inplace=True) | F.silu(x, inplace=True) | F.leaky_relu(x, inplace=True)
"""
LISTS = {"ops": OPS, "wide": WIDE, "in-place": IN_PLACE}


def arguments(T, n):
    """Return the names that an expression may use, equal for both libraries but for the random numbers' bits."""
    T.manual_seed(0)
    rows = n // 100
    leaf = {name: T.randn(rows, 100, requires_grad=True) for name in "xy"}
    index = {"at": T.randint(0, rows, (rows,)), "t": T.randint(0, 100, (rows,))}
    index["along"], mask = T.randint(0, 100, (rows, 100)), T.randn(rows, 100) > 0
    leaf["images"] = T.randn(max(1, n // 512), 8, 8, 8, requires_grad=True)
    leaf["p"] = leaf["x"].detach().sigmoid().requires_grad_()
    index["whole"] = T.randint(0, 1000, (rows, 100))
    return {**leaf, **index, "row": T.randn(100, requires_grad=True), "m": mask}


def op_step(T, code, n, backward):
    """Return the step that computes an expression on n elements, and its gradients if asked for."""
    names = arguments(T, n)
    if not backward:  # on tensors that record nothing: a block of no_grad in each step would be measured with the op
        names = {name: value.detach() for name, value in names.items()}
    step = eval(f"lambda: {code}", {**names, "T": T, "F": T.nn.functional})
    if not backward:
        return step
    leaves, g = [value for value in names.values() if value.requires_grad], T.ones_like(step().detach())

    def both():
        for leaf in leaves:
            leaf.grad = None
        step().backward(g)

    return both


def training(T, model, *inputs):
    """Return the step that takes the gradients of a model's output."""
    inputs = [value.requires_grad_() if value.is_floating_point() else value for value in inputs]

    def step():
        for value in (*inputs, *model.parameters()):
            value.grad = None
        result = model(*inputs)
        (result[0] if isinstance(result, tuple) else result).sum().backward()

    return step


def block(T, channels, groups):
    """Return a block of two convolutions with normalisation."""
    nn = T.nn
    conv = [nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False) for _ in "12"]
    return nn.Sequential(conv[0], nn.BatchNorm2d(channels), nn.ReLU(), conv[1], nn.BatchNorm2d(channels))


def digits(T):
    """Return a small convolutional network for 28 x 28 images."""
    nn = T.nn
    first = nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10))


def attention(T):
    """Return the gradients' step of causal attention with 4 heads."""
    q, k, v = (T.randn(4, 4, 64, 32, requires_grad=True) for _ in "qkv")

    def step():
        q.grad = k.grad = v.grad = None
        T.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()

    return step


def own_function(T, n):
    """Return the step of a function with a gradient of its own, as the tutorials write it."""

    class Clamp(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=0)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            g = g.clone()
            g[x < 0] = 0
            return g

    x, g = T.randn(n, requires_grad=True), T.ones(n)

    def step():
        x.grad = None
        Clamp.apply(x).backward(g)

    return step


ADAM: dict = {}  # options of Adam and AdamW: those that CUDA graphs need


def descent(T, name, **options):
    """Return the step of an optimizer on 20 parameters of 10,000 elements."""
    options |= ADAM if name == "Adam" else {}
    parameters = [T.randn(100, 100, requires_grad=True) for _ in range(20)]
    for p in parameters:
        p.grad = T.randn(100, 100)
    return getattr(T.optim, name)(parameters, **options).step


MODELS = {
    "perceptron 784-256-10, 64": lambda T: training(
        T, T.nn.Sequential(T.nn.Linear(784, 256), T.nn.ReLU(), T.nn.Linear(256, 10)), T.randn(64, 784)
    ),
    "digits CNN, 32": lambda T: training(T, digits(T), T.randn(32, 1, 28, 28)),
    "residual block 32 x 16 x 16, 16": lambda T: training(T, block(T, 32, 1), T.randn(16, 32, 16, 16)),
    "depthwise block 32 x 16 x 16, 16": lambda T: training(T, block(T, 32, 32), T.randn(16, 32, 16, 16)),
    "LSTM 32-64, 16 x 30": lambda T: training(T, T.nn.LSTM(32, 64, batch_first=True), T.randn(16, 30, 32)),
    "GRU 32-64, 16 x 30": lambda T: training(T, T.nn.GRU(32, 64, batch_first=True), T.randn(16, 30, 32)),
    "RNN 32-64, 16 x 30": lambda T: training(T, T.nn.RNN(32, 64, batch_first=True), T.randn(16, 30, 32)),
    "encoder layer 128, 8 x 64": lambda T: training(
        T, T.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True), T.randn(8, 64, 128)
    ),
    "causal attention 4 x 4 x 64 x 32": attention,
    "embedding 1000 x 64, 1600": lambda T: training(T, T.nn.Embedding(1000, 64), T.randint(0, 1000, (1600,))),
    "Function of 10": lambda T: own_function(T, 10),
    "Function of 100,000": lambda T: own_function(T, 100_000),
    "Adam": lambda T: descent(T, "Adam"),
    "Adam, PyTorch's fused": lambda T: descent(T, "Adam", **({} if T.__name__ == "plugrad" else {"fused": True})),
    "SGD with momentum": lambda T: descent(T, "SGD", lr=1e-3, momentum=0.9),
    "RMSprop": lambda T: descent(T, "RMSprop"),
}


def cells(chosen_list="ops", sizes=SIZES) -> dict:
    """Return {name: function of the library that returns the step}."""
    chosen, single = {}, chosen_list != "ops"
    for code in [part.strip() for line in LISTS[chosen_list].strip().splitlines() for part in line.split("|")]:
        for n in sizes:
            for backward in (False,) if single else (False, True):
                label = f"{code}, {n:,}{' with backward' if backward else ''}"
                chosen[label] = lambda T, code=code, n=n, backward=backward: op_step(T, code, n, backward)
    return chosen if single else {**chosen, **MODELS}


def graphed(T, step):
    """Return what launches the CUDA graph of a step; RuntimeError that says whose step can't be captured."""
    side = T.cuda.Stream()
    side.wait_stream(T.cuda.current_stream())
    with T.cuda.stream(side):
        for _ in range(3):
            step()
    T.cuda.current_stream().wait_stream(side)
    graph = T.cuda.CUDAGraph()
    try:
        with T.cuda.graph(graph):
            step()
    except Exception as error:
        raise RuntimeError(f"{T.__name__}: {str(error).splitlines()[0]}") from error
    return graph.replay


def compare(build, libraries, rounds, clock, pause, graphs=False) -> tuple:
    """Return (median ratio, least time of the first library's step, of the second's) in seconds."""
    steps = [build(library) for library in libraries]
    if graphs:
        steps = [graphed(library, step) for library, step in zip(libraries, steps, strict=True)]

    def timed(step, repeats):
        time.sleep(pause)  # threads of the other library, or of its products, wait for work by spinning
        step()
        start = clock()
        for _ in range(repeats):
            step()
        return (clock() - start) / repeats

    for step in steps:
        timed(step, 3)
    repeats = max(1, int(0.01 / max(timed(steps[1], 3), 1e-7)))
    times = [[timed(step, repeats) for step in steps] for _ in range(rounds)]
    return statistics.median(ours / theirs for ours, theirs in times), *map(min, zip(*times, strict=True))


def parser_of(text):
    """Return the parser of a benchmark's options, which begins with the first line of its text."""
    parser = argparse.ArgumentParser(description=text.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", help="where tensors are made")
    parser.add_argument("--only", default="", help="those whose names contain this")
    parser.add_argument("--json", help="write the rows to this file")
    return parser


def prepared(threads, device="cpu"):
    """Return plugrad, torch, and the clock and pause of `compare`, for so many threads, and tensors on a device."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    import plugrad

    torch.set_num_threads(threads)
    if IDLE:
        _idle_cuda()
        plugrad.set_default_device("cuda")
    elif device != "cpu":

        def clock():
            """Return the time at which the device has done all that was asked of it."""
            plugrad.cuda.synchronize(), torch.cuda.synchronize()
            return time.perf_counter()

        plugrad.set_default_device(device), torch.set_default_device(device)
        return plugrad, torch, (clock, 0.0)
    return plugrad, torch, (time.thread_time, 0.0) if threads == 1 else (time.perf_counter, 0.03)


def _idle_cuda():
    """Make `cuda` the tests' stand-in for a GPU, whose launches do nothing."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
    import cupy_on_cpu

    cupy_on_cpu.load()
    cupy_on_cpu.set_idle(True)


def keep(rows, path):
    """Write rows to a file, if there is a path."""
    if path:
        with open(path, "w") as file:
            json.dump(rows, file, indent=1)


def print_table(chosen, options, libraries, timing):
    """Print a row for each of {name: function that returns a library's step}, and how all compare; keep the rows."""
    rows = {}
    print("| cell | plugrad us | PyTorch us | ratio |\n|---|---|---|---|")
    for name, build in chosen.items():
        if options.only in name:
            ratio, ours, theirs = rows[name] = compare(build, libraries, options.rounds, *timing)
            print(f"| {name} | {ours * 1e6:.1f} | {theirs * 1e6:.1f} | {ratio:.2f} |", flush=True)
    ratios = [ratio for ratio, _, _ in rows.values()]
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        above = [sum(ratio > limit for ratio in ratios) for limit in (1.05, 1.5)]
        print(f"\n{len(ratios)} cells, geometric mean {mean:.2f}; above 1.05: {above[0]}, above 1.5: {above[1]}")
    keep(rows, options.json)


def main():
    """Print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--wide", dest="list", action="store_const", const="wide", default="ops", help="rarer ops")
    parser.add_argument("--in-place", dest="list", action="store_const", const="in-place", help="forms that write")
    options = parser.parse_args()
    plugrad, torch, timing = prepared(options.threads, options.device)
    sizes = SIZES_OF_HOSTS if IDLE else SIZES if options.device == "cpu" else SIZES_ON_DEVICES
    chosen = cells(options.list, sizes)
    chosen = {name: build for name, build in chosen.items() if not (IDLE and name.startswith(OF_VALUES))}
    print_table(chosen, options, (plugrad, torch), timing)


if __name__ == "__main__":
    main()
