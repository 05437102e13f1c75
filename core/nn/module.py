"""Module: a callable that knows its parameters, buffers and submodules."""

from __future__ import annotations

import sys
from typing import TypeVar
from weakref import WeakSet

from plugrad.interrupts import held_back
from plugrad.nn.conversion import Conversion
from plugrad.nn.module_hooks import HookedCall, WithTables
from plugrad.nn.parameter import Buffer, Parameter
from plugrad.nn.state import StateDict, _IncompatibleKeys
from plugrad.nn.tables import Table, room, typename
from plugrad.nn.tables import addindent as _addindent
from plugrad.registry.namespaces import lazy_methods, lazy_names
from plugrad.tensor.tensor import Tensor

__all__ = ["Module", "_IncompatibleKeys"]

__getattr__, __dir__ = lazy_names(globals(), None, {
    "nn.global_hooks": "register_module_backward_hook register_module_buffer_registration_hook "
    "register_module_forward_hook register_module_forward_pre_hook register_module_full_backward_hook "
    "register_module_full_backward_pre_hook register_module_module_registration_hook "
    "register_module_parameter_registration_hook",
})  # fmt: skip

_looked_at: WeakSet = WeakSet()  # modules whose plain lists were searched for parameters

T_destination = TypeVar("T_destination", bound=dict)


class Module(HookedCall, StateDict, Conversion):
    """Base class of all layers, losses and networks.

    A subclass defines ``forward``. Parameters, buffers and modules assigned as attributes are registered:
    they appear in ``parameters()``, in ``state_dict()`` and in the repr, and move with ``to()``.

    >>> import plugrad as torch
    >>> class Scale(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = torch.nn.Parameter(torch.tensor(3.0))
    ...     def forward(self, input):
    ...         return input * self.factor
    >>> scale = Scale()
    >>> scale(torch.tensor(2.0)).item()
    6.0
    >>> [name for name, _ in scale.named_parameters()]
    ['factor']
    """

    T_destination = T_destination
    call_super_init = False
    dump_patches = False
    training: bool = True
    _parameters = Table(dict)
    _buffers = Table(dict)
    _non_persistent_buffers_set = Table(set)
    _modules = Table(dict)

    def __init__(self, *args, **kwargs):
        # Tables that are there before the first __init__ hold what a subclass assigned early: they stay.
        state = self.__dict__
        again = "training" in state
        state["training"] = True
        for name, make in (
            ("_parameters", dict),
            ("_buffers", dict),
            ("_non_persistent_buffers_set", set),
            ("_modules", dict),
        ):
            if again or name not in state:
                state[name] = make()
        if self.call_super_init:
            super().__init__(*args, **kwargs)
        elif kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'"
            )
        elif args:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given"
            )

    # Attributes

    def __getattr__(self, name):
        # Runs only when ordinary lookup has failed. Written out: a loop would make it a fifth slower.
        table = self._parameters
        if name in table:
            return table[name]
        table = self._modules
        if name in table:
            return table[name]
        table = self._buffers
        if name in table:
            return table[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        if (
            isinstance(value, (Tensor, Module))
            or name in self._parameters
            or name in self._modules
            or name in self._buffers
        ):
            self._set_registered(name, value)
        else:
            super().__setattr__(name, value)

    def _set_registered(self, name, value):
        """Assign what is, or replaces, a parameter, a buffer or a submodule."""
        if isinstance(value, Parameter):
            self._forget(name, self.__dict__, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif name in self._parameters:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Module):
            self._forget(name, self.__dict__, self._parameters, self._buffers)
            self._put_module(name, value)
        elif name in self._modules:
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            self._put_module(name, None)
        elif isinstance(value, Buffer) or name in self._buffers:
            if not (value is None or isinstance(value, Tensor)):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}'"
                    " (torch.nn.Buffer, torch.Tensor or None expected)"
                )
            kept = name not in self._non_persistent_buffers_set
            # Spelled out only when it is False: older subclasses define register_buffer(name, tensor).
            persistent = value.persistent if isinstance(value, Buffer) else kept
            self.register_buffer(name, value, **({} if persistent else {"persistent": False}))
        else:
            super().__setattr__(name, value)

    def _forget(self, name, *tables):
        for table in tables:
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name):
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def __dir__(self):
        names = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(name for name in names if not name[0].isdigit())

    def __getstate__(self):
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)

    # Registration

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make ``param`` the parameter ``name``; None only keeps the place.

        Raises KeyError for a name that is taken, empty or has a dot, TypeError for anything but a Parameter,
        and ValueError for one that was computed from other tensors.
        """
        self._check_name("parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}'"
                    " (torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created"
                    f" explicitly: to express '{name}' through another Tensor, compute it in forward()."
                )
            param = self._registered("parameter", name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make ``tensor`` the buffer ``name``: saved and moved, but not learned.

        Args:
            name: the attribute.
            tensor: its value; None keeps the place.
            persistent: whether it is part of ``state_dict()``.

        Raises KeyError for a name that is taken, empty or has a dot, and TypeError for anything but a tensor.
        """
        self._check_name("buffer", name, self._buffers)
        if not (tensor is None or isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)"
            )
        self._buffers[name] = self._registered("buffer", name, tensor)
        hidden = self._non_persistent_buffers_set
        (hidden.discard if persistent else hidden.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Make ``module`` the submodule ``name``.

        Raises TypeError for anything but a Module, and KeyError for a name that is taken, empty or has a dot.
        """
        if not (module is None or isinstance(module, Module)):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._put_module(name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of add_module."""
        self.add_module(name, module)

    def _put_module(self, name, module):
        self._modules[name] = self._registered("module", name, module)

    def _check_name(self, kind, name, table):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def _registered(self, kind, name, value):
        """Return what is registered: the value, or what a hook of all modules gives in its place."""
        for hook in self._all_modules._registration_hooks[kind].values():
            replaced = hook(self, name, value)
            value = value if replaced is None else replaced
        return value

    # Traversal

    def named_modules(self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True):
        """Yield ``(dotted name, module)`` for this module and all below it, parents first.

        Args:
            memo: modules to leave out; those yielded are added.
            prefix: put before every name.
            remove_duplicate: yield a module that is in several places once.

        >>> import plugrad as torch
        >>> shared = torch.nn.ModuleList()
        >>> [name for name, _ in torch.nn.Sequential(shared, shared).named_modules()]
        ['', '0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True):
        """Yield this module and all below it; see named_modules."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self):
        """Yield ``(name, module)`` for the direct submodules, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self):
        """Yield the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        """Yield ``(dotted name, parameter)``, each parameter once.

        Args:
            prefix: put before every name.
            recurse: go into submodules too.
            remove_duplicate: yield a parameter that is in several places once.

        Warns of parameters that plain lists of the module hold, where nobody finds them.
        """
        if self not in _looked_at:
            _looked_at.add(self)
            room("nn.mistakes.lost").look(self)
        yield from self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True):
        """Yield the parameters, each once: what an optimizer takes.

        >>> import plugrad as torch
        >>> sum(p.numel() for p in torch.nn.ParameterList([torch.zeros(2), torch.zeros(3, 4)]).parameters())
        14
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        """Yield ``(dotted name, buffer)``; the arguments are those of named_parameters."""
        yield from self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True):
        """Yield the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def apply(self, fn):
        """Call ``fn`` on every submodule, children first, and on this module; return it."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Modes

    def train(self, mode: bool = True):
        """Put this module and all below it into training mode, or out of it; return it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        with held_back():
            self.training = mode
            for module in self.children():
                module.train(mode)
        return self

    def eval(self):
        """Put this module and all below it into evaluation mode; return it."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True):
        """Set whether the parameters collect gradients; return the module."""
        with held_back():
            for parameter in self.parameters():
                parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or fill them with zeros if ``set_to_none`` is False."""
        for parameter in self.parameters():
            parameter._drop_grad(set_to_none)

    # Printing

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what the repr shows between the parentheses, such as options."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if len(lines) == 1 and not children:
            return f"{self._get_name()}({extra})"
        lines += children
        body = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({body})"


sys.modules[__name__].__class__ = WithTables
lazy_methods(Module, {
    "nn.paths": "get_buffer get_parameter get_submodule set_submodule", "nn.mistakes.unfilled": "to_empty",
})  # fmt: skip
