"""Copies of tensors and modules, by `copy` and by pickle: what PyTorch keeps is kept, and nothing more."""

from __future__ import annotations

import copy
import io
import pickle
import sys

import numpy
import pytest

import plugrad


def pickled(value, protocol=4):
    return pickle.loads(pickle.dumps(value, protocol))


def saved(value):
    file = io.BytesIO()
    plugrad.save(value, file)
    return plugrad.load(io.BytesIO(file.getvalue()), weights_only=False)


WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickled}


def facts(tensor) -> tuple:
    """What is compared with PyTorch."""
    grad = None if tensor.grad is None else tensor.grad.tolist()
    values = None if tensor.is_meta else tensor.tolist()
    return values, str(tensor.dtype), tensor.shape, tensor.requires_grad, tensor.is_leaf, tensor.grad_fn, grad


def subjects(library):
    leaf = library.ones(2, 3, requires_grad=True)
    (leaf * 3).sum().backward()
    computed, used = leaf * 2, (leaf * leaf).sum()
    used.backward()
    return {
        "leaf": leaf, "computed": computed, "graph gone": used, "transposed": leaf.detach().t(),
        "plain": library.arange(3),
        "parameter": library.nn.Parameter(library.ones(2)), "frozen": library.nn.Parameter(library.ones(2), False),
        "row": library.arange(6.0).reshape(2, 3)[1], "column": library.arange(6.0).reshape(2, 3)[:, 1],
        "half": library.ones(2, dtype=library.float16), "complex": library.ones(2, dtype=library.complex64),
        "buffer": library.nn.Buffer(library.ones(2)), "empty": library.ones(0, 3), "number": library.tensor(True),
    }  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", subjects(plugrad))
def test_copies_are_pytorchs(name, way, torch):
    results = []
    for library in torch, plugrad:
        try:
            result = WAYS[way](subjects(library)[name])
        except RuntimeError as error:
            results.append(str(error)[:60])
            continue
        parts = type(result).__name__, isinstance(result, library.nn.Buffer), isinstance(result, library.nn.Parameter)
        strides = result.stride() if way != "pickle" else None  # plugrad pickles the elements of a view, no others
        results.append((*facts(result), strides, *parts))
    assert results[0] == results[1]


def test_expanded_tensors_stay_expanded():
    assert copy.deepcopy(plugrad.ones(1).expand(4)).stride() == (0,)


def sharing(library, make):
    """Return two tensors that share memory."""
    base = library.from_numpy(numpy.arange(6, dtype=numpy.float32).reshape(2, 3))
    if make == "slice":
        return base, base[:, 1:]
    if make == "transpose":
        return base, base.t()
    if make == "detached":
        return base, base.detach()[0]
    if make == "other dtype":
        return base, library.from_numpy(base.numpy().view("i4"))
    return base, library.nn.Parameter(base)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("make", ["slice", "transpose", "reversed memory", "other dtype", "detached", "parameter"])
def test_deepcopy_of_what_shares_memory(make, order, torch):
    if make == "reversed memory":  # PyTorch has no negative strides
        array = numpy.arange(6.0)
        pair = [plugrad.from_numpy(array), plugrad.from_numpy(array[::-1])]
        one, other = copy.deepcopy(pair[:: 1 - 2 * order])[:: 1 - 2 * order]
        one[0] = 50.0
        assert other.tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 50.0] and array[0] == 0
        return
    results = []
    for library in torch, plugrad:
        base, other = sharing(library, make)
        pair = [base, other][:: 1 - 2 * order]
        one, two = copy.deepcopy(pair)[:: 1 - 2 * order]
        with library.no_grad():
            one[0, 1] = 50.0
            results.append((one.tolist(), two.tolist(), two.stride(), base.tolist(), other.tolist()))
    if make == "other dtype":  # one memory of NumPy's is two storages of PyTorch's
        assert results[1][1][0][1] == numpy.float32(50).view("i4")
    else:
        assert results[0] == results[1]


def test_one_tensor_twice():
    tensor = plugrad.ones(3)
    one, two = copy.deepcopy([tensor, tensor])
    assert one is two is not tensor
    one, two = pickled([tensor, tensor])
    assert one is two
    memo = {}
    parameter = plugrad.nn.Parameter(tensor)
    assert copy.deepcopy(parameter, memo) is copy.deepcopy(parameter, memo) is memo[id(parameter)]


@pytest.mark.parametrize("way", [*WAYS, "save"])
def test_attributes(way, torch):
    kept = []
    for library in torch, plugrad:
        for make in library.ones, lambda n: library.nn.Parameter(library.ones(n)):  # noqa: B023
            tensor = make(2)
            tensor.note, tensor._private = ["a", 1], "b"
            if way == "save":
                file = io.BytesIO()
                library.save(tensor, file)
                file.seek(0)
                result = library.load(file, weights_only=False)
            else:
                result = WAYS[way](tensor)
            kept.append((getattr(result, "note", None), way != "save" and getattr(result, "_private", None)))
    assert kept[:2] == kept[2:]


def test_attributes_in_files():
    tensor, parameter = plugrad.ones(2), plugrad.nn.Parameter(plugrad.ones(3))
    tensor.other, tensor.own, parameter.tags = parameter, tensor, {"a": (1, 2)}
    one, other = saved([tensor, parameter])
    assert one.own is one and one.other is other and other.tags == {"a": (1, 2)}
    module = plugrad.nn.Linear(1, 1)
    module.weight.tags = object
    assert saved(module).weight.tags is object


@pytest.mark.parametrize("way", [*WAYS, "save"])
def test_hooks_and_graphs_are_left_behind(way):
    """A hook on a tensor can't be pickled and belongs to the one tensor, as what the graph keeps of a leaf does."""
    calls = []
    for leaf in plugrad.ones(2, requires_grad=True), plugrad.nn.Parameter(plugrad.ones(2)):
        calls.clear()
        leaf.register_hook(lambda g: calls.append("hook"))
        leaf.register_post_accumulate_grad_hook(lambda p: calls.append("after"))
        node = (leaf * 2).grad_fn.next_functions[0][0]
        result = saved(leaf) if way == "save" else WAYS[way](leaf)
        (result * 3).sum().backward()
        assert not calls and result.grad.tolist() == [3.0, 3.0] and leaf.grad is None, node
        (leaf * 3).sum().backward()
        assert calls == ["hook", "after"]


def test_modules_keep_ties_hooks_and_buffers():
    calls = []
    first, second = plugrad.nn.Linear(2, 2), plugrad.nn.Linear(2, 2)
    second.weight = first.weight
    model = plugrad.nn.Sequential(first, second)
    model.scale = plugrad.nn.Buffer(plugrad.ones(1), persistent=False)
    for again in copy.deepcopy(model), pickled(model), saved(model):
        assert again[0].weight is again[1].weight is not first.weight
        assert isinstance(again.scale, plugrad.nn.Buffer) and "scale" not in again.state_dict()
    model.register_forward_hook(lambda *call: calls.append(1))
    copy.deepcopy(model)(plugrad.ones(2))
    copy.copy(model)(plugrad.ones(2))
    assert calls == [1, 1] and copy.copy(model)[0] is first


def test_meta_tensors():
    tensor = plugrad.ones(2, 3, device="meta", requires_grad=True)
    for way in WAYS.values():
        result = way(tensor)
        assert result.is_meta and result.shape == (2, 3) and result.requires_grad
    model = plugrad.nn.Linear(2, 3, device="meta")
    assert pickled(model).weight.is_meta


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_protocols(protocol):
    for value in plugrad.arange(4.0), plugrad.nn.Parameter(plugrad.ones(2)), plugrad.ones(1, device="meta"):
        assert facts(pickled(value, protocol)) == facts(value)


def test_a_copied_row_of_a_mapped_file_is_a_row(tmp_path):
    """What NumPy maps is copied as far as it is used: the file may be larger than the memory."""
    path = tmp_path / "data"
    path.write_bytes(bytes(4096))
    tensor = plugrad.from_numpy(numpy.memmap(path, numpy.float32, "r+")[:4])
    assert copy.deepcopy(tensor)._raw.base is None


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_storages_that_are_copied_with_tensors_share_their_memory():
    base = plugrad.arange(6.0)
    part, table = base[2:], base.view(2, 3).t()
    untyped, typed, part, table = copy.deepcopy([base.untyped_storage(), part.storage(), part, table])
    part.add_(1)
    assert typed.tolist() == [0, 1, 3, 4, 5, 6] and table.tolist() == [[0, 4], [1, 5], [3, 6]]
    assert typed.data_ptr() == untyped.data_ptr() == table.data_ptr() and table.stride() == (1, 3)
    assert part.storage_offset() == 2 and base.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_storage_tells_its_size_with_its_memory():
    sizes = [sys.getsizeof(plugrad.empty(n).untyped_storage()) for n in (0, 10, 100)]
    assert (sizes[1] - sizes[0], sizes[2] - sizes[0]) == (40, 400)
    typed = [plugrad.empty(n).storage().__sizeof__() for n in (0, 10)]
    assert typed[1] - typed[0] == 40


def test_names_of_attributes_can_all_be_read():
    for tensor in plugrad.ones(2), plugrad.nn.Parameter(plugrad.ones(2)):
        names = set(dir(tensor)) - {"imag", "H", "mT", "mH"}  # which this dtype, or shape, has not
        assert {"shape", "exp", "grad", "tolist"} <= names
        assert [name for name in names if not hasattr(tensor, name)] == []


def test_sizes_may_be_arrays_of_one_int():
    size = numpy.array(3), numpy.int64(4)
    assert plugrad.ones(size).shape == plugrad.ones(*size).shape == plugrad.zeros(12).reshape(*size).shape == (3, 4)
    for wrong in numpy.array(3.0), numpy.array([3]), numpy.array(True):
        with pytest.raises(TypeError, match="must be tuple of ints"):
            plugrad.ones((wrong, 2))


def test_what_acts_as_a_tensor_may_be_a_buffer():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    model, like = plugrad.nn.Module(), Like()
    model.register_buffer("like", like)
    assert model.like is like
    with pytest.raises(TypeError, match="cannot assign"):
        model.register_buffer("other", object())
