// Half precision, in the compiler's own type.
#pragma once
#include <hip/hip_runtime.h>

struct __half_raw { unsigned short x; };
struct __half {
    _Float16 value;
    __half() = default;
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>> __half(T v) : value((_Float16)v) {}
    __half(const __half_raw& raw) { memcpy(&value, &raw, 2); }
    operator float() const { return (float)value; }
    operator __half_raw() const { return standin_bits<__half_raw>(value); }
    __half operator-() const { return __half(-(float)value); }
};
typedef __half half;

static inline unsigned short __half_as_ushort(__half h) { return standin_bits<unsigned short>(h); }
static inline __half __ushort_as_half(unsigned short bits) { return standin_bits<__half>(bits); }
static inline float __half2float(__half h) { return (float)h.value; }
static inline __half __float2half(float v) { return __half(v); }
static inline __half __float2half_rn(float v) { return __half(v); }
