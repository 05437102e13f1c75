"""Script modules as Modules: they train, are copied, compiled, traced with others, and what of Python's they refuse."""

from __future__ import annotations

import collections
import copy
import io
import math
import pickle
import warnings

import pytest

import plugrad
from plugrad import nn


class Gate(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)
        self.register_buffer("calls", plugrad.zeros(1))

    def forward(self, x):
        self.calls += 1
        y = self.norm(self.layer(x))
        if self.training:
            y = y * 1.0
        for i in range(2):
            y = y + i * x
        return plugrad.tanh(y)


def train(model, steps=4):
    optimizer = plugrad.optim.Adam(model.parameters(), lr=0.05)
    x = plugrad.arange(12.0).view(4, 3) / 12
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_script_module_trains_as_the_module_does():
    model = Gate(3)
    script = plugrad.jit.script(copy.deepcopy(model))
    compiled = plugrad.compile(plugrad.jit.script(copy.deepcopy(model)), backend="numpy")
    traced = plugrad.jit.trace(copy.deepcopy(model), plugrad.arange(12.0).view(4, 3))
    expected = train(model)
    assert train(script) == expected and train(traced) == expected
    assert all(math.isclose(one, other, rel_tol=1e-5) for one, other in zip(train(compiled), expected))
    assert [*script.state_dict()] == [*model.state_dict()] and script.calls.item() == 4
    other = plugrad.jit.script(Gate(3))
    other.load_state_dict(model.state_dict())
    x = plugrad.ones(4, 3)
    assert other.eval()(x).equal(model.eval()(x)) and not other.norm.training and model.training is False


def test_a_step_with_a_script_module_is_compiled():
    model = nn.Sequential(nn.Linear(3, 5), nn.GELU(), nn.Linear(5, 1))
    script = plugrad.jit.script(copy.deepcopy(model))

    def step_of(network):
        optimizer = plugrad.optim.SGD(network.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = network(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    x = plugrad.ones(4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = plugrad.compile(step_of(script), backend="numpy")
        for one, other in [(compiled, step_of(model)) for _ in "ab"]:
            assert plugrad.allclose(one(x), other(x))


def test_tensors_are_shared_with_the_module_and_modules_are_not():
    model = Gate(3)
    script = plugrad.jit.script(model)
    assert script.layer.weight is model.layer.weight and script.norm.running_mean is model.norm.running_mean
    script.eval()
    assert model.training and model.norm.training and not script.norm.training
    assert plugrad.jit.script(script) is script
    script.double()
    assert script(plugrad.ones(4, 3, dtype=plugrad.float64)).dtype is plugrad.float64


def test_copies_are_their_own():
    script = plugrad.jit.script(Gate(3))
    other, shallow = copy.deepcopy(script), copy.copy(script)
    other.layer.weight.data.zero_()
    assert script.layer.weight.abs().sum() > 0 and shallow.layer is script.layer
    assert other.code == script.code and train(other) != train(script)
    with pytest.raises(RuntimeError, match=r"jit\.save"):
        pickle.dumps(script)


def test_modules_in_modules_and_what_they_are_called():
    script = plugrad.jit.script(nn.Sequential(Gate(3), nn.ReLU()))
    assert repr(script) == (
        "RecursiveScriptModule(\n  original_name=Sequential\n  (0): RecursiveScriptModule(\n    original_name=Gate\n"
        "    (layer): RecursiveScriptModule(original_name=Linear)\n"
        "    (norm): RecursiveScriptModule(original_name=BatchNorm1d)\n  )\n"
        "  (1): RecursiveScriptModule(original_name=ReLU)\n)"
    )
    assert isinstance(script[0], plugrad.jit.ScriptModule) and len(script) == 2
    assert "torch.tanh" in script[0].code and "aten::tanh" in str(script[0].graph)
    assert len(script[0].graph.findAllNodes("prim::Loop")) == 1 and "forward" in script.code

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = script

        def forward(self, x):
            return self.inner(x) + 1

    assert plugrad.jit.script(Outer())(plugrad.zeros(2, 3)).shape == (2, 3)


def test_hooks_at_script_modules_run_and_those_before_are_refused():
    script, seen = plugrad.jit.script(Gate(3)), []
    script.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    script.layer.register_forward_pre_hook(lambda module, args: seen.append("layer"))
    script(plugrad.ones(2, 3))
    assert seen == ["layer", (2, 3)]
    model = Gate(3)
    model.layer.register_forward_hook(lambda *args: None)
    with pytest.raises(NotImplementedError, match="hooks"):
        plugrad.jit.script(model)


def test_script_functions_in_traces_keep_their_branches():
    @plugrad.jit.script
    def bend(x, slope: float = 0.5):
        if bool(x.sum() > 0):
            return x
        return x * slope

    class Bent(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = plugrad.jit.script(Gate(3))
            self.lstm = nn.LSTM(3, 2)

        def forward(self, x):
            return bend(self.lstm(self.gate(x)[:, None])[0].sum() + x)

    model = Bent().eval()
    x = plugrad.ones(4, 3)
    traced = plugrad.jit.trace(model, x)
    for one in (x, -9 * x, plugrad.ones(7, 3)):
        assert traced(one).equal(model(one))
    assert type(x) is plugrad.Tensor and "forward" not in model.lstm.__dict__


def test_tracing_leaves_no_trace():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before, state = {name: value.clone() for name, value in model.state_dict().items()}, plugrad.get_rng_state()
    x = plugrad.ones(4, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = plugrad.jit.trace_module(model, {"forward": (x,)})
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())
    assert traced(x).equal(model(x)) and not plugrad.jit.is_tracing()
    with pytest.warns(plugrad.jit.TracerWarning, match="nondeterministic"):
        plugrad.jit.trace(nn.Dropout(), (plugrad.ones(100),))
    assert plugrad.get_rng_state().equal(state)
    with pytest.raises(RuntimeError):
        plugrad.jit.trace(model, plugrad.ones(4, 5))
    kept = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plugrad.jit.trace(lambda x: kept.append(x) or x + 1, x)
    assert type(kept[0]) is plugrad.Tensor and kept[0].shape == (4, 2)


def test_a_trace_notes_conversions_of_tensors_and_keeps_data_as_constants():
    def convert(x):
        kept = plugrad.tensor([1.0, 2.0]) + plugrad.as_tensor(x.numpy()) + plugrad.asarray([3])
        return plugrad.as_tensor(x, dtype=plugrad.float64) + plugrad.asarray(x) + kept

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = plugrad.jit.trace(convert, plugrad.ones(2), check_trace=False)
    assert traced(plugrad.tensor([5.0, 6.0])).tolist() == [15, 18]


def test_methods_that_are_traced_and_arguments_by_name():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(plugrad.full((1,), 3.0))

        def forward(self, x, *, y):
            return x * self.w + y

        def halved(self, x):
            return x / 2 * self.w

    x = plugrad.ones(2)
    traced = plugrad.jit.trace(Two(), (x,), example_kwarg_inputs={"y": x})
    assert traced(x, y=2 * x).tolist() == [5.0, 5.0]
    both = plugrad.jit.trace_module(Two(), {"halved": x})
    both.halved(x).sum().backward()
    assert both.w.grad.item() == 1 and both.halved(plugrad.ones(3)).shape == (3,)


def test_constants_that_require_grad_and_values_are_not_traced():
    weight = plugrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad as a constant"):
        plugrad.jit.trace(lambda x: x * weight, plugrad.ones(2))
    with pytest.raises(RuntimeError, match="cannot be traced"):
        plugrad.jit.trace(lambda x, n: x * n, (plugrad.ones(2), 3))
    with pytest.warns(plugrad.jit.TracerWarning, match="Python boolean"):
        plugrad.jit.trace(lambda x: x if x.sum() > 0 else -x, plugrad.ones(2))


class Doubled(plugrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


@pytest.mark.parametrize("program", [
    lambda x: x * plugrad.tensor(x.detach().sum().sqrt().tolist()),
    lambda x: x + plugrad.autograd.grad((x * x).sum(), x)[0].detach(),
])  # fmt: skip
def test_what_a_trace_cannot_note_is_warned_of(program):
    with pytest.warns(plugrad.jit.TracerWarning):
        plugrad.jit.trace(program, plugrad.ones(2, requires_grad=True))


def test_gradients_of_functions_are_not_lost_in_traces():
    with pytest.raises(NotImplementedError, match="gradient"):
        plugrad.jit.trace(Doubled.apply, plugrad.ones(2))

    @plugrad.jit.ignore
    def doubled(x) -> plugrad.Tensor:
        return Doubled.apply(x)

    @plugrad.jit.script
    def f(x):
        return doubled(x) + x

    x = plugrad.ones(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [6, 6]


class Counting(plugrad.nn.Module):
    """Has a method of Python's that its program does not call, and a number that grows."""

    def __init__(self):
        super().__init__()
        self.total, self.texts = 1 << 62, {"a": [1 << 62]}

    @plugrad.jit.ignore
    def described(self) -> str:
        return f"at {self.total}"

    def forward(self, x):
        self.total += self.total
        self.texts["a"][len(self.texts) - 1] *= 4
        return x, self.total, self.texts["a"]


def test_numbers_and_methods_of_python_in_files():
    script = plugrad.jit.script(Counting())
    assert script.described() == f"at {1 << 62}"
    kept = io.BytesIO()
    script.save(kept)
    kept.seek(0)
    again = plugrad.jit.load(kept)
    for program in script, again:
        x, *numbers = program(plugrad.ones(2))
        assert numbers == [-1 << 63, [0]]
    assert not hasattr(again, "described") and "self.total += self.total" in again.code


def test_modules_that_have_no_end_as_programs():
    model = Gate(3)
    model.again = model
    with pytest.raises(RuntimeError, match="contains itself"):
        plugrad.jit.script(model)


def test_freezing():
    model = Gate(3)
    script = plugrad.jit.script(model)
    with pytest.raises(RuntimeError, match="eval mode"):
        plugrad.jit.freeze(script)
    with pytest.raises(RuntimeError, match="ScriptModule"):
        plugrad.jit.freeze(model)
    frozen = plugrad.jit.freeze(script.eval())
    x = plugrad.ones(2, 3)
    assert frozen(x).equal(script(x)) and list(frozen.parameters()) == [] and list(frozen.state_dict()) == ["calls"]
    assert "training" not in frozen.code and "if" not in frozen.code and "if" in script.code
    with plugrad.no_grad():
        script.layer.weight.zero_()
    assert plugrad.jit.optimize_for_inference(plugrad.jit.script(Gate(3))).training is False
    assert list(script.parameters()) and list(model.parameters())


def test_marks_and_questions():
    @plugrad.jit.ignore
    def outside(x) -> plugrad.Tensor:
        return x + len(__name__)

    @plugrad.jit.unused
    def never(x) -> plugrad.Tensor:
        return undefined(x)  # noqa: F821

    @plugrad.jit.script_if_tracing
    def branches(x):
        return x if bool(x.sum() > 0) else -x

    @plugrad.jit.script
    def asks(x, flag: bool):
        if not plugrad.jit.is_scripting():
            return unknown(x)  # noqa: F821
        future = plugrad.jit.fork(outside, x)
        if flag:
            x = never(x)
        names = plugrad.jit.annotate(list[str], [])
        names.append("a")
        return plugrad.jit.wait(future), names

    result, names = asks(plugrad.zeros(1), False)
    assert result.item() == len(__name__) and names == ["a"]
    with pytest.raises(plugrad.jit.Error, match="unused"):
        asks(plugrad.zeros(1), True)
    traced = plugrad.jit.trace(lambda x: branches(x) * 2, plugrad.ones(2))
    assert traced(-plugrad.ones(2)).tolist() == [2, 2] and branches(-plugrad.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize(("value", "message"), [
    (3, "takes a function or Module"), (len, "no function of Python's"), (nn.Linear, "passing an instance"),
    (nn.Linear(1, 1).forward, "bound method"),
])  # fmt: skip
def test_what_is_not_staged(value, message):
    with pytest.raises((TypeError, RuntimeError), match=message):
        plugrad.jit.script(value)


def test_classes_that_derive_from_script_module():
    class Own(plugrad.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        @plugrad.jit.script_method
        def twice(self, x):
            # type: (plugrad.Tensor) -> plugrad.Tensor
            return self.layer(x) * 2

        def plain(self):
            return {"kept": 1}

    own, x = Own(), plugrad.ones(1, 2)
    assert isinstance(own, Own) and own.plain() == {"kept": 1} and not list(plugrad.jit.ScriptModule().parameters())
    assert own.twice.schema == "twice(Tensor x) -> Tensor" and "layer" in own.twice.code
    file = io.BytesIO()
    plugrad.jit.save(own, file)
    file.seek(0)
    for one in (plugrad.jit.load(file), copy.deepcopy(own)):
        assert plugrad.equal(one.twice(x), own.layer(x) * 2)
    with pytest.raises(NotImplementedError, match="__init__"):
        own.define("def f(self): return 1")


def test_functions_of_a_text():
    def offset() -> int:
        return 3

    unit = plugrad.jit.CompilationUnit("""
        def listed(n):
            # type: (int) -> List[int]
            return [doubled(i) for i in range(n)]
        def doubled(i: int) -> int:
            return 2 * i + offset()
    """)
    assert unit.listed(3) == [3, 5, 7] and unit.doubled.schema == "doubled(int i) -> int" and offset() == 3
    assert [one.name for one in unit.get_functions()] == ["listed", "doubled"]
    for text in ("x = 3", "def f(x:", "def listed(n: int): return n"):
        with pytest.raises(RuntimeError):
            unit.define(text)
    with pytest.raises(AttributeError):
        unit.missing  # noqa: B018


def test_traces_of_named_tuples_and_of_programs_that_make_arrays():
    pair = collections.namedtuple("pair", "x y")
    traced = plugrad.jit.trace(lambda p: p[0] * p[1], (pair(plugrad.ones(2), plugrad.ones(2)),))
    assert traced(pair(plugrad.ones(2), plugrad.full((2,), 3.0))).tolist() == [3, 3]
    with pytest.warns(plugrad.jit.TracerWarning, match="NumPy"):
        plugrad.jit.trace(lambda x: x * len(x.numpy(force=True)), plugrad.ones(2))


def test_functions_without_a_source_are_refused():
    space: dict = {}
    exec("def f(x): return x", space)
    with pytest.raises(OSError, match="source"):
        plugrad.jit.script(space["f"])


def test_arguments_from_outside_are_checked():
    @plugrad.jit.script
    def f(x, n: int, names: list[str], scale: float = 1.0):
        names.append("b")
        return x * n * scale, names

    mine = ["a"]
    assert f(plugrad.ones(1), 2, mine)[1] == ["a", "b"] and mine == ["a"]  # lists are given by value, as in TorchScript
    for args in ((1, 2, []), (plugrad.ones(1), 2.5, []), (plugrad.ones(1), 2, [1]), (plugrad.ones(1),), (1,) * 5):
        with pytest.raises(RuntimeError, match=r"f\(\)"):
            f(*args)
    with pytest.raises(RuntimeError, match="Unknown keyword"):
        f(plugrad.ones(1), 2, [], other=1)
    assert str(f.schema) == "f(Tensor x, int n, str[] names, float scale=1.0) -> ((Tensor, str[]))"


def test_staged_functions_in_staged_functions():
    @plugrad.jit.script
    def inner(x, n: int = 2):
        return helper(x) * n

    traced = plugrad.jit.trace(lambda x: helper(x) + inner(x), plugrad.ones(2))

    @plugrad.jit.script
    def outer(x):
        return inner(x) + inner(x, n=3) + traced(x) + helper(x)

    x = plugrad.ones(3)
    again = plugrad.jit.load(saved(outer))
    assert outer(x).tolist() == again(x).tolist() == [4 + 6 + 6 + 2] * 3 and again.code == outer.code


def helper(x):
    return x + 1


def saved(made):
    file = io.BytesIO()
    plugrad.jit.save(made, file)
    file.seek(0)
    return file


def sums_over(x: plugrad.Tensor, dims: list[int] = (-2, -1), factors: list[float] = (1.0, 2.0)):
    return x.sum(dims) * factors[1]


def sums_over_the_usual(x: plugrad.Tensor):
    return sums_over(x) + sums_over(x, factors=[0.0, 1.0])


def grown(x: plugrad.Tensor, dims: list[int] = (0,)):
    dims.append(1)
    return x.sum(dims)


def test_defaults_of_lists_may_be_tuples():
    x = plugrad.arange(6.0).view(2, 3)
    staged = plugrad.jit.script(sums_over)
    assert staged(x).item() == 30.0 and staged(x, [0]).tolist() == [6.0, 10.0, 14.0]
    assert staged(x, (1,), [0.0, 0.0]).sum() == 0
    assert plugrad.jit.script(sums_over_the_usual)(x).item() == 45.0
    longer = plugrad.jit.script(grown)
    assert longer(x).item() == longer(x).item() == 15.0  # each call has a list of its own
    kept = io.BytesIO()
    plugrad.jit.save(staged, kept)
    kept.seek(0)
    assert plugrad.jit.load(kept)(x).item() == 30.0


def test_few_singular_values_are_found_by_staged_programs():
    A = plugrad.outer(plugrad.arange(1.0, 9.0), plugrad.ones(6))
    U, S, V = plugrad.jit.script(plugrad.svd_lowrank)(A, 2)
    assert plugrad.allclose(U @ plugrad.diag(S) @ V.T, A, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*jit.script.*deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", ["torch", "plugrad"])
def test_a_module_of_exported_methods_alone_has_no_forward(name):
    library = pytest.importorskip(name)

    class Methods(library.nn.Module):
        @library.jit.export
        def twice(self, x):
            return x * 2

    made = library.jit.script(Methods())
    assert made.twice(library.ones(1)).tolist() == [2]
    with pytest.raises(RuntimeError, match="Method 'forward' is not defined"):
        made.graph  # noqa: B018
    with pytest.raises(AttributeError, match="code"):
        made.code  # noqa: B018


def test_a_layer_has_no_graph():
    with pytest.raises(NotImplementedError, match="Linear has no graph"):
        plugrad.jit.script(plugrad.nn.Linear(2, 2)).graph  # noqa: B018
