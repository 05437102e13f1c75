"""Programs in PyTorch's older style, rewritten: `Variable`, `volatile`, `.data[0]`, Functions as instances.

The text stays as it is wherever nothing is rewritten: what changes are pieces of the source between two positions.
"""

from __future__ import annotations

import dataclasses

from plugrad.migrate.functions import call_edits, class_edits
from plugrad.migrate.source import Source
from plugrad.migrate.variables import variable_edits

__all__ = ["Migrated", "migrated"]

_ROUNDS = 50


@dataclasses.dataclass
class Migrated:
    """What became of a program: its `text`, and `notes` as pairs (line, what the user has to look at)."""

    text: str
    notes: list[tuple[int, str]]


def migrated(text: str) -> Migrated:
    """Return a program with its older forms rewritten to today's.

    Raises SyntaxError for what is no Python program.

    >>> from plugrad.migrate import migrated
    >>> print(migrated("x = Variable(torch.ones(2), requires_grad=True)").text)
    x = torch.ones(2).requires_grad_()
    """
    notes: dict = {}
    for rule in (call_edits, class_edits, variable_edits):
        for _ in range(_ROUNDS):  # a piece that is rewritten may hold others, as in `Variable(loss.data[0])`
            source = Source(text)
            before, text = text, source.edited(rule(source))
            notes = source.notes | notes
            if text == before:
                break
    return Migrated(text, sorted((line, note) for note, line in notes.items()))
