"""ExportedProgram, `export`, `save` and `load`."""

from __future__ import annotations

import copy
import functools

from plugrad import Tensor, fx, nest, nn, serialization
from plugrad.export.dims import Dim, Guards, ValueRange, axes_of
from plugrad.export.graphs import graph_of
from plugrad.export.signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from plugrad.formats import CheckpointError, damaged
from plugrad.jit import TopLevelTracedModule
from plugrad.jit.examples import inputs_of, shell, state_kept, traced
from plugrad.jit.packing import packed
from plugrad.jit.program import tree_of
from plugrad.jit.tracer import Tracer
from plugrad.jit.unpacking import MALFORMED, unpacked
from plugrad.onnx import tracing as onnx_tracing
from plugrad.torch_modules.dynamo import UserError

__all__ = ["ExportedProgram", "export", "load", "save"]


class ExportedProgram:
    """A Module as one graph of ops, with its tensors and the inputs' shapes.

    Attributes:
        graph_module, graph: the graph of `torch.fx`, whose first arguments are the parameters and buffers.
        graph_signature: what its inputs and outputs are.
        state_dict: the parameters and buffers.
        constants: other tensors that it uses.
        range_constraints: {name of a size: between which numbers it is}.
        example_inputs: (args, kwargs) of the export; None of a program that was loaded.

    `module()` is what is called..
    """

    def __init__(self, script, specs, example_inputs=None):
        self._script, self._specs, self.example_inputs = script, specs, example_inputs
        self.graph, builder = graph_of(script, lifted=True)
        self.constants = dict(builder.constants)
        root = nn.Module()
        for name, tensor in self.constants.items():
            root.register_buffer(name, tensor, persistent=False)
        for node in self.graph.nodes:
            if node.op == "call_module":
                _put(root, node.target, script.get_submodule(node.target))
        self.graph_module = fx.GraphModule(root, self.graph)
        self.graph_signature = self._signature(builder)
        self.state_dict = {**dict(script.named_parameters()), **_persistent(script)}
        self.verifiers: list = []

    def _signature(self, builder):
        inputs = []
        kept = _persistent(self._script)
        for (kind, name), node in builder.tensors.items():
            argument = TensorArgument(node.name)
            if kind == "constant":
                inputs.append(InputSpec(InputKind.CONSTANT_TENSOR, argument, name))
            elif kind == "param":
                inputs.append(InputSpec(InputKind.PARAMETER, argument, name))
            else:
                inputs.append(InputSpec(InputKind.BUFFER, argument, name, name in kept))
        names = [name for name, *_ in self._script._staged.trees["forward"]["arguments"]]
        values = {path: sizes for path, sizes in self._specs if isinstance(sizes, tuple)}
        for name, node in zip(names, builder.inputs):
            given = ConstantArgument(node.name, *values[name]) if name in values else TensorArgument(node.name)
            inputs.append(InputSpec(InputKind.USER_INPUT, given, None))
        returned = [node for node in self.graph.nodes if node.op == "output"]
        if not returned:
            raise ValueError("the program returns nothing")
        (result,) = returned[0].args
        nodes = [leaf for leaf in nest.leaves(result) if isinstance(leaf, fx.Node)]
        return ExportGraphSignature(inputs, [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name)) for n in nodes])

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    @property
    def range_constraints(self) -> dict:
        """Between which numbers sizes are that may vary."""
        ranges = {}
        for _, sizes in self._specs:
            for one in sizes:
                if isinstance(one, Dim):
                    ranges[one.root.__name__] = ValueRange(one.root.min, one.root.max)
        return ranges

    def parameters(self):
        """Yield the parameters."""
        yield from self._script.parameters()

    def named_parameters(self):
        """Yield (name, parameter)."""
        yield from self._script.named_parameters()

    def buffers(self):
        """Yield the buffers."""
        yield from self._script.buffers()

    def named_buffers(self):
        """Yield (name, buffer)."""
        yield from self._script.named_buffers()

    def module(self, check_guards=True):
        """Return a Module that runs the program, with its parameters and buffers.

        Args:
            check_guards: whether it checks the shapes of its inputs: AssertionError where they are others.
        """
        graph, builder = graph_of(self._script, lifted=False)
        root = nn.Module()
        for name, tensor in [*self._script.named_parameters(), *self._script.named_buffers()]:
            _put(root, name, tensor)
        for name, tensor in builder.constants.items():
            root.register_buffer(name, tensor, persistent=False)
        for node in list(graph.nodes):
            if node.op == "call_module" and node.target == "_guards_fn":
                root.add_module("_guards_fn", Guards(self._specs))
                if not check_guards:
                    graph.erase_node(node)
            elif node.op == "call_module":
                _put(root, node.target, self._script.get_submodule(node.target))
        return fx.GraphModule(root, graph)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """Return the program with ops taken apart as a table says.

        Args:
            decomp_table: {op: a function that is called in its place}; what that calls is taken apart in turn, but not
                by itself. Without it no op is: each has a kernel of its own here.
            decompose_custom_triton_ops: has no meaning here.

        Raises NotImplementedError for programs that were loaded, which have no example inputs.

        >>> import plugrad as torch
        >>> program = torch.export.export(torch.nn.Softplus(), (torch.ones(2),))
        >>> table = {torch.nn.functional.softplus: lambda x, beta, threshold: torch.log1p(torch.exp(x))}
        >>> [node.name for node in program.run_decompositions(table).graph.nodes]
        ['input_1', 'exp', 'log1p', 'output']
        """
        if self.example_inputs is None:
            raise NotImplementedError("a program that was loaded has no example inputs to run it with")
        tensors = [sizes for _, sizes in self._specs if isinstance(sizes, list)]
        axes = [{axis: n for axis, n in enumerate(sizes) if isinstance(n, Dim)} for sizes in tensors]
        table = {getattr(op, "__op__", op): function for op, function in (decomp_table or {}).items()}
        args, kwargs = self.example_inputs
        names = [name for name, *_ in self._script._staged.trees["forward"]["arguments"]]
        values = (*args, *[kwargs[name] for name in names[len(args) :]])
        rows = [*zip(names, values)]
        tracer = functools.partial(_Decomposer, table)
        program = _exported(self.module(check_guards=False), rows, len(rows), axes, tracer)
        program.example_inputs = self.example_inputs
        return program

    def __str__(self):
        code = "\n".join(f"    {line}" for line in self.graph_module.code.strip().splitlines())
        signature = str(self.graph_signature).replace("\n", "\n    ").rstrip()
        return (
            f"ExportedProgram:\n{code}\n\nGraph signature: {signature}\n\nRange constraints: {self.range_constraints}\n"
        )

    __repr__ = __str__


def _persistent(script) -> dict:
    state = script.state_dict()
    return {name: one for name, one in script.named_buffers() if name in state}


def _put(root, path, value) -> None:
    """Put a tensor or module into a tree of modules."""
    *steps, name = path.split(".")
    for step in steps:
        if step not in root._modules:
            root.add_module(step, nn.Module())
        root = root._modules[step]
    if isinstance(value, nn.Parameter):
        root.register_parameter(name, value)
    elif isinstance(value, Tensor):
        root.register_buffer(name, value)
    else:
        root.add_module(name, value)


class _Exporter(Tracer):
    """A tracer that refuses decisions by values."""

    RESULTS = CONSTANTS = (int, float, bool, str, type(None))

    def looked_at(self, what) -> None:
        raise RuntimeError(
            f"Could not guard on data-dependent expression: a tensor became {what} while the program was exported. "
            "Write it with "
            "ops, such as torch.where, or use torch.jit.script, which keeps `if` and `while`"
        )


class _Decomposer(_Exporter):
    """A tracer that calls other functions in the place of some ops."""

    def __init__(self, table, root=None):
        super().__init__(root)
        self.table, self.within = table, ()

    def call(self, func, args, kwargs, name=None):
        op = getattr(func, "__op__", func)
        if op not in self.table or op in self.within:
            return super().call(func, args, kwargs, name)
        before, self.within = self.within, (*self.within, op)
        try:
            with self:
                return self.table[op](*args, **kwargs)
        finally:
            self.within = before


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(), prefer_deferred_runtime_asserts_over_guards=False):  # fmt: skip  # noqa: E501
    """Return a Module as an ExportedProgram: one graph of ops.

    Inputs have the example's sizes, or vary in those that `dynamic_shapes` names.

    Args:
        mod: the Module.
        args, kwargs: a tuple and a dict of example inputs: tensors, numbers, texts and None, which stay what they are,
            and tuples, lists and dicts of them.
        dynamic_shapes: which sizes may vary: {argument: {axis: Dim}}, or a tuple in the order of arguments.

    The program is run for some other sizes, too: UserError if it does not do the same there. RuntimeError for programs
    that look at values. Other arguments have no meaning here.

    >>> import plugrad as torch
    >>> batch = torch.export.Dim("batch")
    >>> program = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(4, 2),), dynamic_shapes={"input": {0: batch}})
    >>> program.module()(torch.ones(7, 2)).shape, program.graph_signature.parameters
    (torch.Size([7, 3]), ('weight', 'bias'))
    """
    if not isinstance(mod, nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    kwargs = dict(kwargs or {})
    rows = inputs_of(mod.forward, args, kwargs)
    program = _exported(mod, rows, len(rows) - len(kwargs), axes_of(rows, dynamic_shapes), _Exporter)
    program.example_inputs = args, kwargs
    return program


def _exported(mod, rows, count, axes, tracer) -> ExportedProgram:
    """Return the program of a Module as a tracer notes it, on `rows`, its arguments, `count` of them by position."""
    first = _run(mod, rows, count, tracer)
    axes = _checked(mod, rows, count, axes, first, tracer)
    script = shell(mod, {}, TopLevelTracedModule)
    body, signature, trees, classes = first
    program = script._staged
    program.trees = {"forward": tree_of(body, signature, True), **trees}
    program.signatures = {"forward": signature}
    program.classes.update(classes)
    program.make(script._declares)
    return ExportedProgram(script, _specs(rows, axes))


def _run(mod, rows, count, tracer):
    def call(given):
        values = list(given.values())
        return mod(*values[:count], **dict(zip(list(given)[count:], values[count:])))

    with state_kept(mod):
        body, signature, trees, classes, _ = traced(rows, call, mod, False, tracer)
    return body, signature, trees, classes


def _checked(mod, rows, count, axes, first, tracer) -> list:
    """Return the axes that may vary; UserError if the program does something else for another size of one."""
    for name in dict.fromkeys(dim.root.__name__ for one in axes for dim in one.values()):
        known = next(dim.root for one in axes for dim in one.values() if dim.root.__name__ == name)
        example = _size_now(rows, axes, name)
        others = {example + 1, min(known.max, 4 * example + 5), max(known.min, 2)} - {example}
        for other in sorted(others):
            if not known.min <= other <= known.max:
                continue
            try:
                again = _run(mod, _varied(rows, axes, name, other - example), count, tracer)
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                again = error
            if isinstance(again, Exception) or not _same(first, again):
                if getattr(known, "is_auto", False):
                    axes = [{axis: dim for axis, dim in one.items() if dim.root.__name__ != name} for one in axes]
                    break
                raise UserError(
                    f"Constraints violated ({name})! You marked {name} as dynamic but your code specialized it: for "
                    "a size of "
                    f"{other} in the place of {example} it does something else"
                    + (
                        f": {again}"
                        if isinstance(again, Exception)
                        else ", or uses a number that follows from the size"
                    )
                )
    return axes


def _size_now(rows, axes, name) -> int:
    tensors = [leaf for leaf in nest.leaves([one for _, one in rows]) if isinstance(leaf, Tensor)]
    sizes = {
        (tensor.shape[axis] - dim.offset) // dim.factor
        for tensor, one in zip(tensors, axes) for axis, dim in one.items() if dim.root.__name__ == name
    }  # fmt: skip
    if len(sizes) > 1:
        raise UserError(f"the size {name} is {' and '.join(map(str, sorted(sizes)))} in the example")
    return sizes.pop()


def _varied(rows, axes, name, more):
    numbers = iter(axes)

    def changed(leaf):
        if not isinstance(leaf, Tensor):
            return leaf
        own = {axis: dim for axis, dim in next(numbers).items() if dim.root.__name__ == name}
        for axis, dim in own.items():
            by = more * dim.factor
            longer = onnx_tracing.vary(leaf, {axis: name}, {name: max(by, 0)})
            leaf = longer if by > 0 else leaf.narrow(axis, 0, leaf.shape[axis] + by)
        return leaf

    return [(one, nest.change(changed, example)) for one, example in rows]


def _same(one, other) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one is other or one.shape == other.shape and one.dtype is other.dtype and one.equal(other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    return type(one) is type(other) and (one == other or one != one)


def _specs(rows, axes) -> list:
    numbers, specs = iter(axes), []

    def collect(path, example):
        if isinstance(example, Tensor):
            own = next(numbers)
            specs.append((path, [own.get(axis, size) for axis, size in enumerate(example.shape)]))
        elif isinstance(example, dict):
            for key, one in example.items():
                collect(f"{path}[{key!r}]", one)
        elif isinstance(example, (tuple, list)):
            for i, one in enumerate(example):
                collect(f"{path}[{i}]", one)
        else:
            specs.append((path, (example,)))

    for name, example in rows:
        collect(name, example)
    return specs


# ------------------------------------------------------------------------------------------------ files


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2) -> None:
    """Write an ExportedProgram to a file, as `torch.jit.save` writes programs.

    Args:
        ep: the program.
        f: a path, or a file that is open for writing.
        extra_files: {name: text or bytes} that is stored beside it.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    dims = [
        [path, {"value": sizes[0]} if isinstance(sizes, tuple) else [
            [one.root.__name__, one.root.min, one.root.max, one.factor, one.offset] if isinstance(one, Dim) else one
            for one in sizes
        ]]
        for path, sizes in ep._specs
    ]  # fmt: skip
    serialization.save({**packed(ep._script, extra_files), "shapes": dims}, f)


def load(f, *, extra_files=None, expected_opset_version=None) -> ExportedProgram:
    """Return the ExportedProgram that `save` wrote.

    CheckpointError for what is none. `extra_files` is filled.
    """
    tree = serialization.load(f)
    if not isinstance(tree, dict) or "shapes" not in tree:
        raise CheckpointError("the file holds no exported program: torch.jit.load and torch.load load others")
    script, extra = unpacked(tree)
    try:
        specs = [(str(path), _loaded_spec(one)) for path, one in tree["shapes"]]
        program = ExportedProgram(copy.copy(script), specs)
    except (*MALFORMED, SyntaxError, AssertionError) as error:
        raise damaged("the program", f"{type(error).__name__}: {error}") from error
    if extra_files is not None:
        extra_files.update({name: extra[name] for name in extra_files if name in extra})
    return program


def _loaded_spec(one):
    if isinstance(one, dict):
        if not isinstance(one["value"], _Exporter.CONSTANTS):
            raise ValueError("an input is no constant")
        return (one["value"],)
    return [_loaded_size(size) for size in one]


def _loaded_size(one):
    if type(one) is int:
        return one
    name, low, high, factor, offset = one
    if not all(type(number) is int for number in (low, high, factor, offset)) or factor < 1:
        raise ValueError("a size is no Dim")
    dim = Dim(name, min=low, max=high)
    return dim if (factor, offset) == (1, 0) else dim._derived(factor, offset)
