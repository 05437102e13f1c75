"""What the package `functorch` had before `torch.func`: modules as functions of their parameters, and names that warn.

Programs that import torch reach these as `functorch.NAME`.
"""

from __future__ import annotations

import copy
import functools
import warnings

import plugrad
from plugrad import func, nn
from plugrad.arguments import is_int
from plugrad.func import batching
from plugrad.nn.utils import _calls

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers",
    "vjp", "vmap",
]  # fmt: skip


def _deprecated(function, instead=None):
    """Return the function with a warning that names what replaced it."""
    name = function.__name__
    instead = instead or f"torch.func.{name}"
    text = f"functorch.{name} is deprecated and stands here for older programs. Please use `{instead}` instead"

    @functools.wraps(function)
    def warned(*args, **kwargs):
        warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    return warned


def chunk_vmap(func, in_dims=0, out_dims=0, randomness="error", chunks=2):
    """Return `vmap(func, ...)`, which needs memory for one slice at a time; `chunks`, an integer, changes nothing."""
    if not is_int(chunks) or chunks < 1:
        raise RuntimeError(f"chunk_vmap(): argument 'chunks' must be a positive integer, not {chunks!r}")
    return batching.vmap(func, in_dims, out_dims, randomness)


class FunctionalModuleWithBuffers(nn.Module):
    """A module without state of its own, called with parameters and buffers: `f(params, buffers, *args, **kwargs)`.

    Attributes:
        stateless_model: the module, its parameters and buffers on the device "meta".
        param_names, buffer_names: the names of what it is called with, in order.
        all_names_map: all names of each parameter and buffer, by that name.
    """

    def __init__(self, stateless_model, param_names, buffer_names, param_names_map, buffer_names_map):
        super().__init__()
        self.stateless_model, self.param_names, self.buffer_names = stateless_model, param_names, buffer_names
        self.all_names_map = {**param_names_map, **buffer_names_map}

    def forward(self, params, buffers, *args, **kwargs):
        """Return what the module computes with these parameters and buffers; raise RuntimeError for a wrong number."""
        state = {
            **_by_name("parameters", self.param_names, self.all_names_map, params),
            **_by_name("buffers", self.buffer_names, self.all_names_map, buffers),
        }
        return func.functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(nn.Module):
    """A module without parameters of its own, called with them first: `f(params, *args, **kwargs)`.

    Attributes:
        stateless_model: the module, its parameters on the device "meta".
        param_names: the names of the parameters that it is called with, in order.
        names_map: all names of each parameter, by that name.
    """

    def __init__(self, stateless_model, param_names, names_map):
        super().__init__()
        self.stateless_model, self.param_names, self.names_map = stateless_model, param_names, names_map

    def forward(self, params, *args, **kwargs):
        """Return what the module computes with these parameters; raise RuntimeError for a wrong number of them."""
        state = _by_name("parameters", self.param_names, self.names_map, params)
        return func.functional_call(self.stateless_model, state, args, kwargs)


def _by_name(what, names, names_map, tensors) -> dict:
    tensors = tuple(tensors)
    if len(tensors) != len(names):
        raise RuntimeError(f"the module has {len(names)} {what}, got {len(tensors)}; expected one for each of {names}")
    return {alias: tensor for name, tensor in zip(names, tensors, strict=True) for alias in names_map[name]}


def _named(named):
    """Return tensors by their first name, and all names of each by that name."""
    tensors, names_map, first = {}, {}, {}
    for name, tensor in named(remove_duplicate=False):
        known = first.setdefault(tensor, name)
        tensors[known] = tensor
        names_map.setdefault(known, []).append(name)
    return tensors, names_map


def _taken_apart(model, disable_autograd_tracking):
    """Return the module without state, and for its parameters and its buffers copies by name and all their names."""
    state = copy.deepcopy(model)
    params, buffers = _named(state.named_parameters), _named(state.named_buffers)
    if disable_autograd_tracking:
        for param in params[0].values():
            param.requires_grad_(False)
    return copy.deepcopy(model).to("meta"), params, buffers


def make_functional(model, disable_autograd_tracking=False):
    """Return a module as a function of its parameters, and copies of them.

    Args:
        model: a module without buffers; it is not changed.
        disable_autograd_tracking: the copies do not require grad.

    Returns (f, params): `f(params, *args, **kwargs)` is `model(*args, **kwargs)` with the parameters `params`, a tuple.
    A parameter with several names is there once. Raises RuntimeError for a module with buffers.

    >>> import plugrad as torch
    >>> from plugrad.func.older import make_functional
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     f, params = make_functional(torch.nn.Linear(2, 1, bias=False))
    >>> f([torch.ones(1, 2)], torch.ones(2))
    tensor([2.])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    stateless, (params, names_map), _ = _taken_apart(model, disable_autograd_tracking)
    return FunctionalModule(stateless, tuple(params), names_map), tuple(params.values())


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """Return a module as a function of its parameters and buffers, and copies of these.

    Args:
        model: a module; it is not changed.
        disable_autograd_tracking: the copies do not require grad.

    Returns (f, params, buffers): `f(params, buffers, *args, **kwargs)` is `model(*args, **kwargs)` with these two
    tuples of tensors; what the module writes in place is written to `buffers`.
    """
    stateless, (params, param_names), (buffers, buffer_names) = _taken_apart(model, disable_autograd_tracking)
    function = FunctionalModuleWithBuffers(stateless, tuple(params), tuple(buffers), param_names, buffer_names)
    return function, tuple(params.values()), tuple(buffers.values())


def combine_state_for_ensemble(models):
    """Return one function for several modules of one class, and their parameters and buffers, stacked.

    Args:
        models: modules in the same mode, training or evaluation, that differ only in the values of their state.

    Returns (f, params, buffers): to run all, `vmap(f, (0, 0, None))(params, buffers, input)`. The stacked tensors do
    not require grad. Raises RuntimeError for no models, and for models of several classes or modes.
    """
    models = _calls.check_alike("combine_state_for_ensemble", models)
    functions, params, buffers = zip(*map(make_functional_with_buffers.__wrapped__, models), strict=True)
    return functions[0], _stacked(params), _stacked(buffers)


def _stacked(states) -> tuple:
    return tuple(plugrad.stack(one).detach() for one in zip(*states, strict=True))


make_functional = _deprecated(make_functional, "torch.func.functional_call")
make_functional_with_buffers = _deprecated(make_functional_with_buffers, "torch.func.functional_call")
combine_state_for_ensemble = _deprecated(combine_state_for_ensemble, "torch.func.stack_module_state")
vmap = _deprecated(func.vmap, "torch.vmap")
functionalize, grad, grad_and_value = map(_deprecated, (func.functionalize, func.grad, func.grad_and_value))
hessian, jacfwd, jacrev = map(_deprecated, (func.hessian, func.jacfwd, func.jacrev))
jvp, vjp = map(_deprecated, (func.jvp, func.vjp))
