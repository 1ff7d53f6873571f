/* bigru-only: paper 1's network without its Transformer. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .options =
        "net=tokens:32,bigru:16,mean,linear:32,relu,linear "
        "epochs=100 batch=64 rate=0.003 cosine=1 warmup=60 decay=0.01 clip=1 loss=huber huber=0.5",
    .hold_out = 0.15,
};

const pl_estimator pl_estimator_bigru_only = {
    .info = {.name = "bigru-only",
             .kind = PL_LEARNED,
             .title = "the light network without its encoder",
             .source = "paper 1 (arXiv 2510.20985), ablation",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_bigru_only,
    .method = &method};
