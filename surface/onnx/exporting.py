"""`export`: from a model and example inputs to a file."""

from __future__ import annotations

import inspect

from plugrad import Tensor, nest
from plugrad.compiler import Value
from plugrad.extend.blocks import Restoring
from plugrad.formats.durable import replacing
from plugrad.nn import Module
from plugrad.onnx import files
from plugrad.onnx.builder import Graph, Output
from plugrad.onnx.declaring import form_of
from plugrad.onnx.tracing import Size, follow

OPSETS = range(18, 23)
_RANDOM = {
    "dropout_mask",
    "bernoulli",
    "bernoulli_like",
    "uniform",
    "multinomial",
    "poisson",
    "exponential",
    "gumbel_noise",
}


class ONNXProgram:
    """A model as ONNX: `save(path)` writes it, `bytes(program)` is what is written."""

    def __init__(self, data: bytes, input_names, output_names):
        self._raw, self.input_names, self.output_names = data, list(input_names), list(output_names)

    def save(self, destination) -> None:
        """Write the model to a path or to a file that is open for writing."""
        if hasattr(destination, "write"):
            destination.write(self._raw)
            return
        with replacing(destination) as file:
            file.write(self._raw)

    def __bytes__(self):
        return self._raw

    def __repr__(self):
        return f"<ONNXProgram: {len(self._raw)} bytes, {self.input_names} -> {self.output_names}>"


def export(
    model,
    args=(),
    f=None,
    *,
    kwargs=None,
    input_names=None,
    output_names=None,
    opset_version=None,
    dynamic_axes=None,
    dynamic_shapes=None,
    training=None,
    export_params=True,
    verbose=None,
    do_constant_folding=True,
    keep_initializers_as_inputs=False,
    dynamo=True,
    external_data=False,
    custom_opsets=None,
):
    """Write a model as an ONNX file, from the ops that it calls on example inputs.

    Args:
        model: a Module or function of tensors.
        args: the example: a tensor, or a tuple of arguments; they may hold lists and dicts of tensors.
        f: a path or file to write to; without it the result's `save` does.
        kwargs: the example's arguments by name.
        input_names, output_names: what inputs and outputs are called, in order; those left out have the parameters'
            names, and "output_0"...
        opset_version: version of ONNX's operators, 18 to 22; 18 if it is not given.
        dynamic_axes: axes whose size may vary: {name of an input: {axis: name of the size}}, or a list of axes.
        dynamic_shapes: the same as PyTorch has it now: a dict by parameters, or a list in the order of args.
        training: None or TrainingMode.EVAL runs a Module in eval mode, PRESERVE as it is.
        verbose: print the nodes.
        custom_opsets: versions of domains of operators that forms use.
        export_params, do_constant_folding, keep_initializers_as_inputs, dynamo, external_data: PyTorch's, accepted at
            the values that they have here.

    Returns an ONNXProgram. Shapes and values that are not among the inputs are constants in the file, and an `if` on
    values is followed as it went for the example. Raises NotImplementedError for ops without a form, with the line that
    called them, and for what varies in a way that can't be written.

    >>> import plugrad as torch
    >>> program = torch.onnx.export(torch.nn.Linear(2, 1), torch.ones(3, 2), dynamic_axes={"input": {0: "batch"}})
    >>> program.input_names, program.output_names
    (['input'], ['output_0'])
    """
    _refuse(export_params=(export_params, True), keep_initializers_as_inputs=(keep_initializers_as_inputs, False),
            external_data=(external_data, False))  # fmt: skip
    if not callable(model):
        raise TypeError(f"export() takes a Module or a function, not {type(model).__name__}")
    opset = 18 if opset_version is None else opset_version
    if opset not in OPSETS:
        raise ValueError(f"opset_version is {OPSETS[0]} to {OPSETS[-1]}, not {opset_version!r}")
    args = args if isinstance(args, (tuple, list)) else (args,)
    if args and isinstance(args[-1], dict) and kwargs is None and _takes_fewer(model, len(args)):
        args, kwargs = args[:-1], args[-1]
    kwargs = dict(kwargs or {})
    tensors = [leaf for leaf in nest.leaves((tuple(args), kwargs)) if isinstance(leaf, Tensor)]
    names = _names(input_names, _parameter_names(model, args, kwargs), len(tensors), "input_names")
    axes = _axes(dynamic_axes, dynamic_shapes, names, model, args, kwargs)
    with _Evaluated(model, training):
        run, sizes = follow(model, tuple(args), kwargs, axes, lambda op: form_of(op) is not None)
    if run.others:
        raise TypeError(
            f"a model that is exported returns tensors, and this one {type(run.others[0]).__name__} besides"
        )
    if not run.outputs:
        raise TypeError("the model returned no tensor: there is nothing to export")
    writer = _Writer(model, opset, run, names, axes)
    outputs = _names(output_names, [f"output_{i}" for i in range(len(run.outputs))], len(run.outputs), "output_names")
    unknown = {*(dynamic_axes or ())} - {*names, *outputs}
    if unknown:
        raise ValueError(f"dynamic_axes names {sorted(unknown)}, and the inputs are {names}, the outputs {outputs}")
    program = ONNXProgram(writer.finish(outputs, dict(custom_opsets or {})), names, outputs)
    if verbose:
        print("\n".join(writer.listing))
    if f is not None:
        program.save(f)
    return program


def _refuse(**options):
    for name, (given, only) in options.items():
        if given is not only:
            raise NotImplementedError(f"export({name}={given!r}) is not there: leave it out, it is {only}")


def _takes_fewer(model, count) -> bool:
    """Whether a dict behind the arguments must be PyTorch's way to give arguments by name."""
    try:
        parameters = inspect.signature(getattr(model, "forward", model)).parameters.values()
    except (TypeError, ValueError):
        return False
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return len(places) < count and not any(one.kind is one.VAR_POSITIONAL for one in parameters)


def _names(given, natural, count, what) -> list:
    """Return names for all of so many: those given, then natural ones."""
    given = [given] if isinstance(given, str) else list(given or ())
    if len(given) > count:
        raise ValueError(f"{what} has {len(given)} names for {count} tensors: {given}")
    names = given + natural[len(given) : count]
    if len({*names}) != len(names) or not all(isinstance(one, str) and one for one in names):
        raise ValueError(f"{what} must be different texts, got {names}")
    return names


def _parameter_names(model, args, kwargs) -> list:
    """Return a name for each tensor among the arguments: that of its parameter, numbered where it holds several."""
    return [name for name, _ in _by_parameter(model, args, kwargs)]


def _by_parameter(model, args, kwargs) -> list:
    try:
        parameters = inspect.signature(getattr(model, "forward", model)).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        parameters = {f"input_{i}": one for i, one in enumerate(args)} | kwargs
    named = []
    for name, value in parameters.items():
        inside = [leaf for leaf in nest.leaves(value) if isinstance(leaf, Tensor)]
        alone = isinstance(value, Tensor)
        named += [(name if alone else f"{name}_{i}", (name, one)) for i, one in enumerate(inside)]
    return named


def _axes(dynamic_axes, dynamic_shapes, names, model, args, kwargs) -> list:
    """Return {axis: name of its size} for each input."""
    if dynamic_axes is not None and dynamic_shapes is not None:
        raise ValueError("give dynamic_axes or dynamic_shapes, not both")
    tensors = [tensor for _, (_, tensor) in _by_parameter(model, args, kwargs)]
    if dynamic_shapes is not None:
        structure = dynamic_shapes
        if isinstance(structure, dict):
            structure = [
                structure.get(name) for name in dict.fromkeys(n for _, (n, _) in _by_parameter(model, args, kwargs))
            ]
        flat = _flat(structure, args, kwargs)
        if len(flat) != len(names):
            raise ValueError(f"dynamic_shapes says {len(flat)} shapes, and there are {len(names)} inputs: {names}")
        given = dict(zip(names, flat))
    else:
        given = dict(dynamic_axes or {})
    axes = []
    for name, tensor in zip(names, tensors):
        one = given.get(name) or {}
        if isinstance(one, (list, tuple)):
            one = {axis: f"{name}_dim_{axis}" for axis in one}
        checked = {}
        for axis, size in one.items():
            if not isinstance(axis, int) or not -tensor.ndim <= axis < tensor.ndim:
                raise ValueError(f"the input {name!r} has {tensor.ndim} axes, and none {axis!r}")
            if size is not None:
                label = size if isinstance(size, str) else getattr(size, "__name__", None)
                checked[axis % tensor.ndim] = label or f"{name}_dim_{axis % tensor.ndim}"
        axes.append(checked)
    return axes


def _flat(structure, args, kwargs) -> list:
    """Return the shapes in a structure like that of the arguments: dicts with ints as keys, or None."""
    if structure is None or isinstance(structure, dict) and all(isinstance(key, int) for key in structure):
        return [structure]
    parts = structure.values() if isinstance(structure, dict) else structure
    return [one for part in parts for one in _flat(part, args, kwargs)]


class _Evaluated(Restoring):
    """Have a Module in eval mode, and all its parts as they were afterwards."""

    def __init__(self, model, training):
        kept = not isinstance(model, Module) or getattr(training, "name", training) in ("PRESERVE", "TRAINING")
        self.model = None if kept else model
        self.before = [] if kept else [(module, module.training) for module in model.modules()]

    def begin(self):
        if self.model is not None:
            self.model.eval()

    def end(self):
        for module, was in self.before:
            module.training = was


class _Writer:
    """Turns the calls of a run into nodes."""

    def __init__(self, model, opset, run, names, axes):
        self.run, self.graph = run, Graph(opset)
        self.names, self.by_name = {}, {}
        if isinstance(model, Module):
            named = [*model.named_parameters(), *model.named_buffers()]
            self.names = {id(tensor): name for name, tensor in named}
            self.by_name = {_memory(tensor): name for name, tensor in named[::-1] if tensor.numel()}
        self.outputs: dict = {}  # id of a traced tensor -> Output
        self.stale: dict = {}  # id of a traced tensor -> why it can't be used any more
        self.by_memory: dict = {}
        self.inputs, self.listing = [], []
        for name, tensor, one in zip(names, run.inputs, axes):
            value = run.values[id(tensor)]
            output = Output(name, tensor.dtype, _shape_of(value), tensor)
            self.inputs.append(output)
            self._keep(tensor, output)
            for axis, size in one.items():
                self.graph.sources.setdefault(size, (output, axis))
        for number, call in enumerate(run.calls):
            self._write(number, call)

    def _keep(self, tensor, output):
        self.outputs[id(tensor)] = output
        if tensor.numel():
            self.by_memory.setdefault(_memory(tensor), output)

    def value(self, value):
        """Return the Output of a traced tensor."""
        if not isinstance(value, Value):
            return value
        tensor = value.tensor
        if id(tensor) in self.stale:
            raise NotImplementedError(self.stale[id(tensor)])
        known = self.outputs.get(id(tensor))
        if known is None and id(tensor) not in self.names and tensor.numel():
            known = self.by_memory.get(_memory(tensor))  # the same by detach() or .data
        if known is None:
            name = self.names.get(id(tensor)) or (self.by_name.get(_memory(tensor)) if tensor.numel() else None)
            known = self.graph.constant(tensor, name=name)
            known.tensor = tensor
            self._keep(tensor, known)
        return known

    def _write(self, number, call):
        graph, op = self.graph, call.op
        graph.doc = f"{call.name}{call.where}".strip()
        graph.results = tuple(Output("", one.tensor.dtype, _shape_of(one), one.tensor) for one in call.results)
        try:
            if any(one.dtype.is_complex for one in graph.results):
                raise NotImplementedError("ONNX has hardly an operator for complex numbers: export what is before it")
            fixed = op.runs_on == "nothing" and not _varies((call.values, [one.shape for one in graph.results]))
            if fixed and not (op.name.startswith("rand") or op.name == "normal_sized"):
                given = graph.constant(self.run.snapshots[number])
            else:
                values = nest.change(self.value, list(call.values))
                form = form_of(op)
                if form is None:
                    raise NotImplementedError(_missing(op))
                count = len(op.positional)
                given = form(graph, *values[:count], **dict(zip(op.keyword_only, values[count:])))
        except NotImplementedError as error:
            text = f"{op.qualname!r}, called{call.where or ' by the program'}, can't be exported: {error}"
            raise NotImplementedError(text) from None
        except TypeError as error:
            if not _varies(call.values):
                raise
            raise NotImplementedError(
                f"{op.qualname!r}, called{call.where or ' by the program'}, can't be exported with sizes that vary: "
                f"{error}"
            ) from error
        given = given if isinstance(given, (tuple, list)) else (given,)
        self.listing.append(f"{graph.doc}: {', '.join(one.name for one in given if one is not None)}")
        for traced, output, known in zip(call.results, given, graph.results):
            if output is None:
                self.stale[id(traced.tensor)] = f"one of the results of {op.qualname!r} has no counterpart in ONNX"
                continue
            if isinstance(call.written, Tensor):
                self._overwritten(call, traced.tensor)
            kept = Output(output.name, traced.tensor.dtype, known.shape, traced.tensor, output.last)
            self.outputs[id(traced.tensor)] = kept
            if traced.tensor.numel():
                self.by_memory[_memory(traced.tensor)] = kept

    def _overwritten(self, call, tensor):
        """Take note that a tensor was written in place; refuse where others see that."""
        if id(tensor) in self.names or tensor._is_view():
            what = "a parameter or buffer" if id(tensor) in self.names else "a view: the tensor it is of changes, too"
            raise NotImplementedError(
                f"{call.name!r}, called{call.where}, writes into {what}, which a graph of ONNX can't: write the result "
                "anew, by torch.where or torch.cat"
            )
        for value in self.run.values.values():
            if value.tensor._is_view() and value.tensor._base is tensor:
                self.stale[id(value.tensor)] = (
                    f"a view of a tensor that {call.name!r}, called{call.where}, wrote into later: take it anew"
                )

    def finish(self, names, custom) -> bytes:
        """Return the file: what leads to the outputs, which get their names."""
        graph, results = self.graph, []
        graph.doc = ""
        for name, tensor in zip(names, self.run.outputs):
            value = self.run.values.get(id(tensor))
            output = self.value(value if value is not None else Value("constant", 0, tensor))
            shape = output.shape if output.shape is not None else tuple(tensor.shape)
            graph.nodes.append(_identity(output.name, name))
            results.append(files.value_info(name, tensor.dtype, [_dim(one) for one in shape]))
        wanted, nodes = {*names}, []
        for node in reversed(graph.nodes):
            if wanted & {*node.outputs}:
                wanted |= {*node.inputs}
                nodes.append(node)
        nodes = _unwrapped(nodes[::-1], {one.name for one in self.inputs}, {*names}, graph.constants)
        written = [
            files.node(one.kind, one.inputs, one.outputs, one.attributes, f"{one.kind}_{i}", one.domain, one.doc)
            for i, one in enumerate(nodes)
        ]
        wanted = {name for one in nodes for name in one.inputs}
        constants = [
            files.tensor(name, array, dtype) for name, (array, dtype) in graph.constants.items() if name in wanted
        ]
        inputs = [files.value_info(one.name, one.dtype, [_dim(size) for size in one.shape]) for one in self.inputs]
        opsets = {"": graph.opset} | {domain: custom.get(domain, 1) for domain in sorted(graph.domains)}
        return files.model(written, constants, inputs, results, opsets, "plugrad")


def _identity(source, name):
    from_one = Graph(OPSETS[0])
    from_one.op("Identity", Output(source))
    node = from_one.nodes[0]
    node.outputs = [name]
    return node


def _unwrapped(nodes, inputs, names, constants) -> list:
    """Give the node that makes an output the output's name, where nothing but an Identity stands between."""
    makers = {name: node for node in nodes for name in node.outputs}
    renamed = {}
    for node in nodes:
        if node.kind == "Identity" and node.outputs[0] in names:
            source = node.inputs[0]
            if source in makers and source not in names and source not in renamed:
                renamed[source] = node.outputs[0]
    kept = []
    for node in nodes:
        if node.kind == "Identity" and renamed.get(node.inputs[0]) == node.outputs[0]:
            continue
        node.inputs = [renamed.get(name, name) for name in node.inputs]
        node.outputs = [renamed.get(name, name) for name in node.outputs]
        kept.append(node)
    return kept


def _shape_of(value) -> tuple:
    shape = getattr(value, "shape", None)
    return tuple(value.tensor.shape) if shape is None else shape


def _dim(size):
    if isinstance(size, int):
        return size
    if size.factors and len(size.factors) == 1 and not size.const and [*size.factors.values()] == [1]:
        return next(iter(size.factors))
    return repr(size)


def _memory(tensor):
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _varies(item) -> bool:
    parts = item if isinstance(item, (list, tuple)) else (item.start, item.stop) if isinstance(item, slice) else ()
    return isinstance(item, Size) or any(map(_varies, parts))


def _missing(op) -> str:
    if op.name in _RANDOM or op.name.startswith(("rand", "normal")):
        return "it draws random numbers, which a file of ONNX doesn't: export the model in eval mode, model.eval()"
    names = ", ".join(op.parameters)
    return (
        f"it declares no ONNX form. Write one, in the op's package or in the program:\n"
        f"    @{op.name}.onnx                                  # or @plugrad.onnx.form({op.qualname!r})\n"
        f"    def {op.name}_onnx(g, {names}):\n"
        f'        return g.op("NameOfTheOperator", {op.parameters[0] if op.parameters else ""})\n'
        "g.op adds a node of ONNX, see docs/interop.md"
    )
