"""A schedule that rises in a line and then falls as the inverse square root."""

from __future__ import annotations

import math

from plugrad.extend import LRScheduler, collect, hookimpl

plugrad_api = (1, 2)


class InverseSqrtLR(LRScheduler):
    """Let the rate rise in a line to its full value, then fall as 1 / sqrt(step).

    Args:
        optimizer: whose rates to set; each group's own is the highest that it gets.
        warmup: number of steps, at least 1, until the full rate is reached.
        last_epoch: number of the last step when training is resumed, else -1.

    The schedule of A. Vaswani et al., "Attention is all you need" (NeurIPS 2017), section 5.3, as a fraction of the
    full rate: min((step + 1) / warmup, sqrt(warmup / (step + 1))). It has no end, so training can go on at any time.
    Raises ValueError unless `warmup` is at least 1.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> schedule = torch.optim.lr_scheduler.InverseSqrtLR(optimizer, warmup=2)
    >>> for step in range(4):
    ...     print(round(schedule.get_last_lr()[0], 3))
    ...     optimizer.step()
    ...     schedule.step()
    4.0
    8.0
    6.532
    5.657
    """

    def __init__(self, optimizer, warmup=4000, last_epoch=-1):
        if not warmup >= 1:
            raise ValueError(f"warmup must be at least 1 step, got {warmup}")
        self.warmup = warmup
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = self.last_epoch + 1
        factor = min(step / self.warmup, math.sqrt(self.warmup / step))
        return [lr * factor for lr in self.base_lrs]

    @staticmethod
    def samples(make):
        """Yield what to test it with: the arguments behind the optimizer."""
        yield 3


@hookimpl
def plugrad_schedulers():
    return collect(LRScheduler, globals())
