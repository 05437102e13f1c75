"""ONNX files as they are read: PyTorch's own, by `load` and `inspect`, training, and files that are not in order."""

import io
import random
import struct
import warnings

import numpy
import pytest

import plugrad
from plugrad import nn
from plugrad.onnx import files
from plugrad.onnx.wire import fields, message
from plugrad.serialization import CheckpointError


def file_of(model, *args, **options):
    return bytes(plugrad.onnx.export(model, args, **options))


def loaded(data, **options):
    return plugrad.onnx.load(io.BytesIO(data), **options)


def built(nodes, constants=(), inputs=("x",), outputs=("y",), domain=""):
    infos = [[files.value_info(name, plugrad.float32, [2]) for name in names] for names in (inputs, outputs)]
    return files.model(nodes, list(constants), *infos, {"": 18}, "graph")


def node(kind, inputs, outputs, **attributes):
    return files.node(kind, list(inputs), list(outputs), attributes, "", "", "")


def torch_models():
    torch = pytest.importorskip("torch")
    nn, R = torch.nn, torch.randn
    torch.manual_seed(0)
    yield nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softmax(-1)), R(2, 4)
    image = R(2, 3, 8, 8)
    yield nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(4, 2),
    ), image  # fmt: skip
    yield (
        nn.Sequential(nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), nn.GroupNorm(2, 4), nn.PReLU(4), nn.AvgPool2d(3, 2, 1)),
        image,
    )
    yield (
        nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.ReflectionPad2d(1), nn.InstanceNorm2d(3, affine=True)
        ),
        image,
    )
    for layer in (nn.LSTM(4, 5, 2, bidirectional=True), nn.GRU(4, 5), nn.RNN(4, 5, nonlinearity="relu")):
        yield layer, R(3, 2, 4)
    yield nn.Embedding(10, 3), torch.tensor([[1, 2]])


def test_files_that_pytorch_wrote_compute_the_same():
    torch = pytest.importorskip("torch")
    for model, example in torch_models():
        model.eval()
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (example,), file, dynamo=False, opset_version=17)
        result = loaded(file.getvalue())(plugrad.from_numpy(example.numpy()))
        expected = model(example)
        while isinstance(expected, tuple):
            expected, result = expected[0], result[0] if isinstance(result, tuple) else result
        numpy.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), atol=1e-5)


def test_a_model_that_was_loaded_trains_and_goes_back_into_the_original():
    plugrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1))
    x, y = plugrad.randn(8, 3), plugrad.randn(8, 1)
    copy = loaded(file_of(model, x, dynamic_axes={"input": {0: "n"}}))
    assert not copy.training and copy.input_names == ["input"] and copy.shapes == {"input": ["n", 3]}
    names = {name for name, _ in model.named_parameters()}
    assert {name for name, _ in copy.named_parameters()} == names and all(p.requires_grad for p in copy.parameters())
    for one in (model, copy):
        one.train()
        optimizer = plugrad.optim.SGD(one.parameters(), 0.1)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.mse_loss(one(x), y).backward()
            optimizer.step()
        one.eval()
    assert plugrad.allclose(model(x), copy(x), atol=1e-5)
    assert {*model.state_dict()} - {*copy.state_dict()} == {"1.num_batches_tracked"}
    fresh = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).eval()
    fresh.load_state_dict(copy.state_dict(), strict=False)
    assert plugrad.allclose(fresh(x), copy(x), atol=1e-5)
    with pytest.raises(TypeError, match="takes input"):
        copy(x, x)


def test_load_and_inspect_know_the_format(tmp_path):
    path = tmp_path / "model.bin"
    path.write_bytes(file_of(nn.Linear(2, 3), plugrad.ones(1, 2)))
    assert isinstance(plugrad.load(path), plugrad.onnx.ONNXModule)
    described = plugrad.serialization.describe(path)
    assert [(row["name"], row["shape"]) for row in described["tensors"]] == [("weight", [3, 2]), ("bias", [3])]
    assert described["metadata"]["operators"] == "Gemm" and described["metadata"]["inputs"] == "input float32[1, 2]"
    with pytest.raises(NotImplementedError, match="only read"):
        plugrad.save({}, tmp_path / "other", format="onnx")
    with pytest.raises(CheckpointError, match="checksums"):
        plugrad.load(path, mmap=True, verify=True)


def test_numbers_that_are_not_raw_are_read():
    table = [
        (plugrad.float32, (4, struct.pack("<2f", 1.5, -2)), [1.5, -2]), (plugrad.int64, (7, [3, -4]), [3, -4]),
        (plugrad.int8, (5, [3, -4]), [3, -4]), (plugrad.float64, (10, struct.pack("<2d", 1.5, -2)), [1.5, -2]),
        (plugrad.float16, (5, [0x3E00, 0xC000]), [1.5, -2]), (plugrad.bfloat16, (5, [0x3FC0, 0xC000]), [1.5, -2]),
        (plugrad.bool, (5, [1, 0]), [True, False]), (plugrad.uint64, (11, [3, 4]), [3, 4]),
    ]  # fmt: skip
    for dtype, field, values in table:
        constant = message((1, [2]), (2, files.CODES[dtype]), (8, "c"), field)
        model = loaded(built([node("Identity", ["c"], ["y"])], [constant], inputs=()))
        assert model().dtype is dtype and model().tolist() == values


def test_operators_can_be_declared():
    data = built([node("Bump", ["x"], ["y"], height=2.0)])
    with pytest.raises(NotImplementedError, match="Bump; plugrad.onnx.operator"):
        loaded(data)
    from plugrad.onnx.declaring import OPERATORS

    @plugrad.onnx.operator("Bump")
    def bump(module, node, x):
        return node.attributes["height"] * plugrad.exp(-x * x)

    try:
        assert loaded(data)(plugrad.zeros(2)).tolist() == [2, 2]
    finally:
        del OPERATORS["Bump"]


# ---------------------------------------------------------------------------------------- files that are not in order


def with_tensor(*parts, name="c"):
    return built([node("Identity", ["c"], ["y"])], [message(*parts, (8, name))], inputs=())


DAMAGED = {
    "more elements than there are": (with_tensor((1, [2**40]), (2, 1), (9, b"abcd")), "4 bytes"),
    "a shape beyond all memory": (with_tensor((1, [2**40, 2**40]), (2, 1), (9, b"")), "no shape"),
    "a negative size": (with_tensor((1, [-1]), (2, 1), (9, b"")), "no shape"),
    "too few numbers": (with_tensor((1, [2**35]), (2, 7), (7, [1])), "elements has 8 bytes"),
    "text": (with_tensor((1, [1]), (2, 8), (6, b"text")), "type 8"),
    "an unknown type": (with_tensor((1, [1]), (2, 99), (9, b"")), "type 99"),
    "two of one name": (
        built([], [message((1, [0]), (2, 1), (8, "c"))] * 2, inputs=()), "two tensors"
    ),
    "graphs in nodes": (
        built([message((1, ["x"]), (2, ["y"]), (4, "If"), (5, message((1, "then_branch"), (6, b""), (20, 5))))]),
        "If, Loop",
    ),
    "functions": (message((1, 10), (7, b""), (25, b"")), "functions"),
    "an output of nobody": (built([node("Relu", ["x"], ["z"])]), "gives its output 'y'"),
    "no graph": (message((1, 10), (2, "nobody"), (8, b"")), "no graph"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED)
def test_files_that_are_not_in_order(name):
    data, text = DAMAGED[name]
    with pytest.raises(CheckpointError, match=text):
        loaded(data)


@pytest.mark.parametrize("place", [
    "../secret", "/etc/passwd", "..", "folder/data", "C:\\data", "", "link", "missing", "nul\0byte",
])  # fmt: skip
def test_data_outside_of_the_file_are_read_beside_it_alone(place, tmp_path):
    (tmp_path / "secret").write_bytes(bytes(8))
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "model.onnx"
    entry = message((1, "location"), (2, place))
    path.write_bytes(with_tensor((1, [2]), (2, 1), (13, entry), (14, 1)))
    with pytest.raises(CheckpointError, match="no file beside|is not there"):
        plugrad.onnx.load(path)


def test_data_beside_the_file(tmp_path):
    path, data = tmp_path / "model.onnx", tmp_path / "model.data"
    data.write_bytes(struct.pack("<3f", 0, 1, 2))

    def written(**entries):
        parts = [message((1, key), (2, str(value))) for key, value in {"location": "model.data", **entries}.items()]
        path.write_bytes(with_tensor((1, [2]), (2, 1), (13, parts), (14, 1)))
        return plugrad.onnx.load(path)

    assert written(offset=4, length=8)().tolist() == [1, 2]
    for entries, text in (({"offset": 8}, "not in the file"), ({"length": 4}, "4 bytes"), ({"offset": "x"}, "x")):
        with pytest.raises(CheckpointError, match=text):
            written(**entries)
    with pytest.raises(CheckpointError, match="by a path"):
        loaded(path.read_bytes())


def test_damage_anywhere_raises_the_one_error_or_changes_nothing_but_values():
    data = file_of(nn.Sequential(nn.Conv1d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)), plugrad.ones(1, 2, 5))
    draw = random.Random(0)
    for number in range(300):
        bad = bytearray(data)
        if number % 3:
            bad[draw.randrange(len(bad))] ^= 1 << draw.randrange(8)
        else:
            bad = bad[: draw.randrange(len(bad))]
        try:
            loaded(bytes(bad))
        except (CheckpointError, NotImplementedError):
            pass


def test_other_files_are_not_taken_for_models(tmp_path):
    for content in (b"", b"\x08", b"\x08\x07", b"\x08\x0a" + bytes(60), b"\x08\x0a" + b"\xff" * 60, b"x" * 100):
        path = tmp_path / "file"
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="none of the formats|not a checkpoint|empty"):
            plugrad.load(path)


def test_messages_are_those_of_protocol_buffers():
    onnx = pytest.importorskip("onnx")
    tensor = onnx.numpy_helper.to_array(onnx.TensorProto.FromString(
        files.tensor("t", numpy.arange(6.0).reshape(2, 3), plugrad.float64)
    ))  # fmt: skip
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    given = files.attribute("a", [1.5, -2.0]), files.attribute("b", -3), files.attribute("c", "text")
    found = [onnx.helper.get_attribute_value(onnx.AttributeProto.FromString(one)) for one in given]
    assert found == [[1.5, -2.0], -3, b"text"]
    assert [(number, value) for number, _, value in fields(message((3, -1), (2, 300)))] == [(3, 2**64 - 1), (2, 300)]
    with pytest.raises(TypeError, match="'a'"):
        files.attribute("a", object())
