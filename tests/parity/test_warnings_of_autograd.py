"""What autograd warns of, and a Function's own `vmap`: the same under PyTorch and plugrad."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

PROGRAMS = {
    "the old default type": """
        T.set_warn_always(True)
        T.set_default_tensor_type(T.FloatTensor)
        T.set_warn_always(False)
    """,
    "the gradient of what is no leaf": """
        y = T.ones(2, requires_grad=True) * 2
        assert y.grad is None
        y.retain_grad()
        assert y.grad is None
        assert (T.ones(2) * 2).grad is None and T.ones(2, requires_grad=True).grad is None
    """,
    "an old hook on a module of several nodes": """
        class Net(T.nn.Module):
            def forward(self, x):
                return x.relu().sin()
        net = Net()
        net.register_backward_hook(lambda *_: None)
        net(T.ones(1, 2, requires_grad=True) * 1).sum().backward()
    """,
    "an old hook on a module of one node": """
        class Net(T.nn.Module):
            def forward(self, x):
                return x.sin()
        net = Net()
        net.register_backward_hook(lambda *_: None)
        net(T.ones(1, 2, requires_grad=True) * 1).sum().backward()
    """,
    "an old hook on a module of several results": """
        class Net(T.nn.Module):
            def forward(self, x):
                return x * 2, x * 3
        net = Net()
        net.register_backward_hook(lambda *_: None)
        sum(net(T.ones(1, 2, requires_grad=True) * 1)).sum().backward()
    """,
    "an old hook on a module of other results": """
        class Net(T.nn.Module):
            def forward(self, x):
                return [x * 2]
        net = Net()
        net.register_backward_hook(lambda *_: None)
        net(T.ones(1, 2, requires_grad=True) * 1)[0].sum().backward()
    """,
    "an old hook on a module of other arguments": """
        class Net(T.nn.Module):
            def forward(self, x, n):
                return x * n
        net = Net()
        net.register_backward_hook(lambda *_: None)
        net(T.ones(1, 2, requires_grad=True) * 1, 2).sum().backward()
    """,
    "checkpoints for which no way is chosen": """
        from importlib import import_module
        x = T.ones(1, 2, requires_grad=True)
        import_module(f"{T.__name__}.utils.checkpoint")
        T.utils.checkpoint.checkpoint(lambda x: x * 2, x)
        T.utils.checkpoint.checkpoint_sequential([T.sin, T.cos], 2, x)
        T.utils.checkpoint.checkpoint_sequential([T.sin, T.cos], 1, x)
    """,
    "the start of anomaly mode": """
        with T.autograd.detect_anomaly(check_nan=False), T.autograd.set_detect_anomaly(True):
            pass
    """,
    "an old name of saved tensors": """
        class Twice(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2
            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_variables
                return g * 2
        Twice.apply(T.ones(2, requires_grad=True)).sum().backward()
    """,
    "anomaly modes within each other": """
        seen = []
        def note():
            seen.append((T.is_anomaly_enabled(), T.is_anomaly_check_nan_enabled()))
        with T.autograd.set_detect_anomaly(True, check_nan=False):
            note()
            with T.autograd.set_detect_anomaly(True):
                note()
                with T.autograd.set_detect_anomaly(False):
                    note()
                note()
            note()
        note()
        assert seen == [(True, False), (True, True), (False, True), (True, True), (True, False), (False, True)]
    """,
}


WORDS = "non-full", "Anomaly Detection", "checkpoint: the use_reentrant", "checkpoint_sequential: the use_reentrant"


def warned(T, program) -> list:
    """Return the categories of the warnings of a program, and what they are about."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(textwrap.dedent(program), {"T": T})
    return [(warning.category, *[word in str(warning.message) for word in WORDS]) for warning in seen]


@pytest.mark.parametrize("name", PROGRAMS)
def test_warnings(name):
    assert warned(plugrad, PROGRAMS[name]) == warned(torch, PROGRAMS[name])


@pytest.mark.parametrize("library", ["torch", "plugrad"])
def test_a_backward_that_creates_a_graph_warns_once(library):
    program = f"""
        import warnings
        import {library} as T
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            for _ in range(2):
                x = T.ones(2, requires_grad=True)
                T.autograd.grad(x.sum(), x, create_graph=True)
                x.sum().backward(create_graph=True)
        print(sum("create a reference cycle" in str(warning.message) for warning in seen))
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True)
    assert run.stdout.strip() == "1", run.stderr


@pytest.mark.parametrize("dims", [(0, None, 0), (1, 0, -1), ((0, 0), 0, (1, 0)), (0, 0, 0)])
def test_the_own_vmap_of_a_function(dims):
    in_dims, placed, out_dims = dims
    several = isinstance(in_dims, tuple)

    def results(T):
        class Both(T.autograd.Function):
            @staticmethod
            def forward(x, y=None):
                return (x * 2, x + y) if several else x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def vmap(info, in_dims, x, y=None):
                assert (info.batch_size, info.randomness) == (3, "error")
                assert in_dims[: 1 + several] == (dims[0] if several else (dims[0],))
                if several:
                    return (x * 20, x - y), (placed, placed)
                return (x if placed is not None else x.sum(0)) * 20, placed

        x = T.arange(9.0).reshape(3, 3)
        mapped = T.func.vmap(Both.apply, in_dims, out_dims)
        return [y.tolist() for y in (mapped(x, x + 1) if several else [mapped(x)])]

    assert results(plugrad) == results(torch)
