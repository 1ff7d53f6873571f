/* scores: trials summed up, as the papers print them and as users ask: how far off, how often too
 * low, in which bin. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "learn/metrics.h"

static bool counts(const pl_trial *t) {
    return t->status == PL_OK && isfinite(t->measured) && t->measured > 0 && isfinite(t->predicted);
}

static double median_of(double *values, size_t count) {
    pl_sort(values, count);
    return pl_quantile(values, count, 0.5);
}

/* Bins of the truths and predictions as classes; malloc'ed. */
typedef struct bins {
    int32_t *truth, *predicted;
    size_t count, classes;
    int64_t first; /* of the lowest bin: its number */
} bins;

enum { MOST_CLASSES = 4096 }; /* of a confusion matrix */

/* Numbers of bins, ascending, each once; the new count. */
static size_t distinct(double *values, size_t count) {
    size_t kept = 0;
    pl_sort(values, count);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || values[i] > values[kept - 1]) values[kept++] = values[i];
    return kept;
}

static int32_t place_of(double value, const double *values, size_t count) {
    size_t from = 0, to = count;
    while (to - from > 1) {
        size_t middle = from + (to - from) / 2;
        if (values[middle] <= value)
            from = middle;
        else
            to = middle;
    }
    return (int32_t)from;
}

/* all: a class for every bin from the lowest that occurs to the highest (none where these are more
 * than MOST_CLASSES); else for those that occur. */
static bool bins_open(bins *b, const pl_evaluation *e, int64_t bin_bytes, bool all,
                      bool (*keep)(const pl_trial *, const void *), const void *context) {
    *b = (bins){0};
    double bin = (double)(bin_bytes > 0 ? bin_bytes : 1);
    double *block = malloc((4 * e->count + 1) * sizeof *block);
    double *truth = block, *predicted = truth + e->count, *both = predicted + e->count;
    b->truth = malloc((e->count + 1) * sizeof *b->truth);
    b->predicted = malloc((e->count + 1) * sizeof *b->predicted);
    bool ok = block && b->truth && b->predicted;
    for (size_t i = 0; ok && i < e->count; i++) {
        const pl_trial *t = &e->trials[i];
        if (!counts(t) || (keep && !keep(t, context))) continue;
        truth[b->count] = both[2 * b->count] = floor(t->measured / bin);
        predicted[b->count] = both[2 * b->count + 1] = floor(fmax(t->predicted, 0) / bin);
        b->count++;
    }
    if (ok && b->count) {
        b->classes = distinct(both, 2 * b->count);
        double first = both[0], span = both[b->classes - 1] - first + 1;
        b->first = first < 9e18 ? (int64_t)first : INT64_MAX;
        if (all) b->classes = span <= MOST_CLASSES ? (size_t)span : 0;
        for (size_t i = 0; i < b->count && b->classes; i++) {
            b->truth[i] = all ? (int32_t)(truth[i] - first) : place_of(truth[i], both, b->classes);
            b->predicted[i] =
                all ? (int32_t)(predicted[i] - first) : place_of(predicted[i], both, b->classes);
        }
    }
    free(block);
    return ok;
}

static void bins_close(bins *b) {
    free(b->truth);
    free(b->predicted);
}

static uint64_t *confusion_of(const bins *b) {
    uint64_t *table = b->classes ? calloc(b->classes * b->classes, sizeof *table) : NULL;
    if (table) pl_class_confusion(table, b->classes, b->truth, b->predicted, b->count);
    return table;
}

uint64_t *pl_evaluation_confusion(const pl_evaluation *evaluation, int64_t bin_bytes,
                                  size_t *classes, int64_t *first) {
    bins b;
    uint64_t *table =
        bins_open(&b, evaluation, bin_bytes, true, NULL, NULL) ? confusion_of(&b) : NULL;
    *classes = table ? b.classes : 0;
    *first = table ? b.first : 0;
    bins_close(&b);
    return table;
}

static bool score_bins(pl_scores *out, const pl_evaluation *e, int64_t bin_bytes,
                       bool (*keep)(const pl_trial *, const void *), const void *context) {
    bins b;
    bool ok = bins_open(&b, e, bin_bytes, false, keep, context);
    uint64_t *table = ok ? confusion_of(&b) : NULL;
    if (table) {
        pl_class_metrics m;
        pl_class_measure(&m, table, b.classes);
        out->accuracy = m.accuracy;
        out->precision = m.precision;
        out->recall = m.recall;
        out->f1 = m.f1;
        out->macro_f1 = m.macro_f1;
        out->below_diagonal = m.below;
    }
    ok &= table || b.count == 0;
    free(table);
    bins_close(&b);
    return ok;
}

bool pl_evaluation_score(pl_scores *out, const pl_evaluation *e, int64_t bin_bytes,
                         bool (*keep)(const pl_trial *trial, const void *context),
                         const void *context) {
    *out = (pl_scores){.mse = NAN,
                       .rmse = NAN,
                       .mae = NAN,
                       .mape = NAN,
                       .r2 = NAN,
                       .median = NAN,
                       .mean = NAN,
                       .p90 = NAN,
                       .too_low = NAN,
                       .above_high = NAN,
                       .width = NAN,
                       .exact = NAN,
                       .accuracy = NAN,
                       .precision = NAN,
                       .recall = NAN,
                       .f1 = NAN,
                       .macro_f1 = NAN,
                       .below_diagonal = NAN,
                       .elapsed_us = NAN};
    bool memory = strcmp(e->target, "memory") == 0;
    double unit = memory ? 1e6 : 1;
    double *block = malloc((4 * e->count + 1) * sizeof *block);
    if (!block) return false;
    double *truth = block, *predicted = truth + e->count, *times = predicted + e->count,
           *widths = times + e->count;
    size_t n = 0, intervals = 0, above = 0, exact = 0;
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = &e->trials[i];
        if (!counts(t) || (keep && !keep(t, context))) continue;
        truth[n] = t->measured / unit;
        predicted[n] = t->predicted / unit;
        times[n++] = t->elapsed_us;
        exact += t->measured == t->predicted;
        if (!memory || t->high_bytes < 0 || t->low_bytes < 0 || t->peak_bytes <= 0) continue;
        above += t->measured_bytes > t->high_bytes;
        widths[intervals++] = (double)(t->high_bytes - t->low_bytes) / (double)t->peak_bytes;
    }
    pl_regression_metrics m;
    bool ok = n == 0 || pl_regression_measure(&m, truth, predicted, n);
    out->jobs = n;
    if (ok && n) {
        out->mse = m.mse;
        out->rmse = m.rmse;
        out->mae = m.mae;
        out->mape = m.mape;
        out->r2 = m.r2;
        out->median = m.median;
        out->mean = m.mean;
        out->p90 = m.p90;
        out->too_low = m.too_low;
        out->exact = (double)exact / (double)n;
        out->elapsed_us = median_of(times, n);
        if (intervals) {
            out->above_high = (double)above / (double)intervals;
            out->width = median_of(widths, intervals);
        }
        if (memory) ok = score_bins(out, e, bin_bytes, keep, context);
    }
    free(block);
    return ok;
}
