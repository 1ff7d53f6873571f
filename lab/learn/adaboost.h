/* adaboost: the two steps of AdaBoost.R2 that can be checked by hand. The learner is in learner.h.
 */
#ifndef PL_LAB_ADABOOST_H
#define PL_LAB_ADABOOST_H

#include <stdbool.h>
#include <stddef.h>

typedef enum pl_adaboost_loss {
    PL_ADABOOST_LINEAR,
    PL_ADABOOST_SQUARE,
    PL_ADABOOST_EXPONENTIAL,
} pl_adaboost_loss;

/* What one tree's errors do to the rows' weights. weights: [count], sum 1, updated and brought to
 * sum 1 again; errors: [count] |prediction - truth|, replaced by losses from 0 to 1. *tree_weight:
 * the tree's weight in the median. false: the tree is no better than chance (mean loss of 1/2 or
 * more) or without error, and boosting ends; *tree_weight is then 0 or 1 and the weights are as
 * they were. */
bool pl_adaboost_reweigh(double *weights, double *errors, size_t count, pl_adaboost_loss loss,
                         double rate, double *tree_weight);

typedef struct pl_vote {
    float value, weight;
} pl_vote;

/* The lowest value at which the weights, summed by ascending value, reach half of all. Sorts. */
float pl_weighted_median(pl_vote *votes, size_t count);

#endif
