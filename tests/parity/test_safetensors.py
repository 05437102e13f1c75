"""safetensors files: both directions with the package itself."""

import json

import numpy
import pytest

import plugrad

package = pytest.importorskip("safetensors.numpy")
torch = pytest.importorskip("torch")
with_torch = pytest.importorskip("safetensors.torch")

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 "
    "float8_e4m3fn float8_e5m2"
).split()


def bits(tensor):
    if isinstance(tensor, plugrad.Tensor):
        return tensor.contiguous()._raw.tobytes()
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def contents(lib):
    tensors = {name: lib.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(lib, name)) for name in DTYPES}
    return {**tensors, "scalar": lib.tensor(2.5), "empty": lib.empty(0, 3), "one": lib.ones(1), "é": lib.ones(2)}


def agree(ours, theirs):
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        assert tuple(ours[name].shape) == tuple(value.shape) and str(ours[name].dtype) == str(value.dtype), name
        assert bits(ours[name]) == bits(value), name


@pytest.mark.parametrize("mmap", [False, True])
def test_files_of_the_package(mmap, tmp_path):
    path = tmp_path / "x.safetensors"
    with_torch.save_file(contents(torch), path, {"format": "pt", "about": "a test"})
    agree(plugrad.load(path, mmap=mmap), contents(torch))
    described = plugrad.serialization.describe(path)
    assert described["metadata"] == {"format": "pt", "about": "a test"}
    assert {row["name"] for row in described["tensors"]} == set(contents(torch))


def test_the_package_reads_ours(tmp_path):
    path = tmp_path / "x.safetensors"
    plugrad.save({**contents(plugrad), "t": plugrad.arange(6).view(2, 3).t()}, path, format="safetensors")
    agree({**contents(plugrad), "t": plugrad.arange(6).view(2, 3).t()}, with_torch.load_file(path))
    agree(plugrad.load(path), with_torch.load_file(path))
    assert [*plugrad.load(path)] == [*contents(plugrad), "t"]
    model = plugrad.nn.Linear(3, 2)
    plugrad.save(model.state_dict(), path, format="safetensors")
    theirs = torch.nn.Linear(3, 2)
    theirs.load_state_dict(with_torch.load_file(path))
    assert numpy.array_equal(theirs.weight.detach().numpy(), model.weight.detach().numpy())


def test_what_the_package_refuses_is_refused(tmp_path):
    path = tmp_path / "x.safetensors"
    plugrad.save({"a": plugrad.arange(4), "b": plugrad.ones(2)}, path, format="safetensors")
    data, chance = path.read_bytes(), numpy.random.default_rng(0)
    end = 8 + int.from_bytes(data[:8], "little")
    for _ in range(300):
        damaged = bytearray(data)
        if chance.random() < 0.3:
            damaged = damaged[: chance.integers(len(damaged))]
        else:
            damaged[chance.integers(end)] ^= 1 << chance.integers(8)
        path.write_bytes(damaged)
        try:
            theirs = set(package.load_file(path))
        except Exception:  # the package raises several
            with pytest.raises(plugrad.serialization.CheckpointError):
                plugrad.load(path, format="safetensors")
        else:
            assert set(plugrad.load(path, format="safetensors")) == theirs


def test_a_model_in_several_files(tmp_path):
    parts = {
        "model-1.safetensors": {"a": torch.ones(2), "b": torch.arange(3)},
        "model-2.safetensors": {"c": torch.ones(1)},
    }
    for name, part in parts.items():
        with_torch.save_file(part, tmp_path / name)
    places = {key: name for name, part in parts.items() for key in part}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 36}, "weight_map": places}))
    for mmap in (False, True):
        agree(plugrad.load(index, mmap=mmap), {key: value for part in parts.values() for key, value in part.items()})
    assert len(plugrad.serialization.describe(index)["tensors"]) == 3


def test_dtypes_that_are_not_here_are_named(tmp_path):
    header = json.dumps({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}).encode()
    (tmp_path / "x").write_bytes(len(header).to_bytes(8, "little") + header + b"1")
    with pytest.raises(plugrad.serialization.CheckpointError, match="F4"):
        plugrad.load(tmp_path / "x")


@pytest.mark.parametrize("obj, text", [
    ([1], "dict of tensors"), ({"a": 1}, "'a' is int"), ({1: plugrad.ones(1)}, "no str"),
    ({"a": {"b": plugrad.ones(1)}}, "'a' is dict"), ({"a": plugrad.ones(1, device="meta")}, "meta"),
    ({"a": plugrad.ones(1, dtype=plugrad.complex128)}, "complex128"),
    ({"a": plugrad.eye(2).to_sparse()}, "sparse"),
])  # fmt: skip
def test_what_it_can_not_hold(obj, text, tmp_path):
    with pytest.raises(TypeError, match=text):
        plugrad.save(obj, tmp_path / "x", format="safetensors")
    assert not list(tmp_path.iterdir())
