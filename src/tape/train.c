/* train: the training loop whose tape is wanted.
 *
 *     model.to(device); optimizer = X(model.parameters())
 *     for each step:
 *         zero_grad(set_to_none=True)
 *         accumulate times: inputs to the device, forward under autocast, loss, backward (scaled for fp16)
 *         optimizer.step()
 *
 * A graph tensor lives from its node to its last use; one that was handed to a module lives until that module
 * returns, since the caller's names hold it. Parameters are placed in the order in which Module.to walks them.
 * Checkpointed blocks are the repeated ones (layers.0, layers.1, ...), run again inside backward. */
#include "tape/train.h"

#include <stdlib.h>
#include <string.h>

#include "tape/parallel.h"
#include "tape/rewrite.h"

/* ---- lifetimes ---- */

/* Last node of each module's call. */
static bool find_module_ends(pl_train *t) {
    const pl_graph *g = t->e.graph;
    t->module_first = pl_arena_array(t->e.tape->arena, (size_t)g->module_count + 1, sizeof *t->module_first);
    t->module_last = pl_arena_array(t->e.tape->arena, (size_t)g->module_count + 1, sizeof *t->module_last);
    if (!t->module_first || !t->module_last) return false;
    for (int32_t m = 0; m < g->module_count; m++) t->module_first[m] = -1;
    for (int32_t i = 0; i < g->node_count; i++)
        for (int32_t m = g->nodes[i].module; m >= 0; m = g->modules[m].parent) {
            if (t->module_first[m] < 0) t->module_first[m] = i;
            t->module_last[m] = i;
        }
    return true;
}

static void use(pl_train *t, int32_t tensor, int32_t node) {
    const pl_graph *g = t->e.graph;
    if (tensor < 0 || g->tensors[tensor].role != PL_ROLE_VALUE) return;
    int32_t last = node, made = g->tensors[tensor].producer;
    for (int32_t m = g->nodes[node].module; m >= 0 && t->module_first[m] > made; m = g->modules[m].parent)
        last = t->module_last[m];
    if (last > t->last_use[tensor]) t->last_use[tensor] = last;
}

/* ---- Python's names ---- */

/* The code in "modeling_gpt2.py:682: a = q @ k". */
static const char *code_of(const char *source) {
    const char *code = strstr(source, ": ");
    return code ? code + 2 : source;
}

/* The module whose forward holds a node's line: sources leave PyTorch's own frames out, so not one of torch.nn. */
static int32_t owner_of(const pl_graph *g, const pl_node *n) {
    int32_t m = n->module;
    while (m >= 0 && g->modules[m].parent >= 0 && strncmp(g->modules[m].type, "torch.nn.", 9) == 0) m = g->modules[m].parent;
    return m;
}

/* The name on the left of a line's "=", or false: "a = q @ k" gives "a", "x, _ = .." its first, "x". */
static bool assigned_name(const char *source, size_t *length) {
    const char *at = source;
    while (*at && (*at == '_' || *at == ',' || *at == ' ' || *at == '.' || (*at >= '0' && *at <= '9') ||
                   (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z')))
        at++;
    if (at == source || at[0] != '=' || at[1] == '=' || at[-1] != ' ') return false;
    *length = strcspn(source, ", =");
    return *length > 0;
}

enum { NAMES = 32 };

typedef struct name_slot {
    const char *name, *source;
    size_t length;
    int32_t module, first, last; /* the line's nodes */
} name_slot;

static void keep_until(pl_train *t, const name_slot *line, int32_t until) {
    const pl_graph *g = t->e.graph;
    for (int32_t i = line->first; i <= line->last; i++)
        for (uint32_t k = 0; k < g->nodes[i].output_count; k++) {
            int32_t id = g->nodes[i].outputs[k];
            if (id >= 0 && t->last_use[id] > line->last && t->last_use[id] < until) t->last_use[id] = until;
        }
}

/* What a line of a module's code assigns to a name is held until the name is assigned again or the call ends.
 * Lines come from the graph's stack traces; a ring of the newest names is kept, older ones end with their call. */
static void find_names(pl_train *t) {
    const pl_graph *g = t->e.graph;
    name_slot ring[NAMES] = {0};
    int32_t newest = 0;
    for (int32_t i = 0; i < g->node_count;) {
        const pl_node *n = &g->nodes[i];
        int32_t last = i, owner = owner_of(g, n);
        while (last + 1 < g->node_count && strcmp(g->nodes[last + 1].source, n->source) == 0 && owner_of(g, &g->nodes[last + 1]) == owner) last++;
        size_t length;
        const char *code = code_of(n->source);
        if (owner >= 0 && assigned_name(code, &length)) {
            name_slot line = {code, n->source, length, owner, i, last};
            name_slot *place = NULL;
            for (int k = 0; k < NAMES && !place; k++)
                if (ring[k].name && ring[k].module == owner && ring[k].length == length && strncmp(ring[k].name, code, length) == 0) place = &ring[k];
            if (place) { /* the same line again: a Sequential with blocks between, whose own name moves on */
                if (strcmp(place->source, n->source) != 0) keep_until(t, place, last);
            } else {
                place = &ring[newest++ % NAMES];
                if (place->name) keep_until(t, place, t->module_last[place->module]);
            }
            *place = line;
        }
        i = last + 1;
    }
    for (int k = 0; k < NAMES; k++)
        if (ring[k].name) keep_until(t, &ring[k], t->module_last[ring[k].module]);
}

/* Whether a line hands cat or stack a list that has a name: the list, and all in it, lives to the end of the call. */
static bool takes_named_list(const char *source) {
    const char *at = strstr(source, "cat(");
    if (!at) at = strstr(source, "stack(");
    if (!at) return false;
    at = strchr(at, '(') + 1;
    return *at == '_' || (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z');
}

static void hold_list(pl_train *t, const pl_arg *list, int32_t node) {
    int32_t m = t->e.graph->nodes[node].module;
    for (uint32_t j = 0; m >= 0 && j < list->count; j++) {
        int32_t id = list->list[j];
        if (id >= 0 && t->last_use[id] < t->module_last[m]) t->last_use[id] = t->module_last[m];
    }
}

/* last_use, and its inverse: the tensors that die after each node (dying[first_dying[i]..]). */
static bool find_lifetimes(pl_train *t) {
    const pl_graph *g = t->e.graph;
    pl_arena *arena = t->e.tape->arena;
    t->last_use = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *t->last_use);
    t->first_dying = pl_arena_array(arena, (size_t)g->node_count + 2, sizeof *t->first_dying);
    t->dying = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *t->dying);
    if (!t->last_use || !t->first_dying || !t->dying || !find_module_ends(t)) return false;
    for (int32_t i = 0; i < g->tensor_count; i++) t->last_use[i] = -1;
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->output_count; k++)
            if (n->outputs[k] >= 0 && t->last_use[n->outputs[k]] < i) t->last_use[n->outputs[k]] = i;
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const pl_arg *arg = &n->args[k];
            if (arg->kind == PL_ARG_TENSOR) use(t, arg->tensor, i);
            for (uint32_t j = 0; arg->kind == PL_ARG_TENSORS && j < arg->count; j++) use(t, arg->list[j], i);
            if (arg->kind == PL_ARG_TENSORS && takes_named_list(n->source)) hold_list(t, arg, i);
        }
    }
    find_names(t);
    for (int32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0) t->last_use[g->outputs[i]] = -1; /* held by the caller */
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (t->last_use[i] >= 0 && g->tensors[i].role == PL_ROLE_VALUE) t->first_dying[t->last_use[i] + 1]++;
    for (int32_t i = 0; i < g->node_count; i++) t->first_dying[i + 1] += t->first_dying[i];
    int32_t *at = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *at);
    if (!at) return false;
    memcpy(at, t->first_dying, (size_t)g->node_count * sizeof *at);
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (t->last_use[i] >= 0 && g->tensors[i].role == PL_ROLE_VALUE) t->dying[at[t->last_use[i]]++] = i;
    return true;
}

static void drop_dead(pl_train *t, int32_t node) {
    for (int32_t k = t->first_dying[node]; k < t->first_dying[node + 1]; k++) {
        pl_value **place = &t->e.env[t->dying[k]];
        pl_value *value = *place;
        *place = NULL;
        pl_drop(&t->e, value);
    }
}

/* ---- checkpointed blocks ---- */

/* "layers.7": the number at the end of a path, or NULL. */
static const char *trailing_number(const char *path) {
    const char *dot = strrchr(path, '.');
    const char *digits = dot ? dot + 1 : path;
    if (!*digits) return NULL;
    for (const char *c = digits; *c; c++)
        if (*c < '0' || *c > '9') return NULL;
    return digits;
}

/* Whether another module has the same type, and the same path but for the number. */
static bool has_sibling(const pl_graph *g, int32_t m) {
    const char *path = g->modules[m].path, *digits = trailing_number(path);
    size_t stem = (size_t)(digits - path);
    for (int32_t i = 0; i < g->module_count; i++) {
        const char *other = g->modules[i].path, *number = trailing_number(other);
        if (i != m && number && (size_t)(number - other) == stem && strncmp(path, other, stem) == 0 &&
            strcmp(path, other) != 0 && strcmp(g->modules[m].type, g->modules[i].type) == 0)
            return true;
    }
    return false;
}

/* A ModuleList is never called, a Sequential is: its path is that of a called module. */
static bool in_module_list(const pl_graph *g, int32_t m) {
    const char *path = g->modules[m].path, *digits = trailing_number(path);
    size_t stem = digits > path ? (size_t)(digits - path) - 1 : 0;
    int32_t parent = g->modules[m].parent;
    return stem > 0 && (parent < 0 || strlen(g->modules[parent].path) != stem || strncmp(g->modules[parent].path, path, stem) != 0);
}

/* Single operators are no blocks: a block has children of its own. */
static bool has_children(const pl_graph *g, int32_t m) {
    for (int32_t i = 0; i < g->module_count; i++)
        if (g->modules[i].parent == m) return true;
    return false;
}

bool pl_train_find_blocks(pl_train *t) {
    const pl_graph *g = t->e.graph;
    t->block_of = pl_arena_array(t->e.tape->arena, (size_t)g->module_count + 1, sizeof *t->block_of);
    if (!t->block_of) return false;
    /* A module's parent has a smaller index, so one pass finds the outermost blocks. */
    for (int32_t m = 0; m < g->module_count; m++) {
        int32_t parent = g->modules[m].parent;
        int32_t outer = parent >= 0 ? t->block_of[parent] : -1;
        bool block = outer < 0 && trailing_number(g->modules[m].path) && has_children(g, m) &&
                     (in_module_list(g, m) || has_sibling(g, m));
        t->block_of[m] = outer >= 0 ? outer : block ? m : -1;
        t->block_count += block;
    }
    return true;
}

static int32_t block_at(const pl_train *t, int32_t node) {
    int32_t m = t->e.graph->nodes[node].module;
    return m >= 0 && t->block_of ? t->block_of[m] : -1;
}

/* ---- running nodes ---- */

static void end_autocast(pl_eager *e) {
    for (int32_t i = 0; i < e->cached_count; i++) {
        pl_leaf *leaf = &e->leaves[e->cached[i]];
        pl_drop(e, leaf->cast);
        leaf->cast = NULL;
    }
    e->cached_count = 0;
}

static void run_node(pl_train *t, int32_t i) {
    pl_eager *e = &t->e;
    const pl_node *node = &e->graph->nodes[i];
    e->node = i;
    uint8_t autocast = e->autocast;
    if (node->autocast != PL_AUTOCAST_JOB)
        e->autocast = node->autocast == PL_AUTOCAST_BF16 ? PL_DT_BF16 : node->autocast == PL_AUTOCAST_F16 ? PL_DT_F16 : 0;
    pl_run_node(e, node, t->operators[i]);
    e->autocast = autocast;
    drop_dead(t, i);
}

/* The values that nodes first..last take from before first, held by the frame. */
static void hold_inputs(pl_train *t, pl_checkpoint_frame *frame) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    size_t room = 0;
    for (int32_t i = frame->first; i <= frame->last; i++) {
        const pl_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->arg_count; k++) {
            const pl_arg *arg = &n->args[k];
            uint32_t count = arg->kind == PL_ARG_TENSOR ? 1 : arg->kind == PL_ARG_TENSORS ? arg->count : 0;
            for (uint32_t j = 0; j < count; j++) {
                int32_t id = arg->kind == PL_ARG_TENSOR ? arg->tensor : arg->list[j];
                if (id < 0 || g->tensors[id].role != PL_ROLE_VALUE || g->tensors[id].producer >= frame->first || !e->env[id]) continue;
                bool known = false;
                for (int32_t q = 0; q < frame->input_count && !known; q++) known = frame->input_ids[q] == id;
                if (known) continue;
                size_t need = (size_t)frame->input_count + 1, same = room;
                int32_t *ids = pl_arena_grow(e->step_arena, frame->input_ids, &room, need, sizeof *ids);
                pl_value **values = pl_arena_grow(e->step_arena, frame->inputs, &same, need, sizeof *values);
                if (!ids || !values) {
                    e->failed = true;
                    return;
                }
                frame->input_ids = ids;
                frame->inputs = values;
                ids[frame->input_count] = id;
                values[frame->input_count++] = pl_hold(e->env[id]);
            }
        }
    }
}

/* Runs a block's nodes again inside backward, until everything its functions saved has been made. */
static void recompute(pl_eager *e, pl_checkpoint_frame *frame) {
    pl_train *t = (pl_train *)e; /* e is its first member */
    const pl_graph *g = e->graph;
    int32_t node = e->node;
    uint8_t kind = e->kind;
    pl_checkpoint_frame *outer = e->frame;
    frame->done = frame->replaying = true;
    e->frame = frame;
    e->grad_enabled = true;
    e->kind = PL_ACTIVATIONS;
    e->autocast = t->autocast;
    for (int32_t i = 0; i < frame->input_count; i++) e->env[frame->input_ids[i]] = pl_hold(frame->inputs[i]);
    for (int32_t i = frame->first; i <= frame->last && frame->filled < frame->place_count && !e->failed; i++) run_node(t, i);
    for (int32_t i = frame->first; i <= frame->last; i++)
        for (uint32_t k = 0; k < g->nodes[i].output_count; k++)
            if (g->nodes[i].outputs[k] >= 0) pl_set_output(e, &g->nodes[i], k, NULL);
    for (int32_t i = 0; i < frame->input_count; i++) {
        pl_value **place = &e->env[frame->input_ids[i]], *value = *place;
        *place = NULL;
        if (value) pl_drop(e, value);
        pl_drop(e, frame->inputs[i]);
    }
    end_autocast(e);
    e->autocast = 0;
    e->grad_enabled = false;
    e->frame = outer;
    e->node = node;
    e->kind = kind;
}

static void run_forward(pl_train *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    for (int32_t i = 0; i < g->node_count && !e->failed;) {
        int32_t block = t->job->checkpoint ? block_at(t, i) : -1, last = i;
        if (t->parallel) pl_parallel_before(t, i);
        if (block < 0) {
            run_node(t, i);
        } else {
            while (last + 1 < g->node_count && block_at(t, last + 1) == block) last++;
            pl_checkpoint_frame *frame = pl_arena_alloc(e->step_arena, sizeof *frame);
            if (!frame) {
                e->failed = true;
                return;
            }
            frame->first = i;
            frame->last = last;
            hold_inputs(t, frame);
            e->frame = frame;
            for (int32_t k = i; k <= last && !e->failed; k++) run_node(t, k);
            e->frame = NULL;
        }
        i = last + 1;
    }
}

/* ---- the model and its inputs ---- */

/* The type of a tensor of the model in the job's precision. */
static pl_dtype job_dtype(const pl_train *t, pl_dtype dtype) {
    bool float_like = dtype == PL_DT_F32 || dtype == PL_DT_F16 || dtype == PL_DT_BF16;
    switch (t->job->precision) {
    case PL_BF16: return float_like ? PL_DT_BF16 : dtype;
    case PL_FP16: return float_like ? PL_DT_F16 : dtype;
    case PL_FP32:
    case PL_TF32:
    case PL_AMP_BF16:
    case PL_AMP_FP16: return float_like ? PL_DT_F32 : dtype;
    default: return dtype;
    }
}

static void place(pl_train *t, int32_t id) {
    pl_eager *e = &t->e;
    const pl_tensor *tensor = &e->graph->tensors[id];
    e->what = tensor->path ? tensor->path : tensor->name;
    pl_value *value = pl_new(e, job_dtype(t, tensor->dtype), tensor->dims, tensor->sizes, NULL);
    if (value->storage->block) e->tape->blocks[value->storage->block].tensor = id;
    e->env[id] = value;
    if (tensor->role != PL_ROLE_PARAMETER || !tensor->requires_grad || !pl_dtype_is_float(tensor->dtype)) return;
    value->needs_grad = true;
    value->leaf = e->leaf_count;
    e->leaves[e->leaf_count++] = (pl_leaf){.tensor = id, .value = value, .name = e->what};
}

/* ---- the order of Module.to ---- */

/* Module.to walks children first, then a module's own parameters, then its buffers. Parameters come in the
 * graph in the order of named_parameters: a module's own, then its children's. So a module's own are moved
 * behind the last parameter below it. */
typedef struct placing {
    int32_t tensor, behind; /* behind: index of the last parameter in the module's subtree */
    int32_t depth;          /* deeper modules first */
    bool buffer;
} placing;

/* Length of the module's part of a path, its dot included. */
static size_t module_length(const char *path) {
    const char *dot = path ? strrchr(path, '.') : NULL;
    return dot ? (size_t)(dot - path) + 1 : 0;
}

static int32_t depth_of(const char *path) {
    int32_t depth = 0;
    for (; path && *path; path++) depth += *path == '.';
    return depth;
}

static int compare_placings(const void *x, const void *y) {
    const placing *a = x, *b = y;
    if (a->behind != b->behind) return a->behind < b->behind ? -1 : 1;
    if (a->depth != b->depth) return a->depth > b->depth ? -1 : 1;
    if (a->buffer != b->buffer) return a->buffer ? 1 : -1;
    return a->tensor < b->tensor ? -1 : 1;
}

static void place_model(pl_train *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    int32_t *params = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *params);
    placing *order = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *order);
    if (!params || !order) {
        e->failed = true;
        return;
    }
    int32_t param_count = 0, count = 0, start = 0, behind = -1;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER) params[param_count++] = i;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *tensor = &g->tensors[i];
        bool buffer = tensor->role == PL_ROLE_BUFFER || tensor->role == PL_ROLE_CONSTANT;
        if (tensor->role != PL_ROLE_PARAMETER && !buffer) continue;
        size_t length = tensor->path ? module_length(tensor->path) : 0;
        int32_t from = buffer ? start : count;
        const char *path = tensor->path ? tensor->path : "";
        while (from < param_count && strncmp(g->tensors[params[from]].path, path, length) != 0) from++;
        if (from < param_count) {
            if (buffer) start = from;
            behind = from;
            while (behind + 1 < param_count && strncmp(g->tensors[params[behind + 1]].path, path, length) == 0) behind++;
        }
        order[count++] = (placing){.tensor = i, .behind = behind, .depth = depth_of(tensor->path), .buffer = buffer};
        if (!buffer && count == param_count) behind = -1;
    }
    qsort(order, (size_t)count, sizeof *order, compare_placings);
    for (int32_t i = 0; i < count; i++) {
        int32_t id = order[i].tensor, tied = g->tensors[id].tied;
        bool is_tied = g->tensors[id].role == PL_ROLE_PARAMETER && tied >= 0;
        if (is_tied && !e->env[tied]) place(t, tied); /* one tensor, two names: placed at the first */
        if (is_tied) e->env[id] = pl_hold(e->env[tied]);
        else if (!e->env[id]) place(t, id);
    }
}

/* The first output that can be a loss or logits: a floating-point tensor. */
static int32_t main_output(const pl_graph *g) {
    for (int32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0 && pl_dtype_is_float(g->tensors[g->outputs[i]].dtype)) return g->outputs[i];
    return -1;
}

pl_loss pl_train_loss(const pl_graph *g, pl_loss asked) {
    if (asked != PL_LOSS_AUTO) return asked;
    int32_t out = main_output(g);
    return out >= 0 && g->tensors[out].dims == 0 ? PL_LOSS_OWN : PL_LOSS_CE;
}

/* Copies of the batch on the device. Floating-point inputs arrive as float32 and are then cast to low weights. */
static void take_inputs(pl_train *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    e->kind = PL_INPUTS;
    e->node = -1;
    e->what = "inputs";
    for (int32_t i = 0; i < g->input_count; i++) {
        const pl_tensor *in = &g->tensors[g->inputs[i]];
        bool floating = in->dtype == PL_DT_F32 || in->dtype == PL_DT_BF16 || in->dtype == PL_DT_F16;
        e->env[g->inputs[i]] = pl_new(e, floating ? PL_DT_F32 : in->dtype, in->dims, in->sizes, NULL);
    }
    int32_t out = main_output(g);
    if (out >= 0 && (t->loss == PL_LOSS_CE || t->loss == PL_LOSS_MSE)) {
        const pl_tensor *logits = &g->tensors[out];
        if (t->loss == PL_LOSS_MSE) {
            t->target = pl_new(e, job_dtype(t, logits->dtype), logits->dims, logits->sizes, NULL);
        } else { /* one class an item: [N], [N, S] for [N, S, C], [N, H, W] for [N, C, H, W] */
            int64_t count = 1;
            int classes = logits->dims == 3 ? 2 : 1;
            for (int i = 0; i < logits->dims; i++)
                if (i != classes) count *= logits->sizes[i];
            t->target = pl_new_flat(e, PL_DT_I64, count);
        }
    }
    for (int32_t i = 0; i < g->input_count; i++) {
        pl_value **in = &e->env[g->inputs[i]];
        pl_dtype dtype = job_dtype(t, g->tensors[g->inputs[i]].dtype);
        if (pl_dtype_is_float((*in)->dtype)) *in = pl_cast_raw(e, *in, dtype);
        if (t->job->channels_last && (*in)->dims == 4) *in = pl_to_channels_last(e, *in);
    }
    e->kind = PL_ACTIVATIONS;
}

static void drop_outputs(pl_train *t) {
    const pl_graph *g = t->e.graph;
    for (int32_t i = 0; i < g->output_count; i++) {
        int32_t id = g->outputs[i];
        if (id < 0 || g->tensors[id].role != PL_ROLE_VALUE) continue;
        pl_drop(&t->e, t->e.env[id]);
        t->e.env[id] = NULL;
    }
}

/* The scalar that backward starts from; logits go when nobody holds them but the loss. */
static pl_value *make_loss(pl_train *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    int32_t out = main_output(g);
    if (out < 0 || !e->env[out]) return NULL;
    pl_value *logits = e->env[out];
    e->node = g->tensors[out].producer;
    e->what = "loss";
    if (t->loss == PL_LOSS_NONE) return pl_hold(logits);
    if (t->loss == PL_LOSS_OWN) { /* loss = model(...).loss: the other outputs go */
        pl_value *own = pl_hold(logits);
        drop_outputs(t);
        return own;
    }
    pl_value *flat = NULL;
    if (t->loss == PL_LOSS_CE && logits->dims == 3)
        flat = pl_reshape(e, logits, 2, (int64_t[]){logits->sizes[0] * logits->sizes[1], logits->sizes[2]});
    pl_value *loss = t->loss == PL_LOSS_MSE ? pl_mse(e, logits, t->target)
                                            : pl_cross_entropy(e, flat ? flat : logits, t->target);
    pl_drop(e, flat);
    drop_outputs(t);
    return loss;
}

/* GradScaler: its scale and growth tracker are made at the first use and kept; the loss is multiplied by it. */
static pl_value *scale_loss(pl_train *t, pl_value *loss) {
    pl_eager *e = &t->e;
    if (t->job->precision != PL_AMP_FP16) return loss;
    e->what = "GradScaler";
    if (!t->scaler_made) {
        t->scaler_made = true;
        pl_block_new(e, 4);
        pl_block_new(e, 4);
    }
    return pl_pointwise(e, "MulBackward0", ":n", loss, NULL);
}

static void unscale_gradients(pl_train *t) {
    if (t->job->precision != PL_AMP_FP16) return;
    pl_eager *e = &t->e;
    int32_t wide = pl_block_new(e, 8), inverse = pl_block_new(e, 8), single = pl_block_new(e, 4);
    pl_block_gone(e, inverse);
    pl_block_gone(e, wide);
    t->found_inf = pl_block_new(e, 4);
    pl_block_gone(e, single);
}

static void release_step(pl_train *t, pl_value *loss, pl_value *scaled) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    for (int32_t i = 0; i < g->input_count; i++) {
        pl_drop(e, e->env[g->inputs[i]]);
        e->env[g->inputs[i]] = NULL;
    }
    pl_drop(e, t->target);
    t->target = NULL;
    drop_outputs(t);
    if (scaled != loss) pl_drop(e, scaled);
    pl_drop(e, loss);
}

static void run_step(pl_train *t, int step) {
    pl_eager *e = &t->e;
    e->step = (uint8_t)step;
    pl_mark(e, PL_PHASE_INPUT);
    for (int32_t i = 0; i < e->leaf_count; i++) { /* zero_grad(set_to_none=True) */
        pl_drop(e, e->leaves[i].grad);
        e->leaves[i].grad = NULL;
    }
    if (t->parallel) pl_parallel_zero_grad(t);
    if (t->parallel) pl_parallel_before_step(t, step);
    pl_value *loss = NULL, *scaled = NULL;
    for (int pass = 0; pass < t->job->accumulate && !e->failed; pass++) {
        if (pass) {
            release_step(t, loss, scaled);
            pl_mark(e, PL_PHASE_INPUT);
        }
        take_inputs(t);
        pl_mark(e, PL_PHASE_FORWARD);
        e->grad_enabled = t->trains;
        e->autocast = t->autocast;
        e->fn_count = 0;
        run_forward(t);
        if (t->parallel) pl_parallel_forward_done(t);
        loss = make_loss(t);
        end_autocast(e);
        e->autocast = 0;
        if (!loss || !t->trains) break;
        scaled = scale_loss(t, loss);
        pl_mark(e, PL_PHASE_BACKWARD);
        pl_backward_from(e, scaled);
        if (t->parallel) pl_parallel_backward_done(t);
    }
    if (t->trains) {
        pl_mark(e, PL_PHASE_OPTIMIZER);
        e->node = -1;
        unscale_gradients(t);
        pl_optimizer_step(e, t->optimizer, step == 0);
        pl_block_gone(e, t->found_inf);
        t->found_inf = 0;
    }
    if (loss) release_step(t, loss, scaled ? scaled : loss);
}

/* ---- the whole ---- */

pl_value *pl_to_channels_last(pl_eager *e, pl_value *value) {
    if (value->dims != 4) return value;
    const int64_t *s = value->sizes;
    int64_t strides[4] = {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
    pl_value *copy = pl_new(e, (pl_dtype)value->dtype, 4, s, strides);
    pl_drop(e, value);
    return copy;
}

/* model.to(memory_format=torch.channels_last): every 4-d parameter and buffer is laid out anew. */
static void turn_model(pl_train *t) {
    pl_eager *e = &t->e;
    for (int32_t i = 0; i < e->graph->tensor_count; i++) {
        pl_value *value = e->env[i];
        if (!value || value->dims != 4) continue;
        pl_value *turned = pl_to_channels_last(e, pl_hold(value));
        if (turned->storage->block) e->tape->blocks[turned->storage->block].tensor = i;
        turned->leaf = value->leaf;
        turned->needs_grad = value->needs_grad;
        if (value->leaf >= 0) e->leaves[value->leaf].value = turned;
        e->env[i] = turned;
        pl_drop(e, value);
    }
}

/* nn.LSTM and its like gather their weights into one buffer when they are moved (flatten_parameters): each
 * recurrent node's parameters become views of it. */
static void flatten_recurrent(pl_train *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    for (int32_t i = 0; i < g->node_count; i++) {
        if (!t->operators[i] || t->operators[i]->run != pl_run_recurrent) continue;
        const pl_arg *params = pl_node_arg(&g->nodes[i], "params");
        if (!params || params->kind != PL_ARG_TENSORS) continue;
        int64_t total = 0;
        bool usable = params->count > 0;
        for (uint32_t k = 0; k < params->count; k++) {
            int32_t id = params->list[k];
            usable = usable && id >= 0 && e->env[id] && g->tensors[id].role == PL_ROLE_PARAMETER &&
                     e->env[id]->dtype != PL_DT_BF16; /* rnn-0315 */
            if (usable) total += e->env[id]->elements;
        }
        if (!usable) continue;
        e->what = "flattened weights";
        pl_value *flat = pl_new_flat(e, (pl_dtype)e->env[params->list[0]]->dtype, total);
        for (uint32_t k = 0; k < params->count; k++) {
            pl_value *old = e->env[params->list[k]];
            pl_value *view = pl_alias(e, flat, old->dims, old->sizes, NULL);
            view->leaf = old->leaf;
            view->needs_grad = old->needs_grad;
            if (old->leaf >= 0) e->leaves[old->leaf].value = view;
            e->env[params->list[k]] = view;
            pl_drop(e, old);
        }
        pl_drop(e, flat);
    }
}

static bool prepare(pl_train *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    pl_arena *arena = e->tape->arena;
    e->env = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->env);
    e->leaves = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->leaves);
    e->cached = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->cached);
    t->operators = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *t->operators);
    if (!e->env || !e->leaves || !e->cached || !t->operators || !find_lifetimes(t)) return false;
    /* Importers share equal names, so that most nodes' rows are found by the name's address. */
    struct {
        const char *target;
        const pl_operator *op;
    } seen[64] = {0};
    for (int32_t i = 0; i < g->node_count; i++) {
        const char *target = g->nodes[i].target;
        size_t at = ((uintptr_t)target >> 4) % 64;
        if (seen[at].target != target) {
            seen[at].target = target;
            seen[at].op = pl_operator_find(target);
        }
        t->operators[i] = seen[at].op;
    }
    return pl_train_find_blocks(t);
}

static void add_note(pl_train *t, const char *note) {
    pl_tape *tape = t->e.tape;
    size_t room = tape->note_count;
    const char **grown = pl_arena_grow(tape->arena, tape->notes, &room, room + 1, sizeof *grown);
    if (!grown) {
        t->e.failed = true;
        return;
    }
    tape->notes = grown;
    tape->notes[tape->note_count++] = note;
}

static void run(pl_train *t) {
    pl_eager *e = &t->e;
    e->kind = PL_WEIGHTS;
    e->node = -1;
    e->step_arena = e->tape->arena;
    pl_mark(e, PL_PHASE_LOAD);
    place_model(t);
    if (t->job->channels_last) turn_model(t);
    flatten_recurrent(t);
    if (t->parallel) pl_parallel_wrap(t);
    if (t->trains && e->leaf_count == 0) add_note(t, "no parameter wants a gradient: forward only");
    if (e->leaf_count == 0) t->trains = false;
    e->tape->trains = t->trains;
    if (t->trains) pl_optimizer_make(e, t->optimizer);
    if (t->job->checkpoint && t->block_count == 0)
        add_note(t, "checkpointing asked for, but the model has no repeated blocks: nothing is checkpointed");
    for (int step = 0; step < t->job->steps && !e->failed; step++) {
        e->step_arena = t->step_arenas[step % 2];
        if (step >= 2) pl_arena_reset(e->step_arena);
        e->fns = NULL;
        e->fn_room = e->fn_count = 0;
        run_step(t, step);
    }
}

pl_status pl_tape_train(pl_tape **out, const pl_graph *graph, const pl_training *training,
                        const pl_tape_device *device, size_t memory_limit, pl_error *err) {
    *out = NULL;
    pl_train t = {.job = training, .optimizer = pl_optimizer_find(training->optimizer)};
    if (!t.optimizer)
        return pl_fail(err, PL_USAGE, "--optimizer", -1, "unknown optimizer \"%s\"", training->optimizer);
    t.trains = strcmp(training->optimizer, "none") != 0 && training->loss != PL_LOSS_NONE;
    t.loss = pl_train_loss(graph, training->loss);
    t.autocast = training->precision == PL_AMP_BF16 ? PL_DT_BF16 : training->precision == PL_AMP_FP16 ? PL_DT_F16 : 0;
    pl_arena *arena = pl_arena_new(memory_limit);
    pl_tape *tape = arena ? pl_arena_alloc(arena, sizeof *tape) : NULL;
    for (int i = 0; i < 2; i++) t.step_arenas[i] = pl_arena_new(memory_limit);
    bool ready = tape && t.step_arenas[0] && t.step_arenas[1];
    if (ready) {
        tape->arena = arena;
        const pl_graph *eager = pl_rewrite(graph, arena);
        t.e = (pl_eager){.tape = tape, .graph = eager, .training = training, .device = device, .recompute = recompute, .node = -1};
        ready = eager && prepare(&t) && pl_parallel_prepare(&t);
        if (t.parallel) t.e.before_fn = pl_parallel_backward;
        if (ready) run(&t);
        ready = ready && !t.e.failed;
    }
    for (int i = 0; i < 2; i++) pl_arena_free(&t.step_arenas[i]);
    if (ready) {
        *out = tape;
        return PL_OK;
    }
    pl_arena_free(&arena);
    return pl_fail(err, PL_MISSING, graph->name, -1,
                   "out of memory while simulating (limit %zu bytes), or a tensor larger than 2^63 bytes", memory_limit);
}

void pl_tape_close(pl_tape **tape) {
    if (!tape || !*tape) return;
    pl_arena *arena = (*tape)->arena; /* the tape itself lies in it */
    *tape = NULL;
    pl_arena_free(&arena);
}
