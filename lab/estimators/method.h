/* method: how a learned estimator learns, and what the rows of the laboratory's estimators share. */
#ifndef PL_LAB_METHOD_H
#define PL_LAB_METHOD_H

#include "lab/jobs/profile.h"
#include "lab/learn/learners.h"
#include "lend.h"

struct pl_training_set; /* lab/train/learned.h */

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
    pl_status (*learn)(pl_weights **out, const struct pl_training_set *set, pl_error *err);
} pl_method;

/* NULL: it does not learn. */
const pl_method *pl_method_of(const pl_estimator *estimator);

/* Rows' prepare: the profile of the model, from its graph, trace or summary. */
pl_status pl_profile_prepare(pl_subject *subject, const pl_weights *weights, int64_t batch,
                             int64_t seq, pl_arena *arena, pl_error *err);
/* The same for learned estimators; PL_USAGE where the weights did not learn memory. */
pl_status pl_learned_prepare(pl_subject *subject, const pl_weights *weights, int64_t batch,
                             int64_t seq, pl_arena *arena, pl_error *err);
/* Features in, log2 of bytes or bins out. */
pl_status pl_estimate_learned(pl_report *report, const pl_subject *subject,
                              const pl_weights *weights, pl_error *err);
/* Whether the part has the method's target, learner, kind and features. */
pl_status pl_learned_check(const pl_trained *part, const char *path, pl_error *err);

/* models/NAME.plm, see meson.build and built_in.c. */
#define WEIGHTS(symbol) extern pl_built_in pl_built_in_##symbol;
#include "lab_weights_rows.h"
#undef WEIGHTS

#endif
