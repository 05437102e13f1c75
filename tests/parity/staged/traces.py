"""Functions that are traced, with examples and further arguments: TRACES.

`torch` is PyTorch or plugrad: the file is imported under both, see staged_twice.
"""

import torch
from torch import nn


def flat_rows(x):
    return x.view(x.size(0), -1) * x.shape[0]


def joined_and_max(x, y):
    return torch.cat([x, y], dim=1).relu().sum(dim=0), x.max(dim=1)


def matrix_of_zeros(x):
    y = torch.zeros(x.size(0), 2)
    y[:, 0] = x[:, 0]
    y += 1
    return y.t() @ x


def halves(x):
    a, b = x.chunk(2, dim=0)
    return a - b, x[0:1, None], x[..., -1], x.T


def sum_of_dict(d):
    return d["a"] + d["b"]


def sum_of_list(xs):
    return xs[0] + xs[1]


def detached(x):
    return x.detach() * 2, x.data + 1


def written_in_place(x):
    z = x.clone()
    z.mul_(2)
    z[0].add_(1)
    return z


def sizes_in_calls(x):
    return x.reshape(x.numel() // 2, 2), torch.arange(x.size(0) * 2), x.new_zeros(x.shape)


def conversions(x):
    return x.to(torch.float64), x.float(), x.masked_fill(x > 2, 0.0), torch.where(x > 1, x, -x)


def decided_by_values(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def constants(x):
    return x * torch.tensor(2.0) + K


K = torch.ones(1)


def einsum_and_stack(x):
    return torch.einsum("ij,kj->ik", x, x), torch.stack([x, x]).permute(2, 0, 1).contiguous()


def resized(x):
    return (
        nn.functional.interpolate(x[None, None], scale_factor=2.0),
        nn.functional.pad(x, (1, 1)),
        nn.functional.softmax(x, -1),
    )


def returns_a_dict(x):
    return {"a": x}


def returns_a_list(x):
    return [x, x]


def returns_a_number(x):
    return 3


def shapes_changed(x):
    return x.expand(2, x.size(0), -1), x.repeat(2, 1), x.unsqueeze(0).squeeze(0), x.transpose(0, 1), x.split(1)


def padded(x):
    return torch.nn.utils.rnn.pad_sequence([x[0], x[1, :1]]), x.std(), x.var(dim=0), x.norm()


def operators(x):
    return x**2, 2**x, 1 / (x + 1), 5 - x, -x, abs(x), x // 2, x % 2, x == 1, ~(x > 1)


@torch.jit.script
def clampy(x, n: int = 2):
    if bool(x.sum() > 0):
        r = x * n
    else:
        r = -x
    return r


def calls_a_script_function(x):
    return clampy(x) + 1


def square_root_of_a_size(x):
    return torch.sqrt(torch.tensor(float(x.shape[1]))) * x


x23 = torch.arange(6.0).view(2, 3)
TRACES = [
    (flat_rows, (x23,), (torch.ones(5, 3),)),
    (joined_and_max, (x23, x23), (torch.ones(5, 3), torch.ones(5, 2))),
    (matrix_of_zeros, (x23,), (torch.ones(5, 3),)),
    (halves, (x23,), (torch.ones(4, 3),)),
    (sum_of_dict, ({"a": x23, "b": x23},), None),
    (sum_of_list, ([x23, x23],), None),
    (detached, (x23,), (x23 + 1,)),
    (written_in_place, (x23,), (torch.ones(5, 3),)),
    (sizes_in_calls, (x23,), (torch.ones(4, 3),)),
    (conversions, (x23,), (torch.ones(4, 3),)),
    (decided_by_values, (x23,), (-x23,)),
    (constants, (x23,), None),
    (einsum_and_stack, (x23,), (torch.ones(4, 3),)),
    (resized, (x23,), (torch.ones(4, 3),)),
    (returns_a_dict, (x23,), None),
    (returns_a_list, (x23,), None),
    (returns_a_number, (x23,), None),
    (shapes_changed, (x23,), None),
    (padded, (x23,), None),
    (operators, (x23,), None),
    (calls_a_script_function, (x23,), (-x23 - 1,)),
    (square_root_of_a_size, (x23,), None),
]
