"""Checks of an op's values: that it runs, agrees with its reference, writes nowhere, repeats itself, refuses well."""

from __future__ import annotations

import re
import sys
import threading
import time

import plugrad
from plugrad import registry
from plugrad.testing.calls import (
    Skip,
    agree,
    call,
    described,
    each,
    graded,
    is_random,
    leaves,
    named_tensors,
    outcome,
    same_bits,
)
from plugrad.testing.op_checks.elementwise import large_sample
from plugrad.testing.op_checks.references import against_reference, reference
from plugrad.testing.samples import Maker, as_sample, samples_of
from plugrad.testing.tensors import strided_copy, tensors_in

THREADS = 8


def has_samples(op, device):
    """There is something to run the op with, each time the same, and it runs: at first as later."""
    samples = samples_of(op, device=device)
    for number, (sample, again) in enumerate(zip(samples, samples_of(op, device=device), strict=True)):
        pairs = zip(*(s.tensors() for s in (sample, again)), strict=True)
        assert all(same_bits(*pair) for pair in pairs), (
            f"sample {number} {sample} is another each time: draw random numbers from `make`, or seed them"
        )
        results = [call(op, sample.detached()) for _ in range(2)]
        assert results[0] is not None or op.runs_on != "tensors" or not op.names, (
            f"sample {number} {sample}: it returns None; is there a `return`?"
        )
        first, second = map(tensors_in, results)
        assert all(map(same_bits, first, second)), f"sample {number} {sample}: the first call gives another result"
    derived = any(not getattr(formula.function, "refuses", False) for formula in op.formulas)
    assert not (derived and op.names) or any(graded(op, sample) for sample in samples) or not samples, (
        "it has gradient formulas, and none of its samples requires grad: nothing checks them"
    )
    assert samples, (
        f"nothing to check it with; declare `@{op.name}.samples`, a generator function of `make` that "
        "yields inputs, such as make(3, 4)"
    )


def value(op, device):
    """The value is that of the reference."""
    function = reference(op.ref)
    for label, sample in each(op, device):
        if sample.through is None:
            against_reference(op, function, sample, label)


def inputs_unchanged(op, device):
    """Neither the call nor its backward writes into its arguments."""
    for label, sample in each(op, device):
        tensors = named_tensors(op, sample)
        before = [(name, t.detach().clone()) for name, t in tensors]
        results = tensors_in(call(op, sample))
        _assert_unchanged(tensors, before, f"{label}, %s was written by the call")
        outputs, wanted = [y for y in results if y.requires_grad], leaves(sample)
        if not outputs or not wanted:
            continue
        for lay in (lambda g: g, strided_copy):
            given = [lay(plugrad.ones_like(y)) for y in outputs]
            ones = [("grad_output", g.clone()) for g in given]
            plugrad.autograd.grad(outputs, wanted, given, retain_graph=True, allow_unused=True)
            _assert_unchanged(tensors, before, f"{label}, %s was written by backward")
            _assert_unchanged([("grad_output", g) for g in given], ones, f"{label}, %s was written by backward")


def _assert_unchanged(now, before, message):
    for (name, one), (_, other) in zip(now, before, strict=True):
        agree(one.detach(), other, message % f"argument {name!r}", rtol=0, atol=0)


def inplace(op, device):
    """The in-place method gives what the op gives, and returns its input."""
    brought = None if op.provider is None else op.provider.brought
    own = [name for name in op.names if brought is None or registry.public.get(name) is brought.get(name)]
    names = [name.removeprefix("Tensor.") for name in own if name.startswith("Tensor.")]
    names = [f"{name}_" for name in names if getattr(plugrad.Tensor, f"{name}_", None) is not None]
    if not names:
        raise Skip("not a method of Tensor")
    done = 0
    for label, sample in each(op, device):
        if not sample.args or not isinstance(sample.args[0], plugrad.Tensor):
            continue
        expected = call(op, sample)
        if expected.shape != sample.args[0].shape or expected.dtype != sample.args[0].dtype:
            continue  # the result does not fit into the input: PyTorch refuses as well
        for lay in (lambda t: t.clone(), strided_copy):
            first = lay(sample.args[0].detach())
            beside = None if first._base is None else first._base.select(-1, 1)
            if beside is not None:
                beside.fill_(True)
            plugrad.manual_seed(0)
            result = getattr(first, names[0])(*sample.detached().args[1:], **sample.kwargs)
            assert result is first, f"{label}: {names[0]} does not return its input"
            agree(first, expected.detach(), f"{label}, {names[0]}" + ("" if first.is_contiguous() else ", strided"))
            assert beside is None or bool((beside == 1).all()), f"{label}: {names[0]} writes beside its input"
        done += 1
    if not done:
        raise Skip("no sample's result fits into its first input")


def error_samples(op, device):
    """Wrong inputs raise what the op's declaration says."""
    for number, (error_type, pattern, given) in enumerate(op.error_function(Maker(op.name, device=device))):
        sample = as_sample(given)
        label = f"error sample {number} {sample}"
        try:
            call(op, sample)
        except Exception as error:
            assert isinstance(error, error_type), (
                f"{label}: raises {type(error).__name__}, declared is {error_type.__name__}: {error}"
            )
            assert re.search(pattern, str(error)), f"{label}: the message {str(error)!r} does not match {pattern!r}"
        else:
            raise AssertionError(f"{label}: raises nothing, declared is {error_type.__name__}")


def deterministic(op, device):
    """Twice the same call with the same seed gives the same bits, and so does its backward.

    Of floats alone it does so in whichever default dtype, and without recording as well.
    """
    for label, sample in each(op, device):
        first, second = outcome(op, sample), outcome(op, sample)
        _assert_not_seeding(op, sample, label)
        for (what, one), (_, other) in zip(first, second, strict=True):
            assert same_bits(one, other), f"{label}: two calls with one seed differ in {what}"
        if all(t.is_floating_point() or t.dtype.is_complex for t in sample.tensors()):
            _assert_independent(op, sample, label)


def _assert_independent(op, sample, label):
    """Assert that settings of the program decide on no value."""
    results, default = [], plugrad.get_default_dtype()
    for dtype, recorded in ((plugrad.float32, True), (plugrad.float64, True), (default, False)):
        plugrad.set_default_dtype(dtype)
        try:
            with plugrad.set_grad_enabled(recorded):
                plugrad.manual_seed(0)
                results.append([t.detach() for t in tensors_in(call(op, sample.detached() if recorded else sample))])
        finally:
            plugrad.set_default_dtype(default)
    for what, others in zip(("in another default dtype", "where nothing is recorded"), results[1:], strict=True):
        for one, other in zip(results[0], others, strict=True):
            assert one.dtype is not other.dtype or same_bits(one, other), f"{label}: the result is another {what}"


def _assert_not_seeding(op, sample, label):
    """Assert that a call does not seed the random numbers of the program."""
    states = []
    for seed in (1, 2):
        plugrad.manual_seed(seed)
        sample.call(op.function)
        states.append(plugrad.get_rng_state())
    assert not same_bits(*states), f"{label}: the call seeds the random numbers of the program"


def threads(op, device):
    """Eight threads at once get what each gets alone: each has inputs of its own."""
    samples, expected = [], []
    for seed in range(THREADS):
        own = samples_of(op, device=device, seed=seed)
        if not seed and any(is_random(op, sample) for sample in own):
            raise Skip("the result is random, and threads share the generator")
        large = _large(op, device, seed)
        samples.append(own + 3 * large)  # on a busy machine threads may miss each other once
        alone, of_large = ([outcome(op, sample) for sample in some] for some in (own, large))
        expected.append(alone + 3 * of_large)
    outcomes, barrier, tracing = [None] * THREADS, threading.Barrier(THREADS), threading.Lock()
    files = {op.kernels["*"].__code__.co_filename, *(f.function.__code__.co_filename for f in op.formulas)}

    def work(number):
        barrier.wait()
        with tracing:  # CPython lets one thread install a function at a time, and refuses others
            sys.settrace(_turn_at_lines_of(files))
        try:
            outcomes[number] = [outcome(op, sample) for sample in samples[number]]
        except Exception as error:
            outcomes[number] = error
        finally:
            with tracing:
                sys.settrace(None)

    _run_together(work)
    for got, right in zip(outcomes, expected, strict=True):
        if isinstance(got, Exception):
            raise AssertionError(f"a call beside others raises {described(got)}") from got
        for number, (ours, theirs) in enumerate(zip(got, right, strict=True)):
            assert all(same_bits(one, other) for (_, one), (_, other) in zip(ours, theirs, strict=True)), (
                f"sample {number}: a call beside others in {THREADS} threads gives another result than alone"
            )


def _large(op, device, seed) -> list:
    """Return a sample of many elements for an elementwise op, for which kernels may have another way."""
    if not op.broadcasts or "dim" in op.parameters:
        return []
    try:
        return [large_sample(op, device, seed)]
    except Skip:
        return []


def _turn_at_lines_of(files):
    """Return a trace function that lets other threads run before each line of code in some files."""

    def line(frame, event, argument):
        time.sleep(0)
        return line

    return lambda frame, event, argument: line if frame.f_code.co_filename in files else None


def _run_together(work) -> None:
    """Run `work(number)` in as many threads, which are made to take turns as often as possible."""
    workers = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(interval)
