// One step of SGD for many parameters in one pass over memory; see plugrad_cuda.h. Without momentum any array stands for `b`.

template <typename T>
__global__ void sgd(pg_lists<T, 3> lists, double rate, double l2, double momentum, double share, double ahead, double kept,
                    double sign) {
    lists.each([=](T *const *at, long long i) {
        T *p = at[0], *b = at[2];
        const T old = p[i], g = (sign < 0 ? -at[1][i] : at[1][i]) + T(l2) * old;
        T step = g;
        if (kept) {
            step = b[i] = T(momentum) * b[i] + T(share) * g;
            if (ahead) step = g + T(ahead) * step;
        }
        p[i] = old - T(rate) * step;
    });
}
