"""`grad(y, [x])` runs those formulas whose gradients are on the way to x, and no other, with the same numbers."""

import pytest

import plugrad
from plugrad.nn import functional as F


def two(shape=(4, 4)):
    return [plugrad.randn(*shape, dtype=plugrad.float64).abs().add(0.5).requires_grad_() for _ in range(2)]


CALLS = {
    "mul": lambda a, b: a * b,
    "matmul": lambda a, b: a @ b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
    "linear": lambda a, b: F.linear(a, b),
    "where": lambda a, b: plugrad.where(a > b, a, b),
    "conv": lambda a, b: F.conv2d(a[None, None], b[None, None]),
    "layer_norm": lambda a, b: F.layer_norm(a, (4,), b[0]),
    "cat": lambda a, b: plugrad.cat([a, b]),
    "broadcast": lambda a, b: a * b[0],
    "einsum": lambda a, b: plugrad.einsum("ij,kj->ik", a, b),
    "in place": lambda a, b: a.clone().mul_(b),
    "prelu": lambda a, b: F.prelu(-a, b[0]),
    "solve": lambda a, b: plugrad.linalg.solve(a, b),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_one_gradient_is_that_of_all(name, create_graph):
    a, b = two()
    with plugrad.no_grad():
        together = CALLS[name](a, b).shape
    weights = plugrad.randn(*together, dtype=plugrad.float64)
    for number in (0, 1):
        every = plugrad.autograd.grad((CALLS[name](a, b) * weights).sum(), [a, b])
        y = (CALLS[name](a, b) * weights).sum()
        (one,) = plugrad.autograd.grad(y, [(a, b)[number]], create_graph=create_graph)
        assert plugrad.allclose(one, every[number], rtol=1e-12, atol=1e-12)
        if not create_graph and name not in ("cat", "broadcast", "in place"):
            with pytest.raises(RuntimeError, match="second time|freed"):
                plugrad.autograd.grad(y, [a, b])


def test_what_has_no_formula_is_refused_only_where_it_is_asked_for():
    a, x = two((3,))
    (of_x,) = plugrad.autograd.grad(plugrad.special.gammainc(a, x).sum(), [x])
    expected = ((a - 1) * x.log() - x - plugrad.lgamma(a)).exp()
    assert plugrad.allclose(of_x, expected)
    for inputs in ([a], [a, x]):
        with pytest.raises(NotImplementedError, match="input"):
            plugrad.autograd.grad(plugrad.special.gammainc(a, x).sum(), inputs)


def test_backward_with_inputs_and_hooks_on_the_way():
    a, b = two()
    y = a * b
    seen = []
    y.grad_fn.register_hook(lambda into, out: seen.append([g is None for g in into]))
    y.sum().backward(inputs=[b])
    assert a.grad is None and b.grad.tolist() == a.tolist() and seen == [[True, False]]
