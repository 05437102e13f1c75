"""Saving and loading modules. All that is not marked `ours` holds in PyTorch."""

from __future__ import annotations

import warnings
from collections import OrderedDict

import pytest

import plugrad as torch
from plugrad import nn
from support.modules import Affine, Counted, Net, ours


def test_state_dict():
    net = Net()
    state = net.state_dict()
    assert list(state) == ["first.weight", "first.bias", "first.count", "second.weight", "second.count"]
    assert isinstance(state, OrderedDict) and not state["first.weight"].requires_grad
    assert {key: value["version"] for key, value in state._metadata.items()} == {
        "": 1,
        "first": 1,
        "second": 1,
    }
    assert net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
    target = {}
    assert net.state_dict(destination=target, prefix="p.") is target and "p.first.weight" in target
    with pytest.warns(FutureWarning):
        assert list(net.first.state_dict({}, "q.")) == ["q.weight", "q.bias", "q.count"]
    state["first.weight"].zero_()
    assert torch.equal(net.first.weight.detach(), torch.zeros(2))


def test_load_state_dict():
    net, other = Net(), Net()
    with torch.no_grad():
        other.first.weight.copy_(torch.tensor([3.0, 4.0]))
        other.first.count += 9
    weight = net.first.weight
    result = net.load_state_dict(other.state_dict())
    assert str(result) == repr(result) == "<All keys matched successfully>"
    assert result == ([], []) and result.missing_keys == []
    assert net.first.weight is weight and torch.equal(weight, other.first.weight) and net.first.count.item() == 9


def test_load_state_dict_reports_keys():
    net = Net()
    state = net.state_dict()
    state["second.wieght"] = state.pop("second.weight")
    state["third.weight"] = torch.ones(1)
    result = net.load_state_dict(state, strict=False)
    assert result.missing_keys == ["second.weight"]
    assert sorted(result.unexpected_keys) == ["second.wieght", "third.weight"]
    assert repr(result).startswith("_IncompatibleKeys(missing_keys=['second.weight'], unexpected_keys=[")
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state)
    lines = str(error.value).split("\n\t")
    assert lines[0] == "Error(s) in loading state_dict for Net:"
    assert lines[1] == 'Missing key(s) in state_dict: "second.weight". '
    assert lines[2].startswith("Unexpected key(s) in state_dict: ") and '"second.wieght"' in lines[2]


def test_load_state_dict_errors():
    net = Net()
    state = dict(net.state_dict())
    state["first.weight"] = torch.ones(5)
    state["first.bias"] = [1.0, 2.0]
    with pytest.raises(RuntimeError) as error:
        net.load_state_dict(state, strict=False)
    lines = str(error.value).split("\n\t")
    assert lines[1] == (
        "size mismatch for first.weight: copying a param with shape torch.Size([5]) from checkpoint, the"
        " shape in current model is torch.Size([2])."
    )
    assert lines[2] == (
        'While copying the parameter named "first.bias", expected torch.Tensor or Tensor-like object from'
        " checkpoint"
        " but received <class 'list'>"
    )
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got <class 'list'>."):
        net.load_state_dict([])


@ours
def test_what_else_may_have_been_meant():
    net = Net()
    with pytest.raises(TypeError, match=r"Net'>. Write load_state_dict\(other.state_dict\(\)\)"):
        net.load_state_dict(net)
    with pytest.raises(TypeError, match=r"Write load_state_dict\(torch.load\('net.pt'\)\)"):
        net.load_state_dict("net.pt")
    with pytest.raises(RuntimeError, match="This is the state of an optimizer: load it with optimizer.load_state_dict"):
        net.load_state_dict(torch.optim.SGD(net.parameters(), lr=0.1).state_dict())
    with pytest.raises(RuntimeError, match='"FIRST.WEIGHT" for "first.weight", "FIRST.BIAS" for "first.bias"'):
        net.load_state_dict({key.upper(): value for key, value in net.state_dict().items()})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Net().to("meta").load_state_dict(net.state_dict())
    assert "meta tensor" in str(told[0].message) and "to_empty" in str(told[0].message) and len(told) == 5


@ours
@pytest.mark.parametrize("assign", [False, True])
def test_load_state_dict_is_all_or_nothing(assign):
    net = nn.Sequential(Affine(2), Affine(3))
    before = {name: (value, value.detach().clone()) for name, value in net.state_dict(keep_vars=True).items()}
    state = {name: value.detach() + 1 for name, value in net.state_dict().items()}
    for spoil in (
        lambda s: s.update({"1.weight": torch.ones(7)}),
        lambda s: s.pop("1.count"),
        lambda s: s.update({"1.bias": 3}),
    ):
        spoiled = dict(state)
        spoil(spoiled)
        with pytest.raises(RuntimeError):
            net.load_state_dict(spoiled, assign=assign)
        now = net.state_dict(keep_vars=True)
        for name, (value, copied) in before.items():
            assert now[name] is value and torch.equal(value.detach(), copied), name


@ours
def test_load_state_dict_restores_when_a_hook_raises():
    net = Net()

    def fail(module, keys):
        raise KeyError("no")

    net.register_load_state_dict_post_hook(fail)
    with pytest.raises(KeyError):
        net.load_state_dict({name: value + 1 for name, value in net.state_dict().items()})
    assert torch.equal(net.first.weight.detach(), torch.ones(2)) and net.first.count.item() == 0


@ours
def test_load_state_dict_suggests():
    net = Net()
    state = net.state_dict()
    wrapped = {"module." + name: value for name, value in state.items()}
    with pytest.raises(RuntimeError, match=r"key.removeprefix\('module.'\): value for key"):
        net.load_state_dict(wrapped)
    with pytest.raises(RuntimeError, match=r"'module.' \+ key: value for key"):
        nn.ModuleDict({"module": net}).load_state_dict(state)
    state["first.wieght"] = state.pop("first.weight")
    with pytest.raises(RuntimeError, match='"first.wieght" for "first.weight"'):
        net.load_state_dict(state)


def test_load_state_dict_assign():
    net = Net()
    net.first.bias.requires_grad_(False)
    state = {
        name: torch.full(tuple(value.shape), 2.0, dtype=torch.float64)
        for name, value in net.state_dict().items()
    }
    net.load_state_dict(state, assign=True)
    assert net.first.count is state["first.count"]
    assert isinstance(net.first.weight, nn.Parameter) and net.first.weight.dtype == torch.float64
    assert net.first.weight.requires_grad and not net.first.bias.requires_grad
    with torch.no_grad():
        net.first.weight.zero_()
    assert torch.equal(state["first.weight"], torch.zeros(2, dtype=torch.float64))


def test_load_state_dict_takes_one_element_for_a_scalar():
    net = nn.Module()
    net.scale = nn.Parameter(torch.tensor(1.0))
    net.load_state_dict({"scale": torch.tensor([4.0])})
    assert net.scale.item() == 4.0 and net.scale.dim() == 0


def test_extra_state():
    net, other = Counted(), Counted()
    net.calls = 5
    state = net.state_dict()
    assert state["_extra_state"] == {"calls": 5}
    other.load_state_dict(state)
    assert other.calls == 5
    del state["_extra_state"]
    with pytest.raises(RuntimeError, match='Missing key.s. in state_dict: "_extra_state"'):
        other.load_state_dict(state)
    with pytest.raises(RuntimeError, match='Unexpected key.s. in state_dict: "_extra_state"'):
        Affine().load_state_dict(net.state_dict())


def test_version_and_override():
    class New(Affine):
        _version = 2

        def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
            if local_metadata.get("version", 1) < 2 and prefix + "scale" in state_dict:
                state_dict[prefix + "weight"] = state_dict.pop(prefix + "scale")
            super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    net = nn.Sequential(New())
    state = nn.Sequential(Affine()).state_dict()
    state["0.scale"] = state.pop("0.weight") + 1
    net.load_state_dict(state)
    assert torch.equal(net[0].weight.detach(), torch.ones(2) + 1) and "0.scale" in state
    assert net.state_dict()._metadata["0"] == {"version": 2}


def test_state_dict_hooks():
    net = nn.Sequential(Affine())
    seen = []
    net[0].register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append((prefix, keep_vars)))
    net[0].register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.update({prefix + "more": 1})
    )
    assert net.state_dict()["0.more"] == 1 and seen == [("0.", False)]
    with (
        net.register_state_dict_post_hook(lambda *args: 3),
        pytest.raises(RuntimeError, match="must return None"),
    ):
        net.state_dict()
    net._register_state_dict_hook(lambda module, state, prefix, metadata: {"only": 2})
    assert net.state_dict() == {"only": 2}


def test_load_state_dict_hooks():
    net = nn.Sequential(Affine())
    state = net.state_dict()
    state["0.w"] = state.pop("0.weight") * 7

    def rename(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        assert module is net[0] and prefix == "0."
        state_dict[prefix + "weight"] = state_dict.pop(prefix + "w")

    with net[0].register_load_state_dict_pre_hook(rename):
        net.load_state_dict(state)
    assert net[0].weight[0].item() == 7

    def forgive(module, keys):
        keys.missing_keys.clear()
        keys.unexpected_keys.clear()

    with net.register_load_state_dict_post_hook(forgive):
        assert net.load_state_dict({"strange": torch.ones(1)}) == ([], [])
    net._register_load_state_dict_pre_hook(
        lambda state_dict, prefix, *rest: rest[-1].append("complaint of a hook")
    )
    with pytest.raises(RuntimeError, match="complaint of a hook"):
        net.load_state_dict(net.state_dict())
