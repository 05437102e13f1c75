"""Recurrent networks along a sequence, each as one op: a step has a dozen small ones otherwise."""

from __future__ import annotations

import functools
import pathlib

import plugrad
from plugrad.extend import Op, collect, hookimpl, is_half, load_inline, native, op

_SINGLE = plugrad.float32.numpy
_on_cuda = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_suffix(".cu"), per="block", numbers=1)
_whole = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_name("recurrent_sequences.cu"), per="block")
_lstm_steps = _whole(name="lstm_steps", arrays=6, numbers=3)
_lstm_steps_grad = _whole(name="lstm_steps_grad", arrays=10, numbers=3)
_gru_steps = _whole(name="gru_steps", arrays=5, numbers=3)
_gru_steps_grad = _whole(name="gru_steps_grad", arrays=9, numbers=2)
_rnn_steps = _whole(name="rnn_steps", arrays=4, numbers=3)
_rnn_steps_grad = _whole(name="rnn_steps_grad", arrays=5, numbers=3)
UNITS = 128  # as in recurrent_sequences.cu: up to here one launch is a whole sequence, and needs no cuBLAS


def _slopes(xp, n, dtype):
    """Return rows that make sigmoid or tanh of each gate from one tanh: sigmoid(x) = tanh(x / 2) / 2 + 1 / 2."""
    half = xp.full((4 * n,), 0.5, dtype=dtype)
    half[2 * n : 3 * n] = 1
    return half, 1 - half


def _before(F, hidden, outputs):
    """Return the state before each step."""
    hidden = F.reshape(hidden, (1, *hidden.shape))
    return hidden if outputs.shape[0] == 1 else F.cat([hidden, outputs[:-1]], 0)


@op(at=(), autocast="lower")
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
    outputs = xp.empty((gates.shape[0], *cell.shape), dtype=cell.dtype)
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


@lstm_sequence.samples
def lstm_sequence_samples(make):
    yield make(3, 2, 12), make(2, 3), make(2, 3), make(3, 12)
    yield make(1, 4), make(1), make(1), make(1, 4)


@lstm_sequence.kernel("cpu")
@native("lstm", otherwise=lstm_sequence)
def lstm_in_c(call, xp, gates, hidden, cell, weight):
    outputs = xp.empty((gates.shape[0], *cell.shape), cell.dtype)
    cells = xp.empty_like(outputs)
    done = call(*map(xp.ascontiguousarray, (gates, hidden, cell)), weight, outputs, cells)
    return (outputs, cells) if done is None else done


@lstm_sequence.vjp("gates", "hidden", "cell", "weight")
def lstm_sequence_vjp(F, grads, y, gates, hidden, cell, weight):
    if cell.dtype.itemsize == 2:
        grads, y = [F.to_copy(g, _SINGLE) for g in grads], [F.to_copy(value, _SINGLE) for value in y]
        return lstm_sequence_vjp(F, grads, y, *[F.to_copy(value, _SINGLE) for value in (gates, hidden, cell, weight)])
    n, steps = cell.shape[-1], gates.shape[0]
    before, cells_before = _before(F, hidden, y[0]), _before(F, cell, y[1])
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
    values = [*map(xp.ascontiguousarray, (*grads, *y, gates, hidden, cell)), weight]
    results = [xp.empty_like(value) for value in values[4:]]
    return results if call(*values, *results) is None else NotImplemented


def _launch(call, state, *arrays):
    """Run the kernel of a step, a thread for each element of the state, which comes first."""
    return call(state, *arrays, state.shape[-1], blocks=-(-state.size // 256))


def _products(xp, hidden, outputs, weight):
    """Return the products of the state before each step with a weight, whose columns they have."""
    steps, columns = len(outputs), weight.shape[1]
    products = xp.empty((steps, *hidden.shape[:-1], columns), weight.dtype)
    xp.matmul(hidden.reshape(-1, len(weight)), weight, out=products[0].reshape(-1, columns))
    if steps > 1:
        xp.matmul(outputs[:-1].reshape(-1, len(weight)), weight, out=products[1:].reshape(-1, columns))
    return products


def _to_weight(xp, hidden, outputs, to_products):
    """Return the gradient of a weight from that of all its products with the state."""
    rows, columns = hidden.shape[-1], to_products.shape[-1]
    result = xp.matmul(hidden.reshape(-1, rows).T, to_products[0].reshape(-1, columns))
    if len(outputs) > 1:
        later = outputs[:-1].reshape(-1, rows).T, to_products[1:].reshape(-1, columns)
        if xp.gemm(*later, result, added=True) is NotImplemented:
            result += xp.matmul(*later)
    return result


def _earlier(state, after, t):
    """Return the state before step `t`."""
    return after[t - 1] if t else state


def _in_order(xp, *arrays):
    """Return arrays in C order; those of half precision in float32, in which steps are computed."""
    return [xp.ascontiguousarray(array.astype(_SINGLE) if is_half(array.dtype) else array) for array in arrays]


@lstm_sequence.kernel("cuda")
@native(_on_cuda(name="lstm_step", arrays=5), otherwise=lstm_sequence)
def lstm_on_cuda(call, xp, gates, hidden, cell, weight):
    dtype, (rows, columns), steps = cell.dtype, weight.shape, len(gates)
    gates, hidden, cell, weight = _in_order(xp, gates, hidden, cell, weight)
    outputs = xp.empty((steps, *cell.shape), cell.dtype)
    cells = xp.empty_like(outputs)
    if max(rows, columns // 4) <= UNITS and cell.size:
        numbers = steps, columns // 4, rows
        done = _lstm_steps(gates, hidden, cell, weight, outputs, cells, *numbers, blocks=cell.size * 4 // columns)
        if done is NotImplemented:
            return done
    else:
        for share, output, after in zip(gates, outputs, cells):
            if _launch(call, cell, share, xp.matmul(hidden, weight), output, after) is NotImplemented:
                return NotImplemented
            hidden, cell = output, after
    return outputs.astype(dtype, copy=False), cells.astype(dtype, copy=False)


@lstm_sequence.vjp_kernel("cuda", "gates", "hidden", "cell", "weight")
@native(_on_cuda(name="lstm_step_grad", arrays=8))
def lstm_grad_on_cuda(call, xp, grads, y, gates, hidden, cell, weight):
    (rows, columns), steps, dtype = weight.shape, len(gates), cell.dtype
    if not cell.size or not rows:
        return NotImplemented
    turned, *values = _in_order(xp, weight.T, *grads, *y, gates, hidden, cell)
    to_outputs, to_cells, outputs, cells, gates, hidden, cell = values
    products = _products(xp, hidden, outputs, turned.T)
    to_sums, to_cell, to_hidden = xp.empty_like(gates), xp.empty_like(cell), xp.empty_like(hidden)
    if max(rows, columns // 4) <= UNITS:
        arrays = to_outputs, to_cells, gates, products, cell, cells, turned, to_sums, to_hidden, to_cell
        done = _lstm_steps_grad(*arrays, steps, columns // 4, rows, blocks=cell.size * 4 // columns)
        if done is NotImplemented:
            return done
    else:
        products += gates
        to_cell, to_hidden = xp.zeros_like(cell), xp.zeros_like(cell)
        for t in range(steps - 1, -1, -1):
            arrays = cells[t], products[t], to_outputs[t], to_cells[t], to_hidden, to_cell, to_sums[t]
            if _launch(call, _earlier(cell, cells, t), *arrays) is NotImplemented:
                return NotImplemented
            to_hidden = xp.matmul(to_sums[t], turned)
    results = to_sums, to_hidden, to_cell, _to_weight(xp, hidden, outputs, to_sums)
    return [result.astype(dtype, copy=False) for result in results]


@lstm_sequence.meta
def lstm_sequence_meta(gates, hidden, cell, weight):
    shape = (gates.shape[0], *cell.shape)
    return [(shape, cell.dtype), (shape, cell.dtype)]


def _in_single(F, formula, *values):
    """Carry out a formula of half precision in float32."""
    single = [value if value is None or isinstance(value, bool) else F.to_copy(value, _SINGLE) for value in values]
    return [result if result is None else F.to_copy(result, values[0].dtype) for result in formula(F, *single)]


def _outputs_meta(gates, hidden, *rest):
    return (gates.shape[0], *hidden.shape), hidden.dtype


@op(at=(), autocast={"cuda": "lower"})
def gru_sequence(xp, gates, hidden, weight, bias):
    """Return the states (steps, batch, size) of a GRU after each step of a sequence.

    `gates` (steps, batch, 3 * size) holds the input's shares of the sums before the reset, update and new gates,
    `hidden` (batch, size) the first state; `weight` (size, 3 * size) and `bias` (3 * size) or None make the state's.
    K. Cho et al., arXiv:1406.1078; the reset gate comes after the product.
    """
    if is_half(hidden.dtype):
        values = [value if value is None else value.astype(_SINGLE) for value in (gates, hidden, weight, bias)]
        return gru_sequence.kernels["*"](xp, *values).astype(hidden.dtype)
    n = hidden.shape[-1]
    outputs = xp.empty((gates.shape[0], *hidden.shape), dtype=hidden.dtype)
    for share, output in zip(gates, outputs):
        of_hidden = xp.matmul(hidden, weight)
        if bias is not None:
            of_hidden += bias
        both = xp.tanh((share[..., : 2 * n] + of_hidden[..., : 2 * n]) * 0.5)
        both *= 0.5
        both += 0.5
        new = xp.tanh(share[..., 2 * n :] + both[..., :n] * of_hidden[..., 2 * n :])
        xp.add(new, both[..., n:] * (hidden - new), out=output)
        hidden = output
    return outputs


@gru_sequence.samples
def gru_sequence_samples(make):
    yield make(3, 2, 9), make(2, 3), make(3, 9), make(9)
    yield make.args(make(1, 2, 3), make(2, 1), make(1, 3), None)


@gru_sequence.kernel("cpu")
@native("gru", otherwise=gru_sequence)
def gru_in_c(call, xp, gates, hidden, weight, bias):
    outputs = xp.empty((gates.shape[0], *hidden.shape), hidden.dtype)
    rest = () if bias is None else (xp.ascontiguousarray(bias),)
    done = call(xp.ascontiguousarray(gates), xp.ascontiguousarray(hidden), weight, outputs, *rest)
    return outputs if done is None else done


@gru_sequence.vjp("gates", "hidden", "weight", "bias")
def gru_sequence_vjp(F, grad, y, gates, hidden, weight, bias):
    if hidden.dtype.itemsize == 2:
        return _in_single(F, gru_sequence_vjp, grad, y, gates, hidden, weight, bias)
    n, steps, before = hidden.shape[-1], gates.shape[0], _before(F, hidden, y)
    products = F.matmul(before, weight) if bias is None else F.matmul(before, weight) + bias
    both = F.sigmoid(gates[..., : 2 * n] + products[..., : 2 * n])
    reset, update, product = both[..., :n], both[..., n:], products[..., 2 * n :]
    new = F.tanh(gates[..., 2 * n :] + reset * product)
    of_new = (1 - update) * (1 - new * new)
    of_update, of_reset = (before - new) * update * (1 - update), of_new * product * reset * (1 - reset)
    of_sums, back = F.cat([of_reset, of_update, of_new * reset], -1), F.transpose(weight, 0, 1)
    to_hidden, to_states = 0.0, []
    for t in range(steps - 1, -1, -1):
        to_states.append(grad[t] + to_hidden)
        to_sums = F.cat([to_states[-1]] * 3, -1) * of_sums[t]
        to_hidden = to_states[-1] * update[t] + F.matmul(to_sums, back)
    to_state = F.stack(to_states[::-1], 0)
    to_sums = F.cat([to_state, to_state, to_state], -1) * of_sums
    to_gates = F.cat([to_sums[..., : 2 * n], to_state * of_new], -1)
    rows = F.transpose(F.reshape(before, (-1, n)), 0, 1)
    to_weight = F.matmul(rows, F.reshape(to_sums, (-1, 3 * n)))
    return to_gates, to_hidden, to_weight, None if bias is None else F.sum(to_sums, (0, 1))


@gru_sequence.vjp_kernel("cpu", "gates", "hidden", "weight", "bias")
@native("gru_grad")
def gru_grad_in_c(call, xp, grad, y, gates, hidden, weight, bias):
    values = [*map(xp.ascontiguousarray, (grad, y, gates, hidden)), weight]
    results = [*map(xp.empty_like, values[2:]), xp.empty(weight.shape[1], weight.dtype)]
    rest = () if bias is None else (xp.ascontiguousarray(bias),)
    if call(*values, *results, *rest) is NotImplemented:
        return NotImplemented
    return results if rest else (*results[:3], None)


@gru_sequence.kernel("cuda")
@native(_on_cuda(name="gru_step", arrays=4), otherwise=gru_sequence)
def gru_on_cuda(call, xp, gates, hidden, weight, bias):
    dtype, steps, (units, columns) = hidden.dtype, len(gates), weight.shape
    gates, hidden, weight, bias = _in_order(xp, gates, hidden, weight, weight if bias is None else bias)
    outputs = xp.empty((steps, *hidden.shape), hidden.dtype)
    biased = bias.shape == (columns,)
    if units <= UNITS and hidden.size:
        arrays = gates, hidden, weight, bias, outputs
        if _gru_steps(*arrays, steps, units, biased, blocks=hidden.size // units) is NotImplemented:
            return NotImplemented
    else:
        for share, output in zip(gates, outputs):
            products = xp.matmul(hidden, weight)
            if biased:
                products += bias
            if _launch(call, hidden, share, products, output) is NotImplemented:
                return NotImplemented
            hidden = output
    return outputs.astype(dtype, copy=False)


@gru_sequence.vjp_kernel("cuda", "gates", "hidden", "weight", "bias")
@native(_on_cuda(name="gru_step_grad", arrays=8))
def gru_grad_on_cuda(call, xp, grad, y, gates, hidden, weight, bias):
    dtype, steps, units = hidden.dtype, len(gates), len(weight)
    if not hidden.size:
        return NotImplemented
    turned, to_outputs, outputs, gates, hidden = _in_order(xp, weight.T, grad, y, gates, hidden)
    products = _products(xp, hidden, outputs, turned.T)
    if bias is not None:
        products += bias
    to_gates, to_products, to_hidden = xp.empty_like(gates), xp.empty_like(gates), xp.empty_like(hidden)
    if units <= UNITS:
        arrays = to_outputs, gates, products, hidden, outputs, turned, to_gates, to_products, to_hidden
        if _gru_steps_grad(*arrays, steps, units, blocks=hidden.size // units) is NotImplemented:
            return NotImplemented
    else:
        to_hidden, by_product = xp.zeros_like(hidden), xp.zeros_like(hidden)
        for t in range(steps - 1, -1, -1):
            arrays = gates[t], products[t], to_outputs[t], by_product, to_hidden, to_gates[t], to_products[t]
            if _launch(call, _earlier(hidden, outputs, t), *arrays) is NotImplemented:
                return NotImplemented
            by_product = xp.matmul(to_products[t], turned)
        to_hidden += by_product
    to_bias = None if bias is None else to_products.reshape(-1, turned.shape[0]).sum(0)
    results = to_gates, to_hidden, _to_weight(xp, hidden, outputs, to_products), to_bias
    return [result if result is None else result.astype(dtype, copy=False) for result in results]


gru_sequence.meta(_outputs_meta)


@op(at=(), autocast="lower")
def rnn_sequence(xp, sums, hidden, weight, relu):
    """Return the states of a plain recurrent network after each step of a sequence.

    They are (steps, batch, size), as `sums`, which holds all that is added but the product of the state: `hidden`
    (batch, size) at first, and `weight` (size, size). `relu`: the rectifier comes then, not tanh. J. Elman, 1990.
    """
    if is_half(hidden.dtype):
        values = [value.astype(_SINGLE) for value in (sums, hidden, weight)]
        return rnn_sequence.kernels["*"](xp, *values, relu).astype(hidden.dtype)
    outputs = xp.empty(sums.shape, dtype=hidden.dtype)
    for share, output in zip(sums, outputs):
        xp.add(xp.matmul(hidden, weight), share, out=output)
        hidden = xp.maximum(output, 0, out=output) if relu else xp.tanh(output, out=output)
    return outputs


@rnn_sequence.kernel("cpu")
@native("rnn", otherwise=rnn_sequence)
def rnn_in_c(call, xp, sums, hidden, weight, relu):
    outputs = xp.empty(sums.shape, hidden.dtype)
    done = call(xp.ascontiguousarray(sums), xp.ascontiguousarray(hidden), weight, outputs, relu)
    return outputs if done is None else done


@rnn_sequence.vjp("sums", "hidden", "weight")
def rnn_sequence_vjp(F, grad, y, hidden, weight, relu):
    if hidden.dtype.itemsize == 2:
        return _in_single(F, rnn_sequence_vjp, grad, y, hidden, weight, relu)
    slopes = y != 0 if relu else 1 - y * y
    back, to_hidden, to_sums = F.transpose(weight, 0, 1), 0.0, []
    for t in range(y.shape[0] - 1, -1, -1):
        to_state = grad[t] + to_hidden
        to_sums.append(F.where(slopes[t], to_state, 0.0) if relu else to_state * slopes[t])
        to_hidden = F.matmul(to_sums[-1], back)
    n, to_sums = weight.shape[0], F.stack(to_sums[::-1], 0)
    rows = F.transpose(F.reshape(_before(F, hidden, y), (-1, n)), 0, 1)
    return to_sums, to_hidden, F.matmul(rows, F.reshape(to_sums, (-1, n)))


@rnn_sequence.vjp_kernel("cpu", "sums", "hidden", "weight")
@native("rnn_grad")
def rnn_grad_in_c(call, xp, grad, y, hidden, weight, relu):
    values = [*map(xp.ascontiguousarray, (grad, y, hidden)), weight]
    results = [*map(xp.empty_like, values[1:])]
    return results if call(*values, *results, relu) is None else NotImplemented


@rnn_sequence.kernel("cuda")
@native(_rnn_steps, otherwise=rnn_sequence)
def rnn_on_cuda(call, xp, sums, hidden, weight, relu):
    dtype, units = hidden.dtype, len(weight)
    if units > UNITS or not hidden.size:
        return NotImplemented
    sums, hidden, weight = _in_order(xp, sums, hidden, weight)
    outputs = xp.empty(sums.shape, sums.dtype)
    if call(sums, hidden, weight, outputs, len(sums), units, relu, blocks=hidden.size // units) is NotImplemented:
        return NotImplemented
    return outputs.astype(dtype, copy=False)


@rnn_sequence.vjp_kernel("cuda", "sums", "hidden", "weight")
@native(_rnn_steps_grad)
def rnn_grad_on_cuda(call, xp, grad, y, hidden, weight, relu):
    dtype, units = hidden.dtype, len(weight)
    if units > UNITS or not hidden.size:
        return NotImplemented
    turned, grad, outputs, hidden = _in_order(xp, weight.T, grad, y, hidden)
    to_sums, to_hidden = xp.empty_like(outputs), xp.empty_like(hidden)
    arrays, blocks = (grad, outputs, turned, to_sums, to_hidden), hidden.size // units
    if call(*arrays, len(outputs), units, relu, blocks=blocks) is NotImplemented:
        return NotImplemented
    results = to_sums, to_hidden, _to_weight(xp, hidden, outputs, to_sums)
    return [result.astype(dtype, copy=False) for result in results]


rnn_sequence.meta(_outputs_meta)


@rnn_sequence.samples
def rnn_sequence_samples(make):
    yield make(3, 2, 4), make(2, 4), make(4, 4), False
    yield make(3, 2, 4), make(2, 4), make(4, 4), True


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
