"""Numbers that a small integer type can't hold: wrapped around or refused where PyTorch does either."""

import pytest

import plugrad

torch = pytest.importorskip("torch")

CALLS = {
    "pow": lambda lib, x, n: x.pow(n),
    "pow_": lambda lib, x, n: x.clone().pow_(n),
    "pow of a number": lambda lib, x, n: lib.pow(n, x.abs()),
    "float_power": lambda lib, x, n: lib.float_power(x, n),
    "searchsorted": lambda lib, x, n: lib.searchsorted(x, n),
    "bucketize": lambda lib, x, n: lib.bucketize(n, x),
    "gt": lambda lib, x, n: x > n,
    "eq": lambda lib, x, n: x == n,
    "clamp": lambda lib, x, n: x.clamp(max=n),
    "fill_": lambda lib, x, n: x.clone().fill_(n),
    "add": lambda lib, x, n: x + n,
    "masked_fill": lambda lib, x, n: x.masked_fill(x > 1, n),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "int64"])
def test_as_in_pytorch(name, dtype):
    for number in (-300, -1, 0, 2, 3, 127, 128, 255, 256, 300, 2**31, 2**32 + 1, 2.5):
        answers = []
        for library in (plugrad, torch):
            try:
                x = library.tensor([1, 2, 5], dtype=getattr(library, dtype))
                answer = CALLS[name](library, x, number)
                answers.append((str(answer.dtype), answer.tolist()))
            except (RuntimeError, OverflowError, TypeError) as error:
                answers.append(type(error).__name__)
        assert answers[0] == answers[1], number
