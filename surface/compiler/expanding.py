"""What kernels in C come down to, for compilers that call these themselves: a step of such a kernel has `inner` steps.

An op's kernel for the CPU is often a function in Python around one in C: it lays out arguments and makes room for
results. In a capture that function runs on the capture's arrays, so that what it does is noted, and the call
in C as a step of kind "native".
"""

from __future__ import annotations

import numpy

from plugrad import kernels
from plugrad.compiler.arrays import Array
from plugrad.compiler.graph import Step, changed, plainly
from plugrad.compiler.logs import Log
from plugrad.compiler.sizes import CaptureError, Scope


def expanded(recorder, kernel, xp, args, kwargs):
    """Return (result, inner steps) of a call of a kernel in C, or None for what can't be said in such steps."""
    sizes = recorder.sizes
    if not hasattr(kernel, "adapter"):
        return None
    recorder.looked_into += 1
    if sizes is not None and recorder.looked_into in sizes.whole:
        return None
    parts = _parts(recorder, kernel, xp, args, kwargs)
    if type(sizes) is Log and parts is not None:
        sizes.expanded.add(recorder.looked_into)
    elif type(sizes) is Scope and parts is None:
        sizes.cannot_expand(recorder.looked_into)
    return parts


def _parts(recorder, kernel, xp, args, kwargs):
    while hasattr(kernel, "adapter"):
        mark, first, failure = len(recorder.steps), len(recorder.buffers), recorder.failure
        recorder.expanding = True
        try:
            result = kernel.adapter(_noting(recorder, kernel, first), xp, *args, **kwargs)
        except Exception:  # the kernel itself runs, and says what is wrong if anything is
            result = NotImplemented
        finally:
            recorder.expanding, recorder.failure = False, failure
            steps = recorder.steps[mark:]
            del recorder.steps[mark:]
        results = result if type(result) in (tuple, list) else (result,)
        arrays = [one for one in results if one is not None]
        if result is not NotImplemented and steps and all(_is_new(one, first) for one in arrays):
            return result, steps
        kernel = getattr(kernel, "otherwise", None)
    return None


def _is_new(item, first) -> bool:
    return type(item) is Array and item.value.buffer.index >= first and item.value.buffer.kind == "temporary"


def _noting(recorder, kernel, first):
    def call(*args):
        args = [_laid_out(recorder, kernel, one) for one in args]
        result = kernel.call(*changed(_example, args))
        if result is NotImplemented:
            return result
        written = ()
        if result is None:
            written = [a.value for a in args if type(a) is Array and a.value.buffer.index >= first]
            if not written:
                raise CaptureError("a kernel in C writes into what it was given")
        array = None if result is None else recorder.array(result)
        results = () if array is None else (array.value,)
        name = kernel.native
        recorder.note(Step("native", name, kernel.call, recorder.plain(args), {}, results, tuple(written), None))
        return array

    return call


def _laid_out(recorder, kernel, item):
    """Return an array in which one element stands for many as the copy that a call from Python makes of such a one."""
    if type(item) is not Array or item.example.flags.c_contiguous or kernels.module().strided(kernel.call):
        return item
    repeats = any(n > 1 and not stride for n, stride in zip(item.example.shape, item.example.strides))
    return recorder.call(numpy.ascontiguousarray, (item,), {}, "ascontiguousarray") if repeats else item


def _example(item):
    return item.example if type(item) is Array else plainly(item)
