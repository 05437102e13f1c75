// The softmax family along the last dimension, a block for each row; see plugrad_cuda.h.

template <typename T> __device__ T row_max(long long size, const T *x) {
    T largest = x[0];
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) largest = pg_larger<T>()(x[i], largest);
    return pg_max(largest);
}

template <typename T> __device__ T row_sum_of_exp(long long size, const T *x, T largest) {
    T sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += exp(x[i] - largest);
    return pg_sum(sum);
}

template <typename T> __global__ void softmax(long long size, const T *x, T *y) {
    x += blockIdx.x * size, y += blockIdx.x * size;
    const T largest = row_max(size, x), sum = row_sum_of_exp(size, x, largest);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) y[i] = exp(x[i] - largest) / sum;
}

template <typename T> __global__ void log_softmax(long long size, const T *x, T *y) {
    x += blockIdx.x * size, y += blockIdx.x * size;
    const T largest = row_max(size, x), sum = log(row_sum_of_exp(size, x, largest));
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) y[i] = x[i] - largest - sum;
}

template <typename T> __global__ void softmax_grad(long long size, const T *g, const T *y, T *out) {
    g += blockIdx.x * size, y += blockIdx.x * size, out += blockIdx.x * size;
    T sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += g[i] * y[i];
    sum = pg_sum(sum);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) out[i] = y[i] * (g[i] - sum);
}

template <typename T> __global__ void log_softmax_grad(long long size, const T *g, const T *y, T *out) {
    g += blockIdx.x * size, y += blockIdx.x * size, out += blockIdx.x * size;
    T sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += g[i];
    sum = pg_sum(sum);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) out[i] = g[i] - exp(y[i]) * sum;
}
