"""ONNX: a graph of operators with its constants, loaded as a Module that computes the same."""

from __future__ import annotations

import plugrad
from plugrad.extend import collect, hookimpl
from plugrad.formats import CheckpointError, Format


class Onnx(Format):
    """ONNX: a model as a Module; `plugrad.onnx.export` writes such files."""

    name, suffixes = "onnx", (".onnx",)

    def recognises(self, source):
        """Whether its fields are those of a model, to the end."""
        return plugrad.onnx.reading.is_model(source)

    def load(self, source, options):
        """Return the Module."""
        if options.verify:
            raise CheckpointError("there are no checksums in ONNX files: verify has nothing to compare")
        place = options.map_location
        if callable(place) or isinstance(place, dict):
            raise CheckpointError("an ONNX file is loaded to one device: map_location is a device, or None")
        return plugrad.onnx.ONNXModule(plugrad.onnx.reading.read(source), place)

    def describe(self, source):
        """Return the constants, and what the model takes and gives."""
        model = plugrad.onnx.reading.read(source)
        rows = [
            {"name": name, "shape": list(one.shape), "dtype": str(one.dtype).rpartition(".")[2], "device": "cpu"}
            for name, one in model.constants.items()
        ]
        metadata = {
            "inputs": _described(model.inputs), "outputs": _described(model.outputs), "opset": str(model.opset),
            "operators": ", ".join(sorted({node.kind for node in model.nodes})), "producer": model.producer,
        }  # fmt: skip
        return {"tensors": rows, "metadata": metadata}


def _described(values) -> str:
    parts = []
    for name, (dtype, sizes) in values.items():
        label = "?" if dtype is None else str(dtype).rpartition(".")[2]
        parts.append(f"{name} {label}[{', '.join('?' if one is None else str(one) for one in sizes or ())}]")
    return ", ".join(parts)


@hookimpl
def plugrad_formats():
    return collect(Format, globals())
