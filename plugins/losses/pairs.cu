// Losses of pairs, a number and what it should be, added up or averaged, and their slopes; see plugrad_cuda.h. A block
// adds up what its threads have; where there are several, one more launch joins their sums, in one order.

template <typename T> struct squared {
    static __device__ T term(T x, T target) { return (x - target) * (x - target); }
    static __device__ T slope(T x, T target, T given) { return (x - target) * (given * 2); }
};

template <typename T> struct cross_entropy_of_logits {
    static __device__ T term(T x, T target) { return (1 - target) * x + (log1p(exp(-fabs(x))) - (x < 0 ? x : x != x ? x : 0)); }
    static __device__ T slope(T x, T target, T given) { return (1 / (1 + exp(-x)) - target) * given; }
};

template <typename T, template <typename> class Loss>
__device__ void add_up(long long size, const T *x, const T *target, pg_real<T> *parts, T *out, double divisor) {
    pg_real<T> sum = 0;
    for (long long i = PG_ELEMENT; i < size; i += (long long)gridDim.x * PG_THREADS)
        sum += Loss<pg_real<T>>::term(x[i], target[i]);
    sum = pg_sum(sum);
    if (threadIdx.x) return;
    if (gridDim.x > 1) parts[blockIdx.x] = sum;
    else *out = T(sum / pg_real<T>(divisor));
}

template <typename T, template <typename> class Loss>
__device__ void slopes(long long size, const T *x, const T *target, const T *g, T *out, double divisor) {
    const pg_real<T> given = pg_real<T>(*g) / pg_real<T>(divisor);
    const long long i = PG_ELEMENT;
    if (i < size) out[i] = T(Loss<pg_real<T>>::slope(x[i], target[i], given));
}

/* A loss's two kernels. */
#define LOSS(NAME, FORMULA)                                                                                              \
    template <typename T>                                                                                               \
    __global__ void NAME(long long size, const T *x, const T *target, pg_real<T> *parts, T *out, double divisor) {      \
        add_up<T, FORMULA>(size, x, target, parts, out, divisor);                                                       \
    }                                                                                                                   \
    template <typename T>                                                                                               \
    __global__ void NAME##_grad(long long size, const T *x, const T *target, const T *g, T *out, double divisor) {      \
        slopes<T, FORMULA>(size, x, target, g, out, divisor);                                                           \
    }

LOSS(mse, squared)
LOSS(bce_logits, cross_entropy_of_logits)

template <typename T> __global__ void join(long long size, const pg_real<T> *parts, T *out, double divisor) {
    pg_real<T> sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) sum += parts[i];
    sum = pg_sum(sum);
    if (threadIdx.x == 0) *out = T(sum / pg_real<T>(divisor));
}
