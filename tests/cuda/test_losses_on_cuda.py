"""Losses of pairs of numbers, which have kernels of their own: against the CPU."""

import pytest

import plugrad as torch

F = torch.nn.functional
BOUNDS = {"float32": 2e-5, "float64": 1e-11, "float16": 5e-3, "bfloat16": 4e-2}
LOSSES = {"mse": F.mse_loss, "bce_logits": F.binary_cross_entropy_with_logits}


def of_device(loss, x, target, device, **options):
    """Return a loss, and its gradients by both arguments."""
    leaves = [one.detach().clone().to(device).requires_grad_() for one in (x, target)]
    result = loss(*leaves, **options)
    (result * 0.5).sum().backward()
    return [one.detach().cpu() for one in (result, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shape", [(), (5,), (64, 65), (3, 17, 257)])
def test_means_and_sums(shape, name, dtype, launched):
    torch.manual_seed(3)
    x, target = torch.randn(shape).to(getattr(torch, dtype)), torch.rand(shape).to(getattr(torch, dtype))
    for reduction in ("mean", "sum"):
        launched.clear()
        found = of_device(LOSSES[name], x, target, "cuda", reduction=reduction)
        expected = of_device(LOSSES[name], x.double(), target.double(), "cpu", reduction=reduction)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.double(), other, rtol=BOUNDS[dtype], atol=BOUNDS[dtype] / 50)
        joined = ["join"] * (x.numel() > 4096)
        assert [one for one in launched if one in {name, "join", f"{name}_grad"}] == [name, *joined, f"{name}_grad"]


@pytest.mark.parametrize("name", LOSSES)
def test_what_the_kernels_leave_to_the_formulas(name):
    x, target = torch.randn(3, 4, dtype=torch.float64), torch.rand(3, 4, dtype=torch.float64)
    weight = torch.rand(3, 4, dtype=torch.float64)

    def weighted(x, target):
        return LOSSES[name](x, target, weight=weight.to(x.device))

    for loss, one, other, options in (
        (LOSSES[name], x, target, {"reduction": "none"}), (LOSSES[name], x.T, target.T, {}),
        (LOSSES[name], x[:0], target[:0], {}), (weighted, x, target, {}),
    ):  # fmt: skip
        found, expected = (of_device(loss, one, other, device, **options) for device in ("cuda", "cpu"))
        for result, right in zip(found, expected, strict=True):
            torch.testing.assert_close(result, right, equal_nan=True)


@pytest.mark.parametrize("name", LOSSES)
def test_second_gradients(name):
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        x, target = (torch.rand(3, 4, dtype=torch.float64).to(device).requires_grad_() for _ in "xt")
        (slope,) = torch.autograd.grad(LOSSES[name](x, target), x, create_graph=True)
        results.append([one.cpu() for one in torch.autograd.grad((slope * slope).sum(), [x, target])])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", LOSSES)
def test_edges(name):
    x = torch.tensor([float("inf"), -float("inf"), float("nan"), 200.0, -200.0, 0.0])
    for target in (0.0, 1.0):
        pairs = [[x[i : i + 1], torch.full((1,), target)] for i in range(6)]
        for pair in pairs:
            found, expected = (of_device(LOSSES[name], *pair, device) for device in ("cuda", "cpu"))
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, equal_nan=True)
