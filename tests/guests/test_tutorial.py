"""docs/first_package.md, followed word for word in a new environment: commands, files, sessions, and what they show."""

from __future__ import annotations

import doctest
import pathlib
import re

from support import fresh_environment
from support.fresh_environment import run

TUTORIAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "first_package.md"
BLOCK = re.compile(r"(?:^\*\*`(?P<file>[^`]+)`\*\*\n\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


def blocks():
    """Return (line number, kind, text, file name or None) of every code block."""
    source = TUTORIAL.read_text()
    matches = BLOCK.finditer(source)
    return [(source.count("\n", 0, block.start("kind")) + 1, *block.group("kind", "text", "file")) for block in matches]


def test_every_block_is_of_a_kind_that_is_run():
    listed = blocks()
    assert TUTORIAL.read_text().count("```") == 2 * len(listed)
    assert {language for _, language, _, _ in listed} == {"bash", "python", "text"}
    for (_, before, _, _), (line, language, text, file) in zip(listed, listed[1:]):
        assert language != "text" or before == "bash", f"line {line}: output of nothing"
        assert language != "python" or file or ">>>" in text, f"line {line}: neither a file nor a session"


def test_the_tutorial_word_for_word(tmp_path):
    variables, folder, shown = fresh_environment.make(tmp_path), tmp_path / "work", ""
    folder.mkdir()
    for line, language, text, file in blocks():
        if language == "bash":
            shown = run(["bash", "-euo", "pipefail", "-c", f"{text}\npwd > {tmp_path}/folder"], variables, folder)
            folder = pathlib.Path((tmp_path / "folder").read_text().strip())
        elif language == "text":
            right = doctest.OutputChecker().check_output(f"{text.strip()}\n", f"{shown.strip()}\n", doctest.ELLIPSIS)
            assert right, f"line {line}: the tutorial shows\n{text}\nbut this comes out\n{shown}"
        elif file is not None:
            assert (folder / file).is_file(), f"line {line}: there is no {file} to replace"
            (folder / file).write_text(text)
        else:
            session = tmp_path / f"line {line}"
            session.write_text(text)
            run(["python", "-m", "doctest", "-o", "ELLIPSIS", str(session)], variables, folder)
