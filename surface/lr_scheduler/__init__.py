"""The base of every learning-rate schedule; the schedules themselves are plugins."""

from __future__ import annotations

import warnings
from numbers import Real

from plugrad import Tensor
from plugrad.interrupts import held_back
from plugrad.nn.migrations import brought_up
from plugrad.optim import Optimizer
from plugrad.registry.namespaces import lazy_names

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible: write "
    "`scheduler.step()`, for a schedule on plateaus `scheduler.step(metrics)`. If an epoch is given the closed form of "
    "the schedule is used, where it has one."
)
_GUIDE = "See https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


class LRScheduler:
    """Base of all schedules: `step()` sets the `lr` of each parameter group.

    `last_epoch` is the number of the last epoch when training is resumed, and -1 otherwise. A schedule gives
    `get_lr()`, the rates for the epoch `self.last_epoch`, one for each group; it may compute them from
    `self.base_lrs`, the rates at the start, or from the current ones. Raises TypeError for what is no
    optimizer, and KeyError when it is to resume but the groups have no `initial_lr`.

    One that is driven by a measure overrides `step`, as `step(self, metric)`, keeps the measure and calls
    `super().step()`; where `step` has to be given something the groups keep their own rates until it is first called.

    >>> import plugrad as torch
    >>> class Halving(torch.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [lr * 0.5**self.last_epoch for lr in self.base_lrs]
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> schedule = Halving(optimizer)
    >>> for epoch in range(2):
    ...     optimizer.step()
    ...     schedule.step()
    >>> schedule.get_last_lr()
    [2.0]
    """

    state_version: int | None = None  # of a class with migrations: which layout its state_dict() has
    migrations: dict = {}  # {version: f(state_dict) -> that of the next version}; what says no version has 1
    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = self._checked(optimizer)
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _value(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming scheduler "
                    "with last_epoch >= 0; load the optimizer's state dict first, or leave out last_epoch"
                )
        self.base_lrs = self.current("initial_lr")
        self.last_epoch = last_epoch
        optimizer._scheduled_step = vars(optimizer).get("step")
        self._initial_step()

    @staticmethod
    def _checked(optimizer):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        return optimizer

    def _initial_step(self):
        self._step_count = 0
        step = type(self).step
        code = getattr(step, "__code__", None)
        if code is not None and code.co_argcount - len(step.__defaults__ or ()) > 1:  # there is no measure yet
            self.last_epoch, self._last_lr = self.last_epoch + 1, self.current()
            return
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict:
        """Return everything but the optimizer as a dict."""
        version = {} if self.state_version is None else {"state_version": self.state_version}
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"} | version

    def load_state_dict(self, state_dict: dict):
        """Take over what `state_dict` returned; load the optimizer's own state after this.

        A state of an older `state_version` of the class is first brought to its layout by the class's `migrations`.
        """
        own = dict(state_dict)
        version = own.pop("state_version", 1)
        self.__dict__.update(brought_up(type(self), own, version))

    def get_last_lr(self) -> list:
        """Return the rates that this schedule set last, one for each group."""
        return self._last_lr

    def get_lr(self) -> list:
        """Compute the rates for `self.last_epoch`, one a group; every schedule has this."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: int | None = None):
        """Go on to the next epoch and set its rates; call it after `optimizer.step()`.

        Going to a given `epoch` is deprecated; it uses the schedule's closed form where it has one.
        """
        if self._step_count == 1:
            self._warn_of_order()
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        with self.uninterrupted():
            self._step_count += 1
            self._update_lr(epoch)

    def _warn_of_order(self):
        own = vars(self.optimizer)
        if own.get("step") is not own.get("_scheduled_step"):
            warnings.warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_GUIDE}",
                UserWarning,
                stacklevel=3,
            )
        elif "step" not in own and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the opposite "
                f"order: otherwise the first value of the learning rate schedule is skipped. {_GUIDE}",
                UserWarning,
                stacklevel=3,
            )

    def _update_lr(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", self.get_lr)
        self.apply_rates(self.get_lr if epoch is None else closed)

    def apply_rates(self, compute=None):
        """Set the rates for `self.last_epoch`, by `compute()`, else `get_lr()`."""
        self._get_lr_called_within_step = True
        try:
            rates = (compute or self.get_lr)()
        finally:
            self._get_lr_called_within_step = False
        groups = self.optimizer.param_groups
        rates = list(rates) if hasattr(rates, "__iter__") else rates
        right = isinstance(rates, list) and all([isinstance(rate, (Real, Tensor)) for rate in rates])
        if not right or len(rates) != len(groups):
            raise TypeError(
                f"{type(self).__name__}.get_lr() must return a list of {len(groups)} rates, one for each group of "
                f"parameters; it returned {rates!r}"
            )
        for group, rate in zip(groups, rates):
            self.assign(group, "lr", rate)
        self._last_lr = self.current()

    @staticmethod
    def _check_record(cls):
        if cls.get_lr is LRScheduler.get_lr and cls.step is LRScheduler.step:
            raise TypeError(f"scheduler {cls.__name__!r} has neither `get_lr` nor `step`")

    # ---- for the schedules

    @staticmethod
    def uninterrupted():
        """Return a context in which Ctrl-C waits, so that epoch and rates change together."""
        return held_back()

    def current(self, key: str = "lr") -> list:
        """Return an option of every group; tensors are copied, since they're set in place."""
        return [_value(group[key]) for group in self.optimizer.param_groups]

    def scaled(self, factor: float) -> list:
        """Return the current rate of every group times `factor`."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    @staticmethod
    def assign(group: dict, key: str, value):
        """Set an option of a group, in place if it is a tensor."""
        if isinstance(group[key], Tensor):
            group[key].fill_(value.item() if isinstance(value, Tensor) else value)
        else:
            group[key] = value

    def per_group(self, name: str, value) -> list:
        """Return `value` for every group, or, if it is a list, one of its items for each.

        Raises ValueError when the list has another length than there are groups.
        """
        count = len(self.optimizer.param_groups)
        if not isinstance(value, (list, tuple)):
            return [_value(value) for _ in range(count)]
        if len(value) != count:
            raise ValueError(
                f"{name} must have the same length as optimizer.param_groups. "
                f"{name} has {len(value)} values, param_groups has {count}."
            )
        return [_value(one) for one in value]

    def warn_unless_stepping(self):
        """Warn when `get_lr()` is called from outside, where `get_last_lr()` is meant."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


class _LRScheduler(LRScheduler):
    """The name that the base had in older programs, for their subclasses."""


def _value(option):
    return option.clone() if isinstance(option, Tensor) else option


__getattr__, __dir__ = lazy_names(globals(), "optim.lr_scheduler")
