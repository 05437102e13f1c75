"""What a person sees: tables at any width, names and texts of strangers, hints, and the working directory's word."""

import os
import pty
import subprocess
import sys
import textwrap

import pytest
from typer import Context
from typer.main import get_command

from plugrad.cli import MODULES, app
from support.command_line import invoke, plain
from support.distribution_builder import build, op_module, output, run


def on_terminal(width, *arguments, environment=()):
    """Return what the command prints on a terminal of a width."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    inherited = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "plugrad.cli", *arguments], stdout=theirs, stderr=theirs, stdin=theirs,
        env={**inherited, **dict(environment)},
    )  # fmt: skip
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        text += part
    process.wait(60)
    os.close(ours)
    return text.decode().replace("\r", "")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_tables_fit_the_terminal(width):
    lines = on_terminal(width, "ops", "softmax").splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("masked.softmax ") or line == "masked.softmax" for line in lines) == 1
    assert len(lines) < 90
    text = " ".join(" ".join(lines).split())
    assert "softmax(input, dim, *, dtype=None, mask=None, out=None)" in text and "special.log_softmax" in text


WRONG = op_module("bent", "input * input") + """
@bent.samples
def bent_samples(make):
    yield make(3)
"""
REPORTS = [
    ("coverage", "sin", "matmul"), ("check", "bent.py", "-k", "gradient"), ("gradcheck", "sin", "--fast"), ("doctor",),
]  # fmt: skip


@pytest.mark.parametrize("command", REPORTS, ids=lambda command: command[0])
@pytest.mark.parametrize("width", [50, 80])
def test_reports_fit_the_terminal_as_listings_do(command, width, tmp_path, monkeypatch):
    (tmp_path / "bent.py").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    gone = build(tmp_path / "gone", "plugrad-gone", {"plugrad.ops": {"gone": "module_that_nobody_finds_any_more"}})
    shown = on_terminal(width, *command, environment={"PYTHONPATH": str(gone), "TERM": "dumb"}.items())
    lines = [line.rpartition("\r")[2] for line in shown.splitlines()]
    assert max(map(len, lines)) <= width, max(lines, key=len)
    text = " ".join(" ".join(lines).split())
    told = {
        "coverage": "works: b bool", "check": "FAILED", "gradcheck": "1 op: ", "doctor": "install plugrad-gone again",
    }  # fmt: skip
    assert told[command[0]] in text


def test_a_pipe_gets_reports_as_they_are(tmp_path):
    (tmp_path / "bent.py").write_text(WRONG)
    done = run(None, arguments=["-m", "plugrad.cli", "check", "bent.py", "-k", "gradient"], cwd=tmp_path)
    (line,) = [line for line in done.stdout.splitlines() if ", gradient: " in line]
    assert line.startswith("    op 'bent_py.bent' of bent.py (a file), gradient: ") and len(line) > 80
    done = run(None, arguments=["-m", "plugrad.cli", "coverage", "sin"], PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "\\xb7 not applicable" in done.stdout, done.stdout + done.stderr


def test_a_pipe_gets_one_line_for_each_row():
    lines = invoke("ops", "softmax").stdout.splitlines()
    (line,) = [line for line in lines if line.startswith("masked.softmax ")]
    assert "mask=None, out=None)" in line and line.endswith("plugrad:ops-masked_reductions")


def strange(folder):
    source = op_module("strange").replace("strange of each element.", "Red \\x1b[31m, bell \\x07, größer, 日本.")
    return build(folder, "plugrad-strange", {"plugrad": {"strange": "strange_module"}}, strange_module=source)


def test_what_strangers_write_does_not_steer_the_terminal(tmp_path):
    arguments = ["-m", "plugrad.cli", "ops", "show", "strange"]
    shown = run(None, strange(tmp_path), arguments=arguments, PYTHONIOENCODING="utf-8")
    assert shown.returncode == 0, shown.stderr
    assert "\x1b" not in shown.stdout and "\x07" not in shown.stdout
    assert "Red \\x1b[31m, bell \\x07, größer, 日本." in shown.stdout


def test_what_strangers_raise_does_not_steer_the_terminal_either(tmp_path):
    source = r"raise ValueError('\x1b[2J wiped \x07')"
    folder = build(tmp_path, "plugrad-rude", {"plugrad.ops": {"rude": "plugrad_rude"}}, plugrad_rude=source)
    for arguments in (["check", "nothing"], ["plugins", "--load"], ["why", "rude"], ["check", "plugrad-rude"]):
        told = run(None, folder, arguments=["-m", "plugrad.cli", *arguments])
        assert not {"\x1b", "\x07"} & {*told.stdout, *told.stderr}, (arguments, told)
    told = run("import plugrad; plugrad.rude", folder).stderr.splitlines()[-1]
    assert "ValueError: \\x1b[2J wiped \\x07" in told, told


@pytest.mark.parametrize("command", ["graph", "migrate", "inspect", "check", "why"])
def test_names_that_are_refused_do_not_steer_it(command):
    told = invoke(command, "\x1b[2Jno such thing\x07.py", status=2).output
    assert "\x07" not in told and "\x1b[2J" not in told, told


def test_a_terminal_of_few_letters_shows_the_others_escaped(tmp_path):
    folder = strange(tmp_path)
    for arguments in (["ops", "show", "strange"], ["ops", "strange"], ["plugins"]):
        shown = run(None, folder, arguments=["-m", "plugrad.cli", *arguments], PYTHONIOENCODING="ascii")
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.isascii()


def test_misspelt_commands_have_a_hint():
    assert "did you mean verify?" in plain(invoke("plugins", "verfy", status=2))
    assert "did you mean show?" in plain(invoke("ops", "shw", "mul", status=2))
    assert "no op matches" in invoke("ops", "verfy").stdout
    assert "plugrad ops list --help` tells what can be searched for" in " ".join(invoke("ops", "--help").output.split())


def test_a_new_package_below_a_file_is_an_error_without_traceback(tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("new", "thing", "--directory", tmp_path / "file" / "below", status=2)
    assert "can't be written" in plain(result) and result.exception.__class__ is SystemExit


@pytest.mark.parametrize("command", [("check", "relu", "--junit"), ("coverage", "relu", "--html")])
def test_a_report_that_cant_be_written_is_refused_before_anything_is_measured(tmp_path, command):
    (tmp_path / "file").write_text("")
    result = invoke(*command, tmp_path / "file" / "report", status=2)
    assert "report can't be written: Not a directory" in plain(result)
    assert "relu:" not in result.output and "1 op" not in result.output


def paragraphs(text):
    return [" ".join(part.split()) for part in text.split("\n\n")]


@pytest.mark.parametrize("name", sorted({*MODULES}))
def test_help_fits_80_columns_and_breaks_no_sentence_elsewhere(name):
    shown = invoke(name, "--help").output
    assert max(map(len, shown.splitlines())) <= 80
    command = get_command(app).get_command(Context(get_command(app)), name)
    for paragraph in paragraphs(command.help):
        assert "\n".join(textwrap.wrap(paragraph, 78)) in "\n".join(line.strip() for line in shown.splitlines())


HELPS = """
import sys
from plugrad.cli import MODULES, main
for words in ([], *([name] for name in MODULES), ["ops", "list"], ["plugins", "list"], ["plugins", "verify"]):
    print("#", *words)
    sys.argv = ["plugrad", *words, "--help"]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code
"""


@pytest.mark.parametrize("width", [42, 59, 60, 80])
def test_help_fits_narrow_terminals_of_few_letters(width):
    shown = output(HELPS, COLUMNS=str(width), PYTHONIOENCODING="ascii")
    assert shown.isascii()
    assert all(option in shown for option in ("--timeout", "--no-gradient", "composite"))  # none lost its last letters
    wide = [line for line in shown.splitlines() if len(line) > width and "\\u2026" not in line]
    assert not wide, wide[0]


# ---------------------------------------------------------------------------------------------------- settings

REPLACING = op_module("sin", "100 + 0 * input", "override=True")
SIN = "import plugrad; print(plugrad.zeros(1).sin().item())"


def replacing(folder):
    return build(folder / "packages", "plugrad-mine", {"plugrad.ops": {"sin": "mine_module"}}, mine_module=REPLACING)


def project(folder, text='[tool.plugrad]\nprefer = {sin = "plugrad-mine"}\n'):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)
    return folder


def test_a_project_that_replaces_what_is_plugrads_own_says_so(tmp_path):
    done = run(SIN, replacing(tmp_path), cwd=project(tmp_path / "project"))
    assert done.stdout == "100.0\n"
    (line,) = done.stderr.splitlines()
    assert "'sin' is that of plugrad-mine:sin in place of plugrad's own, preferred by" in line
    assert output(SIN, replacing(tmp_path / "again")) == "0.0\n"


def test_settings_above_the_root_of_the_project_do_not_count(tmp_path):
    project(tmp_path)
    (tmp_path / "repository" / ".git").mkdir(parents=True)
    (tmp_path / "repository" / "below").mkdir()
    assert output(SIN, replacing(tmp_path), cwd=tmp_path / "repository" / "below") == "0.0\n"
    home = tmp_path / "home"
    (home / "below").mkdir(parents=True)
    assert output(SIN, replacing(tmp_path / "two"), cwd=home / "below", HOME=str(home)) == "0.0\n"
    (tmp_path / "plain" / "below").mkdir(parents=True)
    assert run(SIN, replacing(tmp_path / "three"), cwd=tmp_path / "plain" / "below").stdout == "100.0\n"


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a file away")
def test_settings_of_another_user_do_not_count(tmp_path):
    folder = project(tmp_path / "project")
    os.chown(folder / "pyproject.toml", 12345, 12345)
    done = run(SIN, replacing(tmp_path), cwd=folder)
    assert done.stdout == "0.0\n"
    assert "belongs to another user, so its settings for plugrad don't count" in done.stderr


def test_a_misspelt_setting_costs_a_warning(tmp_path):
    folder = project(tmp_path, "[tool.plugrad]\nprefr = {}\n")
    done = run(SIN, replacing(tmp_path), cwd=folder)
    assert "has no setting 'prefr' for plugrad; did you mean 'prefer'?" in done.stderr
