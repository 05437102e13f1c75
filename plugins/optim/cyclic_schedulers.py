"""Learning-rate schedules that go round, and move the momentum with the rate."""

from __future__ import annotations

import math
import types
from functools import partial

from plugrad.extend import LRScheduler, collect, hookimpl


class _WithMomentum(LRScheduler):
    """What schedules share that may move the momentum, or the first beta, against the rate."""

    def _start_momentum(self, base_momentum, max_momentum, last_epoch) -> tuple:
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        highest = self.per_group("max_momentum", max_momentum)
        lowest = self.per_group("base_momentum", base_momentum)
        if last_epoch == -1:
            for group, high, low in zip(self.optimizer.param_groups, highest, lowest, strict=True):
                group["max_momentum"], group["base_momentum"] = high, low
                self._set_momentum(group, high)
        return lowest, highest

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_WithMomentum):
    """Let the rate rise and fall between two bounds, again and again.

    The schedule is stepped after every batch. After Smith, "Cyclical Learning Rates for Training Neural Networks"
    (arXiv:1506.01186).

    Args:
        optimizer: the optimizer.
        base_lr: the lowest rate, one number or a list with one for each group; the rate starts there.
        max_lr: the highest rate, likewise.
        step_size_up: the steps in which it rises.
        step_size_down: the steps in which it falls; by default as many.
        mode: "triangular"; "triangular2" halves the height with every cycle; "exp_range" multiplies it by `gamma`
            with every step.
        gamma: see there.
        scale_fn: a function of the cycle, from 1 on, or of the step, that scales the height in place of `mode`.
        scale_mode: "cycle" or "iterations", what `scale_fn` is given.
        cycle_momentum: move the momentum, or the first beta, the other way.
        base_momentum: its lowest value, one number or a list with one for each group.
        max_momentum: its highest value, likewise.
        last_epoch: the number of the last step when training is resumed.

    Raises ValueError for other modes, and where there is no momentum to move.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    >>> schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 1.0, 3.0, step_size_up=2, cycle_momentum=False)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += schedule.get_last_lr()
    ...     optimizer.step()
    ...     schedule.step()
    >>> rates
    [1.0, 2.0, 3.0, 2.0, 1.0]
    """

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        self.optimizer = self._checked(optimizer)
        base_lrs = self.per_group("base_lr", base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                self.assign(group, "lr", rate)
        self.max_lrs = self.per_group("max_lr", max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(
                "mode is invalid and scale_fn is None; write mode='triangular', 'triangular2' or 'exp_range'"
            )
        self.mode, self.gamma, self.scale_mode = mode, gamma, scale_mode
        self._scale_fn_custom = scale_fn
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    @staticmethod
    def samples(make):
        yield make.args(base_lr=[0.5, 0.125], max_lr=[1.0, 0.25], step_size_up=3)
        yield make.args(base_lr=[0.5, 0.125], max_lr=[1.0, 0.25], step_size_up=2, scale_fn=_halved, scale_mode="cycle")

    def _init_scale_fn(self):
        if self._scale_fn_custom is None:  # no method: schedule and function would hold each other
            self._scale_fn_ref = _SCALES.get(self.mode) or partial(_power, self.gamma)
            self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"

    def scale_fn(self, x) -> float:
        """Return what the height is scaled by in a cycle, or at a step."""
        return (self._scale_fn_ref if self._scale_fn_custom is None else self._scale_fn_custom)(x)

    def get_lr(self):
        self.warn_unless_stepping()
        turns = self.last_epoch / self.total_size
        cycle = math.floor(1 + turns)
        x = 1.0 + turns - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            groups = self.optimizer.param_groups
            for group, low, high in zip(groups, self.base_momentums, self.max_momentums, strict=True):
                self._set_momentum(group, high - (high - low) * part * scale)
        return [low + (high - low) * part * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self):
        """Return the state; a `scale_fn` is in it only if it is a callable object."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        function = state["_scale_fn_custom"]
        plain = function is None or isinstance(function, types.FunctionType)
        state["_scale_fn_custom"] = None if plain else function.__dict__.copy()
        return state

    def load_state_dict(self, state_dict):
        """Take over a state; a plain function stays the one given to the constructor."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])
        self._init_scale_fn()


def _halved(cycle):
    return 0.5**cycle


def _constant(x):
    return 1.0


def _halving(x):
    return 1 / 2.0 ** (x - 1)


def _power(gamma, x):
    return gamma**x


_SCALES = {"triangular": _constant, "triangular2": _halving}


class CosineAnnealingWarmRestarts(LRScheduler):
    """Let the rate fall along a cosine to `eta_min`, and start anew.

    The first fall takes `T_0` epochs, each further one `T_mult` times as many as the one before. `step` may be given
    fractions of epochs. After Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (ICLR
    2017). Raises ValueError for a `T_0` or `T_mult` that is no int of at least 1.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> schedule.step(1.5)
    >>> round(schedule.get_last_lr()[0], 4)
    1.1716
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        self.warn_unless_stepping()
        low, height = self.eta_min, 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [low + (base - low) * height / 2 for base in self.base_lrs]

    def step(self, epoch=None):
        """Go on by one epoch, or to a given one, which may be a fraction."""
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        with self.uninterrupted():
            if epoch is None and self.last_epoch >= 0:
                epoch = self.last_epoch + 1
                self.T_cur += 1
                if self.T_cur >= self.T_i:
                    self.T_cur %= self.T_i
                    self.T_i *= self.T_mult
            else:
                epoch = 0 if epoch is None else epoch
                self._go_to(epoch)
            self.last_epoch = math.floor(epoch)
            self.apply_rates()

    def _go_to(self, epoch):
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            falls = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**falls - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**falls


class OneCycleLR(_WithMomentum):
    """Let the rate rise and fall in one cycle, and the momentum move the other way.

    The rate rises to `max_lr` and falls far below its start. The cycle has `total_steps` steps, or `epochs *
    steps_per_epoch`, of which the part `pct_start` goes up; the schedule is stepped after every batch. The
    rate starts at `max_lr / div_factor` and ends at that divided by `final_div_factor`; `three_phase` first
    brings it down to the start again. With `cycle_momentum` the momentum, or the first beta, goes from
    `max_momentum` to `base_momentum` and back. Between the points the values follow `anneal_strategy`, "cos"
    or "linear".

    After Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning
    Rates" (arXiv:1708.07120). Raises ValueError for other arguments, and when it is stepped too often.
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        self.optimizer = self._checked(optimizer)
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        if not (isinstance(pct_start, float) and 0 <= pct_start <= 1):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = self._plan(float(pct_start * self.total_steps), three_phase)
        self._anneal_func_type = anneal_strategy
        self.cycle_momentum = cycle_momentum
        max_lrs = self.per_group("max_lr", max_lr)
        if last_epoch == -1:
            for group, highest in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = highest / div_factor
                group["max_lr"] = highest
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self._start_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count_steps(total_steps, epochs, steps_per_epoch):
        counts = {"total_steps": total_steps}
        if total_steps is None:
            counts = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
            if None in counts.values():
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        for name, count in counts.items():
            if not isinstance(count, int) or count <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {count}")
        return math.prod(counts.values())

    def _plan(self, rise, three_phase):
        points = [("initial_lr", "max_momentum"), ("max_lr", "base_momentum"), ("min_lr", "max_momentum")]
        ends = [rise - 1, self.total_steps - 1]
        if three_phase:
            points.insert(2, ("initial_lr", "max_momentum"))
            ends.insert(1, 2 * rise - 2)
        return [
            {
                "end_step": end,
                "start_lr": start_lr,
                "end_lr": end_lr,
                "start_momentum": start_momentum,
                "end_momentum": end_momentum,
            }
            for end, (start_lr, start_momentum), (end_lr, end_momentum) in zip(ends, points, points[1:], strict=False)
        ]

    @staticmethod
    def _annealing_linear(start, end, pct):
        return start + (end - start) * pct

    @staticmethod
    def _annealing_cos(start, end, pct):
        return end + (start - end) / 2 * (1 + math.cos(math.pi * pct))

    def _between(self, start, end, part):
        if "_anneal_func_type" not in self.__dict__:  # states saved before PyTorch 1.13 hold the function itself
            return self.anneal_func(start, end, part)
        anneal = self._annealing_linear if self._anneal_func_type == "linear" else self._annealing_cos
        return anneal(start, end, part)

    def get_lr(self):
        self.warn_unless_stepping()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start = 0.0
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        part = (step - start) / (phase["end_step"] - start)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                value = self._between(group[phase["start_momentum"]], group[phase["end_momentum"]], part)
                self._set_momentum(group, value)
        groups = self.optimizer.param_groups
        return [self._between(group[phase["start_lr"]], group[phase["end_lr"]], part) for group in groups]


@hookimpl
def plugrad_schedulers():
    return collect(LRScheduler, globals())
