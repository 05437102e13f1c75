// What is done with all gradients of a model: their norm, scaling; see plugrad_cuda.h, and _lists.py for what stands where.

// The sum of squares of each block's elements, in the second list's array.
template <typename T> __global__ void squares(pg_lists<T, 2> lists) {
    T sum = 0, *sums = lists.one[0].at[1];
    lists.each([&](T *const *at, long long i) { sum += at[0][i] * at[0][i]; });
    sum = pg_sum(sum);
    if (threadIdx.x == 0) sums[lists.before + blockIdx.x] = sum;
}

template <typename T> __global__ void root_of_sum(long long size, const T *sums, T *norm) {
    T sum = 0;
#pragma unroll 4
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += sums[i];
    sum = pg_sum(sum);
    if (threadIdx.x == 0) *norm = sqrt(sum);
}

// The second list's array is the norm that all have, which is brought down to `most`.
template <typename T> __global__ void clip(pg_lists<T, 2> lists, double most) {
    const T share = T(most) / (*lists.one[0].at[1] + T(1e-6)), factor = share > 1 ? T(1) : share;
    lists.each([=](T *const *at, long long i) { at[0][i] *= factor; });
}

// The second list's array is a factor, the third is set to 1 if an element is infinite or NaN before.
template <typename T> __global__ void unscale(pg_lists<T, 3> lists) {
    const T factor = *lists.one[0].at[1];
    bool found = false;
    lists.each([&](T *const *at, long long i) {
        const T value = at[0][i];
        found |= !(value - value == 0);
        at[0][i] = value * factor;
    });
    if (found) *lists.one[0].at[2] = 1;
}
