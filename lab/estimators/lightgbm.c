/* lightgbm: gradient boosting grown leaf by leaf on histograms, as LightGBM does (Ke et al.
 * 2017); our own. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_leafwise,
    .columns = true,
    .options = "trees=400 rate=0.05 min_leaf=5 features=0.5 loss=l1",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_lightgbm = {
    .info = {.name = "lightgbm",
             .kind = PL_LEARNED,
             .title = "leaf-wise gradient boosting on histograms",
             .source = "paper 2 (Hu 2025), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_lightgbm,
    .method = &method};
