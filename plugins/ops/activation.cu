// Activation functions and their slopes, a thread for each 16 bytes; see plugrad_cuda.h.

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

template <typename T> __global__ void leaky_relu(long long size, const T *x, T *y, double slope) {
    pg_map_in_real(size, x, y, [=](pg_real<T> v) { return v > 0 ? v : v * pg_real<T>(slope); });
}

template <typename T> __global__ void leaky_relu_grad(long long size, const T *g, const T *x, T *out, double slope) {
    pg_map_in_real(size, g, x, out, [=](pg_real<T> given, pg_real<T> v) { return v > 0 ? given : given * pg_real<T>(slope); });
}

// Where the lower bound exceeds the upper one, it is that; NaN stays, and a bound that is NaN makes all NaN.
template <typename T> __global__ void bounded(long long size, const T *x, T *y, double low, double high) {
    const pg_real<T> from = low, to = high;
    pg_map_in_real(size, x, y, [=](pg_real<T> v) {
        const pg_real<T> raised = v < from || from != from ? from : v;
        return raised > to || to != to ? to : raised;
    });
}

// The gradient goes on between the bounds. Where they belong to the range it goes on at them, too, but not at NaN. They are
// rounded as elements are.
template <typename T>
__global__ void bounded_grad(long long size, const T *g, const T *x, T *out, double low, double high, double closed) {
    const pg_real<T> from = T(pg_real<T>(low)), to = T(pg_real<T>(high));
    pg_map_in_real(size, g, x, out, [=](pg_real<T> given, pg_real<T> v) {
        return (closed ? v >= from && v <= to : !(v <= from || v >= to)) ? given : 0;
    });
}

template <typename T> __global__ void hardswish(long long size, const T *x, T *y) {
    pg_map_in_real(size, x, y, [](pg_real<T> v) {
        const pg_real<T> gate = v + 3;
        return v * ((gate < 0 ? 0 : gate > 6 ? 6 : gate) * pg_real<T>(1.0 / 6));
    });
}

template <typename T> __global__ void hardswish_grad(long long size, const T *g, const T *x, T *out) {
    pg_map_in_real(size, g, x, out, [](pg_real<T> given, pg_real<T> v) {
        return v <= -3 ? 0 : v < 3 ? given * (v / 3 + pg_real<T>(0.5)) : given;
    });
}

template <typename T> __global__ void softplus(long long size, const T *x, T *y, double beta, double threshold) {
    pg_map_in_real(size, x, y, [=](pg_real<T> v) {
        const pg_real<T> scaled = v * pg_real<T>(beta);
        return scaled > pg_real<T>(threshold) ? v : log1p(exp(scaled)) / pg_real<T>(beta);
    });
}

template <typename T>
__global__ void softplus_grad(long long size, const T *g, const T *x, T *out, double beta, double threshold) {
    pg_map_in_real(size, g, x, out, [=](pg_real<T> given, pg_real<T> v) {
        const pg_real<T> scaled = v * pg_real<T>(beta);
        return scaled > pg_real<T>(threshold) ? given : given * logistic(scaled);
    });
}

template <typename T>
__global__ void elu(long long size, const T *x, T *y, double alpha, double scale, double input_scale) {
    pg_map_in_real(size, x, y, [=](pg_real<T> v) {
        return (v < 0 ? expm1(v * pg_real<T>(input_scale)) * pg_real<T>(alpha) : v) * pg_real<T>(scale);
    });
}

template <typename T>
__global__ void elu_grad(long long size, const T *g, const T *x, T *out, double alpha, double scale, double input_scale) {
    pg_map_in_real(size, g, x, out, [=](pg_real<T> given, pg_real<T> v) {
        return v <= 0 ? given * (exp(v * pg_real<T>(input_scale)) * pg_real<T>(alpha * input_scale * scale))
                      : given * pg_real<T>(scale);
    });
}

template <typename T> __global__ void log_sigmoid(long long size, const T *x, T *y) {
    pg_map_in_real(size, x, y, [](pg_real<T> v) { return (v < 0 ? v : v != v ? v : 0) - log1p(exp(-fabs(v))); });
}

template <typename T> __global__ void log_sigmoid_grad(long long size, const T *g, const T *x, T *out) {
    pg_map_in_real(size, g, x, out, [](pg_real<T> given, pg_real<T> v) { return given * logistic(-v); });
}

template <typename T> __device__ T mish_gate(T v) { return tanh((v > 0 ? v : 0) + log1p(exp(-fabs(v)))); }

template <typename T> __global__ void mish(long long size, const T *x, T *y) {
    pg_map_in_real(size, x, y, [](pg_real<T> v) { return v * mish_gate(v); });
}

template <typename T> __global__ void mish_grad(long long size, const T *g, const T *x, T *out) {
    pg_map_in_real(size, g, x, out, [](pg_real<T> given, pg_real<T> v) {
        const pg_real<T> gate = mish_gate(v);
        return given * (gate + v * logistic(v) * (1 - gate * gate));
    });
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
