"""Older programs' forms, and storages: the same text, or the same class of error, as PyTorch."""

from __future__ import annotations

import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")

# The value of the last expression counts; statements before it are divided by `;`.
EXPRESSIONS = """
T.ones(2).new()
T.ones(2).new(2,3).shape
T.ones(2).new((2,3))
T.ones(2).new([1,2])
T.ones(2).new(T.Size([2,3])).shape
T.ones(2).new(T.ones(3))
T.ones(2).long().new([1.5])
T.ones(2).long().new(T.ones(3))
T.ones(2).new(np.ones(2))
T.ones(2).new(3).shape
T.ones(2).new(3.5)
T.ones(2).new(2, 3.5)
T.ones(2).new('a')
T.ones(2).new_tensor([1,2])
T.ones(2).new_tensor([1,2],dtype=T.int64)
T.ones(2).new_full((2,),3)
T.Tensor(2,3).shape
T.Tensor([1,2])
T.Tensor()
T.Tensor(T.ones(2))
T.Tensor(T.ones(2).long())
T.Tensor(np.ones(2))
T.Tensor(2.5)
T.Tensor((2,3))
T.Tensor(T.Size([2,3])).shape
T.Tensor([[1,2],[3]])
T.Tensor(None)
T.Tensor('abc')
T.LongTensor([1,2])
T.LongTensor(2,3).shape
T.LongTensor([1.7])
T.LongTensor(T.ones(2))
T.FloatTensor(np.array([1,2]))
T.FloatTensor(2,3).shape
T.ByteTensor([1,0])
T.BoolTensor([1,0])
T.FloatTensor(T.FloatTensor([1]))
T.ones(2).type('torch.DoubleTensor')
T.ones(2).type('DoubleTensor')
T.ones(2).type(T.DoubleTensor)
T.ones(2).type(T.float64)
T.ones(2).type('torch.Foo')
T.ones(2).type()
T.FloatTensor
T.FloatTensor.dtype
isinstance(T.ones(2), T.FloatTensor)
T.FloatTensor.__name__, T.FloatTensor.__module__
T.set_default_tensor_type(T.DoubleTensor); T.ones(2); T.set_default_tensor_type('torch.FloatTensor')
T.set_default_tensor_type('torch.IntTensor')
x=T.zeros(3,3); x.fill_diagonal_(2); x
x=T.zeros(7,3); x.fill_diagonal_(2); x
x=T.zeros(7,3); x.fill_diagonal_(2,wrap=True); x
x=T.zeros(3,7); x.fill_diagonal_(2,wrap=True); x
x=T.zeros(3,3,3); x.fill_diagonal_(2); x
x=T.zeros(3,3,2); x.fill_diagonal_(2); x
x=T.zeros(3); x.fill_diagonal_(2); x
x=T.zeros(3,3,requires_grad=True); y=x*2; y.fill_diagonal_(1); y.sum().backward(); x.grad
x=T.arange(3.); x.apply_(lambda v:v*2+1); x
x=T.arange(3.,requires_grad=True); x.apply_(lambda v:v*2+1); x
x=T.arange(3); x.apply_(lambda v:v*2+1); x
x=T.arange(3); x.apply_(lambda v:v*2.5); x
x=T.arange(4.).view(2,2); x.map_(T.ones(2,2), lambda a,b:a+b); x
x=T.arange(4.).view(2,2); x.map_(T.ones(2), lambda a,b:a+b); x
x=T.arange(4.).view(2,2); x.map_(T.ones(2).long(), lambda a,b:a+b); x
x=T.arange(4.).view(2,2); x.map2_(T.ones(2,2), T.ones(2,2), lambda a,b,c:a+b+c); x
x=T.arange(4.); x.map_(3, lambda a,b:a+b); x
x=T.arange(4.); x.apply_(3); x
x=T.zeros(2,dtype=T.complex64); x.real=T.ones(2); x
x=T.zeros(2,dtype=T.complex64); x.imag=T.ones(2); x
x=T.zeros(2,dtype=T.complex64); x.imag=3; x
x=T.zeros(2); x.real=T.ones(2); x
x=T.zeros(2); x.imag=T.ones(2); x
x=T.zeros(2,dtype=T.complex64,requires_grad=True); x.real=T.ones(2); x
x=T.zeros(2); x.set_(T.ones(3)); x
x=T.zeros(2); x.set_(T.ones(3).storage()); x
x=T.zeros(2); x.set_(T.arange(6.).untyped_storage(),1,(2,2),(2,1)); x
x=T.zeros(2); x.set_(T.arange(6.).storage(),1,(2,2)); x
x=T.zeros(2); x.set_(); x
x=T.zeros(2); x.set_(T.ones(3).long()); x
x=T.zeros(2); x.set_(T.ones(3), 0, (5,)); x.shape
x=T.zeros(2,requires_grad=True); x.set_(T.ones(3)); x
x=T.arange(6.); y=x.view(2,3); x.resize_(2,2); x,y
x=T.arange(6.); x.resize_(8); x[:6]
x=T.arange(6.); x.resize_(2,2); x.storage().size()
x=T.arange(6.,requires_grad=True); x.resize_(2,2)
x=T.arange(6.); x.resize_as_(T.ones(2,2)); x
x=T.ones(2,requires_grad=True); x.sum().backward(); del x.grad; x.grad
x=T.ones(2); del x.data; x
x=T.ones(2); del x.requires_grad
x=T.ones(2); x.foo=3; import copy; copy.deepcopy(x).foo, copy.copy(x).foo
import pickle; x=T.ones(2); x.foo=3; pickle.loads(pickle.dumps(x)).foo
import io; x=T.ones(2); x.foo=3; b=io.BytesIO(); T.save(x,b); b.seek(0); T.load(b).foo
T.ones(2).__cuda_array_interface__
hasattr(T.ones(2),'__cuda_array_interface__')
T.ones(2,3).dim_order()
T.ones(2,3,4,5).to(memory_format=T.channels_last).dim_order()
T.ones(2,3).t().dim_order()
T.ones(2,3).dim_order(ambiguity_check=True)
T.ones(2).storage_type()
T.ones(2).const_data_ptr() > 0
T.ones(2,2).eig()
T.eig(T.ones(2,2))
T.lstsq(T.ones(2,2),T.ones(2,2))
T.ones(2,2).lstsq(T.ones(2,2))
T.solve(T.ones(2,2),T.ones(2,2))
T.ones(2,2).solve(T.ones(2,2))
T.symeig(T.ones(2,2))
T.ones(2,2).symeig()
T.matrix_rank(T.ones(2,2))
T.ones(2,2).resize(4)
T.ones(2,2).resize_as(T.ones(4))
T.ones(2).reinforce(1)
T.ones(2).is_mtia, T.ones(2).is_maia
T.ones(2).is_distributed()
T.ones(2).xpu()
T.ones(2).ipu()
T.ones(2).mtia()
T.arange(8.,dtype=T.float32).view(T.int64)
T.arange(8.,dtype=T.float32).view(T.int8).shape
T.arange(8.,dtype=T.float32).view(T.complex64)
T.arange(8,dtype=T.uint8).view(T.bool)
T.arange(8,dtype=T.uint8).view(T.complex64).shape
T.arange(8,dtype=T.uint8).view(T.complex128).shape
T.arange(8,dtype=T.uint8)[1:].view(T.int32)
T.arange(9,dtype=T.uint8)[1:].view(T.int32)
T.arange(8,dtype=T.uint8).view(2,4).t().view(T.int16)
T.arange(8,dtype=T.int32).view(2,4).t().view(T.int8)
T.tensor(1).view(T.int32)
T.tensor(1.).view(T.int32)
T.ones(0,4).view(T.int64).shape
T.ones(2,4,requires_grad=True).view(T.int32).requires_grad
T.ones(2).module_load(T.ones(2))
T.ones(2).module_load(T.ones(2), assign=True)
T.ones(2).untyped_storage().nbytes()
T.ones(2).storage()
T.ones(2).untyped_storage()
T.Storage
T.FloatStorage
T.FloatStorage.dtype
T.Storage(3).dtype
T.FloatStorage(3).size()
T.FloatStorage([1,2,3])
T.FloatStorage([1,2,3]).tolist()
T.TypedStorage([1,2,3], dtype=T.int32)
T.UntypedStorage([1,2,3])[5]
T.FloatStorage([1,2,3])[1]
T.FloatStorage([1,2,3])[1:]
T.FloatStorage([1,2,3])[5]
T.FloatStorage([1,2,3])['a']
T.FloatStorage('a')
T.FloatStorage(1.5)
T.FloatStorage(1,2)
T.FloatStorage(dtype=T.float32)
T.ones(2).storage().type()
T.ones(2).untyped_storage().type()
T.ones(2).storage().pickle_storage_type()
T.ones(2).storage().element_size()
T.ones(2).untyped_storage().element_size()
T.ones(2).storage().double().dtype
T.ones(2).storage().double()
T.ones(2).untyped_storage().float()
T.ones(2).untyped_storage().nbytes(), len(T.ones(2).untyped_storage()), T.ones(2).untyped_storage().size()
T.ones(2).storage().nbytes(), len(T.ones(2).storage())
T.ones(2).untyped_storage().device
T.ones(2).storage().is_cuda, T.ones(2).untyped_storage().is_cuda
T.ones(2).storage().is_shared(), T.ones(2).storage().is_pinned()
T.is_storage(T.ones(2).storage()), T.is_storage(T.ones(2).untyped_storage()), T.is_storage(T.ones(2))
s=T.ones(4).storage(); s[1]=5; s.tolist()
s=T.ones(4).storage(); s[1:3]=5; s.tolist()
x=T.ones(4); x.storage().fill_(3); x
x=T.ones(4); x.untyped_storage().fill_(0); x
x=T.ones(4); x.storage().copy_(T.FloatStorage([1,2,3,4])); x
x=T.ones(4); x.untyped_storage().copy_(T.ones(4).untyped_storage()); x
import pickle; pickle.loads(pickle.dumps(T.FloatStorage([1,2]))).tolist()
import copy; copy.deepcopy(T.FloatStorage([1,2])).tolist()
import copy; s=T.FloatStorage([1,2]); t=copy.copy(s); t[0]=9; s.tolist()
s=T.FloatStorage([1,2]); s.resize_(4); s.size(), s.tolist()[:2]
T.Tensor(T.FloatStorage([1,2]))
T.FloatTensor(T.FloatStorage([1,2]))
T.LongTensor(T.FloatStorage([1,2]))
T.ones(2).new(T.FloatStorage([1,2]))
T.tensor(T.FloatStorage([1,2]))
T.FloatStorage.from_buffer(bytes(8), byte_order='little').tolist()
T.ones(2).storage().untyped().nbytes()
T.ones(2).storage()._size()
T.ones(2)._typed_storage()
T.ones(2)._typed_storage()._data_ptr() > 0
T.ones(2).storage().cpu().tolist()
T.ones(2).storage().clone().tolist()
T.ones(2).storage() == T.ones(2).storage()
T.BoolStorage([1,0]).tolist()
T.ones(2,dtype=T.bfloat16).storage().type()
T.Tensor(True)
T.Tensor(np.int64(3)).shape
T.Tensor(T.tensor(3))
T.Tensor(2, device='cpu').shape
T.Tensor(range(3))
T.Tensor({1:2})
T.Tensor({1,2})
y=T.ones(2,requires_grad=True)*2; y.set_(T.ones(3)); y.requires_grad
y=T.ones(2,requires_grad=True)*2; y.set_(T.ones(3)); y.sum().backward()
y=T.ones(2); y.set_(T.ones(3,requires_grad=True)); y.sum().backward()
y=T.ones(3,requires_grad=True)[:2]; y.set_(T.ones(3))
y=(T.ones(3,requires_grad=True)*2).split(1)[0]; y.set_(T.ones(3))
x=T.ones(2,3); x.set_(T.ones(4)[1:]); x.storage_offset(), x.shape
T.ones(2).set_(T.ones(3).storage(), 2, (3,)).shape
T.ones(2).set_(T.ones(3).untyped_storage(), -1, (1,))
T.ones(2).set_(3)
T.storage.TypedStorage(wrap_storage=T.UntypedStorage(8), dtype=T.float32).size()
T.ones(2).data_ptr()==T.ones(2).data_ptr() or True
T.ones(2,requires_grad=True).view(size=(2,1)).shape
T.ones(2).view(size=(2,1)).shape
(T.ones(2)*np.ones(2)).dtype
T.ones(2)+np.arange(2)
T.arange(2)+np.arange(2.)
T.ones(2,dtype=T.float16)*np.ones(2,dtype='float32')
T.ones(2)*np.float64(2)
np.float64(2)*T.ones(2)
np.float64(2)*T.arange(2)
np.int64(2)*T.ones(2)
np.float32(2)+T.ones(2,dtype=T.float64)
T.ones(2)*np.array(2.)
T.ones(2)-np.array([1j,2])
T.ones(2)/np.array([1,2])
np.array([1,2])/T.ones(2)
T.ones(2)**np.array([1,2])
np.array([1,2])==T.ones(2)
T.ones(2)==np.array([1,2])
T.tensor([True,True])|np.array([1,2])
T.tensor([1,1])<<np.array([1,2])
np.ones(2)*T.ones(2,requires_grad=True)
T.ones(2,requires_grad=True)+np.float64(2)
np.float64(2)+T.ones(2,requires_grad=True)
T.add(T.ones(2),np.ones(2))
T.ones(2).add(np.ones(2))
T.mul(np.ones(2),T.ones(2))
np.add(T.ones(2),T.ones(2))
np.exp(T.ones(2))
np.maximum(T.ones(2),np.zeros(2))
np.sqrt(T.tensor([4]))
T.tensor(1.,dtype=T.float64)+np.ones(2,dtype='float32')
T.where(T.tensor([True,False]), T.ones(2), np.zeros(2))
np.array(['a','b'])+T.ones(2)
T.ones(2)+np.ones(2,dtype='>f4')
np.bool_(True)*T.ones(2)
T.ones(2)*np.bool_(True)
T.tensor([1,2])+np.bool_(True)
np.bool_(False)*T.tensor([1,2])
T.ones(2)-np.bool_(True)
T.ones(2).sub(np.bool_(True))
T.tensor([1,2]).clamp(min=np.bool_(True))
T.tensor([True,False])-np.bool_(True)
T.tensor([True,False])&np.bool_(True)
T.ones(2,2).sum(0,keepdim=np.bool_(True)).shape
T.tensor([1,2]).masked_fill(T.tensor([True,False]),np.bool_(True))
T.ones(2, 3, device="meta").untyped_storage().nbytes(), T.ones(2, 3, device="meta").storage().size()
""".strip().splitlines()


def run(library, code):
    names = {"T": library, "np": pytest.importorskip("numpy")}
    *statements, last = code.split("; ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for statement in statements:
                exec(statement, names)
            try:
                expression = compile(last, "<last>", "eval")
            except SyntaxError:
                return exec(last, names)
            return repr(eval(expression, names))
        except Exception as error:
            return type(error)


@pytest.mark.parametrize("code", EXPRESSIONS)
def test_as_in_pytorch(code):
    theirs, ours = run(torch, code), run(plugrad, code)
    if isinstance(theirs, type):
        assert isinstance(ours, type) and issubclass(ours, theirs)
    else:
        assert ours == theirs


SCALES_BY_POSITION = [
    "T.add(x, 2, y)", "x.add_(2, y)", "T.add(x, 2, y, out=T.empty(2))", "x.sub(2, y)", "T.sub(x, -1, y)",
    "T.addcmul(x, 2, y, y)", "x.addcmul_(0.5, x, y)", "T.addcdiv(x, 2, y, y)", "x.addcdiv_(3, y, y)",
    "T.addmm(2, m, m, m)", "T.addmm(2, m, 3, m, m)", "m.addmm(2, m, m)", "m.clone().addmm_(2, 3, m, m)",
    "T.addmv(2, x, 3, m, y)", "T.addr(2, m, 3, x, y)", "T.baddbmm(2, b, 3, b, b)", "T.addbmm(2, m, 3, b, b)",
    "m.clone().addbmm_(2, b, b)", "T.add(x, y, y)", "T.add(x, 2, y, alpha=3)", "x.add(1, 2, 3)", "T.addmm(m, m, m, m)",
    "T.addmm(1, m, 2, 3, m, m)", "T.addcmul(x, 2, y)",
]  # fmt: skip


@pytest.mark.parametrize("call", SCALES_BY_POSITION)
def test_scales_may_stand_before_what_they_scale(call):
    def outcome(T):
        values = {"T": T, "x": T.tensor([1.0, 2.0]), "y": T.tensor([3.0, 5.0])}
        values |= {"m": T.tensor([[1.0, 2.0], [3.0, 4.0]]), "b": T.ones(2, 2, 2)}
        try:
            return eval(call, values).tolist()
        except TypeError:
            return TypeError

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(plugrad) == outcome(torch)


def test_scales_by_position_are_differentiated_and_warned_of():
    x, y = plugrad.ones(2, requires_grad=True), plugrad.ones(2, requires_grad=True)
    plugrad.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="This overload of add is deprecated"):
            plugrad.add(x, 3, y).sum().backward()
    finally:
        plugrad.set_warn_always(False)
    assert x.grad.tolist() == [1, 1] and y.grad.tolist() == [3, 3]
