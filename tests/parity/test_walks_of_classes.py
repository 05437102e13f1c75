"""`autograd.grad` and `backward` beside PyTorch's: modes and classes are asked, inputs may be in a dict."""

import collections

import pytest

import plugrad as torch
from plugrad.graph.modes import watched

oracle = pytest.importorskip("torch")


def _kind(result):
    """Return what can be compared of a result: classes, flags, keys."""
    if isinstance(result, dict):
        return {name: _kind(one) for name, one in result.items()}
    if isinstance(result, (tuple, list)):
        return [_kind(one) for one in result]
    return (type(result).__name__, result.requires_grad, result.tolist()) if hasattr(result, "tolist") else result


def _names(T, told):
    """Return tensors of classes that are told of calls, of one that is not, and of none; and a mode that is told."""

    class Noted(T.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            told.append((func.__name__, [type(one).__name__ for one in args], sorted(kwargs or {})))
            return super().__torch_function__(func, types, args, kwargs or {})

    class Marked(T.Tensor):
        pass

    class Stranger:
        @staticmethod
        def __torch_function__(func, types, args=(), kwargs=None):
            return "taken over", func.__name__

    class Mode(T.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func in (T.Tensor.backward, T.autograd.backward, T.autograd.grad):
                told.append((func.__name__, [type(one).__name__ for one in args], sorted(kwargs or {})))
            return func(*args, **(kwargs or {}))

    x = T.ones(2, requires_grad=True)
    noted, marked = x.as_subclass(Noted), (x * 1).as_subclass(Marked)
    names = {"T": T, "Mode": Mode, "x": x, "y": (x * 3).sum(), "noted": noted, "marked": marked, "stranger": Stranger()}
    names |= {"of_noted": (noted * 3).sum(), "of_marked": (marked * marked).sum(), "Ordered": collections.OrderedDict}
    return names | {"edge": T.autograd.graph.get_gradient_edge(x), "weights": T.ones(3), "one": T.ones(())}


def _outcome(T, written, moded=False):
    told: list = []
    names = _names(T, told)
    told.clear()
    try:
        with names["Mode"]() if moded else T.enable_grad():
            result = eval(f"T.autograd.{written}" if written[:4] in ("grad", "back") else written, names)
    except Exception as error:
        result = type(error).__name__
    calls = [*told]
    return _kind(result), calls, _kind(names["x"].grad)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("written", """
    grad(y, x)|grad(of_noted, x)|grad(of_noted, noted)|grad(y, [x, noted], allow_unused=True)|grad(of_marked, marked)
    grad((of_marked, y), (marked, x))|grad(of_noted, edge)|grad(of_marked, [marked], create_graph=True)
    grad(of_marked, {'a': marked})|grad(y, {'a': x, 'b': edge})|grad(y, Ordered(a=x))|grad(y, {})|grad(y, 'a')
    grad(of_marked, marked, weights, is_grads_batched=True)|grad(y, {'a': x}, weights, is_grads_batched=True)
    grad(y, marked, materialize_grads=True)|grad(y, {'a': marked}, allow_unused=True)|grad(y, (v for v in [x]))
    grad(y.exp(), edge, materialize_grads=True)|grad(y, 3)|grad(one.requires_grad_(), edge, materialize_grads=True)
    grad(stranger, x)|grad(y, stranger)|grad([stranger], x)|grad(y, [x, stranger])|grad(y, {'a': stranger})
    backward(of_noted)|of_noted.backward()|T.Tensor.backward(of_noted)|backward(y, inputs=[noted])|backward(of_marked)
    of_marked.backward()|y.backward(inputs={'a': x})|backward(y, inputs={'a': x})|backward(y, inputs=Ordered(a=x))
    backward(y, inputs={})|backward(stranger)|backward([y, stranger])|backward(y, inputs=[stranger])|backward(y, [None])
    backward(y, one, grad_variables=one)|backward(y, grad_variables=one * 2)|backward(y, inputs=edge)
""".replace("\n", "|").split("|")[1:-1])  # fmt: skip
def test_walks_ask_classes_as_in_pytorch(written):
    """No class was met before; then the results are of the class, as those of ops are."""
    watched.discard("overriding classes")
    assert _outcome(torch, written.strip()) == _outcome(oracle, written.strip())


@pytest.mark.parametrize("written", ["y.backward()", "grad(y, x)", "backward(y)", "of_noted.backward()",
                                     "grad(of_noted, x)", "T.func.grad(lambda v: (v * 2).sum())(x)"])  # fmt: skip
def test_function_modes_are_told_of_walks(written):
    assert _outcome(torch, written, moded=True) == _outcome(oracle, written, moded=True)


def test_an_option_that_does_nothing_any_more_warns():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated") as warned:
        assert torch.autograd.grad(x.sum(), x, only_inputs=False)[0].tolist() == [1.0, 1.0]
    assert warned[0].filename == __file__
    with pytest.warns(FutureWarning, match="grad_variables"):
        torch.autograd.backward(x.sum(), grad_variables=torch.ones(()))


def test_plain_walks_ask_nobody(monkeypatch):
    """As long as there is no class to ask, nothing of that is called, nor imported."""
    monkeypatch.setattr("plugrad.autograd.rare.arguments_of_walks._asked", None)
    for one in list(watched):
        watched.discard(one)
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward(inputs=[x])
    assert torch.autograd.grad((x * 2).sum(), [x])[0].tolist() == x.grad.tolist() == [2.0, 2.0]
