"""Autograd by itself: gradients of gradients, requires_grad, graph lifetime, errors."""
import numpy as np

from .common import outcome


def program_scalar_chain(torch):
    x = torch.tensor(2.0, requires_grad=True)
    y = x ** 3 + 4 * x.sin()
    y.backward()
    z = (x * 2).detach() * x
    z.backward()
    return [y, x.grad, y.requires_grad, y.is_leaf, x.is_leaf, (x * 2).detach().requires_grad]


def program_accumulation(torch):
    w = torch.tensor(np.linspace(-1, 1, 6).reshape(2, 3), requires_grad=True)
    results = []
    for power in (1, 2, 3):
        (w ** power).sum().backward()
        results.append(w.grad.clone())
    w.grad = None
    w.sum().backward(retain_graph=True)
    w.grad.zero_()
    w.prod().backward()
    return [*results, w.grad]


def program_third_derivative(torch):
    x = torch.tensor([0.3, 1.2, -0.7], dtype=torch.float64, requires_grad=True)
    value, results = torch.tanh(x) * torch.exp(-x), []
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        results.append(value)
    return results


def program_jacobian_and_hessian(torch):
    random = np.random.RandomState(0)
    matrix = torch.tensor(random.standard_normal((3, 3)))
    x = torch.tensor(random.standard_normal(3), requires_grad=True)
    y = torch.sigmoid(matrix @ x)
    jacobian = torch.stack([torch.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(3)])
    (slope,) = torch.autograd.grad((y ** 2).sum(), x, create_graph=True)
    hessian = torch.stack([torch.autograd.grad(g, x, retain_graph=True)[0] for g in slope])
    return [jacobian, hessian, hessian - hessian.T]


def program_grad_modes(torch):
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3

    @torch.no_grad()
    def frozen(t):
        return t * 4

    with torch.inference_mode():
        c = x * 5
        inside = torch.is_inference_mode_enabled()
    with torch.set_grad_enabled(False):
        d = (x + 1).requires_grad
    flags = [t.requires_grad for t in (a, b, frozen(x), c)]
    return [flags, inside, d, c.is_inference(), torch.is_grad_enabled(),
            x.requires_grad_(False).requires_grad]


def program_graph_errors(torch):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.exp().sum()
    y.backward()
    unrelated = torch.ones(1, requires_grad=True)
    return [
        outcome(y.backward),
        outcome(lambda: (x * 2).backward()),
        outcome(lambda: torch.ones(2).sum().backward()),
        outcome(lambda: torch.autograd.grad((x * 2).sum(), unrelated)),
        outcome(lambda: torch.autograd.grad((x * 2).sum(), [x, unrelated], allow_unused=True)[1]),
        outcome(lambda: torch.ones(2, dtype=torch.int64).requires_grad_()),
        outcome(lambda: (x * 2).backward(torch.ones(3))),
        outcome(lambda: (x * 2).requires_grad_(False)),
        outcome(lambda: x.numpy()),
    ]


def program_partial_graphs(torch):
    a = torch.tensor([1.0, 2.0], requires_grad=True)
    b = torch.tensor([3.0, 4.0], requires_grad=True)
    shared = a * b
    left, right = shared.sum(), (shared ** 2).sum()
    left.backward(retain_graph=True)
    before = a.grad.clone()
    torch.autograd.backward([left, right], inputs=[b])
    return [before, a.grad, b.grad, shared.grad_fn is not None, a.grad_fn is None]


def program_complex_gradients(torch):
    random = np.random.RandomState(3)
    z = torch.tensor(random.standard_normal(4) + 1j * random.standard_normal(4), requires_grad=True)
    loss = (z * z.conj()).real.sum() + (z ** 2).imag.sum() + z.abs().sum()
    loss.backward()
    return [loss, z.grad, torch.view_as_real(z.detach()), z.angle()]
