"""Views share memory, in-place operations rewrite history, version counters catch stale values."""
import numpy as np

from .common import outcome


def program_view_chain(torch):
    base = torch.tensor(np.arange(12.0), requires_grad=True)
    x = base * 1
    grid = x.view(3, 4)
    column = grid.t()[1]
    column.mul_(10)
    grid[0].add_(1)
    grid.diagonal().zero_()
    (x * torch.arange(12.0)).sum().backward()
    return [x, grid, column, base.grad, grid.stride(), column.stride(), column.storage_offset(),
            column.is_contiguous()]


def program_inplace_gradients(torch):
    w = torch.tensor([0.5, -1.5, 2.0], requires_grad=True)
    x = w.clone()
    x.add_(1).mul_(w)
    x[1:] *= x[:-1].clone()
    x.clamp_(min=0.1)
    y = torch.zeros(3)
    y.copy_(x)
    y.sub_(0.5).pow_(2)
    y.sum().backward()
    return [x, y, w.grad, x._version, y._version]


def program_view_kinds(torch):
    x = torch.tensor(np.arange(24.0).reshape(2, 3, 4))
    views = [x.transpose(0, 2), x.permute(1, 0, 2), x.unsqueeze(1), x[:, 1], x.narrow(2, 1, 2), x.mT,
             x.reshape(6, 4), x.unfold(2, 2, 1), x.select(0, 1), x.expand(5, 2, 3, 4)[0], x.flatten(1),
             x.as_strided((2, 2), (1, 4)), *x.split(2, dim=2), *x.chunk(2, dim=1), *x.unbind(1),
             x.movedim(0, -1), x.squeeze(), x.swapaxes(0, 1)]
    shared = [view._is_view() and view._base is x for view in views]
    x.add_(100)
    return [*views, shared, [view.is_contiguous() for view in views], [view.stride() for view in views]]


LAYOUTS = {
    "plain": lambda x: x * 1,
    "transposed": lambda x: (x * 1).t(),
    "rows": lambda x: (x * 1)[::2],
    "columns": lambda x: (x * 1)[:, 1:],
    "expanded": lambda x: (x[:1] * 1).expand(4, 6),
    "copied": lambda x: (x * 1).t().reshape(4, 6),
}
SEEN = {
    "reshape": lambda e: e.reshape(-1),
    "reshape to its own": lambda e: e.reshape(e.shape),
    "halved": lambda e: e.reshape(2, -1),
    "flatten": lambda e: e.flatten(),
    "ravel": lambda e: e.ravel(),
    "contiguous": lambda e: e.contiguous(),
    "unflatten": lambda e: e.unflatten(1, (-1, 1)),
    "to": lambda e: e.to(e.dtype),
    "transposed and flat": lambda e: e.t().reshape(-1),
    "flat and back": lambda e: e.reshape(-1).view(e.shape).t(),
    "squeeze": lambda e: e.squeeze(),
}


def program_views_and_copies(torch):
    """What may be a view or a copy: which it is, and what a write to it does to the tensor before, and backward."""
    observed = {}
    for layout, arrange in LAYOUTS.items():
        for name, look in SEEN.items():
            x = torch.tensor(np.arange(24.0).reshape(4, 6), requires_grad=True)
            e = arrange(x)
            y = look(e)
            given = y is e, y._is_view(), e._is_view()
            written = outcome(lambda y=y: y.mul_(3), 4)
            (e * e).sum().backward()
            first, x.grad = x.grad, None
            observed[f"{layout}, {name}"] = given, written, e.detach(), y.detach(), first
    return observed


def program_version_errors(torch):
    leaf = torch.ones(3, requires_grad=True)
    x = leaf * 2
    y = x.exp()
    z = x * x
    x.add_(1)
    kept = x.sigmoid()
    kept.data.add_(0)
    saved = (leaf * 1).sqrt()
    saved.zero_()
    return [
        outcome(lambda: y.sum().backward(retain_graph=True)),
        outcome(lambda: z.sum().backward(), 12),
        outcome(lambda: saved.sum().backward(), 12),
        outcome(lambda: leaf.add_(1), 8),
        outcome(lambda: leaf[0].zero_(), 8),
        outcome(lambda: torch.ones(3).expand(2, 3).add_(1), 3),
        outcome(lambda: torch.arange(3).add_(0.5), 5),
        outcome(lambda: torch.ones(3).add_(torch.ones(2, 3)), 2),
        leaf.grad,
    ]


def program_detach_and_data(torch):
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    shared = w.detach()
    shared[0] = 9
    w.data.mul_(2)
    with torch.no_grad():
        w += 1
    copy = w.clone().detach().requires_grad_()
    copy.sum().backward()
    array = w.detach().numpy()
    array[1] = -3
    return [w, shared, w.grad, copy.grad, w.requires_grad, torch.from_numpy(array)]


def program_views_without_history_are_shown(torch):
    leaf = torch.ones(2, requires_grad=True)
    product = leaf * 1
    with torch.no_grad():
        written, left = leaf[:], product[:1]
        written *= 2
    product.mul_(2)
    return repr(written), repr(left), outcome(lambda: written + 1, 0)[:1], outcome(lambda: left.grad_fn, 0)[:1]
