"""Normalization with running statistics: BatchNorm and InstanceNorm."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, Parameter, collect, held_back, hookimpl
from plugrad.nn import functional as F


class _NormBase(Module):
    """What both share: affine parameters and running statistics of the channels.

    `dimensions` are the numbers of dimensions that the input may have.
    """

    _version = 2
    dimensions: tuple

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None, *,
        bias=True,
    ):  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        where = {"device": device, "dtype": dtype}

        def new():
            return plugrad.empty((num_features,), **where)

        self.register_parameter("weight", Parameter(new()) if affine else None)
        self.register_parameter("bias", Parameter(new()) if affine and bias else None)
        track = track_running_stats
        self.register_buffer("running_mean", plugrad.zeros(num_features, **where) if track else None)
        self.register_buffer("running_var", plugrad.ones(num_features, **where) if track else None)
        count = plugrad.tensor(0, dtype=plugrad.long, device=device) if track else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self):
        """Set the running mean to 0, the running variance to 1, the count of batches to 0."""
        if self.track_running_stats:
            with held_back():
                self.running_mean.zero_()
                self.running_var.fill_(1)
                self.num_batches_tracked.zero_()

    def reset_parameters(self):
        """Reset the running statistics, the weight to 1 and the bias to 0."""
        self.reset_running_stats()
        if self.weight is not None:
            plugrad.nn.init.ones_(self.weight)
        if self.bias is not None:
            plugrad.nn.init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if input.ndim not in self.dimensions:
            wanted = " or ".join(f"{n}D" for n in self.dimensions)
            raise ValueError(f"expected {wanted} input (got {input.ndim}D input)")

    def extra_repr(self):
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input):
        self._check_input_dim(input)
        count = self.num_batches_tracked if self.training else None
        if count is not None:
            with held_back():  # the count and the statistics are of as many batches
                return self._normalized(input, count)
        return self._normalized(input, None)

    def _normalized(self, input, count):
        mean, variance = self.running_mean, self.running_var
        momentum = self.momentum
        training = self.training
        if count is not None and self.track_running_stats:
            count.add_(1)
            if momentum is None:  # a plain average over all batches
                momentum = 1 / count.item()
        if not training and mean is None and variance is None:
            training = True
        elif training and not self.track_running_stats:
            mean = variance = None
        return F.batch_norm(
            input, mean, variance, self.weight, self.bias, training, 0.0 if momentum is None else momentum, self.eps
        )

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        # States of version 1 do not have the count of batches.
        key = f"{prefix}num_batches_tracked"
        if metadata.get("version", 1) < 2 and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            known = count is not None and not count.is_meta
            state_dict[key] = count if known else plugrad.tensor(0, dtype=plugrad.long)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)


class BatchNorm1d(_BatchNorm):
    """Normalize each feature of (N, C) or (N, C, L) over the batch.

    In evaluation by the running statistics.

    Args:
        num_features: C.
        eps: added to the variance.
        momentum: how far the running statistics move towards those of a batch; None averages over all batches.
        affine: whether there are a weight and a bias per feature, at first 1 and 0.
        track_running_stats: whether there are running statistics; without them the batch's are always used.
        bias: whether there is one when `affine`.

    Raises ValueError for inputs of other dimensions. S. Ioffe, C. Szegedy, arXiv:1502.03167.

    >>> import plugrad as torch
    >>> torch.nn.BatchNorm1d(1)(torch.tensor([[1.0], [3.0]])).round().tolist()
    [[-1.0], [1.0]]
    """

    dimensions = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalize each channel of images (N, C, H, W); see BatchNorm1d.

    >>> import plugrad as torch
    >>> torch.nn.BatchNorm2d(3)(torch.ones(2, 3, 4, 5)).shape
    torch.Size([2, 3, 4, 5])
    """

    dimensions = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalize each channel of volumes (N, C, D, H, W); see BatchNorm1d.

    >>> import plugrad as torch
    >>> torch.nn.BatchNorm3d(2)(torch.ones(2, 2, 2, 2, 2)).shape
    torch.Size([2, 2, 2, 2, 2])
    """

    dimensions = (5,)


class _InstanceNorm(_NormBase):
    """`dimensions` are (without a batch, with one)."""

    def __init__(
        self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None, *,
        bias=True,
    ):  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _get_no_batch_dim(self):
        return self.dimensions[0]

    def forward(self, input):
        self._check_input_dim(input)
        single = input.ndim == self._get_no_batch_dim()
        axis = 0 if single else 1
        if input.shape[axis] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={axis} to match num_features ({self.num_features}), but got: "
                    f"{input.shape[axis]}."
                )
            import warnings

            warnings.warn(
                f"input's size at dim={axis} does not match num_features, which is not used because affine=False: "
                "make them equal",
                stacklevel=3,
            )
        result = F.instance_norm(
            input[None] if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result[0] if single else result

    def _load_from_state_dict(self, state_dict, prefix, metadata, strict, missing, unexpected, errors):
        if metadata.get("version") is None and not self.track_running_stats:
            stale = [key for name in ("running_mean", "running_var") if (key := prefix + name) in state_dict]
            if stale:
                errors.append(
                    f"Unexpected running stats buffer(s) {' and '.join(map(repr, stale))} for "
                    f"{type(self).__name__} with "
                    "track_running_stats=False. If they are meant to be ignored, remove them from the state; if they "
                    "are to be used, construct the module with track_running_stats=True."
                )
                for key in stale:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, unexpected, errors)


class InstanceNorm1d(_InstanceNorm):
    """Normalize each channel of each sequence, (N, C, L) or (C, L), on its own.

    The arguments are those of BatchNorm1d, but there are neither affine parameters nor running statistics unless asked
    for. Raises ValueError for inputs of other dimensions. D. Ulyanov, A. Vedaldi, V. Lempitsky, arXiv:1607.08022.

    >>> import plugrad as torch
    >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[[1.0, 3.0]]])).round().tolist()
    [[[-1.0, 1.0]]]
    """

    dimensions = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalize each channel of each image on its own.

    Images are (N, C, H, W) or (C, H, W); see InstanceNorm1d.

    >>> import plugrad as torch
    >>> torch.nn.InstanceNorm2d(3)(torch.ones(3, 4, 5)).shape
    torch.Size([3, 4, 5])
    """

    dimensions = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalize each channel of each volume on its own.

    Volumes are (N, C, D, H, W) or (C, D, H, W); see InstanceNorm1d.

    >>> import plugrad as torch
    >>> torch.nn.InstanceNorm3d(2)(torch.ones(2, 2, 2, 2)).shape
    torch.Size([2, 2, 2, 2])
    """

    dimensions = (4, 5)


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
