"""Is a record what it should be? What guests' hooks return is checked here before any of it is entered."""

from __future__ import annotations

import keyword
import re

# Families whose gradient follows from the ops that they are written in, or that make tensors from none.
_NEED_NO_GRADIENT = ("composite", "factory")
_PROMOTIONS = (None, "same", "float", "int", "int64", "bool", "index")
_WITHOUT_GRADIENT = ("bool", "int", "index")  # kinds of results that have none


# Where ops can be public: in plugrad itself, and in these.
PLACES = ("", "Tensor", "nn.functional", "special", "linalg", "fft", "signal.windows", "masked")


def no_place(dotted: str) -> str:
    """Return why an op can't have a dotted name."""
    places = ", ".join(f"plugrad.{place}".rstrip(".") for place in PLACES)
    return f"ops are public in {places}, not in plugrad.{dotted.rpartition('.')[0]}"


def is_name(text: str) -> bool:
    """Whether something can be called so: no keyword, and none of Python's own `__names__`."""
    return text.isidentifier() and not keyword.iskeyword(text) and not (text[:2] == text[-2:] == "__")


def check(kind: str, item) -> None:
    """Raise TypeError, naming record and rule, when what a hook returned is not what its kind needs."""
    from plugrad import extend

    base = {
        "ops": extend.Op, "kernels": extend.Kernel, "losses": extend.Module, "layers": extend.Module,
        "optimizers": extend.Optimizer, "schedulers": extend.LRScheduler, "backends": extend.Backend,
        "hooks": extend.OpHook,
    }.get(kind)  # fmt: skip
    if kind in ("ops", "kernels"):
        right = isinstance(item, base)
    elif kind == "backends":
        right = isinstance(item, base) or (isinstance(item, type) and issubclass(item, base))
    else:
        right = isinstance(item, type) and issubclass(item, base) if base else callable(item)
    if not right:
        plural = "records" if kind in ("ops", "kernels") else "classes"
        wanted = "callables" if base is None else f"{base.__name__} {plural}"
        raise TypeError(f"the hook plugrad_{kind} must return {wanted}; it returned {item!r}")
    if kind == "kernels":
        return
    name = item.name if kind == "ops" else getattr(item, "name" if kind == "backends" else "__name__", None)
    if not isinstance(name, str) or not is_name(name):
        where = f"`name = ...` in {item!r}" if kind == "backends" else f"{item!r}: give it a name of its own"
        raise TypeError(f"what plugrad_{kind} returns needs a name that is a Python name, not {name!r}; see {where}")
    _FURTHER.get(kind, lambda item: None)(item)


def _check_op(op) -> None:
    for dotted in op.names:
        if not all(map(is_name, dotted.split("."))):
            raise TypeError(f"op {op.name!r} can't be public as {dotted!r}: that is no dotted Python name")
        if dotted.rpartition(".")[0] not in PLACES:
            raise TypeError(f"op {op.name!r} can't be public as {dotted!r}: {no_place(dotted)}")
    if not op.parameters and op.family != "factory":
        raise TypeError(f"op {op.name!r} takes no tensor: its kernel must be `def {op.name}(xp, input, ...)`")
    if op.promote not in _PROMOTIONS:
        known = ", ".join(repr(one) for one in _PROMOTIONS if one)
        raise TypeError(f"op {op.name!r} has promote={op.promote!r}, it must be one of {known}")
    if op.family in _NEED_NO_GRADIENT or op.promote in _WITHOUT_GRADIENT:
        return
    if not op.formulas and not op.undifferentiable:
        raise TypeError(f"op {op.name!r} has no gradient: declare it with @{op.name}.vjp, or say vjp=None")
    missing = set(op.tensors) - set(op.inputs) if op.family == "binary" and op.formulas else ()
    if missing:
        (name,) = missing
        raise TypeError(
            f"op {op.name!r} has no gradient for {name!r}: declare it with @{op.name}.vjp({name!r}); if there is none "
            "the formula returns None"
        )


def _check_backend(backend) -> None:
    from plugrad.devices.device import Backend

    if not re.fullmatch(r"[a-z][a-z0-9_]*", backend.name):
        raise TypeError(f"the device type {backend.name!r} must be in lower case, as in 'cuda'")
    cls = backend if isinstance(backend, type) else type(backend)
    if backend.symbolic:
        return
    missing = [name for name in ("from_numpy", "to_numpy") if getattr(cls, name) is getattr(Backend, name)]
    # A class may find its array module only when an instance is made.
    if not isinstance(backend, type):
        missing += [name for name in ("xp", "array_type") if getattr(backend, name, None) is None]
    if missing:
        raise TypeError(f"backend {backend.name!r} has no {' and no '.join(missing)}")


def _check_optimizer(cls) -> None:
    from plugrad.optim.optimizer import Optimizer

    if cls.update is Optimizer.update and cls.step is Optimizer.step:
        raise TypeError(f"optimizer {cls.__name__!r} has neither `update(xp, p, g, state, group)` nor `step`")


def _check_scheduler(cls) -> None:
    from plugrad.optim.lr_scheduler import LRScheduler

    if cls.get_lr is LRScheduler.get_lr and cls.step is LRScheduler.step:
        raise TypeError(f"scheduler {cls.__name__!r} has neither `get_lr` nor `step`")


_FURTHER = {
    "ops": _check_op, "backends": _check_backend, "optimizers": _check_optimizer, "schedulers": _check_scheduler,
}  # fmt: skip


def check_kernel(kernel, op) -> None:
    """Raise TypeError when a kernel does not take what the op's own kernel takes: `xp` and the op's parameters."""
    import inspect

    try:
        signature = inspect.signature(kernel.function)
    except (TypeError, ValueError):  # a callable of C that does not tell
        return
    values = dict.fromkeys(op.keyword_only)
    needed = [name for name in op.positional if name not in op.defaults]
    by_name = {name: None for name in op.positional[1:]}
    try:
        signature.bind(None, *op.positional, **values)
        signature.bind(None, *op.positional[:1], **by_name, **values)  # as formulas call it
        signature.bind(None, *needed, **{name: None for name in op.keyword_only if name not in op.defaults})
    except TypeError as error:
        positional = [f"{name}={op.defaults[name]!r}" if name in op.defaults else name for name in op.positional]
        keywords = [f"{name}={op.defaults[name]!r}" if name in op.defaults else name for name in op.keyword_only]
        wanted = ", ".join(["xp", *positional, *(["*", *keywords] if keywords else [])])
        raise TypeError(
            f"the kernel {kernel.function.__name__} of op {op.name!r} for {kernel.backend!r} takes {signature}, it "
            f"must take ({wanted}): {error}"
        ) from None
