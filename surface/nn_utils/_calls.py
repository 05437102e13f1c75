"""Modules called with other parameters than their own."""

from __future__ import annotations

import itertools
from collections import deque
from functools import partial
from io import BytesIO

import plugrad
from plugrad import Tensor
from plugrad.nn import Parameter
from plugrad.nn.utils import parametrize

__all__ = ["functional_call", "stack_module_state"]


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call a module with other parameters and buffers in place of its own.

    Args:
        module: the module; it is as before afterwards.
        parameter_and_buffer_dicts: tensors by dotted name, or several such dicts.
        args: the input, or a tuple of inputs.
        kwargs: keyword arguments of the call.
        tie_weights: a parameter that has several names is replaced under all of them.
        strict: demand exactly the names that the module has.

    A name that the module does not have is an attribute for the time of the call. A single dict gets the tensors that
    the module puts in the place of given ones, as statistics are.

    Raises ValueError when a name is in several dicts or names of one tensor get several values, RuntimeError for
    missing or unexpected names when `strict`, TypeError for values that are no tensors, and for attributes that are
    none, AttributeError for submodules that are not there.

    >>> import plugrad as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.ones(2))
    tensor([2.])
    """
    given = parameter_and_buffer_dicts
    values = _joined(given)
    places = _all_places(module) if tie_weights or strict else _places_of(module, values)
    if tie_weights:
        _tie(values, places)
    if strict:
        _check_names(module, values, places)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    kept = _unregistered(module, values, places)
    swapped = [(*places[name], value) for name, value in values.items() if name in places]
    with _restoring([(table, key) for table, key, _ in swapped]):
        for table, key, value in swapped:
            table[key] = value
        with parametrize.keeping(kept):
            try:
                return module(*args, **(kwargs or {}))
            finally:
                if isinstance(given, dict):  # which gets what the module put in the place of a value
                    own = {name: places[name] for name in given if name in places}
                    given.update((name, table[key]) for name, (table, key) in own.items() if key in table)


def _all_places(module) -> dict:
    """Return the table of a module and the key in it for each dotted name; without end where modules form a circle."""
    places: dict = {}
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for key, held in table.items():
                if held is not None:
                    places[f"{prefix}.{key}" if prefix else key] = (table, key)
    return places


def _places_of(module, names) -> dict:
    """Return the same for those of `names` that are a parameter's or a buffer's: no other module is looked at."""
    places: dict = {}
    for name in names:
        path, _, key = name.rpartition(".")
        owner = module.get_submodule(path)
        for table in (owner._parameters, owner._buffers):
            if table.get(key) is not None:
                places[name] = (table, key)
    return places


def _tie(values, places) -> None:
    """Give each name of a tensor that has several the value that one of them is given."""
    groups: dict = {}
    for name, (table, key) in places.items():
        groups.setdefault(id(table[key]), []).append(name)
    for group in groups.values():
        given = [values[name] for name in group if name in values]
        if len({id(value) for value in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(group)}, which are tied. Consider using "
                "tie_weights=False"
            )
        if given:
            values.update(dict.fromkeys(group, given[0]))


def _unregistered(module, values, places) -> dict:
    """Find the other names: return parametrized tensors, and add to `places` attributes, which may be new ones.

    A parametrized tensor is replaced as a whole, and what it is computed from isn't asked for.
    """
    kept = {}
    for name, value in values.items():
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{value} is not an instance of torch.Tensor; functional_call puts it in place of {name}")
        if name in places:
            continue
        path, _, key = name.rpartition(".")
        owner = module.get_submodule(path)
        if parametrize.is_parametrized(owner, key):
            kept[owner.parametrizations[key]] = value
            continue
        old = getattr(owner, key, None)
        if old is not None and not isinstance(old, Tensor):
            raise TypeError(f"attribute `{key}`: {old} is not an instance of torch.Tensor, which could be replaced")
        known = [table for table in (owner._parameters, owner._buffers) if key in table]
        places[name] = (*known, owner._parameters if isinstance(value, Parameter) else vars(owner))[0], key
    return kept


def _restoring(places) -> BytesIO:
    """Return a context at whose end dicts are at keys as they were; as that of a mode it needs no Python code.

    What a `with` block closes is a file: it calls `close`, here a C function that calls others for each dict. See
    `regions`.
    """
    old = [(table, {key: table[key]}) for table, key in places if key in table]
    new = [place for place in places if place[1] not in place[0]]
    context = BytesIO()
    gone = itertools.starmap(dict.pop, [(table, key, None) for table, key in new])
    context.close = partial(deque, itertools.chain(itertools.starmap(dict.update, old), gone), 0)
    return context


def _joined(given) -> dict:
    if isinstance(given, dict):
        return dict(given)
    if not isinstance(given, (list, tuple)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
    if not all(isinstance(part, dict) for part in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    joined: dict = {}
    for part in given:
        twice = [name for name in part if name in joined]
        if twice:
            raise ValueError(f"{twice} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        joined.update(part)
    return joined


def _check_names(module, values, places) -> None:
    lines = []
    for what, names in (("Unexpected", set(values) - set(places)), ("Missing", set(places) - set(values))):
        if names:
            lines.append(f"{what} key(s): {', '.join(map(repr, sorted(names)))}.")
    if lines:
        text = "\n\t".join(lines)
        raise RuntimeError(f"Error(s) in reparametrizing for {type(module).__name__}:\n\t{text}")


def stack_module_state(models):
    """Return the parameters and the buffers of equal modules, stacked by name.

    For vmap over an ensemble. Raises RuntimeError for no models, and for models of several classes, modes or settings
    of requires_grad.
    """
    models = check_alike("stack_module_state", models)
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    for name, parameter in parameters[0].items():
        if any(each[name].requires_grad is not parameter.requires_grad for each in parameters):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    stacked = {
        name: plugrad.stack([each[name].detach() for each in parameters]).requires_grad_(
            parameters[0][name].requires_grad
        )
        for name in parameters[0]
    }
    return stacked, {name: plugrad.stack([each[name] for each in buffers]) for name in buffers[0]}


def check_alike(what, models) -> list:
    """Return the models as a list; raise RuntimeError if there are none, or if their classes or modes differ."""
    models = list(models)
    if not models:
        raise RuntimeError(f"{what}: Expected at least one model, got 0.")
    for model in models:
        if not isinstance(model, plugrad.nn.Module):
            raise TypeError(f"{what}: models must be modules, not {type(model).__name__}")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{what}: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{what}: Expected all models to be of the same class.")
    return models
