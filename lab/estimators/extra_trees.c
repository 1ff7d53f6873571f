/* extra-trees: extremely randomised trees (Geurts et al. 2006). */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_forest,
    .columns = true,
    .options = "trees=100 extra=1 min_leaf=2 features=0.5",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_extra_trees = {
    .info = {.name = "extra-trees",
             .kind = PL_LEARNED,
             .title = "extremely randomised trees",
             .source = "paper 2 (Hu 2025), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_extra_trees,
    .method = &method};
