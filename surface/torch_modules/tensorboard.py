"""`torch.utils.tensorboard`: event files for TensorBoard, through the package `tensorboard`."""

from __future__ import annotations

import io
import os
import socket
import time

import numpy

import plugrad

try:
    from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as error:
    raise ImportError(f"torch.utils.tensorboard needs `pip install tensorboard`: {error}") from error

__all__ = ["SummaryWriter"]


class SummaryWriter:
    """Writes what a training run says of itself into a folder that TensorBoard shows.

    Args:
        log_dir: the folder, by default `runs/DATE_TIME_HOST`.
        comment: appended to the default folder's name.
        purge_step: with a run that goes on: TensorBoard forgets what it had from this step on.
        max_queue, flush_secs: how many values, and seconds, may wait until they are written.
        filename_suffix: of the file's name.
    """

    def __init__(
        self, log_dir=None, comment="", purge_step=None, max_queue=10, flush_secs=120, filename_suffix=""
    ):  # fmt: skip
        started = time.strftime("%b%d_%H-%M-%S")
        self.log_dir = str(log_dir or os.path.join("runs", f"{started}_{socket.gethostname()}{comment}"))
        self._options = (max_queue, flush_secs, filename_suffix)
        self._file = EventFileWriter(self.log_dir, *self._options)
        self._beside: dict = {}  # the writers of `add_scalars`
        if purge_step is not None:
            started = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._file.add_event(event_pb2.Event(wall_time=time.time(), step=purge_step, session_log=started))

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    def _add(self, value, step, walltime) -> None:
        event = event_pb2.Event(wall_time=walltime or time.time(), summary=summary_pb2.Summary(value=[value]))
        event.step = int(step or 0)
        self._file.add_event(event)

    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False,
                   double_precision=False) -> None:  # fmt: skip
        """Write a number; `walltime` is in seconds since the epoch."""
        self._add(summary_pb2.Summary.Value(tag=tag, simple_value=float(scalar_value)), global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None) -> None:
        """Write several numbers for one diagram, each in a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            if folder not in self._beside:
                self._beside[folder] = SummaryWriter(folder)
            self._beside[folder].add_scalar(main_tag, value, global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None) -> None:
        """Write a text, as Markdown."""
        data = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
        shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
        tensor = tensor_pb2.TensorProto(dtype="DT_STRING", string_val=[text_string.encode()], tensor_shape=shape)
        metadata = summary_pb2.SummaryMetadata(plugin_data=data)
        self._add(summary_pb2.Summary.Value(tag=f"{tag}/text_summary", metadata=metadata, tensor=tensor),
                  global_step, walltime)  # fmt: skip

    def add_histogram(self, tag, values, global_step=None, bins="tensorflow", walltime=None, max_bins=None) -> None:
        """Write the distribution of values; `bins` is a number or NumPy's name of a rule."""
        values = _array(values).reshape(-1).astype(numpy.float64)
        if values.size == 0:
            raise ValueError("The input has no element.")
        counts, limits = numpy.histogram(values, bins=30 if bins == "tensorflow" else bins)
        histogram = summary_pb2.HistogramProto(
            min=values.min(), max=values.max(), num=values.size, sum=values.sum(), sum_squares=values @ values,
            bucket_limit=limits[1:].tolist(), bucket=counts.tolist(),
        )  # fmt: skip
        self._add(summary_pb2.Summary.Value(tag=tag, histo=histogram), global_step, walltime)

    def add_image(self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW") -> None:
        """Write an image, of floats in [0, 1] or of uint8; `dataformats` names its dimensions. Needs Pillow."""
        image = _array(img_tensor)
        if len(dataformats) != image.ndim or not set(dataformats) <= set("CHW"):
            raise ValueError(f"dataformats={dataformats!r} does not fit an image of shape {image.shape}")
        order = [dataformats.index(name) for name in "HWC" if name in dataformats]
        image = image.transpose(order)
        if image.dtype != numpy.uint8:
            image = (image * 255).clip(0, 255).astype(numpy.uint8)
        self._add(summary_pb2.Summary.Value(tag=tag, image=_encoded(image)), global_step, walltime)

    def add_images(self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW") -> None:
        """Write a batch of images side by side."""
        images = _array(img_tensor)
        if dataformats not in ("NCHW", "NHWC"):
            raise ValueError(f"dataformats must be 'NCHW' or 'NHWC', not {dataformats!r}")
        row = numpy.concatenate(list(images), axis=2 if dataformats == "NCHW" else 1)
        self.add_image(tag, row, global_step, walltime, dataformats[1:])

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None) -> None:
        """Write a figure of Matplotlib."""
        figure.canvas.draw()
        self.add_image(tag, numpy.asarray(figure.canvas.buffer_rgba())[:, :, :3], global_step, walltime, "HWC")
        if close:
            figure.clear()

    def _refuse(self, what):
        raise NotImplementedError(f"SummaryWriter.{what} is not available: plugrad has no graph or codec for it")

    def add_graph(self, model, input_to_model=None, verbose=False, use_strict_trace=True) -> None:
        """Raise NotImplementedError: no graph of a program is kept; torchviz draws the recorded one."""
        self._refuse("add_graph")

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None) -> None:
        """Raise NotImplementedError: there is no codec; write frames by `add_images`."""
        self._refuse("add_video")

    def add_audio(self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None) -> None:
        """Raise NotImplementedError: there is no codec."""
        self._refuse("add_audio")

    def add_embedding(self, mat, metadata=None, label_img=None, global_step=None, tag="default",
                      metadata_header=None) -> None:  # fmt: skip
        """Raise NotImplementedError: the projector's files are not written."""
        self._refuse("add_embedding")

    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None,
                    global_step=None) -> None:  # fmt: skip
        """Write hyperparameters as a text, and the metrics that they led to as numbers."""
        rows = "\n".join(f"| {name} | {value} |" for name, value in hparam_dict.items())
        self.add_text("hparams", f"| name | value |\n| --- | --- |\n{rows}", global_step)
        for name, value in metric_dict.items():
            self.add_scalar(name, value, global_step)

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


def _array(values):
    tensor = values if isinstance(values, plugrad.Tensor) else plugrad.as_tensor(values)
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype is plugrad.bfloat16 else tensor).numpy()


def _encoded(image):
    """Return the PNG of an array of (height, width) or (height, width, channels)."""
    from PIL import Image

    channels = image.shape[2] if image.ndim == 3 else 1
    buffer = io.BytesIO()
    Image.fromarray(image[:, :, 0] if image.ndim == 3 and channels == 1 else image).save(buffer, format="PNG")
    return summary_pb2.Summary.Image(
        height=image.shape[0], width=image.shape[1], colorspace=channels, encoded_image_string=buffer.getvalue()
    )
