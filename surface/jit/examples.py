"""Running programs on examples, to note what they do."""

from __future__ import annotations

import inspect
import warnings

import plugrad
from plugrad import Tensor
from plugrad.extend.blocks import Restoring
from plugrad.jit.modules import RecursiveScriptModule, empty, stage
from plugrad.jit.program import Program
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.traced import TracerWarning, current, here
from plugrad.jit.tracer import WHOLE, Tracer
from plugrad.jit.types import ANY, BOOL, of_value
from plugrad.nest import leaves
from plugrad.regions import region

__all__ = ["fresh", "inputs_of", "shell", "state_kept", "traced"]


def inputs_of(function, args, kwargs):
    """Return [(name, example)] of the arguments."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError as error:
        raise RuntimeError(f"the example does not fit the program: {error}") from None
    except ValueError:
        return [(f"argument_{i}", one) for i, one in enumerate(args)]
    rows = []
    parameters = inspect.signature(function).parameters
    for name, value in bound.items():
        if parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            rows += [(f"{name}_{i}", one) for i, one in enumerate(value)]
        elif parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
            rows += list(value.items())
        else:
            rows.append((name, value))
    return rows


def traced(rows, call, root, strict, tracer=Tracer) -> tuple:
    """Run a program on its example; return (its body, Signature, trees of functions, their classes, the result)."""
    tracer = tracer(root)
    arguments = []
    for name, example in rows:
        kind = of_value(example) or ANY
        if any(not isinstance(leaf, (Tensor, *tracer.CONSTANTS)) for leaf in leaves(example)):
            raise RuntimeError(
                f"Type '{type(example).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, "
                "Dicts, and "
                f"Tuples of Tensors can be traced: argument {name!r}"
            )
        arguments.append(Argument(name, kind))
    before, here.tracer = current(), tracer
    given = {name: fresh(example) for name, example in rows}
    try:
        for name, example in given.items():
            tracer._parts(example, ["name", name])
        with region(tracing=True), tracer:
            result = call(given)
        output = _output(tracer, result, strict)
    finally:
        here.tracer = before
        tracer.leave()
    tracer.statements.append(["return", 0, output])
    kind = of_value(result) or ANY
    return tracer.statements, Signature("forward", arguments, kind), tracer.trees(), tracer.classes(), result


def fresh(example):
    """Return an example with new tensors in it, so that the user's keep their class and their values."""
    if isinstance(example, Tensor):
        return example.detach().clone().requires_grad_(example.requires_grad)
    if isinstance(example, dict):
        return {key: fresh(one) for key, one in example.items()}
    if not isinstance(example, (tuple, list)):
        return example
    items = [fresh(one) for one in example]
    return type(example)(*items) if hasattr(example, "_fields") else type(example)(items)


def _output(tracer, result, strict):
    if isinstance(result, list) and strict:
        warnings.warn(
            "Encountering a list at the output of the tracer might cause the trace to be incorrect: its length is "
            "that of the "
            "example", TracerWarning, stacklevel=5,
        )  # fmt: skip
    if isinstance(result, dict) and strict:
        raise RuntimeError(
            f"Encountering a {type(result).__name__} at the output of the tracer might cause the trace to be "
            "incorrect, this "
            "is only valid if the container structure does not change based on the module's inputs. Consider using "
            "a constant "
            "container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If "
            "you "
            "absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior."
        )
    if any(not isinstance(leaf, (Tensor, *tracer.RESULTS)) for leaf in leaves(result)):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        )
    return tracer.tree(result)


def shell(module, memo, cls=RecursiveScriptModule):
    """Return a script module with the tensors and submodules of a Module, and no methods; staged ones stay."""
    if isinstance(module, RecursiveScriptModule):
        return module
    if isinstance(module, WHOLE) and memo:
        return stage(module).script
    staged = memo.get(id(module))
    if staged is None:
        staged = memo[id(module)] = empty(cls, module)
        program = staged.__dict__["_staged"] = Program(type(module).__name__)
        program.attributes["training"] = BOOL
        for name, child in module._modules.items():
            staged._modules[name] = None if child is None else shell(child, memo)
    return staged


class state_kept(Restoring):
    """While a program is run to see what it does, its tensors' values and the random numbers stay as they were."""

    def __init__(self, module):
        self.module = module

    def begin(self):
        self.random = plugrad.random.fork_rng(devices=[])
        self.random.__enter__()
        tensors = [*self.module.parameters(), *self.module.buffers()] if self.module is not None else []
        self.tensors = [(one, one.detach().clone()) for one in tensors]

    def end(self):
        with plugrad.no_grad():
            for one, before in self.tensors:
                if not one.equal(before):
                    one.copy_(before)
        self.random.__exit__(None, None, None)
