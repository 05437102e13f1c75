// What kernels and the runtime share: how a kernel is described, and where it runs.
#pragma once
#include <cstddef>

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace standin {

enum Kind {
    EVERY_THREAD,  // one after the other: the threads do not meet
    ONE_THREAD,    // a grid-stride loop, which a grid of a single thread walks to its end
    FIBERS,        // the threads of a block meet at barriers or shuffles
};

// Each kernel of a compiled module is exported as one of these, under the name "kernel_NAME".
struct Kernel {
    void (*body)(void** arguments);
    size_t (*copy)(void** arguments, char* into);  // copy the arguments, and point to the copies; their bytes
    int count;                                     // of arguments
    int kind;
    int flush;  // whether single precision is computed without denormal numbers, as CuPy has NVRTC do (-ftz=true)
};

enum Meeting { READY, BARRIER, DONE, WARP };

extern dim3 grid, block, block_index, thread_index;
extern int current;                      // the number of the running thread in its block
extern unsigned char lanes[1024][16];    // what threads hand each other in shuffles
extern char* dynamic_shared;             // the shared memory whose size the launch tells

void pause(int meeting);                 // let the other threads run until all that must be here are here

}
