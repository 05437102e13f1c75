// Running sums, added up in double precision: the error of every step would stay; see plugrad_cuda.h. `backward`: from the end.

// Along the last dimension, a block for each row.
template <typename T> __global__ void running_rows(long long size, const T *x, T *y, double backward) {
    x += blockIdx.x * size, y += blockIdx.x * size;
    double before = 0;
    for (long long start = 0; start < size; start += PG_THREADS) {
        const long long i = start + threadIdx.x, at = backward ? size - 1 - i : i;
        double sum = i < size ? double(x[at]) : 0.0;
        for (int step = 1; step < 32; step *= 2) {
            const double other = __shfl_up_sync(0xffffffffu, sum, step);
            if (threadIdx.x % 32 >= step) sum += other;
        }
        double whole = __shfl_sync(0xffffffffu, sum, 31);
        if (PG_THREADS > 32) {
            __shared__ double of_warp[PG_THREADS / 32];
            if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = whole;
            __syncthreads();
            whole = 0;
            for (int warp = 0; warp < PG_THREADS / 32; warp++) {
                if (warp == threadIdx.x / 32) sum += whole;
                whole += of_warp[warp];
            }
            __syncthreads();
        }
        if (i < size) y[at] = T(before + sum);
        before += whole;
    }
}

// Along the middle of (outer, n, inner), a thread for each of outer and inner.
template <typename T>
__global__ void running_columns(long long size, const T *x, T *y, double of_n, double of_inner, double backward) {
    const long long n = (long long)of_n, inner = (long long)of_inner, column = PG_ELEMENT;
    if (column >= size / n) return;
    const long long start = column / inner * n * inner + column % inner;
    double sum = 0;
#pragma unroll 4
    for (long long k = 0; k < n; k++) {
        const long long at = start + (backward ? n - 1 - k : k) * inner;
        sum += double(x[at]);
        y[at] = T(sum);
    }
}
