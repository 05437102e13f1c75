"""Kernels of half precision on CUDA: computed in float32, rounded once."""

import pytest

import plugrad as torch
from plugrad import registry

F = torch.nn.functional
HALVES = [torch.float16, torch.bfloat16]
WEIGHTS = torch.linspace(0.5, 1.5, 6)
CALLS = {  # by the kernels that serve them
    "softmax softmax_grad": lambda x: torch.softmax(x, -1),
    "log_softmax log_softmax_grad": lambda x: torch.log_softmax(x, -1),
    "normalize normalize_grad": lambda x: F.layer_norm(x, (6,), WEIGHTS.to(x), WEIGHTS.to(x)),
    "normalize  normalize_grad": lambda x: F.layer_norm(x, (4, 6)),
    "channel_moments scale_channels channel_sums scale_channels_grad": lambda x: F.batch_norm(
        x, None, None, WEIGHTS[:4].to(x), WEIGHTS[:4].to(x), training=True
    ),
    "row_moments scale_groups group_sums scale_groups_grad": lambda x: F.group_norm(x.repeat(1, 1, 2), 2),
    "scale_channels": lambda x: F.batch_norm(x, WEIGHTS[:4].to(x), WEIGHTS[:4].to(x)),
    "cross_entropy over_rows count_rows cross_entropy_grad": lambda x: F.cross_entropy(
        x.flatten(0, 1), torch.arange(x.shape[0] * 4, device=x.device) % 6, label_smoothing=0.1
    ),
    "gelu gelu_grad": F.gelu, "silu silu_grad": F.silu, "sigmoid sigmoid_grad": torch.sigmoid,
    "relu relu_grad": torch.relu, "leaky_relu leaky_relu_grad": F.leaky_relu, "elu elu_grad": F.elu,
    "softplus softplus_grad": F.softplus, "bounded bounded_grad": lambda x: x.clamp(-0.5, 0.5),
    "spread": lambda x: F.linear(x, torch.ones(3, 6).to(x), WEIGHTS[:3].to(x)),
    "hardswish hardswish_grad": F.hardswish, "log_sigmoid log_sigmoid_grad": F.logsigmoid, "mish mish_grad": F.mish,
    "safe_softmax": lambda x: registry.op("safe_softmax")(x, -1),
    "normalize column_sums": lambda x: F.layer_norm(x, (6,), x[0, 0], x[0, 1]),
    "take": lambda x: F.embedding(torch.tensor([1, 0, 1], device=x.device), x.flatten(1)),
}  # fmt: skip


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kernels", CALLS)
def test_values_and_gradients_are_those_of_float32_rounded(kernels, dtype, launched):
    torch.manual_seed(1)
    given = torch.randn(3, 4, 6).to(dtype)
    results = []
    for x in (given.float(), given.cuda()):
        x = x.requires_grad_()
        y = CALLS[kernels](x)
        assert y.dtype is x.dtype
        (y * torch.linspace(-1, 1, y.numel(), device=x.device).to(x.dtype).reshape(y.shape)).sum().backward()
        results.append([y.detach().cpu().float(), x.grad.cpu().float()])
    bound = {torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
    for exact, there in zip(*results):
        torch.testing.assert_close(there, exact, rtol=bound, atol=bound)
    assert {*kernels.split()} <= {*launched}


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("form, options", [("Adam", {"amsgrad": True}), ("AdamW", {}), ("SGD", {"momentum": 0.9})])
def test_steps_of_optimizers(form, options, dtype, launched):
    results = []
    for device, computed in (("cpu", torch.float32), ("cuda", dtype)):
        torch.manual_seed(2)
        weights = [torch.randn(size).to(dtype).to(device, computed).requires_grad_() for size in ((3, 30), 5)]
        optimizer = getattr(torch.optim, form)(weights, lr=0.05, eps=1e-4, **options) if "A" in form else (
            torch.optim.SGD(weights, lr=0.05, **options)
        )
        for _ in range(3):
            optimizer.zero_grad()
            sum((w * w).sum() for w in weights).backward()
            optimizer.step()
        results.append([w.detach().cpu().float() for w in weights])
    for exact, there in zip(*results):
        torch.testing.assert_close(there, exact, rtol=0, atol={torch.float16: 4e-3, torch.bfloat16: 4e-2}[dtype])
    assert {"sgd" if form == "SGD" else "adam"} <= {*launched}
