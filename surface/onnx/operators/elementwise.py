"""Elementwise operators and activations."""

from __future__ import annotations

import plugrad
from plugrad.nn import functional as F
from plugrad.onnx.declaring import OPERATORS, operator
from plugrad.onnx.reading import TYPES


def _plain(table, take):
    for entry in table.split():
        kind, _, name = entry.partition("=")
        OPERATORS[kind] = take(getattr(plugrad, name or kind.lower(), None) or getattr(F, name or kind.lower()))


_plain(
    "Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu Round Sigmoid Sign Sin "
    "Sinh Sqrt Tan Tanh Identity=clone Not=logical_not BitwiseNot=bitwise_not IsNaN=isnan IsInf=isinf Mish=mish "
    "HardSwish=hardswish Softplus=softplus Softsign=softsign",
    lambda function: lambda module, node, x: function(x),
)
_plain(
    "Add Sub Mul Pow And=logical_and Or=logical_or Xor=logical_xor BitwiseAnd=bitwise_and BitwiseOr=bitwise_or "
    "BitwiseXor=bitwise_xor Equal=eq Greater=gt GreaterOrEqual=ge Less=lt LessOrEqual=le MatMul=matmul",
    lambda function: lambda module, node, x, y: function(x, y),
)


@operator("Identity")
def identity(module, node, x):
    return x


@operator("Div")
def div(module, node, x, y):
    return x / y if x.is_floating_point() else plugrad.div(x, y, rounding_mode="trunc")


@operator("Mod")
def mod(module, node, x, y):
    return plugrad.fmod(x, y) if node.attributes.get("fmod") else plugrad.remainder(x, y)


def _folded(function):
    def run(module, node, first, *others):
        for other in others:
            first = function(first, other)
        return first

    return run


OPERATORS.update(Max=_folded(plugrad.maximum), Min=_folded(plugrad.minimum), Sum=_folded(plugrad.add))


@operator("Where")
def where(module, node, condition, x, y):
    return plugrad.where(condition, x, y)


@operator("Clip")
def clip(module, node, x, low=None, high=None):
    low = node.attributes.get("min") if low is None else low
    high = node.attributes.get("max") if high is None else high
    return x if low is None and high is None else plugrad.clamp(x, low, high)


@operator("Cast")
def cast(module, node, x):
    dtype = TYPES.get(node.attributes["to"])
    if dtype is None:
        raise NotImplementedError(f"Cast to ONNX's type {node.attributes['to']}, which plugrad has no dtype for")
    return x.to(dtype)


@operator("Elu")
def elu(module, node, x):
    return F.elu(x, node.attributes.get("alpha", 1.0))


@operator("Selu")
def selu(module, node, x):
    alpha, gamma = (
        node.attributes.get("alpha", 1.67326319217681884765625),
        node.attributes.get("gamma", 1.05070102214813232),
    )
    return gamma * F.elu(x, alpha)


@operator("Celu")
def celu(module, node, x):
    return F.celu(x, node.attributes.get("alpha", 1.0))


@operator("LeakyRelu")
def leaky_relu(module, node, x):
    return F.leaky_relu(x, node.attributes.get("alpha", 0.01))


@operator("PRelu")
def prelu(module, node, x, slope):
    return plugrad.where(x > 0, x, x * slope)


@operator("HardSigmoid")
def hard_sigmoid(module, node, x):
    return plugrad.clamp(node.attributes.get("alpha", 0.2) * x + node.attributes.get("beta", 0.5), 0, 1)


@operator("Gelu")
def gelu(module, node, x):
    return F.gelu(x, approximate=node.attributes.get("approximate", "none"))


@operator("Shrink")
def shrink(module, node, x):
    limit, bias = node.attributes.get("lambd", 0.5), node.attributes.get("bias", 0.0)
    return plugrad.where(x < -limit, x + bias, plugrad.where(x > limit, x - bias, plugrad.zeros_like(x)))


@operator("Softmax")
def softmax(module, node, x):
    return plugrad.softmax(x, node.attributes.get("axis", -1))


@operator("LogSoftmax")
def log_softmax(module, node, x):
    return plugrad.log_softmax(x, node.attributes.get("axis", -1))


@operator("Dropout")
def dropout(module, node, x, ratio=None, training=None):
    return F.dropout(x, 0.5 if ratio is None else float(ratio), module.training), plugrad.ones_like(
        x, dtype=plugrad.bool
    )
