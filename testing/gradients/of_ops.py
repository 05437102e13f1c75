"""Judging the gradients of ops, with their samples."""

from __future__ import annotations

from plugrad import registry
from plugrad.errors import describe
from plugrad.testing.calls import call, function_of, leaves
from plugrad.testing.gradients.checker import check, gradient_function
from plugrad.testing.running import processes
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import tensors_in

FAULTY = ("FAIL", "ERROR")


def verdict_on(op, sample, order=1, **options):
    """Return the `Verdict` on an op's gradient at a sample; of order 2 on the gradient of that, and so on.

    `options` are those of `check`.
    """
    function, arguments = function_of(op, sample)
    for _ in range(order - 1):
        function, arguments = gradient_function(function, arguments)
    return check(function, arguments, **options)


def argument_name(op, sample, position) -> str | None:
    """Return the name of the argument that a verdict is about; those of higher orders are gradients of outputs."""
    if position is None:
        return None
    names, count = [*op.parameters[: len(sample.args)], *sample.kwargs], len(sample.args) + len(sample.kwargs)
    return "grad_output" if position >= count else names[position] if len(names) == count else str(position)


def judge(name: str, second: bool = True, fast: bool = False) -> list[dict]:
    """Check an op with each of its samples, to first and second order; return one row for each check.

    `status` is that of `plugrad.testing.check`, "REFUSED" when the gradient says that it is not implemented, "ERROR"
    when anything else was raised, or "NO SAMPLES".
    """
    op = registry.op(name)
    try:
        samples = [sample for sample in samples_of(op) if leaves(sample)]
    except Exception as error:  # the author's generator of samples
        return [_row(op, 1, "samples", "ERROR", message=describe(error))]
    samples = [sample for sample in samples if _returns_tensors(op, sample)]
    rows = [_judged(op, sample, order, fast) for sample in samples for order in (1, 2)[: 1 + second]]
    return rows or [_row(op, 1, None, "NO SAMPLES")]


def _returns_tensors(op, sample) -> bool:
    """Whether there is a tensor in what a call returns: `equal` gives a bool."""
    try:
        return bool(tensors_in(call(op, sample)))
    except Exception:  # reported when the sample is judged
        return True


def _judged(op, sample, order, fast) -> dict:
    try:
        verdict = verdict_on(op, sample, order, fast_mode=fast)
    except NotImplementedError as error:
        return _row(op, order, sample, "REFUSED", message=describe(error))
    except Exception as error:  # whatever an op raises where it should work is a finding
        return _row(op, order, sample, "ERROR", message=describe(error))
    return _row(op, order, sample, verdict.status, verdict)


def _row(op, order, sample, status, verdict=None, message="") -> dict:
    row = {"op": op.qualname, "order": order, "sample": None if sample is None else str(sample), "status": status}
    if verdict is None:
        return {**row, "input": None, "element": None, "numeric": None, "analytic": None, "message": message}
    facts = {name: getattr(verdict, name) for name in ("element", "numeric", "analytic")}
    told = {name: None if value is None else str(value) for name, value in facts.items()}
    return {**row, "input": argument_name(op, sample, verdict.input), **told, "message": verdict.message}


def cost(name: str) -> int:
    """Return about how much there is to measure for an op: the number of elements to differentiate by."""
    try:
        return 1 + sum(t.numel() for sample in samples_of(registry.op(name)) for t in leaves(sample))
    except Exception:  # the author's generator of samples; `judge` reports what it raised
        return 1


def judge_all(names, second=True, fast=False, jobs=1):
    """Yield (name, rows) of each op as it is finished, in as many processes; the largest come first there."""
    order = sorted(names, key=cost, reverse=True) if jobs > 1 else names
    for (name, *_), rows in processes.run(judge, [[(name, second, fast)] for name in order], jobs):
        if isinstance(rows, processes.Lost):
            rows = [_row(registry.op(name), 1, None, "ERROR", message=rows.reason)]
        yield name, rows
