"""Learning-rate schedules.

Each is written in chainable form: the next rate follows from the current one, so that several schedules, or
the user, may change the rates of one optimizer. Where there is a closed form too, it serves `step(epoch)`.
"""

from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter

import plugrad
from plugrad.extend import LRScheduler, collect, hookimpl


class _ByFunction(LRScheduler):
    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.optimizer = self._checked(optimizer)
        count = len(optimizer.param_groups)
        self.lr_lambdas = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * count
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        """Return the state; functions are in it only if they are callable objects."""
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(f, types.FunctionType) else f.__dict__.copy() for f in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict):
        """Take over a state; plain functions stay those given to the constructor."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_ByFunction):
    """Multiply the initial rate by a function of the epoch.

    `lr_lambda` is one function for all parameter groups or a list with one for each.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (epoch + 2)).get_last_lr()
    [4.0]
    """

    def get_lr(self):
        self.warn_unless_stepping()
        return [lr * f(self.last_epoch) for lr, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_ByFunction):
    """Multiply the current rate by a function of the epoch, from the first step on."""

    def get_lr(self):
        self.warn_unless_stepping()
        if self._is_initial:
            return self.current()
        return [lr * f(self.last_epoch) for lr, f in zip(self.current(), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiply the rate by `gamma` every `step_size` epochs.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [2.0]
    """

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self.warn_unless_stepping()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return self.scaled(self.gamma) if due else self.current()

    def _get_closed_form_lr(self):
        return [lr * self.gamma ** (self.last_epoch // self.step_size) for lr in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiply the rate by `gamma` at each of `milestones`, twice if it is twice."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self.warn_unless_stepping()
        times = self.milestones[self.last_epoch]
        return self.scaled(self.gamma**times) if times else self.current()

    def _get_closed_form_lr(self):
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [lr * self.gamma**passed for lr in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiply the rate by `gamma` every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self.warn_unless_stepping()
        return self.current() if self._is_initial else self.scaled(self.gamma)

    def _get_closed_form_lr(self):
        return [lr * self.gamma**self.last_epoch for lr in self.base_lrs]


class ConstantLR(LRScheduler):
    """Multiply the rate by `factor`, from 0 to 1, until the epoch `total_iters`."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, but got {factor}.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self.warn_unless_stepping()
        if self.last_epoch == 0:
            return self.scaled(self.factor)
        return self.scaled(1 / self.factor) if self.last_epoch == self.total_iters else self.current()

    def _get_closed_form_lr(self):
        factor = 1 if self.last_epoch >= self.total_iters else self.factor
        return [lr * factor for lr in self.base_lrs]


class LinearLR(LRScheduler):
    """Move a factor of the rate in a line, in `total_iters` epochs.

    It goes from `start_factor` to `end_factor`; both lie between 0 and 1, and the first is not 0.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25).get_last_lr()
    [2.0]
    """

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1, "
                f"but got {start_factor}."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, but got {end_factor}.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self.warn_unless_stepping()
        if self.last_epoch == 0:
            return self.scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self.current()
        rise = self.end_factor - self.start_factor
        return self.scaled(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _get_closed_form_lr(self):
        rise = self.end_factor - self.start_factor
        factor = self.start_factor + rise * min(self.total_iters, self.last_epoch) / self.total_iters
        return [lr * factor for lr in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Let the rate fall to 0, as `(1 - epoch / total_iters) ** power`."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _left(self, epoch):
        return 1.0 - min(self.total_iters, epoch) / self.total_iters

    def get_lr(self):
        self.warn_unless_stepping()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self.current()
        return self.scaled((self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power)

    def _get_closed_form_lr(self):
        return [lr * self._left(self.last_epoch) ** self.power for lr in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Let the rate fall along a cosine to `eta_min` in `T_max` epochs, and rise.

    After Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (ICLR 2017), without
    the restarts.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch):
        return 1 + math.cos(math.pi * epoch / self.T_max)  # twice of what is left of the rate

    def get_lr(self):
        self.warn_unless_stepping()
        epoch, low = self.last_epoch, self.eta_min
        if self._is_initial:
            return self.current()
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate stood at its lowest: no ratio leads away
            rise = 1 - math.cos(math.pi / self.T_max)
            return [lr + (base - low) * rise / 2 for lr, base in zip(self.current(), self.base_lrs, strict=True)]
        ratio = self._height(epoch) / self._height(epoch - 1)
        return [ratio * (lr - low) + low for lr in self.current()]

    def _get_closed_form_lr(self):
        low, height = self.eta_min, self._height(self.last_epoch)
        return [low + (lr - low) * height / 2 for lr in self.base_lrs]


class ReduceLROnPlateau(LRScheduler):
    """Cut the rate when a measure has not improved for `patience` epochs.

    The rate is multiplied by `factor`. `step(metrics)` is given the measure, which is to fall (`mode="min"`)
    or to rise (`"max"`), by more than `threshold`, relative to the best value (`threshold_mode="rel"`) or
    absolutely (`"abs"`). After a cut `cooldown` epochs pass before bad ones are counted again. The rate does not fall
    below `min_lr`, one number or a list with one for each group, and not by less than `eps`. Raises ValueError for a
    factor of 1 or more and for other modes.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in [3.0, 2.0, 2.0, 2.0]:
    ...     schedule.step(loss)
    >>> schedule.get_last_lr()
    [4.0]
    """

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! Write 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! Write 'rel' or 'abs'.")
        self.optimizer = self._checked(optimizer)
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = self.per_group("min_lr", min_lr)
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = self.current()
        self._reset()

    def _reset(self):
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    @property
    def in_cooldown(self) -> bool:
        """Whether a cut is so recent that bad epochs are not counted."""
        return self.cooldown_counter > 0

    def _is_better(self, value):
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            return sign * value > sign * self.best * (1 + sign * self.threshold)
        return sign * value > sign * self.best + self.threshold

    def step(self, metrics, epoch=None):
        """Look at the measure of one more epoch, a number or a tensor of one element."""
        value = float(metrics)
        if epoch is not None:
            warnings.warn(plugrad.optim.lr_scheduler.EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        with self.uninterrupted():
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            if self._is_better(value):
                self.best, self.num_bad_epochs = value, 0
            else:
                self.num_bad_epochs += 1
            if self.in_cooldown:
                self.cooldown_counter -= 1
                self.num_bad_epochs = 0
            if self.num_bad_epochs > self.patience:
                self._reduce_lr()
                self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            self._last_lr = self.current()

    def _reduce_lr(self):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}); set `min_lrs` to a list of "
                    "that length."
                )
            self.min_lrs = self.per_group("min_lr", self.default_min_lr)
        for group, lowest in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                self.assign(group, "lr", new)


@hookimpl
def plugrad_schedulers():
    return collect(LRScheduler, globals())
