// Variances of rows of `freedom` degrees, or their roots, a block for each row, or a warp; see plugrad_cuda.h.

template <typename T> struct row_of {
    pg_real<T> mean, spread;

    __device__ row_of(long long size, const T *x, double freedom, bool root) {
        pg_real<T> sum = 0;
        for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += x[i];
        mean = pg_sum(sum) / size, sum = 0;
        for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += (x[i] - mean) * (x[i] - mean);
        spread = pg_sum(sum) / pg_real<T>(freedom);
        if (root) spread = sqrt(spread);
    }
};

template <typename T> __global__ void variance(long long size, const T *x, T *y, double freedom, double root) {
    const row_of<T> row(size, x + PG_ROW * size, freedom, root);
    if (threadIdx.x == 0) y[PG_ROW] = row.spread;
}

// Of a variance 2 (x - mean) / freedom, of its root half of that over the root; where the root is 0 nothing goes further.
template <typename T>
__global__ void variance_grad(long long size, const T *x, const T *g, T *out, double freedom, double root) {
    x += PG_ROW * size, out += PG_ROW * size;
    const row_of<T> row(size, x, freedom, root);
    pg_real<T> of_row = g[PG_ROW];
    if (root) of_row = row.spread == 0 ? pg_real<T>(0) : of_row / (2 * row.spread);
    of_row *= pg_real<T>(2 / freedom);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) out[i] = of_row * (x[i] - row.mean);
}
