/* blas: products of large matrices, by OpenBLAS where it is installed.
 *
 * Loaded by dlopen at first use: linking it would cost every start of the command 2 to 3 ms. Only
 * training large networks asks for it; predictions never do. */
#ifndef PL_LAB_BLAS_H
#define PL_LAB_BLAS_H

#include "lend.h"

/* Own declarations of the two functions used (CBLAS, 32-bit sizes; OpenBLAS 0.3). */
enum { PL_BLAS_ROWS = 101, PL_BLAS_AS_IS = 111, PL_BLAS_TURNED = 112 };

typedef struct pl_openblas {
    void (*sgemm)(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                  const float *a, int a_row, const float *b, int b_row, float beta, float *c,
                  int c_row);
    void (*set_threads)(int count); /* NULL where the library has none */
    const char *config;             /* "OpenBLAS 0.3.21 ... Zen", or "" */
} pl_openblas;

/* The library, with one thread; loaded once for the process, safe from several threads. PL_MISSING
 * where it is not installed. */
pl_status pl_blas_open(const pl_openblas **out, pl_error *err);

#endif
