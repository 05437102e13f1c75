"""The base of every optimizer: parameter groups, state, checkpoints and hooks.

An algorithm is a class with one method, `update`, that handles one parameter on raw arrays. Everything else
is here, except how updates are batched over the parameters, which `plugrad.optim.batching` does beside the core.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy

from plugrad.errors import flag
from plugrad.graph import rare
from plugrad.graph.modes import enable_grad
from plugrad.interrupts import held_back
from plugrad.optim.hooks import (
    Hooked,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
    with_hooks,
)
from plugrad.registry.namespaces import lazy_methods, lazy_names
from plugrad.tensor.tensor import Tensor, from_raw

__getattr__, _ = lazy_names(globals(), None)
__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()  # a default that every parameter group has to replace
_NUMBERS = {int, float, bool, type(None)}  # types of options that are read as they are
_WORDS = {"lr": "learning rate", "eps": "epsilon value"}  # what an error calls a hyper-parameter


class Optimizer(Hooked):
    """Base class of all optimizers.

    `params` is an iterable of tensors, of `(name, tensor)` pairs or of dicts, each dict a parameter group
    with a `"params"` entry and options of its own; `defaults` holds the options that a group leaves out.

    An algorithm is written by giving `update`, which handles one parameter on raw arrays; it names its state
    in `slots`. A class that overrides `step` instead and works on tensors, as in PyTorch, runs just as well.

    >>> import plugrad as torch
    >>> class SignSGD(torch.optim.Optimizer):
    ...     elementwise = True
    ...     def __init__(self, params, lr=0.5):
    ...         super().__init__(params, dict(lr=lr))
    ...     def update(self, xp, p, g, state, group):
    ...         p -= group["lr"] * xp.sign(g)
    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> SignSGD([w]).step()
    >>> w.detach()
    tensor([0.5000, 1.5000])
    """

    elementwise = False
    """Whether `update` treats each element on its own. It is then called on flat blocks: parts of a large
    parameter, or many small parameters joined to one, which is what makes a step fast."""
    state_version: int | None = None  # of a class with migrations: which layout its state_dict() has
    migrations: dict = {}  # {version: f(state_dict) -> that of the next version}; what says no version has 1

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = with_hooks(cls.step)

    def __init__(self, params: Iterable, defaults: dict):
        self.defaults = defaults
        self._make_tables()
        if isinstance(params, Tensor) or not (hasattr(params, "__iter__") or hasattr(params, "__getitem__")):
            rare.refuse_params(params)
        if defaults.get("fused") and defaults.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        self.state, self.param_groups = defaultdict(dict), []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _make_tables(self):
        from plugrad.optim.batching import stepper

        self._scratch, self._joined, self._take_step = {}, {}, stepper(self)
        self._complex = any([p.is_complex() for group in vars(self).get("param_groups", ()) for p in group["params"]])

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make_tables()

    def __repr__(self):
        lines = [type(self).__name__ + " ("]
        for index, group in enumerate(self.param_groups):
            lines += [""] * (index > 0) + [f"Parameter Group {index}"]
            lines.extend(f"    {key}: {group[key]}" for key in sorted(group) if key != "params")
        return "\n".join([*lines, ")"])

    # ---- what an algorithm gives

    def slots(self, group: dict) -> dict:
        """Name the state that one parameter needs under the options of `group`.

        A number is the first value of a scalar, which `advance` moves on; a function `(xp, p) -> array`, such
        as `Optimizer.zeros` or `Optimizer.full(value)`, makes an array. The names are those of the state
        dict.
        """
        return {}

    def advance(self, state: dict, group: dict):
        """Move the scalars in `state` on, once for each parameter, before its updates.

        As it stands it adds 1 to `state["step"]` if there is one. What is added under other names is seen by
        `update` and then forgotten; that is the place for coefficients. `state["fresh"]` says whether this is
        the first step of the parameter.
        """
        if "step" in state:
            state["step"] += 1

    def update(self, xp, p, g, state: dict, group: dict):
        """Change the raw array `p` in place, by its gradient `g`.

        `xp` is the array module (NumPy or CuPy), `state` holds the arrays named by `slots`, to be changed in
        place, and the scalars as `advance` left them; the numbers in `group` are plain floats. `g` is already
        negated where the group says `maximize`, and must not be changed: work in `self.scratch(xp, p)`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither `update` nor `step`; give it one of them")

    kernels = {}  # by backend: the `update` that it stands for, and the function

    @classmethod
    def kernel(cls, backend: str) -> Callable:
        """Give `update` in another form for one backend, in C say: a decorator.

        Its function takes `xp, p, g, state, group`, and returns NotImplemented, with nothing written, for what it does
        not serve. A class with another `update` does without it.
        """

        def give(function):
            cls.kernels = cls.kernels if function is None else {**cls.kernels, backend: (cls.update, function)}
            return function

        return give

    @staticmethod
    def zeros(xp, p):
        """Make a state array of zeros for the parameter `p`."""
        return xp.zeros_like(p)

    @staticmethod
    def full(value: float) -> Callable:
        """Return a maker of state arrays filled with `value`, complex in both parts."""
        return lambda xp, p: xp.full_like(p, complex(value, value) if p.dtype.kind == "c" else value)

    def scratch(self, xp, like, slot=0):
        """Return a reused, uninitialised array like `like`, one for each `slot`."""
        flat = self._buffer(xp, like, like.size, slot)
        return flat if like.ndim == 1 else flat.reshape(like.shape)

    def _buffer(self, xp, like, size, slot):
        key = (slot, like.dtype, str(like.device))  # CuPy's devices can't be keys
        buffer = self._scratch.get(key)
        if buffer is None or buffer.size < size:
            buffer = self._scratch[key] = xp.empty(size, like.dtype)
        return buffer if buffer.size == size else buffer[:size]

    @staticmethod
    def options(arguments: dict) -> dict:
        """Return the options among `locals()` of an `__init__` that takes them."""
        return {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}

    @staticmethod
    def nonnegative(**options):
        """Raise ValueError unless every option, a number or tensor of one, is at least 0."""
        for name, value in options.items():
            if isinstance(value, Tensor) and value.numel() != 1:
                raise ValueError(f"Tensor {name} must be 1-element")
            if not hasattr(value, "__float__"):
                raise TypeError(f"{name} must be a number, not {type(value).__name__}")
            if not 0.0 <= value:
                raise ValueError(f"Invalid {_WORDS.get(name, name + ' value')}: {value}; write {name} >= 0")

    @staticmethod
    def _plain(group):
        """The options of a group as `update` reads them: a tensor, such as a rate, becomes its number."""
        others = [*group.values()][1:]  # than "params"
        if _NUMBERS.issuperset(map(type, others)) and group.get("lr", 0) is not None:
            return group
        return rare.plain_options(group)

    @staticmethod
    def _make_slot(p, initial, value=None):
        """Make one kind of state for the parameter `p`: an array, or a scalar that may have a `value` already."""
        if callable(initial):
            return from_raw(rare.slot(p, initial))
        # A plain number is how old checkpoints hold a step.
        return from_raw(numpy.array(initial if value is None else value, numpy.float32))

    @staticmethod
    def _check_record(cls) -> None:
        if cls.update is Optimizer.update and cls.step is Optimizer.step:
            raise TypeError(f"optimizer {cls.__name__!r} has neither `update(xp, p, g, state, group)` nor `step`")

    # ---- stepping

    @with_hooks
    def step(self, closure: Callable | None = None):
        """Update every parameter that has a gradient.

        `closure`, if given, is called first with gradients enabled; it evaluates the model again, and its
        result, the loss, is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with held_back():
            self._take_step(self)
        return loss

    def zero_grad(self, set_to_none: bool = True):
        """Drop the gradients of all parameters, or zero them if not `set_to_none`."""
        for group in self.param_groups:
            for p in group["params"]:
                p._drop_grad(set_to_none)

    # ---- parameter groups

    def add_param_group(self, param_group: dict):
        """Add a group, a dict with `"params"` and options that replace the defaults.

        Raises TypeError for anything that is not a tensor or has no order, and ValueError for a tensor that is not a
        leaf, is already optimized, lacks a name that the others have, or lacks a required option.
        """
        if not isinstance(param_group, dict) or "params" not in param_group:
            rare.refuse_group(param_group)
        names, params = _split_names(param_group["params"])
        for p in params:
            self._check_param(p)
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if flag("differentiable", param_group.get("differentiable", False)) | bool(param_group.get("fused")):
            rare.check_fused(param_group)
        if len(set(params)) != len(params):
            rare.warn_of_duplicates()
        for group in self.param_groups:
            if ("param_names" in group) != bool(names):
                rare.refuse_names(names)
            if not set(group["params"]).isdisjoint(params):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def _check_param(self, p):
        if not isinstance(p, Tensor) or not (p.is_leaf or p.retains_grad or self.defaults.get("differentiable")):
            rare.refuse_param(p)
        if p.is_complex() and not self.elementwise and type(self).step is Optimizer.step:
            rare.refuse_complex(self)
        self._complex = self._complex or p.is_complex()


def _split_names(params):
    """Split `params`, one tensor or an ordered iterable of tensors or `(name, tensor)` pairs."""
    if isinstance(params, Tensor):
        return [], [params]
    if isinstance(params, (set, frozenset)):
        rare.refuse_set()
    params = list(params)
    names = [item[0] for item in params if isinstance(item, tuple)]
    if names and len(names) != len(params):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return names, [item[1] if isinstance(item, tuple) else item for item in params]


lazy_methods(Optimizer, {"optim.checkpoints": "fill_state load_state_dict state_dict"})
