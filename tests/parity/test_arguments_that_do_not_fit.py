"""What calls with arguments that do not fit say, and calls at the edges that are right, beside PyTorch."""

from __future__ import annotations

import pytest

import plugrad

torch = pytest.importorskip("torch")


def outcome(use, library):
    try:
        return use(library), ""
    except Exception as error:
        return type(error), str(error)


WRONG = {
    "diff of other sizes": (lambda lib: lib.diff(lib.ones(2, 3), prepend=lib.ones(4, 3)), "differencing dimension"),
    "diff, appended": (lambda lib: lib.diff(lib.ones(2, 3), dim=0, append=lib.ones(2, 4)), r"tensor.size\(1\) = 4"),
    "a storage of another type": (lambda lib: lib.ones(2).set_(lib.arange(2).storage()), "Expected a Storage of type"),
    "text in a tensor": (lambda lib: "a" in lib.ones(2), "you passed in a <class 'str'>"),
    "no subclass": (lambda lib: lib.ones(2).as_subclass(int), "from a class that does not inherit from Tensor"),
    "indices of int32": (
        lambda lib: lib.take_along_dim(lib.ones(2), lib.ones(2).int(), 0),
        "dtype of indices should be Long",
    ),
    "indices of uint8": (lambda lib: lib.take_along_dim(lib.ones(2), lib.ones(2).byte(), 0), "dtype of indices"),
}


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_fit_are_refused_in_the_same_words(case):
    use, words = WRONG[case]
    (theirs, _), (ours, _) = outcome(use, torch), outcome(use, plugrad)
    assert ours is theirs
    for library in (torch, plugrad):
        with pytest.raises(theirs, match=words):
            use(library)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_of_no_rows_gives_no_rows(replacement):
    for library in (torch, plugrad):
        drawn = library.multinomial(library.ones(0, 3), 2, replacement=replacement)
        assert tuple(drawn.shape) == (0, 2) and drawn.dtype is library.int64


def test_new_takes_its_size_by_name():
    for library in (torch, plugrad):
        tensor = library.ones(2).double().new(size=(2, 3))
        assert tuple(tensor.shape) == (2, 3) and tensor.dtype is library.float64
    with pytest.raises(TypeError, match="not both"):
        plugrad.ones(2).new(2, size=(3,))
