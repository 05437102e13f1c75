"""More functions that are scripted, with arguments: CASES."""

# ruff: noqa: B007, F821, F841, UP006, UP031, UP035, UP045

import math
from typing import Dict, List, Optional, Tuple, Union

import torch
from torch import nn

F = nn.functional


def lists_and_dicts_together(xs: List[torch.Tensor], w: Dict[str, torch.Tensor]):
    out = []
    for i, (x, k) in enumerate(zip(xs, ["a", "b"])):
        if k in w:
            out.append(x * w[k] * i)
        else:
            continue
    if len(out) == 0:
        return torch.zeros(1)
    return torch.stack(out).sum(0)


def dict_by_names():
    return dict(a=1, b=2), dict(c=[1, 2])


def dict_of_pairs_and_names(n: int):
    return dict([("a", n), ("b", 2)], b=3, c=n)


def enumerates_from(xs: List[int]):
    total = 0
    for i, x in enumerate(xs, 2):
        total += i * x
    return total


def zip_by_name(xs: List[int]):
    return [a + b for a, b in zip(xs, xs, strict=True)]


def round_by_name(x: float):
    return round(x, ndigits=1)


def sum_by_name(xs: List[int]):
    return sum(xs, start=5)


def chosen_by_a_text(x, mode: str):
    if mode == "sum":
        return x.sum()
    elif mode == "mean":
        return x.mean()
    else:
        raise NotImplementedError(mode)


def found_in_a_loop(x):
    y: Optional[torch.Tensor] = None
    for i in range(x.size(0)):
        if i == 1:
            y = x[i]
    if y is None:
        return x[0]
    return y


def returns_from_a_loop(x, n: int):
    for i in range(n):
        if i > 2:
            return x * i
    return x


def dict_of_lists(d: Dict[int, List[int]]):
    t = 0
    for k in d.keys():
        for v in d[k]:
            t += v * k
    d[100] = [1]
    del d[100]
    return t, sorted(list(d.keys())), d.get(5)


def nested_comprehension(x):
    a = [[1, 2], [3]]
    b = [i for r in [1, 2] for i in [r]] if False else [1]
    a[0].append(4)
    return a, b, x.tolist() if False else 0


def arithmetic(x):
    def_ = x.new_zeros(x.shape)
    q, r = divmod(7, 2)
    c = math.ceil(2.5) + math.floor(1.5)
    return (
        def_,
        q,
        r,
        c,
        7 // 2 * 1.0,
        -7 % 3,
        2**0.5,
        abs(-2.5),
        round(2.5),
        int(3.9),
        float("1.5"),
        str(3),
        bool(0),
        1 if x.dim() == 2 else 0,
    )


def masks_and_items(x, idx):
    y = x.clone()
    y[idx > 0] = 0
    y[0, 0] = 5.0
    y[:, -1] += 1
    return y, x[idx > 0], x[[0, 1]], x[torch.tensor([1, 0])]


def tuple_and_optional_list(x: Tuple[torch.Tensor, int], y: Optional[List[int]] = None):
    t, n = x
    m = n if y is None else n + len(y)
    return t * m, x[0], x[-1]


def texts(x):
    try_me = "ab"
    s = f"{try_me}-{x.size(0)}!"
    return (
        s.split("-"),
        s.replace("a", "c"),
        s.upper()[::-1],
        s[1:3],
        "b" in s,
        s == s,
        len(s),
        "x".join(["1", "2"]),
        "%s %d" % ("a", 3),
        s.find("b"),
    )


def loop_on_values(x):
    while x.sum() < 100:
        if x.max() > 50:
            break
        x = x * 2 + 1
    else_ = x
    return else_


def optional_flag(x, flag: Optional[bool] = None):
    if flag is not None and flag:
        return x + 1
    if not (flag is None or flag):
        return x - 1
    return x


def returns_from_a_block(x):
    with torch.no_grad():
        a = x * 2
        if bool(a.sum() > 0):
            return a
    return x


def several_results(x):
    a, b = torch.max(x, dim=1)
    v, i = x.sort(dim=1, descending=True)
    t = torch.topk(x, 2)
    s = x.split([1, 1], dim=0)
    u = x.unbind(0)
    return (
        a,
        b,
        v,
        i,
        t.values,
        t[1],
        s[0],
        len(u),
        x.chunk(3, 1)[2],
        x.max(),
        torch.max(x, x + 1),
        x.std(),
        torch.var_mean(x),
        torch.where(x > 2, x, -x),
        torch.nonzero(x > 2),
    )


def functional(x):
    return (
        F.softmax(x, dim=-1),
        F.log_softmax(x, 1),
        F.relu(x),
        F.gelu(x),
        F.layer_norm(x, [3]),
        F.pad(x, [1, 1]),
        F.one_hot(torch.tensor([0, 1]), 3),
        F.cross_entropy(x, torch.tensor([0, 1])),
        F.mse_loss(x, x),
        torch.einsum("ij->ji", x),
        torch.bmm(x[None], x.t()[None]),
        x @ x.T,
    )


def operators_of_numbers(a: int, b: float, c: bool):
    return (
        a + b,
        a * b,
        a / 2,
        a // 2,
        b // 1,
        a > b,
        c and a > 0,
        c or b > 0,
        not c,
        a == 1,
        -a,
        a << 1,
        a & 3,
        max(a, 2),
        min(b, 1.0),
        a if c else -a,
        a != b,
    )


def list_operators(x):
    l = [x, x + 1]
    l[0] = x * 2
    l += [x]
    m = l[1:] + l[:1]
    n = [0] * 3
    k = l.copy()
    k.clear()
    return torch.cat(m), n, len(k), l[-1]


def written_in_place(x):
    x.add_(1).mul_(2)
    x.zero_()
    x.fill_(3)
    y = torch.empty(2, 3).copy_(x)
    y.transpose_(0, 1)
    return x, y, x.add(1, alpha=2), torch.add(x, x, alpha=3), x.clamp(min=0, max=1), x.clamp_(0.0, 2.0)


def factories(x):
    return (
        torch.full([2], 3.5),
        torch.ones_like(x),
        torch.eye(2),
        torch.arange(1, 5, 2),
        torch.linspace(0, 1, 3),
        torch.randn(2, 3).shape,
        torch.zeros([2, 2], dtype=torch.int64),
        torch.empty(0).numel(),
        torch.tensor([[1.5]]),
        torch.as_tensor([1]),
    )


def union_of_three(x, y: Union[int, float, str]):
    if isinstance(y, int):
        return x * y
    elif isinstance(y, str):
        return x * len(y)
    return x


def recursive_function(n: int):
    if n <= 1:
        return 1
    return n * recursive_function(n - 1)


def no_such_op(x):
    return torch.foo(x)


def tensor_and_text(x):
    return x + "a"


def list_of_two_types(x):
    return [1, "a"]


def other_return_type(x: int) -> str:
    return x


def argument_of_another_type(x, y: int):
    x = y
    return x


def other_type_in_a_loop_after_branches(x):
    if x.sum() > 0:
        z = 1
    else:
        z = 2
    for i in range(3):
        z = "s"
    return z


def no_such_method_of_lists(x: List[int]):
    return x.foo()


def key_of_another_type(x: Dict[str, int]):
    return x[1]


def missing_argument(x):
    return F.conv2d(x, bias=3)


def too_many_arguments_of_size(x):
    return x.size(0, 1, 2)


def default_none_without_annotation(a, b=None):
    return a


def undefined_function(x):
    return undefined_name(x)


def unpacks_too_few(x):
    a, b, c = (1, 2)
    return a


def length_of_a_number(x):
    return len(5)


def set_argument(x, s: set):
    return x


def set_literal(x):
    return {1, 2}


def comprehension_over_rows(x):
    return [y for y in x if y.sum() > 0]


def builtins_of_lists(x):
    return (
        sum([1, 2, 3]),
        all([True, False]),
        any([True, False]),
        list(range(3)),
        [i for i in range(4)],
        {k: k * 2 for k in [1, 2]},
        [a + b for a, b in zip([1], [2])],
    )


def attributes_of_tensors(x):
    return (
        x.shape == [2, 3],
        x.size() == x.size(),
        x.dtype == torch.float32,
        x.device == torch.device("cpu"),
        x.is_cuda,
        x.requires_grad,
        x.ndim,
        x.is_floating_point(),
        x.numel(),
        x.stride(),
        x.is_contiguous(),
    )


x23 = torch.arange(6.0).view(2, 3)
def types_in_a_comment(x, n, names):
    # type: (torch.Tensor, int, Dict[str, List[int]]) -> Tuple[torch.Tensor, int]
    total: List[int] = []
    for one in names.values():
        total += one
    return x * n, sum(total)


def types_in_comments(
    x,  # type: torch.Tensor
    n=2,  # type: int
    y=None,  # type: Optional[torch.Tensor]
):
    # type: (...) -> torch.Tensor
    return x * n if y is None else x * n + y


def comment_without_a_result(x, n):
    """It has a docstring."""
    # type: (torch.Tensor, int)
    return x + n, n


def comment_of_too_few_types(x, n):
    # type: (int) -> int
    return n


def ellipsis_by_name(x):
    return x[0, Ellipsis], x[Ellipsis, 0].size()


if True:  # inside of something

    def text_of_several_lines(x):
        text = """first
second"""
        return text, len(text), x


CASES = [
    (types_in_a_comment, (x23, 3, {"a": [1, 2], "b": [3]})),
    (types_in_comments, (x23,)),
    (types_in_comments, (x23, 3, x23)),
    (comment_without_a_result, (x23, 2)),
    (comment_of_too_few_types, (x23, 2)),
    (ellipsis_by_name, (x23,)),
    (text_of_several_lines, (x23,)),
    (lists_and_dicts_together, ([x23, x23], {"b": x23})),
    (chosen_by_a_text, (x23, "mean")),
    (chosen_by_a_text, (x23, "q")),
    (found_in_a_loop, (x23,)),
    (returns_from_a_loop, (x23, 5)),
    (returns_from_a_loop, (x23, 1)),
    (dict_of_lists, ({2: [1, 2]},)),
    (nested_comprehension, (x23,)),
    (arithmetic, (x23,)),
    (masks_and_items, (x23.clone(), x23)),
    (tuple_and_optional_list, ((x23, 2), [1])),
    (texts, (x23,)),
    (loop_on_values, (x23,)),
    (optional_flag, (x23,)),
    (optional_flag, (x23, False)),
    (optional_flag, (x23, True)),
    (returns_from_a_block, (x23,)),
    (several_results, (x23,)),
    (functional, (x23,)),
    (operators_of_numbers, (3, 1.5, True)),
    (list_operators, (x23,)),
    (written_in_place, (x23.clone(),)),
    (factories, (x23,)),
    (union_of_three, (x23, "ab")),
    (union_of_three, (x23, 2)),
    (recursive_function, (3,)),
    (no_such_op, (x23,)),
    (tensor_and_text, (x23,)),
    (list_of_two_types, (x23,)),
    (other_return_type, (1,)),
    (argument_of_another_type, (x23, 1)),
    (other_type_in_a_loop_after_branches, (x23,)),
    (no_such_method_of_lists, ([1],)),
    (key_of_another_type, ({"a": 1},)),
    (missing_argument, (x23,)),
    (too_many_arguments_of_size, (x23,)),
    (default_none_without_annotation, (x23,)),
    (undefined_function, (x23,)),
    (unpacks_too_few, (x23,)),
    (length_of_a_number, (x23,)),
    (set_argument, (x23, 1)),
    (set_literal, (x23,)),
    (comprehension_over_rows, (x23,)),
    (builtins_of_lists, (x23,)),
    (dict_by_names, ()),
    (dict_of_pairs_and_names, (4,)),
    (enumerates_from, ([3, 4],)),
    (zip_by_name, ([3, 4],)),
    (round_by_name, (2.25,)),
    (sum_by_name, ([3, 4],)),
    (attributes_of_tensors, (x23,)),
]
