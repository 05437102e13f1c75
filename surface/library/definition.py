"""What an op of the program's is: its schema, its kernels, its gradient, and how it is called."""

from __future__ import annotations

import functools
import inspect
import types

import plugrad
from plugrad import Tensor, absent, autograd, native, registry
from plugrad.extend import composite, register, unregister
from plugrad.native import inner_op
from plugrad.utils import _pytree

definitions: dict = {}  # "namespace::name" -> Definition

# Dispatch keys of PyTorch's -> where a kernel stands here.
_KEYS = {
    "CompositeExplicitAutograd": "default", "CompositeImplicitAutograd": "implicit", "Meta": "meta", "": "default",
    "Autograd": "autograd", "AutogradCPU": "autograd", "AutogradCUDA": "autograd",
}  # fmt: skip


watching: list = []  # f(definition, values, run) of who wants to see the calls of all ops that are defined here


class Definition:
    """One op that a program defined."""

    def __init__(self, qualname, schema, doc=None):
        home, separator, name = qualname.partition("::")
        if not separator or not home.isidentifier() or not name.partition(".")[0].isidentifier():
            raise ValueError(f"an op's name is 'namespace::name', not {qualname!r}")
        if home in ("aten", "prims", "prim"):
            raise ValueError(f"{home} is a reserved namespace. Please use another one for {qualname!r}.")
        self.qualname, self.home, self.name, self.schema = qualname, home, name.partition(".")[0], schema
        self.doc = doc or f"{qualname}{schema.text}"
        self.kernels: dict = {}
        self.fake = self.backward = self.setup_context = self.batched = None
        self.autocast: dict = {}
        kind = inspect.Parameter
        self.signature = inspect.Signature([
            kind(one.name, kind.KEYWORD_ONLY if one.keyword_only else kind.POSITIONAL_OR_KEYWORD, default=one.default)
            for one in schema.parameters
        ])  # fmt: skip
        self.record = self._record()
        register(self.record)

    def _record(self):
        """Return the record of the op: a composite, which calls what is registered here."""
        scope = {f"_d_{one.name}": one.default for one in self.schema.parameters} | {"_call": self.run}
        parameters, star = [], False
        for one in self.schema.parameters:
            if one.keyword_only and not star:
                parameters.append("*")
                star = True
            parameters.append(one.name if one.required else f"{one.name}=_d_{one.name}")
        passed = ", ".join(one.name for one in self.schema.parameters)
        name = f"{self.home}_{self.name}"
        head = ", ".join(["F", *parameters])
        exec(f"def {name}({head}):\n    return _call(({passed}{',' if passed else ''}))\n", scope)
        function = scope[name]
        function.__doc__ = self.doc
        return composite(name=name, at=())(function)

    def forget(self) -> None:
        """Take the op out of the registry."""
        unregister(self.record)

    def register(self, places, function) -> None:
        """Register a function for types of devices or a dispatch key; None: for all."""
        for place in [places] if places is None or isinstance(places, str) else places:
            key = "default" if place is None else _KEYS.get(place, place.lower())
            if key == "meta":
                self.fake = function
            else:
                self.kernels[key] = function

    packet = functools.cached_property(lambda self: OpOverload(self))  # always the same, as dicts of ops expect
    overload = functools.cached_property(lambda self: OpOverload(self, "default"))

    # ------------------------------------------------------------------------------------------ calls

    def __call__(self, *args, **kwargs):
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise RuntimeError(f"{self.qualname}() {error}: its schema is {self.schema.text}") from None
        bound.apply_defaults()
        return self.run(tuple(bound.arguments.values()))

    def run(self, values):
        """Run the op on all its arguments."""
        compute = self._run
        for watch in watching:
            compute = functools.partial(watch, self, run=compute)
        return compute(values)

    def _run(self, values):
        leaves, spec = _pytree.tree_flatten(list(values))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        self._check(values)
        place = tensors[0].device.type if tensors else "cpu"
        dtype = self.autocast.get(place)
        if dtype is not None and plugrad.is_autocast_enabled(place):
            leaves = [
                leaf.to(dtype) if isinstance(leaf, Tensor) and leaf.is_floating_point() else leaf for leaf in leaves
            ]
        for key in ("autograd", "implicit"):
            if key in self.kernels and not (key == "implicit" and self.backward):
                return self._called(self.kernels[key], spec.unflatten(leaves))
        if not plugrad.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
            with plugrad.no_grad():
                return self.compute(spec.unflatten(leaves))
        shape: list = []
        results = _Call.apply(self, spec, shape, *leaves)
        return shape[0].unflatten(results if isinstance(results, tuple) else (results,))

    def _check(self, values) -> None:
        for one, value in zip(self.schema.parameters, values):
            if one.type == "Tensor" and not isinstance(value, Tensor):
                raise RuntimeError(
                    f"{self.qualname}() Expected a value of type 'Tensor' for argument '{one.name}' but instead found "
                    f"type '{type(value).__name__}'"
                )

    def _called(self, function, values):
        names = [one.name for one in self.schema.parameters if one.keyword_only]
        at = len(values) - len(names)
        return function(*values[:at], **dict(zip(names, values[at:])))

    def compute(self, values):
        """Run the kernel for the first tensor's device, or the fake one on meta."""
        tensors = [leaf for leaf in _pytree.tree_iter(list(values)) if isinstance(leaf, Tensor)]
        place = tensors[0].device.type if tensors else "cpu"
        if place == "meta":
            if self.fake is None:
                raise NotImplementedError(
                    f"{self.qualname}: tensors are on the meta device, and no fake function was registered: write "
                    f"@torch.library.register_fake({self.qualname!r})"
                )
            return self._called(self.fake, values)
        function = self.kernels.get(place) or self.kernels.get("default") or self.kernels.get("implicit")
        if function is None:
            raise NotImplementedError(
                f"Could not run '{self.qualname}' with arguments from the '{place}' backend: write "
                f"@torch.library.register_kernel({self.qualname!r}, {place!r})"
            )
        result = self._called(function, values)
        for output in _pytree.tree_iter(result):
            if isinstance(output, Tensor) and any(output is tensor for tensor in tensors):
                raise RuntimeError(
                    f"{self.qualname} (with implementation in {function.__module__}): The output of this custom "
                    "operator must not also be an input to this custom operator and may not alias any inputs to this "
                    "custom operator or other returns. Return a clone() of it."
                )
        return result


class _Context:
    """What setup_context and backward see: the context of the call, with `needs_input_grad` for each argument."""

    def __init__(self, ctx, spec):
        self._ctx = ctx
        self.needs_input_grad = tuple(spec.unflatten(ctx.needs_input_grad[3:]))
        self.save_for_backward = ctx.save_for_backward
        self.mark_non_differentiable = ctx.mark_non_differentiable
        self.set_materialize_grads = ctx.set_materialize_grads

    saved_tensors = property(lambda self: self._ctx.saved_tensors, doc="What was saved for backward.")


class _Call(autograd.Function):
    """One recorded call of an op: its arguments' leaves in, its results' leaves out."""

    @staticmethod
    def forward(ctx, op, spec, shape, *leaves):
        values = spec.unflatten(leaves)
        result = op.compute(values)
        ctx.op, ctx.spec, ctx.own = op, spec, _Context(ctx, spec)
        if op.setup_context is not None:
            parameters = op.schema.parameters
            inputs = tuple(value for one, value in zip(parameters, values) if not one.keyword_only)
            keywords = {one.name: value for one, value in zip(parameters, values) if one.keyword_only}
            more = {"keyword_only_inputs": keywords} if keywords else {}
            op.setup_context(ctx=ctx.own, inputs=inputs, output=result, **more)
        outputs, of_result = _pytree.tree_flatten(result)
        ctx.result = of_result
        shape.append(of_result)
        return tuple(outputs) if len(outputs) != 1 else outputs[0]

    @staticmethod
    def backward(ctx, *grads):
        op = ctx.op
        if op.backward is None:
            raise RuntimeError(
                f"Trying to backward through {op.qualname} but no autograd formula was registered. Please use "
                "register_autograd to add one."
            )
        given = ctx.result.unflatten(grads)
        given = tuple(given) if isinstance(given, tuple) else (given,)
        gradients = op.backward(ctx.own, *given)
        gradients = list(gradients) if isinstance(gradients, (tuple, list)) else [gradients]
        keywords = sum(one.keyword_only for one in op.schema.parameters)
        if len(gradients) + keywords == ctx.spec.num_children:
            gradients += [None] * keywords
        if len(gradients) != ctx.spec.num_children:
            raise RuntimeError(
                f"{op.qualname}: backward returned {len(gradients)} gradients, the op has {ctx.spec.num_children} "
                "arguments: return None for those without"
            )
        parts = [
            [None] * child.num_leaves if gradient is None else child.flatten_up_to(gradient)
            for child, gradient in zip(ctx.spec.children_specs, gradients)
        ]
        return (None, None, None, *(leaf for part in parts for leaf in part))


def definition(op) -> Definition:
    """Return the definition that a name, or what stands for the op, means.

    RuntimeError if there is none.
    """
    inner = getattr(op, "_definition", op)
    if isinstance(inner, Definition):
        return inner
    if isinstance(inner, str) and inner.partition(".")[0] in definitions:
        return definitions[inner.partition(".")[0]]
    raise RuntimeError(
        f"there is no op {op!r} that the program defined: write torch.library.define or @torch.library.custom_op first"
    )


class OpOverload:
    """An op as `torch.ops.NAMESPACE.NAME` gives it, or one of its overloads.

    They are the same here.
    """

    def __init__(self, of, overload=None):
        self._definition, self._overload = of, overload
        self.__name__ = of.name if overload is None else f"{of.name}.{overload}"

    name = property(lambda self: self._definition.qualname, doc="Its name, 'namespace::name'.")

    def __call__(self, *args, **kwargs):
        return self._definition(*args, **kwargs)

    def overloads(self) -> list:
        """Return the names of its overloads: there is one."""
        return ["default"]

    @property
    def default(self):
        """The op itself."""
        return self._definition.overload

    def __repr__(self):
        return f"<OpOverload(op='{self._definition.home}.{self._definition.name}', overload='default')>"


class _Ours:
    """An op of plugrad's own as `torch.ops.aten.NAME`; all overloads are the same, and equal to the function itself.

    So a `__torch_dispatch__`, which gets the function, can compare it with these, or look it up among them.
    """

    def __init__(self, name, function):
        self.__name__, self._function = name, function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("__"):
            raise AttributeError(overload)
        ours = self.__dict__[overload] = _Ours(f"{self.__name__}.{overload}", self._function)
        return ours

    def __eq__(self, other):
        return self._function == (other._function if isinstance(other, _Ours) else other)

    def __hash__(self):
        return hash(self._function)

    def __repr__(self):
        return f"<OpOverload(op='aten.{self.__name__}')>"


def is_packet(value) -> bool:
    """Whether a value is an op as `torch.ops` has it: plugrad's, or a defined one."""
    return isinstance(value, (_Ours, OpOverload))


def op_of(packet):
    """Return the record, or definition, behind an op of `torch.ops`."""
    return packet._definition if isinstance(packet, OpOverload) else getattr(packet._function, "__op__", packet)


class Namespace(types.ModuleType):
    """The ops of one namespace: `torch.ops.NAMESPACE`."""

    def __init__(self, home):
        super().__init__(f"plugrad.ops.{home}", f"Ops of the namespace {home!r}.")
        self._home = home

    def __getattr__(self, name):
        if not name.startswith("__"):
            if f"{self._home}::{name}" in definitions:
                return definitions[f"{self._home}::{name}"].packet
            if self._home == "aten":
                return _Ours(name, _function(name))
        raise AttributeError(f"'_OpNamespace' '{self._home}' object has no attribute '{name}'")

    def __dir__(self):
        return [name.partition("::")[2] for name in tuple(definitions) if name.startswith(f"{self._home}::")]


def _function(name):
    """Return the function of plugrad's that an op of PyTorch's is called by."""
    function = inner_op(name)
    if function is not None:
        return function
    try:
        return registry.op(name).function
    except AttributeError:
        function = getattr(Tensor, name, None)  # in-place forms are methods
        if function is None and name in native.__all__:
            function = getattr(native, name)
        if function is None and name.startswith("_"):
            function = absent.named(f"ops.aten.{name}")
        if function is None:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'") from None
        return function


_namespaces: dict = {}


def load_library(path):
    """Raise OSError: a library of ops in C++ is made for PyTorch itself; libraries then do without it."""
    refused_libraries.add(path)
    raise OSError(f"{path} is compiled for PyTorch; plugrad's ops are plugins in Python: docs/authors.md")


loaded_libraries: set = set()  # none, ever
refused_libraries: set = set()  # their packages go on to say more of the ops that would be in them


def namespace(home: str):
    """Return the namespace of that name; None if nothing is defined in it.

    >>> import plugrad as torch
    >>> torch.ops.aten.add.Tensor(torch.ones(2), 1)
    tensor([2., 2.])
    """
    if home in ("load_library", "loaded_libraries"):
        return globals()[home]
    if home != "aten" and not any(name.startswith(f"{home}::") for name in tuple(definitions)):
        return None
    return _namespaces.setdefault(home, Namespace(home))
