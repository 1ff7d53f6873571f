/* xgboost: the real XGBoost, by its C API (Chen and Guestrin 2016). */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_xgboost,
    .columns = true,
    .options = "trees=400 depth=5 rate=0.05 features=0.5",
    .hold_out = 0.15,
    .refit = true,
};

const pl_estimator pl_estimator_xgboost = {
    .info = {.name = "xgboost",
             .kind = PL_LEARNED,
             .title = "XGBoost, the library itself",
             .source = "papers 1 and 2, baseline",
             .leaves_out = "all that counts of layers do not show: what autograd saves, "
                           "workspaces, the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_xgboost,
    .method = &method};
