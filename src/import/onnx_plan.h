/* onnx_plan: what is known of an ONNX file before a batch is: which initializers are parameters,
 * which nodes belong together, which open dimension is the batch. */
#ifndef PL_IMPORT_ONNX_PLAN_H
#define PL_IMPORT_ONNX_PLAN_H

#include "import/onnx_build.h"

/* An initializer that becomes a tensor of the model. */
typedef struct onnx_weight {
    int32_t value;    /* -1: the file has none like it, node and sizes hold */
    const char *path; /* "layer1.0.conv1.weight" */
    const char *tied; /* the embedding that it is another name of, NULL: none */
    pl_role role;     /* parameter, buffer or constant */
    bool turned;      /* stored as [in, out]: the exporter transposed nn.Linear's */
    int32_t node;     /* that takes it */
    pl_dtype dtype;
    int dims;
    int64_t sizes[2];
} onnx_weight;

/* What a node is made into, where that is more than its own operator. */
typedef enum onnx_shape_of {
    ONNX_ALONE,  /* its own operator */
    ONNX_INSIDE, /* part of another node's operator: nothing of its own */
    ONNX_SAME,   /* its first input under another name */
    ONNX_LINEAR, /* a: input, b: weight, c: bias */
    ONNX_GELU,   /* a: input */
    ONNX_GELU_TANH,
    ONNX_SILU,
    ONNX_RSQRT,
    ONNX_BERNOULLI,  /* a: what has its sizes and type; number: p */
    ONNX_LAYER_NORM, /* a: input, b: weight, c: bias */
    ONNX_GROUP_NORM, /* a: input, b: weight, c: bias; number: groups */
    ONNX_ATTENTION,  /* a, b, c: query, key, value; d: mask; number: scale, 0: as usual */
} onnx_shape_of;

typedef struct onnx_step {
    uint8_t kind;       /* onnx_shape_of */
    int32_t a, b, c, d; /* values, -1: none */
    int32_t turn; /* ONNX_ATTENTION: the Transpose of the keys, which turned the last two more */
    const int32_t *list; /* LSTM and its like: nn.LSTM's weights in its order, or NULL */
    int list_count;
    double number, second; /* second: dropout of attention, epsilon of norms */
} onnx_step;

typedef struct onnx_plan {
    onnx_graph graph;
    onnx_weight *weights;
    size_t weight_count;
    onnx_step *steps;   /* [node_count] */
    uint8_t *roles;     /* [param_count] 'b' batch, 's' sequence, 0 not known */
    int64_t batch, seq; /* as the file fixes them, -1: open or none */
    size_t folded;      /* batch norms put back */
} onnx_plan;

/* Paths of modules from the nodes' names, "/layer1/layer1.0/conv1/Conv". False: out of memory. */
bool pl_onnx_scopes(onnx_graph *g, pl_arena *scratch);
/* Gives each layer its own of vectors that the file has once. False: out of memory. */
bool pl_onnx_unshare(onnx_graph *g, pl_arena *scratch);
/* Fills weights. False: out of memory. */
bool pl_onnx_weights(onnx_plan *plan, pl_arena *scratch);
/* Fills steps. False: out of memory. */
bool pl_onnx_patterns(onnx_plan *plan, pl_arena *scratch);

/* Appends a node's operator; a failure is left with the builder. */
void pl_onnx_emit(onnx_build *c, const onnx_plan *plan, int32_t node);
/* "aten.relu_.default" where node `at` runs in place of its input, else NULL. */
const char *pl_onnx_in_place(const onnx_graph *g, int32_t at, const char *target);
/* A batch norm in training counts its batches first. */
void pl_onnx_count_batch(onnx_build *c, int32_t at);
/* Enters the module of a node and takes its line. */
void pl_onnx_enter(onnx_build *c, const onnx_node *n);

#endif
