"""Random programs of exact operations: shapes that broadcast, dtypes, views, writes in place, parts of tensors."""

from __future__ import annotations

import plugrad as torch

DTYPES = [torch.float32, torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool]
SIZES = [(4, 6), (4, 1), (1, 6), (6,), (), (2, 4, 6), (2, 1, 6), (3, 4, 6)]
BINARY = "add sub mul maximum minimum eq ne lt le gt ge".split()
FLOATING = "square neg abs relu reciprocal sqrt".split()
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 3e38]


def values(rng, shape, dtype):
    """Return a tensor with infinities, NaN, denormals and large integers in it."""
    count = 1
    for n in shape:
        count *= n
    if dtype is torch.bool:
        numbers = [rng.random() < 0.5 for _ in range(count)]
    elif dtype.is_floating_point:
        numbers = [rng.choice(SPECIAL) if rng.random() < 0.15 else rng.uniform(-3, 3) for _ in range(count)]
    else:
        info = torch.iinfo(dtype)
        numbers = [
            rng.choice([info.min, info.max, 0]) if rng.random() < 0.2 else rng.randint(max(-9, info.min), 9)
            for _ in range(count)
        ]
    return torch.tensor(numbers, dtype=dtype).reshape(shape)


def program_of(rng):
    """Return (function of tensors that gives a list of tensors, its arguments)."""
    arguments = [values(rng, rng.choice(SIZES), rng.choice(DTYPES)) for _ in range(rng.randint(2, 4))]
    length, seed = rng.randint(4, 14), rng.random()

    def run(*given):
        import random

        choose = random.Random(seed)
        known = list(given)
        made: list = []
        for _ in range(length):
            result = _step(choose, known, made)
            if result is not None and result.numel() <= 5000:
                known.append(result)
                made.append(result)
        return [one.clone() for one in made]

    return _Seeded(run), arguments


class _Seeded:
    """A program whose choices are its own: it is called with no generator that a capture could see."""

    def __init__(self, run):
        self.__wrapped__ = run
        self.__name__ = "program"

    def __call__(self, *args):
        return self.__wrapped__(*args)


def _broadcast(a, b):
    try:
        torch.broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        return False
    return True


def _step(rng, known, made):
    kind, a = (
        rng.choice(["binary", "number", "unary", "where", "view", "write", "cast", "sum", "cat"]),
        rng.choice(known),
    )
    if kind == "binary":
        b = rng.choice(known)
        name = rng.choice(BINARY)
        if not _broadcast(a, b) or name == "sub" and torch.bool in (a.dtype, b.dtype):
            return None
        return getattr(torch, name)(a, b)
    if kind == "number" and a.dtype is not torch.bool:
        number = rng.choice([2, 3, -1]) if not a.dtype.is_floating_point else rng.choice([0.5, 3, -1.25, 0.1])
        return rng.choice(
            [lambda: a * number, lambda: a + number, lambda: number - a, lambda: a > number, lambda: a / 4]
        )()
    if kind == "unary" and a.dtype.is_floating_point:
        return getattr(torch, rng.choice(FLOATING))(a)
    if kind == "where":
        masks = [one for one in known if one.dtype is torch.bool and _broadcast(one, a)]
        if masks:
            return torch.where(rng.choice(masks), a, rng.choice([torch.zeros((), dtype=a.dtype), a]))
    if kind == "view" and a.ndim > 1:
        return rng.choice(
            [
                lambda: a.transpose(0, 1),
                lambda: a[1:],
                lambda: a[..., ::2],
                lambda: a.reshape(-1),
                lambda: a.unsqueeze(0),
                lambda: a[:, 0],
            ]
        )()
    if kind == "write" and made:
        target = rng.choice(made)
        if target.ndim and target.shape[0] > 1 and target.dtype == a.dtype:
            part = target[1:] if rng.random() < 0.5 else target[..., :1]
            if (
                a.ndim <= part.ndim
                and _broadcast(a, part)
                and torch.broadcast_shapes(a.shape, part.shape) == part.shape
            ):
                part[...] = a * 1 if a.dtype is not torch.bool else a & a
                return None
    if kind == "cast":
        if a.dtype.is_floating_point:
            return a.to(rng.choice([torch.float32, torch.float64]))
        return a.to(rng.choice(DTYPES))
    if kind == "sum" and a.ndim and not a.dtype.is_floating_point:
        return a.sum(rng.randrange(a.ndim))
    if kind == "cat" and a.ndim:
        return torch.cat([a, a * 1 if a.dtype is not torch.bool else a], rng.randrange(a.ndim))
    return None
