"""`torch.__future__` beside PyTorch's: what conversion and loading do to Parameters, and who refers to what."""

import contextlib
import copy
import weakref

import pytest

import plugrad

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("lib", [plugrad, torch], ids=["plugrad", "torch"])


@contextlib.contextmanager
def asked(lib, way):
    getattr(lib.__future__, f"set_{way}_module_params_on_conversion")(True)
    assert getattr(lib.__future__, f"get_{way}_module_params_on_conversion")() is True
    try:
        yield
    finally:
        getattr(lib.__future__, f"set_{way}_module_params_on_conversion")(False)
    assert getattr(lib.__future__, f"get_{way}_module_params_on_conversion")() is False


def layer(lib):
    net = lib.nn.Linear(2, 1)
    with lib.no_grad():
        net.weight.fill_(2.0)
        net.bias.fill_(1.0)
    net(lib.ones(1, 2)).sum().backward()
    return net


@BOTH
@pytest.mark.parametrize("way, kept", [("overwrite", False), ("swap", True)])
def test_conversion(lib, way, kept):
    net = layer(lib)
    weight, grad, shared = net.weight, net.weight.grad, net.weight.detach()
    weight.mark = 3
    with asked(lib, way):
        net.double()
    assert (net.weight is weight) is kept and (net.weight.grad is grad) is kept
    assert net.weight.dtype is lib.float64 and net.weight.grad.dtype is lib.float64
    assert net.weight.tolist() == [[2.0, 2.0]] and net.weight.grad.tolist() == [[1.0, 1.0]]
    assert weight.dtype is (lib.float64 if kept else lib.float32) and shared.dtype is lib.float32
    assert type(net.weight) is lib.nn.Parameter and net.weight.requires_grad
    assert hasattr(net.weight, "mark") is False  # of the new Parameter, which has none
    lib.optim.SGD([net.weight], lr=1.0).step()
    assert net.weight.tolist() == [[1.0, 1.0]] and shared.tolist() == [[2.0, 2.0]]


@BOTH
@pytest.mark.parametrize("assign", [False, True])
def test_loading_exchanges_parameters_and_buffers(lib, assign):
    net, other = lib.nn.BatchNorm1d(2), lib.nn.BatchNorm1d(2)
    before = {name: value for name, value in (*net.named_parameters(), *net.named_buffers())}
    with lib.no_grad():
        other.weight.fill_(5.0)
        other.running_mean.fill_(7.0)
    with asked(lib, "swap"):
        assert str(net.load_state_dict(other.state_dict(), assign=assign)) == "<All keys matched successfully>"
    for name, value in (*net.named_parameters(), *net.named_buffers()):
        assert value is before[name], name
        assert type(value) is (lib.nn.Parameter if name in ("weight", "bias") else lib.Tensor)
    assert net.weight.tolist() == [5.0, 5.0] and net.running_mean.tolist() == [7.0, 7.0]
    assert (net.weight.data_ptr() == other.weight.data_ptr()) is assign


@BOTH
def test_what_module_load_may_return(lib):
    class Loads(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is lib.Tensor.module_load:
                return args[1]
            return super().__torch_function__(func, types, args, kwargs or {})

    net = lib.nn.Linear(2, 2)
    net.weight = lib.nn.Parameter(net.weight.detach().as_subclass(Loads))
    with asked(lib, "swap"), pytest.raises(RuntimeError, match="module_load returned one of self or other"):
        net.load_state_dict(lib.nn.Linear(2, 2).state_dict())


@BOTH
def test_what_can_not_be_exchanged(lib):
    class Slotted(lib.Tensor):
        __slots__ = ("more",)

    def swap(one):
        lib.utils.swap_tensors(one, lib.zeros(3))

    for watch in (weakref.ref, lambda one: weakref.WeakKeyDictionary({one: 1})):
        tensor = lib.ones(2)
        watched = watch(tensor)
        with pytest.raises(RuntimeError, match="weakref"):
            swap(tensor)
        del watched
        detached = tensor.detach()
        swap(tensor)
        assert tensor.tolist() == [0, 0, 0] and detached.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="different slots"):
        swap(lib.ones(2).as_subclass(Slotted))


def test_a_failed_load_leaves_what_was():
    net = layer(plugrad)
    state = copy.deepcopy(net.state_dict())
    state["bias"] = plugrad.zeros(3)
    with asked(plugrad, "swap"), pytest.raises(RuntimeError, match="size mismatch for bias"):
        net.load_state_dict({**state, "weight": plugrad.zeros(1, 2)})
    assert net.weight.tolist() == [[2.0, 2.0]]
