"""Losses of pairs on CUDA: their mean or sum by one launch, or two where there are many, and their slopes by one."""

from __future__ import annotations

import functools
import pathlib

from plugrad.extend import is_half, load_inline, native

_load = functools.partial(
    load_inline, cuda=pathlib.Path(__file__).with_name("pairs.cu"), per="block", numbers=1, types="floating"
)
_join = _load(name="join", arrays=2, wide=(0,))
THREADS, OF_BLOCK, MOST = 256, 4096, 1024  # elements that a block adds up, until there are that many blocks


def on_cuda(op) -> None:
    """Give a loss its kernels of pairs.cu, NAME and NAME_grad, for calls where no argument between is given."""

    @op.kernel("cuda")
    @native(_load(name=op.name, arrays=4, wide=(2,)), otherwise=op)
    def forward(call, xp, input, target, *rest):
        *factors, reduction = rest
        if reduction == "none" or not _pair(input, target) or any(one is not None for one in factors):
            return NotImplemented
        out, divisor = xp.ndarray((), input.dtype), input.size if reduction == "mean" else 1
        blocks = min(-(-input.size // OF_BLOCK), MOST)
        parts = xp.ndarray(blocks, "float32" if is_half(input.dtype) else input.dtype)
        done = call(input, target, parts, out, divisor, blocks=blocks)
        if done is None and blocks > 1:
            done = _join(parts, out, divisor, blocks=1)
        return out if done is None else done

    @op.vjp_kernel("cuda")
    @native(_load(name=f"{op.name}_grad", arrays=4))
    def backward(call, xp, g, input, target, *rest):
        *factors, reduction = rest
        if reduction == "none" or not _pair(input, target) or any(one is not None for one in factors):
            return NotImplemented
        out = xp.ndarray(input.shape, input.dtype)
        done = call(input, target, g, out, input.size if reduction == "mean" else 1, blocks=-(-input.size // THREADS))
        return out if done is None else done


def _pair(input, target) -> bool:
    """Whether two arrays have one shape and type, elements, and C order."""
    alike = input.shape == target.shape and input.dtype == target.dtype and input.size > 0
    return alike and input.flags.c_contiguous and target.flags.c_contiguous
