/* bigru-transformer-light: paper 1's network 32 wide with one encoder layer: no worse than the full
 * one, 1 / 900 of its weights (docs/estimators.md). */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .options =
        "net=tokens:32,bigru:16,encoder:4:128:0.1,mean,linear:32,relu,linear "
        "epochs=100 batch=64 rate=0.003 cosine=1 warmup=60 decay=0.01 clip=1 loss=huber huber=0.5",
    .hold_out = 0.15,
};

const pl_estimator pl_estimator_bigru_transformer_light = {
    .info = {.name = "bigru-transformer-light",
             .kind = PL_LEARNED,
             .title = "BiGRU of 16 each way, one encoder layer of 32 with 4 heads",
             .source = "paper 1 (arXiv 2510.20985)",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_bigru_transformer_light,
    .method = &method};
