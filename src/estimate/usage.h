/* usage: step time, compute and how busy a job keeps the card: a walk of the tape's records
 * (device/schedule.h), corrected by what was learnt of measured jobs. */
#ifndef PL_ESTIMATE_USAGE_H
#define PL_ESTIMATE_USAGE_H

#include "device/schedule.h"
#include "estimate/estimator.h"
#include "estimate/weights.h"

enum { PL_USAGE_SIGNALS = 43 };
extern const char *const pl_usage_signal_names[PL_USAGE_SIGNALS];

/* What the walk of a step says of it in numbers, for corrections. */
typedef struct pl_walk {
    bool known; /* false: the tape has no records of a step */
    float signals[PL_USAGE_SIGNALS];
    /* How much longer the step takes by a slow host, and by a fast one: log2, 0 where its speed was
     * told. */
    double slow, fast;
} pl_walk;

/* Fills the report's compute, times and counters by the walk alone, and its signals. false: out of
 * memory. */
bool pl_usage_fill(pl_report *report, pl_walk *walk, const pl_subject *subject,
                   const pl_tape *tape);

/* Corrects step time and counters, and gives them intervals. Where the weights have no such parts,
 * or the card was not measured, the walk's figures stay and the intervals are wide. */
pl_status pl_usage_correct(pl_report *report, const pl_walk *walk, const pl_subject *subject,
                           const pl_weights *weights, pl_error *err);

/* ---- what is learnt ---- */

/* log2 of truth over walk: of the step's time, and of the time that the card was busy in each way
 * (counter times step), since that does not depend on the host. */
typedef enum pl_usage_target {
    PL_USAGE_STEP,
    PL_USAGE_COUNTERS, /* PL_USAGE_COUNTERS + pl_counter */
    PL_USAGE_TARGETS = PL_USAGE_COUNTERS + PL_COUNTERS
} pl_usage_target;

extern const char *const pl_usage_target_names[PL_USAGE_TARGETS]; /* parts of a model file */

/* What a step waits for: its interval is learnt apart. */
typedef enum pl_usage_bound {
    PL_BOUND_HOST, /* host's time above 1.4 times the card's */
    PL_BOUND_BOTH,
    PL_BOUND_DEVICE,    /* below 0.7 times */
    PL_BOUND_RECURRENT, /* cuDNN's recurrent layers, whatever they wait for: hardest to tell */
    PL_BOUNDS
} pl_usage_bound;

pl_usage_bound pl_usage_bound_of(const pl_report *report);

/* A part's extra[]: quantiles of truth less prediction on jobs kept apart; step: log2, counters:
 * points. */
enum { PL_USAGE_BELOW = 0, PL_USAGE_ABOVE = PL_BOUNDS };
#define PL_USAGE_COVERAGE 0.9

/* A counter's share as ratios are taken of it: percent, not less than a trace. */
double pl_usage_share(double percent);

#endif
