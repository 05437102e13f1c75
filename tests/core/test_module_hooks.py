"""Hooks of modules. Everything not marked `ours` holds in PyTorch too."""

from __future__ import annotations

import copy
import gc
import pickle
from collections import OrderedDict

import pytest

import plugrad as torch
from plugrad import nn
from support.modules import ours

everywhere = nn.modules.module  # registers the hooks of all modules
RemovableHandle = type(nn.Module().register_forward_pre_hook(print))


class Scale(nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, input, *, plus=0.0):
        return input * self.factor + plus


class Two(nn.Module):
    def forward(self, a, b, note=None):
        return a * 2, b * 3


class Fails(nn.Module):
    def forward(self, input):
        raise ValueError("forward failed")


def ones(*shape):
    return torch.ones(*shape, requires_grad=True)


def numbers(values):
    """Gradients as plain lists, None as None."""
    return tuple(None if v is None else v.tolist() for v in values)


def keep_inputs(module, args):
    """A module-level hook: pickles."""


# Handles


def test_handle():
    hooks, extra = OrderedDict(), OrderedDict()
    handle = RemovableHandle(hooks, extra_dict=extra)
    hooks[handle.id] = extra[handle.id] = print
    other = RemovableHandle(hooks, extra_dict=[extra])
    assert other.id > handle.id
    handle.remove()
    handle.remove()
    assert not hooks and not extra
    hooks[other.id] = print
    with other as entered:
        assert entered is other
    assert not hooks


def test_handle_keeps_nothing_alive_and_pickles():
    hooks = OrderedDict()
    handle = RemovableHandle(hooks)
    hooks[handle.id] = "hook"
    again, table = pickle.loads(pickle.dumps((handle, hooks)))
    assert again.id == handle.id
    again.remove()
    assert not table and hooks
    del hooks
    gc.collect()
    handle.remove()
    pickle.loads(pickle.dumps(handle)).remove()


# Forward


def test_forward_pre_hook():
    net = Scale()
    seen = []
    with net.register_forward_pre_hook(lambda module, args: seen.append((module, args))):
        x = torch.ones(1)
        net(x)
    assert seen == [(net, (x,))]
    with net.register_forward_pre_hook(lambda module, args: args[0] * 10):
        assert net(torch.ones(1)).item() == 20
    with net.register_forward_pre_hook(lambda module, args: (args[0] * 100,)):
        assert net(torch.ones(1)).item() == 200
    assert net(torch.ones(1)).item() == 2


def test_forward_pre_hook_with_kwargs():
    net = Scale()
    seen = []

    def hook(module, args, kwargs):
        seen.append(kwargs)
        return args, {"plus": kwargs["plus"] + 1}

    handle = net.register_forward_pre_hook(hook, with_kwargs=True)
    assert net(torch.ones(1), plus=5).item() == 8 and seen == [{"plus": 5}]
    handle.remove()
    with net.register_forward_pre_hook(lambda *args: 3, with_kwargs=True):
        with pytest.raises(
            RuntimeError, match="forward pre-hook must return None or a tuple of .new_args, new_kwargs"
        ):
            net(torch.ones(1))


def test_forward_hook():
    net = Scale()
    with net.register_forward_hook(lambda module, args, output: output + args[0]):
        assert net(torch.ones(1)).item() == 3
    with net.register_forward_hook(lambda module, args, kwargs, output: kwargs["plus"], with_kwargs=True):
        assert net(torch.ones(1), plus=7.5) == 7.5
    assert net(torch.ones(1)).item() == 2


def test_order_of_forward_hooks():
    net = Scale()
    order = []

    def note(what):
        return lambda *args: order.append(what)

    net.register_forward_hook(note("hook 1"))
    net.register_forward_hook(note("hook 2"))
    net.register_forward_hook(note("hook 0"), prepend=True)
    net.register_forward_pre_hook(note("pre 1"))
    net.register_forward_pre_hook(note("pre 0"), prepend=True)
    with (
        everywhere.register_module_forward_hook(note("global hook")),
        everywhere.register_module_forward_pre_hook(note("global pre")),
    ):
        net(torch.ones(1))
    assert order == ["global pre", "pre 0", "pre 1", "global hook", "hook 0", "hook 1", "hook 2"]


def test_always_called_hooks():
    net = Fails()
    seen = []
    net.register_forward_hook(lambda module, args, output: seen.append("plain"))
    net.register_forward_hook(lambda module, args, output: seen.append(output), always_call=True)
    net.register_forward_hook(
        lambda module, args, kwargs, output: seen.append(kwargs), always_call=True, with_kwargs=True
    )
    with pytest.raises(ValueError, match="forward failed"):
        net(1)
    assert seen == [None, {}]

    def broken(*args):
        raise KeyError("hook failed")

    with net.register_forward_hook(broken, always_call=True):
        with pytest.warns(
            UserWarning, match="module forward hook with ``always_call=True`` raised an exception"
        ):
            with pytest.raises(ValueError, match="forward failed"):
                net(1)
    good = Scale()
    calls = []
    good.register_forward_hook(lambda *args: calls.append(1), always_call=True)
    good.register_forward_hook(broken)
    with pytest.raises(KeyError):
        good(torch.ones(1))
    assert calls == [1]


def test_global_forward_hooks():
    seen = []
    net = nn.Sequential(Scale(), Scale())
    with everywhere.register_module_forward_hook(
        lambda module, args, kwargs, output: seen.append((type(module).__name__, kwargs)), with_kwargs=True
    ):
        net(torch.ones(1))
    assert seen == [("Scale", {}), ("Scale", {}), ("Sequential", {})]
    with everywhere.register_module_forward_hook(lambda *args: seen.append("failed"), always_call=True):
        with pytest.raises(ValueError):
            Fails()(1)
    net(torch.ones(1))
    assert seen[3:] == ["failed"]


@ours
def test_calls_are_fast_again_after_the_last_hook():
    net = Scale()
    handle = net.register_forward_hook(lambda *args: None)
    overall = everywhere.register_module_forward_pre_hook(lambda *args: None)
    net(torch.ones(1))
    assert net._has_hooks and nn.Module._has_hooks
    handle.remove()
    overall.remove()
    net(torch.ones(1))
    assert "_has_hooks" not in net.__dict__ and not nn.Module._has_hooks


def test_copies_keep_hooks():
    net = Scale()
    net.register_forward_pre_hook(keep_inputs)
    net.register_forward_hook(lambda module, args, output: output * 10)
    other = copy.deepcopy(net)
    assert other(torch.ones(1)).item() == 20 and len(other._forward_pre_hooks) == 1


# Backward


def test_full_backward_hooks():
    net = Two()
    seen = []
    net.register_full_backward_pre_hook(
        lambda module, grad_output: seen.append(("pre", module, numbers(grad_output)))
    )
    net.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append(
            (module, numbers(grad_input), numbers(grad_output))
        )
    )
    a, b = ones(2), ones(1)
    x, y = net(a, b)
    (x.sum() + 5 * y.sum()).backward()
    assert seen == [("pre", net, ([1, 1], [5])), (net, ([2, 2], [15]), ([1, 1], [5]))]
    assert a.grad.tolist() == [2, 2] and b.grad.tolist() == [15]


def test_full_backward_hook_positions():
    net = Two()
    seen = []
    net.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append((grad_input, grad_output))
    )
    a, b = ones(2), torch.ones(1)
    x, y = net(a, b, "note")
    assert not y.requires_grad
    x.sum().backward()
    (grad_input, grad_output) = seen[0]
    assert len(grad_input) == 3 and grad_input[0].tolist() == [2, 2] and grad_input[2] is None
    assert len(grad_output) == 2 and grad_output[1] is None
    # Keyword arguments are not seen.
    net(a, note="note", b=b)[0].sum().backward()
    assert len(seen[1][0]) == 1


def test_backward_hooks_change_gradients():
    net = Scale()
    with net.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10,)):
        x = ones(1)
        net(x).sum().backward()
        assert x.grad.item() == 20 and net.factor.grad.item() == 1
    net.zero_grad()
    with net.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 10,)):
        x = ones(1)
        net(x).sum().backward()
        assert x.grad.item() == 20 and net.factor.grad.item() == 10


@pytest.mark.parametrize(
    ("register", "text"),
    [
        (
            "register_full_backward_hook",
            "Backward hook returned an invalid number of grad_input, got 2, but expected 1",
        ),
        (
            "register_full_backward_pre_hook",
            "Backward pre hook returned an invalid number of grad_output, got 2, but",
        ),
    ],
)
def test_backward_hooks_return_the_right_number(register, text):
    net = Scale()
    getattr(net, register)(lambda *args: (1, 2))
    with pytest.raises(RuntimeError, match=text):
        net(ones(1)).sum().backward()


def test_order_of_backward_hooks():
    inner, outer = Scale(), None
    outer = nn.Sequential(inner)
    order = []

    def note(what):
        return lambda *args: order.append(what)

    for module, name in ((inner, "inner"), (outer, "outer")):
        module.register_full_backward_hook(note(f"{name} 1"))
        module.register_full_backward_hook(note(f"{name} 0"), prepend=True)
        module.register_full_backward_pre_hook(note(f"{name} pre 1"))
        module.register_full_backward_pre_hook(note(f"{name} pre 0"), prepend=True)
    outer(ones(1)).sum().backward()
    assert order == [
        *("outer pre 0", "outer pre 1", "inner pre 0", "inner pre 1"),
        *("inner 0", "inner 1", "outer 0", "outer 1"),
    ]


def test_global_backward_hooks():
    order = []
    net = Scale()
    net.register_full_backward_hook(lambda *args: order.append("own"))
    with (
        everywhere.register_module_full_backward_hook(lambda *args: order.append("global")),
        everywhere.register_module_full_backward_pre_hook(lambda *args: order.append("global pre")),
    ):
        net(ones(1)).sum().backward()
        with pytest.raises(
            RuntimeError, match="Cannot use both regular backward hooks and full backward hooks as a"
        ):
            everywhere.register_module_backward_hook(print)
    net(ones(1)).sum().backward()
    assert order == ["global pre", "global", "own", "own"]


def test_backward_hook_without_inputs_that_need_gradients():
    net = Scale()
    seen = []
    net.register_full_backward_hook(
        lambda module, grad_input, grad_output: seen.append((grad_input, numbers(grad_output)))
    )
    output = net(torch.ones(2))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        output.sum().backward()
    assert seen == [((None,), ([1, 1],))] and net.factor.grad.item() == 2
    net.register_full_backward_hook(lambda *args: (torch.ones(2),))
    output = net(torch.ones(2))
    with (
        pytest.warns(UserWarning),
        pytest.raises(RuntimeError, match="should always return None or None for"),
    ):
        output.sum().backward()


def test_backward_hooks_are_idle_without_gradients():
    net = Scale()
    net.register_full_backward_hook(lambda *args: pytest.fail("called"))
    with torch.no_grad():
        assert not net(ones(1)).requires_grad
    net.requires_grad_(False)
    assert net(torch.ones(1)).grad_fn is None


def test_backward_hook_warns_about_other_outputs():
    class Listed(nn.Module):
        def forward(self, input):
            return [input * 2]

    net = Listed()
    net.register_full_backward_hook(lambda *args: None)
    with pytest.warns(
        UserWarning, match="module output should be a Tensor or a tuple of Tensors but received"
    ):
        net(ones(1))


def test_backward_hooks_and_double_backward():
    net = Scale()
    net.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 3,))
    x = ones(1)
    y = net(x) ** 2
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert first.item() == 24  # 3 * 2 * factor**2 * x
    (second,) = torch.autograd.grad(first.sum(), net.factor)
    assert second.item() == 24  # 3 * 4 * factor * x


def test_backward_hook_fires_for_each_backward():
    net = Scale()
    calls = []
    net.register_full_backward_hook(lambda *args: calls.append(1))
    y = net(ones(1)).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(calls) == 2


def test_old_style_backward_hook():
    net = Scale()
    seen = []
    net.register_backward_hook(
        lambda module, grad_input, grad_output: seen.append((module, numbers(grad_output)))
    )
    with pytest.raises(
        RuntimeError, match="Cannot use both regular backward hooks and full backward hooks on a single"
    ):
        net.register_full_backward_hook(print)

    class Square(nn.Module):
        def forward(self, input):
            return input * input

    square = Square()
    square.register_backward_hook(
        lambda module, grad_input, grad_output: seen.append((module, numbers(grad_output)))
    )
    square(ones(1) * 1).sum().backward()
    assert seen == [(square, ([1],))]


# Registration


def test_registration_hooks():
    seen = []
    replacement = nn.Sequential()
    with (
        everywhere.register_module_parameter_registration_hook(
            lambda m, name, value: seen.append(("parameter", name))
        ),
        everywhere.register_module_buffer_registration_hook(
            lambda m, name, value: seen.append(("buffer", name))
        ),
        everywhere.register_module_module_registration_hook(
            lambda m, name, value: replacement if name == "child" else seen.append(("module", name))
        ),
    ):
        net = Scale()
        net.state = nn.Buffer(torch.ones(1))
        net.child = nn.Module()
        net.add_module("other", nn.Module())
    net.more = nn.Parameter(torch.ones(1))
    assert seen == [("parameter", "factor"), ("buffer", "state"), ("module", "other")]
    assert net.child is replacement
