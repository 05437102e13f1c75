"""Kernels for ops that another plugin declares."""

from __future__ import annotations

import inspect


class Kernel:
    """A kernel for an op of another plugin, on one backend."""

    __slots__ = ("op_name", "backend", "function", "module", "override")

    def __init__(self, op_name, backend, function, override=False):
        self.op_name, self.backend, self.function, self.override = op_name, backend, function, override
        self.module = getattr(function, "__module__", None)

    def check_fits(self, record) -> None:
        """Raise TypeError when it does not take `xp` and the op's parameters."""
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # a callable of C that does not tell
            return
        values = dict.fromkeys(record.keyword_only)
        needed = [name for name in record.positional if name not in record.defaults]
        by_name = {name: None for name in record.positional[1:]}
        try:
            signature.bind(None, *record.positional, **values)
            signature.bind(None, *record.positional[:1], **by_name, **values)  # as formulas call it
            signature.bind(None, *needed, **{name: None for name in record.keyword_only if name not in record.defaults})
        except TypeError as error:
            positional, keywords = _as_written(record, record.positional), _as_written(record, record.keyword_only)
            wanted = ", ".join(["xp", *positional, *(["*", *keywords] if keywords else [])])
            raise TypeError(
                f"the kernel {self.function.__name__} of op {record.name!r} for {self.backend!r} takes {signature}, it "
                f"must take ({wanted}): {error}"
            ) from None


def _as_written(record, names) -> list[str]:
    return [f"{name}={record.defaults[name]!r}" if name in record.defaults else name for name in names]


def kernel_for(op_name: str, backend: str, *, override=False):
    """Declare a kernel for an op of another plugin: `@kernel_for("conv2d", "cuda")`.

    `op_name` is the op's own name, `backend` the type of the device. With `override` it may replace a kernel that the
    op has for that device, if the user prefers it; the op's general kernel it replaces anyway.
    """
    return lambda function: Kernel(op_name, backend, function, override)
