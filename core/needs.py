"""The ops that the core itself calls, and what for: whatever plugins are installed must bring them.

The core knows no op beyond these lists. An op that is missing is an error where it is first needed.
"""

from __future__ import annotations

from plugrad import registry

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
}  # fmt: skip
_OTHERS = {
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "neg": "neg", "pos": "positive",
    "abs": "abs", "invert": "invert", "getitem": "getitem",
}  # fmt: skip
# Python's operators, by the name of their method.
OPERATORS = {f"__{operator}__": name for operator, name in {**_BINARY, **_OTHERS}.items()}
REFLECTED = {f"__r{operator}__": name for operator, name in _BINARY.items()}
SIGNS = {name: operator for operator, name in _BINARY.items() if name != "div"}  # PyTorch's methods are `__rdiv__`, too
ASSIGNMENTS = {f"__i{operator}__": name for operator, name in _BINARY.items() if operator != "matmul"}
ASSIGNMENTS["__setitem__"] = "setitem"

# Ops that are called by their records or in formulas.
FUNCTIONS = {
    "adjoint": "Tensor.H and Tensor.mH",
    "basic_index": "item assignment, and what is selected by slices and numbers",
    "conjugated": "gradients of complex numbers",
    "empty": "Tensor(2, 3), and parameters without data",
    "imag": "Tensor.imag",
    "permute": "Tensor.T",
    "real": "Tensor.real, and gradients of real inputs of complex results",
    "reshape": "gradients of broadcast inputs, and of reductions",
    "sum": "gradients of broadcast inputs",
    "transpose": "Tensor.mT",
}
# Methods that are called on tensors.
METHODS = {
    "any": "`element in tensor`, and the search for NaN in anomaly mode",
    "bfloat16": "Module.bfloat16",
    "clone": "gradients that nobody else may see",
    "copy_": "item assignment, and loading of state",
    "cpu": "Module.cpu, and saved tensors that wait on the CPU",
    "cuda": "Module.cuda",
    "double": "Module.double",
    "flip": "reversed(tensor)",
    "float": "Module.float",
    "half": "Module.half",
    "to": "copies between devices and dtypes",
    "type": "Module.type, and names of types in messages",
    "unbind": "iteration over a tensor",
    "view_as": "outputs of a Function that are its inputs",
    "zero_": "gradients that are set to zero",
}


def op(name: str):
    """Return the record of an op that the core needs; RuntimeError if no plugin brings it."""
    try:
        return registry.op(name)
    except registry.AmbiguousNameError:
        raise
    except AttributeError as error:
        raise missing(name, FUNCTIONS[name], error) from error


def missing(name, purpose, error) -> RuntimeError:
    """Return the error for an op that the core needs and no plugin brings."""
    return RuntimeError(f"plugrad itself needs the op {name!r} for {purpose}, and no plugin brings it: {error}")
