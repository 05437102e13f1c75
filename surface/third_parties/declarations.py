"""What is asked of the declaration of a third party's op: its options, and the names of its parameters."""

from __future__ import annotations

from plugrad.arguments import alternatives
from plugrad.errors import suggestion
from plugrad.registry.kinds import is_name

_NUMBERS = ("other", "both", "any", "none")
_FLAGS = {
    "inplace", "complex", "eight_bits", "sequence", "override", "once", "takes_half", "alike", "keeps_given",
    "fresh", "itself", "follows", "wraps",
}  # fmt: skip
_TEXTS = {"at", "aliases"}
_OF_PARAMETERS = {"tensors", "same", "fits", "exact", "older"}
# What is added to the parameters of functions that make tensors.
_ADDED = ("out", "layout", "device", "requires_grad", "pin_memory")


def check_declaration(cls, function, options) -> None:
    """Raise TypeError for options that a family lacks, or that are not of their kind, and for odd parameters."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & 0x0C:  # which the record refuses
        return
    _check_known(cls, options)
    parameters = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    shown = repr(function.__name__)
    for option, value in options.items():
        wanted = _wanted(option, value, parameters)
        if option == "variadic" and value in parameters[:1] and cls.runs_on == "arrays" and not options.get("sequence"):
            wanted = "a parameter behind the first, but for ops of a list of tensors: sequence=True"
        if wanted:
            raise TypeError(f"op {shown} has {option}={value!r:.60}: it must be {wanted}")
    _check_parameters(cls, code, parameters, shown)


def _check_known(cls, options) -> None:
    inits = [base.__init__.__code__ for base in cls.__mro__[:-1]]
    known = {name for code in inits for name in code.co_varnames[2 : code.co_argcount + code.co_kwonlyargcount]}
    for name in options:
        if name not in known:
            family = cls.__name__.lower()
            raise TypeError(f"@{family} has {', '.join(sorted(known))}, no option {name!r}{suggestion(name, known)}")


def _wanted(option, value, parameters) -> str | None:
    """Return what an option must be, in words, if it is something else."""
    if option == "name":
        return None if value is None or isinstance(value, str) and is_name(value) else "a Python name"
    if option in _FLAGS:
        return None if value is None or isinstance(value, bool) else "True or False"
    if option in _TEXTS:
        right = (value is None and option != "aliases") or _are_texts(value)
        return None if right else "a tuple of names"
    if option in _OF_PARAMETERS:
        right = (value is None and option in ("tensors", "same")) or _are_texts(value) and {*value} <= {*parameters}
        return None if right else f"a tuple of parameters: {', '.join(parameters)}"
    if option == "returns":
        return None if value is None or isinstance(value, str) or _are_texts(value) else "a tuple of names"
    if option == "variadic":
        return None if value is None or value in parameters else f"one of the parameters: {', '.join(parameters)}"
    if option == "kinds":
        return _wanted_kinds(value, parameters)
    if option == "domain":
        right = value is None or type(value) is tuple and len(value) == 2 and all(map(_is_end, value))
        return None if right else "a pair of numbers, each of which may be None"
    if option == "numbers":
        return None if value in _NUMBERS else f"one of {', '.join(map(repr, _NUMBERS))}"
    if option == "any_order":
        return None if value in (True, False, "rows") else "True or False"
    if option in ("ref", "meet", "node"):
        right = value is None or callable(value) or isinstance(value, dict if option == "node" else ())
        named = isinstance(value, str) and option != "meet"
        return None if right or named else "a function" if option == "meet" else "a name as text, or a function"
    return None


def _are_texts(value) -> bool:
    return isinstance(value, (tuple, list)) and all(isinstance(one, str) for one in value)


def _is_end(value) -> bool:
    return value is None or isinstance(value, (int, float))


def _wanted_kinds(value, parameters) -> str | None:
    """Return what `kinds=` must be: {parameter: declaration}, as `arguments.kinds.kind` takes it."""
    if value is None:
        return None
    names = {*alternatives()}
    right = isinstance(value, dict) and all(
        name in parameters and isinstance(one, str) and {*one.rstrip("?.").split("|")} <= names
        for name, one in value.items()
    )
    return None if right else f"a dict from parameters to kinds: {', '.join(sorted(names))}"


def _check_parameters(cls, code, parameters, shown) -> None:
    """Raise TypeError for parameters whose names the code of calls needs for something else."""
    makes, positional = cls.runs_on == "nothing", code.co_varnames[1 : code.co_argcount]
    for name in parameters:
        if name.startswith("_") or name == "MISSING":
            what = "names that begin with an underscore, and MISSING, are those of generated code"
        elif name == "needs":
            what = "formulas ask by this name which inputs need a gradient"
        elif name.endswith("_") and name[:-1] in parameters:
            what = f"generated code calls the array of {name[:-1]!r} so"
        elif name in (_ADDED if makes else _ADDED[:1] * cls.has_out):
            what = f"the op gets its own argument {name!r}"
        elif makes and name == "dtype" and name in positional:
            raise TypeError(f"op {shown} has 'dtype' among its first parameters: write `*, dtype=None`, by name only")
        else:
            continue
        raise TypeError(f"op {shown} can't have a parameter {name!r}: {what}; give it another name")

