"""One step of each kind of recurrent layer, and the walk along sequences.

A step takes the input's share of the gates, the state (a tuple of tensors (batch, size)), the hidden weight transposed,
the hidden bias and the projection, and returns the next state, whose first tensor is the output.
"""

from __future__ import annotations

import itertools

import plugrad
from plugrad.extend import F as Ops
from plugrad.nn import functional as F

# How many gates the weights of each kind hold, one above the other.
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def _is_tensor(value) -> bool:
    """Whether a value is a tensor, or stands for one, as those do that ops ask by `__torch_function__`."""
    return isinstance(value, plugrad.Tensor) or hasattr(type(value), "__torch_function__")


def check_tensor(input) -> None:
    """Raise TypeError if what a layer is called with is no tensor."""
    if not _is_tensor(input):
        raise TypeError(f"input must be a tensor, not {type(input).__name__}")


def given_state(hx, count) -> tuple:
    """Return a given state as a tuple of `count` tensors; TypeError for anything else."""
    given = (hx,) if count == 1 else hx
    whole = isinstance(given, (tuple, list)) and len(given) == count
    if not whole or not all(map(_is_tensor, given)):
        raise TypeError(f"hx must be {'a tensor' if count == 1 else 'a tuple (h, c) of tensors'}, not {hx!r}")
    return tuple(given)


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
    outputs, cells = Ops.lstm_sequence(share[None], *state, weight)
    return (outputs[0] if projection is None else F.linear(outputs[0], projection)), cells[0]


def gru_step(share, state, weight, bias, projection):
    """Gated recurrent unit, the reset gate after the product: K. Cho et al., arXiv:1406.1078."""
    return (Ops.gru_sequence(share[None], state[0], weight, bias)[0],)


STEPS = {"RNN_TANH": tanh_step, "RNN_RELU": relu_step, "LSTM": lstm_step, "GRU": gru_step}


def lstm_run(shares, state, weight, bias, projection):
    """Take a step of an LSTM for each share: one op, unless a projection comes between the steps."""
    if projection is not None:
        outputs = []
        for share in shares.unbind(0):
            state = lstm_step(share, state, weight, bias, projection)
            outputs.append(state[0])
        return plugrad.stack(outputs), state
    outputs, cells = Ops.lstm_sequence(shares, *state, weight)
    return outputs, (outputs[-1], cells[-1])


def gru_run(shares, state, weight, bias, projection):
    """Take a step of a GRU for each share, in one op."""
    outputs = Ops.gru_sequence(shares, state[0], weight, bias)
    return outputs, (outputs[-1],)


def rnn_run(relu):
    """Return the function that takes a step of a plain recurrent network for each share, in one op."""

    def run(shares, state, weight, bias, projection):
        outputs = Ops.rnn_sequence(shares, state[0], weight, relu)
        return outputs, (outputs[-1],)

    return run


RUNS = {"RNN_TANH": rnn_run(False), "RNN_RELU": rnn_run(True), "LSTM": lstm_run, "GRU": gru_run}


def walk(run, blocks, state, weights, reverse):
    """Take a step for each share of the gates; return (outputs of each block, last state).

    `blocks` (steps, batch, gates) hold the shares of steps with the same batch. Later blocks may have fewer sequences,
    when shorter ones have ended: the first of the batch go on. Backwards, sequences begin with their first state when
    their end is reached.
    """
    outputs, ended, first = [], [], state
    if reverse:
        blocks = [block.flip(0) for block in blocks[::-1]]
        state = tuple(part[: blocks[0].shape[1]] for part in first)
    size = blocks[0].shape[1]
    for block in blocks:
        now = block.shape[1]
        if now < size:
            ended.append(tuple(part[now:] for part in state))
            state = tuple(part[:now] for part in state)
        elif now > size:
            state = tuple(plugrad.cat([part, begin[size:now]]) for part, begin in zip(state, first))
        size = now
        output, state = run(block, state, *weights)
        outputs.append(output)
    if ended:
        state = tuple(plugrad.cat(parts) for parts in zip(state, *ended[::-1]))
    return ([output.flip(0) for output in outputs[::-1]] if reverse else outputs), state


def blocks_of(share, sizes):
    """Return packed rows as blocks (steps, batch, gates), one for each run of steps with the same batch."""
    blocks, start = [], 0
    for batch, steps in itertools.groupby(sizes):
        count = len(list(steps))
        blocks.append(share[start : start + count * batch].view(count, batch, -1))
        start += count * batch
    return blocks
