"""What an LSTM and a GRU do with their gates in one step, each as one op: a step has a dozen small ones otherwise."""

from __future__ import annotations

from plugrad.extend import Op, collect, hookimpl, op


def _lstm(xp, gates, n):
    """Return the gates i, f, g, o: one call of tanh serves all, since sigmoid(x) = (1 + tanh(x / 2)) / 2."""
    half = gates * 0.5
    half[..., 2 * n : 3 * n] = gates[..., 2 * n : 3 * n]
    active = xp.tanh(half)
    for part in (active[..., : 2 * n], active[..., 3 * n :]):
        part *= 0.5
        part += 0.5
    return active[..., :n], active[..., n : 2 * n], active[..., 2 * n : 3 * n], active[..., 3 * n :]


@op(at=())
def lstm_gates(xp, gates, cell):
    """Return (hidden, cell) after one step of an LSTM.

    `gates` (batch, 4 * size) holds the sums before the input, forget, cell and output gates, `cell` (batch, size) what
    the cells hold before. S. Hochreiter, J. Schmidhuber, 1997; F. Gers, J. Schmidhuber, F. Cummins, 2000.
    """
    i, f, g, o = _lstm(xp, gates, cell.shape[-1])
    after = f * cell
    after += i * g
    hidden = o * xp.tanh(after)  # in float32 where the cell is bfloat16
    return hidden.astype(cell.dtype, copy=False), after.astype(cell.dtype, copy=False)


@lstm_gates.vjp("gates", "cell")
def lstm_gates_vjp(F, grads, y, gates, cell):
    n = cell.shape[-1]
    i, f = F.sigmoid(gates[..., :n]), F.sigmoid(gates[..., n : 2 * n])
    g, o = F.tanh(gates[..., 2 * n : 3 * n]), F.sigmoid(gates[..., 3 * n :])
    of_hidden, of_cell = grads
    squashed = F.tanh(y[1])
    of_cell = of_cell + of_hidden * o * (1 - squashed * squashed)
    parts = [
        of_cell * g * i * (1 - i),
        of_cell * cell * f * (1 - f),
        of_cell * i * (1 - g * g),
        of_hidden * squashed * o * (1 - o),
    ]
    return F.cat(parts, -1), of_cell * f


@lstm_gates.meta
def lstm_gates_meta(gates, cell):
    return [(cell.shape, cell.dtype), (cell.shape, cell.dtype)]


@lstm_gates.samples
def lstm_gates_samples(make):
    yield make(2, 12), make(2, 3)
    yield make(4), make(1)


@op(at=())
def gru_gates(xp, of_input, of_hidden, hidden):
    """Return the state after one step of a GRU.

    `of_input` and `of_hidden` (batch, 3 * size) are their shares of the sums before the reset, update and new gates.
    K. Cho et al., arXiv:1406.1078; the reset gate comes after the product.
    """
    n = hidden.shape[-1]
    both = xp.tanh((of_input[..., : 2 * n] + of_hidden[..., : 2 * n]) * 0.5)
    both *= 0.5
    both += 0.5
    new = xp.tanh(of_input[..., 2 * n :] + both[..., :n] * of_hidden[..., 2 * n :])
    return (new + both[..., n:] * (hidden - new)).astype(hidden.dtype, copy=False)


@gru_gates.vjp("of_input", "of_hidden", "hidden")
def gru_gates_vjp(F, grad, of_input, of_hidden, hidden):
    n = hidden.shape[-1]
    both = F.sigmoid(of_input[..., : 2 * n] + of_hidden[..., : 2 * n])
    reset, update = both[..., :n], both[..., n:]
    product = of_hidden[..., 2 * n :]
    new = F.tanh(of_input[..., 2 * n :] + reset * product)
    before_new = grad * (1 - update) * (1 - new * new)
    before_update = grad * (hidden - new) * update * (1 - update)
    before_reset = before_new * product * reset * (1 - reset)
    return (
        F.cat([before_reset, before_update, before_new], -1),
        F.cat([before_reset, before_update, before_new * reset], -1),
        grad * update,
    )


@gru_gates.meta
def gru_gates_meta(of_input, of_hidden, hidden):
    return hidden.shape, hidden.dtype


@gru_gates.samples
def gru_gates_samples(make):
    yield make(2, 9), make(2, 9), make(2, 3)
    yield make(3), make(3), make(1)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
