"""Classes that a program trusts are unpickled with `weights_only`, and smaller names of `torch.serialization`."""

import io
import pickle

import pytest

import plugrad as torch
from plugrad import serialization


class Trusted:
    """A class of the program's with a tensor and a set inside."""

    def __init__(self):
        self.tensor, self.names = torch.ones(2), {"a"}


class Other:
    pass


@pytest.fixture(autouse=True)
def nothing_trusted():
    yield
    serialization.clear_safe_globals()


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def test_trusted_classes_are_read():
    file = saved([Trusted(), 3])
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        torch.load(file)
    name = f"{Trusted.__module__}.Trusted"
    file.seek(0)
    assert serialization.get_unsafe_globals_in_checkpoint(file) == [name]
    with serialization.safe_globals([Trusted]):
        assert serialization.get_safe_globals() == [Trusted]
        file.seek(0)
        value, number = torch.load(file)
        assert number == 3 and value.names == {"a"} and torch.equal(value.tensor, torch.ones(2))
        file.seek(0)
        assert serialization.get_unsafe_globals_in_checkpoint(file) == []
    assert serialization.get_safe_globals() == []
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file)


@pytest.mark.parametrize("value", [Other(), [Trusted(), Other()], print])
def test_others_are_not(value):
    serialization.add_safe_globals([Trusted])
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        torch.load(saved(value))


def test_names_in_the_file_can_be_given():
    serialization.add_safe_globals([(Trusted, f"{Other.__module__}.Other")])
    assert type(torch.load(saved(Other()))) is Trusted
    with pytest.raises(TypeError):
        serialization.add_safe_globals(["a"])


def test_places_of_storages():
    storage = torch.ones(2).untyped_storage()
    assert serialization.location_tag(storage) == "cpu"
    assert serialization.default_restore_location(storage, "cpu") is storage
    for wrong in ("nowhere", "cuda:99"):
        with pytest.raises(RuntimeError, match="restore data location"):
            serialization.default_restore_location(storage, wrong)
    with pytest.raises(RuntimeError, match="data location"):
        serialization.location_tag(torch.ones(2))
    assert serialization.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    assert serialization.storage_to_tensor_type(torch.ones(2)._typed_storage()) is torch.FloatTensor
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="map_location"):
            serialization.validate_cuda_device("cuda:0")


def test_versions_of_modules():
    compare = serialization.check_module_version_greater_or_equal
    assert compare(pytest, (1, 0)) and not compare(pytest, (999, 0))
    strange = type("strange", (), {"__name__": "strange", "__version__": "x.y"})
    with pytest.raises(RuntimeError, match="malformed"):
        compare(strange, (1, 2))
    with pytest.warns(UserWarning, match="malformed"):
        assert compare(strange, (1, 2), error_if_malformed=False)


def test_smaller_names():
    with serialization.mkdtemp() as path, open(f"{path}/file", "w") as file:
        file.write("x")
    with pytest.warns(FutureWarning):
        torch.testing.assert_allclose(torch.ones(2), [1.0, 1.00005])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError):
        torch.testing.assert_allclose(torch.ones(2), [1.0, 1.001])
    net = torch.func.replace_all_batch_norm_modules_(torch.nn.Sequential(torch.nn.BatchNorm1d(2)))
    assert net[0].running_mean is None and not net[0].track_running_stats
    a, b = torch.ones(2, requires_grad=True), torch.zeros(3)
    torch.utils.swap_tensors(a, b)
    assert b.requires_grad and b.shape == (2,) and not a.requires_grad
    with pytest.raises(RuntimeError, match="computed in a graph"):
        torch.utils.swap_tensors(a, b * 2)
    assert torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    assert not torch.overrides.is_tensor_method_or_property(len)


def test_functions_that_classes_override():
    @torch.overrides.wrap_torch_function(lambda x: (x,))
    def own(x):
        return "own"

    class Wins:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "theirs"

    assert own(torch.ones(1)) == "own" and own(Wins()) == "theirs"
