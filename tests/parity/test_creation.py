"""Tensors of data of any kind: dtypes, values and types of errors are those of PyTorch."""

import warnings
from array import array
from collections import UserList, deque

import numpy as np
import pytest

import plugrad

torch = pytest.importorskip("torch")


class Indexed:
    """A sequence that is no Sequence."""

    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Broken(Indexed):
    def __getitem__(self, index):
        raise TypeError


def nested(depth):
    return 1 if not depth else [nested(depth - 1)]


def itself():
    items = [0]
    items.append(items)
    return items


DATA = {
    "buffers": lambda t: t.tensor(memoryview(b"abc")),
    "bytes": lambda t: t.tensor(b"abc"),
    "sequence of any class": lambda t: t.tensor([Indexed([1.0, 2.0]), UserList([3, 4])]),
    "empty sequence": lambda t: t.tensor(Indexed([])),
    "sequence without items": lambda t: t.tensor(Broken([1.0])),
    "self-referential": lambda t: t.tensor(itself()),
    "deep": lambda t: t.tensor(nested(60)),
    "array and deque": lambda t: t.tensor([array("d", [1, 2]), deque([1, 2])]),
    "NumPy's number after an int": lambda t: t.tensor([1, np.float64(5)]),
    "NumPy's number before a float": lambda t: t.tensor([np.float32(5), 1.0]),
    "small and large": lambda t: t.tensor([np.float16(1), np.float64(2)]),
    "bool and int8": lambda t: t.tensor([True, np.int8(3)]),
    "0-d array": lambda t: t.tensor(((7, 5), (9, np.array(5.0)))),
    "rows that are arrays": lambda t: t.tensor([[1, 2], np.array([1, 2], np.float16)]),
    "tensors of several dtypes": lambda t: t.tensor([1, t.tensor(2.0, dtype=t.float64)]),
    "tensors of one element": lambda t: t.tensor([t.tensor([1]), t.tensor([[2]])]),
    "tensors of two elements": lambda t: t.tensor([t.tensor([1.0, 2])]),
    "storage": lambda t: t.tensor(t.FloatStorage([1, 2])),
    "storage as another dtype": lambda t: t.tensor(t.FloatStorage([1, 2]), dtype=t.int32),
    "bytes of a storage": lambda t: t.tensor(t.FloatStorage([1, 2]).untyped()),
    "large ints as floats": lambda t: t.tensor([2**64, 2**63], dtype=t.float32),
    "large ints as bool": lambda t: t.tensor([2**64, 0], dtype=t.bool),
    "large int beside a float": lambda t: t.tensor([2**64, 1.0]),
    "large int": lambda t: t.tensor([2**63]),
    "uint64": lambda t: t.tensor([2**63], dtype=t.uint64),
    "complex as bool": lambda t: t.tensor([1j, 0], dtype=t.bool),
    "complex as float": lambda t: t.tensor([1j], dtype=t.float32),
    "complex as int": lambda t: t.tensor(1j, dtype=t.int32),
    "complex array as float": lambda t: t.tensor(np.array([1 + 1j]), dtype=t.float32),
    "too large for uint8": lambda t: t.tensor([300], dtype=t.uint8),
    "below zero as uint8": lambda t: t.tensor([-255], dtype=t.uint8),
    "too low for uint8": lambda t: t.tensor([-256], dtype=t.uint8),
    "too low for int8": lambda t: t.tensor(-129, dtype=t.int8),
    "float too large for int": lambda t: t.tensor(1e300, dtype=t.int32),
    "nan as int": lambda t: t.tensor([float("nan")], dtype=t.int32),
    "array wraps": lambda t: t.tensor(np.array([300]), dtype=t.uint8),
    "dict": lambda t: t.tensor({}),
    "date": lambda t: t.tensor([np.datetime64("2020-01-01")]),
    "text": lambda t: t.tensor([0, "torch"]),
    "text as float": lambda t: t.tensor([1, "a"], dtype=t.float32),
    "rows and numbers": lambda t: t.tensor([[1, 2], 3]),
    "asarray of a buffer": lambda t: t.asarray(bytearray(b"abcd"), dtype=t.int16, copy=False),
    "asarray of a buffer of the default dtype": lambda t: t.asarray(bytearray(4)),
    "asarray of a buffer that is cut": lambda t: t.asarray(bytearray(b"abc"), dtype=t.int16),
    "asarray of a capsule": lambda t: t.asarray(t.utils.dlpack.to_dlpack(t.arange(3)), dtype=t.float32),
    "asarray of complex": lambda t: t.asarray(np.array([1 + 1j]), dtype=t.float32),
    "no alias of a sequence": lambda t: t.asarray([3], copy=False),
    "no alias of a scalar": lambda t: t.asarray(np.float32(3), copy=False),
    "no alias of another dtype": lambda t: t.asarray(np.ones(2), copy=False, dtype=t.float32),
    "no alias on another device": lambda t: t.asarray(t.ones(2), copy=False, device="meta"),
    "int of none": lambda t: int(t.tensor([])),
    "float of two": lambda t: float(t.ones(2)),
    "float of complex": lambda t: float(t.tensor(1j)),
    "integers that require grad": lambda t: t.ones(1, dtype=t.int8, requires_grad=True),
    "arange into a matrix": lambda t: t.arange(4, out=t.ones(2, 2)),
    "linspace into every other": lambda t: t.linspace(0, 3, 4, out=t.zeros(8)[::2]),
    "zeros into a matrix": lambda t: t.zeros(4, out=t.ones(2, 2)),
    "complex linspace as float": lambda t: t.linspace(0, 1j, 5, dtype=t.float32),
    "complex randint": lambda t: t.randint(5, (2,), dtype=t.complex64),
    "legacy constructor with a device": lambda t: t.Tensor(t.ones(1), device="cpu"),
    "legacy constructor on another device": lambda t: t.Tensor(2, device="meta"),
    "new with a device": lambda t: t.ones(1).new(t.ones(1), device="cpu"),
    "another dtype than that of out": lambda t: t.zeros(2, out=t.ones(2), dtype=t.int64),
    "the dtype of out": lambda t: t.full((2,), 3, out=t.ones(2), dtype=t.float32),
    "places into floats": lambda t: t.nonzero(t.ones(2), out=t.ones(0)),
    "places into integers": lambda t: t.nonzero(t.ones(2), out=t.ones(0).long()),
    "places of each dimension into one tensor": lambda t: t.nonzero(t.ones(2), out=t.ones(0).long(), as_tuple=True),
    "a mask of one byte": lambda t: t.arange(3)[t.tensor(1, dtype=t.uint8)],
    "an index of one small integer": lambda t: t.arange(3)[t.tensor(1, dtype=t.int8)],
    "cat of nothing": lambda t: t.cat([t.zeros(0), t.zeros(0)], 1),
}


def outcome(call, module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = call(module)
        except Exception as error:
            return type(error).__name__
    return str(result.dtype), result.tolist()


@pytest.mark.parametrize("name", DATA)
def test_data_gives_what_it_gives_in_pytorch(name):
    assert repr(outcome(DATA[name], plugrad)) == repr(outcome(DATA[name], torch))


WARNED = {
    "resized": lambda t: t.add(t.ones(2), 1, out=t.ones(3)),
    "not resized": lambda t: t.add(t.ones(2), 1, out=t.ones(0)),
    "factories resize": lambda t: t.zeros(4, out=t.ones(2, 2)),
    "meshgrid": lambda t: t.meshgrid(t.ones(2)),
    "range": lambda t: t.range(0, 2),
}


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_says_what_pytorch_changes(name):
    counts = []
    for module in (plugrad, torch):
        module.set_warn_always(True)  # PyTorch gives some of them once in a process
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            WARNED[name](module)
        module.set_warn_always(False)
        counts.append(len(caught))
    assert counts[0] == counts[1]


FILLED = {
    "empty": lambda t: t.empty(3),
    "integers": lambda t: t.empty(3, dtype=t.uint8),
    "bool": lambda t: t.empty(3, dtype=t.bool),
    "like": lambda t: t.empty_like(t.ones(2, 3).t()),
    "strided": lambda t: t.empty_strided((2, 2), (1, 2)),
    "permuted": lambda t: t.empty_permuted((2, 3), (1, 0)),
    "new": lambda t: t.ones(2).new_empty(2, dtype=t.complex64),
    "resized": lambda t: t.ones(2).resize_(4),
    "channels last": lambda t: t.empty(1, 2, 2, 1, memory_format=t.channels_last),
}


@pytest.mark.parametrize("name", FILLED)
def test_new_memory_is_filled_where_ops_are_deterministic(name):
    results = []
    for module in (plugrad, torch):
        module.use_deterministic_algorithms(True)
        try:
            results.append(outcome(FILLED[name], module))
            module.utils.deterministic.fill_uninitialized_memory = False
            assert module._C._get_deterministic_fill_uninitialized_memory() is False
        finally:
            module.utils.deterministic.fill_uninitialized_memory = True
            module.use_deterministic_algorithms(False)
    assert repr(results[0]) == repr(results[1])


STORAGES = {
    "read of meta": lambda t: t.empty(2, device="meta").storage()[0],
    "list of meta": lambda t: t.empty(2, device="meta").untyped_storage().tolist(),
    "shared of meta": lambda t: t.empty(2, device="meta").storage().share_memory_(),
    "copied of meta": lambda t: t.empty(2, device="meta").storage().cpu(),
    "class without dtype": lambda t: t.storage._LegacyStorage(),
}


@pytest.mark.parametrize("name", STORAGES)
def test_storages_without_memory_refuse_what_pytorchs_refuse(name):
    assert outcome(STORAGES[name], plugrad) == outcome(STORAGES[name], torch)


def test_classes_of_storages_are_found_by_dtype():
    for module in (plugrad, torch):
        names = module.storage._dtype_to_storage_type_map()
        assert names[module.float32] == "FloatStorage" and names[module.bfloat16] == "BFloat16Storage"
        assert module.storage._storage_type_to_dtype_map()["LongStorage"] is module.int64


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "complex64"])
def test_numbers_of_make_tensor_lie_below_the_bound(name):
    for module in (plugrad, torch):
        t = module.testing.make_tensor(10_000, dtype=getattr(module, name), device="cpu", low=-9, high=9)
        t = module.view_as_real(t) if t.is_complex() else t
        assert bool(((t >= -9) & (t < 9)).all())


def test_make_tensor_of_an_empty_interval_warns():
    for module in (plugrad, torch):
        with pytest.warns(FutureWarning, match="`low==high`"):
            t = module.testing.make_tensor(3, dtype=module.float32, device="cpu", low=2, high=2)
        assert t.tolist() == [2, 2, 2]
        with pytest.raises(ValueError, match="must be less than"):
            module.testing.make_tensor(3, dtype=module.int64, device="cpu", low=2, high=2)


class Endless:
    """A sequence that says it has more elements than any memory."""

    def __init__(self, length=1 << 40):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, place):
        return 1.0


@pytest.mark.parametrize("length", [1 << 40, 1 << 62, 1 << 80])
@pytest.mark.parametrize("make", [
    lambda T, data: T.tensor(data), lambda T, data: T.as_tensor(data), lambda T, data: T.asarray(data),
    lambda T, data: T.ones(1).new_tensor(data), lambda T, data: T.FloatTensor(data), lambda T, data: T.Tensor(data),
    lambda T, data: T.tensor([1.0, data]), lambda T, data: T.ones(1).new(data), lambda T, data: T.LongTensor(data),
    lambda T, data: T.utils.data.default_collate(data),
])  # fmt: skip
def test_what_has_more_elements_than_memory_is_refused_at_once(make, length):
    with pytest.raises((RuntimeError, ValueError)):  # PyTorch asks for all elements first, where it does not refuse
        make(plugrad, Endless(length))


def test_ranges_of_more_elements_than_memory_are_refused_at_once():
    with pytest.raises(RuntimeError, match="not enough memory"):
        plugrad.tensor(range(1 << 50))
    assert plugrad.tensor(range(3)).tolist() == torch.tensor(range(3)).tolist()


@pytest.mark.parametrize("p", [1, 2, 7, 100_000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_mvlgamma_takes_any_number_of_terms(p, dtype):
    found = []
    for T in (torch, plugrad):
        x = (T.tensor([1.0, 3.0]) + p).to(getattr(T, dtype))
        found.append(T.mvlgamma(x, p))
    assert str(found[0].dtype) == str(found[1].dtype)
    assert found[1].tolist() == pytest.approx(found[0].tolist(), rel=1e-5)
    with pytest.raises(RuntimeError, match="memory"):
        plugrad.mvlgamma(plugrad.ones(2), 1 << 62)


SHARING = {
    "longer": lambda t, x: x.resize_(8),
    "a view": lambda t, x: x[1:].resize_(4),
    "detached": lambda t, x: x.detach().resize_(2, 4),
    "its data": lambda t, x: x.data.resize_(8),
    "like another": lambda t, x: x.resize_as_(t.ones(8)),
    "as out=": lambda t, x: t.add(t.ones(8, dtype=x.dtype), 1, out=x),
    "no longer": lambda t, x: x.resize_(2, 2),
    "a part, not past the end": lambda t, x: x[:2].resize_(3),
    "a copy": lambda t, x: x.clone().resize_(8),
}


@pytest.mark.filterwarnings("ignore:.*An output with one or more elements was resized")
@pytest.mark.parametrize("shared", ["from_numpy", "numpy"])
@pytest.mark.parametrize("name", SHARING)
def test_memory_that_numpy_shares_is_not_left(name, shared):
    refused = []
    for module in (plugrad, torch):
        array = np.arange(4.0)
        x = module.from_numpy(array) if shared == "from_numpy" else module.arange(4.0)
        array = x.numpy()
        try:
            SHARING[name](module, x)
        except RuntimeError as error:
            assert "Trying to resize storage that is not resizable" in str(error)
            refused.append(True)
        else:
            refused.append(False)
        if module is plugrad:  # PyTorch's has its new shape, past the end of its memory, though it was refused
            x.zero_()
            assert not array.any()
    assert refused[0] is refused[1]
