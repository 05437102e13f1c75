// The device's language on one thread of the CPU, in C++17: what the kernels that CuPy generates use, and ours.
#pragma once
#include <algorithm>
#include <cassert>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <math.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <standin.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)
#ifndef __forceinline__
#define __forceinline__ inline
#endif
#ifndef __noinline__
#define __noinline__
#endif

#define blockIdx standin::block_index
#define blockDim standin::block
#define gridDim standin::grid
#define threadIdx standin::thread_index
constexpr int warpSize = 32;

struct uint3 { unsigned x, y, z; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };

namespace standin {

// Call a kernel with arguments that come as pointers to them.
template <class... A, size_t... I>
static inline void spread(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
    kernel(*(std::remove_reference_t<A>*)arguments[I]...);
}
template <class... A>
static inline void apply(void (*kernel)(A...), void** arguments) {
    spread(kernel, arguments, std::index_sequence_for<A...>{});
}

// Copy the arguments of a kernel into memory, each at a multiple of 16, and return how much of that it takes.
template <class... A>
static constexpr int count_of(void (*)(A...)) { return sizeof...(A); }
template <class... A>
static inline size_t keep(void (*)(A...), void** arguments, char* into) {
    size_t place = 0, index = 0;
    auto one = [&](size_t size) {
        if (into) memcpy(into + place, arguments[index], size);
        if (into) arguments[index] = into + place;
        place += (size + 15) / 16 * 16, ++index;
    };
    (one(sizeof(A)), ...);
    return place;
}

// What thread `source` of the block holds; all threads of a warp are here twice, to write and to read.
template <class T>
static inline T shuffle(T value, int source) {
    static_assert(sizeof(T) <= sizeof lanes[0], "a shuffle of more than 16 bytes");
    memcpy(lanes[current], &value, sizeof(T));
    pause(WARP);
    T result;
    memcpy(&result, lanes[source], sizeof(T));
    pause(WARP);
    return result;
}

// The thread whose number in the part of `width` threads is `lane`, or this one where there is none.
static inline int neighbour(int lane, int width) {
    int start = current / width * width;
    return lane < 0 || lane >= width ? current : start + lane;
}

}

static inline void __syncthreads() { standin::pause(standin::BARRIER); }
static inline void __syncwarp(unsigned long long = 0) { standin::pause(standin::WARP); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <class T> static inline T __shfl(T v, int lane, int width = 32) { return standin::shuffle(v, standin::neighbour(lane % width, width)); }
template <class T> static inline T __shfl_xor(T v, int mask, int width = 32) { return standin::shuffle(v, standin::neighbour(standin::current % width ^ mask, width)); }
template <class T> static inline T __shfl_down(T v, int by, int width = 32) { return standin::shuffle(v, standin::neighbour(standin::current % width + by, width)); }
template <class T> static inline T __shfl_up(T v, int by, int width = 32) { return standin::shuffle(v, standin::neighbour(standin::current % width - by, width)); }
template <class T> static inline T __shfl_sync(unsigned long long, T v, int lane, int width = 32) { return __shfl(v, lane, width); }
template <class T> static inline T __shfl_xor_sync(unsigned long long, T v, int mask, int width = 32) { return __shfl_xor(v, mask, width); }
template <class T> static inline T __shfl_down_sync(unsigned long long, T v, int by, int width = 32) { return __shfl_down(v, by, width); }
template <class T> static inline T __shfl_up_sync(unsigned long long, T v, int by, int width = 32) { return __shfl_up(v, by, width); }

// One thread runs at a time, so these are what their names say.
#define STANDIN_ATOMIC(name, expression) \
    template <class T, class U> static inline T name(T* place, U operand) { T old = *place, value = (T)operand; *place = (expression); return old; }
STANDIN_ATOMIC(atomicAdd, (T)(old + value))
STANDIN_ATOMIC(atomicSub, (T)(old - value))
STANDIN_ATOMIC(atomicExch, value)
STANDIN_ATOMIC(atomicMax, value > old ? value : old)
STANDIN_ATOMIC(atomicMin, value < old ? value : old)
STANDIN_ATOMIC(atomicAnd, (T)(old & value))
STANDIN_ATOMIC(atomicOr, (T)(old | value))
STANDIN_ATOMIC(atomicXor, (T)(old ^ value))
template <class T, class U, class V> static inline T atomicCAS(T* place, U expected, V value) {
    T old = *place;
    if (old == (T)expected) *place = (T)value;
    return old;
}
template <class T> static inline T __ldg(const T* p) { return *p; }

template <class T> static inline T min(T a, T b) { return a < b ? a : b; }
template <class T> static inline T max(T a, T b) { return a > b ? a : b; }
static inline int min(int a, unsigned b) { return a < (int)b ? a : (int)b; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(v) : 64; }

template <class To, class From> static inline To standin_bits(From v) {
    static_assert(sizeof(To) == sizeof(From), "bits of another size");
    To result;
    memcpy(&result, &v, sizeof result);
    return result;
}
static inline int __float_as_int(float v) { return standin_bits<int>(v); }
static inline float __int_as_float(int v) { return standin_bits<float>(v); }
static inline unsigned __float_as_uint(float v) { return standin_bits<unsigned>(v); }
static inline float __uint_as_float(unsigned v) { return standin_bits<float>(v); }
static inline long long __double_as_longlong(double v) { return standin_bits<long long>(v); }
static inline double __longlong_as_double(long long v) { return standin_bits<double>(v); }

static inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
static inline float rsqrt(float v) { return 1.0f / sqrtf(v); }
static inline double rsqrt(double v) { return 1.0 / sqrt(v); }
static inline float __expf(float v) { return expf(v); }
static inline float __logf(float v) { return logf(v); }
static inline float __fdividef(float a, float b) { return a / b; }
static inline double normcdf(double v) { return 0.5 * erfc(-v * M_SQRT1_2); }
static inline float normcdff(float v) { return (float)normcdf((double)v); }
static inline double rcbrt(double v) { return 1.0 / cbrt(v); }
static inline double sinpi(double v) { return sin(M_PI * fmod(v, 2.0)); }
static inline double cospi(double v) { return cos(M_PI * fmod(v, 2.0)); }

// The quantile of the normal distribution: a rough start (its tails from the logarithm), then Newton's steps on erfc.
static inline double standin_erfcinv(double v) {
    if (!(v > 0 && v < 2)) return v == 0 ? INFINITY : v == 2 ? -INFINITY : NAN;
    double small = v < 1 ? v : 2 - v, t = sqrt(-2 * log(small / 2));
    double x = M_SQRT1_2 * (t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
    for (int step = 0; step < 4; ++step) {
        double error = erfc(x) - small, slope = -M_2_SQRTPI * exp(-x * x), newton = error / slope;
        if (slope == 0) break;
        x -= newton / (1 + x * newton);
    }
    return v < 1 ? x : -x;
}
static inline double erfcinv(double v) { return standin_erfcinv(v); }
static inline float erfcinv(float v) { return (float)standin_erfcinv(v); }
static inline double erfinv(double v) {
    if (fabs(v) > 0.1) return standin_erfcinv(1 - v);
    double x = v * 0.5 / M_2_SQRTPI * 4;  // near 0 the quantile of 1 - v has lost the digits of v
    for (int step = 0; step < 5; ++step) x -= (erf(x) - v) / (M_2_SQRTPI * exp(-x * x));
    return v == 0 ? v : x;
}
static inline float erfinv(float v) { return (float)erfinv((double)v); }
static inline float erfinvf(float v) { return erfinv(v); }
static inline double normcdfinv(double v) { return -M_SQRT2 * standin_erfcinv(2 * v); }
static inline float normcdfinv(float v) { return (float)normcdfinv((double)v); }
static inline double cyl_bessel_i0(double v) { return std::cyl_bessel_i(0.0, fabs(v)); }
static inline float cyl_bessel_i0f(float v) { return (float)cyl_bessel_i0((double)v); }
static inline double cyl_bessel_i1(double v) { double y = std::cyl_bessel_i(1.0, fabs(v)); return v < 0 ? -y : y; }
static inline float cyl_bessel_i1f(float v) { return (float)cyl_bessel_i1((double)v); }

// exp(v^2) erfc(v); from 10 on by the continued fraction, since the one factor overflows and the other vanishes.
static inline double erfcx(double v) {
    if (v < 10) return exp(v * v) * erfc(v);
    double fraction = 0;
    for (int k = 30; k > 0; --k) fraction = 0.5 * k / (v + fraction);
    return 0.5 * M_2_SQRTPI / (v + fraction);
}
static inline float erfcxf(float v) { return (float)erfcx((double)v); }
static inline float erfcx(float v) { return (float)erfcx((double)v); }
