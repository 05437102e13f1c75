// One step of Adam or AdamW for many parameters, in one pass over the memory that the formula goes through nine times; see
// plugrad_cuda.h. With `amsgrad` the last array holds the largest `v` so far, else any stands in its place.

template <typename T>
__global__ void adam(pg_lists<T, 5> lists, double beta1, double beta2, double rate, double eps, double keep, double l2,
                     double sign, double amsgrad) {
    lists.each([=](T *const *at, long long i) {
        T *p = at[0], *m = at[2], *v = at[3], *most = at[4];
        const T old = p[i] * T(keep), g = (sign < 0 ? -at[1][i] : at[1][i]) + T(l2) * old;
        m[i] = T(beta1) * m[i] + T(1 - beta1) * g;
        v[i] = T(beta2) * v[i] + T(1 - beta2) * g * g;
        T square = v[i];
        if (amsgrad) square = most[i] = square > most[i] || square != square ? square : most[i];
        p[i] = old - T(rate) * m[i] / (sqrt(square) + T(eps));
    });
}
