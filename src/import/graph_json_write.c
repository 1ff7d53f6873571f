/* graph_json_write: see graph_json.h. A tensor, a module and a node have a line each, so that
 * people and diff can read it; what has its usual value (contiguous strides, no tie) is left out.
 */
#include <math.h>
#include <string.h>

#include "core/json_writer.h"
#include "graph/expr.h"
#include "import/graph_json.h"

static const struct {
    pl_dtype dtype;
    const char *name;
} dtype_names[] = {
    {PL_DT_U8, "uint8"},
    {PL_DT_I8, "int8"},
    {PL_DT_I16, "int16"},
    {PL_DT_I32, "int32"},
    {PL_DT_I64, "int64"},
    {PL_DT_F16, "float16"},
    {PL_DT_F32, "float32"},
    {PL_DT_F64, "float64"},
    {PL_DT_C32, "complex32"},
    {PL_DT_C64, "complex64"},
    {PL_DT_C128, "complex128"},
    {PL_DT_BOOL, "bool"},
    {PL_DT_BF16, "bfloat16"},
    {PL_DT_U16, "uint16"},
    {PL_DT_F8E4M3FN, "float8_e4m3fn"},
    {PL_DT_F8E5M2, "float8_e5m2"},
    {PL_DT_F8E4M3FNUZ, "float8_e4m3fnuz"},
    {PL_DT_F8E5M2FNUZ, "float8_e5m2fnuz"},
};
enum { DTYPES = sizeof dtype_names / sizeof *dtype_names };

const char *pl_dtype_name(pl_dtype dtype) {
    for (size_t i = 0; i < DTYPES; i++)
        if (dtype_names[i].dtype == dtype) return dtype_names[i].name;
    return NULL;
}

pl_dtype pl_dtype_named(const char *name, size_t length) {
    for (size_t i = 0; i < DTYPES; i++)
        if (strlen(dtype_names[i].name) == length && memcmp(dtype_names[i].name, name, length) == 0)
            return dtype_names[i].dtype;
    return PL_DT_UNKNOWN;
}

/* With a point or an exponent, so that it stays a float; 17 digits bring the same one back. */
static void put_float(pl_json_writer *w, double value) {
    w->real = value == floor(value) && fabs(value) < 1e15 ? ".1f" : ".17g";
    if (isnan(value))
        pl_json_put_raw(w, NULL, "NaN");
    else if (isinf(value))
        pl_json_put_raw(w, NULL, value < 0 ? "-Infinity" : "Infinity");
    else
        pl_json_put_real(w, NULL, value);
}

/* A size, with its expression where it has one. */
static void put_size(pl_json_writer *w, const char *key, int64_t value, const pl_expr *expr) {
    if (!expr) {
        pl_json_put_int(w, key, value);
        return;
    }
    pl_json_put_open(w, key, '[');
    pl_json_put_int(w, NULL, value);
    pl_json_put_string(w, NULL, pl_expr_text(expr));
    pl_json_put_close(w, ']');
}

static void put_sizes(pl_json_writer *w, const char *key, const int64_t *values,
                      const pl_expr *const *exprs, size_t count) {
    pl_json_put_open(w, key, '[');
    for (size_t i = 0; i < count; i++) put_size(w, NULL, values[i], exprs ? exprs[i] : NULL);
    pl_json_put_close(w, ']');
}

static void put_ids(pl_json_writer *w, const char *key, const int32_t *ids, size_t count) {
    pl_json_put_open(w, key, '[');
    for (size_t i = 0; i < count; i++) pl_json_put_int(w, NULL, ids[i]);
    pl_json_put_close(w, ']');
}

/* What is seldom true is left out elsewhere. */
static void put_flag(pl_json_writer *w, const char *key, bool value) {
    if (value) pl_json_put_bool(w, key, true);
}

/* ---- the lists ---- */

static void put_symbol(pl_json_writer *w, const pl_symbol *s) {
    pl_json_put_open(w, NULL, '{');
    pl_json_put_string(w, "name", s->name);
    pl_json_put_string(w, "role", s->role);
    pl_json_put_int(w, "hint", s->hint);
    pl_json_put_int(w, "least", s->least);
    pl_json_put_int(w, "most", s->most);
    pl_json_put_close(w, '}');
}

static void put_module(pl_json_writer *w, const pl_module *m) {
    pl_json_put_open(w, NULL, '{');
    pl_json_put_string(w, "path", m->path);
    pl_json_put_string(w, "type", m->type);
    pl_json_put_int(w, "parent", m->parent);
    pl_json_put_int(w, "call", m->call);
    if (m->line && *m->line) pl_json_put_string(w, "line", m->line);
    pl_json_put_close(w, '}');
}

static bool contiguous(const pl_tensor *t) {
    int64_t stride = 1;
    if (t->stride_expr) return false;
    for (int i = t->dims; i-- > 0;) {
        if (t->strides[i] != stride) return false;
        if (__builtin_mul_overflow(stride, t->sizes[i] > 1 ? t->sizes[i] : 1, &stride))
            return false;
    }
    return true;
}

static void put_tensor(pl_json_writer *w, const pl_tensor *t) {
    static const char *const roles[] = {"value", "parameter", "buffer", "constant", "input"};
    pl_json_put_open(w, NULL, '{');
    pl_json_put_string(w, "name", t->name);
    pl_json_put_string(w, "role", roles[t->role]);
    pl_json_put_string(w, "dtype", pl_dtype_name(t->dtype));
    put_sizes(w, "sizes", t->sizes, t->size_expr, t->dims);
    if (!contiguous(t)) put_sizes(w, "strides", t->strides, t->stride_expr, t->dims);
    if (t->offset || t->offset_expr) put_size(w, "offset", t->offset, t->offset_expr);
    if (t->path) pl_json_put_string(w, "path", t->path);
    put_flag(w, "requires_grad", t->requires_grad);
    put_flag(w, "persistent", t->persistent);
    put_flag(w, "keeps_type", t->keeps_type);
    if (t->tied >= 0) pl_json_put_int(w, "tied", t->tied);
    pl_json_put_close(w, '}');
}

static void put_arg(pl_json_writer *w, const pl_arg *a) {
    static const char *const kinds[] = {"none",   "tensor", "tensors", "int",   "ints",   "float",
                                        "floats", "bool",   "bools",   "dtype", "string", "other"};
    pl_json_put_open(w, NULL, '[');
    pl_json_put_string(w, NULL, a->name);
    pl_json_put_string(w, NULL, kinds[a->kind]);
    switch (a->kind) {
    case PL_ARG_NONE: pl_json_put_string(w, NULL, NULL); break;
    case PL_ARG_TENSOR: pl_json_put_int(w, NULL, a->tensor); break;
    case PL_ARG_TENSORS: put_ids(w, NULL, a->list, a->count); break;
    case PL_ARG_INT: put_size(w, NULL, a->i, a->expr); break;
    case PL_ARG_INTS:
    case PL_ARG_BOOLS: put_sizes(w, NULL, a->ints, a->list_expr, a->count); break;
    case PL_ARG_FLOAT: put_float(w, a->f); break;
    case PL_ARG_FLOATS:
        pl_json_put_open(w, NULL, '[');
        for (uint32_t i = 0; i < a->count; i++) put_float(w, a->floats[i]);
        pl_json_put_close(w, ']');
        break;
    case PL_ARG_BOOL: pl_json_put_bool(w, NULL, a->i != 0); break;
    case PL_ARG_DTYPE: pl_json_put_string(w, NULL, pl_dtype_name((pl_dtype)a->i)); break;
    case PL_ARG_STRING: pl_json_put_string(w, NULL, a->s); break;
    case PL_ARG_OTHER: pl_json_put_int(w, NULL, a->i); break;
    }
    pl_json_put_close(w, ']');
}

static void put_node(pl_json_writer *w, const pl_node *n) {
    static const char *const regions[] = {"job", "off", "bfloat16", "float16"};
    pl_json_put_open(w, NULL, '{');
    pl_json_put_string(w, "target", n->target);
    pl_json_put_int(w, "module", n->module);
    pl_json_put_open(w, "args", '[');
    for (uint32_t i = 0; i < n->arg_count; i++) put_arg(w, &n->args[i]);
    pl_json_put_close(w, ']');
    put_ids(w, "outputs", n->outputs, n->output_count);
    put_flag(w, "list", n->output_is_list);
    put_flag(w, "no_grad", n->no_grad);
    if (n->autocast) pl_json_put_string(w, "autocast", regions[n->autocast]);
    if (n->source[0]) pl_json_put_string(w, "source", n->source);
    if (n->number) pl_json_put_string(w, "number", pl_expr_text(n->number));
    pl_json_put_close(w, '}');
}

/* ---- the whole ---- */

/* A list on a line of its own, and each item on one. */
#define PUT_LIST(w, key, items, count, put)                                                        \
    do {                                                                                           \
        pl_json_put_line(w);                                                                       \
        pl_json_put_open((w), (key), '[');                                                         \
        for (int32_t i = 0; i < (count); i++) {                                                    \
            pl_json_put_line(w);                                                                   \
            put((w), &(items)[i]);                                                                 \
        }                                                                                          \
        pl_json_put_close((w), ']');                                                               \
    } while (0)

static void put_note(pl_json_writer *w, const char *const *note) {
    pl_json_put_string(w, NULL, *note);
}

static void put_mutation(pl_json_writer *w, const int32_t (*pair)[2]) {
    put_ids(w, NULL, *pair, 2);
}

void pl_graph_json_write(pl_text *text, const pl_graph *g) {
    pl_json_writer writer = {.text = text, .spaced = true}, *w = &writer;
    pl_json_put_open(w, NULL, '{');
    pl_json_put_int(w, "plimsoll_graph", 1);
    pl_json_put_string(w, "name", g->name);
    pl_json_put_string(w, "torch_version", g->torch_version);
    put_flag(w, "guessed", g->guessed);
    put_flag(w, "resembles", g->resembles);
    if (g->unseen > 0) pl_json_put_int(w, "unseen", g->unseen);
    if (g->note_count > 0) PUT_LIST(w, "notes", g->notes, g->note_count, put_note);
    PUT_LIST(w, "symbols", g->symbols, g->symbol_count, put_symbol);
    PUT_LIST(w, "modules", g->modules, g->module_count, put_module);
    PUT_LIST(w, "tensors", g->tensors, g->tensor_count, put_tensor);
    PUT_LIST(w, "nodes", g->nodes, g->node_count, put_node);
    pl_json_put_line(w);
    put_ids(w, "inputs", g->inputs, (size_t)g->input_count);
    pl_json_put_line(w);
    put_ids(w, "outputs", g->outputs, (size_t)g->output_count);
    PUT_LIST(w, "mutations", (const int32_t(*)[2])g->mutations, g->mutation_count, put_mutation);
    pl_json_put_close(w, '}');
    pl_text_add(text, "\n");
}
