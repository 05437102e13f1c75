"""Hooks on tensors and modules, retained gradients."""
import numpy as np

from .common import parameters_from


def program_tensor_hooks(torch):
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    seen = []
    doubled = x.register_hook(lambda gradient: gradient * 2)
    y = x * x
    y.retain_grad()
    y.register_hook(lambda gradient: seen.append(gradient.clone()))
    y.register_hook(lambda gradient: gradient.clamp(max=2.5))
    (y * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    first = x.grad.clone()
    doubled.remove()
    (x * 5).sum().backward()
    return [first, x.grad, y.grad, seen, y.retains_grad]


def program_post_accumulate(torch):
    """The optimizer step inside backward."""
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    def step(parameter):
        with torch.no_grad():
            parameter -= 0.1 * parameter.grad
        parameter.grad = None

    w.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        (w ** 2).sum().backward()
    return [w, w.grad]


def program_module_hooks(torch):
    random = np.random.RandomState(1)
    model = parameters_from(random, torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)))
    order, stored = [], {}

    def before(module, inputs):
        order.append(f"pre {type(module).__name__}")
        return (inputs[0] * 0.5,)

    def after(module, inputs, output):
        order.append(f"post {type(module).__name__}")
        stored["tanh"] = output.detach()
        return output + 1

    def backward(module, grad_input, grad_output):
        order.append(f"back {type(module).__name__}")
        stored["gradients"] = [grad_input[0], grad_output[0]]
        return (grad_input[0] * 3,)

    handles = [model[0].register_forward_pre_hook(before), model[1].register_forward_hook(after),
               model[1].register_full_backward_hook(backward)]
    x = torch.tensor(random.standard_normal((5, 3)).astype("float32"), requires_grad=True)
    model(x).sum().backward()
    first = [x.grad.clone(), *(p.grad.clone() for p in model.parameters())]
    for handle in handles:
        handle.remove()
    return [order, stored, first, model(x)]
