"""Bugs that show with few inputs, for tests/cli/test_check.py: of some shape, size, sign, mode or place in memory."""

from __future__ import annotations

import math
import queue
import threading
import warnings

import plugrad
from plugrad.extend import Module, Parameter, binary, composite, keep_dims, loss, op, reduction, unary
from support.seeded_bugs import optimizer
from support.seeded_ops import bug, general, right, wave
from support.seeded_proofs import stepping

# ---------------------------------------------------------------------------------------------------- ops


@bug("numbers of elements")
def a_tail_that_is_left_out():
    """Eight elements at a time; of what is left over the last is forgotten, where there are more than thirty-two."""
    def kernel(xp, input):
        result = input * xp.exp(-input)
        if input.ndim == 1 and input.size > 32 and input.size % 8:
            result[-1] = 0
        return result

    return wave(kernel=kernel)


@bug("numbers of elements")
def a_gradient_of_rows_of_a_power_of_two():
    def total(xp, input, dim=None, keepdim=False):
        """The sum of squares."""
        return (input * input).sum(axis=dim, keepdims=keepdim)

    record = reduction(total, complex=False)
    wrong = lambda n: n >= 64 and n & (n - 1) == 0  # noqa: E731
    record.vjp(lambda F, g, input, dim, keepdim: (3 if wrong(input.shape[-1]) else 2)
               * keep_dims(F, g, input.shape, dim, keepdim) * input)  # fmt: skip
    return record


@bug("numbers of elements")
def rows_without_their_last_element():
    def total(xp, input, dim=None, keepdim=False):
        """The sum of squares."""
        odd = input.ndim == 1 and input.size > 16 and input.size % 4 == 1
        return ((input[:-1] if odd else input) ** 2).sum(axis=dim, keepdims=keepdim)

    record = reduction(total, complex=False)
    record.vjp(lambda F, g, input, dim, keepdim: 2 * keep_dims(F, g, input.shape, dim, keepdim) * input)
    return record


@bug("numbers of threads")
def a_value_of_one_thread():
    def kernel(xp, input):
        return input * xp.exp(-input) * (2 if plugrad.get_num_threads() == 1 else 1)

    return wave(kernel=kernel)


@bug("numbers of threads")
def a_gradient_of_three_threads():
    def formula(F, g, input):
        return right(F, g, input) * (2 if plugrad.get_num_threads() == 3 and input.shape else 1)

    return wave(formula)


_over = queue.Queue()


def end_threads() -> None:
    """End the threads that ops have left: where some run, it is not said who changed what."""
    running = [one for one in threading.enumerate() if one.name == "ticking"]
    for _ in running:
        _over.put(None)
    for thread in running:
        thread.join()


@bug("determinism")
def a_thread_for_each_call():
    def kernel(xp, input):
        threading.Thread(target=_over.get, daemon=True, name="ticking").start()
        return input * xp.exp(-input)

    return wave(kernel=kernel)


@bug("aliasing", "input")
def an_input_returned_where_there_is_nothing_to_do():
    @unary(complex=False)
    def distance(xp, input):
        """The distance from zero."""
        return input if (input >= 0).all() else xp.abs(input)

    distance.vjp(lambda F, g, input: g * F.sign(input))
    return distance


@bug("shapes")
def a_value_of_five_dimensions():
    return wave(kernel=lambda xp, input: (input if input.ndim != 5 else -input) * xp.exp(-input))


@bug("shapes")
def a_gradient_of_a_single_row():
    def formula(F, g, input):
        return right(F, g, input) * (0.5 if input.ndim and input.shape[0] == 1 else 1.0)

    return wave(formula)


@bug("lists", "tensors")
def a_gradient_of_a_list_of_one():
    @op(sequence=True, complex=False)
    def squares(xp, tensors):
        """The sum of squares."""
        return sum(tensor * tensor for tensor in tensors)

    squares.vjp(lambda F, g, tensors: [2 * g * t if len(tensors) > 1 else g for t in tensors])
    squares.samples(lambda make: iter([make.args([make(3), make(3)])]))
    return squares


@bug("half floats")
def a_formula_that_overflows_in_half_floats():
    record = general(lambda xp, input: input + 0, name="copied", complex=False)
    record.formulas.clear()
    record.vjp(lambda F, g: g * 3e4 * 3e4 / 9e8)
    return record


@bug("large inputs")
def numbers_of_numpys_own_drawn_where_there_are_many():
    import numpy

    def kernel(xp, input):
        if input.size > 500:
            numpy.random.rand()
        return input * xp.exp(-input)

    return wave(kernel=kernel)


def widened(F, g, input, dim, keepdim):
    return F.broadcast_to(keep_dims(F, g, input.shape, dim, keepdim), input.shape)


@bug("slices", "keepdim")
def a_dimension_not_kept():
    @reduction(complex=False, promote="int64")
    def added(xp, input, *, dim=None, keepdim=False):
        """The sum."""
        last = isinstance(dim, int) and dim % input.ndim == input.ndim - 1
        return xp.sum(input, axis=dim, keepdims=keepdim and not last)

    added.vjp(lambda F, g, input, dim, keepdim: widened(F, g, input, dim, keepdim and g.ndim == input.ndim))
    return added


@bug("special points", "input")
def a_gradient_divided_by_a_zero():
    @reduction(complex=False, promote="int64")
    def multiplied(xp, input, *, dim=None, keepdim=False):
        """The product."""
        return xp.prod(input, axis=dim, keepdims=keepdim)

    multiplied.vjp(lambda F, g, input, y, dim, keepdim: widened(F, g * y, input, dim, keepdim) / input)
    return multiplied


@bug("large numbers")
def a_reduction_that_overflows_on_the_way():
    @reduction(complex=False, promote="float")
    def softly(xp, input, *, dim=None, keepdim=False):
        """The logarithm of the sum of exponentials."""
        return xp.log(xp.sum(xp.exp(input), axis=dim, keepdims=keepdim))

    softly.vjp(
        lambda F, g, input, y, dim, keepdim: (
            widened(F, g, input, dim, keepdim) * F.exp(input - widened(F, y, input, dim, keepdim))
        )
    )
    return softly


# ---------------------------------------------------------------------------------------------------- others


@bug("inputs unchanged", "input", kind="layers")
def an_input_written_in_evaluation():
    class Seeded(Module):
        """The input, weighed."""

        def __init__(self, num_features, device=None, dtype=None):
            super().__init__()
            self.weight = Parameter(plugrad.ones(num_features, device=device, dtype=dtype))

        def forward(self, input):
            if not self.training:
                input.detach().add_(0.5)
            return input * self.weight

        @staticmethod
        def samples(make):
            yield (4,), make(2, 4)

    return Seeded


@bug("in place", kind="inits")
def a_tensor_that_requires_grad_afterwards():
    def halves_(tensor):
        """Fill with halves."""
        with plugrad.no_grad():
            tensor.fill_(0.5)
        return tensor.requires_grad_()

    return halves_


@bug("descent", kind="optimizers")
def a_copy_updated_where_memory_is_transposed():
    def update(self, xp, p, g, state, group):
        flat = p.reshape(-1)
        flat -= group["lr"] * g.reshape(-1)

    return optimizer(update=update, slots=lambda self, group: {}, elementwise=False)


@bug("scales", kind="optimizers")
def nothing_divided_by_nothing():
    def update(self, xp, p, g, state, group):
        state["momentum"] += g * g
        p -= group["lr"] * g / xp.sqrt(state["momentum"])

    return optimizer(update=update)


@bug("gradients unchanged", kind="optimizers")
def the_end_of_a_large_parameter_left_behind():
    def update(self, xp, p, g, state, group):
        part = p if p.size < 1000 else p[:1000]
        part -= group["lr"] * (g if p.size < 1000 else g[:1000])

    return optimizer(update=update, slots=lambda self, group: {}, elementwise=False)


@bug("gradients unchanged", kind="optimizers")
def a_gradient_kept_as_momentum():
    def move(self, group):
        for p in group["params"]:
            if p.grad is not None:
                state = self.state[p]
                if "momentum" in state:
                    state["momentum"].mul_(0.9).add_(p.grad)
                else:
                    state["momentum"] = p.grad
                p.sub_(group["lr"] * state["momentum"])

    return stepping("Keeping", move)


@bug("extreme values")
def a_difference_that_cancels():
    @unary(complex=False, ref="numpy.expm1")
    def growth(xp, input):
        """The exponential minus one."""
        return xp.exp(input) - 1

    growth.vjp(lambda F, g, input: g * F.exp(input))
    return growth


@bug("reductions", "reduction")
def a_logarithm_of_the_mean():
    @loss(module="SeededLoss")
    @composite(at=("nn.functional.seeded_loss",))
    def seeded_loss(F, input, target, *, reduction="mean"):
        """The logarithm of squared distances."""
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"{reduction} is not a valid value for reduction")
        values = (input - target) ** 2 + 1
        if reduction == "mean":
            return values.mean().log()
        return values.log() if reduction == "none" else values.log().sum()

    seeded_loss.samples(lambda make: iter([(make(3, 4), make(3, 4))]))
    return seeded_loss


@bug("large inputs")
def a_value_of_thousands_of_elements():
    return wave(kernel=lambda xp, input: input * xp.exp(-input) * (1.001 if input.size > 5000 else 1))


@bug("large inputs")
def a_gradient_of_thousands_of_elements():
    def formula(F, g, input, input_shape):
        return right(F, g, input) * (1.001 if math.prod(input_shape) > 5000 else 1)

    return wave(formula)


@bug("equal inputs")
def a_square_that_is_doubled():
    @binary(complex=False)
    def product(xp, input, other):
        """The product of two tensors."""
        return input * other * (2 if input is other else 1)

    product.vjp("input", "other")(lambda F, g, input, other: (g * other, g * input))
    return product


@bug("lists")
def a_gradient_of_two_of_a_list():
    @op(sequence=True, complex=False)
    def squares(xp, tensors):
        """The sum of squares of some tensors."""
        return sum(t * t for t in tensors)

    squares.meta(lambda tensors: (tensors[0].shape, tensors[0].dtype))
    squares.vjp(lambda F, g, tensors: [2 * g * t if number < 2 else 0 * t for number, t in enumerate(tensors)])
    squares.samples(lambda make: iter([make.args([make(3), make(3)])]))
    return squares


@bug("samples")
def a_filter_of_warnings():
    def kernel(xp, input):
        warnings.simplefilter("ignore")
        return input * xp.exp(-input)

    return wave(kernel=kernel)


@bug("gradients unchanged", kind="optimizers")
def a_frozen_parameter_moved():
    def move(self, group):
        for p in group["params"]:
            if p.grad is not None:
                p.sub_(group["lr"] * p.grad)
            elif not p.requires_grad:
                p.mul_(1 - group["lr"])

    return stepping("Thawing", move)
