"""The compiler that leaves everything as it is."""

from __future__ import annotations

from plugrad.extend import hookimpl


def eager(graph, example_inputs):
    """Run the program op by op, as it is written.

    >>> import plugrad as torch
    >>> double = torch.compile(lambda x: x + x, backend="eager")
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return graph


@hookimpl
def plugrad_compilers():
    return [eager]
