"""GradScaler, on plugrad and on PyTorch side by side: scales, skipped steps, states and errors."""

from __future__ import annotations

import pickle

import pytest

import plugrad

torch = pytest.importorskip("torch")

INFINITE = float("inf")


def training(T):
    """Train two parameters with two optimizers; the gradient of one is infinite in one step, clipped in another."""
    p, q = T.nn.Parameter(T.ones(3)), T.nn.Parameter(T.ones(2))
    one, two = T.optim.SGD([p], lr=0.1, momentum=0.9), T.optim.Adam([q], lr=0.1)
    scaler = T.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    for step in range(7):
        one.zero_grad()
        two.zero_grad()
        scaler.scale((p * p).sum()).backward()
        if step != 5:
            scaler.scale((q * (INFINITE if step == 3 else 2.0)).sum()).backward()
        if step == 2:
            scaler.unscale_(one)
            T.nn.utils.clip_grad_norm_([p], 0.5)
        scaler.step(one)
        if step != 5:
            scaler.step(two)
        scaler.update()
        yield scaler.state_dict(), [round(value, 5) for value in (*p.tolist(), *q.tolist())]


def test_training_is_pytorchs():
    assert list(training(plugrad)) == list(training(torch))


USES = """
s.step(o) | s.update() | s.unscale_(o) | loss().backward(); s.unscale_(o); s.unscale_(o)
loss().backward(); s.step(o); s.step(o) | loss().backward(); s.step(o); s.unscale_(o) | loss(); s.step(o)
loss().backward(); s.step(o, closure=int) | s.scale(3) | s.scale([p.sum(), 3]) | loss(); s.update(3.0); r = s.get_scale()
r = [one.item() for one in s.scale(iter([p.sum()]))] | r = s.scale([p.sum(), (p.sum(),)])[1][0].item()
loss(); s.update(T.tensor(3.0)); r = s.get_scale() | loss(); s.update(T.ones(2)) | loss(); s.update(T.ones(1).requires_grad_())
T.amp.GradScaler("cpu", growth_factor=1.0) | T.amp.GradScaler("cpu", backoff_factor=1.0) | s.load_state_dict({})
d = T.amp.GradScaler("cpu", enabled=False); r = d.scale(3), d.state_dict(), d.get_scale(), d.is_enabled(), d.update()
loss().backward(); s.step(o); pickle.dumps(s)
loss().backward(); s.step(o); s.update(); r = pickle.loads(pickle.dumps(s)).state_dict()
s.load_state_dict({**s.state_dict(), "scale": 8.0, "_growth_tracker": 7}); r = s.state_dict(), loss().item()
loss(); s.load_state_dict({**s.state_dict(), "scale": 8.0}); r = s.get_scale()
p.data = p.data.half(); loss().backward(); s.step(o)
r = s.get_growth_factor(), s.get_backoff_factor(), s.get_growth_interval(), s.get_scale(), s._get_growth_tracker()
s.set_growth_factor(3.0); s.set_backoff_factor(0.1); s.set_growth_interval(1); loss().backward(); s.step(o); s.update(); r = s.get_scale()
loss().backward(); p.grad.fill_(float("nan")); r = s.step(o), s.update(), s.get_scale(), p.tolist()
o.zero_grad(); loss(); s.step(T.optim.SGD([p], lr=1.0))
s = T.amp.GradScaler("cpu", init_scale=3e38, growth_interval=1); (loss() * 0).backward(); s.step(o); s.update(); r = s.get_scale()
""".strip()  # noqa: E501


def outcome(T, statements):
    p = T.nn.Parameter(T.ones(3))
    names = {"T": T, "p": p, "o": T.optim.SGD([p], lr=0.1), "pickle": pickle}
    names["s"] = T.amp.GradScaler("cpu", init_scale=4.0)
    names["loss"] = lambda: names["s"].scale(p.sum())
    try:
        exec(statements, names)
    except Exception as error:
        return type(error)
    return names.get("r")


@pytest.mark.parametrize("statements", [use.strip() for line in USES.splitlines() for use in line.split(" | ")])
def test_uses_end_as_in_pytorch(statements):
    assert outcome(plugrad, statements) == outcome(torch, statements)


@pytest.mark.parametrize("keyword", [False, True])
def test_optimizers_that_unscale_by_themselves_are_handed_the_scale(keyword):
    seen = []

    def plain(self):
        seen.append((float(self.grad_scale), float(self.found_inf)))

    def by_keyword(self, grad_scaler=None):
        seen.append((grad_scaler.get_scale(), 0.0))

    scaling = type("Scaling", (plugrad.optim.SGD,), {
        "step": by_keyword if keyword else plain, "_step_supports_amp_scaling": True,
    })  # fmt: skip
    p = plugrad.nn.Parameter(plugrad.ones(2))
    optimizer, scaler = scaling([p], lr=0.1), plugrad.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    if keyword:
        with pytest.warns(FutureWarning, match="GradScaler is going to stop"):
            scaler.step(optimizer)
    else:
        scaler.step(optimizer)
        assert not hasattr(optimizer, "grad_scale")
    assert seen == [(4.0, 0.0)] and p.grad.tolist() == [4.0, 4.0]
