"""`autograd.graph`: edges, nodes, hooks on several tensors and on saved values, as PyTorch has them."""

import gc
import weakref

import pytest

import plugrad
from support.two_libraries import agree, errors

torch = pytest.importorskip("torch")


def edges_as_targets_and_roots(torch):
    graph = torch.autograd.graph
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    z = y.exp()
    several = (torch.arange(4.0, requires_grad=True) * 1).split(2)
    w = (several[1] * 3).sum()
    by_hand = graph.GradientEdge(*w.grad_fn.next_functions[0][0].next_functions[0])
    edge = graph.get_gradient_edge
    results = [
        torch.autograd.grad(z.sum(), (edge(y), edge(x)), retain_graph=True),
        torch.autograd.grad(z.sum(), graph.GradientEdge(*z.grad_fn.next_functions[0]), retain_graph=True),
        torch.autograd.grad(graph.GradientEdge(*z.grad_fn.next_functions[0]), x, torch.ones(2), retain_graph=True),
        torch.autograd.grad(edge(z.sum()), x, retain_graph=True),
        torch.autograd.grad(w, by_hand, retain_graph=True),
        torch.autograd.grad(w, edge(several[1]), retain_graph=True),
        torch.autograd.grad(w, edge(several[0]), retain_graph=True, allow_unused=True),
    ]
    torch.autograd.backward(edge(z), torch.ones(2), retain_graph=True, inputs=[edge(x)])
    return results, x.grad, edge(x).output_nr, edge(several[1]).output_nr, edge(x).node is edge(x).node


def wrong_edges(torch):
    graph, x = torch.autograd.graph, torch.ones(2, requires_grad=True)
    y = x * x
    return errors(
        torch,
        lambda: torch.autograd.grad(graph.get_gradient_edge(y), x),
        lambda: torch.autograd.grad(graph.GradientEdge(y.grad_fn, 0), x),
        lambda: torch.autograd.grad(3, x),
        lambda: torch.autograd.grad(y.sum(), 3),
        lambda: torch.autograd.backward(graph.get_gradient_edge(y), torch.ones(3)),
        lambda: graph.get_gradient_edge(torch.ones(1)),
        lambda: graph.increment_version(3),
        lambda: graph.register_multi_grad_hook((x,), print, mode="some"),
        lambda: graph.register_multi_grad_hook((torch.ones(1),), print),
        lambda: graph.region_activation_memory_budget(True),
        lambda: graph.region_activation_memory_budget(2.0),
        lambda: graph.region_activation_memory_budget(0.5),
    )


def hooks_on_several_tensors(torch):
    a, b = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    c, d = a * b, a * b
    seen = []
    register = torch.autograd.graph.register_multi_grad_hook
    handle = register((a, b, c, d), lambda grads: seen.append([grad is not None for grad in grads]))
    c.sum().backward(retain_graph=True)
    c.sum().backward(inputs=(a,), retain_graph=True)
    torch.autograd.grad(c.sum(), c, retain_graph=True)
    (c + d).sum().backward(retain_graph=True)
    handle.remove()
    c.sum().backward(retain_graph=True)
    register((a, b, c, d), lambda grad: seen.append(grad.detach() * 1), mode="any")
    (c + d).sum().backward(retain_graph=True)
    (c * d).sum().backward(create_graph=True)
    return seen


def hooks_on_several_tensors_in_a_walk_within_a_walk(torch):
    a = torch.ones(2, requires_grad=True)
    seen = []
    torch.autograd.graph.register_multi_grad_hook((a,), lambda grads: seen.append(grads[0].sum().item()))
    b = a * 2
    b.register_hook(lambda g: torch.autograd.backward((a * 5).sum()))
    b.sum().backward()
    return seen


def hooks_on_one_saved_value(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp().sum()
    y.grad_fn.next_functions[0][0]._raw_saved_result.register_hooks(lambda t: t * 2, lambda t: t)
    z = (x * x).sum()
    z.grad_fn.next_functions[0][0]._raw_saved_self.register_hooks(lambda t: t.tolist(), lambda t: torch.tensor(t) * 3)
    return torch.autograd.grad(y, x), torch.autograd.grad(z, x)


def wrong_hooks_on_one_saved_value(torch):
    x = torch.ones(2, requires_grad=True)

    def saved():
        node = (x * x).sum().grad_fn.next_functions[0][0]
        return node._raw_saved_self

    def twice():
        one = saved()
        one.register_hooks(lambda t: t, lambda t: t)
        one.register_hooks(lambda t: t, lambda t: t)

    def freed():
        y = x * x
        one = y.grad_fn._raw_saved_self
        y.sum().backward()
        one.register_hooks(lambda t: t, lambda t: t)

    def writes():
        saved().register_hooks(lambda t: t.mul_(2), lambda t: t)

    return errors(torch, twice, freed, writes, lambda: saved().register_hooks(lambda t: t))


def hooks_on_what_a_function_saved(torch):
    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, None)
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = Times.apply(x)
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t.detach() * 5, lambda t: t)
    isinstance_of = isinstance(y.grad_fn, torch.autograd.function.BackwardCFunction)
    return len(y.grad_fn._raw_saved_tensors), isinstance_of, torch.autograd.grad(y.sum(), x)


def disabled_hooks(torch):
    graph, x = torch.autograd.graph, torch.ones(2, requires_grad=True)

    def inside():
        with graph.disable_saved_tensors_hooks("no"), graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass

    def outside():
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t), graph.disable_saved_tensors_hooks("no"):
            x * x

    names = errors(torch, inside, outside)
    with graph.save_on_cpu():
        y = x * x
    return names, torch.autograd.grad(y.sum(), x)


def writes_to_saved_tensors(torch):
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        a = torch.ones(2, requires_grad=True)
        b = a.clone()
        c = b.sin()
        b.sin_()
        loss = (c + b).sum()
        counts = [len(context.original), len(context.cloned)]
        loss.backward()
        counts += [len(context.original), len(context.cloned)]
    return counts, a.grad


def writes_to_saved_tensors_outside(torch):
    def backward_outside():
        with torch.autograd.graph.allow_mutation_on_saved_tensors():
            a = torch.ones(2, requires_grad=True)
            loss = a.clone().sin_().sum()
        loss.backward()

    def nested():
        allow = torch.autograd.graph.allow_mutation_on_saved_tensors
        with allow(), allow():
            pass

    return errors(torch, backward_outside, nested)


def nodes_of_all_kinds(torch):
    x = torch.ones(2, requires_grad=True)
    y = (x * 2).max(0)[0]
    seen = []

    def walk(node):
        node.metadata["seen"] = len(seen)
        seen.append((node.name(), isinstance(node, torch.autograd.graph.Node), dict(node.metadata), node.requires_grad))
        node.register_prehook(lambda grads: seen.append(len(grads)))
        node.register_hook(lambda inputs, outputs: seen.append((len(inputs), len(outputs))))
        for following, _ in node.next_functions:
            if following is not None:
                walk(following)

    walk(y.grad_fn)
    y.backward()
    return seen


@pytest.mark.parametrize(
    "program",
    [
        edges_as_targets_and_roots, wrong_edges, hooks_on_several_tensors,
        hooks_on_several_tensors_in_a_walk_within_a_walk, hooks_on_one_saved_value, wrong_hooks_on_one_saved_value,
        hooks_on_what_a_function_saved, disabled_hooks, writes_to_saved_tensors, writes_to_saved_tensors_outside,
        nodes_of_all_kinds,
    ],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_as_pytorch(program):
    agree(program)


def test_an_edge_keeps_no_data_alive():
    x = plugrad.ones(3, requires_grad=True)
    y = x * 2
    edge = plugrad.autograd.graph.get_gradient_edge(y)
    loss = y.sum()
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    assert plugrad.autograd.grad(loss, edge)[0].tolist() == [1, 1, 1]


def test_writes_through_views_of_saved_tensors():
    with plugrad.autograd.graph.allow_mutation_on_saved_tensors():
        a = plugrad.arange(4.0, requires_grad=True)
        b = a.clone()
        c = b * b
        b[1:3] = 7.0
        b[:2].zero_()
        (c * b.exp()).sum().backward()
    expected = [0, 2, 4 * 2.718281828459045**7, 15 * 2.718281828459045**3]
    assert plugrad.allclose(a.grad, plugrad.tensor(expected))


def test_hooks_keep_the_old_value_of_what_is_written_in_place():
    a = plugrad.tensor([0.5], requires_grad=True)
    with plugrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        b = a.clone()
        b.sin_()
        b.exp_()
        b.mul_(b)
    assert plugrad.allclose(plugrad.autograd.grad(b.sum(), a)[0], 2 * a.cos() * (2 * a.sin()).exp())


def test_unpack_hooks_whose_values_do_not_fit_are_named():
    """NumPy's words for shapes become RuntimeErrors, as PyTorch's are; an error of the program's own hook stays."""
    conv, own = lambda T, a: T.nn.functional.conv1d(a[None], T.ones(1, 2, 2)), ValueError("operands could not")

    def backward(T, function, unpack):
        a = T.ones(2, 3, requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
            result = function(T, a)
        result.sum().backward()

    def fail(kept):
        raise own

    for function in (lambda T, a: a * a, lambda T, a: a.exp(), conv):
        for T, words in ((plugrad, "saved-tensor unpack hooks returned do not fit"), (torch, None)):
            with pytest.raises(RuntimeError, match=words):
                backward(T, function, lambda kept, T=T: T.ones(5))
    with pytest.raises(ValueError) as raised:
        backward(plugrad, conv, fail)
    assert raised.value is own


def test_multi_grad_hooks_that_are_gone_leave_other_walks_alone():
    from plugrad.graph.modes import other_walks

    before = len(other_walks)
    a = plugrad.ones(2, requires_grad=True)
    handle = plugrad.autograd.graph.register_multi_grad_hook((a,), lambda grads: None)
    assert len(other_walks) == before + 1
    del a, handle
    gc.collect()
    assert len(other_walks) == before


def test_settings_of_backward_are_modes():
    autograd = plugrad.autograd
    with autograd.set_multithreading_enabled(False), autograd.enforce_grad_layout_policy(False):
        assert not autograd.is_multithreading_enabled()
    assert autograd.is_multithreading_enabled()

    @autograd.set_multithreading_enabled(False)
    def inside():
        return autograd.is_multithreading_enabled()

    assert not inside() and autograd.is_multithreading_enabled()


def test_the_old_base_of_nested_functions():
    class Product(plugrad.autograd.NestedIOFunction):
        def forward_extended(self, x, others):
            return x * others[0] * 2

        def backward_extended(self, g):
            return g, [g * 3]

    a, b = (plugrad.ones(2, requires_grad=True) for _ in range(2))
    with pytest.warns(DeprecationWarning):
        result = Product()(a, [b])
    result.sum().backward()
    assert a.grad.tolist() == [1, 1] and b.grad.tolist() == [3, 3]
    assert isinstance(Product, plugrad.autograd.function.FunctionMeta)


def test_a_saved_tensor_is_known_by_its_class_and_cannot_be_made():
    y = plugrad.ones(2, requires_grad=True).exp()
    assert isinstance(y.grad_fn._raw_saved_result, plugrad._C._autograd.SavedTensor)
    with pytest.raises(RuntimeError, match="Trying to create a SavedTensor object from Python is forbidden"):
        plugrad.autograd.SavedTensor()


def test_whether_hooks_on_saved_tensors_are_enabled_can_be_asked():
    enabled = plugrad._C._autograd._saved_tensors_hooks_is_enabled
    assert enabled()
    with plugrad.autograd.graph.disable_saved_tensors_hooks(""):
        assert not enabled()
    assert enabled()


def called_nodes(torch):
    x, y = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)
    product, spread = x * y, x.expand(3, 2).sum().grad_fn
    twice = [product.grad_fn(torch.ones(2)) for _ in range(2)]
    with torch.no_grad():
        unrecorded = product.grad_fn(torch.ones(2))
    first, second = x.unbind()[0].grad_fn, torch.linalg.qr(torch.eye(2, requires_grad=True))[0].grad_fn
    seen = []
    product.grad_fn.register_prehook(seen.append)
    leaf = product.grad_fn.next_functions[0][0]
    nothing = leaf(product.grad_fn(torch.ones(2))[0])
    (g,) = torch.autograd.grad(twice[0][0].sum(), y)
    product.sum().backward()
    return twice, unrecorded, spread(torch.tensor(1.0)), first(torch.tensor(5.0), None), second(torch.eye(2), None), (
        seen == [(torch.ones(2),)], nothing, g, x.grad
    )  # fmt: skip


def wrongly_called_nodes(torch):
    x = torch.ones(2, requires_grad=True)
    node, gone = (x * x).grad_fn, x.exp()
    gone.sum().backward()
    return errors(
        torch, lambda: node(torch.ones(2), torch.ones(2)), lambda: node(), lambda: node(g=torch.ones(2)),
        lambda: gone.grad_fn(torch.ones(2)),
    )  # fmt: skip


@pytest.mark.parametrize("program", [called_nodes, wrongly_called_nodes])
def test_nodes_are_functions_of_gradients(program):
    agree(program)


def backward_twice(torch):
    F, x = torch.nn.functional, torch.arange(16.0).reshape(1, 1, 4, 4).requires_grad_()
    for again in (
        *(F.interpolate(x, size=(6, 6), mode=mode) for mode in ("nearest", "nearest-exact", "bilinear", "bicubic")),
        F.unfold(x, 2), F.fold(x.reshape(1, 4, 4), (3, 3), 2), F.interpolate(x[0], size=3, mode="linear"),
    ):  # fmt: skip
        for _ in range(2):
            again.backward(torch.ones_like(again))
    return x.grad


def test_what_saves_only_sizes_goes_backward_twice():
    agree(backward_twice)


def powers_of_numbers(torch):
    results = []
    for base in (-1, -2.5, 3, -1 + 2j):
        exponent = torch.tensor([0.5 + 1j, -2 - 1j], dtype=torch.complex128, requires_grad=True)
        y = base**exponent
        torch.view_as_real(y).sum().backward()
        results += [y, exponent.grad]
    return results


def test_complex_powers_of_negative_numbers_have_gradients():
    agree(powers_of_numbers)
