"""Wrong gradients made from right ones: what a gradient checker has to catch.

`mutants(op)` yields, for every sample of an op and every input that requires grad, the op's call with a gradient
that is wrong in one of the ways in `FAULTS`. Nothing registered is touched: an identity function in front of one
input (or behind the outputs) changes the gradient that passes, or a copy of the record gets a formula in which a
term is missing.

Not every such change is one: twice nothing is nothing, and a gradient that is equal along an axis may be averaged
along it. `Mutant.equivalent()` tells by comparing the two gradients as numbers; such mutants prove nothing and are
to be counted apart.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import time
import zlib

import numpy

import plugrad
from plugrad.testing.calls import function_of
from plugrad.testing.gradients.backward import Backward, natural_steps
from plugrad.testing.gradients.checker import gradient_function
from plugrad.testing.gradients.flat import FlatFunction, Misfit
from plugrad.testing.gradients.layouts import in_other_layout
from plugrad.testing.samples import Maker, Sample, samples_of
from plugrad.testing.tensors import differentiable, is_float, like, map_tensors, reals, tensors_in

LARGE = 20_000
SLOW = 0.1  # seconds; ops that take longer for 20,000 elements are not asked for that many
TERMS = 6  # dropped terms tried per op, at most
FAR = 30.0  # numbers larger than this count as extreme
FAULTS = (
    "times 1.0005", "sign flipped", "zero", "term dropped", "transposed", "wrong reduce axis", "wrong broadcast",
    "one element off by 1 %", "one element of 20,000 off by 1 %", "off by 1 % at extreme values",
    "off by 1 % if not contiguous, seen there", "off by 1 % if not contiguous, seen elsewhere",
)  # fmt: skip


class Changed(plugrad.autograd.Function):
    """Identity whose backward changes the gradient: ``change(gradient, input)``."""

    @staticmethod
    def forward(ctx, x, change):
        ctx.save_for_backward(x)
        ctx.change = change
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return ctx.change(g, *ctx.saved_tensors), None


class Mutant:
    """A function with a wrong gradient: `function`, its `arguments`, and the `original`, whose gradient is right.

    `op`, `fault`, `sample` (the `number`-th) and `place` (the number of the input, or where the term was) say what it
    is. `shown` are the arguments at which the gradients differ, if they do: the same, or these in another layout.
    """

    __slots__ = ("op", "fault", "sample", "number", "place", "original", "function", "arguments", "shown")

    def __init__(self, op, fault, sample, number, place, original, function, arguments, shown=None):
        self.op, self.fault, self.sample, self.number, self.place = op, fault, sample, number, place
        self.original, self.function, self.arguments = original, function, arguments
        self.shown = arguments if shown is None else shown

    def __repr__(self):
        return f"<Mutant {self.op.qualname}: {self.fault}, input {self.place}, {self.sample}>"

    def equivalent(self) -> bool:
        """Whether the gradient is no other, or other by so little that it drowns in the rounding of the values.

        That is: over a step as large as the input itself both gradients change the value by the same, up to 32
        roundings of the value, or of numbers as large as the inputs. Whatever the mutated backward raises passes
        through.
        """
        rows, sizes, right = _gradients(self.original, self.shown)
        try:
            wrong = _gradients(self.function, self.shown)[2]
        except Misfit:  # a gradient of another shape
            return False
        if wrong.shape != right.shape or (numpy.isfinite(wrong) != numpy.isfinite(right)).any():
            return False
        scale = natural_steps(FlatFunction(self.original, self.shown))
        largest = max(numpy.abs(reals(t)).max(initial=0.0) for t in tensors_in(self.shown) if is_float(t))
        rounding = 32 * 2.0**-52 * numpy.maximum(sizes, largest * numpy.abs(rows).max(axis=1, initial=0.0))
        return not (numpy.abs(wrong - right) * scale > rounding[:, None]).any()


def _gradients(function, arguments) -> tuple:
    with numpy.errstate(all="ignore"):
        backward = Backward(FlatFunction(function, arguments), numpy.random.default_rng(0), True, False)
    values = numpy.where(numpy.isfinite(backward.value), numpy.abs(backward.value), 0.0)
    return backward.cotangents, numpy.abs(backward.cotangents) @ values, backward.gradient


def mutants(op, *, order=1, dtype=None, seed=0, faults=FAULTS):
    """Yield the mutants of an op.

    Args:
        op: the record.
        order: 1 for wrong gradients, 2 for right ones whose own gradients are wrong.
        dtype: of the inputs, float64 by default.
        seed: of the samples.
        faults: which of `FAULTS` to make.

    >>> from plugrad import registry
    >>> {mutant.fault for mutant in mutants(registry.op("sin"))} >= {"times 1.0005", "transposed"}
    True
    """
    random = numpy.random.default_rng((zlib.crc32(op.name.encode()), seed))
    samples = [s for s in samples_of(op, dtype, seed=seed) if _leaves((s.args, s.kwargs))]
    for number, sample in enumerate(samples):
        function, arguments = _prepared(op, sample, order)
        for place, leaf in enumerate(_leaves(arguments)):
            for fault, change in changes(leaf, random).items():
                if fault in faults:
                    other = in_other_layout(FlatFunction(function, arguments)) if "contiguous" in fault else None
                    shown = arguments if other is None else other.inputs
                    given = arguments if fault.endswith("seen elsewhere") else shown
                    mutant = changed(function, place, change)
                    yield Mutant(op, fault, sample, number, place, function, mutant, given, shown)
        if "term dropped" in faults and (mutant := _without_an_output(function, arguments, random)) is not None:
            yield Mutant(op, "term dropped", sample, number, "of an output", function, mutant, arguments)
    if order == 1 and "term dropped" in faults:
        for place, mutant in dropped_terms(op):
            for number, sample in enumerate(samples):
                function, arguments = function_of(op, sample)
                wrong = function_of(mutant, sample)[0]
                yield Mutant(op, "term dropped", sample, number, place, function, wrong, arguments)
    yield from _special(op, samples, order, seed, random, faults)


def _prepared(op, sample, order):
    function, arguments = function_of(op, sample)
    return (function, arguments) if order == 1 else gradient_function(function, arguments)


def _special(op, samples, order, seed, random, faults):
    """Yield the mutants that need inputs of their own."""
    wanted = (
        ("transposed", _square(op, samples), _transposition),
        ("one element of 20,000 off by 1 %", _large(op, samples, seed), lambda leaf: _one_element(leaf, random)),
        ("off by 1 % at extreme values", _extreme(op, samples), _far_away),
    )
    for fault, inputs, change_for in wanted:
        for sample in inputs if fault in faults else ():
            try:
                function, arguments = _prepared(op, sample, order)
            except Exception:  # an op may refuse extreme values, or other shapes, in any way: then there is no sample
                continue
            for place, leaf in enumerate(_leaves(arguments)):
                if (change := change_for(leaf)) is not None:
                    yield Mutant(op, fault, sample, 0, place, function, changed(function, place, change), arguments)


def _transposition(leaf):
    return (lambda g, x: g.transpose(-1, -2)) if leaf.ndim > 1 and leaf.shape[-1] == leaf.shape[-2] > 1 else None


def _far_away(leaf):
    far = (leaf.detach().abs() > FAR).any()
    return (lambda g, x: g * plugrad.where(x.detach().abs() > FAR, 1.01, 1.0).to(g.dtype)) if far else None


def _leaves(arguments) -> list:
    return list({id(t): t for t in differentiable(arguments)}.values())


def changed(function, number, change):
    """Return `function` with the gradient of one of its tensors that require grad changed: ``change(g, x)``."""

    def mutant(*arguments):
        if not plugrad.is_grad_enabled() or not (leaves := _leaves(arguments)):
            return function(*arguments)
        wanted, stand_in = leaves[number], Changed.apply(leaves[number], change)
        return function(*map_tensors(arguments, lambda t: stand_in if t is wanted else t))

    return mutant


def changes(leaf, random) -> dict:
    """Return the changes that the gradient of a tensor admits, by fault."""
    admitted = {
        "times 1.0005": lambda g, x: g * 1.0005,
        "sign flipped": lambda g, x: -g,
        "zero": lambda g, x: g * 0,
    }
    if leaf.numel() > 1:
        admitted["one element off by 1 %"] = _one_element(leaf, random)
        for fault in FAULTS[-2:] if leaf.is_contiguous() else ():
            admitted[fault] = lambda g, x: g if x.is_contiguous() else g * 1.01
        axis = max(range(leaf.ndim), key=lambda i: leaf.shape[i])
        admitted["wrong reduce axis"] = lambda g, x: g.mean(axis, keepdim=True).expand(x.shape)
        admitted["wrong broadcast"] = lambda g, x: g.narrow(axis, 0, 1).expand(x.shape)
    if (change := _transposition(leaf)) is not None:
        admitted["transposed"] = change
    return admitted


def _one_element(leaf, random):
    factors = numpy.ones(leaf.numel())
    if factors.size:
        factors[random.integers(factors.size)] = 1.01
    factors = plugrad.from_numpy(factors.reshape(tuple(leaf.shape))).to(leaf.device)
    return lambda g, x: g * factors.to(plugrad.float64 if g.dtype.is_complex else g.dtype)


# ------------------------------------------------------------------------------------------------ dropped terms


def _without_an_output(function, arguments, random):
    """Return `function` whose gradient forgets what one output element contributes; None if there is only one."""
    position = int(random.integers(1 << 30))

    def forget(g, y):
        kept = numpy.ones(y.numel())
        kept[position % y.numel()] = 0
        return g * plugrad.from_numpy(kept.reshape(tuple(y.shape))).to(y.device, g.dtype)

    def concerned(outputs):
        return [y for y in differentiable(outputs) if y.numel() > 1][:1]

    def mutant(*values):
        outputs = function(*values)
        chosen = concerned(outputs)
        return map_tensors(outputs, lambda y: Changed.apply(y, forget) if any(y is c for c in chosen) else y)

    return mutant if concerned(function(*arguments)) else None


def dropped_terms(op):
    """Yield (place, copy of the record in whose formula one operand of a sum is missing), a few of them."""
    count = 0
    for number, formula in enumerate(op.formulas):
        for place, function in _without_a_term(formula.function):
            yield f"{formula.function.__name__}: {place}", _with_formula(op, number, function)
            count += 1
            if count == TERMS:
                return


def _without_a_term(function):
    """Yield (the sum, the function with one operand of it dropped) for sums in the source of a function."""
    if function.__closure__ or function.__name__ == "<lambda>":
        return
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tree.body[0].decorator_list = []
    sums = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub))]
    sums = [node for node in sums if not any(map(_is_size, ast.walk(node)))]
    for node in sums:
        for keep in ("left", "right"):
            variant = _Keep(node, keep).visit(copy.deepcopy(tree))
            space = dict(function.__globals__)
            exec(compile(ast.fix_missing_locations(variant), f"<{function.__name__}, mutated>", "exec"), space)
            yield f"{ast.unparse(node)}, {keep} alone", space[function.__name__]


def _is_size(node) -> bool:
    """Whether a part of a sum shows that it is about sizes and dimensions, not about gradients."""
    name = getattr(node, "attr", getattr(node, "id", ""))
    return name in ("ndim", "shape", "len", "range", "dim", "dims") or name.endswith("_shape")


class _Keep(ast.NodeTransformer):
    """Replaces one sum, found by its position, by one of its operands."""

    def __init__(self, node, side):
        self.place, self.side = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset), side

    def visit_BinOp(self, node):
        if (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) != self.place:
            return self.generic_visit(node)
        kept = getattr(node, self.side)
        return ast.UnaryOp(ast.USub(), kept) if self.side == "right" and isinstance(node.op, ast.Sub) else kept


# ------------------------------------------------------------------------------------------------ inputs


def _simple(op, samples):
    """Return the first sample that consists of float tensors of one shape alone, None if the op is not elementwise."""
    if not op.broadcasts:
        return None
    for sample in samples:
        tensors = sample.tensors()
        alike = all(is_float(t) and t.shape == tensors[0].shape for t in tensors)
        if sample.through is None and tensors[0].ndim and alike:
            return sample
    return None


def _square(op, samples):
    """Yield a sample of square matrices for an elementwise op."""
    sample = _simple(op, samples)
    if sample is not None:
        tensors = sample.tensors()
        if tensors[0].ndim == 2:
            size = min(tensors[0].shape)
            yield sample.map(lambda t: t.detach()[:size, :size].clone().requires_grad_(t.requires_grad))


def _large(op, samples, seed):
    """Yield a sample of 20,000 elements for an elementwise op, if it is not one that takes seconds for a few values."""
    sample = _simple(op, samples)
    if sample is not None:
        make = Maker(f"{op.name} large", seed=seed)

        def enlarge(t):
            if not t.requires_grad:
                return t.detach().new_ones(LARGE)
            low, high = reals(t).min(), reals(t).max()  # the sample's own range: inside the domain, declared or not
            return make(LARGE, low=low, high=high, dtype=t.dtype)

        large = sample.map(enlarge)
        start = time.perf_counter()
        try:
            large.call(op.function)
        except Exception:  # an op may refuse so long an input in any way: then there is no sample
            return
        if time.perf_counter() - start < SLOW:
            yield large


def _extreme(op, samples):
    """Yield the first sample with some elements multiplied to be large, where the domain of the op is not bounded."""
    if not samples or op.domain is not None and None not in op.domain:
        return
    low, high = op.domain or (None, None)
    for leaf in _leaves((samples[0].args, samples[0].kwargs)):

        def enlarge(t, leaf=leaf):
            if t is not leaf or not t.numel():
                return t
            values = reals(t)
            values[:: max(len(values) // 3, 1)] *= 60
            if low is not None or high is not None:
                values = numpy.clip(values, low, high)
            return like(t, values).to(t.dtype).requires_grad_()

        yield Sample.map(samples[0], enlarge)


def _with_formula(op, number: int, function):
    """Return a copy of a record, registered nowhere, one of whose gradient formulas is another function."""
    copy = object.__new__(type(op))  # not copy.copy, which takes a record for what its name stands for
    copy.__dict__.update(op.__dict__)
    copy.formulas = list(op.formulas)
    formula = op.formulas[number]
    copy.formulas[number] = type(formula)(formula.inputs, function)
    copy.reset()
    return copy
