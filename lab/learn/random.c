/* random: PCG32 (XSH-RR 64/32) of M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient
 * Statistically Good Algorithms for Random Number Generation", HMC-CS-2014-0905, seeded as its
 * reference code does.
 *
 * Only integers, and of floating point only what IEEE 754 rounds exactly (+ - * / sqrt), so that a
 * seed gives the same numbers on every machine; a C library's log() does not promise that, which is
 * why there is one here. Not for secrets. */
#include "lab/learn/random.h"

#include <math.h>

/* A fused multiply-add rounds once where two operations round twice. gcc keeps them apart in ISO
 * mode (-std=c11), clang has to be told. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

pl_random pl_random_seed(uint64_t seed, uint64_t stream) {
    pl_random random = {0, stream << 1 | 1}; /* the increment has to be odd */
    pl_random_u32(&random);
    random.state += seed;
    pl_random_u32(&random);
    return random;
}

uint32_t pl_random_u32(pl_random *random) {
    uint64_t old = random->state;
    random->state = old * UINT64_C(6364136223846793005) + random->stream;
    uint32_t mixed = (uint32_t)((old >> 18 ^ old) >> 27);
    uint32_t turn = (uint32_t)(old >> 59);
    return mixed >> turn | mixed << (-turn & 31);
}

/* The product's upper half is the number, its lower half says when to draw again (D. Lemire, "Fast
 * Random Integer Generation in an Interval", 2019): a division in rare cases only. */
uint32_t pl_random_below(pl_random *random, uint32_t count) {
    uint64_t product = (uint64_t)pl_random_u32(random) * count;
    uint32_t low = (uint32_t)product;
    if (low < count) {
        uint32_t biased = -count % count; /* 2^32 mod count */
        while (low < biased) {
            product = (uint64_t)pl_random_u32(random) * count;
            low = (uint32_t)product;
        }
    }
    return (uint32_t)(product >> 32);
}

double pl_random_unit(pl_random *random) {
    uint64_t high = pl_random_u32(random) >> 5, low = pl_random_u32(random) >> 6; /* 27, 26 bits */
    return (double)(high << 26 | low) * 0x1p-53;
}

/* ln of a normal number above 0: s = m * 2^e with m near 1, and ln m = 2 artanh((m - 1) / (m + 1))
 * as a power series; with |z| <= 0.172, eleven terms leave less than 1e-18. */
static double logarithm(double s) {
    const double ln2 = 0.693147180559945309417;
    int e;
    double m = frexp(s, &e);
    if (m < 0.70710678118654752440) {
        m *= 2;
        e--;
    }
    double z = (m - 1) / (m + 1), square = z * z, sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return e * ln2 + 2 * z * sum;
}

/* Marsaglia's polar method: a point in the unit circle. Its second number is not kept, so that the
 * state stays two words. */
double pl_random_normal(pl_random *random) {
    for (;;) {
        double u = 2 * pl_random_unit(random) - 1, v = 2 * pl_random_unit(random) - 1;
        double s = u * u + v * v;
        if (s > 0 && s < 1) return u * sqrt(-2 * logarithm(s) / s);
    }
}

void pl_random_shuffle(pl_random *random, uint32_t *items, size_t count) {
    for (size_t i = count; i > 1; i--) {
        uint32_t j = pl_random_below(random, (uint32_t)i);
        uint32_t kept = items[i - 1];
        items[i - 1] = items[j];
        items[j] = kept;
    }
}
