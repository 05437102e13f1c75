"""An op and a sample: the call, the call as a function, its gradients, and the names of its arguments."""

from __future__ import annotations

import contextlib
import dis

import plugrad
from plugrad.extend import choose_memory, chosen_memory
from plugrad.testing.comparison import assert_close
from plugrad.testing.samples import Maker, Sample, samples_of
from plugrad.testing.tensors import differentiable, tensors_in


class Skip(Exception):
    """Raised inside a check which does not apply; the case then returns the reason."""


def described(error) -> str:
    """Return an exception as text, with the place that raised it."""
    place = error.__traceback__ and place_of(error)
    where = f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})" if place else ""
    return f"{type(error).__name__}: {error}{where}"


def call(op, sample):
    """Call an op with a sample's arguments, its random numbers seeded."""
    plugrad.manual_seed(0)
    return sample.call(op.function)


def function_of(op, sample) -> tuple:
    """Return an op's call with a sample as ``(function, arguments)``, ready for `check`; random numbers are seeded."""

    def function(*values):
        named = dict(zip(sample.kwargs, values[len(sample.args) :], strict=True))
        return call(op, Sample(values[: len(sample.args)], named, sample.through))

    return function, (*sample.args, *sample.kwargs.values())


def of_tensors(op, sample, chosen=lambda tensor: True) -> tuple:
    """Return ``(function, tensors)``: the call as a function of some tensors alone, which gives a tuple of tensors."""

    def function(*values):
        given = iter(values)
        return tuple(tensors_in(call(op, sample.map(lambda t: next(given) if chosen(t) else t))))

    return function, [t for t in sample.tensors() if chosen(t)]


def each(op, device):
    """Yield (label, sample) for the samples of an op; skip where there are none."""
    try:
        samples = samples_of(op, device=device)
    except Exception as error:  # the check "samples" reports it, once
        raise Skip(f"its samples can't be made: {described(error)}") from error
    if not samples:
        raise Skip("no samples")
    for number, sample in enumerate(samples):
        yield f"sample {number} {sample}", sample


def each_differentiable(op, device):
    """Yield what `each` does for the samples with gradients; skip where there are none."""
    none = True
    for label, sample in each(op, device):
        if graded(op, sample):
            none = False
            yield label, sample
    if none:
        raise Skip("no sample requires grad")


def leaves(sample) -> list:
    """Return the tensors of a sample that require grad."""
    return [t for t in sample.tensors() if t.requires_grad]


def named_tensors(op, sample) -> list:
    """Return pairs (name of the argument, tensor) for the tensors of a sample."""
    rest = [f"argument {i}" for i in range(len(op.parameters), len(sample.args))]
    named = [*zip([*op.parameters, *rest], sample.args, strict=False), *sample.kwargs.items()]
    return [(name, tensor) for name, value in named for tensor in tensors_in(value)]


def argument_of(op, sample, number) -> str:
    """Name the argument that holds the tensor at a place among those that require grad."""
    return [name for name, tensor in named_tensors(op, sample) if tensor.requires_grad][number]


def agree(actual, expected, label, *, rtol=1e-10, atol=1e-12, **options):
    """Assert that two results are close, saying where."""
    try:
        assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True, **options)
    except AssertionError as error:
        raise AssertionError(f"{label}: {error}") from None


def same_bits(one, other) -> bool:
    """Whether two tensors, or None, are the same to the bit: NaN equals NaN, and 0.0 is not -0.0."""
    if one is None or other is None:
        return one is other
    arrays = [t.detach().cpu()._raw for t in (one, other)]
    return arrays[0].dtype == arrays[1].dtype and arrays[0].tobytes() == arrays[1].tobytes()


def differentiable_outputs(op, sample) -> list:
    """Return the outputs of an op that require grad."""
    return differentiable(call(op, sample))


def graded(op, sample):
    """Return (outputs, leaves) of a call that can be differentiated, else None."""
    wanted = leaves(sample)
    outputs = differentiable_outputs(op, sample) if wanted else []
    return (outputs, wanted) if outputs else None


def cotangents_of(op, outputs, name="cotangent") -> list:
    """Return a fixed random grad_output for each output."""
    make = Maker(f"{op.name} {name}")
    return [make(*y.shape, dtype=y.dtype, requires_grad=False).to(y.device) for y in outputs]


def gradients(op, sample, create_graph=False, lay=None, recorded=None):
    """Return the gradients of an op's leaves for a fixed random grad_output, laid out in memory by `lay`.

    `recorded`: (outputs, leaves) of a call that was made already.
    """
    recorded = recorded or graded(op, sample)
    if not recorded:
        raise Skip("no output requires grad")
    outputs, inputs = recorded
    given = cotangents_of(op, outputs)
    given = given if lay is None else [lay(g) for g in given]
    return list(plugrad.autograd.grad(outputs, inputs, given, create_graph=create_graph, allow_unused=True))


def outcome(op, sample) -> list:
    """Return pairs (what, tensor or None): the results of a call, and the gradients where it has any."""
    results, inputs = tensors_in(call(op, sample)), leaves(sample)
    named = [(f"result {i}", y.detach()) for i, y in enumerate(results)]
    outputs = [y for y in results if inputs and y.requires_grad]
    if outputs:
        try:
            grads = plugrad.autograd.grad(outputs, inputs, cotangents_of(op, outputs), allow_unused=True)
        except NotImplementedError:  # a stated limit, which the check of gradients reports
            return named
        named += [(f"the gradient of argument {argument_of(op, sample, i)!r}", g) for i, g in enumerate(grads)]
    return named


UNFILLED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}


def is_random(op, sample) -> bool:
    """Whether the result depends on the seed of the random numbers, or on what new memory holds."""
    if op.name in UNFILLED:  # which may hold by chance what it is filled with below
        return True
    results, chosen = [], {name: chosen_memory(name) for name in ("deterministic", "fill")}
    for seed in (0, 1):
        plugrad.manual_seed(seed)
        choose_memory(deterministic=seed == 1, fill=True)  # which fills what nobody has filled
        try:
            results.append([t.detach() for t in tensors_in(sample.call(op.function))])
        finally:
            choose_memory(**chosen)
    return not all(map(same_bits, *results))


@contextlib.contextmanager
def kernel_replaced(op, backend, kernel):
    """Give an op another kernel for a backend, None for none of its own, within a `with` block."""
    own, function = op.kernels.pop(backend), op.function
    if kernel is not None:
        op.kernels[backend] = kernel
    op.changed()
    try:
        yield
    finally:
        op.kernels[backend] = own
        op.changed()
        op._function = function  # names that were looked up before must go on meaning the same function


def place_of(error):
    """Return the innermost entry of an exception's traceback."""
    place = error.__traceback__
    while place.tb_next is not None:
        place = place.tb_next
    return place


def by_statement(error) -> bool:
    """Whether an exception was raised by a `raise` or `assert` rather than by a failing operation."""
    place = place_of(error)
    return dis.opname[place.tb_frame.f_code.co_code[place.tb_lasti]] == "RAISE_VARARGS"
