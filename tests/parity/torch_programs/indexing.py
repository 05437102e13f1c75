"""Reading and writing through indices of every kind."""
import numpy as np

from .common import outcome


def program_read(torch):
    x = torch.tensor(np.arange(60.0).reshape(3, 4, 5), requires_grad=True)
    rows = torch.tensor([2, 0, 2])
    mask = x.detach() % 7 == 0
    parts = [
        x[1], x[-1, 2], x[..., 0], x[:, None, 1], x[::2, 1:, ::3], x[rows], x[rows, :, 1], x[:, [0, 3]],
        x[rows[:, None], torch.tensor([1, 3])], x[mask], x[0, mask[0]], x[True], x[torch.tensor(1)],
        x[..., rows, -1], x[rows, 1:3, torch.tensor([0, 1, 4])], x[None, ..., None],
    ]
    weight = sum((part * (i + 1)).sum() for i, part in enumerate(parts))
    weight.backward()
    return [*parts, x.grad]


def program_write(torch):
    x = torch.zeros(4, 5, dtype=torch.float64)
    source = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64, requires_grad=True)
    x[0] = source
    x[1:3, ::2] = 7
    x[:, 1] += source[:4] * 10
    x[torch.tensor([3, 3]), torch.tensor([0, 4])] = source[:2] ** 2
    x[x.detach() == 7] = -1
    x[-1, -1] *= 2
    (x ** 2).sum().backward()
    return [x, source.grad]


def program_gather_scatter(torch):
    random = np.random.RandomState(2)
    x = torch.tensor(random.standard_normal((3, 4)), requires_grad=True)
    index = torch.tensor([[0, 3, 3], [1, 0, 2], [2, 2, 2]])
    gathered = x.gather(1, index)
    scattered = torch.zeros(3, 4, dtype=torch.float64).scatter_add(1, index, gathered)
    taken = torch.take_along_dim(x, x.argsort(dim=1), dim=1)
    chosen = x.index_select(0, torch.tensor([2, 2, 0]))
    filled = x.masked_fill(x > 0, 0.5).index_add(0, torch.tensor([0, 0, 1]), chosen)
    replaced = torch.where(x.abs() < 1, x, torch.zeros_like(x))
    (scattered.sum() + (taken * 2).prod(1).sum() + filled.pow(2).sum() + replaced.sum()).backward()
    return [gathered, scattered, taken, chosen, filled, replaced, x.grad, torch.nonzero(x > 0),
            torch.argwhere(x < 0)]


def program_index_errors(torch):
    x = torch.zeros(2, 3)
    return [
        outcome(lambda: x[2]),
        outcome(lambda: x[0, 0, 0]),
        outcome(lambda: x[torch.tensor([5])]),
        outcome(lambda: x[torch.tensor([True, False, True])], 3),
        outcome(lambda: x[1.0], 0),
        outcome(lambda: x.gather(2, torch.zeros(1, 1, dtype=torch.int64))),
        outcome(lambda: x.index_select(0, torch.zeros(1, 1, dtype=torch.int64)), 1),
        outcome(lambda: x[::-1], 3),
        outcome(lambda: x.__setitem__(0, torch.zeros(2)), 3),
    ]
