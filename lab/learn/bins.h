/* bins: columns cut into at most 256 bins each, and the sums of gradients in them.
 *
 * A value lies in the first bin whose upper edge is not below it. Where a column has no more values
 * than bins are allowed, every value has a bin of its own and a split between bins is an exact
 * one. */
#ifndef PL_LAB_BINS_H
#define PL_LAB_BINS_H

#include "lend.h"

#include <stdbool.h>

enum { PL_BINS_MOST = 256 };

typedef struct pl_bins {
    size_t count, columns;
    uint8_t *codes;  /* [columns, count] bins from 0 */
    uint32_t *first; /* [columns + 1] a column's first bin among those of all columns */
    float *upper;    /* [first[columns]] edges between neighbours' values; the last of a column is
                        its largest value */
} pl_bins;

/* most: bins of a column, 2 to 256. least_rows: a bin is not closed before it has so many, 1: every
 * value its own where there is room. false: out of memory. */
bool pl_bins_open(pl_bins *bins, const pl_samples *samples, size_t most, size_t least_rows);
void pl_bins_close(pl_bins *bins); /* takes an empty one */

/* One bin's sums. */
typedef struct pl_cell {
    double gradient, hessian;
    uint32_t count;
} pl_cell;

/* Adds rows' gradients to a column's bins. rows: [count], gradients and hessians: [count] in the
 * rows' order, hessians NULL: all 1. cells: the column's, zeroed by the caller. */
void pl_bins_sum(const pl_bins *bins, size_t column, const uint32_t *rows, size_t count,
                 const float *gradients, const float *hessians, pl_cell *cells);
/* larger = all - smaller, [count]; larger may be all. */
void pl_bins_subtract(pl_cell *larger, const pl_cell *all, const pl_cell *smaller, size_t count);

#endif
