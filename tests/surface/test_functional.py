"""autograd.functional and batched gradients: strict mode, strategies, and errors, as PyTorch has them."""

import pytest

from support.two_libraries import agree, errors

torch = pytest.importorskip("torch")


def points(torch):
    return torch.tensor([1.0, 2.0, -0.5]), torch.tensor([[0.5, 1.5]])


def jacobians(torch):
    F = torch.autograd.functional
    x, y = points(torch)
    f = lambda x, y: (x.exp() * y.sum(), (y * x[0]).sum())  # noqa: E731
    square = lambda x: (x**3).sum()  # noqa: E731
    results = [F.jacobian(f, (x, y)), F.jacobian(f, (x, y), vectorize=True)]
    results += [F.jacobian(f, (x, y), vectorize=True, strategy="forward-mode"), F.jacobian(torch.sin, x, strict=True)]
    results += [F.jacobian(torch.sin, x, vectorize=True, strategy="forward-mode")]
    forward = F.hessian(square, x, vectorize=True, outer_jacobian_strategy="forward-mode")
    results += [F.hessian(square, x), forward.detach()]
    results += [F.hessian(lambda x, y: (x.sum() * y**2).sum(), (x, y), vectorize=True)]
    results += [F.hvp(square, x, x), F.vhp(square, x, x), F.jvp(f, (x, y), (x, y)), F.vjp(torch.exp, x, x, strict=True)]
    return results


def strictness(torch):
    F = torch.autograd.functional
    x, y = points(torch)
    constant = lambda x: torch.ones(3)  # noqa: E731
    linear = lambda x: (2 * x).sum()  # noqa: E731
    detached = lambda x: (x * x.detach()).sum()  # noqa: E731
    of_one = lambda x, y: x * 2  # noqa: E731
    calls = []
    for strict in (False, True):
        options = {"strict": strict}
        calls += [
            lambda o=options: F.jacobian(constant, x, **o),
            lambda o=options: F.jacobian(of_one, (x, y), **o),
            lambda o=options: F.jacobian(lambda x: 2 * x, x, create_graph=True, **o),
            lambda o=options: F.hessian(linear, x, **o),
            lambda o=options: F.hessian(detached, x, **o),
            lambda o=options: F.vjp(constant, x, x, **o),
            lambda o=options: F.vjp(of_one, (x, y), x, **o),
            lambda o=options: F.vjp(lambda x: 2 * x, x, x, create_graph=True, **o),
            lambda o=options: F.jvp(constant, x, x, **o),
            lambda o=options: F.jvp(of_one, (x, y), (x, y), **o),
            lambda o=options: F.vhp(linear, x, x, **o),
            lambda o=options: F.hvp(linear, x, x, **o),
            lambda o=options: F.hvp(lambda x: (x**2).sum(), x, x, **o),
        ]
    return errors(torch, *calls)


def wrong_options(torch):
    F = torch.autograd.functional
    x, _ = points(torch)
    return errors(
        torch,
        lambda: F.jacobian(torch.sin, x, strategy="forward-mode"),
        lambda: F.jacobian(torch.sin, x, vectorize=True, strict=True),
        lambda: F.jacobian(torch.sin, x, vectorize=True, strategy="forward-mode", create_graph=True),
        lambda: F.jacobian(torch.sin, x, strategy="forward-mode", strict=True),
        lambda: F.jacobian(torch.sin, x, strategy="some"),
        lambda: F.hessian(lambda x: x.sum(), x, outer_jacobian_strategy="forward-mode"),
        lambda: F.hessian(torch.sin, x),
        lambda: F.jacobian(torch.sin, 3),
        lambda: F.jacobian(lambda x: 3, x),
    )


def batches_of_gradients(torch):
    x, y = (point.requires_grad_() for point in points(torch))
    z = x * y.sum()
    rows = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
    grad = torch.autograd.grad
    options = {"is_grads_batched": True, "retain_graph": True}
    results = [grad(z, (x, y), rows, **options), grad((z, x.sum()), x, (rows, rows[:, 0]), **options)]
    results += [grad(z, (x, y.new_ones(1, requires_grad=True)), rows, allow_unused=True, **options)]
    (first,) = grad((x**3).sum(), x, torch.tensor([1.0, 2.0]), is_grads_batched=True, create_graph=True)
    results += [first, grad(first.sum(), x)]
    wrong = errors(
        torch,
        lambda: grad(z, x, rows[0], **options),
        lambda: grad(z, x, rows.t(), **options),
        lambda: grad(z, x, **options),
    )
    return results, wrong


@pytest.mark.parametrize("program", [jacobians, strictness, wrong_options, batches_of_gradients])
def test_as_pytorch(program):
    agree(program)


def whole_jacobians(torch):
    if torch.__name__ == "torch":
        from torch.autograd.gradcheck import get_analytical_jacobian, get_numerical_jacobian
    else:
        from plugrad.testing import get_analytical_jacobian, get_numerical_jacobian
    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = torch.tensor([[2.0, 1.0]], dtype=torch.float64, requires_grad=True)
    f = lambda pair: (pair[0].sin()[:2] * pair[1], pair[0].sum())  # noqa: E731
    results = [get_numerical_jacobian(f, (x, y), eps=1e-6), get_numerical_jacobian(f, (x, y), target=x, eps=1e-6)]
    results += [get_analytical_jacobian((x, y), f((x, y))[0]), x.detach()]
    return results, errors(torch, lambda: get_numerical_jacobian(f, (x, y), grad_out=2.0))


def test_whole_jacobians_as_pytorch():
    agree(whole_jacobians)
