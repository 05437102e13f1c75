// Modules and launches. The threads of a block that meet are fibers: each has a stack, and a switch is a jump.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <setjmp.h>
#include <string>
#include <ucontext.h>
#include <vector>
#include <xmmintrin.h>
#include "capture.h"
#include "counts.h"
#include "devices.h"
#include "standin.h"

namespace standin {

dim3 grid, block, block_index, thread_index;
int current;
alignas(64) unsigned char lanes[1024][16];
static std::vector<char> shared_memory(1 << 18);
char* dynamic_shared = shared_memory.data();

namespace {

constexpr size_t STACK = 128 << 10;
constexpr int WARP_SIZE = 32;
constexpr long TABLE = 1024;  // larger arguments are tables, which may not be filled to their ends

struct Fiber {
    jmp_buf place;
    dim3 id;
    int meeting;
    bool started;
};

std::mutex one_at_a_time;
std::vector<Fiber> fibers(1024);
std::vector<std::unique_ptr<char[]>> stacks;
jmp_buf scheduler;
ucontext_t starting;
void (*body)(void**);
void** arguments;
unsigned order;  // 0: blocks and threads run in the order of their numbers; else the seed of another order

void enter() {
    body(arguments);
    fibers[current].meeting = DONE;
    _longjmp(scheduler, 1);
}

// The first entry sets the stack up; later ones jump, which needs no system call.
void resume(int number) {
    Fiber& fiber = fibers[number];
    current = number;
    thread_index = fiber.id;
    if (_setjmp(scheduler)) return;
    if (fiber.started) _longjmp(fiber.place, 1);
    fiber.started = true;
    getcontext(&starting);
    starting.uc_stack.ss_sp = stacks[number].get();
    starting.uc_stack.ss_size = STACK;
    starting.uc_link = nullptr;
    makecontext(&starting, enter, 0);
    setcontext(&starting);
}

dim3 position(int number) {
    return dim3(number % block.x, number / block.x % block.y, number / (block.x * block.y));
}

// The warps of which all threads that still run wait for each other go on.
bool release_warps(int count) {
    bool released = false;
    for (int start = 0; start < count; start += WARP_SIZE) {
        int here = 0, running = 0, end = start + WARP_SIZE < count ? start + WARP_SIZE : count;
        for (int t = start; t < end; ++t) here += fibers[t].meeting == WARP, running += fibers[t].meeting != DONE;
        if (!here || here != running) continue;
        for (int t = start; t < end; ++t) if (fibers[t].meeting == WARP) fibers[t].meeting = READY;
        released = true;
    }
    return released;
}

// Run one block; false for a kernel whose threads wait at different places for ever.
bool run_block(int count) {
    while ((int)stacks.size() < count) stacks.emplace_back(new char[STACK]);
    for (int t = 0; t < count; ++t) fibers[t].id = position(t), fibers[t].meeting = READY, fibers[t].started = false;
    for (unsigned round = order;; round = round * 1664525u + 1013904223u) {
        bool ran = false;
        int first = order ? round % count : 0, step = order && round & 1024 ? count - 1 : 1;
        for (int k = 0, t = first; k < count; ++k, t = (t + step) % count)
            if (fibers[t].meeting == READY) resume(t), ran = true;
        ran |= release_warps(count);
        int waiting = 0, done = 0;
        for (int t = 0; t < count; ++t) waiting += fibers[t].meeting == BARRIER, done += fibers[t].meeting == DONE;
        if (done == count) return true;
        if (waiting + done == count) {
            for (int t = 0; t < count; ++t) if (fibers[t].meeting == BARRIER) fibers[t].meeting = READY;
        } else if (!ran) return false;
    }
}

bool run_grid(const Kernel& kernel) {
    int count = block.x * block.y * block.z;
    long blocks = (long)grid.x * grid.y * grid.z;
    for (long n = 0; n < blocks; ++n) {
        long b = order ? blocks - 1 - (n + order) % blocks : n;
        block_index = dim3(b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y);
        if (kernel.kind == FIBERS) { if (!run_block(count)) return false; continue; }
        for (int k = 0; k < count; ++k) {
            current = order ? count - 1 - k : k;
            thread_index = position(current), kernel.body(arguments);
        }
    }
    return true;
}

int launch(const Kernel& kernel, dim3 blocks, dim3 threads, void** parameters) {
    std::lock_guard<std::mutex> lock(one_at_a_time);
    grid = blocks, block = threads, body = kernel.body, arguments = parameters;
    if (kernel.kind == ONE_THREAD) grid = block = dim3();
    unsigned before = _mm_getcsr();
    if (kernel.flush) _mm_setcsr(before | 0x8040);
    bool ended = run_grid(kernel);
    _mm_setcsr(before);
    return ended ? 0 : 719;  // hipErrorLaunchFailure
}

}

void pause(int meeting) {
    Fiber& fiber = fibers[current];
    fiber.meeting = meeting;
    if (!_setjmp(fiber.place)) _longjmp(scheduler, 1);
}

}

using namespace standin;

// A module is of the device on which it was loaded, and so are its functions.
struct Module {
    void* library;
    int device;
};
struct Function {
    const Kernel* kernel;
    int device;
};

extern "C" {

void standin_order(unsigned seed) { order = seed; }
void standin_idle(int on) { idle = on; }

int hipModuleLoadData(Module** module, const char* image) {
    void* library = dlopen(image, RTLD_NOW | RTLD_LOCAL);  // the image is the path of a library
    if (!library) fprintf(stderr, "%s\n", dlerror());
    *module = library ? new Module{library, current_device()} : nullptr;
    return library ? 0 : 301;
}
int hipModuleUnload(Module*) { return 0; }
int hipModuleGetFunction(Function** function, Module* module, const char* name) {
    void* found = dlsym(module->library, (std::string("kernel_") + name).c_str());
    *function = found ? new Function{(const Kernel*)found, module->device} : nullptr;
    return found ? 0 : 500;
}
int hipModuleGetGlobal(void** place, size_t* size, Module* module, const char* name) {
    *place = dlsym(module->library, name);
    *size = 0;
    return *place ? 0 : 500;
}
int hipFuncGetAttribute(int* value, int attribute, void*) {
    *value = attribute == 0 ? 1024 : 0;  // the most threads in a block
    return 0;
}
int hipOccupancyMaxPotentialBlockSize(int* blocks, int* threads, void*, size_t, int) {
    *blocks = 8, *threads = 256;
    return 0;
}
int hipOccupancyMaxActiveBlocksPerMultiprocessor(int* count, void*, int, size_t) {
    *count = 4;
    return 0;
}

int hipModuleLaunchKernel(const Function* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, Stream* stream, void** parameters, void**) {
    if (bx * by * bz > 1024 || bx * by * bz == 0 || gx * gy * gz == 0) return 9;  // hipErrorInvalidConfiguration
    if (shared > shared_memory.size()) return 1;
    if (function->device != current_device() || (stream && stream->device != current_device())) return INVALID_HANDLE;
    ++counts.launches;
    if (idle) return 0;
    const Kernel* kernel = function->kernel;
    std::vector<void*> pointers(parameters, parameters + kernel->count);
    std::shared_ptr<char[]> values(new char[kernel->copy(nullptr, nullptr) + 1]());
    char* end = values.get() + kernel->copy(pointers.data(), values.get());
    for (int n = 0; n < kernel->count; ++n) {
        char *start = (char*)pointers[n], *next = n + 1 < kernel->count ? (char*)pointers[n + 1] : end;
        if (next - start <= TABLE && elsewhere(start, next - start)) return ILLEGAL_ADDRESS;
    }
    const dim3 blocks(gx, gy, gz), threads(bx, by, bz);
    if (!stream || !stream->capture) return launch(*kernel, blocks, threads, parameters);
    // The graph has a copy of the arguments, since the caller's are gone when it is launched.
    noted(stream, [=, values = std::move(values)]() mutable { return launch(*kernel, blocks, threads, pointers.data()); });
    return 0;
}

}
