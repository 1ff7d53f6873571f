/* pt2_reader: what the files of the .pt2 importer share while one model is read. Private to them.
 *
 * pt2.c reads the archive, the top of the JSON and the signature, and finishes the graph;
 * pt2_graph.c reads graphs, nodes and tensors; pt2_args.c arguments and sizes; pt2_module.c module
 * stacks and stack traces. */
#ifndef PL_IMPORT_PT2_READER_H
#define PL_IMPORT_PT2_READER_H

#include "graph/expr.h"
#include "graph/graph.h"
#include "import/json.h"
#include "import/names.h"

/* Spaces of names. A scope is one graph: 0 the model's, further ones subgraphs that are inlined. */
enum {
    SPACE_STRINGS,
    SPACE_EXPRS,   /* value: index in exprs */
    SPACE_SYMBOLS, /* value: index in symbols */
    SPACE_STACKS,  /* whole nn_module_stack; value: module + 1 */
    SPACE_PATHS,   /* of parameters and buffers; value: tensor */
    SPACE_MODULES, /* one entry of a stack, below the parent in the upper half; value: module */
    SPACE_TENSORS, /* scope in the upper half; value: tensor */
    SPACE_SCALARS, /* scope in the upper half; value: index in scalars */
};
static inline uint64_t space_of(int kind, int32_t of) {
    return (uint64_t)kind | (uint64_t)(uint32_t)of << 32;
}

/* A symbolic integer, float or boolean by name. */
typedef struct scalar {
    const pl_expr *expr; /* integers only; NULL: i holds */
    int64_t i;
    double f;
} scalar;

/* A number in a node that stands for a named scalar, filled in when its graph is read to the end.
 */
typedef struct pending {
    int64_t *i;
    double *f; /* one of the two is NULL */
    const pl_expr **expr;
    int32_t node; /* whose result it is, + 1; 0: a number in a node */
    bool truth;   /* 0 or 1 is wanted */
    int32_t name; /* entry of names */
    const char *at;
} pending;

/* What is known of a tensor beside what the graph keeps. */
typedef struct tensor_note {
    const char *mention; /* where its name was first met */
    bool described;      /* stands in tensor_values */
    bool used;           /* some node or output takes it */
} tensor_note;

typedef struct expr_note {
    const pl_expr *expr;
    int64_t hint; /* PL_UNKNOWN: none */
} expr_note;

/* Arrays that grow in the scratch arena. */
typedef struct reader {
    pl_json json;
    pl_arena *arena;   /* the graph's */
    pl_arena *scratch; /* gone when the model is read */
    pl_names names;
    char message[256]; /* where a failure needs a name in it */
    bool no_memory;

    pl_tensor *tensors;
    tensor_note *notes;
    size_t tensor_count, tensor_room, note_room;
    pl_node *nodes;
    const char **node_at;
    size_t node_count, node_room, node_at_room;
    pl_module *modules;
    size_t module_count, module_room;
    pl_symbol *symbols;
    size_t symbol_count, symbol_room;
    expr_note *exprs;
    size_t expr_count, expr_room;
    scalar *scalars;
    size_t scalar_count, scalar_room;
    pending *pendings;
    size_t pending_count, pending_room;

    /* of the node or list being read */
    pl_arg *args;
    size_t arg_count, arg_room;
    int64_t *ints;
    int32_t *int_names; /* entry of a named scalar, or -1; beside ints */
    size_t int_count, int_room, int_name_room;
    double *floats;
    size_t float_count, float_room;
    int32_t *ids;
    size_t id_count, id_room;
    int32_t *outs; /* entries of names, -1: no tensor */
    size_t out_count, out_room;
    int32_t out_number; /* entry of the named scalar that comes out, or -1 */

    /* of the graph being read */
    int32_t scope;
    int32_t *scope_parents; /* the scope around each; that of 0 is not used */
    size_t scope_count, scope_room;
    int subgraph_depth;
    bool no_grad;
    pl_autocast autocast;
    pl_json_text last_stack, last_trace; /* and what was made of them: neighbours often share one */
    pl_json_text last_device;            /* passed over in the tensor before */
    int32_t last_module;
    const char *last_source;

    /* of the signature */
    int32_t *inputs, *outputs;
    size_t input_count, input_room, output_count, output_room;
    int32_t (*mutations)[2];
    size_t mutation_count, mutation_room;
    const char *torch_version;
    int64_t schema_major, schema_minor; /* -1: not met */
} reader;

/* Both return false, and keep the first failure only. */
bool pl_pt2_fail(reader *r, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool pl_pt2_no_memory(reader *r);

/* Room for one more element of array; false and failure when memory is out. */
#define GROW(r, array, count, room)                                                                \
    ((count) < (room) ||                                                                           \
     (pl_pt2_grow((r), (void *)&(array), &(room), (count) + 1, sizeof *(array)) ||                 \
      pl_pt2_no_memory(r)))
bool pl_pt2_grow(reader *r, void *array, size_t *room, size_t need, size_t size);

/* pt2.c: a string's entry in a space, -1 and failure when memory is out; and one copy of it for the
 * graph. */
int32_t pl_pt2_name(reader *r, const pl_json_text *text, uint64_t space);
const char *pl_pt2_intern(reader *r, const pl_json_text *text);
/* The tensor behind an entry of SPACE_TENSORS, made when new; -1 and failure when memory is out. */
int32_t pl_pt2_tensor(reader *r, int32_t name, const char *at);

/* pt2_graph.c. The model's own graph: scope 0. */
bool pl_pt2_read_model_graph(reader *r);
/* {"name": "x"}: entry in the present scope's tensors. */
bool pl_pt2_tensor_name(reader *r, int32_t *name);

/* pt2_args.c. {"as_int": 4} into one argument; *graph_at: where the graph of an as_graph starts,
 * else NULL. */
bool pl_pt2_read_arg(reader *r, pl_arg *arg, const char **graph_at);
/* A dimension: number, or expression with the number it had at export (PL_UNKNOWN: none). */
bool pl_pt2_read_size(reader *r, int64_t *value, const pl_expr **expr);
/* sym_int_values; with integers false sym_float_values and sym_bool_values, of which only the value
 * at export is kept. */
bool pl_pt2_read_scalars(reader *r, bool integers);
/* The numbers that stood for named scalars, from pendings[from] on. */
bool pl_pt2_resolve(reader *r, size_t from);
/* Called when args have come to their final place: numbers among them that stand for a name. */
bool pl_pt2_args_placed(reader *r, pl_arg *args, size_t count, const char *at);
/* The named scalar (an entry of names) that node, the last so far, gives. */
bool pl_pt2_number_placed(reader *r, int32_t name, int32_t node, const char *at);
/* {"as_name": "item"}: its entry, -1: none, or failure. */
int32_t pl_pt2_scalar_name(reader *r);

/* pt2_module.c */
bool pl_pt2_module(reader *r, const pl_json_text *stack, int32_t *module);
/* Fills pl_tensor.tied. */
void pl_pt2_find_ties(reader *r);
bool pl_pt2_source(reader *r, const pl_json_text *trace, const char **source);
/* Fills pl_module.line of a module and of those around it, where they have none. */
bool pl_pt2_callers(reader *r, const pl_json_text *trace, int32_t module);

#endif
