"""What was wrong on CUDA, and could be: storages, views, indices, values that only the device knows, generators."""

from __future__ import annotations

import functools
import io
import os
import pathlib
import subprocess
import sys

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.extend import scipy_of
from plugrad.testing.checks import backends
from support import fake_backend


def both(program):
    """Assert that a function of a device gives the same lists on the CPU and on CUDA; return them."""
    expected, found = program("cpu"), program("cuda")
    assert found == expected
    return found


# ---------------------------------------------------------------------------------------------------- plugrad check


def checks():
    """Return the checks of a backend with data, but for those of single ops, which test_ops_on_cuda.py has."""
    found = backends.checks(registry.backend("cuda"))
    return {name: check for name, check in found.items() if not name.startswith("parity of ") and name != "no data"}


@pytest.mark.parametrize("name", checks())
def test_check(name):
    checks()[name](registry.backend("cuda"), "cuda")


def test_the_lists_of_cupys_names_are_true():
    xp = registry.backend("cuda").xp
    for name in fake_backend.cupy_names():
        functools.reduce(getattr, name.split("."), xp)
    for name in fake_backend.cupyx_names():
        module, _, function = name.partition(".")
        getattr(scipy_of(xp, module), function)


# ---------------------------------------------------------------------------------------------------- memory


def test_writes_through_all_kinds_of_views_reach_the_base_and_are_counted(cuda):
    views = {
        "slice": lambda x: x[1:], "transposed": lambda x: x.t(), "reshaped": lambda x: x.view(-1),
        "diagonal": lambda x: x.diagonal(), "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
        "unfold": lambda x: x.unfold(1, 2, 2), "expanded and picked": lambda x: x.unsqueeze(0).expand(2, 3, 4)[0],
        "other type": lambda x: x.view(torch.int32), "select": lambda x: x.select(1, 2),
        "split": lambda x: x.split(2)[1],
    }  # fmt: skip
    for name, view in views.items():
        x = torch.zeros(3, 4, device=cuda)
        one = view(x)
        assert one._is_view() is (name != "other type")  # that is another name of the memory, as in PyTorch
        assert one.untyped_storage() is x.untyped_storage(), name
        one.fill_(1)
        y = torch.zeros(3, 4)
        view(y).fill_(1)
        assert torch.equal(x.cpu(), y) and x._version == 1, name
    z = torch.zeros(2, dtype=torch.complex64, device=cuda)
    z.real.fill_(2)
    z.imag[1] = 3
    assert z.tolist() == [2, 2 + 3j] and z._version == 2


def test_values_that_were_written_after_they_were_saved_are_noticed(cuda):
    for view in (lambda x: x[:1], lambda x: x.as_strided((1,), (1,)), lambda x: x.view(torch.int32)):
        saved = torch.ones(2, device=cuda, requires_grad=True) * 1
        square = saved * saved
        with torch.no_grad():
            view(saved).zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            square.sum().backward()


def test_a_write_through_as_strided_takes_the_gradient_of_what_it_wrote():
    def program(device):
        x = torch.ones(6, device=device, requires_grad=True)
        y = x * 2
        y.as_strided((2, 2), (3, 1)).copy_(torch.zeros(2, 2, device=device))
        y.sum().backward()
        w = torch.ones(6, device=device, requires_grad=True)
        torch.as_strided_scatter(w, torch.ones(2, 2, device=device), (2, 2), (3, 1)).sum().backward()
        return x.grad.tolist(), w.grad.tolist()

    assert both(program) == ([0, 0, 2, 0, 0, 2], [0, 0, 1, 0, 0, 1])


def test_saved_files_share_memory_as_the_tensors_did(cuda, tmp_path):
    base = torch.arange(6.0, device=cuda)
    for form in (None, "torch"):
        torch.save({"all": base, "part": base[2:4], "turned": base.view(2, 3).t()}, tmp_path / "x.pt", format=form)
        for place in ("cpu", "cuda:0", f"cuda:{torch.cuda.device_count() - 1}"):
            back = torch.load(tmp_path / "x.pt", map_location=place)
            assert {str(t.device) for t in back.values()} == {place}
            assert back["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
        back["all"][2] = 9
        assert back["part"].tolist() == [9, 3]
        assert torch.load(tmp_path / "x.pt")["all"].device.type == "cuda"


def test_state_dicts_and_copies(cuda):
    import copy

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).to(cuda)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    other.load_state_dict(torch.load(file))
    assert torch.equal(other[0].weight, model[0].weight.cpu())
    copied = copy.deepcopy(model)
    copied[0].weight.data.zero_()
    assert copied[0].weight.is_cuda and model[0].weight.any()


# ---------------------------------------------------------------------------------------------------- indices


WRONG = {
    "picks": lambda x, i: x[i],
    "picks columns": lambda x, i: x[:, i],
    "picks beside a mask": lambda x, i: x[i, torch.tensor([True, False], device=x.device)],
    "writes": lambda x, i: x.clone().__setitem__(i, 1.0),
    "puts": lambda x, i: torch.index_put(x, (i,), x[0], accumulate=True),
    "gathers": lambda x, i: x.gather(0, i[:, None]),
    "scatters": lambda x, i: x.scatter(0, i[:, None], x),
    "selects": lambda x, i: x.index_select(0, i),
    "adds": lambda x, i: x.index_add(0, i, x[:1]),
    "takes": lambda x, i: x.take(i),
    "embeds": lambda x, i: torch.nn.functional.embedding(i, x),
    "labels": lambda x, i: torch.nn.functional.cross_entropy(x[:1], i),
}


@pytest.mark.parametrize("name", WRONG)
def test_indices_out_of_range_are_told_when_somebody_waits(name, cuda):
    x = torch.ones(2, 2, device=cuda)
    WRONG[name](x, torch.tensor([0], device=cuda))
    torch.cuda.synchronize()
    WRONG[name](x, torch.tensor([7], device=cuda))
    with pytest.raises(torch.AcceleratorError, match="device-side assert triggered: .*PLUGRAD_CUDA_SYNC=1"):
        torch.cuda.synchronize()
    torch.cuda.synchronize()  # it is told once
    assert x.sum().item() == 4


def test_other_values_that_only_the_device_knows(cuda):
    x = torch.ones(2, device=cuda)
    for call, words in (
        (lambda: torch.nn.functional.binary_cross_entropy(x * 3, x), "all elements of input should be between 0 and 1"),
        (lambda: torch.bernoulli(x * 2), "every element is a probability"),
        (lambda: x.int() // torch.tensor([1, 0], device=cuda), "ZeroDivisionError"),
    ):
        call()
        with pytest.raises(torch.AcceleratorError, match=words):
            x.cpu()


SYNC = """
import sys
sys.path.insert(0, {tests!r})
import os
if os.environ.get("CUPY_ON_CPU"):
    import cupy_on_cpu
    cupy_on_cpu.load()
import plugrad as torch
x = torch.ones(2, device="cuda")
try:
    x[torch.tensor([7], device="cuda")]
except IndexError as error:
    print("at once:", error)
"""


def test_with_plugrad_cuda_sync_the_op_itself_raises():
    program = SYNC.format(tests=str(pathlib.Path(__file__).parents[1]))
    environment = {**os.environ, "PLUGRAD_CUDA_SYNC": "1"}
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    assert told.stdout == "at once: index 7 is out of bounds for dimension 0 with size 2\n", told.stderr


FAILING = """
import sys
sys.path.insert(0, {tests!r})
import os
if os.environ.get("CUPY_ON_CPU"):
    import cupy_on_cpu
    cupy_on_cpu.load()
    wrong = "if (threadIdx.x % 32 < 16) __syncthreads(); else __shfl_xor_sync(0xffffffffu, 1, 1);"
else:
    wrong = "*(volatile int *)8 = 1;"
import plugrad as torch
from plugrad.extend import load_inline, op

source = "template <typename T> __global__ void fail(long long n, T *x) {{ " + wrong + " }}"
fail = load_inline(cuda=source, name="fail", arrays=1)

@op(at=(), like="input")
def broken(xp, input):
    if {forward}:
        fail(input)
    return input + 0

@broken.vjp
def broken_vjp(F, g):
    fail(g.copy())
    return g

x = torch.ones(256, device="cuda", requires_grad=True)
y = x * 2
try:
    y = broken(y)
    y.backward(torch.ones_like(y))
except torch.AcceleratorError as error:
    print(error)
"""


@pytest.mark.parametrize("forward", [True, False])
def test_with_plugrad_cuda_sync_an_error_of_cuda_names_the_op(forward, on_stand_in):
    if on_stand_in and not forward:
        pytest.skip("a launch of the stand-in fails at once, in the formula, not later")
    program = FAILING.format(tests=str(pathlib.Path(__file__).parents[1]), forward=forward)
    environment = {**os.environ, "PLUGRAD_CUDA_SYNC": "1"}
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=120)
    where = "in the op broken" if forward else "in the backward of BrokenBackward"
    assert "CUDA error: " in told.stdout and where in told.stdout, told.stderr


def test_indices_and_numbers_may_be_on_the_cpu():
    def program(device):
        x = torch.arange(12.0, device=device).reshape(3, 4).requires_grad_()
        rows, mask = torch.tensor([2, 0]), torch.tensor([True, False, True])
        picked = [x[rows], x[mask], x[:, torch.tensor([1])], x[rows, torch.tensor([1, 1])], x[torch.tensor(1)]]
        sum(p.sum() for p in picked).backward()
        y = torch.zeros(3, 4, device=device)
        y[rows] = 5.0
        y[mask] += 1
        y[1] = torch.tensor(7.0)
        y[0, torch.tensor([3])] = torch.tensor(8.0)
        put = y.index_put((rows,), torch.tensor(2.0), accumulate=True)
        return x.grad.tolist(), y.tolist(), put.tolist(), [p.tolist() for p in picked]

    both(program)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda")[torch.tensor([0, 1])] + torch.ones(2)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda").gather(0, torch.tensor([0]))
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda")[0:2] = torch.ones(2)


def test_unravelled_indices():
    both(lambda device: [t.tolist() for t in torch.unravel_index(torch.tensor(5, device=device), (3, 4))])


# ---------------------------------------------------------------------------------------------------- random numbers


def test_words_of_philox(cupy):
    """The answers that its authors publish."""
    from plugrad.plugins.backends._philox import WORDS

    kernel = cupy.ElementwiseKernel(
        "uint64 seed, uint64 place", "raw uint32 y",
        "Philox source(seed, place); for (int k = 0; k < 4; ++k) y[k] = source.word();", "words_of_philox",
        preamble=WORDS,
    )  # fmt: skip
    words = cupy.zeros(4, "uint32")
    kernel(0, cupy.zeros(1, "uint64"), words)
    assert [f"{word:08x}" for word in words.tolist()] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]


def test_generators_have_states(cuda):
    g = torch.Generator(cuda).manual_seed(3)
    torch.rand(5, device=cuda, generator=g)
    state, other = g.get_state(), g.clone_state()
    first = torch.randn(4, device=cuda, generator=g)
    assert torch.equal(first, torch.randn(4, device=cuda, generator=other))
    assert torch.equal(first, torch.randn(4, device=cuda, generator=g.set_state(state)))
    assert state.dtype is torch.uint8 and state.shape == (16,) and g.initial_seed() == 3
    with pytest.raises(RuntimeError, match="16 bytes"):
        g.set_state(torch.zeros(3, dtype=torch.uint8))
    torch.cuda.manual_seed(4)
    kept = torch.cuda.get_rng_state()
    drawn = torch.rand(3, device=cuda)
    torch.cuda.set_rng_state(kept)
    assert torch.equal(drawn, torch.rand(3, device=cuda))
    with torch.random.fork_rng(devices=[0]):
        torch.rand(3, device=cuda)
    torch.cuda.set_rng_state(kept)
    assert torch.equal(drawn, torch.rand(3, device=cuda))


def moments(x):
    return x.double().mean().item(), x.double().var().item()


def test_distributions_of_draws(cuda):
    torch.manual_seed(1)
    n = 20000
    full = lambda value: torch.full((n,), float(value), device=cuda, dtype=torch.float64)  # noqa: E731
    cases = [(torch.rand(n, device=cuda), 0.5, 1 / 12), (torch.randn(n, device=cuda, dtype=torch.float64), 0, 1)]
    cases += [(torch.poisson(full(rate)), rate, rate) for rate in (0.5, 9.5, 40, 1e4)]
    cases += [(torch.binomial(full(k), full(p)), k * p, k * p * (1 - p)) for k, p in ((10, 0.3), (99, 0.4), (50, 0.9))]
    cases += [(torch._standard_gamma(full(a)), a, a) for a in (0.2, 1, 6)]
    for drawn, mean, variance in cases:
        found = moments(drawn)
        assert abs(found[0] - mean) < 5 * (variance / n) ** 0.5
        assert abs(found[1] - variance) < 0.12 * variance
    whole = torch.randint(-(2**63), 2**63 - 1, (n,), device=cuda)
    assert whole.min().item() < -(2**62) and whole.max().item() > 2**62
    assert set(torch.randint(3, 6, (n,), device=cuda).tolist()) == {3, 4, 5}
    assert sorted(torch.randperm(50, device=cuda).tolist()) == list(range(50))
    assert torch.rand(n, device=cuda).min().item() >= 0 and torch.rand(n, device=cuda).max().item() < 1
    assert torch.binomial(full(5), full(1)).eq(5).all() and torch.poisson(full(0)).eq(0).all()


# ---------------------------------------------------------------------------------------------------- types


def test_half_precision_is_there(cuda):
    assert torch.cuda.is_bf16_supported()
    for dtype in (torch.float16, torch.bfloat16):
        a, b = (torch.randn(shape, generator=torch.Generator().manual_seed(1)) for shape in ((2, 3, 4), (2, 4, 5)))
        a, b = a.to(dtype), b.to(dtype)
        assert torch.allclose((a.to(cuda) @ b.to(cuda)).cpu().float(), (a @ b).float(), rtol=1e-2, atol=1e-2)
        x = a.to(cuda).requires_grad_()
        torch.nn.functional.layer_norm(x, (4,)).square().sum().backward()
        assert x.grad.dtype is dtype and x.grad.is_cuda


def test_products_of_halves_are_added_up_in_single_precision(cuda):
    rng = torch.Generator().manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        for one, other in (
            ((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
            ((2, 1, 3, 4), (1, 5, 4, 2)), ((0, 3, 4), (0, 4, 5)), ((2, 3, 0), (2, 0, 5)), ((2, 3, 4), (4,)),
            ((4,), (2, 4, 3)),
        ):  # fmt: skip
            a, b = (torch.randn(shape, generator=rng).to(dtype) for shape in (one, other))
            found = (a.to(cuda) @ b.to(cuda)).cpu()
            assert found.dtype is dtype and torch.allclose(found.float(), (a @ b).float(), rtol=1e-2, atol=1e-2)
            turned = a.to(cuda).transpose(-1, -2).contiguous().transpose(-1, -2) if a.ndim > 1 else a.to(cuda)
            assert torch.equal((turned @ b.to(cuda)).cpu(), found)
        ones = torch.ones(1, 1, 4097, device=cuda, dtype=dtype)
        assert (ones @ ones.transpose(1, 2)).item() == torch.tensor(4097.0).to(dtype).item()
    with pytest.raises(RuntimeError, match="Expected size for first two dimensions of batch2"):
        torch.ones(2, 3, 4, device=cuda).half() @ torch.ones(2, 5, 4, device=cuda).half()


def test_products_of_halves_are_calls_of_cublas_without_casts(cuda, stand_in):
    """CuPy casts batches of float16 to float32 first; bfloat16 its build for HIP can't multiply at all."""
    x = torch.ones(2, 3, 4, device=cuda, dtype=torch.float16)
    before = stand_in.counts()["launches"]
    assert (x @ x.mT).dtype is torch.float16 and stand_in.counts()["launches"] == before


def test_functions_of_bfloat16_and_of_complex_numbers_that_cupy_has_otherwise(cuda):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.bfloat16, device=cuda)
    for result in (torch.where(x > 1, x, 0), torch.where(x > 1, x, x), x.tril(), x.triu(1)):
        assert result.dtype is torch.bfloat16 and result._raw.dtype == "bfloat16"
    loss = torch.nn.functional.cross_entropy(x, torch.tensor([1, -100], device=cuda))
    assert loss.dtype is torch.bfloat16 and loss.item() == pytest.approx(0.3133, rel=1e-2)
    z = torch.tensor([0, 1j], device=cuda)
    assert torch.logical_and(z, z).tolist() == [False, True] and torch.logical_not(z).tolist() == [True, False]


def test_denormals_are_zero_on_cuda_and_no_gradient_becomes_nan(cuda):
    """CuPy has its kernels compiled with -ftz=true: in single precision a denormal number counts as zero."""
    tiny = torch.tensor([1e-40, 1.0], device=cuda)
    assert (tiny * 1).tolist() == [0, 1] and tiny.tolist() == [numpy.float32(1e-40), 1]
    x = torch.tensor([1e-40, 2.0], device=cuda, requires_grad=True)
    for call in (torch.tanh, torch.sigmoid, torch.nn.functional.gelu, torch.nn.functional.softplus):
        (g,) = torch.autograd.grad(call(x).sum(), x)
        assert torch.isfinite(g).all()


def test_copies_between_devices_have_gradients():
    def program(other):
        x = torch.ones(2, 3, device=other, dtype=torch.float64, requires_grad=True)
        y = torch.zeros(2, 3) * 1
        y.copy_(x * 2)
        z = torch.zeros(4, 2, 3, device=other)
        z.copy_(y)
        (z.sum() * 3).backward()
        parameter = torch.nn.Parameter(torch.zeros(3))
        with torch.no_grad():
            parameter.copy_(torch.arange(3, device=other))
        return x.grad.tolist(), str(x.grad.device.type) == other, parameter.tolist(), y.device.type

    both(program)


def test_a_type_that_an_op_takes_nowhere_is_refused_in_its_words(cuda):
    for name in ("floor", "sign", "ceil"):
        told = []
        for device in ("cpu", "cuda"):
            with pytest.raises(NotImplementedError) as caught:
                getattr(torch, name)(torch.ones(2, dtype=torch.complex64, device=device))
            told.append((type(caught.value), str(caught.value)))
        assert told[0] == told[1]


@pytest.mark.filterwarnings("ignore:plugrad. Use of")
def test_writes_into_memory_that_overlaps_itself_are_refused_as_on_the_cpu():
    """NumPy locks what is expanded, and CuPy can't: an addition in place would be done once for each element."""
    writes = {
        "add": lambda x: x.add_(1), "augmented": lambda x: x.__iadd__(1), "mul": lambda x: x.mul_(x),
        "relu": lambda x: x.relu_(), "exp": lambda x: x.exp_(), "copy": lambda x: x.copy_(torch.ones_like(x)),
        "fill": lambda x: x.fill_(2), "zero": lambda x: x.zero_(), "clamp": lambda x: x.clamp_(0, 1),
        "item": lambda x: x.__setitem__(0, 5.0), "all": lambda x: x.__setitem__(..., 5.0),
        "mask": lambda x: x.masked_fill_(x >= 0, -1), "index": lambda x: x.__setitem__(x >= 0, -1.0),
        "index_fill": lambda x: x.index_fill_(0, torch.tensor([0], device=x.device), 3.0),
        "out": lambda x: torch.add(x, 1, out=x), "lerp": lambda x: x.lerp_(x, 0.5), "sub": lambda x: x.sub_(x),
    }  # fmt: skip
    for cls in (torch.Tensor, type("Marked", (torch.Tensor,), {})):
        for name, write in writes.items():

            def program(device, write=write, cls=cls):
                x = torch.tensor([1.0, 2.0, 0.5], device=device).as_subclass(cls).expand(2, 3)
                try:
                    write(x)
                except RuntimeError as error:
                    return [str(error), *x.tolist()]
                return x.tolist()

            assert both(program), name


def test_gradients_of_running_sums_in_halves():
    def program(device):
        found = []
        for dtype in (torch.float16, torch.bfloat16):
            x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, dtype=dtype, requires_grad=True)
            y = x.cumsum(0).cumprod(1)
            y.sum().backward()
            found += [y.tolist(), x.grad.tolist()]
        return found

    both(program)
