"""Containers of modules and of parameters; all of it holds in PyTorch."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import plugrad as torch
from plugrad import nn
from support.modules import Affine, names


def test_sequential():
    a, b, c = Affine(1), Affine(2), Affine(3)
    net = nn.Sequential(a, b)
    assert len(net) == 2 and net[0] is a and net[-1] is b and list(net) == [a, b]
    assert net.append(c) is net and net[2] is c
    assert isinstance(net[1:], nn.Sequential) and list(net[1:]) == [b, c]
    assert net.pop(1) is b and list(net._modules) == ["0", "1"] and list(net) == [a, c]
    net.insert(1, b)
    net.insert(-1, a)
    assert list(net) == [a, b, a, c]
    del net[1:3]
    net[0] = b
    assert list(net) == [b, c]
    net.extend([a])
    assert list(net + nn.Sequential(b)) == [b, c, a, b] and list(net * 2) == [b, c, a] * 2 == list(2 * net)
    net *= 2
    net += nn.Sequential(c)
    assert list(net) == [b, c, a, b, c, a, c]
    for index in (7, -8):
        with pytest.raises(IndexError, match=f"index {index} is out of range"):
            net[index]
    with pytest.raises(IndexError, match="Index out of range: 9"):
        net.insert(9, a)
    with pytest.raises(ValueError, match="add operator supports only objects of Sequential class"):
        net + [a]
    with pytest.raises(ValueError, match="Non-positive multiplication factor 0"):
        net * 0
    with pytest.raises(TypeError):
        net * 1.5


def test_sequential_calls_and_names():
    net = nn.Sequential(OrderedDict(first=Affine(), last=Affine()))
    with torch.no_grad():
        net.first.weight.mul_(2)
    assert net.first is net[0] and net(torch.ones(2)).tolist() == [2.0, 2.0]
    del net[0]
    assert list(net._modules) == ["0"]
    net[0] = Affine(3)
    assert net[0].features == 3


def test_module_list():
    a, b, c = Affine(1), Affine(2), Affine(3)
    layers = nn.ModuleList([a])
    layers += [b]
    layers.extend(nn.ModuleList([c]))
    layers.append(a)
    assert list(layers) == [a, b, c, a] and layers[-2] is c and a in layers
    assert isinstance(layers[::2], nn.ModuleList) and list(layers[::2]) == [a, c]
    layers.insert(0, c)
    assert layers.pop(-1) is a
    layers[1] = b
    del layers[2:]
    assert list(layers) == [c, b] and list(layers + [a]) == [c, b, a] and list(layers._modules) == ["0", "1"]
    with pytest.raises(TypeError, match="ModuleList.extend should be called with an iterable, but got int"):
        layers.extend(3)
    with pytest.raises(IndexError, match="index 2 is out of range"):
        layers[2]
    with pytest.raises(NotImplementedError):
        layers(1)


def test_module_dict():
    a, b = Affine(1), Affine(2)
    heads = nn.ModuleDict({"a": a})
    heads["b"] = b
    heads.update([("c", a)])
    assert list(heads) == ["a", "b", "c"] and "b" in heads and len(heads) == 3
    assert list(heads.items()) == [("a", a), ("b", b), ("c", a)] and list(heads.values()) == [a, b, a]
    assert heads.pop("b") is b and list(heads.keys()) == ["a", "c"]
    del heads["a"]
    heads.clear()
    assert len(heads) == 0
    with pytest.raises(
        TypeError, match="ModuleDict.update should be called with an iterable of key/value pairs"
    ):
        heads.update(3)
    with pytest.raises(ValueError, match="sequence element #0 has length 3; 2 is required"):
        heads.update([(1, 2, 3)])
    with pytest.raises(KeyError):
        heads["a"]


def test_parameter_list():
    listed = nn.ParameterList([torch.ones(1), nn.Parameter(torch.ones(2))])
    listed.append(torch.ones(3)).extend([torch.ones(4)])
    listed += [5]
    assert len(listed) == 5 and names(listed.named_parameters()) == ["0", "1", "2", "3"] and listed[-1] == 5
    assert isinstance(listed[:2], nn.ParameterList) and len(listed[:2]) == 2 and listed[:2][1] is listed[1]
    listed[0] = torch.zeros(6)
    assert isinstance(listed[0], nn.Parameter) and [p.shape[0] for p in list(listed)[:-1]] == [6, 2, 3, 4]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        listed[5]
    with pytest.raises(
        TypeError, match="ParameterList.extend should be called with an iterable, but got Tensor"
    ):
        listed.extend(torch.ones(2))
    with pytest.raises(RuntimeError, match="ParameterList should not be called."):
        listed(1)


def test_parameter_dict():
    gains = nn.ParameterDict({"b": torch.ones(1), "a": torch.ones(2)})
    assert list(gains) == ["a", "b"] and list(reversed(gains)) == ["b", "a"] and len(gains) == 2
    assert isinstance(gains["a"], nn.Parameter) and names(gains.named_parameters()) == ["a", "b"]
    gains["name"] = "text"
    assert gains.get("none", 3) == 3 and gains.setdefault("name", 4) == "text" and "name" in gains
    other = gains | nn.ParameterDict({"z": torch.ones(1)})
    assert list(other) == ["a", "b", "name", "z"] and other["a"] is gains["a"]
    assert other.popitem()[0] == "z" and other.pop("name") == "text"
    other |= {"q": torch.ones(1)}
    assert list(other.keys()) == ["a", "b", "q"] == [key for key, _ in other.items()]
    assert list(gains.fromkeys(["x"], 1).values()) == [1] and list(gains.copy()) == ["a", "b", "name"]
    del other["a"]
    other.clear()
    assert len(other) == 0 and names(other.named_parameters()) == []
    with pytest.raises(
        TypeError, match="Index given to ParameterDict cannot be used as a key as it is not a string"
    ):
        gains[0]
    with pytest.raises(RuntimeError, match="ParameterDict should not be called."):
        gains(1)
