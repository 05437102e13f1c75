"""Declarations of ops by strangers: each odd name, default or option works wholly, or is refused with a reason."""

from __future__ import annotations

import enum
import inspect

import numpy
import pytest

import plugrad
from plugrad.extend import binary, composite, elementwise, factory, op, reduction, register, unary, view

FAMILIES = {
    "unary": (unary, "xp, {x}", "{x} * 2"), "binary": (binary, "xp, {x}, other", "{x} + other"),
    "elementwise": (elementwise, "xp, {x}, other", "{x} + other"), "op": (op, "xp, {x}", "{x} * 2"),
    "reduction": (reduction, "xp, {x}, dim=None, keepdim=False", "{x}.sum(axis=dim, keepdims=keepdim)"),
    "view": (view, "xp, {x}", "{x}.T"), "composite": (composite, "F, {x}", "F.sin({x})"),
    "factory": (factory, "xp, {x}", "xp.ones({x})"),
}  # fmt: skip


def declared(family, x="x", more="", **options):
    """Return an op of a family whose first parameter is called so, and that has further ones."""
    decorator, parameters, body = FAMILIES[family]
    space: dict = {}
    exec(f"def strange({parameters.format(x=x)}{more}):\n    return {body.format(x=x)}", space)
    gradient = {} if family in ("composite", "factory") else {"vjp": None}
    more = {"tensors": (x, "other")} if family == "elementwise" else {}
    return decorator(space["strange"], **{**gradient, **more, **options})


NAMES = ["_t", "_k", "_op", "_y", "_modes", "type", "map", "len", "out", "needs", "self", "name", "args", "F", "g", "y",
         "cls", "function", "kernel", "x_", "é", "input", "print", "__class__", "saved", "id"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", ["unary", "binary", "reduction", "op", "composite"])
def test_a_parameter_of_any_name(family, name):
    others = ["x_"] if name == "x_" else []
    x = "x" if others or name == "F" and family == "composite" else name
    try:
        record = declared(family, x, "".join(f", {one}=1" for one in others))
    except TypeError as error:
        assert "parameter" in str(error) and repr(name) in str(error) and "another name" in str(error)
        return
    given = [plugrad.ones(2)] * (2 if family == "binary" else 1)
    for tensors in (given, [t.double() for t in given], [t.long() for t in given], [t.to("meta") for t in given]):
        if not (family == "op" and tensors[0].is_meta):  # which has no shape rule
            assert record(*tensors).dtype is record(**dict(zip(record.parameters, tensors))).dtype
    assert inspect.signature(record.function).parameters


class Mode(enum.IntEnum):
    A = 1


class Text(enum.StrEnum):
    A = "a"


DEFAULTS = [Mode.A, Text.A, numpy.float64(2), numpy.bool_(True), numpy.int64(3), float("inf"), -float("inf"),
            float("nan"), -0.0, 10**40, "a\"b\n", b"a", ..., object(), [1], {"a": 1}, (1, [2]), int, len,
            numpy]  # fmt: skip


@pytest.mark.parametrize("default", DEFAULTS, ids=lambda value: repr(value)[:20])
def test_a_default_of_any_kind_is_that_very_object(default):
    seen = []

    @unary(vjp=None)
    def strange(xp, input, option=default):
        seen.append(option)
        return input + 0

    strange(plugrad.ones(1))
    plain = isinstance(default, (int, float, str, numpy.generic)) and default == default
    assert seen[0] is default or plain and seen[0] == default


WRONG = [3, True, 1.5, b"x", ("a",), [1], {}, {"a": 1}, {"x": 3}, {"x": "nonsense"}, object(), print, "a b", "class"]
OPTIONS = ["name", "at", "aliases", "returns", "kinds", "variadic", "older", "domain", "ref", "node", "like",
           "inplace", "complex", "once", "any_order"]  # fmt: skip


@pytest.mark.parametrize("option", [*OPTIONS, "fits", "same", "tensors", "exact", "meet", "wraps", "alike"])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda value: repr(value)[:12])
def test_options_of_another_kind_are_refused_with_a_reason_or_work(option, wrong):
    family = "op" if option in OPTIONS else "elementwise"
    try:
        record = declared(family, **{option: wrong})
        register(record)
    except TypeError as error:
        assert "strange" in str(error) and "object is not" not in str(error)
        return
    given = [plugrad.ones(2)] * len(record.parameters)
    if option == "meet":
        return  # a function: what it raises is its own
    if option == "returns":  # of several names
        assert wrong == ("a",) and record(*given).a.tolist() == [2, 2]
    else:
        assert record(*given).tolist() == [2, 2]


@pytest.mark.parametrize("part", ["meta", "samples", "errors", "writer", "onnx", "vmap", "kernel", "formula"])
@pytest.mark.parametrize("wrong", [3, (), "text"], ids=repr)
def test_a_part_that_is_no_function(part, wrong):
    record = declared("unary")
    with pytest.raises(TypeError, match="strange"):
        if part == "kernel":
            record.kernel("cpu")(wrong)
        else:
            getattr(record, "vjp" if part == "formula" else part)(wrong)
        register(record)


def test_parts_that_take_something_else():
    with pytest.raises(TypeError, match=r"formula print must take \(F, g"):
        declared("unary").vjp(print)
    record = declared("unary")
    record.kernel("cpu")(lambda xp: 1)
    with pytest.raises(TypeError, match=r"it must take \(xp, x\)"):
        register(record)


@pytest.mark.parametrize("more", [", dtype=None", ", device=None", ", *, out=None", ", *, requires_grad=False"])
def test_functions_that_make_tensors_have_some_arguments_anyway(more):
    with pytest.raises(TypeError, match="'dtype' among its first|gets its own argument"):
        declared("factory", "size", more)
    assert declared("factory", "size", ", *, dtype=None")((2,), dtype=plugrad.float64).dtype is plugrad.float64
