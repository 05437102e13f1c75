"""Several devices, streams and events, memory, pinned memory: `plugrad.cuda` on a device."""

import subprocess
import sys
import threading

import pytest

import plugrad as torch
from plugrad import registry


@pytest.fixture(autouse=True)
def two():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one device")
    yield
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(0)


def test_what_cuda_means():
    assert torch.ones(2, device="cuda").device == torch.device("cuda:0")
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        x = torch.ones(2, device="cuda", requires_grad=True)
        assert x.device == torch.device("cuda:1") and x._data.device.id == 1
        with torch.cuda.device(None), torch.cuda.device(-1):
            assert torch.cuda.current_device() == 1
        (torch.randn(2, device="cuda") * x + torch.zeros_like(x)).sum().backward()
        assert x.grad.device.index == 1 and x.grad._data.device.id == 1
        assert torch.tensor([1]).cuda().device.index == 1
        with torch.cuda.device_of(torch.ones(1, device="cuda:0")):
            assert torch.cuda.current_device() == 0
    assert torch.ones(2, device="cuda").device.index == 0
    torch.cuda.set_device("cuda:1")
    assert torch.empty(1, device="cuda").device.index == 1
    torch.cuda.set_device(0)


def test_each_thread_has_a_current_device():
    seen = []
    with torch.cuda.device(1):
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


def test_devices_that_do_not_exist():
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.cuda.set_device(2)
    with pytest.raises(RuntimeError, match="cuda:2 does not exist: there are 2 devices"):
        torch.ones(1, device="cuda:2")


def test_training_on_the_second_device():
    def train(number):
        torch.manual_seed(0)
        model, x = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)), torch.randn(5, 3)
        with torch.cuda.device(number):
            model.to("cuda")
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            for _ in range(3):
                optimizer.zero_grad()
                model(x.to("cuda")).square().mean().backward()
                optimizer.step()
            assert {p.device.index for p in model.parameters()} == {number}
            return [p.cpu() for p in model.parameters()]

    for one, other in zip(train(0), train(1)):
        assert torch.equal(one, other)


def test_copies_between_devices():
    x = torch.arange(4.0, device="cuda:0", requires_grad=True)
    y = x.to("cuda:1")
    assert y.device.index == 1 and y._data.device.id == 1
    assert y.cpu().tolist() == [0, 1, 2, 3]
    z = torch.zeros(4, device="cuda:1")
    with torch.cuda.device(1):
        z.copy_(x.detach())
    assert z.tolist() == [0, 1, 2, 3]


def test_streams_and_events():
    stream, (first, last) = torch.cuda.Stream(), [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        first.record()
        x = torch.ones(3, device="cuda") * 2
        last.record()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_event(last)
    last.synchronize()
    stream.synchronize()
    assert stream.query() and last.query() and first.elapsed_time(last) >= 0 and x.tolist() == [2, 2, 2]
    assert torch.cuda.Stream(device=1).device == torch.device("cuda:1")


def test_memory_is_counted_by_device():
    torch.cuda.empty_cache()
    before = [torch.cuda.memory_allocated(number) for number in (0, 1)]
    with torch.cuda.device(1):
        x = torch.empty(2**20, device="cuda")
    after = [torch.cuda.memory_allocated(number) for number in (0, 1)]
    assert after[0] == before[0] and after[1] - before[1] == 2**22
    assert torch.cuda.memory_reserved(1) >= after[1] and torch.cuda.memory_stats(1)["allocated_bytes.all.current"] > 0
    free, total = torch.cuda.mem_get_info(1)
    assert 0 < free < total == torch.cuda.get_device_properties(1).total_memory
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info(1)[0] > free
    assert torch.cuda.get_device_name(1)


def test_a_device_without_memory_says_so():
    with pytest.raises(torch.OutOfMemoryError, match=r"empty\(\): not enough memory for the result: Out of memory"):
        torch.empty(2**45, device="cuda", dtype=torch.uint8)


def test_pinned_memory():
    x = torch.arange(6.0).reshape(2, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and torch.equal(x, pinned) and pinned.pin_memory() is pinned
    moved = pinned.to("cuda", non_blocking=True)
    assert moved.tolist() == x.tolist() and moved.to("cpu", non_blocking=True).tolist() == x.tolist()
    assert torch.empty(0).pin_memory().shape == (0,)
    with pytest.raises(RuntimeError, match="cannot pin"):
        moved.pin_memory()
    loader = torch.utils.data.DataLoader([torch.ones(2), torch.zeros(2)], batch_size=2, pin_memory=True)
    (batch,) = loader
    assert batch.is_pinned() and batch.cuda().tolist() == [[1, 1], [0, 0]]


def test_why_there_is_no_device():
    """Without the stand-in, in another process."""
    program = "import plugrad as t; print(t.cuda.device_count(), t.cuda.is_available()); t.ones(1, device='cuda')"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env={"PATH": "/usr/bin"})
    if registry.backend("cuda").available() is None and told.returncode == 0:
        pytest.skip("there is a GPU")
    assert told.stdout == "0 False\n" and "device 'cuda' can't be used here: CuPy" in told.stderr
