/* profile: a job as the papers' estimators see it: counts of its model's layers, and how it is
 * trained. From a graph, or from a measured job's own record, or from a row of GPUMemNet's CSV. */
#ifndef PL_LAB_PROFILE_H
#define PL_LAB_PROFILE_H

#include "lend.h"

typedef enum pl_profile_kind {
    PL_LAYER_LINEAR,
    PL_LAYER_CONVOLUTION,
    PL_LAYER_BATCH_NORM,
    PL_LAYER_LAYER_NORM, /* and RMS, group, instance */
    PL_LAYER_DROPOUT,
    PL_LAYER_ACTIVATION,
    PL_LAYER_EMBEDDING,
    PL_LAYER_POOLING,
    PL_LAYER_RECURRENT,
    PL_LAYER_ATTENTION,
    PL_LAYER_OTHER,
    PL_LAYER_KINDS
} pl_profile_kind;

/* A leaf module, in forward order. */
typedef struct pl_profile_layer {
    const char *type; /* its class: "Conv2d" */
    pl_profile_kind kind;
    int64_t activations; /* elements of its output, per sample */
    int64_t parameters;
} pl_profile_layer;

typedef struct pl_profile {
    pl_job job; /* precision, optimizer, ...; batch and seq resolved, PL_UNKNOWN where there are
                   none */
    int64_t parameters, trainable;
    int64_t parameter_bytes, buffer_bytes; /* as the job trains: precision applied */
    int64_t input_elements; /* of all inputs, per sample; PL_UNKNOWN without a graph */
    const pl_profile_layer *layers;
    size_t layer_count;
} pl_profile;

/* false: out of memory. g: bound to the job's batch. */
bool pl_profile_of_graph(pl_profile *out, const pl_graph *g, const pl_job *job, int64_t batch,
                         int64_t seq, pl_arena *arena);
/* layers: type, activations and parameters given; kind is filled. Totals the caller knows
 * (parameters, trainable, bytes) are set already; those that are PL_UNKNOWN are summed up. */
void pl_profile_complete(pl_profile *profile, pl_profile_layer *layers, size_t layer_count);

pl_profile_kind pl_profile_kind_of(const char *type);
int64_t pl_profile_activations(const pl_profile *profile); /* elements per sample, all layers */
int64_t pl_profile_count(const pl_profile *profile, pl_profile_kind kind);
/* Bytes of an element of a weight, and of what is computed with (autocast's type). */
int pl_profile_weight_bytes(const pl_profile *profile);
int pl_profile_compute_bytes(const pl_profile *profile);
/* Bytes of optimizer state per trainable parameter, as PyTorch's default keeps it; 0: none. */
int pl_profile_state_bytes(const pl_profile *profile);

/* What counts alone say of a job, crudely: bytes (weights, gradients, state, activations, logits, a
 * typical context) and floating-point operations per step. Learners learn the truth's ratio to
 * it. */
double pl_profile_guess_bytes(const pl_profile *profile);
double pl_profile_guess_flops(const pl_profile *profile);

/* ---- as numbers ---- */

/* Named numbers of a profile, in a fixed order. */
typedef enum pl_view {
    PL_VIEW_FEATURES, /* all that is known of a job */
    PL_VIEW_COUNTS,   /* paper 3's section 4.3 alone, as it is and as log2 */
    PL_VIEWS
} pl_view;

enum { PL_MOST_FEATURES = 64 };

size_t pl_feature_count(pl_view view); /* at most PL_MOST_FEATURES */
const char *const *pl_feature_names(pl_view view);
void pl_features_of(const pl_profile *profile, pl_view view, float *out); /* [pl_feature_count] */

/* The sequence of layers: one step per layer, whose channels are kind, activations and parameters,
 * as they are and as log2. */
size_t pl_channel_count(void);
const char *const *pl_channel_names(void);
void pl_steps_of(const pl_profile *profile, float *out); /* [layer_count, pl_channel_count()] */

#endif
