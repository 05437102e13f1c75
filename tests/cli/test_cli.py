"""The command line: what it lists, what it checks, and how it refuses."""

import json
import os
import subprocess
import sys
import threading

import pytest

import plugrad
from plugrad import cli, errors, registry
from plugrad.catalog import details
from plugrad.cli import KINDS
from plugrad.extend import unary
from plugrad.testing.gradients import of_ops
from support.command_line import invoke, plain, rows
from support.distribution_builder import DISTRIBUTIONS, build, command, example, op_module, output, refusal, run


def test_the_installed_command():
    program = os.path.join(os.path.dirname(sys.executable), "plugrad")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"plugrad {plugrad.__version__}\n"


@pytest.mark.parametrize("module", ["rich.table", "plugrad.testing", "tomllib", "multiprocessing"])
def test_starting_up_imports_little(module):
    code = f"import sys, plugrad.cli; sys.exit({module!r} in sys.modules)"
    assert run(code).returncode == 0


# ---------------------------------------------------------------------------------------------------- ops


def test_the_table_of_ops():
    by_name = {row["name"]: row for row in rows("ops")}
    assert len(by_name) > 300
    sigmoid = by_name["sigmoid"]
    assert sigmoid["signature"] == "sigmoid(input, *, out=None)" and sigmoid["provider"] == "plugrad:ops-activation"
    assert "special.expit" in sigmoid["aliases"] and sigmoid["backends"][0] == "any" and sigmoid["orders"] == 2
    assert by_name["argmax"]["orders"] == 0
    text = invoke("ops", "sigmoid").stdout
    assert "special.expit" in text and "plugrad:ops-activation" in text and "cholesky" not in text


def test_filters_of_the_table():
    everything = rows("ops")
    for row in rows("ops", "--namespace", "nn.functional"):
        assert any(name.startswith("nn.functional.") for name in row["public"])
    assert {row["family"] for row in rows("ops", "--family", "view")} == {"view"}
    provider = "plugrad:ops-activation"
    assert {row["provider"] for row in rows("ops", "--provider", provider)} == {provider}
    without = rows("ops", "--no-gradient")
    assert without and not any(row["orders"] for row in without)
    assert len(without) + len(rows("ops", "--gradient")) == len(everything)
    assert len(rows("ops", "--hidden")) > len(everything)
    assert rows("ops", "no such text") == []
    assert invoke("ops", "no such text").stdout == "no op matches\n"
    assert "did you mean unary" in plain(invoke("ops", "--family", "unnary", status=2))


@pytest.mark.parametrize("name", ["sigmoid", "special.expit", "plugrad.sigmoid", "nn.functional.sigmoid"])
def test_one_op(name):
    text = invoke("ops", "show", name).stdout
    assert text.startswith("sigmoid(input, *, out=None)")
    for part in ("special.expit", "kernel for any backend", "sigmoid_vjp, uses y", ">>> "):
        assert part in text


def test_the_source_of_an_op():
    text = invoke("ops", "show", "sigmoid", "--source").stdout
    for part in ("def sigmoid(xp, input):", "def sigmoid_vjp(F, g", "return _apply(_op, (input, ), out)", "def pull("):
        assert part in text, part
    assert rows("ops", "show", "sigmoid")["formulas"] == [
        {"inputs": ["input"], "function": "sigmoid_vjp", "uses": ["y"]}
    ]


def test_the_plan_of_an_op():
    """What `--source` says first: the steps of a call, as data."""
    text = invoke("ops", "show", "mul", "--source").stdout
    assert "unwrap    other: a tensor of that type, or a Python number" in text
    assert "run       xp.multiply" in text and "record    MulBackward0" in text
    steps = [step for step, _ in details.steps(registry.op("cat").plan)]
    assert steps == ["bind", "unwrap", "unwrap", "run", "wrap", "save", "fit", "record"]
    assert dict(details.steps(registry.op("cumsum").plan))["wrap"] == "the type of what the kernel returned"


def test_every_op_can_be_shown():
    for op in registry.ops.values():
        assert details.text(op) and details.sources(op), op


def test_unknown_ops_are_refused_with_a_suggestion():
    for arguments in (("ops", "show", "sigmoit"), ("gradcheck", "sigmoit"), ("why", "sigmoit")):
        assert "did you mean" in plain(invoke(*arguments, status=2))
        assert "sigmoid" in plain(invoke(*arguments, status=2))


# ---------------------------------------------------------------------------------------------------- gradcheck


def test_right_gradients_pass():
    assert invoke("gradcheck", "sin", "mul", "--first-order").stdout.startswith("2 ops: 6 passed")
    verdicts = rows("gradcheck", "matmul")
    assert {row["order"] for row in verdicts} == {1, 2} and {row["status"] for row in verdicts} == {"PASS"}


@pytest.fixture
def wrong_op():
    """An op whose gradient is 1 per mille too large, registered for the time of a test."""

    @unary()
    def wrong(xp, input):
        """The square, with a wrong gradient."""
        return input * input

    @wrong.vjp
    def wrong_vjp(F, g, input):
        return g * input * 2.002

    wrong.provider = registry.ops["sin"].provider
    registry.ops["wrong"] = wrong
    yield wrong
    del registry.ops["wrong"]


def test_a_wrong_gradient_is_found(wrong_op):
    text = invoke("gradcheck", "wrong", "sin", status=1).stdout
    assert "numeric" in text and "FAIL" in text and "float64[3, 4]" in text and "failed" in text
    first = next(row for row in rows("gradcheck", "wrong", status=1) if row["status"] == "FAIL")
    assert (first["op"], first["order"], first["input"], first["element"]) == ("wrong", 1, "input", "(0, 0)")
    assert abs(float(first["analytic"]) / float(first["numeric"]) - 1.001) < 1e-6


def test_an_op_that_raises_is_a_finding(wrong_op):
    @wrong_op.kernel("cpu")
    def wrong_cpu(xp, input):
        raise ZeroDivisionError("in the kernel")

    wrong_op.changed()
    (row,) = {row["message"] for row in of_ops.judge("wrong")}
    assert row == "ZeroDivisionError: in the kernel"


def test_gradcheck_refuses_what_has_no_gradient():
    assert "has no gradient to check" in plain(invoke("gradcheck", "argmax", status=2))
    invoke("gradcheck", "sin", "--jobs", "0", status=2)


def test_gradcheck_in_processes():
    done = command("gradcheck", "sin", "cos", "exp", "--first-order", "--jobs", "2")
    assert done.stdout.startswith("3 ops: 9 passed")


# ---------------------------------------------------------------------------------------------------- listings


@pytest.mark.parametrize(
    "kind, name, provider",
    [
        ("optimizers", "SGD", "plugrad:optim-sgd"),
        ("schedulers", "StepLR", "plugrad:optim-schedulers"),
        ("losses", "MSELoss", "plugrad:losses-regression"),
        ("layers", "Linear", "plugrad:layers-linear"),
        ("inits", "ones_", "plugrad:inits-constant"),
    ],
)
def test_listings(kind, name, provider):
    row = next(row for row in rows(kind) if row["name"] == name)
    assert row["provider"] == provider and row["doc"] and row["signature"].startswith(f"{name}(")
    assert name in invoke(kind, name).stdout
    assert invoke(kind, "no such").stdout == f"no {kind} match\n"


ALL = """
import json
from plugrad import registry
from plugrad.catalog import rows
rows.load_everything()
names = {}
for dotted, entry in registry.public.items():
    names.setdefault(entry.kind, []).append(dotted)
names["ops"] = sorted({op.names[0] for op in registry.ops.values() if op.names})
print(json.dumps({**names, "backends": sorted(registry.backends)}))
"""


@pytest.fixture(scope="module")
def registered():
    return json.loads(output(ALL))


@pytest.mark.parametrize("kind", [*KINDS, "ops", "backends"])
def test_a_listing_in_a_process_of_its_own_has_all_that_is_registered(kind, registered):
    shown = json.loads(command(kind.replace("_", "-"), "--json").stdout)
    key = "name" if kind in ("ops", "backends") else "public"
    assert sorted({row[key] for row in shown}) == sorted(registered[kind])


def test_backends_say_why_they_are_not_available():
    by_name = {row["name"]: row for row in rows("backends")}
    assert by_name["cpu"]["state"] == "available" and by_name["cpu"]["reason"] is None
    assert by_name["cuda"]["state"] == "available" or by_name["cuda"]["reason"]


# --------------------------------------------------------------------------------------------- third parties


def test_broken_plugins_of_third_parties():
    paths = DISTRIBUTIONS / "broken", DISTRIBUTIONS / "exiting"
    done = command("plugins", "--third-party", "--json", paths=paths)
    by_id = {row["id"]: row for row in json.loads(done.stdout)}
    eager = by_id["plugrad-broken:eager"]
    assert (eager["status"], eager["stage"], eager["error"]) == ("failed", "import", "RuntimeError: no luck")
    assert "plugrad_broken_eager.py" in eager["traceback"]
    assert by_id["plugrad-broken:broken"]["status"] == "not loaded"
    assert by_id["plugrad-exiting:exiting"]["error"] == "SystemExit: 3"
    assert 'raise RuntimeError("no luck")' in command("plugins", "--verbose", paths=paths).stdout
    refused = command("ops", "show", "broken", paths=paths, status=2)
    assert "failed at import" in refused.stderr


@pytest.mark.parametrize("arguments", [("ops",), ("ops", "show", "loud"), ("check", "loud", "-k", "value or nan"),
                                       ("gradcheck", "loud", "--fast"), ("coverage", "loud")])  # fmt: skip
def test_what_a_plugin_prints_is_no_part_of_a_report(tmp_path, arguments):
    source = "print('loading')\n" + op_module("loud", "(print('computing'), input + 1)[1]")
    build(tmp_path, "plugrad-loud", {"plugrad": {"loud": "loud_module"}}, loud_module=source)
    done = command(*arguments, "--json", paths=[tmp_path])
    assert json.loads(done.stdout) and "loading" in done.stderr


def test_promises_of_third_parties_are_listed_and_checked(tmp_path):
    paths = [*example(tmp_path, "plugrad-swish"), *example(tmp_path, "plugrad-lion")]
    code = "import sys; from plugrad.cli import app; app(['ops', 'swish'], standalone_mode=False)"
    listed = run(f"{code}; print('plugrad_swish' in sys.modules)", *paths).stdout
    assert "plugrad-swish:Swish" in listed and listed.endswith("False\n")
    assert "optim.Lion" in command("optimizers", paths=paths).stdout
    assert command("gradcheck", "swish", paths=paths).stdout.startswith("1 op: 6 passed")
    assert "promised by plugrad-swish" in command("why", "Swish", paths=paths).stdout


def test_why_tells_about_clashes(tmp_path):
    build(tmp_path, "plugrad-relu", {"plugrad": {"relu": "plugrad_relu"}}, plugrad_relu=op_module("relu"))
    paths = DISTRIBUTIONS / "clash_a", DISTRIBUTIONS / "clash_b", tmp_path
    text = command("why", "twice", paths=paths).stdout
    assert "plugrad.twice: ambiguous, plugrad-clash-a:twice and plugrad-clash-b:twice bring it" in text
    text = command("why", "relu", paths=paths).stdout
    assert "from plugrad:ops-activation" in text and "also brought by plugrad-relu:relu" in text
    refused = command("gradcheck", "twice", paths=paths, status=2)
    assert "plugrad-clash-a:twice" in refused.stderr


GREETING = '''
import typer
from plugrad.extend import hookimpl

@hookimpl
def plugrad_cli(app):
    @app.command("greet")
    def greet(name: str):
        """Greet somebody."""
        typer.echo(f"hello {name}")
'''


@pytest.mark.parametrize("group", ["plugrad", "plugrad.cli"])
def test_third_parties_add_commands(tmp_path, group):
    build(tmp_path, "plugrad-greet", {group: {"greet": "plugrad_greet"}}, plugrad_greet=GREETING)
    assert command("greet", "you", paths=[tmp_path]).stdout == "hello you\n"
    assert "Greet somebody." in command("greet", "--help", paths=[tmp_path]).stdout
    listed = command("--help", paths=[tmp_path])
    assert ("Greet somebody." if group == "plugrad" else "Of plugrad-greet 1.0") in listed.stdout


def test_a_command_that_fails_to_load_costs_a_line_where_it_is_run(tmp_path):
    build(tmp_path, "plugrad-greet", {"plugrad.cli": {"greet": "plugrad_greet"}}, plugrad_greet="raise ValueError")
    done = command("--help", paths=[tmp_path])  # imports nothing
    assert "gradcheck" in done.stdout and "Of plugrad-greet 1.0" in done.stdout and done.stderr == ""
    assert "plugrad-greet:greet" in command("greet", paths=[tmp_path], status=2).stderr


@pytest.mark.parametrize("group", ["plugrad", "plugrad.cli"])
def test_two_commands_of_one_name_are_settled_as_other_names_are(tmp_path, group):
    for name in ("a", "b"):
        source = GREETING.replace("hello", name)
        build(tmp_path, f"plugrad-{name}", {group: {"greet": f"greet_{name}"}}, **{f"greet_{name}": source})
    told = refusal("greet", "you", paths=[tmp_path])
    assert "brought by plugrad-a:greet and plugrad-b:greet" in told and "plugrad prefer cli.greet plugrad-a" in told
    for name in ("a", "b"):
        preferred = {"PLUGRAD_PREFER": f"cli.greet=plugrad-{name}"}
        assert command("greet", "you", paths=[tmp_path], **preferred).stdout == f"{name} you\n"
    assert "greet" in command("--help", paths=[tmp_path]).stdout


@pytest.mark.parametrize("arguments", [("nothing",), ("ops", "--nothing"), ("why",), ("gradcheck", "--jobs", "many")])
def test_wrong_usage_has_status_2(arguments):
    invoke(*arguments, status=2)


DAMAGED_LOCKS = {
    "deep": "a=" + "[" * 100_000, "no list": "format = 1\ndistribution = 3",
    "a table": "format = 1\n[distribution]\na = 1",
    "numbers": "format = 1\ndistribution = [1]", "name": "format = 1\n[[distribution]]\nname = 3\nversion = '1'",
    "version": "format = 1\n[[distribution]]\nname = 'a'\nversion = ['1']", "none": "format = 1\n[[distribution]]\n",
    "record": "format = 1\n[[distribution]]\nname = 'a'\nversion = '1'\nrecord = 5", "other format": "format = 9",
    "escapes": 'format = 1\n[[distribution]]\nname = "a\\u001b[31m"\nversion = "1"', "cut": "format = 1\n[[distr",
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED_LOCKS)
def test_damaged_lock_files(name, tmp_path):
    file = tmp_path / "plugrad.lock"
    file.write_text(DAMAGED_LOCKS[name])
    said = plain(invoke("plugins", "verify", file, status=2))
    assert "Invalid value" in said and "\x1b" not in said


@pytest.mark.parametrize(
    ("arguments", "subject", "plugin"),
    [
        (["exp"], "plugrad.Tensor.exp", "plugrad:ops-exponential"),
        (["optim.Adam"], "plugrad.optim.Adam", "plugrad:optim-adam"),
        (["backward"], "plugrad.Tensor.backward", None),
        (["exp", "--device", "cpu"], "device cpu", "plugrad:backends-cpu"),
    ],
)
def test_why_prints_as_json_what_it_says(arguments, subject, plugin):
    told = rows("why", *arguments)
    (row,) = [row for row in told if row["name"] == subject]
    assert row["plugin"] == plugin and (plugin is None or plugin in row["candidates"])
    text = " ".join(invoke("why", *arguments).stdout.split())
    for row in told:
        assert all(" ".join(part.split()) in text for part in (row["text"], *row["notes"]))
    invoke("why", "no_such_name", "--json", status=2)


def test_why_tells_of_clashes_as_json(tmp_path):
    promised = {name: {"plugrad.ops": {"twice": f"nowhere_{name}"}} for name in ("one", "two")}
    paths = [build(tmp_path / name, f"plugrad-{name}", groups) for name, groups in promised.items()]
    told = json.loads(command("why", "twice", "--json", paths=paths).stdout)
    places = {row["name"]: (row["plugin"], row["candidates"]) for row in told}
    assert places["plugrad.twice"] == (None, ["plugrad-one:twice", "plugrad-two:twice"])
    assert places["plugrad.ops.two.twice"] == ("plugrad-two:twice", ["plugrad-two:twice"])


ROWS = [
    "ops exp", "plugins", "losses", "layers", "inits", "init-policies", "optimizers", "schedulers", "distributions",
    "formats", "trackers", "hooks", "compilers", "backends", "doctor", "prefer", "cache", "why exp",
    "check exp -k value", "gradcheck exp --fast",
]  # fmt: skip


@pytest.mark.parametrize("arguments", ROWS)
def test_rows_are_a_list_of_objects_with_the_same_keys_as_json(arguments):
    assert len({tuple(row) for row in rows(*arguments.split())}) <= 1


@pytest.mark.parametrize(("status", "left"), [(0, 0), (2, 2), (None, 0), ("a message", 1)])
def test_commands_end_though_a_plugin_has_left_a_thread_running(status, left, monkeypatch, capfd):
    ended, done = [], threading.Event()
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(sys, "argv", ["plugrad", "plugins"])
    monkeypatch.setattr(cli, "app", lambda: sys.exit(status))
    thread = threading.Thread(target=done.wait, name="left")
    thread.start()
    try:
        with pytest.raises(SystemExit), pytest.warns(errors.PluginWarning, match="'left'"):
            cli.main()
        sys.argv[1] = "run"  # a program waits for its threads
        with pytest.raises(SystemExit):
            cli.main()
    finally:
        done.set()
        thread.join()
    assert ended == [left]
    with pytest.raises(SystemExit):
        cli.main()
    assert ended == [left]
