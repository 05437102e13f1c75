"""The functions of `torch.optim.adam` and its like take the steps that PyTorch's take."""

import importlib

import numpy
import pytest

import plugrad

MOMENTS = {"beta1": 0.8, "beta2": 0.95, "lr": 0.1, "weight_decay": 0.05, "eps": 1e-6}
CALLS = {  # of each function: (lists of state and what they begin with), options
    "adadelta": (["zeros", "zeros", "step"],
                 {"lr": 0.5, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.1, "maximize": True}),
    "adagrad": (["ones", "step"], {"lr": 0.1, "weight_decay": 0.1, "lr_decay": 0.2, "eps": 1e-9, "maximize": False}),
    "adam": (["zeros", "zeros", "zeros", "step"], {**MOMENTS, "amsgrad": True, "maximize": True}),
    "adamax": (["zeros", "zeros", "step"], MOMENTS),
    "adamw": (["zeros", "zeros", "nothing", "step"], {**MOMENTS, "amsgrad": False, "maximize": False}),
    "asgd": (["zeros", "one", "rate", "step"], {"lambd": 0.1, "lr": 0.1, "t0": 1.0, "alpha": 0.7, "weight_decay": 0.1}),
    "nadam": (["zeros", "zeros", "one", "step"], {**MOMENTS, "momentum_decay": 0.01}),
    "radam": (["zeros", "zeros", "step"], MOMENTS),
    "rmsprop": (["zeros", "zeros", "zeros", "step"],
                {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.5, "centered": True}),
    "rprop": (["zeros", "rates", "step"], {"step_size_min": 1e-3, "step_size_max": 5, "etaminus": 0.5, "etaplus": 1.2}),
    "sgd": (["none"], {"weight_decay": 0.1, "momentum": 0.9, "lr": 0.1, "dampening": 0.2, "nesterov": False,
                       "maximize": False}),
}  # fmt: skip
SHAPES = [(3, 2), (4,)]


def _begin(torch, kind):
    if kind == "nothing":
        return []
    fill = {"zeros": 0, "ones": 1, "rates": 0.1}
    if kind in fill:
        return [torch.full(shape, float(fill[kind])) for shape in SHAPES]
    return [None if kind == "none" else torch.tensor({"step": 0.0, "one": 1.0, "rate": 0.1}[kind]) for _ in SHAPES]


@pytest.mark.parametrize("name", CALLS)
def test_steps_are_those_of_pytorch(torch, name):
    lists, options = CALLS[name]
    results = []
    for module in (torch, plugrad):
        function = getattr(importlib.import_module(f"{module.__name__}.optim.{name}"), name)
        rng = numpy.random.default_rng(1)
        params = [module.tensor(rng.normal(size=shape), dtype=module.float32) for shape in SHAPES]
        state = [_begin(module, kind) for kind in lists]
        for _ in range(3):
            grads = [module.tensor(rng.normal(size=shape), dtype=module.float32) for shape in SHAPES]
            function(params, grads, *state, **options)
        results.append([one.numpy() for values in (params, *state) for one in values])
    for theirs, ours in zip(*results, strict=True):
        numpy.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


def test_arguments_are_checked():
    sgd = plugrad.optim._functional.sgd
    w, grad, options = plugrad.ones(2), plugrad.ones(2), CALLS["sgd"][1]
    sgd(params=[w], d_p_list=[grad], momentum_buffer_list=[None], foreach=True, **options)
    assert w.tolist() == pytest.approx([0.89, 0.89]) and grad.tolist() == [1, 1]
    with pytest.raises(TypeError, match="missing the argument 'weight_decay'"):
        sgd([w], [grad], [None])
    with pytest.raises(TypeError, match="no argument 'rate'"):
        sgd([w], [grad], [None], **options, rate=1)
    with pytest.raises(AssertionError, match="fused"):
        sgd([w], [grad], [None], **options, found_inf=plugrad.ones(()))
    leaf = plugrad.ones(2, requires_grad=True)
    with plugrad.no_grad():
        sgd([leaf], [grad], [None], **options)
    assert leaf.grad is None and leaf.tolist() == w.tolist()
