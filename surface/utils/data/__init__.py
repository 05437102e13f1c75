"""Data sets, samplers, and the loader that makes batches of them, in this process or in workers."""

from __future__ import annotations

from plugrad.utils.data import _utils, dataloader, dataset, distributed, sampler
from plugrad.utils.data._utils.collate import default_collate, default_convert
from plugrad.utils.data._utils.worker import get_worker_info
from plugrad.utils.data.dataloader import DataLoader, _DatasetKind
from plugrad.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe, functional_datapipe
from plugrad.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from plugrad.utils.data.distributed import DistributedSampler
from plugrad.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler", "IterDataPipe",
    "IterableDataset", "MapDataPipe", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset",
    "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler",
    "_DatasetKind", "_utils", "dataloader", "dataset", "default_collate", "default_convert", "distributed",
    "functional_datapipe", "get_worker_info", "random_split", "sampler",
]  # fmt: skip
