"""Results of composites that are no views, though the last of their ops makes one: nobody has what it is a view of."""

from __future__ import annotations

from plugrad import Tensor
from plugrad.nest import leaves


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
