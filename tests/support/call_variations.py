"""Calls of ops for comparing executions: samples, and what can be varied about them.

A `Variation` makes its inputs anew for every run, with the same values in the same layout of memory.
"""

from __future__ import annotations

import contextlib
import operator as operator_module
import types

import numpy

import plugrad
from plugrad.testing import Sample, samples_of
from plugrad.testing.samples import Maker, as_sample
from plugrad.testing.tensors import is_float, tensors_in
from support.call_snapshots import address


class Variation:
    """One call: `make()` returns (function, args, kwargs, leaves), and it is made inside of `context()`."""

    __slots__ = ("label", "make", "context", "second")

    def __init__(self, label, make, context=contextlib.nullcontext, second=False):
        self.label, self.make, self.context, self.second = label, make, context, second


class Prepared:
    """A sample whose tensors can be made anew, as often as wanted."""

    def __init__(self, sample):
        self.sample = sample
        unique = {id(t): t for t in tensors_in((sample.args, sample.kwargs))}
        self.tensors = list(unique.values())
        self.graded = frozenset(i for i, t in enumerate(self.tensors) if t.requires_grad)

    def fresh(self, graded=None, lay=None, cast=None, dress=None):
        """Return (sample, leaves): copies of all tensors, those numbered in `graded` requiring grad.

        `lay` changes the raw arrays, `cast(number, tensor)` the tensors before they require grad, `dress` after it.
        """
        graded = self.graded if graded is None else graded
        leaves, copies = [], {}
        for number, tensor in enumerate(self.tensors):
            copy = copied(tensor, lay)
            if cast is not None:
                copy = cast(number, copy).detach()
            if number in graded and is_float(copy):
                copy.requires_grad_()
            leaves.append(copy)
            copies[id(tensor)] = dress(copy) if dress is not None else copy
        sample = self.sample.map(lambda t: copies[id(t)])
        if "generator" in sample.kwargs:
            sample.kwargs["generator"] = sample.kwargs["generator"].clone_state()
        return sample, leaves


def copied(tensor, lay=None):
    """Return a tensor with the same values in fresh memory, laid out alike, or as `lay` makes of its array."""
    array = tensor._raw
    if lay is not None and array.ndim:
        copy = lay(array)
    elif array.flags.c_contiguous or not isinstance(array.base, numpy.ndarray):
        copy = array.copy(order="K")
    else:
        root = array
        while isinstance(root.base, numpy.ndarray):
            root = root.base
        offset = address(array) - address(root)
        copy = numpy.ndarray(array.shape, array.dtype, root.copy(order="K"), offset, array.strides)
    tensor_copy = plugrad.empty(0, dtype=tensor.dtype)
    tensor_copy._raw = copy
    return tensor_copy


LAYOUTS = {
    "transposed": lambda array: array.T.copy(order="C").T,
    "strided": lambda array: numpy.repeat(array, 2, axis=-1)[..., ::2],
    "reversed": lambda array: array[..., ::-1].copy()[..., ::-1],
    "expanded": lambda array: numpy.broadcast_to(array[:1].copy(), array.shape) if len(array) else array.copy(),
    "empty": lambda array: array[:0].copy(),
    "0-d": lambda array: array.reshape(-1)[:1].reshape(()).copy() if array.size else array.copy(),
}


def _view(leaf):
    return leaf[...] if leaf.requires_grad else leaf


def _view_of_result(leaf):
    return leaf.clone()[...]


def _view_of_written(leaf):
    """Return a view whose base has been written in place since."""
    base = leaf.clone()
    view = base[...]
    if is_float(base):
        base.mul_(1)
    else:
        base.copy_(base.clone())
    return view


DRESSES = {
    "results of ops": lambda leaf: leaf.clone(),
    "views of leaves": _view,
    "views of results": _view_of_result,
    "views of a written base": _view_of_written,
}


def _inference(leaf):
    with plugrad.inference_mode():
        return leaf.detach().clone()


def _shared(leaf):
    """Return a tensor whose memory NumPy can write."""
    array = numpy.array(leaf.detach()._raw)
    shared = plugrad.from_numpy(array)
    shared.shared_with = array
    return shared.requires_grad_(leaf.requires_grad)


class Plain(plugrad.Tensor):
    """A subclass that overrides nothing."""

    __torch_function__ = plugrad._C._disabled_torch_function_impl


KINDS = {
    "parameters": lambda leaf: plugrad.nn.Parameter(leaf.detach(), leaf.requires_grad),
    "of a subclass": lambda leaf: leaf.as_subclass(Plain),
    "inference tensors": _inference,
    "shared with NumPy": _shared,
    "on the meta device": lambda leaf: leaf.to("meta"),
    ".data": lambda leaf: leaf.data,
}

CASTS = {
    "first in float32": lambda i, t: t.to(plugrad.float32) if i == 0 and is_float(t) else t,
    "second in float32": lambda i, t: t.to(plugrad.float32) if i == 1 and is_float(t) else t,
    "second in int64": lambda i, t: t.to(plugrad.int64) if i == 1 and is_float(t) else t,
    "float16": lambda i, t: t.to(plugrad.float16) if is_float(t) else t,
    "bfloat16": lambda i, t: t.to(plugrad.bfloat16) if is_float(t) else t,
    "int64": lambda i, t: t.to(plugrad.int64) if is_float(t) else t,
    "uint8": lambda i, t: t.abs().to(plugrad.uint8) if is_float(t) else t,
    "bool": lambda i, t: t.to(plugrad.bool),
    "complex128": lambda i, t: t.to(plugrad.complex128) if is_float(t) else t,
}

OPERANDS = (2, -1.5, True, 1 + 2j, numpy.float32(2), numpy.ones(2), None, "a", [1.0, 2.0])


def gradients(op, sample, label, short=False):
    """Yield the calls of a sample by what requires grad: all, none, each alone, leaves or not."""
    given = Prepared(sample)

    def maker(**changes):
        def make():
            fresh, leaves = given.fresh(**changes)
            return _called(op, fresh), fresh.args, fresh.kwargs, leaves

        return make

    yield Variation(label, maker())
    if short:
        return
    if given.graded:
        yield Variation(f"{label}, nothing requires grad", maker(graded=frozenset()))
        yield Variation(f"{label}, no_grad", maker(), plugrad.no_grad)
        yield Variation(f"{label}, twice backward", maker(), second=True)
        for number in sorted(given.graded) if len(given.graded) > 1 else ():
            yield Variation(f"{label}, only tensor {number} requires grad", maker(graded=frozenset({number})))
    for name, dress in DRESSES.items() if given.tensors else ():
        yield Variation(f"{label}, {name}", maker(dress=dress))


def _called(op, sample):
    """Return the function that a sample calls, which may be wrapped."""
    if sample.through is None:
        return op.function
    return lambda *args, **kwargs: sample.through(op.function, *args, **kwargs)


def forms(op, sample, label, short=False):
    """Yield the calls of a sample with other memory, shapes, dtypes, and arguments given otherwise."""
    given = Prepared(sample)

    def maker(change=lambda fresh: fresh, **changes):
        def make():
            fresh, leaves = given.fresh(**changes)
            fresh = change(fresh)
            return _called(op, fresh), fresh.args, fresh.kwargs, leaves

        return make

    if not given.tensors:
        return
    for name, lay in LAYOUTS.items():
        yield Variation(f"{label}, {name}", maker(lay=lay))
    if short:
        return
    for name, cast in CASTS.items():
        if not name.startswith("second") or len(given.tensors) > 1:
            yield Variation(f"{label}, {name}", maker(cast=cast))
    for name, dress in KINDS.items():
        yield Variation(f"{label}, {name}", maker(dress=dress))
    yield Variation(f"{label}, results in bfloat16", maker(cast=CASTS["bfloat16"], dress=DRESSES["results of ops"]))


def arguments(op, sample, label):
    """Yield the calls of a sample with wrong and unusual arguments, most of which are errors."""
    given = Prepared(sample)
    if sample.through is not None:
        return

    def maker(change):
        def make():
            fresh, leaves = given.fresh()
            args, kwargs = change(list(fresh.args), dict(fresh.kwargs))
            return op.function, args, kwargs, leaves

        return make

    def replace(place, value):
        return lambda args, kwargs: ([*args[:place], value, *args[place + 1 :]], kwargs)

    positions = op.positional if op.variadic is None else ()
    for place, argument in enumerate(sample.args[:3]):
        for value in OPERANDS if isinstance(argument, plugrad.Tensor) else (None, "a", 1.5, 99, -99):
            yield Variation(f"{label}, argument {place} is {value!r}", maker(replace(place, value)))
    if positions:
        named = lambda args, kwargs: ((), {**dict(zip(positions, args, strict=False)), **kwargs})  # noqa: E731
        yield Variation(f"{label}, all by name", maker(named))
    if "dim" in sample.kwargs and "axis" not in op.index:
        yield Variation(f"{label}, axis for dim", maker(lambda args, kwargs: (args, _axis(kwargs))))
    yield Variation(f"{label}, no arguments", maker(lambda args, kwargs: ((), {})))
    yield Variation(f"{label}, an argument too many", maker(lambda args, kwargs: ([*args, *[1] * 9], kwargs)))
    yield Variation(f"{label}, an unknown keyword", maker(lambda args, kwargs: (args, {**kwargs, "unheard_of": 1})))


def _axis(kwargs):
    names = {"dim": "axis", "keepdim": "keepdims"}
    return {names.get(name, name): value for name, value in kwargs.items()}


def outputs(op, sample, label):
    """Yield the calls of a sample with `out=`: fitting ones, and of other shapes and dtypes."""
    given = Prepared(sample)
    if not op.has_out or sample.through is not None:
        return
    fresh, _ = given.fresh(graded=frozenset())
    plugrad.manual_seed(0)
    try:
        result = fresh.call(op.function)
    except Exception:  # that is what the op does: `out=` makes no difference
        result = plugrad.zeros(3)
    results = tensors_in(result)

    def maker(change, graded):
        def make():
            fresh, leaves = given.fresh(graded=graded)
            outs = [change(y) for y in results]
            fresh.kwargs["out"] = outs[0] if isinstance(result, plugrad.Tensor) else tuple(outs)
            return op.function, fresh.args, fresh.kwargs, leaves

        return make

    zeros = lambda y: plugrad.zeros(y.shape, dtype=y.dtype)  # noqa: E731
    kinds = {
        "out": zeros,
        "out of another shape": lambda y: plugrad.zeros((5,), dtype=y.dtype),
        "out in float32": lambda y: plugrad.zeros(y.shape, dtype=plugrad.float32),
        "out in int64": lambda y: plugrad.zeros(y.shape, dtype=plugrad.int64),
        "out that requires grad": lambda y: zeros(y).requires_grad_() if is_float(y) else zeros(y),
        "out a view": lambda y: plugrad.zeros((2, *y.shape), dtype=y.dtype)[1],
        "out an array": lambda y: y.numpy(),
    }
    for name, change in kinds.items():
        yield Variation(f"{label}, {name}", maker(change, frozenset()))
    if given.graded:
        yield Variation(f"{label}, out of what requires grad", maker(zeros, given.graded))
        yield Variation(f"{label}, out, no_grad", maker(zeros, given.graded), plugrad.no_grad)


def in_place(op, sample, label, short=False):
    """Yield the calls of the op's in-place form: on leaves, results, views, other dtypes, recorded or not."""
    method = getattr(plugrad.Tensor, f"{op.name}_", None)
    given = Prepared(sample)
    own = f"Tensor.{op.name}" in op.names and getattr(method, "__module__", "") == "plugrad.tensor"
    if not own or sample.through is not None or not sample.args or not isinstance(sample.args[0], plugrad.Tensor):
        return

    def maker(target=lambda t: t, **changes):
        def make():
            fresh, leaves = given.fresh(**changes)
            first = target(fresh.args[0])
            return method, (first, *fresh.args[1:]), fresh.kwargs, leaves

        return make

    first = given.tensors.index(sample.args[0]) if len(given.tensors) == 1 else 0
    others = given.graded - {first}
    none: frozenset = frozenset()
    yield Variation(f"{label}, in place", maker(graded=none))
    yield Variation(f"{label}, in place, no_grad", maker(), plugrad.no_grad)
    yield Variation(f"{label}, in place on a leaf", maker())
    yield Variation(f"{label}, in place, only others require grad", maker(graded=others))
    yield Variation(f"{label}, in place on a result", maker(dress=DRESSES["results of ops"]))
    yield Variation(f"{label}, in place on a view", maker(graded=none, dress=_view_of_result))
    yield Variation(f"{label}, in place on a view of a result", maker(dress=_view_of_result))
    yield Variation(f"{label}, in place on a view of a written base", maker(dress=_view_of_written))
    yield Variation(f"{label}, in place on a view of a leaf", maker(dress=lambda leaf: leaf[...]))
    yield Variation(f"{label}, in place on .data", maker(lambda t: t.data))
    yield Variation(f"{label}, in place on a larger one", maker(lambda t: plugrad.stack([t, t]), graded=none))
    yield Variation(f"{label}, in place on a smaller one", maker(lambda t: t.reshape(-1)[:1].clone(), graded=none))
    if short:
        return
    for name, cast in CASTS.items():
        yield Variation(f"{label}, in place, {name}", maker(cast=cast, graded=none))
    for name in ("transposed", "strided", "reversed", "expanded", "empty", "0-d"):
        yield Variation(f"{label}, in place, {name}", maker(lay=LAYOUTS[name], graded=none))
    if len(sample.args) > 1 and isinstance(sample.args[1], plugrad.Tensor):
        for value in OPERANDS:
            change = lambda fresh, value=value: (fresh.args[0], value, *fresh.args[2:])  # noqa: E731
            yield from _with_operand(method, given, change, f"{label}, in place with {value!r}")
        yield from _with_operand(
            method, given, lambda f: (f.args[0], f.args[0], *f.args[2:]), f"{label}, in place, itself"
        )


def _with_operand(method, given, change, label):
    for graded, dress, name in ((frozenset(), None, ""), (given.graded, DRESSES["results of ops"], ", on a result")):

        def make(graded=graded, dress=dress):
            sample, leaves = given.fresh(graded=graded, dress=dress)
            return method, change(sample), sample.kwargs, leaves

        yield Variation(label + name, make)


def errors(op, label):
    """Yield the wrong calls that the op's author declared."""
    if op.error_function is None:
        return
    for number, (_, _, value) in enumerate(op.error_function(Maker(op.name))):
        given = Prepared(as_sample(value))

        def make(given=given):
            sample, leaves = given.fresh()
            return op.function, sample.args, sample.kwargs, leaves

        yield Variation(f"{label}, declared error {number}", make)


def factories(op, sample, label):
    """Yield the calls of a factory with its options."""
    options = [
        {"dtype": plugrad.float32}, {"dtype": plugrad.int64}, {"dtype": plugrad.bool}, {"dtype": plugrad.bfloat16},
        {"requires_grad": True}, {"device": "cpu"}, {"device": plugrad.device("cpu")}, {"device": "meta"},
        {"dtype": float}, {"dtype": "float32"}, {"requires_grad": True, "dtype": plugrad.int64},
    ]  # fmt: skip
    for changes in options:

        def make(changes=changes):
            return op.function, sample.args, {**sample.kwargs, **changes}, []

        yield Variation(f"{label} with {changes}", make)


def of_op(op):
    """Yield all variations of an op; fewer of composites, whose parts are ops that have theirs."""
    composite = op.family == "composite"
    for dtype in (plugrad.float64, plugrad.float32):
        for number, sample in enumerate(samples_of(op, dtype)):
            short = composite and (number or dtype is plugrad.float32)
            yield from gradients(op, sample, f"{dtype.name} sample {number} {sample}", short)
    for number, sample in enumerate(samples_of(op)):
        label = f"sample {number} {sample}"
        if number < 1 or not composite:
            yield from forms(op, sample, label, composite or number > 0)
            yield from outputs(op, sample, label)
            yield from in_place(op, sample, label, composite or number > 0)
        if number < 1:
            yield from arguments(op, sample, label)
        if op.family == "factory":
            yield from factories(op, sample, label)
    yield from errors(op, op.name)


def as_given(op, sample):
    """Return the call of a sample as it stands."""
    return next(gradients(op, sample, str(sample)))


# ---------------------------------------------------------------------------------------------------- written calls


def _assigned(operator):
    """Return the function of two tensors that carries out an operator such as `+=`."""
    return lambda x, y: getattr(operator_module, f"i{operator}")(x, y)


def _set(index):
    def assign(x, y=None):
        value = 3 if y is None else y
        x[index] = value
        return x

    return assign


def _shapes(*shapes, **options):
    make = Maker("written", **options)
    return tuple(make(*shape, low=0.5, high=2.0) for shape in shapes)


OPERATORS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
INDICES = {
    "0": 0, "-1": -1, "1:": slice(1, None), "::2": slice(None, None, 2), "::-1 in front": slice(None, -1), "...": ...,
    "None": None, "0, 1": (0, 1), ":, 1": (slice(None), 1), "..., 0": (..., 0), "[0, 2]": [0, 2],
    "[[0], [1]]": [[0], [1]], "tensor": plugrad.tensor([0, 2, 0]), "mask": plugrad.tensor([True, False, True]),
    ":, tensor": (slice(None), plugrad.tensor([1, 1])), "True": True, "9": 9, "'a'": "a", "1.0": 1.0, "a step of 0":
    slice(None, None, 0),
}  # fmt: skip


def _written() -> dict:
    """Return calls as programs write them: label -> (function, tensors...)."""
    calls: dict = {}
    same, broadcast, scalar = _shapes((3, 4), (3, 4)), _shapes((3, 4), (4,)), _shapes((3, 1), ())
    lists = _shapes((2, 3), (2, 3), (2, 3))
    for name in OPERATORS:
        operator = getattr(operator_module, name)
        for label, tensors in (("", same), (" broadcast", broadcast), (" 0-d", scalar)):
            calls[f"x {name} y{label}"] = (operator, *tensors)
            calls[f"x {name}= y{label}"] = (_assigned(name), *tensors)
        for number in (2, 2.5, True, 2j, numpy.float64(2), numpy.float32(2), numpy.full(4, 2.0), "a", None):
            shown = f"{type(number).__name__} {number}"
            calls[f"x {name} {shown}"] = (lambda x, o=operator, n=number: o(x, n), same[0])
            calls[f"{shown} {name} x"] = (lambda x, o=operator, n=number: o(n, x), same[0])
            calls[f"x {name}= {shown}"] = (lambda x, o=_assigned(name), n=number: o(x, n), same[0])
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "matmul"):
        operator = getattr(operator_module, name)
        calls[f"x {name} y"] = (operator, *_shapes((3, 3), (3, 3)))
        calls[f"x {name} 2"] = (lambda x, o=operator: o(x, 2), same[0])
    for name in ("neg", "pos", "abs", "invert"):
        calls[f"{name} x"] = (getattr(operator_module, name), same[0])
    for name, index in INDICES.items():
        calls[f"x[{name}]"] = (lambda x, i=index: x[i], same[0])
        calls[f"x[{name}] = 3"] = (_set(index), same[0])
        calls[f"x[{name}] = y"] = (_set(index), *_shapes((3, 4), ()))
        calls[f"x[{name}] = row"] = (_set(index), *broadcast)
        calls[f"x[{name}] += y"] = (lambda x, y, i=index: operator_module.setitem(x, i, x[i] + y), *_shapes((3, 4), ()))
    for name in ("cat", "stack", "hstack", "block_diag", "broadcast_tensors", "meshgrid", "einsum"):
        calls[f"{name} of a list"] = (lambda *xs, n=name: _of_list(n, list(xs)), *lists)
    for name in ("cat", "stack"):
        calls[f"{name} of a tuple"] = (lambda *xs, n=name: getattr(plugrad, n)(xs), *lists)
        calls[f"{name} of one twice"] = (lambda x, n=name: getattr(plugrad, n)([x, x]), lists[0])
        calls[f"{name} with a number"] = (lambda x, n=name: getattr(plugrad, n)([x, 2.0]), lists[0])
        calls[f"{name} of nothing"] = (lambda x, n=name: getattr(plugrad, n)([]), lists[0])
    calls["x * x"] = (lambda x: x * x, same[0])
    calls["x += x"] = (lambda x: operator_module.iadd(x, x), same[0])
    calls["a view is written"] = (lambda x, y: operator_module.iadd(x[0], y[0]), *same)
    calls["x.T is written"] = (lambda x, y: x.t().mul_(y.t()), *same)
    calls["a chain"] = (lambda x, y: ((x * y + 2).exp() / (1 + y)).sum(0).unsqueeze(0).expand(2, 4), *same)
    calls["copy_"] = (lambda x, y: x.copy_(y), *broadcast)
    calls["fill_"] = (lambda x: x.fill_(2.5), same[0])
    calls["zero_"] = (lambda x: x.zero_(), same[0])
    calls["t_"] = (lambda x: x.t_(), same[0])
    calls["unsqueeze_"] = (lambda x: x.unsqueeze_(0), same[0])
    calls["normal_"] = (lambda x: x.normal_(), same[0])
    return calls


def _of_list(name, tensors):
    function = getattr(plugrad, name)
    if name == "einsum":
        return function("ij,ij,ij->i", tensors)
    return function(*tensors) if name in ("block_diag", "broadcast_tensors") else function(tensors)


WRITTEN = _written()


def of_call(label, function, *tensors):
    """Yield the variations of a call that is written in Python: `function` of some tensors."""
    called = types.SimpleNamespace(function=function)
    yield from gradients(called, Sample(tensors), label)
    yield from forms(called, Sample(tensors), label)
