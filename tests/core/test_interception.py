"""Hooks on ops, modes, overriding classes and traces: what they see, and that nothing of them stays behind."""

import pytest

import plugrad as torch
from plugrad.compiler import Graph
from plugrad.extend import OpHook
from plugrad.graph import modes
from support.threads import elsewhere


class Names(OpHook):
    def __init__(self, *ops):
        super().__init__(*ops)
        self.seen = []

    def before(self, call):
        self.seen.append(call.name)


class Spy(torch.overrides.TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def nothing_stays():
    before = modes.special, modes.elsewhere
    yield
    assert (modes.special, modes.elsewhere) == before
    assert not (modes.mode.function_modes or modes.mode.dispatch_modes or modes.mode.op_hooks)
    assert not modes.installed_hooks and modes.mode.depth == 0 and not modes.mode.in_hook


CALLS = {
    "unary": (lambda x: x.exp(), ["exp"]),
    "operator": (lambda x: x * 2, ["mul"]),
    "reflected": (lambda x: 2 - x, ["sub"]),
    "reduction": (lambda x: x.sum(0), ["sum"]),
    "view": (lambda x: x.t(), ["t"]),
    "index": (lambda x: x[0], ["getitem", "basic_index"]),
    "in place": (lambda x: x.clone().add_(1), ["clone", "add_"]),
    "augmented": (lambda x: x.clone().__iadd__(1), ["clone", "add_"]),
    "factory": (lambda x: torch.zeros(2), ["zeros"]),
    "random": (lambda x: torch.randn(2), ["randn"]),
    "list": (lambda x: torch.cat([x, x]), ["cat"]),
    "several results": (lambda x: torch.sort(x), ["sort"]),
    "composite": (lambda x: torch.nn.functional.tanhshrink(x), ["tanhshrink", "tanh", "sub"]),
    "linear": (lambda x: torch.nn.functional.linear(x, x), ["linear"]),
}


@pytest.mark.parametrize("what", CALLS)
def test_a_hook_sees_every_kind_of_call(what):
    program, expected = CALLS[what]
    x = torch.ones(3, 3)
    with Names() as names:
        program(x)
    seen = list(names.seen)
    assert seen[: len(expected)] == expected
    program(x)
    assert names.seen == seen


@pytest.mark.parametrize("what", CALLS)
def test_a_mode_sees_every_kind_of_call_once(what):
    program, expected = CALLS[what]
    with Spy() as spy:
        program(torch.Tensor([[1.0] * 3] * 3))
    wanted = {"reflected": "__rsub__", "index": "__getitem__"}.get(what, expected[0])
    assert wanted in spy.seen and not {"tanh", "basic_index"} & set(spy.seen)


def test_item_assignment_is_seen_by_modes_and_classes():
    x = torch.zeros(3)
    with Spy() as spy:
        x[1] = 5
    assert spy.seen[0] == "__setitem__" and x.tolist() == [0, 5, 0]


def test_a_hook_for_some_ops():
    x = torch.ones(3)
    with Names("exp", "nn.functional.tanhshrink") as names:
        torch.nn.functional.tanhshrink(x.exp() + x)
    assert names.seen == ["exp", "tanhshrink"]
    with pytest.raises(AttributeError, match="there is no op named 'expp'; did you mean 'exp"):
        Names("expp")


def test_what_a_hook_gets():
    calls = []

    class Keep(OpHook):
        def after(self, call):
            calls.append(call)

    x = torch.ones(2, 3)
    with Keep():
        y = torch.sum(x, 1, keepdim=True)
    (call,) = calls
    assert call.op is torch.sum.__op__ and call.result is y and call.depth == 0
    assert call.args[0] is x and (call.args[1:], call.kwargs) == ((1, True), {})


def test_hooks_of_hooks_do_not_run():
    class Busy(OpHook):
        def __init__(self):
            super().__init__()
            self.count = 0

        def before(self, call):
            self.count += 1
            repr(call.args), torch.ones(1).exp()

    with Busy() as busy:
        torch.ones(2).exp()
    assert busy.count == 2  # the factory, and exp


def test_a_hook_that_raises_leaves_everything_as_it_was():
    class Failing(OpHook):
        def after(self, call):
            raise ValueError("enough")

    x = torch.ones(2)
    with pytest.raises(ValueError, match="enough"), Failing():
        x.exp()
    assert x.exp().tolist() == pytest.approx([2.718281828] * 2)


def test_a_hook_in_backward():
    seen = []

    class Backward(OpHook):
        def before_backward(self, node, grad_outputs):
            seen.append(("before", node.name(), len(grad_outputs)))

        def after_backward(self, node, grad_inputs, grad_outputs):
            seen.append(("after", node.name(), [None if g is None else g.shape for g in grad_inputs]))

    x = torch.ones(2, requires_grad=True)
    with Backward():
        loss = (x * 3).sum()
        loss.backward(retain_graph=True)
    assert [entry[:2] for entry in seen] == [
        ("before", "SumBackward0"), ("after", "SumBackward0"), ("before", "MulBackward0"), ("after", "MulBackward0"),
    ]  # fmt: skip
    loss.backward()
    assert len(seen) == 4 and x.grad.tolist() == [6, 6]


def test_hooks_and_modes_are_of_their_thread_and_installed_hooks_of_all():
    x = torch.ones(2)
    with Names() as names, Spy() as spy:
        elsewhere(x.exp)
    assert names.seen == spy.seen == []
    names = Names().install()
    elsewhere(x.exp)
    names.remove()
    x.exp()
    assert names.seen == ["exp"]
    with pytest.raises(RuntimeError, match="Names is not installed"):
        names.remove()


# ---------------------------------------------------------------------------------------------------- our hooks


def test_the_timer_counts_forward_and_backward():
    x = torch.ones(50, 50, requires_grad=True)
    with torch.op_hooks.timer() as times:
        for _ in range(3):
            (x @ x).sum().backward()
    rows = {name: (calls, seconds) for name, calls, seconds in times.rows()}
    assert rows["matmul"][0] == 3 and rows["sum"][0] == 3 and rows["MmBackward0"][0] == 3
    assert all(seconds > 0 for _, seconds in rows.values())
    assert str(times).splitlines()[0].split() == ["op", "calls", "milliseconds"]


def test_the_timer_recovers_from_an_error():
    with torch.op_hooks.timer() as times:
        with pytest.raises(RuntimeError):
            torch.ones(2, 3) @ torch.ones(2, 3)
        torch.ones(2).exp()
    assert "exp" in {name for name, *_ in times.rows()}


def test_memory_counts_new_memory_only():
    x = torch.ones(10, 10)
    with torch.op_hooks.memory() as memory:
        x.exp().t().reshape(100)[3:5].add_(1)
    assert {name: total for name, _, total in memory.rows() if total} == {"exp": 400, "reshape": 400}


@pytest.mark.parametrize(
    "program, message",
    [
        (lambda x: torch.log(x - 2), "log produced nan at element (0,) of its result, from finite inputs"),
        (lambda x: (x - 1).sqrt().sum().mul(0).backward(), "SqrtBackward0 produced nan at element"),
        (lambda x: torch.nn.functional.normalize(0 * x, dim=0, eps=0), "true_divide produced nan at element (0,)"),
    ],
)
def test_the_nan_finder_names_the_op(program, message):
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    with pytest.raises(FloatingPointError) as caught, torch.op_hooks.nan_finder():
        program(x)
    assert message in str(caught.value)


def test_the_nan_finder_lets_given_nans_pass():
    with torch.op_hooks.nan_finder():
        assert (torch.tensor([float("nan")]) + 1).isnan().all()
    with pytest.raises(FloatingPointError), torch.op_hooks.nan_finder(inf=True):
        torch.ones(2) / 0


# ---------------------------------------------------------------------------------------------------- classes


def test_a_class_without_overrides_costs_other_tensors_nothing():
    class Kept(torch.Tensor):
        pass

    x = torch.ones(2)
    y = torch.ones(2).as_subclass(Kept)
    assert y._type is not x._type and y._type.plain is x._type
    assert (y + 1)._type is y._type and (x + 1)._type is x._type
    assert torch.add.__op__.fast[x._type] is not None and torch.add.__op__.fast[y._type] is None
    assert type(y.data) is Kept and y.data._type is y._type  # as PyTorch has it
    y.data = torch.zeros(2, dtype=torch.float64)
    assert y.dtype is torch.float64 and type(y + 1) is Kept


def test_a_subclass_in_a_module_and_an_optimizer():
    class Tagged(torch.Tensor):
        pass

    layer = torch.nn.Linear(3, 2)
    inputs = torch.ones(4, 3).as_subclass(Tagged)
    out = layer(inputs)
    assert type(out) is Tagged
    out.sum().backward()
    assert type(layer.weight.grad) is torch.Tensor and layer.weight.grad.tolist() == [[4, 4, 4]] * 2
    torch.optim.SGD(layer.parameters(), lr=0.1).step()


def test_modes_are_left_in_the_order_in_which_they_were_entered():
    outer, inner = Spy(), Spy()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(RuntimeError, match="was left while another mode, entered later, is still on"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)


@pytest.mark.parametrize("base", [torch.overrides.TorchFunctionMode, torch.overrides.TorchDispatchMode])
def test_a_mode_without_its_method_says_so(base):
    class Empty(base):
        pass

    with pytest.raises(NotImplementedError, match="Empty must define __torch_"), Empty():
        torch.ones(2).exp()


# ---------------------------------------------------------------------------------------------------- dispatch modes


def test_a_dispatch_mode_changes_values_below_autograd():
    class Rounded(torch.overrides.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            assert all(not a.requires_grad for a in args if isinstance(a, torch.Tensor))
            return func(*args, **(kwargs or {})).round()

    x = torch.tensor([1.2, 2.7], requires_grad=True)
    with Rounded():
        y = x * 1.0
    assert y.tolist() == [1, 3] and y.grad_fn.name() == "MulBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_composites_and_backward_arrive_as_their_ops():
    class Names(torch.overrides.TorchDispatchMode):
        def __init__(self):
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    with Names() as names:
        y = torch.nn.functional.tanhshrink(x)
        forward = list(names.seen)
        y.sum().backward()
    assert forward == ["tanh", "sub"] and {"sum", "mul"} <= set(names.seen[2:])
    expected = x.grad.clone()
    x.grad = None
    torch.nn.functional.tanhshrink(x).sum().backward()
    assert torch.equal(x.grad, expected)


def test_stacked_dispatch_modes_see_one_call_in_turn():
    log = []

    class Note(torch.overrides.TorchDispatchMode):
        def __init__(self, name):
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log.append(self.name)
            return func(*args, **(kwargs or {}))

    with Note("outer"), Note("inner"):
        torch.Tensor([1.0]).exp()
    assert log == ["inner", "outer"]


# ---------------------------------------------------------------------------------------------------- compilers


def test_a_trace_names_inputs_constants_and_results():
    layer = torch.nn.Linear(3, 2)
    calls = Graph(lambda x: torch.relu(layer(x)).sum()).trace(torch.ones(4, 3))
    assert [call.name for call in calls] == ["linear", "relu", "sum"]
    linear, relu, total = calls
    assert repr(linear) == "call0 = linear(input0, constant0, constant1)" and linear.args[1].tensor is layer.weight
    assert repr(relu.args[0]) == "call0" and repr(total.results) == "[call2]"


def test_compile_calls_the_compiler_once_for_each_signature():
    asked = []

    def counting(graph, example_inputs, note="-"):
        asked.append((note, [tuple(t.shape) for t in example_inputs], torch.compiler.is_compiling()))
        return graph

    double = torch.compile(lambda x, by=2: x * by, backend=counting, options={"note": "n"})
    for shape in ((2,), (2,), (3,)):
        assert double(torch.ones(shape)).tolist() == [2.0] * shape[0]
    assert double(torch.ones(2), by=5).tolist() == [5, 5]
    assert asked == [("n", [(2,)], True), ("n", [(3,)], True), ("n", [(2,)], True)]
    with torch.no_grad():
        double(torch.ones(2))
    assert len(asked) == 4 and not torch.compiler.is_compiling()


def test_compiled_modules_and_decorators():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Dropout(0.5))
    compiled = torch.compile(model)
    assert isinstance(compiled, torch.nn.Module) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    compiled.eval()
    assert not model[1].training
    x = torch.ones(1, 3)
    assert torch.equal(compiled(x), model(x))
    model.compile(backend="eager")
    assert torch.equal(model(x), compiled(x))

    @torch.compile(backend="eager")
    def triple(x):
        """Three times."""
        return 3 * x

    assert triple(x).tolist() == [[3, 3, 3]] and triple.__doc__ == "Three times."
    assert torch.compile(triple, disable=True) is triple


def test_a_compiler_that_fails_is_named():
    def fails(graph, example_inputs):
        raise ValueError("no")

    with pytest.raises(ValueError, match="^no") as caught:
        torch.compile(torch.exp, backend=fails)(torch.ones(1))
    assert "raised by the compiler 'fails'" in caught.value.__notes__[0], caught.value.__notes__


def test_a_dispatch_mode_that_returns_nothing_is_refused():
    class Forgetful(torch.overrides.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            func(*args, **(kwargs or {}))

    for use in (lambda: torch.ones(2) + 1, lambda: torch.ones(2)):
        with Forgetful(), pytest.raises(TypeError, match="__torch_dispatch__ returned None for .*write `return"):
            use()


def test_too_many_signatures_run_op_by_op():
    compiled = []
    double = torch.compile(lambda x: x * 2, backend=lambda graph, inputs: compiled.append(1) or graph)
    for n in range(8):
        double(torch.ones(n))
    with pytest.warns(UserWarning, match="has served 8 signatures of one program"):
        assert double(torch.ones(9)).sum().item() == 18
    assert len(compiled) == 8


def test_errors_of_compile():
    with pytest.raises(RuntimeError, match="no compiler named 'inductor'; installed are eager"):
        torch.compile(torch.exp, backend="inductor")
    with pytest.raises(TypeError, match="must return something callable"):
        torch.compile(torch.exp, backend=lambda graph, inputs: 3)(torch.ones(1))
    with pytest.raises(TypeError, match="takes a function or a Module, not int"):
        torch.compile(3)
    with pytest.raises(TypeError, match="backend must be the name of a compiler or a function, not 3"):
        torch.compile(torch.exp, backend=3)


def test_a_compiler_can_trace_the_first_call_whatever_its_arguments_are():
    """Keyword, nested and plain arguments; afterwards the graph holds nothing of them."""
    seen = []

    def tracing(graph, example_inputs):
        calls = graph.trace(*graph.example_args, **graph.example_kwargs)
        seen.append((graph, len(example_inputs), repr(calls)))
        return graph

    program = torch.compile(lambda pair, power, *, bias: (pair["x"][0] ** power + bias).sum(), backend=tracing)
    assert program({"x": [torch.ones(2)]}, 2, bias=torch.ones(2)).item() == 4
    ((graph, inputs, calls),) = seen
    assert inputs == 2 and calls == "[call0 = pow(input0, 2), call1 = add(call0, input1), call2 = sum(call1)]"
    assert graph.example_args == () and graph.example_kwargs == {}
    assert program({"x": [torch.ones(2)]}, 3, bias=torch.ones(2)).item() == 4 and len(seen) == 2


def test_what_a_dispatch_mode_is_asked_about_can_be_compared_with_ops_of_aten():
    aten, seen = torch.ops.aten, []
    known = {aten.sin.default: "sin", aten.mul.Tensor: "mul", aten.add.Tensor: "add"}

    class Known(torch.overrides.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((known.get(func), func == aten.sin.default, func != aten.mul.Tensor))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Known():
        torch.exp(x.sin() * x)
    assert seen == [("sin", True, True), ("mul", False, False), (None, False, True)]
