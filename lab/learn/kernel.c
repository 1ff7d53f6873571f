/* kernel: see kernel.h. Which of the two compilations runs; the loops are in kernel_body.h.
 *
 * The compiler knows nothing of the machine it compiles for (the package runs on any x86-64), so
 * the faster functions carry their target as an attribute. AVX-512 is left out: there was no
 * machine with it to measure on. */
#include "lab/learn/kernel.h"

#include <math.h>

#include "lend.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define PL_HAS_AVX2 1
#endif

#define NAME(x) plain_##x
#define TARGET
#define LANES        4
#define ROWS         2
#define FMA(a, b, c) ((a) * (b) + (c))
#define KERNELS_NAME "plain"
#define ROOT(v)      plain_root(v)
typedef float plain_root_vector __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) plain_root_vector plain_root(plain_root_vector v) {
    for (int i = 0; i < 4; i++) v[i] = sqrtf(v[i]);
    return v;
}
#include "lab/learn/kernel_body.h"

#ifdef PL_HAS_AVX2
#define NAME(x)      avx2_##x
#define TARGET       __attribute__((target("avx2,fma")))
#define LANES        8
#define ROWS         6
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ROOT(v)      _mm256_sqrt_ps(v)
#define KERNELS_NAME "avx2"
#include "lab/learn/kernel_body.h"
#endif

const pl_kernels *pl_kernels_plain(void) {
    return &plain_kernels;
}

const pl_kernels *pl_kernels_here(void) {
#ifdef PL_HAS_AVX2
    if (pl_cpu_has_avx2_fma()) return &avx2_kernels;
#endif
    return &plain_kernels;
}
