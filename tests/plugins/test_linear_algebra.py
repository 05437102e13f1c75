"""Linear algebra where no sample of an op goes: both ways to factor, many matrices at once, singular and NaN ones."""

from __future__ import annotations

import concurrent.futures
import math
import warnings

import numpy
import pytest

import plugrad as torch

DTYPES = ("float32", "float64", "complex64", "complex128")


def matrices(*shape, dtype="float64", seed=0):
    """Return random matrices as a NumPy array, the same for the same seed."""
    rng = numpy.random.default_rng(seed)
    batch = rng.normal(size=shape)
    if dtype.startswith("complex"):
        batch = batch + 1j * rng.normal(size=shape)
    return batch.astype(dtype)


# Few matrices go to LAPACK one by one, many to NumPy all at once.
@pytest.mark.parametrize("shape", [(6, 6), (7, 4), (4, 7), (2, 5, 5), (40, 3, 3), (40, 5, 3), (2, 20, 3, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_factors_give_the_matrix_back(shape, dtype):
    given = matrices(*shape, dtype=dtype)
    permutation, low, up = torch.linalg.lu(torch.tensor(given))
    assert low.dtype == up.dtype == torch.tensor(given).dtype
    wide = numpy.clongdouble if dtype.startswith("complex") else numpy.longdouble
    product = numpy.matmul(low.numpy().astype(wide), up.numpy().astype(wide))
    product = numpy.matmul(permutation.numpy().astype(wide), product)
    assert abs(product - given).max() <= 8 * numpy.finfo(dtype).eps * abs(given).max()
    # The largest of a column is its pivot; LAPACK measures complex numbers by the sum of their parts' moduli.
    assert abs(low.numpy()).max() <= (math.sqrt(2) if dtype.startswith("complex") else 1) + 1e-6


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_matrix_and_many_are_factored_alike(dtype):
    given = matrices(40, 4, 4, dtype=dtype)
    factors, pivots, info = torch.linalg.lu_factor_ex(torch.tensor(given))
    assert pivots.dtype == info.dtype == torch.int32 and not info.any()
    for matrix, packed, swaps in zip(given, factors, pivots):
        alone = torch.linalg.lu_factor_ex(torch.tensor(matrix))
        assert alone.pivots.tolist() == swaps.tolist()
        assert torch.allclose(alone.LU, packed, rtol=0, atol=50 * numpy.finfo(dtype).eps)


def test_lu_without_pivoting():
    given = matrices(4, 4) + 8 * numpy.eye(4)
    factors, pivots = torch.linalg.lu_factor(torch.tensor(given), pivot=False)
    low, up = numpy.tril(factors.numpy(), -1) + numpy.eye(4), numpy.triu(factors.numpy())
    assert pivots.tolist() == [1, 2, 3, 4] and abs(low @ up - given).max() < 1e-14


def test_lu_of_singular_and_empty_matrices():
    given = torch.stack([torch.eye(2), torch.tensor([[1.0, 2.0], [2.0, 4.0]]), torch.zeros(2, 2)])
    assert torch.linalg.lu_factor_ex(given).info.tolist() == [0, 2, 1]
    assert [torch.linalg.lu_factor_ex(matrix).info.item() for matrix in given] == [0, 2, 1]
    with pytest.raises(RuntimeError, match=r"^torch\.linalg\.lu_factor: \(Batch element 1\): U\[2,2\] is zero and us"):
        torch.linalg.lu_factor(given)
    with pytest.raises(RuntimeError, match=r"^torch\.linalg\.lu_factor_ex: U\[1,1\] is zero"):
        torch.linalg.lu_factor_ex(torch.zeros(3, 3), check_errors=True)
    for shape, swaps in (((0, 0), (0,)), ((0, 3), (0,)), ((3, 0), (0,)), ((0, 3, 3), (0, 3)), ((2, 0, 3), (2, 0))):
        factors, pivots, info = torch.linalg.lu_factor_ex(torch.zeros(shape))
        assert factors.shape == shape and pivots.shape == swaps and info.shape == shape[:-2]


@pytest.mark.parametrize("batch", [(), (3,), (50,)])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("unitriangular", [True, False])
def test_triangular_equations(batch, dtype, upper, unitriangular):
    n = 6
    given = matrices(*batch, n, n, dtype=dtype) / 3 + numpy.eye(n, dtype=dtype)
    right = matrices(*batch, n, 2, dtype=dtype, seed=1)
    solution = torch.linalg.solve_triangular(
        torch.tensor(given), torch.tensor(right), upper=upper, unitriangular=unitriangular
    )
    used = numpy.triu(given) if upper else numpy.tril(given)
    if unitriangular:
        used = used - used * numpy.eye(n) + numpy.eye(n)
    assert str(solution.dtype) == f"torch.{dtype}" and solution.is_contiguous()
    bound = numpy.matmul(abs(used), abs(solution.numpy()))  # Higham, Accuracy and stability, theorem 8.5
    assert (abs(numpy.matmul(used, solution.numpy()) - right) <= 4 * n * numpy.finfo(dtype).eps * bound).all()


@pytest.mark.parametrize("many", [False, True])
def test_a_zero_on_the_diagonal_of_triangular_equations_gives_infinities(many):
    given = torch.tensor([[0.0, 0.0], [1.0, 2.0]])
    given = given.expand(5, 2, 2) if many else given
    solution = torch.linalg.solve_triangular(given, torch.ones(2, 1), upper=False)
    assert (solution[..., 0, 0] == math.inf).all() and (solution[..., 1, 0] == -math.inf).all()


def test_the_exponential_of_each_matrix_is_as_exact_as_alone():
    angles = torch.tensor([1e-3, 1.0, 300.0, 0.0], dtype=torch.float64)
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    exponentials = torch.linalg.matrix_exp(angles.reshape(-1, 1, 1) * turn)
    exact = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1).reshape(-1, 2, 2)
    assert ((exponentials - exact).abs().amax((1, 2)) <= torch.tensor([4e-16, 4e-16, 2e-13, 0.0])).all()
    for angle, matrix in zip(angles, exponentials):
        assert torch.allclose(torch.linalg.matrix_exp(angle * turn), matrix, rtol=0, atol=1e-15)


def test_only_the_matrices_with_nan_have_exponentials_of_nan():
    given = torch.tensor([[[1.0, 2.0], [3.0, 4.0]], [[math.nan, 1.0], [0.0, 1.0]], [[math.inf, 0.0], [0.0, 1.0]]])
    exponentials = torch.linalg.matrix_exp(given)
    assert exponentials.isnan().all((1, 2)).tolist() == [False, True, True]
    assert torch.equal(exponentials[0], torch.linalg.matrix_exp(given[0]))


def test_the_minor_that_is_not_positive_definite():
    given = torch.eye(9).expand(3, 9, 9).clone()
    given[1, 6, 6] = -1
    given[2, 3, 3] = math.nan
    factors, info = torch.linalg.cholesky_ex(given)
    assert info.tolist() == [0, 7, 4] and torch.equal(factors[0], torch.eye(9)) and factors[1:].isnan().all()
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\): .* order 7 is not positive-definite"):
        torch.linalg.cholesky(given)
    with pytest.raises(torch.linalg.LinAlgError, match="minor of order 4"):
        torch.linalg.cholesky(given[2])


def test_singular_matrices_in_threads_leave_the_filters_of_warnings_alone():
    before, given = list(warnings.filters), torch.zeros(3, 3)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        infos = list(pool.map(lambda _: torch.linalg.lu_factor_ex(given).info.item(), range(200)))
    assert set(infos) == {1} and warnings.filters == before


def test_singular_matrices_are_named():
    given = torch.stack([torch.eye(3), torch.ones(3, 3), torch.zeros(3, 3)])
    assert torch.linalg.inv_ex(given).info.tolist() == [0, 2, 1]
    with pytest.raises(torch.linalg.LinAlgError, match=r"linalg\.inv: \(Batch element 1\): The diagonal element 2 is"):
        torch.linalg.inv(given)
    with pytest.raises(torch.linalg.LinAlgError, match=r"solve: \(Batch element 1\): The solver failed because"):
        torch.linalg.solve(given, torch.ones(3, 3, 1))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("rank", [0, 1, 2, 3, 4])
def test_second_derivatives_of_determinants_of_any_rank(dtype, rank):
    """A determinant is linear in each element: differences of its gradient are exact but for rounding."""
    generator = torch.Generator().manual_seed(rank)
    factors = [torch.randn(2, 4, 4, dtype=dtype, generator=generator) for _ in range(3)]
    factors[0][..., rank:] = 0
    given = (factors[0] @ factors[1]).requires_grad_()
    gradient = torch.autograd.grad(torch.linalg.det(given).real.sum(), given, create_graph=True)[0]
    second = torch.autograd.grad(gradient, given, factors[2])[0]
    for i, j in ((0, 0), (1, 3), (2, 1)):
        step = torch.zeros(4, 4, dtype=dtype)
        step[i, j] = 0.5
        moved = [(given.detach() + sign * step).requires_grad_() for sign in (1, -1)]
        one, other = (torch.autograd.grad(torch.linalg.det(x).real.sum(), x)[0] for x in moved)
        expected = ((one - other).conj() * factors[2]).sum((-2, -1))
        torch.testing.assert_close(second[:, i, j].real, expected.real, rtol=1e-9, atol=1e-9)
