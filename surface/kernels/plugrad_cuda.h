/* What precedes every kernel that `load_inline(cuda=...)` compiles: blocks of PG_THREADS threads, and sums over them. */
#ifndef PLUGRAD_CUDA_H
#define PLUGRAD_CUDA_H

#define PG_THREADS 256

/* The thread's element, in kernels that have one for each. */
#define PG_ELEMENT ((long long)blockIdx.x * blockDim.x + threadIdx.x)

template <typename T> struct pg_add {
    __device__ T operator()(T a, T b) const { return a + b; }
};

/* The larger one; NaN if either is. */
template <typename T> struct pg_larger {
    __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};

/* What `join` makes of the values of all threads of a block, for each of them; in one order, so that results repeat. */
template <typename T, typename Join> __device__ T pg_over_block(T value, Join join) {
    __shared__ T part[PG_THREADS];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int step = PG_THREADS / 2; step; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] = join(part[threadIdx.x], part[threadIdx.x + step]);
        __syncthreads();
    }
    T result = part[0];
    __syncthreads(); /* before anybody uses the memory again */
    return result;
}

template <typename T> __device__ T pg_sum(T value) { return pg_over_block(value, pg_add<T>()); }
template <typename T> __device__ T pg_max(T value) { return pg_over_block(value, pg_larger<T>()); }

#endif
