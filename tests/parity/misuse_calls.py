"""Right calls of everything public, from which wrong ones are made: samples of ops, and a table of the rest."""

from __future__ import annotations

import functools
import inspect
import operator

import numpy
import torch
import torch._dynamo  # the first optimizer imports it, which takes longer than a call may
import torch.nn.utils.prune
from misuse_layers import LAYERS
from misuse_programs import PROGRAMS
from misuse_rooms import ROOMS
from misuse_table import SHORT, TABLE
from opinfo_convert import copy_with_strides

import plugrad
from plugrad import registry
from plugrad.testing import samples_of

# Neither has numbers to compare: drawn at random, never filled, or another order of what has none.
UNCOMPARED = ("rand", "empty", "dropout", "bernoulli", "normal", "uniform", "multinomial", "exponential", "geometric",
              "poisson", "binomial", "cauchy", "rrelu", "fractional", "gumbel", "resize", "svd", "eig", "qr", "lstsq",
              "kaiming", "xavier", "orthogonal", "sparse_", "seed", "getstate", "random", "initial_seed",
              "feature_alpha", "sample", "Dropout", "FloatTensor", "make_tensor", "RReLU", "DataLoader")  # fmt: skip


class Call:
    """A right call: the public dotted name, and source or values of its arguments."""

    def __init__(self, name, args, kwargs=None):
        self.name, self.args, self.kwargs = name, tuple(args), dict(kwargs or {})

    def function(self, library):
        """Return what is called, of PyTorch or plugrad."""
        if self.name.startswith("operator."):
            return getattr(operator, self.name.removeprefix("operator."))
        if self.name.startswith("program."):
            return functools.partial(PROGRAMS[self.name.removeprefix("program.")], library)
        deed, _, name = self.name.rpartition(" ")
        found = operator.attrgetter(name)(library)
        return DEEDS[deed](found) if deed else found

    @property
    def of_class(self):
        """Whether it is a method of another class than Tensor, whose first argument nobody spells out."""
        owner = self.name.rpartition(".")[0].rpartition(".")[2]
        return owner[:1].isupper() and owner != "Tensor"

    def arguments(self, library):
        """Return fresh arguments for one of the libraries."""

        def fresh(tensor):
            if isinstance(tensor, plugrad.Tensor):
                mine = tensor.detach().clone().requires_grad_(tensor.requires_grad)
                return to_torch(tensor) if library is torch else mine
            return tensor

        def made(value):
            if isinstance(value, Source):
                return value.make(library)
            if isinstance(value, plugrad.Tensor):
                return fresh(value)
            if type(value) in (tuple, list):
                return type(value)(map(made, value))
            return constant(value, library)

        return [made(value) for value in self.args], {name: made(value) for name, value in self.kwargs.items()}


class Source:
    """An argument that is made from source with the library as `T`."""

    def __init__(self, text):
        self.text = text

    def make(self, library):
        return eval(self.text, {"T": library, "np": numpy, "filled": filled, "graded": graded})


def filled(module):
    """Return a module whose parameters have values that do not depend on a library's random numbers."""
    for parameter in module.parameters():
        values = [(i * 3 % 7 - 2) / 10 for i in range(parameter.numel())]
        parameter.data = parameter.data.new_tensor(values).reshape(parameter.shape)
    return module


def graded(tensor):
    """Return a tensor that requires grad and has one."""
    tensor.requires_grad_().grad = tensor.detach() * 0.5
    return tensor


def _made(cls):
    def make_and_call(inputs, *args, **kwargs):
        return filled(cls(*args, **kwargs))(*inputs if isinstance(inputs, tuple) else (inputs,))

    return make_and_call


def _stepped(cls):
    def make_and_step(*args, **kwargs):
        optimizer = cls(*args, **kwargs)
        parameters = [one for group in optimizer.param_groups for one in group["params"]]
        for _ in range(2):
            for one in parameters:
                one.grad = one.detach() * 0.5
            optimizer.step()
        return [one.detach() for one in parameters]

    return make_and_step


def _called(function):
    return lambda argument, *args, **kwargs: function(*args, **kwargs)(argument)


def _applied(function):
    def apply(argument, *args, **kwargs):
        result, function_of_it = function(*args, **kwargs)
        return result, function_of_it(argument)

    return apply


def _split(function):
    return lambda *args, **kwargs: [len(part) for part in function(*args, **kwargs)]


def _scheduled(cls):
    def make_and_step(optimizer, *args, **kwargs):
        schedule = cls(optimizer, *args, **kwargs)
        rates = [schedule.get_last_lr()]
        for _ in range(4):
            optimizer.step()
            schedule.step()
            rates.append([group["lr"] for group in optimizer.param_groups])
        return rates

    return make_and_step


def _likely(cls):
    def make_and_ask(value, *args, **kwargs):
        distribution = cls(*args, **kwargs)
        return distribution.log_prob(value), distribution.batch_shape, distribution.event_shape

    return make_and_ask


def _checked(cls):
    return lambda value, *args, **kwargs: cls(*args, **kwargs).check(value)


def _iterated(cls):
    return lambda *args, **kwargs: [item for _, item in zip(range(5), cls(*args, **kwargs), strict=False)]


DEEDS = {
    "made": _made, "stepped": _stepped, "called": _called, "applied": _applied, "split": _split, "iterated": _iterated,
    "scheduled": _scheduled, "likely": _likely, "checked": _checked,
}  # fmt: skip


WITH_INPUTS = {"made", "called", "applied", "likely", "checked"}  # whose first argument is not the class's


def to_torch(tensor):
    """Return a tensor of plugrad as one of PyTorch with the same values and strides."""
    plain = tensor.detach()
    if plain.dtype is plugrad.bfloat16:
        made = torch.from_numpy(plain.float().numpy().copy()).bfloat16()
    else:
        made = torch.from_numpy(copy_with_strides(plain.numpy()))
    return made.requires_grad_(tensor.requires_grad)


def constant(value, library):
    """Return a dtype, device, layout... of plugrad as that of a library."""
    if library is plugrad:
        return value.clone_state() if isinstance(value, plugrad.Generator) else value
    if isinstance(value, (plugrad.dtype, plugrad.memory_format, plugrad.layout)):
        return getattr(torch, str(value).rpartition(".")[2])
    if isinstance(value, plugrad.device):
        return torch.device(str(value))
    if isinstance(value, plugrad.Generator):
        return torch.Generator().manual_seed(value.initial_seed())
    if isinstance(value, plugrad.Size):
        return torch.Size(value)
    return value


def has(library, name):
    """Whether a library has the dotted name."""
    try:
        Call(name, ()).function(library)
    except (AttributeError, NotImplementedError):
        return False
    return True


def load_everything():
    """Import every plugin, so that all records are there."""
    for name in dir(plugrad):
        if has(plugrad, name):
            for below in dir(getattr(plugrad, name)) if name in PLACES else ():
                has(plugrad, f"{name}.{below}")
    for below in dir(plugrad.nn.functional):
        has(plugrad, f"nn.functional.{below}")


PLACES = ("linalg", "special", "fft", "signal", "masked", "nn", "optim")


def of_ops():
    """Yield right calls of every public op and its in-place form, few for each."""
    load_everything()
    for op in list(registry.ops.values()):
        if op.provider is None or not op.module.startswith("plugrad."):
            continue
        chosen = [one for one in samples_of(op) if one.through is None or one.through.__name__ == "_on_copy"]
        methods = {op.name, *(name[7:] for name in op.names if name.startswith("Tensor."))}
        inplace = [f"Tensor.{name}_" for name in sorted(methods)] if op.inplace else []
        for name in (*op.names, *inplace):
            if name in NOT_CALLED or not (has(torch, name) and has(plugrad, name)):
                continue
            for sample in chosen if len(chosen) < 4 else (chosen[0], chosen[len(chosen) // 2], chosen[-1]):
                if name in inplace:
                    sample = sample.map(lambda t: t.detach())
                yield Call(name, sample.args, sample.kwargs)


NOT_CALLED = {"nn.functional.linear_cross_entropy"}


def of_table(table):
    """Yield the right calls of a table."""
    short = {name: Source(text) for name, text in SHORT.items()}
    for line in table.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition("(")
        args, kwargs = eval(f"collect({rest}", {"collect": lambda *a, **k: (a, k), "S": Source, **short})
        if has(torch, name) and has(plugrad, name):
            yield Call(name, args, kwargs)


PARTS = {
    "ops": of_ops,
    "table": lambda: of_table(TABLE),
    "layers": lambda: of_table(LAYERS),
    "rooms": lambda: of_table(ROOMS),
}


def parameters_of(call):
    """Return the names of further parameters that a call may be given, as far as Python can tell."""
    deed, _, name = call.name.rpartition(" ")
    function, before = Call(name, ()).function(plugrad), ["inputs"] if deed in WITH_INPUTS else []
    op = getattr(function, "__op__", None)
    if op is not None:
        return before + list(op.parameters)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [name for name, parameter in signature.parameters.items() if parameter.kind in kinds and name != "self"]
    return before + names
