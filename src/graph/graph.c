/* graph: see graph.h. The types and their sizes, arguments by name, and binding.
 *
 * Types as c10/core/ScalarType.h sizes them (PyTorch 2.11). Binding copies what has symbols in it
 * and shares the rest. Left out: types of less than a byte and quantized ones. */
#include "graph/graph.h"

#include <string.h>

#include "core/checked.h"
#include "graph/expr.h"

static const struct dtype {
    uint8_t size; /* bytes per element; 0: no such type */
    bool is_float;
} dtypes[PL_DT_COUNT] = {
    [PL_DT_UNKNOWN] = {0, false},   [PL_DT_U8] = {1, false},    [PL_DT_I8] = {1, false},
    [PL_DT_I16] = {2, false},       [PL_DT_I32] = {4, false},   [PL_DT_I64] = {8, false},
    [PL_DT_F16] = {2, true},        [PL_DT_F32] = {4, true},    [PL_DT_F64] = {8, true},
    [PL_DT_C32] = {4, true},        [PL_DT_C64] = {8, true},    [PL_DT_C128] = {16, true},
    [PL_DT_BOOL] = {1, false},      [PL_DT_BF16] = {2, true},   [PL_DT_U16] = {2, false},
    [PL_DT_F8E4M3FN] = {1, true},   [PL_DT_F8E5M2] = {1, true}, [PL_DT_F8E4M3FNUZ] = {1, true},
    [PL_DT_F8E5M2FNUZ] = {1, true},
};

static const struct dtype *dtype_row(pl_dtype dtype) {
    size_t i = (size_t)dtype;
    return &dtypes[i < PL_DT_COUNT && dtypes[i].size ? i : PL_DT_UNKNOWN];
}

int pl_dtype_size(pl_dtype dtype) {
    return dtype_row(dtype)->size;
}

bool pl_dtype_is_float(pl_dtype dtype) {
    return dtype_row(dtype)->is_float;
}

bool pl_dtype_is_half(pl_dtype dtype) {
    return dtype == PL_DT_F16 || dtype == PL_DT_BF16;
}

const int32_t *pl_arg_tensors(const pl_arg *arg, uint32_t *count) {
    *count = arg->kind == PL_ARG_TENSOR ? 1 : arg->kind == PL_ARG_TENSORS ? arg->count : 0;
    return arg->kind == PL_ARG_TENSORS ? arg->list : &arg->tensor;
}

const pl_arg *pl_node_arg(const pl_node *node, const char *name) {
    for (uint32_t i = 0; i < node->arg_count; i++) {
        if (!strcmp(node->args[i].name, name)) return &node->args[i];
    }
    return NULL;
}

int32_t pl_node_tensor(const pl_node *node, const char *name) {
    const pl_arg *arg = pl_node_arg(node, name);
    return arg && arg->kind == PL_ARG_TENSOR ? arg->tensor : -1;
}

int64_t pl_node_int(const pl_node *node, const char *name, int64_t otherwise) {
    const pl_arg *arg = pl_node_arg(node, name);
    if (!arg) return otherwise;
    return arg->kind == PL_ARG_INT || arg->kind == PL_ARG_BOOL || arg->kind == PL_ARG_DTYPE
               ? arg->i
               : otherwise;
}

double pl_node_float(const pl_node *node, const char *name, double otherwise) {
    const pl_arg *arg = pl_node_arg(node, name);
    if (!arg) return otherwise;
    if (arg->kind == PL_ARG_FLOAT) return arg->f;
    return arg->kind == PL_ARG_INT ? (double)arg->i : otherwise;
}

const char *pl_node_module(const pl_graph *graph, int32_t node) {
    int32_t m = node >= 0 ? graph->nodes[node].module : -1;
    return m >= 0 ? graph->modules[m].path : "";
}

int64_t pl_tensor_elements(const pl_tensor *tensor) {
    int64_t count = 1;
    bool fits = true;
    for (int i = 0; i < tensor->dims; i++) {
        if (tensor->sizes[i] == 0) return 0;
        fits = fits && pl_mul_i64(count, tensor->sizes[i], &count);
    }
    return fits ? count : INT64_MAX;
}

bool pl_tensor_fits(const pl_tensor *tensor) {
    int64_t last = tensor->offset, bytes = pl_dtype_size(tensor->dtype);
    if (bytes == 0) bytes = 16;
    for (int i = 0; i < tensor->dims; i++) {
        int64_t size = tensor->sizes[i], step;
        if (size < 0 || tensor->strides[i] < 0) return false;
        if (size > 1 &&
            (!pl_mul_i64(size - 1, tensor->strides[i], &step) || !pl_add_i64(last, step, &last)))
            return false;
    }
    int64_t elements = 1; /* a dimension of 0 does not excuse the others */
    for (int i = 0; i < tensor->dims; i++)
        elements = pl_times(elements, tensor->sizes[i] ? tensor->sizes[i] : 1);
    return last >= 0 && last < PL_MAX_BYTES / bytes && elements <= PL_MAX_BYTES / bytes;
}

/* ---- binding ---- */

/* What an expression comes to that has no value. No size is that. */
#define NO_VALUE INT64_MIN

typedef struct binder {
    const pl_graph *from;
    pl_graph *to;
    const int64_t *value; /* [expr_count] */
} binder;

static int64_t bound(const binder *b, const pl_expr *expr, int64_t otherwise) {
    return expr ? b->value[pl_expr_index(expr)] : otherwise;
}

/* An argument whose expression has no value keeps the one it had at export: no memory hangs on it,
 * or a tensor's size would be without value too. */
static int64_t bound_arg(const binder *b, const pl_expr *expr, int64_t otherwise) {
    int64_t value = bound(b, expr, otherwise);
    return value == NO_VALUE ? otherwise : value;
}

static bool bind_tensor(const binder *b, pl_tensor *t) {
    if (t->offset_expr) t->offset = bound(b, t->offset_expr, t->offset);
    if (t->size_expr || t->stride_expr) {
        int64_t *room = pl_arena_array(b->to->arena, (size_t)t->dims * 2, sizeof *room);
        if (!room) return false;
        for (int i = 0; i < t->dims; i++) {
            room[i] = t->size_expr ? bound(b, t->size_expr[i], t->sizes[i]) : t->sizes[i];
            room[t->dims + i] =
                t->stride_expr ? bound(b, t->stride_expr[i], t->strides[i]) : t->strides[i];
        }
        t->sizes = room;
        t->strides = room + t->dims;
    }
    t->size_expr = NULL;
    t->stride_expr = NULL;
    t->offset_expr = NULL;
    return true;
}

static bool is_symbolic(const pl_node *node) {
    for (uint32_t i = 0; i < node->arg_count; i++) {
        if (node->args[i].expr || node->args[i].list_expr) return true;
    }
    return false;
}

static bool bind_node(const binder *b, pl_node *node) {
    pl_arg *args = pl_arena_array(b->to->arena, node->arg_count, sizeof *args);
    if (!args) return false;
    memcpy(args, node->args, node->arg_count * sizeof *args);
    for (uint32_t i = 0; i < node->arg_count; i++) {
        pl_arg *arg = &args[i];
        if (arg->expr) arg->i = bound_arg(b, arg->expr, arg->i);
        arg->expr = NULL;
        if (!arg->list_expr) continue;
        int64_t *ints = pl_arena_array(b->to->arena, arg->count, sizeof *ints);
        if (!ints) return false;
        for (uint32_t k = 0; k < arg->count; k++)
            ints[k] = bound_arg(b, arg->list_expr[k], arg->ints[k]);
        arg->ints = ints;
        arg->list_expr = NULL;
    }
    node->args = args;
    return true;
}

/* Says which expression of a tensor without a proper size is to blame, and why. */
static pl_status blame(const binder *b, const pl_tensor *t, const int64_t *symbols, pl_error *err) {
    for (int i = 0; i < 2 * t->dims + 1; i++) {
        const pl_expr *const *list = i < t->dims ? t->size_expr : t->stride_expr;
        const pl_expr *expr = i == 2 * t->dims ? t->offset_expr : list ? list[i % t->dims] : NULL;
        const char *failure;
        int64_t value;
        if (expr && !pl_expr_value(expr, symbols, &value, &failure))
            return pl_fail(err, PL_USAGE, b->from->name, -1, "tensor %.100s: %.200s comes to %s",
                           t->name, pl_expr_text(expr), failure);
    }
    return pl_fail(err, PL_USAGE, b->from->name, -1,
                   "with these sizes tensor %.100s would be too large or negative", t->name);
}

static pl_status bind_sizes(binder *b, const int64_t *symbols, pl_error *err) {
    const pl_graph *from = b->from;
    pl_graph *to = b->to;
    to->tensors = pl_arena_array(to->arena, (size_t)from->tensor_count, sizeof *to->tensors);
    if (!to->tensors) return pl_budget_fail(err, pl_arena_budget(to->arena), from->name);
    memcpy(to->tensors, from->tensors, (size_t)from->tensor_count * sizeof *to->tensors);
    for (int32_t i = 0; i < to->tensor_count; i++) {
        pl_tensor *t = &to->tensors[i];
        if (!t->size_expr && !t->stride_expr && !t->offset_expr) continue;
        if (!bind_tensor(b, t)) return pl_budget_fail(err, pl_arena_budget(to->arena), from->name);
        if (!pl_tensor_fits(t)) return blame(b, &from->tensors[i], symbols, err);
    }
    for (int32_t i = 0; i < from->node_count; i++) {
        if (!is_symbolic(&from->nodes[i])) continue;
        if (to->nodes == from->nodes) {
            to->nodes = pl_arena_array(to->arena, (size_t)from->node_count, sizeof *to->nodes);
            if (!to->nodes) return pl_budget_fail(err, pl_arena_budget(to->arena), from->name);
            memcpy(to->nodes, from->nodes, (size_t)from->node_count * sizeof *to->nodes);
        }
        if (!bind_node(b, &to->nodes[i]))
            return pl_budget_fail(err, pl_arena_budget(to->arena), from->name);
    }
    return PL_OK;
}

pl_status pl_graph_bind(pl_graph **out, const pl_graph *graph, const int64_t *values,
                        pl_budget *budget, pl_error *err) {
    *out = NULL;
    for (int32_t i = 0; i < graph->symbol_count; i++) {
        const pl_symbol *s = &graph->symbols[i];
        if (values[i] >= s->least && values[i] <= s->most) continue;
        if (s->most == INT64_MAX)
            return pl_fail(err, PL_USAGE, graph->name, -1,
                           "%s%s%s is %lld; the file was exported for %lld and more", s->role,
                           *s->role ? " " : "", s->name, (long long)values[i], (long long)s->least);
        return pl_fail(err, PL_USAGE, graph->name, -1,
                       "%s%s%s is %lld; the file was exported for %lld to %lld", s->role,
                       *s->role ? " " : "", s->name, (long long)values[i], (long long)s->least,
                       (long long)s->most);
    }
    pl_arena *arena = pl_arena_new(budget);
    pl_graph *to = arena ? pl_arena_alloc(arena, sizeof *to) : NULL;
    int64_t *value = to ? pl_arena_array(arena, (size_t)graph->expr_count, sizeof *value) : NULL;
    pl_symbol *symbols =
        value ? pl_arena_array(arena, (size_t)graph->symbol_count, sizeof *symbols) : NULL;
    if (!symbols) {
        pl_arena_free(&arena);
        return pl_budget_fail(err, budget, graph->name);
    }
    *to = *graph;
    to->arena = arena;
    for (int32_t i = 0; i < graph->symbol_count; i++) {
        symbols[i] = graph->symbols[i];
        symbols[i].hint = values[i];
    }
    to->symbols = symbols;
    for (int32_t i = 0; i < graph->expr_count; i++) {
        const char *failure;
        if (!pl_expr_value(graph->exprs[i], values, &value[i], &failure)) value[i] = NO_VALUE;
    }
    binder b = {graph, to, value};
    pl_status status = bind_sizes(&b, values, err);
    if (status != PL_OK) {
        pl_arena_free(&arena);
        return status;
    }
    *out = to;
    return PL_OK;
}

void pl_graph_close(pl_graph **graph) {
    if (!graph || !*graph) return;
    pl_arena *arena = (*graph)->arena; /* the graph itself lies in it */
    *graph = NULL;
    pl_arena_free(&arena);
}
