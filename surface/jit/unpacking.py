"""From plain data, as files of programs hold it, to script modules and functions.

Nothing of it is taken at its word: all that is not such as `packing` makes is refused with a CheckpointError.
"""

from __future__ import annotations

import importlib.metadata
import sys

from plugrad import Tensor, nn
from plugrad.formats import CheckpointError, damaged, shown
from plugrad.jit import names
from plugrad.jit.foreign import classes_of, settled, signature_of, value_of
from plugrad.jit.generate import Malformed, attribute, identifier
from plugrad.jit.modules import RecursiveScriptModule, ScriptFunction, TopLevelTracedModule, layer_class
from plugrad.jit.packing import FORMAT
from plugrad.jit.program import Program
from plugrad.jit.types import named
from plugrad.jit.units import LayerSignature, layer_returns
from plugrad.nn import Parameter

__all__ = ["MALFORMED", "signatures_of", "unpacked"]

# What data of another form than `packing` gives lead to, a tensor in the place of anything included.
MALFORMED = AttributeError, LookupError, RuntimeError, TypeError, ValueError


def unpacked(tree) -> tuple:
    """Return (the script module or function of a description, what was stored beside it)."""
    if not isinstance(tree, dict) or "staged" not in tree:
        raise CheckpointError("the file holds no staged program: torch.load loads it")
    try:
        return _Reader(tree).root(), dict(tree["extra"])
    except CheckpointError:
        raise
    except Malformed as error:
        raise damaged("the program", error) from error
    except RecursionError as error:
        raise damaged("the program", "it is nested too deeply") from error
    except MALFORMED as error:
        raise damaged("the program", f"{type(error).__name__}: {error}") from error


class _Reader:
    def __init__(self, tree):
        version = tree["staged"]
        if type(version) is not int or version < 1:
            raise Malformed(f"there is no format {shown(version)}")
        if version > FORMAT:
            raise CheckpointError(
                f"the program has format {shown(version)}, and this version of plugrad reads {FORMAT}: upgrade"
            )
        self._check_needs(tree["needs"])
        self.tree, self.records = tree, tree["records"]
        self.classes = classes_of(tree["classes"]) if version > 1 else {}
        self.staged: dict = {}
        self.open: set = set()

    @staticmethod
    def _check_needs(needs):
        for name, version in needs.items():
            try:
                importlib.metadata.version(str(name))
            except (importlib.metadata.PackageNotFoundError, ValueError):
                raise CheckpointError(
                    f"the program calls ops of the package {shown(name)} (version {shown(version)}), which is not "
                    "installed"
                ) from None

    def root(self):
        """Return what the file holds."""
        record = self.records[self.tree["root"]]
        if "kind" in record:
            staged = self.module(self.tree["root"])
        else:
            staged = ScriptFunction(self.program(record))
        return staged

    def program(self, record) -> Program:
        """Return the program of a record, whose functions are not made yet unless it is a function's."""
        program = Program(str(record["name"]))
        for name, tree in record["functions"].items():
            identifier(name)
            program.trees[name] = settled(tree, self.classes)
        program.classes = {one.name: one for one in self.classes.values()}
        if "kind" not in record:
            program.signatures = signatures_of(program, record["methods"])
            program.make()
            program.functions[program.name], program.signatures[program.name]
        return program

    def module(self, number):
        """Return the module of a record."""
        if type(number) is not int or not 0 <= number < len(self.records):
            raise Malformed(f"there is no record {shown(number)}")
        if number in self.staged:
            return self.staged[number]
        if number in self.open or len(self.open) > 100:
            raise Malformed("modules contain themselves, or are nested too deeply")
        self.open.add(number)
        record = self.records[number]
        program = self.program(record)
        layer = layer_of(record["layer"]) if record["kind"] == "layer" else None
        classes = {"module": RecursiveScriptModule, "traced": TopLevelTracedModule}
        cls = layer_class(layer) if layer is not None else classes[record["kind"]]
        staged = cls.__new__(cls)
        nn.Module.__init__(staged)
        self._fill(staged, record, layer)
        staged.__dict__["_staged"] = program
        program.attributes = {attribute(name): named(text, self.classes) for name, text in record["types"].items()}
        program.constants = frozenset(record["constants"])
        if layer is not None:
            if program.trees:
                raise Malformed("a layer has functions of its own")
            if hasattr(layer, "forward"):
                program.signatures = {"forward": LayerSignature(layer, layer_returns(staged, layer))}
        else:
            program.signatures = signatures_of(program, record["methods"])
            program.make(staged._declares)
        self.open.discard(number)
        self.staged[number] = staged
        return staged

    def _fill(self, staged, record, layer):
        for name, value in record["parameters"].items():
            if not (value is None or isinstance(value, Parameter)):
                raise Malformed(f"{name!r:.60} is no parameter")
            staged.register_parameter(name, value)
        for name, value in record["buffers"].items():
            if not (value is None or isinstance(value, Tensor)):
                raise Malformed(f"{name!r:.60} is no buffer")
            staged.register_buffer(name, value, persistent=name not in record["hidden"])
        for name, number in record["modules"].items():
            staged.add_module(name, None if number is None else self.module(number))
        for name, (kind, value) in record["attributes"].items():
            own = vars(layer).get(attribute(name)) if layer is not None else None
            inherited = getattr(layer, name, None) if layer is not None else None
            if isinstance(own, property) or callable(inherited) or isinstance(inherited, property):
                raise Malformed(f"{name!r:.60} is no attribute of a {layer.__name__}")
            staged.__dict__[name] = _function(value) if kind == "function" else value_of(kind, value, self.classes)
        staged.__dict__["training"] = bool(record["training"])


def signatures_of(program, methods) -> dict:
    """Return the signatures of functions that are called from outside, by their trees."""
    return {name: signature_of(name, program.trees[name], program.classes) for name in methods}


def _function(name):
    try:
        return names.function(name)
    except (LookupError, TypeError, AttributeError):
        raise Malformed(f"{name!r:.60} is nothing that programs call") from None


def layer_of(name):
    """Return the class of a layer by its name; Malformed for what is none."""
    public, _, private = str(name).partition(":")
    home, _, own = public.partition(".")
    cls = getattr(nn, own, None) if home == "nn" and own.isidentifier() else None
    if private and _is_layer(cls):
        cls = vars(sys.modules[cls.__module__]).get(private)
    if not _is_layer(cls):
        raise Malformed(f"{name!r:.60} is no layer")
    return cls


def _is_layer(cls) -> bool:
    return isinstance(cls, type) and issubclass(cls, nn.Module) and cls is not nn.Module
