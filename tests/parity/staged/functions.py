"""Functions that are scripted, right and wrong ones, with arguments: CASES.

`torch` is PyTorch or plugrad: the file is imported under both, see staged_twice.
"""

# ruff: noqa: B007, F821, F841, UP006, UP031, UP035, UP045

import math
from typing import Any, List, NamedTuple, Optional, Union

import torch


def power_of_integers(a: int, b: int):
    return a**b


def floats(a: float):
    return a


def two_types(x, c: bool):
    if c:
        y = 1
    else:
        y = x
    return y


def undefined_in_a_branch(x, c: bool):
    if c:
        y = x
    return y


def raises(x):
    raise ValueError("bad %d" % 3)


def asserts(x):
    assert x.sum() > 100, "too small"
    return x


def reads_a_global(x):
    return x + G


G = 3


def shape_of(x):
    return x.shape


def chunks(x):
    return x.chunk(2)


def max_with_indices(x):
    return torch.max(x, 1)


def optional_not_refined(x: Optional[torch.Tensor]):
    return x + 1


def list_written(x: List[int]):
    x.append(3)
    return x


def has_a_lambda(x):
    return (lambda y: y)(x)


def has_a_try(x):
    try:
        return x
    except ValueError:
        return x


def integer_division(a: int, b: int):
    return a // b, a / b, a % b


def list_as_condition(x: List[int]):
    if x:
        return 1
    return 0


def formats_a_tensor(a: int, x):
    return f"v {a} {x}"


def format_with_a_spec(a: float):
    return f"{a:.2f}"


def format_method(a: int):
    return "{} {}".format(a, "x")


def percent_format(a: int):
    return "%d-%s" % (a, "q")


def item(x):
    return x.item()


def item_plus_one(x):
    y = x.item()
    return y + 1


def two_return_types(x, c: bool):
    if c:
        return x
    return 1


def returns_none_or_tensor(x, c: bool):
    if c:
        return None
    return x


def too_many_arguments(x):
    return torch.relu(x, 1, 2)


def no_such_method(x):
    return x.foo()


def recursive(x):
    return recursive(x)


def variadic(*x):
    return x


def keyword_variadic(x, **k):
    return x


def default_of_int(x, n: int = 3):
    return x * n


def default_without_annotation(x, n=3):
    return x * n


class P(NamedTuple):
    a: torch.Tensor
    b: int


def named_tuple(x):
    return P(x, 2)


def ternary_of_integers(x, b: bool):
    x = 1 if b else 2
    return x


def assigned_twice(x):
    y = 1
    y = x
    return y


def set_in_a_loop_only(x):
    for i in range(3):
        z = x
    return z


def other_type_in_a_loop(x):
    y = None
    for i in range(3):
        y = x
    return y


def empty_list_of_tensors(x):
    l = []
    l.append(x)
    return l


def empty_list_of_something_else(x):
    l = []
    l.append(1)
    return l


def tuple_by_variable(x, i: int):
    t = (x, 1)
    return t[i]


def list_index_out_of_range(x: List[int]):
    return x[10]


def and_of_integers(x: int, y: int):
    return x and y


def falls_off_the_end(x) -> torch.Tensor:
    if x.sum() > 0:
        return x


def may_fall_off_the_end(x):
    if x.sum() > 0:
        return x


def dicts(x):
    d = {"a": x}
    d["b"] = x + 1
    s = x
    for k, v in d.items():
        s = s + v
    return s, len(d), "a" in d, list(d.keys())


def comprehension_with_if(x: List[int]):
    return [i * 2 for i in x if i > 1]


def while_with_break(x):
    i = 0
    while True:
        i += 1
        if i > 5:
            break
        if i == 2:
            continue
        x = x + i
    return x


def union_refined(x: Union[int, str]):
    if isinstance(x, int):
        return x + 1
    else:
        return len(x)


def any_refined(x: Any):
    if isinstance(x, int):
        return x
    return 0


def iterates_a_tensor(x):
    s = 0.0
    for r in x:
        s += float(r.sum())
    return s


def dtypes(x):
    return torch.zeros([2, 3], dtype=torch.float64) + x.to(torch.float64), x.dtype, x.device


def conversions(x):
    return int(x), float(x), bool(x)


def math_and_infinity(x):
    return x * float("inf"), math.sqrt(2.0), math.pi


def raises_in_a_branch(x, b: bool):
    if b:
        raise RuntimeError("no")
    else:
        y = x
    return y


def keyword_only(a: int = 1, *, b: int = 2):
    return a + b


def slices_of_lists(x: List[int]):
    return x[1:], x[::2], x[-1]


def strings(s: str):
    return s.upper(), s.split(","), s[0], s + "a", s.startswith("a")


def without_grad(x):
    with torch.no_grad():
        y = x * 2
    return y


def augmented(x):
    x += 1
    return x


def nested_function(x):
    def g(y):
        return y

    return g(x)


def chained_comparison(x: int):
    return 0 < x < 5


def named_expression(x: int):
    return (y := x)


def ternary_with_none(x, b: bool):
    return x if b else None


def prints(x):
    print("hi", x.shape)


def unpacks_a_list(x: List[torch.Tensor]):
    a, b = x
    return a + b


def unpacks_nested_tuples(x):
    (a, b), c = (x, 1), 2
    return a, b, c


def builtins_of_numbers(x: int, y: int):
    return max(x, y), min(x, y), abs(x), max([1, 2]), sum([1, 2]), round(1.5)


def sets_an_attribute_of_a_tensor(x):
    x.foo = 1
    return x


def says_global(x):
    global G
    return x


def yields(x):
    yield x


def deletes_a_name(x):
    y = x
    del y
    return y


def tensor_is_none(x):
    return x is None


def compares_a_tensor(x):
    return x == 1


def complex_numbers(x):
    return x * 1j


def ellipsis_and_none(x):
    return x[..., 0], x[None], x[:, -1:]


def writes_items(x):
    x[0] = 5
    x[1:] += 2
    return x


def bit_operators(a: int, b: int):
    return a & b, a | b, a ^ b, a << b, ~a, -a


def not_of_a_tensor(x):
    return not x


def optional_as_condition(x: Optional[int]):
    if x:
        return 1
    return 0


def number_of_elements(x):
    return x.numel() * 2.5


def sizes(x):
    n, c = x.shape
    return x.view(n * c), x.size()[0], x.shape[-1]


def lengths(x):
    return len(x), len(x.shape)


def asserts_not_none(x: Optional[torch.Tensor]):
    assert x is not None
    return x + 1


def early_return_refines(x: Optional[torch.Tensor], y: Optional[torch.Tensor]):
    if x is None or y is None:
        return torch.zeros(1)
    return x + y


def makes_tensors(x):
    return torch.tensor([1, 2, 3]), torch.tensor(1.5), torch.tensor([[1.0, 2.0]])


def list_methods(x: List[int]):
    x.sort()
    y = sorted([3, 1])
    x.insert(0, 5)
    x.extend([1])
    x.reverse()
    p = x.pop()
    return x, y, p, x.index(5), x.count(1)


def does_nothing(x):
    pass


def grad_of(x):
    return x.grad


def ternary_of_two_types(a: int):
    return a if a > 1 else 2.0


def sums_by_keyword(x):
    return torch.sum(x, dim=0, keepdim=True), x.sum(dim=[0, 1])


def unknown_keyword(x):
    return torch.sum(x, foo=1)


def strings_of_numbers(x: float):
    return str(x), str(1), str(True)


x = torch.arange(6.0).view(2, 3)
CASES = [
    (power_of_integers, (2, 3)),
    (power_of_integers, (2, -1)),
    (floats, (1,)),
    (two_types, ()),
    (undefined_in_a_branch, ()),
    (raises, (torch.ones(1),)),
    (asserts, (torch.ones(1),)),
    (reads_a_global, ()),
    (shape_of, (torch.ones(2, 3),)),
    (chunks, (torch.ones(2),)),
    (max_with_indices, (torch.ones(2, 2),)),
    (optional_not_refined, ()),
    (list_written, ([1],)),
    (has_a_lambda, ()),
    (has_a_try, ()),
    (integer_division, (-7, 2)),
    (list_as_condition, ([],)),
    (formats_a_tensor, (1, torch.ones(2))),
    (format_with_a_spec, (1.0,)),
    (format_method, (1,)),
    (percent_format, (1,)),
    (item, (torch.ones(()),)),
    (item_plus_one, (torch.ones(()),)),
    (two_return_types, ()),
    (returns_none_or_tensor, (torch.ones(1), False)),
    (too_many_arguments, ()),
    (no_such_method, ()),
    (recursive, ()),
    (variadic, ()),
    (keyword_variadic, ()),
    (default_of_int, (torch.ones(1),)),
    (default_without_annotation, (torch.ones(1),)),
    (floats, (torch.ones(1),)),
    (shape_of, (3,)),
    (shape_of, (1, 2)),
    (list_written, ([1.5],)),
    (named_tuple, (x,)),
    (ternary_of_integers, (x, True)),
    (assigned_twice, (x,)),
    (set_in_a_loop_only, (x,)),
    (other_type_in_a_loop, (x,)),
    (empty_list_of_tensors, (x,)),
    (empty_list_of_something_else, (x,)),
    (tuple_by_variable, (x, 1)),
    (list_index_out_of_range, ([1],)),
    (and_of_integers, (2, 3)),
    (falls_off_the_end, (x,)),
    (may_fall_off_the_end, (x,)),
    (dicts, (x,)),
    (comprehension_with_if, ([1, 2, 3],)),
    (while_with_break, (x,)),
    (union_refined, (3,)),
    (any_refined, (3,)),
    (iterates_a_tensor, (x,)),
    (dtypes, (x,)),
    (conversions, (x[0, 0],)),
    (math_and_infinity, (x,)),
    (raises_in_a_branch, (x, False)),
    (raises_in_a_branch, (x, True)),
    (keyword_only, ()),
    (slices_of_lists, ([1, 2, 3],)),
    (strings, ("ab,c",)),
    (without_grad, (x,)),
    (augmented, (x.clone(),)),
    (nested_function, (x,)),
    (chained_comparison, (3,)),
    (named_expression, (1,)),
    (ternary_with_none, (x, True)),
    (prints, (x,)),
    (unpacks_a_list, ([x, x],)),
    (unpacks_nested_tuples, (x,)),
    (builtins_of_numbers, (1, 2)),
    (sets_an_attribute_of_a_tensor, (x,)),
    (says_global, (x,)),
    (yields, (x,)),
    (deletes_a_name, (x,)),
    (tensor_is_none, (x,)),
    (compares_a_tensor, (x,)),
    (complex_numbers, (x,)),
    (ellipsis_and_none, (x,)),
    (writes_items, (x.clone(),)),
    (bit_operators, (5, 3)),
    (not_of_a_tensor, (x.sum(),)),
    (optional_as_condition, (2,)),
    (number_of_elements, (x,)),
    (sizes, (x,)),
    (lengths, (x,)),
    (asserts_not_none, (None,)),
    (early_return_refines, (x, None)),
    (makes_tensors, (x,)),
    (list_methods, ([2, 1],)),
    (does_nothing, (x,)),
    (grad_of, (x,)),
    (ternary_of_two_types, (1,)),
    (sums_by_keyword, (x,)),
    (unknown_keyword, (x,)),
    (strings_of_numbers, (1.0,)),
]
