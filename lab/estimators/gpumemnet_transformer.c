/* gpumemnet-transformer: paper 3's ensemble over the sequence of layers (arXiv 2602.17817, section
 * 4.3): tuples of kind, activations and parameters, two linear layers with batch norm, sinusoidal
 * positions, an encoder, a sum, the job's own numbers appended, MLPs of 1 to 3 layers. Ours: each
 * member has an encoder of its own, and soft labels as gpumemnet-mlp's. */
#include "lab/estimators/method.h"

static const pl_method method = {
    .learner = &pl_learner_network,
    .columns = true,
    .view = PL_VIEW_COUNTS,
    .steps = true,
    .classifies = true,
    .soft = 0.25,
    .options =
        "net=steps,linear:32,batchnorm,relu,linear:32,batchnorm,relu,sinusoid,encoder:4:64,sum,"
        "append,"
        "linear:32,batchnorm,relu,linear|"
        "steps,linear:32,batchnorm,relu,linear:32,batchnorm,relu,sinusoid,encoder:4:64,sum,append,"
        "linear:32,batchnorm,relu,linear:16,batchnorm,relu,linear|"
        "steps,linear:32,batchnorm,relu,linear:32,batchnorm,relu,sinusoid,encoder:4:64,sum,append,"
        "linear:32,batchnorm,relu,linear:16,batchnorm,relu,linear:8,batchnorm,relu,linear "
        "epochs=120 batch=128 rate=0.001 cosine=1 warmup=60",
    .hold_out = 0,
};

const pl_estimator pl_estimator_gpumemnet_transformer = {
    .info = {.name = "gpumemnet-transformer",
             .kind = PL_LEARNED,
             .title = "an ensemble of Transformers over the layers that names a bin of memory",
             .source = "paper 3 (arXiv 2602.17817)",
             .leaves_out =
                 "all that counts of layers do not show: what autograd saves, workspaces, "
                 "the allocator",
             .learns = true,
             .has_weights = true},
    .prepare = pl_learned_prepare,
    .estimate = pl_estimate_learned,
    .check = pl_learned_check,
    .built_in = &pl_built_in_gpumemnet_transformer,
    .method = &method};
