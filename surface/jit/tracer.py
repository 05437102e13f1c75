"""The tracer: what notes the calls of ops while a program runs, as statements of a staged program."""

from __future__ import annotations

import sys
import warnings

import plugrad
from plugrad import Tensor, nest, nn
from plugrad.jit import names
from plugrad.jit.program import renamed
from plugrad.jit.traced import Integer, Traced, TracerWarning, untraced
from plugrad.jit.types import ANY
from plugrad.jit.values import constant_of
from plugrad.nest import leaves
from plugrad.overrides import TorchFunctionMode

__all__ = ["WHOLE", "Tracer"]

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/", "floordiv": "//", "mod": "%", "pow": "**",
          "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>"}  # fmt: skip
_UNARY = {"neg": "-", "pos": "+", "invert": "~", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_OPERATORS = {  # method -> its sign, whether the operands are the other way round, whether it writes
    "invert": ("~", False, False),
    **{f"__{name}__": (sign, False, False) for name, sign in _UNARY.items()},
    **{f"__{how}{name}__": (sign, how == "r", how == "i") for name, sign in _SIGNS.items() for how in ("", "r", "i")},
}
# Layers that are kept whole: what they call has no public name.
WHOLE = (nn.RNNBase, nn.RNNCellBase)
_OF_DATA = (plugrad.tensor, plugrad.as_tensor)


def _refuse_gradients_of_their_own():
    """Refuse an op inside of an autograd.Function, or of an op that a program made: its gradient is another one."""
    frame = sys._getframe(2)
    while frame is not None:
        home = frame.f_globals.get("__name__", "")
        if home == "plugrad.autograd.function" or home == "plugrad.library.definition":
            raise NotImplementedError(
                "a trace notes ops, and can't keep the gradient of an autograd.Function or of an op that the "
                "program made "
                "itself: script the function that calls it, with @torch.jit.ignore at the call"
            )
        frame = frame.f_back


class Tracer(TorchFunctionMode):
    """Notes the calls of ops, with what each result is called."""

    sees_walks = False
    RESULTS = ()  # of which types programs return values beside tensors
    CONSTANTS = ()  # of which types examples may be that stay what they are

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
            if isinstance(module, WHOLE) and steps and "forward" not in module.__dict__:
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
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or "
                    "input, or "
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
        constant = constant_of(value)
        if constant.type == ANY and constant.tree[0] == "const":
            raise NotImplementedError(
                f"an op was called with a {type(value).__name__}, which is no value of a staged program: {value!r:.100}"
            )
        return constant.tree

    def looked_at(self, what) -> None:
        """Be told that a value became one of Python's."""
        warnings.warn(
            f"Converting a tensor to {what} might cause the trace to be incorrect. We can't record the data flow of "
            "Python "
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
        if func in _OF_DATA and not (args and isinstance(args[0], Tensor)):
            return func(*args, **kwargs)  # a constant
        if getattr(func, "__sees_modes__", False):
            with self:
                return func.__wrapped__(*args, **kwargs)
        _refuse_gradients_of_their_own()
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
        writes = "out" in kwargs or own.endswith("_") and not own.endswith("__")
        return self.noted(tree, func(*args, **kwargs), writes)

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

    def noted(self, tree, result, writes=False):
        """Note a call whose result is there; return the result. `writes`: whether it may have written in place."""
        if writes and isinstance(result, Tensor) and id(result) in self.known:
            self.statements.append(["do", 0, tree])
            return result
        result = nest.change(self._own, result)
        if isinstance(result, Tensor):
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

    def _own(self, value):
        """Return a result as a tensor of its own: a call may give back what it was given, and need not always."""
        if not isinstance(value, Tensor) or id(value) not in self.known:
            return value
        with untraced():
            return value.view_as(value)

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
            raise NotImplementedError(
                "a trace calls script modules that are submodules of what is traced, and no others"
            )
        return self.noted(["method", path, name, [self.tree(one) for one in args], {}], result)

    def trees(self) -> dict:
        """Return the trees of the staged functions that were called, by their names here."""
        trees = {}
        for key, program in self.functions.values():
            new = {name: key if name == program.name else f"{key}_{name}" for name in program.trees}
            for name, tree in program.trees.items():
                trees[new[name]] = renamed(tree, new)
        return trees

    def classes(self) -> dict:
        """Return {name: record} of the classes that these functions name."""
        return {name: record for _, program in self.functions.values() for name, record in program.classes.items()}
