"""Losses of top-level `torch`, whose reduction is an int: 0 is none, 1 mean, 2 sum.

Without one nothing is reduced, whatever PyTorch's signatures say there.
"""

from __future__ import annotations

from plugrad.arguments import checked
from plugrad.nn import functional as F

_NAMES = ("none", "mean", "sum")
_PAIR = {"input": "tensor", "target": "tensor", "reduction": "int"}


def _named(reduction):
    """Return the name of a reduction; a number that names none reduces nothing, as in PyTorch."""
    return _NAMES[reduction] if 0 <= reduction < len(_NAMES) else "none"


@checked(**_PAIR, weight="tensor?", pos_weight="tensor?")
def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """Binary cross entropy of logits."""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_named(reduction), pos_weight=pos_weight)


@checked(**_PAIR, log_target="bool")
def kl_div(input, target, reduction=0, *, log_target=False):
    """Kullback-Leibler divergence."""
    return F.kl_div(input, target, reduction=_named(reduction), log_target=log_target)


@checked(**_PAIR, log_input="bool", full="bool", eps="float")
def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """Loss of counts."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_named(reduction))


@checked(**_PAIR, margin="float")
def hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    """Loss of distances of pairs that are alike, where the target is 1, or are not."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_named(reduction))


@checked(input1="tensor", input2="tensor", target="tensor", margin="float", reduction="int")
def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """Loss of pairs of which the target says which one is to be greater."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_named(reduction))


@checked(input1="tensor", input2="tensor", target="tensor", margin="float", reduction="int")
def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """Loss of pairs of vectors by the angle between them."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_named(reduction))


@checked(
    anchor="tensor", positive="tensor", negative="tensor", margin="float", p="float", eps="float", swap="bool",
    reduction="int",
)  # fmt: skip
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=0):
    """Loss of an anchor's distances to one that is like it and to one that is not."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_named(reduction))


@checked(
    log_probs="tensor", targets="tensor", input_lengths="tensor|ints", target_lengths="tensor|ints", blank="int",
    reduction="int", zero_infinity="bool",
)  # fmt: skip
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    """Connectionist temporal classification."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _named(reduction), zero_infinity)
