// Normalization of channels of (N, C, L) in C order; see plugrad_cuda.h. The N * L elements of a channel are divided into
// parts, one for each block, so that few channels keep a card busy, too: blockIdx.x is the part, blockIdx.y the channel.
// Where L is 1, neighbours in memory are of different channels. Then a block has 32 of them, and each warp other rows.
//
// Each part has its own mean, and the sum of the squares of what is left. These are joined as in T. Chan, G. Golub,
// R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.

#define PER_THREAD 16
#define WARPS (PG_THREADS / 32)

// A thread's way over its elements of one part of a channel.
struct channel_part {
    long long channels, length, channel, part, parts, count, n, l, by_n, by_l;
    int left;
    bool columns, inside, first;

    __device__ channel_part(long long size, double of_channels, double of_length)
        : channels((long long)of_channels), length((long long)of_length), part(blockIdx.x), parts(gridDim.x) {
        columns = length == 1;
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, wide = columns ? WARPS : PG_THREADS;
        const int mine = columns ? warp : threadIdx.x;
        const long long all = size / channels, from = part * wide * PER_THREAD;
        channel = columns ? (long long)blockIdx.y * 32 + lane : blockIdx.y;
        inside = channel < channels, first = inside && mine == 0;
        count = all - from < wide * PER_THREAD ? all - from : wide * PER_THREAD;
        left = !inside || mine >= count ? 0 : (int)((count - mine + wide - 1) / wide);
        n = (from + mine) / length, l = (from + mine) % length;
        by_n = wide / length, by_l = wide % length;  // so that a step does not divide
    }
    __device__ long long place() const { return (n * channels + channel) * length + l; }
    __device__ void next() {
        l += by_l, n += by_n;
        if (l >= length) l -= length, n++;
    }
    // The sum over all threads that share the channel.
    template <typename T> __device__ T sum(T value) const {
        if (!columns) return pg_sum(value);
        __shared__ T of_warp[PG_THREADS];
        of_warp[threadIdx.x] = value;
        __syncthreads();
        value = 0;
        for (int warp = 0; warp < WARPS; warp++) value += of_warp[warp * 32 + threadIdx.x % 32];
        __syncthreads();
        return value;
    }
};

#define FOR_EACH(at, all) for (channel_part at = all; at.left; at.left--, at.next())

template <typename T, typename R = pg_real<T>>
__global__ void channel_moments(long long size, const T *x, R *means, R *squares, double channels, double length) {
    const channel_part all(size, channels, length);
    R sum = 0;
    FOR_EACH(at, all) sum += x[at.place()];
    const R mean = all.sum(sum) / all.count;
    sum = 0;
    FOR_EACH(at, all) { const R rest = x[at.place()] - mean; sum += rest * rest; }
    sum = all.sum(sum);
    if (all.first) means[all.channel * all.parts + all.part] = mean, squares[all.channel * all.parts + all.part] = sum;
}

// A row of parts for each channel; all parts but the last have `whole` of `count` elements.
template <typename T, typename R = pg_real<T>>
__global__ void join_moments(long long size, const R *means, const R *squares, R *mean, R *variance, double whole,
                             double count) {
    means += blockIdx.x * size, squares += blockIdx.x * size;
    R sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS)
        sum += means[i] * R(i < size - 1 ? whole : count - whole * (size - 1));
    const R middle = pg_sum(sum) / R(count);
    sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const R apart = means[i] - middle;
        sum += squares[i] + apart * apart * R(i < size - 1 ? whole : count - whole * (size - 1));
    }
    sum = pg_sum(sum) / R(count);
    if (threadIdx.x == 0) mean[blockIdx.x] = middle, variance[blockIdx.x] = sum;
}

// Rows of (N * C, L); or, with `columns`, of (N, C).
template <typename T, typename R = pg_real<T>>
__global__ void scale_channels(long long size, const T *x, T *y, const R *mean, const R *variance, const T *weight,
                               const T *bias, double eps, double channels, double columns, double weighted,
                               double biased) {
    x += blockIdx.x * size, y += blockIdx.x * size;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const long long c = columns ? i : blockIdx.x % (unsigned)channels;
        const R scale = 1 / sqrt(variance[c] + R(eps)) * (weighted ? R(weight[c]) : R(1));
        y[i] = (x[i] - mean[c]) * scale + (biased ? R(bias[c]) : R(0));
    }
}

template <typename T, typename R = pg_real<T>>
__global__ void channel_sums(long long size, const T *g, const T *x, const R *mean, R *plain, R *along, double channels,
                             double length) {
    const channel_part all(size, channels, length);
    const R middle = all.inside ? mean[all.channel] : R(0);
    R sum = 0, product = 0;
    FOR_EACH(at, all) {
        const R slope = g[at.place()];
        sum += slope, product += slope * (x[at.place()] - middle);
    }
    sum = all.sum(sum), product = all.sum(product);
    if (all.first) plain[all.channel * all.parts + all.part] = sum, along[all.channel * all.parts + all.part] = product;
}

// The same for rows (N, C) that were normalized each by itself: sums over rows, for the gradients of weight and bias.
template <typename T, typename R = pg_real<T>>
__global__ void column_sums(long long size, const T *g, const T *x, const R *mean, const R *variance, R *plain, R *along,
                            double channels, double length, double eps) {
    const channel_part all(size, channels, length);
    R sum = 0, product = 0;
    FOR_EACH(at, all) {
        const R slope = g[at.place()];
        sum += slope, product += slope * ((x[at.place()] - mean[at.n]) / sqrt(variance[at.n] + R(eps)));
    }
    sum = all.sum(sum), product = all.sum(product);
    if (all.first) plain[all.channel * all.parts + all.part] = sum, along[all.channel * all.parts + all.part] = product;
}

// With `by_row` the root of the variance is in the sums already.
template <typename T, typename R = pg_real<T>>
__global__ void join_sums(long long size, const R *plain, const R *along, const R *variance, R *of_weight, R *of_bias,
                          double eps, double by_row) {
    R sum = 0, product = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS)
        sum += plain[blockIdx.x * size + i], product += along[blockIdx.x * size + i];
    sum = pg_sum(sum), product = pg_sum(product);
    if (threadIdx.x != 0) return;
    of_bias[blockIdx.x] = sum;
    of_weight[blockIdx.x] = by_row ? product : product / sqrt(variance[blockIdx.x] + R(eps));
}

// With h = (x - mean) / root: weight / root (g - mean(g) - h mean(g h)), and what comes by way of mean and variance.
template <typename T, typename R = pg_real<T>>
__global__ void scale_channels_grad(long long size, const T *g, const T *x, T *out, const R *mean, const R *variance,
                                    const T *weight, const R *of_weight, const R *of_bias, const R *of_mean,
                                    const R *of_variance, double eps, double channels, double columns, double weighted,
                                    double count) {
    g += blockIdx.x * size, x += blockIdx.x * size, out += blockIdx.x * size;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const long long c = columns ? i : blockIdx.x % (unsigned)channels;
        const R root = 1 / sqrt(variance[c] + R(eps)), rest = x[i] - mean[c], n = R(count);
        const R centred = g[i] - of_bias[c] / n - rest * root * (of_weight[c] / n);
        out[i] = centred * root * (weighted ? R(weight[c]) : R(1)) + (of_mean[c] + 2 * of_variance[c] * rest) / n;
    }
}

// Groups: rows of (N * G, elements) give the statistics, rows of (N * C, L) are scaled; `each` channels are of a group.

template <typename T, typename R = pg_real<T>> __global__ void row_moments(long long size, const T *x, R *mean, R *variance) {
    x += blockIdx.x * size;
    R sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += x[i];
    const R middle = pg_sum(sum) / size;
    sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += (x[i] - middle) * (x[i] - middle);
    sum = pg_sum(sum) / size;
    if (threadIdx.x == 0) mean[blockIdx.x] = middle, variance[blockIdx.x] = sum;
}

template <typename T, typename R = pg_real<T>>
__global__ void scale_groups(long long size, const T *x, T *y, const R *mean, const R *variance, const T *weight,
                             const T *bias, double eps, double channels, double each, double weighted, double biased) {
    x += blockIdx.x * size, y += blockIdx.x * size;
    const unsigned c = blockIdx.x % (unsigned)channels, group = blockIdx.x / (unsigned)each;
    const R middle = mean[group], scale = 1 / sqrt(variance[group] + R(eps)) * (weighted ? R(weight[c]) : R(1));
    const R shift = biased ? R(bias[c]) : R(0);
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) y[i] = (x[i] - middle) * scale + shift;
}

template <typename T, typename R = pg_real<T>>
__global__ void group_sums(long long size, const T *g, const T *x, const R *mean, const R *variance, R *plain, R *along,
                           double eps, double each) {
    g += blockIdx.x * size, x += blockIdx.x * size;
    const unsigned group = blockIdx.x / (unsigned)each;
    const R middle = mean[group];
    R sum = 0, product = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += g[i], product += R(g[i]) * (x[i] - middle);
    sum = pg_sum(sum), product = pg_sum(product);
    if (threadIdx.x == 0)
        plain[blockIdx.x] = sum, along[blockIdx.x] = product / sqrt(variance[group] + R(eps));
}

// `plain` and `along` are the means over each group of what group_sums gave, times the weight.
template <typename T, typename R = pg_real<T>>
__global__ void scale_groups_grad(long long size, const T *g, const T *x, T *out, const R *mean, const R *variance,
                                  const T *weight, const R *plain, const R *along, const R *of_mean,
                                  const R *of_variance, double eps, double channels, double each, double weighted,
                                  double count) {
    g += blockIdx.x * size, x += blockIdx.x * size, out += blockIdx.x * size;
    const unsigned c = blockIdx.x % (unsigned)channels, group = blockIdx.x / (unsigned)each;
    const R middle = mean[group], root = 1 / sqrt(variance[group] + R(eps)), factor = weighted ? R(weight[c]) : R(1);
    const R by_mean = of_mean[group] / R(count) - root * plain[group];
    const R by_rest = 2 * of_variance[group] / R(count) - root * root * along[group];
    for (long long i = threadIdx.x; i < size; i += PG_THREADS)
        out[i] = root * factor * g[i] + by_mean + by_rest * (x[i] - middle);
}
