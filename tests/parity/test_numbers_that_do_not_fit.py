"""Numbers that a dtype can't hold, Python's types as dtypes, `out=` of composites: as in PyTorch."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

TENSORS = """
T.tensor(300, dtype=T.uint8) | T.tensor([300, 1], dtype=T.uint8) | T.tensor(-255, dtype=T.uint8)
T.tensor(-256, dtype=T.uint8) | T.tensor(2**40, dtype=T.int32) | T.tensor(-(2**31) - 1, dtype=T.int32)
T.tensor(1e30, dtype=T.int32) | T.tensor(float('nan'), dtype=T.int64) | T.tensor(float('inf'), dtype=T.int8)
T.tensor(255.9, dtype=T.uint8) | T.tensor(-1.5, dtype=T.uint8) | T.tensor(256.0, dtype=T.uint8)
T.tensor(254.9, dtype=T.uint8) | T.tensor(3, dtype=T.bool) | T.tensor(0.3, dtype=T.bool)
T.tensor([2**63 + 3, 5], dtype=T.uint64) | T.tensor([2**63 + 3, 5]) | T.tensor([2**63 + 3, True])
T.tensor([2**63 + 3, 5.0]) | T.tensor([2**63 + 3, 5], dtype=T.int32) | T.tensor([2**63 + 3, 5], dtype=T.float32)
T.tensor(2**63, dtype=T.float64) | T.tensor(2**64, dtype=T.uint64) | T.tensor(2**63, dtype=T.bool)
T.tensor(2**63, dtype=T.complex64) | T.tensor(1 << 64, dtype=T.float32) | T.ones(2).new_tensor(1 << 64)
T.tensor(np.array([300]), dtype=T.uint8) | T.tensor(np.int64(300), dtype=T.uint8) | T.as_tensor([300], dtype=T.uint8)
T.tensor([np.float64(300.0)], dtype=T.uint8) | T.tensor([T.tensor(300)], dtype=T.uint8) | T.ByteTensor([300])
T.tensor(T.tensor(300), dtype=T.uint8) | T.asarray([300], dtype=T.uint8) | T.scalar_tensor(300, dtype=T.uint8)
T.scalar_tensor(1j) | T.scalar_tensor(1j, dtype=T.int64) | T.scalar_tensor(float('inf'), dtype=T.int64)
T.scalar_tensor(float('nan'), dtype=T.uint8) | T.scalar_tensor(-1, dtype=T.uint8) | T.scalar_tensor(1e39)
T.scalar_tensor(70000.0, dtype=T.float16) | T.full((2,), -70000.0, dtype=T.float16)
T.full((), 1e39) | T.scalar_tensor(1e39, dtype=T.complex64) | T.linspace(0, -1, 3, dtype=T.uint8)
T.linspace(0, float('inf'), 3, dtype=T.int32) | T.linspace(float('nan'), 1, 3, dtype=T.uint8)
T.arange(0, 1.7, dtype=T.int32) | T.arange(0, 1.7, dtype=T.int64) | T.arange(-1.5, 4, 1.5, dtype=T.int16)
T.arange(0.5, -2.2, -1.5, dtype=T.int8) | T.arange(3, 0.9, -1, dtype=T.uint8)
T.tensor(Decimal('1.5'), dtype=T.float64) | T.tensor([[Decimal('1.5'), 2]], dtype=T.float32) | T.tensor(Decimal(1))
T.as_tensor([Fraction(1, 4)], dtype=T.bfloat16) | T.asarray([Fraction(1, 4)], dtype=T.complex64)
T.ones(1).new_tensor([Decimal('1e400')]) | T.ones(1, dtype=T.float64).new_tensor(Decimal('NaN'))
T.Tensor([Decimal('1.5')]) | T.FloatTensor([Fraction(3, 2)]) | T.LongTensor([Fraction(3, 2)])
T.tensor([Fraction(1, 4)]) | T.tensor(Says(), dtype=T.int8)
T.tensor([Says(), 1], dtype=T.float32) | T.tensor([Says()], dtype=T.bool) | T.tensor(Says(), dtype=T.complex64)
T.LongTensor([T.tensor(1.5)]) | T.tensor([[T.tensor([1.0]), 3]], dtype=T.uint8) | T.ones(1).int().new_tensor([x])
T.tensor([T.tensor(0.5)], dtype=T.bool) | T.tensor([i]) | T.tensor([T.tensor(True), T.tensor(3)]) | T.LongTensor([x, 3])
T.tensor([T.tensor(True)]) | T.tensor([T.tensor(2, dtype=T.int8)], dtype=T.float32) | T.tensor([i > 0, 1])
T.tensor(Decimal(2), dtype=T.int64) | T.tensor(Fraction(2), dtype=T.bool) | T.tensor([np.str_('1')], dtype=T.float32)
T.tensor(Complex(), dtype=T.complex64) | T.tensor(Complex(), dtype=T.float32) | T.tensor(Says())
"""


class Says:
    """A number that only says which integer it is."""

    def __index__(self):
        return 3


class Complex:
    """A number that only says which complex one it is."""

    def __complex__(self):
        return 1 + 2j


OPERANDS = """
b < 128 | b == 257 | b > -(2**33) + 5 | b.byte() > -1 | b.byte() >= 1 << 62 | b.long() > 2**63 | b + 300 | b * 257
(b > 0) + 2**63 | (b > 0) > 2**63 | (b > 0) * 2**64 | 2**63 // (b > 0) | b.byte() + 2**63 | x + 2**63 | (b > 0) ^ 2**62
T.xlogy(2**63, x) | T.special.xlog1py(x, 3) | T.xlogy(x, 2**63)
b.clamp(min=300) | b.clamp_(max=-300) | b.clamp_min(300) | b.clamp_max(300) | b.byte().clamp(min=-1)
T.where(b > 0, b, 300) | T.where(b > 0, 300, b) | T.where(b > 0, b, 127) | b.add(1, alpha=300) | b.sub(1, alpha=300)
T.addcmul(b, b, b, value=300) | F.pad(b, (1, 1), value=300) | F.hardtanh(b, -300, 300) | b.index_add(0, i, b, alpha=300)
T.linspace(0, 300, 3, dtype=T.uint8) | T.linspace(-3, 3.5, 3, dtype=T.int8)
T.addcmul(x, x, x, value=1j) | T.addcmul(x, x, x, value=T.tensor(1j)) | F.softshrink(x, 1j) | F.hardshrink(x, 1j)
T.addcmul(x, x, x.to(T.complex64), value=1j) | F.leaky_relu(x, 1j) | F.elu(x, T.tensor(1j)) | F.softplus(x, 1j)
x.fill_(1 + 0j) | T.add(x, x.to(T.complex64), alpha=1j) | F.leaky_relu(x - 1, float('inf')) | F.leaky_relu(x, -np.inf)
int(T.tensor(1 + 0j)) | int(T.tensor(1 + 2j)) | float(T.tensor(2 + 0j)) | float(T.tensor(1j))
T.max(x, T.tensor(0), keepdim=True) | T.quantile(x, np.float32(0.5))
T.searchsorted(T.tensor([1, 3, 5]), T.tensor([2.5, 3.0])) | T.bucketize(T.tensor([2, 3]), T.tensor([1.0, 3, 5]))
T.cdist(T.ones(2, 2), T.ones(2, 2).double()) | T.scatter(x, 0, i, x, value=1.0)
x.to(T.complex64).cauchy_() | x.to(T.complex64).log_normal_() | x.to(T.complex64).geometric_(0.5)
x.to(T.complex64).bernoulli_()
T.fft.fftfreq(0) | T.fft.rfftfreq(0) | T.unravel_index(T.tensor([4, 1]).byte(), (3, 2))
F.multilabel_soft_margin_loss(T.ones(3, 4), T.ones(3, 1, 4)) | F.soft_margin_loss(x, T.ones(3, 2))
F.soft_margin_loss(T.ones(3, 2), x) | F.kl_div(x, x, reduction='batchmean', size_average=True) | F.kl_div(i, x)
F.kl_div(T.ones(2, 3), T.ones(2, 3) * 2, reduction='batchmean')
F.binary_cross_entropy_with_logits(x.double(), x) | F.binary_cross_entropy_with_logits(x, x.half())
F.binary_cross_entropy_with_logits(x, x, pos_weight=x.bool()) | F.embedding_bag(i[None], T.ones(2, 2).bool())
F.instance_norm(T.ones(2, 3, 4), running_var=T.ones(3))
"""
HALF = """
T.masked_fill(h, h > 0, 1e9) | h.masked_fill_(h > 0, -1e5) | h.masked_fill(h > 0, T.tensor(1e9))
h.masked_fill(h > 0, 65504) | T.masked_fill(x, x > 0, T.tensor(1e39, dtype=T.float64))
T.masked_fill(b, b > 0, T.tensor(300)) | h.masked_fill(h > 0, np.inf) | T.masked_fill(h.bfloat16(), h > 0, -3.4e38)
h.clamp(max=1e9) | h.clamp_(min=-70000) | h.clamp_min(1e9) | h.clamp_max(1e9) | h.clamp(max=T.tensor(1e9))
F.hardtanh(h, -1e9, 1e9) | F.hardshrink(h, 1e9) | F.threshold(h, 1e9, 0) | F.threshold(h, 0, 1e9)
F.threshold(x, 0, 1e39) | F.threshold(b, 1, 300) | F.threshold(b, np.nan, 3) | F.threshold(b, 1, np.inf)
F.threshold(b, 1.5, 3.5) | T.add(h, h, alpha=1e9) | h.sub(h, alpha=65519.0) | T.add(x, x, alpha=1e39) | T.pow(h, 1e9)
2e9 ** h | h + 1e9 | h * 1e9 | T.eye(3).half().fill_diagonal_(1e9) | T.eye(3).fill_diagonal_(1e39)
T.eye(3).to(T.int8).fill_diagonal_(300) | T.where(h > 0, h, 1e9) | h == 1e9 | h.fill_(T.tensor(1e9)) | h > 70000
"""
OTHERS = """
F.binary_cross_entropy(x / 2, x + 1) | F.binary_cross_entropy(x / 2, x - 2)
F.binary_cross_entropy(x / 2, x * np.nan) | F.binary_cross_entropy(x / 2, x.double())
F.binary_cross_entropy(x / 2, x.half()) | F.binary_cross_entropy(x.long(), x) | F.binary_cross_entropy(h / 2, h + 1)
F.binary_cross_entropy(x / 2, x.long()) | F.binary_cross_entropy(x * 2, x) | T.nn.BCELoss()(x / 2, x)
F.binary_cross_entropy(x[:0], x[:0]) | T.lerp(x, x, x.double()) | T.lerp(x.double(), x.double(), x) | T.lerp(x, x, i)
x.lerp_(x, x.double()) | T.lerp(h, h, x) | T.lerp(x, x, T.tensor(0.5).double()) | T.lerp(x, x, T.tensor(1))
T.lerp(x, x, 1j) | T.lerp(x, x, x * 1j) | T.lerp(x * 1j, x, x) | T.lerp(x[0], x[0], x.double())
T.lerp(x, x.double(), 0.5) | T._foreach_lerp([x], [x], [x.double()]) | T.isin(b.byte(), 257) | T.isin(b, -255)
T.isin(257, b.byte()) | T.isin(b.byte(), T.tensor([257])) | T.isin(i, 1 << 64) | T.isin(i > 0, 2) | T.isin(i, True)
T.isin(x, 1j) | T.isin(x, T.tensor([1j])) | T.isin(x + 0.1, 1.1) | T.isin(h + 0.1, 1.1)
T.isin(T.tensor([np.inf]), 1e39) | T.isin(h / 0, 1e9) | T.isin(T.tensor([16777217]), T.tensor([16777216.0]))
T.isin(i, x[:0]) | T.isin(b.byte(), 257, invert=True) | T.isin(T.tensor([np.nan]), T.tensor([np.nan]))
T.isin(1.5, i) | T.isin(1, 2) | T.searchsorted(s, v) | T.searchsorted(s, v, right=True) | T.searchsorted(s.flip(0), v)
T.searchsorted(s.flip(0), v, right=True) | T.bucketize(v, s) | T.bucketize(v, s, right=True) | T.bucketize(np.nan, s)
T.bucketize(2, s) | T.searchsorted(s.expand(2, 4), v.expand(2, 4)) | (i > 0) ** True | (i > 0) ** False | (i > 0) ** 2
(i > 0).pow_(True) | T.pow(i > 0, T.tensor(True)) | True ** i
T.nn.utils.get_total_norm([x.to('meta')], foreach=True) | T.nn.utils.get_total_norm([x], foreach=True)
"""
TYPES = """
T.softmax(x, 0, dtype=float) | T.softmax(x, 0, dtype=int) | F.log_softmax(x, 0, dtype=float) | x.to(int) | x.to(float)
F.softmin(x, 0, dtype=float) | T.linalg.matrix_norm(T.ones(2, 2), dtype=float) | x.view(int) | x.long().view(float)
T.nn.Linear(2, 2).to(float).weight.dtype | T.promote_types(int, float) | T.finfo(float).eps | T.iinfo(int).max
x.type(int) | x.type(x) | T.nn.Linear(2, 2).type(x) | x.to([nested]) | T.Size(nested) | T.Size([nested])
T.finfo(int) | T.iinfo(float) | T.device('cpu', 0.0) | T.device('cpu', np.int64(0)) | x.is_contiguous([0])
T.utils.data.default_collate(x) | T.atleast_2d(np.ones(2)) | T.atleast_1d(x, 3)
T.autograd.graph.save_on_cpu(False, 3)
"""
HANDED = """
T.dsplit(np.ones((2, 2, 2)), 2) | T.hsplit(np.ones((2, 2)), 2) | T.tensor_split(np.ones(2), 2) | T.diff(np.ones(3))
x.__rdiv__((1, 2)) | x.__rdiv__(8) | x.__rdiv__(x) | x.stride(False) | T.from_dlpack(x.to('meta'))
F.multilabel_margin_loss(x, T.tensor([0, -2])) | F.multilabel_margin_loss(x, T.tensor([0, 2]))
F.multilabel_margin_loss(x, T.tensor([0, -1])) | F.dropout3d(x, 0.0) | F.dropout3d(T.tensor(1.0), 0.0)
T.affine_grid_generator(T.ones(1, 2, 3), (0, 0), True)
T.utils.checkpoint.checkpoint(lambda a: a, x, use_reentrant=i)
T.take_along_dim(T.arange(6.0).reshape(3, 2), T.tensor([[-1], [1], [0]]), 1)
"""
OUT = """
T.linalg.cond(T.eye(2) * 3, 2, out=o) | T.linalg.cond(T.eye(2), 1, out=0) | T.linalg.matrix_power(T.eye(2), 2, out=o)
T.linalg.matrix_power(T.eye(2), 2, out=o.long()) | T.linalg.multi_dot([T.eye(2), T.eye(2)], out=o)
T.chain_matmul(T.eye(2), T.eye(2), out=o) | T.linalg.solve(T.eye(2), x, out=o) | T.linalg.vecdot(x, x, out=o)
T.fft.fft(x, out=o.to(T.complex64)) | T.fft.fft(x, out=o) | T.norm(x, out=T.zeros(3))
T.linalg.solve(T.eye(2), x, out=3)
T.tensordot(T.eye(2), T.eye(2), 1, out=o.requires_grad_())
"""


TABLES = TENSORS, OPERANDS, HALF, OTHERS, TYPES, HANDED, OUT


def split(text):
    return [one.strip() for one in text.replace("\n", "|").split("|") if one.strip()]


def outcome(text, library):
    """Return what an expression gives, and what it wrote into `o`, as plain data; or the error."""
    x, out, nested = library.ones(2), library.zeros(4), [1.0]
    for _ in range(5000):
        nested = [nested]
    names = {"T": library, "F": library.nn.functional, "np": numpy, "x": x, "b": x.to(library.int8), "o": out}
    s, v = ([1.0, 3.0, numpy.nan, numpy.nan], [2.0, numpy.nan, 0.0, 4.0])
    names |= {"h": x.half(), "s": library.tensor(s), "v": library.tensor(v)}
    names |= {one.__name__: one for one in (Decimal, Fraction, Says, Complex)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(text, names | {"i": library.tensor([0, 1]), "nested": nested})
        except Exception as error:
            return error
    parts = result if isinstance(result, tuple) else (result,)
    return [plain(part) for part in (*parts, out)]


def plain(value):
    if not hasattr(value, "tolist"):
        return str(value)
    return str(value.dtype), tuple(value.shape), numpy.asarray(value.detach().tolist())


@pytest.mark.parametrize("text", [one for table in TABLES for one in split(table)])
def test_values_and_refusals_are_those_of_pytorch(text):
    theirs, ours = outcome(text, torch), outcome(text, plugrad)
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"{ours!r}, not {theirs!r}"
        assert len(str(ours)) > 10
        return
    assert not isinstance(ours, Exception), repr(ours)
    for one, other in zip(theirs, ours, strict=True):
        if isinstance(one, str):
            assert one == other
            continue
        assert one[:2] == other[:2]
        numpy.testing.assert_allclose(other[2], one[2], rtol=1e-6)


@pytest.mark.parametrize("text", ["b == 300", "b.clamp(max=300)", "T.tensor(300, dtype=T.int8)"])
def test_what_fits_another_dtype_is_taken_there(text):
    wide = text.replace("b", "b.long()").replace("int8", "int16")
    assert not isinstance(outcome(wide, plugrad), Exception)
