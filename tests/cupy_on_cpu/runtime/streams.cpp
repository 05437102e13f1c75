// Streams and events: all work is done when a call returns, so a stream is no more than a name, an event a time.
#include <chrono>
#include "counts.h"

namespace {

struct Stream { unsigned flags; };
struct Event { std::chrono::steady_clock::time_point time; };

int make(Stream** stream, unsigned flags) { *stream = new Stream{flags}; return 0; }

}

extern "C" {

int hipStreamCreate(Stream** stream) { return make(stream, 0); }
int hipStreamCreateWithFlags(Stream** stream, unsigned flags) { return make(stream, flags); }
int hipStreamCreateWithPriority(Stream** stream, unsigned flags, int) { return make(stream, flags); }
int hipStreamDestroy(Stream* stream) { delete stream; return 0; }
int hipStreamSynchronize(Stream*) { ++counts.waits; return 0; }
int hipStreamQuery(Stream*) { return 0; }
int hipStreamWaitEvent(Stream*, Event*, unsigned) { return 0; }
int hipStreamIsCapturing(Stream*, int* capturing) { *capturing = 0; return 0; }
int hipStreamGetFlags(Stream* stream, unsigned* flags) { *flags = stream ? stream->flags : 0; return 0; }
int hipStreamGetPriority(Stream*, int* priority) { *priority = 0; return 0; }

int hipEventCreate(Event** event) { *event = new Event{}; return 0; }
int hipEventCreateWithFlags(Event** event, unsigned) { *event = new Event{}; return 0; }
int hipEventDestroy(Event* event) { delete event; return 0; }
int hipEventRecord(Event* event, Stream*) { event->time = std::chrono::steady_clock::now(); return 0; }
int hipEventSynchronize(Event*) { ++counts.waits; return 0; }
int hipEventQuery(Event*) { return 0; }
int hipEventElapsedTime(float* milliseconds, Event* first, Event* last) {
    *milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
    return 0;
}

// CuPy's libraries announce the kernels that they bring compiled for GPUs; none of them is ever launched here.
int __hipRegisterFatBinary(void*) { return 0; }
int __hipRegisterFunction() { return 0; }
int __hipUnregisterFatBinary() { return 0; }

int hiprtcVersion(int* major, int* minor) { *major = 9, *minor = 0; return 0; }
const char* hiprtcGetErrorString(int) { return "kernels are compiled by g++ here"; }

}
