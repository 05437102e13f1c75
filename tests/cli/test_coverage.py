"""`plugrad coverage`: what is measured, and how it is told."""

import json
import re

import pytest

import plugrad
from plugrad import registry
from plugrad.cli.coverage_page import page
from plugrad.extend import op as declare_op
from plugrad.extend import unary
from plugrad.testing import coverage_report
from plugrad.testing.coverage import DTYPES, STATUSES, TRIALS, coverage
from support.command_line import invoke, plain
from support.distribution_builder import ROOT, build, device_plugin, op_module, output, run

PROVIDER = registry.Plugin("tests", "1.0", "ops", "tests.ops", False)


def rows_of(record, dtypes=("float64",)):
    record.provider = PROVIDER
    return {row["dtype"]: row for row in coverage(record, dtypes)}


def command(*arguments, status=0):
    result = invoke("coverage", *arguments, status=status)
    return result.stdout if status == 0 else plain(result)


# ---------------------------------------------------------------------------------------------------- cells


def test_an_op_that_does_everything():
    rows = {row["dtype"]: row for row in coverage(registry.op("sin"))}
    assert set(rows) == set(DTYPES)
    assert set(rows["float32"]["cells"].values()) == {"works"} and not rows["float32"]["messages"]
    assert rows["int64"]["cells"]["call"] == "works" and rows["int64"]["cells"]["first"] == "not applicable"
    assert rows["float64"]["provider"] == "plugrad:ops-trigonometry" and rows["float64"]["samples"] == 3


def test_refused_error_and_partly_are_told_apart():
    @unary(inplace=False)
    def picky(xp, input):
        """Refuses float32, stumbles over vectors, and takes all else."""
        if str(input.dtype) == "float32":
            raise TypeError("no float32")
        if input.ndim == 1:
            return xp.linalg.cholesky(input)
        if input.ndim == 2 and input.shape[0] == 1:
            raise ValueError("one row is too few")
        return input * 2

    @picky.vjp
    def picky_vjp(F, g):
        return g * 2

    @picky.samples
    def samples(make):
        yield make(2, 2)

    rows = rows_of(picky, ("float32", "float64"))
    assert rows["float32"]["cells"] == {**dict.fromkeys(TRIALS, "refused")}
    assert rows["float32"]["messages"]["second"] == "TypeError: no float32"
    assert set(rows["float64"]["cells"].values()) == {"works"}
    picky.samples(lambda make: iter([make(2, 2), make(1, 2)]))
    row = rows_of(picky)["float64"]
    assert row["cells"]["call"] == "partly" and "one row is too few" in row["messages"]["call"]
    picky.samples(lambda make: iter([make(2, 2), make(3)]))
    row = rows_of(picky)["float64"]
    assert row["cells"]["call"] == "error" and "LinAlgError" in row["messages"]["call"]


def test_a_missing_rule_is_seen_where_it_is_missing():
    @declare_op(at=("coverage_probe",))
    def coverage_probe(xp, input):
        """Exponential, declared with a gradient that has none itself, and without a shape rule."""
        return xp.exp(input)

    @declare_op(at=(), vjp=None)
    def coverage_slope(xp, g, y):
        """The gradient."""
        return g * y

    @coverage_probe.vjp
    def probe_vjp(F, g, y):
        if hasattr(g, "grad_fn"):
            raise NotImplementedError("only once")
        return g * y

    @coverage_probe.samples
    def samples(make):
        yield make(3)

    row = rows_of(coverage_probe)["float64"]
    assert row["cells"] == {
        "call": "works", "first": "works", "second": "refused", "forward": "refused", "batched": "works",
        "meta": "refused",
    }  # fmt: skip
    assert "only once" in row["messages"]["forward"] and "shape rule" in row["messages"]["meta"]
    coverage_slope.samples(lambda make: iter([(make(3), make(3))]))
    row = rows_of(coverage_slope)["float64"]
    assert row["cells"]["first"] == "not applicable" and "no gradient" in row["messages"]["first"]


def test_samples_that_fix_their_dtype_are_converted():
    rows = {row["dtype"]: row for row in coverage(registry.op("fft"), ["float32", "float64"])}
    assert rows["float32"]["samples"] and rows["float32"]["cells"]["first"] == "works"


def test_without_samples_nothing_is_covered():
    @declare_op(at=())
    def unsampled(xp, input):
        """Nothing."""
        return input + 0

    row = rows_of(unsampled)["float64"]
    assert row["samples"] == 0 and set(row["cells"].values()) == {"no samples"}

    @unsampled.samples
    def samples(make):
        raise KeyError("oops")
        yield

    row = rows_of(unsampled)["float64"]
    assert row["cells"]["call"] == "error" and "oops" in row["messages"]["call"]


def test_a_fallback_is_not_its_own_kernel(monkeypatch):
    counted = {}
    monkeypatch.setattr(plugrad.backends, "fallbacks", lambda: counted)

    @unary(inplace=False)
    def borrowed(xp, input):
        """Counts itself as run elsewhere."""
        counted["borrowed", "cpu"] = counted.get(("borrowed", "cpu"), 0) + 1
        return input + 0

    borrowed.samples(lambda make: iter([make(2)]))
    assert rows_of(borrowed)["float64"]["cells"]["call"] == "fallback"


# ---------------------------------------------------------------------------------------------------- the command


def test_the_table_and_its_summary():
    text = command("sin", "argmax", "--device", "cpu", "--dtype", "float32", "--dtype", "int64")
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.strip()}
    assert lines["sin"] == ["if", "·f", "·f", "·f", "if", "if", "plugrad:ops-trigonometry"]
    assert lines["argmax"][1] == "··"
    assert lines["first"][:6] == ["1", "0", "0", "0", "0", "3"]
    assert "not covered: meta, its shape rules are the column `meta`" in text
    assert "sin" not in command("sin", "--holes", "--device", "cpu", "--dtype", "float32").splitlines()[0]


def test_json_counts_every_cell():
    report = json.loads(command("plugrad:ops-trigonometry", "--json"))
    assert {row["provider"] for row in report["rows"]} == {"plugrad:ops-trigonometry"}
    for counts in report["summary"].values():
        assert sum(sum(states.values()) for states in counts.values()) == len(report["rows"]) * len(TRIALS)
    for row in report["rows"]:
        assert set(row["cells"]) == set(TRIALS) and set(row["cells"].values()) <= set(STATUSES)
    covered = {row["name"] for row in report["backends"] if row["covered"]}
    assert {row["device"] for row in report["rows"]} == covered
    assert all(row["reason"] for row in report["backends"] if not row["covered"])


def test_several_processes_give_the_same_rows():
    options = "sin", "cos", "tan", "--device", "cpu", "--json", "-j"
    one, two = (json.loads(command(*options, jobs))["rows"] for jobs in (1, 2))
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sine",), "did you mean"),
        (("--dtype", "float23", "sin"), "there is no dtype named 'float23'"),
        (("--device", "meta", "sin"), "can't be covered: its shape rules"),
        (("--device", "qpu", "sin"), "there is no device named 'qpu'"),
    ],
)
def test_wrong_names_are_refused(arguments, message):
    assert message in command(*arguments, status=2)


def test_the_page_holds_all_rows(tmp_path):
    file = tmp_path / "coverage.html"
    assert command("sin", "nonzero", "--device", "cpu", "--html", file).startswith(str(file))
    text = file.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", text)  # self-contained
    assert "prefers-color-scheme: dark" in text and "{{" not in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    assert [row[0] for row in data["rows"]] == ["sin", "nonzero"]
    report = json.loads(command("sin", "nonzero", "--device", "cpu", "--json"))
    for shown, rows in zip(data["rows"], coverage_report.by_op(report["rows"]).values()):
        codes, told = shown[5], shown[6]
        cells = [(row["cells"][trial], row["messages"].get(trial)) for trial in TRIALS for row in rows]
        assert [data["statuses"][int(code)] for code in codes] == [status for status, _ in cells]
        assert {int(k): data["messages"][v] for k, v in told.items()} == {i: m for i, (_, m) in enumerate(cells) if m}


def test_messages_cannot_end_the_script():
    row = {
        "op": "x", "public": [], "family": "op", "provider": "p", "device": "cpu", "dtype": "float64", "samples": 1,
        "cells": dict.fromkeys(TRIALS, "refused"), "messages": {"call": "</script><b>"},
    }  # fmt: skip
    text = page({"backends": [], "dtypes": ["float64"], "summary": {}, "rows": [row]})
    assert "</script><b>" not in text and "\\u003c/script>" in text


def test_ops_of_third_parties_are_covered(tmp_path):
    build(tmp_path, "plugrad-plus", {"plugrad.ops": {"plus_one": "plugrad_plus"}}, plugrad_plus=op_module("plus_one"))
    done = run(None, tmp_path, arguments=("-m", "plugrad.cli", "coverage", "plugrad-plus", "--json"))
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["provider"] for row in rows} == {"plugrad-plus:plus_one"}
    assert {row["dtype"] for row in rows if row["cells"]["second"] == "works"} >= {"float32", "float64"}


FAKE = """
import json
from support.fake_backend import Fake
from plugrad.extend import register, unary
from plugrad.testing import coverage_report

@unary()
def added(xp, input):
    result = xp.zeros_like(input)
    xp.add.at(result, xp.asarray(input == input), xp.ravel(input))
    return result

@added.vjp
def added_vjp(F, g):
    return g

register(Fake, added)
devices = [row["name"] for row in coverage_report.backends() if row["covered"]]
names = "sin", "added", "zeros"
print(json.dumps([row for name in names for row in coverage_report.measure(name, ["complex64"], devices)]))
"""


def test_the_device_of_a_third_party_is_covered_beside_ours():
    rows = {(row["op"], row["device"]): row for row in json.loads(output(FAKE, ROOT / "tests"))}
    assert {device for _, device in rows} == {"cpu", "fake"}
    assert set(rows["sin", "fake"]["cells"].values()) == {"works"}
    assert rows["zeros", "fake"]["cells"]["call"] == rows["session.added", "cpu"]["cells"]["call"] == "works"
    assert rows["session.added", "fake"]["cells"]["call"] == "refused"
    assert "add.at does not take complex64" in rows["session.added", "fake"]["messages"]["call"]


def test_of_a_package_that_brings_a_backend_all_ops_are_measured_there(tmp_path):
    path = device_plugin(tmp_path, "plain", "plain")
    arguments = ["-m", "plugrad.cli", "coverage", "plugrad-plain", "--dtype", "bool", "--json"]
    done = run(None, path, arguments=arguments)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert {row["op"] for row in rows} == set(registry.ops) and {row["device"] for row in rows} == {"plain"}
    assert {row["op"] for row in rows if row["cells"]["call"] == "works"} >= {"logical_and", "zeros", "cat"}


# ---------------------------------------------------------------------------------------------------- our own ops


def test_no_accidents_with_floats():
    """With floats an op of ours works or says why not."""
    accidents = []
    for name, record in registry.ops.items():
        if record.provider.builtin and record.names:
            for row in coverage(record, ["float16", "float32", "float64"]):
                accidents += [(name, row["dtype"], row["messages"]) for s in row["cells"].values() if s == "error"][:1]
    assert not accidents
