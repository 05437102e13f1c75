"""An LSTM along a sequence, and a step of a GRU, each as one op: a step has a dozen small ones otherwise."""

from __future__ import annotations

import plugrad
from plugrad.extend import Op, collect, hookimpl, is_half, native, op

_SINGLE = plugrad.float32.numpy


def _slopes(xp, n, dtype):
    """Return rows that make sigmoid or tanh of each gate from one tanh: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    half = xp.full((4 * n,), 0.5, dtype=dtype)
    half[2 * n : 3 * n] = 1
    return half, 1 - half


@op(at=(), autocast={"cuda": "lower"})
def lstm_sequence(xp, gates, hidden, cell, weight):
    """Return (outputs, cells) of an LSTM after each step of a sequence.

    Both are (steps, batch, size). `gates` (steps, batch, 4 * size) holds the input's shares of the sums before the
    input, forget, cell and output gates, `hidden` and `cell` (batch, size) the first state; `weight` (size, 4 * size)
    leads from each step's hidden state to the next one's gates. Of a single step `hidden` may have another size.
    S. Hochreiter, J. Schmidhuber, 1997; F. Gers, J. Schmidhuber, F. Cummins, 2000.
    """
    if is_half(cell.dtype):  # the steps in float32, so that what is rounded off in one does not add up over all
        results = lstm_sequence_kernel(xp, *[value.astype(_SINGLE) for value in (gates, hidden, cell, weight)])
        return tuple([result.astype(cell.dtype) for result in results])
    n = cell.shape[-1]
    half, rest = _slopes(xp, n, gates.dtype)
    shares, inner = gates * half, weight * half
    outputs = xp.empty((len(gates), *cell.shape), dtype=cell.dtype)
    cells = xp.empty_like(outputs)
    for share, output, after in zip(shares, outputs, cells):
        active = xp.matmul(hidden, inner)
        active += share
        xp.tanh(active, out=active)
        active *= half
        active += rest
        xp.multiply(active[..., n : 2 * n], cell, out=after)
        after += active[..., :n] * active[..., 2 * n : 3 * n]
        xp.multiply(active[..., 3 * n :], xp.tanh(after), out=output)
        hidden, cell = output, after
    return outputs, cells


lstm_sequence_kernel = lstm_sequence.kernel_for("*")


@lstm_sequence.kernel("cpu")
@native("lstm", otherwise=lstm_sequence)
def lstm_in_c(call, xp, gates, hidden, cell, weight):
    outputs = xp.empty((len(gates), *cell.shape), cell.dtype)
    cells = xp.empty_like(outputs)
    done = call(*map(xp.ascontiguousarray, (gates, hidden, cell, weight)), outputs, cells)
    return (outputs, cells) if done is None else done


@lstm_sequence.vjp("gates", "hidden", "cell", "weight")
def lstm_sequence_vjp(F, grads, y, gates, hidden, cell, weight):
    if cell.dtype.itemsize == 2:
        grads, y = [F.to_copy(g, _SINGLE) for g in grads], [F.to_copy(value, _SINGLE) for value in y]
        return lstm_sequence_vjp(F, grads, y, *[F.to_copy(value, _SINGLE) for value in (gates, hidden, cell, weight)])
    n, steps = cell.shape[-1], gates.shape[0]
    before, cells_before = F.reshape(hidden, (1, *hidden.shape)), F.reshape(cell, (1, *cell.shape))
    if steps > 1:
        before, cells_before = F.cat([before, y[0][:-1]], 0), F.cat([cells_before, y[1][:-1]], 0)
    sums = F.matmul(before, weight) + gates
    i, f = F.sigmoid(sums[..., :n]), F.sigmoid(sums[..., n : 2 * n])
    g, o = F.tanh(sums[..., 2 * n : 3 * n]), F.sigmoid(sums[..., 3 * n :])
    squashed = F.tanh(y[1])
    by_hidden = o * (1 - squashed * squashed)  # a cell's share of the output
    of_cell = F.cat([g * i * (1 - i), cells_before * f * (1 - f), i * (1 - g * g)], -1)
    of_output = squashed * o * (1 - o)
    back = F.transpose(weight, 0, 1)
    to_hidden, to_cell, to_gates = 0.0, 0.0, []
    for t in range(steps - 1, -1, -1):
        to_hidden = grads[0][t] + to_hidden
        to_cell = grads[1][t] + to_cell + to_hidden * by_hidden[t]
        to_gates.append(F.cat([F.cat([to_cell, to_cell, to_cell], -1) * of_cell[t], to_hidden * of_output[t]], -1))
        to_hidden, to_cell = F.matmul(to_gates[-1], back), to_cell * f[t]
    to_gates = F.stack(to_gates[::-1], 0)
    rows = F.transpose(F.reshape(before, (-1, weight.shape[0])), 0, 1)
    return to_gates, to_hidden, to_cell, F.matmul(rows, F.reshape(to_gates, (-1, 4 * n)))


@lstm_sequence.vjp_kernel("cpu", "gates", "hidden", "cell", "weight")
@native("lstm_grad")
def lstm_grad_in_c(call, xp, grads, y, gates, hidden, cell, weight):
    values = [xp.ascontiguousarray(value) for value in (*grads, *y, gates, hidden, cell, weight)]
    results = [xp.empty_like(value) for value in values[4:]]
    return results if call(*values, *results) is None else NotImplemented


@lstm_sequence.meta
def lstm_sequence_meta(gates, hidden, cell, weight):
    shape = (gates.shape[0], *cell.shape)
    return [(shape, cell.dtype), (shape, cell.dtype)]


@lstm_sequence.samples
def lstm_sequence_samples(make):
    yield make(3, 2, 12), make(2, 3), make(2, 3), make(3, 12)
    yield make(1, 4), make(1), make(1), make(1, 4)


@op(at=(), like="hidden")
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


@gru_gates.samples
def gru_gates_samples(make):
    yield make(2, 9), make(2, 9), make(2, 3)
    yield make(3), make(3), make(1)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
