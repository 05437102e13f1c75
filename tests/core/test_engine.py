"""The engine: long chains, memory, order of hooks, versions, views; what PyTorch does is written down as literals."""

from __future__ import annotations

import gc
import weakref

import numpy
import pytest

import plugrad as torch
from plugrad.extend import op
from support.program_prelude import definitions
from support.threads import at_once, elsewhere

DEFINED = definitions(torch)  # custom Functions


@pytest.fixture
def no_collector():
    """Memory must come back by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_million_nodes_run_backward_and_are_freed():
    x = torch.ones(1, requires_grad=True)
    y, alive = x, []
    for number in range(1_000_000):
        y = y + 1.0
        if number % 100_000 == 0:
            alive.append(weakref.ref(y.grad_fn))
    y.backward()
    assert x.grad.item() == 1.0 and None not in [reference() for reference in alive]
    del y
    assert [reference() for reference in alive] == [None] * 10


def test_graph_is_freed_without_the_collector(no_collector):
    x = torch.ones(3, requires_grad=True)
    hidden = (x * 2).exp()
    alive = [weakref.ref(hidden), weakref.ref(hidden.grad_fn)]
    parts = hidden.split(1)
    alive += [weakref.ref(part) for part in parts]
    view = hidden[1:]
    alive.append(weakref.ref(view))
    loss = (torch.cat(parts) * hidden).sum() + view.sum()
    loss.backward()
    del hidden, parts, view, loss
    assert [reference() for reference in alive] == [None] * len(alive)


def test_function_that_saves_its_output_is_freed_without_the_collector(no_collector):
    x = torch.zeros(2, requires_grad=True)
    y = DEFINED.Exp.apply(x)
    alive = weakref.ref(y.grad_fn), weakref.ref(y)
    del y
    assert [reference() for reference in alive] == [None, None]


def test_saved_values_are_freed_by_backward(no_collector):
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    array = weakref.ref(y._raw)
    z = y.sum()
    del y
    assert array() is not None
    z.backward()
    assert array() is None


def test_leaves_accumulate_as_soon_as_their_gradient_is_complete():
    events = []
    first, last = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    hidden = first * 2
    hidden.register_hook(lambda g: events.append("hidden"))
    first.register_hook(lambda g: events.append("first"))
    last.register_hook(lambda g: events.append("last"))
    (hidden * last).sum().backward()
    assert events == ["hidden", "first", "last"] or events == ["last", "hidden", "first"]


def test_gradient_arrays_are_not_shared():
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    g = torch.ones(3)
    (a + b).backward(g)
    a.grad.mul_(5)
    assert b.grad.tolist() == [1.0, 1.0, 1.0] and g.tolist() == [1.0, 1.0, 1.0]


def test_the_same_gradient_twice_is_a_sum():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x + x + x).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    (x * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_duplicate_outputs_add_up():
    g = torch.ones((), requires_grad=True)
    (total,) = torch.autograd.grad([g * 1, g * 1], [g])
    assert total.item() == 2.0
    y = g * 3
    assert torch.autograd.grad([y, y], [g])[0].item() == 6.0


def test_higher_orders():
    x = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    value = x**5
    for expected in (80.0, 160.0, 240.0, 240.0, 120.0):
        (value,) = torch.autograd.grad(value, x, create_graph=True)
        assert value.item() == expected


def test_grad_modes_belong_to_their_thread():
    with torch.no_grad():
        assert elsewhere(torch.is_grad_enabled) and not torch.is_grad_enabled()


def test_graphs_of_several_threads_do_not_meet():
    """Each thread's gradients are those that it gets alone, though all graphs begin at one weight."""
    weight = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)

    def gradients(scale):
        own, grads = torch.full((3,), scale, requires_grad=True), []
        for number in range(40):
            with torch.set_grad_enabled(number % 5 > 0):
                y = (weight * own).tanh().exp()
            if y.requires_grad:
                grads += [g.tolist() for g in torch.autograd.grad(y.sum(), [weight, own])]
        return grads

    scales = [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    alone = [gradients(scale) for scale in scales]
    assert [len(grads) for grads in alone] == [64] * 6 and len({repr(grads) for grads in alone}) == 6
    assert at_once(*[lambda scale=scale: gradients(scale) for scale in scales]) == alone
    assert weight.grad is None


@pytest.mark.parametrize("size", [3, 100_000])  # NumPy lets other threads run while it adds large arrays
def test_gradients_of_several_threads_add_up(size):
    w = torch.ones(size, requires_grad=True)

    def work():
        for _ in range(20):
            (w * 3).sum().backward()

    for _ in range(40):
        w.grad = None
        at_once(*[work] * 5)
        assert (w.grad == 300).all(), (w.grad.min(), w.grad.max())


def test_several_threads_walk_one_graph():
    x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    y = (x.exp() * x).sum()

    def work():
        return [torch.autograd.grad(y, x, retain_graph=True)[0].tolist() for _ in range(50)]

    expected = ((1 + x) * x.exp()).tolist()
    assert at_once(*[work] * 5) == [[pytest.approx(expected, rel=1e-15)] * 50] * 5


def test_backward_inside_backward():
    class Outer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                (d,) = torch.autograd.grad((inner * inner).sum(), inner)
            return g * d

    x = torch.tensor([3.0], requires_grad=True)
    Outer.apply(x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_saved_tensor_written_since_is_an_error():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    w = torch.ones(3)
    z = x * w
    w[0] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()
    w = torch.ones(3)
    z = x * w
    w.data[0] = 5  # writes through .data are the user's own business, as in PyTorch
    x.grad = None
    z.sum().backward()
    assert x.grad.tolist() == [5.0, 1.0, 1.0]


def test_a_formula_may_ask_for_one_of_several_outputs():
    @op(at=())
    def squared(xp, input):
        return input * input, input + 1

    @squared.vjp
    def squared_vjp(F, g, y1):
        return g[0] * 2 * (y1 - 1) + g[1]

    x = torch.tensor(3.0, requires_grad=True)
    square, more = squared.apply((x,))
    assert square.grad_fn.saves == ("y1",)
    square.mul_(2)  # is not saved
    (first,) = torch.autograd.grad(square, x, create_graph=True)
    assert first.item() == 12.0
    assert torch.autograd.grad(first, x)[0].item() == 4.0
    square, more = squared.apply((x,))
    more.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        square.backward()


def test_only_the_gradients_that_are_asked_for_are_pulled():
    """A formula is not run where no target is behind its input; what the node saved is freed all the same."""
    pulled = []

    @op(at=())
    def three(xp, a, b, c):
        return a * b + c, a + c

    @three.vjp("a")
    def three_vjp_a(F, g, b):
        raise NotImplementedError("the first input has no derivative")

    @three.vjp("b", "c")
    def three_vjp_b_c(F, g, a, needs):
        pulled.append(needs)
        return g[0] * a if needs[0] else None, g[0] + g[1] if needs[1] else None

    a, b, c = (torch.tensor(value, requires_grad=True) for value in (2.0, 3.0, 5.0))
    for create_graph in (False, True):
        y, z = three.apply((a, b, c))
        (g,) = torch.autograd.grad(y + z, c, create_graph=create_graph, retain_graph=True)
        assert g.item() == 2.0 and g.requires_grad is False
        (g,) = torch.autograd.grad(y + z, b, create_graph=create_graph, retain_graph=True)
        assert g.item() == 2.0 and g.requires_grad is create_graph
        assert torch.autograd.grad(y, (a * 1, c), allow_unused=True, retain_graph=True)[0] is None
        (y + z).backward(inputs=[b])
        with pytest.raises(RuntimeError, match="a second time"):
            torch.autograd.grad(y + z, c)
    assert pulled == [(False, True), (True, False), (False, True), (True, False)] * 2 and b.grad.item() == 4.0
    with pytest.raises(NotImplementedError, match="the first input has no derivative"):
        three.apply((a, b, c))[0].backward()


def test_writes_to_views_reach_the_base_and_its_other_views():
    x = torch.ones(2, 3, requires_grad=True)
    y = x * 1
    row, column = y[0], y[:, 0]
    row.mul_(3)
    assert column.tolist() == [3.0, 1.0]
    (column * 2).sum().backward()
    assert x.grad.tolist() == [[6.0, 0.0, 0.0], [2.0, 0.0, 0.0]]


def test_second_backward_is_an_error_only_where_something_was_saved():
    x = torch.ones(2, requires_grad=True)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    z = x.exp().sum()
    z.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        z.backward()


def test_anomaly_mode_shows_the_forward_call():
    x = torch.tensor([-1.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = x.sqrt()  # the line that the error must show
        with pytest.warns(UserWarning, match="the line that the error must show"):
            with pytest.raises(RuntimeError, match="returned nan values"):
                y.backward()


def test_saved_tensors_hooks():
    packed, unpacked = [], []

    def pack(tensor):
        packed.append(tensor.tolist())
        return tensor.numpy() + 1

    def unpack(array):
        unpacked.append(array.tolist())
        return torch.from_numpy(array)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).sum()
    assert packed == [[1.0, 2.0]] * 2 and not unpacked
    y.backward()
    assert unpacked == [[2.0, 3.0]] * 2 and x.grad.tolist() == [4.0, 6.0]


def test_once_differentiable_refuses_every_way_to_a_second_derivative():
    x, weight = (torch.tensor(3.0, requires_grad=True) for _ in range(2))
    (g,) = torch.autograd.grad(DEFINED.Once.apply(x), x, create_graph=True)
    for differentiate in (g.backward, lambda: torch.autograd.grad(g, x)):  # through what was saved
        with pytest.raises(RuntimeError, match=r"marked with @once_differentiable \(OnceBackward\)"):
            differentiate()
    (g,) = torch.autograd.grad(DEFINED.Once.apply(x), x, weight * 1, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):  # through the gradient
        torch.autograd.grad(g, weight)
    assert torch.autograd.grad(DEFINED.Once.apply(x), x)[0].item() == 6.0


def test_tensors_in_containers_are_tracked():
    class Sum(torch.autograd.Function):
        @staticmethod
        def forward(ctx, tensors, *, extra):
            return tensors["a"] + tensors["b"][0] + extra

        @staticmethod
        def backward(ctx, g):
            return {"a": g, "b": [2 * g]}, 3 * g

    a, b, c = (torch.ones(2, requires_grad=True) for _ in range(3))
    Sum.apply({"a": a, "b": [b]}, extra=c).sum().backward()
    assert [t.grad.tolist() for t in (a, b, c)] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]


@pytest.mark.filterwarnings("ignore:.*is the old style of a Function:DeprecationWarning")
@pytest.mark.parametrize("style", ["static", "instance"])
def test_a_function_may_keep_what_it_likes_under_any_name(style):
    names = ("inputs outputs counts arguments attributes saved edges fit rare seq op name pure user index values pull "
             "positions scales saves wanted").split()  # fmt: skip

    class Triple(torch.autograd.Function):
        def forward(ctx, x):
            for number, name in enumerate(names):
                setattr(ctx, name, (number, x))
            return x * 3

        def backward(ctx, g):
            assert [getattr(ctx, name)[0] for name in names] == list(range(len(names)))
            return g * 3

    x = torch.ones(2, requires_grad=True)
    y = Triple.apply(x) if style == "static" else Triple()(x)
    assert y.grad_fn.name() == "TripleBackward"
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_double_backward_through_a_saved_intermediate_is_right():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(x, square)
            return square * x

        @staticmethod
        def backward(ctx, g):
            x, square = ctx.saved_tensors
            return 3 * g * square

    x = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(Cube.apply(x), x, create_graph=True)
    assert first.item() == 12.0
    assert torch.autograd.grad(first, x)[0].item() == 12.0


def test_double_backward_refuses_what_it_cannot_know():
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            noise = x * float(numpy.random.rand())
            ctx.save_for_backward(noise)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (noise,) = ctx.saved_tensors
            return g * noise

    x = torch.tensor(2.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="double backward through Noisy"):
        torch.autograd.grad(Noisy.apply(x), x, create_graph=True)


def test_numpy_functions_never_detach_silently():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match=r"torch\.sin"):
        numpy.sin(x)
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        numpy.asarray(x)
    assert torch.equal(numpy.sin(x.detach()), torch.sin(x.detach()))


@pytest.mark.parametrize(
    ("program", "error", "message"),
    [
        (lambda: torch.ones(2, requires_grad=True).add_(1), RuntimeError, "a leaf Variable that requires grad"),
        (lambda: torch.ones(2, requires_grad=True)[0].add_(1), RuntimeError, "a view of a leaf Variable"),
        (lambda: torch.ones(2, requires_grad=True).backward(), RuntimeError, "implicitly created only for scalar"),
        (lambda: torch.ones(2).sum().backward(), RuntimeError, "does not require grad"),
        (
            lambda: (torch.ones(2, requires_grad=True) * 2).backward(torch.ones(2, device="meta")),
            RuntimeError,
            "invalid gradient at index 0 - expected device cpu but got meta",
        ),
        (lambda: torch.ones(2) + torch.ones(3), RuntimeError, r"size of tensor a \(2\) must match"),
        (lambda: torch.ones(2, 3) @ torch.ones(2, 3), RuntimeError, "cannot be multiplied"),
        (lambda: torch.ones(2).to("cuda:0"), RuntimeError, "cuda|CUDA|CuPy"),
        (lambda: torch.device("tpu"), RuntimeError, "cpu.*cuda.*meta"),
        (lambda: torch.sinn, AttributeError, "did you mean 'sin'"),
        (lambda: torch.ones(2, device="meta") + torch.ones(2), RuntimeError, "same device"),
        (lambda: torch.ones(2, device="meta").item(), RuntimeError, "meta|Scalar"),
        (lambda: torch.arange(3).requires_grad_(), RuntimeError, "floating point"),
    ],
)
def test_wrong_use_says_what_happened(program, error, message):
    with pytest.raises(error, match=message):
        program()


@pytest.mark.parametrize("shared", [True, False])
def test_a_gradient_handed_on_as_it_is_leads_back_to_the_leaf_that_was_given(shared):
    import torch as oracle

    found = []
    for library in (torch, oracle):
        x = library.ones(3, 4, requires_grad=True)
        v = library.ones(4, 3).t().detach() if shared else library.ones(3, 4)
        v.requires_grad_()
        (g,) = library.autograd.grad(x + 1, x, v, create_graph=True)
        (back,) = library.autograd.grad((g * g).sum(), v)
        found.append(back.tolist())
    assert found[0] == found[1] == [[2.0] * 4] * 3
