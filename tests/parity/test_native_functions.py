"""Functions of top-level `torch` that layers and third parties' optimizers call: PyTorch's results and errors."""

from __future__ import annotations

import operator

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

RNG = numpy.random.default_rng(5)
X, Y, Z = (RNG.uniform(0.2, 0.9, (2, 3)).astype("float32") for _ in range(3))
WIDE, SQUARE = RNG.normal(size=(6, 3, 4)).astype("float32"), RNG.normal(size=(12, 12)).astype("float64")
UNARY = sorted({name for name in dir(torch) if name.startswith("_foreach_")} - {"_foreach_clone_"})


def plain(value):
    """Return results as nested lists of numbers."""
    if isinstance(value, (torch.Tensor, plugrad.Tensor)):
        return value.detach().tolist()
    return [plain(one) for one in value] if isinstance(value, (tuple, list)) else value


def of_ctc(T):
    """Return what a loss of sequences takes."""
    return T.tensor(WIDE).log_softmax(2), T.tensor([[1, 2], [3, 1], [2, 2]]), T.tensor([6, 5, 6]), T.tensor([2, 2, 1])


def agree(use):
    results = []
    for library in (torch, plugrad):
        try:
            results.append(plain(use(library)))
        except Exception as error:
            results.append(type(error))
    theirs, ours = results
    if isinstance(theirs, type):
        assert isinstance(ours, type) and issubclass(ours, theirs), (ours, theirs)
    else:
        numpy.testing.assert_equal(_rounded(ours), _rounded(theirs))


def _rounded(value):
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def lists(T):
    return [[T.from_numpy(array.copy()), T.from_numpy(array[0].copy())] for array in (X, Y, Z)]


@pytest.mark.parametrize("name", UNARY)
def test_foreach(name):
    base = name.removeprefix("_foreach_").removesuffix("_")

    def calls(T):
        function = getattr(T, name)
        a, b, c = lists(T)
        if base == "mm":
            return function([a[0]], [b[0].t()])
        if base in ("addcmul", "addcdiv"):
            yield from (function(a, b, c), function(a, b, c, 3), function(a, b, c, [2, 3.5]))
            yield function(a, b, c, value=2)
        elif base == "lerp":
            yield from (function(a, b, 0.5), function(a, b, c), function(a, b, [0.1, 2.0]))
        elif base in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max"):
            yield from (function(a, b), function(a, 2.0), function(a, [2.0, 0.5]))
        elif base == "copy":
            yield function(a, b)
        else:
            yield function(a)
        yield a

    agree(lambda T: [*calls(T)])


@pytest.mark.parametrize(
    "use",
    [
        lambda T: T._foreach_add([], 1),
        lambda T: T._foreach_add(T.ones(2), 1),
        lambda T: T._foreach_add([T.ones(2)], [1, 2]),
        lambda T: T._foreach_add([T.ones(2)], [T.ones(2), T.ones(2)]),
        lambda T: T._foreach_add([T.ones(2)], [T.ones(2)], alpha=3),
        lambda T: T._foreach_pow(2.0, [T.ones(2), T.zeros(1)]),
        lambda T: T._foreach_norm([T.ones(2)], 1),
        lambda T: T._foreach_no_such_op,
        lambda T: T._foreach_sqrt([T.ones(2)], 3),
    ],
)
def test_foreach_of_other_arguments(use):
    agree(use)


TAKES_ANOTHER = [name for name in UNARY if name.removeprefix("_foreach_").removesuffix("_") in (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "clamp_min", "clamp_max", "copy", "addcmul", "addcdiv",
    "lerp",
)]  # fmt: skip


@pytest.mark.parametrize("name", TAKES_ANOTHER)
def test_foreach_beside_what_does_not_fit(name):
    """Numbers as tensors with and without dimensions, lists of two kinds, other lengths and dtypes, none at all."""
    others = [
        lambda T: T.tensor(2.0), lambda T: T.full((2,), 2.0), lambda T: [1, T.ones(2)], lambda T: [T.ones(2), 1],
        lambda T: [T.ones(2)], lambda T: [2.0], lambda T: [], lambda T: None, lambda T: "a",
        lambda T: [T.ones(2, dtype=T.float64), T.full((2,), 0.5)],
    ]  # fmt: skip
    for other in others:

        def use(T, other=other):
            tensors = [T.tensor([1.0, 3.0]), T.tensor([1, 3], dtype=T.int32)]
            return getattr(T, name)(tensors, other(T)), tensors

        agree(use)


@pytest.mark.parametrize("name", ["maximum", "minimum", "clamp_max", "clamp_min"])
@pytest.mark.parametrize("other", [lambda T: 0.5, lambda T: [0.5], lambda T: [T.full((3,), 0.5)]])
def test_gradients_of_foreach_at_ties(name, other):
    def use(T):
        x = T.tensor([0.5, 0.25, 1.0], requires_grad=True)
        getattr(T, f"_foreach_{name}")([x], other(T))[0].sum().backward()
        return x.grad

    agree(use)


def cell(T, gates):
    g = numpy.random.default_rng(2)
    return [T.from_numpy(g.normal(size=shape).astype("float32")) for shape in (
        (2, 3), (2, 4), (gates * 4, 3), (gates * 4, 4), (gates * 4,), (gates * 4,)
    )]  # fmt: skip


def layer(T, name, gates, biases=True):
    x, h, *weights = cell(T, gates)
    state = (h[None], h[None]) if name == "lstm" else h[None]
    weights = weights if biases else weights[:2]
    return getattr(T, name)(x[None], state, weights, biases, 1, 0.0, True, False, False)


@pytest.mark.parametrize(
    "use",
    [
        lambda T: T.batch_norm(T.tensor(X), None, None, None, None, True, 0.1, 1e-5, False),
        lambda T: T.instance_norm(T.tensor(WIDE), None, None, None, None, True, 0.1, 1e-5, False),
        lambda T: [T.binary_cross_entropy_with_logits(T.tensor(X), T.tensor(Y), None, None, r) for r in range(3)],
        lambda T: [T.kl_div(T.tensor(X), T.tensor(Y), r) for r in range(3)],
        lambda T: T.poisson_nll_loss(T.tensor(X), T.tensor(Y), True, True, 1e-8, 1),
        lambda T: [T.kl_div(T.tensor(X), T.tensor(Y)), T.binary_cross_entropy_with_logits(T.tensor(X), T.tensor(Y))],
        lambda T: [T.hinge_embedding_loss(T.tensor(X), T.tensor(Y).sign(), 1.0, r) for r in (0, 1, 2, 7)],
        lambda T: T.hinge_embedding_loss(T.tensor(X), T.tensor(Y).sign()),
        lambda T: T.hinge_embedding_loss(T.tensor(X), T.tensor(Y).sign(), reduction="mean"),
        lambda T: [T.margin_ranking_loss(T.tensor(X), T.tensor(Y), T.tensor(Z), 0.5, r) for r in (0, 1, 2)],
        lambda T: [T.cosine_embedding_loss(T.tensor(X), T.tensor(Y), T.ones(2), 0.5, r) for r in (0, 1, 2)],
        lambda T: [T.triplet_margin_loss(*map(T.tensor, (X, Y, Z)), reduction=r, swap=True) for r in (0, 1, 2)],
        lambda T: T.triplet_margin_loss(*map(T.tensor, (X, Y, Z)), reduction=True),
        lambda T: [T.ctc_loss(*of_ctc(T), 0, r) for r in (0, 1, 2)] + [T.ctc_loss(*of_ctc(T))],
        lambda T: T.ctc_loss(*of_ctc(T), 0, "mean"),
        lambda T: [T.nuclear_norm(T.tensor(X)), T.frobenius_norm(T.tensor(X), 1)],
        lambda T: T.frobenius_norm(T.tensor(X), [0, 1]),
        lambda T: T.conv_tbc(T.tensor(WIDE), T.tensor(WIDE[:3, :1].repeat(4, 1)), T.tensor(WIDE[0, 0]), 1),
        lambda T: T.conv_tbc(T.tensor(X), T.tensor(WIDE), T.tensor(WIDE[0, 0])),
        lambda T: T.rnn_tanh_cell(*cell(T, 1)),
        lambda T: T.rnn_relu_cell(*cell(T, 1)[:4]),
        lambda T: T.gru_cell(*cell(T, 3)),
        lambda T: (lambda x, h, *w: T.lstm_cell(x, (h, h), *w))(*cell(T, 4)),
        lambda T: layer(T, "gru", 3),
        lambda T: layer(T, "lstm", 4),
        lambda T: layer(T, "rnn_tanh", 1),
        lambda T: layer(T, "rnn_relu", 1, biases=False),
        lambda T: [
            T.segment_reduce(T.tensor(WIDE), r, lengths=T.tensor([2, 0, 4])) for r in ("sum", "mean", "max", "amin")
        ],
        lambda T: T.segment_reduce(T.tensor(X), "amax", offsets=T.tensor([0, 2]), initial=0.5),
        lambda T: T.segment_reduce(T.tensor(X), "other", lengths=T.tensor([2])),
        lambda T: T.segment_reduce(T.tensor(X), "sum"),
        lambda T: T.slice_copy(T.tensor(WIDE), 0, 1, 6, 2),
        lambda T: T.embedding_renorm_(T.tensor(WIDE[:, 0]), T.tensor([0, 2, 2]), 0.5, 2.0),
        lambda T: [abs(s) for s in T.svd_lowrank(T.tensor(SQUARE[:, :2] @ SQUARE[:2]), 3)[1][:2]],
        lambda T: T.pca_lowrank(T.tensor(SQUARE[:, :2] @ SQUARE[:2]), 2)[1],
        lambda T: T.pca_lowrank(T.tensor(SQUARE), 13),
        lambda T: T.lobpcg(T.tensor(SQUARE @ SQUARE.T), 2, tol=1e-12, niter=500)[0],
        lambda T: T.lobpcg(T.tensor(SQUARE), 5),
        lambda T: T.dropout_(T.tensor(X), 0.0, True),
        lambda T: T.get_device_module("cpu").__name__.endswith("cpu"),
        lambda T: (T.has_lapack, T.is_distributed(T.ones(1)), T.is_vulkan_available()),
        lambda T: (T.set_deterministic_debug_mode("error"), T.get_deterministic_debug_mode(),
                   T.set_deterministic_debug_mode(0), T.get_deterministic_debug_mode()),
        lambda T: T.set_deterministic_debug_mode("none"),
        lambda T: T.set_num_interop_threads(0),
        lambda T: (T.set_anomaly_enabled(True), T.is_anomaly_enabled(), T.set_anomaly_enabled(False)),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_functions(use):
    agree(use)


def test_tensors_over_a_file(tmp_path):
    path = str(tmp_path / "numbers")
    tensor = plugrad.from_file(path, shared=True, size=3, dtype=plugrad.int32)
    tensor.copy_(plugrad.tensor([1, 2, 3]))
    assert torch.from_file(path, size=3, dtype=torch.int32).tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["native_layer_norm", "native_group_norm", "native_batch_norm"])
@pytest.mark.parametrize("mixed", [False, True])
def test_statistics_of_half_precision_have_the_dtype_of_the_parameters(name, mixed):
    def dtypes(T):
        x = T.ones(2, 4, 3).to(T.bfloat16)
        weight = T.ones(3 if name == "native_layer_norm" else 4).to(T.float32 if mixed else T.bfloat16)
        arguments = {
            "native_layer_norm": ((3,), weight, weight, 1e-5),
            "native_group_norm": (weight, weight, 2, 4, 3, 2, 1e-5),
            "native_batch_norm": (weight, weight, None, None, True, 0.1, 1e-5),
        }[name]
        return [str(part.dtype) for part in getattr(T, name)(x, *arguments)]

    agree(dtypes)


def test_a_truncated_quotient_is_that_of_the_rounded_one_in_half_precision():
    a, b = (RNG.normal(size=400).astype("float32") * 9 for _ in range(2))
    for dtype in ("bfloat16", "float16"):
        agree(lambda T, of=dtype: T.div(
            *(T.from_numpy(array.copy()).to(getattr(T, of)) for array in (a, b)), rounding_mode="trunc"
        ))  # fmt: skip


@pytest.mark.parametrize("function", [
    lambda T, aten, x: aten.slice.Tensor(x, -1, 1, -1, 2),
    lambda T, aten, x: aten.slice.Tensor(x, 0, 0, 1, 0),
    lambda T, aten, x: aten.slice.Tensor(x[0, 0]),
    lambda T, aten, x: aten._log_softmax_backward_data(x, T.log_softmax(x, 1), 1, T.float32),
    lambda T, aten, x: aten.native_dropout_backward(x, x > 0.5, 2.0),
    lambda T, aten, x: T._chunk_cat([x, x[:, :2]], 1, 2),
    lambda T, aten, x: T._chunk_cat([], 1, 2),
    lambda T, aten, x: T._chunk_cat([x], 1, 0),
    lambda T, aten, x: T.segment_reduce(x, "sum", lengths=T.tensor([1, 3])),
    lambda T, aten, x: T.segment_reduce(x, "sum", lengths=T.tensor([3, -1])),
    lambda T, aten, x: T.segment_reduce(x, "sum", lengths=T.tensor([[2, 1], [0, 3]]), axis=1),
    lambda T, aten, x: x.__rdiv__(2),
])  # fmt: skip
def test_functions_below_the_public_ones(function):
    agree(lambda T: function(T, T.ops.aten, T.from_numpy(X.copy())))


@pytest.mark.parametrize("initial", [None, 0.0, 5.0])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_gradients_of_segments_beside_nan_and_of_empty_ones(reduce, initial):
    def gradients(T, data, lengths, axis):
        x = T.tensor(data, requires_grad=True)
        y = T.segment_reduce(x, reduce, lengths=T.tensor(lengths), axis=axis, initial=initial)
        y.sum().backward()
        return y, x.grad

    nan = float("nan")
    agree(lambda T: [
        *gradients(T, [1, nan, 3, 4, 5, 5], [1, 2, 3, 0], -1), *gradients(T, [1.0, 0, 3, 4, 0, 0], [1, 2, 3, 0], 0),
        *gradients(T, [[1, nan, 2], [2, 3, 3]], [[2, 1], [0, 3]], -1), *gradients(T, [[1, nan], [2, 3]], [2, 0], 0),
        *gradients(T, [], [0, 0], 0),
    ])  # fmt: skip


class Other:
    """Answers Python's operators for a tensor on the left."""

    def __radd__(self, left):
        return "asked"

    __rmul__ = __rsub__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rand__ = __ror__ = __rxor__ = __radd__


@pytest.mark.parametrize("name", "add sub mul truediv floordiv mod pow and or xor".split())
def test_an_operator_that_writes_in_place_lets_the_other_side_answer(name):
    def use(T):
        x = T.ones(3) if name not in ("and", "or", "xor") else T.ones(3, dtype=T.int64)
        return [getattr(x, f"__i{name}__")(Other()) is NotImplemented, getattr(operator, f"i{name}")(x, Other())]

    agree(use)
    agree(lambda T: getattr(operator, f"i{name}")(T.ones(3), object()))


@pytest.mark.parametrize("dtypes", [("complex64", "complex64"), ("float32", "complex64"), ("float32", "float64")])
def test_heaviside_says_what_it_does_not_take(dtypes):
    def message(T):
        try:
            T.heaviside(*(T.ones(2, dtype=getattr(T, one)) for one in dtypes))
        except RuntimeError as error:
            return str(error)

    assert message(plugrad) == message(torch)


@pytest.mark.parametrize("dtype", "float32 bfloat16 float64 int64 int8 uint8 bool complex64".split())
@pytest.mark.parametrize("arguments", [{}, {"dim": 1}, {"dim": (0, 2), "keepdim": True}, {"mode": 1}, {"dim": 5}])
def test_hash_tensor(dtype, arguments):
    values = RNG.normal(size=(3, 4, 5)) * 9
    agree(lambda T: T.hash_tensor(T.from_numpy(values.copy()).to(getattr(T, dtype)), **arguments))
    agree(lambda T: T.hash_tensor(T.empty(0, 2), **arguments))
