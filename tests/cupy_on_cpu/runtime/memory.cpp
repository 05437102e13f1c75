// Devices and their memory: the host's, with a record of which device each piece is on.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include "capture.h"
#include "counts.h"
#include "devices.h"

Counts counts;
bool idle;

namespace {

constexpr int DEVICES = 2, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101;
constexpr size_t MEMORY = size_t(4) << 30;

struct Piece {
    size_t size;
    int device;  // -1: pinned memory of the host
};

thread_local int device = 0;
thread_local int last_error = 0;
std::mutex lock;
std::map<char*, Piece> pieces;
size_t used[DEVICES];

int failed(int error) { return last_error = error; }

int allocate(void** place, size_t size, int where) {
    std::lock_guard<std::mutex> guard(lock);
    if (where >= 0 && used[where] + size > MEMORY) return failed(OUT_OF_MEMORY);
    if (posix_memalign(place, 512, size ? size : 1)) return failed(OUT_OF_MEMORY);
    memset(*place, 0xa5, size);  // fresh memory has no value that anyone should rely on
    pieces[(char*)*place] = {size, where};
    if (where >= 0) used[where] += size, ++counts.allocations;
    return 0;
}

int release(void* place) {
    std::lock_guard<std::mutex> guard(lock);
    if (!place) return 0;
    auto found = pieces.find((char*)place);
    if (found == pieces.end()) return failed(INVALID_VALUE);
    if (found->second.device >= 0) used[found->second.device] -= found->second.size;
    pieces.erase(found);
    free(place);
    return 0;
}

const Piece* piece_of(void* place) {
    auto after = pieces.upper_bound((char*)place);
    if (after == pieces.begin()) return nullptr;
    auto found = std::prev(after);
    return (char*)place < found->first + found->second.size || place == found->first ? &found->second : nullptr;
}

bool on_host(const void* place) {
    std::lock_guard<std::mutex> guard(lock);
    const Piece* piece = piece_of((void*)place);
    return !piece || piece->device < 0;
}

int copy(void* to, const void* from, size_t size) {
    if (on_host(to)) ++counts.copies_to_host;
    memmove(to, from, size);
    return 0;
}

// In a capture CuPy refuses copies from and to the host, except in its build for HIP.
int copy(void* to, const void* from, size_t size, Stream* stream) {
    if (stream && stream->capture && (on_host(to) || on_host(from))) return failed(refused_in_capture(stream));
    return noted(stream, [=] { return copy(to, from, size); }) ? 0 : copy(to, from, size);
}

int fill(void* place, int value, size_t size) { memset(place, value, size); return 0; }

// The beginning of hipDeviceProp_tR0600.
struct Properties {
    char name[256], uuid[16], luid[8];
    unsigned node_mask;
    size_t global_memory, shared_memory;
    int registers, warp_size;
    size_t pitch;
    int threads, block[3], grid[3], clock;
    size_t constant_memory;
    int major, minor;
};

}

int current_device() { return device; }

bool elsewhere(const char* arguments, size_t size) {
    std::lock_guard<std::mutex> guard(lock);
    if (!used[1 - device]) return false;
    for (size_t at = 0; at + sizeof(char*) <= size; at += sizeof(char*)) {
        char* place;
        memcpy(&place, arguments + at, sizeof place);
        const Piece* piece = piece_of(place);
        if (piece && piece->device == 1 - device) return true;
    }
    return false;
}

extern "C" {

void standin_counts(long* into) {
    into[0] = counts.launches, into[1] = counts.allocations, into[2] = counts.waits, into[3] = counts.copies_to_host;
    into[4] = counts.replays;
}

int hipGetDeviceCount(int* count) { *count = DEVICES; return 0; }
int hipGetDevice(int* number) { *number = device; return 0; }
int hipSetDevice(int number) {
    if (number < 0 || number >= DEVICES) return failed(INVALID_DEVICE);
    device = number;
    return 0;
}
int hipDeviceGetAttribute(int* value, int, int) { *value = 64; return 0; }
int hipDriverGetVersion(int* version) { *version = 70051831; return 0; }
int hipRuntimeGetVersion(int* version) { *version = 70051831; return 0; }
int hipDeviceSynchronize() {
    if (int error = refused_in_captures()) return failed(error);
    ++counts.waits;
    return 0;
}
int hipDeviceCanAccessPeer(int* can, int, int) { *can = 0; return 0; }
int hipGetLastError() { int error = last_error; last_error = 0; return error; }
int hipPeekAtLastError() { return last_error; }
const char* hipGetErrorName(int error) {
    return error == 0 ? "hipSuccess" : error == OUT_OF_MEMORY ? "hipErrorOutOfMemory"
        : error == INVALID_DEVICE ? "hipErrorInvalidDevice" : error == INVALID_HANDLE ? "hipErrorInvalidHandle"
        : error == ILLEGAL_ADDRESS ? "hipErrorIllegalAddress" : error == 719 ? "hipErrorLaunchFailure"
        : error == CAPTURE_UNSUPPORTED ? "hipErrorStreamCaptureUnsupported"
        : error == CAPTURE_INVALIDATED ? "hipErrorStreamCaptureInvalidated"
        : error == CAPTURE_UNMATCHED ? "hipErrorStreamCaptureUnmatched"
        : error == CAPTURE_UNJOINED ? "hipErrorStreamCaptureUnjoined" : "hipErrorUnknown";
}
const char* hipGetErrorString(int error) {
    static thread_local char text[64];
    snprintf(text, sizeof text, "error %d of the stand-in for the HIP runtime", error);
    return text;
}
int hipGetDevicePropertiesR0600(Properties* about, int number) {
    if (number < 0 || number >= DEVICES) return failed(INVALID_DEVICE);
    *about = Properties{};
    snprintf(about->name, sizeof about->name, "CPU stand-in %d", number);
    about->global_memory = MEMORY, about->shared_memory = about->registers = 65536, about->warp_size = 32;
    about->threads = 1024, about->major = 9;
    return 0;
}

int hipMalloc(void** place, size_t size) { return allocate(place, size, device); }
int hipMallocManaged(void** place, size_t size, unsigned) { return allocate(place, size, device); }
int hipFree(void* place) { return release(place); }
int hipHostMalloc(void** place, size_t size, unsigned) { return allocate(place, size, -1); }
int hipHostFree(void* place) { return release(place); }
int hipMemGetInfo(size_t* free_, size_t* total) {
    std::lock_guard<std::mutex> guard(lock);
    *free_ = MEMORY - used[device], *total = MEMORY;
    return 0;
}
int hipMemcpy(void* to, const void* from, size_t size, int) {
    if (int error = refused_in_captures()) return failed(error);
    ++counts.waits;
    return copy(to, from, size);
}
int hipMemcpyAsync(void* to, const void* from, size_t size, int, Stream* stream) { return copy(to, from, size, stream); }
int hipMemcpyPeer(void* to, int, const void* from, int, size_t size) { return copy(to, from, size); }
int hipMemcpyPeerAsync(void* to, int, const void* from, int, size_t size, Stream* stream) { return copy(to, from, size, stream); }
int hipMemcpy2DAsync(char* to, size_t to_pitch, const char* from, size_t from_pitch, size_t width, size_t height, int, Stream* stream) {
    for (size_t row = 0; row < height; ++row) if (int error = copy(to + row * to_pitch, from + row * from_pitch, width, stream)) return error;
    return 0;
}
int hipMemset(void* place, int value, size_t size) {
    int error = refused_in_captures();
    return error ? failed(error) : fill(place, value, size);
}
int hipMemsetAsync(void* place, int value, size_t size, Stream* stream) {
    return noted(stream, [=] { return fill(place, value, size); }) ? 0 : fill(place, value, size);
}

struct Attributes { int type, device; void *on_device, *on_host; int managed; unsigned flags; };
int hipPointerGetAttributes(Attributes* about, void* place) {
    std::lock_guard<std::mutex> guard(lock);
    const Piece* piece = piece_of(place);
    if (!piece) { *about = {}; return 0; }  // the host's own memory
    *about = {piece->device < 0 ? 1 : 2, piece->device < 0 ? 0 : piece->device, place, piece->device < 0 ? place : nullptr, 0, 0};
    return 0;
}

}
