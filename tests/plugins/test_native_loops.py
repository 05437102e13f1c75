"""Loops in C: that those over elements are vectors; running sums, sums of slices and batches of products."""

import importlib.util
import itertools
import pathlib
import re
import shutil
import subprocess

import numpy
import pytest

import plugrad as torch
from plugrad import kernels

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
LEVELS = kernels.levels() if kernels.level() else []
FLOATS = (numpy.float32, numpy.float64)
ROOT = pathlib.Path(__file__).parents[2]
OF_ELEMENTS = ["math", "product", "map", "arithmetic", "remainders", "elementwise", "vectors"]
# The C library has their functions of float64 for single numbers alone.
SCALAR = {"gelu_erf", "gelu_erf_grad", "gelu_tanh", "gelu_tanh_grad", "error_function"}


def functions(level):
    return kernels.module().kernels(level)[1]


def vectorized(file, level, folder) -> list:
    """Return the numbers of the lines whose loops the compiler made loops over vectors, one for each loop."""
    spec = importlib.util.spec_from_file_location("setup_of_plugrad", ROOT / "setup.py")
    spec.loader.exec_module(setup := importlib.util.module_from_spec(spec))
    for name in (f"level_{level}.c", "level.inc"):
        shutil.copy(ROOT / "native" / name, folder)
    names = re.findall(r"^(?:MAP|MAP_BY|BINARY)\((\w+),", (ROOT / "native/kernels" / file).read_text(), re.M)
    table = (ROOT / "native/kernels.inc").read_text()
    listed = re.findall(r"^KERNEL(?:_OF_ELEMENTS|_OF_SINGLES)?\((\w+),.*$", table, re.M)
    known = [name for name in [*names, "gelu", "gelu_grad", "clamp"] if name in listed]
    (folder / "templates.inc").write_text("".join(f'#include "kernels/{name}.inc"\n' for name in OF_ELEMENTS))
    (folder / "kernels.inc").write_text("".join(f"KERNEL({name}, 1, 0, 0, 0)\n" for name in known))
    command = ["gcc", *setup.FLAGS, "-w", "-DPG_BUILDING=1", "-fopt-info-vec-optimized", "-c", f"level_{level}.c"]
    command += [f"-I{ROOT / 'native'}", f"-I{ROOT / 'surface/kernels'}", "-o", "level.o"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    return [int(line) for line in re.findall(rf"{file}:(\d+):\d+: optimized: loop vectorized using", told.stderr)]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the compiler that tells is gcc")
@pytest.mark.parametrize("level", ["v3", "v4"])
def test_functions_of_elements_are_loops_over_vectors(level, tmp_path):
    """A condition that the compiler can't turn into a mask makes a loop ten times slower, and nothing else tells."""
    if numpy.dtype("longdouble").itemsize != 16 or "avx2" not in LEVELS:
        pytest.skip("the levels are those of x86-64")
    lines, file = vectorized("elementwise.inc", level, tmp_path), "elementwise.inc"
    written = (ROOT / "native/kernels/vectors.inc").read_text()
    by_hand = re.findall(r"^FOURS\((\w+),", written, re.M) if level == "v4" else []
    missing = {}
    for number, line in enumerate((ROOT / "native/kernels" / file).read_text().splitlines(), 1):
        if found := re.match(r"MAP(?:_BY)?\((\w+),", line):
            loops, wanted = lines.count(number), 2 - (found[1] in SCALAR) - (found[1] in by_hand)
            if loops < wanted:
                missing[found[1]] = loops
    assert lines and not missing


@pytest.mark.parametrize("level", LEVELS)
def test_functions_of_elements_do_not_depend_on_the_place(level):
    """Whether an element is one of a vector or of what is left of an array, its value has the same bits."""
    numbers = {"exp": (), "sigmoid": (), "silu": (), "softplus": (1, 20), "elu": (1, 1, 1), "gelu": (False,)}
    for dtype, (name, more) in itertools.product(FLOATS, numbers.items()):
        x = numpy.random.default_rng(0).normal(size=150).astype(dtype) * 4
        x[::29], x[1::31] = numpy.inf, numpy.nan
        x[2::37], x[3::41] = -numpy.inf, -0.0
        with numpy.errstate(all="ignore"):
            whole = functions(level)[name](x, *more)
            graded = functions(level)["gelu_grad"](x[::-1].copy(), x, *more) if name == "gelu" else None
            for n in (1, 3, 15, 16, 17, 63, 64, 65, 100):
                part = functions(level)[name](x[-n:].copy(), *more)
                assert numpy.array_equal(part, whole[-n:], equal_nan=True), (name, n)
                if graded is not None:
                    part = functions(level)["gelu_grad"](x[:n][::-1].copy(), x[-n:].copy(), *more)
                    assert numpy.array_equal(part, graded[-n:], equal_nan=True), (name, n)


def shapes():
    return itertools.product((1, 2, 3, 8, 19), (1, 2, 3, 4, 5, 7, 8, 100))


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_and_products(name, backward):
    """In the bits of sums one after the other in float64, at all levels: those that cancel show another order."""
    random, turn = numpy.random.default_rng(0), -1 if backward else 1
    for (rows, n), special in itertools.product(shapes(), (0.0, numpy.inf, numpy.nan)):
        double = random.normal(size=(rows, n)) * 10.0 ** random.integers(-3, 4, (rows, n))
        double[-1, n // 2] = special
        double[0, : n // 2] = numpy.resize([1e8, 3e-5, -1e8, 1e-4], n // 2)
        single = double.astype(numpy.float32)
        results = [[functions(level)[name](x, 1, backward) for x in (single, double)] for level in LEVELS]
        for here in results:
            assert all(a.tobytes() == b.tobytes() for a, b in zip(here, results[0], strict=True))
        for x, sums in zip((single, double), results[0], strict=True):
            with numpy.errstate(all="ignore"):
                exact = getattr(x[:, ::turn], name)(1, "float64")[:, ::turn].astype(x.dtype)
            assert numpy.array_equal(sums, exact, equal_nan=True)
        for level in LEVELS:  # along another dimension
            across = functions(level)[name](numpy.ascontiguousarray(double.T), 0, backward)
            assert numpy.array_equal(across.T, results[0][1], equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_sums_of_slices_have_one_order(threads):
    """However many threads take part: each element adds up its slices one after the other."""
    random, before = numpy.random.default_rng(0), kernels.module().get_num_threads()
    kernels.module().set_num_threads(threads)
    try:
        for level, (outer, n, m, inner), dtype in itertools.product(
            LEVELS, ((1, 40, 3000, 100), (3, 7, 900, 33), (5, 3, 4, 1), (2, 4, 0, 3), (1, 9, 2000, 17)), FLOATS
        ):
            into, slices = (random.normal(size=(outer, k, inner)).astype(dtype) for k in (n, m))
            at, expected = random.integers(-n, n, m), into.copy()
            skipped = int(at[0]) % n if m else -1
            for j in range(m):
                if at[j] % n != skipped:
                    expected[:, at[j]] += slices[:, j]
            assert functions(level)["add_slices"](into, at, slices, 1, skipped, True) is None
            assert into.tobytes() == expected.tobytes()
            taken = numpy.empty((outer, m, inner), dtype)
            assert functions(level)["take"](into, at, taken, 1, True) is None
            assert numpy.array_equal(taken, into[:, at])
            assert functions(level)["take"](into, at + n, taken, 1, True) is NotImplemented or not (at >= 0).any()
    finally:
        kernels.module().set_num_threads(before)


@pytest.mark.parametrize("shape", [(5, 8, 8, 8), (3, 2, 17, 40, 33), (2, 64, 64, 32), (2, 90, 70, 90), (1, 4, 4, 5000)])
def test_batches_of_products(shape):
    """Of any layout, of one memory with itself, and of batches that one matrix or fewer dimensions stand for."""
    *lead, m, n, k = shape
    random, turned = numpy.random.default_rng(0), lambda array: array.swapaxes(-2, -1).copy().swapaxes(-2, -1)
    for dtype in FLOATS:
        a, b = random.normal(size=(*lead, m, k)).astype(dtype), random.normal(size=(*lead, k, n)).astype(dtype)
        wide = random.normal(size=(*lead, k, 2 * n)).astype(dtype)
        pairs = [(x, y) for x in (a, turned(a), a[..., ::-1]) for y in (b, turned(b), wide[..., ::2], wide[..., n:])]
        pairs += [(a, a.swapaxes(-2, -1)), (a[:1], b), (a, b[0]), (a[0, :], b[:1])]
        for x, y in pairs:
            product = torch.from_numpy(x.copy("K") if min(x.strides) < 0 else x) @ torch.from_numpy(y)
            exact = x.astype(numpy.longdouble) @ y.astype(numpy.longdouble)
            assert product.shape == exact.shape
            assert numpy.allclose(product.numpy(), exact.astype(float), rtol=0, atol=16 * numpy.finfo(dtype).eps * k)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("program", ["rows", "columns", "in place"])
def test_compiled_loops_over_rows_of_any_width(program, dtype):
    """Short rows are joined, or end with whole vectors; what a row is combined with may be one row or one column."""
    run = {
        "rows": lambda x, y, row, column: ((x * y + row).relu() - row * 2, x > row),
        "columns": lambda x, y, row, column: ((x + row) * column - y, x * column),
        "in place": lambda x, y, row, column: (x.mul_(y).add_(row), y.sub_(column).mul_(x)),
    }[program]
    call = torch.compile(run, backend="native", dynamic=False)
    for shape in [(400, 3), (197, 10), (64, 100), (66, 17), (4, 15), (40, 96), (2, 2, 33), (3, 600)]:
        arguments = [torch.randn(*size, dtype=dtype) for size in (shape, shape, shape[-1:], (shape[-2], 1))]
        expected = run(*[a.clone() for a in arguments])
        given = [a.clone() for a in arguments]
        for one, other in zip(call(*given), expected, strict=True):
            assert torch.equal(one, other), shape
