/* correction: what a fleet's own jobs say of its next estimate.
 *
 * seen = predicted * factor + offset. The offset is the card's: the context of another driver, kernels of another
 * library, which all processes there have alike, or all of a family (convolutions load cuDNN's: 1,725 MiB lie outside
 * the allocator on GPUMemNet's A100s, 1,429 without); the factor is the family's and the model's on that card. Each is a
 * median of the newest jobs, the offset's first, the others of what is left: half of the reports would have to be wrong to
 * move one far. A median of n jobs counts n / (n + SHRINK) of the way. Old jobs are forgotten: only the newest count.
 *
 * Step times likewise, by factors alone: the card's (its host, its clock), the family's, the model's.
 *
 * The interval is conformal: of n errors of corrected estimates the quantile at the (n + 1)-th part, so that a job
 * more lies outside with no more than that chance, as long as it is one like them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/sized.h"
#include <plimsoll/service.h>

enum {
    MOST = 256,
    NEWEST = 64,
    LEAST_CARD = 5,
    LEAST_FAMILY = 5,
    LEAST_MODEL = 3,
    SHRINK = 1,
    LEAST_INTERVAL = 39
};
/* No estimate is further off than that: a wrong unit, another job's figure, a run that ended at once. */
static const double most_ratio = 4;
/* Bounds: bytes of the offset; factors. */
static const int64_t most_offset = INT64_C(8) << 30;
static const double most_factor = 1.5;
/* Of step times: no estimate is further off; the card's factor, the others'. */
static const double most_step_ratio = 20, most_card_step = 4, most_step = 2;

static int by_size(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return a < b ? -1 : a > b;
}

/* Of list, which is sorted by it. */
static double median(double *list, size_t count) {
    qsort(list, count, sizeof *list, by_size);
    return count % 2 ? list[count / 2] : (list[count / 2 - 1] + list[count / 2]) / 2;
}

static double shrunk(double value, double none, size_t count) {
    return none + (value - none) * (double)count / (double)(count + SHRINK);
}

/* The middle of seen less predicted: of the family's newest jobs where there are enough, else of the card's. */
static int64_t offset_of(const pl_seen *jobs, size_t count) {
    double list[NEWEST];
    size_t n = 0, own = 0;
    for (size_t i = 0; i < count; i++) own += jobs[i].same_family;
    for (size_t i = 0; i < count && n < NEWEST; i++)
        if (own < LEAST_FAMILY || jobs[i].same_family)
            list[n++] = (double)(jobs[i].peak_bytes - jobs[i].predicted_bytes);
    double offset = shrunk(median(list, n), 0, n);
    return (int64_t)fmin(fmax(offset, (double)-most_offset), (double)most_offset);
}

/* The median of seen / expected over the jobs of a kind, 1 where there are too few. */
static double factor_of(const pl_seen *jobs, size_t count, int64_t offset, double factor,
                        bool of_model, size_t least) {
    double list[NEWEST];
    size_t n = 0;
    for (size_t i = 0; i < count && n < NEWEST; i++) {
        if (!(of_model ? jobs[i].same_model : jobs[i].same_family)) continue;
        list[n++] =
            (double)(jobs[i].peak_bytes - offset) / ((double)jobs[i].predicted_bytes * factor);
    }
    if (n < least) return 1;
    double middle = shrunk(median(list, n), 1, n);
    return fmin(fmax(middle, 1 / most_factor), most_factor);
}

static double share(const pl_correction *c, const pl_seen *job) {
    double corrected = (double)job->predicted_bytes * c->factor + (double)c->offset_bytes;
    return ((double)job->peak_bytes - corrected) / fmax(corrected, 1);
}

/* The jobs that the factor is of: the model's where there are enough, else all of the card, each by the same correction. */
static void fill_interval(pl_correction *c, const pl_seen *jobs, size_t count) {
    double list[MOST];
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (jobs[i].same_model || jobs[i].same_family) list[n++] = share(c, &jobs[i]);
    if (n < LEAST_INTERVAL) {
        n = 0;
        for (size_t i = 0; i < count; i++) list[n++] = share(c, &jobs[i]);
    }
    if (n < LEAST_INTERVAL) return;
    qsort(list, n, sizeof *list, by_size);
    size_t out = (size_t)(0.025 * (double)(n + 1)); /* on each side, at least one */
    if (out < 1) out = 1;
    c->below = fmax(-list[out - 1], 0);
    c->above = fmax(list[n - out], 0);
}

/* ---- step times ---- */

static double bounded(double value, double most) {
    return fmin(fmax(value, 1 / most), most);
}

typedef enum of_whom { OF_ALL, OF_FAMILY, OF_MODEL } of_whom;

static bool is_of(const pl_seen *job, of_whom whom) {
    return whom == OF_ALL || (whom == OF_FAMILY ? job->same_family : job->same_model);
}

/* The middle of seen / (predicted * factor) over the newest jobs of a kind, 1 where there are too few. */
static double step_factor_of(const pl_seen *jobs, size_t count, double factor, of_whom whom,
                             size_t least, double most) {
    double list[NEWEST];
    size_t n = 0;
    for (size_t i = 0; i < count && n < NEWEST; i++)
        if (is_of(&jobs[i], whom))
            list[n++] = jobs[i].step_ms / (jobs[i].predicted_step_ms * factor);
    return n < least ? 1 : bounded(shrunk(median(list, n), 1, n), most);
}

static void fill_steps(pl_correction *c, pl_seen *jobs, const pl_seen *all, size_t count) {
    double list[MOST];
    size_t n = 0;
    for (size_t i = 0; i < count && n < MOST; i++) {
        double ratio = all[i].step_ms / all[i].predicted_step_ms; /* NAN where either is not said */
        if (all[i].step_ms > 0 && ratio < most_step_ratio && ratio > 1 / most_step_ratio)
            jobs[n++] = all[i];
    }
    if (n < LEAST_CARD) return;
    c->step_jobs = (int64_t)n;
    c->step_factor = step_factor_of(jobs, n, 1, OF_ALL, LEAST_CARD, most_card_step);
    c->step_factor *= step_factor_of(jobs, n, c->step_factor, OF_FAMILY, LEAST_FAMILY, most_step);
    c->step_factor *= step_factor_of(jobs, n, c->step_factor, OF_MODEL, LEAST_MODEL, most_step);
    if (n < LEAST_INTERVAL) return;
    for (size_t i = 0; i < n; i++)
        list[i] = jobs[i].step_ms / (jobs[i].predicted_step_ms * c->step_factor) - 1;
    qsort(list, n, sizeof *list, by_size);
    size_t out = (size_t)(0.025 * (double)(n + 1));
    if (out < 1) out = 1;
    c->step_below = fmax(-list[out - 1], 0);
    c->step_above = fmax(list[n - out], 0);
}

void pl_correction_of(pl_correction *given, const pl_seen *all, size_t count) {
    pl_correction c = {.size = sizeof c,
                       .factor = 1,
                       .below = NAN,
                       .above = NAN,
                       .step_factor = 1,
                       .step_below = NAN,
                       .step_above = NAN};
    pl_seen *jobs = malloc((count ? count : 1) * sizeof *jobs);
    size_t n = 0;
    for (size_t i = 0; jobs && i < count && n < MOST; i++) {
        if (all[i].predicted_bytes == PL_UNKNOWN || all[i].peak_bytes == PL_UNKNOWN) continue;
        double ratio = (double)all[i].peak_bytes / (double)all[i].predicted_bytes;
        if (all[i].predicted_bytes > 0 && ratio < most_ratio && ratio > 1 / most_ratio)
            jobs[n++] = all[i];
        else
            c.left_out++;
    }
    if (n >= LEAST_CARD) {
        c.jobs = (int64_t)n;
        c.offset_bytes = offset_of(jobs, n);
        c.factor = factor_of(jobs, n, c.offset_bytes, 1, false, LEAST_FAMILY);
        c.factor *= factor_of(jobs, n, c.offset_bytes, c.factor, true, LEAST_MODEL);
        fill_interval(&c, jobs, n);
    }
    if (jobs) fill_steps(&c, jobs, all, count);
    free(jobs);
    pl_sized_fill(given, given->size, &c, sizeof c);
}

static int64_t moved(const pl_correction *c, int64_t bytes) {
    double value = (double)bytes * c->factor + (double)c->offset_bytes;
    return value > 0 ? (int64_t)value : 0;
}

void pl_correction_apply(const pl_correction *c, int64_t *low, int64_t *peak, int64_t *high) {
    if (c->jobs == 0 || *peak < 0) return;
    int64_t before = *peak, corrected = moved(c, *peak);
    double down = isfinite(c->below) ? c->below
                  : *low >= 0        ? 1 - (double)*low / (double)(before ? before : 1)
                                     : NAN;
    double up = isfinite(c->above) ? c->above
                : *high >= before  ? (double)*high / (double)(before ? before : 1) - 1
                                   : NAN;
    *peak = corrected;
    *low = isfinite(down) ? (int64_t)((double)corrected * fmax(1 - down, 0)) : PL_UNKNOWN;
    *high = isfinite(up) ? (int64_t)ceil((double)corrected * (1 + up)) : PL_UNKNOWN;
}

void pl_correction_apply_step(const pl_correction *c, pl_figure *step) {
    if (c->step_jobs == 0 || !(step->value > 0)) return;
    double corrected = step->value * c->step_factor;
    step->low = isfinite(c->step_below) ? corrected * fmax(1 - c->step_below, 0)
                                        : step->low * c->step_factor;
    step->high =
        isfinite(c->step_above) ? corrected * (1 + c->step_above) : step->high * c->step_factor;
    step->value = corrected;
}
