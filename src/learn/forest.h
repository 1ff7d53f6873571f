/* forest: random forests and extremely randomised trees, as they answer; they are
 * grown in lab/learn/forest_train.c. */
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

#endif
