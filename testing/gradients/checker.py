"""Check gradients against slopes measured from function values, with a verdict that can be trusted.

A fixed tolerance judges the scale of the numbers more than the gradient: a tiny gradient passes when it is
missing, a slightly wrong one passes, a kink or a float32 input fails. Here every slope is measured with an
error bar (`differences`), the tolerance is relative to each Jacobian element, and there are four answers:

* ``PASS``: the gradient agrees with what was measured;
* ``FAIL``: it does not, by more than can be explained by the measurement;
* ``NONDIFFERENTIABLE``: the function has a kink at the inputs, and the gradient is one of its subgradients;
* ``INCONCLUSIVE``: the values are too noisy, undefined or random to tell.
"""

from __future__ import annotations

import dataclasses

import numpy

import plugrad
from plugrad.arguments import checked
from plugrad.testing.gradients.backward import CAPTURED, Backward, natural_steps
from plugrad.testing.gradients.flat import NOTHING_TO_CHECK, FlatFunction, Misfit
from plugrad.testing.gradients.higher_orders import Gradient
from plugrad.testing.gradients.jacobian import Comparison
from plugrad.testing.gradients.layouts import differs, in_other_layout
from plugrad.testing.gradients.precision import agreement
from plugrad.testing.gradients.sparse_inputs import densified
from plugrad.testing.gradients.transforms import ForwardComparison, batched_backward, batched_forward
from plugrad.testing.gradients.unregistered import named_parameters, used, widened
from plugrad.testing.gradients.verdict import (
    ATOL,
    EPS,
    FAIL,
    INCONCLUSIVE,
    NONDIFFERENTIABLE,
    PASS,
    RTOL,
    Tolerance,
    Verdict,
    worse,
)
from plugrad.testing.tensors import differentiable, is_float, like, map_tensors, tensors_in, wide_dtype

__all__ = [
    "FAIL",
    "INCONCLUSIVE",
    "NONDIFFERENTIABLE",
    "PASS",
    "GradcheckError",
    "Verdict",
    "check",
    "gradcheck",
    "gradgradcheck",
]


UNKNOWN = (
    "forward mode does not reach the parameter {!r}, which is not registered: assign it as an attribute, or in a "
    "ParameterList, ParameterDict, ModuleList or ModuleDict"
)


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck: a gradient is wrong, or can't be judged."""


def check(
    func,
    inputs,
    *,
    eps=EPS,
    atol=ATOL,
    rtol=RTOL,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    fast_mode=False,
    seed=0,
) -> Verdict:
    """Judge the gradient of `func` at `inputs`.

    Args:
        func: function, `autograd.Function`, or Module (whose parameters are then checked too) returning
            tensors.
        inputs: a tensor, or a tuple of arguments; those that require grad are checked, in any float or
            complex dtype. Low precision is measured in float64.
        eps: the largest step, in units of the input, when not left at its default.
        atol, rtol: tolerances as in PyTorch, when not left at their defaults; else an element must agree
            within its error bar and `RELATIVE`.
        nondet_tol: how far two runs may differ.
        check_undefined_grad: also run backward with only one of several outputs.
        check_grad_dtypes: demand that a gradient has its input's dtype.
        fast_mode: look along a few random directions instead of at every element.
        seed: of the directions.

    Raises ValueError when no input requires grad, RuntimeError for an input that `expand` made, whose elements share
    memory; whatever `func` or its backward raises passes through.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> check(lambda x: x * x, (x,)).status
    'PASS'
    >>> check(lambda x: x * x.detach(), (x,)).element
    (0,)
    """
    for name, value in (("eps", eps), ("atol", atol), ("rtol", rtol), ("nondet_tol", nondet_tol)):
        if not isinstance(value, (int, float)) or not abs(value) < float("inf"):
            raise TypeError(f"gradcheck(): argument '{name}' must be a finite float, not {value!r}")
    options = Options(
        eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol, undefined=check_undefined_grad, dtypes=check_grad_dtypes,
        fast=fast_mode, seed=seed,
    )  # fmt: skip
    return _verdict(func, inputs, options)


@dataclasses.dataclass(slots=True, kw_only=True)
class Options:
    """What to check, and how strictly."""

    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    undefined: bool
    dtypes: bool
    fast: bool
    seed: int = 0
    backward: bool = True
    forward: bool = False
    batched: bool = False
    batched_forward: bool = False

    @property
    def largest(self):
        """The largest step, None where it is left at its default."""
        return None if self.eps == EPS else self.eps

    @property
    def given(self) -> bool:
        """Whether tolerances are not left at their defaults."""
        return (self.atol, self.rtol) != (ATOL, RTOL)


def _verdict(func, inputs, options) -> Verdict:
    flat = FlatFunction(func, inputs)
    with numpy.errstate(all="ignore"):
        verdict = _judged(flat, options)
        unsettled = verdict.status != FAIL and options.backward  # INCONCLUSIVE: a wrong layout is clear even so
        if unsettled and (other := in_other_layout(flat)) is not None and differs(flat, other):
            again = _judged(other, options)
            again.message = f"with inputs that are not contiguous: {again.message}"
            verdict = worse(verdict, again)
    return verdict


def _judged(flat, options) -> Verdict:
    """Return the verdict on a function: on its own precision if that is low, and on its formula in float64."""
    random = numpy.random.default_rng(options.seed)
    copied = flat.low or isinstance(flat.func, plugrad.nn.Module)
    try:
        backward = Backward(flat, random, options.fast or copied, options.undefined, options.backward)
        verdict = backward.sound(options.nondet_tol, options.dtypes)
        if not verdict:
            return verdict
        if options.batched:
            verdict = batched_backward(backward, options.nondet_tol)
        if copied:
            try:
                wide = Backward(flat.widened(), random, options.fast, options.undefined, options.backward)
            except Exception as error:  # func is the user's: in float64 it may fail in any way
                reason = f"func could not be evaluated in float64: {type(error).__name__}: {error}"
                return worse(verdict, Verdict(INCONCLUSIVE, reason))
            slack = (options.atol, options.rtol) if options.given else (0.0, 0.0)
            verdict = worse(verdict, agreement(backward, wide, *slack, options.nondet_tol))
            backward = wide
        if options.backward:
            verdict = worse(verdict, _measured(backward, options, Comparison))
        if options.forward and flat.unknown:
            verdict = worse(verdict, Verdict(INCONCLUSIVE, UNKNOWN.format(flat.unknown[0])))
        elif options.forward and backward.differentiable and flat.captured(backward.grads, unwritable=False):
            verdict = worse(verdict, Verdict(INCONCLUSIVE, CAPTURED))
        elif options.forward:
            verdict = worse(verdict, _measured(backward, options, ForwardComparison))
        return verdict
    except Misfit as error:
        return Verdict(FAIL, str(error), input=error.label)


def _measured(backward, options, comparison_class) -> Verdict:
    """Compare derivatives with measured slopes; where kinks hide them, beside the inputs as well."""
    flat, start = backward.flat, backward.flat.start
    tolerance = Tolerance(options.atol, options.rtol)
    try:
        comparison = comparison_class(backward, tolerance, options.largest, options.fast)
        verdict = comparison.verdict(options.nondet_tol)
        if options.batched_forward and comparison_class is ForwardComparison:
            verdict = worse(verdict, batched_forward(comparison, options.nondet_tol))
        if comparison.tangled and verdict and all(leaf.memory is not None for leaf in flat.leaves):
            random = backward.random
            steps = random.uniform(5e-4, 1e-3, start.shape) * random.choice([-1.0, 1.0], start.shape)
            flat.move(start + steps * natural_steps(flat))
            beside = Backward(flat, random, options.fast, options.undefined, options.backward)
            again = comparison_class(beside, tolerance, options.largest, options.fast).verdict(options.nondet_tol)
            if again.status == FAIL:
                again.message = f"beside the inputs, which are at a kink: {again.message}"
                verdict = again
        return verdict
    finally:
        flat.move(start)


@checked(atol="float", rtol="float")
def gradcheck(
    func,
    inputs,
    *,
    eps=EPS,
    atol=ATOL,
    rtol=RTOL,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
) -> bool:
    """Check gradients of `func` against slopes measured from its values.

    The arguments are PyTorch's; `check` tells how the tolerances are read, and returns more than yes or no.
    At a kink any subgradient is right. Parameters of a Module are checked as well, also those
    that it holds in plain lists, tuples and dicts and does not know.

    Args:
        func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode: see `check`.
        raise_exception: raise instead of returning False.
        check_batched_grad: `func.vmap` over backward must give what single calls give.
        check_forward_ad: `func.jvp`, forward mode by two reverse passes, must agree with the slopes as well.
        check_batched_forward_grad: `func.vmap` over `func.jvp`, too; asks for `check_forward_ad`.
        check_backward_ad: False checks forward mode alone.
        masked: of a sparse input only the elements that it stores are variables; else all of its elements are.

    Raises GradcheckError when a gradient is wrong or cannot be judged, ValueError when nothing requires grad, and
    AssertionError for arguments that exclude each other, and for a function whose results change shape or dtype.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.0, 1.5], dtype=torch.float64, requires_grad=True)
    >>> gradcheck(torch.relu, (x,)), gradcheck(torch.exp, (x,))
    (True, True)
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    options = Options(
        eps=eps, atol=atol, rtol=rtol, nondet_tol=nondet_tol, undefined=check_undefined_grad, dtypes=check_grad_dtypes,
        fast=fast_mode, backward=check_backward_ad, forward=check_forward_ad, batched=check_batched_grad,
        batched_forward=check_batched_forward_grad,
    )  # fmt: skip
    func, inputs = densified(func, inputs, masked)
    FlatFunction(func, inputs).refuse_other_forms(eps)
    verdict = _verdict(func, inputs, options)
    if raise_exception and not verdict:
        raise GradcheckError(verdict.message)
    return bool(verdict)


@checked(atol="float", rtol="float")
def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=EPS,
    atol=ATOL,
    rtol=RTOL,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
) -> bool:
    """Check the gradients of `func`'s gradients, in its inputs and in `grad_outputs`.

    The arguments are PyTorch's; those that are not listed mean what they mean to `gradcheck`, and it raises the same.

    Args:
        grad_outputs: a tensor or tuple, as the results of `func` are; random where it is not given.
        gen_non_contig_grad_outputs: make random ones that are not contiguous in memory.
        check_fwd_over_rev: `func.jvp` of the gradient must agree with the slopes as well.
        check_rev_over_rev: False checks forward mode alone.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(torch.exp, (x,))
    True
    """
    func, inputs = densified(func, inputs, masked)
    gradient, arguments = gradient_function(func, inputs, grad_outputs, noncontiguous=gen_non_contig_grad_outputs)
    return gradcheck(
        gradient,
        arguments,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def gradient_function(func, inputs, grad_outputs=None, *, noncontiguous=False, seed=0):
    """Return ``(gradient, arguments)``: the backward of `func` as a function, ready for `check`.

    `gradient`, a `Gradient`, takes the arguments of `func` and then one gradient per differentiable output, and returns
    the gradients of the inputs that require grad. A Module is replaced by a copy in float64, and its parameters join
    the arguments.

    >>> import plugrad as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> gradient, arguments = gradient_function(lambda x: x * x, (x,), torch.ones(1))
    >>> gradient(*arguments)[0].item()
    6.0
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    parameters = ()
    if isinstance(func, plugrad.nn.Module):
        func = widened(func)
        inputs = map_tensors(inputs, lambda t: _widened(t) if is_float(t) else t)
        unknown = [t for _, t in used(func, inputs) if all(t is not x for x in tensors_in(inputs))]
        parameters = tuple(p for p in (*dict(named_parameters(func)).values(), *unknown) if p.requires_grad)
    wanted = [is_float(t) and t.requires_grad for t in tensors_in(inputs)]
    if not any(wanted) and not parameters:
        raise ValueError(NOTHING_TO_CHECK)
    if grad_outputs is None:
        random = numpy.random.default_rng(seed)
        grad_outputs = tuple(_random_like(y, random, noncontiguous) for y in differentiable(func(*inputs)))
    elif isinstance(grad_outputs, plugrad.Tensor):
        grad_outputs = (grad_outputs,)
    return Gradient(func, wanted, len(inputs), parameters), (*inputs, *parameters, *grad_outputs)


def _widened(tensor):
    return tensor.detach().to(wide_dtype(tensor.dtype)).requires_grad_(tensor.requires_grad)


def _random_like(tensor, random, noncontiguous):
    """Return a random gradient for an output; a strided view if `noncontiguous`."""
    count = tensor.numel() * (2 if tensor.dtype.is_complex else 1)
    gradient = like(tensor, random.uniform(-1.0, 1.0, count)).to(tensor.dtype, copy=True)  # memory of its own
    if noncontiguous and gradient.ndim:
        gradient = plugrad.stack([gradient, gradient], -1)[..., 0]
    return gradient.detach().requires_grad_()
