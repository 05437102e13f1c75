"""Arguments that are left out are not those that are given as None or as an ellipsis: refused where PyTorch does."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

CALLS = """
T.max(x, dim=None); T.max(x, None); x.min(None); T.median(x, dim=None); x.nanmedian(None); x.max(); x.max(0)
T.max(x, 0, True); x.max(axis=0); x.max(keepdim=True); x.median(-1, True); x.nanmedian(); x.max(x); T.max(x, other=x)
x.sum(keepdim=True); x.sum(keepdims=True); x.mean(keepdim=True); x.prod(keepdim=True); x.sum(None, True)
x.sum(dim=None, keepdim=True); x.mean(None, True); x.sum(axis=None, keepdims=True); x.sum(dim=1, axis=0); x.sum(())
x.sum((0, 1), True); x.sum([0]); x.mean(axis=(0, 1)); x.sum(dtype=T.float64); i.sum(keepdim=True); x.half().sum()
x.half().sum(keepdim=True); x.to("meta").sum(keepdim=True).shape; x.to("meta").sum().shape; T.sum(x, 1); g.sum()
x.sum(None, False); T.mean(x, keepdim=True, dim=1); T.mean(x, keepdim=True); x.amax(keepdim=True); x.var(keepdim=True)
x.to(()); x.to([]); x.to(); x.to(T.float64); x.to("cpu", T.float64); x.to(dtype=T.float64); x.to(x.double())
x.permute(False); x.permute(True, False); x.permute((True, False)); x.permute((1, False)); x.permute(0, True)
x.permute(0); x.permute(1, 0, 2); x.permute([1, 0]); x.permute(1, 1); T.permute(x, (True, False)); T.arange(0, ...)
T.arange(...); T.arange(5, None); T.arange(5); T.arange(end=5); T.arange(1, end=5); T.arange(1, 5, ...)
T.where(x > 1, ...); T.where(x > 1, ..., ...); T.where(x > 1)[0]; T.where(x > 1, x, ...); T.where(x > 1, None)
x[None].squeeze(); x[None].squeeze(...); x[None].squeeze(None); T.repeat_interleave(i, ...); T.repeat_interleave(i)
T.trapezoid(x, dx=...); T.trapezoid(x, dx=2); T.trapezoid(x); T.cumulative_trapezoid(x, dx=None); T.eye(3, None)
T.eye(3, ...); T.eye(3); T.eye(3, 2); T.bernoulli(x * 0, None); T.bernoulli(x * 0, ...); T.bernoulli(x * 0)
T.bernoulli(x, 1.0); T.clamp(x, 0, g); T.clamp(x, g, 1); T.clamp(x, g, g); T.clamp(x, min=g); x.clamp(0, g)
x.clamp_(0, g); T.clip(x, g, 2); T.clamp(x, 0, z); T.clamp(x, z, 1.5); x.clamp_(0, z); T.clamp(x, 0, i)
T.clamp(x.half(), 0, g); T.clamp(x, True, g); T.clamp(x.double(), 0, z); T.clamp(x, 0, T.ones(3))
T.clamp(x, 0, T.ones(3, requires_grad=True)); x.cumsum_(0, dtype=T.int64); x.cumsum_(0, dtype=T.float64)
x.cumprod_(0, dtype=T.int64); i.cumsum_(0, dtype=T.float32); x.cumsum_(0); x.cumsum_(0, dtype=T.float32)
i.int().cumsum_(0); x.double().cumprod_(1, dtype=T.float64)
""".replace("\n", ";").split(";")


def outcome(text, T):
    x, i = T.arange(6.0).reshape(2, 3), T.tensor([0, 1])
    given = {"x": x, "i": i, "z": T.tensor(2.0), "g": T.tensor(1.0, requires_grad=True), "T": T}
    try:
        result = eval(text, given)
    except (TypeError, RuntimeError) as error:
        assert len(str(error)) > 10
        return type(error)
    if not isinstance(result, T.Tensor):
        return [part.tolist() if isinstance(part, T.Tensor) else part for part in result]
    return str(result.dtype), result.requires_grad, result.tolist()


@pytest.mark.parametrize("text", [call.strip() for call in CALLS if call.strip()])
def test_calls_are_taken_or_refused_as_in_pytorch(text):
    assert outcome(text, plugrad) == outcome(text, torch)


def test_modes_that_see_calls_see_none_in_place_of_what_is_left_out():
    seen = []

    class Watching(plugrad.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func.__name__, args[1:], kwargs or {}))
            return func(*args, **(kwargs or {}))

    x = plugrad.arange(6.0).reshape(2, 3)
    with Watching():
        assert x.sum().item() == x.max().item() * 3 == 15
        with pytest.raises(TypeError, match="keepdim"):
            x.sum(keepdim=True)
    assert ("sum", (), {}) in seen


OF_DATA = {
    "tensor": lambda T, x: T.tensor([1, 2], dtype=T.float32, requires_grad=True),
    "tensor of a tensor": lambda T, x: T.tensor(x),
    "as_tensor": lambda T, x: T.as_tensor([1.0]),
    "as_tensor of a tensor": lambda T, x: T.as_tensor(x, dtype=T.float64),
    "asarray": lambda T, x: T.asarray(x, copy=True),
    "coordinates": lambda T, x: T.sparse_coo_tensor([[0, 1]], x, (2,)),
    "rows": lambda T, x: T.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1)),
    "blocks": lambda T, x: T.sparse_bsr_tensor([0, 1], [0], [[[1.0]]], (1, 1)),
    "a layout": lambda T, x: T.sparse_compressed_tensor([0, 1], [0], [1.0], (1, 1), layout=T.sparse_csc),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", OF_DATA)
def test_modes_see_what_makes_tensors_of_data_as_in_pytorch(what):
    def seen_by(T, change=None):
        seen = []

        class Watching(T.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                seen.append((func.__name__, len(args), sorted(kwargs or {}), func is getattr(T, func.__name__)))
                return func(*args, **(kwargs or {})) if change is None else change

        x = T.ones(2)
        with Watching():
            result = OF_DATA[what](T, x)
        return seen, result

    expected, tensor = seen_by(torch)
    ours, made = seen_by(plugrad)
    assert ours == expected and len(ours) == 1
    assert (made.to_dense().tolist(), made.requires_grad) == (tensor.to_dense().tolist(), tensor.requires_grad)
    assert seen_by(plugrad, change="of the mode")[1] == "of the mode"


def test_what_marks_arguments_that_are_left_out_stays_itself():
    import copy
    import pickle

    from plugrad.extend import LEFT_OUT

    assert copy.deepcopy(LEFT_OUT) is pickle.loads(pickle.dumps(LEFT_OUT)) is LEFT_OUT
    assert repr(LEFT_OUT) == "<not given>"
