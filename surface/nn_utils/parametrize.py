"""Tensors of a module that are computed from others each time they are used."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import ContextDecorator, nullcontext

from plugrad import Tensor, no_grad
from plugrad.extend import held_back
from plugrad.nn import Module, ModuleDict, ModuleList, Parameter
from plugrad.regions import Region, declare, mode, region

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

declare("parametrized", None)  # {ParametrizationList: its tensor}, while this thread keeps them


class cached(Region, ContextDecorator):
    """Compute each parametrized tensor once while this is on.

    It is kept from its first use to the end of the outermost `with` block: worth it where a weight is used several
    times in a forward pass, as in the loop over a sequence.

    >>> import plugrad as torch
    >>> from plugrad.nn.utils import parametrize, parametrizations
    >>> layer = parametrizations.weight_norm(torch.nn.Linear(2, 2))
    >>> with parametrize.cached():
    ...     layer.weight is layer.weight
    True
    """

    __slots__ = ()

    def changes(self) -> dict:
        """Return the mode that the region has."""
        return {"parametrized": {} if mode.parametrized is None else mode.parametrized}


def keeping(tensors: dict):
    """Return a context with other tensors for parametrizations, {list: its tensor}."""
    return region(parametrized={**(mode.parametrized or {}), **tensors}) if tensors else nullcontext()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, in order, and what it is computed from.

    `register_parametrization` makes it: `module.parametrizations.weight` for `module.weight`.

    Args:
        modules: the parametrizations.
        original: the parameter or buffer as it is before. Where `right_inverse` of the last parametrization gives one
            tensor, or there is none, that is kept as `original`; several are kept as `original0`, `original1`...
        unsafe: the parametrizations may change dtype and shape, and nothing is checked.

    Raises ValueError when there are no modules, and when what the parametrizations give doesn't fit.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False):
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach()  # the original itself takes the inverse's values
        with no_grad():
            sources = original
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        sources = module.right_inverse(sources)
                    except NotImplementedError:
                        pass
        if not isinstance(sources, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(sources).__name__}"
            )
        self.is_tensor = isinstance(sources, Tensor)
        self.ntensors = 1 if self.is_tensor else len(sources)
        if self.is_tensor:
            for kind in ("dtype", "device"):
                if getattr(before, kind) != getattr(sources, kind):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {kind}.\n"
                        f"original.{kind}: {getattr(before, kind)}\n"
                        f"right_inverse(original).{kind}: {getattr(sources, kind)}"
                    )
            _fill(original, sources)
            _register(self, "original", original)
        else:
            self._hold(sources, original)
        if not self.unsafe:
            _check_result(self(), before, "unparametrized ", "parametrized ")

    def _hold(self, sources, original) -> None:
        for place, source in enumerate(sources):
            if not isinstance(source, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {place} of the sequence with type {type(source).__name__}."
                )
            if isinstance(original, Parameter):
                source = Parameter(source, original.requires_grad)
            source.requires_grad_(original.requires_grad)
            _register(self, f"original{place}", source)

    def right_inverse(self, value: Tensor) -> None:
        """Set what the tensor is computed from, so that it becomes `value`.

        Raises RuntimeError if a parametrization has no `right_inverse`, ValueError if what that returns doesn't fit.
        """
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement right_inverse. Give it one, "
                        "or set what the tensor is computed from"
                    )
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                self._take("original", value, "The tensor")
                return
            if not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. "
                    f"Got a sequence of length {len(value)}."
                )
            for place, tensor in enumerate(value):
                if not isinstance(tensor, Tensor):
                    raise ValueError(
                        "'right_inverse' must return a sequence of tensors. "
                        f"Got element {place} of type {type(tensor).__name__}."
                    )
                self._take(f"original{place}", tensor, f"Tensor {place}")

    def _take(self, name, value, what) -> None:
        original = getattr(self, name)
        if value.dtype != original.dtype:
            raise ValueError(
                f"{what} returned by `right_inverse` has dtype {value.dtype} while `{name}` has dtype {original.dtype}"
            )
        _fill(original, value)

    def forward(self):
        """Return the tensor."""
        first, *rest = self
        value = first(*[getattr(self, name) for name in self._names()])
        for module in rest:
            value = module(value)
        return value

    def _names(self) -> list:
        return ["original"] if self.is_tensor else [f"original{place}" for place in range(self.ntensors)]


def _register(module, name, tensor) -> None:
    (module.register_parameter if isinstance(tensor, Parameter) else module.register_buffer)(name, tensor)


def _check_result(result, before, was, becomes) -> None:
    """Raise ValueError unless a parametrization gives a tensor of the same dtype and shape."""
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for kind in ("dtype", "shape"):
        if getattr(result, kind) != getattr(before, kind):
            raise ValueError(
                f"Registering a parametrization may not change the {kind} of the tensor, unless the `unsafe` flag is "
                f"enabled.\n{was}{kind}: {getattr(before, kind)}\n{becomes}{kind}: {getattr(result, kind)}"
            )


def _check_inverse(parametrization, result, before, name) -> None:
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        inverse = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(inverse, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(inverse).__name__}")
    for kind in ("dtype", "shape"):
        if getattr(inverse, kind) != getattr(before, kind):
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {kind} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{kind}: {getattr(before, kind)}\nreturned {kind}: {getattr(inverse, kind)}"
            )


# The class of a module says which of its tensors are parametrized: each has a property there.


class _Parametrized:
    """What the class of a module gets in addition while tensors of it are parametrized."""

    def __getstate__(self):
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(): save module.state_dict(), "
            "and load it into a module that is parametrized in the same way"
        )

    def __deepcopy__(self, memo):
        base = type_before_parametrizations(self)
        if hasattr(base, "__deepcopy__"):
            return base.__deepcopy__(self, memo)
        replica = memo[id(self)] = type(self).__new__(type(self))
        replica.__setstate__(copy.deepcopy(base.__getstate__(self), memo))
        return replica


def _property(name):
    def get(self):
        parametrization, kept = self.parametrizations[name], mode.parametrized
        if kept is None:
            return parametrization()
        if parametrization not in kept:
            kept[parametrization] = parametrization()
        return kept[parametrization]

    def set(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(get, set)


def _change_class(module, base, names) -> None:
    """Give a module a class in which `names` are computed; a class of its own, since copies may go other ways."""
    members = {name: _Parametrized.__dict__[name] for name in ("__getstate__", "__deepcopy__")}
    members["__module__"] = base.__module__
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), members | {n: _property(n) for n in names})


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe=False) -> Module:
    """Compute a parameter or buffer of a module by another module, `parametrization`.

    From then on `module.weight` is `parametrization(module.parametrizations.weight.original)`, recorded for gradients.
    Several parametrizations of one tensor are applied in the order in which they are registered. The module is of
    a class `Parametrized...` that derives from its own.

    Args:
        module: the module.
        tensor_name: which of its parameters or buffers.
        parametrization: takes a tensor and returns one. With a method `right_inverse(tensor)` the tensor can be
            assigned to; that method also gives the first value of `original`. If it returns several tensors, these
            are kept as `original0`, `original1`..., and all given to the first parametrization.
        unsafe: dtype and shape may change, and nothing is checked.

    Returns the module. Raises ValueError if it has no such tensor, or if dtype or shape would change.

    New parameters have to be given to an optimizer that exists already: see `Optimizer.add_param_group`.

    >>> import plugrad as torch
    >>> class Symmetric(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = torch.nn.Linear(3, 3)
    >>> layer = torch.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all()), list(layer.state_dict())
    (True, ['bias', 'parametrizations.weight.original'])
    """
    if not isinstance(parametrization, Module):
        what = type(parametrization).__name__
        raise AttributeError(f"register_parametrization(): a parametrization is a Module, not {what}")
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            result = parametrization(before)
            _check_result(result, before, f"module.{tensor_name}.", f"parametrization(module.{tensor_name}).")
            _check_inverse(parametrization, result, before, tensor_name)
        chain = module.parametrizations[tensor_name]
        with held_back():
            chain.append(parametrization)
            chain.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        if not isinstance(original, Tensor):
            raise ValueError(f"cannot parametrize {tensor_name!r}: it is {original}; give the module a tensor there")
        before = original.detach()
        with held_back():
            try:
                chain = ParametrizationList([parametrization], original, unsafe=unsafe)
            except BaseException:
                _fill(original, before)  # which takes the values of right_inverse before they are checked
                raise
            delattr(module, tensor_name)
            if not is_parametrized(module):
                module.parametrizations = ModuleDict()
            base = type_before_parametrizations(module)
            module.parametrizations[tensor_name] = chain
            _change_class(module, base, module.parametrizations)
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a tensor of a module is parametrized; without a name, any one."""
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor a plain parameter or buffer again.

    Args:
        module: the module, which is returned.
        tensor_name: which of its tensors.
        leave_parametrized: it keeps the value that it has now; otherwise it gets that of `original`.

    Raises ValueError if it isn't parametrized, or if there are several originals to return to.

    >>> import plugrad as torch
    >>> from plugrad.nn.utils import parametrize, parametrizations
    >>> parametrize.remove_parametrizations(parametrizations.weight_norm(torch.nn.Linear(2, 3)), "weight")
    Linear(in_features=2, out_features=3, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    chain = module.parametrizations[tensor_name]
    if not (chain.is_tensor or leave_parametrized):
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    with no_grad() if chain.is_tensor else nullcontext():
        value = getattr(module, tensor_name) if leave_parametrized else None
    with held_back():
        if chain.is_tensor:
            original = chain.original
            if leave_parametrized:
                _fill(original, value)
        else:
            original = Parameter(value) if value.requires_grad else value
        base = type_before_parametrizations(module)
        del module.parametrizations[tensor_name]
        if len(module.parametrizations):
            _change_class(module, base, module.parametrizations)
        else:
            delattr(module, "parametrizations")
            module.__class__ = base
        _register(module, tensor_name, original)
    return module


def _fill(original, value) -> None:
    """Give a tensor the elements of another; a class that holds them itself is asked to."""
    with no_grad():
        original.set_(value)


def type_before_parametrizations(module: Module) -> type:
    """Return the class that a module had before tensors of it were parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name=None) -> Module:
    """Give a module the parametrizations of another and the originals of these.

    Args:
        from_module: what has them; nothing happens where it is not parametrized.
        to_module: what gets them, and parameters that it lacks; it is returned.
        tensor_name: one of the parametrized tensors; by default all.
    """
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        chain = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in chain:
            register_parametrization(to_module, name, parametrization)
        for original in chain._names():
            setattr(to_module.parametrizations[name], original, getattr(chain, original))
    return to_module
