"""What is asked of the record of a third party's op."""

from __future__ import annotations

from plugrad import dtype
from plugrad.extend import kernel_for
from plugrad.graph import rare
from plugrad.registry.kinds import PLACES, is_name, no_place

_PROMOTIONS = (None, "same", "float", "int", "int64", "bool", "index")
_WITHOUT_GRADIENT = ("bool", "int", "index")  # what results that have none are promoted to
_AUTOCAST = (None, "lower", "float32", "set_dtype", "promote")


def check_op(op) -> None:
    """Raise TypeError if a third party's record is not complete."""
    for dotted in op.names:
        if not all(map(is_name, dotted.split("."))):
            raise TypeError(f"op {op.name!r} can't be public as {dotted!r}: that is not a dotted Python name")
        if dotted.rpartition(".")[0] not in PLACES:
            raise TypeError(f"op {op.name!r} can't be public as {dotted!r}: {no_place(dotted)}")
    if op.promote not in _PROMOTIONS:
        known = ", ".join(repr(one) for one in _PROMOTIONS if one)
        raise TypeError(f"op {op.name!r} has promote={op.promote!r}, it must be one of {known}")
    if op.arity and len(op.parameters) < op.arity:
        raise TypeError(
            f"op {op.name!r} is declared as one of {op.arity} operands and takes {len(op.parameters)}: its kernel must "
            f"be `def {op.name}(xp, input, other, ...)`"
        )
    _check_names_of_results(op)
    _check_functions(op)
    if op.runs_on == "tensors" and (op.formulas or op.jvps or len(op.kernels) > 1):
        what = "a kernel" if len(op.kernels) > 1 else "a formula"
        raise TypeError(
            f"op {op.name!r} has {what} and is declared by @composite: it runs as the ops that it calls, which have "
            "theirs; declare it by @op, or take that away"
        )
    for policy in op.autocast.values() if isinstance(op.autocast, dict) else (op.autocast,):
        if policy not in _AUTOCAST and not callable(policy) and not isinstance(policy, dtype):
            known = ", ".join(repr(one) for one in _AUTOCAST if one)
            raise TypeError(f"op {op.name!r} has autocast={policy!r}: it must be one of {known}, or a dtype")
    if op.runs_on != "arrays" or op.promote in _WITHOUT_GRADIENT:
        return
    if op.jvps and not op.formulas:
        rare.transposed(op)
    if not op.formulas and not op.undifferentiable:
        raise TypeError(f"op {op.name!r} has no gradient: declare it with @{op.name}.vjp, or say vjp=None")
    missing = set(op.tensors) - set(op.inputs) if op.arity == 2 and op.formulas else ()
    if missing:
        (name,) = missing
        raise TypeError(
            f"op {op.name!r} has no gradient for {name!r}: declare it with @{op.name}.vjp({name!r}); if there "
            "is none the formula returns None"
        )


_PARTS = {
    "meta": "meta_function", "samples": "sample_function", "errors": "error_function", "writer": "write_function",
    "onnx": "onnx_form", "vmap": "batched",
}  # fmt: skip


def _check_functions(op) -> None:
    """Raise TypeError for what is no function, and for a kernel that takes other arguments than the op's."""
    parts = [(f"@{op.name}.{name}", getattr(op, attribute)) for name, attribute in _PARTS.items()]
    parts += [(f"@{op.name}.kernel({backend!r})", kernel) for backend, kernel in op.kernels.items()]
    for declared, function in parts:
        if function is not None and not callable(function):
            raise TypeError(f"op {op.name!r}: {declared} is given {function!r:.60}, which is no function")
    for backend, kernel in op.kernels.items():
        if not isinstance(backend, str):
            raise TypeError(f"op {op.name!r} has a kernel for {backend!r:.60}: it is for the type of a device, as text")
        if backend != "*":
            kernel_for(op.name, backend)(kernel).check_fits(op)


def _check_names_of_results(op) -> None:
    """Raise TypeError unless `returns=` has a name for each result."""
    names = op._fields
    if names is None:
        return
    if isinstance(names, str) or not all(isinstance(name, str) and is_name(name) for name in names):
        raise TypeError(f'op {op.name!r} has returns={names!r}: it must be a tuple of names, such as ("low", "high")')
    if len({*names}) < len(names):
        raise TypeError(f"op {op.name!r} has returns={names!r}: each result needs a name of its own")

