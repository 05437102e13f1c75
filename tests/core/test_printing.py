"""The text of tensors: literal examples, and a comparison with PyTorch on random values of every type."""

import contextlib

import ml_dtypes
import numpy
import pytest

from plugrad import printing

INTEGERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NAMES = ["bool", *INTEGERS, *FLOATS, "complex64", "complex128"]


def show(values, name="float32", **rest):
    array = values if hasattr(values, "shape") else numpy.array(values, name)
    return printing.format_tensor(array, dtype_name=name, **rest)


EXAMPLES = [
    ("tensor(1.)", [1.0, "float32"], {}),
    ("tensor(1, dtype=torch.int32)", [1, "int32"], {}),
    ("tensor([])", [[]], {}),
    ("tensor([], dtype=torch.int64)", [[], "int64"], {}),
    ("tensor([], size=(0, 3))", [numpy.empty((0, 3), "float32")], {}),
    ("tensor([ True, False])", [[True, False], "bool"], {}),
    ("tensor([1.0000, 2.5000,    nan,   -inf])", [[1, 2.5, float("nan"), float("-inf")]], {}),
    ("tensor([1.0000e+00, 1.0000e-05])", [[1, 1e-5]], {}),
    ("tensor([-0., 2., inf])", [[-0.0, 2, float("inf")]], {}),
    ("tensor([[1.+2.j],\n        [0.-1.j]])", [[[1 + 2j], [complex(0, -1)]], "complex64"], {}),
    ("tensor([1.], dtype=torch.float64)", [[1], "float64"], {}),
    ("tensor([1.])", [[1], "float64"], {"default_dtype_name": "float64"}),
    ("tensor([1.], grad_fn=<MulBackward0>)", [[1]], {"grad_fn_name": "MulBackward0", "requires_grad": True}),
    ("tensor([1.], device='cuda:0', requires_grad=True)", [[1]], {"device": "cuda:0", "requires_grad": True}),
    ("tensor([   0,    1,    2,  ...,  998,  999, 1000])", [numpy.arange(1001), "int64"], {}),
    ("Mine([1.])", [[1]], {"prefix": "Mine("}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "values", "options"), EXAMPLES)
def test_examples(text, values, options):
    assert show(*values, **options) == text


def test_meta_needs_no_values():
    class Shaped:
        shape = (2, 3)

    assert show(Shaped, device="meta", symbolic=True) == "tensor(..., device='meta', size=(2, 3))"
    text = show(Shaped, "int64", device="meta", symbolic=True)
    assert text == "tensor(..., device='meta', size=(2, 3), dtype=torch.int64)"


def test_suffixes_wrap():
    text = show(numpy.arange(12.0), "float64", grad_fn_name="MulBackward0")
    assert text.endswith("11.],\n       dtype=torch.float64, grad_fn=<MulBackward0>)")


def test_signalling_nan_is_quiet():
    assert show(numpy.array([0x7F800001], "uint32").view("float32")) == "tensor([nan])"


class Tensor:
    """Just enough of a tensor for `tensor_str`."""

    device, requires_grad, grad_fn, shape = "cpu", False, None, (1,)

    class dtype:
        name = "float32"

    class _type:
        symbolic = False

    def numpy(self, *, force):
        assert force
        return numpy.array([2.5], "float32")


def test_tensor_str_names_the_class():
    Parameter = type("Parameter", (Tensor,), {})
    assert printing.tensor_str(Tensor()) == printing.tensor_str(Parameter()) == "tensor([2.5000])"
    assert printing.tensor_str(type("Mine", (Tensor,), {})()) == "Mine([2.5000])"
    assert printing.tensor_str(type("Mine", (Parameter,), {})()) == "Parameter(Mine([2.5000]))"


def test_tensor_str_reads_the_tensor():
    tensor = Tensor()
    tensor.device, tensor.requires_grad = "cuda:1", True
    text = printing.tensor_str(tensor, default_dtype_name="float64")
    assert text == "tensor([2.5000], device='cuda:1', dtype=torch.float32, requires_grad=True)"
    tensor.grad_fn = type("MulBackward0", (), {})()
    assert printing.tensor_str(tensor).endswith("device='cuda:1', grad_fn=<MulBackward0>)")
    tensor.device, tensor._type = "meta", type("_type", (), {"symbolic": True})
    assert printing.tensor_str(tensor) == "tensor(..., device='meta', size=(1,), grad_fn=<MulBackward0>)"


def test_options():
    before = printing.get_printoptions()
    assert before == {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
    with pytest.raises(KeyError), printing.printoptions(profile="short", sci_mode=True):
        assert printing.get_printoptions()["sci_mode"] is True
        assert show([1.0]) == "tensor([1.00e+00])"
        printing.set_printoptions(precision=1)
        assert show([1.0]) == "tensor([1.])"
        raise KeyError
    assert printing.get_printoptions() == before

    @printing.printoptions(precision=1)
    def precisions(depth):
        here = printing.get_printoptions()["precision"]
        return [here, *(precisions(depth - 1) if depth else []), printing.get_printoptions()["precision"]]

    assert precisions(2) == [1] * 6 and precisions(0) == [1, 1]
    assert printing.get_printoptions() == before
    with pytest.raises(ValueError, match="profile must be one of 'default', 'short', 'full', not 'long'"):
        printing.set_printoptions(profile="long")
    assert printing.get_printoptions() == before


def random_shape(rng):
    choice = rng.integers(6)
    if choice == 0:
        return ()
    if choice == 1:
        return (int(rng.choice([1, 7, 40, 999, 1000, 1001])),)
    high = [0, 0, 40, 12, 6, 3][choice]
    return tuple(rng.integers(choice < 5, high, rng.integers(2, 5)).tolist())


def random_floats(rng, count):
    bits = rng.integers(-(2**63), 2**63 - 1, count)
    normal = rng.standard_normal(count)
    values = [
        normal,
        normal * 10.0 ** rng.integers(-12, 12),
        normal * 10.0 ** rng.integers(-6, 6, count),
        numpy.round(normal, rng.integers(0, 4)),
        rng.integers(-(10**6), 10**6, count) * 10.0 ** rng.integers(0, 8),
        rng.choice([1e-4, 9.9999e-5, 1, 1000, 1000.5, 99999999.5, 1e8], count),
        numpy.zeros(count),
        bits.view(numpy.float64),
    ][rng.integers(8)].copy()
    if rng.integers(3) == 0:
        values[rng.random(count) < 0.2] = rng.choice([numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0])
    return values


def random_array(rng, name, shape):
    count = int(numpy.prod(shape))
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name in INTEGERS:
        limits = numpy.iinfo(name)
        high = min(limits.max, 10 ** int(rng.integers(1, 20)))
        return rng.integers(max(limits.min, -high), high, shape, dtype=name, endpoint=True)
    values = random_floats(rng, count)
    if name.startswith("complex"):
        values = numpy.stack([values, random_floats(rng, count)], axis=-1).view("complex128")
    if name == "bfloat16":
        name = ml_dtypes.bfloat16
    with numpy.errstate(all="ignore"):
        return values.astype(name).reshape(shape)


def as_torch(torch, array, name):
    if name == "bfloat16":
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def random_options(rng):
    choices = {
        "precision": [0, 2, 7],
        "threshold": [0, 5, 2000],
        "edgeitems": [0, 1, 4],
        "linewidth": [1, 40, 130],
        "profile": ["default", "short", "full"],
        "sci_mode": [True, False],
    }
    return {name: rng.choice(values).item() for name, values in choices.items() if rng.integers(5) == 0}


@contextlib.contextmanager
def settings(torch, options, default):
    torch.set_default_dtype(getattr(torch, default))
    try:
        with torch._tensor_str.printoptions(**options), printing.printoptions(**options):
            yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", NAMES)
def test_same_text_as_pytorch(torch, name):
    for seed in range(25):
        rng = numpy.random.default_rng([seed, NAMES.index(name)])
        array = random_array(rng, name, random_shape(rng))
        theirs = as_torch(torch, array, name)
        options, default = random_options(rng), rng.choice(FLOATS)
        grad = {"requires_grad": True} if name[0] in "fbc" and name != "bool" and rng.integers(2) else {}
        theirs.requires_grad_(bool(grad))
        if grad and rng.integers(2):
            theirs, grad["grad_fn_name"] = theirs.view(theirs.shape), "ViewBackward0"
        with settings(torch, options, default):
            assert show(array, name, default_dtype_name=default, **grad) == repr(theirs), (seed, options)
            meta = repr(theirs.detach().to("meta"))
            assert show(array, name, default_dtype_name=default, device="meta", symbolic=True) == meta
