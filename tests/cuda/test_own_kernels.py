"""plugrad's own kernels in CUDA C++: they run, and agree with the kernels of the CPU at edges and in every order."""

import numpy
import pytest

import plugrad as torch

F, inf = torch.nn.functional, numpy.inf
# Those of 600 are more than a warp's; a block has one of 1025 short ones, several of 1024.
ROWS = [(3, 7), (2, 3, 257), (5, 1), (1, 1000), (2, 600), (4,), (0, 3), (1024, 5), (1025, 3)]
OPS = {
    "softmax": lambda x: torch.softmax(x, -1), "log_softmax": lambda x: torch.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "with a weight": lambda x: F.layer_norm(x, x.shape[-1:], x.detach().reshape(-1, x.shape[-1]).sum(0) + 1),
    "with both": lambda x: F.layer_norm(x, x.shape[-1:], *[x.reshape(-1, x.shape[-1])[:2].sum(0) + i for i in (1, 2)]),
}  # fmt: skip


def safe_softmax(x):
    return torch.ops.aten._safe_softmax(x, -1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("name", OPS)
def test_rows(name, shape, dtype, launched):
    torch.manual_seed(3)
    here = (5 * torch.randn(shape, dtype=getattr(torch, dtype))).requires_grad_()
    there = here.detach().cuda().requires_grad_()
    results = [OPS[name](x) for x in (here, there)]
    weights = torch.randn(shape, dtype=here.dtype)
    for result, weight in zip(results, (weights, weights.cuda())):
        (result * weight).sum().backward()
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 1e-10, "atol": 1e-10}
    torch.testing.assert_close(results[1].cpu(), results[0], **close)
    torch.testing.assert_close(there.grad.cpu(), here.grad, **close)
    kernel = "normalize" if name[0] in "lw" and name != "log_softmax" else name
    if 0 not in shape:
        assert {kernel, f"{kernel}_grad"} <= {*launched}


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal, launched):
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(4)
        given = [torch.randn(2, 3, 5, 4, dtype=torch.float64).to(device).requires_grad_() for _ in range(3)]
        y = F.scaled_dot_product_attention(*given, is_causal=causal)
        y.sin().sum().backward()
        results.append([y.detach().cpu(), *[x.grad.cpu() for x in given]])
    for here, there in zip(*results):
        torch.testing.assert_close(there, here)
    assert {"safe_softmax", "softmax_grad"} <= {*launched}


EDGES = [[inf, 1.0], [-inf, 1.0], [-inf, -inf], [numpy.nan, 1.0], [1e30, -1e30], [-3e38, -3e38]]


@pytest.mark.parametrize("row", EDGES)
def test_infinities_and_nan(row):
    x = torch.tensor([row, [0.0, 1.0]], dtype=torch.float32)
    for op in (OPS["softmax"], OPS["log_softmax"], OPS["layer_norm"], safe_softmax):
        torch.testing.assert_close(op(x.cuda()).cpu(), op(x), equal_nan=True)


def test_gradients_by_way_of_mean_and_variance(launched):
    results = []
    for device in ("cpu", "cuda"):
        x = torch.arange(12.0).reshape(3, 4).sin().to(device).requires_grad_()
        y, mean, scale = torch.native_layer_norm(x, (4,), None, None, 1e-5)
        (y.square() * y + mean * 3 + scale * 2).sum().backward()
        results.append(x.grad.cpu())
    torch.testing.assert_close(*results)
    assert "normalize_grad" in launched


def test_gradients_of_gradients(launched):
    results = []
    for device in ("cpu", "cuda"):
        x = torch.arange(12.0, dtype=torch.float64).reshape(3, 4).sin().to(device).requires_grad_()
        for op in OPS.values():
            (g,) = torch.autograd.grad((op(x) ** 3).sum(), x, create_graph=True)
            (h,) = torch.autograd.grad((g * g).sum(), x)
            results.append(h.cpu())
    for here, there in zip(results[: len(OPS)], results[len(OPS) :]):
        torch.testing.assert_close(here, there)


def stepped(form, options, device, dtype):
    """Three weights, two of them in a group with a rate of its own, after four steps."""
    torch.manual_seed(0)
    drawn = [torch.randn(size, dtype=getattr(torch, dtype)) for size in ((3, 300), 5, (2, 2))]
    weights = [w.to(device).requires_grad_() for w in drawn]
    groups = [{"params": weights[:2]}, {"params": weights[2:], "lr": 0.01}]
    optimizer = getattr(torch.optim, form)(groups, lr=0.1, **options)
    for _ in range(4):
        optimizer.zero_grad()
        sum(w.sin().sum() for w in weights).backward()
        optimizer.step()
    return [w.detach().cpu() for w in weights]


STEPS = {
    "Adam": [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}],
    "AdamW": [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}],
    "SGD": [
        {}, {"weight_decay": 0.1}, {"momentum": 0.9}, {"momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"momentum": 0.5, "maximize": True},
    ],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form, options", [(form, options) for form, all in STEPS.items() for options in all])
def test_steps_of_optimizers(form, options, dtype, launched):
    for here, there in zip(*[stepped(form, options, device, dtype) for device in ("cpu", "cuda")]):
        torch.testing.assert_close(here, there)
    assert {*launched} == {"sgd" if form == "SGD" else "adam"}


@pytest.mark.parametrize("order", [1, 7, 99991])
def test_threads_of_a_block_may_come_in_any_order(order, stand_in):
    rows = [torch.randn(3, size).cuda() for size in (70, 700)]
    before = [op(x).cpu() for op in OPS.values() for x in rows]
    stand_in.set_order(order)
    try:
        after = [op(x).cpu() for op in OPS.values() for x in rows]
    finally:
        stand_in.set_order(0)
    assert all(map(torch.equal, before, after))
