/* graph: a model's forward pass as a list of operators on tensors, in the order they run.
 *
 * An importer fills it once; tape and features read it. Sizes may be symbolic (exported with a
 * dynamic batch): pl_graph_bind makes a copy with every size a number. Everything lives in the
 * graph's arena.
 *
 * Left out: data-dependent control flow. Subgraphs that only wrap (wrap_with_set_grad_enabled,
 * wrap_with_autocast) are inlined by the importer; others stay one unknown node. */
#ifndef PL_GRAPH_GRAPH_H
#define PL_GRAPH_GRAPH_H

#include <string.h>

#include "core/arena.h"
#include "core/error.h"

/* As torch/_export/serde/schema.py numbers them (schema 8). */
typedef enum pl_dtype {
    PL_DT_UNKNOWN = 0,
    PL_DT_U8 = 1,
    PL_DT_I8 = 2,
    PL_DT_I16 = 3,
    PL_DT_I32 = 4,
    PL_DT_I64 = 5,
    PL_DT_F16 = 6,
    PL_DT_F32 = 7,
    PL_DT_F64 = 8,
    PL_DT_C32 = 9,
    PL_DT_C64 = 10,
    PL_DT_C128 = 11,
    PL_DT_BOOL = 12,
    PL_DT_BF16 = 13,
    PL_DT_U16 = 28,
    PL_DT_F8E4M3FN = 29,
    PL_DT_F8E5M2 = 30,
    PL_DT_F8E4M3FNUZ = 31,
    PL_DT_F8E5M2FNUZ = 32,
    PL_DT_COUNT = 64
} pl_dtype;

int pl_dtype_size(pl_dtype dtype);      /* bytes per element; 0: unknown */
bool pl_dtype_is_float(pl_dtype dtype); /* floating point or complex: can need a gradient */
bool pl_dtype_is_half(pl_dtype dtype);  /* float16 or bfloat16 */

enum { PL_MAX_DIMS = 16 };

/* What a tensor is to the model. */
typedef enum pl_role {
    PL_ROLE_VALUE, /* made by a node */
    PL_ROLE_PARAMETER,
    PL_ROLE_BUFFER,
    PL_ROLE_CONSTANT, /* a tensor lifted from the code */
    PL_ROLE_INPUT,
} pl_role;

typedef struct pl_expr
    pl_expr; /* graph/expr.h; NULL in *_expr arrays: the number beside it holds */

typedef struct pl_tensor {
    const char *name; /* as in the file: "p_fc_weight", "linear_3" */
    const char *path; /* parameters and buffers: "layers.0.fc.weight"; else NULL */
    pl_dtype dtype;
    pl_role role;
    bool requires_grad;       /* as the file says; true of parameters only, in practice */
    bool persistent;          /* buffers: in the state dict */
    bool keeps_type;          /* parameters: of this type whatever the job's precision */
    uint8_t dims;             /* 0 to PL_MAX_DIMS */
    int64_t *sizes, *strides; /* [dims]; strides in elements */
    int64_t offset;           /* in its storage, elements; files of PyTorch 2.6 always say 0 */
    const pl_expr *const *size_expr, *const *stride_expr; /* [dims] or NULL: no symbol in them */
    const pl_expr *offset_expr;                           /* NULL: offset holds */
    int32_t producer;                                     /* node, or -1 */
    int32_t tied; /* parameters: the one that it is another name of (tied weights), or -1 */
} pl_tensor;

typedef enum pl_arg_kind {
    PL_ARG_NONE,
    PL_ARG_TENSOR,  /* .tensor */
    PL_ARG_TENSORS, /* .list of tensor ids, -1: None */
    PL_ARG_INT,     /* .i; .expr where symbolic */
    PL_ARG_INTS,    /* .ints; a symbolic element has its value at export, or after bind its value */
    PL_ARG_FLOAT,   /* .f */
    PL_ARG_FLOATS,  /* .floats */
    PL_ARG_BOOL,    /* .i, 0 or 1 */
    PL_ARG_BOOLS,   /* .ints, 0 or 1 */
    PL_ARG_DTYPE,   /* .i, a pl_dtype */
    PL_ARG_STRING,  /* .s */
    PL_ARG_OTHER,   /* device, layout, memory format (.i holds the enum where there is one), graphs,
                       objects */
} pl_arg_kind;

typedef struct pl_arg {
    const char *name; /* "self", "weight"; "" where the file has none */
    pl_arg_kind kind;
    uint32_t count; /* of list, ints, floats */
    union {
        int32_t tensor;
        int32_t *list;
        int64_t i;
        int64_t *ints;
        double f;
        double *floats;
        const char *s;
    };
    const pl_expr *expr;             /* PL_ARG_INT */
    const pl_expr *const *list_expr; /* PL_ARG_INTS: [count] or NULL */
} pl_arg;

/* A module of the model as one call of it: nodes refer to the innermost one they ran in. */
typedef struct pl_module {
    const char *path; /* "layers.0.attn"; "" for the model itself */
    const char *type; /* "torch.nn.modules.linear.Linear" */
    int32_t parent;   /* index, or -1 */
    int32_t call;     /* 0 for the first call of this path, 1 for the second (path@1), ... */
    const char *line; /* of code that called it, as a node's source; NULL or "": not known */
} pl_module;

/* One of PyTorch's own layers and containers. */
static inline bool pl_module_is_torch(const pl_module *module) {
    return strncmp(module->type, "torch.nn.", 9) == 0;
}

/* Modules around a module, itself included, are walked up for every operator: more than Python's own
 * stack would take are none. */
enum { PL_MOST_MODULE_DEPTH = 256 };

/* A module below `parent` would be deeper than that. */
static inline bool pl_module_too_deep(const pl_module *modules, int32_t parent) {
    int depth = 1;
    while (parent >= 0 && depth <= PL_MOST_MODULE_DEPTH) {
        parent = modules[parent].parent;
        depth++;
    }
    return depth > PL_MOST_MODULE_DEPTH;
}

/* An autocast region of the model's own code; the job's precision says nothing inside one. */
typedef enum pl_autocast {
    PL_AUTOCAST_JOB,
    PL_AUTOCAST_OFF,
    PL_AUTOCAST_BF16,
    PL_AUTOCAST_F16
} pl_autocast;

typedef struct pl_node {
    const char *target; /* without "torch.ops.": "aten.add.Tensor" */
    pl_arg *args;
    int32_t *outputs; /* tensors; -1: an output that is no tensor, or not used */
    uint32_t arg_count, output_count;
    int32_t module; /* index, or -1 */
    bool no_grad;   /* ran under torch.no_grad */
    bool output_is_list;
    uint8_t autocast;      /* a pl_autocast */
    const char *source;    /* innermost line of the stack trace, or "": for people */
    const pl_expr *number; /* what comes out is a whole number (aten.item): that; else NULL */
} pl_node;

typedef struct pl_graph {
    pl_arena *arena;
    const char *name;
    const char *torch_version; /* "2.11.0+cu130"; "" unknown */
    pl_tensor *tensors;
    pl_node *nodes;
    pl_module *modules;
    int32_t tensor_count, node_count, module_count;
    int32_t *inputs;  /* user inputs, tensor ids */
    int32_t *outputs; /* user outputs, tensor ids; -1: not a tensor */
    int32_t input_count, output_count;
    /* Buffers that the model changes: pairs (buffer, value copied into it at the end). Graphs
     * exported for training instead hold copy_ / in-place nodes. */
    int32_t (*mutations)[2];
    int32_t mutation_count;
    pl_symbol *symbols;
    int32_t symbol_count;
    /* Each expression once: pl_expr_index is the place in it. */
    const pl_expr **exprs;
    int32_t expr_count;
    /* Of a converted description: what was assumed when it was read, for people; and whether a
     * family or a shape was guessed, as recipe.h has them. */
    const char **notes;
    int32_t note_count;
    bool guessed, resembles;
    int64_t unseen;
    uint8_t data; /* bound: pl_data_kinds of the sizes that were assumed, a bit each */
} pl_graph;

/* The argument called name, or NULL. An argument the file left out (a default) is NULL too. */
const pl_arg *pl_node_arg(const pl_node *node, const char *name);
/* The tensors of an argument, one or a list: [*count]; -1 among them: none. Not NULL. */
const int32_t *pl_arg_tensors(const pl_arg *arg, uint32_t *count);
/* Its tensor id, -1 where there is none. */
int32_t pl_node_tensor(const pl_node *node, const char *name);
int64_t pl_node_int(const pl_node *node, const char *name,
                    int64_t otherwise); /* int, bool or dtype */
double pl_node_float(const pl_node *node, const char *name, double otherwise); /* float or int */

/* Path of the module that a node ran in; "" for the model itself and for node -1. */
const char *pl_node_module(const pl_graph *graph, int32_t node);

/* Elements of a tensor; INT64_MAX when the product does not fit. */
int64_t pl_tensor_elements(const pl_tensor *tensor);

/* Whether sizes and strides are not negative and the storage up to the last element has at most
 * PL_MAX_BYTES bytes, so that sums of a few such sizes cannot overflow. */
#define PL_MAX_BYTES (INT64_C(1) << 56)
bool pl_tensor_fits(const pl_tensor *tensor);

/* A copy of graph with each symbol given a value: values[i] for symbols[i]. The copy shares names
 * and nodes with the original, which must outlive it, and has its own arena; close with
 * pl_graph_close. Fails with PL_USAGE where a value is out of range or an expression cannot be
 * evaluated. */
pl_status pl_graph_bind(pl_graph **out, const pl_graph *graph, const int64_t *values,
                        pl_budget *budget, pl_error *err);
void pl_graph_close(pl_graph **graph);

#endif
