"""`plugrad.sparse`: tensors of which only some elements are stored, in coordinates (COO) or compressed (CSR, CSC).

They are Tensors of a subclass. Ops that have a rule for them compute with their values and give gradients to sparse and
dense operands alike; all others refuse. `Embedding(sparse=True)` gives sparse gradients, which SGD, Adagrad and
SparseAdam take.
"""

from __future__ import annotations

import plugrad
from plugrad.sparse import reductions  # noqa: F401  (its rules are there by being imported)
from plugrad.sparse.creation import (
    _validate_sparse_compressed_tensor_args,
    _validate_sparse_coo_tensor_args,
    from_parts,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
    to_sparse,
)  # fmt: skip
from plugrad.sparse.products import (
    addmm,
    hspmm,
    log_softmax,
    mm,
    sampled_addmm,
    smm,
    softmax,
    spdiags,
    sspaddmm,
    sum,
    take_rows,
)  # fmt: skip
from plugrad.sparse.resizing import resize_as_sparse_
from plugrad.sparse.rules import _sparse_broadcast_to, sparse_mask
from plugrad.sparse.tensors import LAYOUTS, SparseTensor, build, rebuild, values_of
from plugrad.sparse.typed import (
    BFloat16Tensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)  # fmt: skip

__all__ = [
    "BFloat16Tensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
    "LongTensor", "ShortTensor", "SparseTensor", "build", "values_of",
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT",
    "SparseSemiStructuredTensorCUTLASS", "addmm",
    "_sparse_broadcast_to", "_validate_sparse_compressed_tensor_args", "_validate_sparse_coo_tensor_args",
    "as_sparse_gradcheck", "check_sparse_tensor_invariants", "from_parts", "hspmm", "log_softmax", "mm", "rebuild",
    "resize_as_sparse_", "sampled_addmm", "smm", "softmax", "solve", "sparse_bsc", "sparse_bsc_tensor", "sparse_bsr",
    "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo", "sparse_coo_tensor", "sparse_csc",
    "sparse_csc_tensor", "sparse_csr", "sparse_csr_tensor", "sparse_mask", "spdiags", "spsolve", "sspaddmm", "sum",
    "take_rows", "to_sparse", "to_sparse_semi_structured",
]  # fmt: skip

spmm, dsmm, hsmm, saddmm = plugrad.mm, plugrad.mm, hspmm, plugrad.addmm  # older names, of which PyTorch keeps some
sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc = LAYOUTS.values()


class check_sparse_tensor_invariants:
    """Check what sparse tensors are made of.

    Here that is always done, so nothing changes inside.
    """

    def __init__(self, enable=True):
        self.wanted = enable

    @staticmethod
    def is_enabled() -> bool:
        """Return True."""
        return True

    @staticmethod
    def enable() -> None:
        """Do nothing: indices are always checked."""

    @staticmethod
    def disable() -> None:
        """Do nothing: indices are always checked."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None

    def __call__(self, function):
        return function


def _absent(name, why):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"torch.sparse.{name}: {why}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Not there.\n\n{why}."
    return refuse


_HALF = "matrices with two of four elements are a format of NVIDIA's tensor cores; NumPy has no use for it"
to_sparse_semi_structured = _absent("to_sparse_semi_structured", _HALF)
SparseSemiStructuredTensor = _absent("SparseSemiStructuredTensor", _HALF)
SparseSemiStructuredTensorCUTLASS = _absent("SparseSemiStructuredTensorCUTLASS", _HALF)
SparseSemiStructuredTensorCUSPARSELT = _absent("SparseSemiStructuredTensorCUSPARSELT", _HALF)
spsolve = solve = _absent("spsolve", "PyTorch has it on CUDA only; write torch.linalg.solve(A.to_dense(), B)")


def as_sparse_gradcheck(gradcheck):
    """Return gradcheck itself: it takes sparse inputs.

    >>> import plugrad as torch
    >>> check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.eye(2, dtype=torch.float64).to_sparse().requires_grad_()
    >>> check(lambda x: x * 3, x, masked=True)
    True
    """
    return gradcheck
