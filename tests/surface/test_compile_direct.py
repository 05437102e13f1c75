"""Compiled programs that keep nothing between a call and its walk backward: each of the two is one call of C."""

import gc
import sys
import threading
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad import kernels, nn
from plugrad.kernels import module

F = nn.functional
pytestmark = pytest.mark.skipif(kernels.why_none() is not None, reason="there are no kernels in C")
torch.manual_seed(0)
W = torch.randn(7)

PROGRAMS = {
    "tanh": lambda x, y: x.tanh(),
    "two kernels' work": lambda x, y: F.gelu(x * 2 + 1),
    "two inputs": lambda x, y: (x * y + x) * y.sigmoid(),
    "one of them": lambda x, y: y.exp(),
    "two results": lambda x, y: (x.sin() * y, x + y),
    "a result alone in a tuple": lambda x, y: (x * y,),
    "rows": lambda x, y: F.softmax(x, -1),
    "a tensor held": lambda x, y: x * W + y,
    "a sum": lambda x, y: (x - y).sum(),
}


def program_of(call):
    return call._compiled.arrays.known[0]


def gradients(run, x, y, retain=False):
    results = run(x, y)
    results = results if isinstance(results, tuple) else (results,)
    weights = [torch.arange(r.numel(), dtype=r.dtype).reshape(r.shape) + 1 for r in results]
    walks = [torch.autograd.grad(results, (x, y), weights, retain_graph=retain, allow_unused=True)]
    if retain:
        walks.append(torch.autograd.grad(results, (x, y), weights, allow_unused=True))
    return [[r.detach() for r in results], *[[g for g in one if g is not None] for one in walks]]


def same(one, other):
    assert [len(a) for a in one] == [len(b) for b in other]
    for a, b in zip([t for part in one for t in part], [t for part in other for t in part]):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride())
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_and_walks_are_those_of_the_function(name, dtype):
    run, call = PROGRAMS[name], torch.compile(PROGRAMS[name], backend="native", fullgraph=True)
    for size in (7, 7, 7):
        x, y = (torch.randn(5, size, dtype=dtype, requires_grad=True) for _ in range(2))
        same(gradients(call, x, y), gradients(run, x, y))
        same(gradients(call, x, y, retain=True), gradients(run, x, y, retain=True))
        with torch.no_grad():
            expected, actual = run(x, y), call(x, y)
        assert type(actual) is type(expected)
        for a, b in zip(*[one if type(one) is tuple else (one,) for one in (actual, expected)]):
            torch.testing.assert_close(a, b)
            assert not a.requires_grad and type(a) is torch.Tensor and a.grad is None and not vars(a)
    if dtype is torch.float32:  # of other dtypes NumPy computes some
        assert any(program.direct is not None for program in call._compiled.arrays.known)


@pytest.mark.parametrize("run", [lambda x: x.tanh(), lambda x: F.layer_norm(x, (6,)), lambda x: (x.sin(), F.gelu(x))])
def test_a_gradient_that_is_not_like_its_result_is_refused(run):
    """A hook on the node may return anything: C would read what lies behind it."""
    call = torch.compile(run, backend="native")
    for _ in range(3):
        call(torch.randn(4, 6, requires_grad=True))
    for wrong in (torch.ones(2), torch.ones(4, 6, dtype=torch.float64), torch.ones(24)):
        x = torch.randn(4, 6, requires_grad=True)
        y = call(x)
        y = y[0] if isinstance(y, tuple) else y
        y.grad_fn.register_prehook(lambda grads, wrong=wrong: tuple(grad if grad is None else wrong for grad in grads))
        with pytest.raises(RuntimeError, match="invalid gradient of shape"):
            y.sum().backward()


@pytest.mark.parametrize("run", [lambda x: (x.sin(), F.gelu(x)), lambda x: (F.layer_norm(x, (6,)), x.sum(0))])
def test_hooks_on_the_node_of_several_results(run):
    call = torch.compile(run, backend="native")
    for rows in (4, 5, 7, 4):
        x, seen = torch.randn(rows, 6, requires_grad=True), []
        one, other = call(x)
        one.grad_fn.register_prehook(lambda grads, seen=seen: seen.extend(g if g is None else g.shape for g in grads))
        one.sum().backward()
        assert seen == [one.shape, None] or seen == [one.shape, other.shape]
        torch.testing.assert_close(x.grad, torch.autograd.grad(run(x)[0].sum(), x)[0])
        with pytest.raises(RuntimeError, match="second time"):
            one.sum().backward()


def test_what_has_memory_of_its_own_is_not_direct():
    """The statistics of a normalisation are kept for the walk backward; a number is no tensor."""
    x = torch.randn(4, 8, requires_grad=True)
    normed = torch.compile(lambda x: F.layer_norm(x, (8,)), backend="native")
    number = torch.compile(lambda x: (x * 2).sum().item(), backend="native")
    for call in (normed, number):
        for _ in range(3):
            call(x)
        assert program_of(call).direct is None


def test_arguments_by_name_and_numbers():
    call = torch.compile(lambda x, scale, shift=0.0: x * scale + shift, backend="native")
    x, shift = torch.randn(3, requires_grad=True), torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(call(x, 2.0), x * 2.0)
        torch.testing.assert_close(call(x, 3.0), x * 3.0)
        torch.testing.assert_close(call(x, 2.0, shift=shift), x * 2.0 + shift)
        torch.testing.assert_close(call(x, 2.0, shift), x * 2.0 + shift)
        call(x, 2.0, shift).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((3,), 6.0))


def called(run, count=3):
    """Return a compiled function that was called before, with gradients."""
    call = torch.compile(run, backend="native", fullgraph=True)
    for _ in range(count):
        call(torch.randn(6, requires_grad=True)).sum().backward()
    assert program_of(call).direct is not None
    return call


def test_second_derivatives():
    call = called(lambda x: x.sin())
    x = torch.randn(6, requires_grad=True)
    (g,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(h, -x.detach().sin())


def test_a_graph_serves_once_and_what_was_written_since_is_an_error():
    call = called(lambda x: (x * x).exp())
    x = torch.randn(6, requires_grad=True)
    y = call(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        y.sum().backward()
    y = call(x * 1)
    y.add_(1)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()
    z = x * 1
    y = call(z)
    with torch.no_grad():
        z.mul_(2)
    with pytest.raises(RuntimeError, match="inplace"):
        y.sum().backward()


def test_a_gradient_in_another_order_or_none_at_all():
    call = torch.compile(lambda x: (x.sin(), F.gelu(x) + x), backend="native")
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        one, other = call(x)
        expected = F.gelu(x) + x
        for results, eager in ((other,), (expected,)), ((one, other), (x.sin(), expected)):
            for weights in torch.ones(1, 1).expand(3, 4), torch.randn(4, 3).t():
                weights = [weights] * len(results)
                (g,) = torch.autograd.grad(results, x, weights, retain_graph=True)
                torch.testing.assert_close(g, torch.autograd.grad(eager, x, weights, retain_graph=True)[0])
    assert program_of(call).direct is not None


def test_a_held_tensor_that_gets_another_array_between_a_call_and_its_walk():
    weight = torch.full((6,), 3.0)
    call = called(lambda x: x.sin() * weight)
    x = torch.randn(6, requires_grad=True)
    old = call(x)
    weight.data = torch.full((6,), 5.0)
    new = call(x)
    (g,) = torch.autograd.grad(new.sum(), x)
    torch.testing.assert_close(g, (5 * x.cos()).detach())
    (g,) = torch.autograd.grad(old.sum(), x)
    torch.testing.assert_close(g, (3 * x.cos()).detach())


@pytest.mark.parametrize("rebound", [False, True])
def test_a_walk_that_C_does_not_serve_is_done_as_that_of_other_programs(rebound):
    weight = torch.full((6,), 3.0)
    call = called(lambda x: x.sin() * weight)
    x, direct = torch.randn(6, requires_grad=True), program_of(call).direct
    served, direct.run_back = direct.run_back, lambda *arrays: None
    y = call(x)
    if rebound:
        weight.data = torch.full((6,), 5.0)
        call(x)
    (g,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    direct.run_back = served
    (same,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(g, same)
    torch.testing.assert_close(g, (3 * x.cos()).detach())


def test_labels_that_are_out_of_range_have_the_error_of_the_op():
    call = torch.compile(lambda x, labels: F.one_hot(labels, 4).sum(0) + x, backend="native")
    loss = torch.compile(lambda x, labels: F.cross_entropy(x, labels), backend="native")
    x = torch.randn(3, 4)
    for _ in range(3):
        call(x, torch.tensor([0, 1, 2]))
        loss(x, torch.tensor([0, 1, 2]))
    with pytest.raises(IndexError) as error:
        loss(x, torch.tensor([0, 1, 9]))
    with pytest.raises(IndexError) as expected:
        F.cross_entropy(x, torch.tensor([0, 1, 9]))
    assert str(error.value) == str(expected.value)
    torch.testing.assert_close(loss(x, torch.tensor([0, 1, 2])), F.cross_entropy(x, torch.tensor([0, 1, 2])))


def test_two_threads_in_one_program():
    """Large arrays are computed without Python's lock, on memory that belongs to one thread at a time."""
    call = torch.compile(lambda x: x.sin(), backend="native")
    x = torch.randn(60_000, requires_grad=True)
    for _ in range(3):
        call(x).sum().backward()
    assert program_of(call).direct is not None
    wrong = []

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(60):
            x = torch.randn(60_000, generator=generator).requires_grad_()
            y = call(x)
            (g,) = torch.autograd.grad(y.sum(), x)
            data = x.detach().numpy()
            good = numpy.allclose(y.detach().numpy(), numpy.sin(data), rtol=1e-4, atol=1e-6)
            if not good or not numpy.allclose(g.numpy(), numpy.cos(data), rtol=1e-4, atol=1e-6):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_nothing_is_kept_of_a_call():
    call = called(lambda x: x.tanh())
    x = torch.randn(6, requires_grad=True)
    y = call(x)
    node, array = weakref.ref(y.grad_fn), weakref.ref(y._raw)
    del y
    assert node() is None and array() is None

    def several(count):
        for _ in range(count):
            call(x).sum().backward()
            with torch.no_grad():
                call(x)
        gc.collect()
        return len(gc.get_objects()), sys.getrefcount(x._type), sys.getrefcount(x._raw)

    several(5)
    before, after = several(5), several(300)
    assert all(abs(a - b) < 50 for a, b in zip(after, before)), (before, after)


def test_there_is_memory_for_one_call():
    """The first call, which was none in C, had its own."""
    call = called(lambda x: F.softmax(x * 0.5 + 1, -1))
    assert program_of(call).size and not program_of(call).free
    with torch.no_grad():
        for _ in range(3):
            call(torch.randn(6))
    assert program_of(call).direct is not None and program_of(call).size and not program_of(call).free


def test_programs_that_were_set_aside_come_back():
    """Those that are asked last have no memory, nor calls in C; a call gives them both again."""
    call = torch.compile(lambda x: x.tanh(), backend="native", dynamic=False)
    inputs = [torch.randn(n + 1) for n in range(8)]
    for _ in range(3):
        for x in inputs:
            torch.testing.assert_close(call(x), x.tanh())
    for program in call._compiled.arrays.known:
        program.forget_memory()
    for x in inputs:
        torch.testing.assert_close(call(x), x.tanh())
    first = program_of(call)
    call(inputs[-1])
    assert program_of(call) is first
    call(inputs[0])
    assert program_of(call) is not first and program_of(call).direct is not None


def test_a_runner_and_a_server_refuse_what_they_can_not_take():
    call = called(lambda x: x.tanh())
    program = program_of(call)
    run, same = program.direct.run_back, program.guard.same
    array, model = numpy.ones(6, "float32"), (numpy.ones(6, "float32"),)
    with pytest.raises(TypeError, match="takes 2 arrays"):
        run(array)
    for other in (2.0, None, array[:5], array.astype(float), numpy.ones((6, 2), "f4")[:, 0], array.reshape(2, 3)):
        assert run(array, other) is None and run(other, array) is None
    assert len(run(array, array)) == 1
    tape = program.instance().code.space["tape0"]
    with pytest.raises(TypeError, match="takes a tape"):
        module().runner(same, model, (0, ~0), model)
    with pytest.raises(TypeError, match="takes a tape"):
        module().runner(tape, model, (0,), model)
    with pytest.raises(TypeError, match="16 at most"):
        module().runner(tape, model * 17, (0, ~0), model)
    with pytest.raises(IndexError, match="no such array"):
        module().runner(tape, (None,), (0, ~0), model)
    with pytest.raises(IndexError, match="no such array"):
        module().runner(tape, model, (1, ~0), model)
    with pytest.raises(IndexError, match="no such array"):
        module().runner(tape, model, (0, ~1), model)
    with pytest.raises(TypeError, match="model"):
        module().runner(tape, model, (0, ~0), (2.0,))
    runner = module().runner(tape, model, (0, ~0), model)
    kind = torch.ones(1)._type
    with pytest.raises(TypeError, match="takes a guard"):
        module().server(tape, runner, (0,), kind)
    with pytest.raises(TypeError, match="takes a guard"):
        module().server(same, tape, (0,), kind)
    with pytest.raises(TypeError, match="takes a guard"):
        module().server(same, runner, (0, 0), kind)
    with pytest.raises(TypeError, match="takes a guard"):
        module().server(same, runner, (0,), (kind, kind))
    with pytest.raises(IndexError, match="no tensor"):
        module().server(same, runner, (1,), kind)
    with pytest.raises(TypeError, match="args, kwargs"):
        module().server(same, runner, (0,), kind)(1)
