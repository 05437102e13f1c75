"""Inference tensors: what is one, what may be saved for backward, what may be written."""

from __future__ import annotations

from .common import outcome


def made_inside(torch):
    with torch.inference_mode():
        return torch.ones(3) * 2


def program_what_is_one(torch):
    normal, weight = torch.ones(3), torch.ones(3, requires_grad=True)
    with torch.inference_mode():
        inside = [
            torch.ones(3), torch.tensor([1.0]), torch.rand(2), normal + 1, normal.max(0).values, weight * 2,
            normal, normal[0], normal.view(3, 1), normal.detach(), normal.add_(0), *(normal * 2).split(1),
        ]  # fmt: skip
        flags = [t.is_inference() for t in inside]
    x = made_inside(torch)
    outside = [x * 2, x.clone(), x.view(3, 1), x[0], x.detach(), x.data, x.reshape(1, 3)]
    return flags, [t.is_inference() for t in outside]


def program_saved_for_backward(torch):
    weight = torch.ones(3, requires_grad=True)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            a, _ = ctx.saved_tensors
            return None, g * a

    def run(function):
        def call():
            weight.grad = None
            function(made_inside(torch)).sum().backward()
            return weight.grad

        return outcome(call)

    return [
        run(lambda x: x * weight),
        run(lambda x: x + weight),
        run(lambda x: x.view(1, 3) * weight),
        run(lambda x: x.clone() * weight),
        run(lambda x: (x + 0) * weight),
        run(lambda x: torch.cat([x, weight])),
        run(lambda x: torch.mm(x.view(1, 3), weight.view(3, 1))),
        run(lambda x: torch.where(x > 0, weight, weight * 2)),
        run(lambda x: Product.apply(x, weight)),
        run(lambda x: Product.apply(x.clone(), weight)),
    ]


def program_written(torch):
    normal = torch.ones(3)

    def set_item(x):
        x[0] = 5.0
        return x

    with torch.inference_mode():
        inside = made_inside(torch).add_(1)
        leaf = torch.ones(3, requires_grad=True)
        leaf.add_(1)
    no_grad = torch.no_grad()
    return inside, leaf.detach(), [
        outcome(lambda: made_inside(torch).add_(1)),
        outcome(lambda: no_grad(lambda: made_inside(torch).add_(1))()),
        outcome(lambda: set_item(made_inside(torch))),
        outcome(lambda: made_inside(torch)[:2].mul_(2)),
        outcome(lambda: made_inside(torch).copy_(normal)),
        outcome(lambda: torch.add(normal, normal, out=made_inside(torch))),
        outcome(lambda: torch.ones(3).add_(made_inside(torch))),
    ]


def program_requires_grad(torch):
    with torch.inference_mode():
        inside = made_inside(torch).requires_grad_().requires_grad
    return [
        inside,
        outcome(lambda: made_inside(torch).requires_grad_()),
        outcome(lambda: torch.nn.Parameter(made_inside(torch))),
        outcome(lambda: made_inside(torch).clone().requires_grad_().requires_grad),
        outcome(lambda: made_inside(torch)._version),
    ]


def program_saved_before_written_inside(torch):
    x = torch.ones(3, requires_grad=True)
    y = x * x
    with torch.inference_mode():
        x.add_(1)
    return outcome(lambda: y.sum().backward())


def program_evaluation(torch):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5), torch.nn.ReLU(), torch.nn.Linear(5, 2)
    ).double()  # the gradient of the first bias is zero, and in single precision noise of 1e-4
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.arange(parameter.numel()).reshape(parameter.shape).double().sin() + number)
    x = torch.arange(12.0).double().reshape(3, 4).cos()
    model(x).sum().backward()
    model.eval()
    with torch.inference_mode():
        out = model(x)
        correct = (out.argmax(1) == torch.tensor([0, 1, 1])).float().mean().item()
    model.train()
    model.zero_grad()
    model(x).pow(2).mean().backward()
    return out.tolist(), correct, [p.grad for p in model.parameters()]


def program_views_of_leaves_made_inside(torch):
    def flags(x):
        return x.requires_grad, x.is_leaf, x.is_inference(), x._is_view()

    with torch.inference_mode():
        leaf = torch.ones(2, 3, requires_grad=True)
        inside = [flags(x) for x in (leaf.view(-1), leaf[0], *leaf.unbind(), leaf.detach(), leaf * 2, leaf.t())]
        leaf[0].mul_(2)
        leaf.resize_(1, 2)
    outside = [flags(x) for x in (leaf.view(-1), leaf[0], *leaf.unbind(), leaf.detach(), leaf.t())]
    return inside, outside, flags(leaf), leaf.tolist(), (leaf * 1).requires_grad
