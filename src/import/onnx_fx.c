/* onnx_fx: see onnx_fx.h. Reading the printed calls; onnx_fx_emit.c appends them to a graph. */
#define _GNU_SOURCE /* memrchr, memmem */
#include "import/onnx_fx.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/number.h"

enum { SPACE_CALLS = 16, SPACE_MANGLED, SPACE_LINES };
enum { MAX_NESTING = 8, MAX_ITEMS = 4096, LINE_LIMIT = 160 };

typedef struct scanner {
    onnx_graph *g;
    pl_arena *scratch;
    const char *at, *end;
    bool no_memory, wrong;
} scanner;

/* ---- words ---- */

static void skip_spaces(scanner *s) {
    while (s->at < s->end && *s->at == ' ') s->at++;
}

static bool take(scanner *s, const char *word) {
    size_t length = strlen(word);
    skip_spaces(s);
    if ((size_t)(s->end - s->at) < length || memcmp(s->at, word, length) != 0) return false;
    s->at += length;
    return true;
}

static bool in_name(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* ---- values ---- */

/* "a.B.c" as torch.fx prints it: "a_b_c". */
static size_t mangle(const char *name, char *out, size_t room) {
    size_t length = 0;
    for (; name[length] && length < room; length++) {
        unsigned char c = (unsigned char)name[length];
        out[length] = isalnum(c) ? (char)tolower(c) : '_';
    }
    return length;
}

static bool mangle_all(onnx_graph *g, pl_arena *scratch) {
    for (size_t i = 0; i < g->initializer_count; i++) {
        char text[512];
        size_t length = mangle(g->values[g->initializers[i]].name, text, sizeof text);
        if (length == sizeof text) continue;
        char *kept = pl_arena_string(scratch, text, length);
        int32_t entry = kept ? pl_names_get(&g->names, kept, length, SPACE_MANGLED) : -1;
        if (entry < 0) return false;
        g->names.entries[entry].value = g->initializers[i];
    }
    return true;
}

/* %p_conv1_weight, %b_..., %c_...: parameters, buffers and constants; else a value. */
static int32_t find_value(onnx_graph *g, const char *name, size_t length) {
    int32_t id = pl_onnx_value(g, name, length);
    if (id >= 0 || length < 3 || name[1] != '_') return id;
    char text[512];
    if (length - 2 >= sizeof text) return -1;
    memcpy(text, name + 2, length - 2);
    text[length - 2] = 0;
    size_t size = mangle(text, text, sizeof text);
    int32_t entry = pl_names_find(&g->names, text, size, SPACE_MANGLED);
    id = entry < 0 ? -1 : g->names.entries[entry].value;
    if (id >= 0) g->values[id].origin = name[0];
    return id;
}

static const struct {
    const char *name;
    pl_dtype dtype;
} dtype_names[] = {{"float32", PL_DT_F32}, {"float16", PL_DT_F16},  {"bfloat16", PL_DT_BF16},
                   {"float64", PL_DT_F64}, {"int64", PL_DT_I64},    {"int32", PL_DT_I32},
                   {"int16", PL_DT_I16},   {"int8", PL_DT_I8},      {"uint8", PL_DT_U8},
                   {"bool", PL_DT_BOOL},   {"complex64", PL_DT_C64}};

static void read_word(scanner *s, fx_arg *out) {
    const char *start = s->at;
    while (s->at < s->end && *s->at != ',' && *s->at != ')' && *s->at != ']' && *s->at != '}' &&
           *s->at != ' ')
        s->at++;
    size_t length = (size_t)(s->at - start);
    char text[64];
    *out = (fx_arg){.kind = FX_NONE};
    if (length == 0) {
        s->wrong = true;
        return;
    }
    if (length >= sizeof text) return;
    memcpy(text, start, length);
    text[length] = 0;
    if (strcmp(text, "None") == 0) return;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        out->kind = FX_BOOL;
        out->i = text[0] == 'T';
        return;
    }
    if (strncmp(text, "torch.", 6) == 0) {
        for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++)
            if (strcmp(text + 6, dtype_names[i].name) == 0) {
                out->kind = FX_DTYPE;
                out->i = (int64_t)dtype_names[i].dtype;
                return;
            }
    }
    char *end;
    long long whole = strtoll(text, &end, 10);
    if (!*end) {
        out->kind = FX_INT;
        out->i = whole;
        return;
    }
    if (strcmp(text, "inf") == 0 || strcmp(text, "-inf") == 0 || strcmp(text, "nan") == 0) {
        out->kind = FX_FLOAT;
        out->f = text[0] == 'n' ? NAN : text[0] == '-' ? -INFINITY : INFINITY;
        return;
    }
    if (pl_number_read(text, length, &out->f)) {
        out->kind = FX_FLOAT;
        return;
    }
    out->kind = FX_TEXT;
    out->text = pl_onnx_text(s->g, start, length);
    s->no_memory |= !out->text;
}

static void read_arg(scanner *s, fx_arg *out, int depth);

/* Items up to `close`, which is taken. */
static void read_items(scanner *s, char close, fx_arg *out, int depth) {
    fx_arg *items = NULL;
    size_t count = 0, room = 0;
    while (!s->wrong && !s->no_memory) {
        skip_spaces(s);
        if (s->at >= s->end || count >= MAX_ITEMS) {
            s->wrong = true;
            return;
        }
        if (*s->at == close) {
            s->at++;
            break;
        }
        fx_arg *grown = pl_arena_grow(s->g->arena, items, &room, count + 1, sizeof *items);
        if (!grown) {
            s->no_memory = true;
            return;
        }
        items = grown;
        read_arg(s, &items[count++], depth + 1);
        if (!take(s, ",") && (s->at >= s->end || *s->at != close)) s->wrong = true;
    }
    out->kind = FX_LIST;
    out->items = items;
    out->count = (uint32_t)count;
}

static void read_arg(scanner *s, fx_arg *out, int depth) {
    *out = (fx_arg){.kind = FX_NONE, .value = -1};
    skip_spaces(s);
    if (s->at >= s->end || depth > MAX_NESTING) {
        s->wrong = true;
        return;
    }
    if (*s->at == '[' || *s->at == '(') {
        char close = *s->at++ == '[' ? ']' : ')';
        read_items(s, close, out, depth);
    } else if (*s->at == '%') {
        const char *start = ++s->at;
        while (s->at < s->end && in_name(*s->at)) s->at++;
        out->kind = FX_VALUE;
        out->value = find_value(s->g, start, (size_t)(s->at - start));
        if (out->value < 0 && s->at - start > 2 && start[0] == 'p' && start[1] == '_') {
            out->text = pl_onnx_text(s->g, start + 2, (size_t)(s->at - start) - 2);
            s->no_memory |= !out->text;
        }
    } else {
        read_word(s, out);
    }
}

/* ---- calls ---- */

/* Gives positional arguments the names of the schema. */
static void name_args(fx_call *call, uint32_t positional) {
    const char *at = pl_onnx_fx_schema(strchr(call->target, '.') + 1);
    for (uint32_t i = 0; i < positional && *at; i++) {
        size_t length = strcspn(at, " ");
        char mark = at[length - 1];
        bool marked = mark == '*' || mark == '%';
        call->args[i].mark = marked ? mark : 0;
        call->args[i].name = pl_onnx_fx_name(at, length - marked);
        at += length + (at[length] == ' ');
    }
}

static fx_call *read_call(onnx_graph *g, pl_arena *scratch, const char *text, size_t size,
                          bool *no_memory) {
    scanner s = {.g = g, .scratch = scratch, .at = text, .end = text + size};
    static const char mark[] = "call_function[target=torch.ops.";
    const char *at = memmem(text, size, mark, sizeof mark - 1);
    if (!at) return NULL;
    s.at = at + sizeof mark - 1;
    const char *start = s.at;
    while (s.at < s.end && in_name(*s.at)) s.at++;
    size_t length = (size_t)(s.at - start);
    if (length < 6 || !memchr(start, '.', length) || !take(&s, "](args = (")) return NULL;
    fx_call *call = pl_arena_alloc(g->arena, sizeof *call);
    if (!call || !(call->target = pl_onnx_text(g, start, length))) {
        *no_memory = true;
        return NULL;
    }
    fx_arg list, keys = {0};
    read_items(&s, ')', &list, 0);
    if (!s.wrong && take(&s, ", kwargs = {")) {
        /* "name: value" is read as two items, the first of them with its colon */
        uint32_t room = list.count;
        while (!s.wrong && !s.no_memory && !take(&s, "}")) {
            skip_spaces(&s);
            const char *name = s.at;
            while (s.at < s.end && in_name(*s.at)) s.at++;
            size_t name_length = (size_t)(s.at - name);
            fx_arg value;
            if (name_length == 0 || !take(&s, ":")) {
                s.wrong = true;
                break;
            }
            read_arg(&s, &value, 0);
            if (value.kind == FX_TEXT && memmem(value.text, strlen(value.text), "contiguous", 10))
                call->contiguous = true;
            value.name = pl_onnx_fx_name(name, name_length);
            size_t capacity = room;
            fx_arg *grown = pl_arena_grow(g->arena, list.items, &capacity,
                                          list.count + keys.count + 1, sizeof *grown);
            if (!grown) {
                s.no_memory = true;
                break;
            }
            room = (uint32_t)capacity;
            list.items = grown;
            list.items[list.count + keys.count++] = value;
            take(&s, ",");
        }
    }
    *no_memory |= s.no_memory;
    if (s.wrong || s.no_memory) return NULL;
    call->args = list.items;
    call->arg_count = list.count + keys.count;
    call->first = call->last = -1;
    name_args(call, list.count);
    return call;
}

/* ---- modules ---- */

/* The next quoted text of a Python list: 'a' or "a". */
static bool next_quoted(const char **at, const char *end, const char **text, size_t *length) {
    while (*at < end && **at != '\'' && **at != '"') (*at)++;
    if (*at >= end) return false;
    char quote = *(*at)++;
    *text = *at;
    while (*at < end && **at != quote) (*at)++;
    if (*at >= end) return false;
    *length = (size_t)(*at - *text);
    (*at)++;
    return true;
}

int32_t pl_onnx_module(onnx_graph *g, pl_arena *scratch, int32_t parent, const char *path,
                       size_t path_length, const char *type, size_t type_length) {
    char *key = pl_arena_alloc(scratch, path_length + sizeof parent + 1);
    if (!key) return -2;
    memcpy(key, &parent, sizeof parent);
    memcpy(key + sizeof parent, path, path_length);
    int32_t entry = pl_names_get(&g->names, key, path_length + sizeof parent, ONNX_SPACE_MODULES);
    if (entry < 0) return -2;
    if (g->names.entries[entry].value >= 0) return g->names.entries[entry].value;
    onnx_module *grown =
        pl_arena_grow(g->arena, g->modules, &g->module_room, g->module_count + 1, sizeof *grown);
    if (!grown) return -2;
    g->modules = grown;
    onnx_module *m = &grown[g->module_count];
    *m = (onnx_module){.parent = parent, .depth = parent < 0 ? 1 : grown[parent].depth + 1};
    m->path = pl_arena_string(g->arena, path, path_length);
    m->type = pl_arena_string(g->arena, type, type_length);
    if (!m->path || !m->type) return -2;
    m->name = m->path;
    const char *outer = parent < 0 ? "" : grown[parent].path;
    size_t length = strlen(outer);
    if (length && strncmp(m->path, outer, length) == 0 && m->path[length] == '.')
        m->name = m->path + length + 1;
    else if (length && strcmp(m->path, outer) == 0)
        m->name = "";
    g->names.entries[entry].value = (int32_t)g->module_count;
    return (int32_t)g->module_count++;
}

/* name_scopes and class_hierarchy, from the model inwards; the last of each is the call itself. */
static bool read_module(onnx_graph *g, pl_arena *scratch, onnx_node *n) {
    if (!n->scopes || !n->classes) return true;
    const char *at = n->scopes, *end = at + n->scopes_size;
    const char *type_at = n->classes, *type_end = type_at + n->classes_size;
    const char *path, *type, *next_path, *next_type;
    size_t path_length, type_length, next_path_length, next_type_length;
    int32_t module = -1;
    if (!next_quoted(&at, end, &path, &path_length) ||
        !next_quoted(&type_at, type_end, &type, &type_length))
        return true;
    for (int depth = 0; depth < 48; depth++) {
        if (!next_quoted(&at, end, &next_path, &next_path_length) ||
            !next_quoted(&type_at, type_end, &next_type, &next_type_length))
            break;
        bool made_up = path_length >= 6 && memcmp(path, "_empty", 6) == 0;
        if (!made_up) {
            module = pl_onnx_module(g, scratch, module, path, path_length, type, type_length);
            if (module == -2) return false;
        }
        path = next_path, path_length = next_path_length;
        type = next_type, type_length = next_type_length;
    }
    n->module = module;
    return true;
}

/* ---- lines ---- */

static const char *last_of(const char *start, const char *before, const char *word, size_t length) {
    while ((size_t)(before - start) >= length) {
        const char *at = memrchr(start, *word, (size_t)(before - start) - length + 1);
        if (!at || memcmp(at, word, length) == 0) return at;
        before = at + length - 1;
    }
    return NULL;
}

/* "modeling_gpt2.py:682: code", from the innermost frame that is not PyTorch's own, as the reader
 * of exported programs has it. */
static bool read_line(onnx_graph *g, pl_arena *scratch, onnx_node *n) {
    static const char file[] = "File \"", own[] = "-packages/torch/";
    if (!n->trace) return true;
    const char *start = n->trace, *end = start + n->trace_size, *frame_end = end;
    const char *frame = last_of(start, end, file, sizeof file - 1);
    while (frame) {
        const char *comma = memchr(frame, ',', (size_t)(frame_end - frame));
        if (!comma || !memmem(frame, (size_t)(comma - frame), own, sizeof own - 1)) break;
        const char *outer = last_of(start, frame, file, sizeof file - 1);
        if (!outer) break;
        frame_end = frame;
        frame = outer;
    }
    if (!frame) return true;
    const char *path = frame + sizeof file - 1, *base = path, *at = path;
    for (; at < frame_end && *at != '"'; at++)
        if (*at == '/') base = at + 1;
    char text[LINE_LIMIT * 2 + 64];
    int length = snprintf(text, 80, "%.*s", (int)(at - base < 64 ? at - base : 64), base);
    static const char line[] = "\", line ";
    if (length < 0) return true;
    size_t used = (size_t)length;
    if ((size_t)(frame_end - at) > sizeof line && memcmp(at, line, sizeof line - 1) == 0) {
        text[used++] = ':';
        for (at += sizeof line - 1; at < frame_end && isdigit((unsigned char)*at) && used < 90;
             at++)
            text[used++] = *at;
    }
    if (at < frame_end && (at = memchr(at, '\n', (size_t)(frame_end - at)))) {
        while (at < frame_end && (*at == '\n' || *at == ' ')) at++;
        text[used++] = ':';
        text[used++] = ' ';
        for (size_t limit = used + LINE_LIMIT; at < frame_end && *at != '\n' && used < limit; at++)
            text[used++] = (unsigned char)*at < ' ' || (unsigned char)*at >= 127 ? '?' : *at;
    }
    for (size_t i = 0; i < used; i++)
        if ((unsigned char)text[i] < ' ' || (unsigned char)text[i] >= 127) text[i] = '?';
    int32_t entry = pl_names_find(&g->names, text, used, SPACE_LINES);
    if (entry < 0) {
        char *kept = pl_arena_string(scratch, text, used);
        entry = kept ? pl_names_get(&g->names, kept, used, SPACE_LINES) : -1;
        if (entry < 0) return false;
        g->names.entries[entry].copy = pl_arena_string(g->arena, text, used);
        if (!g->names.entries[entry].copy) return false;
    }
    n->source = g->names.entries[entry].copy;
    return true;
}

/* ---- parameters that lost their names ---- */

static bool ends_with(const char *text, const char *end) {
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* "encoder_layer_0_mlp_weight" in module encoder.layer.0.mlp: "encoder.layer.0.mlp.weight". */
static const char *path_of(onnx_graph *g, int32_t module, const char *mangled) {
    char path[512], text[512];
    for (int32_t m = module; m >= 0; m = g->modules[m].parent) {
        size_t length = mangle(g->modules[m].path, text, sizeof text);
        if (length == 0 || length >= 400 || strncmp(mangled, text, length) != 0 ||
            mangled[length] != '_')
            continue;
        int total = snprintf(path, sizeof path, "%s.%s", g->modules[m].path, mangled + length + 1);
        if (total > 0 && (size_t)total < sizeof path)
            return pl_arena_string(g->arena, path, (size_t)total);
    }
    return mangled;
}

/* A vector of zeros that the simplifier left out: it is trained all the same. */
static int32_t add_bias(onnx_graph *g, const fx_call *call, size_t *value_room, size_t *room) {
    const onnx_tensor *w = NULL;
    bool linear = strncmp(call->target, "aten.linear", 11) == 0,
         conv = strncmp(call->target, "aten.conv", 9) == 0 &&
                strstr(call->target, "transpose") == NULL;
    bool product = strcmp(call->target, "aten.addmm.default") == 0;
    uint32_t at = product ? 2 : 1;
    if ((!linear && !conv && !product) || call->arg_count < 3 || call->args[at].value < 0)
        return -1;
    w = g->values[call->args[at].value].initializer;
    if (!w || w->dims < 2) return -1;
    onnx_tensor *t = pl_arena_alloc(g->arena, sizeof *t);
    onnx_value *grown =
        pl_arena_grow(g->arena, g->values, value_room, g->value_count + 1, sizeof *grown);
    int32_t *list =
        pl_arena_grow(g->arena, g->initializers, room, g->initializer_count + 1, sizeof *list);
    if (!t || !grown || !list) return -2;
    g->values = grown;
    g->initializers = list;
    bool turned = product || g->values[call->args[at].value].turned;
    *t = (onnx_tensor){.dtype = w->dtype, .dims = 1};
    t->sizes[0] = t->elements = w->sizes[turned ? 1 : 0];
    g->values[g->value_count] = (onnx_value){
        .name = "", .initializer = t, .producer = -1, .uses = 1, .dims = -1, .origin = 'p'};
    g->initializers[g->initializer_count++] = (int32_t)g->value_count;
    return (int32_t)g->value_count++;
}

/* The initializer that a call's nodes take and that no argument names. */
static int32_t unnamed_input(const onnx_graph *g, const fx_call *call, const fx_arg *arg) {
    bool bias = ends_with(arg->text, "bias");
    for (int32_t i = call->first; i <= call->last; i++) {
        const onnx_node *n = &g->nodes[i];
        for (uint32_t k = 0; n->fx == call && k < n->input_count; k++) {
            int32_t id = n->inputs[k];
            const onnx_tensor *t = id < 0 ? NULL : g->values[id].initializer;
            if (!t || t->elements < 2 || !pl_dtype_is_float(t->dtype) || (bias && t->dims != 1))
                continue;
            bool named = false;
            for (uint32_t a = 0; a < call->arg_count; a++)
                named |= call->args[a].kind == FX_VALUE && call->args[a].value == id;
            if (!named) return id;
        }
    }
    return -1;
}

/* Whether a linear layer's weight goes into a product as it is: the exporter has transposed it. */
static bool is_turned(const onnx_graph *g, const fx_call *call, int32_t id) {
    if (strncmp(call->target, "aten.linear", 11) != 0) return false;
    for (int32_t i = call->first; i <= call->last; i++) {
        const onnx_node *n = &g->nodes[i];
        if (n->fx != call || n->input_count < 2 || n->inputs[1] != id) continue;
        if (strcmp(n->op, "MatMul") == 0) return true;
        if (strcmp(n->op, "Gemm") == 0) return !pl_onnx_int(n, "transB", 0);
    }
    return false;
}

bool pl_onnx_fx_bind(onnx_graph *g) {
    size_t value_room = g->value_count, room = g->initializer_count;
    for (size_t i = 0; i < g->node_count; i++) {
        fx_call *call = (fx_call *)(uintptr_t)g->nodes[i].fx;
        if (!call || call->last != (int32_t)i || g->nodes[i].folded_norm) continue;
        for (uint32_t a = 0; a < call->arg_count; a++) {
            fx_arg *arg = &call->args[a];
            if (arg->kind != FX_VALUE || arg->value >= 0 || !arg->text) continue;
            int32_t id = unnamed_input(g, call, arg);
            if (id < 0 && ends_with(arg->text, "bias")) id = add_bias(g, call, &value_room, &room);
            if (id == -2) return false;
            if (id < 0) continue;
            arg->value = id;
            g->values[id].origin = 'p';
            g->values[id].turned = is_turned(g, call, id);
            g->values[id].name = path_of(g, g->nodes[i].module, arg->text);
            if (!g->values[id].name) return false;
        }
    }
    return true;
}

/* ---- groups ---- */

/* Which values of a call's nodes others use. */
static bool find_outputs(onnx_graph *g, pl_arena *scratch, fx_call **calls, size_t count) {
    int32_t *inside = pl_arena_array(scratch, g->value_count + 1, sizeof *inside);
    if (!inside) return false;
    for (size_t i = 0; i < g->node_count; i++)
        for (uint32_t k = 0; k < g->nodes[i].input_count; k++) {
            int32_t id = g->nodes[i].inputs[k];
            int32_t from = id < 0 ? -1 : g->values[id].producer;
            if (from >= 0 && g->nodes[i].fx && g->nodes[from].fx == g->nodes[i].fx) inside[id]++;
        }
    for (int pass = 0; pass < 2; pass++) {
        for (size_t i = 0; pass == 1 && i < count; i++) {
            calls[i]->outputs =
                pl_arena_array(g->arena, calls[i]->output_count + 1, sizeof *calls[i]->outputs);
            if (!calls[i]->outputs) return false;
            calls[i]->output_count = 0;
        }
        for (size_t i = 0; i < g->node_count; i++) {
            fx_call *call = (fx_call *)(uintptr_t)g->nodes[i].fx;
            for (uint32_t k = 0; call && k < g->nodes[i].output_count; k++) {
                int32_t id = g->nodes[i].outputs[k];
                if (id < 0 || g->values[id].uses <= inside[id]) continue;
                if (pass == 1) call->outputs[call->output_count] = id;
                call->output_count++;
            }
        }
    }
    return true;
}

bool pl_onnx_fx_read(onnx_graph *g, pl_arena *scratch) {
    fx_call **calls = pl_arena_array(scratch, g->node_count + 1, sizeof *calls);
    size_t count = 0;
    if (!calls || !mangle_all(g, scratch)) return false;
    for (size_t i = 0; i < g->node_count; i++) {
        onnx_node *n = &g->nodes[i];
        if (!read_module(g, scratch, n) || !read_line(g, scratch, n)) return false;
        if (!n->fx_text || n->fx_size < 2 || n->fx_text[0] != '%') continue;
        int32_t entry = pl_names_get(&g->names, n->fx_text, n->fx_size, SPACE_CALLS);
        if (entry < 0) return false;
        if (g->names.entries[entry].value < 0) {
            bool no_memory = false;
            fx_call *call = read_call(g, scratch, n->fx_text, n->fx_size, &no_memory);
            if (no_memory) return false;
            calls[count] = call;
            g->names.entries[entry].value = (int32_t)count++;
            if (call) call->first = (int32_t)i;
        }
        fx_call *call = calls[g->names.entries[entry].value];
        if (!call) continue;
        call->last = (int32_t)i;
        call->member_count++;
        n->fx = call;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (calls[i]) calls[kept++] = calls[i];
    return find_outputs(g, scratch, calls, kept);
}
