"""Normalization over the batches of several processes."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, collect, hookimpl

from .batch_norm import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """BatchNorm of inputs (N, C, ...) over the batches of all processes.

    Here there is one process, so it is BatchNorm.

    Args:
        num_features, eps, momentum, affine, track_running_stats, bias: see BatchNorm1d.
        process_group: the processes to synchronize; None is all of them.

    Raises ValueError for inputs of less than two dimensions or without channels. `convert_sync_batchnorm` puts it in
    the place of every BatchNorm of a model.

    >>> import plugrad as torch
    >>> torch.nn.SyncBatchNorm(1)(torch.tensor([[1.0], [3.0]])).round().tolist()
    [[-1.0], [1.0]]
    """

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, process_group=None,
        device=None, dtype=None, *, bias=True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) == 0:
            raise ValueError("SyncBatchNorm number of input channels should be non-zero")
        if self.process_group is not None:
            raise NotImplementedError(
                "SyncBatchNorm can't synchronize processes: there are no process groups here. Leave process_group out; "
                "in a single process it is BatchNorm"
            )

    @classmethod
    def convert_sync_batchnorm(cls, module, process_group=None):
        """Return a model in which every BatchNorm has become a SyncBatchNorm.

        Each has the parameters and statistics of the one that it replaces.

        Args:
            module: the model, whose children are replaced in place; a BatchNorm itself is not changed.
            process_group: see the constructor.

        >>> import plugrad as torch
        >>> torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(torch.nn.BatchNorm2d(3)))
        Sequential(
          (0): SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        )
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = plugrad.nn.SyncBatchNorm(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats,
                process_group, bias=module.bias is not None,
            )  # fmt: skip
            if module.affine:
                converted.weight, converted.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(converted, name, getattr(module, name))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
