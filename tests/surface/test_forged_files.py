"""Files that were forged or damaged, by a writer of their own: the right content, or one kind of error; never more."""

import io
import math
import sys
import tracemalloc

import numpy
import pytest

import plugrad
from plugrad import nest
from plugrad.serialization import CheckpointError, describe
from support import forged_files as forged

ARCHIVES, DESCRIPTIONS = forged.archives(), forged.descriptions()
FILES = {**ARCHIVES, **DESCRIPTIONS}
ROW = forged.ROW


def load(data, **options):
    """Return (what a file holds, None) or (None, why it was refused), having looked at the memory that it took."""
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        loaded = plugrad.load(io.BytesIO(data), **options), None
    except CheckpointError as error:
        text = str(error)
        assert len(text) < 500 and text.isprintable(), text
        loaded = None, error
    assert tracemalloc.get_traced_memory()[1] - before < 2**21 + 20 * len(data)
    return loaded


@pytest.fixture
def counted_memory():
    with pytest.raises(CheckpointError):
        plugrad.load(io.BytesIO(b"of no format"))  # every format is asked, so their modules are imported now, uncounted
    tracemalloc.start()
    yield
    tracemalloc.stop()


def tensors(value):
    return [leaf for leaf in nest.leaves(value) if isinstance(leaf, (plugrad.Tensor, numpy.ndarray))]


def bounds(array):
    low, high = numpy.lib.array_utils.byte_bounds(array)
    return (low, high) if array.size else (low, low)


def assert_inside(tensor):
    """A tensor's elements lie in memory that it, or what it is a view of, owns; they can be read."""
    array = tensor if isinstance(tensor, numpy.ndarray) else tensor.detach()._raw
    if not isinstance(array, numpy.ndarray):  # on the meta device
        return
    owner = array
    while isinstance(owner.base, numpy.ndarray):
        owner = owner.base
    memory = owner.base.obj if isinstance(owner.base, memoryview) else owner  # a member's end
    assert memory.base is None and owner.nbytes <= memory.nbytes <= 10_000
    low, high = bounds(array)
    start, end = bounds(owner)
    assert array.size == 0 or (start <= low and high <= end)
    assert not array.dtype.hasobject
    if array.size <= 10_000:
        array.tobytes()
        if array.dtype == bool:
            assert set(numpy.ravel(array).view(numpy.uint8)) <= {0, 1}
    else:
        assert math.prod(step != 0 for step in array.strides) == 0, "more elements than there is memory"


def test_there_are_enough_of_them():
    assert len(FILES) >= 500, len(FILES)
    right, refused = load(FILES["right"])
    assert refused is None and right.tolist() == ROW.tolist()


@pytest.mark.usefixtures("counted_memory")
def test_archives():
    refused = 0
    for name, data in ARCHIVES.items():
        loaded, error = load(data)
        refused += error is not None
        if error is None:
            assert loaded.tolist() == ROW.tolist() and loaded.dtype is plugrad.float32, name
    assert refused > len(ARCHIVES) // 3


@pytest.mark.usefixtures("counted_memory")
@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"map_location": "meta"}], ids=str)
def test_descriptions(options):
    refused = 0
    for data in DESCRIPTIONS.values():
        loaded, error = load(data, **options)
        refused += error is not None
        if error is None:
            for tensor in tensors(loaded):
                assert_inside(tensor)
    assert refused > len(DESCRIPTIONS) // 2


def test_nothing_is_looked_up_or_run():
    kinds = ("pickle.", "os.", "subprocess.", "exec", "compile", "import", "ctypes.", "marshal.", "open", "socket.")
    seen, listening = [], [False]
    sys.addaudithook(lambda event, given: listening[0] and event.startswith(kinds) and seen.append((event, given)))
    for data in FILES.values():  # what is imported at the first use is there the second time
        load(data)
    listening[0] = True
    try:
        for name, data in FILES.items():
            load(data)
            assert not seen, (name, seen)
    finally:
        listening[0] = False


def test_what_a_file_says_of_itself():
    for data in FILES.values():
        try:
            described = describe(io.BytesIO(data))
        except CheckpointError:
            continue
        assert [*described] == ["plugrad", "plugins", "objects", "tensors"]


def test_mapped_files(tmp_path):
    path = tmp_path / "x.pt"
    for name, data in FILES.items():
        path.write_bytes(data)
        try:
            loaded = plugrad.load(path, mmap=True)
        except CheckpointError:
            continue
        for tensor in tensors(loaded):
            array = tensor if isinstance(tensor, numpy.ndarray) else tensor.detach()._raw
            if isinstance(array, numpy.ndarray) and array.size <= 10_000:
                array.tobytes()
        if name in ARCHIVES:
            assert loaded.shape == (6,) and loaded.dtype is plugrad.float32


SMALL = {"weight": plugrad.tensor([1.5, -2.0]), "epoch": 3}


def saved():
    file = io.BytesIO()
    plugrad.save(SMALL, file)
    return file.getvalue()


def test_every_byte_of_a_file():
    data = saved()
    refused = 0
    for what, damaged in forged.flipped(data):
        loaded, error = load(damaged)
        refused += error is not None
        if error is None:
            assert [*loaded] == ["weight", "epoch"] and loaded["epoch"] == 3, what
            assert loaded["weight"].tolist() == [1.5, -2.0] and loaded["weight"].dtype is plugrad.float32, what
    assert refused > len(data)


def test_every_byte_of_a_mapped_file(tmp_path):
    """Without checksums of the elements they may be others; all else is as certain."""
    path = tmp_path / "x.pt"
    for what, damaged in forged.flipped(saved()):
        path.write_bytes(damaged)
        try:
            loaded = plugrad.load(path, mmap=True)
        except CheckpointError:
            continue
        assert [*loaded] == ["weight", "epoch"] and loaded["epoch"] == 3, what
        assert loaded["weight"].shape == (2,) and loaded["weight"].dtype is plugrad.float32, what
        loaded["weight"].tolist()


def test_every_end_of_a_file():
    data = ARCHIVES["right"]
    for end in range(len(data)):
        assert load(data[:end])[1] is not None, end
