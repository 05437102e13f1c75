"""Checks of initialisation policies: functions of a module and its place that set parameters."""

from __future__ import annotations

import plugrad
from plugrad import nn
from plugrad.testing.checks import documents


def checks(policy) -> dict:
    """Return the checks of a policy by name."""
    return documents.checks(policy) | CHECKS


def _filled(policy) -> nn.Module:
    """Return a small network of usual layers to which a policy was applied, seeded."""
    network = nn.Sequential(nn.Conv1d(2, 8, 3), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(6, 4), nn.LayerNorm(4))
    plugrad.manual_seed(0)
    nn.init.policy(policy.__name__).apply(network)
    return network


def applies(policy, device):
    """It sets finite parameters, in place, and records nothing."""
    network = _filled(policy)
    for name, parameter in network.named_parameters():
        assert parameter.is_leaf and parameter.requires_grad, f"{name} is no leaf any more; write under no_grad"
        assert bool(parameter.detach().isfinite().all()), f"{name} is not finite"
    output = network(plugrad.ones(3, 2, 8))
    assert bool(output.isfinite().all()), "the output of a small network is not finite"


def seeded(policy, device):
    """One seed gives the same bits."""
    one, other = _filled(policy).state_dict(), _filled(policy).state_dict()
    assert all(plugrad.equal(one[name], other[name]) for name in one), "its numbers don't follow plugrad's seed"


CHECKS = {"parameters": applies, "seeded": seeded}
