"""The op record: one declaration, from which the function, the method, the node and the rules are derived.

An op is declared by decorating its kernel (see `families`). How its calls go is its plan (`plan.CallPlan`); its
functions are generated from that at their first use.
"""

from __future__ import annotations

import functools

from plugrad import registry
from plugrad.devices import dtypes
from plugrad.dispatch import arguments, functions, inplace, interpreter, source
from plugrad.dispatch.formulas import forget_ops, output_number
from plugrad.dispatch.node import node_class
from plugrad.dispatch.plan import CallPlan
from plugrad.graph import rare
from plugrad.needs import REFLECTED


class Formula:
    """A gradient formula: the inputs it serves, and the names that it wants from the forward call."""

    __slots__ = ("inputs", "function", "wants", "asks", "kernels")

    def __init__(self, inputs: tuple, function, kind="vjp"):
        code = getattr(function, "__code__", (lambda: None).__code__)
        names = code.co_varnames[: code.co_argcount]
        given = 2 if kind == "vjp" else 1 + len(inputs)
        if len(names) < given or code.co_kwonlyargcount or code.co_flags & 0x0C:
            what = f"it takes ({', '.join(names)})" if len(names) < given else "without * in its signature"
            asked = "g" if kind == "vjp" else "".join(f"tangent of {name}, " for name in inputs)[:-2]
            raise TypeError(f"formula {getattr(function, '__name__', function)} must take (F, {asked}, ...), {what}")
        self.inputs, self.function, self.asks = inputs, function, names[given:]
        self.wants = tuple(name for name in self.asks if name != "needs")
        self.kernels: dict = {}  # by backend


def _served(op, ttype, function=False) -> bool:
    """Whether the fast paths of an op, or those that only call an array function, may serve a tensor type."""
    own = function and ttype.backend.name in op.kernels
    return not own and (ttype.plain is ttype or ttype.is_open and op.keeps_order)


class FastKernels(dict):
    """The kernel of an op for each tensor type that its fast path serves; None sends others to the interpreter."""

    __slots__ = ("op", "plan")

    def __init__(self, op, plan=None):
        self.op, self.plan = op, plan  # a plan that is no more than an array function may take integers, too

    def __missing__(self, ttype):
        op, direct = self.op, self.plan is not None
        kernel = op.fast_kernel(ttype) if _served(op, ttype, direct) else None
        if direct and kernel is None and ttype.backend.name not in op.kernels and self.plan.takes_others(ttype):
            kernel = op.kernel_for(ttype.backend.name)
        self[ttype] = kernel = getattr(kernel, "direct", kernel)  # in C
        return kernel


class FastWrites(FastKernels):
    """What an in-place form's fast path calls: what writes over the first operand, or the kernel; None: nothing."""

    __slots__ = ()

    def __missing__(self, ttype):
        op, direct = self.op, self.plan.direct
        write = op.fast_kernel(ttype)
        if direct is not None and (write is not None or self.plan.takes_others(ttype)):
            over, function = getattr(ttype.functions, "over", None), getattr(ttype.xp, direct)
            write = over(direct) if over else lambda *operands: function(*operands, out=operands[0])
        served = not ttype.symbolic and _served(op, ttype, direct is not None)
        self[ttype] = write = (write if direct else op.write_function or write) if served else None
        return write


class Op:
    """One op: kernels, gradient formulas, shape rule, samples, and where it is public.

    Made by the decorators of `plugrad.extend`. Attributes to read: `name`, `names` (public dotted names), `family`,
    `parameters`, `differentiable`, `doc`, `ref`, `function` (the public callable), `inplace`, `promote`, `domain`.
    """

    family = "op"
    broadcasts = False
    gathers: dict = {}  # what may be on another device than the first argument: see plugrad.backends.gathering
    default_inplace = False
    has_out = False
    arity = 0  # how many operands an op of the family has, if that is fixed
    checks_numbers = False  # whether Python numbers are refused in some places when the op is called by name
    result_type = "kernel"  # see CallPlan.result
    returns_several = True  # whether kernels may return tuples
    ordered_by = ()  # the operands whose order in memory that of the result follows, as PyTorch finds it
    is_view = False
    reduces = keeps_given = False
    keeps_order = False  # whether the order of an input's elements in memory may be any, and is that of the result
    runs_on = "arrays"  # what kernels are given: arrays, tensors, or nothing

    def __init__(
        self,
        function,
        *,
        name=None,
        at=None,
        aliases=(),
        ref=None,
        inplace=None,
        node=None,
        complex=None,
        eight_bits=False,
        domain=None,
        promote=None,
        vjp=source.MISSING,
        returns=None,
        like=None,
        variadic=None,
        sequence=False,
        override=False,
        kinds=None,
        once=False,
        any_order=False,
        autocast=None,
        older=(),
    ):
        code = getattr(function, "__code__", None)
        if code is None or code.co_flags & 0x0C or code.co_argcount < 2 and self.runs_on != "nothing":
            raise TypeError(_not_a_kernel(function, code))
        self.name = name or function.__name__.rstrip("_")
        self.doc = function.__doc__ or ""
        self.kernels = {"*": function}
        positional = code.co_varnames[1 : code.co_argcount]
        self.keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        self.parameters = positional + self.keyword_only
        self.index = {parameter: i for i, parameter in enumerate(self.parameters)}
        self.defaults = dict(zip(positional[::-1], (function.__defaults__ or ())[::-1]))
        self.defaults.update(function.__kwdefaults__ or {})
        self.positional = positional
        bare = (self.name, f"Tensor.{self.name}") if at is None else tuple(at)
        more = [name for alias in aliases for name in ([alias] if "." in alias else [alias, f"Tensor.{alias}"])]
        self.names = tuple(dict.fromkeys((*bare, *more)))
        self.ref, self.domain, self.promote = ref, domain, promote
        # None: values yes, gradients no, since nobody has said that the formula holds there. Ours hold, by tests.
        self.complex = True if complex is None and (self.is_view or self.runs_on != "arrays") else complex
        self.eight_bits = eight_bits or self.is_view or self.runs_on == "tensors"  # whether it takes such floats
        self.inplace = self.default_inplace if inplace is None else inplace
        own_name = "".join([part[:1].upper() + part[1:] for part in self.name.split("_")]) + "Backward0"
        self.node_name = node if isinstance(node, str) else own_name
        # PyTorch names some nodes after the arguments: by a function of these, or {another name: the condition for it}.
        self.node_names = node if isinstance(node, dict) else {}
        self.name_node = node if callable(node) else self._chosen_name() if self.node_names else None
        self.undifferentiable = vjp is None
        if vjp is not None and vjp is not source.MISSING:
            raise TypeError(f"op {self.name!r}: vjp= can only be None (no gradient); declare one by @{self.name}.vjp")
        self._fields = returns
        self.variadic = variadic
        self.sequence = sequence  # whether the first parameter is a list of tensors
        if not self.has_out:
            self.has_out = self.may_have_out()
        self.override, self.once = override, once  # once: its gradient can't be differentiated again
        self.kinds = kinds or {}  # of parameters whose kind neither default nor name tells: {"n": "int"}
        self.autocast = autocast  # one of _AUTOCAST, a dtype, or f(*values) -> one; or these by device
        self.older = older  # keyword-only numbers that may stand before what they scale, too: add(x, alpha, y)
        self.any_order = any_order  # whether results count as row-major in whichever order their elements are
        self.keeps_order = self.keeps_order or any_order
        self.formulas: list[Formula] = []
        self.jvps: list[Formula] = []
        self.batched = None  # the rule for batches
        self.onnx_form = self.write_function = None
        self.meta_function = None if like is None else _rule_like(self, like)
        self.sample_function = self.error_function = self.provider = None
        self.qualname = self.name  # "namespace.name" for a third party's op
        self.trusted = False  # our own ops: their gradients' shapes are proved by tests, not checked at every call
        self.module = function.__module__ or ""  # code that is run without a module has none
        self.record = self  # what is registered, if this is a twin: see `called`
        self.reset()

    def reset(self) -> None:
        """Forget what was derived from the record."""
        self._function = self._in_place = None
        self._nodes: dict = {}
        self.fast, self.writable = FastKernels(self), FastWrites(self)
        for derived in ("known_kinds", "guards", "called", "plan", "bind"):
            self.__dict__.pop(derived, None)

    # ------------------------------------------------------------------------------------------ declaration

    def vjp(self, *names):
        """Declare a gradient formula: of the first parameter, or of the inputs named."""
        return self._formula(names, "vjp", self.formulas)

    def jvp(self, *names):
        """Declare how tangents go forward: of the first parameter, or of the inputs named.

        The function takes F, the tangent of each of these inputs (None where there is none), and what it wants from the
        call, as formulas of gradients do. It returns the tangent of the result, or a tuple for several results. What is
        declared for different inputs is added. Without it the tangent follows from the gradient formulas.
        """
        return self._formula(names, "jvp", self.jvps)

    def vmap(self, function):
        """Declare the op on batches: `f(F, info, in_dims, ...)`.

        It returns (result, out_dims), or NotImplemented for what it does not serve. `info` has the `batch_size`,
        `in_dims` the dimension of each argument along which it is sliced, or None.
        """
        self.batched = function
        return function

    def onnx(self, function):
        """Declare the op's form in ONNX: `f(g, ...)` takes a graph and its arguments.

        It adds nodes by `g.op`, see `plugrad.onnx.Graph`, and returns their results.
        """
        self.onnx_form = function
        return function

    def _formula(self, names, kind: str, declared: list):
        if len(names) == 1 and callable(names[0]):
            return self._formula((self.parameters[0],), kind, declared)(names[0])
        if not names:
            raise TypeError(f"@{self.name}.{kind}() names no input: write @{self.name}.{kind}({self.parameters[0]!r})")
        for name in names:
            if name not in self.index:
                raise TypeError(f"op {self.name!r} has no parameter {name!r}; it has {', '.join(self.parameters)}")
            if any(name in formula.inputs for formula in declared):
                what = "gradient formula" if kind == "vjp" else "jvp"
                raise TypeError(f"op {self.name!r} has a {what} for {name!r} already")

        def declare(function):
            formula = Formula(names, function, kind)
            for want in formula.wants:
                if want == "y" and want in self.index:
                    raise TypeError(
                        f"formula {function.__name__} of op {self.name!r} asks for 'y', which is the output, and its "
                        "parameter 'y': give the parameter another name"
                    )
                base = want.removesuffix("_shape").removesuffix("_dtype")
                if output_number(want) is None and want not in self.index and base not in self.index:
                    raise TypeError(
                        f"formula {function.__name__} of op {self.name!r} asks for {want!r}: write `y` (the output, "
                        f"`y1`: one of several), `needs`, or a parameter: {', '.join(self.parameters)} (also with "
                        "_shape or _dtype)"
                    )
            declared.append(formula)
            self.reset()
            return function

        return declare

    def kernel(self, backend: str):
        """Declare a kernel for one backend: `@op.kernel("cuda")`; None is for none."""

        def declare(function):
            if function is not None:
                self.kernels[backend] = function
            return function

        return declare

    def vjp_kernel(self, backend: str, *names):
        """Declare a kernel for the gradient formula of inputs, by default the first.

        It takes `xp` in the place of `F`, else what the formula takes, and returns what that returns, or NotImplemented
        for what it does not serve. Where the walk backward is recorded, the formula itself is carried out.
        """
        inputs = names or (self.parameters[0],)

        def declare(function):
            rule = next((formula for formula in self.formulas if formula.inputs == inputs), None)
            if rule is None:
                raise TypeError(f"op {self.name!r} has no gradient formula for {', '.join(inputs)}: declare that first")
            if function is not None:
                rule.kernels[backend] = function
                self.reset()
            return function

        return declare

    def meta(self, function):
        """Declare the shape rule: it returns (shape, NumPy dtype), or several such pairs.

        A third item is a list of arrays whose order of dimensions in memory the result has, as NumPy's ufuncs do it.
        """
        self.meta_function = function
        return function

    def writer(self, function):
        """Declare how to write the result into the first argument, `f(xp, out, ...)`.

        It serves where nothing is recorded and all tensors have one type. Without it, or where it writes nothing and
        returns NotImplemented, an in-place call copies the result of the kernel."""
        self.write_function = function
        return function

    def samples(self, function):
        """Declare sample inputs: a generator function of `make`."""
        self.sample_function = function
        return function

    def errors(self, function):
        """Declare wrong inputs: `f(make)` yields (exception class, pattern, arguments)."""
        self.error_function = function
        return function

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def differentiable(self) -> bool:
        """Whether any input has a gradient formula."""
        return bool(self.formulas)

    @property
    def inputs(self) -> tuple:
        """Names of the inputs that have gradient formulas, in the order of the signature."""
        served = {name for formula in self.formulas for name in formula.inputs}
        return tuple(name for name in self.parameters if name in served)

    @functools.cached_property
    def returns(self):
        """The named tuple class of the results, made at first use; None if there is one."""
        return None if self._fields is None else rare.result_tuple(self.name, self._fields)

    @functools.cached_property
    def known_kinds(self) -> dict:
        """The kind of each parameter of which one is known: int, flag, size, dtype..."""
        return arguments.kinds_of(self)

    @functools.cached_property
    def guards(self) -> tuple:
        """(position, types, whether ints are meant) of parameters of a known kind: such types pass without a look."""
        return tuple([(self.index[name], kind.types, "ints" in kind.words) for name, kind in self.known_kinds.items()])

    def wrong(self, values, error=None):
        """Return the error for the first wrong argument, or for one that NumPy raised."""
        return arguments.wrong(self, values, error)

    @property
    def scope(self) -> str | None:
        """Whose names its code finds in `F`, beside plugrad's: its distribution's."""
        return None if self.trusted else registry.scope_of(self)

    def __call__(self, /, *args, **kwargs):
        """Call the op itself, whoever has its public names: `record(x)`."""
        return self.function(*args, **kwargs)

    @functools.cached_property
    def plan(self) -> CallPlan:
        """How calls of the op go."""
        return CallPlan(self)

    @property  # not cached by functools: its lock would be held while what the function needs is imported
    def function(self):
        """The public function, generated at first use."""
        if self._function is None:
            self._function = functions.function(self)
        return self._function

    @functools.cached_property
    def called(self):
        """The record called by name: a twin if that takes a tuple, and the method ints."""
        homes = {name.startswith("Tensor.") for name in self.names}
        if not (self.trusted and self.variadic in self.positional[1:] and len(homes) > 1):
            return self
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), variadic=None)
        twin.reset()
        return twin

    @property
    def in_place(self):
        """The in-place form, a method of Tensor, generated at first use."""
        if self._in_place is None:
            self._in_place = functions.in_place(self)
        return self._in_place

    def operator(self, reflected: bool):
        """Return the method of Python's operator, with operands exchanged if `reflected`."""
        two = len(self.parameters) > 1 and (self.broadcasts or self.name in REFLECTED.values())
        return functions.operator(self, reflected) if two else self.function

    def run_in_place(self, target, values, inside=False):
        """Run the op, write its result into `target`; `inside` as in `interpreter.apply`."""
        if self.inplace == "shape":
            return rare.change_shape(self, target, values)
        if self.inplace == "items":
            return inplace.assign(self, target, values)
        return inplace.run(self, target, values, inside)

    def call(self, values: tuple):
        """Call the public function with the arguments in the order of `parameters`."""
        n, named = len(self.positional), self.keyword_only
        return self.function(*values[:n], **dict(zip(named, values[n:]))) if named else self.function(*values)

    def apply(self, values: tuple):
        """Run the op on the arguments in the order of `parameters`, whatever they are."""
        return interpreter.apply(self, values)

    def reflected_operator(self, values):
        """Return the method that an operator such as `1 - x` calls; None for functions."""
        return None

    @functools.cached_property
    def bind(self):
        """A function with the op's signature that returns the arguments as one tuple, in the order of `parameters`."""
        return functions.binder(self)

    def changed(self) -> None:
        """Forget what was generated from the record, after its kernels changed."""
        self.reset()
        forget_ops()

    def kernel_for(self, backend: str):
        """Return the kernel that runs on a backend."""
        return self.kernels.get(backend) or self.kernels["*"]

    def has_kernel(self, backend: str) -> bool:
        """Whether there is a kernel for a backend, and not only the one for all."""
        return (registry.backends[backend].stands_for or backend) in self.kernels

    def raw(self, ops):
        """Return the op on raw arrays, as formulas call it."""
        kernel = self.kernel_for(ops._name)
        return functools.partial(getattr(kernel, "direct", kernel), ops._xp)

    def __repr__(self):
        return f"<Op {self.qualname} ({self.family})>"

    def __reduce__(self):
        if registry.ops.get(self.qualname) is not self:
            raise TypeError(f"{self!r} can't be pickled: it is not registered")
        return registry.op, (self.qualname,)

    def __deepcopy__(self, memo):
        return self

    def _check_record(self) -> None:
        rare.check_op(self)

    # ------------------------------------------------------------------------------------------ hooks of families

    def role(self, name) -> str:
        """Return how a parameter is taken: one of `plan.ROLES`."""
        if name == self.parameters[0]:
            return "leads" if self.sequence else "lead"
        return "input" if name in self.inputs else "value"

    def may_have_out(self) -> bool:
        """Whether the function takes `out=`: PyTorch's do, unless in nn.functional."""
        return "out" not in self.index and any(not name.startswith(("Tensor.", "nn.")) for name in self.names)

    def fast_kernel(self, ttype):
        """Return the kernel if the fast path serves tensors of this type, else None.

        Complex numbers and bfloat16 (kind V), which Python numbers widen to float32 in formulas, need `autograd.fit`.
        """
        plain = dtypes.is_native(ttype.np) and not dtypes.is_complex(ttype.np) and not ttype.symbolic
        return self.kernel_for(ttype.backend.name) if plain else None

    def prepare(self, values, raw, ttype):
        """Promote raw arguments in place; return the NumPy dtype of the result or None."""
        return None

    def compute(self, ttype, raw):
        """Run the kernel on raw arguments; families add what their kernels share."""
        return self.run_kernel(ttype, raw)

    def run_kernel(self, ttype, raw):
        """Run the kernel on raw arguments, and nothing else."""
        kernel = self.kernels.get(ttype.backend.name) or self.kernels["*"]
        n = len(self.positional)
        if self.keyword_only:
            return kernel(ttype.xp, *raw[:n], **dict(zip(self.keyword_only, raw[n:])))
        return kernel(ttype.xp, *raw)

    def explain(self, error, raw):
        """Return the error to raise where a kernel raised: a better one, or the same."""
        return error

    def shape_rule(self, ttype, raw):
        """Return symbolic results for symbolic inputs."""
        if self.meta_function is None:
            raise NotImplementedError(
                f"op {self.qualname!r} has no shape rule for the {ttype.backend.name!r} device; declare one with "
                f"@{self.name}.meta"
            )
        result = rare.rule_of(self, raw)
        if isinstance(result, list) or isinstance(result[-1], tuple):
            return tuple(ttype.backend.empty(*one) for one in result)
        return ttype.backend.empty(*result)

    # ------------------------------------------------------------------------------------------ nodes

    def _chosen_name(self):
        """Return the function of the arguments that says the node's name by the conditions for each."""
        text = repr(self.node_name)
        for name, given in self.node_names.items():
            text = f"{name!r} if {given} else {text}"
        return eval(f"lambda {', '.join(self.parameters)}: {text}", {"Tensor": interpreter.Tensor})

    def node(self, mask: int, sequences=(), multiple=False, name: str | None = None, real=False):
        """Return the Node class for a set of inputs that require grad, a bit for each."""
        key = (mask, sequences, multiple, name, real)
        return self._nodes.get(key) or self._nodes.setdefault(key, node_class(self, *key))


def _not_a_kernel(function, code) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    if code is None or not code.co_flags & 0x0C:
        return f"an op is declared by a function written `def {name}(xp, input, ...)`, not by {function!r}"
    return f"op {name!r} takes *args or **kwargs: name its parameters, since everything is derived from them"


def _rule_like(op, parameter):
    """Return the shape rule of results that have the shape and the dtype of one input."""
    if parameter not in op.positional:
        raise TypeError(f"op {op.name!r}: like={parameter!r} must be one of {', '.join(op.positional)}")
    place = op.positional.index(parameter)
    return lambda *values, **keywords: (values[place].shape, values[place].dtype)
