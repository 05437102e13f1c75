"""Random numbers like another tensor are drawn in the order of its memory: equal seeds give PyTorch's numbers there."""

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

SHAPES = [(2, 3), (4, 5, 6), (3, 2, 2, 8), (5, 40)]
ORDERS = {
    "row-major": lambda x: x,
    "reversed": lambda x: x.permute(*reversed(range(x.ndim))),
    "transposed": lambda x: x.transpose(0, 1),
    "expanded": lambda x: x.reshape(-1)[:1].expand(x.shape),
    "every second": lambda x: x[..., ::2],
    "flipped": lambda x: x.flip(0),
}


def probabilities(T, x, shape):
    return T.linspace(0, 1, int(numpy.prod(shape)), dtype=x.dtype).reshape(shape)


DRAWS = {
    "rand_like": lambda T, x: T.rand_like(x),
    "randn_like": lambda T, x: T.randn_like(x),
    "randint_like": lambda T, x: T.randint_like(x, 3, 100),
    "channels_last": lambda T, x: T.randn_like(x, memory_format=T.channels_last) if x.ndim == 4 else T.zeros(1),
    "contiguous_format": lambda T, x: T.rand_like(x, memory_format=T.contiguous_format),
    "dropout": lambda T, x: T.nn.functional.dropout(x + 1, 0.5),
    "alpha_dropout": lambda T, x: T.nn.functional.alpha_dropout(x + 1, 0.5, training=True),
    "bernoulli": lambda T, x: T.bernoulli(x + 0.5),
    "normal": lambda T, x: T.normal(x, x + 1),
    "gumbel_softmax": lambda T, x: T.nn.functional.gumbel_softmax(x, dim=-1),
    "bernoulli_": lambda T, x: x.clone().bernoulli_(0.3),
    "bernoulli_ of as many probabilities": lambda T, x: x.clone().bernoulli_(probabilities(T, x, x.shape)),
    "bernoulli_ of a row": lambda T, x: x.clone().bernoulli_(probabilities(T, x, x.shape[-1:])),
    "bernoulli_ of a column": lambda T, x: x.clone().bernoulli_(probabilities(T, x, (*x.shape[:-1], 1))),
    "uniform_": lambda T, x: x.clone().uniform_(),
    "normal_": lambda T, x: x.clone().normal_(),
    "exponential_": lambda T, x: x.clone().exponential_(),
    "geometric_": lambda T, x: x.clone().geometric_(0.3),
    "random_": lambda T, x: x.clone().random_(17),
    "rrelu": lambda T, x: T.nn.functional.rrelu(x - 1, training=True),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("draw", DRAWS)
def test_numbers_are_those_of_pytorch(draw, order, dtype):
    for shape in SHAPES:
        drawn = []
        for module in (torch, plugrad):
            module.manual_seed(7)
            x = ORDERS[order](module.zeros(*shape, dtype=getattr(module, dtype)))
            y = DRAWS[draw](module, x)
            after = module.rand(3)  # and as many numbers were taken
            drawn.append((y.numpy(), after.numpy()))
        for ours, theirs in zip(*drawn):
            numpy.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6, err_msg=str(shape))


@pytest.mark.parametrize("p", [[1.5], [-0.5, 0.5, 0.1], [float("nan")], [0.5, 0.5]])
def test_no_probabilities_are_refused(p):
    for module in (torch, plugrad):
        with pytest.raises(RuntimeError, match="p_in >= 0|must match|do not fit"):
            module.zeros(3).bernoulli_(module.tensor(p))
