"""What event files hold beside numbers: histograms, texts, graphs, hyperparameters, points of the projector."""

from __future__ import annotations

import json
import os
import time

import numpy

import plugrad
from plugrad.pictures.tape import record
from plugrad.registry.namespaces import lazy_names
from plugrad.trackers import as_array, plain
from plugrad.trackers.wire import message

# Few writers write the graph of an ONNX file.
_later, _ = lazy_names(
    {"__name__": __name__}, None, {"formats": "opened", "onnx.reading": "read", "onnx.files": "CODES"}
)

_STRING = 7  # the number of that type in messages of tensors
_TYPES = {  # the numbers of others
    plugrad.float32: 1, plugrad.float64: 2, plugrad.int32: 3, plugrad.uint8: 4, plugrad.int16: 5, plugrad.int8: 6,
    plugrad.complex64: 8, plugrad.int64: 9, plugrad.bool: 10, plugrad.bfloat16: 14, plugrad.uint16: 17,
    plugrad.complex128: 18, plugrad.float16: 19, plugrad.uint32: 22, plugrad.uint64: 23,
}  # fmt: skip
LARGEST_CURVE = 127  # points that a curve of precision and recall may have
_MESH_PARTS = {"VERTEX": 1, "FACE": 2, "COLOR": 3}


def text_message(tag, text, plugin="text", sizes=(1,)) -> bytes:
    """Return a summary's value that is a text, or bytes for a plugin."""
    tensor = message((1, _STRING), (2, _shape(sizes)), (8, text))
    return message((1, tag), (9, _of_plugin(plugin)), (8, tensor))


def tensor_message(tag, tensor, plugin="tensor", content=None) -> bytes:
    """Return a summary's value that is a tensor.

    ValueError for one whose dtype TensorBoard does not know.
    """
    if tensor.dtype not in _TYPES:
        raise ValueError(f"{tag} has unsupported tensor dtype {tensor.dtype}")
    held = tensor.detach().cpu().contiguous()
    held = (held.view(plugrad.int16) if tensor.dtype is plugrad.bfloat16 else held).numpy(force=True)
    data = held.astype(held.dtype.newbyteorder("<")).tobytes()
    tensor = message((1, _TYPES[tensor.dtype]), (2, _shape(tensor.shape)), (4, data))
    return message((1, tag), (9, _of_plugin(plugin, content)), (8, tensor))


def _shape(sizes) -> bytes:
    return message(*((2, message((1, size))) for size in sizes))


def _of_plugin(name, content=None) -> bytes:
    """Return the metadata of a value that a plugin of TensorBoard shows."""
    return message((1, message((1, name), (2, content))))


def histogram(values, bins="tensorflow", max_bins=None) -> bytes:
    """Return a histogram of an array's elements.

    ValueError if there are none, or one is not finite.
    """
    values = values.reshape(-1).astype(numpy.float64)
    if not values.size:
        raise ValueError("The input has no element.")
    if not numpy.isfinite(values).all():
        raise ValueError("a histogram of values that are not finite has no bounds: select those that are, "
                         "x[x.isfinite()]")  # fmt: skip
    counts, bounds = numpy.histogram(values, _exponential() if isinstance(bins, str) and bins == "tensorflow" else bins)
    if max_bins is not None and len(counts) > max_bins:
        size = len(counts) // max_bins
        counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), size))
        bounds = numpy.append(bounds[:-1:size], bounds[-1])
    there = numpy.flatnonzero(counts)
    if not there.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    # One empty bin before the first that holds something, whose upper bound is where that begins.
    first, last = there[0], there[-1]
    numbers = (values.min(), values.max(), float(values.size), values.sum(), values @ values)
    limits, counts = bounds[first : last + 2], [0.0, *counts[first : last + 1].astype(float)]
    return message(*enumerate(map(float, numbers), 1), (6, limits.tolist()), (7, counts))


def _exponential():
    """Return TensorFlow's bounds of bins: from 1e-12 to 1e20 by a tenth more each, also negative."""
    positive = 1e-12 * 1.1 ** numpy.arange(775)
    return numpy.concatenate([-positive[::-1], [0.0], positive])


def graph(model, arguments) -> bytes:
    """Return the graph that a model's call records, as a GraphDef.

    It has a node for each function and variable.
    """
    tensors = [one.detach().requires_grad_(one.is_floating_point()) for one in arguments]
    with plugrad.enable_grad():
        results = [leaf for leaf in plugrad.nest.leaves(model(*tensors)) if isinstance(leaf, plugrad.Tensor)]
    names = {id(one): name for name, one in model.named_parameters()}
    names |= {id(one): f"input{number or ''}" for number, one in enumerate(tensors)}
    tape = record(results, names, 10**6)
    labels, taken = {}, {}
    for box in tape.boxes:
        label = box.lines[0].replace(".", "/").replace(" ", "_")
        number = taken[label] = taken.get(label, -1) + 1
        labels[box.key] = f"{label}_{number}" if number else label
    nodes = []
    for box in tape.boxes:
        inputs = [(3, labels[start]) for start, end in tape.arrows if end == box.key]
        detail = message((1, "shape"), (2, message((2, ", ".join(box.lines[1:])))))
        nodes.append((1, message((1, labels[box.key]), (2, box.lines[0] if box.is_function else box.kind), *inputs,
                                 (5, detail))))  # fmt: skip
    return message(*nodes, (4, message((1, 22))))


def onnx_graph(path) -> bytes:
    """Return an ONNX file's graph as a GraphDef of inputs, outputs and operators."""
    with _later("opened")(path) as source:
        model = _later("read")(source)
    nodes = []
    for name, (dtype, sizes) in (model.inputs | model.outputs).items():
        sizes = [size if isinstance(size, int) else 0 for size in sizes]
        kind = (5, message((1, "dtype"), (2, message((6, _later("CODES")[dtype])))))
        shape = (5, message((1, "shape"), (2, message((7, _shape(sizes))))))
        nodes.append((1, message((1, name), (2, "Variable"), kind, shape)))
    for node in model.nodes:
        inputs = [(3, name) for name in node.inputs]
        said = ", ".join(f"{name} = {value}" for name, value in node.attributes.items())
        detail = (5, message((1, "parameters"), (2, message((2, said)))))
        nodes.append((1, message((1, node.outputs[0]), (2, node.kind), *inputs, detail)))
    return message(*nodes, (4, message((1, 22))))


# ------------------------------------------------------------------------------------------------ charts and shapes


def precision_recall(labels, predictions, count, weights) -> numpy.ndarray:
    """Return the rows of a curve, by thresholds from 0 to 1.

    They are true and false positives, true and false negatives,
    precision, recall.

    Args:
        labels, predictions, weights: arrays of one shape; predictions are probabilities.
        count: of thresholds.
    """
    if labels.shape != predictions.shape:
        raise ValueError(f"labels of shape {labels.shape} do not fit predictions of shape {predictions.shape}")
    if predictions.size and not (predictions.min() >= 0 and predictions.max() <= 1):
        raise ValueError("predictions are probabilities, from 0 to 1: apply sigmoid to scores")
    bins = (predictions.reshape(-1) * (count - 1)).astype(numpy.int64)  # of the last threshold that is not above it
    positive = labels.reshape(-1).astype(numpy.float64)
    weights = numpy.broadcast_to(weights, labels.shape).reshape(-1)
    true, false = (
        numpy.bincount(bins, one * weights, count)[::-1].cumsum()[::-1] for one in (positive, 1 - positive)
    )
    missed = true[0] - true
    precision, recall = true / numpy.maximum(1e-7, true + false), true / numpy.maximum(1e-7, true + missed)
    return numpy.stack([true, false, false[0] - false, missed, precision, recall])


def curve(tag, rows, count) -> bytes:
    """Return a value that is a curve of precision and recall."""
    if rows.ndim != 2:
        raise ValueError(f"the counts of a curve are vectors of one length, not arrays of shape {rows.shape[1:]}")
    return tensor_message(tag, plugrad.from_numpy(rows).float(), "pr_curves", message((2, min(count, LARGEST_CURVE))))


def layout_message(categories) -> bytes:
    """Return the value that says which numbers share a diagram.

    It is {category: {title: (kind, tags)}}.
    """
    parts = []
    for category, charts in categories.items():
        drawn = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"len(tags) != 3: a margin has a value, its lower and upper bound, not {tags}")
                drawn.append(message((1, title), (3, message((1, message(*zip((1, 2, 3), tags)))))))
            else:
                drawn.append(message((1, title), (2, message(*((1, tag) for tag in tags)))))
        parts.append((2, message((1, category), *((2, chart) for chart in drawn))))
    return text_message("custom_scalars__config__", message(*parts), "custom_scalars", ())


def mesh(tag, parts, config) -> list[bytes]:
    """Return the values of a mesh: VERTEX, FACE and COLOR, those that are there.

    Each is a tensor, (batch, N, 3).
    """
    there = {name: plugrad.as_tensor(part) for name, part in parts.items() if part is not None}
    bits = sum(1 << _MESH_PARTS[name] for name in there)
    values = []
    for name, tensor in there.items():
        if tensor.ndim != 3:
            raise ValueError(f"Tensor shape should be of shape BxNx3, but got {tuple(tensor.shape)}.")
        content = message((2, tag), (3, _MESH_PARTS[name]), (5, json.dumps(config or {}, sort_keys=True)),
                          (6, [*tensor.shape]), (7, bits))  # fmt: skip
        values.append(tensor_message(f"{tag}_{name}", tensor.float(), "mesh", content))
    return values


# ------------------------------------------------------------------------------------------------ hyperparameters


def hparams(values, metrics, domains=None) -> list[bytes]:
    """Return a summary's values that declare hyperparameters and metrics.

    They say what the former were.
    """
    domains = domains or {}
    for name, domain in domains.items():
        kinds = {type(value) for value in domain}
        if name not in values or not kinds <= {type(values[name])}:
            raise TypeError(f"parameter: hparam_domain_discrete[{name}] should be a list of the hyperparameter's type")
    values = {name: plain(name, value) for name, value in values.items()}
    infos = [(4, _info(name, value, domains.get(name))) for name, value in values.items()]
    names = [(5, message((1, message((2, name))))) for name in metrics]
    start = [(1, message((1, name), (2, _value(value)))) for name, value in values.items()]
    start.append((5, time.time()))
    parts = {
        "experiment": (2, message(*infos, *names)), "session_start_info": (3, message(*start)),
        "session_end_info": (4, message((1, 1))),
    }  # fmt: skip
    return [
        message((1, f"_hparams_/{name}"), (9, _of_plugin("hparams", message(part)))) for name, part in parts.items()
    ]


def _info(name, value, domain) -> bytes:
    kind = {str: 1, bool: 2}.get(type(value), 3)
    listed = None if domain is None else message(*((1, _value(one)) for one in domain))
    return message((1, name), (4, kind), (5, listed))


def _value(value) -> bytes:
    """Return a value of Google's messages of JSON."""
    if isinstance(value, bool):
        return message((4, value))
    return message((3, value)) if isinstance(value, str) else message((2, float(value)))


# ------------------------------------------------------------------------------------------------ the projector


def embedding(folder, points, metadata, sheet, size, step, tag, header) -> None:
    """Write the files of TensorBoard's projector.

    Points, labels, a sheet of images, and their entry in its list.
    """
    if points.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    if metadata is not None and len(metadata) != len(points):
        raise AssertionError("#labels should equal with #data points")
    where = f"{step}/{_safe(tag)}"
    os.makedirs(os.path.join(folder, where), exist_ok=True)
    lines = [f'tensor_name: "{_quoted(f"{tag}:{step}")}"', f'tensor_path: "{where}/tensors.tsv"']
    _table(os.path.join(folder, where, "tensors.tsv"), points.tolist())
    if metadata is not None:
        rows = [row if isinstance(row, (list, tuple)) else [row] for row in metadata]
        _table(os.path.join(folder, where, "metadata.tsv"), [header, *rows] if header else rows)
        lines.append(f'metadata_path: "{where}/metadata.tsv"')
    if sheet is not None:
        with open(os.path.join(folder, where, "sprite.png"), "wb") as file:
            file.write(sheet)
        width, height = size
        lines += [f'sprite {{ image_path: "{where}/sprite.png" single_image_dim: {width} single_image_dim: {height} }}']
    with open(os.path.join(folder, "projector_config.pbtxt"), "a", encoding="utf-8") as file:
        file.write("embeddings {\n" + "".join(f"  {line}\n" for line in lines) + "}\n")


def _table(path, rows) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for row in rows:
            cells = [as_array(cell).item() if hasattr(cell, "item") else cell for cell in row]
            file.write("\t".join(str(cell).replace("\t", " ").replace("\n", " ") for cell in cells) + "\n")


def _safe(name) -> str:
    """Return a tag as the name of a folder."""
    return "".join(sign if sign.isalnum() or sign in "-_." else f"%{ord(sign):02x}" for sign in name)


def _quoted(text) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
