"""Attention on CUDA by plugrad's own kernels, against the CPU's results."""

import numpy
import pytest

import plugrad as torch
from plugrad.plugins.ops import _attention_on_cuda as ours

F, inf = torch.nn.functional, numpy.inf
DTYPES = ["float32", "float16", "bfloat16"]
BOUNDS = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}
KERNELS = {"attention", "attention_queries", "attention_keys"}


@pytest.fixture(autouse=True)
def _exact_and_without_cudnn():
    """These are tests of plugrad's own kernels, with all digits."""
    with torch.backends.cudnn.flags(enabled=False, allow_tf32=False):
        yield


def results_of(compute, leaves, device):
    """What `compute` gives on a device for leaves, and the leaves' gradients."""
    leaves = [x.to(device).detach().requires_grad_() for x in leaves]
    y = compute(*leaves)
    y.backward(torch.linspace(-1, 2, y.numel()).reshape(y.shape).to(device, y.dtype))
    return [y.detach()] + [leaf.grad for leaf in leaves]


def agree(compute, *leaves):
    """Whether both devices give the same; what is half is compared with float32 on the CPU."""
    bound = BOUNDS[str(leaves[0].dtype).removeprefix("torch.")]
    exact = [x.float() for x in leaves]
    for a, b in zip(results_of(compute, exact, "cpu"), results_of(compute, leaves, "cuda"), strict=True):
        assert a.shape == b.shape and b.dtype is leaves[0].dtype
        scale = max(1.0, a.nan_to_num().abs().max().item()) if a.numel() else 1.0
        torch.testing.assert_close(b.cpu().float(), a, rtol=bound, atol=bound * scale, equal_nan=True)


def drawn(dtype, *shapes):
    torch.manual_seed(7)
    return [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]


SIZES = [  # batch and heads, queries, keys, elements of a query and of a value
    ((2, 3), 5, 7, 4, 4), ((1, 2), 64, 64, 32, 32), ((2, 1), 40, 70, 64, 48), ((1, 2), 33, 35, 100, 128),
    ((1, 1), 1, 65, 64, 64), ((1, 1), 65, 1, 17, 33), ((3,), 9, 5, 8, 8), ((), 9, 5, 8, 8), ((1, 1), 31, 32, 128, 1),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lead, queries, keys, width, value", SIZES)
def test_sizes(lead, queries, keys, width, value, causal, dtype, launched):
    leaves = drawn(dtype, (*lead, queries, width), (*lead, keys, width), (*lead, keys, value))
    agree(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), *leaves)
    agree(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.3), *leaves)
    assert {*launched} == KERNELS


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", DTYPES)
def test_wide_heads(dtype, launched):
    """Beyond 128 elements the gradient is the formula's, by a matrix of weights; beyond 256 all is."""
    for width in (160, 256, 300):
        agree(F.scaled_dot_product_attention, *drawn(dtype, (2, 9, width), (2, 20, width), (2, 20, width)))
    assert launched.count("attention") == 2 and "attention_keys" not in launched


MASKS = {
    "one of all": (5, 7), "of each batch": (2, 1, 5, 7), "of each head": (3, 5, 7), "of keys": (2, 1, 1, 7),
    "of queries": (5, 1), "of everything": (2, 3, 5, 7),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["bool", "numbers", "transposed"])
@pytest.mark.parametrize("name", MASKS)
def test_masks(name, kind, dtype, launched):
    *leaves, mask = drawn(dtype, (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), MASKS[name])
    if kind == "transposed":
        mask = mask.mT.contiguous().mT
    if kind == "bool":
        mask = mask > 0
        mask[..., -1, :] = False  # a query that sees nothing, or everyone does not see one

    def run(q, k, v):
        here = mask.to(q.device)
        here = here if kind == "bool" else here.to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, here)

    agree(run, *leaves)
    assert {*launched} == KERNELS


def test_a_mask_that_learns_has_a_gradient():
    agree(F.scaled_dot_product_attention, *drawn("float32", (2, 5, 4), (2, 7, 4), (2, 7, 4), (5, 7)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [(6, 2), (4, 1), (3, 3)])
def test_fewer_heads_of_keys(heads, causal, launched):
    leaves = drawn("float32", (2, heads[0], 40, 8), (2, heads[1], 40, 8), (2, heads[1], 40, 6))
    agree(lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=True), *leaves)
    assert {*launched} == KERNELS


FORMS = {
    "heads behind positions": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "columns": lambda x: x.mT.contiguous().mT, "reversed": lambda x: x.flip(2),
    "expanded": lambda x: x[:1].expand(x.shape),
    "a part": lambda x: torch.cat([x, x], -1)[..., : x.shape[-1]],
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_other_orders_of_memory(form, launched):
    run = lambda *x: FORMS[form](F.scaled_dot_product_attention(*map(FORMS[form], x)))  # noqa: E731
    agree(run, *drawn("float32", (2, 3, 34, 8), (2, 3, 9, 8), (2, 3, 9, 8)))
    assert {*launched} == KERNELS


@pytest.mark.parametrize("batch, queries, keys", [(0, 5, 7), (2, 0, 7), (2, 5, 0)])
def test_nothing(batch, queries, keys):
    shapes = (batch, 3, queries, 4), (batch, 3, keys, 4), (batch, 3, keys, 4)
    agree(F.scaled_dot_product_attention, *drawn("float32", *shapes))


def test_infinities_and_nan():
    for value in (inf, -inf, float("nan")):
        q, k, v = drawn("float32", (1, 5, 4), (1, 70, 4), (1, 70, 4))
        k[0, 3, 1] = value
        here, there = (F.scaled_dot_product_attention(*(x.to(d) for x in (q, k, v))).cpu() for d in ("cpu", "cuda"))
        torch.testing.assert_close(there, here, equal_nan=True, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}])
def test_second_gradients(options, dtype):
    heads, found = 1 if "enable_gqa" in options else 2, []
    for device in ("cpu", "cuda"):
        torch.manual_seed(7)
        shapes = (1, 2, 5, 4), (1, heads, 6, 4), (1, heads, 6, 4)
        leaves = [torch.randn(s, dtype=getattr(torch, dtype)).to(device).requires_grad_() for s in shapes]
        y = F.scaled_dot_product_attention(*leaves, **options)
        grads = torch.autograd.grad(y.pow(3).sum(), leaves, create_graph=True)
        total = sum((g * g).sum() for g in grads)
        found.append([g.cpu() for g in [y.detach(), *[g.detach() for g in grads], *torch.autograd.grad(total, leaves)]])
    bound = 1e-3 if dtype == "float32" else 1e-9
    for here, there in zip(*found):
        torch.testing.assert_close(there, here, rtol=bound, atol=bound / 10)


def test_some_gradients():
    for needed in range(1, 8):
        found = []
        for device in ("cpu", "cuda"):
            leaves = [x.to(device) for x in drawn("float32", (2, 5, 4), (2, 7, 4), (2, 7, 4))]
            for number, leaf in enumerate(leaves):
                leaf.requires_grad_(bool(needed >> number & 1))
            F.scaled_dot_product_attention(*leaves).square().sum().backward()
            found.append([None if leaf.grad is None else leaf.grad.cpu() for leaf in leaves])
        for here, there in zip(*found):
            assert (here is None) is (there is None)
            assert here is None or torch.allclose(here, there, 1e-4, 1e-5)


def test_dropout_keeps_what_it_kept():
    """With dropout what is dropped is what the generator says."""
    q, k, v = [x.cuda() for x in drawn("float32", (2, 5, 4), (2, 7, 4), (2, 7, 4))]
    torch.cuda.manual_seed(3)
    weights = F.dropout(torch.softmax(q @ k.mT / 2, -1), 0.4)
    torch.cuda.manual_seed(3)
    torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v, dropout_p=0.4), weights @ v)


def test_memory_does_not_grow_with_the_square(cupy):
    """Of 1500 positions a matrix of weights would be 9 MB: the kernels keep none, forward and backward."""
    pool = cupy.get_default_memory_pool()
    leaves = [x.cuda().requires_grad_() for x in drawn("float32", *[(1, 1, 1500, 8)] * 3)]
    F.scaled_dot_product_attention(*[x[:, :, :2] for x in leaves]).sum().backward()
    pool.free_all_blocks()
    before = pool.total_bytes()
    y = F.scaled_dot_product_attention(*leaves, is_causal=True)
    y.sum().backward()
    assert pool.total_bytes() - before < 2 << 20


@pytest.mark.parametrize("causal", [False, True])
def test_in_any_order_of_threads(causal, stand_in):
    found, leaves = [], drawn("float32", (2, 40, 8), (2, 50, 8), (2, 50, 8))
    for order in (0, 1, 7, 99991):
        stand_in.set_order(order)
        try:
            found.append(results_of(lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal), leaves, "cuda"))
        finally:
            stand_in.set_order(0)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


def test_how_many_kernels_are_launched(stand_in):
    leaves = [x.cuda().requires_grad_() for x in drawn("float32", (2, 2, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4))]
    counted = []
    for _ in range(2):
        before = stand_in.counts()["launches"]
        y = F.scaled_dot_product_attention(*leaves)
        between, g = stand_in.counts()["launches"], torch.ones_like(y)
        start = stand_in.counts()["launches"]
        torch.autograd.grad(y, leaves, g)
        counted = [between - before, stand_in.counts()["launches"] - start]
    assert counted == [1, 2]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [9, 4, 1])
@pytest.mark.parametrize("causal", [False, True])
def test_by_products_of_matrices(causal, rows, dtype, monkeypatch, launched, on_stand_in):
    """As large ones are computed: weights are laid out, for some queries at a time where there is no more room."""
    monkeypatch.setattr(ours, "LARGE", {2: 0, 4: 0})
    monkeypatch.setattr(ours, "_laid_out", lambda q, k, v: min(rows, q.shape[2]))
    leaves = drawn(dtype, (2, 3, 9, 8), (2, 3, 20, 8), (2, 3, 20, 6))
    agree(lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal), *leaves)
    agree(lambda *x: F.scaled_dot_product_attention(*[y.mT.contiguous().mT for y in x], is_causal=causal), *leaves)
    if dtype == "float32" or not on_stand_in:
        assert {*launched} == {"attention_weights", "attention_slopes"}


def test_masks_by_products_of_matrices(monkeypatch):
    monkeypatch.setattr(ours, "LARGE", {2: 0, 4: 0})
    monkeypatch.setattr(ours, "_laid_out", lambda q, k, v: 4)
    for kind in (lambda x: x, lambda x: x > 1):
        *leaves, mask = drawn("float32", (2, 3, 9, 8), (2, 3, 7, 8), (2, 3, 7, 6), (2, 1, 9, 7))
        agree(lambda q, k, v, m=kind(mask): F.scaled_dot_product_attention(q, k, v, m.to(q.device)), *leaves)


def test_the_workspace_is_bounded():
    x = numpy.empty((4, 8, 4096, 64), "float32")
    rows = ours._laid_out(x, x, x)
    assert 64 <= rows < 4096 and rows * 4 * 8 * 4096 * 16 <= ours.WORKSPACE
    assert ours._is_large(x, x, x) and not ours._is_large(x[:1, :1, :64], x[:1, :1], x[:1, :1])


@pytest.mark.parametrize("shapes", [
    ((2, 5, 4), (2, 7, 3), (2, 7, 3)), ((2, 5, 4), (2, 7, 4), (2, 6, 4)), ((3, 5, 4), (2, 7, 4), (2, 7, 4)),
    ((2, 3, 5, 4), (2, 2, 7, 4), (2, 2, 7, 4)),
])  # fmt: skip
def test_shapes_that_do_not_belong_together(shapes):
    for device in ("cpu", "cuda"):
        with pytest.raises(RuntimeError):
            F.scaled_dot_product_attention(*[x.to(device) for x in drawn("float32", *shapes)])


def test_integers_are_refused_as_on_the_cpu():
    found = []
    for device in ("cpu", "cuda"):
        x = torch.ones(2, 5, 4, dtype=torch.int32).to(device)
        try:
            found.append(F.scaled_dot_product_attention(x, x, x).cpu())
        except (RuntimeError, NotImplementedError) as error:
            found.append(type(error))
    assert found[0] is found[1] or torch.equal(*found)


def test_leading_dimensions_that_broadcast():
    agree(F.scaled_dot_product_attention, *drawn("float32", (2, 3, 5, 4), (1, 3, 7, 4), (1, 3, 7, 4)))
    agree(F.scaled_dot_product_attention, *drawn("float32", (2, 1, 2, 5, 4), (2, 1, 2, 7, 4), (2, 1, 2, 7, 4)))


def test_batches_of_calls_and_derivatives_forward():
    found = []
    for device in ("cpu", "cuda"):
        q, k, v = [x.to(device) for x in drawn("float32", (3, 2, 5, 4), (3, 2, 7, 4), (3, 2, 7, 4))]
        several = torch.func.vmap(F.scaled_dot_product_attention)(q, k, v)
        value, slope = torch.func.jvp(lambda q, k=k, v=v: F.scaled_dot_product_attention(q, k, v), (q,), (q.sin(),))
        found.append([several.cpu(), value.cpu(), slope.cpu()])
    for here, there in zip(*found):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)
