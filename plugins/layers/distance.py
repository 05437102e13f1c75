"""Similarities and distances of vectors."""

from __future__ import annotations

from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    Norms are taken to be at least `eps`.

    >>> import plugrad as torch
    >>> torch.nn.CosineSimilarity()(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The `p`-norm of x1 - x2 + eps along the last dimension.

    >>> import plugrad as torch
    >>> torch.nn.PairwiseDistance(eps=0.0)(torch.tensor([[3.0, 0.0]]), torch.tensor([[0.0, 4.0]]))
    tensor([5.])
    """

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
