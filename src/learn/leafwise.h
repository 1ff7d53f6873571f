/* leafwise: gradient boosting leaf by leaf, as it answers; it is grown in
 * lab/learn/leafwise_train.c. */
#ifndef PL_LEARN_LEAFWISE_H
#define PL_LEARN_LEAFWISE_H

#include "learn/learner.h"
#include "learn/tree.h"

typedef struct pl_leafwise {
    pl_learned learned;
    size_t classes;
    size_t scores; /* trees per round: 1, or one per class from three classes on */
    float *base;   /* [scores] */
    pl_trees trees;
} pl_leafwise;

pl_leafwise *pl_leafwise_new(size_t columns, size_t classes); /* NULL: out of memory */
void pl_leafwise_close(pl_learned **learned);

#endif
