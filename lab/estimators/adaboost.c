/* adaboost: AdaBoost.R2 over regression trees (Drucker 1997). */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_adaboost,
    .columns = true,
    .options = "trees=100 depth=8",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_adaboost = {
    .info = {.name = "adaboost",
             .kind = PL_LEARNED,
             .title = "AdaBoost.R2",
             .source = "paper 1 (arXiv 2510.20985), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_adaboost,
    .method = &method};
