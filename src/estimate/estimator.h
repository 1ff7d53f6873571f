/* estimator: a row of the registry. One file each: sim and hybrid in estimators/, the others in the
 * laboratory (lab/estimators/), which adds its rows by pl_estimators_add. */
#ifndef PL_ESTIMATE_ESTIMATOR_H
#define PL_ESTIMATE_ESTIMATOR_H

#include "estimate/model.h"
#include "estimate/report.h"
#include "learn/trained.h"

/* What is asked about. */
typedef struct pl_subject {
    const pl_job *job;
    const pl_gpu *gpu;
    const struct pl_profile *profile; /* counts of layers; NULL unless the estimator prepares it */
    const pl_model *model;            /* NULL: no graph, counts alone */
    const pl_graph *graph;            /* bound to the job's batch; NULL likewise */
    pl_budget *budget;                /* of the request; NULL: no limits */
} pl_subject;

/* Whether it is one rank of several, by the job or as it was recorded. */
bool pl_subject_parallel(const pl_subject *subject);

/* Weights in the library's read-only data (models/NAME.plm). */
typedef struct pl_built_in {
    const unsigned char *begin, *end;
    /* NULL: not yet; weights.c's alone. Never given back: XGBoost's own are gone before we are. */
    _Atomic(pl_weights *) read;
} pl_built_in;

typedef struct pl_estimator {
    pl_estimator_info info;
    /* Before an estimate of a model: fills what the estimator looks at besides the graph; NULL:
     * nothing. batch, seq: what the graph is bound to. */
    pl_status (*prepare)(pl_subject *subject, const pl_weights *weights, int64_t batch, int64_t seq,
                         pl_arena *arena, pl_error *err);
    /* Fills peak_bytes and what else it knows; the report comes with everything unknown. weights:
     * NULL for those that do not learn. The subject has a graph where info.needs_graph. */
    pl_status (*estimate)(pl_report *report, const pl_subject *subject, const pl_weights *weights,
                          pl_error *err);
    /* Whether a part of a model file is one of this estimator and this version; NULL: it looks when
     * it uses them. path: for messages. */
    pl_status (*check)(const pl_trained *part, const char *path, pl_error *err);
    pl_built_in *built_in;          /* NULL where info.has_weights is false */
    const struct pl_method *method; /* how it learns: the laboratory's own; NULL: not here */
} pl_estimator;

const pl_estimator *pl_estimator_row(size_t index);       /* NULL past the end */
const pl_estimator *pl_estimator_named(const char *name); /* NULL: none */

/* The rows behind the library's own. They must stay for as long as the process runs; to add the same
 * again changes nothing. Safe while other threads look rows up. */
typedef struct pl_estimator_rows {
    const pl_estimator *const *rows;
    size_t count;
} pl_estimator_rows;
void pl_estimators_add(const pl_estimator_rows *rows);

#endif
