"""Masked tensors: a subclass of Tensor whose data is a MaskedArray, and how gradients pass in and out of it.

A rule takes the elements of a masked tensor (`Elements`), computes with dense or sparse ops, and masks the result
(`Masking`). Each of the two is the gradient of the other.
"""

from __future__ import annotations

import warnings

import plugrad
from plugrad import Tensor, autograd
from plugrad.extend import from_raw
from plugrad.masked_tensors.arrays import MaskedArray
from plugrad.subclasses.held import Held, is_elementwise, name_of, tensor_around, writes_elements
from plugrad.tensor.tensor import tensor_of

DTYPES = frozenset({
    plugrad.float16, plugrad.float32, plugrad.float64, plugrad.bool, plugrad.int8, plugrad.int16, plugrad.int32,
    plugrad.int64,
})  # fmt: skip
LAYOUTS = ("torch.strided", "torch.sparse_coo", "torch.sparse_csr")
rules: dict = {}  # name of an op or method -> its function on masked tensors
forms: dict = {}  # name -> what carries out many ops: a function of the op's function, then of its arguments
_PROTOTYPE = (
    "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future; so it is here, where "
    "it follows PyTorch's"
)
_HAS_GRAD = (
    "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
    "data.detach().clone(), or as_masked_tensor(data, mask), which passes gradients on"
)


def rule(*names):
    """Return a decorator that makes a function the rule of some ops for masked tensors."""

    def declare(function):
        rules.update(dict.fromkeys(names, function))
        return function

    return declare


class MaskedTensor(Held, Tensor):
    """A tensor some of whose elements are masked out; see `masked.masked_tensor`."""

    def __new__(cls, data, mask, requires_grad=False):
        return _leaf(data, mask, requires_grad)

    def __init__(self, data, mask, requires_grad=False):
        super().__init__()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name, op = name_of(func), getattr(func, "__op__", None)
        kwargs = kwargs or {}
        if kwargs.get("out") is not None:
            raise TypeError(f"{name}(): masked tensors are not written through out=; use the result")
        if name in rules:
            return rules[name](*args, **kwargs)
        if name in forms:
            return forms[name](func, *args, **kwargs)
        if is_elementwise(name, op):
            return forms["elementwise"](func, *args, **kwargs)
        if writes_elements(name, op):
            return forms["in_place"](func, *args, **kwargs)
        raise TypeError(
            f"{name} has no rule for masked tensors: compute with x.get_data() and x.get_mask(), with x.to_tensor(0), "
            "or with a function of torch.masked, which takes mask="
        )

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def layout(self):
        """The layout of the elements: strided, or that of a sparse tensor."""
        return from_raw(self._raw.data).layout

    @property
    def is_sparse(self) -> bool:
        """Whether elements and mask are sparse tensors."""
        return self.layout is not plugrad.strided

    @property
    def is_sparse_csr(self) -> bool:
        """Whether elements and mask are sparse matrices compressed by rows."""
        return from_raw(self._raw.data).is_sparse_csr

    def stride(self, dim=None):
        """Return the step between elements of all dimensions or of one."""
        return from_raw(self._raw.data).stride(dim)

    def is_contiguous(self, memory_format=None) -> bool:
        """Whether the elements lie in row-major order; ValueError for sparse ones."""
        if self.is_sparse:
            raise ValueError("MaskedTensors with sparse data do not have is_contiguous")
        return from_raw(self._raw.data).is_contiguous(memory_format)

    def get_data(self):
        """Return the elements, also those that are masked out; gradients pass."""
        return elements_of(self)

    def get_mask(self):
        """Return the mask: True where an element is seen."""
        return from_raw(self._raw.mask)

    def to_tensor(self, value):
        """Return an ordinary tensor, with a value in the place of what is masked out."""
        return self.get_data().masked_fill(self.get_mask().logical_not(), value)

    def item(self):
        """Return the only element as a Python number; ValueError if it is masked out."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        if not self.get_mask().item():
            raise ValueError("item(): the element is masked out: ask get_data(), or to_tensor(value)")
        return from_raw(self._raw.data).item()

    def __bool__(self):
        return bool(self.item())

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def _refuse(self, *args, **kwargs):
        raise RuntimeError("not supported for tensor subclasses, got MaskedTensor; write x.to_tensor(value) first")

    tolist = numpy = __array__ = data_ptr = untyped_storage = storage = _refuse

    def __repr__(self, *, tensor_contents=None):
        return text(self)

    def to_sparse(self, *, layout=None):
        """Return one with sparse elements and mask, without what is masked out."""
        return rules["to_sparse"](self, layout=layout)

    def to_sparse_coo(self):
        """Return a masked tensor with sparse elements and mask, in coordinates."""
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim=None):
        """Return a masked matrix with sparse elements and mask, compressed by rows."""
        return self.to_sparse(layout=plugrad.sparse_csr)

    def __reduce_ex__(self, protocol):
        return _rebuilt, (from_raw(self._raw.data), self.get_mask(), self.requires_grad)


def _rebuilt(data, mask, requires_grad):
    return wrap(_checked(data, mask)).requires_grad_(requires_grad)


def wrap(array):
    """Return a tensor around a MaskedArray."""
    return tensor_around(MaskedTensor, array, from_raw(array.data)._type)


tensor_of[MaskedArray] = wrap


# ---------------------------------------------------------------------------------------------------- in and out


class Elements(autograd.Function):
    """The elements of a masked tensor as an ordinary one."""

    @staticmethod
    def forward(ctx, masked):
        ctx.mask = masked._raw.mask
        return from_raw(masked._raw.data)

    @staticmethod
    def backward(ctx, grad):
        return masking(grad.get_data() if isinstance(grad, MaskedTensor) else grad, from_raw(ctx.mask))


class Masking(autograd.Function):
    """A masked tensor from its elements and a mask; a leaf's gradient is masked, too."""

    @staticmethod
    def forward(ctx, data, mask):
        ctx.of_leaf = data.is_leaf
        return wrap(MaskedArray(data._raw, mask._raw))

    @staticmethod
    def backward(ctx, grad):
        if ctx.of_leaf or not isinstance(grad, MaskedTensor):
            return grad, None
        return (grad.get_data() if grad.is_sparse else grad.to_tensor(0)), None


def elements_of(masked):
    """Return the elements of a masked tensor, with its history."""
    return Elements.apply(masked) if masked.requires_grad else from_raw(masked._raw.data)


def masking(data, mask):
    """Return a masked tensor of some elements, with their history."""
    return Masking.apply(data, mask) if data.requires_grad else wrap(MaskedArray(data._raw, mask._raw))


def is_masked_tensor(obj, /) -> bool:
    """Return whether an object is a MaskedTensor.

    >>> import plugrad as torch
    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)


def masked_tensor(data, mask, requires_grad=False):
    """Return a masked tensor, a leaf, with copies of data and mask.

    Args:
        data: a tensor, strided, COO or CSR, of floats of 16 to 64 bits, signed integers or bools.
        mask: a tensor of bools of the same shape and layout; True means seen.
        requires_grad: whether it requires a gradient.

    Warns that masked tensors are a prototype. Raises TypeError and ValueError for what does not fit.

    >>> import plugrad as torch
    >>> import warnings; warnings.simplefilter("ignore")
    >>> x = torch.masked.masked_tensor(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([True, False, True]))
    >>> x.mean()
    MaskedTensor(  2.5000, True)
    """
    return _leaf(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """Return a masked tensor to which the history of `data` leads; see masked_tensor.

    >>> import plugrad as torch
    >>> import warnings; warnings.simplefilter("ignore")
    >>> x = torch.tensor([1.0, 2.0, 4.0], requires_grad=True)
    >>> torch.masked.as_masked_tensor(x, torch.tensor([True, False, True])).sum().backward()
    >>> x.grad
    MaskedTensor(
      [  1.0000,       --,   1.0000]
    )
    """
    _require_tensors(data, mask)
    warnings.warn(_PROTOTYPE, UserWarning, stacklevel=2)
    _checked(data.detach(), mask)
    return masking(data if data.is_leaf and data.requires_grad else data.clone(), mask.clone())


def _leaf(data, mask, requires_grad):
    _require_tensors(data, mask)
    warnings.warn(_PROTOTYPE, UserWarning, stacklevel=3)
    if data.requires_grad:
        warnings.warn(_HAS_GRAD, UserWarning, stacklevel=3)
    return wrap(_checked(data.detach().clone(), mask.clone())).requires_grad_(requires_grad)


def _require_tensors(data, mask):
    for name, value in (("data", data), ("mask", mask)):
        if is_masked_tensor(value) or not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a Tensor, not {type(value).__name__}")


def _checked(data, mask):
    """Return the array of elements and mask; TypeError or ValueError if they don't belong together."""
    if data.layout is not mask.layout:
        raise TypeError(f"data and mask must have the same layout. Got {data.layout} and {mask.layout}")
    if str(data.layout) not in LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if mask.dtype is not plugrad.bool:
        raise TypeError(f"mask must have dtype bool. Got {mask.dtype}: write mask.bool()")
    if data.dtype not in DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError(f"data.dim() must equal mask.dim(). Got {data.dim()} and {mask.dim()}")
    if data.shape != mask.shape:
        raise ValueError(f"data.size() must equal mask.size(). Got {list(data.shape)} and {list(mask.shape)}")
    if data.layout is not plugrad.strided:
        data, mask = (one.coalesce() if one.is_sparse else one for one in (data, mask))
        if not data._raw.is_like(mask._raw):
            data = data.sparse_mask(mask)
    return MaskedArray(data._raw, mask._raw)


# ---------------------------------------------------------------------------------------------------- text


def text(masked) -> str:
    """Return the text of a masked tensor, as PyTorch prints it."""
    data, mask = masked.detach().get_data(), masked.get_mask()
    if masked.is_sparse:
        data, mask = data.to_dense(), mask.to_dense()
    if not masked.ndim:
        seen = mask.item()
        return f"MaskedTensor({_written(data.item()) if seen else '--'}, {seen})"
    return "MaskedTensor(\n" + _indented(_lines(data.tolist(), mask.tolist(), masked.ndim)) + "\n)"


def _written(value) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data, mask, ndim) -> str:
    if ndim == 1:
        cells = [_written(value) for value in data]
        width = max([len(cell) if seen else 8 for cell, seen in zip(cells, mask)], default=0)
        return "[" + ", ".join(cell if seen else "--".rjust(width) for cell, seen in zip(cells, mask)) + "]"
    return "[\n" + ",\n".join(_indented(_lines(d, m, ndim - 1)) for d, m in zip(data, mask)) + "\n]"


def _indented(lines) -> str:
    return "\n".join("  " + line for line in lines.split("\n"))
