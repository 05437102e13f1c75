"""What names in the code of a program tell: which variables it uses, and where it looks at objects in other ways."""

from __future__ import annotations

import builtins
import dis
import types

UNWATCHED = {  # what a function asks for by name, and what that is
    "param_groups": "options of an optimizer",
    "data_ptr": "where the memory of a tensor is",
    "storage_offset": "where the memory of a tensor is",
    "_version": "how often a tensor was written",
    "_base": "whether a tensor is a view",
    "_is_view": "whether a tensor is a view",
    "is_leaf": "the history of a tensor",
    "grad_fn": "the history of a tensor",
    "initial_seed": "the seed",
    "get_num_threads": "the number of threads",
    "are_deterministic_algorithms_enabled": "a mode",
}
BY_NAME = frozenset(  # by which something is looked up that a text names
    "getattr hasattr vars __dict__ attrgetter globals eval exec locals import_module __import__".split()
)
LOOKS = BY_NAME.union(  # names by which an object is looked at as a whole, or a part of one by a text
    "setattr __setattr__ delattr copy deepcopy asdict astuple replace fields getmembers dumps dump pickle state_dict "
    "buffers named_buffers __getstate__ __reduce__ __eq__ __getattribute__ __init__ repr str format format_map dir "
    "methodcaller".split()
)
ELSEWHERE = frozenset(("modules", "__globals__", "f_globals"))  # by which a function gets at its own module's variables
OF_NEW_ONES = frozenset("__init__ __new__ __post_init__ __del__".split())  # methods of objects that are made
_OF_MODULES = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "STORE_GLOBAL", "DELETE_GLOBAL")
LASTING = (types.FunctionType, types.ModuleType, type)  # what a variable of a module seldom stops to be
BY_IDENTITY = ("id", "hash")  # functions of Python's that tell which tensor an argument is
NO_GRADIENT = frozenset(  # names that are about gradients, and look at none
    "plugrad no_grad enable_grad set_grad_enabled is_grad_enabled requires_grad requires_grad_ autograd".split()
)


def tells_apart(code, names) -> bool:
    """Whether code calls a function of Python's that tells objects apart, not a method or variable of that name."""
    used = variables_of(code)
    return any(name in used and names.get(name) in (None, getattr(builtins, name)) for name in BY_IDENTITY)


def variables_of(code) -> set:
    """Return the names that code uses as variables of its module, which may be those of attributes, too."""
    return {step.argval for step in dis.get_instructions(code) if step.opname in _OF_MODULES}
