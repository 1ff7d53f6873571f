/* trained_view: samples as a learner gets to see them, shared by predicting (trained.c) and
 * training (trained_train.c). */
#ifndef PL_LEARN_TRAINED_VIEW_H
#define PL_LEARN_TRAINED_VIEW_H

#include "learn/trained.h"

/* Samples as the learner sees them, and what they own. */
typedef struct pl_trained_view {
    pl_samples samples;
    float *values, *steps, *targets;
} pl_trained_view;

/* truths: the targets too. */
pl_status pl_trained_view_open(pl_trained_view *v, const pl_trained *t, const pl_samples *s,
                               bool truths, pl_error *err);
void pl_trained_view_close(pl_trained_view *v);

pl_status pl_trained_check_values(const pl_samples *s, pl_error *err); /* all are finite */
/* Where the names are not those it was trained on: says the first that differs. */
pl_status pl_trained_check_names(const pl_scaled *wanted, size_t wanted_count,
                                 const char *const *names, size_t count, const char *what,
                                 pl_error *err);

#endif
