"""Grad modes as PyTorch has them: around generators, coroutines and classes, by hand, in any order, in every thread."""

import asyncio
import contextlib
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch as reference

import plugrad
from plugrad.graph import modes

BOTH = pytest.mark.parametrize("module", [plugrad, reference], ids=["plugrad", "reference"])
DECORATORS = {
    "no_grad": lambda t: t.no_grad(),
    "no_grad bare": lambda t: t.no_grad,
    "enable_grad": lambda t: t.enable_grad(),
    "inference_mode": lambda t: t.inference_mode(),
    "set_grad_enabled": lambda t: t.set_grad_enabled(False),
}


def _here(t, place):
    return place, t.is_grad_enabled(), t.is_inference_mode_enabled()


def drive(t, decorator, record):
    """Do all that can be done to a generator; note the grad mode inside and outside at every point."""

    def here(place):
        record.append(_here(t, place))

    @decorator
    def generator(n):
        """Text."""
        try:
            for i in range(n):
                here("before the yield")
                try:
                    got = yield i
                    record.append(("sent", got))
                except KeyError as error:
                    here("thrown in")
                    record.append(error.args)
                    got = yield "caught"
                here("after the yield")
            return "result"
        finally:
            here("finally")

    def outer():
        result = yield from generator(2)
        record.append(result)

    record.append((generator.__name__, generator.__doc__))
    record.append(list(outer()))
    here("outside")
    source = generator(5)
    record.append(next(source))
    here("outside")
    record.append(source.send("message"))
    record.append(source.throw(KeyError("thrown")))
    here("outside")
    with pytest.raises(ZeroDivisionError):
        source.throw(ZeroDivisionError())
    here("outside")
    record.append(list(source))
    source = generator(5)
    next(source)
    source.close()
    here("outside")
    source = generator(0)
    with pytest.raises(StopIteration) as stop:
        next(source)
    record.append(stop.value.value)
    source = generator(3)
    next(source)
    with t.enable_grad():
        next(source)
        here("in a block")
    here("outside")
    del source
    here("outside")
    return record


def await_coroutine(t, decorator, record):
    """Run a coroutine; note the grad mode inside and outside."""

    def here(place):
        record.append(_here(t, place))

    @decorator
    async def coroutine():
        here("in a coroutine")
        await asyncio.sleep(0)
        here("in a coroutine")
        return 3

    record.append(asyncio.run(coroutine()))
    here("outside")
    return record


@pytest.mark.filterwarnings("ignore:the .type, exc, tb. signature of throw")  # PyTorch's own, from Python 3.12 on
@pytest.mark.parametrize("name", DECORATORS)
def test_generators_and_coroutines(name):
    for program in drive, await_coroutine:
        ours = program(plugrad, DECORATORS[name](plugrad), [])
        assert ours == program(reference, DECORATORS[name](reference), [])


@BOTH
def test_a_class_is_decorated_with_a_warning(module):
    def define():
        @module.no_grad()
        class Thing:
            def __init__(self):
                self.mode = module.is_grad_enabled()

            def later(self):
                return module.is_grad_enabled()

        return Thing

    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):
        thing = define()()
    assert (thing.mode, thing.later()) == (False, True)


def entered_by_hand(t, note):
    context = t.no_grad()
    context.__enter__()
    note()
    inner = t.enable_grad()
    inner.__enter__()
    note()
    inner.__exit__(None, None, None)
    note()
    with t.enable_grad():
        note()
    note()
    context.__exit__(None, None, None)
    note()
    with context:
        note()
    note()
    leave = t.no_grad().__exit__
    note()
    del leave
    t.no_grad().__enter__()
    note()
    t.set_grad_enabled(True)


def stacked(t, note):
    with contextlib.ExitStack() as stack:
        stack.enter_context(t.no_grad())
        note()
        stack.enter_context(t.enable_grad())
        note()
        stack.enter_context(t.inference_mode())
        note()


def nested(t, note):
    with t.no_grad():
        t.set_grad_enabled(True)
        note()
        with t.inference_mode():
            note()
            with t.inference_mode(False):
                note()
        note()
    note()
    with t.autograd.detect_anomaly(), t.no_grad():
        note()


def switched(t, note):
    with t.set_grad_enabled(False):
        note()
        with t.set_grad_enabled(True):
            note()
    note()
    t.set_grad_enabled(False)
    note()
    with t.enable_grad():
        note()
    note()
    t.set_grad_enabled(True)


def left_by_an_error(t, note):
    with contextlib.suppress(ValueError), t.no_grad():
        raise ValueError


def entered_by_a_subclass(t, note):
    class Mine(t.no_grad):
        def __enter__(self):
            super().__enter__()
            return "mine"

        def __exit__(self, *exception):
            note()
            return super().__exit__(*exception)

    with Mine() as value:
        note(value)


def suspended(t, note):
    def generator():
        with t.no_grad():
            yield

    source = generator()
    next(source)
    note()
    source.close()


WALKS = (entered_by_hand, stacked, nested, switched, left_by_an_error, entered_by_a_subclass, suspended)


@pytest.mark.parametrize("walks", [*((walk,) for walk in WALKS), WALKS], ids=[*(w.__name__ for w in WALKS), "all"])
def test_every_way_to_enter_and_leave(walks):
    def walked(t):
        seen = []

        def note(value=None):
            x = t.ones(2, requires_grad=True)
            seen.append((value, t.is_grad_enabled(), (x * x).requires_grad, t.is_inference_mode_enabled()))

        for walk in walks:
            walk(t, note)
            note()
        return seen

    with warnings.catch_warnings(), ThreadPoolExecutor(1) as other:  # a walk leaves a region on: in a thread of its own
        warnings.simplefilter("ignore")
        assert other.submit(walked, plugrad).result() == other.submit(walked, reference).result()


@BOTH
def test_setters_inside_of_another_block_stay(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with module.no_grad():
            module.autograd.set_detect_anomaly(True)
        x = module.zeros(1, requires_grad=True)
        with pytest.raises(RuntimeError, match="nan"):
            (x / x).sqrt().sum().backward()
        module.autograd.set_detect_anomaly(False)


@BOTH
def test_a_hook_that_sets_the_grad_mode_sets_it_for_its_own_backward(module):
    seen, x = [], module.ones(2, requires_grad=True)
    for hook in (lambda g: (module.set_grad_enabled(True), None)[1], lambda g: seen.append(module.is_grad_enabled())):
        y = x * 2
        y.register_hook(hook)
        y.sum().backward()
    assert seen == [False] and module.is_grad_enabled()


@BOTH
def test_a_new_thread_has_modes_of_its_own(module):
    seen = []
    with module.no_grad():
        thread = threading.Thread(target=lambda: seen.append(module.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_what_a_thread_left_on_is_gone_with_it():
    def leave_on():
        plugrad.set_grad_enabled(False)
        plugrad.inference_mode().__enter__()

    flags = (modes.paused, modes.special, modes.elsewhere)
    before = [set(flag) for flag in flags]
    thread = threading.Thread(target=leave_on)
    thread.start()
    thread.join()
    assert all([flag <= had for flag, had in zip(flags, before)])


def deep(t, depth):
    """Return the gradient through a backward that runs in a backward, and so on."""

    class Reentrant(t.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with t.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x < 0:
                return g
            with t.enable_grad():
                Reentrant.apply(ctx.x).sum().backward()
            return g

    v = t.tensor(float(depth), requires_grad=True)
    Reentrant.apply(v).sum().backward()
    return v.grad.item()


@pytest.mark.parametrize("depth", [3, 300, 2000])
def test_a_backward_in_a_backward_in_a_backward(depth):
    assert deep(plugrad, depth) == deep(reference, depth) == 1.0


@pytest.mark.parametrize("recorded", [False, True])
def test_an_inference_tensor_that_a_function_hands_on_stays_one(recorded):
    def program(t):
        class Passing(t.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return x, x.detach() * y.detach()

            @staticmethod
            def backward(ctx, g, h):
                return g, h

        with t.inference_mode():
            x = t.ones(2) * 2
        results = Passing.apply(x, t.ones(2, requires_grad=recorded))
        return [(one.is_inference(), one.requires_grad) for one in results]

    assert program(plugrad) == program(reference)
