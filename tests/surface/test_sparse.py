"""Sparse tensors on plugrad and on PyTorch side by side: texts, results, errors; gradients, optimizers, files."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")
torch.sparse.check_sparse_tensor_invariants.disable()  # said aloud: else it warns once, of having been told nothing

EXPRESSIONS = """
s | s.coalesce() | m | s*2 | 2*s | s/2 | -s | s+s | s-s | m.coalesce() | s.to_dense() | m.to_dense() | c
c.to_dense() | h | s.to_sparse_csr() | s.to_sparse_csc() | c.to_sparse() | c.to_sparse_coo() | h.to_dense()
h.coalesce() | e | s@D | c@D | T.sparse.mm(s, D) | T.mm(s, D) | s.mm(D) | s.matmul(D) | s@D[:, 0] | T.mv(s, D[:, 0])
c.mv(D[:, 0]) | D.t()@s.t() | s@s.t() | T.sparse.mm(m, s.t()) | T.sparse.addmm(B, s, D, beta=2, alpha=3)
T.addmm(B, s, D) | T.smm(s, D) | T.hspmm(s, D) | s.sum() | T.sparse.sum(s) | T.sparse.sum(s, 0) | T.sparse.sum(s, 1)
T.sparse.sum(s, (0, 1)) | T.sparse.sum(h, 0) | T.sparse.sum(h, 1) | s.sum(0) | T.sparse.sum(s, 0, dtype=T.float64)
T.sparse.softmax(s, 1) | T.sparse.softmax(s, 0) | T.sparse.log_softmax(s, 1) | T.sparse.softmax(h, 0)
T.sparse.softmax(h, 1) | T.sparse.softmax(s, 1, dtype=T.float64) | s.t() | s.transpose(0, 1) | c.t() | s.permute(1, 0)
s.unsqueeze(0) | s.unsqueeze(-1) | T.cat([s, s]) | T.cat([s, s], 1) | s.index_select(0, T.tensor([1, 0, 1]))
s.index_select(1, T.tensor([2])) | s[0] | s[0, 2] | s[1] | h[1] | s.select(0, 1) | list(s) | len(s)
s.layout, c.layout | s.is_sparse, s.is_sparse_csr, c.is_sparse, c.is_sparse_csr
s._nnz(), h.sparse_dim(), h.dense_dim(), s.numel(), c._nnz() | s.indices() | s.values() | s._indices() | m._values()
m.indices() | m.values() | c.crow_indices() | c.col_indices() | c.values() | c.indices() | s.crow_indices()
s.is_coalesced() | m.is_coalesced() | s.t().is_coalesced() | c.is_coalesced() | s.stride() | s.is_contiguous()
s.numpy() | s.data_ptr() | s.tolist() | s.item() | s.nbytes | s.exp() | s.cos() | s.view(6) | s.mean() | s == s
s + 1 | s + T.ones(2, 3) | T.ones(2, 3) + s | T.ones(2, 3) - s | T.ones(2, 3)*s | s*T.ones(2, 3) | s.max()
s*T.ones(3) | s.sqrt() | m.sqrt() | s.abs() | T.relu(s) | s.norm() | s**2 | s.square() | s.sin() | s.double()
s.any() | s.to(T.float64) | s.to(T.float32) is s | s.half() | s.long() | s.clone() | s.detach() | T.zeros_like(s)
bool(s) | c.clone() | D.sparse_mask(s.t().coalesce()) | s.sparse_mask(s) | T.eye(3).to_sparse()
T.ones(2, 2).to_sparse(1) | T.eye(2).to_sparse_csr() | T.eye(2).to_sparse(layout=T.sparse_csr) | T.eye(2).to_dense()
T.eye(2).coalesce() | T.eye(2).indices() | T.eye(2).values() | T.eye(2).crow_indices() | T.eye(2).sparse_dim()
T.eye(2).dense_dim() | T.sparse_coo_tensor([[0, 1]], [1.0], (3,)) | T.sparse_coo_tensor([[0.5, 1]], [1.0, 2.0], (3,))
T.sparse_coo_tensor([[0, 1]], [1.0, 2.0]) | T.sparse_coo_tensor((2, 3)) | T.sparse_coo_tensor(size=(2, 3))
T.sparse_coo_tensor([[0, 1]], [1, 2]) | T.sparse_coo_tensor([0, 1], [1, 2])
T.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 2)) | T.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), dtype=T.float64)
T.sparse_coo_tensor([[0, 1]], T.ones(2, 2), (3, 3))
T.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), requires_grad=True)
T.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0]) | T.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 4))
T.sparse_csc_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (4, 2)) | T.sparse.spdiags(D.t(), T.tensor([0, 1]), (3, 3))
T.sparse_compressed_tensor([0, 1, 2], [0, 1], [1.0, 2.0], layout=T.sparse_csr) | T.sparse.mm(s, s) | copy.deepcopy(s)
T.sparse.sampled_addmm(T.eye(2).to_sparse_csr(), T.ones(2, 3), T.ones(3, 2)).to_dense() | s.clone().add_(s)
s.clone().mul_(2) | T.ones(2, 3).add_(s) | s.clone().zero_() | pickle.loads(pickle.dumps(s))
pickle.loads(pickle.dumps(c)) | c*2 | c + c | c.sum() | c.abs() | c.sin() | s.cpu() | c.double()
F.linear(T.ones(2, 3), c, T.ones(2)) | F.linear(T.ones(4, 2, 3), s) | F.linear(T.ones(3), m) | F.linear(s, c)
F.linear(T.ones(2, 3), c, T.ones(3)) | F.linear(T.ones(2, 2), c) | T.empty_like(s, memory_format=T.preserve_format)
T.add(s, s, alpha=2) | T.add(D.t(), s, alpha=2) | isinstance(s, T.Tensor)
""".strip()
ALL = [expression.strip() for line in EXPRESSIONS.splitlines() for expression in line.split(" | ")]


def names(T):
    pairs = T.tensor([[0, 1, 1], [2, 0, 2]])
    return {
        "T": T, "F": T.nn.functional, "copy": copy, "pickle": pickle, "D": T.arange(6.0).reshape(3, 2) - 2.5,
        "B": T.ones(2, 2),
        "s": T.sparse_coo_tensor(pairs, T.tensor([3.0, 4.0, 5.0]), (2, 3)).coalesce(),
        "m": T.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, -1.0], (2, 3)),
        "c": T.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0], (2, 3)),
        "h": T.sparse_coo_tensor([[0, 2, 0]], [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], (4, 2)),
        "e": T.sparse_coo_tensor(T.zeros(2, 0, dtype=T.long), T.zeros(0), (2, 3)),
    }  # fmt: skip


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


PLACES = plugrad.tensor([[0, 1, 1, 2, 0], [2, 0, 2, 1, 2]])


def sparse(values):
    return plugrad.sparse_coo_tensor(PLACES, values, (3, 3))


@pytest.mark.parametrize(
    "function",
    [
        lambda v, d: plugrad.sparse.mm(sparse(v), d),
        lambda v, d: d.t() @ sparse(v),
        lambda v, d: sparse(v).to_sparse_csr() @ d,
        lambda v, d: sparse(v).to_sparse_csc().t() @ d,
        lambda v, d: (sparse(v) @ sparse(v).t()).to_dense(),
        lambda v, d: plugrad.sparse.sum(sparse(v), 0).to_dense(),
        lambda v, d: plugrad.sparse.softmax(sparse(v), 1).to_dense(),
        lambda v, d: plugrad.sparse.log_softmax(sparse(v), 0).to_dense(),
        lambda v, d: (sparse(v) * (d @ d.t())).to_dense(),
        lambda v, d: (sparse(v) * sparse(v * v)).to_dense(),
        lambda v, d: d @ d.t() + sparse(v),
        lambda v, d: (sparse(v) + sparse(v * v) * 2).to_dense(),
        lambda v, d: plugrad.sparse.addmm(d, sparse(v), d, alpha=2, beta=0.5),
        lambda v, d: sparse(v).sin().to_dense(),
        lambda v, d: sparse(v).index_select(0, plugrad.tensor([2, 0, 0])).to_dense(),
        lambda v, d: (d @ d.t()).sparse_mask(sparse(v)).to_dense(),
        lambda v, d: plugrad.sparse.sampled_addmm(sparse(v).to_sparse_csr(), d, d.t()).to_dense(),
        lambda v, d: sparse(v)[1].to_dense(),
    ],
)
def test_gradients_reach_values_and_dense_operands(function):
    v = plugrad.tensor([0.5, -1.0, 2.0, 0.3, 1.5], dtype=plugrad.float64, requires_grad=True)
    d = plugrad.tensor([[1.0, -0.5], [0.2, 0.7], [-1.2, 0.4]], dtype=plugrad.float64, requires_grad=True)
    assert plugrad.autograd.gradcheck(function, (v, d)) and plugrad.autograd.gradgradcheck(function, (v, d))


def test_a_sparse_leaf_gets_a_sparse_gradient():
    leaf = sparse(plugrad.arange(5.0)).coalesce().requires_grad_()
    dense = leaf.detach().to_dense().requires_grad_()
    d = plugrad.arange(6.0).reshape(3, 2)
    for weight in (leaf, dense):
        ((weight @ d) ** 2).sum().backward()
        ((weight @ d) ** 2).sum().backward()
    assert leaf.grad.is_sparse and leaf.grad.is_coalesced()
    assert plugrad.equal(leaf.grad.values(), dense.grad.sparse_mask(leaf.detach()).values())
    (first,) = plugrad.autograd.grad(((leaf @ d) ** 2).sum(), leaf, create_graph=True)
    assert first.is_sparse and first.requires_grad
    with pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.mul_(2)


def test_what_has_no_rule_is_refused_with_a_way_out():
    with pytest.raises(NotImplementedError, match=r"'exp'.*x.to_dense\(\)"):
        sparse(plugrad.ones(5)).exp()
    for call in (
        lambda: plugrad.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,)),
        lambda: plugrad.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,)),
        lambda: plugrad.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0]),
        lambda: plugrad.sparse_csr_tensor([0, 2], [1, 0], [1.0, 2.0]),
    ):
        with pytest.raises(RuntimeError, match="index|indices"):
            call()


# ---------------------------------------------------------------------------------------------------- embeddings


def rows_of(T, optimizer, **options):
    layer = T.nn.Embedding(5, 3, padding_idx=2, sparse=True)
    layer.weight.data.copy_(T.arange(15.0).reshape(5, 3) / 7)
    chosen = getattr(T.optim, optimizer)([layer.weight], lr=0.1, **options)
    for step in range(4):
        chosen.zero_grad(set_to_none=step != 2)
        layer(T.tensor([[1, 2, step], [step, 4, 1]])).square().sum().backward()
        if step == 3:
            layer(T.tensor([0])).sum().backward()
        grad = layer.weight.grad
        yield grad.is_sparse, [round(value, 4) for value in grad.to_dense().reshape(-1).tolist()]
        chosen.step()
        yield [round(value, 4) for value in layer.weight.reshape(-1).tolist()]


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}),
        ("SGD", {"momentum": 0.9, "dampening": 0.5}), ("SGD", {"maximize": True}), ("Adagrad", {"lr_decay": 0.1}),
        ("SparseAdam", {}),
    ],
)  # fmt: skip
def test_embeddings_are_trained_with_sparse_gradients(optimizer, options):
    assert list(rows_of(plugrad, optimizer, **options)) == list(rows_of(torch, optimizer, **options))


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [("Adam", {}), ("RMSprop", {}), ("SGD", {"weight_decay": 0.1}), ("Adagrad", {"weight_decay": 0.1})],
)
def test_other_optimizers_refuse_them(optimizer, options):
    with pytest.raises(RuntimeError, match="sparse"):
        list(rows_of(plugrad, optimizer, **options))


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_have_sparse_gradients(mode):
    def gradient(T):
        bags = T.nn.EmbeddingBag(5, 3, mode=mode, sparse=True)
        bags.weight.data.copy_(T.arange(15.0).reshape(5, 3) / 7)
        bags(T.tensor([1, 2, 1, 4]), T.tensor([0, 2])).square().sum().backward()
        return bags.weight.grad.is_sparse, bags.weight.grad.to_dense()

    ours, theirs = gradient(plugrad), gradient(torch)
    assert ours[0] and theirs[0] and plugrad.allclose(ours[1], plugrad.tensor(theirs[1].tolist()))


def test_sparse_gradients_meet_dense_ones_and_hooks():
    w = plugrad.arange(6.0).reshape(3, 2).requires_grad_()
    chosen, seen = plugrad.tensor([0, 2, 2]), []

    def looked_up():
        return plugrad.nn.functional.embedding(chosen, w, sparse=True).sum()

    expected = [[1.0, 3.0], [4.0, 6.0], [10.0, 12.0]]
    (looked_up() + (w * w).sum()).backward()
    assert w.grad.tolist() == expected
    for first, second in ((looked_up, lambda: (w * w).sum()), (lambda: (w * w).sum(), looked_up)):
        w.grad = None
        first().backward()
        second().backward()
        assert w.grad.to_dense().tolist() == expected
    handle = w.register_hook(lambda g: seen.append(g.is_sparse))
    looked_up().backward()
    handle.remove()
    assert seen == [True]
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        plugrad.nn.functional.embedding(chosen, w, scale_grad_by_freq=True, sparse=True).sum().backward()


def test_scaled_sparse_gradients_are_unscaled():
    w = plugrad.zeros(3, 2, requires_grad=True)
    scaler, optimizer = plugrad.amp.GradScaler("cpu", init_scale=4.0), plugrad.optim.SGD([w], lr=0.5)
    scaler.scale(plugrad.nn.functional.embedding(plugrad.tensor([0, 2, 2]), w, sparse=True).sum()).backward()
    scaler.step(optimizer)
    assert w.tolist() == [[-0.5, -0.5], [0.0, 0.0], [-1.0, -1.0]]


# ---------------------------------------------------------------------------------------------------- files, modules


def test_sparse_tensors_are_saved_as_data():
    file, given = io.BytesIO(), {"s": names(plugrad)["s"], "c": names(plugrad)["c"].requires_grad_()}
    plugrad.save(given, file)
    file.seek(0)
    loaded = plugrad.load(file)
    assert repr(loaded) == repr(given) and loaded["c"].requires_grad


def test_a_graph_network_keeps_its_matrix_in_a_buffer():
    class Graph(plugrad.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = plugrad.nn.Linear(4, 2)
            self.register_buffer("matrix", plugrad.eye(5).to_sparse() * 2)

        def forward(self, x):
            return plugrad.sparse.mm(self.matrix, self.layer(x))

    graph, x = Graph().double(), plugrad.ones(5, 4, dtype=plugrad.float64)
    graph(x).sum().backward()
    assert graph.layer.weight.grad.eq(10.0).all() and graph.matrix.dtype is plugrad.float64
    other = Graph().double()
    other.load_state_dict(graph.state_dict())
    assert plugrad.equal(other(x), graph(x)) and copy.deepcopy(graph).matrix.is_sparse


def test_older_names_of_products():
    a, b = plugrad.eye(3).to_sparse(), plugrad.arange(6.0).reshape(3, 2)
    for product in (plugrad.spmm, plugrad.dsmm, lambda x, y: plugrad.hsmm(x, y).to_dense()):
        assert product(a, b).equal(b)
    assert plugrad.spmm(plugrad.eye(3), b).equal(b) and plugrad.saddmm(b, a, b).equal(2 * b)


@pytest.mark.parametrize("sparse_first", [False, True])
@pytest.mark.parametrize("create_graph", [False, True])
def test_sparse_and_dense_gradients_are_accumulated_in_any_order(sparse_first, create_graph):
    def program(torch):
        weight = torch.ones(3, 2, requires_grad=True)
        for sparse in (sparse_first, not sparse_first):
            if sparse:
                torch.nn.functional.embedding(torch.tensor([0, 2]), weight, sparse=True).mean().backward()
            else:
                (weight * 2).sum().backward(create_graph=create_graph)
        return weight.grad.is_sparse, weight.grad.to_dense().tolist()

    import torch as reference

    assert program(plugrad) == program(reference)


class Fixed(plugrad.autograd.Function):
    @staticmethod
    def forward(ctx, x, gradient):
        ctx.gradient = gradient
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return ctx.gradient, None


@pytest.mark.parametrize("walks", [1, 3])
@pytest.mark.parametrize("kinds", list(itertools.product(["coo", "csr", "strided"], repeat=3)), ids="-".join)
def test_dense_and_sparse_gradients_are_added_in_any_order(kinds, walks):
    leaf = plugrad.zeros(3, 2, requires_grad=True)
    dense = plugrad.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    made = {"coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "strided": dense + 1}
    terms = [Fixed.apply(leaf, made[kind]).sum() for kind in kinds]
    for term in [sum(terms)] if walks == 1 else terms:
        term.backward()
    expected = sum(made[kind].to_dense() for kind in kinds)
    assert plugrad.equal(leaf.grad.to_dense(), expected)


@pytest.mark.parametrize("T", [torch, plugrad])
@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**31, 2**33), (2**62, 2, 1)])
def test_places_that_64_bits_can_not_number(T, shape):
    """They would be one and the same for several indices."""
    indices = T.zeros(len(shape), 2, dtype=T.int64)
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        T.sparse_coo_tensor(indices, T.ones(2), shape)
    assert T.sparse_coo_tensor(indices[:2], T.ones(2), (2**31, 2**31)).coalesce().values().tolist() == [2]
