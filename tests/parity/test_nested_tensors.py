"""Nested tensors on plugrad and on PyTorch side by side: texts, shapes, results, gradients, errors."""

from __future__ import annotations

import copy
import io
import pickle
import re
import warnings

import pytest

import plugrad
from support.distribution_builder import output

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")

# j: jagged, s: strided, k: of two columns, heads: of eight, q: of two heads. vals: values and offsets, unb: components.
EXPRESSIONS = """
j | s | repr(j) | str(j) | repr(s) | j.shape | j.size() | j.size(0) | j.size(2) | j.size(-1) | s.size(0) | s.size(1)
s.size(2) | j.dim() | s.dim() | j.ndim | j.numel() | s.numel() | j.layout | s.layout | j.dtype
j.device | j.is_nested | s.is_nested | a.is_nested | j.is_contiguous() | s.is_contiguous() | j.stride() | s.stride()
len(j) | isinstance(j, T.Tensor) | j.requires_grad | j.is_leaf | j.values() | j.offsets() | j.lengths()
s.values() | s.offsets() | j.unbind() | s.unbind() | list(j) | j[0] | s[0] | j[1] | j[-1] | j[0,1] | s[0,1]
j[3] | j[:2] | j[0:1] | j[...,0] | j.to_padded_tensor(0.) | s.to_padded_tensor(0.) | N.to_padded_tensor(j, 0)
N.to_padded_tensor(s, -1) | N.to_padded_tensor(s, 0, (3,4,5)) | N.to_padded_tensor(j, 0, (3,4,3))
N.to_padded_tensor(s,0,(3,2,3)) | j.to_padded_tensor(1., output_size=(3,5,3)) | T.jagged | str(j.shape[1])
j.shape[1] == j.shape[1] | j.shape[1] > 1 | j.shape[1]==k.shape[1] | bool(j.shape[1]) | isinstance(j.shape[1], int)
j.shape == (j*2).shape | j.shape == k.shape
N.nested_tensor([[1,2],[3]]) | N.nested_tensor([[1.,2],[3.]],layout=T.jagged) | N.nested_tensor([])
N.nested_tensor([],layout=T.jagged) | N.nested_tensor([T.ones(2)]) | N.nested_tensor([T.ones(2),T.ones(2,2)])
N.nested_tensor([T.ones(2),T.ones(2,2)],layout=T.jagged) | N.nested_tensor([T.ones(2,2),T.ones(2,3)],layout=T.jagged)
N.nested_tensor([T.ones(2,2),T.ones(2,3)]) | N.nested_tensor([T.ones(1,2),T.ones(2,2)],dtype=T.float64)
N.nested_tensor([T.ones(2),T.ones(1)],dtype=T.int64,layout=T.jagged) | N.nested_tensor([T.tensor(1.)])
N.nested_tensor(T.ones(2,3)) | N.nested_tensor(3) | N.nested_tensor([a], layout=T.sparse_coo)
N.nested_tensor([a,b],requires_grad=True) | N.nested_tensor([a,b],layout=T.jagged,requires_grad=True)
N.as_nested_tensor([a,b]) | N.as_nested_tensor((a,b),layout=T.jagged) | N.as_nested_tensor(T.ones(2,3))
N.as_nested_tensor(T.ones(2,3),layout=T.jagged) | N.as_nested_tensor(T.ones(2)) | N.as_nested_tensor([1,2])
N.as_nested_tensor(j) | N.as_nested_tensor(j,layout=T.jagged) is j | N.as_nested_tensor(s,dtype=T.float64)
N.as_nested_tensor([a.clone().requires_grad_(),b])
N.as_nested_tensor([a.clone().requires_grad_(),b],layout=T.jagged)
N.nested_tensor_from_jagged(T.ones(5,2),T.tensor([0,2,5]))
N.nested_tensor_from_jagged(T.ones(5,2),lengths=T.tensor([2,3])) | N.nested_tensor_from_jagged(T.ones(5,2))
N.nested_tensor_from_jagged(T.arange(6.),T.tensor([0,2,3,6]),T.tensor([1,1,2])).unbind()
N.nested_tensor_from_jagged(T.arange(12.).reshape(2,6),T.tensor([0,2,6]),jagged_dim=2)
N.nested_tensor_from_jagged(T.arange(12.).reshape(2,6),T.tensor([0,2,6]),jagged_dim=2).unbind()
N.nested_tensor_from_jagged(T.ones(5,2),T.tensor([0,2,5]),jagged_dim=0)
N.narrow(T.arange(12.).reshape(3,4),1,T.tensor([0,1,2]),T.tensor([1,2,2]),layout=T.jagged).unbind()
N.narrow(T.arange(12.).reshape(3,4),1,T.tensor([0,1,2]),T.tensor([1,2,2]),layout=T.jagged)
N.narrow(T.arange(12.).reshape(3,4),1,1,2,layout=T.jagged).unbind() | N.narrow(T.arange(12.).reshape(3,4),1,1,2)
N.narrow(T.arange(12.).reshape(3,4),0,1,2) | N.narrow(T.arange(12.).reshape(3,4),1,T.tensor([0,1,2]),2)
N.narrow(T.ones(3,4),1,1.5,2) | N.narrow(T.ones(3,4),0,0,2,layout=T.jagged)
N.narrow(T.arange(12.).reshape(3,4),1,T.tensor([0,1,2]),T.tensor([1,2,2]),layout=T.jagged).is_contiguous()
N.narrow(T.arange(12.).reshape(3,4),1,T.tensor([0,1,2]),T.tensor([1,2,2]),layout=T.jagged).contiguous().values()
N.narrow(T.arange(12.).reshape(3,4),1,T.tensor([0,1,2]),T.tensor([1,2,2]),layout=T.jagged).to_padded_tensor(-1.)
N.masked_select(T.arange(6.).reshape(2,3),T.tensor([[True,False,True],[False,False,True]]))
unb(N.masked_select(T.arange(6.).reshape(2,3),T.tensor([[True,False,True],[False,False,True]])))
vals(j*2) | vals(j+1) | vals(1-j) | vals(2/j) | vals(j+j) | vals(-j) | vals(abs(j)) | vals(j.relu()) | vals(F.silu(j))
vals(F.relu(j)) | vals(j.sigmoid()) | vals(T.tanh(j)) | vals(j.exp()) | vals(j.clamp(min=0)) | vals(j**2) | vals(j>0)
vals(j==j) | vals(j.float()) | vals(j.double()) | vals(j.to(T.int64)) | vals(j*D) | vals(D*j) | vals(j+T.ones(1,3))
vals(j*T.ones(3,1,1)) | vals(j+T.ones(3,1,3)) | vals(j*T.ones(2,3)) | j+k
vals(j+N.nested_tensor([a,b,c],layout=T.jagged)) | vals(T.where(j>0,j,j*0)) | vals(T.where(j>0,j,0.))
vals(j.masked_fill(j>0,0.)) | vals(T.zeros_like(j)) | vals(T.ones_like(j)) | T.rand_like(j).shape==j.shape
vals(T.full_like(j,2.)) | vals(T.empty_like(j).zero_()) | vals(j.clone()) | vals(j.detach()) | vals(j.contiguous())
vals(j.add_(1)) | vals(j.mul_(2)) | vals(j.zero_()) | vals(j.copy_(j*2)) | vals(j.fill_(2)) | vals(j.logical_not())
vals(F.dropout(j,0.)) | vals(F.dropout(j,0.5,training=False)) | vals(j.nan_to_num()) | vals(j.isnan())
T.allclose(j,j) | vals(j.square()) | vals(T.maximum(j,j)) | vals(F.leaky_relu(j)) | vals(j/j.shape[0])
vals(j.type_as(j.double())) | vals(F.softplus(j)) | vals(j.half()) | vals(j.bfloat16()) | vals(j.bool())
vals(j.log1p()) | vals(j.reciprocal())
(T.manual_seed(0), F.dropout(j,0.), T.rand(1))[2] | (T.manual_seed(0), F.dropout(j,p=1.), T.rand(1))[2]
(T.manual_seed(0), F.dropout(s,0.), T.rand(1))[2] | (T.manual_seed(0), T.dropout(s,1.,True), T.rand(1))[2]
(T.manual_seed(0), F.dropout(j,0.,training=False), T.rand(1))[2]
list((s*2).unbind()) | list((s+s).unbind()) | s+1 | unb(s.relu()) | unb(F.relu(s)) | unb(-s) | unb(abs(s))
unb(s*T.tensor(2.)) | unb(s-s) | unb(s/2) | s+j | unb(s*D) | unb(s.sum(-1)) | unb(s.sum(-1,keepdim=True)) | s.sum(1)
unb(lin(s)) | unb(s.softmax(-1)) | unb(F.softmax(s,-1)) | s.transpose(1,2) | unb(s.transpose(1,2)) | s.chunk(3,-1)
unb(s.matmul(s.transpose(1,2))) | unb(s@T.ones(3,2)) | unb(T.bmm(s,s.transpose(1,2))) | unb(s.unsqueeze(1))
unb(s.reshape(3,-1,3)) | unb(s.view(3,-1,1,3)) | s.select(0,1) | s.narrow(0,0,2) | unb(s.clone()) | unb(s.detach())
unb(s.to(T.float64)) | unb(T.zeros_like(s)) | unb(s.masked_fill(s>0,0)) | T.cat([s,s]) | T.stack([s,s])
s.permute(0,2,1) | unb(s.add_(s)) | unb(s.mul_(2)) | unb(s.fill_(1)) | unb(s.zero_()) | unb(F.dropout(s,0.))
s.numpy() | s.tolist() | s.item() | s.data_ptr() > 0 | s.contiguous() is s | unb(s.cos()) | unb(s.tanh())
unb(F.silu(s)) | unb(s.sqrt()) | s.equal(s) | s.t() | unb(F.embedding(N.nested_tensor([[0,1],[2]]),T.eye(3)))
unb(F.pad(s,(0,1))) | unb(s.squeeze(0)) | unb(s.cumsum(1)) | unb(s.max(-1)[0]) | s.size(-1) | s.bool() | unb(s.int())
unb(s>=0)
vals(lin(j)) | vals(ln(j)) | vals(F.layer_norm(j,(3,))) | vals(j.softmax(-1)) | vals(F.softmax(j,-1))
vals(j.log_softmax(-1)) | j.softmax(1) | vals(j.softmax(1)) | j.softmax(0) | j.sum() | j.mean() | j.sum(1)
j.sum(dim=1,keepdim=True) | vals(j.sum(-1)) | vals(j.sum(-1,keepdim=True)) | vals(j.sum(2)) | j.mean(1)
j.mean(dim=1,keepdim=True) | vals(j.mean(-1)) | j.sum(0) | j.sum((1,2)) | j.sum((0,1)) | j.sum((0,1,2)) | j.amax(1)
j.amin(1) | j.amax(-1) | j.max() | j.max(1) | vals(j.max(-1)[0]) | j.min(dim=1) | j.prod(1) | j.any() | j.all()
j.all(1) | j.any(1) | j.argmax(1) | vals(j.argmax(-1)) | j.var(1) | j.std(1) | vals(j.var(-1)) | j.logsumexp(1)
j.norm() | vals(T.linalg.vector_norm(j,dim=-1)) | j.mean(1).shape | vals(j-j.mean(1,keepdim=True))
vals(F.normalize(j,dim=-1)) | j.abs().max() | j.sum(1,dtype=T.float64) | T.sum(j, dim=1)
vals(j.chunk(3,-1)[1]) | j.chunk(3,dim=-1)[0].shape==(3,j.shape[1],1) | j.chunk(2,0) | [vals(t) for t in j.chunk(3,0)]
j.chunk(2,1) | vals(j.split(1,-1)[2]) | vals(j.split([1,2],-1)[1]) | j.split([1,2],0) | j.transpose(1,2).shape
j.transpose(1,2) | j.transpose(1,2).values() | unb(j.transpose(1,2)) | vals(j.transpose(1,2).transpose(1,2))
j.transpose(0,1) | j.transpose(-1,-2).is_contiguous() | heads.unflatten(-1,(2,4)).shape
heads.unflatten(-1,[2,4]).values().shape | heads.view(3,-1,2,4).shape | heads.view(3,heads.shape[1],2,4).shape
heads.reshape(3,-1,2,4).shape | heads.reshape(3,heads.size(1),2,4).shape | q.shape | q.values().shape
[t.shape for t in q.unbind()] | q._ragged_idx | q.transpose(1,2).flatten(-2).shape
q.transpose(1,2).reshape(3,-1,8).shape | vals(q.transpose(1,2).flatten(-2)) | q.contiguous().shape
vals(F.scaled_dot_product_attention(q,q,q).transpose(1,2).flatten(-2))
F.scaled_dot_product_attention(q,q,q).shape==q.shape | vals(j.unsqueeze(-1)) | j.unsqueeze(0) | j.unsqueeze(1).shape
j.unsqueeze(2).shape | j.unsqueeze(-1).shape | j.unsqueeze(-1).squeeze(-1).shape | j.squeeze(0)
j.unsqueeze(1).values().shape | j.unsqueeze(2).values().shape | T.cat([j,j]).shape | vals(T.cat([j,j],-1))
T.cat([j,j],1) | T.stack([j,j]) | vals(T.stack([j,j],-1)) | vals(j.expand(3,j.shape[1],3))
j.unsqueeze(-1).expand(-1,-1,-1,2).shape | j.expand(-1,-1,-1).shape | j.select(0,1) | vals(j.select(2,0))
vals(j.select(-1,1)) | j.select(1,0) | vals(j.narrow(-1,0,2)) | j.narrow(1,0,1) | vals(j[...,1:]) | j[:,0] | j[1:]
vals(j.permute(0,1,2)) | j.permute(0,2,1).shape | j.flatten(1,2).shape | vals(j.flatten(1,2)) | j.flatten()
heads.flatten(0,1) | j.view(3,-1,3).shape | j.view(3,-1) | j.view(-1,3) | j.view(9,-1) | j.reshape(3,-1,1,3).shape
j.reshape(-1) | vals(T.matmul(j,T.ones(3,2))) | vals(j@T.ones(3,2)) | j@j.transpose(1,2)
[t for t in (j.transpose(1,2)@j)] | T.bmm(j.transpose(1,2),j) | T.bmm(j,T.ones(3,3,2)).values()
T.matmul(j,T.ones(3,3,2)).values() | vals(F.embedding(N.nested_tensor([[0,1],[2]],layout=T.jagged),T.eye(3)))
vals(nn.Embedding.from_pretrained(T.eye(3))(N.nested_tensor([[0,1],[2]],layout=T.jagged))) | j.numpy() | j.tolist()
j.item() | float(j.sum()) | copy.deepcopy(j).values() | copy.copy(j).values() | pickle.loads(pickle.dumps(j)).values()
vals(j.data) | j.cpu() is j | j.to("cpu") is j | j.index_select(0,T.tensor([0])) | j.gather(0,T.zeros(1).long())
j.flip(-1).values() | j.t() | j.mT.shape | j.T | j.sort() | j.topk(1) | F.mse_loss(j,j)
F.mse_loss(j,j,reduction="none").values() | F.cosine_similarity(j,j,dim=-1).values() | F.rms_norm(j,(3,)).values()
T.nn.utils.rnn.pad_sequence(j.unbind(),batch_first=True).shape | j.tile(2) | j.repeat(1,1,2) | j.nonzero()
j._min_seqlen | j._max_seqlen | j._get_min_seqlen() | j._get_max_seqlen() | j._offsets
grad(lambda x:x*2) | grad(lambda x:x*x) | grad(lambda x:F.linear(x,T.ones(2,3)))
grad(lambda x:x.to_padded_tensor(0.)**2) | grad(lambda x:x.unbind()[1]**2) | grad(lambda x:x[0]**2)
grad(lambda x:x.transpose(1,2)*2) | grad(lambda x:x.amax(1)) | grad(lambda x:x.chunk(3,-1)[0])
grad(lambda x:T.cat([x,x],-1)) | grad(lambda x:x*T.ones(3)) | grad(lambda x:x.values()**2) | grad(lambda x:x.sum())
grad(lambda x:x.mean()) | grad(lambda x:x*2, T.strided) | grad(lambda x:x*x, T.strided)
grad(lambda x:x.to_padded_tensor(0.)**2, T.strided) | grad(lambda x:x.unbind()[1]**2, T.strided)
grad(lambda x:F.linear(x,T.ones(2,3)), T.strided) | vals(grad(lambda x:x*x,leaf=True)) | grad(lambda x:x*x,leaf=True)
unb(grad(lambda x:x*x,T.strided,leaf=True)) | grad(lambda x:x*x,T.strided,leaf=True)
(j.requires_grad_()*2) | (s.requires_grad_()*2) | j.requires_grad_() | s.requires_grad_()
j.requires_grad_().values() | j.requires_grad_()[0]
""".strip()
ALL = [one.strip() for line in EXPRESSIONS.splitlines() for one in line.split(" | ")]


def names(T):
    a, b, c = T.arange(6.0).reshape(2, 3), T.arange(9.0).reshape(3, 3) - 4, T.ones(1, 3)
    N, offsets = T.nested, T.tensor([0, 2, 3, 6])
    heads = N.nested_tensor_from_jagged(T.arange(48.0).reshape(6, 8) / 10, offsets)

    def linear(x):
        T.manual_seed(0)
        return T.nn.Linear(3, 2)(x)

    return {
        "T": T, "N": N, "F": T.nn.functional, "nn": T.nn, "copy": copy, "pickle": pickle, "a": a, "b": b, "c": c,
        "j": N.nested_tensor([a, b, c], layout=T.jagged), "s": N.nested_tensor([a, b, c]), "heads": heads,
        "k": N.nested_tensor_from_jagged(T.arange(12.0).reshape(6, 2), offsets), "D": T.ones(3), "lin": linear,
        "ln": T.nn.LayerNorm(3), "q": heads.unflatten(-1, (2, 4)).transpose(1, 2),
        "vals": lambda t: (t.values(), t.offsets()), "unb": lambda t: list(t.unbind()),
        "grad": lambda *args, **options: gradient(T, (a, b, c), *args, **options),
    }  # fmt: skip


def gradient(T, tensors, function, layout=None, leaf=False):
    """Return the gradients of the sum of a function of a nested tensor, to the tensors that it was made of or to it."""
    layout = T.jagged if layout is None else layout
    leaves = [one.clone().requires_grad_() for one in tensors]
    if leaf:
        x = T.nested.nested_tensor(list(tensors), layout=layout, requires_grad=True)
    else:
        x = T.nested.as_nested_tensor(leaves, layout=layout)
    total(function(x)).backward()
    return x.grad if leaf else [one.grad for one in leaves]


def total(y):
    return y.sum() if not y.is_nested else sum(part.sum() for part in y.unbind())


def outcome(T, expression):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return normal(repr(eval(expression, names(T))))
    except Exception as error:
        return type(error)


def normal(text):
    """Return a text without what differs: numbers of symbols, names of nodes, signs of zeros."""
    text = re.sub(r"grad_fn=<[^>]*>", "grad_fn=<>", re.sub(r"\bj\d+", "j0", text))
    return re.sub(r"\s+|(?<=\[) ", " ", text.replace("-0.", " 0.")).replace("[ ", "[")


@pytest.mark.parametrize("expression", ALL)
def test_expressions_are_pytorchs(expression):
    ours, theirs = outcome(plugrad, expression), outcome(torch, expression)
    if isinstance(ours, type) and isinstance(theirs, type):
        assert issubclass(ours, theirs) or issubclass(theirs, ours)
    else:
        assert ours == theirs


# What PyTorch refuses, or gets wrong, is here what the components say.
@pytest.mark.parametrize("expression, of_each", [
    ("unb(s.exp())", "t.exp()"), ("unb(s**2)", "t**2"), ("unb(s == s)", "t == t"), ("unb(j.cumsum(1))", "t.cumsum(0)"),
    ("unb(j.cumsum(-1))", "t.cumsum(-1)"), ("list(j.nansum(1))", "t.nansum(0)"), ("unb(j[:, :, 1:])", "t[:, 1:]"),
    ("unb(j[:, :, 0])", "t[:, 0]"), ("unb(j[:, :, None])", "t[:, None]"), ("unb(F.silu(s))", "F.silu(t)"),
    ("unb(j.log_softmax(1))", "t.log_softmax(0)"), ("unb(2 / s)", "2 / t"), ("unb(1 - s)", "1 - t"),
    ("grad(lambda x: x.sum(1) ** 2)", "2 * t.sum(0).expand(t.shape)"),
    ("grad(lambda x: x.mean(1))", "T.ones_like(t) / t.shape[0]"),
    ("grad(lambda x: x.softmax(1)[0] * 0 + x[0])", "T.ones_like(t) * (t.shape == a.shape)"),
])  # fmt: skip
def test_what_is_there_beyond_pytorch(expression, of_each):
    space = names(plugrad)
    expected = [eval(of_each, {**space, "t": space[name]}) for name in "abc"]
    for ours, one in zip(eval(expression, space), expected):
        assert plugrad.allclose(ours, one)


@pytest.mark.parametrize("function", [
    lambda x, w: x * 2 + x * w[0],
    lambda x, w: x.softmax(-1) * x, lambda x, w: x.softmax(1) * x, lambda x, w: x.mean(1),
    lambda x, w: x.sum(1, keepdim=True) * x, lambda x, w: x.prod(1),
    lambda x, w: plugrad.nn.functional.linear(x, w.t()),
    lambda x, w: x.transpose(1, 2) @ x, lambda x, w: x @ w, lambda x, w: x.to_padded_tensor(1.0), lambda x, w: x[1],
    lambda x, w: x.unsqueeze(-1).flatten(2, 3).unflatten(-1, (3, 1)).squeeze(-1).permute(0, 2, 1),
    lambda x, w: plugrad.cat([x, x * 2], -1).chunk(2, -1)[1], lambda x, w: plugrad.stack([x, x], 1).select(1, 0),
    lambda x, w: x.amax(1), lambda x, w: x.contiguous().values(), lambda x, w: plugrad.matmul(x, w.expand(3, 3, 3)),
    lambda x, w: x + w[0].reshape(1, 1, 3), lambda x, w: x * w.unsqueeze(1),
])  # fmt: skip
def test_gradients_reach_components_and_dense_operands(function):
    space = names(plugrad)
    inputs = [space[name].double().mul(0.3).sin().requires_grad_() for name in "abc"]
    inputs.append(plugrad.arange(9.0, dtype=plugrad.float64).reshape(3, 3).cos().requires_grad_())

    def run(*inputs):
        result = function(plugrad.nested.as_nested_tensor(inputs[:3], layout=plugrad.jagged), inputs[3])
        return result.values() if result.is_nested else result

    assert plugrad.autograd.gradcheck(run, inputs) and plugrad.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_gradients_pass_through_the_strided_layout():
    space = names(plugrad)
    inputs = [space[name].double().mul(0.3).sin().requires_grad_() for name in "abc"]

    def run(*inputs):
        x = plugrad.nested.as_nested_tensor(inputs)
        y = plugrad.nn.functional.scaled_dot_product_attention(*[x.unsqueeze(1)] * 3)
        return (y.squeeze(1).softmax(-1) * x).to_padded_tensor(0.5)

    assert plugrad.autograd.gradcheck(run, inputs) and plugrad.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_leaves_accumulate_and_keep_their_offsets():
    for layout in (plugrad.jagged, plugrad.strided):
        x = plugrad.nested.nested_tensor([plugrad.ones(2), plugrad.ones(3)], layout=layout, requires_grad=True)
        for _ in range(2):
            total(x * x).backward()
        assert x.grad.is_nested and x.grad.layout is layout and x.grad.values().tolist() == [4.0] * 5
        y = plugrad.nested.as_nested_tensor([plugrad.ones(2, requires_grad=True), plugrad.ones(3)], layout=layout)
        (y * 2).backward(y.detach())
        with pytest.raises(RuntimeError, match="leaf Variable"):
            x.add_(1)


def attention_block(T):
    """Return the result and the gradients of attention over sequences of 4, 2 and 5 steps, nested and padded."""
    T.manual_seed(3)
    project, key, value, out = (T.nn.Linear(*sizes) for sizes in ((8, 16), (8, 16), (8, 16), (16, 8)))
    parts = [T.arange(8.0 * n).reshape(n, 8).cos() for n in (4, 2, 5)]

    def block(x):
        parts = (layer(x).unflatten(-1, [2, 8]).transpose(1, 2) for layer in (project, key, value))
        return list(parts)

    x = T.nested.nested_tensor(parts, layout=T.jagged)
    y = T.nn.functional.scaled_dot_product_attention(*block(x)).transpose(1, 2).flatten(-2)
    y = T.nn.functional.layer_norm(out(T.nn.functional.gelu(y)) + x, (8,))
    y.to_padded_tensor(0.0).exp().sum().backward()
    return [y.detach().to_padded_tensor(0.0), project.weight.grad, project.bias.grad, out.weight.grad]


def test_a_layer_of_attention_trains_as_pytorchs():
    for ours, theirs in zip(attention_block(plugrad), attention_block(torch)):
        assert plugrad.allclose(ours, plugrad.from_numpy(theirs.numpy()), rtol=1e-4, atol=1e-5)


def test_causal_attention_sees_each_component_up_to_its_own_place():
    q = names(plugrad)["q"]
    nested = plugrad.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
    for ours, part in zip(nested.unbind(), q.unbind()):
        expected = plugrad.nn.functional.scaled_dot_product_attention(part, part, part, is_causal=True)
        assert plugrad.allclose(ours, expected)


def test_empty_components_have_no_part_in_anything():
    values = plugrad.arange(12.0).reshape(3, 4).requires_grad_()
    x = plugrad.nested.nested_tensor_from_jagged(values, plugrad.tensor([0, 2, 2, 3]))
    assert x.sum(1).tolist()[1] == [0.0] * 4 and x.to_padded_tensor(-1.0)[1].eq(-1).all()
    q = x.unflatten(-1, (1, 4)).transpose(1, 2)
    y = plugrad.nn.functional.scaled_dot_product_attention(q, q, q)
    (y.transpose(1, 2).flatten(-2) * x.softmax(1)).values().sum().backward()
    assert [part.shape[1] for part in y.unbind()] == [2, 0, 1] and values.grad.isfinite().all()


def test_components_with_gaps_between_them():
    def results(T):
        dense, starts, lengths = T.arange(24.0).reshape(3, 4, 2), T.tensor([0, 1, 3]), T.tensor([2, 3, 1])
        x = T.nested.narrow(dense, 1, starts, lengths, layout=T.jagged)
        sums = (x * 2).contiguous().sum(1)
        return [*(x * 2).unbind(), *x.contiguous().unbind(), sums, x[1], x.lengths(), x.offsets()]

    for ours, theirs in zip(results(plugrad), results(torch)):
        assert ours.tolist() == theirs.tolist()


def test_sizes_stand_for_themselves():
    x, y = (plugrad.nested.nested_tensor([plugrad.ones(2), plugrad.ones(3)], layout=plugrad.jagged) for _ in "ab")
    offsets = x.offsets()
    same = plugrad.nested.nested_tensor_from_jagged(plugrad.zeros(5), offsets)
    assert x.shape == same.shape == (x + same).shape and x.shape != y.shape and x.shape[1] > 1
    with pytest.raises(RuntimeError, match="nested_tensor_from_jagged"):
        x + y
    with pytest.raises(ValueError, match="varies along the batch"):
        assert x.shape[1] > 3
    with pytest.raises(TypeError, match="varies along the batch"):
        range(x.shape[1])
    with pytest.raises(TypeError, match="RaggedSize"):
        plugrad.zeros(x.shape[1])
    with pytest.raises(RuntimeError, match="places from 0 to 5"):
        plugrad.nested.nested_tensor_from_jagged(plugrad.zeros(5), plugrad.tensor([0, 3, 6]))


def test_what_has_no_rule_is_refused_with_a_way_out():
    for layout in (plugrad.jagged, plugrad.strided):
        x = plugrad.nested.nested_tensor([plugrad.ones(2), plugrad.ones(3)], layout=layout)
        with pytest.raises(NotImplementedError, match="unbind"):
            x.sort()
        with pytest.raises(NotImplementedError, match="use the result"):
            plugrad.add(x, x, out=x)
    with pytest.raises(RuntimeError, match="two layouts"):
        x + plugrad.nested.nested_tensor([plugrad.ones(2)], layout=plugrad.jagged)


def test_files_keep_nested_tensors():
    for name in "jskq":
        file, x = io.BytesIO(), names(plugrad)[name].requires_grad_()
        plugrad.save({"x": x}, file)
        file.seek(0)
        y = plugrad.load(file)["x"]
        assert y.layout is x.layout and y.requires_grad and len(y.unbind()) == 3
        assert all(plugrad.equal(*pair) for pair in zip(y.unbind(), x.unbind()))


@pytest.mark.parametrize("parts", [
    ("jagged", False, plugrad.ones(3), 1, plugrad.tensor([0, 4]), None),
    ("jagged", False, plugrad.ones(3), 1, plugrad.tensor([0.0, 3.0]), None),
    ("jagged", False, plugrad.ones(3), 2, plugrad.tensor([0, 3]), None), ("jagged", False, None, 1, None, None),
    ("jagged", False, plugrad.ones(3), 1, plugrad.tensor([-1, 3]), None),
    ("strided", False, plugrad.ones(3), ((2, 2),)),
    ("jagged", False, plugrad.ones(3), 1, plugrad.tensor([0, 2, 1, 3]), None),
    ("strided", False, plugrad.ones(3), ((-3,),)),
    ("jagged", False, plugrad.ones(3), 1, plugrad.tensor([0, 3]), plugrad.tensor([1, 2])), ("strided", False),
    ("strided", False, plugrad.ones(4), ((1,), (3, 1))),
])  # fmt: skip
def test_parts_that_make_up_no_nested_tensor_are_refused(parts):
    with pytest.raises((RuntimeError, TypeError, ValueError, AttributeError)):
        plugrad.nested.rebuild(*parts)


def test_the_strided_layout_is_said_to_be_a_prototype_once(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, warnings\n"
        "torch = __import__(sys.argv[1])\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)\n"
        "    for _ in range(2):\n"
        "        torch.nested.nested_tensor([torch.ones(2)])\n"
        "print([(str(one.message)[:78], one.category.__name__) for one in caught])\n"
    )
    ours, theirs = (output(None, cwd=tmp_path, arguments=(str(program), name)) for name in ("plugrad", "torch"))
    assert ours == theirs and "prototype" in ours
