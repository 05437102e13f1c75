"""Which dtype comes out, for every pair of dtypes and Python numbers."""
import functools

from .common import outcome

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64",
         "complex128")


def program_promotion_matrix(torch):
    def name(result):  # plugrad's narrowest complex type is complex64, since NumPy has no other
        return str(result.dtype).split(".")[-1].replace("complex32", "complex64")

    table = []
    for left in NAMES:
        a = torch.ones(2, dtype=getattr(torch, left))
        for right in NAMES:
            b = torch.ones(2, dtype=getattr(torch, right))
            table.append([name(x + y) for x, y in ((a, b), (a, b[0]), (a[0], b))])
        table.append([name(a * number) for number in (True, 2, 2.0, 2j)])
    return table


ACTIONS = (
    lambda torch, x: x.sum(), lambda torch, x: x.prod(), lambda torch, x: x.mean(), lambda torch, x: x / x,
    lambda torch, x: x // x, lambda torch, x: x ** 2, lambda torch, x: x.exp(), lambda torch, x: x > 0,
    lambda torch, x: x.cumsum(0), lambda torch, x: -x, lambda torch, x: x - x, lambda torch, x: x @ x,
    lambda torch, x: x.argmax(), lambda torch, x: x.abs(), lambda torch, x: torch.where(x == 1, x, 0),
    lambda torch, x: x.logical_not(),
)


def program_result_types(torch):
    rows = []
    for name in NAMES:
        x = torch.ones(2, 2, dtype=getattr(torch, name))
        rows.append([outcome(functools.partial(action, torch, x), 0) for action in ACTIONS])
    return rows


def program_creation_types(torch):
    values = [1, 1.5, True, 1j, [1, 2], [1, 2.5], [True, 2], [[1.0], [2]], []]
    tensors = [torch.tensor(value) for value in values]
    more = [torch.arange(3), torch.arange(0, 1, 0.25), torch.full((2,), 3), torch.full((2,), True),
            torch.eye(2), torch.linspace(0, 1, 3), torch.zeros(2).long(), torch.ones(2).new_tensor([1, 2]),
            torch.ones(2, dtype=torch.int32).new_zeros(3), torch.zeros_like(tensors[0], dtype=torch.float16)]
    previous = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        more += [torch.tensor(1.5), torch.zeros(1), torch.ones(1, dtype=torch.int64) * 1.5, torch.tensor(1j)]
    finally:
        torch.set_default_dtype(previous)
    return [*tensors, *more, torch.finfo(torch.float32).eps, torch.iinfo(torch.int8).max,
            torch.can_cast(torch.float32, torch.int64), torch.promote_types(torch.uint8, torch.int8)]


def program_broadcasting(torch):
    a = torch.tensor([[1.0], [2.0], [3.0]], requires_grad=True)
    b = torch.tensor([10.0, 20.0], requires_grad=True)
    c = torch.tensor(0.5, requires_grad=True)
    y = (a + b) * c - a / b
    (y ** 2).sum().backward()
    return [y, a.grad, b.grad, c.grad, torch.broadcast_shapes((3, 1), (2,)), *torch.broadcast_tensors(a, b),
            outcome(lambda: torch.ones(3) + torch.ones(2), 4)]
