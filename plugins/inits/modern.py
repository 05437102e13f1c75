"""The policy "modern": initial values as networks are begun today."""

from __future__ import annotations

import math

from plugrad import nn
from plugrad.extend import hookimpl

# Normal deviates beyond two deviations are drawn again, which leaves this part of the deviation.
_LEFT = 0.87962566103423978


def modern(module, place):
    """Initialise a layer as is usual today; return whether the policy knows it.

    He et al., arXiv:1502.01852, before rectifiers; GPT-2's factor at the ends of residual branches; orthogonal
    recurrent matrices, arXiv:1312.6120, and a forget gate that begins open, R. Jozefowicz et al., 2015.
    """
    for kinds, initialise in _RULES:
        if isinstance(module, _classes(kinds)):
            initialise(module, place)
            return True
    return False


def _classes(names) -> tuple:
    return tuple(getattr(nn, name) for name in names.split())


def _draw(weight, deviation) -> None:
    if weight.numel():
        deviation /= _LEFT
        nn.init.trunc_normal_(weight, 0.0, deviation, -2 * deviation, 2 * deviation)


def _zero(*biases) -> None:
    for bias in biases:
        if bias is not None:
            nn.init.zeros_(bias)


# ---------------------------------------------------------------- linear maps

_RECTIFIERS = "ReLU ReLU6 LeakyReLU PReLU RReLU ELU CELU GELU SiLU Mish Softplus Hardswish"
_PASSING = (
    "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm GroupNorm RMSNorm "
    "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout Identity Flatten Unflatten MaxPool1d MaxPool2d MaxPool3d "
    "AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d"
)


def _gain(module, place) -> float:
    """Return by how much weights are to be larger for what follows them."""
    block = place.enclosing(_classes("TransformerEncoderLayer TransformerDecoderLayer"))
    if block is not None:
        return _residual(block, place) if module is block.linear2 else math.sqrt(2)
    if getattr(module, "ends_residual", False):
        return _residual(place.parents[-1], place)
    following = place.following(_classes(_PASSING))
    if following is False:  # nobody can tell: mostly a rectifier
        return math.sqrt(2)
    if isinstance(following, _classes("LeakyReLU")):
        return nn.init.calculate_gain("leaky_relu", following.negative_slope)
    if isinstance(following, _classes("Tanh")):
        return nn.init.calculate_gain("tanh")
    if isinstance(following, _classes("SELU")):
        return 1.0  # self-normalizing networks take LeCun's
    return math.sqrt(2) if isinstance(following, _classes(_RECTIFIERS)) else 1.0


def _residual(block, place) -> float:
    """Return 1 / sqrt(2 * blocks) for a model with as many blocks of one class, each with two residual branches."""
    blocks = sum(type(one) is type(block) for one in place.root.modules())
    return 1 / math.sqrt(2 * max(blocks, 1))


def _linear(module, place) -> None:
    if place.parents and isinstance(place.parents[-1], nn.MultiheadAttention):
        _attention_end(module, place)
        return
    weight = module.weight
    inputs = weight.shape[1] * math.prod(weight.shape[2:])
    if getattr(module, "transposed", False):
        inputs = weight.shape[0] // module.groups * math.prod(weight.shape[2:]) / math.prod(module.stride)
    _draw(weight, _gain(module, place) / math.sqrt(max(inputs, 1)))
    _zero(module.bias)


def _bilinear(module, place) -> None:
    _draw(module.weight, 1 / math.sqrt(max(math.prod(module.weight.shape[1:]), 1)))
    _zero(module.bias)


# ---------------------------------------------------------------- embeddings and attention


def _embedding(module, place) -> None:
    _draw(module.weight, 0.02)
    if module.padding_idx is not None:
        module.weight[module.padding_idx].fill_(0)


def _attention(module, place) -> None:
    for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
        weight = getattr(module, name)
        if weight is not None:
            _draw(weight, 1 / math.sqrt(weight.shape[1]))
    for bias in (module.bias_k, module.bias_v):
        if bias is not None:
            _draw(bias, 0.02)
    _zero(module.in_proj_bias)


def _attention_end(module, place) -> None:
    layer = place.enclosing(_classes("TransformerEncoderLayer TransformerDecoderLayer"))
    _draw(module.weight, _residual(layer or place.parents[-1], place) / math.sqrt(module.weight.shape[1]))
    _zero(module.bias)


# ---------------------------------------------------------------- recurrent layers


def _recurrent(module, place) -> None:
    for name, value in module._parameters.items():
        if value is None:
            continue
        if value.dim() < 2:
            nn.init.zeros_(value)
            if name.startswith("bias_ih") and isinstance(module, _classes("LSTM LSTMCell")):
                size = value.shape[0] // 4
                value[size : 2 * size].fill_(1)  # gates are input, forget, cell, output
        elif name.startswith("weight_hh") and value.shape[0] % value.shape[1] == 0:
            for gate in value.chunk(value.shape[0] // value.shape[1]):
                nn.init.orthogonal_(gate)
        else:
            _draw(value, 1 / math.sqrt(value.shape[1]))


_RULES = (
    ("MultiheadAttention", _attention),
    ("Embedding EmbeddingBag", _embedding),
    ("RNNBase RNNCellBase", _recurrent),
    ("Bilinear", _bilinear),
    ("Linear Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d", _linear),
)


@hookimpl
def plugrad_init_policies():
    return [modern]
