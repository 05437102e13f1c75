// Sums of (outer, n, inner) over n, divided by a number; see plugrad_cuda.h. Where n is large a block adds up a part, and a
// second launch the parts: `whole` elements are in each but the last. In one order, so that results repeat.

// Inner is 1: blockIdx.y is the row, blockIdx.x the part.
template <typename T, typename R>
__device__ void rows(const T *x, R *y, double of_n, double of_whole, double divisor) {
    const long long n = (long long)of_n, whole = (long long)of_whole, row = blockIdx.y, from = blockIdx.x * whole;
    const long long end = from + whole < n ? from + whole : n;
    pg_real<T> sum = 0;
#pragma unroll 4
    for (long long i = from + threadIdx.x; i < end; i += PG_THREADS) sum += x[row * n + i];
    sum = pg_sum(sum);
    if (threadIdx.x == 0) y[row * gridDim.x + blockIdx.x] = sum / pg_real<T>(divisor);
}

// A block has 32 columns, and each warp other rows. blockIdx.y is that of `outer` and the part, together.
template <typename T, typename R>
__device__ void columns(const T *x, R *y, double of_n, double of_whole, double of_inner, double of_parts, double divisor) {
    const long long n = (long long)of_n, whole = (long long)of_whole, inner = (long long)of_inner, parts = (long long)of_parts;
    const long long column = blockIdx.x * 32ll + threadIdx.x % 32, part = blockIdx.y % parts, outer = blockIdx.y / parts;
    const long long end = (part + 1) * whole < n ? (part + 1) * whole : n;
    pg_real<T> sum = 0;
    if (column < inner) {
#pragma unroll 4
        for (long long k = part * whole + threadIdx.x / 32; k < end; k += PG_THREADS / 32)
            sum += x[(outer * n + k) * inner + column];
    }
    __shared__ pg_real<T> of_warp[PG_THREADS];
    of_warp[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= 32 || column >= inner) return;
    for (int warp = 1; warp < PG_THREADS / 32; warp++) sum += of_warp[warp * 32 + threadIdx.x];
    y[blockIdx.y * inner + column] = sum / pg_real<T>(divisor);
}

template <typename T>
__global__ void sum_rows(long long size, const T *x, T *y, double n, double whole, double divisor) {
    rows(x, y, n, whole, divisor);
}

template <typename T>
__global__ void sum_parts_of_rows(long long size, const T *x, pg_real<T> *y, double n, double whole, double divisor) {
    rows(x, y, n, whole, divisor);
}

template <typename T>
__global__ void join_rows(long long size, const pg_real<T> *x, T *y, double n, double whole, double divisor) {
    rows(x, y, n, whole, divisor);
}

template <typename T>
__global__ void sum_columns(long long size, const T *x, T *y, double n, double whole, double inner, double parts,
                            double divisor) {
    columns(x, y, n, whole, inner, parts, divisor);
}

template <typename T>
__global__ void sum_parts_of_columns(long long size, const T *x, pg_real<T> *y, double n, double whole, double inner,
                                     double parts, double divisor) {
    columns(x, y, n, whole, inner, parts, divisor);
}

template <typename T>
__global__ void join_columns(long long size, const pg_real<T> *x, T *y, double n, double whole, double inner, double parts,
                             double divisor) {
    columns(x, y, n, whole, inner, parts, divisor);
}
