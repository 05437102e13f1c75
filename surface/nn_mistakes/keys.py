"""What `load_state_dict` says of keys that don't fit, and what may be meant."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from os import PathLike

from plugrad.nn import Module

COMPARISONS = 10_000  # more would take longer than reading


def no_mapping(given) -> str:
    """Return what is wrong with something that is no mapping, and what may be meant."""
    advice = ""
    if isinstance(given, Module):
        advice = " Write load_state_dict(other.state_dict())."
    elif isinstance(given, (str, PathLike)):
        advice = f" Write load_state_dict(torch.load({str(given)!r}))."
    return f"Expected state_dict to be dict-like, got {type(given)}.{advice}"


def described(missing: list, unexpected: list, errors: list, state_dict: Mapping) -> list:
    """Return the lines of the error: PyTorch's on keys, the other errors, then what may be meant."""
    quote = '", "'.join
    lines = []
    if missing:
        lines.append(f'Missing key(s) in state_dict: "{quote(missing)}". ')
    if unexpected:
        lines.append(f'Unexpected key(s) in state_dict: "{quote(unexpected)}". ')
    return lines + errors + (_suggestions(missing, unexpected, state_dict) if missing and unexpected else [])


def _suggestions(missing, unexpected, state_dict) -> list:
    if {"state", "param_groups"} <= set(unexpected):
        return ["This is the state of an optimizer: load it with optimizer.load_state_dict(...)."]
    for key in unexpected:
        inner = state_dict.get(key)  # a hook may have named keys of its own
        if isinstance(inner, Mapping) and not inner.keys().isdisjoint(missing):
            return [f"Perhaps load what stands under {key!r}, as in load_state_dict(checkpoint[{key!r}])?"]
    known, wanted = set(unexpected), set(missing)
    for prefix in _prefixes(unexpected, missing[0]):
        if known.issuperset([prefix + key for key in missing]):
            return [_rewritten(f"key.removeprefix({prefix!r})")]
    for prefix in _prefixes(missing, unexpected[0]):
        if wanted.issubset([f"{prefix}{key}" for key in unexpected]):
            return [_rewritten(f"{prefix!r} + key")]
    if len(missing) * len(unexpected) > COMPARISONS:
        return []
    cases = {str(key).casefold(): key for key in missing}
    close = [(key, get_close_matches(str(key).casefold(), cases, n=1, cutoff=0.8)) for key in unexpected]
    pairs = ", ".join(f'"{key}" for "{cases[match[0]]}"' for key, match in close if match)
    return [f"Perhaps misspelt: {pairs}."] if pairs else []


def _prefixes(longer, key) -> set:
    """Return what stands before a key, such as "module.", in longer ones."""
    return {one.removesuffix(f".{key}") + "." for one in map(str, longer) if one.endswith(f".{key}")}


def _rewritten(key: str) -> str:
    return f"Perhaps load {{{key}: value for key, value in state_dict.items()}} instead?"
