"""Checking the gradients of ops with their samples: the function behind `plugrad gradcheck`."""

from __future__ import annotations

FAULTY = ("FAIL", "ERROR")


def judge(name: str, second: bool = True, fast: bool = False) -> list[dict]:
    """Check an op with each of its samples, to first and second order; return one row for each check.

    `status` is that of `plugrad.testing.check`, "REFUSED" when the gradient says that it is not implemented, "ERROR"
    when anything else was raised, or "NO SAMPLES".
    """
    from plugrad import registry
    from plugrad.testing import samples_of
    from plugrad.testing.structure import tensors_in

    op = registry.op(name)
    try:
        samples = [s for s in samples_of(op) if any(t.requires_grad for t in tensors_in((s.args, s.kwargs)))]
    except Exception as error:  # the author's generator of samples
        return [_row(op, 1, "samples", "ERROR", message=_described(error))]
    samples = [sample for sample in samples if _gives_tensors(op, sample)]
    rows = [_judge_one(op, sample, order, fast) for sample in samples for order in (1, 2)[: 1 + second]]
    return rows or [_row(op, 1, None, "NO SAMPLES")]


def _gives_tensors(op, sample) -> bool:
    """Whether there is a tensor in what a call returns: `equal` gives a bool."""
    from plugrad.testing.calls import call
    from plugrad.testing.structure import tensors_in

    try:
        return bool(tensors_in(call(op, sample)))
    except Exception:  # told where it is judged
        return True


def _judge_one(op, sample, order, fast) -> dict:
    from plugrad.testing import check
    from plugrad.testing.gradcheck import gradient_function
    from plugrad.testing.subject import function_of

    try:
        prepared = function_of(op, sample)
        if order == 2:
            prepared = gradient_function(*prepared)
        verdict = check(*prepared, fast_mode=fast)
    except NotImplementedError as error:
        return _row(op, order, sample, "REFUSED", message=_described(error))
    except Exception as error:  # whatever an op raises where it should work is a finding
        return _row(op, order, sample, "ERROR", message=_described(error))
    return _row(op, order, sample, verdict.status, verdict)


def _argument(op, sample, position) -> str | None:
    """Return the name of an argument by its position; behind them come the gradients of the outputs."""
    if position is None:
        return None
    names = [*op.parameters[: len(sample.args)], *sample.kwargs]
    count = len(sample.args) + len(sample.kwargs)
    return names[position] if position < len(names) == count else "grad_output" if position >= count else str(position)


def _described(error) -> str:
    from plugrad.registry.loader import describe

    return describe(error)


def _row(op, order, sample, status, verdict=None, message="") -> dict:
    return {
        "op": op.qualname,
        "order": order,
        "sample": None if sample is None else str(sample),
        "status": status,
        "input": None if verdict is None else _argument(op, sample, verdict.input),
        "element": None if verdict is None or verdict.element is None else str(verdict.element),
        "numeric": None if verdict is None or verdict.numeric is None else str(verdict.numeric),
        "analytic": None if verdict is None or verdict.analytic is None else str(verdict.analytic),
        "message": message if verdict is None else verdict.message,
    }


def cost(name: str) -> int:
    """Return about how much there is to measure for an op: the number of elements to differentiate by."""
    from plugrad import registry
    from plugrad.testing import samples_of
    from plugrad.testing.structure import tensors_in

    try:
        tensors = [t for s in samples_of(registry.op(name)) for t in tensors_in((s.args, s.kwargs))]
    except Exception:  # the author's generator of samples; `judge` tells what it raised
        return 1
    return 1 + sum(t.numel() for t in tensors if t.requires_grad)


def judge_all(names, second=True, fast=False, jobs=1):
    """Yield (number, rows) of each op as it is finished, `number` being its place among the names.

    With `jobs` > 1 they are checked in as many processes, the largest first, so that none is left at the end.
    """
    if jobs <= 1 or len(names) < 2:
        for number, name in enumerate(names):
            yield number, judge(name, second, fast)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    # Spawned, not forked: a fork of a process with threads (BLAS has some) may hang.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        order = sorted(range(len(names)), key=lambda number: -cost(names[number]))
        waiting = {pool.submit(judge, names[number], second, fast): number for number in order}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
