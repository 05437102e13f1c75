"""Safer numbers: writes that bypass autograd are noticed."""

from __future__ import annotations

import gc
import math
import pickle
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad.graph import numpy_writes
from plugrad.tensor import shared_memory

F = torch.nn.functional

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
    for way in (*ways, lambda a: torch.nn.Parameter(torch.from_numpy(a)), lambda a: torch.from_numpy(a).detach()):
        array[:] = 1
        w, x = param(3), way(array)
        loss = (w * x).sum()
        write(array)
        with pytest.raises(RuntimeError, match="MulBackward0, was " + STALE):
            loss.backward()


def test_an_array_is_watched_unless_it_is_handed_over():
    given, w = numpy.ones(3, "float32"), param(3)
    seen = weakref.ref(given)
    x, y = torch.from_numpy(given), torch.from_numpy(numpy.ones(3, "float32"))
    assert x._view is not None
    assert (y._view is None) == shared_memory._COUNTS  # Python 3.14 cannot tell, so it is watched there, too
    del given
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
    x = param(3)
    y = x.exp()
    array = y.detach().numpy()
    copy = array.copy()
    write(array)
    array[:] = copy
    del array
    y.sum().backward()
    assert x.grad.tolist() == y.tolist() == param(3).exp().tolist()


def test_other_memory_than_what_was_saved():
    x = param(4)
    y = x * 2
    array, z = y.detach()[:2].numpy(), (y[2:] * y[2:]).sum()
    write(array)
    z.backward()
    assert x.grad.tolist() == [0.0, 0.0, 24.0, 32.0]


def test_no_false_alarm_once_numpys_array_is_gone():
    x = param(3)
    array, old = x.detach().numpy(), (x * x).sum()
    old.backward(retain_graph=True)
    del array
    for number in range(3):
        with torch.no_grad():
            x.add_(1)
        x.grad = None
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0 * (number + i) for i in (2, 3, 4)]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        old.backward()


def test_a_write_before_numpys_array_was_gone_is_seen_by_older_nodes_alone():
    x = param(3)
    array, old = x.detach().numpy(), (x * x).sum()
    write(array)
    del array
    (x * x).sum().backward()
    assert x.grad.tolist() == [200.0] * 3
    with pytest.raises(RuntimeError, match=STALE):
        old.backward()


def test_optimizers_and_loading_write_without_false_alarm():
    def train(arrays):
        torch.manual_seed(0)
        layer, seen = torch.nn.Linear(3, 1), []
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
        kept = [p.detach().numpy() for p in layer.parameters()] if arrays else []
        state = {name: value.clone() for name, value in layer.state_dict().items()}
        for number in range(4):
            optimizer.zero_grad()
            layer(torch.ones(2, 3)).sum().backward()
            inside = layer.weight.detach().numpy() if arrays else None
            optimizer.step()
            loss = layer(torch.ones(2, 3)).pow(2).sum()
            del inside
            loss.backward()
            seen += [loss.item(), layer.weight.grad.tolist(), layer.bias.grad.tolist()]
            if number == 2:
                layer.load_state_dict(state)
        assert all(numpy.shares_memory(a, p.detach().numpy()) for a, p in zip(kept, layer.parameters()))
        return seen

    assert train(arrays=True) == train(arrays=False)


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
    before = len(numpy_writes.open_exports), len(numpy_writes.uses)
    gc.disable()
    try:
        y = param(3).exp()
        arrays = [y.detach().numpy() for _ in range(5)]
        assert len(numpy_writes.open_exports) == before[0] + 1
        (y * y).sum().backward()
        del arrays, y
        assert (len(numpy_writes.open_exports), len(numpy_writes.uses)) == before
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
    for factor in (None, 3.0):
        leaf = param(3)
        x = leaf if factor is None else leaf * factor
        with pytest.warns(UserWarning, match=r"Mine\.forward changed its input number 0 .*ctx\.mark_dirty"):
            y = mine.apply(x)
        y.sum().backward()  # as in PyTorch, which says nothing
        assert y.tolist() == x.tolist() == [2 * (factor or 1) * i for i in (1, 2, 3)]
        assert leaf.grad.tolist() == [factor or 1] * 3
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


def test_arrays_of_subclasses_become_plain_ones_of_the_same_memory(tmp_path):
    mapped = numpy.memmap(tmp_path / "numbers", dtype="float64", mode="w+", shape=(3,))
    mapped[:] = 2.0
    x = torch.from_numpy(mapped)
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    loss = (x * w).sum()
    mapped[0] = 5.0
    assert x.tolist() == [5.0, 2.0, 2.0]
    with pytest.raises(RuntimeError, match="MulBackward0"):
        loss.backward()
    square = torch.from_numpy(numpy.array([[1.0, 2.0], [3.0, 4.0]]).view(numpy.matrix))
    assert (square * square).tolist() == [[1.0, 4.0], [9.0, 16.0]]


def test_a_write_into_the_buffers_of_a_pickle_is_found():
    x = torch.ones(4, dtype=torch.float64)
    loss = (x * torch.ones(4, dtype=torch.float64, requires_grad=True)).sum()
    buffers = []
    pickle.dumps(x, protocol=5, buffer_callback=buffers.append)
    buffers[0].raw()[:8] = numpy.float64(9).tobytes()
    with pytest.raises(RuntimeError, match="MulBackward0"):
        loss.backward()


@pytest.mark.parametrize(
    "by",
    [
        lambda a: a[1], lambda a: a + 1, lambda a: a.reshape(-1), lambda a: torch.stack([a, a]), lambda a: a.sum(),
        lambda a: a.requires_grad, lambda a: a[1].requires_grad,
    ],
)  # fmt: skip
def test_ops_that_keep_no_values_do_not_look_whether_numpy_writes(by, monkeypatch):
    array = numpy.ones((3, 4), "float32")
    looked = []
    monkeypatch.setattr(numpy_writes, "fingerprint", lambda array: looked.append(1) or b"")
    by(torch.from_numpy(array))
    assert not looked


def test_what_numpy_writes_after_a_view_was_taken_and_used_is_noticed():
    array, weight = numpy.ones((3, 4), "float32"), torch.ones(4, requires_grad=True)
    row = torch.from_numpy(array)[1]
    array[1] = 2  # before it is used
    result = (row * weight).sum()
    array[1] = 5
    with pytest.raises(RuntimeError, match=STALE):
        result.backward()
