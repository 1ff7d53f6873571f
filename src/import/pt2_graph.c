/* pt2_graph: graphs, nodes and the tensors between them.
 *
 * A node's operands and results are names; a name belongs to its graph. Subgraphs that only wrap
 * (see wrappers) are read as if their nodes stood in the graph around them: their inputs are the
 * wrapper's operands, the wrapper's results are their outputs. As the subgraph stands in the file
 * before the operands, it is passed over at first and read when the node is known.
 *
 * Left out: the graphs of other higher-order operators (cond, map, while_loop); the node stays.
 * Arithmetic on sizes (_operator.mul of two symbolic integers, aten.sym_size) leaves no node: its
 * results are expressions. */
#include "import/pt2_reader.h"

#include <string.h>

#include "core/checked.h"

/* graph: which argument is the graph; the operands follow it after `skip` more. */
static const struct wrapper {
    const char *target;
    uint32_t graph, skip;
} wrappers[] = {
    {"higher_order.wrap_with_set_grad_enabled", 1, 0}, /* (enabled, graph, operands...) */
    {"higher_order.wrap_with_autocast", 4,
     0}, /* (device, dtype, enabled, cache, graph, operands...) */
    {"higher_order.tag_activation_checkpoint", 0, 0}, /* (graph, operands...) */
    {"higher_order.invoke_subgraph", 0, 1},           /* (graph, name, operands...) */
};

/* One graph's inputs and outputs, when it is inlined. */
typedef struct inlined {
    const int32_t *operands; /* tensor ids, -1: no tensor */
    size_t operand_count, taken;
    pl_json_text *outputs; /* names; empty: no tensor */
    size_t output_count, output_room;
} inlined;

static bool read_graph(reader *r, inlined *in);

bool pl_pt2_tensor_name(reader *r, int32_t *name) {
    static const char plain[] = "{\"name\": \"";
    pl_json_text key, text = {0};
    const char *at = r->json.at;
    if (!pl_json_quick_string(&r->json, plain, sizeof plain - 1, &text)) {
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &key)) {
            if (PL_JSON_IS(&key, "name"))
                pl_json_string(&r->json, &text);
            else
                pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    if (!text.bytes) return pl_pt2_fail(r, at, "expected the name of a tensor");
    *name = pl_pt2_name(r, &text, space_of(SPACE_TENSORS, r->scope));
    return *name >= 0;
}

/* ---- tensors ---- */

typedef struct sizes {
    int64_t value[PL_MAX_DIMS];
    const pl_expr *expr[PL_MAX_DIMS];
    int count;
    bool symbolic;
} sizes;

static bool read_sizes(reader *r, sizes *out) {
    out->count = 0;
    out->symbolic = false;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        if (out->count == PL_MAX_DIMS)
            return pl_pt2_fail(r, r->json.at, "expected at most %d dimensions", PL_MAX_DIMS);
        if (!pl_pt2_read_size(r, &out->value[out->count], &out->expr[out->count])) return false;
        out->symbolic = out->symbolic || out->expr[out->count];
        out->count++;
    }
    return !r->json.failure;
}

static bool keep_exprs(reader *r, const sizes *s, const pl_expr *const **out) {
    if (!s->symbolic) return true;
    const pl_expr **exprs = pl_arena_array(r->arena, (size_t)s->count, sizeof *exprs);
    if (!exprs) return pl_pt2_no_memory(r);
    memcpy(exprs, s->expr, (size_t)s->count * sizeof *exprs);
    *out = exprs;
    return true;
}

/* A TensorMeta into a tensor. */
static bool describe(reader *r, pl_tensor *t) {
    pl_json_text key;
    sizes size, stride; /* filled by read_sizes */
    size.count = stride.count = 0;
    bool has_size = false, has_stride = false;
    int64_t dtype = -1;
    const char *at = r->json.at;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "dtype"))
            pl_json_int(&r->json, &dtype, NULL);
        else if (PL_JSON_IS(&key, "sizes"))
            has_size = read_sizes(r, &size);
        else if (PL_JSON_IS(&key, "requires_grad"))
            pl_json_bool(&r->json, &t->requires_grad);
        else if (PL_JSON_IS(&key, "strides"))
            has_stride = read_sizes(r, &stride);
        else if (PL_JSON_IS(&key, "storage_offset"))
            pl_pt2_read_size(r, &t->offset, &t->offset_expr);
        else
            pl_json_skip_like(&r->json, &r->last_device);
    }
    if (r->json.failure) return false;
    if (!has_size || !has_stride || dtype < 0)
        return pl_pt2_fail(r, at, "expected dtype, sizes and strides of a tensor");
    if (size.count != stride.count) return pl_pt2_fail(r, at, "expected as many strides as sizes");
    size_t dims = (size_t)size.count;
    t->dtype = dtype < PL_DT_COUNT ? (pl_dtype)dtype : PL_DT_UNKNOWN;
    t->dims = (uint8_t)dims;
    t->sizes = pl_arena_array(r->arena, dims * 2, sizeof *t->sizes);
    if (!t->sizes) return pl_pt2_no_memory(r);
    t->strides = t->sizes + dims;
    memcpy(t->sizes, size.value, dims * sizeof *t->sizes);
    memcpy(t->strides, stride.value, dims * sizeof *t->strides);
    if (!keep_exprs(r, &size, &t->size_expr) || !keep_exprs(r, &stride, &t->stride_expr))
        return false;
    /* those with symbols in them are checked at the end, when all have numbers */
    if (!t->size_expr && !t->stride_expr && !t->offset_expr && !pl_tensor_fits(t))
        return pl_pt2_fail(r, at, "expected a tensor of at most 2^56 bytes");
    return true;
}

static bool read_tensor_values(reader *r) {
    pl_json_text key;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        const char *at = key.bytes;
        int32_t name = pl_pt2_name(r, &key, space_of(SPACE_TENSORS, r->scope));
        if (name < 0) return false;
        int32_t id = r->names.entries[name].value;
        /* an alias: described under its own name */
        if (id >= 0 && r->names.entries[name].copy) {
            pl_json_skip(&r->json);
            continue;
        }
        id = pl_pt2_tensor(r, name, at);
        if (id < 0) return false;
        if (r->notes[id].described)
            return pl_pt2_fail(r, at, "expected one description of tensor %.100s, not two",
                               r->tensors[id].name);
        r->notes[id].described = true;
        if (!describe(r, &r->tensors[id])) return false;
    }
    return !r->json.failure;
}

/* ---- nodes ---- */

static bool add_out(reader *r, int32_t name) {
    if (!GROW(r, r->outs, r->out_count, r->out_room)) return false;
    r->outs[r->out_count++] = name;
    return true;
}

static bool add_out_tensor(reader *r) {
    int32_t name;
    return pl_pt2_tensor_name(r, &name) && add_out(r, name);
}

/* {"as_tensor": {...}} or anything else: adds one result. */
static bool add_out_optional(reader *r) {
    pl_json_text key;
    size_t before = r->out_count;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "as_tensor") && pl_json_peek(&r->json) == '{')
            add_out_tensor(r);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    return r->out_count > before || add_out(r, -1);
}

static bool read_node_outputs(reader *r, bool *is_list) {
    pl_json_text key;
    r->out_count = 0;
    r->out_number = -1;
    *is_list = false;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        size_t before = r->out_count;
        bool list = false;
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &key)) {
            char next = pl_json_peek(&r->json);
            bool many = PL_JSON_IS(&key, "as_tensors"),
                 optional = PL_JSON_IS(&key, "as_optional_tensors");
            if (next == '{' && PL_JSON_IS(&key, "as_tensor")) {
                add_out_tensor(r);
            } else if (next == '{' && PL_JSON_IS(&key, "as_optional_tensor")) {
                add_out_optional(r);
            } else if (next == '[' && (many || optional)) {
                *is_list = list = true;
                pl_json_list(&r->json);
                while (pl_json_item(&r->json))
                    (void)(many ? add_out_tensor(r) : add_out_optional(r));
            } else if (next == '{' && PL_JSON_IS(&key, "as_sym_int")) {
                r->out_number = pl_pt2_scalar_name(r);
            } else {
                pl_json_skip(&r->json);
            }
        }
        if (r->json.failure) return false;
        if (r->out_count == before && !list && !add_out(r, -1)) return false;
    }
    return !r->json.failure;
}

/* What is read of a node before it is known what it is. */
typedef struct node_text {
    pl_json_text target, stack, trace;
    const char *at;       /* of the node */
    const char *graph_at; /* of the first graph among its arguments, or NULL */
    uint32_t graph_index; /* which argument that is */
    int graph_depth;      /* of the JSON there */
    bool is_list;
} node_text;

static bool read_node_inputs(reader *r, node_text *n) {
    pl_json_text key, name;
    r->arg_count = 0;
    n->graph_at = NULL;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        pl_arg arg = {.name = "", .kind = PL_ARG_OTHER};
        const char *graph_at = NULL;
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &key)) {
            if (PL_JSON_IS(&key, "arg")) {
                int depth = r->json.depth;
                pl_pt2_read_arg(r, &arg, &graph_at);
                if (graph_at && !n->graph_at) {
                    n->graph_at = graph_at;
                    n->graph_index = (uint32_t)r->arg_count;
                    n->graph_depth = depth + 2;
                }
            } else if (PL_JSON_IS(&key, "name") && pl_json_peek(&r->json) == '"') {
                if (pl_json_string(&r->json, &name) && name.length &&
                    !(arg.name = pl_pt2_intern(r, &name)))
                    return false;
            } else {
                pl_json_skip(&r->json);
            }
        }
        if (r->json.failure || !GROW(r, r->args, r->arg_count, r->arg_room)) return false;
        r->args[r->arg_count++] = arg;
    }
    return !r->json.failure;
}

static bool read_metadata(reader *r, node_text *n) {
    pl_json_text key;
    if (pl_json_peek(&r->json) != '{') return pl_json_skip(&r->json);
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        bool text = pl_json_peek(&r->json) == '"';
        if (text && PL_JSON_IS(&key, "nn_module_stack"))
            pl_json_string(&r->json, &n->stack);
        else if (text && PL_JSON_IS(&key, "stack_trace"))
            pl_json_string(&r->json, &n->trace);
        else
            pl_json_skip(&r->json);
    }
    return !r->json.failure;
}

/* Operands of a wrapper as tensor ids, one per argument (lists: one per element), in the scratch
 * arena. */
static bool gather_operands(reader *r, const pl_arg *args, size_t count, inlined *in) {
    size_t total = 0;
    for (size_t i = 0; i < count; i++) total += args[i].kind == PL_ARG_TENSORS ? args[i].count : 1;
    int32_t *ids = pl_arena_array(r->scratch, total, sizeof *ids);
    if (!ids) return pl_pt2_no_memory(r);
    in->operands = ids;
    in->operand_count = total;
    for (size_t i = 0; i < count; i++) {
        if (args[i].kind == PL_ARG_TENSORS) {
            for (uint32_t k = 0; k < args[i].count; k++) *ids++ = args[i].list[k];
        } else {
            *ids++ = args[i].kind == PL_ARG_TENSOR ? args[i].tensor : -1;
        }
    }
    return true;
}

/* Makes the wrapper's results other names of the subgraph's outputs. */
static bool alias_outputs(reader *r, const inlined *in, int32_t inner_scope, const int32_t *outs,
                          size_t out_count, const char *at) {
    if (out_count > in->output_count)
        return pl_pt2_fail(r, at, "expected as many results as the subgraph has outputs");
    for (size_t i = 0; i < out_count; i++) {
        if (outs[i] < 0) continue;
        if (!in->outputs[i].bytes)
            return pl_pt2_fail(r, at, "expected the subgraph's output %zu to be a tensor", i);
        int32_t inner = pl_pt2_name(r, &in->outputs[i], space_of(SPACE_TENSORS, inner_scope));
        if (inner < 0) return false;
        int32_t id = r->names.entries[inner].value;
        pl_name *outer = &r->names.entries[outs[i]];
        if (id < 0)
            return pl_pt2_fail(r, at, "expected the subgraph to make its output %.*s",
                               (int)(in->outputs[i].length < 100 ? in->outputs[i].length : 100),
                               in->outputs[i].bytes);
        if (outer->value >= 0)
            return pl_pt2_fail(r, at, "expected a result with a name of its own");
        outer->value = id;
        outer->copy = "";
    }
    return true;
}

static bool inline_graph(reader *r, const node_text *n, const struct wrapper *w) {
    const pl_arg *args = r->args;
    size_t first = (size_t)w->graph + 1 + w->skip;
    if (n->graph_index != w->graph)
        return pl_pt2_fail(r, n->at, "expected a graph as argument %u of %s", w->graph, w->target);
    if (r->subgraph_depth >= r->json.depth_limit)
        return pl_pt2_fail(r, n->at, "expected less nesting of graphs");
    if (r->scope_count >= INT32_MAX - 1 ||
        !GROW(r, r->scope_parents, r->scope_count, r->scope_room))
        return pl_pt2_no_memory(r);
    inlined in = {0};
    if (first < r->arg_count && !gather_operands(r, args + first, r->arg_count - first, &in))
        return false;
    size_t out_count = r->out_count;
    int32_t *outs = pl_arena_array(r->scratch, out_count, sizeof *outs);
    if (!outs) return pl_pt2_no_memory(r);
    if (out_count) memcpy(outs, r->outs, out_count * sizeof *outs);

    bool no_grad = r->no_grad;
    pl_autocast autocast = r->autocast;
    if (w == &wrappers[0]) {
        if (args[0].kind != PL_ARG_BOOL)
            return pl_pt2_fail(r, n->at, "expected true or false first in %s", w->target);
        r->no_grad = !args[0].i;
    } else if (w == &wrappers[1]) {
        bool off = args[2].kind == PL_ARG_BOOL && !args[2].i;
        bool bf16 = args[1].kind == PL_ARG_DTYPE && args[1].i == PL_DT_BF16;
        r->autocast = off ? PL_AUTOCAST_OFF : bf16 ? PL_AUTOCAST_BF16 : PL_AUTOCAST_F16;
    }
    pl_json after = r->json;
    int32_t scope = r->scope;
    r->json.at = n->graph_at;
    r->json.depth = n->graph_depth;
    r->scope_parents[r->scope_count] = scope;
    r->scope = (int32_t)r->scope_count++;
    r->subgraph_depth++;
    int32_t inner = r->scope;
    bool ok = read_graph(r, &in);
    r->subgraph_depth--;
    r->scope = scope;
    r->no_grad = no_grad;
    r->autocast = autocast;
    if (!ok) return false;
    r->json.at = after.at;
    r->json.depth = after.depth;
    r->json.first = after.first;
    return alias_outputs(r, &in, inner, outs, out_count, n->at);
}

/* Arithmetic on sizes: no tensor comes out of it, and its results stand in sym_int_values. */
static bool is_size_arithmetic(const reader *r, const char *target) {
    for (size_t i = 0; i < r->out_count; i++) {
        if (r->outs[i] >= 0) return false;
    }
    return r->out_count &&
           (!strncmp(target, "_operator.", 10) || !strncmp(target, "aten.sym_", 9) ||
            !strncmp(target, "torch.sym_", 10) || !strncmp(target, "math.", 5) ||
            !strncmp(target, "torch._sym_", 11));
}

/* _operator.getitem(list, i): another name of a tensor that is there. */
static bool is_getitem(const reader *r, const char *target) {
    return !strcmp(target, "_operator.getitem") && r->arg_count == 2 && r->out_count == 1 &&
           r->outs[0] >= 0 && r->args[0].kind == PL_ARG_TENSORS && r->args[1].kind == PL_ARG_INT &&
           !r->args[1].count && r->args[1].i >= 0 && r->args[1].i < r->args[0].count &&
           r->args[0].list[r->args[1].i] >= 0 && r->names.entries[r->outs[0]].value < 0;
}

static bool keep_node(reader *r, const node_text *n, const char *target) {
    if (r->node_count >= INT32_MAX - 1) return pl_pt2_fail(r, n->at, "expected fewer nodes");
    pl_node node = {.target = target,
                    .arg_count = (uint32_t)r->arg_count,
                    .output_count = (uint32_t)r->out_count,
                    .no_grad = r->no_grad,
                    .output_is_list = n->is_list,
                    .autocast = (uint8_t)r->autocast};
    node.args = pl_arena_array(r->arena, r->arg_count, sizeof *node.args);
    node.outputs = pl_arena_array(r->arena, r->out_count, sizeof *node.outputs);
    if (!node.args || !node.outputs) return pl_pt2_no_memory(r);
    if (r->arg_count) memcpy(node.args, r->args, r->arg_count * sizeof *node.args);
    if (!pl_pt2_args_placed(r, node.args, r->arg_count, n->at)) return false;
    if (!pl_pt2_module(r, &n->stack, &node.module) || !pl_pt2_source(r, &n->trace, &node.source) ||
        !pl_pt2_callers(r, &n->trace, node.module))
        return false;
    for (size_t i = 0; i < r->out_count; i++) {
        node.outputs[i] = r->outs[i] < 0 ? -1 : pl_pt2_tensor(r, r->outs[i], n->at);
        if (r->outs[i] < 0) continue;
        if (node.outputs[i] < 0) return false;
        pl_tensor *t = &r->tensors[node.outputs[i]];
        if (t->producer >= 0)
            return pl_pt2_fail(r, n->at, "expected tensor %.100s to be made once, not twice",
                               t->name);
        t->producer = (int32_t)r->node_count;
    }
    if (!GROW(r, r->nodes, r->node_count, r->node_room) ||
        !GROW(r, r->node_at, r->node_count, r->node_at_room))
        return false;
    r->node_at[r->node_count] = n->at;
    r->nodes[r->node_count++] = node;
    return r->out_number < 0 ||
           pl_pt2_number_placed(r, r->out_number, (int32_t)r->node_count - 1, n->at);
}

static bool read_node(reader *r) {
    pl_json_text key;
    node_text n = {0};
    bool has_inputs = false, has_outputs = false;
    pl_json_peek(&r->json);
    n.at = r->json.at;
    r->arg_count = r->out_count = 0;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "target"))
            pl_json_string(&r->json, &n.target);
        else if (PL_JSON_IS(&key, "inputs"))
            has_inputs = read_node_inputs(r, &n);
        else if (PL_JSON_IS(&key, "outputs"))
            has_outputs = read_node_outputs(r, &n.is_list);
        else if (PL_JSON_IS(&key, "metadata"))
            read_metadata(r, &n);
        else
            pl_json_skip(&r->json);
    }
    if (r->json.failure) return false;
    if (!n.target.bytes || !has_inputs || !has_outputs)
        return pl_pt2_fail(r, n.at, "expected target, inputs and outputs of a node");
    static const char prefix[] = "torch.ops.";
    if (n.target.length > sizeof prefix - 1 && !memcmp(n.target.bytes, prefix, sizeof prefix - 1)) {
        n.target.bytes += sizeof prefix - 1;
        n.target.length -= sizeof prefix - 1;
    }
    const char *target = pl_pt2_intern(r, &n.target);
    if (!target) return false;
    if (n.graph_at) {
        for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
            if (!strcmp(target, wrappers[i].target)) return inline_graph(r, &n, &wrappers[i]);
    }
    if (is_size_arithmetic(r, target)) return true;
    if (is_getitem(r, target)) {
        pl_name *name = &r->names.entries[r->outs[0]];
        name->value = r->args[0].list[r->args[1].i];
        name->copy = "";
        return true;
    }
    return keep_node(r, &n, target);
}

/* ---- graphs ---- */

/* Inputs of the model's graph become its first tensors, in the file's order, which is that of the
 * model's parameters and buffers; the signature tells them apart. A subgraph's are its wrapper's
 * operands. */
static bool read_graph_inputs(reader *r, inlined *in) {
    pl_json_text key;
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        const char *at = r->json.at;
        size_t place = in ? in->taken++ : 0;
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &key)) {
            if (!PL_JSON_IS(&key, "as_tensor") || pl_json_peek(&r->json) != '{') {
                pl_json_skip(&r->json);
                continue;
            }
            int32_t name;
            if (!pl_pt2_tensor_name(r, &name)) return false;
            if (!in) {
                if (pl_pt2_tensor(r, name, at) < 0) return false;
                continue;
            }
            if (place >= in->operand_count || in->operands[place] < 0)
                return pl_pt2_fail(r, at, "expected a tensor operand for input %zu of the subgraph",
                                   place);
            pl_name *entry = &r->names.entries[name];
            if (entry->value >= 0)
                return pl_pt2_fail(
                    r, at,
                    "expected the subgraph's inputs to have different names, before its nodes");
            entry->value = in->operands[place];
            entry->copy = ""; /* an alias */
        }
    }
    return !r->json.failure;
}

static bool read_graph_outputs(reader *r, inlined *in) {
    pl_json_text key, inner;
    if (!in) return pl_json_skip(&r->json);
    if (!pl_json_list(&r->json)) return false;
    while (pl_json_item(&r->json)) {
        pl_json_text name = {0};
        if (!pl_json_object(&r->json)) return false;
        while (pl_json_key(&r->json, &key)) {
            if (!PL_JSON_IS(&key, "as_tensor") || pl_json_peek(&r->json) != '{') {
                pl_json_skip(&r->json);
                continue;
            }
            pl_json_object(&r->json);
            while (pl_json_key(&r->json, &inner)) {
                if (PL_JSON_IS(&inner, "name"))
                    pl_json_string(&r->json, &name);
                else
                    pl_json_skip(&r->json);
            }
        }
        if (r->json.failure || !GROW(r, in->outputs, in->output_count, in->output_room))
            return false;
        in->outputs[in->output_count++] = name;
    }
    return !r->json.failure;
}

static bool read_graph(reader *r, inlined *in) {
    pl_json_text key;
    const char *at = r->json.at;
    bool has_nodes = false, has_tensors = false;
    size_t pendings = r->pending_count;
    if (!pl_json_object(&r->json)) return false;
    while (pl_json_key(&r->json, &key)) {
        if (PL_JSON_IS(&key, "inputs")) {
            read_graph_inputs(r, in);
        } else if (PL_JSON_IS(&key, "outputs")) {
            read_graph_outputs(r, in);
        } else if (PL_JSON_IS(&key, "nodes")) {
            has_nodes = pl_json_list(&r->json);
            while (pl_json_item(&r->json))
                if (!read_node(r)) return false;
        } else if (PL_JSON_IS(&key, "tensor_values")) {
            has_tensors = read_tensor_values(r);
        } else if (PL_JSON_IS(&key, "sym_int_values")) {
            pl_pt2_read_scalars(r, true);
        } else if (PL_JSON_IS(&key, "sym_float_values") || PL_JSON_IS(&key, "sym_bool_values")) {
            pl_pt2_read_scalars(r, false);
        } else {
            pl_json_skip(&r->json);
        }
    }
    if (r->json.failure) return false;
    if (!has_nodes || !has_tensors)
        return pl_pt2_fail(r, at, "expected nodes and tensor_values in a graph");
    return pl_pt2_resolve(r, pendings);
}

bool pl_pt2_read_model_graph(reader *r) {
    if (!GROW(r, r->scope_parents, r->scope_count, r->scope_room)) return false;
    r->scope_parents[r->scope_count++] = -1;
    return read_graph(r, NULL);
}
