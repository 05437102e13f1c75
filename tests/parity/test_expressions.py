"""Expressions evaluated with PyTorch and with plugrad: the printed results, or the classes of the errors, are equal."""

from __future__ import annotations

import copy
import math
import pickle
import warnings

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")

EXPRESSIONS = """
T.tensor([[1, 2], [3, 4]]) | T.tensor(0.5) | T.tensor([]) | T.tensor([True, False]) | T.tensor([1, 2.5])
T.tensor(1 + 2j) | T.tensor([1.0, float('nan'), float('inf')]) | T.tensor([1e-8, 1.0]) | T.tensor([1e10, 1.0])
T.tensor([[]]).shape | T.tensor(3, dtype=T.uint8) | T.tensor([300]).to(T.uint8) | T.tensor([-1.7, 1.7]).to(T.int32)
T.tensor(numpy.arange(3)) | T.tensor(numpy.float32(2)) | T.tensor([numpy.float64(1)])
T.as_tensor([1, 2], dtype=T.float64) | T.from_numpy(numpy.ones(2)) | T.zeros(2, 3) | T.zeros((2, 3), dtype=T.int64)
T.ones(2, 0) | T.full((2,), 7) | T.full((2,), 7.0) | T.full((), True) | T.eye(2, 3) | T.arange(5)
T.arange(1, 2, 0.25) | T.arange(5, 0, -2) | T.linspace(0, 1, 5) | T.linspace(0, 10, 3, dtype=T.int64)
T.zeros_like(T.ones(2, dtype=T.int32)) | T.ones_like(T.zeros(2), dtype=T.float64) | T.full_like(T.ones(2), 3)
T.empty(0) | T.arange(2000) | T.arange(12.0).reshape(3, 4) | T.ones(3, requires_grad=True)
T.ones(2, dtype=T.float64, requires_grad=True) | T.ones(2, requires_grad=True) * 2
(T.ones(2, requires_grad=True) * 2).sum() | T.ones(2, 2, requires_grad=True).t() | T.ones(2, requires_grad=True).exp()
T.ones(2, requires_grad=True)[0] | T.ones(2, requires_grad=True)[:1] | T.tensor(3).item() | T.tensor([1, 2]).tolist()
len(T.ones(3, 2)) | bool(T.tensor(1)) | int(T.tensor(2.7)) | float(T.tensor(2)) | T.ones(2, 3).size()
T.ones(2, 3).size(1) | T.ones(2, 3).stride() | T.ones(2, 3).t().stride() | T.ones(2, 3).t().is_contiguous()
T.ones(3)[None].stride() | T.ones(3, 2)[:, None, :, None].stride() | T.ones(3, 2).t()[None].stride()
T.ones(()).unsqueeze(0).stride() | T.ones(0, 2).unsqueeze(1).stride() | T.ones(3).expand(4, 3)[None].stride()
T.zeros_like(T.ones(2), pin_memory=False) | T.ones(2).new_zeros(3, pin_memory=None) | T.zeros(2, pin_memory=None)
T.ones(2).dim() | T.ones(2, 3).numel() | T.ones(2).type() | T.ones(2).long().type() | T.ones(2).dtype
T.ones(2).device | T.Size([1, 2]) + (3,) | T.Size([2, 3]).numel() | T.ones(2) + 1 | 1 - T.ones(2)
2 / T.tensor([1, 2]) | T.tensor([7, -7]) // 2 | T.tensor([7, -7]) % 3 | T.tensor([7.0, -7.0]) // 2
T.tensor([-7.5]) % 2 | T.tensor([2, 3]) ** 2 | 2 ** T.tensor([2, 3]) | T.tensor([2.0]) ** -1
T.tensor([2, 3]) / T.tensor([2, 2]) | T.tensor([5, 3]) & 1 | T.tensor([5, 3]) | ~T.tensor([True, False])
-T.tensor([1, 2]) | abs(T.tensor([-1, 2])) | T.tensor([1, 2]) << 1 | T.tensor([True]) + T.tensor([True])
T.tensor([True]) + 1 | T.tensor([1]) + 1.5 | T.tensor([1], dtype=T.uint8) + T.tensor([1], dtype=T.int8)
T.tensor([1.0]) + T.tensor(1.0, dtype=T.float64) | T.tensor(1) + T.tensor([1.0], dtype=T.float16) | T.tensor([1]) * 1j
T.tensor([1, 2]) > 1 | T.tensor([1, 2]) == T.tensor([1, 3]) | T.tensor([1.0]) == None | T.ones(2) != 3
T.ones(2, 2) @ T.ones(2) | T.arange(3) @ T.arange(3) | T.tensor([1.5]).round() | T.tensor([0.5, 1.5, 2.5]).round()
T.tensor([1.2345]).round(decimals=2) | T.arange(6).reshape(2, 3)[1] | T.arange(6)[[0, 2]]
T.arange(6)[T.arange(6) > 3] | T.arange(6).reshape(2, 3)[:, 1:] | T.arange(6).reshape(2, 3)[..., None].shape
T.arange(4)[-1] | T.arange(6.0).reshape(2, 3).sum(0) | T.arange(6).sum() | T.tensor([True, True]).sum()
T.arange(6.0).mean() | T.arange(6).prod() | T.arange(6.0).std() | T.arange(6.0).var(unbiased=False)
T.arange(6.0).reshape(2, 3).max(1) | T.tensor([3, 1, 2]).sort() | T.tensor([3, 1, 2]).topk(2)
T.tensor([3, 1, 2]).argsort() | T.tensor([1, 1, 2]).unique() | T.tensor([3.0, 1.0]).min()
T.tensor([1.0, 2.0]).norm() | T.tensor([[1.0, 2.0]]).logsumexp(1) | T.tensor([1, 2, 3]).cumsum(0)
T.tensor([0, 1]).any() | T.arange(6).reshape(2, 3).all(1) | T.arange(6).chunk(4) | T.arange(5).split(2)
T.arange(5).split([1, 4]) | T.arange(4).unbind() | T.cat([T.ones(1), T.zeros(2)])
T.stack([T.ones(2), T.zeros(2)], 1) | T.arange(3).repeat(2) | T.arange(3).expand(2, 3) | T.arange(3).flip(0)
T.ones(2, 3, 4).permute(2, 0, 1).shape | T.ones(2, 3).mT.shape | T.ones(1, 2, 1).squeeze().shape
T.where(T.tensor([True, False]), 1, 0) | T.where(T.tensor([True, False]), T.ones(2), 0)
T.tensor([1.0, 5.0]).clamp(2, 4) | T.tensor([1, 5]).clamp(max=3) | T.maximum(T.tensor([1, 5]), T.tensor([2, 2]))
T.lerp(T.zeros(2), T.ones(2), 0.25) | T.einsum('ij,jk->ik', T.ones(2, 3), T.ones(3, 2))
T.outer(T.arange(2), T.arange(3)) | T.tril(T.ones(3, 3)) | T.diag(T.ones(2))
T.nn.functional.one_hot(T.tensor([0, 2])) | T.nn.functional.softmax(T.zeros(2), 0)
T.nn.functional.relu(T.tensor([-1.0, 2.0])) | T.nn.functional.pad(T.ones(2), (1, 1))
T.nn.functional.mse_loss(T.ones(2), T.zeros(2)) | T.special.expit(T.zeros(1)) | T.linalg.norm(T.tensor([3.0, 4.0]))
T.linalg.det(T.eye(2))
T.Tensor(T.Size([])).shape | T.ones(2).new(T.tensor(1.0).size()).fill_(7) | T.LongTensor(T.Size([])).shape
T.Tensor().shape | T.Tensor(()).shape | T.ones(2).new(()).shape | T.Tensor(T.Size([0, 2])).shape
T.isclose(T.tensor([-1, 127, 0, 5], dtype=T.int8), T.tensor([127, -128, -128, 5], dtype=T.int8))
T.isclose(T.tensor([0, 5], dtype=T.uint8), T.tensor([255, 250], dtype=T.uint8))
T.allclose(T.tensor(2**62), T.tensor(-2**62))
T.allclose(T.tensor([100], dtype=T.int8), T.tensor([-100], dtype=T.int8), rtol=0, atol=60)
T.isclose(T.tensor(-1), T.tensor(1), 2)
T.randperm(256,dtype=T.uint8).unique().numel() | T.randperm(128,dtype=T.int8).unique().numel()
T.isnan(T.tensor([float('nan')])) | T.finfo(T.float32).eps | T.iinfo(T.int8).max
T.result_type(T.tensor([1]), 1.0) | T.promote_types(T.int32, T.float16) | T.can_cast(T.float64, T.int32)
T.is_tensor(T.ones(1)) | T.allclose(T.ones(2), T.ones(2) + 1e-9) | T.equal(T.ones(2), T.ones(3))
T.broadcast_shapes((2, 1), (3,)) | copy.copy(T.ones(2)) | copy.deepcopy(T.ones(2, requires_grad=True))
pickle.loads(pickle.dumps(T.arange(3))) | f"{T.tensor(1.5):.3f}" | numpy.asarray(T.arange(3))
numpy.add(T.ones(2), 1) | T.ones(2).numpy() | T.from_dlpack(numpy.ones(2)) | list(T.arange(3))
[int(x) for x in T.arange(3)] | 2 in T.arange(3) | T.tensor([1, 2]).float().half().dtype
T.ones(2).to(T.ones(1).double()).dtype | T.zeros(2, device='meta') | T.device('cpu') | T.Tensor([1, 2])
T.FloatTensor([1.5]) | T.LongTensor([1]) | T.nn.Parameter(T.ones(2)) | T.nn.Linear(2, 3)
T.nn.Sequential(T.nn.ReLU(), T.nn.Dropout(0.1)) | T.nn.Conv2d(1, 2, 3, padding=1) | T.optim.SGD([T.ones(1)], 0.1)
T.autograd.functional.hessian(lambda x: (x ** 3).sum(), T.arange(2.0)) | T.ones(2).data | T.ones(2).grad
T.ones(2).is_leaf | T.ones(2).add(T.ones(2), alpha=3) | T.addcmul(T.ones(1), T.ones(1), T.ones(1), value=2)
T.ones(2, 2).fill_(3) | T.ones(2).zero_() | T.zeros(3).index_fill(0, T.tensor([1]), 2)
T.zeros(2, 2).scatter(1, T.tensor([[0], [1]]), 5.0) | T.arange(4).gather(0, T.tensor([3]))
T.ones(2).masked_fill(T.tensor([True, False]), 0) | T.arange(4).masked_select(T.arange(4) > 1)
T.arange(6).view(2, -1) | T.arange(3.0).histogram().hist.shape
T.ones(2) * numpy.array(1) | T.ones(2) - numpy.array([1, 2]) | T.ones(2) / numpy.float32(2)
T.ones(2) ** numpy.array(2)
T.arange(2) + numpy.array(1.5) | T.ones(2).half() * numpy.ones(2) | T.tensor([1.5]).bfloat16().frexp()
T.can_cast(int, T.int64)
T.einsum('i,j', T.ones(2).half(), T.ones(2)) | T.linalg.slogdet(T.full((2, 2), float('nan')))
T.ones(2, 3).repeat(2, True)
T.diff(T.tensor([True, False]), append=T.ones(1))
T.nn.functional.huber_loss(T.ones(2), T.zeros(2).double(), reduction='none')
T.nn.functional.binary_cross_entropy_with_logits(T.ones(2).half(), T.ones(2).double()).dtype | T.arange(0, 5, 2)
T.special.chebyshev_polynomial_v(T.ones(1), T.tensor([float('nan')]))
T.addmm(T.ones(1), T.ones(1, 2), T.ones(2, 1), beta=True)
T.ones(2).to(int) | T.ones(2).to(dtype=bool) | T.ones(2).to(float) | T.ones(2).to('cpu', bool)
T.ones(2, dtype=T.int32).type(T.Tensor)
T.nn.Linear(2, 1).to(float).weight.dtype | T.tensor([1, 2, 3])[type('Index', (), {'__index__': lambda self: -1})()]
T.ones(2,3).H.shape
T.ones(4,2,3).mH.shape
T.ones(2,requires_grad=True).view(T.float64)
T.ones(2,requires_grad=True).view(T.float32).requires_grad
T.ones(2,dtype=T.complex64,requires_grad=True).view(T.float32)
T.ones(2,requires_grad=True).view(1,2).requires_grad
T.empty(3,dtype=T.float64).uniform_(-42,1.7976931348623157e308).shape
T.empty(2000,dtype=T.uint32).random_(0,None).double().max()>4e9
T.empty(2000,dtype=T.int8).random_(0,None).double().max()
T.empty(2000,dtype=T.int8).random_(5,None).double().max()
T.empty(2000,dtype=T.int8).random_(5).double().max()
T.empty(2000,dtype=T.int8).random_(2,5).max()
T.arange(5).roll(1,dims=None)
T.roll(T.arange(4).reshape(2,2),1,None)
T.arange(5,out=T.zeros(1,2))
T.arange(2,out=T.zeros(5))
T.linspace(0,1,3,out=T.zeros(5))
T.arange(6,out=T.zeros(2,3))
(T.set_default_dtype(T.float64), T.Storage.__name__, T.set_default_dtype(T.float32), T.Storage.__name__)
T.Storage is T.FloatStorage
T.arange(6.).reshape(2,3).t().resize_(2,2)
T.arange(6.).reshape(2,3)[1:].resize_(2)
T.arange(6.).reshape(2,3)[:,1].resize_(3)
T.arange(6.).resize_(2,3)
T.arange(6.).resize_as_(T.ones(3))
T.arange(24).reshape(2,3,4).permute(2,0,1).resize_(3,4).stride()
T.bernoulli(T.ones(2),out=T.zeros(2,dtype=T.int64))
T.bernoulli(T.ones(2),out=T.zeros(2,dtype=T.bool))
T.ones(2).bernoulli(1.0)
T.empty(2,2)[0:0].view(0,1).data_ptr()
T.empty(0).data_ptr()
T.empty(2,2)[1:].storage_offset()
T.empty(3)[3:].is_set_to(T.empty(3)[3:])
(lambda x: x[1:].is_set_to(x[1:]))(T.ones(3))
""".strip()

ERRORS = """
T.ones(2, pin_memory=1) | T.tensor(2, pin_memory=None) | T.zeros_like(T.ones(2), pin_memory="no")
float(T.ones(2)) | int(T.zeros(0)) | complex(T.ones(2)) | T.ones(2).to(str) | T.ones(2).type(int)
T.ones(2).type(Exception) | T.ones(2).type('x') | T.ones(2).type(3) | T.nn.Linear(2, 1).to(int)
T.ones(2) + T.ones(3) | T.ones(2, 3) @ T.ones(2, 3) | T.ones(2)[5] | T.ones(2)[0, 0] | T.ones(2).view(3)
T.ones(2).sum(3) | T.ones(2, requires_grad=True).numpy() | T.ones(2, requires_grad=True).add_(1)
T.ones(2).backward() | T.ones(2).item() | bool(T.ones(2)) | T.arange(2).requires_grad_() | T.tensor([[1], [1, 2]])
T.tensor('a') | T.zeros(-1) | T.ones(2).to('nowhere') | T.cat([T.ones(2, 1), T.ones(3)])
T.stack([T.ones(1), T.ones(2)]) | T.ones(2).expand(3) | T.ones(2, 3).permute(0) | T.ones(2).nosuch
T.ones(2).add_(T.ones(2, 2)) | T.arange(2).add_(1.5) | T.arange(2).div_(2) | T.ones(2) & 1
T.tensor([True]) - T.tensor([True]) | len(T.tensor(1)) | iter(T.tensor(1)) | T.ones(2)[::-1] | T.ones(2)['a']
T.ones(2).gather(0, T.tensor([5])) | T.ones(2, 2).t_().view(4)
T.nn.functional.cross_entropy(T.ones(2, 3), T.tensor([0, 5])) | T.nn.Linear(2, 3)(T.ones(4)) | T.optim.SGD([], 0.1)
T.ones(2).reshape(3) | T.arange(3).mean() | T.ones(2).softmax(2) | T.mm(T.ones(2), T.ones(2)) | T.ones(3).chunk(0)
T.dtype() | T.zeros(2).copy_(T.zeros(3)) | T.zeros(2).__setitem__(0, T.zeros(2)) | T.eye(2).cholesky_inverse(1, 2, 3)
T.ones(2).squeeze(3)
T.ones(2).H
T.ones(2,3,4).H
T.ones(2).mH
T.ones(4,4,3)[:,:,1:].view(T.float64)
T.ones(32).as_strided((4,4,2),(2,1,1)).view(T.float64)
T.ones(4).tensor_split(T.tensor([1.,2.]))
T.empty(3).uniform_(2,1)
T.empty(3).uniform_(-3e38,3e38)
T.empty(3,dtype=T.float64).uniform_(-1.7e308,1.7e308)
T.empty(3).uniform_(0,1e39)
T.empty(3,dtype=T.float16).uniform_(-65504,65504)
T.empty(3,dtype=T.int64).uniform_(-65504,65504)
T.zeros((2,),layout=T.sparse_coo,out=T.zeros(2))
T.randperm(3000,out=T.zeros(3,dtype=T.uint8))
T.randperm(3000,out=T.zeros(3,dtype=T.float16))
T.randperm(3000,dtype=T.int8)
T.randperm(257,dtype=T.uint8) | T.randperm(129,out=T.zeros(3,dtype=T.int8)) | T.randperm(2,dtype=T.bool)
T.arange(1.175494351e-38,3.402823466e+38)
T.cumulative_trapezoid(T.ones(3,3),dim=2) | T.trapezoid(T.ones(3,3),T.ones(3),dim=-3)
T.arange(6).roll((),(0,)) | T.arange(6).roll((),()) | T.arange(6).roll((1,2),(0,))
T.nonzero(T.ones(2),as_tuple=True,out=T.zeros(2))
T.rand([]).index_put([], T.tensor([1.0]), True)
T.TypedStorage([1,2],dtype=T.float32).copy_(T.TypedStorage([1,2],dtype=T.float32,device='meta'))
T.ones(2).resize_((2**31-1,2**31-1))
""".strip()


def _split(text):
    return [part.strip() for line in text.splitlines() for part in line.split(" | ")]


def _run(expression, T):
    names = {"T": T, "numpy": numpy, "copy": copy, "pickle": pickle, "math": math}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(expression, names)


@pytest.mark.parametrize("expression", _split(EXPRESSIONS))
def test_prints_the_same(expression):
    assert repr(_run(expression, plugrad)) == repr(_run(expression, torch))


@pytest.mark.parametrize("expression", _split(ERRORS))
def test_raises_the_same(expression):
    with pytest.raises(Exception) as theirs:
        _run(expression, torch)
    with pytest.raises(Exception) as ours:
        _run(expression, plugrad)
    assert isinstance(ours.value, type(theirs.value)), f"{ours.value!r} is not a {type(theirs.value).__name__}"
    assert str(ours.value)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_a_grid_with_nan(mode, padding, align):
    image = numpy.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    grid = numpy.array([[math.nan, 0.3], [0.2, math.nan], [math.nan, math.nan], [0.1, -0.4], [2.0, 3.0]])
    theirs, ours = (
        T.nn.functional.grid_sample(T.tensor(image), T.tensor(grid).reshape(1, 1, 5, 2), mode, padding, align).numpy()
        for T in (torch, plugrad)
    )
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("expression", [
    "T.ones(2).H", "T.ones(2, 3, 4).H", "T.ones(2).mH", "T.ones(4, 4, 3)[:, :, 1:].view(T.float64)",
    "T.empty(3).uniform_(-3e38, 3e38)", "T.empty(3).uniform_(0, 1e39)", "T.randperm(3000, dtype=T.float16)",
    "T.ones(4).tensor_split(T.tensor([1.0]))", "T.ones(2).resize_((2**31 - 1, 2**31 - 1))",
    "T.rand([]).index_put([], T.tensor([1.0]), True)",
    "T.arange(1.175494351e-38, 3.402823466e+38)", "T.randperm(257, dtype=T.uint8)",
])  # fmt: skip
def test_refuses_in_the_same_words(expression):
    with pytest.raises(RuntimeError) as theirs:
        _run(expression, torch)
    with pytest.raises(RuntimeError) as ours:
        _run(expression, plugrad)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("expression", ["T.empty(10, 0)[:, [0]]", "T.empty(10, 0)[:, 0]", "T.empty(0)[T.tensor([1])]"])
def test_an_index_into_no_elements(expression):
    with pytest.raises(IndexError) as theirs:
        _run(expression, torch)
    with pytest.raises(IndexError) as ours:
        _run(expression, plugrad)
    assert str(ours.value) == str(theirs.value)


def test_memory_that_resize_adds_is_filled_where_results_are_deterministic():
    x = plugrad.zeros(46).as_strided((2, 3, 4), (1, 4, 12))
    plugrad.use_deterministic_algorithms(True)
    try:
        x.resize_(4, 3, 4)
    finally:
        plugrad.use_deterministic_algorithms(False)
    assert x.reshape(-1)[:46].eq(0).all() and x.reshape(-1)[46:].isnan().all()


def test_a_progression_that_changes_the_size_of_out_is_warned_of():
    with pytest.warns(UserWarning, match="The out tensor will be resized to a tensor of shape"):
        plugrad.arange(5, out=plugrad.zeros(1, 2))


def test_what_is_seen_as_another_dtype_has_no_gradient_but_its_memory():
    x = plugrad.ones(2, requires_grad=True)
    y = x.view(plugrad.complex64)
    assert not y.requires_grad and y.data_ptr() == x.data_ptr() and x.view(2, 1).requires_grad
