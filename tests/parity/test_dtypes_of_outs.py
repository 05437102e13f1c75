"""Which ops take an `out=` of another dtype than that of their result, and which refuse it, is as in PyTorch."""

from __future__ import annotations

import misuse_calls
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


# Calls whose refusals differ, by the reason.
KNOWN = {
    "complex numbers are taken": "arange bernoulli fft.fftfreq fft.rfftfreq randperm range nansum nanmean std var",
    "another type of error": "normal",
    "the result is converted after all": "lu split_copy",
    "any dtype will do for the rank": "linalg.lstsq",
    "zeroth and first powers are copied": "linalg.matrix_power matrix_power",
    "there is no out=": "Tensor.__rdiv__ nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.linear",
    "out_dtype= in the place of out=": "mm",
}
MADE = ("made ", "stepped ", "program.", "called ", "scheduled ", "likely ")  # what makes something and uses it


def detached(value):
    if isinstance(value, (torch.Tensor, plugrad.Tensor)):
        return value.detach()
    return type(value)(map(detached, value)) if type(value) in (tuple, list) else value


def called(library, call, place=None, dtype=None, like=()):
    """Return the results of a call; given `like`, with an `out=` that differs from these in one dtype."""
    args, kwargs = call.arguments(library)
    kwargs = {name: detached(value) for name, value in kwargs.items()}
    if like:
        dtypes = [dtype if i == place else str(one.dtype).partition(".")[2] for i, one in enumerate(like)]
        outs = tuple(library.empty(one.shape, dtype=getattr(library, name)) for one, name in zip(like, dtypes))
        kwargs["out"] = outs if like.several else outs[0]
    results = call.function(library)(*map(detached, args), **kwargs)
    return Results(results)


class Results(tuple):
    def __new__(cls, results):
        self = super().__new__(cls, results if isinstance(results, tuple) else (results,))
        self.several = isinstance(results, tuple)
        return self


def refusal(library, *args):
    try:
        called(library, *args)
    except Exception as error:
        return type(error).__name__
    return None


def plain_calls():
    """Yield calls that PyTorch takes an `out=` in, with their results."""
    for part in misuse_calls.PARTS:
        for call in misuse_calls.PARTS[part]():
            if call.name.startswith(MADE) or "out" in call.arguments(torch)[1]:
                continue
            try:
                results = called(torch, call)
                if results and all(isinstance(one, torch.Tensor) for one in results):
                    own = str(results[0].dtype).partition(".")[2]
                    called(torch, call, 0, own, results)
                    yield call, results
            except Exception:
                continue


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("modes_are_put_back")
def test_each_result_of_every_op_is_written_to_the_dtypes_that_pytorch_writes_it_to():
    known = {name for names in KNOWN.values() for name in names.split()}
    checked, different = 0, {}
    for call, results in plain_calls():
        for place, one in enumerate(results):
            for dtype in ("float64", "float32", "int64", "complex64"):
                if str(one.dtype) != f"torch.{dtype}":
                    checked += 1
                    theirs, ours = (refusal(library, call, place, dtype, results) for library in (torch, plugrad))
                    if theirs != ours:
                        different.setdefault(call.name, []).append((place, str(one.dtype), dtype, theirs, ours))
    assert checked > 2000
    assert {name: found for name, found in different.items() if name not in known} == {}
    assert known <= set(different), "listed, and the same by now"


@pytest.mark.parametrize("out", ["complex128", "complex64", "float64", "float32", "float16", "int64", "bool"])
@pytest.mark.parametrize("name", ["abs", "angle", "exp"])
def test_results_of_complex_numbers_go_where_pytorchs_go(name, out):
    assert outcome(plugrad, name, "m", "complex128", out) == outcome(torch, name, "m", "complex128", out)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "nansum", "cumsum", "cumprod"])
def test_a_reduction_computes_in_the_dtype_of_its_out(name):
    def results(module):
        x = module.tensor([1.75, 2.75, -0.5], dtype=module.float64)
        dtypes = [module.int64, module.int32, module.complex64] if name != "nansum" else []
        for dtype in [module.float32, *dtypes]:
            for asked in (None, module.float64, dtype):
                out = module.empty((3,) if name.startswith("cum") else (), dtype=dtype)
                try:
                    yield from getattr(module, name)(x, 0, dtype=asked, out=out).reshape(-1).tolist()
                except Exception:
                    yield None

    for ours, theirs in zip(results(plugrad), results(torch), strict=True):
        assert ours == theirs or abs(ours - theirs) < 1e-6
