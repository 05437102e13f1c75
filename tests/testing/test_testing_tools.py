"""Samples, comparisons and other tools of tests: do they pass what is right, and catch what is not?"""

import numpy
import pytest

import plugrad as torch
from plugrad.testing import assert_close, cases, make_tensor, samples_of
from plugrad.testing.samples import Maker
from support.seeded_ops import wave

# ----------------------------------------------------------------------------------------------- samples


def test_samples_are_the_same_each_time_and_keep_away_from_kinks():
    one, other = samples_of(wave()), samples_of(wave())
    assert [s.args[0].tolist() for s in one] == [s.args[0].tolist() for s in other]
    values = Maker("kinks")(1000).detach().numpy()
    assert numpy.abs(2 * values - numpy.round(2 * values)).min() > 0.09
    assert set(Maker("ints").ints(100, low=1, high=3).tolist()) == {1, 2}


def test_an_in_place_form_that_returns_a_new_tensor(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "damped_", lambda self: self * torch.exp(-self), raising=False)
    (case,) = (case for case in cases(wave()) if case.name == "in-place")
    with pytest.raises(AssertionError, match="does not return its input"):
        case.run()


# ------------------------------------------------------------------------------------------------ comparison


def test_assert_close():
    assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    assert_close({"a": [1, None, True]}, {"a": [1, None, True]})
    assert_close(float("nan"), float("nan"), equal_nan=True)
    for actual, expected, text in [
        (
            torch.tensor([1.0, 2.0]),
            torch.tensor([1.0, 3.0]),
            r"Mismatched elements: 1 / 2 \(50.0%\)\nGreatest absolute",
        ),
        (torch.ones(2), torch.ones(3), "'shape' do not match: \\(2,\\) != \\(3,\\)"),
        (torch.ones(2), torch.ones(2, dtype=torch.float64), "'dtype' do not match"),
        ([1, 2], [1], "length of the sequences mismatch: 2 != 1"),
        ([1, [2, 3]], [1, [2, 4]], r"Expected 4 but got 3(.|\n)*for item \[1\]\[1\]"),
        (1.0, 1, "types do not match"),
        ({"a": 1}, {"b": 1}, "keys of the mappings do not match"),
    ]:
        with pytest.raises(AssertionError, match=text):
            assert_close(actual, expected)
    with pytest.raises(ValueError, match="but got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(TypeError):
        assert_close("a", torch.ones(1))
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")


def test_assert_close_speaks_as_pytorch():
    reference = pytest.importorskip("torch")
    pairs = [
        ([1.0, 2.0], [1.0, 2.5]),
        ([[1, 2], [3, 4]], [[1, 2], [5, 4]]),
        (1, 2),
        (1.5, 2.5),
        ([1.0], [float("nan")]),
    ]
    for one, other in pairs:
        messages = []
        for library in (torch, reference):
            given = [library.tensor(v) if isinstance(v, list) else v for v in (one, other)]
            with pytest.raises(AssertionError) as error:
                library.testing.assert_close(*given)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_make_tensor():
    t = make_tensor(3, 4, dtype=torch.float32, device="cpu", low=1, high=2, requires_grad=True)
    assert t.requires_grad and t.min() >= 1 and t.max() < 2
    assert not make_tensor((3, 4), dtype=torch.float64, device="cpu", noncontiguous=True).is_contiguous()
    assert make_tensor(50, dtype=torch.uint8, device="cpu").max() < 10
    assert make_tensor(50, dtype=torch.bool, device="cpu", exclude_zero=True).all()
    with pytest.raises(ValueError, match="must be less than"):
        make_tensor(2, dtype=torch.int64, device="cpu", low=3, high=2)
    with pytest.raises(ValueError, match="not supported for boolean and integral"):
        make_tensor(2, dtype=torch.int64, device="cpu", requires_grad=True)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
def test_sparse_tensors_are_compared_part_by_part(layout):
    def made(dense):
        return getattr(dense, f"to_sparse_{layout}")(*[(1, 1)] * layout.startswith("b"))

    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert_close(made(x), made(x * (1 + 1e-7)))
    for other, words in (
        (x * 2, f"Sparse {layout.upper()} values are not close"),
        (x.flip(0), f"Sparse {layout.upper()} (c?col_|c?row_)?indices are not equal"),
        (x + x.flip(0), f"The number of specified values in sparse {layout.upper()} tensors does not match: 2 != 4"),
    ):
        with pytest.raises(AssertionError, match=words):
            assert_close(made(x), made(other))
