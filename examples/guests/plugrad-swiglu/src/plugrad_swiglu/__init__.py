"""The gated unit SwiGLU, `silu(gate) * value`: by NumPy or CuPy anywhere, fused in C on the CPU and in CUDA C++."""

from __future__ import annotations

import pathlib

import numpy

from plugrad.extend import CompilationError, Op, collect, hookimpl, load_inline, native, op

plugrad_api = (2, 2)
HERE = pathlib.Path(__file__).parent


def reference(gate, value):
    """Say the same another way, on NumPy arrays: the tests compare with it."""
    return gate * value * (0.5 + 0.5 * numpy.tanh(gate / 2))


@op(at=("swiglu", "nn.functional.swiglu"), ref=reference)
def swiglu(xp, gate, value):
    """Gate each value: silu(gate) * value.

    Args:
        gate: float tensor of any shape.
        value: tensor of the same shape and dtype.

    The unit is that of Shazeer, "GLU Variants Improve Transformer" (2020). Raises ValueError for other shapes.

    >>> import plugrad as torch
    >>> torch.swiglu(torch.tensor([0.0, 2.0]), torch.tensor([3.0, 0.5]))
    tensor([0.0000, 0.8808])
    """
    if gate.shape != value.shape:
        raise ValueError(f"swiglu(): gate {gate.shape} and value {value.shape} differ; use value.expand_as(gate)")
    # The logistic function as exp(-log(1 + exp(-x))): it does not overflow.
    return gate * xp.exp(-xp.logaddexp(0, -gate)) * value


@swiglu.meta
def swiglu_meta(gate, value):
    if gate.shape != value.shape:
        raise ValueError(f"swiglu(): gate {gate.shape} and value {value.shape} differ; use value.expand_as(gate)")
    return gate.shape, gate.dtype


@swiglu.vjp("gate", "value")
def swiglu_vjp(F, g, gate, value):
    s = F.sigmoid(gate)
    return g * value * (s + gate * s * (1 - s)), g * (gate * s)


def compiled(name, arrays, like=None):
    """Return a function of kernels.c, compiled when it is first asked for; None without a C compiler."""
    try:
        return load_inline(c=HERE / "kernels.c", name=name, arrays=arrays, like=like)
    except CompilationError:
        return None


@swiglu.kernel("cpu")
@native(compiled("forward", arrays=2, like=0), otherwise=swiglu)
def swiglu_in_c(call, xp, gate, value):
    return call(gate, value) if gate.shape == value.shape else NotImplemented


@swiglu.vjp_kernel("cpu", "gate", "value")
@native(compiled("backward", arrays=5))
def swiglu_vjp_in_c(call, xp, g, gate, value):
    both = xp.empty_like(gate), xp.empty_like(value)
    return both if call(g, gate, value, *both) is None else NotImplemented


# The same on CUDA, where CuPy compiles it at the first call with each type of elements.
@swiglu.kernel("cuda")
@native(load_inline(cuda=HERE / "kernels.cu", name="forward", arrays=2, like=0), otherwise=swiglu)
def swiglu_on_cuda(call, xp, gate, value):
    return call(gate, value) if gate.shape == value.shape else NotImplemented


@swiglu.vjp_kernel("cuda", "gate", "value")
@native(load_inline(cuda=HERE / "kernels.cu", name="backward", arrays=5))
def swiglu_vjp_on_cuda(call, xp, g, gate, value):
    both = xp.empty_like(gate), xp.empty_like(value)
    return both if call(g, gate, value, *both) is None else NotImplemented


@swiglu.samples
def swiglu_samples(make):
    yield make(3, 4), make(3, 4)
    yield make(5, low=-90, high=90), make(5)
    yield make(0), make(0)


@swiglu.errors
def swiglu_errors(make):
    yield ValueError, "use value.expand_as", make.args(make(3), make(2))


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
