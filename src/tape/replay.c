/* replay: see replay.h.
 *
 * A storage is born with the first operator that gives it back and dies where the trace says. Its
 * kind is what the trace says (weights, gradients, optimizer, inputs) or else what its phase makes
 * it. Copies of a step: storages of the step are born anew; what had outlived the step dies where
 * its like of the step before died, or, where that is not recorded, gradients at the step's
 * beginning (zero_grad) and the rest when their successors are born (the next assignment to a
 * name). What was made once (weights, optimizer state) is not made again. What was recorded after
 * the steps (an evaluation) is played after the copies, and is no part of a step's time.
 *
 * Left out: several streams. */
#include "tape/replay.h"

#include <string.h>

#include "tape/optimizer.h"

enum { STEPS = 3 };

typedef struct player {
    pl_replay r;
    pl_replay_rule **rules; /* [node_count] */
    uint8_t *classes;       /* [node_count]: pl_kernel_class */
    int32_t *birth_step;    /* [storage_count]: step it is born in, -1: not met */
    int32_t *twin;          /* [storage_count]: of the step before, the same of the last; -1 */
    const pl_optimizer *optimizer; /* whose kernels are noted by its row, NULL: not known */
} player;

/* ---- births and deaths ---- */

static pl_kind kind_of(const pl_replay *r, int32_t storage) {
    static const pl_kind by_phase[PL_PHASES] = {
        [PL_PHASE_LOAD] = PL_WEIGHTS,        [PL_PHASE_INPUT] = PL_INPUTS,
        [PL_PHASE_FORWARD] = PL_ACTIVATIONS, [PL_PHASE_BACKWARD] = PL_TEMPORARY,
        [PL_PHASE_OPTIMIZER] = PL_TEMPORARY,
    };
    int8_t said = r->trace->storages[storage].kind;
    return said >= 0 ? (pl_kind)said : by_phase[r->e.phase];
}

/* What was there under the same number goes: a name was assigned anew. */
static void give_block(pl_replay *r, int32_t storage, int32_t block) {
    const pl_trace_storage *s = &r->trace->storages[storage];
    int32_t before = r->born[storage] ? r->blocks[storage] : 0;
    r->born[storage] = true;
    r->blocks[storage] = block;
    if (block) {
        pl_tape_block *made = &r->e.tape->blocks[block];
        made->kind = (uint8_t)kind_of(r, storage);
        made->tensor = s->tensor;
        made->stream = s->stream;
        if (s->tensor >= 0) made->what = r->trace->graph.tensors[s->tensor].path;
    }
    pl_block_gone(&r->e, before);
}

static int32_t output_storage(const pl_replay *r, uint32_t output) {
    if (output >= r->event->output_count || r->event->outputs[output] < 0) return -1;
    return r->trace->tensors[r->event->outputs[output]].storage;
}

/* Whether this event is the one in which it is born, in this step or in the one that is copied. */
static bool is_new(const pl_replay *r, int32_t storage) {
    const player *p = (const player *)r; /* r is its first member */
    if (storage < 0) return false;
    return !r->born[storage] || p->birth_step[storage] == -2;
}

void pl_replay_birth(pl_replay *r, uint32_t output, int64_t bytes) {
    int32_t storage = output_storage(r, output);
    if (!is_new(r, storage)) return;
    player *p = (player *)r;
    if (p->birth_step[storage] == -2) p->birth_step[storage] = -3;
    give_block(r, storage,
               pl_block_new(&r->e, bytes >= 0 ? bytes : r->trace->storages[storage].bytes));
}

void pl_replay_adopt(pl_replay *r, uint32_t output, int32_t block) {
    int32_t storage = output_storage(r, output);
    player *p = (player *)r;
    if (!is_new(r, storage)) {
        pl_block_gone(&r->e, block);
        return;
    }
    if (p->birth_step[storage] == -2) p->birth_step[storage] = -3;
    give_block(r, storage, block);
}

static void die(pl_replay *r, int32_t storage) {
    if (!r->born[storage]) return;
    r->born[storage] = false;
    pl_block_gone(&r->e, r->blocks[storage]);
    r->blocks[storage] = 0;
}

/* ---- records ---- */

static bool made_once(const pl_trace *t, int32_t storage) {
    return t->storages[storage].kind == PL_WEIGHTS || t->storages[storage].kind == PL_OPTIMIZER;
}

/* Operators below autograd whose kernels are not one, by the name between "aten." and the overload.
 */
static const struct {
    const char *name;
    uint8_t launches;
    bool zeroes; /* the first of them fills the result */
} kernels[] = {
    {"_fused_rms_norm_backward", 2, false},
    {"_softmax_backward_data", 2, false},
    {"adaptive_max_pool2d_backward", 1, true},
    {"embedding_dense_backward", 1, true},
    {"max_pool2d_with_indices_backward", 1, true},
    {"max_pool3d_with_indices_backward", 1, true},
    {"native_batch_norm", 3, false},
    {"native_group_norm", 3, false},
    {"native_group_norm_backward", 5, false},
    {"native_layer_norm_backward", 2, false},
    {"nll_loss_backward", 1, true},
    {"select_backward", 1, true},
    {"slice_backward", 1, true},
    {"upsample_bicubic2d_backward", 1, true},
    {"upsample_bilinear2d_backward", 1, true},
};

/* The row of the operator, or of the one whose gradient it makes. */
static const pl_operator *row_of(const char *target) {
    const pl_operator *op = pl_operator_find(target);
    const char *end = op ? NULL : strstr(target, "_backward");
    char name[64];
    if (!end || (size_t)(end - target) >= sizeof name) return op;
    memcpy(name, target, (size_t)(end - target));
    name[end - target] = 0;
    return pl_operator_find(name);
}

static pl_kernel_class class_of(const char *target) {
    const pl_operator *op = row_of(target);
    if (op) return op->class;
    return strcmp(target, "aten.embedding_dense_backward.default") == 0 ? PL_KERNEL_EMBEDDING
                                                                        : PL_KERNEL_PLAIN;
}

static double bytes_of(const pl_trace *t, int32_t tensor) {
    const pl_trace_tensor *v = &t->tensors[tensor];
    double n = (double)pl_dtype_size(v->dtype);
    for (int i = 0; i < v->dims; i++)
        if (v->strides[i] != 0) n *= (double)v->sizes[i];
    return n;
}

static double elements_of(const pl_trace_tensor *v) {
    double n = 1;
    for (int i = 0; i < v->dims; i++)
        if (v->strides[i] != 0) n *= (double)v->sizes[i];
    return n;
}

/* Of a normalisation or softmax: groups, and elements in each. */
static void note_groups(pl_work_rest *rest, uint8_t class, const pl_trace_tensor *v) {
    bool channels = class == PL_KERNEL_BATCH_NORM || class == PL_KERNEL_BATCH_NORM_NATIVE;
    if ((rest->kind != PL_WORK_NORM && rest->kind != PL_WORK_SOFTMAX) || v->dims < 2) return;
    int64_t width = v->sizes[channels ? 1 : v->dims - 1];
    if (width <= 0) return;
    int64_t others = (int64_t)(elements_of(v) / (double)width);
    rest->rows = channels ? width : others;
    rest->columns = channels ? others : width;
}

/* A copy of the same type in the input phase: the batch, on its way to the card. */
static bool moves_to_card(const pl_trace *t, const pl_trace_event *event, const char *target) {
    if (strncmp(target, "aten._to_copy", 13) != 0 || event->output_count != 1) return false;
    int32_t to = event->outputs[0], from = event->input_count ? event->inputs[0] : -1;
    return to >= 0 && (from < 0 || t->tensors[from].dtype == t->tensors[to].dtype);
}

static void note_inputs(pl_replay *r, const pl_trace_event *event);

/* What no rule has said: one kernel over all that goes in and comes out. */
static void note_event(pl_replay *r, const pl_trace_event *event) {
    const pl_trace *t = r->trace;
    const char *target = t->graph.nodes[event->node].target;
    const pl_operator *op = row_of(target);
    if (r->e.phase == PL_PHASE_INPUT && moves_to_card(t, event, target)) {
        note_inputs(r, event);
        return;
    }
    pl_work_rest rest = {
        .kind = op ? op->work : PL_WORK_POINTWISE, .pass = pl_work_pass(&r->e), .launches = 1};
    size_t length = strncmp(target, "aten.", 5) == 0 ? strcspn(target + 5, ".") : 0;
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        if (strlen(kernels[i].name) != length || strncmp(kernels[i].name, target + 5, length) != 0)
            continue;
        rest.launches = kernels[i].launches;
        rest.zeroed = kernels[i].zeroes;
    }
    /* an optimizer's state is made in the first step alone */
    int32_t first =
        event->output_count && event->outputs[0] >= 0 ? t->tensors[event->outputs[0]].storage : -1;
    if (rest.kind == PL_WORK_FILL && first >= 0 && made_once(t, first)) return;
    int64_t places = 0;
    bool gathers = rest.kind == PL_WORK_GATHER;
    for (uint32_t i = 0; i < event->input_count; i++) {
        if (event->inputs[i] < 0 || rest.kind == PL_WORK_FILL) continue;
        const pl_trace_tensor *v = &t->tensors[event->inputs[i]];
        bool table = gathers && rest.pass == PL_PASS_FORWARD && pl_dtype_is_float(v->dtype);
        if (!table) rest.read += bytes_of(t, event->inputs[i]);
        if (gathers && !pl_dtype_is_float(v->dtype) && elements_of(v) > (double)places)
            places = (int64_t)elements_of(v);
        if (i == 0) note_groups(&rest, r->e.class, v);
    }
    double written = 0, elements = 0;
    pl_dtype dtype = PL_DT_F32;
    for (uint32_t i = 0; i < event->output_count; i++) {
        if (event->outputs[i] < 0) continue;
        double bytes = bytes_of(t, event->outputs[i]);
        written += bytes;
        if (i > 0) continue;
        dtype = t->tensors[event->outputs[0]].dtype;
        elements = elements_of(&t->tensors[event->outputs[0]]);
    }
    if (gathers && rest.pass == PL_PASS_FORWARD) rest.read += written;
    pl_value like = {.dtype = (uint8_t)dtype};
    rest.like = &like;
    rest.in_place_bytes = written;
    if (places) {
        rest.rows = places;
        rest.columns = (int64_t)(elements / (double)places);
    }
    pl_work_end(&r->e, &rest);
}

/* A batch on its way to the card. */
static void note_inputs(pl_replay *r, const pl_trace_event *event) {
    if (r->e.phase != PL_PHASE_INPUT) return;
    r->e.what = "inputs";
    for (uint32_t i = 0; i < event->output_count; i++)
        if (event->outputs[i] >= 0) {
            pl_work_begin(&r->e);
            pl_work_transfer(&r->e, bytes_of(r->trace, event->outputs[i]), NULL);
        }
}

/* The optimizer's kernels, by its row: what works in place on lists of tensors is not in a trace.
 */
static void note_optimizer(player *p) {
    pl_eager *e = &p->r.e;
    if (!e->calls.on || !p->optimizer) return;
    uint8_t phase = e->phase;
    e->phase = PL_PHASE_BACKWARD;
    pl_work_host(e, "AccumulateGrad", e->leaf_count);
    e->phase = phase;
    e->what = p->optimizer->name;
    e->node = -1;
    pl_optimizer_calls(e, p->optimizer);
}

static bool find_leaves(player *p) {
    const pl_graph *g = &p->r.trace->graph;
    pl_eager *e = &p->r.e;
    p->optimizer = pl_optimizer_find(p->r.trace->optimizer);
    e->leaves = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *e->leaves);
    pl_value *values = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *values);
    int64_t *held = pl_arena_array(e->tape->arena, (size_t)g->tensor_count + 1, sizeof *held);
    if (!e->leaves || !values || !held) return false;
    for (size_t i = 0; i < p->r.trace->storage_count; i++) {
        const pl_trace_storage *s = &p->r.trace->storages[i];
        if (s->tensor >= 0) held[s->tensor] = s->bytes;
    }
    for (int32_t i = 0; i < g->tensor_count; i++) {
        const pl_tensor *t = &g->tensors[i];
        if (t->role != PL_ROLE_PARAMETER || !t->requires_grad) continue;
        pl_value *v = &values[e->leaf_count];
        *v = (pl_value){.sizes = t->sizes,
                        .strides = t->strides,
                        .dims = t->dims,
                        .dtype = (uint8_t)t->dtype,
                        .elements = 1};
        for (int d = 0; d < t->dims; d++) v->elements *= t->sizes[d];
        int64_t item = pl_dtype_size(t->dtype);
        if (held[i] && item && v->elements > held[i] / item)
            v->elements = held[i] / item; /* this rank's part of it */
        e->leaves[e->leaf_count++] = (pl_leaf){.tensor = i, .value = v, .reduced = true};
    }
    return true;
}

/* ---- events ---- */

static void play(player *p, const pl_trace_event *event) {
    pl_replay *r = &p->r;
    pl_eager *e = &r->e;
    if (event->node == PL_TRACE_DEATH) {
        die(r, event->storage);
        return;
    }
    r->event = event;
    e->node = event->node;
    e->in_backward = event->function >= 0;
    e->what = event->function >= 0 ? r->trace->functions[event->function]
              : event->node >= 0   ? r->trace->graph.nodes[event->node].target
                                   : "";
    e->class = event->node >= 0 ? p->classes[event->node] : PL_KERNEL_PLAIN;
    e->kind = PL_TEMPORARY;
    bool by_row = e->phase == PL_PHASE_OPTIMIZER && p->optimizer && e->calls.on;
    if (by_row) e->calls.on = false;
    pl_work_begin(e);
    if (event->node >= 0 && p->rules[event->node]) p->rules[event->node](r);
    for (uint32_t i = 0; i < event->output_count; i++) pl_replay_birth(r, i, -1);
    if (e->calls.on) {
        if (event->node < 0)
            note_inputs(r, event);
        else if (e->tape->call_count == e->calls.begin)
            note_event(r, event);
    }
    if (by_row) e->calls.on = true;
    e->class = PL_KERNEL_PLAIN;
}

/* A phase begins. */
static void enter(player *p, pl_phase phase) {
    pl_mark(&p->r.e, phase);
    if (phase == PL_PHASE_OPTIMIZER) note_optimizer(p);
}

/* Events first to end, with the marks among them. */
static void play_range(player *p, size_t first, size_t end, int least_step) {
    const pl_trace *t = p->r.trace;
    size_t mark = 0;
    while (mark < t->mark_count && t->marks[mark].event < first) mark++;
    for (size_t i = first; i < end && !p->r.e.failed; i++) {
        for (; mark < t->mark_count && t->marks[mark].event <= i; mark++) {
            int step = t->marks[mark].step;
            p->r.e.step = (uint8_t)(step > least_step ? step : least_step);
            p->r.e.calls.on = t->steps >= STEPS && step == t->steps - 1;
            enter(p, (pl_phase)t->marks[mark].phase);
        }
        play(p, &t->events[i]);
    }
}

/* ---- copies of the last step ---- */

/* Where step k begins. */
static size_t step_begin(const pl_trace *t, int step) {
    for (size_t i = 0; i < t->mark_count; i++)
        if (t->marks[i].step == step && t->marks[i].phase != PL_PHASE_LOAD)
            return t->marks[i].event;
    return t->event_count;
}

/* The storages that events first to end make, in order, with the phase of each. */
typedef struct births {
    int32_t *storages;
    uint8_t *phases;
    size_t count;
} births;

static births births_of(player *p, size_t first, size_t end, int step) {
    const pl_trace *t = p->r.trace;
    pl_arena *arena = p->r.e.tape->arena;
    births b = {pl_arena_array(arena, t->storage_count + 1, sizeof *b.storages),
                pl_arena_array(arena, t->storage_count + 1, sizeof *b.phases), 0};
    if (!b.storages || !b.phases) {
        p->r.e.failed = true;
        return b;
    }
    uint8_t phase = PL_PHASE_INPUT;
    size_t mark = 0;
    for (size_t i = first; i < end; i++) {
        for (; mark < t->mark_count && t->marks[mark].event <= i; mark++)
            phase = t->marks[mark].phase;
        const pl_trace_event *event = &t->events[i];
        for (uint32_t k = 0; event->node != PL_TRACE_DEATH && k < event->output_count; k++) {
            int32_t s = event->outputs[k] >= 0 ? t->tensors[event->outputs[k]].storage : -1;
            if (s < 0 || p->birth_step[s] != -1) continue;
            p->birth_step[s] = step;
            b.storages[b.count] = s;
            b.phases[b.count++] = phase;
        }
    }
    return b;
}

/* What the step before left to the last one, which freed it (outputs that are still held, gradients), against what the last one
 * leaves: in order, of equal phase and bytes. What lives within one step is no one's twin, so that a first step with an
 * evaluation in it pairs as any other does. */
static void pair(player *p, const births *before, const births *last, size_t first, size_t end) {
    const pl_trace *t = p->r.trace;
    pl_arena *arena = p->r.e.tape->arena;
    uint8_t *dead = pl_arena_array(arena, t->storage_count + 1, sizeof *dead);
    size_t *left = pl_arena_array(arena, last->count + 1, sizeof *left), count = 0;
    if (!dead || !left) {
        p->r.e.failed = true;
        return;
    }
    memset(dead, 0, t->storage_count);
    for (size_t i = first; i < end;
         i++) /* what comes after the steps frees what no copy has freed */
        if (t->events[i].node == PL_TRACE_DEATH) dead[t->events[i].storage] = 1;
    for (size_t i = 0; i < last->count; i++)
        if (!dead[last->storages[i]]) left[count++] = i;
    for (size_t i = 0; i < before->count && count; i++) {
        int32_t a = before->storages[i];
        if (!dead[a]) continue;
        for (size_t k = 0; k < count; k++) {
            int32_t b = last->storages[left[k]];
            if (last->phases[left[k]] != before->phases[i] ||
                t->storages[a].bytes != t->storages[b].bytes)
                continue;
            p->twin[a] = b;
            memmove(left + k, left + k + 1, (--count - k) * sizeof *left);
            break;
        }
    }
}

/* One more step: the events of the last, its storages born anew. */
static void play_copy(player *p, const births *last, bool paired, size_t first, size_t end,
                      int step) {
    pl_replay *r = &p->r;
    const pl_trace *t = r->trace;
    r->e.step = (uint8_t)step;
    r->e.calls.on = step == STEPS - 1;
    pl_mark(&r->e, PL_PHASE_INPUT);
    for (size_t i = 0; i < last->count; i++) {
        int32_t s = last->storages[i];
        if (made_once(t, s)) continue;
        if (!paired && t->storages[s].kind == PL_GRADIENTS) die(r, s);
        p->birth_step[s] = -2; /* to be born again */
    }
    size_t mark = 0;
    while (mark < t->mark_count && t->marks[mark].event < first) mark++;
    for (size_t i = first; i < end && !r->e.failed; i++) {
        for (; mark < t->mark_count && t->marks[mark].event <= i; mark++)
            if (t->marks[mark].step == t->steps - 1) enter(p, (pl_phase)t->marks[mark].phase);
        const pl_trace_event *event = &t->events[i];
        if (event->node != PL_TRACE_DEATH) {
            play(p, event);
            continue;
        }
        int32_t s = event->storage;
        if (p->birth_step[s] == -3)
            die(r, s); /* born in this copy */
        else if (p->twin[s] >= 0 && p->birth_step[p->twin[s]] == -2)
            die(r, p->twin[s]); /* as its like died in the recorded step */
    }
}

/* ---- the whole ---- */

static bool prepare(player *p) {
    const pl_trace *t = p->r.trace;
    const pl_graph *g = &t->graph;
    pl_arena *arena = p->r.e.tape->arena;
    p->r.blocks = pl_arena_array(arena, t->storage_count + 1, sizeof *p->r.blocks);
    p->r.born = pl_arena_array(arena, t->storage_count + 1, sizeof *p->r.born);
    p->birth_step = pl_arena_array(arena, t->storage_count + 1, sizeof *p->birth_step);
    p->twin = pl_arena_array(arena, t->storage_count + 1, sizeof *p->twin);
    p->rules = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *p->rules);
    p->classes = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *p->classes);
    if (!p->r.blocks || !p->r.born || !p->birth_step || !p->twin || !p->rules || !p->classes ||
        !find_leaves(p))
        return false;
    for (size_t i = 0; i < t->storage_count; i++) p->birth_step[i] = p->twin[i] = -1;
    struct { /* the importer shares the names of equal operators */
        const char *target;
        pl_replay_rule *rule;
        uint8_t class;
    } seen[64] = {0};
    for (int32_t i = 0; i < g->node_count; i++) {
        const char *target = g->nodes[i].target;
        size_t at = ((uintptr_t)target >> 4) % 64;
        if (seen[at].target != target) {
            seen[at].target = target;
            seen[at].rule = pl_replay_rule_of(target);
            seen[at].class = (uint8_t)class_of(target);
        }
        p->rules[i] = seen[at].rule;
        p->classes[i] = seen[at].class;
    }
    return true;
}

static void add_notes(player *p) {
    const pl_trace *t = p->r.trace;
    pl_tape *tape = p->r.e.tape;
    tape->notes = pl_arena_array(tape->arena, t->warning_count + 1, sizeof *tape->notes);
    if (!tape->notes) {
        p->r.e.failed = true;
        return;
    }
    for (size_t i = 0; i < t->warning_count; i++) tape->notes[tape->note_count++] = t->warnings[i];
    if (t->cc_major && t->cc_major != p->r.e.device->cc_major)
        tape->notes[tape->note_count++] =
            "the trace was captured for a card of another compute capability: attention may run "
            "other kernels";
}

/* The last step again, until there are STEPS. */
static void play_copies(player *p, size_t first, size_t end) {
    const pl_trace *t = p->r.trace;
    size_t before = t->steps > 1 ? step_begin(t, t->steps - 2) : first;
    births_of(p, 0, before, 0);
    births earlier = births_of(p, before, first, 0), last = births_of(p, first, end, 0);
    if (p->r.e.failed) return;
    pair(p, &earlier, &last, first, end);
    if (p->r.e.failed) return;
    for (int step = t->steps; step < STEPS && !p->r.e.failed; step++)
        play_copy(p, &last, t->steps > 1, first, end, step);
}

static void run(player *p) {
    const pl_trace *t = p->r.trace;
    size_t first = step_begin(t, t->steps - 1), end = step_begin(t, t->steps);
    pl_mark(&p->r.e, PL_PHASE_LOAD);
    add_notes(p);
    p->r.e.tape->used_nccl = t->nccl && t->world == 1;
    p->r.e.tape->used_communication = strncmp(t->parallel, "fsdp", 4) == 0;
    play_range(p, 0, end, 0);
    for (size_t i = 0; i < t->mark_count; i++)
        p->r.e.tape->trains |= t->marks[i].phase == PL_PHASE_BACKWARD;
    if (t->steps < STEPS && first < end) play_copies(p, first, end);
    play_range(p, end, t->event_count, STEPS);
}

pl_status pl_tape_replay(pl_tape **out, const pl_trace *trace, const pl_tape_device *device,
                         pl_budget *budget, pl_error *err) {
    *out = NULL;
    pl_arena *arena = pl_arena_new(budget), *step = pl_arena_new(budget);
    pl_tape *tape = arena && step ? pl_arena_alloc(arena, sizeof *tape) : NULL;
    bool failed = !tape;
    if (tape) {
        tape->arena = arena;
        player p = {.r = {.trace = trace}};
        p.r.job = (pl_job){.cudnn_benchmark = trace->cudnn_benchmark,
                           .channels_last = trace->channels_last};
        p.r.e.tape = tape;
        p.r.e.step_arena = step;
        p.r.e.graph = &trace->graph;
        p.r.e.device = device;
        p.r.e.job = &p.r.job;
        p.r.e.node = -1;
        failed = !prepare(&p);
        if (!failed) run(&p);
        failed |= p.r.e.failed;
    }
    pl_arena_free(&step);
    if (failed) {
        pl_arena_free(&arena);
        return pl_budget_fail(err, budget, trace->graph.name);
    }
    *out = tape;
    return PL_OK;
}
