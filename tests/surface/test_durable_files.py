"""Saving: the old file stays whole until the new one is, whatever happens; in the background as well."""

import errno
import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

import plugrad
from plugrad.serialization import save_async
from support.threads import at_once

FORMATS = ["plugrad", "torch", "safetensors", "npz"]
KILLED = """
import os, signal, sys
import plugrad
from plugrad.formats import durable
path, form, point = sys.argv[1:]

class Dying:
    def __init__(self, file):
        self.file, self.left = file, int(point)
    def __getattr__(self, name):
        return getattr(self.file, name)
    def write(self, data):
        self.left -= 1
        if self.left == 0:
            self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.file.write(data)
    def __enter__(self):
        return self
    def __exit__(self, *args):
        return self.file.__exit__(*args)

created = durable._created
durable._created = lambda *args: (lambda temporary, file: (temporary, Dying(file)))(*created(*args))
plugrad.save({"w": plugrad.zeros(1000)}, path, format=form)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system has no SIGKILL")
@pytest.mark.parametrize("form", FORMATS)
def test_a_killed_save_leaves_the_old_file(form, tmp_path):
    path = tmp_path / "w"
    plugrad.save({"w": plugrad.ones(1000)}, path, format=form)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), form, "2"], timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert plugrad.load(path)["w"].sum() == 1000
    assert len(list(tmp_path.iterdir())) == 2  # a temporary file is left
    plugrad.save({"w": plugrad.zeros(1000)}, path, format=form)
    assert [one.name for one in tmp_path.iterdir()] == ["w"]


@pytest.mark.parametrize("form", FORMATS)
def test_a_full_disk_leaves_the_old_file(form, tmp_path, monkeypatch):
    path = tmp_path / "w"
    plugrad.save({"w": plugrad.ones(3)}, path, format=form)

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        plugrad.save({"w": plugrad.zeros(3)}, path, format=form)
    monkeypatch.undo()
    assert plugrad.load(path)["w"].sum() == 3 and len(list(tmp_path.iterdir())) == 1


def test_file_and_folder_are_flushed_around_the_renaming(tmp_path, monkeypatch):
    steps = []
    replace, fsync = os.replace, os.fsync
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("replace"), replace(*names)))
    monkeypatch.setattr(os, "fsync", lambda number: (steps.append("flush"), fsync(number)))
    plugrad.save(plugrad.ones(3), tmp_path / "w")
    assert steps == (["flush", "replace"] if os.name == "nt" else ["flush", "replace", "flush"])


@pytest.mark.skipif(os.name == "nt", reason="it is locks that tell who still writes")
@pytest.mark.skipif(not hasattr(os, "fchmod"), reason="the system has no such permissions")
def test_what_was_secret_stays_secret(tmp_path, monkeypatch):
    """Nobody may open the new file who could not open the old one, while it is being written neither."""
    path, seen, flushed = tmp_path / "w", [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (seen.append(os.fstat(number).st_mode), flushed(number)))
    for mode in (0o600, 0o640):
        path.touch()
        path.chmod(mode)
        plugrad.save(1, path)
        assert stat.S_IMODE(path.stat().st_mode) == mode and stat.S_IMODE(seen[0]) == mode
        path.unlink()
        seen.clear()
    path.touch()
    path.chmod(0o444)
    if os.access(path, os.W_OK):  # a superuser's
        plugrad.save(1, path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o444
    else:
        with pytest.raises(PermissionError):
            plugrad.save(1, path)
        assert path.stat().st_size == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
@pytest.mark.parametrize("form", FORMATS)
def test_pipes_and_devices_are_written_and_not_replaced(form, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    plugrad.save({"w": plugrad.ones(3)}, tmp_path / "pipe", format=form)
    assert plugrad.load(io.BytesIO(os.read(reader, 2**16)))["w"].tolist() == [1, 1, 1]
    os.close(reader)
    assert [stat.S_ISFIFO(one.stat().st_mode) for one in tmp_path.iterdir()] == [True]
    command = f"import plugrad; plugrad.save({{'w': plugrad.ones(3)}}, '/dev/stdout', format={form!r})"
    done = subprocess.run([sys.executable, "-c", command], stdout=subprocess.PIPE, timeout=120, check=True)
    assert plugrad.load(io.BytesIO(done.stdout))["w"].tolist() == [1, 1, 1]
    with open(os.devnull, "wb") as file:  # where it is does not change
        plugrad.save({"w": plugrad.ones(3)}, file, format=form)


def test_files_that_are_being_written_are_no_stale_ones(tmp_path):
    from plugrad.formats.durable import replacing

    path = tmp_path / "w"
    other = tmp_path / "w.notes.tmp"
    other.write_text("a program's own")
    with replacing(path) as file:
        file.write(b"first")
        plugrad.save(plugrad.ones(3), path)
        assert plugrad.load(path).sum() == 3
    assert path.read_bytes() == b"first" and other.exists() and len(list(tmp_path.iterdir())) == 2


def test_several_write_one_file_at_once(tmp_path):
    path = tmp_path / "x.pt"

    def write(number):
        for _ in range(30):
            plugrad.save({"a": plugrad.full((50,), float(number))}, path)
            content = plugrad.load(path)["a"]
            assert bool((content == content[0]).all())

    at_once(*[lambda number=number: write(number) for number in range(6)])
    assert [one.name for one in tmp_path.iterdir()] == ["x.pt"]


def test_saving_in_the_background(tmp_path):
    model = plugrad.nn.Linear(2, 2)
    weight = model.weight.detach().clone()
    futures = [
        save_async(model.state_dict(), tmp_path / f"{number}.pt", format=form)
        for number, form in enumerate([None, "torch"])
    ]
    with plugrad.no_grad():
        model.weight.zero_()
    for number, future in enumerate(futures):
        assert future.result(60) is None and future.done()
        assert plugrad.load(tmp_path / f"{number}.pt")["weight"].equal(weight)
    with open(tmp_path / "x", "wb") as file, pytest.raises(TypeError, match="path"):
        save_async(1, file)


def test_no_thread_stays_where_nothing_is_to_be_written(tmp_path):
    for number in range(3):
        save_async(number, tmp_path / "x.pt")
    while writers := [one for one in threading.enumerate() if one.name.startswith("plugrad.save_async")]:
        writers[0].join(60)
        assert not writers[0].is_alive()
    assert plugrad.load(tmp_path / "x.pt") == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_process_has_a_writer_of_its_own(tmp_path):
    program = """
import os, sys, plugrad
from plugrad.serialization import save_async
save_async(plugrad.ones(2), sys.argv[1]).result(60)
child = os.fork()
if not child:
    save_async(plugrad.zeros(2), sys.argv[1]).result(60)
    os._exit(0)
sys.exit(os.waitpid(child, 0)[1])
"""
    path = tmp_path / "w"
    subprocess.run([sys.executable, "-W", "ignore", "-c", program, str(path)], timeout=120, check=True)
    assert plugrad.load(path).tolist() == [0, 0]


def test_errors_in_the_background_are_told(tmp_path):
    gone = tmp_path / "gone" / "x.pt"
    with pytest.raises(RuntimeError, match="does not exist"):
        save_async(1, gone).result(60)
    plugrad.save(1, tmp_path / "a.pt")  # it was asked for
    future = save_async(1, gone)
    while not future.done():
        pass
    with pytest.raises(RuntimeError, match="does not exist"):
        plugrad.save(1, tmp_path / "b.pt")
    plugrad.save(1, tmp_path / "b.pt")
    assert type(future.exception(60)) is RuntimeError


class Lines(plugrad.formats.Format):
    """A guest's format: a number on each line."""

    name, suffixes = "lines", (".lines",)

    def recognises(self, source):
        """Whether it begins as one."""
        return source.head.startswith(b"#lines")

    def load(self, source, options):
        """Return a tensor."""
        return plugrad.tensor([float(line) for line in source.read(0, source.size, "the lines").split()[1:]])

    def save(self, obj, file):
        """Write a tensor."""
        file.write(b"#lines" + b"".join(f"\n{value}".encode() for value in obj.tolist()))


def test_formats_of_others(tmp_path):
    path = tmp_path / "x.lines"
    with pytest.raises(ValueError, match="no format named 'lines'; installed are plugrad, torch, safetensors, npz"):
        plugrad.save(plugrad.ones(2), path, format="lines")
    plugrad.extend.register(formats=[Lines])
    try:
        plugrad.save(plugrad.tensor([1.0, 2.5]), path, format="lines")
        assert plugrad.load(path).tolist() == [1, 2.5]
        assert plugrad.formats.by_suffix(path).name == "lines" and "lines" in plugrad.formats.names()
        with pytest.raises(NotImplementedError, match="does not describe"):
            plugrad.serialization.describe(path)
    finally:
        plugrad.extend.unregister(Lines)
    with pytest.raises(plugrad.serialization.CheckpointError, match="none of the formats"):
        plugrad.load(path)


@pytest.mark.parametrize("name", FORMATS)
def test_ours_pass_the_checks_of_formats(name):
    cases = plugrad.testing.checks_of(type(plugrad.formats.get(name)))
    assert {"round trip", "truncated"} <= {case.name for case in cases}
    for case in cases:
        case.run()


def test_a_format_that_takes_half_a_file_fails_its_checks():
    plugrad.extend.register(formats=[Lines])
    try:
        Lines.samples = staticmethod(lambda: [plugrad.ones(4)])
        cases = {case.name: case for case in plugrad.testing.checks_of(Lines)}
        cases["round trip"].run()
        with pytest.raises(AssertionError, match="loaded"):
            cases["truncated"].run()
    finally:
        del Lines.samples
        plugrad.extend.unregister(Lines)


# ------------------------------------------------------------------------------------------------ several files


def state(scale=1.0):
    return {name: plugrad.full((n,), scale * n) for name, n in {"a": 30, "b": 20, "c": 100, "d": 1}.items()}


def loads(path, expected):
    loaded = plugrad.load(path)
    return [*loaded] == [*expected] and all(plugrad.equal(loaded[name], value) for name, value in expected.items())


def test_several_files_of_a_size_and_their_index(tmp_path):
    path, index = tmp_path / "model.safetensors", tmp_path / "model.safetensors.index.json"
    plugrad.save(state(), path, format="safetensors")
    plugrad.save(state(), path, format="safetensors", max_shard_size="0.2kB")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *(f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)), "model.safetensors.index.json",
    ]  # fmt: skip
    described = json.loads(index.read_text())
    assert described["metadata"] == {"total_size": 604} and loads(index, state())
    assert described["weight_map"] == {
        name: f"model-0000{n}-of-00003.safetensors" for name, n in {"a": 1, "b": 1, "c": 2, "d": 3}.items()
    }
    plugrad.save(state(2.0), index, format="safetensors", max_shard_size=200)
    assert loads(index, state(2.0)) and len([*tmp_path.iterdir()]) == 4
    plugrad.save(state(3.0), path, format="safetensors", max_shard_size="1GB")
    assert [*tmp_path.iterdir()] == [path] and loads(path, state(3.0))


@pytest.mark.parametrize("failing", range(4))
def test_files_that_are_not_all_written_leave_the_old_ones(failing, tmp_path, monkeypatch):
    path, index = tmp_path / "model.safetensors", tmp_path / "model.safetensors.index.json"
    plugrad.save(state(), path, format="safetensors", max_shard_size=200)
    before = sorted(file.name for file in tmp_path.iterdir())
    done = iter(range(10))

    def flush(number):
        if next(done) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", lambda number: None if stat.S_ISDIR(os.fstat(number).st_mode) else flush(number))
    with pytest.raises(OSError, match="No space left"):
        plugrad.save(state(2.0), path, format="safetensors", max_shard_size=200)
    assert sorted(file.name for file in tmp_path.iterdir()) == before and loads(index, state())


def test_sizes_and_formats_that_files_can_not_have(tmp_path):
    for size in ("5 apples", 0, -1, 1.5, True, "", "-5GB"):
        with pytest.raises(ValueError, match="max_shard_size is a number of bytes"):
            plugrad.save(state(), tmp_path / "x.safetensors", format="safetensors", max_shard_size=size)
    with pytest.raises(NotImplementedError, match="'torch' is written to one file"):
        plugrad.save(state(), tmp_path / "x.pt", format="torch", max_shard_size=10)
    with pytest.raises(ValueError, match="pass a path"):
        plugrad.save(state(), io.BytesIO(), format="safetensors", max_shard_size=10)
    with pytest.raises(TypeError, match="'z' is int"):
        plugrad.save({**state(), "z": 1}, tmp_path / "x.safetensors", format="safetensors", max_shard_size=10)
    assert not [*tmp_path.iterdir()]
