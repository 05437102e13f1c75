"""Writing a file so that at every moment, even of a power failure, its name leads to the old content or to the new.

The content goes to a temporary file beside it, which is flushed to the medium and then takes the name; the folder is
flushed as well. A process that was killed leaves its temporary file behind: who next writes a file of that name removes
it, knowing by a lock, which ends with a process, that nobody writes it any more.

A new content is for nobody else than the old one was: it takes the owner and permissions of the file that it replaces,
and a file that may not be written is not. Devices and pipes, which have no old content, are written as they are.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat

from plugrad.interrupts import held_back

try:
    import fcntl
except ImportError:  # Windows, where a file that is open can't be removed
    fcntl = None

_TEMPORARY = re.compile(r"\.[0-9a-f]{12}\.tmp")


@contextlib.contextmanager
def replacing(path):
    """Yield a new file for writing, which takes a path's place at the block's end.

    If it ends without an error.
    """
    if not os.fspath(path):
        raise RuntimeError("invalid file name: it is empty")
    old = os.stat(path) if os.path.exists(path) else None
    if old is not None and not stat.S_ISREG(old.st_mode):
        with open(path, "wb") as file:
            yield streamed(file)
        return
    path = os.path.realpath(path)  # through a link PyTorch writes to what it leads to
    name = os.fsdecode(path)
    if old is not None:
        with held_back():  # else it would be left open for a moment
            open(name, "ab").close()  # raises PermissionError
    _remove_stale(name)
    temporary = file = None
    try:
        with held_back():
            temporary, file = _created(name, old)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:  # while it is locked: else another writer of that name takes it for a stale one
                os.replace(temporary, name)
        if fcntl is None:
            os.replace(temporary, name)
        _flush_folder(os.path.dirname(name))
    finally:
        if file is not None:
            file.close()
            with contextlib.suppress(FileNotFoundError):
                os.remove(temporary)


class _Stream:
    """A file that says nothing of a position."""

    def __init__(self, file):
        self.write, self.flush = file.write, file.flush


def streamed(file):
    """Return an open file; that of a device, which says that it is always at 0, as one without a position.

    What has little more than `write` has no position either.
    """
    try:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (AttributeError, TypeError, ValueError, OSError):
        return file if hasattr(file, "seekable") else _Stream(file)
    return file if regular else _Stream(file)


def _created(name, old):
    """Return the path of a temporary file and the file, open, locked, and for whom the `old` one was."""
    folder = os.path.dirname(name)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    while True:
        temporary = f"{name}.{os.urandom(6).hex()}.tmp"
        file = open(temporary, "xb", opener=lambda path, flags: os.open(path, flags, 0o600 if old else 0o666))
        if fcntl is None:
            return temporary, file
        try:
            if old is not None:
                with contextlib.suppress(PermissionError):  # only a superuser gives files away
                    os.fchown(file.fileno(), old.st_uid, old.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(old.st_mode))
            with contextlib.suppress(OSError):  # file systems without locks: no other process can lock it either
                fcntl.flock(file, fcntl.LOCK_EX)
            if os.path.exists(temporary):  # else somebody took it for a stale one before it was locked
                return temporary, file
        except BaseException:
            file.close()
            os.remove(temporary)
            raise
        file.close()


def _remove_stale(name) -> None:
    """Remove temporary files for a path whose writers are gone."""
    folder, base = os.path.split(name)
    with contextlib.suppress(OSError):  # it may be a folder that may be written and not listed
        for entry in os.listdir(folder):
            if entry.startswith(base) and _TEMPORARY.fullmatch(entry, len(base)):
                _remove_unlocked(os.path.join(folder, entry))


def _remove_unlocked(path) -> None:
    with contextlib.suppress(OSError), open(path, "rb") as file:  # OSError: it is locked, or just gone
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.remove(path)


def _flush_folder(folder) -> None:
    """Bring the new name to the medium, where the system has folders that can be flushed."""
    if fcntl is None:
        return
    with held_back():  # a number, unlike a file, is closed by nobody when it is dropped
        number = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # file systems that refuse it, such as some over the network
                os.fsync(number)
        finally:
            os.close(number)
