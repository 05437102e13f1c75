"""Sparse tensors without dimensions, results in `out=` and in place, other sizes: plugrad and PyTorch side by side."""

from __future__ import annotations

import io
import pickle
import re
import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")
warnings.filterwarnings("ignore", message="Sparse")

EXPRESSIONS = """
n | n.sin() | n + n | n*2 | n.to_dense() | o + n | u0.coalesce() | u0.to_dense() | o.to_sparse(1) | n.sum()
D.to_sparse(0) | D.to_sparse(3) | T.sin(i, out=s.clone()) | T.sin(i, out=i.clone()) | i.clone().sin_()
i.clone().neg_() | T.add(s, s, out=s.clone()) | T.mm(s, D.t(), out=T.zeros(2, 2)) | T.sin(s, out=T.zeros(2, 3))
T.sin(r, out=s.clone()) | u.clone().sin_() | u.clone().neg_() | u.clone().coalesce().sin_() | u.clone().relu_()
s.conj() | s//2 | D + T.ones(3).to_sparse() | s.div(2, rounding_mode="floor") | s.div(2, rounding_mode="trunc") | s/s
s//s | s.clone().div_(2, rounding_mode="floor") | T.zeros(2, 3, layout=T.sparse_coo)
T.zeros((2, 3), layout=T.sparse_csr) | T.zeros(0, layout=T.sparse_coo)
T.empty(2, 3, layout=T.sparse_coo, dtype=T.float64) | T.zeros(2, layout=T.sparse_coo, requires_grad=True)
T.ones(2, layout=T.sparse_coo) | T.rand(2, layout=T.sparse_coo) | T.zeros(-1, layout=T.sparse_coo) | s.new_empty((2,))
s.new_zeros((2, 2), dtype=T.float64) | s.new_zeros(3, layout=T.strided) | T.stack([s, s]) | T.stack([s, s], -1)
T.cat([s, D]) | T.cat([s, D.to_sparse(1)]) | T.cat([s, o.to_sparse()]) | T.cat((s, T.ones(3, 3).to_sparse()), 1)
T.cat((h, h * 2), 2) | T.cat((h, T.ones(2, 2, 1).to_sparse(2)), -1) | T.cat((h, T.ones(2, 1, 3).to_sparse(2)), -1)
T.cat((s, T.ones(3, 3).to_sparse())) | s.permute(0) | s.permute(0, 0) | h.permute(2, 0, 1) | h.permute(1, 0, 2)
s.permute(0, 1, 2) | s.clone().copy_(D) | D.clone().copy_(s) | s.clone().copy_(T.ones(3, 3).to_sparse())
s.clone().copy_(o.to_sparse()) | s.narrow_copy(0, 1, 1) | s.narrow_copy(1, 1, 2) | h.narrow_copy(2, 1, 2)
s.narrow_copy(0, 1, 2) | s.clone().resize_as_(h) | s.clone().resize_as_(T.ones(3, 4).to_sparse())
s.clone().sparse_resize_((4, 4), 2, 0) | s.clone().sparse_resize_((1, 4), 2, 0)
s.clone().sparse_resize_((2, 3), 1, 1) | s.clone().sparse_resize_((2, 3), 1, 0)
s.clone().sparse_resize_and_clear_((4, 4), 1, 1) | h.clone().sparse_resize_((3, 2, 2), 2, 1)
T.resize_as_sparse_(s.clone(), T.ones(2, 4).to_sparse()) | u.index_select(0, T.tensor([1, 0, 1]))
T.sparse_coo_tensor([[0]], T.tensor(2.0), (3,))
T.sparse_coo_tensor(T.zeros((0, 1), dtype=T.int64), T.tensor(2.0), ()) | s.index_select(1, T.tensor([2, 2, 0]))
u.index_select(0, T.tensor([], dtype=T.int64)) | h.index_select(0, T.tensor([1, 0, 1]))
T.bmm(b, D[:, :, None].expand(2, 3, 2)) | T.bmm(b, b.transpose(1, 2)) | T.bmm(D[None].expand(2, 2, 3), b)
T.bmm(b, D) | s[:, 1] | s[0, :] | b[:, 1, :] | b[None, 0] | b[0, None, 1] | b[:, :, -1] | s[0, 1] | s[:, 9] | s[:]
s[:1] | s.__setitem__(0, 1) | s.__setitem__((0, 1), 2.0) | s.__setitem__(..., D) | r.__setitem__(0, 1) 
D.__setitem__(..., s)
T.masked.sum(s, 1) | T.masked.sum(s, 0, keepdim=True) | T.masked.sum(i, 1) | T.masked.sum(u, 0, dtype=T.float64)
T.masked.prod(s, 1, mask=m) | T.masked.prod(s, 1, mask=m.to_sparse()) | T.masked.amax(s, 0, mask=m) | T.masked.amin(s)
T.masked.amin(T.sparse_coo_tensor(size=(2, 3)), 0, mask=m) | T.masked.prod(n, mask=T.tensor(True))
T.masked.amax(i, 1, keepdim=True, mask=m[0]) | T.masked.amin(T.sparse_coo_tensor(size=(2, 3)), 0) | T.masked.prod(n)
T.masked.amax(s, mask=m & False).to_dense() | T.masked.sum(h, 0).to_dense() | T.masked.sum(D, 0, mask=m)
T.masked.sum(D, 1, mask=m.to_sparse()) | T.masked.mean(r, 1, keepdim=True, mask=m) | T.masked.mean(i, 0)
B | B.to_sparse() | B.to_sparse_csc() | B.to_sparse_bsr((1, 1)) | B.transpose(1, 2) | B.transpose(0, 1) | B[1] | B[1, 0]
B[0, 1, 2] | B.select(2, 0) | T.select_copy(B, 1, 0) | B * 2 | -B
B + B | B.sum() | B.clone() | B.double() | T.zeros_like(B)
B.to_dense() | n * T.tensor(2).to_sparse() | T.tensor(2).to_sparse() * n | u0 * n | n * u0
T.zeros_like(B, layout=T.sparse_csc) | T.ones_like(B) | T.full_like(B, 2.0) | B.dense_dim()
T.empty_like(B, layout=T.strided) | T.ones_like(s) | A.to_sparse_csr(dense_dim=1) | A.to_sparse_bsr((1, 2), dense_dim=1)
A.to_sparse_csr(dense_dim=1).sin() | A.to_sparse_csr(dense_dim=1).to_sparse_bsr((2, 2))
A.to_sparse_csr(dense_dim=1)[0] | A.to_sparse_bsc((2, 1)) | A.to_sparse_bsc((2, 1)).transpose(1, 2)
A.to_sparse_bsc((2, 1)).to_sparse_bsr((2, 1)) | A.to_sparse_csr(dense_dim=2) | A.to_sparse_csr(dense_dim=1).t()
A.to_sparse(2).to_sparse_csr() | A.to_sparse().to_sparse_csr() | B.to_sparse(2) | A.to_sparse(2).to_sparse_bsr((1, 1))
(A > 1).to_sparse_csr() | D[0].to_sparse_csr() | T.zeros(2, 3, 4, layout=T.sparse_csr)
T.zeros(2, 3, layout=T.sparse_bsr) | T.sparse.sampled_addmm(B, A[:, :, :2], A) | T.addmv(T.ones(2), r, T.ones(3))
A.sparse_mask(B) | A.sparse_mask(A.to_sparse_csr(dense_dim=1)) | r.clone().resize_as_sparse_(s)
r.clone().resize_as_sparse_(D) | s.to_sparse(1) | T.select_copy(r, 0, 1) | I.crow_indices() | (I * 2).col_indices()
I.to_sparse_csc().row_indices() | T.zeros_like(I).crow_indices() | I.to_sparse_bsr((1, 1)).crow_indices()
I.to_sparse().indices() | T.sparse_csr_tensor([[0, 1], [0, 1]], [[0], [1]], [[[1.0, 2]], [[3, 4]]])
T.sparse_bsr_tensor([[0, 1], [0, 1]], [[0], [1]], [[[[1.0, 2]]], [[[3, 4]]]])
T.sparse_csr_tensor([[0, 1]], [0], [1.0]) | T.sparse_csr_tensor(0, 0, [1.0]) | T.sparse_bsr_tensor([0, 1], [0], [1.0])
T.sparse.spdiags(D, T.tensor([[0, 1]]), (3, 3)) | T.sparse.spdiags(D, T.tensor([0.0, 1]), (3, 3))
T.sparse.spdiags(A, T.tensor([0]), (3, 3)) | T.sparse.spdiags(D[:1], T.tensor([0]), (3, 3), T.strided)
s * A | A * s | h * D | D * h | s * n | n * s | h * n | n * n | n * D | A.clone().mul_(s) | D.clone().mul_(s)
s.clone().mul_(T.ones(3)) | s.long() * n | s * T.ones(2) | T.masked.sum(s * 0, (0, 1))
T.masked.amax(s * 0, (), mask=m, keepdim=True) | T.masked.sum(r, 0, keepdim=True)
T.masked.amax(r, (0, 1), keepdim=True) | T.masked.sum(b, (0, 2)) | T.masked.sum(s, 2)
""".strip()
ALL = [expression.strip() for line in EXPRESSIONS.splitlines() for expression in line.split(" | ")]


def names(T):
    D = T.tensor([[0.0, 1.5, -2.0], [3.0, 0.0, 4.0]])
    no_dims = T.zeros((0, 2), dtype=T.int64)
    return {
        "T": T, "D": D, "o": T.tensor(2.0), "n": T.tensor(3.0).to_sparse(), "s": D.to_sparse(), "r": D.to_sparse_csr(),
        "i": D.long().to_sparse(), "m": D > 0, "u": T.sparse_coo_tensor([[0, 0], [1, 1]], [0.25, 0.5], (2, 3)),
        "u0": T.sparse_coo_tensor(no_dims, T.tensor([2.0, 3.0]), ()), "h": T.ones(2, 2, 3).to_sparse(2),
        "b": T.arange(12.0).reshape(2, 2, 3).to_sparse(), "A": T.arange(12.0).reshape(2, 2, 3),
        "B": T.tensor([[[1.0, 0, 2], [0, 3, 0]], [[0, 4, 0], [5, 0, 6]]]).to_sparse_csr(),
        "I": T.sparse_csr_tensor(T.tensor([0, 1, 2], dtype=T.int32), T.tensor([1, 0], dtype=T.int32), T.ones(2)),
    }  # fmt: skip


def outcome(expression, T):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return repr(eval(expression, names(T)))
        except Exception as error:
            return error


@pytest.mark.parametrize("expression", ALL)
def test_the_same_on_both(expression):
    theirs, ours = outcome(expression, torch), outcome(expression, plugrad)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"{theirs!r}\n{ours!r}"
    else:
        assert ours == theirs


def test_masked_reductions_of_sparse_tensors_pass_the_gradients_of_dense_ones():
    dense = plugrad.tensor([[0.0, 1.5, -2.0], [3.0, 0.0, 4.0]], dtype=plugrad.float64)
    mask = plugrad.tensor([[True, False, True], [True, False, True]])
    for reduce in (plugrad.masked.sum, plugrad.masked.mean, plugrad.masked.amax):
        sparse, same = dense.to_sparse().requires_grad_(), dense.clone().requires_grad_()
        reduce(sparse, 1, mask=mask).to_dense().square().sum().backward()
        reduce(same, 1, mask=mask).square().sum().backward()
        assert plugrad.equal(sparse.grad.to_dense(), same.grad * (dense != 0))  # an element without entry has none


def test_gradients_pass_through_tensors_without_dimensions_and_products_in_batches():
    grads = {}
    for T in (torch, plugrad):
        x = T.tensor(3.0, requires_grad=True)
        (x.to_sparse() * 2).to_dense().backward()
        dense = T.arange(12.0).reshape(2, 3, 2).requires_grad_()
        batch = T.arange(1.0, 13.0).reshape(2, 2, 3).to_sparse().requires_grad_()
        T.bmm(batch, dense).square().sum().backward()
        grads[T] = [x.grad.tolist(), dense.grad.tolist(), batch.grad.to_dense().tolist()]
    assert grads[torch] == grads[plugrad]


def test_invalid_compressed_tensors_are_refused_with_the_invariant_that_is_broken():
    for error, parts in {
        "crow_indices[..., 0] == 0": ([1, 1], [0], [1.0], (1, 2)),
        "crow_indices[..., -1] == nnz": ([0, 2], [0], [1.0], (1, 2)),
        "0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols": ([0, 2, 1], [0], [1.0], (2, 2)),
        "0 <= col_indices < ncols": ([0, 1], [2], [1.0], (1, 2)),
        "are sorted and distinct": ([0, 2], [1, 0], [1.0, 2.0], (1, 2)),
        "(=0 + 2 + 0) but got 3": ([0, 1], [0], [1.0], (1, 1, 1)),
        "all batch dimensions of the provided size ([2])": ([[0, 1]], [[0]], [[1.0]], (2, 1, 1)),
        "must be equal to nnz (=2)": ([0, 1], [0], [1.0, 2.0], (1, 2)),
        "number of rows + 1 (=3)": ([0, 1], [0], [1.0], (2, 2)),
    }.items():
        with pytest.raises(RuntimeError, match=re.escape(error)):
            plugrad.sparse_csr_tensor(*parts)
    with pytest.raises(RuntimeError, match="must be divisible with blocksize"):
        plugrad.sparse_bsr_tensor([0, 1], [0], [[[1.0, 2.0]]], (1, 3))
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        plugrad.tensor([[[1.0, 0]], [[1, 1]]]).to_sparse_csr()


@pytest.mark.parametrize("layout", ["sparse_csr", "sparse_bsc"])
def test_gradients_reach_batches_of_matrices_with_dense_parts(layout):
    x = plugrad.arange(24.0, dtype=plugrad.float64).reshape(2, 2, 2, 3).requires_grad_()
    blocksize = (1, 2) if layout == "sparse_bsc" else None
    sparse = x.to_sparse(layout=getattr(plugrad, layout), blocksize=blocksize, dense_dim=1)
    (sparse * sparse.to_sparse().to_dense()).to_dense().sum().backward()
    assert plugrad.equal(x.grad, 2 * x)
    assert plugrad.equal(sparse.select(3, 1).to_dense(), x.select(3, 1))
    leaf = sparse.detach().requires_grad_()
    assert plugrad.autograd.gradcheck(lambda x: x.to_dense().square(), leaf, masked=True)
    assert plugrad.autograd.gradcheck(lambda x: x.to_dense(masked_grad=False).square(), leaf, masked=False)
    leaf.sum().backward()
    assert leaf.grad.tolist() == plugrad.ones(2, 2, 2, 3).tolist()


def test_batches_of_compressed_matrices_are_pickled_and_saved_with_their_indices():
    x = plugrad.arange(1.0, 9.0).reshape(2, 2, 2).to_sparse_bsr((1, 2))
    file = io.BytesIO()
    plugrad.save(x, file)
    file.seek(0)
    for one in (pickle.loads(pickle.dumps(x)), plugrad.load(file)):
        assert one.layout is plugrad.sparse_bsr and one.crow_indices().tolist() == x.crow_indices().tolist()
        assert plugrad.equal(one.to_dense(), x.to_dense())


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
@pytest.mark.parametrize("masked", [True, False])
def test_gradcheck_takes_sparse_inputs(layout, masked):
    x = plugrad.tensor([[0, 1.5, 0], [2, 0, -1]], dtype=plugrad.float64).to_sparse(layout=getattr(plugrad, layout))
    x.requires_grad_()
    w = plugrad.arange(6.0, dtype=plugrad.float64).reshape(3, 2).requires_grad_()
    check = plugrad.sparse.as_sparse_gradcheck(plugrad.autograd.gradcheck)
    assert check(plugrad.sparse.mm, (x, w), masked=masked)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        check(lambda x, w: plugrad.sparse.mm(x, w.detach()), (x, w), masked=masked)


def test_gradcheck_densifies_sparse_results():
    x = plugrad.tensor([[0, 1.5], [2, 0]], dtype=plugrad.float64).to_sparse().requires_grad_()
    assert plugrad.autograd.gradcheck(lambda x: x * x, x, masked=True)
    assert plugrad.autograd.gradgradcheck(lambda x: x * x, x, masked=True)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_gradients_are_added_in_pytorchs_order():
    found = {}
    for T in (torch, plugrad):

        class Fixed(T.autograd.Function):
            @staticmethod
            def forward(ctx, x, part):
                ctx.part = part
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return ctx.part, None

        x = T.zeros(6, requires_grad=True)
        parts = [T.sparse_coo_tensor([places], T.ones(2), (6,)) for places in ([1, 0], [3, 2], [5, 4])]
        one, two, three = [Fixed.apply(x, part) for part in parts]
        (one + two + three).sum().backward()
        found[T] = x.grad._indices().tolist(), x.grad._values().tolist()
    assert found[torch] == found[plugrad]


def test_sums_of_sparse_tensors_have_gradients_everywhere():
    for layout in ("sparse_coo", "sparse_csr"):
        x = plugrad.tensor([[0, 1.5], [2, 0]]).to_sparse(layout=getattr(plugrad, layout)).requires_grad_()
        for options in ({"dim": 0}, {"dim": 1, "keepdim": True}, {"dim": (0, 1)}, {}):
            y, x.grad = x.sum(**options), None
            (y.to_dense() * plugrad.arange(1.0, 1 + y.numel()).reshape(y.shape)).sum().backward()
            same = plugrad.tensor([[0, 1.5], [2, 0]], requires_grad=True)
            z = same.sum(**options)
            (z * plugrad.arange(1.0, 1 + z.numel()).reshape(z.shape)).sum().backward()
            assert plugrad.equal(x.grad, same.grad)


def test_differences_with_unsigned_sparse_tensors_are_promoted_first():
    x, y = plugrad.tensor([5, 300], dtype=plugrad.int16), plugrad.tensor([2, 0], dtype=plugrad.uint8)
    assert (x - y.to_sparse()).tolist() == (x.to_sparse() - y.to_sparse()).to_dense().tolist() == [3, 300]


def test_products_of_sparse_tensors_broadcast():
    a, b = plugrad.tensor([[0, 1.5], [2, 3]]), plugrad.tensor([[1.0, 0]])
    assert plugrad.equal((a.to_sparse() * b.to_sparse()).to_dense(), a * b)
    assert plugrad.equal(plugrad._sparse_broadcast_to(b.to_sparse(), (3, 2, 2)).to_dense(), b.expand(3, 2, 2))
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        a.to_sparse() * plugrad.ones(3).to_sparse()


def test_arguments_of_sparse_tensors_are_validated_without_making_one():
    values = plugrad.ones(1)
    assert plugrad._validate_sparse_coo_tensor_args(plugrad.tensor([[1]]), values, (2,)) is None
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        plugrad._validate_sparse_coo_tensor_args(plugrad.tensor([[5]]), values, (2,))
    with pytest.raises(RuntimeError):
        plugrad._validate_sparse_compressed_tensor_args(
            plugrad.tensor([1, 1]), plugrad.tensor([0]), values, (1, 2), plugrad.sparse_csr
        )


FORMS = {
    "coo": lambda T: T.eye(2).to_sparse(),
    "csr": lambda T: T.eye(2).to_sparse_csr(),
    "nested": lambda T: T.nested.nested_tensor([T.ones(2), T.ones(2)]),
    "jagged": lambda T: T.nested.nested_tensor([T.ones(2), T.ones(2)], layout=T.jagged),
    "dense": lambda T: T.ones(2, 2),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("form", FORMS)
def test_data_has_the_form_of_the_tensor(form):
    for other, make in FORMS.items():
        x = FORMS[form](plugrad)
        if other == form:
            x.data = make(plugrad)
            continue
        with pytest.raises(RuntimeError, match="incompatible tensor type"):
            x.data = make(plugrad)
    with pytest.raises(TypeError, match="data has to be a tensor"):
        x.data = 3


@pytest.mark.parametrize("form", ["coo", "csr"])
@pytest.mark.parametrize("name", ["__add__", "__radd__", "add", "sub", "__mul__", "__rmul__", "div"])
def test_integers_beyond_64_bits_are_refused_by_sparse_tensors(form, name):
    for T in (plugrad, torch):
        with pytest.raises(OverflowError, match="int too big to convert"):
            getattr(FORMS[form](T), name)(2**70)


def test_methods_of_sparse_tensors_are_found_through_the_class_tensor():
    x = plugrad.tensor([[0, 2], [3, 0]]).to_sparse()
    assert plugrad.Tensor.values(x).tolist() == [2, 3] and plugrad.Tensor._nnz(x) == 2
    assert plugrad.Tensor.crow_indices(x.to_sparse_csr()).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="got Strided"):
        plugrad.Tensor.values(plugrad.ones(2))


def test_elements_and_sums_of_sparse_integers_have_pytorchs_dtypes():
    for module in (plugrad, torch):
        x = module.tensor([[1, 0], [2, 3]], dtype=module.int32).to_sparse()
        dtypes = [t.dtype for t in (x[0, 1], x[0], x.sum(), x.sum(0), module.sparse.sum(x, 0))]
        assert [str(dtype) for dtype in dtypes] == [f"torch.int{n}" for n in (32, 32, 64, 64, 32)]
