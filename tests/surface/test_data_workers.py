"""Loaders with worker processes: batches, order, errors, and that no process outlives what started it."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad.utils.data import DataLoader, DistributedSampler, TensorDataset, get_worker_info
from plugrad.utils.data._utils import processes, segments
from support.interrupts import interrupted
from support.loaders import (
    Large,
    Overfull,
    Parts,
    Squares,
    Workers,
    exits,
    fails_to_start,
    killed,
    listed,
    raises,
    waits,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def indices(loader):
    return [batch[0].tolist() for batch in loader]


@pytest.fixture(autouse=True)
def nothing_left():
    gc.freeze()  # what was there before the test is not looked through, neither here nor in a worker
    yield
    gc.collect()
    gc.unfreeze()
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": None}, {"shuffle": True}])
def test_batches_are_those_of_one_process(workers, options):
    torch.manual_seed(3)
    options = {"batch_size": 4, **options}
    expected = [(str(a), str(b)) for a, b in DataLoader(Squares(), **options)]
    torch.manual_seed(3)
    assert [(str(a), str(b)) for a, b in DataLoader(Squares(), **options, num_workers=workers)] == expected


def test_rows_of_tensors_travel_as_they_are():
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    for rows, numbers in DataLoader(data, 3, num_workers=2):
        assert rows.dtype is torch.float32 and torch.equal(rows[:, 0], 2.0 * numbers)
        rows += 1  # memory of its own, that can be written


def maps():
    """Return how many pieces of shared memory this process has; there are no more files open than those."""
    gc.collect()
    with open("/proc/self/maps") as file:
        count = sum("plugrad loader" in line for line in file)
    files = [os.path.join("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    assert sum("plugrad loader" in os.readlink(file) for file in files if os.path.lexists(file)) <= count
    return count


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory without a name on this system")
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_arrays_come_in_shared_memory_that_ends_with_them(context):
    batches = [*DataLoader(Large(), 2, num_workers=2, multiprocessing_context=context)]
    assert maps() == 4
    for number, batch in enumerate(batches):
        assert batch["row"][:, 0].tolist() == batch["array"][:, -1].tolist() == [2 * number, 2 * number + 1]
        batch["row"] += 1  # no other batch's memory
        assert batch["row"].max() == 2 * number + 2 and batch["empty"].shape == (2, 0)
    kept = batches[1]["array"]
    del batches, batch
    assert maps() == 1 and kept[0, 0] == 2
    del kept
    assert maps() == 0


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory without a name on this system")
@pytest.mark.parametrize("what", ["maps", "files", "memory"])
def test_without_room_for_shared_memory_arrays_are_copied(what, monkeypatch):
    def refuses(*arguments):
        raise OSError("no more")

    if what == "maps":
        monkeypatch.setattr(segments, "MOST", 1)
    else:  # forked workers have it, too
        monkeypatch.setattr(os, {"files": "memfd_create", "memory": "posix_fallocate"}[what], refuses)
    batches = [*DataLoader(Large(4), 1, num_workers=1, multiprocessing_context="fork")]
    assert maps() == (what == "maps") and [batch["row"][0, -1].item() for batch in batches] == [0, 1, 2, 3]


def test_each_worker_goes_through_its_own_part():
    assert sorted(sum((b.tolist() for b in DataLoader(Parts(10), 3, num_workers=2)), [])) == list(range(10))
    assert [*DataLoader(Parts(5), None, num_workers=2)] == [0, 1, 2, 3, 4]


def test_what_a_worker_knows_and_draws():
    items = sum(DataLoader(Workers(), 2, num_workers=2, collate_fn=listed), [])
    (first, *drawn), (second, *others) = items[0], items[2]
    assert first[:2] == (0, 2) and second[:2] == (1, 2) and second[2] == first[2] + 1 and first[3] == "Workers"
    assert drawn[-1] != os.getpid() and not set(drawn) & set(others)
    assert get_worker_info() is None


def test_the_same_seed_gives_the_same_numbers_in_workers():
    def run():
        generator = torch.Generator().manual_seed(5)
        loader = DataLoader(Workers(), 2, num_workers=2, collate_fn=listed, generator=generator)
        return [item[:4] for item in sum(loader, [])]

    assert run() == run()


def test_numbers_in_workers_are_pytorchs():
    """Those of Python, NumPy and torch, by the seed of all workers and the worker's own number."""
    pytorch = pytest.importorskip("torch")
    from torch.utils.data._utils.worker import _generate_state

    generator = torch.Generator().manual_seed(5)
    items = sum(DataLoader(Workers(), 2, num_workers=2, collate_fn=listed, generator=generator), [])
    base = pytorch.empty((), dtype=pytorch.int64).random_(generator=pytorch.Generator().manual_seed(5)).item()
    for worker, (known, of_python, of_numpy, own, _) in ((0, items[0]), (1, items[2])):
        assert known[2] == base + worker
        assert of_python == random.Random(base + worker).random()
        assert of_numpy == numpy.random.RandomState(_generate_state(base, worker)).rand()
        assert own == pytorch.rand(1, generator=pytorch.Generator().manual_seed(base + worker)).item()


def test_an_error_comes_with_the_traceback_of_the_worker():
    with pytest.raises(KeyError) as caught:
        indices(DataLoader(Squares(at=raises), 2, num_workers=2))
    text = str(caught.value)
    assert "Caught KeyError in DataLoader worker process 1." in text and "in raises" in text and "the third" in text


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_after_an_error_of_an_item_the_next_batch_comes(workers, persistent):
    loader = DataLoader(Squares(at=raises), 2, num_workers=workers, persistent_workers=persistent and workers > 0)
    for _ in range(2):
        batches, outcomes = iter(loader), []
        while True:
            try:
                outcomes.append(next(batches)[0].tolist())
            except StopIteration:
                break
            except KeyError:
                outcomes.append("error")
        assert outcomes == [[0, 1], "error", [4, 5], [6, 7], [8, 9], [10]]


@pytest.mark.parametrize("workers", [0, 2])
def test_more_items_than_were_reported_are_warned_of_where_somebody_asked(workers, recwarn):
    loader = DataLoader(Overfull(), None, num_workers=workers)
    first = [item for item in iter(loader)]  # a list made of the loader itself asks for its length
    assert len(first) > len(Overfull()) and not [one for one in recwarn if "was reported to be" in str(one.message)]
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3 .* but 4 samples have been fetched"):
        assert [*loader] == first


def test_errors_of_the_start_and_of_pickling():
    with pytest.raises(ValueError, match="worker . can't start"):
        indices(DataLoader(Squares(), 2, num_workers=2, worker_init_fn=fails_to_start))
    with pytest.raises(RuntimeError, match="can't be sent from a worker"):
        [*DataLoader([lambda: 0] * 2, 2, num_workers=1, collate_fn=listed)]


def test_a_worker_that_ends_or_is_too_slow():
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly, with exit code 7"):
        indices(DataLoader(Squares(at=exits), 2, num_workers=2))
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid \d+\) is killed by signal: Killed"):
        indices(DataLoader(Squares(at=killed), 2, num_workers=2))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.2 seconds"):
        indices(DataLoader(Squares(at=waits), 2, num_workers=1, timeout=0.2))


def test_an_iterator_that_is_left_ends_its_workers():
    for _ in DataLoader(Squares(1000), 2, num_workers=2):
        break


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("dataset", [Squares(40), Parts(40)])
def test_workers_are_known_and_end_with_their_loader(dataset, persistent):
    """Without a collection of what holds itself."""
    gc.disable()
    try:
        iterator = iter(DataLoader(dataset, 2, num_workers=2, persistent_workers=persistent))
        next(iterator)
        processes = iterator._workers
        assert len(processes) == 2 and all(one.is_alive() for one in processes)
        del iterator
        assert not any(one.is_alive() for one in processes)
    finally:
        gc.enable()


def test_persistent_workers_serve_each_epoch():
    loader = DataLoader(Workers(), 2, num_workers=2, persistent_workers=True, collate_fn=listed)
    processes = [{item[-1] for batch in loader for item in batch} for _ in range(2)]
    assert processes[0] == processes[1] and len(processes[0]) == 2
    next(iter(loader))  # left in the middle
    assert [len(batch) for batch in loader] == [2, 2]


def test_out_of_order_all_batches_come():
    assert sorted(sum(indices(DataLoader(Squares(), 2, num_workers=3, in_order=False)), [])) == list(range(11))


def test_spawned_workers():
    assert indices(DataLoader(Squares(4), 2, num_workers=1, multiprocessing_context="spawn")) == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_workers": -1}, ValueError), ({"timeout": -1}, ValueError), ({"prefetch_factor": 2}, ValueError),
        ({"persistent_workers": True}, ValueError), ({"multiprocessing_context": "fork"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": "no"}, ValueError),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError),
        ({"num_workers": 1, "prefetch_factor": -1}, ValueError),
    ],
)  # fmt: skip
def test_wrong_options(options, error):
    with pytest.raises(error):
        DataLoader(Squares(), **options)


def test_fixed_attributes():
    loader = DataLoader(Squares())
    with pytest.raises(ValueError, match="batch_size attribute should not be set"):
        loader.batch_size = 3
    with pytest.warns(UserWarning, match="no accelerator"):
        iter(DataLoader(Squares(), pin_memory=True))


_PROGRAM = """
import sys, os, signal, time
from plugrad.utils.data import DataLoader
from support.loaders import Squares
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job in the background ignores it
loader = DataLoader(Squares(10**6), 2, num_workers=2)
iterator = iter(loader)
next(iterator)
print(*[one.process.pid for one in iterator.workers], flush=True)
if sys.argv[1] == "wait":
    while True:
        next(iterator)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("how", ["kill", "interrupt", "exit"])
def test_no_worker_outlives_the_program(how):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", _PROGRAM, "exit" if how == "exit" else "wait"]
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, start_new_session=True
    )
    with program:
        processes = [int(number) for number in program.stdout.readline().split()]
        assert len(processes) == 2
        if how == "kill":
            program.kill()
        elif how == "interrupt":
            os.killpg(program.pid, signal.SIGINT)  # as the terminal does
        program.wait(60)
    limit = time.monotonic() + 60
    while any(map(_lives, processes)) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not any(map(_lives, processes))


def _lives(process) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_distributed_sampler():
    parts = [[*DistributedSampler(range(7), 3, rank, shuffle=False)] for rank in range(3)]
    assert parts == [[0, 3, 6], [1, 4, 0], [2, 5, 1]]
    sampler = DistributedSampler(range(7), 2, 0, seed=1)
    first = [*sampler]
    sampler.set_epoch(1)
    assert [*sampler] != first and len(sampler) == 4
    assert len(DistributedSampler(range(7), 2, 0, drop_last=True)) == 3
    with pytest.raises(ValueError, match="Invalid rank 2"):
        DistributedSampler(range(7), 2, 2)


def test_what_is_known_of_a_worker_is_told_as_pytorch_does():
    pytorch = pytest.importorskip("torch")
    known = [
        library.utils.data._utils.worker.WorkerInfo(id=1, num_workers=2, seed=3, dataset=[4])
        for library in (pytorch, torch)
    ]
    assert repr(known[0]) == repr(known[1])
    for one in known:
        with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
            one.id = 2


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs a list of the process's open files")
def test_messages_are_sent_whole_or_not_and_no_file_stays_open():
    def send(pipe):
        for message in {"a": numpy.ones(segments.SMALLEST)}, 3:
            segments.send(pipe[0], message)

    pipe = multiprocessing.Pipe()
    before = len(os.listdir("/dev/fd"))
    for where, _, _ in interrupted(send, lambda: pipe, most=100):
        segments.send(pipe[0], "the last")
        while segments.receive(pipe[1]) != "the last":
            pass
        assert len(os.listdir("/dev/fd")) == before, where


def test_workers_are_ended_all_or_later():
    """What comes before the end of the first is done when the iterator is gone."""

    def prepare():
        iterator = object.__new__(processes.MultiProcessIterator)
        pipes = multiprocessing.Pipe()
        iterator.workers = [processes._Worker() for _ in pipes]
        for one, pipe in zip(iterator.workers, pipes, strict=True):
            one.pipe = pipe  # without a process
        iterator.finish = weakref.finalize(iterator, processes.end, iterator.workers, os.getpid())
        return iterator, pipes

    for where, (iterator, pipes), _ in interrupted(lambda prepared: prepared[0]._finish(), prepare):
        assert iterator.finish.alive or all(pipe.closed for pipe in pipes), where
