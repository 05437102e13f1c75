"""Losses where margins are met exactly, and of infinite logits: values and gradients are PyTorch's."""

from __future__ import annotations

import itertools
import math

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

ROW = [1.0, 2.0, 3.0, 4.0]  # whose distances are margins
SPECIAL = [-math.inf, -2.0, -0.5, 0.0, 0.5, 2.0, math.inf, math.nan]


def of_classes(p, margin, target):
    return lambda T, x: T.nn.functional.multi_margin_loss(x, T.tensor([target]), p=p, margin=margin)


def of_labels(labels):
    return lambda T, x: T.nn.functional.multilabel_margin_loss(x, T.tensor([labels]))


def of_logits(target, **options):
    def loss(T, x):
        given = {name: T.tensor(value) for name, value in options.items()}
        return T.nn.functional.binary_cross_entropy_with_logits(x, T.full_like(x, target), reduction="sum", **given)

    return loss


MARGINS = [of_classes(*given) for given in itertools.product((1, 2), (-1.0, 0.0, 1.0, 2.0), range(4))]
MARGINS += [of_labels(labels) for labels in ([3, 0, -1, 1], [0, -1, 1, 2], [0, 1, 2, 3], [-1, 0, 0, 0])]
LOGITS = [of_logits(target) for target in (0.0, 0.25, 1.0)] + [of_logits(0.5, pos_weight=2.0)]
CASES = [(loss, [ROW]) for loss in MARGINS] + [(loss, [x]) for loss in LOGITS for x in SPECIAL]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_values_and_gradients(number):
    loss, values = CASES[number]
    results = []
    for T in (torch, plugrad):
        x = T.tensor(values, requires_grad=True)
        value = loss(T, x)
        value.backward()
        results.append((value.item(), x.grad.numpy()))
    numpy.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-6)
    numpy.testing.assert_allclose(results[1][1], results[0][1], rtol=1e-6)
