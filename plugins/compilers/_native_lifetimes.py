"""Which temporaries have memory of their own at each call, that goes where nothing needs it any more.

The planned piece of memory stays as long as the program runs, beside the results that come meanwhile. A large buffer
that is needed no more when most of these are there is better off elsewhere.
"""

from __future__ import annotations

from plugrad.compiler.graph import at

LARGE = 1 << 18  # bytes: smaller ones cost more time than they free memory
TRIES = 16
GAIN = 0.97  # of the memory there was, at most, or a buffer stays


def released(graph) -> dict:
    """Let buffers whose memory is better not planned be "fresh"; return {buffer: (its first step, its last)}.

    Buffers that share memory are all so, or none.
    """
    size = None if graph.scope is None else graph.scope.hint
    uses, spans, pieces = graph.uses(), {}, {}
    for buffer, (first, last) in uses.items():
        owner = graph.owner(buffer)
        pieces.setdefault(owner, []).append(buffer)
        known = spans.get(owner, (first, last))
        spans[owner] = min(first, known[0]), max(last, known[1])
    outside, most = {}, _peak(graph, spans, size, uses)
    for owner in _candidates(graph, spans, pieces, size):
        _be(pieces[owner], "fresh")
        now = _peak(graph, spans, size, uses)
        if now <= GAIN * most:
            most = now
            outside.update(dict.fromkeys(pieces[owner], spans[owner]))
        else:
            _be(pieces[owner], "temporary")
    return outside


def _be(buffers, kind) -> None:
    for buffer in buffers:
        buffer.kind = kind


def _peak(graph, spans, size, uses) -> int:
    """Return how much memory there is at most: the planned piece, and what is new at each call."""
    changes = [0] * (len(graph.steps) + 2)
    for buffer, (first, last) in spans.items():
        if buffer.kind == "fresh":
            changes[first] += at(buffer.nbytes, size)
            changes[last + 1] -= at(buffer.nbytes, size)
    live = most = 0
    for change in changes:
        live += change
        most = max(most, live)
    return most + graph.layout(size, uses)[1]


def _candidates(graph, spans, pieces, size) -> list:
    """Return the owners of large pieces of memory that calls in C alone write, in one part of the program."""
    writers: dict = {}
    for number, part in enumerate(graph.parts):
        for index in part:
            for value in graph.steps[index].values():
                writers.setdefault(graph.owner(value.buffer), set()).add((number, graph.steps[index].kind))
    large = []
    for owner, buffers in pieces.items():
        nbytes, by = at(owner.nbytes, size), writers.get(owner, set())
        alike = all(one.kind == "temporary" and not one.kept and at(one.nbytes, size) == nbytes for one in buffers)
        alike = alike and all(one.itself is not None for one in buffers)
        if nbytes >= LARGE and alike and len(by) == 1 and next(iter(by))[1] == "native":
            large.append((-nbytes, spans[owner][1], owner.index, owner))
    return [owner for *_, owner in sorted(large, key=lambda one: one[:3])[:TRIES]]
