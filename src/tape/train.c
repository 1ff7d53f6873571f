/* train: the training loop whose tape is wanted.
 *
 *     model.to(device); optimizer = X(model.parameters())
 *     for each step:
 *         zero_grad(set_to_none=True)
 *         accumulate times: inputs to the device, forward under autocast, loss,
 *             backward (scaled for fp16)
 *         optimizer.step()
 *
 * Here: the steps, checkpointed blocks run again inside backward (torch/utils/checkpoint.py,
 * use_reentrant=False), the loss and the GradScaler (torch/amp/grad_scaler.py), 2.11. When values
 * die is lifetime.c's, the order of the model's tensors place.c's, what each operator does
 * operator.h's.
 *
 * Left out: data loading, gradient clipping, schedulers, and steps that a GradScaler skips. */
#include "tape/train.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "tape/parallel.h"
#include "tape/place.h"
#include "tape/rewrite.h"

enum { NODES_PER_POLL = 64 }; /* a look at the clock costs as much as a small node */

/* ---- running nodes ---- */

static void end_autocast(pl_eager *e) {
    for (int32_t i = 0; i < e->cached_count; i++) {
        pl_leaf *leaf = &e->leaves[e->cached[i]];
        pl_drop(e, leaf->cast);
        leaf->cast = NULL;
    }
    e->cached_count = 0;
}

/* What Python lets go of once the node has run. */
static void drop_dead(pl_trainer *t, int32_t node) {
    for (int32_t k = t->lifetimes.first_dying[node]; k < t->lifetimes.first_dying[node + 1]; k++) {
        pl_value **place = &t->e.env[t->lifetimes.dying[k]];
        pl_value *value = *place;
        *place = NULL;
        pl_drop(&t->e, value);
    }
}

/* The rule made nothing: it does not cover these sizes, or this form. */
static bool gave_up(const pl_eager *e, const pl_node *node) {
    return pl_output_tensor(e, node, 0) && !e->env[node->outputs[0]];
}

static void run_node(pl_trainer *t, int32_t i) {
    pl_eager *e = &t->e;
    const pl_node *node = &e->graph->nodes[i];
    e->node = i;
    if (i % NODES_PER_POLL == 0 && !pl_budget_poll(pl_arena_budget(e->tape->arena))) {
        e->failed = true;
        return;
    }
    uint8_t autocast = e->autocast;
    if (node->autocast != PL_AUTOCAST_JOB)
        e->autocast = node->autocast == PL_AUTOCAST_BF16  ? PL_DT_BF16
                      : node->autocast == PL_AUTOCAST_F16 ? PL_DT_F16
                                                          : 0;
    pl_run_node(e, node, t->operators[i]);
    if (t->operators[i] && !e->failed && gave_up(e, node)) {
        t->operators[i] = NULL; /* from now on, in every step */
        pl_run_node(e, node, NULL);
    }
    e->autocast = autocast;
    if (e->uncast_count) pl_uncast(e, i);
    drop_dead(t, i);
}

/* The values that nodes first..last take from before first, held by the frame. */
static void hold_inputs(pl_trainer *t, pl_checkpoint_frame *frame) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    size_t room = 0;
    t->frames++;
    for (int32_t i = frame->first; i <= frame->last; i++) {
        const pl_node *n = &g->nodes[i];
        for (uint32_t k = 0; k < n->arg_count; k++) {
            uint32_t count;
            const int32_t *ids = pl_arg_tensors(&n->args[k], &count);
            for (uint32_t j = 0; j < count; j++) {
                int32_t id = ids[j];
                if (id < 0 || g->tensors[id].role != PL_ROLE_VALUE ||
                    g->tensors[id].producer >= frame->first || !e->env[id])
                    continue;
                if (t->held_by[id] == t->frames) continue;
                t->held_by[id] = t->frames;
                size_t need = (size_t)frame->input_count + 1, same = room;
                int32_t *ids =
                    pl_arena_grow(e->step_arena, frame->input_ids, &room, need, sizeof *ids);
                pl_value **values =
                    pl_arena_grow(e->step_arena, frame->inputs, &same, need, sizeof *values);
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

/* Runs a block's nodes again inside backward, until everything its functions saved has been made.
 */
static void recompute(pl_eager *e, pl_checkpoint_frame *frame) {
    pl_trainer *t = (pl_trainer *)e; /* e is its first member */
    const pl_graph *g = e->graph;
    int32_t node = e->node;
    uint8_t kind = e->kind;
    pl_checkpoint_frame *outer = e->frame;
    frame->done = frame->replaying = true;
    e->frame = frame;
    e->grad_enabled = true;
    e->kind = PL_ACTIVATIONS;
    e->autocast = t->autocast;
    for (int32_t i = 0; i < frame->input_count; i++)
        e->env[frame->input_ids[i]] = pl_hold(frame->inputs[i]);
    for (int32_t i = frame->first;
         i <= frame->last && frame->filled < frame->place_count && !e->failed; i++)
        run_node(t, i);
    for (int32_t i = frame->first; i <= frame->last; i++)
        for (uint32_t k = 0; k < g->nodes[i].output_count; k++)
            if (g->nodes[i].outputs[k] >= 0) pl_set_output(e, &g->nodes[i], k, NULL);
    for (int32_t i = 0; i < frame->input_count; i++) {
        pl_value **place = &e->env[frame->input_ids[i]], *value = *place;
        *place = NULL;
        if (value) pl_drop(e, value);
    }
    end_autocast(e);
    e->autocast = 0;
    e->grad_enabled = false;
    e->frame = outer;
    e->node = node;
    e->kind = kind;
}

static void run_forward(pl_trainer *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    for (int32_t i = 0; i < g->node_count && !e->failed;) {
        int32_t block = t->job->checkpoint ? pl_blocks_at(&t->blocks, g, i) : -1, last = i;
        if (t->parallel) pl_parallel_before(t, i);
        if (block < 0) {
            run_node(t, i);
        } else {
            while (last + 1 < g->node_count && pl_blocks_at(&t->blocks, g, last + 1) == block)
                last++;
            pl_checkpoint_frame *frame = pl_arena_alloc(e->step_arena, sizeof *frame);
            if (!frame) {
                e->failed = true;
                return;
            }
            frame->first = i;
            frame->last = last;
            frame->users = 1;
            hold_inputs(t, frame);
            e->frame = frame;
            for (int32_t k = i; k <= last && !e->failed; k++) run_node(t, k);
            e->frame = NULL;
            pl_frame_leave(e, frame);
        }
        i = last + 1;
    }
}

/* ---- inputs and loss ---- */

/* The first output that can be a loss or logits: a floating-point tensor. */
static int32_t main_output(const pl_graph *g) {
    for (int32_t i = 0; i < g->output_count; i++)
        if (g->outputs[i] >= 0 && pl_dtype_is_float(g->tensors[g->outputs[i]].dtype))
            return g->outputs[i];
    return -1;
}

/* The loss a job means: auto is the model's own where its first output is a scalar, else
 * cross-entropy. */
static pl_loss loss_of(const pl_graph *g, pl_loss asked) {
    if (asked != PL_LOSS_AUTO) return asked;
    int32_t out = main_output(g);
    return out >= 0 && g->tensors[out].dims == 0 ? PL_LOSS_OWN : PL_LOSS_CE;
}

static void note_transfer(pl_eager *e, const pl_value *to) {
    pl_work_begin(e);
    pl_work_transfer(e, (double)pl_value_bytes(to), to);
}

/* Copies of the batch on the device. Floating-point inputs arrive as float32 and are then cast to
 * low weights. */
static void take_inputs(pl_trainer *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    e->kind = PL_INPUTS;
    e->node = -1;
    e->what = "inputs";
    for (int32_t i = 0; i < g->input_count; i++) {
        const pl_tensor *in = &g->tensors[g->inputs[i]];
        bool floating = in->dtype == PL_DT_F32 || pl_dtype_is_half(in->dtype);
        e->env[g->inputs[i]] =
            pl_new(e, floating ? PL_DT_F32 : in->dtype, in->dims, in->sizes, NULL);
        note_transfer(e, e->env[g->inputs[i]]);
    }
    int32_t out = main_output(g);
    e->work = PL_WORK_POINTWISE;
    e->kernels = 0;
    if (out >= 0 && (t->loss == PL_LOSS_CE || t->loss == PL_LOSS_MSE)) {
        const pl_tensor *logits = &g->tensors[out];
        if (t->loss == PL_LOSS_MSE) {
            t->target =
                pl_new(e, pl_place_dtype(t, logits->dtype), logits->dims, logits->sizes, NULL);
        } else { /* one class per item: [N], [N, S] for [N, S, C], [N, H, W] for [N, C, H, W] */
            int64_t count = 1;
            int classes = logits->dims == 3 ? 2 : 1;
            for (int i = 0; i < logits->dims; i++)
                if (i != classes) count = pl_times(count, logits->sizes[i]);
            t->target = pl_new_flat(e, PL_DT_I64, count);
        }
        note_transfer(e, t->target);
    }
    for (int32_t i = 0; i < g->input_count; i++) {
        pl_value **in = &e->env[g->inputs[i]];
        pl_dtype dtype = pl_place_dtype(t, g->tensors[g->inputs[i]].dtype);
        if (pl_dtype_is_float((*in)->dtype)) *in = pl_cast_raw(e, *in, dtype);
        if (t->job->channels_last && (*in)->dims == 4) *in = pl_to_channels_last(e, *in);
    }
    e->kind = PL_ACTIVATIONS;
}

static void drop_outputs(pl_trainer *t) {
    const pl_graph *g = t->e.graph;
    for (int32_t i = 0; i < g->output_count; i++) {
        int32_t id = g->outputs[i];
        if (id < 0 || g->tensors[id].role != PL_ROLE_VALUE) continue;
        pl_drop(&t->e, t->e.env[id]);
        t->e.env[id] = NULL;
    }
}

/* The scalar that backward starts from; logits go when nobody holds them but the loss. */
static pl_value *make_loss(pl_trainer *t) {
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
        flat = pl_reshape(e, logits, 2,
                          (int64_t[]){logits->sizes[0] * logits->sizes[1], logits->sizes[2]});
    pl_value *loss = t->loss == PL_LOSS_MSE ? pl_mse(e, logits, t->target)
                                            : pl_cross_entropy(e, flat ? flat : logits, t->target);
    pl_drop(e, flat);
    drop_outputs(t);
    return loss;
}

/* GradScaler: its scale and growth tracker are made at the first use and kept; the loss is
 * multiplied by it. */
static pl_value *scale_loss(pl_trainer *t, pl_value *loss) {
    pl_eager *e = &t->e;
    if (t->job->precision != PL_AMP_FP16) return loss;
    e->what = "GradScaler";
    if (!t->scaler_made) {
        t->scaler_made = true;
        pl_block_new(e, 4);
        pl_block_new(e, 4);
    }
    pl_work_begin(e);
    pl_value *scaled = pl_pointwise(e, "MulBackward0", ":n", loss, NULL);
    pl_work_end(e, &(pl_work_rest){.like = scaled});
    return scaled;
}

static void unscale_gradients(pl_trainer *t) {
    if (t->job->precision != PL_AMP_FP16) return;
    pl_eager *e = &t->e;
    int32_t wide = pl_block_new(e, 8), inverse = pl_block_new(e, 8), single = pl_block_new(e, 4);
    pl_block_gone(e, inverse);
    pl_block_gone(e, wide);
    t->found_inf = pl_block_new(e, 4);
    pl_block_gone(e, single);
    /* The scale's inverse (two casts, a division), zeros, one pass over the gradients, then
     * found_inf.item(); fused optimizers are given it instead, and count its steps back. */
    e->what = "GradScaler";
    bool fused = t->optimizer->fused;
    pl_work_begin(e);
    pl_work_kernels(e, &(pl_work_known){.launches = 3, .read = 20, .written = 20});
    pl_work_move(e, PL_WORK_FILL, PL_PASS_FORWARD, 0, 4, NULL);
    pl_optimizer_note(e, fused ? "111 s" : "111");
    if (!fused) {
        pl_work_host(e, "GradScaler", 1);
        pl_work_waits(e);
    }
}

/* scaler.update() */
static void update_scale(pl_trainer *t) {
    pl_eager *e = &t->e;
    if (t->job->precision != PL_AMP_FP16) return;
    e->what = "GradScaler";
    pl_work_begin(e);
    pl_work_move(e, PL_WORK_POINTWISE, PL_PASS_FORWARD, 12, 8, NULL);
}

static void release_step(pl_trainer *t, pl_value *loss, pl_value *scaled) {
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

static void add_note(pl_trainer *t, const char *note) {
    pl_tape *tape = t->e.tape;
    const char **grown = pl_arena_grow(tape->arena, tape->notes, &t->e.note_room,
                                       tape->note_count + 1, sizeof *grown);
    if (!grown) {
        t->e.failed = true;
        return;
    }
    tape->notes = grown;
    tape->notes[tape->note_count++] = note;
}

static void run_step(pl_trainer *t, int step) {
    pl_eager *e = &t->e;
    e->step = (uint8_t)step;
    e->calls.on = step == t->steps - 1;
    e->calls.module = -1;
    /* a node is called in forward, its function in backward, and both make views */
    pl_work_reserve(e, 3 * (size_t)e->graph->node_count + 2 * (size_t)e->leaf_count + 64);
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
        e->what = "loss";
        e->work = PL_WORK_POINTWISE;
        e->kernels = 0;
        e->zeroes = false;
        pl_work_begin(e);
        loss = make_loss(t);
        pl_work_end(e, &(pl_work_rest){.kind = PL_WORK_POINTWISE, .like = loss});
        end_autocast(e);
        e->autocast = 0;
        if (t->trains && step == 0 && pass == 0 && !(loss && loss->needs_grad))
            add_note(t, "no gradient reaches the model's output: forward only");
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
        update_scale(t);
        pl_block_gone(e, t->found_inf);
        t->found_inf = 0;
    }
    if (loss) release_step(t, loss, scaled ? scaled : loss);
}

/* ---- the whole ---- */

typedef struct unknown {
    const char *target;
    int32_t node;
} unknown;

static int by_target(const void *x, const void *y) {
    const unknown *a = x, *b = y;
    int order = strcmp(a->target, b->target);
    return order ? order : a->node < b->node ? -1 : 1;
}

static int by_node(const void *x, const void *y) {
    const unknown *a = x, *b = y;
    return a->node < b->node ? -1 : 1;
}

/* "aten.lstm.input: ..." */
static void note_beyond_rule(pl_trainer *t, const char *target) {
    static const char more[] =
        ": sizes or a form that its rule does not cover, treated on the safe side";
    size_t length = strlen(target);
    char *text = pl_arena_alloc(t->e.tape->arena, length + sizeof more);
    if (text) {
        memcpy(text, target, length);
        memcpy(text + length, more, sizeof more);
        add_note(t, text);
    } else {
        t->e.failed = true;
    }
}

/* Operators without a rule or beyond it, each once, in the order of the graph. */
static bool list_unknown(pl_trainer *t) {
    pl_tape *tape = t->e.tape;
    const pl_graph *g = t->e.graph;
    size_t count = 0, kept = 0;
    for (int32_t i = 0; i < g->node_count; i++) count += !t->operators[i];
    if (count == 0) return true;
    unknown *all = pl_arena_array(tape->arena, count, sizeof *all);
    tape->unknown = pl_arena_array(tape->arena, count, sizeof *tape->unknown);
    if (!all || !tape->unknown) return false;
    count = 0;
    for (int32_t i = 0; i < g->node_count; i++) {
        if (t->operators[i]) continue;
        all[count++] = (unknown){g->nodes[i].target, i};
        tape->hidden_branches |= strncmp(g->nodes[i].target, "higher_order.", 13) == 0;
    }
    qsort(all, count, sizeof *all, by_target);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || strcmp(all[i].target, all[i - 1].target) != 0) all[kept++] = all[i];
    qsort(all, kept, sizeof *all, by_node);
    for (size_t i = 0; i < kept; i++) {
        tape->unknown[i] = all[i].target;
        if (pl_operator_find(all[i].target)) note_beyond_rule(t, all[i].target);
    }
    tape->unknown_count = kept;
    return true;
}

static bool prepare(pl_trainer *t) {
    pl_eager *e = &t->e;
    const pl_graph *g = e->graph;
    pl_arena *arena = e->tape->arena;
    e->env = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->env);
    e->types = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->types);
    e->leaves = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->leaves);
    e->cached = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *e->cached);
    t->operators = pl_arena_array(arena, (size_t)g->node_count + 1, sizeof *t->operators);
    if (t->job->checkpoint) {
        t->held_by = pl_arena_array(arena, (size_t)g->tensor_count + 1, sizeof *t->held_by);
        if (!t->held_by) return false;
    }
    if (!e->env || !e->types || !e->leaves || !e->cached || !t->operators ||
        !pl_lifetimes_find(&t->lifetimes, g, arena))
        return false;
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
    return pl_blocks_find(&t->blocks, g, arena);
}

/* Dropout or batch norm is there, and none of it trains. */
static bool exported_in_eval_mode(const pl_graph *g) {
    bool any = false;
    for (int32_t i = 0; i < g->node_count; i++) {
        const pl_node *n = &g->nodes[i];
        bool norm = strncmp(n->target, "aten.batch_norm.", 16) == 0;
        if (!norm && strncmp(n->target, "aten.dropout.", 13) != 0) continue;
        any = true;
        if (pl_node_int(n, norm ? "training" : "train", 1)) return false;
    }
    return any;
}

static void run(pl_trainer *t) {
    pl_eager *e = &t->e;
    e->kind = PL_WEIGHTS;
    e->node = -1;
    e->step_arena = e->tape->arena;
    pl_mark(e, PL_PHASE_LOAD);
    e->off_card = t->parallel && pl_parallel_loads_shards(t);
    pl_place_model(t);
    e->off_card = false;
    if (t->parallel) pl_parallel_wrap(t);
    e->retyped = t->autocast != 0;
    for (int32_t i = 0; i < e->graph->tensor_count; i++)
        if (e->graph->tensors[i].role == PL_ROLE_PARAMETER && e->env[i])
            e->retyped |= e->env[i]->dtype != e->graph->tensors[i].dtype;
    if (t->trains && e->leaf_count == 0) add_note(t, "no parameter wants a gradient: forward only");
    if (e->leaf_count == 0) t->trains = false;
    e->tape->trains = t->trains;
    if (t->trains) pl_optimizer_make(e, t->optimizer);
    if (t->job->checkpoint && t->blocks.count == 0)
        add_note(t, "checkpointing asked for, but the model has no repeated blocks: nothing is "
                    "checkpointed");
    if (t->trains && exported_in_eval_mode(e->graph))
        add_note(t, "exported in eval mode: dropout and batch norm do not train; export after "
                    "model.train()");
    for (int step = 0; step < t->steps && !e->failed; step++) {
        e->step_arena = t->step_arenas[step % 2];
        if (step >= 2) pl_arena_reset(e->step_arena);
        size_t functions = e->fn_count, blocks = e->tape->block_count,
               events = e->tape->event_count;
        e->fn_room = e->fn_count = 0;
        e->fns = pl_arena_grow(e->step_arena, NULL, &e->fn_room, functions, sizeof *e->fns);
        run_step(t, step);
        size_t more = (size_t)(t->steps - step - 1); /* steps, each as large as this at most */
        if (step == 0)
            pl_tape_reserve(e, e->tape->block_count + more * (e->tape->block_count - blocks),
                            e->tape->event_count + more * (e->tape->event_count - events));
    }
}

pl_status pl_tape_train(pl_tape **out, const pl_graph *graph, const pl_job *job, int steps,
                        const pl_tape_device *device, pl_budget *budget, pl_error *err) {
    *out = NULL;
    if (!job->optimizer || job->world < 1 || job->accumulate < 1 || steps < 1)
        return pl_fail(err, PL_USAGE, graph->name, -1,
                       "a job needs an optimizer, and at least one rank, pass and step");
    pl_trainer t = {.job = job, .steps = steps, .optimizer = pl_optimizer_find(job->optimizer)};
    if (!t.optimizer)
        return pl_fail(err, PL_USAGE, "optimizer", -1, "unknown optimizer \"%s\"", job->optimizer);
    t.trains = strcmp(job->optimizer, "none") != 0 && job->loss != PL_LOSS_NONE;
    t.loss = loss_of(graph, job->loss);
    t.autocast = job->precision == PL_AMP_BF16   ? PL_DT_BF16
                 : job->precision == PL_AMP_FP16 ? PL_DT_F16
                                                 : 0;
    pl_arena *arena = pl_arena_new(budget);
    pl_tape *tape = arena ? pl_arena_alloc(arena, sizeof *tape) : NULL;
    for (int i = 0; i < 2; i++) t.step_arenas[i] = pl_arena_new(budget);
    bool ready = tape && t.step_arenas[0] && t.step_arenas[1];
    if (ready) {
        tape->arena = arena;
        const pl_graph *eager = pl_rewrite(graph, arena);
        t.e = (pl_eager){.tape = tape,
                         .graph = eager,
                         .job = job,
                         .device = device,
                         .recompute = recompute,
                         .node = -1};
        ready = eager && prepare(&t) && pl_parallel_prepare(&t);
        if (t.parallel) t.e.before_fn = pl_parallel_backward;
        if (ready) run(&t);
        ready = ready && !t.e.failed && list_unknown(&t);
    }
    for (int i = 0; i < 2; i++) pl_arena_free(&t.step_arenas[i]);
    if (ready) {
        *out = tape;
        return PL_OK;
    }
    pl_status status =
        t.e.too_large
            ? pl_fail(err, PL_INPUT, graph->name, -1,
                      "a tensor of more than 2^44 elements in %s: sizes that no card could hold",
                      t.e.too_large)
            : pl_budget_fail(err, budget, graph->name);
    pl_arena_free(&arena); /* the name may lie in it */
    return status;
}

void pl_tape_close(pl_tape **tape) {
    if (!tape || !*tape) return;
    pl_arena *arena = (*tape)->arena; /* the tape itself lies in it */
    *tape = NULL;
    pl_arena_free(&arena);
}
