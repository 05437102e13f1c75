"""cuDNN, where it is: its results against those of plugrad's own kernels, and the switches that hold it."""

import pytest

import plugrad as torch
from plugrad.plugins.ops import _attention_on_cuda as attention
from plugrad.plugins.ops import _convolution_on_cuda as convolution
from plugrad.plugins.ops import _cudnn

F = torch.nn.functional
needed = pytest.mark.skipif(not torch.backends.cudnn.is_available(), reason=torch.backends.cudnn.library()[1])
CONVOLUTIONS = {
    "signals": ((2, 8, 33), (16, 8, 3), {"padding": 1}), "images": ((2, 8, 9, 12), (16, 8, 3, 3), {"padding": 1}),
    "by two": ((2, 8, 9, 12), (16, 8, 3, 3), {"stride": 2, "padding": (1, 0)}),
    "groups": ((2, 8, 9, 12), (16, 4, 3, 3), {"groups": 2}), "dilated": ((2, 8, 9, 12), (16, 8, 3, 3), {"dilation": 2}),
    "one tap": ((2, 8, 9, 12), (16, 8, 1, 1), {}), "volumes": ((2, 8, 5, 6, 7), (16, 8, 3, 3, 3), {"padding": 1}),
}  # fmt: skip
BOUNDS = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


@pytest.fixture
def asked(monkeypatch):
    """Everything counts as large; what cuDNN was asked, and whether it served it."""
    monkeypatch.setattr(convolution, "LONG", 0)
    monkeypatch.setattr(convolution, "_plan", convolution.Plan)
    monkeypatch.setattr(convolution, "_prepared", convolution._prepared.__wrapped__)
    monkeypatch.setattr(attention, "LARGE", {2: 0, 4: 0})
    found, run = [], _cudnn._run

    def noted(xp, key, *rest):
        found.append((key[0], run(xp, key, *rest)))
        return found[-1][1]

    monkeypatch.setattr(_cudnn, "_run", noted)
    return found


def results_of(compute, leaves, **switches):
    """What `compute` gives for leaves with some switches, and the leaves' gradients."""
    leaves = [x.cuda().requires_grad_() for x in leaves]
    with torch.backends.cudnn.flags(**switches):
        y = compute(*leaves)
        y.backward(torch.linspace(-1, 2, y.numel()).reshape(y.shape).to(y.device, y.dtype))
    return [y.detach().cpu(), *[x.grad.cpu() for x in leaves]]


def agree(compute, leaves, **switches):
    """Whether cuDNN and plugrad's own kernels agree."""
    dtype, count = str(leaves[0].dtype).removeprefix("torch."), 0
    own = results_of(compute, leaves, allow_tf32=False, enabled=False)
    for a, b in zip(results_of(compute, leaves, allow_tf32=False, **switches), own):
        assert a.shape == b.shape and a.dtype is b.dtype
        torch.testing.assert_close(a, b, rtol=BOUNDS[dtype], atol=BOUNDS[dtype] * max(1.0, b.abs().max().item()))
        count += 1
    assert count == len(leaves) + 1


def drawn(dtype, *shapes):
    torch.manual_seed(8)
    return [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]


@needed
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name, last, dtype, asked):
    input, weight, options = CONVOLUTIONS[name]
    format = torch.channels_last if last and len(input) == 4 else torch.contiguous_format
    conv = getattr(F, f"conv{len(weight) - 2}d")
    leaves = drawn(dtype, input, weight, weight[:1])
    agree(lambda x, *others: conv(x.contiguous(memory_format=format), *others, **options), leaves)
    assert {kind for kind, served in asked if served} == {"fprop", "dgrad", "wgrad"}


@needed
def test_transposed_convolutions(asked):
    leaves = drawn("float32", (2, 8, 9, 12), (8, 4, 4, 4), (4,))
    agree(lambda *x: F.conv_transpose2d(*x, stride=2, padding=1), leaves)
    agree(lambda *x: F.conv_transpose2d(*x, stride=3, output_padding=1), leaves)
    assert {kind for kind, served in asked if served} == {"fprop", "dgrad", "wgrad"}


@needed
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [4, 2])
def test_attention(heads, causal, dtype, asked):
    leaves = drawn(dtype, (2, 4, 128, 64), (2, heads, 128, 64), (2, heads, 128, 64))
    agree(lambda *x: F.scaled_dot_product_attention(*x, is_causal=causal, enable_gqa=heads != 4), leaves)
    assert [one for one in asked if one[1]] == [("sdpa", True), ("sdpa_backward", True)]


@needed
def test_trying_plans(asked):
    agree(lambda x, w: F.conv2d(x, w, padding=1), drawn("float32", (4, 16, 20, 20), (32, 16, 3, 3)), benchmark=True)
    assert all(served for _, served in asked)


@needed
def test_what_it_does_not_serve_is_computed_all_the_same(asked):
    """Attention of a head of 12 elements, which is not a multiple of 8."""
    leaves = drawn("float16", *[(1, 2, 40, 12)] * 3)
    agree(F.scaled_dot_product_attention, leaves)
    assert asked and not any(served for _, served in asked)


class Refusing:
    """A frontend whose graphs serve nothing."""

    class cudnnGraphNotSupportedError(Exception):
        pass

    class data_type:
        FLOAT = HALF = BFLOAT16 = 0

    @staticmethod
    def create_handle():
        return object()

    @staticmethod
    def set_stream(handle, stream):
        assert isinstance(stream, int)

    @staticmethod
    def pygraph(**options):
        raise Refusing.cudnnGraphNotSupportedError("nothing")


def test_a_refusal_is_remembered_and_falls_back(asked, monkeypatch):
    made, refuse = [], Refusing.pygraph
    monkeypatch.setattr(type(torch.backends.cudnn), "library", staticmethod(lambda: (Refusing, "a frontend")))
    monkeypatch.setattr(Refusing, "pygraph", staticmethod(lambda **options: made.append(options) or refuse(**options)))
    monkeypatch.setattr(_cudnn, "_graphs", {})
    monkeypatch.setattr(_cudnn, "_handles", {})
    leaves = drawn("float32", (2, 3, 9, 8), (5, 3, 3, 3))
    first = results_of(lambda x, w: F.conv2d(x, w, padding=1), leaves)
    assert [kind for kind, _ in asked] == ["fprop", "dgrad", "wgrad"] and len(made) == 3
    again = results_of(lambda x, w: F.conv2d(x, w, padding=1), leaves)
    assert len(made) == 3 and all(map(torch.equal, first, again))


def test_it_is_not_asked_where_it_is_switched_off(asked, monkeypatch):
    monkeypatch.setattr(type(torch.backends.cudnn), "library", staticmethod(lambda: (Refusing, "a frontend")))
    results_of(lambda x, w: F.conv2d(x, w, padding=1), drawn("float32", (2, 3, 9, 8), (5, 3, 3, 3)), enabled=False)
    assert not asked
    assert torch.backends.cudnn.is_available() and torch.backends.cudnn.is_acceptable(torch.ones(1).cuda())
    with torch.backends.cudnn.flags(enabled=False):
        assert not torch.backends.cudnn.is_acceptable(torch.ones(1).cuda()) and "enabled is False" in _cudnn.state()
