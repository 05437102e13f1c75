"""`opcheck`: whether an op that a program defined does what it declared."""

from __future__ import annotations

import plugrad
from plugrad import Tensor, autograd
from plugrad.library.definition import definition
from plugrad.utils import _pytree

_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """What `opcheck` raises where an op does not do what it declared."""


def opcheck(op, args, kwargs=None, *, test_utils=_TESTS, raise_exception=True, atol=None, rtol=None) -> dict:
    """Test an op on arguments; return {test: "SUCCESS", or what is wrong}.

    Args:
        op: what `custom_op` returned, or its name.
        args, kwargs: what it is called with.
        test_utils: which tests: "test_schema" (it writes to what it says, and returns nothing that it was given),
            "test_autograd_registration" (a gradient is registered where inputs require one), "test_faketensor" (the
            fake function gives the shapes and dtypes of the real one), "test_aot_dispatch_dynamic" (gradients agree
            with finite differences: plugrad has no compiler ahead of time to compare with).
        raise_exception: whether to raise OpCheckError where a test fails.
        atol, rtol: of the comparison with finite differences.
    """
    one, kwargs = definition(op), kwargs or {}
    chosen = (test_utils,) if isinstance(test_utils, str) else test_utils
    unknown = set(chosen) - {*_TESTS, "test_aot_dispatch_static"}
    if unknown:
        raise ValueError(f"opcheck has no test {min(unknown)!r}; there are {', '.join(_TESTS)}")
    results: dict = {}
    for name in chosen:
        test = _gradients if name.startswith("test_aot") else globals()[f"_{name.removeprefix('test_')}"]
        try:
            test(one, args, kwargs, atol, rtol)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)"
                ) from error
            results[name] = error
    return results


def _tensors(args, kwargs) -> list:
    return [leaf for leaf in _pytree.tree_iter((tuple(args), kwargs)) if isinstance(leaf, Tensor)]


def _copies(args, kwargs):
    def copy(tensor):
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)

    return _pytree.tree_map_only(Tensor, copy, (tuple(args), dict(kwargs)))


def _schema(one, args, kwargs, atol, rtol) -> None:
    args, kwargs = _copies(args, kwargs)
    values = one.signature.bind(*args, **kwargs).arguments
    before = {name: _copies((value,), {})[0][0] for name, value in values.items()}
    with plugrad.no_grad():
        one(*args, **kwargs)
    written = {parameter.name for parameter in one.schema.parameters if parameter.written}
    for name, value in values.items():
        pairs = zip(_tensors((value,), {}), _tensors((before[name],), {}))
        changed = not all(plugrad.equal(now, was) for now, was in pairs)
        if changed and name not in written:
            raise RuntimeError(f"Argument {name} is not defined as mutable but was mutated")


def _autograd_registration(one, args, kwargs, atol, rtol) -> None:
    wanted = any(tensor.requires_grad for tensor in _tensors(args, kwargs))
    if wanted and one.backward is None and not {"autograd", "implicit"} & set(one.kernels):
        raise RuntimeError(f"{one.qualname}: inputs require grad, and there is no gradient: use register_autograd")


def _faketensor(one, args, kwargs, atol, rtol) -> None:
    if one.fake is None and "implicit" not in one.kernels:
        raise RuntimeError(f"{one.qualname}: there is no fake function: use register_fake")
    args, kwargs = _copies(args, kwargs)
    with plugrad.no_grad():
        real = _pytree.tree_leaves(one(*args, **kwargs))
        fake = _pytree.tree_leaves(one(*_pytree.tree_map_only(Tensor, lambda t: t.to("meta"), tuple(args)), **kwargs))
    told = [[(tuple(t.shape), t.dtype) for t in leaves if isinstance(t, Tensor)] for leaves in (real, fake)]
    if told[0] != told[1]:
        raise RuntimeError(f"{one.qualname}: the real function returns {told[0]}, the fake one {told[1]}")


def _gradients(one, args, kwargs, atol, rtol) -> None:
    inputs = [t.detach().double() if t.is_floating_point() else t for t in _tensors(args, kwargs)]
    asked = [tensor.requires_grad for tensor in _tensors(args, kwargs)]
    if not any(asked):
        return
    spec = _pytree.tree_structure((tuple(args), dict(kwargs)))
    others = _pytree.tree_leaves((tuple(args), dict(kwargs)))

    def function(*tensors):
        given = iter(tensors)
        own, keywords = spec.unflatten([next(given) if isinstance(leaf, Tensor) else leaf for leaf in others])
        return tuple(t for t in _pytree.tree_iter(one(*own, **keywords)) if isinstance(t, Tensor))

    inputs = [tensor.requires_grad_(wanted) for tensor, wanted in zip(inputs, asked)]
    autograd.gradcheck(function, inputs, atol=1e-5 if atol is None else atol, rtol=1e-3 if rtol is None else rtol)
