"""More of plugrad's own kernels in CUDA C++: losses, activations, batch normalization, embeddings, recurrent steps."""

import functools

import numpy
import pytest

import plugrad as torch

F, inf = torch.nn.functional, numpy.inf
DTYPES = ["float32", "float64"]
ORDERS = [1, 7, 99991]


def both(compute, *leaves):
    """What `compute` gives for leaves on the CPU and on the device, and the leaves' gradients, as pairs on the CPU."""
    found = []
    for device in ("cpu", "cuda"):
        here = [x.detach().to(device).requires_grad_(x.is_floating_point()) for x in leaves]
        results = compute(*here)
        results = results if isinstance(results, tuple) else (results,)
        slopes = [torch.linspace(-1, 2, y.numel(), dtype=y.dtype).reshape(y.shape).to(device) for y in results]
        total = sum((y * slope).sum() for y, slope in zip(results, slopes))
        wanted = [x for x in here if x.requires_grad]
        grads = torch.autograd.grad(total, wanted, allow_unused=True) if total.requires_grad else []
        found.append([y.detach().cpu() for y in results] + [g.cpu() for g in grads if g is not None])
    assert len(found[0]) == len(found[1])
    return zip(*found)


def agree(compute, *leaves):
    """Whether CPU and device agree, as closely as the type of the first leaf lets expect."""
    tolerance = 1e-4 if leaves[0].dtype is torch.float32 else 1e-10
    for here, there in both(compute, *leaves):
        torch.testing.assert_close(there, here, rtol=tolerance, atol=tolerance, equal_nan=True)


def in_every_order(stand_in, compute, *leaves):
    """Whether results and gradients on the device have the same bits in every order of the threads."""
    found = []
    for order in (0, *ORDERS):
        stand_in.set_order(order)
        try:
            found.append([there for _, there in both(compute, *leaves)])
        finally:
            stand_in.set_order(0)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


LOSSES = [
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 1}, {"label_smoothing": 0.2},
    {"ignore_index": 1, "label_smoothing": 0.2, "reduction": "none"},
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", LOSSES)
@pytest.mark.parametrize("shape", [(5, 3), (4, 600), (7,), (2, 3, 4), (2, 5, 3, 2)])
def test_cross_entropy(shape, options, weighted, dtype, launched):
    torch.manual_seed(1)
    x = 3 * torch.randn(shape, dtype=getattr(torch, dtype))
    classes = shape[1] if len(shape) > 1 else shape[0]
    labels = torch.randint(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    weight = torch.rand(classes, dtype=x.dtype) + 0.5
    given = [x, labels, weight] if weighted else [x, labels]

    def loss(x, labels, weight=None):
        return F.cross_entropy(x, labels, None if weight is None else weight.detach(), **options)

    agree(loss, *given)
    reduced = options.get("reduction", "mean")
    between = {"none": [], "sum": ["over_rows"], "mean": ["over_rows", "count_rows"]}[reduced]
    assert launched == ["cross_entropy", *between, "cross_entropy_grad"]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_labels_that_do_not_count(reduction):
    x = torch.tensor([[inf, 1.0], [0.0, 1.0], [-inf, 1.0], [-inf, -inf], [float("nan"), 0.0]])
    for labels in ([-100] * 5, [-100, 1, 1, -100, -100], [0, 1, 0, 1, 1]):
        agree(lambda x, y: F.cross_entropy(x, y, reduction=reduction), x, torch.tensor(labels))
    agree(lambda x, y: F.cross_entropy(x, y, reduction=reduction), x[:0], torch.zeros(0, dtype=torch.long))


def test_a_label_that_is_no_class_is_told_by_whoever_waits():
    for wrong in (-1, 3, 2**40):
        loss = F.cross_entropy(torch.zeros(2, 3).cuda(), torch.tensor([0, wrong]).cuda())
        with pytest.raises(torch.AcceleratorError, match=f"Target {wrong} is out of bounds"):
            loss.item()


def test_second_gradients_of_cross_entropy():
    def slope(x, labels):
        (g,) = torch.autograd.grad(F.cross_entropy(x, labels, label_smoothing=0.1), x, create_graph=True)
        return g * g

    agree(slope, torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 4, -100, 2]))


@pytest.mark.parametrize("size", [70, 700])
def test_cross_entropy_in_any_order_of_threads(size, stand_in):
    x, labels = torch.randn(3, size), torch.tensor([1, 2, -100])
    in_every_order(stand_in, lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), x, labels)


GATES = {
    "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu, "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "leaky_relu": F.leaky_relu, "leaky_relu by 2": lambda x: F.leaky_relu(x, 2.0), "bounded": F.hardtanh,
    "bounded by numbers": lambda x: x.clamp(-1, 6), "bounded below": lambda x: x.clamp(min=6),
    "bounded above": lambda x: x.clamp_max(-0.0), "bounded the wrong way": lambda x: x.clamp(1, -1),
    "hardswish": F.hardswish, "softplus": F.softplus, "softplus by 2": lambda x: F.softplus(x, 2, 5), "mish": F.mish,
    "elu": F.elu, "elu as selu": F.selu, "elu as celu": lambda x: F.celu(x, 0.7), "log_sigmoid": F.logsigmoid,
}  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (257,), (3, 5)])
@pytest.mark.parametrize("name", GATES)
def test_activations(name, shape, dtype, launched):
    agree(GATES[name], 4 * torch.randn(shape, dtype=getattr(torch, dtype)))
    kernel = name.split()[0]
    assert launched == [kernel, f"{kernel}_grad"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 3, 4, 5, 1023, 1024, 1025, 4099])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_packs_of_elements_that_begin_anywhere(start, size, dtype, launched):
    agree(lambda x: F.silu(x[start:]), torch.randn(start + size, dtype=getattr(torch, dtype)))
    assert launched == ["silu", "silu_grad"]


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "bfloat16"])
def test_bounds_that_are_no_numbers_or_no_floats(dtype):
    x = torch.tensor([-2.0, 0.5, 3.0, float("nan")], dtype=getattr(torch, dtype))
    zero, ones, nan = x.new_tensor(0.0), torch.ones_like(x), float("nan")
    for bounds in ((nan, 1.0), (0.0, nan), (zero, None), (None, ones)):
        given = [one if isinstance(one, torch.Tensor) else torch.tensor(0.0) for one in bounds]

        def bounded(x, *tensors, bounds=bounds):
            return x.clamp(*[t if isinstance(one, torch.Tensor) else one for t, one in zip(tensors, bounds)])

        for here, there in list(both(bounded, x, *given))[:2]:
            torch.testing.assert_close(there, here, equal_nan=True)
    assert torch.arange(5, device="cuda").clamp(1, 3).tolist() == [1, 1, 2, 3, 3]


@pytest.mark.parametrize("name", GATES)
def test_activations_at_edges(name):
    x = torch.tensor([0.0, -0.0, inf, -inf, float("nan"), 80.0, -80.0, 1e30, -1e30, 6.0, -6.0])
    gradients = name not in {"sigmoid", "silu", "gelu", "gelu by tanh", "mish"}  # which are NaN, or not, at infinity
    for here, there in list(both(GATES[name], x))[: 1 + gradients]:
        torch.testing.assert_close(there, here, equal_nan=True)
    agree(GATES[name], x[[0, 5, 6, 9, 10]])
    agree(lambda x: GATES[name](x.T), torch.randn(3, 4))


@pytest.mark.parametrize("op", [torch.sigmoid, F.silu, F.gelu, lambda x: torch.softmax(x, -1)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "complex64", "bfloat16", "float16"])
def test_other_types_get_what_the_cpu_gives(op, dtype):
    """A kernel that is written for floats must not be made for integers, which C++ would do without a word."""
    found = []
    for device in ("cpu", "cuda"):
        try:
            found.append(op(torch.tensor([[0, 1, 2], [1, 1, 0]]).to(device, getattr(torch, dtype))).cpu())
        except NotImplementedError:
            found.append(NotImplementedError)
    if isinstance(found[0], torch.Tensor):
        torch.testing.assert_close(*found, rtol=1e-2, atol=1e-2)
    else:
        assert found[0] is found[1]


def test_second_gradients_of_activations():
    def slope(x):
        (g,) = torch.autograd.grad(sum(op(x).sum() for op in GATES.values()), x, create_graph=True)
        return g * g

    agree(slope, torch.randn(4, 5, dtype=torch.float64))


IMAGES = [(4, 3, 5, 7), (2, 5, 1), (6, 37), (300, 4), (2, 2, 50, 60), (1, 2, 9), (700, 3, 7), (3, 1), (2, 70, 2)]
FORMS = {"as they are": lambda x: x, "batch last": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", IMAGES)
def test_batch_norm(shape, form, affine, dtype, launched):
    torch.manual_seed(2)
    middle = torch.arange(shape[1]).reshape(-1, *[1] * (len(shape) - 2))
    x = 2 * torch.randn(shape, dtype=getattr(torch, dtype)) + middle
    parts = [torch.randn(shape[1], dtype=x.dtype) for _ in range(2)] if affine else []

    def norm(x, *parts):
        mean, variance = x.detach().new_zeros(shape[1]), x.detach().new_ones(shape[1])
        return F.batch_norm(FORMS[form](x), mean, variance, *parts, training=True), mean, variance

    agree(norm, x, *parts)
    assert {"channel_moments", "join_moments", "scale_channels"} <= {*launched}
    assert {"channel_sums", "join_sums", "scale_channels_grad"} <= {*launched}


@pytest.mark.parametrize("shape", [(4, 2, 30), (50, 3)])
def test_batch_norm_of_values_far_from_zero(shape):
    """Where the mean is a thousand times the deviation no digit of that is lost: squares of x would lose all."""
    x = 1e4 + torch.randn(shape, dtype=torch.float64)
    exact = F.batch_norm(x, None, None, training=True)
    close = F.batch_norm(x.float().cuda(), None, None, training=True)
    torch.testing.assert_close(close.cpu().double(), exact, rtol=0, atol=3e-3)


def test_gradients_of_batch_norm_that_some_need():
    for needed in range(1, 8):
        found = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(4)
            leaves = [torch.randn(size).to(device) for size in ((3, 2, 5), 2, 2)]
            for number, leaf in enumerate(leaves):
                leaf.requires_grad_(bool(needed >> number & 1))
            F.batch_norm(leaves[0], None, None, *leaves[1:], training=True).square().sum().backward()
            found.append([None if leaf.grad is None else leaf.grad.cpu() for leaf in leaves])
        for here, there in zip(*found):
            assert (here is None) is (there is None)
            assert here is None or torch.allclose(here, there, 1e-4, 1e-5)


def test_gradients_of_batch_norm_by_way_of_the_statistics():
    def norm(x):
        return torch.ops.aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0].square()

    agree(norm, torch.randn(3, 4, 2, dtype=torch.float64))

    def slope(x):
        (g,) = torch.autograd.grad(F.batch_norm(x, None, None, training=True).pow(3).sum(), x, create_graph=True)
        return g * g

    agree(slope, torch.randn(3, 4, 2, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(4, 3, 5, 7), (30, 37), (2, 2, 50, 60)])
def test_batch_norm_in_any_order_of_threads(shape, stand_in):
    in_every_order(stand_in, lambda x: F.batch_norm(x, None, None, training=True), torch.randn(shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape, groups", [((3, 4, 3, 5), 2), ((2, 6, 700), 3), ((2, 4, 9), 1), ((1, 3, 2, 2, 4), 3)])
def test_group_and_instance_norm(shape, groups, affine, dtype, launched):
    torch.manual_seed(2)
    x = 2 * torch.randn(shape, dtype=getattr(torch, dtype)) + 1
    parts = [torch.randn(shape[1], dtype=x.dtype) for _ in range(2)] if affine else []
    agree(lambda x, *parts: F.group_norm(x, groups, *parts), x, *parts)
    agree(lambda x, *parts: F.instance_norm(x, None, None, *parts), x, *parts)
    agree(lambda x, *parts: F.group_norm(x.transpose(0, 1).contiguous().transpose(0, 1), groups, *parts), x, *parts)
    assert launched[:4] == ["row_moments", "scale_groups", "group_sums", "scale_groups_grad"] == launched[4:8]


def test_group_norm_of_few_elements_and_by_way_of_the_statistics():
    agree(lambda x: F.group_norm(x, 2), torch.randn(5, 4, dtype=torch.float64))

    def norm(x):
        y, mean, scale = torch.native_group_norm(x, None, None, 2, 4, 9, 2, 1e-5)
        return y.square() * y, mean * 3, scale * 2

    agree(norm, torch.randn(2, 4, 9, dtype=torch.float64))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(4, 3, 5, 7), (6, 37), (2, 5, 1)])
def test_batch_norm_by_running_statistics(shape, form, launched):
    x, parts = torch.randn(shape), [torch.randn(shape[1]) for _ in range(2)]
    mean, variance = torch.randn(shape[1]), torch.rand(shape[1]) + 0.5

    def norm(x, *parts):
        return F.batch_norm(FORMS[form](x), mean.to(x.device), variance.to(x.device), *parts)

    agree(norm, x, *parts)
    agree(norm, x)
    assert launched == ["scale_channels"] * 2


@pytest.mark.parametrize("dtype", [*DTYPES, "float16", "bfloat16"])
@pytest.mark.parametrize("width", [1, 5, 40, 130, 300])
@pytest.mark.parametrize("rows, count", [(3, 200), (7, 31), (50, 64), (1, 33), (2000, 70)])
def test_gradients_of_embeddings(rows, count, width, dtype, launched):
    torch.manual_seed(5)
    table = torch.randn(rows, width, dtype=getattr(torch, dtype))
    indices = torch.randint(0, rows, (count,))
    indices[: count // 3] = 0  # more of one than a window holds
    bound = {2: 2e-2, 4: 1e-4, 8: 1e-10}[table.dtype.itemsize]
    for padding in (None, 0):
        looked_up = functools.partial(F.embedding, padding_idx=padding)
        for here, there in both(lambda table, indices, look=looked_up: look(indices, table), table, indices):
            torch.testing.assert_close(there, here, rtol=bound, atol=bound)
    assert launched == ["take", "order_few", "add_windows", *["join_windows"] * (count > 32)] * 2


def test_gradients_of_embeddings_of_many_indices(launched):
    table, indices = torch.randn(7, 3), torch.randint(0, 7, (4097,))
    agree(lambda table, at: F.embedding(at, table), table, indices)
    agree(lambda table, at: F.embedding(at, table), table, indices[:4096])
    assert launched == ["take", "add_windows", "join_windows", "take", "order_few", "add_windows", "join_windows"]


def test_gradients_of_embeddings_by_int32_and_in_more_dimensions():
    agree(lambda table, at: F.embedding(at, table), torch.randn(4, 3), torch.randint(0, 4, (5, 2), dtype=torch.int32))
    agree(lambda table, at: F.embedding(at, table), torch.randn(4, 3), torch.zeros(0, dtype=torch.long))
    agree(lambda table, at: F.embedding(at, table, scale_grad_by_freq=True), torch.randn(4, 3), torch.tensor([1, 1, 2]))


def test_gradients_of_embeddings_repeat(stand_in, launched):
    table, indices = torch.randn(5, 70), torch.randint(0, 5, (300,))
    in_every_order(stand_in, lambda table, indices: F.embedding(indices, table), table, indices)
    assert launched


def test_an_index_that_is_out_of_range_writes_nothing():
    table = torch.randn(5, 3).cuda().requires_grad_()
    F.embedding(torch.tensor([0, -3, 2**40, 5]).cuda(), table).sum().backward()
    with pytest.raises(torch.AcceleratorError, match="out of range"):
        torch.cuda.synchronize()
    assert table.grad.cpu().tolist() == [[1.0] * 3] + [[0.0] * 3] * 4


@pytest.mark.parametrize("dtype", [*DTYPES, "float16"])
@pytest.mark.parametrize("drop, drawn", [(F.dropout, (3, 8, 5, 1)), (F.dropout2d, (3, 8, 1, 1))])
def test_dropout_keeps_what_uniform_numbers_say(drop, drawn, dtype):
    x = torch.ones(3, 8, 5, 1, dtype=getattr(torch, dtype)).cuda()
    torch.cuda.manual_seed(9)
    kept = torch.rand(drawn, dtype=torch.float64, device="cuda") < 0.7
    after = torch.cuda.get_rng_state()
    torch.cuda.manual_seed(9)
    result = drop(x, 0.3)
    assert torch.equal(result, (x * kept).to(x.dtype) * torch.tensor(1 / 0.7, dtype=x.dtype).cuda())
    assert torch.equal(torch.cuda.get_rng_state(), after)


def test_dropout_is_two_launches(stand_in):
    x = torch.ones(50).cuda()
    F.dropout(x, 0.3)
    before = stand_in.counts()["launches"]
    F.dropout(x, 0.3)
    assert stand_in.counts()["launches"] - before == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("units", [6, 131])
@pytest.mark.parametrize("size", [(4, 2, 3), (3, 5), (1, 70, 3)])
def test_recurrent_layers(size, units, layer, options, dtype, launched):
    torch.manual_seed(6)
    made = getattr(torch.nn, layer)(size[-1], units, dtype=getattr(torch, dtype), **options)
    names, values = zip(*made.named_parameters())

    def run(x, *weights):
        weights = dict(zip(names, weights))
        output, state = torch.func.functional_call(made.to(x.device), weights, (x,))
        return output, *(state if isinstance(state, tuple) else (state,))

    agree(run, torch.randn(size, dtype=made.weight_hh_l0.dtype), *values)
    made.cpu()
    kernel = f"{layer.lower()}_step" + "s" * (units == 6)
    assert {kernel, f"{kernel}_grad"} <= {*launched} or (layer == "RNN" and units > 6)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "LSTMCell", "GRUCell"])
def test_recurrent_layers_of_half_precision(layer, launched):
    torch.manual_seed(6)
    made, x = getattr(torch.nn, layer)(3, 6), torch.randn(2, 3) if "Cell" in layer else torch.randn(5, 2, 3)
    exact = made(x)[0]
    half = made.to("cuda", torch.float16)(x.to("cuda", torch.float16))[0]
    half.float().sum().backward()
    torch.testing.assert_close(half.cpu().float(), exact.detach(), rtol=0, atol=5e-3)
    assert half.dtype is torch.float16 and all(p.grad.dtype is torch.float16 for p in made.parameters())
    name = layer.removesuffix("Cell").lower()
    assert {*launched} - {"spread"} == {f"{name}_steps", f"{name}_steps_grad"}


def test_an_lstm_with_projections(launched):
    torch.manual_seed(6)
    made = torch.nn.LSTM(3, 6, proj_size=2).double()
    values = [p.detach() for p in made.parameters()]

    def run(x, *weights):
        return torch.func.functional_call(made.to(x.device), dict(zip(dict(made.named_parameters()), weights)), (x,))[0]

    agree(run, torch.randn(4, 2, 3, dtype=torch.float64), *values)
    assert "lstm_steps_grad" in launched


@pytest.mark.parametrize("units, each", [(4, 0), (130, 1)])
def test_a_sequence_is_one_launch_or_each_step_a_product_and_one(units, each, stand_in):
    for layer in (torch.nn.LSTM(3, units).cuda(), torch.nn.GRU(3, units, bias=False).cuda()):
        counted = []
        for steps in (3, 8):
            x = torch.randn(steps, 2, 3).cuda()
            layer(x)
            before = stand_in.counts()["launches"]
            layer(x)
            counted.append(stand_in.counts()["launches"] - before)
        assert counted[1] - counted[0] == 5 * each


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_in_any_order_of_threads(layer, stand_in):
    made = getattr(torch.nn, layer)(3, 40)
    in_every_order(stand_in, lambda x: made.to(x.device)(x)[0], torch.randn(4, 2, 3))


LAUNCHES = {  # of docs/cuda.md: forward, and backward; `part` has two gradients, which are added up
    "layer_norm": (lambda x, part: F.layer_norm(x, (8,), part, part), 1, 4),
    "batch_norm": (lambda x, part: F.batch_norm(x, None, None, part, part, training=True), 3, 4),
    "cross_entropy": (lambda x, part: F.cross_entropy(x, torch.tensor([1, 0]).cuda()), 2, 2),
    "gelu": (lambda x, part: F.gelu(x), 1, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LAUNCHES)
def test_how_many_kernels_are_launched(name, stand_in):
    run, forward, backward = LAUNCHES[name]
    counted = []
    for _ in range(2):  # the first time something is made ready
        x, part = torch.randn(2, 8).cuda().requires_grad_(), torch.ones(8).cuda().requires_grad_()
        before = stand_in.counts()["launches"]
        result = run(x, part)
        between, g = stand_in.counts()["launches"], torch.ones_like(result)
        start = stand_in.counts()["launches"]
        result.backward(g)
        counted = [between - before, stand_in.counts()["launches"] - start]
    assert counted[0] <= forward and counted[1] <= backward
