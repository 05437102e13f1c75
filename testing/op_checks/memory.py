"""Checks of memory: strided inputs, results that share memory, and the meta device against the real one."""

from __future__ import annotations

import numpy

import plugrad
from plugrad.testing.calls import Skip, agree, argument_of, call, each, graded, gradients, is_random, named_tensors
from plugrad.testing.op_checks.variations import REFUSED
from plugrad.testing.tensors import tensors_in


def strides(op, device):
    """Strided, transposed and reversed inputs give what contiguous ones give, and so do their gradients.

    Random numbers may come in the order of the memory that they fill.
    """
    if "storage_offset" in op.parameters or ("stride" in op.parameters and op.is_view):
        raise Skip("the result is about the memory itself")
    for label, sample in each(op, device):
        expected, grads = call(op, sample), gradients(op, sample) if graded(op, sample) else []
        for name, change in LAYOUTS.items():
            other = sample.map(change)
            try:
                result = call(op, other)
            except RuntimeError:
                if op.is_view or op.name.startswith("view_as"):  # a view of this memory may not exist
                    continue
                raise
            about, same_numbers = f"{label}, {name} inputs", True
            try:
                agree(_plain(result), _plain(expected), about)
            except AssertionError:
                if not is_random(op, sample):
                    raise
                try:
                    agree(_sorted(result), _sorted(expected), about)
                except AssertionError:  # other elements get the numbers: those that lie where they do in plain inputs
                    if name != "transposed":
                        raise
                    same_numbers, turned = False, _plain(call(op, sample.map(_turned)))
                    agree(_plain(result), [_turned(tensor) for tensor in turned], about)
            for what, others in (
                ("inputs", gradients(op, other) if grads and same_numbers else []),
                ("grad_output", gradients(op, sample, lay=change) if grads else []),
            ):
                for number, pair in enumerate(zip(others, grads if others else [], strict=True)):
                    if pair[1] is not None:
                        about = f"{label}, argument {argument_of(op, sample, number)!r}"
                        agree(*pair, f"{about}, gradient for {name} {what}")


def _sorted(result):
    return [tensor.detach().flatten().sort().values for tensor in tensors_in(result)]


def _layout(lay):
    """Return the function that lays a tensor's values out anew: `lay` makes the NumPy array."""

    def change(tensor):
        array = tensor.numpy(force=True)
        if not array.ndim:
            return tensor
        other = plugrad.from_numpy(lay(array)).to(tensor.device)
        return other.requires_grad_() if tensor.requires_grad else other

    return change


_turned = _layout(lambda array: numpy.ascontiguousarray(array.T))

LAYOUTS = {
    "strided": _layout(lambda array: numpy.repeat(array, 2, axis=-1)[..., ::2]),
    "transposed": _layout(lambda array: numpy.ascontiguousarray(array.T).T),
    "negative-stride": _layout(lambda array: numpy.ascontiguousarray(array[..., ::-1])[..., ::-1]),
    "upside-down": _layout(lambda array: numpy.ascontiguousarray(array[::-1])[::-1]),
}


def _plain(result):
    return [t.detach() for t in tensors_in(result)]


def _fresh(tensor):
    """Return a copy in memory of its own, laid out the same; what `detach` returns would be a view."""
    return tensor.detach().clone()


def _storage(tensor):
    return tensor._type.backend.storage(tensor._raw)


def _shared(op, sample, results) -> list:
    """Return (result's number, argument's name, result, tensor) for each pair of them in one storage."""
    given = named_tensors(op, sample)
    return [
        (number, name, y, t)
        for number, y in enumerate(results)
        for name, t in given
        if y.numel() and _storage(y) is _storage(t)
    ]


def aliasing(op, device):
    """A result shares memory with an argument if, and only if, the op says so: it is a view, or the argument itself."""
    if op.name.startswith("unsafe_") or not op.names:  # PyTorch's word for views that nobody keeps track of
        raise Skip("what it returns is not for writing")
    viewed, copied = False, None
    for label, sample in _settled(op, device):
        plain = sample.map(_fresh)
        results = tensors_in(call(op, plain))
        shared = _shared(op, plain, results)
        for number, name, y, t in shared:
            assert y is t or y._view is not None, (
                f"{label}, argument {name!r}: result {number} shares its memory, and the op does not say that it is a "
                "view: declare it with @view, or copy"
            )
        for number, y in enumerate(results):
            flags = getattr(y._raw, "flags", None)
            assert y._view is not None or getattr(flags, "writeable", True), (
                f"{label}: result {number} can't be written to, in place or by others: return an array of the op's own"
            )
        if not op.is_view or plain.through is not None:
            continue
        viewed = viewed or bool(shared)
        if not shared and all(t.is_contiguous() for _, t in named_tensors(op, plain)):
            copied = f"{label}: the result is a copy, and the op is declared with @view"
    assert viewed or copied is None, copied  # one that gives views may still copy where memory or dtype ask for it


def _settled(op, device):
    """Yield (label, sample), and where the op takes them also numbers at which there may be nothing to do.

    A kernel that then returns its input shares the memory of some inputs and not of others.
    """
    for label, sample in each(op, device):
        yield label, sample
        if op.is_view or sample.through is not None:
            continue
        for what, change in (("no number below 0", abs), ("nothing but zeros", plugrad.zeros_like)):
            other = sample.map(lambda t, change=change: change(t.detach()) if t.is_floating_point() else t)
            try:
                call(op, other)
            except (*REFUSED, ArithmeticError, Warning):
                continue
            yield f"{label} with {what}", other


def meta(op, device):
    """On the meta device shape, dtype and strides are those of the real result, and views are views."""
    for label, sample in _laid_out(op, device):
        plain = sample.map(_fresh)
        real = tensors_in(call(op, plain))
        try:
            moved = sample.map(lambda t: t.detach().to("meta"))
            symbolic = tensors_in(call(op, moved))
        except RuntimeError as error:
            if "they have no data" in str(error):
                raise Skip("the op looks at values, which tensors on the meta device do not have") from error
            raise
        assert len(real) == len(symbolic), f"{label}: {len(symbolic)} results on meta, {len(real)} in fact"
        for number, (one, other) in enumerate(zip(real, symbolic, strict=True)):
            for what, fact, told in _attributes(op, one, other):
                advice = "; lay it out like the inputs, as xp.empty_like does" * (label.endswith("transposed"))
                if "bfloat16" in str(told) and "float32" in str(fact):
                    advice = "; Python's numbers widen bfloat16: let the kernel end with .astype(input.dtype)"
                assert fact == told, f"{label}, result {number}: meta says {what} {told}, it is {fact}{advice}"


def _laid_out(op, device):
    """Yield (label, sample) for the samples, of an elementwise op also with the last dimension outermost in memory.

    Kernels of several steps may broadcast smaller operands in any order, so these are left as they are.
    """
    for label, sample in each(op, device):
        yield label, sample
        alike = len({t.shape for t in sample.tensors()}) == 1 and sample.through is None
        if alike and op.broadcasts and "dim" not in op.parameters:
            yield f"{label}, transposed", sample.map(LAYOUTS["transposed"])


def _attributes(op, real, symbolic):
    """Yield (what, of the real tensor, of the symbolic one) for all that must agree.

    An author's own shape rule tells shape and dtype; strides are those of families whose rule is derived.
    """
    yield "shape", tuple(real.shape), tuple(symbolic.shape)
    yield "dtype", real.dtype, symbolic.dtype
    if real.numel() < 2:  # strides of a single element say nothing, nor do those of dimensions of size 1
        return
    if op.broadcasts or op.reduces or op.is_view:
        yield (
            "strides",
            *[
                tuple(step for step, size in zip(t.stride(), t.shape, strict=True) if size > 1)
                for t in (real, symbolic)
            ],
        )
    yield "that it is a view:", real._view is not None, symbolic._view is not None
