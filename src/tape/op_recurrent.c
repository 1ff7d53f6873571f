/* op_recurrent: nn.LSTM, nn.GRU and nn.RNN, which run as one cuDNN operator over all layers.
 *
 * Rules: aten/src/ATen/native/cudnn/RNN.cpp (2.11). The weights lie in one flat buffer (flatten_parameters);
 * forward makes a time-major copy of a batch-first input, the outputs, the reserve that backward needs and a
 * workspace; backward makes gradients of the input and the states, one flat buffer of weight gradients, and a
 * workspace. The sizes of reserve and workspace come from the device. */
#include "tape/operator.h"

#include <string.h>

typedef struct recurrent {
    pl_rnn shape;
    pl_rnn_memory memory;
    bool batch_first;
    int weights; /* first edge of the parameters */
} recurrent;

enum { EDGE_INPUT, EDGE_HIDDEN, EDGE_CELL, EDGE_WEIGHTS };

/* Saved: input, output, reserve, flat weights. Edges: input, hx, cx, then the parameters. */
static void recurrent_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    const recurrent *r = fn->rule;
    pl_value *input = fn->saved[0], *output = fn->saved[1];
    pl_value *x = r->batch_first ? pl_new(e, (pl_dtype)input->dtype, 3, input->sizes, NULL) : NULL;
    pl_value *dy = NULL;
    if (!grads[0]) dy = pl_new(e, (pl_dtype)output->dtype, 3, output->sizes, NULL); /* zeros */
    else if (r->batch_first || !pl_is_contiguous(grads[0])) dy = pl_new(e, (pl_dtype)output->dtype, 3, output->sizes, NULL);
    pl_value *dx = pl_new(e, (pl_dtype)input->dtype, 3, input->sizes, NULL);
    for (int i = EDGE_HIDDEN; i <= EDGE_CELL; i++) {
        if (fn->edges[i].wanted) out[i] = pl_new(e, (pl_dtype)fn->edges[i].dtype, fn->edges[i].dims, fn->edges[i].sizes, NULL);
    }
    pl_scratch(e, r->memory.backward);
    pl_value *flat = pl_new_flat(e, (pl_dtype)input->dtype, r->memory.weights);
    pl_scratch(e, r->memory.backward);
    for (int i = EDGE_WEIGHTS; i < fn->edge_count; i++)
        if (fn->edges[i].wanted) out[i] = pl_alias(e, flat, fn->edges[i].dims, fn->edges[i].sizes, NULL);
    if (fn->edges[EDGE_INPUT].wanted) out[EDGE_INPUT] = dx;
    else pl_drop(e, dx);
    pl_drop(e, flat);
    pl_drop(e, dy);
    pl_drop(e, x);
}

static pl_rnn_mode mode_of(const char *target) {
    if (strstr(target, "lstm")) return PL_RNN_LSTM;
    if (strstr(target, "gru")) return PL_RNN_GRU;
    return strstr(target, "relu") ? PL_RNN_RELU : PL_RNN_TANH;
}

/* Under autocast the flat buffer is cast as a whole, once a call. */
static pl_value *flat_weights(pl_eager *e, const recurrent *r, bool cast) {
    return cast ? pl_new_flat(e, r->shape.dtype, r->memory.weights) : NULL;
}

void pl_run_recurrent(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *given = pl_arg_value(e, node, "input");
    const pl_arg *params = pl_node_arg(node, "params");
    const pl_tensor *out = pl_output_tensor(e, node, 0);
    if (!given || given->dims != 3 || !params || params->kind != PL_ARG_TENSORS || params->count < 2 || !out) return;
    const pl_arg *hx = pl_node_arg(node, "hx");
    pl_value *states[2] = {0};
    if (hx && hx->kind == PL_ARG_TENSOR) states[0] = e->env[hx->tensor];
    for (uint32_t i = 0; hx && hx->kind == PL_ARG_TENSORS && i < hx->count && i < 2; i++)
        states[i] = hx->list[i] >= 0 ? e->env[hx->list[i]] : NULL;

    recurrent *r = pl_arena_alloc(e->step_arena, sizeof *r);
    int edge_count = EDGE_WEIGHTS + (int)params->count;
    pl_value **inputs = pl_arena_array(e->step_arena, (size_t)edge_count, sizeof *inputs);
    if (!r || !inputs || edge_count > UINT8_MAX) {
        e->failed = true;
        return;
    }
    pl_value *x = e->autocast ? pl_autocast_to(e, given, (pl_dtype)e->autocast) : pl_hold(given);
    const pl_value *recur = e->env[params->list[1]];
    bool bidirectional = pl_node_int(node, "bidirectional", 0) != 0;
    r->batch_first = pl_node_int(node, "batch_first", 0) != 0;
    int b = r->batch_first ? 0 : 1;
    pl_rnn_mode mode = mode_of(node->target);
    int64_t gates = mode == PL_RNN_LSTM ? 4 : mode == PL_RNN_GRU ? 3 : 1;
    r->shape = (pl_rnn){.mode = mode,
                        .layers = pl_node_int(node, "num_layers", 1),
                        .directions = bidirectional ? 2 : 1,
                        .batch = x->sizes[b],
                        .seq = x->sizes[1 - b],
                        .input = x->sizes[2],
                        .hidden = recur ? recur->sizes[0] / gates : 0,
                        .bias = pl_node_int(node, "has_biases", 1) != 0,
                        .training = e->grad_enabled,
                        .dropout = pl_node_float(node, "dropout", 0),
                        .dtype = (pl_dtype)x->dtype};
    if (recur && mode == PL_RNN_LSTM && recur->dims == 2 && recur->sizes[1] != r->shape.hidden)
        r->shape.projection = recur->sizes[1];
    if (!e->device->rnn(&r->shape, e->device->cc_major, e->device->cc_minor, &r->memory)) {
        pl_drop(e, x);
        return;
    }
    e->tape->used_rnn = e->tape->used_cudnn = true;
    if (r->shape.dropout > 0 && !e->rnn_dropout_state) { /* cuDNN's random states, kept (rnn-0315, 2026-11-15) */
        e->rnn_dropout_state = true;
        pl_block_new(e, 6488064);
    }
    pl_value *flat = flat_weights(e, r, e->autocast != 0);
    pl_value *time_major = r->batch_first ? pl_new(e, (pl_dtype)x->dtype, 3, x->sizes, NULL) : NULL;
    /* The output is time-major in memory. */
    int64_t width = out->sizes[2], strides[3] = {r->shape.batch * width, width, 1};
    if (r->batch_first) {
        strides[0] = width;
        strides[1] = r->shape.batch * width;
    }
    pl_value *y = pl_new(e, (pl_dtype)x->dtype, 3, out->sizes, strides);
    pl_value *ends[2] = {0};
    for (uint32_t i = 1; i < node->output_count && i < 3; i++) {
        const pl_tensor *t = pl_output_tensor(e, node, i);
        if (t) ends[i - 1] = pl_new(e, (pl_dtype)x->dtype, t->dims, t->sizes, NULL);
    }
    /* Workspace and reserve are taken together, the workspace goes first. */
    uint8_t kind = e->kind;
    e->kind = PL_WORKSPACE;
    int32_t workspace = pl_block_new(e, r->memory.forward);
    e->kind = kind;
    pl_value *reserve = pl_new_flat(e, PL_DT_U8, r->memory.reserve);
    pl_block_gone(e, workspace);

    inputs[EDGE_INPUT] = x;
    inputs[EDGE_HIDDEN] = states[0];
    inputs[EDGE_CELL] = states[1];
    for (uint32_t i = 0; i < params->count; i++)
        inputs[EDGE_WEIGHTS + i] = params->list[i] >= 0 ? e->env[params->list[i]] : NULL;
    pl_fn *fn = pl_fn_new(e, "CudnnRnnBackward0", recurrent_backward, edge_count, inputs, 3);
    if (fn) {
        fn->rule = r;
        pl_save(e, fn, x);
        pl_save(e, fn, y);
        pl_save(e, fn, reserve);
        if (flat) pl_save(e, fn, flat);
        pl_fn_output(fn, y, 0);
        for (int i = 0; i < 2; i++)
            if (ends[i]) pl_fn_output(fn, ends[i], i + 1);
    }
    pl_drop(e, reserve);
    pl_drop(e, time_major);
    pl_drop(e, flat);
    pl_drop(e, x);
    pl_set_output(e, node, 0, y);
    for (uint32_t i = 0; i < 2; i++)
        if (ends[i]) pl_set_output(e, node, i + 1, ends[i]);
}
