"""utils.checkpoint: what runs again, how often, and what is kept instead."""

import contextlib
import functools

import pytest

import plugrad
from plugrad.utils import checkpoint as checkpoints
from support.two_libraries import agree, errors

torch = pytest.importorskip("torch")


def runs_and_options(torch):
    checkpoints = torch.utils.checkpoint
    x = torch.tensor([0.25, 0.5], requires_grad=True)
    calls, seen = [], []

    def f(a):
        calls.append(1)
        return (a * 3).exp().sin() * a

    @contextlib.contextmanager
    def named(name):
        seen.append(name)
        yield

    def run(**options):
        calls.clear()
        y = checkpoints.checkpoint(f, x, use_reentrant=False, **options)
        return torch.autograd.grad(y.sum(), x), len(calls)

    results = [run(), run(early_stop=False), run(debug=True), run(determinism_check="none")]
    results += [run(context_fn=lambda: (named("first"), named("second"))), list(seen)]
    with checkpoints.set_checkpoint_early_stop(False), checkpoints.set_checkpoint_debug_enabled(True):
        results.append(run())
    results.append(
        errors(
            torch,
            lambda: run(determinism_check="some"),
            lambda: checkpoints.checkpoint(f, x, use_reentrant=True, debug=True),
            lambda: checkpoints.checkpoint(f, x, use_reentrant=True, context_fn=lambda: None),
            lambda: checkpoints.detach_variable([x]),
            lambda: checkpoints.create_selective_checkpoint_contexts(3),
        )
    )
    results += [
        checkpoints.detach_variable((x, 3))[0],
        checkpoints.get_device_states(x),
        checkpoints.noop_context_fn()[0] is None,
    ]
    return results


def functions_that_differ(torch):
    x = torch.tensor([0.25, 0.5], requires_grad=True)
    calls = []

    def one_of(first, second):
        def f(a):
            calls.append(1)
            return first(a) if len(calls) == 1 else second(a)

        return f

    def run(function, **options):
        calls.clear()
        torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False, **options).sum().backward()

    return errors(
        torch,
        lambda: run(one_of(lambda a: a.exp() * a, lambda a: a.sin())),
        lambda: run(one_of(lambda a: a.exp(), lambda a: a[:1].exp())),
        lambda: run(one_of(lambda a: a.exp(), lambda a: a.exp().double())),
    )


def several_walks(torch):
    x = torch.tensor([0.25, 0.5], requires_grad=True)
    calls = []

    def f(a):
        calls.append(1)
        return a.exp() * a, a.sin() * a

    y, z = torch.utils.checkpoint.checkpoint(f, x, use_reentrant=False)
    with torch.utils.checkpoint.GraphExecGroup():
        y.sum().backward()
        z.sum().backward()
        names = errors(torch, lambda: torch.utils.checkpoint.GraphExecGroup().__enter__())
    return x.grad, len(calls), names


def gradients_taken_inside(torch):
    x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

    def checkpointed(function):
        return lambda a: torch.utils.checkpoint.checkpoint(function, a, use_reentrant=False)

    def slope(function):
        return lambda a: torch.autograd.grad(function(a), a, create_graph=True)[0]

    def f(a):
        return a.sin().exp().sin()

    def hands_on(a):
        torch.autograd.grad(f(a), a)
        return a.sin()

    results = []
    for stops in (True, False):
        with torch.utils.checkpoint.set_checkpoint_early_stop(stops):
            for function in (hands_on, slope(f), slope(checkpointed(f)), slope(checkpointed(slope(f)))):
                y = checkpointed(checkpointed(function))(x)
                results.append((y, *torch.autograd.grad(y, x)))
    return results


@pytest.mark.parametrize(
    "program", [runs_and_options, functions_that_differ, several_walks, gradients_taken_inside]
)
def test_as_pytorch(program):
    agree(program)


def run_selectively(policy, function, x):
    contexts = functools.partial(checkpoints.create_selective_checkpoint_contexts, policy)
    return checkpoints.checkpoint(function, x, use_reentrant=False, context_fn=contexts)


class Counting(plugrad.overrides.TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("offload", [False, True])
def test_selected_ops_are_not_run_again(offload):
    policies = checkpoints.CheckpointPolicy
    kept = policies.MUST_CPU_OFFLOAD if offload else policies.MUST_SAVE

    def policy(context, op, *args, **kwargs):
        assert isinstance(context.op_output, plugrad.Tensor)
        return kept if op is plugrad.mm else policies.PREFER_RECOMPUTE

    x = plugrad.tensor([[0.5, 1.0], [2.0, -1.0]], requires_grad=True)
    expected = plugrad.autograd.grad(x.mm(x).exp().sin().sum(), x)[0]
    for one, times in ((policy, 2), ([plugrad.mm], 2), ([plugrad.exp], 3)):  # two are of the gradient of mm itself
        y = run_selectively(one, lambda a: a.mm(a).exp().sin(), x).sum()
        with Counting() as counting:
            (grad,) = plugrad.autograd.grad(y, x)
        assert counting.names.count("mm") == times
        assert plugrad.allclose(grad, expected)


def test_a_kept_result_that_was_written_is_refused():
    x = plugrad.tensor([[0.5, 1.0], [2.0, -1.0]], requires_grad=True)

    def function(a):
        product = a.mm(a)
        result = product.exp() * a
        with plugrad.no_grad():
            product.add_(1)
        return result

    with pytest.raises(RuntimeError, match="has been mutated"):
        run_selectively([plugrad.mm], function, x).sum().backward()


def test_debug_shows_the_ops_of_both_runs():
    calls = []

    def function(a):
        calls.append(1)
        return a.exp() * a if len(calls) == 1 else a.sin()

    x = plugrad.ones(2, requires_grad=True)
    y = checkpoints.checkpoint(function, x, use_reentrant=False, debug=True)
    with pytest.raises(checkpoints.CheckpointError, match="first run:\nexp\nmul\nOps of the second run:\nsin"):
        y.sum().backward()


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_function_hands_on_unrecorded_is_no_leaf_of_the_graph(reentrant):
    def program(torch):
        seen = []
        for x in (torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True) * 2):
            for enabled in (True, False):
                with torch.set_grad_enabled(enabled):
                    result = torch.utils.checkpoint.checkpoint(lambda a: a, x, use_reentrant=reentrant)
                seen.append((result.requires_grad, result is x))
        return seen

    agree(program)


REENTRANT = {
    "grad": lambda T, f, x: T.autograd.grad(f(x.requires_grad_()).sum(), x),
    "grad of a gradient": lambda T, f, x: T.autograd.grad(f(x.requires_grad_()).sum(), x, create_graph=True),
    "backward to inputs": lambda T, f, x: f(x.requires_grad_()).sum().backward(inputs=[x]),
    "func.grad": lambda T, f, x: T.func.grad(lambda x: f(x).sum())(x),
    "func.vjp": lambda T, f, x: T.func.vjp(f, x)[1](x),
    "func.jvp": lambda T, f, x: T.func.jvp(f, (x,), (x,)),
    "func.jacrev": lambda T, f, x: T.func.jacrev(f)(x),
    "func.hessian": lambda T, f, x: T.func.hessian(lambda x: f(x).sum())(x),
    "second derivatives": lambda T, f, x: T.autograd.functional.hvp(lambda x: f(x).sum(), x, x),
    "dual numbers": lambda T, f, x: dual(T, f, x),
}


def dual(T, f, x):
    with T.autograd.forward_ad.dual_level():
        return f(T.autograd.forward_ad.make_dual(x, x))


@pytest.mark.parametrize("way", REENTRANT)
@pytest.mark.filterwarnings("ignore")  # of inputs without grad, and PyTorch's own of its staging
def test_a_graph_of_its_own_is_no_part_of_what_is_asked_for(way):
    """Second derivatives and tangents would be zero, and gradients would go to leaves that nobody named."""

    def refused(T):
        weight = T.ones(2, requires_grad=True)
        checkpoint = T.utils.checkpoint.checkpoint

        def f(x):
            return checkpoint(lambda t: t**3 * weight, x, use_reentrant=True)

        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            REENTRANT[way](T, f, T.ones(2))
        assert weight.grad is None
        return error.type

    ours, theirs = refused(plugrad), refused(torch)
    assert issubclass(ours, theirs) or issubclass(theirs, ours)


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_reentrant_checkpoints_nest_in_a_walk_to_all_leaves():
    def gradients(T):
        x, weight = T.ones(2, requires_grad=True), T.full((2,), 3.0, requires_grad=True)
        checkpoint = functools.partial(T.utils.checkpoint.checkpoint, use_reentrant=True)
        checkpoint(lambda a: checkpoint(lambda t: t * weight, a * a) * a, x).sum().backward()
        valid = T.autograd.Variable._execution_engine.is_checkpoint_valid()
        return x.grad.tolist(), weight.grad.tolist(), valid

    assert gradients(plugrad) == gradients(torch)
