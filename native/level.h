/* The kernels, compiled for several kinds of processors; the best that runs here is chosen when the module is loaded. */
#ifndef PLUGRAD_LEVEL_H
#define PLUGRAD_LEVEL_H

#include "plugrad_native.h"

typedef struct {
    const char *name;
    pg_kernel kernel;
    int arrays, numbers, like, strided, elements;
} pg_entry;

typedef struct {
    const char *name;
    int (*runs)(void);
    const pg_entry *entries;
} pg_level;

extern const pg_level pg_levels[]; /* the best is last; ends with a level without a name */
extern const pg_entry pg_entries_base[], pg_entries_v3[], pg_entries_v4[];

#endif
