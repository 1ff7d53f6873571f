/* tree_train: trees put together node by node, as the learners that grow them do. */
#ifndef PL_LAB_TREE_TRAIN_H
#define PL_LAB_TREE_TRAIN_H

#include "lend.h"

/* These give false when memory is out or a limit is reached. */
bool pl_trees_begin(pl_trees *trees); /* the next node is a new tree's root */
bool pl_trees_add_split(pl_trees *trees, uint32_t column, float threshold);
bool pl_trees_add_leaf(pl_trees *trees, float value);
/* A classifier's leaf from its classes' weights, [classes], whose sum is positive. */
bool pl_trees_add_shares(pl_trees *trees, const double *weights);
/* The next node is the right child of the split, a node's number. */
void pl_trees_set_right(pl_trees *trees, size_t split);
bool pl_trees_append(pl_trees *to, const pl_trees *from);
void pl_trees_truncate(pl_trees *trees, size_t count); /* keeps the first trees */

/* The threshold between two neighbours, low < high: the middle, and never high itself. */
static inline float pl_tree_between(float low, float high) {
    float middle = low / 2 + high / 2;
    return middle >= low && middle < high ? middle : low;
}

/* What every tree learner asks of its samples: some, not too many columns, something to learn,
 * classes within their count. */
pl_status pl_tree_check_samples(const pl_samples *samples, const char *learner, pl_error *err);
/* Validation samples are of the kind that is learnt from; NULL is fine. */
pl_status pl_tree_check_valid(const pl_samples *valid, const pl_samples *samples, pl_error *err);

#endif
