// Normalization of rows, a block for each; see plugrad_cuda.h. Without a weight or bias any array stands in its place.

template <typename T>
__global__ void normalize(long long size, const T *x, T *y, pg_real<T> *mean, pg_real<T> *variance, const T *weight,
                          const T *bias, double eps, double weighted, double biased) {
    typedef pg_real<T> R;
    x += PG_ROW * size, y += PG_ROW * size;
    R sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += x[i];
    const R middle = pg_sum(sum) / size;
    sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += (x[i] - middle) * (x[i] - middle);
    const R spread = pg_sum(sum) / size, scale = 1 / sqrt(spread + R(eps));
    for (long long i = threadIdx.x; i < size; i += PG_THREADS)
        y[i] = (x[i] - middle) * scale * (weighted ? R(weight[i]) : R(1)) + (biased ? R(bias[i]) : R(0));
    if (threadIdx.x == 0) mean[PG_ROW] = middle, variance[PG_ROW] = spread;
}

// With h = (x - mean) scale and q = g weight: scale (q - mean(q) - h mean(q h)), and what comes by way of mean and variance.
template <typename T>
__global__ void normalize_grad(long long size, const T *g, const pg_real<T> *of_mean, const pg_real<T> *of_variance,
                               const T *x, const pg_real<T> *mean, const pg_real<T> *variance, const T *weight, T *out,
                               double eps, double weighted) {
    typedef pg_real<T> R;
    g += PG_ROW * size, x += PG_ROW * size, out += PG_ROW * size;
    const R middle = mean[PG_ROW], scale = 1 / sqrt(variance[PG_ROW] + R(eps));
    R plain = 0, along = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const R q = weighted ? R(g[i]) * R(weight[i]) : R(g[i]);
        plain += q, along += q * ((x[i] - middle) * scale);
    }
    plain = pg_sum(plain) / size, along = pg_sum(along) / size;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const R q = weighted ? R(g[i]) * R(weight[i]) : R(g[i]);
        const R by_statistics = (of_mean[PG_ROW] + 2 * of_variance[PG_ROW] * (x[i] - middle)) / size;
        out[i] = scale * (q - plain - (x[i] - middle) * scale * along) + by_statistics;
    }
}
