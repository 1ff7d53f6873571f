/* parallel: one rank of a data-parallel (DDP) or sharded (FSDP2) job.
 *
 * Rules: torch/nn/parallel/distributed.py, torch/csrc/distributed/c10d/reducer.cpp,
 * torch/distributed/fsdp/ _fully_shard (2.11), checked against allocator traces of jobs over a fake
 * process group on an H200 (2026-11-15): the memory is real, the communication is not.
 *
 * DDP keeps gradients once more in buckets: one for all at first, rebuilt before the second step in
 * the order in which gradients arrive, 1 MiB for the first and 25 MiB for the others.
 *
 * FSDP2, every repeated block and the rest of the model (the root) a group. Parameters are kept in
 * shards of dimension 0. A group is gathered into one flat buffer on a stream of its own and copied
 * out, parameter by parameter; the flat buffer goes when the next group has been copied out, in
 * backward at once, where the next group is fetched ahead. Stage 3 gives the parameters back after
 * forward, stage 2 after backward. After a group's backward its gradients are copied into a flat
 * buffer, which lives until the next group's, and reduced to a shard.
 *
 * FSDP2 loads a model in shards (PL_LOAD_SHARDED): the model is on the CPU, and fully_shard moves the
 * parameters of what it wraps to the card (_fsdp_init.py: _move_states_to_device), makes this rank's
 * shards and lets the whole ones go: a block at a time, the root last. 4-bit weights are quantised as
 * they are moved. From the meta device (to_empty of the shards, then a checkpoint's parameters one at
 * a time: set_model_state_dict with broadcast_from_rank0, _state_dict_utils.py; so do accelerate and
 * torchtune), or where each rank reads its own shards (DCP, torchtitan), less is there at a time.
 * PL_LOAD_FULL: the model was moved to the card whole, and is sharded there.
 *
 * Left out: hybrid sharding, CPU offload, gradient_as_bucket_view, NCCL's own buffers. */
#include "tape/parallel.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "graph/finetune.h"
#include "tape/quantized.h"

enum { DEFAULT_STREAM, GATHER_STREAM, REDUCE_STREAM };
enum { FIRST_BUCKET = 1 << 20, BUCKET = 25 << 20 };

typedef struct group {
    int32_t *params; /* tensors of the graph */
    int32_t count, room;
    int32_t block;        /* module, -1: the root */
    int32_t fetched;      /* flat buffer on the tape, 0: none */
    int32_t reduced;      /* shard of gradients on the tape, 0: none */
    bool unsharded, done; /* done: its backward has run */
} group;

struct pl_ranks {
    group *groups; /* blocks in order, the root last */
    int32_t group_count;
    int32_t *group_of; /* [module_count] */
    group *current;    /* whose forward or backward runs */
    int32_t last_flat; /* of the group gathered before this one, still held */
    int32_t last_reduce;
    pl_dtype param_dtype, reduce_dtype; /* UNKNOWN: as the parameter */
    int32_t *buckets;                   /* DDP */
    int32_t bucket_count;
};

static int64_t shard_elements(const pl_value *p, int world) {
    if (p->dims == 0 || p->sizes[0] == 0) return p->elements;
    return pl_div_up(p->sizes[0], world) * (p->elements / p->sizes[0]);
}

static pl_dtype gathered_dtype(const pl_ranks *p, pl_dtype original) {
    return p->param_dtype != PL_DT_UNKNOWN && pl_dtype_is_float(original) ? p->param_dtype
                                                                          : original;
}

static bool has_gradient(const pl_trainer *t, int32_t param) {
    int32_t at = t->e.env[param]->leaf;
    return at >= 0 && t->e.leaves[at].grad;
}

/* Bytes of a group's parameters, or of those alone that have a gradient, padded to shards, in a type
 * (UNKNOWN: as the parameters are). */
static int64_t group_bytes(const pl_trainer *t, const group *g, pl_dtype dtype, bool gradients,
                           bool one_shard) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < g->count; i++) {
        const pl_value *value = t->e.env[g->params[i]];
        if (gradients && !has_gradient(t, g->params[i])) continue;
        int64_t n = pl_times(shard_elements(value, t->job->world), one_shard ? 1 : t->job->world);
        n = pl_times(n, pl_dtype_size(dtype != PL_DT_UNKNOWN ? dtype : (pl_dtype)value->dtype));
        if (!pl_add_i64(bytes, n, &bytes)) bytes = INT64_MAX;
    }
    return bytes;
}

static int32_t take(pl_eager *e, int64_t bytes, pl_kind kind, int stream, const char *what) {
    uint8_t was_kind = e->kind;
    const char *was = e->what;
    e->kind = (uint8_t)kind;
    e->what = what;
    int32_t block = pl_block_new(e, bytes);
    if (block) e->tape->blocks[block].stream = (uint8_t)stream;
    e->kind = was_kind;
    e->what = was;
    return block;
}

static void release(pl_eager *e, int32_t *block) {
    pl_block_gone(e, *block);
    *block = 0;
}

/* ---- FSDP2 ---- */

static void fetch(pl_trainer *t, group *g) {
    if (!g->unsharded && !g->fetched)
        g->fetched = take(&t->e, group_bytes(t, g, PL_DT_UNKNOWN, false, false), PL_WORKSPACE,
                          GATHER_STREAM, "all_gather");
}

/* Copies the flat buffer out. Views that autograd saved look at the same storages, which get new
 * blocks. */
static void unshard(pl_trainer *t, group *g, bool in_backward) {
    pl_eager *e = &t->e;
    if (g->unsharded) return;
    fetch(t, g);
    for (int32_t i = 0; i < g->count; i++) {
        pl_value *value = e->env[g->params[i]];
        value->storage->block =
            take(e, pl_value_bytes(value), PL_WEIGHTS, DEFAULT_STREAM, "unsharded parameter");
        if (value->storage->block) e->tape->blocks[value->storage->block].tensor = g->params[i];
    }
    release(e, &t->parallel->last_flat);
    if (in_backward)
        release(e, &g->fetched);
    else
        t->parallel->last_flat = g->fetched;
    g->fetched = 0;
    g->unsharded = true;
}

static void reshard(pl_trainer *t, group *g) {
    if (!g->unsharded) return;
    for (int32_t i = 0; i < g->count; i++) release(&t->e, &t->e.env[g->params[i]]->storage->block);
    g->unsharded = false;
}

/* The group's gradients into one buffer, reduced to this rank's shard. */
static void reduce(pl_trainer *t, group *g) {
    pl_eager *e = &t->e;
    pl_ranks *p = t->parallel;
    if (g->done) return;
    g->done = true;
    reshard(t, g);
    pl_dtype kept =
        e->leaf_count && e->leaves[0].shard ? (pl_dtype)e->leaves[0].shard->dtype : PL_DT_F32;
    int64_t all = group_bytes(t, g, p->reduce_dtype, true, false),
            own = group_bytes(t, g, p->reduce_dtype, true, true),
            own_kept = group_bytes(t, g, kept, true, true);
    if (all == 0) return;
    release(e, &p->last_reduce);
    p->last_reduce = take(e, all, PL_WORKSPACE, DEFAULT_STREAM, "reduce_scatter");
    for (int32_t i = 0; i < g->count; i++) {
        int32_t at = e->env[g->params[i]]->leaf;
        pl_leaf *leaf = at >= 0 ? &e->leaves[at] : NULL;
        if (!leaf || !leaf->grad) continue;
        pl_drop(e, leaf->grad);
        leaf->grad = NULL;
        leaf->reduced = true;
    }
    int32_t shard = take(e, own, PL_GRADIENTS, REDUCE_STREAM, "reduced gradients");
    if (p->reduce_dtype != PL_DT_UNKNOWN &&
        p->reduce_dtype != kept) { /* cast to the parameter's own type */
        int32_t cast = take(e, own_kept, PL_GRADIENTS, REDUCE_STREAM, "reduced gradients");
        pl_block_gone(e, shard);
        shard = cast;
    }
    if (g->reduced)
        pl_block_gone(e, shard); /* accumulated into the one before */
    else
        g->reduced = shard;
}

static group *group_at(pl_trainer *t, int32_t node) {
    const pl_ranks *p = t->parallel;
    int32_t block = pl_blocks_at(&t->blocks, t->e.graph, node);
    return &p->groups[block >= 0 ? p->group_of[block] : p->group_count - 1];
}

static group *root_of(const pl_ranks *p) {
    return &p->groups[p->group_count - 1];
}

static void leave(pl_trainer *t, group *next) {
    pl_ranks *p = t->parallel;
    if (p->current && p->current != next && p->current != root_of(p) && t->job->stage == 3)
        reshard(t, p->current);
    p->current = next;
}

void pl_parallel_before(pl_trainer *t, int32_t node) {
    pl_ranks *p = t->parallel;
    if (t->job->parallel != PL_FSDP2) return;
    group *g = group_at(t, node);
    if (g == p->current) return;
    leave(t, g);
    unshard(t, root_of(p), false);
    unshard(t, g, false);
}

void pl_parallel_forward_done(pl_trainer *t) {
    pl_ranks *p = t->parallel;
    if (t->job->parallel != PL_FSDP2) return;
    leave(t, NULL);
    if (t->job->stage == 3) reshard(t, root_of(p));
    release(&t->e, &p->last_flat);
    for (int32_t i = 0; i < p->group_count; i++) p->groups[i].done = false;
}

/* The group before g in the order of the model: the next one backward comes to. */
static group *group_before(const pl_ranks *p, const group *g) {
    int32_t at = g == root_of(p) ? p->group_count - 2 : (int32_t)(g - p->groups) - 1;
    return at >= 0 ? &p->groups[at] : NULL;
}

void pl_parallel_backward(pl_eager *e, const pl_fn *fn) {
    pl_trainer *t = (pl_trainer *)e; /* e is its first member */
    pl_ranks *p = t->parallel;
    if (t->job->parallel != PL_FSDP2) return;
    if (!p->current) { /* backward begins: the root first */
        p->current = root_of(p);
        unshard(t, p->current, true);
        group *next = group_before(p, p->current);
        if (next && !next->unsharded) fetch(t, next);
    }
    group *g = group_at(t, fn->node);
    if (g == p->current) return;
    if (p->current != root_of(p)) reduce(t, p->current);
    p->current = g;
    if (g == root_of(p) || g->done) return;
    unshard(t, g, true);
    group *next = group_before(p, g);
    if (next && !next->unsharded) fetch(t, next);
}

void pl_parallel_backward_done(pl_trainer *t) {
    pl_ranks *p = t->parallel;
    if (t->job->parallel != PL_FSDP2) return;
    if (p->current && p->current != root_of(p)) reduce(t, p->current);
    reduce(t, root_of(p));
    release(&t->e, &p->last_reduce);
    p->current = NULL;
}

void pl_parallel_zero_grad(pl_trainer *t) {
    pl_ranks *p = t->parallel;
    for (int32_t i = 0; i < p->group_count; i++) release(&t->e, &p->groups[i].reduced);
    for (int32_t i = 0; i < t->e.leaf_count; i++) t->e.leaves[i].reduced = false;
}

/* ---- DDP ---- */

void pl_parallel_before_step(pl_trainer *t, int step) {
    pl_ranks *p = t->parallel;
    pl_eager *e = &t->e;
    if (t->job->parallel != PL_DDP || step != 1) return;
    for (int32_t i = 0; i < p->bucket_count; i++) release(e, &p->buckets[i]);
    p->bucket_count = 0;
    int64_t bytes = 0, limit = FIRST_BUCKET;
    for (int32_t i = e->leaf_count; i-- > 0;) {
        bytes += pl_value_bytes(e->leaves[i].value);
        if (bytes < limit && i > 0) continue;
        p->buckets[p->bucket_count++] = take(e, bytes, PL_GRADIENTS, DEFAULT_STREAM, "DDP bucket");
        bytes = 0;
        limit = BUCKET;
    }
}

/* ---- setting up ---- */

static bool add_param(pl_trainer *t, group *g, int32_t tensor) {
    size_t room = (size_t)g->room;
    int32_t *grown =
        pl_arena_grow(t->e.tape->arena, g->params, &room, (size_t)g->count + 1, sizeof *grown);
    if (!grown) return false;
    g->params = grown;
    g->room = (int32_t)room;
    g->params[g->count++] = tensor;
    return true;
}

typedef struct named_block {
    const char *path;
    int32_t module;
} named_block;

static int by_path(const void *x, const void *y) {
    const named_block *a = x, *b = y;
    int order = strcmp(a->path, b->path);
    return order ? order : a->module < b->module ? -1 : 1;
}

/* The first block, of those sorted by path, whose path is the first `length` bytes of text; -1. */
static int32_t block_named(const named_block *blocks, size_t count, const char *text,
                           size_t length) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(blocks[middle].path, text, length) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool found =
        low < count && strncmp(blocks[low].path, text, length) == 0 && !blocks[low].path[length];
    return found ? blocks[low].module : -1;
}

/* The block whose path a parameter's path continues, or -1: blocks do not lie in each other. */
static int32_t block_of_path(const named_block *blocks, size_t count, const char *path) {
    for (const char *dot = path ? strchr(path, '.') : NULL; dot; dot = strchr(dot + 1, '.')) {
        int32_t m = block_named(blocks, count, path, (size_t)(dot - path));
        if (m >= 0) return m;
    }
    return -1;
}

static bool make_groups(pl_trainer *t) {
    pl_ranks *p = t->parallel;
    const pl_graph *g = t->e.graph;
    pl_arena *arena = t->e.tape->arena;
    p->groups = pl_arena_array(arena, (size_t)t->blocks.count + 1, sizeof *p->groups);
    p->group_of = pl_arena_array(arena, (size_t)g->module_count + 1, sizeof *p->group_of);
    named_block *blocks = pl_arena_array(arena, (size_t)t->blocks.count + 1, sizeof *blocks);
    if (!p->groups || !p->group_of || !blocks) return false;
    size_t count = 0;
    for (int32_t m = 0; m < g->module_count; m++)
        if (t->blocks.of[m] == m && p->group_count < t->blocks.count) {
            blocks[count++] = (named_block){g->modules[m].path, m};
            p->group_of[m] = p->group_count;
            p->groups[p->group_count++].block = m;
        }
    qsort(blocks, count, sizeof *blocks, by_path);
    p->groups[p->group_count++].block = -1;
    int32_t last = -1; /* parameters of one block lie together */
    for (int32_t i = 0; i < g->tensor_count; i++) {
        if (g->tensors[i].role != PL_ROLE_PARAMETER || g->tensors[i].tied >= 0) continue;
        const char *path = g->tensors[i].path;
        size_t length = last >= 0 ? strlen(g->modules[last].path) : 0;
        bool same = last >= 0 && path && strncmp(g->modules[last].path, path, length) == 0 &&
                    path[length] == '.';
        if (!same) last = block_of_path(blocks, count, path);
        if (!add_param(t, &p->groups[last >= 0 ? p->group_of[last] : p->group_count - 1], i))
            return false;
    }
    return true;
}

bool pl_parallel_prepare(pl_trainer *t) {
    if (t->job->parallel == PL_ALONE) return true;
    pl_ranks *p = t->parallel = pl_arena_alloc(t->e.tape->arena, sizeof *p);
    if (!p) return false;
    t->e.tape->used_communication = t->job->parallel == PL_FSDP2;
    p->buckets =
        pl_arena_array(t->e.tape->arena, (size_t)t->e.graph->tensor_count + 1, sizeof *p->buckets);
    if (!p->buckets) return false;
    if (t->job->parallel_mixed) {
        p->param_dtype = PL_DT_BF16;
        p->reduce_dtype = PL_DT_F32;
    }
    return make_groups(t);
}

/* DistributedDataParallel(model): the parameters are sent in one flat copy, then the first bucket
 * is made. */
static void wrap_ddp(pl_trainer *t) {
    pl_eager *e = &t->e;
    int64_t all = 0, trained = 0;
    for (int32_t i = 0; i < e->graph->tensor_count; i++) {
        const pl_tensor *tensor = &e->graph->tensors[i];
        if (tensor->role == PL_ROLE_PARAMETER && tensor->tied < 0 && e->env[i])
            all += pl_value_bytes(e->env[i]);
    }
    for (int32_t i = 0; i < e->leaf_count; i++) trained += pl_value_bytes(e->leaves[i].value);
    int64_t limit = (int64_t)250 << 20;
    pl_block_gone(
        e, take(e, all < limit ? all : limit, PL_TEMPORARY, DEFAULT_STREAM, "DDP broadcast"));
    t->parallel->buckets[t->parallel->bucket_count++] =
        take(e, trained, PL_GRADIENTS, DEFAULT_STREAM, "DDP bucket");
}

bool pl_parallel_loads_shards(const pl_trainer *t) {
    return t->job->parallel == PL_FSDP2 && t->job->load != PL_LOAD_FULL;
}

/* A tensor placed off the card is moved there; its storage is its own. */
static void move(pl_trainer *t, int32_t id) {
    pl_eager *e = &t->e;
    const pl_tensor *tensor = &e->graph->tensors[id];
    pl_value *value = e->env[id];
    if (!value || value->storage->block) return;
    e->what = tensor->path ? tensor->path : tensor->name;
    if (pl_is_packed(tensor))
        value->storage->block = pl_quantized_new(e, tensor)->storage->block;
    else
        value->storage->block = pl_block_new(e, pl_value_bytes(value));
    if (value->storage->block) e->tape->blocks[value->storage->block].tensor = id;
}

/* Buffers are not sharded. */
static void move_buffers(pl_trainer *t) {
    const pl_graph *g = t->e.graph;
    for (int32_t i = 0; i < g->tensor_count; i++)
        if (g->tensors[i].role == PL_ROLE_BUFFER || g->tensors[i].role == PL_ROLE_CONSTANT)
            move(t, i);
}

/* fully_shard(block) for each, then for the model: shards are made, the whole parameters go. */
static void wrap_fsdp(pl_trainer *t) {
    pl_eager *e = &t->e;
    pl_ranks *p = t->parallel;
    bool off_card = pl_parallel_loads_shards(t);
    if (off_card) e->nested_codes = false; /* taken as they are moved */
    for (int32_t i = 0; i < e->leaf_count;
         i++) { /* a value of no bytes: the blocks are made below */
        const pl_value *whole = e->leaves[i].value;
        int64_t sizes[PL_MAX_DIMS] = {0};
        pl_value *empty = pl_new(e, (pl_dtype)whole->dtype, 1, sizes, NULL);
        memcpy(sizes, whole->sizes, whole->dims * sizeof *sizes);
        if (whole->dims) sizes[0] = (sizes[0] + t->job->world - 1) / t->job->world;
        e->leaves[i].shard = pl_alias(e, empty, whole->dims, sizes, NULL);
    }
    for (int32_t k = 0; k < p->group_count; k++) {
        group *g = &p->groups[k];
        for (int32_t i = 0; i < g->count && off_card; i++) move(t, g->params[i]);
        if (off_card && k + 1 == p->group_count) move_buffers(t);
        for (int32_t i = 0; i < g->count; i++) {
            const pl_value *value = e->env[g->params[i]];
            int64_t bytes =
                shard_elements(value, t->job->world) * pl_dtype_size((pl_dtype)value->dtype);
            int32_t shard = take(e, bytes, PL_WEIGHTS, DEFAULT_STREAM, "shard");
            if (shard) e->tape->blocks[shard].tensor = g->params[i];
        }
        for (int32_t i = 0; i < g->count; i++) {
            pl_value *value = e->env[g->params[i]];
            release(e, &value->storage->block);
            value->dtype = (uint8_t)gathered_dtype(p, (pl_dtype)value->dtype);
        }
    }
}

void pl_parallel_wrap(pl_trainer *t) {
    if (t->job->parallel == PL_DDP)
        wrap_ddp(t);
    else
        wrap_fsdp(t);
}
