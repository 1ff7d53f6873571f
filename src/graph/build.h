/* build: a graph in the making, for importers that know a model's layers and not its operators.
 *
 * Operators are appended in the order they run, named as PyTorch's ATen names them, with the
 * arguments' names of its schemas: what a graph exported by PyTorch holds, so that whatever reads
 * graphs need not know where one came from. Sizes are numbers: an importer builds anew for another
 * batch (graph/recipe.h).
 *
 *     pl_module_enter(b, "fc", "torch.nn.modules.linear.Linear");
 *     int32_t w = pl_build_parameter(b, "weight", PL_SIZES(10, 64));
 *     x = pl_aten_linear(b, x, w, PL_NONE);
 *     pl_module_leave(b);
 *
 * The first failure sticks (a bad size, memory gone): later calls do nothing and give PL_NONE,
 * which every function takes, and pl_builder_finish reports the failure. graph/aten.h has the
 * operators. */
#ifndef PL_GRAPH_BUILD_H
#define PL_GRAPH_BUILD_H

#include "graph/graph.h"

typedef struct pl_builder pl_builder;

enum { PL_NONE = -1 };

/* sizes: two arguments, a count and an array. */
#define PL_SIZES(...)                                                                              \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {           \
        __VA_ARGS__                                                                                \
    }

/* name: of the graph. budget: what it may take. NULL: out of memory. */
pl_builder *pl_builder_open(const char *name, pl_budget *budget);
/* The graph (to be closed with pl_graph_close), or the first failure; b is closed either way. */
pl_status pl_builder_finish(pl_builder **b, pl_graph **out, pl_error *err);
void pl_builder_close(pl_builder **b);

/* Keeps the first failure. where: a key, an operator, a file; message as printf. */
bool pl_build_no_memory(pl_builder *b); /* false: memory or the budget is out */
void pl_build_fail(pl_builder *b, pl_status code, const char *where, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool pl_build_failed(const pl_builder *b);
/* For strings that must live as long as the graph: printf into its arena. */
const char *pl_build_text(pl_builder *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For lists of tensors and sizes: lives as long as the builder. NULL: failed. */
void *pl_build_array(pl_builder *b, int64_t count, size_t size);

/* ---- modules ---- */

/* The call of a child: name is relative ("self_attn", "layers.0"), "" the model itself; type as
 * Python prints its class, "torch.nn.modules.linear.Linear". Leaf modules of PyTorch must have
 * types in torch.nn: a line of code belongs to the innermost module that is not one. Entering a
 * path again is another call of the same module. */
void pl_module_enter(pl_builder *b, const char *name, const char *type);
void pl_module_leave(pl_builder *b);
/* Children (and parameters) of the present module in the order of its __init__, split by spaces:
 * that of named_parameters, in which weights are placed. Those not named come behind, as first met.
 * "layers" stands for layers.0, layers.1, ... Parameters of a module come before its children. */
void pl_module_children(pl_builder *b, const char *names);

/* The line of Python that the operators to come stand for: "hidden_states = residual + x". What is
 * left of '=' names what the line makes, which lives until a line of the same module call assigns
 * the name again, or the call ends (tape/lifetime.c). "" : none, values die with their last use
 * (and `return ...` lines name nothing). Kept by pointer: a constant, or in the graph's arena.
 * Holds for the present module call; entering one of torch.nn starts with the caller's line, any
 * other with none; leaving returns to the caller's. */
void pl_line(pl_builder *b, const char *code);

/* Between on and off modules are there and not called: their parameters are kept, operators, values
 * and inputs are not. What was made meanwhile is nobody's argument. Not nested. */
void pl_build_uncalled(pl_builder *b, bool on);

/* ---- tensors ---- */

/* The type of parameters made from now on; float32 at first. */
void pl_build_parameter_dtype(pl_builder *b, pl_dtype dtype);

/* A parameter of the present module: the one of this name where it was made before (a second call),
 * of the same sizes. */
int32_t pl_build_parameter(pl_builder *b, const char *name, int dims, const int64_t *sizes);
/* Another name of the same parameter (tied weights). */
int32_t pl_build_tied(pl_builder *b, const char *name, int32_t other);
int32_t pl_build_buffer(pl_builder *b, const char *name, pl_dtype dtype, bool persistent, int dims,
                        const int64_t *sizes);
int32_t pl_build_input(pl_builder *b, const char *name, pl_dtype dtype, int dims,
                       const int64_t *sizes);
void pl_build_output(pl_builder *b, int32_t tensor);
void pl_build_freeze(pl_builder *b, int32_t parameter); /* requires_grad = False */

/* What is known of a tensor; of PL_NONE or after a failure: a 0-d float32. Valid until the next
 * tensor is made. */
const pl_tensor *pl_built(const pl_builder *b, int32_t tensor);
int64_t pl_built_size(const pl_builder *b, int32_t tensor,
                      int dim); /* dim from the end where negative; 1 where there is none */
int pl_built_dims(const pl_builder *b, int32_t tensor);

/* ---- operators, one by one (graph/aten.h has most ready made) ---- */

/*     pl_call(b, "aten.topk.default");
 *     pl_call_tensor(b, "self", x);
 *     pl_call_int(b, "k", 2);
 *     values = pl_call_result(b, PL_DT_F32, dims, sizes);
 *     indices = pl_call_result(b, PL_DT_I64, dims, sizes);
 * Ends with the next pl_call or any other function. Absent tensors (PL_NONE) become None. Names and
 * strings are kept by pointer. */
void pl_call(pl_builder *b, const char *target);
void pl_call_tensor(pl_builder *b, const char *name, int32_t tensor);
void pl_call_tensors(pl_builder *b, const char *name, int count, const int32_t *tensors);
void pl_call_int(pl_builder *b, const char *name, int64_t value);
void pl_call_ints(pl_builder *b, const char *name, int count, const int64_t *values);
void pl_call_float(pl_builder *b, const char *name, double value);
void pl_call_bool(pl_builder *b, const char *name, bool value);
void pl_call_dtype(pl_builder *b, const char *name, pl_dtype value);
void pl_call_string(pl_builder *b, const char *name, const char *value);
/* Each adds an output; its strides are found in the end. */
int32_t pl_call_result(pl_builder *b, pl_dtype dtype, int dims, const int64_t *sizes);
int32_t pl_call_result_like(pl_builder *b, int32_t like);
/* Outputs so far and to come are one list (split, unbind). */
void pl_call_list(pl_builder *b);

/* Nodes from now on ran under torch.no_grad; in an autocast region of the model's own. Both return
 * what held before. */
bool pl_build_no_grad(pl_builder *b, bool on);
pl_autocast pl_build_autocast(pl_builder *b, pl_autocast region);

#endif
