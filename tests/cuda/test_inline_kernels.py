"""`load_inline(cuda=...)`: a package's kernels in CUDA C++, against the formula that the op has anyway."""

import struct

import numpy
import pytest

import plugrad
from plugrad.extend import CompilationError, load_inline, native, op

SOURCE = """
template <typename T>
__global__ void softcap(long long size, const T *x, T *y, double cap) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < size) y[i] = T(cap * tanh(double(x[i]) / cap));
}
"""


@pytest.fixture
def softcap():
    function = load_inline(cuda=SOURCE, name="softcap", arrays=1, numbers=1, like=0)
    counted = []

    @op(at=())
    def softcap(xp, input, cap):
        return cap * xp.tanh(input / cap)

    @softcap.vjp
    def softcap_vjp(F, g, y, cap):
        return g * (1 - (y / cap) * (y / cap))

    @softcap.kernel("cuda")
    @native(function, otherwise=softcap)
    def softcap_on_cuda(call, xp, input, cap):
        result = call(input, cap)
        counted.append(result is not NotImplemented)
        return result

    softcap.counted = counted
    return softcap


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (257,), (3, 4)])
def test_a_kernel_of_a_package(softcap, dtype, shape):
    host = plugrad.linspace(-9, 9, int(numpy.prod(shape)), dtype=getattr(plugrad, dtype)).reshape(shape)
    here, there = host.clone().requires_grad_(), host.cuda().requires_grad_()
    results = [softcap(x, 2.0) for x in (here, there)]
    for result in results:
        result.sum().backward()
    plugrad.testing.assert_close(results[1].cpu(), results[0])
    plugrad.testing.assert_close(there.grad.cpu(), here.grad)
    assert softcap.counted == [True]


def test_what_it_does_not_serve_the_general_kernel_computes(softcap):
    x = plugrad.linspace(-9, 9, 12).reshape(3, 4)
    plugrad.testing.assert_close(softcap(x.cuda()[:, ::2], 2.0).cpu(), softcap(x[:, ::2], 2.0))
    assert softcap.counted == [False]
    turned = softcap(x.cuda().T, 2.0)
    plugrad.testing.assert_close(turned.cpu(), softcap(x.T, 2.0))
    assert softcap.counted == [False, True] and turned.stride() == x.T.stride()


def test_errors_of_the_compiler_come_back(cupy):
    broken = load_inline(cuda="template <typename T> __global__ void f(long long n) { nowhere(); }", name="f", arrays=1)
    with pytest.raises(CompilationError, match="f does not compile for float32"):
        broken(cupy.ones(3, "float32"))
    with pytest.raises(TypeError, match="c= or cuda="):
        load_inline(name="f", arrays=1)


def test_arrays_that_are_shorter_than_the_first_are_not_served(cupy):
    function = load_inline(cuda=SOURCE.replace("T *y", "const T *z, T *y"), name="softcap", arrays=2, numbers=1, like=0)
    x, short = cupy.ones(4, "float32"), cupy.ones(3, "float32")
    assert function(x, x, 2.0).shape == (4,) and function(x, short, 2.0) is NotImplemented
    assert function(x, x.astype("float64"), 2.0) is NotImplemented and function(x, 2.0) is NotImplemented


CHOSEN = """
template <typename T> __global__ void chosen(long long size, const T *x, const long long *at, T *y) {
    for (long long i = threadIdx.x; i < size; i += PG_THREADS)
        if (at[blockIdx.x] == i) y[blockIdx.x] = x[blockIdx.x * size + i];
}
template <typename T> __global__ void places(long long size, T *x) {
    if (threadIdx.x == 0) x[blockIdx.y * gridDim.x + blockIdx.x] = size;
}
"""


@pytest.mark.parametrize("size", [3, 512, 513, 2000])
def test_rows_of_a_type_with_labels(cupy, size):
    function = load_inline(cuda=CHOSEN, name="chosen", arrays=3, per="row", indices=(1,))
    x, y = cupy.arange(2 * size, dtype="float32").reshape(2, size), cupy.zeros(2, "float32")
    labels = cupy.asarray([2, size - 1])
    assert function(x, labels, y) is None and y.tolist() == [2, 2 * size - 1]
    assert function(x, labels.astype("int32"), y) is NotImplemented
    assert function(x, labels.astype("float32"), y) is NotImplemented


def test_blocks_as_the_call_says(cupy):
    function = load_inline(cuda=CHOSEN, name="places", arrays=1, per="block")
    x = cupy.zeros(8)
    function(x, blocks=3)
    assert x.tolist() == [8] * 3 + [0] * 5
    function(x, blocks=(3, 2))
    assert x.tolist() == [8] * 6 + [0] * 2
    with pytest.raises(ValueError, match="per is 'element', 'pack', 'row', 'rows', 'block' or 'list'"):
        load_inline(cuda=CHOSEN, name="places", arrays=1, per="thread")


STRUCT = """
struct line { long long length; int step, start; double slope; };
template <typename T> __global__ void fill(long long size, T *x, line given, double more) {
    if (PG_ELEMENT < size) x[PG_ELEMENT] = given.start + given.step * PG_ELEMENT * given.slope + more + given.length;
}
"""


def test_a_struct_by_value(cupy):
    layout = struct.Struct("=qiid")
    function = load_inline(cuda=STRUCT, name="fill", arrays=1, numbers=1, struct=layout.size)
    x = cupy.zeros(4, "float32")
    for start in (1, 5):  # the first call looks at everything, others only launch
        assert function(x, layout.pack(100, 2, start, 0.5), 0.25) is None
        assert x.tolist() == [100.25 + start + n for n in range(4)]
    for wrong in ((0.25,), (1.0, 0.25), (b"short", 0.25)):
        assert function(x, *wrong) is NotImplemented


def test_types_by_name():
    assert load_inline(cuda="", name="k", arrays=1, types="floating").types >= {"float32", "bfloat16"}
    assert load_inline(cuda="", name="k", arrays=1, types="int64").types == {"int64"}
    with pytest.raises(ValueError, match="or 'floating', not 'floats'"):
        load_inline(cuda="", name="k", arrays=1, types="floats")
