"""Check the gradient checker: which wrong gradients of all registered ops it catches, and which right ones it blames.

    python benchmarks/gradcheck_corpus.py [--ops sin mul ...] [--seeds 20] [-j 2] [--order 1 2] [--rivals 50]
                                          [--only mutants|alarms] [--faults "zero" ...] [--misses FILE]

The first table: wrong gradients made by `plugrad.testing.gradients.mutations`, in float64, by the way in which they
are wrong. A cell is the share that got the verdict FAIL. Mutants whose gradient is the right one at their sample
("equivalent"), or whose backward raises ("stillborn"), prove nothing: they are counted, and left out. PyTorch's and
JAX's checkers, where they are installed, judge the same function and the same gradient numbers: a function of theirs
calls plugrad in its forward and its backward. They are slow, so they see the first sample of `--rivals` ops.
PyTorch's default mode would need a Jacobian of 20,000 x 20,000, and JAX knows no memory layouts: no cell.

The second table: right gradients, at `--seeds` samples of random values each, and how many got which verdict.
"""

from __future__ import annotations

import argparse
import collections
import functools
import json
import multiprocessing
import sys
import warnings

import numpy

import plugrad
from plugrad import registry
from plugrad.testing import check, samples_of
from plugrad.testing.calls import function_of
from plugrad.testing.gradients.checker import gradient_function
from plugrad.testing.gradients.mutations import FAULTS, Mutant, mutants
from plugrad.testing.gradients.of_ops import cost
from plugrad.testing.tensors import is_float, map_tensors, tensors_in

OURS = ("thorough", "fast")
RIVALS = ("torch", "torch fast", "jax")
DTYPES = ("float64", "float32", "float16")


# -------------------------------------------------------------------------------------------------------- rivals


def leaves_of(arguments) -> list:
    leaves = {id(t): t for t in tensors_in(arguments) if t.requires_grad and is_float(t)}
    return list(leaves.values())


class Bridge:
    """A function of plugrad on NumPy arrays: its values, and the gradient that its backward gives."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments
        self.leaves = leaves_of(arguments)
        self.arrays = [t.detach().numpy() for t in self.leaves]

    def _call(self, arrays):
        fresh = [plugrad.from_numpy(array).requires_grad_() for array in arrays]
        stand_ins = {id(t): f for t, f in zip(self.leaves, fresh, strict=True)}
        results = tensors_in(self.function(*map_tensors(self.arguments, lambda t: stand_ins.get(id(t), t))))
        return fresh, [y for y in results if is_float(y)]

    def values(self, *arrays):
        with numpy.errstate(all="ignore"):
            return tuple(y.detach().numpy().copy() for y in self._call(arrays)[1])

    def pull(self, arrays, cotangents):
        with numpy.errstate(all="ignore"):
            fresh, outputs = self._call(arrays)
            pairs = [(y, plugrad.from_numpy(g)) for y, g in zip(outputs, cotangents, strict=True) if y.requires_grad]
            if not pairs:
                return tuple(numpy.zeros_like(array) for array in arrays)
            ys, gs = map(list, zip(*pairs, strict=True))
            grads = plugrad.autograd.grad(ys, fresh, gs, allow_unused=True)
        return tuple(numpy.zeros_like(a) if g is None else g.numpy() for a, g in zip(arrays, grads, strict=True))


def torch_passes(bridge, fast_mode) -> bool:
    """Whether PyTorch's gradcheck, with its defaults, passes the gradient."""
    import torch

    class Called(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*xs)
            return tuple(torch.from_numpy(y) for y in bridge.values(*(x.numpy() for x in xs)))

        @staticmethod
        def backward(ctx, *gs):
            arrays = [x.detach().numpy() for x in ctx.saved_tensors]
            return tuple(torch.from_numpy(numpy.array(g)) for g in bridge.pull(arrays, [g.numpy() for g in gs]))

    inputs = [torch.from_numpy(array).requires_grad_() for array in bridge.arrays]
    return torch.autograd.gradcheck(Called.apply, inputs, raise_exception=False, fast_mode=fast_mode)


def jax_passes(bridge) -> bool:
    """Whether JAX's check_grads, reverse mode, first order, with its defaults, passes the gradient."""
    import jax
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)
    described = [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in bridge.values(*bridge.arrays)]
    inputs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in bridge.arrays]

    @jax.custom_vjp
    def function(*xs):
        return jax.pure_callback(lambda *a: bridge.values(*map(numpy.array, a)), tuple(described), *xs)

    def backward(xs, gs):
        def pull(arrays, cotangents):
            return bridge.pull([*map(numpy.array, arrays)], [*map(numpy.array, cotangents)])

        return jax.pure_callback(pull, tuple(inputs), xs, gs)

    function.defvjp(lambda *xs: (function(*xs), xs), backward)
    try:
        check_grads(function, tuple(map(numpy.ascontiguousarray, bridge.arrays)), order=1, modes=["rev"])
    except AssertionError:
        return False
    return True


def rival_verdicts(function, arguments, fault="") -> dict:
    """Return what the others say that are installed and can say something: whether each passes the gradient."""
    if any(t.numel() == 0 for t in leaves_of(arguments)):
        return {}
    bridge, verdicts = Bridge(function, arguments), {}
    for column, judge, excluded in (
        ("torch", functools.partial(torch_passes, fast_mode=False), "20,000"),
        ("torch fast", functools.partial(torch_passes, fast_mode=True), None),
        ("jax", jax_passes, "contiguous"),
    ):
        if excluded is not None and excluded in fault:
            continue
        try:
            verdicts[column] = judge(bridge)
        except ModuleNotFoundError:
            continue
        except Exception as error:  # of checkers that raise at what they cannot handle (nan, another shape)
            verdicts[column] = type(error).__name__
    return verdicts


# -------------------------------------------------------------------------------------------------------- judging


def judge_mutants(name, orders, rivals, faults) -> tuple:
    """Return counts by (fault, column, verdict) for the mutants of an op, and a row for each of ours that got away."""
    counts, misses = collections.Counter(), []
    op = registry.op(name)
    for order in orders:
        try:
            for mutant in mutants(op, order=order, faults=faults):
                _judge_mutant(mutant, order, rivals, counts, misses)
        except NotImplementedError:  # the op says that its gradient is not implemented
            counts["", "ops refused", order] += 1
    return counts, misses


def _judge_mutant(mutant: Mutant, order, rivals, counts, misses):
    try:
        equivalent = mutant.equivalent()
    except Exception:  # a dropped term may leave a formula that raises
        counts[mutant.fault, "stillborn", ""] += 1
        return
    counts[mutant.fault, "equivalent" if equivalent else "mutants", ""] += 1
    if equivalent:
        return
    for column in OURS:
        verdict = check(mutant.function, mutant.arguments, fast_mode=column == "fast")
        counts[mutant.fault, column, verdict.status] += 1
        if verdict.status != "FAIL":
            misses.append((str(mutant), order, str(mutant.place), column, repr(verdict)))
    if order == 1 and rivals and mutant.number == 0:
        for column, passes in rival_verdicts(mutant.function, mutant.arguments, mutant.fault).items():
            counts[mutant.fault, column, "PASS" if passes is True else "FAIL"] += 1


def judge_right(name, orders, seeds, rivals, dtype) -> tuple:
    """Return counts by (dtype, column, verdict) for right gradients of an op, and a row for each other than PASS."""
    counts, alarms = collections.Counter(), []
    op = registry.op(name)
    for seed in range(seeds):
        for number, (order, prepared) in enumerate(_prepared(op, dtype, seed, orders, counts)):
            for column in OURS:
                try:
                    verdict = check(*prepared, fast_mode=column == "fast")
                except NotImplementedError:
                    counts[dtype, column, "not implemented"] += 1
                    continue
                except Exception as error:  # told as an alarm: the others go on
                    counts[dtype, column, "ERROR"] += 1
                    alarms.append((name, dtype, seed, order, column, "ERROR", f"{type(error).__name__}: {error}"))
                    continue
                counts[dtype, column, verdict.status] += 1
                if verdict.status != "PASS":
                    alarms.append((name, dtype, seed, order, column, verdict.status, verdict.message))
            if rivals and seed == number == 0 and dtype != "float16":
                for column, passes in rival_verdicts(*prepared).items():
                    counts[dtype, column, {True: "PASS", False: "FAIL"}.get(passes, passes)] += 1
    return counts, alarms


def _prepared(op, dtype, seed, orders, counts):
    """Yield (order, what to check) for the samples of an op that take a dtype."""
    try:
        samples = samples_of(op, getattr(plugrad, dtype), seed=seed)
    except Exception as error:  # an op may call another in its samples that refuses the dtype
        counts[dtype, "", f"refuses the dtype ({type(error).__name__})"] += 1
        return
    for order in orders:
        for sample in samples:
            if not leaves_of((sample.args, sample.kwargs)):
                continue
            prepared = function_of(op, sample)
            try:
                if not tensors_in(prepared[0](*prepared[1])):  # `equal` gives a bool
                    continue
                yield order, prepared if order == 1 else gradient_function(*prepared)
            except NotImplementedError:
                counts[dtype, "", "not implemented"] += 1
            except (RuntimeError, TypeError, KeyError) as error:
                if dtype == "float64":
                    raise
                counts[dtype, "", f"refuses the dtype ({type(error).__name__})"] += 1


def _judge(job):
    function, name, *arguments = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's about inputs that are not float64
        plugrad.manual_seed(0)
        return name, *globals()[function](name, *arguments)


# -------------------------------------------------------------------------------------------------------- tables


def run(jobs, processes, text):
    """Return the summed counts and all rows, with a progress bar on stderr."""
    from rich.console import Console
    from rich.progress import track

    counts, rows = collections.Counter(), []
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        results = pool.imap_unordered(_judge, jobs)
        shown = track(results, text, len(jobs), console=Console(stderr=True), disable=not sys.stderr.isatty())
        for _, counted, more in shown:
            counts += counted
            rows += more
    return counts, rows


def table_of_mutants(counts) -> str:
    columns = [c for c in (*OURS, *RIVALS) if any(column == c for _, column, _ in counts)]
    lines = [f"| wrong gradient | mutants | {' | '.join(columns)} | equivalent | stillborn |"]
    lines.append("|---" * (4 + len(columns)) + "|")
    for fault in (*FAULTS, "all"):
        of = collections.Counter()
        for (its, column, status), count in counts.items():
            if its and fault in (its, "all"):
                of[column, status] += count
        cells = []
        for column in columns:
            caught, judged = of[column, "FAIL"], sum(n for (c, _), n in of.items() if c == column)
            cells.append(f"{100 * caught / judged:.2f} %" + f" of {judged}" * (column in RIVALS) if judged else "-")
        lines.append(
            f"| {fault} | {of['mutants', '']} | {' | '.join(cells)} | {of['equivalent', '']} | {of['stillborn', '']} |"
        )
    return "\n".join(lines)


def table_of_alarms(counts) -> str:
    statuses = ("PASS", "FAIL", "NONDIFFERENTIABLE", "INCONCLUSIVE")
    lines = [f"| right gradients | checks | {' | '.join(statuses)} |", "|---" * 6 + "|"]
    for dtype in DTYPES:
        for column in (*OURS, *RIVALS):
            of = {status: n for (d, c, status), n in counts.items() if (d, c) == (dtype, column)}
            if of:
                cells = " | ".join(str(of.get(status, 0)) for status in statuses)
                lines.append(f"| {dtype}, {column} | {sum(of.values())} | {cells} |")
    other = {(d, s): n for (d, c, s), n in counts.items() if c == "" or s not in statuses}
    lines += ["", *(f"{dtype}: {count} {status}" for (dtype, status), count in sorted(other.items()))]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="+", help="names of ops; all registered ones by default")
    parser.add_argument("--seeds", type=int, default=20, help="samples of right gradients, per op and dtype")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="processes")
    parser.add_argument("--order", type=int, nargs="+", default=[1, 2], help="gradients, gradients of gradients")
    parser.add_argument("--rivals", type=int, default=50, help="how many ops PyTorch and JAX judge")
    parser.add_argument("--only", choices=("mutants", "alarms"))
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS, help="which ones; all by default")
    parser.add_argument("--misses", help="JSON file for the mutants that got away and the right gradients not passed")
    options = parser.parse_args()
    names = options.ops or [name for name, op in registry.ops.items() if op.differentiable]
    names.sort(key=cost, reverse=True)  # the largest first, so that none is left at the end
    judged_too = set(sorted(names)[:: max(len(names) // options.rivals, 1)]) if options.rivals else set()
    misses, bad = [], False
    if options.only != "alarms":
        jobs = [("judge_mutants", name, options.order, name in judged_too, options.faults) for name in names]
        counts, misses = run(jobs, options.jobs, "mutants")
        print(table_of_mutants(counts), "\n")
        for column in OURS:
            judged = sum(n for (fault, c, _), n in counts.items() if c == column)
            bad |= judged > 0 and sum(m[3] == column for m in misses) > 0.01 * judged
    if options.only != "mutants":
        jobs = [
            ("judge_right", name, options.order, options.seeds, name in judged_too, dtype)
            for name in names
            for dtype in DTYPES
        ]
        counts, alarms = run(jobs, options.jobs, "right gradients")
        print(table_of_alarms(counts))
        misses, bad = misses + alarms, bad or any(alarm[5] in ("FAIL", "ERROR") for alarm in alarms)
    if options.misses:
        with open(options.misses, "w") as file:
            json.dump(misses, file, indent=1)
    sys.exit(bad)


if __name__ == "__main__":
    main()
