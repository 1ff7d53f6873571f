/* decision-tree: one regression tree over the features of a profile. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_tree,
    .columns = true,
    .options = "min_leaf=2",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_decision_tree = {
    .info = {.name = "decision-tree",
             .kind = PL_LEARNED,
             .title = "a regression tree",
             .source = "paper 1 (arXiv 2510.20985), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_decision_tree,
    .method = &method};
