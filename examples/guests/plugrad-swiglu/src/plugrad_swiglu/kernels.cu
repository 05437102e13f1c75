// SwiGLU and its gradients on CUDA, a thread for each element.

template <typename T>
__global__ void forward(long long size, const T *gate, const T *value, T *y) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    T x = gate[i];
    y[i] = x / (1 + exp(-x)) * value[i];
}

template <typename T>
__global__ void backward(long long size, const T *g, const T *gate, const T *value, T *by_gate, T *by_value) {
    long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    T x = gate[i], s = 1 / (1 + exp(-x));
    by_gate[i] = g[i] * value[i] * (s + x * s * (1 - s));
    by_value[i] = g[i] * (x * s);
}
