"""More of plugrad's own kernels in CUDA C++: losses, activations, batch normalization, embeddings, recurrent steps."""

import numpy
import pytest

import plugrad as torch

F, inf = torch.nn.functional, numpy.inf
DTYPES = ["float32", "float64"]
ORDERS = [1, 7, 99991]


def both(compute, *leaves):
    """What `compute` gives for leaves on the CPU and on the device, and the leaves' gradients, as pairs on the CPU."""
    found = []
    for device in ("cpu", "cuda"):
        here = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in leaves]
        results = compute(*here)
        results = results if isinstance(results, tuple) else (results,)
        slopes = [torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape).to(device) for y in results]
        total = sum((y * slope).sum() for y, slope in zip(results, slopes))
        wanted = [x for x in here if x.requires_grad]
        grads = torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else []
        found.append([y.detach().cpu() for y in results] + [g.cpu() for g in grads if g is not None])
    assert len(found[0]) == len(found[1])
    return zip(*found)


def agree(compute, *leaves):
    """Whether CPU and device agree, as closely as the type of the first leaf lets expect."""
    tolerance = 1e-4 if leaves[0].dtype is torch.float32 else 1e-10
    for here, there in both(compute, *leaves):
        torch.testing.assert_close(there, here, rtol=tolerance, atol=tolerance, equal_nan=True)


def in_every_order(stand_in, compute, *leaves):
    """Whether results and gradients on the device have the same bits in every order of the threads."""
    found = []
    for order in (0, *ORDERS):
        stand_in.set_order(order)
        try:
            found.append([there for _, there in both(compute, *leaves)])
        finally:
            stand_in.set_order(0)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


LOSSES = [
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 1}, {"label_smoothing": 0.2},
    {"ignore_index": 1, "label_smoothing": 0.2, "reduction": "none"},
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", LOSSES)
@pytest.mark.parametrize("shape", [(5, 3), (4, 600), (7,), (2, 3, 4), (2, 5, 3, 2)])
def test_cross_entropy(shape, options, weighted, dtype, launched):
    torch.manual_seed(1)
    x = 3 * torch.randn(shape, dtype=getattr(torch, dtype))
    classes = shape[1] if len(shape) > 1 else shape[0]
    labels = torch.randint(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    weight = torch.rand(classes, dtype=x.dtype) + 0.5
    given = [x, labels, weight] if weighted else [x, labels]

    def loss(x, labels, weight=None):
        return F.cross_entropy(x, labels, None if weight is None else weight.detach(), **options)

    agree(loss, *given)
    assert launched == ["cross_entropy", "cross_entropy_grad"]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_labels_that_do_not_count(reduction):
    x = torch.tensor([[inf, 1.0], [0.0, 1.0], [-inf, 1.0], [-inf, -inf], [float("nan"), 0.0]])
    for labels in ([-100] * 5, [-100, 1, 1, -100, -100], [0, 1, 0, 1, 1]):
        agree(lambda x, y: F.cross_entropy(x, y, reduction=reduction), x, torch.tensor(labels))
    agree(lambda x, y: F.cross_entropy(x, y, reduction=reduction), x[:0], torch.zeros(0, dtype=torch.long))


def test_a_label_that_is_no_class_is_told_by_whoever_waits():
    for wrong in (-1, 3, 2**40):
        loss = F.cross_entropy(torch.zeros(2, 3).cuda(), torch.tensor([0, wrong]).cuda())
        with pytest.raises(torch.AcceleratorError, match=f"Target {wrong} is out of bounds"):
            loss.item()


def test_second_gradients_of_cross_entropy():
    def slope(x, labels):
        (g,) = torch.autograd.grad(F.cross_entropy(x, labels, label_smoothing=0.1), x, create_graph=True)
        return g * g

    agree(slope, torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 4, -100, 2]))


@pytest.mark.parametrize("size", [70, 700])
def test_cross_entropy_in_any_order_of_threads(size, stand_in):
    x, labels = torch.randn(3, size), torch.tensor([1, 2, -100])
    in_every_order(stand_in, lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), x, labels)


GATES = {
    "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu, "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (257,), (3, 5)])
@pytest.mark.parametrize("name", GATES)
def test_activations(name, shape, dtype, launched):
    agree(GATES[name], 4 * torch.randn(shape, dtype=getattr(torch, dtype)))
    kernel = name.split()[0]
    assert launched == [kernel, f"{kernel}_grad"]


@pytest.mark.parametrize("name", GATES)
def test_activations_at_edges(name):
    x = torch.tensor([0.0, -0.0, inf, -inf, float("nan"), 80.0, -80.0, 1e30, -1e30, 6.0, -6.0])
    for here, there in list(both(GATES[name], x))[:1]:
        torch.testing.assert_close(there, here, equal_nan=True)
    agree(GATES[name], x[[0, 5, 6, 9, 10]])
    agree(lambda x: GATES[name](x.T), torch.randn(3, 4))


@pytest.mark.parametrize("op", [torch.sigmoid, F.silu, F.gelu, lambda x: torch.softmax(x, -1)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "complex64", "bfloat16", "float16"])
def test_other_types_get_what_the_cpu_gives(op, dtype):
    """A kernel that is written for floats must not be made for integers, which C++ would do without a word."""
    found = []
    for device in ("cpu", "cuda"):
        try:
            found.append(op(torch.tensor([[0, 1, 2], [1, 1, 0]]).to(device, getattr(torch, dtype))).cpu())
        except NotImplementedError:
            found.append(NotImplementedError)
    if isinstance(found[0], torch.Tensor):
        torch.testing.assert_close(*found, rtol=1e-2, atol=1e-2)
    else:
        assert found[0] is found[1]


def test_second_gradients_of_activations():
    def slope(x):
        (g,) = torch.autograd.grad(sum(op(x).sum() for op in GATES.values()), x, create_graph=True)
        return g * g

    agree(slope, torch.randn(4, 5, dtype=torch.float64))
