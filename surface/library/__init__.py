"""`plugrad.library`: ops that a program defines under PyTorch's names, as records of plugrad's own registry.

`custom_op` takes a function of tensors that is opaque to autograd, `register_autograd` its gradient, `register_fake`
its shapes on the meta device, `register_kernel` what runs on other devices. The op is `plugrad.ops.NAMESPACE.NAME`, is
listed by `plugrad ops` as `session.NAMESPACE_NAME`, and gradcheck, hooks and modes see it as any other.
"""

from __future__ import annotations

import inspect

from plugrad.library.checking import OpCheckError, opcheck
from plugrad.library.definition import (
    Definition,
    OpOverload,
    definition,
    definitions,
    is_packet,
    namespace,
    op_of,
    refused_libraries,
    watching,
)
from plugrad.library.schemas import infer_schema, parse

__all__ = [
    "CustomOpDef", "Library", "OpCheckError", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl",
    "impl_abstract", "infer_schema", "is_packet", "namespace", "op_of", "opcheck", "register_autocast",
    "register_autograd", "register_fake", "register_kernel", "register_torch_dispatch", "register_vmap", "triton_op",
    "watching", "wrap_triton",
]  # fmt: skip


def _decorated(function, decorate):
    """Call a decorator at once, or return it, as `name(..., func)` and `@name(...)` are written."""
    return decorate if function is None else decorate(function)


class CustomOpDef:
    """What `custom_op` returns: call it, and register what else there is of the op."""

    def __init__(self, of):
        self._definition, self._opoverload = of, OpOverload(of)
        self.__name__ = of.name
        self.__doc__ = of.doc

    def __call__(self, *args, **kwargs):
        return self._definition(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._definition.qualname})>"

    def register_kernel(self, device_types, fn=None, /):
        """Register what runs on some types of device: `@op.register_kernel("cuda")`."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn, /):
        """Register a function that makes results' shapes and dtypes, without data."""
        return register_fake(self, fn)

    def register_autograd(self, backward, /, *, setup_context=None):
        """Register the gradient; see `register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func=None):
        """Register how the op is batched.

        `func(info, in_dims, *args)` returns (output, out_dims).
        """
        return register_vmap(self, func)

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        """Raise NotImplementedError; see `register_torch_dispatch`."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """Make an op of a function: autograd does not look into it.

    Args:
        name: "namespace::name".
        fn: of Tensors and plain values, all of them annotated.
        mutates_args: names of arguments that it writes to; "unknown" for all tensors.
        device_types: of what devices its tensors may be; None: any.
        schema: "(Tensor x, int n) -> Tensor"; read off the annotations when None.
        tags: accepted.

    >>> import plugrad as torch
    >>> @torch.library.custom_op("doc::cube", mutates_args=())
    ... def cube(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 3)
    >>> cube.register_autograd(
    ...     lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
    ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    ... )
    >>> x = torch.tensor([2.0], requires_grad=True)
    >>> torch.ops.doc.cube(x).backward()
    >>> x.grad
    tensor([12.])
    """

    def decorate(function):
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        one = Definition(name, parse(text), doc=inspect.getdoc(function))
        one.register(device_types, function)
        definitions[name] = one
        return CustomOpDef(one)

    return _decorated(fn, decorate)


def define(qualname, schema, *, lib=None, tags=()):
    """Define an op that `impl` or `register_kernel` says more of.

    Args:
        qualname: "namespace::name"; or a Library, then the schema begins with the name.
        schema: such as "(Tensor x) -> Tensor".
    """
    if isinstance(qualname, Library):
        return qualname.define(schema, tags=tags)
    definitions[qualname] = Definition(qualname, parse(schema))
    if lib is not None:
        lib._own.append(qualname)


def impl(qualname, types, func=None, *, lib=None):
    """Say what an op does on types of devices, or for a dispatch key.

    Types as "cpu" and "default", keys as "CPU" and "Autograd".

    Written `@impl("namespace::name", "cpu")`, or with a Library, `@impl(lib, "name", "CPU")`.
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, "" if func is None else func

        def decorate_of_library(function):
            library.impl(name, function, key)
            return function

        return decorate_of_library

    def decorate(function):
        definition(qualname).register(types, function)
        return function

    return _decorated(func, decorate)


class Library:
    """Ops of a namespace: `Library("mylib", "DEF")`.

    Args:
        ns: the namespace.
        kind: "DEF" or "FRAGMENT" to define ops, "IMPL" to say what defined ones do.
        dispatch_key: where `impl` registers, when it isn't told.
    """

    def __init__(self, ns, kind, dispatch_key=""):
        for what, value in ("ns", ns), ("dispatch_key", dispatch_key):
            if not isinstance(value, str):
                raise TypeError(f"Library(): argument '{what}' must be str, not {type(value).__name__}")
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported library type: {kind!r}; write 'DEF', 'FRAGMENT' or 'IMPL'")
        if ns in ("aten", "prims", "prim") and kind == "DEF":
            error = ValueError if ns == "prim" else RuntimeError
            raise error(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        self.ns, self.kind, self.dispatch_key, self._own = ns, kind, dispatch_key, []

    def define(self, schema, alias_analysis="", *, tags=()):
        """Define an op, "name(Tensor x) -> Tensor"; return its name."""
        name, parenthesis, rest = schema.partition("(")
        qualname = f"{self.ns}::{name.strip()}"
        if self.kind == "IMPL":
            raise RuntimeError(f"a Library of kind 'IMPL' defines no ops: make Library({self.ns!r}, 'FRAGMENT')")
        if qualname in definitions and qualname in self._own:
            raise RuntimeError(f"{qualname} is defined already")
        definitions[qualname] = Definition(qualname, parse(parenthesis + rest))
        self._own.append(qualname)
        return name.strip()

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """Say what an op does for a dispatch key.

        Such as "CPU", "CompositeImplicitAutograd", "Meta", "Autograd".
        """
        if with_keyset:
            raise NotImplementedError("with_keyset=True: plugrad has no sets of dispatch keys to pass")
        name = op_name.name if isinstance(op_name, OpOverload) else str(op_name)
        qualname = name if "::" in name else f"{self.ns}::{name}"
        definition(qualname).register(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd", fn)

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """Raise NotImplementedError: write a TorchDispatchMode to see all ops."""
        raise NotImplementedError("Library.fallback: write a TorchDispatchMode, which sees all ops")

    def _destroy(self):
        for qualname in self._own:
            one = definitions.pop(qualname, None)
            if one is not None:
                one.forget()
        self._own.clear()

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """Register what an op runs on a type of device, on several, or (None) on all."""

    def decorate(function):
        definition(op).register(device_types, function)
        return function

    return _decorated(func, decorate)


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """Register a function that makes results' shapes and dtypes, without data.

    It runs where an input is on the meta device.
    """

    def decorate(function):
        if not (refused_libraries and isinstance(op, str) and op not in definitions):
            definition(op).fake = function
        return function

    return _decorated(func, decorate)


impl_abstract = register_fake


def register_autograd(op, backward, /, *, setup_context=None, lib=None) -> None:
    """Register the gradient of an op.

    Args:
        op: its name, or what `custom_op` returned.
        backward: `backward(ctx, *grads)`, which returns a gradient or None for each argument.
        setup_context: `setup_context(ctx, inputs, output)`, which saves what backward needs.

    Raises RuntimeError for ops that write to their arguments.
    """
    one = definition(op)
    if any(parameter.written for parameter in one.schema.parameters):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {one.qualname}: it writes to its arguments. "
            "Make a functional op of it and register an autograd formula for that."
        )
    one.backward, one.setup_context = backward, setup_context


def register_vmap(op, func=None, /, *, lib=None):
    """Register how an op is batched.

    `func(info, in_dims, *args)` returns (output, out_dims).
    """

    def decorate(function):
        definition(op).batched = function
        return function

    return _decorated(func, decorate)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None) -> None:
    """Have floating point inputs of an op cast to a dtype under autocast.

    Where that is on for a type of device.
    """
    definition(op).autocast[device_type] = cast_inputs


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """Raise NotImplementedError: a class has its own `__torch_dispatch__` for that."""
    raise NotImplementedError(
        "register_torch_dispatch: write it in the class's own __torch_function__ or in a TorchDispatchMode"
    )


def get_ctx():
    """Raise NotImplementedError: there are no symbolic sizes that depend on data."""
    raise NotImplementedError("get_ctx: plugrad has no symbolic sizes; a fake function returns one possible shape")


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """Raise NotImplementedError: Triton's kernels need PyTorch's own compiler."""
    raise NotImplementedError("triton_op: write a kernel in CuPy (cupy.RawKernel) and @custom_op above it")


def wrap_triton(triton_kernel, /):
    """Raise NotImplementedError: Triton's kernels need PyTorch's own compiler."""
    raise NotImplementedError("wrap_triton: write a kernel in CuPy (cupy.RawKernel) and @custom_op above it")


def fallthrough_kernel(*args):
    """Raise NotImplementedError: it marks a dispatch key, and is not called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")
