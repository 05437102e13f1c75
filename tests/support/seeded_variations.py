"""Bugs that samples alone do not show: in options, dtypes, memory, modes, and what a call leaves behind."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import Module, OpHook, Parameter, keep_dims, op, unary
from support.seeded_bugs import Scale, layer, optimizer, schedule
from support.seeded_ops import bug, general, right, wave

# ---------------------------------------------------------------------------------------------------- ops


@bug("options", "squared")
def an_option_that_no_sample_sets():
    @unary(complex=False)
    def waves(xp, input, squared=False):
        """The sine, or the square."""
        return input * input if squared else xp.sin(input)

    waves.vjp(lambda F, g, input, squared: g * (3 * input if squared else F.cos(input)))
    return waves


@bug("options", "dim")
def a_gradient_along_the_last_dimension_alone():
    @op()
    def shares(xp, input, dim=-1):
        """The exponentials as parts of their sum."""
        return xp.exp(input) / xp.exp(input).sum(axis=dim, keepdims=True)

    shares.vjp(lambda F, g, y, dim: y * (g - F.sum(g * y, -1, True)))
    shares.meta(lambda input, dim: (input.shape, input.dtype))
    shares.samples(lambda make: iter([make(3, 4)]))
    return shares


@bug("options", "dim")
def a_shape_rule_for_positive_dimensions():
    @op()
    def totals(xp, input, dim=0):
        """The sum along a dimension."""
        return input.sum(axis=dim)

    totals.vjp(lambda F, g, input_shape, dim: F.expand(keep_dims(F, g, input_shape, dim, False), input_shape))
    totals.meta(lambda input, dim: (tuple(n for i, n in enumerate(input.shape) if i != dim), input.dtype))
    totals.samples(lambda make: iter([make(3, 4)]))
    return totals


@bug("precision")
def a_constant_too_short_for_singles():
    return wave(kernel=lambda xp, input: input * xp.exp(-input) * (1.001 if input.dtype == numpy.float32 else 1))


@bug("precision", "input")
def a_gradient_wrong_in_singles():
    return wave(lambda F, g, input: right(F, g, input) * (1.001 if "float32" in str(input.dtype) else 1))


@bug("complex gradient", "input")
def a_conjugate_forgotten():
    return wave(complex=True)


@bug("whole numbers")
def integers_counted_from_one():
    @unary(promote="same")
    def doubled(xp, input):
        """Twice each element."""
        return 2 * input + (1 if input.dtype.kind == "i" else 0)

    doubled.vjp(lambda F, g: 2 * g)
    return doubled


@bug("special points", "input")
def a_gradient_divided_by_nothing():
    def kernel(xp, input):
        safe = xp.where(input == 0, 1.0, input)
        return xp.where(input == 0, 1.0, xp.sin(safe) / safe)

    return wave(lambda F, g, input: g * (F.cos(input) - F.sin(input) / input) / input, kernel)


@bug("large inputs")
def the_rest_of_a_block_forgotten():
    def kernel(xp, input):
        result = input * xp.exp(-input)
        result.reshape(-1)[4096:] = 0
        return result

    return wave(kernel=kernel)


@bug("general kernel")
def a_general_kernel_that_never_runs_here():
    record = wave(kernel=lambda xp, input: 1.01 * input * xp.exp(-input))
    record.kernel("cpu")(lambda xp, input: input * xp.exp(-input))
    return record


@bug("samples")
def samples_without_gradients():
    record = wave(lambda F, g, input: 2 * right(F, g, input))
    record.samples(lambda make: iter([make(3, 4, requires_grad=False)]))
    return record


@bug("samples")
def samples_that_change():
    random = numpy.random.default_rng()
    record = wave()
    record.samples(lambda make: iter([make(3, 4) * float(random.random())]))
    return record


@bug("samples")
def a_second_call_unlike_the_first():
    calls = []

    def kernel(xp, input):
        calls.append(1)
        return input * xp.exp(-input) + (1e-3 if len(calls) == 2 else 0)  # the first is the declaration's own

    return wave(kernel=kernel)


@bug("inputs unchanged", "grad_output")
def a_grad_output_written_where_it_is_strided():
    def formula(F, g, input):
        result = right(F, g, input)
        if isinstance(g, numpy.ndarray) and g.ndim == 2 and not g.flags.c_contiguous:
            g *= 3
        return result

    return wave(formula)


@bug("strides", "input")
def a_grad_output_taken_as_it_lies():
    def formula(F, g):
        return g.ravel(order="K").reshape(g.shape) if isinstance(g, numpy.ndarray) else g

    def copied(xp, input):
        """The input."""
        return input + 0.0

    record = general(copied)
    record.formulas.clear()
    record.vjp(formula)
    return record


@bug("in-place")
def a_writer_that_writes_to_a_copy():
    record = wave()

    @record.writer
    def write(xp, out):
        flat = out.reshape(-1)
        flat[...] = flat * xp.exp(-flat)

    return record


@bug("saved tensors")
def results_kept_for_ever():
    kept = []

    def kernel(xp, input):
        kept.append(input * xp.exp(-input))
        return kept[-1]

    return wave(kernel=kernel)


@bug("saved tensors")
def gradients_kept_for_ever():
    kept = []

    def formula(F, g, input):
        kept.append(right(F, g, input))
        return kept[-1]

    return wave(formula)


@bug("threads")
def a_buffer_shared_for_a_moment():
    scratch = numpy.empty(64)

    def kernel(xp, input):
        flat = scratch[: input.size].reshape(input.shape)
        flat[...] = -input
        return input * xp.exp(flat)

    record = wave(kernel=kernel)
    record.samples(lambda make: iter([make(3, 4)]))
    return record


@bug("determinism")
def a_seed_for_everybody():
    def kernel(xp, input):
        plugrad.manual_seed(0)
        return input * xp.exp(-input)

    return wave(kernel=kernel)


@bug("samples")
def settings_of_the_program_changed():
    def kernel(xp, input):
        numpy.seterr(over="raise")
        return input * xp.exp(-input)

    return wave(kernel=kernel)


@bug("schema")
def a_name_of_plugrads_own():
    return wave(aliases=("sinh",))


# ---------------------------------------------------------------------------------------------------- other kinds


@bug("gradient", "weight", kind="layers")
def a_parameter_cut_off_in_evaluation():
    return layer(forward=lambda self, input: input * (self.weight if self.training else self.weight.detach()))


@bug("parameters", kind="layers")
def a_parameter_in_a_list():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.more = [Parameter(plugrad.ones(num_features, dtype=plugrad.float64))]

    return layer(__init__=init, forward=lambda self, input: input * self.weight * self.more[0])


@bug("parameters", "weight", kind="layers")
def a_parameter_frozen_by_the_call():
    return layer(forward=lambda self, input: input * self.weight.requires_grad_(False))


@bug("reset", "weight", kind="layers")
def a_reset_that_does_nothing():
    return layer(reset_parameters=lambda self: None)


@bug("options", "shifted", kind="layers")
def an_option_that_crashes():
    def init(self, num_features, shifted=True, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.shift = 1.0 if shifted else None

    return layer(__init__=init, forward=lambda self, input: input * self.weight + self.shift)


@bug("memory", "input", kind="layers")
def an_input_kept_by_a_layer():
    def forward(self, input):
        self.seen = input
        return input * self.weight

    return layer(forward=forward)


class Fixed(Module):
    """The mean of squared differences, whatever it is told."""

    def __init__(self, reduction="mean"):
        super().__init__()
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"{reduction} is not a valid value for reduction")

    def forward(self, input, target):
        return ((input - target) ** 2).mean()


@bug("reductions", "reduction", kind="losses")
def a_reduction_ignored():
    return Fixed


@bug("gradients unchanged", kind="optimizers")
def a_gradient_written_by_decay():
    def update(self, xp, p, g, state, group):
        g += group["weight_decay"] * p
        p -= group["lr"] * g

    return optimizer(update=update)


@bug("precision", kind="optimizers")
def another_rate_for_singles():
    def update(self, xp, p, g, state, group):
        p -= group["lr"] * (1.5 if p.dtype == numpy.float32 else 1) * g

    return optimizer(update=update)


@bug("group options", "weight_decay", kind="optimizers")
def the_decay_of_a_group_ignored():
    def update(self, xp, p, g, state, group):
        p -= group["lr"] * (g + self.defaults["weight_decay"] * p)

    return optimizer(update=update)


@bug("groups", kind="schedulers")
def the_first_rate_for_all_groups():
    return schedule(get_lr=lambda self: [self.base_lrs[0] * 0.5**self.last_epoch for _ in self.base_lrs])


@bug("in place", kind="inits")
def a_row_filled():
    def seeded_(tensor):
        """Fill with random numbers."""
        with plugrad.no_grad():
            tensor[:1].uniform_()
        return tensor

    return seeded_


@bug("model normalising", kind="compilers")
def evaluation_for_ever():
    def seeded(graph, example_inputs):
        """Run in evaluation."""
        if isinstance(graph.function, Module):
            graph.function.eval()
        return graph

    return seeded


@bug("transparency", kind="hooks")
def a_hook_that_writes_to_one_op():
    def after(self, call):
        if call.name == "exp":
            with plugrad.no_grad():
                call.result.add_(1e-3)

    return type("Seeded", (OpHook,), {"__doc__": "Watches.", "after": after, "__module__": __name__})

