"""Where CuPy has rules of its own, ops have the CPU's: complex numbers and NaN, and types beside NumPy's scalars."""

import numpy
import pytest

import plugrad as torch


def outcome(call, x):
    """Return the type and elements of what a function makes of a tensor, or its error's class and words."""
    try:
        result = call(x)
    except Exception as error:
        return type(error), str(error)
    return str(getattr(result, "dtype", type(result))), repr(result.tolist() if torch.is_tensor(result) else result)


IN_ORDER = (  # which complex numbers are not
    "max min argmax argmin aminmax sort argsort median nanmedian relu floor sign signbit isneginf cummax,0 cummin,0 "
    "amax,0 amin,0 topk,2 clamp,0,1 maximum,x minimum,x fmax,x fmin,x lt,x ge,x remainder,x fmod,x atan2,x hypot,x"
).split()
BY_PARTS = "isnan isinf isfinite isreal count_nonzero any all abs eq,x ne,x isclose,x equal,x allclose,x".split()


@pytest.mark.parametrize("text", [*IN_ORDER, *BY_PARTS])
def test_complex_numbers_with_nan_are_refused_or_asked_about_as_on_the_cpu(text):
    """CuPy orders complex numbers, and has rules of its own for NaN among them."""
    name, *more = text.split(",")
    x = torch.tensor([complex(float("nan"), 1), 3 + 4j, complex(0, float("inf")), 0j])
    call = lambda x: getattr(torch, name)(x, *[x.flip(0) if one == "x" else int(one) for one in more])  # noqa: E731
    here, there = outcome(call, x), outcome(call, x.cuda())
    assert there == here and isinstance(here[0], type) is (text in IN_ORDER)


BESIDE = {
    "+": lambda x, s: x + s, "reflected": lambda x, s: s - x, "*": lambda x, s: x * s, "/": lambda x, s: x / s,
    "**": lambda x, s: x**s, "power of it": lambda x, s: s**x, "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "where": lambda x, s: torch.where(x > 1, x, s), "written": lambda x, s: x.clone().index_fill_(0, x.long() * 0, s),
    "filled": lambda x, s: torch.full((2,), s, device=x.device), "compared": lambda x, s: x > s,
    "added in place": lambda x, s: x.clone().add_(s), "clamped": lambda x, s: x.clamp(0, s),
    "slope": lambda x, s: torch.nn.functional.leaky_relu(x, s),
    "range": lambda x, s: torch.arange(0, 5, s, device=x.device),
    "masked": lambda x, s: x.masked_fill(x > 1, s), "divided down": lambda x, s: x // s, "rest": lambda x, s: x % s,
}  # fmt: skip
SCALARS = [
    numpy.float64(2.5), numpy.float32(2.5), numpy.float16(2.5), numpy.int64(2), numpy.int8(2), numpy.uint8(3),
    numpy.bool_(True), numpy.complex64(1 + 1j),
]  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_scalars_of_numpy_give_the_types_that_they_give_on_the_cpu(name):
    """Since CuPy 14 a float64 beside a float32 array makes that float64."""
    for dtype in (torch.float32, torch.float16, torch.int64, torch.bool):
        x = torch.tensor([1.0, 2.0, 3.0]).to(dtype)
        for scalar in SCALARS:
            call = lambda x, scalar=scalar: BESIDE[name](x, scalar)  # noqa: E731
            here, there = outcome(call, x), outcome(call, x.cuda())
            assert there[0] == here[0], (dtype, scalar)
            if isinstance(here[0], type):
                assert there[1].replace("cuda:0", "cpu") == here[1]
            else:
                torch.testing.assert_close(call(x.cuda()).cpu(), call(x), rtol=2e-3, atol=0)
