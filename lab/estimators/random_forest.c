/* random-forest: bagged regression trees (Breiman 2001). */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_forest,
    .columns = true,
    .options = "trees=100 min_leaf=2 features=0.5",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_random_forest = {
    .info = {.name = "random-forest",
             .kind = PL_LEARNED,
             .title = "a random forest",
             .source = "paper 1 (arXiv 2510.20985), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_random_forest,
    .method = &method};
