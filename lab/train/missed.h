/* missed: how far predictions of jobs kept apart were off, and what an interval is made of it. */
#ifndef PL_LAB_MISSED_H
#define PL_LAB_MISSED_H

#include <stddef.h>

/* A job that was missed by so much, and how much it counts. */
typedef struct pl_missed {
    double by, weight;
} pl_missed;

/* What no more than that share of jobs miss by more; a little further out for there being few of them
 * (the conformal correction, of as many as their weights are worth). Sorts them. 0: no jobs. */
double pl_missed_quantile(pl_missed *jobs, size_t count, double outside);

#endif
