"""Names of PyTorch's that are not there: they can be mentioned, and say why when they are used."""

import importlib
import pickle

import pytest

import plugrad as torch
from plugrad import absent, native
from plugrad.torch_modules.paths import NATIVE


@pytest.mark.parametrize(
    "use",
    [
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        lambda: torch.ScriptModule(),
        lambda: type("Own", (torch.ScriptModule,), {})(),
        lambda: torch.ones(2).q_scale(),
        lambda: torch.nn.quantized.Linear(2, 3),
        lambda: torch.mps.synchronize(),
        lambda: importlib.import_module("plugrad.ao.quantization.observer").MinMaxObserver(),
    ],
)
def test_use_says_why(use):
    with pytest.raises(NotImplementedError, match=r"plugrad has no torch\.[\w.]+: .{20}"):
        use()


def test_mention_is_harmless():
    from plugrad.quantization import QuantStub

    assert not isinstance(torch.nn.ReLU(), QuantStub) and torch.ones(1).dtype != torch.qint8
    assert not torch.xpu.is_available() and torch.mps.device_count() == 0
    assert torch.quantization is torch.quantization and pickle.loads(pickle.dumps(torch.qint8)).__name__ == "qint8"
    assert not hasattr(torch.qint8, "itemsize") and not hasattr(torch.ScriptModule, "forward")
    with pytest.raises(AttributeError, match="is of the C"):
        torch.ScriptModule.forward  # noqa: B018


def test_other_names_are_unknown_still():
    with pytest.raises(AttributeError, match="no attribute 'quantise'"):
        torch.quantise  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'adjoint'"):
        torch.ajoint  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("plugrad.no_such_module")
    assert not hasattr(torch.cuda, "no_such_name") and not hasattr(torch.quantization, "__wrapped__")


def test_every_reason_is_a_sentence_of_one_line():
    assert len(absent.reasons()) > 50
    for pattern, reason in absent.reasons().items():
        assert reason[0].islower() and 20 < len(reason) < 200 and not reason.endswith("."), pattern


def test_the_names_of_native_functions_are_listed():
    assert sorted(native.__all__) == sorted(NATIVE) and all(hasattr(torch, name) for name in NATIVE)
