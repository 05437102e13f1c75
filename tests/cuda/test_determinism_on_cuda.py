"""With `use_deterministic_algorithms(True)` no result depends on the order in which threads come."""

import pytest

import plugrad as torch
from plugrad.plugins.ops import _in_order_on_cuda

F = torch.nn.functional
N, ROWS = 300, 4


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def given(dtype):
    torch.manual_seed(5)
    x = (torch.randn(N, 3) * 10 ** (4 * torch.rand(N, 3))).to(dtype)
    return x, torch.randint(0, ROWS, (N,)), torch.randint(0, ROWS, (N, 3)), torch.zeros(ROWS, 3, dtype=dtype)


def pooled(x, at, along, y):
    torch.manual_seed(1)
    samples = torch.rand(1, 1, 3, dtype=x.dtype).to(x.device)
    images = x.reshape(1, 1, 10, 10, 9)[:, :, :4, :4, :4]
    return F.fractional_max_pool3d(images, 3, output_size=2, _random_samples=samples)


SUMS = {
    "scatter_add": lambda x, at, along, y: y.scatter_add(0, along, x),
    "index_add": lambda x, at, along, y: y.index_add(0, at, x, alpha=2),
    "index_put": lambda x, at, along, y: y.index_put((at,), x, accumulate=True),
    "two indices": lambda x, at, along, y: y.index_put((at, along[:, 0] % 3), x[:, 0], accumulate=True),
    "scatter_reduce": lambda x, at, along, y: y.scatter_reduce(0, along, x, "sum"),
    "gather": lambda x, at, along, y: x[:ROWS].gather(0, along).repeat(1, 2) * 1.5,
    "rows": lambda x, at, along, y: x[:ROWS][at] * x,
    "index_select": lambda x, at, along, y: x[:ROWS].index_select(0, at) * x,
    "embedding": lambda x, at, along, y: F.embedding(at, x[:ROWS]) * x,
    "fractional_max_pool3d": pooled,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("name", SUMS)
def test_sums_come_in_one_order(name, dtype, deterministic, stand_in):
    found = []
    for device, order in (("cpu", 0), ("cuda", 1), ("cuda", 77), ("cuda", 99991)):
        stand_in.set_order(order)
        x, *rest = (one.to(device) for one in given(dtype))
        y = SUMS[name](x.requires_grad_(), *rest)
        y.backward(x[: len(y)].detach().repeat(1, 2) if name == "gather" else torch.ones_like(y))
        found.append((y.detach().cpu(), x.grad.cpu()))
    for (value, grad), other in ((one, two) for one in found[1:2] for two in found[2:]):
        assert torch.equal(value, other[0]) and torch.equal(grad, other[1])
    close = (1e-4, 1e-1) if dtype is not torch.float16 else (1e-2, 10)
    for here, there in zip(*found[:2]):
        torch.testing.assert_close(there, here, rtol=close[0], atol=close[1], equal_nan=True)


def test_sums_that_are_not_asked_to_come_in_an_order(stand_in):
    """So the test before can fail: atomic additions in another order have other last digits."""
    seen = set()
    for order in (0, 1, 77, 99991):
        stand_in.set_order(order)
        x, _, along, y = (one.to("cuda") for one in given(torch.float32))
        seen.add(str(y.scatter_add(0, along, x).tolist()))
    assert len(seen) > 1


WRITES = {
    "rows": lambda y, at, along, x: y.__setitem__(at, x),
    "elements": lambda y, at, along, x: y.__setitem__((at, along[:, 1] % 3), x[:, 0]),
    "a column": lambda y, at, along, x: y.__setitem__((slice(None), at % 3), x[:ROWS, :1] * at),
    "scatter_": lambda y, at, along, x: y.scatter_(0, along, x),
    "index_put_": lambda y, at, along, x: y.index_put_((at,), x),
    "index_copy_": lambda y, at, along, x: y.index_copy_(0, at, x),
}


@pytest.mark.parametrize("name", WRITES)
def test_of_several_values_for_an_element_the_last_is_written(name, deterministic):
    found = []
    for device in ("cpu", "cuda"):
        x, at, along, y = (one.to(device) for one in given(torch.float64))
        WRITES[name](y, at, along, x)
        found.append(y.cpu())
    assert torch.equal(*found)


def test_more_places_than_are_compared_each_with_each(deterministic):
    x = torch.arange(5000.0)
    at = (x % 7).long()
    assert len(x) > _in_order_on_cuda.FEW
    y = torch.zeros(7).index_put((at,), x)
    assert torch.equal(torch.zeros(7, device="cuda").index_put((at.cuda(),), x.cuda()).cpu(), y)
    sums = torch.zeros(7, device="cuda").index_add(0, at.cuda(), x.cuda())
    torch.testing.assert_close(sums.cpu(), torch.zeros(7).index_add(0, at, x))
