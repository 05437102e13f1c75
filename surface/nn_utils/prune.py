"""Pruning: weights of a module are multiplied with a mask before each forward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from numbers import Integral, Real

import plugrad
from plugrad.extend import held_back
from plugrad.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """Base of ways to choose what is pruned, and the hook that applies the mask.

    A subclass gives `compute_mask(t, default_mask)` and `PRUNING_TYPE`: "unstructured" chooses among the elements
    that are still there, "structured" among whole slices along `self.dim`, "global" among all elements.

    >>> import plugrad as torch
    >>> from plugrad.nn.utils import prune
    >>> class Negative(prune.BasePruningMethod):
    ...     PRUNING_TYPE = "unstructured"
    ...     def compute_mask(self, t, default_mask):
    ...         return default_mask * (t >= 0)
    >>> layer = torch.nn.Linear(3, 3)
    >>> _ = Negative.apply(layer, "weight")
    >>> bool((layer.weight >= 0).all())
    True
    """

    _tensor_name: str

    def __call__(self, module, inputs):
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t, default_mask):
        """Return the mask of a tensor: 0 where it is pruned or `default_mask` is 0."""

    def apply_mask(self, module):
        """Return the parameter of a module times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prune a parameter of a module, also one that is pruned already; return the hook.

        The parameter becomes `name_orig`, the mask the buffer `name_mask`, and `name` a plain attribute.

        Args:
            module: the module.
            name: which of its parameters.
            args: what the method is constructed with, as are `kwargs`.
            importance_scores: what is compared in place of the parameter's values, a tensor of its shape.
        """
        method = cls(*args, **kwargs)
        method._tensor_name = name
        key = _key_of(module, name)
        again = key is not None
        if again:
            method = _joined(module._forward_pre_hooks[key], method)
        original = getattr(module, name + "_orig" if again else name)
        scores = _checked(importance_scores, getattr(module, name), f"parameter {name} of {module}")
        if again:
            mask = getattr(module, name + "_mask").detach().clone(memory_format=plugrad.contiguous_format)
        else:
            mask = plugrad.ones_like(original)
        mask = method.compute_mask(scores, default_mask=mask)
        with held_back():
            if not again:
                module.register_parameter(name + "_orig", original)
                del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module._forward_pre_hooks.pop(key, None)
            module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """Return a tensor times the mask that is computed for it."""
        default_mask = plugrad.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(_checked(importance_scores, t, "tensor t"), default_mask=default_mask)

    def remove(self, module) -> None:
        """Make the pruned parameter, zeros included, a plain one again."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        with held_back():
            if hasattr(module, name):
                delattr(module, name)
            original = module._parameters.pop(name + "_orig")
            original.data = weight.data
            del module._buffers[name + "_mask"]
            setattr(module, name, original)


def _key_of(module, name):
    """Return the key of the pruning hook of a parameter, None if there is none."""
    hooks = module._forward_pre_hooks
    keys = [key for key, hook in hooks.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
    if len(keys) > 1:
        raise AssertionError(
            f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a PruningContainer."
        )
    return keys[0] if keys else None


def _joined(earlier, method):
    """Return one hook for what was pruned earlier and for a further method."""
    container = PruningContainer()
    container._tensor_name = method._tensor_name
    for one in (*(earlier if isinstance(earlier, PruningContainer) else (earlier,)), method):
        container.add_pruning_method(one)
    return container


def _checked(scores, tensor, what):
    """Return what is compared to choose what is pruned."""
    if scores is None:
        return tensor
    if scores.shape != tensor.shape:
        raise AssertionError(
            f"importance_scores should have the same shape as {what}, got {scores.shape} vs {tensor.shape}"
        )
    return scores


class PruningContainer(BasePruningMethod):
    """Several pruning methods for one parameter; each chooses among what is left."""

    def __init__(self, *args):
        self._pruning_methods: tuple = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method) -> None:
        """Add a method; TypeError for others, ValueError for one of another parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """Return the mask after the last method, `default_mask` being that of the others."""
        method = self._pruning_methods[-1]
        where = _left(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        mask[where] = method.compute_mask(t[where], default_mask=default_mask[where]).to(dtype=mask.dtype)
        return mask


def _left(method, t, mask):
    """Return the index of what is left to choose from."""
    if method.PRUNING_TYPE == "unstructured":
        return mask == 1
    if method.PRUNING_TYPE == "global":
        return (slice(None),) * t.ndim
    if method.PRUNING_TYPE != "structured":
        raise ValueError(
            f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}; write 'unstructured', 'structured' or 'global'"
        )
    if not hasattr(method, "dim"):
        raise AttributeError('Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.')
    dim = method.dim + t.ndim if method.dim < 0 else method.dim
    if dim < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
    kept = mask.sum(dim=[d for d in range(t.ndim) if d != dim]) != 0
    return (*[slice(None)] * dim, kept, *[slice(None)] * (t.ndim - dim - 1))


class Identity(BasePruningMethod):
    """Prunes nothing, but gives the parameter a mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """Return `default_mask`."""
        return default_mask

    @classmethod
    def apply(cls, module, name):
        """Give a parameter a mask of ones."""
        return super().apply(module, name)


def _validate_pruning_amount_init(amount) -> None:
    if not isinstance(amount, Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (amount > 1.0 and not isinstance(amount, Integral)):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _validate_pruning_amount(amount, tensor_size) -> None:
    if isinstance(amount, Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _compute_nparams_toprune(amount, tensor_size) -> int:
    return amount if isinstance(amount, Integral) else round(amount * tensor_size)


class _Amount(BasePruningMethod):
    """What methods share that prune a number of elements or slices, or a fraction of them."""

    def __init__(self, amount):
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _count(self, size) -> int:
        """Return how many of `size` are pruned."""
        count = _compute_nparams_toprune(self.amount, size)
        _validate_pruning_amount(count, size)
        return count


class _Elements(_Amount):
    """What methods share that prune elements one by one."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        """Return the mask of what has not the lowest scores."""
        count = self._count(t.nelement())
        mask = default_mask.clone(memory_format=plugrad.contiguous_format)
        if count:
            mask.view(-1)[plugrad.topk(self._scores(t).reshape(-1), count, largest=False).indices] = 0
        return mask


class RandomUnstructured(_Elements):
    """Prunes elements at random: `amount` is their number, or a fraction from 0 to 1."""

    def _scores(self, t):
        return -plugrad.rand_like(t)

    @classmethod
    def apply(cls, module, name, amount):
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Elements):
    """Prunes the elements of least magnitude: `amount` is their number, or a fraction."""

    def _scores(self, t):
        return plugrad.abs(t)

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Slices(_Amount):
    """What methods share that prune slices along a dimension."""

    PRUNING_TYPE = "structured"

    def compute_mask(self, t, default_mask):
        """Return the mask of the slices that are kept."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. "
                f"Found tensor of shape {t.shape} with {t.ndim} dims"
            )
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = self._count(size)
        if not count:
            return default_mask
        mask = plugrad.zeros_like(t)
        mask.transpose(0, self.dim)[self._kept(t, size, count)] = 1
        return mask.mul_(default_mask.to(dtype=mask.dtype))


class RandomStructured(_Slices):
    """Prunes slices along `dim` at random: `amount` is their number, or a fraction."""

    def __init__(self, amount, dim=-1):
        super().__init__(amount)
        self.dim = dim

    def _kept(self, t, size, count):
        draws = plugrad.rand(size)
        return draws > plugrad.kthvalue(draws, count).values

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Slices):
    """Prunes slices along `dim` of least `n`-norm: `amount` is a number or fraction."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount)
        self.n, self.dim = n, dim

    def _kept(self, t, size, count):
        dim = self.dim % t.ndim
        norms = plugrad.norm(t, p=self.n, dim=[d for d in range(t.ndim) if d != dim])
        return plugrad.topk(norms, size - count, largest=True).indices

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        """Prune a parameter of a module."""
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask says."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        """Return both masks together."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        """Prune a parameter of a module."""
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Give a parameter of a module a mask of ones; return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prune elements of a parameter at random; return the module.

    Args:
        module: the module.
        name: which of its parameters.
        amount: how many of the elements that are left, an int, or which fraction of them, a float.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prune the elements of a parameter of least magnitude; return the module.

    Args:
        module: the module.
        name: which of its parameters.
        amount: how many of the elements that are left, an int, or which fraction of them, a float.
        importance_scores: what is compared in place of the values, a tensor of the parameter's shape.

    >>> import plugrad as torch
    >>> from plugrad.nn.utils import prune
    >>> layer = prune.l1_unstructured(torch.nn.Linear(4, 2), "weight", amount=3)
    >>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
    (3, ['bias', 'weight_mask', 'weight_orig'])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prune slices of a parameter along `dim` at random; return the module.

    Args:
        module: the module.
        name: which of its parameters.
        amount: how many of the slices that are left, an int, or which fraction of them, a float.
        dim: the dimension along which the slices lie.
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prune the slices of a parameter along `dim` of least norm; return the module.

    Args:
        module: the module.
        name: which of its parameters.
        amount: how many of the slices that are left, an int, or which fraction of them, a float.
        n: the order of the norm, as for `plugrad.norm`.
        dim: the dimension along which the slices lie.
        importance_scores: whose norm is compared in place of the values', a tensor of the parameter's shape.
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs) -> None:
    """Prune elements of several parameters, chosen among all of them together.

    Args:
        parameters: pairs `(module, name)`.
        pruning_method: an unstructured one, such as `L1Unstructured`.
        importance_scores: {(module, name): a tensor}, what is compared in place of the values.
        kwargs: what the method is constructed with, such as `amount`.

    Raises TypeError for other arguments and for structured methods.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    if not isinstance(importance_scores, (dict, type(None))):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    parameters, given = list(parameters), importance_scores or {}
    tensors = [getattr(module, name) for module, name in parameters]
    scores = [given.get((module, name), t) for (module, name), t in zip(parameters, tensors)]
    masks = [getattr(module, name + "_mask", plugrad.ones_like(t)) for (module, name), t in zip(parameters, tensors)]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    mask = PruningContainer(method).compute_mask(parameters_to_vector(scores), parameters_to_vector(masks))
    parts = mask.split([t.numel() for t in tensors])
    for (module, name), t, part in zip(parameters, tensors, parts):
        custom_from_mask(module, name, mask=part.view_as(t))


def custom_from_mask(module, name, mask):
    """Prune a parameter by a mask of its shape; return the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Make a pruned parameter a plain one, with its zeros; return the module.

    Raises ValueError if it isn't pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            with held_back():
                hook.remove(module)
                del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module) -> bool:
    """Return whether anything in a module or below it is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )
