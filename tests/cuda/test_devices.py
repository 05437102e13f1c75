"""Several devices, streams and events, memory, pinned memory: `plugrad.cuda` on a device."""

import copy
import os
import subprocess
import sys
import threading

import pytest

import plugrad as torch
from plugrad import registry


@pytest.fixture(autouse=True)
def current():
    yield
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(0)


@pytest.fixture
def last():
    """The number of a device that may be the only one."""
    return min(1, torch.cuda.device_count() - 1)


two = pytest.mark.skipif("torch.cuda.device_count() < 2", reason="there is one device")


@two
def test_what_cuda_means():
    assert torch.ones(2, device="cuda").device == torch.device("cuda:0")
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        x = torch.ones(2, device="cuda", requires_grad=True)
        assert x.device == torch.device("cuda:1") and x._raw.device.id == 1
        with torch.cuda.device(None), torch.cuda.device(-1):
            assert torch.cuda.current_device() == 1
        (torch.randn(2, device="cuda") * x + torch.zeros_like(x)).sum().backward()
        assert x.grad.device.index == 1 and x.grad._raw.device.id == 1
        assert torch.tensor([1]).cuda().device.index == 1
        with torch.cuda.device_of(torch.ones(1, device="cuda:0")):
            assert torch.cuda.current_device() == 0
    assert torch.ones(2, device="cuda").device.index == 0
    torch.cuda.set_device("cuda:1")
    assert torch.empty(1, device="cuda").device.index == 1
    torch.cuda.set_device(0)


@two
def test_each_thread_has_a_current_device():
    seen = []
    with torch.cuda.device(1):
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_device()))
        thread.start()
        thread.join()
    assert seen == [0]


@two
def test_devices_that_do_not_exist():
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal"):
        torch.cuda.set_device(2)
    with pytest.raises(RuntimeError, match="cuda:2 does not exist: there are 2 devices"):
        torch.ones(1, device="cuda:2")


@two
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


@two
def test_copies_between_devices():
    x = torch.arange(4.0, device="cuda:0", requires_grad=True)
    y = x.to("cuda:1")
    assert y.device.index == 1 and y._raw.device.id == 1
    assert y.cpu().tolist() == [0, 1, 2, 3]
    z = torch.zeros(4, device="cuda:1")
    with torch.cuda.device(1):
        z.copy_(x.detach())
    assert z.tolist() == [0, 1, 2, 3]


def placed(*tensors):
    """Whether tensors are where they say."""
    return all([x._raw.device.id == x.device.index for x in tensors])


@two
def test_an_op_computes_where_its_tensors_are():
    made = [
        torch.zeros(3, device="cuda:1"), torch.randn(2, 3, device="cuda:1"), torch.tensor([1.0, 2.0]).to("cuda:1"),
        torch.arange(4, device="cuda:1"), torch.full((2,), 3, device="cuda:1"),
    ]  # fmt: skip
    x, index = made[1], torch.tensor([2, 0], device="cuda:1")
    made += [
        x * 2, 1 - x, x + x, x @ x.T, x.sum(), x[0], x[x > 0], x[:, index], x.half(), x.to(torch.int64), x.clone(),
        x.T.contiguous(), torch.softmax(x, -1), torch.zeros_like(x), x.new_ones(2), torch.cat([x, x]), x.max(1)[1],
        torch.where(x > 0, x, 0.0), torch.nn.functional.layer_norm(x, (3,)), torch.nn.functional.dropout(x),
        x.sort()[0], torch.eye(3, device="cuda:1"),
    ]  # fmt: skip
    assert all(y.device.index == 1 for y in made) and placed(*made)
    with torch.device("cuda:1"):
        made += [torch.ones(2), torch.rand(2), torch.nn.Linear(2, 2).weight]
    made += [copy.deepcopy(x), torch.from_dlpack(x), torch.ones(2, 3, device="cuda:0").to("cuda:1", torch.half)]
    made += [torch.tensor(2.0) * x, torch.where(torch.tensor(True), x, x), torch.stack([x, x])]
    made += [torch.add(input=x, other=x)]
    assert all(y.device.index == 1 for y in made) and placed(*made)
    x.add_(1).mul_(x)
    x[0] = 5.0
    x[1, 1:] = x[0, :2]
    x -= x.mean()
    assert placed(x) and torch.cuda.current_device() == 0
    torch.testing.assert_close((x @ x.T).cpu(), x.cpu() @ x.cpu().T)
    back = torch.ones(2, device="cuda:0") * 3
    assert back.device.index == 0 and placed(back) and back.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="at least two devices, cuda:1 and cuda:0"):
        x[0] + torch.ones(3, device="cuda:0")
    y = x.requires_grad_() * 2
    with pytest.raises(RuntimeError, match="expected device cuda:1 but got cuda:0"):
        y.backward(torch.ones(2, 3, device="cuda:0"))
    y.sum().backward(torch.ones((), device="cuda:0"))  # a single number is copied, as in PyTorch
    assert placed(x.grad)


@two
def test_the_first_use_of_a_second_device_is_followed_already():
    y = torch.nn.functional.relu(torch.ones(2, device="cuda:1") * 2)
    assert placed(y) and y.tolist() == [2, 2]


@two
def test_a_first_use_while_functions_are_overridden():
    """With a subclass of Tensor in the process every factory is asked about."""
    torch.ones(1).as_subclass(type("Marked", (torch.Tensor,), {}))
    assert placed(torch.zeros(3, device="cuda:1"))


@two
def test_tensors_of_a_block_may_be_used_after_it():
    with torch.cuda.device(1):
        x = torch.ones(2, 2, device="cuda", requires_grad=True)
    y = (x @ x).exp().sum()
    y.backward()
    assert placed(y, x, x.grad)


@two
def test_one_device_that_is_current_costs_nothing():
    from plugrad.backends import following

    torch.ones(2, device="cuda") * 2
    assert not following.started()
    torch.ones(2, device="cuda:1")
    assert following.started()
    following.stop()
    torch.cuda.set_device(1)
    torch.ones(2, device="cuda") * 2
    assert not following.started()
    torch.cuda.set_device(0)


@two
def test_backward_over_two_devices():
    found = []
    for one, other in (("cpu", "cpu"), ("cuda:0", "cuda:1")):
        torch.manual_seed(1)
        a, b = torch.randn(2, 3).to(one).requires_grad_(), torch.randn(3, 2).to(other).requires_grad_()

        def loss(a=a, b=b, one=one, other=other):
            y = (a * 2).to(other).matmul(b).tanh() * b.sum()
            return (y.to(one) * a.sum() + a[:, :2].exp()).sum() + y.sum().to(one)

        loss().backward()
        first = torch.autograd.grad(loss(), (a, b), create_graph=True)
        second = torch.autograd.grad(first[0].sum().to(other) + (first[1] ** 2).sum(), (a, b))
        unused = torch.autograd.grad(b.sum(), (a, b), materialize_grads=True)
        with torch.autograd.set_detect_anomaly(True):
            third = torch.autograd.grad(loss(), (a, b))
        y = (b * 2).unbind(1)
        y[0].retain_grad()
        seen = []
        y[1].register_hook(lambda g, seen=seen: seen.append(g * 2) or g * 3)
        (y[0].to(one) * a.sum() + y[1].sum().to(one)).sum().backward()
        results = [a.grad, b.grad, *first, *second, *unused, *third, a.sum(), y[0].grad, *seen]
        assert one == "cpu" or placed(*results)
        assert one == "cpu" or [x.device.index for x in results] == [0, 1] * 6 + [1]
        found.append([x.detach().cpu() for x in results])
    for here, there in zip(*found):
        torch.testing.assert_close(there, here)
    assert torch.cuda.current_device() == 0


@two
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again_on_all_devices(reentrant):
    x, w = torch.ones(50, device="cuda:0", requires_grad=True), torch.ones(50, device="cuda:1", requires_grad=True)
    drop = torch.nn.functional.dropout
    for used in (False, True):  # generators
        x.grad = w.grad = None
        before = [torch.cuda.get_rng_state(number) for number in range(2)] if used else []
        dropped = torch.utils.checkpoint.checkpoint(
            lambda x: drop(drop(x, 0.5).to("cuda:1") * w, 0.5), x, use_reentrant=reentrant
        )
        after = [torch.cuda.get_rng_state(number) for number in range(2)]
        dropped.sum().backward()
        assert torch.equal(x.grad.cpu(), dropped.cpu()) and torch.equal(w.grad, dropped) and placed(x.grad, w.grad)
        assert [torch.cuda.get_rng_state(number).tolist() for number in range(2)] == [s.tolist() for s in after]
        assert not any(map(torch.equal, before, after))


@two
@pytest.mark.parametrize("form", ["SGD", "Adam", "Adafactor", "Rprop", "Adagrad"])
def test_training_a_model_in_two_parts(form):
    def train(one, other):
        torch.manual_seed(0)
        parts, x = [torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.LSTM(4, 2))], torch.randn(5, 2, 3)
        parts[0].to(one), parts[1].to(other)
        params = [p for part in parts for p in part.parameters()]
        optimizer = getattr(torch.optim, form)(params, lr=0.1, **({"momentum": 0.9} if form == "SGD" else {}))

        def closure():
            optimizer.zero_grad()
            hidden = torch.nn.functional.layer_norm(parts[0](x.to(one)), (4,)).to(other)
            loss = parts[1](hidden)[0].square().mean()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        assert one == "cpu" or placed(*params, *[p.grad for p in params])
        return [p.detach().cpu() for p in params]

    for here, there in zip(train("cpu", "cpu"), train("cuda:0", "cuda:1")):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-5)


@two
def test_a_kernel_of_a_program_runs_where_its_arrays_are(cupy):
    from plugrad.extend import load_inline

    body = "{ y[PG_ELEMENT] = 2 * x[PG_ELEMENT]; }"
    source = f"template <typename T> __global__ void twice(long long n, const T *x, T *y) {body}"
    twice = load_inline(cuda=source, name="twice", arrays=1, like=0)
    with cupy.cuda.Device(1):
        x = cupy.ones(256, "float32")
    assert twice(x).device.id == 1 and cupy.cuda.runtime.getDevice() == 0


def test_streams_and_events(last):
    stream, (start, end) = torch.cuda.Stream(), [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    assert torch.cuda.current_stream() == torch.cuda.default_stream() != stream
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        start.record()
        x = torch.ones(3, device="cuda") * 2
        end.record()
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.current_stream().wait_event(end)
    end.synchronize()
    stream.synchronize()
    assert stream.query() and end.query() and start.elapsed_time(end) >= 0 and x.tolist() == [2, 2, 2]
    assert torch.cuda.Stream(device=last).device == torch.device("cuda", last)


@two
def test_streams_and_events_of_a_device_that_is_not_current():
    """Each is on the device of its own: CUDA refuses an event in a stream of another, and launches there."""
    stream = torch.cuda.Stream(device=1)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_device() == 1 and torch.cuda.current_stream() == stream
        x = torch.ones(3, device="cuda") * 2
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1) != torch.cuda.default_stream(0)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    stream.record_event(start), stream.record_event(end)
    assert start.device == torch.device("cuda:1") and start.elapsed_time(end) >= 0
    torch.cuda.current_stream().wait_stream(stream)
    stream.wait_stream(torch.cuda.current_stream())
    torch.cuda.default_stream(1).record_event().wait()
    stream.synchronize()
    assert stream.query() and end.query() and x.device.index == 1 and x.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="Event device 1 does not match recording stream's device 0"):
        end.record()
    with pytest.raises(ValueError, match="on the same device"):
        start.elapsed_time(torch.cuda.Stream(0).record_event(torch.cuda.Event(enable_timing=True)))
    torch.cuda.set_stream(stream)
    assert torch.cuda.current_device() == 1 and torch.cuda.current_stream() == stream
    torch.cuda.set_stream(torch.cuda.default_stream(1))
    torch.cuda.set_stream(torch.cuda.default_stream(0))


def test_an_event_that_was_not_recorded():
    event = torch.cuda.Event()
    event.wait(), event.synchronize()
    assert event.query() and event.device is None
    with pytest.raises(ValueError, match="must be recorded"):
        event.elapsed_time(event)
    event.record()
    with pytest.raises(ValueError, match="enable_timing=True"):
        event.elapsed_time(event)


def test_each_thread_has_a_current_stream():
    seen = []
    with torch.cuda.stream(torch.cuda.Stream()) as _:
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
        thread.start()
        thread.join()
        assert seen == [torch.cuda.default_stream()] != [torch.cuda.current_stream()]


def test_memory_is_kept_for_other_streams_that_use_it(monkeypatch):
    side, done = torch.cuda.Stream(), False
    monkeypatch.setattr(torch.cuda.Event, "query", lambda self: done)
    x = torch.zeros(1000, device="cuda")
    place, part = x.data_ptr(), x[2:]
    x.record_stream(side)
    del x
    before = torch.cuda.memory_allocated()
    del part
    assert torch.cuda.memory_allocated() == before and torch.empty(1000, device="cuda").data_ptr() != place
    done = True
    torch.zeros(1, device="cuda").record_stream(side)
    assert torch.cuda.memory_allocated() - before == 512 - 4096
    torch.cuda.empty_cache()
    with pytest.raises(NotImplementedError, match="'CPU' backend"):
        torch.zeros(1).record_stream(side)
    with pytest.raises(TypeError, match="must be a torch.cuda.Stream, not int"):
        torch.zeros(1, device="cuda").record_stream(3)


@pytest.mark.parametrize("function", [
    "current_stream", "default_stream", "synchronize", "Stream", "memory_stats", "mem_get_info", "set_device",
    "reset_peak_memory_stats",
])  # fmt: skip
def test_what_is_no_device_here(function):
    ask = getattr(torch.cuda, function)
    torch.zeros(1, device="cuda")
    with pytest.raises(torch.AcceleratorError, match="invalid device ordinal: 9, of"):
        ask(9)
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        ask("cpu")


def test_properties_of_what_is_no_device_here():
    for ask in (torch.cuda.get_device_properties, torch.cuda.get_device_name, torch.cuda.get_device_capability):
        with pytest.raises(AssertionError, match="Invalid device id: 9"):
            ask(9)
        with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
            ask(torch.device("cpu"))


@two
def test_each_device_has_a_generator():
    draw = lambda number: torch.rand(3, device=f"cuda:{number}").tolist()  # noqa: E731
    torch.cuda.manual_seed_all(3)
    kept, first = torch.cuda.get_rng_state(1), draw(0)
    assert draw(1) == first != draw(1)
    torch.cuda.set_rng_state(kept, 1)
    assert draw(1) == first != draw(0)
    with torch.random.fork_rng(devices=[1]):
        forked = [draw(0), draw(1)]
    assert draw(0) != forked[0] and draw(1) == forked[1]
    with torch.cuda.device(1):
        torch.cuda.manual_seed(3)
        assert torch.rand(3, device="cuda").tolist() == first and torch.cuda.initial_seed() == 3
    states = torch.cuda.get_rng_state_all()
    seen = [draw(0), draw(1)]
    torch.cuda.set_rng_state_all(states)
    assert [draw(0), draw(1)] == seen
    torch.manual_seed(4)
    assert draw(0) == draw(1)


@two
def test_all_devices_are_seeded():
    torch.cuda.seed_all()
    seeds = [torch.cuda.get_rng_state(number)[:8].tolist() for number in range(2)]
    assert seeds[0] == seeds[1]
    torch.cuda.seed()
    assert torch.cuda.get_rng_state(0)[:8].tolist() != torch.cuda.get_rng_state(1)[:8].tolist() == seeds[1]


def test_memory_is_counted_by_device(last):
    torch.cuda.empty_cache()
    before = [torch.cuda.memory_allocated(number) for number in range(last + 1)]
    with torch.cuda.device(last):
        x = torch.empty(2**20, device="cuda")
    after = [torch.cuda.memory_allocated(number) for number in range(last + 1)]
    assert after[:last] == before[:last] and after[last] - before[last] == 2**22
    assert torch.cuda.memory_reserved(last) >= after[last]
    assert torch.cuda.memory_stats(last)["allocated_bytes.all.current"] > 0
    free, total = torch.cuda.mem_get_info(last)
    assert 0 < free < total and torch.cuda.get_device_properties(last).total_memory >= total
    del x
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info(last)[0] > free
    assert torch.cuda.get_device_name(last)


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
    plain = {"PATH": "/usr/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=plain)
    if registry.backend("cuda").available() is None and told.returncode == 0:
        pytest.skip("there is a GPU")
    assert told.stdout == "0 False\n" and "device 'cuda' can't be used here: CuPy" in told.stderr


@two
def test_seeding_all_devices_uses_none_of_them():
    from plugrad.backends import following

    torch.cuda.manual_seed_all(3)
    assert [len(torch.cuda.get_rng_state(number)) for number in range(2)] == [16, 16]
    assert not following.started()
