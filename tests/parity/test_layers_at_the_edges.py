"""Pooling, embeddings, padding and losses beside PyTorch where inputs are empty, wrong, or in another memory format."""

import itertools
import types
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

BOTH = [plugrad, torch]


def outcome(call, library):
    """What a call gives: its result as lists, or the type of its error."""
    try:
        result = call(library)
    except Exception as error:
        return type(error).__name__
    return result.tolist() if hasattr(result, "tolist") else result


def assert_same(call):
    ours, theirs = (outcome(call, library) for library in BOTH)
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs
    else:
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-6)


def backward(function, *shape):
    def call(library):
        x = library.ones(*shape, requires_grad=True)
        function(library, x).sum().backward()
        return x.grad.tolist()

    return call


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_pooling_of_nothing(kind, n):
    def pool(library, x, size=2):
        return getattr(library.nn.functional, f"adaptive_{kind}_pool{n}d")(x, size)

    space = (4,) * n
    for shape in ((0, *space), (0, 3, *space), (1, 0, *space), (1, 2, 0, *space[1:])):
        assert_same(lambda library, s=shape: tuple(pool(library, library.ones(*s)).shape))
    assert_same(backward(lambda library, x: pool(library, x, 0), 1, 2, *space))
    assert_same(lambda library: pool(library, library.ones(1, 2, *space, dtype=library.int32)))


def test_changed_indices_of_pooling_are_noticed():
    for name in ("max_pool1d", "adaptive_max_pool1d"):

        def changed(library, x, name=name):
            values, indices = getattr(library.nn.functional, name)(x, 2, return_indices=True)
            indices.add_(1)
            return values

        assert_same(backward(changed, 1, 2, 8))


def in_format(library, *shape):
    last = library.channels_last if len(shape) == 4 else library.channels_last_3d
    values = library.arange(float(torch.Size(shape).numel())).reshape(shape)
    return values.contiguous(memory_format=last)


@pytest.mark.parametrize(
    "function",
    [
        lambda F, x: F.adaptive_avg_pool2d(x, 3), lambda F, x: F.adaptive_avg_pool2d(x, 1),
        lambda F, x: F.adaptive_max_pool2d(x, 3), lambda F, x: F.adaptive_max_pool2d(x, 1),
        lambda F, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        lambda F, x: F.pad(x, (1, 2), value=0.5), lambda F, x: F.dropout(x),
        lambda F, x: F.interpolate(x[0][None].float(), size=(3, 3), mode="bicubic"),
        lambda F, x: F.interpolate(x[0][None], size=(3, 3)),
    ],
)  # fmt: skip
def test_results_are_in_the_order_of_the_input(function):
    assert_same(lambda library: function(library.nn.functional, in_format(library, 2, 3, 4, 4)).stride())


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_by_nothing_is_a_copy(mode):
    x = plugrad.ones(1, 2, 3, 3)
    plugrad.nn.functional.pad(x, (0, 0, 0, 0), mode=mode).fill_(4)
    assert x.max() == 1


@pytest.mark.parametrize(
    "arguments",
    [
        {"input": [0, 9]}, {"input": [0, -1]}, {"input": [0, 1], "padding_idx": 9},
        {"input": [0, 1], "dtype": "int32"}, {"input": [0, 1], "dtype": "float32"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_indices_of_bags(arguments, mode):
    def call(library):
        input = library.tensor(arguments["input"], dtype=getattr(library, arguments.get("dtype", "int64")))
        table, offsets = library.arange(12.0).reshape(4, 3), library.tensor([0])
        padding = arguments.get("padding_idx")
        return library.nn.functional.embedding_bag(input, table, offsets, mode=mode, padding_idx=padding)

    assert_same(call)


def test_the_row_of_padding_has_no_gradient_even_where_it_is_nan():
    def call(library):
        table = library.ones(3, 2, requires_grad=True)
        rows = library.nn.functional.embedding(library.tensor([1, 2, 1]), table, padding_idx=1)
        (rows * library.tensor([[float("nan")], [2.0], [1.0]])).sum().backward()
        return table.grad.tolist()

    assert str(outcome(call, plugrad)) == str(outcome(call, torch))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.nn.functional.pdist(t.full((2, 2), float("inf")), 0.0),
        lambda t: t.cdist(t.full((2, 2), float("inf")), t.zeros(2, 2), 0.0),
        lambda t: t.nn.functional.softshrink(t.ones(2), -1.0),
        lambda t: t.nn.functional.cosine_similarity(t.ones(2), t.ones(2), 0, -1.0),
        lambda t: t.nn.functional.gaussian_nll_loss(t.ones(2), t.zeros(2), 0.5),
        lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 2, 7, 7), 2, (0, 1)).shape,
        lambda t: t.nn.functional.fractional_max_pool2d(t.ones(1, 2, 7, 7), 2, (2, 8)),
        lambda t: t.nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.5, 0.6))(t.ones(1, 2, 7, 7)),
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.zeros(0, 1, 3), [0]),
        lambda t: t.nn.EmbeddingBag(4, 3, padding_idx=9),
        lambda t: t.nn.Fold((4, 5), (2, 2), dilation=8)(t.ones(1, 12, 12)),
        lambda t: t.channel_shuffle(t.ones(1, 2), 2),
        lambda t: t.nn.functional.softshrink(t.ones(2), 1e39),
        lambda t: t.nn.functional.softshrink(t.ones(2), float("nan")),
        lambda t: t.nn.functional.softshrink(t.ones(2), 3e38),
        lambda t: t.nn.functional.softshrink(t.ones(2, dtype=t.float16), 65500.0),
        lambda t: t.pixel_shuffle(t.ones(1, 16, 1, 1), 545460846592),
        lambda t: t.nn.functional.multilabel_margin_loss(t.ones(0), t.ones(3, dtype=t.long)),
        lambda t: t.rnn_tanh_cell(t.ones(2, 3), t.ones(2, 4), t.ones(5, 3), t.ones(4, 4)),
        lambda t: t.gru_cell(t.ones(2, 3), t.ones(2, 4), t.ones(12, 3), t.ones(13, 4)),
        lambda t: t.lstm_cell(t.ones(2, 3), (t.ones(3, 4), t.ones(3, 4)), t.ones(16, 3), t.ones(16, 4)),
        lambda t: t.rnn_relu_cell(t.ones(2, 2), t.ones(2, 4), t.ones(4, 3), t.ones(4, 4)),
    ],
)
def test_values_and_errors_at_the_edges(call):
    assert_same(call)


def test_ctc_without_time():
    def call(library, dtype="int64"):
        scores = library.arange(30.0).reshape(5, 2, 3).log_softmax(-1).requires_grad_()
        steps = library.tensor([0, 0], dtype=getattr(library, dtype))
        labels, lengths = library.tensor([[1, 2], [1, 2]]), library.tensor([0, 1])
        return library.nn.functional.ctc_loss(scores, labels, steps, lengths, reduction="none")

    assert_same(call)
    assert_same(lambda library: call(library, "float32"))


def test_dropout2d_says_how_it_takes_three_dimensions():
    with pytest.warns(UserWarning, match="channel-wise 1D dropout behavior is desired"):
        plugrad.nn.functional.dropout2d(plugrad.ones(2, 3, 4))


FORMATS = ("channels_last", "channels_last_3d", "contiguous_format", "preserve_format")
RESIZED = {
    "longer": lambda T, like: T.arange(6.0).resize_(like.shape, memory_format=like.format),
    "images": lambda T, like: T.arange(24.0).reshape(1, 2, 3, 4).resize_(like.shape, memory_format=like.format),
    "channels last": lambda T, like: T.arange(24.0)
    .reshape(1, 2, 3, 4)
    .contiguous(memory_format=T.channels_last)
    .resize_(like.shape, memory_format=like.format),
    "as rows": lambda T, like: T.arange(24.0).resize_as_(T.ones(like.shape), memory_format=like.format),
    "as images": lambda T, like: T.arange(24.0).resize_as_(
        T.ones(1, 2, 3, 4).contiguous(memory_format=T.channels_last), memory_format=like.format
    ),
}


@pytest.mark.parametrize("name", RESIZED)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("shape", [(1, 2, 3, 4), (1, 2, 3, 2), (3, 4), (1, 1, 2, 2, 2)])
def test_what_is_resized_lies_in_the_memory_format(name, memory_format, shape):
    def call(library):
        like = types.SimpleNamespace(shape=shape, format=getattr(library, memory_format))
        try:
            result = RESIZED[name](library, like)
        except RuntimeError as error:
            return "RuntimeError", str(error)[:24]
        kept = min(result.numel(), 6)  # what is behind the old memory is not filled in PyTorch
        return result.stride(), tuple(result.shape), result.as_strided((kept,), (1,)).tolist()

    ours, theirs = map(call, BOTH)
    assert ours == theirs


NORMS = {
    "batch, evaluation": lambda F, x, p: F.batch_norm(x, p, p),
    "batch, statistics": lambda F, x, p: F.batch_norm(x, p, p, training=True),
    "batch, weight": lambda F, x, p: F.batch_norm(x, None, None, p, p, training=True),
    "instance, statistics": lambda F, x, p: F.instance_norm(x, p, p),
    "instance, weight": lambda F, x, p: F.instance_norm(x, None, None, p, p),
    "layer": lambda F, x, p: F.layer_norm(x, (4,), p),
    "group": lambda F, x, p: F.group_norm(x, 2, p, p),
    "RMS": lambda F, x, p: F.rms_norm(x, (4,), p),
}


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
@pytest.mark.parametrize("norm", NORMS)
def test_dtypes_of_what_normalisations_are_given(norm):
    for input, part in itertools.product(("float16", "bfloat16", "float32", "float64"), repeat=2):

        def dtype_of(library, input=input, part=part):
            x = library.linspace(-1, 1, 32, dtype=library.float64).reshape(2, 4, 4).to(getattr(library, input))
            try:
                return str(NORMS[norm](library.nn.functional, x, library.ones(4, dtype=getattr(library, part))).dtype)
            except RuntimeError as error:
                return str(error)[:11]

        ours, theirs = map(dtype_of, BOTH)
        assert ours == theirs, f"{norm} of {input} with {part}"


def test_divergences_and_devices_refuse_what_they_do_not_take():
    for wrong in (
        lambda T: T.nn.functional.kl_div(T.ones(2) * 1j, T.ones(2), reduction="sum"),
        lambda T: T.nn.functional.kl_div(T.ones(2), T.ones(2) * 1j, reduction="sum", log_target=True),
        lambda T: T.nn.functional.kl_div(T.ones(2, dtype=T.int64), T.ones(2), reduction="sum"),
        lambda T: T.device("cpu", T.tensor(1.5)),
        lambda T: T.device("cpu", 1.5),
        lambda T: T.device("cpu", "1"),
    ):
        ours, theirs = (outcome(wrong, library) for library in BOTH)
        assert ours == theirs and ours in ("RuntimeError", "TypeError")
    assert plugrad.device("cuda", numpy.int64(1)).index == torch.device("cuda", numpy.int64(1)).index == 1


PADDING = {
    "at the end": [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]],
    "everywhere": [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]],
    "at the front": [[1, 1, 0, 0, 0], [0, 0, 0, 0, 0]],
    "between": [[0, 1, 0, 0, 0], [0, 0, 0, 1, 1]],
}
ENCODERS = {
    "usual": ({}, {}), "norm first": ({"norm_first": True}, {}), "length first": ({"batch_first": False}, {}),
    "gelu": ({"activation": "gelu"}, {}), "another activation": ({"activation": "tanh"}, {}),
    "one head": ({"nhead": 1}, {}), "no bias": ({"bias": False}, {}),
    "not asked": ({}, {"enable_nested_tensor": False}),
    "no check": ({}, {"mask_check": False}), "a norm": ({}, {"norm": True}),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_padded_places_of_an_encoder_in_evaluation(encoder, padding):
    """They are zeros where PyTorch computes without them, and numbers elsewhere."""
    of_layer, of_encoder = ENCODERS[encoder]
    if encoder == "no check" and padding not in ("at the end", "everywhere"):
        pytest.skip("PyTorch refuses it, or reads what is not there")
    found = []
    for library in (plugrad, torch):
        options = {"nhead": 2, "batch_first": True, **of_layer}
        if options.get("activation") == "tanh":
            options["activation"] = library.tanh
        layer = library.nn.TransformerEncoderLayer(8, dim_feedforward=12, dropout=0.0, **options)
        norm = library.nn.LayerNorm(8) if of_encoder.get("norm") else None
        model = library.nn.TransformerEncoder(layer, 2, **{**of_encoder, "norm": norm}).eval()
        with library.no_grad():
            for number, parameter in enumerate(model.parameters()):
                values = library.arange(1.0 * parameter.numel()).reshape(parameter.shape)
                parameter.copy_(library.sin(values + number) / 2)
        batch = options["batch_first"]
        x = library.cos(library.arange(80.0)).reshape((2, 5, 8) if batch else (5, 2, 8))
        mask = library.tensor(PADDING[padding]).bool()
        with library.no_grad():
            results = [model(x, src_key_padding_mask=mask)]
            results.append(model(x, src_key_padding_mask=mask.float() * -1e30))
            results.append(model(x, mask=library.zeros(5, 5).bool(), src_key_padding_mask=mask))
        results.append(model(x, src_key_padding_mask=mask).detach())
        results.append(model.train()(x, src_key_padding_mask=mask).detach())
        found.append([y.numpy() for y in results])
    assert [numpy.allclose(ours, theirs, atol=2e-5) for ours, theirs in zip(*found, strict=True)] == [True] * 5


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("source", ["meta", "cpu"])
@pytest.mark.parametrize("target", ["meta", "cpu"])
def test_state_that_is_loaded_from_and_to_tensors_without_memory(source, target, assign):
    found = []
    for library in (plugrad, torch):
        model, other = (library.nn.BatchNorm1d(2, device=device) for device in (target, source))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            try:
                said = str(model.load_state_dict(other.state_dict(), assign=assign))
            except RuntimeError as error:
                said = type(error).__name__
        values = [(str(value.device), value.requires_grad) for value in model.state_dict(keep_vars=True).values()]
        found.append((said, values, [one.category for one in told]))
    assert found[0] == found[1]
