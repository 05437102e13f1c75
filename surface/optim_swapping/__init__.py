"""Other parameters and state in an optimizer, for a while."""

from __future__ import annotations

from collections import defaultdict

from plugrad import Tensor
from plugrad.extend.blocks import Restoring

__all__ = ["swap_in_optimizer_params_and_state"]

_NAME = "swap_in_optimizer_params_and_state"


class swap_in_optimizer_params_and_state(Restoring):
    """Let an optimizer work on other parameters and state inside of a `with` block.

    Steps in the block change what was swapped in; what the optimizer had is back afterwards.

    Args:
        optimizer: an optimizer that has state, from a step or a checkpoint.
        swapin_parameters: tensors by name, in the order of the optimizer's parameters.
        swapin_optim_state: a state as `optimizer.state_dict()` gives it, of groups with the same options.

    Raises RuntimeError for an optimizer without state, and where parameters or groups don't fit.

    >>> import plugrad as torch
    >>> p, q = torch.ones(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    >>> p.grad = q.grad = torch.ones(1)
    >>> optimizer = torch.optim.SGD([p], lr=0.5, momentum=0.5)
    >>> optimizer.step()
    >>> with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, optimizer.state_dict()):
    ...     optimizer.step()
    >>> p.item(), q.item()
    (0.5, -0.75)
    """

    def __init__(self, optimizer, swapin_parameters, swapin_optim_state):
        self._optimizer = optimizer
        self._swapped_in = _checked(optimizer, swapin_parameters, swapin_optim_state)

    def begin(self):
        optimizer, (state, groups) = self._optimizer, self._swapped_in
        self._own, self._own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
        optimizer.state = swapped = defaultdict(dict)
        for group, given, params in groups:
            group.update(given, params=params)
            for p, place in zip(params, given["params"]):
                swapped[p] = dict(state.get(place, {}))

    def end(self):
        for group, before in zip(self._optimizer.param_groups, self._own_groups):
            group.clear()
            group.update(before)
        self._optimizer.state = self._own


def _refuse(why) -> None:
    raise RuntimeError(f"{_NAME} requires {why}")


def _checked(optimizer, parameters, given) -> tuple:
    """Return the state by place, and for each group itself, what replaces its options, and its parameters."""
    if not optimizer.state:
        _refuse("initialized optimizer state: make a step, or load a state, first")
    if not isinstance(given, dict):
        _refuse("a state as optimizer.state_dict() gives it")
    state, groups = given.get("state"), given.get("param_groups")
    if not isinstance(state, dict):
        _refuse(f"swapin_optim_state['state'] to be a dict by parameter ids, got {type(state).__name__}")
    if any(isinstance(key, Tensor) for key in state):
        _refuse("state by parameter ids, as in optimizer.state_dict(), not by parameters")
    if any(not isinstance(value, dict) for value in state.values()):
        _refuse("the state of each parameter to be a dict")
    if not isinstance(groups, list):
        _refuse(f"swapin_optim_state['param_groups'] to be a list, got {type(groups).__name__}")
    if len(groups) != len(optimizer.param_groups):
        _refuse(f"as many parameter groups as the optimizer has, {len(optimizer.param_groups)}, got {len(groups)}")
    left, chosen = list(parameters.values()), []
    for place, (group, other) in enumerate(zip(optimizer.param_groups, groups)):
        _check_group(place, group, other)
        count = len(other["params"])
        if len(left) < count:
            _refuse("a tensor for each parameter of the optimizer, in the same order")
        chosen.append((group, other, left[:count]))
        del left[:count]
    strange = set(state).difference(*[other["params"] for other in groups])
    if strange:
        _refuse(f"state of parameters that are in the groups, got {sorted(map(str, strange))}")
    return state, chosen


def _check_group(place, group, other) -> None:
    if not isinstance(other, dict):
        _refuse("each parameter group to be a dict")
    ids = other.get("params")
    if not isinstance(ids, list) or not all(isinstance(one, int) for one in ids):
        _refuse("the 'params' of each group to be a list of parameter ids, as in optimizer.state_dict()")
    if len(ids) != len(group["params"]):
        _refuse(f"group {place} to have as many parameters as the optimizer's, {len(group['params'])}, got {len(ids)}")
    if set(other) != set(group):
        _refuse(f"group {place} to have the options of the optimizer's; only one has {sorted({*other} ^ {*group})}")
