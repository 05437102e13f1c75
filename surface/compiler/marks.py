"""What programs tell PyTorch's compiler of their functions: here it changes what a stance says, or nothing."""

from __future__ import annotations

import functools

from plugrad.regions import Region, declare, mode, region

STANCES = (
    "default", "eager_then_compile", "aot_eager_then_compile", "force_eager", "eager_on_recompile", "fail_on_recompile",
)  # fmt: skip

altered: set = set()  # not empty while compiled functions may have to run in another way in any thread
declare("stance", "default", altered)


class set_stance(Region):
    """Say how compiled functions run: at once, in a block or as a decorator.

    It holds for the thread.

    Args:
        stance: "default"; "force_eager" runs them op by op; "eager_on_recompile" does so for signatures that were not
            compiled yet, for which "fail_on_recompile" raises RuntimeError. "eager_then_compile" is the default here.
        skip_guard_eval_unsafe, force_backend: accepted; signatures are compared always, and a function keeps its
            compiler.

    Raises RuntimeError for another stance.
    """

    __slots__ = ("_previous", "_stance")

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}; it is one of {', '.join(STANCES)}")
        self._stance, self._previous = stance, mode.stance
        mode.stance = stance

    def changes(self):
        mode.stance = self._previous  # it acts in the block, and what was before is there again behind it
        return {"stance": self._stance}

    def __call__(self, fn):
        mode.stance = self._previous  # as a decorator it acts on the calls, not here

        @functools.wraps(fn)
        def decorated(*args, **kwargs):
            with region(stance=self._stance):
                return fn(*args, **kwargs)

        return decorated


def _unchanged(fn):
    """Return the function: everything that Python runs may be in a compiled function."""
    return fn


allow_in_graph = assume_constant_result = nested_compile_region = _unchanged


def substitute_in_graph(original_fn, *, can_constant_fold_through=False, skip_signature_check=False):
    """Return a decorator that gives its function back.

    Compilers here call the original itself.
    """
    return _unchanged


def cudagraph_mark_step_begin() -> None:
    """Accepted: no graph of CUDA's is replayed here."""


def is_exporting() -> bool:
    """Return False: no graph is exported."""
    return False
