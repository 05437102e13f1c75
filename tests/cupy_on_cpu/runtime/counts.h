// What happened, for tests that count: launches, allocations, and how often the host waited for the device.
#pragma once

struct Counts {
    long launches, allocations, waits, copies_to_host, replays;
};
extern Counts counts;
