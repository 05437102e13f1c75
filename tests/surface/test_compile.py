"""Programs that compilers of arrays run, against the same programs op by op: ops, and training."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings

import pytest

import plugrad as torch
from plugrad import kernels, nn, registry
from plugrad.plugins.compilers import _native_text
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import tensors_in
from support.compiled_programs import Convolutional, agree, compiled, loss_of, loudly, programs, state_of  # noqa: F401  a fixture

UNDEFINED = {"empty", "empty_permuted", "empty_strided", "empty_like", "new_empty", "new_empty_strided"}


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


def pairs_of_ops(most):
    """Yield (name, function of an op, a sample, another one of the same kind), at most so many of each op."""
    for name, op in sorted(registry.ops.items()):
        if op.provider.builtin and op.name not in UNDEFINED:
            pairs = zip(samples_of(op, torch.float32), samples_of(op, torch.float32, seed=1))
            for sample, other in list(pairs)[:most]:
                yield name, lambda *args, _op=op, **kwargs: _op.function(*args, **kwargs), sample, other


def as_one_library(monkeypatch, most):
    """Have the C compiler run once for all programs of these calls: to start it costs more than what it compiles."""
    sources, build = {}, _native_text.build

    def note(its):
        sources.update(dict.fromkeys(its))
        if its:
            raise kernels.CompilationError("it is not compiled yet")
        return []

    monkeypatch.setattr(_native_text, "build", note)
    for _, run, sample, other in pairs_of_ops(most):
        call = compiled(run)
        for one in (sample, other):
            outcome(call, one)
    built = dict(zip(sources, build([*sources])))
    assert len(built) > 300
    found = lambda its: [built[source] for source in its] if built.keys() >= set(its) else build(its)  # noqa: E731
    monkeypatch.setattr(_native_text, "build", found)


def test_all_ops_agree_with_themselves_on_other_inputs(loudly, monkeypatch):  # noqa: F811
    captured, most = 0, 3 if loudly == "numpy" else 1
    warnings.simplefilter("ignore")  # until the fixture ends: some ops can't be captured
    if loudly == "native" and kernels.why_none() is None:
        as_one_library(monkeypatch, most)
    for name, run, sample, other in pairs_of_ops(most):
        call = compiled(run)
        for number, one in enumerate((sample, sample, other)):
            expected, actual = outcome(run, one), outcome(call, one)
            for what, ones, others in zip(("result", "gradient", "input"), actual, expected):
                label = functools.partial("{}, {}, call {}, {}: {} {}".format, name, one, number, what, ones, others)
                assert len(ones) == len(others), label()
                for a, b in zip(ones, others):
                    agree(a, b, label)
        captured += call._compiled.arrays is not None and bool(programs(call))
    assert captured > (700 if most == 3 else 420)  # programs: with one sample of each op there are fewer


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


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.inner = 1.0, nn.Identity()
        self.register_buffer("shift", torch.zeros(2))

    def forward(self, x):
        return self.inner(x) * self.scale + self.shift


def test_attributes_of_a_compiled_module_are_the_modules():
    model = Scaled()
    call, x = torch.compile(model), torch.ones(2)
    assert torch.equal(call(x), x)
    call.scale, call.shift, call.inner = 3.0, torch.ones(2), nn.Threshold(0.5, 2.0)
    assert model.scale == 3.0 and torch.equal(call(x), x * 4) and [*call.state_dict()] == ["_orig_mod.shift"]
    call.scale += 1
    call.note = "set"
    assert torch.equal(call(x), x * 5) and model.note == "set" and "note" in dir(call)
    del call.note
    assert not hasattr(model, "note") and call
    with pytest.raises(AttributeError, match="Scaled"):
        del call.nothing
    model.training = False
    assert not call.training
    call.train()
    assert model.training and model.inner.training
    assert len(torch.compile(nn.Sequential(model, model))) == 2
    again = pickle.loads(pickle.dumps(call))
    again.scale = 1.0
    assert again._orig_mod.scale == 1.0 and torch.equal(again(x), x * 2) and torch.equal(call(x), x * 5)


def test_classes_are_compiled_and_disabled():
    @torch.compile
    class Doubled(Scaled):
        def forward(self, x):
            return super().forward(x) * 2

    @torch.compile
    class Added:
        def __call__(self, x):
            return x + x

    one, other = Doubled(), Doubled()
    other.scale = 2.0
    assert (
        isinstance(one, Doubled) and one(torch.ones(2)).tolist() == [2, 2] and other(torch.ones(2)).tolist() == [4, 4]
    )
    assert Added()(torch.ones(1)).item() == 2
    kept = torch.compiler.disable(nn.Linear(2, 1))
    assert len([*nn.Sequential(kept).parameters()]) == 2 and kept(torch.ones(2)).requires_grad
    assert isinstance(torch.compiler.disable(Scaled)(), Scaled)
