// Brain floating point: the upper half of a float, rounded to even.
#pragma once
#include <hip/hip_runtime.h>

struct __hip_bfloat16 {
    unsigned short bits = 0;
    __hip_bfloat16() = default;
    __hip_bfloat16(float v) {
        unsigned whole = __float_as_uint(v);
        bits = v != v ? 0x7fc0 : (whole + 0x7fff + ((whole >> 16) & 1)) >> 16;
    }
    operator float() const { return __uint_as_float((unsigned)bits << 16); }
};

static inline unsigned short __bfloat16_as_ushort(__hip_bfloat16 h) { return h.bits; }
static inline __hip_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return standin_bits<__hip_bfloat16>(bits); }
static inline bool __hisnan(__hip_bfloat16 h) { return (h.bits & 0x7fff) > 0x7f80; }
static inline int __hisinf(__hip_bfloat16 h) { return (h.bits & 0x7fff) == 0x7f80; }
