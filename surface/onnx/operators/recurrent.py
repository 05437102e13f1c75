"""Recurrent operators, step by step."""

from __future__ import annotations

import plugrad
from plugrad.onnx.declaring import operator


def _plain_recurrence(node):
    has = node.attributes
    if any(has.get(key) for key in ("activations", "clip", "input_forget", "layout", "activation_alpha")):
        raise NotImplementedError(f"{node.kind} with activations, clip, input_forget or layout of its own")


def _directions(node, x, initial, run):
    """Run one or two directions; return the outputs (steps, directions, batch, size) and the last states."""
    which = {"forward": (0,), "reverse": (1,), "bidirectional": (0, 1)}[node.attributes.get("direction", "forward")]
    outputs, states = [], []
    for place, backward in enumerate(which):
        steps = (x.flip(0) if backward else x).unbind(0)
        state, rows = [one[place] for one in initial], []
        for step in steps:
            state = run(place, step, state)
            rows.append(state[0])
        row = plugrad.stack(rows)
        outputs.append(row.flip(0) if backward else row)
        states.append(state)
    return (plugrad.stack(outputs, 1), *[plugrad.stack(one) for one in zip(*states)])


def _start(given, x, weight, hidden):
    return (
        plugrad.zeros(weight.shape[0], x.shape[1], hidden, dtype=x.dtype, device=x.device) if given is None else given
    )


@operator("LSTM")
def lstm(module, node, x, weight, inner, bias=None, lengths=None, hidden=None, cell=None, peepholes=None):
    _plain_recurrence(node)
    if lengths is not None or peepholes is not None:
        raise NotImplementedError("LSTM with lengths of sequences or peepholes")
    n = node.attributes["hidden_size"]

    def run(place, step, state):
        sums = step @ weight[place].t() + state[0] @ inner[place].t()
        sums = sums if bias is None else sums + bias[place, : 4 * n] + bias[place, 4 * n :]
        i, o, f, c = sums.split(n, -1)
        after = plugrad.sigmoid(f) * state[1] + plugrad.sigmoid(i) * plugrad.tanh(c)
        return [plugrad.sigmoid(o) * plugrad.tanh(after), after]

    return _directions(node, x, [_start(hidden, x, weight, n), _start(cell, x, weight, n)], run)


@operator("GRU")
def gru(module, node, x, weight, inner, bias=None, lengths=None, hidden=None):
    _plain_recurrence(node)
    if lengths is not None:
        raise NotImplementedError("GRU with lengths of sequences")
    n, after_product = node.attributes["hidden_size"], node.attributes.get("linear_before_reset", 0)

    def run(place, step, state):
        own = step @ weight[place].t() + (0 if bias is None else bias[place, : 3 * n])
        shift = plugrad.zeros(3 * n, dtype=x.dtype, device=x.device) if bias is None else bias[place, 3 * n :]
        before = state[0] @ inner[place, : 2 * n].t() + shift[: 2 * n]
        z, r = plugrad.sigmoid(own[:, : 2 * n] + before).split(n, -1)
        if after_product:
            new = plugrad.tanh(own[:, 2 * n :] + r * (state[0] @ inner[place, 2 * n :].t() + shift[2 * n :]))
        else:
            new = plugrad.tanh(own[:, 2 * n :] + (r * state[0]) @ inner[place, 2 * n :].t() + shift[2 * n :])
        return [(1 - z) * new + z * state[0]]

    return _directions(node, x, [_start(hidden, x, weight, n)], run)


@operator("RNN")
def rnn(module, node, x, weight, inner, bias=None, lengths=None, hidden=None):
    names = node.attributes.get("activations") or ["Tanh"]
    if lengths is not None or {one.lower() for one in names} - {"tanh", "relu"} or node.attributes.get("layout"):
        raise NotImplementedError("RNN with lengths of sequences, a layout, or other activations than Tanh and Relu")
    n = node.attributes["hidden_size"]

    def run(place, step, state):
        sums = step @ weight[place].t() + state[0] @ inner[place].t()
        sums = sums if bias is None else sums + bias[place, :n] + bias[place, n:]
        return [plugrad.relu(sums) if names[place % len(names)].lower() == "relu" else plugrad.tanh(sums)]

    return _directions(node, x, [_start(hidden, x, weight, n)], run)
