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
#include "core/mix.h"
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

/* Which parameters stand in each module or below it, by the module's part of their paths: a hash
 * table of prefixes ("", "layers.", "layers.0."), each with its parameters' indices in order and,
 * of each, the last of those that follow it without a gap. */
typedef struct prefix {
    const char *path; /* a parameter's, of which `length` bytes are meant */
    size_t length;
    int32_t first, count; /* in indices and run_ends */
} prefix;

typedef struct prefix_table {
    uint64_t secret;
    prefix *prefixes;
    size_t prefix_count, prefix_room;
    int32_t *slots; /* [slot_count]: prefix + 1, 0: empty */
    size_t slot_count;
    uint64_t *hashes; /* [prefix_room] */
    size_t hash_room;
    int32_t *indices, *run_ends;
} prefix_table;

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t length, uint64_t secret) {
    while (length) {
        uint64_t word = 0;
        size_t part = length < 8 ? length : 8;
        memcpy(&word, bytes, part);
        hash = pl_mix(hash, word ^ (uint64_t)part << 56, secret);
        bytes += part;
        length -= part;
    }
    return hash;
}

static int32_t *prefix_slot(const prefix_table *t, const char *path, size_t length, uint64_t hash) {
    size_t at = (size_t)(hash ^ hash >> 29) & (t->slot_count - 1);
    for (; t->slots[at]; at = (at + 1) & (t->slot_count - 1)) {
        const prefix *p = &t->prefixes[t->slots[at] - 1];
        if (p->length == length && t->hashes[t->slots[at] - 1] == hash &&
            memcmp(p->path, path, length) == 0)
            break;
    }
    return &t->slots[at];
}

/* Where the module behind the first `from` bytes ends, its dot included; 0: there is none. */
static size_t next_prefix(const char *path, size_t from) {
    const char *dot = strchr(path + from, '.');
    return dot ? (size_t)(dot - path) + 1 : 0;
}

/* Number of the prefix, made where it is new; -1: out of memory. */
static int32_t prefix_of(prefix_table *t, pl_arena *arena, const char *path, size_t length,
                         uint64_t hash) {
    if (t->prefix_count * 2 >= t->slot_count) {
        size_t count = t->slot_count ? t->slot_count * 2 : 256;
        int32_t *slots = pl_arena_array(arena, count, sizeof *slots);
        if (!slots) return -1;
        t->slots = slots;
        t->slot_count = count;
        for (size_t i = 0; i < t->prefix_count; i++)
            *prefix_slot(t, t->prefixes[i].path, t->prefixes[i].length, t->hashes[i]) =
                (int32_t)i + 1;
    }
    int32_t *slot = prefix_slot(t, path, length, hash);
    if (*slot) return *slot - 1;
    size_t need = t->prefix_count + 1;
    prefix *grown = pl_arena_grow(arena, t->prefixes, &t->prefix_room, need, sizeof *grown);
    uint64_t *hashes = pl_arena_grow(arena, t->hashes, &t->hash_room, need, sizeof *hashes);
    if (!grown || !hashes) return -1;
    t->prefixes = grown;
    t->hashes = hashes;
    t->prefixes[t->prefix_count] = (prefix){.path = path, .length = length};
    t->hashes[t->prefix_count] = hash;
    *slot = (int32_t)++t->prefix_count;
    return *slot - 1;
}

/* The parameters' paths twice: to count, and to fill. */
static bool find_prefixes(prefix_table *t, const pl_graph *g, const int32_t *params, int32_t count,
                          pl_arena *arena) {
    *t = (prefix_table){.secret = pl_mix_secret(arena)};
    size_t total = 0;
    for (int pass = 0; pass < 2; pass++) {
        if (pass) {
            int32_t at = 0;
            t->indices = pl_arena_array(arena, total + 1, sizeof *t->indices);
            t->run_ends = pl_arena_array(arena, total + 1, sizeof *t->run_ends);
            if (!t->indices || !t->run_ends || total > INT32_MAX) return false;
            for (size_t i = 0; i < t->prefix_count; i++) {
                t->prefixes[i].first = at;
                at += t->prefixes[i].count;
                t->prefixes[i].count = 0;
            }
        }
        for (int32_t i = 0; i < count; i++) {
            const char *path = g->tensors[params[i]].path ? g->tensors[params[i]].path : "";
            uint64_t hash = t->secret;
            size_t length = 0, next;
            do {
                int32_t made = prefix_of(t, arena, path, length, hash);
                if (made < 0) return false;
                prefix *p = &t->prefixes[made];
                if (pass) t->indices[p->first + p->count] = i;
                p->count++;
                total += !pass;
                next = next_prefix(path, length);
                if (next) hash = hash_bytes(hash, path + length, next - length, t->secret);
                length = next;
            } while (next);
        }
    }
    for (size_t i = 0; i < t->prefix_count; i++) {
        const prefix *p = &t->prefixes[i];
        for (int32_t k = p->first + p->count; k-- > p->first;) {
            bool follows = k + 1 < p->first + p->count && t->indices[k + 1] == t->indices[k] + 1;
            t->run_ends[k] = follows ? t->run_ends[k + 1] : t->indices[k];
        }
    }
    return true;
}

/* The first parameter from `from` on in the module of the first `length` bytes of path, and the
 * last of those that follow it; false: there is none. */
static bool find_run(const prefix_table *t, const char *path, size_t length, int32_t from,
                     int32_t *first, int32_t *last) {
    if (!t->slot_count) return false;
    uint64_t hash = t->secret;
    for (size_t at = 0, next; at < length; at = next) {
        next = next_prefix(path, at);
        hash = hash_bytes(hash, path + at, next - at, t->secret);
    }
    int32_t found = *prefix_slot(t, path, length, hash) - 1;
    if (found < 0) return false;
    int32_t low = t->prefixes[found].first, high = low + t->prefixes[found].count, end = high;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (t->indices[middle] < from)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == end) return false;
    *first = t->indices[low];
    *last = t->run_ends[low];
    return true;
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
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_PARAMETER) params[param_count++] = i;
    prefix_table prefixes;
    if (!find_prefixes(&prefixes, g, params, param_count, e->tape->arena)) {
        e->failed = true;
        return;
    }
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *tensor = &g->tensors[i];
        bool buffer = tensor->role == PL_ROLE_BUFFER || tensor->role == PL_ROLE_CONSTANT;
        if (tensor->role != PL_ROLE_PARAMETER && !buffer) continue;
        size_t length = tensor->path ? module_length(tensor->path) : 0;
        int32_t from = buffer ? start : count, depth = depth_of(tensor->path);
        const char *path = tensor->path ? tensor->path : "";
        if (find_run(&prefixes, path, length, from, &from, &behind) && buffer) start = from;
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
    if (t->job->parallel != PL_FSDP2) flatten_recurrent(t); /* shards are tensors of their own */
}
