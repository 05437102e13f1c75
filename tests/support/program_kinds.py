"""The kinds of difference that random programs may show: how they are entered, and asked about one that was seen.

`program_listed` and its neighbours have the kinds. Each function says of a shrunk program and the difference
that it shows whether it is of one kind; the first line of its docstring is the reason why that kind is meant. Where the
reason can be tested, the function runs the program again.
"""

from __future__ import annotations

import contextlib
import re
import warnings

from support.program_runs import Run, difference

KINDS: list = []
VIEW_REFUSED = (
    "its base or another view of its base has been modified inplace", "This view was created inside a custom Function",
)  # fmt: skip
HISTORY = ("requires_grad", "is_leaf", "grad_fn")  # the kinds of difference that tell of a tensor's history
FREED = "backward through the graph a second time"
EITHER_FIRST = ("setStorage", "too many indices", "out of bounds", "Dimension specified as 0", "single memory location",
                "more than 1 value per channel", "function that returns multiple views",
                "Expected reduction dim", "Dimension out of range (", "from the 'SparseCPU' backend",
                "must implement the jvp function", "functions with out=... arguments don't support automatic")


def listed(program: list[str], found, oracle, subject, watch=True) -> str | None:
    """Return why a difference that a shrunk program shows is meant, None if it is not."""
    for function in KINDS:
        try:
            meant = function(program, found, oracle, subject, watch)
        except (RuntimeError, LookupError, TypeError, AttributeError, SyntaxError):  # what it looks at is not there
            continue
        if meant:
            return function.__doc__.partition("\n")[0]
    return None


def goes(program, instead, oracle, subject, watch) -> bool:
    """Whether a difference goes when another program stands in the place of one, or leaves one that is listed."""
    if instead == program:
        return False
    left = difference(instead, oracle, subject, watch)
    return left is None or listed(instead, left, oracle, subject, watch) is not None


def kind(function):
    """Enter a kind of difference."""
    KINDS.append(function)
    return function


def lenient(found, *words) -> bool:
    """Whether only PyTorch raised an error, and one that says so."""
    return found.kind == "error" and found.actual is None and any(word in found.message for word in words)


def strict(found, *words) -> bool:
    """Whether only plugrad raised an error, and one that says so."""
    return found.kind == "error" and found.expected is None and any(word in found.message for word in words)


def matches(pattern: str, program) -> bool:
    """Whether a statement of the program has the pattern."""
    return any(re.search(pattern, statement) for statement in program)


@contextlib.contextmanager
def after(program, library):
    """Give the Run of a program that a library has carried out."""
    with warnings.catch_warnings(), Run(library) as run:
        warnings.simplefilter("ignore")
        for statement in program:
            run.step(statement)
        yield run
