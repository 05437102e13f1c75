"""What is asked of the record of a third party's op."""

from __future__ import annotations

from plugrad import dtype
from plugrad.errors import suggestion
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


def _check_names_of_results(op) -> None:
    """Raise TypeError unless `returns=` has a name for each result."""
    names = op._fields
    if names is None:
        return
    if isinstance(names, str) or not all(isinstance(name, str) and is_name(name) for name in names):
        raise TypeError(f'op {op.name!r} has returns={names!r}: it must be a tuple of names, such as ("low", "high")')
    if len({*names}) < len(names):
        raise TypeError(f"op {op.name!r} has returns={names!r}: each result needs a name of its own")


def check_options(cls, options) -> None:
    """Raise TypeError, with the nearest name, for an option that a family does not have."""
    inits = [base.__init__.__code__ for base in cls.__mro__[:-1]]
    known = {name for code in inits for name in code.co_varnames[2 : code.co_argcount + code.co_kwonlyargcount]}
    for name in options:
        if name not in known:
            family = cls.__name__.lower()
            raise TypeError(f"@{family} has {', '.join(sorted(known))}, no option {name!r}{suggestion(name, known)}")
