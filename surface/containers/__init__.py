"""Modules that hold others, or parameters, as a list or a dictionary."""

from __future__ import annotations

import operator
import textwrap
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain

from plugrad import Tensor
from plugrad.nn import Module, Parameter

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


def _position(index, size: int) -> int:
    """Return ``index`` counted from the front; IndexError if it is out of range."""
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of range")
    return index % size


def _pairs(owner: str, items):
    """Yield the key/value pairs of ``items``, a mapping or an iterable of pairs."""
    if not isinstance(items, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got"
            f" {type(items).__name__}"
        )
    if isinstance(items, (Mapping, ModuleDict, ParameterDict)):
        yield from items.items()
        return
    for place, pair in enumerate(items):
        if not isinstance(pair, Iterable):
            raise TypeError(
                f"{owner} update sequence element #{place} should be Iterable; is {type(pair).__name__}"
            )
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(
                f"{owner} update sequence element #{place} has length {len(pair)}; 2 is required"
            )
        yield pair


class _Numbered(Module):
    """What Sequential and ModuleList share: submodules in order."""

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def _key(self, index) -> str:
        return list(self._modules)[_position(index, len(self))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index) -> None:
        for key in list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]:
            delattr(self, key)
        self._modules = {str(place): module for place, module in enumerate(self)}

    def append(self, module: Module):
        """Add a module behind the last; return the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]):
        """Add several modules behind the last; return the container."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, but got"
                f" {type(modules).__name__}"
            )
        for module in list(modules):  # a copy: the container may be extended by itself
            self.append(module)
        return self

    def pop(self, key):
        """Remove and return the module, or the slice, at ``key``."""
        module = self[key]
        del self[key]
        return module

    def _insert(self, index: int, module: Module) -> None:
        keys = range(len(self), index, -1)
        for place in keys:
            self._modules[str(place)] = self._modules[str(place - 1)]
        self._modules[str(index)] = module


class Sequential(_Numbered):
    """Modules called one after the other, each on the result of the one before.

    Args:
        args: the modules, or one ``OrderedDict`` of modules by name.

    >>> import plugrad as torch
    >>> torch.nn.Sequential(torch.nn.Sequential(), torch.nn.Sequential())
    Sequential(
      (0): Sequential()
      (1): Sequential()
    )
    """

    def __init__(self, *args):
        super().__init__()
        named = len(args) == 1 and isinstance(args[0], OrderedDict)
        for name, module in args[0].items() if named else enumerate(args):
            self.add_module(name if named else str(name), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def insert(self, index: int, module: Module):
        """Put ``module`` before place ``index``; return the container."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        size = len(self)
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        self._insert(index + size if index < 0 else index, module)
        return self

    def __add__(self, other):
        return Sequential().extend(self).extend(_sequential(other))

    def __iadd__(self, other):
        return self.extend(_sequential(other))

    def __mul__(self, other: int):
        _check_factor(self, other)
        return Sequential(*list(self) * other)

    __rmul__ = __mul__

    def __imul__(self, other: int):
        _check_factor(self, other)
        return self.extend(list(self) * (other - 1))


def _sequential(other):
    if not isinstance(other, Sequential):
        raise ValueError(
            f"add operator supports only objects of Sequential class, but {type(other)} is given."
        )
    return other


def _check_factor(sequential, factor) -> None:
    if not isinstance(factor, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(sequential)} and {type(factor)}")
    if factor <= 0:
        raise ValueError(f"Non-positive multiplication factor {factor} for {type(sequential)}")


class ModuleList(_Numbered):
    """A list of modules, all of them registered. It is not called.

    Args:
        modules: the first modules.

    >>> import plugrad as torch
    >>> torch.nn.ModuleList(torch.nn.ModuleList() for _ in range(3))
    ModuleList(
      (0-2): 3 x ModuleList()
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _key(self, index) -> str:
        return str(_position(index, len(self)))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._key(index)]

    def __iadd__(self, modules: Iterable[Module]):
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]):
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Put ``module`` before place ``index``."""
        size, index = len(self), operator.index(index)
        self._insert(min(max(index + size if index < 0 else index, 0), size), module)

    def __repr__(self):
        runs: list = []  # [first, last, text] of neighbours that print alike
        for place, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1][1] = place
            else:
                runs.append([place, place, text])
        lines = (
            f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in runs
        )
        body = "".join("\n" + textwrap.indent(line, "  ") for line in lines)
        return f"{self._get_name()}({body}\n)" if body else f"{self._get_name()}()"


class ModuleDict(Module):
    """A dictionary of modules by name, all of them registered. It is not called.

    Args:
        modules: a mapping, or an iterable of ``(name, module)``.

    >>> import plugrad as torch
    >>> heads = torch.nn.ModuleDict({"mean": torch.nn.Sequential()})
    >>> heads["scale"] = torch.nn.Sequential()
    >>> list(heads)
    ['mean', 'scale']
    """

    def __init__(self, modules: Mapping[str, Module] | None = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def keys(self):
        """Return the names."""
        return self._modules.keys()

    def values(self):
        """Return the modules."""
        return self._modules.values()

    def items(self):
        """Return the pairs ``(name, module)``."""
        return self._modules.items()

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module ``key``."""
        return self._modules.pop(key)

    def update(self, modules) -> None:
        """Add modules, or replace them, from a mapping or from pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _as_parameter(value):
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _describe(key, value, type_name) -> str:
    """One line of the repr of a container of parameters."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    name = "Parameter" if isinstance(value, Parameter) else "Tensor"
    where = f" ({value.device})" if not (value.is_cpu or value.is_meta) else ""
    return f"  ({key}): {name} containing: [{type_name(value)} of size {'x'.join(map(str, value.shape))}{where}]"


class ParameterList(Module):
    """A list of parameters, all of them registered. It is not called.

    Args:
        values: the first entries. Tensors become parameters; other objects are kept as they are.

    >>> import plugrad as torch
    >>> torch.nn.ParameterList([torch.zeros(2), torch.zeros(3, 4)])
    ParameterList(
        (0): Parameter containing: [torch.float32 of size 2]
        (1): Parameter containing: [torch.float32 of size 3x4]
    )
    """

    def __init__(self, values: Iterable | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self):
        return self._size

    def __iter__(self):
        return (self[place] for place in range(len(self)))

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(self[place] for place in range(*index.indices(len(self))))
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(value))

    def append(self, value):
        """Add an entry behind the last; return the list."""
        setattr(self, str(self._size), _as_parameter(value))
        self._size += 1
        return self

    def extend(self, values: Iterable):
        """Add several entries behind the last; return the list."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}"
            )
        for value in list(values):
            self.append(value)
        return self

    def __iadd__(self, values: Iterable):
        return self.extend(values)

    def extra_repr(self) -> str:
        return "\n".join(
            _describe(place, value, operator.attrgetter("dtype")) for place, value in enumerate(self)
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters by name, all of them registered. It is not called.

    Args:
        parameters: a mapping, or an iterable of ``(name, value)``. Tensors become parameters; other objects
            are kept as they are. A mapping that is no ``OrderedDict`` is taken in the order of its names.

    >>> import plugrad as torch
    >>> gains = torch.nn.ParameterDict({"left": torch.zeros(2)})
    >>> gains["right"] = torch.ones(2)
    >>> sorted(name for name, _ in gains.named_parameters())
    ['left', 'right']
    """

    def __init__(self, parameters=None):
        super().__init__()
        self._keys: dict = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str):
        return getattr(self, self._attribute(key))

    def __setitem__(self, key: str, value) -> None:
        setattr(self, self._attribute(key), _as_parameter(value))
        self._keys[key] = None

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    @staticmethod
    def _attribute(key) -> str:
        if not isinstance(key, str):
            raise TypeError(
                "Index given to ParameterDict cannot be used as a key as it is not a string"
                f" (type is '{type(key).__name__}'); use str(key)"
            )
        return key

    def __len__(self):
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key):
        return key in self._keys

    def keys(self):
        """Return the names."""
        return self._keys.keys()

    def values(self):
        """Iterate over the values."""
        return (self[key] for key in self._keys)

    def items(self):
        """Iterate over the pairs ``(name, value)``."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default=None):
        """Return the value of ``key``, or ``default``."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default=None):
        """Return the value of ``key``, which is ``default`` if it was not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str):
        """Remove and return the value of ``key``."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Remove and return the pair that was added last."""
        key = next(reversed(self._keys), None)
        if key is None:
            raise KeyError("popitem(): ParameterDict is empty")
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Return another ParameterDict with the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def fromkeys(self, keys: Iterable[str], default=None) -> ParameterDict:
        """Return a ParameterDict that has ``default`` under each of ``keys``."""
        return ParameterDict((key, default) for key in keys)

    def update(self, parameters) -> None:
        """Add values, or replace them, from a mapping or from pairs."""
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            parameters = sorted(parameters.items())
        for key, value in _pairs("ParameterDict", parameters):
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        merged = self.copy()
        merged.update(other)
        return merged

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        merged = other.copy()
        merged.update(self)
        return merged

    def __ior__(self, other: ParameterDict):
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_describe(key, value, operator.methodcaller("type")) for key, value in self.items())

    def __call__(self, input):
        raise RuntimeError("ParameterDict should not be called.")


class Container(Module):
    """A module with the children it is given by name; deprecated."""

    def __init__(self, **kwargs):
        warnings.warn(
            "`nn.Container` is deprecated. All of its functionality is now implemented in `nn.Module`. Subclass that "
            "instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)
