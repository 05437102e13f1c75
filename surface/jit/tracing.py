"""`trace`: a program is run once on examples, and the ops that it calls become a staged program."""

from __future__ import annotations

import warnings

import plugrad
from plugrad import Tensor, nest, nn
from plugrad.jit.examples import fresh, inputs_of, shell, state_kept, traced
from plugrad.jit.modules import RecursiveScriptModule, ScriptFunction, TopLevelTracedModule
from plugrad.jit.program import Program, tree_of
from plugrad.jit.traced import TracerWarning
from plugrad.nest import leaves

__all__ = ["trace", "trace_module"]


def trace(
    func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
    _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True,
):  # fmt: skip
    """Return a function or Module staged as the ops that it calls on examples.

    Args:
        func: a function or Module of tensors, or of tuples, lists and dicts of them.
        example_inputs: a tensor, or a tuple of arguments.
        check_trace: whether to run both on the example; a TracerWarning says where the results differ.
        check_inputs: a list of further tuples of arguments on which to compare.
        check_tolerance: the relative difference that does not count.
        strict: refuse results that are lists and dicts, as PyTorch does.
        example_kwarg_inputs: a dict of arguments by name, instead of `example_inputs`.

    What is decided by values, or looped over, is decided as for the example; sizes, and integers that follow from them,
    stay what they are, so that another batch size is right. Script functions and modules that it calls are kept whole.
    Raises RuntimeError for arguments and results that are no tensors. Other arguments have no meaning here.

    >>> import plugrad as torch
    >>> double = torch.jit.trace(lambda x: x.view(x.size(0), -1) * 2, torch.ones(2, 3))
    >>> double(torch.ones(5, 1, 2)).shape
    torch.Size([5, 2])
    """
    if isinstance(func, (ScriptFunction, RecursiveScriptModule)):
        warnings.warn(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.",
            stacklevel=2,
        )
        return func
    if isinstance(func, nn.Module):
        methods = {"forward": (example_inputs, example_kwarg_inputs)}
        return _module(func, methods, check_trace, check_inputs, check_tolerance, strict)
    args, kwargs = _arguments(example_inputs), dict(example_kwarg_inputs or {})
    rows = inputs_of(func, args, kwargs)
    count = len(rows) - len(kwargs)

    def call(given):
        values = list(given.values())
        return func(*values[:count], **dict(zip(list(given)[count:], values[count:])))

    with state_kept(None):
        body, signature, trees, classes, _ = traced(rows, call, None, strict)
    program = Program(_plain_name(func))
    signature.name = program.name
    program.trees = {program.name: tree_of(body, signature, False), **trees}
    program.classes.update(classes)
    program.signatures = {program.name: signature}
    program.make()
    staged = ScriptFunction(program, func)
    if check_trace:
        examples = [(args, kwargs), *[(_arguments(one), {}) for one in check_inputs or ()]]
        _check(func, staged, examples, check_tolerance, None)
    return staged


def trace_module(
    mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
    _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False,
    _store_inputs=True,
):  # fmt: skip
    """Return a staged Module whose methods are each traced on their example.

    See `trace`.

    Args:
        mod: the Module.
        inputs: {name of a method: its example inputs}.
    """
    if not isinstance(mod, nn.Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    methods = {name: (None, one) if example_inputs_is_kwarg else (one, None) for name, one in inputs.items()}
    return _module(mod, methods, check_trace, check_inputs, check_tolerance, strict)


def _plain_name(func):
    name = getattr(func, "__name__", type(func).__name__)
    return name if name.isidentifier() else "traced"


def _arguments(inputs) -> tuple:
    if inputs is None:
        return ()
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _module(mod, methods, check_trace, check_inputs, tolerance, strict):
    staged = shell(mod, {}, TopLevelTracedModule)
    program = staged._staged
    for name, (examples, keywords) in methods.items():
        args, kwargs = _arguments(examples), dict(keywords or {})
        method = mod if name == "forward" else getattr(mod, name)
        rows = inputs_of(mod.forward if name == "forward" else method, args, kwargs)
        count = len(rows) - len(kwargs)

        def call(given, method=method, count=count):
            values = list(given.values())
            return method(*values[:count], **dict(zip(list(given)[count:], values[count:])))

        with state_kept(mod):
            body, signature, trees, classes, _ = traced(rows, call, mod, strict)
        signature.name = name
        program.trees |= {name: tree_of(body, signature, True), **trees}
        program.classes.update(classes)
        program.signatures[name] = signature
    program.make(staged._declares)
    for name, (examples, keywords) in methods.items():
        if check_trace:
            more = check_inputs or () if name == "forward" else ()
            ours = staged if name == "forward" else getattr(staged, name)
            pairs = [(_arguments(examples), dict(keywords or {})), *[(_arguments(one), {}) for one in more]]
            _check(mod if name == "forward" else getattr(mod, name), ours, pairs, tolerance, mod)
    return staged


def _check(original, staged, examples, tolerance, module):
    """Warn where the trace gives other results than the program, on the examples and near the first of them."""

    def run(function, args, kwargs):
        with state_kept(module):
            return function(*fresh(args), **fresh(kwargs))

    for args, kwargs in examples:
        first = run(original, args, kwargs)
        with state_kept(module):
            plugrad.rand(1)  # other random numbers
            again = original(*fresh(args), **fresh(kwargs))
        if not _same(first, again, tolerance):
            warnings.warn(
                "Trace had nondeterministic nodes. Did you forget call .eval() on your model? The program gives other "
                "results when it is called again: it is random, as dropout in training is, or has a state",
                TracerWarning,
                stacklevel=4,
            )
        elif not _same(first, run(staged, args, kwargs), tolerance) or _differs_near(
            run, original, staged, args, kwargs, tolerance
        ):
            warnings.warn(
                "Output of the traced function does not match that of the Python function. The program does something "
                "that a trace can't note: a decision by values, or numbers that were computed outside of ops",
                TracerWarning,
                stacklevel=4,
            )


def _differs_near(run, original, staged, args, kwargs, tolerance) -> bool:
    """Whether the two differ for other values: what a program computed outside of ops became a constant."""
    near = nest.change(_nudged, (args, kwargs))
    try:
        expected = run(original, *near)
    except Exception:  # these values are none that it takes
        return False
    return not _same(expected, run(staged, *near), tolerance)


def _nudged(leaf):
    if not isinstance(leaf, Tensor) or not leaf.is_floating_point():
        return leaf
    return (leaf.detach() * (63 / 64)).requires_grad_(leaf.requires_grad)


def _same(first, second, tolerance) -> bool:
    ones, others = ([x for x in leaves(value) if isinstance(x, Tensor)] for value in (first, second))
    return len(ones) == len(others) and all(
        one.shape == other.shape and plugrad.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        for one, other in zip(ones, others)
    )
