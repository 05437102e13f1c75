// Streams that note their work instead of doing it, and the graphs that come of it.
#pragma once
#include <functional>
#include <vector>

enum CaptureError { CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904 };

struct Capture;
struct Stream {
    unsigned flags;
    Capture* capture;  // whose work this stream's is at the moment
    long given;        // how much of that came through this stream
    int device;
};
typedef std::function<int()> Work;

// Whether a stream captures: the work is noted then, and done at every launch of the graph.
bool noted(Stream* stream, Work work);
// What a call that would wait has to return: 0, or an error, which spoils every capture that is under way.
int refused_in_captures();
int refused_in_capture(Stream* stream);
