"""Fitting gradients to the inputs of a node: their shapes, where they were broadcast, and their dtypes."""

from __future__ import annotations

import numpy

from plugrad.dispatch import formulas

_known: dict = {}  # what `_summed` returned, by the shapes that it got


def fit(F, node, grads) -> list:
    """Bring gradients to the shapes and dtypes of the inputs; errors name the op and the argument."""
    fitted = []
    try:
        for position, (g, wanted) in enumerate(zip(grads, node.fit, strict=True)):
            if g is not None and wanted is not None:
                shape, dtype = wanted
                if g.shape != shape:
                    g = _sum_to_shape(F, node, g, shape, position)
                if g.dtype is not dtype and g.dtype != dtype:
                    g = F._fit_dtype(g, dtype)
            fitted.append(g)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        formulas.check_gradients(F, node, grads)
        raise
    return fitted


def _sum_to_shape(F, node, g, shape, position):
    """Sum a gradient over the dimensions in which its input was broadcast."""
    shape = getattr(node.edges[position], "recorded_shape", shape)
    if node.op is None or node.op.broadcasts:  # a custom Function's formula is written for what it gets
        dims = _known.get((g.shape, shape)) if g.__class__ is numpy.ndarray else None
        dims = _summed(g.shape, shape) if dims is None else dims
        if dims is not None:
            g = F.sum(g, dims) if dims != () else g
            return F.reshape(g, shape) if g.shape != shape else g
    return formulas.of_other_shape(F, node, g, shape, position)


def _summed(have, shape):
    """Return over which dimensions, an int where it is one, a gradient is summed; None where it does not fit."""
    extra = len(have) - len(shape)
    if extra < 0 or any(m == 1 != n for m, n in zip(have[extra:], shape)):
        return None
    dims = (*range(extra), *(i for i, n in enumerate(shape, extra) if n == 1 != have[i]))
    if [n for i, n in enumerate(have) if i not in dims and n != 1] != [n for n in shape if n != 1]:
        return None
    dims = dims[0] if len(dims) == 1 else dims
    if len(_known) < 1024 and all([type(n) is int for n in (*have, *shape)]):
        _known[have, shape] = dims
    return dims
