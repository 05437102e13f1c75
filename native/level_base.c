/* Kernels for every processor: SSE2 on x86-64, NEON on ARM. */
#define LEVEL base
#include "level.inc"
