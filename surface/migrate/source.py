"""The source of a program: its tree, and pieces of its text by position."""

from __future__ import annotations

import ast


class Source:
    """A parsed program. `notes` are {text: line} of what no rule can decide."""

    def __init__(self, text: str):
        self.text, self.tree, self.notes = text, ast.parse(text), {}
        starts, position = [], 0
        for line in text.splitlines(keepends=True):
            starts.append(position)
            position += len(line)
        self._starts, self._lines = starts, text.splitlines(keepends=True)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def position(self, line: int, column: int) -> int:
        """Return where a line's column is, which Python counts in bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node) -> tuple[int, int]:
        """Return the positions at which a node begins and ends."""
        start = self.position(node.lineno, node.col_offset)
        return start, self.position(node.end_lineno, node.end_col_offset)

    def of(self, node) -> str:
        """Return the text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def operand(self, node) -> str:
        """Return the text of a node so that `.method()` can follow it."""
        simple = isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        return self.of(node) if simple else f"({self.of(node)})"

    def replace(self, node, text) -> tuple:
        """Return the edit that puts a text into the place of a node."""
        return (*self.span(node), text)

    def note(self, node, text) -> None:
        """Tell the user of something that is left to them."""
        self.notes.setdefault(text, node.lineno)

    def edited(self, edits) -> str:
        """Return the text with edits (start, end, text) carried out; of those that overlap, the outer one."""
        text, limit = self.text, len(self.text) + 1
        chosen, end = [], -1
        for edit in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
            if edit[0] >= end:
                chosen.append(edit)
                end = max(edit[1], edit[0])
        for start, stop, new in reversed(chosen):
            assert stop <= limit
            text = text[:start] + new + text[stop:]
            limit = start
        return text


def dotted(node) -> str:
    """Return the dotted name that an expression is, "" for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        home = dotted(node.value)
        return f"{home}.{node.attr}" if home else ""
    return ""


def last(node) -> str:
    """Return the last part of a dotted name."""
    return dotted(node).rpartition(".")[2]
