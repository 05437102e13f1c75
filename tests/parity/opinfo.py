"""Run PyTorch's operator database against plugrad, PyTorch being the oracle.

    python tests/parity/opinfo.py [--only NAME ...] [--missing] [--limit-samples N] [--dtypes float32,int64]
                                  [--json FILE] [--jobs N] [--target MODULE]

Every entry of `op_db` that the target provides is called with PyTorch's sample inputs, in both libraries,
and the results are compared: structure, values, dtype, shape, first and second gradients, Tensor method,
in-place form, aliases, and the exceptions that bad inputs raise. Categories of failure:

    value dtype grad gradgrad   the op's result and gradients (an unexpected exception counts in its category)
    view                        the result shares memory with an argument, or does not, unlike PyTorch's
    method inplace name         the same through `x.op()`, through `x.op_()`; a spelling that does not exist
    error errclass              a bad input is accepted; it is refused with another class of exception
    refused                     NotImplementedError: honest, but not there
    setup timeout               the sample could not be built; a sample took too long
"""

from __future__ import annotations

import argparse
import concurrent.futures
import fnmatch
import functools
import importlib
import json
import multiprocessing
import sys
import warnings

import opinfo_binding as binding
import torch
from opinfo_checks import Checker, op_key
from opinfo_report import CATEGORIES, Report, brief

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64)


@functools.cache
def database() -> dict:
    """PyTorch's entries by key: the op's name, and `name:variant` where one op has several."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_utils
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.testing._internal.opinfo import core
    for module in (common_utils, core):  # else each list of samples reads the source of all callers for a unittest
        module.extract_test_fn = lambda: None
    return {op_key(op): op for op in op_db}


def select(target, patterns=()) -> tuple[list[str], list[str]]:
    """Keys that the target provides and keys that it lacks.

    Patterns are shell-style, against key, name or the name's last part; one fitting nothing is a ValueError.
    """
    provided: list[str] = []
    missing: list[str] = []
    unused = set(patterns)
    for key, op in database().items():
        names = (key, op.name, op.name.rpartition(".")[2])
        fitting = {pattern for pattern in patterns if any(fnmatch.fnmatch(name, pattern) for name in names)}
        unused -= fitting
        if fitting or not patterns:
            (provided if binding.provides(target, op) else missing).append(key)
    if unused:
        raise ValueError(f"no entry of PyTorch's op_db fits {', '.join(sorted(unused))}")
    return provided, missing


def run_op(key: str, target: str = "plugrad", *, dtypes=DTYPES, limit=None, seconds: float = 10.0) -> Report:
    """All checks of one entry. Warnings of either library are none of this command's business."""
    checker = Checker(database()[key], importlib.import_module(target), limit=limit, seconds=seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checker.run(dtypes)


def run_all(keys, run, jobs: int):
    """The reports of `keys` in order, from `jobs` processes."""
    if jobs == 1:
        yield from map(run, keys)
        return
    torch.set_num_threads(1)
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
        yield from pool.map(run, keys)


def print_report(report: Report) -> None:
    counts = " ".join(f"{name}:{report.failed[name]}" for name in CATEGORIES if name in report.failed)
    print(f"{report.key:44} {report.clean:5}/{report.samples:<5} {counts or 'ok'}")
    for category in CATEGORIES:
        if category in report.messages:
            print(f"    {category}: {report.messages[category]}")
    sys.stdout.flush()


def print_summary(reports: list[Report], missing: int) -> None:
    clean = sum(not report.failed for report in reports)
    samples = sum(report.samples for report in reports)
    good = sum(report.clean for report in reports)
    skipped: dict[str, int] = {}
    for report in reports:
        for reason, count in report.skipped.items():
            reason = brief(reason, 90)
            skipped[reason] = skipped.get(reason, 0) + count
    for reason, count in sorted(skipped.items(), key=lambda item: -item[1]):
        print(f"skipped {count}: {reason}")
    failing = {name: sum(name in report.failed for report in reports) for name in CATEGORIES}
    print(
        "ops failing by category:",
        " ".join(f"{name}:{count}" for name, count in failing.items() if count) or "none",
    )
    print(
        f"{clean} of {len(reports)} provided entries clean, {good} of {samples} samples clean, "
        f"{missing} entries missing"
    )


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", default=(), metavar="NAME", help="op names or patterns (`linalg.*`)"
    )
    parser.add_argument(
        "--missing", action="store_true", help="list the entries the target lacks, run nothing"
    )
    parser.add_argument("--failed", action="store_true", help="print only entries with a failure")
    parser.add_argument("--json", metavar="FILE", help="write all reports there")
    parser.add_argument("--limit-samples", type=int, metavar="N", help="at most N samples per op and dtype")
    parser.add_argument("--dtypes", default=",".join(str(dtype).removeprefix("torch.") for dtype in DTYPES))
    parser.add_argument("--seconds", type=float, default=10.0, help="time limit of a sample")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--target", default="plugrad", metavar="MODULE", help="the library to test")
    return parser.parse_args(arguments)


def main(arguments=None) -> int:
    options = parse_arguments(arguments)
    provided, missing = select(importlib.import_module(options.target), options.only)
    if options.missing:
        print(*sorted({database()[key].name for key in missing}), sep="\n")
        print(f"{len(missing)} entries missing, {len(provided)} provided")
        return 0
    dtypes = tuple(getattr(torch, name) for name in options.dtypes.split(","))
    run = functools.partial(
        run_op, target=options.target, dtypes=dtypes, limit=options.limit_samples, seconds=options.seconds
    )
    reports = []
    for report in run_all(provided, run, options.jobs):
        reports.append(report)
        if report.failed or not options.failed:
            print_report(report)
    print_summary(reports, len(missing))
    if options.json:
        with open(options.json, "w") as file:
            json.dump(
                {"reports": [report.as_dict() for report in reports], "missing": missing}, file, indent=1
            )
    return any(report.failed for report in reports)


if __name__ == "__main__":
    sys.exit(main())
