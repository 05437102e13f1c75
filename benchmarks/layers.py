"""Layers and losses, alone and with backward: plugrad's time over PyTorch's, in alternation.

    python benchmarks/layers.py [--threads 1] [--rounds 9] [--only Norm] [--json FILE]

Each line of LAYERS is a module and its inputs, of sizes as models have them; what is measured, and how, is as in
`kernels.py`. At the end: the geometric mean, and how many cells are slower than PyTorch by more than 5 % and by half.
"""

from __future__ import annotations

from functools import partial

from kernels import parser_of, prepared, print_table

# r: normal numbers; p: in (0, 1); s: 1 or -1; i(n, ...): integers below n; lengths(n, count). Of them r has gradients.
LAYERS = """
BatchNorm1d(100): r(256, 100) | BatchNorm1d(16): r(64, 16, 50) | BatchNorm2d(16): r(16, 16, 16, 16)
BatchNorm2d(64): r(64, 64, 3, 3) | BatchNorm3d(4): r(8, 4, 8, 8, 8) | InstanceNorm2d(16): r(16, 16, 16, 16)
GroupNorm(4, 16): r(16, 16, 16, 16) | GroupNorm(4, 100): r(256, 100) | LayerNorm(128): r(32, 64, 128)
RMSNorm(128): r(32, 64, 128) | LocalResponseNorm(2): r(16, 16, 16, 16) | Linear(128, 64): r(128, 128)
Bilinear(16, 16, 8): r(64, 16), r(64, 16) | Conv1d(8, 16, 3): r(16, 8, 100)
Conv2d(8, 16, 3, padding=1): r(16, 8, 16, 16)
Conv2d(8, 16, 3, stride=2): r(16, 8, 16, 16) | Conv2d(8, 16, 1): r(16, 8, 16, 16)
Conv2d(16, 16, 3, groups=16): r(16, 16, 16, 16) | Conv2d(16, 16, 5, dilation=2): r(8, 16, 20, 20)
Conv3d(4, 8, 3): r(4, 4, 8, 8, 8) | ConvTranspose1d(8, 8, 3): r(16, 8, 50)
ConvTranspose2d(8, 8, 2, stride=2): r(16, 8, 10, 10) | ConvTranspose3d(4, 4, 2): r(4, 4, 6, 6, 6)
MaxPool1d(2): r(16, 8, 100) | MaxPool2d(2): r(16, 16, 16, 16) | MaxPool3d(2): r(4, 4, 8, 8, 8)
AvgPool1d(2): r(16, 8, 100) | AvgPool2d(2): r(16, 16, 16, 16) | AdaptiveAvgPool2d(1): r(16, 16, 16, 16)
AdaptiveMaxPool2d(4): r(16, 16, 16, 16) | LPPool2d(2, 2): r(16, 16, 16, 16)
ReLU(): r(100, 1000) | LeakyReLU(): r(100, 1000) | PReLU(): r(100, 1000) | ELU(): r(100, 1000) | SELU(): r(100, 1000)
CELU(): r(100, 1000) | GELU(): r(100, 1000) | SiLU(): r(100, 1000) | Mish(): r(100, 1000) | Softplus(): r(100, 1000)
Softsign(): r(100, 1000) | Tanhshrink(): r(100, 1000) | Hardshrink(): r(100, 1000) | Softshrink(): r(100, 1000)
Hardswish(): r(100, 1000) | Hardsigmoid(): r(100, 1000) | Hardtanh(): r(100, 1000) | LogSigmoid(): r(100, 1000)
Threshold(0, 1): r(100, 1000) | GLU(): r(100, 1000) | Softmax(-1): r(100, 1000) | Softmax2d(): r(16, 16, 16, 16)
LogSoftmax(-1): r(100, 1000) | RReLU(): r(100, 1000) | Dropout(): r(100, 1000) | Dropout2d(): r(16, 16, 16, 16)
AlphaDropout(): r(100, 1000) | Embedding(1000, 64): i(1000, 32, 16) | EmbeddingBag(1000, 64): i(1000, 32, 16)
LSTM(32, 64): r(20, 16, 32) | GRU(32, 64): r(20, 16, 32) | RNN(32, 64): r(20, 16, 32)
LSTM(32, 64, bidirectional=True): r(20, 16, 32) | LSTMCell(32, 64): r(16, 32) | GRUCell(32, 64): r(16, 32)
MultiheadAttention(64, 4, batch_first=True): r(8, 20, 64), r(8, 20, 64), r(8, 20, 64)
TransformerEncoderLayer(64, 4, 128, batch_first=True): r(8, 20, 64)
TransformerDecoderLayer(64, 4, 128, batch_first=True): r(8, 20, 64), r(8, 20, 64)
L1Loss(): r(64, 100), p(64, 100) | MSELoss(): r(64, 100), p(64, 100) | CrossEntropyLoss(): r(64, 100), i(100, 64)
CrossEntropyLoss(label_smoothing=0.1): r(64, 100), i(100, 64) | NLLLoss(): r(64, 100), i(100, 64)
BCELoss(): p(64, 100).requires_grad_(), p(64, 100) | BCEWithLogitsLoss(): r(64, 100), p(64, 100)
KLDivLoss(reduction="batchmean"): r(64, 100), p(64, 100) | SmoothL1Loss(): r(64, 100), p(64, 100)
HuberLoss(): r(64, 100), p(64, 100) | HingeEmbeddingLoss(): r(64, 100), s(64, 100)
MarginRankingLoss(): r(64), r(64), s(64) | CosineEmbeddingLoss(): r(64, 100), r(64, 100), s(64)
TripletMarginLoss(): r(64, 100), r(64, 100), r(64, 100) | SoftMarginLoss(): r(64, 100), s(64, 100)
MultiLabelSoftMarginLoss(): r(64, 100), p(64, 100) | MultiMarginLoss(): r(64, 100), i(100, 64)
PoissonNLLLoss(): r(64, 100), p(64, 100) | GaussianNLLLoss(): r(64, 100), p(64, 100), p(64, 100)
CTCLoss(): r(50, 16, 20).log_softmax(-1).detach().requires_grad_(), 1 + i(19, 16, 10), lengths(50, 16), lengths(10, 16)
Upsample(scale_factor=2): r(8, 8, 16, 16) | Upsample(scale_factor=2, mode="bilinear"): r(8, 8, 16, 16)
PixelShuffle(2): r(8, 16, 16, 16) | PixelUnshuffle(2): r(8, 16, 16, 16) | ChannelShuffle(4): r(16, 16, 16, 16)
ZeroPad2d(1): r(16, 16, 16, 16) | ReflectionPad2d(1): r(16, 16, 16, 16) | ReplicationPad2d(1): r(16, 16, 16, 16)
Unfold(3): r(8, 8, 16, 16) | Fold(16, 3): r(8, 72, 196) | Flatten(): r(16, 16, 16, 16)
CosineSimilarity(): r(64, 100), r(64, 100) | PairwiseDistance(): r(64, 100), r(64, 100)
"""


def step_of(T, module, inputs, backward):
    """Return the step of a module, of what makes it and what makes its inputs as text."""
    T.manual_seed(0)
    names = {
        "r": lambda *shape: T.randn(*shape, requires_grad=backward),
        "p": lambda *shape: T.rand(*shape) * 0.8 + 0.1,
        "s": lambda *shape: T.randint(0, 2, shape) * 2.0 - 1,
        "i": lambda n, *shape: T.randint(0, n, shape),
        "lengths": lambda n, count: T.full((count,), n, dtype=T.int64),
    }
    model, inputs = eval(f"nn.{module}", {"nn": T.nn}), eval(f"({inputs},)", names)

    def result():
        y = model(*inputs)
        return y[0] if isinstance(y, tuple) else y

    if not backward:
        model.requires_grad_(False)
        return lambda: model(*inputs)
    leaves, g = [x for x in (*inputs, *model.parameters()) if x.requires_grad], T.ones_like(result().detach())

    def both():
        for leaf in leaves:
            leaf.grad = None
        result().backward(g)

    return both


def cells() -> dict:
    """Return {name: function of the library that returns the step}."""
    chosen = {}
    for part in [part.strip() for line in LAYERS.strip().splitlines() for part in line.split(" | ")]:
        module, _, inputs = part.partition(": ")
        for backward in (False, True):
            label = f"{module}, {inputs}{' with backward' if backward else ''}"
            chosen[label] = partial(step_of, module=module, inputs=inputs, backward=backward)
    return chosen


def main():
    """Print the table."""
    options = parser_of(__doc__).parse_args()
    plugrad, torch, timing = prepared(options.threads, options.device)
    print_table(cells(), options, (plugrad, torch), timing)


if __name__ == "__main__":
    main()
