"""Many threads at once: nothing is lost, nothing half made is seen, and a process that was forked or spawned works."""

import ast
import multiprocessing
import pathlib
import re
import subprocess
import sys
import threading
import time

import pytest

import plugrad as torch
from plugrad import extend
from plugrad.tensor import random


@pytest.fixture(autouse=True)
def short_turns():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(work, threads=4):
    """Call `work(number)` in several threads that begin at one moment; raise what any of them raised."""
    barrier, errors = threading.Barrier(threads), []

    def run(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if errors:
        raise errors[0]


def test_blocks_of_fork_rng_are_put_back_by_one_thread(monkeypatch):
    class Slow(list):
        def index(self, fork):
            time.sleep(0.01)
            return super().index(fork)

    monkeypatch.setattr(random, "forks", Slow())
    torch.manual_seed(3)
    before = torch.get_rng_state()
    for _ in range(3):
        with torch.random.fork_rng():
            torch.rand(1)
        at_once(lambda number: torch.initial_seed())  # whoever asks first puts back
        assert torch.initial_seed() == 3 and not random.forks
        assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("promised", [False, True])
def test_a_name_that_is_registered_again_is_never_gone(promised, monkeypatch):
    if promised:  # by a third party's plugin: with one installed, looking a name up must not shut others out either
        monkeypatch.setitem(torch.registry.claims, "of_another_plugin", [next(iter(torch.registry.plugins.values()))])

    def doubled_by(number):
        @extend.unary(name="often_doubled", vjp=None)
        def doubled(xp, input):
            """Return twice the input, and a bit."""
            return 2 * input

        return doubled

    extend.register(doubled_by(0))
    done = threading.Event()

    def use(number):
        x = torch.ones(2)
        while not done.is_set():
            if number == 0:
                assert (x.often_doubled() == 2).all()
            elif number == 1:
                assert (torch.often_doubled(x) == 2).all()
            elif number == 2:
                assert torch.registry.op("often_doubled").name == "often_doubled"
            else:
                try:
                    for again in range(150):
                        last = doubled_by(again)
                        extend.register(last)
                finally:
                    done.set()

    at_once(use)
    extend.unregister(torch.registry.op("often_doubled"))
    assert not hasattr(torch, "often_doubled") and not hasattr(torch.Tensor, "often_doubled")


@pytest.mark.parametrize("size", [1, 5000])
def test_gradients_that_several_threads_add_are_all_there(size):
    for _ in range(40):
        p = torch.zeros(size, requires_grad=True)

        def work(number, p=p):
            for _ in range(5):
                (p * 1.0).sum().backward()

        at_once(work)
        assert p.grad.tolist() == [20.0] * size


def test_gradients_that_are_taken_away_meanwhile_are_all_there():
    for _ in range(100):
        p, taken, taking = torch.zeros(1, requires_grad=True), [], threading.Lock()

        def work(number, p=p, taken=taken, taking=taking):
            for _ in range(5):
                (p * 1.0).sum().backward()
                with taking:  # else one thread would drop what another has not taken yet
                    g = p.grad
                    if g is not None:
                        p.grad = None
                        taken.append(g)

        at_once(work)
        if p.grad is not None:
            taken.append(p.grad)
        assert sum(g.item() for g in {id(g): g for g in taken}.values()) == 20


# Tables of a module to which no other thread adds while one goes through them.
ALONE = {
    ("distributions/_parametric.py", "_parameters"): "what classes declare: nobody adds to it",
    ("missing_grads/__init__.py", "_originals"): "under the lock of `report_missing_grads`",
    ("process_state/__init__.py", "_classes"): "under the lock of looks at the process",
    ("backends/_mersenne.py", "_locks"): "in a forked child, which has one thread",
}


# What a line of a file looks like that may have such a table: most have none, and parsing all takes long.
TABLE = re.compile(r"^(?:    )?\w[^=]* = (?:[\w.]*(?:\b(?:dict|set|defaultdict)|\bWeak\w*)\(|\{\})", re.MULTILINE)


def _tables_gone_through(tree):
    """Yield the names of tables, empty at first, of a module and its classes that some code of it goes through."""
    tables = set()
    for body in [tree.body, *[node.body for node in tree.body if isinstance(node, ast.ClassDef)]]:
        for node in body:
            value = getattr(node, "value", None)
            made = ast.unparse(value.func).rpartition(".")[2] if isinstance(value, ast.Call) else ""
            if made in ("dict", "set", "defaultdict") or made[:4] == "Weak" or ast.unparse(value or []) == "{}":
                tables.update(target.id for target in getattr(node, "targets", None) or [node.target])
    for node in ast.walk(tree) if tables else ():
        if isinstance(node, ast.For | ast.comprehension):
            name = re.sub(r"\.(keys|values|items)\(\)$", "", ast.unparse(node.iter)).rpartition(".")[2]
            if name in tables:
                yield name


def test_tables_that_threads_share_are_copied_before_somebody_goes_through_them():
    """Else "dictionary changed size during iteration", once in a thousand runs: `tuple(table.values())` is one step."""
    root = pathlib.Path(__file__).parents[2]
    files = [file for folder in ("core", "surface", "plugins") for file in (root / folder).rglob("*.py")]
    texts = [(str(file), text) for file in files if TABLE.search(text := file.read_text())]
    found = {(file, name) for file, text in texts for name in _tables_gone_through(ast.parse(text))}
    alone = {one for one in found for end, table in ALONE if one[0].endswith(f"/{end}") and one[1] == table}
    assert len(alone) == len(ALONE)
    assert not sorted(found - alone)


def test_modes_of_one_thread_are_no_others():
    x = torch.ones(3, requires_grad=True)

    def work(number):
        for _ in range(200):
            if number % 2:
                with torch.no_grad():
                    assert not (x * 2).requires_grad
                    with torch.enable_grad():
                        assert (x * 2).requires_grad
                    assert not (x * 2).requires_grad
            else:
                assert (x * 2).requires_grad
                with torch.inference_mode():
                    assert (x * 2).is_inference()

    at_once(work, threads=6)
    assert (x * 2).requires_grad


def test_one_context_serves_many_threads():
    x, context = torch.ones(3, requires_grad=True), torch.no_grad()

    def work(number):
        for _ in range(200):
            with context:
                assert not (x * 2).requires_grad
            assert (x * 2).requires_grad

    at_once(work)


def test_random_numbers_of_other_threads_are_not_those_of_vmap():
    stop = threading.Event()

    def draw():
        while not stop.is_set():
            torch.rand(2)

    other = threading.Thread(target=draw)
    other.start()
    try:
        for _ in range(50):
            torch.func.vmap(lambda x: torch.linalg.det(x).sin())(torch.ones(3, 2, 2))
            with pytest.raises(RuntimeError, match="random"):
                torch.func.vmap(lambda x: torch.linalg.det(x) + torch.rand(()))(torch.ones(3, 2, 2))
    finally:
        stop.set()
        other.join()


PROGRAM = """
import threading, sys
sys.setswitchinterval(1e-6)
STATEMENTS = '''
import plugrad as torch
x = torch.ones(2, 2, requires_grad=True)
y = torch.nn.functional.softplus(x).sum() + x.relu().mean() + torch.nn.Linear(2, 2)(x).sum()
y.backward()
optimizer = torch.optim.Adam([x])
optimizer.step()
torch.optim.lr_scheduler.StepLR(optimizer, 1)
torch.func.vmap(torch.sin)(x), torch.nn.Sequential(torch.nn.ReLU())(x), repr(x), x[0], x @ x, 2 ** x, x // 2
torch.utils.data.DataLoader([1, 2]), torch.nn.init.xavier_uniform_(torch.empty(2, 2))
'''
errors, barrier = [], threading.Barrier(8)
def work():
    barrier.wait()
    try:
        exec(STATEMENTS, {})
    except BaseException:
        import traceback
        errors.append(traceback.format_exc())
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit("".join(errors) or 0)
"""


def test_the_first_import_and_the_first_uses_by_many_threads_at_once():
    for _ in range(3):
        result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr


def test_an_import_that_was_interrupted_can_be_repeated():
    script = pathlib.Path(__file__).parents[1] / "support" / "first_import.py"
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0 and int(result.stdout.split()[-1]) >= 8, result.stderr


# ---------------------------------------------------------------------------------------------------- processes


def in_process(queue, answers):
    """Work of a child process: take a tensor, use ops that were used before and ops that were not."""
    x = queue.get()
    x.requires_grad_()
    (torch.nn.functional.silu(x).sum() + x.logsumexp(0)).backward()
    with torch.no_grad():
        recorded = (x * 2).requires_grad
    answers.put((x.grad, recorded, torch.is_grad_enabled(), torch.nn.Linear(2, 1).state_dict()))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_are_started_after_use(method):
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    (torch.nn.functional.silu(x).sum() + x.logsumexp(0)).backward()
    context = multiprocessing.get_context(method)
    queue, answers = context.Queue(), context.Queue()
    child = context.Process(target=in_process, args=(queue, answers))
    stop = threading.Event()

    def busy():  # so that a fork may find any lock held
        while not stop.is_set():
            (x.detach().requires_grad_() * 2).sum().backward()

    other = threading.Thread(target=busy)
    other.start()
    try:
        child.start()
        queue.put(x.detach())
        grad, recorded, enabled, state = answers.get(timeout=120)
    finally:
        stop.set()
        other.join()
    child.join(60)
    assert child.exitcode == 0 and not recorded and enabled
    assert grad.tolist() == x.grad.tolist()
    assert list(state) == ["weight", "bias"]


def test_a_child_finds_no_lock_that_a_thread_of_its_parent_held():
    from plugrad.autograd.accumulate import _accumulating
    from plugrad.autograd.missing_grads import _lock as explaining
    from plugrad.nn.lazy.dry_run import _lock as waiting
    from plugrad.process_state import _lock as watching
    from plugrad.registry import lock

    held, stop, generator = threading.Event(), threading.Event(), torch.Generator()
    drawing = [one.source.bit_generator.lock for one in (random.generator_of(), generator)]

    def hold():
        with _accumulating, lock, drawing[0], drawing[1], explaining, waiting, watching:
            held.set()
            stop.wait(60)

    def use():
        x = torch.ones(2, requires_grad=True)
        (x * x).sum().backward()
        torch.nn.functional.softsign(x)
        torch.randn(30), torch.rand(2, generator=generator)
        torch.nn.Sequential(torch.nn.LazyLinear(2))(x)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        held.wait()
        child = multiprocessing.get_context("fork").Process(target=use, daemon=True)
        child.start()
        child.join(20)
        assert child.exitcode == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.filterwarnings("ignore:the compiler 'native' runs a program op by op")
def test_a_fork_waits_for_the_capture_of_another_thread():
    model, capturing, forked = torch.nn.Linear(2, 2), threading.Event(), threading.Event()
    x = torch.ones(1, 2)

    def program(x):
        capturing.set()
        forked.wait(1)  # the fork does not come before the capture has ended
        return model(x) * 2

    def use():
        assert torch.equal(torch.compile(lambda x: model(x) * 3)(x), model(x) * 3)
        torch.linalg.lu_factor(torch.eye(3))

    thread = threading.Thread(target=torch.compile(program), args=(x,))
    thread.start()
    capturing.wait()
    child = multiprocessing.get_context("fork").Process(target=use, daemon=True)
    child.start()
    forked.set()
    child.join(30)
    thread.join()
    assert child.exitcode == 0


def test_a_child_draws_what_its_parent_would_have_drawn():
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    torch.manual_seed(3)
    child = context.Process(target=lambda: answers.put(torch.rand(3)))
    child.start()
    drawn = answers.get(timeout=60)
    child.join()
    assert drawn.tolist() == torch.rand(3).tolist()
