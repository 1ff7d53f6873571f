/* collocate: two jobs on one card: whether their memory fits, how much slower each gets, and
 * whether that is better than one after the other.
 *
 * A slowdown is what a simulation of the two loops gives (queues.c), corrected by a few weights
 * that were fitted to pairs measured on an H200 (collocate_tables.c, tools/calibrate/pairs.py),
 * which stand for what the simulation leaves out: hosts in each other's way, values read in
 * mid-step, kernels that hold up others under MPS. Intervals are quantiles of what was missed on
 * pairs of models that the fit had not seen. Sharing is taken to be the same on other cards, with
 * twice the doubt. docs/utilization.md has the figures.
 *
 * More than two jobs are followed together too (pl_collocate_all); nothing was measured of them. Left out: the
 * host's own limits (cores, memory for batches), of which the
 * measured host had enough for both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/sized.h"
#include "decide/collocate.h"
#include "decide/collocate_tables.h"
#include "decide/queues.h"
#include "estimate/verdict.h"

/* ---- a job ---- */

/* Milliseconds of a step alone; shares of it. */
typedef struct side {
    double step, busy_ms, host_ms, launches;
    double busy, host, active, dram;
} side;

static double within(double value, double low, double high) {
    return fmin(fmax(value, low), high);
}

/* Counters that are not known: what measured jobs have of their busy time in the middle. */
static double share_of(double percent, double else_of_busy, double busy) {
    return within(isfinite(percent) ? percent / 100 : else_of_busy * busy, 0, busy);
}

static side side_of(const pl_demand *d, const pl_pair_rule *rule) {
    side s = {.step = d->step_ms};
    s.launches =
        isfinite(d->launches) && d->launches >= 1 ? d->launches : fmax(1, d->host_ms / 0.03);
    s.busy_ms = fmin(s.step, d->device_ms + rule->launch_ms * s.launches);
    s.host_ms = fmin(s.step, d->host_ms);
    s.busy = s.busy_ms / s.step;
    s.host = s.host_ms / s.step;
    s.active = share_of(d->smact, 0.6, s.busy);
    s.dram = share_of(d->drama, 0.2, s.busy);
    return s;
}

/* Speed of a kernel of one job while one of the other runs, under MPS: as multiprocessors suffice
 * for both. */
static double pace(const side *a, const side *b) {
    double both = a->active / fmax(a->busy, 1e-3) + b->active / fmax(b->busy, 1e-3);
    return 1 / fmax(1, both);
}

/* ---- slowdowns ---- */

static void fill_features(double *x, const side *self, const side *other, double simulated,
                          const pl_pair_rule *rule) {
    double kernel_ms = other->busy_ms / other->launches;
    x[PL_PAIR_SIMULATED] = log(simulated);
    x[PL_PAIR_BUSY_SELF] = self->busy;
    x[PL_PAIR_BUSY_OTHER] = other->busy;
    x[PL_PAIR_BUSY_BOTH] = self->busy * other->busy;
    x[PL_PAIR_WAIT] = log1p(other->busy * rule->slice / self->step);
    x[PL_PAIR_OVER] = fmax(0, self->busy + other->busy - 1);
    x[PL_PAIR_HOST_SELF] = self->host;
    x[PL_PAIR_HOST_OTHER] = other->host;
    x[PL_PAIR_ACTIVE_SELF] = self->active;
    x[PL_PAIR_ACTIVE_OTHER] = other->active;
    x[PL_PAIR_DRAM_BOTH] = self->dram * other->dram;
    x[PL_PAIR_ACTIVE_BOTH] = self->active * other->active;
    x[PL_PAIR_BLOCKED] = self->busy * other->active * log1p(kernel_ms / 0.05);
}

static double corrected(const side *self, const side *other, double simulated,
                        const pl_pair_rule *rule) {
    double x[PL_PAIR_FEATURES], log_of = log(simulated) + rule->constant;
    fill_features(x, self, other, simulated, rule);
    for (int i = 0; i < PL_PAIR_FEATURES; i++)
        log_of += rule->weight[i] * (within(x[i], rule->least[i], rule->most[i]) - rule->center[i]);
    return fmax(1, exp(log_of));
}

static double gain_of(const double slowdown[2]) {
    return 1 / slowdown[0] + 1 / slowdown[1];
}

static pl_queue queue_of(const side *s) {
    pl_queue queue;
    pl_queue_of(&queue, s->step, s->busy_ms, s->host_ms, s->launches);
    return queue;
}

static pl_queue_rules rules_of(pl_sharing sharing) {
    const pl_pair_rule *rule = &pl_pair_rules[sharing];
    return (pl_queue_rules){.at_once = sharing == PL_MPS,
                            .slice = rule->slice,
                            .turn = rule->turn,
                            .trips = rule->trips};
}

/* As the simulation alone has them. */
static void simulate(double simulated[2], const side sides[2], pl_sharing sharing) {
    pl_queue queues[2] = {queue_of(&sides[0]), queue_of(&sides[1])};
    pl_queue_rules rules = rules_of(sharing);
    rules.pace[0] = pace(&sides[0], &sides[1]);
    rules.pace[1] = pace(&sides[1], &sides[0]);
    pl_queues_run(simulated, queues, &rules);
}

static void slowdowns(double out[2], side sides[2], const pl_demand *const of[2],
                      pl_sharing sharing) {
    const pl_pair_rule *rule = &pl_pair_rules[sharing];
    double simulated[2];
    for (int i = 0; i < 2; i++) sides[i] = side_of(of[i], rule);
    simulate(simulated, sides, sharing);
    for (int i = 0; i < 2; i++) out[i] = corrected(&sides[i], &sides[!i], simulated[i], rule);
}

/* value times e to the quantiles, held within least to most. */
static pl_figure interval(double value, double below, double above, double widen, double least,
                          double most) {
    double low = value * exp(widen * fmin(0, below)), high = value * exp(widen * fmax(0, above));
    return (pl_figure){value, fmax(least, low), fmin(most, high)};
}

static int bin_of(double busy) {
    return busy < 0.35 ? 0 : busy < 0.7 ? 1 : 2;
}

/* ---- advice ---- */

static const char *advise(const pl_pair *pair, const pl_demand *const of[2]) {
    enum { FIRST, SECOND };
    if (pair->verdict == PL_DOES_NOT_FIT)
        return "They do not fit together: run one after the other, or make a batch smaller.";
    if (pair->verdict == PL_MAY_NOT_FIT)
        return "They may not fit together: run one after the other, or make a batch smaller.";
    double a = pair->slowdown[FIRST].value, b = pair->slowdown[SECOND].value;
    bool uneven = fmax(a, b) - 1 > 0.3 && fmax(a, b) - 1 > 3 * (fmin(a, b) - 1);
    if (pair->worth_it && uneven)
        return a > b ? "Together they get more done, but the first job pays for it: share the card "
                       "only if the first may wait."
                     : "Together they get more done, but the second job pays for it: share the "
                       "card only if the second may wait.";
    if (pair->worth_it && fmax(a, b) < 1.1)
        return "Run them together: they hardly slow each other.";
    if (pair->worth_it) return "Run them together: both get slower, but more is done a second.";
    if (pair->gain.value > 1.05)
        return "Together they may get more done, but the gain is within what the prediction can "
               "miss: try it before relying on it.";
    if (pair->sharing == PL_MPS)
        return "Run one after the other: both keep the card busy, and together nothing is gained.";
    double under_mps[2];
    side sides[2];
    slowdowns(under_mps, sides, of, PL_MPS);
    return gain_of(under_mps) > 1.15
               ? "Run one after the other: in time slices each only waits for the other. Under MPS "
                 "they would get more done together."
               : "Run one after the other: in time slices each only waits for the other.";
}

/* ---- the pair ---- */

/* The upper and the lower end of what a job takes. A demand of an older caller, and one without an
 * interval, has no ends of its own: then high_bytes, else peak_bytes; and peak_bytes. */
static int64_t most_of(const pl_demand *d) {
    return d->upper_bytes > 0            ? d->upper_bytes
           : d->high_bytes != PL_UNKNOWN ? d->high_bytes
                                         : d->peak_bytes;
}
static int64_t least_of(const pl_demand *d) {
    return d->low_bytes > 0 ? d->low_bytes : d->peak_bytes;
}

/* PL_UNKNOWN where one is; INT64_MAX where the sum is larger. */
static int64_t sum_of(const pl_demand *const of[2], int64_t (*end)(const pl_demand *)) {
    int64_t sum = 0;
    for (int i = 0; i < 2; i++) {
        int64_t one = end(of[i]);
        if (one < 0) return PL_UNKNOWN;
        sum = one > INT64_MAX - sum ? INT64_MAX : sum + one;
    }
    return sum;
}

static bool is_time(double ms) {
    return isfinite(ms) && ms >= 0;
}

static pl_status check(const pl_demand *d, const pl_gpu *gpu, pl_error *err) {
    if (strcmp(d->gpu, gpu->name) != 0)
        return pl_fail(
            err, PL_USAGE, d->name, -1,
            "estimated for the card %s, and the pair is to share %s: estimate it again for "
            "%s",
            d->gpu, gpu->name, gpu->name);
    if (!is_time(d->step_ms) || d->step_ms <= 0 || !is_time(d->device_ms) || !is_time(d->host_ms))
        return pl_fail(err, PL_INPUT, d->name, -1,
                       "how long its step takes is not known: the estimator hybrid predicts it");
    return PL_OK;
}

static pl_status collocate(pl_pair *out, const pl_demand *a, const pl_demand *b, const pl_gpu *gpu,
                           pl_sharing sharing, pl_error *err) {
    const pl_demand *const of[2] = {a, b};
    const pl_figure unknown = {NAN, NAN, NAN};
    *out = (pl_pair){.sharing = sharing,
                     .needed_bytes = PL_UNKNOWN,
                     .usable_bytes = pl_gpu_usable(gpu),
                     .slowdown = {unknown, unknown},
                     .coverage = NAN,
                     .gain = unknown,
                     .advice = ""};
    if ((unsigned)sharing >= PL_SHARINGS)
        return pl_fail(err, PL_USAGE, "sharing", -1, "no such way of sharing a card");
    for (int i = 0; i < 2; i++) {
        pl_status status = check(of[i], gpu, err);
        if (status != PL_OK) return status;
    }
    out->needed_bytes = sum_of(of, most_of);
    if (out->needed_bytes == PL_UNKNOWN)
        return pl_fail(err, PL_INPUT, most_of(of[0]) < 0 ? of[0]->name : of[1]->name, -1,
                       "the estimate says no peak memory");
    int64_t least = sum_of(of, least_of);
    out->verdict = pl_verdict_of(least, least, out->needed_bytes, out->usable_bytes);
    out->fits = out->verdict == PL_FITS;
    out->calibrated = gpu->calibrated && a->calibrated && b->calibrated;
    double slow[2], widen = out->calibrated ? 1 : 2;
    side sides[2];
    slowdowns(slow, sides, of, sharing);
    const pl_pair_rule *rule = &pl_pair_rules[sharing];
    for (int i = 0; i < 2; i++) {
        int bin = bin_of(sides[i].busy);
        out->slowdown[i] =
            interval(slow[i], rule->below[bin], rule->above[bin], widen, 1, INFINITY);
    }
    out->gain = interval(gain_of(slow), rule->gain_below, rule->gain_above, widen, 0, 2);
    out->coverage = out->calibrated ? PL_PAIR_COVERAGE : NAN;
    out->worth_it = out->fits && out->gain.value > 1.05 && out->gain.low > 1;
    out->advice = advise(out, of);
    return PL_OK;
}

pl_status pl_collocate(pl_pair *out, const pl_demand *a, const pl_demand *b, const pl_gpu *gpu,
                       pl_sharing sharing, pl_error *err) {
    if (!PL_SIZED_OK(out, calibrated) || !PL_SIZED_OK(a, calibrated) || !PL_SIZED_OK(b, calibrated))
        return pl_fail(err, PL_USAGE, "out", -1, "a pl_pair or pl_demand whose size is not set");
    if (!gpu) return pl_fail(err, PL_USAGE, "gpu", -1, "expected a card");
    pl_pair own;
    pl_demand of[2] = {{0}, {0}};
    pl_sized_read(&of[0], sizeof of[0], a, a->size);
    pl_sized_read(&of[1], sizeof of[1], b, b->size);
    pl_status status = collocate(&own, &of[0], &of[1], gpu, sharing, err);
    pl_sized_fill(out, out->size, &own, sizeof own);
    return status;
}

/* ---- more than two ---- */

/* What pairs say of each: out[i] is 1 and what each of the others costs, with its ends; correction[i] the sum of how far
 * log slowdowns of its pairs are from the simulation's. */
static pl_status of_pairs(pl_figure *out, double *correction, const pl_demand *jobs, size_t count,
                          const pl_gpu *gpu, pl_sharing sharing, pl_error *err) {
    for (size_t i = 0; i < count; i++) {
        out[i] = (pl_figure){1, 1, 1};
        correction[i] = 0;
    }
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            pl_pair pair = PL_SIZED(pl_pair);
            pl_status status = pl_collocate(&pair, &jobs[i], &jobs[j], gpu, sharing, err);
            if (status != PL_OK) return status;
            const pl_pair_rule *rule = &pl_pair_rules[sharing];
            side sides[2] = {side_of(&jobs[i], rule), side_of(&jobs[j], rule)};
            double simulated[2];
            simulate(simulated, sides, sharing);
            const size_t of[2] = {i, j};
            for (int k = 0; k < 2; k++) {
                pl_figure *f = &out[of[k]], *one = &pair.slowdown[k];
                f->value += one->value - 1;
                f->low = fmax(f->low, one->low);
                f->high += one->high - 1;
                correction[of[k]] += log(one->value / simulated[k]);
            }
        }
    return PL_OK;
}

pl_status pl_collocate_all(pl_figure *out, const pl_demand *jobs, size_t count, const pl_gpu *gpu,
                           pl_sharing sharing, pl_error *err) {
    double few[PL_QUEUES_MOST], simulated[PL_QUEUES_MOST], full[PL_QUEUES_MOST];
    double *correction = count <= PL_QUEUES_MOST ? few : malloc(count * sizeof *correction);
    if (!correction) return pl_fail(err, PL_MISSING, NULL, -1, "out of memory");
    pl_status status = of_pairs(out, correction, jobs, count, gpu, sharing, err);
    if (status == PL_OK && count > 2 && count <= PL_QUEUES_MOST) {
        pl_queue queues[PL_QUEUES_MOST];
        pl_queue_rules rules = rules_of(sharing);
        for (size_t i = 0; i < count; i++) {
            side s = side_of(&jobs[i], &pl_pair_rules[sharing]);
            queues[i] = queue_of(&s);
            full[i] = s.active / fmax(s.busy, 1e-3);
        }
        pl_queues_run_many(simulated, queues, full, (int)count, &rules);
        for (size_t i = 0; i < count; i++) {
            pl_figure pairs = out[i];
            out[i].value = fmax(1, simulated[i] * exp(correction[i] / (double)(count - 1)));
            out[i].low = fmin(out[i].value, pairs.low);
            out[i].high = out[i].value * fmax(1, pairs.high / pairs.value);
        }
    }
    if (correction != few) free(correction);
    return status;
}
