/* graph_json_write: see graph_json.h. A tensor, a module and a node have a line each, so that
 * people and diff can read it; what has its usual value (contiguous strides, no tie) is left out.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/number.h"
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

static void put_int(pl_text *w, int64_t value) {
    pl_text_format(w, "%" PRId64, value);
}

/* With a point or an exponent, so that it stays a float; 17 digits bring the same one back. */
static void put_float(pl_text *w, double value) {
    if (isnan(value))
        pl_text_add(w, "NaN");
    else if (isinf(value))
        pl_text_add(w, value < 0 ? "-Infinity" : "Infinity");
    else
        pl_text_add(w,
                    PL_REAL(value == floor(value) && fabs(value) < 1e15 ? ".1f" : ".17g", value));
}

/* A size, with its expression where it has one. */
static void put_size(pl_text *w, int64_t value, const pl_expr *expr) {
    if (!expr) {
        put_int(w, value);
        return;
    }
    pl_text_format(w, "[%" PRId64 ", ", value);
    pl_text_string(w, pl_expr_text(expr));
    pl_text_add(w, "]");
}

static void put_sizes(pl_text *w, const int64_t *values, const pl_expr *const *exprs,
                      size_t count) {
    pl_text_add(w, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) pl_text_add(w, ", ");
        put_size(w, values[i], exprs ? exprs[i] : NULL);
    }
    pl_text_add(w, "]");
}

static void put_ids(pl_text *w, const int32_t *ids, size_t count) {
    pl_text_add(w, "[");
    for (size_t i = 0; i < count; i++) pl_text_format(w, "%s%" PRId32, i ? ", " : "", ids[i]);
    pl_text_add(w, "]");
}

static void put_member(pl_text *w, const char *key, const char *value) {
    pl_text_format(w, ", \"%s\": ", key);
    pl_text_string(w, value);
}

/* ---- the lists ---- */

static void put_symbol(pl_text *w, const pl_symbol *s) {
    pl_text_add(w, "{\"name\": ");
    pl_text_string(w, s->name);
    put_member(w, "role", s->role);
    pl_text_format(w, ", \"hint\": %" PRId64 ", \"least\": %" PRId64, s->hint, s->least);
    pl_text_format(w, ", \"most\": %" PRId64 "}", s->most);
}

static void put_module(pl_text *w, const pl_module *m) {
    pl_text_add(w, "{\"path\": ");
    pl_text_string(w, m->path);
    put_member(w, "type", m->type);
    pl_text_format(w, ", \"parent\": %" PRId32 ", \"call\": %" PRId32 "}", m->parent, m->call);
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

static void put_tensor(pl_text *w, const pl_tensor *t) {
    static const char *const roles[] = {"value", "parameter", "buffer", "constant", "input"};
    pl_text_add(w, "{\"name\": ");
    pl_text_string(w, t->name);
    put_member(w, "role", roles[t->role]);
    put_member(w, "dtype", pl_dtype_name(t->dtype));
    pl_text_add(w, ", \"sizes\": ");
    put_sizes(w, t->sizes, t->size_expr, t->dims);
    if (!contiguous(t)) {
        pl_text_add(w, ", \"strides\": ");
        put_sizes(w, t->strides, t->stride_expr, t->dims);
    }
    if (t->offset || t->offset_expr) {
        pl_text_add(w, ", \"offset\": ");
        put_size(w, t->offset, t->offset_expr);
    }
    if (t->path) put_member(w, "path", t->path);
    if (t->requires_grad) pl_text_add(w, ", \"requires_grad\": true");
    if (t->persistent) pl_text_add(w, ", \"persistent\": true");
    if (t->keeps_type) pl_text_add(w, ", \"keeps_type\": true");
    if (t->tied >= 0) pl_text_format(w, ", \"tied\": %" PRId32, t->tied);
    pl_text_add(w, "}");
}

static void put_arg(pl_text *w, const pl_arg *a) {
    static const char *const kinds[] = {"none",   "tensor", "tensors", "int",   "ints",   "float",
                                        "floats", "bool",   "bools",   "dtype", "string", "other"};
    pl_text_add(w, "[");
    pl_text_string(w, a->name);
    pl_text_format(w, ", \"%s\", ", kinds[a->kind]);
    switch (a->kind) {
    case PL_ARG_NONE: pl_text_add(w, "null"); break;
    case PL_ARG_TENSOR: put_int(w, a->tensor); break;
    case PL_ARG_TENSORS: put_ids(w, a->list, a->count); break;
    case PL_ARG_INT: put_size(w, a->i, a->expr); break;
    case PL_ARG_INTS:
    case PL_ARG_BOOLS: put_sizes(w, a->ints, a->list_expr, a->count); break;
    case PL_ARG_FLOAT: put_float(w, a->f); break;
    case PL_ARG_FLOATS:
        pl_text_add(w, "[");
        for (uint32_t i = 0; i < a->count; i++) {
            if (i) pl_text_add(w, ", ");
            put_float(w, a->floats[i]);
        }
        pl_text_add(w, "]");
        break;
    case PL_ARG_BOOL: pl_text_add(w, a->i ? "true" : "false"); break;
    case PL_ARG_DTYPE: pl_text_string(w, pl_dtype_name((pl_dtype)a->i)); break;
    case PL_ARG_STRING: pl_text_string(w, a->s); break;
    case PL_ARG_OTHER: put_int(w, a->i); break;
    }
    pl_text_add(w, "]");
}

static void put_node(pl_text *w, const pl_node *n) {
    static const char *const regions[] = {"job", "off", "bfloat16", "float16"};
    pl_text_add(w, "{\"target\": ");
    pl_text_string(w, n->target);
    pl_text_format(w, ", \"module\": %" PRId32 ", \"args\": [", n->module);
    for (uint32_t i = 0; i < n->arg_count; i++) {
        if (i) pl_text_add(w, ", ");
        put_arg(w, &n->args[i]);
    }
    pl_text_add(w, "], \"outputs\": ");
    put_ids(w, n->outputs, n->output_count);
    if (n->output_is_list) pl_text_add(w, ", \"list\": true");
    if (n->no_grad) pl_text_add(w, ", \"no_grad\": true");
    if (n->autocast) put_member(w, "autocast", regions[n->autocast]);
    if (n->source[0]) put_member(w, "source", n->source);
    pl_text_add(w, "}");
}

/* ---- the whole ---- */

#define PUT_LIST(w, key, items, count, put)                                                        \
    do {                                                                                           \
        pl_text_add((w), ",\n\"" key "\": [");                                                     \
        for (int32_t i = 0; i < (count); i++) {                                                    \
            pl_text_add((w), i ? ",\n" : "\n");                                                    \
            put((w), &(items)[i]);                                                                 \
        }                                                                                          \
        pl_text_add((w), "]");                                                                     \
    } while (0)

static void put_note(pl_text *w, const char *const *note) {
    pl_text_string(w, *note);
}

static void put_mutation(pl_text *w, const int32_t (*pair)[2]) {
    put_ids(w, *pair, 2);
}

void pl_graph_json_write(pl_text *w, const pl_graph *g) {
    pl_text_add(w, "{\"plimsoll_graph\": 1");
    put_member(w, "name", g->name);
    put_member(w, "torch_version", g->torch_version);
    if (g->guessed) pl_text_add(w, ", \"guessed\": true");
    if (g->note_count > 0) PUT_LIST(w, "notes", g->notes, g->note_count, put_note);
    PUT_LIST(w, "symbols", g->symbols, g->symbol_count, put_symbol);
    PUT_LIST(w, "modules", g->modules, g->module_count, put_module);
    PUT_LIST(w, "tensors", g->tensors, g->tensor_count, put_tensor);
    PUT_LIST(w, "nodes", g->nodes, g->node_count, put_node);
    pl_text_add(w, ",\n\"inputs\": ");
    put_ids(w, g->inputs, (size_t)g->input_count);
    pl_text_add(w, ",\n\"outputs\": ");
    put_ids(w, g->outputs, (size_t)g->output_count);
    PUT_LIST(w, "mutations", (const int32_t(*)[2])g->mutations, g->mutation_count, put_mutation);
    pl_text_add(w, "}\n");
}
