"""Writing one object as several files and an index, so that who loads finds all of the old or all of the new."""

from __future__ import annotations

import contextlib
import json
import os
import re

from plugrad.formats.durable import replacing

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{unit}B": 1000**power for power, unit in enumerate("KMGT", 1)}
_UNITS |= {f"{unit}IB": 1024**power for power, unit in enumerate("KMGT", 1)}


def as_bytes(size) -> int:
    """Return a size as a number of bytes: 10000, "500MB" or "2GiB".

    >>> as_bytes("1.5kB"), as_bytes("2KiB"), as_bytes(7)
    (1500, 2048, 7)
    """
    parts = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", size) if isinstance(size, str) else None
    if parts is not None and parts[2].upper() in _UNITS:
        size = int(float(parts[1]) * _UNITS[parts[2].upper()])
    if isinstance(size, bool) or not isinstance(size, int) or size <= 0:
        raise ValueError(f"max_shard_size is a number of bytes or a text such as '5GB', not {size!r}")
    return size


def parts_of(sizes: dict, most: int) -> list[list]:
    """Return names in groups, in their order, of no more bytes than `most`; what is larger is alone.

    >>> parts_of({"a": 3, "b": 3, "c": 9, "d": 1}, 6)
    [['a', 'b'], ['c'], ['d']]
    """
    groups: list = [[]]
    filled = 0
    for name, size in sizes.items():
        if groups[-1] and filled + size > most:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups


def write(path, ending: str, groups: list[dict], total: int, save) -> None:
    """Write one file, or several and the index that leads to them, `PATH.index.json`, which takes its name last.

    No file that an index of that name leads to is written over: until the new index is there, the old one holds. What
    only the old one led to is removed then, and so is a file `PATH`, which others would read instead of the index.

    Args:
        path: what the object is called in one file.
        ending: of that name, such as ".safetensors".
        groups: dicts of what goes into each file.
        total: bytes of all elements, which the index says.
        save: a function that writes such a dict to an open file.
    """
    single = os.path.realpath(os.fspath(path).removesuffix(".index.json"))
    index, folder = f"{single}.index.json", os.path.dirname(single)
    before = _files(index)
    if len(groups) == 1:
        with replacing(single) as file:
            save(groups[0], file)
        _remove(folder, [os.path.basename(index), *before])
        return
    names = _free(single.removesuffix(ending), len(groups), ending, before)
    places = {name: os.path.basename(part) for part, group in zip(names, groups) for name in group}
    done = False
    try:
        for part, group in zip(names, groups):
            with replacing(part) as file:
                save(group, file)
        with replacing(index) as file:
            text = json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=2)
            file.write(f"{text}\n".encode())
        done = True
    finally:
        if not done and not {*_files(index)} & {*places.values()}:  # else the error came after the new index
            _remove(folder, places.values())
    _remove(folder, [os.path.basename(single), *({*before} - {*places.values()})])


def _remove(folder, names) -> None:
    for name in names:
        with contextlib.suppress(OSError):
            os.remove(os.path.join(folder, name))


def _files(index) -> list[str]:
    """Return the files that an index leads to, none if there is no index, or it is no such one."""
    try:
        with open(index, "rb") as file:
            places = json.load(file)["weight_map"].values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
    return [name for name in places if isinstance(name, str) and name == os.path.basename(name)]


def _free(stem, count, ending, taken) -> list[str]:
    """Return names of files that no index leads to: those of Hugging Face's libraries where they are free."""
    generation = 1
    while True:
        mark = "" if generation == 1 else f".{generation}"
        names = [f"{stem}{mark}-{number:05d}-of-{count:05d}{ending}" for number in range(1, count + 1)]
        if not {os.path.basename(name) for name in names} & {*taken}:
            return names
        generation += 1
