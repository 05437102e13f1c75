"""Private and older names that packages written for PyTorch import or call: they do what PyTorch's do."""

import collections
import importlib
import io
import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")
BOTH = pytest.mark.parametrize("lib", [plugrad, torch], ids=["plugrad", "torch"])


def beside(call, *more):
    """Run a call with each library; return both results, or the types of errors, as comparable values."""

    def told(lib):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = call(lib)
            except Exception as error:
                return type(error).__name__
        return plain(value), sorted({type(one.message).__name__ for one in caught})

    def plain(value):
        if isinstance(value, (list, tuple)):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return sorted((str(key), str(plain(one))) for key, one in value.items())
        if hasattr(value, "tolist"):
            dense = value.to_dense() if value.is_sparse else value
            return str(value.dtype), str(value.layout), dense.detach().tolist()
        return value

    assert told(plugrad) == told(torch)


def named(lib, module, name):
    return getattr(importlib.import_module(f"{lib.__name__}.{module}"), name)


def optimizer(lib, name):
    return named(lib, "optim.optimizer", name)


def each(lib, name):
    return named(lib, "utils._foreach_utils", name)


def functional(lib, name):
    return named(lib, "nn.functional", name)


def pairs(lib):
    return [lib.ones(1), lib.ones(1, dtype=lib.int64), lib.zeros(2)]


HELPERS = {
    "groups": lambda T: each(T, "_group_tensors_by_device_and_dtype")([pairs(T), pairs(T)[::-1]], True),
    "groups of empty lists": lambda T: each(T, "_group_tensors_by_device_and_dtype")([pairs(T), []], False),
    "devices": lambda T: each(T, "_get_foreach_kernels_supported_devices")(),
    "fused devices": lambda T: each(T, "_get_fused_kernels_supported_devices")(),
    "capturable devices": lambda T: optimizer(T, "_get_capturable_supported_devices")(),
    "support": lambda T: each(T, "_has_foreach_support")(pairs(T), T.device("cpu")),
    "default": lambda T: optimizer(T, "_default_to_fused_or_foreach")(pairs(T), False, True),
    "default of floats": lambda T: optimizer(T, "_default_to_fused_or_foreach")([T.ones(1)], False, True),
    "default if differentiable": lambda T: optimizer(T, "_default_to_fused_or_foreach")([T.ones(1)], True, True),
    "value": lambda T: [optimizer(T, "_get_value")(one) for one in (3, T.tensor(2.5))],
    "dtype": lambda T: [str(optimizer(T, "_get_scalar_dtype")(fused)) for fused in (None, True)],
    "scalar": lambda T: [optimizer(T, "_to_scalar")(one) for one in (0.5, T.tensor([2.5]))],
    "fused check": lambda T: optimizer(T, "_device_dtype_check_for_fused")(T.ones(1, dtype=T.int64)),
    "packed": lambda T: functional(T, "_in_projection_packed")(
        T.ones(2, 1, 2), *[T.ones(3, 1, 2)] * 2, T.eye(6)[:, :2]),
    "packed with a bias": lambda T: functional(T, "_in_projection_packed")(
        *[T.ones(2, 1, 2)] * 3, T.eye(6)[:, 3:5], T.arange(6.0)),
    "apart": lambda T: functional(T, "_in_projection")(*[T.ones(1, 2)] * 3, *[T.eye(2)] * 3, b_k=T.ones(2)),
    "apart, of a wrong shape": lambda T: functional(T, "_in_projection")(*[T.ones(1, 2)] * 3, *[T.eye(3)] * 3),
    "boolean mask": lambda T: functional(T, "_canonical_mask")(T.tensor([True, False]), "m", None, "", T.float64),
    "other mask": lambda T: functional(T, "_canonical_mask")(T.ones(2), "m", T.bool, "o", T.float64),
    "mask of integers": lambda T: functional(T, "_canonical_mask")(T.ones(2).int(), "m", T.bool, "o", T.float64),
    "no mask": lambda T: functional(T, "_canonical_mask")(None, "m", T.bool, "o", T.float64),
    "dtype or none": lambda T: [str(functional(T, "_none_or_dtype")(one)) for one in (None, T.ones(1))],
    "dtype of a number": lambda T: functional(T, "_none_or_dtype")(3),
    "shapes": lambda T: functional(T, "_mha_shape_check")(*[T.ones(2, 4)] * 3, None, None, 2),
    "mask without a batch": lambda T: functional(T, "_mha_shape_check")(*[T.ones(2, 4)] * 3, None, T.ones(3, 2, 2), 2),
    "dim of softmax": lambda T: [functional(T, "_get_softmax_dim")("softmax", ndim, 2) for ndim in range(5)],
    "batch of one": lambda T: functional(T, "_verify_batch_size")([1, 3]),
    "one pixel": lambda T: functional(T, "_verify_spatial_size")([2, 3, 1, 1]),
    "ranges for Intel's tools": lambda T: (T.profiler.itt.is_available() in (True, False)),
    "static keys with a bias": lambda T: T.nn.functional.multi_head_attention_forward(
        *[T.ones(2, 1, 4)] * 3, 4, 2, T.ones(12, 4), None, T.ones(1, 1, 4), T.ones(1, 1, 4), False, 0.0, T.eye(4), None,
        static_k=T.ones(2, 3, 2)),
    "embedding_bag in the older order": lambda T: T.nn.functional.embedding_bag(
        T.eye(3), T.tensor([0, 1, 2]), T.tensor([0, 2])),
    "a sparse tensor by its older type": lambda T: T.sparse.FloatTensor(
        T.tensor([[0, 1], [1, 0]]), T.tensor([1.0, 2.0]), T.Size([2, 3])),
    "without a size": lambda T: T.sparse.LongTensor(T.tensor([[0, 1], [1, 0]]), T.tensor([1, 2])),
    "an empty one": lambda T: T.sparse.DoubleTensor(2, 3),
    "of lists": lambda T: T.sparse.FloatTensor([[0]], [1.0]),
    "of int32": lambda T: T.sparse.FloatTensor(T.ones(2, 1).int(), T.ones(1)),
    "its name": lambda T: [T.eye(2).to_sparse().type(), T.eye(2).to_sparse().double().type()],
    "its class": lambda T: [isinstance(T.eye(2).to_sparse(), getattr(T.sparse, name)) for name in (
        "FloatTensor", "DoubleTensor")],
}  # fmt: skip


@pytest.mark.parametrize("name", HELPERS)
def test_helpers(name):
    beside(HELPERS[name])


@BOTH
def test_an_optimizer_written_with_them(lib):
    use_grad, view_as_real = optimizer(lib, "_use_grad_for_differentiable"), optimizer(lib, "_view_as_real")

    class Plain(lib.optim.Optimizer):
        __doc__ = "\n".join(optimizer(lib, f"_{name}_doc") for name in ("params", "foreach", "maximize"))

        def __init__(self, params: optimizer(lib, "ParamsT"), lr=0.5, differentiable=False):
            super().__init__(params, {"lr": lr, "differentiable": differentiable})

        @use_grad
        def step(self, closure=None):
            assert not lib.is_grad_enabled()
            for group in self.param_groups:
                params, grads = list(group["params"]), [p.grad for p in group["params"]]
                view_as_real(params, grads)
                for p, grad in zip(params, grads):
                    p.add_(grad, alpha=-group["lr"])

    params = [lib.ones(2, requires_grad=True), lib.ones(2, dtype=lib.complex64, requires_grad=True)]
    sum((p * p.conj()).real.sum() for p in params).backward()
    Plain(params).step()
    assert all(p.tolist() == [0, 0] for p in params) and lib.is_grad_enabled()


def rates_of_a_schedule_saved_by_an_older_version(lib):
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
    schedule = lib.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2.0, total_steps=6)
    del schedule._anneal_func_type
    schedule.load_state_dict({**schedule.state_dict(), "anneal_func": schedule._annealing_linear})
    rates = []
    for _ in range(5):
        optimizer.step()
        schedule.step()
        rates += [*schedule.get_last_lr(), optimizer.param_groups[0]["momentum"]]
    return rates


def test_a_schedule_saved_by_an_older_version():
    ours, theirs = map(rates_of_a_schedule_saved_by_an_older_version, (plugrad, torch))
    assert ours == pytest.approx(theirs)


def test_a_counter_is_saved_as_data():
    counter = collections.Counter({3: 2, "a": 1})
    file = io.BytesIO()
    plugrad.save({"milestones": counter}, file)
    file.seek(0)
    loaded = plugrad.load(file, weights_only=True)["milestones"]
    assert type(loaded) is collections.Counter and loaded == counter


@BOTH
@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("ndim", range(1, 7))
def test_channel_dropout_of_other_shapes(lib, n, ndim):
    function = getattr(lib.nn.functional, f"dropout{n}d")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(lib.ones([3] * ndim), 0.5)
        except RuntimeError:
            assert (n, ndim) == (2, 1)
            return
    usual = ndim in (n + 1, n + 2) and (n, ndim) != (2, 3)
    assert bool(caught) is not usual
    channels = (0,) if n == 3 and ndim != 5 else (0, 1)  # a 3-d function takes other numbers of dimensions as one image
    rest = tuple(range(len(channels), ndim))
    assert not rest or bool((result.amax(rest) == result.amin(rest)).all())


@BOTH
def test_next_functions_of_a_function_are_of_its_tensors(lib):
    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, factor, x, name, y):
            return factor * x * y

        @staticmethod
        def backward(ctx, grad):
            return None, grad, None, grad

    x, y = lib.ones(2, requires_grad=True), lib.ones(2)
    functions = Scaled.apply(3.0, x, "name", y).grad_fn.next_functions
    assert [node and node.name() for node, _ in functions] == ["torch::autograd::AccumulateGrad", None]


def test_layers_whose_inner_methods_others_call_or_override():
    def convolved(lib, mode="circular"):
        class Standardized(lib.nn.Conv2d):
            def _conv_forward(self, input, weight, bias):
                return super()._conv_forward(input, weight - weight.mean(), bias)

        layer = Standardized(1, 1, (3, 2), padding=(1, 2), padding_mode=mode)
        with lib.no_grad():
            layer.weight.copy_(lib.arange(6.0).view(1, 1, 3, 2))
            layer.bias.zero_()
        x = lib.arange(12.0).view(1, 1, 3, 4)
        twice = layer._conv_forward(x, layer.weight * 2, None)
        return layer(x), twice, list(layer._reversed_padding_repeated_twice)

    def attended(lib):
        class Encoder(lib.nn.TransformerEncoderLayer):
            def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
                return x * 2

            def _ff_block(self, x):
                return x + 1

        class Decoder(lib.nn.TransformerDecoderLayer):
            def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
                return super()._mha_block(x * 0, mem * 0, attn_mask, key_padding_mask, is_causal) * 0 + mem[:1]

            _sa_block, _ff_block = Encoder._sa_block, Encoder._ff_block

        x = lib.arange(8.0).view(2, 1, 4).sin()
        return Encoder(4, 2, 8)(x), Decoder(4, 2, 8)(x, x + 1)

    beside(convolved)
    beside(lambda lib: convolved(lib, "zeros"))
    beside(lambda lib: [lib.round(one, decimals=4) for one in attended(lib)])


def test_whether_a_device_was_used_as_networks_ask():
    beside(lambda lib: lib.cuda._initialized)
