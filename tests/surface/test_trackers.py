"""What keeps the numbers of a training run: event files that TensorBoard reads, lines of JSON, trackers of others."""

import io
import json
import os

import numpy
import pytest

import plugrad
from plugrad import nn, trackers
from plugrad.trackers.wire import png
from plugrad.utils.tensorboard import SummaryWriter

STRING = 7  # the type of texts in messages of tensors


@pytest.fixture
def events():
    """A function from a folder to {tag: (step, value)} as TensorBoard itself reads its event files."""
    pytest.importorskip("tensorboard", reason="pip install 'plugrad[libraries]' brings tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto import event_pb2

    def read(folder):
        contents = [raw for file in sorted(folder.rglob("events*")) for raw in RawEventFileLoader(str(file)).Load()]
        read.events = [event_pb2.Event.FromString(content) for content in contents]
        return {value.tag: (event.step, value) for event in read.events for value in event.summary.value}

    return read


def written(writer, library):
    """Write one of each kind whose content does not depend on when or where."""
    values = numpy.random.RandomState(0).randn(200)
    writer.add_scalar("loss", library.tensor(0.5), 3, walltime=12.5)
    writer.add_scalar("without a step", 1)
    for name, bins in {"tensorflow": "tensorflow", "five": 5, "rule": "auto", "bounds": [-9.0, 0.0, 0.5, 9.0]}.items():
        writer.add_histogram(f"histogram/{name}", library.tensor(values), 4, bins=bins)
    writer.add_histogram("zeros", library.zeros(3), 4)
    writer.add_histogram_raw("raw", 0, 1, 3, 1.5, 2.0, [1.0, 2.0], [1, 2])
    writer.add_text("note", "a *text*, é", 1)
    writer.add_image("image", library.tensor(values[:60].reshape(3, 4, 5)).sigmoid(), 1)
    writer.add_images("images", library.ones(10, 3, 4, 5) / 2, 1)
    writer.add_audio("sound", library.linspace(-1, 1, 10), 1)
    writer.add_image_with_boxes("boxes", library.ones(3, 20, 30), library.tensor([[1, 2, 9, 12]]), 1)
    labels, weights = library.tensor([0, 1, 1, 0, 1]), library.tensor([1.0, 2.0, 1.0, 1.0, 0.5])
    predictions = library.tensor([0.0, 0.1, 0.9, 0.6, 1.0])
    writer.add_pr_curve("curve", labels, predictions, 1)
    writer.add_pr_curve("weighted", labels == 1, predictions, 1, num_thresholds=5, weights=weights.numpy())
    writer.add_pr_curve_raw("raw curve", *(values[i : i + 5] for i in range(6)), 2, num_thresholds=5)
    points = library.tensor(values[:24].reshape(2, 4, 3), dtype=library.float32)
    writer.add_mesh("cloud", points, config_dict={"camera": {"fov": 9, "cls": "PerspectiveCamera"}}, global_step=3)
    writer.add_mesh("mesh", points, (points > 0).to(library.int32), library.tensor([[[0, 2, 3]], [[0, 1, 2]]]))
    writer.add_custom_scalars({"a": {"b": ["Multiline", ["c", "d"]], "e": ["Margin", ["f", "g", "h"]]}})
    for dtype in ("int64", "complex64", "float64"):
        writer.add_tensor(f"tensor/{dtype}", library.arange(6).reshape(2, 3).to(getattr(library, dtype)), 1)
    writer.add_hparams({"lr": 0.1, "layers": 2, "name": "adam"}, {"accuracy": 0.5}, {"layers": [1, 2]}, run_name="run")


def test_event_files_are_those_that_pytorch_writes(tmp_path, events):
    torch = pytest.importorskip("torch")
    image_of = pytest.importorskip("PIL.Image").open
    from tensorboard.util.tensor_util import make_ndarray
    from torch.utils.tensorboard import SummaryWriter as Theirs

    for name, library, make in (("ours", plugrad, SummaryWriter), ("theirs", torch, Theirs)):
        with make(tmp_path / name, purge_step=2) as writer:
            written(writer, library)
    ours, theirs = events(tmp_path / "ours"), events(tmp_path / "theirs")
    assert {*ours} == {*theirs}
    for tag, (step, value) in ours.items():
        other_step, other = theirs[tag]
        assert step == other_step
        if value.HasField("image"):
            pixels = [numpy.asarray(image_of(io.BytesIO(one.image.encoded_image_string))) for one in (value, other)]
            assert numpy.array_equal(*pixels)
        elif value.HasField("histo"):
            assert list(value.histo.bucket) == list(other.histo.bucket)
            assert list(value.histo.bucket_limit) == pytest.approx(list(other.histo.bucket_limit), rel=1e-9)
            assert value.histo.sum_squares == pytest.approx(other.histo.sum_squares)
        elif value.HasField("tensor") and value.tensor.dtype != STRING:  # elements may be written in several ways
            arrays = [make_ndarray(one.tensor) for one in (value, other)]
            numpy.testing.assert_allclose(*arrays, rtol=1e-6)
            assert arrays[0].dtype == arrays[1].dtype and value.metadata == other.metadata, tag
        elif not tag.startswith("_hparams_/session_start"):  # which has the time, and a map in any order
            assert value == other, tag


def test_what_tensorboard_makes_of_it(tmp_path, events):
    with SummaryWriter(tmp_path, purge_step=7) as writer:
        written(writer, plugrad)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 5)
        writer.add_graph(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), plugrad.ones(4, 2))
        writer.add_tensor("halves", plugrad.tensor([0.5, -2.0], dtype=plugrad.float16))  # PyTorch writes other bits
        assert writer.get_logdir() == str(tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util.tensor_util import make_ndarray

    assert list(make_ndarray(events(tmp_path)["halves"][1].tensor)) == [0.5, -2.0]
    assert events.events[0].file_version == "brain.Event:2"
    (started,) = (event for event in events.events if event.HasField("session_log"))
    assert started.session_log.status == 1 and started.step == 7
    reader = EventAccumulator(str(tmp_path)).Reload()
    assert reader.Scalars("loss")[0].value == 0.5 and reader.Scalars("loss")[0].wall_time == 12.5
    nodes = {node.name: (node.op, list(node.input)) for node in reader.Graph().node}
    assert nodes["Addmm"] == ("Addmm", ["input", "0/weight", "0/bias"]) and nodes["result"][1] == ["Relu"]
    assert len([*tmp_path.glob("both_?/events*")]) == 2
    values = events(tmp_path / "run")
    content = values["_hparams_/session_start_info"][1].metadata.plugin_data.content
    hyperparameters = plugin_data_pb2.HParamsPluginData.FromString(content).session_start_info.hparams
    assert hyperparameters["lr"].number_value == 0.1 and hyperparameters["name"].string_value == "adam"
    assert values["accuracy"][1].simple_value == 0.5


def test_points_for_the_projector(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(plugrad.eye(2), ["a", "b\tc"], plugrad.zeros(2, 3, 4, 6), 2, tag="../up")
        writer.add_embedding(plugrad.eye(2), [["a", 1], ["b", 2]], metadata_header=["name", "number"])
        with pytest.raises(AssertionError, match="labels should equal"):
            writer.add_embedding(plugrad.eye(2), ["a"])
    config = (tmp_path / "projector_config.pbtxt").read_text()
    assert config.count("embeddings {") == 2 and "single_image_dim: 6 single_image_dim: 4" in config
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.tsv")} == {
        f"{step}/{tag}/{name}.tsv"
        for step, tag in (("00002", "..%2fup"), ("00000", "default")) for name in ("tensors", "metadata")
    }  # fmt: skip
    assert (tmp_path / "00002/..%2fup/metadata.tsv").read_text() == "a\nb c\n"
    assert (tmp_path / "00000/default/tensors.tsv").read_text() == "1.0\t0.0\n0.0\t1.0\n"


def test_what_can_not_be_written(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        with pytest.raises(AssertionError, match="'x' has 2 elements"):
            writer.add_scalar("x", plugrad.ones(2))
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("x", plugrad.ones(0))
        with pytest.raises(ValueError, match="not finite"):
            writer.add_histogram("x", plugrad.tensor([1.0, float("nan")]))
        with pytest.raises(ValueError, match="does not fit an image of shape"):
            writer.add_image("x", plugrad.ones(2, 3))
        with pytest.raises(ValueError, match="'x' is of type list"):
            writer.add_hparams({"x": [1]}, {})
        with pytest.raises(ValueError, match="videos have shape"):
            writer.add_video("x", plugrad.ones(2, 3))
        with pytest.raises(ValueError, match="should be of shape BxNx3"):
            writer.add_mesh("x", plugrad.ones(2, 3))
        with pytest.raises(ValueError, match="from 0 to 1: apply sigmoid"):
            writer.add_pr_curve("x", plugrad.ones(2), plugrad.tensor([-1.0, 2.0]))
        with pytest.raises(ValueError, match="do not fit predictions"):
            writer.add_pr_curve("x", plugrad.ones(3), plugrad.ones(2))
        with pytest.raises(AssertionError, match="not \\['a'\\]"):
            writer.add_custom_scalars({"x": {"y": ["Margin", ["a"]]}})
        with pytest.raises(ValueError, match="unsupported tensor dtype torch.float8_e5m2"):
            writer.add_tensor("x", plugrad.ones(2).to(plugrad.float8_e5m2))
    with pytest.raises(ValueError, match="is closed"):
        writer.add_scalar("x", 1.0)


def test_files_hold_what_was_flushed_and_forks_write_nothing(tmp_path):
    writer = SummaryWriter(tmp_path, max_queue=3)
    (file,) = tmp_path.iterdir()
    sizes = []
    for step in range(4):
        writer.add_scalar("x", step, step)
        sizes.append(file.stat().st_size)
    assert sizes[0] == sizes[2] < sizes[3]
    writer.add_scalar("x", 5, 5)
    if os.name == "posix":
        child = os.fork()
        if not child:
            writer.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert file.stat().st_size == sizes[3]
    writer.flush()
    assert file.stat().st_size > sizes[3]
    writer.close()


@pytest.mark.parametrize("channels", [None, 1, 2, 3, 4])
def test_images_are_png(channels):
    image_of = pytest.importorskip("PIL.Image").open
    image = numpy.arange(20 * (channels or 1), dtype=numpy.uint8).reshape((4, 5) if channels is None else (4, 5, -1))
    assert numpy.array_equal(numpy.asarray(image_of(io.BytesIO(png(image)))), image[..., 0] if channels == 1 else image)
    with pytest.raises(ValueError, match="a PNG has uint8"):
        png(image.astype(float))


def test_videos_play(tmp_path, events):
    image_of = pytest.importorskip("PIL.Image").open
    video = plugrad.arange(3).reshape(1, 3, 1, 1, 1) / plugrad.tensor([2.0, 4.0]).reshape(2, 1, 1, 1, 1)
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("video", video.expand(2, 3, 3, 4, 6), 1, fps=8)
    film = image_of(io.BytesIO(events(tmp_path)["video"][1].image.encoded_image_string))
    assert (film.n_frames, film.size, film.info["loop"], film.info["duration"]) == (3, (12, 4), 0, 125.0)
    for frame in range(3):
        film.seek(frame)
        pixels = numpy.asarray(film.convert("RGB"))
        assert (pixels[:, :6] == 255 * frame // 2).all() and (pixels[:, 6:] == 255 * frame // 4).all()


def test_labels_of_boxes(tmp_path, events):
    image_of = pytest.importorskip("PIL.Image").open
    with SummaryWriter(tmp_path) as writer:
        boxes = plugrad.tensor([[5.0, 5.0, 60.0, 40.0]])
        writer.add_image_with_boxes("gray", plugrad.ones(1, 50, 70), boxes, rescale=2, labels=["cat"])
    image = numpy.asarray(image_of(io.BytesIO(events(tmp_path)["gray"][1].image.encoded_image_string)))
    assert image.shape == (100, 140, 3) and (image[30] != 255).any() and (image[70, 14:50] < 80).any()


def test_graphs_of_onnx_files(tmp_path, events):
    plugrad.onnx.export(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), (plugrad.ones(4, 2),), tmp_path / "model.onnx")
    with SummaryWriter(tmp_path) as writer:
        writer.add_onnx_graph(tmp_path / "model.onnx")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    nodes = {node.name: node for node in EventAccumulator(str(tmp_path)).Reload().Graph().node}
    assert {"Gemm", "Relu", "Variable"} == {node.op for node in nodes.values()}
    (gemm,) = (node for node in nodes.values() if node.op == "Gemm")
    (relu,) = (node for node in nodes.values() if node.op == "Relu")
    assert [*relu.input] == [gemm.name] and "transB = 1" in gemm.attr["parameters"].s.decode()


def test_lines_of_json(tmp_path):
    with trackers.track(tmp_path / "new", "jsonl") as run:
        run.scalar("loss", plugrad.tensor(0.5, dtype=plugrad.bfloat16, requires_grad=True), 1)
        run.scalar("loss", float("nan"), 2)
        run.histogram("w", plugrad.tensor([0.0, 3.0, float("inf")]), 1)
        run.text("note", "é", 1)
        run.hparams({"lr": plugrad.tensor(0.5), "name": "x"}, {"loss": 1})
        with pytest.raises(NotImplementedError, match="'jsonl' keeps no images"):
            run.image("x", plugrad.zeros(2, 2))
    lines = [json.loads(line) for line in (tmp_path / "new/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["value"] for line in lines[:2]] == [0.5, "nan"] and lines[1]["step"] == 2
    assert sum(lines[2]["value"]["counts"]) == 2 and lines[2]["value"]["not_finite"] == 1
    assert lines[4]["value"] == {"values": {"lr": 0.5, "name": "x"}, "metrics": {"loss": 1}}


def test_several_trackers_get_everything(tmp_path, events):
    class Kept(trackers.Tracker):
        name = "kept"

        def __init__(self, folder):
            super().__init__(folder)
            self.calls = []

        def scalar(self, tag, value, step):
            self.calls.append((tag, value, step))
            raise OSError("no room")

        def image(self, tag, image, step):
            self.calls.append((image.shape, image.dtype))

    with trackers.track(tmp_path, Kept, "tensorboard") as run:
        with pytest.raises(OSError, match="no room"):
            run.scalar("x", plugrad.tensor([2]), 1)  # the other one still gets it
        run.image("image", plugrad.ones(3, 4))
        run.image("image", plugrad.ones(3, 4, 5))
        assert run.trackers[0].calls == [("x", 2.0, 1), ((3, 4, 1), numpy.uint8), ((4, 5, 3), numpy.uint8)]
        with pytest.raises(ValueError, match="has 2: use histogram"):
            run.scalar("x", plugrad.ones(2))
        with pytest.raises(ValueError, match="an image has shape"):
            run.image("x", plugrad.ones(5, 3, 4))
    assert {*events(tmp_path)} == {"x", "image"}
    with pytest.raises(ValueError, match="no tracker named 'wandb'; installed are jsonl, tensorboard"):
        trackers.track(tmp_path, "wandb")
