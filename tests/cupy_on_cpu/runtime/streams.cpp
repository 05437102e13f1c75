// Streams and events: all work is done when a call returns, unless it is captured; then launches of the graph do it.
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <utility>
#include "capture.h"
#include "counts.h"
#include "devices.h"

struct Capture {
    Stream* origin;
    std::vector<Work> work;
    std::set<Stream*> apart;  // streams whose work the origin did not wait for yet
    bool spoiled;
};

namespace {

struct Event {
    std::chrono::steady_clock::time_point time;
    Capture* capture;
    Stream* stream;
    long given;
    int device = current_device();
};

std::set<Capture*> captures;  // that are under way
std::set<Stream*> streams;    // all but the one that is 0

int make(Stream** stream, unsigned flags) {
    streams.insert(*stream = new Stream{flags, nullptr, 0, current_device()});
    return 0;
}

int spoiled(Capture* capture) {
    bool before = std::exchange(capture->spoiled, true);
    return before ? CAPTURE_INVALIDATED : CAPTURE_UNSUPPORTED;
}

}

bool noted(Stream* stream, Work work) {
    if (!stream || !stream->capture) return false;
    Capture* capture = stream->capture;
    capture->work.push_back(std::move(work));
    ++stream->given;
    if (stream != capture->origin) capture->apart.insert(stream);
    return true;
}

int refused_in_captures() {
    int error = 0;
    for (Capture* capture : captures) error = spoiled(capture);
    return error;
}

int refused_in_capture(Stream* stream) { return stream && stream->capture ? spoiled(stream->capture) : 0; }

extern "C" {

// Work in Python; whether it was noted.
int standin_noted(Stream* stream, int (*work)()) { return noted(stream, work); }

int hipStreamCreate(Stream** stream) { return make(stream, 0); }
int hipStreamCreateWithFlags(Stream** stream, unsigned flags) { return make(stream, flags); }
int hipStreamCreateWithPriority(Stream** stream, unsigned flags, int) { return make(stream, flags); }
int hipStreamDestroy(Stream* stream) { streams.erase(stream); delete stream; return 0; }
int hipStreamSynchronize(Stream* stream) {
    if (int error = refused_in_capture(stream)) return error;
    ++counts.waits;
    return 0;
}
int hipStreamQuery(Stream* stream) { return refused_in_capture(stream); }
int hipStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    Capture* capture = event->capture;
    if (!capture || !captures.count(capture)) return 0;  // its work is done
    if (!stream) return spoiled(capture);
    if (!stream->capture) {  // it joins
        stream->capture = capture, stream->given = 0;
        capture->apart.insert(stream);
    }
    if (stream == capture->origin && event->given == event->stream->given) capture->apart.erase(event->stream);
    return 0;
}
int hipStreamGetFlags(Stream* stream, unsigned* flags) { *flags = stream ? stream->flags : 0; return 0; }
int hipStreamGetPriority(Stream*, int* priority) { *priority = 0; return 0; }

int hipStreamBeginCapture(Stream* stream, int) {
    if (!stream || stream->capture) return CAPTURE_UNSUPPORTED;
    captures.insert(stream->capture = new Capture{stream});
    return 0;
}
int hipStreamIsCapturing(Stream* stream, int* status) {
    *status = !stream || !stream->capture ? 0 : stream->capture->spoiled ? 2 : 1;
    return 0;
}
int hipStreamEndCapture(Stream* stream, std::vector<Work>** graph) {
    *graph = nullptr;
    Capture* capture = stream ? stream->capture : nullptr;
    if (!capture) return 1;
    if (capture->origin != stream) return CAPTURE_UNMATCHED;
    for (Stream* one : streams) if (one->capture == capture) one->capture = nullptr;
    captures.erase(capture);
    int error = capture->spoiled ? CAPTURE_INVALIDATED : !capture->apart.empty() ? CAPTURE_UNJOINED : 0;
    if (!error) *graph = new std::vector<Work>(std::move(capture->work));
    delete capture;
    return error;
}
int hipGraphInstantiate(std::vector<Work>** executable, std::vector<Work>* graph, void*, char*, size_t) {
    *executable = new std::vector<Work>(*graph);
    return 0;
}
int hipGraphLaunch(std::vector<Work>* executable, Stream* stream) {
    if (int error = refused_in_capture(stream)) return error;
    ++counts.replays;
    for (Work& one : *executable) if (int error = one()) return error;
    return 0;
}
int hipGraphUpload(std::vector<Work>*, Stream*) { return 0; }
int hipGraphDestroy(std::vector<Work>* graph) { delete graph; return 0; }
int hipGraphExecDestroy(std::vector<Work>* executable) { delete executable; return 0; }
int hipGraphDebugDotPrint(std::vector<Work>* graph, const char* path, unsigned) {
    FILE* file = fopen(path, "w");
    if (!file) return 1;
    fprintf(file, "digraph work {\n");
    for (size_t i = 0; i < graph->size(); ++i) fprintf(file, i ? "n%zu -> n%zu\n" : "n%zu\n", i ? i - 1 : i, i);
    fprintf(file, "}\n");
    fclose(file);
    return 0;
}

int hipEventCreate(Event** event) { *event = new Event{}; return 0; }
int hipEventCreateWithFlags(Event** event, unsigned) { *event = new Event{}; return 0; }
int hipEventDestroy(Event* event) { delete event; return 0; }
int hipEventRecord(Event* event, Stream* stream) {
    if (event->device != (stream ? stream->device : current_device())) return INVALID_HANDLE;
    event->time = std::chrono::steady_clock::now(), event->stream = stream;
    event->capture = stream ? stream->capture : nullptr, event->given = stream ? stream->given : 0;
    return 0;
}
int hipEventSynchronize(Event* event) {
    if (event->capture && captures.count(event->capture)) return spoiled(event->capture);
    ++counts.waits;
    return 0;
}
int hipEventQuery(Event* event) { return event->capture && captures.count(event->capture) ? spoiled(event->capture) : 0; }
int hipEventElapsedTime(float* milliseconds, Event* first, Event* last) {
    if (first->device != last->device) return INVALID_HANDLE;
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
