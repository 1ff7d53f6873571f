/* sizes: kinds of jobs: what they took, where that was measured, what estimators say of them, and how busy they keep a
 * card; what two of them cost each other. */
#ifndef PL_DECIDE_SIZES_H
#define PL_DECIDE_SIZES_H

#include <plimsoll/plimsoll.h>

enum { PL_SIZES_ESTIMATORS = 32 };

/* Bytes; peak below 0: the estimator says nothing of it. An estimate without an interval is all three. */
typedef struct pl_span {
    double low, peak, high;
} pl_span;

typedef struct pl_job_kind {
    int64_t batch;          /* 0: unknown */
    int64_t measured_bytes; /* PL_UNKNOWN */
    double weight;          /* how often it is drawn */
    pl_demand demand;       /* name, card and times; NAN: unknown */
    bool timed;
    int32_t like; /* the representative whose slowdowns it has: of sizes->times */
    pl_span said[PL_SIZES_ESTIMATORS];
} pl_job_kind;

struct pl_sizes {
    pl_job_kind *kinds;
    size_t count, room;
    char *estimators[PL_SIZES_ESTIMATORS];
    bool intervals[PL_SIZES_ESTIMATORS]; /* whether it has any */
    size_t estimator_count;
    /* Representatives: kinds whose times differ. Slowdowns of each beside each, for each way of sharing, are made
     * when first asked for; 0: not yet. */
    pl_demand *times;
    size_t time_count;
    float *slowdowns[2];
};

/* -1: it has no such estimator. */
int pl_sizes_find(const pl_sizes *sizes, const char *estimator);
/* What one of a kind's steps beside one of the other's takes, over one alone; *known is false where one has no
 * times: then as if both filled the card. */
double pl_sizes_slowdown(pl_sizes *sizes, const pl_job_kind *kind, const pl_job_kind *beside,
                         pl_sharing sharing, bool *known);

#endif
