"""Models wrapped for several devices, and gradients of convolutions by hand: as PyTorch's."""

import pytest

import plugrad
from plugrad import nn

torch = pytest.importorskip("torch")


def test_a_wrapped_model_is_the_model():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    x = plugrad.ones(4, 3)
    for wrapped in (nn.DataParallel(model), nn.DataParallel(model, [0, 1]), nn.parallel.DistributedDataParallel(model)):
        assert plugrad.equal(wrapped(x), model(x)) and wrapped.module is model
        assert list(wrapped.state_dict()) == ["module.0.weight", "module.0.bias"]
    assert plugrad.equal(nn.parallel.data_parallel(model, x), model(x))
    with wrapped.no_sync():
        wrapped(x).sum().backward()
    assert model[0].weight.grad is not None


def test_steps_between_devices_are_found_where_libraries_look_for_them():
    from plugrad.nn.parallel._functions import Broadcast, Gather, ReduceAddCoalesced, Scatter
    from plugrad.nn.parallel.data_parallel import DataParallel
    from plugrad.nn.parallel.replicate import replicate

    assert DataParallel is nn.DataParallel and len(replicate(nn.Linear(1, 1), ["cpu"])) == 1
    assert len(nn.parallel.replicate(nn.Linear(1, 1), ["cpu"])) == 1  # the module does not hide the function
    x, y = plugrad.ones(2, requires_grad=True), plugrad.full((1,), 3.0, requires_grad=True)
    copies = Broadcast.apply(["cpu", "cpu"], x, y)
    assert [one.tolist() for one in copies] == [[1, 1], [3], [1, 1], [3]]
    first, second = ReduceAddCoalesced.apply("cpu", 2, *copies)
    (first * plugrad.tensor([1.0, 2.0])).sum().add(second.sum()).backward()
    assert first.tolist() == [2, 2] and second.tolist() == [6] and x.grad.tolist() == [2, 4] and y.grad.tolist() == [2]
    assert [one.tolist() for one in Scatter.apply(["cpu", "cpu"], [2, 1], 0, plugrad.arange(3))] == [[0, 1], [2]]
    assert Gather.apply("cpu", 0, plugrad.arange(2), plugrad.tensor(5)).tolist() == [0, 1, 5]


def test_more_processes_than_one_are_refused(monkeypatch):
    with pytest.raises(NotImplementedError, match="Start one process"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1), process_group=object())
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(NotImplementedError, match="WORLD_SIZE is 2"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="doesn't have any parameter that requires a gradient"):
        monkeypatch.setenv("WORLD_SIZE", "1")
        nn.parallel.DistributedDataParallel(nn.ReLU())
    with pytest.raises(NotImplementedError, match="leave process_group out".capitalize()):
        nn.SyncBatchNorm(2, process_group=object())(plugrad.ones(2, 2))


def test_replicas_on_several_devices_compute_what_the_model_does():
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    x, devices = plugrad.randn(5, 3), ["cpu", "cpu"]
    parts = nn.parallel.scatter(({"x": x}, "word", None), devices)
    assert [part[1:] for part in parts] == [("word", None)] * 2
    replicas = nn.parallel.replicate(model, devices)
    outputs = nn.parallel.parallel_apply(replicas, [part[0]["x"] for part in parts])
    together = nn.parallel.gather(outputs, "cpu")
    assert plugrad.allclose(together, model(x))
    (together.sin().sum() - model(x).sin().sum()).backward()
    assert all(p.grad.abs().max() < 1e-5 for p in model.parameters())  # both ways lead to the model's own
    with pytest.raises(RuntimeError, match="uninitialized parameters can't be used with `DataParallel`"):
        nn.parallel.replicate(nn.LazyLinear(2), devices)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions_by_hand(n):
    rng = torch.Generator().manual_seed(n)
    x, w = (torch.randn(*shape, generator=rng) for shape in ((2, 4, *(7, 6, 5)[:n]), (6, 2, *(3, 2, 1)[:n])))
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    g = torch.randn(getattr(torch.nn.functional, f"conv{n}d")(x, w, None, **options).shape, generator=rng)
    for what, arguments in (("input", (x.shape, w, g)), ("weight", (x, w.shape, g))):
        wanted = getattr(torch.nn.grad, f"conv{n}d_{what}")(*arguments, **options)
        own = [plugrad.from_numpy(a.numpy()) if isinstance(a, torch.Tensor) else tuple(a) for a in arguments]
        result = getattr(nn.grad, f"conv{n}d_{what}")(*own, **options)
        assert plugrad.allclose(result, plugrad.from_numpy(wanted.numpy()), atol=1e-5) and not result.requires_grad
