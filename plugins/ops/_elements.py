"""Kernels of ops that make each element of one tensor by a single function in C, or in CUDA C++."""

from __future__ import annotations

from plugrad.extend import native


def of_elements(op, name, backend="cpu", halves=True) -> None:
    """Give an op of one tensor its kernel: a C function's name, or what `load_inline` returned.

    Without `halves` the function is given half precision in float32.
    """
    op.kernel(backend)(native(name, otherwise=op, plain=backend == "cpu", halves=halves)(_hand_on))


def _hand_on(call, xp, input):
    return call(input)
