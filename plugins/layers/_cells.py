"""One step of each kind of recurrent layer, and the walk of a step along a sequence.

A step takes the input's share of the gates, the state (a tuple of tensors (batch, size)), the hidden weight transposed,
the hidden bias and the projection, and returns the next state, whose first tensor is the output.
"""

from __future__ import annotations

import plugrad
from plugrad.extend import F as Ops
from plugrad.nn import functional as F

# How many gates the weights of each kind hold, one above the other.
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def share_of_input(mode, input, weight, bias, hidden_bias):
    """Return the input's share of the gates; it takes over the hidden bias where that is only added."""
    if mode != "GRU" and bias is not None:
        bias = bias + hidden_bias
    return F.linear(input, weight, bias)


def tanh_step(share, state, weight, bias, projection):
    """h' = tanh(W x + U h + b): J. Elman, "Finding structure in time", 1990."""
    return (plugrad.addmm(share, state[0], weight).tanh(),)


def relu_step(share, state, weight, bias, projection):
    """h' = relu(W x + U h + b)."""
    return (plugrad.addmm(share, state[0], weight).relu(),)


def lstm_step(share, state, weight, bias, projection):
    """Long short-term memory: S. Hochreiter, J. Schmidhuber, 1997; forget gate F. Gers et al., 2000."""
    hidden, cell = Ops.lstm_gates(plugrad.addmm(share, state[0], weight), state[1])
    return (hidden if projection is None else F.linear(hidden, projection)), cell


def gru_step(share, state, weight, bias, projection):
    """Gated recurrent unit, the reset gate after the product: K. Cho et al., arXiv:1406.1078."""
    hidden = state[0]
    of_hidden = hidden @ weight if bias is None else plugrad.addmm(bias, hidden, weight)
    return (Ops.gru_gates(share, of_hidden, hidden),)


STEPS = {"RNN_TANH": tanh_step, "RNN_RELU": relu_step, "LSTM": lstm_step, "GRU": gru_step}


def walk(step, shares, state, weights, reverse):
    """Take a step for each share; return (outputs, last state).

    Later shares may belong to fewer sequences, when shorter ones have ended: the first of the batch go on. Backwards,
    sequences begin with their first state when their end is reached.
    """
    outputs, ended, first = [], [], state
    if reverse:
        shares = shares[::-1]
        state = tuple(part[: shares[0].shape[0]] for part in first)
    size = shares[0].shape[0]
    for share in shares:
        now = share.shape[0]
        if now < size:
            ended.append(tuple(part[now:] for part in state))
            state = tuple(part[:now] for part in state)
        elif now > size:
            state = tuple(plugrad.cat([part, begin[size:now]]) for part, begin in zip(state, first))
        size = now
        state = step(share, state, *weights)
        outputs.append(state[0])
    if ended:
        state = tuple(plugrad.cat(parts) for parts in zip(state, *ended[::-1]))
    return (outputs[::-1] if reverse else outputs), state
