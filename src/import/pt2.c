/* pt2: see pt2.h. The whole of a model.json: what the readers of its parts share, the signature
 * that tells inputs, parameters and buffers apart, symbols and their ranges, and the checks that
 * make a graph sound.
 *
 * Rules: torch/_export/serde/schema.py (8.0 to 8.17). Nodes are pt2_graph.c's, arguments and sizes
 * pt2_args.c's, modules and lines of code pt2_module.c's. Left out: weights, and what training does
 * not need of the signature. */
#include "import/pt2.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/text.h"
#include "import/pt2_reader.h"
#include "import/whatis.h"
#include "import/zip.h"

enum {
    SCHEMA_MAJOR = 8,
    /* what exports have, about: room taken at the start saves growing, and pages touched for
       nothing */
    BYTES_A_NAME = 512,
    BYTES_A_TENSOR = 1200,
};

/* ---- what the files share ---- */

bool pl_pt2_fail(reader *r, const char *at, const char *format, ...) {
    if (r->json.failure) return false;
    va_list args;
    va_start(args, format);
    vsnprintf(r->message, sizeof r->message, format, args);
    va_end(args);
    return pl_json_fail_at(&r->json, at, r->message);
}

bool pl_pt2_no_memory(reader *r) {
    r->no_memory = true;
    return pl_json_fail(&r->json, "more memory");
}

bool pl_pt2_grow(reader *r, void *array, size_t *room, size_t need, size_t size) {
    void **place = array;
    void *grown = pl_arena_grow(r->scratch, *place, room, need, size);
    if (grown) *place = grown;
    return grown != NULL;
}

int32_t pl_pt2_name(reader *r, const pl_json_text *text, uint64_t space) {
    const char *bytes = text->bytes;
    size_t length = text->length;
    if (text->escaped) bytes = pl_json_copy(r->scratch, text, &length);
    int32_t entry = bytes ? pl_names_get(&r->names, bytes, length, space) : -1;
    if (entry < 0) pl_pt2_no_memory(r);
    return entry;
}

const char *pl_pt2_intern(reader *r, const pl_json_text *text) {
    int32_t entry = pl_pt2_name(r, text, SPACE_STRINGS);
    if (entry < 0) return NULL;
    pl_name *name = &r->names.entries[entry];
    if (!name->copy) {
        pl_json_text plain = {name->bytes, name->length, false};
        name->copy = pl_json_copy(r->arena, &plain, NULL);
        if (!name->copy) pl_pt2_no_memory(r);
    }
    return name->copy;
}

int32_t pl_pt2_tensor(reader *r, int32_t name, const char *at) {
    pl_name *entry = &r->names.entries[name];
    if (entry->value >= 0) return entry->value;
    if (r->tensor_count >= INT32_MAX - 1) return pl_pt2_fail(r, at, "expected fewer tensors"), -1;
    pl_json_text text = {entry->bytes, entry->length, false};
    char *copy = pl_json_copy(r->arena, &text, NULL);
    if (!copy || !GROW(r, r->tensors, r->tensor_count, r->tensor_room) ||
        !GROW(r, r->notes, r->tensor_count, r->note_room))
        return pl_pt2_no_memory(r), -1;
    r->tensors[r->tensor_count] = (pl_tensor){.name = copy, .producer = -1, .tied = -1};
    r->notes[r->tensor_count] = (tensor_note){.mention = at};
    entry->value = (int32_t)r->tensor_count;
    return (int32_t)r->tensor_count++;
}

/* ---- the signature ---- */

typedef enum spec_kind {
    SPEC_PARAMETER,
    SPEC_BUFFER,
    SPEC_CONSTANT,
    SPEC_INPUT,
    SPEC_OUTPUT,
    SPEC_MUTATION,
} spec_kind;

/* InputSpec and OutputSpec of schema.py; those not here (custom objects, tokens, gradients of joint
 * graphs, constant inputs) hold no tensor that training has to keep. path: the key that names it in
 * the model. */
static const struct spec {
    const char *name, *path;
    spec_kind kind;
    bool input;
} specs[] = {
    {"parameter", "parameter_name", SPEC_PARAMETER, true},
    {"buffer", "buffer_name", SPEC_BUFFER, true},
    {"tensor_constant", "tensor_constant_name", SPEC_CONSTANT, true},
    {"user_input", "", SPEC_INPUT, true},
    {"user_output", "", SPEC_OUTPUT, false},
    {"loss_output", "", SPEC_OUTPUT, false},
    {"buffer_mutation", "buffer_name", SPEC_MUTATION, false},
    {"parameter_mutation", "parameter_name", SPEC_MUTATION, false},
    {"user_input_mutation", "user_input_name", SPEC_MUTATION, false},
};

/* {"name": "x"} of a TensorArgument, or {"as_tensor": {"name": "x"}} of an Argument: an entry, -1:
 * no tensor. */
static bool read_spec_arg(reader *r, int32_t *name) {
    pl_json_text key, text = {0};
    *name = -1;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        char next = pl_json_peek(&r->json);
        if (PL_JSON_IS(&key, "name") && next == '"')
            pl_json_string(&r->json, &text);
        else if (PL_JSON_IS(&key, "as_tensor") && next == '{')
            pl_pt2_tensor_name(r, name);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    if (text.bytes) *name = pl_pt2_name(r, &text, space_of(SPACE_TENSORS, 0));
    return !r->json.failure;
}

static bool add_ids(reader *r, int32_t **array, size_t *count, size_t *room, int32_t id) {
    if (*count >= *room && !pl_pt2_grow(r, array, room, *count + 1, sizeof **array))
        return pl_pt2_no_memory(r);
    (*array)[(*count)++] = id;
    return true;
}

static bool apply_input(reader *r, const struct spec *spec, int32_t id, const pl_json_text *path,
                        bool persistent, const char *at) {
    pl_tensor *t = &r->tensors[id];
    if (t->role != PL_ROLE_VALUE)
        return pl_pt2_fail(r, at, "expected tensor %.100s once among the inputs", t->name);
    if (t->producer >= 0)
        return pl_pt2_fail(r, at, "expected tensor %.100s to be an input, not made by a node",
                           t->name);
    if (spec->kind == SPEC_INPUT) {
        t->role = PL_ROLE_INPUT;
        return add_ids(r, &r->inputs, &r->input_count, &r->input_room, id);
    }
    t->role = spec->kind == SPEC_PARAMETER ? PL_ROLE_PARAMETER
              : spec->kind == SPEC_BUFFER  ? PL_ROLE_BUFFER
                                           : PL_ROLE_CONSTANT;
    t->persistent = spec->kind == SPEC_BUFFER && persistent;
    if (spec->kind == SPEC_CONSTANT) return true;
    if (!path->bytes) return pl_pt2_fail(r, at, "expected %s", spec->path);
    int32_t entry = pl_pt2_name(r, path, SPACE_PATHS);
    if (entry < 0 || !(t->path = pl_pt2_intern(r, path))) return false;
    r->names.entries[entry].value = id;
    return true;
}

static bool apply_mutation(reader *r, const struct spec *spec, int32_t id, const pl_json_text *path,
                           const char *at) {
    if (!path->bytes) return pl_pt2_fail(r, at, "expected %s", spec->path);
    bool by_name = !strcmp(spec->path, "user_input_name");
    int32_t entry = pl_pt2_name(r, path, by_name ? space_of(SPACE_TENSORS, 0) : SPACE_PATHS);
    if (entry < 0) return false;
    int32_t changed = r->names.entries[entry].value;
    if (changed < 0)
        return pl_pt2_fail(r, at, "expected the name of an input or buffer, not %.*s",
                           (int)(path->length < 100 ? path->length : 100), path->bytes);
    if (!GROW(r, r->mutations, r->mutation_count, r->mutation_room)) return false;
    r->mutations[r->mutation_count][0] = changed;
    r->mutations[r->mutation_count++][1] = id;
    return true;
}

static bool read_spec(reader *r, const struct spec *spec) {
    pl_json_text key, path = {0};
    const char *at = r->json.at;
    int32_t name = -1;
    bool persistent = true;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        char next = pl_json_peek(&r->json);
        if (PL_JSON_IS(&key, "arg") && next == '{')
            read_spec_arg(r, &name);
        else if (PL_JSON_IS(&key, "persistent") && next != 'n')
            pl_json_bool(&r->json, &persistent);
        else if (*spec->path && pl_json_is(&key, spec->path, strlen(spec->path)))
            pl_json_string(&r->json, &path);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    if (name < 0) { /* a number, a string, None */
        if (spec->kind == SPEC_OUTPUT)
            return add_ids(r, &r->outputs, &r->output_count, &r->output_room, -1);
        return spec->kind == SPEC_INPUT || pl_pt2_fail(r, at, "expected the name of a tensor");
    }
    int32_t id = pl_pt2_tensor(r, name, at);
    if (id < 0) return false;
    if (spec->input) return apply_input(r, spec, id, &path, persistent, at);
    r->notes[id].used = true;
    if (spec->kind == SPEC_MUTATION) return apply_mutation(r, spec, id, &path, at);
    return add_ids(r, &r->outputs, &r->output_count, &r->output_room, id);
}

static bool read_specs(reader *r, bool input) {
    pl_json_text key;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &key)) {
            const struct spec *spec = NULL;
            for (size_t i = 0; i < sizeof specs / sizeof *specs && !spec; i++)
                if (specs[i].input == input &&
                    pl_json_is(&key, specs[i].name, strlen(specs[i].name)))
                    spec = &specs[i];
            if (spec && pl_json_peek(&r->json) == '{')
                read_spec(r, spec);
            else
                pl_json_skip(&r->json);
        }
    }
    return !r->json.failure;
}

static bool read_signature(reader *r) {
    pl_json_text key;
    const char *at = r->json.at;
    bool inputs = false, outputs = false;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "input_specs"))
            inputs = read_specs(r, true);
        else if (PL_JSON_IS(&key, "output_specs"))
            outputs = read_specs(r, false);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    return (inputs && outputs) || pl_pt2_fail(r, at, "expected input_specs and output_specs");
}

/* ---- the top of the file ---- */

/* The signature speaks of the graph's tensors: where it stands first, it waits. */
static bool read_graph_module(reader *r) {
    pl_json_text key;
    const char *at = r->json.at, *signature = NULL;
    bool has_graph = false, has_signature = false;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "graph")) {
            if (has_graph) return pl_pt2_fail(r, r->json.at, "expected one graph, not two");
            has_graph = pl_pt2_read_model_graph(r);
        } else if (PL_JSON_IS(&key, "signature")) {
            if (has_signature || signature)
                return pl_pt2_fail(r, r->json.at, "expected one signature, not two");
            if (has_graph) {
                has_signature = read_signature(r);
            } else {
                signature = r->json.at;
                pl_json_skip(&r->json);
            }
        } else {
            pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    if (!has_graph || (!has_signature && !signature))
        return pl_pt2_fail(r, at, "expected graph and signature");
    if (signature) {
        pl_json after = r->json;
        r->json.at = signature;
        r->json.depth++;
        if (!read_signature(r)) return false;
        r->json = after;
    }
    return true;
}

static bool read_version(reader *r) {
    pl_json_text key;
    const char *at = r->json.at;
    r->schema_major = r->schema_minor = 0;
    if (pl_json_peek(&r->json) == '0') {
        pl_json_int(&r->json, &r->schema_major, NULL);
    } else if (pl_json_object(&r->json)) {
        while (pl_json_key(&r->json, &key)) {
            if (PL_JSON_IS(&key, "major"))
                pl_json_int(&r->json, &r->schema_major, NULL);
            else if (PL_JSON_IS(&key, "minor"))
                pl_json_int(&r->json, &r->schema_minor, NULL);
            else
                pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    return r->schema_major == SCHEMA_MAJOR ||
           pl_pt2_fail(r, at, "expected schema version %d (PyTorch 2.6 to 2.13), not %lld.%lld",
                       SCHEMA_MAJOR, (long long)r->schema_major, (long long)r->schema_minor);
}

/* min_val and max_val: an integer, null, or a word for infinity. Sizes are never negative. */
static bool read_bound(reader *r, int64_t *bound) {
    char next = pl_json_peek(&r->json);
    if (next == 'n') return pl_json_null(&r->json);
    bool infinite = next == '-' && r->json.end - r->json.at > 1 && r->json.at[1] == 'I';
    if ((next == '0' || next == '-') && !infinite) {
        int64_t value;
        if (!pl_json_int(&r->json, &value, NULL)) return false;
        *bound = value < 0 ? 0 : value;
        return true;
    }
    return pl_json_skip(&r->json);
}

static bool read_ranges(reader *r) {
    pl_json_text key, inner;
    if (pl_json_peek(&r->json) != '{') return pl_json_skip(&r->json);
    pl_json_object(&r->json);
    while (pl_json_key(&r->json, &key)) {
        int64_t least = 0, most = INT64_MAX;
        const char *at = r->json.at;
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &inner)) {
            if (PL_JSON_IS(&inner, "min_val"))
                read_bound(r, &least);
            else if (PL_JSON_IS(&inner, "max_val"))
                read_bound(r, &most);
            else
                pl_json_skip(&r->json);
        }
        if (r->json.failure) return false;
        if (least > most) return pl_pt2_fail(r, at, "expected min_val at or below max_val");
        int32_t entry = pl_pt2_name(r, &key, SPACE_SYMBOLS);
        if (entry < 0) return false;
        int32_t symbol = r->names.entries[entry].value;
        if (symbol < 0) continue; /* in no size */
        r->symbols[symbol].least = least;
        r->symbols[symbol].most = most;
    }
    return !r->json.failure;
}

static bool read_model(reader *r) {
    pl_json_text key, version = {0};
    const char *ranges = NULL;
    bool has_graph = false;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "graph_module")) {
            if (has_graph) return pl_pt2_fail(r, r->json.at, "expected one graph_module, not two");
            has_graph = read_graph_module(r);
        } else if (PL_JSON_IS(&key, "schema_version")) {
            read_version(r);
        } else if (PL_JSON_IS(&key, "range_constraints")) {
            ranges = r->json.at;
            pl_json_skip(&r->json);
        } else if (PL_JSON_IS(&key, "torch_version") && pl_json_peek(&r->json) == '"') {
            pl_json_string(&r->json, &version);
        } else {
            pl_json_skip(&r->json);
        }
    }
    if (!pl_json_end(&r->json)) return false;
    if (!has_graph || r->schema_major < 0)
        return pl_pt2_fail(r, r->json.begin,
                           "expected a model of torch.export: graph_module and schema_version");
    if (version.bytes && !(r->torch_version = pl_pt2_intern(r, &version))) return false;
    if (ranges) {
        r->json.at = ranges;
        r->json.depth = 1;
        if (!read_ranges(r)) return false;
    }
    return true;
}

/* ---- finishing ---- */

static bool missing_tensor(reader *r, int32_t id) {
    return pl_pt2_fail(r, r->notes[id].mention,
                       "expected a tensor that the graph knows, not %.100s", r->tensors[id].name);
}

static bool check_use(reader *r, int32_t id, int32_t node) {
    if (id < 0) return true;
    const pl_tensor *t = &r->tensors[id];
    if (!r->notes[id].described) return missing_tensor(r, id);
    if (t->role == PL_ROLE_VALUE && t->producer < 0) return missing_tensor(r, id);
    if (t->producer >= node)
        return pl_pt2_fail(r,
                           node < (int32_t)r->node_count ? r->node_at[node] : r->notes[id].mention,
                           "expected tensor %.100s to be made before it is used", t->name);
    return true;
}

/* Each operand is an input or made by an earlier node, and has a shape. */
static bool check_order(reader *r) {
    for (size_t n = 0; n < r->node_count; n++) {
        pl_node *node = &r->nodes[n];
        for (uint32_t a = 0; a < node->arg_count; a++) {
            const pl_arg *arg = &node->args[a];
            if (arg->kind == PL_ARG_TENSOR && !check_use(r, arg->tensor, (int32_t)n)) return false;
            for (uint32_t k = 0; arg->kind == PL_ARG_TENSORS && k < arg->count; k++)
                if (!check_use(r, arg->list[k], (int32_t)n)) return false;
        }
        /* a result without a shape that nobody takes is not used */
        for (uint32_t k = 0; k < node->output_count; k++) {
            int32_t id = node->outputs[k];
            if (id < 0 || r->notes[id].described) continue;
            if (r->notes[id].used) return missing_tensor(r, id);
            node->outputs[k] = -1;
        }
    }
    int32_t end = (int32_t)r->node_count;
    for (size_t i = 0; i < r->output_count; i++)
        if (!check_use(r, r->outputs[i], end)) return false;
    for (size_t i = 0; i < r->input_count; i++)
        if (!check_use(r, r->inputs[i], end)) return false;
    for (size_t i = 0; i < r->mutation_count; i++)
        if (!check_use(r, r->mutations[i][0], end) || !check_use(r, r->mutations[i][1], end))
            return false;
    for (size_t i = 0; i < r->tensor_count; i++)
        if (r->tensors[i].role != PL_ROLE_VALUE && !r->notes[i].described)
            return missing_tensor(r, (int32_t)i);
    return true;
}

/* Numbers for sizes whose expression came without one: from the symbols' own, or the least they may
 * be. */
static bool fill_hints(reader *r) {
    if (r->expr_count == 0) return true;
    int64_t *values = pl_arena_array(r->scratch, r->symbol_count, sizeof *values);
    int64_t *known = pl_arena_array(r->scratch, r->expr_count, sizeof *known);
    if (!values || !known) return pl_pt2_no_memory(r);
    for (size_t i = 0; i < r->symbol_count; i++) {
        const pl_symbol *s = &r->symbols[i];
        values[i] = s->hint >= 0 ? s->hint : s->least > 1 ? s->least : 1;
    }
    for (size_t i = 0; i < r->expr_count; i++) {
        const char *failure;
        known[i] = r->exprs[i].hint;
        if (known[i] < 0 &&
            (!pl_expr_value(r->exprs[i].expr, values, &known[i], &failure) || known[i] < 0))
            known[i] = 1;
    }
    for (size_t i = 0; i < r->tensor_count; i++) {
        pl_tensor *t = &r->tensors[i];
        if (!t->size_expr && !t->stride_expr && !t->offset_expr) continue;
        for (int k = 0; k < t->dims; k++) {
            if (t->sizes[k] < 0) t->sizes[k] = known[pl_expr_index(t->size_expr[k])];
            if (t->strides[k] < 0) t->strides[k] = known[pl_expr_index(t->stride_expr[k])];
        }
        if (t->offset < 0) t->offset = known[pl_expr_index(t->offset_expr)];
        if (!pl_tensor_fits(t))
            return pl_pt2_fail(r, r->notes[i].mention,
                               "expected tensor %.100s to have at most 2^56 bytes", t->name);
    }
    return true;
}

static int32_t symbol_at(const pl_tensor *t, int dim) {
    return t->size_expr && dim < t->dims && t->size_expr[dim] ? pl_expr_symbol(t->size_expr[dim])
                                                              : -1;
}

/* The batch is the first dimension of the first user input that has a symbol there; the sequence
 * the second dimension of a table of integers (token ids, masks), or else of several inputs at
 * once. */
static void name_roles(reader *r) {
    int32_t batch = -1, seq = -1;
    for (size_t i = 0; i < r->input_count && batch < 0; i++)
        batch = symbol_at(&r->tensors[r->inputs[i]], 0);
    for (size_t i = 0; i < r->input_count && seq < 0; i++) {
        const pl_tensor *t = &r->tensors[r->inputs[i]];
        if (t->dims == 2 && !pl_dtype_is_float(t->dtype) && symbol_at(t, 1) != batch)
            seq = symbol_at(t, 1);
    }
    for (size_t i = 0; i + 1 < r->input_count && seq < 0; i++) {
        int32_t one = symbol_at(&r->tensors[r->inputs[i]], 1);
        for (size_t k = i + 1;
             k < r->input_count && k < i + 8 && seq < 0 && one >= 0 && one != batch; k++)
            if (symbol_at(&r->tensors[r->inputs[k]], 1) == one) seq = one;
    }
    if (batch >= 0) r->symbols[batch].role = "batch";
    if (seq >= 0) r->symbols[seq].role = "seq";
}

static void *keep(reader *r, const void *array, size_t count, size_t size) {
    void *copy = pl_arena_array(r->arena, count, size);
    if (copy && count) memcpy(copy, array, count * size);
    if (!copy) pl_pt2_no_memory(r);
    return copy;
}

static pl_graph *finish(reader *r, const char *name) {
    if (!check_order(r) || !fill_hints(r)) return NULL;
    name_roles(r);
    pl_pt2_find_ties(r);
    pl_graph *g = pl_arena_alloc(r->arena, sizeof *g);
    if (!g) return pl_pt2_no_memory(r), NULL;
    *g = (pl_graph){
        .arena = r->arena,
        .name = pl_short_name(r->arena, name),
        .torch_version = r->torch_version ? r->torch_version : "",
        .tensors = keep(r, r->tensors, r->tensor_count, sizeof *r->tensors),
        .nodes = keep(r, r->nodes, r->node_count, sizeof *r->nodes),
        .modules = keep(r, r->modules, r->module_count, sizeof *r->modules),
        .tensor_count = (int32_t)r->tensor_count,
        .node_count = (int32_t)r->node_count,
        .module_count = (int32_t)r->module_count,
        .inputs = keep(r, r->inputs, r->input_count, sizeof *r->inputs),
        .outputs = keep(r, r->outputs, r->output_count, sizeof *r->outputs),
        .input_count = (int32_t)r->input_count,
        .output_count = (int32_t)r->output_count,
        .mutations = keep(r, r->mutations, r->mutation_count, sizeof *r->mutations),
        .mutation_count = (int32_t)r->mutation_count,
        .symbols = keep(r, r->symbols, r->symbol_count, sizeof *r->symbols),
        .symbol_count = (int32_t)r->symbol_count,
        .exprs = pl_arena_array(r->arena, r->expr_count, sizeof *g->exprs),
        .expr_count = (int32_t)r->expr_count,
    };
    if (!g->name || !g->exprs) pl_pt2_no_memory(r);
    if (r->json.failure) return NULL;
    for (size_t i = 0; i < r->expr_count; i++) g->exprs[i] = r->exprs[i].expr;
    return g;
}

/* ---- entry ---- */

/* scratch is freed here. where: the file, or the archive's member. */
static pl_status import_json(pl_graph **out, const void *bytes, size_t size, const char *name,
                             const char *where, const pl_reading *reading, pl_arena *scratch,
                             pl_error *err) {
    pl_arena *arena = pl_arena_new(reading->budget);
    reader *r = scratch ? pl_arena_alloc(scratch, sizeof *r) : NULL;
    if (r) r->scratch = scratch;
    if (!arena || !r || !pl_names_open(&r->names, scratch, size / BYTES_A_NAME + 16) ||
        !pl_pt2_grow(r, &r->tensors, &r->tensor_room, size / BYTES_A_TENSOR + 16,
                     sizeof *r->tensors)) {
        pl_arena_free(&arena);
        pl_arena_free(&scratch);
        return pl_budget_fail(err, reading->budget, where);
    }
    pl_json_open(&r->json, bytes, size, reading->depth_limit);
    r->arena = arena;
    r->schema_major = -1;
    pl_status status = PL_OK;
    pl_graph *graph = read_model(r) ? finish(r, name) : NULL;
    if (graph) {
        *out = graph;
    } else {
        if (r->no_memory)
            status = pl_budget_fail(err, reading->budget, where);
        else
            status = pl_fail(err, PL_INPUT, where, r->json.failure_at, "%s%s",
                             strncmp(r->json.failure, "expected", 8) ? "expected " : "",
                             r->json.failure);
        pl_arena_free(&arena);
    }
    pl_arena_free(&scratch);
    return status;
}

pl_status pl_import_pt2_json(pl_graph **out, const void *bytes, size_t size, const char *name,
                             const pl_reading *reading, pl_error *err) {
    *out = NULL;
    const pl_reading how = pl_reading_of(reading);
    return import_json(out, bytes, size, name, name, &how, pl_arena_new(how.budget), err);
}

static bool ends_with(const pl_zip_member *m, const char *ending) {
    size_t length = strlen(ending);
    return m->name_length >= length && !memcmp(m->name + m->name_length - length, ending, length) &&
           (m->name_length == length || m->name[m->name_length - length - 1] == '/');
}

/* models/model.json before another models/NAME.json before the older format's member. */
static int member_rank(const pl_zip_member *m) {
    if (ends_with(m, "models/model.json")) return 3;
    if (m->name_length > 5 && !memcmp(m->name + m->name_length - 5, ".json", 5)) {
        const char *slash = m->name + m->name_length;
        while (slash > m->name && slash[-1] != '/') slash--;
        pl_zip_member folder = {.name = m->name,
                                .name_length = slash > m->name ? (size_t)(slash - m->name - 1) : 0};
        if (ends_with(&folder, "models")) return 2;
    }
    return ends_with(m, "serialized_exported_program.json");
}

/* scratch is freed here, and holds what is read of the archive. */
static pl_status import_zip(pl_graph **out, pl_zip *zip, const char *name,
                            const pl_reading *reading, pl_arena *scratch, pl_error *err) {
    int64_t directory = (int64_t)zip->at;
    pl_zip_member best = {0}, member;
    int best_rank = 0;
    const char *kind = NULL; /* where it is no model */
    pl_status status = PL_OK;
    for (bool found = true;;) {
        status = pl_zip_next(zip, &member, &found, err);
        if (status != PL_OK || !found) break;
        int rank = member_rank(&member);
        kind = pl_whatis_member(member.name, member.name_length, kind);
        if (rank > best_rank) {
            best = member;
            best_rank = rank;
        }
    }
    if (status == PL_OK && best_rank == 0)
        status =
            kind ? pl_fail(err, PL_INPUT, name, -1, "%s", kind)
                 : pl_fail(err, PL_INPUT, name, directory,
                           "%s (expected models/model.json or serialized_exported_program.json)",
                           pl_whatis_archive);
    char where[sizeof err->where];
    snprintf(where, sizeof where, "%s:%.*s", name,
             (int)(best.name_length < 200 ? best.name_length : 200), best.name);
    for (char *c = where; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    const void *json;
    size_t json_size;
    if (status == PL_OK) status = pl_zip_read(zip, &best, scratch, where, &json, &json_size, err);
    if (status == PL_OK)
        return import_json(out, json, json_size, name, where, reading, scratch, err);
    pl_arena_free(&scratch);
    return status;
}

static pl_status open_and_import(pl_graph **out, const void *bytes, size_t size,
                                 const pl_file *file, const char *name, const pl_reading *reading,
                                 pl_error *err) {
    *out = NULL;
    const pl_reading how = pl_reading_of(reading);
    pl_arena *scratch = pl_arena_new(how.budget);
    if (!scratch) return pl_budget_fail(err, how.budget, name);
    pl_zip zip;
    pl_status status = file ? pl_zip_open_file(&zip, file, scratch, name, err)
                            : pl_zip_open(&zip, bytes, size, name, err);
    if (status == PL_OK) return import_zip(out, &zip, name, &how, scratch, err);
    pl_arena_free(&scratch);
    return status;
}

pl_status pl_import_pt2(pl_graph **out, const void *bytes, size_t size, const char *name,
                        const pl_reading *reading, pl_error *err) {
    return open_and_import(out, bytes, size, NULL, name, reading, err);
}

pl_status pl_import_pt2_file(pl_graph **out, const pl_file *file, const char *name,
                             const pl_reading *reading, pl_error *err) {
    return open_and_import(out, NULL, 0, file, name, reading, err);
}
