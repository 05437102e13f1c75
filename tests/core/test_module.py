"""Module and Parameter. All that is not marked `ours` holds in PyTorch."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import plugrad as torch
from plugrad import nn
from support.modules import Affine, Counted, Net, names, ours

# Attributes


def test_assignment_registers():
    net = Affine()
    assert list(net._parameters) == ["weight", "bias"]
    assert list(net._buffers) == ["count", "scratch"]
    assert "weight" not in net.__dict__
    assert net.weight is net._parameters["weight"]
    assert isinstance(net.weight, nn.Parameter) and net.weight.requires_grad


def test_assignment_moves_a_name_between_tables():
    net = nn.Module()
    net.thing = 3
    net.thing = nn.Parameter(torch.ones(1))
    assert "thing" not in net.__dict__ and "thing" in net._parameters
    net.thing = None
    assert net.thing is None and "thing" in net._parameters
    del net.thing
    net.thing = nn.Module()
    net.thing = nn.Parameter(torch.ones(1))
    assert list(net._modules) == [] and list(net._parameters) == ["thing"]
    with pytest.raises(
        TypeError, match=r"cannot assign '.*Module' as parameter 'thing' \(torch.nn.Parameter or None"
    ):
        net.thing = nn.Module()


def test_assignment_errors():
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'weight'"):
        net.first.weight = torch.ones(2)
    with pytest.raises(
        TypeError, match=r"cannot assign 'int' as child module 'first' \(torch.nn.Module or None"
    ):
        net.first = 3
    with pytest.raises(
        TypeError, match=r"cannot assign 'int' as buffer 'count' \(torch.nn.Buffer, torch.Tensor or"
    ):
        net.first.count = 3
    net.first = None
    assert net.first is None and list(net.children()) == [net.second]


def test_plain_tensors_and_buffers():
    net = nn.Module()
    net.plain = torch.ones(1)
    net.kept = nn.Buffer(torch.ones(2))
    net.hidden = nn.Buffer(torch.ones(2), persistent=False)
    assert names(net.named_buffers()) == ["kept", "hidden"] and list(net.state_dict()) == ["kept"]
    assert isinstance(net.kept, nn.Buffer) and not isinstance(net.plain, nn.Buffer)
    net.hidden = torch.zeros(2)
    assert list(net.state_dict()) == ["kept"]
    del net.hidden
    net.hidden = nn.Buffer(torch.ones(2))
    assert list(net.state_dict()) == ["kept", "hidden"]
    net.kept = None
    assert list(net.state_dict()) == ["hidden"]


def test_delete():
    net = Net()
    del net.first.weight, net.first.count, net.second, net.extra
    assert not hasattr(net.first, "weight") and not hasattr(net, "second") and not hasattr(net, "extra")
    with pytest.raises(AttributeError):
        del net.second
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'second'"):
        net.second  # noqa: B018


@pytest.mark.parametrize(
    "register", ["register_parameter", "register_buffer", "add_module", "register_module"]
)
def test_registration_checks_names(register):
    net = Net()
    for name, error in ((3, TypeError), ("a.b", KeyError), ("", KeyError), ("forward", KeyError)):
        with pytest.raises(error):
            getattr(net, register)(name, None)


def test_registration_checks_values():
    net = nn.Module()
    leaf = torch.ones(1, requires_grad=True)
    with pytest.raises(
        TypeError, match=r"cannot assign 'torch.FloatTensor' object to parameter 'w' \(torch.nn.Param"
    ):
        net.register_parameter("w", leaf)
    with pytest.raises(
        TypeError, match=r"cannot assign 'list' object to buffer 'w' \(torch Tensor or None required"
    ):
        net.register_buffer("w", [1.0])
    with pytest.raises(TypeError, match="int is not a Module subclass"):
        net.add_module("w", 3)
    with pytest.raises(KeyError, match="attribute 'training' already exists"):
        net.register_buffer("training", torch.ones(1))


def test_constructor_takes_no_arguments():
    with pytest.raises(TypeError, match="takes 1 positional argument but 2 were given"):
        nn.Module(1)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'a'"):
        nn.Module(a=1)


def test_call_super_init():
    class Mixin:
        def __init__(self, value):
            self.value = value

    class Both(nn.Module, Mixin):
        call_super_init = True

    assert Both(7).value == 7


@ours
def test_works_without_super_init():
    class Legacy(nn.Module):
        def __init__(self):
            self.features = 2
            self.weight = nn.Parameter(torch.ones(2))
            self.child = Affine()
            self.register_buffer("state", torch.ones(1))

    net = Legacy()
    assert net.training and names(net.named_parameters()) == ["weight", "child.weight", "child.bias"]
    assert repr(net) == "Legacy(\n  (child): Affine(features=2)\n)"
    state = ["weight", "state", "child.weight", "child.bias", "child.count"]
    assert list(net.state_dict()) == list(copy.deepcopy(net).state_dict()) == state


@ours
def test_late_super_init_keeps_and_a_second_one_resets():
    class Late(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(torch.ones(2))
            super().__init__()

    net = Late()
    assert names(net.named_parameters()) == ["weight"]
    nn.Module.__init__(net)
    assert names(net.named_parameters()) == []


def test_forward_is_required():
    with pytest.raises(
        NotImplementedError, match=r'Module \[Net\] is missing the required "forward" function'
    ):
        Net()(1)


def test_dir():
    listed = dir(nn.Sequential(Affine()))
    assert "0" not in listed and "training" in listed and "forward" in listed
    assert {"weight", "bias", "count", "features"} <= set(dir(Affine()))


# Access by name, traversal


def test_access_by_dotted_name():
    net = nn.Sequential(Net())
    assert net.get_submodule("") is net and net.get_submodule("0.first") is net[0].first
    assert net.get_parameter("0.first.weight") is net[0].first.weight
    assert net.get_buffer("0.first.scratch") is net[0].first.scratch
    for get, target, text in (
        (net.get_submodule, "0.third", "Net has no attribute `third`"),
        (net.get_submodule, "0.first.weight", "`weight` is not an nn.Module"),
        (net.get_parameter, "0.first.count", "`count` is not an nn.Parameter"),
        (net.get_parameter, "0.first.none", "Affine has no attribute `none`"),
        (net.get_buffer, "0.first.weight", "`weight` is not a buffer"),
    ):
        with pytest.raises(AttributeError, match=text):
            get(target)


def test_set_submodule():
    net = Net()
    other = Affine(5)
    net.set_submodule("first", other)
    net.set_submodule("second.inner", other)
    assert net.first is other and net.second.inner is other
    with pytest.raises(AttributeError, match="Net has no attribute `third`"):
        net.set_submodule("third", other, strict=True)
    with pytest.raises(AttributeError, match="`weight` is not an nn.Module"):
        net.set_submodule("first.weight", other)
    with pytest.raises(ValueError, match="is not an nn.Module"):
        net.set_submodule("first", 3)
    with pytest.raises(ValueError, match="without a target name"):
        net.set_submodule("", other)


def test_named_members():
    net = Net()
    assert names(net.named_parameters()) == ["first.weight", "first.bias", "second.weight"]
    assert names(net.named_parameters(prefix="p")) == ["p.first.weight", "p.first.bias", "p.second.weight"]
    assert names(net.named_parameters(recurse=False)) == []
    assert names(net.named_buffers()) == ["first.count", "first.scratch", "second.count", "second.scratch"]
    assert len(list(net.parameters())) == 3 and len(list(net.buffers())) == 4
    assert names(net.named_modules()) == ["", "first", "second"]
    assert names(net.named_modules(prefix="p")) == ["p", "p.first", "p.second"]
    assert names(net.named_children()) == ["first", "second"]


def test_duplicates():
    shared = Affine()
    net = nn.Sequential(shared, shared, None)
    assert names(net.named_modules()) == ["", "0"]
    assert names(net.named_modules(remove_duplicate=False)) == ["", "0", "1"]
    assert names(net.named_children()) == ["0"]
    assert names(net.named_parameters()) == ["0.weight", "0.bias"]
    assert names(net.named_parameters(remove_duplicate=False)) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "0.count", "1.weight", "1.bias", "1.count"]


def test_apply_train_requires_grad_zero_grad():
    net = Net()
    order = []
    assert net.apply(order.append) is net and order == [net.first, net.second, net]
    assert net.eval() is net and not net.first.training
    assert net.train() is net and net.second.training
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)
    net.first(torch.ones(2)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert torch.equal(net.first.weight.grad, torch.zeros(2))
    net.zero_grad()
    assert net.first.weight.grad is None
    assert net.requires_grad_(False) is net and not any(p.requires_grad for p in net.parameters())


# Conversion


def test_conversion_keeps_identity():
    net = Affine()
    weight = net.weight
    net(torch.ones(2)).sum().backward()
    grad = weight.grad
    net.register_buffer("index", torch.tensor([7, 8]))
    with torch.no_grad():
        weight.copy_(torch.tensor([0.5, -2.0]))
    for convert, dtype in (
        (net.double, torch.float64),
        (net.float, torch.float32),
        (net.half, torch.float16),
        (lambda: net.to(torch.float64), torch.float64),
        (lambda: net.to(dtype=torch.float32), torch.float32),
        (lambda: net.to("cpu", torch.float64), torch.float64),
        (lambda: net.to(torch.ones(1)), torch.float32),
        (lambda: net.to(torch.device("cpu"), non_blocking=True), torch.float32),
    ):
        assert convert() is net
        assert net.weight is weight and weight.dtype == dtype and weight.requires_grad and weight.is_leaf
        assert weight.grad is grad and grad.dtype == dtype
        assert net.count.dtype == dtype and net.index.dtype == torch.int64
        assert weight.tolist() == [0.5, -2.0] and grad.tolist() == [1.0, 1.0] and net.index.tolist() == [7, 8]
    net.type(torch.float64)
    assert net.index.dtype == torch.float64
    assert net.cpu() is net


def test_to_rejects_integers():
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point or complex dtypes"):
        Affine().to(torch.int64)
    with pytest.raises(TypeError):
        Affine().to(wrong=3)


def test_to_empty():
    net = nn.Sequential(Affine())
    assert net.to_empty(device="cpu") is net and net[0].weight.shape == (2,)


# Printing


def test_repr():
    assert repr(nn.Module()) == "Module()"
    assert repr(Affine()) == "Affine(features=2)"
    net = Net()
    net.register_module("nothing", None)
    net.third = nn.Sequential(OrderedDict(inner=nn.Sequential(), other=Affine(7)))
    assert repr(net) == (
        "Net(\n  (first): Affine(features=2)\n  (second): Affine(features=3)\n  (nothing): None\n"
        "  (third): Sequential(\n    (inner): Sequential()\n    (other): Affine(features=7)\n  )\n)"
    )


def test_repr_with_lines_and_children():
    class Lines(nn.Module):
        def __init__(self, child=None):
            super().__init__()
            if child:
                self.child = child

        def extra_repr(self):
            return "a=1\n\nb=2"

    assert repr(Lines()) == "Lines(\n  a=1\n  \n  b=2\n)"
    assert repr(Lines(Lines())) == "Lines(\n  a=1\n  \n  b=2\n  (child): Lines(\n    a=1\n\n    b=2\n  )\n)"
    assert repr(Counted()) == "Counted(features=2)"


def test_repr_of_lists():
    assert repr(nn.ModuleList()) == "ModuleList()"
    layers = nn.ModuleList(
        [*(Affine() for _ in range(3)), Affine(4), nn.Sequential(Affine()), nn.Sequential(Affine())]
    )
    assert repr(layers) == (
        "ModuleList(\n  (0-2): 3 x Affine(features=2)\n  (3): Affine(features=4)\n"
        "  (4-5): 2 x Sequential(\n    (0): Affine(features=2)\n  )\n)"
    )


def test_repr_of_parameters():
    assert repr(nn.Parameter(torch.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(nn.ParameterList([torch.ones(2, 3), 5])) == (
        "ParameterList(\n    (0): Parameter containing: [torch.float32 of size 2x3]\n    (1): Object of"
        " type: int\n)"
    )
    assert repr(nn.ParameterDict({"a": torch.ones(2)})) == (
        "ParameterDict(  (a): Parameter containing: [torch.FloatTensor of size 2])"
    )


# Parameter


def test_parameter():
    data = torch.ones(3)
    parameter = nn.Parameter(data)
    assert parameter.is_leaf and parameter.requires_grad and isinstance(parameter, torch.Tensor)
    parameter.data[0] = 5.0
    assert data[0].item() == 5.0
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert nn.Parameter().shape == (0,)
    assert not isinstance(data, nn.Parameter)
    assert not isinstance(parameter * 2, nn.Parameter)


def test_parameter_copies_and_pickles():
    parameter = nn.Parameter(torch.ones(3), requires_grad=False)
    pair = copy.deepcopy([parameter, parameter])
    assert pair[0] is pair[1] and pair[0] is not parameter
    assert isinstance(pair[0], nn.Parameter) and not pair[0].requires_grad and torch.equal(pair[0], parameter)
    parameter.note = "kept"
    again = pickle.loads(pickle.dumps(parameter))
    assert isinstance(again, nn.Parameter) and not again.requires_grad and torch.equal(again, parameter)
    assert again.note == "kept"


def test_module_copies_and_pickles():
    net = Net()
    net.first.tied = net.second.weight
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert repr(other) == repr(net) and names(other.named_parameters()) == names(net.named_parameters())
        assert other.first.weight is not net.first.weight and other.first.tied is other.second.weight
        assert isinstance(other.first.weight, nn.Parameter)
        assert list(other.state_dict()) == list(net.state_dict())


@ours
def test_what_may_be_meant_by_other_keys():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    state = net.state_dict()
    for given, hint in (
        ({f"module.{key}": value for key, value in state.items()}, "key.removeprefix('module.')"),
        ({f"model.net.{key}": value for key, value in state.items()}, "key.removeprefix('model.net.')"),
        ({f"module.{key}": value for key, value in state.items()} | {"head.bias": state["0.bias"]}, "'module.'"),
        ({"state_dict": state, "epoch": 3}, "load_state_dict(checkpoint['state_dict'])"),
        ({key.replace("bias", "bais"): value for key, value in state.items()}, '"0.bais" for "0.bias"'),
    ):
        with pytest.raises(RuntimeError) as caught:
            net.load_state_dict(given)
        assert hint in str(caught.value).splitlines()[-1]
    outer = nn.ModuleDict({"net": net})
    with pytest.raises(RuntimeError, match=r"\{'net.' \+ key: value"):
        outer.load_state_dict(state)
    for given in ({"x": 1, **state}, {}, {"far": 1}):  # nothing to suggest
        with pytest.raises(RuntimeError) as caught:
            net.load_state_dict(given)
        assert "Perhaps" not in str(caught.value)
