/* graph_json: see graph_json.h; the reader. Lists may come in any order: numbers of tensors,
 * modules and nodes are checked when all is read. Keys that are not known are passed over.
 *
 * Left out: nothing of a graph; what it may ask for is bounded by the text's own length. */
#include "import/graph_json.h"

#include <stdio.h>
#include <string.h>

#include "graph/expr.h"
#include "import/graph_check.h"
#include "import/json.h"
#include "import/names.h"

/* A list that grows in the graph's arena. */
typedef struct list {
    void *items;
    size_t count, room;
} list;

typedef struct reader {
    pl_json json;
    pl_arena *arena;
    pl_graph *graph;
    list symbols, modules, tensors, nodes, inputs, outputs, mutations, exprs, notes;
    list numbers, numbered; /* int64_t and pl_expr * of the list of sizes being read */
    list args;
    pl_names names; /* of symbols: their numbers */
    list hints;     /* int64_t: of symbols */
    bool open;      /* one of them has none */
    bool guessed;   /* one that is a batch or a sequence */
    char message[200];
    bool no_memory;
    int64_t version;
} reader;

/* ---- failures and lists ---- */

static bool fail(reader *r, const char *what) {
    return pl_json_fail(&r->json, what);
}

static bool no_memory(reader *r) {
    r->no_memory = true;
    return fail(r, "memory");
}

static void *add(reader *r, list *l, size_t size) {
    void *moved = pl_arena_grow(r->arena, l->items, &l->room, l->count + 1, size);
    if (!moved) {
        no_memory(r);
        return NULL;
    }
    l->items = moved;
    return memset((char *)moved + l->count++ * size, 0, size);
}

/* A copy of a list that stays; never NULL. */
static void *kept(reader *r, const list *l, size_t size) {
    void *copy = pl_arena_array(r->arena, l->count + 1, size);
    if (!copy)
        no_memory(r);
    else if (l->count)
        memcpy(copy, l->items, l->count * size);
    return copy;
}

static bool read_string(reader *r, const char **out) {
    pl_json_text text;
    if (!pl_json_string(&r->json, &text)) return false;
    *out = pl_json_copy(r->arena, &text, NULL);
    return *out || no_memory(r);
}

/* One of names; -1 and failure where it is none. */
static int read_word(reader *r, const char *const *names, int count, const char *expected) {
    pl_json_text text;
    const char *at = r->json.at;
    if (!pl_json_string(&r->json, &text)) return -1;
    for (int i = 0; i < count; i++)
        if (pl_json_is(&text, names[i], strlen(names[i]))) return i;
    pl_json_fail_at(&r->json, at, expected);
    return -1;
}

static bool read_id(reader *r, int32_t *out) {
    int64_t number;
    const char *at = r->json.at;
    if (!pl_json_int(&r->json, &number, NULL)) return false;
    if (number < -1 || number > INT32_MAX)
        return pl_json_fail_at(&r->json, at, "a number of a list, or -1");
    *out = (int32_t)number;
    return true;
}

static bool read_dtype(reader *r, pl_dtype *out) {
    pl_json_text text;
    if (pl_json_peek(&r->json) == 'n') {
        *out = PL_DT_UNKNOWN;
        return pl_json_null(&r->json);
    }
    const char *at = r->json.at;
    if (!pl_json_string(&r->json, &text)) return false;
    *out = pl_dtype_named(text.bytes, text.length);
    return *out != PL_DT_UNKNOWN || pl_json_fail_at(&r->json, at, "a type such as float32");
}

/* ---- sizes ---- */

static int32_t symbol_number(void *context, const char *name, size_t length) {
    reader *r = context;
    int32_t entry = pl_names_find(&r->names, name, length, 0);
    if (entry >= 0) return r->names.entries[entry].value;
    fail(r, "symbols of the list of symbols, which comes first");
    return 0;
}

/* Whether the expression gives this size; true where a symbol has no hint, or it cannot be known.
 */
static bool gives(const reader *r, const pl_expr *expr, int64_t value) {
    int64_t found;
    const char *failure;
    return r->open || !pl_expr_value(expr, r->hints.items, &found, &failure) || found == value;
}

/* The expression of a text; neighbours share it.
 * NULL and failure: it is none. */
static const pl_expr *expr_of(reader *r, const char *text, const char *at) {
    const pl_expr **known = r->exprs.items;
    for (size_t i = r->exprs.count;
         i-- > 0 && r->exprs.count - i < 16;) /* neighbours repeat them */
        if (strcmp(pl_expr_text(known[i]), text) == 0) return known[i];
    const char *failure = NULL;
    size_t position = 0;
    pl_expr *expr = pl_expr_parse(r->arena, text, strlen(text), (int32_t)r->exprs.count,
                                  symbol_number, r, &failure, &position);
    if (!expr) {
        if (failure)
            pl_json_fail_at(&r->json, at, failure);
        else
            no_memory(r);
        return NULL;
    }
    const pl_expr **place = add(r, &r->exprs, sizeof *place);
    if (!place) return NULL;
    return *place = expr;
}

/* 12, or [12, "4*s0"]. *expr NULL: a number. */
static bool read_size(reader *r, int64_t *value, const pl_expr **expr) {
    *expr = NULL;
    if (pl_json_peek(&r->json) != '[') return pl_json_int(&r->json, value, NULL);
    const char *at = r->json.at, *text = NULL;
    if (!pl_json_list(&r->json) || !pl_json_item(&r->json) || !pl_json_int(&r->json, value, NULL) ||
        !pl_json_item(&r->json) || !read_string(r, &text))
        return r->json.failure ? false : fail(r, "a size and its expression");
    if (pl_json_item(&r->json)) return fail(r, "the end of a size with its expression");
    if (!(*expr = expr_of(r, text, at)) || r->json.failure) return false;
    return gives(r, *expr, *value) ||
           pl_json_fail_at(&r->json, at,
                           "the size that its expression gives with the symbols' hints");
}

/* A list of sizes; *exprs stays NULL where none has an expression. */
static bool read_sizes(reader *r, int64_t **values, const pl_expr *const **exprs, size_t *count) {
    bool open = false;
    r->numbers.count = r->numbered.count = 0;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        int64_t *value = add(r, &r->numbers, sizeof *value);
        const pl_expr **expr = add(r, &r->numbered, sizeof *expr);
        if (!value || !expr || !read_size(r, value, expr)) return false;
        open = open || *expr;
    }
    *count = r->numbers.count;
    *values = kept(r, &r->numbers, sizeof **values);
    *exprs = open ? kept(r, &r->numbered, sizeof **exprs) : NULL;
    return !r->json.failure;
}

/* ---- the lists ---- */

static bool read_symbol(reader *r) {
    pl_json_text key;
    pl_symbol s = {.name = "", .hint = PL_UNKNOWN, .least = 0, .most = INT64_MAX, .role = ""};
    if (!pl_json_object(&r->json)) return false;
    const char *at = r->json.at;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "name"))
            read_string(r, &s.name);
        else if (PL_JSON_IS(&key, "role"))
            read_string(r, &s.role);
        else if (PL_JSON_IS(&key, "hint"))
            pl_json_int(&r->json, &s.hint, NULL);
        else if (PL_JSON_IS(&key, "least"))
            pl_json_int(&r->json, &s.least, NULL);
        else if (PL_JSON_IS(&key, "most"))
            pl_json_int(&r->json, &s.most, NULL);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    if (s.least > s.most) return pl_json_fail_at(&r->json, at, "a range that is not empty");
    if (s.hint < 0) s.hint = PL_UNKNOWN;
    if (s.hint >= 0 && (s.hint < s.least || s.hint > s.most))
        return pl_json_fail_at(&r->json, at, "a hint within the symbol's range");
    int32_t entry = pl_names_get(&r->names, s.name, strlen(s.name), 0);
    if (entry < 0) return no_memory(r);
    if (r->names.entries[entry].value >= 0)
        return pl_json_fail_at(&r->json, at, "a symbol with a name of its own");
    r->names.entries[entry].value = (int32_t)r->symbols.count;
    pl_symbol *place = add(r, &r->symbols, sizeof *place);
    int64_t *hint = add(r, &r->hints, sizeof *hint);
    if (!place || !hint) return false;
    *place = s;
    *hint = s.hint;
    r->open |= s.hint < 0;
    r->guessed |= s.hint < 0 && s.role[0];
    return true;
}

static bool read_module(reader *r) {
    pl_json_text key;
    pl_module m = {.path = "", .type = "", .parent = -1};
    const char *at = r->json.at;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "path"))
            read_string(r, &m.path);
        else if (PL_JSON_IS(&key, "type"))
            read_string(r, &m.type);
        else if (PL_JSON_IS(&key, "parent"))
            read_id(r, &m.parent);
        else if (PL_JSON_IS(&key, "call"))
            read_id(r, &m.call);
        else if (PL_JSON_IS(&key, "line"))
            read_string(r, &m.line);
        else
            pl_json_skip(&r->json);
    }
    if (!r->json.failure && m.parent >= (int32_t)r->modules.count)
        return pl_json_fail_at(&r->json, at, "a parent that comes before the module");
    if (!r->json.failure && pl_module_too_deep(r->modules.items, m.parent))
        return pl_json_fail_at(&r->json, at, "at most 256 modules, one inside the other");
    pl_module *place = r->json.failure ? NULL : add(r, &r->modules, sizeof *place);
    if (place) *place = m;
    return place != NULL;
}

/* Strides of a tensor that is laid out row by row. */
static bool set_strides(reader *r, pl_tensor *t) {
    t->strides = pl_arena_array(r->arena, (size_t)t->dims + 1, sizeof *t->strides);
    if (!t->strides) return no_memory(r);
    int64_t stride = 1;
    for (int i = t->dims; i-- > 0;) {
        t->strides[i] = stride;
        if (__builtin_mul_overflow(stride, t->sizes[i] > 1 ? t->sizes[i] : 1, &stride))
            return fail(r, "a tensor that fits a memory");
    }
    return true;
}

static bool read_tensor(reader *r) {
    static const char *const roles[] = {"value", "parameter", "buffer", "constant", "input"};
    pl_json_text key;
    pl_tensor t = {.name = "", .producer = -1, .tied = -1};
    size_t dims = 0, strides = 0;
    const char *at = r->json.at;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "name")) {
            read_string(r, &t.name);
        } else if (PL_JSON_IS(&key, "role")) {
            int role = read_word(r, roles, 5, "value, parameter, buffer, constant or input");
            if (role >= 0) t.role = (pl_role)role;
        } else if (PL_JSON_IS(&key, "dtype")) {
            read_dtype(r, &t.dtype);
        } else if (PL_JSON_IS(&key, "sizes")) {
            read_sizes(r, &t.sizes, &t.size_expr, &dims);
        } else if (PL_JSON_IS(&key, "strides")) {
            read_sizes(r, &t.strides, &t.stride_expr, &strides);
        } else if (PL_JSON_IS(&key, "offset")) {
            read_size(r, &t.offset, &t.offset_expr);
        } else if (PL_JSON_IS(&key, "path")) {
            read_string(r, &t.path);
        } else if (PL_JSON_IS(&key, "requires_grad")) {
            pl_json_bool(&r->json, &t.requires_grad);
        } else if (PL_JSON_IS(&key, "persistent")) {
            pl_json_bool(&r->json, &t.persistent);
        } else if (PL_JSON_IS(&key, "keeps_type")) {
            pl_json_bool(&r->json, &t.keeps_type);
        } else if (PL_JSON_IS(&key, "tied")) {
            read_id(r, &t.tied);
        } else {
            pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    if (dims > PL_MAX_DIMS || (t.strides && strides != dims))
        return pl_json_fail_at(&r->json, at, "at most 16 sizes, and as many strides");
    if ((t.role == PL_ROLE_PARAMETER || t.role == PL_ROLE_BUFFER) && !t.path)
        return pl_json_fail_at(&r->json, at, "a path of the parameter or buffer");
    t.dims = (uint8_t)dims;
    if (!t.sizes && !(t.sizes = pl_arena_array(r->arena, 1, sizeof *t.sizes))) return no_memory(r);
    if (!t.strides && !set_strides(r, &t)) return false;
    if (!pl_tensor_fits(&t)) return pl_json_fail_at(&r->json, at, "a tensor that fits a memory");
    pl_tensor *place = add(r, &r->tensors, sizeof *place);
    if (place) *place = t;
    return place != NULL;
}

/* ---- nodes ---- */

static bool read_ids(reader *r, int32_t **ids, uint32_t *count) {
    list l = {0};
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        int32_t *id = add(r, &l, sizeof *id);
        if (!id || !read_id(r, id)) return false;
    }
    *ids = kept(r, &l, sizeof **ids);
    *count = (uint32_t)l.count;
    return !r->json.failure;
}

static bool read_floats(reader *r, pl_arg *a) {
    list l = {0};
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        double *f = add(r, &l, sizeof *f);
        if (!f || !pl_json_number(&r->json, f)) return false;
    }
    a->floats = kept(r, &l, sizeof *a->floats);
    a->count = (uint32_t)l.count;
    return !r->json.failure;
}

static bool read_value(reader *r, pl_arg *a) {
    size_t count = 0;
    bool truth = false;
    pl_dtype dtype = PL_DT_UNKNOWN;
    const char *at = r->json.at;
    switch (a->kind) {
    case PL_ARG_NONE: return pl_json_null(&r->json);
    case PL_ARG_TENSOR: return read_id(r, &a->tensor);
    case PL_ARG_TENSORS: return read_ids(r, &a->list, &a->count);
    case PL_ARG_INT: return read_size(r, &a->i, &a->expr);
    case PL_ARG_INTS:
    case PL_ARG_BOOLS:
        if (!read_sizes(r, &a->ints, &a->list_expr, &count)) return false;
        a->count = (uint32_t)count;
        for (size_t i = 0; a->kind == PL_ARG_BOOLS && i < count; i++)
            if (a->ints[i] & ~INT64_C(1)) return pl_json_fail_at(&r->json, at, "0 or 1");
        return true;
    case PL_ARG_FLOAT: return pl_json_number(&r->json, &a->f);
    case PL_ARG_FLOATS: return read_floats(r, a);
    case PL_ARG_BOOL:
        if (!pl_json_bool(&r->json, &truth)) return false;
        a->i = truth;
        return true;
    case PL_ARG_DTYPE:
        if (!read_dtype(r, &dtype)) return false;
        a->i = (int64_t)dtype;
        return true;
    case PL_ARG_STRING: return read_string(r, &a->s);
    case PL_ARG_OTHER: return pl_json_int(&r->json, &a->i, NULL);
    }
    return fail(r, "a kind of argument");
}

/* ["dim", "int", -1] */
static bool read_arg(reader *r) {
    static const char *const kinds[] = {"none",   "tensor", "tensors", "int",   "ints",   "float",
                                        "floats", "bool",   "bools",   "dtype", "string", "other"};
    pl_arg a = {.name = ""};
    if (!pl_json_list(&r->json)) return false;
    if (!pl_json_item(&r->json) || !read_string(r, &a.name) || !pl_json_item(&r->json))
        return r->json.failure ? false : fail(r, "an argument's name, kind and value");
    int kind = read_word(r, kinds, 12, "a kind of argument, such as tensor or ints");
    if (kind < 0) return false;
    a.kind = (pl_arg_kind)kind;
    if (!pl_json_item(&r->json) || !read_value(r, &a) || pl_json_item(&r->json))
        return r->json.failure ? false : fail(r, "an argument's name, kind and value");
    pl_arg *place = r->json.failure ? NULL : add(r, &r->args, sizeof *place);
    if (place) *place = a;
    return place != NULL;
}

static bool read_node(reader *r) {
    static const char *const regions[] = {"job", "off", "bfloat16", "float16"};
    pl_json_text key;
    pl_node n = {.target = "", .module = -1, .source = ""};
    if (!pl_json_object(&r->json)) return false;
    r->args.count = 0;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "target")) {
            read_string(r, &n.target);
        } else if (PL_JSON_IS(&key, "module")) {
            read_id(r, &n.module);
        } else if (PL_JSON_IS(&key, "args")) {
            r->args.count = 0;
            if (pl_json_list(&r->json))
                while (pl_json_item(&r->json) && read_arg(r)) continue;
        } else if (PL_JSON_IS(&key, "outputs")) {
            read_ids(r, &n.outputs, &n.output_count);
        } else if (PL_JSON_IS(&key, "list")) {
            pl_json_bool(&r->json, &n.output_is_list);
        } else if (PL_JSON_IS(&key, "no_grad")) {
            pl_json_bool(&r->json, &n.no_grad);
        } else if (PL_JSON_IS(&key, "autocast")) {
            int region = read_word(r, regions, 4, "job, off, bfloat16 or float16");
            if (region >= 0) n.autocast = (uint8_t)region;
        } else if (PL_JSON_IS(&key, "source")) {
            read_string(r, &n.source);
        } else if (PL_JSON_IS(&key, "number")) {
            const char *at = r->json.at, *text = NULL;
            if (read_string(r, &text)) n.number = expr_of(r, text, at);
        } else {
            pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    n.args = kept(r, &r->args, sizeof *n.args);
    n.arg_count = (uint32_t)r->args.count;
    pl_node *place = r->json.failure ? NULL : add(r, &r->nodes, sizeof *place);
    if (place) *place = n;
    return place != NULL;
}

static bool read_input(reader *r) {
    int32_t *id = add(r, &r->inputs, sizeof *id);
    return id && read_id(r, id);
}

static bool read_output(reader *r) {
    int32_t *id = add(r, &r->outputs, sizeof *id);
    return id && read_id(r, id);
}

static bool read_mutation(reader *r) {
    int32_t(*pair)[2] = add(r, &r->mutations, sizeof *pair);
    if (!pair || !pl_json_list(&r->json)) return false;
    for (int i = 0; i < 2; i++)
        if (!pl_json_item(&r->json) || !read_id(r, &(*pair)[i]))
            return r->json.failure ? false : fail(r, "a buffer and its new value");
    if (pl_json_item(&r->json)) return fail(r, "the end of a pair");
    return !r->json.failure;
}

static bool read_note(reader *r) {
    const char **note = add(r, &r->notes, sizeof *note);
    return note && read_string(r, note);
}

/* ---- the whole ---- */

static const struct {
    const char *key;
    bool (*read)(reader *r);
} lists[] = {
    {"symbols", read_symbol},     {"modules", read_module}, {"tensors", read_tensor},
    {"nodes", read_node},         {"inputs", read_input},   {"outputs", read_output},
    {"mutations", read_mutation}, {"notes", read_note},
};

static bool read_all(reader *r) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        bool (*read)(reader *) = NULL;
        for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
            if (pl_json_is(&key, lists[i].key, strlen(lists[i].key))) read = lists[i].read;
        if (read) {
            if (pl_json_list(&r->json))
                while (pl_json_item(&r->json) && read(r)) continue;
        } else if (PL_JSON_IS(&key, "plimsoll_graph")) {
            if (pl_json_int(&r->json, &r->version, NULL) && r->version != 1)
                fail(r, "version 1, which this plimsoll reads");
        } else if (PL_JSON_IS(&key, "name")) {
            read_string(r, &r->graph->name);
        } else if (PL_JSON_IS(&key, "guessed")) {
            pl_json_bool(&r->json, &r->graph->guessed);
        } else if (PL_JSON_IS(&key, "resembles")) {
            pl_json_bool(&r->json, &r->graph->resembles);
        } else if (PL_JSON_IS(&key, "unseen")) {
            if (pl_json_int(&r->json, &r->graph->unseen, NULL) && r->graph->unseen < 0)
                fail(r, "parameters, 0 or more");
        } else if (PL_JSON_IS(&key, "torch_version")) {
            read_string(r, &r->graph->torch_version);
        } else {
            pl_json_skip(&r->json);
        }
    }
    return pl_json_end(&r->json);
}

/* A batch that the file leaves open is guessed, as the reader of .pt2 does: reported, with a wider
 * interval. A graph that is read anew already says so. Of what depends on data each estimate says
 * what it assumed. */
static bool note_open(reader *r) {
    if (!r->guessed || r->graph->guessed) return true;
    const char **note = add(r, &r->notes, sizeof *note);
    if (note) *note = "a symbol of the graph has no hint: sizes that hang on it are guessed";
    r->graph->guessed = true;
    return note != NULL;
}

static bool wrong(reader *r, const char *what, int32_t node) {
    snprintf(r->message, sizeof r->message, "%s (node %d)", what, node);
    return false;
}

static bool id_before(const pl_graph *g, int32_t id, int32_t node, bool none) {
    if (id < 0) return none;
    if (id >= g->tensor_count) return false;
    return g->tensors[id].role != PL_ROLE_VALUE ||
           (g->tensors[id].producer >= 0 && g->tensors[id].producer < node);
}

/* Whether every number names something, and what is used was made before. */
static bool check(reader *r) {
    pl_graph *g = r->graph;
    for (int32_t i = 0; i < g->node_count; i++) {
        pl_node *n = &g->nodes[i];
        if (n->module >= g->module_count) return wrong(r, "a module that is not there", i);
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const pl_arg *a = &n->args[k];
            if (a->kind == PL_ARG_TENSOR && !id_before(g, a->tensor, i, false))
                return wrong(r, "an argument that is no tensor made before", i);
            for (uint32_t j = 0; a->kind == PL_ARG_TENSORS && j < a->count; j++)
                if (!id_before(g, a->list[j], i, true))
                    return wrong(r, "an argument that is no tensor made before", i);
        }
        for (uint32_t k = 0; k < n->output_count; k++) {
            int32_t id = n->outputs[k];
            if (id < 0) continue;
            if (id >= g->tensor_count || g->tensors[id].role != PL_ROLE_VALUE ||
                g->tensors[id].producer >= 0)
                return wrong(r, "an output that is no value of its own", i);
            g->tensors[id].producer = i;
        }
    }
    for (int32_t i = 0; i < g->tensor_count; i++) {
        int32_t tied = g->tensors[i].tied;
        if (tied >= g->tensor_count || tied == i ||
            (tied >= 0 && (g->tensors[i].role != PL_ROLE_PARAMETER || g->tensors[tied].tied >= 0 ||
                           g->tensors[tied].role != PL_ROLE_PARAMETER)))
            return wrong(r, "a tensor tied to no parameter", -1);
    }
    for (int32_t i = 0; i < g->input_count; i++)
        if (g->inputs[i] < 0 || g->inputs[i] >= g->tensor_count ||
            g->tensors[g->inputs[i]].role != PL_ROLE_INPUT)
            return wrong(r, "an input that is none", -1);
    for (int32_t i = 0; i < g->output_count; i++)
        if (!id_before(g, g->outputs[i], g->node_count, true))
            return wrong(r, "an output that nothing makes", -1);
    for (int32_t i = 0; i < g->mutation_count; i++)
        for (int k = 0; k < 2; k++)
            if (!id_before(g, g->mutations[i][k], g->node_count, false))
                return wrong(r, "a mutation of no tensor", -1);
    return true;
}

pl_status pl_import_graph_json(pl_graph **out, const char *bytes, size_t size, const char *name,
                               const pl_reading *reading, pl_error *err) {
    *out = NULL;
    const pl_reading how = pl_reading_of(reading);
    pl_arena *arena = pl_arena_new(how.budget);
    reader r = {.arena = arena, .version = -1};
    pl_graph *g = r.graph = arena ? pl_arena_alloc(arena, sizeof *g) : NULL;
    if (!g) {
        pl_arena_free(&arena);
        return pl_budget_fail(err, how.budget, name);
    }
    g->arena = arena;
    g->name = g->torch_version = "";
    pl_json_open(&r.json, bytes, size, how.depth_limit);
    bool good = pl_names_open(&r.names, arena, 16) && read_all(&r) && note_open(&r);
    if (good) {
        g->tensors = kept(&r, &r.tensors, sizeof *g->tensors);
        g->nodes = kept(&r, &r.nodes, sizeof *g->nodes);
        g->modules = kept(&r, &r.modules, sizeof *g->modules);
        g->symbols = kept(&r, &r.symbols, sizeof *g->symbols);
        g->inputs = kept(&r, &r.inputs, sizeof *g->inputs);
        g->outputs = kept(&r, &r.outputs, sizeof *g->outputs);
        g->mutations = kept(&r, &r.mutations, sizeof *g->mutations);
        g->exprs = kept(&r, &r.exprs, sizeof *g->exprs);
        g->notes = kept(&r, &r.notes, sizeof *g->notes);
        g->note_count = (int32_t)r.notes.count;
        g->tensor_count = (int32_t)r.tensors.count;
        g->node_count = (int32_t)r.nodes.count;
        g->module_count = (int32_t)r.modules.count;
        g->symbol_count = (int32_t)r.symbols.count;
        g->input_count = (int32_t)r.inputs.count;
        g->output_count = (int32_t)r.outputs.count;
        g->mutation_count = (int32_t)r.mutations.count;
        g->expr_count = (int32_t)r.exprs.count;
        good = !r.no_memory && check(&r) && pl_graph_sizes_match(g, r.message, sizeof r.message);
    }
    pl_status status = PL_OK;
    if (r.no_memory || !r.names.slots)
        status = pl_budget_fail(err, how.budget, name);
    else if (r.json.failure)
        status = pl_fail(err, PL_INPUT, name, r.json.failure_at, "expected %s", r.json.failure);
    else if (!good)
        status = pl_fail(err, PL_INPUT, name, -1, "%s", r.message);
    if (status == PL_OK)
        *out = g;
    else
        pl_graph_close(&g);
    return status;
}
