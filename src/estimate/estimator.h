/* estimator: a row of the registry. One file each, in estimators/. */
#ifndef PL_ESTIMATE_ESTIMATOR_H
#define PL_ESTIMATE_ESTIMATOR_H

#include "estimate/model.h"
#include "estimate/profile.h"
#include "estimate/report.h"
#include "learn/trained.h"

/* What is asked about. */
typedef struct pl_subject {
    const pl_job *job;
    const pl_gpu *gpu;
    const pl_profile *profile;
    const pl_model *model; /* NULL: no graph, counts alone */
    const pl_graph *graph; /* bound to the job's batch; NULL likewise */
} pl_subject;

struct pl_lesson; /* estimate/learned.h */

/* What learns, from what, and how. */
typedef struct pl_method {
    const pl_learner *learner;
    bool columns, steps; /* of a profile: pl_features_of, pl_steps_of */
    pl_view view;        /* default: all features */
    bool classifies;     /* bins of memory; else log2 of bytes */
    double soft;         /* classifiers: how sharp a bin's edge is, in bins; 0: a step */
    const char *options; /* the learner's */
    double hold_out;     /* share of jobs kept apart for early stopping and the interval */
    bool refit;          /* train on all jobs after that; for learners that do not stop early */
    bool compute;        /* learns floating-point operations too, where they were measured */
    /* Its own way to learn; NULL: that of learned.c. */
    pl_status (*learn)(pl_weights **out, const struct pl_lesson *lesson, pl_error *err);
} pl_method;

typedef struct pl_estimator {
    pl_estimator_info info; /* has_weights is filled by the registry */
    /* Fills peak_bytes and what else it knows; the report comes with everything unknown. weights:
     * NULL for those that do not learn. The subject has a graph where info.needs_graph. */
    pl_status (*estimate)(pl_report *report, const pl_subject *subject, const pl_weights *weights,
                          pl_error *err);
    const pl_method *method; /* NULL: does not learn */
} pl_estimator;

const pl_estimator *pl_estimator_row(size_t index);       /* NULL past the end */
const pl_estimator *pl_estimator_named(const char *name); /* NULL: none */

/* The estimate of every learned estimator but hybrid: features in, log2 of bytes or bins out. */
pl_status pl_estimate_learned(pl_report *report, const pl_subject *subject,
                              const pl_weights *weights, pl_error *err);

/* What every report ends with: its names, and whether the job fits. */
void pl_report_finish(pl_report *report, const pl_estimator *estimator, const pl_gpu *gpu);

#endif
