"""Python code from a graph: `PythonCode`, and what writes it, `CodeGen`."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import keyword
import re
import types
import typing

import plugrad
from plugrad.fx import _pytree as fx_pytree
from plugrad.fx._names import custom_builtins, is_from_torch, qualified_name, type_name
from plugrad.fx.node import Node, short_dtype
from plugrad.utils import _pytree as pytree

custom_builtins["fx_pytree"].obj = fx_pytree

reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}",
    "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", **reflectable_magic_methods,
}  # fmt: skip
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip
_OLD_GENERICS = {
    cls: getattr(typing, name)
    for cls, name in ((list, "List"), (dict, "Dict"), (set, "Set"), (frozenset, "FrozenSet"), (tuple, "Tuple"))
}


@dataclasses.dataclass
class PythonCode:
    """The source of a graph's function.

    Attributes:
        src: the text.
        globals: what its global names mean.
    """

    src: str
    globals: dict
    _lineno_map: dict | None = None
    _prologue_start: int = 0


class _PyTreeInfo(typing.NamedTuple):
    """Names of the arguments, and the structures of arguments and result, of a graph that takes nested values."""

    orig_args: list
    in_spec: object
    out_spec: object


def format_target(base: str, target: str) -> str:
    """Return the source of an attribute by its dotted path: an element like "0" takes `getattr`."""
    for part in target.split("."):
        if part.isidentifier() and not keyword.iskeyword(part):
            base = f"{base}.{part}"
        else:
            text = f'"{part}"' if part.isprintable() and not {'"', "\\"} & {*part} else repr(part)
            base = f"getattr({base}, {text})"
    return base


def _named(parameter: str) -> str:
    """Return the name of a parameter, which may stand behind stars; SyntaxError for text that is no name."""
    name = parameter.removeprefix("*").removeprefix("*")
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SyntaxError(f"{name!r:.60} is no name of a parameter: no code can be written with it")
    return name


class _Writer:
    """Writes the lines of one graph's function."""

    def __init__(self, codegen, nodes, root_module, namespace, verbose, expanded_def=False):
        self.codegen, self.nodes, self.root, self.namespace = codegen, list(nodes), root_module, namespace
        self.verbose = verbose
        self.globals: dict = {}
        self.free_vars: list[str] = []
        self.body: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.returns = ""
        for name, builtin in custom_builtins.items():
            self.add_global(name, builtin.obj)

    def add_global(self, hint: str, value) -> str:
        """Return the name by which the code reaches a value."""
        if is_from_torch(value) and value is not plugrad.device:
            return qualified_name(value)
        name = self.namespace.create_name(hint, value)
        self.globals[name] = value
        return name

    def type_repr(self, annotation) -> str:
        """Return the source of an annotation."""
        if annotation == ():
            return "()"
        name = type_name(annotation)
        if isinstance(annotation, types.UnionType):
            return "|".join(map(self.type_repr, typing.get_args(annotation)))
        origin = getattr(annotation, "__origin__", None)
        if origin is None:
            return self.add_global(name, annotation)
        if isinstance(annotation, typing._GenericAlias):
            origin = _OLD_GENERICS.get(origin, origin)
        shown, arguments = self.add_global(type_name(origin), origin), typing.get_args(annotation)
        return f"{shown}[{','.join(map(self.type_repr, arguments))}]" if arguments else shown

    def repr(self, value) -> str:
        """Return the source of an argument."""
        if isinstance(value, Node):
            return repr(value)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.add_global(qualified_name(type(value)), type(value))}{tuple(value)!r}"
        if isinstance(value, enum.Enum):
            return f"{self.add_global(type(value).__name__, type(value))}.{value.name}"
        if isinstance(value, plugrad.Tensor):
            return f"torch.Tensor(size={list(value.shape)}, dtype={str(value.dtype).rpartition('.')[2]})"
        if isinstance(value, tuple):
            return f"({', '.join(map(self.repr, value))}{',' * (len(value) == 1)})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.repr, value))}]"
        if isinstance(value, dict):
            items = ", ".join(f"{key!r}: {self.repr(item)}" for key, item in value.items())
            return f"{{{items}}}"
        if isinstance(value, slice):
            return f"slice({self.repr(value.start)}, {self.repr(value.stop)}, {self.repr(value.step)})"
        if value is ... or value is Ellipsis:
            return "Ellipsis"
        return repr(value)

    def call_arguments(self, args, kwargs) -> str:
        """Return the source between the parentheses of a call."""
        return ", ".join(
            [*map(self.repr, args), *(f"{_named(key)} = {self.repr(item)}" for key, item in kwargs.items())]
        )

    def annotation(self, node) -> str:
        """Return what stands behind the name of a value: its type, or in verbose code its dtype and shape."""
        value = node.meta.get("val", node.meta.get("tensor_meta", node.meta.get("example_value")))
        if self.verbose and value is not None and hasattr(value, "dtype"):
            return f': "{short_dtype(value.dtype)}[{", ".join(map(str, value.shape))}]"'
        return "" if node.type is None else f" : {self.type_repr(node.type)}"

    def emit(self, node) -> None:
        """Add the line of a node."""
        self.body.append(getattr(self, f"_{node.op}")(node, f"{node!r}{self.annotation(node)} = "))

    def _placeholder(self, node, start):
        default, raw = f" = {self.repr(node.args[0])}" if node.args else "", _named(node.target)
        self.free_vars.append(f"{node.target}{self.annotation(node)}{default}")
        return f"{node!r} = {raw}\n" if raw != repr(node) else ""

    def _call_method(self, node, start):
        called = format_target(self.repr(node.args[0]), node.target)
        return f"{start}{called}({self.call_arguments(node.args[1:], node.kwargs)})"

    def _call_function(self, node, start):
        name = getattr(node.target, "__name__", "")
        if getattr(node.target, "__module__", "") == "_operator":
            operands = [self.repr(one) for one in node.args]
            if name in magic_methods:
                return start + magic_methods[name].format(*operands)
            if name in inplace_methods:
                return f"{inplace_methods[name].format(*operands)};  {start}{operands[0]}"
        called = self.add_global(qualified_name(node.target), node.target)
        if called == "getattr" and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return start + format_target(self.repr(node.args[0]), node.args[1])
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(called)
        return f"{start}{called}({self.call_arguments(node.args, node.kwargs)})"

    def _call_module(self, node, start):
        return f"{start}{format_target(self.root, node.target)}({self.call_arguments(node.args, node.kwargs)})"

    def _get_attr(self, node, start):
        return start + format_target(self.root, node.target)

    def _output(self, node, start):
        if node.type is not None:
            self.returns = f" -> {self.type_repr(node.type)}"
        generate = self.codegen.generate_output
        takes_repr = "repr_fn" in inspect.signature(generate).parameters  # a subclass need not take it
        return generate(node.args[0], **({"repr_fn": self.repr} if takes_repr else {}))

    def last_uses(self) -> dict:
        """Return {node: the nodes whose values nobody needs behind it}."""
        uses, seen = {}, set()
        for node in reversed(self.nodes):
            for one in node._input_nodes:
                if one not in seen:
                    seen.add(one)
                    uses.setdefault(node, []).append(one)
        return uses

    def write(self) -> str:
        """Return the text of the function's body."""
        uses, shown = self.last_uses(), None
        for i, node in enumerate(self.nodes):
            if self.verbose and node.op not in ("placeholder", "output"):
                shown = self._note_origin(node, shown)
            self.body.append(f"# COUNTER: {i}\n")
            self.emit(node)
            if node.op == "output":
                self.body.append("\n")
            elif node.op != "placeholder":
                gone = [*uses.get(node, ()), *([] if node.users else [node])]
                self.body.append(f";  {' = '.join([*map(repr, gone), 'None'])}\n" if gone else "\n")
        return self.body or ["pass\n"]

    def _note_origin(self, node, shown):
        trace = (node.stack_trace or "").strip().split("\n")
        places = [(i, line) for i, line in enumerate(trace[:-1]) if line.strip().startswith('File "')]
        if places:
            i, line = places[-1]
            file, number, function = re.match(r'File "(.+)", line (\d+), in (.+)', line.strip()).groups()
            text = f"\n#  File: {file}:{number} in {function}, code: {trace[i + 1].strip()}\n"
        else:
            text = "\n#  No stacktrace found for following nodes\n"
        if text != shown:
            self.body.append(text)
        return text


class CodeGen:
    """Writes the code of graphs; a subclass changes its signature or result.

    Or what comes in and goes out.
    """

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the line with `def`, from the parameters and what annotates the result."""
        parameters = free_vars if free_vars and free_vars[0] == "self" else ["self", *free_vars]
        if expanded_def:
            lines = "".join(f"    {one},\n" for one in parameters)
            return f"def {self._func_name}(\n{lines}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(parameters)}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=repr) -> str:
        """Return the line with `return`."""
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args):
        """Return the values of the placeholders for the arguments of a call."""
        return args

    def process_outputs(self, outputs):
        """Return the result of a call for the value of the output."""
        return outputs

    def additional_globals(self) -> list:
        """Return (name, value) pairs of what the code uses beside the targets of nodes."""
        return []

    def _gen_python_code(self, nodes, root_module, namespace, *, verbose=False, expanded_def=False, **options):
        writer = _Writer(self, nodes, root_module, namespace, verbose)
        body = writer.write()
        wrapped = ""
        if writer.wrapped:
            wrap = writer.add_global("wrap", plugrad.fx.wrap)
            wrapped = "\n".join(f'{wrap}("{name}")' for name in writer.wrapped)
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        prologue = self.gen_fn_def(writer.free_vars, writer.returns, **({"expanded_def": True} if expanded_def else {}))
        lines, numbers, current = [], {}, None
        for line in "".join(body).split("\n"):
            counter = re.search(r"# COUNTER: (\d+)", line)
            if counter:
                current = int(counter.group(1))
            else:
                numbers[len(lines) + len(prologue.split("\n"))] = current
                lines.append(line)
        code = "\n".join(f"    {line}" for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wrapped}\n\n{prologue}\n{code}", writer.globals, numbers, wrapped.count("\n") + 4)


class _PyTreeCodeGen(CodeGen):
    """Writes code that takes and returns nested values, of which the graph has the leaves."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args):
        """Return the leaves of the arguments."""
        return pytree.arg_tree_leaves(*args)

    def process_outputs(self, outputs):
        """Return the nested value of which these are the leaves."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return outputs
        leaves = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """Return the line with `def`, and one that takes the leaves from the arguments."""
        names = list(self.pytree_info.orig_args)
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(names, maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return definition
        annotated = [one for one in free_vars if ":" in one]
        notes = "\n    " + "".join(f"{one}; " for one in annotated) + "\n" if annotated else ""
        plain = ", ".join(one.split(":")[0].split("#")[0] for one in free_vars)
        given = f"[{', '.join(names)}], self._in_spec"
        return f"{definition}{notes}\n    {plain}, = fx_pytree.tree_flatten_spec({given})"

    def generate_output(self, output_args, *, descs=None, repr_fn=repr):
        """Return the line with `return`."""
        if self.pytree_info and self.pytree_info.out_spec:
            return f"return pytree.tree_unflatten({repr_fn(output_args)}, self._out_spec)"
        return super().generate_output(output_args, repr_fn=repr_fn)
