"""View ops that return a copy, and the two splits whose slices autograd takes for no views."""

from __future__ import annotations

from plugrad.extend import Op, collect, composite, hookimpl, op

from . import shape, splitting, views


def _copy_of(record, name=None):
    """Return the record of `NAME_copy`: the view op `record`, its results cloned."""
    view_name, name = record.name, name or record.name
    viewer = record.kernels["*"]

    def copied(F, *args, **kwargs):
        result = getattr(F, view_name)(*args, **kwargs)
        return tuple(map(F.clone, result)) if isinstance(result, tuple) else F.clone(result)

    made = composite(name=f"{name}_copy", at=(f"{name}_copy",), aliases=())(viewer)  # its signature, that is
    made.kernels["*"] = copied
    made.doc = f"""A copy of what the view `{name}` returns.

    Arguments and errors are those of `Tensor.{name}`. Its gradient does not depend on later writes to the input.
    """
    made.module = __name__
    made.sample_function = record.sample_function
    return made
