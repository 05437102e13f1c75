"""What `to_empty` leaves without values is named when it is first read, and not a moment before or after."""

from __future__ import annotations

import copy
import io
import pickle

import pytest

import plugrad
from plugrad import nn


class Net(nn.Module):
    """A network with a buffer that no checkpoint holds."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("places", plugrad.arange(4), persistent=False)

    def forward(self, x):
        return self.norm(self.layer(x)) + self.places[:3]


X = plugrad.randn(5, 2)


def emptied():
    with plugrad.device("meta"):
        net = Net()
    assert net.to_empty(device="cpu") is net
    return net


def fill(net):
    """Fill all of a network but its places."""
    net.load_state_dict(Net().state_dict())


def ordinary(net) -> bool:
    parameters, buffers = list(net.parameters()), list(net.buffers())
    kinds = {type(p) for p in parameters} == {nn.Parameter} and {type(b) for b in buffers} == {plugrad.Tensor}
    return kinds and not any(t._type.rare for t in parameters + buffers)


def test_a_buffer_that_no_checkpoint_holds():
    """PyTorch computes with what was in memory."""
    net = emptied()
    assert repr(net.load_state_dict(Net().state_dict())) == "<All keys matched successfully>"
    with pytest.raises(RuntimeError, match=r"buffer 'places' of Net was never filled.*to_empty"):
        net(X)
    net.places.copy_(plugrad.arange(4))
    reference = Net()
    reference.load_state_dict(net.state_dict())
    assert plugrad.equal(net(X), reference(X)) and ordinary(net)


def test_a_key_that_was_missing():
    net, state = emptied(), Net().state_dict()
    del state["norm.running_var"]
    net.places = plugrad.arange(4)
    net.load_state_dict(state, strict=False)
    net.eval()
    with pytest.raises(RuntimeError, match="buffer 'norm.running_var' of Net"):
        net(X)


FILLS = {
    "method": lambda t: t.zero_(), "data": lambda t: t.data.zero_(), "detached": lambda t: t.detach().zero_(),
    "copy": lambda t: t.copy_(plugrad.zeros(t.shape)), "data copy": lambda t: t.data.copy_(plugrad.zeros(t.shape)),
    "items": lambda t: t.__setitem__(slice(None), 0), "view": lambda t: t.view(-1).zero_(),
    "parts": lambda t: [part.zero_() for part in t.chunk(2)], "row": lambda t: t[0].zero_(),
    "data of a view": lambda t: t.data[0].fill_(0), "other data": lambda t: setattr(t, "data", plugrad.zeros(t.shape)),
    "numpy": lambda t: t.detach().numpy().fill(0), "out": lambda t: plugrad.zeros(t.shape, out=t.data),
    "transposed": lambda t: t.T.zero_(), "init": lambda t: nn.init.zeros_(t),
    "sum": lambda t: plugrad.add(plugrad.zeros(t.shape, dtype=t.dtype), 0, out=t.detach()),
}  # fmt: skip


@pytest.mark.parametrize("how", FILLS)
@pytest.mark.parametrize("what", ["layer.weight", "places"])
def test_whatever_fills_it(how, what):
    if (how, what) == ("transposed", "places"):
        pytest.skip("PyTorch gives up transposing anything but matrices")
    net = emptied()
    with plugrad.no_grad():
        FILLS[how](net.get_parameter(what) if "." in what else net.get_buffer(what))
    assert (net.get_parameter(what) if "." in what else net.places).sum().item() < float("inf")


@pytest.mark.parametrize("name", ["normal_", "uniform_", "bernoulli_", "exponential_", "log_normal_", "random_"])
def test_random_numbers_fill(name):
    for way in lambda t: t, lambda t: t.data, lambda t: t.detach():
        net = emptied()
        with plugrad.no_grad():
            getattr(way(net.layer.weight), name)()
        net.layer.weight.sum()


INITS = ["uniform_", "normal_", "trunc_normal_", "ones_", "xavier_normal_", "kaiming_uniform_", "orthogonal_", "eye_"]


@pytest.mark.parametrize("name", INITS)
def test_inits_fill(name):
    net = emptied()
    getattr(nn.init, name)(net.layer.weight)
    assert net.layer.weight.isfinite().all() and type(net.layer.weight) is nn.Parameter


def test_reset_parameters_fills():
    for layer in (nn.LSTM(2, 3), nn.MultiheadAttention(4, 2), nn.Embedding(3, 4, padding_idx=0), nn.BatchNorm1d(3)):
        layer.to_empty(device="cpu")
        for module in layer.modules():
            for name in "reset_parameters", "_reset_parameters":
                getattr(module, name, bool)()
        if not isinstance(layer, nn.MultiheadAttention):  # which leaves its output projection to a Linear
            assert all(p.isfinite().all() for p in layer.parameters())


READS = {
    "sum": lambda t: t.sum(), "plus": lambda t: t + 1, "right": lambda t: 1 + t, "list": lambda t: t.tolist(),
    "cat": lambda t: plugrad.cat([plugrad.zeros(t.shape, dtype=t.dtype), t]), "number": lambda t: t.view(-1)[0].item(),
    "copied": lambda t: t.clone() + 1, "view": lambda t: t[0].sum(), "detached": lambda t: t.detach().max(),
    "data": lambda t: t.data.mean(dtype=plugrad.float32), "moved": lambda t: t.to(plugrad.float64) * 2,
    "deepcopy": lambda t: copy.deepcopy(t).sum(), "copy": lambda t: copy.copy(t).sum(), "pickle": pickle.dumps,
    "save": lambda t: plugrad.save([t], io.BytesIO()), "save data": lambda t: plugrad.save(t.detach(), io.BytesIO()),
    "indices": lambda t: t[plugrad.tensor([0])], "compare": lambda t: plugrad.equal(t, t), "where": lambda t: t > 0,
    "source": lambda t: plugrad.zeros(t.shape).copy_(t).sum(), "other": lambda t: plugrad.zeros(t.shape).add_(t),
}  # fmt: skip


@pytest.mark.parametrize("how", READS)
@pytest.mark.parametrize("what", ["layer.weight", "places"])
def test_reads_are_named(how, what):
    net = emptied()
    tensor = net.get_parameter(what) if "." in what else net.places
    with pytest.raises(RuntimeError, match=f"'{what}' of Net was never filled"):
        READS[how](tensor)
    with plugrad.no_grad():
        tensor.zero_()
        READS[how](tensor)


@pytest.mark.parametrize("how", ["add_", "mul_", "clamp_", "__iadd__", "lerp_"])
def test_what_computes_in_place_reads(how):
    tensor, arguments = emptied().layer.weight.detach(), {"lerp_": (plugrad.ones(3, 2), 0.5)}
    for _ in range(2):
        with pytest.raises(RuntimeError, match="never filled"):
            getattr(tensor, how)(*arguments.get(how, (1,)))
    tensor.fill_(1)
    getattr(tensor, how)(*arguments.get(how, (1,)))


@pytest.mark.parametrize("training", [True, False])
def test_a_refused_call_leaves_running_averages_unfilled(training):
    layer = nn.BatchNorm1d(2, device="meta").to_empty(device="cpu").train(training)
    nn.init.ones_(layer.weight), nn.init.zeros_(layer.bias), layer.num_batches_tracked.zero_()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="'running_mean' of BatchNorm1d was never filled"):
            layer(plugrad.ones(3, 2))
    layer.running_mean.zero_()
    with pytest.raises(RuntimeError, match="'running_var' of BatchNorm1d was never filled"):
        layer(plugrad.ones(3, 2))
    layer.reset_running_stats()
    assert layer(plugrad.ones(3, 2)).isfinite().all()


def test_an_array_that_is_refused_is_not_handed_out():
    weight = emptied().layer.weight
    with pytest.raises(RuntimeError, match="requires grad"):
        weight.numpy()
    with pytest.raises(RuntimeError, match="never filled"):
        weight.sum()


def test_what_reads_no_values():
    net = emptied()
    weight = net.layer.weight
    assert weight.shape == (3, 2) and weight.dtype is plugrad.float32 and weight.requires_grad and weight.is_leaf
    assert isinstance(weight, nn.Parameter) and weight.numel() == 6 and weight.dim() == 2 and weight.grad is None
    assert plugrad.zeros_like(weight).tolist() == [[0, 0]] * 3 and weight.new_ones(2).tolist() == [1, 1]
    assert "never filled" in repr(weight) and "'places'" in str(net.places)
    plugrad.optim.Adam(net.parameters())
    net.requires_grad_(False)
    net.load_state_dict(net.state_dict())
    with pytest.raises(RuntimeError, match="never filled"):
        net(X)


def test_a_state_dict_that_fails_leaves_it_unfilled():
    net = emptied()
    with pytest.raises(RuntimeError, match="size mismatch"):
        net.load_state_dict({**Net().state_dict(), "layer.bias": plugrad.ones(9)})
    with pytest.raises(RuntimeError, match="never filled"):
        net(X)


def test_copies_and_moves_of_the_module():
    for way in copy.deepcopy, lambda net: net.half().float():
        net = way(emptied())
        with pytest.raises(RuntimeError, match="'layer.weight' of Net was never filled"):
            net(X)
        fill(net)
        net.places.zero_()
        net(X).sum().backward()
        assert ordinary(net) and net.layer.weight.grad.shape == (3, 2)


def test_training_afterwards():
    net = emptied()
    optimizer = plugrad.optim.SGD(net.parameters(), lr=0.1)
    fill(net)
    net.places.zero_()
    before = net.norm.bias.tolist()
    (net(X) ** 2)[0].sum().backward()
    optimizer.step()
    assert net.norm.bias.tolist() != before and ordinary(net)


def test_assigned_state():
    net = emptied()
    net.load_state_dict(Net().state_dict(), assign=True)
    net.places = plugrad.arange(4)
    net(X)
    assert ordinary(net)


def test_other_devices_without_data():
    net = emptied().to_empty(device="meta")
    assert type(net.layer.weight) is nn.Parameter and net(plugrad.ones(5, 2, device="meta")).shape == (5, 3)


def test_a_parameter_of_an_unfilled_one_is_as_unfilled_until_either_is_written():
    made = nn.Linear(3, 2, device="meta").to_empty(device="cpu")
    shared = nn.Parameter(made.weight)
    with pytest.raises(RuntimeError, match="'weight' of Linear was never filled"):
        shared.sum()
    nn.init.ones_(shared)
    assert type(shared) is nn.Parameter and shared.requires_grad
    assert made.weight.tolist() == [[1.0] * 3] * 2
