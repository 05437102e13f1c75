"""Random programs do the same compiled as op by op: results and their strides, gradients, writes, random numbers."""

from __future__ import annotations

import random
import warnings

import pytest

import plugrad as torch
from plugrad import nn

F = nn.functional
HEAD = """
def program(x, y, k=0.5, flag=True):
    v = [x, y]
    def keep(t):
        if torch.is_tensor(t) and t.is_floating_point() and t.shape == (x.shape[0], 4):
            v.append(t)
        return t
"""
MAKES = """
{a}.tanh() | {a} * {b} + k | {a}[:, 1:] | {a}[:, 0] | {a}.t()[1:] | {a} @ model.weight | model({a}) | {a}.softmax(-1)
F.dropout({a}, 0.5, flag) | torch.bernoulli({a}.sigmoid()) | {a} + torch.rand_like({b}) | {a}.masked_fill({b} > 0, k)
torch.where({a} > 0, {b}, {a} * 2) | {a}.cumsum(0) | {a}.sort(-1)[0] | {a}.argmax(-1) | {a}.detach() * 2
{a}.sum(0).expand(3, 4) | {a}[[0, 1]] | {a}.double() | {a}.long() * 3 | torch.cat([{a}, {b}])
{a}.std(-1, keepdim=True) + {b} | {a} * buffer | {a} / {a}.shape[0] | {a} if {a}.requires_grad else {a} * 3
{a} * len(v) | F.layer_norm({a}, (4,), weight)
""".replace("\n", " | ").strip(" |").split(" | ")
WRITES = """
{a} = {a} * 1; {a}.mul_(2) | {a} = {a} + 1; {a}[0] = k | buffer.add_(1) | {a} = {a}.clone(); {a}[:, 1:].add_({b}[:, 1:])
{a}.data.mul_(0.5) | {a} = {a} - 1; {a}.relu_() | buffer.data.mul_(0.9) | {a} = {a}.abs(); {a}[{b} > 0] = 0.5
""".replace("\n", " | ").strip(" |").split(" | ")
ENDS = ["return keep(v[-1])", "return v[-1], v[-2] * 2", "return {'a': v[-1], 'k': k}"]
STEP = """
    optimizer.zero_grad()
    loss = model(v[-1]).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
"""


def written(seed) -> str:
    choose, lines = random.Random(seed), []
    for _ in range(choose.randint(2, 6)):
        names = {name: f"v[{choose.choice((-1, -1, -2))}]" for name in "ab"}
        if choose.random() < 0.25:
            lines.append(choose.choice(WRITES).format(**names))
        else:
            line = f"keep({choose.choice(MAKES).format(**names)})"
            lines.append(f"with torch.no_grad(): {line}" if choose.random() < 0.1 else line)
    last = f"made = {choose.choice(MAKES).format(a='v[-1]', b='v[-2]')}"
    end = choose.choice(ENDS) if choose.random() < 0.7 else "return made"
    step = f"{STEP}    return loss.detach()\n" if choose.random() < 0.2 else ""
    return HEAD + "".join(f"    {line}\n" for line in [*lines, last]) + (step or f"    {end}\n")


def told(value):
    """Return a value as something that can be compared."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.stride(), value.requires_grad, value.detach().clone()
    if isinstance(value, dict):
        return {key: told(one) for key, one in value.items()}
    return [told(one) for one in value] if isinstance(value, (list, tuple)) else value


def run(seed, backend=None) -> list:
    """Return what a program does in some calls: compiled, or op by op."""
    torch.manual_seed(seed)
    model, weight, buffer = nn.Linear(4, 4), torch.ones(4, requires_grad=True), torch.ones(4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    space = {"torch": torch, "nn": nn, "F": F} | {
        "model": model, "weight": weight, "buffer": buffer, "optimizer": optimizer,
    }  # fmt: skip
    exec(written(seed), space)
    program = torch.compile(space["program"], backend=backend) if backend else space["program"]
    choose, seen = random.Random(-seed), []
    for number in range(4):
        size = 3 if number < 2 else choose.choice((3, 2, 5))
        x, y = (torch.randn(4, size).t() if choose.random() < 0.2 else torch.randn(size, 4) for _ in range(2))
        x.requires_grad_(choose.random() < 0.7)
        options = choose.choice(({}, {}, {"k": 0.25}, {"flag": False}))
        try:
            result = program(x, y, **options)
            leaves = list(result.values()) if isinstance(result, dict) else result
            leaves = leaves if isinstance(leaves, (list, tuple)) else [leaves]
            seen.append(told(result))
            roots = [one for one in leaves if isinstance(one, torch.Tensor) and one.requires_grad]
            roots = [choose.choice(roots)] if len(roots) > 1 and choose.random() < 0.5 else roots
            torch.autograd.backward(roots, [torch.ones_like(one) for one in roots]) if roots else None
        except (RuntimeError, TypeError, IndexError) as error:
            seen.append(type(error))
        grads = [one.grad for one in (x, weight, *model.parameters())]
        seen.append(told([x, y, buffer, grads, list(model.parameters()), torch.get_rng_state()]))
    return seen


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_random_programs_do_what_they_do_op_by_op(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(40):
            same(run(seed), run(seed, backend), f"seed {seed}:{written(seed)}")


def same(one, other, label):
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, rtol=2e-4, atol=1e-5, equal_nan=True, msg=label)
    elif isinstance(one, (list, tuple)):
        assert len(one) == len(other), label
        for a, b in zip(one, other, strict=True):
            same(a, b, label)
    elif isinstance(one, dict):
        same(list(one.items()), list(other.items()), label)
    else:
        assert one == other, label
