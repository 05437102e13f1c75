// Compiled once, before all kernels.
#define __HIPCC__ 1
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#include <cupy/complex.cuh>
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>
#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
