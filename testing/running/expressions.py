"""Expressions that choose among names, as pytest's `-k` does."""

from __future__ import annotations

import functools
import re


def matcher(expression):
    """Return the function that says whether a name matches an expression such as "gradient and not (sin or cos)".

    A word matches when the name holds it, in any case. Raises ValueError for anything that is not an expression.

    >>> matcher("grad and not sin")("cos-gradient"), matcher("grad and not sin")("sin-gradient")
    (True, False)
    """
    tokens = re.findall(r"[()]|[^\s()]+", expression)
    if not tokens:
        return lambda name: True
    matches, rest = _either(tokens, expression)
    if rest:
        raise ValueError(f"-k {expression!r}: {rest[0]!r} is not expected there; write words with and, or, not, ()")
    return lambda name: matches(name.lower())


def _either(tokens, expression):
    one, tokens = _both(tokens, expression)
    while tokens and tokens[0] == "or":
        other, tokens = _both(tokens[1:], expression)
        one = functools.partial(lambda first, second, name: first(name) or second(name), one, other)
    return one, tokens


def _both(tokens, expression):
    one, tokens = _word(tokens, expression)
    while tokens and tokens[0] == "and":
        other, tokens = _word(tokens[1:], expression)
        one = functools.partial(lambda first, second, name: first(name) and second(name), one, other)
    return one, tokens


def _word(tokens, expression):
    if not tokens or tokens[0] in ("and", "or", ")"):
        raise ValueError(f"-k {expression!r}: a word is missing")
    word, rest = tokens[0], tokens[1:]
    if word == "not":
        matches, rest = _word(rest, expression)
        return lambda name: not matches(name), rest
    if word == "(":
        matches, rest = _either(rest, expression)
        if not rest or rest[0] != ")":
            raise ValueError(f"-k {expression!r}: a ) is missing")
        return matches, rest[1:]
    return lambda name: word.lower() in name, rest
