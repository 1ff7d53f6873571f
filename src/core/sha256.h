/* sha256: FIPS 180-4, for names of models by their content. */
#ifndef PL_CORE_SHA256_H
#define PL_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

void pl_sha256(uint8_t out[32], const void *bytes, size_t size);

#endif
