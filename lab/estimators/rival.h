/* rival: what the analytical estimators share: sums that cannot wrap, the refusals they have in
 * common, and the liveness of a tape's blocks.
 *
 * Counts come from files, so every product and sum is checked; one that does not fit is PL_INPUT.
 * Left out: any rule of a publication; those stand in the estimators' own files. */
#ifndef PL_LAB_RIVAL_H
#define PL_LAB_RIVAL_H

#include <string.h>

#include "lab/estimators/method.h"
#include "lend.h"

/* *sum += a * b; false: it does not fit, or a count is negative (unknown, or a sum that failed). */
static inline bool pl_rival_add(int64_t *sum, int64_t a, int64_t b) {
    int64_t product;
    return a >= 0 && b >= 0 && pl_mul_i64(a, b, &product) && pl_add_i64(*sum, product, sum);
}

/* The same of a * b rounded up to a multiple of `step`, `times` over. */
static inline bool pl_rival_add_rounded(int64_t *sum, int64_t times, int64_t a, int64_t b,
                                        int64_t step) {
    int64_t product = 0;
    return pl_rival_add(&product, a, b) && pl_rival_add(sum, times, pl_round_up(product, step));
}

static inline pl_status pl_rival_overflow(const char *name, pl_error *err) {
    return pl_fail(err, PL_INPUT, name, -1,
                   "a count is unknown, or so large that its bytes do not fit 63 bits");
}

static inline bool pl_rival_trains(const pl_subject *s) {
    return !s->job->optimizer || strcmp(s->job->optimizer, "none") != 0;
}

/* Formulas of a training step have nothing to say of a job that only runs forward. */
static inline pl_status pl_rival_needs_training(const char *name, const pl_subject *s,
                                                pl_error *err) {
    if (pl_rival_trains(s)) return PL_OK;
    return pl_fail(err, PL_USAGE, "optimizer", -1, "%s covers training alone", name);
}

static inline pl_status pl_rival_needs_one_gpu(const char *name, const pl_subject *s,
                                               pl_error *err) {
    if (s->job->parallel == PL_ALONE) return PL_OK;
    return pl_fail(err, PL_USAGE, "parallel", -1, "%s covers one GPU alone", name);
}

/* Formulas that do not look at the batch: what they say fits, may not. */
static inline void pl_rival_states_alone(pl_report *report) {
    pl_report_warn(report, "weights, gradients and states alone: activations are not counted");
}

/* The tape of `steps` steps of the subject's job. */
static inline pl_status pl_rival_tape(pl_tape **out, const pl_subject *s, int steps,
                                      pl_error *err) {
    pl_job job = *s->job;
    job.parallel = PL_ALONE;
    job.world = 1;
    pl_tape_device device = pl_tape_device_of(s->gpu);
    return pl_tape_train(out, s->graph, &job, steps, &device, s->budget, err);
}

/* Bytes alive, in all and by kind, and the same at their first peak. */
typedef struct pl_rival_alive {
    int64_t now, peak;
    int64_t kinds[PL_KINDS], at_peak[PL_KINDS];
    pl_phase phase; /* of the peak */
    int step;
} pl_rival_alive;

/* bytes > 0: taken, < 0: given back. A block has at most PL_MAX_BYTES and a tape fewer than 2^31
 * blocks, so the sum is checked: false where it does not fit. */
static inline bool pl_rival_change(pl_rival_alive *a, const pl_tape_block *block, int64_t bytes) {
    if (!pl_add_i64(a->now, bytes, &a->now)) return false;
    a->kinds[block->kind] += bytes; /* a part of `now` */
    if (a->now > a->peak) {
        a->peak = a->now;
        memcpy(a->at_peak, a->kinds, sizeof a->kinds);
        a->phase = (pl_phase)block->phase;
        a->step = block->step;
    }
    return true;
}

#endif
