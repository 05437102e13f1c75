"""What becomes of results: those of third parties' kernels, and those of composites whose last op makes a view."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.autograd.rare.wrong_results import wrong_result
from plugrad.extend import is_differentiable, is_integral
from plugrad.nest import leaves


def wrapped(op, ttype, value):
    """Return as an array what a third party's kernel gave; TypeError when it is neither that nor a number."""
    array = None if value is None or isinstance(value, (list, tuple, Tensor)) else ttype.wrap(value)
    if array is None or not (is_differentiable(array.dtype) or is_integral(array.dtype)):
        raise wrong_result(op, value)
    return array


def fresh(result, values):
    """Return what a composite made of its arguments, as no view unless it shares the memory of one of them.

    As a view, a result that was made under no_grad could not be written afterwards where that is recorded.
    """
    for one in result if isinstance(result, tuple) else (result,):
        if isinstance(one, Tensor) and one._is_view():
            given = [part for part in leaves(values) if isinstance(part, Tensor)]
            base = one._base
            if not any([part is one or part is base or part._base is base for part in given]):
                one._view = None
    return result
