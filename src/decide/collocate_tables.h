/* collocate_tables: what was fitted to measured pairs of jobs, by way of sharing a card. */
#ifndef PL_DECIDE_COLLOCATE_TABLES_H
#define PL_DECIDE_COLLOCATE_TABLES_H

#include "core/counts.h"

/* Of a job ("self") beside another; shares are of the job's own step alone. */
typedef enum pl_pair_feature {
    PL_PAIR_SIMULATED, /* log of the slowdown that queues.c gives */
    PL_PAIR_BUSY_SELF, /* share of its step in which it keeps the card busy */
    PL_PAIR_BUSY_OTHER,
    PL_PAIR_BUSY_BOTH, /* their product */
    PL_PAIR_WAIT,      /* log(1 + busy_other * slice / step) */
    PL_PAIR_OVER,      /* what both shares have above 1 */
    PL_PAIR_HOST_SELF, /* share of its step in which the host issues */
    PL_PAIR_HOST_OTHER,
    PL_PAIR_ACTIVE_SELF, /* SMACT */
    PL_PAIR_ACTIVE_OTHER,
    PL_PAIR_DRAM_BOTH,   /* product of both DRAMAs */
    PL_PAIR_ACTIVE_BOTH, /* product of both SMACTs */
    PL_PAIR_BLOCKED,     /* busy_self * active_other * log(1 + the other's mean kernel / 50 us) */
    PL_PAIR_FEATURES
} pl_pair_feature;

/* Bins of busy_self, for intervals: below 0.35, below 0.7, above. */
enum { PL_PAIR_BINS = 3 };

typedef struct pl_pair_rule {
    double slice, turn; /* pl_queue_rules */
    int trips;
    double launch_ms; /* the card counts as busy beside the kernels' time, for each launch */
    /* log slowdown = simulated + constant + sum of weight * (feature - center); features are held
     * within what was measured, least to most. */
    double constant;
    double center[PL_PAIR_FEATURES], weight[PL_PAIR_FEATURES];
    double least[PL_PAIR_FEATURES], most[PL_PAIR_FEATURES];
    /* 5 % and 95 % quantiles of log(measured / predicted) on pairs of models kept apart. */
    double below[PL_PAIR_BINS], above[PL_PAIR_BINS];
    double gain_below, gain_above;
    int pairs, jobs; /* it was fitted to */
} pl_pair_rule;

#define PL_PAIR_COVERAGE 0.9

extern const pl_pair_rule pl_pair_rules[PL_SHARINGS];

#endif
