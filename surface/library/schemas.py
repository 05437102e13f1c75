"""Schemas of ops: read from text such as "(Tensor x, int n=3) -> Tensor", or from a function's annotations."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Sequence

import plugrad

_DTYPE, _DEVICE, _TENSOR = plugrad.dtype, plugrad.device, plugrad.Tensor
# Python's annotations -> the words of a schema.
_WORDS = {
    _TENSOR: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _DTYPE: "ScalarType",
    _DEVICE: "Device",
}  # fmt: skip
_RETURNS = {_TENSOR: "Tensor", int: "SymInt", float: "float", bool: "bool"}


class Parameter(typing.NamedTuple):
    """One parameter of an op."""

    name: str
    type: str
    default: object
    keyword_only: bool
    written: bool

    @property
    def required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty


class Schema(typing.NamedTuple):
    """What an op takes and returns."""

    parameters: tuple
    returns: str
    text: str


_PARAMETER = re.compile(
    r"(?P<type>[A-Za-z_]+(\([^)]*\))?(\[\d*\])?\??(\[\])?\??)\s+(?P<name>\w+)(\s*=\s*(?P<default>.+))?$"
)


def parse(text: str) -> Schema:
    """Return the schema that a text says; RuntimeError for one that can't be read.

    >>> [parameter.name for parameter in parse("(Tensor x, *, int n=3) -> Tensor").parameters]
    ['x', 'n']
    """
    match = re.fullmatch(r"\s*\w*(\.\w+)?\s*\((?P<inside>.*)\)\s*->\s*(?P<returns>.+?)\s*", text, re.DOTALL)
    if match is None:
        raise RuntimeError(f"the schema {text!r} can't be read: write it as '(Tensor x, int n=3) -> Tensor'")
    parameters, keyword_only = [], False
    for part in _parts(match["inside"]):
        if part == "*":
            keyword_only = True
            continue
        one = _PARAMETER.fullmatch(part)
        if one is None:
            raise RuntimeError(f"the schema {text!r} can't be read at {part!r}: write a type and a name, as 'Tensor x'")
        default = inspect.Parameter.empty if one["default"] is None else _default(one["default"])
        kind = re.sub(r"\([^)]*\)", "", one["type"])
        parameters.append(Parameter(one["name"], kind, default, keyword_only, "!" in one["type"]))
    return Schema(tuple(parameters), match["returns"], text.strip())


def _parts(inside: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for place, character in enumerate(inside):
        depth += (character in "([") - (character in ")]")
        if character == "," and not depth:
            parts.append(inside[start:place].strip())
            start = place + 1
    last = inside[start:].strip()
    return [*parts, last] if last else parts


def _default(text: str):
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        words = {"true": True, "false": False, "none": None}
        return words.get(text.lower(), text)


def infer_schema(prototype_function, /, *, mutates_args, op_name=None) -> str:
    """Return the schema that a function's annotations say.

    Raises ValueError where one is missing or has no meaning for an op.

    >>> import plugrad as torch
    >>> def scaled(x: torch.Tensor, by: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float by=2.) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    unknown = set() if mutates_args == "unknown" else set(mutates_args) - set(signature.parameters)
    if unknown:
        raise ValueError(
            f"infer_schema(func): {sorted(unknown)} in mutates_args were not found in the function's signature"
        )
    texts, saw_star, number = [], False, 0
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ValueError("infer_schema(func): We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not saw_star:
            texts.append("*")
            saw_star = True
        if name not in hints:
            raise ValueError(f"infer_schema(func): Parameter {name} must have a type annotation.")
        word = _word(hints[name], name)
        written = word.startswith("Tensor") and (mutates_args == "unknown" or name in mutates_args)
        if written:
            word = word.replace("Tensor", f"Tensor(a{number}!)", 1)
            number += 1
        elif mutates_args != "unknown" and name in mutates_args:
            raise ValueError(f"infer_schema(func): Parameter {name} is in mutates_args but only Tensors can be mutated")
        default = "" if parameter.default is parameter.empty else f"={_written(parameter.default, name)}"
        texts.append(f"{word} {name}{default}")
    returned = _returned(hints, signature)
    return f"{op_name or ''}({', '.join(texts)}) -> {returned}"


def _word(annotation, name) -> str:
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in inner if one is not type(None)]
        if set(rest) in ({int, float, bool}, {int, float}) and len(rest) > 1:
            return "Scalar" + ("?" if len(rest) < len(inner) else "")
        if len(rest) == 1 and len(inner) == 2:
            return f"{_word(rest[0], name)}?"
    if origin in (list, Sequence):
        return f"{_word(inner[0], name)}[]"
    raise ValueError(
        f"infer_schema(func): Parameter {name} has unsupported type {annotation}. The valid types are Tensor, int, "
        "float, bool, str, torch.dtype, torch.device, Optional and Sequence of these."
    )


def _written(value, name) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}."
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, _DTYPE):
        return str(value).removeprefix("torch.")
    raise ValueError(f"infer_schema(func): Parameter {name} has an unsupported default value {value!r}.")


def _returned(hints, signature) -> str:
    if "return" not in hints:
        if signature.return_annotation is None:
            return "()"
        raise ValueError("infer_schema(func): The return type of the function must be annotated.")
    annotation = hints["return"]
    if annotation is type(None):
        return "()"
    if annotation in _RETURNS:
        return _RETURNS[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list and inner and inner[0] in _RETURNS:
        return f"{_RETURNS[inner[0]]}[]"
    if origin is tuple and inner and all(one in _RETURNS or typing.get_origin(one) is list for one in inner):
        return f"({', '.join(_RETURNS.get(one) or 'Tensor[]' for one in inner)})"
    raise ValueError(f"infer_schema(func): Return has unsupported type {annotation}.")
