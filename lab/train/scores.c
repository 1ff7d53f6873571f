/* scores: trials summed up, as the papers print them and as users ask: how far off, how often too
 * low, in which bin. Memory has bins of bytes, counters paper 3's classes (levels.c) by the family
 * of each job; counters near 0 have no relative error worth the name, and are scored by
 * differences. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lab/learn/metrics.h"
#include "lab/train/learned.h"

static bool counts(const pl_trial *t) {
    return t->status == PL_OK && isfinite(t->measured) && isfinite(t->predicted);
}

static pl_counter counter_of(const pl_evaluation *e) {
    const pl_target *target = pl_target_find(e->target);
    return target ? target->counter : PL_COUNTERS;
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
        const pl_trial *t = pl_evaluation_trial(e, i);
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

/* The family of a job's record; PL_FAMILIES: none of those with bins. */
static pl_family family_of(const pl_trial *t) {
    pl_family f = 0;
    while (f < PL_FAMILIES && strcmp(pl_family_name(f), t->family) != 0) f++;
    return f;
}

/* The levels as classes; no class where no job has one. */
static bool levels_open(bins *b, const pl_evaluation *e, pl_counter counter,
                        bool (*keep)(const pl_trial *, const void *), const void *context) {
    *b = (bins){0};
    b->truth = malloc((e->count + 1) * sizeof *b->truth);
    b->predicted = malloc((e->count + 1) * sizeof *b->predicted);
    if (!b->truth || !b->predicted) return false;
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        if (!counts(t) || (keep && !keep(t, context))) continue;
        pl_level truth = pl_level_of(family_of(t), counter, t->measured),
                 predicted = pl_level_predicted(
                     family_of(t), counter,
                     &(pl_figure){t->predicted, t->predicted_low, t->predicted_high});
        if (truth >= PL_LEVELS) continue;
        b->truth[b->count] = (int32_t)truth;
        b->predicted[b->count++] = (int32_t)predicted;
    }
    if (b->count) b->classes = PL_LEVELS;
    return true;
}

uint64_t *pl_evaluation_confusion(const pl_evaluation *evaluation, int64_t bin_bytes,
                                  size_t *classes, int64_t *first) {
    bins b;
    pl_counter counter = counter_of(evaluation);
    bool ok = counter < PL_COUNTERS ? levels_open(&b, evaluation, counter, NULL, NULL)
                                    : bins_open(&b, evaluation, bin_bytes, true, NULL, NULL);
    uint64_t *table = ok ? confusion_of(&b) : NULL;
    *classes = table ? b.classes : 0;
    *first = table ? b.first : 0;
    bins_close(&b);
    return table;
}

/* NAN: no job is of that class. */
static double recall_of(const uint64_t *table, size_t classes, size_t class) {
    uint64_t truths = 0;
    for (size_t k = 0; k < classes; k++) truths += table[class * classes + k];
    return truths ? (double)table[class * classes + class] / (double)truths : NAN;
}

static bool score_bins(pl_scores *out, const pl_evaluation *e, int64_t bin_bytes,
                       bool (*keep)(const pl_trial *, const void *), const void *context) {
    bins b;
    pl_counter counter = counter_of(e);
    bool ok = counter < PL_COUNTERS ? levels_open(&b, e, counter, keep, context)
                                    : bins_open(&b, e, bin_bytes, false, keep, context);
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
        if (counter < PL_COUNTERS) out->high_recall = recall_of(table, PL_LEVELS, PL_LEVEL_HIGH);
    }
    ok &= table || b.count == 0;
    free(table);
    bins_close(&b);
    return ok;
}

/* errors: shares, with their signs; sorted by size on return. */
static void score_errors(pl_scores *out, double *errors, size_t count) {
    size_t low = 0, within[3] = {0};
    double sum = 0, n = (double)count;
    for (size_t i = 0; i < count; i++) {
        low += errors[i] < -0.05;
        errors[i] = fabs(errors[i]);
        within[0] += errors[i] <= 0.01;
        within[1] += errors[i] <= 0.05;
        within[2] += errors[i] <= 0.15;
        sum += errors[i];
    }
    out->median = median_of(errors, count);
    out->p90 = pl_quantile(errors, count, 0.9);
    out->mean = sum / n;
    out->too_low = (double)low / n;
    out->within_1 = (double)within[0] / n;
    out->within_5 = (double)within[1] / n;
    out->within_15 = (double)within[2] / n;
}

static bool score(pl_scores *out, const pl_evaluation *e, int64_t bin_bytes,
                  bool (*keep)(const pl_trial *trial, const void *context), const void *context) {
    *out = (pl_scores){.mse = NAN,
                       .rmse = NAN,
                       .mae = NAN,
                       .mape = NAN,
                       .r2 = NAN,
                       .median = NAN,
                       .mean = NAN,
                       .p90 = NAN,
                       .within_1 = NAN,
                       .within_5 = NAN,
                       .within_15 = NAN,
                       .inside = NAN,
                       .high_recall = NAN,
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
    bool memory = strcmp(e->target, "memory") == 0, counter = counter_of(e) < PL_COUNTERS;
    double unit = memory ? 1e6 : 1;
    double *block = malloc((5 * e->count + 1) * sizeof *block);
    if (!block) return false;
    double *truth = block, *predicted = truth + e->count, *times = predicted + e->count,
           *widths = times + e->count, *errors = widths + e->count;
    size_t n = 0, intervals = 0, above = 0, exact = 0, inside = 0;
    for (size_t i = 0; i < e->count; i++) {
        const pl_trial *t = pl_evaluation_trial(e, i);
        if (!counts(t) || (keep && !keep(t, context))) continue;
        truth[n] = t->measured / unit;
        predicted[n] = t->predicted / unit;
        errors[n] = counter ? (t->predicted - t->measured) / 100
                            : (t->predicted - t->measured) / t->measured;
        times[n++] = t->elapsed_us;
        exact += t->measured == t->predicted;
        double low = t->predicted_low, high = t->predicted_high;
        if (!isfinite(low) || !isfinite(high) || (!counter && !(t->predicted > 0))) continue;
        above += t->measured > high;
        inside += t->measured >= low && t->measured <= high;
        widths[intervals++] = counter ? (high - low) / 100 : (high - low) / t->predicted;
    }
    pl_regression_metrics m;
    bool ok = n == 0 || pl_regression_measure(&m, truth, predicted, n);
    out->jobs = n;
    if (ok && n) {
        out->mse = m.mse;
        out->rmse = m.rmse;
        out->mae = m.mae;
        out->mape = counter ? NAN : m.mape;
        out->r2 = m.r2;
        out->exact = (double)exact / (double)n;
        out->elapsed_us = median_of(times, n);
        score_errors(out, errors, n);
        if (intervals) {
            out->above_high = (double)above / (double)intervals;
            out->inside = (double)inside / (double)intervals;
            out->width = median_of(widths, intervals);
        }
        if (memory || counter) ok = score_bins(out, e, bin_bytes, keep, context);
    }
    free(block);
    return ok;
}

bool pl_evaluation_score(pl_scores *out, const pl_evaluation *e, int64_t bin_bytes,
                         bool (*keep)(const pl_trial *trial, const void *context),
                         const void *context) {
    if (!PL_SIZED_OK(out, elapsed_us)) return false;
    pl_scores own;
    bool ok = score(&own, e, bin_bytes, keep, context);
    pl_sized_fill(out, out->size, &own, sizeof own);
    return ok;
}
