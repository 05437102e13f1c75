// Activations gated by their own size, and the logistic function, a thread for each 16 bytes; see plugrad_cuda.h.

#define ROOT_HALF pg_real<T>(0.70710678118654752440)
#define SLOPE pg_real<T>(0.79788456080286535588) /* the root of 2 / pi */
#define CUBIC pg_real<T>(0.044715)
#define DENSITY pg_real<T>(0.39894228040143267794) /* 1 / the root of 2 pi */

template <typename T> __device__ T logistic(T x) { return 1 / (1 + exp(-x)); }

template <typename T> __global__ void relu(long long size, const T *x, T *y) {
    pg_map(size, x, y, [](T v) { return v < T(0) ? T(0) : v; });
}

// The result is never negative, and where it is NaN the gradient goes on.
template <typename T> __global__ void relu_grad(long long size, const T *g, const T *y, T *out) {
    pg_map(size, g, y, out, [](T slope, T v) { return v != T(0) ? slope : T(0); });
}

template <typename T> __global__ void sigmoid(long long size, const T *x, T *y) {
    pg_map_in_real(size, x, y, [](pg_real<T> v) { return logistic(v); });
}

template <typename T> __global__ void sigmoid_grad(long long size, const T *g, const T *y, T *out) {
    pg_map_in_real(size, g, y, out, [](pg_real<T> slope, pg_real<T> v) { return slope * (v * (1 - v)); });
}

template <typename T> __global__ void silu(long long size, const T *x, T *y) {
    pg_map_in_real(size, x, y, [](pg_real<T> v) { return v / (1 + exp(-v)); });
}

template <typename T> __global__ void silu_grad(long long size, const T *g, const T *x, T *out) {
    pg_map_in_real(size, g, x, out, [](pg_real<T> slope, pg_real<T> v) {
        const pg_real<T> gate = logistic(v);
        return slope * (gate * (v * (1 - gate) + 1));
    });
}

template <typename T> __global__ void gelu(long long size, const T *x, T *y, double by_tanh) {
    if (by_tanh) pg_map_in_real(size, x, y, [](pg_real<T> v) { return v * (tanh(v * (v * v * (CUBIC * SLOPE) + SLOPE)) + 1) / 2; });
    else pg_map_in_real(size, x, y, [](pg_real<T> v) { return v * (erf(v * ROOT_HALF) + 1) / 2; });
}

template <typename T> __global__ void gelu_grad(long long size, const T *g, const T *x, T *out, double by_tanh) {
    if (by_tanh) {
        pg_map_in_real(size, g, x, out, [](pg_real<T> given, pg_real<T> v) {
            const pg_real<T> square = v * v, bent = tanh(v * (square * (CUBIC * SLOPE) + SLOPE));
            return given * ((bent + 1 + v * ((1 - bent * bent) * (square * (3 * CUBIC * SLOPE) + SLOPE))) / 2);
        });
    } else {
        pg_map_in_real(size, g, x, out, [](pg_real<T> given, pg_real<T> v) {
            return given * ((erf(v * ROOT_HALF) + 1) / 2 + v * (exp(v * v * pg_real<T>(-0.5)) * DENSITY));
        });
    }
}
