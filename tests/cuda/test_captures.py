"""What a CUDA graph holds beside ops, optimizers and streams above all; what it refuses, and how captures end then."""

import signal
import threading

import pytest

import plugrad as torch
from plugrad import nn
from plugrad.backends import following
from support.graphs import captured, warmed
from support.interrupts import interrupted

WAITING = {
    "item": (lambda x: x.sum().item(), r"item\(\)"),
    "cpu": (lambda x: x.cpu(), "a copy to the host"),
    "nonzero": (lambda x: x.nonzero(), "argwhere"),
    "mask": (lambda x: x[x > 0], "captur"),
    "tensor": (lambda x: torch.tensor([1.0, 2.0], device="cuda"), "a copy from the host"),
    "synchronize": (lambda x: torch.cuda.synchronize(), "synchronize"),
    "unique": (lambda x: x.unique(), "unique"),
}


@pytest.mark.parametrize("call, told", WAITING.values(), ids=WAITING)
def test_what_waits_is_refused_and_ends_the_capture(call, told):
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    stream = torch.cuda.current_stream()
    with pytest.raises(RuntimeError, match=told) as caught, torch.cuda.graph(graph):
        call(x * 2)
    assert "CUDA graph" in str(caught.value)
    usable_again(stream, graph)


def usable_again(stream, graph):
    """After a capture that was broken off everything is as before."""
    assert torch.cuda.current_stream() == stream and not torch.cuda.is_current_stream_capturing()
    assert torch.is_grad_enabled()
    x = torch.ones(4, device="cuda")
    assert (x @ x).item() == 4 and (x * 2).sum().item() == 8
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()
    other, y = captured(lambda: x + 1)
    other.replay()
    assert y.tolist() == [2, 2, 2, 2]


def test_an_error_in_the_block_ends_the_capture():
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    with pytest.raises(ZeroDivisionError), torch.cuda.graph(graph), torch.no_grad():
        torch.ones(4, device="cuda") + 1 / 0
    usable_again(stream, graph)


def test_ctrl_c_in_a_capture_ends_it():
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    with pytest.raises(KeyboardInterrupt), torch.cuda.graph(graph), torch.no_grad():
        torch.ones(4, device="cuda")
        signal.raise_signal(signal.SIGINT)
    usable_again(stream, graph)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_at_any_point_of_a_capture(on_stand_in):
    stream, x = torch.cuda.current_stream(), torch.ones(4, device="cuda")
    stopped = 0

    def program(graph):
        with torch.cuda.graph(graph):
            (x * 2).add_(1)

    for where, graph, was in interrupted(program, torch.cuda.CUDAGraph, 300 if on_stand_in else 60):
        stopped += was
        y = x * 3
        assert y.tolist() == [3, 3, 3, 3], where
        assert torch.cuda.current_stream() == stream and not torch.cuda.is_current_stream_capturing(), where
        graph.reset()
    assert stopped
    usable_again(stream, graph)


def test_captures_begin_on_a_side_stream_and_one_at_a_time():
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="non-default stream"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="capture error mode"), torch.cuda.graph(graph, capture_error_mode="loose"):
        pass
    other = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="under way"), torch.cuda.graph(graph), torch.cuda.graph(other):
        pass
    with pytest.raises(RuntimeError, match="without a preceding"):
        torch.cuda.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="without a preceding"):
        torch.cuda.CUDAGraph().pool()
    graph, _ = captured(lambda: torch.ones(3, device="cuda"))
    with pytest.raises(RuntimeError, match="already owns a captured graph"), torch.cuda.graph(graph):
        pass


def test_capture_by_hand():
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x = torch.ones(3, device="cuda")
    with torch.cuda.stream(stream):
        assert not torch.cuda.is_current_stream_capturing()
        graph.capture_begin()
        assert torch.cuda.is_current_stream_capturing()
        y = x * 3
        graph.capture_end()
    graph.replay()
    assert y.tolist() == [3, 3, 3]
    with pytest.raises(RuntimeError, match="without a capture"):
        graph.capture_end()


def test_work_of_a_second_stream_has_to_be_waited_for():
    x, side = torch.ones(3, device="cuda"), torch.cuda.Stream()

    def work(join):
        main = torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            y = x + 1
        if join:
            main.wait_stream(side)
        return y

    graph, y = captured(lambda: work(True))
    graph.replay()
    assert y.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="another stream"):
        captured(lambda: work(False))


def test_steps_that_no_graph_can_hold_are_refused():
    p = nn.Parameter(torch.ones(3, device="cuda"))
    p.grad = torch.ones(3, device="cuda")
    adam = torch.optim.Adam([p])
    adam.step()
    with pytest.raises(RuntimeError, match="Attempting CUDA graph capture of step.. for an instance of Adam but"):
        captured(adam.step)
    with pytest.raises(RuntimeError, match="first step"):
        captured(torch.optim.Adam([p], capturable=True).step)
    with pytest.raises(RuntimeError, match="first step"):
        captured(torch.optim.SGD([p], momentum=0.9).step)
    for name in ("RAdam", "ASGD", "Rprop"):
        optimizer = getattr(torch.optim, name)([p], capturable=True)
        optimizer.step()
        with pytest.raises(NotImplementedError, match="looks at values"):
            captured(optimizer.step)


@pytest.mark.parametrize("name, told", [("Muon", "first step"), ("Adafactor", "first step")])
def test_steps_on_whole_parameters_are_held_to_the_same(name, told):
    p = nn.Parameter(torch.ones(3, 3, device="cuda"))
    p.grad = torch.ones(3, 3, device="cuda")
    with pytest.raises(RuntimeError, match=told):
        captured(getattr(torch.optim, name)([p]).step)
    adafactor, muon = torch.optim.Adafactor([p]), torch.optim.Muon([p], lr=0.1)
    adafactor.step(), muon.step()
    with pytest.raises(RuntimeError, match="capturable is False"):
        captured(adafactor.step)
    before = p.detach().clone()
    graph, _ = captured(muon.step)
    assert torch.equal(p.detach(), before)
    graph.replay()
    assert not torch.equal(p.detach(), before)


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_schedules_reach_steps_by_a_rate_on_the_device(dtype):
    p = nn.Parameter(torch.zeros(1, device="cuda", dtype=dtype))
    p.grad = torch.ones(1, device="cuda", dtype=dtype)
    adam = torch.optim.Adam([p], lr=torch.tensor(1.0, device="cuda"), capturable=True)
    schedule = torch.optim.lr_scheduler.StepLR(adam, 1, gamma=0.5)
    adam.step()
    graph, _ = captured(adam.step)
    steps = []
    for _ in range(3):
        schedule.step()
        before = p.item()
        graph.replay()
        steps.append(before - p.item())
    assert steps == pytest.approx([0.5, 0.25, 0.125], rel=1e-5)


def test_autocast_is_captured():
    model, x = nn.Linear(8, 8).cuda(), torch.randn(4, 8, device="cuda")

    def step():
        model.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().square().mean()
        loss.backward()
        return loss

    wanted = warmed(step)[-1].item()
    graph, loss = captured(step)
    graph.replay()
    assert loss.item() == pytest.approx(wanted, rel=1e-5)
    grads = [p.grad.tolist() for p in model.parameters()]
    step()
    for found, p in zip(grads, model.parameters()):
        torch.testing.assert_close(torch.tensor(found), p.grad.cpu())


def test_steps_of_a_scaler_stay_outside():
    p, x = nn.Parameter(torch.ones(4, device="cuda")), torch.ones(4, device="cuda")
    descend, scaler = torch.optim.SGD([p], lr=0.25), torch.amp.GradScaler("cuda", init_scale=8.0)

    def step():
        descend.zero_grad(set_to_none=True)
        scaler.scale((p * x).sum()).backward()

    warmed(step)
    graph, _ = captured(step)
    for value, left in ((1.0, 0.75), (float("inf"), 0.75), (2.0, 0.25)):
        x.fill_(value)
        graph.replay()
        scaler.step(descend)
        scaler.update()
        assert p.tolist() == [left] * 4
    assert scaler.get_scale() == 4


def test_graphs_do_not_make_ops_follow_devices():
    captured(lambda: torch.rand(3, device="cuda"))
    assert not following.started()


def test_a_second_device_has_graphs_of_its_own():
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one device")
    with torch.cuda.device(1):
        x = torch.ones(4, 4, device="cuda:1")
        graph, (y, drawn) = captured(lambda: (x @ x, torch.rand(3, device="cuda:1")))
    graph.replay()
    assert y.device.index == 1 and y.tolist() == [[4] * 4] * 4
    first = drawn.tolist()
    graph.replay()
    assert drawn.tolist() != first and torch.cuda.current_device() == 0


def test_generators_are_not_seeded_in_a_capture():
    state = torch.cuda.get_rng_state()
    for call in lambda: torch.cuda.manual_seed(1), lambda: torch.cuda.set_rng_state(state):
        with pytest.raises(RuntimeError, match="generator"):
            captured(call)


def test_other_threads_compute_meanwhile():
    x, found = torch.ones(4, 4, device="cuda"), []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            # No product: a thread's first one makes a handle of cuBLAS, for which CUDA waits for the whole device.
            found.append((x * 4 + torch.rand(4, 4, device="cuda")).sum().item() > 64)
            with pytest.raises(RuntimeError, match="under way"):
                captured(lambda: x + 1)

    def step():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x * 2

    graph, y = captured(step)
    graph.replay()
    assert found == [True] and y.tolist() == [[2] * 4] * 4


def test_capturable_steps_have_their_count_and_their_rate_on_the_device():
    p = nn.Parameter(torch.ones(3, device="cuda"))
    p.grad = torch.ones(3, device="cuda")
    rate = torch.tensor(0.25, device="cuda")
    adam = torch.optim.AdamW([p], lr=rate, capturable=True)
    adam.step()
    graph, _ = captured(adam.step)
    graph.replay()
    state = adam.state_dict()["state"][0]
    assert state["step"].device.type == "cuda" and state["step"].dtype == torch.float32 and state["step"].item() == 2
    before = p.detach().clone()
    rate.fill_(0)
    graph.replay()
    assert torch.equal(p.detach(), before) and adam.state[p]["step"].item() == 3
    plain = torch.optim.AdamW([p], capturable=True)
    plain.load_state_dict(adam.state_dict())
    plain.step()
    assert plain.state[p]["step"].item() == 4


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_in_a_capture_compute_again_but_do_not_draw_again(reentrant):
    x, w = torch.ones(4, device="cuda"), torch.full((4,), 2.0, device="cuda", requires_grad=True)
    torch.rand(1, device="cuda")  # so that there is a generator

    def step(function):
        w.grad = None
        y = torch.utils.checkpoint.checkpoint(function, w, use_reentrant=reentrant)
        y.sum().backward()
        return w.grad

    graph, g = captured(lambda: step(lambda w: (w * x).exp() * w))
    x.fill_(0)
    graph.replay()
    assert g.tolist() == [1, 1, 1, 1]
    with pytest.raises(RuntimeError, match="again in a checkpoint is not permitted while a CUDA graph is captured"):
        captured(lambda: step(lambda w: nn.functional.dropout(w, 0.5)))
