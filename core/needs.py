"""The ops that the core itself calls, and what for: whatever plugins are installed must bring them."""

from __future__ import annotations

from plugrad import registry

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_OTHERS = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "neg": "neg", "pos": "positive",
    "abs": "abs", "invert": "bitwise_not", "getitem": "getitem",
}  # fmt: skip
OPERATORS = {f"__{operator}__": name for operator, name in {**_BINARY, **_OTHERS}.items()}
REFLECTED = {f"__r{operator}__": name for operator, name in _BINARY.items()}
ASSIGNMENTS = {f"__i{operator}__": name for operator, name in _BINARY.items() if operator != "matmul"}

NEEDED = {
    "empty": "Tensor(2, 3), and parameters without data",
    "empty_like": "Module.to_empty",
}


def op(name: str):
    """Return the record of an op that the core needs; RuntimeError if no plugin brings it."""
    try:
        return registry.op(name)
    except registry.AmbiguousNameError:
        raise
    except AttributeError as error:
        raise RuntimeError(
            f"plugrad itself needs the op {name!r} for {NEEDED[name]}, and no plugin brings it: {error}"
        ) from error
