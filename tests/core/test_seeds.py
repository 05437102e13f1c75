"""The programs of the documents that plugrad was built from: they run, and give what the documents say."""

import math
import warnings

import numpy as np
import pytest

import plugrad as torch
from plugrad import nn
from plugrad.autograd import Function, Variable, gradcheck

pytestmark = pytest.mark.filterwarnings("ignore:.*`plugrad migrate FILE`:DeprecationWarning")  # they are old programs

# ------------------------------------------------------------------------------------------ new functions


class OldLinear(Function):
    """The instance style: `self` is the context, and the call is on an instance."""

    def forward(self, input, weight, bias=None):
        self.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    def backward(self, grad_output):
        input, weight, bias = self.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if self.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if self.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and self.needs_input_grad[2]:
            grad_bias = grad_output.sum(0).squeeze(0)
        return grad_input, grad_weight, grad_bias


class LinearFunction(Function):
    """The static style."""

    forward = staticmethod(OldLinear.forward)
    backward = staticmethod(OldLinear.backward)


class MyReLU(Function):
    """Without @staticmethod, but with `ctx` and `apply`."""

    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_x = grad_output.clone()
        grad_x[x < 0] = 0
        return grad_x


class MulConstant(Function):
    @staticmethod
    def forward(ctx, tensor, constant):
        ctx.constant = constant
        return tensor * constant

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.constant, None


class AddConstant(Function):
    """Old style with an argument of the constructor."""

    def __init__(self, constant):
        self.constant = constant

    def forward(self, tensor):
        return tensor + self.constant

    def backward(self, grad_output):
        return grad_output


class Transpose(Function):
    def __init__(self, *dims):
        self.dims = dims

    def forward(self, tensor):
        return tensor.transpose(*self.dims)

    def backward(self, grad_output):
        return grad_output.transpose(*self.dims)


def double(*shape):
    return Variable(torch.randn(*shape).double(), requires_grad=True)


def test_gradcheck_of_the_old_style_linear():
    input = (double(20, 20), double(30, 20))
    assert gradcheck(OldLinear(), input, eps=1e-6, atol=1e-4) is True


@pytest.mark.parametrize("bias", [False, True])
def test_old_and_new_style_are_the_linear_of_nn(bias):
    tensors = [double(10, 4), double(3, 4), *([double(3)] if bias else [])]
    expected = nn.functional.linear(*tensors)
    expected_grads = torch.autograd.grad(expected.sum(), tensors)
    for function in (OldLinear(), LinearFunction.apply):
        output = function(*tensors)
        assert torch.allclose(output, expected)
        for g, right in zip(torch.autograd.grad(output.sum(), tensors), expected_grads, strict=True):
            assert torch.allclose(g, right)
    if bias:
        assert gradcheck(LinearFunction.apply, tuple(tensors)) is True


def test_a_helper_makes_the_old_style_callable():
    def linear(input, weight, bias=None):
        return OldLinear()(input, weight, bias)

    x, weight = torch.randn(10, 4, requires_grad=True), torch.randn(3, 4)
    output = linear(x, weight)
    assert torch.allclose(output, nn.functional.linear(x, weight))
    assert type(output.grad_fn).__name__ == "OldLinearBackward"


def test_the_static_linear_prints_sizes(capsys):
    linear = LinearFunction.apply
    _input = torch.randn((10, 4), dtype=torch.float, requires_grad=True)
    print(_input.size())
    weight = torch.randn((3, 4))
    print(weight.size())
    output = linear(_input, weight)
    print(output.size())
    assert capsys.readouterr().out.split("\n")[:3] == [f"torch.Size([{a}, {b}])" for a, b in ((10, 4), (3, 4), (10, 3))]
    output.sum().backward()
    assert weight.grad is None and torch.allclose(_input.grad, weight.sum(0).expand(10, 4))


def test_needs_input_grad_and_the_counts_of_arguments():
    seen = {}

    class Counting(Function):
        @staticmethod
        def forward(ctx, a, b):
            seen["needs"] = ctx.needs_input_grad
            seen["inputs"] = ctx.num_inputs
            return a * b

        @staticmethod
        def backward(ctx, grad_output):
            seen["outputs"] = ctx.num_outputs
            return grad_output, None

    Counting.apply(torch.ones(2, requires_grad=True), torch.ones(2)).sum().backward()
    assert seen["needs"] == (True, False)
    assert seen["inputs"] == 2 and seen["outputs"] == 1


def test_relu_without_staticmethod():
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = MyReLU.apply(x)
    assert y.tolist() == [0, 2]
    y.sum().backward()
    assert x.grad.tolist() == [0, 1]
    assert MyReLU()(x).tolist() == [0, 2]


def test_multiplying_by_a_constant():
    mul_constant = MulConstant.apply
    _input = torch.tensor([1.0], requires_grad=True)
    y = mul_constant(_input, torch.tensor([2.0]))
    assert f"{y} {y.requires_grad}" == "tensor([2.], grad_fn=<MulConstantBackward>) True"
    y.backward()
    assert _input.grad.tolist() == [2]


def test_arguments_of_the_constructor():
    x = torch.ones(2, 3, requires_grad=True)
    (AddConstant(4)(x).sum() + Transpose(0, 1)(x).sum()).backward()
    assert AddConstant(4)(x).tolist() == [[5.0] * 3] * 2
    assert Transpose(0, 1)(torch.arange(6.0).reshape(2, 3)).tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.grad.tolist() == [[2.0] * 3] * 2


# ------------------------------------------------------------------------------------------ new modules


class OldLinearModule(nn.Module):
    """As the document has it: no call of the base's constructor, and `.data` filled in place."""

    def __init__(self, input_features, output_features, bias=True):
        self.input_features = input_features
        self.output_features = output_features
        self.weight = nn.Parameter(torch.Tensor(output_features, input_features))
        if bias:
            self.bias = nn.Parameter(torch.Tensor(output_features))
        else:
            self.register_parameter("bias", None)
        self.weight.data.uniform_(-0.1, 0.1)
        if self.bias is not None:
            self.bias.data.uniform_(-0.1, 0.1)

    def forward(self, input):
        return OldLinear()(input, self.weight, self.bias)


@pytest.mark.parametrize("bias", [True, False])
def test_a_module_without_the_constructor_of_its_base(bias):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = OldLinearModule(4, 3, bias)
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"][: 1 + bias]
    assert float(layer.weight.detach().abs().max()) <= 0.1 and layer.weight.requires_grad
    x = torch.randn(5, 4)
    output = layer(x)
    output.sum().backward()
    assert torch.allclose(output, nn.functional.linear(x, layer.weight, layer.bias))
    assert torch.allclose(layer.weight.grad, x.sum(0).expand(3, 4))
    assert set(layer.state_dict()) == {"weight", "bias"} - (set() if bias else {"bias"})


def test_a_module_around_any_function():
    class Lambda(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, x):
            return self.f(x)

    assert Lambda(lambda x: x * 2)(torch.ones(2)).tolist() == [2, 2]
    assert list(nn.Sequential(Lambda(torch.relu), nn.Linear(2, 1)).state_dict()) == ["1.weight", "1.bias"]


def test_a_sequential_model():
    torch.manual_seed(0)
    N, D_in, H, D_out = 64, 1000, 100, 10
    X, y = torch.randn(N, D_in), torch.randn(N, D_out)
    model = torch.nn.Sequential(torch.nn.Linear(D_in, H), torch.nn.ReLU(), torch.nn.Linear(H, D_out))
    loss = torch.nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        value = loss(model(X), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.9 * losses[0]
    assert [tuple(p.shape) for p in model.parameters()] == [(100, 1000), (100,), (10, 100), (10,)]


def test_extra_state_travels_in_the_state_dict():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x

        def get_extra_state(self):
            return {"calls": self.calls}

        def set_extra_state(self, state):
            self.calls = state["calls"]

    counter, other = Counter(), Counter()
    counter(torch.ones(1))
    assert counter.state_dict() == {"_extra_state": {"calls": 1}}
    other.load_state_dict(counter.state_dict())
    assert other.calls == 1


def test_a_module_tracks_parameters_and_buffers_only():
    module = nn.Module()
    module.kept, module.loose = nn.Parameter(torch.ones(1)), torch.ones(1)
    module.register_buffer("buffer", torch.zeros(2))
    assert set(module.state_dict()) == {"kept", "buffer"}
    assert module.double().buffer.dtype is torch.float64 and module.loose.dtype is torch.float32


# ------------------------------------------------------------------------------------------ tensors, variables


def test_ways_to_make_a_tensor(capsys):
    for x in (torch.Tensor(5, 3), torch.randn(5, 3), torch.zeros(5, 3), torch.ones(5, 3)):
        print(x)
        assert x.shape == (5, 3) and x.dtype is torch.float32
    assert "tensor([[0., 0., 0.],\n        [0., 0., 0.]," in capsys.readouterr().out
    x = torch.from_numpy(np.random.rand(5, 2))
    assert x.dtype is torch.float64 and "dtype=torch.float64" in repr(x)
    x = torch.Tensor(5, 3).uniform_(-1, 1)
    assert (x.abs() <= 1).all() and x.std() > 0
    x = torch.clamp(x, -0.3, 0.3)
    assert (x.abs() <= 0.3 + 1e-7).all() and (x.abs() == 0.3).any()


def test_what_a_variable_holds():
    x = Variable(torch.ones(2), requires_grad=True)
    y = (x * 3).sum()
    y.backward()
    assert isinstance(x, torch.Tensor) and torch.is_tensor(x.data)
    assert x.grad.tolist() == [3, 3] and x.grad_fn is None and y.grad_fn is not None
    assert not Variable(torch.ones(1)).requires_grad


def test_a_volatile_variable_records_nothing():
    with pytest.warns(UserWarning, match="volatile"):
        x = Variable(torch.ones(2), volatile=True)
    assert not (x * 2).requires_grad


THIRD = torch.tensor([[-0.5, 1.5, 2.0]])
LOSSES = {  # the arguments, and the loss by hand
    "L1Loss": ((torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])), 1.5),
    "MSELoss": ((torch.tensor([1.0, 2.0]), torch.tensor([0.0, 4.0])), 2.5),
    "SmoothL1Loss": ((torch.tensor([0.5, 2.0]), torch.tensor([0.0, 4.0])), (0.125 + 1.5) / 2),
    "CrossEntropyLoss": ((torch.zeros(2, 4), torch.tensor([0, 3])), math.log(4)),
    "CTCLoss": ((torch.full((1, 1, 2), math.log(0.5)), torch.tensor([[1]]), (1,), (1,)), math.log(2)),
    "NLLLoss": ((THIRD, torch.tensor([2])), -2.0),
    "PoissonNLLLoss": ((torch.tensor([1.0]), torch.tensor([3.0])), math.e - 3),
    "KLDivLoss": ((torch.tensor([math.log(0.25)]), torch.tensor([0.5])), 0.5 * math.log(2)),
    "BCELoss": ((torch.tensor([0.25]), torch.tensor([1.0])), math.log(4)),
    "BCEWithLogitsLoss": ((torch.tensor([0.0]), torch.tensor([1.0])), math.log(2)),
    "MarginRankingLoss": ((torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0])), 2.0),
    "HingeEmbeddingLoss": ((torch.tensor([0.25, 0.25]), torch.tensor([1.0, -1.0])), 0.5),
    "MultiLabelMarginLoss": ((THIRD, torch.tensor([[2, -1, 0]])), 0.5 / 3),
    "SoftMarginLoss": ((torch.tensor([0.0]), torch.tensor([1.0])), math.log(2)),
    "MultiLabelSoftMarginLoss": ((torch.zeros(1, 3), torch.ones(1, 3)), math.log(2)),
    "CosineEmbeddingLoss": ((torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([1.0])), 0.4),
    "MultiMarginLoss": ((THIRD, torch.tensor([2])), 0.5 / 3),
    "TripletMarginLoss": ((torch.tensor([[0.0]]), torch.tensor([[2.0]]), torch.tensor([[-2.5]])), 0.5),
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_list_of_losses(name):
    arguments, expected = LOSSES[name]
    assert getattr(nn, name)()(*arguments).item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", ["Adagrad", "RMSprop", "Adam", "SGD"])
def test_the_list_of_optimizers(name):
    w = torch.tensor([1.0], requires_grad=True)
    optimizer = getattr(torch.optim, name)([w], lr=0.01)
    (w * w).sum().backward()
    optimizer.step()
    first_step = {"SGD": 0.02, "RMSprop": 0.1, "Adam": 0.01, "Adagrad": 0.01}  # the gradient is 2
    assert w.item() == pytest.approx(1 - first_step[name], rel=1e-5)


# ------------------------------------------------------------------------------------------ newer developments


def test_a_module_is_made_on_a_device_and_without_data():
    assert nn.Linear(3, 2, device="meta").weight.is_meta
    assert nn.Linear(3, 2, device="cpu", dtype=torch.float64).weight.dtype is torch.float64


def test_hooks_run_around_forward():
    calls = []
    layer = nn.ReLU()
    layer.register_forward_pre_hook(lambda module, inputs: calls.append("before"))
    handle = layer.register_forward_hook(lambda module, inputs, output: calls.append("after"))
    layer(torch.ones(1))
    handle.remove()
    layer(torch.ones(1))
    assert calls == ["before", "after", "before"]
