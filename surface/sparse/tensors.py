"""Sparse tensors: a subclass of Tensor whose data is a SparseArray, and how gradients pass in and out of it.

Everything that is differentiable is said in terms of the values, which are a dense tensor: an op on a sparse tensor
takes its values (`Values`), computes with dense ops, and builds a sparse tensor of the result (`Build`). Each of the
two is the gradient of the other.
"""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor, autograd
from plugrad.arguments import refuse_wrong
from plugrad.extend import from_raw
from plugrad.printing import tensor_str
from plugrad.sparse.arrays import SparseArray
from plugrad.sparse.compressed import CompressedArray
from plugrad.subclasses.held import Held, name_of, tensor_around
from plugrad.tensor.layouts import factories, layout
from plugrad.tensor.tensor import tensor_of

LAYOUTS = {name: layout(name) for name in ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")}
rules: dict = {}  # name of an op or method -> its function on sparse tensors


def rule(*names):
    """Return a decorator that makes a function the rule of some ops for sparse tensors."""

    def declare(function):
        rules.update(dict.fromkeys(names, function))
        return function

    return declare


def factory(*names):
    """Return a decorator that makes a function what the ops of some names call for `layout=`."""

    def declare(function):
        factories.update(dict.fromkeys(names, function))
        return function

    return declare


def unsupported(what):
    """Return the error for what sparse tensors don't do."""
    return NotImplementedError(
        f"Could not run {what!r} with arguments from the 'SparseCPU' backend: it has no rule for sparse tensors. Write "
        "x.to_dense(), or compute with x.coalesce().values()"
    )


# Rules that compute with the values alone, or know batches, blocks and dense dimensions of compressed tensors; for
# others such a tensor is one in COO.
_TAKE_ALL = frozenset(
    "abs neg sqrt square sign sgn sin tan asin atan sinh tanh asinh atanh expm1 log1p ceil floor round trunc frac erf "
    "erfinv deg2rad rad2deg relu functional_relu isnan isinf isneginf isposinf signbit conj conj_physical real imag "
    "angle nan_to_num positive float double half bfloat16 long int short char byte bool cfloat cdouble to_dense detach "
    "clone contiguous lift_fresh type to cpu type_as zeros_like empty_like add __add__ __radd__ sub __sub__ subtract "
    "mul __mul__ __rmul__ multiply div true_divide divide __truediv__ pow __pow__ any t numpy_T adjoint transpose "
    "swapaxes swapdims permute mm matmul mv __matmul__ linalg_matmul __rmatmul__ linear zero_ copy_ resize_as_ select "
    "select_copy ones_like full_like randn_like rand_like getitem __getitem__".split()
)


def _is_matrices(value) -> bool:
    """Whether a value is compressed and more than one matrix of numbers: a batch, in blocks, or of dense parts."""
    return isinstance(value, SparseTensor) and not value.is_sparse and not value._raw.is_matrix


def _takes(name, args) -> bool:
    """Whether a rule can be called with these arguments as they are."""
    base = name[:-1] if name.endswith("_") and name[:-1] in _TAKE_ALL else name
    base = f"__{base[3:]}" if base.startswith("__i") else base
    sparse = [value for value in args if isinstance(value, SparseTensor)]
    if not any(map(_is_matrices, sparse)):
        return True
    if base == "sum":
        return all(value is None for value in args[1:])
    return base in _TAKE_ALL and all(one._raw.is_like(sparse[0]._raw) for one in sparse[1:])


class SparseTensor(Held, Tensor):
    """A tensor that stores some elements only, as `sparse_coo_tensor` makes it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = name_of(func)
        function = rules.get(name)
        kwargs = dict(kwargs or {})
        out = kwargs.pop("out", None)
        refuse_wrong(getattr(func, "__op__", None), args, kwargs)
        if function is None:
            names = getattr(getattr(func, "__op__", None), "parameters", ())
            if "size" in names and "input" not in names:  # of what makes tensors
                raise TypeError(f"{name}(): argument 'size' must be tuple of ints, not Tensor: write x.shape")
            raise unsupported(name)
        if not _takes(name, args):
            args = [coordinates(value) if _is_matrices(value) else value for value in args]
        result = function(*args, **kwargs)
        return result if out is None else write_out(name, result, out)

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def layout(self):
        """`sparse_coo`, `sparse_csr`, `sparse_csc`, `sparse_bsr` or `sparse_bsc`."""
        return LAYOUTS[self._raw.layout]

    @property
    def is_sparse(self) -> bool:
        """Whether it is in coordinate form."""
        return self._raw.layout == "sparse_coo"

    @property
    def is_sparse_csr(self) -> bool:
        """Whether it is compressed by rows."""
        return self._raw.layout == "sparse_csr"

    def stride(self, dim=None):
        """Return zeros: there are no steps between elements."""
        if not self.is_sparse:
            raise RuntimeError(f"Sparse {self._raw.layout[7:].upper()} tensors do not have strides")
        return (0,) * self.ndim if dim is None else 0

    def is_contiguous(self, memory_format=None) -> bool:
        """Return False: the elements are not side by side.

        RuntimeError for compressed tensors.
        """
        if not self.is_sparse:
            raise RuntimeError(f"Sparse {self._raw.layout[7:].upper()} tensors do not have is_contiguous")
        return False

    def data_ptr(self):
        """Raise RuntimeError: there are several pieces of memory."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage: ask its values()")

    storage_offset = data_ptr

    @property
    def nbytes(self):
        """Raise RuntimeError: there are several pieces of memory."""
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the "
            "nbytes of the indices and values."
        )

    def untyped_storage(self):
        """Raise NotImplementedError: there are several pieces of memory."""
        raise NotImplementedError("Cannot access storage of SparseTensorImpl: ask its values()")

    storage = untyped_storage

    def numpy(self, *, force=False):
        """Raise TypeError: NumPy has no sparse arrays."""
        kind = "Sparse" if self.is_sparse else "Sparse" + self._raw.layout[7:].capitalize()
        raise TypeError(f"can't convert {kind} layout tensor to numpy. Use Tensor.to_dense() first.")

    def __array__(self, dtype=None, copy=None):
        return self.numpy()

    def tolist(self):
        """Raise RuntimeError: convert it first."""
        return self.data_ptr()

    def item(self):
        """Return the only element as a Python number."""
        return self.to_dense().item()

    def __iter__(self):
        return iter([self[i] for i in range(self.shape[0])])

    def __repr__(self, *, tensor_contents=None):
        return text(self)

    # ------------------------------------------------------------------------------------------ its parts

    def _of_layout(self, name, *layouts):
        if self._raw.layout not in layouts:
            wanted = {"sparse_coo": "coordinate", "sparse_csr": "row compressed", "sparse_csc": "column compressed"}
            got = "" if self.is_sparse else self._raw.layout[7:].capitalize()
            raise RuntimeError(f"{name} expected sparse {wanted[layouts[0]]} tensor layout but got Sparse{got}")

    def _coalesced_only(self, name):
        self._of_layout(name, "sparse_coo")
        if not self._raw.is_coalesced:
            raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")

    def indices(self):
        """Return the indices of the entries, (sparse dimensions, entries)."""
        self._coalesced_only("indices")
        return from_raw(self._raw.indices)

    def _indices(self):
        self._of_layout("_indices", "sparse_coo")
        return from_raw(self._raw.indices)

    def values(self):
        """Return the values of the entries."""
        if self.is_sparse:
            self._coalesced_only("values")
        return values_of(self)

    def _values(self):
        return from_raw(self._raw.values)

    def crow_indices(self):
        """Return where each row's entries begin."""
        self._of_layout("crow_indices", "sparse_csr", "sparse_bsr")
        return from_raw(self._raw.starts)

    def col_indices(self):
        """Return the entries' columns."""
        self._of_layout("col_indices", "sparse_csr", "sparse_bsr")
        return from_raw(self._raw.others)

    def ccol_indices(self):
        """Return where each column's entries begin."""
        self._of_layout("ccol_indices", "sparse_csc", "sparse_bsc")
        return from_raw(self._raw.starts)

    def row_indices(self):
        """Return the entries' rows."""
        self._of_layout("row_indices", "sparse_csc", "sparse_bsc")
        return from_raw(self._raw.others)

    def _nnz(self) -> int:
        return self._raw.entries

    def sparse_dim(self) -> int:
        """Return the number of sparse dimensions."""
        return self._raw.sparse_dim

    def dense_dim(self) -> int:
        """Return the number of dense dimensions."""
        return self._raw.ndim - self._raw.batch_dim - self._raw.sparse_dim

    _dimI, _dimV = sparse_dim, dense_dim

    def coalesce(self):
        """Return the tensor with each place once, in order."""
        self._of_layout("coalesce", "sparse_coo")
        return coalesce(self)

    def is_coalesced(self) -> bool:
        """Return whether each place has at most one entry, in order."""
        self._of_layout("is_coalesced", "sparse_coo")
        return self._raw.is_coalesced

    def _coalesced_(self, coalesced):
        self._raw.is_coalesced = coalesced
        return self

    def __reduce_ex__(self, protocol):
        return rebuild, self.parts()

    def parts(self) -> tuple:
        """Return what makes up the tensor: layout, indices, values, shape, two marks.

        See `rebuild`.
        """
        array = self._raw
        indices = map(from_raw, array.parts())
        return array.layout, *indices, from_raw(array.values), array.shape, array.is_coalesced, self.requires_grad


def rebuild(layout, *parts):
    """Return the sparse tensor of `SparseTensor.parts`, which may be a file's."""
    *indices, values, shape, is_coalesced, requires_grad = parts
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"{shape} is no shape")
    tensor = plugrad.sparse.from_parts(layout, indices, values, shape, is_coalesced=is_coalesced)
    if is_coalesced and layout == "sparse_coo" and (numpy.diff(tensor._raw.place()) <= 0).any():
        raise ValueError("its indices are not in order")
    return tensor.requires_grad_(requires_grad)


def write_out(name, result, out):
    """Put a result into the tensor given as `out=`, of the same layout, and return that."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if plugrad.is_grad_enabled() and (out.requires_grad or result.requires_grad):
        what = "functions with out=... arguments don't support automatic differentiation"
        raise RuntimeError(f"{name}(): {what}, but one of the arguments requires grad.")
    if result.layout is not out.layout:
        raise RuntimeError(f"{name}(): the result is {result.layout}, but `out` is {out.layout}: give one like it")
    result = cast_to(result, out.dtype)
    if not isinstance(out, SparseTensor):
        return out.resize_(tuple(result.shape)).copy_(result)
    out._raw = result._raw
    return out


def cast_to(result, dtype):
    """Return a result in the dtype of the tensor that it is written to; RuntimeError if that kind can't hold it."""
    if result.dtype is dtype:
        return result
    if not plugrad.can_cast(result.dtype, dtype):
        raise RuntimeError(
            f"result type {result.dtype._label} can't be cast to the desired output type {dtype._label}: "
            "write the operation out of place"
        )
    return result.to(dtype)


def wrap(array):
    """Return a tensor around a SparseArray."""
    return tensor_around(SparseTensor, array, plugrad.device("cpu").tensor_type(array.dtype))


for _class in (SparseArray, CompressedArray):
    tensor_of[_class] = wrap


# ---------------------------------------------------------------------------------------------------- in and out


class Values(autograd.Function):
    """The values of a sparse tensor as a dense one."""

    @staticmethod
    def forward(ctx, sparse):
        ctx.pattern = sparse._raw.pattern()
        return from_raw(sparse._raw.values)

    @staticmethod
    def backward(ctx, grad):
        return build(grad, ctx.pattern)


class Build(autograd.Function):
    """A sparse tensor of a pattern, from its values."""

    @staticmethod
    def forward(ctx, values, pattern):
        ctx.pattern = pattern
        return wrap(pattern.with_values(values._raw))

    @staticmethod
    def backward(ctx, grad):
        return picked(grad, ctx.pattern), None


def values_of(sparse):
    """Return the values of a sparse tensor, with its history."""
    return Values.apply(sparse) if sparse.requires_grad else from_raw(sparse._raw.values)


def build(values, pattern):
    """Return a sparse tensor of a pattern, with the history of its values."""
    return Build.apply(values, pattern) if values.requires_grad else wrap(pattern.with_values(values._raw))


def picked(tensor, pattern):
    """Return the elements of a tensor, sparse or dense, at the entries of a pattern."""
    if isinstance(tensor, SparseTensor):
        if tensor._raw.is_like(pattern):
            return values_of(tensor)
        tensor = to_dense(tensor)
    if not pattern.sparse_dim:
        return tensor.expand(pattern.entries, *tensor.shape)
    return tensor[tuple([from_raw(index) for index in pattern.indices])]


def coordinates(sparse):
    """Return a sparse tensor in coordinate form."""
    if sparse.is_sparse:
        return sparse
    pattern, values = sparse._raw.pattern(), values_of(sparse)
    values, order = pattern.flat(values), pattern.order()
    return build(values if order is None else values[from_raw(order)], pattern.coordinates())


def coalesce(sparse):
    """Return a sparse tensor in coordinate form with each place once, in order."""
    sparse = coordinates(sparse)
    if sparse._raw.is_coalesced:
        return sparse
    pattern, inverse = sparse._raw.merged()
    values = values_of(sparse)
    total = values.new_zeros((pattern.entries, *values.shape[1:])).index_add(0, from_raw(inverse), values)
    return build(total, pattern)


def to_dense(sparse):
    """Return a sparse tensor as a dense one."""
    indices = tuple([from_raw(index) for index in sparse._raw.indices])
    values = values_of(sparse)
    if not indices:
        return values.sum(0, dtype=values.dtype)
    return values.new_zeros(tuple(sparse.shape)).index_put(indices, values, accumulate=True)


def text(sparse) -> str:
    """Return the text of a sparse tensor, as PyTorch prints it."""
    array, parts, default = sparse._raw, [], plugrad.get_default_dtype()
    if sparse.is_sparse:
        named = {"indices": array.indices}
    else:
        rows = not array.by
        named = {"crow_indices" if rows else "ccol_indices": array.starts,
                 "col_indices" if rows else "row_indices": array.others}  # fmt: skip
    for name, part in {**named, "values": array.values}.items():
        before = f"tensor({name}="  # where its lines begin, as it stands in the text
        written = tensor_str(from_raw(part), default_dtype_name=default.name, before=before).removeprefix(before)
        if not part.size:
            size = ", ".join(map(str, part.shape))
            written = f"tensor([], size=({size}{',' * (part.ndim == 1)}))"
        elif name == "values" and (start := written.rfind(", dtype=")) >= 0:
            written = written[:start] + ")"
        parts.append(f"{name}={written}")
    facts = [f"size={tuple(sparse.shape)}", f"nnz={array.entries}"]
    if sparse.dtype not in (default, plugrad.int64, plugrad.bool):
        facts.append(f"dtype={sparse.dtype}")
    facts.append(f"layout={sparse.layout}")
    if sparse.grad_fn is not None:
        facts.append(f"grad_fn=<{sparse.grad_fn.name()}>")
    elif sparse.requires_grad:
        facts.append("requires_grad=True")
    return _laid_out(parts, facts, sparse.is_sparse)


def _laid_out(parts, facts, is_coo) -> str:
    """Join the parts of a text: each on a line of its own, the facts behind them wrapped at 80 columns as PyTorch's."""
    lines = "tensor(" + ",\n       ".join(parts)
    column = 80 if is_coo else len(lines.rpartition("\n")[2]) + 2  # the first fact of the one form has a new line
    for fact in facts:
        wraps = column + len(fact) + 2 > 80
        column = len(fact) + (7 if wraps else column + 2)
        lines += f",\n       {fact}" if wraps else f", {fact}"
    return lines + ")"


def numpy_of(value, dtype=None):
    """Return a tensor or nested list as a NumPy array."""
    return numpy.asarray(plugrad.as_tensor(value).detach()._raw, dtype)
