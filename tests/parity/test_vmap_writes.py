"""vmap of functions that write to tensors from outside: once, as in PyTorch, where the function is called once."""

from __future__ import annotations

import threading

import pytest

import plugrad
from plugrad.graph import versions

torch = pytest.importorskip("torch")


def add(T, x):
    y = T.zeros(2)

    def f(row):
        y.add_(1)
        return row + y

    return T.vmap(f)(x), y


def read_before(T, x):
    y = T.ones(2)

    def f(row):
        z = row * y
        y.mul_(3)
        y.add_(1)
        return z + y

    return T.vmap(f)(x), y


def part(T, x):
    y = T.zeros(3, 2)

    def f(row):
        y[1].add_(1)
        y[2] = 7
        return row

    T.vmap(f)(x)
    return y


def passed_whole(T, x):
    y = T.zeros(2)

    def f(same, row):
        same.sub_(1)
        return row * same

    return T.vmap(f, in_dims=(None, 0))(y, x), y


def own_slices(T, x):
    y = x.clone()

    def f(row):
        row.mul_(2)
        return row + 1

    return T.vmap(f)(y), y


def temporaries(T, x):
    y = T.zeros(2)

    def f(row):
        z = y.clone()
        z.add_(1)
        z = z + row
        z.mul_(2)
        return z

    return T.vmap(f)(x), y


def nested(T, x):
    y = T.zeros(())

    def f(row):
        y.add_(1)
        return T.vmap(lambda element: element * y)(row)

    return T.vmap(f)(x), y


def drawing(T, x):
    y = T.zeros(2)

    def f(row):
        y.add_(1)
        return row * 0 + T.rand(2) + y

    T.manual_seed(3)
    return T.vmap(f, randomness="same")(x), y


def batched(T, x):
    y = T.zeros(2)
    try:
        T.vmap(lambda row: y.add_(row).sum())(x)
    except RuntimeError:
        return y
    raise AssertionError("a write of other values for each slice was not refused")


def running_statistics(T, x):
    layer = T.nn.BatchNorm1d(2)
    try:
        T.vmap(layer)(x.reshape(1, 3, 2).expand(2, 3, 2) * T.tensor([[[1.0]], [[2.0]]]))
    except RuntimeError:
        return layer.running_mean
    raise AssertionError("statistics that differ between slices were not refused")


@pytest.mark.parametrize(
    "program",
    [
        add, read_before, part, passed_whole, own_slices, temporaries, nested, drawing, batched, running_statistics,
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_as_pytorch(program):
    results = [program(T, T.arange(6.0).reshape(3, 2)) for T in (torch, plugrad)]
    theirs, ours = (one if isinstance(one, tuple) else (one,) for one in results)
    for expected, actual in zip(theirs, ours, strict=True):
        assert expected.tolist() == actual.tolist()


def test_a_history_that_would_be_recorded_for_each_slice_is_refused():
    weight, y = plugrad.ones(2, requires_grad=True), plugrad.zeros(2)
    with pytest.raises(RuntimeError, match="with a history"):
        plugrad.vmap(lambda row: y.add_(weight) + row)(plugrad.ones(3, 2))


def test_a_method_that_writes_slices_to_a_whole_tensor_is_refused_whatever_the_slices_are():
    for T in (torch, plugrad):
        x, equal = T.zeros(2), T.ones(3, 2)
        for method, dims, args in (
            (T.Tensor.add_, (None, 0), (x, equal)),
            (T.Tensor.true_divide_, (None, 0), (x, equal)),
            (T.Tensor.index_fill_, (None, None, 0, None), (x, 0, T.zeros(2, 1, dtype=T.int64), 1.0)),
        ):
            with pytest.raises(RuntimeError):
                T.vmap(method, dims)(*args)
        assert x.tolist() == [0, 0] and T.vmap(T.Tensor.add_, (0, None))(equal.clone(), x).equal(equal)


def test_writes_of_other_threads_are_not_those_of_the_function():
    y, go = plugrad.zeros(2), threading.Event()

    def write():
        while not go.is_set():
            y.add_(1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        result = plugrad.vmap(lambda row: (row.clone().add_(1), row.clone().mul_(2))[0])(plugrad.ones(20, 2))
    finally:
        go.set()
        thread.join()
    assert result.tolist() == [[2, 2]] * 20 and not versions.watches


def test_stale_values_are_noticed_after_a_watch():
    plugrad.vmap(lambda row: row.clone().add_(1))(plugrad.ones(3, 2))
    x = plugrad.ones(2, requires_grad=True)
    y = (x * 2).exp()
    z = (y * y).sum()
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_a_watch_ends_with_its_frame_however_that_ends():
    """Ctrl-C between the watch's beginning and the block that ends it."""
    from plugrad.func import captured_writes

    def interrupted():
        watch = captured_writes._Watch(print)
        watch.__enter__()
        raise KeyboardInterrupt

    try:
        interrupted()
    except KeyboardInterrupt:
        assert versions.watches
    assert not versions.watches
    plugrad.vmap(lambda row: row.clone().add_(1))(plugrad.ones(3, 2))
    assert versions.last_write < float("inf")
