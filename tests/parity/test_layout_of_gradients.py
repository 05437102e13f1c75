"""A leaf's gradient lies in memory as the leaf does, if that is dense, else row-major; PyTorch promises the same."""

from __future__ import annotations

import warnings

import pytest

import plugrad
from support.two_libraries import torch

LEAVES = {
    "row-major": lambda T: T.ones(3, 4),
    "transposed": lambda T: T.ones(4, 3).t(),
    "permuted": lambda T: T.ones(2, 3, 4).permute(2, 0, 1),
    "channels last": lambda T: T.ones(2, 3, 4, 5).to(memory_format=T.channels_last),
    "one of two columns": lambda T: T.ones(4, 6)[:, ::2],
    "one of two columns, transposed": lambda T: T.ones(4, 6)[:, ::2].t(),
    "expanded": lambda T: T.ones(3, 1).expand(3, 2),
    "beside one row": lambda T: T.ones(3, 4).t().unsqueeze(0),
    "no elements": lambda T: T.ones(0, 3).t(),
    "a number": lambda T: T.ones(()),
}
FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "elementwise": lambda x: (x * x).sum(),
    "copy": lambda x: (x.contiguous() ** 2).sum(),
    "rows": lambda x: (x.flatten() * 2).sum(),
    "product": lambda x: (x.reshape(len(x), -1) @ x.reshape(len(x), -1).mT).sum() if x.numel() > 1 else x.sum(),
}


def _steps(tensor):
    return [step for step, n in zip(tensor.stride(), tensor.shape) if n > 1] if tensor.numel() else []


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.filterwarnings("ignore")
def test_gradients_that_arrive_once_and_twice(leaf, function, create):
    seen = []
    for T in (torch, plugrad):
        x = LEAVES[leaf](T).detach().requires_grad_()
        seen.append([])
        for _ in range(2):
            FUNCTIONS[function](x).backward(create_graph=create)
            seen[-1].append((_steps(x.grad), x.grad.requires_grad, x.grad.tolist()))
    assert seen[1] == seen[0]


def test_a_network_in_channels_last():
    seen = []
    for T in (torch, plugrad):
        layers = T.nn.Conv2d(3, 4, 3), T.nn.BatchNorm2d(4), T.nn.ReLU(), T.nn.Conv2d(4, 2, 2)
        model = T.nn.Sequential(*layers).to(memory_format=T.channels_last)
        x = T.ones(2, 3, 8, 8).to(memory_format=T.channels_last).requires_grad_()
        optimizer = T.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(2):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
        tensors = [x, *model.parameters()]
        assert [_steps(t.grad) for t in tensors] == [_steps(t) for t in tensors]
        seen.append([_steps(t.grad) for t in tensors])
    assert seen[1] == seen[0]


CHANGES = {
    "t_": lambda T, x: x.t_(),
    "transpose_": lambda T, x: x.transpose_(0, 1),
    "unsqueeze_": lambda T, x: x.unsqueeze_(0),
    "unsqueeze_ behind": lambda T, x: x.unsqueeze_(-1),
    "squeeze_": lambda T, x: x.squeeze_(),
    "as_strided_": lambda T, x: x.as_strided_((2, 1), (1, 1)),
    "data": lambda T, x: setattr(x, "data", T.full((2, 2), 3.0)),
    "data of more dimensions": lambda T, x: setattr(x, "data", T.full((2, *x.shape), 3.0)),
    "set_": lambda T, x: x.set_(T.full((2, 2), 3.0)),
}


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (3, 3), (1, 3), (2, 1)])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore")
def test_shapes_that_change_where_nothing_is_recorded(change, shape, create):
    """The history keeps the shape that it had: gradients are summed or broadcast to it, or refused.

    Where PyTorch gives a leaf a gradient of another shape than its own it may be refused.
    """

    def programs(T):
        def factor(x):
            return T.arange(1.0, 1 + x.numel()).reshape(x.shape)

        def of_own_memory(x):
            y = x * factor(x)
            with T.no_grad():
                CHANGES[change](T, y)
            (y * factor(y)).sum().backward(create_graph=create)

        def used_before(x):
            loss = (x * factor(x)).sum()
            with T.no_grad():
                CHANGES[change](T, x)
            loss.backward(create_graph=create)

        def used_before_and_after(x):
            (x * factor(x)).sum().backward(create_graph=create)
            with T.no_grad():
                CHANGES[change](T, x)
            (x * factor(x)).sum().backward(create_graph=create)

        for program in of_own_memory, used_before, used_before_and_after:
            x = T.arange(1.0, 1 + shape[0] * shape[1]).reshape(shape).requires_grad_()
            try:
                program(x)
            except RuntimeError:
                yield "refused"
            else:
                yield x.grad.tolist(), x.grad.shape == x.shape

    for own, theirs in zip(programs(plugrad), programs(torch), strict=True):
        assert own == theirs or (own, theirs[1]) == ("refused", False)


def test_the_graph_of_such_a_tensor_is_that_of_what_made_it():
    def names(T):
        x = T.ones(2, 3, requires_grad=True)
        for y in x * 2, T.linalg.qr(x.mT)[1]:
            with T.no_grad():
                y.unsqueeze_(0)
            yield [y.grad_fn.name(), *[node.name() for node, _ in (y * y).grad_fn.next_functions]]
            yield [node and node.name() for node, _ in y.grad_fn.next_functions]

    assert [*names(plugrad)] == [*names(torch)]


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.filterwarnings("ignore")
def test_hooks_get_gradients_of_the_shape_that_was_recorded(change, early):
    """Those of the tensor and of its node, registered before or after the change, and what `retain_grad()` keeps."""

    def program(T):
        x, seen = T.ones(1, 3, requires_grad=True), []
        y = x * 2

        def hook():
            y.register_hook(lambda g: seen.append(tuple(g.shape)))
            y.grad_fn.register_hook(lambda gi, go: seen.append((tuple(gi[0].shape), tuple(go[0].shape))))
            y.retain_grad()

        if early:
            hook()
        with T.no_grad():
            CHANGES[change](T, y)
        if not early:
            hook()
        z = y * 3
        seen += [(type(node).__name__, number) for node, number in z.grad_fn.next_functions[:1]]
        try:
            z.sum().backward()
        except RuntimeError:
            seen.append("refused")
        return seen, y.grad is not None and y.grad.shape, y.output_nr, y.retains_grad or not early

    assert program(plugrad) == program(torch)


def test_results_of_another_shape_in_out_keep_the_shape_that_was_recorded():
    def program(T):
        x = T.ones(1, 3, requires_grad=True)
        for shape in (2, 3), (3,), (1, 2):
            y = x * 2
            with T.no_grad():
                T.ones(shape, out=y)
            try:
                (gradient,) = T.autograd.grad(y.sum(), x)
                yield gradient.tolist()
            except RuntimeError:
                yield "refused"

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [*program(plugrad)] == [*program(torch)]


@pytest.mark.parametrize("create", [False, True])
def test_what_is_refused_is_told_with_its_reason(create):
    x = plugrad.ones(2, 3, requires_grad=True)
    y, loss = x * 2, (x * 3).sum()
    y.data = plugrad.ones(4)
    with pytest.raises(RuntimeError, match="the shape that a tensor had when it was recorded"):
        y.sum().backward(create_graph=create)
    x.data = plugrad.ones(3, 2)
    with pytest.raises(RuntimeError, match=r"gradient of shape \(2, 3\) reaches a leaf of shape \(3, 2\)"):
        loss.backward(create_graph=create)
