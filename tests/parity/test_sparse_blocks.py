"""Sparse matrices in blocks (BSR, BSC) on plugrad and on PyTorch side by side, and conversions between all layouts."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import warnings

import pytest

import plugrad
from support.distribution_builder import output

torch = pytest.importorskip("torch")

# A: a dense matrix, b and c: in blocks by rows and by columns, s, r and k: in COO, CSR and CSC.
EXPRESSIONS = """
b | c | b.layout | c.layout | b.shape | b._nnz() | b.values() | b.crow_indices() | b.col_indices() | c.ccol_indices()
c.row_indices() | c.values() | b.ccol_indices() | b.row_indices() | c.crow_indices() | c.col_indices() | b.indices()
r.crow_indices() | b.to_dense() | c.to_dense() | b.is_sparse | b.is_sparse_csr | b.sparse_dim() | b.dense_dim()
b.is_coalesced() | b.coalesce() | b.stride() | b.is_contiguous() | b.numel() | b.dtype | b.requires_grad | b.device
b.ndim
b.to_sparse() | b.to_sparse_coo() | b.to_sparse_bsr((2,2)) | b.to_sparse_bsc((2,2)) | c.to_sparse()
c.to_sparse_bsr((2,3)) | c.to_sparse_bsc((2,3)) | s.to_sparse_bsr((2,2)) | s.to_sparse_bsc((2,2))
r.to_sparse_bsr((2,2)) | r.to_sparse_bsc((2,2)) | k.to_sparse_bsr((2,2)) | k.to_sparse_bsc((2,2)) | r.to_sparse_csc()
k.to_sparse_csr() | A.to_sparse(layout=T.sparse_bsr,blocksize=(2,2)) | A.to_sparse(layout=T.sparse_bsr)
A.to_sparse(layout=T.sparse_csr,blocksize=(2,2)) | A.to_sparse_bsr((2,2)).to_sparse(layout=T.strided)
A.to_sparse_bsr((3,2)) | A.to_sparse_bsr((2,)) | A.to_sparse_bsr(2) | A.to_sparse_bsr((0,2)) | M.to_sparse_bsr((2,2))
A.to_sparse_bsr((2,2),dense_dim=0) | b.to_sparse_bsr((2,2)) is b | b.to_sparse(layout=T.sparse_bsr)
T.zeros(4,4).to_sparse_bsr((2,2)) | A.long().to_sparse_bsr((2,2)) | A.double().to_sparse_bsr((2,2))
(A>0).to_sparse_bsr((2,2))
T.sparse_bsr_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2))
T.sparse_bsr_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2),(4,6))
T.sparse_bsc_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2))
T.sparse_bsr_tensor([0,1,2],[0,1],[[[1.,2.]],[[3.,4.]]]) | T.sparse_bsr_tensor([0,1,2],[0,1],T.arange(2.))
T.sparse_compressed_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2),layout=T.sparse_bsr)
T.sparse_compressed_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2),(4,4),layout=T.sparse_bsc)
T.sparse_bsr_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2),dtype=T.float64)
T.sparse_bsr_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2),requires_grad=True)
T.sparse_compressed_tensor([0,1,2],[0,1],T.arange(8.).reshape(2,2,2))
b@D | T.mm(b,D) | T.matmul(b,D) | b.mm(D) | b@D[:,0] | T.mv(b,D[:,0]) | T.sparse.mm(b,D) | D.t()@b.t()
T.addmm(B,b,D) | T.sparse.addmm(B,b,D) | F.linear(T.ones(3,6),b) | T.sparse.sampled_addmm(b,T.ones(4,3),T.ones(3,6))
b*2 | 2*b | -b | b+b | b+A | b.abs() | b.sin() | b.sqrt() | b.relu() | T.relu(b) | b.sum() | b.mean() | b.sign()
b.isnan() | b.clone() | b.detach() | b.double() | b.to(T.float64) | b.half() | b.cpu() is b | b.t() | b.transpose(0,1)
c.t() | b.t().to_dense() | b[0] | b[0,1] | b.select(0,1) | b.select(1,1) | T.cat([b,b]) | b.add_(b) | b.mul_(2)
b.zero_() | b.neg_() | b.copy_(b) | T.zeros_like(b) | T.empty_like(b).layout | b.view(24) | b.tolist() | b.numpy()
b.item() | pickle.loads(pickle.dumps(b)) | b.sparse_mask(b) | A.sparse_mask(b) | b.max()
T.empty(4,4,layout=T.sparse_bsr) | T.zeros(4,6,layout=T.sparse_bsr) | b.data_ptr() | b.values().fill_(1)
b.requires_grad_() | bool(b) | len(b) | isinstance(b,T.Tensor) | b.mul(T.tensor(2.))
b.round() | b.is_pinned() | T.is_same_size(b,b) | T.allclose(b.to_dense(),A)
grad(lambda x:x.to_sparse_bsr((2,2)),A) | grad(lambda x:x.to_sparse_bsc((2,2)),A)
grad(lambda x:T.sparse_bsr_tensor(b.crow_indices(),b.col_indices(),x,(4,6)),b.values())
grad(lambda x:x.to_sparse_csr(),A)
b.float() is b | copy.copy(b)
""".strip()
ALL = [one.strip() for line in EXPRESSIONS.splitlines() for one in line.split(" | ")]


def names(T):
    A = T.tensor([[1.0, 2, 0, 0, 0, 0], [3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 5, 6], [0, 0, 0, 0, 0, 7]])
    return {
        "T": T, "F": T.nn.functional, "copy": copy, "pickle": pickle, "A": A, "b": A.to_sparse_bsr((2, 2)),
        "c": A.to_sparse_bsc((2, 3)), "s": A.to_sparse(), "r": A.to_sparse_csr(), "k": A.to_sparse_csc(),
        "D": T.arange(12.0).reshape(6, 2), "M": T.arange(4.0), "B": T.ones(4, 2), "grad": gradient,
    }  # fmt: skip


def gradient(function, start):
    x = start.detach().clone().requires_grad_()
    y = function(x).to_dense()
    weights = sum(i * row for i, row in enumerate(y.detach().reshape(-1).new_ones(y.numel()).diag_embed()))
    (y.reshape(-1) * weights).sum().backward()
    return x.grad


def outcome(T, expression):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(eval(expression, names(T)))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("expression", ALL)
def test_expressions_are_pytorchs(expression):
    ours, theirs = outcome(plugrad, expression), outcome(torch, expression)
    if isinstance(ours, type) and isinstance(theirs, type):
        assert issubclass(ours, theirs) or issubclass(theirs, ours)
    else:
        assert ours == theirs


FORMS = {
    "dense": lambda x: x.to_dense(), "coo": lambda x: x.to_sparse(), "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(), "bsr": lambda x: x.to_sparse_bsr((2, 3)),
    "bsc": lambda x: x.to_sparse_bsc((2, 3)), "other blocks": lambda x: x.to_sparse_bsr((1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("first, second", [*itertools.product(FORMS, FORMS)])
def test_conversions_between_all_layouts_keep_the_matrix_and_pass_gradients(first, second):
    A = names(plugrad)["A"].double().requires_grad_()
    there = FORMS[second](FORMS[first](A))
    assert plugrad.equal(there.to_dense(), A)
    assert "dense" == second or str(there.layout).endswith({"other blocks": "bsr"}.get(second, second))
    there.to_dense().square().sum().backward()
    assert plugrad.equal(A.grad, 2 * A.detach())


# What PyTorch refuses of blocks gives here what the dense matrix does.
@pytest.mark.parametrize("expression, expected", [
    ("c @ D", "A @ D"), ("b @ b.t()", "A @ A.t()"), ("b / 2", "A / 2"), ("b - b", "A - A"), ("b * b", "A * A"),
    ("b * A", "A * A"), ("A + b", "A + A"), ("b**2", "A**2"), ("b.sum(0)", "A.sum(0)"), ("b.T", "A.T"),
    ("b + r", "A + A"), ("s * b", "A * A"), ("b + A.to_sparse_bsr((1, 2))", "A + A"), ("b.unsqueeze(0)", "A[None]"),
    ("b.index_select(0, T.tensor([2, 0]))", "A[[2, 0]]"), ("T.addmm(B, c, D)", "B + A @ D"),
    ("D.t() @ c.t()", "(A @ D).t()"),
    ("r + k", "A + A"), ("T.eye(2).to_sparse_csr() + T.ones(2, 2).triu(1).to_sparse_csc()", "T.ones(2, 2).triu()"),
])  # fmt: skip
def test_what_is_there_beyond_pytorch(expression, expected):
    space = names(plugrad)
    assert plugrad.equal(eval(expression, space).to_dense(), eval(expected, space))


def test_rows_and_columns_of_the_same_numbers_are_different_matrices():
    by_rows = plugrad.sparse_csr_tensor([0, 1, 1], [1], [3.0], (2, 2))
    by_columns = plugrad.sparse_csc_tensor([0, 1, 1], [1], [4.0], (2, 2))
    assert (by_rows + by_columns).to_dense().tolist() == [[0.0, 3.0], [4.0, 0.0]]


@pytest.mark.parametrize("function", [
    lambda b, c, d: b @ d, lambda b, c, d: c @ d, lambda b, c, d: d.t() @ b.t(), lambda b, c, d: (b + b * 2).to_dense(),
    lambda b, c, d: (b @ c.t()).to_dense(), lambda b, c, d: b.sin().to_dense(), lambda b, c, d: b @ d[:, 0],
    lambda b, c, d: plugrad.nn.functional.linear(d.t(), c), lambda b, c, d: (b * (d @ d.t())[:4]).to_dense(),
    lambda b, c, d: (b * b).to_dense(), lambda b, c, d: b.to_sparse_csc().to_sparse_bsc((2, 2)).t().to_dense(),
    lambda b, c, d: b.sum(0).to_dense(), lambda b, c, d: (d @ d.t())[:4].sparse_mask(b).to_dense(),
])  # fmt: skip
def test_gradients_reach_blocks_and_dense_operands(function):
    space = names(plugrad)
    tensors = [*(space[name].values().double() for name in "bc"), space["D"].double().cos()]
    inputs = [one.requires_grad_() for one in tensors]

    def run(first, second, d):
        b, c = space["b"], space["c"]
        b = plugrad.sparse_bsr_tensor(b.crow_indices(), b.col_indices(), first, b.shape)
        return function(b, plugrad.sparse_bsc_tensor(c.ccol_indices(), c.row_indices(), second, c.shape), d)

    assert plugrad.autograd.gradcheck(run, inputs) and plugrad.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_a_leaf_in_blocks_gets_a_gradient_in_its_blocks_and_is_written_in_place():
    b = names(plugrad)["b"].requires_grad_()
    for _ in range(2):
        (b @ names(plugrad)["D"]).sum().backward()
    assert b.grad.layout is plugrad.sparse_bsr and b.grad.values().shape == (2, 2, 2)
    with plugrad.no_grad():
        b -= b.grad
    assert b.layout is plugrad.sparse_bsr and b.values()[0].tolist() == [[-1.0, -8.0], [1.0, -10.0]]
    plugrad.save(b.detach(), file := io.BytesIO())
    file.seek(0)
    assert plugrad.equal(plugrad.load(file).to_dense(), b.detach().to_dense())


def test_compressed_tensors_are_said_to_be_in_beta_once(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, warnings\n"
        "torch = __import__(sys.argv[1])\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    torch.ones(2, 2).to_sparse()\n"
        "    for _ in range(2):\n"
        "        torch.ones(2, 2).to_sparse_bsr((1, 2))\n"
        "        torch.ones(2, 2).to_sparse_csr()\n"
        "print([(str(one.message)[:43], one.category.__name__, one.filename == __file__) for one in caught])\n"
    )
    ours, theirs = (output(None, cwd=tmp_path, arguments=(str(program), name)) for name in ("plugrad", "torch"))
    assert ours == theirs and "beta" in ours


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", ["sparse_bsr", "sparse_bsc"])
def test_gradcheck_takes_blocks(layout, masked):
    given, seen = plugrad.arange(1.0, 13.0).reshape(2, 6).double(), []
    x = given.to_sparse(layout=getattr(plugrad, layout), blocksize=(1, 3)).requires_grad_()

    def function(x):
        seen.append(x.to_dense().detach())
        return x.to_dense().sin()

    assert plugrad.autograd.gradcheck(function, x, masked=masked)
    assert plugrad.equal(seen[0], given)  # each element stands in its place
