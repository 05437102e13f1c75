/* Kernels for x86-64 processors of level v3 and above. */
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("arch=x86-64-v3"))), apply_to = function)
#else
#pragma GCC target("arch=x86-64-v3")
#endif
#define LEVEL v3
#include "level.inc"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
