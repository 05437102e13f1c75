"""Parametrized tensors and normalized weights: PyTorch's values, keys, classes and errors."""

import copy
import pickle

import pytest

import plugrad
from plugrad.nn.utils import parametrizations, parametrize
from support.outcomes import all_as_pytorch, fill, same_as_pytorch


def modules(T):
    """Return some parametrizations, of a library's own classes."""

    class Symmetric(T.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).T

        def right_inverse(self, x):
            return x.triu()

    class Double(T.nn.Module):
        def forward(self, x):
            return x * 2

    class Outer(T.nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) * y

        def right_inverse(self, z):
            return z[:, 0].clone(), z[0].clone()

    class Given(T.nn.Module):
        """Does what it is given, forward and back."""

        def __init__(self, forward, inverse=lambda x: x):
            super().__init__()
            self.forward, self.right_inverse = forward, inverse

    return Symmetric, Double, Outer, Given


def life(T):
    """Register, assign, differentiate, copy and remove."""
    Symmetric, Double, Outer, _ = modules(T)
    P = T.nn.utils.parametrize
    layer = fill(T.nn.Linear(3, 3))
    seen = [repr(P.register_parametrization(layer, "weight", Symmetric())), layer.weight, layer.state_dict()]
    layer.weight = T.eye(3)
    seen += [layer.weight, layer.weight.requires_grad, "weight" in dir(layer)]
    P.register_parametrization(layer, "weight", Double())
    layer(T.ones(2, 3)).sum().backward()
    seen += [layer.parametrizations.weight.original.grad, layer(T.ones(2, 3))]
    twin = copy.deepcopy(layer)
    seen += [twin.weight, type(twin).__name__, P.type_before_parametrizations(twin).__name__]
    seen += [P.is_parametrized(twin), P.is_parametrized(twin, "bias"), P.is_parametrized(T.nn.Linear(1, 1), "weight")]
    P.register_parametrization(layer, "bias", Double())
    seen += [list(layer.state_dict()), [name for name, _ in layer.named_parameters()]]
    seen.append(repr(P.remove_parametrizations(layer, "weight")))
    seen.append(repr(P.remove_parametrizations(layer, "bias", leave_parametrized=False)))
    seen += [layer.state_dict(), type(layer).__name__, layer.double().weight.dtype]
    other = fill(T.nn.Linear(3, 4))
    P.register_parametrization(other, "weight", Outer())
    other.weight = T.ones(4, 3)
    seen += [other.state_dict(), other.weight]
    third = P.transfer_parametrizations_and_params(other, fill(T.nn.Linear(3, 4), 1))
    seen += [third.state_dict(), third.parametrizations.weight.original0 is other.parametrizations.weight.original0]
    seen.append(P.remove_parametrizations(other, "weight").weight.requires_grad)
    return seen


def buffers_and_modes(T):
    _, Double, *_ = modules(T)
    norm = T.nn.BatchNorm1d(3).eval()
    T.nn.utils.parametrize.register_parametrization(norm, "running_mean", Double())
    modes = [norm.parametrizations.training, norm.parametrizations.running_mean[0].training]
    return repr(norm), list(norm.state_dict()), modes, norm(T.ones(2, 3)), norm.double().running_mean.dtype


def optimized(T):
    layer = T.nn.utils.parametrizations.weight_norm(fill(T.nn.Linear(3, 2)))
    optimizer = T.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        layer(T.ones(2, 3)).pow(2).sum().backward()
        optimizer.step()
    values = {key: value * 2 for key, value in layer.state_dict().items()}
    return layer.state_dict(), T.func.functional_call(layer, values, T.ones(1, 3)), layer.weight


def called_with_other_weights(T):
    """A parametrized tensor is replaced by its own name, too; attributes that a hook computes are computed again."""
    call, x = T.func.functional_call, T.ones(1, 3)
    new = T.nn.utils.parametrizations.weight_norm(fill(T.nn.Linear(3, 2)))
    old = T.nn.utils.weight_norm(fill(T.nn.Linear(3, 2)))
    seen = [call(new, {"weight": T.ones(2, 3), "bias": T.zeros(2)}, x), new.weight]
    seen += [call(old, {"weight_g": T.zeros(2, 1)}, x), call(old, {"weight": T.ones(2, 3)}, x), old(x)]
    return seen


def kept(T):
    Symmetric, *_ = modules(T)
    P = T.nn.utils.parametrize
    layer = P.register_parametrization(T.nn.Linear(2, 2), "weight", Symmetric())
    with P.cached():
        first = layer.weight
        with P.cached():
            second = layer.weight
        third = layer.weight
    return first is second, second is third, layer.weight is first


@pytest.mark.parametrize("case", [life, buffers_and_modes, optimized, called_with_other_weights, kept])
def test_as_in_pytorch(case):
    same_as_pytorch(case)


def refusals(T):
    _, Double, Outer, Given = modules(T)
    P, linear = T.nn.utils.parametrize, T.nn.Linear
    wrong = [lambda x: 1, lambda x: x.bool(), lambda x: x[0], lambda x: [x, 1], lambda x: {}]
    for function in wrong:
        for module in (Given(function), Given(lambda x: x, function)):
            for unsafe in (False, True):
                once = linear(2, 2)
                yield lambda m=module, o=once, u=unsafe: P.register_parametrization(o, "weight", m, unsafe=u) and None
            twice = P.register_parametrization(linear(2, 2), "weight", Double())
            yield lambda m=module, t=twice: P.register_parametrization(t, "weight", m) and None
    doubled = P.register_parametrization(linear(2, 2), "weight", Double())
    yield lambda: setattr(doubled, "weight", T.eye(2))
    yield lambda: setattr(doubled, "weight", T.nn.Parameter(T.eye(2)))
    yield lambda: pickle.dumps(doubled)
    yield lambda: copy.copy(doubled)
    yield lambda: P.remove_parametrizations(doubled, "bias")
    yield lambda: P.register_parametrization(linear(2, 2), "nothing", Double())
    yield lambda: P.ParametrizationList([], T.ones(2))
    outer = P.register_parametrization(linear(2, 2), "weight", Outer())
    yield lambda: P.remove_parametrizations(outer, "weight", leave_parametrized=False)
    for value in (1, [T.ones(2)], [T.ones(2), 1], [T.ones(2), T.ones(2).double()]):
        several = P.register_parametrization(linear(2, 2), "weight", Outer())
        several.parametrizations.weight[0].right_inverse = lambda x, value=value: value
        yield lambda s=several: setattr(s, "weight", T.ones(2, 2))


def test_refusals():
    all_as_pytorch(refusals)


def test_gradients_to_a_weight_that_replaces_a_parametrized_one():
    layer = parametrizations.weight_norm(plugrad.nn.Linear(3, 2))
    weight = plugrad.ones(2, 3, requires_grad=True)
    plugrad.func.functional_call(layer, {"weight": weight}, plugrad.ones(1, 3)).sum().backward()
    assert weight.grad.tolist() == [[1.0] * 3] * 2 and layer.parametrizations.weight.original0.grad is None


def test_a_copy_may_be_changed_alone():
    layer = parametrizations.weight_norm(plugrad.nn.Linear(2, 2))
    parametrize.remove_parametrizations(copy.deepcopy(layer), "weight")
    assert layer.weight.shape == (2, 2)


class Kept(plugrad.nn.Module):
    """A layer with slots of its own for pickling."""

    def __init__(self):
        super().__init__()
        self.weight, self.cache = plugrad.nn.Parameter(plugrad.ones(2)), object()

    def __getstate__(self):
        return {key: value for key, value in super().__getstate__().items() if key != "cache"}

    def forward(self, x):
        return x * self.weight


def test_layers_of_others_keep_their_way_of_copying():
    layer = parametrize.register_parametrization(Kept(), "weight", plugrad.nn.Softplus())
    assert not hasattr(copy.deepcopy(layer), "cache") and hasattr(layer, "cache")
    calls = []
    layer.register_forward_hook(lambda *call: calls.append(call))
    layer(plugrad.ones(2)).sum().backward()
    assert len(calls) == 1 and layer.parametrizations.weight.original.grad is not None


def normalized(T, dim, shape):
    layer = fill(T.nn.Conv1d(*shape))
    new = T.nn.utils.parametrizations.weight_norm(copy.deepcopy(layer), dim=dim)
    old = T.nn.utils.weight_norm(layer, dim=dim)
    x = T.ones(1, shape[0], 4)
    new(x).sum().backward()
    old(x).sum().backward()
    seen = [repr(new), new.state_dict(), repr(old), old.state_dict(), new(x), old(x)]
    seen += [[p.grad for p in layer.parameters()] for layer in (new, old)]
    fill(new, 1).load_state_dict(old.state_dict())
    seen.append(new.weight)
    return [*seen, repr(T.nn.utils.remove_weight_norm(old)), old.state_dict(), len(old._forward_pre_hooks)]


@pytest.mark.parametrize("dim", [0, 1, 2, None])
def test_weight_norm(dim):
    same_as_pytorch(normalized, dim, (2, 3, 2))


def spectral(T, make):
    x = T.ones((2, 3) if make == "Linear" else (2, 3, 4))
    build = {"Linear": lambda: T.nn.Linear(3, 4), "Transposed": lambda: T.nn.ConvTranspose1d(3, 4, 2)}[make]
    seen = []
    for name in ("parametrizations", "utils"):
        layer = fill(build())
        home = T.nn.utils.parametrizations if name == "parametrizations" else T.nn.utils
        seen.append(repr(home.spectral_norm(layer)))
        for buffer in layer.buffers():
            buffer.copy_(T.arange(1.0, buffer.numel() + 1) / buffer.numel())
        seen += [layer(x), layer(x)]
        (layer(x) - layer(x)).pow(2).sum().backward()
        seen += [[p.grad for p in layer.parameters()], layer.eval()(x), layer(x), layer.state_dict()]
    state = layer.state_dict()
    versions = state._metadata[""]
    again = T.nn.utils.spectral_norm(fill(build(), 1)).eval()
    again.load_state_dict(state)
    seen += [again(x), versions]
    del state["weight_v"], state._metadata[""]["spectral_norm"]
    state["weight"] = layer.weight.detach()
    old = T.nn.utils.spectral_norm(fill(build(), 1)).eval()
    seen += [list(old.load_state_dict(state)), old(x)]
    return [*seen, repr(T.nn.utils.remove_spectral_norm(layer)), layer.state_dict(), len(layer._state_dict_hooks)]


@pytest.mark.parametrize("make", ["Linear", "Transposed"])
def test_spectral_norm(make):
    same_as_pytorch(spectral, make, rtol=1e-3)


def norm_refusals(T):
    new, old, linear = T.nn.utils.parametrizations, T.nn.utils, T.nn.Linear
    yield lambda: new.spectral_norm(linear(2, 3), n_power_iterations=0)
    yield lambda: old.spectral_norm(linear(2, 3), n_power_iterations=0)
    yield lambda: new.spectral_norm(linear(2, 3), dim=3)
    yield lambda: new.spectral_norm(linear(2, 3), name="x")
    yield lambda: old.spectral_norm(linear(2, 3), name="x")
    yield lambda: old.spectral_norm(linear(2, 3, bias=False), name="bias")
    yield lambda: old.spectral_norm(old.spectral_norm(linear(2, 3)))
    yield lambda: old.weight_norm(old.weight_norm(linear(2, 3)))
    yield lambda: old.remove_weight_norm(linear(2, 3))
    yield lambda: old.remove_spectral_norm(linear(2, 3))
    yield lambda: new.orthogonal(linear(3, 3), orthogonal_map="x")
    yield lambda: new.orthogonal(linear(3, 3), "bias")
    yield lambda: new.orthogonal(linear(3, 3), "x")
    yield lambda: new.orthogonal(linear(3, 3, dtype=T.complex64), orthogonal_map="householder")
    yield lambda: old.skip_init(int)
    yield lambda: old.clip_grad_norm_((p for p in ()), 1.0)
    yield lambda: old.clip_grad_norm([T.ones(1, requires_grad=True)], 1.0)
    yield lambda: new.spectral_norm(fill(linear(2, 3)), name="bias").bias


def test_refusals_of_norms():
    all_as_pytorch(norm_refusals)


def orthogonal(T, shape, orthogonal_map, use_trivialization):
    layer, parametrized = fill(T.nn.Linear(*shape)), T.nn.utils.parametrizations.orthogonal
    layer = parametrized(layer, "weight", orthogonal_map, use_trivialization=use_trivialization)
    layer(T.ones(1, shape[0])).pow(2).sum().backward()
    drawn = use_trivialization and shape[0] != shape[1]  # the rest of `base` is random
    seen = [] if drawn else [layer.weight, layer.parametrizations.weight.original.grad]
    wide = layer.weight.detach() if shape[1] <= shape[0] else layer.weight.detach().T
    assert T.allclose(wide @ wide.mH, T.eye(len(wide)), atol=1e-5)
    seen += [list(layer.state_dict()), repr(layer)]
    layer.weight = T.eye(shape[1], shape[0])
    return [*seen, T.allclose(layer.weight, T.eye(shape[1], shape[0]), atol=1e-5)]


@pytest.mark.parametrize("use_trivialization", [True, False])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (5, 3)])
def test_orthogonal(shape, orthogonal_map, use_trivialization):
    same_as_pytorch(orthogonal, shape, orthogonal_map, use_trivialization, rtol=1e-3, atol=1e-4)


def test_unitary():
    layer = parametrizations.orthogonal(plugrad.nn.Linear(3, 5, dtype=plugrad.complex64))
    assert plugrad.allclose(layer.weight.mH @ layer.weight, plugrad.eye(3, dtype=plugrad.complex64), atol=1e-5)


def recurrent(T):
    lstm = T.nn.utils.parametrizations.weight_norm(fill(T.nn.LSTM(3, 4)), "weight_hh_l0")
    lstm(T.ones(2, 1, 3))[0].sum().backward()
    attention = T.nn.utils.parametrizations.spectral_norm(T.nn.MultiheadAttention(4, 2), "in_proj_weight")
    attention(*[T.ones(2, 1, 4)] * 3)
    return lstm.state_dict(), [p.grad for p in lstm.parameters()], list(attention.state_dict())


def fused(T, convolution, norm, transpose, bias):
    layer = fill(getattr(T.nn, convolution)(2, 3, **({} if convolution == "Linear" else {"kernel_size": 2}), bias=bias))
    norm = fill(getattr(T.nn, norm)(3)).eval()
    norm.running_var.abs_()
    if convolution == "Linear":
        merged = T.nn.utils.fuse_linear_bn_eval(layer.eval(), norm)
    else:
        merged = T.nn.utils.fuse_conv_bn_eval(layer.eval(), norm, transpose)
    return [[p, p.requires_grad] for p in merged.parameters()]


@pytest.mark.parametrize(
    ("layer", "norm", "transpose"),
    [
        ("Conv1d", "BatchNorm1d", False),
        ("Conv2d", "BatchNorm2d", False),
        ("Conv3d", "BatchNorm3d", False),
        ("ConvTranspose2d", "BatchNorm2d", True),
        ("Linear", "BatchNorm1d", False),
    ],
)
@pytest.mark.parametrize("bias", [True, False])
def test_fusion(layer, norm, transpose, bias):
    same_as_pytorch(fused, layer, norm, transpose, bias)


def unfusable(T):
    nn, fuse = T.nn, T.nn.utils
    yield lambda: fuse.fuse_linear_bn_eval(nn.Linear(2, 3), nn.BatchNorm1d(3))
    yield lambda: fuse.fuse_linear_bn_eval(nn.Linear(2, 3).eval(), nn.BatchNorm1d(2).eval())
    yield lambda: fuse.fuse_conv_bn_eval(
        nn.Conv1d(2, 3, 1).eval(), nn.BatchNorm1d(3, track_running_stats=False).eval()
    )
    yield lambda: [
        p.dtype for p in fuse.fuse_conv_bn_eval(nn.Conv1d(2, 3, 1).half().eval(), nn.BatchNorm1d(3).eval()).parameters()
    ]
    yield lambda: fuse.convert_conv2d_weight_memory_format(
        nn.Sequential(nn.Conv2d(4, 3, 2), nn.Linear(2, 2)), T.channels_last
    )[0].weight.stride()


def test_what_does_not_fuse_and_formats():
    all_as_pytorch(unfusable)


def test_layers_with_several_weights():
    same_as_pytorch(recurrent)
