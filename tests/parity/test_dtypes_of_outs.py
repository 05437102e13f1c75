"""Which ops take an `out=` of another dtype than that of their result, and which refuse it, is as in PyTorch."""

import pytest

import plugrad

torch = pytest.importorskip("torch")

PAIRS = [("float32", "float64"), ("float64", "float32"), ("int64", "float32"), ("int32", "int64"), ("bool", "float32")]
CALLS = {
    "abs neg sign floor ceil trunc round frac sgn nan_to_num msort amax any all argmin conj_physical signbit isposinf "
    "tril triu diag softmax0 log_softmax0 linalg.vector_norm linalg.norm linalg.det linalg.inv logcumsumexp0 "
    "exp sqrt mean0 cumsum0 sin logical_not sigmoid rsqrt square": "m",
    "mm matmul linalg.vecdot tensordot1 linalg.cross where heaviside isin add mul maximum atan2 eq linalg.solve": "mm",
    "take gather0 index_select0": "mi",
}


def arguments(module, kind, dtype):
    values = module.tensor([[2, 0, 1], [0, 1, 0], [1, 0, 1]]).to(getattr(module, dtype))
    places = module.tensor([0, 2, 1])
    return {"m": (values,), "mm": (values, values), "mi": (values, places)}[kind]


def outcome(module, name, kind, dtype, out):
    """Return whether the call is refused without `out`, and the type of error with it."""
    function = module
    for part in name.rstrip("01").split("."):
        function = getattr(function, part)
    values = arguments(module, kind, dtype)
    if name == "where":
        values = (values[0] != 0, *values)
    if name.startswith("gather"):
        values = (values[0], values[1].expand(3, 3))
    if name[-1] in "01":
        values = (*values[:1], 0, *values[1:]) if name[-1] == "0" else (*values, 1)
    try:
        function(*values)
    except Exception:
        return "refused"
    try:
        return str(function(*values, out=module.empty(0, dtype=getattr(module, out))).dtype)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name, kind", [(name, kind) for names, kind in CALLS.items() for name in names.split()])
@pytest.mark.parametrize("dtype, out", PAIRS)
@pytest.mark.filterwarnings("ignore")
def test_an_out_of_another_dtype_is_taken_or_refused_as_in_pytorch(name, kind, dtype, out):
    assert outcome(plugrad, name, kind, dtype, out) == outcome(torch, name, kind, dtype, out)


def test_what_is_refused_says_which_dtype_would_do():
    with pytest.raises(RuntimeError, match=r"Found dtype Double but expected Float: out= of neg\(\) has no other"):
        plugrad.neg(plugrad.ones(2), out=plugrad.empty(2, dtype=plugrad.float64))


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("out", ["uint8", "bool", "int8", "float32"])
def test_truths_go_to_bool_or_to_bytes_as_in_pytorch(name, out):
    assert outcome(plugrad, name, "m", "float32", out) == outcome(torch, name, "m", "float32", out)
