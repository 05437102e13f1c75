"""Out of memory, or of stack, at any point: modes and locks are as before, and what was written is known to be."""

import io
import subprocess
import sys
import threading
import tracemalloc

import pytest

import plugrad as torch
from plugrad.autograd.accumulate import _accumulating
from plugrad.extend import OpHook, register
from plugrad.regions import special
from plugrad.registry import lock
from support import thrice
from support.interrupts import interrupted
from support.modes import modes_on

# Python swallows what is raised while it frees an array.
swallowed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


class Watching(OpHook):
    def before(self, call):
        call.args[0].sum()


def state():
    """Return the modes of this thread, and the locks that it holds, as another thread finds them."""
    held = []

    def look():
        for name, one in (("accumulating", _accumulating), ("registry", lock)):
            if one.acquire(blocking=False):
                one.release()
            else:
                held.append(name)

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    hooks = torch.overrides.has_torch_function((torch.ones(1),))
    return modes_on(), hooks, held


def in_regions(x):
    with torch.no_grad(), torch.enable_grad(), Watching():
        (x * x).sum().backward()
    with torch.inference_mode(), torch.autograd.detect_anomaly():
        x * x


def training(x):
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(net.parameters())
    net(x.expand(4, 3)).sum().backward()
    optimizer.step()
    torch.func.functional_call(net, dict(net.named_parameters()), (x.expand(2, 3),))


PROGRAMS = {"regions": in_regions, "training": training}


@swallowed
@pytest.mark.parametrize("error", [MemoryError, RecursionError])
@pytest.mark.parametrize("name", PROGRAMS)
def test_modes_and_locks_come_back(name, error):
    before, stopped = state(), 0
    for where, _, was in interrupted(PROGRAMS[name], lambda: torch.ones(3, requires_grad=True), 120, error=error):
        stopped += was
        assert state() == before, where
    assert stopped > 50


# name -> a write, and what becomes of [2, 2, 2]
WRITES = {
    "add_": (lambda w: w.add_(1), [3, 3, 3]),
    "mul_": (lambda w: w.mul_(w), [4, 4, 4]),
    "copy_": (lambda w: w.copy_(torch.zeros(3)), [0, 0, 0]),
    "an item": (lambda w: w.__setitem__(0, 5.0), [5, 2, 2]),
    "of a view": (lambda w: w[1:].add_(1), [2, 3, 3]),
    "out=": (lambda w: torch.add(torch.zeros(3), 1, out=w), [1, 1, 1]),
    "masked_fill_": (lambda w: w.masked_fill_(torch.tensor([True, False, True]), 4.0), [4, 2, 4]),
    "an optimizer": (lambda w: stepped(w), [1, 1, 1]),
}


def stepped(w):
    p = torch.nn.Parameter(w)
    p.grad = torch.ones(3)
    torch.optim.SGD([p], lr=1.0).step()


def recorded():
    x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
    return w, (w * x).sum()


def is_written_once_or_not(name, w, loss, where):
    if w.tolist() == [2.0] * 3:
        return False
    assert w.tolist() == WRITES[name][1], where
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
        pytest.fail(f"written, and not noticed: {where}")
    return True


@swallowed
@pytest.mark.parametrize("error", [MemoryError, RecursionError])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_is_made_once_or_not_and_an_old_graph_notices(name, error):
    ends = set()
    for where, (w, loss), _ in interrupted(lambda pair: WRITES[name][0](pair[0]), recorded, 250, error=error):
        ends.add(is_written_once_or_not(name, w, loss, where))
    assert False in ends


@pytest.mark.parametrize("name", ["add_", "copy_", "an item", "masked_fill_"])
def test_a_write_that_was_refused_is_none(name):
    wrong = {
        "add_": lambda w: w.add_(torch.ones(5)), "copy_": lambda w: w.copy_(torch.ones(5)),
        "an item": lambda w: w.__setitem__(slice(0, 2), torch.ones(3)),
        "masked_fill_": lambda w: w.masked_fill_(torch.ones(5, dtype=torch.bool), 4.0),
    }  # fmt: skip
    w, loss = recorded()
    with pytest.raises(RuntimeError):
        wrong[name](w)
    assert w._version == 0
    loss.backward()
    WRITES[name][0](w)
    assert w._version == 1


STEPS = {
    "SGD": dict(),
    "SGD with momentum": dict(momentum=0.9, dampening=0.5),
    "Adam": dict(),
    "Rprop": dict(),
}


def about_to_step(name, steps, sizes=((2, 3), (4,), (100, 100))):
    """Return an optimizer of two groups that took some steps, and has gradients."""
    torch.manual_seed(0)
    groups = [{"params": [torch.rand(size).requires_grad_() for size in sizes], "lr": rate} for rate in (0.1, 0.2)]
    optimizer = getattr(torch.optim, name.split()[0])(groups, **STEPS[name])
    for _ in range(steps + 1):
        for group in groups:
            for p in group["params"]:
                p.grad = torch.rand(p.shape)
        if steps:
            optimizer.step()
            steps -= 1
    return optimizer


def weights_and_state(optimizer):
    weights = [p.tolist() for group in optimizer.param_groups for p in group["params"]]
    state = optimizer.state_dict()["state"]
    return weights, {n: {k: v.tolist() for k, v in of.items()} for n, of in state.items()}


@swallowed
@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_taken_or_not_or_its_error_says_how_far_it_came(name, steps):
    done = about_to_step(name, steps)
    before = weights_and_state(done)
    done.step()
    after, notes, errors = weights_and_state(done), set(), []

    def program(optimizer):
        try:
            optimizer.step()
        except MemoryError as error:
            errors.append(error)
            raise

    for where, optimizer, _ in interrupted(program, lambda: about_to_step(name, steps), 150, error=MemoryError):
        note = "".join(getattr(errors[-1], "__notes__", ()))
        now = weights_and_state(optimizer)
        if now != before:
            assert now == after or ("was broken off" in note and "Load a checkpoint" in note), where
            notes.add(note)
        elif not note:
            optimizer.step()  # as if nothing had been
            assert weights_and_state(optimizer) == after, where
        errors.append(MemoryError())
    assert len(notes) > 1


@pytest.mark.parametrize("failing", range(4))
def test_a_step_that_cannot_get_its_memory_changes_nothing(failing):
    class Momentum(torch.optim.Optimizer):
        left = None

        def slots(self, group):
            return {"average": self.average, "step": 0.0}

        def average(self, xp, p):
            if self.left is not None:
                if not self.left:
                    raise MemoryError("no memory for more state")
                self.left -= 1
            return xp.zeros_like(p)

        def update(self, xp, p, g, state, group):
            average = state["average"]
            average *= 0.9
            average += g if state["fresh"] else 0.5 * g
            p -= average

    def steps(left):
        groups = [{"params": [torch.full((n,), 2.0, requires_grad=True) for n in (3, 2)]} for _ in range(2)]
        optimizer = Momentum(groups, {})
        for group in groups:
            for p in group["params"]:
                p.grad = torch.ones(p.shape)
        before = weights_and_state(optimizer)
        optimizer.left = left
        if left is not None:
            with pytest.raises(MemoryError, match="no memory for more state") as caught:
                optimizer.step()
            assert weights_and_state(optimizer) == before and not hasattr(caught.value, "__notes__")
            optimizer.left = None
        optimizer.step()
        optimizer.step()
        return weights_and_state(optimizer)

    assert steps(failing) == steps(None)


def test_an_update_that_fails_names_how_far_the_step_came_and_the_first_step_of_others_is_still_to_come():
    class Failing(torch.optim.Optimizer):
        wrong = True

        def slots(self, group):
            return {"average": self.zeros}

        def update(self, xp, p, g, state, group):
            if self.wrong and group["lr"] == 2.0:
                raise ValueError("a rate of two")
            p -= group["lr"] * (1.0 if state["fresh"] else 10.0) * g

    params = [torch.zeros(1, requires_grad=True) for _ in range(3)]
    optimizer = Failing([{"params": [p], "lr": lr} for p, lr in zip(params, (1.0, 2.0, 3.0))], {})
    for p in params:
        p.grad = torch.ones(1)
    with pytest.raises(ValueError, match="a rate of two") as caught:
        optimizer.step()
    assert "1 of 3 parameters were updated" in caught.value.__notes__[0]
    assert [p.item() for p in params] == [-1.0, 0.0, 0.0] and params[2] not in optimizer.state
    Failing.wrong = False
    optimizer.step()
    assert params[2].item() == -3.0


@pytest.mark.parametrize("number", [3, 9])
def test_a_gradient_that_an_optimizer_does_not_take_changes_nothing(number):
    class Plain(torch.optim.Optimizer):
        def update(self, xp, p, g, state, group):
            p -= g

    groups = [{"params": [torch.zeros(1, 2, requires_grad=True) for _ in range(number)]} for _ in range(2)]
    optimizer = Plain(groups, {})
    params = [p for group in groups for p in group["params"]]
    for p in params:
        p.grad = torch.ones(1, 2)
    params[-1].grad = params[-1].grad.to_sparse()
    with pytest.raises(RuntimeError, match="does not support sparse gradients") as caught:
        optimizer.step()
    assert not any(p.any() for p in params) and not hasattr(caught.value, "__notes__")


@pytest.mark.parametrize("name", STEPS)
def test_no_step_but_the_first_needs_memory(name):
    """So none can be broken off for want of it."""
    optimizer = about_to_step(name, 2, sizes=((700, 600), (300_000,), (5,)))
    tracemalloc.start()
    try:
        optimizer.step()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 700 * 600, f"{peak} bytes"


def at_depth(free, function):
    """Call a function where only so many frames are left."""

    def down(frames):
        return down(frames - 1) if frames else function()

    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return down(sys.getrecursionlimit() - depth - free)


@pytest.mark.parametrize("name", WRITES)
def test_a_write_near_the_end_of_the_stack_is_made_once_or_not(name):
    ends = set()
    for free in range(2, 70):
        w, loss = recorded()
        try:
            at_depth(free, lambda w=w: WRITES[name][0](w))
        except RecursionError:
            pass
        ends.add(is_written_once_or_not(name, w, loss, free))
    assert ends == {True, False}


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))


def values(net):
    return {name: value.tolist() for name, value in net.state_dict().items()}


NEW = {name: value + 1 for name, value in model().state_dict().items()}


@swallowed
@pytest.mark.parametrize("assign", [False, True])
def test_a_state_dict_is_loaded_or_not(assign):
    loaded = model()
    loaded.load_state_dict(NEW)
    either = (values(model()), values(loaded))
    for where, net, _ in interrupted(
        lambda net: net.load_state_dict(dict(NEW), assign=assign), model, 120, error=MemoryError
    ):
        assert values(net) in either, where
    for free in range(5, 60):
        net = model()
        try:
            at_depth(free, lambda net=net: net.load_state_dict(dict(NEW), assign=assign))
        except RuntimeError:  # RecursionError is one, too
            pass
        assert values(net) in either, free


def test_a_walk_near_the_end_of_the_stack_ends_in_an_error_and_nothing_else():
    x = torch.ones(3, requires_grad=True)
    before, ends = state(), set()
    for free in range(3, 80):
        x.grad = None
        try:
            at_depth(free, lambda: (x * x).sin().logsumexp(0).backward())
        except RecursionError:
            ends.add(False)
            assert x.grad is None, free
        else:
            ends.add(True)
        assert state() == before
    assert ends == {True, False}


FIRST_USE = """
import subprocess
import sys
import plugrad

def at_depth(free, function):
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    dive(sys.getrecursionlimit() - depth - free, function)

def dive(frames, function):
    return function() if frames <= 1 else dive(frames - 1, function)

x = plugrad.ones(2)
for free in range(2, 400):
    try:
        at_depth(free, lambda: (x.sin(), x.softmax(0), plugrad.fft.fft(x), plugrad.linalg.norm(x)))
    except RecursionError:
        pass
x.sin(), x.softmax(0), plugrad.fft.fft(x), plugrad.linalg.norm(x)
print("used")
"""


def test_what_failed_at_its_first_use_for_want_of_frames_works_at_the_next():
    done = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, timeout=300)
    assert done.stdout == "used\n", done.stderr


# Python swallows what a weak reference's callback raises: an array that another test left may be freed in between.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_failed_at_its_first_use_for_want_of_memory_works_at_the_next():
    def use(op):
        register(op)
        x = torch.ones(2, requires_grad=True)
        x.thrice().sum().backward()
        x.detach().thrice_()

    with thrice.taken_back():
        for where, op, _ in interrupted(use, thrice.thrice, 120, error=MemoryError):
            thrice.check(op, where)


def test_walks_in_walks_without_end_of_frames():
    """Deeper than one thread has frames: further walks run in threads of their own, with the modes of the first."""
    seen = []

    def nested(depth):
        with torch.enable_grad():
            x = torch.ones(1, requires_grad=True)
            y = x * 2
            loss = y.sum()
        if depth:
            y.register_hook(lambda g: nested(depth - 1))
        loss.backward()
        seen.append((x.grad.item(), torch.is_anomaly_enabled()))

    with torch.autograd.detect_anomaly(check_nan=False):
        nested(120)
    assert seen == [(2.0, True)] * 121


def test_a_mode_that_is_put_back_where_no_frame_is_left_is_off_for_the_fast_paths():
    for free in range(1, 40):
        with torch.autograd.detect_anomaly(check_nan=False):
            pass
        try:
            at_depth(free, torch.is_anomaly_enabled)
        except RecursionError:
            pass
        assert not torch.is_anomaly_enabled()
        assert not special, free


def test_what_is_nested_too_deeply_is_told_from_a_program_that_is():
    file = io.BytesIO()
    torch.save({"a": [[torch.ones(2)]]}, file)
    deep = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        torch.tensor(deep)
    for free in range(2, 60):
        for right in (lambda: torch.tensor([[1.0], [2.0]]), lambda: torch.load(io.BytesIO(file.getvalue()))):
            try:
                at_depth(free, right)
            except RecursionError:
                continue
