"""Modules that tests of `nn.Module` share; they run under PyTorch, too (see `support.torch_as_plugrad`)."""

from __future__ import annotations

import pytest

import plugrad as torch
from plugrad import nn

ours = pytest.mark.skipif(torch.__name__ != "plugrad", reason="where plugrad does more than PyTorch")


class Affine(nn.Module):
    def __init__(self, features=2, bias=True):
        super().__init__()
        self.features = features
        self.weight = nn.Parameter(torch.ones(features))
        if bias:
            self.bias = nn.Parameter(torch.zeros(features))
        else:
            self.register_parameter("bias", None)
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(3), persistent=False)

    def forward(self, input):
        output = input * self.weight
        return output if self.bias is None else output + self.bias

    def extra_repr(self):
        return f"features={self.features}"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Affine()
        self.second = Affine(3, bias=False)
        self.extra = None


class Counted(Affine):
    """Has extra state."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def get_extra_state(self):
        return {"calls": self.calls}

    def set_extra_state(self, state):
        self.calls = state["calls"]


def names(pairs):
    return [name for name, _ in pairs]
