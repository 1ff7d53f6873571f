/* mix: one step of a hash over words that come from a file.
 *
 * Both halves of a product with a number that the file's author does not know: what two words make
 * of it differs by table, so that no words can be prepared that collide in all of them. */
#ifndef PL_CORE_MIX_H
#define PL_CORE_MIX_H

#include <stdint.h>

static inline uint64_t pl_mix(uint64_t hash, uint64_t word, uint64_t secret) {
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(hash ^ word) * secret;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A secret: made of an address, which differs by process. */
static inline uint64_t pl_mix_secret(const void *address) {
    return pl_mix((uint64_t)(uintptr_t)address, UINT64_C(0x243f6a8885a308d3),
                  UINT64_C(0x9e3779b97f4a7c15)) |
           1;
}

#endif
