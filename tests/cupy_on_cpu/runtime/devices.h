// Which device is current, and what of one device another can't use: there is no access between them.
#pragma once
#include <cstddef>

constexpr int INVALID_HANDLE = 400, ILLEGAL_ADDRESS = 700;

int current_device();
// Whether one of the words in a launch's arguments is an address in the memory of a device that is not the current one.
bool elsewhere(const char* arguments, size_t size);
