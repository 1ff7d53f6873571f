/* cpu: what this processor can do, asked when it matters. A virtual machine traps each cpuid (5 us);
 * __builtin_cpu_supports makes a dozen of them at the start of every process that links it. */
#ifndef PL_CORE_CPU_H
#define PL_CORE_CPU_H

#include <stdbool.h>

#if defined __x86_64__ && defined __GNUC__
#include <cpuid.h>

/* Multiplies polynomials over GF(2). */
static inline bool pl_cpu_has_pclmul(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_PCLMUL);
}

/* AVX2 and FMA, with an operating system that keeps their registers. */
static inline bool pl_cpu_has_avx2_fma(void) {
    unsigned a, b, c, d;
    const unsigned wanted = bit_OSXSAVE | bit_AVX | bit_FMA;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & wanted) != wanted) return false;
    unsigned low, high; /* XCR0: bits 1 and 2, the SSE and AVX registers */
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_AVX2);
}
#endif

#endif
