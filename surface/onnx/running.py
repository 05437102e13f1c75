"""Files of ONNX as Modules: their nodes are run by plugrad's ops, so that gradients flow and they train."""

from __future__ import annotations

from plugrad.formats import CheckpointError, opened
from plugrad.nn import Module, Parameter
from plugrad.onnx.declaring import OPERATORS
from plugrad.onnx.reading import Model, read

# Inputs of operators, by place, that are no weights though they hold floating-point numbers.
_SETTINGS = {
    "Resize": (1, 2), "Upsample": (1,), "Clip": (1, 2), "Pad": (2,), "Range": (0, 1, 2), "OneHot": (2,),
    "Dropout": (1,), "BatchNormalization": (3, 4), "Expand": (0,), "Where": (1, 2), "Pow": (1,),
}  # fmt: skip


class ONNXModule(Module):
    """A model from a file of ONNX, called with its inputs in order or by name.

    It returns its outputs.

    Constants with dimensions are parameters where they are weights of floating-point numbers, by the names that they
    have in the file; the statistics of batch normalization are buffers, and others stay out of the state_dict. As it
    comes it is in eval mode: in training mode batch normalization takes the batch's statistics, and dropout drops.

    Attributes:
        input_names, output_names: as the file has them.
        opset: the version of ONNX's operators that it was written for.
    """

    def __init__(self, model: Model, placer=None):
        super().__init__()
        self.input_names, self.output_names = [*model.inputs], [*model.outputs]
        self.opset, self.producer = model.opset, model.producer
        self.shapes = {name: sizes for name, (_, sizes) in model.inputs.items()}
        self._nodes = model.nodes
        unknown = sorted({_title(node) for node in model.nodes if node.domain or node.kind not in OPERATORS})
        if unknown:
            raise NotImplementedError(
                f"these operators of ONNX are not there: {', '.join(unknown)}; plugrad.onnx.operator declares one"
            )
        given = {*model.inputs, *model.constants, *(name for node in model.nodes for name in node.outputs)}
        if missing := sorted({*model.outputs} - given):
            raise CheckpointError(f"nothing in the model gives its output {', '.join(map(repr, missing)):.60}")
        settings = {
            node.inputs[place]
            for node in model.nodes
            for place in _SETTINGS.get(node.kind, ())
            if place < len(node.inputs)
        }
        statistics = {name for node in model.nodes if node.kind == "BatchNormalization" for name in node.inputs[3:5]}
        self._places = {}
        for name, tensor in model.constants.items():
            tensor = tensor if placer is None else tensor.to(placer)
            weight = tensor.is_floating_point() and tensor.dim() and name not in settings
            self._places[name] = self._put(name, Parameter(tensor) if weight else tensor, name in statistics)
        self.eval()

    def _put(self, name, tensor, statistic):
        """Keep a tensor under its name, in Modules by the parts between its dots; return (Module, name there)."""
        module, parts = self, name.split(".")
        for part in parts[:-1]:
            inner = module._modules.get(part)
            if inner is None:
                if not part or hasattr(module, part):
                    return self._put(name.replace(".", "_") + "_", tensor, statistic)
                inner = Module()
                module.add_module(part, inner)
            module = inner
        last = parts[-1] or "_"
        while hasattr(module, last):
            last += "_"
        if isinstance(tensor, Parameter):
            module.register_parameter(last, tensor)
        else:
            module.register_buffer(last, tensor, persistent=statistic)
        return module, last

    def forward(self, *args, **kwargs):
        """Run the nodes; return the output, or a tuple of several."""
        values = {name: getattr(module, last) for name, (module, last) in self._places.items()}
        values[""] = None
        given = dict(zip(self.input_names, args)) | kwargs
        if len(args) > len(self.input_names) or {*given} != {*self.input_names}:
            raise TypeError(
                f"the model takes {', '.join(self.input_names)}, it was given {', '.join(given) or 'nothing'}"
            )
        values.update(given)
        for node in self._nodes:
            try:
                result = OPERATORS[node.kind](self, node, *[values[name] for name in node.inputs])
            except KeyError as error:
                raise CheckpointError(
                    f"the node {node.name or node.kind!r} takes {error}, which nothing gives"
                ) from None
            results = result if isinstance(result, (tuple, list)) else (result,)
            values.update(zip(node.outputs, results))
            values[""] = None
        outputs = tuple([values[name] for name in self.output_names])
        return outputs[0] if len(outputs) == 1 else outputs

    def extra_repr(self) -> str:
        """Say what it takes and gives."""
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}, {len(self._nodes)} nodes"


def _title(node) -> str:
    return f"{node.domain}.{node.kind}" if node.domain else node.kind


def load(f, map_location=None) -> ONNXModule:
    """Return the model in a file of ONNX as a Module that computes and trains.

    Args:
        f: a path, or a file that is open for reading.
        map_location: the device of its parameters.

    Raises CheckpointError for files that are not in order, NotImplementedError for operators that are not there.

    >>> import io, plugrad as torch
    >>> model = torch.nn.Linear(2, 1)
    >>> file = io.BytesIO(bytes(torch.onnx.export(model, torch.ones(1, 2))))
    >>> torch.equal(torch.onnx.load(file)(torch.ones(1, 2)), model(torch.ones(1, 2)))
    True
    """
    with opened(f) as source:
        return ONNXModule(read(source), map_location)
