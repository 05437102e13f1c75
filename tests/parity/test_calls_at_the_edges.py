"""Calls with empty, odd or refused arguments: values, dtypes, shapes and the classes of errors are PyTorch's."""

from __future__ import annotations

import itertools
import math
import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")

CALLS = {
    "masked reductions over no dimensions": """
        masked.prod(T.ones(2, 3), dim=()) | masked.prod(T.ones(2, 3), dim=[]) | masked.sum(T.ones(2, 3), dim=[])
        masked.prod(T.ones(2, 3, dtype=T.int32), dim=[]) | masked.prod(T.ones(2, 3), dim=[], mask=T.zeros(2, 3) > 0)
        masked.mean(T.ones(2, 3), dim=[]) | masked.amax(T.ones(2, 3), dim=[]) | masked.norm(T.ones(2, 3), 2, dim=[])""",
    "transposes of single numbers": """
        ones(()).T | ones(()).mT | ones(()).t() | ones(()).H | ones(()).mH | ones(()).T @ T.ones(())
        ones(()).permute() | ones(()).adjoint() | ones(1).T | ones(0).T""",
    "norms over other than one or two dimensions": """
        linalg.norm(T.ones(2, 3, 4), dim=(0, 1, 2)) | linalg.norm(T.ones(2, 3, 4), dim=())
        linalg.norm(T.ones(2, 3, 4), 2, dim=()) | linalg.norm(T.ones(2, 3), dim=(), keepdim=True)
        linalg.norm(T.ones(2, 3, 4), 2, dim=(0, 1, 2)) | linalg.vector_norm(T.ones(2, 3), dim=())""",
    "histograms": """
        histogram(T.ones(3), T.ones(1)) | histogram(T.ones(()), T.ones(0)) | histogram(T.ones(0), T.ones(3))
        histogram(T.ones(0), 3) | histogram(T.ones(0), 3, density=True) | histogram(T.ones(3), T.ones(2, 2))
        histogram(T.ones(3), T.ones(2, dtype=T.float64)) | histogram(T.ones(3) * 5, T.arange(3.0), density=True)
        histogram(T.ones(3), 0) | histogram(T.ones(3) * 5, 2, range=(1, 1)) | histogram(T.ones(3), 2, range=(1.0,))
        histogram(T.ones(3), 2, range=(1.0, 2, 3)) | histogram(T.ones(3, dtype=T.float16), 2)
        histogram(T.ones(3), T.arange(3.0), range=(0, 1)) | histogram(T.ones(3), T.tensor(2.0))
        histogram(T.ones(3, dtype=T.bfloat16), 2) | histogram(T.ones(3), 2, weight=T.ones(2))""",
    "histograms of points": """
        histogramdd(T.ones(5, 0), []) | histogramdd(T.ones(5, 0), [], density=True) | histogramdd(T.ones(5, 0), 3)
        histogramdd(T.ones(7, 0, 3), 3) | histogramdd(T.ones(4, 2), [T.ones(3), T.ones(1)])
        histogramdd(T.ones(4, 2), [T.ones(3), T.ones(0)]) | histogramdd(T.ones(4, 2), [T.ones(3), T.ones(2, 2)])
        histogramdd(T.ones(4, 2), [T.ones(3), T.ones(2, dtype=T.float64)]) | histogramdd(T.ones(4, 2), [T.ones(3)])
        histogramdd(T.ones(4, 2), (T.tensor(2.0), T.tensor(2.0))) | histogramdd(T.ones(4, 2), T.ones(2))
        histogramdd(T.ones(4, 2), [2]) | histogramdd(T.ones(4), [2]) | histogramdd(T.ones(4, 2), [0, 2])
        histogramdd(T.ones(4, 2), 2, weight=T.ones(3)) | histogramdd(T.ones(4, 2), 2, weight=T.ones(4, 2))
        histogramdd(T.ones(4, 2), 2, range=(0, 1)) | histogramdd(T.ones(4, 2), 2, range=(0, 1, 1, 0))
        histogramdd(T.ones(4, 2), 2, range=(0, 1, 0, float('inf'))) | histogramdd(T.ones(4, 2, dtype=T.int32), 2)""",
    "counts": """
        bincount(T.tensor([1.0, 0.3])) | bincount(T.tensor([1 + 0j])) | bincount(T.tensor([True]))
        bincount(T.tensor([1, 2], dtype=T.uint8)) | bincount(T.tensor([]).half()) | bincount(T.tensor([-1]))
        histc(T.tensor([1.5, float('inf')])) | histc(T.tensor([float('nan')]))""",
    "condition numbers of nothing": """
        linalg.cond(T.ones(0, 0, dtype=T.complex64)) | linalg.cond(T.ones(0, 0, dtype=T.complex64), 'nuc')
        linalg.cond(T.ones(2, 0, 0, dtype=T.complex64), 1) | linalg.cond(T.ones(2, 0, 0), 'fro')
        linalg.cond(T.ones(2, 0, 3)) | linalg.cond(T.ones(2, 0, 3), 'fro')""",
    "least squares, and what counts as zero": " | ".join(
        f"linalg.lstsq(T.tensor([[2.0, 1], [1, 0.5], [3, 1]])[:{m}, :{n}], T.tensor([[3.0], [1], [2]])[:{m}], "
        f"{rcond}, driver={driver!r}).solution"
        for m, n in ((1, 1), (3, 2))
        for driver in ("gels", "gelsd", "gelss")
        for rcond in (None, -1.0, 0.0, 1e-3, 1.0, 2.0)
    ),
    "bounds that are complex": """
        linalg.pinv(T.eye(2), rtol=T.ones(2, dtype=T.complex64)) | linalg.pinv(T.eye(2), rcond=T.ones(()) * 1j)
        linalg.pinv(T.eye(2), atol=T.ones(()) * 1j) | linalg.matrix_rank(T.eye(2), rtol=T.ones(()) * 1j)
        linalg.matrix_rank(T.eye(2), tol=T.ones(()) * 1j) | linalg.pinv(T.eye(2), rtol=T.ones(()))""",
    "norms of matrices by their older names": """
        nuclear_norm(T.eye(2), out=T.empty(())) | nuclear_norm(T.eye(2), (0, 1), out=T.empty(()))
        frobenius_norm(T.eye(2), (0, 1), out=T.empty(())) | chain_matmul() | chain_matmul(T.ones(3))
        chain_matmul(T.ones(2, 3), T.ones(3)) | chain_matmul(T.ones(2, 3, 4), T.ones(4, 3))""",
    "equations of sums": """
        einsum('. ..', T.ones(2)) | einsum('... ...', T.ones(2)) | einsum('... a', T.ones(2, 3))
        einsum('1', T.ones(2)) | einsum('a ->  a', T.ones(2)) | einsum('a->... .', T.ones(2))
        einsum('a->..', T.ones(2)) | einsum('a->1', T.ones(2)) | einsum('...,...', T.ones(2), T.ones(2, 3))
        einsum(' i j , j -> i', T.ones(2, 3), T.ones(3))
        einsum('a->aa', T.ones(2)) | einsum('', T.ones(2)) | einsum('...', T.ones(2))
        einsum(',', T.ones(()), T.ones(()))""",
}


def outcome(library, expression):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(f"T.{expression}", {"T": library})
        except Exception as error:
            return type(error).__name__
    return [one.detach().tolist() if isinstance(one, library.Tensor) else one for one in parts(result)], [
        (str(one.dtype), tuple(one.shape)) for one in parts(result) if isinstance(one, library.Tensor)
    ]


def parts(result) -> list:
    return [inner for one in result for inner in parts(one)] if isinstance(result, (tuple, list)) else [result]


def numbers(values) -> list:
    return list(itertools.chain(*map(numbers, values))) if isinstance(values, list) else [values]


@pytest.mark.parametrize("area, expression", [
    (area, one.strip()) for area, lines in CALLS.items() for line in lines.split("\n") for one in line.split(" | ")
    if one.strip()
])  # fmt: skip
def test_an_outcome_is_that_of_pytorch(area, expression):
    ours, theirs = outcome(plugrad, expression), outcome(torch, expression)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
    else:
        assert ours[1] == theirs[1]
        assert numbers(ours[0]) == pytest.approx(numbers(theirs[0]), rel=1e-5, abs=1e-6, nan_ok=True)


def test_addr_computes_in_the_dtype_of_all_three_operands():
    dtypes = ["bool", "uint8", "int64", "float16", "float32", "complex64"]
    for names in itertools.product(dtypes, repeat=3):
        results = []
        for library in (plugrad, torch):
            M, u, v = (library.ones(shape).to(getattr(library, one)) for shape, one in zip([(2, 3), 2, 3], names))
            results.append([library.addr(M, u, v), library.addr(M, u, v, beta=2, alpha=3)])
        for ours, theirs in zip(*results):
            assert (str(ours.dtype), ours.tolist()) == (str(theirs.dtype), theirs.tolist()), names


PHASES = {  # losses of a complex matrix, and whether phases of the vectors change them
    "U + Vh": (lambda T, A: sum_of(T.linalg.svd(A, False)[0]) + sum_of(T.linalg.svd(A, False)[2]), True),
    "one decomposition": (lambda T, A: (lambda U, S, Vh: (U + Vh).sum().abs())(*T.linalg.svd(A, False)), True),
    "U Vh": (lambda T, A: (lambda U, S, Vh: (U @ Vh).sum().abs())(*T.linalg.svd(A, False)), False),
    "|U|": (lambda T, A: T.linalg.svd(A, False)[0].abs().sum(), False),
    "V of svd": (lambda T, A: T.svd(A)[2].sum().abs(), True),
    "eigenvectors": (lambda T, A: T.linalg.eig(A)[1].sum().abs(), True),
    "|eigenvectors|": (lambda T, A: T.linalg.eig(A)[1].abs().sum(), False),
    "eigenvectors of A + A^H": (lambda T, A: T.linalg.eigh(A + A.mH)[1].sum().abs(), True),
    "the projections on them": (lambda T, A: (lambda V: V[:, :1] @ V[:, :1].mH)(T.linalg.eigh(A + A.mH)[1]).abs().sum(),
                                False),
}  # fmt: skip


def sum_of(vectors):
    return vectors.sum().abs()


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", PHASES)
def test_a_loss_that_phases_of_vectors_change_has_no_gradient(name, create_graph):
    loss, ill_defined = PHASES[name]
    gradients = []
    for library in (torch, plugrad):
        A = library.tensor([[1 + 2j, 0.5, -1j], [0.3, 2 - 1j, 1.0], [1.0, 0.7j, 3 + 1j]], dtype=library.complex128)
        A = library.stack([A, A.mH]) if "eigenvectors" == name else A
        A.requires_grad_()
        if ill_defined:
            with pytest.raises(RuntimeError, match="ill-defined"):
                library.autograd.grad(loss(library, A), A, create_graph=create_graph)
        else:
            g = library.autograd.grad(loss(library, A), A, create_graph=create_graph)[0]
            gradients.append(g.detach().resolve_conj().numpy())
    if not ill_defined:
        assert abs(gradients[0] - gradients[1]).max() < 1e-9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("shape, full", [((2, 3, 3), True), ((3, 3), False), ((4, 2), False), ((2, 4), False)])
def test_tangents_of_decompositions_are_pytorchs(is_complex, shape, full):
    """Up to phases, which are PyTorch's own where both decompositions are LAPACK's."""
    results = []
    for library in (torch, plugrad):
        count = 2 * shape[-1] * shape[-2] * (shape[0] if len(shape) > 2 else 1)
        A = library.sin(library.arange(count, dtype=library.float64) ** 2)
        A, direction = A.reshape(2, *shape)
        if is_complex:
            A, direction = library.complex(A, A.flip(-1)), library.complex(direction.flip(-2), direction)

        def changes(A, library=library):
            U, S, Vh = library.linalg.svd(A, full)
            k = min(shape[-2:])
            found = [U.abs(), S, Vh.abs(), U[..., :k] @ Vh[..., :k, :]]
            if shape[-1] == shape[-2]:
                L, V = library.linalg.eigh(A + A.mH)
                found += [L, V.abs(), library.linalg.eig(A)[0].sum(), library.linalg.eig(A)[1].abs()]
            return tuple(found)

        results.append(library.func.jvp(changes, (A,), (direction,))[1])
    for ours, theirs in zip(*reversed(results), strict=True):
        assert abs(ours.resolve_conj().numpy() - theirs.resolve_conj().numpy()).max() < 1e-8


@pytest.mark.parametrize("dtype, rel", [("complex128", 1e-13), ("complex64", 1e-5)])
def test_logarithms_of_one_plus_small_complex_numbers(dtype, rel):
    """The real part, of the size of x + y^2 / 2, is lost where 1 + z is rounded."""
    values = [1e-19 + 1e-18j, 1e-10 + 1e-12j, -1e-8 + 1.4e-4j, 1e-20, 1e-3 + 1e-3j, -0.5 + 0.1j, 3 - 4j, -2 + 1e-3j]
    values += [1e30 + 1e-30j, -1e-30 - 1e30j, -1 + 1e-10j, complex(0, -0.0), complex(math.inf, 1)]
    values += [complex(-1, 0), -2 + 0j]
    ours, theirs = (
        library.log1p(library.tensor(values, dtype=getattr(library, dtype))).numpy() for library in (plugrad, torch)
    )
    assert ours.real == pytest.approx(theirs.real, rel=rel, abs=0) and ours.imag == pytest.approx(theirs.imag, rel=rel)


def test_transforms_by_windows_that_are_not_given_warn():
    x, window = plugrad.arange(16.0), plugrad.ones(8)
    with pytest.warns(UserWarning, match="A window was not provided.*spectral leakage"):
        plugrad.stft(x, 8, return_complex=True)
    frames = plugrad.stft(x, 8, window=window, return_complex=True)
    with pytest.warns(UserWarning, match="A window was not provided.*same window used by stft"):
        plugrad.istft(frames, 8)
    with pytest.warns(UserWarning, match="return_complex=False is deprecated"):
        plugrad.stft(x, 8, window=window, return_complex=False)
    plugrad.istft(frames, 8, window=window)


@pytest.mark.parametrize("call", [
    "fft.fftfreq(4, out=T.empty(2))", "fft.rfftfreq(4, out=T.empty(()))", "arange(4, out=T.empty(2, 3))",
    "arange(4, out=T.empty(2, 2))", "arange(4, out=T.empty(0))", "range(0, 3, out=T.empty(2))",
    "linspace(0, 1, 4, out=T.empty(2))", "fft.fftfreq(4, out=T.empty(0))",
])  # fmt: skip
def test_progressions_warn_of_outs_of_another_size(call):
    told, results = [], []
    for library in (plugrad, torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results.append(eval(f"T.{call}", {"T": library}).tolist())
        told.append(sorted(one.category.__name__ + str(one.message)[:60] for one in caught))
    assert told[0] == told[1] and numbers(results[0]) == pytest.approx(numbers(results[1]))


@pytest.mark.parametrize("call", [
    "ones([1] * 65)", "empty([1] * 65)", "randn([1] * 65)", "full([1] * 65, 2.0)", "ones([1] * 64)[None]",
    "ones(1).reshape([1] * 65)", "ones(1).view([1] * 65)", "ones(1).expand([1] * 65)", "ones(1).repeat([1] * 65)",
    "ones([1] * 64).unsqueeze(0)", "stack([T.ones([1] * 64)])", "ones([1] * 64).unflatten(0, (1, 1))",
])  # fmt: skip
def test_more_dimensions_than_arrays_have_are_refused_by_that_name(call):
    with pytest.raises(RuntimeError, match="at most 64 dimensions"):
        eval(f"T.{call}", {"T": plugrad})
    assert eval(f"T.{call.replace('65', '64').replace('[1] * 64)', '[1] * 63)')}", {"T": plugrad}).ndim > 60


def test_shapes_that_broadcast_by_the_private_name_that_libraries_use():
    for library in (plugrad, torch):
        assert library._C._infer_size(library.Size([2, 1, 3]), library.Size([4, 1])) == library.Size([2, 4, 3])
        with pytest.raises(RuntimeError):
            library._C._infer_size(library.Size([2]), library.Size([3]))
