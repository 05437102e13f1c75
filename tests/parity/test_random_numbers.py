"""One seed gives PyTorch's numbers on the CPU, and leaves the generator where PyTorch's is."""

# ruff: noqa: B023, E731 (functions of loop variables are called at once)
from __future__ import annotations

import math

import numpy
import pytest

import plugrad
from plugrad import kernels

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("uint8", "int8", "int16", "int32", "int64", "bool")
SIZES = ((0,), (), (1,), (7,), (15,), (16,), (17,), (31,), (32,), (5, 7), (3, 4, 5), (1000,))
# Logarithm and cosine are rounded differently; PyTorch's own do from one kind of processor to the next.
CLOSE = {"float32": 2e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1.6e-2, "complex64": 2e-6, "complex128": 1e-12}


def numbers(value):
    if hasattr(value, "detach"):
        value = value.detach()
        value = value.double() if value.dtype.is_floating_point else value
        return numpy.array(value.tolist())
    return numpy.array(value)


def state(library):
    """Bytes of the generator's state, with the number of a pair that waits apart."""
    data = bytes(library.get_rng_state().tolist())
    assert len(data) == 5056
    return data[:5016], numpy.frombuffer(data[5024:5032])[0], data[5032:]


def compare(torch, draw, tolerance=0.0, seed=11):
    """`draw(library)` gives equal numbers, in a tensor or a list, and leaves the generator in an equal state."""
    results = []
    for library in (plugrad, torch):
        library.manual_seed(seed)
        drawn = draw(library)
        drawn = [*drawn] if isinstance(drawn, (list, tuple)) else [drawn]
        results.append([numbers(value) for value in drawn])
    (words, spare, flag), (their_words, their_spare, their_flag) = state(plugrad), state(torch)
    assert words == their_words and flag == their_flag
    if flag[0]:
        assert abs(spare - their_spare) <= 1e-14
    for ours, theirs in zip(*results, strict=True):
        assert ours.shape == theirs.shape
        numpy.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [*FLOATS, "complex64", "complex128"])
def test_uniform_and_normal(torch, name):
    for size in SIZES:
        compare(torch, lambda lib: lib.rand(size, dtype=getattr(lib, name)))
        compare(torch, lambda lib: lib.randn(size, dtype=getattr(lib, name)), CLOSE[name])
        compare(torch, lambda lib: lib.empty(size, dtype=getattr(lib, name)).normal_(1, 2), 2 * CLOSE[name])
        compare(torch, lambda lib: lib.normal(1.0, 2.0, size, dtype=getattr(lib, name)), 2 * CLOSE[name])


@pytest.mark.skipif(kernels.level() in (None, "base"), reason="PyTorch's own bits depend on the processor, too")
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_normal_numbers_bit_for_bit(torch, name):
    """The functions in C are the polynomials that PyTorch has for floats, and the C library's for doubles."""
    for size in (*SIZES, (100_003,)):
        compare(torch, lambda lib: lib.randn(size, dtype=getattr(lib, name)))
        compare(torch, lambda lib: lib.empty(size, dtype=getattr(lib, name)).normal_(0.3, 1.7))
        compare(torch, lambda lib: lib.randn(size, dtype=getattr(lib, name).to_complex()))
        compare(torch, lambda lib: lib.nn.Embedding(5, 7, dtype=getattr(lib, name)).weight)


@pytest.mark.parametrize("name", FLOATS)
def test_bounds_of_uniform_numbers_bit_for_bit(torch, name):
    """PyTorch's product and sum are one instruction, which rounds once."""
    for low, high in ((-0.378, 0.378), (0.1, 0.2), (-5, 5), (100, 103.3), (0, 3.3), (0, 1e-30), (-1e-3, 1e-7), (2, 2)):
        compare(torch, lambda lib: lib.empty(20011, dtype=getattr(lib, name)).uniform_(low, high))
    if name == "float32":  # a sum in float64 that is rounded again ends in another digit for one of them
        compare(torch, lambda lib: lib.empty(30000, dtype=lib.float32).uniform_(1e-30, 1e30), seed=30003)
    if name == "float64":
        for low, high in ((0, 1e-300), (-1e-300, 1e-299), (-1e300, 1e300), (-1e200, 3.0)):
            compare(torch, lambda lib: lib.empty(999, dtype=lib.float64).uniform_(low, high))


@pytest.mark.parametrize("name", FLOATS)
def test_continuous_fillings(torch, name):
    fillings = {
        "uniform_": (-0.3, 1.7), "exponential_": (1.5,), "cauchy_": (1.0, 2.0), "log_normal_": (0.5, 0.7),
        "geometric_": (0.3,), "bernoulli_": (0.3,),
    }  # fmt: skip
    for size in SIZES:
        for method, arguments in fillings.items():
            filled = lambda lib: getattr(lib.empty(size, dtype=getattr(lib, name)), method)(*arguments)
            compare(torch, filled, 4 * CLOSE[name])
        ones = lambda lib: lib.ones(size, dtype=getattr(lib, name))
        compare(torch, lambda lib: lib.bernoulli(0.4 * ones(lib)))
        compare(torch, lambda lib: lib.empty(size).bernoulli_(0.4 * ones(lib)))
        compare(torch, lambda lib: lib.normal(1.5 * ones(lib), 0.5 * ones(lib)), 2 * CLOSE[name])
        compare(torch, lambda lib: [lib.poisson(3.7 * ones(lib)), lib.poisson(37.5 * ones(lib))])


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_gamma_dirichlet_binomial(torch, name):
    for size in SIZES:
        for alpha in (0.0, 0.01, 0.7, 1.0, 3.7, 900.0):
            full = lambda lib: lib.full(size, alpha, dtype=getattr(lib, name))
            compare(torch, lambda lib: lib._standard_gamma(full(lib)), CLOSE[name])
            if size and alpha:
                compare(torch, lambda lib: lib._sample_dirichlet(full(lib)), CLOSE[name])
        for n, p in ((5.0, 0.3), (100.0, 0.3), (100.0, 0.8), (3.0, 1.0), (0.0, 0.5), (1e6, 0.4)):
            if n == 1e6 and name == "float32":
                continue  # PyTorch's arithmetic of float32 rounds to whole numbers there
            pair = lambda lib: [lib.full(size, one, dtype=getattr(lib, name)) for one in (n, p)]
            compare(torch, lambda lib: lib.binomial(*pair(lib)))


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_integers(torch, name):
    for size in SIZES:
        empty = lambda lib: lib.empty(size, dtype=getattr(lib, name))
        compare(torch, lambda lib: [empty(lib).random_(), empty(lib).random_(2), empty(lib).random_(1, 2)])
        if name != "bool":
            compare(torch, lambda lib: [lib.randint(3, 90, size, dtype=getattr(lib, name)), empty(lib).random_(3, 90)])


def test_wide_ranges_of_integers(torch):
    ranges = [(0, 2**28 - 1), (0, 2**28), (0, 2**31), (-(2**62), 2**62), (-(2**63), 2**63 - 1), (-5, 2**40), (-7, None)]
    for low, high in [*ranges, (-(2**63), None)]:
        compare(torch, lambda lib: lib.empty(50, dtype=lib.int64).random_(low, high))
    for low in (0, -(2**52), 2**60, -(2**53) - 9, -(2**63)):
        for span in (1, 3, 2**20 + 1, 2**28 - 1, 2**28):
            compare(torch, lambda lib: lib.randint(low, low + span, (700,)))


@pytest.mark.parametrize("bounds", [(-1, 5), (0, 300), (256, 257), (0, 2**20), (3, 3)])
@pytest.mark.parametrize("name", ["uint8", "int16", "bool", "float16"])
def test_ranges_that_a_dtype_has_not(torch, name, bounds):
    def outcome(library):
        try:
            library.randint(*bounds, (3,), dtype=getattr(library, name))
        except RuntimeError as error:
            return str(error)
        return None

    assert outcome(plugrad) == outcome(torch)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 100, 299, 300, 3000, 65536, 65537])
def test_permutations(torch, n):
    compare(torch, lambda lib: [lib.randperm(n), lib.randperm(n, dtype=lib.float32)])


@pytest.mark.parametrize("method", ["normal_", "uniform_", "exponential_", "bernoulli_", "random_", "log_normal_"])
def test_views_are_filled_in_the_order_of_memory(torch, method):
    views = [
        lambda lib: lib.zeros(5, 9).t(), lambda lib: lib.zeros(5, 20)[:, ::2],
        lambda lib: lib.zeros(3, 5, 4).permute(2, 0, 1), lambda lib: lib.zeros(3, 4, 5)[1:, :, 1:3],
        lambda lib: lib.zeros(2, 3, 4, 4).to(memory_format=lib.channels_last),
    ]  # fmt: skip
    for view in views:
        compare(torch, lambda lib: getattr(view(lib), method)(), 2e-6)


def test_the_second_normal_number_of_a_pair_waits(torch):
    compare(
        torch,
        lambda lib: [
            lib.randn(3), lib.randn(2), lib.rand(2), lib.randn(1), lib.randn(17), lib.randn(1),
            lib._standard_gamma(lib.ones(3)), lib.randn(1),
        ],
        1e-6,
    )  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_multinomial(torch, name):
    for size in ((5,), (3, 7), (2, 100)):
        for count, replacement in ((1, False), (1, True), (3, False), (5, False), (4, True), (50, True)):
            weights = lambda lib: ((lib.arange(math.prod(size)) * 7) % 11).reshape(size)
            compare(
                torch,
                lambda lib: lib.multinomial(weights(lib).to(getattr(lib, name)), count, replacement),
            )


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0, 0.0])
def test_dropouts(torch, p):
    for name, lead in dict(dropout=0, alpha_dropout=0, feature_alpha_dropout=0, dropout1d=2, dropout2d=1).items():
        data = lambda lib: lib.arange(720.0).reshape(2, 3, 4, 5, 6)[(0,) * lead]
        compare(torch, lambda lib: getattr(lib.nn.functional, name)(data(lib), p, True), 1e-6)
    functional = lambda lib: lib.nn.functional
    compare(torch, lambda lib: functional(lib).rrelu(lib.linspace(-3, 3, 50).reshape(5, 10), training=True), 1e-6)
    for hard in (True, False):
        compare(torch, lambda lib: functional(lib).gumbel_softmax(lib.zeros(4, 5), hard=hard), 1e-6)


@pytest.mark.parametrize("size", [(3, 4), (20, 30), (8, 3, 3, 3)])
def test_initialisers(torch, size):
    names = (
        "uniform_ normal_ trunc_normal_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_"
    ).split()
    for name in names:
        compare(torch, lambda lib: getattr(lib.nn.init, name)(lib.empty(size, dtype=lib.float64)), 1e-11)
    for bounds in ((-0.04, 0.03), (0.03, 0.06), (-2, 2)):
        compare(torch, lambda lib: lib.nn.init.trunc_normal_(lib.empty(size), 0.0, 0.02, *bounds), 2e-6)
    if len(size) == 2:
        compare(torch, lambda lib: lib.nn.init.sparse_(lib.empty(size), 0.3), 1e-6)


UNIFORM = {
    "Linear": (5, 7), "Bilinear": (3, 4, 5), "Conv1d": (4, 6, 3), "Conv2d": (4, 6, 3), "Conv3d": (2, 3, 2),
    "ConvTranspose1d": (3, 4, 2), "ConvTranspose2d": (3, 4, 2), "ConvTranspose3d": (2, 3, 2), "RNN": (4, 5, 2),
    "LSTM": (4, 5, 2), "GRU": (4, 5, 2), "RNNCell": (3, 4), "LSTMCell": (3, 4), "GRUCell": (3, 4), "PReLU": (3,),
    "MultiheadAttention": (8, 2), "TransformerEncoderLayer": (8, 2, 16), "TransformerDecoderLayer": (8, 2, 16),
    "Transformer": (8, 2, 1, 1, 16), "BatchNorm2d": (3,), "LayerNorm": (3,), "GroupNorm": (2, 4),
    "AdaptiveLogSoftmaxWithLoss": (6, 20, [5, 10]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Initializing zero-element")
@pytest.mark.parametrize("name", UNIFORM)
def test_layers_begin_equal_bit_for_bit(torch, name):
    compare(torch, lambda lib: [*getattr(lib.nn, name)(*UNIFORM[name]).state_dict().values()])


@pytest.mark.parametrize("name", ["Embedding", "EmbeddingBag"])
def test_layers_of_normal_numbers_begin_equal(torch, name):
    compare(torch, lambda lib: [*getattr(lib.nn, name)(10, 3).state_dict().values()], 2e-6)


def test_data_loaders_and_samplers(torch):
    def loaded(library, generator=None, **options):
        data = library.utils.data
        loader = data.DataLoader(data.TensorDataset(library.arange(20)), 3, generator=generator, **options)
        order = []
        for _ in range(2):
            for (batch,) in loader:
                order += [*batch.tolist(), library.rand(()).item()]  # what is drawn meanwhile changes no order
        return order

    compare(torch, lambda lib: loaded(lib, shuffle=True))
    compare(torch, loaded)
    compare(torch, lambda lib: loaded(lib, shuffle=True, generator=lib.Generator().manual_seed(4)))
    samplers = {
        "RandomSampler": [(range(50),), (range(50), True, 70), (range(50), False, 70)],
        "SubsetRandomSampler": [(range(9),)], "WeightedRandomSampler": [([1.0, 2, 3, 4], 20), ([1.0, 2, 3], 3, False)],
    }  # fmt: skip
    for name, calls in samplers.items():
        for arguments in calls:
            compare(torch, lambda lib: list(getattr(lib.utils.data, name)(*arguments)))
    compare(torch, lambda lib: [part.indices for part in lib.utils.data.random_split(range(20), [15, 5])])


def test_large_draws(torch):
    """So many that the words of the generator are made many times over."""
    n = 100003
    for name in ("float32", "float64", "bfloat16", "float16"):
        compare(torch, lambda lib: lib.rand(n, dtype=getattr(lib, name)))
        compare(torch, lambda lib: lib.rand(n, 2, dtype=getattr(lib, name))[:, 0].bernoulli())
        compare(torch, lambda lib: lib.randn(n, dtype=getattr(lib, name)), CLOSE[name])
        compare(torch, lambda lib: lib.empty(n, dtype=getattr(lib, name)).geometric_(0.3))
        dropped = lambda lib: lib.nn.functional.dropout(lib.ones(n, dtype=getattr(lib, name)), 0.3) == 0
        compare(torch, dropped)
    for name in ("float16", "bfloat16"):  # to which PyTorch converts by way of float32
        for method in ("cauchy_", "log_normal_", "exponential_"):
            compare(torch, lambda lib: getattr(lib.empty(n, dtype=getattr(lib, name)), method)())


def test_states_at_the_ends_of_a_block(torch):
    """A state fresh from seeding differs from one whose block of words is used up."""
    for n in (0, 1, 623, 624, 625, 1247, 1248, 1249):
        compare(torch, lambda lib: lib.empty(n).random_())
    assert bytes(plugrad.Generator().get_state().tolist()) == bytes(torch.Generator().get_state().tolist())


def test_states_are_exchanged(torch):
    """Either library goes on where the other one's state ends: with a waiting number of a pair, too."""
    for draw in (lambda lib: lib.randn(3), lambda lib: lib.rand(700), lambda lib: lib.randperm(50)):
        torch.manual_seed(8)
        draw(torch)
        plugrad.set_rng_state(plugrad.tensor(torch.get_rng_state().tolist(), dtype=plugrad.uint8))
        ours = [plugrad.randn(3).tolist(), plugrad.rand(700).tolist()]
        theirs = [torch.randn(3).tolist(), torch.rand(700).tolist()]
        for one, other in zip(ours, theirs):
            numpy.testing.assert_allclose(one, other, rtol=1e-6)
        torch.set_rng_state(torch.tensor(plugrad.get_rng_state().tolist(), dtype=torch.uint8))
        assert torch.randint(1000, (9,)).tolist() == plugrad.randint(1000, (9,)).tolist()


def test_infinities_are_drawn_once(torch):
    """Where the program turned NumPy's warnings into errors, too, as this suite does."""
    infinite = {
        "cauchy_": (0.0, 1e38), "log_normal_": (800.0, 2.0), "exponential_": (1e-39,), "normal_": (0.0, 3e38),
    }  # fmt: skip
    for method, arguments in infinite.items():
        for name in ("float32", "float16"):
            filled = lambda lib: getattr(lib.empty(40, dtype=getattr(lib, name)), method)(*arguments).isinf()
            compare(torch, filled)


def test_refused_kinds(torch):
    for library in (plugrad, torch):
        with pytest.raises(NotImplementedError, match="geometric_cpu"):
            library.zeros(3, dtype=library.bool).geometric_(0.5)


def test_generators_begin_equal(torch):
    compare(torch, lambda lib: [lib.Generator().initial_seed(), lib.rand(3, generator=lib.Generator())])
    compare(torch, lambda lib: float(lib.manual_seed(-5).initial_seed()))
    for library in (plugrad, torch):
        for seed in (2**64, -(2**63) - 1):
            with pytest.raises(ValueError, match="Overflow"):
                library.manual_seed(seed)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [[], [3], [2, 20], [0, 3]], ids=str)
def test_sizes_are_lists_as_well(torch, dtype, size):
    compare(torch, lambda t: t.rand(size, dtype=getattr(t, dtype)))
    compare(torch, lambda t: t.randn(size, dtype=getattr(t, dtype)), CLOSE[dtype])
    compare(torch, lambda t: t.randint(2**40, size))
    compare(torch, lambda t: t.normal(0.0, 1.0, size), CLOSE["float32"])
