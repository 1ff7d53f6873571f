/* layer: one step of a network, a row of pl_layer_kinds. Forward and backward over rows of numbers.
 *
 * A batch's sequences lie one behind the other, without padding: data of a sequence is [rows,
 * width], where sample i's steps are the rows begin[i] to begin[i + 1]; data of a vector is [count,
 * width]. The samples of a batch are sorted by length, the longest first, so that a recurrent
 * layer's samples that still run are the first ones.
 *
 * In a network's text a layer is its name and its arguments, "encoder:8:2048:0.1:gelu": numbers in
 * the order of its row's table, then words. A new kind is a row in layer_kinds.c, its functions,
 * and a line in tests/layers.c. */
#ifndef PL_LAB_LAYER_H
#define PL_LAB_LAYER_H

#include "lab/learn/matrix.h"
#include "lab/learn/random.h"
#include "lend.h"

enum {
    PL_LAYER_ARGS = 4,
    PL_LAYER_TENSORS = 12,
    PL_WIDTH_MOST = 8192,
    PL_STEPS_MOST = 65536, /* of a sample's sequence */
};

/* What flows between two layers. */
typedef struct pl_shape {
    size_t width;
    bool sequence;
    size_t steps; /* of every sample's sequence; 0: they differ */
} pl_shape;

/* How large a batch is. */
typedef struct pl_extent {
    size_t count;   /* samples */
    size_t rows;    /* steps of all samples */
    size_t squares; /* sum of the samples' steps squared */
    size_t longest; /* most steps of a sample */
} pl_extent;

typedef struct pl_batch {
    pl_extent extent;
    const size_t *begin;  /* [count + 1] */
    const float *columns; /* [count, column_count] */
    size_t column_count;
} pl_batch;

static inline size_t pl_rows(pl_shape shape, const pl_extent *extent) {
    return shape.sequence ? extent->rows : extent->count;
}

typedef enum pl_tensor_use {
    PL_VECTOR, /* gains, shifts */
    PL_TABLE,  /* rows looked up */
    PL_MATRIX, /* multiplied with from the right: in panels when predicting */
} pl_tensor_use;

/* Where weights start from. */
typedef enum pl_tensor_start { PL_ZERO, PL_ONE, PL_UNIFORM, PL_NORMAL } pl_tensor_start;

/* Weights, [rows, columns]: a matrix takes `rows` numbers in and gives `columns`. */
typedef struct pl_net_tensor {
    size_t rows, columns;
    pl_tensor_use use;
    pl_tensor_start start;
    float bound;   /* of the uniform start (plus and minus), deviation of the normal one */
    size_t plain;  /* offset among a network's weights as they are trained */
    size_t packed; /* among its weights when predicting */
} pl_net_tensor;

typedef struct pl_layer {
    const struct pl_layer_kind *kind;
    double args[PL_LAYER_ARGS];
    uint32_t words; /* bit i: the kind's word i was given */
    pl_shape in, out;
    pl_net_tensor tensors[PL_LAYER_TENSORS];
    size_t tensor_count;
    size_t state_count; /* numbers that are kept, but not by gradient: moving means */
    size_t states;      /* offset of these among the network's */
} pl_layer;

/* What a layer works with, beside its data. */
typedef struct pl_net_pass {
    pl_products products;
    const pl_batch *batch;
    const float *weights;
    bool packed; /* weights lie as predicting wants them */
    const float *states;
    float *new_states; /* training: updated; else NULL */
    float *gradients;  /* as the plain weights; added to */
    bool training;
    pl_random random; /* for dropout */
    float *scratch;   /* as many floats as the kind's `scratch` says */
} pl_net_pass;

/* A number that a layer takes. standard NAN: it must be given; PL_OUTPUTS: where it is not given,
 * the numbers that the network gives out. */
#define PL_OUTPUTS (-1.0)
typedef struct pl_layer_arg {
    const char *name;
    double least, most, standard;
    bool whole;
} pl_layer_arg;

typedef enum pl_layer_wants { PL_ANYTHING, PL_SEQUENCE, PL_COLUMNS, PL_STEPS } pl_layer_wants;

typedef struct pl_layer_kind {
    const char *name;
    pl_layer_wants wants; /* PL_COLUMNS, PL_STEPS: stands first, and takes the samples' own */
    int variant;          /* for kinds that share functions */
    pl_layer_arg args[PL_LAYER_ARGS];
    const char *words[4];
    /* Sets out, tensors and state_count from in and args; columns: the samples'. NULL: done, or
     * what is wrong. */
    const char *(*shape)(pl_layer *layer, size_t columns);
    /* Floats that forward keeps for backward (and, when not training, works in). NULL: none. */
    size_t (*kept)(const pl_layer *layer, const pl_extent *extent, bool training);
    /* Floats that forward, or backward where training, works in. NULL: none. */
    size_t (*scratch)(const pl_layer *layer, const pl_extent *extent, bool training);
    /* x: [rows, in.width]; y: [rows, out.width], not x. */
    void (*forward)(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,
                    float *kept);
    /* dx (NULL: not wanted) is written, gradients are added to. */
    void (*backward)(const pl_layer *layer, pl_net_pass *pass, const float *x, const float *y,
                     const float *dy, float *dx, float *kept);
    bool only_training;  /* forward does nothing when predicting: dropout */
    bool across_samples; /* a sample's result depends on its batch when training: batch norm */
} pl_layer_kind;

const pl_layer_kind *pl_layer_kind_at(size_t index); /* NULL past the end */

/* Adds a tensor to a layer that is being shaped. */
void pl_layer_tensor(pl_layer *layer, size_t rows, size_t columns, pl_tensor_use use,
                     pl_tensor_start start, double bound);

static inline const float *pl_weights_of(const pl_layer *layer, const pl_net_pass *pass,
                                         size_t tensor) {
    const pl_net_tensor *t = &layer->tensors[tensor];
    return pass->weights + (pass->packed ? t->packed : t->plain);
}
static inline float *pl_gradients_of(const pl_layer *layer, const pl_net_pass *pass,
                                     size_t tensor) {
    return pass->gradients + layer->tensors[tensor].plain;
}

/* ---- parts that layers are made of ---- */

/* y [rows, columns of the matrix] = x times the matrix plus the vector behind it. */
void pl_linear_forward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                       const float *x, float *y);
/* add: dx is added to; dx NULL: not wanted. */
void pl_linear_backward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                        const float *x, const float *dy, float *dx, bool add);
/* tensor: the gain; the shift is behind it. stats: [rows, 2]. */
void pl_norm_forward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                     const float *x, float *y, float *stats);
void pl_norm_backward(const pl_layer *layer, const pl_net_pass *pass, size_t tensor, size_t rows,
                      const float *x, const float *stats, const float *dy, float *dx);

/* Self-attention of `heads` heads, each `key` wide, between two linear layers: tensors `first` (to
 * [3, heads, key]: queries, keys, values), its shift, `first + 2` (back to the width), its shift.
 */
typedef struct pl_net_attention {
    size_t heads, key, first;
    float dropout; /* of the attention's shares */
    bool causal;   /* a step sees itself and those before it */
} pl_net_attention;

void pl_attention_tensors(pl_layer *layer, size_t width, size_t heads, size_t key);
size_t pl_attention_kept(const pl_net_attention *a, const pl_extent *extent, bool training);
size_t pl_attention_scratch(const pl_net_attention *a, const pl_extent *extent, bool training);
void pl_attention_forward(const pl_layer *layer, const pl_net_attention *a, pl_net_pass *pass,
                          const float *x, float *y, float *kept);
/* Scratch from `scratch`, pl_attention_scratch floats. dx is written. */
void pl_attention_backward(const pl_layer *layer, const pl_net_attention *a, pl_net_pass *pass,
                           const float *x, const float *dy, float *dx, float *kept, float *scratch);

/* ---- the kinds' functions, one block per file ---- */

#define PL_LAYER_FUNCTIONS(name)                                                                   \
    const char *pl_##name##_shape(pl_layer *layer, size_t columns);                                \
    void pl_##name##_forward(const pl_layer *layer, pl_net_pass *pass, const float *x, float *y,   \
                             float *kept);                                                         \
    void pl_##name##_backward(const pl_layer *layer, pl_net_pass *pass, const float *x,            \
                              const float *y, const float *dy, float *dx, float *kept)
#define PL_LAYER_SIZE(name, what)                                                                  \
    size_t pl_##name##_##what(const pl_layer *layer, const pl_extent *extent, bool training)

PL_LAYER_FUNCTIONS(layer_steps); /* layer_input.c */
PL_LAYER_FUNCTIONS(layer_tokens);
PL_LAYER_FUNCTIONS(layer_embedding);
PL_LAYER_FUNCTIONS(layer_append);
PL_LAYER_FUNCTIONS(layer_linear); /* layer_linear.c */
PL_LAYER_FUNCTIONS(layer_activation);
PL_LAYER_FUNCTIONS(layer_dropout);
PL_LAYER_SIZE(layer_dropout, kept);
PL_LAYER_FUNCTIONS(layer_layernorm); /* layer_norm.c */
PL_LAYER_SIZE(layer_layernorm, kept);
PL_LAYER_FUNCTIONS(layer_batchnorm);
PL_LAYER_SIZE(layer_batchnorm, kept);
PL_LAYER_FUNCTIONS(layer_positions); /* layer_positions.c */
PL_LAYER_FUNCTIONS(layer_sinusoid);
PL_LAYER_FUNCTIONS(layer_attention); /* layer_attention.c */
PL_LAYER_SIZE(layer_attention, kept);
PL_LAYER_SIZE(layer_attention, scratch);
PL_LAYER_FUNCTIONS(layer_encoder); /* layer_encoder.c */
PL_LAYER_SIZE(layer_encoder, kept);
PL_LAYER_SIZE(layer_encoder, scratch);
PL_LAYER_FUNCTIONS(layer_gru); /* layer_gru.c */
PL_LAYER_SIZE(layer_gru, kept);
PL_LAYER_SIZE(layer_gru, scratch);
PL_LAYER_FUNCTIONS(layer_pool); /* layer_pool.c */
PL_LAYER_FUNCTIONS(layer_flatten);

#endif
