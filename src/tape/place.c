/* place: see place.h.
 *
 * Rules: torch/nn/modules/module.py (_apply: children, then parameters, then buffers),
 * torch/nn/modules/rnn.py (flatten_parameters), 2.11.
 *
 * Left out: models built on the device (under torch.device("cuda")), whose tensors are made in
 * another order. */
#include "tape/place.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "graph/finetune.h"
#include "tape/quantized.h"

/* ---- one tensor ---- */

pl_dtype pl_place_dtype(const pl_trainer *t, pl_dtype dtype) {
    bool float_like = dtype == PL_DT_F32 || pl_dtype_is_half(dtype);
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

static void put(pl_trainer *t, int32_t id) {
    pl_eager *e = &t->e;
    const pl_tensor *tensor = &e->graph->tensors[id];
    e->what = tensor->path ? tensor->path : tensor->name;
    pl_dtype dtype = tensor->keeps_type        ? tensor->dtype
                     : e->tape->used_quantized ? pl_quantized_loaded(e, tensor->dtype)
                                               : pl_place_dtype(t, tensor->dtype);
    pl_value *value = pl_is_packed(tensor) ? pl_quantized_new(e, tensor)
                                           : pl_new(e, dtype, tensor->dims, tensor->sizes, NULL);
    if (value->storage->block) e->tape->blocks[value->storage->block].tensor = id;
    e->env[id] = value;
    if (tensor->role != PL_ROLE_PARAMETER || !tensor->requires_grad ||
        !pl_dtype_is_float(tensor->dtype))
        return;
    value->needs_grad = true;
    value->leaf = e->leaf_count;
    e->leaves[e->leaf_count++] = (pl_leaf){.tensor = id, .value = value, .name = e->what};
}

/* ---- the order of Module.to ---- */

/* Module.to walks children first, then a module's own parameters, then its buffers. Parameters come
 * in the graph in the order of named_parameters: a module's own, then its children's. So a module's
 * own are moved behind the last parameter below it. */
typedef struct placing {
    int32_t tensor, behind; /* behind: index of the last parameter in the module's subtree */
    int32_t depth;          /* deeper modules first */
    bool buffer;
} placing;

/* Parameters from `from` to `behind` whose paths start with the first `length` bytes of path. */
typedef struct subtree {
    const char *path;
    size_t length;
    int32_t from, behind;
} subtree;

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

/* PEFT's prepare_model_for_kbit_training: what was not packed is cast to float32, one after
 * another, and the cache emptied. In jobs with half weights it is taken as not called. */
static void prepare_quantized(pl_trainer *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    bool any = false;
    /* other names of each parameter: first[i] and, from it, next[]; -1 ends a list */
    size_t count = (size_t)g->tensor_count + 1;
    int32_t *first = pl_arena_array(e->tape->arena, count, sizeof *first),
            *next = pl_arena_array(e->tape->arena, count, sizeof *next);
    if (!first || !next) {
        e->failed = true;
        return;
    }
    for (int32_t i = 0; i < g->tensor_count; i++) first[i] = -1;
    for (int32_t k = g->tensor_count; k-- > 0;) {
        int32_t tied = g->tensors[k].tied;
        if (g->tensors[k].role != PL_ROLE_PARAMETER || tied < 0) continue;
        next[k] = first[tied];
        first[tied] = k;
    }
    for (int32_t i = 0; i < g->tensor_count; i++) {
        pl_value *old = e->env[i];
        pl_dtype dtype = pl_place_dtype(t, g->tensors[i].dtype);
        bool tied = g->tensors[i].tied >= 0;
        if (g->tensors[i].role != PL_ROLE_PARAMETER || !old || tied || old->dtype == dtype)
            continue;
        e->what = g->tensors[i].path;
        e->env[i] = pl_cast_raw(e, old, dtype);
        any = true;
        if (e->env[i]->storage->block) e->tape->blocks[e->env[i]->storage->block].tensor = i;
        for (int32_t k = first[i]; k >= 0; k = next[k]) {
            if (!e->env[k]) continue;
            pl_drop(e, e->env[k]);
            e->env[k] = pl_hold(e->env[i]);
        }
    }
    if (any) pl_cache_emptied(e);
}

static void move_model(pl_trainer *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    int32_t *params = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *params);
    placing *order = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *order);
    if (!params || !order) {
        e->failed = true;
        return;
    }
    int32_t param_count = 0, count = 0, start = 0, behind = -1;
    subtree seen[64] = {0}; /* the last of each depth: a module's parameters stand together */
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER) params[param_count++] = i;
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *tensor = &g->tensors[i];
        bool buffer = tensor->role == PL_ROLE_BUFFER || tensor->role == PL_ROLE_CONSTANT;
        if (tensor->role != PL_ROLE_PARAMETER && !buffer) continue;
        size_t length = tensor->path ? module_length(tensor->path) : 0;
        int32_t from = buffer ? start : count, depth = depth_of(tensor->path);
        const char *path = tensor->path ? tensor->path : "";
        while (from < param_count && strncmp(g->tensors[params[from]].path, path, length) != 0)
            from++;
        if (from < param_count) {
            if (buffer) start = from;
            subtree *s = &seen[depth % 64];
            if (!s->path || s->length != length || strncmp(s->path, path, length) != 0 ||
                from < s->from || from > s->behind) {
                *s = (subtree){.path = path, .length = length, .from = from, .behind = from};
                while (s->behind + 1 < param_count &&
                       strncmp(g->tensors[params[s->behind + 1]].path, path, length) == 0)
                    s->behind++;
            }
            behind = s->behind;
        }
        order[count++] = (placing){.tensor = i, .behind = behind, .depth = depth, .buffer = buffer};
        if (!buffer && count == param_count) behind = -1;
    }
    qsort(order, (size_t)count, sizeof *order, compare_placings);
    for (int32_t i = 0; i < g->tensor_count; i++)
        e->tape->used_quantized |= pl_is_packed(&g->tensors[i]);
    for (int32_t i = 0; i < count; i++) {
        int32_t id = order[i].tensor, tied = g->tensors[id].tied;
        if (e->tape->used_quantized && g->tensors[id].keeps_type) continue;
        bool is_tied = g->tensors[id].role == PL_ROLE_PARAMETER && tied >= 0;
        if (is_tied && !e->env[tied]) put(t, tied); /* one tensor, two names: placed at the first */
        if (is_tied)
            e->env[id] = pl_hold(e->env[tied]);
        else if (!e->env[id])
            put(t, id);
    }
    if (!e->tape->used_quantized) return;
    prepare_quantized(t);
    for (int32_t i = 0; i < count; i++) /* adapters are made on the device, last */
        if (!e->env[order[i].tensor]) put(t, order[i].tensor);
}

/* ---- what moving sets off ---- */

pl_value *pl_to_channels_last(pl_eager *e, pl_value *value) {
    if (value->dims != 4) return value;
    const int64_t *s = value->sizes;
    int64_t strides[4] = {s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]};
    pl_value *copy = pl_new(e, (pl_dtype)value->dtype, 4, s, strides);
    pl_drop(e, value);
    return copy;
}

/* model.to(memory_format=torch.channels_last): every 4-d parameter and buffer is laid out anew. */
static void turn_model(pl_trainer *t) {
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

/* nn.LSTM and its like gather their weights into one buffer when they are moved
 * (flatten_parameters): each recurrent node's parameters become views of it. */
static void flatten_recurrent(pl_trainer *t) {
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
            if (usable && !pl_add_i64(total, e->env[id]->elements, &total)) total = INT64_MAX;
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

void pl_place_model(pl_trainer *t) {
    move_model(t);
    if (t->job->channels_last) turn_model(t);
    flatten_recurrent(t);
}
