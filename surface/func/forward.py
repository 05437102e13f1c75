"""Transforms in a direction: jvp, whose tangents go forward with the call, and linearize."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, enable_grad, is_grad_enabled, nest
from plugrad.arguments import checked
from plugrad.autograd.forward_ad import Level, _set_fwd_grad_enabled, follow_base
from plugrad.func.recording import (
    Recorded,
    apart,
    dependence_of,
    detached,
    gradients_of,
    outside_inference,
    results_of,
)  # fmt: skip


class _Linearized:
    """A function at a point: its value, and tangents of that for tangents of the point.

    By two reverse passes: the gradient of the vector-Jacobian product by its vector, J. Townsend, "A new trick for
    calculating Jacobian vector products", 2017. The first is done here, the second for each tangent.
    """

    def __init__(self, func, primals, has_aux, name):
        with Recorded(primals) as recorded, enable_grad():
            self.value, self.outputs, self.aux = results_of(func(*recorded.arguments), has_aux, name)
            recorded.refuse_captured((self.outputs, self.aux))
            self.lasting = recorded.lasting(self.outputs)
            self.floats = [y for y in self.outputs if y.is_floating_point() or y.is_complex()]
            # Ones: the first pass is linear in them, but a formula may look for zeros in the gradient it is given.
            self.weights = [plugrad.ones_like(y).requires_grad_() for y in self.floats]
            self.pulled = gradients_of(self.floats, recorded.inputs, self.weights, True)

    def push(self, tangents):
        """Return the tangents of all outputs, a list; zeros for what is constant."""
        create = self.lasting or is_grad_enabled() and any(tangent.requires_grad for tangent in tangents)
        with enable_grad():
            given = iter(dependence_of(self.pulled, self.weights, tangents, create, True))
        pairs = ((y, next(given) if y.is_floating_point() or y.is_complex() else None) for y in self.outputs)
        results = [plugrad.zeros_like(y) if tangent is None else tangent for y, tangent in pairs]
        return results if create else detached(results, False)


def forward(func, primals, directions, has_aux, name) -> tuple:
    """Run a function with tangents; return (value, its tensors, their tangents in all directions, what came beside it).

    `directions` are lists of the tangents of all primals, None for zeros; an output's tangents are a tuple, or None.
    """
    with _set_fwd_grad_enabled(True), Level(len(directions)) as level:
        duals = []
        for number, tensor in enumerate(nest.leaves(primals)):
            dual = tensor.view_as(tensor)
            level.put_on(dual, tuple([tangents[number] for tangents in directions]))
            duals.append(dual)
        value, outputs, aux = results_of(func(*nest.rebuild(primals, iter(duals))), has_aux, name)
        for output in outputs:  # a view may have got a tangent by a write to its base
            if output._is_view():
                follow_base(output)
        return value, outputs, [level.of(output) for output in outputs], aux


def _checked_tangents(primals, tangents, name):
    """Return the tensors of the tangents; RuntimeError unless they fit the primals."""
    given, directions = [*nest.leaves(primals)], [*nest.leaves(tangents)]
    if type(tangents) is not type(primals) or len(given) != len(directions):
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure: there are {len(given)} and "
            f"{len(directions)} tensors in them"
        )
    if not given:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor, to differentiate by")
    for number, (tensor, direction) in enumerate(zip(given, directions)):
        if not isinstance(tensor, Tensor):
            kind = type(tensor).__name__
            raise RuntimeError(f"{name}: Expected primals to only contain Tensors, but number {number} is a {kind}")
        if not isinstance(direction, Tensor):
            kind = type(direction).__name__
            raise RuntimeError(f"{name}: Expected tangents to only contain Tensors, but number {number} is a {kind}")
        for what, one in ("primal", tensor), ("tangent", direction):
            if not (one.is_floating_point() or one.is_complex()):
                raise ValueError(f"Expected {what} to be floating point or complex, but got: {one.dtype}")
        if tensor.shape != direction.shape:
            sizes = f"{list(direction.shape)}, its primal {list(tensor.shape)}"
            raise RuntimeError(f"{name}: tangent {number} has size {sizes}")
    return directions


@checked(strict="bool", has_aux="bool")
@outside_inference
def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """Return `func(*primals)` and its derivative in the direction of the tangents.

    Tangents go forward with the call of func, which is not recorded for that: by the rules that ops and Functions
    declare (`@op.jvp`, `Function.jvp`), else by their gradient formulas.

    Args:
        func: returns tensors, nested; results of integers have tangents of zeros.
        primals, tangents: tuples of the same structure and sizes.
        strict: raise RuntimeError for a result that does not depend on the primals.
        has_aux: func returns (result, nested tensors), which is handed on as third result.

    >>> import plugrad as torch
    >>> torch.func.jvp(lambda x: x**2, (torch.tensor(3.0),), (torch.tensor(1.0),))
    (tensor(9.), tensor(6.))
    """
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple: write (x,) for one primal")
    directions = _checked_tangents(primals, tangents, name)
    value, outputs, pushed, aux = forward(func, primals, [directions], has_aux, name)
    if strict and any(tangents is None for tangents in pushed):
        raise RuntimeError(
            "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed "
            "with strict=True."
        )
    tangents = [plugrad.zeros_like(y) if given is None else given[0] for y, given in zip(outputs, pushed)]
    results = value, nest.rebuild(value, iter(apart(tangents, directions)))
    return (*results, aux) if has_aux else results


@outside_inference
def linearize(func, *primals):
    """Return `func(*primals)` and its derivative, a function of the tangents.

    The function runs once, however many tangents follow.

    >>> import plugrad as torch
    >>> value, push = torch.func.linearize(lambda x: x**2, torch.tensor(3.0))
    >>> value, push(torch.tensor(1.0)), push(torch.tensor(2.0))
    (tensor(9.), tensor(6.), tensor(12.))
    """
    name = "linearize(f, *primals)"
    at = _Linearized(func, primals, False, name)

    @outside_inference
    def push(*tangents):
        directions = _checked_tangents(primals, tangents, name)
        return nest.rebuild(at.value, iter(apart(at.push(directions), directions)))

    return detached(at.value, at.lasting), push
