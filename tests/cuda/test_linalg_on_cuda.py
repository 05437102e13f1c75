"""Linear algebra by cuSOLVER, which the stand-in lacks: what depends on no signs, broadcasts, and what is refused."""

import pytest

import plugrad as torch


@pytest.fixture(autouse=True)
def _with_cusolver(on_stand_in):
    if on_stand_in:
        pytest.skip("cuSOLVER is not stood in for")


def near(there, here):
    torch.testing.assert_close(there.cpu(), here, rtol=1e-9, atol=1e-10)


def both(function, *tensors):
    """Assert that a function's values and gradients are the CPU's."""
    found = []
    for device in ("cpu", "cuda"):
        leaves = [t.detach().to(device).requires_grad_() for t in tensors]
        results = function(*leaves)
        results = results if isinstance(results, tuple) else (results,)
        sum([(y.abs() ** 2).sum() for y in results]).backward()
        found.append([*results, *[leaf.grad for leaf in leaves]])
    for here, there in zip(*found, strict=True):
        near(there.detach(), here.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5, 3), (3, 4), (40, 40)])
def test_singular_values(shape, dtype):
    torch.manual_seed(0)

    def whole(A):
        U, S, Vh = torch.linalg.svd(A, full_matrices=False)
        return (U * S[..., None, :]) @ Vh, S, (U * S[..., None, :].sin()) @ Vh

    both(whole, torch.randn(*shape, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_equations(dtype):
    torch.manual_seed(0)
    A, B, column = (torch.randn(*shape, dtype=dtype) for shape in ((2, 3, 3), (3, 2), (2, 3, 1)))
    both(torch.linalg.solve, A, B)
    both(torch.linalg.solve, A[0], column)
    both(torch.linalg.inv, A)
    both(lambda A: torch.linalg.slogdet(A)[1], A)
    both(torch.linalg.det, A)
    both(lambda A: torch.linalg.cholesky(A @ A.mH + torch.eye(3, device=A.device)), A)
    both(torch.linalg.pinv, torch.randn(4, 3, dtype=dtype))
    both(lambda A: torch.linalg.eigvalsh(A + A.mH), A)
    both(lambda A, B: torch.linalg.lstsq(A, B)[0], torch.randn(5, 3, dtype=dtype), torch.randn(5, 2, dtype=dtype))


def refused(function, *tensors):
    """Assert that the device refuses with the CPU's words; return them."""
    told = []
    for device in ("cpu", "cuda"):
        with pytest.raises(torch.linalg.LinAlgError) as caught:
            function(*[t.to(device) for t in tensors])
        told.append(str(caught.value))
    assert told[0] == told[1]
    return told[0]


def test_singular_matrices_are_refused():
    singular = torch.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
    batch = torch.stack([torch.eye(2, dtype=torch.float64), singular])
    assert "singular" in refused(torch.linalg.inv, singular)
    assert "(Batch element 1)" in refused(torch.linalg.inv, batch)
    assert "singular" in refused(torch.linalg.solve, singular, torch.ones(2, 1, dtype=torch.float64))
    assert "(Batch element 1)" in refused(torch.linalg.solve, batch, torch.ones(2, 2, 1, dtype=torch.float64))
    assert "order 2" in refused(torch.linalg.cholesky, singular - torch.eye(2, dtype=torch.float64) / 2)
    assert "(Batch element 1)" in refused(torch.linalg.cholesky, batch - torch.tensor([[[0.0]], [[3.0]]]).double())
    inverse, info = torch.linalg.inv_ex(batch.cuda())
    assert info.tolist() == [0, 2] and inverse[0].tolist() == [[1, 0], [0, 1]]
    assert torch.linalg.det(batch.cuda()).tolist() == [1, 0]


def test_singular_matrices_by_rounding():
    """One elimination may find a zero where another finds a number near it: it is refused, or of a large inverse."""
    matrix = torch.arange(1.0, 10.0, dtype=torch.float64).reshape(3, 3).cuda()
    for function in (torch.linalg.inv, lambda A: torch.linalg.solve(A, A)):
        try:
            result = function(matrix)
        except torch.linalg.LinAlgError as error:
            assert "singular" in str(error)
        else:
            assert result.isfinite().all()


def test_nan_and_infinity():
    for value in (float("nan"), float("inf")):
        A = torch.eye(3, dtype=torch.float64)
        A[0, 0] = value
        assert torch.linalg.eigvalsh(A.cuda()).isnan().any() == torch.linalg.eigvalsh(A).isnan().any()
        assert torch.linalg.inv(A.cuda()).isnan().any() == torch.linalg.inv(A).isnan().any()
