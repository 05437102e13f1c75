"""The state of an optimizer as data, and back, and made before its first step: methods of Optimizer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping
from copy import deepcopy
from itertools import chain

import numpy

from plugrad import Tensor
from plugrad.extend import from_raw
from plugrad.interrupts import held_back
from plugrad.nn.migrations import brought_up

__all__ = ["fill_state", "load_state_dict", "state_dict"]


def fill_state(self):
    """Make the state of all parameters now; otherwise the step that needs it makes it."""
    for group in self.param_groups:
        for name, initial in self.slots(self._plain(group)).items():
            for p in group["params"]:
                if not hasattr(p, "cls_to_become") and not hasattr(p._raw, "alike"):  # lazy, or its class's: later
                    self.state[p][name] = self._make_slot(p, initial)


def state_dict(self) -> dict:
    """Return `"state"` by parameter index, and `"param_groups"` with those indices.

    With `"state_version"`, if the class has one.
    """
    for hook in self._optimizer_state_dict_pre_hooks.values():
        hook(self)
    index = {}
    for place, p in enumerate(chain.from_iterable([group["params"] for group in self.param_groups])):
        index.setdefault(id(p), place)
    groups = []
    for group in self.param_groups:
        packed = {key: value for key, value in group.items() if key != "params"}
        packed["params"] = [index[id(p)] for p in group["params"]]
        groups.append(packed)
    state = {index[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
    result = {"state": state, "param_groups": groups}
    if self.state_version is not None:
        result["state_version"] = self.state_version
    for hook in self._optimizer_state_dict_post_hooks.values():
        replaced = hook(self, result)
        if replaced is not None:
            result = replaced
    return result


def load_state_dict(self, state_dict: dict):
    """Take over a copy of a state that `state_dict` made, here or in PyTorch.

    A state of an older `state_version` of the class, 1 if it says none, is first brought to its layout by the
    class's `migrations`; ValueError refuses a later one.

    Where both sides name their parameters, and name the same ones, state is matched by name, so that an
    other order does no harm; otherwise it is matched by position, and an optimizer without names takes
    over those of the state, as in PyTorch. Options that a group of an older state lacks keep their values. Raises
    TypeError for what is no state, and ValueError where groups or shapes differ, where names that both sides know
    stand in other positions and others are missing, or where the options are another optimizer's; then nothing has
    been changed.
    """
    if not isinstance(state_dict, Mapping):
        what = f"an optimizer's state is a dict, which state_dict() returns, not {type(state_dict).__name__}"
        raise (TypeError if hasattr(state_dict, "copy") else AttributeError)(f"load_state_dict(): {what}")
    state_dict = state_dict.copy()
    if not {"state", "param_groups"} <= state_dict.keys():
        first = ", ".join(map(repr, [*state_dict][:3]))
        raise KeyError(
            f"'param_groups' and 'state' are what the state of an optimizer holds; this dict has {first or 'nothing'}: "
            "write load_state_dict(other_optimizer.state_dict())"
        )
    state_dict = _migrated(type(self), state_dict)
    for hook in self._optimizer_load_state_dict_pre_hooks.values():
        replaced = hook(self, state_dict)
        if replaced is not None:
            state_dict = replaced
    if not isinstance(state_dict["state"], Mapping):
        raise AttributeError(f"load_state_dict(): 'state' is a dict by parameter, not {state_dict['state']!r}")
    saved_groups = [
        {key: _indices(value) if key == "params" else deepcopy(value) for key, value in group.items()}
        for group in _groups(state_dict["param_groups"])
    ]
    if len(saved_groups) != len(self.param_groups):
        raise ValueError(
            f"loaded state dict has a different number of parameter groups: {len(saved_groups)}, "
            f"where this optimizer has {len(self.param_groups)}"
        )
    targets = _match(self.param_groups, saved_groups)
    _complete(self, saved_groups)
    state = defaultdict(dict)
    for key, value in state_dict["state"].items():
        p = targets.get(key)
        if p is not None and not isinstance(value, Mapping):
            raise TypeError(f"load_state_dict(): the state of parameter {key} is a dict, not {type(value).__name__}")
        state[key if p is None else p] = value if p is None else _adopt(self, p, value)
    with held_back():
        self.__setstate__({"state": state, "param_groups": saved_groups})
    for hook in self._optimizer_load_state_dict_post_hooks.values():
        hook(self)


_OF_SCHEDULERS = frozenset("initial_lr max_lr min_lr base_momentum max_momentum swa_lr".split())


def _complete(optimizer, saved_groups) -> None:
    """Give saved groups the options that those of older versions lack; ValueError for the options of another class."""
    for group, saved in zip(optimizer.param_groups, saved_groups):
        lacking = [key for key in optimizer.defaults if key not in saved]
        strange = saved.keys() - group.keys() - _OF_SCHEDULERS - {"param_names"}
        if lacking and strange:
            raise ValueError(
                f"loaded state dict is another optimizer's: its groups have {', '.join(sorted(strange))}, and no "
                f"{', '.join(lacking)}; load it into the class that it was saved from, here it is "
                f"{type(optimizer).__name__}"
            )
        saved.update({key: group.get(key, optimizer.defaults[key]) for key in lacking})


def _groups(groups) -> list:
    """Return the groups of a state; TypeError for what are none, KeyError for one without indices of parameters."""
    if not isinstance(groups, (list, tuple)) or not all([isinstance(group, Mapping) for group in groups]):
        raise TypeError(f"load_state_dict(): 'param_groups' is a list of dicts, not {groups!r}")
    for group in groups:
        if "params" not in group:
            raise KeyError(f"'params', the list of indices of a group's parameters, is not among {sorted(group)}")
    return groups


def _indices(given) -> list:
    """Return the indices of a group's parameters as a list; TypeError for what can't be one."""
    indices = given.tolist() if hasattr(given, "tolist") else given
    if not isinstance(indices, (list, tuple)) or not all([isinstance(one, Hashable) for one in indices]):
        raise TypeError(f"load_state_dict(): 'params' of a group is a list of indices, such as [0, 1], not {given!r}")
    return [*indices]


def _migrated(cls, state):
    """Return a state in the layout of a class today; migrations get dicts of their own, which they may change."""
    version = state.pop("state_version", 1)
    if version == 1 and cls.state_version is None:
        return state
    entries, groups = state["state"], state["param_groups"]
    own = {key: dict(value) if isinstance(value, dict) else value for key, value in entries.items()}
    return brought_up(cls, {**state, "state": own, "param_groups": [dict(group) for group in groups]}, version)


def _adopt(optimizer, p, value, key=None):
    """Copy a loaded value for the parameter `p`, tensors in the parameter's dtype and on its device."""
    if isinstance(value, dict):
        return {name: _adopt(optimizer, p, item, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_adopt(optimizer, p, item) for item in value)
    if not isinstance(value, Tensor):
        if isinstance(value, str) and key in optimizer.slots(optimizer._plain(optimizer.param_groups[0])):
            raise TypeError(f"load_state_dict(): {key!r} of a parameter's state must be Tensor, not str")
        if not hasattr(value, "__array__"):
            return value
        # A torch.Tensor, or a NumPy array.
        value = from_raw(numpy.array(value.numpy(force=True) if hasattr(value, "detach") else value))
    if key == "step" or (len(value.shape) == 0 and (len(p.shape) > 0 or _is_scalar(optimizer, key))):
        return value.detach().clone()  # a counter: it keeps its dtype, and stays where reading it is cheap
    if optimizer.elementwise and tuple(value.shape) != tuple(p.shape):
        raise ValueError(
            f"loaded state dict holds {key!r} of shape {tuple(value.shape)} for a parameter of shape "
            f"{tuple(p.shape)}; these are other parameters than the saved ones, or in another order"
        )
    dtype = p.dtype if p.is_floating_point() else value.dtype
    return value.detach().to(device=p.device, dtype=dtype).clone()


def _is_scalar(optimizer, key) -> bool:
    """Whether a kind of state is one number, by what `slots` says; of a 0-d parameter its shape doesn't tell."""
    slots = optimizer.slots(optimizer._plain(optimizer.param_groups[0]))
    return key in slots and not callable(slots[key])


def _match(groups, saved_groups) -> dict:
    """Map saved indices to parameters, and turn the saved groups into those to be used."""
    indices, params, names, saved_names = [], [], [], []
    for group, saved in zip(groups, saved_groups):
        if len(saved["params"]) != len(group["params"]):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                f"{len(saved['params'])} parameters, where the optimizer's has {len(group['params'])}"
            )
        indices += saved["params"]
        params += group["params"]
        names += group.get("param_names", ())
        saved_names += saved.get("param_names", ())
        saved["params"] = group["params"]
        if "param_names" in group:
            saved["param_names"] = group["param_names"]
    if names != saved_names and len(names) == len(saved_names) == len(params):
        place = dict(zip(names, params))
        known = [name for name in saved_names if name in place]
        if len(set(known)) == len(place) == len(params):
            params = [place[name] for name in saved_names]
        elif any(name in place and name != own for name, own in zip(saved_names, names)):
            strange = ", ".join(map(repr, sorted({*saved_names} ^ {*names})[:6]))
            raise ValueError(
                "loaded state dict names other parameters, in another order, so it can't be told which state belongs "
                f"to which: {'only one side has ' + strange if strange else 'a name stands twice'}. Rename them in its "
                "'param_names', or list the parameters in the saved order"
            )
    return dict(zip(indices, params))
