"""Arguments at the edge of what is allowed, on plugrad and on PyTorch: matrices of no elements, buffers, out=."""

from __future__ import annotations

import itertools
import re

import pytest

import plugrad

torch = pytest.importorskip("torch")


def agree(call, *arguments, kept=r".*") -> None:
    """Assert that a call gives the same value on both, or the same error as far as a pattern finds words in it."""

    def told(M):
        try:
            result = call(M, *arguments)
        except (IndexError, RuntimeError, ValueError) as error:
            found = re.search(kept, str(error))
            return type(error).__name__, found and found[0]
        return result.tolist() if isinstance(result, M.Tensor) else tuple(result)

    assert told(plugrad) == told(torch), arguments


def test_norms_of_matrices_without_elements():
    """The largest of no moduli is 0, and a smallest there is not."""
    shapes = (0, 0), (0, 3), (3, 0), (2, 0, 3), (2, 3, 0), (0, 2, 3)
    orders = "fro", "nuc", 1, -1, 2, -2, float("inf"), -float("inf")

    def norm(M, shape, order, keepdim):
        return M.linalg.matrix_norm(M.zeros(shape), order, keepdim=keepdim)

    for arguments in itertools.product(shapes, orders, (False, True)):
        agree(norm, *arguments, kept="have non-zero size")


def test_parts_of_buffers():
    def part(M, length, offset, count):
        return M.frombuffer(bytearray(length), dtype=M.int16, offset=offset, count=count)

    for arguments in itertools.product((0, 10), (-2, 0, 1, 2, 8, 9, 10, 12), (-2, -1, 0, 1, 5, 6)):
        agree(part, *arguments)
    agree(lambda M: M.frombuffer([1], dtype=M.int16), kept=r".*protocol\.")


def test_right_sides_of_least_squares():
    def solve(M, a, b):
        return M.linalg.lstsq(M.ones(a), M.ones(b)).solution.shape

    kept = r"input\.size\S+ should match other\.size\(-.|input\.dim\(\) must be .* <= 1"
    for arguments in itertools.product([(3, 3), (2, 3, 3)], [(3,), (2,), (2, 3), (2, 2), (2, 3, 1), (1, 2, 3, 1)]):
        agree(solve, *arguments, kept=kept)


@pytest.mark.parametrize("call", [
    lambda M, out: M.linalg.eigvals(M.eye(2), out=out), lambda M, out: M.linalg.pinv(M.eye(2), out=out),
    lambda M, out: M.linalg.tensorinv(M.eye(4).reshape(2, 2, 2, 2), out=out),
    lambda M, out: M.linalg.tensorsolve(M.eye(2), M.ones(2), out=out),
    lambda M, out: M.linalg.householder_product(M.eye(2), M.ones(2), out=out),
    lambda M, out: M.linalg.matrix_rank(M.eye(2), out=out > 0), lambda M, out: M.linalg.cond(M.eye(2), out=out),
])  # fmt: skip
def test_results_of_linear_algebra_that_out_cannot_hold(call):
    agree(lambda M: call(M, M.empty(0, dtype=M.int32)), kept=r"Expected \w+ to be safely castable .*")


def test_pivots_outside_of_the_matrix():
    for pivots, words in (([0, 1], "greater or equal to 1"), ([1, 3], r"smaller or equal to LU.size\(-2\)")):
        for M in (plugrad, torch):
            with pytest.raises(RuntimeError, match=words):
                M.linalg.lu_solve(M.eye(2), M.tensor(pivots, dtype=M.int32), M.eye(2))


def test_zeros_like_a_compressed_matrix_take_the_layout_asked_for():
    for given, asked in itertools.product(("sparse_csr", "sparse_csc"), ("sparse_csr", "sparse_csc", "sparse_coo")):
        x = plugrad.eye(2).to_sparse(layout=getattr(plugrad, given))
        zeros = plugrad.zeros_like(x, layout=getattr(plugrad, asked))
        assert str(zeros.layout) == f"torch.{asked}" and zeros._nnz() == 0 and zeros.shape == (2, 2)
