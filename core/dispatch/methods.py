"""Which ops are methods and operators of Tensor: put into the class when a plugin brings or promises them.

What is put there looks its op up when it is first used, and then replaces itself by the op's function.
"""

from __future__ import annotations

from plugrad import registry
from plugrad.dispatch import functions, inplace
from plugrad.needs import ASSIGNMENTS, METHODS, OPERATORS, REFLECTED, missing
from plugrad.registry import events
from plugrad.registry.namespaces import LazyMethod
from plugrad.tensor.tensor import CORE_NAMES, Tensor


def _find_method(name):
    try:
        return registry.resolve(f"Tensor.{name}")
    except AttributeError as error:
        if name in METHODS and not isinstance(error, registry.AmbiguousNameError):
            raise missing(name, METHODS[name], error) from error
        raise


def install_method(name: str) -> None:
    """Make an op a method; what the core itself defines is never replaced."""
    if name not in CORE_NAMES:
        setattr(Tensor, name, LazyMethod(_find_method, Tensor, name))


def install_inplace(name: str) -> None:
    """Give the op `name` its in-place method `name_`, unless an op of that name exists."""
    if f"{name}_" not in CORE_NAMES and not isinstance(Tensor.__dict__.get(f"{name}_"), LazyMethod):
        setattr(Tensor, f"{name}_", LazyMethod(inplace.method, Tensor, f"{name}_"))


def install_operators(only: str | None = None) -> None:
    """Put Python's operators into the class, all or those of one op."""
    for dunder, name in (*OPERATORS.items(), *REFLECTED.items(), *ASSIGNMENTS.items()):
        if only in (None, name):
            _install_operator(dunder, name)


def _install_operator(dunder, name):
    def find(dunder):
        op = registry.operator_op(name)
        if dunder in ASSIGNMENTS:
            return op.in_place if op.inplace == "items" else functions.in_place(op, True)
        return op.operator(dunder in REFLECTED)

    setattr(Tensor, dunder, LazyMethod(find, Tensor, dunder))


def _method_of(dotted: str) -> str | None:
    return dotted[7:] if dotted.startswith("Tensor.") else None


def _on_public_names(names) -> None:
    for name in filter(None, map(_method_of, names)):
        install_method(name)


def _on_promise(dotted) -> None:
    name = _method_of(dotted)
    if name:
        install_method(name)
        install_inplace(name)


def _on_ops(records) -> None:
    """Give the in-place forms of ops to Tensor, under the op's own name and those of its methods."""
    for record in records:
        if record.inplace and record.inplace != "items":
            for name in (record.name, *filter(None, map(_method_of, record.names))):
                install_inplace(name)


def _is_known(dotted) -> bool:
    return dotted in registry.public or dotted in registry.claims


def _on_forget(dotted) -> None:
    name = _method_of(dotted)
    if name is None:
        return
    if _is_known(dotted) or name in METHODS:
        install_method(name)
        install_operators(name)
        entry = registry.public.get(dotted)
        if entry is None or entry.kind != "ops" or entry.value.inplace:
            install_inplace(name)
            return
    gone = (f"{name}_",) if _is_known(dotted) or name in METHODS else (name, f"{name}_")
    for attribute in gone:  # nobody brings it any more
        if attribute in vars(Tensor) and attribute not in CORE_NAMES and not _is_known(f"Tensor.{attribute}"):
            delattr(Tensor, attribute)
    _on_ops(filter(None, [dict.get(registry.ops, name)]))  # but for the in-place form of an op that is no method


install_operators()
for _name in METHODS:
    if not _name.endswith("_"):  # in-place forms come with their ops
        install_method(_name)
events.on_public_names.append(_on_public_names)
events.on_promise.append(_on_promise)
events.on_ops.append(_on_ops)
events.on_written.append(lambda names: [install_inplace(name) for name in names])
events.on_forget.append(_on_forget)
registry.reserve("Tensor", CORE_NAMES)
