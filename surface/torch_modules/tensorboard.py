"""`torch.utils.tensorboard`: event files for TensorBoard, which need not be installed to write them."""

from __future__ import annotations

import io
import os
import socket
import time
import wave

import numpy

from plugrad.torch_modules.tensorboard_messages import (
    LARGEST_CURVE,
    curve,
    embedding,
    graph,
    histogram,
    hparams,
    layout_message,
    mesh,
    onnx_graph,
    precision_recall,
    tensor_message,
    text_message,
)
from plugrad.trackers import as_array, as_pixels
from plugrad.trackers.wire import EventFile, message, png

__all__ = ["SummaryWriter"]

_START = message((1, 1))  # a SessionLog whose status is START


class SummaryWriter:
    """Writes what a training run says of itself into a folder that TensorBoard shows.

    Args:
        log_dir: the folder, by default `runs/DATE_TIME_HOST`.
        comment: appended to the default folder's name.
        purge_step: with a run that goes on: TensorBoard forgets what it had from this step on.
        max_queue, flush_secs: how many values, and seconds, may wait until they are written.
        filename_suffix: of the file's name.

    Steps are integers, and `walltime` is in seconds since the epoch.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
    ...     for step in range(3):
    ...         writer.add_scalar("loss", 1 / (step + 1), step)
    """

    def __init__(
        self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""
    ):  # fmt: skip
        started = time.strftime("%b%d_%H-%M-%S")
        self.log_dir = os.fspath(log_dir or os.path.join("runs", f"{started}_{socket.gethostname()}{comment}"))
        self._options = (max_queue, flush_secs, filename_suffix)
        self._file = EventFile(self.log_dir, *self._options)
        self._beside: dict = {}  # folder -> the writer of `add_scalars`
        if purge_step is not None:
            self._file.add(message((2, int(purge_step)), (7, _START)))

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _add(self, value, step, walltime) -> None:
        """Write one value of a summary."""
        step = None if step is None else int(step)
        self._file.add(message((2, step), (5, message((1, value)))), walltime)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False,
                   double_precision=False) -> None:  # fmt: skip
        """Write a number, or a tensor of one element.

        `new_style` and `double_precision` are accepted: TensorBoard reads both styles, as float32.
        """
        array = as_array(scalar_value)
        if array.size != 1:
            raise AssertionError(f"scalar should be 0D: {tag!r} has {array.size} elements")
        with numpy.errstate(over="ignore"):
            value = numpy.float32(array.reshape(()))
        self._add(message((1, tag), (2, value)), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None) -> None:
        """Write several numbers for one diagram, each in a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self._beside:
                self._beside[folder] = SummaryWriter(folder, None, None, *self._options)
            self._beside[folder].add_scalar(main_tag, value, global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None) -> None:
        """Write a text, as Markdown."""
        self._add(text_message(f"{tag}/text_summary", text_string), global_step, walltime)

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None) -> None:
        """Write the distribution of values.

        Args:
            bins: "tensorflow", whose bins are exponential; a number of bins, their bounds, or NumPy's name of a rule.
            max_bins: more are joined.
        """
        self._add(message((1, tag), (5, histogram(as_array(values), bins, max_bins))), global_step, walltime)

    def add_histogram_raw(self, tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts, global_step=None,
                          walltime=None) -> None:  # fmt: skip
        """Write a distribution that was counted before.

        `bucket_limits` are the upper bounds of the bins.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("len(bucket_limits) != len(bucket_counts), see the document.")
        numbers = [(1 + place, float(value)) for place, value in enumerate((min, max, num, sum, sum_squares))]
        limits, counts = ([float(value) for value in values] for values in (bucket_limits, bucket_counts))
        self._add(message((1, tag), (5, message(*numbers, (6, limits), (7, counts)))), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW") -> None:
        """Write an image, of floats in [0, 1] or of uint8.

        `dataformats` names its dimensions: "HW", "HWC"...
        """
        image = as_hwc(as_array(img_tensor), dataformats)
        height, width, *channels = image.shape
        content = message((1, height), (2, width), (3, (channels or [1])[0]), (4, png(as_pixels(image))))
        self._add(message((1, tag), (4, content)), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW") -> None:
        """Write a batch of images, eight side by side."""
        images = as_array(img_tensor)
        if dataformats not in ("NCHW", "NHWC") or images.ndim != 4:
            raise ValueError(f"dataformats={dataformats!r}, not 'NCHW' or 'NHWC', for images of shape {images.shape}")
        grid = tiled(images if dataformats == "NHWC" else images.transpose(0, 2, 3, 1), min(8, len(images)))
        self.add_image(tag, grid, global_step, walltime, "HWC")

    def add_image_with_boxes(self, tag, img_tensor, box_tensor, global_step=None, walltime=None, rescale=1,
                             dataformats="CHW", labels=None) -> None:  # fmt: skip
        """Write an image with boxes drawn on it; Pillow must be installed.

        Args:
            box_tensor: (N, 4), rows of (left, top, right, bottom) in pixels.
            rescale: a factor of the image's size.
            labels: N texts, which stand in the boxes.
        """
        image, boxes = as_hwc(as_array(img_tensor), dataformats), as_array(box_tensor)
        labels = [labels] if isinstance(labels, str) else labels
        labels = labels if labels is not None and len(labels) == len(boxes) else [None] * len(boxes)
        drawn = with_boxes(as_pixels(image), boxes, labels, rescale)
        self.add_image(tag, drawn, global_step, walltime, "HWC")

    def add_tensor(self, tag, tensor, global_step=None, walltime=None) -> None:
        """Write a tensor as it is."""
        self._add(tensor_message(tag, tensor), global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None) -> None:
        """Write a figure of Matplotlib, or a list of them side by side.

        `close` closes them.
        """
        figures = figure if isinstance(figure, list) else [figure]
        for one in figures:
            one.canvas.draw()
        images = numpy.stack([numpy.asarray(one.canvas.buffer_rgba()) for one in figures])
        self.add_image(tag, tiled(images, len(images)), global_step, walltime, "HWC")
        if close:
            from matplotlib import pyplot

            for one in figures:
                pyplot.close(one)

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None) -> None:
        """Write a sound of one channel, numbers from -1 to 1."""
        sound = as_array(snd_tensor).reshape(-1).clip(-1, 1)
        file = io.BytesIO()
        with wave.open(file, "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(sample_rate)
            writer.writeframes((sound * 32767).astype("<i2").tobytes())
        content = message((1, numpy.float32(sample_rate)), (2, 1), (3, sound.size), (4, file.getvalue()),
                          (5, "audio/wav"))  # fmt: skip
        self._add(message((1, tag), (6, content)), global_step, walltime)

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True) -> None:
        """Write the graph that a call of a model records.

        Args:
            model: a module.
            input_to_model: its argument, or a tuple of them.
            verbose, use_strict_trace: accepted; there is no TorchScript to print or to be strict.
        """
        if input_to_model is None:
            raise ValueError("add_graph needs input_to_model: the graph is that of a call of the model")
        arguments = input_to_model if isinstance(input_to_model, (tuple, list)) else (input_to_model,)
        self._file.add(message((4, graph(model, arguments))))

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
                    global_step=None) -> None:  # fmt: skip
        """Write hyperparameters, and the metrics that they led to.

        Args:
            hparam_dict: {name: bool, number or text}.
            metric_dict: {name: number}.
            hparam_domain_discrete: {name: values that it could have}.
            run_name: of the folder that is made for them, the time by default.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        values = hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.normpath(os.path.join(self.log_dir, run_name or str(time.time())))
        with SummaryWriter(folder) as writer:
            for value in values:
                writer._add(value, None, None)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default",
                      metadata_header=None) -> None:  # fmt: skip
        """Write points for TensorBoard's projector.

        Args:
            mat: the points, (N, dimensions).
            metadata: N labels, or N rows of them, for which `metadata_header` names the columns.
            label_img: N images, (N, channels, height, width).
        """
        points = as_array(mat)
        images = None if label_img is None else as_pixels(as_array(label_img).transpose(0, 2, 3, 1))
        sheet = None if images is None else png(tiled(images, int(numpy.ceil(len(images) ** 0.5))))
        size = None if images is None else images.shape[2:0:-1]
        embedding(self.log_dir, points, metadata, sheet, size, f"{global_step or 0:05d}", tag, metadata_header)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None) -> None:
        """Write videos, (N, frames, channels, height, width), side by side.

        As an animated PNG, which browsers play.
        """
        videos = as_array(vid_tensor)
        if videos.ndim != 5 or not videos.size:
            raise ValueError(f"videos have shape (N, frames, channels, height, width), not {videos.shape}")
        columns = int(numpy.ceil(len(videos) ** 0.5))
        frames = [tiled(as_pixels(one), columns) for one in videos.transpose(1, 0, 3, 4, 2)]
        height, width, channels = frames[0].shape
        content = message((1, height), (2, width), (3, channels), (4, png(*frames, rate=fps)))
        self._add(message((1, tag), (4, content)), global_step, walltime)

    def add_mesh(self, tag, vertices, colors=None, faces=None, config_dict=None, global_step=None,
                 walltime=None) -> None:  # fmt: skip
        """Write meshes or clouds of points.

        Args:
            vertices: their coordinates, (batch, N, 3).
            colors: of the vertices, (batch, N, 3), uint8 or floats in [0, 1].
            faces: indices of the vertices of triangles, (batch, M, 3).
            config_dict: of the classes of Three.js that draw it, {name: settings}.
        """
        for value in mesh(tag, {"VERTEX": vertices, "FACE": faces, "COLOR": colors}, config_dict):
            self._add(value, global_step, walltime)

    def add_pr_curve(self, tag, labels, predictions, global_step=None, num_thresholds=127, weights=None,
                     walltime=None) -> None:  # fmt: skip
        """Write the curve of precision and recall over thresholds.

        Args:
            labels: 0 or 1, or bools.
            predictions: probabilities, of the same shape.
            num_thresholds: at most 127.
            weights: of the elements.
        """
        count = min(num_thresholds, LARGEST_CURVE)
        weights = 1.0 if weights is None else as_array(weights)
        rows = precision_recall(as_array(labels), as_array(predictions), count, weights)
        self._add(curve(tag, rows, count), global_step, walltime)

    def add_pr_curve_raw(self, tag, true_positive_counts, false_positive_counts, true_negative_counts,
                         false_negative_counts, precision, recall, global_step=None, num_thresholds=127, weights=None,
                         walltime=None) -> None:  # fmt: skip
        """Write a curve that was computed before.

        `weights` is accepted, since the counts have them already.
        """
        rows = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        rows = numpy.stack([as_array(row) for row in (*rows, precision, recall)])
        self._add(curve(tag, rows, num_thresholds), global_step, walltime)

    def add_custom_scalars(self, layout) -> None:
        """Say which numbers are drawn in one diagram.

        Args:
            layout: {category: {title: ["Multiline", tags] or ["Margin", [value, lower bound, upper bound]]}}.
        """
        self._add(layout_message(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags, category="default", title="untitled") -> None:
        """Draw the numbers of several tags in one diagram."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags, category="default", title="untitled") -> None:
        """Draw the number of a tag between those of two others: `tags` are three."""
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_onnx_graph(self, prototxt) -> None:
        """Write the graph of an ONNX file, given by its path."""
        self._file.add(message((4, onnx_graph(prototxt))))

    def flush(self) -> None:
        """Write what waits."""
        for one in (self._file, *self._beside.values()):
            one.flush()

    def close(self) -> None:
        """Write what waits, and close the files."""
        for one in (self._file, *self._beside.values()):
            one.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()


def as_hwc(image, dataformats) -> numpy.ndarray:
    """Return an image as (height, width) or (height, width, channels)."""
    if len(dataformats) != image.ndim or not {"H", "W"} <= set(dataformats) <= set("CHW"):
        raise ValueError(f"dataformats={dataformats!r} does not fit an image of shape {image.shape}")
    return image.transpose([dataformats.index(name) for name in "HWC" if name in dataformats])


def with_boxes(image, boxes, labels, rescale) -> numpy.ndarray:
    """Return an image of uint8, (height, width, channels), with labelled boxes."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise ImportError("boxes are drawn by Pillow, which is not installed: pip install pillow") from None
    drawn = Image.fromarray(image.squeeze(2) if image.ndim == 3 and image.shape[2] == 1 else image).convert("RGB")
    pen = ImageDraw.Draw(drawn)
    for (left, top, right, bottom), label in zip(boxes.tolist(), labels):
        pen.line([left, top, left, bottom, right, bottom, right, top, left, top], "red", 2)
        if label:
            place = (left + 1, bottom)
            pen.rectangle(pen.textbbox(place, label, anchor="ld"), fill="red")
            pen.text(place, label, fill="black", anchor="ld")
    height, width = image.shape[:2]
    return numpy.asarray(drawn.resize((int(width * rescale), int(height * rescale)), Image.LANCZOS))


def tiled(images, columns) -> numpy.ndarray:
    """Return images, (N, height, width, channels), as one, row by row.

    Places without an image are black.
    """
    count, height, width, channels = images.shape
    rows = -(-count // columns)
    sheet = numpy.zeros((rows * columns, height, width, channels), images.dtype)
    sheet[:count] = images
    sheet = sheet.reshape(rows, columns, height, width, channels).swapaxes(1, 2)
    return sheet.reshape(rows * height, columns * width, channels)
