/* catboost: gradient boosting on symmetric trees with ordered boosting, as CatBoost does
 * (Prokhorenkova et al. 2018); our own. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_symmetric,
    .columns = true,
    .options = "trees=600 depth=6 rate=0.06",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_catboost = {
    .info = {.name = "catboost",
             .kind = PL_LEARNED,
             .title = "ordered boosting on symmetric trees",
             .source = "paper 2 (Hu 2025), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_catboost,
    .method = &method};
