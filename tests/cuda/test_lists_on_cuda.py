"""What is done with all gradients of a model at once on CUDA."""

import math

import pytest

import plugrad as torch

SIZES = [(3, 4), (5,), (), (0, 2), (700, 3), (1,)] * 20


def parameters(device, dtype=torch.float32):
    torch.manual_seed(1)
    made = [torch.zeros(size, dtype=dtype, device=device, requires_grad=True) for size in SIZES]
    for p in made:
        p.grad = torch.randn(p.shape, dtype=torch.float64).to(dtype).to(device)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("most", [1.0, 1e6])
def test_clipping_by_the_norm(most, dtype):
    here, there = parameters("cpu", dtype), parameters("cuda", dtype)
    norms = [torch.nn.utils.clip_grad_norm_(given, most) for given in (here, there)]
    close = {"rtol": 1e-2, "atol": 1e-2} if dtype is torch.float16 else {}
    torch.testing.assert_close(norms[1].cpu(), norms[0], **close)
    for one, other in zip(here, there):
        torch.testing.assert_close(other.grad.cpu(), one.grad, **close)
    for norm_type in (1, 3.0):
        norms = [torch.nn.utils.get_total_norm([p.grad for p in given], norm_type) for given in (here, there)]
        torch.testing.assert_close(norms[1].cpu(), norms[0], rtol=1e-2, atol=1e-2)


def test_clipping_counts_as_writing_and_is_three_launches(stand_in):
    given = parameters("cuda")
    versions = [p.grad._version for p in given]
    for _ in range(2):
        before = stand_in.counts()
        torch.nn.utils.clip_grad_norm_(given, 1.0)
        after = stand_in.counts()
    assert [p.grad._version for p in given] == [version + 2 for version in versions]
    tables = -(-len(SIZES) // 120)
    assert after["launches"] - before["launches"] <= 2 * tables + 1 and after["waits"] == before["waits"]


@pytest.mark.parametrize("wrong", [math.inf, -math.inf, math.nan])
def test_a_norm_that_is_not_finite(wrong):
    given = parameters("cuda")
    given[4].grad[5, 1] = wrong
    with pytest.raises(RuntimeError, match="non-finite"):
        torch.nn.utils.clip_grad_norm_(given, 1.0, error_if_nonfinite=True)
    torch.nn.utils.clip_grad_norm_(given, 1.0)
    assert given[0].grad.isnan().all() if math.isnan(wrong) else (given[0].grad == 0).all()


@pytest.mark.parametrize("wrong", [None, math.inf, math.nan])
def test_unscaling(wrong):
    steps = []
    for device in ("cpu", "cuda"):
        given = parameters(device)
        optimizer, scaler = torch.optim.SGD(given, 0.1), torch.amp.GradScaler(device, init_scale=8.0)
        scaler.scale(torch.zeros((), device=device))
        if wrong is not None:
            given[4].grad[5, 1] = wrong
        scaler.unscale_(optimizer)
        grads = [p.grad.cpu() for p in given]
        scaler.step(optimizer)
        scaler.update()
        steps.append([scaler.get_scale(), *grads, *[p.detach().cpu() for p in given]])
    assert steps[0][0] == steps[1][0]
    for one, other in zip(steps[0][1:], steps[1][1:]):
        torch.testing.assert_close(one, other, equal_nan=True)


def test_unscaling_waits_once(stand_in):
    given = parameters("cuda")
    optimizer, scaler = torch.optim.SGD(given, 0.1), torch.amp.GradScaler("cuda", init_scale=8.0)
    scaler.scale(torch.zeros((), device="cuda"))
    before = stand_in.counts()
    scaler.step(optimizer)
    after = stand_in.counts()
    assert after["copies_to_host"] - before["copies_to_host"] == 1
