// Exponentials and logarithms, a thread for each 16 bytes; see plugrad_cuda.h. Half precision is computed in float.

template <typename T> __global__ void exponential(long long size, const T *x, T *y) {
    pg_map(size, x, y, [](T v) -> T { return exp(pg_real<T>(v)); });
}

template <typename T> __global__ void logarithm(long long size, const T *x, T *y) {
    pg_map(size, x, y, [](T v) -> T { return log(pg_real<T>(v)); });
}
