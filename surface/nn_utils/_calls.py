"""Modules called with other parameters than their own."""

from __future__ import annotations

from collections import deque
from functools import partial
from io import BytesIO

import plugrad
from plugrad import Tensor
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

    Raises ValueError when a name is in several dicts or names of one tensor get several values, and RuntimeError for
    missing or unexpected names when `strict`.

    >>> import plugrad as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> torch.func.functional_call(layer, {"weight": torch.ones(1, 2)}, torch.ones(2))
    tensor([2.])
    """
    values = _joined(parameter_and_buffer_dicts)
    places: dict = {}  # name -> (table of a module, key in it)
    for prefix, owner in module.named_modules(remove_duplicate=False):
        for table in (owner._parameters, owner._buffers):
            for key, held in table.items():
                if held is not None:
                    places[f"{prefix}.{key}" if prefix else key] = (table, key)
    if strict:
        _check_names(module, values, places)
    if tie_weights:
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
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    kept = _unregistered(module, values, places)
    swapped = [(*places[name], value) for name, value in values.items() if name in places]
    with _restoring([table for table, _, _ in swapped], [{key: table[key]} for table, key, _ in swapped]):
        for table, key, value in swapped:
            table[key] = value
        with parametrize.keeping(kept):
            return module(*args, **(kwargs or {}))


def _unregistered(module, values, places) -> dict:
    """Find tensors that are neither parameters nor buffers: return parametrized ones, add plain attributes to `places`.

    A parametrized tensor is replaced as a whole, and what it is computed from isn't asked for.
    """
    kept = {}
    for name, value in values.items():
        path, _, key = name.rpartition(".")
        if name in places:
            continue
        try:
            owner = module.get_submodule(path)
        except AttributeError:
            continue
        if parametrize.is_parametrized(owner, key):
            kept[owner.parametrizations[key]] = value
        elif isinstance(vars(owner).get(key), Tensor):
            places[name] = (vars(owner), key)
    return kept


def _restoring(tables, entries) -> BytesIO:
    """Return a context at whose end dicts get entries back; as that of a mode it needs no Python code: see `regions`.

    What a `with` block closes is a file: it calls `close`, here a C function that calls another for each dict.
    """
    context = BytesIO()
    context.close = partial(deque, map(dict.update, tables, entries), 0)
    return context


def _joined(given) -> dict:
    if isinstance(given, dict):
        return dict(given)
    if not isinstance(given, (list, tuple)):
        raise ValueError(
            f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
        )
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
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{what}: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{what}: Expected all models to be of the same class.")
    return models
