"""What tests beside PyTorch share."""

import importlib.util
import sys

import pytest

if importlib.util.find_spec("torch"):
    import torch

    # Devices that are not there note each seed, with the stack of who gave it: milliseconds each time.
    for device in (torch.cuda, torch.xpu, torch.mtia):
        device.manual_seed_all = lambda seed: None


@pytest.fixture(scope="module")
def one_thread():
    """PyTorch's thread pool only gets in the way of samples that are small."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def modes_of(torch) -> dict:
    """Return what programs can set for all of PyTorch: results of later tests in the process would change."""
    return {
        "deterministic algorithms": torch.get_deterministic_debug_mode(),
        "memory is filled": torch.utils.deterministic.fill_uninitialized_memory,
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "gradients": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "anomalies": torch.is_anomaly_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "products": torch.get_float32_matmul_precision(),
        "warnings": torch.is_warn_always_enabled(),
        "function modes": len(torch.overrides._get_current_function_mode_stack()),
    }


@pytest.fixture
def modes_are_put_back():
    """For tests of calls that set such modes, in both libraries."""
    import misuse

    yield
    misuse.reset()


@pytest.fixture(autouse=True)
def pytorch_is_left_as_it_was():
    """No test leaves modes of PyTorch's changed."""
    library = sys.modules.get("torch")
    before = library and modes_of(library)
    yield
    assert before is None or modes_of(library) == before
