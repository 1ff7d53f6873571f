/* learner: one way to learn, a row of pl_learners. Numbers in, numbers out.
 *
 * How it learns is said by options in text, "trees=300 depth=8", that are kept in the model file.
 * A learner is deterministic: the same samples, options, seed and number of threads give the same
 * bytes when saved. */
#ifndef PL_LEARN_LEARNER_H
#define PL_LEARN_LEARNER_H

#include "core/budget.h"
#include "learn/file.h"
#include "learn/samples.h"

/* A point of the validation curve. Boosting: an epoch is a tree. */
typedef struct pl_epoch {
    int epoch, epochs; /* from 1; of how many at the most */
    double train_loss; /* NAN where not known */
    double valid_loss; /* NAN without validation samples */
} pl_epoch;

typedef struct pl_learn_settings {
    const char *options;     /* "key=value key=value"; "": the learner's defaults */
    uint64_t seed;           /* default 1 */
    const pl_samples *valid; /* for early stopping and the curve; NULL: none */
    void (*progress)(const pl_epoch *epoch, void *context); /* NULL: none */
    void *progress_context;
    pl_budget *budget; /* asked at every epoch or tree, by the caller's thread; NULL: no limits */
} pl_learn_settings;

/* What was learnt. Every learner's own struct begins with this one. */
typedef struct pl_learned {
    const struct pl_learner *learner;
    size_t outputs; /* numbers per prediction: 1, or class_count (logits) */
} pl_learned;

typedef struct pl_learner {
    const char *name;   /* as the model file has it: "network", "forest" */
    const char *scaled; /* "standard": wants columns with mean 0 and deviation 1; "as-is" */
    /* By pl_learner_train of the laboratory only; NULL: that has it, or nobody. */
    pl_status (*train)(pl_learned **out, const pl_samples *samples,
                       const pl_learn_settings *settings, pl_error *err);
    /* out: [samples->count, learned->outputs]. Safe from several threads at once. */
    pl_status (*predict)(const pl_learned *learned, const pl_samples *samples, float *out,
                         pl_error *err);
    /* Failures stay in the writer or the reader. load checks everything it reads: sizes, indices,
     * finite weights; columns and channels are those of the model file's features. */
    void (*save)(const pl_learned *learned, pl_writer *writer);
    pl_learned *(*load)(pl_reader *reader, size_t columns, size_t channels);
    void (*close)(pl_learned **learned);
} pl_learner;

const pl_learner *pl_learner_at(size_t index);       /* NULL past the end */
const pl_learner *pl_learner_find(const char *name); /* NULL: none */
/* The rows behind the library's own, as pl_estimators_add has them. */
typedef struct pl_learner_rows {
    const pl_learner *const *rows;
    size_t count;
} pl_learner_rows;
void pl_learners_add(const pl_learner_rows *rows);

void pl_learned_close(pl_learned **learned); /* takes NULL */

/* The library's own rows, each in a file of its own; the laboratory has more, and what trains these. */
extern const pl_learner pl_learner_forest;   /* random forest; extra=1: extra trees */
extern const pl_learner pl_learner_leafwise; /* gradient boosting as LightGBM */

#endif
