"""Learning-rate schedules made of others: one after the other, and all at once."""

from __future__ import annotations

from bisect import bisect_right

from plugrad.extend import LRScheduler, collect, hookimpl

from .schedulers import ConstantLR, ExponentialLR, ReduceLROnPlateau


class _Composed(LRScheduler):
    """What both kinds share: the schedules must belong to one optimizer, and their states are saved with them."""

    def _check(self, schedulers, optimizer):
        name = type(self).__name__
        for place, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {place} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {place} in the given schedulers sequence. "
                    "Step it by itself"
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(scheduler).__name__} at index {place} has {scheduler.optimizer}, which is different from "
                    f"{type(optimizer).__name__}."
                )

    def state_dict(self):
        """Return the state, those of the schedules as a list."""
        return super().state_dict() | {"_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Take over a state, and those of the schedules."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Composed):
    """Follow one schedule after the other.

    Args:
        optimizer: the optimizer that all schedules were made for.
        schedulers: the schedules, in order.
        milestones: the epochs at which the second, third... begins.
        last_epoch: the number of the last epoch when training is resumed.

    Raises ValueError where the numbers of schedules and milestones don't fit, or the optimizers differ.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> constant = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> falling = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [constant, falling], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [4.0, 4.0, 8.0, 4.0]
    """

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._schedulers, self._milestones = schedulers, milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # The schedules have made their first steps already, each on the rates that the one before had set.
        for group in optimizer.param_groups:
            self.assign(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    @staticmethod
    def example(optimizer):
        """Return a schedule of an optimizer, for checks."""
        return SequentialLR(optimizer, [ConstantLR(optimizer, 0.5, 9), ExponentialLR(optimizer, 0.5)], [3])

    def recursive_undo(self, sched=None):
        """Take the last step of all schedules back, in schedules made of others too."""
        schedule = self if sched is None else sched
        if hasattr(schedule, "_schedulers"):
            for part in schedule._schedulers:
                self.recursive_undo(part)
        elif hasattr(schedule, "last_epoch"):
            schedule.last_epoch -= 1

    def step(self):
        """Go on to the next epoch, by the schedule that it belongs to."""
        with self.uninterrupted():
            self.last_epoch += 1
            place = bisect_right(self._milestones, self.last_epoch)
            scheduler = self._schedulers[place]
            if place > 0 and self._milestones[place - 1] == self.last_epoch:
                scheduler._update_lr(0)
            else:
                scheduler.step()
            self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Composed):
    """Let several schedules, in order, change the rates in each epoch.

    Args:
        schedulers: the schedules.
        optimizer: the optimizer that all were made for; by default that of the first.

    Raises ValueError without schedules, and where the optimizers differ.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> half = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=9)
    >>> falling = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule = torch.optim.lr_scheduler.ChainedScheduler([half, falling])
    >>> optimizer.step()
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [2.0]
    """

    def __init__(self, schedulers, optimizer=None):
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        self._check(schedulers, optimizer)
        self._schedulers, self.optimizer = schedulers, optimizer
        self._last_lr = self.current()

    @staticmethod
    def example(optimizer):
        """Return a schedule of an optimizer, for checks."""
        return ChainedScheduler([ConstantLR(optimizer, 0.5, 9), ExponentialLR(optimizer, 0.5)])

    def step(self):
        """Step every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self.current()


@hookimpl
def plugrad_schedulers():
    return collect(LRScheduler, globals())
