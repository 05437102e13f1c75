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

import copy

import numpy

import plugrad

from .jacobian import Backward, Comparison
from .structure import is_float, like, map_tensors, tensors_in, wide_dtype
from .subject import NOTHING_TO_CHECK, Misfit, Subject
from .verdict import ATOL, EPS, FAIL, INCONCLUSIVE, NONDIFFERENTIABLE, PASS, RTOL, Tolerance, Verdict, worse

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


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` and `gradgradcheck` for a gradient that is wrong or cannot be judged."""


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

    Raises ValueError when no input requires grad; whatever `func` or its backward raises passes through.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.5, 2.0], dtype=torch.float64, requires_grad=True)
    >>> check(lambda x: x * x, (x,)).status
    'PASS'
    >>> check(lambda x: x * x.detach(), (x,)).element
    (0,)
    """
    subject = Subject(func, inputs)
    try:
        with numpy.errstate(all="ignore"):
            backward = Backward(subject, numpy.random.default_rng(seed), fast_mode, check_undefined_grad)
            verdict = backward.sound(nondet_tol, check_grad_dtypes)
            if verdict:
                largest = None if eps == EPS else eps
                comparison = Comparison(backward, Tolerance(subject, atol, rtol), largest, fast_mode)
                verdict = worse(verdict, comparison.verdict(nondet_tol))
    except Misfit as error:
        verdict = Verdict(FAIL, str(error), input=error.label)
    finally:
        subject.restore()
    return verdict


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
    At a kink any subgradient is right. Parameters of a Module are checked as well.

    Raises GradcheckError (or returns False, without `raise_exception`) when a gradient is wrong or cannot be
    judged, ValueError when nothing requires grad, and NotImplementedError for the checks that need vmap,
    forward mode or sparse tensors.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.0, 1.5], dtype=torch.float64, requires_grad=True)
    >>> gradcheck(torch.relu, (x,)), gradcheck(torch.exp, (x,))
    (True, True)
    """
    _refuse(check_batched_grad, "check_batched_grad", "it needs vmap, which plugrad does not have")
    _refuse(
        check_batched_forward_grad, "check_batched_forward_grad", "it needs vmap, which plugrad does not have"
    )
    _refuse(
        check_forward_ad,
        "check_forward_ad",
        "there are no forward-mode rules; gradgradcheck covers second order",
    )
    _refuse(
        not check_backward_ad, "check_backward_ad=False", "backward is the only mode of differentiation here"
    )
    _refuse(masked, "masked", "it is about sparse tensors, which plugrad does not have")
    try:
        verdict = check(
            func,
            inputs,
            eps=eps,
            atol=atol,
            rtol=rtol,
            nondet_tol=nondet_tol,
            check_undefined_grad=check_undefined_grad,
            check_grad_dtypes=check_grad_dtypes,
            fast_mode=fast_mode,
        )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    if raise_exception and not verdict:
        raise GradcheckError(verdict.message)
    return bool(verdict)


def _refuse(asked, name, reason):
    if asked:
        raise NotImplementedError(f"gradcheck({name}) is not available: {reason}")


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
    """Check the gradients of the gradients of `func`, with respect to its inputs and to `grad_outputs`.

    The arguments are PyTorch's. `grad_outputs` are random where they are not given. Raises as `gradcheck`
    does.

    >>> import plugrad as torch
    >>> x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    >>> gradgradcheck(torch.exp, (x,))
    True
    """
    _refuse(check_fwd_over_rev, "check_fwd_over_rev", "there are no forward-mode rules")
    _refuse(
        not check_rev_over_rev,
        "check_rev_over_rev=False",
        "backward is the only mode of differentiation here",
    )
    gradient, arguments = gradient_function(
        func, inputs, grad_outputs, noncontiguous=gen_non_contig_grad_outputs
    )
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
        fast_mode=fast_mode,
        masked=masked,
    )


def gradient_function(func, inputs, grad_outputs=None, *, noncontiguous=False, seed=0):
    """Return ``(gradient, arguments)``: the backward of `func` as a function, ready for `check`.

    `gradient` takes the arguments of `func` and then one gradient per differentiable output, and returns the
    gradients of the inputs that require grad. Called under no_grad it runs backward unrecorded. A Module is
    replaced by a copy in float64, and its parameters join the arguments.

    >>> import plugrad as torch
    >>> x = torch.tensor([3.0], requires_grad=True)
    >>> gradient, arguments = gradient_function(lambda x: x * x, (x,), torch.ones(1))
    >>> gradient(*arguments)[0].item()
    6.0
    """
    inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    parameters = ()
    if isinstance(func, plugrad.nn.Module):
        func = copy.deepcopy(func).double()
        inputs = map_tensors(inputs, lambda t: _widened(t) if is_float(t) else t)
        parameters = tuple(p for p in func.parameters() if p.requires_grad)
    wanted = [is_float(t) and t.requires_grad for t in tensors_in(inputs)]
    if not any(wanted) and not parameters:
        raise ValueError(NOTHING_TO_CHECK)
    if grad_outputs is None:
        random = numpy.random.default_rng(seed)
        grad_outputs = tuple(_random_like(y, random, noncontiguous) for y in _differentiable(func(*inputs)))
    elif isinstance(grad_outputs, plugrad.Tensor):
        grad_outputs = (grad_outputs,)
    first, last = len(inputs), len(inputs) + len(parameters)

    def gradient(*arguments):
        recorded = plugrad.is_grad_enabled()
        tensors = tensors_in(arguments[:first])
        for tensor, want in zip(tensors, wanted, strict=True):
            if want and not tensor.requires_grad:
                tensor.requires_grad_()
        with plugrad.enable_grad():
            outputs = _differentiable(func(*arguments[:first]))
            if not outputs:
                return ()
            chosen = [tensor for tensor, want in zip(tensors, wanted, strict=True) if want] + list(parameters)
            grads = plugrad.autograd.grad(
                outputs, chosen, list(arguments[last:]), create_graph=recorded, allow_unused=True
            )
        return tuple(g for g in grads if g is not None)

    return gradient, (*inputs, *parameters, *grad_outputs)


def _differentiable(outputs):
    return [y for y in tensors_in(outputs) if is_float(y) and y.requires_grad]


def _widened(tensor):
    return tensor.detach().to(wide_dtype(tensor.dtype)).requires_grad_(tensor.requires_grad)


def _random_like(tensor, random, noncontiguous):
    """Return a random gradient for an output; a strided view if `noncontiguous`."""
    count = tensor.numel() * (2 if tensor.dtype.is_complex else 1)
    made = like(tensor, random.uniform(-1.0, 1.0, count)).to(tensor.dtype)
    if noncontiguous and made.ndim:
        made = plugrad.stack([made, made], -1)[..., 0]
    return made.detach().requires_grad_()
