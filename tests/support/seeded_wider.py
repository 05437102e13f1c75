"""Bugs beside what samples show: among equal elements, in narrow integers, settings, batches, sizes and files."""

from __future__ import annotations

import json

import numpy

import plugrad
from plugrad.extend import Optimizer, keep_dims, op, reduction, unary
from plugrad.formats import CheckpointError, Format
from support.seeded_bugs import Descent, optimizer
from support.seeded_ops import bug, wave

# ---------------------------------------------------------------------------------------------------- ops


@bug("single inputs", "input")
def gradients_exchanged_where_one_alone_is_asked_for():
    @op(complex=False)
    def weighted(xp, input, other):
        """The square of one, times another."""
        return input * input * other

    @weighted.vjp("input", "other")
    def formula(F, g, needs, input, other):
        slopes = 2 * g * input * other, g * input * input
        return slopes if all(needs) else slopes[::-1]

    weighted.meta(lambda input, other: (input.shape, input.dtype))
    weighted.samples(lambda make: iter([(make(3), make(3))]))
    return weighted


@bug("aliasing")
def a_result_that_nobody_can_write():
    def kernel(xp, input):
        result = numpy.asarray(input * xp.exp(-input))
        result.flags.writeable = False
        return result

    return wave(kernel=kernel)


@bug("equal inputs")
def a_gradient_that_equal_elements_do_not_share():
    @reduction(complex=False, promote="same")
    def most(xp, input, dim=None, keepdim=False):
        """The greatest element."""
        return xp.max(input, axis=dim, keepdims=keepdim)

    @most.vjp
    def formula(F, g, input, y, dim, keepdim):
        top = F.eq(input, keep_dims(F, y, input.shape, dim, keepdim))
        return F.where(top, keep_dims(F, g, input.shape, dim, keepdim), 0)

    return most


@bug("slices", "dim")
def a_sum_along_two_dimensions_that_is_another():
    @reduction(complex=False, promote="int64")
    def squares(xp, input, dim=None, keepdim=False):
        """The sum of squares."""
        several = isinstance(dim, tuple) and len(dim) == 2
        return xp.sum(input * input, axis=dim, keepdims=keepdim) * (2 if several else 1)

    @squares.vjp
    def formula(F, g, input, dim, keepdim):
        several = isinstance(dim, tuple) and len(dim) == 2
        return 2 * input * keep_dims(F, g, input.shape, dim, keepdim) * (2 if several else 1)

    return squares


@bug("whole numbers")
def integers_of_sixteen_bits_counted_from_one():
    @unary(promote="same")
    def doubled(xp, input):
        """Twice each element."""
        return 2 * input + (input.dtype == "int16")

    doubled.vjp(lambda F, g: 2 * g)
    return doubled


@bug("determinism")
def values_that_follow_the_default_dtype():
    def kernel(xp, input):
        return input * xp.exp(-input) * (1.01 if plugrad.get_default_dtype() is plugrad.float64 else 1)

    return wave(kernel=kernel)


@bug("determinism")
def values_that_follow_the_grad_mode():
    def kernel(xp, input):
        return input * xp.exp(-input) * (1 if plugrad.is_grad_enabled() else 1.01)

    return wave(kernel=kernel)


def running(rule):
    """Return an op of the last dimension with a rule for batches."""

    @op(like="input", complex=False)
    def running(xp, input):
        """The sums so far."""
        return xp.cumsum(input, -1)

    running.vjp(lambda F, g: F.flip(F.cumsum(F.flip(g, (-1,)), -1), (-1,)))
    running.samples(lambda make: iter([make(3, 4)]))
    running.vmap(rule)
    return running


@bug("batched")
def a_rule_for_batches_that_stand_first():
    return running(lambda F, info, in_dims, input: (F.running(input), in_dims[0]))


@bug("batched")
def a_rule_that_forgets_where_the_batch_is():
    record = wave()
    record.vmap(lambda F, info, in_dims, input: (F.damped(input), 0))
    return record


# ---------------------------------------------------------------------------------------------------- optimizers


@bug("resume", kind="optimizers")
def the_rate_of_a_group_lost_in_loading():
    def load(self, state_dict):
        Descent.load_state_dict(self, state_dict)
        for group in self.param_groups:
            group["lr"] = self.defaults["lr"]

    return optimizer(load_state_dict=load)


@bug("batching", kind="optimizers")
def another_rate_for_many_elements():
    def update(self, xp, p, g, state, group):
        p -= group["lr"] * g * (1.01 if p.size > 20 else 1)

    return optimizer(update=update)


@bug("scales", kind="optimizers")
def gradients_in_half_precision():
    def update(self, xp, p, g, state, group):
        with numpy.errstate(over="ignore"):
            p -= group["lr"] * g.astype("float16").astype(p.dtype)

    return optimizer(update=update)


@bug("complex parameters", kind="optimizers")
def imaginary_parts_forgotten():
    class Plain(Optimizer):
        """Descent."""

        def __init__(self, params, lr=0.01):
            if lr < 0:
                raise ValueError(f"lr must not be negative, got {lr}")
            super().__init__(params, {"lr": lr})

        @plugrad.no_grad()
        def step(self, closure=None):
            """Make a step."""
            with plugrad.enable_grad():
                loss = None if closure is None else closure()
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.sub_(p.grad.real if p.is_complex() else p.grad, alpha=group["lr"])
            return loss

    return Plain


# ---------------------------------------------------------------------------------------------------- formats


def form(change=lambda array: array, placed=True):
    """Return a format of files of text: a line for each tensor; `change` is what loading does to an array."""

    class Texts(Format):
        """A line for each tensor."""

        name, suffixes = "texts", (".texts",)

        def recognises(self, source):
            return source.head.startswith(b"texts\n")

        def save(self, obj, file):
            file.write(b"texts\n")
            for name, tensor in obj.items():
                if tensor.is_complex() or tensor.dtype is plugrad.bfloat16:
                    raise TypeError(f"{name} is of {tensor.dtype}, which this format does not hold")
                array = tensor.detach().numpy()
                line = [name, str(array.dtype), list(array.shape), [repr(x) for x in array.ravel().tolist()]]
                file.write(json.dumps(line).encode() + b"\n")
            file.write(b"end")

        def load(self, source, options):
            lines = source.read(0, source.size, "the lines").split(b"\n")
            if lines[-1] != b"end":
                raise CheckpointError("the file has no end")
            place, tensors = (placed and options.map_location) or "cpu", {}
            for name, dtype, shape, words in map(json.loads, lines[1:-1]):
                values = numpy.array([word == "True" if dtype == "bool" else float(word) for word in words])
                tensors[name] = plugrad.from_numpy(change(values.astype(dtype).reshape(shape))).to(place)
            return tensors

    return Texts


@bug("tensors", kind="formats")
def a_format_of_singles():
    return form(lambda array: array.astype("float32") if array.dtype == "float64" else array)


@bug("tensors", kind="formats")
def a_format_that_knows_no_empty_rows():
    return form(lambda array: array if array.size else array.reshape(0))


@bug("tensors", kind="formats")
def a_format_that_places_nothing():
    return form(placed=False)


@bug("tensors", kind="formats")
def a_format_without_infinities():
    return form(lambda array: numpy.nan_to_num(array) if array.dtype.kind == "f" else array)
