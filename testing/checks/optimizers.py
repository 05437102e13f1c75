"""Checks of optimizers, on small quadratic problems."""

from __future__ import annotations

import copy
import inspect
import io
import itertools
import operator

import numpy

import plugrad
from plugrad.extend import Optimizer
from plugrad.optim.batching import BLOCK
from plugrad.testing.calls import Skip, agree, same_bits
from plugrad.testing.checks import documents
from plugrad.testing.checks.guesses import or_fail
from plugrad.testing.checks.optimizer_numbers import assert_by_elements, complex_parameters, scales
from plugrad.testing.checks.optimizer_rates import closure, own_options, rates
from plugrad.testing.checks.optimizer_steps import (
    SIZES,
    assert_equal,
    build,
    each,
    options_of,
    parameters,
    quadratic,
    sizes_of,
    steps,
)


def checks(cls) -> dict:
    """Return the checks of an optimizer class by name."""
    chosen = documents.checks(cls) | CHECKS
    for option, names in OFFERED.items():
        if option not in inspect.signature(cls).parameters:
            for name in names:
                chosen.pop(name)
    if not sizes_of(cls):  # it takes no parameters and gradients that are made here
        return documents.checks(cls)
    if hasattr(cls, "sizes"):
        chosen.pop("shapes")
    if getattr(cls, "goes_back", False):
        chosen.pop("constant gradients")
    if getattr(cls, "couples", False):  # a step of one parameter depends on the others
        alone = "batching", "parameter groups", "later changes", "group options", "missing gradients"
        for name in (*alone, "complex parameters"):  # a norm of complex numbers may be another
            chosen.pop(name, None)
    elif cls.update is Optimizer.update:
        chosen.pop("batching")  # it steps on tensors: nothing is joined
    if not any(form is cls.update for form, _ in cls.kernels.values()):
        chosen.pop("kernels")
    return chosen


def _with_large(cls) -> tuple:
    """Return shapes of which the first, where it may have any number of dimensions, is not joined with others."""
    return sizes_of(cls) if hasattr(cls, "sizes") else ((2 * BLOCK + 3,), *SIZES)


def has_samples(cls, device):
    """It can be constructed, and shows its options."""
    advice = "declare a static method `samples(make)` that yields options, such as make.args(lr=0.1)"
    for given in or_fail(advice, options_of, cls):
        optimizer = build(cls, given, parameters(device, sizes_of(cls)))
        assert type(optimizer).__name__ in repr(optimizer), f"its repr does not name {cls.__name__}"


def descent(cls, device):
    """Steps lower a quadratic function, and move every parameter."""
    for given in each(cls):
        tensors = parameters(device, sizes_of(cls))
        start, before = quadratic(tensors).item(), [t.detach().clone() for t in tensors]
        optimizer = build(cls, given, tensors)
        own = optimizer.state, optimizer.param_groups, *optimizer.param_groups
        steps(optimizer, tensors, 2)
        early, second = quadratic(tensors).item(), [t.detach().clone() for t in tensors]
        steps(optimizer, tensors, 48)
        end = quadratic(tensors).item()
        assert end < start, f"options {given}: 50 steps take a quadratic function from {start:.6g} to {end:.6g}"
        assert end < early, f"options {given}: steps 3 to 50 take a quadratic function from {early:.6g} to {end:.6g}"
        now = optimizer.state, optimizer.param_groups, *optimizer.param_groups
        assert len(own) == len(now) and all(map(operator.is_, own, now)), (
            f"options {given}: steps put other objects into `state` or `param_groups`, which others hold: change them"
        )
        for number, (t, then) in enumerate(zip(tensors, second, strict=True)):
            assert not same_bits(t, then), f"options {given}: parameter {number} does not move after the second step"
        for number, (t, then) in enumerate(zip(tensors, before, strict=True)):
            assert not same_bits(t, then), f"options {given}: parameter {number} of shape {tuple(t.shape)} never moves"
        assert all(t.dtype is plugrad.float64 for t in tensors), f"options {given}: a step changes the dtype"


def constant_gradients(cls, device):
    """No step goes up where the gradient is the same everywhere."""
    for given in each(cls):
        tensors = [plugrad.zeros_like(t).requires_grad_() for t in parameters(device, sizes_of(cls))]
        slopes = [plugrad.linspace(-1.0, 1.5, max(t.numel(), 1), dtype=t.dtype, device=device) for t in tensors]
        slopes = [slope.reshape(t.shape) for slope, t in zip(slopes, tensors, strict=True)]

        def height(tensors=tensors, slopes=slopes):
            return sum((slope * t).sum() for slope, t in zip(slopes, tensors, strict=True))

        def closure(tensors=tensors, slopes=slopes):
            for t, slope in zip(tensors, slopes, strict=True):
                t.grad = slope.clone()
            return height(tensors, slopes).detach()

        optimizer, before = build(cls, given, tensors), 0.0
        for step in range(1, 13):
            optimizer.step(closure)
            now = height().item()
            assert now <= before, (
                f"options {given}: on a linear function step {step} goes up, from {before:.6g} to {now:.6g}; an "
                "optimizer that goes back at times, as Lookahead does, says so by `goes_back = True`"
            )
            before = now
        assert before < 0, f"options {given}: on a linear function 12 steps lead nowhere"


def resume(cls, device):
    """Saved and loaded into another optimizer it continues as if nothing had happened: five steps, bit for bit."""
    for given in each(cls):
        tensors = parameters(device, sizes_of(cls))
        optimizer = _in_groups(cls, given, tensors)
        if isinstance(optimizer.param_groups[-1].get("lr"), float):
            optimizer.param_groups[-1]["lr"] *= 0.75
        steps(optimizer, tensors, 3)
        copies = [t.detach().clone(memory_format=plugrad.preserve_format).requires_grad_() for t in tensors]
        other = _in_groups(cls, given, copies)
        file = io.BytesIO()
        plugrad.save(optimizer.state_dict(), file)
        file.seek(0)
        other.load_state_dict(plugrad.load(file))
        steps(optimizer, tensors, 5), steps(other, copies, 5)
        for number, (one, two) in enumerate(zip(tensors, copies, strict=True)):
            assert same_bits(one, two), f"options {given}: five steps after loading, parameter {number} differs"
        for group, again in zip(optimizer.param_groups, other.param_groups, strict=True):
            for name in group:
                assert name == "params" or str(group[name]) == str(again[name]), f"argument {name!r} is lost in loading"


def _in_groups(cls, given, tensors):
    """Construct an optimizer over two groups of parameters, or over one where it takes no more."""
    try:
        return build(cls, given, [{"params": tensors[:1]}, {"params": tensors[1:]}])
    except (ValueError, NotImplementedError):
        return build(cls, given, tensors)


def batching(cls, device):
    """Joined into one array, or in blocks if they are large, parameters are updated as they are one by one."""
    plain = type(cls.__name__, (cls,), {"elementwise": False})
    sizes = ((2 * BLOCK + 3,), *sizes_of(cls))
    for given in each(cls):
        first, second = parameters(device, sizes), parameters(device, sizes)
        one, other = build(cls, given, first), build(plain, given, second)
        for _ in range(4):
            steps(one, first, 1), steps(other, second, 1)
        assert_equal(first, second, f"options {given}, joined or in blocks against alone")
        if cls.elementwise:
            assert_by_elements(cls, given, device)


def kernels(cls, device):
    """A kernel for one backend moves parameters as `update` does, and serves at least once."""
    form, kernel = cls.kernels.get(plugrad.device(device).type, (None, None))
    if form is not cls.update:
        raise Skip(f"it has no kernel for {device!r}")
    served = []

    def counted(*args):
        result = kernel(*args)
        served.append(result is not NotImplemented)
        return result

    with_it = type(cls.__name__, (cls,), {"kernels": {plugrad.device(device).type: (form, counted)}})
    without = type(cls.__name__, (cls,), {"kernels": {}})
    for given, dtype in itertools.product(each(cls), (plugrad.float64, plugrad.float32)):
        wide = parameters(device, _with_large(cls))
        first, second = ([t.detach().to(dtype, copy=True).requires_grad_() for t in wide] for _ in range(2))
        one, other = build(with_it, given, first), build(without, given, second)
        for _ in range(4):
            steps(one, first, 1), steps(other, second, 1)
        tolerance = {} if dtype is plugrad.float64 else {"rtol": 1e-5, "atol": 1e-6}
        assert_equal(first, second, f"options {given}, {dtype}: kernel {kernel.__name__} against update", **tolerance)
    assert any(served), f"kernel {kernel.__name__} served no step: declare options that it takes among the samples"


def maximize(cls, device):
    """With `maximize` it climbs a function as it descends on the negative one."""
    for given in each(cls):
        down, up = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
        steps(build(cls, given, down), down, 5)
        steps(build(cls, given, up, maximize=True), up, 5, sign=-1.0)
        assert_equal(up, down, f"options {given}, argument 'maximize'=True", rtol=1e-10, atol=1e-12)


def weight_decay(cls, device):
    """With `weight_decay` and no gradient parameters shrink."""
    for given in each(cls):
        tensors = parameters(device, sizes_of(cls))
        optimizer = build(cls, given, tensors, weight_decay=0.1)
        before = [float((t.detach() ** 2).sum()) for t in tensors]

        def closure(tensors=tensors):
            for t in tensors:
                t.grad = plugrad.zeros_like(t)
            return plugrad.zeros(())

        for _ in range(3):
            optimizer.step(closure)
        for number, (t, then) in enumerate(zip(tensors, before, strict=True)):
            assert float((t.detach() ** 2).sum()) < then, (
                f"options {given}, argument 'weight_decay'=0.1: without a gradient parameter {number} does not shrink"
            )


def groups(cls, device):
    """Options of a parameter group are its own."""
    for given in each(cls):
        rate = given.kwargs.get("lr", inspect.signature(cls).parameters["lr"].default)
        rate = float(rate if isinstance(rate, (int, float)) else 0.01)
        mine, alone = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
        optimizer = build(cls, given, [{"params": mine[:2]}, {"params": mine[2:], "lr": rate / 4}], lr=rate)
        assert [group["lr"] for group in optimizer.param_groups] == [rate, rate / 4], "argument 'lr' of a group is lost"
        parts = [build(cls, given, alone[:2], lr=rate), build(cls, given, alone[2:], lr=rate / 4)]
        for changed in (rate / 4, rate / 4, rate / 2, rate):  # the last ones as a schedule sets them
            optimizer.param_groups[1]["lr"] = parts[1].param_groups[0]["lr"] = changed
            steps(optimizer, mine, 1)
            steps(parts[0], alone[:2], 1), steps(parts[1], alone[2:], 1)
        assert_equal(mine, alone, f"options {given}, argument 'lr' of a parameter group")


def later_changes(cls, device):
    """A group added by `add_param_group`, and a rate that a schedule sets, count as if they had been there before."""
    for given in each(cls):
        mine, alone = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
        optimizer, other = build(cls, given, mine[:2]), build(cls, given, alone)
        optimizer.add_param_group({"params": mine[2:]})
        for _ in range(3):
            steps(optimizer, mine, 1), steps(other, alone, 1)
        assert_equal(mine, alone, f"options {given}, some parameters added by add_param_group, against all at once")
        mine, alone = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
        optimizer = build(cls, given, mine)
        rate = optimizer.param_groups[0].get("lr")
        if not isinstance(rate, float):
            continue
        optimizer.param_groups[0]["lr"] = rate / 4
        other = build(cls, given, alone, lr=rate / 4)
        for _ in range(3):
            steps(optimizer, mine, 1), steps(other, alone, 1)
        assert_equal(mine, alone, f"options {given}, argument 'lr' set in param_groups before the first step")


def shapes(cls, device):
    """A parameter without dimensions moves as one of shape (1,) does."""
    for given in each(cls):
        (single,), (row,) = parameters(device, ((),)), parameters(device, ((1,),))
        with plugrad.no_grad():
            row.fill_(single.item())
        steps(build(cls, given, [single]), [single], 4), steps(build(cls, given, [row]), [row], 4)
        agree(single.detach(), row.detach()[0], f"options {given}: a parameter of shape () against one of shape (1,)")


def group_options(cls, device):
    """Every number among the options of a parameter group is that group's own."""
    done = 0
    for given in each(cls):
        defaults = build(cls, given, parameters(device, sizes_of(cls))).defaults
        for name, value in defaults.items():
            if isinstance(value, bool) or not isinstance(value, float) or name in ("lr", "eps"):
                continue  # the rate has a check of its own
            changed = 0.5 * value if value else 0.1
            mine, alone = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
            try:
                optimizer = build(cls, given, [{"params": mine[:2]}, {"params": mine[2:], name: changed}])
                parts = [build(cls, given, alone[:2]), build(cls, given, alone[2:], **{name: changed})]
            except (TypeError, ValueError):  # options may exclude each other, and not all are the constructor's
                continue
            for _ in range(3):
                steps(optimizer, mine, 1)
                steps(parts[0], alone[:2], 1), steps(parts[1], alone[2:], 1)
            assert_equal(mine, alone, f"options {given}, argument {name!r}={changed} of a parameter group")
            done += 1
    if not done:
        raise Skip("it has no other numbers among its options")


def precision(cls, device):
    """In float32 it does what it does in float64, but for rounding."""
    for given in each(cls):
        wide = parameters(device, sizes_of(cls))
        narrow = [t.detach().float().requires_grad_() for t in wide]
        steps(build(cls, given, wide), wide, 5), steps(build(cls, given, narrow), narrow, 5)
        for number, (one, other) in enumerate(zip(narrow, wide, strict=True)):
            assert one.dtype is plugrad.float32, f"options {given}: a step changes the dtype of parameter {number}"
            label = f"options {given}: parameter {number} in float32 against float64"
            agree(one.detach().double(), other.detach(), label, rtol=1e-4, atol=1e-5)


def gradients_unchanged(cls, device):
    """A step leaves gradients as they are, passes over parameters without one, and is not recorded."""
    known = inspect.signature(cls).parameters
    more = [{name: value} for name, value in (("weight_decay", 0.1), ("maximize", True)) if name in known]
    for given, chosen in itertools.product(each(cls), ({}, *more)):
        tensors = parameters(device, _with_large(cls))
        optimizer = build(cls, given, tensors, **chosen)
        before = [t.detach().clone() for t in tensors]

        def closure(tensors=tensors):
            for t in tensors[:-1]:
                t.grad = plugrad.ones_like(t)
            tensors[-1].grad = None
            return plugrad.zeros(())

        optimizer.step(closure)
        after = [t.detach().clone() for t in tensors]
        for step in ("a step", "a second step with the same gradients"):
            for number, t in enumerate(tensors[:-1]):
                same = same_bits(t.grad, plugrad.ones_like(t))
                assert same, f"options {given}: {step} writes the gradient of {number}"
            tensors[-1].requires_grad_(False)  # the one without a gradient
            optimizer.step(lambda: plugrad.zeros(()))
        assert same_bits(tensors[-1], before[-1]), f"options {given}: a step moves a parameter that has no gradient"
        moved = [not bool((t == then).any()) for t, then in zip(after[:-1], before)]
        assert moved[0] or not all(moved[1:]), (
            f"options {given}: a step moves some of the {tensors[0].numel()} elements of a parameter, and all of others"
        )
        assert all(t.is_leaf and t.requires_grad for t in tensors[:-1]), f"options {given}: a step is recorded"


def missing_gradients(cls, device):
    """Parameters move as they do without those that have no gradient, wherever these stand."""
    for given, missing in itertools.product(each(cls), range(len(sizes_of(cls)))):
        mine, alone = parameters(device, sizes_of(cls)), parameters(device, sizes_of(cls))
        del alone[missing]
        optimizer, other = build(cls, given, mine), build(cls, given, alone)
        rest = [t for number, t in enumerate(mine) if number != missing]
        for _ in range(3):
            for tensors in (rest, alone):
                for t in tensors:
                    t.grad = None
                quadratic(tensors).backward()
            for which, tensors in ((optimizer, rest), (other, alone)):
                which.step(lambda tensors=tensors: quadratic(tensors))
        assert_equal(rest, alone, f"options {given}, parameter {missing} without a gradient against not being there")


def validation(cls, device):
    """A negative rate is refused with a ValueError."""
    for given in each(cls):
        for name in ("lr", "weight_decay"):
            if name in inspect.signature(cls).parameters:
                try:
                    build(cls, given, parameters(device, sizes_of(cls)), **{name: -1.0})
                except ValueError:
                    continue
                raise AssertionError(f"argument {name!r}=-1.0 raises no ValueError")


def deepcopy(cls, device):
    """A deep copy goes on with copies of the parameters and leaves the original alone."""
    for given in each(cls):
        tensors = parameters(device, sizes_of(cls))
        optimizer = build(cls, given, tensors)
        steps(optimizer, tensors, 2)
        before = [numpy.array(t.numpy(force=True)) for t in tensors]
        again, copies = copy.deepcopy((optimizer, tensors))
        steps(again, copies, 2)
        for number, (t, then) in enumerate(zip(tensors, before, strict=True)):
            assert (t.numpy(force=True) == then).all(), f"options {given}: a copy's steps move parameter {number}"


CHECKS = {
    "samples": has_samples,
    "descent": descent,
    "constant gradients": constant_gradients,
    "scales": scales,
    "resume": resume,
    "complex parameters": complex_parameters,
    "batching": batching,
    "kernels": kernels,
    "maximize": maximize,
    "weight decay": weight_decay,
    "parameter groups": groups,
    "later changes": later_changes,
    "shapes": shapes,
    "group options": group_options,
    "precision": precision,
    "rates": rates,
    "instances": own_options,
    "closure": closure,
    "gradients unchanged": gradients_unchanged,
    "missing gradients": missing_gradients,
    "validation": validation,
    "deepcopy": deepcopy,
}
OFFERED = {
    "maximize": ("maximize",), "weight_decay": ("weight decay",),
    "lr": ("parameter groups", "later changes", "rates", "validation"),
}  # fmt: skip
