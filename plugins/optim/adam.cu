// One step of Adam or AdamW, in one pass over the memory that the formula goes through nine times; see plugrad_cuda.h.

template <typename T>
__global__ void adam(long long size, T *p, const T *given, T *m, T *v, double beta1, double beta2, double rate, double eps,
                     double keep, double l2) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const T old = p[i] * T(keep), g = given[i] + T(l2) * old;
    m[i] = T(beta1) * m[i] + T(1 - beta1) * g;
    v[i] = T(beta2) * v[i] + T(1 - beta2) * g * g;
    p[i] = old - T(rate) * m[i] / (sqrt(v[i]) + T(eps));
}
