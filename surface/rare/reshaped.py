"""Views of bases whose shape was changed in place after they were made, as by `base.t_()`; views of expanded memory."""

from __future__ import annotations

from plugrad.autograd.rare.copied_views import refuse_copy


def follow_shape(view, mark) -> None:
    """Have a view's way from its base begin with the way back to the shape that the base had when the view was made.

    `mark` is that of the base. Where nothing but the shape was changed since, the view's history is up to date.
    """
    root = view
    while root.parent is not None:
        root = root.parent
    for generation, op, rest in mark.returns:
        if generation > root.generation:
            step = view.alone()
            step.op, step.rest, step.output, step.error, step.generation = op, rest, None, None, generation
            root.parent = root = step


def unlock(array) -> None:
    """Have NumPy let a part of an expanded array be written, but no expanded array that it is a view of.

    Raises RuntimeError for memory that another library holds read-only.
    """
    refuse_copy(array)
    if getattr(array.flags, "writeable", True):  # of a device where nothing is locked
        return
    locked = [array]
    while isinstance(locked[-1].base, type(array)) and not locked[-1].base.flags.writeable:
        locked.append(locked[-1].base)
    try:
        for one in reversed(locked):
            one.flags.writeable = True
    except ValueError:
        raise RuntimeError(
            "this tensor's memory may not be written: another library gave it read-only (an array that came by DLPack, "
            "bytes, a mapped file). Write x = x.clone() first."
        ) from None
    for one in locked[1:]:
        one.flags.writeable = False
