"""What attributes and methods of a program's objects are while it is compiled."""

from __future__ import annotations

from plugrad.jit.types import fits
from plugrad.jit.values import Known, Value

__all__ = ["Bound"]


class Bound:
    """An object in a program, as calls of its methods look for them."""

    def __init__(self, value):
        self.value = value

    def call(self, name, args, kwargs, refuse, node):
        """Return the call of a method; None if there is none of that name."""
        value, unit = self.value, self.value.type.cls.unit
        signature = unit.method(name, refuse, node)
        if signature is None:
            return None
        signature.check([value, *args], kwargs, refuse, node)
        trees = [one.tree for one in args], {key: one.tree for key, one in kwargs.items()}
        return Value(["of", value.tree, name, *trees], signature.returns)

    def attribute(self, name, refuse, node):
        """Return what an attribute is; None if there is none."""
        record = self.value.type.cls
        kind = record.fields.get(name)
        if kind is not None:
            return Value(["field", self.value.tree, name], kind)
        if (function := record.unit.static(name)) is not None:
            return Known("python", function)
        if record.unit.method(name, refuse, node) is None:
            return None
        return self.call(name, [], {}, refuse, node) if name in record.properties else Known("method", self, name)

    def assigned(self, name, value, compiler, node):
        """Return the target of an assignment to an attribute."""
        base, fields = self.value, self.value.type.cls.fields
        if name.startswith("__"):
            raise compiler.refuse(f"an attribute of a staged class has no name such as {name!r}", node)
        if name not in fields and compiler.defines(base):
            if len(compiler.scope.frames) > 1 or compiler.loops:
                raise compiler.refuse(
                    "First assignment cannot be in a control-flow block. Initialize the field at the top level first",
                    node,
                )
            fields[name] = value.type
        kind = fields.get(name)
        if kind is None:
            raise compiler.refuse(
                f"Tried to set nonexistent attribute: {name}. Did you forget to initialize it in __init__()?", node
            )
        if not fits(value.type, kind):
            raise compiler.refuse(f"Wrong type for attribute assignment. Expected {kind} but got {value.type}", node)
        return ["field", base.tree, name]
