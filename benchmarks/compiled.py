"""Compiled programs: plugrad's time and PyTorch's, with a compiler and without, in alternation.

    python benchmarks/compiled.py [--rounds 9] [--only mlp] [--no-torch-compile] [--first] [--memory] [--json FILE]

One thread, its processor's time; each cell is the median of the rounds' ratios to PyTorch without a compiler. "module"
is a compiled Module or function whose step is written around it, which is what PyTorch's compiler takes; "step" is the
whole step compiled, backward and optimizer in it. With --first each program is compiled in a process of its own, with
an empty cache and again with a full one. With --memory it is plugrad alone, and the most memory that a step needs in
the second call, its gradients and what a program plans included.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc


def mlp(L, optimizer, batch):
    """Return (model, step of training) of the documents' model."""
    nn, F = L.nn, L.nn.functional
    model = nn.Sequential(nn.Linear(1000, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
    inputs = L.randn(batch, 1000), L.randint(0, 10, (batch,))
    return training(L, model, lambda run, x, t: F.cross_entropy(run(x), t), optimizer, inputs)


def small(L, width=16):
    """Return those of a model whose arrays are so small that calls take all the time."""
    nn, F = L.nn, L.nn.functional
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    inputs = L.randn(4, width), L.randn(4, width)
    return training(L, model, lambda run, x, y: F.mse_loss(run(x), y), "SGD", inputs)


def cnn(L, batch=16):
    """Return those of a small convolutional network."""
    nn, F = L.nn, L.nn.functional
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    inputs = L.randn(batch, 1, 28, 28), L.randint(0, 10, (batch,))
    return training(L, model, lambda run, x, t: F.cross_entropy(run(x), t), "SGD", inputs)


def encoder(L):
    """Return those of a layer of an encoder, without dropout."""
    model = L.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, activation="gelu")
    return training(L, model, lambda run, x: run(x).square().mean(), "AdamW", (L.randn(8, 64, 128),))


def gpt_model(L, vocabulary=100, width=128, heads=4, layers=2, length=64):
    """Return a small language model."""
    nn, F = L.nn, L.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(self.n1(x)).view(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, width))
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary)

        def forward(self, ids):
            x = self.tokens(ids) + self.places.weight[: ids.shape[1]]
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


def gpt(L):
    """Return those of the language model, trained."""
    F = L.nn.functional
    inputs = L.randint(0, 100, (8, 64)), L.randint(0, 100, (8, 64))
    loss = lambda run, x, t: F.cross_entropy(run(x).view(-1, 100), t.view(-1))  # noqa: E731
    return training(L, gpt_model(L), loss, "AdamW", inputs)


def generation(L):
    """Return those of the language model, asked for the next token."""
    model = gpt_model(L).eval()
    ids = L.randint(0, 100, (1, 64))

    def step(run):
        with L.no_grad():
            return run(ids)

    return model, step, None


def training(L, model, loss_of, optimizer, inputs):
    """Return (what is compiled as a module, step with it, whole step)."""
    chosen = getattr(L.optim, optimizer)(model.parameters(), lr=1e-3)

    def whole(*inputs, run=model):
        chosen.zero_grad()
        loss = loss_of(run, *inputs)
        loss.backward()
        chosen.step()
        return loss.detach()

    return model, lambda run: whole(*inputs, run=run), (whole, inputs)


def function(L, code, shape=(1000, 100), backward=False):
    """Return those of an expression of x, y of a shape, and row of its last size."""
    F = L.nn.functional
    x, y = (L.randn(*shape, requires_grad=backward) for _ in "xy")
    row = L.randn(shape[-1])
    compute = eval(f"lambda x, y, row: {code}", {"L": L, "F": F})
    g = L.ones_like(compute(x, y, row).detach())

    def step(run):
        if not backward:
            with L.no_grad():
                return run(x, y, row)
        x.grad = y.grad = None
        run(x, y, row).backward(g)

    return compute, step, None


def chain(L, count=200, backward=False):
    """Return those of many ops on few elements."""
    x = L.randn(100, requires_grad=backward)

    def compute(x):
        y = x
        for _ in range(count // 4):
            y = ((y * 0.5 + x).tanh() - 0.1) * 1.5
        return y

    g = L.ones(100)

    def step(run):
        if not backward:
            with L.no_grad():
                return run(x)
        x.grad = None
        run(x).backward(g)

    return compute, step, None


def update(L, optimizer):
    """Return those of an update of parameters, written out."""
    p, g, m, v = (L.rand(100, 1000) for _ in "pgmv")

    def compute(p, g, m, v):
        m = m * 0.9 + g * 0.1
        v = v * 0.999 + g * g * 0.001
        return p - m / (v.sqrt() + 1e-8) * 0.001, m, v

    def step(run):
        with L.no_grad():
            return run(p, g, m, v)

    return compute, step, None


POINTWISE = "((x * y + row) * L.sigmoid(y) - x.tanh()) * 0.5 + x.exp()"
WORKLOADS = {
    **{f"mlp {o.lower()} b{b}": lambda L, o=o, b=b: mlp(L, o, b) for o in ("SGD", "Adam") for b in (1, 64, 1024)},
    "cnn sgd": cnn, "encoder adamw": encoder, "gpt adamw": gpt, "gpt generate": generation,
    "200 ops on 100": chain, "200 ops on 100 +bwd": lambda L: chain(L, backward=True),
    "adam written out": lambda L: update(L, "adam"), "small mlp": small,
    "tanh of 10": lambda L: function(L, "x.tanh()", (10,)),
    "gelu(2x + 1) of 100": lambda L: function(L, "F.gelu(x * 2 + 1)", (100,)),
    "gelu(2x + 1) of 100 +bwd": lambda L: function(L, "F.gelu(x * 2 + 1)", (100,), True),
}  # fmt: skip
for _name, _code in {
    "pointwise": POINTWISE, "gelu": "F.gelu(x)", "softmax": "F.softmax(x, -1)", "layer_norm": "F.layer_norm(x, (100,))",
    "rms_norm": "x * L.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * row",
    "scaled softmax": "F.softmax(x * 0.5 + row, -1)",
}.items():  # fmt: skip
    WORKLOADS[_name] = lambda L, code=_code: function(L, code)
    WORKLOADS[f"{_name} +bwd"] = lambda L, code=_code: function(L, code, backward=True)


def contenders(name, torch_compile):
    """Return {column: step} of a workload."""
    import torch

    import plugrad

    steps = {}
    for label, L, options in (("torch", torch, {}), ("plugrad", plugrad, {"backend": "native"})):
        L.set_num_threads(1)
        L.manual_seed(0)
        model, step, whole = WORKLOADS[name](L)
        steps[label] = lambda step=step, model=model: step(model)
        if L is plugrad or torch_compile:
            run = L.compile(model, **options)
            steps[f"{label} module"] = lambda step=step, run=run: step(run)
        if L is plugrad and whole is not None:
            L.manual_seed(0)
            _, _, (function, inputs) = WORKLOADS[name](L)
            run = L.compile(function, **options)
            steps["plugrad step"] = lambda run=run, inputs=inputs: run(*inputs)
    return steps


def measured(steps, rounds):
    """Return ({column: first call in seconds}, {column: median ratio to "torch"}, PyTorch's microseconds)."""
    first, counts = {}, {}
    for label, step in steps.items():
        start = time.perf_counter()
        step()
        first[label] = time.perf_counter() - start
        for _ in range(5):
            step()
        start = time.thread_time()
        step()
        counts[label] = max(1, int(0.02 / max(1e-6, time.thread_time() - start)))
    times = {label: [] for label in steps}
    for _ in range(rounds):
        for label, step in steps.items():
            start = time.thread_time()
            for _ in range(counts[label]):
                step()
            times[label].append((time.thread_time() - start) / counts[label])
    ratios = {k: statistics.median(a / b for a, b in zip(v, times["torch"])) for k, v in times.items()}
    return first, ratios, statistics.median(times["torch"]) * 1e6


FIRST = """
import os, sys
sys.path.insert(0, {here!r})
import compiled, {library} as L
model, step, whole = compiled.WORKLOADS[{name!r}](L)
call = (lambda: run(*whole[1])) if whole and {whole} else (lambda: step(run))
spent = lambda: sum(os.times()[:4])
start = spent()
run = L.compile(whole[0] if whole and {whole} else model{options})
call()
print(spent() - start)
"""


def first_calls(name) -> dict:
    """Return {column: processors' seconds of the first call}, each in a process of its own."""
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for column in ("cold", "warm"):
            code = FIRST.format(
                here=os.path.dirname(__file__), library="plugrad", name=name, whole=True, options=", backend='native'"
            )
            environment = {**os.environ, "PLUGRAD_CACHE": cache}
            told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
            found[column] = float(told.stdout) if told.returncode == 0 else math.nan
    return found


def memory(name) -> dict:
    """Return {column: bytes} of plugrad's steps."""
    import plugrad as L

    found = {}
    L.set_num_threads(1)
    for column in ("plugrad", "plugrad module", "plugrad step"):
        L.manual_seed(0)
        model, step, whole = WORKLOADS[name](L)
        step(model)  # what an optimizer keeps is there before
        if column == "plugrad":
            call = lambda step=step, model=model: step(model)  # noqa: E731
        elif column == "plugrad module":
            call = lambda step=step, run=L.compile(model): step(run)  # noqa: E731
        elif whole is None:
            continue
        else:
            call = lambda run=L.compile(whole[0]), inputs=whole[1]: run(*inputs)  # noqa: E731
        gc.collect()
        tracemalloc.start()
        call()
        gc.collect()
        tracemalloc.reset_peak()
        call()
        found[column] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="workloads with one of these words in their name")
    parser.add_argument("--no-torch-compile", action="store_true")
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--json")
    asked = parser.parse_args()
    columns = ["torch module", "plugrad", "plugrad module", "plugrad step"]
    print(f"{'over PyTorch':24}{'us':>8}" + "".join(f"{c:>16}" for c in columns) + f"{'best/compile':>14}")
    table, rates = {}, []
    for name in WORKLOADS:
        if not any(word in name for word in asked.only.split(",")):
            continue
        if asked.first:
            table[name] = first_calls(name)
            print(f"{name:24}" + "".join(f"{k:>8} {v:6.2f} s" for k, v in table[name].items()), flush=True)
            continue
        if asked.memory:
            found = [memory(name) for _ in range(3)]  # what Python itself keeps at times is no part of it
            table[name] = {column: min(one[column] for one in found) for column in found[0]}
            print(f"{name:24}" + "".join(f"{k:>16} {v / 1e6:6.2f} MB" for k, v in table[name].items()), flush=True)
            continue
        first, ratios, base = measured(contenders(name, not asked.no_torch_compile), asked.rounds)
        table[name] = {"first": first, "ratios": ratios, "torch_us": base}
        best = min(ratios.get("plugrad step", math.inf), ratios["plugrad module"])
        rate = best / ratios.get("torch module", math.nan)
        rates.append(rate)
        cells = "".join(f"{ratios[c]:16.2f}" if c in ratios else " " * 16 for c in columns)
        print(f"{name:24}{base:8.0f}{cells}{rate:14.2f}", flush=True)
    if rates and not math.isnan(rates[0]):
        print(f"geometric mean over torch.compile {math.exp(sum(map(math.log, rates)) / len(rates)):.2f}")
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
