"""Threads that share a graph, leaves, hooks, names or a generator: nothing is lost, and none sees what is half made."""

import io
import math
import multiprocessing
import os
import sys
import threading
import types
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.extend import hookimpl, register, unary, unregister
from support.threads import at_once


def in_threads(work, threads=6):
    """Call `work(number)` in several threads at once."""
    at_once(*[lambda number=number: work(number) for number in range(threads)])


def test_threads_record_into_one_graph():
    for _ in range(10):
        x, parts = torch.ones(3, requires_grad=True), [None] * 6

        def work(number, x=x, parts=parts):
            parts[number] = ((x * (number + 1.0)).sin() ** 2).sum()

        in_threads(work)
        sum(parts).backward()
        expected = sum(2 * math.sin(n) * math.cos(n) * n for n in range(1, 7))
        assert x.grad.tolist() == pytest.approx([expected] * 3, rel=1e-4)


def test_threads_walk_through_one_graph():
    for _ in range(10):
        x = torch.ones(3, requires_grad=True)
        shared = (x * 2).exp()
        heads = [(shared * float(number)).sum() for number in range(6)]
        in_threads(lambda number, heads=heads: heads[number].backward(retain_graph=True))
        assert x.grad.tolist() == pytest.approx([15 * 2 * math.exp(2)] * 3, rel=1e-4)


def test_hooks_on_shared_leaves_run_once_for_each_walk():
    x, seen = torch.ones(3, requires_grad=True), []
    x.register_hook(lambda g: seen.append("hook") or g * 2)
    x.register_post_accumulate_grad_hook(lambda p: seen.append("post"))

    def work(number):
        for _ in range(10):
            handle = x.register_hook(lambda g: g)
            (x * 3.0).sum().backward()
            handle.remove()

    in_threads(work)
    assert len(seen) == 120 and x.grad.tolist() == [360.0] * 3


def test_every_hook_has_a_number_of_its_own():
    layer = torch.nn.Linear(1, 1)
    in_threads(lambda number: [layer.register_forward_hook(lambda *given: None) for _ in range(200)])
    assert len(layer._forward_hooks) == 1200


def scaled(name, factor):
    """Return an op that multiplies by a number."""
    namespace = {}
    exec(f"def {name}(xp, input):\n    return input * {factor}\n", namespace)
    return unary(vjp=None)(namespace[name])


def test_names_are_registered_and_taken_back_by_threads():
    def work(number):
        name = f"scaled_by_{number}"
        for _ in range(8):
            op = scaled(name, float(number))
            register(op)
            assert getattr(torch, name)(torch.ones(1)).item() == getattr(torch.ones(1), name)().item() == number
            unregister(op)
            assert not hasattr(torch, name) and not hasattr(torch.ones(1), name)
            assert not hasattr(torch, "no_such_name") and name not in dir(torch)

    in_threads(work)


def test_one_name_that_threads_register_is_what_was_registered_last():
    def work(number):
        for turn in range(8):
            register(scaled("scaled_by_some", float(turn)))
            for found in getattr(torch, "scaled_by_some", abs), getattr(torch.Tensor, "scaled_by_some", abs):
                assert found(torch.ones(1)).item() in range(8)  # it is gone for a moment while it is replaced

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nobody takes a name that another thread has found for one of plugrad's own
        in_threads(work)
        last = scaled("scaled_by_some", 100.0)
        register(last)
    assert torch.scaled_by_some(torch.ones(1)).item() == torch.ones(1).scaled_by_some().item() == 100
    unregister(last)
    assert not hasattr(torch, "scaled_by_some") and not hasattr(torch.ones(1), "scaled_by_some")


def test_numbers_of_one_generator_are_dealt_out():
    shared, drawn = torch.Generator().manual_seed(0), []
    in_threads(lambda number: drawn.extend([torch.rand(1, generator=shared).item() for _ in range(50)]))
    again = torch.Generator().manual_seed(0)
    assert sorted(drawn) == sorted(torch.rand(1, generator=again).item() for _ in range(300))


def test_a_state_that_is_read_while_others_draw_is_one():
    generator, ended = torch.Generator().manual_seed(0), threading.Event()

    def draw():
        while not ended.is_set():
            torch.rand(70000, generator=generator), torch.randn(3, generator=generator)

    def read():
        try:
            for _ in range(300):
                torch.Generator().set_state(generator.get_state())  # raises RuntimeError for half of one
        finally:
            ended.set()

    at_once(draw, draw, read)


def test_functions_that_share_memory_with_numpy():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.from_numpy(numpy.array(x.detach().numpy()) * 2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for _ in range(5):
        x = torch.ones(3, requires_grad=True)
        in_threads(lambda number, x=x: [Doubled.apply(x).sum().backward() for _ in range(10)])
        assert x.grad.tolist() == [120.0] * 3


def test_writes_of_other_threads_hide_none():
    """The clock of writes only goes on: a node that saved what was written afterwards notices, whoever writes, too."""

    def work(number):
        for _ in range(40):
            other = torch.ones(2)
            for _ in range(5):
                other.add_(1)
            w, x = torch.full((2,), 2.0), torch.ones(2, requires_grad=True)
            loss = (w * x).sum()
            w.add_(1)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                loss.backward()

    in_threads(work)


def test_each_array_that_threads_take_of_a_tensor_at_once_is_known():
    """Else writes by one that is not known go unnoticed once the others are gone."""
    for _ in range(200):
        x = torch.ones(2)
        arrays = at_once(*[x.numpy] * 6)
        assert len(x._view.handles) == len(arrays)


def test_writes_to_one_tensor_are_counted():
    x = torch.zeros(1)
    in_threads(lambda number: [x.add_(1) for _ in range(100)])
    assert x._version == 600


def test_compiling_is_of_its_thread():
    inside, outside = threading.Event(), threading.Event()

    def slow(graph, example_inputs):
        inside.set()
        assert outside.wait(60) and torch.compiler.is_compiling()
        return graph

    def other():
        assert inside.wait(60)
        assert not torch.compiler.is_compiling()
        outside.set()

    compiled = torch.compile(lambda x: x * 2, backend=slow)
    at_once(lambda: compiled(torch.ones(2)), other)
    assert not torch.compiler.is_compiling()


@pytest.mark.parametrize("training", [False, True])
def test_a_module_is_captured_by_one_thread_while_others_call_programs_of_it(training):
    """Its tensors have the capture's arrays then, which calls that had begun before must not meet."""
    for _ in range(3):
        module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
        module.train(training)
        x = torch.randn(16, 4)
        want = module(x)

        def work(number, module=module, x=x, want=want):
            for _ in range(3):
                assert torch.allclose(torch.compile(module)(x), want, atol=1e-5)

        in_threads(work)


def test_checkpoints_are_written_and_read_by_threads():
    def work(number):
        for _ in range(5):
            file = io.BytesIO()
            torch.save({"a": torch.full((3,), float(number))}, file)
            file.seek(0)
            assert torch.load(file)["a"].tolist() == [float(number)] * 3

    in_threads(work)


def test_hooks_that_threads_install_are_all_installed_and_removed():
    def work(number):
        for _ in range(100):
            hook = torch.extend.OpHook().install()
            assert hook.active
            hook.remove()
            assert not hook.active

    in_threads(work)


def test_modules_are_themselves_again_when_several_threads_have_traced_them():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    names = "__call__", "__getattr__"
    before = [getattr(torch.nn.Module, name) for name in names]

    def work(number):
        for _ in range(5):
            traced = torch.fx.symbolic_trace(model)
            assert [node.op for node in traced.graph.nodes].count("call_module") == 2
            torch.nn.Linear(2, 2)(torch.ones(1, 2))

    in_threads(work)
    assert [getattr(torch.nn.Module, name) for name in names] == before and not torch.fx.is_fx_tracing()


ROOMS = (
    "nn nn.functional nn.utils optim optim.lr_scheduler func utils.data utils.checkpoint autograd serialization "
    "overrides extend compiler random"
)
IMPORTS = f"""
import importlib, sys, threading
import plugrad
sys.setswitchinterval(1e-6)
errors, names = [], {ROOMS.split()!r}
barrier = threading.Barrier(len(names))

def work(name):
    barrier.wait()
    try:
        importlib.import_module("plugrad." + name)
    except BaseException as error:
        errors.append((name, error))

threads = [threading.Thread(target=work, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(repr(errors) if errors else 0)
"""


def test_rooms_are_first_imported_by_threads():
    """Once plugrad itself is there. CPython does not wait for a package that is being imported by another thread."""
    import subprocess

    result = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


# ---------------------------------------------------------------------------------------------------- processes


def forked(work):
    """Call `work()` in a forked child, which must end well."""
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0


def load_in_a_child_what_a_thread_is_loading():
    module, parent = types.ModuleType("slow_to_load"), os.getpid()
    loading, go_on = threading.Event(), threading.Event()

    @hookimpl
    def plugrad_ops():
        if os.getpid() == parent:
            loading.set()
            go_on.wait(60)
        return [scaled("scaled_slowly", 2.0)]

    module.plugrad_ops = plugrad_ops
    sys.modules["slow_to_load"] = module
    plugin = registry.Plugin("slow", "1", "main", "slow_to_load", False)
    plugin.kinds.add("plugin")
    registry.plugins[plugin.id] = plugin

    def use():
        registry.load(plugin)
        assert plugin.status == "loaded" and torch.ops.slow.scaled_slowly(torch.ones(1)).item() == 2

    thread = threading.Thread(target=registry.load, args=(plugin,))
    thread.start()
    assert loading.wait(60) and plugin.status == "loading"
    forked(use)
    go_on.set()
    thread.join()
    use()


def test_a_plugin_that_another_thread_was_loading_is_loaded_by_a_child():
    forked(load_in_a_child_what_a_thread_is_loading)


def test_a_thread_that_forks_keeps_its_own_locks():
    from plugrad.registry import lock

    def fork():
        with lock:
            child = os.fork()
        if child:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        else:
            os._exit(not lock.acquire(timeout=10))

    forked(fork)
