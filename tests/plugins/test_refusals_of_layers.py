"""What losses and layers refuse, in which order they look, and in which words: as PyTorch."""

import itertools

import pytest
import torch

import plugrad

SHAPES = [(), (1,), (4,), (5,), (5, 2), (4, 3), (4, 5), (2,), (4, 3, 3), (4, 3, 2)]
INPUTS = [(4, 2), (2,), (4, 2, 3), (4, 2, 3, 3)]


def told(call, *args):
    """The class of the error and its first words."""
    try:
        call(*args)
    except Exception as error:
        return type(error).__name__, str(error)[:30]
    return "no error", ""


def agree(cases, call):
    """Each case is refused by both in the same words, or by neither."""
    differing = {
        case: pair
        for case in cases
        if (pair := (told(call, torch, *case), told(call, plugrad, *case))) and pair[0] != pair[1]
    }
    assert not differing


@pytest.mark.parametrize("loss", ["nll_loss", "cross_entropy"])
def test_labels_are_refused_for_batch_then_rank_then_type(loss):
    """A batch of another size is told before a wrong type, as in PyTorch."""

    def call(lib, shape, labels, dtype):
        target = lib.zeros(labels, dtype=getattr(lib, dtype))
        getattr(lib.nn.functional, loss)(lib.zeros(shape), target)

    agree([c for c in itertools.product(INPUTS, SHAPES, ["int64", "float32", "int32"]) if c[0] != c[1]], call)


@pytest.mark.parametrize("loss", ["nll_loss", "cross_entropy"])
def test_weights_of_classes_have_the_type_of_the_input(loss):
    """No promotion: a weight of another type is refused, also where there is no example."""

    def call(lib, shape, labels, dtype):
        weight = lib.ones(shape[1], dtype=getattr(lib, dtype))
        getattr(lib.nn.functional, loss)(lib.zeros(shape), lib.zeros(labels, dtype=lib.int64), weight=weight)

    shapes = [((4, 2), (4,)), ((0, 0), (0,)), ((4, 2, 3), (4, 3))]
    agree([(*s, d) for s in shapes for d in ("float16", "bfloat16", "float32", "float64", "int64")], call)


def test_circular_padding_takes_a_batch_or_an_example():
    """The layers look at the rank before they look at the padding."""

    def call(lib, n, rank):
        getattr(lib.nn, f"CircularPad{n}d")(1)(lib.zeros((3,) * rank))

    agree(list(itertools.product((1, 2, 3), range(7))), call)


@pytest.mark.parametrize("shape", [(3, 4), (1, 2, 3, 4, 5), (4,)])
def test_pooling_tells_the_ranks_that_it_takes(shape):
    """Of another rank than 3 or 4: in PyTorch's words."""
    words = r"non-empty 3D or 4D \(batch mode\) tensor expected for input"
    for lib in (torch, plugrad):
        with pytest.raises(RuntimeError, match=words):
            lib.nn.MaxPool2d(2)(lib.zeros(shape))


@pytest.mark.parametrize("delta", [1j, "a", None])
def test_delta_of_huber_loss_is_a_number(delta):
    """The layer refuses it when it is constructed."""
    for lib in (torch, plugrad):
        with pytest.raises(TypeError, match="delta must be a float or int, got: <class"):
            lib.nn.HuberLoss(delta=delta)


def test_random_tensors_for_tests_stand_on_the_default_device():
    """`make_tensor(device=None)` follows `with device(...)`."""
    for lib in (torch, plugrad):
        with lib.device("meta"):
            assert lib.testing.make_tensor((2,), dtype=lib.float32, device=None).is_meta
        assert lib.testing.make_tensor((2,), dtype=lib.float32, device=None).device.type == "cpu"


def test_ctc_loss_refuses_what_does_not_fit():
    """Dtypes of scores, their rank and size, blanks, and targets of another batch."""

    def call(lib, dtype, scores, targets, blank):
        lengths = lib.ones(scores[-2] if len(scores) > 2 else 1, dtype=lib.int64)
        lib.nn.functional.ctc_loss(
            lib.zeros(scores).to(getattr(lib, dtype)), lib.ones(targets, dtype=lib.int64), lengths, lengths, blank
        )

    cases = [(dtype, (3, 2, 4), (2, 1), 0) for dtype in ("float16", "bfloat16", "float32", "float64", "int64", "bool")]
    cases += [("float32", scores, targets, 0) for scores, targets in (
        ((3, 2, 4), (1, 1)), ((3, 2, 4), (3, 1)), ((3, 2, 4), (2, 0)), ((0, 2, 4), (2, 1)), ((3, 0, 4), (0, 1)),
        ((3, 2, 0), (2, 1)), ((1, 3, 2, 4), (2, 1)), ((3, 4), (1,)), ((3, 4), (1, 1)), ((3, 4), (2, 1)), ((3,), (1,)),
    )]  # fmt: skip
    agree([*cases, ("float32", (3, 2, 4), (2, 1), 4), ("float32", (3, 2, 4), (2, 1), -1)], call)


def test_elements_that_have_no_order_or_no_mean_are_refused():
    """Pooling of bools and complex numbers, and padding and resizing of bools."""
    calls = {
        "max_pool": lambda f, n, x: getattr(f, f"max_pool{n}d")(x, 2),
        "max_pool with places": lambda f, n, x: getattr(f, f"max_pool{n}d")(x, 2, return_indices=True),
        "adaptive": lambda f, n, x: getattr(f, f"adaptive_max_pool{n}d")(x, 2),
        "fractional": lambda f, n, x: getattr(f, f"fractional_max_pool{max(n, 2)}d")(x, 2, output_size=2),
        "reflect": lambda f, n, x: f.pad(x, (1, 1) * n, "reflect"),
        "replicate": lambda f, n, x: f.pad(x, (1, 1) * n, "replicate"),
        "circular": lambda f, n, x: f.pad(x, (1, 1) * n, "circular"),
        "nearest": lambda f, n, x: f.interpolate(x, scale_factor=2),
        "bilinear": lambda f, n, x: f.interpolate(x, scale_factor=2, mode="bilinear"),
    }

    def call(lib, name, n, dtype):
        dtype = getattr(lib, dtype)
        calls[name](lib.nn.functional, n, lib.ones((1, 2) + (4,) * n, dtype=dtype))

    refused = {
        lib: {case for case in itertools.product(calls, (1, 2, 3), ("bool", "complex64", "float32"))
              if told(call, lib, *case)[0] != "no error"}
        for lib in (torch, plugrad)
    }  # fmt: skip
    assert refused[plugrad] == refused[torch]


def test_convolutions_name_the_types_that_differ():
    def call(lib, input, weight):
        lib.nn.functional.conv1d(*(lib.ones(2, 2, 2, dtype=getattr(lib, name)) for name in (input, weight)))

    # Where the processor computes halves, PyTorch has another kernel for them, which has other words.
    halves = [] if torch.ops.mkldnn._is_mkldnn_fp16_supported() else ["float16"]
    agree(itertools.product(["float32", "float64", *halves, "int64"], repeat=2), call)
