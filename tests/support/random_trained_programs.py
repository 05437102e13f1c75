"""Random programs of two matrices that can be differentiated: products, cheap functions, views, writes and sums."""

from __future__ import annotations

import random

import plugrad as torch

F = torch.nn.functional

STEPS = [
    lambda a, b: a @ b * 0.1,
    lambda a, b: F.linear(a, b, b[0]) * 0.1,
    lambda a, b: F.gelu(a),
    lambda a, b: a.relu(),
    lambda a, b: a + b,
    lambda a, b: a * b.tanh(),
    lambda a, b: torch.cat([a[:4], b[4:]]),
    lambda a, b: torch.stack([a, b], 1).sum(1),
    lambda a, b: a.t().contiguous() - b,
    lambda a, b: F.silu(a) + a.sum(0),
    lambda a, b: F.softmax(a, -1) * b,
    lambda a, b: (a > 0).to(a.dtype) * b + a.mean(),
    lambda a, b: (a.sigmoid() * 2).mul_(0.5),
    lambda a, b: _written(a.clone()),
]


def _written(a):
    a[2:5] = a[2:5] * 2
    return a


def program_of(seed):
    """Return a function of two square matrices that returns a tuple of tensors."""

    def run(x, w):
        chosen = random.Random(seed)
        pool = [x, w, x @ w]
        for _ in range(chosen.randint(6, 25)):
            step, a, b = chosen.choice(STEPS), chosen.choice(pool), chosen.choice(pool)
            pool.append(step(a, b).clamp(-3, 3))
        return pool[-1], pool[-2].sum(0)

    return run
