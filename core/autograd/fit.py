"""Fitting gradients to the inputs of a node: their shapes, where they were broadcast, and their dtypes."""

from __future__ import annotations

from plugrad.dispatch import formulas


def fit(F, node, grads) -> list:
    """Bring gradients to the shapes and dtypes of the inputs; errors name the op and the argument."""
    fitted = []
    try:
        for position, (g, wanted) in enumerate(zip(grads, node.fit, strict=True)):
            if g is not None and wanted is not None:
                shape, dtype = wanted
                if g.shape != shape:
                    g = _sum_to_shape(F, node, g, shape, position)
                have = g.dtype
                if have is not dtype and have != dtype:
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
        extra = g.ndim - len(shape)
        if extra < 0 or any(have == 1 != n for have, n in zip(g.shape[extra:], shape)):
            if node.op is not None and not extra > 0 and all(m in (1, n) for m, n in zip(g.shape[::-1], shape[::-1])):
                return F.expand(g, shape)  # a formula may return a constant of a smaller shape
        else:
            dims = (*range(extra), *(i for i, n in enumerate(shape, extra) if n == 1 != g.shape[i]))
            if [n for i, n in enumerate(g.shape) if i not in dims and n != 1] == [n for n in shape if n != 1]:
                g = F.sum(g, dims) if dims else g
                return F.reshape(g, shape) if g.shape != shape else g
    name = formulas.input_of(node, position)
    raise RuntimeError(
        f"Function {node.name()} returned an invalid gradient at index {position} ({name}) - got {list(g.shape)} but "
        f"expected shape compatible with {list(shape)}"
    )
