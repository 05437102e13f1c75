// One step of Adam or AdamW, in one pass over the memory that the formula goes through nine times; see plugrad_cuda.h.
// With `amsgrad` the last array holds the largest `v` so far, else any stands in its place.

template <typename T, typename R = pg_real<T>>
__device__ void adam_element(T *const *at, long long i, double beta1, double beta2, double rate, double eps, double keep,
                             double l2, double sign, double amsgrad) {
    const R given = at[1][i], old = R(at[0][i]) * R(keep), g = (sign < 0 ? -given : given) + R(l2) * old;
    const R m = R(beta1) * R(at[2][i]) + R(1 - beta1) * g, v = R(beta2) * R(at[3][i]) + R(1 - beta2) * g * g;
    R most = v;
    if (amsgrad) {
        const R before = at[4][i];
        at[4][i] = most = v > before || v != v ? v : before;
    }
    at[2][i] = m, at[3][i] = v;
    at[0][i] = old - R(rate) * m / (sqrt(most) + R(eps));
}

/* For many parameters. */
template <typename T>
__global__ void adam(pg_lists<T, 5> lists, double beta1, double beta2, double rate, double eps, double keep, double l2,
                     double sign, double amsgrad) {
    lists.each([=](T *const *at, long long i) {
        adam_element(at, i, beta1, beta2, rate, eps, keep, l2, sign, amsgrad);
    });
}

/* Where what depends on the number of steps is on the device: the last three, an element each of double precision. */
template <typename T>
__global__ void adam_told(pg_lists<T, 8> lists, double beta1, double beta2, double l2, double sign, double amsgrad) {
    lists.each([=](T *const *at, long long i) {
        const double *rate = (const double *)at[5], *eps = (const double *)at[6], *keep = (const double *)at[7];
        adam_element(at, i, beta1, beta2, *rate, *eps, *keep, l2, sign, amsgrad);
    });
}
