"""Ctrl-C at any point: what is to change has changed completely or not at all, and modes are what they were."""

import contextlib
import gc
import os

import pytest

import plugrad as torch
from plugrad.autograd import forward_ad
from plugrad.extend import register
from plugrad.formats.durable import _flush_folder
from plugrad.graph.modes import levels
from plugrad.interrupts import uncollected
from plugrad.nn import policies
from plugrad.utils.checkpoint import checkpoint
from support import thrice
from support.interrupts import interrupted
from support.modes import flags, modes_on


@torch.no_grad()
def yielding(x):
    try:
        yield x * 2
        yield x * 3
    finally:
        x.sum()


def with_grad_enabled(x):
    with torch.no_grad(), torch.set_grad_enabled(True):
        (x * x).sum().backward()


def in_regions(*contexts):
    def program(x):
        for make in contexts:
            with make():
                y = x * x
                if y.requires_grad:
                    y.sum().backward()
            (x * x).sum()

    return program


def in_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(Watching())
        with stack.pop_all():
            (x * x).sum()


class Watching(torch.extend.OpHook):
    def before(self, call):
        call.args[0].sum()

    def after_backward(self, node, grad_inputs, grad_outputs):
        grad_outputs[0].sum()


class Asked(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class AskedBelow(torch.overrides.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def checkpointed(reentrant):
    return lambda x: checkpoint(lambda x: (x * 3).exp(), x, use_reentrant=reentrant).sum().backward()


def second_gradient(x):
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    g.sum().backward()


MODES = {
    "no_grad": in_regions(torch.no_grad),
    "inference_mode": in_regions(torch.inference_mode),
    "anomaly": in_regions(torch.autograd.detect_anomaly),
    "zero_safe": in_regions(torch.autograd.zero_safe),
    "nested": lambda x: in_regions(lambda: torch.no_grad())(x) or in_regions(torch.enable_grad, torch.no_grad)(x),
    "device": in_regions(lambda: torch.device("cpu")),
    "saved hooks": in_regions(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)),
    "enabled": with_grad_enabled,
    "generator": lambda x: [y.sum() for y in yielding(x)],
    "backward": lambda x: (x * x).sin().sum().backward(),
    "second backward": second_gradient,
}
ELSEWHERE = {
    "ExitStack": in_a_stack,
    "hook on ops": in_regions(Watching),
    "function mode": in_regions(Asked),
    "dispatch mode": in_regions(AskedBelow),
    "no overrides": in_regions(torch.overrides.DisableTorchFunctionSubclass),
    "checkpoint": checkpointed(False),
    "reentrant checkpoint": checkpointed(True),
    "transforms": lambda x: torch.func.hessian(lambda x: (x**3).sum())(x),
    "vmap": lambda x: torch.func.vmap(lambda x: (x * x).sin())(x),
    "compile": lambda x: torch.compile(lambda x: x * x + 1)(x),
}


# Python swallows what is raised while it frees an array: the program goes on then.
swallowed = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@swallowed
@pytest.mark.parametrize("name", [*MODES, *ELSEWHERE])
def test_modes_come_back(name):
    program, most = (MODES[name], 400) if name in MODES else (ELSEWHERE[name], 100)
    assert not modes_on()
    before = flags()
    stopped = 0
    for where, _, was in interrupted(program, lambda: torch.ones(3, requires_grad=True), most):
        stopped += was
        assert not modes_on() and flags() == before, where
    assert stopped


# ---------------------------------------------------------------------------------------------------- weights, state


def values(*owners):
    """Return all that optimizers and modules hold, as nested lists."""

    def plain(value):
        if isinstance(value, torch.Tensor):
            return value.detach().tolist()
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value

    return [plain(dict(owner.state_dict())) for owner in owners]


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
}


class Training:
    """A model and its optimizer, with gradients of its second step."""

    def __init__(self, optimizer):
        self.model = model()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        for _ in range(2):
            self.backward()
            self.optimizer.step()
        self.backward()

    def backward(self):
        self.optimizer.zero_grad()
        (self.model(torch.tensor([[1.0, 2.0], [3.0, -1.0]])) ** 2).sum().backward()

    def values(self):
        return values(self.model, self.optimizer)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_step_of_an_optimizer_is_taken_or_not(optimizer):
    done = Training(optimizer)
    before = done.values()
    done.optimizer.step()
    after = done.values()
    assert before != after
    ends = set()
    for where, training, was in interrupted(
        lambda training: training.optimizer.step(), lambda: Training(optimizer), most=150
    ):
        assert was and training.values() in (before, after), where
        ends.add(training.values() == before)
        if ends != {True, False}:
            training.backward()
            training.optimizer.step()
    assert ends == {True, False}


@swallowed
def test_a_level_of_forward_derivatives_ends():
    """Else none could begin again in this thread, and every walk backward would be a careful one."""

    def program(x):
        with forward_ad.dual_level():
            forward_ad.unpack_dual(forward_ad.make_dual(x, x).sin())

    for where, _, _ in interrupted(program, lambda: torch.ones(3)):
        assert not modes_on() and forward_ad._current_level == -1, where
    gc.collect()
    assert not levels


def test_a_seed_is_set_or_not():
    generators = {seed: torch.Generator().manual_seed(seed).get_state().tolist() for seed in (3, 4)}
    for where, generator, _ in interrupted(lambda g: g.manual_seed(4), lambda: torch.Generator().manual_seed(3)):
        assert generator.get_state().tolist() == generators[generator.initial_seed()], where


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("steps", [0, 2])
def test_a_step_of_several_evaluations_is_taken_or_not(steps, line_search):
    def prepare():
        torch.manual_seed(0)
        weights = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
        optimizer = torch.optim.LBFGS(weights, lr=0.1, max_iter=3, line_search_fn=line_search)

        def closure():
            optimizer.zero_grad()
            loss = sum((w**4).sum() for w in weights)
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
        return weights, optimizer, closure

    def state(prepared):
        return [w.tolist() for w in prepared[0]], values(prepared[1])

    done = prepare()
    before = state(done)
    done[1].step(done[2])
    after = state(done)
    for where, prepared, was in interrupted(lambda prepared: prepared[1].step(prepared[2]), prepare, most=60):
        assert was and state(prepared) in (before, after), where
    for calls in 0, 1, 2:
        _, optimizer, closure = prepared = prepare()

        def fails(closure=closure, left=iter(range(calls))):
            next(left)  # StopIteration in the last of the calls
            return closure()

        with pytest.raises(StopIteration):
            optimizer.step(fails)
        assert state(prepared) == before


def test_an_old_graph_notices_a_step_that_was_interrupted():
    def prepare():
        w = torch.ones(3, requires_grad=True)
        w.grad = torch.ones(3)
        return w, (w * w).sum(), torch.optim.SGD([w], lr=1.0)

    for where, (w, loss, _), _ in interrupted(lambda prepared: prepared[2].step(), prepare):
        if w.tolist() == [1.0] * 3:
            loss.backward()
        else:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
            assert w.tolist() == [0.0] * 3, where


WRITES = {
    "add_": lambda w: w.add_(1),
    "copy_": lambda w: w.copy_(torch.zeros(3)),
    "an item": lambda w: w.__setitem__(0, 5.0),
    "out=": lambda w: torch.exp(torch.zeros(3), out=w),
    "where": lambda w: w.masked_fill_(torch.tensor([True, False, True]), 4.0),
}


@pytest.mark.parametrize("name", WRITES)
def test_an_old_graph_notices_a_write_that_was_interrupted(name):
    def prepare():
        x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0)
        return w, (w * x).sum()

    for where, (w, loss), _ in interrupted(lambda prepared: WRITES[name](prepared[0]), prepare):
        if w.tolist() != [2.0] * 3:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()
                pytest.fail(f"written, and not noticed: {where}")


@swallowed
@pytest.mark.parametrize("assign", [False, True])
def test_a_state_dict_is_loaded_or_not(assign):
    new = {name: value + 1 for name, value in model().state_dict().items()}
    before = values(model())
    loaded = model()
    loaded.load_state_dict(new)
    after = values(loaded)
    ends = set()
    for where, net, _ in interrupted(lambda net: net.load_state_dict(dict(new), assign=assign), model, most=200):
        assert values(net) in (before, after), where
        ends.add(values(net) == before)
        assert [p.requires_grad for p in net.parameters()] == [True] * 6
    assert ends == {True, False}


def test_the_state_of_an_optimizer_is_loaded_or_not():
    state = Training("Adam").optimizer.state_dict()
    before, after = Training("Adam"), Training("Adam")
    before.optimizer.step()
    before = before.values()
    after.optimizer.step()
    after.optimizer.load_state_dict(state)
    after = after.values()
    assert before != after

    def prepare():
        training = Training("Adam")
        training.optimizer.step()
        return training

    load = lambda training: training.optimizer.load_state_dict(state)  # noqa: E731
    for where, training, _ in interrupted(load, prepare, most=100):
        assert training.values() in (before, after), where


# ---------------------------------------------------------------------------------------------------- names


def test_a_registration_is_made_or_not():
    with thrice.taken_back():
        for where, op, _ in interrupted(register, thrice.thrice, most=200):
            thrice.check(op, where)


FIRST_USES = {
    "a function": "x.grad = None; torch.nn.functional.softplus(x).sum().backward()",
    "a method": "x.grad = None; x.logaddexp(x).sum().backward()",
    "in place": "y = x.detach().clone(); y.hypot_(y); y.tolist()",
    "a layer": "torch.nn.Bilinear(2, 2, 1)(x, x)",
    "an optimizer": "torch.optim.Rprop([x]).step()",
    "a room": "torch.func.vmap(torch.sin)(x)",
    "a loss": "torch.nn.functional.huber_loss(x, x * 2).backward()",
    "an operator": "(x // 2, 2 % x, x @ x)",
}


@pytest.mark.parametrize("name", FIRST_USES)
def test_what_was_interrupted_at_its_first_use_works_at_the_next(name):
    assert_in_new_process(FIRST_USES[name])


def assert_in_new_process(statement):
    """Run a statement first in many children of a fresh process, each interrupted elsewhere, and then once more."""
    import pathlib
    import subprocess
    import sys

    script = pathlib.Path(__file__).parents[1] / "support" / "first_use.py"
    result = subprocess.run([sys.executable, script, statement], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert int(result.stdout.split()[-1]) >= 20


def test_a_module_has_its_own_parameters_after_a_functional_call():
    def prepare():
        net = model()
        return net, {name: value.detach() + 1 for name, value in net.named_parameters()}, list(net.parameters())

    def call(prepared):
        torch.func.functional_call(prepared[0], prepared[1], (torch.ones(2, 2),))

    for error in None, MemoryError:
        for where, (net, _, own), _ in interrupted(call, prepare, most=150, error=error):
            assert all(one is other for one, other in zip(net.parameters(), own, strict=True)), where


SCHEDULES = {
    "StepLR": (lambda o: torch.optim.lr_scheduler.StepLR(o, 1, gamma=0.5), ()),
    "CosineAnnealingLR": (lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10), ()),
    "ReduceLROnPlateau": (lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0), (9.0,)),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_step_of_a_schedule_is_taken_or_not(name):
    make, arguments = SCHEDULES[name]

    def prepare():
        optimizer = torch.optim.SGD([{"params": [torch.nn.Parameter(torch.ones(1))]} for _ in range(3)], lr=1.0)
        schedule = make(optimizer)
        optimizer.step()
        schedule.step(*[1.0 for _ in arguments])
        return schedule

    def state(schedule):
        return schedule.last_epoch, schedule.get_last_lr(), [group["lr"] for group in schedule.optimizer.param_groups]

    either = [state(prepare()), state(prepare())]
    done = prepare()
    done.step(*arguments)
    either[1] = state(done)
    assert either[0] != either[1]
    for where, schedule, _ in interrupted(lambda schedule: schedule.step(*arguments), prepare):
        assert state(schedule) in either, where


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="needs a list of the process's open files")
def test_the_folder_of_a_file_that_was_written_is_closed(tmp_path):
    before = len(os.listdir("/dev/fd"))
    for where, _, _ in interrupted(lambda _: _flush_folder(tmp_path)):
        assert len(os.listdir("/dev/fd")) == before, where


@swallowed  # that a file was closed when it was dropped, between `open` and the block that closes it
def test_a_file_is_written_or_not(tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(b"before")

    def prepare():
        path.write_bytes(b"before")

    for where, _, _ in interrupted(lambda _: torch.save({"a": [torch.ones(3), 2.5]}, path), prepare, most=200):
        assert [p.name for p in tmp_path.iterdir()] == ["x.pt"], where
        if path.read_bytes() != b"before":
            assert torch.load(path)["a"][1] == 2.5
    torch.save({"a": [torch.ones(3), 2.5]}, path)  # the last run may have been stopped before it had written
    for where, _, _ in interrupted(lambda _: torch.load(path, mmap=True), most=100):
        assert torch.load(path)["a"][1] == 2.5, where


@swallowed  # where a weak reference's callback is interrupted, Python only reports it
def test_a_loader_of_data_that_was_interrupted_goes_on():
    loader = torch.utils.data.DataLoader(list(range(5)), batch_size=2, shuffle=True)
    for where, _, _ in interrupted(lambda _: list(loader), most=150):
        assert sorted(item for batch in loader for item in batch.tolist()) == [0, 1, 2, 3, 4], where


@pytest.mark.parametrize("error", [None, MemoryError])
def test_random_numbers_go_on_behind_a_fork(error):
    def program(_):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            torch.rand(2)
            with torch.random.fork_rng():
                torch.rand(1)

    @torch.random.fork_rng()
    def decorated(_):
        torch.manual_seed(2)

    torch.manual_seed(0)
    expected = torch.rand(3).tolist()
    for stopped in program, decorated:
        for where, _, _ in interrupted(stopped, lambda: torch.manual_seed(0), most=300, error=error):
            assert torch.initial_seed() == 0, where
            assert torch.rand(3).tolist() == expected, where


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_looked_for_again_however_a_block_ends(collecting):
    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        with pytest.raises(KeyboardInterrupt), uncollected():
            assert not gc.isenabled()
            raise KeyboardInterrupt
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()


# ------------------------------------------------------------------------------------------- what outlasts a block


def empty(make):
    def program(_):
        with make():
            pass

    return program


def compiled_step(_):
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()

    try:
        torch.compile(step, backend="eager")(torch.ones(2, 2))
    finally:
        assert "step" not in vars(optimizer) and type(optimizer.state).__name__ == "defaultdict"


def tracked():
    """Return the hooks of all modules."""
    everywhere = torch.nn.modules.module
    return list(everywhere._global_forward_hooks), list(everywhere._global_forward_pre_hooks)


cuda = torch.backends.cuda
OUTLASTING = {
    "sdpa_kernel": (empty(lambda: torch.nn.attention.sdpa_kernel([])), cuda.math_sdp_enabled),
    "sdp_kernel": (empty(lambda: cuda.sdp_kernel(enable_math=False)), cuda.math_sdp_enabled),
    "flags": (empty(lambda: torch.backends.cudnn.flags(benchmark=True)), lambda: torch.backends.cudnn.benchmark),
    "safe_globals": (
        empty(lambda: torch.serialization.safe_globals([contextlib.closing])), torch.serialization.get_safe_globals,
    ),
    "config": (empty(lambda: torch._dynamo.config.patch(verbose=True)), lambda: torch._dynamo.config.verbose),
    "printoptions": (
        empty(lambda: torch.printing.printoptions(precision=2)), lambda: str(torch.tensor(0.1234)),
    ),
    "threads": (empty(lambda: torch.utils.benchmark.set_torch_threads(1)), torch.get_num_threads),
    "tracker": (empty(lambda: torch.utils.module_tracker.ModuleTracker()), tracked),
    "flops": (empty(lambda: torch.utils.flop_counter.FlopCounterMode(display=False)), tracked),
    "breaks": (empty(torch.autograd.trace_breaks), lambda: vars(torch.Tensor)["data"]),
    "profile": (empty(torch.profiler.profile), lambda: torch.graph.modes.installed_hooks),
    "policy": (empty(lambda: torch.nn.init.policy("modern")), lambda: list(policies._stack())),
    "trace": (lambda _: torch.fx.symbolic_trace(model()), lambda: torch.nn.Module.__call__),
    "compiled step": (compiled_step, lambda: None),
    "gradients": (lambda _: torch.func.grad(torch.sum)(torch.ones(2)), lambda: list(torch.graph.modes.writes)),
}  # fmt: skip


@swallowed
@pytest.mark.parametrize("name", OUTLASTING)
def test_what_outlasts_a_block_is_what_it_was(name):
    program, state = OUTLASTING[name]
    before, were = state(), flags()
    gc.freeze()  # "policy" looks at all objects: at those that are made from now on
    try:
        for where, _, _ in interrupted(program, most=10 if name == "policy" else 60):
            assert not modes_on() and flags() == were and state() == before, where
    finally:
        gc.unfreeze()
