"""Devices, losses, layers, optimizers and more with one bug each, for tests/cli/test_check.py; see seeded_ops.py."""

from __future__ import annotations

import threading
import types

import numpy

import plugrad
from plugrad.extend import Backend, LRScheduler, Module, OpHook, Optimizer, Parameter, composite, kernel_for, loss
from support.seeded_ops import bug, wave

# ---------------------------------------------------------------------------------------------------- other devices


class Wrapped:
    """NumPy, or a module in it, whose functions give arrays of one class."""

    def __init__(self, array_type, module=numpy):
        self._array_type, self._module = array_type, module

    def __getattr__(self, name):
        value = getattr(self._module, name)
        if isinstance(value, types.ModuleType):
            return Wrapped(self._array_type, value)
        if isinstance(value, (type, numpy.ufunc)) or not callable(value):  # ufuncs keep the class of their arguments
            return value
        return lambda *args, **kwargs: self._wrap(value(*args, **kwargs))

    def _wrap(self, result):
        if isinstance(result, (tuple, list)):
            items = map(self._wrap, result)
            return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
        plain = isinstance(result, (numpy.ndarray, numpy.generic))
        return numpy.asarray(result).view(self._array_type) if plain else result


class Host(Backend):
    """Host memory under another name; each subclass has arrays of a class of its own."""

    def __init_subclass__(cls):
        cls.array_type = type(f"{cls.__name__}Array", (numpy.ndarray,), {})
        cls.xp = Wrapped(cls.array_type)

    def from_numpy(self, array, index):
        return numpy.array(array, copy=True).view(self.array_type)

    def to_numpy(self, array):
        return numpy.array(array.view(numpy.ndarray))


class Second(Host):
    """A device of its own, for kernels."""

    name = "second"


@bug("parity second")
def a_kernel_for_one_device_is_wrong():
    record = wave()
    record.kernel("second")(lambda xp, input: input * xp.exp(-input) * (1 + 1e-6))
    return {"backends": [Second], "ops": [record]}


@bug("parity second")
def a_kernel_for_one_device_never_runs():
    record = wave()
    record.kernel("second")(lambda xp, input: input * xp.exp(-input))
    record.compute = lambda ttype, raw: record.kernels["*"](ttype.xp, *raw)  # goes past the device's own
    record.fast_kernel = lambda ttype: None
    return {"backends": [Second], "ops": [record]}


@bug("parity", kind="kernels")
def a_kernel_for_anothers_op_is_wrong():
    return {"backends": [Second], "kernels": [kernel_for("deg2rad", "second")(lambda xp, input: input * 0.01745)]}


def device(name, **changes):
    """Return a backend with a fault."""
    return type("Faulty", (Host,), {"__doc__": "A device.", "name": name, **changes})


@bug("availability", kind="backends")
def a_reason_without_words():
    return device("mute", available=lambda self: "")


@bug("round trip", kind="backends")
def doubles_become_singles():
    def from_numpy(self, array, index):
        array = array.astype("float32") if array.dtype == numpy.float64 else array
        return Host.from_numpy(self, array, index)

    return device("narrow", from_numpy=from_numpy)


@bug("storage", kind="backends")
def views_with_a_storage_of_their_own():
    return device("lonely", storage=lambda self, array: array)


@bug("parity of maximum", kind="backends")
def nan_lost_by_the_device():
    found = device("forgetful")
    found.xp.maximum = numpy.fmax
    return found


@bug("parity of tanh", kind="backends")
def infinities_overflow_on_the_device():
    found = device("naive")
    found.xp.tanh = lambda x, **options: (numpy.exp(2 * x) - 1) / (numpy.exp(2 * x) + 1)
    return found


@bug("parity of exp", kind="backends")
def strides_that_the_device_ignores():
    found = device("flat")

    def exp(x, **options):
        memory = x if x.base is None else x.base.ravel()[: x.size].reshape(x.shape)
        return numpy.exp(memory)

    found.xp.exp = exp
    return found


@bug("random numbers", kind="backends")
def a_generator_without_seed():
    return device("restless", generator=lambda self, seed: Host.generator(self, None))


# ---------------------------------------------------------------------------------------------------- losses


def squares(mean):
    """Return a loss whose mean is taken by a function of (sum, count)."""

    @loss(module="SeededLoss")
    @composite(at=("nn.functional.seeded_loss",))
    def seeded_loss(F, input, target, *, reduction="mean"):
        """Squared differences."""
        if reduction not in ("none", "mean", "sum"):
            raise ValueError(f"{reduction} is not a valid value for reduction")
        values = (input - target) ** 2
        return values if reduction == "none" else F.sum(values) if reduction == "sum" else mean(F, values)

    seeded_loss.samples(lambda make: iter([(make(3, 4), make(3, 4))]))
    return seeded_loss


@bug("reductions", "reduction")
def a_mean_that_is_a_sum():
    return squares(lambda F, values: F.sum(values))


@bug("functional form")
def a_module_other_than_its_function():
    record = squares(lambda F, values: F.mean(values))
    record.loss_module.forward = lambda self, input, target: ((input - target) ** 2).mean() * 1.5
    return record


# ---------------------------------------------------------------------------------------------------- layers


class Scale(Module):
    """A factor for each feature; the class that the faulty ones derive from."""

    def __init__(self, num_features, device=None, dtype=None):
        super().__init__()
        self.weight = Parameter(plugrad.rand(num_features, device=device, dtype=dtype))

    def forward(self, input):
        return input * self.weight


def layer(**members):
    """Return a layer with a fault."""
    return type("Seeded", (Scale,), {"__doc__": "Scaled features.", "__module__": __name__, **members})


@bug("samples", kind="layers")
def a_layer_nobody_can_construct():
    def init(self, wherewithal):
        Scale.__init__(self, 4)

    return layer(__init__=init)


@bug("gradient", "weight", kind="layers")
def a_parameter_cut_off():
    def forward(self, input):
        return input * self.weight + input * (self.weight.detach() - self.weight) * 0.01

    return layer(forward=forward)


@bug("device and dtype", "dtype", kind="layers")
def a_dtype_ignored():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device)

    return layer(__init__=init)


@bug("state dict", kind="layers")
def state_outside_of_the_state_dict():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.shift = plugrad.rand(num_features, dtype=plugrad.float64)

    return layer(__init__=init, forward=lambda self, input: input * self.weight + self.shift)


@bug("train and eval", kind="layers")
def noise_in_evaluation():
    def forward(self, input):
        return plugrad.nn.functional.dropout(input * self.weight, 0.5, training=True)

    return layer(forward=forward)


@bug("pickling", kind="layers")
def a_function_that_no_pickle_takes():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.lock = threading.Lock()

    return layer(__init__=init, __deepcopy__=lambda self, memo: self)


@bug("deepcopy", kind="layers")
def a_copy_that_shares():
    return layer(__deepcopy__=lambda self, memo: self)


@bug("functional form", kind="layers")
def a_parameter_behind_the_modules_back():
    def init(self, num_features, device=None, dtype=None):
        Scale.__init__(self, num_features, device, dtype)
        self.hidden = [self.weight]

    return layer(__init__=init, forward=lambda self, input: input * self.hidden[0].to(input.dtype))


@bug("inputs unchanged", "input", kind="layers")
def an_input_of_a_layer_written():
    def forward(self, input):
        result = input * self.weight
        input.detach().mul_(2)
        return result

    return layer(forward=forward)


# ---------------------------------------------------------------------------------------------------- optimizers


class Descent(Optimizer):
    """Gradient descent with momentum; the class that the faulty ones derive from."""

    elementwise = True
    sign, decay = 1, 1

    def __init__(self, params, lr=0.01, weight_decay=0.0, *, maximize=False):
        self.nonnegative(lr=lr, weight_decay=weight_decay)
        super().__init__(params, self.options(locals()))

    def slots(self, group):
        return {"momentum": self.zeros}

    def update(self, xp, p, g, state, group):
        m = state["momentum"]
        m *= 0.5
        m += g + self.decay * group["weight_decay"] * p
        p -= self.sign * group["lr"] * m


def optimizer(**members):
    """Return an optimizer with a fault."""
    return type("Seeded", (Descent,), {"__doc__": "Descent.", "__module__": __name__, **members})


@bug("descent", kind="optimizers")
def an_ascent():
    return optimizer(sign=-1)


class Counting(Descent):
    """A descent that counts its steps, and does something else in the third."""

    def slots(self, group):
        return {"momentum": self.zeros, "count": self.zeros}

    def update(self, xp, p, g, state, group):
        m, count = state["momentum"], state["count"]
        count += 1
        m *= 0.5
        m += g
        p -= group["lr"] * xp.where(count == 3, -0.25, 1.0) * m


@bug("constant gradients", kind="optimizers")
def a_third_step_upwards():
    return type("Seeded", (Counting,), {"__doc__": "Descent.", "__module__": __name__})


@bug("resume", kind="optimizers")
def state_that_is_not_saved():
    def update(self, xp, p, g, state, group):
        self.count = getattr(self, "count", 0) + 1
        p -= group["lr"] * g / self.count

    return optimizer(update=update, slots=lambda self, group: {})


@bug("batching", kind="optimizers")
def a_norm_of_whatever_is_joined():
    def update(self, xp, p, g, state, group):
        p -= group["lr"] * g / (1e-3 + xp.sqrt((g * g).sum()))

    return optimizer(update=update)


@bug("maximize", "maximize", kind="optimizers")
def maximize_ignored():
    def init(self, params, lr=0.01, weight_decay=0.0, *, maximize=False):
        Descent.__init__(self, params, lr, weight_decay)

    return optimizer(__init__=init)


@bug("weight decay", "weight_decay", kind="optimizers")
def a_decay_that_grows():
    return optimizer(decay=-1)


@bug("parameter groups", "lr", kind="optimizers")
def the_rate_of_a_group_ignored():
    def update(self, xp, p, g, state, group):
        p -= self.defaults["lr"] * g

    return optimizer(update=update, slots=lambda self, group: {})


@bug("closure", kind="optimizers")
def a_loss_not_returned():
    def step(self, closure=None):
        Descent.step(self, closure)

    return optimizer(step=step)


@bug("gradients unchanged", kind="optimizers")
def a_gradient_written():
    def update(self, xp, p, g, state, group):
        g *= 0.5
        p -= group["lr"] * g

    return optimizer(update=update, slots=lambda self, group: {}, elementwise=False)


@bug("validation", "lr", kind="optimizers")
def a_negative_rate_taken():
    def init(self, params, lr=0.01, weight_decay=0.0, *, maximize=False):
        Optimizer.__init__(self, params, self.options(locals()))

    return optimizer(__init__=init)


# ---------------------------------------------------------------------------------------------------- schedules


class Falling(LRScheduler):
    """A rate that halves; the class that the faulty ones derive from."""

    def get_lr(self):
        return [lr * 0.5**self.last_epoch for lr in self.base_lrs]


def schedule(**members):
    """Return a schedule with a fault."""
    return type("Seeded", (Falling,), {"__doc__": "Halving.", "__module__": __name__, **members})


@bug("rates", kind="schedulers")
def a_negative_rate():
    return schedule(get_lr=lambda self: [lr - 0.1 * self.last_epoch for lr in self.base_lrs])


@bug("effect", kind="schedulers")
def a_rate_that_stays():
    return schedule(get_lr=lambda self: list(self.base_lrs))


@bug("resume", kind="schedulers")
def a_count_outside_of_the_state():
    counts = {}

    def get_lr(self):
        counts[id(self)] = counts.get(id(self), 0) + 1
        return [lr * 0.5 ** counts[id(self)] for lr in self.base_lrs]

    return schedule(get_lr=get_lr)


@bug("functions kept", "lr_lambda", kind="schedulers")
def a_function_lost_in_loading():
    def init(self, optimizer, lr_lambda, last_epoch=-1):
        self.function = [lr_lambda]
        LRScheduler.__init__(self, optimizer, last_epoch)

    def get_lr(self):
        factor = self.function[0](self.last_epoch) if self.function else 1.0
        return [lr * factor for lr in self.base_lrs]

    def state_dict(self):
        return {name: value for name, value in Falling.state_dict(self).items() if name != "function"} | {
            "function": [f for f in self.function if not hasattr(f, "__code__")]
        }

    return schedule(__init__=init, get_lr=get_lr, state_dict=state_dict)


# ---------------------------------------------------------------------------------------------------- initialisers


@bug("in place", kind="inits")
def another_tensor_returned():
    def seeded_(tensor):
        """Fill with random numbers."""
        with plugrad.no_grad():
            tensor.uniform_()
        return tensor.clone()

    return seeded_


@bug("in place", kind="inits")
def a_filling_recorded():
    def seeded_(tensor):
        """Fill with random numbers."""
        with plugrad.no_grad():
            tensor.uniform_()
        return tensor.mul(2)

    return seeded_


@bug("seed", kind="inits")
def random_numbers_of_numpys_own():
    def seeded_(tensor):
        """Fill with random numbers."""
        with plugrad.no_grad():
            tensor.copy_(plugrad.from_numpy(numpy.random.default_rng().random(tuple(tensor.shape))))
        return tensor

    return seeded_


# ---------------------------------------------------------------------------------------------------- compilers


@bug("model perceptron", kind="compilers")
def a_gradient_dropped():
    def seeded(graph, example_inputs):
        """Run eagerly, without history."""
        return lambda *inputs: graph(*[t.detach() for t in inputs])

    return seeded


@bug("model branching", kind="compilers")
def one_branch_remembered():
    def seeded(graph, example_inputs):
        """Run what the first inputs ran."""
        first = float(example_inputs[0].sum()) > 0
        return lambda x: graph(x if (float(x.sum()) > 0) is first else -x)

    return seeded


# ---------------------------------------------------------------------------------------------------- hooks on ops


@bug("transparency", kind="hooks")
def a_hook_that_writes():
    def after(self, call):
        if call.name == "mul":
            with plugrad.no_grad():
                call.result.add_(1)

    return type("Seeded", (OpHook,), {"__doc__": "Watches.", "after": after, "__module__": __name__})


@bug("removal", kind="hooks")
def a_hook_that_stays():
    return type("Seeded", (OpHook,), {"__doc__": "Watches.", "__exit__": lambda self, *exc: None})
