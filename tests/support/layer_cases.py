"""Layers as text, with the shapes of their inputs."""

from __future__ import annotations

import warnings

import numpy

SEQUENCE, IMAGE, VOLUME = (2, 4, 7), (2, 4, 6, 5), (1, 2, 4, 4, 5)

# A constructor, and the shapes of the inputs; an int in place of a shape's tuple is drawn below that number.
LAYERS = [
    ("Identity(1, b=2)", [(3,)]),
    ("Linear(3, 2)", [(4, 3)]),
    ("Linear(3, 2, bias=False)", [(2, 4, 3)]),
    ("Bilinear(2, 3, 4)", [(5, 2), (5, 3)]),
    ("Bilinear(2, 3, 4, bias=False)", [(2, 5, 2), (2, 5, 3)]),
    ("Flatten()", [IMAGE]),
    ("Flatten(0, 1)", [IMAGE]),
    ("Unflatten(1, (2, 2))", [IMAGE]),
    ("Unfold((2, 3), dilation=1, padding=1, stride=2)", [IMAGE]),
    ("Fold((3, 3), 2)", [(2, 8, 4)]),
    ("PixelShuffle(2)", [(1, 8, 2, 3)]),
    ("PixelUnshuffle(2)", [(1, 2, 4, 6)]),
    ("ChannelShuffle(2)", [IMAGE]),
    ("Upsample(scale_factor=2)", [SEQUENCE]),
    ("Upsample((7, 8), mode='bilinear')", [IMAGE]),
    ("Upsample(scale_factor=(2, 3), mode='bilinear', align_corners=True)", [IMAGE]),
    ("Upsample(scale_factor=2, mode='bicubic')", [IMAGE]),
    ("Upsample(3, mode='trilinear')", [VOLUME]),
    ("UpsamplingNearest2d(scale_factor=2)", [IMAGE]),
    ("UpsamplingBilinear2d(size=(4, 9))", [IMAGE]),
    ("CosineSimilarity(dim=0)", [(3, 4), (3, 4)]),
    ("PairwiseDistance(p=1, keepdim=True)", [(3, 4), (3, 4)]),
    # convolutions
    ("Conv1d(4, 6, 3)", [SEQUENCE]),
    ("Conv1d(4, 6, 2, stride=2, padding=1, dilation=2, groups=2, bias=False)", [SEQUENCE]),
    ("Conv1d(4, 2, 3, padding=2, padding_mode='circular')", [SEQUENCE]),
    ("Conv2d(4, 6, 3, padding='same', dilation=2)", [IMAGE]),
    ("Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2))", [IMAGE]),
    ("Conv2d(4, 2, 3, padding=1, padding_mode='reflect')", [IMAGE]),
    ("Conv2d(4, 2, (2, 4), padding='same', padding_mode='replicate')", [IMAGE]),
    ("Conv2d(4, 4, 3, padding='valid', groups=4, padding_mode='circular')", [IMAGE]),
    ("Conv2d(4, 2, 1)", [(4, 6, 5)]),
    ("Conv3d(2, 3, 2, padding=1)", [VOLUME]),
    ("ConvTranspose1d(4, 2, 3, stride=2, output_padding=1)", [SEQUENCE]),
    ("ConvTranspose2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2, dilation=2)", [IMAGE]),
    ("ConvTranspose2d(4, 2, 2, stride=2, bias=False)", [IMAGE]),
    ("ConvTranspose3d(2, 1, 2)", [VOLUME]),
    # pooling
    ("MaxPool1d(2)", [SEQUENCE]),
    ("MaxPool2d((2, 3), stride=1, padding=1, ceil_mode=True)", [IMAGE]),
    ("MaxPool2d(2, return_indices=True, dilation=2)", [IMAGE]),
    ("MaxPool3d(2)", [VOLUME]),
    ("LPPool1d(2, 3, stride=2)", [SEQUENCE]),
    ("LPPool2d(2, 2, ceil_mode=True)", [(1, 2, 5, 5)]),
    ("LPPool3d(2, 2)", [VOLUME]),
    *((f"MaxUnpool{n}d(2, padding=1)", []) for n in (1, 2, 3)),
    ("AvgPool1d(3, padding=1, count_include_pad=False)", [SEQUENCE]),
    ("AvgPool2d(2, ceil_mode=True)", [IMAGE]),
    ("AvgPool2d((2, 3), divisor_override=5)", [IMAGE]),
    ("AvgPool3d(2, 1)", [VOLUME]),
    ("AdaptiveAvgPool1d(3)", [SEQUENCE]),
    ("AdaptiveAvgPool2d((None, 2))", [IMAGE]),
    ("AdaptiveAvgPool3d(2)", [VOLUME]),
    ("AdaptiveMaxPool1d(3)", [SEQUENCE]),
    ("AdaptiveMaxPool2d((3, 2), return_indices=True)", [IMAGE]),
    ("AdaptiveMaxPool3d(2)", [VOLUME]),
    # normalization
    ("BatchNorm1d(4)", [SEQUENCE]),
    ("BatchNorm1d(4, momentum=None, bias=False)", [(5, 4)]),
    ("BatchNorm2d(4, affine=False)", [IMAGE]),
    ("BatchNorm2d(4, track_running_stats=False)", [IMAGE]),
    ("BatchNorm3d(2, eps=1e-3, momentum=0.5)", [VOLUME]),
    ("BatchNorm2d(4).eval()", [IMAGE]),
    ("InstanceNorm1d(4)", [SEQUENCE]),
    ("InstanceNorm2d(4, affine=True, track_running_stats=True)", [IMAGE]),
    ("InstanceNorm2d(4, affine=True, bias=False)", [(4, 6, 5)]),
    ("InstanceNorm3d(2, track_running_stats=True).eval()", [VOLUME]),
    ("LayerNorm(7)", [SEQUENCE]),
    ("LayerNorm((4, 7), eps=1e-3, bias=False)", [SEQUENCE]),
    ("LayerNorm((4, 7), elementwise_affine=False)", [SEQUENCE]),
    ("RMSNorm(7)", [SEQUENCE]),
    ("RMSNorm((4, 7), eps=1e-3, elementwise_affine=False)", [SEQUENCE]),
    ("GroupNorm(2, 4)", [IMAGE]),
    ("GroupNorm(4, 4, affine=False)", [IMAGE]),
    ("GroupNorm(1, 4, bias=False)", [SEQUENCE]),
    ("LocalResponseNorm(2)", [IMAGE]),
    ("CrossMapLRN2d(3, 5e-3, 1e-3, 2)", [IMAGE]),
    ("SyncBatchNorm(4, momentum=None)", [SEQUENCE]),
    ("Sequential(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(4, affine=False).eval()))", [IMAGE]),
    # dropout
    *((f"{name}(0.0)", [SEQUENCE]) for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout", "Dropout1d")),
    ("Dropout(0.25, True).eval()", [IMAGE]),
    ("Dropout2d(1.0)", [IMAGE]),
    ("Dropout3d(0.5).eval()", [VOLUME]),
    # padding
    *(
        (f"{kind}{n}d({sides})", [shape])
        for kind in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad")
        for n, sides, shape in ((1, "(1, 2)", SEQUENCE), (2, 2, IMAGE), (3, "(1, 1, 0, 2, 1, 0)", VOLUME))
    ),
    ("ConstantPad1d(2, 3.5)", [SEQUENCE]),
    ("ConstantPad2d((1, 0, 2, 1), -1)", [IMAGE]),
    ("ConstantPad3d(1, 0.5)", [VOLUME]),
    # activations
    *(
        (f"{name}()", [SEQUENCE])
        for name in (
            "ReLU ReLU6 LeakyReLU ELU CELU SELU GELU SiLU Mish Sigmoid Tanh Hardtanh Hardsigmoid Hardswish Softplus "
            "Softshrink Hardshrink Tanhshrink Softsign LogSigmoid PReLU"
        ).split()
    ),
    *(
        (f"{name}(inplace=True)", [])
        for name in "ReLU ReLU6 LeakyReLU RReLU ELU CELU SELU SiLU Mish Hardtanh Hardsigmoid Hardswish".split()
    ),
    *((f"{name}(dim=1)", [SEQUENCE]) for name in ("Softmax", "LogSoftmax", "Softmin", "GLU")),
    *((f"{name}()", []) for name in ("Softmax", "LogSoftmax", "Softmin", "GLU", "RReLU")),
    ("Softmax2d()", [IMAGE]),
    ("RReLU(0.1, 0.5).eval()", [SEQUENCE]),
    ("LeakyReLU(0.2)", [SEQUENCE]),
    ("GELU('tanh')", [SEQUENCE]),
    ("Threshold(0.1, 20)", [SEQUENCE]),
    ("Threshold(0.1, 20, True)", []),
    ("Hardtanh(-0.5, 2)", [SEQUENCE]),
    ("Softplus(2, threshold=3)", [SEQUENCE]),
    ("Softshrink(0.2)", [SEQUENCE]),
    ("PReLU(4, init=0.1)", [SEQUENCE]),
    # embedding
    ("Embedding(10, 3)", [(10, 2, 4)]),
    ("Embedding(10, 3, padding_idx=-1, scale_grad_by_freq=True)", [(10, 6)]),
    ("Embedding(10, 3, max_norm=1.0, norm_type=1.0)", [(10, 6)]),
    ("EmbeddingBag(10, 3)", [(10, 2, 4)]),
    ("EmbeddingBag(10, 3, 1.0, 1.0, mode='sum', padding_idx=-1)", [(10, 2, 4)]),
    ("EmbeddingBag(10, 3, mode='max', include_last_offset=True)", [(10, 2, 4)]),
    ("AdaptiveLogSoftmaxWithLoss(6, 12, [3, 11], 2.0)", [(5, 6), (10, 5)]),
    ("AdaptiveLogSoftmaxWithLoss(6, 12, [2, 5], head_bias=True)", [(6,), ()]),
    ("FractionalMaxPool2d((2, 3), output_size=2)", []),
    ("FractionalMaxPool3d(2, output_ratio=(0.5, 0.6, 0.5))", []),
    ("DataParallel(nn.Linear(3, 2))", [(4, 3)]),
    ("DataParallel(nn.Bilinear(3, 2, 2), [0])", [(4, 3), (4, 2)]),
    # recurrent
    ("RNN(3, 4)", [(5, 2, 3)]),
    ("RNN(3, 4, 2, nonlinearity='relu', bias=False, bidirectional=True)", [(5, 2, 3), (4, 2, 4)]),
    ("RNN(3, 4)", [(5, 3), (1, 4)]),
    ("LSTM(3, 4)", [(5, 2, 3)]),
    ("LSTM(3, 4, 2, batch_first=True, bidirectional=True)", [(2, 5, 3)]),
    ("LSTM(3, 4, 2, proj_size=2, bidirectional=True)", [(5, 2, 3)]),
    ("LSTM(3, 4, bias=False)", [(5, 3)]),
    ("GRU(3, 4)", [(5, 2, 3)]),
    ("GRU(3, 4, 2, batch_first=True, bidirectional=True, dropout=0.5).eval()", [(2, 5, 3), (4, 2, 4)]),
    ("RNNCell(3, 4)", [(2, 3), (2, 4)]),
    ("RNNCell(3, 4, bias=False, nonlinearity='relu')", [(3,)]),
    ("LSTMCell(3, 4)", [(2, 3)]),
    ("LSTMCell(3, 4, bias=False)", [(3,)]),
    ("GRUCell(3, 4)", [(2, 3), (2, 4)]),
    ("GRUCell(3, 4)", [(3,), (4,)]),
    # attention
    ("MultiheadAttention(8, 2)", [(5, 3, 8), (4, 3, 8), (4, 3, 8)]),
    ("MultiheadAttention(8, 4, bias=False, batch_first=True)", [(3, 5, 8), (3, 4, 8), (3, 4, 8)]),
    (
        "MultiheadAttention(8, 2, kdim=5, vdim=6, add_bias_kv=True, add_zero_attn=True)",
        [(5, 3, 8), (4, 3, 5), (4, 3, 6)],
    ),
    ("MultiheadAttention(8, 2)", [(5, 8), (4, 8), (4, 8)]),
    ("TransformerEncoderLayer(8, 2, 16, dropout=0.0)", [(5, 3, 8)]),
    ("TransformerEncoderLayer(8, 2, 16, 0.0, 'gelu', batch_first=True, norm_first=True, bias=False)", [(3, 5, 8)]),
    ("TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True)", [(5, 3, 8), (4, 3, 8)]),
    (
        "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2, nn.LayerNorm(8))",
        [(3, 5, 8)],
    ),
    ("TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0), 2)", [(5, 3, 8), (4, 3, 8)]),
    ("Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True)", [(3, 5, 8), (3, 4, 8)]),
]


def build(text, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(f"nn.{text}", {"nn": module.nn})


def draw(shape, rng):
    if not shape:
        return rng.integers(0, 10, shape)
    if isinstance(shape[0], int) and shape[0] == 10 and len(shape) < 4:
        return rng.integers(0, 10, shape[1:])
    return rng.normal(size=shape).astype(numpy.float32)
