"""Models as ONNX files: the real checker accepts them, onnxruntime and the import here compute what the model does."""

import io
import math
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import nest, nn
from plugrad.extend import composite, register, unary, unregister

F = nn.functional


@pytest.fixture(scope="module")
def runtime():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    return onnx, onnxruntime


def tensors(item):
    return [leaf for leaf in nest.leaves(item) if isinstance(leaf, torch.Tensor)]


def compare(runtime, model, *examples, tolerance=2e-5, **options):
    """Export by the first example; compare onnxruntime and the imported Module with the model on all of them."""
    onnx, onnxruntime = runtime
    if isinstance(model, nn.Module):
        model.eval()
    program = torch.onnx.export(model, examples[0], **options)
    onnx.checker.check_model(onnx.load_from_string(bytes(program)), full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(bytes(program), settings, providers=["CPUExecutionProvider"])
    loaded = torch.onnx.load(io.BytesIO(bytes(program)))
    for example in examples:
        with torch.no_grad():
            expected = tensors(model(*example))
            given = dict(zip(program.input_names, tensors(example)))
            feeds = {one.name: given[one.name].numpy() for one in session.get_inputs()}
            results = [torch.from_numpy(one) for one in session.run(None, feeds)], tensors(loaded(**given))
        for found in results:
            assert len(found) == len(expected)
            for one, other in zip(found, expected):
                assert one.shape == other.shape and one.dtype is other.dtype
                torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    return program


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x):
        return (self.body(x) + x).relu_()


def resnet():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), Block(4), nn.MaxPool2d(2), Block(4),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5),
    )  # fmt: skip
    for name, buffer in model.named_buffers():
        if buffer.is_floating_point():
            buffer.uniform_(0.5, 1.5) if "var" in name else buffer.normal_(0, 0.1)
    return model


def mlp():
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4), nn.Softmax(-1))


def transformer():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


R = torch.randn
MODELS = {
    "mlp": (mlp, [(R(2, 6),), (R(5, 6),)], {"input": {0: "batch"}}),
    "resnet": (resnet, [(R(2, 3, 8, 8),), (R(3, 3, 12, 10),)], {"input": {0: "batch", 2: "height", 3: "width"}}),
    "transformer": (transformer, [(R(2, 5, 8),), (R(3, 7, 8),)], {"src": {0: "batch", 1: "time"}}),
    "lstm": (lambda: nn.LSTM(4, 5, 2, bidirectional=True), [(R(3, 2, 4),), (R(6, 3, 4),)], {"input": [0, 1]}),
    "lstm with a state": (lambda: nn.LSTM(4, 5), [(R(3, 2, 4), (R(1, 2, 5), R(1, 2, 5)))], None),
    "gru": (lambda: nn.GRU(4, 5, bidirectional=True), [(R(3, 2, 4),), (R(3, 6, 4),)], {"input": {1: "batch"}}),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 3)),
        [(torch.tensor([[1, 2, 3], [4, 5, 8]]),), (torch.tensor([[0]]),)], {"input": [0, 1]},
    ),
    "attention": (
        lambda: lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(R(2, 2, 5, 4), R(2, 2, 5, 4), R(2, 2, 5, 4)), (R(3, 2, 7, 4), R(3, 2, 7, 4), R(3, 2, 7, 4))],
        {name: {0: "batch", 2: "time"} for name in "qkv"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_models_compute_the_same_in_onnxruntime_with_other_sizes_too(name, runtime):
    torch.manual_seed(0)
    make, examples, axes = MODELS[name]
    compare(runtime, make(), *examples, dynamic_axes=axes)


FUNCTIONS = {
    "losses": (lambda x, t: (F.cross_entropy(x, t), F.log_softmax(x, 1), F.nll_loss(x, t), F.mse_loss(x, x + 1)),
               (R(4, 5), torch.tensor([1, 2, 3, 0]))),
    "reductions": (lambda x: (
        x.sum(), x.sum(1), x.mean((0, 2), keepdim=True), x.max(), x.max(1), x.min(2, keepdim=True), x.amax((0, 1)),
        x.prod(1), x.logsumexp(1), x.var(1), x.std(), x.var((1, 2), correction=0), x.norm(), x.norm(1, dim=1),
        x.norm(3, dim=1), x.norm(math.inf, dim=2), (x > 0).any(1), (x > 0).all(), x.argmax(), x.argmin(1), x.cumsum(1),
        x.count_nonzero(1), x.topk(2, 1), x.sort(2, descending=True)[0],
    ), (R(3, 4, 5),)),
    "indexing": (lambda x: (
        x[0], x[:, 1:3], x[..., ::2], x[:, None], x[[0, 1]], x[torch.tensor([0, -1])], x[:, torch.tensor([0, 1])],
        x[-1, :, 2], x[x > 0], x[torch.tensor([0, 1]), torch.tensor([1, 2])],
        x[:, torch.tensor([0, 1]), torch.tensor([[1], [2]])], x.narrow(1, 1, 2), x.select(2, -1), x.flip(1),
        x.index_select(1, torch.tensor([2, 0])), x.gather(2, torch.tensor([[[0, 1]]]).expand(2, 4, 2)), x.chunk(2, 1),
        x.split([1, 3], 1), x.unbind(1), x.roll(1, 1), x.tril(), torch.where(x > 0, x, 0.0), x.masked_fill(x > 0, 0.0),
    ), (R(2, 4, 5),)),
    "images": (lambda x: (
        F.interpolate(x, scale_factor=2), F.interpolate(x, size=(5, 11), mode="bilinear"),
        F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True), F.pad(x, (1, 1, 2, 2)),
        F.interpolate(x, scale_factor=2, mode="bicubic"), F.interpolate(x, scale_factor=1.5, mode="nearest-exact"),
        F.pad(x, (1, -1), value=2.0), F.pad(x, (1, 1, 1, 1), mode="reflect"), F.pad(x, (1, 2, 0, 1), mode="replicate"),
        F.max_pool2d(x, 3, 2, 1), F.max_pool2d(x, 2, ceil_mode=True), F.avg_pool2d(x, 3, 2, 1),
        F.adaptive_avg_pool2d(x, 4), F.pixel_shuffle(x, 2), F.group_norm(x, 2), F.instance_norm(x),
        F.conv2d(x, torch.ones(6, 4, 3, 3), stride=2, padding=1, dilation=2),
        F.conv2d(x, torch.ones(8, 1, 3, 3), groups=4),
        F.conv_transpose2d(x, torch.ones(4, 3, 3, 3), stride=2, padding=1, output_padding=1),
        F.grid_sample(x, torch.zeros(2, 3, 3, 2), align_corners=False),
    ), (R(2, 4, 8, 8),)),
    "elementwise": (lambda x: (
        1 - x, 2**x, 1 / x, x // 2, x % 2, torch.fmod(x, 2), x.clamp(0, 1), x.abs().log1p(), x.expm1(), x.trunc(),
        x.frac(), (x > 0) & (x < 1), ~(x > 0), x != x, x.lerp(x * 2, 0.3), F.gelu(x), F.silu(x), F.elu(x), F.selu(x),
        F.celu(x),
        F.softplus(x), F.hardswish(x), F.glu(x, 1), F.softshrink(x), F.leaky_relu(x), x.to(torch.float64), x.round(),
    ), (R(3, 4),)),
    "integers": (lambda i: (i + 1, i * 2.5, i / 2, i // 2, i % 3, i > 2, i.sum(), i.clamp(0, 3), torch.sin(i), i & 1),
                 (torch.tensor([-5, 2, 3]),)),
    "what is written in place": (lambda x: F.relu(x * 2, inplace=True).add_(1), (R(3, 4),)),
    "other results": (lambda x: (x, x + 1, torch.ones(2), x.detach() * 2, x.data + 1), (R(3),)),
    "lists and dicts": (lambda one: one["a"] + one["b"][0], ({"a": R(2), "b": [R(2)]},)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_compute_the_same_in_onnxruntime(name, runtime):
    function, example = FUNCTIONS[name]
    compare(runtime, function, example)


def test_sizes_that_vary_go_through_shapes_slices_and_new_tensors(runtime):
    def program(x):
        b, t, n = x.shape
        return (
            x[:, -1], x[:, :-1], x[:, : t - 1], x.reshape(-1, n), x.reshape(b, -1), x.view(b * t, n), x.flatten(1),
            x + torch.arange(t)[:, None], torch.zeros(b, 3) + x[:, 0, :3], x.expand(2, *x.shape),
            x.new_ones(b, 2 * t + 1),
            torch.full((t, t), -1.0).triu(1), x.repeat(2, 1, 1), torch.cat([x, x], 1), x.mean(1), x.var(1),
            x.norm(dim=1),
        )  # fmt: skip

    axes = {"x": {0: "batch", 1: "time"}}
    program = compare(runtime, program, (R(2, 4, 5),), (R(5, 7, 5),), (R(1, 3, 5),), dynamic_axes=axes)
    onnx, _ = runtime
    graph = onnx.load_from_string(bytes(program)).graph
    assert [dim.dim_param or dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == ["batch", "time", 5]
    assert graph.output[10].type.tensor_type.shape.dim[1].dim_param == "2 * time + 1"


def test_dynamic_shapes_as_pytorch_has_them(runtime):
    for shapes in ({"x": {0: "n"}, "y": {0: "n"}}, [{0: "n"}, {0: "n"}], ({0: "n", 1: None}, {0: "n"})):
        compare(runtime, lambda x, y: x + y, (R(2, 3), R(2, 3)), (R(5, 3), R(5, 3)), dynamic_shapes=shapes)


@pytest.mark.parametrize("opset", [18, 20, 22])
def test_versions_of_the_operators(opset, runtime):
    program = compare(runtime, nn.Sequential(nn.Linear(3, 3), nn.GELU()), (R(2, 3),), opset_version=opset)
    assert runtime[0].load_from_string(bytes(program)).opset_import[0].version == opset


def test_what_the_file_says(tmp_path, runtime):
    onnx, _ = runtime
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout())
    path = tmp_path / "model.onnx"
    program = torch.onnx.export(model, R(4, 3), path, input_names=["features"], output_names=["scores"])
    assert model.training and path.read_bytes() == bytes(program)
    found = onnx.load(path)
    assert [one.name for one in found.graph.input] == ["features"] and found.graph.output[0].name == "scores"
    assert {one.name for one in found.graph.initializer} == {
        "0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var",
    }  # fmt: skip
    assert [one.op_type for one in found.graph.node] == ["Gemm", "BatchNormalization"]
    assert found.producer_name == "plugrad" and "test_onnx_export.py" in found.graph.node[0].doc_string


# ----------------------------------------------------------------------------------------------- forms of third parties


def test_an_op_declares_its_form(runtime):
    @unary(vjp=None, complex=False)
    def bump(xp, input):
        """A bump at zero."""
        return xp.exp(-input * input)

    @bump.onnx
    def bump_onnx(g, input):
        return g.op("Exp", g.op("Neg", g.op("Mul", input, input)))

    @composite
    def two_bumps(F, input, *, apart=1.0):
        """Two bumps."""
        return F.bump(input) + F.bump(input - apart)

    register(bump, two_bumps)
    try:
        compare(runtime, lambda x: torch.two_bumps(x, apart=2.0), (R(3),))
        program = torch.onnx.export(lambda x: torch.bump(x), R(3))
        kinds = [one.op_type for one in runtime[0].load_from_string(bytes(program)).graph.node]
        assert kinds == ["Mul", "Neg", "Exp"]

        @two_bumps.onnx
        def two_bumps_onnx(g, input, *, apart=1.0):
            return g.op("TwoBumps", input, domain="my.operators", apart=float(apart))

        program = torch.onnx.export(torch.two_bumps, R(3), custom_opsets={"my.operators": 3})
        found = runtime[0].load_from_string(bytes(program))
        assert [(one.op_type, one.domain) for one in found.graph.node] == [("TwoBumps", "my.operators")]
        assert {one.domain: one.version for one in found.opset_import} == {"": 18, "my.operators": 3}
        with pytest.raises(NotImplementedError, match="my.operators.TwoBumps"):
            torch.onnx.load(io.BytesIO(bytes(program)))
    finally:
        unregister(bump, two_bumps)


def test_a_missing_form_names_the_op_the_line_and_what_to_write():
    class Odd(nn.Module):
        def forward(self, x):
            return torch.special.i0e(x)

    with pytest.raises(NotImplementedError, match="i0e") as error:
        torch.onnx.export(Odd(), R(3))
    text = str(error.value)
    assert "in Odd" in text and "test_onnx_export.py:" in text and "@i0e.onnx" in text and "def i0e_onnx(g, " in text


# ------------------------------------------------------------------------------------------------------ what is refused


def write_into_view(x):
    y = x * 1
    y[0].fill_(1)
    return y


def grow(x):
    total = x[0]
    for row in x[1:]:
        total = total + row
    return total


REFUSED = {
    "random numbers": (lambda x: F.dropout(x, 0.5, True), {}, "random numbers.*eval"),
    "a view written in place": (write_into_view, {}, "writes into a view"),
    "loops over an axis": (grow, {"dynamic_axes": {"x": {0: "n"}}}, "another way for other sizes"),
    "a number that depends on a size": (lambda x: x * (1 / len(x)), {"dynamic_axes": {"x": {0: "n"}}}, "takes 0.5"),
    "constants made of sizes": (lambda x: x + torch.tensor([float(len(x))]), {"dynamic_axes": {"x": {0: "n"}}}, "anew"),
    "a size to the power of two": (lambda x: x.new_ones(len(x) ** 2), {"dynamic_axes": {"x": {0: "n"}}}, "linear"),
    "complex numbers": (lambda x: torch.fft.fft(x).real, {}, "complex"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_file_can_say_is_refused(name):
    function, options, text = REFUSED[name]
    with pytest.raises(NotImplementedError, match=f"(?s){text}"):
        torch.onnx.export(function, R(2, 3), input_names=["x"], **options)


@pytest.mark.parametrize("options, error, text", [
    ({"opset_version": 9}, ValueError, "18 to 22"), ({"dynamic_axes": {"x": {5: "n"}}}, ValueError, "2 axes"),
    ({"dynamic_axes": {"y": {0: "n"}}}, ValueError, r"names \['y'\], and the inputs are \['x'\]"),
    ({"input_names": ["x", "y"]}, ValueError, "2 names for 1"),
    ({"export_params": False}, NotImplementedError, "params"),
    ({"dynamic_axes": {}, "dynamic_shapes": [None]}, ValueError, "not both"),
    ({"dynamic_shapes": [None, None]}, ValueError, "2 shapes"),
])  # fmt: skip
def test_wrong_arguments(options, error, text):
    with pytest.raises(error, match=text):
        torch.onnx.export(lambda x: x + 1, R(2, 3), **{"input_names": ["x"], **options})
    with pytest.raises(TypeError, match="Module or a function"):
        torch.onnx.export(3, R(2))
    with pytest.raises(TypeError, match="float"):
        torch.onnx.export(lambda x: x.sum().item(), R(2))


def test_a_trace_gives_operands_in_the_order_of_the_op():
    from plugrad.compiler import Graph

    calls = Graph(lambda x: (1 - x) / 2**x).trace(torch.ones(2))
    assert [repr(call) for call in calls] == [
        "call0 = sub(1, input0)", "call1 = pow(2, input0)", "call2 = true_divide(call0, call1)",
    ]  # fmt: skip
    assert numpy.allclose((1 - torch.ones(2)).numpy(), 0)
