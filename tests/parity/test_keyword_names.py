"""Every argument can be given by the name that PyTorch's schemas and signatures have for it."""

from __future__ import annotations

import collections
import inspect
import operator
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import registry

NAMES = sorted({name for op in registry.ops.values() if op.provider.builtin for name in op.names})
ROOMS = {"linalg": "linalg_", "special": "special_", "fft": "fft_"}
# For a reason: the names that PyTorch has and we have not.
KNOWN = {
    "which library of NVIDIA's computes, or in which dtype its products are": """
        Tensor.addmm: out_dtype, Tensor.baddbmm: out_dtype, Tensor.bmm: out_dtype, Tensor.mm: out_dtype,
        addmm: out_dtype, baddbmm: out_dtype, bmm: out_dtype, mm: out_dtype, group_norm: cudnn_enabled,
        layer_norm: cudnn_enable""",
    "of overloads that staged programs alone can call, or of PyTorch's own steps": """
        Tensor.eq: a b, Tensor.ne: a b, eq: a b, ne: a b, Tensor.sort: reverse, sort: reverse, normal: input,
        Tensor.expand: implicit, expand_copy: implicit, nn.functional.elu_: scale input_scale,
        _lu_with_info: input check_errors""",
    "what `to` takes may stand in any order, and is looked at itself": "Tensor.to: other layout pin_memory",
    "one name stands for the tensor and for the number": "isin: test_element element",
    "a view of another dtype is asked for without the name, or by the method": "Tensor.view: dtype, view_copy: dtype",
    "slopes are drawn from the library's own generator":
        "rrelu: generator, rrelu_: generator, nn.functional.rrelu_: generator",
}  # fmt: skip
LACKING = {
    op.strip(): set(names.split())
    for listed in KNOWN.values()
    for op, _, names in (entry.partition(":") for entry in listed.split(","))
}


def schemas() -> dict:
    """The names of the arguments of PyTorch's native functions that take tensors, in the order of their overloads."""
    found: dict = collections.defaultdict(dict)
    for schema in torch._C._jit_get_all_schemas():
        if schema.name.startswith("aten::") and any("Tensor" in str(one.type) for one in schema.arguments):
            names = [one.name for one in schema.arguments if not one.is_out]
            found[schema.name.removeprefix("aten::")].update(dict.fromkeys(names))
    return found


SCHEMAS = schemas()


def names_of(function, packed) -> list:
    """The names by which a function takes arguments; if asked for, that of those that are packed into one, too."""
    kinds = {"POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY", "VAR_POSITIONAL" if packed else ""}
    return [name for name, one in inspect.signature(function).parameters.items() if one.kind.name in kinds]


def wanted(dotted) -> list:
    """The names that a function of PyTorch's takes its arguments by; that of a method's tensor is not one."""
    theirs, is_method = operator.attrgetter(dotted)(torch), dotted.startswith("Tensor.")
    if inspect.isfunction(theirs):
        return names_of(theirs, False)[is_method:]
    room, _, name = dotted.rpartition(".")
    names = SCHEMAS[ROOMS.get(room, "") + name]
    return [{"self": "input", "from": "from_"}.get(one, one) for one in names if not is_method or one != "self"]


def is_there(dotted) -> bool:
    try:
        return callable(operator.attrgetter(dotted)(torch)) and callable(operator.attrgetter(dotted)(plugrad))
    except AttributeError:
        return False


@pytest.mark.parametrize("dotted", [name for name in NAMES if is_there(name)])
def test_names_of_arguments(dotted):
    lacking = set(wanted(dotted)) - set(names_of(operator.attrgetter(dotted)(plugrad), True))
    assert lacking == LACKING.get(dotted, set())


def test_keywords_are_taken():
    x = plugrad.eye(2)
    assert plugrad.linalg.eigvalsh(input=x).tolist() == plugrad.linalg.svdvals(A=x).tolist() == [1, 1]
    assert plugrad.swapaxes(plugrad.zeros(2, 3), axis0=0, axis1=1).shape == x.new_zeros(2, 3).swapaxes(1, axis1=0).shape
    assert plugrad.det(input=x) == plugrad.linalg.det(A=x) == plugrad.inverse(input=x).sum() / 2 == 1
    assert plugrad.linalg.lstsq(input=x, b=x).solution.equal(x) and plugrad.cholesky_solve(x, input2=x).equal(x)
