// What happened, for tests that count: launches, allocations, and how often the host waited for the device.
#pragma once

struct Counts {
    long launches, allocations, waits, copies_to_host, replays;
};
extern Counts counts;
extern bool idle;  // launches and products of matrices are counted, and do nothing: what is measured is the host
