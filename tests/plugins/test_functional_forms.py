"""Every layer has a function, written or derived from its class, that gives the same bits."""

import inspect
import pickle

import pytest

import plugrad
from plugrad import nn, registry
from plugrad.nn import functional as F
from plugrad.nn.forms import function_name, functional_form
from plugrad.testing.calls import Skip
from plugrad.testing.checks import layers

CONTAINERS = {"Container", "DataParallel", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList"}


def classes():
    values = [getattr(nn, name) for name in sorted(registry.names_in("nn"))]
    modules = [value for value in values if inspect.isclass(value) and issubclass(value, nn.Module)]
    return [one for one in modules if one.__name__ not in CONTAINERS and not hasattr(one, "cls_to_become")]


@pytest.mark.filterwarnings("ignore:`NLLLoss2d` has been deprecated:FutureWarning")
@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_a_layer_has_a_function_that_gives_its_bits(cls):
    function = getattr(F, function_name(cls))
    assert function.__doc__ and list(inspect.signature(function).parameters)[0] not in ("self", "state")
    try:
        layers.functional_form(cls, "cpu")
    except Skip:
        pytest.skip("a base of others")


@pytest.mark.parametrize(
    ("name", "function"),
    [("LSTM", "lstm"), ("GRUCell", "gru_cell"), ("PReLU", "prelu"), ("LeakyReLU", "leaky_relu"), ("SiLU", "silu"),
     ("ReLU6", "relu6"), ("LogSoftmax", "log_softmax"), ("CTCLoss", "ctc_loss"), ("LPPool2d", "lp_pool2d"),
     ("BCEWithLogitsLoss", "bce_with_logits_loss"), ("CrossMapLRN2d", "cross_map_lrn2d")],
)  # fmt: skip
def test_it_is_called_as_the_class_in_snake_case(name, function):
    assert function_name(getattr(nn, name)) == function


class GatedBlock(nn.Module):
    """A third party's layer."""

    def __init__(self, size, sharp=False):
        super().__init__()
        self.gate, self.sharp = nn.Linear(size, size), sharp
        self.scale = nn.Parameter(plugrad.randn(size))
        self.register_buffer("calls", plugrad.zeros(()))

    def forward(self, input, *, shift=0.0):
        self.calls.add_(1)
        gate = self.gate(input).sigmoid()
        return F.dropout(input * (gate.round() if self.sharp else gate) * self.scale + shift, 0.5, self.training)


def test_a_third_partys_layer_has_one():
    layer, x = GatedBlock(3), plugrad.randn(4, 3)
    state = dict(layer.named_parameters())
    calls, numbers = plugrad.zeros(()), plugrad.get_rng_state()
    expected = layer(x, shift=1.0)
    plugrad.set_rng_state(numbers)
    result = functional_form(GatedBlock)(x, shift=1.0, size=3, state=state, calls=calls)
    assert plugrad.equal(result, expected) and calls == 1
    result.sum().backward()
    assert all(parameter.grad is not None for parameter in layer.parameters())
    assert not plugrad.equal(functional_form(GatedBlock)(x, size=3, state=state, calls=calls, training=False), expected)


def test_a_registered_layer_has_one_by_name():
    from plugrad.extend import register, unregister

    with pytest.raises(AttributeError, match="gated_block"):
        F.gated_block  # noqa: B018
    register(GatedBlock)
    try:
        assert F.gated_block is F.gated_block is functional_form(GatedBlock)
        assert list(inspect.signature(F.gated_block).parameters) == [
            "input", "size", "sharp", "state", "training", "tensors",
        ]  # fmt: skip
    finally:
        unregister(GatedBlock)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.lstm(x, input_size=3, hidden_size=2), "lstm.. misses the tensors weight_ih_l0"),
        (lambda x: F.zero_pad2d(x, padding=1, pading=2), "unexpected keyword argument 'pading'"),
        (lambda x: F.zero_pad2d(x), "the options are those of ZeroPad2d"),
        (lambda x: functional_form(x), "takes a Module class"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(call, message):
    with pytest.raises(TypeError, match=message):
        call(plugrad.ones(1, 3, 3))


def test_it_draws_no_random_numbers_and_is_pickled_by_name():
    layer = nn.RNNCell(2, 2)
    numbers = plugrad.get_rng_state()
    F.rnn_cell(plugrad.ones(1, 2), input_size=2, hidden_size=2, state=layer.state_dict())
    assert plugrad.equal(plugrad.get_rng_state(), numbers)
    assert pickle.loads(pickle.dumps(F.rnn_cell)) is F.rnn_cell
