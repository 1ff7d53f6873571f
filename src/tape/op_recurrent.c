/* op_recurrent: nn.LSTM, nn.GRU and nn.RNN, which run as one cuDNN operator over all layers.
 *
 * Rules: aten/src/ATen/native/cudnn/RNN.cpp, aten/src/ATen/cudnn/AutocastRNN.cpp, checked against
 * 420 measured configurations (tools/measure/rnn_sdpa.py; H200, PyTorch 2.11, cuDNN 9.19,
 * 2026-11-15) and the allocator traces rnn-1390, rnn-0315, rnn-0389, rnn-0996. The sizes of
 * reserve, workspace and flat weights come from the device.
 *
 * Weights lie in one flat buffer since the module was moved (place.c); bfloat16 ones do not, and
 * are gathered in each call, and so are they under autocast, which runs these layers in float16
 * whatever its type. The input is made time-major and contiguous for forward, and in backward
 * twice: for the data's gradient and for the weights'. */
#include "tape/operator.h"

#include <string.h>

#include "core/checked.h"

typedef struct recurrent {
    pl_rnn shape;
    pl_rnn_memory memory;
    bool copies_input; /* batch first, and not so small that the order does not matter */
    bool bias;
} recurrent;

enum { EDGE_INPUT, EDGE_HIDDEN, EDGE_CELL, EDGE_WEIGHTS };
enum { SAVED_INPUT, SAVED_OUTPUT, SAVED_HIDDEN, SAVED_CELL }; /* then reserve, flat weights */

/* cuDNN's random states for dropout between layers: made at the first use, kept. */
static const int64_t dropout_state_bytes = 6488064;

/* Of the same sizes and type, its strides those of a contiguous tensor. */
static pl_value *new_contiguous(pl_eager *e, const pl_value *value) {
    return pl_new(e, (pl_dtype)value->dtype, value->dims, value->sizes, NULL);
}

/* Time and batch change places. */
static void note_turned(pl_eager *e, const pl_value *from, const pl_value *to) {
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                        .pass = pl_work_pass(e),
                                        .read = pl_work_bytes(from),
                                        .strided = true,
                                        .out = {to}});
}

/* Weights that do not lie in one buffer: it is filled, then each is copied in. */
static void note_gathered(pl_eager *e, const pl_arg *params, const pl_value *flat) {
    double read = 0;
    for (uint32_t i = 0; i < params->count; i++)
        if (params->list[i] >= 0 && e->env[params->list[i]])
            read += pl_work_bytes(e->env[params->list[i]]);
    pl_work_fill(e, PL_PASS_FORWARD, flat);
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_COPY,
                                        .launches = (int)params->count,
                                        .read = read,
                                        .written = pl_work_bytes(flat),
                                        .dtype = (pl_dtype)flat->dtype});
}

static int32_t workspace(pl_eager *e, int64_t bytes) {
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    int32_t block = pl_block_new(e, bytes);
    e->kind = kind;
    return block;
}

/* Edges: input, hx, cx, then the parameters. grads: output, hy, cy. */
static void recurrent_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const recurrent *r = fn->rule;
    bool lstm = r->shape.mode == PL_RNN_LSTM;
    pl_value *x = fn->saved[SAVED_INPUT], *y = fn->saved[SAVED_OUTPUT],
             *h = fn->saved[SAVED_HIDDEN];
    pl_value *c = lstm ? fn->saved[SAVED_CELL] : NULL;
    pl_value *dhy = grads[1] ? NULL : new_contiguous(e, h),
             *dcy = !lstm || grads[2] ? NULL : new_contiguous(e, c);
    if (dhy) pl_work_fill(e, PL_PASS_BACKWARD, dhy);
    if (dcy) pl_work_fill(e, PL_PASS_BACKWARD, dcy);
    pl_value *x_copy = r->copies_input ? new_contiguous(e, x) : NULL;
    if (x_copy) note_turned(e, x, x_copy);
    bool same = grads[0] != NULL;
    for (int i = 0; same && i < 3; i++)
        same = y->sizes[i] == 1 || grads[0]->strides[i] == y->strides[i];
    pl_value *dy_copy = same ? NULL : new_contiguous(e, y);
    if (dy_copy) note_turned(e, y, dy_copy);
    pl_value *dx = new_contiguous(e, x);
    pl_value *dhx = new_contiguous(e, h), *dcx = lstm ? new_contiguous(e, c) : NULL;
    pl_work_recurrent(e, PL_PASS_BACKWARD, &r->shape);
    pl_block_gone(e, workspace(e, r->memory.backward));
    pl_drop(e, dy_copy);
    pl_drop(e, x_copy);
    x_copy = r->copies_input ? new_contiguous(e, x) : NULL;
    if (x_copy) note_turned(e, x, x_copy);
    pl_value *flat = pl_new_flat(e, (pl_dtype)x->dtype, r->memory.weights);
    pl_work_fill(e, PL_PASS_BACKWARD, flat);
    int32_t space = workspace(e, r->memory.backward);
    for (int i = EDGE_WEIGHTS; i < fn->edge_count; i++) {
        const pl_edge *edge = &fn->edges[i];
        if (!edge->wanted) continue;
        out[i] = r->bias ? pl_alias(e, flat, edge->dims, edge->sizes, NULL)
                         : pl_new(e, (pl_dtype)x->dtype, edge->dims, edge->sizes, NULL);
    }
    pl_block_gone(e, space);
    pl_drop(e, x_copy);
    pl_drop(e, dcy);
    pl_drop(e, dhy);
    if (fn->edges[EDGE_HIDDEN].wanted)
        out[EDGE_HIDDEN] = dhx;
    else
        pl_drop(e, dhx);
    if (fn->edges[EDGE_CELL].wanted)
        out[EDGE_CELL] = dcx;
    else
        pl_drop(e, dcx);
    if (fn->edges[EDGE_INPUT].wanted)
        out[EDGE_INPUT] = dx;
    else
        pl_drop(e, dx);
    pl_drop(e, flat);
}

static pl_rnn_mode mode_of(const char *target) {
    if (strstr(target, "lstm")) return PL_RNN_LSTM;
    if (strstr(target, "gru")) return PL_RNN_GRU;
    return strstr(target, "relu") ? PL_RNN_RELU : PL_RNN_TANH;
}

/* Fills r from the node; false: not a form that cuDNN takes. */
static bool describe(pl_eager *e, const pl_node *node, const pl_arg *params, const pl_value *x,
                     recurrent *r) {
    const pl_value *recur = params->list[1] >= 0 ? e->env[params->list[1]] : NULL;
    if (!recur || recur->dims != 2) return false;
    bool batch_first = pl_node_int(node, "batch_first", 0) != 0;
    int b = batch_first ? 0 : 1;
    pl_rnn_mode mode = mode_of(node->target);
    int64_t gates = mode == PL_RNN_LSTM ? 4 : mode == PL_RNN_GRU ? 3 : 1;
    r->bias = pl_node_int(node, "has_biases", 1) != 0;
    r->shape = (pl_rnn){.mode = mode,
                        .layers = pl_node_int(node, "num_layers", 1),
                        .directions = pl_node_int(node, "bidirectional", 0) ? 2 : 1,
                        .batch = x->sizes[b],
                        .seq = x->sizes[1 - b],
                        .input = x->sizes[2],
                        .hidden = recur->sizes[0] / gates,
                        .bias = r->bias,
                        .training = pl_node_int(node, "train", 1) != 0,
                        .dropout = pl_node_float(node, "dropout", 0),
                        .dtype = (pl_dtype)x->dtype};
    if (r->shape.layers < 1 || r->shape.layers > params->count) return false;
    if (mode == PL_RNN_LSTM && recur->sizes[1] != r->shape.hidden)
        r->shape.projection = recur->sizes[1];
    r->copies_input = batch_first && r->shape.batch > 1 && r->shape.seq > 1;
    return e->device->rnn(&r->shape, e->device->cc_major, e->device->cc_minor, &r->memory);
}

static void find_states(pl_eager *e, const pl_node *node, pl_value **states) {
    const pl_arg *hx = pl_node_arg(node, "hx");
    if (hx && hx->kind == PL_ARG_TENSOR) states[0] = e->env[hx->tensor];
    for (uint32_t i = 0; hx && hx->kind == PL_ARG_TENSORS && i < hx->count && i < 2; i++)
        states[i] = hx->list[i] >= 0 ? e->env[hx->list[i]] : NULL;
}

/* The outputs y, hy, cy; y is time-major in memory. */
static bool make_outputs(pl_eager *e, const pl_node *node, const recurrent *r, pl_value **results) {
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!out || out->dims != 3) return false;
    int64_t width = out->sizes[2], strides[3] = {pl_times(r->shape.batch, width), width, 1};
    if (pl_node_int(node, "batch_first", 0)) {
        strides[1] = strides[0];
        strides[0] = width;
    }
    results[0] = pl_new(e, r->shape.dtype, 3, out->sizes, strides);
    for (uint32_t i = 1; i < 3 && i < node->output_count; i++) {
        const pl_tensor *t = pl_output_tensor(e, node, i);
        if (t) results[i] = pl_new(e, r->shape.dtype, t->dims, t->sizes, NULL);
    }
    return true;
}

static void run(pl_eager *e, const pl_node *node, const pl_arg *params, recurrent *r, pl_value *x,
                pl_value **states) {
    bool cast = e->autocast != 0;
    if (r->shape.dropout > 0 && r->shape.training && !e->rnn_dropout_state) {
        e->rnn_dropout_state = true;
        pl_scratch(e, 8);
        pl_block_new(e, dropout_state_bytes);
    }
    pl_value *flat = NULL, *h[2] = {pl_hold(states[0]), pl_hold(states[1])};
    if (cast) {
        flat = pl_new_flat(e, r->shape.dtype, r->memory.weights);
        note_gathered(e, params, flat);
        for (int i = 0; i < 2 && h[i]; i++) {
            pl_drop(e, h[i]);
            h[i] = pl_to(e, states[i], r->shape.dtype);
        }
    }
    pl_value *copy = r->copies_input ? new_contiguous(e, x) : NULL, *results[3] = {0};
    if (copy) note_turned(e, x, copy);
    if (make_outputs(e, node, r, results)) {
        if (!cast && r->shape.dtype == PL_DT_BF16) {
            flat = pl_new_flat(e, r->shape.dtype, r->memory.weights);
            note_gathered(e, params, flat);
        }
        int32_t space = workspace(e, r->memory.forward);
        pl_value *reserve = pl_new_flat(e, PL_DT_U8, r->memory.reserve);
        pl_work_recurrent(e, PL_PASS_FORWARD, &r->shape);
        pl_block_gone(e, space);
        size_t edge_count = EDGE_WEIGHTS + (size_t)params->count;
        pl_value **inputs = edge_count <= INT32_MAX
                                ? pl_arena_array(e->step_arena, edge_count, sizeof *inputs)
                                : NULL;
        if (inputs) {
            inputs[EDGE_INPUT] = x;
            inputs[EDGE_HIDDEN] = h[0];
            inputs[EDGE_CELL] = h[1];
            for (uint32_t i = 0; i < params->count; i++)
                inputs[EDGE_WEIGHTS + i] = params->list[i] >= 0 ? e->env[params->list[i]] : NULL;
        } else {
            e->failed = true;
        }
        pl_fn *fn = inputs ? pl_fn_new(e, "CudnnRnnBackward0", recurrent_backward, (int)edge_count,
                                       inputs, 3)
                           : NULL;
        if (fn) {
            fn->rule = r;
            pl_save(e, fn, x);
            pl_save(e, fn, results[0]);
            pl_save(e, fn, h[0] ? h[0] : results[1] ? results[1] : results[0]);
            if (r->shape.mode == PL_RNN_LSTM)
                pl_save(e, fn, h[1] ? h[1] : results[2] ? results[2] : results[0]);
            pl_save(e, fn, reserve);
            if (flat) pl_save(e, fn, flat);
            for (int i = 0; i < 3; i++)
                if (results[i]) pl_fn_output(fn, results[i], i);
        }
        pl_drop(e, reserve);
    }
    pl_drop(e, copy);
    pl_drop(e, flat);
    pl_drop(e, h[0]);
    pl_drop(e, h[1]);
    for (uint32_t i = 0; i < 3; i++)
        if (results[i]) pl_set_output(e, node, i, results[i]);
}

void pl_run_recurrent(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *given = pl_arg_value(e, node, "input");
    const pl_arg *params = pl_node_arg(node, "params");
    recurrent *r = pl_arena_alloc(e->step_arena, sizeof *r);
    if (!r) e->failed = true;
    if (!r || !given || given->dims != 3 || !params || params->kind != PL_ARG_TENSORS ||
        params->count < 2)
        return;
    pl_value *states[2] = {0};
    find_states(e, node, states);
    /* The input is cast last; what it is cast to is known before. */
    pl_value typed = *given;
    if (e->autocast) typed.dtype = PL_DT_F16;
    if (!describe(e, node, params, &typed, r)) return;
    e->tape->used_rnn = e->tape->used_cudnn = true;
    pl_value *x = e->autocast ? pl_autocast_to(e, given, PL_DT_F16) : pl_hold(given);
    run(e, node, params, r, x, states);
    pl_drop(e, x);
}

/* ---- cells ---- */

/* RNN.cpp's cells on CUDA: two products, then for LSTM and GRU one fused kernel. Checked against
 * allocator traces (ncell-*, 2026-11-15, PyTorch 2.11, H200). */
enum {
    CELL_INPUT_GATES,
    CELL_HIDDEN_GATES,
    CELL_STATE,
    CELL_INPUT_BIAS,
    CELL_HIDDEN_BIAS,
    CELL_EDGES
};

static void cell_biases(pl_eager *e, pl_fn *fn, pl_value **out, pl_dtype dtype, bool shared) {
    pl_value *sum = NULL;
    for (int i = CELL_INPUT_BIAS; i <= CELL_HIDDEN_BIAS; i++) {
        if (!fn->edges[i].wanted) continue;
        if (!sum || !shared) {
            pl_drop(e, sum);
            sum = pl_new(e, dtype, fn->edges[i].dims, fn->edges[i].sizes, NULL);
        }
        out[i] = pl_hold(sum);
    }
    pl_drop(e, sum);
}

/* The gates' gradient [N, 4 H] goes to both products, its sum to both biases. */
static void lstm_cell_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const pl_value *given = grads[0] ? grads[0] : grads[1];
    pl_dtype dtype = (pl_dtype)given->dtype;
    pl_value *gates = pl_new_like(e, fn->saved[0], dtype),
             *state = pl_new_like(e, fn->saved[2], dtype);
    cell_biases(e, fn, out, dtype, true);
    for (int i = CELL_INPUT_GATES; i <= CELL_HIDDEN_GATES; i++)
        if (fn->edges[i].wanted) out[i] = pl_hold(gates);
    if (fn->edges[CELL_STATE].wanted) out[CELL_STATE] = pl_hold(state);
    pl_drop(e, state);
    pl_drop(e, gates);
}

/* Both products' gates [N, 3 H] have gradients of their own, and so have the biases. */
static void gru_cell_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    pl_dtype dtype = (pl_dtype)grads[0]->dtype;
    for (int i = CELL_INPUT_GATES; i <= CELL_STATE; i++) {
        pl_value *made = pl_new_like(e, fn->saved[i], dtype);
        if (fn->edges[i].wanted)
            out[i] = made;
        else
            pl_drop(e, made);
    }
    cell_biases(e, fn, out, dtype, false);
}

static pl_value *gates_of(pl_eager *e, pl_value *x, pl_value *weight) {
    pl_value *turned = pl_transpose(e, weight, 0, 1), *product = pl_matmul(e, x, turned);
    pl_drop(e, turned);
    return product;
}

/* v: input, state h, state c (LSTM), w_ih, w_hh, b_ih, b_hh. */
static void fused_cell(pl_eager *e, const pl_node *node, pl_value **v, bool lstm) {
    pl_value *state = lstm ? v[2] : v[1];
    pl_value *inputs[CELL_EDGES] = {gates_of(e, v[0], v[3]), NULL, state, v[5], v[6]};
    inputs[CELL_HIDDEN_GATES] = gates_of(e, v[1], v[4]);
    pl_dtype dtype = (pl_dtype)inputs[0]->dtype;
    pl_value *workspace = pl_new_flat(e, dtype, lstm ? inputs[0]->elements : 5 * state->elements);
    pl_value *hidden = pl_new_like(e, v[1], dtype),
             *cell = lstm ? pl_new_like(e, state, dtype) : NULL;
    pl_fn *fn =
        pl_fn_new(e, lstm ? "ThnnFusedLstmCellBackward0" : "ThnnFusedGruCellBackward0",
                  lstm ? lstm_cell_backward : gru_cell_backward, CELL_EDGES, inputs, lstm ? 2 : 1);
    if (fn) {
        for (int i = 0; i < CELL_EDGES; i++)
            if (inputs[i]) pl_save(e, fn, inputs[i]);
        if (cell) pl_save(e, fn, cell);
        pl_save(e, fn, workspace);
        pl_fn_output(fn, hidden, 0);
        if (cell) pl_fn_output(fn, cell, 1);
    }
    pl_drop(e, workspace);
    pl_drop(e, inputs[CELL_HIDDEN_GATES]);
    pl_drop(e, inputs[CELL_INPUT_GATES]);
    pl_set_output(e, node, 0, hidden);
    if (cell) pl_set_output(e, node, 1, cell);
}

/* tanh or relu of linear(h) += linear(input). */
static void plain_cell(pl_eager *e, const pl_node *node, pl_value **v) {
    pl_value *both[2] = {pl_linear(e, v[1], v[4], v[6]), NULL};
    both[1] = pl_linear(e, v[0], v[3], v[5]);
    pl_value *sum = pl_alias_like(e, both[0]);
    pl_fn *fn = pl_fn_new(e, "AddBackward0", pl_rule_backward, 2, both, 1);
    if (fn) {
        fn->rule = ":g|:g";
        pl_fn_output(fn, sum, 0);
    }
    pl_set_output(e, node, 0, pl_pointwise(e, "TanhBackward0", "r:n", sum, NULL));
    pl_drop(e, both[1]);
    pl_drop(e, both[0]);
    pl_drop(e, sum);
}

void pl_run_cell(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *given[7] = {pl_arg_value(e, node, "input"),
                          pl_arg_value(e, node, "hx"),
                          NULL,
                          pl_arg_value(e, node, "w_ih"),
                          pl_arg_value(e, node, "w_hh"),
                          pl_arg_value(e, node, "b_ih"),
                          pl_arg_value(e, node, "b_hh")};
    const pl_arg *states = pl_node_arg(node, "hx");
    for (uint32_t i = 0; states && states->kind == PL_ARG_TENSORS && i < states->count && i < 2;
         i++)
        if (states->list[i] >= 0) given[1 + i] = e->env[states->list[i]];
    bool lstm = strstr(op->name, "lstm") != NULL, gru = strstr(op->name, "gru") != NULL;
    if (!given[0] || !given[1] || !given[3] || !given[4] || (lstm && !given[2]))
        return pl_run_many(e, node, op);
    pl_value *v[7];
    for (int i = 7; i-- > 0;)
        v[i] = given[i] && e->autocast ? pl_autocast_to(e, given[i], (pl_dtype)e->autocast)
                                       : pl_hold(given[i]);
    if (lstm || gru)
        fused_cell(e, node, v, lstm);
    else
        plain_cell(e, node, v);
    for (int i = 0; i < 7; i++) pl_drop(e, v[i]);
}
