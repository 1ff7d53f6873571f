/* gpumemnet-mlp: paper 3's ensemble of small MLPs that names a bin of memory (arXiv 2602.17817,
 * section 4.3): members of 1 to 4 hidden layers, 8 neurons then 4, batch norm and ReLU, logits
 * averaged. Ours: each member has its own loss, magnitudes stand beside their logarithms, and a
 * label is soft over a quarter of a bin, which lifts the accuracy on its authors' data from 0.98 to
 * 0.99 (docs/estimators.md). */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .view = PL_VIEW_COUNTS,
    .classifies = true,
    .soft = 0.25,
    .options = "net=linear:8,batchnorm,relu,linear|"
               "linear:8,batchnorm,relu,linear:4,batchnorm,relu,linear|"
               "linear:8,batchnorm,relu,linear:4,batchnorm,relu,linear:4,batchnorm,relu,linear|"
               "linear:8,batchnorm,relu,linear:4,batchnorm,relu,linear:4,batchnorm,relu,linear:4,"
               "batchnorm,relu,linear members=2 epochs=300 batch=128 rate=0.01 cosine=1 warmup=150",
    .hold_out = 0,
};

const pl_estimator pl_estimator_gpumemnet_mlp = {
    .info = {.name = "gpumemnet-mlp",
             .kind = PL_LEARNED,
             .title = "an ensemble of MLPs that names a bin of memory",
             .source = "paper 3 (arXiv 2602.17817)",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_gpumemnet_mlp,
    .method = &method};
