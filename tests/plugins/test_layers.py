"""Every layer against PyTorch's: repr, state_dict, values and gradients with the same weights."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings

import numpy
import pytest

import plugrad
from plugrad import nn
from support.layer_cases import LAYERS, build, draw

torch = pytest.importorskip("torch")

def pair(text):
    """Return PyTorch's layer and ours, with the same random parameters."""
    theirs, ours = build(text, torch), build(text, plugrad)
    rng = numpy.random.default_rng(0)
    state = {}
    for name, value in theirs.state_dict().items():
        array = value.numpy()
        if array.dtype.kind == "f":
            array = rng.normal(scale=0.5, size=array.shape).astype(array.dtype)
            array = abs(array) + 0.1 if "running_var" in name else array
        state[name] = array
    theirs.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in state.items()})
    ours.load_state_dict({name: plugrad.from_numpy(array.copy()) for name, array in state.items()})
    return theirs, ours


def flat(result):
    """Yield the tensors in nested tuples."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from flat(item)
    elif result is not None:
        yield result


def run(module, layer, arrays):
    """Return outputs and the gradients of a weighted sum of them, for inputs and parameters."""
    inputs = [module.from_numpy(array.copy()) for array in arrays]
    leaves = [tensor.requires_grad_() for tensor in inputs if tensor.is_floating_point()]
    outputs = list(flat(layer(*inputs)))
    rng = numpy.random.default_rng(1)
    total = 0
    for output in outputs:
        weights = rng.normal(size=tuple(output.shape)).astype(numpy.float32)
        if output.is_floating_point():
            total = total + (output * module.from_numpy(weights)).sum()
    if isinstance(total, int) or not total.requires_grad:
        return outputs, []
    total.backward()
    return outputs, [leaf.grad for leaf in leaves] + [p.grad for p in layer.parameters()]


def same(ours, theirs, tolerance):
    if theirs is None:
        assert ours is None or not ours.any()
        return
    assert tuple(ours.shape) == tuple(theirs.shape) and str(ours.dtype) == str(theirs.dtype)
    numpy.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("text", sorted({text for text, _ in LAYERS}))
def test_looks_the_same(text):
    theirs, ours = build(text, torch), build(text, plugrad)
    assert repr(ours) == repr(theirs)
    assert [(name, tuple(value.shape), str(value.dtype)) for name, value in ours.state_dict().items()] == [
        (name, tuple(value.shape), str(value.dtype)) for name, value in theirs.state_dict().items()
    ]
    assert [name for name, _ in ours.named_parameters()] == [name for name, _ in theirs.named_parameters()]
    again = pickle.loads(pickle.dumps(ours))
    assert repr(again) == repr(copy.deepcopy(ours)) == repr(ours)


@pytest.mark.parametrize("text, shapes", [case for case in LAYERS if case[1]])
def test_computes_the_same(text, shapes):
    theirs, ours = pair(text)
    rng = numpy.random.default_rng(2)
    arrays = [draw(shape, rng) for shape in shapes]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's remarks on its own speed
        wanted, wanted_grads = run(torch, theirs, arrays)
    results, result_grads = run(plugrad, ours, arrays)
    for one, other in zip(results, wanted, strict=True):
        same(one, other, 2e-5)
    for one, other in zip(result_grads, wanted_grads, strict=True):
        same(one, other, 2e-4)
    for one, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        same(one, other, 1e-5)


@pytest.mark.parametrize("name", sorted({text.partition("(")[0] for text, _ in LAYERS}))
def test_signature(name):
    """The constructors take what PyTorch's take, in the same order."""

    def described(module):
        parameters = inspect.signature(getattr(module.nn, name).__init__).parameters.values()
        return [(p.name, p.kind, p.default) for p in parameters if p.name != "activation"]

    theirs = described(torch)
    if any(kind is inspect.Parameter.VAR_POSITIONAL for _, kind, _ in theirs) and name != "Identity":
        return  # PyTorch's takes anything and sorts it out itself
    assert described(plugrad) == theirs


WRONG = [
    "Conv2d(1, 2, 3, padding_mode='foo')",
    "Conv2d(1, 2, 3, padding='foo')",
    "Conv2d(1, 2, 3, padding='same', stride=2)",
    "Conv2d(3, 2, 3, groups=2)",
    "Conv2d(2, 3, 3, groups=2)",
    "Conv2d(2, 3, 3, groups=0)",
    "ConvTranspose2d(1, 2, 3, padding_mode='circular')",
    "Dropout(2)",
    "Embedding(3, 2, padding_idx=4)",
    "GroupNorm(3, 4)",
    "BatchNorm1d(3)(torch.zeros(3))",
    "BatchNorm2d(3)(torch.zeros(2, 3))",
    "BatchNorm1d(3)(torch.zeros(1, 3))",
    "InstanceNorm1d(3, affine=True)(torch.zeros(2, 2, 5))",
    "Hardtanh(2, 1)",
    "Softmax2d()(torch.zeros(2))",
    "Unflatten(1, 3)",
    "Unflatten(1, [2.5])",
    "Bilinear(0, 2, 3)",
    "RNN(2, 3, nonlinearity='x')",
    "GRU(2, 3, proj_size=1)",
    "LSTM(2, 3, proj_size=3)",
    "LSTM(2, 3, dropout=2)",
    "LSTM(2, 0)",
    "LSTM(2.0, 3)",
    "LSTM(2, 3)(torch.zeros(2))",
    "LSTM(2, 3)(torch.zeros(1, 2, 3))",
    "LSTM(2, 3)(torch.zeros(1, 2, 2), (torch.zeros(1, 2, 3), torch.zeros(1, 2, 2)))",
    "LSTM(2, 3)(torch.zeros(1, 2), (torch.zeros(1, 2, 3),) * 2)",
    "LSTM(2, 3)(torch.zeros(1, 2, 2, dtype=torch.float64))",
    "GRU(2, 3)(torch.zeros(1, 2, 2), torch.zeros(1, 3))",
    "GRU(2, 3)(torch.zeros(1, 2, 2), torch.zeros(1, 1, 3))",
    "LSTMCell(2, 3)(torch.zeros(1, 1, 2))",
    "LSTMCell(2, 3)(torch.zeros(1, 3))",
    "LSTMCell(2, 3)(torch.zeros(1, 2), (torch.zeros(1, 2),) * 2)",
    "MultiheadAttention(5, 2)",
    "MultiheadAttention(0, 2)",
    "MultiheadAttention(4, 2)(torch.zeros(4), torch.zeros(4), torch.zeros(4))",
    "MultiheadAttention(4, 2)(*[torch.zeros(3, 2, 4)] * 3, is_causal=True)",
    "MultiheadAttention(4, 2)(*[torch.zeros(3, 2, 4)] * 3, attn_mask=torch.zeros(2, 2))",
    "MultiheadAttention(4, 2)(*[torch.zeros(3, 2, 4)] * 3, key_padding_mask=torch.zeros(3, 2))",
    "MultiheadAttention(4, 2)(*[torch.zeros(3, 2, 4)] * 3, attn_mask=torch.zeros(3, 3, dtype=torch.int64))",
    "TransformerEncoderLayer(4, 2, activation='tanh')",
    "Sigmoid(1)",
    "Linear(2, 3)(torch.zeros(2, 3))",
    "Transformer(4, 2, 1, 1, 8)(torch.zeros(2, 3, 4), torch.zeros(2, 2, 4))",
]


@pytest.mark.parametrize("text", WRONG)
def test_refuses_the_same(text):
    """What PyTorch refuses is refused with the same class of error, and its message begins alike."""
    errors = []
    for module in (torch, plugrad):
        with warnings.catch_warnings(), pytest.raises(Exception) as caught:
            warnings.simplefilter("ignore")
            eval(f"nn.{text}", {"nn": module.nn, "torch": module})
        errors.append(caught.value)
    theirs, ours = errors
    assert type(ours) is type(theirs)
    start = str(theirs).split(" ")[:2]
    if "max_val" not in str(theirs):
        assert str(ours).split(" ")[: len(start)] == start, (ours, theirs)


@pytest.mark.parametrize("boolean", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_masks(boolean, need_weights):
    theirs, ours = pair("MultiheadAttention(8, 2)")
    rng = numpy.random.default_rng(3)
    x = rng.normal(size=(5, 3, 8)).astype(numpy.float32)
    padding = rng.random((3, 5)) < 0.3
    mask = numpy.triu(numpy.ones((5, 5), bool), 1)
    padding[:, 0] = False
    if not boolean:
        padding, mask = (numpy.where(part, -numpy.inf, 0).astype(numpy.float32) for part in (padding, mask))
    results = []
    for module, layer in ((torch, theirs), (plugrad, ours)):
        query, pad, attn = (module.from_numpy(part) for part in (x, padding, mask))
        result = layer(query, query, query, pad, need_weights, attn, average_attn_weights=False)
        results.append(list(flat(result)))
    for one, other in zip(results[1], results[0], strict=True):
        same(one, other, 1e-5)


@pytest.mark.parametrize("text", ["RNN(3, 4, 2, bidirectional=True)", "LSTM(3, 4, bidirectional=True)", "GRU(3, 4)"])
@pytest.mark.parametrize("sort", [True, False])
def test_packed_sequences(text, sort):
    theirs, ours = pair(text)
    lengths = [5, 4, 1] if sort else [1, 5, 4]
    x = numpy.random.default_rng(4).normal(size=(5, 3, 3)).astype(numpy.float32)
    results = []
    for module, layer in ((torch, theirs), (plugrad, ours)):
        rnn = module.nn.utils.rnn
        packed = rnn.pack_padded_sequence(module.from_numpy(x.copy()).requires_grad_(), lengths, enforce_sorted=sort)
        output, state = layer(packed)
        padded, sizes = rnn.pad_packed_sequence(output, total_length=6, padding_value=-1.0)
        assert sizes.tolist() == lengths
        padded.sum().backward()
        results.append([padded, *flat(state), *(p.grad for p in layer.parameters())])
    for one, other in zip(results[1], results[0], strict=True):
        same(one, other, 1e-4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling_undoes_pooling(n):
    x = numpy.random.default_rng(5).normal(size=(2, 3, 5, 4, 6)[: n + 2]).astype(numpy.float32)
    results = []
    for module in (torch, plugrad):
        pool = getattr(module.nn, f"MaxPool{n}d")(2, return_indices=True)
        values, indices = pool(module.from_numpy(x))
        results.append(getattr(module.nn, f"MaxUnpool{n}d")(2)(values, indices, x.shape))
    same(results[1], results[0], 1e-6)


def test_loads_batch_norm_of_version_1():
    layer = nn.BatchNorm1d(2)
    state = {name: value for name, value in layer.state_dict().items() if name != "num_batches_tracked"}
    layer.load_state_dict(state)
    assert layer.num_batches_tracked.item() == 0


def test_output_size_of_transposed_convolution():
    theirs, ours = pair("ConvTranspose2d(1, 2, 3, stride=2)")
    x = numpy.random.default_rng(6).normal(size=(1, 1, 4, 4)).astype(numpy.float32)
    result = ours(plugrad.from_numpy(x), output_size=(10, 9))
    assert result.shape == (1, 2, 10, 9)
    same(result, theirs(torch.from_numpy(x), output_size=(10, 9)), 1e-5)
    with pytest.raises(ValueError, match="valid sizes range"):
        ours(plugrad.from_numpy(x), output_size=(11, 9))


@pytest.mark.parametrize(
    "text",
    [
        "Linear(30, 40)",
        "Conv2d(6, 8, 3)",
        "ConvTranspose2d(6, 8, 3)",
        "LSTM(20, 30)",
        "GRUCell(9, 30)",
        "Embedding(30, 20)",
        "MultiheadAttention(40, 2)",
        "Bilinear(10, 9, 8)",
    ],
)
def test_initial_distribution(text):
    """Parameters start with PyTorch's spread: equal deviation and range, up to chance."""
    torch.manual_seed(0), plugrad.manual_seed(0)  # the largest of a few numbers is a matter of chance
    theirs, ours = build(text, torch), build(text, plugrad)
    for (name, one), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        if one.numel() > 200:
            assert one.detach().std().item() == pytest.approx(other.detach().std().item(), rel=0.15), name
        assert one.detach().abs().max().item() <= other.detach().abs().max().item() * 1.5 + 1e-6, name


def test_device_and_dtype():
    """Every layer with parameters takes device= and dtype=, and gives them to all."""
    seen = set()
    for text, _ in LAYERS:
        name, _, rest = text.removesuffix(".eval()").partition("(")
        if "dtype" not in inspect.signature(getattr(nn, name).__init__).parameters or name in seen:
            continue
        seen.add(name)
        given = rest.removesuffix(")")
        text = f"nn.{name}({given}{', ' * bool(given)}device='meta', dtype=float64)"
        layer = eval(text, {"nn": nn, "float64": plugrad.float64})
        for parameter in layer.parameters():
            assert parameter.is_meta and parameter.dtype is plugrad.float64, text
    assert len(seen) > 20


NO_STATES = [
    *(pytest.param(name, state, id=f"{name}-{state}") for name in ("RNNCell", "GRUCell", "RNN", "GRU")
      for state in (3, [1, 2], "h", b"h")),
    *(pytest.param(name, state, id=f"{name}-{state}") for name in ("LSTMCell", "LSTM")
      for state in (5, "h", (1, 2), plugrad.ones(2, 2))),
]  # fmt: skip


@pytest.mark.parametrize("name, state", NO_STATES)
def test_recurrent_layers_say_what_a_state_is(name, state):
    layer = getattr(plugrad.nn, name)(2, 2)
    with pytest.raises(TypeError, match=r"hx must be a (tensor|tuple \(h, c\) of tensors), not"):
        layer(plugrad.ones(1, 2), state)
    with pytest.raises(TypeError, match="input must be a tensor, not memoryview"):
        layer(memoryview(b"ab"))
