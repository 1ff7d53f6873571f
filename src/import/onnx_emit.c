/* onnx_emit: ONNX operators as the operators of PyTorch that they were exported from.
 *
 * One row per operator; the functions that the rows name are in files by family (onnx_emit.h).
 * Nodes whose results are known numbers leave nothing. What has no row is kept under its own name,
 * with the sizes that the file declares: the tape has a safe rule for operators that it does not
 * know.
 *
 * Sources: torch/onnx/_internal/torchscript_exporter/symbolic_opset*.py (PyTorch 2.11). */
#include "import/onnx_emit.h"

#include <math.h>
#include <string.h>

bool pl_onnx_number(onnx_emitter *e, uint32_t i, double *value) {
    const onnx_slot *s = emit_in(e, i);
    if (!s || !s->numbers || s->tensor != PL_NONE || pl_onnx_elements(s) != 1) return false;
    *value = s->numbers[0];
    return true;
}

int32_t pl_onnx_result(onnx_emitter *e, uint32_t i) {
    onnx_slot *s = emit_out(e, i);
    if (!s) return PL_NONE;
    if (s->dims < 0) {
        pl_build_fail(e->c->b, PL_INPUT, e->c->g->name,
                      "node %.80s (%.40s): the sizes of its result cannot be worked out",
                      e->n->name, e->n->op);
        return PL_NONE;
    }
    return pl_call_result(e->c->b, s->dtype, s->dims, s->sizes);
}

/* Kept under its own name. */
static int32_t unknown(onnx_emitter *e, const char *target) {
    enum { MOST = 64 };
    int32_t list[MOST];
    int count = 0;
    (void)target;
    for (uint32_t i = 0; i < e->n->input_count && count < MOST; i++) {
        int32_t id = emit_tensor(e, i);
        if (id != PL_NONE) list[count++] = id;
    }
    const char *name = *e->n->domain
                           ? pl_build_text(e->c->b, "onnx.%.100s.%.100s", e->n->domain, e->n->op)
                           : pl_build_text(e->c->b, "onnx.%.100s.default", e->n->op);
    pl_call(e->c->b, name);
    for (int i = 0; i < count; i++) pl_call_tensor(e->c->b, i == 0 ? "self" : "other", list[i]);
    int32_t first = PL_NONE;
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        int32_t id = emit_out(e, i) ? pl_onnx_result(e, i) : PL_NONE;
        if (i == 0) first = id;
        if (emit_out(e, i)) emit_out(e, i)->tensor = id;
    }
    return first;
}

/* ---- the table ---- */

/* Sorted by name: strcmp. */
static const struct row {
    const char *op;
    onnx_emit *emit;
    const char *target;
} rows[] = {
    {"Abs", pl_onnx_emit_one, "aten.abs.default"},
    {"Acos", pl_onnx_emit_one, "aten.acos.default"},
    {"Add", pl_onnx_emit_two, "aten.add.Tensor"},
    {"And", pl_onnx_emit_two, "aten.logical_and.default"},
    {"ArgMax", pl_onnx_emit_along, "aten.argmax.default"},
    {"ArgMin", pl_onnx_emit_along, "aten.argmin.default"},
    {"Asin", pl_onnx_emit_one, "aten.asin.default"},
    {"Atan", pl_onnx_emit_one, "aten.atan.default"},
    {"Attention", pl_onnx_emit_attention, "onnx.Attention.default"},
    {"AveragePool", pl_onnx_emit_pool, ""},
    {"BatchNormalization", pl_onnx_emit_batch_norm, ""},
    {"Bernoulli", pl_onnx_emit_one, "aten.bernoulli.default"},
    {"BitwiseAnd", pl_onnx_emit_two, "aten.bitwise_and.Tensor"},
    {"BitwiseNot", pl_onnx_emit_one, "aten.bitwise_not.default"},
    {"BitwiseOr", pl_onnx_emit_two, "aten.bitwise_or.Tensor"},
    {"BitwiseXor", pl_onnx_emit_two, "aten.bitwise_xor.Tensor"},
    {"Cast", pl_onnx_emit_cast, ""},
    {"CastLike", pl_onnx_emit_cast, ""},
    {"Ceil", pl_onnx_emit_one, "aten.ceil.default"},
    {"Celu", pl_onnx_emit_sloped, "aten.celu.default"},
    {"Clip", pl_onnx_emit_clip, ""},
    {"Concat", pl_onnx_emit_concat, ""},
    {"Constant", pl_onnx_emit_make, "aten.full.default"},
    {"ConstantOfShape", pl_onnx_emit_make, "aten.full.default"},
    {"Conv", pl_onnx_emit_convolution, ""},
    {"ConvTranspose", pl_onnx_emit_convolution, ""},
    {"Cos", pl_onnx_emit_one, "aten.cos.default"},
    {"CumSum", pl_onnx_emit_along, "aten.cumsum.default"},
    {"DepthToSpace", pl_onnx_emit_one, "aten.pixel_shuffle.default"},
    {"Div", pl_onnx_emit_two, "aten.div.Tensor"},
    {"Dropout", pl_onnx_emit_dropout, ""},
    {"Einsum", pl_onnx_emit_einsum, "aten.einsum.default"},
    {"Elu", pl_onnx_emit_sloped, "aten.elu.default"},
    {"Equal", pl_onnx_emit_two, "aten.eq.Tensor"},
    {"Erf", pl_onnx_emit_one, "aten.erf.default"},
    {"Exp", pl_onnx_emit_one, "aten.exp.default"},
    {"Expand", pl_onnx_emit_expand, ""},
    {"Flatten", pl_onnx_emit_reshape, "aten.reshape.default"},
    {"Floor", pl_onnx_emit_one, "aten.floor.default"},
    {"GRU", pl_onnx_emit_recurrent, ""},
    {"Gather", pl_onnx_emit_gather, ""},
    {"GatherElements", pl_onnx_emit_gather_elements, "aten.gather.default"},
    {"GatherND", pl_onnx_emit_indexed, "aten.index.Tensor"},
    {"Gelu", pl_onnx_emit_gelu, ""},
    {"Gemm", pl_onnx_emit_gemm, ""},
    {"GlobalAveragePool", pl_onnx_emit_global_pool, ""},
    {"GlobalMaxPool", pl_onnx_emit_global_pool, ""},
    {"Greater", pl_onnx_emit_two, "aten.gt.Tensor"},
    {"GreaterOrEqual", pl_onnx_emit_two, "aten.ge.Tensor"},
    {"GroupNormalization", pl_onnx_emit_group_norm, ""},
    {"HardSigmoid", pl_onnx_emit_one, "aten.hardsigmoid.default"},
    {"HardSwish", pl_onnx_emit_one, "aten.hardswish.default"},
    {"Identity", pl_onnx_emit_same, ""},
    {"InstanceNormalization", pl_onnx_emit_instance_norm, "aten.instance_norm.default"},
    {"IsInf", pl_onnx_emit_one, "aten.isinf.default"},
    {"IsNaN", pl_onnx_emit_one, "aten.isnan.default"},
    {"LSTM", pl_onnx_emit_recurrent, ""},
    {"LayerNormalization", pl_onnx_emit_layer_norm, ""},
    {"LeakyRelu", pl_onnx_emit_sloped, "aten.leaky_relu.default"},
    {"Less", pl_onnx_emit_two, "aten.lt.Tensor"},
    {"LessOrEqual", pl_onnx_emit_two, "aten.le.Tensor"},
    {"Log", pl_onnx_emit_one, "aten.log.default"},
    {"LogSoftmax", pl_onnx_emit_softmax, "aten.log_softmax.int"},
    {"MatMul", pl_onnx_emit_matmul, ""},
    {"Max", pl_onnx_emit_two, "aten.maximum.default"},
    {"MaxPool", pl_onnx_emit_pool, ""},
    {"Min", pl_onnx_emit_two, "aten.minimum.default"},
    {"Mish", pl_onnx_emit_one, "aten.mish.default"},
    {"Mod", pl_onnx_emit_two, "aten.remainder.Tensor"},
    {"Mul", pl_onnx_emit_two, "aten.mul.Tensor"},
    {"Neg", pl_onnx_emit_one, "aten.neg.default"},
    {"NegativeLogLikelihoodLoss", pl_onnx_emit_loss, "aten.nll_loss_nd.default"},
    {"Not", pl_onnx_emit_one, "aten.logical_not.default"},
    {"Or", pl_onnx_emit_two, "aten.logical_or.default"},
    {"PRelu", pl_onnx_emit_prelu, "aten.prelu.default"},
    {"Pad", pl_onnx_emit_pad, ""},
    {"Pow", pl_onnx_emit_two, "aten.pow.Tensor_Tensor"},
    {"RMSNormalization", pl_onnx_emit_layer_norm, ""},
    {"RNN", pl_onnx_emit_recurrent, ""},
    {"RandomNormal", pl_onnx_emit_make, "aten.randn.default"},
    {"RandomNormalLike", pl_onnx_emit_one, "aten.randn_like.default"},
    {"RandomUniform", pl_onnx_emit_make, "aten.rand.default"},
    {"RandomUniformLike", pl_onnx_emit_one, "aten.rand_like.default"},
    {"Range", pl_onnx_emit_make, "aten.arange.default"},
    {"Reciprocal", pl_onnx_emit_one, "aten.reciprocal.default"},
    {"ReduceL1", pl_onnx_emit_reduce, "aten.linalg_vector_norm.default"},
    {"ReduceL2", pl_onnx_emit_reduce, "aten.linalg_vector_norm.default"},
    {"ReduceLogSumExp", pl_onnx_emit_reduce, "aten.logsumexp.default"},
    {"ReduceMax", pl_onnx_emit_reduce, "aten.amax.default"},
    {"ReduceMean", pl_onnx_emit_reduce, "aten.mean.dim"},
    {"ReduceMin", pl_onnx_emit_reduce, "aten.amin.default"},
    {"ReduceProd", pl_onnx_emit_reduce, "aten.prod.dim_int"},
    {"ReduceSum", pl_onnx_emit_reduce, "aten.sum.dim_IntList"},
    {"Relu", pl_onnx_emit_one, "aten.relu.default"},
    {"Reshape", pl_onnx_emit_reshape, "aten.reshape.default"},
    {"Resize", pl_onnx_emit_resize, ""},
    {"Round", pl_onnx_emit_one, "aten.round.default"},
    {"ScatterElements", pl_onnx_emit_scatter, "aten.scatter.src"},
    {"ScatterND", pl_onnx_emit_indexed, "aten.index_put.default"},
    {"Selu", pl_onnx_emit_one, "aten.selu.default"},
    {"SequenceAt", pl_onnx_emit_sequence_at, ""},
    {"Sigmoid", pl_onnx_emit_one, "aten.sigmoid.default"},
    {"Sign", pl_onnx_emit_one, "aten.sign.default"},
    {"Sin", pl_onnx_emit_one, "aten.sin.default"},
    {"Slice", pl_onnx_emit_slice, ""},
    {"Softmax", pl_onnx_emit_softmax, "aten.softmax.int"},
    {"SoftmaxCrossEntropyLoss", pl_onnx_emit_loss, "aten.cross_entropy_loss.default"},
    {"Softplus", pl_onnx_emit_one, "aten.softplus.default"},
    {"SpaceToDepth", pl_onnx_emit_one, "aten.pixel_unshuffle.default"},
    {"Split", pl_onnx_emit_split, "aten.split_with_sizes.default"},
    {"SplitToSequence", pl_onnx_emit_split_to_sequence, "aten.split.Tensor"},
    {"Sqrt", pl_onnx_emit_one, "aten.sqrt.default"},
    {"Squeeze", pl_onnx_emit_reshape, "aten.view.default"},
    {"Sub", pl_onnx_emit_two, "aten.sub.Tensor"},
    {"Swish", pl_onnx_emit_one, "aten.silu.default"},
    {"Tan", pl_onnx_emit_one, "aten.tan.default"},
    {"Tanh", pl_onnx_emit_one, "aten.tanh.default"},
    {"Tile", pl_onnx_emit_tile, ""},
    {"TopK", pl_onnx_emit_top_k, "aten.topk.default"},
    {"Transpose", pl_onnx_emit_transpose, ""},
    {"Trilu", pl_onnx_emit_trilu, ""},
    {"Unsqueeze", pl_onnx_emit_reshape, "aten.view.default"},
    {"Upsample", pl_onnx_emit_resize, ""},
    {"Where", pl_onnx_emit_where, ""},
    {"Xor", pl_onnx_emit_two, "aten.logical_xor.default"},
};

static const struct row *row_of(const onnx_node *n) {
    size_t low = 0, high = sizeof rows / sizeof *rows;
    if (*n->domain && strcmp(n->domain, "ai.onnx") != 0) return NULL;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(n->op, rows[middle].op);
        if (order == 0) return &rows[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- nodes that belong together ---- */

/* The keys as attention takes them: their Transpose, less its turn of the last two dimensions. */
static int32_t turned_key(onnx_emitter *e, const onnx_step *s, int32_t key) {
    const onnx_node *n = &e->c->g->nodes[s->turn];
    const onnx_attr *perm = onnx_ints(n, "perm");
    int dims = pl_built_dims(e->c->b, key);
    int64_t order[PL_MAX_DIMS];
    bool straight = true;
    if (!perm || perm->count != (uint32_t)dims || dims < 2) return key;
    memcpy(order, perm->ints, (size_t)dims * sizeof *order);
    order[dims - 1] = perm->ints[dims - 2];
    order[dims - 2] = perm->ints[dims - 1];
    for (int i = 0; i < dims; i++) straight = straight && order[i] == i;
    return straight ? key : pl_aten_permute(e->c->b, key, dims, order);
}

/* Of a tensor that was made for it, in place. */
static int32_t bernoulli(onnx_emitter *e, const onnx_step *s, int32_t x) {
    const onnx_value *v = s->a < 0 ? NULL : &e->c->g->values[s->a];
    bool made = v && v->uses == 1 && v->producer >= 0 &&
                strcmp(e->c->g->nodes[v->producer].op, "ConstantOfShape") == 0;
    pl_call(e->c->b, made ? "aten.bernoulli_.float" : "aten.bernoulli.p");
    pl_call_tensor(e->c->b, "self", x);
    pl_call_float(e->c->b, "p", s->number);
    return pl_onnx_result(e, 0);
}

static int32_t emit_step(onnx_emitter *e, const onnx_step *s) {
    onnx_build *c = e->c;
    pl_builder *b = c->b;
    int32_t x = pl_onnx_tensor(c, s->a), y = pl_onnx_tensor(c, s->b), z = pl_onnx_tensor(c, s->c),
            w = pl_onnx_tensor(c, s->d);
    switch (s->kind) {
    case ONNX_SAME: return x;
    case ONNX_LINEAR: return pl_aten_linear(b, x, y, z);
    case ONNX_GELU: return pl_aten_gelu(b, x, false);
    case ONNX_GELU_TANH: return pl_aten_gelu(b, x, true);
    case ONNX_SILU: {
        const char *place = pl_onnx_in_place(c->g, e->at, "aten.silu.default");
        return pl_aten_unary(b, place ? place : "aten.silu.default", x);
    }
    case ONNX_RSQRT: return pl_aten_unary(b, "aten.rsqrt.default", x);
    case ONNX_BERNOULLI: return bernoulli(e, s, x);
    case ONNX_LAYER_NORM: return pl_aten_layer_norm(b, x, 1, y, z, s->second);
    case ONNX_GROUP_NORM: return pl_aten_group_norm(b, x, (int64_t)s->number, y, z, s->second);
    case ONNX_ATTENTION:
        y = turned_key(e, s, y);
        return pl_aten_attention(b, x, y, z, w, s->second, false, s->number > 0 ? s->number : NAN,
                                 false);
    default: return PL_NONE;
    }
}

/* All results are numbers, or nobody wants them. */
static bool is_numbers(onnx_emitter *e) {
    for (uint32_t i = 0; i < e->n->output_count; i++) {
        int32_t id = e->n->outputs[i];
        if (id >= 0 && e->c->g->values[id].uses > 0 && !e->c->slots[id].numbers) return false;
    }
    return true;
}

void pl_onnx_emit(onnx_build *c, const onnx_plan *plan, int32_t at) {
    onnx_emitter e = {.c = c, .plan = plan, .n = &c->g->nodes[at], .at = at};
    const onnx_step *step = &plan->steps[at];
    if (step->kind == ONNX_INSIDE || is_numbers(&e)) return;
    if (strcmp(e.n->op, "Shape") == 0 || strcmp(e.n->op, "Size") == 0) {
        pl_build_fail(c->b, PL_INPUT, c->g->name,
                      "node %.80s (%.10s): the sizes it asks for are not known", e.n->name,
                      e.n->op);
        return;
    }
    const struct row *row = row_of(e.n);
    pl_onnx_enter(c, e.n);
    int32_t made = step->kind != ONNX_ALONE ? emit_step(&e, step)
                   : row                    ? row->emit(&e, row->target)
                                            : unknown(&e, "");
    onnx_slot *s = onnx_out(c, e.n, 0);
    if (!s || s->list) return;
    s->tensor = made;
    if (made == PL_NONE)
        pl_build_fail(c->b, PL_INPUT, c->g->name,
                      "node %.80s (%.40s): sizes are not known or do not fit", e.n->name, e.n->op);
}
