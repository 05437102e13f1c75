#ifndef PLUGRAD_POOL_H
#define PLUGRAD_POOL_H

#include "plugrad_native.h"

int pg_threads(void);
void pg_set_threads(int threads);

#endif
