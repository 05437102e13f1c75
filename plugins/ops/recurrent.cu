// What follows the product of matrices in a step of a recurrent network, a thread for each unit of each example; see
// plugrad_cuda.h. Sums before the gates lie side by side: (batch, gates * units). Arrays of the state are (batch, units).

template <typename T> __device__ T logistic(T x) { return 1 / (1 + exp(-x)); }

// The first of a unit's sums where there are so many gates; the others follow by `units`.
__device__ long long place_of(long long i, long long units, int gates) { return i + i / units * units * (gates - 1); }

// Sums are what the input and the state give; gates are input, forget, cell and output.
template <typename T>
__global__ void lstm_step(long long size, const T *cell, const T *by_input, const T *by_state, T *output, T *after,
                          double of_units) {
    const long long i = PG_ELEMENT, units = (long long)of_units, at = place_of(i, units, 4);
    if (i >= size) return;
    const T in = logistic(by_input[at] + by_state[at]), keep = logistic(by_input[at + units] + by_state[at + units]);
    const T fresh = tanh(by_input[at + 2 * units] + by_state[at + 2 * units]);
    const T out = logistic(by_input[at + 3 * units] + by_state[at + 3 * units]), now = keep * cell[i] + in * fresh;
    after[i] = now, output[i] = out * tanh(now);
}

// `to_output` and `to_after` come from outside, `by_output` and `to_cell` from the later step; this one's `to_cell` replaces
// that.
template <typename T>
__global__ void lstm_step_grad(long long size, const T *cell, const T *after, const T *sums, const T *to_output,
                               const T *to_after, const T *by_output, T *to_cell, T *to_sums, double of_units) {
    const long long i = PG_ELEMENT, units = (long long)of_units, at = place_of(i, units, 4);
    if (i >= size) return;
    const T in = logistic(sums[at]), keep = logistic(sums[at + units]), fresh = tanh(sums[at + 2 * units]);
    const T out = logistic(sums[at + 3 * units]), squashed = tanh(after[i]);
    const T of_output = to_output[i] + by_output[i];
    const T of_cell = to_after[i] + to_cell[i] + of_output * out * (1 - squashed * squashed);
    to_sums[at] = of_cell * fresh * in * (1 - in);
    to_sums[at + units] = of_cell * cell[i] * keep * (1 - keep);
    to_sums[at + 2 * units] = of_cell * in * (1 - fresh * fresh);
    to_sums[at + 3 * units] = of_output * squashed * out * (1 - out);
    to_cell[i] = of_cell * keep;
}

// Reset, update and new gate; the reset comes after the product of the state, `products`.
template <typename T>
__global__ void gru_step(long long size, const T *hidden, const T *by_input, const T *products, T *output, double of_units) {
    const long long i = PG_ELEMENT, units = (long long)of_units, at = place_of(i, units, 3);
    if (i >= size) return;
    const T reset = logistic(by_input[at] + products[at]), update = logistic(by_input[at + units] + products[at + units]);
    const T fresh = tanh(by_input[at + 2 * units] + reset * products[at + 2 * units]);
    output[i] = fresh + update * (hidden[i] - fresh);
}

// `by_product` comes from the later step's product; `to_hidden` holds what that leaves to its state by way of the update
// gate, which this step's replaces.
template <typename T>
__global__ void gru_step_grad(long long size, const T *hidden, const T *by_input, const T *products, const T *to_output,
                              const T *by_product, T *to_hidden, T *to_input, T *to_products, double of_units) {
    const long long i = PG_ELEMENT, units = (long long)of_units, at = place_of(i, units, 3);
    if (i >= size) return;
    const T reset = logistic(by_input[at] + products[at]), update = logistic(by_input[at + units] + products[at + units]);
    const T product = products[at + 2 * units], fresh = tanh(by_input[at + 2 * units] + reset * product);
    const T of_state = to_output[i] + by_product[i] + to_hidden[i], of_fresh = of_state * (1 - update) * (1 - fresh * fresh);
    to_input[at] = to_products[at] = of_fresh * product * reset * (1 - reset);
    to_input[at + units] = to_products[at + units] = of_state * (hidden[i] - fresh) * update * (1 - update);
    to_input[at + 2 * units] = of_fresh, to_products[at + 2 * units] = of_fresh * reset;
    to_hidden[i] = of_state * update;
}
