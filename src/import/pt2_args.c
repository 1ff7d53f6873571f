/* pt2_args: arguments of nodes, sizes, and the named scalars both may stand on.
 *
 * An argument is an object of one key, the kind (Argument in schema.py). A symbolic integer is
 * given by name; the graph's sym_int_values, which come after its nodes, say which expression the
 * name has. */
#include "import/pt2_reader.h"

#include <string.h>

typedef enum kind {
    K_NONE,
    K_TENSOR,
    K_TENSORS,
    K_OPTIONAL_TENSOR,
    K_OPTIONAL_TENSORS,
    K_NESTED_TENSORS,
    K_INT,
    K_INTS,
    K_FLOAT,
    K_FLOATS,
    K_BOOL,
    K_BOOLS,
    K_DTYPE,
    K_ENUM, /* a number kept in .i of PL_ARG_OTHER */
    K_STRING,
    K_SYM_INT,
    K_SYM_INTS,
    K_SYM_FLOAT,
    K_SYM_FLOATS,
    K_SYM_BOOL,
    K_SYM_BOOLS,
    K_GRAPH,
    K_MAP,
} kind;

static const struct {
    const char *name;
    size_t length;
    kind kind;
} kinds[] = {
#define ROW(name, kind)                                                                            \
    { name, sizeof(name) - 1, kind }
    ROW("as_tensor", K_TENSOR),
    ROW("as_int", K_INT),
    ROW("as_ints", K_INTS),
    ROW("as_float", K_FLOAT),
    ROW("as_bool", K_BOOL),
    ROW("as_none", K_NONE),
    ROW("as_scalar_type", K_DTYPE),
    ROW("as_tensors", K_TENSORS),
    ROW("as_sym_int", K_SYM_INT),
    ROW("as_sym_ints", K_SYM_INTS),
    ROW("as_layout", K_ENUM),
    ROW("as_memory_format", K_ENUM),
    ROW("as_string", K_STRING),
    ROW("as_optional_tensors", K_OPTIONAL_TENSORS),
    ROW("as_optional_tensor", K_OPTIONAL_TENSOR),
    ROW("as_floats", K_FLOATS),
    ROW("as_bools", K_BOOLS),
    ROW("as_graph", K_GRAPH),
    ROW("as_sym_float", K_SYM_FLOAT),
    ROW("as_sym_floats", K_SYM_FLOATS),
    ROW("as_sym_bool", K_SYM_BOOL),
    ROW("as_sym_bools", K_SYM_BOOLS),
    ROW("as_nested_tensors", K_NESTED_TENSORS),
    ROW("as_string_to_argument", K_MAP),
#undef ROW
};

/* ---- symbols and expressions ---- */

static int32_t symbol_of(void *context, const char *name, size_t length) {
    reader *r = context;
    pl_json_text text = {name, length, false};
    int32_t entry = pl_pt2_name(r, &text, SPACE_SYMBOLS);
    if (entry < 0) return -1;
    if (r->names.entries[entry].value < 0) {
        char *copy = pl_json_copy(r->arena, &text, NULL);
        if (!copy || !GROW(r, r->symbols, r->symbol_count, r->symbol_room))
            return pl_pt2_no_memory(r), -1;
        r->symbols[r->symbol_count] = (pl_symbol){
            .name = copy, .hint = PL_UNKNOWN, .least = 0, .most = INT64_MAX, .role = ""};
        r->names.entries[entry].value = (int32_t)r->symbol_count++;
    }
    return r->names.entries[entry].value;
}

/* The same text gives the same expression. */
static bool expr_of(reader *r, const pl_json_text *text, const char *at, expr_note **out) {
    int32_t entry = pl_pt2_name(r, text, SPACE_EXPRS);
    if (entry < 0) return false;
    if (r->names.entries[entry].value < 0) {
        size_t length, position;
        const char *failure, *copy = pl_json_copy(r->arena, text, &length);
        if (!copy || !GROW(r, r->exprs, r->expr_count, r->expr_room)) return pl_pt2_no_memory(r);
        pl_expr *expr = pl_expr_parse(r->arena, copy, length, (int32_t)r->expr_count, symbol_of, r,
                                      &failure, &position);
        if (!expr) {
            if (!failure) return pl_pt2_no_memory(r);
            return pl_pt2_fail(r, text->escaped ? at : text->bytes + position,
                               "expected %s at character %zu of the expression %.100s", failure,
                               position, copy);
        }
        r->exprs[r->expr_count] = (expr_note){expr, PL_UNKNOWN};
        r->names.entries[entry].value = (int32_t)r->expr_count++;
    }
    *out = &r->exprs[r->names.entries[entry].value];
    return true;
}

/* {"as_int": 4}, {"as_float": 4.0}, {"as_bool": true} or null; the number lies in one of the two.
 */
static bool read_hint(reader *r, bool *known, int64_t *i, double *f) {
    pl_json_text key;
    *known = false;
    if (pl_json_peek(&r->json) == 'n') return pl_json_null(&r->json);
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        bool truth;
        if (pl_json_peek(&r->json) == 'n') {
            pl_json_null(&r->json);
        } else if (PL_JSON_IS(&key, "as_int")) {
            *known = pl_json_int(&r->json, i, NULL);
            *f = (double)*i;
        } else if (PL_JSON_IS(&key, "as_bool")) {
            *known = pl_json_bool(&r->json, &truth);
            *f = (double)(*i = truth);
        } else if (PL_JSON_IS(&key, "as_float")) {
            *known = pl_json_number(&r->json, f);
            *i = *f >= -9e18 && *f <= 9e18 ? (int64_t)*f : 0;
        } else {
            pl_json_skip(&r->json);
        }
    }
    return !r->json.failure;
}

/* The object of an as_expr. want_expr: false for floats and booleans, of which only the hint is
 * kept. */
static bool read_expr(reader *r, bool want_expr, scalar *out) {
    pl_json_text key, text = {0};
    const char *at = r->json.at;
    bool known = false;
    int64_t i = 0;
    double f = 0;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "expr_str")) {
            at = r->json.at;
            pl_json_string(&r->json, &text);
        } else if (PL_JSON_IS(&key, "hint")) {
            read_hint(r, &known, &i, &f);
        } else {
            pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    if (!text.bytes) return pl_pt2_fail(r, at, "expected expr_str in a symbolic size");
    *out = (scalar){.i = known ? i : PL_UNKNOWN, .f = f};
    if (!want_expr) return true;
    expr_note *note = NULL;
    if (!expr_of(r, &text, at, &note)) return false;
    if (known && i >= 0) note->hint = i;
    int32_t symbol = pl_expr_symbol(note->expr);
    if (symbol >= 0 && known && i >= 0) r->symbols[symbol].hint = i;
    out->expr = note->expr;
    if (pl_expr_is_constant(note->expr)) {
        const char *failure;
        if (pl_expr_value(note->expr, NULL, &out->i, &failure)) out->expr = NULL;
    }
    return true;
}

static bool read_symbolic(reader *r, bool want_expr, scalar *out) {
    *out = (scalar){0};
    pl_json_text key;
    const char *at = r->json.at;
    bool found = false, truth;
    if (pl_json_peek(&r->json) != '{') { /* a bare number */
        bool exact;
        return pl_json_int(&r->json, &out->i, &exact) &&
               (exact || pl_pt2_fail(r, at, "expected an integer of 64 bits"));
    }
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        char next = pl_json_peek(&r->json);
        at = r->json.at;
        if (next == 'n') {
            pl_json_null(&r->json);
        } else if (PL_JSON_IS(&key, "as_int")) {
            bool exact = true;
            found = pl_json_int(&r->json, &out->i, &exact);
            if (!exact) return pl_pt2_fail(r, at, "expected an integer of 64 bits");
        } else if (PL_JSON_IS(&key, "as_expr")) {
            found = read_expr(r, want_expr, out);
        } else if (PL_JSON_IS(&key, "as_float")) {
            found = pl_json_number(&r->json, &out->f);
        } else if (PL_JSON_IS(&key, "as_bool")) {
            found = pl_json_bool(&r->json, &truth);
            out->i = found && truth;
        } else {
            pl_json_skip(&r->json);
        }
    }
    return !r->json.failure && (found || pl_pt2_fail(r, at, "expected as_int or as_expr"));
}

bool pl_pt2_read_size(reader *r, int64_t *value, const pl_expr **expr) {
    static const char plain[] = "{\"as_int\": ";
    *expr = NULL;
    if (pl_json_quick_int(&r->json, plain, sizeof plain - 1, value)) return true;
    scalar s;
    pl_json_peek(&r->json);
    const char *at = r->json.at;
    if (!read_symbolic(r, true, &s)) return false;
    if (!s.expr && s.i < 0) return pl_pt2_fail(r, at, "expected a size of at least 0");
    *value = s.expr && s.i < 0 ? PL_UNKNOWN : s.i;
    *expr = s.expr;
    return true;
}

bool pl_pt2_read_scalars(reader *r, bool integers) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        const char *at = r->json.at;
        int32_t name = pl_pt2_name(r, &key, space_of(SPACE_SCALARS, r->scope));
        if (name < 0 || !GROW(r, r->scalars, r->scalar_count, r->scalar_room))
            return pl_pt2_no_memory(r);
        if (r->names.entries[name].value >= 0)
            return pl_pt2_fail(r, at, "expected one value of the symbolic number %.100s, not two",
                               pl_pt2_intern(r, &key));
        scalar s;
        if (!read_symbolic(r, integers, &s)) return false;
        r->scalars[r->scalar_count] = s;
        r->names.entries[name].value = (int32_t)r->scalar_count++;
    }
    return !r->json.failure;
}

/* A scalar of this scope, or of one around it: subgraphs may use a name of the graph that holds
 * them. */
static int32_t find_scalar(const reader *r, int32_t entry) {
    const pl_name *name = &r->names.entries[entry];
    if (name->value >= 0) return name->value;
    for (int32_t scope = (int32_t)(name->space >> 32); scope > 0;) {
        scope = r->scope_parents[scope];
        int32_t outer =
            pl_names_find(&r->names, name->bytes, name->length, space_of(SPACE_SCALARS, scope));
        if (outer >= 0 && r->names.entries[outer].value >= 0) return r->names.entries[outer].value;
    }
    return -1;
}

bool pl_pt2_resolve(reader *r, size_t from) {
    size_t kept = from;
    for (size_t k = from; k < r->pending_count; k++) {
        const pending *p = &r->pendings[k];
        int32_t found = find_scalar(r, p->name);
        if (found < 0) {
            if (r->scope == 0 && p->node) continue; /* nothing hangs on it */
            if (r->scope == 0)
                return pl_pt2_fail(
                    r, p->at, "expected a symbolic number that the graph knows, not %.*s",
                    (int)(r->names.entries[p->name].length < 100 ? r->names.entries[p->name].length
                                                                 : 100),
                    r->names.entries[p->name].bytes);
            r->pendings[kept++] = *p; /* the graph around this one may know it at its end */
            continue;
        }
        const scalar *s = &r->scalars[found];
        if (p->i) *p->i = p->truth ? s->i != 0 : s->i;
        if (p->f) *p->f = s->f;
        if (p->expr) *p->expr = s->expr;
        if (p->node) r->nodes[p->node - 1].number = s->expr;
    }
    r->pending_count = kept;
    return true;
}

/* ---- values ---- */

static bool add_pending(reader *r, pending p) {
    if (!GROW(r, r->pendings, r->pending_count, r->pending_room)) return false;
    r->pendings[r->pending_count++] = p;
    return true;
}

/* {"as_name": "sym_size_int"} or the number itself: *name is the entry, -1 where a number stands.
 */
static bool read_named(reader *r, int32_t *name, int64_t *i, double *f) {
    pl_json_text key, text;
    *name = -1;
    *i = 0;
    *f = 0;
    bool truth;
    if (pl_json_peek(&r->json) == '0' || pl_json_peek(&r->json) == '-')
        return pl_json_int(&r->json, i, NULL);
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (pl_json_peek(&r->json) == 'n') {
            pl_json_null(&r->json);
        } else if (PL_JSON_IS(&key, "as_name")) {
            if (pl_json_string(&r->json, &text)) {
                *name = pl_pt2_name(r, &text, space_of(SPACE_SCALARS, r->scope));
                if (*name < 0) return false;
            }
        } else if (PL_JSON_IS(&key, "as_int")) {
            pl_json_int(&r->json, i, NULL);
        } else if (PL_JSON_IS(&key, "as_float")) {
            pl_json_number(&r->json, f);
        } else if (PL_JSON_IS(&key, "as_bool")) {
            if (pl_json_bool(&r->json, &truth)) *i = truth;
        } else {
            pl_json_skip(&r->json);
        }
    }
    return !r->json.failure;
}

bool pl_pt2_args_placed(reader *r, pl_arg *args, size_t count, const char *at) {
    for (size_t i = 0; i < count; i++) {
        pl_arg *a = &args[i];
        if (!a->count ||
            (a->kind != PL_ARG_INT && a->kind != PL_ARG_BOOL && a->kind != PL_ARG_FLOAT))
            continue;
        pending p = {.name = (int32_t)(a->count - 1), .at = at};
        a->count = 0;
        if (a->kind == PL_ARG_FLOAT)
            p.f = &a->f;
        else
            p.i = &a->i;
        if (a->kind == PL_ARG_INT) p.expr = &a->expr;
        p.truth = a->kind == PL_ARG_BOOL;
        if (!add_pending(r, p)) return false;
    }
    return true;
}

bool pl_pt2_number_placed(reader *r, int32_t name, int32_t node, const char *at) {
    return add_pending(r, (pending){.name = name, .node = node + 1, .at = at});
}

int32_t pl_pt2_scalar_name(reader *r) {
    int32_t name;
    int64_t i;
    double f;
    return read_named(r, &name, &i, &f) ? name : -1;
}

static bool add_int(reader *r, int64_t value, int32_t name) {
    if (!GROW(r, r->ints, r->int_count, r->int_room) ||
        !GROW(r, r->int_names, r->int_count, r->int_name_room))
        return false;
    r->ints[r->int_count] = value;
    r->int_names[r->int_count++] = name;
    return true;
}

static bool keep_ints(reader *r, pl_arg *arg, const char *at) {
    size_t count = r->int_count;
    arg->kind = arg->kind == PL_ARG_BOOLS ? PL_ARG_BOOLS : PL_ARG_INTS;
    arg->count = (uint32_t)count;
    arg->ints = pl_arena_array(r->arena, count, sizeof *arg->ints);
    if (!arg->ints) return pl_pt2_no_memory(r);
    if (count) memcpy(arg->ints, r->ints, count * sizeof *arg->ints);
    bool symbolic = false;
    for (size_t i = 0; i < count; i++) symbolic = symbolic || r->int_names[i] >= 0;
    if (!symbolic) return true;
    const pl_expr **exprs = pl_arena_array(r->arena, count, sizeof *exprs);
    if (!exprs) return pl_pt2_no_memory(r);
    if (arg->kind == PL_ARG_INTS) arg->list_expr = exprs;
    for (size_t i = 0; i < count; i++) {
        if (r->int_names[i] < 0) continue;
        pending p = {.i = &arg->ints[i],
                     .expr = &exprs[i],
                     .truth = arg->kind == PL_ARG_BOOLS,
                     .name = r->int_names[i],
                     .at = at};
        if (!add_pending(r, p)) return false;
    }
    return true;
}

static bool read_ints(reader *r, pl_arg *arg, kind k) {
    const char *at = r->json.at;
    r->int_count = 0;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        int64_t i = 0;
        double f;
        bool truth = false;
        int32_t name = -1;
        if (k == K_INTS    ? !pl_json_int(&r->json, &i, NULL)
            : k == K_BOOLS ? !pl_json_bool(&r->json, &truth)
                           : !read_named(r, &name, &i, &f))
            return false;
        if (k == K_BOOLS) i = truth;
        if (k == K_SYM_BOOLS) i = i != 0;
        if (!add_int(r, i, name)) return false;
    }
    arg->kind = k == K_BOOLS || k == K_SYM_BOOLS ? PL_ARG_BOOLS : PL_ARG_INTS;
    return !r->json.failure && keep_ints(r, arg, at);
}

static bool read_floats(reader *r, pl_arg *arg, kind k) {
    const char *at = r->json.at;
    r->float_count = 0;
    r->int_count = 0;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        double f = 0;
        int64_t i;
        int32_t name = -1;
        if (k == K_FLOATS ? !pl_json_number(&r->json, &f) : !read_named(r, &name, &i, &f))
            return false;
        if (!GROW(r, r->floats, r->float_count, r->float_room) || !add_int(r, 0, name))
            return false;
        r->floats[r->float_count++] = f;
    }
    if (r->json.failure) return false;
    arg->kind = PL_ARG_FLOATS;
    arg->count = (uint32_t)r->float_count;
    arg->floats = pl_arena_array(r->arena, r->float_count, sizeof *arg->floats);
    if (!arg->floats) return pl_pt2_no_memory(r);
    if (r->float_count) memcpy(arg->floats, r->floats, r->float_count * sizeof *arg->floats);
    for (size_t n = 0; n < r->int_count; n++) {
        if (r->int_names[n] >= 0 &&
            !add_pending(r, (pending){.f = &arg->floats[n], .name = r->int_names[n], .at = at}))
            return false;
    }
    return true;
}

static bool add_id(reader *r, int32_t id) {
    if (!GROW(r, r->ids, r->id_count, r->id_room)) return false;
    r->ids[r->id_count++] = id;
    return true;
}

/* {"name": "x"}, adds its tensor to ids. */
static bool add_tensor(reader *r) {
    int32_t name;
    const char *at = r->json.at;
    if (!pl_pt2_tensor_name(r, &name)) return false;
    int32_t id = pl_pt2_tensor(r, name, at);
    if (id < 0) return false;
    r->notes[id].used = true;
    return add_id(r, id);
}

/* {"as_tensor": {"name": "x"}} or {"as_none": true}: adds one id, -1 for none. */
static bool add_optional(reader *r) {
    pl_json_text key;
    size_t before = r->id_count;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (pl_json_peek(&r->json) == '{' && PL_JSON_IS(&key, "as_tensor"))
            add_tensor(r);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    return r->id_count > before || add_id(r, -1);
}

static bool add_tensors(reader *r, kind k) {
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        if (k == K_NESTED_TENSORS)
            add_tensors(r, K_TENSORS);
        else if (k == K_OPTIONAL_TENSORS)
            add_optional(r);
        else
            add_tensor(r);
    }
    return !r->json.failure;
}

/* A map from strings to arguments (keyword arguments of some higher-order operators): the tensors
 * in it. */
static bool add_map(reader *r) {
    pl_json_text key, kind_name;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (pl_json_peek(&r->json) != '{') {
            pl_json_skip(&r->json);
            continue;
        }
        pl_json_object(&r->json);
        while (pl_json_key(&r->json, &kind_name)) {
            if (PL_JSON_IS(&kind_name, "as_tensor") && pl_json_peek(&r->json) == '{')
                add_tensor(r);
            else if (PL_JSON_IS(&kind_name, "as_tensors") && pl_json_peek(&r->json) == '[')
                add_tensors(r, K_TENSORS);
            else
                pl_json_skip(&r->json);
        }
    }
    return !r->json.failure;
}

static bool keep_ids(reader *r, pl_arg *arg) {
    arg->kind = PL_ARG_TENSORS;
    arg->count = (uint32_t)r->id_count;
    arg->list = pl_arena_array(r->arena, r->id_count, sizeof *arg->list);
    if (!arg->list) return pl_pt2_no_memory(r);
    if (r->id_count) memcpy(arg->list, r->ids, r->id_count * sizeof *arg->list);
    return true;
}

/* {"name": "submod_1", "graph": {...}}: notes where the graph is, for the node to come back to. */
static bool find_graph(reader *r, const char **graph_at) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "graph") && pl_json_peek(&r->json) == '{') *graph_at = r->json.at;
        pl_json_skip(&r->json);
    }
    return !r->json.failure;
}

static bool read_value(reader *r, pl_arg *arg, kind k, const char **graph_at) {
    pl_json_text text;
    bool truth;
    int32_t name;
    int64_t i;
    double f;
    const char *at = r->json.at;
    *arg = (pl_arg){.name = arg->name, .kind = PL_ARG_OTHER};
    r->id_count = 0;
    switch (k) {
    case K_NONE: arg->kind = PL_ARG_NONE; return pl_json_skip(&r->json);
    case K_TENSOR:
    case K_OPTIONAL_TENSOR:
        if (k == K_TENSOR ? !add_tensor(r) : !add_optional(r)) return false;
        arg->kind = r->ids[0] < 0 ? PL_ARG_NONE : PL_ARG_TENSOR;
        arg->tensor = r->ids[0];
        return true;
    case K_TENSORS:
    case K_OPTIONAL_TENSORS:
    case K_NESTED_TENSORS: return add_tensors(r, k) && keep_ids(r, arg);
    case K_MAP: return add_map(r) && (r->id_count == 0 || keep_ids(r, arg));
    case K_INT: arg->kind = PL_ARG_INT; return pl_json_int(&r->json, &arg->i, NULL);
    case K_INTS:
    case K_BOOLS:
    case K_SYM_INTS:
    case K_SYM_BOOLS: return read_ints(r, arg, k);
    case K_FLOAT: arg->kind = PL_ARG_FLOAT; return pl_json_number(&r->json, &arg->f);
    case K_FLOATS:
    case K_SYM_FLOATS: return read_floats(r, arg, k);
    case K_BOOL:
        arg->kind = PL_ARG_BOOL;
        if (!pl_json_bool(&r->json, &truth)) return false;
        arg->i = truth;
        return true;
    case K_DTYPE: arg->kind = PL_ARG_DTYPE; return pl_json_int(&r->json, &arg->i, NULL);
    case K_ENUM: return pl_json_int(&r->json, &arg->i, NULL);
    case K_STRING:
        arg->kind = PL_ARG_STRING;
        if (!pl_json_string(&r->json, &text)) return false;
        arg->s = pl_pt2_intern(r, &text);
        return arg->s != NULL;
    case K_SYM_INT:
    case K_SYM_BOOL:
    case K_SYM_FLOAT:
        if (!read_named(r, &name, &i, &f)) return false;
        arg->kind = k == K_SYM_INT ? PL_ARG_INT : k == K_SYM_BOOL ? PL_ARG_BOOL : PL_ARG_FLOAT;
        if (k == K_SYM_FLOAT)
            arg->f = f;
        else
            arg->i = k == K_SYM_BOOL ? i != 0 : i;
        if (name < 0) return true;
        arg->count = (uint32_t)name + 1; /* until pl_pt2_args_placed */
        return true;
    case K_GRAPH: return find_graph(r, graph_at);
    }
    return pl_pt2_fail(r, at, "expected another kind of argument");
}

bool pl_pt2_read_arg(reader *r, pl_arg *arg, const char **graph_at) {
    pl_json_text key;
    arg->kind = PL_ARG_OTHER;
    *graph_at = NULL;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        size_t row = 0, rows = sizeof kinds / sizeof *kinds;
        while (row < rows && !pl_json_is(&key, kinds[row].name, kinds[row].length)) row++;
        char next = pl_json_peek(&r->json);
        if (next == 'n' || row == rows)
            pl_json_skip(&r->json);
        else if (!read_value(r, arg, kinds[row].kind, graph_at))
            return false;
    }
    return !r->json.failure;
}
