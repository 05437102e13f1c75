#include "level.h"

static int always(void) { return 1; }

#if defined(__x86_64__)
static int avx2(void) { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

static int avx512(void) {
    return avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const pg_level pg_levels[] = {
    {"base", always, pg_entries_base}, {"avx2", avx2, pg_entries_v3}, {"avx512", avx512, pg_entries_v4}, {0}};
#else
const pg_level pg_levels[] = {{"base", always, pg_entries_base}, {0}};
#endif
