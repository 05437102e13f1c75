#include "level.h"

static int always(void) { return 1; }

#if defined(__x86_64__)
#include <cpuid.h>

/* What the processor has and the system saves, as CPUID and XGETBV tell: the runtimes of some compilers don't. */
static unsigned features(unsigned ymm_or_zmm) { /* of leaf 7, EBX; 0 where registers of that size can't be used */
    unsigned a, b, c, d, low, high;
    const unsigned needed = bit_OSXSAVE | bit_FMA | bit_F16C | bit_MOVBE;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & needed) != needed) return 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & ymm_or_zmm) != ymm_or_zmm || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    return b;
}

static int has(unsigned present, unsigned wanted) { return (present & wanted) == wanted; }

static int avx2(void) { return has(features(0x06), bit_AVX2 | bit_BMI | bit_BMI2); }

static int avx512(void) {
    return avx2() && has(features(0xe6), bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ | bit_AVX512VL);
}

const pg_level pg_levels[] = {
    {"base", always, pg_entries_base}, {"avx2", avx2, pg_entries_v3}, {"avx512", avx512, pg_entries_v4}, {0}};
#else
const pg_level pg_levels[] = {{"base", always, pg_entries_base}, {0}};
#endif
