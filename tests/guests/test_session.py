"""Records registered by the program itself: running a notebook's cell again replaces them, and nothing else."""

import pytest

import plugrad as torch
from plugrad import extend
from plugrad.registry import events
from support.distribution_builder import DISTRIBUTIONS, build, op_module, output, run

SETUP = """
import warnings
import plugrad as torch
from plugrad.extend import Module, hookimpl, kernel_for, register, unary

def times(k, name="mine"):
    def kernel(xp, input):
        return k * input
    op = unary(name=name)(kernel)
    def vjp(F, g):
        return k * g
    op.vjp(vjp)
    return op

one = torch.ones(1)

def uses(name="mine"):
    x = torch.ones(1, requires_grad=True)
    y = getattr(torch, name)(x)
    y.backward()
    results = y, x.grad, getattr(one, name)(), getattr(one.clone(), name + "_")(), getattr(torch.ops.session, name)(one)
    return sorted({t.item() for t in results})
"""


def test_a_cell_that_is_run_again_replaces_its_op():
    program = """
for k in (2, 3, 5):
    assert register(times(k)).name == "mine"
    assert uses() == [k], (k, uses())
register(times(7, "other"))
assert uses() == [5] and uses("other") == [7]
assert torch.registry.op("mine").provider.id == "session:main" and "mine" in dir(torch)
(g,) = torch.autograd.grad(torch.mine(x := torch.ones(1, requires_grad=True)), x, create_graph=True)
assert g.item() == 5
"""
    output(SETUP + program, DISTRIBUTIONS)


def test_nothing_is_loaded_while_the_registry_is_locked(tmp_path):
    """Who loads a plugin holds its lock and waits for the registry's: the other way round two threads wait for ever."""
    both = {"plugrad.ops": {"cosh": "their_cosh", "their_own": "their_cosh"}}
    build(tmp_path, "plugrad-theirs", both, their_cosh=op_module("cosh") + op_module("their_own"))
    program = """
warnings.simplefilter("ignore")
from plugrad.registry import events, store

loaded = []

def seen(plugin, quiet):
    assert not store.lock._is_owned(), f"{plugin.id} is loaded with the registry locked"
    loaded.append(plugin.id)

events.on_needed.insert(0, seen)
register(times(2, "new"))
register(times(3, "new"))
assert not loaded, f"a new name needs no other plugin, but {loaded} came"

class Linear(Module):
    pass

@kernel_for("sinh", "cpu")
def sinh_cpu(xp, input):
    return xp.sinh(input)

def zeros_(tensor):
    return tensor

rivals = times(4, "tanh"), Linear, sinh_cpu
register(*rivals, inits=[zeros_])
torch.registry.prefer("cosh", "plugrad-theirs")
torch.registry.prefer("tanh", "session")
assert torch.their_own(one) == 2
torch.extend.unregister(*rivals, zeros_)
assert "plugrad:ops-trigonometry" in loaded
"""
    output(SETUP + program, tmp_path)


def test_an_invalid_record_leaves_the_one_before():
    program = """
register(times(2))
incomplete = times(9)
incomplete.formulas.clear()
try:
    register(incomplete)
except TypeError as error:
    assert "has no gradient" in str(error)
else:
    raise SystemExit("no error")
assert uses() == [2]
for wrong, message in ((3, "can't tell what 3 is"), (print, "can't tell what <built-in function print> is")):
    try:
        register(wrong)
    except TypeError as error:
        assert message in str(error), error
try:
    register(things=[1])
except TypeError as error:
    assert "there is no kind 'things'; kinds are backends, compilers" in str(error), error
"""
    output(SETUP + program, DISTRIBUTIONS)


def test_a_name_of_ours_stays_ours():
    program = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    register(times(9, "relu"))
assert str(caught[0].message).endswith("'relu' is plugrad's own and stays so; yours is plugrad.ops.session.relu")
assert torch.relu(-one).item() == one.neg().relu().item() == torch.nn.functional.relu(-one).item() == 0
assert torch.ops.session.relu(one).item() == 9
"""
    output(SETUP + program, DISTRIBUTIONS)


def test_a_name_of_a_third_party_is_ambiguous_until_one_is_preferred(tmp_path):
    build(tmp_path, "plugrad-g", {"plugrad.ops": {"mine": "plugrad_g"}}, plugrad_g=op_module("mine"))
    program = """
assert torch.mine(one).item() == 2
register(times(5))
try:
    torch.mine(one)
except torch.registry.AmbiguousNameError as error:
    assert "session:main" in str(error) and "plugrad-g:mine" in str(error), error
else:
    raise SystemExit("no error")
assert torch.ops.session.mine(one).item() == 5 and torch.ops.g.mine(one).item() == 2
torch.registry.prefer("mine", "session")
assert torch.mine(one).item() == 5
register(times(6))
assert torch.mine(one).item() == one.mine().item() == 6 and torch.ops.g.mine(one).item() == 2
"""
    output(SETUP + program, tmp_path)


def test_every_kind_can_be_registered_and_again():
    program = """
from plugrad.extend import Backend, LRScheduler, OpHook, Optimizer, composite, loss, unregister
import numpy

for n in (2, 3):
    class Plus(Module):
        def forward(self, x, n=n):
            return x + n
    class Step(Optimizer):
        elementwise = True
        def __init__(self, params, lr=n):
            super().__init__(params, self.options(locals()))
        def update(self, xp, p, g, state, group):
            p -= group["lr"] * g
    class Flat(LRScheduler):
        size = n
        def get_lr(self):
            return self.base_lrs
    class Counter(OpHook):
        size = n
    @kernel_for("sinc", "cpu")
    def sinc(xp, input, n=n):
        return input + n
    @loss(module="SessionLoss")
    @composite(at=("nn.functional.session_loss",))
    def session_loss(F, input, target, *, reduction="mean", n=n):
        return F.mean(n * (input - target))
    def fill_it_(tensor, n=n):
        return tensor.fill_(n)
    def compiler(graph, example_inputs, n=n):
        return lambda *args: graph(*args) * n
    class Array(numpy.ndarray):
        pass
    class Twin(Backend):
        name, xp, array_type, size = "twin", numpy, Array, n
        def from_numpy(self, array, index):
            return (array * self.size).view(Array)
        def to_numpy(self, array):
            return numpy.array(array)
    register(Plus, Step, Flat, Counter, Twin, sinc, session_loss, inits=[fill_it_], compilers=[compiler])
    assert torch.nn.Plus()(one).item() == 1 + n and torch.sinc(one).item() == 1 + n
    assert torch.optim.Step([torch.nn.Parameter(one)]).defaults["lr"] == n
    assert torch.optim.lr_scheduler.Flat.size == torch.op_hooks.Counter.size == n
    assert torch.nn.SessionLoss()(one, 0 * one).item() == torch.nn.functional.session_loss(one, 0 * one).item() == n
    assert torch.nn.init.fill_it_(torch.empty(1)).item() == n
    assert torch.compile(torch.exp, backend="compiler")(0 * one).item() == n
    assert one.to("twin").tolist() == [n] and torch.device("twin").backend.size == n
unregister(Twin)
try:
    one.to("twin")
except RuntimeError as error:
    assert "there is no backend for device 'twin'" in str(error), error
else:
    raise AssertionError("the device is still there")
"""
    output(SETUP + program, DISTRIBUTIONS)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("register(inits=lambda tensor: tensor)", "TypeError: register(inits=...) takes a list: write register(in"),
        ("register(opps=[1])", "TypeError: there is no kind 'opps'; did you mean 'ops'?"),
        ("register('abc')", "TypeError: register() can't tell what 'abc' is: write its kind"),
    ],
)
def test_what_can_not_be_registered_is_refused(code, said):
    assert said in run(f"from plugrad.extend import register; {code}", DISTRIBUTIONS).stderr


def test_the_command_line_does_not_see_sessions():
    assert "session" not in run(None, DISTRIBUTIONS, arguments=("-m", "plugrad.cli", "plugins")).stdout


def test_what_was_registered_can_be_taken_back():
    program = """
from plugrad.extend import unregister
op = register(times(2))
assert torch.mine(one).item() == one.mine().item() == 2
unregister(op)
assert not hasattr(torch, "mine") and not hasattr(one, "mine") and not hasattr(torch.ops, "session")
assert "session:main" not in torch.registry.loader.plugins and "mine" not in dir(torch)
assert "mine" not in dir(one) and "mine_" not in dir(one)
try:
    unregister(op)
except LookupError as error:
    assert "was not registered by this program" in str(error)
else:
    raise SystemExit("no error")
register(times(3))
assert uses() == [3]
"""
    output(SETUP + program, DISTRIBUTIONS)


def test_an_op_that_is_not_in_place_leaves_no_method_for_that():
    @extend.unary(name="only_out_of_place", vjp=None, inplace=False)
    def only_out_of_place(xp, input):
        """Return the input's double."""
        return 2 * input

    events.publish(events.on_promise, "Tensor.only_out_of_place")  # as an installed package does before it is loaded
    assert "only_out_of_place_" in dir(torch.Tensor)
    extend.register(only_out_of_place)
    assert (torch.ones(2).only_out_of_place() == 2).all()
    assert "only_out_of_place_" not in dir(torch.Tensor)
    extend.unregister(only_out_of_place)
    assert "only_out_of_place" not in dir(torch.Tensor)


def test_an_op_without_a_method_leaves_no_form_in_place():
    @extend.unary(at=())
    def hidden_square(xp, input):
        """The square of each element."""
        return input * input

    hidden_square.vjp(lambda F, g, input: g * 2 * input)
    extend.register(hidden_square)
    x = torch.tensor([3.0])
    assert x.hidden_square_() is x and x.item() == 9
    extend.unregister(hidden_square)
    assert not [name for name in dir(torch.Tensor) if name.startswith("hidden_square")]
