"""Random programs about tensors and autograd: lists of statements about a module `T`; the same seed, the same program.

    PYTHONPATH=tests python -m support.random_programs --programs 20000 --seed 1 [--device cuda]

writes that many programs, runs each on PyTorch and on plugrad, and prints each class of difference with the smallest
program that shows it. A program is written while it runs on PyTorch, so that most statements suit the tensors that
there are; some do not, since errors are compared, too. On another device, where plugrad makes its tensors then,
programs are left out that draw random numbers, or say where a tensor is. With CUPY_ON_CPU=all in the environment
`cuda` is the stand-in for a GPU.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import multiprocessing
import os
import random
import re
import sys
import textwrap
import time
import warnings

from support import (  # noqa: F401
    program_areas,
    program_further,
    program_layouts,
    program_listed,
    program_listed_further,
    program_modules,
    program_ops,
    program_transforms,
)
from support.program_kinds import listed
from support.program_runs import SEEN, SEEN_OF_VARIABLES, Run, difference, held, shrink
from support.program_statements import KINDS, WEIGHTS

REGIONS = (
    "T.no_grad()", "T.no_grad()", "T.enable_grad()", "T.set_grad_enabled(False)", "T.inference_mode()",
    "T.autograd.set_detect_anomaly(True)", "T.autograd.graph.save_on_cpu()",
    "T.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t)",
)  # fmt: skip


class Writer:
    """Writes one program, statement by statement, and runs it on the oracle meanwhile."""

    def __init__(self, seed: int, oracle):
        self.random = random.Random(seed)
        self.oracle, self.run = oracle, Run(oracle)
        self.statements: list[str] = []
        self.count = 0
        self.handles: list[str] = []
        self.region, self.left = "", 0  # what the next statements stand in, and how many they are

    def program(self) -> list[str]:
        """Return a new program."""
        with warnings.catch_warnings(), self.run:
            warnings.simplefilter("ignore")
            for _ in range(self.random.randint(1, 3)):
                self.add(KINDS["leaf"](self))
            for _ in range(self.random.randint(4, 16)):
                kind = self.random.choices(list(KINDS), WEIGHTS)[0]
                statement = KINDS[kind](self)
                if statement is not None:
                    self.add(self.in_region(statement))
            for statement in self.ending():
                self.add(statement)
        return self.statements

    def add(self, statement: str) -> None:
        """Append a statement, and carry it out."""
        self.run.step(statement)
        self.statements.append(statement)

    def in_region(self, statement: str) -> str:
        """Return the statement; seldom, it and some after it are inside of a region with another mode."""
        if not self.left:
            if self.random.random() > 0.06:
                return statement
            self.region, self.left = self.random.choice(REGIONS), self.random.choice((1, 1, 2, 4))
        self.left -= 1
        if re.search(r"\.(t|transpose|swapaxes|unsqueeze|squeeze)_\(", statement):  # a shape that no node knows of
            return statement
        if "inference" in self.region and re.search("requires_grad|copy|Parameter|backward|grad|detach_", statement):
            return statement
        return f"with {self.region}:\n{textwrap.indent(statement, '    ')}"

    def ending(self) -> list[str]:
        """Return the last statements: gradients of what requires grad."""
        tensors = [(name, t) for name, t in self.tensors().items() if not t.is_sparse]
        names = [name for name, t in tensors if held(t) and t.requires_grad and t.is_floating_point()]
        self.random.shuffle(names)
        return [f"{name}.sum().backward(retain_graph=True)" for name in names[:2]]

    # ---------------------------------------------------------------------------------------------- choices

    def tensors(self) -> dict:
        return self.run.tensors()

    def new(self, letter: str = "v") -> str:
        """Return a new variable's name."""
        self.count += 1
        return f"{letter}{self.count - 1}"

    def some(self, *choices):
        return self.random.choice(choices)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def number(self):
        return self.some(-1.5, -1.0, -0.5, 0.25, 0.5, 1.5, 2.0, 3.0, 2, -1, 0)

    def pick(self, condition=None) -> str | None:
        """Return the name of a tensor that meets a condition, rather a new one; None if there is none."""
        names = [
            name
            for name, t in self.tensors().items()
            if not t.is_sparse and held(t) and t.numel() <= 64 and t.ndim <= 4 and tame(t)
            if condition is None or condition(t)
        ]
        if not names:
            return None
        if self.chance(0.3):
            return self.some(*names)
        return names[-1 - min(int(self.random.expovariate(0.5)), len(names) - 1)]

    def floating(self, condition=None) -> str | None:
        return self.pick(lambda t: t.is_floating_point() and (condition is None or condition(t)))

    def requiring(self, condition=None) -> str | None:
        return self.pick(lambda t: t.requires_grad and (condition is None or condition(t)))

    def replaceable(self, name: str, other: str) -> bool:
        """Whether the data of a tensor can be replaced by another one's, and no view misses it."""
        tensor, new = self.tensor(name), self.tensor(other)
        return tensor.is_leaf and not tensor._is_view() and tensor.shape == new.shape and tensor.dtype == new.dtype

    def tensor(self, name: str):
        """Return the tensor with a name, which may be a module's parameter."""
        return eval(name, self.run.names)

    def shape(self, name: str) -> tuple:
        return tuple(self.tensor(name).shape)

    def dtype(self, name) -> str:
        return str(self.tensor(name).dtype) if isinstance(name, str) else ""

    def dim(self, name: str) -> int:
        """Return a dimension of a tensor; seldom one that it does not have."""
        ndim = len(self.shape(name))
        if self.chance(0.02):
            return ndim + 1
        return self.random.randrange(-ndim, ndim) if ndim else self.some(0, -1)


def tame(tensor) -> bool:
    """Whether a tensor's values are finite and small enough that rounding does not grow."""
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return True
    return bool((tensor.detach().abs() < 1e4).all())


def write(seed: int, oracle) -> list[str]:
    """Return the program of a seed."""
    return Writer(seed, oracle).program()


OF_THE_CPU = re.compile(r"rand|drop|bernoulli|normal_|uniform_|exponential_|geometric_|cauchy_|poisson|multinomial|"
                        r"T\.normal|distributions|nn\.|Module|cpu|numpy|sparse|share_memory|rrelu|device|"
                        r"\.scatter\(")  # to one place more than once: any may be the last
LACKING = {"KeyError": "801", "ImportError": "rocsolver"}  # what the stand-in for a GPU says of cuFFT and cuSOLVER


def examine(seed: int, oracle, subject, device="cpu"):
    """Return (why it is listed or None, shrunk program, difference) for the program of a seed; None if none differs."""
    program, watch = write(seed, oracle), seed % 2 == 0
    if device != "cpu" and OF_THE_CPU.search("\n".join(program)):
        return None
    found = difference(program, oracle, subject, watch)
    if found is None or "CUPY_ON_CPU" in os.environ and _is_lacking(found):
        return None
    small, found = shrink(program, found, oracle, subject, watch)
    return listed(small, found, oracle, subject, watch), small, found


def _is_lacking(found) -> bool:
    """Whether a difference is that the stand-in for a GPU has no such library."""
    told = LACKING.get(found.actual) if found.kind == "error" else None
    return told is not None and told in found.message


def _examine_all(seeds, to_parent, device) -> None:
    faulthandler.disable()  # PyTorch's crashes are expected
    if "CUPY_ON_CPU" in os.environ:
        import cupy_on_cpu

        cupy_on_cpu.load()
    import torch

    import plugrad

    plugrad.set_default_device(device)
    for seed in seeds:
        to_parent.send((seed, None))
        result = examine(seed, torch, plugrad, device)
        if result is not None:
            to_parent.send((seed, result))


def find(seeds, report=None, device="cpu") -> tuple[dict, list]:
    """Run the programs of some seeds in child processes, since PyTorch crashes on few of them.

    They are spawned: PyTorch's threads, which tests before this may have started, do not live on in a forked child.
    Returns the differences by class, a list of (seed, shrunk program, difference) for each, and the seeds that crashed.
    """
    classes: dict = collections.defaultdict(list)
    crashed, seeds = [], list(seeds)
    while seeds:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("spawn").Process(target=_examine_all, args=(seeds, theirs, device))
        child.start()
        theirs.close()
        last = seeds[0]
        with contextlib.suppress(EOFError):
            while True:
                last, result = ours.recv()
                if result is not None:
                    reason, small, found = result
                    key = ("listed", reason) if reason else (found.kind, class_of(small, found))
                    if not classes[key] and report is not None and not reason:
                        report(last, small, found)
                    classes[key].append((last, small, found))
        child.join()
        if child.exitcode == 0:
            break
        if child.exitcode > 0:
            raise RuntimeError(f"the program of seed {last} could not be examined")
        crashed.append(last)
        seeds = seeds[seeds.index(last) + 1 :]
    return classes, crashed


def class_of(program, found) -> str:
    """Return a rough name of a difference: the last statement with the names of variables and numbers taken out."""
    text = program[-1]
    text = re.sub(r"\bv\d+\b", "v", text)
    text = re.sub(r"-?\b\d+(\.\d+)?\b", "0", text)
    return f"{text} {found.expected if found.kind == 'error' else ''}"[:100]


def show(seed, program, found) -> None:
    print(f"# ---- seed {seed}: {found}", *program, sep="\n", end="\n\n", flush=True)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="support.random_programs", description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--ignore", nargs="*", default=[], help="what is not compared, such as grad_fn")
    parser.add_argument("--device", default="cpu", help="where plugrad makes its tensors")
    options = parser.parse_args(arguments)
    if options.device != "cpu":
        os.environ["PLUGRAD_CUDA_SYNC"] = "1"  # an index out of range is told by the statement, not by a later one
    for name in options.ignore:
        SEEN.pop(name, None), SEEN_OF_VARIABLES.pop(name, None)
    start = time.time()
    classes, crashed = find(range(options.seed, options.seed + options.programs), show, options.device)
    for (kind, name), cases in sorted(classes.items(), key=lambda item: -len(item[1])):
        print(f"{len(cases):6} {kind}: {name}  (seeds {[seed for seed, *_ in cases[:4]]})")
    unlisted = sum(len(cases) for (kind, _), cases in classes.items() if kind != "listed")
    print(f"{options.programs} programs, {unlisted} differ, {time.time() - start:.0f} s; PyTorch crashed on {crashed}")
    return 1 if unlisted else 0


if __name__ == "__main__":
    sys.exit(main())
