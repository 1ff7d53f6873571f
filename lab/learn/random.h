/* random: seeded numbers, the same on every machine (PCG32, O'Neill 2014). */
#ifndef PL_LAB_RANDOM_H
#define PL_LAB_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct pl_random {
    uint64_t state, stream;
} pl_random;

pl_random pl_random_seed(uint64_t seed, uint64_t stream);
uint32_t pl_random_u32(pl_random *random);
uint32_t pl_random_below(pl_random *random, uint32_t count); /* 0 to count - 1, unbiased; 0: 0 */
double pl_random_unit(pl_random *random);                    /* [0, 1) */
double pl_random_normal(pl_random *random);                  /* mean 0, deviation 1 */
/* At most 2^32 - 1 items. */
void pl_random_shuffle(pl_random *random, uint32_t *items, size_t count);

#endif
