/* xgboost: the real XGBoost, by its C API (Chen and Guestrin 2016). */
#include "estimate/estimator.h"

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
                           "workspaces, the allocator"},
    .method = &method,
    .estimate = pl_estimate_learned};
