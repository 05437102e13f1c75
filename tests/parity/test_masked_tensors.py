"""Masked tensors on plugrad and on PyTorch side by side: texts, results, gradients, errors, warnings."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")

EXPRESSIONS = """
m | i | m[0] | m[0, 1] | m[0, 0] | m[:, 1:] | m[T.tensor([0])] | m[mask] | m.sum() | m.sum(1) | m.sum(1, keepdim=True)
T.sum(m, 0) | m.mean() | m.mean(1) | m.amax(1) | m.amin(0) | m.argmax(1) | m.argmin() | m.prod(1) | m.prod() | m.all()
m.all(1) | m.var() | m.var(1) | m.std(1) | m.std(0) | i.sum(1) | i.amax(0) | i.prod(1) | m.sum(0, dtype=T.float64)
m + m | m + 1 | 1 + m | m * 2 | m - 1 | m / 2 | 2 / m | m + w | m + data | data + m | m + T.ones(3) | m**2 | m.pow(2)
-m | abs(m) | m < 2 | m == 1 | m == m | m >= 1 | 2 > m | m != m | m.exp() / 8 | m.sqrt() | m.sin_() | m.add_(1)
m.mul_(m) | m.clamp(0, 1) | m.clamp(min=1) | m.round() | m.sigmoid() | T.sigmoid(m) | m.isnan() | m.nan_to_num()
T.logaddexp(m, m) | T.maximum(m, m) | T.fmin(m, m) | T.minimum(m, data) | i & i | i | i // 2 | i % 2 | i ^ i | ~i
T.floor_divide(m, 2) | T.remainder(m, 2) | T.atan2(m, m) | T.square(m) | T.rsqrt(m) | T.i0(m) | m.softmax(1)
F.softmax(m, -1) | m.to_tensor(0) | m.to_tensor(-1) | m.get_data() | m.get_mask() | m.shape | m.dtype | m.numel()
m.device | m.layout | m.is_sparse | m.stride() | m.is_contiguous() | m.requires_grad | m.is_leaf | m.grad_fn | len(m)
m.t() | m.mT | m.transpose(0, 1) | m.reshape(3, 2) | m.view(6) | m.view(3, 2) | m.flatten() | m.unsqueeze(0)
m.expand(4, 2, 3) | m.split(1) | m.chunk(2) | T.cat([m, m]) | T.cat([m, data]) | T.stack([m, m]) | m.select(0, 1)
m.narrow(1, 0, 2) | m.unfold(0, 1, 1) | m.contiguous() | m.t().contiguous() | m.clone() | m.detach() | m.data
m.to(T.float64) | m.double() | m.long() | m.half() | m.cpu() | m.to_dense() | m.to_sparse() | m.to_sparse_csr()
m.to_sparse().to_dense() | m.to_sparse() * 2 | m.to_sparse().exp() / 8 | m.to_sparse().sum() | m.to_sparse_csr() + 1
m.to_sparse().layout | m.to_sparse_csr().layout | m.to_sparse() + m.to_sparse() | m.to_sparse().sum(0)
m.to_sparse().is_contiguous() | m[0].to_sparse_csr() | m[0, 0].to_sparse() / m[0, 0].to_sparse()
T.maximum(m[0, 0].to_sparse(), m[0, 0].to_sparse()) | m.to_sparse().ge(m.to_sparse())
T.where(data > 2, m, m) | T.where(data > 2, m, data) | T.where(data > 2, m, 0.0) | m.tolist() | m.numpy() | m.item()
m[0, 0].item() | m[0, 1].item() | float(m[0, 0]) | bool(m[0, 0]) | m @ m.t() | T.mm(m, m.t()) | F.linear(m, data)
T.ones_like(m) | m.cumsum(0) | m.sort() | m.max() | m.copy_(m) | m.copy_(data) | m.zero_() | m.equal(m)
T.masked.is_masked_tensor(m) | T.masked.is_masked_tensor(data) | isinstance(m, T.Tensor) | T.is_tensor(m)
T.masked.sum(m, 1) | T.masked.softmax(m, 1) | T.masked.amax(m, 1) | T.masked.argmax(m, 1) | T.masked.median(m, 1)
T.masked.norm(m, 2.0, 1) | T.masked.cumsum(m, 1) | T.masked.logsumexp(m, 1) | T.masked.mean(m, 1, mask=mask)
masked_tensor([1], [True]) | masked_tensor(data, [True]) | masked_tensor(data, data) | masked_tensor(data, mask[0])
masked_tensor(data.bfloat16(), mask) | masked_tensor(m, mask) | masked_tensor(data, mask[:, :2])
masked_tensor(data.to(T.complex64), mask) | masked_tensor(data.to_sparse(), mask) | T.masked.MaskedTensor(data, mask)
masked_tensor(T.tensor(1.0), T.tensor(True)) | masked_tensor(T.tensor(1.0), T.tensor(False))
masked_tensor(T.tensor([1.0, -2.5e5, float("nan")]), T.tensor([True, True, True]))
masked_tensor(T.tensor([True, False]), T.tensor([True, False])) | masked_tensor(T.zeros(0, 2), T.zeros(0, 2).bool())
as_masked_tensor(data, mask) | masked_tensor(data, mask, requires_grad=True).requires_grad | copy.deepcopy(m)
masked_tensor(data, mask, requires_grad=True).add_(1) | masked_tensor(data.to_sparse(), data.to_sparse().bool())
pickle.loads(pickle.dumps(m)).get_data()
""".strip()
ALL = [expression.strip() for line in EXPRESSIONS.splitlines() for expression in line.split(" | ")]

GRADIENTS = """
x.exp() / 8 | x * x | x * 2 | x + data | x.softmax(1) * data | x.mean() | x.mean(1) | x.amax(1) | x.prod(1) | x.prod()
x.var(1) | x.std(1) | x.t() * 2 | x.reshape(3, 2).sqrt() | T.cat([x, x]) | x.get_data() | x.to_tensor(0) | x.log()
x.sqrt() | x.to(T.float64) | x.clone() | x / x | x**2 | x.abs() | x.expand(2, 2, 3) | x * T.ones(3) | T.stack([x, x])
x.amin() | x.argmax(1).float() | x.sum() * x | T.masked.sum(x, 1) | x.get_data() * 2 | (x * 2).to_tensor(1.0) ** 2
x * x.detach()
""".strip()
ALL_GRADIENTS = [expression.strip() for line in GRADIENTS.splitlines() for expression in line.split(" | ")]


def names(T):
    data, mask = T.arange(6.0).reshape(2, 3), T.tensor([[True, False, True], [True, True, False]])
    masked_tensor = T.masked.masked_tensor
    return {
        "T": T, "F": T.nn.functional, "copy": copy, "pickle": pickle, "data": data, "mask": mask,
        "masked_tensor": masked_tensor, "as_masked_tensor": T.masked.as_masked_tensor,
        "m": masked_tensor(data, mask), "w": masked_tensor(data + 1, ~mask),
        "i": masked_tensor(T.arange(6).reshape(2, 3), mask),
        "x": masked_tensor(data + 1, mask, requires_grad=True),
    }  # fmt: skip


def outcome(T, compute):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return repr(compute(names(T)))
    except Exception as error:
        return type(error)


def compare(compute):
    ours, theirs = outcome(plugrad, compute), outcome(torch, compute)
    if isinstance(ours, type) and isinstance(theirs, type):
        assert issubclass(ours, theirs) or issubclass(theirs, ours)
    else:
        assert ours == theirs


@pytest.mark.parametrize("expression", ALL)
def test_expressions_are_pytorchs(expression):
    compare(lambda names: eval(expression, names))


@pytest.mark.parametrize("expression", ALL_GRADIENTS)
def test_gradients_are_pytorchs(expression):
    def gradient(names):
        y = eval(expression, names)
        (y.sum() if y.ndim else y).backward()
        return names["x"].grad

    compare(gradient)


@pytest.mark.parametrize("function", [
    lambda x: x, lambda x: x * 2, lambda x: x.exp().log(), lambda x: x.softmax(1) ** 2, lambda x: x.t(),
])  # fmt: skip
def test_an_ordinary_leaf_gets_a_masked_gradient(function):
    def gradient(names):
        data = names["data"].requires_grad_()
        function(names["as_masked_tensor"](data, names["mask"])).mean(1).sum().backward()
        return data.grad

    compare(gradient)


# What PyTorch refuses, or gets wrong, is here what the elements that are seen say.
@pytest.mark.parametrize("expression, expected", [
    ("m.relu()", "masked_tensor(data.relu(), mask)"), ("F.relu(m)", "masked_tensor(data.relu(), mask)"),
    ("1 - m", "masked_tensor(1 - data, mask)"), ("m.permute(1, 0)", "m.t()"), ("m.T", "m.t()"),
    ("T.add(m, m, alpha=2)", "m * 3"), ("m.unsqueeze(0).squeeze(0)", "m"), ("m.unbind()[1]", "m[1]"),
    ("m.where(data > 2, w)", "T.where(data > 2, m, w)"), ("m.norm()", "T.tensor(29.0).sqrt() * (m == m).all().float()"),
    ("T.masked.mean(m)", "m.mean().get_data()"), ("m.log_softmax(1).exp()", "m.softmax(1)"),
    ("T.zeros_like(m)", "m * 0"), ("i << 1", "i * 2"), ("m.var(1, correction=0)", "m.var(1) * T.tensor([0.5, 0.5])"),
    ("m.flip(0)", "T.stack([m[1], m[0]])"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_what_is_there_beyond_pytorch(expression, expected):
    assert repr(eval(expression, names(plugrad))) == repr(eval(expected, names(plugrad)))


@pytest.mark.filterwarnings("ignore")
def test_gradients_reach_what_an_ordinary_tensor_was_computed_from():
    x = plugrad.tensor([[0.5, 1.5], [2.5, 0.25]], dtype=plugrad.float64, requires_grad=True)
    mask = plugrad.tensor([[True, False], [True, True]])

    def function(x):
        masked = plugrad.masked.as_masked_tensor(x @ x.t() + 1, mask)
        return (masked.log() * masked.softmax(0)).sum(1).to_tensor(0) + masked.tanh().to_tensor(2.0)

    assert plugrad.autograd.gradcheck(function, x) and plugrad.autograd.gradgradcheck(function, x)


@pytest.mark.parametrize("convert", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr()])
@pytest.mark.filterwarnings("ignore")
def test_gradients_pass_through_sparse_forms(convert):
    x = names(plugrad)["x"]
    (convert(x) * 3).sum().backward()
    assert repr(x.grad) == repr(plugrad.ones_like(x.detach()) * 3)


@pytest.mark.filterwarnings("ignore")
def test_gradients_with_other_masks_and_without_add_up():
    def total(uses_dense):
        x = plugrad.ones(3, requires_grad=True)
        one, other = plugrad.tensor([True, False, False]), plugrad.tensor([True, True, False])
        for mask in (one, other):
            plugrad.masked.as_masked_tensor(x, mask).sum().backward()
        if uses_dense:
            x.sum().backward()
        return x.grad

    assert repr(total(False)) == repr(plugrad.masked.masked_tensor(plugrad.tensor([2.0, 1.0, 0.0]),
                                                                   plugrad.tensor([True, True, False])))  # fmt: skip
    assert total(True).tolist() == [3.0, 2.0, 1.0]


def test_what_is_masked_out_may_be_nan_and_gives_no_gradient():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = plugrad.tensor([1.0, float("nan"), 4.0], requires_grad=True)
        masked = plugrad.masked.as_masked_tensor(x * 1, plugrad.tensor([True, False, True]))
        masked.log().sum().backward()
    assert x.grad.tolist() == [1.0, 0.0, 0.25]


def test_masked_tensors_are_said_to_be_a_prototype():
    def said(T, make):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make(T, T.ones(2, requires_grad=True), T.ones(2).bool())
        return [(one.category, one.filename) for one in caught if "prototype" in str(one.message)][:1], len(caught) > 1

    for make in (lambda T, d, m: T.masked.masked_tensor(d, m), lambda T, d, m: T.masked.MaskedTensor(d, m)):
        ours, theirs = said(plugrad, make), said(torch, make)
        assert ours[1] and theirs[1] and ours[0][0][0] is theirs[0][0][0] is UserWarning
        assert ours[0][0][1] == __file__


@pytest.mark.filterwarnings("ignore")
def test_what_has_no_rule_is_refused_with_a_way_out():
    m = names(plugrad)["m"]
    d = m.get_data()
    for call in (lambda: d.add_(m), lambda: m.cumsum(0), lambda: m.zero_(), lambda: plugrad.add(m, m, out=m)):
        with pytest.raises(TypeError, match="masked"):
            call()


@pytest.mark.filterwarnings("ignore")
def test_files_keep_masked_tensors_for_those_who_trust_them():
    file, m = io.BytesIO(), names(plugrad)["m"]
    plugrad.save(m, file)
    file.seek(0)
    assert repr(plugrad.load(file, weights_only=False)) == repr(m)
