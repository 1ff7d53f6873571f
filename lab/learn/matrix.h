/* matrix: products of row-major matrices of 32-bit numbers, by the kernels or, where it is the
 * faster and is there, by BLAS. */
#ifndef PL_LAB_MATRIX_H
#define PL_LAB_MATRIX_H

#include "lab/learn/blas.h"
#include "lab/learn/kernel.h"

/* The number of floats that the panels of a [k, n] matrix take. */
static inline size_t pl_panels_size(size_t k, size_t n) {
    return (n + PL_PANEL - 1) / PL_PANEL * PL_PANEL * k;
}
/* b is [k, n] with rows b_row apart; turned: b is [n, k], and its transpose is packed. */
void pl_panels_pack(const float *b, size_t b_row, bool turned, size_t k, size_t n, float *panels);
void pl_panels_unpack(const float *panels, size_t k, size_t n, float *b); /* to [k, n] */

enum { PL_PANEL_ROOM = 1024 * PL_PANEL }; /* floats of pl_products.room */

typedef struct pl_products {
    const pl_kernels *kernels;
    const pl_openblas *blas; /* NULL: the kernels do all */
    float *room;             /* [PL_PANEL_ROOM]; one for each thread */
} pl_products;

/* Where a matrix lies: rows `row` floats apart; turned: its transpose is meant. */
typedef struct pl_operand {
    const float *at;
    size_t row;
    bool turned;
} pl_operand;

/* c [m, n] = a [m, k] b [k, n], plus bias [n] (NULL: none), plus what c holds where `add`. */
void pl_multiply(const pl_products *with, size_t m, size_t n, size_t k, pl_operand a, pl_operand b,
                 const float *bias, bool add, float *c, size_t c_row);

#endif
