/* crc32: zip's checksum, as zlib's crc32_z has it, some ten times faster where the processor
 * multiplies polynomials. */
#ifndef PL_CORE_CRC32_H
#define PL_CORE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t pl_crc32(const void *bytes, size_t size);

#endif
