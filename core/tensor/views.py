"""Views: of which base a tensor is a view, through which ops, and whether its history is up to date.

A write in place to a base increments the base's generation; a view whose generation differs finds its history anew, by
taking the steps from the base again, when it is next used.
"""

from __future__ import annotations

from plugrad.graph import modes, rare, versions

_new = object.__new__
FOLLOWS = -1  # in the place of a view's `when`: it has no history, and requires grad as long as its base does
copies: dict = {}  # by their ids, arrays that stand for views: see `rare.copied_views`

_REASON = "Given that this use case is ambiguous and error-prone, it is forbidden: do both in one mode."
UNRECORDED = [f"A view was created in {how}. {_REASON}" for how in (  # by whether it was inference mode
    "no_grad mode and is being modified inplace with grad mode enabled",
    "inference mode and is being modified inplace in normal mode")]  # fmt: skip


class Base:
    """Marks a tensor that was written in place while views of it may exist: `generation` counts the writes.

    Or one whose memory NumPy can write: `handles` are weak references to the arrays that can (`shared_memory`).
    Or one whose shape was changed in place: `returns` are the ways back, (generation, op, its other arguments).
    Or a leaf that required grad only since the generation `flagged`, when there may have been views of it.
    """

    __slots__ = ("flagged", "generation", "handles", "returns")

    def __init__(self, generation: int):
        self.generation, self.handles, self.returns, self.flagged = generation, None, (), 0


class View:
    """Says how a tensor is a view of `base`: as the view `parent` is (None: the base itself), then through one op.

    `rest` are the op's other arguments, `output` the number of the output if it has several, `error` says why
    whoever made the view forbids to write to it, `when` is the tick of the last write before that, or `FOLLOWS`.
    """

    __slots__ = ("base", "parent", "op", "rest", "output", "generation", "error", "when")

    def refusal(self) -> str | None:
        """Return why the view must not be written in place; None if it may."""
        view = self
        while view is not None and view.error is None and view.output is None:
            view = view.parent
        if view is None or view.error is not None:
            return view and view.error
        return rare.one_of_several(view)

    def check(self) -> None:
        """Raise RuntimeError if autograd can't follow a write to the view."""
        if self.refusal() is not None:
            raise RuntimeError(self.refusal())

    def steps(self) -> list:
        """Return the views on the way from the base to this one."""
        steps, view = [], self
        while view is not None:
            if view.op is not None:
                steps.append(view)
            view = view.parent
        return steps[::-1]

    def alone(self) -> View:
        """Return this one step, without the base it leads from."""
        step = _new(View)
        step.base = step.parent = None
        step.generation, step.when = self.generation, self.when
        step.op, step.rest, step.output, step.error = self.op, self.rest, self.output, self.error
        return step

    def step_tensor(self, tensor):
        """Take this step on a Tensor, recorded."""
        result = self.op.call((tensor, *self.rest))
        return result if self.output is None else result[self.output]

    def step_array(self, array, ttype):
        """Take this step on a raw array."""
        result = self.op.compute(ttype, [array, *self.rest])
        return result if self.output is None else result[self.output]


def is_view_of(array, source, backend, op, rest) -> bool:
    """Return whether what a view op made of a raw array shares its memory, and is not a copy that the layout forced.

    That it has a base says nothing: a copying `reshape` of NumPy's returns a view of the copy.
    """
    base = array.base
    if base is None or array is source:
        return array is source or op.follows and (backend.symbolic or rare.stands_for_view(array, source, op, rest))
    return base is source or base is source.base or backend.storage(array) is backend.storage(source)


def check_memory(array) -> None:
    """Raise RuntimeError if elements of a raw array share memory; else let it be written: it may be part of one."""
    if array.size and 0 in array.strides and any([n > 1 and step == 0 for n, step in zip(array.shape, array.strides)]):
        rare.refuse_overlap()
    if copies or not getattr(array.flags, "writeable", True):
        rare.unlock(array)


def mark_view(source, op, rest, output=None):
    """Return the mark of a new view: what `op` with the other arguments `rest` makes of the tensor `source`."""
    view, mark = _new(View), source._view
    if mark is None:
        view.base, view.parent, view.generation = source, None, 0
    elif type(mark) is View:
        view.base, view.parent, view.generation = mark.base, mark, mark.generation
    else:
        if mark is versions.UNTRACKED:  # arrays do not tell of which views they are: all count for the storage
            source._view = mark = Base(0)
        view.base, view.parent, view.generation = source, None, mark.generation if type(mark) is Base else 0
    view.op, view.rest, view.output, view.when, view.error = op, rest, output, versions.last_write, None
    if modes.paused and not modes.mode.records():
        view.error = UNRECORDED[1 if modes.special and modes.mode.inference else 0]
        if view.base._edge is not None:  # it requires grad as long as the base does: see `rare.follow_flag`
            view.generation, view.when = -modes.tick(), FOLLOWS
    return view


def follows_base(tensor) -> bool:
    """Whether a tensor requires grad because its base does, of which it is a view without history."""
    view = tensor._view
    return type(view) is View and view.when == FOLLOWS


def next_generation(base) -> None:
    """Note that a tensor was written in place, so that its views look for their history again."""
    mark = base._view
    if type(mark) is Base:
        mark.generation += 1
    elif type(mark) is not View:
        base._view = Base(1)
