/* learned: measured jobs as samples, trained weights out; and weights with a job in, an estimate
 * out. What is common to all learned estimators. */
#ifndef PL_LAB_LEARNED_H
#define PL_LAB_LEARNED_H

#include "lab/estimators/method.h"
#include "lab/jobs/jobs.h"
#include "lend.h"

/* ---- targets ---- */

typedef struct pl_target {
    const char *name;                            /* "memory" */
    const char *unit;                            /* of a figure: "bytes" */
    double (*measured)(const pl_measured *item); /* NAN: not known */
    pl_figure (*said)(const pl_report *report);  /* what an estimate says of it; NAN: nothing */
    double (*guess)(const pl_profile *profile);  /* what learners learn the truth's ratio to; NULL:
                                                    none learns it */
    pl_counter counter;                          /* percent, and its classes; else PL_COUNTERS */
} pl_target;

const pl_target *pl_target_at(size_t index); /* NULL past the end */

const pl_target *pl_target_find(const char *name); /* NULL: none */

/* ---- asking about measured jobs ---- */

/* A measured job as estimators are asked about it, its model opened anew. */
typedef struct pl_question {
    pl_subject subject; /* without a graph: model and graph are NULL */
    pl_report *report;  /* for the answer; its budget is the subject's */
    pl_model *model;
    pl_graph *graph;
    bool owned; /* the graph */
} pl_question;

/* limits: of the model and the answer together. pl_question_close follows, also on failure. */
pl_status pl_question_open(pl_question *out, const pl_jobs *jobs, const pl_measured *item,
                           bool with_graph, const pl_limits *limits, pl_error *err);
void pl_question_close(pl_question *question);

/* ---- samples ---- */

/* Samples with the memory they lie in. */
typedef struct pl_dataset {
    pl_samples samples;
    float *values, *steps, *targets, *shares;
    size_t *begin;
    int32_t *classes;
} pl_dataset;

/* Profiles as a method wants them; no targets yet. */
pl_status pl_dataset_open(pl_dataset *out, const pl_method *method,
                          const pl_profile *const *profiles, size_t count, pl_error *err);
void pl_dataset_close(pl_dataset *dataset);

/* ---- training ---- */

/* Jobs to learn from. */
typedef struct pl_training_set {
    const pl_estimator *estimator;
    const pl_jobs *jobs;
    const size_t *rows; /* places in jobs */
    size_t count;
    const pl_train_settings *settings;
    const char *target; /* NULL: all that can be learnt */
    pl_budget *budget;  /* time and cancelling, of all of the training */
} pl_training_set;

pl_status pl_learn(pl_weights **out, const pl_training_set *set, pl_error *err);
/* usage_learn.c: adds one part per target of usage.h. */
pl_status pl_usage_learn(pl_weights *weights, const pl_training_set *set, pl_error *err);

/* ---- predicting ---- */

/* Figures of one target: the likeliest, and the interval that holds the truth in 95 of 100 held-out
 * jobs; NAN where not known. In the target's unit. */
typedef struct pl_prediction {
    double value, low, high;
} pl_prediction;

pl_status pl_predict(pl_prediction *out, const pl_trained *trained, const pl_method *method,
                     const pl_profile *profile, pl_error *err);

#endif
