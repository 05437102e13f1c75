"""The plan of a call: what families contribute, names that parameters may have, and kernels that raise."""

import ast
import pathlib

import pytest

import plugrad
from plugrad import registry
from plugrad.dispatch.plan import ROLES
from plugrad.dispatch.support import globals_of
from plugrad.extend import factory, kernel_for, op, register, unary, unregister, view

ROOT = pathlib.Path(__file__).parents[2]
# Who may ask an op for its family: families themselves, and what shows or groups ops by it.
ASKING = {
    "core/dispatch/op.py", "surface/catalog/rows.py", "surface/pictures/tape.py", "testing/coverage.py",
    "testing/samples.py", "cli/ops.py",
}  # fmt: skip


def test_every_argument_has_a_role():
    for record in registry.ops.values():
        plan = record.plan
        assert sorted(argument.name for argument in plan.arguments) == sorted(record.parameters)
        if plan.level == "arrays":
            assert {argument.role for argument in plan.arguments} <= set(ROLES), record
            assert {argument.name for argument in plan.arguments if argument.bit} == set(record.inputs)


def test_nobody_asks_for_the_family():
    """What differs between families an op says by attributes and methods of its own."""
    asking = set()
    for folder in ("core", "surface", "testing", "plugins", "cli"):
        for file in (ROOT / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(file.read_text()))
            if any(isinstance(node, ast.Attribute) and node.attr == "family" for node in nodes):
                asking.add(str(file.relative_to(ROOT)))
    assert asking == ASKING


@pytest.fixture
def registered():
    """Return a function that registers records until the test ends."""
    records = []

    def enter(record):
        register(record)
        records.append(record)
        return record

    yield enter
    for record in records:
        unregister(record)


def test_parameters_may_have_any_name(registered):
    """No global of a generated function hides a parameter, nor the other way round."""
    names = ("new", "tick", "mode", "modes", "kernel", "op", "apply", "axes", "touch", "plain", "types", "failed")
    parameters = ", ".join(f"{name}=0" for name in names)
    scope = {}
    exec(f"def many_names(xp, input, {parameters}):\n    '''Sums.'''\n    return input + {' + '.join(names)}\n", scope)
    record = op()(scope["many_names"])

    @record.vjp
    def many_names_vjp(F, g, mode, kernel):
        return g * (1 + 0 * mode + 0 * kernel)

    registered(record)
    x = plugrad.ones(2, requires_grad=True)
    y = plugrad.many_names(x, 1, kernel=2, op=3)
    y.sum().backward()
    assert y.tolist() == [7.0, 7.0] and x.grad.tolist() == [1.0, 1.0]
    assert not any(name[0] != "_" for name in set(globals_of(record)) - {"MISSING", "Tensor"})


def test_a_kernel_that_raises_has_run_once(registered):
    calls = []

    @unary(name="refusing", inplace=True, vjp=None)
    def refusing(xp, input):
        """Raises."""
        calls.append("unary")
        raise ValueError("the kernel refuses")

    @view(name="refusing_view", vjp=None)
    def refusing_view(xp, input, dim):
        """Raises."""
        calls.append("view")
        raise ValueError("the kernel refuses")

    @factory(name="refusing_factory")
    def refusing_factory(xp, size, *, dtype):
        """Raises."""
        calls.append("factory")
        raise ValueError("the kernel refuses")

    for record in (refusing, refusing_view, refusing_factory):
        registered(record)
    x = plugrad.ones(2)
    for function, args in (
        (plugrad.refusing, (x,)),
        (plugrad.refusing, (x.half(),)),  # the general path
        (x.refusing_, ()),
        (plugrad.refusing_view, (x, 0)),
        (plugrad.refusing_factory, ((2,),)),
    ):
        calls.clear()
        with pytest.raises(ValueError, match="the kernel refuses") as raised:
            function(*args)
        assert len(calls) == 1, function
        assert raised.value.__cause__ is None


def test_an_error_that_is_explained_shows_no_other():
    with pytest.raises(RuntimeError, match="must match the size of tensor b") as raised:
        plugrad.ones(2) + plugrad.ones(3)
    assert raised.value.__suppress_context__


@pytest.mark.parametrize("name", "type tuple list map isinstance getattr Exception len float int".split())
def test_parameters_may_be_called_as_builtins_are(name):
    """Else the code that is made for the op calls, or catches, an argument."""
    names: dict = {}
    exec(f"""
def of_a_builtins_name(F, x, {name}="twice"):
    "Return twice the input, and of another kind an error."
    return F.mul(x, 2) if {name} == "twice" else x.no_such_method()

def full_of_a_builtins_name(xp, size, {name}=1, *, dtype):
    "Return ones."
    return xp.ones(size, dtype)
""", names)  # fmt: skip
    register(plugrad.extend.composite(names["of_a_builtins_name"]), factory(names["full_of_a_builtins_name"]))
    assert plugrad.of_a_builtins_name(plugrad.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(AttributeError, match="no_such_method"):
        plugrad.of_a_builtins_name(plugrad.ones(2), **{name: "other"})
    for size, value in (((2,), 1), ([2], 3), ((2,), None)):
        assert plugrad.full_of_a_builtins_name(size, **{name: value}).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", "type tuple list len Exception retain op g_".split())
def test_ops_and_their_tensors_may_be_called_as_builtins_are(name):
    """Else the code that is made for the op, or for its gradient, calls the op or one of the tensors."""
    names: dict = {}
    exec(f"""
def doubled(xp, input):
    "Twice the input."
    return input * 2 + 0

def product(xp, input, {name}):
    "The product."
    return input * {name}

def first(xp, {name}):
    "Twice the first of a list."
    return {name}[0] * 2

def product_vjp(F, g, input, {name}):
    return g * {name}, g * input

def first_vjp(F, g, {name}):
    return [2 * g, *(0 * t for t in {name}[1:])]
""", names)  # fmt: skip
    doubled = plugrad.extend.unary(names["doubled"], name=name, at=(f"doubled_{name}",), vjp=None)
    product = plugrad.extend.binary(names["product"], name=f"product_of_{name}")
    first = plugrad.extend.op(names["first"], name=f"first_of_{name}", sequence=True)
    product.vjp("input", name)(names["product_vjp"])
    first.vjp(names["first_vjp"])
    register(doubled, product, first)
    x = plugrad.ones(2, requires_grad=True)
    for result in doubled(plugrad.ones(2)), product(x, 2 * x), first([2 * x, x]):
        if result.requires_grad:
            result.sum().backward()
        with pytest.raises(TypeError, match="must be Tensor"):
            doubled("a")
    assert x.grad.tolist() == [8.0, 8.0]


def test_names_are_those_that_python_reads():
    with pytest.raises(TypeError, match="a Python name"):
        register(plugrad.extend.unary(lambda xp, input: input + 1, name="\uff41", vjp=None))


@pytest.mark.parametrize("make", [
    lambda: plugrad.randn(3, requires_grad=True), lambda: plugrad.tensor([1.0], requires_grad=True),
    lambda: plugrad.ones_like(plugrad.ones(2), requires_grad=True), lambda: plugrad.eye(2, requires_grad=True),
    lambda: plugrad.ones(2).new_zeros(3, requires_grad=True), lambda: plugrad.nn.Embedding(2, 2).weight,
    lambda: plugrad.nn.Linear(2, 2).requires_grad_(False).requires_grad_().weight,
])  # fmt: skip
def test_a_new_leaf_is_not_looked_after_as_one_that_has_views(make):
    """Each call with one that is would ask it first."""
    leaf = make()
    assert leaf.requires_grad and leaf._view is None


def test_the_in_place_form_of_an_op_that_is_no_method_outlives_new_kernels(install, fake):
    x, elu = plugrad.ones(2) - 3, plugrad.nn.functional.elu
    expected = elu(x.clone(), inplace=True)

    @kernel_for("elu", "fake")
    def quick(xp, input, alpha=1.0, scale=1.0, input_scale=1.0):
        return input

    install("plugrad-quick", {"kernels": [quick]})
    assert elu(x.clone(), inplace=True).equal(expected)
