"""Calls with wrong arguments, in PyTorch and in plugrad: what is refused there must be refused here, and alike.

    python tests/parity/misuse.py --seed 3 --cases 5000 [--only sum] [--show lenient]

draws right calls (`misuse_calls`), spoils one or two of their arguments (`misuse_values`), and makes them in child
processes under a limit of time and memory. A case holds when both libraries give the same value, or errors of one type.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import io
import json
import os
import random
import re
import resource
import select
import signal
import sys
import tempfile
import warnings

import misuse_calls
import misuse_values
import torch
from misuse_reasons import FOR_LAYERS, MORE, errors_alike, is_internal
from opinfo_compare import Mismatch, compare
from opinfo_report import TimeLimit, time_limit

import plugrad

LIMIT = 5  # seconds of the processor for one call
SILENCE = 24 * LIMIT  # seconds by the clock, which may be others', after which a child that says nothing hangs
MEMORY = 12 << 30


class Case:
    """A right call with some arguments spoilt: `changes` are (place, source), the place a position or a name."""

    def __init__(self, call, changes):
        self.call, self.changes = call, changes

    def arguments(self, library):
        args, kwargs = self.call.arguments(library)
        names = {**misuse_values.NAMES, "T": library}
        for place, source in self.changes:
            if place == "drop":
                args = args[:-1]
                continue
            holder = kwargs if isinstance(place, str) else args
            old = holder.get(place) if isinstance(place, str) else args[place] if place < len(args) else None
            value = eval(source, names | {"x": old})
            if holder is args and place >= len(args):
                args.append(value)
            else:
                holder[place] = value
        return args, kwargs

    def __str__(self):
        spoilt = ", ".join(f"{place}: {source}" for place, source in self.changes)
        return f"{self.call.name} {shown(self.call)} {spoilt}"


def shown(call):
    """Return the arguments of the right call, in short."""

    def short(value):
        if isinstance(value, plugrad.Tensor):
            return f"{str(value.dtype)[6:]}{list(value.shape)}"
        if isinstance(value, (tuple, list)):
            return f"[{', '.join(map(short, value))}]"
        return value.text if isinstance(value, misuse_calls.Source) else repr(value)

    return "(" + ", ".join([*map(short, call.args), *(f"{k}={short(v)}" for k, v in call.kwargs.items())]) + ")"


class Cases:
    """The cases of one seed, each a function of its number."""

    def __init__(self, seed, only=None, parts=tuple(misuse_calls.PARTS)):
        self.by_name = collections.defaultdict(list)
        for call in (call for part in parts for call in misuse_calls.PARTS[part]()):
            if only is None or only in call.name:
                self.by_name[call.name].append(call)
        self.seed, self.names = seed, sorted(self.by_name)

    def case(self, number):
        draw = random.Random(f"{self.seed}:{number}")
        call = draw.choice(self.by_name[draw.choice(self.names)])
        return Case(call, [self.change(draw, call) for _ in range(1 if draw.random() < 0.85 else 2)])

    def change(self, draw, call):
        places = [*range(len(call.args)), *call.kwargs]
        chance = draw.random()
        if chance < 0.03 and call.args:
            return "drop", ""
        if chance < 0.08:
            return draw.choice((len(call.args), "unknown")), self.value(draw)
        if chance < 0.30:
            more = [name for name in misuse_calls.parameters_of(call)[len(call.args) :] if name not in call.kwargs]
            if more:
                return draw.choice(more), self.value(draw)
        place = draw.choice(places) if places else "unknown"
        old = call.args[place] if isinstance(place, int) else call.kwargs.get(place)
        is_self = place == 0 and call.name.startswith("Tensor.")
        if place == 0 and call.of_class:
            return draw.choice(places[1:] or ["unknown"]), self.value(draw)
        if is_self or isinstance(old, plugrad.Tensor) and draw.random() < 0.5:
            return place, draw.choice(misuse_values.SELVES if is_self else misuse_values.CHANGES)
        return place, self.value(draw)

    @staticmethod
    def value(draw):
        return draw.choice(draw.choice(misuse_values.POOLS))


# ---------------------------------------------------------------------------------------------------- one case


def outcome(case, library):
    """Return ("value", result), ("error", exception) or ("unmade", exception) if the arguments can't be made."""
    try:
        function = case.call.function(library)
        args, kwargs = case.arguments(library)
    except Exception as error:
        return "unmade", error
    try:
        with time_limit(LIMIT), contextlib.redirect_stdout(io.StringIO()):
            return "value", function(*args, **kwargs)
    except Exception as error:
        return "error", error


@functools.cache
def is_right(call) -> bool:
    """Whether both libraries do the same for a call that nothing was done to."""
    return judge(Case(call, []))[0] == "held"


def judge(case, judged_there=lambda: None):
    """Return (category, detail) of a case; in between it calls a function."""
    if case.changes and not is_right(case.call):
        return "unmade", "the right call differs"
    there = outcome(case, torch)
    if there[0] == "unmade":
        return "unmade", repr(there[1])[:200]
    judged_there()
    try:
        here = outcome(case, plugrad)
    except TimeLimit:
        return "hang", text(there)
    if here[0] == "unmade":
        return "unmade", repr(here[1])[:200]
    detail = f"{text(there)}  |  {text(here)}"
    if here[0] == "error":
        if errors_alike(there[1] if there[0] == "error" else None, here[1]):
            return "held", ""
        if is_internal(here[1]):
            return "internal", detail + where(here[1])
        if there[0] == "error":
            return ("held", "") if says_another(case, here[1]) else ("type", detail + where(here[1]))
        made = re.match(r"(stepped |scheduled )?optim\.|nn\.[A-Z]", case.call.name)
        if made and any(reason(None, here[1]) for reason in FOR_LAYERS):
            return "held", ""
        return "strict", detail + where(here[1])
    if there[0] == "error":
        return ("held", "") if any(reason(case, there[1]) for reason in MORE) else ("lenient", detail)
    return same(case, there[1], here[1])


def says_another(case, ours) -> bool:
    """Whether two arguments are wrong, and the error is that for one of them where PyTorch names the other."""
    alone = [outcome(Case(case.call, [change]), torch) for change in case.changes if len(case.changes) > 1]
    return any(kind == "error" and errors_alike(error, ours) for kind, error in alone)


def where(error):
    """Return the place in our code that an error came from."""
    trace, last = error.__traceback__, ""
    while trace is not None:
        last = f"  @{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return last


COMPARED = (torch.Tensor, tuple, list, bool, int, float, complex, str, dict, type(None), torch.dtype)


def same(case, theirs, ours):
    name = case.call.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if isinstance(theirs, (torch.nn.Module, torch.optim.Optimizer)):
                try:
                    wanted = plain_text(theirs)
                except Exception:
                    return "held", ""  # it was made of what it can't print
                alike = wanted == plain_text(ours)
                return ("held", "") if alike else ("value", f"{theirs!r}  |  {ours!r}")
            if not isinstance(theirs, COMPARED):
                return "held", ""
            drawn = any(word in name for word in misuse_calls.UNCOMPARED) or "meta" in str(case.changes)
            drawn = drawn or name.endswith("Tensor")  # sizes give one that is not filled
            if isinstance(theirs, torch.Tensor) and theirs.layout != torch.strided:
                assert str(theirs.layout) == str(ours.layout)
                theirs, ours = theirs.to_dense(), ours.to_dense()
            compare(theirs, ours, plugrad.Tensor, values=not drawn, grad_flags=False)
        except Mismatch as error:
            return "value", f"{error}  |  {text(('value', theirs))}  |  {text(('value', ours))}"
        except RecursionError:  # nested too deeply to be compared, and both took it
            return "unjudged", ""
        except Exception as error:
            return "value", f"can't compare: {error!r}"
    return "held", ""


def plain_text(thing):
    """Return a repr without addresses and names of libraries."""
    return re.sub(r"0x[0-9a-f]+|<module .*?>|torch\._C\.\w+|plugrad\.[\w.]+", "", repr(thing))


def text(found):
    kind, what = found
    if kind == "error":
        return f"{type(what).__name__}: {str(what).strip().splitlines()[0][:110] if str(what).strip() else ''}"
    if isinstance(what, (torch.UntypedStorage, plugrad.UntypedStorage)):  # PyTorch prints all of it
        return f"-> {type(what).__name__}"
    with contextlib.suppress(Exception):
        if hasattr(what, "shape") and hasattr(what, "dtype"):
            what = f"{what.dtype}{list(what.shape)} {what.flatten()[:3].tolist() if what.device.type != 'meta' else ''}"
        return f"-> {what}".replace("\n", " ")[:110]
    return f"-> {type(what).__name__}"


# ---------------------------------------------------------------------------------------------------- many cases


def child(cases, numbers, write):
    """Judge cases one by one, saying before each which one it is."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(1000)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    warnings.simplefilter("ignore")
    for number in numbers:
        os.write(write, f"{json.dumps([number])}\n".encode())
        try:
            category, detail = judge(cases.case(number), lambda: os.write(write, b'["there"]\n'))
        except TimeLimit:
            category, detail = "unjudged", "PyTorch takes too long"
        os.write(write, f"{json.dumps([number, category, detail])}\n".encode())
        reset()


def reset():
    """Set back what calls may have changed for the whole process."""
    for library in (torch, plugrad):
        library.set_default_dtype(library.float32)
        library.set_grad_enabled(True)
        library.set_printoptions(profile="default")
        library.manual_seed(0)
        library.use_deterministic_algorithms(False)
        library.set_float32_matmul_precision("highest")
        library.set_default_device(None)
        library.set_autocast_enabled("cpu", False)


def run(cases, numbers):
    """Yield (number, category, detail) for all cases, each judged in a child process."""
    left = list(numbers)
    while left:
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                child(cases, left[:500], write)
            finally:
                os._exit(0)
        os.close(write)
        now, judged, there, buffer = None, 0, False, b""
        while True:
            ready, _, _ = select.select([read], [], [], SILENCE)
            data = os.read(read, 65536) if ready else b""
            if not data:
                break
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                number, *rest = json.loads(line)
                there = number == "there"
                if there:
                    continue
                now = None if rest else number
                if rest:
                    judged += 1
                    yield number, *rest
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(read)
        if now is not None:  # it died, or hangs beyond the reach of signals
            judged += 1
            yield (now, "crash", "the process hung or died") if there else (now, "unjudged", "PyTorch died")
        left = left[judged:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="0")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--only")
    parser.add_argument("--parts", nargs="+", default=list(misuse_calls.PARTS), choices=list(misuse_calls.PARTS))
    parser.add_argument("--number", type=int, help="judge this one case, in this process")
    parser.add_argument("--show", default="internal hang crash lenient type strict value")
    parser.add_argument(
        "--json", action="store_true", help="print a line of JSON for each case: category, what, detail"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # some calls write files
        judge_all(options)


def judge_all(options):
    """Judge the cases that are asked for and print what is to be shown of them."""
    cases = Cases(options.seed, options.only, options.parts)
    if options.number is not None:
        case = cases.case(options.number)
        print(case, *judge(case), sep="\n")
        case.call.function(plugrad)(*(given := case.arguments(plugrad))[0], **given[1])
        return
    counts = collections.Counter()
    for number, category, detail in run(cases, range(options.cases)):
        counts[category] += 1
        if options.json:
            print(json.dumps([category, str(cases.case(number)), detail]))
            continue
        if category in options.show.split():
            print(f"{category:9} {number} {cases.case(number)}\n          {detail}")
    if options.json:
        return
    judged = sum(counts[name] for name in counts if name not in ("unmade", "unjudged"))
    print(f"{counts['held']} of {judged} held ({100 * counts['held'] / judged:.2f} %)", dict(counts))


if __name__ == "__main__":
    main()
