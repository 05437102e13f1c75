// One step of SGD for many parameters in one pass over memory; see plugrad_cuda.h. Without momentum any array stands for the
// last, the buffer.

template <typename T, typename R = pg_real<T>>
__global__ void sgd(pg_lists<T, 3> lists, double rate, double l2, double momentum, double share, double ahead, double kept,
                    double sign) {
    lists.each([=](T *const *at, long long i) {
        const R given = at[1][i], old = at[0][i], g = (sign < 0 ? -given : given) + R(l2) * old;
        R step = g;
        if (kept) {
            step = R(momentum) * R(at[2][i]) + R(share) * g;
            at[2][i] = step;
            if (ahead) step = g + R(ahead) * step;
        }
        at[0][i] = old - R(rate) * step;
    });
}
