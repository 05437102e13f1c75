// Recurrent networks of few units along a whole sequence, a block for each example; see plugrad_cuda.h. A step's state is in
// shared memory, so that the product of each step with the weights, which a multiprocessor keeps in its cache, needs no launch.
// Arrays are (steps, batch, ...); a weight is (rows, columns), `rows` the size of the state. Each is at most UNITS.

const int UNITS = 128;

template <typename T> __device__ T logistic(T x) { return 1 / (1 + exp(-x)); }

// sums = given + state weight, of a step; without `given` the product alone.
template <typename T> __device__ void advance(const T *state, const T *weight, const T *given, T *sums, int rows, int columns) {
    __syncthreads(); /* until the state is there */
    for (int at = threadIdx.x; at < columns; at += PG_THREADS) {
        T sum = given ? given[at] : T(0);
#pragma unroll 8
        for (int k = 0; k < rows; k++) sum += state[k] * weight[(long long)k * columns + at];
        sums[at] = sum;
    }
    __syncthreads();
}

// The thread's element of given weight^T, the weight being given as `turned`, (columns, rows).
template <typename T> __device__ T retreat(const T *given, const T *turned, T *parts, int rows, int columns) {
    __syncthreads(); /* until what is given is there */
    const int slices = PG_THREADS / rows, slice = threadIdx.x / rows, k = threadIdx.x % rows;
    if (slice < slices) {
        T sum = 0;
#pragma unroll 8
        for (int at = slice; at < columns; at += slices) sum += given[at] * turned[(long long)at * rows + k];
        parts[threadIdx.x] = sum;
    }
    __syncthreads();
    T sum = 0;
    if (threadIdx.x < rows)
        for (int one = 0; one < slices; one++) sum += parts[one * rows + k];
    return sum;
}

template <typename T>
__global__ void lstm_steps(long long size, const T *gates, const T *hidden, const T *cell, const T *weight, T *outputs,
                           T *cells, double steps, double of_units, double of_rows) {
    __shared__ T state[UNITS], sums[4 * UNITS];
    const int units = (int)of_units, rows = (int)of_rows, i = threadIdx.x;
    const long long batch = gridDim.x, example = blockIdx.x;
    if (i < rows) state[i] = hidden[example * rows + i];
    T now = i < units ? cell[example * units + i] : T(0);
    for (long long t = 0; t < steps; t++) {
        const long long place = (t * batch + example) * units;
        advance(state, weight, gates + 4 * place, sums, rows, 4 * units);
        if (i < units) {
            const T in = logistic(sums[i]), keep = logistic(sums[units + i]), fresh = tanh(sums[2 * units + i]);
            now = keep * now + in * fresh;
            cells[place + i] = now, outputs[place + i] = state[i] = logistic(sums[3 * units + i]) * tanh(now);
        }
    }
}

// Sums before the gates are `gates` and `products`. `to_cells` and `to_outputs` come from outside.
template <typename T>
__global__ void lstm_steps_grad(long long size, const T *to_outputs, const T *to_cells, const T *gates, const T *products,
                                const T *cell, const T *cells, const T *turned, T *to_sums, T *to_hidden, T *to_cell,
                                double steps, double of_units, double of_rows) {
    __shared__ T given[4 * UNITS], parts[PG_THREADS];
    const int units = (int)of_units, rows = (int)of_rows, i = threadIdx.x;
    const long long batch = gridDim.x, example = blockIdx.x;
    T by_state = 0, by_cell = 0;
    for (long long t = (long long)steps - 1; t >= 0; t--) {
        const long long place = (t * batch + example) * units, at = 4 * place + i;
        if (i < units) {
            const T in = logistic(gates[at] + products[at]), keep = logistic(gates[at + units] + products[at + units]);
            const T fresh = tanh(gates[at + 2 * units] + products[at + 2 * units]);
            const T out = logistic(gates[at + 3 * units] + products[at + 3 * units]), squashed = tanh(cells[place + i]);
            const T before = t ? cells[place - batch * units + i] : cell[example * units + i];
            const T of_output = to_outputs[place + i] + by_state;
            const T of_cell = to_cells[place + i] + by_cell + of_output * out * (1 - squashed * squashed);
            to_sums[at] = given[i] = of_cell * fresh * in * (1 - in);
            to_sums[at + units] = given[units + i] = of_cell * before * keep * (1 - keep);
            to_sums[at + 2 * units] = given[2 * units + i] = of_cell * in * (1 - fresh * fresh);
            to_sums[at + 3 * units] = given[3 * units + i] = of_output * squashed * out * (1 - out);
            by_cell = of_cell * keep;
        }
        by_state = retreat(given, turned, parts, rows, 4 * units);
    }
    if (i < rows) to_hidden[example * rows + i] = by_state;
    if (i < units) to_cell[example * units + i] = by_cell;
}

// Reset, update and new gate; the reset comes after the product of the state. Without a bias any array stands in its place.
template <typename T>
__global__ void gru_steps(long long size, const T *gates, const T *hidden, const T *weight, const T *bias, T *outputs,
                          double steps, double of_units, double biased) {
    __shared__ T state[UNITS], products[3 * UNITS];
    const int units = (int)of_units, i = threadIdx.x;
    const long long batch = gridDim.x, example = blockIdx.x;
    T now = i < units ? hidden[example * units + i] : T(0);
    if (i < units) state[i] = now;
    for (long long t = 0; t < steps; t++) {
        const long long place = (t * batch + example) * units, at = 3 * place + i;
        advance(state, weight, biased ? bias : (const T *)0, products, units, 3 * units);
        if (i < units) {
            const T reset = logistic(gates[at] + products[i]), update = logistic(gates[at + units] + products[units + i]);
            const T fresh = tanh(gates[at + 2 * units] + reset * products[2 * units + i]);
            outputs[place + i] = state[i] = now = fresh + update * (now - fresh);
        }
    }
}

template <typename T>
__global__ void gru_steps_grad(long long size, const T *to_outputs, const T *gates, const T *products, const T *hidden,
                               const T *outputs, const T *turned, T *to_gates, T *to_products, T *to_hidden, double steps,
                               double of_units) {
    __shared__ T given[3 * UNITS], parts[PG_THREADS];
    const int units = (int)of_units, i = threadIdx.x;
    const long long batch = gridDim.x, example = blockIdx.x;
    T by_state = 0;
    for (long long t = (long long)steps - 1; t >= 0; t--) {
        const long long place = (t * batch + example) * units, at = 3 * place + i;
        T straight = 0;
        if (i < units) {
            const T reset = logistic(gates[at] + products[at]), update = logistic(gates[at + units] + products[at + units]);
            const T product = products[at + 2 * units], fresh = tanh(gates[at + 2 * units] + reset * product);
            const T before = t ? outputs[place - batch * units + i] : hidden[example * units + i];
            const T of_state = to_outputs[place + i] + by_state;
            const T of_fresh = of_state * (1 - update) * (1 - fresh * fresh);
            to_gates[at] = to_products[at] = given[i] = of_fresh * product * reset * (1 - reset);
            to_gates[at + units] = to_products[at + units] = given[units + i] =
                of_state * (before - fresh) * update * (1 - update);
            to_gates[at + 2 * units] = of_fresh, to_products[at + 2 * units] = given[2 * units + i] = of_fresh * reset;
            straight = of_state * update;
        }
        by_state = retreat(given, turned, parts, units, 3 * units) + straight;
    }
    if (i < units) to_hidden[example * units + i] = by_state;
}

template <typename T>
__global__ void rnn_steps(long long size, const T *sums, const T *hidden, const T *weight, T *outputs, double steps,
                          double of_units, double relu) {
    __shared__ T state[UNITS], after[UNITS];
    const int units = (int)of_units, i = threadIdx.x;
    const long long batch = gridDim.x, example = blockIdx.x;
    if (i < units) state[i] = hidden[example * units + i];
    for (long long t = 0; t < steps; t++) {
        const long long place = (t * batch + example) * units;
        advance(state, weight, sums + place, after, units, units);
        if (i < units) outputs[place + i] = state[i] = !relu ? tanh(after[i]) : after[i] < 0 ? T(0) : after[i];
    }
}

template <typename T>
__global__ void rnn_steps_grad(long long size, const T *to_outputs, const T *outputs, const T *turned, T *to_sums,
                               T *to_hidden, double steps, double of_units, double relu) {
    __shared__ T given[UNITS], parts[PG_THREADS];
    const int units = (int)of_units, i = threadIdx.x;
    const long long batch = gridDim.x, example = blockIdx.x;
    T by_state = 0;
    for (long long t = (long long)steps - 1; t >= 0; t--) {
        const long long place = (t * batch + example) * units;
        if (i < units) {
            const T y = outputs[place + i], of_state = to_outputs[place + i] + by_state;
            to_sums[place + i] = given[i] = !relu ? of_state * (1 - y * y) : y != 0 ? of_state : T(0);
        }
        by_state = retreat(given, turned, parts, units, units);
    }
    if (i < units) to_hidden[example * units + i] = by_state;
}
