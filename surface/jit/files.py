"""Files of staged programs: `save` and `load`.

A file is a checkpoint of plugrad's own format: a zip of one JSON description and arrays with checksums, no pickle. What
it describes is data: the trees of the functions, types, attributes, and the names of the layers that are plugrad's or a
package's. Loading one makes functions of the trees (`generate`), which can call ops and nothing else.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
import types as python_types

import plugrad
from plugrad import Tensor, nn, serialization
from plugrad.formats.errors import CheckpointError, damaged, shown
from plugrad.jit import names
from plugrad.jit.generate import Malformed, attribute, identifier
from plugrad.jit.modules import RecursiveScriptModule, ScriptFunction, TopLevelTracedModule, layer_class
from plugrad.jit.program import Program
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.source import MISSING
from plugrad.jit.types import named
from plugrad.jit.units import LayerSignature, layer_returns, own_state
from plugrad.nn import Parameter

__all__ = ["load", "packed", "save", "signatures_of", "unpacked"]

FORMAT = 1
_LAYERS = "plugrad.plugins.layers"
_LITERALS = (int, float, bool, str, complex, type(None), Tensor, plugrad.dtype, plugrad.device, plugrad.layout)


def save(m, f, _extra_files=None) -> None:
    """Write a script module or function to a file, from which `load` makes it where its source is not.

    Args:
        m: what `script` or `trace` returned.
        f: a path, or a file that is open for writing.
        _extra_files: {name: text or bytes} that is stored beside it.

    Raises RuntimeError for programs that call Python's own functions (`@torch.jit.ignore`), and for layers with
    attributes that are no data.
    """
    serialization.save(packed(m, _extra_files), f)


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Return the script module or function that a file holds.

    Args:
        f: a path or an open file.
        map_location: where tensors go, as for `torch.load`.
        _extra_files: a dict, whose keys get what was stored beside the program under these names.

    Nothing in a file is run but ops, on values of the program. Raises CheckpointError for a file that is damaged, is no
    staged program, or needs a package that is not installed.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), file)
    >>> _ = file.seek(0)
    >>> torch.jit.load(file)(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """
    tree = serialization.load(f, map_location)
    made, extra = unpacked(tree)
    for name in _extra_files if _extra_files is not None else ():
        if name in extra:
            _extra_files[name] = extra[name]
    return made


# ------------------------------------------------------------------------------------------------ writing


def packed(m, extra=None) -> dict:
    """Return the description of a script module or function, which is plain data."""
    if not isinstance(m, (ScriptFunction, RecursiveScriptModule)):
        raise AttributeError(f"'{type(m).__name__}' is no staged program: save what torch.jit.script or trace returns")
    writer = _Writer()
    root = writer.record(m)
    return {
        "staged": FORMAT, "root": root, "records": writer.records, "needs": writer.needs,
        "extra": {str(name): value for name, value in (extra or {}).items()},
    }  # fmt: skip


class _Writer:
    def __init__(self):
        self.records: list = []
        self.numbers: dict = {}
        self.needs: dict = {}

    def record(self, m) -> int:
        """Return the number of the record of a module or function."""
        if id(m) in self.numbers:
            return self.numbers[id(m)]
        number = self.numbers[id(m)] = len(self.records)
        self.records.append(None)
        program = m._staged
        if program.python:
            function = next(iter(program.python)).lstrip("!")
            raise RuntimeError(
                f"Could not export Python function call '{function}'. Remove calls to Python functions before export. Did "
                "you forget to add @script or @script_method annotation? If this is a nn.ModuleList, add it to __constants__"
            )
        self._note_needs(program)
        entry = {"name": program.name, "functions": program.trees, "methods": list(program.signatures)}
        if isinstance(m, RecursiveScriptModule):
            entry |= self._module(m, program)
        self.records[number] = entry
        return number

    def _module(self, m, program):
        layer = getattr(type(m), "_layer", None)
        kind = "traced" if isinstance(m, TopLevelTracedModule) else "module"
        entry = {
            "kind": kind if layer is None else "layer", "training": m.training,
            "parameters": dict(m._parameters), "buffers": dict(m._buffers),
            "hidden": sorted(m._non_persistent_buffers_set),
            "modules": {name: None if one is None else self.record(one) for name, one in m._modules.items()},
            "attributes": {}, "types": {name: str(kind) for name, kind in program.attributes.items()},
            "constants": sorted(program.constants),
        }  # fmt: skip
        if layer is not None:
            entry["layer"] = name_of_layer(layer)
            self._need(layer.__module__)
        for name, value in own_state(m):
            entry["attributes"][name] = self._attribute(value, m, name)
        return entry

    def _attribute(self, value, m, name):
        plain = _plain(value)
        if plain is not MISSING:
            return ["value", plain]
        function = names.name_of(value) if isinstance(value, python_types.FunctionType) else None
        if function is None:
            raise RuntimeError(
                f"a {m.original_name} can't be saved: its attribute {name!r} is a {type(value).__name__}, which is no data"
            )
        return ["function", function]

    def _note_needs(self, program):
        stack = [program.trees]
        while stack:
            one = stack.pop()
            if isinstance(one, dict):
                stack += one.values()
            elif isinstance(one, (list, tuple)):
                if len(one) == 4 and one[0] == "call":
                    op = getattr(names.function(one[1]), "__op__", None)
                    if op is not None:
                        self._need_of(op.provider)
                stack += one

    def _need_of(self, plugin):
        if not plugin.builtin and plugin.distribution:
            self.needs[plugin.distribution] = str(plugin.version)

    def _need(self, module):
        top = module.partition(".")[0]
        if top != "plugrad":
            for name in importlib.metadata.packages_distributions().get(top, ()):
                self.needs[name] = importlib.metadata.version(name)


def _plain(value):
    """Return a value as data, MISSING if it is none."""
    if type(value) in _LITERALS or isinstance(value, (Tensor, *_LITERALS)):
        return value
    if isinstance(value, (list, tuple)):
        items = [_plain(one) for one in value]
        if any(one is MISSING for one in items):
            return MISSING
        return value if isinstance(value, plugrad.Size) else items if isinstance(value, list) else tuple(items)
    if type(value) is dict:
        items = {key: _plain(one) for key, one in value.items()}
        return MISSING if any(one is MISSING for one in (*items.values(), *map(_plain, items))) else items
    return MISSING


def name_of_layer(cls) -> str:
    """Return the name under which a layer's class is found again."""
    if getattr(nn, cls.__name__, None) is cls:
        return f"nn.{cls.__name__}"
    return f"{cls.__module__.removeprefix(_LAYERS + '.')}:{cls.__name__}"


# ------------------------------------------------------------------------------------------------ reading


def unpacked(tree) -> tuple:
    """Return (the script module or function of a description, what was stored beside it)."""
    if not isinstance(tree, dict) or "staged" not in tree:
        raise CheckpointError("the file holds no staged program: torch.load loads it")
    try:
        return _Reader(tree).root(), dict(tree["extra"])
    except Malformed as error:
        raise damaged("the program", error) from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise damaged("the program", f"{type(error).__name__}: {error}") from error
    except RecursionError as error:
        raise damaged("the program", "it is nested too deeply") from error


class _Reader:
    def __init__(self, tree):
        version = tree["staged"]
        if type(version) is not int or version < 1:
            raise Malformed(f"there is no format {shown(version)}")
        if version > FORMAT:
            raise CheckpointError(f"the program has format {shown(version)}, and this version of plugrad reads {FORMAT}: upgrade")
        self._check_needs(tree["needs"])
        self.tree, self.records = tree, tree["records"]
        self.made: dict = {}
        self.open: set = set()

    @staticmethod
    def _check_needs(needs):
        for name, version in needs.items():
            try:
                importlib.metadata.version(str(name))
            except (importlib.metadata.PackageNotFoundError, ValueError):
                raise CheckpointError(
                    f"the program calls ops of the package {shown(name)} (version {shown(version)}), which is not installed"
                ) from None

    def root(self):
        """Return what the file holds."""
        record = self.records[self.tree["root"]]
        if "kind" in record:
            made = self.module(self.tree["root"])
        else:
            made = ScriptFunction(self.program(record))
        return made

    def program(self, record) -> Program:
        """Return the program of a record, whose functions are not made yet unless it is a function's."""
        program = Program(str(record["name"]))
        for name, tree in record["functions"].items():
            identifier(name)
            if type(tree) is not dict or type(tree["self"]) is not bool:
                raise Malformed(f"the function {name!r:.60} is no function")
            program.trees[name] = tree
        if "kind" not in record:
            program.signatures = signatures_of(program, record["methods"])
            program.make()
            program.functions[program.name], program.signatures[program.name]  # noqa: B018 - they must be there
        return program

    def module(self, number):
        """Return the module of a record."""
        if type(number) is not int or not 0 <= number < len(self.records):
            raise Malformed(f"there is no record {shown(number)}")
        if number in self.made:
            return self.made[number]
        if number in self.open or len(self.open) > 100:
            raise Malformed("modules contain themselves, or are nested too deeply")
        self.open.add(number)
        record = self.records[number]
        program = self.program(record)
        layer = layer_of(record["layer"]) if record["kind"] == "layer" else None
        classes = {"module": RecursiveScriptModule, "traced": TopLevelTracedModule}
        cls = layer_class(layer) if layer is not None else classes[record["kind"]]
        made = cls.__new__(cls)
        nn.Module.__init__(made)
        self._fill(made, record, layer)
        made.__dict__["_staged"] = program
        program.attributes = {attribute(name): named(text) for name, text in record["types"].items()}
        program.constants = frozenset(record["constants"])
        if layer is not None:
            if program.trees:
                raise Malformed("a layer has functions of its own")
            if hasattr(layer, "forward"):
                program.signatures = {"forward": LayerSignature(layer, layer_returns(made, layer))}
        else:
            program.signatures = signatures_of(program, record["methods"])
            program.make(made._declares)
        self.open.discard(number)
        self.made[number] = made
        return made

    def _fill(self, made, record, layer):
        for name, value in record["parameters"].items():
            if not (value is None or isinstance(value, Parameter)):
                raise Malformed(f"{name!r:.60} is no parameter")
            made.register_parameter(name, value)
        for name, value in record["buffers"].items():
            if not (value is None or isinstance(value, Tensor)):
                raise Malformed(f"{name!r:.60} is no buffer")
            made.register_buffer(name, value, persistent=name not in record["hidden"])
        for name, number in record["modules"].items():
            made.add_module(name, None if number is None else self.module(number))
        for name, (kind, value) in record["attributes"].items():
            found = vars(layer).get(attribute(name)) if layer is not None else None
            inherited = getattr(layer, name, None) if layer is not None else None
            if isinstance(found, property) or callable(inherited) or isinstance(inherited, property):
                raise Malformed(f"{name!r:.60} is no attribute of a {layer.__name__}")
            if kind == "function":
                value = _function(value)
            elif kind != "value":
                raise Malformed(f"{kind!r:.60} is no kind of attribute")
            made.__dict__[name] = value
        made.__dict__["training"] = bool(record["training"])


def signatures_of(program, methods) -> dict:
    """Return the signatures of functions that are called from outside, by their trees."""
    found = {}
    for name in methods:
        tree = program.trees[name]
        arguments = [
            Argument(identifier(one[0]), named(one[1]), *([_default(one[2])] if len(one) > 2 else []))
            for one in tree["arguments"]
        ]
        found[name] = Signature(name, arguments, named(tree["returns"]))
    return found


def _function(name):
    try:
        return names.function(name)
    except (LookupError, TypeError, AttributeError):
        raise Malformed(f"{name!r:.60} is nothing that programs call") from None


def _default(value):
    if _plain(value) is MISSING:
        raise Malformed(f"{value!r:.60} is no default")
    return value


def layer_of(name):
    """Return the class of a layer by its name; Malformed for what is none."""
    home, _, own = str(name).rpartition(".") if ":" not in str(name) else str(name).partition(":")
    if not own.isidentifier():
        raise Malformed(f"{name!r:.60} is no layer")
    if home == "nn":
        cls = getattr(nn, own, None)
    else:
        import plugrad.plugins.layers as layers

        known = {one.name for one in pkgutil.iter_modules(layers.__path__)}
        if home not in known:
            raise Malformed(f"{name!r:.60} is no layer")
        cls = getattr(importlib.import_module(f"{_LAYERS}.{home}"), own, None)
    if not (isinstance(cls, type) and issubclass(cls, nn.Module)) or cls is nn.Module:
        raise Malformed(f"{name!r:.60} is no layer")
    return cls
