"""Ints in the place of a tuple: which methods take several, and that functions take the tuple, as in PyTorch."""

import re

import pytest

import plugrad
from plugrad import registry

torch = pytest.importorskip("torch")
if torch:
    import misuse_calls

CALLS = (
    "f(x, 0)", "f(x, 1)", "f(x, 0, 1)", "f(x, 1, 0)", "f(x, 2, 3)", "f(x, 1, 2, 3)", "f(x, (0, 1))", "f(x, [1, 0])",
    "f(x, {name}=0)", "f(x, {name}=(1, 0))", "f(x, (0,), 1)", "f(x, 0, (1,))", "f(x, None)", "f(x, 1.5)", "f(x)",
    "f(x, T.tensor(0))", "f(x, 0, T.tensor(1))", "f(x, True)", "f(x, 0, True)", "f(x, T.Size([1, 0]))",
)  # fmt: skip


def outcome(T, name, call):
    """Return the shape of what a call returns, or the type of its error."""
    function = T
    for part in name.split("."):
        function = getattr(function, part, None)
    if function is None:
        return None
    try:
        result = eval(call, {"T": T, "f": function, "x": T.zeros(2, 3)})
    except Exception as error:
        return type(error)
    return [tuple(one.shape) for one in result] if isinstance(result, (tuple, list)) else tuple(result.shape)


def names():
    """Yield (public name, the parameter after the tensor) of all that takes a tuple of ints there."""
    misuse_calls.load_everything()
    for op in list(registry.ops.values()):
        second = op.parameters[1] if op.module.startswith("plugrad.") and len(op.positional) > 1 else None
        if second in op.known_kinds and "tuple of ints" in op.known_kinds[second].words:
            yield from ((name, second) for name in op.names if not name.startswith(("nn.", "masked.")))


# Calls that differ on purpose: pattern, and the reason.
KNOWN = {
    r"squeeze(_copy)?: f\(x, None\)": "None is the default, which stands for all dimensions",
    r"split: f\(x, indices_or_sections=": "our name for what is given by position",
    r"adaptive_max_pool1d: f\(x, 0, True\)": "the function takes return_indices by position, as that of nn.functional",
    r"Tensor\.(resize_|permute): f\(x, 0, True\)": "a bool is no dimension and no size",
}


def test_what_stands_for_a_tuple_of_ints_is_as_in_pytorch():
    differ, count = [], 0
    for name, second in names():
        for call in CALLS:
            call = call.format(name=second)
            theirs, ours = outcome(torch, name, call), outcome(plugrad, name, call)
            count += 1
            known = any(re.search(pattern, f"{name}: {call}") for pattern in KNOWN)
            if theirs is None or theirs == ours or known or is_error(theirs) and is_error(ours):
                continue
            differ.append(f"{name}: {call}: {theirs} expected, {ours} found")
    assert count > 1000
    assert not differ, "\n".join(differ)


def is_error(what) -> bool:
    """Whether an outcome is an error."""
    return isinstance(what, type)


NAMED = (
    "T.tensor_split(x, sections=2)", "T.tensor_split(x, indices=(1,))", "T.hsplit(x, indices=(1,))",
    "x.hsplit(sections=3)", "x.vsplit(indices=(1,))", "x.tensor_split(indices=(1,), dim=1)", "x.split(split_size=1)",
    "T.tensor_split(x, tensor_indices_or_sections=T.tensor(1))", "T.split(x, split_size_or_sections=1)",
    "x.split(split_size=[1, 1], dim=0)", "x.split()", "x.tensor_split()", "T.tensor_split(x, 2, sections=2)",
    "x.tensor_split(indices=2)", "x.hsplit(sections=(1,))", "x.squeeze(axis=0)", "x.count_nonzero(axis=0)",
    "T.special.chebyshev_polynomial_t(x=x, n=2)", "T.special.hermite_polynomial_h(x=x, n=1)",
)  # fmt: skip


@pytest.mark.parametrize("call", NAMED)
def test_the_names_of_all_overloads_are_taken(call):
    theirs, ours = outcome(torch, "zeros", call), outcome(plugrad, "zeros", call)
    assert theirs == ours


def test_function_and_method_know_what_they_are():
    class Noting(plugrad.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = plugrad.zeros(2, 3).as_subclass(Noting)
    x.permute(1, 0), plugrad.permute(x, (1, 0)), x.squeeze(0, 1), plugrad.squeeze(x, 0)
    assert Noting.seen == [plugrad.Tensor.permute, plugrad.permute, plugrad.Tensor.squeeze, plugrad.squeeze]
    assert plugrad.permute is not plugrad.Tensor.permute
