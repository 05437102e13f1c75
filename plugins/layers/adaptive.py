"""A softmax over many classes, the rare ones of which stand in clusters."""

from __future__ import annotations

from collections import namedtuple
from itertools import pairwise

import plugrad
from plugrad import nn
from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of many classes, the rare ones in clusters, and their loss.

    E. Grave et al., "Efficient softmax approximation for GPUs", arXiv:1609.04309.

    Args:
        in_features: size of the input's last dimension.
        n_classes: number of classes, the most frequent first.
        cutoffs: where the clusters of rare classes begin, increasing, between 1 and n_classes - 1.
        div_value: the features of cluster i are in_features // div_value ** (i + 1).
        head_bias: whether the head, the layer of the frequent classes, has a bias.

    Called as `layer(input, target)` with (N, in_features) and (N), or (in_features) and (); returns the named tuple
    `(output, loss)`: the log probabilities of the targets, and their negative mean. Raises ValueError for cutoffs that
    do not fit, RuntimeError for shapes and targets that do not.

    >>> import plugrad as torch
    >>> layer = torch.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
    >>> output, loss = layer(torch.ones(3, 8), torch.tensor([0, 6, 19]))
    >>> output.shape, loss.shape, layer.log_prob(torch.ones(3, 8)).shape
    (torch.Size([3]), torch.Size([]), torch.Size([3, 20]))
    """

    @staticmethod
    def samples(make):
        yield (8, 12, [3, 6], 2.0), (make(5, 8), plugrad.tensor([0, 2, 4, 7, 11]))

    def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if any(int(c) != c or not 0 < c < n_classes for c in cutoffs) or any(a >= b for a, b in pairwise(cutoffs)):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                f"value is between 1 and n_classes-1; got {cutoffs} for {n_classes} classes"
            )
        where = {"device": device, "dtype": dtype}
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*cutoffs, n_classes]
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = nn.Linear(in_features, self.head_size, bias=head_bias, **where)
        self.tail = nn.ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            features = int(in_features // div_value ** (i + 1))
            narrow = nn.Linear(in_features, features, bias=False, **where)
            self.tail.append(nn.Sequential(narrow, nn.Linear(features, high - low, bias=False, **where)))

    def reset_parameters(self):
        """Give all weights new random values."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for linear in cluster:
                linear.reset_parameters()

    def forward(self, input_, target_):
        _check(input_, target_)
        if target_.dim() == 0:
            output, loss = self.forward(input_.unsqueeze(0), target_.unsqueeze(0))
            return _ASMoutput(output.squeeze(0), loss)
        if target_.numel() and not (0 <= target_.min().item() and target_.max().item() < self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target_.min().item()}, {target_.max().item()}] were found. "
            )
        output, column = input_.new_zeros(len(target_)), target_.clone()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            rows = ((target_ >= low) & (target_ < high)).nonzero().squeeze(1)
            if rows.numel():
                inside = F.log_softmax(self.tail[i](input_.index_select(0, rows)), dim=1)
                own = inside.gather(1, (target_[rows] - low).unsqueeze(1)).squeeze(1)
                output = output.index_copy(0, rows, own)
                column.index_fill_(0, rows, self.shortlist_size + i)
        head = F.log_softmax(self.head(input_), dim=1)
        output = output + head.gather(1, column.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output, (-output).mean())

    def log_prob(self, input):
        """Return the log probabilities (N, n_classes) of all classes for inputs."""
        return self._all(input, self.head(input))

    def predict(self, input):
        """Return the most probable class (N) for each of the inputs."""
        head = self.head(input)
        best = head.argmax(dim=1)
        rare = best >= self.shortlist_size
        if rare.any():
            best[rare] = self._all(input[rare], head[rare]).argmax(dim=1)
        return best

    def _all(self, input, head):
        head = F.log_softmax(head, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return plugrad.cat(parts, dim=1)


def _check(input, target) -> None:
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if target.dim() == 1 and input.size(0) != target.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found inputs with size "
            f"{input.size()}"
        )


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
