/* onnx_model: an ONNX file's graph as it is written, without its weights.
 *
 * Fields: onnx.proto of ONNX 1.23 (IR version 13). Values are numbered; names are kept where people
 * or other parts need them. Small constants keep their numbers, as doubles: sizes are far below
 * 2^53, and the largest integers, which stand for "to the end", stay the largest.
 *
 * Left out: sequences but for what Split makes, sparse tensors, functions, training information,
 * quantisation. */
#ifndef PL_IMPORT_ONNX_MODEL_H
#define PL_IMPORT_ONNX_MODEL_H

#include "graph/graph.h"
#include "import/names.h"

/* Numbers of a tensor that are kept: enough for shapes, indices and scalars. */
enum { ONNX_MAX_NUMBERS = 1 << 16 };

typedef struct onnx_tensor {
    pl_dtype dtype;
    int dims;
    int64_t sizes[PL_MAX_DIMS];
    int64_t elements;
    const double *numbers; /* [elements], or NULL: external, too many, or not numbers */
    const uint8_t *raw;    /* the file's bytes, as long as it is read; NULL: elsewhere */
} onnx_tensor;

typedef enum onnx_attr_kind {
    ONNX_NOTHING,
    ONNX_INT,
    ONNX_FLOAT,
    ONNX_TEXT,
    ONNX_INTS,
    ONNX_FLOATS,
    ONNX_TENSOR,
    ONNX_GRAPH,
} onnx_attr_kind;

typedef struct onnx_attr {
    const char *name;
    onnx_attr_kind kind;
    uint32_t count; /* of ints, floats */
    int64_t i;
    double f;
    const char *text;
    const int64_t *ints;
    const double *floats;
    const onnx_tensor *tensor;
} onnx_attr;

typedef struct fx_call fx_call; /* onnx_fx.h */

typedef struct onnx_node {
    const char *op, *name, *domain;
    int32_t *inputs, *outputs; /* values; -1: left out */
    uint32_t input_count, output_count, attr_count;
    onnx_attr *attrs;
    int64_t position;   /* byte in the file */
    int32_t module;     /* of onnx_graph.modules, -1: not known */
    const char *source; /* "modeling_gpt2.py:682: a = q @ k", or "" */
    const fx_call *fx;  /* what PyTorch called, where the file says; else NULL */
    const char *scopes, *classes, *trace, *fx_text; /* metadata, as long as the file is read */
    size_t scopes_size, classes_size, trace_size, fx_size;
    bool folded_norm; /* a convolution that a batch norm was folded into */
} onnx_node;

/* A dimension as declared: number >= 0, or a name, or neither. */
typedef struct onnx_dim {
    int64_t number; /* -1: not known */
    int32_t param;  /* of onnx_graph.params, -1: none */
} onnx_dim;

typedef struct onnx_value {
    const char *name;
    const onnx_tensor *initializer; /* or NULL */
    int32_t producer;               /* node, -1: input, initializer or nobody */
    int32_t uses;                   /* by nodes and as output */
    char origin;                    /* as PyTorch's calls name it: 'p', 'b' or 'c'; 0: not known */
    bool turned;                    /* an initializer that is nn.Linear's weight, transposed */
    bool declared;                  /* dtype, dims and dim hold */
    pl_dtype dtype;
    int dims; /* -1: not known */
    const onnx_dim *dim;
} onnx_value;

typedef struct onnx_module {
    const char *name; /* relative to the parent: "layers.0" */
    const char *path, *type;
    int32_t parent;
    int depth;
} onnx_module;

typedef struct onnx_graph {
    const char *name; /* of the file */
    const char *producer, *producer_version;
    int64_t opset;
    onnx_node *nodes;
    onnx_value *values;
    size_t node_count, value_count;
    int32_t *inputs, *outputs, *initializers; /* values */
    size_t input_count, output_count, initializer_count;
    const char **params; /* names of open dimensions */
    size_t param_count;
    onnx_module *modules;
    size_t module_count, module_room;
    pl_arena *arena;
    pl_names names; /* spaces: see below; values' numbers in .value; as long as the file is read */
    const uint8_t *bytes;
} onnx_graph;

enum { ONNX_SPACE_VALUES, ONNX_SPACE_PARAMS, ONNX_SPACE_MODULES, ONNX_SPACE_TEXTS };

/* Reads a ModelProto into g, whose arena and name are set. */
pl_status pl_onnx_read(onnx_graph *g, pl_arena *scratch, const void *bytes, size_t size,
                       pl_error *err);
/* One text once in g's arena; NULL: out of memory. */
const char *pl_onnx_text(onnx_graph *g, const char *bytes, size_t size);
/* A value's number by name, -1: none. */
int32_t pl_onnx_value(const onnx_graph *g, const char *name, size_t length);

const onnx_attr *pl_onnx_attr(const onnx_node *n, const char *name);
/* A list of integers; NULL: none, or of another kind. */
static inline const onnx_attr *onnx_ints(const onnx_node *n, const char *name) {
    const onnx_attr *a = pl_onnx_attr(n, name);
    return a && a->kind == ONNX_INTS ? a : NULL;
}
int64_t pl_onnx_int(const onnx_node *n, const char *name, int64_t otherwise);
double pl_onnx_float(const onnx_node *n, const char *name, double otherwise);
const char *pl_onnx_string(const onnx_node *n, const char *name, const char *otherwise);

#endif
