"""The kinds of parameters against PyTorch's own declarations: what a schema takes is taken here, nothing else."""

import collections

import pytest

from plugrad import registry
from plugrad.arguments.kinds import kind
from plugrad.testing import samples_of

torch = pytest.importorskip("torch")
if torch:
    import misuse_calls

# PyTorch's types of arguments, as ours; a size `N` says that one int may stand for all.
TYPES = {
    "int": "int", "float": "float", "bool": "bool", "number": "number", "str": "str", "Tensor": "tensor",
    "List[int]": "ints", "List[float]": "floats", "List[Tensor]": "tensors", "Device": "device",
    "Generator": "generator",
}  # fmt: skip
CONSTANTS = ("dtype", "layout", "memory_format", "reduction", "interpolation_mode", "padding_mode")  # ints in schemas
VALUES = {"int": 1, "float": 1.5, "bool": True, "number": 1j, "str": "a", "ints": (1, 2), "None": None}


def schemas():
    found = collections.defaultdict(list)
    for schema in torch._C._jit_get_all_schemas():
        parts = (*schema.arguments, *schema.returns)
        if schema.name.startswith("aten::") and any("Tensor" in str(part.type) for part in parts):
            found[schema.name[6:]].append(schema)
    return found


def declared(op, found):
    """Return {parameter: alternatives} of all schemas of an op's public names."""
    types = collections.defaultdict(set)
    names = {name.removeprefix("Tensor.").replace(".", "_") for name in op.names if not name.startswith("nn.")}
    for name in names:
        for schema in found[name]:
            for argument in schema.arguments:
                text = str(argument.type)
                if text.startswith("Optional["):
                    types[argument.name].add("None")
                    text = text[9:-1]
                if text in TYPES:
                    types[argument.name].add(TYPES[text])
                    if argument.N:
                        types[argument.name].add("int")
                else:
                    types[argument.name].add(text)
    return types


def differences():
    misuse_calls.load_everything()
    found = schemas()
    for op in list(registry.ops.values()):
        theirs = declared(op, found) if op.module.startswith("plugrad.") else {}
        for name, alternatives in theirs.items():
            ours = op.known_kinds.get(name)
            if name in CONSTANTS or ours is None or not alternatives <= {*TYPES.values(), "None"}:
                continue
            wanted = kind("|".join(sorted(alternatives - {"None"})) + "?" * ("None" in alternatives))
            for what, value in VALUES.items():
                absent = value is None and op.defaults.get(name, 0) is None
                if absent or what in ("int", "None") and name == op.variadic:
                    continue  # None stands for what was not given; what is packed may be one
                if wanted.fits(value) != ours.fits(value):
                    taken = "not " * ours.fits(value) + "taken"
                    yield op.name, name, f"{what} is {taken} by PyTorch: {sorted(alternatives)}"


# Parameters that take other things here, each with the reason.
KNOWN = {
    **dict.fromkeys(("isin.elements", "isin.test_elements"), "the overloads with a number call it test_element"),
    **dict.fromkeys(("std.dim", "std_mean.dim", "var.dim", "var_mean.dim"), "`var(True)` means `var(unbiased=True)`"),
    "randint.high": "`randint(high, size)` hands the size over in its place",
    "norm.p": "the function of Python takes 'fro' and 'nuc'",
    "roll.dims": "its parser takes None for an empty tuple",
    "scatter.src": "the number is PyTorch's overload with `value`",
}


def test_kinds_are_those_of_pytorch():
    found = {f"{op}.{name}": text for op, name, text in differences()}
    assert {where: text for where, text in found.items() if where not in KNOWN} == {}
    assert set(KNOWN) <= set(found), "what agrees now must leave the list"


def test_defaults_are_of_their_kind():
    misuse_calls.load_everything()
    for op in list(registry.ops.values()):
        for name, default in op.defaults.items():
            if name in op.known_kinds:
                assert op.known_kinds[name].fits(default), (op, name, default)


def test_samples_are_of_their_kinds():
    misuse_calls.load_everything()
    for op in list(registry.ops.values()):
        for sample in samples_of(op) if op.names else ():
            given = {"dtype": None} if "dtype" in op.keyword_only and "dtype" not in op.defaults else {}
            given |= {name: value for name, value in sample.kwargs.items() if name in op.index}
            assert op.wrong(op.bind(*sample.args, **given)) is None, op
