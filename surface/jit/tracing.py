"""`trace`: a program is run once on examples, and the ops that it calls become a staged program."""

from __future__ import annotations

import inspect
import warnings

import plugrad
from plugrad import Tensor, nn
from plugrad.jit import names
from plugrad.jit.modules import RecursiveScriptModule, ScriptFunction, TopLevelTracedModule, empty, stage
from plugrad.jit.program import Program, renamed, tree_of
from plugrad.jit.signatures import Argument, Signature
from plugrad.jit.traced import Integer, Traced, TracerWarning, current, here, untraced
from plugrad.jit.types import ANY, BOOL, of_value
from plugrad.jit.values import constant_of
from plugrad.nest import leaves
from plugrad.overrides import TorchFunctionMode
from plugrad.regions import region

__all__ = ["Tracer", "inputs_of", "shell", "state_kept", "trace", "trace_module", "traced"]


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/", "floordiv": "//", "mod": "%", "pow": "**", "matmul": "@",
          "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}  # fmt: skip
_OPERATORS = {  # method -> its sign, whether the operands are the other way round, whether it writes
    **{f"__{letter}{name}__": (sign, letter == "r", letter == "i") for name, sign in _SIGNS.items() for letter in ("", "r", "i")},
    "invert": ("~", False, False),
    **{f"__{name}__": (sign, False, False) for name, sign in
       {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "neg": "-", "pos": "+", "invert": "~"}.items()},
}  # fmt: skip
# Layers that are kept whole: what they call has no public name.
_WHOLE = (nn.RNNBase, nn.RNNCellBase)


class Tracer(TorchFunctionMode):
    """Notes the calls of ops, with what each result is called."""

    def __init__(self, root=None):
        super().__init__()
        self.statements: list = []
        self.known: dict = {}  # id of a tensor -> its tree
        self.alive: list = []  # the tensors that ids belong to
        self.changed: list = []  # tensors that are Traced for the time of the trace
        self.functions: dict = {}  # staged functions that were called
        self.paths: dict = {}
        self.whole: list = []  # layers whose calls are noted as such
        self.count = 0
        for path, module in root.named_modules(remove_duplicate=False) if root is not None else ():
            steps = path.split(".") if path else []
            self.paths.setdefault(id(module), steps)
            if isinstance(module, _WHOLE) and steps and "forward" not in module.__dict__:
                self._keep_whole(module)
            for kind, table in (("param", module._parameters), ("buffer", module._buffers)):
                for name, tensor in table.items():
                    if tensor is not None:
                        self.known.setdefault(id(tensor), [kind, steps, name])
                        self.alive.append(tensor)

    # ---- tensors

    def enter(self, tensor, tree) -> None:
        """Let a tensor be known under a tree."""
        self.known[id(tensor)] = tree
        self.alive.append(tensor)
        if type(tensor) is Tensor:
            tensor.__class__ = Traced
            self.changed.append(tensor)

    def leave(self) -> None:
        """Make all tensors and layers plain ones again."""
        for tensor in self.changed:
            tensor.__class__ = Tensor
        for layer in self.whole:
            del layer.__dict__["forward"]

    def _keep_whole(self, layer):
        """Have the calls of a layer noted as such."""
        forward = layer.forward

        def call(*args, **kwargs):
            with untraced():
                result = forward(*args, **kwargs)
            trees = [self.tree(one) for one in args], {name: self.tree(one) for name, one in kwargs.items()}
            return self.noted(["method", self.paths[id(layer)], "forward", *trees], result)

        layer.__dict__["forward"] = call
        self.whole.append(layer)

    def size(self, tensor, axis, value):
        """Return a size of a tensor as the integer that it is."""
        if id(tensor) not in self.known:
            return value
        return Integer(value, ["call", "Tensor.size", [self.known[id(tensor)], ["const", axis]], {}])

    def number(self, tensor, value):
        """Return the number of elements of a tensor."""
        return Integer(value, ["call", "Tensor.numel", [self.tree(tensor)], {}])

    def tree(self, value):
        """Return an argument of a call as a tree."""
        if isinstance(value, Tensor):
            known = self.known.get(id(value))
            if known is not None:
                return known
            if value.requires_grad:
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, or "
                    f"detaching the gradient\nTensor:\n{value!r:.300}"
                )
            return ["const", value]
        if isinstance(value, Integer):
            return value.tree
        if isinstance(value, (tuple, list)):
            return ["list" if isinstance(value, list) else "tuple", [self.tree(one) for one in value]]
        if isinstance(value, slice):
            return ["slice", *[self.tree(one) for one in (value.start, value.stop, value.step)]]
        if isinstance(value, dict):
            return ["dict", [[self.tree(k), self.tree(v)] for k, v in value.items()]]
        if value is Ellipsis:
            return ["ellipsis"]
        found = constant_of(value)
        if found.type == ANY and found.tree[0] == "const":
            raise NotImplementedError(
                f"an op was called with a {type(value).__name__}, which is no value of a staged program: {value!r:.100}"
            )
        return found.tree

    def looked_at(self, what) -> None:
        """Be told that a value became one of Python's."""
        warnings.warn(
            f"Converting a tensor to {what} might cause the trace to be incorrect. We can't record the data flow of Python "
            "values, so this value will be treated as a constant in the future. This means that the trace might not "
            "generalize to other inputs!",
            TracerWarning,
            stacklevel=4,
        )

    # ---- calls

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return self.call(func, args, kwargs or {})

    def call(self, func, args, kwargs, name=None):
        """Carry a call out and note it."""
        own = getattr(func, "__name__", "")
        op = getattr(func, "__op__", None)
        if own == "__setitem__":
            target, where, value = args
            statement = ["=", 0, ["index", self.tree(target), self.tree(where)], self.tree(value)]
            self.statements.append(statement)
            return func(*args, **kwargs)
        if own in _OPERATORS:
            return self._operator(own, func, args)
        if name is None:
            name = names.name_of(func) or self._named(own, op)
        if name is None and op is not None and op.name in ("getitem", "basic_index"):
            tree = ["index", self.tree(args[0]), self.tree(args[1])]
        elif name is None:
            raise NotImplementedError(f"{own or func!r} can't be noted in a trace: no program can call it by its name")
        else:
            plain = {key: one for key, one in kwargs.items() if key != "generator" or one is not None}
            tree = ["call", name, [self.tree(one) for one in args], {key: self.tree(one) for key, one in plain.items()}]
        result = func(*args, **kwargs)
        return self.noted(tree, result)

    def _operator(self, own, func, args):
        """Carry out and note a method of Python's operators."""
        sign, reflected, in_place = _OPERATORS[own]
        trees = [self.tree(one) for one in args]
        result = func(*args)
        if in_place and result is args[0]:
            self.statements.append(["aug", 0, trees[0], sign, trees[1]])
            return result
        if len(trees) == 1:
            return self.noted(["unary", sign, *trees], result)
        kind = "compare" if sign in ("==", "!=", "<", "<=", ">", ">=") else "binary"
        return self.noted([kind, sign, *(trees[::-1] if reflected else trees)], result)

    @staticmethod
    def _named(own, op):
        for name in (f"Tensor.{own}", f"torch.{own}"):
            try:
                names.function(name)
            except LookupError:
                continue
            return name
        return None

    def noted(self, tree, result):
        """Note a call whose result is there; return the result."""
        if isinstance(result, Tensor):
            known = self.known.get(id(result))
            if known is not None:  # written in place
                self.statements.append(["do", 0, tree])
                return result
            self.statements.append(["=", 0, self._new(result), tree])
        elif isinstance(result, (tuple, list)) and result and all(isinstance(one, Tensor) for one in result):
            self.statements.append(["=", 0, ["tuple", [self._new(one) for one in result]], tree])
        elif result is None:
            self.statements.append(["do", 0, tree])
        elif any(isinstance(one, Tensor) for one in leaves(result)):
            name = self._name()
            self.statements.append(["=", 0, name, tree])
            self._parts(result, name)
        return result

    def _parts(self, value, tree):
        if isinstance(value, Tensor):
            self.enter(value, tree)
        elif isinstance(value, dict):
            for key, one in value.items():
                self._parts(one, ["index", tree, ["const", key]])
        elif isinstance(value, (tuple, list)):
            for i, one in enumerate(value):
                self._parts(one, ["index", tree, ["const", i]])

    def _name(self):
        self.count += 1
        return ["name", f"_{self.count}"]

    def _new(self, tensor):
        name = self._name()
        self.enter(tensor, name)
        return name

    # ---- staged programs that the program calls: their control flow stays

    def staged_function(self, program, args, result):
        """Note the call of a script function."""
        key = self.functions.get(id(program))
        if key is None:
            key = self.functions[id(program)] = (f"{program.name}_{len(self.functions)}", program)
        tree = ["function", key[0], [self.tree(one) for one in args], {}]
        return self.noted(tree, result)

    def staged_method(self, module, name, args, result):
        """Note the call of a method of a script module."""
        path = self.paths.get(id(module))
        if path is None:
            raise NotImplementedError("a trace calls script modules that are submodules of what is traced, and no others")
        return self.noted(["method", path, name, [self.tree(one) for one in args], {}], result)

    def trees(self) -> dict:
        """Return the trees of the staged functions that were called, by their names here."""
        found = {}
        for key, program in self.functions.values():
            new = {name: key if name == program.name else f"{key}_{name}" for name in program.trees}
            for name, tree in program.trees.items():
                found[new[name]] = renamed(tree, new)
        return found


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
    """Run a program on its example; return (its body, Signature, trees of functions, the result)."""
    tracer = tracer(root)
    arguments = []
    for name, example in rows:
        kind = of_value(example)
        if kind is None or any(not isinstance(leaf, Tensor) for leaf in leaves(example)):
            raise RuntimeError(
                f"Type '{type(example).__name__}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and "
                f"Tuples of Tensors can be traced: argument {name!r}"
            )
        arguments.append(Argument(name, kind))
    before, here.tracer = current(), tracer
    given = {name: _fresh(example) for name, example in rows}
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
    return tracer.statements, Signature("forward", arguments, kind), tracer.trees(), result


def _fresh(example):
    """Return an example with new tensors in it, so that the user's keep their class and their values."""
    if isinstance(example, Tensor):
        return example.detach().clone().requires_grad_(example.requires_grad)
    if isinstance(example, dict):
        return {key: _fresh(one) for key, one in example.items()}
    if not isinstance(example, (tuple, list)):
        return example
    return type(example)([_fresh(one) for one in example])


def _output(tracer, result, strict):
    if isinstance(result, list) and strict:
        warnings.warn(
            "Encountering a list at the output of the tracer might cause the trace to be incorrect: its length is that of the "
            "example", TracerWarning, stacklevel=5,
        )  # fmt: skip
    if isinstance(result, dict) and strict:
        raise RuntimeError(
            f"Encountering a {type(result).__name__} at the output of the tracer might cause the trace to be incorrect, this "
            "is only valid if the container structure does not change based on the module's inputs. Consider using a constant "
            "container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you "
            "absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior."
        )
    if any(not isinstance(leaf, Tensor) for leaf in leaves(result)):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions"
        )
    return tracer.tree(result)


def trace(
    func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
    _force_outplace=False, _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True,
):  # fmt: skip
    """Return the staged form of a function or Module: the ops that it calls on examples, in order.

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
        warnings.warn("The input to trace is already a ScriptModule, tracing it is a no-op. Returning the object as is.", stacklevel=2)
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
        body, signature, trees, _ = traced(rows, call, None, strict)
    program = Program(_plain_name(func))
    signature.name = program.name
    program.trees = {program.name: tree_of(body, signature, False), **trees}
    program.signatures = {program.name: signature}
    program.make()
    made = ScriptFunction(program, func)
    if check_trace:
        _check(func, made, [(args, kwargs), *[(_arguments(one), {}) for one in check_inputs or ()]], check_tolerance, None)
    return made


def trace_module(
    mod, inputs, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True,
    _force_outplace=False, _module_class=None, _compilation_unit=None, example_inputs_is_kwarg=False, _store_inputs=True,
):  # fmt: skip
    """Return the staged form of a Module with several methods, each traced on its example; see `trace`.

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
    made = shell(mod, {}, TopLevelTracedModule)
    program = made._staged
    for name, (examples, keywords) in methods.items():
        args, kwargs = _arguments(examples), dict(keywords or {})
        method = mod if name == "forward" else getattr(mod, name)
        rows = inputs_of(mod.forward if name == "forward" else method, args, kwargs)
        count = len(rows) - len(kwargs)

        def call(given, method=method, count=count):
            values = list(given.values())
            return method(*values[:count], **dict(zip(list(given)[count:], values[count:])))

        with state_kept(mod):
            body, signature, trees, _ = traced(rows, call, mod, strict)
        signature.name = name
        program.trees |= {name: tree_of(body, signature, True), **trees}
        program.signatures[name] = signature
    program.make(made._declares)
    for name, (examples, keywords) in methods.items():
        if check_trace:
            more = check_inputs or () if name == "forward" else ()
            ours = made if name == "forward" else getattr(made, name)
            pairs = [(_arguments(examples), dict(keywords or {})), *[(_arguments(one), {}) for one in more]]
            _check(mod if name == "forward" else getattr(mod, name), ours, pairs, tolerance, mod)
    return made


def shell(module, memo, cls=RecursiveScriptModule):
    """Return a script module with the tensors and submodules of a Module, and no methods; those that are staged stay."""
    if isinstance(module, RecursiveScriptModule):
        return module
    if isinstance(module, _WHOLE) and memo:
        return stage(module).script
    made = memo.get(id(module))
    if made is None:
        made = memo[id(module)] = empty(cls, module)
        program = made.__dict__["_staged"] = Program(type(module).__name__)
        program.attributes["training"] = BOOL
        for name, child in module._modules.items():
            made._modules[name] = None if child is None else shell(child, memo)
    return made


class state_kept:
    """While a program is run to see what it does, its tensors' values and the random numbers stay as they were."""

    def __init__(self, module):
        self.module = module

    def __enter__(self):
        self.random = plugrad.random.fork_rng(devices=[])
        self.random.__enter__()
        tensors = [*self.module.parameters(), *self.module.buffers()] if self.module is not None else []
        self.tensors = [(one, one.detach().clone()) for one in tensors]

    def __exit__(self, *error):
        with plugrad.no_grad():
            for one, before in self.tensors:
                if not one.equal(before):
                    one.copy_(before)
        return self.random.__exit__(*error)


def _check(original, made, examples, tolerance, module):
    """Warn where the trace gives other results than the program."""
    for args, kwargs in examples:
        with plugrad.no_grad():
            with state_kept(module):
                first = original(*_fresh(args), **_fresh(kwargs))
            with state_kept(module):
                second = original(*_fresh(args), **_fresh(kwargs)) if not _same(first, first, tolerance) else first
                ours = made(*_fresh(args), **_fresh(kwargs))
            with state_kept(module):
                plugrad.rand(1)  # other random numbers
                again = original(*_fresh(args), **_fresh(kwargs))
        if not _same(first, again, tolerance):
            warnings.warn(
                "Trace had nondeterministic nodes. Did you forget call .eval() on your model? The program gives other results "
                "when it is called again: it is random, as dropout in training is, or has a state",
                TracerWarning,
                stacklevel=4,
            )
        elif not _same(second, ours, tolerance):
            warnings.warn(
                "Output of the traced function does not match that of the Python function. The program does something that a "
                "trace can't note: a decision by values, or numbers that were computed outside of ops",
                TracerWarning,
                stacklevel=4,
            )


def _same(first, second, tolerance) -> bool:
    ones, others = ([x for x in leaves(value) if isinstance(x, Tensor)] for value in (first, second))
    return len(ones) == len(others) and all(
        one.shape == other.shape and plugrad.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
        for one, other in zip(ones, others)
    )


