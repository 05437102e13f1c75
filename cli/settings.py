"""Changing one setting in a TOML file as text: everything else stays as it is, byte for byte."""

from __future__ import annotations

import copy
import json
import pathlib
import re

# Where preferences are in a pyproject.toml, and in the user's own file.
PROJECT, USER = ("tool", "plugrad", "prefer"), ("prefer",)


class UneditableError(ValueError):
    """The file can't be changed safely; the message has the line to write by hand."""


def change(file: pathlib.Path, path: tuple, key: str, value: str | None) -> bool:
    """Set a key of a table in a TOML file, or take it away when `value` is None; return whether anything changed.

    Raises UneditableError, and writes nothing, when the text that came out does not mean what was wanted.
    """
    import tomllib

    line = f"[{'.'.join(path)}]  {_key(key)} = {json.dumps(value)}"
    try:
        text = file.read_bytes().decode() if file.is_file() else ""
        wanted = tomllib.loads(text)
    except ValueError as error:
        raise UneditableError(f"{file} is not valid TOML, so nothing was written: {error}") from None
    table = wanted
    for part in path:
        table = table.get(part, {}) if isinstance(table, dict) else {}
    if (table.get(key) if isinstance(table, dict) else None) == value:
        return False
    _set(wanted, path, key, value, line)
    ways = _in_sections, _in_inline_tables, _as_dotted_keys, _as_new_section
    for changed in (changed for way in ways for changed in way(text, path, key, value)):
        if changed is not None and _means(changed, wanted):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(changed.encode())
            return True
    by_hand = f"take {_key(key)} out of [{'.'.join(path)}]" if value is None else f"write under {line}"
    raise UneditableError(f"{file} can't be changed safely, so nothing was written: {by_hand} by hand")


def _set(table, path, key, value, line) -> None:
    """Make the same change in the parsed file, to compare with."""
    for part in path:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise UneditableError(f"{part!r} is not a table there; write by hand: {line}")
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _means(text, wanted) -> bool:
    import tomllib

    try:
        return _without_empty(tomllib.loads(text)) == _without_empty(copy.deepcopy(wanted))
    except ValueError:
        return False


def _without_empty(table):
    """Drop empty tables: whether one is written out makes no difference."""
    if isinstance(table, dict):
        kept = {key: _without_empty(value) for key, value in table.items()}
        return {key: value for key, value in kept.items() if value != {}}
    return table


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _pattern(key: str) -> str:
    """Return a pattern for a key, bare or in quotes."""
    bare = rf"{re.escape(key)}|" if _key(key) == key else ""
    return rf"(?:{bare}\"{re.escape(key)}\"|'{re.escape(key)}')"


def _dotted(path) -> str:
    return r"[ \t]*\.[ \t]*".join(_pattern(part) for part in path)


def _newline(text) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _sections(text, path):
    """Yield (start, end) of what is under headers `[path]`; a string of several lines may hold something like it."""
    header = rf"^[ \t]*\[[ \t]*{_dotted(path)}[ \t]*\][ \t]*(?:#[^\r\n]*)?(?:\r?\n|\Z)"
    for match in re.finditer(header, text, re.M):
        following = re.compile(r"^[ \t]*\[", re.M).search(text, match.end())
        yield match.end(), following.start() if following else len(text)


def _parents(text, path):
    """Yield (start, end) of where the table may be written as a key of its parent."""
    if len(path) == 1:
        yield 0, len(text)
    else:
        yield from _sections(text, path[:-1])


def _in_lines(text, start, end, pattern, key, value):
    """Replace, remove or add a line `key = value` between two places; a new one follows the last one."""
    body, newline = text[start:end], _newline(text)
    line = re.search(rf"^([ \t]*{pattern}[ \t]*=[ \t]*)(\"[^\"\r\n]*\"|'[^'\r\n]*')([^\r\n]*)(\r?\n|\Z)", body, re.M)
    if line is not None:
        changed = "" if value is None else f"{line[1]}{json.dumps(value)}{line[3]}{line[4]}"
        return text[: start + line.start()] + changed + text[start + line.end() :]
    if value is None:
        return None
    used = len(body.rstrip())
    rest = body[used:]
    if used:
        at = start + used + len(re.match(r"[ \t]*(?:\r?\n)?", rest)[0])
    else:
        at = start
    before = newline if at and not text[:at].endswith("\n") else ""
    return f"{text[:at]}{before}{key} = {json.dumps(value)}{newline}{text[at:]}"


def _in_sections(text, path, key, value):
    for place in _sections(text, path):
        yield _in_lines(text, *place, _pattern(key), _key(key), value)


def _in_inline_tables(text, path, key, value):
    """The table is written `prefer = {...}` on a line of its parent's section."""
    item = rf"{_pattern(key)}[ \t]*=[ \t]*(?:\"[^\"]*\"|'[^']*')"
    new = f"{_key(key)} = {json.dumps(value)}"
    for start, end in _parents(text, path):
        match = re.search(rf"^[ \t]*{_pattern(path[-1])}[ \t]*=[ \t]*\{{([^{{}}\r\n]*)\}}", text[start:end], re.M)
        if match is None:
            continue
        inner = match[1]
        if value is None:
            changed = re.sub(rf"[ \t]*,[ \t]*{item}|{item}[ \t]*,?[ \t]*", "", inner, count=1)
        elif re.search(item, inner):
            changed = re.sub(item, lambda _: new, inner, count=1)
        else:
            bare = inner.rstrip()
            changed = f"{bare}, {new}{inner[len(bare) :]}" if bare else new
        yield text[: start + match.start(1)] + changed + text[start + match.end(1) :]


def _as_dotted_keys(text, path, key, value):
    """The table's keys are written `prefer.key = ...` in its parent's section."""
    for place in _parents(text, path):
        if re.search(rf"^[ \t]*{_pattern(path[-1])}[ \t]*\.", text[slice(*place)], re.M):
            yield _in_lines(text, *place, _dotted((path[-1], key)), f"{path[-1]}.{_key(key)}", value)


def _as_new_section(text, path, key, value):
    if value is not None:
        newline = _newline(text)
        gap = "" if not text else newline if text.endswith("\n") else newline * 2
        yield f"{text}{gap}[{'.'.join(path)}]{newline}{_key(key)} = {json.dumps(value)}{newline}"
