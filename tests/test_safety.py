"""Safer numbers: no NaN from the branch not taken, and writes that bypass autograd are noticed."""

from __future__ import annotations

import gc
import math
import threading
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad import aliases, autograd

F = torch.nn.functional

# ---------------------------------------------------------------------------------------------------- zero_safe

INF, NAN = math.inf, math.nan


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def taken_by_mask(x):
    quotient = x / torch.tensor([0.0, 1.0])
    return quotient[torch.tensor([False, True])]


# name: (function of x, x, gradient of its sum). Derived by hand: the branch not taken contributes 0, and where the
# derivative at the point is a number of its own (a root at 0, the spread of a constant), the subgradient of least norm.
PROGRAMS = {
    "log in where": (lambda x: torch.where(x > 0, x.log(), 0.0), [-1.0, 0.0, 2.0], [0.0, 0.0, 0.5]),
    "quotient in where": (lambda x: torch.where(torch.tensor(False), x / 0, torch.ones(())), 3.0, 0.0),
    "quotient by x in where": (lambda x: torch.where(x != 0, 1 / x, 0.0), [0.0, 2.0], [0.0, -0.25]),
    "sine by x": (lambda x: torch.where(x == 0, 1.0, x.sin() / x), [0.0, 1.0], [0.0, math.cos(1) - math.sin(1)]),
    "quotient masked by index": (taken_by_mask, [1.0, 1.0], [0.0, 1.0]),
    "exp in where": (lambda x: torch.where(x < 0, x.exp(), 1.0), [-1.0, 0.0, 800.0], [math.exp(-1), 0.0, 0.0]),
    "softplus by where": (lambda x: torch.where(x > 20, x, x.exp().log1p()), [0.0, 1000.0], [0.5, 1.0]),
    "logarithm times mask": (lambda x: torch.where(x > 0, x * x.log(), 0.0), [0.0, 1.0], [0.0, 1.0]),
    "masked_fill": (lambda x: x.log().masked_fill(x <= 0, 0.0), [-1.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "root times zero": (lambda x: x.sqrt() * 0, [0.0, 4.0], [0.0, 0.0]),
    "root in where": (lambda x: torch.where(x > 0, x.sqrt(), 0.0), [-4.0, 0.0, 4.0], [0.0, 0.0, 0.25]),
    "power in where": (lambda x: torch.where(x > 0, x**0.5, 0.0), [0.0, 4.0], [0.0, 0.25]),
    "power of negative base": (lambda x: torch.where(x > 0, x**0.5, 0.0), [-1.0, 1.0], [0.0, 0.5]),
    "arc cosine in where": (lambda x: torch.where(x.abs() < 1, x.acos(), 0.0), [1.0, 2.0, 0.0], [0.0, 0.0, -1.0]),
    "atan2 in where": (lambda x: torch.where(x != 0, torch.atan2(x, x), 0.0), [0.0, 1.0], [0.0, 0.0]),
    "norm at zero": (lambda x: (x * x).sum().sqrt(), [0.0, 0.0], [0.0, 0.0]),
    "norm of rows": (lambda x: (x * x).sum(1).sqrt(), [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.6, 0.8]]),
    "own norm": (lambda x: x.norm(dim=1), [[0.0, 0.0], [3.0, 4.0]], [[0.0, 0.0], [0.6, 0.8]]),
    "square and root": (lambda x: (x**2).sqrt(), [0.0, -2.0], [0.0, -1.0]),
    "distance to itself": (lambda x: ((x[:, None] - x[None]) ** 2).sum(-1).sqrt(), [[1.0], [3.0]], [[-2.0], [2.0]]),
    "std of a constant": (lambda x: x.std(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    "var of a constant": (lambda x: x.var(), [2.0, 2.0, 2.0], [0.0, 0.0, 0.0]),
    "root of the variance": (lambda x: ((x - x.mean()) ** 2).mean().sqrt(), [2.0, 2.0], [0.0, 0.0]),
    "broadcast": (lambda x: torch.where(torch.tensor([[True], [True]]), x, x.log()[None] * x), [0.0, 2.0], [2.0, 2.0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_branch_not_taken_contributes_nothing(name):
    function, point, expected = PROGRAMS[name]
    x = leaf(point)
    result = function(x).sum()
    with autograd.zero_safe():
        (by_grad,) = autograd.grad(result, x, retain_graph=True)
        (recorded,) = autograd.grad(result, x, create_graph=True)
        result.backward()
    for found in (by_grad, recorded.detach(), x.grad):
        numpy.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_some_of_these_are_nan_otherwise():
    for name in ("log in where", "quotient in where", "exp in where", "root times zero", "norm at zero"):
        function, point, _ = PROGRAMS[name]
        x = leaf(point)
        function(x).sum().backward()
        assert x.grad.isnan().any(), name


def test_real_nans_propagate():
    with autograd.zero_safe():
        for function, point in (
            (lambda x: x.log(), NAN),  # gradient 1 times derivative NaN
            (lambda x: (x * NAN).exp(), 1.0),  # the gradient itself is NaN
            (lambda x: x.sqrt() * 2, -1.0),
            (lambda x: torch.where(x < 0, x.sqrt(), 0.0), -1.0),  # the branch taken
        ):
            x = leaf(point)
            function(x).backward()
            assert math.isnan(x.grad.item())
        x = leaf([0.0, 1.0])
        (x.sqrt() * torch.tensor([INF, 1.0])).sum().backward()
        assert x.grad.tolist() == [INF, 0.5]  # infinite, and no product with 0


@pytest.mark.parametrize("name", ["log in where", "root in where", "exp in where", "quotient by x in where"])
def test_second_derivative(name):
    second = {"log in where": [0, 0, -0.25], "root in where": [0, 0, -1 / 32], "exp in where": [math.exp(-1), 0, 0],
              "quotient by x in where": [0, 0.25]}[name]  # fmt: skip
    function, point, _ = PROGRAMS[name]
    x = leaf(point)
    with autograd.zero_safe():
        (g,) = autograd.grad(function(x).sum(), x, create_graph=True)
        (h,) = autograd.grad(g.sum(), x)
    numpy.testing.assert_allclose(h.numpy(), second, rtol=1e-12)


def test_second_derivative_through_a_gradient_of_zero():
    x = leaf(2.0)
    with autograd.zero_safe():
        (g,) = autograd.grad((x**2 - 4) ** 2, x, create_graph=True)
        (h,) = autograd.grad(g, x)
    assert g.item() == 0 and h.item() == 32


def test_finite_gradients_stay_bit_for_bit():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3), torch.nn.Softplus())
    x, grads = torch.randn(4, 6), []
    for enabled in (False, True):
        model.zero_grad()
        with autograd.zero_safe(enabled):
            (model(x).log() * x[:, :3].exp()).pow(2).mean().backward()
        grads.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*grads))


@pytest.mark.parametrize("length", [1, 3, 63, 64, 65, 200])
def test_long_chains_are_safe_from_end_to_end(length):
    x = leaf([0.0, 1.0])
    y = x.sqrt()
    for _ in range(length):
        y = y * 1.0
    with autograd.zero_safe():
        torch.where(x > 0, y, 0.0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.5]


def test_with_hooks_and_several_uses():
    x, seen = leaf([0.0, 4.0]), []
    root = x.sqrt()
    root.register_hook(lambda g: seen.append(g.tolist()))
    y = torch.where(x > 0, root + root.log(), 0.0) + x
    with autograd.zero_safe():
        y.sum().backward()
    assert seen == [[0.0, 1.5]]
    assert x.grad.tolist() == [1.0, 1.375]


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_other_dtypes(dtype):
    x = torch.tensor([0.0, 1.0], dtype=getattr(torch, dtype), requires_grad=True)
    with autograd.zero_safe():
        (x.sqrt() * torch.tensor([0.0, 1.0])).abs().sum().backward()
    assert x.grad.dtype is getattr(torch, dtype) and x.grad.tolist() == [0.0, 0.5]


def test_other_families_are_left_alone():
    class Log(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.log()

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return torch.from_numpy(g.numpy() / x.detach().numpy())

    x = leaf([0.0, 2.0])
    with autograd.zero_safe(), numpy.errstate(all="ignore"):
        torch.where(x > 0, Log.apply(x), 0.0).sum().backward()
    assert math.isnan(x.grad[0].item()) and x.grad[1].item() == 0.5


def test_it_acts_where_backward_runs_and_in_its_thread():
    def gradient():
        x = leaf(0.0)
        (x.sqrt() * 0).backward()
        return x.grad.item()

    x = leaf(0.0)
    with autograd.zero_safe():
        y = x.sqrt() * 0
    y.backward()
    assert math.isnan(x.grad.item())
    found = []
    with autograd.zero_safe():
        thread = threading.Thread(target=lambda: found.append((autograd.is_zero_safe_enabled(), gradient())))
        thread.start()
        thread.join()
        with autograd.zero_safe(False):
            assert math.isnan(gradient())
        assert gradient() == 0
    assert not found[0][0] and math.isnan(found[0][1])
    assert autograd.zero_safe()(gradient)() == autograd.zero_safe(gradient)() == 0
    autograd.set_zero_safe(True)
    try:
        assert autograd.is_zero_safe_enabled() and gradient() == 0
    finally:
        autograd.set_zero_safe(False)
    assert math.isnan(gradient())


# ---------------------------------------------------------------------------------------------------- aliases

STALE = "written through a NumPy array"


def param(*shape):
    return torch.arange(1.0, 1 + math.prod(shape)).reshape(shape).requires_grad_()


def write(array):
    array[...] = 100


@pytest.mark.parametrize(
    "export",
    [
        lambda y: y.detach().numpy(),
        lambda y: y.data.numpy(),
        lambda y: y.numpy(force=True),
        lambda y: numpy.asarray(y.detach()),
        lambda y: numpy.from_dlpack(y.detach()),
        lambda y: memoryview(y.detach().numpy()).cast("B"),
        lambda y: y.detach().numpy()[1:],
        lambda y: y.detach()[1:].numpy(),
        lambda y: y.detach().numpy().reshape(3, 1).T,
        lambda y: numpy.frombuffer(y.detach().numpy(), "uint8"),
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_a_write_after_the_node_saved_is_an_error_naming_the_op(export, kept):
    y = param(3).exp()
    array = export(y)
    if isinstance(array, memoryview):
        array[0] = 1 - array[0] % 2
    else:
        write(array)
    if not kept:
        del array
    with pytest.raises(RuntimeError, match=rf"saved by ExpBackward0, was {STALE}.*clone\(\)"):
        y.sum().backward()


def test_functions_of_numpy_write_too():
    for act in (
        lambda y: numpy.add(y.detach().numpy(), 1, out=y.detach().numpy()),
        lambda y: numpy.copyto(y.detach().numpy(), 5),
        lambda y: numpy.random.default_rng(0).shuffle(y.detach().numpy()),
        lambda y: numpy.put(y.detach().numpy(), [1], 9),
    ):
        y = param(300, 40).sigmoid()
        act(y)
        with pytest.raises(RuntimeError, match=STALE):
            y.sum().backward()
    y = param(3).exp()
    numpy.add(numpy.ones(3, "float32"), 1, out=y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_array_of_from_numpy():
    array = numpy.ones(3, "float32")
    ways = torch.from_numpy, torch.as_tensor, torch.asarray, torch.from_dlpack
    for made in (*ways, lambda a: torch.nn.Parameter(torch.from_numpy(a)), lambda a: torch.from_numpy(a).detach()):
        array[:] = 1
        w, x = param(3), made(array)
        loss = (w * x).sum()
        write(array)
        with pytest.raises(RuntimeError, match="MulBackward0, was " + STALE):
            loss.backward()


def test_an_array_is_watched_unless_it_is_handed_over():
    made, w = numpy.ones(3, "float32"), param(3)
    seen = weakref.ref(made)
    x, y = torch.from_numpy(made), torch.from_numpy(numpy.ones(3, "float32"))
    assert x._view is not None and y._view is None
    del made
    for write_to, loss in (seen, (w * x).sum()), (y.numpy, (w * y).sum()):
        write(write_to())
        with pytest.raises(RuntimeError, match=STALE):
            loss.backward()


def test_rows_of_a_big_array_are_watched_by_themselves():
    array, w = numpy.ones((2000, 100), "float32"), param(100)
    x = torch.from_numpy(array)
    loss = (x[10:20] * w).sum()
    array[30] = 5
    loss.backward(retain_graph=True)
    array[15, 3] = 5
    with pytest.raises(RuntimeError, match=STALE):
        loss.backward()


def test_a_buffer_written_anew_while_a_graph_of_its_last_contents_lives():
    buffer, w = numpy.zeros((64, 3, 32, 32), "float32"), torch.ones(1, requires_grad=True)
    losses = []
    for number in range(2):
        buffer[...] = number
        losses.append((torch.from_numpy(buffer) * w).sum())
    losses[1].backward()
    with pytest.raises(RuntimeError, match=STALE):
        losses[0].backward()


def test_a_write_before_the_forward_pass_is_none_of_autograds_business():
    p = param(3)
    kept = p.detach().numpy()
    for number in range(30):
        p.grad = None
        kept[:] = number  # through an array that lives on
        p.data.numpy()[1:] += 1  # and one that doesn't
        loss = (p * p).sum()
        assert number != 7 or loss.item() == 49 + 2 * 64
        loss.backward()
        assert p.grad.tolist() == [2.0 * number, 2.0 * number + 2, 2.0 * number + 2]
    array = numpy.ones(3, "float32")
    x, w = torch.from_numpy(array), param(3)
    for number in range(30):
        array[...] = number
        w.grad = None
        (x * w).sum().backward()
        assert w.grad.tolist() == [number] * 3


def test_other_tensors_of_the_same_array():
    array, w = numpy.ones(3, "float32"), param(3)
    x = torch.from_numpy(array)
    for number, same in enumerate((lambda: x, lambda: x.data, x.detach, lambda: x.view(3), lambda: x, lambda: x.data)):
        array[...] = number
        (same() * w).sum().backward()
    assert w.grad.tolist() == [15.0] * 3
    p = torch.nn.Parameter(torch.ones(3))
    p.data = torch.from_numpy(array)
    loss = (p * p).sum()
    write(array)
    with pytest.raises(RuntimeError, match=STALE):
        loss.backward()


def test_a_write_after_the_use_through_an_array_from_before_it():
    for old in (lambda y: y.detach().numpy(), lambda y: y.detach()[1:].numpy(), lambda y: y.data.numpy().ravel()):
        y = param(3) * 2  # saves nothing of y
        array = old(y)
        write(array)
        z = (y * y).sum()
        z.backward(retain_graph=True)
        array[...] = 7
        with pytest.raises(RuntimeError, match="MulBackward0, was " + STALE):
            z.backward()


def test_writing_the_same_bytes_is_no_change():
    y = param(3).exp()
    array = y.detach().numpy()
    copy = array.copy()
    write(array)
    array[:] = copy
    del array
    y.sum().backward()


def test_other_memory_than_what_was_saved():
    y = param(4) * 2
    array, z = y.detach()[:2].numpy(), (y[2:] * y[2:]).sum()
    write(array)
    z.backward()


def test_optimizers_and_loading_write_without_false_alarm():
    layer = torch.nn.Linear(3, 1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    kept = [p.detach().numpy() for p in layer.parameters()]
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    for number in range(4):
        optimizer.zero_grad()
        layer(torch.ones(2, 3)).sum().backward()
        inside = layer.weight.detach().numpy()
        optimizer.step()
        loss = layer(torch.ones(2, 3)).pow(2).sum()
        del inside
        loss.backward()
        if number == 2:
            layer.load_state_dict(state)
    assert all(numpy.shares_memory(a, p.detach().numpy()) for a, p in zip(kept, layer.parameters()))


def test_digits_trained_by_numpy():
    sklearn = pytest.importorskip("sklearn.datasets")
    images, labels = sklearn.load_digits(return_X_y=True)
    images, labels = (images[:512] / 16).astype("float32"), labels[:512]

    def train(by_numpy):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        batch, wanted = numpy.empty((64, 64), "float32"), numpy.empty(64, "int64")
        x, y = torch.from_numpy(batch), torch.from_numpy(wanted)
        losses = []
        for step in range(40):
            rows = slice(step % 8 * 64, step % 8 * 64 + 64)
            if by_numpy:
                batch[...], wanted[...] = images[rows], labels[rows]
                loss = F.cross_entropy(model(x), y)
            else:
                loss = F.cross_entropy(model(torch.tensor(images[rows])), torch.tensor(labels[rows]))
            model.zero_grad()
            loss.backward()
            losses.append(float(loss.detach().numpy()))
            for p in model.parameters():
                if by_numpy:
                    p.data.numpy()[...] -= numpy.float32(0.5) * p.grad.numpy()
                else:
                    with torch.no_grad():
                        p -= 0.5 * p.grad
        return losses

    losses = train(True)
    assert losses == train(False)
    assert losses[-1] < 0.5 * losses[0]


def test_handles_are_forgotten_without_the_collector():
    gc.collect()
    before = len(aliases._exports), len(aliases._seen)
    gc.disable()
    try:
        y = param(3).exp()
        arrays = [y.detach().numpy() for _ in range(5)]
        assert len(aliases._exports) == before[0] + 1
        (y * y).sum().backward()
        del arrays, y
        assert (len(aliases._exports), len(aliases._seen)) == before
    finally:
        gc.enable()


def test_numpy_of_a_tensor_is_an_array_like_any_other():
    x = torch.ones(2, 3)
    array = x.numpy()
    assert type(array) is numpy.ndarray and array.flags.writeable and numpy.shares_memory(array, x.numpy())
    array[0, 0] = 7
    assert x[0, 0].item() == 7
    assert torch.from_numpy(array).data_ptr() == x.data_ptr()
    assert torch.tensor(3.0).numpy().item() == 3 and torch.ones(2, 3).T.numpy().shape == (3, 2)
    assert not torch.ones(1).expand(3).numpy().flags.writeable


# ---------------------------------------------------------------------------------------------------- Functions


def function(forward, backward=lambda ctx, g: g * 1):
    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Mine", (torch.autograd.Function,), members)


def _numpy_double(tensor):
    array = tensor.detach().numpy()
    array *= 2
    return tensor


@pytest.mark.parametrize("change", [lambda x: x.mul_(2), _numpy_double])
def test_unmarked_write_to_an_input(change):
    mine = function(lambda ctx, x: change(x) * 1)
    for x in (param(3), param(3) * 1):
        with pytest.raises(RuntimeError, match=r"Mine\.forward changed its input number 0 .*ctx\.mark_dirty"):
            mine.apply(x)
    assert mine.apply(torch.ones(3)).tolist() == [2, 2, 2]  # nothing requires grad

    def marked(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    assert function(marked).apply(param(3) * 1).tolist() == [2, 4, 6]


@pytest.mark.parametrize("change", [lambda g: g.mul_(2), _numpy_double])
def test_write_to_grad_output(change):
    mine = function(lambda ctx, x: x * 1, lambda ctx, g: change(g))
    x = param(3)
    with pytest.raises(RuntimeError, match=r"Mine\.backward changed a gradient that it was given in place"):
        (mine.apply(x) ** 2).sum().backward()
    clone = function(lambda ctx, x: x * 1, lambda ctx, g: change(g.clone()))
    (clone.apply(x) ** 2).sum().backward()
    assert x.grad.tolist() == [4.0, 8.0, 12.0]


def _reported_missing_targets():
    """Targets that are missing count for nothing, masked after the loss."""
    x, y = leaf([[0.0, 0.5]]), torch.tensor([[NAN, 0.0]], dtype=torch.float64)
    torch.square(x - y)[~torch.isnan(y)].sum().backward()
    return x.grad


def _reported_reassignment():
    x = leaf([0.0, 100.0])
    f = torch.log(torch.exp(10 * x) + 1)
    f[1] = 0
    f[:] = 0
    return torch.autograd.grad(f[1], x)[0]


def _reported_where(condition, one, other, values):
    x = leaf(values)
    torch.where(condition(x), one(x), other(x)).sum().backward()
    return x.grad


def _masked_by_finite(x):
    return torch.isfinite(x.log())


REPORTED = {  # what users of PyTorch reported as wrong, and what they expected
    "pytorch#187297": (lambda: _reported_where(lambda x: x > 0, torch.sqrt, lambda x: x, [-1.0, -4.0]), [1.0, 1.0]),
    "pytorch#156212": (
        lambda: _reported_where(lambda x: x <= 10, torch.exp, lambda x: torch.tensor(1), [1.0, NAN, 1e10]),
        [math.e, 0.0, 0.0],
    ),
    "pytorch#108618": (
        lambda: _reported_where(lambda x: x > 2, torch.log2, lambda x: 2 * x, [0.0, 2.0, 3.0]),
        [2.0, 2.0, 1 / (3 * math.log(2))],
    ),
    "pytorch#68425": (lambda: _reported_where(lambda x: x <= 0, torch.exp, lambda x: 1 + x, [1000.0]), [1.0]),
    "pytorch#52248": (lambda: _reported_where(_masked_by_finite, torch.log, lambda x: 3 * x, [0.0, 2.0]), [3.0, 0.5]),
    "pytorch#64305": (_reported_missing_targets, [[0.0, 1.0]]),
    "pytorch#17455": (_reported_reassignment, [0.0, 0.0]),
}


@pytest.mark.parametrize("name", REPORTED)
def test_what_was_reported_gives_the_expected_numbers(name):
    program, expected = REPORTED[name]
    assert program().isnan().any()
    with autograd.zero_safe():
        assert torch.allclose(program(), torch.tensor(expected, dtype=torch.float64))
