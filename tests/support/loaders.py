"""Data sets for tests of loaders with workers; in a module, since workers may import them."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy

import plugrad as torch
from plugrad.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset):
    """Items `(index, its square as a tensor)`; what happens at some of them is chosen by a function of the index."""

    def __init__(self, size=11, at=None):
        self.size, self.at = size, at

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if self.at is not None:
            self.at(index)
        return index, torch.tensor([float(index**2)])


class Parts(IterableDataset):
    """The numbers below `size`, a part of them in each worker."""

    def __init__(self, size=10):
        self.size = size

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.size)) if info is None else iter(range(info.id, self.size, info.num_workers))


class Overfull(Parts):
    """Says that it has three items."""

    def __len__(self):
        return 3


class Workers(Dataset):
    """Items that tell of the worker: its number, seed, and random numbers of three generators."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        own = (info.id, info.num_workers, info.seed, type(info.dataset).__name__) if info else None
        return own, random.random(), float(numpy.random.rand()), torch.rand(1).item(), os.getpid()


def listed(items):
    return items


def raises(index):
    if index == 3:
        raise KeyError("the third")


def exits(index):
    if index == 3:
        os._exit(7)


def killed(index):
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)


def waits(index):
    time.sleep(60)


def fails_to_start(number):
    raise ValueError(f"worker {number} can't start")


class Large(Dataset):
    """Items of 100,000 numbers, each the index of its item."""

    def __init__(self, size=8):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return {"row": torch.full((100_000,), float(index)), "array": numpy.full(70_000, index), "empty": torch.ones(0)}
