/* CRC-32, the checksum of zip files, by multiplication without carries: sixteen bytes are one polynomial, which is
   folded onto those 512 or 128 bits further on. What remains is sixteen bytes that have the same checksum. */
#include "crc32.h"

static uint32_t bytes(uint32_t sum, const uint8_t *data, size_t size) {
    static const uint32_t table[16] = { /* of four bits each */
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
        0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    while (size--) {
        sum ^= *data++;
        sum = sum >> 4 ^ table[sum & 15];
        sum = sum >> 4 ^ table[sum & 15];
    }
    return sum;
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

int pg_crc32_runs(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_PCLMUL);
}

#define LOAD(place) _mm_loadu_si128((const __m128i *)(place))

__attribute__((target("pclmul"))) static inline __m128i fold(__m128i x, __m128i powers, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(x, powers, 0x00), high = _mm_clmulepi64_si128(x, powers, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul"))) uint32_t pg_crc32(uint32_t sum, const uint8_t *data, size_t size) {
    sum = ~sum;
    if (size >= 128) {
        /* powers of x modulo the polynomial, in reversed order of bits: for 512 bits, and for 128 */
        const __m128i far = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4), near = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        __m128i a = _mm_xor_si128(LOAD(data), _mm_cvtsi32_si128((int)sum));
        __m128i b = LOAD(data + 16), c = LOAD(data + 32), d = LOAD(data + 48);
        for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
            a = fold(a, far, LOAD(data));
            b = fold(b, far, LOAD(data + 16));
            c = fold(c, far, LOAD(data + 32));
            d = fold(d, far, LOAD(data + 48));
        }
        uint8_t rest[16];
        _mm_storeu_si128((__m128i *)rest, fold(fold(fold(a, near, b), near, c), near, d));
        sum = bytes(0, rest, 16);
    }
    return ~bytes(sum, data, size);
}
#else
int pg_crc32_runs(void) { return 0; }

uint32_t pg_crc32(uint32_t sum, const uint8_t *data, size_t size) { return ~bytes(~sum, data, size); }
#endif
