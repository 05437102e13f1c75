"""Conjugates follow what is written to the tensor, as PyTorch's views do; what would be lost is refused."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import numpy
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import nn

MADE = {
    "conj": lambda x: x.conj(),
    "mH": lambda x: x.mH,
    "H": lambda x: x.H,
    "adjoint": lambda x: x.adjoint(),
    "part": lambda x: x.conj()[0],
    "turned": lambda x: x.T.conj().T.view(-1),
    "again": lambda x: x.conj().T.conj(),
    "real": lambda x: x.conj().real,
    "imag": lambda x: x.conj().imag,
    "contiguous": lambda x: x.conj().contiguous(),
    "of a view": lambda x: x[1:].conj(),
    "diagonal": lambda x: x.conj().diagonal(),
    "strided": lambda x: x.conj().as_strided((2,), (1,)),
    "windows": lambda x: x.conj().unfold(0, 1, 1)[1],
}
WRITES = {
    "mul_": lambda T, v: v.mul_(2),
    "zero_": lambda T, v: v.zero_(),
    "copy_": lambda T, v: v.copy_(T.ones(v.shape)),
    "index": lambda T, v: v.__setitem__(0, 1),
    "mask": lambda T, v: v.__setitem__(T.ones(v.shape, dtype=T.bool), 1),
    "view": lambda T, v: v.unsqueeze(0).add_(1),
    "index_fill_": lambda T, v: v.index_fill_(0, T.tensor([0]), 1),
    "foreach": lambda T, v: T._foreach_mul_([v], 2.0),
    "detach": lambda T, v: v.detach().zero_(),
    "data": lambda T, v: v.data.zero_(),
    "normal_": lambda T, v: v.normal_(),
    "out": lambda T, v: T.mul(v.detach().clone(), 2, out=v),
}


def start(T, shape=(2, 2)):
    return T.arange(4.0).view(2, 2) + 1j * T.tensor([[1.0, -2.0], [0.0, 5.0]])


def values(tensor):
    return tensor.detach().resolve_conj().resolve_neg().tolist()


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("recorded", [False, True])
def test_a_conjugate_follows_what_is_written_to_the_tensor(name, recorded):
    def program(T):
        leaf = start(T).requires_grad_(recorded)
        x = leaf * 1
        v = MADE[name](x)
        seen = [values(v), v.is_conj(), v._base is x, v._is_view()]
        x.mul_(2j)
        seen += [values(v), values(v + 1)]
        with T.no_grad():
            x.view(-1)[1] = 7
        seen += [values(v), values(v.clone()), v.sum().item()]
        if recorded:
            (v * v * 3).sum().abs().backward()
            seen.append(values(leaf.grad))
        return seen

    for mine, theirs in zip(program(plugrad), program(torch), strict=True):
        assert close(mine, theirs)


def close(one, other):
    if isinstance(one, list):
        return len(one) == len(other) and all(map(close, one, other))
    return one == other or not isinstance(one, (bool, str)) and abs(one - other) < 1e-4 * (1 + abs(other))


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", MADE)
def test_no_write_to_a_conjugate_is_lost(name, write):
    x = start(plugrad)
    v, before = MADE[name](x), values(MADE[name](x))
    with pytest.raises(RuntimeError, match="conjugate"):
        WRITES[write](plugrad, v)
    assert values(v) == before and values(x) == values(start(plugrad))


def test_a_value_that_was_saved_before_the_tensor_was_written_is_not_replaced():
    leaf = plugrad.tensor([1 + 2j], requires_grad=True)
    x = leaf * 1
    v = x.conj()
    y = (v * v).real.sum()
    x.mul_(3)
    v.tolist()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_what_is_not_a_conjugate_any_more_can_be_written():
    v = start(plugrad).conj()
    for own in (v.clone(), v.resolve_conj(), plugrad.conj_physical(v), v + 0, copy.deepcopy(v)):
        assert not own.is_conj() and not own.zero_().any()
    assert not pickle.loads(pickle.dumps(v)).zero_().any()
    assert v.any()
    real = plugrad.ones(2)
    assert real.conj() is real and real.resolve_conj() is real


def test_gradients_are_ordinary_tensors_whoever_conjugated_them():
    leaf = nn.Parameter(start(plugrad))
    leaf.register_hook(lambda g: g.conj())
    (leaf * 2j).real.sum().backward()
    (leaf * 2j).real.sum().backward()
    leaf.grad.zero_()
    (grad,) = plugrad.autograd.grad((leaf * leaf).real.sum(), leaf, create_graph=True)
    grad.mul_(2)
    assert not leaf.grad.any() and not grad.is_conj()


def test_nothing_is_kept_of_conjugates_that_are_gone():
    from plugrad.tensor.views import copies

    before = len(copies)
    for _ in range(5):
        start(plugrad).conj().T.sum()
    assert len(copies) == before


SEEN = {
    "itself": lambda T, v: v,
    "part": lambda T, v: v[0],
    "detach": lambda T, v: v.detach(),
    "data": lambda T, v: v.data,
    "detached part": lambda T, v: v[:1].detach(),
    "part of detached": lambda T, v: v.detach().T,
    "detached twice": lambda T, v: v.data.detach(),
    "again": lambda T, v: v.detach().conj().detach(),
    "real": lambda T, v: v.data.imag,
    "parameter": lambda T, v: T.nn.Parameter(v),
    "subclass": lambda T, v: v.as_subclass(type("Mine", (T.Tensor,), {})),
    "data of another": lambda T, v: given_data(T.zeros(v.shape, dtype=v.dtype), v),
    "copy": lambda T, v: copy.copy(v),
    "inference": lambda T, v: T.inference_mode()(lambda: v.detach())(),
}
WAYS = {
    "mul_": lambda T, x: x.mul_(2j),
    "view": lambda T, x: x.T[0].zero_(),
    "data": lambda T, x: x.data.mul_(2j),
    "detach": lambda T, x: x.detach().mul_(2j),
    "numpy": lambda T, x: x.numpy().__setitem__(0, 4j),
    "numpy that is gone": lambda T, x: x.detach().numpy().fill(4j),
    "storage": lambda T, x: x.untyped_storage().fill_(0),
    "foreach": lambda T, x: T._foreach_mul_([x], 2),
    "shape": lambda T, x: x.t_().mul_(2),
    "other data": lambda T, x: given_data(x, T.ones(3, dtype=x.dtype)),
}


def given_data(tensor, data):
    tensor.data = data
    return tensor


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("source", ["own", "view", "NumPy's"])
def test_whatever_sees_a_conjugate_follows_however_it_is_written(source, seen, way):
    def program(T):
        array = numpy.array([[1 + 2j, 3], [4j, 5 - 1j]])
        x = T.from_numpy(array) if source == "NumPy's" else T.tensor(array)
        x = x.T if source == "view" else x
        shown = SEEN[seen](T, x.conj())
        before = values(shown)
        held = WAYS[way](T, x)  # noqa: F841  a handle that lives, and one that does not
        return [before, values(shown), values(shown * 1), values(shown.sum()), shown.is_conj()]

    assert close(program(plugrad), program(torch))


def test_the_storage_of_a_conjugate_is_that_of_the_tensor():
    for T in (torch, plugrad):
        x = start(T)
        assert x.conj().T.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert x.conj().detach().untyped_storage().tolist() == x.untyped_storage().tolist()


def test_numpy_gets_no_conjugate_that_would_not_follow():
    for T in (torch, plugrad):
        v = start(T).conj()
        for ask in (lambda v=v: v.numpy(), lambda v=v: numpy.asarray(v.detach()), lambda v=v: v.data[0].numpy()):
            with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that has conjugate bit set"):
                ask()
        with pytest.raises(BufferError, match="conjugate bit"):
            v.__dlpack__()
        assert v.resolve_conj().numpy().tolist() == v.numpy(force=True).tolist() == v.tolist()
        assert v.imag.resolve_neg().numpy().tolist() == v.imag.tolist() and v.real.numpy().tolist() == v.real.tolist()
    array = v.numpy(force=True)
    array[...] = 0
    assert v.all() and not v.imag.numpy().flags.writeable
    with pytest.raises(RuntimeError, match="conjugate"):
        plugrad.empty(0, dtype=v.dtype).set_(v)


def loaded(value, **options):
    file = io.BytesIO()
    plugrad.save({"value": value}, file, **options)
    file.seek(0)
    return plugrad.load(file)["value"]


SHOWN = {
    "repr": lambda v: eval(repr(v), {"tensor": plugrad.tensor}),
    "format": lambda v: eval(f"{v}", {"tensor": plugrad.tensor}),
    "saved": loaded,
    "saved for PyTorch": lambda v: loaded(v, format="torch"),
    "pickle": lambda v: pickle.loads(pickle.dumps(v)),
    "copy": copy.deepcopy,
    "tensor": lambda v: plugrad.tensor([row.tolist() for row in v]),
    "list of elements": lambda v: plugrad.tensor([[v[0, 0], v[0, 1]], [v[1, 0], v[1, 1]]]),
    "dtype": lambda v: v.to(plugrad.complex128),
    "by force": lambda v: plugrad.from_numpy(v.numpy(force=True)),
    "written": lambda v: plugrad.zeros_like(v).copy_(v),
    "part by part": lambda v: plugrad.stack(list(v)),
    "vmap": lambda v: plugrad.vmap(lambda row: row * 1)(v),
    "batch": lambda v: plugrad.utils.data.default_collate([v])[0],
}


@pytest.mark.parametrize("show", SHOWN)
@pytest.mark.parametrize("seen", ["itself", "detach", "data", "parameter"])
def test_whatever_shows_a_conjugate_shows_it_up_to_date(seen, show):
    x = start(plugrad)
    v = SEEN[seen](plugrad, x.conj()).detach()
    x.data.mul_(2j)
    plugrad.testing.assert_close(SHOWN[show](v).to(v.dtype), (start(plugrad) * 2j).conj_physical())
    plugrad.testing.assert_close(v, (start(plugrad) * 2j).conj())


def test_what_asks_for_memory_does_not_take_a_conjugate_for_the_tensor():
    for T in (torch, plugrad):
        x = start(T)
        for dim in (0, 1):
            assert values(T.vmap(lambda row: row.conj(), dim, dim)(x)) == values(x.conj())
            assert values(T.vmap(lambda row: row[:1].conj(), dim, dim)(x)) == values(x.conj().narrow(1 - dim, 0, 1))
            assert values(T.vmap(lambda row: row[:1], dim, dim)(x.conj())) == values(x.conj().narrow(1 - dim, 0, 1))
        assert not x.conj().is_set_to(x) and values(x.conj().T.as_strided((2,), (2,))) == values(x.conj()[:, 0])
    with pytest.raises(RuntimeError, match="conjugate"):
        x.conj().detach().resize_(1)
    assert values(x) == values(start(plugrad))


@pytest.mark.parametrize("part", ["imag", "real"])
@pytest.mark.parametrize("function", ["reciprocal", "log", "sqrt"])
def test_an_infinite_gradient_of_one_part_leaves_the_other_part_alone(part, function):
    def program(T):
        z = T.tensor([0j, 1 + 0j, 2j, 1 + 2j], requires_grad=True)
        getattr(getattr(z, part), function)().sum().backward()
        return [[x.real, x.imag] for x in z.grad.tolist()]

    assert numpy.array_equal(program(plugrad), program(torch), equal_nan=True)


def test_a_conjugate_is_not_handed_to_other_libraries():
    for T in (torch, plugrad):
        with pytest.raises(BufferError, match="conjugate bit set"):
            T.from_dlpack(T.tensor([1 + 2j]).conj())
