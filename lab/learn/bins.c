/* bins: edges by equal counts of rows, values that are frequent enough alone in theirs, as LightGBM
 * (Ke et al. 2017) describes its histograms.
 *
 * Left out: bundles of exclusive columns, bins of their own for zero and for missing values. */
#include "lab/learn/bins.h"

#include "lab/learn/tree_train.h"
#include "lend.h"

#include <stdlib.h>
#include <string.h>

static int by_float(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* A column's edges into `upper`, at most `most`; returns how many. sorted: [n], becomes the
 * distinct values; counts: [n] working memory. */
static size_t cut(float *upper, float *sorted, uint32_t *counts, size_t n, size_t most,
                  size_t least_rows) {
    size_t distinct = 0;
    for (size_t i = 0; i < n; i++) {
        if (distinct == 0 || sorted[i] > sorted[distinct - 1]) {
            sorted[distinct] = sorted[i];
            counts[distinct++] = 0;
        }
        counts[distinct - 1]++;
    }
    /* Values with more rows than a bin's even part get one each; the others share what is left. */
    size_t bins = 0;
    bool room = distinct <= most;
    if (least_rows > 1 && n / least_rows + 1 < most) most = n / least_rows + 1;
    double even = (double)n / (double)most;
    size_t shared_rows = n, shared_bins = most;
    for (size_t i = 0; i < distinct; i++)
        if ((double)counts[i] >= even && shared_bins > 1) {
            shared_bins--;
            shared_rows -= counts[i];
        }
    double part = (double)shared_rows / (double)shared_bins;
    size_t inside = 0; /* rows of the open bin */
    for (size_t i = 0; i + 1 < distinct && bins + 1 < most; i++) {
        bool frequent = (double)counts[i] >= even, next = (double)counts[i + 1] >= even;
        inside += counts[i];
        if (!frequent) shared_rows -= counts[i];
        bool full =
            room ? inside >= least_rows
                 : frequent || (double)inside >= part || (next && (double)inside * 2 >= part);
        if (!full) continue;
        upper[bins++] = pl_tree_between(sorted[i], sorted[i + 1]);
        inside = 0;
        if (!frequent && shared_bins > 1) part = (double)shared_rows / (double)--shared_bins;
    }
    upper[bins++] = sorted[distinct - 1];
    return bins;
}

static uint8_t find(const float *upper, size_t bins, float value) {
    size_t low = 0, high = bins - 1;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (value <= upper[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return (uint8_t)low;
}

bool pl_bins_open(pl_bins *b, const pl_samples *samples, size_t most, size_t least_rows) {
    const size_t n = samples->count, m = samples->columns;
    size_t cells;
    *b = (pl_bins){.count = n, .columns = m};
    if (!pl_mul_size(n, m, &cells) || m > PL_TREE_COLUMNS) return false;
    float *sorted = calloc(n, sizeof *sorted);
    uint32_t *counts = calloc(n, sizeof *counts);
    b->codes = calloc(cells, 1);
    b->first = calloc(m + 1, sizeof *b->first);
    b->upper = calloc(m * most, sizeof *b->upper);
    bool done = sorted && counts && b->codes && b->first && b->upper;
    for (size_t c = 0; done && c < m; c++) {
        for (size_t i = 0; i < n; i++) sorted[i] = samples->values[i * m + c];
        qsort(sorted, n, sizeof *sorted, by_float);
        float *upper = b->upper + b->first[c];
        size_t bins = cut(upper, sorted, counts, n, most, least_rows);
        b->first[c + 1] = b->first[c] + (uint32_t)bins;
        for (size_t i = 0; i < n; i++)
            b->codes[c * n + i] = find(upper, bins, samples->values[i * m + c]);
    }
    free(sorted);
    free(counts);
    if (!done) pl_bins_close(b);
    return done;
}

void pl_bins_close(pl_bins *b) {
    free(b->codes);
    free(b->first);
    free(b->upper);
    *b = (pl_bins){0};
}

void pl_bins_sum(const pl_bins *b, size_t column, const uint32_t *rows, size_t count,
                 const float *gradients, const float *hessians, pl_cell *cells) {
    const uint8_t *codes = b->codes + column * b->count;
    if (!hessians) {
        for (size_t i = 0; i < count; i++) {
            pl_cell *cell = &cells[codes[rows[i]]];
            cell->gradient += (double)gradients[i];
            cell->count++;
        }
        size_t bins = b->first[column + 1] - b->first[column];
        for (size_t k = 0; k < bins; k++) cells[k].hessian = cells[k].count;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        pl_cell *cell = &cells[codes[rows[i]]];
        cell->gradient += (double)gradients[i];
        cell->hessian += (double)hessians[i];
        cell->count++;
    }
}

void pl_bins_subtract(pl_cell *larger, const pl_cell *all, const pl_cell *smaller, size_t count) {
    for (size_t k = 0; k < count; k++)
        larger[k] = (pl_cell){all[k].gradient - smaller[k].gradient,
                              all[k].hessian - smaller[k].hessian, all[k].count - smaller[k].count};
}
