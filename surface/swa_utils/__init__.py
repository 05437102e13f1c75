"""Averages of a model's weights over training: `AveragedModel`, its functions and its schedule."""

from __future__ import annotations

import copy
import math
from itertools import chain

import plugrad
from plugrad import no_grad
from plugrad.extend import held_back
from plugrad.nn import BatchNorm1d, Module
from plugrad.optim.lr_scheduler import LRScheduler

__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip


def _check_decay(decay) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _check_model(name, model) -> None:
    """Raise TypeError for what has no parameters, buffers and modules to go through."""
    if isinstance(model, type) or not hasattr(model, "parameters"):
        raise TypeError(f"{name}(): argument 'model' must be Module, not {type(model).__name__}: pass the model itself")


def _moves(tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def get_ema_multi_avg_fn(decay=0.999):
    """Return a function that moves averages by `1 - decay` of the way to new values.

    It is called with lists, `fn(averages, values, num_averaged)`, and changes the averages in place. Raises ValueError
    for a `decay` outside [0, 1].

    >>> import plugrad as torch
    >>> average = torch.zeros(2)
    >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)([average], [torch.ones(2)], 1)
    >>> average
    tensor([0.2500, 0.2500])
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for average, value in zip(ema_param_list, current_param_list, strict=True):
            if _moves(average):
                average.lerp_(value, 1 - decay)
            else:
                average.copy_(average * decay + value * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """Return a function that takes new values into plain averages.

    It is called with lists, `fn(averages, values, num_averaged)`, and changes the averages in place; RuntimeError for
    integers.
    """

    @no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for average, value in zip(averaged_param_list, current_param_list, strict=True):
            if _moves(average):
                average.lerp_(value, float(1 / (num_averaged + 1)))
            else:
                average.addcdiv_(value - average, plugrad.as_tensor(num_averaged + 1))  # refuses integers

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """Return a function of averages that moves them by `1 - decay` to new values.

    It is called as `fn(average, value, num_averaged)`. Raises ValueError for a `decay` outside [0, 1].
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """Return a function that gives plain averages with new values taken in.

    It is called as `fn(average, value, num_averaged)`.
    """

    @no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model with averages of the parameters it had at `update_parameters`.

    P. Izmailov et al., "Averaging Weights Leads to Wider Optima and Better Generalization" (arXiv:1803.05407).

    Args:
        model: the model; it is copied.
        device: where the averages are; by default where the model is.
        avg_fn: `avg_fn(average, value, num_averaged)` returns a new average; by default the plain one.
        multi_avg_fn: `multi_avg_fn(averages, values, num_averaged)` changes lists of averages in place instead.
        use_buffers: average the buffers too; otherwise they are copied.

    The copy is `module`, the number of values taken in the buffer `n_averaged`. Raises AssertionError where both
    functions are given.

    >>> import plugrad as torch
    >>> model = torch.nn.ParameterList([torch.tensor([1.0])])
    >>> average = torch.optim.swa_utils.AveragedModel(model)
    >>> average.update_parameters(model)
    >>> _ = torch.nn.init.constant_(model[0], 3.0)
    >>> average.update_parameters(model)
    >>> average.module[0].item(), average.n_averaged.item()
    (2.0, 2)
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        _check_model("AveragedModel", model)
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", plugrad.tensor(0, dtype=plugrad.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        """Call the copy."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model):
        """Take the parameters that a model has now into the averages."""
        _check_model("update_parameters", model)
        pairs = [(average.detach(), value.detach().to(average.device)) for average, value in self._pairs(model)]
        with held_back():
            self._average(model, pairs)

    def _average(self, model, pairs):
        if self.n_averaged == 0:
            for average, value in pairs:
                average.copy_(value)
        elif self.multi_avg_fn is None:
            averaged = self.avg_fn or get_swa_avg_fn()
            for average, value in pairs:
                average.copy_(averaged(average, value, self.n_averaged.to(average.device)))
        else:
            groups: dict = {}
            for average, value in pairs:
                groups.setdefault((average.device, average.dtype), []).append((average, value))
            for (device, _), group in groups.items():
                self.multi_avg_fn(*map(list, zip(*group)), self.n_averaged.to(device))
        if not self.use_buffers:
            for buffer, value in zip(self.module.buffers(), model.buffers(), strict=True):
                buffer.detach().copy_(value.detach().to(buffer.device))
        self.n_averaged += 1

    def _pairs(self, model):
        if not self.use_buffers:
            return zip(self.module.parameters(), model.parameters())
        own = chain(self.module.parameters(), self.module.buffers())
        return zip(own, chain(model.parameters(), model.buffers()))


@no_grad()
def update_bn(loader, model, device=None):
    """Compute the running statistics of a model's BatchNorm layers anew.

    Args:
        loader: an iterable of batches; of a list or tuple the first item is the model's input.
        model: the model: it is called on every batch, in training mode.
        device: where inputs are moved first.
    """
    _check_model("update_bn", model)
    kind = BatchNorm1d.__base__  # what all of them derive from
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, kind)}
    if not momenta:
        return
    was_training = model.training

    def put_back():
        with held_back():
            for module, momentum in momenta.items():
                module.momentum = momentum
            model.train(was_training)

    try:
        try:
            _average(model, momenta, loader, device)
        finally:
            put_back()
    except BaseException:
        put_back()  # Ctrl-C may have come just before it was held back
        raise


def _average(model, norms, loader, device) -> None:
    for module in norms:
        module.reset_running_stats()
        module.momentum = None  # a plain average
    model.train()
    for batch in loader:
        input = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(input if device is None else input.to(device))


def _linear(t):
    return t


def _cosine(t):
    return (1 - math.cos(math.pi * t)) / 2


class SWALR(LRScheduler):
    """Move the rate to a constant one, at which weights are averaged.

    Args:
        optimizer: the optimizer.
        swa_lr: the rate at the end, one number or a list with one for each group.
        anneal_epochs: in how many epochs it is reached.
        anneal_strategy: "cos" or "linear", the way there.
        last_epoch: the number of the last epoch when training is resumed.

    Raises ValueError for other strategies and a negative number of epochs.

    >>> import plugrad as torch
    >>> optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
    >>> schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=2.0, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     schedule.step()
    ...     rates += schedule.get_last_lr()
    >>> rates
    [5.0, 2.0, 2.0, 2.0]
    """

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        self.optimizer = self._checked(optimizer)
        for group, rate in zip(optimizer.param_groups, self.per_group("swa_lr", swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _set_anneal_func(self, anneal_strategy):
        self._anneal_strategy = anneal_strategy
        self.anneal_func = _cosine if anneal_strategy == "cos" else _linear

    def _part(self, step) -> float:
        """Return how much of the way is gone at a step, from 0 to 1."""
        return self.anneal_func(max(0, min(1, step / max(1, self.anneal_epochs))))

    def get_lr(self):
        self.warn_unless_stepping()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        rates = []
        for group in self.optimizer.param_groups:
            lr, end = group["lr"], group["swa_lr"]
            start = end if before == 1 else (lr - before * end) / (1 - before)  # follows from the present rate
            rates.append(end * now + start * (1 - now))
        return rates

    def state_dict(self):
        """Return everything but the optimizer and the function."""
        return {key: value for key, value in super().state_dict().items() if key != "anneal_func"}

    def load_state_dict(self, state_dict):
        """Take over what `state_dict` returned."""
        super().load_state_dict(state_dict)
        self._set_anneal_func(self._anneal_strategy)
