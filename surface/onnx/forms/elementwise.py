"""Elementwise ops in ONNX."""

from __future__ import annotations

import math

import plugrad
from plugrad.onnx.declaring import form

_SAME = (
    "abs=Abs acos=Acos acosh=Acosh asin=Asin asinh=Asinh atan=Atan atanh=Atanh ceil=Ceil cos=Cos cosh=Cosh erf=Erf "
    "exp=Exp floor=Floor log=Log neg=Neg reciprocal=Reciprocal relu=Relu sigmoid=Sigmoid sign=Sign sgn=Sign sin=Sin "
    "sinh=Sinh sqrt=Sqrt tan=Tan tanh=Tanh mish=Mish hardswish=HardSwish"
)
_UNCHANGED = "abs ceil floor neg relu sign sgn"  # which integers go through as they are


def _same(name, kind):
    @form(name)
    def unary_form(g, input):
        if input.dtype is not g.results[0].dtype:
            return g.op(kind, g.cast(input, g.results[0].dtype))
        if name in ("ceil", "floor") and not input.dtype.is_floating_point:
            return g.op("Identity", input)
        return g.op(kind, input)


for _entry in _SAME.split():
    _same(*_entry.split("="))


def _arithmetic(name, kind):
    @form(name)
    def binary_form(g, input, other, *, alpha=1):
        dtype = g.results[0].dtype
        other = g.cast(other, dtype)
        if alpha != 1:
            other = g.op("Mul", other, alpha)
        return g.op(kind, g.cast(input, dtype), other)


for _name, _kind in (("add", "Add"), ("sub", "Sub"), ("mul", "Mul"), ("div", "Div"), ("pow", "Pow"),
                     ("maximum", "Max"), ("minimum", "Min"), ("clamp_min", "Max"), ("clamp_max", "Min")):  # fmt: skip
    _arithmetic(_name, _kind)


def common(g, input, other):
    """Return two operands in their common dtype, in which they are compared."""
    parts = [getattr(one, "tensor", one) for one in (input, other)]
    dtype = plugrad.result_type(*parts)
    return g.cast(input, dtype), g.cast(other, dtype)


def _comparison(name, kind):
    @form(name)
    def comparison_form(g, input, other):
        input, other = common(g, input, other)
        if input.dtype is plugrad.bool and kind != "Equal":
            input, other = g.cast(input, plugrad.int32), g.cast(other, plugrad.int32)
        return g.op(kind, input, other, dtype=plugrad.bool)


for _name, _kind in (("eq", "Equal"), ("gt", "Greater"), ("ge", "GreaterOrEqual"), ("lt", "Less"),
                     ("le", "LessOrEqual")):  # fmt: skip
    _comparison(_name, _kind)


@form("ne")
def ne_form(g, input, other):
    return g.op("Not", g.op("Equal", *common(g, input, other), dtype=plugrad.bool))


@form("rsub")
def rsub_form(g, input, other, *, alpha=1):
    dtype = g.results[0].dtype
    input = g.cast(input, dtype)
    return g.op("Sub", g.cast(other, dtype), input if alpha == 1 else g.op("Mul", input, alpha))


@form("fmod")
def fmod_form(g, input, other):
    dtype = g.results[0].dtype
    return g.op("Mod", g.cast(input, dtype), g.cast(other, dtype), fmod=1)


@form("remainder")
def remainder_form(g, input, other):
    dtype = g.results[0].dtype
    input, other = g.cast(input, dtype), g.cast(other, dtype)
    if not dtype.is_floating_point:
        return g.op("Mod", input, other)
    return g.op("Sub", input, g.op("Mul", g.op("Floor", g.op("Div", input, other)), other))


@form("floor_divide", "div_floor")
def floor_divide_form(g, input, other):
    dtype = g.results[0].dtype
    input, other = g.cast(input, dtype), g.cast(other, dtype)
    if dtype.is_floating_point:
        return g.op("Floor", g.op("Div", input, other))
    return g.op("Div", g.op("Sub", input, g.op("Mod", input, other)), other)


@form("div_trunc")
def div_trunc_form(g, input, other):
    dtype = g.results[0].dtype
    quotient = g.op("Div", g.cast(input, dtype), g.cast(other, dtype))
    return _truncated(g, quotient) if dtype.is_floating_point else quotient


def _logical(names, kind):
    @form(*names)
    def logical_form(g, input, other):
        if g.results[0].dtype is not plugrad.bool:
            dtype = g.results[0].dtype
            return g.op(f"Bitwise{kind}", g.cast(input, dtype), g.cast(other, dtype))
        return g.op(kind, g.cast(input, plugrad.bool), g.cast(other, plugrad.bool))


for _name, _kind in (("and", "And"), ("or", "Or"), ("xor", "Xor")):
    _logical((f"bitwise_{_name}", f"logical_{_name}"), _kind)


@form("logical_not")
def logical_not_form(g, input):
    return g.op("Not", g.cast(input, plugrad.bool))


@form("bitwise_not", "invert")
def bitwise_not_form(g, input):
    return g.op("Not" if input.dtype is plugrad.bool else "BitwiseNot", input)


@form("isnan")
def isnan_form(g, input):
    if not input.dtype.is_floating_point:
        return g.op("Not", g.op("Equal", input, input, dtype=plugrad.bool))
    return g.op("IsNaN", input, dtype=plugrad.bool)


@form("isinf")
def isinf_form(g, input):
    if not input.dtype.is_floating_point:
        return g.op("Not", g.op("Equal", input, input, dtype=plugrad.bool))
    return g.op("IsInf", input, dtype=plugrad.bool)


@form("isfinite")
def isfinite_form(g, input):
    return g.op("Not", g.op("Or", isnan_form(g, input), isinf_form(g, input)))


@form("where")
def where_form(g, condition, input, other):
    dtype = g.results[0].dtype
    return g.op("Where", g.cast(condition, plugrad.bool), g.cast(input, dtype), g.cast(other, dtype), dtype=dtype)


@form("masked_fill")
def masked_fill_form(g, input, mask, value):
    return g.op("Where", mask, g.cast(value, input.dtype), input, dtype=input.dtype)


@form("clamp")
def clamp_form(g, input, min=None, max=None):
    dtype = g.results[0].dtype
    result = g.cast(input, dtype)
    if min is not None:
        result = g.op("Max", result, g.cast(min, dtype))
    return result if max is None else g.op("Min", result, g.cast(max, dtype))


@form("addcmul")
def addcmul_form(g, input, tensor1, tensor2, *, value=1):
    return g.op("Add", input, g.op("Mul", g.op("Mul", tensor1, tensor2), value))


@form("addcdiv")
def addcdiv_form(g, input, tensor1, tensor2, *, value=1):
    return g.op("Add", input, g.op("Mul", g.op("Div", tensor1, tensor2), value))


@form("lerp")
def lerp_form(g, input, end, weight):
    return g.op("Add", input, g.op("Mul", g.op("Sub", end, input), weight))


@form("round")
def round_form(g, input, *, decimals=0):
    if not input.dtype.is_floating_point:
        return g.op("Identity", input)
    if not decimals:
        return g.op("Round", input)
    return g.op("Div", g.op("Round", g.op("Mul", input, 10.0**decimals)), 10.0**decimals)


def _truncated(g, input):
    return g.op("Mul", g.op("Sign", input), g.op("Floor", g.op("Abs", input)))


@form("trunc")
def trunc_form(g, input):
    return _truncated(g, input) if input.dtype.is_floating_point else g.op("Identity", input)


@form("frac")
def frac_form(g, input):
    return g.op("Sub", input, _truncated(g, input))


def _by(name, write):
    @form(name)
    def derived_form(g, input):
        return write(g, g.cast(input, g.results[0].dtype))


_by("rsqrt", lambda g, x: g.op("Reciprocal", g.op("Sqrt", x)))
_by("exp2", lambda g, x: g.op("Pow", g.constant(2, x.dtype), x))
_by("expm1", lambda g, x: g.op("Sub", g.op("Exp", x), 1))
_by("log1p", lambda g, x: g.op("Log", g.op("Add", x, 1)))
_by("log2", lambda g, x: g.op("Mul", g.op("Log", x), 1 / math.log(2)))
_by("log10", lambda g, x: g.op("Mul", g.op("Log", x), 1 / math.log(10)))
_by("erfc", lambda g, x: g.op("Sub", g.constant(1, x.dtype), g.op("Erf", x)))
_by("logsigmoid", lambda g, x: g.op("Neg", g.op("Softplus", g.op("Neg", x))))
_by("silu", lambda g, x: g.op("Mul", x, g.op("Sigmoid", x)))
_by("hardsigmoid", lambda g, x: g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5))
_by("deg2rad", lambda g, x: g.op("Mul", x, math.pi / 180))
_by("rad2deg", lambda g, x: g.op("Mul", x, 180 / math.pi))


@form("gelu")
def gelu_form(g, input, *, approximate="none"):
    if g.opset >= 20:
        return g.op("Gelu", input, approximate=approximate)
    half = g.op("Mul", input, 0.5)
    if approximate == "none":
        return g.op("Mul", half, g.op("Add", g.op("Erf", g.op("Mul", input, math.sqrt(0.5))), 1))
    cube = g.op("Mul", g.op("Mul", input, input), g.op("Mul", input, 0.044715))
    inner = g.op("Mul", g.op("Add", input, cube), math.sqrt(2 / math.pi))
    return g.op("Mul", half, g.op("Add", g.op("Tanh", inner), 1))


@form("elu")
def elu_form(g, input, alpha=1.0, scale=1.0, input_scale=1.0):
    if scale != 1 and input_scale == 1:
        return g.op("Selu", input, alpha=float(alpha), gamma=float(scale))
    if input_scale != 1:  # scale * (x where it is positive, else alpha * (exp(x * input_scale) - 1))
        low = g.op("Mul", g.op("Sub", g.op("Exp", g.op("Mul", input, input_scale)), 1), alpha)
        return g.op("Mul", g.op("Where", g.op("Greater", input, 0, dtype=plugrad.bool), input, low), scale)
    return g.op("Elu", input, alpha=float(alpha))


@form("leaky_relu")
def leaky_relu_form(g, input, negative_slope=0.01):
    return g.op("LeakyRelu", input, alpha=float(negative_slope))


@form("softplus")
def softplus_form(g, input, beta=1, threshold=20):
    scaled = input if beta == 1 else g.op("Mul", input, beta)
    result = g.op("Softplus", scaled)
    result = result if beta == 1 else g.op("Div", result, beta)
    return g.op("Where", g.op("Greater", scaled, threshold, dtype=plugrad.bool), input, result, dtype=input.dtype)


@form("hardtanh")
def hardtanh_form(g, input, min_val=-1.0, max_val=1.0):
    return g.op("Clip", input, min_val, max_val)


@form("softshrink")
def softshrink_form(g, input, lambd=0.5):
    return g.op("Shrink", input, lambd=float(lambd), bias=float(lambd))


@form("hardshrink")
def hardshrink_form(g, input, lambd=0.5):
    return g.op("Shrink", input, lambd=float(lambd), bias=0.0)


@form("threshold")
def threshold_form(g, input, threshold, value):
    over = g.op("Greater", input, threshold, dtype=plugrad.bool)
    return g.op("Where", over, input, g.cast(value, input.dtype), dtype=input.dtype)


@form("glu")
def glu_form(g, input, dim=-1):
    half = g.fixed(input.shape[dim], "the size of the axis that is halved") // 2
    value, gate = g.op("Split", input, [half, half], axis=dim, outputs=2)
    return g.op("Mul", value, g.op("Sigmoid", gate))


@form("prelu_elements")
def prelu_form(g, input, weight):
    return g.op("PRelu", input, weight)


@form("to_copy")
def to_copy_form(g, input, dtype):
    return g.cast(input, g.results[0].dtype)


@form("clone", "arranged", "positive")
def same_form(g, input, *_, **__):
    return g.op("Identity", input)
