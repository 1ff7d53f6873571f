/* onnx_weights: which initializers are parameters, and of which module.
 *
 * torch.onnx keeps the names of parameters ("layer1.0.conv1.weight") as long as it does not change
 * them; what it folded or transposed is called "onnx::Conv_193" or "val_12", and gets the path of
 * the module that uses it. Old exports name their nodes by module, "/layer1/layer1.0/conv1/Conv"
 * (torch/onnx/utils.py); new ones carry the modules as metadata (onnx_fx.c).
 *
 * Assumed where nothing says it: a floating-point initializer that a layer's operator takes as its
 * weight is trained. */
#include "import/onnx_plan.h"

#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "import/onnx_fx.h"

enum { SPACE_PATHS = 32, MAX_PATH = 480 };

static bool is_op(const onnx_node *n, const char *op) {
    return strcmp(n->op, op) == 0;
}

/* ---- modules from names ---- */

/* "/layer1/layer1.0/conv1/Conv": each part but the last is a module; a child of a Sequential
 * repeats its parent's name before the dot. */
static bool scope_of(onnx_graph *g, pl_arena *scratch, onnx_node *n) {
    const char *at = n->name, *last = strrchr(n->name, '/');
    char path[MAX_PATH] = "";
    size_t used = 0;
    const char *outer = "";
    size_t outer_length = 0;
    int32_t module = pl_onnx_module(g, scratch, -1, "", 0, "", 0);
    for (int depth = 0; module >= 0 && *at == '/' && at < last && depth < 40; depth++) {
        const char *part = at + 1;
        size_t length = strcspn(part, "/");
        const char *own = part;
        size_t own_length = length;
        if (outer_length && length > outer_length && part[outer_length] == '.' &&
            strncmp(part, outer, outer_length) == 0)
            own += outer_length + 1, own_length -= outer_length + 1;
        if (used + own_length + 2 >= sizeof path) break;
        if (used) path[used++] = '.';
        memcpy(path + used, own, own_length);
        used += own_length;
        module = pl_onnx_module(g, scratch, module, path, used, "", 0);
        outer = part, outer_length = length;
        at = part + length;
    }
    if (module == -2) return false;
    n->module = module;
    return true;
}

bool pl_onnx_scopes(onnx_graph *g, pl_arena *scratch) {
    for (size_t i = 0; i < g->node_count; i++) {
        onnx_node *n = &g->nodes[i];
        if (n->module < 0 && !n->scopes && n->name[0] == '/' && !scope_of(g, scratch, n))
            return false;
        /* the old exporter folds a batch norm into the convolution before it and says so by giving
         * the weight a name of its own (torch/csrc/jit/passes/onnx/eval_peephole.cpp) */
        int32_t w = n->input_count > 1 ? n->inputs[1] : -1;
        if (is_op(n, "Conv") && w >= 0 && g->values[w].initializer &&
            strncmp(g->values[w].name, "onnx::Conv_", 11) == 0)
            n->folded_norm = true;
        bool conv = is_op(n, "Conv") || is_op(n, "ConvTranspose");
        const onnx_tensor *t = w >= 0 ? g->values[w].initializer : NULL;
        if (!conv || !t || t->dims < 3) n->folded_norm = false;
        n->scopes = n->classes = n->trace = n->fx_text = NULL; /* the file's bytes */
    }
    return true;
}

/* ---- weights that are equal ---- */

/* [value_count] Weights of embeddings. */
static const uint8_t *find_tables(const onnx_graph *g, pl_arena *scratch) {
    uint8_t *is_table = pl_arena_array(scratch, g->value_count + 1, 1);
    for (size_t i = 0; is_table && i < g->node_count; i++)
        if (is_op(&g->nodes[i], "Gather") && g->nodes[i].input_count && g->nodes[i].inputs[0] >= 0)
            is_table[g->nodes[i].inputs[0]] = 1;
    return is_table;
}

/* The old exporter writes Identity nodes for initializers that equal another: a vector is one of
 * its own, so is a matrix but for an embedding's, which is tied. */
static bool unalias(onnx_graph *g, pl_arena *scratch) {
    int32_t *instead = pl_arena_array(scratch, g->value_count + 1, sizeof *instead);
    size_t room = g->initializer_count;
    if (!instead) return false;
    for (size_t i = 0; i < g->value_count; i++) instead[i] = (int32_t)i;
    const uint8_t *is_table = find_tables(g, scratch);
    if (!is_table) return false;
    for (size_t i = 0; i < g->node_count; i++) {
        onnx_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->input_count; k++)
            if (n->inputs[k] >= 0) n->inputs[k] = instead[n->inputs[k]];
        if (!is_op(n, "Identity") || n->fx || n->input_count != 1 || n->output_count != 1) continue;
        int32_t from = n->inputs[0], to = n->outputs[0];
        const onnx_tensor *t = from < 0 || to < 0 ? NULL : g->values[from].initializer;
        if (!t || t->dims == 0) continue;
        n->output_count = 0;
        g->values[from].uses--;
        if (t->dims == 2 && (is_table[from] || is_table[to])) {
            instead[to] = from;
            g->values[from].uses += g->values[to].uses;
            continue;
        }
        int32_t *list =
            pl_arena_grow(g->arena, g->initializers, &room, g->initializer_count + 1, sizeof *list);
        if (!list) return false;
        g->initializers = list;
        g->initializers[g->initializer_count++] = to;
        g->values[to].initializer = t;
        g->values[to].producer = -1;
    }
    for (size_t i = 0; i < g->output_count; i++) g->outputs[i] = instead[g->outputs[i]];
    return true;
}

/* Exporters write equal tensors once, and in a model that was never trained all biases are zeros. A
 * vector that layers of different modules take is one of each; matrices that are shared are tied.
 */
bool pl_onnx_unshare(onnx_graph *g, pl_arena *scratch) {
    if (!unalias(g, scratch)) return false;
    int32_t *owner = pl_arena_array(scratch, g->value_count + 1, sizeof *owner);
    size_t value_room = g->value_count, room = g->initializer_count, values = g->value_count;
    const uint8_t *is_table = find_tables(g, scratch);
    if (!owner || !is_table) return false;
    for (size_t i = 0; i < values; i++) owner[i] = -1;
    for (size_t i = 0; i < g->node_count; i++) {
        onnx_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->input_count; k++) {
            int32_t id = n->inputs[k];
            const onnx_tensor *t =
                id < 0 || (size_t)id >= values ? NULL : g->values[id].initializer;
            bool matrix = t && t->dims == 2;
            bool product = k == 1 && (is_op(n, "MatMul") || is_op(n, "Gemm"));
            if (!t || t->dims == 0 || t->elements < 2 || n->module < 0 || is_op(n, "Reshape") ||
                !pl_dtype_is_float(t->dtype) || (matrix && (!product || is_table[id])))
                continue;
            int32_t module = n->module;
            while (owner[id] >= 0 && module >= 0 &&
                   strcmp(g->modules[module].path, g->modules[owner[id]].path) != 0)
                module = -1;
            if (owner[id] < 0) owner[id] = n->module;
            if (module >= 0) continue;
            onnx_value *grown =
                pl_arena_grow(g->arena, g->values, &value_room, g->value_count + 1, sizeof *grown);
            int32_t *list = pl_arena_grow(g->arena, g->initializers, &room,
                                          g->initializer_count + 1, sizeof *list);
            if (!grown || !list) return false;
            g->values = grown;
            g->initializers = list;
            onnx_value copy = g->values[id];
            char name[MAX_PATH];
            bool first = k == 1 && !is_op(n, "Add");
            bool statistics = is_op(n, "BatchNormalization") && k >= 3;
            int length = snprintf(name, sizeof name, "%s.%s", g->modules[n->module].path,
                                  statistics ? (k == 3 ? "running_mean" : "running_var")
                                  : first    ? "weight"
                                             : "bias");
            bool folded = matrix && strncmp(copy.name, "onnx::", 6) == 0;
            if (!folded)
                copy.name = length < 0 ? NULL : pl_arena_string(g->arena, name, strlen(name));
            if (!copy.name) return false;
            copy.uses = 1;
            copy.origin = statistics ? 'b' : 0;
            g->values[id].uses--;
            n->inputs[k] = (int32_t)g->value_count;
            g->initializers[g->initializer_count++] = (int32_t)g->value_count;
            g->values[g->value_count++] = copy;
        }
    }
    return true;
}

/* ---- roles ---- */

/* Operators and the inputs of theirs that are trained. */
static const struct {
    const char *op;
    uint32_t inputs; /* bits */
    const char *names[5];
} layers[] = {
    {"Conv", 6, {"", "weight", "bias"}},
    {"ConvTranspose", 6, {"", "weight", "bias"}},
    {"Gemm", 6, {"", "weight", "bias"}},
    {"MatMul", 3, {"weight", "weight"}},
    {"Gather", 1, {"weight"}},
    {"BatchNormalization", 6, {"", "weight", "bias"}},
    {"LayerNormalization", 6, {"", "weight", "bias"}},
    {"InstanceNormalization", 6, {"", "weight", "bias"}},
    {"GroupNormalization", 6, {"", "weight", "bias"}},
    {"RMSNormalization", 2, {"", "weight"}},
    {"PRelu", 2, {"", "weight"}},
};

/* Last parts of the paths of buffers that are floating point. */
static const char *const buffers[] = {
    "running_mean", "running_var", "inv_freq",   "original_inv_freq",     "masked_bias",
    "attn_mask",    "cos_cached",  "sin_cached", "relative_coords_table", "embed_positions_buffer",
    "anchors",      "mean",        "std"};

static bool is_buffer_name(const char *name) {
    const char *leaf = strrchr(name, '.');
    leaf = leaf ? leaf + 1 : name;
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (strcmp(leaf, buffers[i]) == 0) return true;
    return false;
}

/* A path of PyTorch's and not a name that an exporter made up. */
static bool is_path(const char *name) {
    if (strchr(name, ':') || strchr(name, '/') || (name[0] >= '0' && name[0] <= '9')) return false;
    return strncmp(name, "val_", 4) != 0 && strncmp(name, "_val_", 5) != 0 &&
           strncmp(name, "onnx", 4) != 0 && strncmp(name, "Constant", 8) != 0;
}

typedef struct use {
    int32_t node;     /* first that takes it as a weight, -1: none */
    const char *name; /* "weight", "bias" */
    bool statistics, recurrent, folded_bias;
    bool called; /* by a node whose call is known */
} use;

static void note_uses(const onnx_graph *g, use *uses) {
    for (size_t i = 0; i < g->value_count; i++) uses[i].node = -1;
    for (size_t i = 0; i < g->node_count; i++) {
        const onnx_node *n = &g->nodes[i];
        bool recurrent = is_op(n, "LSTM") || is_op(n, "GRU") || is_op(n, "RNN");
        bool norm = is_op(n, "BatchNormalization");
        for (uint32_t k = 0; k < n->input_count; k++) {
            int32_t id = n->inputs[k];
            if (id < 0 || !g->values[id].initializer) continue;
            uses[id].called |= n->fx && !n->folded_norm;
            uses[id].statistics |= norm && k >= 3;
            uses[id].recurrent |= recurrent && k >= 1 && k <= 3;
            uses[id].folded_bias |= n->folded_norm && k == 2;
            for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
                if (k < 5 && layers[l].inputs >> k & 1 && is_op(n, layers[l].op) &&
                    uses[id].node < 0) {
                    uses[id].node = (int32_t)i;
                    uses[id].name = layers[l].names[k];
                }
        }
    }
}

/* PL_ROLE_VALUE: no tensor of the model, only numbers. */
static pl_role role_of(const onnx_value *v, const use *u) {
    const onnx_tensor *t = v->initializer;
    if (u->folded_bias || u->recurrent || v->uses == 0) return PL_ROLE_VALUE;
    bool number = t->elements <= 1 && t->dims <= 1;
    if (v->origin == 'p') return PL_ROLE_PARAMETER;
    if (v->origin == 'b') return number ? PL_ROLE_VALUE : PL_ROLE_BUFFER;
    if (v->origin == 'c') return number ? PL_ROLE_VALUE : PL_ROLE_CONSTANT;
    if (!pl_dtype_is_float(t->dtype))
        return t->elements > 64 || (is_path(v->name) && strchr(v->name, '.') && t->elements > 1)
                   ? PL_ROLE_BUFFER
                   : PL_ROLE_VALUE;
    if (u->statistics) return PL_ROLE_BUFFER;
    /* where calls are known they name the parameters; the rest was folded */
    if (u->called) return number ? PL_ROLE_VALUE : PL_ROLE_CONSTANT;
    if (u->node >= 0 && !number) return PL_ROLE_PARAMETER;
    bool path = is_path(v->name) && strchr(v->name, '.');
    if (path && !is_buffer_name(v->name)) return PL_ROLE_PARAMETER;
    if (path && !number) return PL_ROLE_BUFFER;
    if (is_path(v->name) && t->dims > 1) return PL_ROLE_PARAMETER; /* "pos_embedding" */
    return number ? PL_ROLE_VALUE : PL_ROLE_CONSTANT;
}

/* ---- paths ---- */

typedef struct namer {
    onnx_graph *g;
    pl_arena *scratch;
    bool no_memory;
} namer;

/* A path that no other weight has. */
static const char *path_for(namer *n, const char *module, const char *leaf, const char *otherwise) {
    char path[MAX_PATH];
    for (int attempt = 0; attempt < 100; attempt++) {
        int length;
        if (!leaf && attempt == 0)
            length = snprintf(path, sizeof path, "%s", otherwise);
        else if (!leaf)
            length = snprintf(path, sizeof path, "%s_%d", otherwise, attempt);
        else if (attempt == 0)
            length = snprintf(path, sizeof path, "%s%s%s", module, *module ? "." : "", leaf);
        else
            length =
                snprintf(path, sizeof path, "%s%s%s_%d", module, *module ? "." : "", leaf, attempt);
        if (length < 0 || (size_t)length >= sizeof path) return otherwise;
        for (char *at = path; *at; at++)
            if (*at == ':' || *at == '/') *at = '_';
        int32_t entry = pl_names_find(&n->g->names, path, (size_t)length, SPACE_PATHS);
        if (entry >= 0) continue;
        char *kept = pl_arena_string(n->g->arena, path, (size_t)length);
        if (!kept || pl_names_get(&n->g->names, kept, (size_t)length, SPACE_PATHS) < 0) {
            n->no_memory = true;
            return "";
        }
        return kept;
    }
    return otherwise;
}

static const char *module_path(const onnx_graph *g, int32_t node) {
    int32_t m = node < 0 ? -1 : g->nodes[node].module;
    return m < 0 ? "" : g->modules[m].path;
}

/* ---- weights the file has not ---- */

typedef struct list {
    onnx_weight *items;
    size_t count, room;
    pl_arena *arena;
} list;

static onnx_weight *add(list *l, namer *n) {
    onnx_weight *grown = pl_arena_grow(l->arena, l->items, &l->room, l->count + 1, sizeof *grown);
    if (!grown) {
        n->no_memory = true;
        return NULL;
    }
    l->items = grown;
    grown[l->count] = (onnx_weight){.value = -1, .node = -1, .role = PL_ROLE_PARAMETER};
    return &grown[l->count++];
}

static void add_made(list *l, namer *n, int32_t node, const char *module, const char *leaf,
                     pl_role role, pl_dtype dtype, int dims, int64_t rows, int64_t columns) {
    onnx_weight *w = add(l, n);
    if (!w) return;
    w->node = node;
    w->role = role;
    w->dtype = dtype;
    w->dims = dims;
    w->sizes[0] = rows;
    w->sizes[1] = columns;
    w->path = path_for(n, module, leaf, leaf);
}

/* The batch norm behind a convolution: "layer1.0.conv1" gives "layer1.0.bn1". */
static void add_norm(list *l, namer *n, int32_t node) {
    const onnx_graph *g = n->g;
    const onnx_node *conv = &g->nodes[node];
    const onnx_tensor *t = g->values[conv->inputs[1]].initializer;
    int64_t channels = t->sizes[0];
    if (is_op(conv, "ConvTranspose") &&
        !pl_mul_i64(t->sizes[1], pl_onnx_int(conv, "group", 1), &channels))
        channels = 0;
    char module[MAX_PATH];
    const char *path = module_path(g, node), *leaf = strrchr(path, '.');
    leaf = leaf ? leaf + 1 : path;
    if (conv->fx)
        snprintf(module, sizeof module, "%s", path);
    else if (strncmp(leaf, "conv", 4) == 0)
        snprintf(module, sizeof module, "%.*sbn%s", (int)(leaf - path), path, leaf + 4);
    else
        snprintf(module, sizeof module, "%s_norm", path);
    add_made(l, n, node, module, "weight", PL_ROLE_PARAMETER, t->dtype, 1, channels, 0);
    add_made(l, n, node, module, "bias", PL_ROLE_PARAMETER, t->dtype, 1, channels, 0);
    add_made(l, n, node, module, "running_mean", PL_ROLE_BUFFER, t->dtype, 1, channels, 0);
    add_made(l, n, node, module, "running_var", PL_ROLE_BUFFER, t->dtype, 1, channels, 0);
    add_made(l, n, node, module, "num_batches_tracked", PL_ROLE_BUFFER, PL_DT_I64, 0, 0, 0);
}

/* nn.BatchNorm2d's count of batches, which no exporter writes: beside the running mean. */
static void add_count(list *l, namer *n, int32_t node) {
    const onnx_graph *g = n->g;
    const onnx_node *norm = &g->nodes[node];
    int32_t mean = norm->input_count > 3 ? norm->inputs[3] : -1;
    const char *name = mean >= 0 && g->values[mean].initializer ? g->values[mean].name : "";
    const char *leaf = strrchr(name, '.');
    if (!leaf || !is_path(name)) return;
    char module[MAX_PATH];
    snprintf(module, sizeof module, "%.*s", (int)(leaf - name < MAX_PATH ? leaf - name : 0), name);
    add_made(l, n, node, module, "num_batches_tracked", PL_ROLE_BUFFER, PL_DT_I64, 0, 0, 0);
}

/* nn.LSTM's weights, which ONNX has in one piece per direction: W [ways, gates * hidden, in], R
 * [ways, gates * hidden, hidden], B [ways, 2 * gates * hidden]. */
static void add_recurrent(list *l, namer *n, int32_t node) {
    const onnx_graph *g = n->g;
    const onnx_node *r = &g->nodes[node];
    const onnx_tensor *parts[4] = {0};
    for (uint32_t k = 1; k < 4 && k < r->input_count; k++)
        if (r->inputs[k] >= 0) parts[k] = g->values[r->inputs[k]].initializer;
    if (!parts[1] || !parts[2] || parts[1]->dims != 3 || parts[2]->dims != 3) return;
    int64_t rows = parts[1]->sizes[1];
    for (int64_t way = 0; way < parts[1]->sizes[0] && way < 2; way++) {
        static const char *const leaves[2][4] = {
            {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"},
            {"weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse",
             "bias_hh_l0_reverse"}};
        for (int k = 0; k < (parts[3] ? 4 : 2); k++)
            add_made(l, n, node, module_path(g, node), leaves[way][k], PL_ROLE_PARAMETER,
                     parts[1]->dtype, k < 2 ? 2 : 1, rows,
                     k == 0 ? parts[1]->sizes[2] : parts[2]->sizes[2]);
    }
}

/* An embedding of one module whose weight has the name of another's is tied to it: "wte.weight" of
 * lm_head.weight; else NULL. */
static const char *tied_name(namer *n, int32_t node, int32_t value, const char *path) {
    const onnx_graph *g = n->g;
    if (node < 0 || !is_op(&g->nodes[node], "Gather") || g->nodes[node].inputs[0] != value ||
        g->values[value].initializer->dims != 2)
        return NULL;
    const char *module = module_path(g, node), *leaf = strrchr(path, '.');
    size_t length = strlen(module);
    if (length == 0 || !leaf || !is_path(path)) return NULL;
    if (strncmp(path, module, length) == 0 && path + length == leaf) return NULL;
    return path_for(n, module, leaf + 1, leaf + 1);
}

/* ---- all ---- */

bool pl_onnx_weights(onnx_plan *plan, pl_arena *scratch) {
    onnx_graph *g = &plan->graph;
    namer n = {.g = g, .scratch = scratch};
    list l = {.arena = g->arena};
    use *uses = pl_arena_array(scratch, g->value_count + 1, sizeof *uses);
    if (!uses) return false;
    note_uses(g, uses);
    for (size_t i = 0; i < g->initializer_count && !n.no_memory; i++) {
        int32_t id = g->initializers[i];
        const onnx_value *v = &g->values[id];
        const use *u = &uses[id];
        pl_role role = role_of(v, u);
        if (role == PL_ROLE_VALUE) continue;
        onnx_weight *w = add(&l, &n);
        if (!w) break;
        w->value = id;
        w->role = role;
        w->turned = v->turned;
        bool named = is_path(v->name) || u->node < 0 || *u->name == 0;
        w->path = path_for(&n, module_path(g, u->node), named ? NULL : u->name, v->name);
        w->tied =
            role == PL_ROLE_PARAMETER && !v->turned ? tied_name(&n, u->node, id, w->path) : NULL;
        if (u->node >= 0 && g->nodes[u->node].folded_norm && v->uses > 0) {
            add_norm(&l, &n, u->node);
            plan->folded++;
        }
    }
    for (size_t i = 0; i < g->node_count && !n.no_memory; i++) {
        if (is_op(&g->nodes[i], "BatchNormalization")) add_count(&l, &n, (int32_t)i);
        if (is_op(&g->nodes[i], "LSTM") || is_op(&g->nodes[i], "GRU") || is_op(&g->nodes[i], "RNN"))
            add_recurrent(&l, &n, (int32_t)i);
    }
    plan->weights = l.items;
    plan->weight_count = l.count;
    return !n.no_memory;
}
