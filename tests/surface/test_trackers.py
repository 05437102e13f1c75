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
    writer.add_hparams({"lr": 0.1, "layers": 2, "name": "adam"}, {"accuracy": 0.5}, {"layers": [1, 2]}, run_name="run")


def test_event_files_are_those_that_pytorch_writes(tmp_path, events):
    torch = pytest.importorskip("torch")
    image_of = pytest.importorskip("PIL.Image").open
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
        elif not tag.startswith("_hparams_/session_start"):  # which has the time, and a map in any order
            assert value == other, tag


def test_what_tensorboard_makes_of_it(tmp_path, events):
    with SummaryWriter(tmp_path, purge_step=7) as writer:
        written(writer, plugrad)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 5)
        writer.add_graph(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), plugrad.ones(4, 2))
        assert writer.get_logdir() == str(tmp_path)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2

    events(tmp_path)
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
        for name, arguments in {"add_video": ("x", 0), "add_mesh": ("x", 0), "add_custom_scalars": ({},)}.items():
            with pytest.raises(NotImplementedError, match=name):
                getattr(writer, name)(*arguments)
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
