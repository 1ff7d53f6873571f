/* transformer-bigru: paper 2 (Hu 2025), with the figures of its table 2: positions up to 512, 2
 * self-attention layers with 4 heads of 32 channels, GRUs of 6 forward and 10 on the flipped
 * sequence, and its training. A feature is a step of the sequence. Residuals and layer norms stand
 * in its text alone; without them it does not learn. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .options = "net=tokens:32,positions:512,attention:4:32:0:residual,layernorm,attention:4:32:0:"
               "residual,layernorm,"
               "bigru:6:10,ends:6,relu,dropout:0.01,linear epochs=200 batch=256 rate=0.01 "
               "drop-epoch=80 drop-factor=0.1 l2=0.001 clip=10 loss=mse",
    .hold_out = 0.3,
    .compute = true,
};

const pl_estimator pl_estimator_transformer_bigru = {
    .info = {.name = "transformer-bigru",
             .kind = PL_LEARNED,
             .title = "2 self-attention layers, GRUs of 6 forward and 10 reversed",
             .source = "paper 2 (Hu 2025)",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_transformer_bigru,
    .method = &method};
