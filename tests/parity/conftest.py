"""What tests beside PyTorch share."""

import pytest


@pytest.fixture(scope="module")
def one_thread():
    """PyTorch's thread pool only gets in the way of samples that are small."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
