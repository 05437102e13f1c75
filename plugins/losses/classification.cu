// Cross entropy of rows of logits with labels, a block for each; see plugrad_cuda.h. Without weights any array stands in
// their place. Of a label that is no class nothing is read: whoever calls has it told.

template <typename T>
__global__ void cross_entropy(long long size, const T *x, const long long *labels, const T *weight, T *values, T *shares,
                              double ignored, double smoothing, double weighted) {
    x += blockIdx.x * size;
    const long long label = labels[blockIdx.x];
    if (label == (long long)ignored || label < 0 || label >= size) {
        if (threadIdx.x == 0) values[blockIdx.x] = shares[blockIdx.x] = 0;
        return;
    }
    const pg_exponentials<T> all = pg_sum_of_exp(size, x);
    const T normalizer = log(all.sum), share = weighted ? weight[label] : T(1);
    T spread = 0;
    if (smoothing) {
        for (long long i = threadIdx.x; i < size; i += PG_THREADS)
            spread += (normalizer - (x[i] - all.largest)) * (weighted ? weight[i] : T(1));
        spread = pg_sum(spread) * T(smoothing / size);
    }
    if (threadIdx.x == 0) {
        values[blockIdx.x] = share * (normalizer - (x[label] - all.largest)) * T(1 - smoothing) + spread;
        shares[blockIdx.x] = share;
    }
}

// Softmax times the mass of the target distribution, less that distribution. `g` is of each row, or one for all; `total`
// is what the sum over rows was divided by. A row that does not count is zeros, or NaN where softmax is, as in PyTorch.
template <typename T>
__global__ void cross_entropy_grad(long long size, const T *x, const long long *labels, const T *weight, const T *g,
                                   const T *total, T *out, double ignored, double smoothing, double weighted,
                                   double of_each) {
    x += blockIdx.x * size, out += blockIdx.x * size;
    const long long label = labels[blockIdx.x];
    const bool counts = label != (long long)ignored && label >= 0 && label < size;
    const pg_exponentials<T> all = pg_sum_of_exp(size, x);
    T spread = 1;
    if (smoothing && weighted) {
        spread = 0;
        for (long long i = threadIdx.x; i < size; i += PG_THREADS) spread += weight[i];
        spread = pg_sum(spread) / size;
    }
    const T scale = counts ? (of_each ? g[blockIdx.x] : g[0]) / total[0] : T(0), even = scale * T(smoothing / size);
    const T sharp = scale * (weighted && counts ? weight[label] : T(1)) * T(1 - smoothing);
    const T factor = (sharp + scale * spread * T(smoothing)) / all.sum;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const T target = even * (weighted ? weight[i] : T(1)) + (i == label ? sharp : T(0));
        out[i] = exp(x[i] - all.largest) * factor - target;
    }
}
