// The largest or smallest element of each row and where it first is, a block for each row, or a warp; see plugrad_cuda.h.

template <typename R> struct extreme_of {
    bool least;
    __device__ R operator()(R a, R b) const { return a != a || (least ? a < b : a > b) ? a : b; }
};

struct first_of {
    __device__ long long operator()(long long a, long long b) const { return a < b ? a : b; }
};

// NaN is beyond all numbers. Of zeros of either sign the first is meant, too.
template <typename T>
__global__ void extreme_of_row(long long size, const T *x, T *y, long long *places, double least) {
    const extreme_of<T> join{least != 0};
    x += PG_ROW * size;
    T extreme = x[0];
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) extreme = join(extreme, x[i]);
    extreme = pg_over_block(extreme, join);
    long long place = size;
    for (long long i = threadIdx.x; i < size && place == size; i += PG_THREADS)
        if (x[i] == extreme || (extreme != extreme && x[i] != x[i])) place = i;
    place = pg_over_block(place, first_of());
    if (threadIdx.x == 0) y[PG_ROW] = x[place], places[PG_ROW] = place;
}
