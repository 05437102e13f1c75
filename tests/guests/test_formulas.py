"""Gradient formulas that are wrong, or can be used once only: errors that name op and argument, never wrong numbers."""

import re

import numpy
import pytest

import plugrad as torch
from plugrad.catalog import details
from plugrad.extend import binary, composite, loss, op, reduction, register, unary
from plugrad.testing import cases


@op(vjp=None)
def twelvefold(xp, input):
    """Twelve times the input, with no gradient."""
    return 12 * input


@op(vjp=None)
def sign_of(xp, input):
    return input > 0


@composite
def twelvefold_inside(F, input):
    return F(twelvefold)(input)


def square(formula, **options):
    """Return 6 x^2, whose gradient is 12 x."""
    record = unary(lambda xp, input: 6 * input * input, name="sixfold_square", **options)
    record.vjp(formula)
    return record


FORMULAS = {
    "directly": lambda F, g, input: g * F(twelvefold)(input),
    "in a composite": lambda F, g, input: g * F(twelvefold_inside)(input),
}


@pytest.mark.parametrize("how", FORMULAS)
def test_an_op_without_gradient_in_a_formula_can_not_be_recorded(how):
    record = square(FORMULAS[how])
    x = torch.tensor([3.0], requires_grad=True)
    assert torch.autograd.grad(record(x), x)[0].tolist() == [36.0]
    with pytest.raises(RuntimeError, match="calls op 'twelvefold' is to be differentiated, but .* once=True"):
        torch.autograd.grad(record(x), x, create_graph=True)


def test_it_is_refused_only_where_its_own_argument_is_differentiated():
    record = square(lambda F, g, input: F(twelvefold)(g) * input)
    x, g = torch.tensor([3.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    (first,) = torch.autograd.grad(record(x), x, create_graph=True)
    assert torch.autograd.grad(first, x)[0].tolist() == [12.0]
    with pytest.raises(RuntimeError, match="calls op 'twelvefold'"):
        torch.autograd.grad(record(x), x, g, create_graph=True)


def test_one_of_plugrads_own_without_gradient_can_not_be_recorded_either():
    record = square(lambda F, g, input: g * F(torch.special.bessel_j0.__op__)(input))
    x = torch.tensor([3.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="calls op 'bessel_j0'"):
        torch.autograd.grad(record(x), x, create_graph=True)


def test_what_gives_no_float_may_be_called_in_a_formula():
    record = square(lambda F, g, input: g * F.where(F(sign_of)(input), 12 * input, 12 * input))
    x = torch.tensor([3.0], requires_grad=True)
    (g,) = torch.autograd.grad(record(x), x, create_graph=True)
    assert torch.autograd.grad(g, x)[0].tolist() == [12.0]


def test_once_gives_the_gradient_and_refuses_the_second():
    record = square(FORMULAS["directly"], once=True)
    x = torch.tensor([3.0], requires_grad=True)
    (g,) = torch.autograd.grad(record(x), x, create_graph=True)
    assert g.tolist() == [36.0] and g.requires_grad
    with pytest.raises(RuntimeError, match="op 'sixfold_square' can't be differentiated again: .* once=True"):
        torch.autograd.grad(g, x)
    record(x).backward()
    assert x.grad.tolist() == [36.0] and not x.grad.requires_grad
    with torch.no_grad():
        assert not record(x).requires_grad
    with pytest.raises(RuntimeError, match="op 'sixfold_square' can't be differentiated again: .* once=True"):
        (2 * torch.autograd.grad(record(x), x, create_graph=True)[0]).sum().backward()


def test_once_with_several_results_and_inputs():
    @op(returns="both more", once=True)
    def pair(xp, a, b):
        return a * b, a + b

    @pair.vjp("a", "b")
    def pair_vjp(F, g, a, b):
        product, total = (0 if one is None else one for one in g)
        return product * b + total, product * a + total

    a, b = torch.tensor([2.0], requires_grad=True), torch.tensor([5.0], requires_grad=True)
    got = torch.autograd.grad(pair(a, b).both, (a, b), create_graph=True)
    assert [one.item() for one in got] == [5.0, 2.0]
    with pytest.raises(RuntimeError, match="op 'pair' can't be differentiated again"):
        torch.autograd.grad(got[0], b)
    assert torch.autograd.grad(sum(pair(a, b)), (a, b))[0].item() == 6.0


def test_once_is_shown():
    record = square(FORMULAS["directly"], once=True)
    torch.extend.register(record)
    try:
        assert "  derivatives: first order, by once=True, node SixfoldSquareBackward0" in details.text(record)
        assert details.describe(record)["orders"] == 1
        record.samples(lambda make: iter([make(3)]))
        names = {case.name: case for case in cases(record)}
        assert "once" in names and not {"second gradient", "third gradient", "forward mode"} & set(names)
        for name in ("once", "gradient", "formula modes", "nan", "batched", "inputs unchanged", "saved tensors"):
            assert names[name].run() is None, name
    finally:
        torch.extend.unregister(record)


WRONG = {
    "text": ("text", "'text', a str"),
    "a float": (1.0, "1.0, a float"),
    "a list": ([1.0, 1.0], r"\[1.0, 1.0\], a list"),
    "a tuple": ((numpy.ones(2), numpy.ones(2)), "a tuple"),
    "words": (numpy.array(["a", "b"]), "a ndarray"),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("what", WRONG)
def test_a_gradient_that_is_none_names_op_and_argument(what, recorded):
    given, text = WRONG[what]
    record = square(lambda F, g: given)
    x = torch.ones(2, requires_grad=True)
    message = rf"index 0 \(input of op sixfold_square\): .*{text}; the formula must return"
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(record(x).sum(), x, create_graph=recorded)


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    ("formula", "got"),
    [
        (lambda F, g: g, "a (Tensor|ndarray)"),  # of two elements: it would be taken apart
        (lambda F, g: (g,), "1"),
        (lambda F, g: (g, g, g), "3"),
        (lambda F, g: None, "a NoneType"),
        (lambda F, g: "ab", "a str"),
    ],
)
def test_a_formula_for_two_inputs_returns_two(formula, got, recorded):
    record = op(lambda xp, a, b: a + b, name="both")
    record.vjp("a", "b")(formula)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    message = f"formula of op 'both' for a, b must return a tuple of 2, one for each; it returned {got}$"
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(record(a, b).sum(), (a, b), create_graph=recorded)


@pytest.mark.parametrize(
    "formula", [lambda F, g: g, lambda F, g: 1.0, lambda F, g: [g], lambda F, g: [g, g, g]]
)  # fmt: skip
def test_a_formula_for_a_list_returns_one_for_each_of_its_tensors(formula):
    record = op(lambda xp, tensors: tensors[0] + tensors[1], name="listed", sequence=True)
    record.vjp(formula)
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    message = "tuple of one for each of its tensors|returned [13] gradients for 2 tensors"
    with pytest.raises(RuntimeError, match=message):
        torch.autograd.grad(record([a, b]).sum(), (a, b))


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.float16])
@pytest.mark.parametrize("kernel", [lambda xp, input: input, lambda xp, input: (input,) * 3])
def test_an_op_returns_as_many_results_as_it_says(kernel, kind):
    number = 1 if kernel(None, 1) == 1 else 3
    record = op(kernel, name="two", returns=("a", "b"), vjp=None)
    message = f"kernel of op 'two' returned {number}: it must return a tuple of 2, as returns='a b' says"
    with pytest.raises(TypeError, match=message):
        record(torch.ones(2, dtype=kind))


def test_a_formula_names_its_input():
    with pytest.raises(TypeError, match=r"@twelvefold.vjp\(\) names no input: write @twelvefold.vjp\('input'\)"):
        twelvefold.vjp()


@pytest.mark.parametrize("place", [2, 3, 4])
def test_needs_may_stand_anywhere_among_what_a_formula_asks_for(place):
    record = op(lambda xp, input, other: input * other, name="product_of_two")
    asked = []

    def formula(F, g, input, other, needs):
        asked.append(needs)
        return g * other if needs[0] else None, g * input if needs[1] else None

    orders = {
        2: lambda F, g, needs, input, other: formula(F, g, input, other, needs),
        3: lambda F, g, input, needs, other: formula(F, g, input, other, needs),
        4: formula,
    }
    record.vjp("input", "other")(orders[place])
    x, y = torch.tensor([3.0], requires_grad=True), torch.tensor([5.0])
    record(x, y).backward()
    record(y, x).backward()
    assert x.grad.tolist() == [10.0] and asked == [(True, False), (False, True)]
    (g,) = torch.autograd.grad(record(x, x), x, create_graph=True)
    assert g.item() == 6 and torch.autograd.grad(g, x)[0].item() == 2


def test_a_formula_with_keyword_only_parameters_is_refused_where_it_is_declared():
    record = op(lambda xp, input: input, name="passed_on")
    for formula in (eval("lambda F, g, *, input: g"), eval("lambda F, g, *names: g")):
        with pytest.raises(TypeError, match=r"must take \(F, g, \.\.\.\), without \* in its signature"):
            record.vjp(formula)


@pytest.mark.parametrize("kind", [torch.float32, torch.int64, torch.float16])
@pytest.mark.parametrize("dtype", ["datetime64[D]", "timedelta64[s]", "U3", "S3", object])
def test_what_is_no_number_is_no_result(kind, dtype):
    record = unary(lambda xp, input: numpy.zeros(input.shape).astype("int64").astype(dtype), name="dated", vjp=None)
    with pytest.raises(TypeError, match="the kernel of op '.*dated' returned array"):
        record(torch.ones(2, dtype=kind))


@pytest.mark.parametrize("family", [op, unary, composite, reduction])
def test_a_kernel_without_an_input_is_refused_where_it_is_declared(family):
    with pytest.raises(TypeError, match=r"declared by a function written `def lonely\(xp, input, ...\)`, not by"):

        @family
        def lonely(input):
            return input


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (lambda: binary(lambda xp, input: input, name="odd", vjp=None), "declared as one of 2 operands and takes 1"),
        (lambda: op(lambda xp, x: x, name="odd", returns="ab", vjp=None), "returns='ab': it must be a tuple of names"),
        (lambda: op(lambda xp, x: x, name="odd", returns=("a", "b c"), vjp=None), "it must be a tuple of names"),
        (lambda: op(lambda xp, x: x, name="odd", returns=("a", "a"), vjp=None), "needs a name of its own"),
        (lambda: _with(composite(lambda F, x: x, name="odd"), "vjp"), "has a formula and is declared by @composite"),
        (lambda: _with(composite(lambda F, x: x, name="odd"), "kernel"), "has a kernel and is declared by @composite"),
    ],
)
def test_what_would_never_be_used_is_refused(record, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        register(record())


def _with(record, what):
    """Give a record a formula or a kernel."""
    declare = record.kernel("cpu") if what == "kernel" else record.vjp
    declare(lambda F, g: g)
    return record


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "says forward=('input', 'target'), and the op has no parameter 'input', 'target'; it has anchor"),
        ({"forward": ("anchor", "other")}, "the op has no parameter 'other'"),
        ({"forward": ("anchor",), "buffers": ("weight",)}, "says buffers=('weight',), and the op has no parameter"),
    ],
)
def test_a_loss_names_parameters_of_its_op(options, said):
    record = composite(lambda F, anchor, reduction="mean": anchor, name="odd_loss")
    with pytest.raises(TypeError, match=re.escape(said)):
        loss(module="OddLoss", **options)(record)
    with pytest.raises(TypeError, match="stands above the decorator of an op"):
        loss(module="OddLoss", **options)(lambda F, anchor: anchor)
