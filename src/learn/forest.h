/* forest: random forests and extremely randomised trees, as they answer (forest.c) and as they are
 * grown (forest_train.c). */
#ifndef PL_LEARN_FOREST_H
#define PL_LEARN_FOREST_H

#include "learn/learner.h"
#include "learn/tree.h"

typedef struct pl_forest {
    pl_learned learned;
    pl_trees trees;
} pl_forest;

pl_forest *pl_forest_new(size_t columns, size_t classes); /* NULL: out of memory */
void pl_forest_close(pl_learned **learned);

/* forest_train.c */
pl_status pl_forest_train(pl_learned **out, const pl_samples *samples,
                          const pl_learn_settings *settings, pl_error *err);

#endif
