"""Ctrl-C at any point: what is to change has changed completely or not at all, and modes are what they were."""

import pytest

import plugrad as torch
from plugrad.graph import modes
from support.interrupts import interrupted


def all_modes():
    return (
        torch.is_grad_enabled(), torch.is_inference_mode_enabled(), modes.mode.anomaly, modes.mode.saved_hooks,
        modes.mode.op_hooks, modes.mode.function_modes, modes.mode.walk, torch.get_default_device(),
        bool(modes.paused), bool(modes.special), bool(modes.elsewhere), bool(modes.watched - {"overriding classes"}),
    )  # fmt: skip


QUIET = (True, False, False, (), (), (), None, torch.device("cpu"), False, False, False, False)


@torch.no_grad()
def yielding(x):
    try:
        yield x * 2
        yield x * 3
    finally:
        x.sum()


def with_grad_enabled(x):
    with torch.no_grad(), torch.set_grad_enabled(True):
        (x * x).sum().backward()


def in_regions(*contexts):
    def program(x):
        for make in contexts:
            with make():
                y = x * x
                if y.requires_grad:
                    y.sum().backward()
            (x * x).sum()

    return program


def second_gradient(x):
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()


MODES = {
    "no_grad": in_regions(torch.no_grad),
    "inference_mode": in_regions(torch.inference_mode),
    "anomaly": in_regions(torch.autograd.detect_anomaly),
    "zero_safe": in_regions(torch.autograd.zero_safe),
    "nested": lambda x: in_regions(lambda: torch.no_grad())(x) or in_regions(torch.enable_grad, torch.no_grad)(x),
    "device": in_regions(lambda: torch.device("cpu")),
    "saved hooks": in_regions(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
    "enabled": with_grad_enabled,
    "generator": lambda x: [y.sum() for y in yielding(x)],
    "backward": lambda x: (x * x).sin().sum().backward(),
    "second backward": second_gradient,
}


@pytest.mark.parametrize("name", MODES)
def test_modes_come_back(name):
    assert all_modes() == QUIET
    stopped = 0
    for where, _, was in interrupted(MODES[name], lambda: torch.ones(3, requires_grad=True)):
        stopped += was
        assert all_modes() == QUIET, where
    assert stopped
