"""`__array_interface__`: memory described for readers other than NumPy, whose writes are noticed as NumPy's are."""

import numpy
import pytest

import plugrad


class Reader:
    """What a library is that knows no tensors: it asks for the interface alone."""

    def __init__(self, tensor):
        self.__array_interface__ = tensor.__array_interface__


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "bool", "complex64", "uint16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_readers_get_the_memory(dtype, shape):
    tensor = plugrad.ones(shape, dtype=getattr(plugrad, dtype))
    array = numpy.asarray(Reader(tensor))
    assert (array.shape, array.dtype.name) == (shape, dtype) and numpy.array_equal(array, tensor.numpy())
    if array.size:
        array[...] = 0
        assert not tensor.any()


def test_writes_of_readers_are_noticed():
    w = plugrad.ones(3, requires_grad=True)
    y = w * 2
    array = numpy.asarray(Reader(y.detach()))
    loss = (y * y).sum()
    array[0] = 5
    with pytest.raises(RuntimeError, match="written through a NumPy array"):
        loss.backward()


@pytest.mark.parametrize(
    "tensor",
    [
        plugrad.ones(2, 3).T, plugrad.ones(2).bfloat16(), plugrad.ones(2).to_sparse(), plugrad.ones(2, device="meta"),
        plugrad.ones(2, requires_grad=True), plugrad.ones(2, dtype=plugrad.complex64).conj(),
    ],
)  # fmt: skip
def test_what_has_none_does_not_seem_to(tensor):
    if not tensor.is_conj():
        assert not hasattr(tensor, "__array_interface__")
    assert not hasattr(tensor, "__cuda_array_interface__")


def test_subclasses_with_an_array_of_their_own_are_asked_for_it():
    class Doubled(plugrad.Tensor):
        def __array__(self, dtype=None, copy=None):
            return 2 * super().__array__(dtype, copy)

    tensor = plugrad.ones(2).as_subclass(Doubled)
    assert not hasattr(tensor, "__array_interface__") and numpy.asarray(tensor).tolist() == [2, 2]


def test_arrays_of_arrays_and_views():
    rows = plugrad.arange(6.0).reshape(2, 3)
    assert numpy.array([rows[0], rows[1]]).tolist() == rows.tolist()
    assert numpy.asarray(rows.T).tolist() == rows.T.tolist() and numpy.asarray(rows[:, 1]).tolist() == [1, 4]
    numpy.asarray(rows[1])[0] = 9
    assert rows[1, 0] == 9
