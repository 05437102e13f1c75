"""Devices besides the CPU: every kernel on a strict fake one, the meta device, and CUDA where it is missing."""

from __future__ import annotations

import ast
import pathlib
import weakref

import numpy
import pytest
import scipy.linalg
import scipy.special

import plugrad as torch
from plugrad import registry
from plugrad.extend import scipy_of
from plugrad.testing import samples_of
from support import distribution_builder, fake_backend, known_failures
from support.ops_on_devices import HERE, OURS, compare, compare_values, draws, of_size_one

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.usefixtures("fake")


# ---------------------------------------------------------------------------------------------------- the fake device


@pytest.mark.parametrize("name", [name for name in OURS if name not in HERE])
def test_op_on_the_fake_device(name):
    op, failures = registry.op(name), {}
    for number, sample in enumerate(samples_of(op)):
        try:
            compare(op, sample, "fake")
        except NotImplementedError as error:
            if isinstance(error.__cause__, AttributeError):  # a name that CuPy lacks
                failures["value"] = f"{name}, sample {number} {sample}: {error}"
            continue  # it says so, on the CPU too
        except Exception as error:
            failures["value"] = f"{name}, sample {number} {sample}: {type(error).__name__}: {error}"
    known_failures.settle("fake.txt", name, failures)


SIZED = {  # their other arguments tell sizes
    "avg_pool", "convolve_weight_grad", "max_pool_grad", "normalize_affine", "normalize_by", "normalize_rows",
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in OURS if name not in HERE | SIZED])
def test_op_of_size_one_on_the_fake_device(name):
    """Where an op has nothing to do, too, it gives what it gives on the CPU, in memory of its own where that does."""
    op = registry.op(name)
    for sample in map(of_size_one, samples_of(op)):
        try:
            random = draws(op, sample)
        except Exception:  # the CPU refuses these sizes
            continue
        try:
            compare_values(op, sample, "fake", random=random)
        except NotImplementedError:
            continue


def test_the_fake_device_is_strict(fake):
    x = torch.ones(3, device=fake)
    with pytest.raises(TypeError, match="host memory"):
        x._raw + torch.ones(3)._raw
    with pytest.raises(AttributeError, match="CuPy has no apply_over_axes"):
        _ = fake.backend.xp.apply_over_axes
    with pytest.raises(NotImplementedError, match=r"CuPy has no multiply\.at"):
        fake.backend.xp.multiply.at(x._raw, x.long()._raw, 2.0)
    with pytest.raises(TypeError, match=r"CuPy's add\.at does not take int64"):
        fake.backend.xp.add.at(x.long()._raw, x.long()._raw, 2)


def test_the_fake_device_is_adverse(fake):
    """What CuPy does without a word: its arrays wrap, write in any order, lose the order and saturate."""
    x = torch.arange(4.0, device=fake)._raw
    places = torch.tensor([5, -7], device=fake)._raw
    assert x[places].tolist() == x.take(places).tolist() == [1, 1]
    xp, ones = fake.backend.xp, torch.ones(2, device=fake)._raw
    assert xp.take(x, places).tolist() == xp.take_along_axis(x, places, 0).tolist() == [1, 1]
    counted = torch.zeros(4, device=fake)._raw
    xp.add.at(counted, places, ones)
    assert counted.tolist() == [0, 2, 0, 0]
    winners = set()
    for _ in range(50):
        y = torch.zeros(2, device=fake)._raw
        y[torch.tensor([1, 1, 1], device=fake)._raw] = torch.tensor([1.0, 2.0, 3.0], device=fake)._raw
        winners.add(y.tolist()[1])
    assert winners == {1, 2, 3}
    turned = torch.zeros(2, 3, device=fake).t()._raw
    assert turned.flags.f_contiguous and (turned + 1).flags.c_contiguous and turned.astype("int64").flags.c_contiguous
    assert all([y.flags.c_contiguous for y in (xp.where(turned > 0, turned, 1), xp.concatenate([turned, turned]))])
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), -1.5], device=fake)._raw
    assert odd.astype("int64").tolist() == [0, 2**63 - 1, -(2**63), -1]
    assert odd.astype("uint64").tolist() == [0, 2**64 - 1, 0, 0]
    written = torch.zeros(4, dtype=torch.int32, device=fake)._raw
    written[...] = odd
    assert written.tolist() == [0, 2**31 - 1, -(2**31), -1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(x.device)
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(x.data)
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 4"):
        torch.arange(4.0, device=fake)[torch.tensor([5], device=fake)]


def test_devices_do_not_mix(fake):
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=fake) + torch.ones(2)


def test_a_model_trains_on_the_fake_device(fake):
    def train(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Flatten(), torch.nn.Linear(8, 3),
        )  # fmt: skip
        images, labels = torch.randn(4, 1, 6, 6), torch.tensor([0, 1, 2, 0])
        model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert {p.device.type for p in model.parameters()} == {torch.device(device).type}
        return losses

    assert train(fake) == pytest.approx(train("cpu"), rel=1e-4)


def test_writes_and_views_on_the_fake_device(fake):
    x = torch.zeros(2, 3, device=fake)
    x[0] = 1
    x[:, 1] += 2
    x[x > 2] = -1
    x.t()[2].mul_(5)
    assert x.tolist() == [[1, -1, 5], [0, 2, 0]]
    assert x._version == 5
    saved = torch.ones(2, device=fake, requires_grad=True) * 1
    square = saved * saved
    saved.as_strided((1,), (1,)).zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.sum().backward()


def test_state_dict_crosses_devices(fake, tmp_path):
    model = torch.nn.Linear(2, 2).to(fake)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    other = torch.nn.Linear(2, 2)
    other.load_state_dict(torch.load(tmp_path / "state.pt", map_location="cpu"))
    assert torch.equal(other.weight, model.weight.cpu())


# ---------------------------------------------------------------------------------------------------- CuPy's names


def dotted(node):
    """Return "xp.linalg.solve" for that expression, else None."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def used_names():
    """Return the names that kernels use of their array module, with the files that use them."""
    used: dict = {}
    for file in sorted((ROOT / "plugins").rglob("*.py")):
        tree = ast.parse(file.read_text())
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            name = dotted(node) if isinstance(node, ast.Attribute) and id(node) not in inner else None
            if name and name.startswith("xp."):
                used.setdefault(name[3:], set()).add(file.name)
    return used


def used_of_scipy():
    """Return the names that kernels use of `scipy_of(xp, NAME)`, with the files that use them."""
    used: dict = {}
    for file in sorted((ROOT / "plugins").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        bound, seen = {}, 0
        for node in nodes:
            if isinstance(node, ast.Assign) and module_of_scipy(node.value):
                bound[node.targets[0].id] = module_of_scipy(node.value)
                seen += 1
        for node in nodes:
            if isinstance(node, ast.Attribute):
                module = module_of_scipy(node.value)
                seen += module is not None
                if isinstance(node.value, ast.Name):
                    module = bound.get(node.value.id)
                if module:
                    used.setdefault(f"{module}.{node.attr}", set()).add(file.name)
        assert seen == sum(map(is_call_of_scipy, nodes)), f"{file}: write scipy_of(...).NAME or NAME = scipy_of(...)"
    return used


def is_call_of_scipy(node) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "scipy_of"


def module_of_scipy(node):
    """Return "special" for the expression `scipy_of(xp, "special")`, None for others."""
    return ast.literal_eval(node.args[1]) if is_call_of_scipy(node) else None


ATTRIBUTES = {"__name__", "gemm", "products_in_place", "watched_fault", "told_fault", "fill_where"}  # of CUDA's module
ATTRIBUTES |= {"cuda.alloc", "cuda.get_current_stream", "cuda.runtime.getDevice"}  # which cuDNN is given
CPU_ONLY = {"logaddexp.accumulate", "linalg.get_blas_funcs", "linalg.get_lapack_funcs"}  # where arrays are NumPy's
# Functions of SciPy without which ops fall back to the CPU.
NOT_ON_CUDA = {"linalg.lapack": {"ldl.py"}, "special.airy": {"bessel.py"}}


def test_kernels_use_what_cupy_has():
    known = fake_backend.cupy_names() | ATTRIBUTES | CPU_ONLY
    missing = {name: files for name, files in used_names().items() if name not in known}
    assert not missing


def test_kernels_use_what_cupyx_scipy_has():
    known = fake_backend.cupyx_names() | CPU_ONLY
    missing = {name: files for name, files in used_of_scipy().items() if name not in known}
    assert missing == NOT_ON_CUDA


AT_FIRST_USE = """
import sys
import numpy, plugrad
from plugrad.extend import scipy_of
layer = plugrad.nn.Linear(2, 2)
layer(plugrad.ones(1, 2)).relu().sum().backward()
print("scipy" in sys.modules)
scipy_of(numpy, "special")
print("scipy.special" in sys.modules, "scipy.linalg" in sys.modules)
"""


def test_scipy_is_imported_at_first_use(tmp_path):
    assert distribution_builder.output(AT_FIRST_USE, cwd=tmp_path).split() == ["False", "True", "False"]


def test_scipy_for_an_array_module(fake):
    assert scipy_of(numpy, "special") is scipy.special and scipy_of(numpy, "linalg") is scipy.linalg
    assert scipy_of(fake.backend.xp, "special").erf.ufunc is scipy.special.erf
    with pytest.raises(NotImplementedError, match=r"no cupyx\.scipy\.optimize"):
        scipy_of(fake.backend.xp, "optimize")
    with pytest.raises(AttributeError, match=r"CuPy has no special\.airy"):
        _ = scipy_of(fake.backend.xp, "special").airy
    with pytest.raises(TypeError, match="no backend that is in use has the array module"):
        scipy_of(ast, "special")


# ---------------------------------------------------------------------------------------------------- meta


def test_meta_tensors_take_no_memory():
    x = torch.empty(10**6, 10**6, device="meta")
    y = (x @ x.t()).relu().sum(0) + 1
    assert y.shape == (10**6,) and y.device.type == "meta" and x.numel() == 10**12


def test_a_reshape_that_would_copy_reads_no_memory_on_meta():
    """There is a single element of it: NumPy's copy of more is a segmentation fault."""
    x = torch.empty(30000, 3000, device="meta")
    copied, viewed = x.t().reshape(-1), x.t().reshape(3000, 300, 100)
    assert copied._base is None and copied.stride() == (1,)
    assert viewed._base is x and viewed.stride() == (1, 300000, 3000)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(-1)
    with pytest.raises(RuntimeError, match=r"shape '\[7\]' is invalid for input of size 90000000"):
        x.t().reshape(7)


def test_gradients_have_shapes_on_meta():
    layer = torch.nn.Linear(10**6, 10**5, device="meta")
    layer(torch.empty(10**4, 10**6, device="meta")).sum().backward()
    assert layer.weight.grad.shape == (10**5, 10**6) and layer.weight.grad.device.type == "meta"


@pytest.mark.parametrize("method", ["item", "tolist", "numpy", "cpu", "__bool__", "__float__"])
def test_meta_tensors_have_no_data(method):
    with pytest.raises((RuntimeError, NotImplementedError, TypeError), match="meta"):
        getattr(torch.empty((), device="meta"), method)()


def test_a_module_leaves_meta_by_to_empty():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4, device="meta"), torch.nn.BatchNorm1d(4, device="meta"))
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    model.to_empty(device="cpu")
    for module in model:
        module.reset_parameters()
    x = torch.randn(2, 3)
    expected = torch.nn.functional.linear(x, model[0].weight, model[0].bias) / (1 + model[1].eps) ** 0.5
    assert torch.allclose(model.eval()(x), expected)
    assert {t.device.type for t in model.state_dict().values()} == {"cpu"}


# ---------------------------------------------------------------------------------------------------- cuda


def without_cuda():
    reason = registry.backend("cuda").available()
    if reason is None:
        pytest.skip("there is a GPU here")
    return reason


def test_cuda_says_why_it_is_not_there():
    reason = without_cuda()
    assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
    x = torch.ones(2)
    for make in (lambda: torch.ones(2, device="cuda"), x.cuda, lambda: x.to("cuda:0")):
        with pytest.raises((RuntimeError, AssertionError)) as caught:
            make()
        assert reason in str(caught.value)


def test_unknown_devices():
    with pytest.raises(RuntimeError, match=r"Expected one of cpu, cuda.* device type"):
        torch.device("toaster")
