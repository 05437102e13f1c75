"""Custom autograd.Function in its usual forms, recomputation, straight-through estimators."""
import numpy as np

from .common import outcome


def program_legendre(torch):
    """The polynomial of the autograd.Function tutorial."""

    class Legendre(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 0.5 * (5 * x ** 3 - 3 * x)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * 1.5 * (5 * x ** 2 - 1)

    x = torch.tensor(np.linspace(-1, 1, 7), requires_grad=True)
    y = Legendre.apply(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return [y, first, second, type(y.grad_fn).__name__]


def program_linear_function(torch):
    """Several inputs, constants, an optional bias, gradients only where they are needed."""
    asked = []

    class Linear(torch.autograd.Function):
        @staticmethod
        def forward(ctx, input, weight, bias=None, scale=1.0):
            ctx.save_for_backward(input, weight)
            ctx.scale = scale
            output = input.mm(weight.t()) * scale
            return output if bias is None else output + bias

        @staticmethod
        def backward(ctx, gradient):
            asked.append(ctx.needs_input_grad)
            input, weight = ctx.saved_tensors
            by_input = gradient.mm(weight) * ctx.scale if ctx.needs_input_grad[0] else None
            by_weight = gradient.t().mm(input) * ctx.scale if ctx.needs_input_grad[1] else None
            by_bias = gradient.sum(0) if ctx.needs_input_grad[2] else None
            return by_input, by_weight, by_bias, None

    random = np.random.RandomState(5)
    x = torch.tensor(random.standard_normal((4, 3)))
    weight = torch.tensor(random.standard_normal((2, 3)), requires_grad=True)
    bias = torch.tensor(random.standard_normal(2), requires_grad=True)
    y = Linear.apply(x, weight, bias, 0.5)
    y.pow(2).sum().backward()
    return [y, weight.grad, bias.grad, list(asked), Linear.apply(x, weight).shape,
            torch.autograd.gradcheck(Linear.apply, (x.clone().requires_grad_(), weight, bias, 2.0))]


def program_setup_context(torch):
    class Halves(torch.autograd.Function):
        """Two outputs, forward apart from context, a non-differentiable third."""

        @staticmethod
        def forward(x):
            return x[:2] * 2, x[2:].exp(), x.argmax()

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(output[1])
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx, first, second, _):
            (exponential,) = ctx.saved_tensors
            return torch.cat([first * 2, second * exponential])

    x = torch.tensor([1.0, 2.0, 0.5, -1.0], requires_grad=True)
    a, b, index = Halves.apply(x)
    a.sum().backward(retain_graph=True)
    only_first = x.grad.clone()
    (a.sum() * b.sum()).backward()
    return [a, b, index, index.requires_grad, only_first, x.grad]


def program_function_errors(torch):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, gradients):
            ctx.gradients = gradients
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return ctx.gradients(gradient)

    @torch.autograd.function.once_differentiable
    def once(ctx, gradient):
        return gradient * 2

    Once = type("Once", (torch.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: x * 2), "backward": staticmethod(once)})
    x = torch.ones(3, requires_grad=True)

    def run(gradients):
        return torch.autograd.grad(Wrong.apply(x, gradients).sum(), x)

    def twice():
        (first,) = torch.autograd.grad((Once.apply(x) ** 2).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)

    return [run(lambda g: (g, None)), run(lambda g: (g, None, None)), outcome(lambda: run(lambda g: g), 3),
            outcome(lambda: run(lambda g: (g, g)), 0)[:1], outcome(lambda: run(lambda g: (g[:2], None)), 2),
            outcome(lambda: run(lambda g: (3, None)), 0)[:1], outcome(twice, 0)[:1]]


def program_checkpoint(torch):
    """Recompute the forward pass in backward, by hand."""
    calls = []

    class Checkpoint(torch.autograd.Function):
        @staticmethod
        def forward(ctx, body, *inputs):
            ctx.body = body
            ctx.save_for_backward(*inputs)
            with torch.no_grad():
                return body(*inputs)

        @staticmethod
        def backward(ctx, gradient):
            inputs = [t.detach().requires_grad_(t.requires_grad) for t in ctx.saved_tensors]
            with torch.enable_grad():
                output = ctx.body(*inputs)
            wanted = [t for t in inputs if t.requires_grad]
            grads = iter(torch.autograd.grad(output, wanted, gradient))
            return (None, *(next(grads) if t.requires_grad else None for t in inputs))

    def body(x, w):
        calls.append(torch.is_grad_enabled())
        return torch.tanh(x @ w).relu()

    random = np.random.RandomState(6)
    x = torch.tensor(random.standard_normal((2, 3)))
    w = torch.tensor(random.standard_normal((3, 3)), requires_grad=True)
    plain = body(body(x, w), w).sum()
    (expected,) = torch.autograd.grad(plain, w)
    output = Checkpoint.apply(body, Checkpoint.apply(body, x, w), w).sum()
    output.backward()
    return [plain, output, expected, w.grad, calls]


def program_straight_through(torch):
    x = torch.tensor([0.2, 0.7, 1.6, -1.2], requires_grad=True)
    rounded = x + (x.round() - x).detach()

    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, strength):
            ctx.strength = strength
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return -ctx.strength * gradient, None

    (rounded ** 2 + Reverse.apply(x, 0.5)).sum().backward()
    return [rounded, x.grad]
