"""A signal's handler, or a `__del__`, that uses ops and modes, at any point of a program that does: neither notices."""

import asyncio
import contextlib
import gc

import pytest

import plugrad as torch
from plugrad.graph import modes
from support.interrupts import handled


def all_modes():
    # What is past is dropped by whoever asks first.
    found = [torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()]
    flags = modes.paused, modes.special, modes.elsewhere, modes.watched - {"overriding classes"}
    return [*found, modes.mode.op_hooks, modes.mode.function_modes, *map(bool, flags)]


def interlude():
    """Use ops and modes, as the handler of a signal may."""
    with torch.inference_mode(False), torch.enable_grad():
        x = torch.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3, 3]
    with torch.no_grad():
        assert not (x * 2).requires_grad
        x.add_(1)
        with torch.inference_mode(), contextlib.ExitStack() as stack:
            stack.enter_context(torch.autograd.detect_anomaly(check_nan=False))
            assert (x * 2).is_inference()


def in_regions():
    x, seen = torch.ones(2, requires_grad=True), []
    with torch.no_grad():
        seen.append((x * 2).requires_grad)
        with torch.enable_grad(), contextlib.ExitStack() as stack:
            seen.append((x * 2).requires_grad)
            stack.enter_context(torch.no_grad())
            seen.append((x * 2).requires_grad)
        seen.append((x * 2).requires_grad)
        context = torch.enable_grad()
        context.__enter__()
        seen.append((x * 2).requires_grad)
        context.__exit__(None, None, None)
    with torch.inference_mode():
        seen.append((x * 2).is_inference())
    seen.append((x * 2).requires_grad)
    return seen


def training():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return [p.tolist() for p in net.parameters()]


def second_gradient():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()
    return x.grad.tolist()


PROGRAMS = {"regions": in_regions, "training": training, "second gradient": second_gradient}


@pytest.mark.parametrize("name", PROGRAMS)
def test_handlers_of_signals(name):
    before, expected = all_modes(), PROGRAMS[name]()
    for where, result in handled(PROGRAMS[name], interlude, 250):
        assert result == expected and all_modes() == before, where


def test_finalizers():
    class Finalized:
        def __init__(self):
            self.itself = self  # the garbage collector finds it, wherever that comes to run

        def __del__(self):
            interlude()

    thresholds, before = gc.get_threshold(), all_modes()
    gc.set_threshold(1)
    try:
        for _ in range(30):
            Finalized()
            assert in_regions() == [False, True, False, False, True, True, True]
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert all_modes() == before


def test_handlers_while_no_region_is_left_open():
    """What was asked for its `__exit__` and never entered changes nothing."""
    left_open = [flag for _, flag, _ in modes.mode.thread.by_hand if not flag.closed]
    context = torch.no_grad()
    for _ in range(3):
        assert hasattr(context, "__exit__") and hasattr(type(context), "__exit__")
    leave = context.__exit__
    with torch.enable_grad():
        assert torch.is_grad_enabled()
    with context:
        assert not torch.is_grad_enabled()
    leave(None, None, None)
    assert torch.is_grad_enabled()
    assert [flag for _, flag, _ in modes.mode.thread.by_hand if not flag.closed] == left_open


# ------------------------------------------------------------------------------------------ suspended regions


def suspended(*contexts):
    with contextlib.ExitStack() as stack:
        for make in contexts:
            stack.enter_context(make())
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()


def paused() -> list:
    """Return the regions in which nothing is recorded; one that ended goes when its own thread next asks for a mode."""
    states = [known() for known in set(modes.paused)]
    return [state.modes for state in states if state is not None and not state.ended()]


def test_regions_of_suspended_generators_end_when_they_end():
    """In whatever order: behind the last of them the modes are those from before. PyTorch leaves its own off here."""
    one, other = suspended(torch.no_grad), suspended(torch.no_grad, torch.enable_grad)
    assert not next(one) and not torch.is_grad_enabled()
    assert next(other) and torch.is_grad_enabled()
    one.close()
    assert torch.is_grad_enabled() and next(other)
    other.close()
    assert torch.is_grad_enabled() and not paused()
    third = suspended(torch.no_grad)
    next(third)
    del third
    assert torch.is_grad_enabled() and not paused()


def test_regions_of_tasks():
    async def within(context, turns):
        with context():
            for _ in range(turns):
                await asyncio.sleep(0)

    async def main():
        await asyncio.gather(within(torch.no_grad, 3), within(torch.enable_grad, 1), within(torch.inference_mode, 5))
        assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        task = asyncio.create_task(within(torch.no_grad, 5))
        await asyncio.sleep(0)
        assert not torch.is_grad_enabled()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert torch.is_grad_enabled() and not paused()
