"""A tensor in the place of an int is that int: what is written to it later changes neither gradients nor views."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

CALLS = {
    "slice": lambda T, x, i: x[i:], "to there": lambda T, x, i: x[: i + 1], "every": lambda T, x, i: x[::i],
    "slices": lambda T, x, i: x.view(2, 3)[i:, i:], "slice and pick": lambda T, x, i: x.view(2, 3)[i, i:],
    "slice and places": lambda T, x, i: x.view(2, 3)[i:, [0, 2]], "pick": lambda T, x, i: x[i],
    "narrow": lambda T, x, i: x.narrow(0, i, 2), "select": lambda T, x, i: x.select(0, i),
    "roll": lambda T, x, i: x.roll(i),
    "sum": lambda T, x, i: x.view(2, 3).sum(i), "unfold": lambda T, x, i: x.unfold(0, i, 1),
    "tril": lambda T, x, i: x.view(2, 3).tril(i),
    "diagonal": lambda T, x, i: x.view(2, 3).diagonal(i), "diag": lambda T, x, i: x.diag(i).sum(0),
    "chunk": lambda T, x, i: x.chunk(i)[0], "split": lambda T, x, i: x.split(i)[0],
    "topk": lambda T, x, i: x.topk(i)[0], "copies": lambda T, x, i: x.repeat_interleave(i),
    "scatter": lambda T, x, i: x.select_scatter(T.tensor(5.0), 0, i),
    "alpha": lambda T, x, i: x.add(x, alpha=i), "dropout": lambda T, x, i: T.nn.functional.dropout(x, i),
    "leaky": lambda T, x, i: T.nn.functional.leaky_relu(-x, i), "cumsum": lambda T, x, i: x.view(2, 3).cumsum(i),
    "transpose": lambda T, x, i: x.view(2, 3).transpose(0, i),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_number_that_is_written_afterwards(name):
    seen = []
    for T in (torch, plugrad):
        x, i = T.arange(1.0, 7.0, requires_grad=True), T.tensor(1)
        y = CALLS[name](T, x, i)
        i.add_(1)
        (g,) = T.autograd.grad((y * y).sum(), x)
        seen.append((y.tolist(), g.tolist(), y.shape))
    assert seen[1] == seen[0]


@pytest.mark.parametrize("name", "slice|to there|narrow|select|slices|slice and pick|diagonal|unfold".split("|"))
def test_a_view_by_a_number_that_is_written_before_its_base(name):
    seen = []
    for T in (torch, plugrad):
        leaf, i = T.arange(1.0, 7.0, requires_grad=True), T.tensor(1)
        base = leaf * 1
        view = CALLS[name](T, base, i)
        i.add_(1)
        base.mul_(3)
        (g,) = T.autograd.grad((view * view).sum(), leaf)
        seen.append((view.tolist(), g.tolist()))
    assert seen[1] == seen[0]


def test_items_from_a_number_on_that_is_written_afterwards():
    """Filling a buffer piece by piece."""
    seen = []
    for T in (torch, plugrad):
        x, i = T.arange(1.0, 7.0, requires_grad=True), T.tensor(0)
        buffer = T.zeros(6)
        for part in x.split(2):
            buffer[i : i + 2] = part * (i + 1)
            i += 2
        (g,) = T.autograd.grad((buffer * buffer).sum(), x)
        seen.append((buffer.tolist(), g.tolist()))
    assert seen[1] == seen[0]


@pytest.mark.parametrize("end", [1.5, "a", None, True])
def test_ends_of_slices_that_are_no_tensors(end):
    seen = []
    for T in (torch, plugrad):
        try:
            seen.append(T.arange(3.0)[end:].tolist())
        except TypeError:
            seen.append(TypeError)
    assert seen[1] == seen[0]


@pytest.mark.parametrize("start", ["1.0", "[1]", "[]", "True", "1"])
def test_where_a_part_starts_is_one_integer(start):
    seen = []
    for T in (torch, plugrad):
        try:
            seen.append(T.arange(4.0).narrow(0, T.tensor(eval(start)), 2).tolist())
        except RuntimeError as error:
            seen.append(str(error)[:40])
    assert seen[1] == seen[0]
