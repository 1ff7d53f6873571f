/* bigru-transformer: paper 1 (arXiv 2510.20985) at its full size, 20.4 million weights: each
 * feature a step of the sequence, BiGRU of 256 each way, 6 encoder layers of width 512 with 8
 * heads, dropout 0.1. The paper does not give its training; this is ours. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .options =
        "net=tokens:512,bigru:256,encoder:8:2048:0.1,encoder:8:2048:0.1,"
        "encoder:8:2048:0.1,encoder:8:2048:0.1,encoder:8:2048:0.1,encoder:8:2048:0.1,mean,"
        "linear:512,relu,linear epochs=40 batch=64 rate=0.0001 cosine=1 warmup=60 decay=0.01 "
        "clip=1 loss=huber huber=0.5",
    .hold_out = 0.15,
};

const pl_estimator pl_estimator_bigru_transformer = {
    .info = {.name = "bigru-transformer",
             .kind = PL_LEARNED,
             .title = "BiGRU of 256 each way, 6 encoder layers of 512 with 8 heads",
             .source = "paper 1 (arXiv 2510.20985)",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .slow = true,
             .learns = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .method = &method};
