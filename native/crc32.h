/* CRC-32 as zlib computes it, several times faster on processors that multiply without carries. */
#ifndef PLUGRAD_CRC32_H
#define PLUGRAD_CRC32_H

#include <stddef.h>
#include <stdint.h>

int pg_crc32_runs(void); /* whether this processor has what makes it faster than zlib */
uint32_t pg_crc32(uint32_t sum, const uint8_t *data, size_t size); /* of what follows bytes whose checksum is `sum` */

#endif
