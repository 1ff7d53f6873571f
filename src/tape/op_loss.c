/* op_loss: losses, as operators of a graph and as what a training loop puts after a model's output.
 *
 * Rules: aten/src/ATen/native/{LossNLL,Loss}.cpp, derivatives.yaml (2.11). Cross-entropy is log_softmax in the
 * type of the logits, then nll_loss, which autocast runs in float32. */
#include "tape/operator.h"

#include <string.h>

/* ---- nll ---- */

/* The gradient of the log-probabilities, zeroed. Saved: input, target, total weight. */
static void nll_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)grads;
    const pl_edge *edge = &fn->edges[0];
    out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
}

static pl_value *nll(pl_eager *e, pl_value *log_probabilities, pl_value *target, bool reduced) {
    pl_value *x = e->autocast ? pl_autocast_to(e, log_probabilities, PL_DT_F32) : pl_hold(log_probabilities);
    pl_value *loss = reduced ? pl_new_flat(e, (pl_dtype)x->dtype, -1)
                             : pl_new_flat(e, (pl_dtype)x->dtype, target ? target->elements : x->sizes[0]);
    pl_value *total = pl_new_flat(e, (pl_dtype)x->dtype, -1);
    pl_fn *fn = pl_fn_new(e, "NllLossBackward0", nll_backward, 1, &x, 1);
    if (fn) {
        pl_save(e, fn, x);
        if (target) pl_save(e, fn, target);
        pl_save(e, fn, total);
        pl_fn_output(fn, loss, 0);
    }
    pl_drop(e, total);
    pl_drop(e, x);
    return loss;
}

pl_value *pl_cross_entropy(pl_eager *e, pl_value *logits, pl_value *target) {
    pl_value *log_probabilities = pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true);
    pl_value *loss = nll(e, log_probabilities, target, true);
    pl_drop(e, log_probabilities);
    return loss;
}

static bool reduces(const pl_node *node) {
    return pl_node_int(node, "reduction", 1) != 0;
}

void pl_run_cross_entropy(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *logits = pl_arg_at(e, node, 0), *target = pl_arg_at(e, node, 1);
    if (!logits || !target) return;
    if (pl_dtype_is_float(target->dtype)) { /* class probabilities: -(log_softmax * target).sum() / N */
        pl_value *log_probabilities = pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true);
        pl_value *product = pl_pointwise(e, "MulBackward0", "b:n|a:n", log_probabilities, target);
        pl_value *loss = pl_new_output(e, node, 0, (pl_dtype)product->dtype, NULL);
        pl_reduce_scratch(e, product, ~0u, 4);
        static const char sum[] = ":v";
        pl_value *inputs[1] = {product};
        pl_fn *fn = pl_fn_new(e, "SumBackward0", pl_rule_backward, 1, inputs, 1);
        if (fn) {
            fn->rule = sum;
            pl_fn_output(fn, loss, 0);
        }
        pl_drop(e, product);
        pl_drop(e, log_probabilities);
        pl_set_output(e, node, 0, loss);
        return;
    }
    (void)op;
    if (pl_node_float(node, "label_smoothing", 0) > 0) {
        /* nll plus the mean of the log-probabilities over classes, each with a gradient of its own */
        pl_value *log_probabilities = pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true);
        pl_value *hard = nll(e, log_probabilities, target, true);
        pl_value *smooth = pl_new_flat(e, (pl_dtype)logits->dtype, target->elements);
        pl_value *inputs[2] = {hard, log_probabilities};
        pl_value *loss = pl_new_flat(e, (pl_dtype)hard->dtype, -1);
        pl_fn *fn = pl_fn_new(e, "AddBackward0", pl_rule_backward, 2, inputs, 1);
        if (fn) {
            fn->rule = ":g|:N";
            pl_fn_output(fn, loss, 0);
        }
        pl_drop(e, smooth);
        pl_drop(e, hard);
        pl_drop(e, log_probabilities);
        pl_set_output(e, node, 0, loss);
        return;
    }
    pl_value *log_probabilities = pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true);
    pl_set_output(e, node, 0, nll(e, log_probabilities, target, reduces(node)));
    pl_drop(e, log_probabilities);
}

void pl_run_nll_loss(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_at(e, node, 0), *target = pl_arg_at(e, node, 1);
    if (x) pl_set_output(e, node, 0, nll(e, x, target, reduces(node)));
}

/* ---- losses a pair of tensors ---- */

/* mse, l1, smooth_l1, huber, bce...: the elements' losses are made and summed (one kernel for mean and sum when
 * the row's forward has no 't'), backward makes a gradient of the input's size by the row's formula. */
static pl_value *pair_loss(pl_eager *e, pl_value *a, pl_value *b, const char *name, const char *backward, bool reduced, bool scratch) {
    const pl_value *wide = b && b->elements > a->elements ? b : a;
    pl_dtype dtype = b ? pl_promote((pl_dtype)a->dtype, (pl_dtype)b->dtype) : (pl_dtype)a->dtype;
    pl_value *loss, *elements = NULL;
    if (!reduced) {
        loss = pl_new_like(e, wide, dtype);
    } else {
        loss = pl_new_flat(e, dtype, -1);
        if (scratch) elements = pl_new_like(e, wide, dtype);
        pl_reduce_scratch(e, wide, ~0u, 4);
    }
    pl_value *inputs[2] = {a, b};
    pl_fn *fn = pl_fn_new(e, name, pl_rule_backward, 2, inputs, 1);
    if (fn) {
        fn->rule = backward;
        pl_save(e, fn, a);
        if (b) pl_save(e, fn, b);
        pl_fn_output(fn, loss, 0);
    }
    pl_drop(e, elements);
    return loss;
}

pl_value *pl_mse(pl_eager *e, pl_value *input, pl_value *target) {
    pl_value *x = e->autocast ? pl_autocast_to(e, input, PL_DT_F32) : pl_hold(input);
    pl_value *loss = pair_loss(e, x, target, "MseLossBackward0", "ab:N|ab:N", true, true);
    pl_drop(e, x);
    return loss;
}

void pl_run_loss(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *in[2];
    for (uint32_t i = 2; i-- > 0;) {
        pl_value *value = pl_arg_at(e, node, i);
        bool cast = value && e->autocast && op->autocast == PL_CAST_FLOAT;
        in[i] = cast ? pl_autocast_to(e, value, PL_DT_F32) : pl_hold(value);
    }
    if (in[0])
        pl_set_output(e, node, 0, pair_loss(e, in[0], in[1], op->name, op->backward, reduces(node), strchr(op->forward, 't') != NULL));
    pl_drop(e, in[1]);
    pl_drop(e, in[0]);
}
