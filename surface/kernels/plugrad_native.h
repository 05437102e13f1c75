/* The interface between plugrad and kernels in C. README.md beside this file explains it in a page.

   A kernel computes on arrays that plugrad has checked and described. It returns 0, or anything else if it does not
   serve such arguments: then it has written nothing that matters, and the kernel in NumPy runs in its place. */
#ifndef PLUGRAD_NATIVE_H
#define PLUGRAD_NATIVE_H

#include <stdint.h>

#define PG_ABI 1

/* The types of elements, by NumPy's numbers; that of bfloat16, which NumPy gives when it is first used, is not constant. */
enum { PG_BOOL = 0, PG_INT8 = 1, PG_UINT8 = 2, PG_INT32 = 5, PG_INT64 = 7, PG_FLOAT32 = 11, PG_FLOAT64 = 12 };
enum { PG_FLOAT16 = 23, PG_BFLOAT16 = -2 };

typedef struct {
    void *data;
    int64_t ndim;
    const int64_t *shape;
    const int64_t *strides; /* in bytes */
    int64_t size;           /* number of elements */
    int32_t type;           /* PG_FLOAT32 and so on */
    int32_t flags;          /* PG_CONTIGUOUS, PG_WRITABLE */
} pg_array;

enum { PG_CONTIGUOUS = 1, PG_WRITABLE = 2 };

/* `arrays`: those of the call in its order, at last the result that plugrad allocated. `numbers`: the others. */
typedef int (*pg_kernel)(const pg_array *arrays, const double *numbers);

/* Call task(context, part) for each part, on several threads where they are free. The parts must not depend on each
   other, and not on who computes them. */
typedef void (*pg_task)(void *context, int64_t part);
#ifdef PG_BUILDING
void pg_parallel(int64_t parts, pg_task task, void *context);
#else
/* In a library of your own: plugrad hands the function over when it loads the library. */
typedef void (*pg_parallel_function)(int64_t parts, pg_task task, void *context);
static pg_parallel_function pg_parallel;
#ifdef _WIN32
__declspec(dllexport)
#endif
void pg_connect(pg_parallel_function function) { pg_parallel = function; }
#endif

#endif
