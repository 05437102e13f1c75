"""How messages travel between a loader and its workers: objects by pickle, large arrays in shared memory.

The memory has no name: it is a file without a folder (`memfd_create`), of which the open file travels through the pipe,
a socket of the system's. So nothing is left behind however a process ends: the system frees it with its last user.
Where there is no such memory, or no more of it, arrays go through the pipe as they lie in memory.
"""

from __future__ import annotations

import array
import contextlib
import io
import mmap
import os
import pickle
import socket
from multiprocessing.reduction import ForkingPickler

from plugrad.extend import held_back

SMALLEST = 1 << 16  # bytes of arrays for which memory of their own is faster than the pipe
MOST = 256  # pieces of shared memory at a time in one process: Python keeps a file open for each
_ALIGNED = 64
_SHARES = hasattr(os, "memfd_create") and hasattr(socket, "SCM_RIGHTS")
_live = 0  # pieces that this process has been handed


class _Shared(mmap.mmap):
    """A piece of shared memory; it is unmapped with the last array in it."""

    def __del__(self):
        global _live
        _live -= 1


def send(connection, message) -> None:
    """Send an object; its arrays go through shared memory, or through the pipe without a copy in between."""
    buffers: list = []
    content = io.BytesIO()
    ForkingPickler(content, 5, None, buffers.append).dump(message)
    parts = [buffer.raw() for buffer in buffers]
    sizes = [part.nbytes for part in parts]
    with held_back():  # the other end could not tell half of a message from the next one, and files would stay open
        shared = _filled(parts, sizes) if _SHARES and sum(sizes) >= SMALLEST else None
        connection.send_bytes(pickle.dumps((sizes, shared is not None)))
        connection.send_bytes(content.getbuffer())
        if shared is not None:
            try:
                _send_file(connection, shared)
            finally:
                os.close(shared)
            return
        for part in parts:
            if part.nbytes:
                connection.send_bytes(part)


def receive(connection):
    """Return the object that `send` sent."""
    sizes, shared = pickle.loads(connection.recv_bytes())
    content = connection.recv_bytes()
    if shared:
        with held_back():
            buffers = _mapped(_receive_file(connection), sizes)
        return pickle.loads(content, buffers=buffers)
    buffers = []
    for size in sizes:
        buffers.append(bytearray(size))
        if size:
            connection.recv_bytes_into(buffers[-1])
    return pickle.loads(content, buffers=buffers)


def _places(sizes):
    """Return where each part begins, and where the last one ends."""
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // _ALIGNED) * _ALIGNED
    return places, end


def _filled(parts, sizes):
    """Return a file in memory with the parts in it; None where the system has no more memory or files."""
    places, end = _places(sizes)
    try:
        number = os.memfd_create("plugrad loader", os.MFD_CLOEXEC)
    except OSError:
        return None
    try:
        os.posix_fallocate(number, 0, end)  # without it, too little memory would be a signal at the first write
        for part, place in zip(parts, places):
            there = 0
            while there < part.nbytes:
                there += os.pwrite(number, part[there:], place + there)
    except OSError:
        os.close(number)
        return None
    except BaseException:
        os.close(number)
        raise
    return number


def _mapped(number, sizes):
    """Return the parts of a file in memory, mapped; copied where this process has too many."""
    global _live
    places, end = _places(sizes)
    try:
        if _live < MOST:
            with contextlib.suppress(OSError):
                memory = memoryview(_Shared(number, end))
                _live += 1
                return [memory[place : place + size] for place, size in zip(places, sizes)]
        return [bytearray(os.pread(number, size, place)) for place, size in zip(places, sizes)]
    finally:
        os.close(number)


def _send_file(connection, number) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as pipe:
        rights = array.array("i", [number])
        pipe.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def _receive_file(connection) -> int:
    with socket.socket(fileno=os.dup(connection.fileno())) as pipe:
        sign, files, _, _ = socket.recv_fds(pipe, 1, 1)
    if not sign:
        raise EOFError
    if not files:
        raise OSError("a worker's memory could not be taken over: this process may open no more files (ulimit -n)")
    return files[0]
