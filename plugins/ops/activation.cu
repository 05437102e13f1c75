// Activations gated by their own size, and the logistic function, a thread for each element; see plugrad_cuda.h.

template <typename T> __device__ T logistic(T x) { return 1 / (1 + exp(-x)); }

template <typename T> __global__ void sigmoid(long long size, const T *x, T *y) {
    const long long i = PG_ELEMENT;
    if (i < size) y[i] = logistic(x[i]);
}

template <typename T> __global__ void sigmoid_grad(long long size, const T *g, const T *y, T *out) {
    const long long i = PG_ELEMENT;
    if (i < size) out[i] = g[i] * (y[i] * (1 - y[i]));
}

template <typename T> __global__ void silu(long long size, const T *x, T *y) {
    const long long i = PG_ELEMENT;
    if (i < size) y[i] = x[i] / (1 + exp(-x[i]));
}

template <typename T> __global__ void silu_grad(long long size, const T *g, const T *x, T *out) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const T gate = logistic(x[i]);
    out[i] = g[i] * (gate * (x[i] * (1 - gate) + 1));
}

#define ROOT_HALF T(0.70710678118654752440)
#define SLOPE T(0.79788456080286535588) /* the root of 2 / pi */
#define CUBIC T(0.044715)
#define DENSITY T(0.39894228040143267794) /* 1 / the root of 2 pi */

template <typename T> __global__ void gelu(long long size, const T *x, T *y, double by_tanh) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const T v = x[i];
    y[i] = v * (by_tanh ? tanh(v * (v * v * (CUBIC * SLOPE) + SLOPE)) + 1 : erf(v * ROOT_HALF) + 1) / 2;
}

template <typename T> __global__ void gelu_grad(long long size, const T *g, const T *x, T *out, double by_tanh) {
    const long long i = PG_ELEMENT;
    if (i >= size) return;
    const T v = x[i], square = v * v;
    if (by_tanh) {
        const T bent = tanh(v * (square * (CUBIC * SLOPE) + SLOPE));
        const T slope = (1 - bent * bent) * (square * (3 * CUBIC * SLOPE) + SLOPE);
        out[i] = g[i] * ((bent + 1 + v * slope) / 2);
    } else {
        out[i] = g[i] * ((erf(v * ROOT_HALF) + 1) / 2 + v * (exp(-square / 2) * DENSITY));
    }
}
