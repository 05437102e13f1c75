// Compiled once, before all kernels.
#define __HIPCC__ 1
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#include <cupy/complex.cuh>
// What these define is inline, else each kernel would have all of it once more: half of the time to compile one.
#define inline
#undef __device__
#define __device__ __inline__
#include <cupy/carray.cuh>
#include <cupy/float16.cuh>
#include <cupy/bfloat16.cuh>
#include <cupy/atomics.cuh>
#undef inline
#undef __device__
#define __device__
#include <cupy/math_constants.h>
