// Functions of elements, a thread for each 16 bytes; see plugrad_cuda.h. What half precision holds is computed in float.

#define UNARY(NAME, VALUE)                                                              \
    template <typename T> __global__ void NAME(long long size, const T *x, T *y) {      \
        pg_map(size, x, y, [](T v) -> T {                                               \
            const pg_real<T> a = v;                                                     \
            return VALUE;                                                               \
        });                                                                             \
    }

UNARY(negative, -a)
UNARY(root, sqrt(a))
UNARY(hyperbolic, tanh(a))
UNARY(magnitude, fabs(a))

// Of two arrays of one shape; of an array and one of `size_of_part` elements, which is repeated; and of an array and a number,
// which is not rounded to half precision. `turned`: the latter is the first operand.
#define BINARY(NAME, VALUE)                                                                                            \
    template <typename T> struct NAME##_of {                                                                           \
        __device__ T operator()(T v, T w) const {                                                                      \
            const pg_real<T> a = v, b = w;                                                                             \
            return VALUE;                                                                                              \
        }                                                                                                              \
    };                                                                                                                 \
    template <typename T> __global__ void NAME(long long size, const T *x, const T *z, T *y) {                         \
        pg_map(size, x, z, y, NAME##_of<T>());                                                                         \
    }                                                                                                                  \
    template <typename T>                                                                                              \
    __global__ void NAME##_part(long long size, const T *x, const T *z, T *y, double size_of_part, double turned) {    \
        repeated(size, x, z, y, (unsigned)size_of_part, turned, NAME##_of<T>());                                       \
    }                                                                                                                  \
    template <typename T> __global__ void NAME##_number(long long size, const T *x, T *y, double number, double turned) { \
        const pg_real<T> one = pg_real<T>(number);                                                                     \
        pg_map(size, x, y, [=](T v) -> T {                                                                             \
            const pg_real<T> a = turned ? one : pg_real<T>(v), b = turned ? pg_real<T>(v) : one;                       \
            return VALUE;                                                                                              \
        });                                                                                                            \
    }

template <typename T, typename Map>
__device__ void repeated(long long size, const T *x, const T *z, T *y, unsigned part, bool turned, Map f) {
    const int wide = 16 / sizeof(T);
    const long long first = PG_ELEMENT * wide;
    if (part == 1) {
        const T one = *z;
        if (turned) pg_map(size, x, y, [=](T v) { return f(one, v); });
        else pg_map(size, x, y, [=](T v) { return f(v, one); });
        return;
    }
    unsigned at = (unsigned)(first % part);
    for (long long i = first; i < size && i < first + wide; i++) {
        y[i] = turned ? f(z[at], x[i]) : f(x[i], z[at]);
        if (++at == part) at = 0;
    }
}

BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)

// Where a mask holds, elements of `x`, elsewhere a number, or those of `z`. `turned`: the other way round.
template <typename T>
__global__ void choose_number(long long size, const T *x, const bool *mask, T *y, double number, double turned) {
    const long long i = PG_ELEMENT;
    if (i < size) y[i] = mask[i] != (turned != 0) ? x[i] : T(number);
}

template <typename T> __global__ void choose(long long size, const T *x, const T *z, const bool *mask, T *y) {
    const long long i = PG_ELEMENT;
    if (i < size) y[i] = mask[i] ? x[i] : z[i];
}

template <typename T> __global__ void fill(long long size, T *x, const bool *mask, double number) {
    const long long i = PG_ELEMENT;
    if (i < size && mask[i]) x[i] = T(number);
}
