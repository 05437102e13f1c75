"""The dry run: what the lazy layers of a model will be called with, found out on a copy of it that has no data."""

from __future__ import annotations

import contextlib
import copy
import io
import itertools
import random
import threading
import warnings
import weakref

import numpy

import plugrad
from plugrad import Tensor, nest
from plugrad.extend.blocks import Restoring
from plugrad.interrupts import process_lock
from plugrad.nn import Module, Parameter
from plugrad.nn.lazy.uninitialized import UninitializedTensorMixin, is_lazy

pending: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # lazy modules that wait -> the order of their making
_order = itertools.count()
_lock = process_lock()
_watch = None  # the hook of all modules that sees the first call of a model; there is one while modules wait
_trial = threading.local()
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class _NotPossible(Exception):
    """A model can't be run without data."""


def expect(module, order=None) -> None:
    """Note that a lazy module waits for its first call."""
    global _watch
    with _lock:
        pending[module] = next(_order) if order is None else order
        weakref.finalize(module, forget, None).atexit = False
        if _watch is None:
            _watch = Module._all_modules.register_forward_pre_hook(_before_call, with_kwargs=True)


def forget(module) -> None:
    """Note that a lazy module has its parameters, or is gone: with the last one the hook of all modules goes."""
    global _watch
    with _lock:
        if module is not None:
            pending.pop(module, None)
        if _watch is not None and not list(pending):  # of which the last may be about to go
            _watch.remove()
            _watch = None


def _before_call(module, args, kwargs):
    """Initialise the lazy modules of a model before its first call, where there are several and it can be done."""
    if getattr(_trial, "running", False):
        raise _NotPossible(f"the model calls a {type(module).__name__} that a copy of the model does not hold")
    waiting = [one for one in module.modules() if one in pending]
    if len(waiting) > 1:
        with _lock, contextlib.suppress(_NotPossible):
            _initialize(_inputs(module, waiting, args, kwargs))


def materialize(model: Module, *args, **kwargs) -> Module:
    """Initialise the lazy layers of a model without running it; return it.

    Args:
        model: the model; what it holds is not changed otherwise, and no random number is drawn but for its parameters.
        args, kwargs: what it will be called with. Only shapes, dtypes and structure count: tensors may be on any
            device, "meta" too, and a tuple of sizes stands for a float tensor of that shape.

    Raises RuntimeError when the model can't run on tensors without data; call it once on real ones then.

    >>> import plugrad as torch
    >>> model = torch.nn.Sequential(torch.nn.LazyLinear(4), torch.nn.ReLU(), torch.nn.LazyLinear(2))
    >>> torch.nn.lazy.materialize(model, (8, 3))
    Sequential(
      (0): Linear(in_features=3, out_features=4, bias=True)
      (1): ReLU()
      (2): Linear(in_features=4, out_features=2, bias=True)
    )
    """
    args = [plugrad.empty(arg, device="meta") if _is_shape(arg) else arg for arg in args]
    waiting = [one for one in model.modules() if one in pending]
    with _lock:
        try:
            _initialize(_inputs(model, waiting, args, kwargs))
        except _NotPossible as error:
            raise RuntimeError(
                f"the lazy layers of this {type(model).__name__} can't be initialised without running it on data: "
                f"{error}; call it once on a batch instead"
            ) from error.__cause__
        left = [type(one).__name__ for one in waiting if one in pending]
    if left:
        raise RuntimeError(f"these layers need data, or were not called: {', '.join(left)}; call the model on a batch")
    return model


def _is_shape(arg) -> bool:
    return isinstance(arg, (tuple, list)) and bool(arg) and all(type(size) is int for size in arg)


# ---------------------------------------------------------------------------------------------------- on the copy


def _inputs(model, waiting, args, kwargs) -> dict:
    """Return {lazy module: (args, kwargs)} as they will be called, found on a copy of the model without data."""
    _check_hooks(model, waiting)
    calls: dict = {}
    memo: dict = {}
    with _WithoutTrace():
        try:
            memo = _tensors_without_data(model)
            shadow = copy.deepcopy(model, memo)
            for one in shadow.modules():
                for name in _HOOKS:
                    vars(one).get(name, {}).clear()
                one.__dict__["_all_modules"] = _no_hooks
            for one in waiting:
                memo[id(one)].register_forward_pre_hook(_recorder(one, calls), with_kwargs=True)
            args, kwargs = nest.change(lambda leaf: _without_data(leaf, memo), (tuple(args), kwargs))
            shadow(*args, **kwargs)
        except Exception as error:
            raise _NotPossible(f"{type(error).__name__}: {error}") from error
        finally:
            for one in waiting:
                forget(memo.get(id(one)))
    return calls


def _check_hooks(model, waiting) -> None:
    """Raise _NotPossible if there are hooks that may change what a module is called with or returns."""
    for one in (Module._all_modules, *model.modules()):
        for name in _HOOKS:
            own = name == "_forward_pre_hooks" and (one in waiting or one is Module._all_modules)
            if len(vars(one).get(name, ())) > own:
                raise _NotPossible("there are hooks, which a dry run must not call")


class _NoHooks(type(Module._all_modules)):
    """Stands for the hooks of all modules in a copy, and has none."""

    def _has_any_hooks(self):
        return Module._all_modules._has_any_hooks()


_no_hooks = _NoHooks()


def _tensors_without_data(model) -> dict:
    """Return {id: copy without data} of all tensors in a model, which deepcopy takes for copied already."""
    memo: dict = {}
    for module in model.modules():
        for value in (*module._parameters.values(), *module._buffers.values(), *module.__dict__.values()):
            if isinstance(value, Tensor) and id(value) not in memo:
                memo[id(value)] = _without_data(value, memo)
    return memo


def _without_data(value, memo):
    """Return a tensor on the device "meta" like a tensor, and a copy of anything else."""
    if is_lazy(value):
        return type(value)(requires_grad=value.requires_grad, device="meta", dtype=value.dtype)
    if not isinstance(value, Tensor):
        return copy.deepcopy(value, memo)
    like = value.detach().to("meta")
    return Parameter(like, value.requires_grad) if isinstance(value, Parameter) else like


class _WithoutTrace(Restoring):
    """Keep the state of random generators, and what is printed and warned of: the real call says it again."""

    def begin(self):
        self.ours, self.pythons, self.numpys = plugrad.get_rng_state(), random.getstate(), numpy.random.get_state()
        self.quiet = contextlib.ExitStack()
        self.quiet.enter_context(warnings.catch_warnings())
        self.quiet.enter_context(contextlib.redirect_stdout(io.StringIO()))
        warnings.simplefilter("ignore")
        _trial.running = True

    def end(self):
        _trial.running = False
        self.quiet.close()
        plugrad.set_rng_state(self.ours)
        random.setstate(self.pythons)
        numpy.random.set_state(self.numpys)


def _recorder(module, calls):
    def record(shadow, args, kwargs):
        calls.setdefault(module, (args, kwargs))
        shadow.initialize_parameters(*args, **kwargs)

    return record


# ------------------------------------------------------------------------------------------------ on the model itself


def _initialize(calls) -> None:
    """Initialise lazy modules for what they will be called with, in the order in which they were made.

    One that asks for values is left as it was: its turn comes when it is called.
    """
    for module in sorted(calls, key=pending.__getitem__):
        before, state = _Before(module), plugrad.get_rng_state()
        try:
            args, kwargs = calls[module]
            module._infer_parameters(module, args, kwargs)
            complete = not any(value.is_meta for value in _tensors(module)) or before.is_meta
        except Exception:
            complete = False
        if not complete:
            before.restore()
            plugrad.set_rng_state(state)


def _tensors(module) -> list:
    values = (*module._parameters.values(), *module._buffers.values(), *vars(module).values())
    return [value for value in values if isinstance(value, Tensor)]


class _Before:
    """What initialising may change in a lazy module, to be put back."""

    def __init__(self, module):
        self.module, self.kind, self.order = module, type(module), pending[module]
        self.attributes = dict(vars(module))
        self.tables = [(table, dict(table)) for table in self.attributes.values() if isinstance(table, dict)]
        lazy = [value for value in _tensors(module) if is_lazy(value)]
        self.lazy = [(value, type(value), value.data, value._type) for value in lazy]
        self.is_meta = any(value.is_meta for value in _tensors(module))

    def restore(self) -> None:
        self.module.__class__ = self.kind
        vars(self.module).clear()
        vars(self.module).update(self.attributes)
        for table, entries in self.tables:
            table.clear()
            table.update(entries)
        for value, kind, data, ttype in self.lazy:
            UninitializedTensorMixin._become(value, kind, data)
            value._type = ttype
        expect(self.module, self.order)
