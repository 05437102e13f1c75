/* What precedes every kernel that `load_inline(cuda=...)` compiles: blocks of PG_THREADS threads, and sums over them. */
#ifndef PLUGRAD_CUDA_H
#define PLUGRAD_CUDA_H

#ifndef PG_THREADS /* a block is one warp of 32 where rows are short */
#define PG_THREADS 256
#endif

/* Half precision: kept in two bytes, computed in float, to which and from which it converts by itself. */
struct pg_half {
    unsigned short bits;
    pg_half() = default;
    __device__ pg_half(float value) {
#ifdef __CUDA_ARCH__
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
        const _Float16 half = (_Float16)value;
        memcpy(&bits, &half, 2);
#endif
    }
    __device__ operator float() const {
#ifdef __CUDA_ARCH__
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
        return value;
#else
        _Float16 half;
        memcpy(&half, &bits, 2);
        return half;
#endif
    }
};

struct pg_bfloat16 {
    unsigned short bits;
    pg_bfloat16() = default;
    __device__ pg_bfloat16(float value) {
        const unsigned whole = __float_as_uint(value);
        bits = value != value ? 0x7fc0 : (unsigned short)((whole + 0x7fff + (whole >> 16 & 1)) >> 16);
    }
    __device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

/* The type that elements of type T are computed in: pg_real<T>. */
template <typename T> struct pg_computed { typedef T type; };
template <> struct pg_computed<pg_half> { typedef float type; };
template <> struct pg_computed<pg_bfloat16> { typedef float type; };
template <typename T> using pg_real = typename pg_computed<T>::type;

/* The thread's element, in kernels that have one for each. */
#define PG_ELEMENT ((long long)blockIdx.x * blockDim.x + threadIdx.x)

/* The row of the thread's warp or block, in kernels that may have several short rows in a block, a warp for each. */
#define PG_ROW ((long long)blockIdx.x * blockDim.y + threadIdx.y)

/* a / b and a % b of numbers that are not negative; 32 bits, where they are enough, take a fraction of the time. */
__device__ inline long long pg_divide(long long a, int b, int *rest) {
    if (a >> 31) {
        *rest = (int)(a % b);
        return a / b;
    }
    *rest = (int)((unsigned)a % (unsigned)b);
    return (unsigned)a / (unsigned)b;
}

/* Elements that are loaded and stored at once: 16 bytes, in kernels that have a thread for each such pack. */
template <typename T> struct alignas(16) pg_pack {
    T at[16 / sizeof(T)];
};

/* Set y[i] = f(x[i]), or f(x[i], z[i]), for the elements of the thread's pack. Memory may begin anywhere. */
template <typename T, typename Map>
__device__ void pg_map(long long size, const T *x, const T *z, T *y, Map f) {
    const int wide = 16 / sizeof(T);
    const long long first = PG_ELEMENT * wide;
    if (first + wide <= size && ((size_t)x | (size_t)z | (size_t)y) % 16 == 0) {
        const pg_pack<T> a = *(const pg_pack<T> *)(x + first), b = *(const pg_pack<T> *)(z + first);
        pg_pack<T> result;
        for (int k = 0; k < wide; k++) result.at[k] = f(a.at[k], b.at[k]);
        *(pg_pack<T> *)(y + first) = result;
    } else {
        for (long long i = first; i < size && i < first + wide; i++) y[i] = f(x[i], z[i]);
    }
}

template <typename T, typename Map> __device__ void pg_map(long long size, const T *x, T *y, Map f) {
    pg_map(size, x, x, y, [f](T a, T) { return f(a); });
}

/* Lists of arrays, in kernels that have parts of PG_EACH elements of each for a block. `first`: an array's first block;
   `before`: the blocks of earlier launches, for arrays that did not find room in this one. */
#define PG_EACH 1024
template <typename T, int COUNT> struct pg_lists {
    long long count, before;
    struct {
        T *at[COUNT];
        long long size, first;
    } one[480 / (COUNT + 2)];

    /* Call f(arrays, i) for each element i of the thread; arrays[0] is that of the first list. */
    template <typename Body> __device__ void each(Body f) const {
        int low = 0, high = (int)count;
        while (high - low > 1) {
            const int middle = (low + high) / 2;
            if (one[middle].first <= blockIdx.x) low = middle;
            else high = middle;
        }
        const long long begin = (blockIdx.x - one[low].first) * PG_EACH;
        const long long end = begin + PG_EACH < one[low].size ? begin + PG_EACH : one[low].size;
        for (long long i = begin + threadIdx.x; i < end; i += PG_THREADS) f(one[low].at, i);
    }
};

/* The same with f of the numbers that elements are computed in. */
template <typename T, typename Map> __device__ void pg_map_in_real(long long size, const T *x, T *y, Map f) {
    pg_map(size, x, x, y, [f](T a, T) { return T(f(pg_real<T>(a))); });
}

template <typename T, typename Map>
__device__ void pg_map_in_real(long long size, const T *x, const T *z, T *y, Map f) {
    pg_map(size, x, z, y, [f](T a, T b) { return T(f(pg_real<T>(a), pg_real<T>(b))); });
}

template <typename T> struct pg_add {
    __device__ T operator()(T a, T b) const { return a + b; }
};

/* The larger one; NaN if either is. */
template <typename T> struct pg_larger {
    __device__ T operator()(T a, T b) const { return a > b || a != a ? a : b; }
};

/* What `join`, which is commutative, makes of the values of all threads of a block, for each of them. All must be there.
   Registers within a warp, memory between warps; in one order, so that results repeat. */
template <typename T, typename Join> __device__ T pg_over_block(T value, Join join) {
    for (int lane = 16; lane; lane /= 2) value = join(value, __shfl_xor_sync(0xffffffffu, value, lane));
    if (PG_THREADS > 32) {
        __shared__ T part[PG_THREADS / 32];
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
        __syncthreads();
        value = part[0];
        for (int warp = 1; warp < PG_THREADS / 32; warp++) value = join(value, part[warp]);
        __syncthreads(); /* before anybody uses the memory again */
    }
    return value;
}

template <typename T> __device__ T pg_sum(T value) { return pg_over_block(value, pg_add<T>()); }
template <typename T> __device__ T pg_max(T value) { return pg_over_block(value, pg_larger<T>()); }

/* The largest element of a row, and the sum of exp(x - largest): in one pass, in which each thread scales its sum anew
   where it meets a larger element. M. Milakov, N. Gimelshein, arXiv:1805.02867. */
template <typename T> struct pg_exponentials {
    T largest, sum;
};

template <typename T> __device__ pg_exponentials<pg_real<T>> pg_sum_of_exp(long long size, const T *x) {
    typedef pg_real<T> R;
    R largest = x[0], sum = 0;
    for (long long i = threadIdx.x; i < size; i += PG_THREADS) {
        const R value = x[i];
        if (value > largest) sum = sum * exp(largest - value) + 1, largest = value;
        else sum += value == largest ? R(1) : exp(value - largest); /* of two infinities the difference is NaN */
    }
    const R most = pg_max(largest);
    return {most, pg_sum(sum * exp(largest - most))};
}

#endif
