// The softmax family along the last dimension, a block for each row; see plugrad_cuda.h.

template <typename T> __global__ void softmax(long long size, const T *x, T *y) {
    x += PG_ROW * size, y += PG_ROW * size;
    const pg_exponentials<pg_real<T>> all = pg_sum_of_exp(size, x);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) y[i] = exp(x[i] - all.largest) / all.sum;
}

// Of a row that is minus infinity throughout zeros, not NaN.
template <typename T> __global__ void safe_softmax(long long size, const T *x, T *y) {
    x += PG_ROW * size, y += PG_ROW * size;
    const pg_exponentials<pg_real<T>> all = pg_sum_of_exp(size, x);
    const bool nothing = all.largest < 0 && all.largest == 2 * all.largest;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS)
        y[i] = nothing ? pg_real<T>(0) : exp(x[i] - all.largest) / all.sum;
}

template <typename T> __global__ void log_softmax(long long size, const T *x, T *y) {
    x += PG_ROW * size, y += PG_ROW * size;
    const pg_exponentials<pg_real<T>> all = pg_sum_of_exp(size, x);
    const pg_real<T> sum = log(all.sum);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) y[i] = x[i] - all.largest - sum;
}

template <typename T> __global__ void softmax_grad(long long size, const T *g, const T *y, T *out) {
    g += PG_ROW * size, y += PG_ROW * size, out += PG_ROW * size;
    pg_real<T> sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += g[i] * y[i];
    sum = pg_sum(sum);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) out[i] = y[i] * (g[i] - sum);
}

template <typename T> __global__ void log_softmax_grad(long long size, const T *g, const T *y, T *out) {
    g += PG_ROW * size, y += PG_ROW * size, out += PG_ROW * size;
    pg_real<T> sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += g[i];
    sum = pg_sum(sum);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) out[i] = g[i] - exp(pg_real<T>(y[i])) * sum;
}
