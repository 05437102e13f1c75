"""Evaluation of polynomials."""

from __future__ import annotations


def horner(t, coefficients):
    """Return the value at `t`, an array, of a polynomial given by its coefficients, highest power first."""
    total = t * coefficients[0]
    total += coefficients[1]
    for coefficient in coefficients[2:]:
        total *= t
        total += coefficient
    return total
