"""Convolutions on CUDA by plugrad's own kernels, against the CPU's results."""

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.plugins.ops import _convolution_on_cuda as ours
from plugrad.plugins.ops.convolution_kernels import geometry_of

F = torch.nn.functional
DTYPES = ["float32", "float64", "float16", "bfloat16"]
BOUNDS = {"float32": 1e-4, "float64": 1e-11, "float16": 2e-2, "bfloat16": 1e-1}


@pytest.fixture(autouse=True)
def _exact_and_without_cudnn(monkeypatch):
    """These are tests of plugrad's own kernels, with all digits; nothing counts as large."""
    monkeypatch.setattr(ours, "LONG", 10**9)
    monkeypatch.setattr(ours, "_plan", ours.Plan)
    monkeypatch.setattr(ours, "_prepared", ours._prepared.__wrapped__)
    with torch.backends.cudnn.flags(enabled=False, allow_tf32=False):
        yield


def results_of(compute, leaves, device):
    """What `compute` gives on a device for leaves, and the leaves' gradients."""
    leaves = [x.to(device).detach().requires_grad_() for x in leaves]
    y = compute(*leaves)
    y.backward(torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape).to(device, y.dtype))
    return [y.detach()] + [leaf.grad for leaf in leaves]


def agree(compute, *leaves):
    """Whether both devices give the same in the same order; what is half is compared with float32 on the CPU."""
    name = str(leaves[0].dtype).removeprefix("torch.")
    exact = [x.float() for x in leaves] if leaves[0].dtype.itemsize == 2 else leaves
    here, there = results_of(compute, exact, "cpu"), results_of(compute, leaves, "cuda")
    for a, b in zip(here, there, strict=True):
        assert a.shape == b.shape and b.dtype is leaves[0].dtype
        assert a.is_contiguous() == b.is_contiguous()
        scale = max(1.0, a.abs().max().item()) if a.numel() else 1.0
        torch.testing.assert_close(b.cpu().to(a.dtype), a, rtol=BOUNDS[name], atol=BOUNDS[name] * scale)


CASES = {  # input, weight, options
    "signals": ((2, 3, 9), (4, 3, 3), {}),
    "a signal without a batch": ((3, 9), (4, 3, 3), {"padding": 1}),
    "images": ((2, 3, 9, 8), (5, 3, 3, 3), {"padding": 1}),
    "by two": ((2, 3, 9, 8), (5, 3, 3, 3), {"stride": 2, "padding": 1}),
    "steps beyond the kernel": ((2, 3, 11, 13), (5, 3, 2, 2), {"stride": (3, 4)}),
    "dilated": ((2, 3, 9, 8), (5, 3, 3, 2), {"dilation": (2, 3), "padding": (2, 1)}),
    "groups": ((2, 6, 9, 8), (9, 2, 3, 3), {"groups": 3, "padding": 1}),
    "a kernel beyond the image": ((2, 3, 2, 3), (4, 3, 5, 5), {"padding": 2}),
    "one tap": ((2, 5, 7, 6), (7, 5, 1, 1), {}),
    "one tap by two": ((2, 5, 7, 6), (7, 5, 1, 1), {"stride": 2}),
    "one element": ((3, 4, 1, 1), (2, 4, 1, 1), {}),
    "one channel": ((3, 1, 6, 6), (1, 1, 3, 3), {}),
    "same": ((2, 3, 6, 7), (4, 3, 2, 4), {"padding": "same"}),
    "many channels": ((2, 70, 6, 5), (67, 70, 3, 3), {"padding": 1}),
    "twenty channels": ((2, 5, 6, 5), (20, 5, 3, 3), {"padding": 1}),
    "some channels": ((2, 20, 6, 5), (33, 20, 3, 3), {"padding": 1}),
    "volumes": ((2, 3, 4, 5, 6), (4, 3, 3, 2, 3), {"padding": (1, 0, 1), "stride": (1, 2, 1)}),
    "many windows": ((9, 3, 19, 18), (4, 3, 3, 3), {"padding": 1}),
    "depthwise": ((2, 4, 9, 8), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
    "depthwise by two, doubled": ((2, 3, 9, 8), (6, 1, 3, 2), {"groups": 3, "stride": 2, "padding": 1, "dilation": 2}),
    "depthwise signals": ((2, 4, 9), (8, 1, 4), {"groups": 4}),
    "depthwise volumes": ((2, 2, 4, 5, 6), (2, 1, 2, 3, 2), {"groups": 2, "padding": 1}),
}  # fmt: skip
TRANSPOSED = {
    "signals": ((2, 3, 9), (3, 4, 3), {}),
    "by two": ((2, 3, 5, 4), (3, 5, 4, 4), {"stride": 2, "padding": 1}),
    "with more at the end": ((2, 3, 5, 4), (3, 5, 3, 3), {"stride": 3, "padding": 1, "output_padding": (2, 1)}),
    "groups": ((2, 6, 5, 4), (6, 3, 3, 2), {"groups": 2, "dilation": 2}),
    "volumes": ((1, 3, 3, 2, 3), (3, 2, 2, 3, 2), {"stride": 2}),
    "depthwise": ((2, 4, 5, 4), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
    "depthwise, doubled": ((2, 4, 5, 4), (4, 2, 3, 3), {"groups": 4, "stride": 2, "padding": 1}),
}  # fmt: skip


def drawn(dtype, *shapes):
    torch.manual_seed(5)
    return [torch.randn(shape, dtype=torch.float64).to(getattr(torch, dtype)) for shape in shapes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name, biased, dtype, launched):
    input, weight, options = CASES[name]
    conv = getattr(F, f"conv{len(weight) - 2}d")
    agree(lambda *leaves: conv(*leaves, **options), *drawn(dtype, input, weight, *[weight[:1]] * biased))
    kind = "depthwise" if name.startswith(("depthwise", "one channel")) else "convolve"
    assert {kind, f"{kind}_back", f"{kind}_weight"} <= {*launched}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(name, biased, dtype, launched):
    input, weight, options = TRANSPOSED[name]
    conv = getattr(F, f"conv_transpose{len(weight) - 2}d")
    outputs = (weight[1] * options.get("groups", 1),)
    agree(lambda *leaves: conv(*leaves, **options), *drawn(dtype, input, weight, *[outputs] * biased))
    kind = "depthwise" if name == "depthwise, doubled" or name == "depthwise" else "convolve"
    assert kind == "depthwise" or {kind, f"{kind}_back", f"{kind}_weight"} <= {*launched}


FORMS = {
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "strided": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0), "expanded": lambda x: x[:1].expand(x.shape),
    "flipped": lambda x: x.flip(2),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("which", [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case[0]) == 4])
def test_other_orders_of_memory(name, which, form):
    input, weight, options = CASES[name]

    def run(x, w):
        x, w = [FORMS[form](one) if there else one for one, there in zip((x, w), which)]
        return F.conv2d(x, w, **options)

    agree(run, *drawn("float64", input, weight))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["by two", "groups", "depthwise"])
def test_other_orders_of_memory_transposed(name, form):
    input, weight, options = TRANSPOSED[name]
    agree(lambda x, w: F.conv_transpose2d(FORMS[form](x), w, **options), *drawn("float64", input, weight))


def test_gradients_in_other_orders():
    """The gradient that comes may lie anyhow, too."""
    for form in FORMS.values():
        agree(lambda x, w, form=form: form(F.conv2d(x, w, padding=1)), *drawn("float64", (2, 3, 9, 8), (5, 3, 3, 3)))
        agree(lambda x, w, form=form: form(F.conv2d(x, w, groups=3)), *drawn("float64", (2, 3, 9, 8), (6, 1, 3, 3)))


@pytest.mark.parametrize("shapes", [((0, 3, 9, 8), (5, 3, 3, 3)), ((2, 0, 9, 8), (5, 0, 3, 3))])
def test_nothing(shapes):
    agree(lambda x, w: F.conv2d(x, w), *drawn("float64", *shapes))


def test_second_gradients():
    for name in ("by two", "groups", "depthwise by two, doubled"):
        input, weight, options = CASES[name]
        found = []
        for device in ("cpu", "cuda"):
            x, w = [one.to(device).requires_grad_() for one in drawn("float64", input, weight)]
            grads = torch.autograd.grad(F.conv2d(x.sin(), w.sin(), **options).pow(3).sum(), (x, w), create_graph=True)
            total = sum((g * g).sum() for g in grads)
            found.append([g.cpu() for g in torch.autograd.grad(total, (x, w))])
        for here, there in zip(*found):
            torch.testing.assert_close(there, here)


def test_infinities_stay_where_they_are():
    """Nothing outside of a window, and no padding, is multiplied by zero."""
    x, w = drawn("float32", (1, 2, 8, 9), (3, 2, 3, 3))
    x[0, 0, 0, 0], x[0, 1, 5, 5] = numpy.inf, numpy.nan
    for options in ({"padding": 1}, {"padding": 2, "stride": 2}):
        here, there = F.conv2d(x, w, **options), F.conv2d(x.cuda(), w.cuda(), **options).cpu()
        assert torch.equal(here.isfinite(), there.isfinite())
        torch.testing.assert_close(there, here, equal_nan=True, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["many windows", "depthwise", "groups"])
def test_in_any_order_of_threads(name, stand_in):
    input, weight, options = CASES[name]
    found, leaves = [], drawn("float32", input, weight)
    for order in (0, 1, 7, 99991):
        stand_in.set_order(order)
        try:
            found.append(results_of(lambda x, w: F.conv2d(x, w, **options), leaves, "cuda"))
        finally:
            stand_in.set_order(0)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


@pytest.mark.parametrize("name, backward", [("images", 3), ("many windows", 4), ("depthwise", 3)])
def test_how_many_kernels_are_launched(name, backward, stand_in):
    input, weight, options = CASES[name]
    leaves = [x.cuda().requires_grad_() for x in drawn("float32", input, weight, weight[:1])]
    counted = []
    for _ in range(2):
        before = stand_in.counts()["launches"]
        y = F.conv2d(*leaves, **options)
        between, g = stand_in.counts()["launches"], torch.ones_like(y)
        start = stand_in.counts()["launches"]
        torch.autograd.grad(y, leaves, g)
        counted = [between - before, stand_in.counts()["launches"] - start]
    assert counted == [1, backward]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("images", [9, 1, 0])
@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("depthwise")])
def test_by_products_of_matrices(name, images, last, dtype, monkeypatch, launched):
    """As large convolutions are computed: in parts where the workspace has not room for all, without where for none."""
    input, weight, options = CASES[name]
    if last and len(input) != 4:
        pytest.skip("an order of images")
    monkeypatch.setattr(ours, "LONG", 0)
    monkeypatch.setattr(ours, "_chunks", lambda xp, plan, itemsize: min(plan.batch, images))
    form = FORMS["channels last"] if last else lambda x: x
    conv = getattr(F, f"conv{len(weight) - 2}d")
    agree(lambda x, *others: conv(form(x), *others, **options), *drawn(dtype, input, weight, weight[:1]))
    transposed = getattr(F, f"conv_transpose{len(weight) - 2}d")
    if "padding" not in options or isinstance(options["padding"], int):
        input = (2, weight[0], *input[2:]) if len(input) == len(weight) else (weight[0], *input[1:])
        agree(lambda x, w: transposed(form(x), w, **options), *drawn(dtype, input, weight))
    if images and name not in ("one channel", "one element", "one tap"):
        assert {"columns", "columns_back"} <= {*launched}


def test_the_workspace_is_bounded(monkeypatch):
    """What is laid out at once takes no more than it says."""
    geometry = geometry_of((1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    monkeypatch.setattr(ours, "LONG", 32)
    plan = ours.Plan(geometry, (64, 64, 112, 112), (64, 64, 112, 112), (3, 3), False, False)
    assert plan.long["forward"] and ours._chunks(None, plan, 4) * 64 * 9 * 112 * 112 * 4 <= ours.WORKSPACE
    assert ours._chunks(None, ours.Plan(geometry, (1, 64, 999, 999), (1, 64, 999, 999), (3, 3), False, False), 4) == 0


def test_short_products_where_they_are_allowed(monkeypatch, cupy):
    """Single precision is rounded to TF32 where `torch.backends.cudnn.allow_tf32` says so, and only there."""
    monkeypatch.setattr(ours, "LONG", 0)
    asked, module = [], registry.backend("cuda").xp
    products = module.products_in_place

    def noted(*args, short, **options):
        asked.append(short)
        return products(*args, short=short, **options)

    monkeypatch.setitem(vars(module), "products_in_place", noted)
    x, w = [one.cuda() for one in drawn("float32", (2, 3, 9, 8), (5, 3, 3, 3))]
    F.conv2d(x, w)
    with torch.backends.cudnn.flags(allow_tf32=True):
        F.conv2d(x, w)
    assert asked == [False, True]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_biases_of_many_windows(last, dtype, launched):
    """Their sums are made in parts, which one more kernel joins."""
    form = FORMS["channels last"] if last else lambda x: x
    leaves = drawn(dtype, (3, 2, 60, 50), (4, 2, 1, 1), (4,))
    agree(lambda x, w, b: form(F.conv2d(x, w, b)), *[leaf / 30 for leaf in leaves[:2]], leaves[2])
    assert launched.count("convolve_join") == 2
