"""bfloat16 and float16 are computed in float32 and rounded once, where PyTorch's kernels on the CPU do so."""

from __future__ import annotations

import pytest

import plugrad as torch

F = torch.nn.functional


def ulps(result, exact):
    """Return the largest error of a result, in units of its dtype at the size of each exact element."""
    unit = torch.finfo(result.dtype).eps * exact.abs().clamp(min=torch.finfo(result.dtype).tiny)
    return float(((result.double() - exact).abs() / unit).max())


CALLS = {
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 7, 16), (2, 9, 16), (2, 9, 16)]),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 7, 16)] * 3),
    "addmm": (lambda a, b, c: torch.addmm(a, b, c, beta=0.7, alpha=1.3), [(5, 6), (5, 40), (40, 6)]),
    "matmul": (torch.matmul, [(5, 40), (40, 6)]),
    "conv": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 8, 6, 6), (4, 8, 3, 3)]),
    "sum": (lambda x: x.sum(0), [(400, 6)]),
    "mean": (lambda x: x.mean(0), [(400, 6)]),
    "softmax": (lambda x: x.softmax(-1), [(5, 100)]),
    "norm": (lambda x: x.norm(dim=0), [(400, 6)]),
    "mse": (F.mse_loss, [(30, 30), (30, 30)]),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_results_are_rounded_once(name, dtype):
    function, shapes = CALLS[name]
    random = torch.Generator().manual_seed(5)
    given = [torch.rand(shape, generator=random).add_(0.1).to(dtype) for shape in shapes]
    result, exact = function(*given), function(*(x.double() for x in given))
    assert result.dtype is dtype and ulps(result, exact) <= 0.51


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_trained_in_half_precision(kind, dtype):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(6, 5, 2).to(dtype)
    single = getattr(torch.nn, kind)(6, 5, 2)
    single.load_state_dict({name: value.float() for name, value in layer.state_dict().items()})
    x = torch.randn(4, 3, 6).to(dtype)
    for model, given in ((layer, x), (single, x.float())):
        model(given)[0].float().square().sum().backward()
    for p, q in zip(layer.parameters(), single.parameters()):
        assert p.grad.dtype is dtype
        assert float((p.grad.float() - q.grad).abs().max() / q.grad.abs().max()) < 4 * torch.finfo(dtype).eps
