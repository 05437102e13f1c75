"""`torch.utils.benchmark`: how long statements take, as measurements that can be compared in a table."""

from __future__ import annotations

import dataclasses
import enum
import math
import statistics
import textwrap
import timeit
from time import perf_counter as timer

import plugrad
from plugrad import absent
from plugrad.extend.blocks import Restoring

__all__ = [
    "Colorize", "Compare", "Language", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit",
    "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip

__getattr__ = absent.attributes("utils.benchmark")

_UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3), "s": ("second", 1.0)}
_FIGURES = 4  # more are never significant
_RESOLUTION = 25e-9  # seconds that a clock leaves open


class Language(enum.Enum):
    """What a statement is written in; here it is always Python."""

    PYTHON, CPP = range(2)


def ordered_unique(elements) -> list:
    """Return the elements, each where it comes first."""
    return list(dict.fromkeys(elements))


def select_unit(t: float) -> tuple:
    """Return the name of the unit in which a time in seconds is best written, and its seconds.

    >>> select_unit(3e-5)
    ('us', 1e-06)
    """
    return next((unit, seconds) for unit, (_, seconds) in reversed(_UNITS.items()) if t >= seconds or unit == "ns")


def unit_to_english(u: str) -> str:
    """Return the word of a unit: "microsecond" of "us"."""
    return _UNITS[u][0]


def trim_sigfig(x: float, n: int) -> float:
    """Return a number rounded to n significant figures."""
    return round(x, n - _digits(x)) if x else x


def _digits(x) -> int:
    return math.ceil(math.log10(x)) if x else 0


class set_torch_threads(Restoring):
    """A context in which ops may use n threads."""

    def __init__(self, n: int):
        self._n = n

    def begin(self):
        self._before = plugrad.get_num_threads()
        plugrad.set_num_threads(self._n)

    def end(self):
        plugrad.set_num_threads(self._before)


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What is measured: the statement, and the words for it in a table."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label with the sub-label, or the statement where there is no label."""
        if self.label is None:
            return self.stmt.replace("\n", "\\n") if self.sub_label is None else self.sub_label
        return self.label + (f": {self.sub_label}" if self.sub_label else "")

    def setup_str(self) -> str:
        """Return what was run beforehand, as a line or as an indented block."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Return title, description and setup in lines."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join(part for part in parts if part)


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """Times of a statement.

    Args:
        number_per_run: how often the statement ran for one of the times.
        raw_times: seconds, each of `number_per_run` runs.
        task_spec: what was measured.
        metadata: a dict of whatever the user adds.

    `times` are the seconds of one run; `median`, `mean` and `iqr` are of these.
    """

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: dict | None = None

    def __getattr__(self, name):
        if name in ("label", "sub_label", "description", "num_threads", "stmt", "setup", "title"):
            return getattr(self.task_spec, name)
        raise AttributeError(f"'Measurement' object has no attribute {name!r}")

    @property
    def times(self) -> list:
        """Seconds of one run, in the order in which they were measured."""
        return [t / self.number_per_run for t in self.raw_times]

    def _need_times(self):
        if not self.raw_times:
            raise ValueError("measurement has no times")
        return sorted(self.times)

    @property
    def median(self) -> float:
        """The median of the times, in seconds."""
        return statistics.median(self._need_times())

    @property
    def mean(self) -> float:
        """The mean of the times, in seconds."""
        return statistics.fmean(self._need_times())

    @property
    def _quartiles(self):
        times = self._need_times()
        return (times[0],) * 3 if len(times) == 1 else statistics.quantiles(times, n=4, method="inclusive")

    @property
    def iqr(self) -> float:
        """The distance of the quartiles, in seconds."""
        low, _, high = self._quartiles
        return high - low

    @property
    def significant_figures(self) -> int:
        """How many figures of the median the spread of the times between the quartiles leaves certain, 1 to 4."""
        times = self._need_times()
        middle = times[len(times) // 4 : math.ceil(3 * len(times) / 4)]
        interval = max(1.645 * statistics.pstdev(middle) / len(middle) ** 0.5, _RESOLUTION)
        return max(min(math.floor(-math.log10(interval / self.median)), _FIGURES), 1)

    @property
    def has_warnings(self) -> bool:
        """Whether the times spread by more than a tenth of their median."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Return whether the quartiles are closer than this part of the median."""
        return self.iqr / self.median < threshold

    @property
    def env(self) -> str:
        """The user's name of the surroundings."""
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        """What a table calls its row."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self):
        unit, scale = select_unit(self.median)
        count, low, high = len(self.raw_times), self._quartiles[0] / scale, self._quartiles[2] / scale
        if count == 1:
            lines = [f"  {self.median / scale:.2f} {unit}"]
        else:
            lines = [f"  Median: {self.median / scale:.2f} {unit}"]
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} ({low:.2f} to {high:.2f})")
        runs, threads = "per measurement" if count > 1 else "", self.num_threads
        lines.append(
            f"  {count} measurement{'s' * (count > 1)}, {self.number_per_run} runs {runs}, "
            f"{threads} thread{'s' * (threads > 1)}"
        )
        if self.has_warnings:
            share = f"{100 * self.iqr / self.median:.1f}%"
            lines.append(f"  WARNING: Interquartile range is {share} of the median measurement.")
            lines.append("           The machine did other things meanwhile: measure again, or longer.")
        return "\n".join([object.__repr__(self), self.task_spec.summarize(), *lines])

    @staticmethod
    def merge(measurements) -> list:
        """Return one measurement for each task, of all its times; those of other runs per time stay apart."""
        groups: dict = {}
        for one in measurements:
            groups.setdefault((one.task_spec, one.number_per_run), []).append(one)
        return [
            Measurement(number, [t for one in group for t in one.raw_times], spec)
            for (spec, number), group in groups.items()
        ]


class Timer:
    """Measures a statement.

    Args:
        stmt, setup, globals, timer: as of `timeit.Timer`.
        global_setup: code for statements in C++, of which there are none.
        label, sub_label, description, env: words by which `Compare` puts it into tables, rows and columns.
        num_threads: how many threads ops may use meanwhile.
        language: "python"; there is no compiler for another one, and NotImplementedError says so.

    >>> measured = Timer("x + 1", globals={"x": 1}).timeit(10)
    >>> measured.number_per_run, len(measured.times)
    (10, 1)
    """

    def __init__(
        self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None, label=None, sub_label=None,
        description=None, env=None, num_threads=1, language=Language.PYTHON,
    ):  # fmt: skip
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(f"statements of language {language!r} need a compiler; write them in Python")
        if global_setup:
            raise ValueError("global_setup is only used for C++, and the statement is Python; use setup")
        stmt, setup = (textwrap.dedent(code).strip("\n").rstrip() for code in (stmt, setup))
        self._timer = timeit.Timer(stmt, setup, timer, {"torch": plugrad, **(globals or {})})
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _time(self, number):
        with set_torch_threads(self._task_spec.num_threads):
            return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number, times):
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """Return one time of so many runs, after a few to warm up."""
        self._time(max(number // 100, 2))
        return self._measured(number, [self._time(number)])

    def repeat(self, repeat: int = -1, number: int = -1):
        """Refuse: a single list of times has no place for what a measurement says."""
        raise NotImplementedError("write timer.blocked_autorange(), or several timer.timeit(number)")

    def autorange(self, callback=None):
        """Refuse: a number of runs is found by `blocked_autorange`."""
        raise NotImplementedError("write timer.blocked_autorange()")

    def _block(self, shortest):
        """Return a number of runs that together take `shortest` seconds at least."""
        number = 1
        while (taken := self._time(number)) < shortest:
            number *= 10 if taken < shortest / 10 else 2
        return number

    def blocked_autorange(self, callback=None, min_run_time: float = 0.2) -> Measurement:
        """Return times of blocks of runs, which take at least `min_run_time` seconds together.

        `callback(number, seconds)`, if given, is told of each block.
        """
        number, times, total = self._block(min_run_time / 1000), [], 0.0
        while total < min_run_time:
            times.append(self._time(number))
            total += times[-1]
            if callback is not None:
                callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(
        self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0, callback=None
    ) -> Measurement:
        """Return times of blocks of runs, as many as bring the quartiles as close together as `threshold` says.

        Between `min_run_time` and `max_run_time` seconds are spent.
        """
        number, times, total, checked = self._block(min_run_time / 10), [], 0.0, 4
        while total < max_run_time:
            times.append(self._time(number))
            total += times[-1]
            if callback is not None:
                callback(number, times[-1])
            if len(times) >= checked and total >= min_run_time:
                if self._measured(number, times).meets_confidence(threshold):
                    break
                checked = 3 * len(times) // 2  # so that looking at all of them costs little
        return self._measured(number, times)

    def collect_callgrind(self, number=100, *, repeats=None, collect_baseline=True, retain_out_file=False):
        """Refuse: instructions are counted by valgrind in PyTorch's own C++ code."""
        raise NotImplementedError("instructions are counted in compiled code; time it, or see plugrad.op_hooks")


class Colorize(enum.Enum):
    """Among which cells of a table the best is coloured."""

    NONE, COLUMNWISE, ROWWISE = "none", "columnwise", "rowwise"


_BEST, _GOOD, _BAD, _PLAIN = "\033[92m\033[1m", "\033[92m", "\033[91m", "\033[0m"


class Compare:
    """A table of measurements: one for each label, with a row for each sub-label, a column for each description.

    >>> spec = TaskSpec("x + 1", "pass", label="sums", sub_label="one", description="here")
    >>> Compare([Measurement(1, [2e-6], spec)]).print()  # doctest: +NORMALIZE_WHITESPACE
    [----- sums -----]
               |  here
    1 threads: -------
          one  |  2.0
    <BLANKLINE>
    Times are in microseconds (us).
    <BLANKLINE>
    """

    def __init__(self, results):
        self._results: list = []
        self.extend_results(results)
        self._trim, self._colorize, self._highlight = False, Colorize.NONE, False

    def extend_results(self, results) -> None:
        """Add measurements; ValueError for anything else."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(result)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Round the times to the figures that are certain."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colour the times by how they compare to the best of their column, or row."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark the times that spread widely by (! 12%)."""
        self._highlight = True

    def print(self) -> None:
        """Print the tables."""
        print(self)

    def __str__(self):
        merged = Measurement.merge(self._results)
        labels = ordered_unique(one.label for one in merged)
        return "\n".join(self._table(label, [one for one in merged if one.label == label]) for label in labels)

    def _table(self, label, results):
        unit, scale = select_unit(min(one.median for one in results))
        names = ordered_unique(one.description for one in results)
        columns = [self._column([one for one in results if one.description == name], scale) for name in names]
        width = max(len(one.as_row_name) for one in results)
        titles = [(name or "").center(size) for name, (*_, size) in zip(names, columns)]
        lines = ["  |  ".join([" " * (width + 6), *titles])]
        total = len(lines[0])
        for threads in sorted({one.num_threads for one in results}):
            lines.append(f"{threads} threads: ".ljust(total, "-"))
            for row in ordered_unique((o.env, o.as_row_name) for o in results if o.num_threads == threads):
                cells = [self._cell(results, names[k], threads, row, columns[k], scale) for k in range(len(names))]
                lines.append("  |  ".join([f"      {row[1]:<{width}}", *cells]))
        head = f" {label or ''} "
        footer = f"Times are in {unit_to_english(unit)}s ({unit}).\n"
        return "\n".join([f"[{head.center(total - 2, '-')}]", *lines, "", footer])

    def _column(self, results, scale):
        """Return the decimals, the width of the numbers and that of the column of some measurements."""
        before = [max(_digits(one.median / scale), 1) for one in results]
        spare = [max(one.significant_figures - digits, 0) for one, digits in zip(results, before)]
        decimals = min(spare) if self._trim else 1
        size = max(before) + (decimals + 1 if decimals else 0) + 8 * self._highlight
        return decimals, size, max(size, len(results[0].description or ""))

    def _cell(self, results, name, threads, row, column, scale):
        decimals, digits, size = column
        place = name, threads, *row
        same = [o for o in results if (o.description, o.num_threads, o.env, o.as_row_name) == place]
        if not same:
            return " " * size
        one = same[0]
        value = one.median / scale
        text = f"{trim_sigfig(value, one.significant_figures) if self._trim else value:.{decimals}f}"
        if self._highlight and one.has_warnings:
            text = f"(! {100 * one.iqr / one.median:.0f}%) {text}"
        text = text.rjust(digits).center(size)
        rowwise = self._colorize is Colorize.ROWWISE
        if self._colorize is not Colorize.NONE:
            beside = [o for o in results if o.num_threads == threads]
            others = [o for o in beside if (o.as_row_name == row[1] if rowwise else o.description == name)]
            ratio = one.median / min(o.median for o in others)
            text = f"{_BEST if ratio == 1 else _GOOD if ratio < 1.1 else '' if ratio < 1.5 else _BAD}{text}{_PLAIN}"
        return text
