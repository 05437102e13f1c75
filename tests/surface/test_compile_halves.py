"""Half precision in compiled loops: each bit as in eager programs, whatever the layout and the numbers."""

from __future__ import annotations

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, nn
from plugrad.compiler import explain

F = nn.functional
HALVES = [torch.float16, torch.bfloat16]

pytestmark = pytest.mark.skipif(kernels.why_none() is not None, reason="there are no kernels in C")


def compiled(function):
    return torch.compile(function, backend="native", fullgraph=True)


def bits(tensor):
    """Return a tensor's bits, those of all NaN alike."""
    array = tensor.detach().contiguous()
    array = torch.where(array.isnan(), torch.full_like(array, float("nan")), array)
    return array.view(torch.int16 if array.element_size() == 2 else torch.int32).numpy()


def same(one, other, label):
    assert one.dtype is other.dtype and one.shape == other.shape, label
    assert numpy.array_equal(bits(one), bits(other)), label


@pytest.mark.parametrize("dtype", HALVES)
def test_all_numbers_there_are(dtype):
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    other = HALVES[dtype is HALVES[0]]
    function = lambda x: (x.float(), x * 2, x + x.flip(0), -x, x.to(other))  # noqa: E731
    for number, (one, two) in enumerate(zip(compiled(function)(x), function(x), strict=True)):
        same(one, two, f"result {number}")


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_are_rounded_once(dtype):
    patterns = numpy.arange(0, 2**32, 65537 // 2, dtype=numpy.uint64).astype(numpy.uint32)
    middles = (numpy.arange(0, 2**16, dtype=numpy.uint32) << 16) + numpy.uint32(0x8000)
    near = [middles - numpy.uint32(1), middles, middles + numpy.uint32(1), middles >> 3 << 3 | numpy.uint32(0x1000)]
    x = torch.from_numpy(numpy.concatenate([patterns, *near]).view(numpy.float32))
    narrowed = compiled(lambda x: x.to(dtype))
    same(narrowed(x), x.to(dtype), "float32")
    for kind in (torch.bool, torch.uint8, torch.int16, torch.float64, torch.int64):
        y = (torch.arange(2000) * 7 - 500).to(kind)
        same(compiled(lambda y: y.to(dtype))(y), y.to(dtype), str(kind))


def everything(x, y):
    """Return what several programs come to that read the same arrays."""
    other = x.clone()
    return {
        "a sum": x + y,
        "rounded in between": (x + y) * y - x,
        "two types": torch.stack([(x * y).exp().float(), (x * y).float()]),
        "a choice": torch.where(x > y, x, 0.5),
        "joined": torch.cat([x + 1, y * 2], -1),
        "a row": x * y[..., :1] + y[..., 0:1],
        "in place": other.mul_(2).add_(y),
        "filled": torch.full_like(x, 1.5) + torch.zeros_like(y) + x.new_ones(1),
        "with floats": (x.float() * 0.1 + y).to(x.dtype),
        "activations": F.gelu(x) + F.silu(y).sigmoid() + x.relu().tanh(),
        "sums": (x * y).sum(-1) + (x - y).amax(),
        "a softmax": (x * y).softmax(-1),
    }


LAYOUTS = {
    "rows": lambda make: make(3, 130),
    "large": lambda make: make(40, 257),
    "one": lambda make: make(1, 1),
    "columns": lambda make: make(130, 3).t(),
    "every second": lambda make: make(6, 300)[::2, ::2],
    "of three dimensions, backward": lambda make: make(5, 70, 4).transpose(0, 1).flip(1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", HALVES)
def test_programs_have_the_bits_of_eager_ones(dtype, layout):
    call, (x, y) = compiled(everything), [LAYOUTS[layout](lambda *n: torch.randn(*n).to(dtype)) for _ in range(2)]
    for _ in range(2):
        actual, expected = call(x, y), everything(x, y)
        for name, value in expected.items():
            same(actual[name], value, name)


def test_a_tensor_that_is_written_is_read_before():
    for layout in LAYOUTS.values():
        x, y = [layout(lambda *n: torch.randn(*n).half()) for _ in range(2)]
        one, other, function = x.clone(), x.clone(), lambda x, y: x.mul_(2).add_(y) * 1
        same(compiled(function)(one, y), function(other, y), "result")
        same(one, other, "argument")


def test_conversions_are_part_of_loops():
    call = compiled(lambda x, y: (x + y) * 2)
    call(torch.ones(300).half(), torch.ones(300).half())
    assert "widen(" in explain(call) and "narrow(" in explain(call) and "f2(" not in explain(call)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_loop_writes_to_the_memory_of_halves_that_it_reads_last(dtype):
    def function(x):
        x = x * 2
        y = x.softmax(-1)
        drawn = torch.rand(40, 130)  # which nothing passes
        return (x * y * drawn.to(dtype)).softmax(-1)

    def seeded(run):
        torch.manual_seed(0)
        return run(x)

    call, x = compiled(function), torch.randn(40, 130).to(dtype)
    same(seeded(call), seeded(function), "result")
    assert "narrow(w0, p0" in explain(call)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_model_in_half_precision_is_trained_as_eagerly(dtype):
    def losses(run):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 3)).to(dtype)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, t = torch.randn(16, 6).to(dtype), torch.randint(0, 3, (16,))

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = run(step)
        return torch.stack([step().float() for _ in range(5)])

    torch.testing.assert_close(losses(compiled), losses(lambda f: f), rtol=3e-2, atol=3e-2)
