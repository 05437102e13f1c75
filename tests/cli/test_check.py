"""`plugrad check`: a seeded bug of each kind is found, named, and ends the command with 1; and the options."""

from __future__ import annotations

import importlib
import json
import sys
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import plugrad
from plugrad.cli import app
from plugrad.registry import loader
from plugrad.testing import cases, checks_of, conformance_tests
from plugrad.testing.op_checks import earlier_calls
from plugrad.testing.running import expressions, jobs, state
from plugrad.testing.targets import load_file
from support import (
    distribution_builder,
    seeded_bugs,
    seeded_corners,
    seeded_edges,
    seeded_ops,
    seeded_proofs,
    seeded_ranks,
    seeded_rarer,
    seeded_variations,
    seeded_wider,
)
from support.distribution_builder import build, op_module, run


def command(*arguments):
    return CliRunner().invoke(app, ["check", *arguments])


# ---------------------------------------------------------------------------------------------------- seeded bugs


# Imported for the bugs that they enter.
assert seeded_variations and seeded_corners and seeded_proofs and seeded_ranks and seeded_rarer and seeded_wider


@pytest.mark.parametrize("name", seeded_ops.BUGS)
def test_a_seeded_bug_is_found_and_named(name, install):
    records, check, argument = seeded_ops.BUGS[name]
    distribution = "plugrad-third-gradient-bug" if check == "third gradient" else "plugrad-seeded"
    install(distribution, records())
    only = check.replace(" ", "-") + " and not parity-of" * (check == "parity")
    result = command(distribution, "-k", only, "--json")
    seeded_rarer.end_threads()
    failures = [row for row in json.loads(result.stdout) if row["status"] == "failed" and row["check"] == check]
    assert result.exit_code == 1 and failures, result.stdout
    row = failures[0]
    assert f" of {distribution} 1.2, {check}: " in row["message"]
    assert repr(row["subject"]) in row["message"]
    assert (row["distribution"], row["version"]) == (distribution, "1.2")
    assert argument is None or row["argument"] == argument, row["message"]


@pytest.mark.parametrize("check, make", seeded_edges.TWINS, ids=lambda value: getattr(value, "__name__", None))
def test_what_is_like_a_bug_and_none_passes(check, make, install):
    install("plugrad-twin", {"ops": [make()]})
    (case,) = (case for case in checks_of("plugrad-twin") if case.name == check)
    assert case.run() is None


@pytest.mark.parametrize(
    "kept, told",
    [
        ("values by shape", "result 0"),
        ("gradients by shape", "the gradient of argument 'input'"),
        ("weights by length", None),
    ],
)
def test_results_kept_from_earlier_calls(tmp_path, kept, told):
    (tmp_path / "kept.py").write_text(seeded_edges.KEPT_RESULTS[kept])
    arguments = ["-m", "plugrad.cli", "check", "kept.py", "-k", "earlier-calls", "--json"]
    done = distribution_builder.run(None, arguments=arguments, cwd=tmp_path)
    (row,) = json.loads(done.stdout)
    assert row["status"] == ("passed" if told is None else "failed"), row
    assert told is None or f"with other values of the same shapes {told} is another than" in row["message"]


def test_what_an_op_changes_is_put_back_in_the_other_process_too(install):
    """Else the ops that are called there after it would be blamed."""

    def kernel(xp, input):
        plugrad.set_grad_enabled(False)
        return input * xp.exp(-input)

    record = seeded_ops.wave(kernel=kernel)
    install("plugrad-off", {"ops": [record]})
    earlier_calls._first_calls(record.provider.id, None, record.qualname, "cpu", "float32")
    assert plugrad.is_grad_enabled()


def test_what_couples_parameters_or_follows_a_measure_says_so_and_passes(install):
    schedules = [seeded_proofs.Patient, seeded_proofs.Doubting, seeded_proofs.Halving]
    optimizers = [seeded_proofs.Coupled, seeded_proofs.Stepping]
    install("plugrad-declared", {"optimizers": optimizers, "schedulers": schedules})
    checks = checks_of("plugrad-declared")
    assert [case.run() for case in checks].count(None) > 40
    assert not [case for case in checks if case.subject == "optim.Coupled" and case.name == "parameter groups"]
    assert [case for case in checks if case.subject == "optim.Stepping" and case.name == "parameter groups"]


def test_a_kernel_that_ends_its_process_costs_only_its_checks(tmp_path):
    (tmp_path / "quits.py").write_text(
        "import os\nfrom plugrad.extend import unary\n"
        '@unary(vjp=None)\ndef quitting(xp, input):\n    """Ends it."""\n    os._exit(0)\n'
        '@unary(vjp=None)\ndef staying(xp, input):\n    """The input."""\n    return input + 0\n'
    )
    arguments = ["-m", "plugrad.cli", "check", "quits.py", "-k", "samples or shapes", "--json"]
    done = distribution_builder.run(None, arguments=arguments, cwd=tmp_path)
    rows = {row["id"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1 and [row["status"] for row in rows.values()] == ["failed", "failed", "passed", "passed"]
    assert "the process that ran it died (exit status 0)" in rows["quits_py.quitting-shapes"]["message"]


@pytest.mark.parametrize("way", ["os.write(1, b'heard')", "libc.puts(b'heard')"])
def test_c_code_that_prints_is_a_finding(tmp_path, way):
    (tmp_path / "loud.py").write_text(
        "import ctypes, os\nfrom plugrad.extend import unary\nlibc = ctypes.CDLL(None)\n"
        f'@unary(vjp=None)\ndef loud(xp, input):\n    """The input."""\n    {way}\n    return input + 0\n'
    )
    arguments = ["-m", "plugrad.cli", "check", "loud.py", "-k", "samples", "--json"]
    done = distribution_builder.run(None, arguments=arguments, cwd=tmp_path)
    (row,) = json.loads(done.stdout)
    assert row["status"] == "failed" and "file of the standard output: 'heard" in row["message"], row
    assert "heard" in done.stderr


def test_several_targets_are_checked_together():
    result = command("tanh", "optim.SGD", "tanh", "-k", "docstring", "--json")
    assert [row["subject"] for row in json.loads(result.stdout)] == ["tanh", "optim.SGD"]
    assert command("tanh", "no_such_op").exit_code == 2


def test_what_the_bugs_are_seeded_in_is_clean(install):
    clean = {
        "ops": [seeded_ops.wave()], "layers": [seeded_bugs.Scale], "optimizers": [seeded_bugs.Descent],
        "schedulers": [seeded_bugs.Falling], "backends": [seeded_bugs.Second],
        "formats": [seeded_wider.form()],
    }  # fmt: skip
    install("plugrad-clean", clean)
    checks = checks_of("plugrad-clean")
    assert {case.kind for case in checks} == {*clean, "plugins"}
    few = ("exp", "getitem", "linalg_qr", "matmul", "maximum", "softmax", "tanh")  # of all ops, on the device
    ran = [case.run() for case in checks if not case.name.startswith("parity of") or case.name[10:] in few]
    assert ran.count(None) > 80 and len(checks) > 800
    assert [case.id for case in cases(seeded_bugs.Scale)] == [case.id for case in checks if case.subject == "nn.Scale"]


def test_an_optimizer_that_goes_back_says_so():
    class Lookahead(seeded_bugs.Counting):
        """Two steps, and half of the way back: M. Zhang et al., arXiv:1907.08610."""

        def update(self, xp, p, g, state, group):
            start, count = state["momentum"], state["count"]
            start[...] = xp.where(count % 2 == 0, p, start)
            count += 1
            p -= group["lr"] * (g + group["weight_decay"] * p)
            p[...] = xp.where(count % 2 == 0, start + 0.25 * (p - start), p)

    checks = {case.id.partition("-")[2]: case for case in cases(Lookahead)}
    with pytest.raises(AssertionError, match="step 2 goes up"):
        checks.pop("constant-gradients").run()
    assert [case.run() for case in checks.values()].count(None) > 10
    Lookahead.goes_back = True
    assert len(list(cases(Lookahead))) == len(checks)


def test_a_plugin_that_does_not_load_is_a_finding(tmp_path):
    distribution_builder.build(
        tmp_path, "plugrad-torn", {"plugrad.ops": {"torn": "torn_plugin"}}, "3.4", torn_plugin="import nowhere_at_all\n"
    )
    done = distribution_builder.run(None, tmp_path, arguments=["-m", "plugrad.cli", "check", "plugrad-torn"])
    assert done.returncode == 1
    assert "plugrad-torn 3.4" in done.stdout and "nowhere_at_all" in done.stdout


# ---------------------------------------------------------------------------------------------------- targets


def test_targets(install):
    plugin = install("plugrad-good", {"ops": [seeded_ops.wave()], "layers": [seeded_bugs.Scale]})
    everything = {case.id for case in checks_of("plugrad-good")}
    assert everything == {case.id for case in checks_of(plugin.id)}
    assert {case.subject for case in checks_of("plugrad-good")} == {plugin.id, "good.damped", "nn.Scale"}
    assert everything <= {case.id for case in checks_of()}
    assert {case.kind for case in checks_of("damped")} == {"ops"}
    assert {case.id for case in checks_of("nn.Scale")} == {case.id for case in checks_of("Scale")}
    assert {case.id for case in checks_of(seeded_bugs.Scale)} == {case.id for case in checks_of("Scale")}
    assert all(case.provider is plugin for case in checks_of("plugrad-good"))
    result = command("plugrad-good")
    assert result.exit_code == 0, result.stdout
    assert "plugrad-good 1.2" in result.stdout and "failed" not in result.stdout


def test_an_unknown_target_ends_with_2_and_suggests_the_nearest():
    result = command("optim.Adamm")
    assert result.exit_code == 2 and "optim.Adam" in result.output
    assert command("sin", "-k", "nothing-like-it").exit_code == 2
    assert command("sin", "-k", "grad and").exit_code == 2
    assert command("nowhere.py").exit_code == 2


FILE = '''
from plugrad.extend import unary

@unary(complex=False)
def bent(xp, input):
    """The square of each element."""
    return input * input

@bent.vjp
def bent_vjp(F, g, input):
    return {factor} * g * input
'''


@pytest.mark.parametrize("factor, status", [("2", 0), ("2.002", 1)])
def test_a_file(tmp_path, factor, status):
    (tmp_path / "bent_ops.py").write_text(FILE.format(factor=factor))
    arguments = ["-m", "plugrad.cli", "check", str(tmp_path / "bent_ops.py"), "-j", "2"]
    done = distribution_builder.run(None, arguments=arguments)
    assert done.returncode == status, done.stdout + done.stderr
    assert ("argument 'input'" in done.stdout) == bool(status)


def test_a_file_that_fails_is_a_finding_and_an_empty_one_a_mistake(tmp_path):
    (tmp_path / "torn.py").write_text("import nowhere_at_all\n")
    (tmp_path / "empty.py").write_text("x = 1\n")
    torn = command(str(tmp_path / "torn.py"))
    assert torn.exit_code == 1 and "No module named 'nowhere_at_all'" in torn.output
    assert command(str(tmp_path / "empty.py")).exit_code == 2
    with pytest.raises(LookupError, match="defines no op"):
        load_file(tmp_path / "empty.py")
    assert not [name for name in loader.plugins if "empty" in name]


@pytest.mark.parametrize("options", [["--json"], ["--json", "--resume"], ["--json", "-j", "2", "-k", "gradient"]])
def test_a_file_that_ends_its_process_is_a_finding(tmp_path, options):
    (tmp_path / "deadly.py").write_text("import os\nos._exit(0)\n")
    arguments = ["-m", "plugrad.cli", "check", "deadly.py", *options]
    done = distribution_builder.run(None, arguments=arguments, cwd=tmp_path)
    (row,) = json.loads(done.stdout)
    assert done.returncode == 1 and row["status"] == "failed" and "died (exit status 0)" in row["message"]


def test_a_file_in_a_package_may_import_from_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "constants.py").write_text("FACTOR = 2\n")
    (folder / "bent_ops.py").write_text("from .constants import FACTOR\n" + FILE.format(factor="FACTOR"))
    done = distribution_builder.run(None, arguments=["-m", "plugrad.cli", "check", str(folder / "bent_ops.py")])
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_a_file_prints_is_no_part_of_the_report(tmp_path):
    printing = "    print('kernel')\n    return input * input + 0"
    source = FILE.format(factor="2").replace("    return input * input", printing)
    (tmp_path / "loud.py").write_text("print('import')\n" + source)
    done = distribution_builder.run(None, arguments=["-m", "plugrad.cli", "check", str(tmp_path / "loud.py"), "--json"])
    assert done.returncode == 0 and json.loads(done.stdout) and "kernel" in done.stderr


@pytest.mark.parametrize(
    "line, options, said",
    [
        ("import os; os.abort()", ["-j", "2"], "the process that ran it died (signal SIGABRT)"),
        ("import os; os._exit(0)", ["-j", "2"], "the process that ran it died (exit status 0)"),
        ("import time; time.sleep(600)", ["--timeout", "10"], "it did not end within 10 seconds (--timeout)"),
    ],
)
def test_a_check_that_ends_its_process_is_a_finding_and_the_others_go_on(tmp_path, line, options, said):
    deadly = f"    if input.shape == (1, 1): {line}\n    return input"
    (tmp_path / "deadly.py").write_text(FILE.format(factor="2").replace("    return input", deadly))
    arguments = ["check", str(tmp_path / "deadly.py"), "-k", "gradient or shapes", "--json", *options]
    done = distribution_builder.run(None, arguments=["-m", "plugrad.cli", *arguments])
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1 and {row["status"] for row in rows.values()} == {"passed", "failed"}, done.stderr
    assert rows["shapes"]["message"].endswith(said) and "'deadly_py.bent'" in rows["shapes"]["message"]
    assert rows["gradient"]["status"] == "passed"


REGISTERING = FILE.format(factor="2") + "\nfrom plugrad.extend import register\nregister(bent)\n"


def test_a_file_that_registers_its_records_itself(tmp_path):
    (tmp_path / "cell.py").write_text(REGISTERING)
    done = distribution_builder.run(None, arguments=["-m", "plugrad.cli", "check", str(tmp_path / "cell.py"), "--json"])
    rows = json.loads(done.stdout)
    assert done.returncode == 0 and {row["subject"] for row in rows} >= {"session.bent"}, done.stdout + done.stderr


# ---------------------------------------------------------------------------------------------------- options


def test_list_runs_nothing():
    result = command("tanh", "--list", "--json")
    rows = json.loads(result.stdout)
    assert result.exit_code == 0 and {row["status"] for row in rows} == {None}
    assert {"gradient", "third gradient", "threads", "aliasing", "batched"} <= {row["check"] for row in rows}


def test_junit(tmp_path, install):
    install("plugrad-seeded", {"ops": [seeded_ops.wave(lambda F, g, input: -seeded_ops.right(F, g, input))]})
    result = command("plugrad-seeded", "-k", "gradient and not dense", "--junit", str(tmp_path / "deep" / "report.xml"))
    suite = ElementTree.parse(tmp_path / "deep" / "report.xml").getroot()[0]
    assert result.exit_code == 1 and int(suite.get("tests")) == len(suite) == 3
    failed = [case for case in suite if case.find("failure") is not None]
    assert failed and len(failed) == int(suite.get("failures"))
    assert "seeded.damped-gradient" in {case.get("name") for case in failed}
    assert {case.get("classname") for case in suite} == {"plugrad-seeded.ops"}


@pytest.mark.parametrize(
    "expression, names",
    [
        ("", "abc"),
        ("a", "a"),
        ("not a", "bc"),
        ("a or b", "ab"),
        ("not (a or b)", "c"),
        ("a and b", ""),
        ("not a and not b or a", "abc"[::2]),
        ("A", "a"),
    ],
)
def test_expressions(expression, names):
    wanted = expressions.matcher(expression)
    assert [name for name in "abc" if wanted(name)] == list(names)


@pytest.mark.parametrize("expression", ["and", "a b", "(a", "a)", "not", "a or"])
def test_expressions_that_are_none(expression):
    with pytest.raises(ValueError, match="-k"):
        expressions.matcher(expression)


def test_resume_repeats_nothing_until_sources_change(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("cos", "--resume", "-k", "gradient or value", "--json")
    first = json.loads(command(*arguments).stdout)
    file = next((tmp_path / state.FOLDER).glob("*.jsonl"))
    lines = file.read_text().splitlines()
    assert len(lines) == len(first) + 1
    file.write_text("\n".join(lines[:-1]) + '\n{"id": "torn')  # broken off while the last line was written
    ran = []
    original = jobs.run_case
    monkeypatch.setattr(jobs, "run_case", lambda case: ran.append(case.id) or original(case))
    second = json.loads(command(*arguments).stdout)
    assert len(ran) == 1 and sorted(row["id"] for row in second) == sorted(row["id"] for row in first)
    assert len(json.loads(command(*arguments).stdout)) == len(first) and len(ran) == 1
    monkeypatch.setattr(state, "key", lambda plugins, device: "other sources")
    result = command(*arguments)
    assert len(ran) == 1 + len(first) and "have changed" in result.output


def test_an_interrupted_run_keeps_what_is_finished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    original, left = jobs.run_case, [3]

    def run_case(case):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return original(case)

    monkeypatch.setattr(jobs, "run_case", run_case)
    broken = command("cos", "--resume")
    assert broken.exit_code == 130 and "interrupted after 3 of" in broken.output
    left[0] = 1000
    whole = command("cos", "--resume")
    assert whole.exit_code == 0 and "(3 of them before)" in whole.output
    assert 1000 - left[0] == len(checks_of("cos")) - 3


def test_a_module_beside_a_file_is_one_of_its_sources(tmp_path):
    (tmp_path / "constants_beside.py").write_text("FACTOR = 2\n")
    (tmp_path / "bent_ops.py").write_text("import constants_beside\n" + FILE.format(factor="constants_beside.FACTOR"))
    arguments = ["-m", "plugrad.cli", "check", "bent_ops.py", "--resume", "-k", "gradient"]
    assert distribution_builder.run(None, arguments=arguments, cwd=tmp_path).returncode == 0
    (tmp_path / "constants_beside.py").write_text("FACTOR = 3.0\n")  # bytecode is told stale by second and size
    assert distribution_builder.run(None, arguments=arguments, cwd=tmp_path).returncode == 1


def test_the_key_of_a_state_changes_with_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "_folders", lambda: [tmp_path])
    (tmp_path / "a.py").write_text("1")
    job = jobs.Job("cos")
    before = job.key()
    assert before == job.key()
    (tmp_path / "a.py").write_text("2")
    assert before != job.key()


@pytest.mark.parametrize("taken", ["a function", "a constant"])
def test_the_key_of_a_state_changes_with_a_helper_module_elsewhere(tmp_path, install, monkeypatch, taken):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "seeded_helper.py").write_text("factor = 1\ndef scaled(x):\n    return factor * x\n")
    helper = importlib.import_module("seeded_helper")
    plugin = install("plugrad-seeded", {"ops": [seeded_ops.wave()]})
    if taken == "a function":
        vars(sys.modules[plugin.value])["scaled"] = helper.scaled
    else:  # a number does not say where it is from
        (tmp_path / "seeded_source.py").write_text("from seeded_helper import factor\n")
        monkeypatch.setattr(sys.modules[plugin.value], "__file__", str(tmp_path / "seeded_source.py"), raising=False)
    job = jobs.Job("plugrad-seeded")
    before = job.key()
    assert before == job.key()
    (tmp_path / "seeded_helper.py").write_text("factor = 2\n")
    assert before != job.key()
    del sys.modules["seeded_helper"]


# ---------------------------------------------------------------------------------------------------- pytest


def test_one_line_is_a_conformance_test(install):
    install("plugrad-seeded", {"ops": [seeded_ops.wave(lambda F, g, input: -seeded_ops.right(F, g, input))]})
    test = conformance_tests("plugrad-seeded")
    (mark,) = test.pytestmark
    chosen = {parameter.id: parameter.values[0] for parameter in mark.args[1]}
    test(chosen["seeded.damped-value"] if "seeded.damped-value" in chosen else chosen["seeded.damped-strides"])
    with pytest.raises(AssertionError, match=r"op 'seeded.damped' of plugrad-seeded 1.2, gradient: .*argument 'input'"):
        test(chosen["seeded.damped-gradient"])
    with pytest.raises(LookupError, match="not checks"):
        conformance_tests("plugrad-seeded", known={"seeded.damped-nothing": "reason"})


def test_the_pytest_plugin(tmp_path):
    (tmp_path / "bent_ops.py").write_text(FILE.format(factor="2.002"))
    (tmp_path / "test_other.py").write_text("import sys\ndef test(): assert 'plugrad' not in sys.modules\n")
    run = ["-m", "pytest", "-p", "no:cacheprovider", "-q", "-rf"]
    plain = distribution_builder.run(None, arguments=run, cwd=tmp_path)
    assert plain.returncode == 0 and "1 passed" in plain.stdout, plain.stdout + plain.stderr
    done = distribution_builder.run(None, arguments=[*run, "--plugrad", "bent_ops.py", "-k", "gradient"], cwd=tmp_path)
    assert done.returncode == 1 and "bent_ops_py.bent-gradient" in done.stdout, done.stdout + done.stderr
    assert "argument 'input'" in done.stdout and "test_other" not in done.stdout
    listed = distribution_builder.run(None, arguments=[*run, "--plugrad", "sin", "--collect-only"], cwd=tmp_path)
    assert f"{listed.stdout.count('sin::sin-')} tests collected" in listed.stdout, listed.stdout + listed.stderr
    unknown = distribution_builder.run(None, arguments=[*run, "--plugrad", "nowhere"], cwd=tmp_path)
    assert unknown.returncode == 4 and "nothing named 'nowhere'" in unknown.stdout + unknown.stderr
    absent = distribution_builder.run(None, arguments=[*run, "--plugrad", "plugrad-not-here"], cwd=tmp_path)
    assert absent.returncode == 4 and "has to be installed first" in absent.stdout + absent.stderr


def test_a_damaged_memory_of_finished_checks(tmp_path, monkeypatch):
    """Whatever stands in the file, what it does not tell in full is run again."""
    monkeypatch.chdir(tmp_path)
    assert command("square", "--resume").exit_code == 0
    (file,) = (tmp_path / ".plugrad_check").glob("*.jsonl")
    good = file.read_bytes()
    first, *kept = good.splitlines(keepends=True)
    lines = [
        b"[]", b"3", b"{}", b"null", b'{"id": 3}', b"[" * 100_000, b"1" * 5000, b"\xff\xfe", kept[0][:40],
        b'{"id": "a"}',
        kept[1].replace(b'"passed"', b'"great"'), kept[2].replace(b'"message": ""', b'"message": 3'),
    ]  # fmt: skip
    for data in (first + b"\n".join(lines), b"\n".join(lines), first + b"\xff" + b"".join(kept), b"\0" * 100, b""):
        file.write_bytes(data)
        assert command("square", "--resume").exit_code == 0
        rows = list(map(json.loads, file.read_text().splitlines()[1:]))
        assert {row["status"] for row in rows} <= {"passed", "skipped"} and len(rows) == len(kept)


def test_a_package_that_seeds_while_it_is_imported_or_called_fails(tmp_path):
    """Checks run in other processes, whose own threads are no excuse."""
    seeding = "import numpy\nnumpy.random.seed(0)\n"
    drawing = "input + (__import__('numpy').random.seed(1) or 1)"
    build(tmp_path, "plugrad-early", {"plugrad.ops": {"early": "early"}}, early=seeding + op_module("early"))
    build(tmp_path, "plugrad-late", {"plugrad.ops": {"late": "late"}}, late=op_module("late", drawing))
    for name, check in (("early", "loading"), ("late", "samples")):
        arguments = "-m", "plugrad.cli", "check", f"plugrad-{name}", "-k", check
        done = run(None, tmp_path, arguments=arguments)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "the state of NumPy's random numbers" in done.stdout


# ---------------------------------------------------------------------------------------------------- commands, formats

COMMANDS = {  # what a `plugrad_cli` does, and what is said of it
    "dict": ("return {'dict': print}", "plugrad_cli must return a list, it returned {'dict':"),
    "none": ("pass", "it returned None: its `return` is missing"),
    "raising": ("raise KeyError('raising')", "KeyError: 'raising'"),
    "exiting": ("raise SystemExit(0)", "SystemExit: 0"),
    "number": ("return [3]", "must return functions or typer applications, not 3"),
    "empty": ("return []", "promise the command empty, but plugrad_cli returns none"),
    "misnamed": ("def other():\n        'Other.'\n    return [other]", "but plugrad_cli returns other"),
    "untold": ("def untold():\n        pass\n    return [untold]", "the command untold has no docstring"),
    "right": ("def right():\n        'Right.'\n    return [right]", None),
}
FORMATS = {
    "without": ("pass", "methods", "has neither load(source, options) nor save(obj, file)"),
    "reading": ("read = save = lambda self, *args: None", "methods", "read(), which nothing calls: it is load()"),
    "greedy": ("load = recognises = lambda self, *args: True", "recognition", "takes an empty file for its own"),
}


@pytest.fixture(scope="module")
def sloppy(tmp_path_factory):
    """The rows of a check of packages whose commands and formats are not right."""
    folder = tmp_path_factory.mktemp("sloppy")
    for name, (body, _) in COMMANDS.items():
        source = f"from plugrad.extend import hookimpl\n@hookimpl\ndef plugrad_cli():\n    {body}\n"
        build(folder, f"plugrad-{name}", {"plugrad.cli": {name: f"plugrad_{name}"}}, **{f"plugrad_{name}": source})
    for name, (body, _, _) in FORMATS.items():
        source = (
            "from plugrad.extend import hookimpl\nfrom plugrad.formats import Format\n"
            f"class {name}(Format):\n    'A format.'\n    name = '{name}'\n    {body}\n"
            f"@hookimpl\ndef plugrad_formats():\n    return [{name}]\n"
        )
        build(folder, f"plugrad-{name}", {"plugrad.formats": {name: f"plugrad_{name}"}}, **{f"plugrad_{name}": source})
    names = [f"plugrad-{name}" for name in (*COMMANDS, *FORMATS)]
    done = run(None, folder, arguments=["-m", "plugrad.cli", "check", *names, "--json"])
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", COMMANDS)
def test_what_plugrad_cli_returns_is_checked(name, sloppy):
    text = COMMANDS[name][1]
    (row,) = (row for row in sloppy if row["check"] == "commands" and row["distribution"] == f"plugrad-{name}")
    assert row["status"] == ("passed" if text is None else "failed") and (text or "") in (row["message"] or "")


@pytest.mark.parametrize("name", FORMATS)
def test_formats_offer_something_and_leave_other_files_alone(name, sloppy):
    _, check, text = FORMATS[name]
    (row,) = (row for row in sloppy if row["check"] == check and row["distribution"] == f"plugrad-{name}")
    assert row["status"] == "failed" and text in row["message"]
