"""Memory that tensors on CUDA and arrays of CuPy share by DLPack, in both directions, as objects and as capsules."""

import numpy
import pytest

import plugrad

DTYPES = ["float16", "float32", "float64", "bfloat16", "int8", "uint8", "int64", "bool", "complex64"]


def address(tensor):
    return tensor._raw.data.ptr


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_cupy_are_the_memory_of_tensors(cupy, dtype):
    given = plugrad.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(plugrad, dtype)).cuda()
    taken = cupy.from_dlpack(given.T)
    assert (taken.data.ptr, taken.dtype, taken.shape) == (address(given), given._raw.dtype, (3, 2))
    assert taken.get().astype("complex64").real.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert tuple(given.__dlpack_device__()) == tuple(taken.__dlpack_device__())


@pytest.mark.parametrize("form", [lambda a: a, lambda a: a.__dlpack__(), lambda a: a.__dlpack__(max_version=(1, 0))])
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensors_are_the_memory_of_arrays_of_cupy(cupy, dtype, form):
    given = plugrad.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(plugrad, dtype)).cuda()._raw
    taken = plugrad.from_dlpack(form(given))
    assert (address(taken), taken.dtype, taken.device.type) == (given.data.ptr, getattr(plugrad, dtype), "cuda")
    assert taken.cpu().to(plugrad.complex64).real.tolist() == [[1, 0, 1], [0, 1, 1]]
    given[0, 1] = 1
    assert bool((taken[0] == 1).all())


def test_copies_to_the_host(cupy):
    given = cupy.arange(3)
    taken = plugrad.from_dlpack(given, device="cpu")
    assert taken.device.type == "cpu" and taken.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="without copying"):
        plugrad.from_dlpack(given, device="cpu", copy=False)
    copied = plugrad.from_dlpack(given, copy=True)
    given[0] = 7
    assert copied.cpu().tolist() == [0, 1, 2]
    assert numpy.from_dlpack(plugrad.arange(3).cuda(), device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="require gradient"):
        cupy.from_dlpack(plugrad.ones(2, device="cuda", requires_grad=True))


def test_the_array_interface_of_cuda(cupy, on_stand_in):
    given = plugrad.arange(6.0, device="cuda").reshape(2, 3)
    if not on_stand_in:  # CuPy has none for ROCm
        described = given.T.__cuda_array_interface__
        assert described["data"][0] == address(given) and described["shape"] == (3, 2)
    with pytest.raises(RuntimeError, match="requires grad"):
        plugrad.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__  # noqa: B018
    with pytest.raises(AttributeError, match="non-CUDA tensor type: torch.FloatTensor"):
        plugrad.ones(2).__cuda_array_interface__  # noqa: B018
    assert not hasattr(given, "__array_interface__")
