/* op_loss: losses, as operators of a graph and as what a training loop puts after a model's output.
 *
 * Rules: aten/src/ATen/native/{LossNLL,Loss}.cpp, native/cuda/Loss.cu, derivatives.yaml (2.11),
 * checked against allocator traces (nloss-*, 2026-11-15, PyTorch 2.11, H200). Cross-entropy is
 * log_softmax in the type of the logits, then nll_loss, which autocast runs in float32. */
#include "tape/operator.h"

#include <string.h>

/* ---- nll ---- */

/* The gradient of the log-probabilities, zeroed. Saved: input, target, total weight. */
static void nll_backward(pl_eager *e, pl_fn *fn, pl_value **grads, pl_value **out) {
    (void)grads;
    const pl_edge *edge = &fn->edges[0];
    out[0] = pl_new(e, (pl_dtype)edge->dtype, edge->dims, edge->sizes, NULL);
    pl_work_fill(e, PL_PASS_BACKWARD, out[0]);
    double places = (double)fn->saved[1]->elements; /* one number is written for each */
    pl_work_move(e, PL_WORK_POINTWISE, PL_PASS_BACKWARD, 8 * places, 4 * places, NULL);
}

static pl_value *nll(pl_eager *e, pl_value *log_probabilities, pl_value *target, bool reduced) {
    pl_value *x =
        e->autocast ? pl_autocast_to(e, log_probabilities, PL_DT_F32) : pl_hold(log_probabilities);
    pl_value *loss =
        reduced ? pl_new_flat(e, (pl_dtype)x->dtype, -1)
                : pl_new_flat(e, (pl_dtype)x->dtype, target ? target->elements : x->sizes[0]);
    pl_value *total = pl_new_flat(e, (pl_dtype)x->dtype, -1);
    double places = target ? (double)target->elements : 0;
    pl_work_kernels(e, &(pl_work_known){.kind = PL_WORK_REDUCE,
                                        .read = 40 * places, /* a sector and an index per place */
                                        .rows = 1,
                                        .columns = target ? target->elements : 0,
                                        .out = {loss, total}});
    pl_fn *fn = pl_fn_new(e, "NllLossBackward0", nll_backward, 1, &x, 1);
    if (fn) {
        fn->class = PL_KERNEL_NLL_LOSS;
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
    pl_value *log_probabilities =
        pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true, logits->dims > 1);
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
    if (pl_dtype_is_float(
            target->dtype)) { /* class probabilities: -(log_softmax * target).sum() / N */
        pl_value *log_probabilities =
            pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true, logits->dims > 1);
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
        /* nll plus the mean of the log-probabilities over classes, each with a gradient of its own
         */
        pl_value *log_probabilities =
            pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true, logits->dims > 1);
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
    pl_value *log_probabilities =
        pl_softmax_value(e, logits, (pl_dtype)logits->dtype, true, logits->dims > 1);
    pl_set_output(e, node, 0, nll(e, log_probabilities, target, reduces(node)));
    pl_drop(e, log_probabilities);
}

void pl_run_nll_loss(pl_eager *e, const pl_node *node, const pl_operator *op) {
    (void)op;
    pl_value *x = pl_arg_at(e, node, 0), *target = pl_arg_at(e, node, 1);
    if (x) pl_set_output(e, node, 0, nll(e, x, target, reduces(node)));
}

/* ---- one operator, one function ---- */

/* How a loss of two tensors is made, by the row's forward string: scratch like the elements (t),
 * then
 *   o  the result, a number, after the elements
 *   O  the result like the elements, resized to a number and keeping their block (mse_loss,
 *      smooth_l1_loss), then the elements
 *   R  the elements are the result: their sum, a number of its own, is copied into them
 *      (binary_cross_entropy, soft_margin_loss). */
static pl_value *pair_loss(pl_eager *e, pl_value *a, pl_value *b, const pl_operator *op,
                           bool reduced) {
    const pl_value *wide = b && b->elements > a->elements ? b : a;
    pl_dtype dtype = b ? pl_promote((pl_dtype)a->dtype, (pl_dtype)b->dtype) : (pl_dtype)a->dtype;
    const char *how = op->forward;
    pl_value *loss, *scratch[4] = {0};
    int count = 0;
    for (; *how == 't'; how++)
        if (count < 4) scratch[count++] = pl_new_like(e, wide, dtype);
    if (!reduced) {
        loss = pl_new_like(e, wide, dtype);
    } else if (*how == 'o') {
        loss = pl_new_flat(e, dtype, -1);
        pl_reduce_scratch(e, wide, ~0u, 4);
    } else {
        pl_value *block = pl_new_like(e, wide, dtype);
        scratch[count++] = *how == 'O' ? pl_new_like(e, wide, dtype) : pl_new_flat(e, dtype, -1);
        pl_reduce_scratch(e, wide, ~0u, 4);
        loss = pl_alias(e, block, 0, NULL, NULL);
        pl_drop(e, block);
    }
    pl_value *inputs[2] = {a, b};
    pl_fn *fn = pl_fn_new(e, op->name, pl_rule_backward, 2, inputs, 1);
    if (fn) {
        fn->rule = op->backward;
        fn->class = (uint8_t)op->class;
        pl_save(e, fn, a);
        if (b) pl_save(e, fn, b);
        pl_fn_output(fn, loss, 0);
    }
    while (count > 0) pl_drop(e, scratch[--count]);
    return loss;
}

pl_value *pl_mse(pl_eager *e, pl_value *input, pl_value *target) {
    static const pl_operator mse = {
        .name = "MseLossBackward0", .forward = "O", .backward = "ab:N|ab:N"};
    pl_value *x = e->autocast ? pl_autocast_to(e, input, PL_DT_F32) : pl_hold(input);
    pl_value *loss = pair_loss(e, x, target, &mse, true);
    pl_drop(e, x);
    return loss;
}

enum { MOST_INPUTS = 4 };

/* The first arguments that are tensors, cast to float32 under autocast where the row says so; last
 * first. */
static int take(pl_eager *e, const pl_node *node, const pl_operator *op, int most, pl_value **in) {
    int count = 0;
    for (int i = most; i-- > 0;) {
        pl_value *value = pl_arg_at(e, node, (uint32_t)i);
        bool cast = value && e->autocast && op->autocast == PL_CAST_FLOAT;
        in[i] = cast ? pl_autocast_to(e, value, PL_DT_F32) : pl_hold(value);
        count += value != NULL;
    }
    return count;
}

static void drop_all(pl_eager *e, int count, pl_value **in) {
    while (count > 0) pl_drop(e, in[--count]);
}

void pl_run_loss(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *in[2];
    take(e, node, op, 2, in);
    if (in[0]) pl_set_output(e, node, 0, pair_loss(e, in[0], in[1], op, reduces(node)));
    drop_all(e, 2, in);
}

/* multi_margin_loss and multilabel_margin_loss: a number per sample, summed; backward makes the
 * input's gradient. */
void pl_run_margin_loss(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *in[2];
    take(e, node, op, 2, in);
    if (in[0]) {
        pl_value *loss = pl_new_output(e, node, 0, (pl_dtype)in[0]->dtype, NULL);
        if (reduces(node))
            pl_drop(e,
                    pl_new_flat(e, (pl_dtype)in[0]->dtype, in[0]->dims > 1 ? in[0]->sizes[0] : 1));
        pl_fn *fn = pl_fn_new(e, op->name, pl_rule_backward, 1, in, 1);
        if (fn) {
            fn->rule = "a:N";
            pl_save(e, fn, in[0]);
            if (in[1]) pl_save(e, fn, in[1]);
            pl_fn_output(fn, loss, 0);
        }
        pl_set_output(e, node, 0, loss);
    }
    drop_all(e, 2, in);
}

/* ---- losses made of other operators ---- */

/* Local variables of PyTorch's function, which go after the reduction, newest first. */
typedef struct locals {
    pl_value *held[6];
    int count;
} locals;

static pl_value *local(locals *l, pl_value *value) {
    if (l->count < 6) l->held[l->count++] = value;
    return value;
}

/* Each step takes its operands' references and returns one. */
static pl_value *one(pl_eager *e, const char *name, const char *backward, pl_value *a) {
    pl_value *result = pl_pointwise(e, name, backward, a, NULL);
    pl_drop(e, a);
    return result;
}

/* a is dropped before b, as C++ destroys temporaries. */
static pl_value *two(pl_eager *e, const char *name, const char *backward, pl_value *a,
                     pl_value *b) {
    pl_value *result = pl_pointwise(e, name, backward, a, b);
    pl_drop(e, a);
    pl_drop(e, b);
    return result;
}

static pl_value *subtract(pl_eager *e, pl_value *a, pl_value *b) {
    return two(e, "SubBackward0", ":g|:n", a, b);
}

/* x.clamp_min_(0): in place, so autograd keeps a clone. */
static pl_value *clamp_in_place(pl_eager *e, pl_value *x) {
    pl_value *kept = x->needs_grad ? pl_new_like(e, x, (pl_dtype)x->dtype) : NULL,
             *result = pl_alias_like(e, x);
    pl_fn *fn = pl_fn_new(e, "ClampMinBackward0", pl_rule_backward, 1, &x, 1);
    if (fn) {
        fn->rule = "a:smn";
        pl_save(e, fn, kept);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, kept);
    pl_drop(e, x);
    return result;
}

/* where(some condition of the target, x, zeros). */
static pl_value *choose(pl_eager *e, pl_value *x) {
    pl_value *mask = pl_new_like(e, x, PL_DT_BOOL), *result = pl_new_like(e, x, (pl_dtype)x->dtype);
    pl_fn *fn = pl_fn_new(e, "WhereBackward0", pl_rule_backward, 1, &x, 1);
    if (fn) {
        fn->rule = ":sn";
        pl_save(e, fn, mask);
        pl_fn_output(fn, result, 0);
    }
    pl_drop(e, mask);
    pl_drop(e, x);
    return result;
}

static pl_value *reduced_by(pl_eager *e, const pl_node *node, pl_value *elements) {
    enum { NONE, MEAN, SUM };
    int64_t how = pl_node_int(node, "reduction", MEAN);
    if (how == NONE) return elements;
    pl_value *loss = how == MEAN ? pl_mean_value(e, elements) : pl_sum_value(e, elements, -1);
    pl_drop(e, elements);
    return loss;
}

static pl_value *l1(pl_eager *e, pl_value **in, locals *l) {
    (void)l;
    return one(e, "AbsBackward0", "a:TN", subtract(e, pl_hold(in[0]), pl_hold(in[1])));
}

/* target log target - target input */
static pl_value *kl_div(pl_eager *e, pl_value **in, locals *l) {
    (void)l;
    pl_value *entropy = pl_pointwise(e, "XlogyBackward0", "|ab:tn", in[0], in[1]);
    pl_value *cross = pl_pointwise(e, "MulBackward0", "b:n|a:n", in[0], in[1]);
    pl_value *result = pl_pointwise(e, "SubBackward0", ":g|:n", entropy, cross);
    pl_drop(e, cross);
    pl_drop(e, entropy);
    return result;
}

/* exp(input) - target input */
static pl_value *poisson(pl_eager *e, pl_value **in, locals *l) {
    (void)l;
    pl_value *product = pl_pointwise(e, "MulBackward0", "b:n|a:n", in[0], in[1]);
    pl_value *power = pl_pointwise(e, "ExpBackward0", "r:n", in[0], NULL);
    return subtract(e, power, product);
}

/* where(target != 1, (margin - input).clamp_min_(0), 0) + where(target != -1, input, 0) */
static pl_value *hinge(pl_eager *e, pl_value **in, locals *l) {
    local(l, pl_new_like(e, in[0], (pl_dtype)in[0]->dtype));
    pl_value *margin =
        local(l, clamp_in_place(e, pl_pointwise(e, "RsubBackward1", ":n", in[0], NULL)));
    pl_value *far = local(l, choose(e, pl_hold(margin))),
             *near = local(l, choose(e, pl_hold(in[0])));
    return pl_pointwise(e, "AddBackward0", ":g|:g", far, near);
}

/* (-target (input1 - input2) + margin).clamp_min_(0) */
static pl_value *ranking(pl_eager *e, pl_value **in, locals *l) {
    (void)l;
    pl_value *difference = pl_pointwise(e, "SubBackward0", ":g|:n", in[0], in[1]);
    pl_value *sign =
        in[2] ? pl_pointwise(e, "NegBackward0", ":n", in[2], NULL) : pl_hold(difference);
    pl_value *product = pl_pointwise(e, "MulBackward0", "b:n|a:n", sign, difference);
    pl_value *moved = pl_pointwise(e, "AddBackward0", ":g", product, NULL);
    pl_drop(e, product);
    pl_drop(e, difference);
    pl_value *result = clamp_in_place(e, moved);
    pl_drop(e, sign);
    return result;
}

static pl_value *distance(pl_eager *e, pl_value *a, pl_value *b) {
    pl_value *difference = pl_pointwise(e, "SubBackward0", ":g|:n", a, b);
    pl_value *moved = pl_pointwise(e, "AddBackward0", ":g", difference, NULL);
    pl_value *norm = pl_norm_value(e, moved, moved->dims - 1, false, 2);
    pl_drop(e, difference);
    pl_drop(e, moved);
    return norm;
}

/* clamp_min(margin + |anchor - positive| - |anchor - negative|, 0) */
static pl_value *triplet(pl_eager *e, pl_value **in, locals *l) {
    (void)l;
    if (!in[2] || in[0]->dims == 0) return pl_hold(in[0]);
    pl_value *near = distance(e, in[0], in[1]), *far = distance(e, in[0], in[2]);
    pl_value *moved = one(e, "AddBackward0", ":g", near);
    pl_value *gap = subtract(e, moved, far);
    return one(e, "ClampMinBackward0", "a:smn", gap);
}

/* cos = sum(a b) / sqrt((sum(a a) + eps) (sum(b b) + eps)); then as hinge, a number per sample. */
static pl_value *cosine(pl_eager *e, pl_value **in, locals *l) {
    (void)l;
    int dim = in[0]->dims - 1;
    if (dim < 0) return pl_hold(in[0]);
    pl_value *sums[3], *pairs[3][2] = {{in[0], in[1]}, {in[0], in[0]}, {in[1], in[1]}};
    for (int i = 0; i < 3; i++) {
        pl_value *product = pl_pointwise(e, "MulBackward0", "b:n|a:n", pairs[i][0], pairs[i][1]);
        sums[i] = pl_sum_value(e, product, dim);
        if (i > 0) sums[i] = one(e, "AddBackward0", ":g", sums[i]);
        pl_drop(e, product);
    }
    pl_value *root =
        one(e, "SqrtBackward0", "r:tn", two(e, "MulBackward0", "b:n|a:n", sums[1], sums[2]));
    pl_value *quotient = two(e, "DivBackward0", "b:n|ab:tttn", sums[0], root);
    pl_value *far = pl_pointwise(e, "RsubBackward1", ":n", quotient, NULL);
    pl_value *near = one(e, "SubBackward0", ":g", quotient);
    return two(e, "AddBackward0", ":g|:g", choose(e, far), choose(e, clamp_in_place(e, near)));
}

static const struct {
    const char *name;
    pl_value *(*elements)(pl_eager *e, pl_value **in, locals *l);
} made_of_others[] = {
    {"l1_loss", l1},
    {"kl_div", kl_div},
    {"poisson_nll_loss", poisson},
    {"hinge_embedding_loss", hinge},
    {"margin_ranking_loss", ranking},
    {"triplet_margin_loss", triplet},
    {"cosine_embedding_loss", cosine},
};

void pl_run_made_loss(pl_eager *e, const pl_node *node, const pl_operator *op) {
    pl_value *in[MOST_INPUTS];
    take(e, node, op, MOST_INPUTS, in);
    locals l = {0};
    for (size_t i = 0; i < sizeof made_of_others / sizeof *made_of_others && in[0] && in[1]; i++)
        if (strcmp(made_of_others[i].name, op->name) == 0)
            pl_set_output(e, node, 0, reduced_by(e, node, made_of_others[i].elements(e, in, &l)));
    drop_all(e, l.count, l.held);
    drop_all(e, MOST_INPUTS, in);
}
