"""Updates of optimizers that bind their state anew instead of writing into it: nothing of it is lost."""

from __future__ import annotations

import pytest

import plugrad as torch
from plugrad import nn
from plugrad.optim import Optimizer


class Momentum(Optimizer):
    """Momentum as its author would write it, `anew` or in place."""

    anew = False

    def __init__(self, params, lr=0.1, **more):
        super().__init__(params, {"lr": lr, **more})

    def slots(self, group):
        return {"m": Optimizer.zeros, "step": 0}

    def update(self, xp, p, g, state, group):
        if self.anew:
            state["m"] = 0.5 * state["m"] + g
        else:
            state["m"] *= 0.5
            state["m"] += g
        p -= group["lr"] * state["m"]

    def update_rows(self, xp, p, rows, g, state, group):
        if self.anew:
            state["m"] = 0.5 * state["m"]
        else:
            state["m"] *= 0.5
        p[rows] -= group["lr"] * g


class Whole(Momentum):
    elementwise = False


class Blocks(Momentum):
    elementwise = True


SIZES = [(3,)], [(3,), (2, 2), ()], [(70000,)], [(70000,), (3,), (5, 2)]


def run(base, anew, sizes, dtype=torch.float64, differentiable=False):
    cls = type("Anew", (base,), {"anew": anew})
    counts = [torch.Size(size).numel() for size in sizes]
    params = [nn.Parameter(torch.linspace(-1, 1, n, dtype=dtype).view(size)) for n, size in zip(counts, sizes)]
    options = {"differentiable": True} if differentiable else {}
    used = [p.clone() for p in params] if differentiable else params
    optimizer = cls(used, **options)
    for step in range(4):
        for p in used:
            p.grad = p.detach() * (step + 1) + 1
        optimizer.step()
    return [p.detach() for p in used], [optimizer.state[p]["m"].detach() for p in used]


@pytest.mark.parametrize("base", [Whole, Blocks])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_state_that_is_bound_anew_is_kept(base, sizes, dtype):
    for mine, written in zip(run(base, True, sizes, dtype), run(base, False, sizes, dtype)):
        for one, other in zip(mine, written):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=0.1 if dtype is torch.bfloat16 else 1e-6)
            assert one.abs().max() > 0


def test_state_that_is_bound_anew_is_kept_with_a_graph_and_for_rows():
    for mine, written in zip(run(Blocks, True, SIZES[1], differentiable=True), run(Blocks, False, SIZES[1])):
        for one, other in zip(mine, written):
            torch.testing.assert_close(one, other)
    states = []
    for anew in (False, True):
        table = nn.Embedding.from_pretrained(torch.ones(4, 2), freeze=False, sparse=True)
        optimizer = type("Anew", (Momentum,), {"anew": anew})(table.parameters())
        table(torch.tensor([1, 1, 2])).sum().backward()
        optimizer.step()
        optimizer.state[table.weight]["m"].fill_(1)
        optimizer.step()
        states.append(optimizer.state[table.weight]["m"].tolist())
    assert states[0] == states[1] == [[0.5, 0.5]] * 4


def test_state_of_another_shape_is_refused():
    class Wrong(Whole):
        def update(self, xp, p, g, state, group):
            state["m"] = xp.ones((7,))

    optimizer = Wrong([p := nn.Parameter(torch.ones(3))])
    p.grad = torch.ones(3)
    with pytest.raises(ValueError, match="broadcast"):
        optimizer.step()


@pytest.mark.parametrize("base", [Whole, Blocks])
def test_scalars_that_an_update_moves_on_are_refused(base):
    class Counting(base):
        def update(self, xp, p, g, state, group):
            state["step"] = state["step"] + 1

    optimizer = Counting([p := nn.Parameter(torch.ones(3))])
    p.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match=r"Counting.update\(\) assigned state\['step'\].*advance"):
        optimizer.step()
