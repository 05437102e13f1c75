// One step of SGD in one pass over memory; see plugrad_cuda.h. Without momentum any array stands for `b`.

template <typename T>
__global__ void sgd(long long size, T *p, const T *given, T *b, double rate, double l2, double momentum, double share,
                    double ahead, double kept) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const T old = p[i], g = given[i] + T(l2) * old;
    T step = g;
    if (kept) {
        step = b[i] = T(momentum) * b[i] + T(share) * g;
        if (ahead) step = g + T(ahead) * step;
    }
    p[i] = old - T(rate) * step;
}
