"""Kernels of a program: shared memory, barriers, shuffles and atomics, with the threads of a block in any order."""

import numpy
import pytest

SUM = r"""
extern "C" __global__ void block_sum(const float* x, float* sums, int n) {
    extern __shared__ float part[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0;
    for (int step = blockDim.x / 2; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = part[0];
}
"""

WARPS = r"""
extern "C" __global__ void warp_sum(const int* x, int* sums) {
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int by = 16; by; by /= 2) v += __shfl_down_sync(0xffffffff, v, by);
    if (threadIdx.x % 32 == 0) atomicAdd(&sums[blockIdx.x], v);
}
extern "C" __global__ void turned(const int* x, int* y) {
    y[threadIdx.x] = __shfl_sync(0xffffffff, x[threadIdx.x], (threadIdx.x + 1) % 32);
}
"""

RACY = r"""
extern "C" __global__ void racy(int* out) {
    __shared__ int part[64];
    part[threadIdx.x] = -1;
    __syncthreads();
    part[threadIdx.x] = threadIdx.x;
    %s
    out[threadIdx.x] = part[(threadIdx.x + 1) %% 64];
}
"""

APART = r"""
extern "C" __global__ void apart(int* out) {
    if (threadIdx.x == 0) __syncwarp();
    else __syncthreads();
    out[threadIdx.x] = 1;
}
"""

TEMPLATE = r"""
template <class T> __global__ void doubled(T* x) { x[threadIdx.x] *= 2; }
"""


@pytest.fixture(params=[0, 1, 7, 1234, 99991])
def order(request, stand_in):
    stand_in.set_order(request.param)
    yield request.param
    stand_in.set_order(0)


def test_shared_memory_and_barriers(cupy, order):
    x = numpy.arange(300, dtype="float32")
    sums = cupy.zeros(3, "float32")
    cupy.RawKernel(SUM, "block_sum")((3,), (128,), (cupy.asarray(x), sums, numpy.int32(300)), shared_mem=512)
    assert sums.tolist() == [x[:128].sum(), x[128:256].sum(), x[256:].sum()]


def test_shuffles(cupy, order):
    module = cupy.RawModule(code=WARPS)
    x, sums, turned = cupy.arange(128, dtype="int32"), cupy.zeros(2, "int32"), cupy.zeros(32, "int32")
    module.get_function("warp_sum")((2,), (64,), (x, sums))
    assert sums.tolist() == [sum(range(64)), sum(range(64, 128))]
    module.get_function("turned")((1,), (32,), (x, turned))
    assert turned.tolist() == [*range(1, 32), 0]


def test_templates_by_name(cupy):
    module = cupy.RawModule(code=TEMPLATE, name_expressions=["doubled<int>", "doubled<float>"])
    for dtype, kernel in (("int32", "doubled<int>"), ("float32", "doubled<float>")):
        x = cupy.arange(4, dtype=dtype)
        module.get_function(kernel)((1,), (4,), (x,))
        assert x.tolist() == [0, 2, 4, 6]


def results_by_order(cupy, stand_in, barrier):
    found = set()
    for seed in (0, 1, 7, 1234, 99991):
        stand_in.set_order(seed)
        out = cupy.zeros(64, "int32")
        cupy.RawKernel(RACY % barrier, "racy")((1,), (64,), (out,))
        found.add(tuple(out.tolist()))
    stand_in.set_order(0)
    return found


def test_a_missing_barrier_shows_in_another_order_of_threads(cupy, stand_in):
    assert results_by_order(cupy, stand_in, "__syncthreads();") == {(*range(1, 64), 0)}
    assert len(results_by_order(cupy, stand_in, "")) > 1


def test_threads_that_wait_at_different_places_for_ever_are_an_error(cupy, stand_in):
    with pytest.raises(cupy.cuda.driver.CUDADriverError):
        cupy.RawKernel(APART, "apart")((1,), (32,), (cupy.zeros(32, "int32"),))


def test_a_kernel_that_does_not_compile_tells_why(cupy, stand_in):
    kernel = cupy.RawKernel('extern "C" __global__ void f(int* x) { *x = unknown_name; }', "f")
    with pytest.raises(cupy.cuda.compiler.CompileException, match="unknown_name"):
        kernel((1,), (1,), (cupy.zeros(1, "int32"),))


def test_an_elementwise_kernel_that_may_return_runs_for_every_element(cupy):
    kernel = cupy.ElementwiseKernel("float32 x", "float32 y", "if (x < 0) { y = 0; return; } y = x", "first_ones")
    assert kernel(cupy.asarray([-1, 1, 2, -3], "float32"), cupy.empty(4, "float32")).tolist() == [0, 1, 2, 0]


def test_single_precision_has_no_denormal_numbers(cupy):
    """CuPy has NVRTC compile with -ftz=true: results and operands below the smallest normal number are zero."""
    x = cupy.asarray(numpy.array([1e-38, 1e-40, 2.0], "float32"))
    assert (x * 1).tolist() == [0, 0, 2]
    assert float(cupy.asarray(1e-310) * 1) == 1e-310


def test_two_devices(cupy, stand_in):
    assert cupy.cuda.runtime.getDeviceCount() == 2
    with cupy.cuda.Device(1):
        x = cupy.ones(3)
        assert x.device.id == 1 and (x + x).device.id == 1
    with pytest.raises(ValueError, match="different from the current device"):
        x + 1
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="hipErrorInvalidDevice"):
        cupy.cuda.Device(2).use()


def test_what_is_of_one_device_is_refused_on_another(cupy, stand_in):
    """As CUDA does: streams, events, functions of modules, and memory, since there is no access between devices."""
    runtime, kernel = cupy.cuda.runtime, cupy.RawKernel('extern "C" __global__ void put(int* x) { *x = 1; }', "put")
    here = cupy.zeros(1, "int32")
    kernel((1,), (1,), (here,))
    function = kernel.kernel
    with cupy.cuda.Device(1):
        stream, event, there = cupy.cuda.Stream(), cupy.cuda.Event(), cupy.zeros(1, "int32")
        with pytest.raises(cupy.cuda.driver.CUDADriverError, match="InvalidHandle"):
            function((1,), (1,), (there,))
        kernel((1,), (1,), (there,))
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="IllegalAddress"):
        kernel((1,), (1,), (there,))
    with pytest.raises(runtime.CUDARuntimeError, match="InvalidHandle"):
        runtime.eventRecord(event.ptr, 0)
    with pytest.raises(runtime.CUDARuntimeError, match="InvalidHandle"):
        runtime.eventRecord(cupy.cuda.Event().ptr, stream.ptr)
    with pytest.raises(cupy.cuda.driver.CUDADriverError, match="InvalidHandle"):
        function((1,), (1,), (here,), stream=stream)
    assert here.tolist() == there.tolist() == [1]


def test_products_are_of_one_device(cupy, stand_in):
    """A handle of cuBLAS works on the device that it was made on, and on memory there."""
    blas, handle, one = cupy.cuda.cublas, cupy.cuda.device.get_cublas_handle(), numpy.ones(1, "float32").ctypes.data
    with cupy.cuda.Device(1):
        there = cupy.ones((2, 2), "float32")
    here = cupy.ones((2, 2), "float32")

    def multiply(handle, x, out):
        place, result = x.data.ptr, out.data.ptr
        blas.sgemm(handle, blas.CUBLAS_OP_N, blas.CUBLAS_OP_N, 2, 2, 2, one, place, 2, place, 2, one, result, 2)

    multiply(handle, here, here)
    for x, out in ((there, here), (here, there)):
        with pytest.raises(blas.CUBLASError):
            multiply(handle, x, out)
    with cupy.cuda.Device(1):
        with pytest.raises(blas.CUBLASError):
            multiply(handle, there, there)
        multiply(cupy.cuda.device.get_cublas_handle(), there, there)
    assert here.tolist() == there.tolist()


BLOCKS = r"""
extern "C" __global__ void last(int* x) { *x = blockIdx.x * blockDim.x + threadIdx.x; }
"""


def test_blocks_and_threads_that_do_not_meet_come_in_other_orders_too(cupy, stand_in):
    found, x = set(), cupy.zeros(1, "int32")
    for order in (0, 1, 2, 7, 99991):
        stand_in.set_order(order)
        cupy.RawKernel(BLOCKS, "last")((5,), (4,), (x,))
        found.add(x.item())
    assert 19 in found and len(found) > 2


def test_what_happened_is_counted(cupy, stand_in):
    x = cupy.ones(3)
    before = stand_in.counts()
    y = x + x
    after = stand_in.counts()
    assert after["launches"] == before["launches"] + 1 and after["waits"] == before["waits"]
    assert y.tolist() == [2, 2, 2]
    last = stand_in.counts()
    assert last["waits"] > after["waits"] and last["copies_to_host"] > after["copies_to_host"]


def test_memory_has_an_end(cupy, stand_in):
    with pytest.raises(cupy.cuda.memory.OutOfMemoryError):
        cupy.empty(2**40, "uint8")
    free, total = cupy.cuda.runtime.memGetInfo()
    assert 0 < free <= total
