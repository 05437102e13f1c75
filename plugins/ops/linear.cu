// Rows that are all the same, 1024 elements for a block, to which a product is added; see plugrad_cuda.h.

template <typename T> __global__ void spread(long long size, T *y, const T *row, double columns) {
    const long long begin = (long long)blockIdx.x * 1024, end = begin + 1024 < size ? begin + 1024 : size;
    const unsigned count = (unsigned)columns;
    unsigned at = (unsigned)((begin + threadIdx.x) % count);
    for (long long i = begin + threadIdx.x; i < end; i += PG_THREADS) {
        y[i] = row[at];
        at = (at + PG_THREADS) % count;
    }
}
