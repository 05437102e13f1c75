"""Ops with one bug each, for tests/cli/test_check.py: which check must find it, and at which argument."""

from __future__ import annotations

import time

import numpy

import plugrad
from plugrad.extend import binary, keep_dims, op, reduction, unary, view

BUGS = {}  # name -> (function that returns {kind: [records]}, check, argument or None)


def bug(check, argument=None, kind="ops"):
    """Enter a function that makes a record with a bug, with the check that must find it, and the argument it names."""

    def enter(make):
        def records():
            value = make()
            return value if isinstance(value, dict) else {kind: [value]}

        BUGS[make.__name__] = (records, check, argument)
        return make

    return enter


def wave(formula=None, kernel=None, doc="The product of each element and its damping.", **options):
    """Return the op x * exp(-x), by default without fault."""

    def damped(xp, input):
        return input * xp.exp(-input)

    kernel = kernel or damped
    kernel.__doc__ = doc
    record = unary(kernel, name="damped", **{"complex": False, **options})
    record.vjp(formula or right)
    return record


def right(F, g, input):
    return g * (1 - input) * F.exp(-input)


def general(kernel, **options):
    """Return an op of no family, of one tensor, whose gradient is that of the identity."""
    record = op(kernel, **options)
    record.vjp(lambda F, g: g)
    record.meta(lambda input: (input.shape, input.dtype))
    record.samples(lambda make: iter([make(3, 4)]))
    return record


# ---------------------------------------------------------------------------------------------------- ops: values


@bug("samples")
def nothing_to_run_it_with():
    @op(vjp=None)
    def lonely(xp, input, extent):
        """The input, somehow."""
        return input + extent

    return lonely


@bug("value")
def another_value_than_the_reference():
    return wave(kernel=lambda xp, input: xp.sin(input) * (1 + 1e-5), formula=lambda F, g, input: g * F.cos(input),
                ref="numpy.sin")  # fmt: skip


@bug("inputs unchanged", "input")
def an_input_written():
    def kernel(xp, input):
        result = input * xp.exp(-input)
        input *= 1.5
        return result

    return wave(kernel=kernel)


@bug("inputs unchanged", "grad_output")
def a_grad_output_written():
    def formula(F, g, input):
        if isinstance(g, numpy.ndarray) and g.ndim:
            g *= 2
            return right(F, g, input) / 2
        return right(F, g, input)

    return wave(formula)


@bug("inputs unchanged")
def a_saved_input_written_by_backward():
    def formula(F, g, input):
        result = right(F, g, input)
        if isinstance(input, numpy.ndarray) and input.ndim:
            input[...] = 0
        return result

    return wave(formula)


@bug("determinism")
def random_numbers_without_the_seed():
    def noisy(xp, input):
        """The input and a little noise."""
        return input + 1e-6 * numpy.random.default_rng().random(input.shape)

    return general(noisy)


@bug("threads")
def a_buffer_shared_by_threads():
    scratch = numpy.empty(64)

    def shifted(xp, input):
        """The input and one, by way of a buffer."""
        flat = scratch[: input.size]
        flat[...] = input.ravel()
        time.sleep(1e-4)
        return (flat + 1).reshape(input.shape)

    return general(shifted)


@bug("error samples")
def an_error_that_is_not_raised():
    record = wave()
    record.errors(lambda make: iter([(ValueError, "too large", (make(2, 2),))]))
    return record


@bug("error samples")
def an_error_with_another_text():
    record = wave(kernel=None)
    record.errors(lambda make: iter([(TypeError, "write torch.as_tensor of a list", ("text",))]))
    return record


@bug("error samples")
def an_error_of_another_class():
    def kernel(xp, input):
        if input.ndim > 3:
            raise ValueError("at most 3 dimensions")
        return input * xp.exp(-input)

    record = wave(kernel=kernel)
    record.errors(lambda make: iter([(RuntimeError, "at most 3", make.args(make(1, 1, 1, 1)))]))
    return record


@bug("in-place")
def an_in_place_form_of_its_own_mind():
    record = wave()

    @record.writer
    def write(xp, out):
        out[...] = out * xp.exp(out)

    return record


# ---------------------------------------------------------------------------------------------------- ops: gradients


@bug("gradient", "other")
def the_gradient_of_one_operand_wrong():
    @binary(promote="float")
    def product(xp, input, other):
        """The product of two operands."""
        return input * other

    product.vjp("input")(lambda F, g, other: g * other)
    product.vjp("other")(lambda F, g, input: 1.001 * g * input)
    return product


@bug("gradient", "input")
def a_gradient_off_by_a_thousandth():
    return wave(lambda F, g, input: 1.001 * right(F, g, input))


@bug("gradient")
def the_incoming_gradient_forgotten():
    return wave(lambda F, g, input: (1 - input) * F.exp(-input))


@bug("gradient", "input")
def one_element_of_a_gradient_wrong():
    def formula(F, g, input):
        result = right(F, g, input)
        return F.where(input == F.amax(input), 2 * result, result)

    return wave(formula)


@bug("gradient", "input")
def a_tiny_gradient_that_is_zero():
    @unary()
    def tiny_square(xp, input):
        """Very small squares."""
        return 1e-6 * input * input

    tiny_square.vjp(lambda F, g, input: 0 * g * input)
    return tiny_square


@bug("gradient", "other")
def operands_exchanged():
    @binary(promote="float")
    def ratio(xp, input, other):
        """The first operand over the second."""
        return input / other

    ratio.vjp("input")(lambda F, g, other: g / other)
    ratio.vjp("other")(lambda F, g, input, other: -g * other / (input * input))
    return ratio


@bug("gradient", "input")
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


@bug("second gradient", "input")
def a_second_gradient_cut_off():
    def formula(F, g, input):
        slope = (1 - input) * F.exp(-input)
        return g * (slope.detach() if isinstance(slope, plugrad.Tensor) else slope)

    return wave(formula)


@bug("third gradient", "input")
def a_third_gradient_cut_off():
    """The cube; the gradient of its gradient is right in value, and hides that it depends on the input."""

    @unary(at=())
    def seeded_square(xp, input):
        """The square of each element."""
        return input * input

    seeded_square.vjp(lambda F, g, input: g * 2 * (input.detach() if isinstance(input, plugrad.Tensor) else input))

    @unary()
    def seeded_cube(xp, input):
        """The cube of each element."""
        return input * input * input

    seeded_cube.vjp(lambda F, g, input: g * 3 * getattr(F, "third_gradient_bug.seeded_square")(input))
    return {"ops": [seeded_square, seeded_cube]}


@bug("formula modes", "input")
def a_formula_right_on_arrays_alone():
    def formula(F, g, input):
        result = right(F, g, input)
        return 1.01 * result if isinstance(result, plugrad.Tensor) else result

    return wave(formula)


@bug("forward mode")
def a_gradient_that_is_not_linear():
    """Right for the gradient that checks give, and cut off from it: no derivative along a direction."""
    return wave(lambda F, g, input: right(F, g.detach() if isinstance(g, plugrad.Tensor) else g, input))


@bug("batched")
def a_gradient_good_for_one_time():
    used = []

    def kernel(xp, input):
        used.clear()
        return input * xp.exp(-input)

    def formula(F, g, input):
        used.append(1)
        return right(F, g, input) * (1 if len(used) < 2 else 2)

    return wave(formula, kernel)


@bug("saved tensors", "input")
def an_input_kept_for_ever():
    kept = []

    def kernel(xp, input):
        kept.append(input)
        return input * xp.exp(-input)

    return wave(kernel=kernel)


# ---------------------------------------------------------------------------------------------------- ops: memory


@bug("strides")
def a_kernel_that_trusts_memory_order():
    def walked(xp, input):
        """The input, taken as it lies in memory."""
        return input.ravel(order="K").reshape(input.shape) + 0.0

    return general(walked)


@bug("aliasing", "input")
def a_view_not_declared():
    def same(xp, input):
        """The input itself."""
        return input[...]

    return general(same)


@bug("aliasing")
def a_view_that_copies():
    @view()
    def upside_down(xp, input):
        """The rows from the last to the first."""
        return xp.ascontiguousarray(input[::-1])

    upside_down.vjp(lambda F, g: F.flip(g, (0,)))
    upside_down.samples(lambda make: iter([make(3, 4)]))
    return upside_down


@bug("meta device")
def a_wrong_shape_rule():
    def doubled(xp, input):
        """Twice the input."""
        return 2 * input

    record = general(doubled)
    record.formulas.clear()
    record.vjp(lambda F, g: 2 * g)
    record.meta(lambda input: (input.shape[::-1], input.dtype))
    return record


@bug("meta device")
def a_wrong_dtype_rule():
    @op(vjp=None)
    def place_of_largest(xp, input):
        """Where the largest element is."""
        return xp.argmax(input)

    place_of_largest.meta(lambda input: ((), input.dtype))
    place_of_largest.samples(lambda make: iter([make(2, 3)]))
    return place_of_largest


@bug("strides")
def a_view_that_confuses_rows_and_columns():
    @view()
    def first_row(xp, input):
        """The first row, found by memory."""
        return input.T[:, 0] if input.flags.c_contiguous else input[:, 0]

    first_row.vjp(lambda F, g, input_shape: F.expand(F.unsqueeze(g, 0), input_shape) * 0)
    first_row.samples(lambda make: iter([make(3, 3, requires_grad=False)]))
    return first_row


@bug("shapes")
def an_op_that_looks_at_the_whole_tensor():
    @unary()
    def centred(xp, input):
        """Each element less the mean of all."""
        return input - (input.mean() if input.size else 0)

    centred.vjp(lambda F, g: g - (F.mean(g) if 0 not in g.shape else 0))
    return centred


@bug("shapes")
def a_kernel_that_knows_no_scalars():
    return wave(kernel=lambda xp, input: input * xp.exp(-input) * (1 if len(input.shape) else 2))


@bug("slices", "dim")
def a_reduction_along_another_dimension():
    @reduction(promote="float")
    def total(xp, input, dim=None, keepdim=False):
        """The sum along a dimension."""
        dim = 2 if dim == 1 and input.ndim == 3 else dim
        return input.sum(axis=dim, keepdims=keepdim)

    @total.vjp
    def total_vjp(F, g, input_shape, dim, keepdim):
        dim = 2 if dim == 1 and len(input_shape) == 3 else dim
        return F.expand(keep_dims(F, g, input_shape, dim, keepdim), input_shape)

    return total


@bug("promotion")
def integers_refused_by_chance():
    @binary(promote="same")
    def rounded_sum(xp, input, other):
        """The sum of two operands, for equal dtypes alone."""
        if input.dtype == numpy.float32:
            raise TypeError("float32 is not known")
        return input + other

    rounded_sum.vjp("input", "other")(lambda F, g: (g, g))
    return rounded_sum


@bug("promotion")
def a_sum_of_singles_in_doubles():
    @reduction(promote="same")
    def total(xp, input):
        """The sum of all elements."""
        return input.sum(dtype="float64")

    total.vjp(lambda F, g, input_shape: F.expand(g, input_shape))
    return total


@bug("extreme values")
def a_formula_that_overflows():
    @unary(ref="numpy.log1p", domain=(-1, None))
    def log1p_of_squares(xp, input):
        """The logarithm of one more than each element, by way of its square."""
        return 0.5 * xp.log((1 + input) * (1 + input))

    log1p_of_squares.vjp(lambda F, g, input: g / (1 + input))
    return log1p_of_squares


@bug("extreme values")
def infinities_that_raise():
    def kernel(xp, input):
        if input.size and not xp.isfinite(input).all():
            raise ValueError("not finite")
        return input * xp.exp(-input)

    return wave(kernel=kernel)


# ---------------------------------------------------------------------------------------------------- ops: texts


@bug("docstring")
def no_docstring():
    return wave(doc="")


@bug("docstring")
def a_long_first_line():
    return wave(doc="The product " * 10)


@bug("example")
def an_example_that_lies():
    return wave(doc="Damped.\n\n    >>> import plugrad as torch\n    >>> torch.ones(2).sum()\n    tensor(3.)\n    ")


@bug("schema", "axis")
def numpys_name_for_a_parameter():
    @op(vjp=None)
    def spread(xp, input, axis=0):
        """The largest less the smallest along a dimension."""
        return input.max(axis=axis) - input.min(axis=axis)

    spread.samples(lambda make: iter([make(3, 4)]))
    return spread


@bug("schema", "table")
def a_default_shared_by_calls():
    @op(vjp=None)
    def counted(xp, input, table=[]):  # noqa: B006
        """The input."""
        return input + len(table)

    counted.samples(lambda make: iter([make(3, 4)]))
    return counted
