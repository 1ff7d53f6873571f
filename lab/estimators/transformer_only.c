/* transformer-only: paper 1's network without its BiGRU. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .options =
        "net=tokens:32,encoder:4:128:0.1,mean,linear:32,relu,linear "
        "epochs=100 batch=64 rate=0.003 cosine=1 warmup=60 decay=0.01 clip=1 loss=huber huber=0.5",
    .hold_out = 0.15,
};

const pl_estimator pl_estimator_transformer_only = {
    .info = {.name = "transformer-only",
             .kind = PL_LEARNED,
             .title = "the light network without its BiGRU",
             .source = "paper 1 (arXiv 2510.20985), ablation",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_transformer_only,
    .method = &method};
