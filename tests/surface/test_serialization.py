"""save and load: what comes back, what is shared, what is refused."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import types
import zipfile
from collections import OrderedDict

import numpy
import pytest

import plugrad as torch
from plugrad import nn, serialization


def written(obj, **options) -> io.BytesIO:
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj, *, format=None, **options):
    return torch.load(written(obj, format=format) if format else written(obj), **options)


class Net(nn.Module):
    """A module of the user's, with tied parameters."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 2)
        self.second = nn.Linear(2, 2)
        self.second.weight = self.first.weight
        self.notes = {"epoch": 3}

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3,
        10**30, 2.5, 1e-320, float("inf"), -0.0, "text", "", 1 + 2j, b"\x00ab",
        torch.float16, torch.bool,
        torch.strided, torch.sparse_coo, [torch.channels_last],
        torch.device("cpu"), torch.Size([2, 3]), [1, [2, ()]], (1, (2,)), {"a": 1}, {1: "x", (2, 3): "y", None: 0},
        {"$": "tensor"}, {"$": {"$": 1}}, OrderedDict(b=1, a=2), {1, 2}, slice(1, None, 2), {}, [], (),
    ],
)  # fmt: skip
def test_plain_values(value):
    loaded = again(value)
    assert loaded == value and type(loaded) is type(value)
    assert repr(loaded) == repr(value)


def test_nan():
    assert again([float("nan")])[0] != again(float("nan"))


DTYPES = set(torch.dtypes.ALL.values()) - {torch.complex32}  # NumPy has no such type


@pytest.mark.parametrize("name", sorted({str(dtype).removeprefix("torch.") for dtype in DTYPES}))
def test_tensors_of_every_dtype(name):
    dtype = getattr(torch, name)
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    loaded = again(tensor)
    assert loaded.dtype is dtype and loaded.shape == tensor.shape and torch.equal(loaded, tensor)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0, 1), (1, 1), (3, 4, 5)])
def test_shapes(shape):
    tensor = torch.randn(shape)
    assert torch.equal(again(tensor), tensor) and again(tensor).shape == tensor.shape


def test_requires_grad_parameters_and_identity():
    leaf, parameter = torch.ones(2, requires_grad=True), nn.Parameter(torch.zeros(3), requires_grad=False)
    one, two, three = again([leaf, parameter, leaf])
    assert one is three and one.requires_grad and one.is_leaf
    assert isinstance(two, nn.Parameter) and not two.requires_grad
    computed = again(leaf * 2)
    assert computed.tolist() == [2.0, 2.0]


def test_views_share_memory_again():
    base = torch.arange(12.0).reshape(3, 4)
    loaded = again({"base": base, "row": base[1], "columns": base[:, ::2], "t": base.T, "other": torch.ones(2)})
    loaded["base"][1, 0] = 100.0
    assert loaded["row"][0] == 100 and loaded["columns"][1, 0] == 100 and loaded["t"][0, 1] == 100
    assert loaded["columns"].stride() == (4, 2) and loaded["t"].stride() == (1, 4)
    assert loaded["other"].tolist() == [1.0, 1.0]


def test_reversed_views():
    array = numpy.arange(6.0)
    loaded = again([torch.from_numpy(array[::-1]), torch.from_numpy(array)])
    assert loaded[0].tolist() == array[::-1].tolist() and loaded[1].tolist() == array.tolist()


def test_a_small_view_does_not_save_its_large_base():
    large = torch.zeros(100_000)
    assert len(written([large[10:13], large[20:22]]).getvalue()) < 2000
    assert len(written(torch.zeros(1000, 1000)[:, 3]).getvalue()) < 6000


def test_numpy_arrays_and_scalars():
    loaded = again({"a": numpy.arange(3), "s": numpy.float32(1.5), "b": numpy.array(True)})
    assert isinstance(loaded["a"], numpy.ndarray) and loaded["a"].tolist() == [0, 1, 2]
    assert loaded["s"] == 1.5 and loaded["s"].dtype == numpy.float32
    assert loaded["b"].shape == () and loaded["b"].dtype == bool


def test_state_dict_of_model_and_optimizer():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    model(torch.randn(5, 2)).sum().backward()
    optimizer.step()
    loaded = again({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7})
    assert type(loaded["model"]) is OrderedDict and loaded["model"]._metadata == model.state_dict()._metadata
    fresh = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    assert repr(fresh.load_state_dict(loaded["model"])) == "<All keys matched successfully>"
    for one, other in zip(fresh.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)
    second = torch.optim.Adam(fresh.parameters(), lr=0.5)
    second.load_state_dict(loaded["optimizer"])
    assert second.param_groups[0]["lr"] == 0.1 and second.state_dict()["state"][0]["step"] == 1


def test_whole_modules_need_trust():
    file = written(Net())
    with pytest.raises(pickle.UnpicklingError, match=r"test_serialization\.Net.*weights_only=False"):
        torch.load(file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert loaded.notes == {"epoch": 3} and loaded.first.weight is loaded.second.weight
    assert [name for name, _ in loaded.named_parameters()] == [name for name, _ in Net().named_parameters()]


def test_objects_share_tensors_with_the_rest():
    net = Net()
    loaded = again({"net": net, "weight": net.first.weight, "pair": (net, net)}, weights_only=False)
    assert loaded["net"].first.weight is loaded["weight"]
    assert loaded["pair"][0] is loaded["pair"][1] is loaded["net"]


class Malicious:
    def __reduce__(self):
        return exec, ("raise SystemExit('code ran')",)


def test_weights_only_runs_no_code():
    file = written([torch.ones(1), Malicious()])
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file)
    file.seek(0)
    with pytest.raises(SystemExit, match="code ran"):
        torch.load(file, weights_only=False)


def test_a_class_that_is_gone(monkeypatch):
    file = written(Net())
    monkeypatch.delattr(f"{__name__}.Net")
    with pytest.raises(pickle.UnpicklingError, match="Net"):
        torch.load(file, weights_only=False)


def test_paths_and_failure_keeps_the_old_file(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(2)}, path)
    assert torch.load(str(path))["a"].tolist() == [1.0, 1.0]
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        torch.save({"f": lambda: 0}, path)
    assert torch.load(path)["a"].tolist() == [1.0, 1.0]
    assert [p.name for p in tmp_path.iterdir()] == ["model.pt"]


def test_mmap(tmp_path):
    path = tmp_path / "model.pt"
    base = torch.arange(6.0).reshape(2, 3)
    torch.save([base, base[1], torch.empty(0), torch.ones(2, dtype=torch.int8)], path)
    loaded = torch.load(path, mmap=True)
    loaded[0][1, 0] = 50.0
    assert loaded[1].tolist() == [50.0, 4.0, 5.0] and loaded[3].tolist() == [1, 1]
    assert torch.load(path)[0].tolist() == base.tolist(), "the file must not change"
    with pytest.raises(ValueError, match="filename"):
        torch.load(written(base), mmap=True)


@pytest.fixture
def no_session(monkeypatch):
    """What the process registered by itself is not among the plugins, until the test ends."""
    from plugrad import registry

    for name in [name for name, plugin in registry.plugins.items() if plugin.distribution == "session"]:
        monkeypatch.delitem(registry.plugins, name)


@pytest.mark.usefixtures("no_session")
def test_readable_without_plugrad(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"w": torch.tensor([1.0, 2.0])}, path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("plugrad.json"))
    assert header["plugrad"] == torch.__version__ and header["plugins"] == {}
    assert numpy.load(path)["data/0"].tolist() == [1.0, 2.0]


@pytest.mark.usefixtures("no_session")
def test_checkpoints_know_their_plugins(monkeypatch):
    from plugrad.registry import loader

    plugin = loader.Plugin("plugrad-swish", "1.2", "swish", "plugrad_swish", False)
    plugin.status = "loaded"
    monkeypatch.setitem(loader.plugins, plugin.id, plugin)
    assert serialization.describe(written([1]))["plugins"] == {"plugrad-swish": "1.2"}
    with pytest.raises(pickle.UnpicklingError, match=r"plugrad-swish 1\.2"):
        torch.load(written(Net()))


def test_map_location():
    tensor, meta = torch.ones(2), torch.ones(2, 3, device="meta")
    assert again(meta).is_meta and again(meta).shape == (2, 3)
    seen = []
    loaded = again([tensor, tensor[:1]], map_location=lambda storage, place: seen.append(place))
    assert seen == ["cpu", "cpu"] and loaded[0].tolist() == [1.0, 1.0]
    for place in ("cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, place: storage):
        assert again(tensor, map_location=place).device.type == "cpu"


def rewritten(file, change) -> io.BytesIO:
    """Return a checkpoint whose description was changed."""
    copy = io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "plugrad.json":
                header = json.loads(data)
                change(header)
                data = json.dumps(header)
            new.writestr(name, data)
    copy.seek(0)
    return copy


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["tensors"][0].update(shape=[1000]),
        lambda h: h["tensors"][0].update(offset=5),
        lambda h: h["tensors"][0].update(strides=[-4]),
        lambda h: h["tensors"][0].update(storage=9),
        lambda h: h["tensors"][0].pop("dtype"),
        lambda h: h["root"].update(number=4),
        lambda h: h.update(root={"$": "unheard of"}),
        lambda h: h.update(format=99),
        lambda h: h["tensors"][0].update(device="cuda:7"),
    ],
)
def test_damaged_descriptions(change):
    with pytest.raises(RuntimeError, match="checkpoint|device"):
        torch.load(rewritten(written(torch.ones(3)), change))


def test_damaged_data():
    data = bytearray(written(torch.full((100,), 3.0)).getvalue())
    place = data.find(numpy.full(3, 3.0, numpy.float32).tobytes())
    data[place] ^= 255
    with pytest.raises(RuntimeError, match="damaged"):
        torch.load(io.BytesIO(bytes(data)))


def test_wrong_files(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"hello")
    with pytest.raises(RuntimeError, match="not a checkpoint"):
        torch.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(RuntimeError, match=r"not a checkpoint.*plugrad\.json"):
        torch.load(path)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none")
    for function in (torch.load, lambda f: torch.save(1, f)):
        with pytest.raises(AttributeError, match="path"):
            function(3)
    with pytest.raises(AttributeError, match="only torch.load from a file that is seekable.*io.BytesIO"):
        torch.load(types.SimpleNamespace(read=lambda size=-1: b"", readinto=len))
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device: 'cuda:99'"):
        torch.load(written(torch.ones(2)), map_location="cuda:99")
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        written(loop)


def test_picklers_whose_instances_are_closed():
    """Those of Python 3.13 let nobody set `persistent_id` on an instance."""

    def closed(cls):
        def refuse(self, name, value):
            raise AttributeError(f"{name!r} is read-only")

        return type(cls.__name__, (cls,), {"__setattr__": refuse})

    module = types.SimpleNamespace(Pickler=closed(pickle.Pickler), Unpickler=closed(pickle.Unpickler))
    file = written(Net(), pickle_module=module)
    assert torch.load(file, weights_only=False, pickle_module=module).notes == {"epoch": 3}


@pytest.mark.parametrize("form", [None, "torch"])
def test_what_can_not_be_encoded_is_refused_with_its_place(form, tmp_path):
    class Odd(torch.nn.Module):
        def get_extra_state(self):
            return {"names": ["a", lambda: 0]}

    with pytest.warns(UserWarning, match=r"'1\._extra_state\.names\.1' is of type builtins.function"):
        state = torch.nn.Sequential(torch.nn.Linear(1, 1), Odd()).state_dict()
    with pytest.raises((TypeError, pickle.PicklingError, AttributeError), match=r"'1\._extra_state\.names\.1'"):
        torch.save(state, tmp_path / "x.pt", format=form)
    with pytest.raises(TypeError, match="'model.file'"), open(os.devnull) as file:
        torch.save({"model": {"weight": torch.ones(2), "file": file}}, tmp_path / "x.pt", format=form)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("form", ["plugrad", "torch", "safetensors", "npz"])
def test_a_loaded_tensor_has_no_memory_but_its_own(form, mmap, tmp_path):
    """What is mapped is no view of the file: writing one tensor leaves what is saved of another one as it was."""
    path = tmp_path / "file"
    torch.save({"a": torch.ones(300), "b": torch.ones(7, 5)}, path, format=form)
    state = torch.load(path, mmap=mmap)
    for tensor in state.values():
        assert tensor.storage_offset() == 0 and tensor.untyped_storage().nbytes() == 4 * tensor.numel()
    a, b = (tensor.requires_grad_() for tensor in state.values())
    y = (a * a).sum()
    with torch.no_grad():
        b.add_(1)
    y.backward()
    assert a.grad.sum() == 600
    file = io.BytesIO()
    torch.save([a[:1], a[-1:], b], file)
    assert len(file.getvalue()) < 3000 + len(path.read_bytes())


LAID = {
    "an order that was open": lambda: torch.randn(3, 4).t().softmax(0),
    "channels last, as an op left it": lambda: nn.functional.avg_pool2d(
        torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last), 2
    ),
    "columns": lambda: torch.randn(3, 4).t(),
    "dimensions of size 1": lambda: torch.randn(3, 1, 4).permute(1, 2, 0),
    "none": lambda: torch.randn(3, 0, 2).permute(2, 0, 1),
}


@pytest.mark.parametrize("options", [{}, {"format": "torch"}], ids=["plugrad", "torch"])
@pytest.mark.parametrize("make", LAID.values(), ids=LAID)
def test_elements_come_back_in_the_order_that_they_have(make, options):
    tensor = make()
    loaded = again(tensor, **options)
    assert loaded.stride() == tensor.stride() and torch.equal(loaded, tensor)
    whole, row = again([tensor, tensor[-1]], **options)
    whole[-1] = 7
    assert (row == 7).all(), "they no longer share memory"


def other_order(data, said):
    """A file of PyTorch's as a machine with the other order of bytes writes it, which says so or not."""
    values = {str(i): value.numpy().astype(value.numpy().dtype.newbyteorder()) for i, value in enumerate(data)}
    ours, theirs = io.BytesIO(), io.BytesIO()
    torch.save(data, ours, format="torch")
    with zipfile.ZipFile(ours) as source, zipfile.ZipFile(theirs, "w") as target:
        for name in source.namelist():
            folder, _, key = name.rpartition("/")
            if folder.endswith("data"):
                target.writestr(name, values[key].tobytes())
            elif key != "byteorder":
                target.writestr(name, source.read(name))
            elif said:
                target.writestr(name, said)
    theirs.seek(0)
    return theirs


def test_files_of_machines_with_another_order_of_bytes_are_read():
    other = "big" if sys.byteorder == "little" else "little"
    data = [torch.tensor([1.5, -2.0]), torch.tensor([1 + 2j, 3j]), torch.tensor([[7, -1]]), torch.tensor([True])]
    for loaded, value in zip(torch.load(other_order(data, other)), data, strict=True):
        assert loaded.dtype is value.dtype and torch.equal(loaded, value)
    with pytest.raises(serialization.CheckpointError, match="little or big, not 'middle'"):
        torch.load(other_order(data, "middle"))


def test_the_order_of_bytes_of_files_that_do_not_say_theirs_can_be_set():
    order = serialization.LoadEndianness
    assert serialization.get_default_load_endianness() is None
    data = [torch.tensor([1.5, -2.0])]
    serialization.set_default_load_endianness(order.BIG if sys.byteorder == "little" else order.LITTLE)
    try:
        assert torch.equal(torch.load(other_order(data, None))[0], data[0])
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="expected LoadEndianness"):
        serialization.set_default_load_endianness("big")
