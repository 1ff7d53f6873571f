/* lightgbm-library: the real LightGBM by its C API, where its library is installed. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_lightgbm,
    .columns = true,
    .options = "trees=400 rate=0.05 min_leaf=5 features=0.5 loss=l1",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_lightgbm_library = {
    .info = {.name = "lightgbm-library",
             .kind = PL_LEARNED,
             .title = "LightGBM, the library itself, where it is installed",
             .source = "paper 2 (Hu 2025), baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .method = &method};
