// Cross entropy of rows of logits with labels, a block for each; see plugrad_cuda.h. Without weights any array stands in
// their place. Of a label that is no class nothing is read: it is told by `fault`, see backends/_faults.py.

template <typename T>
__global__ void cross_entropy(long long size, const T *x, const long long *labels, const T *weight, pg_real<T> *values,
                              pg_real<T> *shares, long long *fault, double ignored, double smoothing, double weighted,
                              double number) {
    typedef pg_real<T> R;
    x += PG_ROW * size;
    const long long label = labels[PG_ROW];
    if (label == (long long)ignored || label < 0 || label >= size) {
        if (threadIdx.x == 0) {
            values[PG_ROW] = shares[PG_ROW] = 0;
            if (label != (long long)ignored) fault[1] = label, fault[0] = (long long)number;
        }
        return;
    }
    const pg_exponentials<R> all = pg_sum_of_exp(size, x);
    const R normalizer = log(all.sum), share = weighted ? R(weight[label]) : R(1);
    R spread = 0;
    if (smoothing) {
        for (long long i = threadIdx.x; i < size; i += PG_THREADS)
            spread += (normalizer - (R(x[i]) - all.largest)) * (weighted ? R(weight[i]) : R(1));
        spread = pg_sum(spread) * R(smoothing / size);
    }
    if (threadIdx.x == 0) {
        values[PG_ROW] = share * (normalizer - (R(x[label]) - all.largest)) * R(1 - smoothing) + spread;
        shares[PG_ROW] = share;
    }
}

// The sum of all values, or their mean. One block.
template <typename T>
__global__ void over_rows(long long size, const pg_real<T> *values, const pg_real<T> *shares, T *result, double mean) {
    pg_real<T> total = 0, count = 0;
#pragma unroll 4
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) total += values[i], count += shares[i];
    total = pg_sum(total), count = pg_sum(count);
    if (threadIdx.x == 0) *result = mean ? total / count : total;
}

// What the sum over rows is divided by for the mean, 1 where nothing counts. One block for all labels.
template <typename T>
__global__ void count_rows(long long size, const long long *labels, const T *weight, pg_real<T> *total, double ignored,
                           double weighted, double classes) {
    pg_real<T> count = 0;
#pragma unroll 4
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const long long label = labels[i];
        if (label != (long long)ignored && label >= 0 && label < (long long)classes)
            count += weighted ? pg_real<T>(weight[label]) : pg_real<T>(1);
    }
    count = pg_sum(count);
    if (threadIdx.x == 0) *total = count == 0 ? pg_real<T>(1) : count;
}

// Softmax times the mass of the target distribution, less that distribution. `g` is of each row, or one for all; `total`
// is what the sum over rows was divided by. A row that does not count is zeros, or NaN where softmax is, as in PyTorch.
template <typename T>
__global__ void cross_entropy_grad(long long size, const T *x, const long long *labels, const T *weight, const T *g,
                                   const pg_real<T> *total, T *out, double ignored, double smoothing, double weighted,
                                   double of_each, double mean) {
    typedef pg_real<T> R;
    x += PG_ROW * size, out += PG_ROW * size;
    const long long label = labels[PG_ROW];
    const bool counts = label != (long long)ignored && label >= 0 && label < size;
    const pg_exponentials<R> all = pg_sum_of_exp(size, x);
    R spread = 1;
    if (smoothing && weighted) {
        spread = 0;
        for (long long i = threadIdx.x; i < size; i += PG_THREADS) spread += R(weight[i]);
        spread = pg_sum(spread) / size;
    }
    const R given = counts ? R(of_each ? g[PG_ROW] : g[0]) : R(0), scale = mean ? given / total[0] : given;
    const R even = scale * R(smoothing / size);
    const R sharp = scale * (weighted && counts ? R(weight[label]) : R(1)) * R(1 - smoothing);
    const R factor = (sharp + scale * spread * R(smoothing)) / all.sum;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const R target = even * (weighted ? R(weight[i]) : R(1)) + (i == label ? sharp : R(0));
        out[i] = exp(R(x[i]) - all.largest) * factor - target;
    }
}
