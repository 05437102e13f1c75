"""What captured programs see of classes, slots, devices, autocast and gradients that repeat one element."""

from __future__ import annotations

import contextlib
import copy
import threading
import warnings

import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import compiled, loudly  # noqa: F401  a fixture


class Base:
    factor = 2.0

    def by(self):
        return self.factor

    @property
    def more(self):
        return 1.0


class Derived(Base):
    __slots__ = ("__own", "cache", "other")

    def private(self):
        return getattr(self, "_Derived__own", 1.0)


def _later(self):
    return 11.0


CHANGES = {
    "an attribute of a base": lambda thing: setattr(Base, "factor", 3.0),
    "an attribute that hides that of a base": lambda thing: setattr(Derived, "factor", 5.0),
    "an attribute that the class loses": lambda thing: (setattr(Derived, "factor", 5.0), delattr(Derived, "factor")),
    "another method": lambda thing: setattr(Base, "by", _later),
    "a method that hides another": lambda thing: setattr(Derived, "by", _later),
    "another property": lambda thing: setattr(Base, "more", property(_later)),
    "a slot that had no value": lambda thing: setattr(thing, "cache", 7.0),
    "a private slot": lambda thing: setattr(thing, "_Derived__own", 7.0),
    "a slot without its value": lambda thing: delattr(thing, "other"),
}


@pytest.fixture
def thing():
    kept = [(cls, dict(vars(cls))) for cls in (Base, Derived)]
    made = Derived()
    made.other = 2.0
    yield made
    for cls, names in kept:
        for name in {*vars(cls)} - {*names}:
            delattr(cls, name)
        for name in ("factor", "by", "more"):
            if name in names:
                setattr(cls, name, names[name])


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_classes_and_slots_are_seen(thing, name):
    def function(x):
        y = x * thing.factor + thing.by() * thing.more + getattr(thing, "cache", 1.0) * thing.private()
        return y * getattr(thing, "other", 3.0)

    x = torch.arange(3.0)
    made = compiled(function)
    for _ in range(2):
        assert made(x).equal(function(x))
    CHANGES[name](thing)
    assert made(x).equal(function(x)) and made(x + 1).equal(function(x + 1))


def test_a_capture_that_fails_leaves_classes_and_slots_as_they_were(thing):
    def function(x):
        Derived.factor = Derived.factor + 1
        Derived.calls = getattr(Derived, "calls", 0) + 1
        thing.cache = getattr(thing, "cache", 0) + 1
        del thing.other
        thing.other = thing.cache
        return x * Derived.factor

    made, x = compiled(function), torch.ones(2)
    for number in range(1, 4):
        with pytest.warns(UserWarning, match="changes Python objects") if number == 1 else contextlib.nullcontext():
            assert made(x).tolist() == [2.0 + number] * 2
        assert (Derived.calls, thing.cache, thing.other) == (number, number, number)


def test_programs_that_ask_for_the_device_see_the_cpu():
    cpu = torch.device("cpu")

    def function(x):
        place = x.device
        asked = [place == cpu, cpu == place, place.type, str(place), repr(place), x.is_cpu, place in {cpu: 1}, x.type()]
        new = torch.zeros(2, device=place) + torch.ones(2).to(cpu) + x.to("cpu").sum()
        if place.type == "cpu" and place == torch.device("cpu") and x.cpu().device != torch.device("meta"):
            return new * 2, asked, place
        return new * 3, asked, place

    x = torch.arange(3.0)
    made = compiled(function)
    for _ in range(2):
        (one, *ones), (other, *others) = function(x), made(x)
        assert other.equal(one) and others == ones and type(others[1]) is torch.device


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_in_a_program_casts(dtype):
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3))]
    models.append(copy.deepcopy(models[0]))
    x, t = torch.randn(5, 4), torch.randint(0, 3, (5,))

    def stepped(model, optimizer):
        def step(x, t):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                y = model(x)
                with torch.autocast(x.device.type, enabled=False):
                    z = y.float() @ y.float().T
                loss = nn.functional.cross_entropy(y, t)
            (loss + z.mean()).backward()
            optimizer.step()
            return y.detach(), z.detach(), loss.detach()

        return step

    plain, captured = [stepped(one, torch.optim.SGD(one.parameters(), lr=0.1)) for one in models]
    made = compiled(captured)
    for _ in range(3):
        for one, other in zip(plain(x, t), made(x, t)):
            assert other.dtype is one.dtype and torch.allclose(one.float(), other.float(), atol=1e-6)
    for one, other in zip(*[model.parameters() for model in models]):
        assert torch.allclose(one, other, atol=1e-6)


def _read(x, w, other):
    return (w * x).sum() + (0.0 if w.grad is None else w.grad.sum())


def _by_name(x, w, other):
    return (w * x).sum() * (1 if getattr(w, "grad") is None else 2)  # noqa: B009


def _clipped(x, w, other):
    nn.utils.clip_grad_norm_([w], 0.5)
    return x * 1


def _emptied(x, w, other):
    other.zero_grad()
    return x * 1


def _stepped(x, w, other):
    other.step()
    return x * 1


@pytest.mark.parametrize("function", [_read, _by_name, _clipped, _emptied, _stepped])
def test_programs_that_look_at_gradients_see_those_that_came_later(function):
    x, results = torch.arange(1.0, 4.0), []
    for wrap in (lambda one: one, compiled):
        w = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([w], lr=0.1)
        call, seen = wrap(lambda x, w=w, optimizer=optimizer: function(x, w, optimizer)), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(5):
                seen.append(call(x).tolist())
                seen += [w.tolist(), None if w.grad is None else [round(one, 5) for one in w.grad.tolist()]]
                if number in (1, 3):
                    (w * x).sum().backward()
        results.append(seen)
    assert results[0] == results[1]


def test_a_capture_that_fails_leaves_lists_of_tensors_as_they_were():
    kept = [torch.zeros(2), torch.ones(2)]

    def function(x):
        kept[0] = kept[0] + x
        kept.append(kept[0] * 2)
        return kept[0] * 1

    made = compiled(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(1, 4):
            assert made(torch.ones(2)).tolist() == [number] * 2 == kept[0].tolist() and len(kept) == 2 + number


LOOKS = {
    "its length": lambda optimizer, w: len(optimizer.state),
    "a number in it": lambda optimizer, w: float(optimizer.state[w].get("step", 0)) if w in optimizer.state else -1.0,
    "whether there is any": lambda optimizer, w: 1.0 if optimizer.state else 0.0,
    "all of it": lambda optimizer, w: len(optimizer.state_dict()["state"]),
}


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_programs_that_look_at_an_optimizers_state_are_not_captured(look, steps):
    x, results = torch.arange(1.0, 4.0), []
    for wrap in (lambda one: one, compiled):
        w = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([w], lr=0.1)

        def function(x, w=w, optimizer=optimizer):
            optimizer.zero_grad()
            (w * x).sum().backward()
            if steps:
                optimizer.step()
            return look(optimizer, w)

        call, seen = wrap(function), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(3):
                seen += [call(x), w.tolist()]
                optimizer.step()
        results.append(seen)
    assert results[0] == results[1]


def test_programs_that_begin_threads_are_not_captured():
    def function(x):
        results = [None] * 2

        def half(number):
            results[number] = x[number] * 2

        threads = [threading.Thread(target=half, args=(number,)) for number in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        return results

    made, kept = compiled(function), threading.excepthook
    threading.excepthook = lambda error: None  # those of the capture
    try:
        with pytest.warns(UserWarning, match="runs a program op by op"):
            ones = made(torch.arange(4.0).view(2, 2))
    finally:
        threading.excepthook = kept
    assert [one.tolist() for one in ones] == [[0.0, 2.0], [4.0, 6.0]]


LOSSES = {
    "sum": lambda y: y.sum(),
    "mean": lambda y: y.mean(),
    "sum of a dimension": lambda y: y.sum(0).tanh().sum(),
    "sum of the last dimension": lambda y: (y.sum(1) * 2).sum(),
    "expanded": lambda y: y.unsqueeze(0).expand(3, *y.shape).sum(),
    "amax": lambda y: y.cumsum(0).sum() + y.logsumexp(1).sum(),
    "norm": lambda y: y.softmax(1).sum() + y.sort(0)[0].sum() + y.cumprod(1).sum(),
}
LAYERS = {
    "linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "bias": (lambda: Added(2), (4, 2)),
    "convolution": (lambda: nn.Sequential(nn.Conv1d(2, 2, 3, padding=1), nn.Flatten()), (4, 2, 5)),
    "embedding": (lambda: nn.Sequential(Whole(), nn.Embedding(9, 2)), (4,)),
    "normed": (lambda: nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.BatchNorm1d(4)), (5, 3)),
    "pooled": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten()), (2, 1, 8, 8)),
    "recurrent": (lambda: Recurrent(), (4, 2, 3)),
    "gathered": (lambda: Gathered(), (4, 3)),
}


class Added(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bias = nn.Parameter(torch.arange(float(n)))

    def forward(self, x):
        return x + self.bias


class Whole(nn.Module):
    def forward(self, x):
        return (x.abs() * 4).long().clamp(max=8)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(3, 2)

    def forward(self, x):
        return self.layer(x)[0].flatten(1)


class Gathered(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 3))

    def forward(self, x):
        at = torch.tensor([[0, 2, 1], [1, 1, 1], [3, 0, 2]])
        return (self.weight * x).gather(0, at) + self.weight[1:].index_select(0, torch.tensor([2, 0, 0]))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("layer", LAYERS)
def test_gradients_that_repeat_one_element(layer, loss):
    torch.manual_seed(0)
    make, shape = LAYERS[layer]
    model = make()
    other = copy.deepcopy(model)
    made = compiled(lambda x: LOSSES[loss](other(x)))
    for _ in range(2):
        x = torch.randn(shape)
        results = [LOSSES[loss](model(x)), made(x)]
        for one in results:
            one.backward()
        assert torch.allclose(*results, rtol=1e-4, atol=1e-5)
        for one, its in zip(model.parameters(), other.parameters()):
            assert torch.allclose(one.grad, its.grad, rtol=1e-4, atol=1e-5)
