"""Lists of what is known to fail: strict, so that a line whose check passes is an error, and a reason in each line.

A line reads `name check  # reason`.
"""

from __future__ import annotations

import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / "known"


def read(file: str) -> dict[str, set[str]]:
    """Return the checks that are known to fail, by name; ValueError for a line without a reason."""
    known: dict[str, set[str]] = {}
    for line in (FOLDER / file).read_text().splitlines():
        entry, _, reason = line.partition("#")
        if not entry.strip():
            continue
        if not reason.strip():
            raise ValueError(f"tests/known/{file}: no reason is given in {line!r}")
        name, check = entry.split()
        known.setdefault(name, set()).add(check)
    return known


def settle(file: str, name: str, failures: dict[str, str]) -> None:
    """Raise AssertionError for failures {check: message} that are not listed, and for listed ones that pass."""
    known = read(file).get(name, set())
    news = [message for check, message in failures.items() if check not in known]
    assert not news, "\n\n".join(news)
    stale = sorted(known - set(failures))
    assert not stale, f"passes now, remove from tests/known/{file}: {', '.join(f'{name} {check}' for check in stale)}"
