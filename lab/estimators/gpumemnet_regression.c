/* gpumemnet-regression: gpumemnet-mlp's ensemble with one number as its answer instead of a bin.
 *
 * Not a paper's estimator: it is here because paper 3 (section 4.2) holds that classification beats
 * regression, and a claim is checked by the same network on the same features (docs/estimators.md).
 * It learns log2 of the bytes' ratio to a guess, as the other regressions do. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .view = PL_VIEW_COUNTS,
    .options = "net=linear:8,batchnorm,relu,linear|"
               "linear:8,batchnorm,relu,linear:4,batchnorm,relu,linear|"
               "linear:8,batchnorm,relu,linear:4,batchnorm,relu,linear:4,batchnorm,relu,linear|"
               "linear:8,batchnorm,relu,linear:4,batchnorm,relu,linear:4,batchnorm,relu,linear:4,"
               "batchnorm,relu,linear members=2 epochs=300 batch=128 rate=0.01 cosine=1 warmup=150 "
               "loss=huber huber=0.5",
    .hold_out = 0.15,
};

const pl_estimator pl_estimator_gpumemnet_regression = {
    .info = {.name = "gpumemnet-regression",
             .kind = PL_LEARNED,
             .title = "gpumemnet-mlp's ensemble with a number as its answer",
             .source = "a check of paper 3's claim (arXiv 2602.17817, section 4.2)",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_gpumemnet_regression,
    .method = &method};
