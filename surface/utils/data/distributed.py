"""`DistributedSampler`: each process of a group takes its own part of a data set."""

from __future__ import annotations

import math

import plugrad
from plugrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """The indices of one process of several, in an order that all of them share.

    Args:
        dataset: with a length.
        num_replicas: number of processes; that of the default group when None.
        rank: which process this is; its rank in the default group when None.
        shuffle: whether the order is random, a new one for each `set_epoch`.
        seed: of the order, the same in all processes.
        drop_last: leave out what can't be divided, else indices from the start are taken twice.

    >>> from plugrad.utils.data import DistributedSampler
    >>> [*DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)]
    [1, 3, 0]
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None:
            num_replicas = _group("get_world_size")
        if rank is None:
            rank = _group("get_rank")
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        size = len(dataset)
        self.num_samples = size // num_replicas if drop_last else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        size = len(self.dataset)
        if self.shuffle:
            generator = plugrad.Generator().manual_seed(self.seed + self.epoch)
            indices = plugrad.randperm(size, generator=generator).tolist()
        else:
            indices = list(range(size))
        if not self.drop_last and indices:
            indices *= math.ceil(self.total_size / size)
        indices = indices[: self.total_size]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of an epoch: call it before each, else all have the same."""
        self.epoch = epoch


def _group(name):
    distributed = getattr(plugrad, "distributed", None)
    if distributed is None or not distributed.is_available():
        raise RuntimeError("Requires distributed package to be available: pass num_replicas= and rank=")
    return getattr(distributed, name)()
