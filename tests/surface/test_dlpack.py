"""Memory shared with other libraries by DLPack, and what they hand over in other ways."""

import gc
import warnings

import numpy
import pytest

import plugrad
from plugrad.utils.data import default_collate

torch = pytest.importorskip("torch")

DTYPES = (
    "bool uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 "
    "float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz"
).split()
LAYOUTS = {
    "rows": lambda M, dtype: M.arange(6).to(dtype).reshape(2, 3),
    "strided": lambda M, dtype: M.zeros((2, 3, 4)).to(dtype).transpose(0, 2)[1:, ::2],
    "expanded": lambda M, dtype: M.ones(2).to(dtype).expand(3, 2),
    "0-d": lambda M, dtype: M.ones(()).to(dtype),
    "empty": lambda M, dtype: M.zeros((0, 3)).to(dtype),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_goes_both_ways_with_torch(layout):
    for name in DTYPES:
        for here, there in ((plugrad, torch), (torch, plugrad)):
            given = LAYOUTS[layout](here, getattr(here, name))
            taken = there.from_dlpack(given)
            assert taken.dtype is getattr(there, name) and tuple(taken.shape) == tuple(given.shape)
            if given.numel():
                assert taken.data_ptr() == given.data_ptr() and taken.stride() == given.stride(), name


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)])
def test_capsules_of_all_versions(version):
    for library in (plugrad, torch):
        for name in ("float32", "bfloat16"):
            given = library.arange(3).to(getattr(library, name))
            taken = plugrad.from_dlpack(given.__dlpack__(max_version=version))
            assert taken.tolist() == [0, 1, 2] and taken.data_ptr() == given.data_ptr()
            assert torch.from_dlpack(given.__dlpack__(max_version=version)).tolist() == [0, 1, 2]


def test_capsules_that_cannot_say_whether_memory_may_be_written_let_write_it():
    x = plugrad.arange(3.0)
    plugrad.utils.dlpack.from_dlpack(plugrad.utils.dlpack.to_dlpack(x))[0] = 5.0
    assert x.tolist() == [5.0, 1.0, 2.0]


def test_memory_lives_as_long_as_it_is_used():
    kept = torch.from_dlpack(plugrad.arange(1000).to(plugrad.bfloat16))
    taken = plugrad.from_dlpack(torch.arange(100.0).bfloat16())
    gc.collect()
    assert kept[256] == 256 and taken[64] == 64
    x = plugrad.zeros(3)
    torch.from_dlpack(x)[0] = 5
    assert x[0] == 5


def test_copies_are_made_when_asked_for():
    for given in (torch.ones(2), plugrad.ones(2), numpy.ones(2)):
        taken = plugrad.from_dlpack(given, copy=True)
        taken += 1
        assert given.sum() == 2
        assert plugrad.from_dlpack(given, copy=False, device="cpu").sum() == 2
    assert plugrad.from_dlpack(plugrad.from_dlpack(torch.ones(2)), device="meta").is_meta
    with pytest.raises(ValueError, match="without copying"):
        plugrad.from_dlpack(torch.ones(2), device="meta", copy=False)
    assert numpy.from_dlpack(plugrad.ones(2), copy=True, device="cpu").sum() == 2
    x = plugrad.ones(2)
    capsule = x.__dlpack__(copy=True)
    x.zero_()
    assert plugrad.from_dlpack(capsule).sum() == 2


def test_read_only_memory_stays_read_only():
    array = numpy.arange(3.0)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = plugrad.from_dlpack(array)
    assert not numpy.from_dlpack(x).flags.writeable and not x.numpy().flags.writeable
    for write in (lambda: x.add_(1), lambda: x[1:].fill_(0)):
        with pytest.raises(RuntimeError, match="clone"):
            write()
    assert (x + 1).tolist() == [1, 2, 3] and array.tolist() == [0, 1, 2]


def test_what_a_capsule_cannot_hold_is_refused_as_in_torch():
    def refusals(M):
        meta, capsule = M.ones(2, device="meta"), M.ones(2).__dlpack__()
        M.from_dlpack(capsule)
        yield lambda: meta.__dlpack__()
        yield lambda: meta.__dlpack_device__()
        yield lambda: M.from_dlpack(meta)
        yield lambda: M.ones(2).to_sparse().__dlpack__()
        yield lambda: M.ones(2, requires_grad=True).__dlpack__()
        yield lambda: M.from_dlpack(M.ones(2, requires_grad=True))
        yield lambda: M.ones(2).__dlpack__(stream=5)
        yield lambda: M.ones(2).__dlpack__(stream="0")
        yield lambda: M.from_dlpack(M.ones(2).__dlpack__(), copy=True)
        yield lambda: M.ones(2).__dlpack__(dl_device=(2, 0), copy=False)
        yield lambda: M.from_dlpack(3)
        yield lambda: M.from_dlpack(capsule)

    for mine, theirs in zip(refusals(plugrad), refusals(torch), strict=True):
        with pytest.raises(Exception) as expected:
            theirs()
        with pytest.raises(expected.type):
            mine()
    assert plugrad.ones(2).__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match=r"\(2, 0\)"):
        plugrad.ones(2).__dlpack__(dl_device=(2, 0))


def test_elements_that_no_dtype_has_are_named():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        half = torch.ones(2, dtype=torch.complex32)
    with pytest.raises(RuntimeError, match="code 5 with 32 bits"):
        plugrad.from_dlpack(half)


def test_jax_shares_memory_too():
    jax = pytest.importorskip("jax.numpy")
    x = jax.arange(4, dtype="bfloat16")
    taken = plugrad.from_dlpack(x)
    assert taken.dtype is plugrad.bfloat16 and taken.tolist() == [0, 1, 2, 3]
    assert jax.from_dlpack(plugrad.arange(4).to(plugrad.bfloat16)).dtype == "bfloat16"
    assert default_collate([x, x]).shape == (2, 4)


def test_arrays_that_may_not_be_written_are_warned_of_once():
    array = numpy.arange(3.0)
    array.flags.writeable = False

    def texts(M):
        M.set_warn_always(True)
        try:
            for make in (
                lambda: M.from_numpy(array), lambda: M.as_tensor(array), lambda: M.asarray(array),
                lambda: M.tensor(array), lambda: M.from_dlpack(array),
                lambda: M.frombuffer(bytes(8), dtype=M.float32), lambda: M.asarray(bytes(4), dtype=M.uint8),
            ):  # fmt: skip
                with warnings.catch_warnings(record=True) as given:
                    warnings.simplefilter("always")
                    make()
                yield [(one.category, str(one.message)[:40]) for one in given]
        finally:
            M.set_warn_always(False)

    assert [*texts(plugrad)] == [*texts(torch)]


def test_array_takes_dtype_and_copy():
    x = plugrad.ones(2)
    assert numpy.shares_memory(numpy.asarray(x, copy=False), x.numpy())
    assert not numpy.shares_memory(numpy.array(x, copy=True), x.numpy())
    assert numpy.asarray(x, dtype="float64").dtype == "float64"
    with pytest.raises(ValueError, match="copy"):
        numpy.asarray(x, dtype="float64", copy=False)


def test_tensors_of_others_are_collated():
    assert default_collate([torch.ones(2), torch.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    batch = default_collate([{"x": torch.ones(2).bfloat16(), "y": numpy.float32(1)}] * 3)
    assert batch["x"].dtype is plugrad.bfloat16 and batch["x"].shape == (3, 2) and batch["y"].shape == (3,)
    with pytest.raises(TypeError, match="default_collate.*require"):
        default_collate([torch.ones(2, requires_grad=True)])
    with pytest.raises(TypeError, match="object"):
        default_collate([object()])
