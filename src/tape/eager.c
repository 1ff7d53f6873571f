/* eager: values, storages and the tape they write. See eager.h; autograd itself is in engine.c. */
#include "tape/eager.h"

#include <string.h>

#include "core/checked.h"
#include "graph/layout.h"

/* ---- tape ---- */

/* Room for one more event, as far as the budget goes. */
static bool grow_events(pl_eager *e) {
    pl_tape *tape = e->tape;
    pl_budget *budget = pl_arena_budget(tape->arena);
    if (!pl_budget_events(budget, (int64_t)tape->event_count + 1)) return false;
    int32_t *grown = pl_arena_grow(tape->arena, tape->events, &e->event_room, tape->event_count + 1,
                                   sizeof *grown);
    if (!grown) return false;
    tape->events = grown;
    if (budget && budget->most_events && e->event_room > (uint64_t)budget->most_events)
        e->event_room = (size_t)budget->most_events;
    return true;
}

static void push_event(pl_eager *e, int32_t event) {
    pl_tape *tape = e->tape;
    if (tape->event_count == e->event_room && !grow_events(e)) {
        e->failed = true;
        return;
    }
    tape->events[tape->event_count++] = event;
}

int32_t pl_block_new(pl_eager *e, int64_t bytes) {
    if (bytes <= 0 || e->failed || e->off_card) return 0;
    pl_tape *tape = e->tape;
    if (tape->block_count == 0) tape->block_count = 1; /* block 0 is not used */
    if (tape->block_count >= INT32_MAX) {
        e->failed = true;
        return 0;
    }
    pl_tape_block *grown = pl_arena_grow(tape->arena, tape->blocks, &e->block_room,
                                         tape->block_count + 1, sizeof *grown);
    if (!grown) {
        e->failed = true;
        return 0;
    }
    tape->blocks = grown;
    int32_t block = (int32_t)tape->block_count++;
    tape->blocks[block] = (pl_tape_block){.bytes = bytes,
                                          .node = e->node,
                                          .tensor = -1,
                                          .kind = e->kind,
                                          .phase = e->phase,
                                          .step = e->step,
                                          .what = e->what};
    push_event(e, block);
    return block;
}

void pl_tape_reserve(pl_eager *e, size_t blocks, size_t events) {
    pl_tape *tape = e->tape;
    const pl_budget *budget = pl_arena_budget(tape->arena);
    if (budget && budget->most_events && events > (uint64_t)budget->most_events)
        events = (size_t)budget->most_events;
    void *more =
        pl_arena_grow(tape->arena, tape->blocks, &e->block_room, blocks, sizeof *tape->blocks);
    if (more) tape->blocks = more;
    more = pl_arena_grow(tape->arena, tape->events, &e->event_room, events, sizeof *tape->events);
    if (more) tape->events = more;
}

void pl_block_gone(pl_eager *e, int32_t block) {
    if (block) push_event(e, -block);
}

void pl_scratch(pl_eager *e, int64_t bytes) {
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    pl_block_gone(e, pl_block_new(e, bytes));
    e->kind = kind;
}

void pl_cache_emptied(pl_eager *e) {
    if (!e->off_card) push_event(e, 0);
}

void pl_mark(pl_eager *e, pl_phase phase) {
    pl_tape *tape = e->tape;
    pl_tape_mark *grown =
        pl_arena_grow(tape->arena, tape->marks, &e->mark_room, tape->mark_count + 1, sizeof *grown);
    if (!grown) {
        e->failed = true;
        return;
    }
    tape->marks = grown;
    tape->marks[tape->mark_count++] =
        (pl_tape_mark){.event = tape->event_count, .phase = (uint8_t)phase, .step = e->step};
    e->phase = (uint8_t)phase;
}

/* ---- values ---- */

/* What functions return when memory is out: alive to the end of the run, of no bytes. */
static pl_value *fail(pl_eager *e) {
    e->failed = true;
    e->nothing_storage.refs = 1 << 30;
    e->nothing = (pl_value){.storage = &e->nothing_storage,
                            .sizes = e->nothing_sizes,
                            .strides = e->nothing_sizes,
                            .refs = 1 << 30,
                            .leaf = -1,
                            .dtype = PL_DT_F32};
    return &e->nothing;
}

/* No tensor has more elements, and no dimension is longer: what is computed from sizes
 * then fits. */
static const int64_t most_elements = (int64_t)1 << 44;

/* Elements, or -1 where there are too many. A dimension of nought does not excuse the others. */
static int64_t count_elements(int dims, const int64_t *sizes) {
    int64_t n = 1;
    bool none = false;
    for (int i = 0; i < dims; i++) {
        none |= sizes[i] == 0;
        if (sizes[i] < 0 || !pl_mul_i64(n, sizes[i] ? sizes[i] : 1, &n) || n > most_elements)
            return -1;
    }
    return none ? 0 : n;
}

/* storage NULL: one of its own, in one piece with the value, of a new block. */
static pl_value *value_on(pl_eager *e, pl_storage *storage, int64_t bytes, pl_dtype dtype, int dims,
                          const int64_t *sizes, const int64_t *strides) {
    if (dims > PL_MAX_DIMS) return fail(e);
    pl_value *value =
        pl_arena_alloc(e->step_arena, sizeof *value + (size_t)dims * 2 * sizeof *value->sizes +
                                          (storage ? 0 : sizeof *storage));
    if (!value) return fail(e);
    value->sizes = (int64_t *)(value + 1);
    value->strides = value->sizes + dims;
    if (!storage) {
        storage = (pl_storage *)(value->strides + dims);
        storage->block = pl_block_new(e, bytes);
    }
    value->elements = count_elements(dims, sizes);
    if (value->elements < 0) {
        if (!e->failed) e->too_large = e->what ? e->what : "the model";
        return fail(e);
    }
    int64_t step = 1;
    for (int i = dims; i-- > 0;) {
        value->sizes[i] = sizes[i];
        value->strides[i] = strides ? strides[i] : step;
        if (sizes[i] > 1) step *= sizes[i];
    }
    value->storage = storage;
    storage->refs++;
    value->refs = 1;
    value->leaf = -1;
    value->dims = (uint8_t)dims;
    value->dtype = (uint8_t)dtype;
    return value;
}

/* Elements of storage that sizes and strides reach. */
static int64_t storage_elements(int dims, const int64_t *sizes, const int64_t *strides) {
    int64_t reach = 1;
    for (int i = 0; i < dims; i++) {
        if (sizes[i] == 0) return 0;
        int64_t far;
        if (strides[i] < 0 || !pl_mul_i64(sizes[i] - 1, strides[i], &far) ||
            !pl_add_i64(reach, far, &reach) || reach > most_elements)
            return -1;
    }
    return reach;
}

pl_value *pl_new(pl_eager *e, pl_dtype dtype, int dims, const int64_t *sizes,
                 const int64_t *strides) {
    int64_t n = strides ? storage_elements(dims, sizes, strides) : count_elements(dims, sizes);
    int64_t bytes;
    if (n < 0 && !e->failed) e->too_large = e->what ? e->what : "the model";
    if (n < 0 || !pl_mul_i64(n, pl_dtype_size(dtype), &bytes)) return fail(e);
    if (bytes > 0) pl_work_made(e, bytes);
    return value_on(e, NULL, bytes, dtype, dims, sizes, strides);
}

pl_value *pl_new_like(pl_eager *e, const pl_value *like, pl_dtype dtype) {
    int64_t dense[PL_MAX_DIMS];
    if (pl_is_dense(like)) return pl_new(e, dtype, like->dims, like->sizes, like->strides);
    pl_dense_strides(like->dims, like->sizes, like->strides, dense);
    return pl_new(e, dtype, like->dims, like->sizes, dense);
}

pl_value *pl_new_flat(pl_eager *e, pl_dtype dtype, int64_t count) {
    return pl_new(e, dtype, count < 0 ? 0 : 1, &count, NULL);
}

pl_value *pl_alias(pl_eager *e, const pl_value *base, int dims, const int64_t *sizes,
                   const int64_t *strides) {
    pl_value *view = value_on(e, base->storage, 0, base->dtype, dims, sizes, strides);
    if (view == &e->nothing) return view;
    view->base = base->base ? base->base : (pl_value *)base; /* to be given a function, not held */
    if (e->in_backward && !e->grad_enabled) view->view = true;
    return view;
}

pl_value *pl_alias_like(pl_eager *e, const pl_value *base) {
    return pl_alias(e, base, base->dims, base->sizes, base->strides);
}

pl_value *pl_hold(pl_value *value) {
    if (value) value->refs++;
    return value;
}

/* Whether nothing but the function that made it holds it: a saved output (SavedVariable keeps one
 * without its function, so that the two do not hold each other). */
static bool saved_by_its_own(const pl_value *value) {
    const pl_fn *fn = value->fn;
    int32_t saves = 0;
    for (int i = 0; i < fn->saved_count; i++) saves += fn->saved[i] == value;
    return saves == value->refs;
}

void pl_drop(pl_eager *e, pl_value *value) {
    if (!value) return;
    pl_fn *fn = value->fn;
    if (--value->refs > 0) {
        if (!fn || !saved_by_its_own(value)) return;
        value->fn = NULL;
        pl_fn_drop(e, fn);
        return;
    }
    if (value->fn) pl_fn_drop(e, value->fn);
    if (--value->storage->refs == 0) pl_block_gone(e, value->storage->block);
}

int64_t pl_value_bytes(const pl_value *value) {
    return value->elements * pl_dtype_size(value->dtype);
}

bool pl_is_contiguous(const pl_value *value) {
    int64_t step = 1;
    for (int i = value->dims; i-- > 0;) {
        if (value->sizes[i] == 1) continue;
        if (value->strides[i] != step) return false;
        step = pl_times(step, value->sizes[i]);
    }
    return true;
}

bool pl_is_dense(const pl_value *value) {
    if (pl_is_contiguous(value)) return true;
    /* Walk the dimensions by rising stride; each must begin where the one before it ended. */
    uint32_t seen = 0;
    int64_t step = 1;
    for (int k = 0; k < value->dims; k++) {
        int best = -1;
        for (int i = 0; i < value->dims; i++)
            if (!(seen >> i & 1) && value->sizes[i] != 1 &&
                (best < 0 || value->strides[i] < value->strides[best]))
                best = i;
        if (best < 0) break;
        if (value->strides[best] != step) return false;
        step = pl_times(step, value->sizes[best]);
        seen |= 1u << best;
    }
    return true;
}

bool pl_same_sizes(const pl_value *value, int dims, const int64_t *sizes) {
    return value->dims == dims && memcmp(value->sizes, sizes, (size_t)dims * sizeof *sizes) == 0;
}

/* As at::detail::computeStride: dimensions of the old shape that lie in one run are regrouped. */
bool pl_view_strides(const pl_value *value, int dims, const int64_t *sizes, int64_t *strides) {
    if (value->elements == 0) {
        int64_t step = 1;
        for (int i = dims; i-- > 0;) {
            strides[i] = step;
            step = pl_times(step, sizes[i] > 0 ? sizes[i] : 1);
        }
        return true;
    }
    int view = dims - 1;
    int64_t base = value->dims ? value->strides[value->dims - 1] : 1, run = 1, taken = 1;
    if (value->dims == 0) {
        for (int i = 0; i < dims; i++) strides[i] = 1;
        return true;
    }
    for (int i = value->dims - 1; i >= 0; i--) {
        run = pl_times(run, value->sizes[i]);
        bool ends =
            i == 0 || (value->sizes[i - 1] != 1 && value->strides[i - 1] != pl_times(run, base));
        if (!ends) continue;
        while (view >= 0 && (taken < run || sizes[view] == 1)) {
            strides[view] = pl_times(taken, base);
            taken = pl_times(taken, sizes[view]);
            view--;
        }
        if (taken != run) return false;
        if (i > 0) {
            base = value->strides[i - 1];
            run = taken = 1;
        }
    }
    return view == -1;
}
