"""What ops do with masked tensors: with the elements, and with the mask."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, nest, registry
from plugrad.extend import LEFT_OUT
from plugrad.masked_tensors.tensors import MaskedTensor, elements_of, forms, masking, rule, rules
from plugrad.sparse import SparseTensor, build, values_of
from plugrad.subclasses.held import check_leaf, take_over

# What only moves elements: the mask goes the same way.
_MOVES = (
    "select transpose t getitem view reshape flatten cat stack unsqueeze squeeze sliding_windows split chunk narrow "
    "permute unbind expand expand_as view_as reshape_as unflatten movedim tensor_split split_with_sizes repeat tile "
    "flip fliplr flipud roll rot90 index_select gather take_along_dim diagonal repeat_interleave contiguous hstack "
    "vstack ravel take im2col col2im unfold_columns"
).split()
_CASTS = "to float double half long int short char bool type_as cpu cuda".split()
_REDUCTIONS = "sum mean amin amax argmin argmax prod var std norm".split()
_LIKE = "ones_like zeros_like full_like empty_like".split()


def form(*names):
    """Return a decorator that makes a function carry out some ops, whose functions it gets first."""

    def declare(function):
        forms.update(dict.fromkeys(names, function))
        return function

    return declare


def _masks_match(one, other) -> bool:
    return one is other or one.shape == other.shape and plugrad.equal(one, other)


def common_mask(tensors):
    """Return the mask of masked tensors; ValueError if they have several."""
    first, *others = [one._raw.mask for one in tensors]
    mask = tensors[0].get_mask()
    for raw, one in zip(others, tensors[1:]):
        theirs = one.get_mask()
        pair = (mask, theirs) if not isinstance(mask, SparseTensor) else (mask.to_dense(), theirs.to_dense())
        if raw is not first and not _masks_match(*pair):
            raise ValueError(
                "Input masks must match: give both operands one mask, or compute with x.to_tensor(value), which has "
                "a value in the place of what is masked out"
            )
    return mask


@form("elementwise")
def elementwise(func, *args, **kwargs):
    """A function of each element, of one tensor or several that broadcast."""
    masked = [one for one in (*args, *kwargs.values()) if isinstance(one, MaskedTensor)]
    mask = common_mask(masked)
    if masked[0].is_sparse:
        return _of_entries(func, mask, args, kwargs)
    result = func(*map(_elements, args), **{name: _elements(value) for name, value in kwargs.items()})
    return masking(result, mask.expand(tuple(result.shape)))


def _elements(value):
    return elements_of(value) if isinstance(value, MaskedTensor) else value


def _of_entries(func, mask, args, kwargs):
    """A function of the entries of sparse elements; all tensors among the operands have one pattern."""

    def entries(value):
        value = _elements(value)
        if not isinstance(value, Tensor) or value.ndim == 0 and not isinstance(value, SparseTensor):
            return value
        if not isinstance(value, SparseTensor) or not value._raw.is_like(mask._raw):
            raise ValueError(
                f"{func.__name__}: operands of a sparse masked tensor must be numbers, or sparse tensors with the "
                "same indices; write x.to_dense() first"
            )
        return values_of(value)

    values = func(*map(entries, args), **{name: entries(value) for name, value in kwargs.items()})
    return masking(build(values, mask._raw.pattern()), mask)


@rule("__rsub__")
def rsub(input, other, *, alpha=1):
    return elementwise(plugrad.rsub, input, other, alpha=alpha)


@rule("__rdiv__", "__rtruediv__")
def rdiv(input, other):
    return elementwise(lambda one, two: two / one, input, other)


# ---------------------------------------------------------------------------------------------------- in place


@form("in_place")
def in_place(func, target, *args, **kwargs):
    """Write a masked tensor: its elements are those of a copy that was written."""
    if not isinstance(target, MaskedTensor):
        raise TypeError(f"{func.__name__}: an ordinary tensor can't be written from a masked one; use to_tensor(value)")
    check_leaf(target)
    before = target.clone() if target.requires_grad else target.detach()

    def write(elements, *others, **named):
        copied = elements.clone()
        return func(copied, *others, **named)

    write.__name__ = func.__name__
    result = elementwise(write, before, *args, **kwargs)
    if result.shape != target.shape or result.dtype is not target.dtype:
        raise RuntimeError(f"{func.__name__}: a result of shape {list(result.shape)} can't be written in place")
    return take_over(target, result)


@rule("copy_")
def copy_(target, source, non_blocking=False):
    return in_place(Tensor.copy_, target, source)


# ---------------------------------------------------------------------------------------------------- reductions


def _reduction(name):
    """Return the rule of a reduction: the function of `masked`, whose result is seen where an element was."""
    op, function = registry.op(name), getattr(plugrad.masked, name)
    defaults = {name: value for name, value in op.defaults.items() if value is not LEFT_OUT}

    def compute(*args, **kwargs):
        given = {**defaults, **dict(zip(op.positional, args)), **kwargs}
        input, dim, keepdim, dtype = [given.pop(one, None) for one in ("input", "dim", "keepdim", "dtype")]
        given.pop("out", None)
        if isinstance(dim, bool):  # var(unbiased)
            dim, given["unbiased"] = None, dim
        if "p" in given:
            p = given.pop("p")
            given["ord"] = 2.0 if p in ("fro", None) else float(p)
        data, mask = _parts(input, name, dim)
        result = function(data, dim=dim, keepdim=keepdim, dtype=dtype, mask=mask, **given)
        return masking(result, _any(mask, dim, keepdim))

    return compute


def _parts(input, name, dim):
    """Return elements and mask, or their entries if they are sparse: then all are reduced."""
    data, mask = input.get_data(), input.get_mask()
    if not input.is_sparse:
        return data, mask
    if dim is not None:
        raise TypeError(f"{name} along a dimension has no rule for sparse masked tensors: write x.to_dense()")
    return values_of(data), values_of(mask)


def _any(mask, dim, keepdim):
    """Whether an element is seen, of all or along some dimensions."""
    return mask.any() if dim is None or dim == () or dim == [] else plugrad.any(mask, dim, keepdim)


for _name in _REDUCTIONS:
    rules[_name] = _reduction(_name)


@rule("all")
def all_seen(input, dim=None, keepdim=False):
    data, mask = _parts(input, "all", dim)
    result = data.bool().masked_fill(mask.logical_not(), True)
    return masking(result.all() if dim is None else result.all(dim, keepdim), _any(mask, dim, keepdim))


def _function_of_mask(name):
    """Return the rule of a function of `masked`, whose result is an ordinary tensor: the mask is the tensor's own."""
    function = registry.op(f"masked_{name}").function

    def compute(input, *args, mask=None, **kwargs):
        return function(_elements(input), *args, mask=input.get_mask() if mask is None else mask, **kwargs)

    return compute


for _name in (*_REDUCTIONS, *"median logsumexp cumsum cumprod softmax log_softmax softmin normalize".split()):
    rules[f"masked_{_name}"] = _function_of_mask(_name)


def _softmax(name):
    function = getattr(plugrad.masked, name)

    def compute(input, dim, dtype=None):
        return masking(function(input.get_data(), dim, dtype=dtype, mask=input.get_mask()), input.get_mask())

    def of_functional(input, dim=None, _stacklevel=3, dtype=None):
        if dim is None:
            raise TypeError(f"{name}(): a masked tensor has no dim that goes without saying: write dim=-1")
        return compute(input, dim, dtype)

    return compute, of_functional


for _name in ("softmax", "log_softmax"):
    rules[_name], rules[f"functional_{_name}"] = _softmax(_name)


# ---------------------------------------------------------------------------------------------------- moves, copies


@form(*_MOVES)
def move(func, *args, **kwargs):
    """An op that only moves elements."""
    if isinstance(args[0], (tuple, list)) and any(not isinstance(one, MaskedTensor) for one in args[0]):
        raise TypeError(
            f"{func.__name__}(): all tensors must be masked ones: write masked_tensor(x, torch.ones_like(x, "
            "dtype=torch.bool)) for one that is seen as a whole"
        )
    data = func(*nest.change(_elements, list(args)), **nest.change(_elements, kwargs))
    mask = func(*nest.change(_mask, list(args)), **nest.change(_mask, kwargs))
    return masking(data, mask) if isinstance(data, Tensor) else type(data)(map(masking, data, mask))


def _mask(value):
    return value.get_mask() if isinstance(value, MaskedTensor) else value


@rule("clone")
def clone(input, *, memory_format=None):
    return masking(input.get_data().clone(), input.get_mask())


@form(*_CASTS)
def cast(func, input, *args, **kwargs):
    """A conversion to another dtype or device: the mask stays one of bools."""
    data = func(input.get_data(), *nest.change(_elements, list(args)), **kwargs)
    if data.dtype is input.dtype and data.device is input.device:
        return input
    return masking(data, input.get_mask().to(data.device))


rules["detach"] = MaskedTensor.detach


@form(*_LIKE)
def filled(func, input, *args, **kwargs):
    """A new tensor like a masked one, under its mask."""
    requires_grad = kwargs.pop("requires_grad", False)
    return masking(func(input.get_data(), *args, **kwargs), input.get_mask()).requires_grad_(requires_grad)


@rule("where", "where_or_nonzero")
def where(condition, input, other):
    """Elements and masks chosen by a condition; all of an ordinary tensor, or number, is seen."""
    if isinstance(condition, MaskedTensor):
        raise TypeError("where(): the condition must be an ordinary tensor: write condition.to_tensor(False)")
    data = plugrad.where(condition, _elements(input), _elements(other))
    seen = plugrad.ones((), dtype=plugrad.bool, device=condition.device)
    masks = [one.get_mask() if isinstance(one, MaskedTensor) else seen for one in (input, other)]
    return masking(data, plugrad.where(condition, *masks).expand(tuple(data.shape)))


@rule("where_method")
def where_method(input, condition, other):
    return where(condition, input, other)


@rule("to_dense")
def to_dense(input, dtype=None, *, masked_grad=None):
    return masking(input.get_data().to_dense(dtype), input.get_mask().to_dense())


@rule("to_sparse")
def to_sparse(input, *, layout=None):
    """Return a masked tensor whose elements and mask are sparse ones: only what is seen has entries."""
    if input.is_sparse and (layout is None) is (not input.is_sparse_csr):
        return input
    if layout is not None and input.ndim != 2:
        raise ValueError(f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {input.shape}")
    data, mask = (one.to_dense() if input.is_sparse else one for one in (input.get_data(), input.get_mask()))
    mask = mask.to_sparse() if layout is None else mask.to_sparse(layout=layout)
    return masking(data.sparse_mask(mask), mask)
