"""Files that PyTorch wrote are read, and what is written in its format PyTorch reads, with weights_only=True."""

import collections
import copy
import io
import re

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings(
    "ignore:Sparse CSR", "ignore:TypedStorage", "ignore:ComplexHalf", "ignore:pickle_load"
)
DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 uint16 uint32 uint64 "
    "float8_e4m3fn float8_e5m2"
).split()
ZIP, STREAM = {}, {"_use_new_zipfile_serialization": False}


def saved(module, obj, **options):
    """Return what a module's `save` writes, as a file."""
    file = io.BytesIO()
    module.save(obj, file, **options)
    file.seek(0)
    return file


def bits(tensor):
    """Return the bytes of a tensor's elements."""
    if isinstance(tensor, plugrad.Tensor):
        return tensor.detach()._raw.tobytes()
    if tensor.numel() == 0:
        return b""
    return tensor.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def same(ours, theirs):
    """Whether two structures are alike: types by name, shapes, strides, dtypes, flags and bits."""
    if isinstance(theirs, torch.Tensor):
        sparse = theirs.layout is not torch.strided
        if sparse:
            return same(ours.to_dense(), theirs.to_dense()) and str(ours.layout) == str(theirs.layout)
        about = [
            (type(t).__name__, str(t.dtype), tuple(t.shape), t.stride(), t.requires_grad, str(t.device))
            for t in (ours, theirs)
        ]
        return about[0] == about[1] and (theirs.is_meta or bits(ours) == bits(theirs))
    if isinstance(theirs, dict):
        alike = type(ours) is type(theirs) and list(ours) == list(theirs)
        if isinstance(theirs, collections.OrderedDict):
            alike = alike and same(vars(ours), vars(theirs))
        return alike and all(same(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, (list, tuple)) and type(theirs).__module__ == "builtins":
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(theirs, numpy.ndarray):
        return type(ours) is numpy.ndarray and ours.dtype == theirs.dtype and numpy.array_equal(ours, theirs)
    if type(theirs).__module__ == "torch":
        return str(ours) == str(theirs)
    return type(ours) is type(theirs) and ours == theirs


def tensors(lib):
    """Return a dict of tensors of every kind, of either library."""
    base = lib.arange(24.0).reshape(4, 6)
    noted = lib.ones(2)
    noted.note = {"of": 3}
    named = lib.nn.Parameter(lib.ones(2), requires_grad=False)
    named.tag = "x"
    shared = lib.arange(12)
    return {
        "views": [base, base[1], base[:, ::2], base.t(), base[2:2], base.as_strided((2, 2), (1, 3), 2)],
        "expanded": lib.ones(1).expand(5, 7),
        "empty": [lib.empty(0), lib.empty(3, 0, 2), lib.tensor(2.5)],
        "parameter": [lib.nn.Parameter(lib.ones(2, 3)), named, lib.ones(3, requires_grad=True)],
        "attributes": noted,
        "twice": [shared, shared, shared.view(3, 4)],
        "meta": lib.empty(2, 3, device="meta"),
        "sparse": [lib.eye(3).to_sparse(), lib.eye(3).to_sparse_csr()],
        "conj": lib.tensor([1 + 2j, 3.0]).conj(),
        "bits": lib.arange(8, dtype=lib.float32).view(lib.int32),
    }


KINDS = ("views", "expanded", "empty", "parameter", "attributes", "twice", "meta", "sparse", "conj", "bits")


def values(lib):
    """Return plain values."""
    ordered = collections.OrderedDict(b=1, a=2)
    ordered._metadata = collections.OrderedDict({"": {"version": 1}})
    return [
        None, True, False, 0, -1, 255, 65536, 2**31, -(2**31), 2**63, -(2**200), 0.1, float("inf"), 1 + 2j,
        "é\U0001f600", b"\x00\xff", bytearray(b"ab"), (), (1,), [1, [2, (3,)]], {"a": {"b": 1}, (1, 2): 3, 4.5: None},
        {1, "x", (2, 3)},
        ordered, collections.Counter("aab"), lib.Size([2, 3]), lib.device("cpu"), lib.device("cuda:1"), lib.float16,
        lib.int64, lib.strided, lib.sparse_coo, "x" * 300, b"y" * 300, list(range(1000)),
    ]  # fmt: skip


@pytest.mark.parametrize("options", [ZIP, STREAM], ids=["zip", "stream"])
@pytest.mark.parametrize("name", KINDS)
def test_tensors_that_pytorch_wrote(name, options):
    obj = tensors(torch)[name]
    assert same(plugrad.load(saved(torch, obj, **options)), obj)


@pytest.mark.parametrize("options", [ZIP, STREAM], ids=["zip", "stream"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_that_pytorch_wrote(dtype, options):
    obj = torch.tensor([0, 1, 1, 0, 1, 1]).to(getattr(torch, dtype)).reshape(2, 3)
    assert same(plugrad.load(saved(torch, [obj, obj.t(), obj[1:]], **options)), [obj, obj.t(), obj[1:]])


@pytest.mark.parametrize("options", [ZIP, STREAM], ids=["zip", "stream"])
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_values_that_pytorch_wrote(protocol, options):
    obj = [*values(torch), frozenset([1, 2]), slice(1, None, 2), range(3), collections.defaultdict(list, a=[1]),
           numpy.float32(1.5), numpy.int64(3), numpy.bool_(True), numpy.arange(6).reshape(2, 3).T,
           numpy.ones(2, ">i2")]  # fmt: skip
    loaded = plugrad.load(saved(torch, obj, pickle_protocol=protocol, **options))
    for ours, theirs in zip(loaded, obj, strict=True):
        assert same(ours, theirs), theirs


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("mmap", [False, True])
def test_pytorch_reads_tensors(name, mmap, tmp_path):
    obj = tensors(plugrad)[name]
    plugrad.save(obj, tmp_path / "x.pt", format="torch")
    theirs = torch.load(tmp_path / "x.pt", weights_only=True, mmap=mmap)
    assert same(obj, theirs)
    assert same(plugrad.load(tmp_path / "x.pt", mmap=mmap), theirs)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pytorch_reads_dtypes(dtype):
    obj = plugrad.tensor([0, 1, 1, 0, 1, 1]).to(getattr(plugrad, dtype)).reshape(2, 3)
    obj = [obj, obj.t(), obj[1:], obj[0, 2]]
    assert same(obj, torch.load(saved(plugrad, obj, format="torch"), weights_only=True))


def test_pytorch_reads_values():
    obj = values(plugrad)
    theirs = torch.load(saved(plugrad, obj, format="torch"), weights_only=True)
    for ours, read in zip(obj, theirs, strict=True):
        assert same(ours, read), read


def shares(tensor, other):
    before = float(other.flatten()[0])
    tensor.flatten()[0] = before + 1
    return float(other.flatten()[0]) == before + 1


@pytest.mark.parametrize("options", [ZIP, STREAM], ids=["zip", "stream"])
def test_shared_memory_stays_shared(options):
    base = torch.arange(6.0)
    a, b, c = plugrad.load(saved(torch, [base, base.view(2, 3), base], **options))
    assert a is c and shares(a, b)
    base = plugrad.arange(6.0)
    a, b, c = torch.load(saved(plugrad, [base, base.view(2, 3), base], format="torch"))
    assert a is c and shares(a, b)


def trained(lib):
    """Return a checkpoint of a small model with optimizer, scheduler and random state."""
    lib.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 1))
    optimizer = lib.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = lib.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        model(lib.ones(5, 3)).sum().backward()
        optimizer.step()
        scheduler.step()
    return model, {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "rng": lib.get_rng_state(), "epoch": 3,
    }  # fmt: skip


@pytest.mark.parametrize("options", [ZIP, STREAM], ids=["zip", "stream"])
def test_a_checkpoint_of_pytorch_goes_on_here(options):
    model, checkpoint = trained(torch)
    loaded = plugrad.load(saved(torch, checkpoint, **options))
    assert same(loaded, checkpoint)
    ours, _ = trained(plugrad)
    ours.load_state_dict(loaded["model"])
    x = numpy.arange(12, dtype=numpy.float32).reshape(4, 3)
    numpy.testing.assert_allclose(ours.eval()(plugrad.from_numpy(x.copy())).detach().numpy(),
                                  model.eval()(torch.from_numpy(x)).detach().numpy(), rtol=1e-5)  # fmt: skip
    optimizer = plugrad.optim.AdamW(ours.parameters(), lr=0.1)
    optimizer.load_state_dict(loaded["optimizer"])
    plugrad.set_rng_state(loaded["rng"])
    torch.set_rng_state(checkpoint["rng"])
    assert same(plugrad.rand(3), torch.rand(3))


def test_a_checkpoint_of_ours_goes_on_in_pytorch():
    model, checkpoint = trained(plugrad)
    loaded = torch.load(saved(plugrad, checkpoint, format="torch"), weights_only=True)
    assert same(checkpoint, loaded)
    theirs, _ = trained(torch)
    theirs.load_state_dict(loaded["model"])
    torch.optim.AdamW(theirs.parameters()).load_state_dict(loaded["optimizer"])


def test_mapped_memory_is_private(tmp_path):
    torch.save({"w": torch.arange(1000.0)}, tmp_path / "x.pt")
    before = (tmp_path / "x.pt").read_bytes()
    loaded = plugrad.load(tmp_path / "x.pt", mmap=True)
    assert isinstance(loaded["w"]._raw.base.base, numpy.memmap) or not loaded["w"]._raw.flags.owndata
    loaded["w"].add_(1)
    assert float(loaded["w"][3]) == 4
    assert (tmp_path / "x.pt").read_bytes() == before


def test_checksums_of_mapped_files(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"w": torch.full((1000,), 3.0)}, path)
    data = bytearray(path.read_bytes())
    data[data.find(numpy.full(9, 3.0, numpy.float32).tobytes())] ^= 1
    path.write_bytes(data)
    plugrad.load(path, mmap=True)
    for options in ({}, {"mmap": True, "verify": True}):
        with pytest.raises(plugrad.serialization.CheckpointError, match="checksum"):
            plugrad.load(path, **options)
    plugrad.load(path, verify=False)


def test_files_without_checksums():
    torch.serialization.set_crc32_options(False)
    try:
        file = saved(torch, torch.ones(3))
    finally:
        torch.serialization.set_crc32_options(True)
    assert plugrad.load(file).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="no checksums"):
        plugrad.load(file, verify=True)


def test_map_location():
    file = saved(torch, [torch.ones(2), torch.arange(4)[1:]])
    seen = []
    loaded = plugrad.load(file, map_location=lambda tensor, place: seen.append(place) or tensor)
    assert seen == ["cpu", "cpu"] and loaded[1].tolist() == [1, 2, 3]
    assert plugrad.load(file, map_location="meta")[0].is_meta


@pytest.mark.parametrize("options", [ZIP, STREAM], ids=["zip", "stream"])
def test_whole_modules_need_trust(options):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    file = saved(torch, model, **options)
    with pytest.raises(plugrad.serialization.CheckpointError, match="weights_only=False"):
        plugrad.load(file)
    file.seek(0)
    ours = plugrad.load(file, weights_only=False)
    assert type(ours) is plugrad.nn.Sequential
    x = numpy.ones((1, 3), numpy.float32)
    theirs = model(torch.from_numpy(x.copy())).detach().numpy()
    numpy.testing.assert_allclose(ours(plugrad.from_numpy(x)).detach().numpy(), theirs, rtol=1e-6)


class Config:
    """What a program keeps in its checkpoints."""

    def __init__(self, width):
        self.width = width


def test_trusted_classes():
    file = saved(torch, {"config": Config(3), "w": torch.ones(1)})
    with pytest.raises(plugrad.serialization.CheckpointError, match="Config, which is not trusted"):
        plugrad.load(file)
    with plugrad.serialization.safe_globals([Config]):
        assert plugrad.load(file)["config"].width == 3


@pytest.mark.parametrize("value", [numpy.float64(1), numpy.ones(2), Config(3), len, plugrad.nn.ReLU()])
def test_what_pytorch_would_not_load_is_refused(value, tmp_path):
    with pytest.raises(TypeError, match=r"weights_only=True") as caught:
        plugrad.save({"a": [value]}, tmp_path / "x.pt", format="torch")
    assert "'a.0'" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_containers_that_are_shared_or_contain_themselves():
    inner = [1]
    loaded = torch.load(saved(plugrad, [inner, inner], format="torch"))
    assert loaded[0] is loaded[1]
    inner.append(inner)
    loaded = torch.load(saved(plugrad, inner, format="torch"))
    assert loaded[1] is loaded
    assert (ours := plugrad.load(saved(torch, inner)))[1] is ours
    inner[0] = (inner,)
    inner[0][0][1] = inner[0]
    with pytest.raises(ValueError, match="contains itself"):
        saved(plugrad, inner[0], format="torch")


def test_dtypes_that_are_not_here_are_named():
    file = saved(torch, torch.ones(2).to(torch.complex32))
    with pytest.raises(plugrad.serialization.CheckpointError, match=r"complex32|ComplexHalfStorage"):
        plugrad.load(file)


def test_a_file_that_is_written_is_not_changed_by_saving():
    obj = tensors(plugrad)["views"]
    before = copy.deepcopy(obj)
    saved(plugrad, obj, format="torch")
    assert all(a.equal(b) and a.stride() == b.stride() for a, b in zip(before, obj))


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_a_program_of_torchscript_is_named_as_one(tmp_path):
    torch.jit.script(torch.nn.Linear(3, 2)).save(str(tmp_path / "program.pt"))
    for load in plugrad.load, plugrad.jit.load:
        with pytest.raises(plugrad.serialization.CheckpointError, match="is a TorchScript program, which needs"):
            load(tmp_path / "program.pt")


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "bytes", "latin1"])
def test_strings_of_python_2_are_decoded_as_asked(encoding, trusted):
    file = saved(torch, ["abcdefg", torch.ones(2), {"n": 3}], **STREAM)
    old = file.getvalue().replace(b"X\x07\x00\x00\x00abcdefg", b"U\x07\xc5\xbcabcde")
    old = re.sub(rb"X(.)\x00\x00\x00", rb"U\1", old)  # all other texts, too: none is longer than 255 bytes
    theirs, ours = (
        library.load(io.BytesIO(old), weights_only=not trusted, encoding=encoding) for library in (torch, plugrad)
    )
    assert same(ours, theirs)
    assert ours[0] == {"utf-8": "\u017cabcde", "bytes": b"\xc5\xbcabcde", "latin1": "\xc5\xbcabcde"}[encoding]


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("options", [{}, {"encoding": "ascii"}, {"encoding": "utf-8"}, {"errors": "ignore"}, {"no": 1}])
@pytest.mark.parametrize("text", [b"\xc5\xbcabcde", b"\xe9\xffabcde"])
def test_strings_of_python_2_are_in_utf_8_unless_said_otherwise(text, options, trusted):
    old = saved(torch, ["abcdefg", {"n": 3}], **STREAM).getvalue().replace(b"X\x07\x00\x00\x00abcdefg", b"U\x07" + text)

    def outcome(library):
        try:
            return library.load(io.BytesIO(old), weights_only=not trusted, **options)
        except (UnicodeDecodeError, TypeError) as error:
            return UnicodeDecodeError if isinstance(error, UnicodeDecodeError) else type(error)

    assert outcome(plugrad) == outcome(torch)


@pytest.mark.parametrize("options", [{}, {"format": "torch"}], ids=["own format", "format of PyTorch"])
def test_a_file_may_begin_where_the_stream_stands(options):
    file, theirs = io.BytesIO(b"header"), io.BytesIO(b"header")
    for library, written in ((plugrad, file), (torch, theirs)):
        written.seek(6)
        library.save({"a": library.arange(3.0)}, written, **(options if library is plugrad else {}))
        written.seek(6)
        assert same(plugrad.load(written), {"a": torch.arange(3.0)})
        written.seek(0)
        with pytest.raises(plugrad.serialization.CheckpointError, match="before its first member"):
            plugrad.load(written)
