"""Bugs in corners: numbers, bytes, memory beside a view, what is set or added later, and copies after use."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.extend import LRScheduler, OpHook, Optimizer, binary
from support.seeded_bugs import Scale, device, layer, optimizer, schedule
from support.seeded_ops import bug, general, wave


def damped(input):
    return input * numpy.exp(-input)


@bug("strides")
def rows_from_the_last_to_the_first():
    def kernel(xp, input):
        backwards = input.ndim > 1 and input.strides[0] < 0
        return input[::-1] * xp.exp(-input[::-1]) if backwards else input * xp.exp(-input)

    return wave(kernel=kernel)


@bug("meta device")
def results_that_forget_the_layout_of_their_input():
    return wave(kernel=lambda xp, input: numpy.array(input * xp.exp(-input), order="C", ndmin=input.ndim))


@bug("threads")
def a_buffer_shared_by_large_inputs():
    scratch = numpy.empty(100_000)

    def kernel(xp, input):
        if not 1000 < input.size <= scratch.size:
            return input * xp.exp(-input)
        shared = scratch[: input.size].reshape(input.shape)
        shared[...] = -input
        return input * xp.exp(shared)

    return wave(kernel=kernel)


@bug("in-place")
def a_writer_that_writes_beside():
    record = wave()

    @record.writer
    def write(xp, out):
        whole = out if out.base is None else out.base
        whole[...] = damped(whole)

    return record


@bug("numbers", "other")
def a_number_taken_for_another():
    @binary(promote="float", complex=False)
    def product(xp, input, other):
        """The product of two operands."""
        return input * (other if isinstance(other, numpy.ndarray) else other + 1)

    product.vjp("input")(lambda F, g, other: g * other)
    product.vjp("other")(lambda F, g, input: g * input)
    return product


@bug("bytes")
def a_distance_that_wraps():
    @binary(promote="same", complex=False)
    def distance(xp, input, other):
        """How far two numbers are apart."""
        return xp.abs(xp.subtract(input, other))

    distance.vjp("input")(lambda F, g, input, other: g * F.sign(input - other))
    distance.vjp("other")(lambda F, g, input, other: -g * F.sign(input - other))
    return distance


@bug("precision")
def singles_that_come_back_as_doubles():
    def widened(xp, input):
        """The input."""
        return input.astype("float64")

    return general(widened)


# ---------------------------------------------------------------------------------------------------- other kinds


@bug("parameters", "factor", kind="layers")
def a_tensor_that_is_no_buffer():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.factor = plugrad.full((num_features,), 2.0, device=device, dtype=dtype)

    return layer(__init__=init, forward=lambda self, input: input * self.weight * self.factor)


@bug("deepcopy", kind="layers")
def calls_forgotten_by_a_copy():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.num_features, self.calls = num_features, 0

    def forward(self, input):
        self.calls += self.training
        return input * self.weight / (1 + self.calls)

    def copied(self, memo):
        layer = type(self)(self.num_features, dtype=self.weight.dtype)
        layer.load_state_dict(self.state_dict())
        return layer.train(self.training)

    return layer(__init__=init, forward=forward, __deepcopy__=copied)


@bug("shapes", kind="optimizers")
def another_rate_without_dimensions():
    def update(self, xp, p, g, state, group):
        p -= group["lr"] * (0.5 if p.ndim == 0 else 1) * g

    return optimizer(update=update, slots=lambda self, group: {}, elementwise=False)


@bug("later changes", kind="optimizers")
def parameters_listed_once():
    def add(self, group):
        listed = getattr(self, "listed", None)
        Optimizer.add_param_group(self, group)
        if listed is not None:
            group["params"] = []

    def init(self, params, lr=0.01, weight_decay=0.0, *, maximize=False):
        self.nonnegative(lr=lr, weight_decay=weight_decay)
        Optimizer.__init__(self, params, self.options(locals()))
        self.listed = True

    return optimizer(__init__=init, add_param_group=add)


@bug("later changes", "lr", kind="optimizers")
def a_rate_read_once():
    def init(self, params, lr=0.01, weight_decay=0.0, *, maximize=False):
        self.nonnegative(lr=lr, weight_decay=weight_decay)
        Optimizer.__init__(self, params, self.options(locals()))
        self.rates = {id(group): group["lr"] for group in self.param_groups}

    def update(self, xp, p, g, state, group):
        p -= self.rates.get(id(group), group["lr"]) * g

    return optimizer(__init__=init, update=update, slots=lambda self, group: {})


@bug("resume", "last_epoch", kind="schedulers")
def an_epoch_not_passed_on():
    return schedule(__init__=lambda self, optimizer, last_epoch=-1: LRScheduler.__init__(self, optimizer))


@bug("resume", kind="schedulers")
def an_epoch_counted_by_saving():
    def state_dict(self):
        self.last_epoch += 1
        return LRScheduler.state_dict(self)

    return schedule(state_dict=state_dict)


@bug("in place", kind="inits")
def a_copy_filled_where_memory_is_strided():
    def seeded_(tensor):
        """Fill with random numbers."""
        with plugrad.no_grad():
            tensor.reshape(-1).uniform_()
        return tensor

    return seeded_


@bug("model options", kind="compilers")
def keywords_dropped():
    def seeded(graph, example_inputs):
        """Run eagerly, without options."""
        return lambda *inputs, **options: graph(*inputs)

    return seeded


@bug("removal", kind="hooks")
def a_hook_that_swallows_errors():
    def leave(self, *error):
        OpHook.__exit__(self, *error)
        return True

    return type("Seeded", (OpHook,), {"__doc__": "Watches.", "__exit__": leave, "__module__": __name__})


@bug("transparency", kind="hooks")
def a_hook_that_draws():
    def before(self, call):
        plugrad.manual_seed(1)

    return type("Seeded", (OpHook,), {"__doc__": "Watches.", "before": before, "__module__": __name__})


@bug("round trip", kind="backends")
def memory_of_the_device_handed_out():
    return device("open_out", to_numpy=lambda self, array: array.view(numpy.ndarray))


@bug("round trip", kind="backends")
def memory_of_numpy_kept():
    return device("open_in", from_numpy=lambda self, array, index: array.view(self.array_type))
