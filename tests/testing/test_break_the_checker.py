"""Breaking the checker: each seeded fault of an op must be caught, by the check that is there for it."""

from __future__ import annotations

import numpy
import pytest

import plugrad
from plugrad import registry
from plugrad.extend import binary, keep_dims, op, reduction, unary, view
from plugrad.testing import cases, check
from plugrad.testing.gradients.mutations import KINDS, mutants

FAULTS = {}


def fault(check):
    """Enter a function that makes a faulty op, with the check that must find the fault."""

    def enter(make_op):
        FAULTS[make_op.__name__] = (make_op, check)
        return make_op

    return enter


def damped(formula, *, kernel=None, doc=None, **options):
    """Return the op x * exp(-x) with the given gradient formula."""

    def damped_wave(xp, input):
        return input * xp.exp(-input)

    damped_wave.__doc__ = doc or "The product of each element and its damping."
    made = unary(kernel or damped_wave, name="damped_wave", **{"complex": False, **options})
    made.vjp(formula)
    return made


def right(F, g, input):
    return g * (1 - input) * F.exp(-input)


def failing(made):
    """Return the messages of the checks that fail, by name."""
    found = {}
    for case in cases(made):
        try:
            case.run()
        except AssertionError as error:
            found[case.name] = str(error)
    return found


# ---------------------------------------------------------------------------------------------------- gradients


@fault("gradient")
def a_gradient_off_by_a_thousandth():
    return damped(lambda F, g, input: 1.001 * right(F, g, input))


@fault("gradient")
def a_term_dropped():
    return damped(lambda F, g, input: g * F.exp(-input))


@fault("gradient")
def a_wrong_sign():
    return damped(lambda F, g, input: -right(F, g, input))


@fault("gradient")
def the_incoming_gradient_forgotten():
    return damped(lambda F, g, input: (1 - input) * F.exp(-input))


@fault("gradient")
def one_element_wrong():
    def formula(F, g, input):
        result = right(F, g, input)
        return F.where(input == F.amax(input), 2 * result, result)

    return damped(formula)


@fault("gradient")
def a_tiny_gradient_that_is_zero():
    @unary()
    def tiny_square(xp, input):
        """Very small squares."""
        return 1e-6 * input * input

    tiny_square.vjp(lambda F, g, input: 0 * g * input)
    return tiny_square


@fault("gradient")
def operands_exchanged():
    @binary(promote="float")
    def ratio(xp, input, other):
        """The first operand over the second."""
        return input / other

    ratio.vjp("input")(lambda F, g, other: g / other)
    ratio.vjp("other")(lambda F, g, input, other: -g * other / (input * input))
    return ratio


@fault("gradient")
def the_gradient_of_one_operand_missing():
    @binary(promote="float")
    def product(xp, input, other):
        """The product of two operands."""
        return input * other

    product.vjp("input")(lambda F, g, other: g * other)
    product.vjp("other")(lambda F, g, input: 0 * g * input)
    return product


@fault("gradient")
def a_gradient_spread_along_the_wrong_axis():
    @reduction(promote="float")
    def total(xp, input, dim=None, keepdim=False):
        """The sum along a dimension."""
        return input.sum(axis=dim, keepdims=keepdim)

    @total.vjp
    def total_vjp(F, g, input_shape, dim, keepdim):
        wide = keep_dims(F, g, input_shape, dim, keepdim)
        if len(input_shape) == 2 and dim == 1:
            wide = F.transpose(F.expand(wide, (input_shape[0], input_shape[0])), 0, 1)[:, :1]
        return F.expand(wide, input_shape)

    return total


@fault("second gradient")
def a_second_gradient_cut_off():
    """The formula is right in value but hides its dependence on the input."""
    return damped(lambda F, g, input: g * _constant((1 - input) * F.exp(-input)))


def _constant(value):
    return value.detach() if isinstance(value, plugrad.Tensor) else value


@fault("formula modes")
def a_formula_right_on_arrays_alone():
    def formula(F, g, input):
        result = right(F, g, input)
        return 1.01 * result if isinstance(result, plugrad.Tensor) else result

    return damped(formula)


@fault("strides")
def a_formula_that_trusts_memory_order():
    @op()
    def plus_flat(xp, input):
        """The input; the gradient walks through memory instead of indices."""
        return input.ravel(order="K").reshape(input.shape) + 0.0

    plus_flat.vjp(lambda F, g: g)
    plus_flat.meta(lambda input: (input.shape, input.dtype))
    plus_flat.samples(lambda make: iter([make(3, 4)]))
    return plus_flat


# ---------------------------------------------------------------------------------------------------- values


@fault("value")
def a_value_other_than_the_reference():
    def tangent(xp, input):
        """The hyperbolic tangent, nearly."""
        return xp.tanh(input) * (1 + 1e-5)

    made = unary(tangent, ref="numpy.tanh")
    made.vjp(lambda F, g, y: g * (1 - y * y))
    return made


@fault("inputs unchanged")
def an_input_written():
    def kernel(xp, input):
        """The product of each element and its damping."""
        result = input * xp.exp(-input)
        input *= 1.5
        return result

    return damped(right, kernel=kernel)


@fault("inputs unchanged")
def a_saved_input_written_by_backward():
    def formula(F, g, input):
        result = right(F, g, input)
        if isinstance(input, numpy.ndarray) and input.ndim:
            input[...] = 0
        return result

    return damped(formula)


@fault("inputs unchanged")
def a_gradient_written_by_backward():
    def formula(F, g, input):
        result = right(F, g, input)
        if isinstance(g, numpy.ndarray) and g.ndim and g.flags.writeable:
            g *= 2
        return result

    return damped(formula)


@fault("promotion")
def a_result_in_another_precision():
    def kernel(xp, input):
        """The product of each element and its damping."""
        return (input * xp.exp(-input)).astype("float64")

    made = damped(right, kernel=kernel)
    prepare = made.prepare
    made.prepare = lambda values, raw, kind: prepare(values, raw, kind) and None
    return made


@fault("shapes")
def an_op_that_looks_at_the_whole_tensor():
    @unary()
    def centred(xp, input):
        """Each element less the mean of all."""
        return input - (input.mean() if input.size else 0)

    centred.vjp(lambda F, g: g - (F.mean(g) if 0 not in g.shape else 0))
    return centred


@fault("extreme values")
def an_op_that_raises_at_infinity():
    def kernel(xp, input):
        """The product of each element and its damping."""
        if xp.isinf(input).any():
            raise OverflowError("too large")
        return input * xp.exp(-input)

    return damped(right, kernel=kernel)


# ---------------------------------------------------------------------------------------------------- rules and words


@fault("meta device")
def a_wrong_shape_rule():
    @op()
    def doubled_rows(xp, input):
        """The rows twice."""
        return xp.concatenate((input, input))

    doubled_rows.meta(lambda input: ((input.shape[0] + 1, *input.shape[1:]), input.dtype))
    doubled_rows.vjp(lambda F, g, input_shape: g[: input_shape[0]] + g[input_shape[0] :])
    doubled_rows.samples(lambda make: iter([make(2, 3)]))
    return doubled_rows


@fault("meta device")
def a_wrong_dtype_rule():
    @op(vjp=None)
    def place_of_largest(xp, input):
        """Where the largest element is."""
        return xp.argmax(input)

    place_of_largest.meta(lambda input: ((), input.dtype))
    place_of_largest.samples(lambda make: iter([make(2, 3)]))
    return place_of_largest


@fault("error samples")
def an_error_that_does_not_come():
    made = damped(right)
    made.errors(lambda make: iter([(RuntimeError, "must be positive", make.args(make(2)))]))
    return made


@fault("error samples")
def an_error_of_another_class():
    def kernel(xp, input):
        """The product of each element and its damping."""
        if input.ndim > 3:
            raise ValueError("at most 3 dimensions")
        return input * xp.exp(-input)

    made = damped(right, kernel=kernel)
    made.errors(lambda make: iter([(RuntimeError, "at most 3", make.args(make(1, 1, 1, 1)))]))
    return made


@fault("samples")
def nothing_to_run():
    @op()
    def idle(xp, input):
        """The input."""
        return input + 0

    idle.vjp(lambda F, g: g)
    return idle


@fault("docstring")
def no_docstring():
    return damped(right, kernel=lambda xp, input: input * xp.exp(-input))


@fault("docstring")
def a_docstring_too_wide():
    return damped(right, doc="The product of each element and its damping, " * 2)


@fault("strides")
def a_view_that_confuses_rows_and_columns():
    @view()
    def first_row(xp, input):
        """The first row, found by memory."""
        return input.T[:, 0] if input.flags.c_contiguous else input[:, 0]

    first_row.vjp(lambda F, g, input_shape: F.expand(F.unsqueeze(g, 0), input_shape) * 0)
    first_row.samples(lambda make: iter([make(3, 3, requires_grad=False)]))
    return first_row


# ---------------------------------------------------------------------------------------------------- the tests


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught(name):
    make_op, check = FAULTS[name]
    made = make_op()
    found = failing(made)
    assert check in found, f"{name} slips through; the checks that failed: {sorted(found)}"
    assert made.name in found[check]


def test_a_sound_op_passes():
    assert not failing(damped(right))


def test_an_in_place_form_that_differs(monkeypatch):
    def damped_wave_(self):
        return self.mul_(0.5)

    monkeypatch.setattr(plugrad.Tensor, "damped_wave_", damped_wave_, raising=False)
    assert "in-place" in failing(damped(right))


def test_an_in_place_form_that_returns_a_new_tensor(monkeypatch):
    def damped_wave_(self):
        return self * plugrad.exp(-self)

    monkeypatch.setattr(plugrad.Tensor, "damped_wave_", damped_wave_, raising=False)
    assert "does not return its input" in failing(damped(right))["in-place"]


# ---------------------------------------------------------------------------------------------------- wrong gradients

MUTATED = ("sin", "log", "mul", "sum", "matmul", "softmax", "logsumexp", "cumsum", "cross_entropy", "linalg_inv")


def judged(made, order=1):
    """Return, for an op at its first sample, how many mutants there are, those that `check` lets through, the kinds."""
    count, missed, seen = 0, [], set()
    for mutant in mutants(made, order=order):
        try:
            if mutant.number > 0 or mutant.equivalent():
                continue
        except RuntimeError:  # a term dropped from a formula may leave one that raises
            continue
        count += 1
        seen.add(mutant.kind)
        for fast in (False, True):
            verdict = check(mutant.function, mutant.arguments, fast_mode=fast)
            if verdict.status != "FAIL":
                missed.append((mutant, fast, verdict))
    return count, missed, seen


@pytest.mark.parametrize("name", MUTATED)
def test_mutated_gradients_are_caught(name):
    count, missed, seen = judged(registry.op(name))
    assert count >= 5 and not missed, missed
    assert name != "mul" or seen == set(KINDS)


def test_mutated_second_gradients_are_caught():
    count, missed, _ = judged(registry.op("tanh"), order=2)
    assert count >= 5 and not missed, missed


def test_mistakes_in_some_layouts_do_not_cancel_between_outputs():
    # The second gradients of mse are each other's opposites: where both count alike nothing is left of a mistake.
    found = list(mutants(registry.op("mse"), order=2, kinds=("off by 1 % if not contiguous, seen elsewhere",)))
    assert len(found) > 2
    for mutant in found:
        assert check(mutant.function, mutant.arguments).status == "FAIL", mutant


@pytest.mark.parametrize("name", ["sqrt", "log", "acosh"])
def test_large_samples_stay_in_the_domain(name):
    (mutant,) = mutants(registry.op(name), kinds=("one element of 20,000 off by 1 %",))
    assert mutant.arguments[0].numel() == 20_000
    assert plugrad.isfinite(mutant.function(*mutant.arguments)).all()
    assert check(mutant.original, mutant.arguments).status == "PASS"
    assert check(mutant.function, mutant.arguments).status == "FAIL"


def test_mutants_leave_the_registry_alone():
    made = registry.op("tanh")
    before, function = list(made.formulas), made.function
    assert len(list(mutants(made))) > 20
    assert made.formulas == before and made.function is function
    assert check(plugrad.tanh, (plugrad.ones(3, dtype=plugrad.float64).requires_grad_(),)).status == "PASS"


def test_changes_that_change_nothing_are_equivalent():
    x = plugrad.tensor([-1.0, -2.0, 3.0], dtype=plugrad.float64, requires_grad=True)
    made = registry.op("floor")  # its gradient is zero: nothing that is done to it makes a difference
    assert all(mutant.equivalent() for mutant in mutants(made) if mutant.kind != "term dropped")
    doubled = next(mutants(registry.op("relu"), kinds=("times 1.0005",)))
    doubled.arguments = doubled.shown = (-x.detach().abs().requires_grad_(),)
    assert doubled.equivalent()
