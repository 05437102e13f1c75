"""Files in the formats of others that were damaged, or made by somebody hostile: one error, no code, little memory."""

import collections
import io
import itertools
import json
import os
import pickle
import random
import struct
import time
import tracemalloc
import zipfile

import numpy
import pytest

import plugrad
from plugrad.plugins.formats._torch_world import CALLS
from plugrad.serialization import CheckpointError
from support import checkpoints

CONTENTS = {
    "w": plugrad.arange(12.0).reshape(3, 4), "b": plugrad.ones(2, dtype=plugrad.bfloat16), "t": plugrad.tensor(True),
    "e": plugrad.empty(0, 2), "i": plugrad.arange(3),
}  # fmt: skip


def written(form, obj=None):
    file = io.BytesIO()
    plugrad.save(obj or {k: v for k, v in CONTENTS.items() if form != "npz" or k != "b"}, file, format=form)
    return file.getvalue()


def attempt(data, path=None, **options):
    """Load a file; return what it holds or why it was refused, once it was the one error and took little memory."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        loaded = plugrad.load(io.BytesIO(data) if path is None else path, **options)
    except CheckpointError as error:
        text = str(error)
        assert len(text) < 700 and text.isprintable(), text
        loaded = error
    assert tracemalloc.get_traced_memory()[1] - before < 2**20 + 30 * len(data)
    assert not checkpoints.ran
    return loaded


@pytest.fixture(scope="module", autouse=True)
def counted_memory():
    for name in plugrad.formats.names():
        plugrad.formats.get(name)  # its module is imported now, and not counted
    with pytest.raises(CheckpointError):
        plugrad.load(io.BytesIO(b"of no format: each is asked, and imports what it needs for that"))
    tracemalloc.start()
    yield
    tracemalloc.stop()


FORMS = {form: written(form) for form in ("torch", "safetensors", "npz")}


def stream(obj_pickle, keys=(), storages=b""):
    """Return a file of PyTorch's older form around a pickle."""
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    head = [pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, facts)]
    return b"".join([*head, obj_pickle, pickle.dumps(list(keys), 2), storages])


def archive(obj_pickle, **members):
    """Return a zip file of PyTorch's around a pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", obj_pickle)
        for name, content in members.items():
            archive.writestr(f"archive/data/{name.removeprefix('_')}", content)
    return file.getvalue()


def tensor(storage=b"FloatStorage", key="0", numel=4, offset=0, size=(2, 2), stride=(2, 1), location="cpu"):
    """Return the pickle of a tensor, as strange as its parts."""
    def plain(value):
        return pickle.dumps(value, 2)[2:-1]

    identity = b"(" + plain("storage") + b"ctorch\n" + storage + b"\n" + plain(key) + plain(location) + plain(numel)
    rest = plain(offset) + plain(size) + plain(stride)
    return (b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + identity + b"tQ" + rest
            + b"\x89ccollections\nOrderedDict\n)RtR.")  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_every_truncation_is_refused(form):
    data = written(form, {"w": plugrad.ones(2)})
    for end in range(len(data)):
        assert isinstance(attempt(data[:end]), CheckpointError), end


@pytest.mark.parametrize("form", FORMS)
def test_flipped_bits_are_refused_or_change_nothing_unseen(form):
    """A zip file has checksums; in safetensors, which has none, a flip may only change values and names."""
    data, chance, kept = FORMS[form], random.Random(3), 0
    for _ in range(300):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        loaded = attempt(bytes(damaged))
        if isinstance(loaded, dict):
            kept += 1
            if form != "safetensors":
                assert all(loaded[key].equal(value) for key, value in CONTENTS.items() if key in loaded)
    assert kept < 300


def test_several_flipped_bits_with_right_checksums():
    """What checksums find is not what keeps a reader safe: the members are written anew."""
    members = checkpoints.members(FORMS["torch"])
    chance = random.Random(5)
    for _ in range(200):
        changed = bytearray(members["archive/data.pkl"])
        for _ in range(chance.choice((1, 1, 2, 5))):
            changed[chance.randrange(len(changed))] = chance.choice((chance.randrange(256), *b"Rbuetc(\x93\x81.Q0"))
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as zipped:
            for name, content in {**members, "archive/data.pkl": bytes(changed)}.items():
                zipped.writestr(name, content)
        attempt(file.getvalue())
        attempt(stream(bytes(changed), ["0"], struct.pack("<q", 4) + bytes(16)))


def test_names_of_members_are_quoted():
    for content in (b"no array", b"\x93NUMPY\x01\x00"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as zipped:
            zipped.writestr("a\xa0\x1b[31m" + "b" * 900 + ".npy", content)
        assert isinstance(attempt(file.getvalue()), CheckpointError)


GADGETS = checkpoints.pickles()


@pytest.mark.parametrize("name", GADGETS)
@pytest.mark.parametrize("form", [archive, stream])
def test_gadgets_run_nothing(form, name):
    assert isinstance(attempt(form(GADGETS[name])), CheckpointError) or name == "nested"


BAD = {
    "beyond the storage": tensor(size=(3, 2)),
    "an offset beyond": tensor(offset=1),
    "a negative offset": tensor(offset=-1),
    "a negative stride": tensor(offset=3, size=(2, 2), stride=(-2, -1)),
    "a negative size": tensor(size=(-1, 2)),
    "sizes and strides": tensor(size=(2, 2), stride=(1,)),
    "a huge size": tensor(size=(2**40, 2**40), stride=(0, 0)),
    "huge and empty": tensor(size=(2**61, 2**61, 0), stride=(0, 0, 0)),
    "a huge storage": tensor(numel=2**50),
    "a storage that is not there": tensor(key="7"),
    "a path as a storage": tensor(key="../../../etc/passwd"),
    "a number as a storage": tensor(key=0),
    "a strange storage": tensor(storage=b"QUInt8Storage"),
    "a strange device": tensor(location="no such device"),
    "a size that is no number": tensor(size=(2.0, 2)),
    "true as a size": tensor(size=(True, 2)),
    "many dimensions": tensor(size=(1,) * 70, stride=(1,) * 70),
    "a stack that is empty": b"\x80\x02R.",
    "a mark that is missing": b"\x80\x02]e.",
    "a memo that is missing": b"\x80\x02h\x05.",
    "a key that is a list": b"\x80\x02}]K\x01s.",
    "a protocol": b"\x80\x09N.",
    "a length": b"\x80\x04\x8d" + b"\xff" * 8 + b"x.",
    "a long": b"\x80\x02\x8b\xff\xff\xff\x7fx.",
    "an extension": b"\x80\x02\x82\x01.",
    "a name": b"\x80\x02cos\nsystem\n.",
    "a state of a dict": b"\x80\x02}}X\x09\x00\x00\x00__class__K\x01sb.",
    "a class that is changed": b"\x80\x02ccollections\nOrderedDict\n}X\x01\x00\x00\x00xK\x01sb.",
    "an attribute of OrderedDict": b"\x80\x02ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb.",
    "a set of a range": b"\x80\x02cbuiltins\nset\n(cbuiltins\nrange\n(J\xff\xff\xff\x7ftRtR.",
    "bytes by number": b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "dtype with objects": b"\x80\x02cnumpy\ndtype\nX\x01\x00\x00\x00O\x85R.",
}


@pytest.mark.parametrize("name", BAD)
def test_pickles_that_pytorch_never_writes(name):
    assert isinstance(attempt(archive(BAD[name], _0=bytes(16))), CheckpointError)
    assert isinstance(attempt(stream(BAD[name], ["0"], struct.pack("<q", 4) + bytes(16))), CheckpointError)


def test_the_tensor_that_these_were_made_from():
    assert attempt(archive(tensor(), _0=bytes(16))).tolist() == [[0, 0], [0, 0]]
    assert attempt(stream(tensor(), ["0"], struct.pack("<q", 4) + bytes(16))).tolist() == [[0, 0], [0, 0]]


def test_nesting_that_grows_without_end():
    deep = b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b"."
    attempt(archive(deep))
    doubling = b"\x80\x02N" + b"2\x86" * 60 + b"q\x00}h\x00Ns."  # a key whose parts are shared: 2 ** 60 of them
    assert isinstance(attempt(archive(doubling)), CheckpointError)


def called(name, *arguments):
    """Return the part of a pickle that calls a name."""
    module, _, function = name.rpartition(".")
    return b"".join([f"c{module}\n{function}\n(".encode(), *arguments, b"tR"])


def test_what_holds_itself_twice_at_each_of_many_levels():
    """It has a few bytes in a file, and would take minutes to print, to hash or to compare."""
    pair = b"K\x01" + b"2\x86" * 23
    for name in CALLS:
        for count, whole in itertools.product(range(4), (pair, b"](" + pair + b"K\x01\x86e")):
            for before in b"K\x01", b"N", b"X\x01\0\0\0a", b"]":
                start = time.process_time()
                for form in archive, stream:
                    attempt(form(b"\x80\x02" + called(name, *[before] * count, whole) + b"."))
                assert time.process_time() - start < 0.5, (name, count, before)


def test_zip_files_that_lie(tmp_path):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("a.npy", bytes(70_000_000))
    assert isinstance(attempt(bomb.getvalue()), CheckpointError)
    compressed = io.BytesIO()
    with zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("archive/data.pkl", tensor())
        zipped.writestr("archive/data/0", bytes(16))
    assert isinstance(attempt(compressed.getvalue()), CheckpointError)
    two = io.BytesIO()
    with zipfile.ZipFile(two, "w") as zipped, pytest.warns(UserWarning, match="Duplicate"):
        zipped.writestr("archive/data.pkl", tensor())
        zipped.writestr("archive/data.pkl", tensor())
    assert isinstance(attempt(two.getvalue()), CheckpointError)
    path = tmp_path / "x.pt"  # what maps must look at the same things
    path.write_bytes(archive(BAD["beyond the storage"], _0=bytes(16)))
    assert isinstance(attempt(b"", path, mmap=True), CheckpointError)


def header(entries, data=bytes(8), length=None):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape=(2,), offsets=(0, 8), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


HEADERS = {
    "a huge header": header({"a": entry()}, length=2**60),
    "a header beyond the file": header({"a": entry()}, length=200),
    "overlapping": header({"a": entry(), "b": entry()}),
    "a gap": header({"a": entry((1,), (0, 4)), "b": entry((1,), (8, 12))}, bytes(12)),
    "bytes that are left": header({"a": entry((1,), (0, 4))}),
    "an end before its beginning": header({"a": entry((), (8, 0))}),
    "another size": header({"a": entry((3,))}),
    "a negative shape": header({"a": entry((-1, -2))}),
    "a huge shape": header({"a": entry((2**40, 2**40))}),
    "a huge empty shape": header({"a": entry((2**62, 0), (0, 0))}, b""),
    "a fraction": header({"a": entry((2.0,))}),
    "a dtype": header({"a": entry(dtype="F99")}),
    "a name twice": header(b'{"a":%s,"a":%s}' % (2 * (json.dumps(entry()).encode(),))),
    "no end": header(b'{"a":'),
    "no dict": header(b"{}"[:1] + b'"a"'),
    "deep": header(b'{"a":' + b"[" * 100_000),
    "more keys": header({"a": {**entry(), "b": 1}}),
    "metadata": header({"__metadata__": {"a": 1}, "a": entry()}),
    "no utf-8": header(b'{"\xff":1}'),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_safetensors(name):
    assert isinstance(attempt(HEADERS[name], format="safetensors"), CheckpointError)


@pytest.mark.parametrize("place", ["../x.safetensors", "/etc/passwd", "sub/x.safetensors", "gone.safetensors", 3])
def test_an_index_leads_to_files_beside_it(place, tmp_path):
    (tmp_path / "sub").mkdir()
    for folder in (tmp_path, tmp_path / "sub", tmp_path.parent):
        (folder / "x.safetensors").write_bytes(header({"a": entry()}))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": place}}))
    assert isinstance(attempt(b"", index), CheckpointError)
    os.remove(tmp_path.parent / "x.safetensors")


NPY = {
    "objects": b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "a record": b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
    "a huge shape": b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999,), }",
    "a call": b"__import__('os').system('x')",
    "a strange shape": b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2,), }",
}


@pytest.mark.parametrize("name", NPY)
def test_headers_of_npy(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        zipped.writestr("a.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(NPY[name])) + NPY[name] + bytes(8))
    assert isinstance(attempt(file.getvalue()), CheckpointError)


def test_npz_round_trip_with_numpy(tmp_path):
    arrays = {"c": numpy.arange(6.0).reshape(2, 3), "f": numpy.asfortranarray(numpy.ones((3, 2), "i2")),
              "big": numpy.arange(3, dtype=">f4"), "s": numpy.array(2.5), "e": numpy.empty((0, 4), "u1")}  # fmt: skip
    for write in (numpy.savez, numpy.savez_compressed):
        write(tmp_path / "x.npz", **arrays)
        for mmap in (False, True):
            loaded = plugrad.load(tmp_path / "x.npz", mmap=mmap)
            assert all(numpy.array_equal(loaded[name].numpy(), array) for name, array in arrays.items())
    plugrad.save(loaded, tmp_path / "y.npz", format="npz")
    with numpy.load(tmp_path / "y.npz") as read:
        assert all(numpy.array_equal(read[name], array) for name, array in arrays.items())
    with pytest.raises(TypeError, match="bfloat16"):
        plugrad.save({"a": plugrad.ones(1, dtype=plugrad.bfloat16)}, tmp_path / "y.npz", format="npz")
    with pytest.raises(TypeError, match="holds tensors by name"):
        plugrad.save(collections.OrderedDict(a=1), tmp_path / "y.npz", format="npz")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npz", "y.npz"]
