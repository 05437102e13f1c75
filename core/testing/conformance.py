"""The tests that follow from an op's declaration: what its author would otherwise have to write, or would
forget.

`cases(op)` yields them; running one raises AssertionError with a message that names op, argument and check.
The wiring
for pytest is a line::

    @pytest.mark.parametrize("case", [case for op in ops for case in cases(op)], ids=str)
    def test_op(case):
        case()
"""

from __future__ import annotations

import importlib
import re
import warnings

import numpy

import plugrad

from . import probes
from .calls import Skip, agree, argument, call, differentiable_outputs, each, gradients, leaves
from .gradcheck import check, gradient_function
from .samples import Maker, Sample, as_sample, samples_of
from .structure import map_tensors, tensors_in, to_numpy
from .verdict import FAIL, INCONCLUSIVE

ELEMENTWISE = ("unary", "binary", "elementwise")
NO_SAMPLES = ("factory",)  # families whose ops take no tensors: nothing to derive


class Case:
    """One check of one op: call it. Returns None, or the reason why the check does not apply."""

    __slots__ = ("op", "name", "_check", "_device")

    def __init__(self, op, name, function, device="cpu"):
        self.op, self.name, self._check, self._device = op, name, function, device

    def run(self):
        """Run the check.

        Raises AssertionError naming op and check, from whatever error came up.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._check(self.op, self._device)
        except Skip as reason:
            return str(reason)
        except NotImplementedError as reason:  # said aloud; that the op works at all is the case "samples"
            if self._check is not has_samples:
                return str(reason)
            raise AssertionError(
                f"op {self.op.name!r}, {self.name}: NotImplementedError: {reason}"
            ) from reason
        except Exception as error:  # whatever an op raises where it should work is a finding
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            raise AssertionError(f"op {self.op.name!r}, {self.name}: {kind}{error}") from error
        return None

    __call__ = run

    def __repr__(self):
        return f"{self.op.name}-{self.name.replace(' ', '-')}"


def cases(op, device="cpu"):
    """Yield the cases of an op: all checks that its family and its record call for.

    >>> import plugrad as torch
    >>> from plugrad import registry
    >>> {case.name for case in cases(registry.op("sin"))} >= {"value", "gradient", "in-place", "meta device"}
    True
    """
    chosen = {"docstring": docstring, "error samples": error_samples}
    if op.family not in NO_SAMPLES:
        chosen.update({"samples": has_samples, "value": value, "inputs unchanged": inputs_unchanged})
        chosen.update({"strides": strides, "meta device": meta})
        if op.differentiable:
            chosen.update(
                {"gradient": gradient, "second gradient": second_gradient, "formula modes": formula_modes}
            )
        if op.inplace:
            chosen["in-place"] = inplace
    if op.family in ELEMENTWISE and "dim" not in op.parameters:
        chosen.update({"shapes": probes.shapes, "promotion": probes.promotion})
    if op.family == "reduction" or "shapes" in chosen:
        chosen["extreme values"] = probes.extremes
    for name, function in chosen.items():
        yield Case(op, name, function, device)


def docstring(op, device):
    """The docstring is there, and its first line fits 80 columns."""
    first = op.doc.strip().splitlines()[:1]
    assert first, "there is no docstring"
    assert len(first[0]) <= 80, (
        f"the first line of the docstring has {len(first[0])} columns, 80 is the limit"
    )


def has_samples(op, device):
    """There is something to run the op with, and it runs."""
    found = samples_of(op, device=device)
    for sample in found:
        call(op, sample.map(lambda t: t.detach()))
    assert found, (
        f"nothing to check it with; declare `@{op.name}.samples`, a generator function of `make` that "
        "yields inputs, such as make(3, 4)"
    )


def reference(ref):
    """Return the function that a reference names ('numpy.add'); skip where its module is not installed."""
    if ref is None:
        raise Skip("no reference")
    if callable(ref):
        return ref
    parts = ref.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise Skip(f"{parts[0]} is not installed")


def value(op, device):
    """The value is that of the reference."""
    function = reference(op.ref)
    for label, sample in each(op, device):
        if sample.through is not None:
            continue
        given = sample if callable(op.ref) else _renamed(op, sample)
        args, kwargs = map_tensors(given.args, to_numpy), map_tensors(given.kwargs, to_numpy)
        with numpy.errstate(all="ignore"):
            expected = function(*args, **kwargs)
        results = tensors_in(call(op, sample))
        wanted = list(expected) if isinstance(expected, tuple) else [expected]
        assert len(results) == len(wanted), (
            f"{label}: {len(results)} results, the reference gives {len(wanted)}"
        )
        for result, right in zip(results, wanted, strict=True):
            agree(to_numpy(result), numpy.asarray(right), label, rtol=1e-7, atol=1e-9, check_dtype=False)


def _renamed(op, sample):
    """Return a sample whose `dim` and `keepdim` are keywords, by the names of NumPy and SciPy."""
    names = {"dim": "axis", "keepdim": "keepdims"}
    named = dict(zip(op.parameters, sample.args, strict=False))
    args = [item for name, item in named.items() if name not in names]
    kwargs = {names[name]: item for name, item in named.items() if name in names}
    kwargs.update((names.get(name, name), item) for name, item in sample.kwargs.items())
    if isinstance(kwargs.get("axis"), list):
        kwargs["axis"] = tuple(kwargs["axis"])
    return Sample(args, kwargs)


def gradient(op, device):
    """The gradients agree with measured slopes."""
    _judge(op, device, lambda func, inputs: (func, inputs))


def second_gradient(op, device):
    """The gradients of the gradients agree with measured slopes."""
    _judge(op, device, gradient_function)


def _judge(op, device, prepare):
    judged, vague = 0, []
    for label, sample in each(op, device):
        if not leaves(sample) or not differentiable_outputs(op, sample):
            continue

        names = [*op.parameters[: len(sample.args)], *sample.kwargs]
        inputs = (*sample.args, *sample.kwargs.values())

        def func(*values, count=len(sample.args), keywords=tuple(sample.kwargs), through=sample.through):
            given = dict(zip(keywords, values[count:], strict=True))
            return call(op, Sample(values[:count], given, through))

        verdict = check(*prepare(func, inputs), fast_mode=True)
        if verdict.status == FAIL:
            known = isinstance(verdict.input, int) and verdict.input < len(names)
            about = f", argument {names[verdict.input]!r}" if known else ""
            raise AssertionError(f"{label}{about}: {verdict.message}")
        judged += verdict.status != INCONCLUSIVE
        vague += [f"{label}: {verdict.message}"] if verdict.status == INCONCLUSIVE else []
    if vague and not judged:
        raise AssertionError(vague[0])
    if not judged:
        raise Skip("no sample requires grad")


def formula_modes(op, device):
    """The formulas give the same on raw arrays and on recorded tensors."""
    done = 0
    for label, sample in each(op, device):
        if not leaves(sample) or not differentiable_outputs(op, sample):
            continue
        plain, recorded = gradients(op, sample), gradients(op, sample, create_graph=True)
        for number, (one, other) in enumerate(zip(plain, recorded, strict=True)):
            where = f"{label}, gradient of {argument(sample, op, number)}, create_graph=True against False"
            assert (one is None) == (other is None), f"{where}: one of them is None"
            if one is not None:
                agree(other.detach(), one, where, rtol=1e-9, atol=1e-11)
        done += 1
    if not done:
        raise Skip("no sample requires grad")


def strides(op, device):
    """Strided, transposed and reversed inputs give what contiguous ones give, and so do their gradients."""
    if "storage_offset" in op.parameters or ("stride" in op.parameters and op.family == "view"):
        raise Skip("the result is about the memory itself")
    for label, sample in each(op, device):
        differentiable = leaves(sample) and differentiable_outputs(op, sample)
        expected, grads = call(op, sample), gradients(op, sample) if differentiable else []
        for name, change in LAYOUTS.items():
            other = sample.map(change)
            try:
                result = call(op, other)
            except RuntimeError:
                if op.family == "view" or op.name.startswith("view_as"):  # a view of this memory may not exist
                    continue
                raise
            agree(_plain(result), _plain(expected), f"{label}, {name} inputs")
            for number, pair in enumerate(zip(gradients(op, other) if grads else [], grads, strict=True)):
                if pair[1] is not None:
                    agree(*pair, f"{label}, gradient of {argument(sample, op, number)}, {name} inputs")


def _relaid(lay):
    """Return the function that lays a tensor's values out anew: `lay` makes the NumPy array."""

    def change(tensor):
        array = tensor.detach().cpu().numpy()
        if not array.ndim:
            return tensor
        made = plugrad.from_numpy(lay(array)).to(tensor.device)
        return made.requires_grad_() if tensor.requires_grad else made

    return change


LAYOUTS = {
    "strided": _relaid(lambda array: numpy.repeat(array, 2, axis=-1)[..., ::2]),
    "transposed": _relaid(lambda array: numpy.ascontiguousarray(array.T).T),
    "negative-stride": _relaid(lambda array: numpy.ascontiguousarray(array[..., ::-1])[..., ::-1]),
}


def _plain(result):
    return [t.detach() for t in tensors_in(result)]


def inputs_unchanged(op, device):
    """Neither the call nor its backward writes into its arguments."""
    for label, sample in each(op, device):
        tensors = tensors_in((sample.args, sample.kwargs))
        before = [t.detach().clone() for t in tensors]
        outputs = differentiable_outputs(op, sample)
        stages = [("the call", tensors, before)]
        if outputs and leaves(sample):
            cotangents = [plugrad.ones_like(y) for y in outputs]
            ones = [g.clone() for g in cotangents]
            plugrad.autograd.grad(outputs, leaves(sample), cotangents, allow_unused=True)
            stages += [("backward", tensors, before), ("backward (its grad_output)", cotangents, ones)]
        for stage, now, then in stages:
            for number, (one, other) in enumerate(zip(now, then, strict=True)):
                agree(one.detach(), other, f"{label}, tensor {number} was written by {stage}", rtol=0, atol=0)


def inplace(op, device):
    """The in-place method gives what the op gives, and returns its input."""
    names = [name.removeprefix("Tensor.") for name in op.names if name.startswith("Tensor.")]
    names = [f"{name}_" for name in names if getattr(plugrad.Tensor, f"{name}_", None) is not None]
    if not names:
        raise Skip("not a method of Tensor")
    done = 0
    for label, sample in each(op, device):
        if not sample.args or not isinstance(sample.args[0], plugrad.Tensor):
            continue
        expected = call(op, sample)
        first = sample.args[0].detach().clone()
        if expected.shape != first.shape or expected.dtype != first.dtype:
            continue  # the result does not fit into the input: PyTorch refuses as well
        plugrad.manual_seed(0)
        result = getattr(first, names[0])(*sample.map(lambda t: t.detach()).args[1:], **sample.kwargs)
        assert result is first, f"{label}: {names[0]} does not return its input"
        agree(first, expected.detach(), f"{label}, {names[0]}")
        done += 1
    if not done:
        raise Skip("no sample's result fits into its first input")


def meta(op, device):
    """On the meta device shape and dtype are those of the real result; for views and elementwise ops strides, too."""
    attributes = ("shape", "dtype", "stride") if op.family in (*ELEMENTWISE, "view") else ("shape", "dtype")
    for label, sample in each(op, device):
        real = tensors_in(call(op, sample))
        try:
            symbolic = tensors_in(call(op, sample.map(lambda t: t.detach().to("meta"))))
        except RuntimeError as error:
            if "they have no data" in str(error):
                raise Skip("the op looks at values, which tensors on the meta device do not have") from error
            raise
        assert len(real) == len(symbolic), f"{label}: {len(symbolic)} results on meta, {len(real)} in fact"
        for number, (one, other) in enumerate(zip(real, symbolic, strict=True)):
            for what in attributes:
                fact, told = getattr(one, what), getattr(other, what)
                fact, told = (tuple(fact()), tuple(told())) if what == "stride" else (fact, told)
                if what == "stride" and one.numel() <= 1:
                    continue  # strides of a single element say nothing
                assert fact == told, f"{label}, result {number}: meta says {what} {told}, it is {fact}"


def error_samples(op, device):
    """Wrong inputs raise what the op's declaration says."""
    if op.error_function is None:
        raise Skip("no error samples")
    for number, (kind, pattern, given) in enumerate(op.error_function(Maker(op.name, device=device))):
        sample = as_sample(given)
        label = f"error sample {number} {sample}"
        try:
            call(op, sample)
        except Exception as error:
            assert isinstance(error, kind), (
                f"{label}: raises {type(error).__name__}, declared is {kind.__name__}: {error}"
            )
            assert re.search(pattern, str(error)), (
                f"{label}: the message {str(error)!r} does not match {pattern!r}"
            )
        else:
            raise AssertionError(f"{label}: raises nothing, declared is {kind.__name__}")
