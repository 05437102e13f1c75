"""`size_average` and `reduce`, what `reduction` was before: by name and by position, as PyTorch takes them."""

import inspect
import itertools
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

RNG = numpy.random.default_rng(0)
A, B, C = (RNG.uniform(0.1, 0.9, (3, 4)).astype("float32") for _ in range(3))
ROWS, SIGNS, LABELS = A[:, 0], numpy.array([1, -1, 1], "float32"), numpy.array([0, 3, 1])

LOSSES = {
    ("binary_cross_entropy", "BCELoss"): (A, B),
    ("binary_cross_entropy_with_logits", "BCEWithLogitsLoss"): (A, B),
    ("cosine_embedding_loss", "CosineEmbeddingLoss"): (A, B, SIGNS),
    ("cross_entropy", "CrossEntropyLoss"): (A, LABELS),
    ("hinge_embedding_loss", "HingeEmbeddingLoss"): (ROWS, SIGNS),
    ("kl_div", "KLDivLoss"): (A, B),
    ("l1_loss", "L1Loss"): (A, B),
    ("margin_ranking_loss", "MarginRankingLoss"): (ROWS, B[:, 0], SIGNS),
    ("mse_loss", "MSELoss"): (A, B),
    ("multi_margin_loss", "MultiMarginLoss"): (A, LABELS),
    ("multilabel_margin_loss", "MultiLabelMarginLoss"): (A, numpy.array([[0, 1, -1, 0]] * 3)),
    ("multilabel_soft_margin_loss", "MultiLabelSoftMarginLoss"): (A, (B > 0.5).astype("float32")),
    ("nll_loss", "NLLLoss"): (A, LABELS),
    ("poisson_nll_loss", "PoissonNLLLoss"): (A, B),
    ("smooth_l1_loss", "SmoothL1Loss"): (A, B),
    ("soft_margin_loss", "SoftMarginLoss"): (ROWS, SIGNS),
    ("triplet_margin_loss", "TripletMarginLoss"): (A, B, C),
}


def ways(library, function, module, inputs, flags):
    """Yield the loss as a function and as a Module, with the flags by name and by position."""
    loss, kind = getattr(library.nn.functional, function), getattr(library.nn, module)
    parameters = inspect.signature(getattr(torch.nn.functional, function)).parameters.values()
    options = [(p.name, flags.get(p.name, p.default)) for p in parameters][len(inputs) :]
    own = set(inspect.signature(getattr(torch.nn, module)).parameters)
    yield lambda: loss(*inputs, **flags)
    yield lambda: loss(*inputs, *(value for _, value in options))
    yield lambda: kind(**flags)(*inputs)
    yield lambda: kind(*(value for name, value in options if name in own))(*inputs)


def outcome(way):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = way()
    said = [(str(one.message), one.category) for one in caught if "size_average" in str(one.message)]
    places = {one.filename for one in caught if "size_average" in str(one.message)}
    return value, said, places


@pytest.mark.parametrize(("function", "module"), LOSSES)
def test_flags_of_old_mean_what_they_mean_in_pytorch(function, module):
    arrays = LOSSES[function, module]
    for averaged, reduced in itertools.product((None, True, False), repeat=2):
        flags = {"size_average": averaged, "reduce": reduced}
        both = [ways(one, function, module, [one.tensor(a) for a in arrays], flags) for one in (plugrad, torch)]
        for our_way, their_way in zip(*both):
            ours, said, places = outcome(our_way)
            theirs, wanted, _ = outcome(their_way)
            numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5)
            assert said == wanted and places <= {__file__}


def test_losses_take_their_options_in_pytorchs_order():
    for function, module in LOSSES:
        ours, theirs = (list(inspect.signature(getattr(one.nn, module)).parameters) for one in (plugrad, torch))
        assert ours[: len(theirs)] == theirs
        ours, theirs = (inspect.signature(getattr(one.nn.functional, function)).parameters for one in (plugrad, torch))
        assert [name for name in ours if name != "out"] == list(theirs)


def test_the_deprecated_names_say_so():
    with pytest.warns(FutureWarning, match="NLLLoss2d. has been deprecated"):
        loss = plugrad.nn.NLLLoss2d(reduction="sum")
    assert loss(plugrad.zeros(1, 2, 3, 3), plugrad.zeros(1, 3, 3, dtype=plugrad.long)) == 0
    with pytest.warns(FutureWarning, match="nn.Container. is deprecated"):
        assert list(dict(plugrad.nn.Container(a=loss).named_children())) == ["a"]
