"""Anomaly mode: nested in itself, in a backward within a backward, and switched on for backward only."""

import warnings

import pytest

import plugrad
from support.two_libraries import agree

torch = pytest.importorskip("torch")


def messages(run):
    """Return what an error says that a function raises, and how its warnings begin."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        error = None
        try:
            run()
        except RuntimeError as raised:
            error = str(raised)
    said = [str(one.message) for one in heard]
    return error, [text.strip().partition(". ")[0] for text in said if not text.startswith("Anomaly Detection")]


def nested_modes(torch):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    results = []
    with torch.autograd.detect_anomaly():
        with torch.autograd.detect_anomaly(check_nan=False):
            results.append(messages(lambda: (x.sqrt() * 0).sum().backward()))
        results.append(messages(lambda: (x.sqrt() * 0).sum().backward()))
        with torch.autograd.set_detect_anomaly(False):
            results.append(messages(lambda: (x.sqrt() * 0).sum().backward()))
    return results, torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def backward_in_backward(torch):
    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise RuntimeError("inner")

    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            with torch.enable_grad():
                Fails.apply(ctx.saved_tensors[0].detach().requires_grad_()).sum().backward()

    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        return messages(lambda: Outer.apply(x).sum().backward())


def only_in_backward(torch):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y = (x.sqrt() * 0).sum()
    with torch.autograd.set_detect_anomaly(True):
        return messages(y.backward), messages(lambda: torch.autograd.grad((x * 2).sum(), x))


def notes_on_nodes(torch):
    x = torch.tensor([1.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        nodes = (x * 2).grad_fn, g.grad_fn
    kept = [type(node.metadata.get("parent_")).__name__ for node in nodes]
    return kept, [sorted(node.metadata) for node in nodes], [isinstance(n.metadata["traceback_"], list) for n in nodes]


@pytest.mark.filterwarnings("always:Anomaly Detection")
def test_switching_it_on_warns_each_time():
    said = []
    for T in (torch, plugrad):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            with T.autograd.detect_anomaly(), T.autograd.detect_anomaly(check_nan=False):
                pass
            T.autograd.set_detect_anomaly(False)
        said.append([(one.category, str(one.message), one.filename) for one in heard])
    assert said[1] == said[0] and len(said[0]) == 2


def test_the_stack_ends_with_the_program():
    """What a call runs inside of plugrad is no part of it, on the way for plain calls and on the other."""
    with plugrad.autograd.detect_anomaly():
        for dtype in (plugrad.float32, plugrad.float16):
            x = plugrad.ones(2, dtype=dtype, requires_grad=True)
            for y in (x.exp(), plugrad.nn.functional.gelu(x), x[0], x @ x):
                assert __file__ in y.grad_fn.metadata["traceback_"][-1]


@pytest.mark.parametrize("program", [nested_modes, backward_in_backward, only_in_backward, notes_on_nodes])
def test_as_pytorch(program):
    agree(program)


def test_the_stack_is_that_of_the_call():
    x = plugrad.tensor([-1.0], requires_grad=True)
    with plugrad.autograd.detect_anomaly():
        y = x.sqrt()  # the line that the error must show
        with pytest.warns(UserWarning, match="the line that the error must show"):
            with pytest.raises(RuntimeError, match="returned nan values"):
                y.backward()


def test_the_error_goes_on_where_warnings_are_errors(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.autograd.set_detect_anomaly(True):
            x = torch.ones(2, requires_grad=True)
            y = x * 1
            z = y**2
            y += 1
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.sum().backward()
    assert "Error detected in PowBackward0" in capsys.readouterr().err
